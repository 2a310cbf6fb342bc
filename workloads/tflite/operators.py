"""What each operator of TensorFlow Lite (LiteRT) becomes: one of ONNX on real numbers, between the scales of its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from baco.workloads.network import UnsupportedNodeError
from baco.workloads.tflite.writing import TfliteNode

Rule: TypeAlias = Callable[[TfliteNode], None]
#: Of images with channels last to channels in front, and back.
_FRONT, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _activated(n: TfliteNode, y: str) -> str:
    """With the activation that the operator says."""
    kind = n.option("fusedActivationFunction", 0)
    if kind == 0:
        return y
    if kind == 1:
        return n.add("Relu", y)
    limits = {2: (-1.0, 1.0), 3: (0.0, 6.0)}
    if kind == 4:
        return n.add("Tanh", y)
    if kind not in limits:
        raise UnsupportedNodeError(f"its activation {kind}")
    return n.add("Clip", y, *(n.constant(np.float32(limit)) for limit in limits[kind]))


def _window(n: TfliteNode, kernel: tuple[int, ...], dilation: tuple[int, ...] = (1, 1)) -> dict[str, Any]:
    """Strides and padding of a window (height, width) over an image."""
    strides = n.option("strideH", 1), n.option("strideW", 1)
    pads = [0, 0, 0, 0]
    if n.option("padding", 0) == 0:  # as many outputs as strides fit into the image
        for axis, size in enumerate(n.shape(0)[1:3]):
            reach = (
                (math.ceil(size / strides[axis]) - 1) * strides[axis]
                + (kernel[axis] - 1) * dilation[axis]
                + 1
            )
            total = max(reach - size, 0)
            pads[axis], pads[axis + 2] = total // 2, total - total // 2
    return {"kernel_shape": list(kernel), "strides": list(strides), "pads": pads}


def _convolution(n: TfliteNode, deep: bool = False) -> None:
    """CONV_2D with weights (outputs, height, width, inputs), DEPTHWISE_CONV_2D with weights (1, height, width, outputs)."""
    weight = n.real(1, order=(3, 0, 1, 2) if deep else _FRONT)
    kernel = n.shape(1)[1:3]
    dilation = n.option("dilationHFactor", 1), n.option("dilationWFactor", 1)
    operands = [n.add("Transpose", n.real(0), perm=_FRONT), weight, *([n.real(2)] if n.has(2) else [])]
    groups = n.shape(0)[3] if deep else n.shape(0)[3] // n.shape(1)[3]
    window = _window(n, kernel, dilation) | {"dilations": list(dilation), "group": groups}
    n.finish(n.add("Transpose", _activated(n, n.add("Conv", *operands, **window)), perm=_LAST))


def _product(n: TfliteNode) -> None:
    """FULLY_CONNECTED: rows of the input times weights (outputs, inputs)."""
    x = n.reshaped(n.real(0), (-1, n.shape(1)[1]))
    y = n.add("Gemm", x, n.real(1), *([n.real(2)] if n.has(2) else []), transB=1)
    n.finish(n.reshaped(_activated(n, y), n.output_shape()))


def _batch_product(n: TfliteNode) -> None:
    operands = []
    for index, name in enumerate(("adjX", "adjY")):
        rank = len(n.shape(index))
        perm = (*range(rank - 2), rank - 1, rank - 2)
        x = n.real(index)
        operands.append(n.add("Transpose", x, perm=perm) if n.option(name, False) else x)
    n.finish(n.add("MatMul", *operands))


def _pool(n: TfliteNode, operator: str) -> None:
    window = _window(n, (n.option("filterHeight", 1), n.option("filterWidth", 1)))
    y = n.add(operator, n.add("Transpose", n.real(0), perm=_FRONT), **window)
    n.finish(n.add("Transpose", _activated(n, y), perm=_LAST))


def _pair(n: TfliteNode, operator: str) -> None:
    n.finish(_activated(n, n.add(operator, n.real(0), n.real(1))))


def _function(n: TfliteNode, operator: str) -> None:
    n.finish(n.add(operator, n.real(0)))


def _clip(n: TfliteNode, low: float, high: float) -> None:
    n.finish(n.add("Clip", n.real(0), n.constant(np.float32(low)), n.constant(np.float32(high))))


def _leaky(n: TfliteNode) -> None:
    n.finish(n.add("LeakyRelu", n.real(0), alpha=float(n.option("alpha", 0.0))))


def _softmax(n: TfliteNode) -> None:
    beta, x = float(n.option("beta", 1.0)), n.real(0)
    n.finish(n.add("Softmax", x if beta == 1 else n.add("Mul", x, n.constant(np.float32(beta))), axis=-1))


def _shaped(n: TfliteNode) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: another shape, which the result says."""
    n.finish(n.reshaped(n.real(0), n.output_shape()))


def _transpose(n: TfliteNode) -> None:
    n.finish(n.add("Transpose", n.real(0), perm=n.numbers(1)))


def _concatenation(n: TfliteNode) -> None:
    y = n.add("Concat", *(n.real(index) for index in range(n.count)), axis=n.option("axis", 0))
    n.finish(_activated(n, y))


def _reduction(n: TfliteNode, operator: str) -> None:
    axes = n.constant(np.array(n.numbers(1), np.int64).reshape(-1))
    n.finish(n.add(operator, n.real(0), axes, keepdims=int(n.option("keepDims", False))))


def _pad(n: TfliteNode) -> None:
    """PAD with rows (before, after) for every dimension, of the element that stands for 0."""
    before_and_after = np.array(n.numbers(1), np.int64).reshape(-1, 2).T.reshape(-1)
    n.finish(n.add("Pad", n.real(0), n.constant(before_and_after)))


def _resize(n: TfliteNode, mode: str) -> None:
    coordinates = "asymmetric"
    if n.option("alignCorners", False):
        coordinates = "align_corners"
    elif n.option("halfPixelCenters", False):
        coordinates = "half_pixel"
    x = n.add("Transpose", n.real(0), perm=_FRONT)
    sizes = n.constant(np.array([*n.shape(0)[::3], *n.numbers(1)], np.int64))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    n.finish(n.add("Transpose", n.add("Resize", x, "", "", sizes, **attributes), perm=_LAST))


def _copy(n: TfliteNode) -> None:
    """QUANTIZE, DEQUANTIZE: the same numbers in another type."""
    n.finish(n.real(0))


#: By the name in TensorFlow Lite's schema.
OPERATORS: dict[str, Rule] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": partial(_convolution, deep=True),
    "FULLY_CONNECTED": _product,
    "BATCH_MATMUL": _batch_product,
    "AVERAGE_POOL_2D": partial(_pool, operator="AveragePool"),
    "MAX_POOL_2D": partial(_pool, operator="MaxPool"),
    "ADD": partial(_pair, operator="Add"),
    "SUB": partial(_pair, operator="Sub"),
    "MUL": partial(_pair, operator="Mul"),
    "DIV": partial(_pair, operator="Div"),
    "MAXIMUM": partial(_pair, operator="Max"),
    "MINIMUM": partial(_pair, operator="Min"),
    "RELU": partial(_function, operator="Relu"),
    "RELU6": partial(_clip, low=0.0, high=6.0),
    "RELU_N1_TO_1": partial(_clip, low=-1.0, high=1.0),
    "LEAKY_RELU": _leaky,
    "LOGISTIC": partial(_function, operator="Sigmoid"),
    "TANH": partial(_function, operator="Tanh"),
    "HARD_SWISH": partial(_function, operator="HardSwish"),
    "ABS": partial(_function, operator="Abs"),
    "NEG": partial(_function, operator="Neg"),
    "EXP": partial(_function, operator="Exp"),
    "LOG": partial(_function, operator="Log"),
    "SQRT": partial(_function, operator="Sqrt"),
    "SOFTMAX": _softmax,
    "RESHAPE": _shaped,
    "SQUEEZE": _shaped,
    "EXPAND_DIMS": _shaped,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concatenation,
    "MEAN": partial(_reduction, operator="ReduceMean"),
    "SUM": partial(_reduction, operator="ReduceSum"),
    "REDUCE_MAX": partial(_reduction, operator="ReduceMax"),
    "PAD": _pad,
    "RESIZE_NEAREST_NEIGHBOR": partial(_resize, mode="nearest"),
    "RESIZE_BILINEAR": partial(_resize, mode="linear"),
    "QUANTIZE": _copy,
    "DEQUANTIZE": _copy,
}
