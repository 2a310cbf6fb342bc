"""Executes modules at the `instgem` level in Python: numbers, control flow and memory cells; commands are collected.

An oracle for passes and styles: written from the meaning of the operations, with nothing of the compiler's own analyses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, func, llvm, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from baco.accel.isa.command import CommandType
from baco.compiler.dialects.instgem import CommandOp, FenceOp

_MASK = (1 << 64) - 1
#: Numbers and memory cells by the identity of the value of the module that they are.
Values = dict[int, Any]


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _width(value: SSAValue) -> int:
    assert isinstance(value.type, IntegerType)
    return value.type.width.data


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


_BINARY: dict[type[Operation], Any] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.DivUIOp: lambda a, b: (a & _MASK) // (b & _MASK),
    arith.RemUIOp: lambda a, b: (a & _MASK) % (b & _MASK),
    arith.DivSIOp: _divide,
    arith.RemSIOp: lambda a, b: a - b * _divide(a, b),
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.ShLIOp: lambda a, b: a << b,
    arith.ShRSIOp: lambda a, b: a >> b,
    arith.ShRUIOp: lambda a, b: (a & _MASK) >> b,
}
_COMPARE = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


class Machine:
    """Runs functions of a module; `commands` are (name, fields) in the order of issue.

    `memory` answers loads of the host by address.
    """

    def __init__(self, module: ModuleOp, memory: dict[int, int] | None = None) -> None:
        self.functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
        self.memory = memory if memory is not None else {}
        self.commands: list[tuple[str, dict[str, int]]] = []
        self._steps: dict[int, tuple[list[Callable[[Values], None]], list[int]]] = {}

    def run(self, name: str, arguments: Sequence[int]) -> None:
        self.call(self.functions[name], arguments)

    def call(self, function: func.FuncOp, arguments: Sequence[int]) -> None:
        block = function.body.block
        self._block(block, _named(block.args, arguments))

    def command(self, kind: CommandType, fields: dict[str, int]) -> None:
        """Issue a command; computed fields are what the registers hold, of any width."""
        self.commands.append(
            (kind.name, {name: value & kind.field(name).mask for name, value in fields.items()})
        )

    def fence(self) -> None:
        self.commands.append(("FENCE", {}))

    def load(self, address: int, bits: int) -> int:
        return self.memory.get(address, 0)

    def store(self, address: int, value: int, bits: int) -> None:
        self.memory[address] = value

    def _block(self, block: Block, values: Values) -> list[Any]:
        if id(block) not in self._steps:
            ends = (scf.YieldOp, func.ReturnOp)
            given = [id(one) for op in block.ops if type(op) in ends for one in op.operands]
            self._steps[id(block)] = [self._step(op) for op in block.ops if type(op) not in ends], given
        steps, given = self._steps[id(block)]
        for step in steps:
            step(values)
        return [values[one] for one in given]

    def _step(self, op: Operation) -> Callable[[Values], None]:
        """What an operation does to the values, looked up once however often it runs."""
        kind, operands = type(op), [id(one) for one in op.operands]
        if isinstance(op, CommandOp):
            return self._issuing(op)
        if kind in _BINARY:
            return _computing(_BINARY[kind], operands, id(op.results[0]))
        if isinstance(op, arith.CmpiOp):
            return _computing(_COMPARE[op.predicate.value.data], operands, id(op.result))
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            constant, result = op.value.value.data, id(op.result)
            return lambda values: values.__setitem__(result, constant)
        return lambda values: self._operation(op, [values[one] for one in operands], values)

    def _issuing(self, op: CommandOp) -> Callable[[Values], None]:
        fields = {name: one if isinstance(one, int) else id(one) for name, one in op.fields.items()}
        fixed = {name for name, one in op.fields.items() if isinstance(one, int)}
        return lambda values: self.command(
            op.KIND, {name: one if name in fixed else values[one] for name, one in fields.items()}
        )

    def _operation(self, op: Operation, operands: list[Any], values: Values) -> None:
        kind = type(op)
        if kind in (arith.TruncIOp, arith.ExtSIOp, arith.IndexCastOp, llvm.IntToPtrOp):
            values[id(op.results[0])] = operands[0]
        elif kind is memref.LoadOp:
            values[id(op.results[0])] = operands[0][0]
        elif kind is memref.StoreOp:
            operands[1][0] = operands[0]
        elif kind is arith.SelectOp:
            values[id(op.results[0])] = operands[1] if operands[0] else operands[2]
        elif kind is scf.ForOp:
            self._loop(op, operands, values)
        elif kind is memref.AllocaOp:
            values[id(op.results[0])] = [0]
        elif kind is llvm.LoadOp:
            values[id(op.results[0])] = self.load(operands[0], _width(op.results[0]))
        elif kind is llvm.StoreOp:
            self.store(operands[1], operands[0], _width(op.operands[0]))
        elif kind is FenceOp:
            self.fence()
        elif isinstance(op, scf.IfOp):
            region = op.true_region if operands[0] else op.false_region
            if region.blocks:
                values.update(_named(op.results, self._block(region.block, values)))
        elif isinstance(op, func.CallOp):
            self.run(op.callee.root_reference.data, operands)
        else:
            raise AssertionError(f"{op.name} is not known to this machine")

    def _loop(self, op: Operation, operands: list[Any], values: Values) -> None:
        counter, upper, step, *carried = operands
        body = op.regions[0].block
        arguments = [id(argument) for argument in body.args]
        while counter < upper:
            values.update(zip(arguments, [counter, *carried], strict=True))
            carried = self._block(body, values)
            counter += step
        values.update(_named(op.results, carried))


def _computing(function: Any, operands: Sequence[int], result: int) -> Callable[[Values], None]:
    a, b = operands

    def step(values: Values) -> None:
        values[result] = _signed(function(values[a], values[b]))

    return step


def _named(results: Sequence[SSAValue], numbers: Sequence[Any]) -> Values:
    return {id(result): number for result, number in zip(results, numbers, strict=True)}
