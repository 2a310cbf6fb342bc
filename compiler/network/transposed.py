"""Transposed convolutions as ordinary ones, one for each phase of the output."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from baco.compiler.network import given_operators, given_sums
from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.fusion import Epilogue, follow
from baco.compiler.network.tensor_operators import (
    ConvolutionGeometry,
    clip,
    convolve,
    image_of,
    result,
    stored_image,
)
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.views import View
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics
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
    kernel = weight.shape if len(weight.shape) == 4 else (*weight.shape[:2], 1, *weight.shape[2:])
    stride, dilation, padding, shape = (list(a[key]) for key in ("stride", "dilation", "padding", "shape"))
    before = [p[0] for p in padding]
    if len(weight.shape) == 3:
        stride, dilation, before, shape = [1, *stride], [1, *dilation], [0, *before], [1, *shape]
    groups = a["groups"]
    depth, width = kernel[0] // groups, kernel[1]

    def ordinary(elements: np.ndarray) -> np.ndarray:
        """As for an ordinary convolution: kernel, C / groups, K."""
        grouped = elements.reshape(groups, depth, width, *kernel[2:])
        return grouped.transpose(3, 4, 1, 0, 2).reshape(*kernel[2:], depth, groups * width)

    as_given = bool(b.encodings)
    e = given_sums.followed(b, op, 1) if as_given else follow(b, op, 1)
    source = image_of(b, b.operand(x, op, as_given=as_given), op)
    order = CHANNELS_LAST.get(len(e.last.output.shape))
    convolution: _Convolution
    if as_given:
        given = given_operators.weights_of(b, op, weight, b.scale(source), ordinary)
        raw, final = given_sums.result_of(b, e, order), None
        convolution = _given(b, op, e, given, bias)
    else:
        raw, final = result(b, e, order)
        real = ordinary(b.parameters(weight).astype(np.float64))
        shift = np.zeros(groups * width)
        if isinstance(bias, Parameter):
            shift = shift + b.parameters(bias).reshape(-1)
        convolution = _real(b, op, e, real, shift)
    image = stored_image(raw)
    axes = [
        [
            _phase(r, shape[i], kernel[2 + i], stride[i], before[i], dilation[i])
            for r in range(min(stride[i], shape[i]))
        ]
        for i in range(2)
    ]
    for rows, columns in product(*axes):
        if rows.count and columns.count:
            _emit_phase(b, op, convolution, source, (rows, columns), stride, image, groups)
    if as_given and e.last.name in b.real:
        given_operators.add_late_bias(b, op, np.float32(b.scale(source)) * given.scale, bias)
    clip(b, e, raw, final)


#: Emits a convolution of this name, with the weights of some taps (those in both lists; none: zeros), from an image to another.
_Convolution = Callable[[str, list[int], list[int], View, ConvolutionGeometry, View], None]


def _real(
    b: IntegerBuilder, op: Operator, e: Epilogue, weight: np.ndarray, shift: np.ndarray
) -> _Convolution:
    """Of real weights."""

    def emit(
        name: str, rows: list[int], columns: list[int], read: View, window: ConvolutionGeometry, target: View
    ) -> None:
        part = _taps(weight, rows, columns) * e.factor
        convolve(b, name, op, e, read, part, shift, window, target)

    return emit


def _given(
    b: IntegerBuilder, op: Operator, e: Epilogue, weights: given_operators.GivenWeights, bias: Operand
) -> _Convolution:
    """Of the whole numbers of a model that is quantised already."""

    def emit(
        name: str, rows: list[int], columns: list[int], read: View, window: ConvolutionGeometry, target: View
    ) -> None:
        parts = tuple(_taps(one, rows, columns) for one in weights.parts)
        some = given_operators.GivenWeights(parts, weights.scale)
        given_operators.convolve(b, name, op, e, read, some, bias, window, target)

    return emit


def _taps(weight: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
    """Weights [S, R, ...] of some taps; one of zeros without any."""
    if not rows or not columns:
        return np.zeros((1, 1, *weight.shape[2:]), weight.dtype)
    return weight[np.ix_(rows, columns)]


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
    convolution: _Convolution,
    source: View,
    phases: tuple[_Phase, _Phase],
    stride: list[int],
    image: View,
    groups: int,
) -> None:
    rows, columns = phases
    taps = rows.taps, columns.taps
    if not rows.taps or not columns.taps:
        # Only the bias: a window of one zero.
        taps = [], []
        rows, columns = (_Phase(p.residue, p.count, [0], [0]) for p in phases)
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
        convolution(name, *taps, read, window, target)
        return
    like = b.values[image.value]
    own = b.value(name, target.shape, like.scale, like.dtype, encoding=like.encoding)
    convolution(name, *taps, read, window, own)
    b.emit(Map(b.name(f"{name}.place"), (op.name,), target, own, None))
