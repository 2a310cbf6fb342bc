"""Writes programs at the `instgem` level from Python: commands, integer arithmetic, loops, host memory accesses.

Every number is either a Python integer, known while the program is written, or an i64 value that the program computes;
arithmetic on known numbers is done at once, so the same code writes a straight line of constant commands or a nest of
loops with computed edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, func, llvm, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from baco.accel.isa import LocalAddress
from baco.compiler.dialects.instgem import OPERATIONS, RARELY, FenceOp
from baco.compiler.ir.known import integer

#: A number of the program: known now, or computed by it (i64).
Number: TypeAlias = "int | SSAValue"
#: A truth value likewise (i1).
Condition: TypeAlias = "bool | SSAValue"
Comparison = Literal["eq", "ne", "slt", "sle", "sgt", "sge", "ult"]

_COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a % 2**64 < b % 2**64,
}
_Binary: TypeAlias = "arith.SignlessIntegerBinaryOperation"


class Cell:
    """A number that the program changes; see `Emitter.variable`."""

    def __init__(self, emitter: Emitter, cell: SSAValue) -> None:
        self._emitter, self._cell = emitter, cell

    def get(self) -> SSAValue:
        """Its value at this point of the program."""
        zero = self._emitter.index(0)
        return self._emitter.insert(memref.LoadOp.get(self._cell, [zero])).results[0]

    def set(self, value: Number) -> None:
        """Change it."""
        zero = self._emitter.index(0)
        self._emitter.insert(memref.StoreOp.get(self._emitter.value(value), self._cell, [zero]))


class Emitter:
    """Writes one function `name` whose arguments are i64 numbers, mostly byte addresses.

    Attributes:
        module: what the function is in.
        arguments: the function's arguments.
    """

    def __init__(self, name: str, arguments: Sequence[str] = (), module: ModuleOp | None = None) -> None:
        self.module = ModuleOp([]) if module is None else module
        block = Block(arg_types=[i64] * len(arguments))
        for argument, hint in zip(block.args, arguments, strict=True):
            argument.name_hint = hint
        self._function = func.FuncOp(name, FunctionType.from_lists([i64] * len(arguments), []), Region(block))
        self.module.body.block.add_op(self._function)
        self.arguments: tuple[SSAValue, ...] = tuple(block.args)
        self._entry = block
        self._builder = Builder(InsertPoint.at_end(block))

    def finish(self) -> ModuleOp:
        """End the function; the module, which is checked when it is lowered. Nothing may be written afterwards."""
        self.insert(func.ReturnOp())
        return self.module

    def onward(self, numbers: Sequence[Number]) -> list[Number]:
        """Go on in a function of its own, which is called last in this one: what is written so far need not wait until registers are
        saved for what follows. These numbers are passed on; their values there. Others, and cells, stay behind."""
        passed = list(dict.fromkeys(one for one in numbers if not isinstance(one, int)))
        name = f"{self._function.sym_name.data}_onward"
        self.call(name, passed)
        self.insert(func.ReturnOp())
        block = Block(arg_types=[i64] * len(passed))
        self._function = func.FuncOp(name, FunctionType.from_lists([i64] * len(passed), []), Region(block))
        self.module.body.block.add_op(self._function)
        self._entry, self._builder = block, Builder(InsertPoint.at_end(block))
        there = dict(zip(passed, block.args, strict=True))
        return [one if isinstance(one, int) else there[one] for one in numbers]

    # ---------------------------------------------------------------- operations

    def insert(self, operation: Operation) -> Operation:
        """Append an operation at this point of the program."""
        return self._builder.insert(operation)

    def command(self, name: str, **fields: Number) -> None:
        """An accelerator command by its name in lower case, fields as in `baco.accel.isa`; the rest takes defaults."""
        self.insert(OPERATIONS[name](fields))

    def fence(self) -> None:
        """Wait for the accelerator; its memory accesses are visible afterwards."""
        self.insert(FenceOp())

    def call(self, function: str, arguments: Sequence[Number] = ()) -> None:
        """Call a function of the module or of the runtime that returns nothing."""
        self.insert(func.CallOp(function, [self.value(one) for one in arguments], []))

    # ---------------------------------------------------------------- numbers

    def value(self, number: Number) -> SSAValue:
        """The number as an i64 value."""
        if isinstance(number, int):
            return self.insert(arith.ConstantOp(integer(number, i64))).results[0]
        return number

    def index(self, number: int) -> SSAValue:
        """A known number as an `index` value, which memrefs want."""
        return self.insert(arith.ConstantOp(integer(number, IndexType()))).results[0]

    def add(self, *numbers: Number) -> Number:
        """Their sum."""
        known = sum(one for one in numbers if isinstance(one, int))
        total: Number | None = None
        for one in numbers:
            if not isinstance(one, int):
                total = one if total is None else self._binary(arith.AddiOp, total, one)
        if total is None:
            return known
        return total if known == 0 else self._binary(arith.AddiOp, total, known)

    def sub(self, a: Number, b: Number) -> Number:
        """a - b."""
        if isinstance(b, int):
            return self.add(a, -b)
        return self._binary(arith.SubiOp, a, b)

    def address(self, base: Number, size: int, *elements: Number) -> Number:
        """Of what lies so many elements of `size` bytes behind `base`."""
        return self.add(base, *(self.mul(one, size) for one in elements))

    def mul(self, *numbers: Number) -> Number:
        """Their product."""
        known = 1
        product: Number | None = None
        for one in numbers:
            if isinstance(one, int):
                known *= one
            else:
                product = one if product is None else self._binary(arith.MuliOp, product, one)
        if product is None or known == 0:
            return known
        return product if known == 1 else self._binary(arith.MuliOp, product, known)

    def div(self, a: Number, b: int) -> Number:
        """a divided by a positive known number, rounded down; a must not be negative."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self._binary(arith.DivUIOp, a, b)

    def ceil_div(self, a: Number, b: int) -> Number:
        """a divided by a positive known number, rounded up; a must not be negative."""
        return self.div(self.add(a, b - 1), b) if b > 1 else a

    def bits(self, a: Number, low: int, count: int) -> Number:
        """So many bits of a number, from bit `low` on."""
        if isinstance(a, int):
            return a >> low & (1 << count) - 1
        shifted = self.insert(arith.ShRUIOp(a, self.value(low))).results[0] if low else a
        return self._binary(arith.AndIOp, shifted, (1 << count) - 1)

    def mod(self, a: Number, b: int) -> Number:
        """Remainder of a, which must not be negative, by a positive known number."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self._binary(arith.RemUIOp, a, b)

    def min(self, a: Number, b: Number) -> Number:
        """The smaller one, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._binary(arith.MinSIOp, a, b)

    def max(self, a: Number, b: Number) -> Number:
        """The larger one, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self._binary(arith.MaxSIOp, a, b)

    def bit_or(self, a: Number, b: Number) -> Number:
        """Bitwise or."""
        if isinstance(a, int) and isinstance(b, int):
            return a | b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._binary(arith.OrIOp, a, b)

    def compare(self, how: Comparison, a: Number, b: Number) -> Condition:
        """a `how` b, signed but for `ult`."""
        if isinstance(a, int) and isinstance(b, int):
            return bool(_COMPARE[how](a, b))
        return self.insert(arith.CmpiOp(self.value(a), self.value(b), how)).results[0]

    def both(self, a: Condition, b: Condition) -> Condition:
        """Logical and."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self.insert(arith.AndIOp(a, b)).results[0]

    def select(self, condition: Condition, then: Number, otherwise: Number) -> Number:
        """One of two numbers."""
        if isinstance(condition, bool):
            return then if condition else otherwise
        if isinstance(then, int) and then == otherwise:
            return then
        return self.insert(arith.SelectOp(condition, self.value(then), self.value(otherwise))).results[0]

    def unless(self, rare: Condition, then: Number, otherwise: Number) -> Number:
        """As `select`, of a condition that rarely holds: the host core goes straight on where it does not."""
        if isinstance(rare, bool):
            return then if rare else otherwise
        chosen = self.variable(0)
        chosen.set(otherwise)
        with self.when(rare, rarely=True):
            chosen.set(then)
        return chosen.get()

    def variable(self, initial: Number) -> Cell:
        """A number that the program changes, kept in a cell that becomes a register; set to `initial` here."""
        cell = memref.AllocaOp.get(i64, None, [1])
        first = self._entry.first_op
        if first is None:
            self._entry.add_op(cell)
        else:
            self._entry.insert_op_before(cell, first)
        variable = Cell(self, cell.results[0])
        variable.set(initial)
        return variable

    def local(
        self,
        row: Number,
        *,
        accumulator: bool = False,
        accumulate: Condition = False,
        read_full: bool = False,
    ) -> Number:
        """Local address word of a row (instruction set, 3.2)."""
        known = isinstance(accumulate, bool) and accumulate
        if not isinstance(accumulate, bool):
            row = self.add(row, self.select(accumulate, LocalAddress(0, accumulate=True).word, 0))
        flags = LocalAddress(0, accumulator, known, read_full).word
        # rows stay below the flags, so their sum is their union; sums become induction variables of loops
        return self.add(row, flags)

    # ---------------------------------------------------------------- control

    @contextmanager
    def loop(self, upper: Number, lower: Number = 0, step: int = 1, hint: str = "i") -> Iterator[Number]:
        """A loop from `lower` while less than `upper`; yields its number.

        A loop that is known to run once is no loop: its number is `lower`. One that is known never to run leaves
        nothing of its body behind.
        """
        if isinstance(upper, int) and isinstance(lower, int):
            if lower >= upper:
                with self._aside(Block()):
                    yield lower
                return
            if lower + step >= upper:
                yield lower
                return
        block = Block(arg_types=[i64])
        block.args[0].name_hint = hint
        first, last, stride = self.value(lower), self.value(upper), self.value(step)
        with self._aside(block):
            yield block.args[0]
            self.insert(scf.YieldOp())
        self.insert(scf.ForOp(first, last, stride, [], Region(block)))

    @contextmanager
    def when(self, condition: Condition, *, rarely: bool = False) -> Iterator[None]:
        """What is written inside happens only if the condition holds; `rarely` if that is the exception, so that the
        code that goes on lies in a row."""
        if isinstance(condition, bool):
            if condition:
                yield
            else:
                with self._aside(Block()):
                    yield
            return
        block = Block()
        with self._aside(block):
            yield
            self.insert(scf.YieldOp())
        operation = self.insert(scf.IfOp(condition, [], Region(block)))
        if rarely:
            operation.attributes[RARELY] = UnitAttr()

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """What is written inside happens once, where the function begins: it may use arguments alone."""
        block = Block()
        with self._aside(block):
            yield
        ops = list(block.ops)
        for one in ops:
            one.detach()  # type: ignore[no-untyped-call]
        if self._entry.first_op is None:
            self._entry.add_ops(ops)
        else:
            self._entry.insert_ops_before(ops, self._entry.first_op)

    @contextmanager
    def _aside(self, block: Block) -> Iterator[None]:
        """Write into another block."""
        outer, self._builder = self._builder, Builder(InsertPoint.at_end(block))
        try:
            yield
        finally:
            self._builder = outer

    # ---------------------------------------------------------------- host memory

    def table(self, numbers: Sequence[int]) -> SSAValue:
        """Address of constants of 64 bits, which become part of the module."""
        tables = [one for one in self.module.body.block.ops if isinstance(one, llvm.GlobalOp)]
        kind = llvm.LLVMArrayType(IntAttr(len(numbers)), i64)
        values = DenseIntOrFPElementsAttr.from_list(VectorType(i64, [len(numbers)]), list(numbers))
        name = f"{self._function.sym_name.data}_table{len(tables)}"
        self.module.body.block.add_op(
            llvm.GlobalOp(kind, name, "internal", constant=True, value=values, alignment=64)
        )
        pointer = self.insert(llvm.AddressOfOp(name, llvm.LLVMPointerType())).results[0]
        return self.insert(llvm.PtrToIntOp(pointer, i64)).results[0]

    def load(self, address: Number, bits: Literal[8, 16, 32, 64] = 64, *, signed: bool = True) -> SSAValue:
        """The host reads an integer at a byte address (aligned to its size); extended to i64."""
        pointer = self._pointer(address)
        kind = IntegerType(bits)
        loaded = self.insert(llvm.LoadOp(pointer, kind)).results[0]
        if bits == 64:
            return loaded
        extend = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.insert(extend(loaded, i64)).results[0]

    def store(self, address: Number, number: Number, bits: Literal[8, 16, 32, 64] = 64) -> None:
        """The host writes the low bits of a number at a byte address (aligned to their size)."""
        pointer = self._pointer(address)
        value = self.value(number)
        if bits < 64:
            value = self.insert(arith.TruncIOp(value, IntegerType(bits))).results[0]
        self.insert(llvm.StoreOp(value, pointer))

    def _pointer(self, address: Number) -> SSAValue:
        return self.insert(llvm.IntToPtrOp(self.value(address))).results[0]

    def _binary(self, kind: type[_Binary], a: Number, b: Number) -> SSAValue:
        return self.insert(kind(self.value(a), self.value(b))).results[0]


def parts(size: int, tile: int) -> list[tuple[int, int, int]]:
    """Whole tiles and the rest, whose code is written apart, with known sizes: extent of a tile, number of the first, how many."""
    whole, rest = divmod(size, tile)
    return ([(tile, 0, whole)] if whole else []) + ([(rest, whole, 1)] if rest else [])
