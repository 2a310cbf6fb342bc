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
from baco.workloads.semantics import Parameter, Semantics, constant
from baco.workloads.torch import quantised
from baco.workloads.torch.node import FixedTensor, Handler, TorchNode
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


HANDLERS: dict[str, Handler] = {
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "convolution": convolution,
    "conv_transpose1d": partial(convolution, transposed=True),
    "conv_transpose2d": partial(convolution, transposed=True),
    "conv_transpose3d": partial(convolution, transposed=True),
    "linear": partial(_matmul, left="input", right="weight", bias="bias", swap=True),
    "addmm": partial(_matmul, left="mat1", right="mat2", bias="self"),
    "addmv": partial(_matmul, left="mat", right="vec", bias="self"),
    "baddbmm": partial(_matmul, left="batch1", right="batch2", bias="self"),
    "mm": partial(_matmul, left="self", right="mat2"),
    "bmm": partial(_matmul, left="self", right="mat2"),
    "mv": partial(_matmul, left="self", right="vec"),
    "dot": partial(_matmul, left="self", right="tensor"),
    "matmul": partial(_matmul, left="self", right="other"),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "add": partial(_binary, kind="add"),
    "sub": partial(_binary, kind="sub"),
    "mul": partial(_binary, kind="mul"),
    "div": partial(_binary, kind="div"),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "hardtanh": _clamp,
    "max_pool1d": partial(pool, kind="maxpool", rank=1),
    "max_pool2d": partial(pool, kind="maxpool", rank=2),
    "max_pool2d_with_indices": partial(pool, kind="maxpool", rank=2),
    "max_pool3d": partial(pool, kind="maxpool", rank=3),
    "max_pool3d_with_indices": partial(pool, kind="maxpool", rank=3),
    "avg_pool1d": partial(pool, kind="avgpool", rank=1),
    "avg_pool2d": partial(pool, kind="avgpool", rank=2),
    "avg_pool3d": partial(pool, kind="avgpool", rank=3),
    "batch_norm": partial(_norm, kind="batchnorm"),
    "_native_batch_norm_legit_no_training": partial(_norm, kind="batchnorm"),
    "layer_norm": partial(_norm, kind="layernorm"),
    "native_layer_norm": partial(_norm, kind="layernorm"),
    "rms_norm": partial(_norm, kind="rmsnorm"),
    "_fused_rms_norm": partial(_norm, kind="rmsnorm"),
    "group_norm": partial(_norm, kind="groupnorm"),
    "native_group_norm": partial(_norm, kind="groupnorm"),
    "instance_norm": partial(_norm, kind="instancenorm"),
    "dropout": _dropout,
    "native_dropout": _dropout,
    "feature_dropout": _dropout,
    "alpha_dropout": _dropout,
    "clone": _first,
    "to": _cast,
    "_to_copy": _cast,
    "type_as": _cast,
    "quantize_per_tensor": quantised.quantize,
    "quantize_per_channel": quantised.quantize,
    "dequantize_per_tensor": quantised.dequantize,
    "dequantize_per_channel": quantised.dequantize,
    "choose_qparams": quantised.choose,
    "choose_qparams_symmetric": quantised.choose,
    "_unsafe_view": view,
    "pixel_shuffle": view,
    "pixel_unshuffle": view,
    "repeat": view,
    "tile": view,
    "roll": roll,
    "flip": view,
}


def _register(kind: str, *names: str) -> None:
    handler: Any = partial(_host, kind=kind)
    HANDLERS.update(dict.fromkeys(names, handler))


_register("relu", "relu")
_register("relu6", "relu6")
_register("softmax", "softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
_register("gelu", "gelu")
_register("silu", "silu")
_register("sigmoid", "sigmoid", "log_sigmoid")
_register("tanh", "tanh")
_register(
    "activation",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "prelu",
    "_prelu_kernel",
    "softplus",
    "mish",
    "hardswish",
    "hardsigmoid",
    "rrelu",
    "threshold",
    "softshrink",
    "hardshrink",
    "glu",
)
_register(
    "reduce",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "mean",
    "sum",
    "amax",
    "amin",
    "max",
    "min",
    "prod",
    "std",
    "var",
    "var_mean",
    "std_mean",
    "norm",
    "linalg_vector_norm",
    "logsumexp",
    "all",
    "any",
)
_register("lppool", "lp_pool1d", "lp_pool2d")
_register("embedding", "embedding")
_register(
    "gather",
    "gather",
    "scatter",
    "index_put",
    "scatter_add",
    "select_scatter",
    "slice_scatter",
    "masked_select",
    "grid_sampler",
    "one_hot",
    "take_along_dim",
    "copy",
)
HANDLERS |= {
    "adaptive_avg_pool1d": partial(_average, rank=1),
    "adaptive_avg_pool2d": partial(_average, rank=2),
    "adaptive_avg_pool3d": partial(_average, rank=3),
    "_adaptive_avg_pool3d": partial(_average, rank=3),
    "_adaptive_avg_pool2d": partial(_average, rank=2),
    "pad": _pad,
    "index": _indexed,
    "index_select": _indexed,
    **{f"reflection_pad{rank}d": partial(mirrored_pad, mode="reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d": partial(mirrored_pad, mode="edge") for rank in (1, 2, 3)},
}
_register("concat", "cat", "stack", "hstack", "vstack", "concat")
_register("pad", "constant_pad_nd")
_register(
    "upsample",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
_register("argmax", "argmax", "argmin")
_register("topk", "topk", "sort", "argsort")
_register("cumsum", "cumsum", "cumprod")
_register("where", "where", "masked_fill")
_register("elementwise", "tril", "triu", "cosine_similarity")
HANDLERS.update(
    dict.fromkeys(
        (
            "zeros_like",
            "ones_like",
            "full_like",
            "empty_like",
            "new_zeros",
            "new_ones",
            "new_full",
            "new_empty",
            "rand_like",
            "randn_like",
        ),
        shape_only,
    )
)
