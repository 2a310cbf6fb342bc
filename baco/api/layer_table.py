"""The parts of a design's programs as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from baco.exploration.breakdown import CostEntry
    from baco.exploration.report.data import ReportData


_NUMBERS = (
    *("macs", "latency_cycles", "energy_uj", "share"),
    *("measured_count", "measured_cycles", "measured_energy_uj"),
)


def part_table(data: ReportData, index: int) -> pd.DataFrame:
    """See `baco.Result.layers`; `index` is a candidate's."""
    import pandas as pd

    costs = data.costs[index]
    assert costs is not None, "report_data costs the parts of every candidate"
    total = costs.cycles or 1.0
    beside = costs.beside if costs.complete else ()
    rows = [_row(data, index, layer, total) for layer in costs.layers]
    rows += [
        _row(data, index, entry, total) for entry in beside if entry.runs > 0 or entry.measured is not None
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, "float64"))


def _row(data: ReportData, index: int, one: CostEntry, total: float) -> dict[str, Any]:
    from baco.exploration.report.bottlenecks import limit_of

    task = None if one.task is None else data.tasks[one.task]
    measured = None if one.measured is None or one.measured.assumed else one.measured
    runs = one.runs > 0
    known = measured is not None and measured.runs > 0
    return {
        "network": one.network,
        "layer": one.name,
        "part": one.kind,
        "on": one.on,
        "group": "; ".join(one.groups) or None,
        "operators": len(one.operators),
        "count": one.runs,
        "problem": None if task is None else str(task.problem),
        "kind": one.function,
        "macs": one.macs,
        "mapping": None if one.task is None else data.mapping_texts[index][one.task],
        "latency_cycles": one.cycles if runs else None,
        "energy_uj": one.energy_pj * 1e-6 if runs else None,
        "share": one.total_cycles / total if runs else None,
        "bottleneck": limit_of(one) if runs else None,
        "style": one.layer.style if one.layer is not None and runs else None,
        "measured_count": measured.runs if measured is not None and known else None,
        "measured_cycles": measured.cycles / measured.runs if measured is not None and known else None,
        "measured_energy_uj": measured.energy_pj * 1e-6 / measured.runs
        if measured is not None and known and measured.energy_pj is not None
        else None,
    }
