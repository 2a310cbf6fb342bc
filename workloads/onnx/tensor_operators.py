"""ONNX operators that are tensor problems, and pooling: what each becomes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from baco.workloads.builder import causal_mask
from baco.workloads.einsum import contraction
from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.onnx.semantics import operand, parameter
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.tensor_builder import Trained
from baco.workloads.views import Expand, Reshape, Transpose, Unknown

# Convolutions


def _pads(
    imp: OnnxNode,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Explicit padding, all leading ones first, after `auto_pad`."""
    rank = len(kernel)
    mode = imp.text("auto_pad", "NOTSET")
    pads = imp.integers("pads", (0,) * (2 * rank)) or ()  # they count with NOTSET only
    if mode == "VALID":
        return (0,) * (2 * rank)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        return tuple(small + large) if mode == "SAME_UPPER" else tuple(large + small)
    if mode != "NOTSET":
        raise imp.error(f"auto_pad cannot be '{mode}'")
    if len(pads) != 2 * rank:
        raise imp.error(f"pads needs {2 * rank} numbers, not {len(pads)}")
    return pads


def _window(
    imp: OnnxNode, x: Tensor, kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(strides, pads, dilations), checked for their number."""
    rank = len(kernel)
    if len(x.shape) != rank + 2:
        raise imp.error(f"a window of {rank} dimensions on an input of {x.shape}")
    stride = imp.integers("strides", (1,) * rank) or ()
    dilation = imp.integers("dilations", (1,) * rank) or ()
    for what, numbers in (("strides", stride), ("dilations", dilation), ("the kernel", kernel)):
        if len(numbers) != rank or min(numbers) < 1:
            raise imp.error(f"{what} {numbers} must be {rank} positive numbers")
    return stride, _pads(imp, x.shape[2:], kernel, stride, dilation), dilation


def _weight_shape(imp: OnnxNode, index: int) -> tuple[int, ...]:
    shape = imp.shape(index)
    if len(shape) > 4:
        raise UnsupportedNodeError(f"{len(shape) - 2}-D convolution")
    if len(shape) < 3 or min(shape) < 1:
        raise imp.error(f"{shape} is no shape of convolution weights")
    declared = imp.integers("kernel_shape")
    if declared is not None and declared != shape[2:]:
        raise imp.error(f"kernel_shape {declared} against weights of {shape}")
    return shape


def _trained(imp: OnnxNode) -> Trained:
    """Parameters of a convolution; none where they are computed."""
    constant = imp.constant(1)
    if constant is None or constant.shape is None or (imp.has(2) and imp.constant(2) is None):
        return None, None
    fan_in = math.prod(constant.shape[1:])
    return parameter(imp, 1, fan_in=fan_in), parameter(imp, 2, "shift") if imp.has(2) else None


def conv(imp: OnnxNode) -> None:
    """Conv."""
    x, shape = imp.tensor(0), _weight_shape(imp, 1)
    groups = imp.integer("group", 1)
    stride, pads, dilation = _window(imp, x, shape[2:])
    if groups < 1 or x.shape[1] != shape[1] * groups:
        raise imp.error(f"weights of {shape} in {groups} groups do not fit {x.shape[1]} input channels")
    common: dict[str, Any] = {
        "dilation": dilation,
        "groups": groups,
        "name": imp.name,
        "rank": len(shape) - 2,
    }
    common |= {"shared": not imp.claim(1), "trained": _trained(imp)}
    has_bias = imp.has(2) and bool(imp.claim(2))
    imp.emit(imp.builder.conv2d(x, shape[0], shape[2:], stride, pads, bias=has_bias, **common))


def conv_transpose(imp: OnnxNode) -> None:
    """ConvTranspose."""
    x, shape = imp.tensor(0), _weight_shape(imp, 1)
    rank, groups = len(shape) - 2, imp.integer("group", 1)
    kernel = shape[2:]
    if len(x.shape) != rank + 2:
        raise imp.error(f"a window of {rank} dimensions on an input of {x.shape}")
    if x.shape[1] != shape[0]:
        raise imp.error(f"weights of {shape} do not fit {x.shape[1]} input channels")
    stride = imp.integers("strides", (1,) * rank) or ()
    dilation = imp.integers("dilations", (1,) * rank) or ()
    extra = imp.integers("output_padding", (0,) * rank) or ()
    mode, wanted = imp.text("auto_pad", "NOTSET"), imp.integers("output_shape")
    if any(len(numbers) != rank or min(numbers) < 0 for numbers in (stride, dilation, extra)):
        raise imp.error(f"strides, dilations and output_padding must be {rank} numbers")
    if wanted is not None or mode.startswith("SAME"):
        # The output is given, the padding follows (ONNX: ConvTranspose, attribute output_shape).
        imp.integers("pads")
        wanted = wanted or tuple(n * s for n, s in zip(x.shape[2:], stride, strict=True))
        if len(wanted) != rank:
            raise imp.error(f"output_shape {wanted} must be {rank} numbers")
        before, after = [], []
        for i in range(rank):
            total = (
                stride[i] * (x.shape[2 + i] - 1) + extra[i] + (kernel[i] - 1) * dilation[i] + 1 - wanted[i]
            )
            if total < 0:
                extra = (*extra[:i], extra[i] - total, *extra[i + 1 :])
                total = 0
            half = total // 2 if mode == "SAME_UPPER" else total - total // 2
            before.append(half)
            after.append(total - half)
        pads = (*before, *after)
    else:
        _, pads, _ = _window(imp, x, kernel)
    shared = not imp.claim(1)
    bias = imp.has(2) and bool(imp.claim(2))
    imp.emit(
        imp.builder.conv_transpose2d(
            x,
            shape[1] * groups,
            kernel,
            stride,
            pads,
            extra,
            dilation,
            groups,
            bias,
            imp.name,
            rank,
            shared,
            _trained(imp),
        )
    )


def _windows(imp: OnnxNode) -> dict[str, Any]:
    """What pooling reads of a node, as `GraphBuilder.pool` has it."""
    x = imp.tensor(0)
    kernel = imp.integers("kernel_shape")
    if not kernel:
        raise imp.error("kernel_shape is missing")
    stride, pads, dilation = _window(imp, x, kernel)
    ceil = imp.integer("ceil_mode", 0) == 1
    return {"x": x, "kernel": kernel, "stride": stride, "padding": pads, "dilation": dilation, "ceil": ceil}


def average_pool(imp: OnnxNode) -> None:
    """AveragePool."""
    windows = _windows(imp)
    counts = imp.integer("count_include_pad", 0) == 1
    imp.emit(
        imp.builder.pool("avgpool", **windows, name=imp.name, count_padding=counts, rounded_with=imp.units)
    )


def max_pool(imp: OnnxNode) -> None:
    """MaxPool, and where the maxima are."""
    windows = _windows(imp)
    imp.emit(imp.builder.pool("maxpool", **windows, name=imp.name))
    if len(imp.node.output) > 1 and imp.node.output[1]:
        by_columns = imp.integer("storage_order", 0) == 1
        name = imp.builder.unique(f"{imp.name}.positions")
        where = imp.builder.pool("maxpositions", **windows, name=name, column_major=by_columns)
        imp.emit(where, 1)


def norm_pool(imp: OnnxNode) -> None:
    """LpPool; `p` is a real number in version 1."""
    p = imp.number("p", 2.0) if imp.version < 2 else imp.integer("p", 2)
    if p != int(p) or p < 1:
        raise UnsupportedNodeError(f"p={p:g}")
    imp.emit(imp.builder.pool("lppool", **_windows(imp), name=imp.name, p=int(p)))


# Matrix products


def _operand(imp: OnnxNode, index: int) -> Tensor | Parameter:
    """An input of a product, constant or not."""
    if imp.constant(index) is None:
        return imp.tensor(index)
    shape = imp.shape(index)
    return replace(parameter(imp, index), fan_in=shape[-2] if len(shape) > 1 else max(1, math.prod(shape)))


def matmul(imp: OnnxNode) -> None:
    """MatMul."""
    a, b = _operand(imp, 0), _operand(imp, 1)
    imp.emit(imp.builder.matmul(a, b, imp.name, imp.claim(0) + imp.claim(1)))


def gemm(imp: OnnxNode) -> None:
    """Gemm: transposition and an added third operand."""
    a, b = _operand(imp, 0), _operand(imp, 1)
    for x in (a, b):
        if len(x.shape) != 2:
            raise imp.error(f"Gemm needs matrices, not {x.shape}")
    a = a.viewed(a.shape[::-1], Transpose((1, 0))) if imp.integer("transA", 0) else a
    b = b.viewed(b.shape[::-1], Transpose((1, 0))) if imp.integer("transB", 0) else b
    if isinstance(b, Parameter):
        b = replace(b, fan_in=b.shape[0])
    weights = imp.claim(0) + imp.claim(1) + imp.claim(2)
    beta = imp.number("beta", 1.0)
    bias = None
    third = imp.constant(2)
    if third is not None and third.shape is not None:
        bias = _times(parameter(imp, 2, "shift"), beta)
    y = imp.builder.matmul(a, b, imp.name, weights, imp.number("alpha", 1.0), bias)
    if imp.has(2) and imp.constant(2) is None:
        # An activation as the third operand is added like a residual.
        added = imp.tensor(2)
        semantics = Semantics("binary", (y, added), {"name": "add"}) if beta == 1 else None
        name = imp.builder.unique(f"{imp.name}.add")
        y = imp.builder.op("add", (y, added), y.shape, name=name, semantics=semantics)
    imp.emit(y)


def _times(x: Parameter, factor: float) -> Parameter:
    """A parameter multiplied by a number."""
    load = x.load
    if factor == 1 or load is None:
        return x

    def multiplied() -> np.ndarray | None:
        value = load()
        return None if value is None else value * np.float32(factor)

    return replace(x, name=f"{x.name}*{factor:g}", load=multiplied)


def einsum(imp: OnnxNode) -> None:
    """Einsum of two operands."""
    if len(imp.node.input) != 2:
        raise UnsupportedNodeError("einsum of other than two operands")
    plan = contraction(imp.text("equation", ""), imp.shape(0), imp.shape(1))
    if isinstance(plan, str):
        raise UnsupportedNodeError(plan)
    left = operand(imp, 0).viewed(plan.left, *plan.left_steps)
    right = operand(imp, 1).viewed(plan.right, *plan.right_steps)
    weights = imp.claim(0) + imp.claim(1)
    y = imp.builder.matmul(left, right, imp.name, weights)
    imp.emit(y.viewed(plan.output, *plan.output_steps))


def attention(imp: OnnxNode) -> None:
    """Attention of the standard (opset 23): two batched GEMMs and a softmax."""
    if imp.node.domain == "com.microsoft":
        raise UnsupportedNodeError("")
    b = imp.builder
    query_heads, key_heads = imp.integer("q_num_heads", 0), imp.integer("kv_num_heads", 0)
    parts = []
    for index, heads in ((0, query_heads), (1, key_heads), (2, key_heads)):
        x = imp.tensor(index)
        if len(x.shape) == 3:
            if heads < 1 or x.shape[2] % heads:
                raise imp.error(f"{heads} heads do not divide {x.shape}")
            x = b.reshape(x, (x.shape[0], x.shape[1], heads, x.shape[2] // heads))
            x = b.transpose(x, (0, 2, 1, 3))
        if len(x.shape) != 4:
            raise imp.error(f"attention needs 3 or 4 dimensions, not {x.shape}")
        parts.append(x)
    q, k, v = parts
    if imp.has(4):
        if len(imp.shape(4)) != 4:
            raise imp.error(f"past keys need 4 dimensions, not {imp.shape(4)}")
        k, v = (
            _append(imp, x, index, f"{imp.name}.{part}")
            for x, index, part in ((k, 4, "keys"), (v, 5, "values"))
        )
        imp.emit(k, 1)
        imp.emit(v, 2)
    heads = q.shape[1]
    k, v = (repeat_heads(x, heads) for x in (k, v))
    scale = imp.number("scale", 1 / math.sqrt(q.shape[-1]))
    scores = b.matmul(q, b.transpose(k, (0, 1, 3, 2)), f"{imp.name}.scores", alpha=scale)
    if imp.has(3) or imp.number("softcap", 0.0):
        # Masks that are inputs, and capped scores, can be explored only.
        scores = b.view(scores, scores.shape)
    # Query i sees the keys up to its own position, which is behind the past ones.
    past = imp.shape(4)[2] if imp.has(4) else 0
    causal = imp.integer("is_causal", 0) == 1
    mask = causal_mask(scores.shape[-2], scores.shape[-1], past) if causal else None
    weights = b.softmax(scores, f"{imp.name}.softmax", mask)
    y = b.matmul(weights, v, f"{imp.name}.context")
    if len(imp.tensor(0).shape) == 3:
        y = b.reshape(b.transpose(y, (0, 2, 1, 3)), (y.shape[0], y.shape[2], heads * y.shape[3]))
    imp.emit(y)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values (..., heads, seq, size) for more query heads: each is read by neighbouring ones."""
    *lead, own, seq, size = x.shape
    if own == heads:
        return x
    if heads % own:
        return x.viewed((*lead, heads, seq, size), Unknown(f"{own} heads for {heads}"))
    wide, full = (*lead, own, heads // own, seq, size), (*lead, heads, seq, size)
    return x.viewed(full, Reshape((*lead, own, 1, seq, size)), Expand(wide), Reshape(full))


def _append(imp: OnnxNode, x: Tensor, past: int, name: str) -> Tensor:
    """Keys or values behind those of earlier positions (input `past`)."""
    shape = (*x.shape[:2], x.shape[2] + imp.shape(4)[2], x.shape[3])
    semantics = None
    if imp.has(past) and imp.constant(past) is None and imp.tensor(past).shape[2:] == imp.shape(4)[2:]:
        semantics = Semantics("concat", (imp.tensor(past), x), {"axis": 2})
    return imp.builder.op("concat", (x,), shape, name=name, semantics=semantics)
