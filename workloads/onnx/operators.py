"""What each ONNX operator becomes: tensor problems, fused or host operators, views, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import onnx

from baco.workloads.network import UnsupportedNodeError
from baco.workloads.onnx import semantics as means
from baco.workloads.onnx.fold import RANDOM
from baco.workloads.onnx.node import Handler, OnnxNode, OnnxOperator, Rule
from baco.workloads.onnx.quantised import clip, dequantize, quantize
from baco.workloads.onnx.semantics import cast, meaning, skip_norm
from baco.workloads.onnx.tensor_operators import (
    attention,
    average_pool,
    conv,
    conv_transpose,
    einsum,
    gemm,
    matmul,
    max_pool,
    norm_pool,
)
from baco.workloads.onnx.views import view_steps
from baco.workloads.onnx.whole_numbers import WHOLE_OPERATORS
from baco.workloads.semantics import Semantics

# Elementwise


def _binary(imp: OnnxNode, kind: str) -> None:
    """Add, Sub, Mul, Div: with a constant a bias or a scale where these can be fused."""
    b = imp.builder
    activations = imp.tensors()
    additive = kind in ("add", "sub")
    shapes = [imp.shape(0), imp.shape(1)]
    small = next((i for i in (0, 1) if math.prod(shapes[i]) == 1), None)
    if len(activations) == 2 and small is None:
        wide = imp.model.shapes.get(imp.node.output[0]) if imp.version < 7 else None
        imp.emit(b.op(kind, activations, wide, name=imp.name, semantics=meaning(imp)))
        return
    weights = sum(imp.claim(i) for i in (0, 1) if math.prod(shapes[i]) > 1)
    x = activations[0] if len(activations) == 1 or small == 1 else activations[1]
    # A constant operand must not enlarge the result, or there is nothing to fuse it into.
    shape = imp.model.shapes.get(imp.node.output[0], x.shape)
    if b.rides(x) and shape == x.shape:
        kind = "bias" if additive else "scale"
    elif kind != "add":
        kind = "elementwise"
    imp.emit(b.op(kind, activations, shape, weights, imp.name, meaning(imp)))


def _clip(imp: OnnxNode) -> None:
    if imp.node.input[0] in imp.encodings:
        clip(imp)
        return
    low = imp.value(1) if imp.has(1) else None
    least = float(low.reshape(-1)[0]) if low is not None and low.size else imp.number("min", -math.inf)
    kind = "relu6" if least == 0 else "elementwise"
    imp.emit(imp.builder.op(kind, (imp.tensor(0),), name=imp.name, semantics=meaning(imp)))


def _unary(imp: OnnxNode, kind: str) -> None:
    x = imp.tensor(0)
    weights = sum(imp.claim(i) for i in range(1, len(imp.node.input)))
    imp.emit(imp.builder.op(kind, (x,), x.shape, weights, imp.name, meaning(imp)))


def _norm(imp: OnnxNode, kind: str) -> None:
    """Scale and shift are trained; running statistics (inputs 3 and 4) are not counted."""
    x = imp.tensor(0)
    weights = sum(imp.claim(i) for i in (1, 2) if imp.has(i))
    imp.emit(imp.builder.op(kind, (x,), x.shape, weights, imp.name, meaning(imp)))


def _skip_norm(imp: OnnxNode, kind: str) -> None:
    """onnxruntime's fused residual addition and normalisation."""
    b = imp.builder
    x = b.add(imp.tensor(0), imp.tensor(1), b.unique(f"{imp.name}.add"))
    weights = sum(imp.claim(i) for i in range(2, len(imp.node.input)) if imp.has(i))
    imp.emit(b.op(kind, (x,), x.shape, weights, imp.name, skip_norm(imp, x, kind)))
    if len(imp.node.output) > 3:
        imp.emit(x, 3)


def _shaped(imp: OnnxNode, kind: str) -> None:
    """A host operator whose output shape is as inferred."""
    weights = sum(imp.claim(i) for i in range(len(imp.node.input)) if imp.value(i) is None)
    imp.emit(imp.builder.op(kind, imp.tensors(), imp.output_shape(), weights, imp.name, meaning(imp)))


def _top_k(imp: OnnxNode) -> None:
    """Positions of the largest elements, and these elements; sorted, whether that is asked for or not."""
    x = imp.tensor(0)
    imp.integer("sorted", 1)
    axis = imp.integer("axis", -1) % len(x.shape)
    if imp.has(1):
        count = imp.value(1)
        if count is None:
            raise UnsupportedNodeError("how many are wanted (its input 'K') is not a constant")
        wanted = int(count.reshape(-1)[0])
    else:
        wanted = imp.integer("k", 0)  # before version 10
    if not 0 < wanted <= x.shape[axis]:
        raise UnsupportedNodeError(f"{wanted} of {x.shape[axis]} elements")
    shape = (*x.shape[:axis], wanted, *x.shape[axis + 1 :])
    attributes = {"axis": axis, "count": wanted, "smallest": not imp.integer("largest", 1)}
    b = imp.builder
    positions = b.op("topk", (x,), shape, name=imp.name, semantics=Semantics("topk", (x,), attributes))
    imp.emit(positions, 1)
    if imp.node.output[0]:
        taken = Semantics("take", (x, positions), {"axis": axis})
        name = b.unique(f"{imp.name}.values")
        imp.emit(b.op("gather", (x, positions), shape, name=name, semantics=taken))


def _same(imp: OnnxNode) -> None:
    imp.emit(imp.tensor(0))


# Shapes and addresses


def _view(imp: OnnxNode) -> None:
    for index in range(len(imp.node.output)):
        if imp.node.output[index]:
            x, shape = imp.tensor(0), imp.output_shape(index)
            imp.emit(imp.builder.view(x, shape, *view_steps(imp, index)), index)


def _dropout(imp: OnnxNode) -> None:
    """Nothing is dropped, unless the model asks for training."""
    training = imp.has(2)
    if training and imp.constant(2) is not None:
        value = imp.value(2)
        training = value is None or bool(value.reshape(-1).any())
    if training:
        raise UnsupportedNodeError("training_mode drops elements at random, which is not supported")
    imp.emit(imp.tensor(0))


def _cast(imp: OnnxNode) -> None:
    """Another element type: a copy, or whole numbers, or truths."""
    x = imp.tensor(0)
    if imp.node.op_type == "CastLike":
        imp.reads(1)
        to = imp.kind(1)
    elif imp.version < 6:
        to = dict(onnx.TensorProto.DataType.items()).get(imp.text("to", ""), 0)
    else:
        to = imp.integer("to", 0)
    semantics = cast(imp, to)
    if semantics is None:
        imp.emit(x)
    else:
        imp.emit(imp.builder.op("elementwise", (x,), x.shape, name=imp.name, semantics=semantics))


def _shape_of(imp: OnnxNode) -> None:
    imp.emit_constant()


def _concat(imp: OnnxNode) -> None:
    weights = sum(imp.claim(i) for i in range(len(imp.node.input)))
    imp.emit(imp.builder.op("concat", imp.tensors(), imp.output_shape(), weights, imp.name, meaning(imp)))


def _gather(imp: OnnxNode) -> None:
    if imp.constant(0) is not None:
        weights = imp.claim(0)
        shape = imp.output_shape()
        imp.emit(imp.builder.op("embedding", imp.tensors(), shape, weights, imp.name, meaning(imp)))
    elif imp.constant(1) is not None:
        _view(imp)
    else:
        _shaped(imp, "gather")


_COUNT, _RANDOM = "how many results it has depends on the data", "its results are random numbers"
#: Why operators have no rule, where that is not for want of one.
REASONS: dict[str, str] = {
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), _COUNT),
    **dict.fromkeys(RANDOM, _RANDOM),
    "BitCast": "it reads the bits of real numbers, which 8-bit integers stand for here",
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"), "texts"
    ),
    "ImageDecoder": "it reads compressed pictures",
}


def _host(handler: Callable[..., None], kind: str, *unknown: str, **rules: Rule) -> dict[str, OnnxOperator]:
    """Operators of one kind by name, with what they compute; the `unknown` ones can be explored, not run."""
    imported = partial(handler, kind=kind)
    return {name: OnnxOperator(imported, rules.get(name)) for name in (*unknown, *rules)}


def _only(handler: Handler, *names: str) -> dict[str, OnnxOperator]:
    """Operators whose handler says what they compute, too."""
    return dict.fromkeys(names, OnnxOperator(handler))


_PLAIN: dict[str, Rule] = {
    name: partial(means.fixed, name=function) for name, function in means.PLAIN_OPERATORS.items()
}
#: What each operator becomes, by name.
OPERATORS: dict[str, OnnxOperator] = {
    **{name: OnnxOperator(handler) for name, handler in WHOLE_OPERATORS.items()},
    **_host(_unary, "elementwise", "BitwiseNot", "Trilu", **_PLAIN),
    **_host(
        _unary,
        "elementwise",
        Not=means.negation,
        IsNaN=partial(means.fixed, name="isnan"),
        IsInf=means.is_infinite,
    ),
    "Conv": OnnxOperator(conv),
    "ConvTranspose": OnnxOperator(conv_transpose),
    "Gemm": OnnxOperator(gemm),
    "MatMul": OnnxOperator(matmul),
    "Einsum": OnnxOperator(einsum),
    "Attention": OnnxOperator(attention),
    **_host(_binary, "add", Add=partial(means.binary, name="add")),
    **_host(_binary, "sub", Sub=partial(means.binary, name="sub")),
    **_host(_binary, "mul", Mul=partial(means.binary, name="mul")),
    **_host(_binary, "div", Div=means.divide),
    "Clip": OnnxOperator(_clip, means.clip),
    "MaxPool": OnnxOperator(max_pool),
    "AveragePool": OnnxOperator(average_pool),
    "LpPool": OnnxOperator(norm_pool),
    **_host(_norm, "batchnorm", BatchNormalization=means.batchnorm),
    **_host(_norm, "layernorm", LayerNormalization=partial(means.layernorm, function="layernorm")),
    **_host(
        _norm,
        "rmsnorm",
        RMSNormalization=partial(means.layernorm, function="rmsnorm"),
        SimplifiedLayerNormalization=partial(means.layernorm, function="rmsnorm"),
    ),
    **_host(_norm, "groupnorm", GroupNormalization=means.groupnorm),
    **_host(_norm, "instancenorm", InstanceNormalization=partial(means.groupnorm, per_channel=True)),
    **_host(_skip_norm, "layernorm", "SkipLayerNormalization"),
    **_host(_skip_norm, "rmsnorm", "SkipSimplifiedLayerNormalization"),
    **_host(_unary, "rmsnorm", "LpNormalization"),
    **_host(_unary, "instancenorm", "MeanVarianceNormalization"),
    **_host(_unary, "lrn", "LRN"),
    "QuantizeLinear": OnnxOperator(quantize),
    "DequantizeLinear": OnnxOperator(dequantize),
    **_only(_shape_of, "Shape", "Size"),
    "Concat": OnnxOperator(_concat, means.concat),
    "Gather": OnnxOperator(_gather, means.embedding),
    **_host(_shaped, "pad", Pad=means.pad),
    **_host(_unary, "rope", "RotaryEmbedding"),
    **_host(_shaped, "where", Where=means.where),
    "TopK": OnnxOperator(_top_k),
    "Identity": OnnxOperator(_same),
    "Dropout": OnnxOperator(_dropout),
    **_only(_cast, "Cast", "CastLike"),
    **_only(_view, "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split"),
    **_only(_view, "Expand", "Tile", "DepthToSpace", "SpaceToDepth"),
    **_host(_shaped, "avgpool", GlobalAveragePool=partial(means.over_pixels, name="mean")),
    **_host(_unary, "softmax", Softmax=means.softmax, LogSoftmax=partial(means.softmax, logarithm=True)),
    **_host(
        _unary,
        "gelu",
        "BiasGelu",
        Gelu=means.gelu,
        FastGelu=means.fast_gelu,
        QuickGelu=partial(means.unary, name="gelu_quick", alpha=1.702),
    ),
    **_host(_unary, "silu", Swish=partial(means.unary, name="silu", alpha=1.0)),
    **_host(_unary, "relu", Relu=_PLAIN["Relu"]),
    **_host(_unary, "sigmoid", Sigmoid=_PLAIN["Sigmoid"]),
    **_host(_unary, "tanh", Tanh=_PLAIN["Tanh"]),
    **_host(
        _unary,
        "activation",
        "Hardmax",
        LeakyRelu=partial(means.unary, name="leaky_relu", alpha=0.01),
        PRelu=means.prelu,
        Elu=partial(means.unary, name="elu", alpha=1.0),
        Selu=partial(means.unary, name="elu", alpha=1.6732632423543772, gamma=1.0507009873554805),
        Celu=means.celu,
        ThresholdedRelu=means.thresholded,
        Softplus=partial(means.fixed, name="softplus"),
        Softsign=partial(means.fixed, name="softsign"),
        HardSigmoid=partial(means.unary, name="hard_sigmoid", alpha=0.2, beta=0.5),
        HardSwish=partial(means.fixed, name="hard_swish"),
        Mish=_PLAIN["Mish"],
        Shrink=partial(means.unary, name="shrink", lambd=0.5, bias=0.0),
    ),
    **_host(_shaped, "elementwise", "Mean", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    **_host(
        _shaped,
        "elementwise",
        Pow=partial(means.binary, name="pow"),
        Mod=means.modulo,
        Max=partial(means.binary, name="maximum"),
        Min=partial(means.binary, name="minimum"),
        Sum=partial(means.binary, name="add"),
        And=partial(means.binary, name="and"),
        Or=partial(means.binary, name="or"),
        Xor=partial(means.binary, name="xor"),
        Equal=partial(means.binary, name="equal"),
        Greater=partial(means.binary, name="greater"),
        GreaterOrEqual=partial(means.binary, name="greater_equal"),
        Less=partial(means.binary, name="less"),
        LessOrEqual=partial(means.binary, name="less_equal"),
    ),
    **_host(_shaped, "reduce", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
    **_host(
        _shaped,
        "reduce",
        ReduceMean=partial(means.reduce, name="mean"),
        ReduceSum=partial(means.reduce, name="sum"),
        ReduceMax=partial(means.reduce, name="max"),
        ReduceMin=partial(means.reduce, name="min"),
        ReduceL1=partial(means.norm, p=1),
        ReduceL2=partial(means.norm, p=2),
        GlobalMaxPool=partial(means.over_pixels, name="max"),
        GlobalLpPool=means.norm,
    ),
    **_host(
        _shaped,
        "argmax",
        ArgMax=partial(means.argmax, smallest=False),
        ArgMin=partial(means.argmax, smallest=True),
    ),
    **_host(_unary, "cumsum", "CumSum"),
    **_host(_shaped, "upsample", Resize=means.resize, Upsample=means.resize),
    **_host(_shaped, "gather", "GatherND", "ScatterND", "Scatter", "ReverseSequence"),
    **_host(
        _shaped,
        "gather",
        GatherElements=means.take,
        ScatterElements=means.scatter,
        OneHot=means.one_hot,
    ),
}
