"""The figure of search-efficiency curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.bench.runs import SearchRun
from baco.common.figure import drawing, figure_bytes, figure_text, new_figure


@drawing()
def figure(runs: Sequence[SearchRun], kind: str) -> bytes:
    """Best EDP against samples and seconds, a row a network and space, a line a searcher (geometric mean over
    seeds, range shaded), as `png` or `svg`."""
    places = list(dict.fromkeys((run.key.space, run.key.network) for run in runs))
    searchers = list(dict.fromkeys(run.key.searcher for run in runs))
    chart = new_figure(11, 3.2 * len(places))
    axes = chart.subplots(len(places), 2, squeeze=False, sharey="row")
    for (space, network), pair in zip(places, axes, strict=True):
        for number, searcher in enumerate(searchers):
            own = [
                r for r in runs if (r.key.space, r.key.network, r.key.searcher) == (space, network, searcher)
            ]
            own = [run for run in own if run.curve]
            for axis, ax in enumerate(pair):
                _line(ax, own, axis, searcher, f"C{number}")
        for ax, label in zip(pair, ("samples", "seconds"), strict=True):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(label)
            ax.grid(True, alpha=0.3)
        pair[0].set_ylabel("EDP (µJ·cycles)")
        pair[0].set_title(figure_text(f"{network} in {space}"), loc="left", fontsize=10)
    axes[0][1].legend(fontsize=8)
    return figure_bytes(chart, kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)


def _line(ax: object, runs: Sequence[SearchRun], axis: int, label: str, color: str) -> None:
    """One searcher against samples (axis 0) or seconds (1)."""
    if not runs:
        return
    curves = []
    for run in runs:
        points = np.array(run.curve, dtype=np.float64)
        end = [run.evaluations, run.seconds, points[-1, 2]]
        points = np.concatenate([points, [end]])
        points[:, 0] /= run.tasks
        curves.append(points)
    # Before its first design a run has no EDP: the line starts where all have one.
    start = max(points[0, axis] for points in curves)
    end_at = max(points[-1, axis] for points in curves)
    grid = np.geomspace(start, max(end_at, start * 1.001), 200)
    values = np.array([p[np.searchsorted(p[:, axis], grid, side="right") - 1, 2] for p in curves])
    ax.plot(grid, np.exp(np.log(values).mean(0)), label=label, color=color)  # type: ignore[attr-defined]
    ax.fill_between(grid, values.min(0), values.max(0), color=color, alpha=0.15)  # type: ignore[attr-defined]
