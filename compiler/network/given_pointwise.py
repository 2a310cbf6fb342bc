"""Everything but contractions of models that are quantised already, in their own whole numbers: tables, averages, softmax, parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco.compiler.layers.reference import requantise
from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, part_of, semantics_of, spatial_pair
from baco.compiler.network.cones import Cone
from baco.compiler.network.float_graph import pool_counts
from baco.compiler.network.functions import pair_tables
from baco.compiler.network.given_floats import round_real
from baco.compiler.network.given_sums import constant_factors, fits_sums, requantised_sums
from baco.compiler.network.host_operators import image_operand, moves, rows_summed
from baco.compiler.network.tensor_operators import stored_image
from baco.compiler.ops.arithmetic import float32
from baco.compiler.ops.elements import Decoded
from baco.compiler.ops.elementwise import Addition, BinaryTable, Map
from baco.compiler.ops.products import SumOfRows
from baco.compiler.ops.requantisation import (
    Requantise,
    RowSums,
    ScaledPair,
    ScaledSoftmax,
    WindowAverage,
    encoded,
)
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding
from baco.workloads.network import Operator, Tensor

Array = np.ndarray
#: Bytes, as elements.
_BYTES = np.arange(-128, 128)
#: Results of 65,536 that may fall on the other side of a tie, since float32 operations come in another order.
_MOST_TIES = 64


def pointwise(b: IntegerBuilder, op: Operator, cone: Cone) -> None:
    """A table of 256 results, or of 256 x 256 of two operands; a table a channel where constants differ; real numbers where the
    model does not round them."""
    shape, sources = op.output.shape, (*cone.operators, op.name)
    views = [b.operand(x, op, as_given=True).expanded(shape) for x in cone.sources]
    wide = next((one for one in views if moves(one)), None)
    order = None if wide is None else b.order_like(wide)
    output = b.tensor(op.name, shape, order, dtype="float32" if op.name in b.real else "int8")
    numbers = [b.encoding(view).real(_BYTES) for view in views]
    if len(views) == 2:
        numbers = [numbers[0][:, None], numbers[1][None, :]]
    size = (256,) * len(views)
    for channel in range(1 if cone.axis is None else shape[cone.axis]):
        with np.errstate(all="ignore"):
            real = np.broadcast_to(cone.function(numbers, channel), size)
        label, target, parts = op.name, output, views
        if cone.axis is not None:
            label = f"{op.name}.{channel}"
            target, *parts = (part_of(view, cone.axis, channel, 1) for view in (output, *views))
        if op.name in b.real:
            table = b.constant(f"{label}.table", np.asarray(real, np.float32))
            b.emit(Decoded(b.name(label), sources, target, parts[0], table))
            continue
        entries = b.encoding(output).whole(real).astype(np.int8)
        if len(views) == 2 and _emit_pair(b, op, sources, target, (parts[0], parts[1]), entries):
            return
        table = b.constant(f"{label}.table", entries)
        if len(views) == 1:
            b.emit(Map(b.name(label), sources, target, parts[0], table))
        else:
            b.emit(BinaryTable(b.name(label), sources, target, parts[0], parts[1], table))


def _emit_pair(
    b: IntegerBuilder,
    op: Operator,
    sources: tuple[str, ...],
    output: View,
    views: tuple[View, View],
    entries: Array,
) -> bool:
    """A sum or product of two operands, limited, if that is what the table [256, 256] holds: the host core takes a third of the
    time that a table of 64 KiB takes it, and the array adds what has one scale."""
    encoding = b.encoding(output)
    low, high = int(entries.min()), int(entries.max())
    real = [b.encoding(view).real(_BYTES) for view in views]
    sums = _BYTES[:, None] + _BYTES[None, :]
    if b.scale(views[0]) == b.scale(views[1]) and high == 127 and low in (-128, 0):
        scale = float32(b.scale(views[0]) / encoding.scale)
        added = np.maximum(sums, low) if low == 0 else sums
        if np.array_equal(requantise(added, scale), entries):
            b.emit(Addition(b.name(op.name), sources, output, *views, 1.0, 1.0, scale, low == 0))
            return True
    exactly = "units" in semantics_of(op).attributes
    found = _pair_tables(_candidates(op, real, encoding), entries, (low, high), exactly)
    if found is None:
        return False
    constant = b.constant(f"{op.name}.reals", found.tables.view(np.int32))
    limits = found.zero, low, high
    b.emit(
        ScaledPair(
            b.name(op.name),
            sources,
            output,
            *views,
            constant,
            found.product,
            *limits,
            found.inside,
            found.ratio,
        )
    )
    return True


@dataclass(frozen=True)
class _PairTables:
    """What a `ScaledPair` computes with.

    Attributes:
        tables: [2, 256].
    """

    tables: Array
    product: bool
    zero: int
    inside: int = 0
    ratio: float = 1.0

    def results(self, limits: tuple[int, int]) -> Array:
        """[256, 256], int64."""
        left, right = self.tables[0][:, None], self.tables[1][None, :]
        real = left + right
        if self.product:
            real = left * right * np.float32(self.ratio) + np.float32(self.inside)
        return encoded(real, self.zero, *limits).astype(np.int64)

    def fitted(self, entries: Array, columns: Array) -> _PairTables:
        """With right numbers, of some columns, in the middle of those that give all of their column's `entries`, which are limited."""
        left, steps = self.tables[0].astype(np.float64)[:, None], entries - self.zero - self.inside
        least = np.where(steps > steps.min(), steps - 0.5, -np.inf)
        most = np.where(steps < steps.max(), steps + 0.5, np.inf)
        if self.product:
            with np.errstate(all="ignore"):
                ends = np.stack([least, most]) / (left * self.ratio)
            ends = np.where(left == 0, [[[-np.inf]], [[np.inf]]], ends)
            least, most = ends.min(0), ends.max(0)
        else:
            least, most = least - left, most - left
        middle = (least.max(0) + most.min(0)) / 2
        right = np.where(columns & np.isfinite(middle), middle, self.tables[1])
        return replace(self, tables=np.stack([self.tables[0], right]).astype(np.float32))


def _candidates(op: Operator, real: Sequence[Array], encoding: Encoding) -> Iterator[_PairTables]:
    """What may give a pair's results, from real numbers (256,) that the bytes of both operands stand for."""
    by, a = np.float32(encoding.scale), semantics_of(op).attributes
    exact = None
    if "units" in a:
        tables, ratio, inside = pair_tables(a["name"], real[0], real[1], a["units"])
        zero = encoding.zero - int(a["units"][5])
        exact = _PairTables(tables, a["name"] == "mul", zero, int(inside), ratio)
    if exact is not None and not exact.product:
        yield exact
    yield _PairTables(np.stack([real[0] / by, real[1] / by]), False, encoding.zero)
    yield _PairTables(np.stack([real[0] / by, real[1]]), True, encoding.zero)
    if exact is not None and exact.product:
        yield exact  # last: a third more work than the product above


def _pair_tables(
    candidates: Iterable[_PairTables], entries: Array, limits: tuple[int, int], exactly: bool
) -> _PairTables | None:
    """The first that gives certain results [256, 256], if need be with other numbers of the right operand; None for none. Unless it must
    do so exactly, some results may be a step aside, since float32 operations come in another order."""
    near = None
    for one in candidates:
        apart = one.results(limits) - entries
        if not apart.any():
            return one
        if np.abs(apart).max() > 1:
            continue
        fitted = one.fitted(entries, apart.any(0))
        if np.array_equal(fitted.results(limits), entries):
            return fitted
        if not exactly and near is None and np.count_nonzero(apart) <= _MOST_TIES:
            near = one
    return near


def _re_encoded(b: IntegerBuilder, op: Operator, name: str, view: View, output: View) -> None:
    """The same numbers in the encoding of `output`."""
    source, target = b.encoding(view), b.encoding(output)
    table = None
    if (
        (source.scale, source.zero) != (target.scale, target.zero)
        or source.low < target.low
        or source.high > target.high
    ):
        table = b.constant(f"{name}.table", target.whole(source.real(_BYTES)).astype(np.int8))
    b.emit(Map(b.name(name), (op.name,), output, view, table))


def quantise(b: IntegerBuilder, op: Operator) -> None:
    """Rounding of what is not computed in the model's whole numbers already."""
    (x,) = semantics_of(op).operands
    view = b.operand(x, op, None, as_given=True)
    value = b.values[view.value]
    if value.dtype == "float32":
        round_real(b, op, view)
        return
    if value.dtype != "int8":
        view = b.operand(x, op, as_given=True)
    if value.encoding is not None and value.encoding == b.encodings.get(op.name):
        b.tensors[op.name] = view
        return
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    _re_encoded(b, op, op.name, view, output)


def decode(b: IntegerBuilder, op: Operator) -> None:
    """Whole numbers that the user gives: what memory holds already."""
    (x,) = semantics_of(op).operands
    assert isinstance(x, Tensor)
    encoding: Encoding = semantics_of(op).attributes["encoding"]
    view = b.operand(x, op, as_given=True)
    if b.encodings.get(x.name) == encoding.stored:
        b.whole[x.name] = encoding
        b.tensors[op.name] = view
        return
    raise b.error(op, f"'{x.name}' is read in several encodings, which is not supported")


def encode(b: IntegerBuilder, op: Operator) -> None:
    """Whole numbers for the user: what memory holds already."""
    (x,) = semantics_of(op).operands
    assert isinstance(x, Tensor)
    b.tensors[op.name] = b.operand(x, op, as_given=True)
    b.whole[op.name] = semantics_of(op).attributes["encoding"]


# Averages


def average_pool(b: IntegerBuilder, op: Operator) -> None:
    """Averages of windows."""
    a = semantics_of(op).attributes
    view = image_operand(b, op, as_given=True)
    output = b.tensor(op.name, op.output.shape, CHANNELS_LAST[len(op.output.shape)])
    encoding = b.encoding(output)
    counts = pool_counts(dict(a), view.shape[2:])
    unit = a.get("rounded_with")
    scales, inside = ((b.scale(view), encoding.scale), int(unit[1])) if unit else (None, 0)
    factors = counts.astype(np.float32)
    if scales is None:
        factors = np.float32(b.scale(view)) / (factors * np.float32(encoding.scale))
    bits = np.ascontiguousarray(factors.reshape(spatial_pair(a["shape"])), np.float32).view(np.int32)
    b.emit(
        WindowAverage(
            b.name(op.name),
            (op.name,),
            stored_image(output),
            stored_image(view),
            b.constant(f"{op.name}.factors", bits),
            spatial_pair(a["kernel"]),
            spatial_pair(a["stride"]),
            spatial_pair(tuple(p[0] for p in a["padding"]), 0),
            b.zero(view),
            encoding.zero - inside,
            encoding.low,
            encoding.high,
            scales,
            inside,
        )
    )


def mean(b: IntegerBuilder, op: Operator) -> None:
    """Means and sums along dimensions: sums of rows by the array where columns are neighbours, else by the host core."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op, as_given=True)
    rank = len(view.shape)
    axes = sorted(axis % rank for axis in a["axes"])
    kept = [axis for axis in range(rank) if axis not in axes]
    arranged = view.transposed((*kept, *axes))
    count = math.prod(view.shape[axis] for axis in axes)
    output = b.tensor(op.name, op.output.shape, None)
    encoding = b.encoding(output)
    target = output.reshaped([view.shape[axis] for axis in kept])
    assert target is not None
    divisor = np.float32(count if a["name"] == "mean" else 1)
    factors = np.array([np.float32(b.scale(view)) / (divisor * np.float32(encoding.scale))], np.float32)
    bias = np.array([-b.zero(view) * count])
    fits_sums(b, op, np.array([count]), bias)
    rows = rows_summed(arranged, len(axes))
    limits = encoding.low, encoding.high
    if rows is None:
        merged = View(view.value, arranged.shape[len(kept) :], arranged.strides[len(kept) :]).collapsed()
        if len(merged.shape) > 1:
            arranged = b.copied(arranged, op)
        lead = tuple(arranged.shape[: len(kept)])
        step = merged.strides[0] if len(merged.shape) == 1 else 1
        line = View(arranged.value, (*lead, count), (*arranged.strides[: len(kept)], step), arranged.offset)
        sums = b.value(f"{op.name}.sums", lead, 1.0, "int32")
        b.emit(RowSums(b.name(f"{op.name}.sums"), (op.name,), sums, line, 1, int(bias[0])))
        _requantised(b, op, target, sums, factors, encoding)
        return
    ones = b.constant(f"ones{count}", np.ones((1, count), np.int8))
    batch = rows.shape[:-2]
    left = View(ones.value, (*batch, 1, count), (*(0 for _ in batch), count, 1), ones.offset)
    columns = rows.shape[-1]
    direct = None if encoding.zero else requantised_sums(b, op.name, factors, limits, encoding)
    flat = target if direct else b.value(f"{op.name}.sums", target.shape, 1.0, "int32")
    row = View(flat.value, (*batch, 1, columns), (*flat.strides[:-1], columns, 1), flat.offset)
    offsets = np.full(columns, bias[0], np.int32)
    scale, relu = direct or (None, False)
    b.emit(
        SumOfRows(
            b.name(op.name if direct else f"{op.name}.sums"),
            (op.name,),
            row,
            left,
            rows,
            b.constant(f"{op.name}.bias", offsets) if bias[0] else None,
            relu,
            scale,
        )
    )
    if not direct:
        _requantised(b, op, target, flat, factors, encoding)


def _requantised(
    b: IntegerBuilder, op: Operator, output: View, sums: View, factors: Array, encoding: Encoding
) -> None:
    by = constant_factors(b, op.name, factors)
    three = encoding.zero, encoding.low, encoding.high
    b.emit(Requantise(b.name(op.name), (op.name,), output, sums, None, None, by, *three))


# Rows and parts


def softmax(b: IntegerBuilder, op: Operator) -> None:
    """Softmax along one dimension, which no zero point of its input changes."""
    view = b.operand(semantics_of(op).operands[0], op, as_given=True)
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    axis = semantics_of(op).attributes["axis"] % len(view.shape)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    steps = np.arange(256) * float(np.float32(b.scale(view)))
    exponentials = np.exp(-steps).astype(np.float32)
    encoding = b.encoding(output)
    b.emit(
        ScaledSoftmax(
            b.name(op.name),
            (op.name,),
            output.transposed(last),
            view.transposed(last),
            b.constant(f"{op.name}.exponentials", exponentials.view(np.int32)),
            encoding.scale,
            encoding.zero,
            encoding.low,
            encoding.high,
        )
    )


def concat(b: IntegerBuilder, op: Operator) -> None:
    """Copies of the parts that were not written in place, in the encoding of the whole."""
    axis = semantics_of(op).attributes["axis"]
    views = [b.operand(x, op, as_given=True) for x in semantics_of(op).operands]
    if op.name not in b.tensors:
        b.tensor(op.name, op.output.shape, b.order_like(max(views, key=lambda one: one.words)))
    whole, start = b.tensors[op.name], 0
    for number, view in enumerate(views):
        part = part_of(whole, axis, start, view.shape[axis])
        start += view.shape[axis]
        if part != view:
            _re_encoded(b, op, f"{op.name}.part{number}", view, part)
