"""Layers to accelerator commands: one file a code style.

`emit_layer` writes a layer as its schedule says, `workspaces` tells what main memory that takes beside the layer's
tensors, and `compiler.lower.choose` picks a schedule. What a style needs is imported when it is asked for, since most
programs have one.
"""

from __future__ import annotations

from accel.config import Accelerator
from compiler.emit import Emitter
from compiler.layer import Layer
from compiler.lower.operands import Operands
from compiler.schedule import DepthwiseSchedule, ExplicitSchedule, LoopConvSchedule, LoopWsSchedule, Schedule

__all__ = ["Operands", "emit_layer", "workspaces"]


def emit_layer(
    e: Emitter, layer: Layer, schedule: Schedule, accelerator: Accelerator, operands: Operands
) -> None:
    """Write the commands of a layer where `e` stands, with all the configuration they need.

    Nothing is assumed of what ran before but that its memory accesses are fenced; nor is there a fence at the end.
    Raises InputError for a schedule that does not cover the layer, InfeasibleError for one that the accelerator cannot
    carry out, with the reason.
    """
    if isinstance(schedule, ExplicitSchedule):
        from compiler.lower.explicit import emit_explicit

        emit_explicit(e, layer, schedule.mapping, accelerator, operands)
    elif isinstance(schedule, DepthwiseSchedule):
        from compiler.lower.grouped import emit_packed

        emit_packed(e, layer, schedule, accelerator, operands)
    elif isinstance(schedule, LoopWsSchedule):
        from compiler.lower.loop_ws import emit_loop_ws

        emit_loop_ws(e, layer, schedule, accelerator, operands)
    else:
        from compiler.lower.loop_conv import emit_loop_conv

        emit_loop_conv(e, layer, schedule, accelerator, operands)


def workspaces(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> tuple[tuple[str, int], ...]:
    """Name and bytes of the main memory that the code of `emit_layer` wants in `Operands.workspaces`.

    Contents do not matter before, and mean nothing after. Raises as `emit_layer`.
    """
    if isinstance(schedule, ExplicitSchedule):
        from compiler.lower.explicit import explicit_workspaces

        return explicit_workspaces(layer, schedule.mapping, accelerator)
    if isinstance(schedule, DepthwiseSchedule):
        from compiler.lower.grouped import packed_workspaces

        return packed_workspaces(layer, schedule, accelerator)
    if isinstance(schedule, LoopWsSchedule):
        from compiler.lower.loop_ws import loop_ws_workspaces

        return loop_ws_workspaces(layer, schedule, accelerator)
    assert isinstance(schedule, LoopConvSchedule)
    return ()
