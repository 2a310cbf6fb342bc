"""What each ONNX operator becomes: tensor problems, fused or host operators, views, or nothing."""

from __future__ import annotations

import math
from functools import partial

import onnx

from baco.workloads.network import UnsupportedNodeError
from baco.workloads.onnx.fold import RANDOM
from baco.workloads.onnx.node import Handler, OnnxNode
from baco.workloads.onnx.quantised import clip, dequantize, quantize
from baco.workloads.onnx.semantics import PLAIN_OPERATORS, cast, meaning, skip_norm
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

HANDLERS: dict[str, Handler] = {
    **WHOLE_OPERATORS,
    **dict.fromkeys(
        (*PLAIN_OPERATORS, "Not", "IsNaN", "IsInf", "BitwiseNot", "Trilu"),
        partial(_unary, kind="elementwise"),
    ),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
    "Attention": attention,
    "Add": partial(_binary, kind="add"),
    "Sub": partial(_binary, kind="sub"),
    "Mul": partial(_binary, kind="mul"),
    "Div": partial(_binary, kind="div"),
    "Clip": _clip,
    "Relu": partial(_unary, kind="relu"),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": norm_pool,
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
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "Shape": _shape_of,
    "Size": _shape_of,
    "Concat": _concat,
    "Gather": _gather,
    "Pad": partial(_shaped, kind="pad"),
    "RotaryEmbedding": partial(_unary, kind="rope"),
    "Where": partial(_shaped, kind="where"),
    "TopK": _top_k,
}
HANDLERS |= {"Identity": _same, "Dropout": _dropout, "Cast": _cast, "CastLike": _cast}
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
HANDLERS |= dict.fromkeys(("GlobalAveragePool",), partial(_shaped, kind="avgpool"))
HANDLERS |= dict.fromkeys(("Softmax", "LogSoftmax"), partial(_unary, kind="softmax"))
HANDLERS |= dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "QuickGelu"), partial(_unary, kind="gelu"))
HANDLERS |= dict.fromkeys(("Swish",), partial(_unary, kind="silu"))
HANDLERS |= dict.fromkeys(("Sigmoid",), partial(_unary, kind="sigmoid"))
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
        "Hardmax",
        "Shrink",
    ),
    partial(_unary, kind="activation"),
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
