"""What each operator of PyTorch's ATen library becomes, by its name without overload and trailing `_`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from baco.workloads.builder import causal_mask
from baco.workloads.einsum import contraction
from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import PLAIN_FUNCTIONS, Parameter, Semantics, constant
from baco.workloads.torch import quantised
from baco.workloads.torch import semantics as means
from baco.workloads.torch.node import FixedTensor, Handler, Rule, TorchNode, TorchOperator
from baco.workloads.torch.selections import adaptive_average, index_select, mirrored_pad, roll
from baco.workloads.torch.semantics import cast, meaning, operand_of
from baco.workloads.torch.views import view_steps
from baco.workloads.torch.windows import convolution, pool
from baco.workloads.views import Expand, Reshape, Transpose, Unknown

# Matrix products


def _swap(x: Tensor | Parameter) -> Tensor | Parameter:
    """Rows and columns exchanged."""
    if len(x.shape) < 2:
        return x
    axes = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    return x.viewed(tuple(x.shape[a] for a in axes), Transpose(axes))


def _matmul(imp: TorchNode, left: str, right: str, bias: str | None = None, swap: bool = False) -> None:
    a, b = imp.operand(left), imp.operand(right)
    weights = imp.claim(left, right)
    constant_bias = bias is not None and imp.constant(bias) is not None
    if bias is not None and constant_bias:
        weights += imp.claim(bias)
    b = _swap(b) if swap else b
    alpha, beta = (float(imp.args.get(name, 1)) for name in ("alpha", "beta"))
    added = imp.parameter(imp.args[bias], "shift") if bias is not None and constant_bias else None
    scaled = imp.scaled.get(imp.args[left])
    if scaled is not None:
        quantised.product(imp, scaled, b, weights, added)
        return
    if added is not None and beta != 1:
        a = a.viewed(a.shape, Unknown("a product whose bias is multiplied")) if isinstance(a, Tensor) else a
    y = imp.builder.matmul(a, b, imp.name, weights, alpha, added)
    if bias is not None and imp.args.get(bias) is not None and not constant_bias:
        x = imp.tensor(bias)
        semantics = Semantics("binary", (y, x), {"name": "add"}) if beta == 1 else None
        name = imp.builder.unique(f"{imp.name}.add")
        y = imp.builder.op("add", (y, x), y.shape, name=name, semantics=semantics)
    imp.emit(y)


def _einsum(imp: TorchNode) -> None:
    operands: Any = imp.args.get("tensors") or ()
    if len(operands) != 2:
        raise UnsupportedNodeError("einsum of other than two operands")
    shapes = [imp.values[n].shape if n in imp.values else imp.constants[n].shape for n in operands]
    plan = contraction(str(imp.args.get("equation")), *shapes)
    if isinstance(plan, str):
        raise UnsupportedNodeError(plan)
    left = operand_of(imp, operands[0]).viewed(plan.left, *plan.left_steps)
    right = operand_of(imp, operands[1]).viewed(plan.right, *plan.right_steps)
    y = imp.builder.matmul(left, right, imp.name, imp.claim_trained())
    imp.emit(y.viewed(plan.output, *plan.output_steps))


def _attention(imp: TorchNode) -> None:
    """Scaled dot-product attention: two batched GEMMs and a softmax; the mask is part of the softmax."""
    b = imp.builder
    q, k, v = imp.tensor("query"), imp.tensor("key"), imp.tensor("value")
    if len(q.shape) < 2 or len(k.shape) != len(q.shape) or len(v.shape) != len(q.shape):
        raise UnsupportedNodeError(f"attention of {q.shape}, {k.shape} and {v.shape}")
    if len(q.shape) > 3 and k.shape[-3] != q.shape[-3]:
        # Grouped queries: several query heads read the same keys and values.
        k, v = (_repeated(x, q.shape[-3]) for x in (k, v))
    keys = k.viewed((*k.shape[:-2], k.shape[-1], k.shape[-2]), *_swap_last(len(k.shape)))
    scale = imp.args.get("scale")
    alpha = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = b.matmul(q, keys, f"{imp.name}.scores", alpha=alpha)
    mask = imp.args.get("attn_mask")
    seen: Tensor | Parameter | None = None if mask is None else operand_of(imp, mask)
    if imp.args.get("is_causal"):
        # Aligned with the first key, unlike a decoder's.
        seen = causal_mask(scores.shape[-2], scores.shape[-1], shift=0)
    if isinstance(seen, Tensor):
        scores, seen = _masked(imp, scores, seen, truths=mask.meta["val"].dtype is torch.bool), None
    y = b.matmul(b.softmax(scores, f"{imp.name}.softmax", seen), v, f"{imp.name}.context")
    imp.emit(y)


def _masked(imp: TorchNode, scores: Tensor, mask: Tensor, *, truths: bool) -> Tensor:
    """Scores with a mask that is computed: of what takes part, or to be added."""
    if truths:
        semantics = Semantics("where", (mask, scores, constant("-inf", -math.inf)))
    else:
        semantics = Semantics("binary", (scores, mask), {"name": "add"})
    name = imp.builder.unique(f"{imp.name}.masked")
    kind = "where" if truths else "add"
    return imp.builder.op(kind, (scores, mask), scores.shape, name=name, semantics=semantics)


def _swap_last(rank: int) -> tuple[Transpose]:
    return (Transpose((*range(rank - 2), rank - 1, rank - 2)),)


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values (..., heads, seq, size) that neighbouring query heads share."""
    *lead, own, seq, size = x.shape
    full = (*lead, heads, seq, size)
    if heads % own:
        return x.viewed(full, Unknown(f"{own} heads for {heads}"))
    return x.viewed(
        full,
        Reshape((*lead, own, 1, seq, size)),
        Expand((*lead, own, heads // own, seq, size)),
        Reshape(full),
    )


# Elementwise


def _binary(imp: TorchNode, kind: str) -> None:
    """add, sub, mul, div: with a constant or a number a bias or a scale where these can be fused."""
    b = imp.builder
    activations = imp.tensors()
    shape = imp.shape()
    arguments = [imp.args.get("self"), imp.args.get("other")]
    if len(activations) == 2 and all(math.prod(x.shape) > 1 for x in activations):
        imp.emit(b.op(kind, activations, shape, name=imp.name, semantics=meaning(imp)))
        return
    if arguments[0] is arguments[1]:
        imp.emit(b.op("elementwise", activations, shape, name=imp.name, semantics=meaning(imp)))
        return
    x = max(activations, key=lambda t: math.prod(t.shape))
    weights = imp.claim_trained()
    additive = kind in ("add", "sub")
    if b.rides(x) and x.shape == shape and len(activations) == 1:
        kind = "bias" if additive else "scale"
    elif kind != "add":
        kind = "elementwise"
    imp.emit(b.op(kind, activations, shape, weights, imp.name, meaning(imp)))


def _clamp(imp: TorchNode) -> None:
    least = imp.args.get("min", imp.args.get("min_val"))
    zero = isinstance(least, (int, float)) and least == 0
    upper = imp.args.get("max", imp.args.get("max_val"))
    kind = ("relu" if upper is None else "relu6") if zero else "elementwise"
    imp.emit(imp.builder.op(kind, imp.tensors(), imp.shape(), name=imp.name, semantics=meaning(imp)))


def _host(imp: TorchNode, kind: str) -> None:
    """An operator without a problem; trained constants among its arguments are its weights."""
    imp.emit(imp.builder.op(kind, imp.tensors(), imp.shape(), imp.claim_trained(), imp.name, meaning(imp)))


def _average(imp: TorchNode, rank: int) -> None:
    """An adaptive average, whose windows need not be alike."""
    if not adaptive_average(imp, rank):
        _host(imp, "avgpool")


def _pad(imp: TorchNode) -> None:
    """A border of a number, or of elements of the tensor."""
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    mode = imp.args.get("mode")
    if mode in modes:
        mirrored_pad(imp, modes[mode])
    else:
        _host(imp, "pad")


def _indexed(imp: TorchNode) -> None:
    """Elements at constant or computed positions."""
    if not index_select(imp):
        _host(imp, "gather")


def _norm(imp: TorchNode, kind: str) -> None:
    """Scale and shift are trained, running statistics are not."""
    x = imp.tensors()[0]
    semantics, shape = meaning(imp), x.shape
    if (
        kind == "batchnorm" and len(shape) > 4 and semantics is not None
    ):  # as an image: channels stay in front
        x = imp.builder.reshape(x, (*shape[:2], math.prod(shape[2:-1]), shape[-1]))
        semantics = replace(semantics, operands=(x, *semantics.operands[1:]))
    y = imp.builder.op(kind, (x,), x.shape, imp.claim("weight", "bias"), imp.name, semantics)
    imp.emit(y if y.shape == shape else imp.builder.reshape(y, shape))


def _first(imp: TorchNode) -> None:
    """Nothing happens to the first argument's elements."""
    x = imp.tensors()[0]
    imp.emit(x if x.shape == imp.shape() else imp.builder.view(x, imp.shape()))


def _dropout(imp: TorchNode) -> None:
    """Nothing is dropped, unless the model asks for training."""
    if (imp.args.get("train") or imp.args.get("training")) and imp.args.get("p"):
        raise UnsupportedNodeError("elements are dropped at random, in training")
    _first(imp)


def _cast(imp: TorchNode) -> None:
    """Another element type: a copy, or whole numbers, or truths."""
    semantics = cast(imp)
    if semantics is None:
        _first(imp)
    else:
        imp.emit(imp.builder.op("elementwise", (imp.tensors()[0],), imp.shape(), 0, imp.name, semantics))


def view(imp: TorchNode) -> None:
    """Another shape, or parts, of the first activation."""
    x = imp.tensors()[0]
    shape = imp.shape()
    target = imp.node.target
    name = target._schema.name.split("::")[-1] if isinstance(target, torch._ops.OpOverload) else ""
    parts = [x.viewed(part, *steps) for part, steps in view_steps(imp, name)]
    encoding = imp.encodings.get(imp.node.all_input_nodes[0])
    if encoding is not None:
        imp.takes_whole, imp.encodings[imp.node] = True, encoding
    imp.emit(parts[0] if parts and parts[0].shape == shape else imp.builder.view(x, shape))
    if len(parts) > 1:
        imp.parts[imp.node] = parts


def shape_only(imp: TorchNode) -> None:
    """Made from the shape of its argument alone."""
    imp.constants[imp.node] = FixedTensor(imp.shape())


def elementwise(imp: TorchNode) -> None:
    """Any other pointwise operator."""
    _host(imp, "elementwise")


def reduction(imp: TorchNode) -> None:
    """Any other reduction."""
    _host(imp, "reduce")


def _hosts(kind: str, *unknown: str, **rules: Rule) -> dict[str, TorchOperator]:
    """Operators of one kind without problems by name, with what they compute; the `unknown` ones can be explored, not run."""
    handler = partial(_host, kind=kind)
    return {name: TorchOperator(handler, rules.get(name)) for name in (*unknown, *rules)}


def _pairs(**names: str) -> dict[str, TorchOperator]:
    """Functions of two operands, by name what they are called here."""
    return {
        name: TorchOperator(elementwise, partial(means.binary, name=ours)) for name, ours in names.items()
    }


def _only(handler: Handler, *names: str) -> dict[str, TorchOperator]:
    """Operators whose handler says what they compute, too."""
    return dict.fromkeys(names, TorchOperator(handler))


_ADAPTIVE = {
    rank: TorchOperator(partial(_average, rank=rank), partial(means.adaptive, kind="avgpool", rank=rank))
    for rank in (1, 2, 3)
}
_DIMENSIONS = (1, 2, 3)
#: What each operator becomes, by its name without overload and trailing `_`.
OPERATORS: dict[str, TorchOperator] = {
    **_hosts("elementwise", "tril", "triu", "cosine_similarity"),
    **_hosts("elementwise", **{name: partial(means.fixed, name=name) for name in PLAIN_FUNCTIONS}),
    **_only(convolution, "conv1d", "conv2d", "conv3d", "convolution"),
    **_only(
        partial(convolution, transposed=True), "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"
    ),
    "linear": TorchOperator(partial(_matmul, left="input", right="weight", bias="bias", swap=True)),
    "addmm": TorchOperator(partial(_matmul, left="mat1", right="mat2", bias="self")),
    "addmv": TorchOperator(partial(_matmul, left="mat", right="vec", bias="self")),
    "baddbmm": TorchOperator(partial(_matmul, left="batch1", right="batch2", bias="self")),
    **_only(partial(_matmul, left="self", right="mat2"), "mm", "bmm"),
    "mv": TorchOperator(partial(_matmul, left="self", right="vec")),
    "dot": TorchOperator(partial(_matmul, left="self", right="tensor")),
    "matmul": TorchOperator(partial(_matmul, left="self", right="other")),
    "einsum": TorchOperator(_einsum),
    "scaled_dot_product_attention": TorchOperator(_attention),
    **{
        name: TorchOperator(partial(_binary, kind=name), partial(means.binary, name=name))
        for name in ("add", "sub", "mul", "div")
    },
    **dict.fromkeys(("clamp", "clamp_min", "hardtanh"), TorchOperator(_clamp, means.clamp)),
    **_only(partial(pool, kind="maxpool", rank=1), "max_pool1d"),
    **_only(partial(pool, kind="maxpool", rank=2), "max_pool2d", "max_pool2d_with_indices"),
    **_only(partial(pool, kind="maxpool", rank=3), "max_pool3d", "max_pool3d_with_indices"),
    **{f"avg_pool{n}d": TorchOperator(partial(pool, kind="avgpool", rank=n)) for n in _DIMENSIONS},
    **dict.fromkeys(
        ("batch_norm", "_native_batch_norm_legit_no_training"),
        TorchOperator(partial(_norm, kind="batchnorm"), means.batchnorm),
    ),
    **dict.fromkeys(
        ("layer_norm", "native_layer_norm"), TorchOperator(partial(_norm, kind="layernorm"), means.layernorm)
    ),
    **dict.fromkeys(
        ("rms_norm", "_fused_rms_norm"), TorchOperator(partial(_norm, kind="rmsnorm"), means.rmsnorm)
    ),
    **dict.fromkeys(
        ("group_norm", "native_group_norm"), TorchOperator(partial(_norm, kind="groupnorm"), means.groupnorm)
    ),
    **dict.fromkeys(
        ("instance_norm",), TorchOperator(partial(_norm, kind="instancenorm"), means.instancenorm)
    ),
    **_only(_dropout, "dropout", "native_dropout", "feature_dropout", "alpha_dropout"),
    "clone": TorchOperator(_first),
    **_only(_cast, "to", "_to_copy", "type_as"),
    **_only(quantised.quantize, "quantize_per_tensor", "quantize_per_channel"),
    **_only(quantised.dequantize, "dequantize_per_tensor", "dequantize_per_channel"),
    **_only(quantised.choose, "choose_qparams", "choose_qparams_symmetric"),
    **_only(view, "_unsafe_view", "pixel_shuffle", "pixel_unshuffle", "repeat", "tile", "flip"),
    "roll": TorchOperator(roll),
    **_hosts("relu", relu=partial(means.fixed, name="relu")),
    **_hosts("relu6", relu6=partial(means.fixed, name="clip", low=0.0, high=6.0)),
    **_hosts(
        "softmax",
        softmax=means.softmax,
        _softmax=means.softmax,
        _safe_softmax=means.softmax,
        log_softmax=partial(means.softmax, logarithm=True),
        _log_softmax=partial(means.softmax, logarithm=True),
    ),
    **_hosts("gelu", gelu=means.gelu),
    **_hosts("silu", silu=partial(means.fixed, name="silu")),
    **_hosts(
        "sigmoid",
        sigmoid=partial(means.fixed, name="sigmoid"),
        log_sigmoid=partial(means.fixed, name="log_sigmoid"),
    ),
    **_hosts("tanh", tanh=partial(means.fixed, name="tanh")),
    **_hosts(
        "activation",
        "rrelu",
        "glu",
        elu=partial(
            means.unary, name="elu", alpha=("alpha", 1.0), scale=("scale", 1.0), rate=("input_scale", 1.0)
        ),
        selu=partial(means.fixed, name="elu", alpha=1.6732632423543772, scale=1.0507009873554805),
        celu=means.celu,
        leaky_relu=partial(means.unary, name="leaky_relu", alpha=("negative_slope", 0.01)),
        prelu=means.prelu,
        _prelu_kernel=means.prelu,
        softplus=partial(means.unary, name="softplus", beta=("beta", 1.0), threshold=("threshold", 20.0)),
        mish=partial(means.fixed, name="mish"),
        hardswish=partial(means.fixed, name="hard_swish"),
        hardsigmoid=partial(means.fixed, name="hard_sigmoid"),
        threshold=partial(means.unary, name="threshold", limit=("threshold", 0.0), value=("value", 0.0)),
        softshrink=partial(means.unary, name="shrink", limit=("lambd", 0.5), bias=("lambd", 0.5)),
        hardshrink=partial(means.unary, name="shrink", limit=("lambd", 0.5)),
    ),
    **_hosts("reduce", "prod", "std", "var", "var_mean", "std_mean", "norm", "linalg_vector_norm"),
    **_hosts("reduce", "logsumexp", "all", "any"),
    **_hosts(
        "reduce",
        adaptive_max_pool1d=partial(means.adaptive, kind="maxpool", rank=1),
        adaptive_max_pool2d=partial(means.adaptive, kind="maxpool", rank=2),
        mean=partial(means.reduce, name="mean"),
        sum=partial(means.reduce, name="sum"),
        amax=partial(means.reduce, name="max"),
        amin=partial(means.reduce, name="min"),
        max=partial(means.reduce, name="max"),
        min=partial(means.reduce, name="min"),
    ),
    **_hosts("lppool", "lp_pool1d", "lp_pool2d"),
    **_hosts("embedding", embedding=means.embedding),
    **_hosts("gather", "gather", "scatter", "index_put", "scatter_add", "select_scatter", "slice_scatter"),
    **_hosts("gather", "masked_select", "grid_sampler", "one_hot", "take_along_dim", "copy"),
    **{f"adaptive_avg_pool{n}d": _ADAPTIVE[n] for n in _DIMENSIONS},
    **{f"_adaptive_avg_pool{n}d": _ADAPTIVE[n] for n in _DIMENSIONS[1:]},
    "pad": TorchOperator(_pad, means.pad),
    **_only(_indexed, "index", "index_select"),
    **{f"reflection_pad{n}d": TorchOperator(partial(mirrored_pad, mode="reflect")) for n in _DIMENSIONS},
    **{f"replication_pad{n}d": TorchOperator(partial(mirrored_pad, mode="edge")) for n in _DIMENSIONS},
    **_hosts(
        "concat",
        "hstack",
        "vstack",
        cat=means.concat,
        concat=means.concat,
        stack=partial(means.concat, stacked=True),
    ),
    **_hosts("pad", constant_pad_nd=means.pad),
    **_hosts("upsample", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    **_hosts(
        "upsample",
        upsample_nearest1d=partial(means.resize, mode="nearest"),
        upsample_nearest2d=partial(means.resize, mode="nearest"),
        _upsample_nearest_exact1d=partial(means.resize, mode="nearest", exact=True),
        _upsample_nearest_exact2d=partial(means.resize, mode="nearest", exact=True),
        upsample_linear1d=partial(means.resize, mode="linear"),
        upsample_bilinear2d=partial(means.resize, mode="linear"),
    ),
    **_hosts(
        "argmax",
        argmax=partial(means.argmax, smallest=False),
        argmin=partial(means.argmax, smallest=True),
    ),
    **_hosts("topk", "topk", "sort", "argsort"),
    **_hosts("cumsum", "cumsum", "cumprod"),
    **_hosts("where", where=means.choice, masked_fill=means.where),
    "clamp_max": TorchOperator(elementwise, means.clamp),
    "pow": TorchOperator(elementwise, partial(means.binary, name="pow", second="exponent")),
    **_pairs(remainder="mod", fmod="fmod", maximum="maximum", minimum="minimum"),
    **_pairs(eq="equal", ne="not_equal", gt="greater", ge="greater_equal", lt="less", le="less_equal"),
    **_pairs(logical_and="and", logical_or="or", logical_xor="xor"),
    **_only(shape_only, "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"),
    **_only(shape_only, "new_zeros", "new_ones", "new_full", "new_empty"),
}
#: What operators compute that PyTorch breaks down into others, but where a form of theirs is tagged as pointwise.
POINTWISE: dict[str, Rule] = {
    "rsub": partial(means.binary, name="sub", swapped=True),
    "floor_divide": partial(means.binary, name="floor_divide"),
}
