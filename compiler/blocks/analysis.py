"""Which blocks of a structured function live in the accumulator, which are factors, and what their users ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func, memref, scf
from xdsl.dialects.bufferization import ToBufferOp
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp, MatmulOp
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from baco.accel.config import Accelerator
from baco.accel.input_format import InputFormat
from baco.common.errors import InputError
from baco.compiler.abstraction import contraction_of, gemmini, is_identity, match
from baco.compiler.blocks.elementwise import floating
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.blocks.reading import (
    Addend,
    Factor,
    Size,
    addend_of,
    block_load,
    factor_of,
    is_relu,
    mixed,
    requantised,
    same_sizes,
    shape_of,
    sum_operands,
)
from baco.compiler.blocks.scalars import width_of
from baco.compiler.ir.known import known
from baco.compiler.ir.location import location_of
from baco.compiler.styles.explicit.plan import exact_products


@dataclass(frozen=True)
class ArrayProduct:
    """A product that the array computes."""

    left: Factor
    right: Factor
    total: SSAValue


@dataclass(frozen=True)
class AccumulatorSum:
    """A block in the accumulator plus one that a load adds to it."""

    total: SSAValue
    addend: Addend
    addend_value: SSAValue


class Analysis:
    """Facts about one function.

    Attributes:
        element_bits: of the array's elements.
        products: the products that the array can compute.
        factors: blocks that are a factor of one: to be kept in the scratchpad.
        rights: by block, how it is the right factor of products.
        stored: arguments that are stored to.
        read: arguments that are loaded from.
    """

    def __init__(self, function: func.FuncOp, accelerator: Accelerator) -> None:
        self.element_bits = accelerator.input_bits
        self.products: dict[Operation, ArrayProduct] = {}
        self.factors: set[SSAValue] = set()
        self.rights: dict[SSAValue, list[Factor]] = {}
        self.stored: set[SSAValue] = set()
        self.read: set[SSAValue] = set()
        self._carried: dict[SSAValue, bool] = {}
        self._array = gemmini(accelerator.dim)
        features = accelerator.features
        usable = exact_products(accelerator) >= accelerator.dim and features.read_full_width
        for op in function.walk():
            if isinstance(op, MatmulOp) and usable:
                check_format(op, accelerator)
                self._consider(op)
            elif isinstance(op, memref.StoreOp):
                self.stored.add(op.memref)
            elif isinstance(op, memref.LoadOp):
                self.read.add(op.memref)
            elif isinstance(op, memref.CopyOp):
                for value, found in ((op.source, self.read), (op.destination, self.stored)):
                    if isinstance(value.owner, memref.ReinterpretCastOp):
                        found.add(value.owner.source)

    def _consider(self, op: MatmulOp) -> None:
        left, right = (factor_of(one) for one in op.inputs)
        if left is None or right is None or not is_identity(match(contraction_of(op), self._array)):
            return
        if any(bits_of(one.source) != self.element_bits for one in (left, right)):
            return
        self.products[op] = ArrayProduct(left, right, op.outputs[0])
        self.factors |= {left.source, right.source}
        self.rights.setdefault(right.source, []).append(right)

    # ---------------------------------------------------------------- what is in the accumulator

    def sum_of(self, value: SSAValue) -> AccumulatorSum | None:
        """The block as a sum of one in the accumulator, used for nothing else, and a loadable one."""
        sides = sum_operands(value)
        if sides is None:
            return None
        for total, other in (sides, sides[::-1]):
            if used_once_beside(total) and self.in_accumulator(total):
                addend = addend_of(other, self.element_bits)
                if addend is not None and addend.load.source not in self.stored:
                    return AccumulatorSum(total, addend, other)
        return None

    def in_accumulator(self, value: SSAValue) -> bool:
        """The block lives in the accumulator."""
        owner = value.owner
        if isinstance(owner, Operation):
            if owner in self.products:
                return True
            if isinstance(owner, scf.ForOp):
                return self.carried(owner, _position(owner, value))
            return isinstance(owner, GenericOp) and self.sum_of(value) is not None
        loop = owner.parent_op()
        assert isinstance(value, BlockArgument)
        return isinstance(loop, scf.ForOp) and value.index > 0 and self.carried(loop, value.index - 1)

    def carried(self, loop: scf.ForOp, position: int) -> bool:
        """What the loop carries stays in one region of the accumulator from round to round."""
        argument = loop.body.block.args[1 + position]
        if argument not in self._carried:
            self._carried[argument] = False
            self._carried[argument] = self._chain_reaches(loop, position, argument)
        return self._carried[argument]

    def _chain_reaches(self, loop: scf.ForOp, position: int, argument: SSAValue) -> bool:
        last = loop.body.block.last_op
        assert last is not None
        value = last.operands[position]
        if value is argument:
            return False
        while value is not argument:
            if not value.has_one_use():
                return False
            owner = value.owner
            if not isinstance(owner, Operation):
                return False
            if owner in self.products:
                value = self.products[owner].total
            elif isinstance(owner, scf.ForOp):
                inner = _position(owner, value)
                if not self.carried(owner, inner):
                    return False
                value = owner.iter_args[inner]
            else:
                # the total of a sum may be the very argument that is being decided about
                sides = sum_operands(value)
                if sides is None:
                    return False
                following = [
                    total
                    for total, other in (sides, sides[::-1])
                    if _loadable(addend_of(other, self.element_bits), self.stored)
                    and not _loadable(addend_of(total, self.element_bits), self.stored)
                ]
                if len(following) != 1:
                    return False
                self._carried[argument] = True
                value = following[0]
        return bool(argument.has_one_use())

    # ---------------------------------------------------------------- what is asked of it

    def demand(self, values: Sequence[SSAValue]) -> tuple[Size, Size]:
        """Rows and columns of blocks in one region of the accumulator that users, at the end of the chain, look at."""
        whole: tuple[Size, ...] = shape_of(values[0])
        demanded: tuple[Size, ...] | None = None
        for value in values:
            for sizes in self._asked(value, in_chain=True):
                if demanded is None:
                    demanded = sizes
                elif not same_sizes(demanded, sizes):
                    demanded = whole
        rows, columns = whole if demanded is None else demanded
        return rows, columns

    def _asked(self, value: SSAValue, *, in_chain: bool) -> Iterator[tuple[Size, ...]]:
        whole: tuple[Size, ...] = shape_of(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, ExtractSliceOp):
                low = mixed(op.static_offsets.get_values(), op.offsets)
                yield mixed(op.static_sizes.get_values(), op.sizes) if all(one == 0 for one in low) else whole
            elif isinstance(op, ToBufferOp):
                yield whole
            elif in_chain and op in self.products and op.operands[use.index] is self.products[op].total:
                yield from self._asked(op.results[0], in_chain=True)
            elif isinstance(op, scf.ForOp) and in_chain and use.index >= 3:
                if self.carried(op, use.index - 3):
                    yield from self._asked(op.body.block.args[use.index - 2], in_chain=True)
                    yield from self._asked(op.results[use.index - 3], in_chain=True)
                else:
                    yield whole
            elif isinstance(op, scf.YieldOp) and in_chain:
                continue  # what the loop gives is looked at where the loop is
            elif isinstance(op, GenericOp):
                result = op.results[0]
                total = self.sum_of(result) if in_chain else None
                if total is not None and total.total is value:
                    yield from self._asked(result, in_chain=True)
                elif (requantised(result) is not None or is_relu(result) is not None) and not self._is_factor(
                    result
                ):
                    yield from self._asked(result, in_chain=False)
                else:
                    yield whole
            else:
                yield whole

    def _is_factor(self, value: SSAValue) -> bool:
        return value in self.factors

    def first_writer(
        self, value: SSAValue, user: Operation
    ) -> tuple[tuple[Size, Size], list[scf.ForOp]] | None:
        """Rows and columns of the product that writes a zero block first, and the loops between; None if the block may
        be looked at before any product has been added.

        Args:
            value: what `user` takes as the block.
        """
        loops: list[scf.ForOp] = []
        while isinstance(user, scf.ForOp):
            position = list(user.iter_args).index(value)
            if not self.carried(user, position) or not _runs(user):
                return None
            loops.append(user)
            value = user.body.block.args[1 + position]
            (use,) = value.uses
            user = use.operation
            if user.parent is not value.owner:
                return None
        product = self.products.get(user)
        if product is None:
            return None
        left, right = (self.factor_sizes(one) for one in (product.left, product.right))
        if min(_least(left[1]), _least(right[0])) < 1:
            return None
        return (left[0], right[1]), loops

    @staticmethod
    def factor_sizes(factor: Factor) -> tuple[Size, Size]:
        """Rows and columns of a factor, as it is used, that may differ from zero."""
        load = block_load(factor.source)
        shape = shape_of(factor.source)
        rows, columns = load.sizes if load is not None and load.zero_padded_high else shape
        return (columns, rows) if factor.transposed else (rows, columns)


def bits_of(block: SSAValue) -> int:
    """Of an element of a block."""
    assert isinstance(block.type, TensorType)
    return width_of(block.type.element_type)


def product_format(product: MatmulOp) -> InputFormat:
    """What a product multiplies, as an array has it."""
    if (form := floating(product)) is not None:
        return cast(InputFormat, form)
    factors = [factor_of(one) for one in product.inputs]
    return "int16" if {one and bits_of(one.source) for one in factors} == {16} else "integer"


def check_format(product: MatmulOp, accelerator: Accelerator) -> None:
    """Raise InputError, with the line, for a product of other elements than the array computes; one of int16 beside int8 is left to the host
    core."""
    form = product_format(product)
    if form != accelerator.input_format and (form, accelerator.input_format) != ("int16", "integer"):
        kinds = [
            "integers" if one == "integer" else f"elements of {one}"
            for one in (form, accelerator.input_format)
        ]
        raise InputError(
            f"a product of {kinds[0]}, and {accelerator.name} computes {kinds[1]}",
            location=location_of(product),
            hint="arrays of floating point are numpy's with types of ml_dtypes (codes.view(ml_dtypes.float8_e4m3fn)), or torch's; "
            f"an accelerator computes them with input_format: {form}",
        )


def _position(loop: scf.ForOp, value: SSAValue) -> int:
    return next(position for position, result in enumerate(loop.results) if result is value)


def used_once_beside(value: SSAValue) -> bool:
    """One use, in the block where the value is defined: it may be changed in place there."""
    if not value.has_one_use():
        return False
    (use,) = value.uses
    block = value.owner if isinstance(value, BlockArgument) else value.owner.parent
    return use.operation.parent is block


def _loadable(addend: Addend | None, stored: set[SSAValue]) -> bool:
    return addend is not None and addend.load.source not in stored


def _least(size: Size) -> int:
    return size if isinstance(size, int) else bounds_of(size)[0]


def _runs(loop: scf.ForOp) -> bool:
    """At least once."""
    return bounds_of(loop.ub)[0] > bounds_of(loop.lb)[1]


def enclosing_loops(op: Operation) -> Iterator[scf.ForOp]:
    """Loops around an operation, innermost first."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp):
            yield parent
        parent = parent.parent_op()


def bounds_of_loop(loop: scf.ForOp) -> tuple[int, int, int] | None:
    """Known first number, end and step of a loop that runs at least once."""
    lower, upper, step = map(known, (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or step is None or step < 1 or lower >= upper:
        return None
    return lower, upper, step
