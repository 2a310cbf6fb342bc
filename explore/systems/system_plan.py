"""A plan of networks on a system, and what is said of it: savings over single units, missed deadlines, records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from baco.accel.system import System
from baco.common.units import si
from baco.exploration.systems.list_plans import heft
from baco.exploration.systems.mix import MARGIN, Demand, Mix, PlannedRun, mix
from baco.exploration.systems.planner import PlannedSystem, plan_graph
from baco.exploration.systems.task_graph import Goal, TaskGraph
from baco.exploration.systems.timetable import Timetable, replay
from baco.exploration.systems.unit_profile import UnitProfile, channel_gb_s

Objective = Literal["makespan", "energy", "edp"]


class Handover(NamedTuple):
    """What units hand to each other through main memory, which a memory of their own between them could hold instead.

    Attributes:
        nbytes: written for groups on other units and read by them.
        share: of all bytes that the plan needs of the channel.
        saved: share of the makespan that would go if these took no time and nobody were held up by them, on the same units in the
            same order: more than a shared memory could save.
    """

    nbytes: float
    share: float
    saved: float

    def words(self) -> tuple[str, str]:
        """How much it is, and what that means."""
        less = f"if they took no time: {self.saved:.1%} less makespan"
        return si(
            self.nbytes, "B", 4
        ), f"from unit to unit through main memory, {self.share:.1%} of what it moves; {less}"


@dataclass(frozen=True, eq=False)
class SystemPlan:
    """Which unit of a system runs which group of which network when, as predicted.

    Attributes:
        system: units that there are.
        profiles, demands: of the networks.
        mix: their runs.
        objective: what there is least of, once deadlines are met.
        planned: the plan, and what is proven of it.
    """

    system: System
    profiles: tuple[UnitProfile, ...]
    demands: tuple[Demand, ...]
    mix: Mix
    objective: Objective
    planned: PlannedSystem

    @property
    def timetable(self) -> Timetable:
        """When what runs where."""
        return self.planned.best

    @property
    def energy_pj(self) -> float:
        """Of all runs and of the system while they last."""
        return self.timetable.energy(self.mix.graph)

    @property
    def late(self) -> tuple[PlannedRun, ...]:
        """Runs that miss their deadlines."""
        return tuple(one for one in self.mix.runs if one.is_late(self.timetable))

    def alone(self) -> dict[str, tuple[float, float]]:
        """(ns, pJ) by unit with an accelerator: all runs one after the other by its own programs, without the other units."""
        counts = [sum(run.network == number for run in self.mix.runs) for number in range(len(self.profiles))]
        return {
            name: (
                math.fsum(n * own.alone_ns[name] for n, own in zip(counts, self.profiles, strict=True)),
                math.fsum(n * own.alone_pj[name] for n, own in zip(counts, self.profiles, strict=True)),
            )
            for name in self.profiles[0].alone_ns
        }

    def saving(self) -> tuple[str, float] | None:
        """The best single accelerator by the objective, and the share of it that the plan saves; None where rates decide when
        runs begin."""
        if self.mix.hyperperiod_ns is not None and self.objective != "energy":
            return None
        alone = {name: _worth(self.objective, *both) for name, both in self.alone().items()}
        best = min(alone, key=lambda name: alone[name])
        return best, 1 - self.worth / alone[best]

    @property
    def worth(self) -> float:
        """What there is to be least of: ns, pJ or their product."""
        return _worth(self.objective, self.timetable.makespan, self.energy_pj)

    @property
    def gap(self) -> float | None:
        """See `PlannedSystem.gap`; None for products, of which nothing is proven."""
        return None if self.objective == "edp" else self.planned.gap

    def busy_ns(self) -> list[float]:
        """Of every unit."""
        plan, busy = self.timetable, [0.0] * len(self.system.units)
        for unit, start, finish in zip(plan.units, plan.starts, plan.finishes, strict=True):
            busy[unit] += finish - start
        return busy

    def handover(self) -> Handover:
        """What would be saved at most by a memory that units share."""
        graph, table = self.mix.graph, self.timetable
        tasks, rate = range(len(table.units)), channel_gb_s(self.system)
        written, read = np.zeros(len(tasks)), np.zeros(len(tasks))
        for (producer, consumer), nbytes in graph.edges.items():
            if table.units[producer] != table.units[consumer]:
                written[producer] = max(written[producer], nbytes)
                read[consumer] += nbytes
        needed = graph.shared[0][tasks, table.units]
        free = np.minimum((written + read) / rate, needed)
        times, shared = graph.times.copy(), graph.shared.copy()
        times[tasks, table.units] -= free
        shared[0][tasks, table.units] -= free
        least = replay(replace(graph, times=times, shared=shared), table).makespan
        return Handover(
            float((written + read).sum()),
            float(free.sum() / max(needed.sum(), 1e-30)),
            1 - least / max(table.makespan, 1e-30),
        )

    def deadline_words(self) -> str:
        """Whether they are met, in words; empty where there are none."""
        if all(run.deadline_ns == math.inf for run in self.mix.runs):
            return ""
        if not self.late:
            return f"all deadlines are met, {MARGIN:.0%} before them"
        names = ", ".join(
            f"{self.profiles[run.network].network} run {run.run + 1} by"
            f" {(run.end_ns(self.timetable) - run.promised_ns) * 1e-6:.4g} ms"
            for run in self.late
        )
        proven = "; no schedule meets all" if self.planned.deadlines == "cannot be met" else ""
        return f"missed deadlines, with {MARGIN:.0%} for errors of predictions: {names}{proven}"

    def record(self) -> dict[str, Any]:
        """Plain values, all times and energies predicted."""
        graph, plan = self.mix.graph, self.timetable
        saving = self.saving()
        return {
            "evidence": "predicted",
            "objective": self.objective,
            "units": [
                {
                    "unit": unit.name,
                    "accelerator": None if unit.accelerator is None else unit.accelerator.config_hash,
                    "busy_ms": busy * 1e-6,
                }
                for unit, busy in zip(self.system.units, self.busy_ns(), strict=True)
            ],
            "networks": [
                _network(own, demand, graph.units)
                for own, demand in zip(self.profiles, self.demands, strict=True)
            ],
            "makespan_ms": plan.makespan * 1e-6,
            "energy_uj": self.energy_pj * 1e-6,
            "hyperperiod_ms": None if self.mix.hyperperiod_ns is None else self.mix.hyperperiod_ns * 1e-6,
            "bound": None if self.gap is None else self.planned.bound * 1e-6,
            "gap": self.gap,
            "solver": self.planned.solver,
            "solvers": {
                name: {"lateness_ms": value.lateness * 1e-6, "objective": value.goal * 1e-6}
                for name, value in self.planned.values.items()
            },
            "alone": {
                name: {"ms": ns * 1e-6, "energy_uj": pj * 1e-6} for name, (ns, pj) in self.alone().items()
            },
            "saving": None if saving is None else {"over": saving[0], "share": saving[1]},
            "handover": self.handover()._asdict(),
            "missed": [
                {
                    "network": self.profiles[run.network].network,
                    "run": run.run + 1,
                    "late_ms": (run.end_ns(plan) - run.promised_ns) * 1e-6,
                }
                for run in self.late
            ],
            "tasks": [
                {
                    "network": self.profiles[run.network].network,
                    "run": run.run + 1,
                    "group": self.profiles[run.network].graph.names[at],
                    "unit": graph.units[plan.units[task]],
                    "start_ms": plan.starts[task] * 1e-6,
                    "end_ms": plan.finishes[task] * 1e-6,
                }
                for run in self.mix.runs
                for at, task in enumerate(run.tasks)
            ],
        }


def _network(own: UnitProfile, demand: Demand, units: Sequence[str]) -> dict[str, Any]:
    def by_unit(row: Sequence[float], times: Sequence[float], scale: float) -> dict[str, float | None]:
        return {
            name: value * scale if time < math.inf else None
            for name, value, time in zip(units, row, times, strict=True)
        }

    rows = zip(
        own.graph.names, own.operators, own.graph.times.tolist(), own.graph.energies.tolist(), strict=True
    )
    return {
        "network": own.network,
        "rate_hz": None if demand.rate_hz is None else float(demand.rate_hz),
        "deadline_ms": demand.deadline_ms,
        "runs": demand.runs,
        "groups": [
            {
                "group": name,
                "operators": list(operators),
                "ms": by_unit(times, times, 1e-6),
                "energy_uj": by_unit(energies, times, 1e-6),
            }
            for name, operators, times, energies in rows
        ],
    }


def _worth(objective: Objective, ns: float, pj: float) -> float:
    return {"makespan": ns, "energy": pj, "edp": ns * pj}[objective]


def goal_of(objective: Objective, graph: TaskGraph) -> Goal:
    """What solvers make least. Of the product of makespan and energy it is the direction in which that falls from HEFT's plan: makespan times
    that plan's energy and energy times its makespan, over the makespan as ns."""
    if objective != "edp":
        return Goal.named(objective, graph)
    begin = replay(graph, heft(graph))
    power = begin.energy(graph) / max(begin.makespan, 1e-30)
    return Goal(graph.static + power, 1.0)


def plan_system(
    profiles: Sequence[UnitProfile],
    demands: Sequence[Demand],
    system: System,
    *,
    objective: Objective = "makespan",
    seconds: float = 20.0,
) -> SystemPlan:
    """Raises InputError as `mix`."""
    runs = mix(profiles, demands, system)
    planned = plan_graph(runs.graph, goal_of(objective, runs.graph), seconds=seconds)
    return SystemPlan(system, tuple(profiles), tuple(demands), runs, objective, planned)


def unit_rows(plan: SystemPlan) -> list[tuple[str, int, float, float]]:
    """(unit, tasks, ms that it is busy, share of the makespan) of every unit."""
    span = plan.timetable.makespan or 1.0
    return [
        (name, plan.timetable.units.count(at), busy * 1e-6, busy / span)
        for at, (name, busy) in enumerate(zip(plan.mix.graph.units, plan.busy_ns(), strict=True))
    ]


def solver_rows(plan: SystemPlan) -> Mapping[str, float]:
    """What each solver's schedule has of the objective, ms or µJ, the least first; those that miss deadlines last."""
    return {
        name: value.goal * 1e-6
        for name, value in sorted(plan.planned.values.items(), key=lambda item: item[1])
    }
