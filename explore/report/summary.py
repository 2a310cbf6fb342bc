"""`summary.json` and the paragraph that opens a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from baco.accel.technology import PUBLISHED, technology
from baco.common.text import json_text
from baco.exploration._json import to_json
from baco.exploration.breakdown import CostEntry
from baco.exploration.candidate import Candidate
from baco.exploration.objective import metric_label
from baco.exploration.report.bottlenecks import Bottleneck, bottlenecks, limit_of
from baco.exploration.report.data import ReportData, cost_block
from baco.exploration.report.notable import front_indices, knee_index, tied_indices
from baco.exploration.report.resources import RESOURCES
from baco.exploration.report.units import milliseconds, scientific, share, si, significant
from baco.exploration.report.validation import validation_block, validation_sentences
from baco.exploration.report.why import explanation
from baco.exploration.report.why_block import explanation_block
from baco.exploration.serialize import problem_to_json
from baco.exploration.space.constraints import UNITS
from baco.exploration.space.points import units_of
from baco.workloads.network import Network, Task

#: Raised when the meaning of a field changes; fields may be added without.
FORMAT_VERSION = 1
#: JSON Schema of `summary.json`, with a description of every field.
SCHEMA_PATH = Path(__file__).with_name("summary.schema.json")

#: Whose cycles a report is of, by `Accelerator.timing`.
TIMING_WORDS = {
    "baco": "those of the generated Verilog",
    "gemmini": "those of a model of the original Gemmini in a Rocket system",
}


def objective_words(data: ReportData) -> str:
    """The objective in full words."""
    return " and ".join(metric_label(name) for name in data.objective.metrics)


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


def network_totals(data: ReportData, network: Network) -> tuple[float, float]:
    """Latency (cycles) and energy (pJ) of one network on the best candidate, weight included: measured if it was."""
    return data.best_costs.totals(network.name)


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
        "technology": {"name": best.accelerator.technology}
        | technology(best.accelerator.technology).evidence,
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
        "known_errors": to_json(data.errors),
        "ties": tied_indices(data),
        "explanation": explanation_block(explanation(data)),
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
        "program": program_block(data),
        "parts": [_part_block(data, part) for part in _shown_parts(data)],
        "bottlenecks": [
            {
                "name": bottleneck.name,
                "parts": bottleneck.entries,
                "latency_cycles": bottleneck.cycles,
                "doubled_latency_cycles": bottleneck.doubled_cycles,
            }
            for bottleneck in best_bottlenecks(data)
        ],
        "energy": _energy_block(data),
        "area_mm2": best.accelerator.area_blocks(),
        "host": _host_block(data),
        "accuracy": data.accuracy.to_json(),
        "validation": validation_block(data),
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
        f" ({si(milliseconds(cost.latency_cycles, clock) * 1e-3, 's')} at {si(clock * 1e6, 'Hz')}) and"
        f" {si(cost.energy_uj * 1e-6, 'J')}, an energy-delay product of {scientific(cost.edp)} {cost.edp_unit} ({si(cost.edp_js(clock), 'J·s')}).",
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
    if accelerator.technology != PUBLISHED:
        silicon = technology(accelerator.technology)
        told, beyond = silicon.evidence, silicon.beyond(accelerator.dim)
        sentences.append(
            f"In the technology {accelerator.technology}, areas are {told['area']}, the clock is {told['clock']}, and energies are"
            f" {told['energy']}{'; ' if beyond else ''}{beyond}."
        )
    sentences += _error_sentences(data)
    sentences += data.accuracy.sentences()
    sentences += validation_sentences(data)
    if data.bounds:
        bound = data.bounds[-1]
        if bound.edp > 0:
            sentences.append(
                f"No design can be {cost.source} below {scientific(bound.edp)} {cost.edp_unit} ({bound.name} bound), so this"
                f" one is within a factor of {significant(cost.edp / bound.edp)} of the limit."
            )
    sentences += _time_sentences(data)
    sentences += _style_sentences([layer.style for layer in data.best_layers])
    alternatives = front - 1 if best.front else front
    if alternatives > 0 and not data.violations:
        noun = "alternative trades" if alternatives == 1 else "alternatives trade"
        sentences.append(
            f"{alternatives} {noun} {_listing([metric_label(n) for n in data.objective.front_metrics])}"
            " against each other."
        )
    program = program_block(data)
    host, whole = program["host_cycles"], program["latency_cycles"]
    if data.best_costs.complete and whole:
        sentences.append(
            "These are costs of the whole program, from input to output: the host core by itself is"
            f" {program['host_source']} to take {si(host, 'cycles')} of it ({share(host, whole)})."
        )
    elif host and cost.latency_cycles:
        sentences.append(
            f"Operators left to the host core are not included; they are predicted to add"
            f" {si(host, 'cycles')} ({share(host, cost.latency_cycles)} of the accelerator's time), so that the"
            f" whole program takes {si(whole, 'cycles')} where nothing overlaps."
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


def _style_sentences(styles: Sequence[str | None]) -> list[str]:
    """How layers are carried out, where that is known."""
    if None in styles:
        return []
    model, macros, packed = (
        "Latencies are those of the instruction-aware model",
        *map(styles.count, ("macro", "packed")),
    )
    if macros == len(styles):
        return [f"{model}; all {len(styles)} layers run as loop macros."]
    together = f" ({packed} with several groups at once)" if packed else ""
    return [
        f"{model}; {macros} of {len(styles)} layers run as loop macros"
        f"{', the others' if macros else ', all'} as explicit moves and products{together}."
    ]


def _listing(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _time_sentences(data: ReportData) -> list[str]:
    """Where the time goes, most of it first, and what would help."""
    costs, found = data.best_costs, best_bottlenecks(data)
    whole = costs.cycles or 1.0
    times = {bottleneck.name: bottleneck.cycles for bottleneck in found}
    how = " (predicted)" if data.source == "measured" else ""
    if costs.measured is not None and costs.measured_terms_pj:
        times, how = {}, " (measured)"
        for entry in costs.measured_entries:
            if entry.measured is not None:
                times[limit_of(entry)] = times.get(limit_of(entry), 0.0) + entry.measured.cycles
    total = math.fsum(times.values()) or 1.0
    shares = sorted(((value / total, name) for name, value in times.items()), key=lambda pair: -pair[0])
    where = ", ".join(f"{RESOURCES[name].limited} {value:.0%}" for value, name in shares if value >= 0.005)
    sentences = [f"Its time{how} goes to: {where}."]
    gains = [
        (whole / bottleneck.doubled_cycles, bottleneck.name)
        for bottleneck in found
        if bottleneck.doubled_cycles
    ]
    # loads and stores share the memory port
    helps = [
        *dict.fromkeys(f"{RESOURCES[name].twice} {gain:.2f} times" for gain, name in gains if gain >= 1.01)
    ][:3]
    if helps:
        sentences.append(f"All else as it is, the whole program would be faster with {_listing(helps)}.")
    return sentences


def _error_sentences(data: ReportData) -> list[str]:
    """How far predictions are off, and what can therefore not be told apart."""
    latency, energy, ties = data.errors["latency"], data.errors["energy"], tied_indices(data)
    found = []
    if data.source == "predicted":
        found.append(
            f"Predicted cycles are off by {share(latency.mean, 1)} in the mean ({latency.subject}), predicted energy by"
            f" {share(energy.mean, 1)}."
        )
    if ties:
        named = ", ".join(f"#{index}" for index in ties[:3]) + (", …" if len(ties) > 3 else "")
        noun = "accelerator is a tie" if len(ties) == 1 else "accelerators are ties"
        found.append(f"{len(ties)} other {noun}: within the error of predictions of the best ({named}).")
    return found


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
    for task, entry, mapping, text, layer in zip(
        best.tasks, data.best_costs.layers, best.mappings, texts, data.best_layers, strict=True
    ):
        names = ("mac", "registers", "accumulator", "scratchpad", "dram", "static")
        blocks.append(
            {
                "name": task.name,
                **task_block(task),
                "runs_alone": entry.runs,
                "groups": list(entry.groups),
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


def program_block(data: ReportData) -> dict[str, Any]:
    """The workload as a whole program on the best design: accelerator and host one after the other."""
    costs, source = data.best_costs, data.source
    host, own = costs.host_cycles(), data.best.cost.latency_cycles
    whole = own if costs.complete else own + host
    # layers alone were measured: what the host does is as predicted
    measured = source == "measured" and bool(costs.measured_terms_pj)
    return {
        "source": source if costs.complete else "predicted",
        "host_source": "measured" if measured else "predicted",
        "accelerator_cycles": whole - host,
        "host_cycles": host,
        "latency_cycles": whole,
    }


def best_bottlenecks(data: ReportData) -> list[Bottleneck]:
    """Of the best design."""
    return bottlenecks(data.best_costs, data.details.get(data.best_index))


def _shown_parts(data: ReportData) -> list[CostEntry]:
    """What the predicted or the measured program of the best design consists of."""
    costs = data.best_costs
    counted = set(map(id, (*costs.entries, *costs.measured_entries)))
    return [one for one in (*costs.layers, *costs.beside) if id(one) in counted]


def _part_block(data: ReportData, one: CostEntry) -> dict[str, Any]:
    measured, (cycles, energy) = one.measured, (one.total_cycles, one.total_pj)
    known = None
    if measured is not None:
        pj = measured.energy_pj
        known = {
            "source": "predicted" if measured.assumed else "measured",
            "runs": measured.runs,
            "latency_cycles": measured.cycles,
            "energy_uj": None if pj is None else pj * 1e-6,
        }
    return {
        "network": one.network,
        "name": one.name,
        "kind": one.kind,
        "function": one.function,
        "on": one.on,
        "operators": list(one.operators),
        "limit": limit_of(one),
        "predicted": {"runs": one.runs, "latency_cycles": cycles, "energy_uj": energy * 1e-6},
        "measured": known,
    }


def _energy_block(data: ReportData) -> dict[str, Any]:
    """Energy of the best design by component, in µJ."""
    costs = data.best_costs
    measured = {name: value * 1e-6 for name, value in costs.measured_terms_pj.items()}
    return {
        "predicted_uj": {name: value * 1e-6 for name, value in costs.energy_terms_pj.items()},
        "measured_uj": measured or None,
    }


def _host_block(data: ReportData) -> dict[str, Any]:
    beside = [entry for entry in data.best_costs.beside if entry.runs > 0]
    energy = math.fsum(entry.total_pj for entry in beside if entry.on == "host")
    return {
        "source": "predicted",
        "latency_cycles": math.fsum(entry.total_cycles for entry in beside if entry.on == "host"),
        "energy_uj": energy * 1e-6,
        "operators": [
            {
                "network": entry.network,
                "operator": entry.name,
                "kind": entry.function,
                "count": entry.runs,
                "latency_cycles": entry.cycles,
                "energy_uj": entry.energy_pj * 1e-6,
                "on": entry.on,
            }
            for entry in beside
        ],
    }


def design_label(candidate: Candidate) -> str:
    """A design in a few words."""
    accelerator = candidate.accelerator
    return (
        f"{accelerator.dim}×{accelerator.dim}, {accelerator.scratchpad_kib} KiB scratchpad,"
        f" {accelerator.accumulator_kib} KiB accumulator"
    )
