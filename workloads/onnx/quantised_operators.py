"""Operators on whole numbers (ONNX's QLinear and Integer forms, onnxruntime's own) as what they are on real ones, between
DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx

from baco.workloads.onnx.expansion import UNITS, Expansion, RefusedError

Rule = Callable[[Expansion], None]


def _real(e: Expansion, x: int, scale: int, zero: int, axis: int = 1) -> str:
    """An operand in real numbers, from where its whole ones, scale and zero point are among the inputs."""
    numbers = [e.input(x), e.input(scale), *([e.input(zero)] if e.has(zero) else [])]
    return str(e.add("DequantizeLinear", *numbers, axis=axis))


def _finish(e: Expansion, y: str, scale: int, zero: int) -> None:
    """The result in whole numbers."""
    e.finish("QuantizeLinear", y, e.input(scale), *([e.input(zero)] if e.has(zero) else []))


def convolution(e: Expansion) -> None:
    """QLinearConv: x, scale, zero, w, scale, zero, scale and zero of the result, bias in units of the product of scales."""
    weight = _real(e, 3, 4, 5, axis=0)
    operands = [_real(e, 0, 1, 2), weight]
    if e.has(8):
        unit = e.add("Mul", e.input(1), e.input(4))
        operands.append(e.add("DequantizeLinear", e.input(8), unit, axis=0))
    _finish(e, _layout(e, "Conv", operands), 6, 7)


def _layout(e: Expansion, operator: str, operands: Sequence[str], units: str = "") -> str:
    """An operator on images whose channels onnxruntime may have last; `units` as of the metadata."""
    given = e.raw_attributes("channels_last")
    last = bool(e.attribute("channels_last", 0))
    x, *others = operands
    rank = len(e.shape(0))
    if last:
        x = str(e.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]))
    y = e.fresh(operator.lower())
    node = onnx.helper.make_node(operator, [x, *others], [y])
    node.attribute.extend(given)
    _mark(node, units)
    e.write(node)
    return str(e.add("Transpose", y, perm=[0, *range(2, rank), 1])) if last else y


def product(e: Expansion) -> None:
    """QLinearMatMul: a, scale, zero, b, scale, zero, scale and zero of the result; scales of rows of a or of columns of b."""
    left, right = (
        _real(e, 0, 1, 2, axis=max(len(e.shape(0)) - 2, 0)),
        _real(e, 3, 4, 5, axis=len(e.shape(3)) - 1),
    )
    _finish(e, e.add("MatMul", left, right), 6, 7)


def dynamic(e: Expansion) -> None:
    """DynamicQuantizeLinear, by its definition: a range that contains 0, a scale and zero point of uint8 for it, whole numbers."""
    x = e.input(0)
    zero = e.constant(np.float32(0))
    low = e.add("Min", e.add("ReduceMin", x, keepdims=0), zero)
    high = e.add("Max", e.add("ReduceMax", x, keepdims=0), zero)
    steps = e.constant(np.float32(255))
    scale = e.add("Div", e.add("Sub", high, low), steps)
    if e.wants(1):
        e.finish("Identity", scale, output=1)
    point = _limited(e, e.add("Round", e.add("Neg", e.add("Div", low, scale))), zero, steps)
    if e.wants(2):
        e.finish("Identity", point, output=2)
    whole = e.add("Add", e.add("Round", e.add("Div", x, scale)), point)
    e.finish("Identity", _limited(e, whole, zero, steps))


def _limited(e: Expansion, x: str, low: str, high: str) -> str:
    return str(e.add("Min", e.add("Max", x, low), high))


def whole_product(e: Expansion) -> None:
    """MatMulInteger: a, b, zero of a, zero of b; whole numbers are their own scale."""
    one = e.constant(np.float32(1))
    weight = _units(e, 1, 3, one, len(e.shape(1)) - 1)
    if _constant_zero(e):
        e.finish("MatMul", _units(e, 0, 2, one, 0), weight)
        return
    inner, rest = _centred(e)
    sums = e.add(
        "ReduceSum", weight, e.constant([max(len(e.shape(1)) - 2, 0)]), keepdims=int(len(e.shape(1)) > 1)
    )
    if len(e.shape(2)) == 1 and np.prod(e.shape(2)) > 1:  # a zero point of every row
        rest = e.add("Unsqueeze", rest, e.constant([1]))
    e.finish("Add", e.add("MatMul", inner, weight), e.add("Mul", sums, rest))


def whole_convolution(e: Expansion) -> None:
    """ConvInteger: x, w, zero of x, zero of w."""
    one = e.constant(np.float32(1))
    weight = _units(e, 1, 3, one, 0)
    if _constant_zero(e):
        e.finish("Identity", _layout(e, "Conv", [_units(e, 0, 2, one, 0), weight]))
        return
    inner, rest = _centred(e)
    # What the zero point adds depends on how much of a window is inside the image.
    ones = e.add("Add", e.add("Mul", inner, e.constant(np.float32(0))), one)
    whole = e.constant(np.int8(0), np.int8)
    ones = e.add("DequantizeLinear", e.add("QuantizeLinear", ones, one, whole), one, whole)
    sums = _layout(e, "Conv", [ones, weight])
    e.finish("Add", _layout(e, "Conv", [inner, weight]), e.add("Mul", sums, rest))


def _constant_zero(e: Expansion) -> bool:
    """Whether the zero point of the first operand is known before the network runs."""
    return not e.has(2) or e.is_constant(2)


def _centred(e: Expansion) -> tuple[str, str]:
    """The first operand less the middle of its type, as int8, and what its zero point, which is computed, leaves to add."""
    signed = e.facts.kinds.get(e.input(0)) == onnx.TensorProto.INT8  # else of `dynamic`
    middle, one = e.constant(np.float32(0 if signed else 128)), e.constant(np.float32(1))
    zero = e.constant(np.int8(0), np.int8)
    whole = e.add("QuantizeLinear", e.add("Sub", e.input(0), middle), one, zero)
    return str(e.add("DequantizeLinear", whole, one, zero)), str(e.add("Sub", middle, e.input(2)))


def _units(e: Expansion, x: int, zero: int, one: str, axis: int) -> str:
    if not e.has(zero):
        return str(e.add("DequantizeLinear", e.input(x), one))
    count = int(np.prod(e.shape(zero)))
    scale = one if count == 1 else e.constant(np.ones(count, np.float32))
    return str(e.add("DequantizeLinear", e.input(x), scale, e.input(zero), axis=axis))


def general_product(e: Expansion) -> None:
    """QGemm: a, scale, zero, b, scale, zero, [c in units of alpha times both scales, scale and zero of the result]."""
    alpha, turned = e.attribute("alpha", 1.0), bool(e.attribute("transB", 0))
    operands = [_real(e, 0, 1, 2), _real(e, 3, 4, 5, axis=0 if turned else 1)]
    if e.has(6):
        unit = e.add("Mul", e.add("Mul", e.input(1), e.input(4)), e.constant(np.float32(alpha)))
        operands.append(e.add("DequantizeLinear", e.input(6), unit, axis=len(e.shape(6)) - 1))
    attributes = {"alpha": float(alpha), "transA": e.attribute("transA", 0), "transB": int(turned)}
    if e.has(7):
        _finish(e, e.add("Gemm", *operands, **attributes), 7, 8)
    else:
        e.finish("Gemm", *operands, **attributes)


def pair(e: Expansion, operator: str) -> None:
    """QLinearAdd, QLinearMul: a, scale, zero, b, scale, zero, scale and zero of the result. How onnxruntime rounds follows from all
    scales and zero points (`baco.compiler.network.functions.rounded_pair`), where these are constants."""
    y = e.fresh(operator.lower())
    node = onnx.helper.make_node(operator, [_real(e, 0, 1, 2), _real(e, 3, 4, 5)], [y])
    _mark(node, _known(e, (1, 2, 4, 5, 6, 7)))
    e.write(node)
    _finish(e, y, 6, 7)


def _known(e: Expansion, inputs: Sequence[int]) -> str:
    """Scales and zero points that are constants of one number (a zero point that is left out is 0), in JSON; empty where some are not."""
    units = [e.facts.known.get(e.input(at)) if e.has(at) else np.zeros(1) for at in inputs]
    known = [float(one.reshape(-1)[0]) for one in units if one is not None and one.size == 1]
    return json.dumps(known) if len(known) == len(units) else ""


def _mark(node: onnx.NodeProto, units: str) -> None:
    if units:
        node.metadata_props.add(key=UNITS, value=units)


def function(e: Expansion, operator: str, *attributes: str) -> None:
    """Of each element: x, scale, zero, scale and zero of the result."""
    given = {name: e.attribute(name, None) for name in attributes}
    kept = {name: value for name, value in given.items() if value is not None}
    _finish(e, e.add(operator, _real(e, 0, 1, 2), **kept), 3, 4)


def softmax(e: Expansion) -> None:
    """QLinearSoftmax: x, scale, zero, scale and zero of the result; `opset` says of which ONNX's Softmax."""
    version, axis, rank = e.attribute("opset", 13), e.attribute("axis", -1), len(e.shape(0))
    if version < 13 and axis % rank != rank - 1:
        raise RefusedError(f"a softmax of opset {version} over several dimensions")
    _finish(e, e.add("Softmax", _real(e, 0, 1, 2), axis=axis), 3, 4)


def average(e: Expansion, operator: str) -> None:
    """QLinearAveragePool, QLinearGlobalAveragePool: x, scale, zero, scale and zero of the result. onnxruntime adds up windows in real
    numbers, and whole images in whole ones."""
    units = _known(e, (3, 4)) if operator == "AveragePool" else ""
    _finish(e, _layout(e, operator, [_real(e, 0, 1, 2)], units), 3, 4)


def joined(e: Expansion) -> None:
    """QLinearConcat: scale and zero of the result, then x, scale and zero of every part."""
    parts = [_real(e, at, at + 1, at + 2) for at in range(2, len(e.node.input), 3)]
    _finish(e, e.add("Concat", *parts, axis=e.attribute("axis", 0)), 0, 1)


#: By name, of ONNX itself.
STANDARD: dict[str, Rule] = {
    "QLinearConv": convolution,
    "QLinearMatMul": product,
    "ConvInteger": whole_convolution,
    "MatMulInteger": whole_product,
    "DynamicQuantizeLinear": dynamic,
}
#: Of onnxruntime (domain com.microsoft).
CONTRIBUTED: dict[str, Rule] = {
    "QLinearConv": convolution,
    "QGemm": general_product,
    "QLinearAdd": partial(pair, operator="Add"),
    "QLinearMul": partial(pair, operator="Mul"),
    "QLinearSigmoid": lambda e: function(e, "Sigmoid"),
    "QLinearLeakyRelu": lambda e: function(e, "LeakyRelu", "alpha"),
    "QLinearSoftmax": softmax,
    "QLinearAveragePool": partial(average, operator="AveragePool"),
    "QLinearGlobalAveragePool": partial(average, operator="GlobalAveragePool"),
    "QLinearConcat": joined,
}
