"""What was measured: the `validation` part of `summary.json`, and from it the section of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from baco.common.text import html_text
from baco.compiler.schedules.text import layer_text, schedule_text
from baco.exploration.cost.program import ProgramCost
from baco.exploration.measure.compare import comparisons, model_error, prediction_change
from baco.exploration.measure.design import Design, DesignLayer, DesignProgram
from baco.exploration.measure.measurement import Measurement
from baco.exploration.report.agreement import agreement_html, agreement_sentences
from baco.exploration.report.columns import Column, records_table
from baco.exploration.report.data import ReportData, cost_block
from baco.exploration.report.units import UNKNOWN, count, quantity, ratio, scientific, si, significant
from baco.workloads.network import Task

__all__ = ["simulated_on", "stall_breakdown", "validation_block", "validation_html", "validation_sentences"]

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
    numbers = {id(one): index for index, one in data.validated.items()}
    error = model_error(designs)
    found = [asdict(one) | {"text": one.text} for one in comparisons(designs, data.objective)]
    return {
        "designs": [_design(one, numbers.get(id(one))) for one in designs],
        "model_error": error and asdict(error),
        "comparisons": [{key: value for key, value in one.items() if key != "objective"} for one in found],
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
        "schedule": "" if layer.schedule is None else schedule_text(layer.schedule),
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
    block, designs = validation_block(data), data.validated_designs
    if block is None:
        return ""
    records, whole = block["designs"], any(one.programs for one in designs)
    failures = [one for one in records if one["status"] in ("failed", "infeasible")]
    changes = [one["prediction_change"] for one in records if one["prediction_change"]]
    parts = [
        '<section aria-labelledby="h-validation" id="validation">',
        '<h2 id="h-validation">Predicted and measured</h2>',
        f'<p class="hint">{_HINTS[whole].format(machine=simulated_on(designs))}</p>',
        *(
            f'<p class="warn" role="alert"><strong>{one["status"].upper()}</strong> {html_text(one["name"])}:'
            f" {html_text(one['reason'])}</p>"
            for one in failures
        ),
        _listed([one["text"] for one in block["comparisons"]]),
        records_table("Designs chosen to be measured", records, _DESIGNS),
        f'<p class="hint">{html_text(_CHANGES)}</p>{_listed(changes)}' if changes else "",
    ]
    if whole:
        programs = [program | {"design": one["name"]} for one in records for program in one["programs"]]
        parts += [records_table("Whole programs, by part", programs, _PROGRAMS), *agreement_html(designs)]
    for one in records:
        parts += [
            _folded(
                f"Operators of {program['network']} on {one['name']}",
                records_table("Operators, in the order in which they run", program["operators"], _OPERATORS),
            )
            for program in one["programs"]
            if program["operators"]
        ]
        if not one["programs"]:
            table = records_table("Layers, one run of each", one["layers"], _LAYERS)
            parts.append(_folded(f"Layers of {one['name']}", table))
    return "\n".join([*filter(None, parts), "</section>"])


def _listed(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html_text(text)}</li>' for text in texts)}</ul>" if texts else ""


def _folded(title: str, table: str) -> str:
    return f"<details><summary>{html_text(title)}</summary>{table}</details>"


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


def _reached(one: Record, name: str, error: str, shown: Callable[[float], str]) -> str:
    """What was measured of a design, else what is estimated."""
    if one["measured"]:
        return shown(one["measured"][name])
    if not one["estimate"]:
        return UNKNOWN
    guess = one["estimate"]
    off = "?" if guess[error] is None else f"{guess[error]:.0%}"
    return f"≈ {shown(guess['cost'][name])} ± {off}, {guess['measured_share']:.0%} measured"


def _large(value: float) -> str:
    return si(value, "").strip()


def _of(name: str, field: str, shown: Callable[[float], str]) -> Callable[[Record], str]:
    """A figure of one of a record's costs, which may be missing."""
    return lambda one: shown(one[name][field]) if one[name] else UNKNOWN


def _part(name: str, kind: str, field: str) -> Callable[[Record], str]:
    """A figure of one part of a program's cost."""
    shown = count if kind == "cycles" else _joules
    return lambda one: shown(one[name] and one[name][kind][field])


def _busy(name: str) -> Callable[[Record], str]:
    """A share of a layer's time (`stall_breakdown`)."""
    return lambda one: f"{one['busy'][name]:.0%}" if one["busy"] else UNKNOWN


def _joules(uj: float | None) -> str:
    return quantity(uj, "J", 1e-6)


_DESIGNS = (
    Column(
        "Design",
        lambda one: one["name"] + ("" if one["candidate"] is None else f" (#{one['candidate']})"),
        words=True,
    ),
    Column("Array", lambda one: f"{one['dim']} × {one['dim']}", words=True),
    Column(
        "Scratchpad + accumulator, KiB", lambda one: f"{one['scratchpad_kib']:,} + {one['accumulator_kib']:,}"
    ),
    Column("Area, mm²", lambda one: significant(one["area_mm2"])),
    Column(
        "Status",
        lambda one: one["status"] + ("" if one["status"] == "measured" else f": {_STATUS[one['status']]}"),
        words=True,
    ),
    Column("Cycles predicted by the search", _of("searched", "latency_cycles", _large)),
    Column("as compiled", _of("predicted", "latency_cycles", _large)),
    Column("measured", lambda one: _reached(one, "latency_cycles", "latency_error", _large)),
    Column("EDP predicted by the search, µJ·cycles", _of("searched", "edp_uj_cycles", scientific)),
    Column("as compiled", _of("predicted", "edp_uj_cycles", scientific)),
    Column("measured", lambda one: _reached(one, "edp_uj_cycles", "edp_error", scientific)),
    Column(
        "As compiled / measured",
        lambda one: ratio(*(one[name] and one[name]["edp_uj_cycles"] for name in ("predicted", "measured"))),
    ),
)
_PROGRAMS = (
    Column("Design", lambda one: one["design"], words=True),
    Column("Network", lambda one: one["network"], words=True),
    Column("Cycles of the accelerator", _part("measured", "cycles", "accelerator")),
    Column("of the host", _part("measured", "cycles", "host")),
    Column("whole", _part("measured", "cycles", "whole")),
    Column("predicted as compiled", _part("predicted", "cycles", "whole")),
    Column(
        "predicted / measured",
        lambda one: ratio(
            *(one[name] and one[name]["cycles"]["whole"] for name in ("predicted", "measured"))
        ),
    ),
    Column("Energy of the accelerator", _part("measured", "energy_uj", "accelerator")),
    Column("of the host", _part("measured", "energy_uj", "host")),
    Column("whole", _part("measured", "energy_uj", "whole")),
    Column("predicted as compiled", _part("predicted", "energy_uj", "whole")),
)
_OPERATORS = (
    Column("Operator", lambda one: one["operator"], words=True),
    Column("On", lambda one: one["on"], words=True),
    Column("Cycles predicted", lambda one: count(one["predicted_cycles"])),
    Column("Cycles measured", lambda one: count(one["cycles"])),
    Column("Predicted / measured", lambda one: ratio(one["predicted_cycles"], one["cycles"])),
    Column("Carried out as", lambda one: one["what"], words=True),
)
_LAYERS = (
    Column("Layer", lambda one: one["name"], words=True),
    Column("Runs", lambda one: f"{one['count']:g}"),
    Column("Cycles predicted", lambda one: count(one["predicted_cycles"])),
    Column("Cycles measured", lambda one: count(one["measured_cycles"]) if one["busy"] else one["status"]),
    Column("Predicted / measured", lambda one: ratio(one["predicted_cycles"], one["measured_cycles"])),
    Column("Energy predicted", lambda one: _joules(one["predicted_energy_uj"])),
    Column("Energy measured", lambda one: _joules(one["measured_energy_uj"])),
    Column("Array busy", _busy("array")),
    Column("Loads busy", _busy("load")),
    Column("Stores busy", _busy("store")),
    Column("Memory busy", _busy("memory")),
    Column("Waits for host", _busy("waits_for_host")),
    Column("Carried out as", lambda one: one["reason"] or one["schedule"], words=True),
)
