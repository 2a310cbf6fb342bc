"""Maximum pooling on its own, on the accelerator: images pass through the accumulator and are pooled on the way out."""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.layers.operands import Operands
from baco.compiler.network.layers import pixel_pitch
from baco.compiler.ops.images import MaxPool
from baco.compiler.styles.explicit.pool import emit_pool
from baco.workloads.problem import Problem


def plan_max_pool(op: MaxPool, accelerator: Accelerator, *, non_negative: bool) -> Layer | None:
    """The pooling as a layer that computes nothing before it; None if the accelerator cannot do it exactly.

    The accelerator takes positions outside the image as zeros: they must not occur, or do no harm.

    Args:
        non_negative: whether no element of the input is negative.
    """
    images, height, width, channels = op.input.shape
    _, rows, columns, _ = op.output.shape
    kernel, stride, padding = op.kernel, op.stride, op.padding
    inside = padding == (0, 0) and all(
        (count - 1) * stride[i] + kernel[i] <= size
        for i, (count, size) in enumerate(((rows, height), (columns, width)))
    )
    output_pitch = pixel_pitch(op.output)
    if (
        not (inside or non_negative)
        or len({*kernel}) + len({*stride}) + len({*padding}) > 3
        or op.dilation != (1, 1)
        or pixel_pitch(op.input) != channels
        or output_pitch is None
        or not (accelerator.features.max_pool and accelerator.features.read_small_width)
    ):
        return None
    try:
        layer = Layer(
            Problem(N=images, Q=height, P=width, K=channels),
            pooling=Pooling(kernel[0], stride[0], padding[0], rows, columns),
            output=Layout(output_pitch, channels),
        )
        emit_max_pool(Emitter("trial", ["input", "output"]), layer, accelerator, 0, 0)
    except (InputError, InfeasibleError):
        return None
    return layer


def emit_max_pool(e: Emitter, layer: Layer, accelerator: Accelerator, source: Number, target: Number) -> None:
    """Write the code of a pooling that `plan_max_pool` found; `source` and `target` are addresses."""
    operands = Operands(input=source, weight=0, output=target)
    emit_pool(e, layer, accelerator, operands, source, layer.problem.K)
