"""Figures of a result, as plotly figures to zoom in, to change and to save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from baco.common.errors import InputError, did_you_mean
from baco.common.text import one_line
from baco.exploration.objective import METRICS, metric
from baco.exploration.report.axes import MetricAxis, metric_axis
from baco.exploration.report.notable import knee_index
from baco.exploration.report.resources import RESOURCES
from baco.exploration.space.points import named_units

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from baco.exploration.candidate import Candidate
    from baco.exploration.report.data import ReportData


_BEST, _OTHER = "#d55e00", "#b5bcc6"
_MOST_BARS = 60


def front_figure(data: ReportData, x: str | None = None, y: str | None = None) -> Figure:
    """All designs over two metrics; see `Result.plot_front`."""
    first, second, *_ = data.objective.front_metrics
    x, y = x or first, y or second
    for name in (x, y):
        if name not in METRICS:
            raise InputError(f"there is no metric '{name}'", hint=did_you_mean(name, METRICS))
    candidates = data.candidates
    scales = {
        name: metric_axis(name, (metric(candidate.cost, name) for candidate in candidates)) for name in (x, y)
    }
    front = [index for index, candidate in enumerate(candidates) if candidate.front]
    rest = [index for index, candidate in enumerate(candidates) if not candidate.front]
    figure = _figure(f"{data.network_names}: {len(front)} designs on the front")
    for name, members, colour in (("dominated", rest, _OTHER), ("Pareto front", front, "#0072b2")):
        figure.add_scatter(
            **_points(data, members, scales, x, y), name=name, marker={"color": colour, "size": 7}
        )
    best = {"color": _BEST, "size": 15, "symbol": "star"}
    figure.add_scatter(**_points(data, [data.best_index], scales, x, y), name="best", marker=best)
    compromise = knee_index(data) if len(data.objective.metrics) > 1 else None
    if compromise is not None:
        knee = {"color": "#009e73", "size": 12, "symbol": "diamond"}
        figure.add_scatter(**_points(data, [compromise], scales, x, y), name="knee", marker=knee)
    figure.update_xaxes(**_axis(scales[x]))
    figure.update_yaxes(**_axis(scales[y]))
    return figure


def history_figure(data: ReportData) -> Figure:
    """The best objective over the samples spent."""
    found = [summary for summary in data.summaries if summary.best_objective is not None]
    figure = _figure(f"{data.network_names}: the best design so far")
    name = data.objective.metrics[0]
    scale = metric_axis(name, (summary.best_objective or 0.0 for summary in found))
    figure.add_scatter(
        x=[summary.evaluations / max(1, len(data.tasks)) for summary in found],
        y=[(summary.best_objective or 0.0) * scale.factor for summary in found],
        text=[one_line(summary.phase) for summary in found],
        mode="lines",
        line={"shape": "hv", "color": "#0072b2"},
        hovertemplate="%{x:,.0f} samples: %{y:.4g}<br>%{text}<extra></extra>",
    )
    figure.update_xaxes(title="samples")
    figure.update_yaxes(**_axis(scale, f"best {scale.title} (predicted)"))
    return figure


def layers_figure(data: ReportData, layers: pd.DataFrame) -> Figure:
    """Where the cycles of a design go; `layers` as `Result.layers` gives them."""
    table = layers[layers["count"] > 0].sort_values("share", ascending=False, kind="stable")
    hidden = len(table) - _MOST_BARS
    table = table.head(_MOST_BARS)
    title = f"{data.network_names}: predicted cycles by part"
    figure = _figure(title + (f" (the {_MOST_BARS} longest, {hidden} more)" if hidden > 0 else ""))
    order = [f"{index}" for index in table.index]
    for bottleneck in dict.fromkeys(table["bottleneck"]):
        rows, known = table[table["bottleneck"] == bottleneck], RESOURCES[bottleneck]
        figure.add_bar(
            x=[f"{index}" for index in rows.index],
            y=list(rows["latency_cycles"] * rows["count"]),
            customdata=[
                [
                    _safe(str(row["layer"])),
                    _safe(str(row["problem"] or row["kind"])),
                    row["count"],
                    row["share"],
                ]
                for row in rows.to_dict("records")
            ],
            name=f"bound by {known.label}" if known.binds else known.label,
            marker_color=known.color,
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{customdata[2]:g} runs, %{y:,.0f} cycles, "
            "%{customdata[3]:.1%}<extra></extra>",
        )
    figure.update_xaxes(
        title="part",
        type="category",
        categoryorder="array",
        categoryarray=order,
        tickvals=order,
        ticktext=[_safe(str(name))[:24] for name in table["layer"]],
    )
    figure.update_yaxes(title="cycles, all runs", exponentformat="SI")
    return figure


def _axis(scale: MetricAxis, title: str | None = None) -> dict[str, Any]:
    """What plotly is told of an axis; its own ticks would put further prefixes on the numbers."""
    look: dict[str, Any] = {"title": title or scale.title, "exponentformat": "power"}
    if scale.log:
        look |= {"type": "log", "tickmode": "array", "tickvals": scale.ticks}
    return look


def _points(
    data: ReportData, members: list[int], scales: dict[str, MetricAxis], x: str, y: str
) -> dict[str, Any]:
    def values(name: str) -> list[float]:
        return [metric(data.candidates[i].cost, name) * scales[name].factor for i in members]

    def words(one: Candidate) -> str:
        machine = one.accelerator
        sizes = f"{machine.scratchpad_kib}+{machine.accumulator_kib} KiB"
        return f"{machine.dim}×{machine.dim}, {sizes}, {machine.dataflow}{named_units(machine)}, {one.cost.source}"

    return {
        "x": values(x),
        "y": values(y),
        "mode": "markers",
        "text": [f"design {i}: {words(data.candidates[i])}" for i in members],
        "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    }


def _figure(title: str) -> Figure:
    import plotly.graph_objects as go

    # without a template, which plotly would read from its package and put into every saved figure
    layout = go.Layout(
        title={"text": _safe(title)},
        template="none",
        legend={"orientation": "h", "y": -0.25},
        margin={"t": 50, "r": 20},
        height=420,
    )
    return go.Figure(layout=layout)


def _safe(text: str) -> str:
    """Text for a figure, whose labels would take some tags for markup."""
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;")
