"""Functions of the block language that see whole rows: sums, extrema, softmax; and numbers with a scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, isfinite

import numpy as np
from xdsl.ir import SSAValue

from baco.compiler.dialects.baco import ExpandDimsOp, ReduceOp, RequantizeOp, SoftmaxOp, shape_of
from baco.compiler.language import layouts
from baco.compiler.language.builder import Builder
from baco.compiler.language.dtypes import Dtype, boolean, float32, int8, int16, int32
from baco.compiler.language.values import Data, Integer, KernelConstant, Offsets, Value, format_shape
from baco.compiler.row_functions import MOST_COLUMNS

NO_VALUE = KernelConstant(None)


def reduce(b: Builder, kind: str, value: Value, axis: Value, keep_dims: Value) -> Value:
    """The block with the elements along an axis added up, or the greatest or least of them; of all axes without one."""
    if isinstance(value, Offsets):
        b.fail(f"baco.{kind} of {value.describe()}", 'offsets become numbers by `.to("int32")`')
    if not isinstance(value, Data) or not value.shape:
        b.fail(f"baco.{kind} needs a block, got {value.describe()}", "blocks have dimensions")
    if value.dtype == boolean:
        b.fail(f"baco.{kind} of conditions", "count them by baco.sum(baco.where(condition, 1, 0), axis)")
    if not isinstance(keep_dims, KernelConstant) or not isinstance(keep_dims.value, bool):
        b.fail(f"`keep_dims` is True or False, got {keep_dims.describe()}")
    rank = len(value.shape)
    axes = range(rank) if axis == NO_VALUE else [_axis(b, axis, rank)]
    result = value.ssa
    for one in reversed(axes):
        result = b.emit(ReduceOp(kind, result, one))
    if keep_dims.value:
        shape = tuple(1 if dim in axes else size for dim, size in enumerate(value.shape))
        return _with_ones(b, result, axes, shape)
    return Data(result)


def _axis(b: Builder, axis: Value, rank: int) -> int:
    number = b.fixed_integer(axis, "the axis")
    if not -rank <= number < rank:
        b.fail(
            f"axis {number} does not exist in a block with {rank} dimension{'s' * (rank > 1)}",
            f"axes count from 0 to {rank - 1}, or from -1 backwards",
        )
    return number % rank


def _with_ones(b: Builder, value: SSAValue, axes: Sequence[int], shape: tuple[int, ...]) -> Data:
    """A reduced block with its axes back, of size 1."""
    if not shape_of(value.type):
        return Data(b.emit_broadcast(value, shape))
    for axis in axes:
        value = b.emit(ExpandDimsOp(value, axis))
    return Data(value)


def softmax(b: Builder, value: Value, scale: Value, out_scale: Value, mask: Value) -> Value:
    """The softmax of each row of an int8 block, in integers."""
    if not isinstance(value, Data) or value.dtype != int8 or not value.shape:
        hint = "softmax works on int8: requantise sums by baco.requantize(x, scale)"
        b.fail(f"baco.softmax of {value.describe()}", hint)
    step, out_step = (
        _scale(b, one, what) for one, what in ((scale, "the scale"), (out_scale, "`out_scale`"))
    )
    for number in (step, out_step):
        if number <= 0:
            b.fail(
                f"scales of a softmax are positive, got {number:g}", "they say what an element's step of 1 is"
            )
    if value.shape[-1] > MOST_COLUMNS:
        b.fail(f"a row of a softmax has at most {MOST_COLUMNS} elements, not {value.shape[-1]}")
    part = None
    if mask != NO_VALUE:
        if not isinstance(mask, Data) or mask.dtype != boolean:
            b.fail(f"`mask` is a condition, got {mask.describe()}", "conditions come from comparisons")
        if layouts.broadcast_shapes(mask.shape, value.shape) != value.shape:
            b.fail(
                f"a mask {format_shape(mask.shape)} for {value.describe()}: the shapes do not fit",
                "a mask has the shape of the block, or 1 where it repeats",
            )
        part = b.emit_broadcast(mask.ssa, value.shape)
    return Data(b.emit(SoftmaxOp(value.ssa, step, out_step, part)))


def requantize(b: Builder, value: Value, scale: Value, dtype: Dtype | None = None) -> Value:
    """int32 or float32 as the accelerator stores results, times a scale: int8, int16 where that is given, or the given type of floating
    point."""
    if not isinstance(value, Data) or value.dtype not in (int32, float32):
        b.fail(f"baco.requantize takes int32 or float32, got {value.describe()}", 'cast by `.to("int32")`')
    factor = _scale(b, scale, "the scale")
    if value.dtype == float32:
        return _rounded(b, value, factor, dtype)
    if dtype not in (None, int8, int16):
        b.fail(f"baco.requantize of int32 to {dtype}", "int32 becomes int8 or int16")
    with np.errstate(over="ignore"):
        rounded = float(np.float32(factor))
    if not isfinite(rounded):
        b.fail(f"the scale {factor} is no finite float32")
    return Data(b.emit(RequantizeOp(value.ssa, rounded, (dtype or int8).ir)))


def _rounded(b: Builder, value: Data, factor: float, dtype: Dtype | None) -> Value:
    """float32 times a power of two as elements of floating point."""
    if dtype is None or not dtype.floating or dtype == float32:
        b.fail(
            f"baco.requantize of float32 to {'no type' if dtype is None else dtype}",
            'say which elements it becomes: baco.requantize(x, scale, "bfloat16")',
        )
    if frexp(factor)[0] != 0.5 or not -126 <= frexp(factor)[1] - 1 <= 127:
        b.fail(
            f"the scale {factor:g} is no power of two",
            "exponents are added: there is no multiplier on the way out",
        )
    return Data(b.emit(RequantizeOp(value.ssa, factor, dtype.ir)))


def _scale(b: Builder, scale: Value, what: str) -> float:
    """A compile-time number."""
    if isinstance(scale, KernelConstant) and isinstance(scale.value, float) and isfinite(scale.value):
        return scale.value
    if isinstance(scale, Integer) and scale.fixed:
        return float(scale.value)
    raise b.error(f"{what} must be a compile-time number, got {scale.describe()}")
