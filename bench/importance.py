"""What importance estimation is worth inside the search: the main searcher with it and with even effort, paired by seed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveInt

from baco.bench.runs import RunKey, SearchRun, execute
from baco.common.files import atomic_write, output_folder
from baco.common.text import markdown_table, markdown_text
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import check_cost_model
from baco.exploration.samplers.descent import GradientSearch
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup
from baco.exploration.space import load_space

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


@dataclass(frozen=True)
class ImportanceBench:
    """What `bench_importance` found, with `samples` for each run."""

    rows: tuple[ImportanceRow, ...]
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"shares": list(SHARES), "rows": [vars(row) for row in self.rows]}

    def text(self) -> str:
        """The table as a page in Markdown."""
        return _page(self.rows, self.samples)


def bench_importance(
    networks: Sequence[str] | None = None,
    models: Sequence[str] = MODELS,
    samples: PositiveInt = 500,
    seeds: Iterable[int] = range(8),
    out: str | Path = "baco-bench",
    progress: Callable[[str], None] = lambda _: None,
) -> ImportanceBench:
    """The main searcher with effort by importance against the same with even effort, at shares of an equal budget.

    Both begin with the same mappings, so that they part where the first local search does. Finished runs are kept in
    the output folder: an interrupted benchmark goes on where it was.

    Args:
        networks (--network, -n): repeatable; by default four with 20 different layers or more.
        models (--cost-model): reference, instruction; repeatable; both by default.
        samples: budget of each run in design points.
        seeds: runs of each, with seeds 0, 1, ...
        out: folder for importance.md and .json, and finished runs.

    Raises InputError for unknown networks and models.
    """
    space = load_space(SPACE)
    chosen = [check_cost_model(model, space) for model in models]
    folder = output_folder(out)
    rows = []
    for model in chosen:
        runs: dict[str, list[tuple[SearchRun, SearchRun]]] = {}
        for network in networks or IMPORTANCE_NETWORKS:
            for seed in seeds:
                pair = []
                for searcher in (_EVEN, "gradient"):
                    key = RunKey(network, SPACE, searcher, seed, samples, model)
                    pair.append(execute(key, output_folder(folder, "runs"), _make))
                    progress(f"{key.label}, {model} model: {pair[-1].curve[-1][2]:.4g} µJ·cycles")
                runs.setdefault(network, []).append((pair[0], pair[1]))
        logs = {name: np.array([_logs(*pair, samples) for pair in pairs]) for name, pairs in runs.items()}
        for name, one in logs.items():
            rows.append(_row(model, name, runs[name][0][0].tasks, [one]))
        rows.append(_row(model, "", 0, list(logs.values())))
    result = ImportanceBench(tuple(rows), samples)
    atomic_write(folder / "importance.json", json.dumps(result.to_dict(), indent=1) + "\n")
    atomic_write(folder / "importance.md", result.text())
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


def _page(rows: Sequence[ImportanceRow], samples: int) -> str:
    header = ["model", "network", "layers", "pairs", *(f"at {share:.0%}" for share in SHARES)]
    cells = [
        [
            row.model,
            markdown_text(row.network) if row.network else "all",
            str(row.layers or ""),
            str(row.pairs),
            *(
                f"{mean:.3f} ({low:.3f}–{high:.3f})"
                for mean, low, high in zip(row.ratios, row.low, row.high, strict=True)
            ),
        ]
        for row in rows
    ]
    return (
        "# Importance\n\n"
        f"Best EDP of the main searcher with even effort over the same with effort by importance, equal evaluations and "
        f"seeds, at shares of a budget of {samples:,} samples: geometric means and 95% intervals (seeds drawn anew within "
        f"networks). Space `{SPACE}`; all predicted. Above 1, importance is ahead.\n\n"
        + markdown_table(header, cells)
        + "\n"
    )
