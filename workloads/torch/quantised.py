"""`quantized_decomposed`, as PyTorch's PT2E quantisation writes it: tensors stay real numbers here, rounded to those that the model's
whole numbers stand for.

An encoding (`baco.workloads.encoding`) goes with them, by which a program holds these whole numbers. Scales that are computed while
the model runs (`choose_qparams`) are written out by their definition, and products of such numbers as products of whole ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from baco.workloads.encoding import Encoding, check_scales
from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import Operand, Parameter, Semantics, WholeNumbers, constant, rounded
from baco.workloads.torch.node import ScaledNumbers, TorchNode
from baco.workloads.views import Reshape, Step, Transpose

_LIMITS = ("quant_min", "quant_max")
#: Views of constants that keep their elements in their order.
_RESHAPING = frozenset(
    (
        *("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze"),
        *("clone", "contiguous", "alias", "detach"),
    )
)
#: Operators whose first operand may be whole numbers with a scale that is computed: its name in their schema.
_PRODUCTS = {"linear": "input", "addmm": "mat1", "mm": "self", "matmul": "self"}


def _numbers(imp: TorchNode, name: str) -> np.ndarray | None:
    """A scale or zero point, or several; None where they are computed, or have no values."""
    value = imp.args.get(name)
    if isinstance(value, Node):
        fixed = imp.constants.get(value)
        value = None if fixed is None or fixed.load is None else fixed.load()
    if value is None or (isinstance(value, torch.Tensor) and value.is_meta):
        return None
    return np.asarray(value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value)


def _limits(imp: TorchNode) -> tuple[int, int]:
    low, high = (_numbers(imp, name) for name in _LIMITS)
    if low is None or high is None:
        raise UnsupportedNodeError("limits of whole numbers that are computed")
    least, most = int(low), int(high)
    kind = torch.iinfo(imp.args["dtype"])
    if least >= most or least < kind.min or most > kind.max:
        raise imp.error(f"its limits {least} and {most} are none of {kind.dtype}")
    return least, most


def _pair(imp: TorchNode, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int] | None:
    """(scale, zero point, axis) of the node, checked; None where they are computed, or have no values.

    Raises InputError, at the node, for what `check_scales` refuses.
    """
    several = "scales" in imp.args
    scale, zero = (_numbers(imp, name + "s" * several) for name in ("scale", "zero_point"))
    axis, limits = int(imp.args.get("axis", 0)), _limits(imp)
    if scale is None or zero is None:
        return None
    scale, zero = scale.astype(np.float32), zero.astype(np.int64)
    kind = torch.iinfo(imp.args["dtype"])
    try:
        axis = check_scales(scale, zero, (kind.min, kind.max), f"{kind.dtype}", axis, shape)
    except ValueError as error:
        raise imp.error(str(error)) from None
    if not (limits[0] <= zero.min() and zero.max() <= limits[1]) and not several:
        imp.refuse(
            f"a zero point {zero.min()} beyond the limits {limits[0]} and {limits[1]} is not supported"
        )
    return scale, zero, axis


def _encoding(imp: TorchNode, shape: tuple[int, ...]) -> Encoding | None:
    """That of an activation; None, refused by name, where it is not followed."""
    pair = _pair(imp, shape)
    if pair is None:
        imp.refuse("a scale without values is not supported")
        return None
    scale, zero, _ = pair
    if scale.size != 1:
        imp.refuse(f"{scale.size} scales of one activation are not supported")
        return None
    return Encoding(float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), *_limits(imp))


def _computed(imp: TorchNode) -> bool:
    """Whether the scale of the node is computed while the model runs."""
    return isinstance(imp.args.get("scale"), Node) and imp.args["scale"] in imp.values


def quantize(imp: TorchNode) -> None:
    """Rounding to whole numbers."""
    x = imp.tensor("input")
    if _computed(imp):
        _quantize_computed(imp, x)
        return
    encoding = _encoding(imp, x.shape)
    semantics = None
    if encoding is not None:
        semantics = rounded(x, encoding)
        imp.encodings[imp.node] = encoding
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))


def dequantize(imp: TorchNode) -> None:
    """Real numbers of what a quantisation of the same scale and zero point made, which they are already, or of whole numbers that
    are an input of the model."""
    x = imp.tensor("input")
    imp.takes_whole = True
    imp.args.get("out_dtype")
    source = imp.args["input"]
    if _computed(imp):
        _dequantize_computed(imp, source)
        return
    encoding, known = _encoding(imp, x.shape), imp.encodings.get(source)
    if encoding is None or known == encoding:
        imp.emit(x)
        return
    if source in imp.given and encoding.fits_bytes:
        semantics = Semantics("decode", (x,), {"encoding": encoding})
        imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))
        return
    own = f"scale {encoding.scale:g} and zero point {encoding.zero}"
    if known is None:
        imp.refuse(f"{own} of whole numbers that no quantisation made are not supported")
    else:
        imp.refuse(f"{own} differ from those of the quantisation before it, which is not supported")
    imp.emit(x)


# Constants


def keep_whole_numbers(imp: TorchNode) -> None:
    """After a node of constants was folded: which whole numbers its real ones stand for. Raises as `_pair` does."""
    target, sources = imp.node.target, imp.node.all_input_nodes
    if not isinstance(target, torch._ops.OpOverload) or not sources:
        return
    name, found = target._schema.name.split("::")[-1], imp.constants[imp.node]
    first = imp.constants[sources[0]]
    if name in ("dequantize_per_tensor", "dequantize_per_channel"):
        pair = _pair(imp, first.shape)
        if pair is None:
            return
        scale, zero, axis = pair
        elements = imp.parameter(sources[0])
        numbers = tuple(scale.reshape(-1).tolist()), tuple(zero.reshape(-1).tolist())
        whole = WholeNumbers(elements, *numbers, axis)
        imp.constants[imp.node] = replace(found, roots=first.roots, whole=whole)
        return
    step = _step(imp, name, found.shape) if first.whole is not None else None
    if step is not None and first.whole is not None:
        whole = replace(first.whole, steps=(*first.whole.steps, step))
        imp.constants[imp.node] = replace(found, whole=whole)


def _step(imp: TorchNode, name: str, shape: tuple[int, ...]) -> Step | None:
    """What a view of a constant does to it."""
    rank = len(shape)
    if name in _RESHAPING:
        return Reshape(shape)
    if name == "permute":
        return Transpose(tuple(int(axis) % rank for axis in imp.args["dims"]))
    if name in ("t", "transpose", "numpy_T") and rank > 1:
        axes = list(range(rank))
        one, other = (int(imp.args.get(f"dim{n}", n)) for n in (0, 1))
        axes[one], axes[other] = axes[other], axes[one]
        return Transpose(tuple(axes))
    return None


# Scales that are computed


class _Written:
    """Operators that a node stands for, named after it."""

    def __init__(self, imp: TorchNode) -> None:
        self._imp = imp

    def _op(self, kind: str, part: str, shape: tuple[int, ...], semantics: Semantics) -> Tensor:
        name = self._imp.builder.unique(f"{self._imp.name}.{part}")
        inputs = [x for x in semantics.operands if isinstance(x, Tensor)]
        return self._imp.builder.op(kind, inputs, shape, name=name, semantics=semantics)

    def unary(self, name: str, x: Tensor, part: str, **numbers: float) -> Tensor:
        """A function of every element."""
        return self._op(
            "elementwise", part, x.shape, Semantics("unary", (x,), {"name": name, "numbers": numbers})
        )

    def binary(self, name: str, a: Operand, b: Operand, part: str) -> Tensor:
        """A function of two tensors, parameters, or one number for all."""
        assert a is not None
        assert b is not None
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self._op("elementwise", part, shape, Semantics("binary", (a, b), {"name": name}))

    def extreme(self, name: str, x: Tensor) -> Tensor:
        """The largest or smallest element of a tensor."""
        attributes = {"name": name, "axes": tuple(range(len(x.shape))), "keepdims": False}
        y = self._op("reduce", name, (), Semantics("reduce", (x,), attributes))
        return y.viewed((1,), Reshape((1,)))

    def bytes(self, x: Tensor) -> Tensor:
        """Whole numbers, which they are already, as int8."""
        return self._op("requantize", "bytes", x.shape, rounded(x, Encoding(1.0, 0, -128, 127)))


def _number(value: float) -> Parameter:
    return constant(f"{value:g}", np.array(value, np.float32))


def choose(imp: TorchNode) -> None:
    """`choose_qparams`, by its definition: a range that contains 0, and a scale and zero point for it."""
    x, write = imp.tensor("input"), _Written(imp)
    (least, most), smallest = _limits(imp), float(imp.args["eps"])
    unsigned = imp.args["dtype"] is torch.uint8
    low = write.binary("minimum", write.extreme("min", x), _number(0), "low")
    high = write.binary("maximum", write.extreme("max", x), _number(0), "high")
    if "symmetric" in str(imp.node.target):
        reach = write.binary("maximum", write.unary("neg", low, "reach"), high, "range")
        scale = write.binary("div", reach, _number((most - least) / 2), "step")
        scale = write.binary("maximum", scale, _number(smallest), "scale")
        zero = write.binary(
            "add", write.binary("mul", low, _number(0), "none"), _number(128 * unsigned), "zero"
        )
    else:
        scale = write.binary("div", write.binary("sub", high, low, "range"), _number(most - least), "step")
        scale = write.binary("maximum", scale, _number(smallest), "scale")
        steps = write.unary("round", write.binary("div", low, scale, "below"), "steps")
        zero = write.binary("sub", _number(least), steps, "zero")
        zero = write.unary("clip", zero, "limited", low=least, high=most)
    imp.emit(scale)
    imp.parts[imp.node] = [scale, zero]


def _quantize_computed(imp: TorchNode, x: Tensor) -> None:
    scale, zero = imp.tensor("scale"), imp.tensor("zero_point")
    low, high = _limits(imp)
    write = _Written(imp)
    by = write.binary("div", _number(1), scale, "inverse")
    steps = write.unary("round", write.binary("mul", x, by, "steps"), "rounded")
    whole = write.unary("clip", write.binary("add", steps, zero, "whole"), "limited", low=low, high=high)
    imp.scaled[imp.node] = ScaledNumbers(whole, scale, zero, (low, high))
    imp.emit(whole)


def _dequantize_computed(imp: TorchNode, source: Any) -> None:
    """What products alone read stays whole numbers, which they read."""
    scale, zero, numbers = imp.tensor("scale"), imp.tensor("zero_point"), imp.scaled.get(source)
    _limits(imp)
    if numbers is None or (numbers.scale, numbers.zero) != (scale, zero):
        imp.refuse("a computed scale of whole numbers that no quantisation made with it is not supported")
        imp.emit(imp.tensor("input"))
        return
    products = all(_reads_first(user, imp.node) for user in imp.node.users)
    if products and numbers.limits[1] - numbers.limits[0] <= 255:
        imp.scaled[imp.node] = numbers
        imp.emit(numbers.whole)
        return
    write = _Written(imp)
    imp.emit(write.binary("mul", write.binary("sub", numbers.whole, zero, "centred"), scale, "real"))


def _reads_first(user: Node, node: Node) -> bool:
    """Whether a node is a product that reads another as its first operand alone."""
    target = user.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    wanted = _PRODUCTS.get(target._schema.name.split("::")[-1])
    names = [argument.name for argument in target._schema.arguments]
    given = dict(zip(names, user.args, strict=False)) | dict(user.kwargs)
    return wanted is not None and [name for name, value in given.items() if value is node] == [wanted]


def product(
    imp: TorchNode, numbers: ScaledNumbers, weight: Operand, weights: int, bias: Parameter | None
) -> None:
    """A product of whole numbers with trained weights: sums of them, what the zero point adds to these, times the scale, and a bias.

    Args:
        weight: [..., inputs, outputs].
        weights: how many are counted for the operator.
    """
    if not isinstance(weight, Parameter):
        raise UnsupportedNodeError("whole numbers of a computed scale times an activation")
    imp.takes_whole, write, trained = True, _Written(imp), weight
    middle = 128 if numbers.limits[1] > 127 else 0
    whole = write.binary("sub", numbers.whole, _number(middle), "shifted") if middle else numbers.whole
    sums = imp.builder.matmul(write.bytes(whole), weight, imp.name, weights)

    def totals() -> np.ndarray | None:
        value = trained.value()
        return None if value is None else np.asarray(value.sum(-2, dtype=np.float32))

    shape = (*weight.shape[:-2], weight.shape[-1])
    columns = Parameter(f"{imp.name}.sums", shape, totals, fan_in=weight.shape[-2])
    apart = write.binary("sub", _number(middle), numbers.zero, "offset")
    added = write.binary("add", sums, write.binary("mul", columns, apart, "offsets"), "sum")
    y = write.binary("mul", added, numbers.scale, "scaled")
    imp.emit(y if bias is None else write.binary("add", y, bias, "biased"))
