"""From the models of our RTL to the original's, by few of its measurements. Rows learned from and rows tested have no layer in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baco.accel.presets import load_accelerator
from baco.bench.fit.original import fit_profile, predict
from baco.bench.harness.experiment import Say, silent, table
from baco.bench.learned.scores import Scores, group_numbers, mean_scores, scores
from baco.bench.timing import bench_timing
from baco.common.errors import InputError, Location
from baco.compiler.layers.text import parse_layer
from baco.compiler.mapping.text import parse_mapping_text
from baco.exploration.cost.learned.analytical import instruction_base
from baco.exploration.cost.learned.protocol import Floats

#: Draws of the rows that are learned from.
_REPEATS = 5
#: Part of the layers whose rows may be learned from, and that for which half of them are too few rows.
_KNOWN, _MOST_KNOWN = 1 / 2, 2 / 3

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Transferred:
    """One way to predict rows that were measured elsewhere.

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


#: Cycles (B,) by the name of the way, from the rows to learn from.
Ways = Callable[[Rows], Mapping[str, Floats]]


def _draws(
    ways: Ways,
    measured: Floats,
    layers: Rows,
    count: int,
    seed: int,
    drawn: NDArray[np.bool_],
    say: Say,
) -> list[Transferred]:
    """Every way's scores after `count` measurements, drawn anew `_REPEATS` times."""
    each: dict[str, list[Scores]] = {}
    at_random: dict[str, list[Scores]] = {}
    for repeat in range(_REPEATS):
        learn, test = _split(layers, count, np.random.default_rng([seed, repeat]))
        for name, cycles in ways(learn).items():
            each.setdefault(name, []).append(scores(cycles[test], measured[test]))
            both = test[drawn[test]]
            at_random.setdefault(name, []).append(scores(cycles[both], measured[both]))
    found = [
        Transferred(name, count, mean_scores(ones), mean_scores(at_random[name]))
        for name, ones in each.items()
    ]
    for one in found:
        say(f"{one.name}, {count} measurements: {one.scores}")
    return found


def _split(layers: Rows, count: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to learn from, of half of the layers (of more where that is too few), and all rows of the others."""
    names = rng.permutation(np.unique(layers))
    known = np.isin(layers, names[: int(len(names) * _KNOWN)])
    if known.sum() < count:
        known = np.isin(layers, names[: int(len(names) * _MOST_KNOWN)])
    return rng.permutation(np.flatnonzero(known))[:count], np.flatnonzero(~known)


def transfer_original(
    folder: str | Path, measurements: Sequence[int] = (10, 50, 200), *, seed: int = 0, say: Say = silent
) -> list[Transferred]:
    """Predict cycles on the original Gemmini's RTL by the model of ours, and by that of the original, each after some measurements.

    Ways: the instruction-aware model of our RTL times one factor; the same model under the original's timing, with its constants
    fitted on the measurements alone.

    Args:
        folder: of programs measured there, as of `baco.bench.timing.bench_timing`.

    Raises as `bench_timing`, and InputError for too few rows.
    """
    accelerator = load_accelerator("gemmini-default").replace(timing="gemmini")
    programs = [program for program in bench_timing(folder, accelerator).programs if program.schedule]
    layers = group_numbers([str(parse_layer(program.layer).problem) for program in programs])
    if len(programs) < 2 * min(measurements):
        raise InputError(
            f"{len(programs)} rows of several shapes are too few to learn from {min(measurements)} and test on others",
            location=Location(str(folder)),
        )
    measured = np.array([float(program.measured) for program in programs])
    base = instruction_base(
        [parse_layer(program.layer) for program in programs],
        [parse_mapping_text(program.mapping) for program in programs],
        [accelerator.replace(timing="baco")] * len(programs),
        [program.style for program in programs],
    )
    ours = base.cycles + np.array([float(program.beside) for program in programs])

    def ways(learn: Rows) -> dict[str, Floats]:
        constants = fit_profile([programs[at] for at in learn], accelerator)
        rows = predict(programs, accelerator, constants)
        return {
            "model of our RTL, one factor": ours * np.exp(np.median(np.log(measured[learn] / ours[learn]))),
            "original's timing, constants fitted": np.array([float(row.predicted or 0) for row in rows]),
        }

    drawn = np.array([program.table == "random" for program in programs])
    return [
        transferred
        for count in measurements
        for transferred in _draws(ways, measured, layers, count, seed, drawn, say)
    ]


def transferred_text(found: Sequence[Transferred]) -> str:
    """A table in Markdown."""
    return table(
        found,
        {
            "way": lambda transferred: transferred.name,
            "measurements": lambda transferred: transferred.measurements,
            "rows": lambda transferred: transferred.scores.rows,
            "Spearman": lambda transferred: f"{transferred.scores.spearman or 0:.4f}",
            "mean error": lambda transferred: f"{transferred.scores.mean_percent:.1f}%",
            "median": lambda transferred: f"{transferred.scores.median_percent:.1f}%",
            "bias": lambda transferred: f"{transferred.scores.bias_percent:+.1f}%",
            "random mappings: Spearman": lambda transferred: f"{transferred.random.spearman or 0:.4f}",
            "mean error of these": lambda transferred: f"{transferred.random.mean_percent:.1f}%",
        },
    )
