"""The section of the page that says why this design, and what else."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.config import Accelerator
from baco.common.page import html_table
from baco.common.text import html_text
from baco.exploration.objective import metric_word
from baco.exploration.report.data import ReportData
from baco.exploration.report.units import significant
from baco.exploration.report.why import Explanation, compared, explanation
from baco.exploration.report.why_text import alternative_text

__all__ = ["why_html"]


def why_html(data: ReportData) -> str:
    """The section, all of it escaped; empty where no design is feasible."""
    one = explanation(data)
    if one is None:
        return ""
    limited, stepped, _ = one.lines
    parts = [
        '<section aria-labelledby="h-why" id="why">',
        '<h2 id="h-why">Why this design, and what else</h2>',
        f"<p>{_sentence(limited)} (predicted).</p>",
        _others(one, data),
        "<h3>One step in each parameter of the hardware</h3>",
    ]
    if one.neighbours is None:
        parts.append(f'<p class="hint">{_sentence(stepped)}.</p>')
    else:
        same = one.neighbours.ratios[one.metrics[0]]
        parts += [
            f"<p>{_sentence(stepped)}.</p>",
            '<p class="hint">Every neighbour with layers mapped for it anew, against this design mapped in the same way'
            f" ({metric_word(one.metrics[0])} {significant(same, 4)} times that of the search), predicted. Better mappings than these may"
            " exist: what a step gains is a least, what it costs a most.</p>",
            one.steps_html,
        ]
    return "\n".join([*parts, "</section>"])


def _sentence(line: str) -> str:
    return html_text(line[0].upper() + line[1:])


def _others(one: Explanation, data: ReportData) -> str:
    """The alternatives, and the baseline at equal area: a table with one row each."""
    names = compared(one.metrics)
    rows = [
        (
            f"#{one.design}, the best",
            _sizes(data.best.accelerator),
            data.best.cost.area_mm2,
            dict.fromkeys(names, 1.0),
        )
    ]
    for other in one.alternatives:
        candidate = data.candidates[other.design]
        label = f"#{other.design}: {alternative_text(other, one.metrics).rpartition(' (')[0]}"
        rows.append((label, _sizes(candidate.accelerator), candidate.cost.area_mm2, dict(other.ratios)))
    note = ""
    if one.baseline is not None and data.baseline is not None:
        base = one.baseline
        against = {name: 1 / base.ratios[name] if base.ratios[name] else 0.0 for name in names}
        if base.equal_area is not None:
            candidate = data.candidates[base.equal_area]
            ratios = {name: base.equal_area_ratios[name] * against[name] for name in names}
            label = f"#{base.equal_area}, the best no larger than {base.name}"
            rows.append((label, _sizes(candidate.accelerator), candidate.cost.area_mm2, ratios))
        rows.append((data.baseline.name, _sizes(data.baseline.accelerator), base.area_mm2, against))
        note = f"<p>{_sentence(base.equal_text(one.metrics[0], one.design))}.</p>"
    heads = ("Design", "Array, KiB", "mm²", *(f"{metric_word(name)} ×" for name in names))
    table = html_table(
        heads,
        [
            (label, hardware, significant(area), *_shown(ratios, names))
            for label, hardware, area, ratios in rows
        ],
        numeric=range(2, len(heads)),
        caption="What else was found",
    )
    hint = '<p class="hint">Sizes are of the array, of scratchpad and accumulator; costs are those of the best times what stands there.</p>'
    return f"{note}{table}{hint}"


def _sizes(machine: Accelerator) -> str:
    return f"{machine.dim}×{machine.dim}, {machine.scratchpad_kib:,} + {machine.accumulator_kib:,}"


def _shown(ratios: Mapping[str, float], names: list[str]) -> list[str]:
    return [significant(ratios[name]) for name in names]
