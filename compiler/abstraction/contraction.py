"""Contractions: tensor programs `D[...] += A[...] * B[...]` as loop bounds and index expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
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

from common.errors import InputError
from compiler.abstraction.expression import Expression, as_sum, variable
from workloads.problem import Problem

__all__ = ["Access", "Contraction", "contraction_of", "convolution", "matmul"]


@dataclass(frozen=True)
class Access:
    """One operand: its name and the index expression of each of its dimensions."""

    operand: str
    indices: tuple[Expression, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Iterations that choose the element."""
        return tuple(dict.fromkeys(name for index in self.indices for name in index.variables))

    def __str__(self) -> str:
        return f"{self.operand}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Contraction:
    """`output += left * right` over all iterations; elements outside a stored tensor count as zero.

    Attributes:
        extents: number of each iteration, in the order of the loop nest.
        output, left, right: what is accessed.
    """

    extents: Mapping[str, int]
    output: Access
    left: Access
    right: Access

    def __post_init__(self) -> None:
        used = {name for access in self.accesses for name in access.variables}
        for name in used - set(self.extents):
            raise InputError(f"iteration '{name}' of {self} has no extent")
        for name, extent in self.extents.items():
            if extent < 1:
                raise InputError(f"iteration '{name}' of {self} runs {extent} times", hint="at least once")

    @property
    def accesses(self) -> tuple[Access, Access, Access]:
        """Output, left and right operand."""
        return (self.output, self.left, self.right)

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return math.prod(self.extents.values())

    def __str__(self) -> str:
        return f"{self.output} += {self.left} * {self.right}"


def matmul(m: int, n: int, k: int) -> Contraction:
    """D[m, n] += A[m, k] * B[k, n]."""
    i, j, r = variable("m"), variable("n"), variable("k")
    return Contraction(
        {"m": m, "n": n, "k": k}, Access("D", (i, j)), Access("A", (i, r)), Access("B", (r, j))
    )


def convolution(problem: Problem) -> Contraction:
    """A convolution (or product) problem: O[g, n, q, p, k] += I[g, n, y, x, c] * W[g, s, r, c, k], padding aside.

    The iteration of groups, `g`, is there only if there is more than one.
    """
    extents = dict(zip("RSPQCKN", problem.bounds, strict=True))
    nest = {name: extents[name.upper()] for name in "npqckrs"}
    v = {name: variable(name) for name in (*nest, "g")}
    y = v["q"] * problem.stride_h + v["s"] * problem.dilation_h
    x = v["p"] * problem.stride_w + v["r"] * problem.dilation_w
    group: tuple[Expression, ...] = ()
    if problem.groups > 1:
        nest = {"g": problem.groups, **nest}
        group = (v["g"],)
    return Contraction(
        nest,
        Access("O", (*group, v["n"], v["q"], v["p"], v["k"])),
        Access("I", (*group, v["n"], y, x, v["c"])),
        Access("W", (*group, v["s"], v["r"], v["c"], v["k"])),
    )


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
    return Contraction({name: extents[name] for name in names}, output, left, right)


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


def iteration_grid(extents: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Every iteration of a loop nest: per name an array of its numbers, of one broadcastable shape."""
    grids = np.meshgrid(*(np.arange(extent) for extent in extents.values()), indexing="ij", sparse=True)
    return dict(zip(extents, grids, strict=True))
