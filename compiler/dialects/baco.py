"""The `baco` dialect: block programs, the first level of the compiler (thesis Figure 6.7 and Table 6.1).

A kernel is a `func.func` whose arguments are pointers to the first element of each array. It carries two
attributes: `baco.grid`, the number of programs along each axis, and `baco.sizes`, the number of elements
from each pointer to the end of its array. The body is what one program of the grid does; `baco.program_id`
tells which. Sizes, strides and block sizes of a launch are constants here, so every shape is static.
Programs of a grid are independent of each other; they run in any order, with axis 0 fastest where order
shows.

Values are of one of these types, T being an element type (`i1`, `i8`, `ui8`, `i16`, `i32`, `index` for
offsets, or of arrays of floating point `f8E4M3FN`, `f8E5M2`, `bf16` and `f32`):

* T, a scalar;
* `tensor<...xT>`, a block;
* `!baco.ptr<T>`, a pointer;
* `tensor<...x!baco.ptr<T>>`, a block of pointers.

Scalars of type `index` are computed by `arith` operations, loops are `scf.for` over `index`. A loop carries
scalars and blocks of data or offsets, never pointers: a pointer is always some function argument plus
offsets that are computed where it is used. Pointer arithmetic counts elements, not bytes.

Arithmetic wraps in two's complement (`ui8`: modulo 256); both operands have the same type. Of floating point there are
`baco.dot`, `baco.add` of `f32`, `baco.maximum` with zeros, `baco.requantize`, `baco.cast` of elements to `f32` and what moves
blocks; constants are 0. `baco.load` and
`baco.store` say with `low`/`high` which part of a block lies inside the array, so lowering never has to
guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    TensorType,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from baco.compiler.dialects.baco_elementwise import (
    PREDICATES,
    AddOp,
    AndOp,
    BinaryOp,
    CastOp,
    CmpOp,
    FloorDivOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    OrOp,
    RequantizeOp,
    SelectOp,
    ShlOp,
    ShrOp,
    SubOp,
    XorOp,
)
from baco.compiler.dialects.baco_rows import REDUCTIONS, ReduceOp, SoftmaxOp
from baco.compiler.dialects.baco_types import (
    DATA_TYPES,
    ELEMENT_TYPES,
    FLOAT_ELEMENTS,
    FLOAT_TYPES,
    GRID,
    SIZES,
    STORED_TYPES,
    PointerType,
    block_type,
    check_pointer,
    check_value,
    element_type,
    f32,
    index,
    shape_of,
    ui8,
    value_range,
)

__all__ = [
    "DATA_TYPES",
    "ELEMENT_TYPES",
    "FLOAT_ELEMENTS",
    "FLOAT_TYPES",
    "GRID",
    "PREDICATES",
    "REDUCTIONS",
    "SIZES",
    "STORED_TYPES",
    "AddOp",
    "AddPtrOp",
    "AndOp",
    "ArangeOp",
    "Baco",
    "BinaryOp",
    "BroadcastOp",
    "CastOp",
    "CmpOp",
    "DotOp",
    "ExpandDimsOp",
    "FloorDivOp",
    "LoadOp",
    "MaximumOp",
    "MinimumOp",
    "ModOp",
    "MulOp",
    "OrOp",
    "PointerType",
    "ProgramIdOp",
    "ReduceOp",
    "RequantizeOp",
    "SelectOp",
    "ShlOp",
    "ShrOp",
    "SoftmaxOp",
    "SplatOp",
    "StoreOp",
    "SubOp",
    "TransOp",
    "XorOp",
    "accumulating_product",
    "block_type",
    "element_type",
    "f32",
    "index",
    "shape_of",
    "ui8",
    "value_range",
]


@irdl_op_definition
class ProgramIdOp(IRDLOperation):
    """Which program this is along `axis` of the grid: 0 ... `baco.grid`[axis] - 1."""

    name = "baco.program_id"

    axis = prop_def(IntegerAttr[I64])
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int) -> None:
        super().__init__(result_types=[index], properties={"axis": IntegerAttr(axis, i64)})

    def verify_(self) -> None:
        if self.axis.value.data < 0:
            raise VerifyException(f"the axis of a grid counts from 0, got {self.axis.value.data}")
        parent = self.parent_op()
        while parent is not None and parent.name != "func.func":
            parent = parent.parent_op()
        grid = parent.attributes.get(GRID) if parent is not None else None
        if isinstance(grid, DenseArrayBase) and self.axis.value.data >= len(grid):
            raise VerifyException(f"axis {self.axis.value.data} of a grid of {len(grid)} axes")


@irdl_op_definition
class ArangeOp(IRDLOperation):
    """The offsets `start`, `start` + 1, ..., `end` - 1 as a block `tensor<(end - start)xindex>`."""

    name = "baco.arange"

    start = prop_def(IntegerAttr[I64])
    end = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$start `to` $end attr-dict `:` type($result)"

    def __init__(self, start: int, end: int) -> None:
        super().__init__(
            result_types=[TensorType(index, [end - start])],
            properties={"start": IntegerAttr(start, i64), "end": IntegerAttr(end, i64)},
        )

    def verify_(self) -> None:
        size = self.end.value.data - self.start.value.data
        if size < 1:
            raise VerifyException(
                f"an arange needs end > start, got {self.start.value.data} to {self.end.value.data}"
            )
        if self.result.type != TensorType(index, [size]):
            raise VerifyException(f"this arange gives tensor<{size}xindex>, not {self.result.type}")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A block all elements of which are the scalar (a number, an offset or a pointer)."""

    name = "baco.splat"

    scalar = operand_def()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$scalar attr-dict `:` type($scalar) `to` type($result)"

    def __init__(self, scalar: SSAValue | Operation, shape: Sequence[int]) -> None:
        scalar = SSAValue.get(scalar)
        super().__init__(operands=[scalar], result_types=[TensorType(scalar.type, shape)])

    def verify_(self) -> None:
        if self.result.type.element_type != self.scalar.type:
            raise VerifyException(f"a splat of {self.scalar.type} cannot give {self.result.type}")
        if not isinstance(self.scalar.type, PointerType):
            check_value(self.result.type, ELEMENT_TYPES, "the block")


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """The block with one more dimension, of size 1, at `axis`."""

    name = "baco.expand_dims"

    block = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$block `at` $axis attr-dict `:` type($block) `to` type($result)"

    def __init__(self, block: SSAValue | Operation, axis: int) -> None:
        block = SSAValue.get(block)
        shape = list(shape_of(block.type))
        shape.insert(axis, 1)
        super().__init__(
            operands=[block],
            result_types=[TensorType(element_type(block.type), shape)],
            properties={"axis": IntegerAttr(axis, i64)},
        )

    def verify_(self) -> None:
        shape, axis = list(shape_of(self.block.type)), self.axis.value.data
        if not 0 <= axis <= len(shape):
            raise VerifyException(f"axis {axis} does not exist after expanding {len(shape)} dimensions")
        shape.insert(axis, 1)
        if self.result.type != TensorType(element_type(self.block.type), shape):
            raise VerifyException(
                f"expanding {self.block.type} at axis {axis} cannot give {self.result.type}"
            )


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """The block repeated along every dimension where it has size 1 and the result has not (same rank)."""

    name = "baco.broadcast"

    block = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$block attr-dict `:` type($block) `to` type($result)"

    def __init__(self, block: SSAValue | Operation, shape: Sequence[int]) -> None:
        block = SSAValue.get(block)
        super().__init__(operands=[block], result_types=[TensorType(element_type(block.type), shape)])

    def verify_(self) -> None:
        source, target = shape_of(self.block.type), shape_of(self.result.type)
        fits = len(source) == len(target) and all(s in (1, t) for s, t in zip(source, target, strict=True))
        if not fits or element_type(self.block.type) != element_type(self.result.type):
            raise VerifyException(f"{self.block.type} cannot be broadcast to {self.result.type}")


@irdl_op_definition
class TransOp(IRDLOperation):
    """The block with its dimensions permuted: dimension d of the result is `permutation`[d] of the operand."""

    name = "baco.trans"

    block = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$block attr-dict `:` type($block) `to` type($result)"

    def __init__(self, block: SSAValue | Operation, permutation: Sequence[int]) -> None:
        block = SSAValue.get(block)
        shape = shape_of(block.type)
        super().__init__(
            operands=[block],
            result_types=[TensorType(element_type(block.type), [shape[d] for d in permutation])],
            properties={"permutation": DenseArrayBase.from_list(i64, permutation)},
        )

    def verify_(self) -> None:
        shape, order = shape_of(self.block.type), self.permutation.get_values()
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(f"{list(order)} is no permutation of the dimensions of {self.block.type}")
        expected = TensorType(element_type(self.block.type), [shape[int(d)] for d in order])
        if self.result.type != expected:
            raise VerifyException(f"this transposition gives {expected}, not {self.result.type}")


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """A pointer moved by `offset` elements; pointers and offsets have the same shape."""

    name = "baco.addptr"

    T: ClassVar = VarConstraint("T", AnyAttr())

    pointer = operand_def(T)
    offset = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$pointer `,` $offset attr-dict `:` type($pointer) `,` type($offset)"

    def __init__(self, pointer: SSAValue | Operation, offset: SSAValue | Operation) -> None:
        pointer = SSAValue.get(pointer)
        super().__init__(operands=[pointer, offset], result_types=[pointer.type])

    def verify_(self) -> None:
        check_pointer(self.pointer.type)
        if self.offset.type != block_type(shape_of(self.pointer.type), index):
            raise VerifyException(
                f"{self.pointer.type} needs offsets of its shape and type index, got {self.offset.type}"
            )


class _AccessOp(IRDLOperation):
    """What `baco.load` and `baco.store` share: which elements of the block exist in memory."""

    def _verify_window(
        self, pointer: SSAValue, low: Sequence[SSAValue], high: Sequence[SSAValue], mask: SSAValue | None
    ) -> None:
        rank = len(shape_of(pointer.type))
        for name, bounds in (("low", low), ("high", high)):
            if bounds and len(bounds) != rank:
                raise VerifyException(
                    f"`{name}` needs a bound for each of the {rank} dimensions, got {len(bounds)}"
                )
        if mask is not None and mask.type != block_type(shape_of(pointer.type), i1):
            raise VerifyException(
                f"the mask of {pointer.type} must have its shape and type i1, got {mask.type}"
            )


@irdl_op_definition
class LoadOp(_AccessOp):
    """The elements at `pointer`, with the value `other` (default 0) in place of those that are not in memory.

    Element (i0, i1, ...) of the block is in memory if low_d <= i_d < high_d in every dimension d, and the
    mask is true there. `low` and `high` count in elements of the block from its first one, 0 <= low_d,
    high_d <= size_d (low_d may exceed high_d: then nothing is in memory). Without `low` all low_d are 0,
    without `high` all high_d are the sizes. Memory is touched for elements that are in memory only.
    """

    name = "baco.load"

    pointer = operand_def()
    low = var_operand_def(IndexType)
    high = var_operand_def(IndexType)
    mask = opt_operand_def()
    other = opt_prop_def(IntegerAttr[I64])
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$pointer (`low` `[` $low^ `]`)? (`high` `[` $high^ `]`)? (`mask` $mask^ `:` type($mask))? "
        "(`other` $other^)? attr-dict `:` type($pointer) `to` type($result)"
    )

    def __init__(
        self,
        pointer: SSAValue | Operation,
        *,
        low: Sequence[SSAValue] = (),
        high: Sequence[SSAValue] = (),
        mask: SSAValue | None = None,
        other: int = 0,
    ) -> None:
        pointer = SSAValue.get(pointer)
        super().__init__(
            operands=[pointer, list(low), list(high), mask],
            result_types=[block_type(shape_of(pointer.type), check_pointer(pointer.type))],
            properties={"other": IntegerAttr(other, i64)} if other else {},
        )

    @property
    def other_value(self) -> int:
        """The value in place of elements that are not in memory."""
        return self.other.value.data if self.other is not None else 0

    def verify_(self) -> None:
        pointee = check_pointer(self.pointer.type)
        if self.result.type != block_type(shape_of(self.pointer.type), pointee):
            raise VerifyException(f"a load from {self.pointer.type} cannot give {self.result.type}")
        self._verify_window(self.pointer, self.low, self.high, self.mask)
        low, high = value_range(pointee)
        if not low <= self.other_value <= high:
            raise VerifyException(f"`other` = {self.other_value} does not fit {pointee}")


@irdl_op_definition
class StoreOp(_AccessOp):
    """Writes `value` to `pointer`, only those elements that are in memory (`low`, `high`, `mask` as in
    `baco.load`).
    """

    name = "baco.store"

    pointer = operand_def()
    value = operand_def()
    low = var_operand_def(IndexType)
    high = var_operand_def(IndexType)
    mask = opt_operand_def()
    traits = traits_def(MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$value `to` $pointer (`low` `[` $low^ `]`)? (`high` `[` $high^ `]`)? "
        "(`mask` $mask^ `:` type($mask))? "
        "attr-dict `:` type($value) `to` type($pointer)"
    )

    def __init__(
        self,
        pointer: SSAValue | Operation,
        value: SSAValue | Operation,
        *,
        low: Sequence[SSAValue] = (),
        high: Sequence[SSAValue] = (),
        mask: SSAValue | None = None,
    ) -> None:
        super().__init__(operands=[pointer, value, list(low), list(high), mask])

    def verify_(self) -> None:
        pointee = check_pointer(self.pointer.type)
        if self.value.type != block_type(shape_of(self.pointer.type), pointee):
            raise VerifyException(f"{self.value.type} cannot be stored to {self.pointer.type}")
        self._verify_window(self.pointer, self.low, self.high, self.mask)


@irdl_op_definition
class DotOp(IRDLOperation):
    """The matrix product of `a` (M x K) and `b` (K x N), plus `accumulator` (M x N) if given, in i32.

    Operands are i8 or ui8, each its own, or both i16; products and sums are exact modulo 2^32. Or both are of one type of floating point: then
    sums are f32, added up as `baco.compiler.layers.float_sums` has it, blocks of as many products as the array has rows to what there is.
    """

    name = "baco.dot"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    accumulator = opt_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b (`acc` $accumulator^ `:` type($accumulator))? attr-dict "
        "`:` type($a) `,` type($b) `to` type($result)"
    )

    def __init__(
        self,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        accumulator: SSAValue | Operation | None = None,
    ) -> None:
        a, b = SSAValue.get(a), SSAValue.get(b)
        shape = [shape_of(a.type)[0], shape_of(b.type)[1]]
        super().__init__(operands=[a, b, accumulator], result_types=[TensorType(self._sum_of(a.type), shape)])

    @staticmethod
    def _sum_of(factor: Attribute) -> Attribute:
        """The type of sums of products."""
        return f32 if element_type(factor) in FLOAT_TYPES else i32

    def verify_(self) -> None:
        a, b = shape_of(self.a.type), shape_of(self.b.type)
        if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
            raise VerifyException(
                f"the shapes of {self.a.type} and {self.b.type} do not agree for a matrix product"
            )
        element = element_type(self.a.type)
        check_value(self.a.type, (i8, ui8, i16, *FLOAT_ELEMENTS.values()), "the first factor")
        alike = element in (i16, *FLOAT_TYPES)
        check_value(self.b.type, (element,) if alike else (i8, ui8), "the second factor")
        expected = TensorType(self._sum_of(self.a.type), [a[0], b[1]])
        if self.result.type != expected:
            raise VerifyException(f"this product gives {expected}, not {self.result.type}")
        if self.accumulator is not None and self.accumulator.type != expected:
            raise VerifyException(
                f"the accumulator of this product must be {expected}, got {self.accumulator.type}"
            )


def accumulating_product(op: Operation) -> DotOp | None:
    """The product of a sum `total + dot(a, b)` that can add to the total itself: used nowhere else."""
    if isinstance(op, AddOp):
        for operand in (op.rhs, op.lhs):
            product = operand.owner
            if (
                isinstance(product, DotOp)
                and product.accumulator is None
                and product.parent is op.parent
                and operand.has_one_use()
            ):
                return product
    return None


Baco = Dialect(
    "baco",
    [
        ProgramIdOp,
        ArangeOp,
        SplatOp,
        ExpandDimsOp,
        BroadcastOp,
        TransOp,
        AddPtrOp,
        LoadOp,
        StoreOp,
        DotOp,
        AddOp,
        SubOp,
        MulOp,
        FloorDivOp,
        ModOp,
        MaximumOp,
        MinimumOp,
        AndOp,
        OrOp,
        XorOp,
        ShlOp,
        ShrOp,
        CmpOp,
        SelectOp,
        CastOp,
        RequantizeOp,
        ReduceOp,
        SoftmaxOp,
    ],
    [PointerType],
)
