"""What PyTorch operators compute, as far as networks can be run: `baco.workloads.semantics` from the node at hand.

An operator without an entry here, or with arguments that are not covered, can be explored but not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import PLAIN_FUNCTIONS, Fill, Operand, Parameter, Semantics, constant
from baco.workloads.torch.node import TorchNode
from baco.workloads.views import Reshape

Rule = Callable[[TorchNode], Semantics | None]


def meaning(imp: TorchNode) -> Semantics | None:
    """The semantics of the node, None if they are not known."""
    target = imp.node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = target._schema.name.split("::")[-1]
    rule = RULES.get(name[:-1] if name.endswith("_") and not name.endswith("__") else name)
    if rule is None:
        return None
    imp.args.read.clear()  # what the handler read was for costs
    try:
        return rule(imp)
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, UnsupportedNodeError):
        return None


def operand_of(imp: TorchNode, value: Any) -> Tensor | Parameter:
    """An argument, a node or a number. Raises ValueError for anything else."""
    if isinstance(value, Node):
        return imp.values[value] if value in imp.values else imp.parameter(value)
    if isinstance(value, (bool, int, float)):
        return constant(f"{value}", float(value))
    raise ValueError(f"{value} is no operand")


def _optional(imp: TorchNode, name: str, fill: Fill) -> Parameter | None:
    node = imp.args.get(name)
    return imp.parameter(node, fill) if isinstance(node, Node) else None


def _number(imp: TorchNode, name: str, default: float) -> float:
    value = imp.args.get(name)
    if value is None:
        return default
    if not isinstance(value, (bool, int, float)):
        raise ValueError(f"{name} is no number")
    return float(value)


def _x(imp: TorchNode) -> Tensor:
    for name in ("self", "input"):
        node = imp.args.get(name)
        if isinstance(node, Node) and node in imp.values:
            return imp.values[node]
    raise ValueError("its input is no activation")


# Pointwise


def _fixed(imp: TorchNode, name: str, **numbers: float) -> Semantics:
    return Semantics("unary", (_x(imp),), {"name": name, "numbers": numbers})


def _unary(imp: TorchNode, name: str, **arguments: tuple[str, float]) -> Semantics:
    """`arguments`: our number's name -> the argument's name and default."""
    return _fixed(imp, name, **{ours: _number(imp, *theirs) for ours, theirs in arguments.items()})


def _gelu(imp: TorchNode) -> Semantics:
    return _fixed(imp, "gelu_tanh" if imp.args.get("approximate") == "tanh" else "gelu")


def _clamp(imp: TorchNode) -> Semantics:
    low, high = ("min_val", "max_val") if "min_val" in imp.args else ("min", "max")
    return _unary(imp, "clip", low=(low, -math.inf), high=(high, math.inf))


def _prelu(imp: TorchNode) -> Semantics:
    x, weight = _x(imp), imp.parameter(imp.args["weight"], "scale")
    if math.prod(weight.shape) > 1 and len(x.shape) > 1:
        shape = (math.prod(weight.shape), *(1 for _ in x.shape[2:]))
        weight = weight.viewed(shape, Reshape(shape))
    return Semantics("binary", (x, weight), {"name": "prelu"})


def _binary(imp: TorchNode, name: str, swapped: bool = False, second: str = "other") -> Semantics | None:
    if _number(imp, "alpha", 1.0) != 1.0:
        return None
    mode = imp.args.get("rounding_mode")
    if mode is not None:
        name = {"floor": "floor_divide", "trunc": "truncated_divide"}[mode]
    pair = operand_of(imp, imp.args["self"]), operand_of(imp, imp.args[second])
    return Semantics("binary", pair[::-1] if swapped else pair, {"name": name})


def cast(imp: TorchNode) -> Semantics | None:
    """What a change of the element type does to numbers: None where nothing."""
    (source, *_), result = imp.node.all_input_nodes, imp.node.meta["val"].dtype
    before = source.meta["val"].dtype
    x = imp.tensors()[0]
    if result is torch.bool and before is not torch.bool:
        return Semantics("binary", (x, constant("0", 0.0)), {"name": "not_equal"})
    if before.is_floating_point and not result.is_floating_point:
        return Semantics("unary", (x,), {"name": "trunc", "numbers": {}})
    return None


def _where(imp: TorchNode) -> Semantics | None:
    """`masked_fill` with a constant mask: what a softmax behind it leaves out; with a computed one a choice."""
    mask = imp.args.get("mask")
    if not isinstance(mask, Node):
        return None
    value = operand_of(imp, imp.args.get("value"))
    if mask in imp.values:
        return Semantics("where", (imp.values[mask], value, operand_of(imp, imp.args["self"])))
    return Semantics("masked", (_x(imp), imp.parameter(mask), value))


def _choice(imp: TorchNode) -> Semantics:
    """`where` of a condition and two tensors or numbers."""
    parts = (operand_of(imp, imp.args.get(name)) for name in ("condition", "self", "other"))
    return Semantics("where", tuple(parts))


# Normalisation and softmax


def _batchnorm(imp: TorchNode) -> Semantics | None:
    x = imp.tensor("input")
    if imp.args.get("training"):
        return None
    fills: dict[str, Fill] = {
        "weight": "scale",
        "bias": "shift",
        "running_mean": "shift",
        "running_var": "scale",
    }
    parts = [_optional(imp, name, fill) for name, fill in fills.items()]
    if parts[2] is None or parts[3] is None:
        return None
    return Semantics("batchnorm", (x, *parts), {"eps": _number(imp, "eps", 1e-5)})


def _layernorm(imp: TorchNode) -> Semantics:
    axes = len(imp.numbers("normalized_shape", 1))
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics(
        "layernorm", (imp.tensor("input"), *parts), {"axes": axes, "eps": _number(imp, "eps", 1e-5)}
    )


def _rmsnorm(imp: TorchNode) -> Semantics:
    axes = len(imp.numbers("normalized_shape", 1))
    eps = _number(imp, "eps", float(np.finfo(np.float32).eps))
    return Semantics(
        "rmsnorm", (imp.tensor("input"), _optional(imp, "weight", "scale")), {"axes": axes, "eps": eps}
    )


def _groupnorm(imp: TorchNode) -> Semantics:
    groups = int(imp.args["num_groups" if "num_groups" in imp.args else "group"])
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics(
        "groupnorm", (imp.tensor("input"), *parts), {"groups": groups, "eps": _number(imp, "eps", 1e-5)}
    )


def _instancenorm(imp: TorchNode) -> Semantics | None:
    if imp.args.get("use_input_stats") is False:
        return None
    x = imp.tensor("input")
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics("groupnorm", (x, *parts), {"groups": x.shape[1], "eps": _number(imp, "eps", 1e-5)})


def _softmax(imp: TorchNode, logarithm: bool = False) -> Semantics:
    x = _x(imp)
    return Semantics(
        "softmax", (x, None), {"axis": int(imp.args["dim"]) % len(x.shape), "logarithm": logarithm}
    )


# Reductions, pooling, resizing


def _reduce(imp: TorchNode, name: str) -> Semantics | None:
    x = _x(imp)
    if isinstance(imp.args.get("other"), Node):
        return _binary(imp, {"max": "maximum", "min": "minimum"}[name])
    given = imp.args.get("dim")
    given = [given] if isinstance(given, int) else given
    axes = tuple(int(a) % len(x.shape) for a in given) if given else tuple(range(len(x.shape)))
    return Semantics("reduce", (x,), {"name": name, "axes": axes, "keepdims": bool(imp.args.get("keepdim"))})


def _adaptive(imp: TorchNode, kind: str, rank: int) -> Semantics | None:
    x, wanted = _x(imp), imp.numbers("output_size", 1)
    wanted = wanted * rank if len(wanted) == 1 else wanted
    sizes = x.shape[-rank:]
    if set(wanted) == {1}:
        axes = tuple(range(len(x.shape) - rank, len(x.shape)))
        name = "mean" if kind == "avgpool" else "max"
        return Semantics("reduce", (x,), {"name": name, "axes": axes, "keepdims": True})
    if len(x.shape) != rank + 2 or rank > 2 or any(n % w for n, w in zip(sizes, wanted, strict=True)):
        return None  # windows of unequal sizes
    kernel = tuple(n // w for n, w in zip(sizes, wanted, strict=True))
    attributes: dict[str, Any] = {
        "kernel": kernel,
        "stride": kernel,
        "padding": ((0, 0),) * rank,
        "dilation": (1,) * rank,
        "shape": wanted,
    }
    if kind == "avgpool":
        attributes |= {"count_padding": True, "divisor": None}
    return Semantics(kind, (x,), attributes)


def _resize(imp: TorchNode, mode: str, exact: bool = False) -> Semantics:
    factors = imp.args.get("scale_factors")
    if factors is None:
        factors = [imp.args.get(key) for key in ("scales", "scales_h", "scales_w") if key in imp.args]
        factors = None if None in factors else factors
    if mode == "nearest":
        rule, rounding = ("half_pixel", "round_prefer_ceil") if exact else ("asymmetric", "floor")
    else:
        rule, rounding = ("align_corners" if imp.args.get("align_corners") else "half_pixel"), ""
    scales = tuple(float(f) for f in factors) if factors else None
    attributes = {"mode": mode, "coordinates": rule, "rounding": rounding, "scales": scales}
    return Semantics("resize", (_x(imp),), attributes)


def _argmax(imp: TorchNode, smallest: bool) -> Semantics | None:
    x, axis = _x(imp), imp.args.get("dim")
    if axis is None:
        return None
    attributes = {"axis": int(axis) % len(x.shape), "keepdims": bool(imp.args.get("keepdim"))}
    return Semantics("argmax", (x,), {**attributes, "smallest": smallest, "last": False})


# Data movement


def _concat(imp: TorchNode, stacked: bool = False) -> Semantics:
    operands: list[Operand] = []
    shape = imp.shape()
    axis = int(imp.args.get("dim") or 0) % len(shape)
    for node in imp.args["tensors"]:
        x = operand_of(imp, node)
        if stacked:
            inserted = (*x.shape[:axis], 1, *x.shape[axis:])
            x = x.viewed(inserted, Reshape(inserted))
        operands.append(x)
    return Semantics("concat", tuple(operands), {"axis": axis})


def _pad(imp: TorchNode) -> Semantics | None:
    x = _x(imp)
    if imp.args.get("mode", "constant") != "constant":
        return None
    numbers = imp.numbers("pad", 0)
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for i in range(len(numbers) // 2):
        before[-1 - i], after[-1 - i] = numbers[2 * i], numbers[2 * i + 1]
    return Semantics(
        "pad", (x,), {"before": tuple(before), "after": tuple(after), "value": _number(imp, "value", 0.0)}
    )


def _embedding(imp: TorchNode) -> Semantics:
    table = imp.parameter(imp.args["weight"])
    return Semantics("embedding", (operand_of(imp, imp.args["indices"]), table))


RULES: dict[str, Rule] = {
    **{name: partial(_fixed, name=name) for name in PLAIN_FUNCTIONS},
    "relu6": partial(_fixed, name="clip", low=0.0, high=6.0),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "hardtanh": _clamp,
    "gelu": _gelu,
    "elu": partial(_unary, name="elu", alpha=("alpha", 1.0), scale=("scale", 1.0), rate=("input_scale", 1.0)),
    "selu": partial(_fixed, name="elu", alpha=1.6732632423543772, scale=1.0507009873554805),
    "leaky_relu": partial(_unary, name="leaky_relu", alpha=("negative_slope", 0.01)),
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "softplus": partial(_unary, name="softplus", beta=("beta", 1.0), threshold=("threshold", 20.0)),
    "hardswish": partial(_fixed, name="hard_swish"),
    "hardsigmoid": partial(_fixed, name="hard_sigmoid"),
    "threshold": partial(_unary, name="threshold", limit=("threshold", 0.0), value=("value", 0.0)),
    "hardshrink": partial(_unary, name="shrink", limit=("lambd", 0.5)),
    "softshrink": partial(_unary, name="shrink", limit=("lambd", 0.5), bias=("lambd", 0.5)),
    "celu": lambda imp: _fixed(
        imp, "elu", alpha=_number(imp, "alpha", 1.0), rate=1 / _number(imp, "alpha", 1.0)
    ),
    "add": partial(_binary, name="add"),
    "sub": partial(_binary, name="sub"),
    "rsub": partial(_binary, name="sub", swapped=True),
    "mul": partial(_binary, name="mul"),
    "div": partial(_binary, name="div"),
    "pow": partial(_binary, name="pow", second="exponent"),
    "remainder": partial(_binary, name="mod"),
    "fmod": partial(_binary, name="fmod"),
    "floor_divide": partial(_binary, name="floor_divide"),
    "maximum": partial(_binary, name="maximum"),
    "minimum": partial(_binary, name="minimum"),
    "eq": partial(_binary, name="equal"),
    "ne": partial(_binary, name="not_equal"),
    "gt": partial(_binary, name="greater"),
    "ge": partial(_binary, name="greater_equal"),
    "lt": partial(_binary, name="less"),
    "le": partial(_binary, name="less_equal"),
    "logical_and": partial(_binary, name="and"),
    "logical_or": partial(_binary, name="or"),
    "logical_xor": partial(_binary, name="xor"),
    "masked_fill": _where,
    "where": _choice,
    "batch_norm": _batchnorm,
    "_native_batch_norm_legit_no_training": _batchnorm,
    "layer_norm": _layernorm,
    "native_layer_norm": _layernorm,
    "rms_norm": _rmsnorm,
    "_fused_rms_norm": _rmsnorm,
    "group_norm": _groupnorm,
    "native_group_norm": _groupnorm,
    "instance_norm": _instancenorm,
    "softmax": _softmax,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "log_softmax": partial(_softmax, logarithm=True),
    "_log_softmax": partial(_softmax, logarithm=True),
    "mean": partial(_reduce, name="mean"),
    "sum": partial(_reduce, name="sum"),
    "amax": partial(_reduce, name="max"),
    "amin": partial(_reduce, name="min"),
    "max": partial(_reduce, name="max"),
    "min": partial(_reduce, name="min"),
    "adaptive_avg_pool1d": partial(_adaptive, kind="avgpool", rank=1),
    "adaptive_avg_pool2d": partial(_adaptive, kind="avgpool", rank=2),
    "_adaptive_avg_pool2d": partial(_adaptive, kind="avgpool", rank=2),
    "adaptive_avg_pool3d": partial(_adaptive, kind="avgpool", rank=3),
    "_adaptive_avg_pool3d": partial(_adaptive, kind="avgpool", rank=3),
    "adaptive_max_pool1d": partial(_adaptive, kind="maxpool", rank=1),
    "adaptive_max_pool2d": partial(_adaptive, kind="maxpool", rank=2),
    "upsample_nearest1d": partial(_resize, mode="nearest"),
    "upsample_nearest2d": partial(_resize, mode="nearest"),
    "_upsample_nearest_exact1d": partial(_resize, mode="nearest", exact=True),
    "_upsample_nearest_exact2d": partial(_resize, mode="nearest", exact=True),
    "upsample_linear1d": partial(_resize, mode="linear"),
    "upsample_bilinear2d": partial(_resize, mode="linear"),
    "argmax": partial(_argmax, smallest=False),
    "argmin": partial(_argmax, smallest=True),
    "cat": _concat,
    "concat": _concat,
    "stack": partial(_concat, stacked=True),
    "pad": _pad,
    "constant_pad_nd": _pad,
    "embedding": _embedding,
}
