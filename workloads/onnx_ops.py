"""What each ONNX operator becomes: tensor problems, fused or host operators, views, or nothing."""

from __future__ import annotations

import math
from functools import partial

from workloads.einsum import contraction
from workloads.network import Tensor
from workloads.onnx_node import Handler, OnnxNode, UnsupportedNodeError

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
    pads = imp.integers("pads", (0,) * (2 * rank)) or ()
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


def _conv(imp: OnnxNode, weight: int, bias: int | None) -> None:
    x, shape = imp.tensor(0), _weight_shape(imp, weight)
    groups = imp.integer("group", 1)
    stride, pads, dilation = _window(imp, x, shape[2:])
    if groups < 1 or x.shape[1] != shape[1] * groups:
        raise imp.error(f"weights of {shape} in {groups} groups do not fit {x.shape[1]} input channels")
    b = imp.builder
    conv = b.conv2d if len(shape) == 4 else b.conv1d
    shared = not imp.claim(weight)
    has_bias = bias is not None and imp.has(bias) and bool(imp.claim(bias))
    imp.emit(conv(x, shape[0], shape[2:], stride, pads, dilation, groups, has_bias, imp.name, shared))


def _conv_transpose(imp: OnnxNode) -> None:
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
            x, shape[1] * groups, kernel, stride, pads, extra, dilation, groups, bias, imp.name, rank, shared
        )
    )


def _pool(imp: OnnxNode, kind: str) -> None:
    x = imp.tensor(0)
    kernel = imp.integers("kernel_shape")
    if not kernel:
        raise imp.error("kernel_shape is missing")
    stride, pads, dilation = _window(imp, x, kernel)
    ceil = imp.integer("ceil_mode", 0) == 1
    imp.emit(imp.builder.pool(kind, x, kernel, stride, pads, dilation, ceil, imp.name))


# Matrix products


def _operand(imp: OnnxNode, index: int) -> Tensor | tuple[int, ...]:
    return imp.tensor(index) if imp.constant(index) is None else imp.shape(index)


def _matmul(imp: OnnxNode, left: int = 0, right: int = 1) -> None:
    a, b = _operand(imp, left), _operand(imp, right)
    weights = imp.claim(left) + imp.claim(right)
    imp.emit(imp.builder.matmul(a, b, imp.name, weights))


def _swap(x: Tensor | tuple[int, ...]) -> Tensor | tuple[int, ...]:
    if isinstance(x, Tensor):
        return Tensor(x.name, x.shape[::-1])
    return x[::-1]


def _gemm(imp: OnnxNode) -> None:
    a, b = _operand(imp, 0), _operand(imp, 1)
    for x in (a, b):
        shape = x.shape if isinstance(x, Tensor) else x
        if len(shape) != 2:
            raise imp.error(f"Gemm needs matrices, not {shape}")
    a = _swap(a) if imp.integer("transA", 0) else a
    b = _swap(b) if imp.integer("transB", 0) else b
    weights = imp.claim(0) + imp.claim(1) + imp.claim(2)
    y = imp.builder.matmul(a, b, imp.name, weights)
    if imp.has(2) and imp.constant(2) is None:
        # An activation as the third operand is added like a residual.
        y = imp.builder.op("add", (y, imp.tensor(2)), y.shape, name=imp.builder.unique(f"{imp.name}.add"))
    imp.emit(y)


def _einsum(imp: OnnxNode) -> None:
    if len(imp.node.input) != 2:
        raise UnsupportedNodeError("einsum of other than two operands")
    plan = contraction(imp.text("equation", ""), imp.shape(0), imp.shape(1))
    if isinstance(plan, str):
        raise UnsupportedNodeError(plan)
    left, right = (
        Tensor(imp.tensor(i).name, shape) if imp.constant(i) is None else shape
        for i, shape in enumerate((plan.left, plan.right))
    )
    weights = imp.claim(0) + imp.claim(1)
    y = imp.builder.matmul(left, right, imp.name, weights)
    imp.emit(Tensor(y.name, plan.output))


def _attention(imp: OnnxNode) -> None:
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
            x = b.view(x, (x.shape[0], heads, x.shape[1], x.shape[2] // heads))
        if len(x.shape) != 4:
            raise imp.error(f"attention needs 3 or 4 dimensions, not {x.shape}")
        parts.append(x)
    q, k, v = parts
    if imp.has(4):
        if len(imp.shape(4)) != 4:
            raise imp.error(f"past keys need 4 dimensions, not {imp.shape(4)}")
        past = imp.shape(4)[2]
        k, v = (
            b.op("concat", (x,), (*x.shape[:2], x.shape[2] + past, x.shape[3]), name=f"{imp.name}.{part}")
            for x, part in ((k, "keys"), (v, "values"))
        )
        imp.emit(k, 1)
        imp.emit(v, 2)
    heads = q.shape[1]
    k, v = (b.view(x, (x.shape[0], heads, *x.shape[2:])) for x in (k, v))
    scores = b.matmul(q, b.transpose(k, (0, 1, 3, 2)), f"{imp.name}.scores")
    y = b.matmul(b.softmax(scores, f"{imp.name}.softmax"), v, f"{imp.name}.context")
    three = len(imp.tensor(0).shape) == 3
    imp.emit(b.view(y, (y.shape[0], y.shape[2], heads * y.shape[3])) if three else y)


# Elementwise


def _binary(imp: OnnxNode, kind: str) -> None:
    """Add, Sub, Mul, Div: with a constant a bias or a scale where these can be fused."""
    b = imp.builder
    activations = imp.tensors()
    additive = kind in ("add", "sub")
    shapes = [imp.shape(0), imp.shape(1)]
    small = next((i for i in (0, 1) if math.prod(shapes[i]) == 1), None)
    if len(activations) == 2 and small is None:
        imp.emit(b.op(kind, activations, name=imp.name))
        return
    weights = sum(imp.claim(i) for i in (0, 1) if math.prod(shapes[i]) > 1)
    x = activations[0] if len(activations) == 1 or small == 1 else activations[1]
    # A constant operand must not enlarge the result, or there is nothing to fuse it into.
    shape = imp.model.shapes.get(imp.node.output[0], x.shape)
    if b.rides(x) and shape == x.shape:
        imp.emit(b.op("bias" if additive else "scale", activations, shape, weights, imp.name))
    else:
        imp.emit(b.op("add" if kind == "add" else "elementwise", activations, shape, weights, imp.name))


def _clip(imp: OnnxNode) -> None:
    low = imp.value(1) if imp.has(1) else None
    least = float(low.reshape(-1)[0]) if low is not None and low.size else imp.number("min", -math.inf)
    imp.emit(imp.builder.op("relu6" if least == 0 else "elementwise", (imp.tensor(0),), name=imp.name))


def _unary(imp: OnnxNode, kind: str) -> None:
    x = imp.tensor(0)
    weights = sum(imp.claim(i) for i in range(1, len(imp.node.input)))
    imp.emit(imp.builder.op(kind, (x,), x.shape, weights, imp.name))


def _norm(imp: OnnxNode, kind: str) -> None:
    """Scale and shift are trained; running statistics (inputs 3 and 4) are not counted."""
    x = imp.tensor(0)
    weights = sum(imp.claim(i) for i in (1, 2) if imp.has(i))
    imp.emit(imp.builder.op(kind, (x,), x.shape, weights, imp.name))


def _skip_norm(imp: OnnxNode, kind: str) -> None:
    """onnxruntime's fused residual addition and normalisation."""
    b = imp.builder
    x = b.add(imp.tensor(0), imp.tensor(1), b.unique(f"{imp.name}.add"))
    weights = sum(imp.claim(i) for i in range(2, len(imp.node.input)) if imp.has(i))
    imp.emit(b.op(kind, (x,), x.shape, weights, imp.name))
    if len(imp.node.output) > 3:
        imp.emit(x, 3)


def _shaped(imp: OnnxNode, kind: str) -> None:
    """A host operator whose output shape is as inferred."""
    weights = sum(imp.claim(i) for i in range(len(imp.node.input)) if imp.value(i) is None)
    imp.emit(imp.builder.op(kind, imp.tensors(), imp.output_shape(), weights, imp.name))


def _several(imp: OnnxNode, kind: str) -> None:
    """The same with several outputs, all of one operator."""
    x = imp.tensors()
    first = imp.builder.op(kind, x, imp.output_shape(), name=imp.name)
    for index in range(len(imp.node.output)):
        if imp.node.output[index]:
            imp.emit(Tensor(first.name, imp.output_shape(index)), index)


def _quantize(imp: OnnxNode) -> None:
    x = imp.tensor(0)
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name))


def _dynamic_quantize(imp: OnnxNode) -> None:
    x = imp.tensor(0)
    y = imp.builder.op("elementwise", (x,), x.shape, name=imp.name)
    imp.emit(y, 0)
    imp.emit(Tensor(y.name, (1,)), 1)
    imp.emit(Tensor(y.name, (1,)), 2)


def _quantized_binary(imp: OnnxNode, kind: str) -> None:
    """onnxruntime's QLinearAdd and QLinearMul: operands at 0 and 3."""
    if imp.constant(0) is not None or imp.constant(3) is not None:
        index = 0 if imp.constant(0) is None else 3
        x = imp.tensor(index)
        weights = imp.claim(3 - index)
        imp.emit(imp.builder.op("bias" if kind == "add" else "scale", (x,), x.shape, weights, imp.name))
    else:
        imp.emit(imp.builder.op(kind, (imp.tensor(0), imp.tensor(3)), name=imp.name))


# Shapes and addresses


def _view(imp: OnnxNode) -> None:
    for index in range(len(imp.node.output)):
        if imp.node.output[index]:
            imp.emit(imp.builder.view(imp.tensor(0), imp.output_shape(index)), index)


def _same(imp: OnnxNode) -> None:
    imp.emit(imp.tensor(0))


def _shape_of(imp: OnnxNode) -> None:
    imp.emit_constant()


def _concat(imp: OnnxNode) -> None:
    weights = sum(imp.claim(i) for i in range(len(imp.node.input)))
    imp.emit(imp.builder.op("concat", imp.tensors(), imp.output_shape(), weights, imp.name))


def _quantized_concat(imp: OnnxNode) -> None:
    parts = [imp.tensor(i) for i in range(2, len(imp.node.input), 3) if imp.constant(i) is None]
    imp.emit(imp.builder.concat(parts, imp.integer("axis", 1), name=imp.name))


def _gather(imp: OnnxNode) -> None:
    if imp.constant(0) is not None:
        weights = imp.claim(0)
        imp.emit(imp.builder.op("embedding", imp.tensors(), imp.output_shape(), weights, imp.name))
    elif imp.constant(1) is not None:
        _view(imp)
    else:
        _shaped(imp, "gather")


HANDLERS: dict[str, Handler] = {
    "Conv": partial(_conv, weight=1, bias=2),
    "FusedConv": partial(_conv, weight=1, bias=2),
    "ConvInteger": partial(_conv, weight=1, bias=None),
    "QLinearConv": partial(_conv, weight=3, bias=8),
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": partial(_matmul, left=0, right=3),
    "Einsum": _einsum,
    "Attention": _attention,
    "Add": partial(_binary, kind="add"),
    "Sub": partial(_binary, kind="sub"),
    "Mul": partial(_binary, kind="mul"),
    "Div": partial(_binary, kind="div"),
    "QLinearAdd": partial(_quantized_binary, kind="add"),
    "QLinearMul": partial(_quantized_binary, kind="mul"),
    "Clip": _clip,
    "Relu": partial(_unary, kind="relu"),
    "MaxPool": partial(_pool, kind="maxpool"),
    "AveragePool": partial(_pool, kind="avgpool"),
    "LpPool": partial(_pool, kind="lppool"),
    "BatchNormalization": partial(_norm, kind="batchnorm"),
    "LayerNormalization": partial(_norm, kind="layernorm"),
    "RMSNormalization": partial(_norm, kind="rmsnorm"),
    "SimplifiedLayerNormalization": partial(_norm, kind="rmsnorm"),
    "SkipLayerNormalization": partial(_skip_norm, kind="layernorm"),
    "SkipSimplifiedLayerNormalization": partial(_skip_norm, kind="rmsnorm"),
    "GroupNormalization": partial(_norm, kind="groupnorm"),
    "InstanceNormalization": partial(_norm, kind="instancenorm"),
    "LpNormalization": partial(_unary, kind="rmsnorm"),
    "MeanVarianceNormalization": partial(_unary, kind="instancenorm"),
    "LRN": partial(_unary, kind="lrn"),
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _same,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "Shape": _shape_of,
    "Size": _shape_of,
    "Concat": _concat,
    "QLinearConcat": _quantized_concat,
    "Gather": _gather,
    "Pad": partial(_shaped, kind="pad"),
    "RotaryEmbedding": partial(_unary, kind="rope"),
    "Where": partial(_shaped, kind="where"),
    "TopK": partial(_several, kind="topk"),
}
HANDLERS |= dict.fromkeys(("Identity", "Cast", "CastLike", "Dropout"), _same)
HANDLERS |= dict.fromkeys(
    (
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Slice",
        "Split",
        "Expand",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
    ),
    _view,
)
HANDLERS |= dict.fromkeys(
    ("GlobalAveragePool", "QLinearGlobalAveragePool", "QLinearAveragePool"), partial(_shaped, kind="avgpool")
)
HANDLERS |= dict.fromkeys(("Softmax", "LogSoftmax", "QLinearSoftmax"), partial(_unary, kind="softmax"))
HANDLERS |= dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "QuickGelu"), partial(_unary, kind="gelu"))
HANDLERS |= dict.fromkeys(("Swish",), partial(_unary, kind="silu"))
HANDLERS |= dict.fromkeys(("Sigmoid", "QLinearSigmoid"), partial(_unary, kind="sigmoid"))
HANDLERS |= dict.fromkeys(("Tanh",), partial(_unary, kind="tanh"))
HANDLERS |= dict.fromkeys(
    (
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "Celu",
        "ThresholdedRelu",
        "Softplus",
        "Softsign",
        "HardSigmoid",
        "HardSwish",
        "Mish",
        "QLinearLeakyRelu",
        "Hardmax",
        "Shrink",
    ),
    partial(_unary, kind="activation"),
)
HANDLERS |= dict.fromkeys(
    (
        "Abs",
        "Neg",
        "Sqrt",
        "Exp",
        "Log",
        "Reciprocal",
        "Erf",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Ceil",
        "Floor",
        "Round",
        "Sign",
        "Not",
        "IsNaN",
        "IsInf",
        "BitwiseNot",
        "Trilu",
    ),
    partial(_unary, kind="elementwise"),
)
HANDLERS |= dict.fromkeys(
    (
        "Pow",
        "Mod",
        "Max",
        "Min",
        "Mean",
        "Sum",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "BitShift",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
    ),
    partial(_shaped, kind="elementwise"),
)
HANDLERS |= dict.fromkeys(
    (
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
        "GlobalMaxPool",
        "GlobalLpPool",
    ),
    partial(_shaped, kind="reduce"),
)
HANDLERS |= dict.fromkeys(("ArgMax", "ArgMin"), partial(_shaped, kind="argmax"))
HANDLERS |= dict.fromkeys(("CumSum",), partial(_unary, kind="cumsum"))
HANDLERS |= dict.fromkeys(("Resize", "Upsample"), partial(_shaped, kind="upsample"))
HANDLERS |= dict.fromkeys(
    ("GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter", "OneHot", "ReverseSequence"),
    partial(_shaped, kind="gather"),
)
