"""What importance estimation is worth inside the search: the main searcher with it and with even effort, paired by seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, plain, silent, table
from baco.bench.runs import RunKey, SearchRun, execute
from baco.bench.sets.spaces import published_space
from baco.common.files import output_folder
from baco.common.text import markdown_text
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import check_cost_model
from baco.exploration.samplers.descent import GradientSearch
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup

#: Networks with at least 20 different layers.
IMPORTANCE_NETWORKS = ("resnet50", "mobilenet_v2", "unet", "retinanet")
MODELS: tuple[CostModelName, ...] = ("reference", "instruction")
SPACE = "gemmini"
#: Shares of the budget at which searches are compared.
SHARES = (0.1, 0.2, 0.4, 1.0)
#: Drawings of seeds for the intervals.
_DRAWINGS = 10_000
_EVEN = "gradient-even"


class EvenSearch(GradientSearch):
    """The main searcher with the same effort for every layer."""

    by_importance = False


@dataclass(frozen=True)
class ImportanceRow:
    """EDP with even effort over EDP with effort by importance, at each of `SHARES` of the budget.

    Attributes:
        network: empty for all of a model's.
        layers: different ones; 0 for all networks.
        pairs: of runs with the same seed.
        ratios: geometric means over pairs; above 1 importance is ahead.
        low, high: 95% intervals of these, seeds drawn anew within networks.
    """

    model: CostModelName
    network: str
    layers: int
    pairs: int
    ratios: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def run(
    networks: Sequence[str] = IMPORTANCE_NETWORKS,
    cost_models: Sequence[str] = MODELS,
    samples: PositiveInt = 500,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 8,
    out: Path = FOLDER,
    say: Say = silent,
) -> dict[str, Any]:
    """The main searcher with effort by importance against the same with even effort, at shares of an equal budget.

    Both begin with the same mappings, so that they part where the first local search does. Finished runs are kept in
    the output folder: an interrupted benchmark goes on where it was.

    Args:
        networks (--network, -n): repeatable; by default four with 20 different layers or more.
        cost_models (--cost-model): reference, instruction; repeatable; both by default.
        samples: budget of each run in design points.
        seeds: runs of each, with seeds 0, 1, ...
        out: folder for importance.md and .json, and finished runs.

    Raises InputError for unknown networks and models.
    """
    space = published_space(SPACE)
    chosen = [check_cost_model(model, space) for model in cost_models]
    files, kept = ResultFiles(out, "importance", page), output_folder(out, "runs")
    rows = []
    for model in chosen:
        runs: dict[str, list[tuple[SearchRun, SearchRun]]] = {}
        for network, seed in itertools.product(networks, range(seeds)):
            pair = []
            for searcher in (_EVEN, "gradient"):
                key = RunKey(network, SPACE, searcher, seed, samples, model)
                pair.append(execute(key, kept, _make))
                say(f"{key.label}, {model} model: {pair[-1].curve[-1][2]:.4g} µJ·cycles")
            runs.setdefault(network, []).append((pair[0], pair[1]))
        logs = {name: np.array([_logs(*pair, samples) for pair in pairs]) for name, pairs in runs.items()}
        for name, one in logs.items():
            rows.append(_row(model, name, runs[name][0][0].tasks, [one]))
        rows.append(_row(model, "", 0, list(logs.values())))
    result = {"samples": samples, "shares": SHARES, "rows": plain(rows)}
    files.keep(result)
    return result


def _make(name: str, setup: SearchSetup) -> Searcher:
    return EvenSearch(setup) if name == _EVEN else make_searcher(name, setup)


def _logs(even: SearchRun, guided: SearchRun, samples: int) -> list[float]:
    """Logarithm of the ratio of EDPs at each share of the budget; 0 where neither has a design, which is where both are."""
    found = []
    for share in SHARES:
        at = [run.best_at(share * samples * run.tasks) for run in (even, guided)]
        found.append(0.0 if None in at else math.log(at[0] / at[1]))  # type: ignore[operator]
    return found


def _row(model: CostModelName, name: str, layers: int, logs: list[np.ndarray]) -> ImportanceRow:
    """Geometric means and intervals over networks' pairs, a table (pairs, shares) each."""
    rng = np.random.default_rng(0)
    drawn = [table[rng.integers(0, len(table), (_DRAWINGS, len(table)))].mean(1) for table in logs]
    low, high = np.exp(np.quantile(np.mean(drawn, axis=0), (0.025, 0.975), axis=0))
    mean = np.exp(np.mean([table.mean(0) for table in logs], axis=0))
    pairs = sum(len(table) for table in logs)
    return ImportanceRow(
        model, name, layers, pairs, tuple(mean.tolist()), tuple(low.tolist()), tuple(high.tolist())
    )


def page(result: dict[str, Any]) -> str:
    """Ratios and their intervals at shares of the budget."""

    def at(n: int) -> Callable[[dict[str, Any]], str]:
        return lambda row: f"{row['ratios'][n]:.3f} ({row['low'][n]:.3f}–{row['high'][n]:.3f})"

    return page_of(
        "Importance",
        f"Best EDP of the main searcher with even effort over the same with effort by importance, equal evaluations and "
        f"seeds, at shares of a budget of {result['samples']:,} samples: geometric means and 95% intervals (seeds drawn anew within "
        f"networks). Space `{SPACE}`; all predicted. Above 1, importance is ahead.",
        table(
            result["rows"],
            {
                "model": lambda row: row["model"],
                "network": lambda row: markdown_text(row["network"]) if row["network"] else "all",
                "layers": lambda row: row["layers"] or "",
                "pairs": lambda row: row["pairs"],
                **{f"at {share:.0%}": at(n) for n, share in enumerate(SHARES)},
            },
        ),
    )
