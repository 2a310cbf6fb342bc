"""The design space: which accelerators a search may choose from, and the constraints on designs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baco.accel.config import SETTINGS, Accelerator
from baco.accel.dataflows import DATAFLOWS, Dataflow, setting_of
from baco.accel.input_format import InputFormat
from baco.accel.presets import load_accelerator
from baco.accel.technology import technology
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.portable import Bools, Ints
from baco.common.provenance import stable_hash
from baco.common.shown import Shown
from baco.common.yaml import YamlDoc
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.file import SEARCHED, SIZES, Rules, SearchRange, WeightedNetwork
from baco.exploration.space.points import HardwarePoints, legal_bank, member, with_units

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
        formats: of elements, where several are searched, that of `base` first: each as the space `of_format` gives.
        settings: what else is searched (`baco.accel.config.SETTINGS`): names and their values, ascending. Everything that asks for
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
    formats: tuple[InputFormat, ...] = ()
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
        for name in SIZES:
            yield name, _span(getattr(self, name))
        yield "dataflows", ", ".join(self.dataflows)
        yield "units", "row_functions or none" if self.search_units else None
        yield "input_formats", ", ".join(self.formats) or None
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
        return math.prod(map(len, self.sizes)) <= MAX_POINTS

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

    def of_format(self, form: InputFormat) -> DesignSpace:
        """The space of the accelerators whose elements have one of `formats`, with less of a clock where floating point closes at less.
        Raises InputError for what a format needs besides."""
        if form == self.base.input_format:
            return dataclasses.replace(self, formats=())
        base = self.base.in_format(form).closing(max(self.dim))
        flows = tuple(flow for flow in self.dataflows if not (base.floating and DATAFLOWS[flow].sums_stay))
        return dataclasses.replace(self, base=base, dataflows=flows, search_units=False, formats=())

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
        return all(getattr(self.base, one) == getattr(accelerator, one) for one, _ in SETTINGS.values())

    def at(self, choice: Choice) -> DesignSpace:
        """The space of the accelerators with some values of `settings`, by their places: one without settings."""
        base = self.base
        # the last one first: what a clock keeps of main memory, a bandwidth says anew
        for (name, values), place in reversed([*zip(self.settings, choice, strict=True)]):
            base = base.with_setting(name, values[place])
        if self.settings:
            base = base.closing(max(self.dim), units=self.search_units)
        return dataclasses.replace(self, base=base, settings=()) if self.settings else self

    @property
    def different_clocks(self) -> bool:
        """Whether designs of several clocks are compared: they are searched, or settings decide what designs close at."""
        searched = any(name == "clock_mhz" for name, _ in self.settings)
        return searched or (bool(self.settings) and technology(self.base.technology).period is not None)

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
        grids = np.meshgrid(*(np.array(v, dtype=np.int64) for v in self.sizes), indexing="ij")
        dim, scratchpad, accumulator = (grid.ravel() for grid in grids)
        keep = self.legal(dim, accumulator, scratchpad)
        return self.with_all_units(dim[keep], accumulator[keep], scratchpad[keep])

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Allowed array sides, scratchpads and accumulators."""
        return self.dim, self.scratchpad_kib, self.accumulator_kib

    def points(
        self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any, units: Any = None
    ) -> HardwarePoints:
        """Accelerators as arrays that broadcast, in the space or not; `units` as of `area_of`, `self.units[0]` by default."""
        chosen = self.units[0] if units is None else units
        dim, accumulator, scratchpad, chosen = np.broadcast_arrays(
            dim, accumulator_kib, scratchpad_kib, chosen
        )
        return HardwarePoints(dim, accumulator, scratchpad, chosen, self)

    def points_of(self, table: Any, units: Any = None) -> HardwarePoints:
        """`points` from rows of array side, accumulator KiB and scratchpad KiB, (..., 3)."""
        sizes = np.asarray(table)
        return self.points(sizes[..., 0], sizes[..., 1], sizes[..., 2], units)

    def with_all_units(self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any) -> HardwarePoints:
        """The accelerators of some sizes (H,): those without row functions, then those with."""
        size, accumulator, scratchpad = (
            np.tile(one, len(self.units)) for one in (dim, accumulator_kib, scratchpad_kib)
        )
        return self.points(size, accumulator, scratchpad, np.repeat(self.units, len(dim)))

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
        allowed = (
            member(dim, dims) & member(accumulator_kib, accumulators) & member(scratchpad_kib, scratchpads)
        )
        if self.rules == "gemmini":
            allowed = allowed & self.legal_scratchpad(dim, scratchpad_kib)
            allowed = allowed & self.legal_accumulator(dim, accumulator_kib)
            allowed = allowed & self._deeper_scratchpad(dim, accumulator_kib, scratchpad_kib)
        return np.asarray(allowed)

    def allowed(
        self,
        dim: ArrayLike,
        accumulator_kib: ArrayLike,
        scratchpad_kib: ArrayLike,
        units: ArrayLike | None = None,
    ) -> Bools:
        """`legal`, and within the bounds on area and SRAM; `units` as of `area_of`."""
        points = self.points(dim, accumulator_kib, scratchpad_kib, units)
        return self.legal(*points.sizes) & self._within_bounds(points)

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
        for name in ("clocks", "formats"):
            if not content[name]:
                del content[name]
        constraints = self.constraints.model_dump(mode="json", exclude_none=True)
        return stable_hash({**content, "base": base, "constraints": constraints})

    def constrain(self, source: str = "--constraint", **bounds: float) -> DesignSpace:
        """The space with further bounds (a looser one than present does not loosen it).

        Args:
            source: where the bounds come from, for messages.
            bounds: by the names of `Constraints`.

        Raises InputError for a bad bound. Whether any accelerator is left, `baco.exploration.space.shortfall` says, when all bounds are known.
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
        least = min(self.accumulator_kib), min(self.scratchpad_kib)
        return self.with_all_units(np.array(self.dim), *(np.full(len(self.dim), one) for one in least))

    def to_yaml(self) -> str:
        """A file that `load_space` reads back as an equal space."""
        lines = [
            "# baco design space",
            f"name: {json.dumps(self.name)}",
            f"rules: {self.rules}",
            "base: gemmini-default",
            f"technology: {self.base.technology}",
        ]
        fixed = self._said_of_base()
        if fixed:
            lines.append(f"fixed: {json.dumps(fixed)}")
        for name in SIZES:
            lines.append(f"{name}: {_choices_text(getattr(self, name))}")
        lines.append(f"dataflows: [{', '.join(self.dataflows)}]")
        if self.search_units:
            lines.append("units: [none, row_functions]")
        if self.formats:
            lines.append(f"input_formats: [{', '.join(self.formats)}]")
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

    def _said_of_base(self) -> dict[str, Any]:
        """What a file must fix to a reader who knows the preset and what the technology decides by itself."""
        preset, decided = load_accelerator("gemmini-default"), ("clock_mhz", "dram_bytes_per_cycle", "energy")
        usual = self.base.replace(**{name: getattr(preset, name) for name in decided})
        usual = usual.in_technology((), max(self.dim), units=self.search_units)
        usual = preset.replace(**{name: getattr(usual, name) for name in decided})
        unsaid = {"name", "technology", *SEARCHED}
        # what a table of energies lacks is said here, too
        own, other = (
            one.model_dump(mode="json", exclude=unsaid) | {"energy": dict(one.energy)}
            for one in (self.base, usual)
        )
        fixed = _difference(own, other)
        if "clock_mhz" in fixed:
            fixed["dram_bytes_per_cycle"] = own["dram_bytes_per_cycle"]
        return fixed

    @cached_property
    def _choices(self) -> tuple[Ints, Ints, Ints]:
        values = (self.dim, self.accumulator_kib, self.scratchpad_kib)
        return tuple(np.array(v, dtype=np.int64) for v in values)  # type: ignore[return-value]

    def _within_bounds(self, points: HardwarePoints) -> Bools:
        within = np.ones(np.shape(points.dim), dtype=bool)
        for name, bound in self.constraints.hardware_only.items():
            within &= getattr(points, name) <= bound
        return within


def _span(values: Sequence[float]) -> str:
    """Of ascending values."""
    if len(values) > 4:
        return f"{values[0]:g} to {values[-1]:g} ({len(values):,})"
    return ", ".join(f"{one:g}" for one in values)


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
