"""What PyTorch operators compute, as far as networks can be run: `baco.workloads.semantics` from the node at hand.

An operator without a rule of these, or with arguments that are not covered, can be explored but not run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import Fill, Operand, Parameter, Semantics, constant
from baco.workloads.torch.node import TorchNode
from baco.workloads.views import Reshape


def meaning(imp: TorchNode) -> Semantics | None:
    """The semantics of the node, None if they are not known."""
    if imp.rule is None:
        return None
    imp.args.read.clear()  # what the handler read was for costs
    try:
        return imp.rule(imp)
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


def fixed(imp: TorchNode, name: str, **numbers: float) -> Semantics:
    return Semantics("unary", (_x(imp),), {"name": name, "numbers": numbers})


def unary(imp: TorchNode, name: str, **arguments: tuple[str, float]) -> Semantics:
    """`arguments`: our number's name -> the argument's name and default."""
    return fixed(imp, name, **{ours: _number(imp, *theirs) for ours, theirs in arguments.items()})


def celu(imp: TorchNode) -> Semantics:
    alpha = _number(imp, "alpha", 1.0)
    return fixed(imp, "elu", alpha=alpha, rate=1 / alpha)


def gelu(imp: TorchNode) -> Semantics:
    return fixed(imp, "gelu_tanh" if imp.args.get("approximate") == "tanh" else "gelu")


def clamp(imp: TorchNode) -> Semantics:
    low, high = ("min_val", "max_val") if "min_val" in imp.args else ("min", "max")
    return unary(imp, "clip", low=(low, -math.inf), high=(high, math.inf))


def prelu(imp: TorchNode) -> Semantics:
    x, weight = _x(imp), imp.parameter(imp.args["weight"], "scale")
    if math.prod(weight.shape) > 1 and len(x.shape) > 1:
        shape = (math.prod(weight.shape), *(1 for _ in x.shape[2:]))
        weight = weight.viewed(shape, Reshape(shape))
    return Semantics("binary", (x, weight), {"name": "prelu"})


def binary(imp: TorchNode, name: str, swapped: bool = False, second: str = "other") -> Semantics | None:
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


def where(imp: TorchNode) -> Semantics | None:
    """`masked_fill` with a constant mask: what a softmax behind it leaves out; with a computed one a choice."""
    mask = imp.args.get("mask")
    if not isinstance(mask, Node):
        return None
    value = operand_of(imp, imp.args.get("value"))
    if mask in imp.values:
        return Semantics("where", (imp.values[mask], value, operand_of(imp, imp.args["self"])))
    return Semantics("masked", (_x(imp), imp.parameter(mask), value))


def choice(imp: TorchNode) -> Semantics:
    """`where` of a condition and two tensors or numbers."""
    parts = (operand_of(imp, imp.args.get(name)) for name in ("condition", "self", "other"))
    return Semantics("where", tuple(parts))


# Normalisation and softmax


def batchnorm(imp: TorchNode) -> Semantics | None:
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


def layernorm(imp: TorchNode) -> Semantics:
    axes = len(imp.numbers("normalized_shape", 1))
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics(
        "layernorm", (imp.tensor("input"), *parts), {"axes": axes, "eps": _number(imp, "eps", 1e-5)}
    )


def rmsnorm(imp: TorchNode) -> Semantics:
    axes = len(imp.numbers("normalized_shape", 1))
    eps = _number(imp, "eps", float(np.finfo(np.float32).eps))
    return Semantics(
        "rmsnorm", (imp.tensor("input"), _optional(imp, "weight", "scale")), {"axes": axes, "eps": eps}
    )


def groupnorm(imp: TorchNode) -> Semantics:
    groups = int(imp.args["num_groups" if "num_groups" in imp.args else "group"])
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics(
        "groupnorm", (imp.tensor("input"), *parts), {"groups": groups, "eps": _number(imp, "eps", 1e-5)}
    )


def instancenorm(imp: TorchNode) -> Semantics | None:
    if imp.args.get("use_input_stats") is False:
        return None
    x = imp.tensor("input")
    parts = _optional(imp, "weight", "scale"), _optional(imp, "bias", "shift")
    return Semantics("groupnorm", (x, *parts), {"groups": x.shape[1], "eps": _number(imp, "eps", 1e-5)})


def softmax(imp: TorchNode, logarithm: bool = False) -> Semantics:
    x = _x(imp)
    return Semantics(
        "softmax", (x, None), {"axis": int(imp.args["dim"]) % len(x.shape), "logarithm": logarithm}
    )


# Reductions, pooling, resizing


def reduce(imp: TorchNode, name: str) -> Semantics | None:
    x = _x(imp)
    if isinstance(imp.args.get("other"), Node):
        return binary(imp, {"max": "maximum", "min": "minimum"}[name])
    given = imp.args.get("dim")
    given = [given] if isinstance(given, int) else given
    axes = tuple(int(a) % len(x.shape) for a in given) if given else tuple(range(len(x.shape)))
    return Semantics("reduce", (x,), {"name": name, "axes": axes, "keepdims": bool(imp.args.get("keepdim"))})


def adaptive(imp: TorchNode, kind: str, rank: int) -> Semantics | None:
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


def resize(imp: TorchNode, mode: str, exact: bool = False) -> Semantics:
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


def argmax(imp: TorchNode, smallest: bool) -> Semantics | None:
    x, axis = _x(imp), imp.args.get("dim")
    if axis is None:
        return None
    attributes = {"axis": int(axis) % len(x.shape), "keepdims": bool(imp.args.get("keepdim"))}
    return Semantics("argmax", (x,), {**attributes, "smallest": smallest, "last": False})


# Data movement


def concat(imp: TorchNode, stacked: bool = False) -> Semantics:
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


def pad(imp: TorchNode) -> Semantics | None:
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


def embedding(imp: TorchNode) -> Semantics:
    table = imp.parameter(imp.args["weight"])
    return Semantics("embedding", (operand_of(imp, imp.args["indices"]), table))
