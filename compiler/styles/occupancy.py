"""What a layer's code holds in the local memories: rows of every tensor, and in how many copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule, Schedule
from baco.compiler.styles.explicit.code import prepare
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import check_loop_ws, product_rows
from baco.compiler.styles.packed import packed_preparation

LocalMemoryName = Literal["scratchpad", "accumulator"]
#: The macros have two slots, each in a half of the memories.
_SLOTS = 2


@dataclass(frozen=True)
class HeldTensor:
    """A tensor in a local memory.

    Attributes:
        memory: the scratchpad for W and I, the accumulator for O.
        tensor: W, I or O.
        rows: of one copy, as wide as the array; parts of rows that nothing fills included.
        copies: that there is room for, so that one is moved while another is used.
    """

    memory: LocalMemoryName
    tensor: str
    rows: int
    copies: int


def occupancy(
    layer: Layer, schedule: Schedule, accelerator: Accelerator
) -> tuple[HeldTensor, HeldTensor, HeldTensor]:
    """Weights, inputs and results of the largest tile. Raises InfeasibleError for code that cannot be compiled."""
    if isinstance(schedule, ExplicitSchedule | DepthwiseSchedule):
        if isinstance(schedule, ExplicitSchedule):
            memory = prepare(layer, schedule.mapping, accelerator).memory
        else:
            memory = packed_preparation(layer, schedule, accelerator).memory
        regions = (memory.weights, memory.inputs, memory.results)
        rows, copies = [one.rows for one in regions], [len(one.starts) for one in regions]
    elif isinstance(schedule, LoopWsSchedule):
        product = check_loop_ws(layer, schedule, accelerator)
        rows, copies = list(product_rows(product, schedule, accelerator.dim)), [_SLOTS] * 3
    else:
        rows, copies = list(plan_loop_conv(layer, schedule, accelerator).rows), [_SLOTS] * 3
    return (
        HeldTensor("scratchpad", "W", rows[0], copies[0]),
        HeldTensor("scratchpad", "I", rows[1], copies[1]),
        HeldTensor("accumulator", "O", rows[2], copies[2]),
    )


def lanes(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> tuple[int, int]:
    """Rows and columns of the array that a full pass uses. Raises InfeasibleError for a macro schedule that cannot be
    carried out."""
    dim = accelerator.dim
    if isinstance(schedule, ExplicitSchedule | DepthwiseSchedule):
        return schedule.mapping.rows, schedule.mapping.columns
    if isinstance(schedule, LoopWsSchedule):
        product = check_loop_ws(layer, schedule, accelerator)
        return min(dim, product.depth), min(dim, product.columns)
    plan = plan_loop_conv(layer, schedule, accelerator)
    # a row of the array takes several pixels of the window where these are packed
    return min(dim, plan.pixels * plan.tile["c"]), min(dim, plan.tile["k"])
