"""What the page's script draws, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from baco.compiler.mapping.nest import ROW_DIM, Mapping
from baco.compiler.mapping.text import format_mapping
from baco.exploration.breakdown import COMPONENTS, CostEntry, DesignCosts
from baco.exploration.candidate import BatchSummary, Cost
from baco.exploration.cost.detail import LayerDetail
from baco.exploration.hardware import units_of
from baco.exploration.objective import FunctionMetric, metric
from baco.exploration.report.bottlenecks import bottlenecks
from baco.exploration.report.data import Baseline, ReportData
from baco.exploration.report.figures import axis_metrics
from baco.exploration.report.graph import GraphNode, network_units
from baco.exploration.report.summary import (
    TIMING_WORDS,
    candidate_block,
    cost_block,
    network_totals,
    objective_words,
    program_block,
    task_block,
)
from baco.exploration.report.tables import number
from baco.exploration.report.units import milliseconds, scientific, share, si, significant
from baco.exploration.serialize import problem_to_json
from baco.workloads.problem import DIMS

__all__ = ["history", "packed_payload", "payload"]

#: Most points of the convergence curve; more could not be told apart on a screen.
_MAX_HISTORY = 1500
#: Most rows (layer of a candidate) that the page carries, so that it stays small: about 50 bytes each.
_MAX_LAYER_ROWS = 25_000
#: Components that every layer has, in whatever model.
_LAYER_COMPONENTS = ("mac", "registers", "accumulator", "scratchpad", "dram", "static")


def payload(data: ReportData) -> dict[str, Any]:
    """Everything but the parts of the designs; those of the best, for browsers that cannot unpack the others."""
    best = data.best
    packed = packed_indices(data)
    x, y = axis_metrics(data)
    candidates = [_candidate(data, index, index in packed) for index in range(len(data.candidates))]
    if data.baseline is not None:
        candidates.append(_baseline(data.baseline, len(candidates), data))
    bits = (best.accelerator.input_bits / 8, best.accelerator.accumulator_bits / 8)
    return {
        "networks": data.network_names,
        "source": data.source,
        "limits": list(data.resources),
        "components": _components(data),
        "objective": {"metrics": data.objective.metrics, "words": objective_words(data), "x": x, "y": y},
        "candidates": candidates,
        "best": data.best_index,
        # bytes of a word by level and tensor: sums are wide inside, and outside as narrow as inputs
        "widths": [[bits[0], bits[0], bits[1]], *[[bits[0], bits[0], bits[1]]] * 2, [bits[0]] * 3],
        "tasks": [
            {
                **task_block(task),
                "name": task.name,
                "operators": task.operators[:40],
                "more": max(0, len(task.operators) - 40),
                "problem": str(task.problem),
                "sizes": problem_to_json(task.problem),
                "kind": task.problem.kind,
                "macs": task.problem.macs,
            }
            for task in data.tasks
        ],
        "shown": _parts(data, [data.best_index]),
        "history": history(data.summaries),
        "bounds": [asdict(bound) for bound in data.bounds],
        "workload": [_network(data, index) for index in range(len(data.workload.networks))],
        "facts": _facts(data),
        "cards": _cards(data),
        "notes": list(data.search.notes),
        "whole": data.search.whole,
        "space": data.search.space_text,
        "accelerator": best.accelerator.to_yaml(),
        "command": data.command,
    }


def packed_payload(data: ReportData) -> dict[str, Any]:
    """Parts of the designs shown; and the accelerators as YAML, by hash."""
    accelerators = {c.accelerator.config_hash: c.accelerator for c in data.candidates}
    designs: list[int] = sorted(packed_indices(data))
    if data.baseline is not None:
        one = data.baseline
        accelerators[one.accelerator.config_hash] = one.accelerator
        designs.append(len(data.candidates))
    return {
        **_parts(data, designs),
        "accelerators": {name: one.to_yaml() for name, one in accelerators.items()},
    }


def _parts(data: ReportData, designs: Sequence[int]) -> dict[str, Any]:
    """What the programs of some designs consist of; the baseline is the design behind the last candidate.

    Returns:
        By the number of a design: `rows`, its layers; `beside`, a place in `besides`, what else runs, each a place in `units` with
        its numbers; `bottlenecks`; `measured_terms`, measured energy (pJ) by component; `graph`, places in `graphs`, one a network. And `texts`, each mapping once.
    """
    texts, units, besides, graphs = (_Table() for _ in range(4))
    rows: dict[str, Any] = {}
    beside: dict[str, int] = {}
    waits: dict[str, Any] = {}
    graph: dict[str, list[int]] = {}
    terms: dict[str, Any] = {}
    components = _components(data)
    for index in designs:
        costs, details, mappings = _design(data, index)
        each: Sequence[LayerDetail | None] = details or [None] * len(data.tasks)
        key = str(index)
        rows[key] = [
            _row(texts.place(_mapping(mapping)), entry, detail, components)
            for mapping, entry, detail in zip(mappings, costs.layers, each, strict=True)
        ]
        beside[key] = besides.place([_other(entry, units, components) for entry in costs.beside])
        waits[key] = [
            [
                one.name,
                one.entries,
                number(one.cycles),
                None if one.doubled_cycles is None else number(one.doubled_cycles),
            ]
            for one in bottlenecks(costs, details)
        ]
        if costs.measured_terms_pj:
            terms[key] = {name: number(value) for name, value in costs.measured_terms_pj.items()}
        graph[key] = [
            graphs.place([_unit(one) for one in network_units(network, costs)])
            for network in data.workload.networks
        ]
    return {
        "texts": texts.rows,
        "units": units.rows,
        "besides": besides.rows,
        "graphs": graphs.rows,
        "rows": rows,
        "beside": beside,
        "bottlenecks": waits,
        "measured_terms": terms,
        "graph": graph,
    }


class _Table:
    """Rows of plain JSON, equal ones once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, row: Any) -> int:
        """Of a row, added if it is new."""
        place = self._places.setdefault(json.dumps(row), len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
        return place


def _design(
    data: ReportData, index: int
) -> tuple[DesignCosts, Sequence[LayerDetail] | None, Sequence[Mapping]]:
    """Costs, details of the layers if they are known, and mappings of a design, as of `_parts`."""
    if index == len(data.candidates):
        assert data.baseline is not None
        return data.baseline.costs, data.baseline.details, data.baseline.mappings
    costs = data.costs[index]
    assert costs is not None  # only such are packed
    return costs, data.details.get(index), data.candidates[index].mappings


def _components(data: ReportData) -> list[str]:
    """What energy goes to in some design of the report, by name."""
    everyone = [*data.costs, data.baseline.costs if data.baseline is not None else None]
    known = {
        name for one in everyone if one is not None for name in (*one.energy_terms_pj, *one.measured_terms_pj)
    }
    return [name for name in COMPONENTS if name in known or name in _LAYER_COMPONENTS]


def packed_indices(data: ReportData) -> set[int]:
    """Candidates whose parts the page carries: the front first, then the latest, up to a limit."""
    known = [index for index, costs in enumerate(data.costs) if costs is not None]
    known.sort(key=lambda index: (not data.candidates[index].front, -index))
    parts = len(data.tasks) + len(data.best_costs.beside)
    return set(known[: _MAX_LAYER_ROWS // max(1, parts)]) | {data.best_index}


def _mapping(mapping: Mapping) -> list[Any]:
    """Text, rows and columns of the array, what its rows take, tiles of accumulator and scratchpad, tensors held twice."""
    tiles = [[mapping.tile(level)[name] for name in DIMS] for level in (1, 2)]
    twice = "".join(name for name, copies in zip("WIO", mapping.buffering, strict=True) if copies == 2)
    return [
        format_mapping(mapping),
        mapping.rows,
        mapping.columns,
        ROW_DIM[mapping.dataflow],
        *tiles,
        twice,
    ]


def _row(text: int, entry: CostEntry, detail: LayerDetail | None, components: Sequence[str]) -> list[Any]:
    """A layer: place of the mapping; latency, energy, MACs executed, DRAM words of one run; latency terms; energy by component; code
    style; details: words by level and tensor, bytes moved, what is held, latencies with twice of each resource; runs by itself;
    what was measured; groups that it runs in."""
    layer = entry.layer
    assert layer is not None
    numbers = [
        [entry.cycles, entry.energy_pj, layer.macs, entry.dram_words],
        layer.latency_terms,
        [entry.energy_terms_pj.get(name, 0.0) for name in components],
    ]
    known = None
    if detail is not None:
        known = {
            "words": [_shorts(level) for level in detail.words],
            "moved": _shorts(detail.moved),
            "held": [[one.memory, one.tensor, _short(one.bytes), one.copies] for one in detail.held],
            "lanes": detail.lanes,
            "doubled": _shorts(detail.doubled),
        }
    exact = [[number(value) for value in values] for values in numbers]
    return [text, *exact, layer.style or "", known, number(entry.runs), _measured(entry), list(entry.groups)]


def _other(entry: CostEntry, units: _Table, components: Sequence[str]) -> list[Any]:
    """What is no layer: place of its description; latency, energy, DRAM words of one run; energy by component; runs; what was measured."""
    what = [
        entry.network,
        entry.name,
        entry.kind,
        entry.function,
        entry.on,
        list(entry.operators),
        number(entry.macs),
    ]
    return [
        units.place(what),
        [number(entry.cycles), number(entry.energy_pj), number(entry.dram_words)],
        [number(entry.energy_terms_pj.get(name, 0.0)) for name in components],
        number(entry.runs),
        _measured(entry),
    ]


def _measured(entry: CostEntry) -> list[Any] | None:
    """Runs, cycles and energy of all of them (None where that is not known), and whether they are as predicted."""
    one = entry.measured
    if one is None:
        return None
    return [
        number(one.runs),
        number(one.cycles),
        None if one.energy_pj is None else number(one.energy_pj),
        one.assumed,
    ]


def _candidate(data: ReportData, index: int, packed: bool) -> dict[str, Any]:
    block = candidate_block(data, index)
    accelerator = data.candidates[index].accelerator
    return {
        "id": index,
        "front": data.candidates[index].front,
        **_hardware(accelerator),
        **_costs(data.candidates[index].cost, accelerator.clock_mhz),
        **_functions(data, data.candidates[index].cost),
        "value": data.candidates[index].objective,
        "samples": block["samples"],
        "packed": packed,
        **_validated(data, index),
    }


def _baseline(one: Baseline, place: int, data: ReportData) -> dict[str, Any]:
    return {
        "id": place,
        "label": one.accelerator.name,
        "note": f"{one.name}; {one.cost.source}",
        "front": False,
        **_hardware(one.accelerator),
        **_costs(one.cost, one.accelerator.clock_mhz),
        **_functions(data, one.cost),
        "value": data.objective.scalar(one.cost),
        "samples": 0,
        "packed": True,
    }


def _hardware(accelerator: Any) -> dict[str, Any]:
    return {
        "dim": accelerator.dim,
        "flow": accelerator.dataflow,
        "units": units_of(accelerator),
        "spad": accelerator.scratchpad_kib,
        "acc": accelerator.accumulator_kib,
        "clock": accelerator.clock_mhz,
        "dram": accelerator.dram_bytes_per_cycle,
        "hash": accelerator.config_hash,
        "blocks": {name: _short(one) for name, one in accelerator.area_blocks().items()},
    }


def _costs(cost: Cost, clock_mhz: float) -> dict[str, Any]:
    """With all digits: the files that the page saves are made of them."""
    block = cost_block(cost, clock_mhz)
    return {
        "latency": number(block["latency_cycles"]),
        "energy": number(cost.energy_pj),
        "edp": number(block["edp_uj_cycles"]),
        "area": number(block["area_mm2"]),
        "edap": number(block["edap_uj_cycles_mm2"]),
        "power": number(block["power_w"]),
        "source": block["source"],
    }


def _functions(data: ReportData, cost: Cost) -> dict[str, float]:
    """Values of the objective's metrics that are functions of the user's."""
    return {name: metric(cost, name) for name in data.objective.metrics if isinstance(name, FunctionMetric)}


def _validated(data: ReportData, index: int) -> dict[str, Any]:
    """Status of a candidate that was chosen to be measured, and the prediction that a measured one came from."""
    found = data.validated.get(index)
    if found is None:
        return {}
    if found.measured is None:
        return {"status": found.status}
    return {
        "status": found.status,
        "was": _costs(data.prediction(index), found.accelerator.clock_mhz),
    }


def _shorts(values: Iterable[float]) -> list[float | int]:
    return [_short(value) for value in values]


def _short(value: float) -> float | int:
    """Five significant digits, more than a page shows: half the bytes."""
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e9 else rounded


def history(summaries: Sequence[BatchSummary]) -> dict[str, list[Any]]:
    """Improvements of the best, both ends, and enough between them."""
    kept: list[BatchSummary] = []
    step = max(1, len(summaries) // (_MAX_HISTORY // 2))
    for position, item in enumerate(summaries):
        improved = not kept or item.best_objective != kept[-1].best_objective
        if improved or position % step == 0 or position == len(summaries) - 1:
            kept.append(item)
    if len(kept) > _MAX_HISTORY:
        stride = -(-len(kept) // _MAX_HISTORY)
        kept = kept[::stride] + ([kept[-1]] if (len(kept) - 1) % stride else [])
    return {
        "samples": [item.evaluations for item in kept],
        "seconds": [round(item.seconds, 4) for item in kept],
        "best": [None if item.best_objective is None else _short(item.best_objective) for item in kept],
        "phase": [item.phase for item in kept],
    }


def _network(data: ReportData, index: int) -> dict[str, Any]:
    network, weight = data.workload.networks[index], data.workload.weights[index]
    latency, energy = network_totals(data, network)
    host = data.best_costs.host_cycles(network.name)
    return {
        "name": network.name,
        "source": network.source,
        "weight": weight,
        "macs": network.macs,
        "words": network.weight_words,
        "operators": sum(op.repeat for op in network.operators if op.problem),
        "problems": len(network.tasks),
        "latency": latency - host if data.best_costs.complete else latency,
        "energy": energy,
        "host": host,
        "unsupported": [[item.operator, item.node, item.reason] for item in network.unsupported],
    }


def _unit(one: GraphNode) -> list[Any]:
    """Name, kind, repetitions, what runs it, place of its entry (-1: none), group, what rides along, places of what it reads."""
    entry = -1 if one.entry is None else one.entry
    return [one.name, one.kind, one.repeat, one.on, entry, one.group, one.rides, sorted(one.sources)]


def _cards(data: ReportData) -> list[list[str]]:
    """Headline numbers: label, value, remark. The whole program first: what a user's network takes."""
    cost, clock = data.best.cost, data.best.accelerator.clock_mhz
    program = program_block(data)
    whole, host = program["latency_cycles"], program["host_cycles"]

    def seconds(cycles: float) -> str:
        return si(milliseconds(cycles, clock) * 1e-3, "s")

    macs = sum(task.count * task.problem.macs for task in data.tasks)
    peak = data.best.accelerator.dim**2
    broken = [["Constraints", "not met", "these are the nearest designs"]] if data.violations else []
    guess = ""
    if cost.source == "measured":
        guess = f"; {si(data.prediction(data.best_index).latency_cycles, 'cycles')} predicted"
    cards = [
        *broken,
        ["Whole program", seconds(whole), f"{si(whole, 'cycles')}, {cost.source}{guess}"],
        ["Accelerator", seconds(whole - host), f"{si(whole - host, 'cycles')}, {cost.source}"],
        [
            "Host",
            seconds(host),
            f"{si(host, 'cycles')}, {share(host, whole)} of the whole, {program['host_source']}",
        ],
        [
            "Energy-delay product",
            scientific(cost.edp),
            f"µJ·cycles, of the {'whole program' if data.search.whole else 'accelerator'}",
        ],
        ["Energy", si(cost.energy_uj * 1e-6, "J"), f"{si(macs, 'MAC')}s of work"],
        [
            "Area",
            f"{significant(cost.area_mm2)} mm²",
            f"{data.best.accelerator.dim} × {data.best.accelerator.dim} array",
        ],
    ]
    if cost.latency_cycles:
        cards.append(["Array in use", share(macs / peak, cost.latency_cycles), f"of {peak:,} MACs a cycle"])
    if data.baseline is not None:
        goal = data.objective.front_metrics if len(data.objective.metrics) > 1 else data.objective.metrics
        name = goal[0]
        base, now = metric(data.baseline.cost, name), metric(cost, name)
        if now > 0:
            label = "less" if base >= now else "of the"
            ratio = f"{significant(base / now)}×" if base >= now else significant(now / base) + "×"
            times = significant(cost.area_mm2 / data.baseline.cost.area_mm2)
            remark = f"{label} {_short_name(name)}, {times}× the area"
            cards.append([f"Against {data.baseline.accelerator.name}", ratio, remark])
    if data.bounds and data.bounds[-1].edp > 0:
        bound = data.bounds[-1]
        cards.append(
            ["Distance to the limit", f"{significant(cost.edp / bound.edp)}×", f"{bound.name} bound"]
        )
    return cards


def _short_name(name: str) -> str:
    return name.upper() if name in ("edp", "edap") else name


def _facts(data: ReportData) -> list[list[str]]:
    """Provenance as rows of a table."""
    search = data.search
    rows = [
        ["Searcher", search.searcher],
        ["Cost model", f"{search.cost_model} (of predicted latencies)"],
        ["Cycles", TIMING_WORDS[data.best.accelerator.timing]],
        ["Seed", str(search.seed)],
        ["Evaluations", f"{data.evaluations:,} (problem-mapping pairs; one with gradient counts as 3)"],
        ["Search time", f"{significant(data.seconds)} s in {len(data.summaries):,} batches"],
        ["The search", search.ended],
        ["Design space", search.space_name],
        ["Candidates kept", f"{len(data.candidates):,}"],
        ["Accelerator hash", data.best.accelerator.config_hash],
    ]
    rows += _flat(data.provenance.items())
    return rows


def _flat(items: Iterable[tuple[str, Any]], prefix: str = "") -> list[list[str]]:
    rows = []
    for key, value in items:
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, dict):
            rows += _flat(value.items(), f"{name}: ")
        elif prefix or name not in ("seed", "command"):  # shown already
            rows.append([name[:1].upper() + name[1:], str(value)])
    return rows
