"""Transposed convolutions as ordinary ones, one for each phase of the output."""

from __future__ import annotations

from itertools import product

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.fusion import Epilogue, follow
from baco.compiler.network.graph import Map
from baco.compiler.network.tensor_operators import (
    ConvolutionGeometry,
    clip,
    convolve,
    image_of,
    result,
    stored_image,
)
from baco.compiler.network.views import View
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.shapes import taps_of


def transposed_convolution(b: IntegerBuilder, op: Operator) -> None:
    """A transposed convolution that is one operator of the network; phases wait for their `interleave`."""
    if semantics_of(op).attributes["phase"] is None:
        _lower(b, op, semantics_of(op))


def interleave(b: IntegerBuilder, op: Operator) -> None:
    """All phases of one transposed convolution."""
    first = semantics_of(op).operands[0]
    assert isinstance(first, Tensor)
    phase = next(o for o in b.network.operators if o.name == first.name)
    _lower(b, op, semantics_of(phase))


def _lower(b: IntegerBuilder, op: Operator, semantics: Semantics) -> None:
    x, weight, bias = semantics.operands
    if not isinstance(weight, Parameter):
        raise b.error(op, "the weights of a convolution must be constants")
    a = semantics.attributes
    kernel = b.parameters(weight).astype(np.float64)  # C, K / groups, kernel
    stride, dilation, padding, shape = (list(a[key]) for key in ("stride", "dilation", "padding", "shape"))
    before = [p[0] for p in padding]
    if kernel.ndim == 3:
        kernel = kernel[:, :, None, :]
        stride, dilation, before, shape = [1, *stride], [1, *dilation], [0, *before], [1, *shape]
    groups = a["groups"]
    depth, width = kernel.shape[0] // groups, kernel.shape[1]
    # As for an ordinary convolution: kernel, C / groups, K.
    grouped = kernel.reshape(groups, depth, width, *kernel.shape[2:])
    ordinary = grouped.transpose(3, 4, 1, 0, 2).reshape(*kernel.shape[2:], depth, groups * width)
    shift = np.zeros(groups * width)
    if isinstance(bias, Parameter):
        shift = shift + b.parameters(bias).reshape(-1)
    e = follow(b, op, 1)
    source = image_of(b, b.operand(x, op), op)
    raw, final = result(b, e, CHANNELS_LAST.get(len(e.last.output.shape)))
    image = stored_image(raw)
    axes = [
        [
            _phase(r, shape[i], kernel.shape[2 + i], stride[i], before[i], dilation[i])
            for r in range(min(stride[i], shape[i]))
        ]
        for i in range(2)
    ]
    for rows, columns in product(*axes):
        if rows.count and columns.count:
            _emit_phase(b, op, e, source, ordinary, shift, (rows, columns), stride, image, groups)
    clip(b, e, raw, final)


class _Phase:
    """Outputs residue, residue + stride... along one dimension: their taps and where they read."""

    def __init__(self, residue: int, count: int, taps: list[int], offsets: list[int]) -> None:
        self.residue = residue
        self.count = count
        self.taps = taps
        self.offsets = offsets

    @property
    def step(self) -> int:
        """Between the inputs of neighbouring taps."""
        return self.offsets[1] - self.offsets[0] if len(self.offsets) > 1 else 1


def _phase(residue: int, size: int, kernel: int, stride: int, before: int, dilation: int) -> _Phase:
    """Output residue + q * stride reads input q + offset with each tap; taps by rising offset."""
    taps = taps_of(residue, kernel, stride, before, dilation)
    pairs = sorted(((residue + before - r * dilation) // stride, r) for r in taps)
    count = max(0, (size - residue + stride - 1) // stride)
    return _Phase(residue, count, [r for _, r in pairs], [offset for offset, _ in pairs])


def _emit_phase(
    b: IntegerBuilder,
    op: Operator,
    e: Epilogue,
    source: View,
    weight: np.ndarray,
    shift: np.ndarray,
    phases: tuple[_Phase, _Phase],
    stride: list[int],
    image: View,
    groups: int,
) -> None:
    rows, columns = phases
    if not rows.taps or not columns.taps:
        # Only the bias: a window of one zero.
        weight = np.zeros((1, 1, *weight.shape[2:]))
        rows, columns = (_Phase(p.residue, p.count, [0], [0]) for p in phases)
    part = weight[np.ix_(rows.taps, columns.taps)] * e.factor
    read = source
    starts = [0, max(0, rows.offsets[0]), max(0, columns.offsets[0]), 0]
    extents = [source.shape[0], source.shape[1] - starts[1], source.shape[2] - starts[2], source.shape[3]]
    if min(extents) < 1:
        raise b.error(op, "outputs of this transposed convolution lie wholly outside its input")
    if any(starts):
        read = image_of(b, source.sliced(starts, extents, [1] * 4).transposed((0, 3, 1, 2)), op)
    window = ConvolutionGeometry(
        (1, 1),
        (max(0, -rows.offsets[0]), max(0, -columns.offsets[0])),
        (rows.step, columns.step),
        (rows.count, columns.count),
        groups,
    )
    target = image.sliced(
        (0, rows.residue, columns.residue, 0),
        (image.shape[0], rows.count, columns.count, image.shape[3]),
        (1, stride[0], stride[1], 1),
    )
    name = f"{op.name}.phase{rows.residue}.{columns.residue}"
    if stride == [1, 1]:
        convolve(b, name, op, e, read, part, shift, window, target)
        return
    own = b.value(name, target.shape, b.scale(image))
    convolve(b, name, op, e, read, part, shift, window, own)
    b.emit(Map(b.name(f"{name}.place"), (op.name,), target, own, None))
