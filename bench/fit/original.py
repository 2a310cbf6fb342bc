"""Fits the constants of the timing `gemmini` to programs measured on the original's RTL: `python -m baco.bench.fit.original FOLDER`.

Few rows, so few constants are free. What buses, caches and units of the original take is in `baco.compiler.analysis.profile`, from
its sources. What a piece of code costs its host core is what `baco.bench.fit.original_host` finds, pulled strongly.
Constants of overlap and waiting are fitted one after the other (`baco.bench.fit.macro`, `baco.bench.fit.explicit`).

Judged is by other layers than those fitted on: `cross_validate` fits on half of the layers and predicts the other half.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Interval
from pydantic import NonNegativeInt

import baco.compiler.styles.macros
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.fit.explicit import ExplicitRows, fit
from baco.bench.fit.fitting import write_entry
from baco.bench.fit.macro import MacroSample, fit_macro, macro_sample
from baco.bench.fit.pipeline import PipelineSample, fit_pipeline
from baco.bench.harness.experiment import Say, silent, table
from baco.bench.timing import TimedProgram, TimingAccuracy, bench_timing, timing_accuracy
from baco.compiler import latency
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.commands import count_commands
from baco.compiler.latency.model import Constants, constants, explicit_latency
from baco.compiler.latency.tiling import make_tiling
from baco.compiler.layers.text import parse_layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.schedules.schedule import ExplicitSchedule, LoopConvSchedule, LoopWsSchedule, Schedule
from baco.compiler.styles.macros.cycles import MacroConstants
from baco.compiler.styles.macros.pipeline import PIPELINES, PipelineConstants
from baco.compiler.styles.macros.runs import CONSTANTS
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.executors.executor_choice import HERE, LOCAL, ExecutorChoice

#: Pull of the host's constants to those that more programs say, and of the macros' to what the fit begins with.
_HOST_PULL, _MACRO_PULL = 1.0, 0.01
#: What the fits begin with where our RTL's constants say nothing of the original: the bubble of a drained unroller, and
#: weights that come in beside the last pass, which `block_cycles` counts, instead of behind it.
_MACRO_START = {
    "drain": 60.0, "power_ws": 3.0, "start": 440.0, "change": 3.0, "slot_conv": 40.0, "switch": 0.01,
    "switch_stride": 0.01, "pass_latency": 5.0,
}  # fmt: skip
_MACRO_STARTS = [
    _MACRO_START | {"drain_hidden": hidden, "join_ws": join, "join_conv": join, "power_conv": power}
    for hidden, join, power in ((0.5, 0.1, 4.5), (0.65, 0.3, 1.0), (0.65, 0.2, 2.0))
]
_TIMING_START = {
    "load_wait": 10.0, "store_wait": 10.0, "fence_wait": 60.0, "exchange": 1.0, "held": 12.0, "weights_late": 2.0,
    "phases": 0.02, "overlap": 3.0, "start": 60.0,
}  # fmt: skip


@dataclass(frozen=True)
class ProfileConstants:
    """What was fitted: of the macros' mean runs, of explicit code, and of the macros' runs one by one."""

    macro: MacroConstants
    explicit: Constants
    pipelines: dict[str, PipelineConstants]


def fit_profile(programs: Sequence[TimedProgram], accelerator: Accelerator) -> ProfileConstants:
    """The constants that fit some programs best. `accelerator` is the machine that was measured, of the timing `gemmini`."""
    kinds: tuple[type[Schedule], ...] = (LoopWsSchedule, LoopConvSchedule)
    samples = [_macro_sample(rows, accelerator) for rows in (_of(programs, kind) for kind in kinds) if rows]
    fits = [fit_macro(samples, replace(CONSTANTS["baco"], **one), _MACRO_PULL) for one in _MACRO_STARTS]
    macro = min(fits, key=lambda one: sum(float(np.abs(sample.errors(one)).mean()) for sample in samples))
    start = Constants(constants("gemmini").host, _TIMING_START)
    rows = _of(programs, ExplicitSchedule)
    runs = [
        _pipeline_sample(of_kind, accelerator)
        for of_kind in (_of(programs, kind) for kind in kinds)
        if of_kind
    ]
    return ProfileConstants(
        macro,
        fit([explicit_rows(rows, accelerator)], start=start, pull=_HOST_PULL),
        PIPELINES | {sample.macro: fit_pipeline(sample) for sample in runs},
    )


def predict(
    programs: Sequence[TimedProgram], accelerator: Accelerator, found: ProfileConstants
) -> list[TimedProgram]:
    """The programs, with cycles predicted by some constants."""
    kinds: tuple[type[Schedule], ...] = (LoopWsSchedule, LoopConvSchedule, ExplicitSchedule)
    cycles: dict[tuple[str, str], float] = {}
    for kind in kinds:
        rows = _of(programs, kind)
        if not rows:
            continue
        if kind is ExplicitSchedule:
            sample = explicit_rows(rows, accelerator)
            said = (
                explicit_latency(sample.tiling, sample.commands, found.explicit).cycles.numpy()
                + sample.before
            )
        else:
            macros, runs = _macro_sample(rows, accelerator), _pipeline_sample(rows, accelerator)
            mean = (macros.errors(found.macro) + 1) * macros.cycles
            one_by_one = runs.predicted(found.pipelines[runs.macro]) + macros.before
            said = np.where(np.isnan(one_by_one), mean, one_by_one)
        cycles |= {(one.table, one.file): float(number) for one, number in zip(rows, said, strict=True)}
    return [replace(one, predicted=cycles.get((one.table, one.file))) for one in programs]


@dataclass(frozen=True)
class OriginalTiming:
    """Cycles of programs against those measured on the original.

    Attributes:
        accuracy: of all programs.
        cross_validated: of the analytical model on layers that its constants were not fitted to, by seed.
        worst: so many of the worst programs are listed.
    """

    accuracy: TimingAccuracy
    cross_validated: list[TimingAccuracy]
    worst: int


def run(
    folder: Path,
    accelerator: Accelerator,
    *,
    timing: str = "gemmini",
    seeds: Annotated[int, Interval(ge=0, le=1000)] = 0,
    worst: NonNegativeInt = 10,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> OriginalTiming:
    """Cycles of programs by --timing against those measured on the original Gemmini's RTL.

    Args:
        folder (FOLDER): with random.csv, micro.csv and programs.tar.gz, as measured.
        accelerator: the machine that was measured.
        timing: whose cycles are counted.
        seeds (--cross-validate, SEEDS): fit the analytical model's constants on the programs of half of the layers, judge it by the
            others; so often.
        worst: how many of the worst programs to list.

    Raises as `bench_timing`.
    """
    found = bench_timing(folder, accelerator, timing=timing, engine=engine, say=say)
    machine = accelerator.replace(timing="gemmini")
    return OriginalTiming(found, cross_validate(found.programs, machine, seeds=seeds), worst)


def page(found: OriginalTiming) -> str:
    """Errors by table and code style, the worst programs, and the cross-validation."""
    text = found.accuracy.text(found.worst)
    return f"{text}\n{cross_validation_text(found.cross_validated)}" if found.cross_validated else text


def cross_validate(
    programs: Sequence[TimedProgram],
    accelerator: Accelerator,
    *,
    seeds: int = 5,
) -> list[TimingAccuracy]:
    """For each seed: constants fitted on the programs of half of the layers, and how well they predict the others."""
    layers = sorted({program.layer for program in programs})
    found = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(layers))
        learn = {layers[at] for at in order[: len(layers) // 2]}
        fitted = fit_profile([program for program in programs if program.layer in learn], accelerator)
        rest = [program for program in programs if program.layer not in learn]
        found.append(timing_accuracy(predict(rest, accelerator, fitted)))
    return found


def cross_validation_text(found: Sequence[TimingAccuracy]) -> str:
    """Means over the seeds, and the worst of them, as a Markdown table."""
    parts = {
        name: [timing.predicted[name] for timing in found if name in timing.predicted]
        for name in found[0].predicted
    }

    def ranks(name: str) -> list[float]:
        return [accuracy.spearman for accuracy in parts[name] if accuracy.spearman is not None]

    return table(
        parts,
        {
            "fitted on other layers": str,
            "Spearman": lambda name: f"{np.mean(ranks(name)):.4f}" if ranks(name) else "",
            "worst": lambda name: f"{min(ranks(name)):.4f}" if ranks(name) else "",
            "mean error": lambda name: (
                f"{np.mean([accuracy.mean_absolute_error for accuracy in parts[name]]):.1%}"
            ),
            "worst error": lambda name: (
                f"{max(accuracy.mean_absolute_error for accuracy in parts[name]):.1%}"
            ),
            "bias": lambda name: f"{np.mean([accuracy.bias for accuracy in parts[name]]):+.1%}",
        },
    )


def _of(programs: Sequence[TimedProgram], kind: type[Schedule]) -> list[TimedProgram]:
    return [one for one in programs if one.schedule and isinstance(parse_schedule(one.schedule), kind)]


def _macro_sample(rows: Sequence[TimedProgram], accelerator: Accelerator) -> MacroSample:
    schedules = [parse_schedule(row.schedule) for row in rows]
    return macro_sample(
        [parse_layer(row.layer) for row in rows],
        [schedule for schedule in schedules if isinstance(schedule, LoopWsSchedule | LoopConvSchedule)],
        [accelerator] * len(rows),
        np.array([float(row.measured) for row in rows]),
        np.array([float(row.beside) for row in rows]),
    )


def _pipeline_sample(rows: Sequence[TimedProgram], accelerator: Accelerator) -> PipelineSample:
    schedules = [parse_schedule(row.schedule) for row in rows]
    return PipelineSample(
        schedules[0].style,
        [parse_layer(row.layer) for row in rows],
        [schedule for schedule in schedules if isinstance(schedule, LoopWsSchedule | LoopConvSchedule)],
        accelerator,
        np.array([float(row.measured - row.beside) for row in rows]),
    )


def explicit_rows(programs: Sequence[TimedProgram], accelerator: Accelerator) -> ExplicitRows:
    """What those in explicit code say."""
    rows = _of(programs, ExplicitSchedule)
    schedules = [parse_schedule(row.schedule) for row in rows]
    tiling = make_tiling(
        LayerBatch.of([parse_layer(row.layer) for row in rows]),
        MappingBatch.of(
            [schedule.mapping for schedule in schedules if isinstance(schedule, ExplicitSchedule)]
        ),
        HardwareBatch.of([accelerator] * len(rows)),
        TensorArrays(),
    )
    measured, host, beside = (
        np.array([float(getattr(row, name)) for row in rows]) for name in ("measured", "host", "beside")
    )
    return ExplicitRows(tiling, count_commands(tiling), measured, host, beside)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit on all rows, print how well these are met, and write the entries `gemmini` of both files of constants, and those of the macros' runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of `baco bench timing`")
    parser.add_argument("--accelerator", default="gemmini-default")
    options = parser.parse_args(arguments)
    accelerator = load_accelerator(options.accelerator).replace(timing="gemmini")
    programs = bench_timing(options.folder, accelerator, engine=LOCAL).programs
    found = fit_profile(programs, accelerator)
    print(timing_accuracy(predict(programs, accelerator, found)).text())
    macros = Path(baco.compiler.styles.macros.__file__).with_name("constants.json")
    write_entry(macros, "gemmini", asdict(found.macro))
    for macro, constants_of_runs in found.pipelines.items():
        write_entry(macros.with_name("pipeline.json"), macro, asdict(constants_of_runs))
    explicit = {"rows": len(_of(programs, ExplicitSchedule)), **asdict(found.explicit)}
    write_entry(Path(latency.__file__).with_name("constants.json"), "gemmini", explicit)


if __name__ == "__main__":
    main()
