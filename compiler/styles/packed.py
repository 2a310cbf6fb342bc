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
from baco.compiler.mapping.nest import Mapping, packed_groups
from baco.compiler.schedules.schedule import DepthwiseSchedule
from baco.compiler.schedules.style import LayerPlan, Style
from baco.compiler.styles.explicit.code import explicit_code
from baco.compiler.styles.explicit.weights import EXPANDED, emit_expanded, expanded_bytes
from baco.compiler.styles.macros.estimate import expansion_cycles


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
    if layer.weight_bits == 4:
        raise InfeasibleError("the host puts weights on a diagonal byte by byte, and these have 4 bits")
    if layer.weight_blocks is not None:
        raise InfeasibleError("the host puts weights on a diagonal as they are, and these are in blocks")
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


class PackedStyle(Style[DepthwiseSchedule]):
    """Several groups of a grouped convolution at once: where lanes of the array beyond the channels of one group serve its
    neighbours (`baco.compiler.mapping.nest.packed_groups`)."""

    schedule = DepthwiseSchedule

    def recognise(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> DepthwiseSchedule | None:
        """Whether the accelerator has room for the packs is for `plan` to say."""
        packed = packed_groups(mapping, layer.problem)
        if packed == 1:
            return None
        try:
            packed_layer(layer, packed)
        except InfeasibleError:
            return None
        return DepthwiseSchedule(mapping, packed)

    def plan(self, layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator) -> LayerPlan:
        packed, channels = schedule.packed, layer.problem.C
        if layer.real and packed * channels > accelerator.dim and accelerator.dim % channels:
            raise InfeasibleError("channels of one group would be parts of two blocks of sums")
        packs = explicit_code(
            packed_layer(layer, packed), schedule.mapping, accelerator, last=_last(layer, packed)
        )

        def emit(e: Emitter, operands: Operands) -> None:
            expanded = operands.workspaces[EXPANDED]
            emit_expanded(e, layer, packed, operands.weight, expanded)
            packs.emit(e, replace(operands, weight=expanded))

        workspaces = ((EXPANDED, expanded_bytes(layer, packed)), *packs.workspaces)
        return replace(packs, workspaces=workspaces, emit=emit)

    def mapping(self, layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator) -> Mapping:
        if packed_groups(schedule.mapping, layer.problem) != schedule.packed:
            raise InfeasibleError(f"no mapping says that {schedule.packed} groups run at once in {schedule}")
        return schedule.mapping

    def counted(
        self, layer: Layer, schedule: DepthwiseSchedule, accelerator: Accelerator
    ) -> tuple[Layer, Mapping]:
        return packed_layer(layer, schedule.packed), schedule.mapping

    def host_cycles(self, layer: Layer, schedule: DepthwiseSchedule) -> float:
        return expansion_cycles(layer, schedule.packed)
