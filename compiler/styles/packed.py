"""Grouped convolutions of few channels: several groups at once, by block-diagonal weights.

A group of C channels and K results fills C rows and K columns of the array, of a depthwise convolution one of each. The
weights of several neighbouring groups, put on the diagonal of one matrix, make one product of them all.
"""

from __future__ import annotations

from dataclasses import replace

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import DepthwiseSchedule
from baco.compiler.styles.explicit.code import Preparation, emit_explicit, explicit_workspaces, prepare
from baco.compiler.styles.explicit.weights import EXPANDED, emit_expanded, expanded_bytes


def packed_layer(layer: Layer, packed: int) -> Layer:
    """The layer whose groups are `packed` groups of the given one, with expanded weights.

    Its mapping is that of a `DepthwiseSchedule`. Raises InfeasibleError unless neighbouring groups have neighbouring
    channels.
    """
    p = layer.problem
    if packed > p.groups:
        raise InfeasibleError(f"{packed} groups are to run at once, but there are only {p.groups}")
    if p.groups > 1 and (layer.input.group, layer.output.group) != (p.C, p.K):
        raise InfeasibleError("groups that run at once need their channels side by side")
    if layer.weights_transposed:
        raise InfeasibleError("transposed weights cannot be put on a diagonal")
    depth, columns = packed * p.C, packed * p.K
    input_pitch, output_pitch = layer.input.pitch, layer.output.pitch
    # with one pixel there is no next one: its pitch says nothing
    input_pitch = max(input_pitch, depth) if layer.pixels_in == 1 else input_pitch
    output_pitch = max(output_pitch, columns) if layer.pixels_out == 1 else output_pitch
    if input_pitch < depth or output_pitch < columns:
        raise InfeasibleError("groups that run at once need pixels as far apart as their channels together")
    return replace(
        layer,
        problem=replace(p, C=depth, K=columns, groups=-(-p.groups // packed)),
        input=Layout(input_pitch, depth),
        weight=Layout(columns, p.S * p.R * depth * columns),
        output=Layout(output_pitch, columns),
    )


def _last(layer: Layer, packed: int) -> dict[str, int]:
    """C and K of the last pack, if it has fewer groups than the others."""
    p = layer.problem
    rest = p.groups % packed
    return {"C": rest * p.C, "K": rest * p.K} if rest else {}


def packed_preparation(layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator) -> Preparation:
    """How the packed layer is carried out. Raises as `baco.compiler.styles.explicit.code.prepare`."""
    inner = packed_layer(layer, schedule.packed)
    return prepare(inner, schedule.mapping, accelerator, last=_last(layer, schedule.packed))


def packed_workspaces(
    layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator
) -> tuple[tuple[str, int], ...]:
    """Name and bytes of what the code needs in main memory beside the layer's tensors."""
    inner = packed_layer(layer, schedule.packed)
    last = _last(layer, schedule.packed)
    expanded = expanded_bytes(layer, schedule.packed)
    return ((EXPANDED, expanded), *explicit_workspaces(inner, schedule.mapping, accelerator, last=last))


def emit_packed(
    e: Emitter, layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator, operands: Operands
) -> None:
    """Write the program of a layer, its weights expanded by the host first. Raises as `baco.compiler.styles.explicit.code`."""
    inner = packed_layer(layer, schedule.packed)
    expanded = operands.workspaces[EXPANDED]
    emit_expanded(e, layer, schedule.packed, operands.weight, expanded)
    emit_explicit(
        e,
        inner,
        schedule.mapping,
        accelerator,
        replace(operands, weight=expanded),
        last=_last(layer, schedule.packed),
    )
