"""What a quantised model leaves in real numbers, in float32 by the host core: nothing between its whole numbers is approximated.

A tensor is real if the model rounds it nowhere and it is more than a choice among whole numbers. What reads whole numbers there reads
them decoded; what is rounded again is encoded behind the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, part_of, semantics_of
from baco.compiler.network.float_graph import cropped
from baco.compiler.network.given_images import (
    real_convolution,
    real_interleave,
    real_pool,
    real_resize,
    real_transposed,
)
from baco.compiler.network.real_values import (
    channel_numbers,
    inverse_order,
    real,
    real_constant,
    real_function,
    real_line,
    real_name,
    real_pair,
    real_result,
)
from baco.compiler.network.tensor_operators import inserted
from baco.compiler.ops.elementary import BINARY, NUMBERS, UNARY
from baco.compiler.ops.elements import Coded, Encoded, RealSelection
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.floating import RealProducts, RealRows
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding, FloatEncoding
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter

Array = np.ndarray


def real_tensors(
    network: Network, encodings: Mapping[str, Encoding], indices: Container[str] = (), *, given: bool = False
) -> frozenset[str]:
    """Names of the operators and inputs whose results are real numbers in memory; none in a model that is not quantised.

    Args:
        network: as it is run.
        encodings: of the tensors whose whole numbers the model gives.
        indices: inputs that hold positions.
        given: the model says how its numbers are kept even where none are whole.
    """
    if not encodings and not given:
        return frozenset()
    found = {x.name for x in network.inputs if x.name not in encodings and x.name not in indices}
    for op in network.operators:
        reads = _reads_real(op, found)
        if (
            semantics_of(op).function == "conv_transpose"
            and semantics_of(op).attributes["phase"]
            and not reads
        ):
            continue  # a part of what `interleave` computes
        if op.name not in encodings and has_rule(op) and (reads or not _hands_on(op)):
            found.add(op.name)
    return frozenset(found)


def _reads_real(op: Operator, real: Container[str]) -> bool:
    """Whether an operand is in real numbers; a bias is not asked."""
    function, operands = semantics_of(op).function, semantics_of(op).operands
    if any(isinstance(x, Tensor) and x.name in real for x in operands):
        return True
    weighed = {
        "conv": operands[1:2],
        "conv_transpose": operands[1:2],
        "matmul": operands[:2],
        "concat": operands,
    }
    return any(isinstance(x, Parameter) and x.whole is None for x in weighed.get(function, ()))


def reads_whole(b: IntegerBuilder, op: Operator) -> bool:
    """Whether a contraction reads whole numbers alone."""
    return not _reads_real(op, b.real) or not has_rule(op)


def _hands_on(op: Operator) -> bool:
    """Whether results are such elements as the operator reads."""
    function, a = semantics_of(op).function, semantics_of(op).attributes
    if function == "reduce":
        return a["name"] in ("max", "min")
    if function == "resize":
        return bool(a["mode"] == "nearest")
    return function in ("identity", "maxpool") or (function == "pad" and a["value"] == 0)


def is_real(b: IntegerBuilder, op: Operator) -> bool:
    """Whether the operator is computed in real numbers: its result or an operand is such, and there is a rule for it."""
    return b.given and (op.name in b.real or _reads_real(op, b.real)) and has_rule(op)


def real_operator(b: IntegerBuilder, op: Operator) -> None:
    """Emit it, in front of the rounding of its result if there is one."""
    view = _RULES[semantics_of(op).function](b, op)
    if op.name in b.encodings:
        round_real(b, op, view)
    else:
        b.tensors[op.name] = view


def round_real(b: IntegerBuilder, op: Operator, view: View) -> None:
    """Real numbers in the encoding of an operator's result."""
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    e = b.encoding(output)
    if isinstance(e, FloatEncoding):
        b.emit(Coded(b.name(op.name), (op.name,), output, view, e.scale, e.form))
        return
    b.emit(Encoded(b.name(op.name), (op.name,), output, view, e.scale, e.zero, e.low, e.high))


def has_rule(op: Operator) -> bool:
    """Whether there is a rule for it."""
    s = semantics_of(op)
    if s.function == "unary":
        return s.attributes["name"] in UNARY or s.attributes["name"] in _COMPOSED
    if s.function == "binary":
        if s.attributes["name"] == "pow":
            return isinstance(s.operands[1], Parameter) and math.prod(s.operands[1].shape) == 1
        return s.attributes["name"] in BINARY
    if s.function == "softmax":
        return s.operands[1] is None or not s.attributes.get("truths")
    if s.function == "reduce":
        return s.attributes["name"] in ("sum", "mean", "max", "min")
    if s.function in ("conv", "conv_transpose"):
        return isinstance(s.operands[1], Parameter)
    if s.function in ("avgpool", "maxpool", "resize"):
        return len(op.output.shape) in CHANNELS_LAST
    return s.function in _RULES


# Element by element

_Composer = Callable[[IntegerBuilder, Operator, View], View]
#: Functions that are written out in others.
_COMPOSED: dict[str, _Composer] = {
    "relu": lambda b, op, x: real_function(b, op, "clip", x, 0.0, math.inf),
    "square": lambda b, op, x: real_pair(b, op, "mul", x, x),
    "rsqrt": lambda b, op, x: real_function(b, op, "reciprocal", real_function(b, op, "sqrt", x)),
    "silu": lambda b, op, x: _gated(
        b, op, x, "sigmoid", semantics_of(op).attributes["numbers"].get("alpha", 1.0)
    ),
    "gelu_quick": lambda b, op, x: _gated(
        b, op, x, "sigmoid", semantics_of(op).attributes["numbers"].get("alpha", 1.702)
    ),
    "hard_swish": lambda b, op, x: real_pair(
        b, op, "mul", x, real_function(b, op, "hard_sigmoid", x, 1 / 6, 0.5)
    ),
    "log1p": lambda b, op, x: real_function(b, op, "log", real_pair(b, op, "add", x, 1.0)),
    "expm1": lambda b, op, x: real_pair(b, op, "sub", real_function(b, op, "exp", x), 1.0),
    "softplus": lambda b, op, x: _softplus(b, op, x),
    "mish": lambda b, op, x: real_pair(b, op, "mul", x, real_function(b, op, "tanh", _softplus(b, op, x))),
    "softsign": lambda b, op, x: real_pair(
        b, op, "div", x, real_pair(b, op, "add", real_function(b, op, "abs", x), 1.0)
    ),
    "elu": lambda b, op, x: _elu(b, op, x),
    "gelu": lambda b, op, x: real_pair(
        b,
        op,
        "mul",
        real_pair(b, op, "mul", x, 0.5),
        real_pair(b, op, "add", real_function(b, op, "erf", real_pair(b, op, "mul", x, math.sqrt(0.5))), 1.0),
    ),
}


def _gated(b: IntegerBuilder, op: Operator, x: View, gate: str, alpha: float) -> View:
    inner = x if alpha == 1 else real_pair(b, op, "mul", x, alpha)
    return real_pair(b, op, "mul", x, real_function(b, op, gate, inner))


def _softplus(b: IntegerBuilder, op: Operator, x: View) -> View:
    """max(x, 0) + log(1 + exp(-|x|))"""
    tail = real_function(b, op, "exp", real_function(b, op, "neg", real_function(b, op, "abs", x)))
    logarithm = real_function(b, op, "log", real_pair(b, op, "add", tail, 1.0))
    return real_pair(b, op, "add", real_pair(b, op, "maximum", x, 0.0), logarithm)


def _elu(b: IntegerBuilder, op: Operator, x: View) -> View:
    """scale * (max(x, 0) + alpha * (exp(rate * min(x, 0)) - 1))"""
    numbers = {"alpha": 1.0, "scale": 1.0, "rate": 1.0} | semantics_of(op).attributes["numbers"]
    below = real_pair(b, op, "minimum", x, 0.0)
    if numbers["rate"] != 1:
        below = real_pair(b, op, "mul", below, numbers["rate"])
    curve = real_pair(b, op, "sub", real_function(b, op, "exp", below), 1.0)
    if numbers["alpha"] != 1:
        curve = real_pair(b, op, "mul", curve, numbers["alpha"])
    total = real_pair(b, op, "add", real_pair(b, op, "maximum", x, 0.0), curve)
    return total if numbers["scale"] == 1 else real_pair(b, op, "mul", total, numbers["scale"])


def _unary(b: IntegerBuilder, op: Operator) -> View:
    a = semantics_of(op).attributes
    x = real(b, semantics_of(op).operands[0], op)
    if a["name"] in _COMPOSED:
        return _COMPOSED[a["name"]](b, op, x)
    given = NUMBERS.get(a["name"], {}) | a["numbers"]
    numbers = [given[name] for name in NUMBERS.get(a["name"], {})]
    return real_function(b, op, a["name"], x, *numbers)


def _binary(b: IntegerBuilder, op: Operator) -> View:
    left, right = (real(b, x, op).expanded(op.output.shape) for x in semantics_of(op).operands)
    name = semantics_of(op).attributes["name"]
    if name != "pow":
        return real_pair(b, op, name, left, right)
    exponent = semantics_of(op).operands[1]
    assert isinstance(exponent, Parameter)
    power = float(b.parameters(exponent).reshape(-1)[0])
    if power == 1:
        return left
    if power in (2, 3):
        squares = real_pair(b, op, "mul", left, left)
        return squares if power == 2 else real_pair(b, op, "mul", squares, left)
    if power == 0.5:
        return real_function(b, op, "sqrt", left)
    logarithm = real_pair(b, op, "mul", real_function(b, op, "log", left), power)
    return real_function(b, op, "exp", logarithm)


def _where(b: IntegerBuilder, op: Operator) -> View:
    condition, left, right = (real(b, x, op).expanded(op.output.shape) for x in semantics_of(op).operands)
    output = real_result(b, op, op.output.shape)
    b.emit(RealSelection(real_name(b, op), (op.name,), output, condition, left, right))
    return output


def _identity(b: IntegerBuilder, op: Operator) -> View:
    return real(b, semantics_of(op).operands[0], op).expanded(op.output.shape)


# Rows


def _batchnorm(b: IntegerBuilder, op: Operator) -> View:
    x, scale, shift, mean, variance = semantics_of(op).operands
    shape = op.output.shape
    factor = np.float32(1) / np.sqrt(
        channel_numbers(b, variance, shape, op) + np.float32(semantics_of(op).attributes["eps"])
    )
    if scale is not None:
        factor = factor * channel_numbers(b, scale, shape, op)
    offset = -channel_numbers(b, mean, shape, op) * factor
    if shift is not None:
        offset = offset + channel_numbers(b, shift, shape, op)
    return real_line(b, op, real(b, x, op), factor, offset)


def _rows(b: IntegerBuilder, op: Operator, x: View, axes: int, function: str, epsilon: float = 0.0) -> View:
    """A function of the last `axes` dimensions, of which all are one row; of the shape of x."""
    lead = len(x.shape) - axes
    shape = (*x.shape[:lead], math.prod(x.shape[lead:]))
    flat = x.reshaped(shape) or b.copied(x, op).reshaped(shape)
    assert flat is not None
    output = real_result(b, op, flat.shape)
    b.emit(RealRows(real_name(b, op), (op.name,), output, flat, function, epsilon))
    shaped = output.reshaped(x.shape)
    assert shaped is not None
    return shaped


def _layernorm(b: IntegerBuilder, op: Operator) -> View:
    x, *line = semantics_of(op).operands
    a = semantics_of(op).attributes
    function = "normal" if semantics_of(op).function == "layernorm" else "root"
    normal = _rows(b, op, real(b, x, op), a["axes"], function, a["eps"])
    factor, shift = (None if p is None else _parameter(b, p) for p in (*line, None, None)[:2])
    return real_line(b, op, normal, factor, shift)


def _parameter(b: IntegerBuilder, p: Operand) -> Array:
    assert isinstance(p, Parameter)
    return b.parameters(p)


def _groupnorm(b: IntegerBuilder, op: Operator) -> View:
    x, scale, shift = (*semantics_of(op).operands, None, None)[:3]
    a, shape = semantics_of(op).attributes, op.output.shape
    view = real(b, x, op)
    groups = (shape[0], a["groups"], math.prod(shape[1:]) // a["groups"])
    grouped = view.reshaped(groups) or b.copied(view, op).reshaped(groups)
    assert grouped is not None
    normal = _rows(b, op, grouped, 1, "normal", a["eps"]).reshaped(shape)
    assert normal is not None
    factor, offset = (None if p is None else channel_numbers(b, p, shape, op) for p in (scale, shift))
    return real_line(b, op, normal, factor, offset)


def _softmax(b: IntegerBuilder, op: Operator) -> View:
    x, mask = semantics_of(op).operands
    a = semantics_of(op).attributes
    view = real(b, x, op)
    if mask is not None:
        view = real_pair(b, op, "add", view, real(b, mask, op).expanded(view.shape))
    axis = a["axis"] % len(view.shape)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    turned = view.transposed(last)
    output = real_result(b, op, turned.shape)
    function = "log_softmax" if a["logarithm"] else "softmax"
    b.emit(RealRows(real_name(b, op), (op.name,), output, turned, function))
    return output.transposed(inverse_order(last))


def _reduce(b: IntegerBuilder, op: Operator) -> View:
    a = semantics_of(op).attributes
    view = real(b, semantics_of(op).operands[0], op)
    rank = len(view.shape)
    axes = sorted(axis % rank for axis in a["axes"])
    kept = [axis for axis in range(rank) if axis not in axes]
    arranged = view.transposed((*kept, *axes))
    flat = (*arranged.shape[: len(kept)], math.prod(view.shape[axis] for axis in axes))
    rows = arranged.reshaped(flat) or b.copied(arranged, op).reshaped(flat)
    assert rows is not None
    output = real_result(b, op, flat[:-1])
    b.emit(RealRows(real_name(b, op), (op.name,), output, rows, a["name"]))
    shaped = output.reshaped(op.output.shape)
    assert shaped is not None
    return shaped


# Products


def _matmul(b: IntegerBuilder, op: Operator) -> View:
    x, y, bias = semantics_of(op).operands
    left, right = real(b, x, op), real(b, y, op)
    vector, row = len(right.shape) == 1, len(left.shape) == 1
    left = inserted(left, 0) if row else left
    right = inserted(right, 1) if vector else right
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (one.expanded((*batch, *one.shape[-2:])) for one in (left, right))
    output = real_result(b, op, (*batch, left.shape[-2], right.shape[-1]))
    b.emit(RealProducts(real_name(b, op), (op.name,), output, left, right))
    shaped = output.reshaped(op.output.shape)
    assert shaped is not None
    alpha = semantics_of(op).attributes["alpha"]
    if alpha != 1:
        shaped = real_pair(b, op, "mul", shaped, float(alpha))
    return (
        shaped if bias is None else real_pair(b, op, "add", shaped, real(b, bias, op).expanded(shaped.shape))
    )


# Data movement


def _concat(b: IntegerBuilder, op: Operator) -> View:
    axis = semantics_of(op).attributes["axis"]
    views = [real(b, x, op) for x in semantics_of(op).operands]
    output = real_result(b, op, op.output.shape, max(views, key=lambda one: one.words))
    start = 0
    for view in views:
        part = part_of(output, axis, start, view.shape[axis])
        b.emit(Map(real_name(b, op), (op.name,), part, view, None))
        start += view.shape[axis]
    return output


def _pad(b: IntegerBuilder, op: Operator) -> View:
    a = semantics_of(op).attributes
    view = real(b, semantics_of(op).operands[0], op)
    output = real_result(b, op, op.output.shape, view)
    border = real_constant(b, f"{op.name}.border", np.array(a["value"]))
    kept = cropped(view.shape, dict(a))
    ones = [1] * len(view.shape)
    view = view.sliced([k.start for k in kept], [k.stop - k.start for k in kept], ones)
    inner = output
    for axis, before in enumerate(a["before"]):
        start, size = max(0, before), view.shape[axis]
        for first, last in ((0, start), (start + size, inner.shape[axis])):
            if first < last:
                part = part_of(inner, axis, first, last - first)
                b.emit(Map(real_name(b, op), (op.name,), part, border.expanded(part.shape), None))
        inner = part_of(inner, axis, start, size)
    b.emit(Map(real_name(b, op), (op.name,), inner, view, None))
    return output


_RULES: dict[str, Callable[[IntegerBuilder, Operator], View]] = {
    "unary": _unary,
    "binary": _binary,
    "where": _where,
    "identity": _identity,
    "batchnorm": _batchnorm,
    "layernorm": _layernorm,
    "rmsnorm": _layernorm,
    "groupnorm": _groupnorm,
    "softmax": _softmax,
    "reduce": _reduce,
    "avgpool": real_pool,
    "maxpool": real_pool,
    "resize": real_resize,
    "conv": real_convolution,
    "conv_transpose": real_transposed,
    "matmul": _matmul,
    "interleave": real_interleave,
    "concat": _concat,
    "pad": _pad,
}
