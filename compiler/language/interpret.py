"""Runs block programs on numpy: what the `baco` dialect means, one operation at a time.

It is for debugging kernels (`kernel.interpret[grid](...)`) and as an oracle for the lowering, so it knows nothing of
memory layouts, tiles or accelerators: a pointer is an index into a flat array, and every element is touched alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from baco.accel.config import Accelerator
from baco.accel.number_formats import FORMATS, FloatFormat
from baco.common.errors import InputError
from baco.compiler.dialects import baco as ir
from baco.compiler.ir.location import location_of
from baco.compiler.language.dtypes import BY_IR
from baco.compiler.layers.float_sums import FloatSums, float_sums
from baco.compiler.row_functions import softmax

#: Operations whose operands may be of floating point, but those that move blocks.
_OF_FLOATS = (ir.DotOp, ir.AddOp, ir.MaximumOp, ir.RequantizeOp, ir.CastOp)
#: The numpy type of each element type; offsets are int64, conditions bool.
_NUMPY = {kind: dtype.numpy for kind, dtype in BY_IR.items()}
Array = np.ndarray[Any, Any]


class _Pointer:
    """Pointers as positions in a flat buffer."""

    def __init__(self, buffer: Array, position: Array) -> None:
        self.buffer = buffer
        self.position = position


def run_module(
    module: ModuleOp,
    buffers: Sequence[Array],
    accelerator: Accelerator | None = None,
    most_operations: int | None = None,
) -> None:
    """Runs the first kernel of the module; `buffers`, of floating point codes, are changed in place.

    Args:
        module: with a `func.func` that has the attribute `baco.grid`.
        buffers: one flat array per pointer argument.
        accelerator: whose array sums in floating point are added up by; integers need none.
        most_operations: give up after so many, of all programs together; None: never.

    Raises:
        InputError: there is no kernel, it touches memory outside of a buffer, or it takes too many operations.
    """
    kernel = next(
        (op for op in module.walk() if isinstance(op, func.FuncOp) and ir.GRID in op.attributes), None
    )
    if kernel is None:
        raise InputError(f"the module has no kernel: no func.func with the attribute {ir.GRID}")
    grid = kernel.attributes[ir.GRID]
    assert isinstance(grid, DenseArrayBase)
    counts = [int(count) for count in grid.get_values()]
    left = _Left(most_operations)
    sums = None if accelerator is None else float_sums(accelerator)
    left.need(prod(counts) * len(kernel.body.block.ops))
    for reversed_ids in product(*(range(count) for count in reversed(counts))):
        program = _Program(reversed_ids[::-1], left, sums)
        for argument, buffer in zip(kernel.body.block.args, buffers, strict=True):
            program.values[argument] = _Pointer(buffer, np.zeros((), np.int64))
        program.run(kernel.body.block)


class _Left:
    """Operations that may still be executed."""

    def __init__(self, count: int | None) -> None:
        self.most = self.count = count

    def need(self, count: int) -> None:
        """Raises InputError where fewer are left."""
        if self.count is not None and count > self.count:
            raise InputError(
                f"interpreting the kernel takes more than {self.most:,} operations",
                hint="launch fewer programs, or compile without comparing",
            )

    def spend(self, count: int) -> None:
        """Takes some, with the error of `need`."""
        self.need(count)
        if self.count is not None:
            self.count -= count


class _Program:
    """One program of the grid."""

    def __init__(self, ids: tuple[int, ...], left: _Left, sums: FloatSums | None) -> None:
        self.ids = ids
        self.sums = sums
        self.left = left
        self.values: dict[SSAValue, Any] = {}

    def run(self, block: Block) -> list[Any]:
        """Executes the operations; returns the operands of the terminator."""
        self.left.spend(len(block.ops))
        for operation in block.ops:
            if isinstance(operation, scf.YieldOp | func.ReturnOp):
                return [self.values[operand] for operand in operation.operands]
            if isinstance(operation, scf.ForOp):
                self._loop(operation)
                continue
            result = self._result(operation)
            if operation.results:
                self.values[operation.results[0]] = result
        return []

    def _loop(self, loop: scf.ForOp) -> None:
        start, end, step = (int(self.values[bound]) for bound in (loop.lb, loop.ub, loop.step))
        carried = [self.values[value] for value in loop.iter_args]
        body = loop.body.block
        for index in range(start, end, step):
            self.values[body.args[0]] = np.int64(index)
            for argument, value in zip(body.args[1:], carried, strict=True):
                self.values[argument] = value
            carried = self.run(body)
        for result, value in zip(loop.results, carried, strict=True):
            self.values[result] = value

    def _result(self, op: Operation) -> Any:
        values = [self.values[operand] for operand in op.operands]
        if isinstance(op, _OF_FLOATS) and ir.element_type(op.operands[0].type) in ir.FLOAT_TYPES:
            return self._in_floats(op, values)
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
            return np.zeros((), _NUMPY[op.result.type])
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            return np.asarray(op.value.value.data).astype(_NUMPY[op.result.type])
        if isinstance(op, ir.ProgramIdOp):
            return np.int64(self.ids[op.axis.value.data])
        if isinstance(op, ir.ArangeOp):
            return np.arange(op.start.value.data, op.end.value.data, dtype=np.int64)
        if isinstance(op, ir.AddPtrOp):
            return _Pointer(values[0].buffer, values[0].position + values[1])
        if isinstance(op, ir.SplatOp | ir.BroadcastOp | ir.ExpandDimsOp | ir.TransOp):
            if isinstance(values[0], _Pointer):
                return _Pointer(values[0].buffer, _shape(op, values[0].position))
            return _shape(op, values[0])
        if isinstance(op, ir.LoadOp):
            return self._load(op)
        if isinstance(op, ir.StoreOp):
            return self._store(op)
        if isinstance(op, ir.DotOp):
            total = values[0].astype(np.int64) @ values[1].astype(np.int64)
            return (total + (values[2] if op.accumulator is not None else 0)).astype(np.int32)
        if isinstance(op, ir.CmpOp):
            compare: Callable[..., Any] = getattr(np, _COMPARE[op.predicate.data])
            return compare(*values)
        if isinstance(op, ir.SelectOp):
            return np.where(values[0], values[1], values[2])
        if isinstance(op, ir.CastOp):
            return values[0].astype(_NUMPY[ir.element_type(op.result.type)])
        if isinstance(op, ir.RequantizeOp):
            scaled = values[0].astype(np.float32) * np.float32(op.scale.value.data)
            kind = np.dtype(_NUMPY[ir.element_type(op.result.type)])
            most = 1 << (8 * kind.itemsize - 1)
            return np.clip(np.rint(scaled), -most, most - 1).astype(kind)
        if isinstance(op, ir.SoftmaxOp):
            return softmax(values[0], values[1] if op.mask is not None else None, op.table, op.numerator)
        kind = _NUMPY[ir.element_type(op.results[0].type)]
        if isinstance(op, ir.ReduceOp):
            reduced = _REDUCE[op.kind.data](values[0].astype(np.int64), axis=op.axis.value.data)
            return np.asarray(reduced).astype(kind)
        if op.name in _BINARY:
            with np.errstate(over="ignore"):
                result = _BINARY[op.name](*(np.asarray(value).astype(np.int64) for value in values))
            return result.astype(kind)
        raise InputError(f"the interpreter does not know the operation {op.name}")

    def _in_floats(self, op: Operation, values: list[Array]) -> Array:
        """An operation on codes of floating point, to the bit what an array makes of it."""
        kind = BY_IR[ir.element_type(op.operands[0].type)]
        form = FORMATS[kind.floating]
        assert isinstance(form, FloatFormat)
        if isinstance(op, ir.MaximumOp):
            codes = values[0] | values[1]  # one of them is zeros
            return np.where((codes < 0) & ~np.isnan(form.numbers(codes)), 0, codes).astype(codes.dtype)
        numbers = [form.numbers(value) for value in values[:2]]
        if isinstance(op, ir.AddOp):
            with np.errstate(over="ignore", invalid="ignore"):
                return _words(numbers[0] + numbers[1])
        if isinstance(op, ir.CastOp):
            return _words(numbers[0])
        wanted = BY_IR[
            ir.element_type(op.results[0].type if isinstance(op, ir.RequantizeOp) else op.operands[0].type)
        ]
        if self.sums is None or self.sums.form != wanted.floating:
            own = "integers" if self.sums is None else self.sums.form
            raise InputError(
                f"this is computed in {wanted}, and the accelerator computes {own}",
                location=location_of(op),
                hint=f"an accelerator with input_format: {wanted.floating}",
            )
        if isinstance(op, ir.RequantizeOp):
            return self.sums.codes(numbers[0], relu=False, scale=op.scale.value.data)
        total = values[2].view(np.float32) if len(values) > 2 else None
        return _words(self.sums.added(total, *numbers))

    def _inside(self, op: ir.LoadOp | ir.StoreOp) -> tuple[_Pointer, Array]:
        """(pointers, which of them are in memory)."""
        pointer: _Pointer = self.values[op.pointer]
        inside = np.ones(pointer.position.shape, np.bool_)
        positions = np.indices(inside.shape)
        for dimension, bound in enumerate(op.low):
            inside &= positions[dimension] >= self.values[bound]
        for dimension, bound in enumerate(op.high):
            inside &= positions[dimension] < self.values[bound]
        if op.mask is not None:
            inside &= self.values[op.mask]
        touched = pointer.position[inside]
        if touched.size and (touched.min() < 0 or touched.max() >= pointer.buffer.size):
            bad = touched.min() if touched.min() < 0 else touched.max()
            raise InputError(
                f"program {self.ids} touches element {bad} of an array of {pointer.buffer.size} elements",
                hint="give mask=, or check sizes and strides",
            )
        return pointer, inside

    def _load(self, op: ir.LoadOp) -> Array:
        pointer, inside = self._inside(op)
        result = np.full(inside.shape, op.other_value, pointer.buffer.dtype)
        result[inside] = pointer.buffer[pointer.position[inside]]
        return result

    def _store(self, op: ir.StoreOp) -> None:
        pointer, inside = self._inside(op)
        pointer.buffer[pointer.position[inside]] = np.asarray(self.values[op.value])[inside]


def _words(numbers: Array) -> Array:
    """The bits of float32, of which there is one NaN."""
    return np.where(np.isnan(numbers), np.float32(np.nan), numbers).astype(np.float32).view(np.int32)


def _shape(op: Operation, value: Array) -> Array:
    if isinstance(op, ir.ExpandDimsOp):
        return np.expand_dims(value, op.axis.value.data)
    if isinstance(op, ir.TransOp):
        return np.transpose(value, [int(d) for d in op.permutation.get_values()])
    return np.broadcast_to(value, ir.shape_of(op.results[0].type))


_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_REDUCE: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}
#: Operations on integers, computed in int64 and cut to the result's type.
_BINARY: dict[str, Callable[..., Any]] = {
    "baco.add": np.add,
    "baco.sub": np.subtract,
    "baco.mul": np.multiply,
    "baco.floordiv": np.floor_divide,
    "baco.mod": np.mod,
    "baco.maximum": np.maximum,
    "baco.minimum": np.minimum,
    "baco.and": np.bitwise_and,
    "baco.or": np.bitwise_or,
    "baco.xor": np.bitwise_xor,
    "baco.shl": np.left_shift,
    "baco.shr": np.right_shift,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.floordivsi": np.floor_divide,
    "arith.divsi": lambda a, b: np.trunc(a / b).astype(np.int64),
    "arith.remsi": np.fmod,
}
