"""Programs found by search (sketches, random annotation, evolution) against the compiler's choice and Gemmini's default tilings.

Operators are those of the published evaluation (`baco.bench.paper.shapes`). Predictions are the compiler's own; measurements are on the
RTL, of a seeded selection of the operators that do not take too long there.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import NonNegativeInt, PositiveInt

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import bound
from baco.bench.experiment import check_names
from baco.bench.layer_shapes import layer_shapes
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.bench.search import geometric_mean
from baco.common.errors import BacoError, InfeasibleError
from baco.common.files import atomic_write, output_folder
from baco.compiler.choice.choose import choices
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.schedules.text import schedule_text
from baco.exploration.measure.layer import measure_layer
from baco.exploration.samplers.evolution import Begin, Found, LayerSearch, best_measured
from baco.exploration.samplers.tuning_tasks import Scheduler, TuningTask

__all__ = ["METHODS", "SketchBench", "bench_sketches", "sketches_page"]

#: Ways to search, by what they begin with.
METHODS: dict[str, Begin] = {
    "random annotation": "sampling",
    "evolution": "random",
    "evolution from the choice": "choice",
}
#: Evaluations after which searches are compared.
_AFTER = (50, 100, 250, 500)
#: Programs of a search that are measured.
_MEASURED = 3
#: Seed of the selection that is measured.
_SELECTION = 0
#: Of the comparison of schedulers: layers, and generations (of so many programs) a layer on average.
_SET, _UNITS, _GENERATION = "resnet50", 6, 24

Say = Callable[[str], None]


@dataclass
class OperatorCase:
    """One operator.

    Attributes:
        bound: cycles that no program goes below (`baco.bench.cycle_bound`).
        default: predicted cycles of Gemmini's default tiling, the better of the library's paths.
        library: of the path that the library has for the operator; convolutions of one pixel as convolutions.
        choice, searched: of the compiler's choice and of the best program of the search, as schedules are compared.
        seconds: of processor time that the search took.
        schedule: that it found.
    """

    kind: str
    problem: str
    bound: float
    default: float
    library: float
    choice: float
    searched: float
    seconds: float
    schedule: str
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass
class SketchBench:
    """Everything that the page shows.

    Attributes:
        budget, seeds: evaluations of each search, and searches.
        cases: by prediction.
        compared: by kind, method and number of evaluations, the choice's cycles over the best program's: geometric means, one a
            seed.
        scheduled: cycles of a network's layers after equal units, by who gives them out, one a seed.
        limit: predicted cycles of operators that are measured, at most.
    """

    accelerator: str
    budget: int
    seeds: int
    limit: float
    cases: list[OperatorCase] = field(default_factory=list)
    compared: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    scheduled: dict[str, list[float]] = field(default_factory=dict)


def bench_sketches(
    *,
    accelerator: str = "gemmini-default",
    kinds: Sequence[str] = KINDS,
    every: PositiveInt = 1,
    budget: PositiveInt = 500,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    compare: NonNegativeInt = 6,
    measure: NonNegativeInt = 8,
    limit: Annotated[float, Interval(ge=1)] = 300_000.0,
    out: Path = Path("baco-bench"),
    say: Say = lambda _: None,
) -> SketchBench:
    """Programs found by sketches and evolution for the published operators, against the compiler's choice and default tilings.

    Args:
        accelerator: what they run on.
        kinds (--kind): GEMM, GEMV, Conv1D, Conv2D; repeatable; by default all.
        every: take every so-manieth operator of each kind.
        budget: evaluations of each search.
        seeds: searches of each, with seeds 0, 1, ...
        compare: compare ways to search on every so-manieth of the operators; 0: on none.
        measure: operators of each kind that run on the RTL.
        limit (CYCLES): predicted cycles of these, at most.
        out: folder for sketches.md and sketches.json.

    Raises InputError for another kind, BacoError where a measured program is wrong.
    """
    check_names(kinds, KINDS, "kind of operator", "kind")
    folder, machine = output_folder(out), load_accelerator(accelerator)
    shapes = [
        shape
        for kind in kinds
        for shape in [one for one in read_shapes() if one.table and one.kind == kind][::every]
    ]
    result = SketchBench(machine.name, budget, seeds, limit)

    def keep() -> None:
        atomic_write(folder / "sketches.json", json.dumps(asdict(result), indent=1) + "\n")
        if result.cases:
            atomic_write(folder / "sketches.md", sketches_page(result))

    tops = []
    for number, shape in enumerate(shapes, 1):
        case, top = _case(shape, machine, budget)
        result.cases.append(case)
        tops.append(top)
        if number % 20 == 0 or number == len(shapes):
            say(f"{number} of {len(shapes)} operators searched")
            keep()
    if compare:
        for kind in kinds:
            own = [one for one in shapes if one.kind == kind][::compare]
            result.compared[kind] = _compared(own, machine, budget, seeds)
            say(f"ways to search compared on {len(own)} operators of kind {kind}")
            keep()
        result.scheduled = _scheduled(machine, seeds)
        keep()
    for kind in kinds:
        own_places = [n for n, case in enumerate(result.cases) if case.kind == kind and case.choice <= limit]
        random.Random(_SELECTION).shuffle(own_places)
        for n in sorted(own_places[:measure]):
            _measure(result.cases[n], Layer(shapes[n].problem), tops[n], machine)
            say(f"measured {kind} {result.cases[n].problem}")
            keep()
    return result


def _defaults(layer: Layer, accelerator: Accelerator) -> list[Found]:
    """Gemmini's default tilings that can be carried out, as a product first where it is one."""
    found = []
    for schedule in gemmini_paths(layer, accelerator):
        try:
            found.append(Found.of(layer, schedule, accelerator))
        except InfeasibleError:
            continue
    return found


def _chosen(layer: Layer, accelerator: Accelerator) -> Found:
    schedule = choices(layer, accelerator)[0].schedule
    return Found.of(layer, schedule, accelerator)


def _case(shape: Shape, accelerator: Accelerator, budget: int) -> tuple[OperatorCase, list[Found]]:
    layer = Layer(shape.problem)
    begin = time.process_time()
    search = LayerSearch(layer, accelerator)
    search.run(budget)
    top = search.best(_MEASURED)
    seconds = time.process_time() - begin
    defaults = _defaults(layer, accelerator)
    case = OperatorCase(
        shape.kind,
        str(shape.problem),
        bound(layer, accelerator).cycles,
        min(one.cycles for one in defaults),
        defaults[-1].cycles,
        _chosen(layer, accelerator).doubted,
        top[0].doubted,
        seconds,
        schedule_text(top[0].schedule),
    )
    return case, top


def _compared(
    shapes: Sequence[Shape], accelerator: Accelerator, budget: int, seeds: int
) -> dict[str, dict[int, list[float]]]:
    after = [one for one in _AFTER if one < budget] + [budget]
    found: dict[str, dict[int, list[float]]] = {name: {n: [] for n in after} for name in METHODS}
    for seed in range(seeds):
        ratios: dict[tuple[str, int], list[float]] = {}
        for shape in shapes:
            layer = Layer(shape.problem)
            choice = _chosen(layer, accelerator)
            for name, begin in METHODS.items():
                search = LayerSearch(layer, accelerator, begin=begin, seed=seed)
                for evaluations in after:
                    search.run(evaluations)
                    best = search.best()[0]
                    ratios.setdefault((name, evaluations), []).append(choice.doubted / best.doubted)
        for (name, evaluations), values in ratios.items():
            found[name][evaluations].append(geometric_mean(values) or 0.0)
    return found


def _scheduled(accelerator: Accelerator, seeds: int) -> dict[str, list[float]]:
    """Cycles of all layers of a network after equally many units, given out in turn and by the scheduler's gradients."""
    layers = {one.name: one.layer for one in layer_shapes((_SET,))}
    found: dict[str, list[float]] = {"in turn": [], "by gradient": []}
    for seed in range(seeds):
        for name, curiosity in (("in turn", None), ("by gradient", 0.05)):
            searches = {
                layer: LayerSearch(one, accelerator, begin="random", seed=seed)
                for layer, one in layers.items()
            }
            tasks = {
                layer: TuningTask(
                    partial(one.step, _GENERATION), float(layers[layer].problem.macs), _kind(layers[layer])
                )
                for layer, one in searches.items()
            }
            scheduler = Scheduler(tasks, [dict.fromkeys(tasks, 1.0)], curiosity=curiosity or 0.0, seed=seed)
            if curiosity is None:
                for _ in range(_UNITS):
                    for task in tasks.values():
                        task.history.append(task.step())
            else:
                scheduler.spend(_UNITS * len(tasks))
            found[name].append(scheduler.value())
    return found


def _kind(layer: Layer) -> str:
    """Layers of one kind reach about the same rate: those of one window and stride, and products of a vector."""
    p = layer.problem
    return "vector" if p.N * p.P * p.Q == 1 else f"{p.R}x{p.S} {p.stride_w}"


def _measure(case: OperatorCase, layer: Layer, top: Sequence[Found], accelerator: Accelerator) -> None:
    """Cycles on the RTL, of what the default tilings, the choice and the best of the search say."""
    known: dict[str, float | None] = {}

    def cycles(of: Layer, schedule: Schedule) -> float | None:
        text = schedule_text(schedule)
        if text not in known:
            found = measure_layer(of, schedule, accelerator)
            if found.status not in ("measured", "infeasible"):
                raise BacoError(f"{case.problem} by '{text}': {found.reason}")
            known[text] = None if found.cycles is None else float(found.cycles)
        return known[text]

    defaults = _defaults(layer, accelerator)
    choice = _chosen(layer, accelerator)
    by_default = [cycles(one.layer, one.schedule) for one in defaults]
    ran = [one for one in by_default if one is not None]
    best = best_measured([*top, choice, *defaults], cycles)
    if not ran or best is None:
        return
    case.measured = {
        "default": min(ran),
        "library": by_default[-1] or min(ran),
        "choice": cycles(layer, choice.schedule),
        "searched": cycles(top[0].layer, top[0].schedule),
        "measured": best[1],
        "schedule": schedule_text(best[0].schedule),
        "programs": len(known),
    }


# -------------------------------------------------------------------- the page


def _mean(values: Sequence[float]) -> float:
    return geometric_mean(values) or float("nan")


def sketches_page(result: SketchBench) -> str:
    """The page of results."""
    lines = [
        "# Programs found by search",
        "",
        f"On {result.accelerator}. Default: Gemmini's default tiling, the better of its library's paths; the library's own path"
        " takes convolutions of one pixel as convolutions. Bound: cycles that no program goes below"
        " (`baco.bench.cycle_bound`), so the column 'default over bound' is the most that anything can gain.",
        "",
        "## Predicted",
        "",
        f"{len(result.cases)} operators; {result.budget} evaluations of each by evolution from the compiler's choice, seed 0."
        " Geometric means; single commands, as in the compiler, and products whose sums wait in main memory count a tenth more than predicted.",
        "",
        "| kind | operators | default over bound | default over choice | default over searched | library over searched |"
        " worst | choice over searched | seconds of processor time, mean | most |",
        "|" + "---|" * 10,
    ]
    for kind in KINDS:
        own = [case for case in result.cases if case.kind == kind]
        if not own:
            continue
        lines.append(
            f"| {kind} | {len(own)} | {_mean([c.default / c.bound for c in own]):.3f}"
            f" | {_mean([c.default / c.choice for c in own]):.3f}"
            f" | **{_mean([c.default / c.searched for c in own]):.3f}**"
            f" | {_mean([c.library / c.searched for c in own]):.3f}"
            f" | {min(c.default / c.searched for c in own):.3f}"
            f" | {_mean([c.choice / c.searched for c in own]):.4f}"
            f" | {statistics.fmean(c.seconds for c in own):.2f} | {max(c.seconds for c in own):.2f} |"
        )
    lines += _measured_lines(result)
    lines += _compared_lines(result)
    if result.scheduled:
        lines += [
            "",
            "## Many layers under one budget",
            "",
            f"Layers of {_SET}, {_UNITS} units of {_GENERATION} programs a layer, evolution from random programs: predicted cycles of"
            f" all layers, {result.seeds} seeds.",
            "",
            "| units given out | cycles, mean | by seed |",
            "|---|---|---|",
        ]
        for name, values in result.scheduled.items():
            lines.append(
                f"| {name} | {statistics.fmean(values):,.0f} | {', '.join(f'{v:,.0f}' for v in values)} |"
            )
    return "\n".join([*lines, ""])


def _measured_lines(result: SketchBench) -> list[str]:
    ran = [case for case in result.cases if case.measured]
    if not ran:
        return []
    lines = [
        "",
        "## Measured on the RTL",
        "",
        f"A seeded selection of the operators that the choice takes at most {result.limit:,.0f} cycles for; every result equal to"
        f" numpy's integers. Searched: the best by prediction; measured: the fastest of the {_MEASURED} best, the choice and the"
        " default tilings, all run.",
        "",
        "| kind | operators | default over choice | default over searched | worst | default over measured | library over measured |"
        " worst | programs run |",
        "|" + "---|" * 9,
    ]
    for kind in KINDS:
        own = [case.measured for case in ran if case.kind == kind]
        if own:
            lines.append(
                f"| {kind} | {len(own)} | {_mean([m['default'] / m['choice'] for m in own]):.3f}"
                f" | {_mean([m['default'] / m['searched'] for m in own]):.3f}"
                f" | {min(m['default'] / m['searched'] for m in own):.3f}"
                f" | **{_mean([m['default'] / m['measured'] for m in own]):.3f}**"
                f" | {_mean([m['library'] / m['measured'] for m in own]):.3f}"
                f" | {min(m['default'] / m['measured'] for m in own):.3f}"
                f" | {sum(m['programs'] for m in own)} |"
            )
    lines += ["", "| operator | default | choice | searched | measured | schedule |", "|" + "---|" * 6]
    for case in ran:
        m = case.measured
        lines.append(
            f"| {case.kind} {case.problem} | {m['default']:,.0f} | {m['choice']:,.0f} | {m['searched']:,.0f}"
            f" | {m['measured']:,.0f} | {m['schedule']} |"
        )
    return lines


def _compared_lines(result: SketchBench) -> list[str]:
    if not result.compared:
        return []
    some = next(iter(next(iter(result.compared.values())).values()))
    lines = [
        "",
        "## Ways to search, at equal evaluations",
        "",
        f"Cycles of the compiler's choice over those of the best program, geometric means over operators: mean of {result.seeds}"
        " seeds, and the least and the most of them. More than 1: better than the choice.",
        "",
        "| kind | way | " + " | ".join(f"{n} evaluations" for n in some) + " |",
        "|" + "---|" * (2 + len(some)),
    ]
    for kind, methods in result.compared.items():
        for name, after in methods.items():
            cells = [
                f"{statistics.fmean(values):.4f} ({min(values):.4f} to {max(values):.4f})"
                for values in after.values()
            ]
            lines.append(f"| {kind} | {name} | " + " | ".join(cells) + " |")
    return lines
