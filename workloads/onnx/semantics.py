"""What ONNX operators compute, as far as networks can be run: `baco.workloads.semantics` from the node at hand.

An operator without a rule of these, or with attributes that are not covered, can be explored but not run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx.defs

from baco.common.errors import InputError
from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.semantics import PLAIN_FUNCTIONS, Fill, Operand, Parameter, Semantics, constant
from baco.workloads.views import Reshape

#: Element types of whole numbers, and those whose numbers are real ones that int8 is as good as.
WHOLE = frozenset(
    getattr(onnx.TensorProto, f"{sign}INT{bits}")
    for sign in ("", "U")
    for bits in (2, 4, 8, 16, 32, 64)
    if hasattr(onnx.TensorProto, f"{sign}INT{bits}")
)
REAL = frozenset(
    (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
)

#: Operators of one input that are a function of each element, without attributes, by the function.
PLAIN_OPERATORS = {name.capitalize(): name for name in PLAIN_FUNCTIONS if onnx.defs.has(name.capitalize())}


def meaning(imp: OnnxNode) -> Semantics | None:
    """The semantics of the node, None if they are not known."""
    if imp.rule is None:
        return None
    imp.forget()  # what the handler read was for costs
    try:
        return imp.rule(imp)
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError):
        return None  # damaged attributes
    except (InputError, UnsupportedNodeError):
        return None


def parameter(imp: OnnxNode, index: int, fill: Fill = "normal", fan_in: int = 1) -> Parameter:
    """A constant input."""
    constant = imp.constant(index)
    if constant is None or constant.shape is None:
        raise ValueError("no constant of known shape")
    imp.reads(index)
    return imp.parameter(imp.node.input[index], fill, fan_in)


def operand(imp: OnnxNode, index: int) -> Tensor | Parameter:
    """An input, constant or not."""
    return imp.tensor(index) if imp.constant(index) is None else parameter(imp, index)


def _optional(imp: OnnxNode, index: int, fill: Fill) -> Parameter | None:
    return parameter(imp, index, fill) if imp.has(index) else None


# Pointwise


def unary(imp: OnnxNode, name: str, **defaults: float) -> Semantics:
    """`defaults`: attributes under their names in ONNX, with `our_name=...` given by `_NUMBERS`."""
    numbers = {_NUMBERS.get(key, key): imp.number(key, value) for key, value in defaults.items()}
    return Semantics("unary", (imp.tensor(0),), {"name": name, "numbers": numbers})


_NUMBERS = {"lambd": "limit", "gamma": "scale"}


def fixed(imp: OnnxNode, name: str, **numbers: float) -> Semantics:
    return Semantics("unary", (imp.tensor(0),), {"name": name, "numbers": numbers})


def thresholded(imp: OnnxNode) -> Semantics:
    return fixed(imp, "threshold", limit=imp.number("alpha", 1.0))


def celu(imp: OnnxNode) -> Semantics:
    alpha = imp.number("alpha", 1.0)
    return fixed(imp, "elu", alpha=alpha, rate=1 / alpha)


def gelu(imp: OnnxNode) -> Semantics | None:
    if len([name for name in imp.node.input if name]) > 1:
        return None  # onnxruntime's forms with a bias
    return fixed(imp, "gelu_tanh" if imp.text("approximate", "none") == "tanh" else "gelu")


def fast_gelu(imp: OnnxNode) -> Semantics | None:
    return None if imp.has(1) else fixed(imp, "gelu_tanh")


def clip(imp: OnnxNode) -> Semantics | None:
    limits = {}
    for index, key, name in ((1, "min", "low"), (2, "max", "high")):
        if imp.has(index):
            value = imp.value(index)
            if value is None:
                return None
            limits[name] = float(value.reshape(-1)[0])
        else:
            limits[name] = imp.number(key, -math.inf if key == "min" else math.inf)
    return fixed(imp, "clip", **limits)


def binary(imp: OnnxNode, name: str) -> Semantics | None:
    if len([n for n in imp.node.input if n]) != 2:
        return None
    units = {} if imp.units is None else {"units": imp.units}
    return Semantics("binary", (operand(imp, 0), second_operand(imp)), {"name": name} | units)


def second_operand(imp: OnnxNode) -> Tensor | Parameter:
    """The second operand of a pointwise operator as numpy would broadcast it.

    Before opset 7 it stood along the first operand's dimensions from `axis` on, without it along the last ones.
    """
    x = operand(imp, 1)
    if imp.version >= 7:
        return x
    rank, own = len(imp.shape(0)), len(x.shape)
    broadcast, axis = imp.integer("broadcast", 0), imp.integer("axis", rank - own)
    behind = rank - own - axis % max(rank, 1)
    if not broadcast or behind <= 0 or not own:
        return x
    shape = (*x.shape, *(1 for _ in range(behind)))
    return x.viewed(shape, Reshape(shape))


def prelu(imp: OnnxNode) -> Semantics:
    """Before opset 7 the slopes were those of channels."""
    x, slope = imp.tensor(0), operand(imp, 1)
    if imp.version < 7 and math.prod(slope.shape) > 1:
        shape = (math.prod(slope.shape), *(1 for _ in x.shape[2:]))
        slope = slope.viewed(shape, Reshape(shape))
    return Semantics("binary", (x, slope), {"name": "prelu"})


def divide(imp: OnnxNode) -> Semantics | None:
    return binary(imp, "truncated_divide" if imp.kind(0) in WHOLE else "div")


def modulo(imp: OnnxNode) -> Semantics | None:
    return binary(imp, "fmod" if imp.integer("fmod", 0) else "mod")


def _identity(imp: OnnxNode) -> Semantics:
    return Semantics("identity", (imp.tensor(0),))


def cast(imp: OnnxNode, to: int) -> Semantics | None:
    """What a change of the element type does to numbers: None where nothing.

    Raises UnsupportedNodeError for types whose rounding is not followed.
    """
    source = imp.kind(0)
    if to == onnx.TensorProto.BOOL and source != onnx.TensorProto.BOOL:
        return Semantics("binary", (imp.tensor(0), constant("0", 0.0)), {"name": "not_equal"})
    if to in WHOLE and source not in WHOLE and source != onnx.TensorProto.BOOL:
        return fixed(imp, "trunc")
    if to in WHOLE | REAL or to == onnx.TensorProto.BOOL:
        return None
    kinds = onnx.TensorProto.DataType
    raise UnsupportedNodeError(f"to={kinds.Name(to) if to in kinds.values() else to} is not supported")


# Normalisation and softmax


def batchnorm(imp: OnnxNode) -> Semantics:
    fills: tuple[Fill, ...] = ("scale", "shift", "shift", "scale")
    parts = [parameter(imp, 1 + i, fill) for i, fill in enumerate(fills)]
    return Semantics("batchnorm", (imp.tensor(0), *parts), {"eps": imp.number("epsilon", 1e-5)})


def layernorm(imp: OnnxNode, function: str) -> Semantics:
    rank = len(imp.shape(0))
    axes = rank - imp.integer("axis", -1) % rank
    attributes = {"axes": axes, "eps": imp.number("epsilon", 1e-5)}
    parts = (parameter(imp, 1, "scale"), _optional(imp, 2, "shift"))
    return Semantics(
        function, (imp.tensor(0), *(parts if function == "layernorm" else parts[:1])), attributes
    )


def skip_norm(imp: OnnxNode, x: Tensor, function: str) -> Semantics | None:
    """onnxruntime's normalisation of the sum `x`, without a bias in the sum."""
    attributes = {"axes": 1, "eps": imp.number("epsilon", 1e-12)}
    try:
        if function == "rmsnorm":
            return None if imp.has(3) else Semantics(function, (x, parameter(imp, 2, "scale")), attributes)
        if imp.has(4):
            return None
        return Semantics(function, (x, parameter(imp, 2, "scale"), _optional(imp, 3, "shift")), attributes)
    except (ValueError, InputError):
        return None


def groupnorm(imp: OnnxNode, per_channel: bool = False) -> Semantics | None:
    channels = imp.shape(0)[1]
    groups = channels if per_channel else imp.integer("num_groups", 0)
    parts = (parameter(imp, 1, "scale"), parameter(imp, 2, "shift"))
    if groups < 1 or channels % groups or any(p.shape != (channels,) for p in parts):
        return None  # before opset 21 scale and shift were those of groups
    attributes = {"groups": groups, "eps": imp.number("epsilon", 1e-5)}
    return Semantics("groupnorm", (imp.tensor(0), *parts), attributes)


def softmax(imp: OnnxNode, logarithm: bool = False) -> Semantics | None:
    rank = len(imp.shape(0))
    old = imp.version < 13
    axis = imp.integer("axis", 1 if old else -1) % rank
    if old and axis != rank - 1:
        return None  # flattened from that dimension on
    return Semantics("softmax", (imp.tensor(0), None), {"axis": axis, "logarithm": logarithm})


# Pooling, reductions, resizing


def reduce(imp: OnnxNode, name: str) -> Semantics | None:
    rank = len(imp.shape(0))
    axes: tuple[int, ...] | None = imp.integers("axes")
    stays = imp.integer("noop_with_empty_axes", 0)
    if imp.has(1):
        value = imp.value(1)
        if value is None:
            return None
        axes = tuple(int(n) for n in value.reshape(-1))
    if not axes:
        if stays:
            return _identity(imp)
        axes = tuple(range(rank))
    attributes = {
        "name": name,
        "axes": tuple(a % rank for a in axes),
        "keepdims": bool(imp.integer("keepdims", 1)),
    }
    return Semantics("reduce", (imp.tensor(0),), attributes)


def norm(imp: OnnxNode, p: int | None = None) -> Semantics | None:
    """ReduceL1, ReduceL2; over all pixels with `p` from the node."""
    if p is not None:
        reduced = reduce(imp, "norm")
    else:
        reduced, p = over_pixels(imp, "norm"), imp.integer("p", 2)
    if reduced is None or reduced.function != "reduce":
        return (
            None if reduced is None else Semantics("unary", reduced.operands, {"name": "abs", "numbers": {}})
        )
    return Semantics("reduce", reduced.operands, {**reduced.attributes, "p": p})


def over_pixels(imp: OnnxNode, name: str) -> Semantics:
    axes = tuple(range(2, len(imp.shape(0))))
    return Semantics("reduce", (imp.tensor(0),), {"name": name, "axes": axes, "keepdims": True})


def is_infinite(imp: OnnxNode) -> Semantics:
    ends = {"low": imp.integer("detect_negative", 1), "high": imp.integer("detect_positive", 1)}
    return fixed(imp, "isinf", **{name: float(wanted) for name, wanted in ends.items()})


def take(imp: OnnxNode) -> Semantics:
    return Semantics(
        "take", (operand(imp, 0), operand(imp, 1)), {"axis": imp.integer("axis", 0) % len(imp.shape(0))}
    )


def one_hot(imp: OnnxNode) -> Semantics | None:
    depth, values = imp.value(1), imp.value(2)
    if depth is None or values is None:
        return None
    off, on = (float(n) for n in values.reshape(-1))
    axis = imp.integer("axis", -1) % len(imp.output_shape())
    attributes = {"axis": axis, "depth": int(depth.reshape(-1)[0]), "on": on, "off": off}
    return Semantics("onehot", (imp.tensor(0),), attributes)


def scatter(imp: OnnxNode) -> Semantics | None:
    """At computed positions of a vector of zeros."""
    data = parameter(imp, 0).value() if imp.constant(0) is not None and len(imp.shape(0)) == 1 else None
    if data is None or data.any() or imp.text("reduction", "none") != "none":
        imp.obstacle = "its indices are computed, and its first input is not a vector of zeros"
        return None
    imp.integer("axis", 0)
    return Semantics("unpool", (operand(imp, 2), operand(imp, 1)))


def argmax(imp: OnnxNode, smallest: bool) -> Semantics:
    attributes = {
        "axis": imp.integer("axis", 0) % len(imp.shape(0)),
        "keepdims": bool(imp.integer("keepdims", 1)),
        "smallest": smallest,
        "last": bool(imp.integer("select_last_index", 0)),
    }
    return Semantics("argmax", (imp.tensor(0),), attributes)


def resize(imp: OnnxNode) -> Semantics | None:
    old = imp.node.op_type == "Upsample" or imp.version < 11
    mode = imp.text("mode", "nearest")
    if mode not in ("nearest", "linear") or imp.integer("antialias", 0) or imp.integer("exclude_outside", 0):
        return None
    if imp.shape(0)[:2] != imp.output_shape()[:2]:
        return None
    rule = "asymmetric" if old else imp.text("coordinate_transformation_mode", "half_pixel")
    known = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
    if rule not in known or imp.integers("axes") is not None:
        return None
    scales = imp.value(1 if old else 2) if imp.has(1 if old else 2) else None
    imp.reads(3)  # the shape of the output says the sizes
    if old and not imp.has(1) and imp.numbers("scales") is not None:
        scales = np.array(imp.numbers("scales"), np.float32)
    attributes = {
        "mode": mode,
        "coordinates": rule,
        "rounding": "floor" if old else imp.text("nearest_mode", "round_prefer_floor"),
        "scales": None if scales is None or not scales.size else tuple(float(s) for s in scales[2:]),
    }
    if attributes["rounding"] not in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        return None
    return Semantics("resize", (imp.tensor(0),), attributes)


# Data movement


def concat(imp: OnnxNode) -> Semantics:
    operands: list[Operand] = [operand(imp, i) for i in range(len(imp.node.input))]
    axis = imp.integer("axis", 1) % len(imp.output_shape())
    return Semantics("concat", tuple(operands), {"axis": axis})


def embedding(imp: OnnxNode) -> Semantics | None:
    """Rows of a constant table; else slices, of a constant or not, at computed positions."""
    axis = imp.integer("axis", 0) % len(imp.shape(0))
    if imp.constant(0) is None or axis != 0 or len(imp.shape(0)) != 2:
        return Semantics("gather", (operand(imp, 0), imp.tensor(1)), {"axis": axis})
    return Semantics("embedding", (imp.tensor(1), parameter(imp, 0)))


def pad(imp: OnnxNode) -> Semantics | None:
    rank = len(imp.shape(0))
    pads: Any = imp.integers("pads")
    if imp.has(1):
        pads = imp.value(1)
    if pads is None or imp.has(3) or imp.text("mode", "constant") != "constant":
        return None
    numbers = [int(n) for n in np.asarray(pads).reshape(-1)]
    if len(numbers) != 2 * rank:
        return None
    value = imp.number("value", 0.0)
    if imp.has(2):
        given = imp.value(2)
        if given is None:
            return None
        value = float(given.reshape(-1)[0])
    attributes = {"before": tuple(numbers[:rank]), "after": tuple(numbers[rank:]), "value": value}
    return Semantics("pad", (imp.tensor(0),), attributes)


def negation(imp: OnnxNode) -> Semantics:
    return Semantics("binary", (imp.tensor(0), constant("false", 0.0)), {"name": "equal"})


def where(imp: OnnxNode) -> Semantics:
    return Semantics("where", tuple(operand(imp, i) for i in range(3)))
