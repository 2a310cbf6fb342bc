"""Linalg operations as contractions."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, ShapedType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, as_sum, variable


def contraction_of(op: LinalgStructuredOperation) -> Contraction:
    """The contraction that a linalg operation on tensors of static shape computes.

    Iterations are named i0, i1, ... in the order of its loops, operands A, B and D.

    Raises InputError for an operation that is no sum of products of two operands, for index maps other than sums of
    multiples of iterations, and for shapes that are not static or do not determine the loop bounds.
    """
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    if len(maps) != 3 or not _multiplies_and_adds(op):
        raise InputError(f"{op.name} is no sum of products of two operands")
    shapes: list[tuple[int, ...]] = []
    for operand in op.operands:
        if not isinstance(operand.type, ShapedType) or DYNAMIC_INDEX in operand.type.get_shape():
            raise InputError(f"{op.name} needs operands of static shape, not {operand.type}")
        shapes.append(tuple(operand.type.get_shape()))
    names = [f"i{position}" for position in range(maps[0].num_dims)]
    extents: dict[str, int] = {}
    accesses = []
    for letter, indexing, shape in zip("ABD", maps, shapes, strict=True):
        indices = tuple(_expression(result, names) for result in indexing.results)
        accesses.append(Access(letter, indices))
        for index, extent in zip(indices, shape, strict=True):
            if str(index) in names:
                extents[str(index)] = extent
    for name in names:
        if name not in extents:
            raise InputError(f"no operand of {op.name} has the extent of its iteration {name}")
    left, right, output = accesses
    return Contraction({name: extents[name] for name in names}, output, (left, right))


def _multiplies_and_adds(op: LinalgStructuredOperation) -> bool:
    """The body is `yield(add(out, mul(a, b)))`, extensions of a and b allowed."""
    block = op.body.block
    if len(block.args) != 3 or block.last_op is None:
        return False
    a, b, out = block.args
    (result,) = block.last_op.operands

    def behind_extension(value: SSAValue) -> SSAValue:
        owner = value.owner
        return owner.operands[0] if isinstance(owner, arith.ExtSIOp) else value

    if not isinstance(result.owner, arith.AddiOp):
        return False
    lhs, rhs = result.owner.operands
    for total, product in ((lhs, rhs), (rhs, lhs)):
        if total is out and isinstance(product.owner, arith.MuliOp):
            first, second = map(behind_extension, product.owner.operands)
            if (first is a and second is b) or (first is b and second is a):
                return True
    return False


def _expression(affine: AffineExpr, names: list[str]) -> Expression:
    if isinstance(affine, AffineConstantExpr):
        return as_sum(affine.value)
    if isinstance(affine, AffineDimExpr):
        return variable(names[affine.position])
    if isinstance(affine, AffineBinaryOpExpr):
        left, right = affine.lhs, affine.rhs
        if affine.kind is AffineBinaryOpKind.Add:
            return _expression(left, names) + _expression(right, names)
        if affine.kind is AffineBinaryOpKind.Mul and isinstance(right, AffineConstantExpr):
            return _expression(left, names) * right.value
        if affine.kind is AffineBinaryOpKind.Mul and isinstance(left, AffineConstantExpr):
            return _expression(right, names) * left.value
    raise InputError(f"index {affine} is no sum of multiples of iterations")
