"""Search-efficiency curves: best EDP against evaluations and seconds, at equal budgets (`baco bench search`)."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from baco.bench.curves import figure
from baco.bench.runs import Make, RunKey, RunShelf, RunTask, SearchRun, setup_of
from baco.common.errors import InputError, did_you_mean
from baco.common.files import atomic_write, output_folder
from baco.common.table import csv_text
from baco.common.text import one_line
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Finished, gather
from baco.exploration.samplers.searchers import SEARCHERS

#: The networks of the published comparison.
NETWORKS = ("resnet50", "bert_base", "unet", "retinanet", "deepbench_ocr")
SPACES = ("gemmini", "reference")
#: The searcher that the others are compared with, and the one whose final EDP it is to reach.
MAIN, TARGET = "gradient", "dosa"
#: Points of a curve in one decade.
_PER_DECADE = 6

Progress = Callable[[str], None]


@dataclass(frozen=True)
class SearcherComparison:
    """One searcher against the main one, on one network in one space.

    Attributes:
        edp: geometric mean over seeds of the final EDP, µJ·cycles; None if a seed found nothing.
        seconds: mean of a run.
        ratio: EDP over the main searcher's; None where either is missing.
        main_evaluations: evaluations that the main searcher needs to reach this one's final EDP, as a share of
            what this one spent: geometric mean over seeds; None if it does not on some seed.
    """

    space: str
    network: str
    searcher: str
    edp: float | None
    seconds: float
    ratio: float | None
    main_evaluations: float | None


@dataclass(frozen=True)
class SearchBench:
    """Results of `bench_search`.

    Attributes:
        comparisons: in the order space, network, searcher.
        ratios: (space, searcher) -> geometric mean of `ratio` over networks; the same for `evaluations`.
        out: folder of runs, tables and figures.
    """

    samples: int
    seeds: tuple[int, ...]
    comparisons: tuple[SearcherComparison, ...]
    ratios: dict[tuple[str, str], float | None]
    evaluations: dict[tuple[str, str], float | None]
    out: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        spaces = list(dict.fromkeys(space for space, _ in self.ratios))
        return {
            "samples": self.samples,
            "seeds": list(self.seeds),
            "main": MAIN,
            "comparisons": [vars(c) for c in self.comparisons],
            "mean_ratio": {s: {b: v for (a, b), v in self.ratios.items() if a == s} for s in spaces},
            "mean_main_evaluations": {
                s: {b: v for (a, b), v in self.evaluations.items() if a == s} for s in spaces
            },
            "out": self.out,
        }

    def text(self) -> str:
        """The tables for people."""
        lines = [
            f"{self.samples:,} samples, {len(self.seeds)} seeds; EDP in µJ·cycles, geometric means over seeds"
        ]
        for space, members in itertools.groupby(self.comparisons, key=lambda c: c.space):
            rows = list(members)
            searchers = list(dict.fromkeys(c.searcher for c in rows))
            lines += ["", f"space {space}", f"{'network':28s}" + "".join(f"{s:>22s}" for s in searchers)]
            for network in dict.fromkeys(c.network for c in rows):
                cells = [_cell(c) for c in rows if c.network == network]
                lines.append(
                    f"{one_line(Path(network).name[-28:]):28s}" + "".join(f"{cell:>22s}" for cell in cells)
                )
            for name, means in (("ratio to " + MAIN, self.ratios), (MAIN + " needs", self.evaluations)):
                cells = [_mean(means.get((space, s)), name.endswith("needs")) for s in searchers]
                lines.append(f"{name:28s}" + "".join(f"{cell:>22s}" for cell in cells))
        lines += [
            "",
            f"'{MAIN} needs': share of a searcher's evaluations after which {MAIN} has reached its final EDP",
        ]
        return "\n".join([*lines, f"runs, tables and figures: {one_line(self.out)}"])


def _cell(c: SearcherComparison) -> str:
    edp = "nothing found" if c.edp is None else f"{c.edp:.3e}"
    return f"{edp} {c.seconds:5.1f} s"


def _mean(value: float | None, share: bool) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if share else f"{value:.2f}x"


def bench_search(
    networks: Sequence[str] | None = None,
    spaces: Sequence[str] | None = None,
    searchers: Sequence[str] | None = None,
    samples: PositiveInt = 5000,
    seeds: Iterable[int] = range(5),
    out: str | Path = "baco-bench",
    engine: ExecutorChoice = HERE,
    progress: Progress | None = None,
) -> SearchBench:
    """Best EDP against samples and against seconds, for each searcher, at an equal budget.

    Each run has the same budget of problem-mapping evaluations (`samples` for every task; a gradient counts as
    three) and one thread. Finished runs are kept under `out`/runs and not repeated, so that an interrupted
    benchmark goes on where it was.

    Args:
        networks (--network, -n): repeatable; by default the five networks of the published comparison.
        spaces (--space): repeatable; by default gemmini and reference.
        searchers (--search): searchers to compare; repeatable; all by default.
        samples: budget of each run in design points.
        seeds: runs of each, with seeds 0, 1, ...
        out: folder for `runs/`, `search.csv` (a row a comparison), `curves.csv` (long format), `search.json` and
            `search.png`/`.svg`.

    Raises InputError for unknown names and bad files, before anything is run, and StorageError.
    """
    chosen = tuple(searchers or SEARCHERS)
    for name in chosen:
        if name not in SEARCHERS:
            raise InputError(f"unknown searcher '{name}'", hint=did_you_mean(name, SEARCHERS))
    if samples < 1:
        raise InputError("samples must be at least 1")
    seeds = tuple(seeds)
    keys = [
        RunKey(network, space, searcher, seed, samples)
        for space, network, seed, searcher in itertools.product(
            dict.fromkeys(spaces or SPACES), dict.fromkeys(networks or NETWORKS), seeds, dict.fromkeys(chosen)
        )
    ]
    for network, space in dict.fromkeys((key.network, key.space) for key in keys):
        setup_of(RunKey(network, space, MAIN, 0, 1))
    folder = output_folder(out)
    runs = run_all(keys, output_folder(folder, "runs"), engine, progress)
    result = compare([runs[key] for key in keys], str(folder))
    atomic_write(folder / "search.json", json.dumps(result.to_dict(), indent=2) + "\n")
    atomic_write(folder / "search.csv", _comparisons_csv(result))
    atomic_write(folder / "curves.csv", _curves_csv([runs[key] for key in keys]))
    for kind in ("png", "svg"):
        atomic_write(folder / f"search.{kind}", figure([runs[key] for key in keys], kind))
    return result


def run_all(
    keys: Sequence[RunKey],
    folder: Path,
    engine: ExecutorChoice,
    progress: Progress | None,
    make: Make | None = None,
) -> dict[RunKey, SearchRun]:
    """Run what is not in `folder` yet; finished runs are kept there. `make` as of `baco.bench.runs.RunTask`."""

    def note(finished: int, total: int, one: Finished[RunTask, SearchRun]) -> None:
        if progress is not None:
            run = one.value
            edp = "no feasible design" if run.final is None else f"{run.final:.4e} µJ·cycles"
            progress(f"{finished}/{total} {run.key.label}: {edp}, {run.seconds:.1f} s")

    with engine.executor() as executor:
        runs = gather(executor, [RunTask(key, make) for key in keys], RunShelf(folder), note)
    return dict(zip(keys, runs, strict=True))


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """None when there are no values or one is missing."""
    logs = [None if value is None else math.log(value) for value in values]
    known = [value for value in logs if value is not None]
    return math.exp(sum(known) / len(known)) if known and len(known) == len(logs) else None


def compare(runs: Sequence[SearchRun], out: str) -> SearchBench:
    """Compare runs of the same budget; see `SearcherComparison`."""
    groups: dict[tuple[str, str], dict[str, list[SearchRun]]] = {}
    for run in runs:
        groups.setdefault((run.key.space, run.key.network), {}).setdefault(run.key.searcher, []).append(run)
    found = []
    for (space, network), by_searcher in groups.items():
        main = {run.key.seed: run for run in by_searcher.get(MAIN, [])}
        main_edp = geometric_mean(run.final for run in main.values())
        for searcher, own in by_searcher.items():
            edp = geometric_mean(run.final for run in own)
            ratio = edp / main_edp if edp is not None and main_edp is not None else None
            shares = [_share(main.get(run.key.seed), run) for run in own]
            seconds = sum(run.seconds for run in own) / len(own)
            share = geometric_mean(shares) if searcher != MAIN else None
            found.append(SearcherComparison(space, network, searcher, edp, seconds, ratio, share))
    pairs = list(dict.fromkeys((c.space, c.searcher) for c in found))
    means: list[dict[tuple[str, str], float | None]] = [
        {
            pair: geometric_mean(getattr(c, name) for c in found if (c.space, c.searcher) == pair)
            for pair in pairs
        }
        for name in ("ratio", "main_evaluations")
    ]
    seeds = tuple(dict.fromkeys(run.key.seed for run in runs))
    return SearchBench(runs[0].key.samples, seeds, tuple(found), means[0], means[1], out)


def _share(main: SearchRun | None, other: SearchRun) -> float | None:
    """Evaluations that `main` needs to reach the other's final EDP, over those that the other spent."""
    if main is None or other.final is None or not other.evaluations:
        return None
    needed = main.evaluations_to(other.final)
    return None if needed is None else needed / other.evaluations


def log_points(low: float, high: float) -> list[float]:
    """From `low` to `high`, evenly in the logarithm, both included."""
    steps = max(1, math.ceil(math.log10(high / low) * _PER_DECADE)) if high > low else 0
    return [low * (high / low) ** (i / steps) for i in range(steps)] + [high]


def _curve_points(run: SearchRun) -> Iterator[tuple[str, float, float]]:
    """(axis, place, best EDP) of a run at log-spaced samples and seconds, from its first design on."""
    for samples in log_points(1, run.key.samples):
        edp = run.best_at(round(samples) * run.tasks)
        if edp is not None:
            yield "samples", round(samples), edp
    for seconds in log_points(0.01, max(run.seconds, 0.01)):
        edp = run.best_after(seconds)
        if edp is not None:
            yield "seconds", seconds, edp


def _curves_csv(runs: Sequence[SearchRun]) -> str:
    rows: list[Sequence[object]] = [["space", "network", "searcher", "seed", "axis", "at", "edp_uj_cycles"]]
    for run in runs:
        for axis, at, edp in _curve_points(run):
            key = run.key
            rows.append([key.space, key.network, key.searcher, key.seed, axis, f"{at:.6g}", repr(edp)])
    return csv_text(rows)


def _comparisons_csv(result: SearchBench) -> str:
    names = [*SearcherComparison.__dataclass_fields__]
    return csv_text([names, *([getattr(one, name) for name in names] for one in result.comparisons)])
