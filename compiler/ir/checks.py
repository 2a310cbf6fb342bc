"""Whether a module is well formed: what operations say of themselves, and what holds between them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import cache

from xdsl.dialects import arith, cf, llvm
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.traits import HasFolder, IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait
from xdsl.utils.exceptions import VerifyException

from baco.common.errors import InputError
from baco.compiler.dialects.baco_types import (
    GRID,
    MOST_BLOCK_ELEMENTS,
    MOST_BLOCK_RANK,
    MOST_KERNEL_OPERATIONS,
    shape_of,
)
from baco.compiler.ir.dominance import dominator_tree
from baco.compiler.ir.location import location_of

#: Numbers by property that stand for a word: how many words there are. xDSL looks them up without a check.
_ENUMERATED: dict[type[Operation], tuple[str, int]] = {
    arith.CmpiOp: ("predicate", 10),
    arith.CmpfOp: ("predicate", 16),
    llvm.ICmpOp: ("predicate", 10),
    llvm.FCmpOp: ("predicate", 16),
}
#: Lists of numbers by property, in which `DYNAMIC_INDEX` stands for the next of the operands of the other name.
_MIXED = {f"static_{name}": name for name in ("low", "high", "offsets", "sizes", "strides")}
#: Flags of `llvm.ArithmeticBinOpOverflow`: two bits.
_MOST_FLAGS = 3


def check_ir(module: ModuleOp) -> None:
    """Raises InputError, with the line if it is known, unless every operation is well formed.

    Beyond each operation's own rules: definitions dominate uses, terminators end their blocks.
    """
    _check_symbols(module)
    for op in module.ops:
        if GRID in op.attributes and sum(1 for _ in op.walk()) > MOST_KERNEL_OPERATIONS + 1:
            raise InputError(
                f"this kernel has more than {MOST_KERNEL_OPERATIONS:,} operations", location=location_of(op)
            )
    right: set[Hashable] = set()
    for op in module.walk():
        alike = _decides(op)
        if alike is not None and alike in right:
            continue
        try:
            _verify(op)
        except Exception as error:  # verifiers raise more than VerifyException
            raise InputError(f"{op.name}: {reason_of(error)}", location=location_of(op)) from None
        if op.has_trait(IsTerminator, value_if_unregistered=False) and op.next_op is not None:
            raise InputError(
                f"{op.name} must be the last operation of its block, {op.next_op.name} follows",
                location=location_of(op),
            )
        for region in op.regions:
            _check_region(op, region)
        _check_branch(op)
        _check_numbers(op)
        right.add(alike)
    for region in module.regions:
        _check_definitions(region, set())


def _decides(op: Operation) -> Hashable:
    """All that decides whether an operation is right by itself: equal for operations of which one need be asked; None for those to
    ask one by one, since others around them matter, too."""
    kind, block = type(op), op.parent
    if op.regions or op.successors or block is None or block.last_op is op or not _stands_alone(kind):
        return None
    values = [*op.operands, *op.results]
    if any(type(value) is ErasedSSAValue for value in values):
        return None
    types = tuple(value.type for value in values)
    return kind, len(op.operands), types, *op.properties.items(), None, *op.attributes.items()


@cache
def _stands_alone(kind: type[Operation]) -> bool:
    """Whether the definition of a class says all that its operations must be: neither the class nor a trait has a verifier of its
    own, which may look around."""
    if not issubclass(kind, IRDLOperation):
        return False
    # `irdl_op_definition` makes one of what the definition says and, behind it, of the class's own
    made = inspect.getclosurevars(kind.verify_).nonlocals
    if "op_def" not in made or made.get("custom_verify", Operation.verify_) is not Operation.verify_:
        return False
    traits = kind.get_irdl_definition().traits
    return all(type(trait).verify is OpTrait.verify or isinstance(trait, HasFolder) for trait in traits)


def _verify(op: Operation) -> None:
    """What xDSL asks of an operation by itself. It counts the blocks of a region for the last operation of each of them, so that of
    many blocks that is asked here. Raises VerifyException, and what verifiers raise."""
    block = op.parent
    region = None if block is None else block.parent
    if block is None or region is None or block.last_op is not op or region.first_block is region.last_block:
        op.verify(verify_nested_ops=False)
        return
    if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
        raise VerifyException("Erased SSA value is used by the operation")
    if any(successor.parent is not region for successor in op.successors):
        raise VerifyException(f"Operation {op.name} is branching to a block of a different region")
    if not op.has_trait(IsTerminator):
        raise VerifyException(
            f"Operation {op.name} terminates block in multi-block region but is not a terminator"
        )
    op.verify_()


def reason_of(error: BaseException) -> str:
    """What went wrong at first, in one line, without the wrapping that prints the whole module."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).strip().splitlines()]
    text = lines[0].removeprefix("Operation does not verify: ") if lines else ""
    return text or f"the operation is malformed ({type(error).__name__})"


def _check_region(op: Operation, region: Region) -> None:
    for block in region.blocks:
        if block.last_op is None and not op.has_trait(NoTerminator, value_if_unregistered=True):
            raise InputError(
                f"{op.name} has an empty block, which lacks a terminator", location=location_of(op)
            )


def _check_branch(op: Operation) -> None:
    """A branch passes what the arguments of its targets are."""
    passed: list[Sequence[SSAValue]]
    if isinstance(op, (cf.BranchOp, llvm.BrOp)):
        passed = [op.arguments]
    elif isinstance(op, (cf.ConditionalBranchOp, llvm.CondBrOp)):
        passed = [op.then_arguments, op.else_arguments]
    else:
        return
    for block, values in zip(op.successors, passed, strict=True):
        wanted, given = [argument.type for argument in block.args], [value.type for value in values]
        if wanted != given:
            texts = [", ".join(map(str, types)) or "nothing" for types in (wanted, given)]
            raise InputError(
                f"{op.name} passes {texts[1]} to a block that takes {texts[0]}", location=location_of(op)
            )


def _check_numbers(op: Operation) -> None:
    """Numbers that stand for words or operands, and sizes of blocks."""
    name, count = _ENUMERATED.get(type(op), ("", 0))
    if isinstance(op, llvm.ArithmeticBinOpOverflow):
        name, count = "overflowFlags", _MOST_FLAGS + 1
    number = op.properties.get(name)
    if isinstance(number, IntegerAttr) and not 0 <= number.value.data < count:
        raise InputError(f"{op.name}: no {name} has the number {number.value.data}", location=location_of(op))
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        number_fits = -(1 << 63) <= op.value.value.data < 1 << 64
        if not number_fits:
            raise InputError(f"{op.name}: the number has more than 64 bits", location=location_of(op))
    for name, operands in _MIXED.items():
        numbers = op.properties.get(name)
        if isinstance(numbers, DenseArrayBase) and hasattr(op, operands):
            given, wanted = len(getattr(op, operands)), list(numbers.get_values()).count(DYNAMIC_INDEX)
            if given != wanted:
                raise InputError(
                    f"{op.name} has {given} computed {operands} where {wanted} are left open",
                    location=location_of(op),
                )
    if op.dialect_name() == "baco":
        for result in op.results:
            shape = shape_of(result.type)
            if math.prod(shape) > MOST_BLOCK_ELEMENTS or len(shape) > MOST_BLOCK_RANK:
                raise InputError(
                    f"{op.name} gives a block of more than {MOST_BLOCK_ELEMENTS:,} elements"
                    f" or {MOST_BLOCK_RANK} dimensions",
                    location=location_of(op),
                )


def _check_definitions(region: Region, visible: set[SSAValue]) -> None:
    """Every operand is among `visible`, or defined before its use in a block that dominates the use's."""
    for block in _scopes(region, visible):
        visible.update(block.args)
        for op in block.ops:
            for index, operand in enumerate(op.operands):
                if operand not in visible:
                    name = f"%{operand.name_hint}" if operand.name_hint else f"operand {index + 1}"
                    raise InputError(
                        f"{op.name} uses {name}, which is not defined there", location=location_of(op)
                    )
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            for inner in op.regions:
                _check_definitions(inner, set() if isolated else visible)
            visible.update(op.results)


def _scopes(region: Region, visible: set[SSAValue]) -> Iterator[Block]:
    """Blocks, each behind those that dominate it; what a block defines leaves `visible` behind the last that it does."""
    tree = dominator_tree(region)
    below = {block for blocks in tree.values() for block in blocks}
    for root in (block for block in tree if block not in below):
        yield root
        stack = [(root, iter(tree[root]))]
        while stack:
            block, rest = stack[-1]
            child = next(rest, None)
            if child is not None:
                yield child
                stack.append((child, iter(tree[child])))
                continue
            stack.pop()
            visible.difference_update(block.args)
            for op in block.ops:
                visible.difference_update(op.results)


def _check_symbols(module: ModuleOp) -> None:
    seen: dict[str, Operation] = {}
    for op in module.body.block.ops:
        symbol = op.properties.get("sym_name")
        if not isinstance(symbol, StringAttr):
            continue
        if symbol.data in seen:
            first = location_of(seen[symbol.data])
            where = f" (first in line {first.line})" if first and first.line else ""
            raise InputError(f"@{symbol.data} is defined twice{where}", location=location_of(op))
        seen[symbol.data] = op
