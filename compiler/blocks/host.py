"""Blocks that the host core computes: loops over elements, with loads, arithmetic and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, MatmulOp, YieldOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from baco.common.errors import InputError
from baco.compiler.blocks.elementwise import floating
from baco.compiler.blocks.memory import Accumulated, Computed, Filled, InMemory
from baco.compiler.blocks.reading import requantisation, shape_of
from baco.compiler.blocks.scalars import is_scalar_operation, requantise, scalar_operation, truth, width_of
from baco.compiler.blocks.state import LoweringState, bytes_of
from baco.compiler.ir.emit import Condition, Number
from baco.compiler.ir.location import location_of

_Memo = dict[tuple[SSAValue, tuple[Number, ...]], Number]


class HostCode:
    """Writes element loops.

    Args:
        spill: copies a block of the accumulator to main memory as int32 and says where.
    """

    def __init__(self, state: LoweringState, spill: Callable[[SSAValue, Accumulated], InMemory]) -> None:
        self.state = state
        self._spill = spill

    @contextmanager
    def section(self) -> Iterator[None]:
        """Accesses of the host core to main memory, apart from those of the accelerator."""
        self.state.e.fence()
        yield
        self.state.e.fence()

    def prepare(self, value: SSAValue) -> None:
        """Bring everything that a block is computed from where the host core can read it."""
        self._prepare(value, set())

    def _prepare(self, value: SSAValue, done: set[SSAValue]) -> None:
        """Each block once, however often others are computed from it."""
        if value in done:
            return
        done.add(value)
        record = self.state.records[value]
        if isinstance(record, Accumulated):
            if value not in self.state.spills:
                self.state.spills[value] = self._spill(value, record)
        elif isinstance(record, Computed):
            for operand in record.op.inputs:
                if operand in self.state.records:
                    self._prepare(operand, done)

    def store(self, value: SSAValue, to: InMemory, first: Sequence[Number] | None = None) -> None:
        """Write the part of a block that begins at `first` to memory: as much as `to` has room for."""
        self.prepare(value)
        starts = (0,) * len(to.shape) if first is None else tuple(first)
        with self.section(), self.loops(to.sizes) as at:
            e = self.state.e
            inside = tuple(e.add(start, index) for start, index in zip(starts, at, strict=True))
            e.store(self.address(to, at), self.element(value, inside), memory_bits(to.bits))

    @contextmanager
    def loops(self, sizes: Sequence[Number]) -> Iterator[tuple[Number, ...]]:
        """A loop for each size, the last one innermost."""
        with ExitStack() as stack:
            yield tuple(stack.enter_context(self.state.e.loop(size)) for size in sizes)

    def address(self, block: InMemory, at: Sequence[Number]) -> Number:
        """Byte address of an element, counted from the first one that is there."""
        e = self.state.e
        steps = [e.mul(index, stride) for index, stride in zip(at, block.strides, strict=True)]
        return e.add(block.address, e.mul(e.add(*steps, 0), block.bits // 8))

    def element(self, value: SSAValue, at: tuple[Number, ...], memo: _Memo | None = None) -> Number:
        """One element of a block that is prepared."""
        memo = {} if memo is None else memo
        key = (value, at)
        if key not in memo:
            memo[key] = self._element(value, at, memo)
        return memo[key]

    def _element(self, value: SSAValue, at: tuple[Number, ...], memo: _Memo) -> Number:
        record = self.state.records[value]
        if isinstance(record, Accumulated):
            record = self.state.spills[value]
        if isinstance(record, Filled):
            return record.number
        if isinstance(record, InMemory):
            return self._loaded(record, at)
        return self._computed(record.op, at, memo)

    def _loaded(self, block: InMemory, at: tuple[Number, ...]) -> Number:
        e = self.state.e
        where: list[Number] = []
        there: Condition = True
        for index, low, size, extent in zip(at, block.low, block.sizes, block.shape, strict=True):
            shifted = e.sub(index, low)
            where.append(shifted)
            if low == 0 and isinstance(size, int) and size == extent:
                continue
            there = e.both(there, e.compare("sge", shifted, 0))
            there = e.both(there, e.compare("slt", shifted, size))
        if there is True:
            return e.load(self.address(block, where), memory_bits(block.bits))
        if there is False:
            return block.other
        cell = e.variable(block.other)
        with e.when(there):
            cell.set(e.load(self.address(block, where), memory_bits(block.bits)))
        return cell.get()

    def _computed(self, op: GenericOp, at: tuple[Number, ...], memo: _Memo) -> Number:
        (result,) = self.body(op.body.block.ops, self._operands(op, at, memo), at)
        return result

    def _operands(self, op: GenericOp, at: Sequence[Number], memo: _Memo) -> dict[SSAValue, Number]:
        """Elements of the inputs of an operation at an iteration, by its block's arguments."""
        local: dict[SSAValue, Number] = {}
        for operand, argument, indexing in zip(op.inputs, op.body.block.args, op.indexing_maps, strict=False):
            if not any(argument.uses):
                continue
            if operand in self.state.records:
                indices = tuple(self._index(one, at, op) for one in indexing.data.results)
                local[argument] = self.element(operand, indices, memo)
            else:
                local[argument] = self.state.numbers[operand]
        return local

    def _index(self, index: AffineExpr, at: Sequence[Number], op: Operation) -> Number:
        """An index map's result at an iteration."""
        e = self.state.e
        if isinstance(index, AffineDimExpr):
            return at[index.position]
        if isinstance(index, AffineConstantExpr):
            return index.value
        if isinstance(index, AffineBinaryOpExpr):
            a, b = self._index(index.lhs, at, op), self._index(index.rhs, at, op)
            if index.kind is AffineBinaryOpKind.Add:
                return e.add(a, b)
            if index.kind is AffineBinaryOpKind.Mul:
                return e.mul(a, b)
        raise InputError(f"index {index} is no sum of multiples of iterations", location=location_of(op))

    def reduction(self, op: GenericOp) -> InMemory:
        """A block each element of which collects many, as loops over all of them; in main memory.

        Raises InputError unless the result is accessed by single iterations and operands tell how often all run.
        """
        e = self.state.e
        extents = _extents(op)
        (result,), (total,) = op.results, op.outputs
        maps = [one.data for one in op.indexing_maps]
        outer = [index.position for index in maps[-1].results if isinstance(index, AffineDimExpr)]
        inner = [dim for dim in range(len(extents)) if dim not in outer]
        if len(outer) != len(maps[-1].results) or any(not extents[dim] for dim in range(len(extents))):
            raise InputError("the iterations of this operation cannot be found", location=location_of(op))
        for value in (*op.inputs, total):
            if value in self.state.records:
                self.prepare(value)
        target = self.state.temporary(shape_of(result), 8 * bytes_of(result))
        block = op.body.block
        with self.section(), self.loops([extents[dim] for dim in outer]) as position:
            cell = e.variable(self.element(total, position) if any(block.args[-1].uses) else 0)
            with self.loops([extents[dim] for dim in inner]) as rest:
                numbers = dict(zip([*outer, *inner], [*position, *rest], strict=True))
                at = [numbers[dim] for dim in range(len(extents))]
                local: dict[SSAValue, Number] = {block.args[-1]: cell.get()}
                local |= self._operands(op, at, {})
                cell.set(self.body(block.ops, local, at)[0])
            e.store(self.address(target, position), cell.get(), memory_bits(target.bits))
        return target

    def body(
        self,
        ops: Iterable[Operation],
        local: dict[SSAValue, Number],
        at: Sequence[Number],
    ) -> list[Number]:
        """Run the operations of one element; what the last one yields."""
        e = self.state.e

        def number(value: SSAValue) -> Number:
            return local[value] if value in local else self.state.numbers[value]

        for op in ops:
            if isinstance(op, YieldOp | scf.YieldOp):
                return [number(operand) for operand in op.operands]
            check_integers(op)
            if isinstance(op, IndexOp):
                local[op.result] = at[op.dim.value.data]
            elif isinstance(op, memref.LoadOp):
                local[op.res] = self.load(op, [number(index) for index in op.indices])
            elif isinstance(op, scf.IfOp) and len(op.results) == 1:
                local[op.results[0]] = self._choice(op, number(op.cond), local, at)
            elif isinstance(op, arith.FPToSIOp) and (found := requantisation(op.result)) is not None:
                local[op.result] = requantise(e, number(found[0]), found[1], width_of(op.result.type))
            elif (is_scalar_operation(op) and isinstance(op.results[0].type, IntegerType)) or _on_index(op):
                local[op.results[0]] = scalar_operation(e, op, [number(one) for one in op.operands])
            elif op.results and not isinstance(op.results[0].type, IntegerType):
                continue  # floating point inside a requantisation, which is computed as a whole
            else:
                raise InputError(
                    f"'{op.name}' cannot be compiled for the host core", location=location_of(op)
                )
        return []

    def _choice(
        self, op: scf.IfOp, condition: Number, local: dict[SSAValue, Number], at: Sequence[Number]
    ) -> Number:
        e = self.state.e
        holds = truth(e, condition)
        (other,) = self.body(list(op.false_region.block.ops), dict(local), at)
        cell = e.variable(other)
        with e.when(holds):
            (chosen,) = self.body(list(op.true_region.block.ops), dict(local), at)
            cell.set(chosen)
        return cell.get()

    def load(self, op: memref.LoadOp, indices: Sequence[Number]) -> Number:
        """One element of an argument."""
        e = self.state.e
        size = bytes_of(op.memref)
        (index,) = indices
        return e.load(e.add(self.state.arguments[op.memref], e.mul(index, size)), memory_bits(8 * size))

    def product(self, op: MatmulOp) -> InMemory:
        """A matrix product that the array cannot compute, as int32 in main memory."""
        check_integers(op)
        e = self.state.e
        left, right = op.inputs
        total = op.outputs[0]
        for value in (left, right, total):
            self.prepare(value)
        (rows, depth), columns = shape_of(left), shape_of(right)[1]
        result = self.state.temporary((rows, columns), 32)
        with self.section(), self.loops((rows, columns)) as at:
            sum_ = e.variable(self.element(total, at))
            with e.loop(depth) as k:
                factors = self.element(left, (at[0], k)), self.element(right, (k, at[1]))
                sum_.set(e.add(sum_.get(), e.mul(*factors)))
            e.store(self.address(result, at), sum_.get(), 32)
        return result


def check_integers(op: Operation) -> None:
    """Raise InputError, with the line, for floating point that the array does not do on the way of loads, products and stores."""
    if floating(op):
        raise InputError(
            "arrays of floating point do not compute this, and the host core does it for integers only",
            location=location_of(op),
            hint="a block from memory is added to sums of products; these are cut off and rounded where they are stored",
        )


def _extents(op: GenericOp) -> list[int]:
    """How often each iteration runs; 0 where no operand tells."""
    found = [0] * op.indexing_maps.data[0].data.num_dims
    for operand, indexing in zip(op.operands, op.indexing_maps, strict=True):
        for index, size in zip(indexing.data.results, shape_of(operand), strict=True):
            if isinstance(index, AffineDimExpr):
                found[index.position] = size
    return found


def _on_index(op: Operation) -> bool:
    return bool(op.results) and op.results[0].type.name == "index" and is_scalar_operation(op)


def memory_bits(bits: int) -> Literal[8, 16, 32, 64]:
    """Of an element in memory."""
    return 8 if bits <= 8 else 16 if bits <= 16 else 32 if bits <= 32 else 64
