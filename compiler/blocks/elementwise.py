"""Elementwise operations of the `baco` dialect as scalar `arith` operations, and blocks of them as `linalg.generic`.

Below this level integers have no sign: `ui8` becomes `i8`, and what depends on the sign is said by the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FixedBitwidthType,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.dialects.tensor import EmptyOp, ExtractOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import InsertPoint

from baco.compiler.blocks.indexing import IndexBuilder
from baco.compiler.dialects import baco

Insert: TypeAlias = Callable[[Operation], SSAValue]

#: Attribute of operations that stand for floating point: names its format. Their types are the codes' (`signless`); arrays do them,
#: the host core does not.
FLOATING = "baco.floating"
_FORMS: dict[Attribute, str] = {element: form for form, element in baco.FLOAT_ELEMENTS.items()}
_FORMS[baco.f32] = "fp32"
#: Operations that do not depend on the sign.
_PLAIN: dict[type[IRDLOperation], type[IRDLOperation]] = {
    baco.AddOp: arith.AddiOp,
    baco.SubOp: arith.SubiOp,
    baco.MulOp: arith.MuliOp,
    baco.AndOp: arith.AndIOp,
    baco.OrOp: arith.OrIOp,
    baco.XorOp: arith.XOrIOp,
    baco.ShlOp: arith.ShLIOp,
}
#: Signed and unsigned forms of the others.
_SIGNED: dict[type[IRDLOperation], tuple[type[IRDLOperation], type[IRDLOperation]]] = {
    baco.MaximumOp: (arith.MaxSIOp, arith.MaxUIOp),
    baco.MinimumOp: (arith.MinSIOp, arith.MinUIOp),
    baco.ShrOp: (arith.ShRSIOp, arith.ShRUIOp),
    baco.FloorDivOp: (arith.FloorDivSIOp, arith.DivUIOp),
}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def signless(element: Attribute) -> Attribute:
    """The element type below the `baco` level; of floating point an integer of the same bits, the code."""
    if element in baco.FLOAT_TYPES:
        assert isinstance(element, FixedBitwidthType)
        return IntegerType(element.bitwidth)
    return IntegerType(element.width.data) if isinstance(element, IntegerType) else element


def _unsigned(element: Attribute) -> bool:
    if not isinstance(element, IntegerType):
        return False
    return bool(element.signedness.data == Signedness.UNSIGNED or element.width.data == 1)


def scalar(op: Operation, operands: Sequence[SSAValue], insert: Insert) -> SSAValue | None:
    """One element of an elementwise `baco` operation, by `arith` operations; None for any other operation."""
    kind = type(op)
    if op.operands:
        insert = marked(insert, op.operands[0])
    if kind in _PLAIN:
        return insert(_PLAIN[kind](*operands))
    if kind in _SIGNED:
        unsigned = _unsigned(baco.element_type(op.operands[0].type))
        return insert(_SIGNED[kind][unsigned](*operands))
    if isinstance(op, baco.ModOp):
        a, b = operands
        if _unsigned(baco.element_type(op.lhs.type)):
            return insert(arith.RemUIOp(a, b))
        whole = insert(arith.MuliOp(insert(arith.FloorDivSIOp(a, b)), b))
        return insert(arith.SubiOp(a, whole))
    if isinstance(op, baco.CmpOp):
        how = _COMPARE[op.predicate.data]
        if how not in ("eq", "ne"):
            how = ("u" if _unsigned(baco.element_type(op.lhs.type)) else "s") + how
        return insert(arith.CmpiOp(operands[0], operands[1], how))
    if isinstance(op, baco.SelectOp):
        return insert(arith.SelectOp(*operands))
    if isinstance(op, baco.CastOp):
        source, target = baco.element_type(op.value.type), baco.element_type(op.result.type)
        return cast(operands[0], _unsigned(source), signless(target), insert)
    if isinstance(op, baco.RequantizeOp):
        element = baco.element_type(op.result.type)
        bits = element.width.data if isinstance(element, IntegerType) else 8
        return _requantize(operands[0], op.scale, signless(element), bits, insert)
    return None


def marked(insert: Insert, operand: SSAValue) -> Insert:
    """Inserts operations on an operand of the `baco` level so that they say which floating point they stand for, if any."""
    form = _FORMS.get(baco.element_type(operand.type))
    if form is None:
        return insert

    def inserted(op: Operation) -> SSAValue:
        op.attributes[FLOATING] = StringAttr(form)
        return insert(op)

    return inserted


def floating(op: Operation) -> str | None:
    """The format of floating point that an operation stands for; None for one on integers."""
    form = op.attributes.get(FLOATING)
    return form.data if isinstance(form, StringAttr) else None


def cast(value: SSAValue, unsigned: bool, target: Attribute, insert: Insert) -> SSAValue:
    """An integer in another signless type."""
    source = value.type
    if source == target:
        return value
    if isinstance(source, IndexType) or isinstance(target, IndexType):
        if isinstance(source, IntegerType) and unsigned:
            value = insert(arith.ExtUIOp(value, IntegerType(64)))
        return insert(arith.IndexCastOp(value, target))
    assert isinstance(source, IntegerType)
    assert isinstance(target, IntegerType)
    if target.width.data < source.width.data:
        return insert(arith.TruncIOp(value, target))
    return insert((arith.ExtUIOp if unsigned else arith.ExtSIOp)(value, target))


def _requantize(value: SSAValue, scale: FloatAttr, element: Attribute, bits: int, insert: Insert) -> SSAValue:
    """int32 -> float32, scaled, rounded to nearest even, saturated to so many bits (instruction set, section 10); of floating point the same
    operations, of 8 bits, stand for what arrays make of sums (`baco.compiler.blocks.host` has no meaning for them)."""
    f32, most = Float32Type(), float(1 << (bits - 1))

    def constant(number: float) -> SSAValue:
        return insert(arith.ConstantOp(FloatAttr(number, f32)))

    scaled = insert(arith.MulfOp(insert(arith.SIToFPOp(value, f32)), insert(arith.ConstantOp(scale))))
    rounded = insert(math.RoundEvenOp(scaled))
    above = insert(arith.MaximumfOp(rounded, constant(-most)))
    bounded = insert(arith.MinimumfOp(above, constant(most - 1)))
    assert isinstance(element, IntegerType)
    return insert(arith.FPToSIOp(bounded, element))


def identity(rank: int) -> AffineMap:
    """The map of an operand that is accessed at the iteration's own indices."""
    return AffineMap.identity(rank)


def spread(source: Sequence[int], dims: Sequence[int], rank: int) -> AffineMap:
    """The map of an operand of shape `source` whose dimension d lies along dimension `dims[d]` of `rank`; size 1
    is broadcast."""
    results = [
        AffineConstantExpr(0) if size == 1 else AffineDimExpr(dim)
        for size, dim in zip(source, dims, strict=True)
    ]
    return AffineMap(rank, 0, tuple(results))


def generic(
    build: IndexBuilder,
    inputs: Sequence[tuple[SSAValue, AffineMap]],
    shape: Sequence[int],
    element: Attribute,
    body: Callable[[Sequence[SSAValue], Insert], SSAValue],
) -> SSAValue:
    """A block computed element by element, `linalg.generic` with parallel iterations only."""
    result_type = TensorType(element, shape)
    types = [
        value.type.element_type if isinstance(value.type, TensorType) else value.type for value, _ in inputs
    ]
    block = Block(arg_types=[*types, element])
    inside = Builder(InsertPoint.at_end(block))

    def insert(op: Operation) -> SSAValue:
        op.location = build.location
        inside.insert(op)
        return op.results[0]

    result = body(block.args[:-1], insert)
    inside.insert(YieldOp(result))
    out = build.insert(EmptyOp((), result_type))
    maps = [indexing for _, indexing in inputs] + [identity(len(shape))]
    return build.insert(
        GenericOp(
            [value for value, _ in inputs],
            [out],
            Region(block),
            [AffineMapAttr(one) for one in maps],
            [IteratorTypeAttr.parallel()] * len(shape),
            [result_type],
        )
    )


def reduction(op: baco.ReduceOp, block: SSAValue, build: IndexBuilder) -> SSAValue:
    """A reduction of a block, `linalg.generic` whose sums begin as what changes nothing; the element of one that leaves a
    single number."""
    axis, kind = op.axis.value.data, op.kind.data
    source = baco.element_type(op.block.type)
    element = signless(baco.element_type(op.result.type))
    shape = baco.shape_of(block.type)
    left = baco.shape_of(op.result.type) or (1,)
    if kind == "sum":
        first = 0
    else:
        low, high = baco.value_range(source)
        # below `baco` integers have no sign: 255 has the bits of -1
        first = low if kind == "max" else -1 if _unsigned(source) else high
    zero = integer(first, element, build.insert)
    start = build.insert(FillOp([zero], [build.insert(EmptyOp((), TensorType(element, left)))]))
    inside = Block(arg_types=[signless(source), element])
    body = Builder(InsertPoint.at_end(inside))

    def insert(one: Operation) -> SSAValue:
        one.location = build.location
        body.insert(one)
        return one.results[0]

    if kind == "sum":
        reduced = insert(
            arith.AddiOp(cast(inside.args[0], _unsigned(source), element, insert), inside.args[1])
        )
    else:
        extremum = _SIGNED[baco.MaximumOp if kind == "max" else baco.MinimumOp][_unsigned(source)]
        reduced = insert(extremum(*inside.args))
    body.insert(YieldOp(reduced))
    rank = len(shape)
    if rank == 1:  # one row
        source_map, result_map = AffineMap(2, 0, (AffineDimExpr(1),)), AffineMap(2, 0, (AffineDimExpr(0),))
        axis, rank = 1, 2
    else:
        source_map = identity(rank)
        result_map = AffineMap(rank, 0, tuple(AffineDimExpr(dim) for dim in range(rank) if dim != axis))
    kinds = [IteratorTypeAttr.parallel()] * rank
    kinds[axis] = IteratorTypeAttr.reduction()
    result = build.insert(
        GenericOp(
            [block],
            [start],
            Region(inside),
            [AffineMapAttr(source_map), AffineMapAttr(result_map)],
            kinds,
            [TensorType(element, left)],
        )
    )
    if baco.shape_of(op.result.type):
        return result
    at = integer(0, IndexType(), build.insert)
    return build.insert(ExtractOp(result, [at], element))


def integer(number: int, element: Attribute, insert: Insert) -> SSAValue:
    """A constant of an integer or index type."""
    assert isinstance(element, IntegerType | IndexType)
    return insert(arith.ConstantOp(IntegerAttr(number, element)))
