"""DOSA at its own protocol: seven starts of 1,490 gradient steps, one sample a step, against our search.

A step of a whole network costs it a forward and a backward pass, so that "equal samples" is not one thing: the publication
counts a step as one sample (`dosa-published`), the budgets of this product count what a step costs (`dosa`: three
evaluations a layer, and what starts and roundings try). Both are run, with as many samples as the protocol has steps, and
our search beside them with the same number. Both take the best of several near roundings of every layer, which is worth far
more than any step size; `dosa-nearest` rounds to the nearest mapping alone, as the publication does. Seconds are processor time of the one thread that each run has, so that a
busy machine changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from baco.bench.harness.experiment import Say, geometric_mean, silent
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.bench.runs import RunKey, SearchRun
from baco.bench.search import run_all
from baco.common.files import atomic_write, output_folder
from baco.common.table import csv_text
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.samplers.dosa import START_STEPS, STARTS, PublishedDosaSampler
from baco.exploration.samplers.sampler import SampledSearch
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup

#: Samples of the published protocol.
PROTOCOL = STARTS * START_STEPS
SPACE = "reference"
SEEDS = 3
#: Single operators of each kind, spread evenly over the list (which goes from small ones to large ones).
CASES = 4
OURS, NEAREST, PUBLISHED, COUNTED = "gradient", "dosa-nearest", "dosa-published", "dosa"
_COLUMNS = ("R", "S", "P", "Q", "C", "K", "N")


class NearestDosaSampler(PublishedDosaSampler):
    """The published algorithm to the letter: one rounding, to the nearest."""

    roundings = 1


@dataclass(frozen=True)
class DescentRow:
    """Descent in DOSA's style against our search on one workload, or on all of a kind; geometric means over seeds (and
    workloads).

    Attributes:
        kind: `network`, or a kind of operator.
        name: the network; empty for all of a kind.
        runs: of each searcher.
        nearest_edp: of the descent as published, µJ·cycles.
        nearest_ratio: that over our EDP after as many samples as it has steps.
        nearest_seconds_ratio: that over our EDP after as many seconds.
        edp: of the descent with several roundings, µJ·cycles.
        seconds: processor seconds of such a run.
        samples_ratio: its EDP over ours after as many samples as it has steps.
        counted_ratio: EDP of the descent that counts what its steps cost over ours, both after as many samples.
        seconds_ratio: its EDP over ours after as many seconds (or after our samples, if those took less).
        samples_needed: our samples until its EDP was reached, as a share of its steps; None if it was not on some run.
        seconds_needed: our seconds until then, as a share of its; likewise.
    """

    kind: str
    name: str
    runs: int
    nearest_edp: float | None
    nearest_ratio: float | None
    nearest_seconds_ratio: float | None
    edp: float | None
    seconds: float | None
    samples_ratio: float | None
    counted_ratio: float | None
    seconds_ratio: float | None
    samples_needed: float | None
    seconds_needed: float | None


def run_descent(
    out: Path,
    networks: Sequence[str],
    *,
    samples: int = PROTOCOL,
    seeds: int = SEEDS,
    cases: int = CASES,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> list[DescentRow]:
    """Every network and some operators of each kind with all four searchers; finished runs are kept in `out`.

    Args:
        networks: names, or layer tables (`FILE.csv:NAME`).
        samples: budget of each run in design points; the protocol's by default.
    """
    operators = _operators(output_folder(out) / "operators.csv", cases)
    workloads = [("network", name) for name in networks] + operators
    keys = [
        RunKey(name, SPACE, searcher, seed, samples)
        for _, name in workloads
        for searcher in (NEAREST, PUBLISHED, OURS, COUNTED)
        # what is random in a search for one operator averages out over operators
        for seed in range(seeds if name in networks else 1)
    ]
    runs = run_all(keys, output_folder(out, "runs"), engine, lambda line: say(f"descent: {line}"), _make)
    rows = []
    for kind, members in _by_kind(workloads).items():
        if kind == "network":
            rows += [descent_row(kind, name, _of(runs, [name])) for name in members]
        rows.append(descent_row(kind, "", _of(runs, members)))
    return rows


def _make(name: str, setup: SearchSetup) -> Searcher:
    return SampledSearch(setup, NearestDosaSampler) if name == NEAREST else make_searcher(name, setup)


def _operators(path: Path, cases: int) -> list[tuple[str, str]]:
    """Some operators of each kind, written as a layer table: (kind, how the table names it)."""
    shapes = [shape for shape in read_shapes() if shape.table]
    chosen: list[tuple[str, str]] = []
    rows: list[Sequence[object]] = [["network", *_COLUMNS]]
    for kind in KINDS:
        own = [shape for shape in shapes if shape.kind == kind]
        for i in range(min(cases, len(own))):
            shape: Shape = own[(2 * i + 1) * len(own) // (2 * cases)]
            name = f"{kind}-{i + 1}"
            rows.append([name, *(getattr(shape.problem, column) for column in _COLUMNS)])
            chosen.append((kind, f"{path}:{name}"))
    atomic_write(path, csv_text(rows))
    return chosen


def _by_kind(workloads: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for kind, name in workloads:
        kinds.setdefault(kind, []).append(name)
    return kinds


def _of(runs: dict[RunKey, SearchRun], names: Sequence[str]) -> list[SearchRun]:
    return [run for key, run in runs.items() if key.network in names]


def descent_row(kind: str, name: str, runs: Sequence[SearchRun]) -> DescentRow:
    """The comparison of runs of the four searchers, paired by network and seed."""
    found = {(run.key.searcher, run.key.network, run.key.seed): run for run in runs}
    pairs = [key[1:] for key in found if key[0] == PUBLISHED]

    def mean(value: Callable[[dict[str, SearchRun]], float | None]) -> float | None:
        return geometric_mean(
            value({name: found[name, *pair] for name in (NEAREST, PUBLISHED, COUNTED, OURS)})
            for pair in pairs
        )

    def final(name: str) -> float | None:
        return mean(lambda runs: _ratio(runs[name].final, runs[OURS].final))

    def timed(name: str) -> float | None:
        return mean(lambda runs: _ratio(runs[name].final, runs[OURS].best_after(runs[name].seconds)))

    return DescentRow(
        kind,
        Path(name).name,
        len(pairs),
        mean(lambda runs: runs[NEAREST].final),
        final(NEAREST),
        timed(NEAREST),
        mean(lambda runs: runs[PUBLISHED].final),
        mean(lambda runs: runs[PUBLISHED].seconds),
        final(PUBLISHED),
        final(COUNTED),
        timed(PUBLISHED),
        mean(lambda runs: _needed(runs[PUBLISHED], runs[OURS], 0)),
        mean(lambda runs: _needed(runs[PUBLISHED], runs[OURS], 1)),
    )


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return None if theirs is None or ours is None else theirs / ours


def _needed(theirs: SearchRun, ours: SearchRun, axis: int) -> float | None:
    """Evaluations (axis 0) or seconds (1) until ours reached what theirs ended with, as a share of what theirs took."""
    spent = (theirs.evaluations, theirs.seconds)[axis]
    reached = next((point[axis] for point in ours.curve if theirs.final and point[2] <= theirs.final), None)
    return None if reached is None else reached / spent
