"""Search efficiency (Figure 6.11): EDP against samples for our search, DOSA-style descent, random and Bayesian search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baco.bench.harness.experiment import Say, silent
from baco.bench.runs import SearchRun
from baco.bench.search import compared_runs
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice

#: Searchers of the published figure; the first is ours.
SEARCHERS = ("gradient", "dosa", "dosa-published", "random", "bayesian")
SPACE = "reference"
SAMPLES, SEEDS = 5000, 5
#: Samples at which the table looks.
CHECKPOINTS = (20, 100, 500, 1000, 2000, 5000)
#: Drawings of seeds for the intervals.
_DRAWINGS = 10_000


@dataclass(frozen=True)
class EfficiencyRow:
    """One searcher.

    Attributes:
        ratios: EDP after each of `CHECKPOINTS` samples over the EDP that ours ends with, geometric mean over networks
            (and, in each, over seeds); None where some network has no design yet.
        low, high: 95% intervals of these: seeds drawn anew within networks, ours and this searcher's alike.
        seconds: mean of a run.
    """

    searcher: str
    ratios: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    seconds: float


def run_efficiency(
    out: Path,
    networks: Sequence[str],
    *,
    samples: int = SAMPLES,
    seeds: int = SEEDS,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> tuple[list[EfficiencyRow], list[SearchRun]]:
    """Run every searcher with the same budget on every network; runs are kept in `out`."""
    runs = compared_runs(
        networks, [SPACE], SEARCHERS, samples, seeds, out, engine, lambda line: say(f"efficiency: {line}")
    )
    return efficiency_rows(runs, networks, samples), runs


def efficiency_rows(runs: Sequence[SearchRun], networks: Sequence[str], samples: int) -> list[EfficiencyRow]:
    """A row a searcher."""
    rows = []
    for searcher in dict.fromkeys(run.key.searcher for run in runs):
        own = [run.seconds for run in runs if run.key.searcher == searcher]
        found = [_ratio_at(runs, networks, searcher, at, samples) for at in CHECKPOINTS if at <= samples]
        ratios, low, high = zip(*found, strict=True)
        rows.append(EfficiencyRow(searcher, ratios, low, high, sum(own) / len(own)))
    return rows


def _ratio_at(
    runs: Sequence[SearchRun], networks: Sequence[str], searcher: str, at: int, samples: int
) -> tuple[float | None, float | None, float | None]:
    """`EfficiencyRow.ratios`, `low` and `high` after so many samples."""
    rng = np.random.default_rng(0)
    drawn, mean = np.zeros(_DRAWINGS), 0.0
    for network in networks:
        for sign, name, point in ((1, searcher, at), (-1, SEARCHERS[0], samples)):
            own = [run for run in runs if (run.key.network, run.key.searcher) == (network, name)]
            best = [run.best_at(point * run.tasks) for run in own]
            logs = np.array([math.log(edp) for edp in best if edp is not None])
            if len(logs) < len(best) or not best:
                return None, None, None
            mean += sign * logs.mean()
            drawn += sign * logs[rng.integers(0, len(logs), (_DRAWINGS, len(logs)))].mean(1)
    low, high = np.exp(np.quantile(drawn / len(networks), (0.025, 0.975)))
    return math.exp(mean / len(networks)), float(low), float(high)
