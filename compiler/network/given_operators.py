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

from baco.compiler.network.arithmetic import distinct, float32
from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.fusion import Epilogue, follow
from baco.compiler.network.graph import Convolution, Fill, Map, MatMul
from baco.compiler.network.requantisation import Requantise, RowSums
from baco.compiler.network.tensor_operators import (
    LARGEST_SUM,
    ConvolutionGeometry,
    batched,
    flattened,
    image_of,
    inserted,
    matrix_of,
    order_for_reader,
    quantise_weights,
    stored_image,
    unpadded,
)
from baco.compiler.network.views import View
from baco.workloads.encoding import Encoding
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Operand, Parameter

__all__ = ["convolution", "convolve", "limits_of", "matmul", "requantised_sums", "weights_of"]

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
    integers, _, scale = quantise_weights(b, op, real, None, math.prod(real.shape[:-1]), source)
    return GivenWeights((integers,), np.array([scale], np.float32))


def _last(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers[(0,) * (numbers.ndim - 1)], dtype=np.float32)


def bias_numbers(b: IntegerBuilder, bias: Operand, scale: np.ndarray, e: Epilogue) -> np.ndarray:
    """int64 bias in units of `scale`, of every channel [K] or [1]: the model's own whole numbers where it gives them in these units."""
    unit = scale.astype(np.float64)
    shift = np.rint(e.shift / (unit * e.factor)) if e.shift.any() else np.zeros(1)
    shift = np.nan_to_num(np.clip(shift, -(2.0**40), 2.0**40)).astype(np.int64)
    if not isinstance(bias, Parameter):
        return shift
    given = bias.whole
    if given is not None and not any(given.zero):
        own = bias.scales().astype(np.float64).reshape(-1)
        if np.allclose(own, unit, rtol=1e-5, atol=0):
            return shift + b.parameters.whole(bias).astype(np.int64).reshape(-1)
    real = b.parameters(bias).astype(np.float64).reshape(-1)
    return shift + np.clip(np.rint(real / unit), -(2.0**40), 2.0**40).astype(np.int64)


def limits_of(e: Epilogue, encoding: Encoding) -> tuple[int, int]:
    """Least and largest element of a result: a ReLU's zero and limit are such."""
    low = max(encoding.low, encoding.zero) if e.relu else encoding.low
    high = encoding.high
    if e.limit is not None:
        high = min(high, int(encoding.whole(np.array(e.limit))))
    return low, high


def factors_of(source: float, weights: np.ndarray, target: float, factor: np.ndarray) -> np.ndarray:
    """float32 factors from sums to results, as the runtimes of ONNX have them: source * weights / target."""
    product = np.float32(source) * weights.astype(np.float32) * factor.astype(np.float32)
    return np.asarray(product / np.float32(target), np.float32)


def requantised_sums(
    b: IntegerBuilder,
    name: str,
    factors: np.ndarray,
    limits: tuple[int, int],
    encoding: Encoding,
) -> tuple[float, bool] | None:
    """(scale, whether ReLU) by which the array itself gives the results; None where the host core must."""
    low, high = limits
    alike = factors.size == 1 or bool((factors == factors[0]).all())
    factor = float(factors[0])
    if not alike or encoding.zero or high < 127 or not math.isfinite(factor):
        return None
    if low == 0 and factor > 0:
        return float32(factor), True
    return (float32(factor), False) if low == -128 else None


def fits_sums(b: IntegerBuilder, op: Operator, depth: int, bias: np.ndarray) -> None:
    """Raises InputError where sums of so many products and a bias could leave 32 bits."""
    if depth * 128 * 128 + int(np.abs(bias).max(initial=0)) > LARGEST_SUM:
        raise b.error(op, f"sums of {depth} products and its bias do not fit into 32 bits")


def constant_factors(b: IntegerBuilder, name: str, factors: np.ndarray) -> View:
    """float32 factors as the host core reads them."""
    alike = factors[:1] if (factors == factors[0]).all() else factors
    return b.constant(f"{name}.factors", np.ascontiguousarray(alike, np.float32).view(np.int32))


def _result(b: IntegerBuilder, e: Epilogue, order: tuple[int, ...] | None) -> tuple[View, Encoding]:
    """Memory for the last operator's tensor, and how it is stored."""
    output = b.tensor(e.last.name, e.last.output.shape, order)
    return output, b.encoding(output)


def _usable(b: IntegerBuilder, op: Operator, factors: np.ndarray) -> np.ndarray:
    if not np.isfinite(factors).all():
        raise b.error(op, "its scales are beyond the range of 32-bit floating point")
    return factors


# Convolutions


def convolution(b: IntegerBuilder, op: Operator) -> None:
    """Convolution, with the padding before it and the ReLU behind it."""
    x, weight, bias = semantics_of(op).operands
    if not isinstance(weight, Parameter) or not isinstance(x, Tensor):
        raise b.error(op, "the weights of a convolution must be constants")
    padding = [before for before, _ in semantics_of(op).attributes["padding"]]
    x = unpadded(b, x, padding)
    e = follow(b, op, 1, as_given=True)
    dimensions = len(weight.shape)
    source = image_of(b, b.operand(x, op, as_given=True), op)
    given = weights_of(b, op, weight, b.scale(source), lambda x: x.transpose((*range(2, dimensions), 1, 0)))
    if dimensions == 3:
        given = GivenWeights(tuple(one[None] for one in given.parts), given.scale)
    window = ConvolutionGeometry.of(op, padding)
    output, _ = _result(b, e, CHANNELS_LAST.get(len(e.last.output.shape)))
    convolve(b, op.name, op, e, source, given, bias, window, stored_image(output))


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
    encoding = b.encoding(output)
    source, window = _padded(b, op, name, source, window, given.parts[0].shape[:2])
    unit = np.float32(b.scale(source)) * given.scale
    total = bias_numbers(b, bias, unit, e) - b.zero(source) * given.sums()
    fits_sums(b, op, math.prod(given.parts[0].shape[:-1]), total)
    factors = _usable(b, op, factors_of(b.scale(source), given.scale, encoding.scale, e.factor))
    _emit_convolution(b, name, op, e, source, given, total, window, factors, output, encoding)


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
    return padded, ConvolutionGeometry(window.stride, (0, 0), window.dilation, window.size, window.groups)


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
    encoding: Encoding,
) -> None:
    limits = limits_of(e, encoding)
    direct = requantised_sums(b, name, factors, limits, encoding) if len(given.parts) == 1 else None
    channels = given.parts[0].shape[-1]
    sources, images = tuple(e.sources), source.shape[0]
    sums: list[View] = []
    for number, weight in enumerate(given.parts):
        offsets = np.broadcast_to(bias if number == 0 else np.zeros(1, np.int64), (channels,)).astype(
            np.int32
        )
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
                window.stride,
                window.padding,
                window.dilation,
                window.size,
                window.groups,
                relu,
                scale,
            )
        )
    if not direct:
        more = sums[1] if len(sums) > 1 else None
        low, high = limits
        b.emit(
            Requantise(
                b.name(name),
                sources,
                output,
                sums[0],
                more,
                None,
                constant_factors(b, name, factors),
                encoding.zero,
                low,
                high,
            )
        )


# Matrix products


def matmul(b: IntegerBuilder, op: Operator) -> None:
    """Matrix product of two operands, of which one may be a constant."""
    left, right, bias = semantics_of(op).operands
    assert left is not None
    assert right is not None
    vector = len(right.shape) == 1
    trained = isinstance(right, Parameter)
    e = follow(
        b, op, len(op.output.shape) - 1, scalable=trained and not vector, shiftable=not vector, as_given=True
    )
    alpha = np.float32(semantics_of(op).attributes["alpha"])
    flat = flattened(b, left, op) if trained and len(right.shape) <= 2 else None
    a_view = matrix_of(b, flat.view if flat else b.operand(left, op, as_given=True), op, row=True)
    given: GivenWeights | None = None
    sums: np.ndarray | int = 0
    if isinstance(right, Parameter) and len(right.shape) <= 2:
        given = _product_weights(b, op, right, b.scale(a_view))
        if flat is not None:
            given = GivenWeights(tuple(flat.reordered(one) for one in given.parts), given.scale)
        scale, sums = given.scale, given.sums()
        operands = [b.constant(f"{op.name}.weight", one, float(scale[0])) for one in given.parts]
    else:
        operands = [matrix_of(b, b.operand(right, op, as_given=True), op, row=False)]
        scale = np.array([b.scale(operands[0])], np.float32)
    if isinstance(bias, Parameter) and len(bias.shape) and math.prod(bias.shape[:-1]) != 1:
        raise b.error(op, f"a bias of {bias.shape} is not one of columns")
    unit = np.float32(b.scale(a_view)) * scale * alpha
    total = bias_numbers(b, bias, unit, e) - b.zero(a_view) * sums
    fits_sums(b, op, a_view.shape[-1], total)
    lead = vector or len(left.shape) == 1
    output, encoding = _result(b, e, None if lead else order_for_reader(b, e.last))
    factors = _usable(b, op, factors_of(b.scale(a_view), scale, encoding.scale, e.factor * alpha))
    y_view = output
    if len(left.shape) == 1:
        y_view = inserted(y_view, len(y_view.shape) - (0 if vector else 1))
    if vector:
        y_view = inserted(y_view, len(y_view.shape))
    batch = a_view.shape[:-2]
    shaped = [batched(b, op, a_view, one, y_view, batch) for one in operands]
    offsets = np.broadcast_to(total, (y_view.shape[-1],)).astype(np.int64)
    _emit_products(b, op, e, shaped, offsets, factors, encoding, trained=given is not None)


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
    factors: np.ndarray,
    encoding: Encoding,
    *,
    trained: bool,
) -> None:
    """One product for each part of the weights; `shaped`: its operands and result."""
    limits = limits_of(e, encoding)
    left, right, output = shaped[0]
    corrected = not trained and (b.zero(left) or b.zero(right))
    direct = None
    if len(shaped) == 1 and not corrected:
        direct = requantised_sums(b, op.name, factors, limits, encoding)
    sources = tuple(e.sources)
    sums: list[View] = []
    for number, (a, weight, target) in enumerate(shaped):
        offsets = bias.astype(np.int32) if number == 0 else np.zeros(1, np.int32)
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
    if direct:
        return
    more = [*sums[1:]]
    if corrected:
        more = _corrections(b, op, left, right, output)
    rows, columns = (*more, None, None)[:2]
    low, high = limits
    b.emit(
        Requantise(
            b.name(op.name),
            sources,
            output,
            sums[0],
            rows,
            columns,
            constant_factors(b, op.name, factors),
            encoding.zero,
            low,
            high,
        )
    )


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
