"""Convolutions, matrix products and additions as integer operators of the accelerator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, part_of, semantics_of, spatial_pair
from baco.compiler.network.fusion import Epilogue, batchnorm_line, follow
from baco.compiler.network.trained_weights import LARGEST_SUM, QuantisedWeights, quantise_weights
from baco.compiler.ops.arithmetic import distinct, float32
from baco.compiler.ops.elementwise import Addition, Map
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import Requantise
from baco.compiler.ops.views import View
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Operand, Parameter
from baco.workloads.views import Reshape


class ConvolutionGeometry(NamedTuple):
    """Geometry of a convolution, (height, width), in the order in which `Convolution` has it."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    size: tuple[int, int]
    groups: int

    @classmethod
    def of(cls, op: Operator, padding: Sequence[int]) -> ConvolutionGeometry:
        """Of a convolution over one or two dimensions that are padded by `padding` in front."""
        a = semantics_of(op).attributes
        return cls(
            spatial_pair(a["stride"]),
            spatial_pair(padding, 0),
            spatial_pair(a["dilation"]),
            spatial_pair(op.output.shape[2:]),
            a["groups"],
        )


def result(b: IntegerBuilder, e: Epilogue, order: tuple[int, ...] | None) -> tuple[View, View | None]:
    """(where results go, where they go after clipping or None): memory for the last operator's tensor.

    A limit (ReLU6) needs no work where the largest int8 of the output's scale is within half a step of it or below.
    """
    shape = e.last.output.shape
    final = b.tensor(e.last.name, shape, order)
    if e.limit is None or 126.5 * b.scale(final) <= e.limit:
        return final, None
    scale = b.scale(final)
    stored = [final.shape[a] for a in b.order_like(final)]
    inverse = sorted(range(len(stored)), key=lambda i: b.order_like(final)[i])
    raw = b.value(f"{e.last.name}.unclipped", stored, scale).transposed(inverse)
    return raw, final


def clip(b: IntegerBuilder, e: Epilogue, raw: View, final: View | None) -> None:
    if final is None or e.limit is None:
        return
    limit = e.limit
    table = b.table(f"{e.last.name}.clip", lambda x: np.minimum(x, limit), b.scale(raw), b.scale(final))
    b.emit(Map(b.name(f"{e.last.name}.clip"), (e.last.name,), final, raw, table))


# Convolutions


def image_of(b: IntegerBuilder, view: View, op: Operator) -> View:
    """(N, C), (N, C, L) or (N, C, H, W) as [N, H, W, C] with evenly spaced pixels and neighbouring channels."""
    if len(view.shape) not in (2, 3, 4):
        raise b.error(op, f"{len(view.shape)} dimensions are no image")
    image = stored_image(view)
    pixels = part_of(image, 3, 0, 1).collapsed()
    flipped = any(s < 0 for s in image.strides)
    if len(pixels.shape) <= 1 and not flipped and (image.shape[3] == 1 or image.strides[3] == 1):
        return image
    return b.copied(image, op)


def stored_image(view: View) -> View:
    """The same for a result, which is always stored that way."""
    while len(view.shape) < 4:
        reshaped = view.reshaped((*view.shape[:2], 1, *view.shape[2:]))
        assert reshaped is not None
        view = reshaped
    return view.transposed((0, 2, 3, 1))


def convolution(b: IntegerBuilder, op: Operator) -> None:
    """Convolution, with the padding before it and what follows."""
    x, weight, bias, padding = convolution_operands(b, op)
    pools = len(weight.shape) == 4 and len(op.output.shape) == 4 and not b.quantiser.by_channel
    e = follow(b, op, 1, pools=pools)
    kernel, shift = kernel_of(b, weight, bias, e)
    window = ConvolutionGeometry.of(op, padding)
    source = image_of(b, b.operand(x, op), op)
    raw, final = result(b, e, CHANNELS_LAST.get(len(e.last.output.shape)))
    convolve(b, op.name, op, e, source, kernel, shift, window, stored_image(raw))
    clip(b, e, raw, final)


def convolution_operands(b: IntegerBuilder, op: Operator) -> tuple[Tensor, Parameter, Operand, list[int]]:
    """What a convolution reads behind an operator that only pads, its weights and bias, and its padding with that of the operator."""
    x, weight, bias = semantics_of(op).operands
    if not isinstance(weight, Parameter) or not isinstance(x, Tensor):
        raise b.error(op, "the weights of a convolution must be constants")
    padding = [before for before, _ in semantics_of(op).attributes["padding"]]
    return unpadded(b, x, padding), weight, bias, padding


def kernel_of(
    b: IntegerBuilder, weight: Parameter, bias: Operand, e: Epilogue
) -> tuple[np.ndarray, np.ndarray]:
    """Real weights [S, R, C, K] times the factors that follow, and the bias [K] without them."""
    dimensions = len(weight.shape)
    kernel = b.parameters.scaled(weight, e.factor.reshape(-1, *[1] * (dimensions - 1)))
    if dimensions == 3:
        kernel = kernel[:, :, None, :]
    shift = np.zeros(kernel.shape[0])
    if isinstance(bias, Parameter):
        shift = shift + b.parameters(bias).reshape(-1)
    return kernel.transpose(2, 3, 1, 0), shift


def columns_bias(b: IntegerBuilder, op: Operator, bias: Operand, columns: int) -> np.ndarray:
    """The real bias of a product, of every column or of all; zeros where it has none."""
    total = np.zeros(columns)
    if isinstance(bias, Parameter):
        added = b.parameters(bias).astype(np.float64)
        if added.ndim and math.prod(added.shape[:-1]) != 1:
            raise b.error(op, f"a bias of {added.shape} is not one of columns")
        total = total + added.reshape(-1)
    return total


def unpadded(b: IntegerBuilder, x: Tensor, padding: list[int]) -> Tensor:
    """What an operator that only pads with zeros before this convolution reads; the padding is added."""
    pad = b.folded_pads.get(x.name)
    if pad is None or pad.semantics is None:
        return x
    for i in range(len(padding)):
        padding[i] += pad.semantics.attributes["before"][2 + i]
    source = pad.semantics.operands[0]
    assert isinstance(source, Tensor)
    return source


def convolve(
    b: IntegerBuilder,
    name: str,
    op: Operator,
    e: Epilogue,
    source: View,
    weight: np.ndarray,
    bias: np.ndarray,
    window: ConvolutionGeometry,
    output: View,
) -> None:
    """Emit one convolution.

    Args:
        name: of the operator and its constants.
        op: for messages.
        e: factor, shift, ReLU and pooling.
        source: image [N, H, W, C].
        weight: real [S, R, C / groups, K], with the epilogue's factor.
        bias: real [K], before the epilogue's factor and shift.
        output: image [N, Q, P, K], pooled.
    """
    bias = bias * e.factor + e.shift
    bias = np.broadcast_to(bias, weight.shape[-1:])
    quantised = quantise_weights(
        b,
        op,
        weight,
        bias,
        math.prod(weight.shape[:3]),
        b.scale(source),
        b.ranges.mean(op.name),
        by_channel=b.quantiser.by_channel and e.pool is None,
        moments=b.moments(f"{name}.weight"),
    )
    way_out = _Rescaling(b, name, e, op, quantised.scales * b.scale(source), output)
    b.emit(
        Convolution(
            b.name(way_out.name),
            way_out.sources,
            way_out.target,
            source,
            b.constant(f"{name}.weight", quantised.integers, float(quantised.scales[0])),
            _bias(b, name, quantised, b.scale(source)),
            *window,
            way_out.relu,
            way_out.scale,
            e.pool,
        )
    )
    way_out.emit()


def _bias(b: IntegerBuilder, name: str, quantised: QuantisedWeights, source: float) -> View | None:
    if quantised.bias is None:
        return None
    return b.constant(f"{name}.bias", quantised.bias, float(quantised.scales[0]) * source)


class _Rescaling:
    """How sums of products become a result: by the array's own scale, or where channels have their own by what requantises them.

    Attributes:
        name, sources, target, relu, scale: of the product.
    """

    def __init__(
        self, b: IntegerBuilder, name: str, e: Epilogue, op: Operator, units: np.ndarray, output: View
    ) -> None:
        self._b, self._name, self._e, self._output = b, name, e, output
        self._factors = (units / b.scale(output)).astype(np.float32)
        self._direct = units.size == 1
        self.scale: float | None = None
        if self._direct:
            self.name, self.sources, self.target = name, tuple(e.sources), output
            self.relu, self.scale = e.relu, float32(float(units[0]) / b.scale(output))
        else:
            self.name, self.sources = f"{name}.sums", (op.name,)
            self.target = b.value(f"{name}.sums", output.shape, 1.0, "int32")
            self.relu = False

    def emit(self) -> None:
        """The operator behind the product, if there is one."""
        if self._direct:
            return
        b, name, sources = self._b, self._name, tuple(self._e.sources)
        factors = b.constant(f"{name}.factors", self._factors.view(np.int32))
        low = 0 if self._e.relu else -128
        b.emit(Requantise(b.name(name), sources, self._output, self.target, None, None, factors, 0, low, 127))


def batchnorm(b: IntegerBuilder, op: Operator) -> None:
    """Batch normalisation that follows no convolution: a depthwise one of 1x1."""
    factor, shift = batchnorm_line(b, op)
    e = follow(b, op, 1, pools=len(op.output.shape) == 4 and not b.quantiser.by_channel)
    source = image_of(b, b.operand(semantics_of(op).operands[0], op), op)
    raw, final = result(b, e, CHANNELS_LAST.get(len(e.last.output.shape)))
    size = (source.shape[1], source.shape[2])
    window = ConvolutionGeometry((1, 1), (0, 0), (1, 1), size, factor.size)
    weight = factor.reshape(1, 1, 1, -1) * e.factor
    convolve(b, op.name, op, e, source, weight, shift, window, stored_image(raw))
    clip(b, e, raw, final)


# Matrix products


def matmul(b: IntegerBuilder, op: Operator) -> None:
    """Matrix product of two operands, of which one may be a constant."""
    left, right, bias = semantics_of(op).operands
    shape = op.output.shape
    assert left is not None
    assert right is not None
    vector = len(right.shape) == 1  # a column: its one output channel is no dimension of the result
    trained = isinstance(right, Parameter)
    e = follow(b, op, len(shape) - 1, scalable=trained and not vector, shiftable=not vector)
    factor, shift = e.factor * semantics_of(op).attributes["alpha"], e.shift
    columns = 1 if vector else right.shape[-1]
    total = np.broadcast_to(columns_bias(b, op, bias, columns) * e.factor + shift, (columns,))

    flat = flattened(b, left, op) if trained and len(right.shape) <= 2 else None
    a_view = matrix_of(b, b.operand(left, op) if flat is None else flat.view, op, row=True)
    batch_left = a_view.shape[:-2]
    if isinstance(right, Parameter):
        real = b.parameters.scaled(right, factor)
        real = real.reshape(-1, 1) if vector else real
        mean = b.ranges.mean(op.name)
        if flat is not None:
            real = flat.reordered(real)
            mean = None if mean is None else flat.reordered(mean[:, None])[:, 0]
        quantised = quantise_weights(
            b,
            op,
            real,
            total,
            real.shape[-2],
            b.scale(a_view),
            mean if real.ndim == 2 else None,
            by_channel=b.quantiser.by_channel and real.ndim == 2 and not vector,
            moments=b.moments(f"{op.name}.weight") if real.ndim == 2 else None,
        )
        offsets, units = quantised.bias, quantised.scales * b.scale(a_view)
        b_view = b.constant(f"{op.name}.weight", quantised.integers, float(quantised.scales[0]))
    else:
        b_view = matrix_of(b, b.operand(right, op), op, row=False)
        alpha = float(np.prod(factor))
        units = np.array([b.scale(a_view) * b.scale(b_view) * alpha])
        offsets = _offsets(b, op, total, float(units[0]), a_view.shape[-1])
    out_order = None if vector or len(left.shape) == 1 else order_for_reader(b, e.last)
    raw, final = result(b, e, out_order)
    y_view = as_matrix(raw, row=len(left.shape) == 1, column=vector)
    a_view, b_view, y_view = batched(b, op, a_view, b_view, y_view, batch_left)
    way_out = _Rescaling(b, op.name, e, op, units, y_view)
    b.emit(
        MatMul(
            b.name(way_out.name),
            way_out.sources,
            way_out.target,
            a_view,
            b_view,
            None if offsets is None else b.constant(f"{op.name}.bias", offsets, float(units[0])),
            way_out.relu,
            way_out.scale,
        )
    )
    way_out.emit()
    clip(b, e, raw, final)


@dataclass(frozen=True)
class _Flattened:
    """An operand whose columns are several dimensions in the order in which they lie in memory.

    Attributes:
        view: [..., columns].
        sizes: of the dimensions that became columns, in the network's order.
        axes: their order in memory.
    """

    view: View
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    def reordered(self, weight: np.ndarray) -> np.ndarray:
        """The rows of the weights in that order."""
        split = weight.reshape(*self.sizes, weight.shape[-1])
        return split.transpose(*self.axes, len(self.sizes)).reshape(weight.shape)


def flattened(b: IntegerBuilder, x: Operand, op: Operator) -> _Flattened | None:
    """A flattened image, which trained weights can read as it lies in memory; None if that spares no copy."""
    if not isinstance(x, Tensor) or not x.steps or not isinstance(x.steps[-1], Reshape):
        return None
    if any(isinstance(step, Reshape) for step in x.steps[:-1]):
        return None  # which might need a copy itself
    view = b.viewed(b.tensors[x.name], x.steps[:-1], op)
    lead = len(x.shape) - 1
    if view.shape[:lead] != x.shape[:lead] or view.reshaped(x.shape) is not None:
        return None
    sizes = view.shape[lead:]
    axes = tuple(sorted(range(len(sizes)), key=lambda a: -view.strides[lead + a]))
    ordered = view.transposed((*range(lead), *(lead + a for a in axes))).reshaped(x.shape)
    return None if ordered is None else _Flattened(ordered, sizes, axes)


def _offsets(
    b: IntegerBuilder, op: Operator, total: np.ndarray, product: float, depth: int
) -> np.ndarray | None:
    """The bias of a product of two activations, in units of `product`."""
    room = LARGEST_SUM - depth * 128 * 128
    if room < 2**24:
        raise b.error(op, f"sums of {depth} products do not fit into 32 bits")
    if not total.any():
        return None
    return np.asarray(np.clip(np.rint(total / product), -room, room), dtype=np.int32)


def inserted(view: View, axis: int) -> View:
    """One more dimension, of one element."""
    return View(
        view.value,
        (*view.shape[:axis], 1, *view.shape[axis:]),
        (*view.strides[:axis], 0, *view.strides[axis:]),
        view.offset,
    )


def matrix_of(b: IntegerBuilder, view: View, op: Operator, row: bool) -> View:
    """An operand as [..., rows, columns]: rows contiguous, or for the right one rows or columns."""
    if len(view.shape) == 1:
        view = inserted(view, 0 if row else 1)
    strides = view.strides[-2:]
    good = view.shape[-1] == 1 or strides[1] == 1
    if not row:
        good = good or view.shape[-2] == 1 or strides[0] == 1
    if not good or any(s < 0 for s in strides):
        return b.copied(view, op)
    return view


def as_matrix(view: View, *, row: bool, column: bool) -> View:
    """The result of a product of a row, a column or both with the dimensions that they lack."""
    if row:
        view = inserted(view, len(view.shape) - (not column))
    return inserted(view, len(view.shape)) if column else view


def batched(
    b: IntegerBuilder, op: Operator, left: View, right: View, output: View, lead: tuple[int, ...]
) -> tuple[View, View, View]:
    """All with the same leading dimensions; none where one right operand serves all rows of the left one."""
    if math.prod(right.shape[:-2]) == 1:
        rows = math.prod(left.shape[:-1])
        flat_left = left.reshaped((rows, left.shape[-1]))
        flat_right = right.reshaped(right.shape[-2:])
        flat_output = output.reshaped((rows, output.shape[-1]))
        if flat_left is None:
            flat_left = b.copied(left, op).reshaped((rows, left.shape[-1]))
        if flat_output is not None and flat_right is not None and flat_left is not None:
            return flat_left, flat_right, flat_output
    batch = output.shape[:-2]
    return left.expanded((*batch, *left.shape[-2:])), right.expanded((*batch, *right.shape[-2:])), output


def order_for_reader(b: IntegerBuilder, op: Operator) -> tuple[int, ...] | None:
    """Memory order that spares the only reader a copy: of heads that it joins, say."""
    readers = b.readers(op.name)
    steps = list(readers[0][1].steps) if len(readers) == 1 else []
    parts: list[tuple[int, ...]] | None = [(axis,) for axis in range(len(op.output.shape))]
    if len(steps) > 1 and isinstance(merging := steps[0], Reshape):
        parts, steps = merged_axes(op.output.shape, merging.shape), steps[1:]
    axes = getattr(steps[0], "axes", None) if steps else None
    if axes is None or parts is None or axes[-1] != len(axes) - 1:
        return None
    return tuple(axis for part in axes for axis in parts[part])


def merged_axes(shape: Sequence[int], merged: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The dimensions of a shape that each one of another shape of as many elements consists of; None where one of them is split."""
    parts = list[tuple[int, ...]]()
    axis = 0
    for extent in merged:
        first, size = axis, 1
        while axis < len(shape) and (size < extent or (axis == first and shape[axis] == 1)):
            size *= shape[axis]
            axis += 1
        if size != extent:
            return None
        parts.append(tuple(range(first, axis)))
    return [*parts[:-1], (*parts[-1], *range(axis, len(shape)))] if parts else None


# Additions


def addition(b: IntegerBuilder, op: Operator, subtract: bool) -> None:
    """Sum or difference of two tensors, or of a tensor and a constant."""
    left, right = (b.operand(x, op) for x in semantics_of(op).operands)
    shape = op.output.shape
    e = follow(b, op, None)
    larger = left if left.words >= right.words else right
    order = b.order_like(larger.expanded(shape))
    raw, final = result(b, e, order)
    # Both are brought to the coarser of the two scales, so that neither saturates on the way in. Zeros have any scale: theirs
    # must not be the coarser one.
    scales = [b.scale(view) for view in (left, right)]
    counted = [s for s, x in zip(scales, semantics_of(op).operands, strict=True) if not _is_zero(b, x)]
    common = max(counted or scales)
    for operand, view in zip(semantics_of(op).operands, (left, right), strict=True):
        if isinstance(operand, Tensor) and len(b.readers(operand.name)) == 1:
            _rescale(b, view.value, common)
    b.emit(
        Addition(
            b.name(op.name),
            tuple(e.sources),
            raw,
            left.expanded(shape),
            right.expanded(shape),
            float32(min(b.scale(left) / common, 1.0)),
            float32((-1 if subtract else 1) * min(b.scale(right) / common, 1.0)),
            float32(common / b.scale(raw)),
            e.relu,
        )
    )
    clip(b, e, raw, final)


def _is_zero(b: IntegerBuilder, operand: Operand) -> bool:
    """Whether a constant, or an activation as far as it was seen, is zero everywhere."""
    if isinstance(operand, Parameter):
        return not distinct(b.parameters(operand)).any()
    return operand is not None and b.ranges.largest.get(operand.name) == 0


def _rescale(b: IntegerBuilder, name: str, scale: float) -> None:
    """Have the result of a convolution in units of `scale` at once, in which it is added: it is rounded once, not twice."""
    writers = [n for n, operator in enumerate(b.operators) if operator.output.value == name]
    convolution = b.operators[writers[0]] if len(writers) == 1 else None
    read = any(view.value == name for operator in b.operators for view in operator.inputs)
    if isinstance(convolution, Convolution) and not read:
        b.values[name] = replace(b.values[name], scale=scale)
        product = b.scale(convolution.input) * b.scale(convolution.weight)
        b.operators[writers[0]] = replace(convolution, scale=float32(product / scale))
