"""What structured operations mean to the accelerator: loads of blocks, factors, addends, results on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, math, memref
from xdsl.dialects.bufferization import ToTensorOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, IntegerType, MemRefType, TensorType, i8, i16, i32
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.dialects.tensor import CastOp, PadOp, YieldOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from baco.accel.isa import float32_bits
from baco.compiler.blocks.elementwise import floating
from baco.compiler.ir.known import known

#: A size or offset of the structured level: known, or an index value.
Size: TypeAlias = "int | SSAValue"


@dataclass(frozen=True)
class BlockLoad:
    """A block that is read from memory, padded.

    Attributes:
        source: the `memref` argument of the function.
        offset: of its first element inside the array, in elements.
        strides, sizes: of the part inside the array.
        low: where that part begins in the block.
        shape: of the block.
        other: what the rest holds.
        bits: of an element.
    """

    source: SSAValue
    offset: Size
    strides: tuple[Size, ...]
    sizes: tuple[Size, ...]
    low: tuple[Size, ...]
    shape: tuple[int, ...]
    other: int
    bits: int

    @property
    def zero_padded_high(self) -> bool:
        """The part begins at the block's first element and the rest is zero."""
        return all(one == 0 for one in self.low) and (self.other == 0 or same_sizes(self.sizes, self.shape))


@dataclass(frozen=True)
class Factor:
    """A factor of a product: a block of elements, used as it is or transposed."""

    source: SSAValue
    transposed: bool


@dataclass(frozen=True)
class Addend:
    """A block that loads to the accumulator give: sums, or elements widened; a row may be repeated for all rows.

    Attributes:
        load: the block in memory.
        row_dim: its dimension that goes along the rows; None: one row for all.
        column_dim: its dimension along the columns.
        sizes: rows and columns that are not zero.
    """

    load: BlockLoad
    row_dim: int | None
    column_dim: int
    sizes: tuple[Size, Size]

    @property
    def row_stride(self) -> int:
        """Elements from row to row; 0 repeats one."""
        if self.row_dim is None:
            return 0
        stride = self.load.strides[self.row_dim]
        assert isinstance(stride, int)
        return stride


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Of a block; () of a scalar."""
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()


def same_sizes(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Known to be equal."""
    return all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a, b, strict=True))


def known_or_value(size: Size) -> Size:
    """The size as a number if it is a constant."""
    if isinstance(size, int):
        return size
    number = known(size)
    return size if number is None else number


def mixed(static: Sequence[int], dynamic: Sequence[SSAValue]) -> tuple[Size, ...]:
    """A list of which the unknown entries are given as values; constants among those become known."""
    values = iter(dynamic)
    found: list[Size] = []
    for one in static:
        if one != DYNAMIC_INDEX:
            found.append(int(one))
            continue
        found.append(known_or_value(next(values)))
    return tuple(found)


def block_load(value: SSAValue) -> BlockLoad | None:
    """The load that gives a block; None for a block that is computed."""
    shape = shape_of(value)
    op = value.owner
    if isinstance(op, CastOp):
        op = op.source.owner
    pad = op if isinstance(op, PadOp) else None
    if pad is not None:
        op = pad.source.owner
    if not isinstance(op, ToTensorOp) or not isinstance(op.memref.owner, memref.AllocOp):
        return None
    copies = [
        use.operation
        for use in op.memref.uses
        if isinstance(use.operation, memref.CopyOp) and use.operation.destination is op.memref
    ]
    if len(copies) != 1:
        return None
    view = copies[0].source.owner
    if not isinstance(view, memref.ReinterpretCastOp) or not isinstance(view.source.type, MemRefType):
        return None
    element = view.source.type.element_type
    assert isinstance(element, IntegerType)
    sizes = mixed(view.static_sizes.get_values(), view.sizes)
    low: tuple[Size, ...] = (0,) * len(sizes)
    other = 0
    if pad is not None:
        filler = pad.region.block.last_op
        if not isinstance(filler, YieldOp) or (number := known(filler.operands[0])) is None:
            return None
        other = number
        low = mixed(pad.static_low.get_values(), pad.low)
    return BlockLoad(
        view.source,
        mixed(view.static_offsets.get_values(), view.offsets)[0],
        mixed(view.static_strides.get_values(), view.strides),
        sizes,
        low,
        shape,
        other,
        element.width.data,
    )


def _single_input(value: SSAValue) -> tuple[SSAValue, list[int | None], Operation | None] | None:
    """Of an elementwise operation on one block: it, which of its dimensions goes along each dimension of the result
    (None: none), and what happens to an element if it is one operation."""
    op = value.owner
    if not isinstance(op, GenericOp) or len(op.inputs) != 1 or _reduces(op):
        return None
    indexing = op.indexing_maps.data[0].data
    along: list[int | None] = [None] * len(shape_of(value))
    for dim, result in enumerate(indexing.results):
        if isinstance(result, AffineDimExpr):
            along[result.position] = dim
        elif not isinstance(result, AffineConstantExpr):
            return None
    block = op.body.block
    last = block.last_op
    assert last is not None
    (result_value,) = last.operands
    if result_value is block.args[0]:
        return op.inputs[0], along, None
    inner = result_value.owner
    if isinstance(inner, Operation) and len(list(block.ops)) == 2 and list(inner.operands) == [block.args[0]]:
        return op.inputs[0], along, inner
    return None


def _reduces(op: GenericOp) -> bool:
    """Elements of the result collect many."""
    return any(kind.data != IteratorType.PARALLEL for kind in op.iterator_types)


def _element(op: arith.ExtSIOp) -> bool:
    """What is widened is an element of an array: int8, int16, or floating point."""
    return op.input.type in (i8, i16) or floating(op) is not None


def factor_of(value: SSAValue) -> Factor | None:
    """The block of elements behind an operand (i32) of a product, as far as their widening and transposition explain it."""
    transposed, extended = False, False
    while (step := _single_input(value)) is not None:
        source, along, op = step
        if along not in ([0, 1], [1, 0]):
            break
        if op is not None:
            if not isinstance(op, arith.ExtSIOp) or not _element(op) or extended:
                break
            extended = True
        transposed ^= along == [1, 0]
        value = source
    if not extended:
        return None
    return Factor(value, transposed)


def addend_of(value: SSAValue, bits: int | None = None) -> Addend | None:
    """What loads to the accumulator can give, sums or elements (of so many bits, where they are given), None for anything else."""
    target = shape_of(value)
    if len(target) != 2:
        return None
    along: list[int | None] = [0, 1]
    extended = False
    while (step := _single_input(value)) is not None:
        source, inner, op = step
        if op is not None:
            if not isinstance(op, arith.ExtSIOp) or not _element(op) or op.result.type != i32 or extended:
                return None
            extended = True
        along = [None if dim is None else inner[dim] for dim in along]
        value = source
    load = block_load(value)
    if load is None or (load.bits == 32) == extended or not load.zero_padded_high:
        return None
    if extended and bits not in (None, load.bits):
        return None
    row, column = along
    if column is None or any(
        load.sizes[dim] != 1 for dim in range(len(load.shape)) if dim not in (row, column)
    ):
        return None
    rows: Size = target[0] if row is None else load.sizes[row]
    row_stride = 0 if row is None else load.strides[row]
    if not isinstance(row_stride, int) or row_stride < 0:
        return None
    if load.strides[column] != 1 and target[1] != 1:
        return None
    if row is not None and row_stride == 0 and target[0] != 1:
        return None
    return Addend(load, row, column, (rows, load.sizes[column]))


def sum_operands(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """Both sides of an elementwise sum of two blocks of int32."""
    op = value.owner
    if not isinstance(op, GenericOp) or len(op.inputs) != 2 or not _identities(op):
        return None
    block = op.body.block
    ops = list(block.ops)
    if len(ops) != 2 or not isinstance(ops[0], arith.AddiOp) or ops[0].result.type != i32:
        return None
    if list(ops[0].operands) != list(block.args[:2]) or ops[1].operands[0] is not ops[0].result:
        return None
    return op.inputs[0], op.inputs[1]


def _identities(op: GenericOp) -> bool:
    """Every operand is accessed at the iteration's own indices."""
    return all(
        isinstance(result, AffineDimExpr) and result.position == dim
        for one in op.indexing_maps
        for dim, result in enumerate(one.data.results)
    )


def filled_with(value: SSAValue) -> int | None:
    """The known integer that every element of a block is."""
    op = value.owner
    return known(op.inputs[0]) if isinstance(op, FillOp) else None


def is_relu(value: SSAValue) -> SSAValue | None:
    """The block x of maximum(x, 0), signed; None for anything else."""
    op = value.owner
    if not isinstance(op, GenericOp) or len(op.inputs) != 2 or not _identities(op):
        return None
    ops = list(op.body.block.ops)
    if len(ops) != 2 or not isinstance(ops[0], arith.MaxSIOp):
        return None
    if {*ops[0].operands} != {*op.body.block.args[:2]} or ops[1].operands[0] is not ops[0].result:
        return None
    for x, bound in (op.inputs, tuple(reversed(op.inputs))):
        if filled_with(bound) == 0:
            return x
    return None


def requantised(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The block of int32 that is requantised to int8 or int16, and the float32 scale's bits; None for anything else."""
    op = value.owner
    if not isinstance(op, GenericOp) or len(op.inputs) != 1 or not _identities(op):
        return None
    last = op.body.block.last_op
    assert last is not None
    found = requantisation(last.operands[0])
    if found is None or found[0] is not op.body.block.args[0]:
        return None
    return op.inputs[0], found[1]


def requantisation(result: SSAValue) -> tuple[SSAValue, int] | None:
    """The i32 scalar and the bits of the scale behind an i8 or i16 scalar that the steps of a requantisation compute."""
    steps = (
        arith.FPToSIOp,
        arith.MinimumfOp,
        arith.MaximumfOp,
        math.RoundEvenOp,
        arith.MulfOp,
        arith.SIToFPOp,
    )
    # of floating point those of 8 bits stand for its own
    wide = result.type == i16 and isinstance(result.owner, Operation) and not floating(result.owner)
    most = float(1 << 15 if wide else 1 << 7)
    bounds: dict[type, float] = {arith.MinimumfOp: most - 1, arith.MaximumfOp: -most}
    scale = 0.0
    for step in steps:
        op = result.owner
        if not isinstance(op, step):
            return None
        if len(op.operands) == 2:
            constant = op.operands[1].owner
            if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, FloatAttr):
                return None
            number = constant.value.value.data
            if step is arith.MulfOp:
                scale = number
            elif number != bounds[step]:
                return None
        result = op.operands[0]
    return result, float32_bits(scale)
