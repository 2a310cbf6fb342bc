"""Everything that the host core computes, as integer operators: tables, normalisation, pooling, data movement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from baco.compiler.network.builder import (
    CHANNELS_LAST,
    IntegerBuilder,
    numbers_of,
    part_of,
    rounded,
    semantics_of,
    spatial_pair,
)
from baco.compiler.network.float_graph import cropped, pool_counts, rope_angles
from baco.compiler.network.functions import binary, unary
from baco.compiler.network.resample import resample_axis
from baco.compiler.network.tensor_operators import addition, stored_image
from baco.compiler.ops.arithmetic import fixed_point, float32
from baco.compiler.ops.elementwise import Addition, BinaryTable, Fill, Map, Multiplication
from baco.compiler.ops.images import AveragePool, MaxPool, Resize
from baco.compiler.ops.lookup import Embedding, Rotation
from baco.compiler.ops.products import SumOfRows
from baco.compiler.ops.rows import Reduction, TermSum
from baco.compiler.ops.views import JoinedView, View
from baco.compiler.row_functions import PRODUCT_BITS
from baco.workloads.encoding import FloatEncoding, WideEncoding
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Parameter

#: Columns from which on rows are summed up by the array: fewer fill too little of it.
_LEAST_COLUMNS = 16

#: Function of a real number, and of an array of them.
Pointwise = Callable[[np.ndarray], np.ndarray]


# Pointwise


def pointwise(b: IntegerBuilder, op: Operator) -> Pointwise | None:
    """What the operator does to each element alone; None if it is no such operator."""
    a = semantics_of(op).attributes
    if semantics_of(op).function == "identity":
        return lambda x: x
    if semantics_of(op).function == "unary":
        name, numbers = a["name"], a["numbers"]
        return lambda x: unary(name, x, numbers)
    if semantics_of(op).function != "binary":
        return None
    name = a["name"]
    left, right = semantics_of(op).operands
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        same = left.name == right.name and left.steps == right.steps
        return (lambda x: binary(name, x, x)) if same else None
    parameter = left if isinstance(left, Parameter) else right
    if not isinstance(parameter, Parameter) or math.prod(parameter.shape) != 1:
        return None
    value = b.parameters(parameter).astype(np.float64).reshape(())
    if parameter is left:
        return lambda x: binary(name, value, x)
    return lambda x: binary(name, x, value)


def table(b: IntegerBuilder, op: Operator, function: Pointwise) -> None:
    """A row of pointwise operators as one table: gates too, which take what the row began with once more (x · sigmoid(x))."""
    source = next(x for x in semantics_of(op).operands if isinstance(x, Tensor))
    last, sources = op, [op.name]
    while (following := b.reader(last.name)) is not None and following.output.shape == op.output.shape:
        if following.name in b.encodings:
            break
        further, gated = pointwise(b, following), _gated(following, source, last, function)
        if further is not None:
            function = _composed(function, further)
        elif gated is not None:
            function = gated
        else:
            break
        last = following
        sources.append(last.name)
        b.done.add(last.name)
    view = b.operand(source, op).expanded(op.output.shape)
    output = b.tensor(last.name, last.output.shape, b.order_like(view))
    entries = b.table(f"{op.name}.table", function, b.scale(view), b.scale(output))
    b.emit(Map(b.name(op.name), tuple(sources), output, view, entries))


def _gated(op: Operator, source: Tensor, last: Operator, function: Pointwise) -> Pointwise | None:
    """What an operator of two tensors makes of the first of a row, where it reads that and the row's `last` alone."""
    if semantics_of(op).function != "binary" or source.shape != op.output.shape:
        return None
    name, operands = semantics_of(op).attributes["name"], semantics_of(op).operands
    if len(operands) != 2 or not all(isinstance(x, Tensor) for x in operands):
        return None
    again = [x for x in operands if x.name == source.name and x.steps == source.steps]  # type: ignore[union-attr]
    if len(again) != 1 or not any(x.name == last.name for x in operands):  # type: ignore[union-attr]
        return None
    if again[0] is operands[0]:
        return lambda x: binary(name, x, function(x))
    return lambda x: binary(name, function(x), x)


def _composed(first: Pointwise, second: Pointwise) -> Pointwise:
    return lambda x: second(first(x))


def two_operands(b: IntegerBuilder, op: Operator) -> None:
    """add, sub, mul, div, powers, comparisons... of two tensors, or of a tensor and a constant."""
    function = pointwise(b, op)
    name = semantics_of(op).attributes["name"]
    if function is not None:
        table(b, op, function)
    elif name in ("add", "sub"):
        addition(b, op, subtract=name == "sub")
    else:
        left, right = (b.operand(x, op).expanded(op.output.shape) for x in semantics_of(op).operands)
        output = b.tensor(op.name, op.output.shape, b.order_like(left if moves(left) else right))
        if name == "mul":
            rescale = fixed_point(b.scale(left) * b.scale(right) / b.scale(output), PRODUCT_BITS)
            b.emit(Multiplication(b.name(op.name), (op.name,), output, left, right, rescale))
        else:
            real = binary(name, numbers_of(b.scale(left))[:, None], numbers_of(b.scale(right))[None, :])
            entries = b.constant(f"{op.name}.table", rounded(real / b.scale(output)))
            b.emit(BinaryTable(b.name(op.name), (op.name,), output, left, right, entries))


def where(b: IntegerBuilder, op: Operator) -> None:
    """Elements of one operand or the other: the sum of both, each with zeros where the other is taken, in the result's scale."""
    condition, *choices = semantics_of(op).operands
    shape = op.output.shape
    if isinstance(condition, Parameter):
        truths = b.parameters(condition) != 0
        if truths.all() or not truths.any():
            chosen = b.operand(choices[0] if truths.all() else choices[1], op)
            b.tensors[op.name] = chosen.expanded(shape)
            return
        flags = b.constant(f"{condition.name}.flags", truths.astype(np.int8)).expanded(shape)
    else:
        flags = b.operand(condition, op).expanded(shape)
    output = b.tensor(op.name, shape, b.order_like(flags) if moves(flags) else None)
    scale = b.scale(output)
    fixed = [
        float(b.parameters(x).reshape(-1)[0])
        if isinstance(x, Parameter) and math.prod(x.shape) == 1
        else None
        for x in choices
    ]
    q = np.arange(-128, 128, dtype=np.float64)
    taken = q != 0
    sources = (op.name,)
    first, second = fixed
    if first is not None and second is not None:
        entries = b.constant(f"{op.name}.table", rounded(np.where(taken, first, second) / scale))
        b.emit(Map(b.name(op.name), sources, output, flags, entries))
        return
    views = [
        None if number is not None else b.operand(x, op).expanded(shape)
        for x, number in zip(choices, fixed, strict=True)
    ]

    def part(name: str, view: View, chosen: np.ndarray, other: float, target: View) -> None:
        real = np.where(chosen[:, None], q[None, :] * b.scale(view), other)
        table = b.constant(f"{name}.table", rounded(real / scale))
        b.emit(BinaryTable(b.name(name), sources, target, flags, view, table))

    left, right = views
    if left is None or right is None:
        view, chosen = (right, ~taken) if left is None else (left, taken)
        assert view is not None
        part(op.name, view, chosen, float(first if first is not None else second or 0.0), output)
        return
    stored = [output.shape[a] for a in b.order_like(output)]
    inverse = sorted(range(len(stored)), key=lambda i: b.order_like(output)[i])
    parts = [b.value(f"{op.name}.{which}", stored, scale).transposed(inverse) for which in ("true", "false")]
    part(f"{op.name}.true", left, taken, 0.0, parts[0])
    part(f"{op.name}.false", right, ~taken, 0.0, parts[1])
    b.emit(Addition(b.name(op.name), sources, output, parts[0], parts[1], 1.0, 1.0, 1.0, False))


def moves(view: View) -> bool:
    """Whether it goes on along every dimension: no element stands for several."""
    return all(stride or size == 1 for size, stride in zip(view.shape, view.strides, strict=True))


def unary_operator(b: IntegerBuilder, op: Operator) -> None:
    """One pointwise function."""
    function = pointwise(b, op)
    assert function is not None
    table(b, op, function)


def identity(b: IntegerBuilder, op: Operator) -> None:
    """The same memory under another name; whole numbers that are constant stay what they are."""
    (source,) = semantics_of(op).operands
    if isinstance(source, Parameter) and b.parameters(source).dtype.kind in "iu":
        stored = np.clip(b.parameters(source), -(2**31), 2**31 - 1).astype(np.int32)
        b.tensors[op.name] = b.constant(source.name, stored).expanded(op.output.shape)
        return
    b.tensors[op.name] = b.operand(semantics_of(op).operands[0], op, None).expanded(op.output.shape)


# Pooling, reductions, resampling


def maxpool(b: IntegerBuilder, op: Operator) -> None:
    """Maximum over windows that nothing could fuse."""
    a = semantics_of(op).attributes
    view = image_operand(b, op, as_given=True)
    output = b.tensor(op.name, op.output.shape, CHANNELS_LAST[len(op.output.shape)], like=view)
    before = tuple(p[0] for p in a["padding"])
    b.emit(
        MaxPool(
            b.name(op.name),
            (op.name,),
            stored_image(output),
            stored_image(view),
            spatial_pair(a["kernel"]),
            spatial_pair(a["stride"]),
            spatial_pair(before, 0),
            spatial_pair(a["dilation"]),
        )
    )


def avgpool(b: IntegerBuilder, op: Operator) -> None:
    """Average over windows."""
    a = semantics_of(op).attributes
    if set(a["dilation"]) != {1}:
        raise b.error(op, "average pooling with dilation cannot be run")
    view = image_operand(b, op)
    output = b.tensor(op.name, op.output.shape, CHANNELS_LAST[len(op.output.shape)])
    counts = pool_counts(dict(a), view.shape[2:])
    factor = b.scale(view) / b.scale(output) / counts
    shift = max(1, min(62, 30 - math.frexp(float(factor.max()))[1]))
    factors = np.rint(factor * 2.0**shift).astype(np.int32).reshape(spatial_pair(a["shape"]))
    b.emit(
        AveragePool(
            b.name(op.name),
            (op.name,),
            stored_image(output),
            stored_image(view),
            b.constant(f"{op.name}.factor", factors),
            shift,
            spatial_pair(a["kernel"]),
            spatial_pair(a["stride"]),
            spatial_pair(tuple(p[0] for p in a["padding"]), 0),
        )
    )


def image_operand(b: IntegerBuilder, op: Operator, *, as_given: bool = False) -> View:
    """What an operator on images reads."""
    view = b.operand(semantics_of(op).operands[0], op, as_given=as_given)
    if len(view.shape) not in CHANNELS_LAST:
        raise b.error(op, f"{len(view.shape)} dimensions are no image")
    return view


def reduction(b: IntegerBuilder, op: Operator) -> None:
    """Mean, sum, maximum or minimum along dimensions."""
    a = semantics_of(op).attributes
    keeps = a["name"] in ("max", "min")
    view = b.operand(semantics_of(op).operands[0], op, as_given=keeps)
    rank = len(view.shape)
    axes = sorted(axis % rank for axis in a["axes"])
    kept = [axis for axis in range(rank) if axis not in axes]
    arranged = view.transposed((*kept, *axes))
    count = math.prod(view.shape[axis] for axis in axes)
    if a["name"] == "norm":
        norm(b, op, arranged, len(axes), a["p"])
        return
    if count >= 2**23:
        raise b.error(op, f"a sum of {count} elements does not fit")
    function: Literal["sum", "max", "min"] = a["name"] if keeps else "sum"
    output = b.tensor(op.name, op.output.shape, None, like=view if keeps else None)
    factor = 1.0 if keeps else b.scale(view) / b.scale(output) / (count if a["name"] == "mean" else 1)
    target = output.reshaped([view.shape[axis] for axis in kept])
    assert target is not None
    rows = rows_summed(arranged, len(axes))
    if function == "sum" and rows is not None:
        ones = b.constant(f"ones{count}", np.ones((1, count), np.int8))
        batch = rows.shape[:-2]
        left = View(ones.value, (*batch, 1, count), (*(0 for _ in batch), count, 1), ones.offset)
        row = View(
            target.value,
            (*batch, 1, rows.shape[-1]),
            (*target.strides[:-1], rows.shape[-1], 1),
            target.offset,
        )
        b.emit(SumOfRows(b.name(op.name), (op.name,), row, left, rows, None, False, factor))
        return
    b.emit(Reduction(b.name(op.name), (op.name,), target, arranged, function, len(axes), fixed_point(factor)))


def norm(b: IntegerBuilder, op: Operator, view: View, axes: int, p: int) -> None:
    """The p-norm over the last `axes` dimensions of a view: the root of an exact sum, rounded once.

    The elements of the result are in the order of the leading dimensions.
    """
    count = math.prod(view.shape[len(view.shape) - axes :])
    if not p >= 1 or 7 * p + count.bit_length() > 62:
        raise b.error(op, f"a norm of {count} elements to the power of {p} does not fit into 64 bits")
    output = b.tensor(op.name, op.output.shape, None)
    target = output.reshaped(view.shape[: len(view.shape) - axes])
    assert target is not None
    terms = np.abs(np.arange(-128, 128)).astype(np.int64) ** p
    # Where the root, in steps of the result, is half a step behind -128, -127, ...
    steps = np.maximum(np.arange(-128, 127) + 0.5, 0) * b.scale(output) / b.scale(view)
    limits = np.where(steps > 0, np.ceil(np.minimum(steps**p, 2.0**62)), 0).astype(np.int64)
    powers, ends = (b.constant(f"{op.name}.{part}", x) for part, x in (("powers", terms), ("limits", limits)))
    b.emit(TermSum(b.name(op.name), (op.name,), target, view, powers, ends, axes))


def rows_summed(view: View, axes: int) -> View | None:
    """What is summed up over the last `axes` dimensions as matrices [..., rows, columns] whose rows are added, if columns are
    neighbours in memory; None else."""
    lead = len(view.shape) - axes
    rows = View(view.value, view.shape[lead:], view.strides[lead:]).collapsed()
    columns = view.shape[lead - 1] if lead else 1
    if (
        columns < _LEAST_COLUMNS
        or view.strides[lead - 1] != 1
        or len(rows.shape) != 1
        or rows.strides[0] < columns
    ):
        return None
    return View(
        view.value,
        (*view.shape[: lead - 1], rows.shape[0], columns),
        (*view.strides[: lead - 1], rows.strides[0], 1),
        view.offset,
    )


def resize(b: IntegerBuilder, op: Operator) -> None:
    """Nearest or linear interpolation of (N, C, L) or (N, C, H, W)."""
    a = dict(semantics_of(op).attributes)
    view = image_operand(b, op, as_given=True)
    shape = op.output.shape
    if shape[:2] != view.shape[:2]:
        raise b.error(op, "only heights and widths can be resized")
    output = b.tensor(op.name, shape, CHANNELS_LAST[len(shape)], like=view)
    tables = [np.array([[0, 0, 0]], np.int32)] if len(shape) == 3 else []
    for axis in range(2, len(shape)):
        factor = None if a["scales"] is None else a["scales"][axis - 2]
        low, high, weight = resample_axis(view.shape[axis], shape[axis], factor, a)
        tables.append(np.stack([low, high, np.rint(weight * 2**11)], axis=1).astype(np.int32))
    rows, columns = (
        b.constant(f"{op.name}.{part}", entries)
        for part, entries in zip(("rows", "columns"), tables, strict=True)
    )
    b.emit(Resize(b.name(op.name), (op.name,), stored_image(output), stored_image(view), rows, columns))


# Data movement


def concat(b: IntegerBuilder, op: Operator) -> None:
    """Copies of the parts that were not written in place, in the scale of the whole; nothing where they are joined outside."""
    axis = semantics_of(op).attributes["axis"]
    if op.name in b.outside:
        b.joined[op.name] = JoinedView(tuple(b.part_outside(x, op) for x in semantics_of(op).operands), axis)
        return
    views = [b.operand(x, op) for x in semantics_of(op).operands]
    if op.name not in b.tensors:
        widest = max(views, key=lambda v: v.words)
        b.tensor(op.name, op.output.shape, b.order_like(widest))
    whole = b.tensors[op.name]
    start = 0
    for number, view in enumerate(views):
        part = part_of(whole, axis, start, view.shape[axis])
        start += view.shape[axis]
        if part == view:
            continue
        entries = None
        if b.scale(view) != b.scale(part):
            entries = b.table(f"{op.name}.rescale{number}", lambda x: x, b.scale(view), b.scale(part))
        b.emit(Map(b.name(f"{op.name}.part{number}"), (op.name,), part, view, entries))


def pad(b: IntegerBuilder, op: Operator) -> None:
    """A border of one number; a convolution behind it takes over one of zeros."""
    a = semantics_of(op).attributes
    source = semantics_of(op).operands[0]
    reader = b.reader(op.name)
    if (
        reader is not None
        and reader.semantics is not None
        and reader.semantics.function == "conv"
        and a["value"] == 0
        and min(*a["before"], *a["after"]) >= 0
        and not any((*a["before"][:2], *a["after"][:2]))
        and isinstance(source, Tensor)
    ):
        b.folded_pads[op.name] = op
        return
    view = b.operand(source, op, as_given=True)
    output = b.tensor(op.name, op.output.shape, b.order_like(view), like=view)
    value = int(b.encoding(output).whole(np.array(a["value"])))
    kept = cropped(view.shape, dict(a))
    ones = [1] * len(view.shape)
    view = view.sliced([k.start for k in kept], [k.stop - k.start for k in kept], ones)
    put_inside(b, op, view, output, a["before"], value)


def put_inside(
    b: IntegerBuilder, op: Operator, view: View, output: View, befores: Sequence[int], value: int
) -> None:
    """Copy a view into a larger one, behind `befores` elements of each dimension, all else being `value`."""
    inner = output
    for axis, before in enumerate(befores):
        # No element is written twice: a border lies within those of the dimensions before it.
        before = max(0, before)
        behind = before + view.shape[axis]
        for start, stop in ((0, before), (behind, inner.shape[axis])):
            if start < stop:
                border = part_of(inner, axis, start, stop - start)
                b.emit(Fill(b.name(f"{op.name}.border"), (op.name,), border, value))
        inner = part_of(inner, axis, before, view.shape[axis])
    b.emit(Map(b.name(op.name), (op.name,), inner, view, None))


def embedding(b: IntegerBuilder, op: Operator) -> None:
    """Rows of a table."""
    indices, entries = semantics_of(op).operands
    if not isinstance(entries, Parameter):
        raise b.error(op, "rows can be looked up in constants only")
    values = b.parameters(entries)
    if isinstance(indices, Parameter):
        index = b.parameters(indices).astype(np.int64)
        rows = values[np.clip(np.where(index < 0, index + len(values), index), 0, len(values) - 1)]
        b.tensors[op.name] = b.quantised(f"{op.name}.rows", rows)
        return
    view = b.operand(indices, op, "int32")
    given = b.encodings.get(op.name)
    if isinstance(given, FloatEncoding | WideEncoding):
        lookup = b.constant(entries.name, given.whole(values), encoding=given)
    else:
        lookup = b.quantised(entries.name, values)
    output = b.tensor(op.name, op.output.shape, None, b.scale(lookup))
    b.emit(Embedding(b.name(op.name), (op.name,), output, view, lookup))


def rope(b: IntegerBuilder, op: Operator) -> None:
    """Rotary position embedding."""
    a: dict[str, Any] = dict(semantics_of(op).attributes)
    view = b.operand(semantics_of(op).operands[0], op)
    positions, half = view.shape[-2], view.shape[-1] // 2
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    angles = rope_angles(positions, half, a)
    one = 1 / 127
    # of the same positions all operators share them
    kind = f"rope.{positions}x{half}.from{a['start']}.base{a['base']:g}"
    cosine, sine = (
        b.constant(f"{kind}.{name}", rounded(function(angles) / one), one).expanded((*view.shape[:-1], half))
        for name, function in (("cosine", np.cos), ("sine", np.sin))
    )
    scale = float32(b.scale(view) * one / b.scale(output))
    b.emit(Rotation(b.name(op.name), (op.name,), output, view, cosine, sine, a["interleaved"], scale))
