"""Loads and stores: which elements of a block lie inside the array.

The rule (public, see the tutorial): element i of a dimension of a block of pointers is outside of the array, so it
loads as 0 (or `other`) and is not stored,

1. where `mask=` says so. A mask decides alone about the dimensions along which it changes;
2. else, if the dimension is `t * B + arange(0, B)` and t counts the blocks of X, i.e. cdiv(X, B) of them: beyond X.
   That t counts them is known if t is a remainder by cdiv(X, B), the variable of a loop over it, a program id of a
   grid axis given as `baco.cdiv(X, B)`, or takes as many values as a `cdiv(X, B)` of the kernel;
3. else, if the block moves by B elements of this dimension with each iteration of `range(start, X, B)`: beyond X.

B and X are compared by the names that the kernel gives them. A dimension for which nothing of this holds is
accessed in full, which must be inside the array; else the kernel is rejected.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from baco.compiler.dialects.baco import AddPtrOp, LoadOp, StoreOp
from baco.compiler.language import layouts
from baco.compiler.language.arithmetic import both, coerce
from baco.compiler.language.builder import Builder
from baco.compiler.language.dtypes import boolean, offset
from baco.compiler.language.extents import check_inside, derived_bound, emit_bounds
from baco.compiler.language.forms import Form
from baco.compiler.language.values import (
    AxisTerm,
    BlockLayout,
    BlockPointer,
    Data,
    Integer,
    KernelConstant,
    Offsets,
    Pointer,
    Tuple,
    Value,
    Window,
    format_shape,
    integer,
)


def load(b: Builder, pointer: Value, mask: Value, other: Value, boundary_check: Value) -> Data:
    """The block at `pointer`."""
    pointer, window = _resolve(b, "load", pointer, mask, boundary_check)
    low, high = pointer.argument.dtype.range
    if isinstance(other, KernelConstant) and other.value == 0.0 and isinstance(other.value, float):
        other = integer(0)  # kernels written for floating point say so
    substitute = b.fixed_integer(other, "`other`")
    if not low <= substitute <= high:
        if pointer.argument.dtype.floating:
            b.fail(
                f"`other` = {substitute} as {pointer.argument.dtype}",
                "what is outside of arrays of floating point is 0",
            )
        b.fail(f"`other` = {substitute} does not fit {pointer.argument.dtype} ({low} ... {high})")
    if isinstance(mask, KernelConstant) and mask.value is False:
        return Data(b.emit_broadcast(b.emit_constant(substitute, pointer.argument.dtype.ir), pointer.shape))
    access = _access(b, "load", pointer, mask, window)
    return Data(
        b.emit(LoadOp(access.address, low=access.low, high=access.high, mask=access.mask, other=substitute))
    )


def store(b: Builder, pointer: Value, value: Value, mask: Value, boundary_check: Value) -> None:
    """Writes `value` to the block at `pointer`."""
    pointer, window = _resolve(b, "store", pointer, mask, boundary_check)
    dtype = pointer.argument.dtype
    if isinstance(value, Offsets) or (isinstance(value, Data) and value.dtype != dtype):
        kind = value.dtype if isinstance(value, Data) else offset
        b.fail(
            f"a store of {kind} to {pointer.describe()}",
            f'cast by `.to("{dtype}")`'
            + (
                ", or saturate by baco.requantize(x, scale)"
                if dtype.name == "int8" and kind.name == "int32"
                else ""
            ),
        )
    if isinstance(value, Integer) and not value.fixed:
        value = b.materialize(value, dtype)
    if not isinstance(value, Integer | Data):
        b.fail(f"a store of {value.describe()}", "blocks and integers are stored")
    (data,) = coerce(b, "baco.store", [value], dtype)
    if layouts.broadcast_shapes(data.shape, pointer.shape) != pointer.shape:
        b.fail(
            f"a store of {value.describe()} to {pointer.describe()}: the shapes do not fit",
            "the value must have the shape of the block of pointers",
        )
    if isinstance(mask, KernelConstant) and mask.value is False:
        return
    data = Data(b.emit_broadcast(data.ssa, pointer.shape))
    access = _access(b, "store", pointer, mask, window)
    b.append(StoreOp(access.address, data.ssa, low=access.low, high=access.high, mask=access.mask))


def _resolve(
    b: Builder, what: str, pointer: Value, mask: Value, boundary_check: Value
) -> tuple[Pointer, Window | None]:
    """The pointer as a block of pointers, and the bounds it carries if it is a block pointer."""
    checked = _dimensions(b, boundary_check, pointer)
    if isinstance(pointer, BlockPointer):
        if not (isinstance(mask, KernelConstant) and mask.value is None):
            b.fail("a block pointer takes no mask", "its shape says where the array ends; see boundary_check")
        return _spread(pointer, checked)
    if not isinstance(pointer, Pointer):
        hint = "a pointer comes from an array argument: array + offsets, or baco.make_block_ptr(...)"
        b.fail(f"baco.{what} needs a pointer, got {pointer.describe()}", hint)
    if checked is not None:
        b.fail("boundary_check is for block pointers only", "for blocks of pointers give mask=")
    if isinstance(pointer.offset, Data):
        pointer = Pointer(pointer.argument, layouts.gathered(pointer.offset.ssa, None))
    return pointer, None


def _dimensions(b: Builder, boundary_check: Value, pointer: Value) -> set[int] | None:
    if isinstance(boundary_check, KernelConstant) and boundary_check.value is None:
        return None
    items = boundary_check.items if isinstance(boundary_check, Tuple) else (boundary_check,)
    rank = len(pointer.block) if isinstance(pointer, BlockPointer) else None
    dimensions = {b.fixed_integer(item, "a dimension of boundary_check", low=0) for item in items}
    if rank is not None and any(dimension >= rank for dimension in dimensions):
        b.fail(f"boundary_check={sorted(dimensions)} of a block with {rank} dimensions")
    return dimensions


def _spread(pointer: BlockPointer, checked: set[int] | None) -> tuple[Pointer, Window]:
    """A block pointer as a block of pointers; dimensions not in `checked` (None: all are) have no bounds."""
    axes = {}
    lows: dict[int, tuple[Form, ...]] = {}
    highs: dict[int, tuple[Form, ...]] = {}
    for dimension, size in enumerate(pointer.block):
        start = pointer.offsets[dimension]
        axes[dimension] = AxisTerm(pointer.strides[dimension], start, size)
        if checked is None or dimension in checked:
            lows[dimension] = (-start,)
            highs[dimension] = (pointer.shape[dimension] - start,)
    shape = pointer.block_shape
    assert isinstance(pointer.base.offset, Integer)
    layout = BlockLayout(shape, axes, pointer.base.offset.form)
    return Pointer(pointer.base.argument, Offsets(layout)), Window(shape, lows, highs)


class _Access(NamedTuple):
    """Operands of a load or store."""

    address: SSAValue
    low: list[SSAValue]
    high: list[SSAValue]
    mask: SSAValue | None


def _access(b: Builder, what: str, pointer: Pointer, mask: Value, window: Window | None) -> _Access:
    """The operands of an access, checked."""
    shape = pointer.shape
    condition: SSAValue | None = None
    covered: set[int] = set()
    if not (isinstance(mask, KernelConstant) and mask.value in (None, True)):
        window, condition, covered = _masked(b, shape, mask)
    window = window or Window(shape)
    highs = dict(window.highs)
    if isinstance(pointer.offset, Integer | Offsets):
        layout = layouts.as_layout(pointer.offset)
        for dimension in layout.axes:
            if dimension in covered or dimension in window.dimensions:
                continue
            derived = derived_bound(b, layout, dimension)
            if derived is not None:
                layout, bound = derived
                highs[dimension] = (bound,)
        free = covered - window.dimensions
        # A condition decides about everything.
        if (condition is None or free) and not window.conditions:
            argument = pointer.argument
            check_inside(b, what, argument.name, argument.size, layout, window.lows, highs, free)
    for form in window.conditions:
        # At least the whole dimension where the condition holds, nothing of it elsewhere.
        highs[0] = (*highs.get(0, ()), form * Form.of(shape[0]))
    low = emit_bounds(b, shape, window.lows, high=False)
    high = emit_bounds(b, shape, highs, high=True)
    return _Access(_address(b, pointer), low, high, condition)


def _masked(
    b: Builder, shape: tuple[int, ...], mask: Value
) -> tuple[Window | None, SSAValue | None, set[int]]:
    """(the mask as bounds if it is nothing else, else as a block, the dimensions it decides about)."""
    if not isinstance(mask, Data) or mask.dtype != boolean:
        b.fail(
            f"the mask must be a condition, got {mask.describe()}",
            "conditions come from comparisons: mask=offsets < M",
        )
    if layouts.broadcast_shapes(mask.shape, shape) != shape:
        b.fail(
            f"the mask has the shape {format_shape(mask.shape)}, the block of pointers {format_shape(shape)}",
            "the mask must be of the block's shape, or have sizes 1",
        )
    distance = len(shape) - len(mask.shape)
    covered = {dimension + distance for dimension, size in enumerate(mask.shape) if size > 1}
    if mask.window is not None and shape:
        window = both(mask.window, Window(shape), shape)
        if window is not None:
            return window, None, window.dimensions
    return None, b.emit_broadcast(mask.ssa, shape), covered


def _address(b: Builder, pointer: Pointer) -> SSAValue:
    base = b.emit_broadcast(pointer.argument.ssa, pointer.shape)
    if isinstance(pointer.offset, Integer | Offsets):
        layout = layouts.as_layout(pointer.offset)
        if not layout.axes and not layout.gathers and layout.rest.low == layout.rest.high == 0:
            return base
    return b.emit(AddPtrOp(base, b.materialize(pointer.offset, offset).ssa))
