"""Spaces from files: names looked up, documents checked, illegal values dropped from ranges and refused where they are listed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from baco.accel.config import SETTINGS, Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW, Dataflow, setting_of
from baco.accel.input_format import INPUT_FORMATS, InputFormat
from baco.accel.presets import load_accelerator
from baco.accel.technology import PUBLISHED, technology
from baco.common.errors import InfeasibleError, InputError, Location, did_you_mean
from baco.common.portable import Bools, Ints
from baco.common.yaml import YamlDoc, load_yaml, parse_model, parse_yaml
from baco.exploration.space.design_space import DesignSpace
from baco.exploration.space.file import MAX_KIB, SEARCHED, SearchRange, SpaceFile
from baco.exploration.space.in_technology import in_technology
from baco.exploration.space.points import with_units

SPACES_FOLDER = Path(__file__).parents[1] / "spaces"
_BANK_RULE = "gemmini rules want the rows of a bank to be a power of two and a multiple of dim"


def space_names() -> list[str]:
    """Names of the spaces that come with baco."""
    return sorted(path.stem for path in SPACES_FOLDER.glob("*.yaml"))


def load_space(name_or_path: str | Path) -> DesignSpace:
    """A named space, or one from a YAML file.

    Raises InputError for an unknown name or a malformed file, InfeasibleError when no accelerator satisfies the rules.
    Whether one satisfies the bounds as well, `baco.exploration.space.shortfall` says, when all of them are known.
    """
    text = str(name_or_path)
    if text in space_names():
        return read_space(load_yaml(SPACES_FOLDER / f"{text}.yaml"))
    path = Path(text)
    if (
        not path.suffix and path.name == text and not os.path.exists(path)
    ):  # Path.exists raises for long names
        raise InputError(
            f"unknown space '{text}'", hint=did_you_mean(text, space_names()) + ", or a YAML file"
        )
    return read_space(load_yaml(path), folder=path.parent)


def space_of(values: Mapping[str, Any], like: Mapping[str, Any] | None = None) -> DesignSpace:
    """A space like another but for what `values` say, by the keys of a space file. Raises as `load_space` does.

    Args:
        like: values of the other; by default those of `gemmini`.
    """
    if like is None:
        like = load_yaml(SPACES_FOLDER / "gemmini.yaml").data | {"name": "custom"}
    name = _technology_of(values)
    data = {**like, **values} if name is None else _values_in(name, values, like)
    try:
        text = json.dumps(data, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a space is made of numbers, texts, lists and dicts: {error}", location=Location("space")
        ) from None
    try:
        return dataclasses.replace(read_space(parse_yaml(text, "space")), doc=None)
    except (InputError, InfeasibleError) as error:
        if error.location is not None and error.location.file == "space":
            error.location = Location("space", node=error.location.node)  # there are no lines
        raise


def _technology_of(values: Mapping[str, Any]) -> str | None:
    """The technology that values name: by themselves, among what is fixed, or with their base."""
    fixed = values.get("fixed")
    named = values.get("technology") or (fixed.get("technology") if isinstance(fixed, Mapping) else None)
    if named is None and isinstance(values.get("base"), (str, Path)):
        try:
            own = load_accelerator(values["base"]).technology
        except InputError:
            return None  # who reads the space says so
        named = own if own != PUBLISHED else None
    return None if named is None else str(named)


def _values_in(name: str, values: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a space in a technology: what is said of them and not of the other space is meant for it, what the other says goes to
    it. Raises InputError for an unknown technology."""
    other = read_space(parse_yaml(json.dumps(like, default=_plain), "space"))
    try:
        moved = parse_yaml(in_technology(other, name).to_yaml(), "space").data
    except InputError as error:
        raise InputError(
            error.message, location=Location("space", node="technology"), hint=error.hint
        ) from None
    parts = ("fixed", "constraints", "settings")
    merged = {
        part: _merged(values.get(part, like.get(part)), like.get(part), moved.get(part)) for part in parts
    }
    return {
        **like,
        **values,
        **{part: one for part, one in merged.items() if one is not None},
        "technology": name,
    }


def _merged(own: Any, old: Any, new: Any) -> Any:
    """Of values by name, those that differ from the old ones, and the new ones of all others; what no names tell apart as it is."""
    if not isinstance(own, Mapping) and own is not None:
        return own
    own, old, new = own or {}, old or {}, new or {}
    found = {key: value for key, value in new.items() if key not in old}
    for key, value in own.items():
        if key in old and value == old[key]:
            if key in new:
                found[key] = new[key]
        elif isinstance(value, Mapping):
            found[key] = _merged(value, old.get(key), new.get(key))
        else:
            found[key] = value
    return found


def _plain(value: Any) -> Any:
    """A number of another library, or several, as plain values. Raises TypeError for what is none."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset, range)):
        return sorted(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} is none of these")


def _in_its_technology(base: Accelerator, memory_gb_s: float, file: SpaceFile, doc: YamlDoc) -> Accelerator:
    """The base with the clock and energies of the technology that the space names, or, where its base's file does, at a clock that
    the largest side closes at; at a clock that the space fixes in a measured technology, main memory has as many GB/s as the base by
    itself, unless the space says. Raises InputError for a clock that the space fixes and that it does not close at."""
    side, units = max(_values(file.dim)), _searches_units(file)
    named = [
        place
        for place in (("technology",), ("fixed", "technology"), ("fixed", "clock_mhz"))
        if (place[-1] in file.fixed if place[0] == "fixed" else file.technology is not None)
    ]
    if not named:
        return base.closing(side, units=units)
    if file.technology is not None:
        base = base.replace(technology=file.technology)
    chosen = {*file.fixed} | ({"energy"} if named[0][-1] == "clock_mhz" else set())
    if {*file.fixed} & {"clock_mhz", "dram_bytes_per_cycle"} == {"clock_mhz"} and (
        technology(base.technology).period is not None
    ):
        base = base.replace(dram_bytes_per_cycle=memory_gb_s * 1e3 / base.clock_mhz)
    own, decided = file.fixed.get("energy"), technology(base.technology).energy
    if isinstance(own, dict):  # of its constants those that are not fixed
        unsaid = {name: value for name, value in decided.items() if name not in own}
        base = base.replace(energy=base.energy.model_dump() | unsaid)
    try:
        return base.in_technology(chosen, side, units=units)
    except InputError as error:
        raise InputError(error.message, location=doc.location(named[0]), hint=error.hint) from None


def _searches_units(file: SpaceFile) -> bool:
    return file.units is not None and len(set(file.units)) > 1


def read_space(doc: YamlDoc, folder: Path | None = None) -> DesignSpace:
    """The space that a document describes; file names in it are looked up in `folder` first.

    Raises as `load_space` does.
    """
    file = parse_model(SpaceFile, doc)
    try:
        base = load_accelerator(file.base, folder)
    except InputError as error:
        if error.location is not None and os.path.isfile(error.location.file):
            raise  # it is about the content of that file
        raise InputError(error.message, location=doc.location(("base",)), hint=error.hint) from None
    for key in file.fixed:
        if key in SEARCHED:
            raise InputError(
                f"'{key}' is searched and cannot be fixed",
                location=doc.location(("fixed", key), key=True),
                hint=f"give the one value as '{'dataflows' if key == 'dataflow' else key}: [...]'",
            )
    features = file.fixed.get("features")
    if file.units is not None and isinstance(features, dict) and "row_functions" in features:
        raise InputError(
            "row_functions cannot be fixed where 'units' says what accelerators have",
            location=doc.location(("fixed", "features", "row_functions"), key=True),
            hint="give the one value as 'units: [none]' or 'units: [row_functions]'",
        )
    memory_gb_s = base.memory_gb_s
    if file.fixed:
        own = base.model_dump(mode="json")
        if file.fixed.get("input_format", "integer") != "integer":  # not every dataflow has such an array
            own["dataflow"] = setting_of(file.dataflows)
        base = parse_model(Accelerator, doc, ("fixed",), defaults=own)
    formats = _formats(file, base, doc)
    if formats and formats[0] != base.input_format:
        base = base.in_format(formats[0])
    if base.input_format != "integer" and {*file.dataflows} - {*base.dataflows}:
        raise InputError(
            f"arrays of {base.input_format} are {' and '.join(base.dataflows)} only",
            location=doc.location(("dataflows",)),
            hint=f"give 'dataflows: [{', '.join(base.dataflows)}]'",
        )
    if file.units is not None:
        base = with_units(base, "none" not in file.units)
    base = _in_its_technology(base, memory_gb_s, file, doc)
    if base.features.normalizations and (file.rules == "reference" or base.timing == "gemmini"):
        reason = "no programs run" if file.rules == "reference" else "there is no model of their cycles"
        given = isinstance(features, dict) and "normalizations" in features
        raise InputError(
            f"normaliser commands have no use here: under {'rules: reference' if file.rules == 'reference' else 'timing: gemmini'}"
            f" {reason}",
            location=doc.location(("fixed", "features", "normalizations") if given else ("base",), key=given),
            hint="leave features.normalizations off",
        )
    settings = tuple(
        (name, _values(given)) for name in SETTINGS if (given := getattr(file.settings, name)) is not None
    )
    space = DesignSpace(
        name=file.name,
        rules=file.rules,
        base=base,
        dim=_values(file.dim),
        scratchpad_kib=_values(file.scratchpad_kib),
        accumulator_kib=_values(file.accumulator_kib),
        dataflows=tuple(flow for flow in get_args(Dataflow) if flow in file.dataflows),
        double_buffer=file.double_buffer,
        constraints=file.constraints,
        networks=tuple(n.model_copy(update={"network": _beside(folder, n.network)}) for n in file.networks),
        search_units=_searches_units(file),
        formats=formats if len(formats) > 1 else (),
        settings=settings,
        doc=doc,
    )
    space = dataclasses.replace(space, clocks=space.different_clocks)
    _check_settings(space, file)
    space = _keep_legal(space, file)
    if not len(space.least_points()):
        raise _no_legal_pair(space)
    if space.rules == "gemmini":
        _check_base(space)
    return space


def _formats(file: SpaceFile, base: Accelerator, doc: YamlDoc) -> tuple[InputFormat, ...]:
    """Formats of elements that a file names, integers first. Raises InputError where it fixes one as well, or has no dataflow for one."""
    named = tuple(form for form in INPUT_FORMATS if form in (file.input_formats or ()))
    if named and "input_format" in file.fixed:
        raise InputError(
            "'input_format' is searched and cannot be fixed",
            location=doc.location(("fixed", "input_format"), key=True),
            hint="give the one value as 'input_formats: [...]'",
        )
    if len(named) > 1 and (file.rules == "reference" or MACRO_DATAFLOW not in file.dataflows):
        raise InputError(
            "several input_formats are searched by the gemmini rules, weight-stationary",
            location=doc.location(("input_formats",)),
            hint="leave out all but one",
        )
    for form in named:
        try:
            base.in_format(form)
        except InputError as error:
            raise InputError(error.message, location=doc.location(("input_formats",))) from None
    return named


def _check_settings(space: DesignSpace, file: SpaceFile) -> None:
    """Refuse settings that are fixed as well, that no accelerator may have, or that nothing here would look at."""
    for name, values in space.settings:
        place = space.locate("settings", name)
        field, row = SETTINGS[name]
        if field in file.fixed and len(values) < 2:
            raise InputError(f"'{field}' is fixed and a setting as well", location=place)
        if space.rules == "reference" or space.base.timing == "gemmini":
            raise InputError(
                f"'settings' are not searched with {'rules: reference' if space.rules == 'reference' else 'timing: gemmini'}",
                location=place,
                hint="leave them out",
            )
        if values[0] < row.least:
            raise InputError(
                f"settings.{name} cannot be {values[0]}: {row.why}",
                location=place,
                hint=f"give {row.least} or more, or fix it for all accelerators",
            )
        if name == "clock_mhz" and technology(space.base.technology).period is not None:
            raise InputError(
                "settings.clock_mhz: supplies of several clocks are known of published machines alone",
                location=place,
                hint=f"leave it out: designs get the clock that they close at in {space.base.technology}",
            )
        for value in values:
            try:
                space.base.with_setting(name, value)
            except InputError as error:
                raise InputError(
                    f"settings.{name} cannot be {value}: {error.message}", location=place
                ) from None


def _check_base(space: DesignSpace) -> None:
    """Refuse a base that Gemmini cannot have whatever is chosen for the rest."""
    points = space.rule_points()
    one = space.accelerator(points.dim[0], points.accumulator_kib[0], points.scratchpad_kib[0])
    # row functions are no part of Gemmini: what they add leaves the rest of the accelerator as it is
    problems = with_units(one, False).gemmini_problems()
    if problems:
        raise InputError(
            f"the fixed part of the accelerator is not legal for Gemmini: {problems[0]}",
            location=space.locate("fixed"),
            hint="change it, or use 'rules: reference'",
        )


def _values(choice: list[int] | SearchRange) -> tuple[int, ...]:
    return choice.values if isinstance(choice, SearchRange) else tuple(sorted(set(choice)))


def _beside(folder: Path | None, spec: str) -> str:
    """A file that a space names is looked for beside the space first, like an include."""
    if folder is not None and os.path.isfile(folder / spec.split(":")[0]):
        return str(folder / spec)
    return spec


def _keep_legal(space: DesignSpace, file: SpaceFile) -> DesignSpace:
    """Drop illegal values of ranges; refuse those that a list gives one by one."""
    gemmini, step = space.rules == "gemmini", space.base.tile_rows
    known_dims = [d for d in range(2, 129) if d % step == 0 and not (gemmini and d & (d - 1))]
    legal_dims = [d for d in space.dim if d in known_dims]
    rules = ["a power of two"] if gemmini else []
    rules += [f"a multiple of tile_rows ({step})"] if step > 1 else []
    _refuse(space, "dim", file.dim, legal_dims, lambda: known_dims, f"it must be {' and '.join(rules)}")
    kept: dict[str, Any] = {"dim": tuple(legal_dims)}
    if not gemmini:
        return dataclasses.replace(space, dim=tuple(legal_dims))
    sides = np.array(legal_dims)
    for name, rule in (
        ("scratchpad_kib", space.legal_scratchpad),
        ("accumulator_kib", space.legal_accumulator),
    ):
        values = np.array(getattr(space, name))
        legal = values[rule(sides[:, None], values[None, :]).any(0)].tolist()
        _refuse(
            space,
            name,
            getattr(file, name),
            legal,
            functools.partial(_legal_capacities, legal_dims, rule),
            f"{_BANK_RULE} ({_list(legal_dims)})",
        )
        kept[name] = tuple(legal)
    return dataclasses.replace(space, **kept)


def _refuse(
    space: DesignSpace,
    name: str,
    given: list[int] | SearchRange,
    legal: list[int],
    known: Callable[[], list[int]],
    why: str,
) -> None:
    """Raise for an illegal entry of a list, or a range without a legal value, naming the nearest of those `known`, which
    takes long to list."""
    if isinstance(given, SearchRange):
        if not legal:
            ends = (given.min, given.max)
            near = min(known(), key=lambda v: min(abs(v - e) for e in ends), default=None)
            raise InfeasibleError(
                f"no value of '{name}' from {given.min} to {given.max} is legal: {why}",
                location=space.locate(name),
                hint=f"nearest feasible value: {near}" if near else None,
            )
        return
    for i, value in enumerate(given):
        if value not in legal:
            near = min(known(), key=lambda v: (abs(v - value), v), default=None)
            raise InfeasibleError(
                f"'{name}' cannot be {value}: {why}",
                location=space.locate(name, i),
                hint=f"nearest feasible value: {near}" if near else None,
            )


def _no_legal_pair(space: DesignSpace) -> InfeasibleError:
    """Each value is legal for some side, but no side has a scratchpad and an accumulator that fit it."""
    capacities = np.array(_legal_capacities(space.dim, space.legal_scratchpad))
    wider = dataclasses.replace(space, scratchpad_kib=tuple(capacities.tolist()))
    found = wider.rule_points().scratchpad_kib
    given = np.array(space.scratchpad_kib)
    distance = np.abs(np.log2(found[:, None] / given[None, :])).min(1)
    return InfeasibleError(
        f"no combination of dim, scratchpad_kib and accumulator_kib is legal: {_BANK_RULE}, and the scratchpad "
        "to have two blocks of dim rows more than the accumulator",
        location=space.locate("scratchpad_kib"),
        hint=f"nearest feasible value: scratchpad_kib: {found[distance.argmin()]}" if len(found) else None,
    )


def _legal_capacities(sides: Sequence[int], rule: Callable[[Ints, Ints], Bools]) -> list[int]:
    """All capacities up to the largest that can be asked for that are legal for some of `sides`."""
    universe = np.arange(1, MAX_KIB + 1)
    legal = rule(np.array(sides)[:, None], universe[None, :]).any(0)
    return [int(kib) for kib in universe[legal]]


def _list(values: list[int]) -> str:
    texts = [str(v) for v in values]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:4], "...", texts[-1]])
