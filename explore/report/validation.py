"""What was measured: the `validation` part of `summary.json`, and the section of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from baco.common.page import html_table
from baco.common.text import html_text
from baco.compiler.schedules.text import layer_text, schedule_text
from baco.exploration.measure.compare import (
    BaselineComparison,
    comparisons,
    model_error,
    prediction_change,
)
from baco.exploration.measure.design import Design, DesignLayer, DesignProgram
from baco.exploration.report.agreement import agreement_html, agreement_sentences
from baco.exploration.report.data import ReportData
from baco.exploration.report.units import scientific, si, significant
from baco.workloads.network import Task

__all__ = ["stall_breakdown", "validation_block", "validation_html", "validation_sentences"]

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


def validation_block(
    data: ReportData, cost_block: Callable[[Any, float], dict[str, Any]]
) -> dict[str, Any] | None:
    """The content of `summary.json` under `validation`; None when nothing was validated.

    `cost_block` is `baco.exploration.report.summary.cost_block`.
    """
    designs = data.validated_designs
    if not designs:
        return None
    numbers = {id(one): index for index, one in data.validated.items()}
    error = model_error(designs)
    return {
        "designs": [_design(one, numbers.get(id(one)), cost_block) for one in designs],
        "model_error": error and asdict(error),
        "comparisons": [_comparison(one) for one in comparisons(designs, data.objective)],
    }


def _comparison(one: BaselineComparison) -> dict[str, Any]:
    values = asdict(one)
    del values["objective"]
    return {**values, "text": one.text}


def _design(
    one: Design, number: int | None, cost_block: Callable[[Any, float], dict[str, Any]]
) -> dict[str, Any]:
    machine, estimate = one.accelerator, one.estimate
    predicted, measured = one.predicted, one.measured
    return {
        "name": one.name,
        "role": one.role,
        "candidate": number,
        "config_hash": machine.config_hash,
        "dim": machine.dim,
        "scratchpad_kib": machine.scratchpad_kib,
        "accumulator_kib": machine.accumulator_kib,
        "status": one.status,
        "reason": one.failure,
        "cost_model": one.cost_model,
        "searched": None if one.prediction is None else cost_block(one.prediction, machine.clock_mhz),
        "predicted": None if predicted is None else cost_block(predicted, machine.clock_mhz),
        "prediction_change": prediction_change(one) or None,
        "measured": None if measured is None else cost_block(measured, machine.clock_mhz),
        "estimate": None
        if estimate is None
        else {
            "cost": cost_block(estimate.cost, machine.clock_mhz),
            "measured_share": estimate.share,
            "latency_error": estimate.latency_error,
            "energy_error": estimate.energy_error,
            "edp_error": estimate.edp_error,
        },
        "programs": [_program(program) for program in one.programs],
        "layers": [] if one.programs else [_layer(*pair) for pair in zip(one.tasks, one.layers, strict=True)],
    }


def _program(program: DesignProgram) -> dict[str, Any]:
    one = program.measured if program.status == "measured" else None
    predicted = program.predicted
    return {
        "network": program.network,
        "weight": program.weight,
        "status": program.status,
        "reason": program.failure,
        "predicted": None
        if predicted is None
        else _parts(predicted.cycles, predicted.host_cycles, predicted.energy_pj, predicted.host_pj),
        "measured": None if one is None else _parts(one.cycles, one.host_cycles, one.energy_pj, one.host_pj),
        "agreement": None if one is None or one.agreement is None else one.agreement.to_dict(),
        "operators": [asdict(operator) for operator in (one.operators if one else ())],
    }


def _parts(cycles: float, host_cycles: float, energy_pj: float, host_pj: float) -> dict[str, Any]:
    """One run: the accelerator's part, the host's, the whole."""
    return {
        "cycles": {"accelerator": cycles - host_cycles, "host": host_cycles, "whole": cycles},
        "energy_uj": {
            "accelerator": (energy_pj - host_pj) * 1e-6,
            "host": host_pj * 1e-6,
            "whole": energy_pj * 1e-6,
        },
    }


def _layer(task: Task, layer: DesignLayer) -> dict[str, Any]:
    one = layer.measured if layer.status == "measured" else None
    energy = layer.predicted_energy_pj
    return {
        "name": task.name,
        "count": task.count,
        "status": layer.status,
        "reason": layer.failure,
        "layer": layer_text(layer.layer),
        "schedule": _how(layer),
        "predicted_cycles": layer.predicted_cycles,
        "measured_cycles": None if one is None else one.cycles,
        "predicted_energy_uj": None if energy is None else energy * 1e-6,
        "measured_energy_uj": None if one is None else one.energy_pj * 1e-6,
        "measured_energy_pj": None if one is None else dict(one.energy_terms_pj),
        "busy": stall_breakdown(layer),
    }


def _how(layer: DesignLayer) -> str:
    return "" if layer.schedule is None else schedule_text(layer.schedule)


def validation_sentences(data: ReportData) -> list[str]:
    """What the opening paragraph says of the validation; failures first."""
    designs = data.validated_designs
    if not designs:
        return []
    count = {status: sum(one.status == status for one in designs) for status in _STATUS}
    found = []
    for status, words in (
        ("failed", "FAILED: their programs gave wrong results, which is a mistake in baco"),
        ("infeasible", "cannot be compiled or built"),
    ):
        if count[status]:
            names = ", ".join(one.name for one in designs if one.status == status)
            found.append(f"{count[status]} of {len(designs)} designs validated {words} ({names}).")
    if count["measured"]:
        found.append(
            f"{count['measured']} of {len(designs)} designs validated were measured: {_WHAT[any(one.programs for one in designs)]}"
            f" compiled, simulated on {simulated_on(designs)}, and every element that it computes right."
        )
    if count["sampled"]:
        found.append(
            f"Of {count['sampled']} designs only some layers were measured; their costs are estimates with error bars."
        )
    found += agreement_sentences(designs)
    error = model_error(designs)
    if error:
        found.append(
            f"Predicted cycles of the {error.count} {error.what} measured are off by {error.mean_absolute:.1%} on average"
            f" (bias {error.bias:+.1%})."
        )
    found += [f"{one.text[0].upper()}{one.text[1:]}." for one in comparisons(designs, data.objective)]
    return found


#: What is measured of a design, by whether it is whole programs.
SIMULATED_ON = {"baco": "the Verilog of its accelerator", "gemmini": "a model of the original Gemmini"}
_WHAT = {False: "every layer", True: "the whole program"}
_STATUS = {
    "measured": "every element was right",
    "sampled": "only some layers were measured so far",
    "failed": "an output was wrong or a simulation went wrong: a mistake in baco",
    "infeasible": "it cannot be compiled or built",
    "pending": "nothing was measured yet",
}


def validation_html(data: ReportData) -> str:
    """The section of the page, all of it escaped; empty when nothing was validated."""
    designs = data.validated_designs
    if not designs:
        return ""
    numbers = {id(one): index for index, one in data.validated.items()}
    failures = [one for one in designs if one.status in ("failed", "infeasible")]
    parts = [
        '<section aria-labelledby="h-validation" id="validation">',
        '<h2 id="h-validation">Predicted and measured</h2>',
        f'<p class="hint">{_HINTS[any(one.programs for one in designs)].format(machine=simulated_on(designs))}</p>',
    ]
    parts += [
        f'<p class="warn" role="alert"><strong>{one.status.upper()}</strong> {_text(one.name)}:'
        f" {_text(one.failure)}</p>"
        for one in failures
    ]
    found = comparisons(designs, data.objective)
    if found:
        parts.append("<ul>" + "".join(f"<li>{_text(one.text)}</li>" for one in found) + "</ul>")
    parts.append(_designs_table(designs, numbers))
    changes = [text for one in designs if (text := prediction_change(one))]
    if changes:
        parts.append(f'<p class="hint">{_text(_CHANGES)}</p>')
        parts.append("<ul>" + "".join(f"<li>{_text(text)}</li>" for text in changes) + "</ul>")
    if any(one.programs for one in designs):
        parts += [_programs_table(designs), *agreement_html(designs)]
    parts += [_operators_tables(one) if one.programs else _layers_table(one) for one in designs]
    return "\n".join([*parts, "</section>"])


def simulated_on(designs: Sequence[Design]) -> str:
    """What measured them: our Verilog, or what stands in for the original Gemmini."""
    machines = [one.accelerator for one in designs]
    return SIMULATED_ON["gemmini" if any(one.timing == "gemmini" for one in machines) else "baco"]


_HINTS = {
    False: "Measured: every unique layer of the network was compiled for the design, simulated whole on {machine},"
    " and every element of its output compared with integers; cycles from the first command to the last work,"
    " energy from what was counted, all layers times their counts.",
    True: "Measured: the network was compiled for the design to one program, with the mappings of the search where they are"
    " best, and simulated from input to output on {machine} and a host core; every element that any"
    " operator wrote was compared with integers. Cycles from reset to the end, energy from what was counted.",
}


_CHANGES = (
    "Two predictions: the search predicts layers one by one under its mappings, with groups chosen before it began; once a program is"
    " compiled, every layer has what rides on it, takes the better of its mapping and the compiler's own schedules, and groups are"
    " chosen anew."
)


def _programs_table(designs: Sequence[Design]) -> str:
    """Accelerator, host and whole of every program."""
    heads = (
        *("Design", "Network"),
        *(
            "Cycles of the accelerator",
            "of the host",
            "whole",
            "predicted as compiled",
            "predicted / measured",
        ),
        *("Energy of the accelerator", "of the host", "whole", "predicted as compiled"),
    )
    rows = []
    for one in designs:
        for program in one.programs:
            found, guess = (
                program.measured if program.status == "measured" else None,
                program.predicted,
            )
            cycles, energy = ["–"] * 3, ["–"] * 3
            if found:
                parts = (found.cycles - found.host_cycles, found.host_cycles, found.cycles)
                cycles = [f"{value:,}" for value in parts]
                joules = (found.energy_pj - found.host_pj, found.host_pj, found.energy_pj)
                energy = [si(value * 1e-12, "J") for value in joules]
            rows.append(
                (
                    one.name,
                    program.network,
                    *cycles,
                    f"{guess.cycles:,.0f}" if guess else "–",
                    "–" if program.ratio is None else significant(program.ratio),
                    *energy,
                    si(guess.energy_pj * 1e-12, "J") if guess else "–",
                )
            )
    return html_table(heads, rows, numeric=range(2, 11), caption="Whole programs, by part")


def _operators_tables(one: Design) -> str:
    heads = (
        "Operator",
        "On",
        "Cycles predicted",
        "Cycles measured",
        "Predicted / measured",
        "Carried out as",
    )
    found = []
    for program in one.programs:
        if program.measured is None or not program.measured.operators:
            continue
        rows = [
            (
                operator.operator,
                operator.on,
                f"{operator.predicted_cycles:,.0f}",
                f"{operator.cycles:,}",
                significant(operator.predicted_cycles / operator.cycles) if operator.cycles else "–",
                operator.what,
            )
            for operator in program.measured.operators
        ]
        title = f"Operators of {_text(program.network)} on {_text(one.name)}"
        table = html_table(
            heads, rows, numeric=range(2, 5), caption="Operators, in the order in which they run"
        )
        found.append(f"<details><summary>{title}</summary>{table}</details>")
    return "\n".join(found)


def _designs_table(designs: Sequence[Design], numbers: dict[int, int]) -> str:
    heads = (
        *("Design", "Array", "Scratchpad + accumulator, KiB", "Area, mm²", "Status"),
        *(
            "Cycles predicted by the search",
            "as compiled",
            "measured",
            "EDP predicted by the search, µJ·cycles",
            "as compiled",
            "measured",
            "As compiled / measured",
        ),
    )
    rows = []
    for one in designs:
        machine, guess, cost, estimate = one.accelerator, one.predicted, one.measured, one.estimate
        first = one.prediction
        number = numbers.get(id(one))
        name = one.name + ("" if number is None else f" (#{number})")
        cycles, edp, ratio = "–", "–", "–"
        if cost:
            cycles, edp = si(cost.latency_cycles, "").strip(), scientific(cost.edp)
            ratio = significant(guess.edp / cost.edp) if guess else "–"
        elif estimate:
            share = f", {estimate.share:.0%} measured"
            cycles = (
                f"≈ {si(estimate.cost.latency_cycles, '').strip()}{_within(estimate.latency_error)}{share}"
            )
            edp = f"≈ {scientific(estimate.cost.edp)}{_within(estimate.edp_error)}{share}"
        rows.append(
            (
                name,
                f"{machine.dim} × {machine.dim}",
                f"{machine.scratchpad_kib:,} + {machine.accumulator_kib:,}",
                significant(machine.area_mm2),
                f"{one.status}: {_STATUS[one.status]}" if one.status != "measured" else "measured",
                si(first.latency_cycles, "").strip() if first else "–",
                si(guess.latency_cycles, "").strip() if guess else "–",
                cycles,
                scientific(first.edp) if first else "–",
                scientific(guess.edp) if guess else "–",
                edp,
                ratio,
            )
        )
    return html_table(heads, rows, numeric=range(2, 12), caption="Designs chosen to be measured")


def _within(error: float | None) -> str:
    return " ± ?" if error is None else f" ± {error:.0%}"


def _layers_table(one: Design) -> str:
    heads = (
        *("Layer", "Runs", "Cycles predicted", "Cycles measured", "Predicted / measured"),
        *("Energy predicted", "Energy measured"),
        *("Array busy", "Loads busy", "Stores busy", "Memory busy", "Waits for host", "Carried out as"),
    )
    rows = []
    for task, layer in zip(one.tasks, one.layers, strict=True):
        measured = layer.measured if layer.status == "measured" else None
        busy = stall_breakdown(layer) or {}
        guess, energy = layer.predicted_cycles, layer.predicted_energy_pj
        rows.append(
            (
                task.name,
                f"{task.count:g}",
                "–" if guess is None else f"{guess:,.0f}",
                f"{measured.cycles:,}" if measured else layer.status,
                "–" if layer.ratio is None else significant(layer.ratio),
                "–" if energy is None else si(energy * 1e-12, "J"),
                si(measured.energy_pj * 1e-12, "J") if measured else "–",
                *(
                    f"{busy[name]:.0%}" if busy else "–"
                    for name in ("array", "load", "store", "memory", "waits_for_host")
                ),
                layer.failure or _how(layer),
            )
        )
    table = html_table(heads, rows, numeric=range(1, 12), caption="Layers, one run of each")
    return f"<details><summary>Layers of {_text(one.name)}</summary>{table}</details>"


def _text(text: str) -> str:
    return html_text(text)
