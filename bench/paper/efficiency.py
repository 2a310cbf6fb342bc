"""Search efficiency (Figure 6.11): EDP against samples for our search, DOSA-style descent, random and Bayesian search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baco.bench.search import bench_search
from baco.common.portable import Floats
from baco.common.table import read_rows, read_table_text
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice

#: Searchers of the published figure; the first is ours.
SEARCHERS = ("gradient", "dosa", "dosa-published", "random", "bayesian")
SPACE = "reference"
SAMPLES, SEEDS = 5000, 5
#: Samples at which the table looks.
CHECKPOINTS = (20, 100, 500, 1000, 2000, 5000)
#: Drawings of seeds for the intervals.
_DRAWINGS = 10_000

Note = Callable[[str], None]


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
    note: Note = lambda _: None,
) -> list[EfficiencyRow]:
    """Run every searcher with the same budget on every network; runs are kept in `out`."""
    result = bench_search(
        networks,
        [SPACE],
        SEARCHERS,
        samples,
        range(seeds),
        out,
        engine,
        lambda line: note(f"efficiency: {line}"),
    )
    curves = read_curves(out / "curves.csv")
    rows = []
    for searcher in SEARCHERS:
        own = [c for c in result.comparisons if c.searcher == searcher]
        points = [at for at in CHECKPOINTS if at <= samples]
        intervals = [interval_at(curves, networks, searcher, at, samples) for at in points]
        rows.append(
            EfficiencyRow(
                searcher,
                tuple(ratio_at(curves, networks, searcher, at, samples) for at in points),
                tuple(low for low, _ in intervals),
                tuple(high for _, high in intervals),
                sum(c.seconds for c in own) / len(own),
            )
        )
    return rows


#: (network, searcher) -> seed -> [(samples, EDP)], ascending.
Curves = dict[tuple[str, str], dict[str, list[tuple[float, float]]]]


def read_curves(path: Path) -> Curves:
    """The curves against samples that `bench_search` wrote."""
    curves: Curves = {}
    table = read_rows(read_table_text(path), str(path))
    header = next(table).fields
    for row in (dict(zip(header, line.fields, strict=True)) for line in table):
        if row["axis"] == "samples":
            seeds = curves.setdefault((row["network"], row["searcher"]), {})
            seeds.setdefault(row["seed"], []).append((float(row["at"]), float(row["edp_uj_cycles"])))
    return curves


def ratio_at(
    curves: Curves, networks: Sequence[str], searcher: str, at: float, samples: float
) -> float | None:
    """See `EfficiencyRow.ratios`."""
    logs = []
    for network in networks:
        own = _logs_at(curves.get((network, searcher), {}), at)
        final = _logs_at(curves.get((network, SEARCHERS[0]), {}), samples)
        if own is None or final is None:
            return None
        logs.append(own.mean() - final.mean())
    return math.exp(sum(logs) / len(logs)) if logs else None


def interval_at(
    curves: Curves, networks: Sequence[str], searcher: str, at: float, samples: float
) -> tuple[float | None, float | None]:
    """See `EfficiencyRow.low`."""
    rng = np.random.default_rng(0)
    drawn = np.zeros(_DRAWINGS)
    for network in networks:
        for sign, name, point in ((1, searcher, at), (-1, SEARCHERS[0], samples)):
            logs = _logs_at(curves.get((network, name), {}), point)
            if logs is None:
                return None, None
            drawn += sign * logs[rng.integers(0, len(logs), (_DRAWINGS, len(logs)))].mean(1)
    low, high = np.exp(np.quantile(drawn / len(networks), (0.025, 0.975)))
    return float(low), float(high)


def _logs_at(seeds: dict[str, list[tuple[float, float]]], at: float) -> Floats | None:
    """Logarithm of the best EDP after `at` samples, (seeds,); None where a seed has none yet."""
    found = []
    for curve in seeds.values():
        before = [edp for samples, edp in curve if samples <= at]
        if not before:
            return None
        found.append(math.log(before[-1]))
    return np.array(found) if found else None
