"""What a planner plans: tasks with what they take on every unit of a system, and what they need of each other.

* A unit (an accelerator, or the host core) runs one task at a time, without interruption.
* A task on another unit than one that it reads from waits for the bytes between them, where the two units do not share a memory. These
  transfers use a channel of their own (DMA) one at a time, beside whatever units compute.
* Resources that tasks of different units share (the host core that writes commands, the channel of main memory) slow tasks down that
  together ask for more than there is, see `baco.exploration.systems.timetable`.

Times are of any one unit, nanoseconds in `baco.exploration.systems.unit_profile`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common.errors import InfeasibleError

Floats = NDArray[np.float64]
Edge = tuple[int, int]


def _none() -> Floats:
    return np.zeros((0, 0, 0))


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks on the units of a system, n and U of them.

    Attributes:
        names, units: of the tasks, which come behind all that they need, and of the units.
        times: (n, U) of a task by itself on a unit; infinite where the unit cannot run it.
        edges: bytes that a task reads of another's results, by (producer, consumer).
        energies: (n, U) of a task, without what the system takes by itself; empty: 0.
        per_byte: (U, U) time that a byte takes from a producer's unit to a consumer's; empty: 0, all units share one memory.
        shared: (S, n, U) time that a task needs of each shared resource, at most the task's own; empty: no such resource.
        exposed: (S, n, U) time that a task takes longer where another one takes all that it can of a resource; empty: 0, as long as that
            leaves enough.
        ready: (n, U) before which no task begins; empty: 0.
        deadlines: (n,) until which tasks end; empty: infinite.
        static: energy that the system takes by itself, a unit of time.

    Raises InfeasibleError for a task that no unit can run.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    times: Floats
    edges: Mapping[Edge, float]
    energies: Floats = field(default_factory=_none)
    per_byte: Floats = field(default_factory=_none)
    shared: Floats = field(default_factory=_none)
    exposed: Floats = field(default_factory=_none)
    ready: Floats = field(default_factory=_none)
    deadlines: Floats = field(default_factory=_none)
    static: float = 0.0

    def __post_init__(self) -> None:
        tasks, units = len(self.names), len(self.units)
        for name, empty in {
            "energies": np.zeros((tasks, units)),
            "per_byte": np.zeros((units, units)),
            "shared": np.zeros((0, tasks, units)),
            "exposed": np.zeros((len(self.shared), tasks, units)),
            "ready": np.zeros((tasks, units)),
            "deadlines": np.full(tasks, math.inf),
        }.items():
            if not getattr(self, name).size:
                object.__setattr__(self, name, empty)
            assert name in ("shared", "exposed") or getattr(self, name).shape == empty.shape, name
        assert all(producer < consumer for producer, consumer in self.edges), (
            "tasks come behind what they need"
        )
        for name, row in zip(self.names, self.times, strict=True):
            if not np.isfinite(row).any():
                raise InfeasibleError(f"no unit of the system can run {name}")

    @cached_property
    def before(self) -> list[list[int]]:
        """Producers of every task, ascending."""
        found: list[list[int]] = [[] for _ in self.names]
        for producer, consumer in sorted(self.edges):
            found[consumer].append(producer)
        return found

    @cached_property
    def behind(self) -> list[list[int]]:
        """Consumers of every task, ascending."""
        found: list[list[int]] = [[] for _ in self.names]
        for producer, consumer in sorted(self.edges):
            found[producer].append(consumer)
        return found

    @cached_property
    def ancestors(self) -> list[int]:
        """Tasks that lie before every task, as bits."""
        found: list[int] = []
        for producers in self.before:
            bits = 0
            for producer in producers:
                bits |= found[producer] | 1 << producer
            found.append(bits)
        return found

    @cached_property
    def able(self) -> list[list[int]]:
        """Units that can run every task."""
        return [np.flatnonzero(np.isfinite(row)).tolist() for row in self.times]

    @cached_property
    def heads(self) -> Floats:
        """(n,) before which no schedule begins a task."""
        found = self.ready.min(1)
        for task, producers in enumerate(self.before):
            for producer in producers:
                found[task] = max(found[task], found[producer] + self.times[producer].min())
        return np.asarray(found)

    @cached_property
    def tails(self) -> Floats:
        """(n,) that any schedule takes behind a task's end."""
        return self.tails_of(self.times.min(1))

    def tails_of(self, times: Floats) -> Floats:
        """(n,) of the longest path behind each task where tasks take these times."""
        found = np.zeros(len(self.names))
        for task in range(len(self.names) - 1, -1, -1):
            for consumer in self.behind[task]:
                found[task] = max(found[task], times[consumer] + found[consumer])
        return found

    def transfer(self, edge: Edge, units: tuple[int, int]) -> float:
        """Time that the bytes of an edge take between two units."""
        return float(self.edges[edge] * self.per_byte[units]) if units[0] != units[1] else 0.0

    def part(self, tasks: list[int], ready: Floats) -> TaskGraph:
        """The graph of some tasks, ascending, that begin at `ready` (n, U) at the earliest."""
        place = {task: at for at, task in enumerate(tasks)}
        changes: dict[str, Any] = {name: getattr(self, name)[tasks] for name in ("times", "energies")}
        inner = {
            (place[a], place[b]): size for (a, b), size in self.edges.items() if a in place and b in place
        }
        return TaskGraph(
            tuple(self.names[task] for task in tasks),
            self.units,
            edges=inner,
            per_byte=self.per_byte,
            shared=self.shared[:, tasks],
            exposed=self.exposed[:, tasks],
            ready=ready,
            deadlines=self.deadlines[tasks],
            static=self.static,
            **changes,
        )


@dataclass(frozen=True)
class Goal:
    """What a plan has least of, once all deadlines are met: `time` of the makespan and `energy` of the energy of tasks."""

    time: float = 1.0
    energy: float = 0.0

    @classmethod
    def named(cls, name: str, graph: TaskGraph) -> Goal:
        """`makespan`, or `energy`, that of the system itself over the makespan included."""
        return cls() if name == "makespan" else cls(graph.static, 1.0)

    def costs(self, graph: TaskGraph) -> Floats:
        """(n, U) share of tasks in it, if they ran one after the other."""
        able = np.isfinite(graph.times)
        costs = self.time * np.where(able, graph.times, 0.0) + self.energy * np.where(
            able, graph.energies, 0.0
        )
        return np.asarray(np.where(able, costs, np.inf))
