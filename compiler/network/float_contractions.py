"""Networks on arrays of floating point or int16: which tensors are codes, and convolutions and products of codes.

* A tensor that a convolution or product reads is stored in codes. Those of 8 bits are times a power of two of its own by which the largest
  magnitude that was seen is just below the format's; those of bfloat16, which reaches as far as sums, are the numbers themselves. So are
  trained weights and tables of embeddings. All that reads the tensor reads what is left of it.
* A convolution or product adds up as `baco.compiler.layers.float_sums` says, from a float32 bias in units of the products. What
  follows and can be folded is (factors, ReLU, maxima over windows behind a ReLU). Codes are rounded from the sums at once, by the
  ratio of the powers of two; where nothing reads codes, or the ratio is none, sums are stored as they are and the host goes on.
* An addition whose result is stored in codes reads codes, too, where both operands are tensors of its shape: the array adds them
  (`baco.compiler.ops.elements.CodedSum`), of codes of 8 bits.
* Trained weights of bfloat16 may be numbers of blocks with shared powers of two, along channels (`Quantiser.block_weights`).
* All else is float32, by the host core: the operators of `given_floats`, which round to codes where the result is to be some.
* Of int16 codes are whole numbers, of any scale (`baco.compiler.network.wide_integers`), the bias is int32 and sums are, which the host
  core makes real numbers where they are stored; ratios of scales are any float32. All else is as of bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from baco.accel.number_formats import FORMATS, FloatFormat
from baco.compiler.layers.weight_blocks import in_blocks
from baco.compiler.layers.wide_sums import ArraySums, WideSums
from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.calibrate import Ranges
from baco.compiler.network.fusion import Epilogue, follow, rectifier
from baco.compiler.network.given_floats import round_real
from baco.compiler.network.real_values import real_function, real_name, real_pair
from baco.compiler.network.tensor_operators import (
    ConvolutionGeometry,
    as_matrix,
    batched,
    columns_bias,
    convolution_operands,
    flattened,
    image_of,
    kernel_of,
    matrix_of,
    order_for_reader,
    stored_image,
)
from baco.compiler.network.wide_integers import (
    MOST,
    READS,
    SUMS,
    weights_encoding,
    wide_encoding,
    wide_encodings,
)
from baco.compiler.ops.arithmetic import distinct
from baco.compiler.ops.elements import CodedSum, ScaledIntegers
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding, FloatEncoding, WideEncoding
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter

#: Functions that are computed on codes as on what they stand for.
_HANDS_ON = ("identity", "pad")


def float_encodings(
    network: Network, ranges: Ranges, floats: ArraySums, indices: Container[str] = ()
) -> dict[str, Encoding]:
    """Encoding of every tensor that is stored in codes, by the name of its operator or input.

    Args:
        network: as it is run.
        indices: inputs that hold positions.
    """
    found: dict[str, Encoding] = {}
    operators = {op.name: op for op in network.operators}
    readers: dict[str, list[Operator]] = {}
    for op in network.operators:
        for x in semantics_of(op).operands:
            if isinstance(x, Tensor):
                readers.setdefault(x.name, []).append(op)
    outputs = {x.name for _, x in network.named_outputs}
    wide = wide_encodings(network, ranges, indices) if isinstance(floats, WideSums) else {}
    for op in network.operators:
        for x in semantics_of(op).operands[READS.get(semantics_of(op).function, slice(0))]:
            if isinstance(x, Tensor) and x.name not in indices:
                found[x.name] = wide.get(x.name) or _encoding(floats, ranges[x.name])
        if semantics_of(op).function == "embedding":
            found[op.name] = wide.get(op.name) or _encoding(floats, ranges[op.name])
    for op in reversed(network.operators):
        if not floats.wide and _sum_in_codes(op, found, readers):
            for x in semantics_of(op).operands:
                if isinstance(x, Tensor) and x.name not in indices:
                    found.setdefault(x.name, _encoding(floats, ranges[x.name]))
        # a border of zeros is put around codes as around numbers
        source = semantics_of(op).operands[0] if semantics_of(op).operands else None
        only = isinstance(source, Tensor) and source.name not in outputs and readers[source.name] == [op]
        zeros = semantics_of(op).attributes.get("value", 0) == 0
        if op.name in found and semantics_of(op).function in _HANDS_ON and only and zeros:
            assert isinstance(source, Tensor)
            if source.name in operators:
                found.setdefault(source.name, found[op.name])
    return found


def _sum_in_codes(op: Operator, codes: Container[str], readers: Mapping[str, Sequence[Operator]]) -> bool:
    """Whether an operator adds two tensors of its shape, and what comes of that, or of a ReLU behind it, is stored in codes."""
    meaning = semantics_of(op)
    if meaning.function != "binary" or meaning.attributes["name"] != "add":
        return False
    if any(not isinstance(x, Tensor) or x.steps or x.shape != op.output.shape for x in meaning.operands):
        return False
    behind = readers.get(op.name, ())
    return op.name in codes or (
        len(behind) == 1 and rectifier(behind[0]) == (True, None) and behind[0].name in codes
    )


def adds_codes(b: IntegerBuilder, op: Operator) -> bool:
    """Whether an operator is an addition of codes whose scales the array can multiply by."""
    reader = b.reader(op.name)
    if _floats(b).wide:
        return False
    if not _sum_in_codes(op, b.encodings, {op.name: [] if reader is None else [reader]}):
        return False
    operands = [b.encodings.get(x.name) for x in semantics_of(op).operands if isinstance(x, Tensor)]
    if not all(isinstance(one, FloatEncoding) for one in operands):
        return False
    scales = [one.scale for one in operands if one is not None]
    form = FORMATS[_floats(b).form]
    assert isinstance(form, FloatFormat)
    return min(scales) / max(scales) >= 2.0 ** (1 - form.bias - form.fraction_bits)


def coded_sums(b: IntegerBuilder) -> frozenset[str]:
    """Names of the additions of codes and of the operators whose results these store."""
    sums = [op for op in b.network.operators if semantics_of(op).function == "binary" and adds_codes(b, op)]
    behind = (b.reader(op.name) for op in sums if op.name not in b.encodings)
    return frozenset(op.name for op in [*sums, *behind] if op is not None)


def addition(b: IntegerBuilder, op: Operator) -> None:
    """Sum of two tensors in codes, and a ReLU that follows."""
    left, right = (b.operand(x, op, as_given=True) for x in semantics_of(op).operands)
    e = follow(b, op, None, as_given=True)
    final = b.tensor(e.last.name, op.output.shape, b.order_like(left))
    unit = max(b.scale(left), b.scale(right))
    numbers = FloatEncoding(1.0, 0, -128, 127, _floats(b).form).real(np.arange(-128, 128))
    table = b.constant(f"{op.name}.numbers", numbers.astype(np.float32))
    scales = b.scale(left) / unit, b.scale(right) / unit, unit / b.scale(final)
    sources = tuple(e.sources)
    b.emit(CodedSum(b.name(op.name), sources, final, left, right, table, *scales, e.relu, _floats(b).form))


def _encoding(floats: ArraySums, largest: float) -> FloatEncoding | WideEncoding:
    """Of numbers up to `largest` in magnitude."""
    if isinstance(floats, WideSums):
        return wide_encoding(largest)
    form = FORMATS[floats.form]
    assert isinstance(form, FloatFormat)
    power = math.ceil(math.log2(largest / form.largest)) if largest and not floats.wide else 0
    return FloatEncoding(math.ldexp(1.0, power), 0, -128, 127, floats.form)


def convolution(b: IntegerBuilder, op: Operator) -> None:
    """Convolution, with the padding before it and what follows."""
    x, weight, bias, padding = convolution_operands(b, op)
    e = _followed(b, op, 1, pools=len(weight.shape) == 4)
    kernel, shift = kernel_of(b, weight, bias, e)
    window = ConvolutionGeometry.of(op, padding)
    source = image_of(b, b.operand(x, op, as_given=True), op)
    total = shift * e.factor + e.shift
    kernel = _in_blocks(b, kernel)
    weights = _weights(
        b, f"{op.name}.weight", kernel, kernel.reshape(-1, kernel.shape[-1]), total, source, blocks=True
    )
    offsets = _bias(b, op, total, b.scale(source) * b.scale(weights), len(shift))

    def emit(name: str, output: View, relu: bool, scale: float | None) -> None:
        b.emit(
            Convolution(
                name,
                tuple(e.sources),
                stored_image(output),
                source,
                weights,
                offsets,
                *window,
                relu,
                scale,
                e.pool,
                _floats(b),
            )
        )

    order = CHANNELS_LAST.get(len(e.last.output.shape))
    _results(b, op, e, order, b.scale(source) * b.scale(weights), 1.0, emit)


def matmul(b: IntegerBuilder, op: Operator) -> None:
    """Matrix product of two operands, of which one may be a constant."""
    left, right, bias = semantics_of(op).operands
    shape = op.output.shape
    assert left is not None
    assert right is not None
    vector = len(right.shape) == 1
    trained = isinstance(right, Parameter)
    e = _followed(b, op, len(shape) - 1, scalable=trained and not vector, shiftable=not vector)
    alpha = semantics_of(op).attributes["alpha"]
    columns = 1 if vector else right.shape[-1]
    total = columns_bias(b, op, bias, columns) * e.factor + e.shift
    flat = flattened(b, left, op) if trained and len(right.shape) <= 2 else None
    a_view = matrix_of(b, _operand(b, left, right, op) if flat is None else flat.view, op, row=True)
    batch = a_view.shape[:-2]
    factor = 1.0
    if isinstance(right, Parameter):
        weight = b.parameters.scaled(right, e.factor * alpha)
        weight = weight.reshape(-1, 1) if vector else weight
        weight = weight if flat is None else flat.reordered(weight)
        weight = _in_blocks(b, weight)
        b_view = _weights(b, f"{op.name}.weight", weight, weight, total, a_view, blocks=True)
    else:
        b_view = matrix_of(b, _operand(b, right, left, op), op, row=False)
        factor = float(np.prod(e.factor)) * alpha
    unit = b.scale(a_view) * b.scale(b_view)
    offsets = _bias(b, op, total / factor, unit, columns)

    def emit(name: str, output: View, relu: bool, scale: float | None) -> None:
        y_view = as_matrix(output, row=len(left.shape) == 1, column=vector)
        views = batched(b, op, a_view, b_view, y_view, batch)
        sources = tuple(e.sources)
        b.emit(MatMul(name, sources, views[2], *views[:2], offsets, relu, scale, _floats(b)))

    order = None if vector or len(left.shape) == 1 else order_for_reader(b, e.last)
    _results(b, op, e, order, unit, factor, emit)


def _floats(b: IntegerBuilder) -> ArraySums:
    assert b.quantiser.floats is not None
    return b.quantiser.floats


def _operand(b: IntegerBuilder, x: Operand, other: Operand, op: Operator) -> View:
    """An operand of a product, a constant one by what it is multiplied by: a left one."""
    if isinstance(x, Parameter):
        numbers = b.parameters(x)
        read = b.operand(other, op, as_given=True) if isinstance(other, Tensor) else None
        return _weights(b, x.name, numbers, np.swapaxes(np.atleast_2d(numbers), -1, -2), np.zeros(1), read)
    return b.operand(x, op, as_given=True)


def _weights(
    b: IntegerBuilder,
    name: str,
    numbers: np.ndarray,
    matrix: np.ndarray,
    offsets: np.ndarray,
    read: View | None,
    *,
    blocks: bool = False,
) -> View:
    """A constant in codes, by a scale of its own.

    Args:
        matrix: the same [..., K, N], of which each column is summed up.
        offsets: what is added to sums, real numbers.
        read: what it is multiplied by; None for another constant.
        blocks: its numbers are those of `_in_blocks`.
    """
    encoding: Encoding = _encoding(_floats(b), float(np.abs(numbers).max(initial=0.0)))
    if isinstance(encoding, WideEncoding):
        other = WideEncoding(1.0, 0, -MOST, MOST) if read is None else b.encoding(read)
        assert isinstance(other, WideEncoding)
        encoding = weights_encoding(matrix, offsets, other)
    form = b.quantiser.block_weights if blocks else None
    return b.constant(name, encoding.whole(numbers), encoding=encoding, blocks=form)


def _in_blocks(b: IntegerBuilder, weights: np.ndarray) -> np.ndarray:
    """What is left of trained weights [..., C, K] in the quantiser's blocks of channels, if it has some."""
    form = b.quantiser.block_weights
    if form is None:
        return weights
    # what is the same along a dimension is the same in its blocks
    return np.broadcast_to(in_blocks(form, distinct(weights)), weights.shape)


def _bias(b: IntegerBuilder, op: Operator, numbers: np.ndarray, unit: float, channels: int) -> View | None:
    """Constant in units of the products, of the type of sums."""
    if not numbers.any():
        return None
    if isinstance(_floats(b), WideSums):
        whole = np.rint(np.broadcast_to(numbers / unit, (channels,)))
        if np.abs(whole).max() >= SUMS // 2 and not isinstance(semantics_of(op).operands[1], Parameter):
            raise b.error(op, "its bias is beyond the range of 32-bit sums")
        return b.constant(f"{op.name}.bias", whole.astype(np.int32))
    line = np.broadcast_to(numbers / unit, (channels,)).astype(np.float32)
    if not np.isfinite(line).all():
        raise b.error(op, "its bias is beyond the range of 32-bit floating point")
    return b.constant(f"{op.name}.bias", line)


def _followed(
    b: IntegerBuilder,
    op: Operator,
    axis: int,
    *,
    scalable: bool = True,
    shiftable: bool = True,
    pools: bool = False,
) -> Epilogue:
    """What is computed with a contraction; maxima over windows where the result is in codes."""
    e = follow(b, op, axis, scalable=scalable, shiftable=shiftable, pools=pools, as_given=True)
    if e.pool is None or (e.last.name in b.encodings and e.limit is None):
        return e
    b.done.difference_update(e.sources[1:])
    return _followed(b, op, axis, scalable=scalable, shiftable=shiftable)


def _in_one_step(b: IntegerBuilder, e: Epilogue, ratio: float, final: Encoding) -> bool:
    """Whether the array stores results of an encoding, of which sums are `ratio`, as they are to be."""
    if not 2.0**-126 <= ratio <= 2.0**127 or (e.limit is not None and _floats(b).wide):
        return False
    if isinstance(final, WideEncoding):
        # it saturates there, and at 0 behind a ReLU
        return final.high == MOST and (e.relu or final.low < 0)
    return math.frexp(ratio)[0] == 0.5


def _results(
    b: IntegerBuilder,
    op: Operator,
    e: Epilogue,
    order: tuple[int, ...] | None,
    unit: float,
    factor: float,
    emit: Callable[[str, View, bool, float | None], None],
) -> None:
    """How sums become the last operator's result.

    Args:
        order: of its dimensions in memory.
        unit: of the sums.
        factor: that real numbers have beside, not negative where there is a ReLU.
        emit: adds the contraction of a name: where results go, ReLU, scale (None: sums).
    """
    shape = e.last.output.shape
    if e.last.name in b.encodings:
        final = b.tensor(e.last.name, shape, order)
        ratio = unit * factor / b.scale(final)
        if _in_one_step(b, e, ratio, b.encoding(final)):
            raw = final
            if e.limit is not None:
                stored = b.order_like(final)
                inverse = sorted(range(len(stored)), key=lambda i: stored[i])
                label, sizes = f"{e.last.name}.unclipped", [final.shape[a] for a in stored]
                raw = b.value(label, sizes, 1.0, encoding=b.encoding(final)).transposed(inverse)
            emit(b.name(op.name), raw, e.relu, ratio)
            if e.limit is not None:
                limited = np.fmin(b.encoding(final).real(np.arange(-128, 128)), np.float32(e.limit))
                table = b.constant(f"{e.last.name}.clip", b.encoding(final).whole(limited))
                b.emit(Map(b.name(f"{e.last.name}.clip"), (e.last.name,), final, raw, table))
            return
        del b.tensors[e.last.name]
    axes = order or tuple(range(len(shape)))
    inverse = sorted(range(len(axes)), key=lambda i: axes[i])
    extents = [shape[a] for a in axes]
    view = b.value(f"{op.name}.sums", extents, 1.0, _floats(b).sum_type).transposed(inverse)
    emit(b.name(f"{op.name}.sums"), view, False, None)
    if isinstance(_floats(b), WideSums):
        sums, view = view, b.value(f"{op.name}.real", extents, 1.0, "float32").transposed(inverse)
        b.emit(ScaledIntegers(real_name(b, op), (op.name,), view, sums, unit * factor))
    elif unit * factor != 1:
        view = real_pair(b, op, "mul", view, unit * factor)
    if e.relu:
        view = real_function(b, op, "clip", view, 0.0, math.inf if e.limit is None else e.limit)
    if e.last.name in b.encodings:
        round_real(b, e.last, view)
    else:
        b.tensors[e.last.name] = view
