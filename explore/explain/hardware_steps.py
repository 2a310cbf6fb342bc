"""The neighbours of an accelerator: one step down and one up in every parameter of its hardware that the cost model knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from baco.accel.config import PARAMETERS as TABLE
from baco.accel.config import SETTINGS, Accelerator
from baco.accel.energy import SUPPLY_CLOCKS
from baco.common import portable
from baco.common.errors import InputError
from baco.exploration.candidate import CostModelName
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.file import SIZES
from baco.exploration.space.points import with_units

__all__ = ["PARAMETERS", "SIZES", "HardwareStep", "Way", "hardware_steps", "only"]

Way = Literal["down", "up"]

#: Settings, those first that all models know.
_SETTINGS = sorted(SETTINGS, key=lambda name: "reference" not in SETTINGS[name][1].readers)
#: Parameters and what people call them, with the unit of their values.
PARAMETERS: dict[str, tuple[str, str]] = {
    **{name: (TABLE[name].label, TABLE[name].unit) for name in SIZES},
    "row_functions": ("row functions", ""),
    **{name: (SETTINGS[name][1].label, SETTINGS[name][1].unit) for name in _SETTINGS},
}
#: A step changes a value by this factor at least, and sizes beyond the values of a space by the other.
_LEAST, _FACTOR = 1.1 - 1e-9, 2.0


@dataclass(frozen=True)
class HardwareStep:
    """One parameter changed by one step.

    Attributes:
        parameter: a key of `PARAMETERS`.
        way: whether its value falls or grows (row functions: whether they go or come).
        before, after: its value.
        also: other sizes that had to change with it, since the instruction set's rules couple them: before and after.
        inside: whether the space has the accelerator, bounds on area and SRAM aside; else the space keeps the parameter fixed, or
            its values end here.
        accelerator: with the step; None where there is none, as `reason` says.
    """

    parameter: str
    way: Way
    before: float
    after: float
    inside: bool
    accelerator: Accelerator | None
    also: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reason: str = ""


def hardware_steps(
    accelerator: Accelerator, space: DesignSpace, cost_model: CostModelName
) -> list[HardwareStep]:
    """All steps from an accelerator of a space, in the order of `PARAMETERS`, down before up.

    A step is to the next value of the space that differs by a tenth at least. Where the space has none, it is one out of the space:
    twice or half the value (clocks: a quarter more, or a fifth less). The reference model knows sizes, bandwidth and clock; the
    timing of the original Gemmini is known for the original's settings alone, so that there only sizes have steps.
    """
    steps: list[HardwareStep] = []
    for name in PARAMETERS:
        if name in SIZES:
            steps += [_size_step(accelerator, space, name, way) for way in ("down", "up")]
        elif accelerator.timing == "gemmini":
            continue
        elif name == "row_functions":
            # units for functions of rows work on integers
            if cost_model == "instruction" and accelerator.input_format == "integer":
                steps.append(_units_step(accelerator, space))
        elif cost_model in SETTINGS[name][1].readers:
            steps += [_setting_step(accelerator, space, name, way) for way in ("down", "up")]
    return steps


def only(space: DesignSpace, accelerator: Accelerator) -> DesignSpace:
    """The space of one accelerator: a search there finds mappings alone. It has the bounds of the space on mappings, not those on
    hardware."""
    bounds = {**space.constraints.model_dump(), "area_mm2": None, "sram_kib": None}
    return dataclasses.replace(
        space,
        base=accelerator,
        dim=(accelerator.dim,),
        scratchpad_kib=(accelerator.scratchpad_kib,),
        accumulator_kib=(accelerator.accumulator_kib,),
        search_units=False,
        settings=(),
        constraints=Constraints.model_validate(bounds),
        doc=None,
    )


# -- sizes -----------------------------------------------------------------------------------------------


def _size_step(accelerator: Accelerator, space: DesignSpace, name: str, way: Way) -> HardwareStep:
    before = getattr(accelerator, name)
    inside = _in_space(accelerator, space, name, way)
    if inside is not None:
        return _sized(accelerator, name, way, inside, inside=True)
    after = before * _FACTOR if way == "up" else before / _FACTOR
    if after != int(after):
        return HardwareStep(name, way, before, after, False, None, reason="it is the least")
    # in the order of what is changed: nothing else, then memories with the array, or the other memory with one
    for also in _companions(name, way):
        sizes = {one: getattr(accelerator, one) for one in SIZES}
        sizes[name] = int(after)
        for other in also:
            sizes[other] = int(sizes[other] * _FACTOR if way == "up" else sizes[other] / _FACTOR)
        if _allowed(accelerator, space, sizes):
            return _sized(accelerator, name, way, sizes, inside=False)
    reason = "no accelerator has it" if _largest(name, way, int(after)) else "no legal accelerator has it"
    return HardwareStep(name, way, before, after, False, None, reason=reason)


def _companions(name: str, way: Way) -> Iterator[tuple[str, ...]]:
    others = tuple(parameter for parameter in SIZES if parameter != name)
    yield ()
    if name == "dim":
        yield from ((others[0],), (others[1],), others)
    elif (name, way) in (("accumulator_kib", "up"), ("scratchpad_kib", "down")):
        yield tuple(parameter for parameter in others if parameter != "dim")


def _largest(name: str, way: Way, after: int) -> bool:
    return name == "dim" and way == "up" and after > 128


def _in_space(accelerator: Accelerator, space: DesignSpace, name: str, way: Way) -> dict[str, int] | None:
    """Sizes of the accelerator of a space that is the next in one size, with the others as near as may be; None without one."""
    own = {parameter: int(getattr(accelerator, parameter)) for parameter in SIZES}
    if not space.enumerable:
        value = _next(getattr(space, name), own[name], way)
        return None if value is None else own | {name: int(value)}
    points = space.rule_points()
    points = points.take(points.units == accelerator.features.row_functions)
    value = _next(sorted({int(size) for size in getattr(points, name)}), own[name], way)
    if value is None:
        return None
    points = points.take(getattr(points, name) == value)
    rows = [
        {parameter: int(getattr(points, parameter)[n]) for parameter in SIZES} for n in range(len(points))
    ]

    def distance(sizes: Mapping[str, int]) -> tuple[float, int]:
        others = [parameter for parameter in SIZES if parameter != name]
        away = sum(abs(portable.log2(sizes[parameter] / own[parameter])) for parameter in others)
        return round(away, 6), -sum(sizes[parameter] for parameter in others)

    return min(rows, key=distance)


def _next(values: Sequence[float], own: float, way: Way) -> float | None:
    """The next of some values that differs by a tenth at least; None without one."""
    if way == "up":
        return min((one for one in values if one >= own * _LEAST), default=None)
    return max((one for one in values if one * _LEAST <= own), default=None)


def _allowed(accelerator: Accelerator, space: DesignSpace, sizes: Mapping[str, int]) -> bool:
    if min(sizes.values()) < 1:
        return False
    try:
        one = accelerator.replace(**sizes)
    except InputError:
        return False
    return space.rules == "reference" or bool(len(only(space, one).rule_points()))


def _sized(
    accelerator: Accelerator, name: str, way: Way, sizes: Mapping[str, int], *, inside: bool
) -> HardwareStep:
    changed = {
        one: (getattr(accelerator, one), value)
        for one, value in sizes.items()
        if one != name and value != getattr(accelerator, one)
    }
    there = accelerator.replace(**sizes)
    return HardwareStep(name, way, getattr(accelerator, name), sizes[name], inside, there, changed)


# -- everything else -------------------------------------------------------------------------------------


def _units_step(accelerator: Accelerator, space: DesignSpace) -> HardwareStep:
    """Row functions, or none."""
    own = accelerator.features.row_functions
    there = with_units(accelerator, not own)
    return HardwareStep(
        "row_functions", "down" if own else "up", float(own), float(not own), space.search_units, there
    )


def _setting_step(accelerator: Accelerator, space: DesignSpace, name: str, way: Way) -> HardwareStep:
    """The next value that the space has, else one beyond."""
    before: float = getattr(accelerator, name)
    values = dict(space.settings).get(name, ())
    value = _next(values, before, way)
    inside = value is not None
    if value is None:
        factor = SETTINGS[name][1].factor
        value = before * factor if way == "up" else before / factor
    if value == int(value):
        value = int(value)
    reason = _beyond(name, value)
    there: Any = None
    if not reason:
        try:
            there = accelerator.with_setting(name, value)
        except InputError as error:
            reason = error.message
    if there is not None and space.rules == "gemmini" and not len(only(space, there).rule_points()):
        there, reason = None, "no legal accelerator has it"
    return HardwareStep(name, way, before, value, inside, there, reason=reason)


def _beyond(name: str, value: float) -> str:
    """Why nothing is said of a value; empty where something is."""
    low, high = SUPPLY_CLOCKS
    if name == "clock_mhz" and not low <= value <= high:
        return f"no supply is known for it: published ones are for {low:g} to {high:g} MHz"
    row = SETTINGS[name][1]
    return row.why if value < row.least else ""
