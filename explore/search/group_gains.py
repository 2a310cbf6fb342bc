"""Which of the groups that a program could have lower the objective most, on many accelerators at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.compiler.network.groups import Group, GroupOperators, GroupRow, GroupSchedule
from baco.compiler.network.steps import StepCost
from baco.exploration.fused import Fusion
from baco.exploration.operators import OperatorCost
from baco.exploration.search.archive import Archive
from baco.exploration.search.selector import WEIGHINGS
from baco.exploration.space.points import HardwarePoints

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PossibleGroup:
    """A group as one unit on arrays of a side.

    Attributes:
        operators: of the group.
        tasks: of its layers, by place in the workload.
        others: names of its other operators.
        needs: (schedules, 2) rows of scratchpad and accumulator.
        costs: (schedules, fields of `StepCost`) of a run of the network.
        group, schedules: what these are of.
    """

    operators: GroupOperators
    tasks: tuple[int, ...]
    others: tuple[str, ...]
    needs: Floats
    costs: Floats
    group: Group | None = None
    schedules: tuple[GroupSchedule, ...] = ()


#: Of a network, integer networks whose costs, each so many times, add up to its own: the groups in every row of operators.
PossibleGroups = list[tuple[float, list[list[PossibleGroup]]]]


def group_name(operators: Sequence[str]) -> str:
    """Of a group."""
    return " > ".join(map(plain_name, operators))


def plain_name(name: str) -> str:
    """Of the operators of repeated blocks, the name of the first."""
    return name.partition("[")[0]


class Judge:
    """What cycles and energy add to the logarithm of the objective of the best design on each accelerator, to first order.

    Attributes:
        known: (H,) where there is a design.
        alone: (H, tasks) what one run of each task adds, as well mapped as the archive knows.
        per_cycle, per_pj: (H,).
    """

    def __init__(self, archive: Archive, hardware: HardwarePoints, energy: float, latency: float) -> None:
        ratio = np.ones(len(hardware))
        for _ in range(2):  # weighings lie around the ratio of the best one, which the first round finds
            scan = archive.scan(hardware, ratio[:, None] * WEIGHINGS)
            with np.errstate(divide="ignore", invalid="ignore"):
                value = energy * portable.log(scan.energy) + latency * portable.log(scan.latency)
                best = np.where(np.isfinite(value), value, np.inf).argmin(1)[:, None]
                pj, cycles = (np.take_along_axis(one, best, 1)[:, 0] for one in (scan.energy, scan.latency))
                ratio = np.where(np.isfinite(pj), cycles / pj, 1.0)
        self.known = np.isfinite(pj) & np.isfinite(cycles)
        self.per_pj, self.per_cycle = energy / pj, latency / cycles
        self._energy, self._hardware = archive.base.energy_law, hardware
        self._static = hardware.static_pj
        self.alone = np.zeros((len(hardware), len(archive.tasks)))
        for task in range(len(archive.tasks)):
            pj_each, cycles_each = archive.costs(task, hardware)
            with np.errstate(invalid="ignore"):
                each = self.per_pj[:, None] * pj_each + self.per_cycle[:, None] * cycles_each
            self.alone[:, task] = np.where(np.isfinite(each), each, np.inf).min(1, initial=np.inf)

    def added(self, costs: Floats, at: Ints) -> Floats:
        """What steps (..., fields of `StepCost`) add on accelerators at so many places, (places, ...)."""
        h = self._hardware.take(at)

        def each(values: Floats) -> Floats:
            return values.reshape(-1, *(1,) * (costs.ndim - 1))

        cycles, fixed, accumulator, scratchpad, _ = np.moveaxis(costs, -1, 0)
        pj = self._energy.with_memories(
            fixed,
            accumulator,
            scratchpad,
            accumulator_kib=each(h.accumulator_kib),
            scratchpad_kib=each(h.scratchpad_kib),
            dim=each(h.dim),
        )
        pj = pj + cycles * each(self._static[at])
        return np.asarray(each(self.per_pj[at]) * pj + each(self.per_cycle[at]) * cycles)

    def rows(self, at: Ints) -> Floats:
        """Rows of scratchpad and accumulator of accelerators, (places, 2)."""
        h = self._hardware.take(at)
        row = h.dim / 1024  # of bytes, as those of units are
        return np.stack([h.scratchpad_kib / row, h.accumulator_kib / (4 * row)], 1)


@dataclass(frozen=True)
class _Gain:
    """What a group gains on some accelerators, and its costs there; minus infinity where it does not fit."""

    gains: Floats
    costs: Floats


def taken_groups(
    parts: PossibleGroups,
    rest: Sequence[OperatorCost],
    tasks: Sequence[int],
    judge: Judge,
    places: Sequence[int],
) -> list[Fusion]:
    """The groups of a network that lower the objective most on each of some accelerators.

    Args:
        rest: of its program without groups, on all of them.
        tasks: of the network, by place in the workload.
        places: of the accelerators with the judge.
    """
    beside = {cost.operator: cost for cost in rest}
    at = np.array(places, dtype=np.int64)
    rows = [
        (
            times,
            {possible.operators.names: possible for possible in row},
            GroupRow([possible.operators for possible in row]),
            _gains(row, beside, judge, at),
        )
        for times, all_rows in parts
        for row in all_rows
    ]
    found = []
    for n in range(len(at)):
        groups: dict[str, Floats] = defaultdict(lambda: np.zeros(1 + len(StepCost._fields)))
        replaced: dict[str, float] = defaultdict(float)
        runs = dict.fromkeys(tasks, 0.0)
        for times, by_names, row, gained in rows:
            gains = {names: float(gain.gains[n]) for names, gain in gained.items() if gain.gains[n] > 0}
            for group in row.best(gains) if gains else []:
                possible = by_names[group.names]
                groups[group_name(group.names)] += times * np.array([1.0, *gained[group.names].costs[n]])
                for task in possible.tasks:
                    runs[task] += times
                for name in possible.others:
                    replaced[name] += times
        found.append(_fusion(groups, replaced, runs, beside))
    return found


def _gains(
    row: Sequence[PossibleGroup], beside: Mapping[str, OperatorCost], judge: Judge, at: Ints
) -> dict[tuple[str, ...], _Gain]:
    """Of the groups in a row of operators, by their names."""
    found, room, every = {}, judge.rows(at), np.arange(len(at))
    for one in row:
        if any(name not in beside for name in one.others):
            continue
        fits = (one.needs[None] <= room[:, None]).all(2)
        added = np.where(fits, judge.added(one.costs, at), np.inf)
        best = added.argmin(1)
        alone = np.zeros(len(at))
        for task in one.tasks:
            alone = alone + judge.alone[at, task]
        for name in one.others:
            alone = alone + judge.added(np.array(beside[name].cost) / beside[name].runs, at)
        found[one.operators.names] = _Gain(alone - added[every, best], one.costs[best])
    return found


def _fusion(
    groups: Mapping[str, Floats],
    replaced: Mapping[str, float],
    runs: Mapping[int, float],
    beside: Mapping[str, OperatorCost],
) -> Fusion:
    """Of groups, by their names: how often and what they cost; of operators that are in groups, how often."""
    return Fusion(
        tuple(
            OperatorCost(name, "group", True, round(float(number), 6), StepCost(*map(float, cost)))
            for name, (number, *cost) in groups.items()
            if round(float(number), 6) > 0
        ),
        tuple(
            OperatorCost(
                name,
                beside[name].function,
                beside[name].on_accelerator,
                round(number, 6),
                StepCost(*(value * number / beside[name].runs for value in beside[name].cost)),
            )
            for name, number in replaced.items()
            if round(number, 6) > 0
        ),
        tuple(round(number, 6) for number in runs.values()),
    )
