"""Search-efficiency curves: best EDP against evaluations and seconds, at equal budgets (`baco bench search`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.curves import figure
from baco.bench.harness.experiment import (
    FOLDER,
    ResultFiles,
    Say,
    each,
    geometric_mean,
    page_of,
    silent,
    table,
)
from baco.bench.runs import Make, RunKey, RunShelf, RunTask, SearchRun, setup_of
from baco.common.errors import InputError, did_you_mean
from baco.common.files import atomic_write, output_folder
from baco.common.table import csv_text
from baco.common.text import markdown_text, one_line
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
    """Results of `run`.

    Attributes:
        comparisons: in the order space, network, searcher.
        mean_ratio: by space and searcher the geometric mean of `ratio` over networks; `mean_main_evaluations` the same of
            `main_evaluations`.
        out: folder of runs, tables and figures.
    """

    samples: int
    seeds: tuple[int, ...]
    comparisons: tuple[SearcherComparison, ...]
    mean_ratio: dict[str, dict[str, float | None]]
    mean_main_evaluations: dict[str, dict[str, float | None]]
    out: str
    main: str = MAIN


def page(result: SearchBench) -> str:
    """A table a space: EDP and seconds by network and searcher, and the main searcher against each."""

    def mean(found: dict[str, float | None], form: str) -> list[str]:
        return ["-" if value is None else format(value, form) for value in found.values()]

    def cell(key: tuple[str, str], network: str) -> str:
        comparison = next(
            c for c in result.comparisons if (c.space, c.network, c.searcher) == (key[0], network, key[1])
        )
        edp = "nothing found" if comparison.edp is None else f"{comparison.edp:.3e}"
        return f"{edp}, {comparison.seconds:.1f} s"

    parts = []
    for space, ratios in result.mean_ratio.items():
        networks = list(dict.fromkeys(c.network for c in result.comparisons if c.space == space))
        columns = each({one: (space, one) for one in ratios}, cell)
        needs = mean(result.mean_main_evaluations[space], ".2%")
        parts.append(
            f"space {space}\n\n"
            + table(
                networks,
                {"network": lambda network: markdown_text(Path(network).name), **columns},
                [f"ratio to {MAIN}", *mean(ratios, ".2f")],
                [f"{MAIN} needs", *needs],
            )
        )
    return page_of(
        "Searchers",
        f"{result.samples:,} samples, {len(result.seeds)} seeds; EDP in µJ·cycles, geometric means over seeds",
        *parts,
        f"'{MAIN} needs': share of a searcher's evaluations after which {MAIN} has reached its final EDP",
        f"runs, tables and figures: {one_line(result.out)}",
    )


def run(
    networks: Sequence[str] = NETWORKS,
    spaces: Sequence[str] = SPACES,
    searchers: Sequence[str] = tuple(SEARCHERS),
    samples: PositiveInt = 5000,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 5,
    out: str | Path = FOLDER,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
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
        out: folder for `runs/`, `search.csv` (a row a comparison), `curves.csv` (long format), `search.json`, `search.md` and
            `search.png`/`.svg`.

    Raises InputError for unknown names and bad files, before anything is run, and StorageError.
    """
    runs = compared_runs(networks, spaces, searchers, samples, seeds, out, engine, say)
    folder = output_folder(out)
    result = compare(runs, str(folder))
    ResultFiles(folder, "search", page).keep(result)
    names = [*SearcherComparison.__dataclass_fields__]
    rows = ([getattr(one, name) for name in names] for one in result.comparisons)
    atomic_write(folder / "search.csv", csv_text([names, *rows]))
    atomic_write(folder / "curves.csv", curves_csv(runs))
    for kind in ("png", "svg"):
        atomic_write(folder / f"search.{kind}", figure(runs, kind))
    return result


def compared_runs(
    networks: Sequence[str],
    spaces: Sequence[str],
    searchers: Sequence[str],
    samples: int,
    seeds: int,
    out: str | Path,
    engine: ExecutorChoice,
    say: Say,
) -> list[SearchRun]:
    """The runs of `run`, made or found."""
    for name in searchers:
        if name not in SEARCHERS:
            raise InputError(f"unknown searcher '{name}'", hint=did_you_mean(name, SEARCHERS))
    if samples < 1:
        raise InputError("samples must be at least 1")
    every = itertools.product(
        dict.fromkeys(spaces), dict.fromkeys(networks), range(seeds), dict.fromkeys(searchers)
    )
    keys = [RunKey(network, space, searcher, seed, samples) for space, network, seed, searcher in every]
    for network, space in dict.fromkeys((key.network, key.space) for key in keys):
        setup_of(RunKey(network, space, MAIN, 0, 1))
    return list(run_all(keys, output_folder(output_folder(out), "runs"), engine, say).values())


def run_all(
    keys: Sequence[RunKey], folder: Path, engine: ExecutorChoice, say: Say, make: Make | None = None
) -> dict[RunKey, SearchRun]:
    """Run what is not in `folder` yet; finished runs are kept there. `make` as of `baco.bench.runs.RunTask`."""

    def told(finished: int, total: int, one: Finished[RunTask, SearchRun]) -> None:
        run = one.value
        edp = "no feasible design" if run.final is None else f"{run.final:.4e} µJ·cycles"
        say(f"{finished}/{total} {run.key.label}: {edp}, {run.seconds:.1f} s")

    with engine.executor() as executor:
        runs = gather(executor, [RunTask(key, make) for key in keys], RunShelf(folder), told)
    return dict(zip(keys, runs, strict=True))


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

    def means(name: str) -> dict[str, dict[str, float | None]]:
        values: dict[str, dict[str, list[float | None]]] = {}
        for c in found:
            values.setdefault(c.space, {}).setdefault(c.searcher, []).append(getattr(c, name))
        return {
            space: {searcher: geometric_mean(ones) for searcher, ones in parts.items()}
            for space, parts in values.items()
        }

    seeds = tuple(dict.fromkeys(run.key.seed for run in runs))
    return SearchBench(
        runs[0].key.samples, seeds, tuple(found), means("ratio"), means("main_evaluations"), out
    )


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


def curves_csv(runs: Sequence[SearchRun]) -> str:
    """Best EDP of every run at log-spaced samples and seconds."""
    rows: list[Sequence[object]] = [["space", "network", "searcher", "seed", "axis", "at", "edp_uj_cycles"]]
    for run in runs:
        for axis, at, edp in _curve_points(run):
            key = run.key
            rows.append([key.space, key.network, key.searcher, key.seed, axis, f"{at:.6g}", repr(edp)])
    return csv_text(rows)
