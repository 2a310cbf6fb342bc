"""Plans of systems, run: one program for all units, every operator compared, when every task began and ended beside what was planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.system import System
from baco.compiler.analysis.traffic import bytes_per_cycle
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import compile_network
from baco.compiler.network.system_program import (
    SystemProgram,
    SystemRun,
    SystemTask,
    compile_system,
    value_name,
)
from baco.exploration.systems.system_plan import SystemPlan
from baco.exploration.systems.timetable import orderly
from baco.exploration.systems.unit_price import SLOWER, MeasuredStep
from baco.exploration.systems.unit_profile import UnitProfile, profile
from baco.sim.engines.program import run_program
from baco.sim.job import MainMemory, Simulation
from baco.sim.network.run import Watched, run_network

Array = np.ndarray[Any, Any]
#: Cycles from reset after which runs with rates may begin: all cores are through with the start of the program by then.
_START = 4096
#: Of a run of a network: what its inputs hold and what its values must be, by name.
RunData = tuple[Mapping[str, Array], Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class MeasuredPlan:
    """A plan that ran.

    Attributes:
        plan: what was planned.
        program: what ran.
        engine: that counted the cycles; those of `functional` are the cores' alone.
        starts_ns, finishes_ns: of every task of the plan's mix, from the begin of the first one; with rates from when the first runs may
            begin.
        checked: how many operators were compared.
        wrong: those whose results are not right, in words; the program's exit code, where it is not 0.
        result: what was counted in all.
        alone_ns: by unit with an accelerator whose own programs were run: all runs of the plan, one behind the other.
    """

    plan: SystemPlan
    program: SystemProgram
    engine: str
    starts_ns: tuple[float, ...]
    finishes_ns: tuple[float, ...]
    checked: int
    wrong: tuple[str, ...]
    result: Simulation
    alone_ns: Mapping[str, float]

    @property
    def makespan_ns(self) -> float:
        """Until the end of the last task."""
        return max(self.finishes_ns, default=0.0)

    @property
    def error(self) -> float:
        """Predicted over measured makespan, less 1."""
        return self.plan.timetable.makespan / self.makespan_ns - 1

    @property
    def speedup(self) -> tuple[str, float] | None:
        """The best unit alone as measured, and how many times as fast the plan is; None where none was run, or rates decide."""
        if not self.alone_ns or self.plan.mix.hyperperiod_ns is not None:
            return None
        best = min(self.alone_ns, key=lambda name: self.alone_ns[name])
        return best, self.alone_ns[best] / self.makespan_ns

    @property
    def late(self) -> list[tuple[int, float]]:
        """Numbers of runs that missed their deadlines, and nanoseconds by which."""
        ends = [max(self.finishes_ns[task] for task in run.tasks) for run in self.plan.mix.runs]
        over = [end - run.deadline_ns for end, run in zip(ends, self.plan.mix.runs, strict=True)]
        return [(number, by) for number, by in enumerate(over) if by > 0]

    def record(self) -> dict[str, Any]:
        """Plain values."""
        speedup = self.speedup
        return {
            "evidence": f"measured by {self.engine}",
            "makespan_ms": self.makespan_ns * 1e-6,
            "predicted_ms": self.plan.timetable.makespan * 1e-6,
            "error": self.error,
            "alone_ms": {name: ns * 1e-6 for name, ns in self.alone_ns.items()},
            "speedup": None if speedup is None else {"over": speedup[0], "times": speedup[1]},
            "checked": self.checked,
            "wrong": list(self.wrong),
            "missed": [{"run": run, "late_ms": by * 1e-6} for run, by in self.late],
            "tasks": [
                {"start_ms": start * 1e-6, "end_ms": end * 1e-6}
                for start, end in zip(self.starts_ns, self.finishes_ns, strict=True)
            ],
        }


def queued_cycles(system: System, latency: int) -> float:
    """That a request waits at the channel behind those of another unit that moves all it can: what is in flight, less what the latency of
    memory covers."""
    in_flight = max(one.dma_requests * one.dma_max_bytes for one in system.accelerators)
    return max(0.0, in_flight / system.dram_bytes_per_cycle - latency)


def measured_profile(
    network: QuantisedNetwork,
    data: Mapping[str, Array],
    system: System,
    engine: str,
    report: Callable[[str], None] | None = None,
) -> UnitProfile:
    """A network's groups on the units of a system, as they were measured in its own program for every accelerator.

    Args:
        data: what its inputs hold, by value.
        engine: that counts cycles.
    """

    def measure(accelerator: Accelerator) -> list[MeasuredStep]:
        built, bandwidth = compile_network(network, accelerator, data=data), bytes_per_cycle(accelerator)
        latency = MainMemory().latency_cycles
        usual, slower, later = (
            run_network(built, engine=engine, report=report, memory=memory).steps
            for memory in (
                MainMemory(bytes_per_cycle=bandwidth),
                MainMemory(bytes_per_cycle=bandwidth * SLOWER),
                MainMemory(bytes_per_cycle=bandwidth, latency_cycles=2 * latency),
            )
        )
        queue = queued_cycles(system, latency)
        return [
            MeasuredStep(
                step.cycles,
                step.dram_bytes,
                # a request waits for its share of the channel, or behind a queue that its own loads do not fill
                max(
                    (slow.cycles - step.cycles) / (1 / SLOWER - 1),
                    (late.cycles - step.cycles) / latency * queue,
                ),
            )
            for step, slow, late in zip(usual, slower, later, strict=True)
        ]

    return profile(network, system, measure)


def compile_plan(plan: SystemPlan, data: Sequence[RunData]) -> tuple[SystemProgram, list[int]]:
    """The plan's program, and the number in it of every task of the mix.

    Args:
        data: of every run of the mix.

    Raises InputError where units have clocks of their own.
    """
    graph, table, mhz = plan.mix.graph, plan.timetable, plan.system.clock_mhz
    order = orderly(graph, table.starts)
    number = [0] * len(order)
    for at, task in enumerate(order):
        number[task] = at
    inside = {
        task: (run, group)
        for run, asked in enumerate(plan.mix.runs)
        for group, task in enumerate(asked.tasks)
    }
    tasks = []
    for task in order:
        run, group = inside[task]
        unit, before = table.units[task], graph.before[task]
        # a run's first tasks wait for its begin, the others for these
        paced = plan.mix.hyperperiod_ns is not None and not before
        begin = _START + math.ceil(plan.mix.runs[run].begin_ns * mhz * 1e-3) if paced else 0
        steps = plan.profiles[plan.mix.runs[run].network].steps[group][unit]
        tasks.append(SystemTask(run, unit, steps, tuple(number[need] for need in before), begin))
    runs = []
    for one, (inputs, reference) in zip(plan.mix.runs, data, strict=True):
        own = plan.profiles[one.network]
        assert own.fused is not None, "profiles of networks have them"
        runs.append(SystemRun(own.fused, own.lowered, inputs, reference))
    name = "_".join(dict.fromkeys(own.network for own in plan.profiles))
    return compile_system(name, runs, tasks, plan.system), number


def replay_plan(
    plan: SystemPlan,
    data: Sequence[RunData],
    engine: str = "rtl",
    *,
    alone_ns: Mapping[str, float] | None = None,
    report: Callable[[str], None] | None = None,
) -> MeasuredPlan:
    """Compile a plan and run it.

    Args:
        data: of every run of the mix.
        engine: `functional`, or one that counts cycles.
        alone_ns: as in `MeasuredPlan`.
        report: told how building a simulator goes on.

    Raises as `compile_plan` and `baco.sim.engines.program.run_program`.
    """
    made, number = compile_plan(plan, data)
    wanted = {
        value_name(run, key): one for run, (_, reference) in enumerate(data) for key, one in reference.items()
    }
    watched = Watched(made.built, wanted)
    _, result = run_program(made.built.program, engine=engine, report=report, watches=watched.points)
    checked, wrong = watched.compare(result.marks)
    ns = 1e3 / plan.system.clock_mhz
    when = {mark.address: mark.cycle for mark in result.marks}
    labels = list(made.built.program.labels.values())
    spans = [made.tasks[at] for at in number]
    starts, finishes = ([when.get(labels[span[end]], 0) for span in spans] for end in (0, 1))
    zero = min(starts, default=0) if plan.mix.hyperperiod_ns is None else _START
    words = tuple(map(str, wrong))
    if result.exit_code:
        words += (f"the program ended with {result.exit_code}: {result.console.strip()[-200:]}",)
    return MeasuredPlan(
        plan,
        made,
        result.engine,
        tuple((cycle - zero) * ns for cycle in starts),
        tuple((cycle - zero) * ns for cycle in finishes),
        len(checked),
        words,
        result,
        alone_ns or {},
    )
