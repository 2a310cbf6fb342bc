"""Accelerators that come with the product, one YAML file each, and finding these and others by name."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from baco.accel.config import Accelerator
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.text import one_line

__all__ = ["load_accelerator", "preset_names"]

#: Configuration of the best design in the folder of a study.
BEST = "best/accelerator.yaml"


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    folder = resources.files(__package__)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_accelerator(name_or_path: str | Path) -> Accelerator:
    """A preset by its name, a configuration file by its path, or the best design of a study by the study's folder.

    A preset wins over a file or folder of the same name; write `./NAME` for that.
    Raises InputError when it is none of them, or when the file is wrong.
    """
    text = str(name_or_path)
    names = preset_names()
    if text in names:
        with resources.as_file(resources.files(__package__) / f"{text}.yaml") as path:
            return Accelerator.from_yaml(path)
    # os.path, unlike Path, takes names that no file can have for missing ones
    if os.path.isdir(text):
        best = os.path.join(text, BEST)
        if not os.path.exists(best):
            raise InputError(
                f"this folder holds no {BEST}",
                location=Location(text),
                hint="that of a study does once its report is written: baco report DIR",
            )
        return Accelerator.from_yaml(best)
    looks_like_path = isinstance(name_or_path, Path) or "/" in text or Path(text).suffix in (".yaml", ".yml")
    if text and (looks_like_path or os.path.exists(text)):
        return Accelerator.from_yaml(name_or_path)
    raise InputError(
        f"no accelerator '{one_line(text, 200)}': it is neither a preset nor a file nor the folder of a study",
        hint=did_you_mean(text, names),
    )
