"""Figures of the evaluation, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from baco.bench.paper.designs import STAGES
from baco.bench.paper.networks import AblationRow, NetworkRow
from baco.bench.paper.operators import OperatorRow
from baco.common.figure import drawing, figure_bytes, figure_text, new_figure
from baco.common.portable import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _png(chart: Figure) -> bytes:
    return figure_bytes(chart, "png", dpi=120)


@drawing()
def operators_chart(rows: Sequence[OperatorRow]) -> bytes:
    """Ratios of EDP, a panel a kind of operator, ours and published."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    chart = new_figure(11, 3.2 * ((len(kinds) + 1) // 2))
    panels = chart.subplots((len(kinds) + 1) // 2, 2, squeeze=False).ravel()
    for kind, ax in zip(kinds, panels, strict=False):
        own = [row for row in rows if row.kind == kind]
        place = np.arange(len(own))
        series = (
            ("against baco (equal area)", [row.ratio for row in own]),
            ("against baco-free", [row.free_ratio for row in own]),
            ("published", [row.published for row in own]),
        )
        for i, (label, values) in enumerate(series):
            heights = np.array(values, dtype=np.float64)
            ax.bar(place + 0.27 * (i - 1), heights, 0.26, label=label)
        ax.set_yscale("log")
        ax.axhline(1, color="black", linewidth=0.8)
        ax.set_xticks(place, [row.system for row in own], rotation=30, ha="right", fontsize=8)
        ax.set_title(f"{kind}: EDP ratio, predicted", loc="left", fontsize=10)
    panels[0].legend(fontsize=8)
    return _png(chart)


@drawing()
def networks_chart(rows: Sequence[NetworkRow]) -> bytes:
    """EDP over ours, a group a network, a bar a system and model."""
    networks = list(dict.fromkeys(row.network for row in rows))
    series = list(dict.fromkeys((row.system, row.model) for row in rows))
    chart = new_figure(12, 4.5)
    ax = chart.subplots()
    width = 0.9 / len(series)
    for i, (system, model) in enumerate(series):
        found = {r.network: r.ratio for r in rows if (r.system, r.model) == (system, model)}
        heights = np.array([found.get(n) for n in networks], dtype=np.float64)
        ax.bar(
            np.arange(len(networks)) + width * (i - len(series) / 2 + 0.5),
            heights,
            width,
            label=f"{system}, {model}",
        )
    ax.set_yscale("log")
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_xticks(np.arange(len(networks)), [figure_text(one) for one in networks])
    ax.set_ylabel("EDP over ours")
    ax.legend(fontsize=7, ncols=4)
    return _png(chart)


@drawing()
def ablation_chart(rows: Sequence[AblationRow]) -> bytes:
    """Improvement stage by stage, a line a judge, and the published one."""
    chart = new_figure(8, 4)
    ax = chart.subplots()
    for model in dict.fromkeys(row.model for row in rows):
        most = max(row.samples for row in rows)
        own = [r for r in rows if r.model == model and r.samples in (0, most) and r.stage in STAGES]
        ax.plot(
            [r.stage for r in own],
            [r.improvement for r in own],
            marker="o",
            label=f"{model} ({own[0].source})",
        )
    published = {row.stage: row.published for row in rows if row.published is not None}
    ax.plot(list(published), list(published.values()), marker="s", color="black", label="published")
    ax.set_ylabel("improvement of EDP")
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=8)
    return _png(chart)


@drawing()
def accuracy_chart(predicted: dict[str, Floats], measured: Floats) -> bytes:
    """Predicted against measured cycles, a panel a model."""
    chart = new_figure(4 * len(predicted), 4)
    panels = chart.subplots(1, len(predicted), squeeze=False)[0]
    every = np.concatenate([measured, *predicted.values()])
    ends = [every.min() / 1.5, every.max() * 1.5]
    for (name, values), ax in zip(predicted.items(), panels, strict=True):
        ax.scatter(measured, values, s=5, alpha=0.5)
        ax.plot(ends, ends, color="black", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("cycles measured on the RTL")
        ax.set_ylabel("predicted")
        ax.set_title(name, loc="left", fontsize=10)
    return _png(chart)
