"""How far the compiler's choice by the original's timing is from the best of many schedules, on the timed model of the original."""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Interval
from pydantic import NonNegativeInt, PositiveInt

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.alternatives import alternatives as alternatives_of
from baco.bench.code_hash import code_hash
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.bench.latency import Accuracy, accuracy
from baco.bench.sets.shapes import draw_layer
from baco.bench.tilings import kept_measurements
from baco.common.errors import BacoError, InputError, did_you_mean
from baco.common.provenance import stable_hash
from baco.compiler.choice.promising import promising
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.layers.text import layer_text
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.cost.evaluate import spearman
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import gather
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.task_layers import result_scale
from baco.sim.job import Limits
from baco.workloads.problem import Problem

#: What only predicts: nothing of it decides what a program is.
_PREDICTION = (
    "baco.compiler.analysis.profile",
    "baco.compiler.analysis.traffic",
    "baco.compiler.styles.macros.command_stream",
    "baco.compiler.styles.macros.constants",
    "baco.compiler.styles.macros.conv_pipeline",
    "baco.compiler.styles.macros.cycles",
    "baco.compiler.styles.macros.estimate",
    "baco.compiler.styles.macros.first_run",
    "baco.compiler.styles.macros.pipeline",
    "baco.compiler.styles.macros.product_cycles",
    "baco.compiler.styles.macros.product_pipeline",
    "baco.compiler.styles.macros.runs",
    "baco.compiler.styles.macros.sent_commands",
)
#: Multiplications of a drawn layer, at most, of many groups, and cycles beyond which an alternative is none.
_MACS, _MACS_OF_GROUPS, _LIMITS = 8e6, 1.5e6, Limits(max_cycles=10_000_000)
#: Layers that the page lists.
_LISTED = 20
#: Rows, columns and depth of products whose cycles are published, and of one whose weights outgrow the second-level cache.
_PRODUCTS = (
    (512, 512, 512), (12544, 256, 64), (12544, 64, 256), (3136, 512, 128), (3136, 128, 512), (784, 1024, 256), (784, 256, 1024),
    (16, 768, 3072), (16, 3072, 768),
)  # fmt: skip
#: How often each kind of layer is drawn.
_KINDS = {
    "product": 5, "vector": 3, "attention": 2, "1x1": 4, "1x1 strided": 2, "3x3": 4, "3x3 strided": 2, "first": 2,
    "expansion": 2, "grouped": 2, "depthwise": 4, "pooled": 2, "addition": 3,
}  # fmt: skip


@dataclass(frozen=True)
class TimedSchedule:
    """A schedule, and its cycles from the first command to the last work by the analytical model and by the timed one."""

    schedule: str
    predicted: float
    cycles: int


@dataclass(frozen=True)
class JudgedLayer:
    """A layer, what the compiler chose for it by its estimate, and its alternatives.

    Attributes:
        timed: the fastest of the schedules that the compiler times where it is told to try some, the choice among them.
    """

    kind: str
    layer: str
    choice: TimedSchedule
    others: tuple[TimedSchedule, ...]
    timed: TimedSchedule

    @property
    def best(self) -> TimedSchedule:
        """The fastest alternative."""
        return min(self.others, key=lambda one: one.cycles)

    @property
    def gap(self) -> float:
        """By how much the choice is slower than the best alternative, relative; negative where it is faster."""
        return self.choice.cycles / self.best.cycles - 1

    @property
    def timed_gap(self) -> float:
        """The same of the fastest of those that were tried."""
        return self.timed.cycles / self.best.cycles - 1

    @property
    def spearman(self) -> float | None:
        """Of the predictions, among this layer's schedules."""
        every = (self.choice, *self.others)
        predicted, cycles = (
            np.array([getattr(one, name) for one in every]) for name in ("predicted", "cycles")
        )
        return spearman(predicted, cycles.astype(float)) if len(every) > 2 else None


@dataclass
class ChoiceGaps:
    """What was found on a machine."""

    accelerator: str
    alternatives: int
    seed: int
    tried: int
    layers: list[JudgedLayer] = field(default_factory=list)


@dataclass(frozen=True)
class _Timed(MeasurementJob):
    """A schedule on the timed model, kept by what makes its program and what counts its cycles."""

    @property
    def key(self) -> str:
        timing, config = self.accelerator.timing, self.accelerator.config_hash
        return stable_hash([_sources(), config, timing, layer_text(self.layer), self.schedule.text])


@functools.cache
def _sources() -> str:
    digest = sha256(code_hash("baco.compiler.codegen.layer_program", without=_PREDICTION).encode())
    models = Path(str(resources.files("baco"))) / "sim" / "cpp"
    for path in sorted(models.iterdir()):
        if path.suffix in (".h", ".cpp"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def drawn_layers(count: int, seed: int) -> list[tuple[str, Layer]]:
    """Layers of everyday sizes by kind: every kind of `_KINDS` by its share, the products with published cycles last."""
    random_ = random.Random(seed)
    names = [name for name, weight in _KINDS.items() for _ in range(weight)]
    products = [("published", _dense(*sizes)) for sizes in _PRODUCTS][: count // 10]
    found: dict[Layer, str] = {}
    while len(found) < count - len(products):
        kind = names[len(found) % len(names)]
        found.setdefault(_layer(random_, kind), kind)
    return [*((kind, layer) for layer, kind in found.items()), *products]


def _dense(rows: int, columns: int, depth: int) -> Layer:
    problem = Problem(P=rows, K=columns, C=depth)
    return Layer(problem, bias=True, scale=result_scale(problem))


def _layer(random_: random.Random, kind: str) -> Layer:
    if kind == "addition":
        # residual sums as the array adds them: what was computed, by an identity matrix, onto the residual
        rows, channels = random_.choice((49, 100, 196, 400, 784)), random_.choice((16, 24, 32, 64, 96))
        return Layer(
            Problem(P=rows, C=channels, K=channels),
            scale=0.5,
            residual_scale=1.0,
            relu=random_.random() < 0.5,
        )
    if kind != "pooled":
        return draw_layer(random_, _MACS_OF_GROUPS if kind in ("grouped", "depthwise") else _MACS, kind)
    size, stride, padding = random_.choice(((2, 2, 0), (3, 2, 1), (3, 2, 1)))
    layer = draw_layer(random_, _MACS, random_.choice(("3x3", "first", "5x5")))
    rows, columns = (
        (extent + 2 * padding - size) // stride + 1 for extent in (layer.problem.Q, layer.problem.P)
    )
    pooling = Pooling(size, stride, padding, max(1, rows), max(1, columns))
    return replace(layer, scale=layer.scale or 1.0, pooling=pooling)


def run(
    *,
    accelerator: str = "gemmini-default",
    layers: PositiveInt = 200,
    alternatives: Annotated[int, Interval(ge=2, le=64)] = 50,
    seed: NonNegativeInt = 0,
    tried: Annotated[int, Interval(ge=1, le=64)] = 8,
    kinds: Sequence[str] = (),
    out: Path = FOLDER,
    store: Path | None = None,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> ChoiceGaps:
    """The compiler's choice by the original's timing against other schedules of the same layer, by the timed model of the original.

    Results are kept by the program and by what counts its cycles: after a change of what predicts, only new choices run.

    Args:
        accelerator: what is compiled for.
        layers (COUNT): how many are drawn.
        alternatives (COUNT): schedules a layer, Gemmini's default tilings among them.
        seed: of layers and alternatives.
        tried (COUNT): schedules that the compiler times beside (`baco compile --try-schedules`).
        kinds (--kind): repeatable; only layers of these among the drawn ones: product, vector, 1x1, depthwise, addition...
        store: file of finished measurements; by default in the cache of simulators.
        out: folder for original-choice.md and original-choice.json.
        engine: where the programs run.

    Raises BacoError for a program whose result is wrong.
    """
    machine = load_accelerator(accelerator).replace(timing="gemmini")
    files = ResultFiles(out, "original-choice", page)
    known = (*_KINDS, "published")
    for kind in kinds:
        if kind not in known:
            raise InputError(f"no layers are of the kind '{kind}'", hint=did_you_mean(kind, known))
    found = ChoiceGaps(machine.name, alternatives, seed, tried)
    with kept_measurements(store) as kept, engine.executor() as executor:
        drawn = [(kind, layer) for kind, layer in drawn_layers(layers, seed) if not kinds or kind in kinds]
        if not drawn:
            raise InputError(
                f"none of {layers} layers drawn is of these kinds", hint="more --layers: 39 have every kind"
            )
        for number, (kind, layer) in enumerate(drawn, 1):
            options = [choice.schedule for choice in promising(layer, machine, tried)]
            others = _others(layer, machine, alternatives, seed, options[0])
            schedules = list(dict.fromkeys([*options, *others]))
            jobs = [
                _Timed(layer, schedule, machine, limits=_LIMITS, name=str(n))
                for n, schedule in enumerate(schedules)
            ]
            results = gather(executor, jobs, kept)
            cycles = _cycles(layer, jobs, results)
            found.layers.append(judged_layer(kind, layer, options, others, cycles, machine))
            last = found.layers[-1]
            say(
                f"{number} of {len(drawn)}: {kind} {last.layer}: {last.gap:+.1%}, {last.choice.schedule}; timed {last.timed_gap:+.1%}"
            )
            if number % 10 == 0 or number == len(drawn):
                files.keep(found)
    return found


def _others(layer: Layer, machine: Accelerator, count: int, seed: int, chosen: Schedule) -> list[Schedule]:
    return [one for one in alternatives_of(layer, machine, count, seed) if one != chosen]


def _cycles(layer: Layer, jobs: Sequence[_Timed], results: Sequence[Measurement]) -> dict[Schedule, int]:
    """By schedule, without those that take too long; the first is the choice, which may not. Raises BacoError for a wrong result."""
    measured = {}
    for job, result in zip(jobs, results, strict=True):
        if result.status == "measured":
            measured[job.schedule] = result.cycles
        elif job is jobs[0] or not result.reason.startswith("max_cycles"):
            raise BacoError(f"{layer.problem} by '{job.schedule.text}': {result.reason}")
    return measured


def judged_layer(
    kind: str,
    layer: Layer,
    tried: Sequence[Schedule],
    others: Sequence[Schedule],
    cycles: Mapping[Schedule, int],
    machine: Accelerator,
) -> JudgedLayer:
    """The first of the schedules tried is the choice by estimate; cycles by the timed model, of all that did not take too long."""
    schedules = list(cycles)
    predicted = predict_layers([layer] * len(schedules), schedules, machine)
    by_schedule = {
        schedule: TimedSchedule(schedule.text, said.cycles.item(), cycles[schedule])
        for schedule, said in zip(schedules, predicted, strict=True)
    }
    fastest = min(
        (schedule for schedule in tried if schedule in cycles), key=lambda schedule: cycles[schedule]
    )
    against = tuple(by_schedule[schedule] for schedule in others if schedule in cycles)
    return JudgedLayer(kind, layer_text(layer), by_schedule[tried[0]], against, by_schedule[fastest])


def page(found: ChoiceGaps) -> str:
    """Gaps and errors by kind of layer, and the layers whose choice is furthest from the best."""
    kinds = sorted({judged.kind for judged in found.layers})
    own = {"all": found.layers} | {
        kind: [judged for judged in found.layers if judged.kind == kind] for kind in kinds
    }
    ranked = sorted(found.layers, key=lambda one: (-one.timed_gap, -one.gap))

    def mean(kind: str, of: Callable[[JudgedLayer], float]) -> float:
        return statistics.fmean(map(of, own[kind]))

    def rank(kind: str) -> str:
        ranks = [judged.spearman for judged in own[kind] if judged.spearman is not None]
        return f"{statistics.fmean(ranks):.3f}" if ranks else ""

    columns: dict[str, Callable[[str], object]] = {
        "layers": str,
        "number": lambda kind: len(own[kind]),
        "gap": lambda kind: f"**{mean(kind, lambda judged: judged.gap):+.2%}**",
        "gap where slower": lambda kind: f"{mean(kind, lambda judged: max(judged.gap, 0.0)):.2%}",
        "worst": lambda kind: f"{max(judged.gap for judged in own[kind]):+.1%}",
        "timed: gap": lambda kind: f"**{mean(kind, lambda judged: judged.timed_gap):+.2%}**",
        "timed: where slower": lambda kind: f"{mean(kind, lambda judged: max(judged.timed_gap, 0.0)):.2%}",
        "timed: worst": lambda kind: f"{max(judged.timed_gap for judged in own[kind]):+.1%}",
        "rank in a layer": rank,
        "rank": lambda kind: f"{_accuracy(own[kind]).spearman or 0:.4f}",
        "mean error": lambda kind: f"{_accuracy(own[kind]).mean_absolute_error:.1%}",
        "bias": lambda kind: f"{_accuracy(own[kind]).bias:+.1%}",
        "error of the choice": lambda kind: (
            f"{mean(kind, lambda judged: judged.choice.predicted / judged.choice.cycles - 1):+.1%}"
        ),
    }
    return page_of(
        "The compiler's choice by the original's timing",
        f"On {found.accelerator}, `--timing gemmini`: {len(found.layers)} layers (seed {found.seed}), for each the schedule that the"
        f" compiler chooses by the analytical model and {found.alternatives} others of all styles, Gemmini's default tilings among them,"
        " all run on the timed model of the original; every result is equal to numpy's integers. Gap: cycles of the choice over"
        " those of the best alternative, mean and worst; where slower: a choice that is faster than all alternatives counts as 0."
        f" Timed: the fastest, by that timed model, of up to {found.tried} different schedules that are promising by the analytical one, the choice"
        f" among them (`baco compile --try-schedules {found.tried}`)."
        " Rank and errors are those of the analytical model's cycles, over all schedules of the layers, and the rank among"
        " schedules of a layer (mean).",
        table(own, columns),
        _listed(ranked[:_LISTED]),
    )


def _accuracy(layers: Sequence[JudgedLayer]) -> Accuracy:
    every = [schedule for one in layers for schedule in (one.choice, *one.others)]
    predicted, cycles = (
        np.array([float(getattr(one, name)) for one in every]) for name in ("predicted", "cycles")
    )
    return accuracy(predicted, cycles)


def _listed(layers: Sequence[JudgedLayer]) -> str:
    def said(one: TimedSchedule) -> str:
        return f"{one.schedule}: {one.cycles:,} ({one.predicted:,.0f})"

    columns: dict[str, Callable[[JudgedLayer], object]] = {
        "layer": lambda one: f"{one.kind} {one.layer}",
        "gap": lambda one: f"{one.gap:+.1%}",
        "timed": lambda one: f"{one.timed_gap:+.1%}",
        "choice": lambda one: said(one.choice),
        "best": lambda one: said(one.best),
    }
    return f"## Choices furthest from the best\n\nCycles, and in brackets those predicted.\n\n{table(layers, columns)}"
