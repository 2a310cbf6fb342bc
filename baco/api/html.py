"""A result as notebooks show it: the best design and what it is the best of, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco.common.text import html_text
from baco.exploration.report.notable import front_indices, knee_index
from baco.exploration.report.units import scientific, share, si, significant
from baco.exploration.space.points import named_units

if TYPE_CHECKING:
    from baco.exploration.candidate import Candidate
    from baco.exploration.report.data import ReportData


def result_html(data: ReportData) -> str:
    """HTML of a result, everything from outside escaped."""
    several = len(data.objective.metrics) > 1
    designs = [(f"best ({data.objective.metrics[0]})" if several else "best", data.best)]
    compromise = knee_index(data) if several else None
    designs += [] if compromise is None else [("knee", data.candidates[compromise])]
    head = (
        "",
        "array",
        "scratchpad",
        "accumulator",
        "latency",
        "energy",
        "EDP, µJ·cycles",
        "area",
        "costs are",
    )
    rows = "".join(f"<tr>{_cells(name, design)}</tr>" for name, design in designs)
    facts = (
        f"{data.network_names}: {data.objective}; {len(data.candidates)} designs kept, {len(front_indices(data))} on the "
        f"front; cost model {data.search.cost_model}; {data.samples:,.0f} samples in {significant(data.seconds)} s"
    )
    if data.proven_edp is not None:
        above = share(max(0.0, data.best.cost.edp - data.proven_edp), data.proven_edp)
        facts += f"; at most {above} above the proven least EDP"
    titles = "".join(f"<th>{html_text(heading)}</th>" for heading in head)
    return f"<p>{html_text(facts)}</p><table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(name: str, one: Candidate) -> str:
    machine, cost = one.accelerator, one.cost
    seconds = cost.latency_cycles / (machine.clock_mhz * 1e6)
    texts = (
        name,
        f"{machine.dim}×{machine.dim} {machine.dataflow}{named_units(machine)}",
        f"{machine.scratchpad_kib:,} KiB",
        f"{machine.accumulator_kib:,} KiB",
        f"{si(cost.latency_cycles, 'cycles')} ({si(seconds, 's')})",
        si(cost.energy_uj * 1e-6, "J"),
        scientific(cost.edp),
        f"{significant(cost.area_mm2)} mm²",
        cost.source,
    )
    return "".join(f"<td>{html_text(text)}</td>" for text in texts)
