"""Executes modules at the `instgem` level in Python: numbers, control flow and memory cells; commands are collected.

An oracle for passes: written from the meaning of the operations, with nothing of the compiler's own analyses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func, llvm, memref, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from baco.compiler.dialects.instgem import CommandOp, FenceOp

_MASK = (1 << 64) - 1


def _signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


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
    """Runs the function `name` of a module; `commands` are (name, fields) in the order of issue.

    `memory` answers loads of the host by address.
    """

    def __init__(self, module: ModuleOp, memory: dict[int, int] | None = None) -> None:
        self.functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
        self.memory = memory if memory is not None else {}
        self.commands: list[tuple[str, dict[str, int]]] = []

    def run(self, name: str, arguments: Sequence[int]) -> None:
        block = self.functions[name].body.block
        self._block(block, dict(zip(block.args, arguments, strict=True)))

    def _block(self, block: Block, values: dict[SSAValue, Any]) -> list[Any]:
        for op in block.ops:
            if isinstance(op, (scf.YieldOp, func.ReturnOp)):
                return [values[one] for one in op.operands]
            self._operation(op, values)
        return []

    def _operation(self, op: Operation, values: dict[SSAValue, Any]) -> None:
        operands = [values[one] for one in op.operands]
        if isinstance(op, CommandOp):
            fields = {
                name: value if isinstance(value, int) else values[value] & op.KIND.field(name).mask
                for name, value in op.fields.items()
            }
            self.commands.append((op.KIND.name, fields))
        elif isinstance(op, FenceOp):
            self.commands.append(("FENCE", {}))
        elif isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            values[op.result] = op.value.value.data
        elif type(op) in _BINARY:
            values[op.results[0]] = _signed(_BINARY[type(op)](*operands))
        elif isinstance(op, arith.CmpiOp):
            values[op.result] = _COMPARE[op.predicate.value.data](*operands)
        elif isinstance(op, arith.SelectOp):
            values[op.result] = operands[1] if operands[0] else operands[2]
        elif isinstance(op, (arith.TruncIOp, arith.ExtSIOp, arith.IndexCastOp)):
            values[op.results[0]] = operands[0]
        elif isinstance(op, memref.AllocaOp):
            values[op.memref] = [0]
        elif isinstance(op, memref.LoadOp):
            values[op.res] = operands[0][0]
        elif isinstance(op, memref.StoreOp):
            operands[1][0] = operands[0]
        elif isinstance(op, llvm.IntToPtrOp):
            values[op.output] = operands[0]
        elif isinstance(op, llvm.LoadOp):
            values[op.dereferenced_value] = self.memory.get(operands[0], 0)
        elif isinstance(op, llvm.StoreOp):
            self.memory[operands[1]] = operands[0]
        elif isinstance(op, scf.IfOp):
            region = op.true_region if operands[0] else op.false_region
            if region.blocks:
                values.update(zip(op.results, self._block(region.block, values), strict=True))
        elif isinstance(op, scf.ForOp):
            self._loop(op, operands, values)
        elif isinstance(op, func.CallOp):
            self.run(op.callee.root_reference.data, operands)
        else:
            raise AssertionError(f"{op.name} is not known to this machine")

    def _loop(self, op: scf.ForOp, operands: list[Any], values: dict[SSAValue, Any]) -> None:
        counter, upper, step, *carried = operands
        while counter < upper:
            values.update(zip(op.body.block.args, [counter, *carried], strict=True))
            carried = self._block(op.body.block, values)
            counter += step
        values.update(zip(op.results, carried, strict=True))
