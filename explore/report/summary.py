"""`summary.json` and the paragraph that opens a report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.text import json_text
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.constraints import UNITS
from baco.exploration.front import knee
from baco.exploration.hardware import units_of
from baco.exploration.objective import metric
from baco.exploration.report.data import ReportData
from baco.exploration.report.units import milliseconds, scientific, share, si, significant, watts
from baco.exploration.report.validation import validation_block, validation_sentences
from baco.exploration.serialize import problem_to_json
from baco.workloads.network import Network, Task

#: Raised when the meaning of a field changes; fields may be added without.
FORMAT_VERSION = 1
#: JSON Schema of `summary.json`, with a description of every field.
SCHEMA_PATH = Path(__file__).with_name("summary.schema.json")

_METRIC_WORDS = {
    "edp": "energy-delay product",
    "latency": "latency",
    "energy": "energy",
    "area": "area",
    "edap": "energy-delay-area product",
}


#: Whose cycles a report is of, by `Accelerator.timing`.
TIMING_WORDS = {
    "baco": "those of the generated Verilog",
    "gemmini": "those of a model of the original Gemmini in a Rocket system",
}


def objective_words(data: ReportData) -> str:
    """The objective in full words."""
    return " and ".join(_METRIC_WORDS[name] for name in data.objective.metrics)


def cost_block(cost: Cost, clock_mhz: float) -> dict[str, Any]:
    """A cost with what derives from it, units in the names."""
    return {
        "source": cost.source,
        "latency_cycles": cost.latency_cycles,
        "latency_ms": milliseconds(cost.latency_cycles, clock_mhz),
        "energy_uj": cost.energy_uj,
        "edp_uj_cycles": cost.edp,
        "area_mm2": cost.area_mm2,
        "edap_uj_cycles_mm2": cost.edap,
        "power_w": watts(cost.energy_pj, cost.latency_cycles, clock_mhz),
    }


def candidate_block(data: ReportData, index: int) -> dict[str, Any]:
    """A candidate without its mappings."""
    candidate = data.candidates[index]
    accelerator = candidate.accelerator
    violations = data.violations[index] if data.violations else {}
    return {
        "id": index,
        "accelerator": {
            "name": accelerator.name,
            "config_hash": accelerator.config_hash,
            "dim": accelerator.dim,
            "dataflow": accelerator.dataflow,
            "units": units_of(accelerator),
            "scratchpad_kib": accelerator.scratchpad_kib,
            "accumulator_kib": accelerator.accumulator_kib,
            "clock_mhz": accelerator.clock_mhz,
            "timing": accelerator.timing,
        },
        "cost": cost_block(candidate.cost, accelerator.clock_mhz),
        "objective": candidate.objective,
        "samples": candidate.samples,
        "violations": {path: {"value": value, "bound": bound} for path, (value, bound) in violations.items()},
    }


def front_indices(data: ReportData) -> list[int]:
    """Candidates on the Pareto front, ascending in its first metric."""
    first = data.objective.front_metrics[0]
    members = [index for index, candidate in enumerate(data.candidates) if candidate.front]
    return sorted(members, key=lambda index: metric(data.candidates[index].cost, first))


def knee_index(data: ReportData) -> int | None:
    """The candidate on the front that is the nearest to the best values of all its metrics at once; None without a front.

    The metrics are those of the front; see `baco.exploration.front.knee` for distances.
    """
    front, names = front_indices(data), data.objective.front_metrics
    if not front:
        return None
    return front[knee(np.array([[metric(data.candidates[i].cost, name) for name in names] for i in front]))]


def network_totals(data: ReportData, network: Network) -> tuple[float, float]:
    """Latency (cycles) and energy (pJ) of one network on the best candidate, weight included: measured if it was."""
    latency = energy = 0.0
    validated = data.validated.get(data.best_index)
    if validated is not None and validated.cost is not None:
        for program in validated.programs:
            if program.planned.network == network.name and program.measured is not None:
                latency += program.planned.weight * program.measured.cycles
                energy += program.planned.weight * program.measured.energy_pj
        if validated.programs:
            return latency, energy
        for result, count in zip(validated.layers, validated.counts, strict=True):
            if result.task.network == network.name and result.measured is not None:
                latency += count * result.measured.cycles
                energy += count * result.measured.energy_pj
    else:
        for task, count, layer in zip(
            data.tasks, data.counts(data.best_index), data.best_layers, strict=True
        ):
            if task.network == network.name:
                latency += count * layer.latency_cycles
                energy += count * layer.energy_pj
    if data.search.whole:
        latency += sum(one.count * one.latency_cycles for one in data.host if one.network == network.name)
        energy += sum(one.count * (one.energy_pj or 0.0) for one in data.host if one.network == network.name)
    return latency, energy


def summary(data: ReportData) -> dict[str, Any]:
    """The content of `summary.json`, as `summary.schema.json` describes it."""
    best, search, compromise = data.best, data.search, knee_index(data)
    return {
        "format_version": FORMAT_VERSION,
        "text": summary_text(data),
        "networks": [_network_block(data, index) for index in range(len(data.workload.networks))],
        "objective": {
            "metrics": list(data.objective.metrics),
            "front_metrics": list(data.objective.front_metrics),
            "best": data.objective.scalar(best.cost),
        },
        "space": {"name": search.space_name, "yaml": search.space_text},
        "search": {
            "searcher": search.searcher,
            "cost_model": search.cost_model,
            "whole_program": search.whole,
            "seed": search.seed,
            "samples": data.evaluations,
            "seconds": data.seconds,
            "batches": len(data.summaries),
            "ended": search.ended,
            "notes": list(search.notes),
        },
        "best": candidate_block(data, data.best_index),
        "knee": None if compromise is None else candidate_block(data, compromise),
        "front": [candidate_block(data, index) for index in front_indices(data)],
        "candidates_kept": len(data.candidates),
        "layers": _layer_blocks(data),
        "bounds": [
            {
                "name": bound.name,
                "edp_uj_cycles": bound.edp,
                "ratio": best.cost.edp / bound.edp if bound.edp else None,
                "explanation": bound.explanation,
            }
            for bound in data.bounds
        ],
        "host": _host_block(data),
        "program": {
            "source": best.cost.source if search.whole else "predicted",
            "accelerator_cycles": whole_cycles(data) - host_cycles(data),
            "host_cycles": host_cycles(data),
            "latency_cycles": whole_cycles(data),
        },
        "validation": validation_block(data, cost_block),
        "provenance": data.provenance,
        "command": data.command,
    }


def summary_json(data: ReportData) -> str:
    """`summary.json` as text."""
    return json_text(summary(data))


def summary_text(data: ReportData) -> str:
    """What was found, in one paragraph of plain words."""
    best, accelerator = data.best, data.best.accelerator
    cost, clock = best.cost, best.accelerator.clock_mhz
    front = len(front_indices(data))
    found = "the nearest design found" if data.violations else "the best design found"
    sentences = [
        f"For {data.network_names}, {found} for {objective_words(data)} is a"
        f" {accelerator.dim} × {accelerator.dim} array with {accelerator.scratchpad_kib:,} KiB of scratchpad and"
        f" {accelerator.accumulator_kib:,} KiB of accumulator, {significant(cost.area_mm2)} mm² in all.",
        f"It is {cost.source} to need {si(cost.latency_cycles, 'cycles')}"
        f" ({si(milliseconds(cost.latency_cycles, clock) * 1e-3, 's')} at {significant(clock * 1e-3)} GHz) and"
        f" {si(cost.energy_uj * 1e-6, 'J')}, an energy-delay product of {scientific(cost.edp)} µJ·cycles.",
    ]
    if data.violations:
        broken = ", ".join(
            f"{path} {value:.6g} {UNITS[path.rsplit('.', 1)[-1]]} (bound {bound:.6g})"
            for path, (value, bound) in data.violations[data.best_index].items()
        )
        sentences.insert(
            0,
            f"No design satisfies the constraints; what follows is about the nearest ones found. The nearest breaks {broken}.",
        )
    if accelerator.timing != "baco":
        sentences.append(f"Cycles are {TIMING_WORDS[accelerator.timing]} (--timing {accelerator.timing}).")
    sentences += validation_sentences(data)
    if data.bounds:
        bound = data.bounds[-1]
        if bound.edp > 0:
            sentences.append(
                f"No design can be {cost.source} below {scientific(bound.edp)} µJ·cycles ({bound.name} bound), so this"
                f" one is within a factor of {significant(cost.edp / bound.edp)} of the limit."
            )
    limits = _bottleneck_shares(data)
    where = ", ".join(f"{_RESOURCES[name]} {value:.0%}" for name, value in limits if value >= 0.005)
    predicted = " (predicted)" if data.source == "measured" else ""
    sentences.append(f"Its time is limited by: {where}{predicted}.")
    styles = [layer.style for layer in data.best_layers]
    if None not in styles:
        macros = styles.count("macro")
        packed = styles.count("packed")
        together = f" ({packed} with several groups at once)" if packed else ""
        sentences.append(
            f"Latencies are those of the instruction-aware model; {macros} of {len(styles)} layers run as loop macros"
            f"{', the others' if macros else ', all'} as explicit moves and products{together}."
            if macros < len(styles)
            else f"Latencies are those of the instruction-aware model; all {len(styles)} layers run as loop macros."
        )
    alternatives = front - 1 if best.front else front
    if alternatives > 0 and not data.violations:
        noun = "alternative trades" if alternatives == 1 else "alternatives trade"
        sentences.append(
            f"{alternatives} {noun} {_listing([_METRIC_WORDS[n] for n in data.objective.front_metrics])}"
            " against each other."
        )
    host = _host_totals(data)
    if data.search.whole and cost.latency_cycles:
        sentences.append(
            "These are costs of the whole program, from input to output: operators on the host core are predicted to take"
            f" {si(host[0], 'cycles')} of it ({share(host[0], cost.latency_cycles)})."
        )
    elif data.host and cost.latency_cycles:
        sentences.append(
            f"Operators left to the host core are not included; they are predicted to add"
            f" {si(host[0], 'cycles')} ({share(host[0], cost.latency_cycles)} of the accelerator's time), so that the"
            f" whole program takes {si(cost.latency_cycles + host[0], 'cycles')} where nothing overlaps."
        )
    missing = sum(len(network.unsupported) for network in data.workload.networks)
    if missing:
        noun = "operator" if missing == 1 else "operators"
        sentences.append(f"{missing} {noun} could not be costed and are left out (listed below).")
    sentences.append(
        f"The search ({data.search.searcher}) {data.search.ended} after {data.evaluations:,} evaluations"
        f" in {significant(data.seconds)} s."
    )
    return " ".join(sentences)


_RESOURCES = {
    "compute": "the array",
    "accumulator": "the accumulator",
    "scratchpad": "the scratchpad",
    "dram": "DRAM bandwidth",
    "memory": "the memory channel that loads and stores share",
    "load": "loads",
    "store": "stores",
    "issue": "the issue of commands",
}


def _listing(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _bottleneck_shares(data: ReportData) -> list[tuple[str, float]]:
    """Share of the latency spent in layers limited by each resource, largest first."""
    cycles = dict.fromkeys(_RESOURCES, 0.0)
    for count, layer in zip(data.counts(data.best_index), data.best_layers, strict=True):
        cycles[layer.bottleneck] += count * layer.latency_cycles
    total = sum(cycles.values()) or 1.0
    return sorted(((name, value / total) for name, value in cycles.items()), key=lambda item: -item[1])


def _network_block(data: ReportData, index: int) -> dict[str, Any]:
    network, weight = data.workload.networks[index], data.workload.weights[index]
    latency, energy = network_totals(data, network)
    return {
        "name": network.name,
        "source": network.source,
        "options": dict(network.options),
        "weight": weight,
        "macs": network.macs,
        "weight_words": network.weight_words,
        "tensor_operators": sum(op.repeat for op in network.operators if op.problem),
        "unique_problems": len(network.tasks),
        "host_operators": sum(op.repeat for op in network.host_operators),
        "unsupported": [asdict(item) for item in network.unsupported],
        "cost": {"source": data.source, "latency_cycles": latency, "energy_uj": energy * 1e-6},
    }


def _layer_blocks(data: ReportData) -> list[dict[str, Any]]:
    best = data.best
    texts = data.mapping_texts[data.best_index]
    blocks = []
    counts = data.counts(data.best_index)
    for task, count, mapping, text, layer in zip(
        best.tasks, counts, best.mappings, texts, data.best_layers, strict=True
    ):
        names = ("mac", "registers", "accumulator", "scratchpad", "dram", "static")
        blocks.append(
            {
                "name": task.name,
                **task_block(task),
                "runs_alone": count,
                "mapping": text,
                "buffering": dict(zip("WIO", mapping.buffering, strict=True)),
                "cost": {
                    "source": "predicted",
                    "latency_cycles": layer.latency_cycles,
                    "energy_uj": layer.energy_pj * 1e-6,
                    "macs_executed": layer.macs,
                    "dram_words": layer.accesses[3],
                    "busy_cycles": dict(zip(layer.resources, layer.latency_terms, strict=True)),
                    "energy_pj": dict(zip(names, (*layer.energy_terms_pj, layer.static_pj), strict=True)),
                },
                "bottleneck": layer.bottleneck,
                "style": layer.style,
            }
        )
    return blocks


def task_block(task: Task) -> dict[str, Any]:
    """A task; sizes of its problem that are 1 are left out."""
    return {
        "network": task.network,
        "operators": list(task.operators),
        "count": task.count,
        "problem": problem_to_json(task.problem),
    }


def host_cycles(data: ReportData, network: str | None = None) -> float:
    """Cycles of everything the host does, of one network or of all."""
    return sum(
        one.count * one.latency_cycles
        for one in data.host
        if network in (None, one.network) and not one.on_accelerator
    )


def whole_cycles(data: ReportData) -> float:
    """Cycles of the best design's whole programs, one part after the other."""
    own = data.best.cost.latency_cycles
    return own if data.search.whole else own + host_cycles(data)


def _host_totals(data: ReportData) -> tuple[float, float | None]:
    """Cycles and energy (pJ; None when unknown for some operator) of everything the host does."""
    latency = host_cycles(data)
    if any(item.energy_pj is None for item in data.host):
        return latency, None
    return latency, sum(item.count * (item.energy_pj or 0.0) for item in data.host if not item.on_accelerator)


def _host_block(data: ReportData) -> dict[str, Any]:
    latency, energy = _host_totals(data)
    return {
        "source": "predicted",
        "latency_cycles": latency,
        "energy_uj": None if energy is None else energy * 1e-6,
        "operators": [
            {
                "network": item.network,
                "operator": item.operator,
                "kind": item.kind,
                "count": item.count,
                "latency_cycles": item.latency_cycles,
                "energy_uj": None if item.energy_pj is None else item.energy_pj * 1e-6,
                "on": "accelerator" if item.on_accelerator else "host",
            }
            for item in data.host
        ],
    }


def design_label(candidate: Candidate) -> str:
    """A design in a few words."""
    accelerator = candidate.accelerator
    return (
        f"{accelerator.dim}×{accelerator.dim}, {accelerator.scratchpad_kib} KiB scratchpad,"
        f" {accelerator.accumulator_kib} KiB accumulator"
    )
