"""What every step and every operator of a network took, from the marks of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from baco.compiler.network.lowered import step_kind
from baco.compiler.network.program import NetworkProgram
from baco.sim.job import Mark

#: Short names of the counters that people ask for first.
_BUSY = {
    "load": "accelerator_load_busy_cycles",
    "execute": "accelerator_execute_busy_cycles",
    "store": "accelerator_store_busy_cycles",
    "mesh": "accelerator_mesh_cycles",
}


@dataclass(frozen=True)
class Measured:
    """What passed between two marks.

    Cycles belong to the step that was issued last: work of the accelerator that goes on behind the call of its step,
    where no fence stands before the next one, counts with the next one.

    Attributes:
        start, cycles: when it began, and how long until the next one began.
        counters, activity: as in `baco.sim.job.Simulation`, of these cycles only.
    """

    start: int
    cycles: int
    counters: Mapping[str, int] = field(repr=False)
    activity: Mapping[str, int] = field(repr=False)

    @property
    def busy(self) -> dict[str, int]:
        """Cycles in which each unit worked; nothing for engines without timing."""
        return {name: self.counters[key] for name, key in _BUSY.items() if key in self.counters}

    @property
    def stalls(self) -> dict[str, int]:
        """Cycles in which the host core waited, by what it waited for (sim/cpp/host.h)."""
        start = "host_stall_"
        return {name[len(start) :]: n for name, n in self.counters.items() if name.startswith(start)}

    @property
    def dram_bytes(self) -> int:
        """Moved between memory and the accelerator."""
        return self.counters["dram_read_bytes"] + self.counters["dram_write_bytes"]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"busy": self.busy, "stalls": self.stalls, "dram_bytes": self.dram_bytes}


@dataclass(frozen=True)
class StepProfile(Measured):
    """One step (`baco.compiler.network.steps.Step`).

    Attributes:
        number: from 0.
        operator: that it is part of.
        function: what is called.
        what: what that computes and how: the schedule of a layer, say.
        predicted: cycles; None without a prediction.
    """

    number: int = 0
    operator: str = ""
    function: str = ""
    what: str = ""
    predicted: float | None = None


@dataclass(frozen=True)
class OperatorProfile(Measured):
    """All steps of one operator of the network.

    Attributes:
        operator: its name.
        steps: how many calls.
        what: what the first call computes, and how; why the host does it, or what else it does.
        on: `accelerator`, `host` or `both`.
        predicted: cycles; None without a prediction.
    """

    operator: str = ""
    steps: int = 1
    what: str = ""
    on: str = "accelerator"
    predicted: float | None = None

    @property
    def error(self) -> float | None:
        """Predicted over measured cycles, less 1."""
        return None if self.predicted is None or not self.cycles else self.predicted / self.cycles - 1


def profile_steps(
    built: NetworkProgram, marks: Sequence[Mark], predicted: Sequence[float] | None = None
) -> list[StepProfile]:
    """A profile for every step.

    Args:
        marks: of the labels of the program (`baco.compiler.network.emission.step_labels`), each passed once, in order.
        predicted: cycles of every step.
    """
    steps = built.lowered.steps
    addresses = list(built.program.labels.values())
    assert [mark.address for mark in marks] == addresses, "a program calls its steps once each, in order"
    found = []
    for number, (mark, behind) in enumerate(pairwise(marks)):
        step = steps[number]
        found.append(
            StepProfile(
                mark.cycle,
                behind.cycle - mark.cycle,
                _difference(behind.counters, mark.counters),
                _difference(behind.activity, mark.activity),
                number,
                step.operator,
                step.function,
                describe(built, step.function),
                predicted[number] if predicted is not None else None,
            )
        )
    return found


def describe(built: NetworkProgram, function: str) -> str:
    """What a function of the program computes, and how."""
    lowered = built.lowered
    if function in lowered.layers:
        code = lowered.layers[function]
        return f"{code.layer.problem}: {code.schedule}" + (", through a table" if code.table else "")
    if function in lowered.groups:
        group = lowered.groups[function]
        return f"{group.group}: {group.schedule}"
    if function in lowered.codes:
        return str(lowered.codes[function])
    return f"host: {step_kind(lowered, function).removeprefix('net_')}"


def group_by_operator(built: NetworkProgram, steps: Sequence[StepProfile]) -> list[OperatorProfile]:
    """A profile for every operator, in order."""
    found = []
    of_operators: dict[str, list[StepProfile]] = {}
    for step in steps:  # those of two operators may take turns
        of_operators.setdefault(step.operator, []).append(step)
    for operator, part in of_operators.items():
        where = {built.lowered.steps[step.number].accelerator for step in part}
        guesses = [step.predicted for step in part if step.predicted is not None]
        found.append(
            OperatorProfile(
                part[0].start,
                sum(step.cycles for step in part),
                _sum([step.counters for step in part]),
                _sum([step.activity for step in part]),
                operator,
                len(part),
                _with_reason(part[0].what, built.lowered.reasons.get(operator)),
                "both" if len(where) > 1 else "accelerator" if True in where else "host",
                sum(guesses) if len(guesses) == len(part) else None,
            )
        )
    return found


def _with_reason(what: str, reason: str | None) -> str:
    return what if reason is None else f"{what} ({reason})"


def _difference(later: Mapping[str, int], earlier: Mapping[str, int]) -> dict[str, int]:
    return {name: value - earlier.get(name, 0) for name, value in later.items()}


def _sum(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
