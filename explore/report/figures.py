"""The Pareto front as a picture for slides and papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baco.common.figure import drawing, figure_bytes, figure_text, new_figure
from baco.exploration.candidate import Cost
from baco.exploration.objective import metric
from baco.exploration.report.axes import MetricAxis, metric_axis
from baco.exploration.report.data import ReportData
from baco.exploration.report.summary import design_label, objective_words


def axis_metrics(data: ReportData) -> tuple[str, str]:
    """The two metrics to draw: the first two of the front."""
    first, second, *_ = data.objective.front_metrics
    return first, second


def pareto_figures(data: ReportData) -> dict[str, bytes]:
    """`pareto.png` and `pareto.svg`: all candidates, the front, and the best, on logarithmic axes.

    The third metric, area where it is free, is shown by colour. Equal data give equal bytes.
    """
    x_name, y_name = axis_metrics(data)
    c_name = next(name for name in ("area", "energy", "latency") if name not in (x_name, y_name))

    scales = {
        name: metric_axis(name, (metric(one.cost, name) for one in data.candidates))
        for name in (x_name, y_name, c_name)
    }

    def values(name: str, members: list[int]) -> list[float]:
        return [metric(data.candidates[i].cost, name) * scales[name].factor for i in members]

    everyone = range(len(data.candidates))
    front = [i for i in everyone if data.candidates[i].front]
    rest = [i for i in everyone if not data.candidates[i].front]
    style = {
        "font.size": 10,
        "svg.hashsalt": "baco",
        "svg.fonttype": "path",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with drawing(style):
        figure = new_figure(7.2, 4.6)
        axes = figure.add_subplot()
        if rest:
            axes.scatter(
                values(x_name, rest), values(y_name, rest), s=14, c="#b5bcc6", label="dominated", linewidths=0
            )
        if front:
            stairs = _staircase(sorted(zip(values(x_name, front), values(y_name, front), strict=True)))
            axes.step(*zip(*stairs, strict=True), where="post", color="#8a94a3", linewidth=1)
            dots = axes.scatter(
                values(x_name, front),
                values(y_name, front),
                c=values(c_name, front),
                s=34,
                cmap="viridis",
                edgecolors="white",
                linewidths=0.6,
                label="Pareto front",
                zorder=3,
            )
            figure.colorbar(dots, ax=axes, label=scales[c_name].title)
        _draw_measured(axes, data, {name: scales[name] for name in (x_name, y_name)})
        best = [data.best_index]
        axes.scatter(
            values(x_name, best),
            values(y_name, best),
            marker="*",
            s=220,
            c="#d55e00",
            edgecolors="white",
            linewidths=0.8,
            label=f"best: {design_label(data.best)}",
            zorder=4,
        )
        _scale_axes(axes, [(name, scales[name]) for name in (x_name, y_name)])
        source = "measured where it was, else predicted" if data.validated else data.source
        axes.set_xlabel(f"{scales[x_name].title} ({source})")
        axes.set_ylabel(f"{scales[y_name].title} ({source})")
        axes.grid(True, which="major", color="#e6e9ee", linewidth=0.8)
        axes.set_axisbelow(True)
        names = data.network_names
        title = names if len(names) <= 60 else names[:59] + "…"
        axes.set_title(f"{figure_text(title)}: {objective_words(data)}", loc="left", fontsize=11)
        figure.legend(frameon=False, fontsize=8.5, loc="outside lower center", ncols=3)
        return {
            "pareto.png": figure_bytes(figure, "png", dpi=160, metadata={"Software": "baco"}),
            "pareto.svg": figure_bytes(figure, "svg", dpi=100, metadata={"Date": None, "Creator": "baco"}),
        }


def _scale_axes(axes: Any, metrics: Sequence[tuple[str, MetricAxis]]) -> None:
    """Logarithmic where that shows values better."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ways = ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis))
    for (name, shown), (scale, axis) in zip(metrics, ways, strict=True):
        if shown.log:
            scale("log", subs=[])
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        if name in ("latency", "energy"):  # products are so large that they need powers of ten
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_measured(axes: Any, data: ReportData, scales: dict[str, MetricAxis]) -> None:
    """Measured points with a line to the prediction each came from; those that failed, crossed out."""

    def at(cost: Cost) -> tuple[float, float]:
        x, y = (metric(cost, name) * axis.factor for name, axis in scales.items())
        return x, y

    label, bad = "measured", "failed or infeasible"
    for index, design in sorted(data.validated.items()):
        x, y = at(data.candidates[index].cost)
        if design.measured is not None:
            before = at(data.prediction(index))
            axes.plot([before[0], x], [before[1], y], ":", color="#5b6470", linewidth=1, zorder=3)
            axes.scatter(*before, s=26, facecolors="none", edgecolors="#5b6470", linewidths=1, zorder=3)
            axes.scatter(x, y, s=44, marker="D", c="#0072b2", edgecolors="white", label=label, zorder=4)
            label = "_"
        elif design.status in ("failed", "infeasible"):
            axes.scatter(x, y, s=60, marker="x", c="#d55e00", label=bad, zorder=4)
            bad = "_"


def _staircase(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of points in ascending order, those that no other is below and left of."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept
