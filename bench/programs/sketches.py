"""Programs found by search (sketches, random annotation, evolution) against the compiler's choice and Gemmini's default tilings.

Operators are those of the published evaluation (`baco.bench.paper.shapes`). Predictions are the compiler's own; measurements are on the
RTL, of a seeded selection of the operators that do not take too long there.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import NonNegativeInt, PositiveInt

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import bound
from baco.bench.harness.experiment import (
    FOLDER,
    ResultFiles,
    Say,
    check_names,
    each,
    over_seeds,
    page_of,
    silent,
    table,
)
from baco.bench.layer_shapes import layer_shapes
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.common.errors import BacoError, InfeasibleError
from baco.compiler.choice.choose import choices
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.measure.layer import measure_layer
from baco.exploration.samplers.evolution import Begin, Found, LayerSearch, best_measured
from baco.exploration.samplers.tuning_tasks import Scheduler, TuningTask

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


def run(
    *,
    accelerator: str = "gemmini-default",
    kinds: Sequence[str] = KINDS,
    every: PositiveInt = 1,
    budget: PositiveInt = 500,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    compare: NonNegativeInt = 6,
    measure: NonNegativeInt = 8,
    limit: Annotated[float, Interval(ge=1)] = 300_000.0,
    out: Path = FOLDER,
    say: Say = silent,
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
    files, machine = ResultFiles(out, "sketches", page), load_accelerator(accelerator)
    known = [shape for shape in read_shapes() if shape.table]
    shapes = [
        shape
        for kind in kinds
        for shape in [candidate for candidate in known if candidate.kind == kind][::every]
    ]
    result = SketchBench(machine.name, budget, seeds, limit)
    tops = []
    for number, shape in enumerate(shapes, 1):
        case, top = _case(shape, machine, budget)
        result.cases.append(case)
        tops.append(top)
        if number % 20 == 0 or number == len(shapes):
            say(f"{number} of {len(shapes)} operators searched")
            files.keep(result)
    for kind in kinds if compare else ():
        own = [shape for shape in shapes if shape.kind == kind][::compare]
        result.compared[kind] = _compared(own, machine, budget, seeds)
        say(f"ways to search compared on {len(own)} operators of kind {kind}")
        files.keep(result)
    if compare:
        result.scheduled = _scheduled(machine, seeds)
        files.keep(result)
    for kind in kinds:
        places = [n for n, case in enumerate(result.cases) if case.kind == kind and case.choice <= limit]
        random.Random(_SELECTION).shuffle(places)
        for n in sorted(places[:measure]):
            _measure(result.cases[n], Layer(shapes[n].problem), tops[n], machine)
            say(f"measured {kind} {result.cases[n].problem}")
            files.keep(result)
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
        top[0].schedule.text,
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
            found[name][evaluations].append(statistics.geometric_mean(values))
    return found


def _scheduled(accelerator: Accelerator, seeds: int) -> dict[str, list[float]]:
    """Cycles of all layers of a network after equally many units, given out in turn and by the scheduler's gradients."""
    layers = {shape.name: shape.layer for shape in layer_shapes((_SET,))}
    found: dict[str, list[float]] = {"in turn": [], "by gradient": []}
    for seed in range(seeds):
        for name, curiosity in (("in turn", None), ("by gradient", 0.05)):
            searches = {
                layer: LayerSearch(shape, accelerator, begin="random", seed=seed)
                for layer, shape in layers.items()
            }
            tasks = {
                layer: TuningTask(
                    partial(search.step, _GENERATION), float(layers[layer].problem.macs), _kind(layers[layer])
                )
                for layer, search in searches.items()
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
        text = schedule.text
        if text not in known:
            found = measure_layer(of, schedule, accelerator)
            if found.status not in ("measured", "infeasible"):
                raise BacoError(f"{case.problem} by '{text}': {found.reason}")
            known[text] = None if found.cycles is None else float(found.cycles)
        return known[text]

    defaults = _defaults(layer, accelerator)
    choice = _chosen(layer, accelerator)
    by_default = [cycles(default.layer, default.schedule) for default in defaults]
    ran = [measured for measured in by_default if measured is not None]
    best = best_measured([*top, choice, *defaults], cycles)
    if not ran or best is None:
        return
    case.measured = {
        "default": min(ran),
        "library": by_default[-1] or min(ran),
        "choice": cycles(layer, choice.schedule),
        "searched": cycles(top[0].layer, top[0].schedule),
        "measured": best[1],
        "schedule": best[0].schedule.text,
        "programs": len(known),
    }


# -------------------------------------------------------------------- the page


def page(result: SketchBench) -> str:
    """The page of results."""
    own = {kind: [case for case in result.cases if case.kind == kind] for kind in KINDS}

    def mean(quantity: str, other: str) -> Callable[[str], float]:
        return lambda kind: statistics.geometric_mean(
            getattr(case, quantity) / getattr(case, other) for case in own[kind]
        )

    def text(of: Callable[[str], float], form: str = ".3f") -> Callable[[str], str]:
        return lambda kind: f"{of(kind):{form}}"

    predicted = table(
        (kind for kind in KINDS if own[kind]),
        {
            "kind": str,
            "operators": lambda kind: len(own[kind]),
            "default over bound": text(mean("default", "bound")),
            "default over choice": text(mean("default", "choice")),
            "default over searched": lambda kind: f"**{mean('default', 'searched')(kind):.3f}**",
            "library over searched": text(mean("library", "searched")),
            "worst": lambda kind: f"{min(case.default / case.searched for case in own[kind]):.3f}",
            "choice over searched": text(mean("choice", "searched"), ".4f"),
            "seconds of processor time, mean": text(
                lambda k: statistics.fmean(c.seconds for c in own[k]), ".2f"
            ),
            "most": text(lambda kind: max(case.seconds for case in own[kind]), ".2f"),
        },
    )
    return page_of(
        "Programs found by search",
        f"On {result.accelerator}. Default: Gemmini's default tiling, the better of its library's paths; the library's own path"
        " takes convolutions of one pixel as convolutions. Bound: cycles that no program goes below"
        " (`baco.bench.cycle_bound`), so the column 'default over bound' is the most that anything can gain.",
        "## Predicted",
        f"{len(result.cases)} operators; {result.budget} evaluations of each by evolution from the compiler's choice, seed 0."
        " Geometric means; single commands, as in the compiler, and products whose sums wait in main memory count a tenth more than predicted.",
        predicted,
        _measured_text(result) if any(case.measured for case in result.cases) else "",
        _compared_text(result) if result.compared else "",
        f"## Many layers under one budget\n\nLayers of {_SET}, {_UNITS} units of {_GENERATION} programs a layer, evolution from random"
        f" programs: predicted cycles of all layers, {result.seeds} seeds.\n\n"
        + table(
            result.scheduled.items(),
            {
                "units given out": lambda entry: entry[0],
                "cycles, mean": lambda entry: f"{statistics.fmean(entry[1]):,.0f}",
                "by seed": lambda entry: ", ".join(f"{value:,.0f}" for value in entry[1]),
            },
        )
        if result.scheduled
        else "",
    )


def _measured_text(result: SketchBench) -> str:
    ran_on = [case for case in result.cases if case.measured]
    measured = {kind: [case.measured for case in ran_on if case.kind == kind] for kind in KINDS}
    average = statistics.geometric_mean

    def ran(one: str, other: str, of: Callable[[list[float]], float]) -> Callable[[str], str]:
        return lambda kind: f"{of([case[one] / case[other] for case in measured[kind]]):.3f}"

    on_rtl = table(
        (kind for kind in KINDS if measured[kind]),
        {
            "kind": str,
            "operators": lambda kind: len(measured[kind]),
            "default over choice": ran("default", "choice", average),
            "default over searched": ran("default", "searched", average),
            "worst": ran("default", "searched", min),
            "default over measured": lambda kind: f"**{ran('default', 'measured', average)(kind)}**",
            "library over measured": ran("library", "measured", average),
            "worst of all": ran("default", "measured", min),
            "programs run": lambda kind: sum(case["programs"] for case in measured[kind]),
        },
    )
    cycles = {name: name for name in ("default", "choice", "searched", "measured")}
    operators = table(
        ran_on,
        {
            "operator": lambda case: f"{case.kind} {case.problem}",
            **each(cycles, lambda name, case: f"{case.measured[name]:,.0f}"),
            "schedule": lambda case: case.measured["schedule"],
        },
    )
    return (
        f"## Measured on the RTL\n\nA seeded selection of the operators that the choice takes at most {result.limit:,.0f} cycles for;"
        f" every result equal to numpy's integers. Searched: the best by prediction; measured: the fastest of the {_MEASURED} best,"
        f" the choice and the default tilings, all run.\n\n{on_rtl}\n\n{operators}"
    )


def _compared_text(result: SketchBench) -> str:
    some = next(iter(next(iter(result.compared.values())).values()))
    lines = [
        (kind, name, after) for kind, methods in result.compared.items() for name, after in methods.items()
    ]
    columns = each({f"{n} evaluations": n for n in some}, lambda n, line: over_seeds(line[2][n], ".4f"))
    return (
        "## Ways to search, at equal evaluations\n\nCycles of the compiler's choice over those of the best program, geometric means"
        f" over operators: mean of {result.seeds} seeds, and the least and the most of them. More than 1: better than the choice.\n\n"
        + table(lines, {"kind": lambda line: line[0], "way": lambda line: line[1], **columns})
    )
