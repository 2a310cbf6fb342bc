"""What the page's script draws, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.technology import technology
from baco.compiler.mapping.nest import ROW_DIM, Mapping
from baco.compiler.mapping.text import format_mapping
from baco.exploration._json import to_json
from baco.exploration.breakdown import COMPONENTS, CostEntry, DesignCosts
from baco.exploration.candidate import BatchSummary, Cost
from baco.exploration.cost.detail import LayerDetail
from baco.exploration.objective import FunctionMetric, metric, metric_word
from baco.exploration.report.bottlenecks import bottlenecks
from baco.exploration.report.data import Baseline, ReportData
from baco.exploration.report.figures import axis_metrics
from baco.exploration.report.network_graph import network_units
from baco.exploration.report.notable import tied_indices
from baco.exploration.report.parameters import hardware_parameters, parameter_importance
from baco.exploration.report.summary import (
    TIMING_WORDS,
    network_totals,
    objective_words,
    program_block,
    task_block,
)
from baco.exploration.report.tables import number
from baco.exploration.report.units import milliseconds, scientific, share, si, significant, watts
from baco.exploration.report.validation import simulated_on, validation_block
from baco.exploration.report.why import explanation
from baco.exploration.report.why_block import explanation_block
from baco.exploration.serialize import problem_to_json
from baco.exploration.space.points import units_of

#: Most points of the convergence curve; more could not be told apart on a screen.
_MAX_HISTORY = 1500
#: Most rows (layer of a candidate) that the page carries, so that it stays small: about 50 bytes each.
_MAX_LAYER_ROWS = 25_000
#: Levels of the tiles that a layer's page shows.
_TILES = {"accumulator": 1, "scratchpad": 2}
#: Components that every layer has, in whatever model.
_LAYER_COMPONENTS = ("mac", "registers", "accumulator", "scratchpad", "dram", "static")


def payload(data: ReportData) -> dict[str, Any]:
    """Everything but the parts of the designs; those of the best, for browsers that cannot unpack the others."""
    best, measured = data.best, validation_block(data)
    packed = packed_indices(data)
    x, y = axis_metrics(data)
    parameters = hardware_parameters(data)
    candidates = [_candidate(data, index, index in packed) for index in range(len(data.candidates))]
    for index, record in enumerate(candidates):
        record["hardware"] = {parameter.key: parameter.values[index] for parameter in parameters}
    for index in tied_indices(data):
        candidates[index]["tie"] = True
    if data.baseline is not None:
        candidates.append(_baseline(data.baseline, len(candidates), data))
    return {
        "networks": data.network_names,
        "source": data.source,
        "limits": list(data.resources),
        "components": _components(data),
        "edpUnit": best.cost.edp_unit,
        "objective": {"metrics": data.objective.metrics, "words": objective_words(data), "x": x, "y": y},
        "candidates": candidates,
        "best": data.best_index,
        "errors": {"design": to_json(data.errors), "part": to_json(data.part_errors)},
        "parameters": [
            {
                "key": parameter.key,
                "label": parameter.label,
                "description": parameter.description,
                "numeric": parameter.numeric,
            }
            for parameter in parameters
        ],
        "importance": to_json(parameter_importance(data)),
        "widths": _word_bytes(best.accelerator),
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
        "bounds": [to_json(bound) for bound in data.bounds],
        "workload": [_network(data, index) for index in range(len(data.workload.networks))],
        "facts": _facts(data),
        "cards": _cards(data),
        "explanation": explanation_block(explanation(data)),
        "validation": None
        if measured is None
        else {**measured, "machine": simulated_on(data.validated_designs)},
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
        baseline = data.baseline
        accelerators[baseline.accelerator.config_hash] = baseline.accelerator
        designs.append(len(data.candidates))
    return {
        **_parts(data, designs),
        "accelerators": {name: accelerator.to_yaml() for name, accelerator in accelerators.items()},
    }


def _parts(data: ReportData, designs: Sequence[int]) -> dict[str, Any]:
    """What the programs of some designs consist of; the baseline is the design behind the last candidate.

    Returns:
        By the number of a design: `rows`, its layers; `beside`, a place in `besides`, what else runs, each with the place of its
        description in `units`; `bottlenecks`; `measured_terms`, measured energy (pJ) by component; `graph`, places in `graphs`, one a
        network. And `mappings`, each once.
    """
    mappings, units, besides, graphs = (_Table() for _ in range(4))
    rows: dict[str, Any] = {}
    beside: dict[str, int] = {}
    waits: dict[str, Any] = {}
    graph: dict[str, list[int]] = {}
    terms: dict[str, Any] = {}
    for index in designs:
        costs, details, own = _design(data, index)
        each: Sequence[LayerDetail | None] = details or [None] * len(data.tasks)
        key = str(index)
        rows[key] = [
            {**_entry(entry), "mapping": mappings.place(_mapping(mapping)), **_layer(entry, detail)}
            for mapping, entry, detail in zip(own, costs.layers, each, strict=True)
        ]
        beside[key] = besides.place(
            [{**_entry(entry), "unit": units.place(_description(entry))} for entry in costs.beside]
        )
        waits[key] = [to_json(bottleneck) for bottleneck in bottlenecks(costs, details)]
        if costs.measured_terms_pj:
            terms[key] = dict(costs.measured_terms_pj)
        graph[key] = [
            graphs.place([to_json(unit) for unit in network_units(network, costs)])
            for network in data.workload.networks
        ]
    return {
        "mappings": mappings.rows,
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


def _mapping(mapping: Mapping) -> dict[str, Any]:
    """Its text, rows and columns of the array, what its rows take, tiles of accumulator and scratchpad, tensors held twice."""
    tiles = {name: mapping.tile(level) for name, level in _TILES.items()}
    twice = "".join(name for name, copies in zip("WIO", mapping.buffering, strict=True) if copies == 2)
    return {
        "text": format_mapping(mapping),
        "rows": mapping.rows,
        "columns": mapping.columns,
        "lane": ROW_DIM[mapping.dataflow],
        "tiles": tiles,
        "twice": twice,
    }


def _word_bytes(machine: Accelerator) -> list[dict[str, float]]:
    """Bytes of a word by level and tensor: sums are wide inside, and outside as narrow as inputs."""
    narrow, wide = machine.input_bits / 8, machine.accumulator_bits / 8
    return [*[{"W": narrow, "I": narrow, "O": wide}] * 3, {"W": narrow, "I": narrow, "O": narrow}]


def _entry(entry: CostEntry) -> dict[str, Any]:
    """Numbers of a part of a program: of one run, and how many there are; what was measured of it."""
    return {
        "cycles": number(entry.cycles),
        "dram_words": number(entry.dram_words),
        "energy": {name: number(value) for name, value in entry.energy_terms_pj.items() if value},
        "runs": number(entry.runs),
        **({} if entry.measured is None else {"measured": to_json(entry.measured)}),
    }


def _layer(entry: CostEntry, detail: LayerDetail | None) -> dict[str, Any]:
    """What layers have besides: MACs executed, cycles that resources are busy, code style, groups that it runs in; in detail words by
    level and tensor, bytes moved, what is held, latencies with twice of each resource."""
    layer = entry.layer
    assert layer is not None
    known = None
    if detail is not None:
        known = {
            "words": [
                {name: _short(words) for name, words in zip("WIO", level, strict=True) if words}
                for level in detail.words
            ],
            "moved": {name: _short(words) for name, words in detail.moved_by_name.items()},
            "held": [{**to_json(held), "bytes": _short(held.bytes)} for held in detail.held],
            "lanes": dict(zip(("rows", "columns"), detail.lanes, strict=True)),
            "doubled": {
                name: _short(cycles) for name, cycles in zip(layer.resources, detail.doubled, strict=True)
            },
        }
    return {
        "executed": number(layer.macs),
        "busy": {
            name: number(cycles) for name, cycles in zip(layer.resources, layer.latency_terms, strict=True)
        },
        "style": layer.style or "",
        **({"groups": list(entry.groups)} if entry.groups else {}),
        "detail": known,
    }


def _description(entry: CostEntry) -> dict[str, Any]:
    """What is no layer, in words."""
    names = ("network", "name", "kind", "function", "on", "operators", "macs")
    return {name: to_json(getattr(entry, name)) for name in names}


def _candidate(data: ReportData, index: int, packed: bool) -> dict[str, Any]:
    one = data.candidates[index]
    return {
        "id": index,
        "front": one.front,
        **_machine(data, one.accelerator, one.cost),
        "value": one.objective,
        "samples": one.samples,
        "packed": packed,
        **_validated(data, index),
    }


def _baseline(one: Baseline, place: int, data: ReportData) -> dict[str, Any]:
    return {
        "id": place,
        "label": one.accelerator.name,
        "note": f"{one.name}; {one.cost.source}",
        "front": False,
        **_machine(data, one.accelerator, one.cost),
        "value": data.objective.scalar(one.cost),
        "samples": 0,
        "packed": True,
    }


def _machine(data: ReportData, machine: Accelerator, cost: Cost) -> dict[str, Any]:
    """Hardware and costs, those of the objective that are functions of the user's included."""
    functions = [name for name in data.objective.metrics if isinstance(name, FunctionMetric)]
    return {
        "dim": machine.dim,
        "flow": machine.dataflow,
        "units": units_of(machine),
        "spad": machine.scratchpad_kib,
        "acc": machine.accumulator_kib,
        "clock": machine.clock_mhz,
        "dram": machine.dram_bytes_per_cycle,
        "hash": machine.config_hash,
        "blocks": {name: _short(one) for name, one in machine.area_blocks().items()},
        **_costs(cost, machine.clock_mhz),
        **{name: metric(cost, name) for name in functions},
    }


def _costs(cost: Cost, clock_mhz: float) -> dict[str, Any]:
    """With all digits: the files that the page saves are made of them."""
    return {
        "latency": number(cost.latency_cycles),
        "energy": number(cost.energy_pj),
        "edp": number(cost.edp),
        "area": number(cost.area_mm2),
        "edap": number(cost.edap),
        "power": number(watts(cost.energy_pj, cost.latency_cycles, clock_mhz)),
        "source": cost.source,
    }


def _validated(data: ReportData, index: int) -> dict[str, Any]:
    """Status of a candidate that was chosen to be measured, and the prediction that a measured one came from."""
    found = data.validated.get(index)
    if found is None:
        return {}
    measured = found.measured is not None
    was = {"was": _costs(data.prediction(index), found.accelerator.clock_mhz)} if measured else {}
    return {"status": found.status, **was}


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
        "unsupported": [to_json(item) for item in network.unsupported],
    }


def _cards(data: ReportData) -> list[dict[str, str]]:
    """Headline numbers. The whole program first: what a user's network takes."""
    cost, machine, program = data.best.cost, data.best.accelerator, program_block(data)
    whole, host = program["latency_cycles"], program["host_cycles"]
    macs = sum(task.count * task.problem.macs for task in data.tasks)
    side, peak = machine.dim, machine.dim**2
    cards: list[dict[str, str]] = []

    def card(label: str, value: str, remark: str) -> None:
        cards.append({"label": label, "value": value, "remark": remark})

    def seconds(cycles: float) -> str:
        return si(milliseconds(cycles, machine.clock_mhz) * 1e-3, "s")

    def evidence_of(name: str) -> str:
        """The known error of what no run measures."""
        return f" ± {share(data.errors[name].mean, 1)}"

    def evidence(name: str) -> str:
        """Of a predicted figure its known error."""
        return "" if cost.source == "measured" else evidence_of(name)

    if data.violations:
        card("Constraints", "not met", "these are the nearest designs")
    before = data.prediction(data.best_index).latency_cycles
    guess = f"; {si(before, 'cycles')} predicted" if cost.source == "measured" else ""
    card("Whole program", seconds(whole), f"{si(whole, 'cycles')}, {cost.source}{evidence('latency')}{guess}")
    card("Accelerator", seconds(whole - host), f"{si(whole - host, 'cycles')}, {cost.source}")
    part = f"{share(host, whole)} of the whole, {program['host_source']}"
    card("Host", seconds(host), f"{si(host, 'cycles')}, {part}")
    subject = "whole program" if data.search.whole else "accelerator"
    real = si(cost.edp_js(machine.clock_mhz), "J·s")
    card(
        "Energy-delay product",
        scientific(cost.edp),
        f"{cost.edp_unit}{evidence('edp')}, of the {subject}; {real}",
    )
    work = f"{si(macs, 'MAC')}s of work"
    card("Energy", si(cost.energy_uj * 1e-6, "J"), f"{cost.source}{evidence('energy')}, {work}")
    card(
        "Area", f"{significant(cost.area_mm2)} mm²", f"predicted{evidence_of('area')}, {side} × {side} array"
    )
    if "clock" in data.errors:
        clock = f"what its netlist closes at before layout{evidence_of('clock')}"
        card("Clock", si(machine.clock_mhz * 1e6, "Hz"), clock)
    if cost.latency_cycles:
        card("Array in use", share(macs / peak, cost.latency_cycles), f"of {peak:,} MACs a cycle")
    if data.baseline is not None:
        goal = data.objective.front_metrics if len(data.objective.metrics) > 1 else data.objective.metrics
        base, now = metric(data.baseline.cost, goal[0]), metric(cost, goal[0])
        if now > 0:
            label = "less" if base >= now else "of the"
            ratio = significant(base / now if base >= now else now / base)
            times = significant(cost.area_mm2 / data.baseline.cost.area_mm2)
            remark = f"{label} {metric_word(goal[0])}, {times}× the area"
            card(f"Against {data.baseline.accelerator.name}", f"{ratio}×", remark)
    if data.bounds and data.bounds[-1].edp > 0:
        bound = data.bounds[-1]
        card("Distance to the limit", f"{significant(cost.edp / bound.edp)}×", f"{bound.name} bound")
    return cards


def _facts(data: ReportData) -> list[dict[str, str]]:
    """Where the result came from, one fact a row."""
    search, silicon = data.search, technology(data.best.accelerator.technology)
    rows = [
        ["Searcher", search.searcher],
        ["Cost model", f"{search.cost_model} (of predicted latencies)"],
        ["Cycles", TIMING_WORDS[data.best.accelerator.timing]],
        ["Technology", silicon.name],
        *([f"{name.capitalize()} figures", text] for name, text in silicon.evidence.items()),
        *([["Beyond netlists", beyond]] if (beyond := silicon.beyond(data.best.accelerator.dim)) else []),
        ["Seed", str(search.seed)],
        ["Evaluations", f"{data.evaluations:,} (problem-mapping pairs; one with gradient counts as 3)"],
        ["Search time", f"{significant(data.seconds)} s in {len(data.summaries):,} batches"],
        ["The search", search.ended],
        ["Design space", search.space_name],
        ["Candidates kept", f"{len(data.candidates):,}"],
        ["Accelerator hash", data.best.accelerator.config_hash],
    ]
    rows += _flat(data.provenance.items())
    return [{"fact": name, "value": value} for name, value in rows]


def _flat(items: Iterable[tuple[str, Any]], prefix: str = "") -> list[list[str]]:
    rows = []
    for key, value in items:
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, dict):
            rows += _flat(value.items(), f"{name}: ")
        elif prefix or name not in ("seed", "command"):  # shown already
            rows.append([name[:1].upper() + name[1:], str(value)])
    return rows
