"""The compiler's choice against Gemmini's default tilings, for the operators of the published evaluation: on the RTL, and by the model
of its units in time where that takes too long."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import bound
from baco.bench.experiment import check_names
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.bench.search import geometric_mean
from baco.bench.sets.collect import store_path
from baco.common.errors import BacoError, InfeasibleError
from baco.common.files import atomic_write, output_folder
from baco.compiler.choice.choose import choices
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.schedules.text import schedule_text
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.store import MeasurementStore, measurement_key
from baco.sim.engines.base import CycleEngine

__all__ = ["DefaultsBench", "MeasuredOperator", "bench_defaults", "defaults_page"]

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


Say = Callable[[str], None]


def bench_defaults(
    *,
    accelerator: str = "gemmini-default",
    kinds: Sequence[str] = KINDS,
    limit: Annotated[float, Interval(ge=1)] = 600_000.0,
    timed: Annotated[float, Interval(ge=0)] = 20_000_000.0,
    every: PositiveInt = 1,
    out: Path = Path("baco-bench"),
    store: Path | None = None,
    say: Say = lambda _: None,
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
    folder, machine = output_folder(out), load_accelerator(accelerator)
    result = DefaultsBench(machine.name, limit, timed, every)
    selected: list[tuple[Shape, Schedule, CycleEngine]] = []
    for kind in kinds:
        own = [one for one in read_shapes() if one.table and one.kind == kind]
        result.total[kind] = len(own)
        chosen = []
        for shape in own[::every]:
            best = choices(Layer(shape.problem), machine)[0]
            if best.cycles <= max(limit, timed):
                chosen.append((best.cycles, shape, best.schedule))
        chosen.sort(key=lambda one: (one[0], str(one[1].problem)))
        selected += [
            (shape, schedule, "rtl" if cycles <= limit else "timed") for cycles, shape, schedule in chosen
        ]
        say(f"{kind}: {len(chosen)} of {len(own)} operators")
    with MeasurementStore(store or store_path()) as measurements:
        for number, (shape, schedule, engine) in enumerate(selected, 1):
            found = _measure(shape, schedule, machine, engine, measurements)
            if found is None:
                result.without.append(f"{shape.kind} {shape.problem}")
            else:
                result.operators.append(found)
            if number % 20 == 0 or number == len(selected):
                say(f"{number} of {len(selected)} operators measured")
                atomic_write(folder / "defaults.json", json.dumps(asdict(result), indent=1) + "\n")
                atomic_write(folder / "defaults.md", defaults_page(result))
    return result


def _measure(
    shape: Shape,
    schedule: Schedule,
    accelerator: Accelerator,
    engine: CycleEngine,
    measurements: MeasurementStore,
) -> MeasuredOperator | None:
    layer = Layer(shape.problem)

    def program(of: Schedule) -> ProgramCycles | None:
        """None for a schedule that the machine cannot carry out."""
        key = measurement_key(layer, of, accelerator, engine)
        found = measurements.get(key)
        if found is None:
            found = measurements.put(key, measure_layer(layer, of, accelerator, engine=engine))
        if found.status == "infeasible":
            return None
        if found.cycles is None:
            raise BacoError(f"{shape.problem} by '{schedule_text(of)}': {found.reason}")
        return ProgramCycles(schedule_text(of), schedule_cycles(layer, of, accelerator), found.cycles)

    paths = [one for path in gemmini_paths(layer, accelerator) if (one := program(path)) is not None]
    choice = program(schedule)
    if choice is None:
        raise InfeasibleError(f"{shape.problem} by '{schedule_text(schedule)}' cannot be carried out")
    if not paths:
        return None
    return MeasuredOperator(
        shape.kind,
        str(shape.problem),
        engine,
        bound(layer, accelerator).cycles,
        min(paths, key=lambda one: one.measured),
        paths[-1],
        choice,
    )


# -------------------------------------------------------------------- the page


def _mean(values: Sequence[float]) -> str:
    return f"{geometric_mean(values):.3f}" if values else ""


def defaults_page(result: DefaultsBench) -> str:
    """The page of results."""
    which = "all" if result.every == 1 else f"of every {result.every}th of the"
    lines = [
        "# The compiler's choice against Gemmini's default tilings",
        "",
        f"On {result.accelerator}: {which} operators of the published evaluation whose choice is predicted to take at most"
        f" {result.limit:,.0f} cycles on the RTL, those up to {result.timed:,.0f} by the model of its units in time (`--engine timed`, which is"
        " 0.03% off the RTL in the mean). Every result is equal to numpy's integers; cycles from the first command to the last work."
        " Default: Gemmini's default tiling, the better of its library's paths as measured; the library's own path takes"
        " convolutions of one pixel as convolutions. Bound: cycles that no program goes below (`baco.bench.cycle_bound`). Ratios are"
        " geometric means; more than 1: the choice is faster. Worse: slower than the default by more than 1%.",
        "",
        "| kind | operators | timed | of | default over choice | worst | best | worse | library over choice | default over bound | choice over bound |",
        "|" + "---|" * 11,
    ]
    for kind in KINDS:
        own = [one for one in result.operators if one.kind == kind]
        if own:
            gains = [one.gain for one in own]
            lines.append(
                f"| {kind} | {len(own)} | {sum(one.engine == 'timed' for one in own)} | {result.total[kind]} | **{_mean(gains)}** | {min(gains):.3f} | {max(gains):.3f}"
                f" | {sum(one * _WORSE < 1 for one in gains)}"
                f" | {_mean([one.library.measured / one.choice.measured for one in own])}"
                f" | {_mean([one.default.measured / one.bound for one in own])}"
                f" | {_mean([one.choice.measured / one.bound for one in own])} |"
            )
    if result.without:
        lines += ["", f"No default tiling can be carried out for: {'; '.join(result.without)}."]
    order = sorted(result.operators, key=lambda one: one.gain)
    worse = [one for one in order if one.gain * _WORSE < 1]
    lines += _listed("Slower than the default by more than 1%", worse)
    lines += _listed("The largest gains", order[::-1][:_LISTED])
    return "\n".join([*lines, ""])


def _listed(title: str, operators: Sequence[MeasuredOperator]) -> list[str]:
    if not operators:
        return []
    return [
        "",
        f"## {title}",
        "",
        "Cycles, measured and, in brackets, predicted.",
        "",
        "| operator | default over choice | default | choice | default's schedule | choice's schedule |",
        "|" + "---|" * 6,
        *(
            f"| {one.kind} {one.problem} | {one.gain:.3f} | {_cycles(one.default)} | {_cycles(one.choice)}"
            f" | {one.default.schedule} | {one.choice.schedule} |"
            for one in operators
        ),
    ]


def _cycles(program: ProgramCycles) -> str:
    return f"{program.measured:,} ({program.predicted:,.0f})"
