"""The vocabulary of `Operator.kind`, and which kinds the accelerator absorbs on the way out of its accumulator."""

from __future__ import annotations

from enum import Enum


class Ride(Enum):
    """How a tensor still hangs on the tensor operator that produced it.

    The array's results leave the accumulator through a scale, an optional addition of what was moved in
    before, an activation and (convolutions only) a max-pooling window, in that order; an operator is
    *fused* when it fits into what is left of that path. A result may be moved out more than once, so other
    readers of an intermediate tensor do not prevent fusion.
    """

    LINEAR = "linear"  # accumulated values: everything can still follow
    SUMMED = "summed"  # a residual was added: no per-channel scale any more
    ACTIVE = "active"  # activated: only requantisation, clipping again, or pooling
    POOLED = "pooled"  # pooled: only what commutes with a maximum


#: Tensor operators: those with a problem.
TENSOR_KINDS: dict[str, str] = {
    "conv1d": "1-D convolution",
    "conv2d": "2-D convolution, grouped and depthwise included",
    "conv_transpose1d": "1-D transposed convolution (one operator per output phase)",
    "conv_transpose2d": "2-D transposed convolution (one operator per output phase)",
    "linear": "matrix product with trained weights",
    "matmul": "matrix product of two activations, batched",
    "layer": "one row of a layer table",
}

#: Kinds that may be fused -> (states they can follow, state they leave); None keeps the state.
FUSIBLE: dict[str, tuple[frozenset[Ride], Ride | None]] = {
    "bias": (frozenset({Ride.LINEAR, Ride.SUMMED}), None),
    "scale": (frozenset({Ride.LINEAR}), None),
    "batchnorm": (frozenset({Ride.LINEAR}), None),
    "requantize": (frozenset(Ride), None),
    "add": (frozenset({Ride.LINEAR, Ride.SUMMED}), Ride.SUMMED),
    "relu": (frozenset(Ride), Ride.ACTIVE),
    "relu6": (frozenset(Ride), Ride.ACTIVE),
    "maxpool": (frozenset({Ride.LINEAR, Ride.SUMMED, Ride.ACTIVE}), Ride.POOLED),
}

#: Done by addresses alone: producers write, or consumers read, a part of a larger block.
ADDRESSING_KINDS = frozenset({"concat", "pad"})

#: Operators of the host core, beside the fusible ones that nothing absorbs.
HOST_KINDS: dict[str, str] = {
    "softmax": "exponentials normalised along one dimension",
    "layernorm": "mean and variance over the last dimensions, scale and shift",
    "rmsnorm": "root mean square over the last dimension, scale",
    "groupnorm": "mean and variance over groups of channels",
    "instancenorm": "mean and variance over each channel's pixels",
    "lrn": "local response normalisation",
    "gelu": "Gaussian error linear unit",
    "silu": "x * sigmoid(x)",
    "sigmoid": "logistic function",
    "tanh": "hyperbolic tangent",
    "activation": "another pointwise non-linear function (ELU, Mish, hard swish, leaky ReLU...)",
    "elementwise": "pointwise arithmetic on one tensor or with constants",
    "mul": "pointwise product of two tensors",
    "sub": "pointwise difference of two tensors",
    "div": "pointwise quotient of two tensors",
    "avgpool": "average pooling, global average pooling",
    "lppool": "p-norm pooling",
    "upsample": "nearest or interpolated resizing",
    "embedding": "rows of a table",
    "gather": "indexed reading or writing",
    "rope": "rotary position embedding",
    "reduce": "sum, mean, maximum... along dimensions",
    "argmax": "index of the maximum",
    "topk": "largest elements, sorting",
    "cumsum": "running sum",
    "where": "selection by a condition",
}

#: Every kind an operator may have.
KINDS = frozenset(TENSOR_KINDS) | frozenset(FUSIBLE) | ADDRESSING_KINDS | frozenset(HOST_KINDS)
