"""Accelerators that come with the product, one YAML file each, and finding these and others by what names them.

What names an accelerator is one line, wherever one is asked for: a preset, a file, or the folder of a study, and behind it what
differs: `gemmini-default,dataflow=OS,dim=8,features.max_pool=false`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from baco.accel.config import Accelerator
from baco.accel.system import HOST, System
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.text import one_line
from baco.common.yaml import load_yaml, parse_model, parse_yaml

__all__ = [
    "BEST",
    "changed_accelerator",
    "is_system",
    "load_accelerator",
    "load_system",
    "preset_names",
    "system_of",
]

#: Configuration of the best design in the folder of a study.
BEST = "best/accelerator.yaml"
#: Files whose `base` is a file, in a row.
_MOST_BASES = 8
#: Characters of an accelerator's name.
_LONGEST_NAME = 64


class _AcceleratorFile(Accelerator):  # type: ignore[metaclass]
    """What a configuration file may hold."""

    base: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="accelerator that gives the values of what is not said: a preset, a file, the folder of a study",
    )


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    folder = resources.files(__package__)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_accelerator(source: str | Path, folder: Path | None = None) -> Accelerator:
    """A preset by its name, a configuration file by its path, or the best design of a study by the study's folder.

    Behind any of these may follow what differs, as `KEY=VALUE` behind commas, with the keys of a configuration file; a dot leads
    into a part of it. A preset wins over a file or folder of the same name; write `./NAME` for that.

    Args:
        source: what names it.
        folder: where relative names are looked up first, like those of an include.

    Raises InputError when it is none of them, when the file is wrong, and for a key or value that does not exist.
    """
    return _load(source, folder, _MOST_BASES)


class _SystemFile(BaseModel):
    """What the file of a system may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        "system", min_length=1, max_length=_LONGEST_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
    )
    units: tuple[str, ...] = Field(
        description="accelerators, as a command's --accelerator takes them, or `host`: a core without one"
    )


def is_system(source: str | Path) -> bool:
    """Whether this names the file of a system: one with the key `units`. Raises InputError for a file that is no YAML."""
    if Path(source).suffix not in (".yaml", ".yml") or not os.path.isfile(source):
        return False
    data = load_yaml(Path(source)).data
    return isinstance(data, dict) and "units" in data


def load_system(path: str | Path) -> System:
    """A system by its file; accelerators that are named relatively are looked up beside it first.

    Raises InputError with file and place for what is wrong with it.
    """
    doc = load_yaml(Path(path))
    file = parse_model(_SystemFile, doc)
    units = []
    for at, text in enumerate(file.units):
        try:
            units.append((text, None if text == HOST else load_accelerator(text, Path(path).parent)))
        except InputError as error:
            if error.location is not None and os.path.isfile(error.location.file):
                raise
            raise InputError(error.message, location=doc.location(("units", at)), hint=error.hint) from None
    try:
        return System.of(units, file.name)
    except InputError as error:
        raise InputError(error.message, location=doc.location(("units",)), hint=error.hint) from None


def system_of(units: Iterable[str], name: str = "system") -> System:
    """The system of units as the file of one names them. Raises InputError."""
    return System.of(((text, None if text == HOST else load_accelerator(text)) for text in units), name)


def changed_accelerator(base: Accelerator, changes: Mapping[str, Any], where: str) -> Accelerator:
    """The accelerator with other values; its name says what differs, unless it is among them.

    Args:
        changes: as a configuration file has them: parts (`features`, `energy`) are mappings of what differs in them.
        where: what an error's location names.

    Raises InputError for a key or value that does not exist.
    """
    doc = parse_yaml(json.dumps(changes), where)
    try:
        accelerator = parse_model(Accelerator, doc, defaults=base.model_dump(mode="json"))
    except InputError as error:
        raise _moved(error, where) from None
    if "technology" in changes:
        accelerator = _made(accelerator, changes, where)
    return accelerator if "name" in changes else _named(accelerator, base)


def _made(found: Accelerator, given: Iterable[str], where: str) -> Accelerator:
    """The accelerator with the clock and energies of its technology."""
    try:
        return found.in_technology(given)
    except InputError as error:
        raise InputError(error.message, location=Location(where), hint=error.hint) from None


def _moved(error: InputError, where: str) -> InputError:
    """The error without lines and columns, which would be those of text that nobody wrote."""
    node = error.location.node if error.location else None
    also = [_moved(one, where) for one in error.also if isinstance(one, InputError)]
    return InputError(error.message, location=Location(where, node=node), hint=error.hint, also=also)


def _load(source: str | Path, folder: Path | None, depth: int) -> Accelerator:
    text = str(source)
    name, changes = _parts(text, folder)
    base = _by_name(name, folder, depth, is_path=isinstance(source, Path))
    return changed_accelerator(base, _nested(changes, text), text) if changes else base


def _parts(text: str, folder: Path | None) -> tuple[str, list[str]]:
    """What names an accelerator, and the changes behind it. Commas in the names of files that exist are theirs."""
    end = len(text)
    while end > 0:
        if end == len(text) or text[end] == ",":
            name = text[:end]
            if os.path.exists(name) or (folder is not None and os.path.exists(folder / name)):
                return name, text[end + 1 :].split(",") if end < len(text) else []
        end = text.rfind(",", 0, end)
    name, comma, rest = text.partition(",")
    return name, rest.split(",") if comma else []


def _nested(changes: list[str], text: str) -> dict[str, Any]:
    """`features.max_pool=false` as a configuration file has it. Raises InputError."""
    here = Location(one_line(text, 200))
    found: dict[str, Any] = {}
    for one in changes:
        key, equals, value = (part.strip() for part in one.partition("="))
        *parts, last = key.split(".")
        if not equals or not all((*parts, last)):
            raise InputError(
                f"'{one_line(one, 100)}' is no change of an accelerator",
                location=here,
                hint="write KEY=VALUE behind commas: gemmini-default,dim=8,features.max_pool=false",
            )
        inside = found
        for part in parts:
            inside = inside.setdefault(part, {})
            if not isinstance(inside, dict):
                break
        if not isinstance(inside, dict) or last in inside:
            raise InputError(f"'{key}' is given twice", location=here)
        inside[last] = parse_yaml(value, text).data
    return found


def _by_name(text: str, folder: Path | None, depth: int, *, is_path: bool) -> Accelerator:
    names = preset_names()
    if text in names and not is_path:
        with resources.as_file(resources.files(__package__) / f"{text}.yaml") as path:
            return _read(path, depth)
    looks_like_path = is_path or "/" in text or Path(text).suffix in (".yaml", ".yml")
    # os.path, unlike Path, takes names that no file can have for missing ones
    if folder is not None and text and os.path.exists(folder / text):
        text = str(folder / text)
    if os.path.isdir(text):
        best = os.path.join(text, BEST)
        if not os.path.exists(best):
            raise InputError(
                f"this folder holds no {BEST}",
                location=Location(text),
                hint="that of a study does once its report is written: baco report DIR",
            )
        return _read(Path(best), depth)
    if text and (looks_like_path or os.path.exists(text)):
        return _read(Path(text), depth)
    hint = did_you_mean(text, names)
    if "=" in text:
        hint = f"begin with what it differs from: gemmini-default,{one_line(text, 100)}"
    raise InputError(
        f"no accelerator '{one_line(text, 200)}': it is neither a preset nor a file nor the folder of a study",
        hint=hint,
    )


def _read(path: Path, depth: int) -> Accelerator:
    """A configuration file, on what its `base` names."""
    doc = load_yaml(path)
    data = doc.data if isinstance(doc.data, dict) else {}
    base: Accelerator | None = None
    if isinstance(data.get("base"), str) and data["base"]:
        place = doc.location(("base",))
        if depth == 0:
            raise InputError(
                f"more than {_MOST_BASES} files have each other as a base",
                location=place,
                hint="name a preset",
            )
        try:
            base = _load(data["base"], path.parent, depth - 1)
        except InputError as error:
            if error.location is not None and os.path.isfile(error.location.file):
                raise  # it is about the content of that file
            raise InputError(error.message, location=place, hint=error.hint) from None
    # the name is not inherited: it says what differs
    defaults = None if base is None else base.model_dump(mode="json", exclude={"name"})
    file = parse_model(_AcceleratorFile, doc, defaults=defaults)
    accelerator = Accelerator.model_validate(file.model_dump(exclude={"base"}))
    if "technology" in data:
        accelerator = _made(accelerator, data, str(path))
    return accelerator if base is None or "name" in data else _named(accelerator, base)


def _named(accelerator: Accelerator, base: Accelerator) -> Accelerator:
    """The accelerator under the name of what it was made from, and what differs: `gemmini-default+dim-8`."""
    name = base.name
    differences = [f"+{key}-{_word(value)}" for key, value in _differences(base, accelerator)]
    for index, text in enumerate(differences):
        left = f"+{len(differences) - index}-more"
        last = index == len(differences) - 1
        if len(name) + len(text) + (0 if last else len(left)) > _LONGEST_NAME:
            name = name[: _LONGEST_NAME - len(left)] + left
            break
        name += text
    return accelerator.replace(name=name)


def _differences(one: BaseModel, other: BaseModel) -> Iterator[tuple[str, Any]]:
    """Fields of two models of one type that differ, with the second one's value; the name aside."""
    for name in Accelerator.model_fields if isinstance(one, Accelerator) else type(one).model_fields:
        first, second = getattr(one, name), getattr(other, name)
        if isinstance(first, BaseModel):
            yield from _differences(first, second)
        elif first != second and name != "name":
            yield name, second


def _word(value: Any) -> str:
    text = (
        json.dumps(value)
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
    return re.sub(r"[^A-Za-z0-9._+-]", "-", text)
