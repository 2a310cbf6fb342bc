"""What a layer's function at the linalg level computes, operation by operation, on numpy arrays: for tiny layers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from xdsl.dialects import arith, bufferization, func, math, memref, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, MemRefType, TensorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Operation, SSAValue

__all__ = ["call"]

Values = dict[SSAValue, Any]


def _dtype(kind: Any) -> np.dtype[Any]:
    element = kind.element_type
    assert isinstance(element, IntegerType)
    return np.dtype(f"int{element.width.data}")


def _scalar(op: Operation, values: Values) -> Any:
    """One arithmetic operation on Python numbers; integers wrap at their width."""
    a = [values[one] for one in op.operands]
    result = {
        arith.ExtSIOp: lambda: a[0],
        arith.MuliOp: lambda: a[0] * a[1],
        arith.AddiOp: lambda: a[0] + a[1],
        arith.MaxSIOp: lambda: max(a),
        arith.SIToFPOp: lambda: np.float32(a[0]),
        arith.MulfOp: lambda: a[0] * a[1],
        math.RoundEvenOp: lambda: np.rint(a[0]),
        arith.MaximumfOp: lambda: max(a),
        arith.MinimumfOp: lambda: min(a),
        arith.FPToSIOp: lambda: int(a[0]),
    }[type(op)]()
    kind = op.results[0].type
    if isinstance(kind, IntegerType):
        half = 1 << (kind.width.data - 1)
        result = (int(result) + half) % (2 * half) - half
    return result


def _generic(op: GenericOp, values: Values) -> np.ndarray:
    arrays = [values[one] for one in op.operands]
    out = arrays[-1].copy()
    maps = [one.data for one in op.indexing_maps.data]
    # extents of the loops from operands whose maps are plain dimensions
    extents: dict[int, int] = {}
    for one, array in zip(maps, arrays, strict=True):
        for place, expression in enumerate(one.results):
            if str(expression).startswith("d") and str(expression)[1:].isdecimal():
                extents[int(str(expression)[1:])] = array.shape[place]
    block = op.body.block
    for at in itertools.product(*(range(extents[n]) for n in range(len(extents)))):
        places = [one.eval(list(at), []) for one in maps]
        current = [*arrays[:-1], out]
        inner = dict(values)
        for argument, array, place in zip(block.args, current, places, strict=True):
            value = array[tuple(place)]
            inner[argument] = int(value)
        for step in block.ops:
            if isinstance(step, YieldOp):
                out[tuple(places[-1])] = inner[step.operands[0]]
            else:
                inner[step.results[0]] = (
                    _constant(step) if isinstance(step, arith.ConstantOp) else _scalar(step, inner)
                )
    return out


def _constant(op: arith.ConstantOp) -> Any:
    if isinstance(op.value, FloatAttr):
        return np.float32(op.value.value.data)
    assert isinstance(op.value, IntegerAttr)
    return op.value.value.data


def call(function: func.FuncOp, *buffers: np.ndarray) -> None:
    """Run the function on flat arrays; outputs change in place."""
    values: Values = dict(zip(function.body.block.args, buffers, strict=True))
    for op in function.body.block.ops:
        a = [values[one] for one in op.operands]
        if isinstance(op, arith.ConstantOp):
            values[op.result] = _constant(op)
        elif isinstance(op, memref.ReinterpretCastOp):
            strides = [n * a[0].itemsize for n in op.static_strides.get_values()]
            values[op.result] = np.lib.stride_tricks.as_strided(
                a[0], tuple(op.static_sizes.get_values()), strides, writeable=True
            )
        elif isinstance(op, memref.AllocOp):
            kind = op.memref.type
            assert isinstance(kind, MemRefType)
            values[op.memref] = np.full(kind.get_shape(), 99, _dtype(kind))
        elif isinstance(op, memref.CopyOp):
            a[1][...] = a[0]
        elif isinstance(op, bufferization.ToTensorOp | bufferization.ToBufferOp):
            values[op.results[0]] = a[0].copy()
        elif isinstance(op, tensor.PadOp):
            low, high = op.static_low.get_values(), op.static_high.get_values()
            values[op.result] = np.pad(a[0], list(zip(low, high, strict=True)))
        elif isinstance(op, tensor.EmptyOp):
            kind = op.tensor.type
            assert isinstance(kind, TensorType)
            values[op.tensor] = np.full(kind.get_shape(), 99, _dtype(kind))
        elif isinstance(op, FillOp):
            values[op.results[0]] = np.full_like(a[1], a[0])
        elif isinstance(op, GenericOp):
            values[op.results[0]] = _generic(op, values)
        else:
            assert isinstance(op, func.ReturnOp), op.name
