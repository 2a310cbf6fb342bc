"""Several networks on one system: runs of each as tasks of one graph.

A network with a rate begins a run every period, and ends it by the next one or by a deadline before that; what is planned is the
hyperperiod, the least common multiple of all periods, after which everything repeats. Networks without a rate run a number of times, all
from the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from baco.accel.system import System
from baco.common.errors import InputError
from baco.exploration.systems.task_graph import Edge, TaskGraph
from baco.exploration.systems.timetable import Timetable
from baco.exploration.systems.unit_profile import UnitProfile, static_pj_per_ns

#: Times that a deadline is kept away from, relative: how far predicted times of plans may be off.
MARGIN = 0.05
#: Tasks of a hyperperiod at most.
_MOST_TASKS = 3000


@dataclass(frozen=True)
class Demand:
    """How often a network is to run, and by when.

    Attributes:
        rate_hz: runs begin a second; None: `runs` runs that can begin at once.
        deadline_ms: after a run's begin by which it ends; None: with a rate the next begin, else no matter when.
        runs: of a network without a rate.

    Raises InputError for what does not go together.
    """

    rate_hz: Fraction | None = None
    deadline_ms: float | None = None
    runs: int = 1

    def __post_init__(self) -> None:
        if self.rate_hz is not None and self.runs != 1:
            raise InputError("a rate says how often a network runs: rate and runs exclude each other")
        if self.rate_hz is not None and self.deadline_ms and self.deadline_ms > 1e3 / self.rate_hz:
            raise InputError(
                f"a deadline of {self.deadline_ms:g} ms is behind the next run at {float(self.rate_hz):g} Hz",
                hint="give a lower rate, or a deadline within the period",
            )

    @property
    def deadline_ns(self) -> float:
        """Of a run, behind its begin."""
        if self.deadline_ms is not None:
            return self.deadline_ms * 1e6
        return math.inf if self.rate_hz is None else float(1e9 / self.rate_hz)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a network.

    Attributes:
        network: number of the network.
        run: number of the run.
        tasks: of the mix, in the order of the network's groups.
        begin_ns, deadline_ns: when it may begin, and must be done.
    """

    network: int
    run: int
    tasks: range
    begin_ns: float
    deadline_ns: float

    def end_ns(self, planned: Timetable) -> float:
        """When its last task ends."""
        return max(planned.finishes[task] for task in self.tasks)

    @property
    def promised_ns(self) -> float:
        """When it must be done by predictions, so that the deadline holds where these are off."""
        return self.begin_ns + (self.deadline_ns - self.begin_ns) / (1 + MARGIN)

    def is_late(self, planned: Timetable) -> bool:
        """Beyond rounding, and by predictions."""
        return self.end_ns(planned) > self.promised_ns * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class Mix:
    """Networks on a system.

    Attributes:
        graph: all runs as tasks.
        runs: of all networks.
        hyperperiod_ns: after which all repeats; None where no network has a rate.
    """

    graph: TaskGraph
    runs: tuple[PlannedRun, ...]
    hyperperiod_ns: float | None


def hyperperiod_ns(demands: Sequence[Demand]) -> Fraction | None:
    """The least common multiple of all periods."""
    periods = [1_000_000_000 / one.rate_hz for one in demands if one.rate_hz is not None]
    if not periods:
        return None
    # of fractions in lowest terms: of numerators, over what denominators have in common
    return Fraction(
        math.lcm(*(one.numerator for one in periods)), math.gcd(*(one.denominator for one in periods))
    )


def mix(profiles: Sequence[UnitProfile], demands: Sequence[Demand], system: System) -> Mix:
    """Raises InputError for rates whose common multiple has too many tasks."""
    whole = hyperperiod_ns(demands)
    counts = [
        one.runs if one.rate_hz is None or whole is None else int(whole * one.rate_hz / 1_000_000_000)
        for one in demands
    ]
    if sum(n * len(own.operators) for n, own in zip(counts, profiles, strict=True)) > _MOST_TASKS:
        raise InputError(
            f"until all networks begin together again, more than {_MOST_TASKS} groups run",
            hint="give rates that are multiples of each other, fewer runs, or fewer blocks of networks (--layers)",
        )
    parts: list[TaskGraph] = []
    runs, edges, names = [], dict[Edge, float](), []
    ready, deadlines, first = [], [], 0
    for number, (own, demand) in enumerate(zip(profiles, demands, strict=True)):
        for run in range(counts[number]):
            begin = 0.0 if demand.rate_hz is None else float(run * 1_000_000_000 / demand.rate_hz)
            count, end = len(own.operators), begin + demand.deadline_ns
            runs.append(PlannedRun(number, run, range(first, first + count), begin, end))
            promised = runs[-1].promised_ns
            parts.append(own.graph)
            edges |= {(a + first, b + first): size for (a, b), size in own.graph.edges.items()}
            names += [f"{own.network}#{run + 1} {name}" for name in own.graph.names]
            ready.append(np.full((count, len(system.units)), begin))
            # what nothing is behind ends last
            deadlines.append(np.array([math.inf if behind else promised for behind in own.graph.behind]))
            first += count
    graph = TaskGraph(
        tuple(names),
        tuple(unit.name for unit in system.units),
        np.concatenate([one.times for one in parts]),
        edges,
        energies=np.concatenate([one.energies for one in parts]),
        shared=np.concatenate([one.shared for one in parts], axis=1),
        exposed=np.concatenate([one.exposed for one in parts], axis=1),
        ready=np.concatenate(ready),
        deadlines=np.concatenate(deadlines),
        static=static_pj_per_ns(system),
    )
    return Mix(graph, tuple(runs), None if whole is None else float(whole))
