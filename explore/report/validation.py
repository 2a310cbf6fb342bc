"""What was measured: the `validation` part of `summary.json`, and sentences about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from baco.compiler.layers.text import layer_text
from baco.exploration.cost.program import ProgramCost
from baco.exploration.measure.compare import comparisons, energy_error, model_error, prediction_change
from baco.exploration.measure.measured_design import Design, DesignLayer, DesignProgram, DesignStatus
from baco.exploration.measure.measurement import Measurement
from baco.exploration.report.agreement import agreement_sentences
from baco.exploration.report.data import ReportData, cost_block
from baco.sim.energy import energy_source
from baco.workloads.network import Task

Record = dict[str, Any]

#: Parts of the time from the first command to the last work, by counter: they overlap.
_BUSY = {
    "array": "accelerator_mesh_cycles",
    "load": "accelerator_load_busy_cycles",
    "store": "accelerator_store_busy_cycles",
    "memory": "memory_channel_busy_cycles",
}


def stall_breakdown(layer: DesignLayer) -> dict[str, float] | None:
    """Shares of the measured cycles in which the array multiplies, the load and the store unit work, main memory moves
    data, and the accelerator waits for the host's next command; None for what was not measured. All but the last may
    overlap."""
    one = layer.measured
    if one is None or one.status != "measured":
        return None
    shares = {name: min(1.0, one.counters.get(key, 0) / one.cycles) for name, key in _BUSY.items()}
    idle = max(0, one.cycles - one.counters.get("accelerator_busy_cycles", one.cycles))
    return {**shares, "waits_for_host": idle / one.cycles}


def validation_block(data: ReportData) -> Record | None:
    """The content of `summary.json` under `validation`; None when nothing was validated."""
    designs = data.validated_designs
    if not designs:
        return None
    numbers = {id(design): index for index, design in data.validated.items()}
    error, of_energy = model_error(designs), energy_error(designs)
    found = [
        asdict(comparison) | {"text": comparison.text} for comparison in comparisons(designs, data.objective)
    ]
    return {
        "designs": [_design(design, numbers.get(id(design))) for design in designs],
        "model_error": error and asdict(error),
        "energy_error": of_energy and asdict(of_energy),
        "energy_source": energy_sources(designs),
        "comparisons": [
            {key: value for key, value in comparison.items() if key != "objective"} for comparison in found
        ],
    }


def _design(one: Design, number: int | None) -> Record:
    machine, estimate = one.accelerator, one.estimate
    costs = {"searched": one.prediction, "predicted": one.predicted, "measured": one.measured}
    return {
        "name": one.name,
        "role": one.role,
        "candidate": number,
        "config_hash": machine.config_hash,
        **{name: getattr(machine, name) for name in ("dim", "scratchpad_kib", "accumulator_kib", "area_mm2")},
        "status": one.status,
        "reason": one.failure,
        "cost_model": one.cost_model,
        **{name: cost and cost_block(cost, machine.clock_mhz) for name, cost in costs.items()},
        "prediction_change": prediction_change(one) or None,
        "estimate": estimate
        and {
            "cost": cost_block(estimate.cost, machine.clock_mhz),
            "measured_share": estimate.share,
            "latency_error": estimate.latency_error,
            "energy_error": estimate.energy_error,
            "edp_error": estimate.edp_error,
        },
        "programs": [_program(program) for program in one.programs],
        "layers": [] if one.programs else [_layer(*pair) for pair in zip(one.tasks, one.layers, strict=True)],
    }


def _program(program: DesignProgram) -> Record:
    one = program.measured if program.status == "measured" else None
    return {
        "network": program.network,
        "weight": program.weight,
        "status": program.status,
        "reason": program.failure,
        "predicted": program.predicted and _parts(program.predicted),
        "measured": one and _parts(one),
        "agreement": one and one.agreement and one.agreement.to_dict(),
        "operators": [asdict(operator) for operator in (one.operators if one else ())],
    }


def _parts(run: Measurement | ProgramCost) -> Record:
    """One run: the accelerator's part, the host's, the whole."""
    cycles, host, uj, host_uj = run.cycles, run.host_cycles, run.energy_pj * 1e-6, run.host_pj * 1e-6
    return {
        "cycles": {"accelerator": cycles - host, "host": host, "whole": cycles},
        "energy_uj": {"accelerator": (run.energy_pj - run.host_pj) * 1e-6, "host": host_uj, "whole": uj},
    }


def _layer(task: Task, layer: DesignLayer) -> Record:
    one = layer.measured if layer.status == "measured" else None
    energy = layer.predicted_energy_pj
    return {
        "name": task.name,
        "count": task.count,
        "status": layer.status,
        "reason": layer.failure,
        "layer": layer_text(layer.layer),
        "schedule": "" if layer.schedule is None else layer.schedule.text,
        "predicted_cycles": layer.predicted_cycles,
        "measured_cycles": one and one.cycles,
        "predicted_energy_uj": None if energy is None else energy * 1e-6,
        "measured_energy_uj": one and one.energy_pj * 1e-6,
        "measured_energy_pj": one and dict(one.energy_terms_pj),
        "busy": stall_breakdown(layer),
    }


def validation_sentences(data: ReportData) -> list[str]:
    """What the opening paragraph says of the validation; failures first."""
    designs = data.validated_designs
    if not designs:
        return []
    count = Counter(design.status for design in designs)
    sentences = []
    bad: tuple[tuple[DesignStatus, str], ...] = (
        ("failed", "FAILED: their programs gave wrong results, which is a mistake in baco"),
        ("infeasible", "cannot be compiled or built"),
    )
    for status, words in bad:
        if count[status]:
            names = ", ".join(design.name for design in designs if design.status == status)
            sentences.append(f"{count[status]} of {len(designs)} designs validated {words} ({names}).")
    if count["measured"]:
        sentences.append(
            f"{count['measured']} of {len(designs)} designs validated were measured: {_WHAT[any(design.programs for design in designs)]}"
            f" compiled, simulated on {simulated_on(designs)}, and every element that it computes right."
        )
    if count["sampled"]:
        sentences.append(
            f"Of {count['sampled']} designs only some layers were measured; their costs are estimates with error bars."
        )
    sentences += agreement_sentences(designs)
    error = model_error(designs)
    if error:
        sentences.append(
            f"Predicted cycles of the {error.count} {error.what} measured are off by {error.mean_absolute:.1%} on average"
            f" (bias {error.bias:+.1%})."
        )
    error = energy_error(designs)
    if error:
        sentences.append(
            f"Predicted energies are off by {error.mean_absolute:.1%} on average (bias {error.bias:+.1%})."
        )
    sentences += [
        f"{comparison.text[0].upper()}{comparison.text[1:]}."
        for comparison in comparisons(designs, data.objective)
    ]
    return sentences


def energy_sources(designs: Sequence[Design]) -> str:
    """Where measured and predicted energies come from."""
    return " ".join(dict.fromkeys(energy_source(one.accelerator) for one in designs))


#: What is measured of a design, by whether it is whole programs.
SIMULATED_ON = {"baco": "the Verilog of its accelerator", "gemmini": "a model of the original Gemmini"}
_WHAT = {False: "every layer", True: "the whole program"}


def simulated_on(designs: Sequence[Design]) -> str:
    """What measured them: our Verilog, or what stands in for the original Gemmini."""
    machines = [design.accelerator for design in designs]
    return SIMULATED_ON["gemmini" if any(machine.timing == "gemmini" for machine in machines) else "baco"]
