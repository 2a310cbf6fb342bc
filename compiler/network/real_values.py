"""Real numbers of a quantised model in memory: float32 operands, results, and the simplest operators on them."""

from __future__ import annotations

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder
from baco.compiler.ops.elements import Decoded, RealFunction, RealPair, ScaledIntegers, Widened
from baco.compiler.ops.views import View
from baco.workloads.encoding import WideEncoding
from baco.workloads.network import Operator
from baco.workloads.semantics import Operand, Parameter

Array = np.ndarray


def real(b: IntegerBuilder, x: Operand, op: Operator) -> View:
    """An operand in real numbers, of its own shape."""
    assert x is not None
    if isinstance(x, Parameter):
        return real_constant(b, f"{x.name}.real", b.parameters(x))
    view = b.tensors[x.name]
    value = b.values[view.value]
    if value.dtype == "float32":
        return b.viewed(view, x.steps, op)
    if not value.coded:
        raise b.error(op, f"positions ('{x.name}') as real numbers between quantised ones are not supported")
    if x.name not in b.decoded:
        order = b.order_like(view)
        label = f"{x.name}.real"
        target = b.value(label, [view.shape[a] for a in order], 1.0, "float32")
        target = target.transposed(inverse_order(order))
        if isinstance(value.encoding, WideEncoding):
            b.emit(ScaledIntegers(b.name(label), (op.name,), target, view, value.encoding.scale))
        elif value.dtype == "int16":
            b.emit(Widened(b.name(label), (op.name,), target, view))
        else:
            numbers = b.encoding(view).real(np.arange(-128, 128))
            table = real_constant(b, f"{label}.table", numbers)
            b.emit(Decoded(b.name(label), (op.name,), target, view, table))
        b.decoded[x.name] = target
    return b.viewed(b.decoded[x.name], x.steps, op)


def real_constant(b: IntegerBuilder, name: str, numbers: Array) -> View:
    """A constant of real numbers."""
    return b.constant(name, np.asarray(numbers, np.float32))


def inverse_order(order: tuple[int, ...]) -> list[int]:
    """Where each dimension is in an order of them."""
    return sorted(range(len(order)), key=lambda i: order[i])


def real_result(b: IntegerBuilder, op: Operator, shape: tuple[int, ...], like: View | None = None) -> View:
    """Memory for real numbers, in the order of another view."""
    order = tuple(range(len(shape))) if like is None else b.order_like(like)
    view = b.value(f"{op.name}.real", [shape[a] for a in order], 1.0, "float32")
    return view.transposed(inverse_order(order))


def real_image(b: IntegerBuilder, op: Operator) -> View:
    """Memory for an image with channels last, seen with channels first."""
    order = CHANNELS_LAST[len(op.output.shape)]
    view = b.value(f"{op.name}.real", [op.output.shape[a] for a in order], 1.0, "float32")
    return view.transposed(inverse_order(order))


def real_name(b: IntegerBuilder, op: Operator) -> str:
    """A name for an operator that computes the result, before it is rounded if it is."""
    return b.name(f"{op.name}.real" if op.name in b.encodings else op.name)


def real_pair(b: IntegerBuilder, op: Operator, name: str, left: View, right: View | float) -> View:
    """A function of two numbers of a view's shape, or of a view and a number."""
    if not isinstance(right, View):
        right = real_constant(b, f"{op.name}.{right:g}", np.array(right)).expanded(left.shape)
    wide = (
        left if all(step or size == 1 for size, step in zip(left.shape, left.strides, strict=True)) else right
    )
    output = real_result(b, op, left.shape, wide)
    b.emit(RealPair(real_name(b, op), (op.name,), output, left, right, name))
    return output


def real_function(
    b: IntegerBuilder, op: Operator, name: str, x: View, p: float = 0.0, q: float = 0.0
) -> View:
    """A function of `elementary.UNARY` of each number."""
    output = real_result(b, op, x.shape, x)
    b.emit(RealFunction(real_name(b, op), (op.name,), output, x, name, (float(p), float(q))))
    return output


def channel_numbers(b: IntegerBuilder, p: Operand, shape: tuple[int, ...], op: Operator) -> Array:
    """Numbers of channels [C, 1...]."""
    assert isinstance(p, Parameter)
    return b.parameters(p).astype(np.float32).reshape(-1, *(1 for _ in shape[2:]))


def real_line(b: IntegerBuilder, op: Operator, x: View, factor: Array | None, shift: Array | None) -> View:
    """x * factor + shift, each broadcast to the shape of x."""
    for name, part, numbers in (("mul", "factor", factor), ("add", "shift", shift)):
        if numbers is not None:
            x = real_pair(b, op, name, x, real_constant(b, f"{op.name}.{part}", numbers).expanded(x.shape))
    return x
