"""Accelerators that come with the product, one YAML file each, and finding them by name."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from accel.config import Accelerator
from common.errors import InputError, did_you_mean
from common.text import one_line

__all__ = ["load_accelerator", "preset_names"]


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    folder = resources.files(__package__)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_accelerator(name_or_path: str | Path) -> Accelerator:
    """A preset by its name, or a configuration file by its path.

    A preset wins over a file of the same name; write `./NAME` for the file.
    Raises InputError when it is neither, or when the file is wrong.
    """
    text = str(name_or_path)
    names = preset_names()
    if text in names:
        with resources.as_file(resources.files(__package__) / f"{text}.yaml") as path:
            return Accelerator.from_yaml(path)
    # os.path.exists, unlike Path.exists, is merely false for names that no file can have
    looks_like_path = isinstance(name_or_path, Path) or "/" in text or Path(text).suffix in (".yaml", ".yml")
    if text and (looks_like_path or os.path.exists(text)):
        return Accelerator.from_yaml(name_or_path)
    raise InputError(
        f"no accelerator '{one_line(text, 200)}': it is neither a preset nor a file",
        hint=did_you_mean(text, names),
    )
