"""Which matching a contraction is carried out by: the least predicted cycles, copies included.

Matchings are looked at in the order of what the array needs for them at least, until that is more than the best one's
predicted cycles. That order is AMOS's performance model (ISCA 2022, section 5.3): on level 0 so many instructions as
a matching takes, one behind the other; on level 1, for every outer iteration, the larger one of that and of what its
operands take from main memory and back. Predictions are those of whole programs (`baco.compiler.network.prediction`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.abstraction.intrinsic import gemmini
from baco.compiler.abstraction.matching import Matching, matching_of, matchings
from baco.compiler.layers.layer import Layer
from baco.compiler.network.contraction_code import contraction_network
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import scheduler
from baco.compiler.network.row_code import plan_table
from baco.compiler.network.tensor_program import TensorProgram
from baco.compiler.ops.elementwise import Fill, Map
from baco.compiler.schedules.schedule import Schedule

#: Matchings that are predicted as whole programs, at most.
_MOST_PREDICTED = 48
#: In which the host copies an element, at least.
_HOST_CYCLES = 2.0


@dataclass(frozen=True)
class ContractionChoice:
    """A matching with its operators.

    Attributes:
        network: one operator's worth of integer operators.
        cycles: predicted, from the first step to the last.
    """

    matching: Matching
    network: QuantisedNetwork
    cycles: float


def choose_matching(
    program: TensorProgram, accelerator: Accelerator, *, matching: str | None = None
) -> ContractionChoice:
    """The matching of least predicted cycles, or the one that a text describes (`matching_of`).

    Raises InputError for a text that is none, InfeasibleError where nothing can be carried out.
    """
    contraction, intrinsic = program.products, gemmini(accelerator.dim)
    schedule = _remembered(scheduler(accelerator))
    if matching is not None:
        return predicted_matching(
            program, matching_of(matching, contraction, intrinsic), accelerator, schedule
        )
    found: list[tuple[float, Matching]] = []
    reason = "it has no matching"
    for one in matchings(contraction, intrinsic):
        try:
            copies = _copy_cycles(contraction_network(program, one), accelerator)
        except InfeasibleError as error:
            reason = error.message
            continue
        found.append((model_cycles(one, accelerator) + copies, one))
    best: ContractionChoice | None = None
    tried = 0
    for least, one in sorted(found, key=lambda pair: pair[0]):
        if best is not None and (least >= best.cycles or tried >= _MOST_PREDICTED):
            break
        try:
            made = predicted_matching(program, one, accelerator, schedule)
        except InfeasibleError as error:
            reason = error.message
            continue
        tried += 1
        if best is None or made.cycles < best.cycles:
            best = made
    if best is None:
        raise InfeasibleError(f"{program.contraction} cannot be carried out: {reason}")
    return best


def predicted_matching(
    program: TensorProgram, matching: Matching, accelerator: Accelerator, schedule: Scheduler
) -> ContractionChoice:
    """A matching's operators and predicted cycles. Raises InfeasibleError where it cannot be carried out."""
    network = contraction_network(program, matching)
    lowered = lower_network(network, accelerator, schedule, None)
    cycles = sum(one.cycles for one in predict_steps(lowered, accelerator))
    return ContractionChoice(matching, network, cycles)


def model_cycles(matching: Matching, accelerator: Accelerator) -> float:
    """AMOS's model of a matching: what array and main memory need for it, without copies."""
    contraction = matching.contraction
    summed = set(contraction.reduction)
    calls = math.prod(contraction.extents[name] for name in matching.outer if name not in summed)
    inside = matching.instructions // calls * accelerator.dim
    moved = [matching.operand(access.operand).elements for access in contraction.accesses]
    results, *operands = moved
    bandwidth = accelerator.dram_bytes_per_cycle
    read = [
        elements / math.prod(_outer_of(matching, place, summed)) for place, elements in enumerate(operands)
    ]
    written = results / math.prod(_outer_of(matching, -1, summed))
    return calls * max(float(inside), sum(read) / bandwidth, written / bandwidth)


def _copy_cycles(network: QuantisedNetwork, accelerator: Accelerator) -> float:
    """At least, of copies: every element moves twice, or passes through the host."""
    cycles = 0.0
    for op in network.operators:
        if isinstance(op, Map):
            moved = not isinstance(plan_table(op, accelerator), str)
            cycles += op.output.words * (2 / accelerator.dram_bytes_per_cycle if moved else _HOST_CYCLES)
        elif isinstance(op, Fill):
            cycles += op.output.words
    return cycles


def _outer_of(matching: Matching, place: int, summed: set[str]) -> Sequence[int]:
    """Extents of the outer iterations, not summed up, that choose an operand's element (-1: the result's)."""
    contraction = matching.contraction
    access = contraction.output if place < 0 else contraction.inputs[place]
    return [
        contraction.extents[name]
        for name in matching.outer
        if name not in summed and name in access.variables
    ]


def _remembered(schedule: Scheduler) -> Scheduler:
    """Asks once for each layer."""
    known: dict[Layer, tuple[Schedule, tuple[tuple[str, int], ...]] | InfeasibleError] = {}

    def remembered(layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        if layer not in known:
            try:
                known[layer] = schedule(layer)
            except InfeasibleError as error:
                known[layer] = error
        found = known[layer]
        if isinstance(found, InfeasibleError):
            raise found
        return found

    return remembered
