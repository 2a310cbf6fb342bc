"""Layers to accelerator commands: one file a code style.

`emit_layer` writes a layer as its schedule says, `workspaces` tells what main memory that takes beside the layer's
tensors, and `baco.compiler.choice.choose` picks a schedule. What a style needs is imported when it is asked for, since most
programs have one.
"""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)

__all__ = ["Operands", "check_schedule", "emit_layer", "requirement", "workspaces"]


def emit_layer(
    e: Emitter, layer: Layer, schedule: Schedule, accelerator: Accelerator, operands: Operands
) -> None:
    """Write the commands of a layer where `e` stands, with all the configuration they need.

    Nothing is assumed of what ran before but that its memory accesses are fenced; nor is there a fence at the end.
    Raises InputError for a schedule that does not cover the layer, InfeasibleError for one that the accelerator cannot
    carry out, with the reason.
    """
    if isinstance(schedule, ExplicitSchedule):
        from baco.compiler.styles.explicit.code import emit_explicit

        emit_explicit(e, layer, schedule.mapping, accelerator, operands)
    elif isinstance(schedule, DepthwiseSchedule):
        from baco.compiler.styles.packed import emit_packed

        emit_packed(e, layer, schedule, accelerator, operands)
    elif isinstance(schedule, LoopWsSchedule):
        from baco.compiler.styles.macros.loop_ws import emit_loop_ws

        emit_loop_ws(e, layer, schedule, accelerator, operands)
    else:
        from baco.compiler.styles.macros.loop_conv import emit_loop_conv

        emit_loop_conv(e, layer, schedule, accelerator, operands)


def workspaces(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> tuple[tuple[str, int], ...]:
    """Name and bytes of the main memory that the code of `emit_layer` wants in `Operands.workspaces`.

    Contents do not matter before, and mean nothing after. Raises as `emit_layer`.
    """
    if isinstance(schedule, ExplicitSchedule):
        from baco.compiler.styles.explicit.code import explicit_workspaces

        return explicit_workspaces(layer, schedule.mapping, accelerator)
    if isinstance(schedule, DepthwiseSchedule):
        from baco.compiler.styles.packed import packed_workspaces

        return packed_workspaces(layer, schedule, accelerator)
    if isinstance(schedule, LoopWsSchedule):
        from baco.compiler.styles.macros.loop_ws import loop_ws_workspaces

        return loop_ws_workspaces(layer, schedule, accelerator)
    assert isinstance(schedule, LoopConvSchedule)
    return ()


def requirement(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> dict[str, int]:
    """Least hardware of the same kind that the code compiled for `accelerator` runs on: `dim`, and rows of the local
    memories. Raises as `workspaces`.

    Explicit code needs the rows it addresses. The macros place tiles in halves of whatever memory there is: for them
    it is the smallest power of two below the accelerator's capacity that still holds the tiles, in KiB steps.
    """
    if isinstance(schedule, ExplicitSchedule | DepthwiseSchedule):
        from baco.compiler.styles.explicit.code import prepare
        from baco.compiler.styles.packed import packed_preparation

        ready = (
            prepare(layer, schedule.mapping, accelerator)
            if isinstance(schedule, ExplicitSchedule)
            else packed_preparation(layer, schedule, accelerator)
        )
        scratchpad, accumulator = ready.memory.scratchpad_used, ready.memory.accumulator_used
        if ready.pooled_after:
            # the pooling afterwards takes what the accumulator has
            accumulator = accelerator.accumulator_rows
        return {"dim": accelerator.dim, "scratchpad_rows": scratchpad, "accumulator_rows": accumulator}
    least = accelerator
    for field in ("scratchpad_kib", "accumulator_kib"):
        while getattr(least, field) > 1:
            smaller = least.replace(**{field: getattr(least, field) // 2})
            try:
                check_schedule(layer, schedule, smaller)
            except InfeasibleError:
                break
            least = smaller
    return {
        "dim": accelerator.dim,
        "scratchpad_rows": least.scratchpad_rows,
        "accumulator_rows": least.accumulator_rows,
    }


def check_schedule(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> None:
    """Raise what `emit_layer` would raise, without writing code."""
    if isinstance(schedule, LoopWsSchedule):
        from baco.compiler.styles.macros.loop_ws import check_loop_ws

        check_loop_ws(layer, schedule, accelerator)
    elif isinstance(schedule, LoopConvSchedule):
        from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv

        plan_loop_conv(layer, schedule, accelerator)
    else:
        workspaces(layer, schedule, accelerator)
