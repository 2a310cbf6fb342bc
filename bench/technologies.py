"""What a technology changes in a search: the best designs and fronts of networks in the default space, with published and with other
areas, clocks and energies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import PositiveInt
from scipy.stats import spearmanr

from baco.accel.dataflows import MACRO_DATAFLOW
from baco.accel.technology import PUBLISHED, technology
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.bench.studies import searched
from baco.exploration.candidate import Candidate
from baco.exploration.report.data import ReportData
from baco.exploration.report.notable import front_indices
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import best_bottlenecks
from baco.exploration.space import in_technology, load_space

NETWORKS = ("resnet50", "bert_base", "mobilenet_v2")
TECHNOLOGIES = (PUBLISHED, "ihp-sg13g2")
#: Shares of a program's time and energy that pages show, by the names of their terms.
_TIME = {
    "array": ("compute",),
    "loads and stores": ("load", "store"),
    "memory channel": ("memory",),
    "groups": ("group",),
}
_ENERGY = {
    "silicon that idles": ("static",),
    "main memory": ("dram",),
    "accumulator and scratchpad": ("accumulator", "scratchpad"),
    "array": ("mac", "registers", "array"),
}

#: Blocks of an area that are no logic.
_MEMORIES = ("accumulator", "scratchpad", "tables")


def run(
    networks: Sequence[str] = NETWORKS,
    *,
    technologies: Sequence[str] = TECHNOLOGIES,
    samples: PositiveInt = 5000,
    seed: int = 0,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Search the default space for the least energy-delay product of each network, in each technology, and compare what is found.

    Args:
        networks (--network, -n): repeatable; by default three networks.
        technologies (--technology): repeatable; by default the published one and ihp-sg13g2. The others are compared with the first.
        samples: budget of each search in design points.
        seed: of the searches.
        out: folder for technologies.md and .json and the studies, which are gone on with.

    Raises what searching raises.
    """
    files = ResultFiles(out, "technologies", page)
    rows: list[dict[str, Any]] = []
    for network in networks:
        first: ReportData | None = None
        for name in technologies:
            say(f"{network} in {name}")
            folder = out / "studies" / f"{network.replace(':', '-')}-{name}-{seed}"
            space = in_technology(load_space("gemmini"), name)
            data = report_data(searched(network, space, folder, samples=samples, seed=seed)[0])
            row = {"network": network, "technology": name, "samples": samples, "seed": seed}
            rows.append(row | _design(data) | {"front": _front(data)})
            rows[-1] |= {"bound_mm2": space.constraints.area_mm2, "port_bytes": space.base.dma_bits // 8}
            rows[-1] |= {"memory_bytes": space.base.dram_bytes_per_cycle}
            first = first or data
            rows[-1]["compared"] = _compared(first, data)
            files.keep(rows)
    return rows


def _design(data: ReportData) -> dict[str, Any]:
    """The best design of a search."""
    best, machine = data.best, data.best.accelerator
    cycles, energy = best.cost.latency_cycles, data.best_costs.energy_terms_pj
    spent = {one.name: one.cycles for one in best_bottlenecks(data)}
    blocks = machine.area_blocks()
    return {
        "design": _name(best),
        "dim": machine.dim,
        "area_mm2": best.cost.area_mm2,
        "logic_share": 1 - sum(blocks.get(name, 0.0) for name in _MEMORIES) / machine.area_mm2,
        "clock_mhz": machine.clock_mhz,
        "cycles": cycles,
        "seconds": cycles / machine.clock_mhz * 1e-6,
        "joules": best.cost.energy_pj * 1e-12,
        "edp_js": best.cost.edp_js(machine.clock_mhz),
        "over_limit": best.cost.edp / data.bounds[-1].edp,
        "time": {name: sum(spent.get(term, 0.0) for term in terms) / cycles for name, terms in _TIME.items()},
        "energy": {
            name: sum(energy.get(term, 0.0) for term in terms) / sum(energy.values())
            for name, terms in _ENERGY.items()
        },
        "beyond": technology(machine.technology).beyond(machine.dim),
    }


def _name(design: Candidate) -> str:
    machine = design.accelerator
    flow = "" if machine.dataflow == MACRO_DATAFLOW else f", {machine.dataflow}"
    units = ", row functions" if machine.features.row_functions else ""
    return f"{machine.dim} x {machine.dim}, {machine.scratchpad_kib} + {machine.accumulator_kib} KiB{flow}{units}"


def _front(data: ReportData) -> dict[str, Any]:
    """Of the designs that no other beats in time, energy and area."""
    front = [data.candidates[index] for index in front_indices(data)]
    best = data.best.cost
    of_least_area = min(front, key=lambda one: one.cost.area_mm2)
    sides = Counter(one.accelerator.dim for one in front)
    return {
        "designs": len(front),
        "sides": {str(side): sides[side] for side in sorted(sides)},
        "least_area": of_least_area.cost.area_mm2 / best.area_mm2,
        "its_edp": of_least_area.cost.edp / best.edp,
        "least_energy": min(one.cost.energy_pj for one in front) / best.energy_pj,
        "least_time": min(one.cost.latency_cycles for one in front) / best.latency_cycles,
        "half_area_edp": min(
            (one.cost.edp / best.edp for one in front if one.cost.area_mm2 <= best.area_mm2 / 2), default=None
        ),
    }


def _compared(first: ReportData, other: ReportData) -> dict[str, Any]:
    """How designs that two searches both kept of one network rank, and what the best of the first costs beside that of the other."""
    ours, theirs = _by_sizes(first), _by_sizes(other)
    common = [name for name in ours if name in theirs]
    rank = spearmanr(*([of[name] for name in common] for of in (ours, theirs))).statistic
    chosen = theirs.get(_name(first.best))
    return {
        "accelerators": len(common),
        "rank": float(rank) if len(common) > 2 else None,
        "first_is_worse": None if chosen is None else chosen / other.best.cost.edp,
    }


def _by_sizes(data: ReportData) -> dict[str, float]:
    """The least energy-delay product of each accelerator that a study kept."""
    found: dict[str, float] = {}
    for one in data.candidates:
        found[_name(one)] = min(one.cost.edp, found.get(_name(one), one.cost.edp))
    return found


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Designs, where their time and energy go, fronts, and what that comes from."""
    technologies = list(dict.fromkeys(row["technology"] for row in rows))
    parts = [
        f"The default space, {rows[0]['samples']:,} samples, seed {rows[0]['seed']}, whole programs, least energy-delay product, all predicted."
        " Scratchpad + accumulator in KiB. Limits are those that no design of the space goes below in the model ([models](../docs/models.md)).",
        "## Best designs",
        table(
            rows,
            {
                "network": lambda row: row["network"],
                "technology": lambda row: row["technology"],
                "design": lambda row: row["design"],
                "area, mm²": lambda row: f"{row['area_mm2']:.4g}",
                "clock, MHz": lambda row: f"{row['clock_mhz']:.4g}",
                "M cycles": lambda row: f"{row['cycles'] * 1e-6:.3g}",
                "ms": lambda row: f"{row['seconds'] * 1e3:.3g}",
                "mJ": lambda row: f"{row['joules'] * 1e3:.3g}",
                "mJ·s": lambda row: f"{row['edp_js'] * 1e3:.3g}",
                "over limit": lambda row: f"{row['over_limit']:.3f}",
            },
        ),
        "## Where time, energy and area go",
        table(
            rows,
            {"network": lambda row: row["network"], "technology": lambda row: row["technology"]}
            | {f"time: {name}": _share("time", name) for name in _TIME}
            | {f"energy: {name}": _share("energy", name) for name in _ENERGY}
            | {"area: logic": lambda row: _percent(row["logic_share"])},
        ),
        "## Fronts in time, energy and area",
        "Beside the best design of each search.",
        table(
            rows,
            {
                "network": lambda row: row["network"],
                "technology": lambda row: row["technology"],
                "designs": lambda row: row["front"]["designs"],
                "of sides": lambda row: ", ".join(
                    f"{side}: {number}" for side, number in row["front"]["sides"].items()
                ),
                "smallest area": lambda row: f"{row['front']['least_area']:.3f}",
                "its EDP": lambda row: f"{row['front']['its_edp']:.3g}",
                "least EDP in half the area": lambda row: _ratio(row["front"]["half_area_edp"]),
                "least time": lambda row: f"{row['front']['least_time']:.2f}",
                "least energy": lambda row: f"{row['front']['least_energy']:.2f}",
            },
        ),
        "## What that comes from",
        "\n".join(line for name in technologies[1:] for line in _reasons(rows, technologies[0], name)),
    ]
    return page_of("What a technology changes in a search", *parts)


def _share(kind: str, name: str) -> Any:
    return lambda row: _percent(row[kind][name])


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _ratio(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _range(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def _reasons(rows: Sequence[Mapping[str, Any]], before: str, name: str) -> list[str]:
    """What differs between two technologies, a point each, in figures of these searches."""
    pairs = [
        (old, new)
        for old, new in itertools.product(rows, rows)
        if (old["technology"], new["technology"]) == (before, name) and old["network"] == new["network"]
    ]
    if not pairs:
        return []
    olds, news = zip(*pairs, strict=True)
    old, new = pairs[0]

    def shares(kind: str, what: str) -> str:
        was, now = ([row[kind][what] for row in ones] for ones in (olds, news))
        return f"{_range(now, '.0%')} of the best designs' {kind} in `{name}`, {_range(was, '.0%')} in `{before}`"

    lines = [
        f"* **Clock and port.** In `{before}` it is {old['clock_mhz']:,.4g} MHz ({technology(before).evidence['clock']}), in `{name}`"
        f" {new['clock_mhz']:,.4g} ({technology(name).evidence['clock']}). Main memory keeps its bytes a second, which are"
        f" {old['memory_bytes']:.3g} bytes a cycle there and {new['memory_bytes']:.3g} here, beside {new['port_bytes']} of the memory port"
        f" each way. Loads and stores limit {shares('time', 'loads and stores')}; the memory channel {shares('time', 'memory channel')}."
        f" Programs take {_range([b['cycles'] / a['cycles'] for a, b in pairs], '.2f')} times the cycles and"
        f" {_range([b['seconds'] / a['seconds'] for a, b in pairs], '.3g')} times the time.",
        f"* **Energy.** Silicon that idles takes {shares('energy', 'silicon that idles')}; main memory {shares('energy', 'main memory')}."
        f" In `{name}`, energies are {technology(name).evidence['energy']}.",
        f"* **Area.** The bound of {old['bound_mm2']:.4g} mm² becomes {new['bound_mm2']:.4g}, as many default machines. The front's smallest"
        f" design takes {_range([row['front']['least_area'] for row in news], '.1%')} of the best one's area in `{name}` and"
        f" {_range([row['front']['least_area'] for row in olds], '.1%')} in `{before}`, since control logic and every feature are counted in"
        " netlists; half the best one's area costs"
        f" {_range([row['front']['half_area_edp'] or 0.0 for row in news], '.2f')} times its energy-delay product, and"
        f" {_range([row['front']['half_area_edp'] or 0.0 for row in olds], '.2f')} times.",
        f"* **What is chosen.** Of accelerators that both searches kept, ranks by energy-delay product agree by"
        f" {_range([row['compared']['rank'] for row in news if row['compared']['rank'] is not None] or [0.0], '.3f')}"
        f" ({', '.join(str(row['compared']['accelerators']) for row in news)} accelerators).",
    ]
    lines += [
        f"  * For {b['network']}, {a['design']} becomes {b['design']}"
        + (
            f"; the first would cost {b['compared']['first_is_worse'] - 1:.1%} more in `{name}`."
            if b["compared"]["first_is_worse"] is not None
            else "; the first was not kept by the other search."
        )
        for a, b in pairs
        if a["design"] != b["design"]
    ]
    if any(row["beyond"] for row in news):
        which = ", ".join(row["network"] for row in news if row["beyond"])
        lines.append(
            f"* **Beyond what was measured** ({which}): {next(row['beyond'] for row in news if row['beyond'])}."
        )
    return lines
