"""The compiler's choice against Gemmini's default tilings, for the operators of the published evaluation: on the RTL, and by the model
of its units in time where that takes too long."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import bound
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.bench.tilings import Measure, default_paths, kept_measurements, measuring
from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import choices
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.measure.measurement import Measurement
from baco.sim.engines.base import CycleEngine

#: Slower than the default by more than this is told one by one.
_WORSE = 1.01
#: Operators that the page lists at either end.
_LISTED = 12


@dataclass(frozen=True)
class ProgramCycles:
    """A program: its schedule, cycles that the compiler predicts, and cycles from first command to last work by the engine."""

    schedule: str
    predicted: float
    measured: int


@dataclass(frozen=True)
class MeasuredOperator:
    """One operator.

    Attributes:
        engine: `rtl` or `timed`.
        bound: cycles that no program goes below (`baco.bench.cycle_bound`).
        default: Gemmini's default tiling, the better one of the paths that its library has.
        library: of the path that the library takes for the operator: convolutions of one pixel as convolutions.
        choice: the compiler's.
    """

    kind: str
    problem: str
    engine: CycleEngine
    bound: float
    default: ProgramCycles
    library: ProgramCycles
    choice: ProgramCycles

    @property
    def gain(self) -> float:
        """Cycles of the default over those of the choice."""
        return self.default.measured / self.choice.measured


@dataclass
class DefaultsBench:
    """Everything that the page shows.

    Attributes:
        limit: predicted cycles of the choice of operators that run on the RTL, at most.
        timed: likewise of those that the timed model runs, which are above `limit`.
        every: of the operators of each kind every so-manieth was looked at.
        total: operators of each kind, measured or not.
        without: operators within the limit whose default tiling cannot be carried out.
    """

    accelerator: str
    limit: float
    timed: float
    every: int
    total: dict[str, int] = field(default_factory=dict)
    operators: list[MeasuredOperator] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


def run(
    *,
    accelerator: str = "gemmini-default",
    kinds: Sequence[str] = KINDS,
    limit: Annotated[float, Interval(ge=1)] = 600_000.0,
    timed: Annotated[float, Interval(ge=0)] = 20_000_000.0,
    every: PositiveInt = 1,
    out: Path = FOLDER,
    store: Path | None = None,
    say: Say = silent,
) -> DefaultsBench:
    """The compiler's choice against Gemmini's default tilings, for the published operators: on the RTL, long ones by its timed model.

    Finished measurements are kept and not repeated: an interrupted benchmark goes on where it was.

    Args:
        accelerator: what they run on.
        kinds (--kind): GEMM, GEMV, Conv1D, Conv2D; repeatable; by default all.
        limit (CYCLES): on the RTL: predicted cycles of the compiler's choice, at most.
        timed (CYCLES): by the timed model of the accelerator: longer ones, up to so many predicted cycles; 0: none.
        every: take every so-manieth operator of each kind.
        store: file of finished measurements; by default in the cache of simulators.
        out: folder for defaults.md and defaults.json.

    Raises InputError for another kind, BacoError where a program is wrong.
    """
    check_names(kinds, KINDS, "kind of operator", "kind")
    files, machine = ResultFiles(out, "defaults", page), load_accelerator(accelerator)
    result = DefaultsBench(machine.name, limit, timed, every)
    selected: list[tuple[Shape, Schedule, CycleEngine]] = []
    for kind in kinds:
        own = [shape for shape in read_shapes() if shape.table and shape.kind == kind]
        result.total[kind] = len(own)
        best = [(choices(Layer(shape.problem), machine)[0], shape) for shape in own[::every]]
        chosen = [pair for pair in best if pair[0].cycles <= max(limit, timed)]
        chosen.sort(key=lambda pair: (pair[0].cycles, str(pair[1].problem)))
        selected += [
            (s, predicted.schedule, "rtl" if predicted.cycles <= limit else "timed")
            for predicted, s in chosen
        ]
        say(f"{kind}: {len(chosen)} of {len(own)} operators")
    with kept_measurements(store) as kept:
        for number, (shape, schedule, engine) in enumerate(selected, 1):
            found = _measure(shape, schedule, machine, engine, measuring(machine, kept, engine))
            if found is None:
                result.without.append(f"{shape.kind} {shape.problem}")
            else:
                result.operators.append(found)
            if number % 20 == 0 or number == len(selected):
                say(f"{number} of {len(selected)} operators measured")
                files.keep(result)
    return result


def _measure(
    shape: Shape, schedule: Schedule, accelerator: Accelerator, engine: CycleEngine, measure: Measure
) -> MeasuredOperator | None:
    layer = Layer(shape.problem)

    def cycles(of: Schedule, found: Measurement) -> ProgramCycles:
        return ProgramCycles(of.text, schedule_cycles(layer, of, accelerator), found.cycles)

    paths = [cycles(*path) for path in default_paths(layer, accelerator, measure)]
    choice = measure(layer, schedule)
    if choice is None:
        raise InfeasibleError(f"{shape.problem} by '{schedule.text}' cannot be carried out")
    if not paths:
        return None
    best = min(paths, key=lambda program: program.measured)
    least = bound(layer, accelerator).cycles
    return MeasuredOperator(
        shape.kind, str(shape.problem), engine, least, best, paths[-1], cycles(schedule, choice)
    )


def page(result: DefaultsBench) -> str:
    """By kind of operator, and the operators at either end."""
    which = "all" if result.every == 1 else f"of every {result.every}th of the"
    own = {kind: [operator for operator in result.operators if operator.kind == kind] for kind in KINDS}
    order = sorted(result.operators, key=lambda operator: operator.gain)
    without = f"No default tiling can be carried out for: {'; '.join(result.without)}."

    def mean(kind: str, ratio: Callable[[MeasuredOperator], float]) -> str:
        return f"{statistics.geometric_mean(map(ratio, own[kind])):.3f}"

    return page_of(
        "The compiler's choice against Gemmini's default tilings",
        f"On {result.accelerator}: {which} operators of the published evaluation whose choice is predicted to take at most"
        f" {result.limit:,.0f} cycles on the RTL, those up to {result.timed:,.0f} by the model of its units in time (`--engine timed`, which is"
        " 0.03% off the RTL in the mean). Every result is equal to numpy's integers; cycles from the first command to the last work."
        " Default: Gemmini's default tiling, the better of its library's paths as measured; the library's own path takes"
        " convolutions of one pixel as convolutions. Bound: cycles that no program goes below (`baco.bench.cycle_bound`). Ratios are"
        " geometric means; more than 1: the choice is faster. Worse: slower than the default by more than 1%.",
        table(
            (kind for kind in KINDS if own[kind]),
            {
                "kind": str,
                "operators": lambda kind: len(own[kind]),
                "timed": lambda kind: sum(operator.engine == "timed" for operator in own[kind]),
                "of": lambda kind: result.total[kind],
                "default over choice": lambda kind: f"**{mean(kind, lambda operator: operator.gain)}**",
                "worst": lambda kind: f"{min(operator.gain for operator in own[kind]):.3f}",
                "best": lambda kind: f"{max(operator.gain for operator in own[kind]):.3f}",
                "worse": lambda kind: sum(operator.gain * _WORSE < 1 for operator in own[kind]),
                "library over choice": lambda kind: mean(
                    kind, lambda o: o.library.measured / o.choice.measured
                ),
                "default over bound": lambda kind: mean(
                    kind, lambda operator: operator.default.measured / operator.bound
                ),
                "choice over bound": lambda kind: mean(
                    kind, lambda operator: operator.choice.measured / operator.bound
                ),
            },
        ),
        without if result.without else "",
        _listed("Slower than the default by more than 1%", [o for o in order if o.gain * _WORSE < 1]),
        _listed("The largest gains", order[::-1][:_LISTED]),
    )


def _listed(title: str, operators: Sequence[MeasuredOperator]) -> str:
    columns = {
        "operator": lambda operator: f"{operator.kind} {operator.problem}",
        "default over choice": lambda operator: f"{operator.gain:.3f}",
        "default": lambda operator: _cycles(operator.default),
        "choice": lambda operator: _cycles(operator.choice),
        "default's schedule": lambda operator: operator.default.schedule,
        "choice's schedule": lambda operator: operator.choice.schedule,
    }
    text = f"## {title}\n\nCycles, measured and, in brackets, predicted.\n\n{table(operators, columns)}"
    return text if operators else ""


def _cycles(program: ProgramCycles) -> str:
    return f"{program.measured:,} ({program.predicted:,.0f})"
