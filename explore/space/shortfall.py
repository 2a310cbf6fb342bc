"""Bounds on area and SRAM that no accelerator of a space keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco.accel.technology import PUBLISHED, technology
from baco.common.errors import InfeasibleError, Location
from baco.common.portable import Bools
from baco.common.units import significant
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import UNITS
from baco.exploration.space.reference_machine import reference_machine


@dataclass(frozen=True)
class Shortfall:
    """Bounds on area and SRAM that no accelerator of a space satisfies.

    Attributes:
        message: which, by how much.
        feasible: values that the accelerator nearest to them reaches, by name, for those bounds that bind.
        nearest: that accelerator, in words.
        scale: for a bound on area, what areas are like in the space's technology, where these are not the published ones; else empty.
        location: of the first such bound, where a file sets it.
    """

    message: str
    feasible: dict[str, float]
    nearest: str
    scale: str
    location: Location | None


def check_feasible(space: DesignSpace) -> None:
    """Raise InfeasibleError when no accelerator satisfies rules, choices and the bounds on area and SRAM.

    The message names the binding constraint, the excess, and the nearest feasible value.
    """
    found = shortfall(space)
    if found is not None:
        values = ", ".join(f"{name}: {value:g}" for name, value in found.feasible.items())
        raise InfeasibleError(
            found.message,
            location=found.location,
            hint=f"nearest feasible value: {values} ({found.nearest}){found.scale}",
        )


def shortfall(space: DesignSpace) -> Shortfall | None:
    """Why no accelerator satisfies the bounds on area and SRAM; None where one does."""
    points = space.least_points()
    bounds = space.constraints.hardware_only
    ratio = {name: getattr(points, name) / bound for name, bound in bounds.items()}

    def left_without(names: list[str]) -> Bools:
        rest = [ratio[name] <= 1 for name in bounds if name not in names]
        return np.asarray(np.logical_and.reduce([np.ones(len(points), dtype=bool), *rest]))

    if left_without([]).any():
        return None
    # a bound binds if without it some accelerator is left; else all of them do together
    binding = [name for name in bounds if left_without([name]).any()][:1] or list(bounds)
    excess = np.max([ratio[name] for name in binding], axis=0)
    best = int(np.argmin(np.where(left_without(binding), excess, np.inf)))
    reached = {name: _ceil(float(getattr(points, name)[best])) for name in binding}
    words = " and ".join(
        f"{name} may be {bounds[name]:g} {UNITS[name]}, but the nearest legal design has {reached[name]:g} "
        f"{UNITS[name]} ({_too_much(float(ratio[name][best]))})"
        for name in binding
    )
    return Shortfall(
        f"no design is feasible: {words}",
        reached,
        f"dim {points.dim[best]}, scratchpad {points.scratchpad_kib[best]} KiB,"
        f" accumulator {points.accumulator_kib[best]} KiB",
        _scale(space) if "area_mm2" in reached else "",
        _bound_location(space, binding[0]),
    )


def _scale(space: DesignSpace) -> str:
    """What an area is in a technology that has its areas from netlists, for those who think in published ones."""
    if not technology(space.base.technology).measured:
        return ""
    machine = reference_machine(space)
    return (
        f"; areas are in {machine.technology}, where {machine.name} has {significant(machine.area_mm2)} mm²:"
        f" --technology {PUBLISHED} has published ones"
    )


def _too_much(ratio: float) -> str:
    """How far above a bound: percents of thousands are no measure for people."""
    return f"{ratio - 1:.1%} too much" if ratio < 2 else f"{significant(ratio)} times the bound"


def _bound_location(space: DesignSpace, name: str) -> Location | None:
    """Where the file sets a bound; None when the bound in force comes from elsewhere."""
    if space.doc is None:
        return None
    path = ("constraints", name)
    try:
        in_file = space.doc.get(path)
    except KeyError:
        return None
    return space.doc.location(path) if in_file == getattr(space.constraints, name) else None


def _ceil(value: float) -> float:
    """Up to four significant digits, so that the number shown is itself feasible."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 3)
    return float(np.ceil(value / unit) * unit)
