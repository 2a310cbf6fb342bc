"""What the page's script draws, as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from baco.compiler.mapping.nest import ROW_DIM, Mapping
from baco.compiler.mapping.text import format_mapping
from baco.exploration.candidate import BatchSummary, Cost, LayerCost
from baco.exploration.cost.detail import LayerDetail
from baco.exploration.hardware import units_of
from baco.exploration.objective import metric
from baco.exploration.report.data import Baseline, ReportData
from baco.exploration.report.figures import axis_metrics
from baco.exploration.report.graph import GraphNode, network_units
from baco.exploration.report.summary import (
    TIMING_WORDS,
    candidate_block,
    cost_block,
    host_cycles,
    network_totals,
    objective_words,
    task_block,
    whole_cycles,
)
from baco.exploration.report.units import milliseconds, scientific, share, si, significant
from baco.exploration.serialize import problem_to_json
from baco.workloads.problem import DIMS

__all__ = ["history", "packed_payload", "payload"]

#: Most points of the convergence curve; more could not be told apart on a screen.
_MAX_HISTORY = 1500
#: Most rows (layer of a candidate) that the page carries, so that it stays small: about 50 bytes each.
_MAX_LAYER_ROWS = 25_000


def payload(data: ReportData) -> dict[str, Any]:
    """Everything but the layers of the designs."""
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
        # for browsers that cannot unpack the others
        "layers": [
            [_mapping(mapping), _row(0, layer, detail, runs)]
            for mapping, layer, detail, runs in zip(
                best.mappings,
                data.best_layers,
                _details(data, data.best_index),
                data.counts(data.best_index),
                strict=True,
            )
        ],
        "history": history(data.summaries),
        "bounds": [asdict(bound) for bound in data.bounds],
        "host": [
            {
                "network": item.network,
                "operator": item.operator,
                "kind": item.kind,
                "count": item.count,
                "cycles": item.latency_cycles,
                "energy": item.energy_pj,
                "on": "accelerator" if item.on_accelerator else "host",
            }
            for item in data.host
        ],
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
    """Layers of the designs shown, by place, with each mapping once; and the accelerators as YAML, by hash."""
    texts: dict[Any, int] = {}
    mappings: list[list[Any]] = []

    def place(mapping: Mapping) -> int:
        key = (format_mapping(mapping), mapping.buffering)
        if key not in texts:
            texts[key] = len(mappings)
            mappings.append(_mapping(mapping))
        return texts[key]

    rows: dict[str, list[list[Any]]] = {}
    for index in sorted(packed_indices(data)):
        layers = data.layers[index]
        assert layers is not None  # only such are packed
        rows[str(index)] = [
            _row(place(mapping), layer, detail, runs)
            for mapping, layer, detail, runs in zip(
                data.candidates[index].mappings,
                layers,
                _details(data, index),
                data.counts(index),
                strict=True,
            )
        ]
    accelerators = {c.accelerator.config_hash: c.accelerator for c in data.candidates}
    if data.baseline is not None:
        one = data.baseline
        accelerators[one.accelerator.config_hash] = one.accelerator
        rows[str(len(data.candidates))] = [
            _row(place(mapping), layer, detail, task.count)
            for mapping, layer, detail, task in zip(
                one.mappings, one.layers, one.details, data.tasks, strict=True
            )
        ]
    return {
        "texts": mappings,
        "rows": rows,
        "accelerators": {name: one.to_yaml() for name, one in accelerators.items()},
    }


def packed_indices(data: ReportData) -> set[int]:
    """Candidates whose layers the page carries: the front first, then the latest, up to a limit."""
    known = [index for index, layers in enumerate(data.layers) if layers is not None]
    known.sort(key=lambda index: (not data.candidates[index].front, -index))
    return set(known[: _MAX_LAYER_ROWS // max(1, len(data.tasks))]) | {data.best_index}


def _details(data: ReportData, index: int) -> Sequence[LayerDetail | None]:
    return data.details.get(index) or [None] * len(data.tasks)


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


def _row(text: int, layer: LayerCost, detail: LayerDetail | None, runs: float) -> list[Any]:
    """Place of the mapping; latency, energy, MACs executed, DRAM words; latency terms; five energy terms and the static one; code style;
    details: words by level and tensor, bytes moved, what is held, latencies with twice of each resource; runs by itself."""
    numbers = [
        [layer.latency_cycles, layer.energy_pj, layer.macs, layer.accesses[3]],
        layer.latency_terms,
        [*layer.energy_terms_pj, layer.static_pj],
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
    return [text, *map(_shorts, numbers), layer.style or "", known, runs]


def _candidate(data: ReportData, index: int, packed: bool) -> dict[str, Any]:
    block = candidate_block(data, index)
    accelerator = data.candidates[index].accelerator
    return {
        "id": index,
        "front": data.candidates[index].front,
        **_hardware(accelerator),
        **_costs(data.candidates[index].cost, accelerator.clock_mhz),
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
    }


def _costs(cost: Cost, clock_mhz: float) -> dict[str, Any]:
    block = cost_block(cost, clock_mhz)
    return {
        "latency": _short(block["latency_cycles"]),
        "energy": _short(block["energy_uj"] * 1e6),
        "edp": _short(block["edp_uj_cycles"]),
        "area": _short(block["area_mm2"]),
        "edap": _short(block["edap_uj_cycles_mm2"]),
        "power": _short(block["power_w"]),
        "source": block["source"],
    }


def _validated(data: ReportData, index: int) -> dict[str, Any]:
    """Status of a candidate that was chosen to be measured, and the prediction that a measured one came from."""
    found = data.validated.get(index)
    if found is None:
        return {}
    before = found.design.predicted
    if found.cost is None or before is None:
        return {"status": found.status}
    return {"status": found.status, "was": _costs(before, found.design.accelerator.clock_mhz)}


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
    host = host_cycles(data, network.name)
    return {
        "name": network.name,
        "source": network.source,
        "weight": weight,
        "macs": network.macs,
        "words": network.weight_words,
        "operators": sum(op.repeat for op in network.operators if op.problem),
        "problems": len(network.tasks),
        "latency": latency - host if data.search.whole else latency,
        "energy": energy,
        "host": host,
        "units": [_unit(one) for one in network_units(network, data.tasks, data.host)],
        "unsupported": [[item.operator, item.node, item.reason] for item in network.unsupported],
    }


def _unit(one: GraphNode) -> dict[str, Any]:
    return {
        "name": one.operator.name,
        "kind": one.operator.kind,
        "on": one.on,
        "repeat": one.operator.repeat,
        "rides": one.rides,
        "from": sorted(one.sources),
        "task": -1 if one.task is None else one.task,
        "cycles": _short(one.cycles),
    }


def _cards(data: ReportData) -> list[list[str]]:
    """Headline numbers: label, value, remark. The whole program first: what a user's network takes."""
    cost, clock = data.best.cost, data.best.accelerator.clock_mhz
    host = host_cycles(data)
    whole = whole_cycles(data)

    def seconds(cycles: float) -> str:
        return si(milliseconds(cycles, clock) * 1e-3, "s")

    macs = sum(task.count * task.problem.macs for task in data.tasks)
    peak = data.best.accelerator.dim**2
    broken = [["Constraints", "not met", "these are the nearest designs"]] if data.violations else []
    cards = [
        *broken,
        ["Whole program", seconds(whole), f"{si(whole, 'cycles')}, {cost.source}"],
        ["Accelerator", seconds(whole - host), f"{si(whole - host, 'cycles')}, {cost.source}"],
        ["Host", seconds(host), f"{si(host, 'cycles')}, {share(host, whole)} of the whole, predicted"],
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
        before, now = metric(data.baseline.cost, name), metric(cost, name)
        if now > 0:
            label = "less" if before >= now else "of the"
            ratio = f"{significant(before / now)}×" if before >= now else significant(now / before) + "×"
            cards.append([f"Against {data.baseline.accelerator.name}", ratio, f"{label} {_short_name(name)}"])
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
