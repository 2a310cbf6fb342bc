"""Cycles and energy that every step of a network's program will take, without running it.

* Groups that run as one unit: `baco.compiler.styles.fused.predict` and `predict_strips`.
* Layers: the latency that schedules are chosen by; where none is chosen, products by their bytes and passes.
* Additions, poolings, functions of rows and embeddings on the accelerator: the bytes they move through main memory, or the
  commands that the host core writes for them, or the passes of stores over whole rows, if that takes longer.
* The host's functions: `baco.compiler.ops.host_model`.
* Every step: its call, and what a fence before the next one waits for at the end.

A step that the next one does not wait for is predicted as if it were waited for, what overlaps there is little; but where the host
works beside a step that was begun for that, the longer of the two counts.
"""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.host_core import LINE_BYTES, miss_cycles
from baco.compiler.latency import predict_layers
from baco.compiler.network.groups import Group, GroupCode, predict_group
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.steps import Step, StepCost, ValueAddress
from baco.compiler.ops.host_model import host_cycles
from baco.compiler.ops.host_work import HostWork
from baco.compiler.styles.fused.chain import ProductChain
from baco.compiler.styles.fused.merged import MergedProducts
from baco.compiler.styles.fused.predict import UnitCost

#: Cycles that the scale of a column takes: the host core loads two at once and sends them.
_SCALES = 2.0
#: Cycles of the host core for the commands of a part that it works beside.
_GIVEN = 300.0
#: Instructions of the host's functions in a cycle without cache misses: 0.92 to 1.00 of embedding, normalisation, softmax,
#: tables and averages, measured.
_PER_CYCLE = 0.95


def predict_steps(lowered: LoweredNetwork, accelerator: Accelerator) -> list[StepCost]:
    """Predicted cost of every step of a network's program, in order."""
    layers = lowered.layers
    codes = list(layers.values())
    found = predict_layers([code.layer for code in codes], [code.schedule for code in codes], accelerator)
    cycles = {name: latency.cycles.item() for name, latency in zip(layers, found, strict=True)}
    table = PROFILES[accelerator.timing].table
    scales = {
        name: _SCALES * accelerator.dim if layer.output and layer.output.by_column else 0.0
        for name, layer in layers.items()
    }
    return _beside(
        lowered,
        [
            StepCost(
                cycles[step.function]
                + (table if layers[step.function].table else 0.0)
                + scales[step.function]
            )
            if step.function in layers
            else predict_step(lowered, step, accelerator)
            for step in lowered.steps
        ],
    )


def _beside(lowered: LoweredNetwork, costs: list[StepCost]) -> list[StepCost]:
    """The same where the host works beside the accelerator: what is left of a step when its commands are given counts for the
    steps of the host behind it, as far as these do not take as long."""
    for number, step in enumerate(lowered.steps):
        if not step.waits:
            continue
        given = min(_GIVEN, costs[number].cycles)
        left = costs[number].cycles - given
        costs[number] = costs[number]._replace(cycles=given)
        last = number
        while last + 1 < len(costs) and not lowered.steps[last + 1].accelerator:
            last += 1
            left -= costs[last].cycles
        costs[last] = costs[last]._replace(cycles=costs[last].cycles + max(0.0, left))
    return costs


def predict_step(lowered: LoweredNetwork, step: Step, accelerator: Accelerator) -> StepCost:
    """Predicted cost of a step that is no layer."""
    if step.function in lowered.groups:
        return group_cost(lowered.groups[step.function], accelerator)
    if step.function in lowered.codes:
        return lowered.codes[step.function].cost(accelerator)
    return _host(lowered, step, accelerator)


def host_energy_pj(instructions: float, lines: float, accelerator: Accelerator) -> float:
    """Energy of the host core: its instructions, and cache lines that it brings from main memory."""
    table = accelerator.energy
    return instructions * table.instruction_pj + lines * LINE_BYTES * table.dram_pj


def group_cost(code: GroupCode, accelerator: Accelerator) -> StepCost:
    """Operators that run as one unit, as their schedule says."""
    return unit_cost(code.group, predict_group(code, accelerator), accelerator)


def unit_cost(group: Group, found: UnitCost, accelerator: Accelerator) -> StepCost:
    """Operators that run as one unit of a predicted cost."""
    table = accelerator.energy_law
    fixed = table.array_pj(found.macs, found.stationary_words, float(accelerator.dim))
    moved = found.read_bytes + found.written_bytes
    fixed += moved * table.dram_pj
    fixed += found.softmax_elements * table.function_pj("softmax")
    table_loaded = (isinstance(group, ProductChain) and group.softmax) or (
        isinstance(group, MergedProducts) and any(group.tables)
    )
    cycles = found.cycles + PROFILES[accelerator.timing].table * table_loaded
    return StepCost(cycles, fixed, found.accumulator_words, found.scratchpad_bytes, moved)


def _host(lowered: LoweredNetwork, step: Step, accelerator: Accelerator) -> StepCost:
    assert step.work is not None, (
        "steps that no code of the accelerator has are calls of the host's functions"
    )
    return host_cost(step.work, host_misses(lowered, step), accelerator)


def host_misses(lowered: LoweredNetwork, step: Step) -> float:
    """Cache lines that a call of one of the host's functions brings from memory; 0 of other steps."""
    places = [
        (lowered.in_place.get(one.value, one.value), one.offset) if isinstance(one, ValueAddress) else None
        for one in step.arguments[1:]
    ]
    return 0.0 if step.work is None else step.work.misses(places)


def host_cost(work: HostWork, misses: float, accelerator: Accelerator) -> StepCost:
    """Predicted cost of a call of one of the host's functions, by which so many cache lines come from memory."""
    cycles = host_cycles(work, misses, accelerator.timing)
    instructions = _PER_CYCLE * (cycles - miss_cycles(accelerator.timing) * misses)
    return StepCost(cycles, host_energy_pj(instructions, misses, accelerator))
