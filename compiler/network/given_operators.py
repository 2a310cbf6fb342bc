"""Contractions of models that are quantised already: their own whole numbers, scales and zero points, to the bit.

With operands (q - zero) * scale a product is scale * scale' * sum of (q - zero) * (q' - zero'): the array adds up q * (q' - zero')
in 32 bits from a bias that takes zero of the input back, and one float32 factor for each channel leads to the result. The array
applies it where there is one factor for all channels and the result's zero point is 0; else the host core does, from the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.fusion import Epilogue
from baco.compiler.network.given_sums import (
    WayOut,
    bias_numbers,
    factors_of,
    fits_sums,
    followed,
    late_bias,
    result_of,
    usable_factors,
)
from baco.compiler.network.real_values import real_line
from baco.compiler.network.tensor_operators import (
    ConvolutionGeometry,
    as_matrix,
    batched,
    convolution_operands,
    flattened,
    image_of,
    inserted,
    matrix_of,
    order_for_reader,
    stored_image,
)
from baco.compiler.network.trained_weights import LARGEST_SUM, quantise_weights
from baco.compiler.ops.arithmetic import distinct
from baco.compiler.ops.elementwise import Fill, Map
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import RowSums
from baco.compiler.ops.views import View
from baco.workloads.network import Operator
from baco.workloads.semantics import Operand, Parameter

#: Largest float32 factor that is told from one that is no number.
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class GivenWeights:
    """Trained weights as the array takes them, output channels last.

    Attributes:
        parts: int8 [..., K], whose sum they are: whole numbers less their zero points; mostly one.
        scale: float32 of every channel [K], or of all [1].
    """

    parts: tuple[np.ndarray, ...]
    scale: np.ndarray

    def magnitudes(self) -> np.ndarray:
        """Of all weights of every channel, of the part that has most: int64 [K]."""
        channels = self.parts[0].shape[-1]
        few = [distinct(part) for part in self.parts]
        totals = [
            np.abs(part.astype(np.int64)).reshape(-1, channels).sum(0)
            if part.size > 1
            else np.full(channels, abs(int(part.reshape(-1)[0])) * (whole.size // channels))
            for part, whole in zip(few, self.parts, strict=True)
        ]
        return np.asarray(np.max(totals, 0))

    def sums(self) -> np.ndarray:
        """Of all weights of every channel: int64 [K]."""
        channels = self.parts[0].shape[-1]
        totals = (distinct(one).astype(np.int64) * (one.size // distinct(one).size) for one in self.parts)
        return np.asarray(
            sum(
                x.reshape(-1, channels).sum(0) if x.size > 1 else np.full(channels, x.sum() // channels)
                for x in totals
            )
        )


def given_weights(
    b: IntegerBuilder, op: Operator, p: Parameter, arranged: Callable[[np.ndarray], np.ndarray]
) -> GivenWeights | None:
    """The whole numbers of a parameter; None where the model gives none, or scales along another dimension than channels.

    Args:
        arranged: puts the elements of the parameter in the order that they are used in, output channels last.
    """
    if p.whole is None:
        return None
    channels = len(p.whole.scale)
    scale = arranged(p.scales())
    line = _last(scale)
    if channels > 1 and not (scale == line).all():
        return None
    elements = arranged(b.parameters.whole(p))
    if not distinct(elements).any() and not any(p.whole.zero):
        parts = [np.broadcast_to(np.int8(0), elements.shape)]
    else:
        parts = []
        remaining = elements.astype(np.int64) - arranged(p.zeros())
        while not parts or remaining.any():
            if len(parts) == 2:
                raise b.error(op, "its weights less their zero points are beyond two times 8 bits")
            parts.append(np.clip(remaining, -128, 127).astype(np.int8))
            remaining = remaining - parts[-1]
    return GivenWeights(tuple(parts), line if channels > 1 else np.array(p.whole.scale, np.float32))


def weights_of(
    b: IntegerBuilder,
    op: Operator,
    p: Parameter,
    source: float,
    arranged: Callable[[np.ndarray], np.ndarray],
) -> GivenWeights:
    """As `given_weights`; rounded here, for inputs of the scale `source`, where the model has real ones."""
    given = given_weights(b, op, p, arranged)
    if given is not None:
        return given
    real = arranged(b.parameters(p))
    found = quantise_weights(b, op, real, None, math.prod(real.shape[:-1]), source)
    return GivenWeights((found.integers,), found.scales.astype(np.float32))


def _last(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers[(0,) * (numbers.ndim - 1)], dtype=np.float32)


# Convolutions


def convolution(b: IntegerBuilder, op: Operator) -> None:
    """Convolution, with the padding before it and the ReLU behind it."""
    x, weight, bias, padding = convolution_operands(b, op)
    e = followed(b, op, 1)
    dimensions = len(weight.shape)
    source = image_of(b, b.operand(x, op, as_given=True), op)
    given = weights_of(b, op, weight, b.scale(source), lambda x: x.transpose((*range(2, dimensions), 1, 0)))
    if dimensions == 3:
        given = GivenWeights(tuple(one[None] for one in given.parts), given.scale)
    window = ConvolutionGeometry.of(op, padding)
    output = result_of(b, e, CHANNELS_LAST.get(len(e.last.output.shape)))
    convolve(b, op.name, op, e, source, given, bias, window, stored_image(output))
    if e.last.name in b.real:
        add_late_bias(b, op, np.float32(b.scale(source)) * given.scale, bias)


def add_late_bias(b: IntegerBuilder, op: Operator, unit: np.ndarray, bias: Operand) -> None:
    """Add a bias of channels to the real result of a convolution, where that has none yet."""
    late = late_bias(b, bias, unit, real=op.name in b.real)
    if late is not None:
        line = late.reshape(-1, *(1 for _ in op.output.shape[2:]))
        b.tensors[op.name] = real_line(b, op, b.tensors[op.name], None, line)


def convolve(
    b: IntegerBuilder,
    name: str,
    op: Operator,
    e: Epilogue,
    source: View,
    given: GivenWeights,
    bias: Operand,
    window: ConvolutionGeometry,
    output: View,
) -> None:
    """Emit one convolution of this name from an image [N, H, W, C] to another; `op` is for messages."""
    if not semantics_of(op).attributes.get("unused_border"):
        source, window = _padded(b, op, name, source, window, given.parts[0].shape[:2])
    unit = np.float32(b.scale(source)) * given.scale
    real = b.values[output.value].dtype == "float32"
    own = None if late_bias(b, bias, unit, real=real) is not None else bias
    total = bias_numbers(b, own, unit, e) - b.zero(source) * given.sums()
    factors = usable_factors(b, op, factors_of(b.scale(source), given.scale, b.scale(output), e.factor))
    _emit_convolution(b, name, op, e, source, given, total, window, factors, output)


def _padded(
    b: IntegerBuilder,
    op: Operator,
    name: str,
    source: View,
    window: ConvolutionGeometry,
    kernel: tuple[int, ...],
) -> tuple[View, ConvolutionGeometry]:
    """The image with a border of the element that stands for 0, where that is not 0, which the array pads with."""
    zero = b.zero(source)
    befores = window.padding
    reach = [
        (window.size[i] - 1) * window.stride[i] + (kernel[i] - 1) * window.dilation[i] + 1 for i in (0, 1)
    ]
    afters = [max(0, reach[i] - befores[i] - source.shape[1 + i]) for i in (0, 1)]
    if not zero or not any((*befores, *afters)):
        return source, window
    images, height, width, channels = source.shape
    inside = ((0, images), (befores[0], height), (befores[1], width), (0, channels))
    shape = (images, befores[0] + height + afters[0], befores[1] + width + afters[1], channels)
    label = f"{name}.padded"
    padded = b.value(label, shape, 1.0, encoding=b.encoding(source))
    inner = padded
    for axis in (1, 2):
        start, size = inside[axis]
        for first, last in ((0, start), (start + size, inner.shape[axis])):
            if first < last:
                b.emit(
                    Fill(b.name(f"{label}.border"), (op.name,), _part(inner, axis, first, last - first), zero)
                )
        inner = _part(inner, axis, start, size)
    b.emit(Map(b.name(label), (op.name,), inner, source, None))
    return padded, window._replace(padding=(0, 0))


def _part(view: View, axis: int, start: int, size: int) -> View:
    starts, shape = [0] * len(view.shape), list(view.shape)
    starts[axis], shape[axis] = start, size
    return view.sliced(starts, shape, [1] * len(shape))


def _emit_convolution(
    b: IntegerBuilder,
    name: str,
    op: Operator,
    e: Epilogue,
    source: View,
    given: GivenWeights,
    bias: np.ndarray,
    window: ConvolutionGeometry,
    factors: np.ndarray,
    output: View,
) -> None:
    channels = given.parts[0].shape[-1]
    bias = np.broadcast_to(bias, (channels,))
    fits = fits_sums(b, op, given.magnitudes(), bias)
    way_out = WayOut(b, name, e, output, factors, whole=len(given.parts) == 1 and fits)
    direct, bias = way_out.direct, bias + way_out.zero_in_sums
    sources, images = tuple(e.sources), source.shape[0]
    sums: list[View] = []
    for number, weight in enumerate(given.parts):
        offsets = (bias if number == 0 and fits else np.zeros(channels)).astype(np.int32)
        target = output if direct else b.value(f"{name}.sums", (images, *window.size, channels), 1.0, "int32")
        sums.append(target)
        scale, relu = direct or (None, False)
        b.emit(
            Convolution(
                b.name(name if direct else f"{name}.sums"),
                sources if direct else (op.name,),
                target,
                source,
                b.constant(f"{name}.weight", weight, float(given.scale[0])),
                b.constant(f"{name}.bias", offsets) if offsets.any() else None,
                *window,
                relu,
                scale,
            )
        )
    way_out.emit(sums[0], *sums[1:], *([] if fits else _bias_beside(b, name, bias, output)))


def _bias_beside(b: IntegerBuilder, name: str, bias: np.ndarray, output: View) -> list[View]:
    """A bias of the last dimension that is added to sums, in two parts where one does not fit into 32 bits."""
    first = np.clip(bias, -LARGEST_SUM, LARGEST_SUM)
    parts = [first, bias - first] if (bias != first).any() else [first]
    return [b.constant(f"{name}.bias", one.astype(np.int32)).expanded(output.shape) for one in parts]


# Matrix products


def matmul(b: IntegerBuilder, op: Operator) -> None:
    """Matrix product of two operands, of which one may be a constant: the right one, or a left one whose rows have one sum, to
    which the zero point of the right one adds the same everywhere."""
    left, right, bias = semantics_of(op).operands
    assert left is not None
    assert right is not None
    vector = len(right.shape) == 1
    trained = isinstance(right, Parameter)
    e = followed(b, op, len(op.output.shape) - 1, scalable=trained and not vector, shiftable=not vector)
    alpha = np.float32(semantics_of(op).attributes["alpha"])
    flat = flattened(b, left, op) if trained and len(right.shape) <= 2 else None
    a_view = matrix_of(b, flat.view if flat else b.operand(left, op, as_given=True), op, row=True)
    given: GivenWeights | None = None
    sums: np.ndarray | int = 0
    zero_in_sums, corrected = 0, True
    magnitudes = np.array([128 * left.shape[-1]])
    if isinstance(right, Parameter) and len(right.shape) <= 2:
        given = _product_weights(b, op, right, b.scale(a_view))
        if flat is not None:
            given = GivenWeights(tuple(flat.reordered(part) for part in given.parts), given.scale)
        scale, sums, magnitudes, corrected = given.scale, given.sums(), given.magnitudes(), False
        operands = [b.constant(f"{op.name}.weight", weights, float(scale[0])) for weights in given.parts]
    else:
        operands = [matrix_of(b, b.operand(right, op, as_given=True), op, row=False)]
        scale = np.array([b.scale(operands[0])], np.float32)
        rows = _constant_rows(b, left)
        if rows is not None:
            corrected, magnitudes = False, np.abs(rows).sum(1).max(keepdims=True)
            zero_in_sums = b.zero(operands[0]) * int(rows[0].sum())
    if isinstance(bias, Parameter) and len(bias.shape) and math.prod(bias.shape[:-1]) != 1:
        raise b.error(op, f"a bias of {bias.shape} is not one of columns")
    unit = np.float32(b.scale(a_view)) * scale * alpha
    late = late_bias(b, bias, unit, real=e.last.name in b.real)
    total = (
        bias_numbers(b, None if late is not None else bias, unit, e) - b.zero(a_view) * sums - zero_in_sums
    )
    lead = vector or len(left.shape) == 1
    output = result_of(b, e, None if lead else order_for_reader(b, e.last))
    factors = usable_factors(b, op, factors_of(b.scale(a_view), scale, b.scale(output), e.factor * alpha))
    y_view = as_matrix(output, row=len(left.shape) == 1, column=vector)
    batch = a_view.shape[:-2]
    shaped = [batched(b, op, a_view, operand, y_view, batch) for operand in operands]
    offsets = np.broadcast_to(total, (y_view.shape[-1],)).astype(np.int64)
    _emit_products(b, op, e, shaped, offsets, magnitudes, factors, corrected=corrected)
    if late is not None:
        b.tensors[op.name] = real_line(b, op, b.tensors[op.name], None, late)


def _constant_rows(b: IntegerBuilder, left: Operand) -> np.ndarray | None:
    """Whole numbers [M, K] of a constant left operand with zero point 0, whose rows all have one sum; None for others."""
    if not isinstance(left, Parameter) or left.whole is None or len(left.shape) != 2 or any(left.whole.zero):
        return None
    rows = b.parameters.whole(left).astype(np.int64)
    return rows if np.unique(rows.sum(1)).size == 1 else None


def _product_weights(b: IntegerBuilder, op: Operator, right: Parameter, source: float) -> GivenWeights:
    """[C, K] of a matrix, [C, 1] of a column."""
    vector = len(right.shape) == 1
    return weights_of(b, op, right, source, lambda x: x[:, None] if vector else x)


def _emit_products(
    b: IntegerBuilder,
    op: Operator,
    e: Epilogue,
    shaped: list[tuple[View, View, View]],
    bias: np.ndarray,
    magnitudes: np.ndarray,
    factors: np.ndarray,
    *,
    corrected: bool,
) -> None:
    """One product for each part of the weights; `shaped`: its operands and result; `corrected`: whether zero points are not in the
    bias."""
    left, right, output = shaped[0]
    corrected = corrected and bool(b.zero(left) or b.zero(right))
    fits = fits_sums(b, op, magnitudes, bias)
    if not fits and corrected:
        raise b.error(op, "sums of its products and its bias do not fit into 32 bits")
    way_out = WayOut(b, op.name, e, output, factors, whole=len(shaped) == 1 and fits and not corrected)
    direct, bias = way_out.direct, bias + way_out.zero_in_sums
    sources = tuple(e.sources)
    sums: list[View] = []
    for number, (a, weight, target) in enumerate(shaped):
        offsets = bias.astype(np.int32) if number == 0 and fits else np.zeros(1, np.int32)
        where = target if direct else b.value(f"{op.name}.sums", target.shape, 1.0, "int32")
        sums.append(where)
        scale, relu = direct or (None, False)
        b.emit(
            MatMul(
                b.name(op.name if direct else f"{op.name}.sums"),
                sources if direct else (op.name,),
                where,
                a,
                weight,
                b.constant(f"{op.name}.bias", offsets) if offsets.any() else None,
                relu,
                scale,
            )
        )
    more = [*sums[1:]] if fits else [*sums[1:], *_bias_beside(b, op.name, bias, output)]
    way_out.emit(sums[0], *(_corrections(b, op, left, right, output) if corrected else more))


def _corrections(b: IntegerBuilder, op: Operator, left: View, right: View, output: View) -> list[View]:
    """What zero points of two activations add to sums of products: (a - z) * (c - y) = ac - y * a - z * c + z * y."""
    z, y, depth = b.zero(left), b.zero(right), left.shape[-1]
    found = []
    if y:
        rows = b.value(f"{op.name}.rows", left.shape[:-1], 1.0, "int32")
        b.emit(RowSums(b.name(f"{op.name}.rows"), (op.name,), rows, left, -y, z * y * depth))
        found.append(inserted(rows, len(rows.shape)).expanded(output.shape))
    if z:
        axes = (*range(len(right.shape) - 2), len(right.shape) - 1, len(right.shape) - 2)
        columns = b.value(f"{op.name}.columns", (*right.shape[:-2], right.shape[-1]), 1.0, "int32")
        b.emit(RowSums(b.name(f"{op.name}.columns"), (op.name,), columns, right.transposed(axes), -z, 0))
        found.append(inserted(columns, len(columns.shape) - 1).expanded(output.shape))
    return found
