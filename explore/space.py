"""The design space: which accelerators a search may choose from, and the constraints on designs."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow, setting_of
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError, Location, did_you_mean
from baco.common.portable import Bools, Ints
from baco.common.provenance import stable_hash
from baco.common.shown import Shown
from baco.common.yaml import YamlDoc, load_yaml, parse_model, parse_yaml
from baco.exploration.constraints import Constraints
from baco.exploration.hardware import HardwarePoints, legal_bank, member, with_units
from baco.exploration.space_file import (
    MAX_KIB,
    SEARCHED,
    SETTING_FIELDS,
    Rules,
    SearchRange,
    Settings,
    SpaceFile,
    WeightedNetwork,
)

SPACES_FOLDER = Path(__file__).parent / "spaces"
_BANK_RULE = "gemmini rules want the rows of a bank to be a power of two and a multiple of dim"
#: Spaces with more combinations of choices than this are not enumerated.
MAX_POINTS = 1_000_000


#: Places among the values of a space's settings, one each.
Choice = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class DesignSpace(Shown):
    """A design space (design vocabulary).

    Attributes:
        name: what reports call it; no part of its hash.
        rules: `gemmini` (power-of-two sides and banks) or `reference` (any).
        base: accelerator that gives the values of what is not searched.
        dim, scratchpad_kib, accumulator_kib: allowed values, ascending. With the `gemmini` rules a pair of
            side and capacity must be legal too: ask `legal`.
        dataflows: allowed stationary operands.
        search_units: whether an accelerator has row functions is searched; else all are as `base` in that.
        settings: what else is searched (`space_file.Settings`): names and their values, ascending. Everything that asks for
            accelerators, areas or rules means those with the values of `base`; `at` gives the space with others.
        clocks: whether designs of several clocks are compared, so that time counts and not cycles (`Cost.clock_mhz`).
        double_buffer: tiles that change are held twice, but for tensors that a mapping holds once; where it is false,
            all are held once.
        constraints: upper bounds.
        networks: the workload that the file itself names, if any.
        doc: the YAML document it was read from, for error locations.
    """

    name: str
    rules: Rules
    base: Accelerator
    dim: tuple[int, ...]
    scratchpad_kib: tuple[int, ...]
    accumulator_kib: tuple[int, ...]
    dataflows: tuple[Dataflow, ...]
    double_buffer: bool
    constraints: Constraints = field(default_factory=Constraints)
    networks: tuple[WeightedNetwork, ...] = ()
    search_units: bool = False
    settings: tuple[tuple[str, tuple[int, ...]], ...] = ()
    clocks: bool = False
    doc: YamlDoc | None = field(default=None, compare=False, repr=False)

    def _headline(self) -> str:
        flows = " or ".join(self.dataflows)
        more = f", {', '.join(name for name, _ in self.settings)}" if self.settings else ""
        return (
            f"{self.name}: sides {_span(self.dim)}, {flows}, scratchpad {_span(self.scratchpad_kib)} KiB,"
            f" accumulator {_span(self.accumulator_kib)} KiB{more},"
            f" {self.rules} rules"
        )

    def _facts(self) -> Iterator[tuple[str, object]]:
        for name in ("dim", "scratchpad_kib", "accumulator_kib"):
            yield name, _span(getattr(self, name))
        yield "dataflows", ", ".join(self.dataflows)
        yield "units", "row_functions or none" if self.search_units else None
        for name, values in self.settings:
            yield name, _span(values)
        yield "base", self.base.name
        bounds = self.constraints.model_dump(exclude_none=True)
        yield (
            "constraints",
            ", ".join(f"{name}: {bound}" for name, bound in bounds.items() if bound != {}) or None,
        )
        yield "networks", ", ".join(one.network for one in self.networks) or None

    @property
    def enumerable(self) -> bool:
        """Whether `hardware` can list the points."""
        return len(self.dim) * len(self.scratchpad_kib) * len(self.accumulator_kib) <= MAX_POINTS

    @property
    def units(self) -> tuple[bool, ...]:
        """Whether accelerators have row functions: all possibilities, without them first."""
        return (False, True) if self.search_units else (self.base.features.row_functions,)

    def units_at(self, chosen: Any) -> Any:
        """Which accelerators have row functions: those chosen where that is searched (None: none), else as `base` says."""
        return chosen if self.search_units and chosen is not None else self.units[0]

    def without_units(self) -> DesignSpace:
        """The space without the choice of row functions: no accelerator has any. A space without the choice as it is."""
        return dataclasses.replace(self, search_units=False) if self.search_units else self

    # -- settings ----------------------------------------------------------------------------------------

    @property
    def chosen(self) -> Choice:
        """Places among the values of `settings` that are nearest in ratio to those of `base`."""
        found = []
        for name, values in self.settings:
            own = float(getattr(self.base, name))
            ratio = [max(value / own, own / value) for value in values]
            found.append(ratio.index(min(ratio)))
        return tuple(found)

    def choice_of(self, accelerator: Accelerator) -> Choice:
        """Places among the values of `settings` that an accelerator of the space has (the nearest, for any other)."""
        return dataclasses.replace(self, base=accelerator).chosen

    def has_settings_of(self, accelerator: Accelerator) -> bool:
        """Whether an accelerator has the settings of `base`."""
        names = [SETTING_FIELDS.get(name, name) for name in Settings.model_fields]
        return all(getattr(self.base, name) == getattr(accelerator, name) for name in names)

    def at(self, choice: Choice) -> DesignSpace:
        """The space of the accelerators with some values of `settings`, by their places: one without settings.

        The clock comes with its energy (`EnergyTable.at_clock`), and main memory keeps its GB/s at any.
        """
        if not self.settings:
            return self
        values: dict[str, Any] = {name: of[n] for (name, of), n in zip(self.settings, choice, strict=True)}
        base, clock = self.base, float(values.pop("clock_mhz", self.base.clock_mhz))
        gb_s = float(values.pop("memory_gb_s", base.memory_gb_s))
        if clock != base.clock_mhz:
            values["energy"] = base.energy.at_clock(clock, base.clock_mhz).model_dump()
        values |= {"clock_mhz": clock, "dram_bytes_per_cycle": gb_s * 1e3 / clock}
        values["dma_max_bytes"] = max(base.dma_max_bytes, values.get("dma_bits", 0) // 8)
        return dataclasses.replace(self, base=base.replace(**values), settings=())

    @property
    def clock_mhz(self) -> float | None:
        """See `Cost.clock_mhz`: of the accelerators of this space."""
        return self.base.clock_mhz if self.clocks else None

    def hardware(self) -> HardwarePoints:
        """All legal accelerators that satisfy the bounds on area and SRAM.

        Raises InputError when there are too many to list (see `enumerable`).
        """
        points = self.rule_points()
        return points.take(self._within_bounds(points))

    def rule_points(self) -> HardwarePoints:
        """All accelerators that the rules and choices allow, constraints not considered. Raises InputError."""
        if not self.enumerable:
            raise InputError(f"the space '{self.name}' has too many hardware points to list")
        grids = np.meshgrid(
            *(np.array(v, dtype=np.int64) for v in (self.dim, self.scratchpad_kib, self.accumulator_kib)),
            indexing="ij",
        )
        dim, scratchpad, accumulator = (grid.ravel() for grid in grids)
        keep = self.legal(dim, accumulator, scratchpad)
        return self._with_all_units(dim[keep], accumulator[keep], scratchpad[keep])

    def _with_all_units(self, dim: Ints, accumulator_kib: Ints, scratchpad_kib: Ints) -> HardwarePoints:
        """The accelerators of some sizes (H,): those without row functions, then those with."""
        dim, accumulator, scratchpad = (
            np.tile(one, len(self.units)) for one in (dim, accumulator_kib, scratchpad_kib)
        )
        units = np.repeat(self.units, len(dim) // len(self.units))
        return HardwarePoints(
            dim, accumulator, scratchpad, self.area_of(dim, accumulator, scratchpad, units), units
        )

    def area_of(self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any, units: Any = None) -> Any:
        """Area in mm² of points: that of their accelerators (see `accelerator`), so what `base` has counts.

        Args:
            dim, accumulator_kib, scratchpad_kib: numbers, numpy arrays or torch tensors of any one broadcastable
                shape, which the result has; fractional values are accepted.
            units: which have row functions (numbers, 0 or 1, or booleans, that broadcast with the sizes), where that is
                searched; None: none does. Of no account in other spaces.

        The area never falls as a capacity grows; in the side it may, see `baco.accel.area`.
        """
        return self._by_units(lambda one: one.area_of(dim, accumulator_kib, scratchpad_kib), units)

    def static_pj_of(
        self, cycles: Any, dim: Any, accumulator_kib: Any, scratchpad_kib: Any, units: Any = None
    ) -> Any:
        """Static energy of points in pJ over some cycles, see `Accelerator.static_pj_of`; `units` as of `area_of`."""
        return self._by_units(
            lambda one: one.static_pj_of(cycles, dim, accumulator_kib, scratchpad_kib), units
        )

    def _by_units(self, of: Callable[[Accelerator], Any], units: Any) -> Any:
        """What `of` says of the accelerators with row functions or without."""
        if units is None or not self.search_units:
            return of(self._unsized[0])
        chosen = units * 1.0
        # one of the addends is zero, so that the other keeps all its bits, with gradients or not
        return of(self._unsized[0]) * (1.0 - chosen) + of(self._unsized[1]) * chosen

    def legal(self, dim: ArrayLike, accumulator_kib: ArrayLike, scratchpad_kib: ArrayLike) -> Bools:
        """Whether the choices and rules allow each accelerator (constraints are not considered).

        Arguments broadcast; capacities that are no whole KiB are illegal.
        """
        dims, accumulators, scratchpads = self._choices
        found = (
            member(dim, dims) & member(accumulator_kib, accumulators) & member(scratchpad_kib, scratchpads)
        )
        if self.rules == "gemmini":
            found = found & self.legal_scratchpad(dim, scratchpad_kib)
            found = found & self.legal_accumulator(dim, accumulator_kib)
            found = found & self._deeper_scratchpad(dim, accumulator_kib, scratchpad_kib)
        return np.asarray(found)

    def allowed(
        self,
        dim: ArrayLike,
        accumulator_kib: ArrayLike,
        scratchpad_kib: ArrayLike,
        units: ArrayLike | None = None,
    ) -> Bools:
        """`legal`, and within the bounds on area and SRAM; `units` as of `area_of`."""
        d, a, s, u = np.broadcast_arrays(
            dim, accumulator_kib, scratchpad_kib, self.units[0] if units is None else units
        )
        points = HardwarePoints(d, a, s, self.area_of(d, a, s, u), u)
        return self.legal(d, a, s) & self._within_bounds(points)

    def legal_scratchpad(self, dim: ArrayLike, scratchpad_kib: ArrayLike) -> Bools:
        """Gemmini's rule: rows of a scratchpad bank are a power of two and a multiple of `dim`."""
        return legal_bank(dim, scratchpad_kib, self.base.scratchpad_banks, self.base.input_bits)

    def legal_accumulator(self, dim: ArrayLike, accumulator_kib: ArrayLike) -> Bools:
        """Gemmini's rule: rows of an accumulator bank are a power of two and a multiple of `dim`."""
        return legal_bank(dim, accumulator_kib, self.base.accumulator_banks, self.base.accumulator_bits)

    def _deeper_scratchpad(
        self, dim: ArrayLike, accumulator_kib: ArrayLike, scratchpad_kib: ArrayLike
    ) -> Bools:
        """Gemmini's rule: the scratchpad has at least two blocks of `dim` rows more than the accumulator."""
        d = np.asarray(dim, dtype=np.int64)
        scratchpad = np.asarray(scratchpad_kib, dtype=np.int64) * 8192 // (d * self.base.input_bits) // d
        accumulator = (
            np.asarray(accumulator_kib, dtype=np.int64) * 8192 // (d * self.base.accumulator_bits) // d
        )
        return np.asarray(scratchpad >= accumulator + 2)

    def accelerator(
        self, dim: int, accumulator_kib: int, scratchpad_kib: int, units: bool | None = None
    ) -> Accelerator:
        """The configuration of one point; everything else comes from `base`.

        Args:
            units: whether it has row functions, where that is searched; None: it has none.
        """
        dim, accumulator_kib, scratchpad_kib = int(dim), int(accumulator_kib), int(scratchpad_kib)
        chosen = bool(units) and self.search_units
        return self._unsized[int(chosen)].replace(
            name=f"{dim}x{dim}-{scratchpad_kib}-{accumulator_kib}{'-units' if chosen else ''}",
            dim=dim,
            accumulator_kib=accumulator_kib,
            scratchpad_kib=scratchpad_kib,
        )

    @cached_property
    def _unsized(self) -> tuple[Accelerator, ...]:
        """What all accelerators share that have the same of `units`; its sizes and name are of no account."""
        flow = setting_of(self.dataflows)
        return tuple(with_units(self.base, units).replace(dataflow=flow) for units in self.units)

    @cached_property
    def space_hash(self) -> str:
        """Hash of all that determines what may be found: everything but names and the preferred mix."""
        base = self.base.model_dump(mode="json", exclude={"name", *SEARCHED})
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in ("name", "networks", "doc"):
            del content[name]
        if not self.settings:  # the hash of spaces without is what it was before there were any
            del content["settings"]
        if not self.clocks:
            del content["clocks"]
        constraints = self.constraints.model_dump(mode="json", exclude_none=True)
        return stable_hash({**content, "base": base, "constraints": constraints})

    def constrain(self, source: str = "--constraint", **bounds: float) -> DesignSpace:
        """The space with further bounds (a looser one than present does not loosen it).

        Args:
            source: where the bounds come from, for messages.
            bounds: by the names of `Constraints`.

        Raises InputError for a bad bound. Whether any accelerator is left, `baco.exploration.shortfall` says, when all bounds are known.
        """
        merged = self.constraints.model_dump()
        for name, value in bounds.items():
            if name not in merged or name == "networks":
                known = [n for n in merged if n != "networks"]
                raise InputError(
                    f"unknown constraint '{name}'", location=Location(source), hint=did_you_mean(name, known)
                )
            if not (np.isfinite(value) and value > 0):
                raise InputError(
                    f"the bound on {name} must be a positive number, not {value}", location=Location(source)
                )
            merged[name] = min(value, merged[name] or value)
        return dataclasses.replace(self, constraints=Constraints.model_validate(merged))

    def locate(self, *path: str | int) -> Location | None:
        """Place in the file of the value at `path`, if it came from one."""
        return self.doc.location(path) if self.doc else None

    def least_points(self) -> HardwarePoints:
        """All legal accelerators, whatever the bounds; of a space too large for that, the smallest of every side.

        Area, SRAM and the energy of an access grow with capacities, so no other accelerator of the side is below them in
        anything (no rules couple sides and capacities there).
        """
        if self.enumerable:
            return self.rule_points()
        dim = np.array(self.dim)
        acc, sp = (np.full_like(dim, min(v)) for v in (self.accumulator_kib, self.scratchpad_kib))
        return self._with_all_units(dim, acc, sp)

    def to_yaml(self) -> str:
        """A file that `load_space` reads back as an equal space."""
        preset = load_accelerator("gemmini-default").model_dump(mode="json")
        lines = [
            "# baco design space",
            f"name: {json.dumps(self.name)}",
            f"rules: {self.rules}",
            "base: gemmini-default",
        ]
        fixed = _difference(self.base.model_dump(mode="json", exclude={"name", *SEARCHED}), preset)
        if fixed:
            lines.append(f"fixed: {json.dumps(fixed)}")
        for name in ("dim", "scratchpad_kib", "accumulator_kib"):
            lines.append(f"{name}: {_choices_text(getattr(self, name))}")
        lines.append(f"dataflows: [{', '.join(self.dataflows)}]")
        if self.search_units:
            lines.append("units: [none, row_functions]")
        if self.settings:
            chosen = ", ".join(f"{name}: {_choices_text(values)}" for name, values in self.settings)
            lines.append(f"settings: {{{chosen}}}")
        lines.append(f"double_buffer: {json.dumps(self.double_buffer)}")
        bounds = self.constraints.model_dump(mode="json", exclude_none=True)
        bounds = {name: bound for name, bound in bounds.items() if bound != {}}
        lines.append(f"constraints: {json.dumps(bounds)}")
        if self.networks:
            mix = [network.model_dump(mode="json") for network in self.networks]
            lines.append(f"networks: {json.dumps(mix)}")
        return "\n".join(lines) + "\n"

    @cached_property
    def _choices(self) -> tuple[Ints, Ints, Ints]:
        values = (self.dim, self.accumulator_kib, self.scratchpad_kib)
        return tuple(np.array(v, dtype=np.int64) for v in values)  # type: ignore[return-value]

    def _within_bounds(self, points: HardwarePoints) -> Bools:
        within = np.ones(points.dim.shape, dtype=bool)
        for name, bound in self.constraints.hardware_only.items():
            within &= getattr(points, name) <= bound
        return within


def space_names() -> list[str]:
    """Names of the spaces that come with baco."""
    return sorted(path.stem for path in SPACES_FOLDER.glob("*.yaml"))


def load_space(name_or_path: str | Path) -> DesignSpace:
    """A named space, or one from a YAML file.

    Raises InputError for an unknown name or a malformed file, InfeasibleError when no accelerator satisfies the rules.
    Whether one satisfies the bounds as well, `baco.exploration.shortfall` says, when all of them are known.
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
    data = {**like, **values}
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


def _plain(value: Any) -> Any:
    """A number of another library, or several, as plain values. Raises TypeError for what is none."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset, range)):
        return sorted(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} is none of these")


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
    if file.fixed:
        base = parse_model(Accelerator, doc, ("fixed",), defaults=base.model_dump(mode="json"))
    if base.features.normalizations and (file.rules == "reference" or base.timing == "gemmini"):
        reason = "no programs run" if file.rules == "reference" else "there is no model of their cycles"
        given = isinstance(features, dict) and "normalizations" in features
        raise InputError(
            f"normaliser commands have no use here: under {'rules: reference' if file.rules == 'reference' else 'timing: gemmini'}"
            f" {reason}",
            location=doc.location(("fixed", "features", "normalizations") if given else ("base",), key=given),
            hint="leave features.normalizations off",
        )
    if file.units is not None:
        base = with_units(base, "none" not in file.units)
    settings = tuple(
        (name, _values(getattr(file.settings, name)))
        for name in Settings.model_fields
        if getattr(file.settings, name) is not None
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
        search_units=file.units is not None and len(set(file.units)) > 1,
        settings=settings,
        clocks=any(name == "clock_mhz" for name, _ in settings),
        doc=doc,
    )
    _check_settings(space, file)
    space = _keep_legal(space, file)
    if not len(space.least_points()):
        raise _no_legal_pair(space)
    if space.rules == "gemmini":
        _check_base(space)
    return space


def _check_settings(space: DesignSpace, file: SpaceFile) -> None:
    """Refuse settings that are fixed as well, that no accelerator may have, or that nothing here would look at."""
    for name, values in space.settings:
        place = space.locate("settings", name)
        field = SETTING_FIELDS.get(name, name)
        if field in file.fixed and len(values) < 2:
            raise InputError(f"'{field}' is fixed and a setting as well", location=place)
        if space.rules == "reference" or space.base.timing == "gemmini":
            raise InputError(
                f"'settings' are not searched with {'rules: reference' if space.rules == 'reference' else 'timing: gemmini'}",
                location=place,
                hint="leave them out",
            )
        if name == "accumulator_banks" and values[0] < 2:
            raise InputError(
                "settings.accumulator_banks cannot be 1: predicted cycles leave out what a single bank holds up (up to a"
                " quarter of a layer's)",
                location=place,
                hint="give 2 or more, or fix it for all accelerators",
            )
        for value in values:
            try:
                own: dict[str, Any] = {field: float(value) if name in ("clock_mhz", "memory_gb_s") else value}
                if name == "dma_bits":
                    own["dma_max_bytes"] = max(space.base.dma_max_bytes, value // 8)
                space.base.replace(**own)
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


def _span(values: Sequence[float]) -> str:
    """Of ascending values."""
    if len(values) > 4:
        return f"{values[0]:g} to {values[-1]:g} ({len(values):,})"
    return ", ".join(f"{one:g}" for one in values)


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
    _refuse(space, "dim", file.dim, legal_dims, known_dims, f"it must be {' and '.join(rules)}")
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
        known = _legal_capacities(legal_dims, rule)
        _refuse(
            space,
            name,
            getattr(file, name),
            legal,
            known,
            f"{_BANK_RULE} ({_list(legal_dims)})",
        )
        kept[name] = tuple(legal)
    return dataclasses.replace(space, **kept)


def _refuse(
    space: DesignSpace,
    name: str,
    given: list[int] | SearchRange,
    legal: list[int],
    known: list[int],
    why: str,
) -> None:
    """Raise for an illegal entry of a list, or a range without a legal value, naming the nearest."""
    if isinstance(given, SearchRange):
        if not legal:
            ends = (given.min, given.max)
            near = min(known, key=lambda v: min(abs(v - e) for e in ends)) if known else None
            raise InfeasibleError(
                f"no value of '{name}' from {given.min} to {given.max} is legal: {why}",
                location=space.locate(name),
                hint=f"nearest feasible value: {near}" if near else None,
            )
        return
    for i, value in enumerate(given):
        if value not in legal:
            near = min(known, key=lambda v: (abs(v - value), v)) if known else None
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


def _difference(values: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What must be said of `values` to a reader who knows `base`; nested mappings key by key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            if inner := _difference(value, base[key]):
                found[key] = inner
        elif value != base.get(key):
            found[key] = value
    return found


def _choices_text(values: tuple[int, ...]) -> str:
    """The shortest of a list and a range."""
    first, last, step = values[0], values[-1], values[1] - values[0] if len(values) > 1 else 1
    if len(values) > 3 and first & (first - 1) == 0:
        powers = SearchRange(min=first, max=last, powers_of=2)
        if powers.values == values:
            return json.dumps(powers.model_dump(exclude_none=True))
    if len(values) > 3 and tuple(range(first, last + 1, step)) == values:
        return json.dumps({"min": first, "max": last, "step": step})
    return json.dumps(list(values))
