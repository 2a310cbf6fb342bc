"""Machines as files: YAML with the fields of `baco.compiler.mapping.machine.Machine`."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from baco.common.document import Path_, YamlDoc, load_yaml, path_text
from baco.common.errors import InputError, did_you_mean
from baco.compiler.mapping.machine import Machine

_ADAPTER = TypeAdapter(Machine)


def machine_names() -> list[str]:
    """Names of the machines that come with the product, sorted."""
    folder = resources.files(__package__)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def is_machine(name: str) -> bool:
    """Whether this names a machine: one that comes with the product, or a file with levels of memories."""
    if name in machine_names() or Path(name).suffix not in (".yaml", ".yml") or not Path(name).is_file():
        return name in machine_names()
    fields = load_yaml(name).get(())
    return isinstance(fields, dict) and "levels" in fields


def load_machine(name: str | Path) -> Machine:
    """A machine by its name, or of a file (`.yaml`, `.yml`, or any path that exists).

    Raises InputError with the place in the file of what is wrong there.
    """
    text = str(name)
    if text in machine_names():
        with resources.as_file(resources.files(__package__) / f"{text}.yaml") as path:
            return _read(load_yaml(path))
    if Path(text).suffix in (".yaml", ".yml") or Path(text).exists():
        return _read(load_yaml(text))
    raise InputError(
        f"there is no machine '{text}'",
        hint=f"{did_you_mean(text, machine_names())}; or give a file, FILE.yaml",
    )


def _read(doc: YamlDoc) -> Machine:
    try:
        # JSON mode is strict about types yet lets lists become tuples
        return _ADAPTER.validate_json(json.dumps(doc.get(())), strict=True)
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        path: Path_ = tuple(part for part in first["loc"])
        raise InputError(
            f"{path_text(path) or 'machine'}: {first['msg'].removeprefix('Value error, ')}",
            location=doc.location(path),
            hint="the fields are those of the machines that come with baco: " + ", ".join(machine_names()),
        ) from None
    except InputError as error:
        raise InputError(error.message, location=doc.location(()), hint=error.hint) from None
