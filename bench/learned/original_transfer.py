"""From our RTL to the original Gemmini's: what 10, 50 or 200 measurements of another machine are worth.

The rows are programs of ours whose cycles were measured on the original's RTL (`baco.bench.timing`). Rows learned from and rows
tested have no layer in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baco.accel.presets import load_accelerator
from baco.bench.fit.original import fit_profile, predict
from baco.bench.learned.process import GaussianProcess, standardised
from baco.bench.learned.scores import Scores, group_numbers, mean_scores, scores
from baco.bench.timing import TimedProgram, bench_timing
from baco.common.errors import InputError, Location
from baco.compiler.mapping.text import parse_mapping_text
from baco.compiler.schedules.text import parse_layer
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures

__all__ = ["OriginalTransfer", "original_text", "transfer_original"]

_ACCELERATOR = "gemmini-default"
_REPEATS = 5
#: Part of the layers whose rows may be learned from, and that for which half of them are too few rows.
_KNOWN, _MOST_KNOWN = 1 / 2, 2 / 3


@dataclass(frozen=True)
class OriginalTransfer:
    """One way to predict the original's rows.

    Attributes:
        name: of the way.
        measurements: rows of other layers that it learned from.
        scores: means over several draws of these rows.
        random: the same of rows with random mappings alone.
    """

    name: str
    measurements: int
    scores: Scores
    random: Scores


def transfer_original(
    folder: str | Path,
    measurements: Sequence[int] = (10, 50, 200),
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[OriginalTransfer]:
    """Predict cycles on the original's RTL by the model of ours, and by that of the original, each after some measurements.

    Ways: the instruction-aware model of our RTL times one factor, and adapted by a Gaussian process; the same model under
    the original's timing, with its constants fitted on the measurements alone, and adapted besides.

    Args:
        folder: as of `baco.bench.timing.bench_timing`.

    Raises as `bench_timing`, and InputError for too few rows.
    """
    accelerator = load_accelerator(_ACCELERATOR).replace(timing="gemmini")
    programs = [one for one in bench_timing(folder, accelerator).programs if one.schedule]
    layers = group_numbers([str(parse_layer(one.layer).problem) for one in programs])
    if len(programs) < 2 * min(measurements):
        raise InputError(
            f"{len(programs)} rows are too few to learn from {min(measurements)} and test on others",
            location=Location(str(folder)),
        )
    measured = np.array([float(one.measured) for one in programs])
    ours, predicted = _described(programs, "baco")
    original, _ = _described(programs, "gemmini")
    predicted = predicted + np.array([float(one.beside) for one in programs])
    drawn = np.array([one.table == "random" for one in programs])
    found: list[OriginalTransfer] = []
    for count in measurements:
        each: dict[str, list[tuple[Scores, Scores]]] = {}
        for repeat in range(_REPEATS):
            learn, test = _split(layers, count, np.random.default_rng([seed, repeat]))
            said = _factor(predicted, measured, learn)
            fitted = _refitted(programs, learn)
            ways = {
                "model of our RTL, one factor": said,
                "model of our RTL, adapted": _adapted(ours, said, measured, learn),
                "original's timing, constants fitted": fitted,
                "original's timing, constants fitted, adapted": _adapted(original, fitted, measured, learn),
            }
            for name, cycles in ways.items():
                both = test[drawn[test]]
                each.setdefault(name, []).append(
                    (scores(cycles[test], measured[test]), scores(cycles[both], measured[both]))
                )
        for name, parts in each.items():
            everything, at_random = zip(*parts, strict=True)
            found.append(OriginalTransfer(name, count, mean_scores(everything), mean_scores(at_random)))
            progress(f"{name}, {count} measurements: {found[-1].scores}")
    return found


def _described(programs: Sequence[TimedProgram], timing: str) -> tuple[ProgramFeatures, Floats]:
    machine = load_accelerator(_ACCELERATOR).replace(timing=timing)
    return described(
        [parse_layer(one.layer) for one in programs],
        [parse_mapping_text(one.mapping) for one in programs],
        [machine] * len(programs),
        [one.style for one in programs],
    )


def _split(
    layers: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from, of half of the layers (of more where that is too few), and all rows of the others."""
    names = rng.permutation(np.unique(layers))
    known = np.isin(layers, names[: int(len(names) * _KNOWN)])
    if known.sum() < count:
        known = np.isin(layers, names[: int(len(names) * _MOST_KNOWN)])
    return rng.permutation(np.flatnonzero(known))[:count], np.flatnonzero(~known)


def _factor(predicted: Floats, measured: Floats, learn: NDArray[np.int64]) -> Floats:
    found: Floats = predicted * np.exp(np.median(np.log(measured[learn] / predicted[learn])))
    return found


def _adapted(features: ProgramFeatures, said: Floats, measured: Floats, learn: NDArray[np.int64]) -> Floats:
    inputs = standardised(features, features)
    process = GaussianProcess(inputs[learn], np.log(measured[learn] / said[learn]))
    mean, _ = process.predict(inputs)
    found: Floats = said * np.exp(mean)
    return found


def _refitted(programs: Sequence[TimedProgram], learn: NDArray[np.int64]) -> Floats:
    """Cycles (B,) by constants of the original's timing that are fitted on some rows alone."""
    accelerator = load_accelerator(_ACCELERATOR).replace(timing="gemmini")
    found = fit_profile([programs[at] for at in learn], accelerator)
    return np.array([float(one.predicted or 0) for one in predict(programs, accelerator, found)])


def original_text(found: Sequence[OriginalTransfer]) -> str:
    """A table in Markdown."""
    lines = [
        "| way | measurements | rows | Spearman | mean error | median | bias | random mappings: Spearman | mean error |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in found:
        s, r = one.scores, one.random
        lines.append(
            f"| {one.name} | {one.measurements} | {s.rows} | {s.spearman or 0:.4f} | {s.mean_percent:.1f}%"
            f" | {s.median_percent:.1f}% | {s.bias_percent:+.1f}% | {r.spearman or 0:.4f} | {r.mean_percent:.1f}% |"
        )
    return "\n".join(lines)
