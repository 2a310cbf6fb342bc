"""Systems of a design space: how many units, each an accelerator of the space, how many cores without; drawn, changed and crossed.

All units have the values of one choice of the space's settings: one clock and one memory, as all that is built has, and one width of memory ports. What
differs between them: sizes, dataflows, row functions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow
from baco.accel.system import HOST, MOST_ACCELERATORS, System
from baco.common.errors import InfeasibleError, Location
from baco.exploration.space import Choice, DesignSpace

#: Beyond rounding: a system that is said to be as large as the limit fits.
_ROUNDING = 1 + 1e-9
#: Tries to change a system into one that fits before another change is tried.
_TRIES = 20


class UnitPoint(NamedTuple):
    """An accelerator of the space: number of its dataflows (`SystemSpace.flows`), sizes, whether it has row functions."""

    flow: int
    dim: int
    accumulator_kib: int
    scratchpad_kib: int
    units: int


class SystemPoint(NamedTuple):
    """A system: which values of the space's settings, its accelerators in order, and cores without."""

    choice: Choice
    accelerators: tuple[UnitPoint, ...]
    hosts: int


class _Kinds:
    """Accelerators with the same settings, the smallest first."""

    def __init__(self, space: DesignSpace, flows: tuple[tuple[Dataflow, ...], ...], limit_mm2: float) -> None:
        self.spaces = [replace(space, dataflows=one) for one in flows]
        rows: list[tuple[float, UnitPoint]] = []
        for flow, own in enumerate(self.spaces):
            points = own.hardware()
            units = np.broadcast_to(points.units, np.shape(points.dim))
            columns = (points.area_mm2, points.dim, points.accumulator_kib, points.scratchpad_kib, units)
            for area, dim, accumulator, scratchpad, has in zip(
                *(one.tolist() for one in columns), strict=True
            ):
                if area <= limit_mm2:
                    rows.append(
                        (area, UnitPoint(flow, int(dim), int(accumulator), int(scratchpad), int(has)))
                    )
        rows.sort()
        self.areas = np.array([area for area, _ in rows])
        self.points = [point for _, point in rows]
        self.place = {point: at for at, point in enumerate(self.points)}
        self._table = np.array(self.points, dtype=np.float64).reshape(-1, len(UnitPoint._fields))

    def fitting(self, mm2: float) -> int:
        """How many are no larger."""
        return int(np.searchsorted(self.areas, mm2, side="right"))

    def nearest(self, wanted: UnitPoint, fixed: int | None = None) -> UnitPoint | None:
        """The accelerator most like another one, in ratios of sizes; with the same value of the field `fixed`."""
        table, goal = self._table, np.array(wanted, dtype=np.float64)
        away = np.abs(np.log2(table[:, 1:4] / goal[1:4])).sum(1) + 2 * (table[:, (0, 4)] != goal[[0, 4]]).sum(
            1
        )
        if fixed is not None:
            away = np.where(table[:, fixed] == goal[fixed], away, np.inf)
        return self.points[int(away.argmin())] if np.isfinite(away).any() else None

    @cache  # noqa: B019  the kinds live as long as the search
    def values(self, field: int) -> tuple[int, ...]:
        """All values of a field, ascending."""
        return tuple(sorted({point[field] for point in self.points}))


class SystemSpace:
    """Systems that fit an area, cores included.

    Args:
        space: that accelerators are of. Its bound on the area is one on the system's.
        most_units, most_hosts: accelerators, and cores without one, at most.

    Attributes:
        limit_mm2: area at most.
        flows: what an accelerator may offer: each dataflow of the space alone, and all.

    Raises InfeasibleError where no accelerator fits, InputError for a space too large to be listed.
    """

    def __init__(self, space: DesignSpace, most_units: int = MOST_ACCELERATORS, most_hosts: int = 1) -> None:
        self.space, self.most_units, self.most_hosts = space, most_units, most_hosts
        self.limit_mm2 = space.constraints.area_mm2 or math.inf
        alone: tuple[tuple[Dataflow, ...], ...] = tuple((one,) for one in space.dataflows)
        self.flows = alone if len(alone) == 1 else (*alone, tuple(space.dataflows))
        self._choices = list(itertools.product(*(range(len(values)) for _, values in space.settings)))
        self._known: dict[Choice, _Kinds] = {}
        self._machines: dict[tuple[Choice, UnitPoint], Accelerator] = {}
        self._beside: dict[tuple[Choice, int], float] = {}
        if not any(len(self._kinds(choice).points) for choice in self._choices):
            raise InfeasibleError(
                f"no accelerator of the space '{space.name}' with its core fits {self.limit_mm2:g} mm²",
                location=Location("--area-limit"),
            )

    def _kinds(self, choice: Choice) -> _Kinds:
        if choice not in self._known:
            self._known[choice] = _Kinds(self.space.at(choice), self.flows, self.limit_mm2)
            own = self._known[choice]
            if own.points and self._area_beside(choice, 1) + float(own.areas[0]) > self.limit_mm2 * _ROUNDING:
                own.points, own.areas = [], own.areas[:0]
        return self._known[choice]

    def machine(self, choice: Choice, point: UnitPoint) -> Accelerator:
        """The configuration of an accelerator."""
        if (choice, point) not in self._machines:
            flow, dim, accumulator, scratchpad, units = point
            own = self._kinds(choice).spaces[flow].accelerator(dim, accumulator, scratchpad, bool(units))
            if len(self.flows) > 1:
                own = own.replace(name=f"{own.name}-{own.dataflow}")
            self._machines[choice, point] = own
        return self._machines[choice, point]

    def least(self, choice: Choice) -> Accelerator:
        """The smallest accelerator with these settings."""
        return self.machine(choice, self._kinds(choice).points[0])

    def system(self, point: SystemPoint) -> System:
        """What a point stands for."""
        machines = [self.machine(point.choice, one) for one in point.accelerators]
        return System.of([*((one.name, one) for one in machines), *[(HOST, None)] * point.hosts])

    def _area_beside(self, choice: Choice, accelerators: int) -> float:
        """What a system of so many accelerators without cores of their own takes more than these: its arbiter and their cores, with the memory
        interface once."""
        if (choice, accelerators) not in self._beside:
            first = self.machine(choice, self._known[choice].points[0])
            whole = System.of([("unit", first)] * accelerators)
            self._beside[choice, accelerators] = (
                whole.area_mm2 + whole.cores_mm2 - accelerators * first.area_mm2
            )
        return self._beside[choice, accelerators]

    def area_mm2(self, point: SystemPoint) -> float:
        """Of accelerators, arbiter and all cores."""
        kinds = self._kinds(point.choice)
        own = math.fsum(float(kinds.areas[kinds.place[one]]) for one in point.accelerators)
        core = System.of([("unit", self.machine(point.choice, point.accelerators[0]))]).cores_mm2
        return own + self._area_beside(point.choice, len(point.accelerators)) + point.hosts * core

    def fits(self, point: SystemPoint) -> bool:
        """Whether the system is one of these."""
        count, known = len(point.accelerators), self._kinds(point.choice).place
        return (
            1 <= count <= self.most_units
            and 0 <= point.hosts <= self.most_hosts
            and all(one in known for one in point.accelerators)
            and self.area_mm2(point) <= self.limit_mm2 * _ROUNDING
        )

    def first(self) -> list[SystemPoint]:
        """Of every number of equal accelerators those with the largest array that fits, and of these the one with the largest memories, and
        without row functions or with."""
        found = []
        for count in range(1, self.most_units + 1):
            choice = self.space.chosen
            kinds = self._kinds(choice)
            for units in kinds.values(4):
                fit = [
                    (one.dim, one.scratchpad_kib, -one.flow, system)
                    for one in kinds.points
                    if one.units == units and self.fits(system := SystemPoint(choice, (one,) * count, 0))
                ]
                found += [max(fit)[-1]] if fit else []
        return found

    def draw(self, rng: np.random.Generator) -> SystemPoint:
        """A random system."""
        while True:
            choice = self._choices[int(rng.integers(len(self._choices)))]
            if not self._kinds(choice).points:
                continue
            point = SystemPoint(choice, (), int(rng.integers(self.most_hosts + 1)))
            for _ in range(int(rng.integers(self.most_units)) + 1):
                point = self._with_more(point, rng) or point
            if point.accelerators:
                return point

    def _with_more(self, point: SystemPoint, rng: np.random.Generator) -> SystemPoint | None:
        """With another accelerator, larger ones more often; None where none fits."""
        kinds = self._kinds(point.choice)
        left = self.limit_mm2 * _ROUNDING - (self.area_mm2(point) if point.accelerators else 0.0)
        count = kinds.fitting(left)
        if not count:
            return None
        one = kinds.points[int(count * math.sqrt(float(rng.random())))]
        more = _ordered(point._replace(accelerators=(*point.accelerators, one)))
        return more if self.fits(more) else None

    def changed(self, point: SystemPoint, other: SystemPoint, rng: np.random.Generator) -> SystemPoint:
        """A system near this one, sometimes with units of another one."""
        moves = (
            self._stepped,
            self._stepped,
            self._stepped,
            self._with_more,
            self._split,
            self._copied,
            self._fewer,
        )
        for _ in range(_TRIES):
            which = int(rng.integers(len(moves) + 2))
            if which < len(moves):
                new = moves[which](point, rng)
            elif which == len(moves):
                new = self._crossed(point, other, rng)
            else:
                new = point._replace(hosts=point.hosts + (1 if rng.random() < 0.5 else -1))
            if new is not None and new != point and self.fits(new):
                return new
        return self.draw(rng)

    def _stepped(self, point: SystemPoint, rng: np.random.Generator) -> SystemPoint | None:
        """One value of one accelerator, or one setting, is the next one."""
        fields = len(UnitPoint._fields)
        which = int(rng.integers(fields + len(point.choice)))
        up = 1 if rng.random() < 0.5 else -1
        if which >= fields:
            at = which - fields
            moved = point.choice[at] + up
            choice = (*point.choice[:at], moved, *point.choice[at + 1 :])
            return point._replace(choice=choice) if choice in self._choices else None
        at = int(rng.integers(len(point.accelerators)))
        own, kinds = point.accelerators[at], self._kinds(point.choice)
        values = kinds.values(which)
        place = values.index(own[which]) + up
        if not 0 <= place < len(values):
            return None
        new = kinds.nearest(own._replace(**{UnitPoint._fields[which]: values[place]}), which)
        return None if new is None else _with(point, at, new)

    def _split(self, point: SystemPoint, rng: np.random.Generator) -> SystemPoint | None:
        """Two accelerators of half the side and memories in place of one."""
        at = int(rng.integers(len(point.accelerators)))
        flow, dim, accumulator, scratchpad, units = point.accelerators[at]
        half = UnitPoint(flow, dim // 2, max(1, accumulator // 2), max(1, scratchpad // 2), units)
        new = self._kinds(point.choice).nearest(half, 1)
        return None if new is None else _with(point, at, new, new)

    @staticmethod
    def _copied(point: SystemPoint, rng: np.random.Generator) -> SystemPoint | None:
        """An accelerator in place of another one, or beside."""
        one, other = (int(at) for at in rng.integers(len(point.accelerators), size=2))
        if one == other:
            return _with(point, one, point.accelerators[one], point.accelerators[one])
        return _with(point, one, point.accelerators[other])

    @staticmethod
    def _fewer(point: SystemPoint, rng: np.random.Generator) -> SystemPoint | None:
        """Without an accelerator."""
        return _with(point, int(rng.integers(len(point.accelerators))))

    def _crossed(
        self, point: SystemPoint, other: SystemPoint, rng: np.random.Generator
    ) -> SystemPoint | None:
        """Accelerators of both in random order, as many as fit."""
        pool = [*point.accelerators, *other.accelerators]
        made = point._replace(accelerators=())
        for at in rng.permutation(len(pool)).tolist():
            more = _ordered(made._replace(accelerators=(*made.accelerators, pool[at])))
            if self.fits(more) and rng.random() < 0.7:
                made = more
        return made if made.accelerators else None


def _ordered(point: SystemPoint) -> SystemPoint:
    """With the accelerators in the order of a system: the largest arrays first."""
    return point._replace(accelerators=tuple(sorted(point.accelerators, key=lambda one: (-one.dim, one))))


def _with(point: SystemPoint, at: int, *instead: UnitPoint) -> SystemPoint:
    """With others in place of an accelerator."""
    own = point.accelerators
    return _ordered(point._replace(accelerators=(*own[:at], *instead, *own[at + 1 :])))
