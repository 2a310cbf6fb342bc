"""Running a network's program: results, what every step took, and whether every boundary is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco.compiler.network.program import NetworkProgram
from baco.sim.engines.program import run_program
from baco.sim.job import Limits, MainMemory, Mark, Recording, Simulation, SimulationError, Watchpoint
from baco.sim.network.boundaries import Boundary, Mismatch, boundaries, compare
from baco.sim.network.profile import OperatorProfile, StepProfile, group_by_operator, profile_steps

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NetworkRun:
    """One simulation of a network's program.

    Attributes:
        values: outputs by the names of their values.
        result: what was measured in all.
        steps, operators: what was measured of each; nothing where the program ended before its end.
        checked: operators whose results were compared, in order.
        wrong: those whose are not right; the first one is where the mistake is.
        prologue, epilogue: cycles before the first step and behind the last one.
    """

    values: Mapping[str, Array] = field(repr=False)
    result: Simulation
    steps: tuple[StepProfile, ...]
    operators: tuple[OperatorProfile, ...]
    checked: tuple[str, ...]
    wrong: tuple[Mismatch, ...]
    prologue: int
    epilogue: int


def run_network(
    built: NetworkProgram,
    reference: Mapping[str, Array] | None = None,
    engine: str = "functional",
    *,
    inputs: Mapping[str, Array] | None = None,
    predicted: Sequence[float] | None = None,
    memory: MainMemory | None = None,
    timing: str | None = None,
    limits: Limits | None = None,
    recording: Recording | None = None,
    report: Callable[[str], None] | None = None,
    console: Callable[[str], None] | None = None,
) -> NetworkRun:
    """Run a network's program once; activations stay in simulated memory from its first layer to its last.

    The boundaries between operators are copied from memory while it runs, without a cycle's difference.

    Args:
        reference: every value that an operator writes (`baco.compiler.network.reference`); None: nothing is compared.
        engine: functional or rtl.
        inputs: new contents of buffers by name.
        timing: whose cycles the engine rtl counts, one of `baco.accel.config.TIMINGS`; by default the accelerator's.
        predicted: cycles of every step (`baco.compiler.network.prediction`), kept beside the measured ones.

    Raises as `baco.sim.engines.program.run_program`, with the operator in which a simulation was stopped; a program that ends
    early, with an exit code, raises nothing.
    """
    watched = Watched(built, reference)
    try:
        buffers, result = run_program(
            built.program,
            inputs,
            engine,
            memory=memory,
            timing=timing,
            limits=limits,
            recording=recording,
            report=report,
            console=console,
            watches=watched.points,
        )
    except SimulationError as error:
        raise _located(error, built) from error
    checked, wrong = watched.compare(result.marks)
    whole = len(result.marks) == len(watched.points)
    steps = profile_steps(built, result.marks, predicted) if whole else []
    cycles = result.cycles if result.cycles is not None else result.counters["host_cycles"]
    return NetworkRun(
        values={name: buffers[buffer] for name, buffer in built.buffer_names.items() if buffer in buffers},
        result=result,
        steps=tuple(steps),
        operators=tuple(group_by_operator(built, steps)),
        checked=checked,
        wrong=wrong,
        prologue=result.marks[0].cycle if result.marks else cycles,
        epilogue=cycles - result.marks[-1].cycle if result.marks else 0,
    )


class Watched:
    """What is looked at while a program runs.

    Attributes:
        points: of every step, and of the end.
    """

    def __init__(self, built: NetworkProgram, reference: Mapping[str, Array] | None) -> None:
        self._built, self._reference = built, reference
        self._boundaries = boundaries(built) if reference is not None else []
        copied: dict[int, list[Boundary]] = {}
        for value in self._boundaries:
            copied.setdefault(value.step, []).append(value)
        labels = list(built.program.labels.values())
        self._copied = {address: copied.get(number, []) for number, address in enumerate(labels)}
        self.points = [
            Watchpoint(address, tuple((value.address, value.nbytes) for value in there))
            for address, there in self._copied.items()
        ]

    def compare(self, marks: Sequence[Mark]) -> tuple[tuple[str, ...], tuple[Mismatch, ...]]:
        """Operators whose results were compared, in order, and those whose are not right."""
        order = {value.operator: number for number, value in enumerate(self._boundaries)}
        found = [pair for mark in marks for pair in zip(self._copied[mark.address], mark.copies, strict=True)]
        found.sort(key=lambda pair: order[pair[0].operator])
        checked = tuple(dict.fromkeys(boundary.operator for boundary, _ in found))
        if self._reference is None:
            return checked, ()
        return checked, tuple(compare(self._built, found, self._reference))


def _located(error: SimulationError, built: NetworkProgram) -> SimulationError:
    """The same error, saying how far the network had come."""
    steps, passed = built.lowered.steps, len(error.record.get("marks", ()))
    if not 0 < passed <= len(steps):
        return error
    where = f"step {passed} of {len(steps)}, operator '{steps[passed - 1].operator}'"
    return SimulationError(
        f"{error.message} (in {where})",
        kind=error.kind,
        console=error.console,
        record=error.record,
        hint=error.hint,
        details=error.details,
    )
