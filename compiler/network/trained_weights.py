"""Trained weights of convolutions and products as whole numbers: their format, where their scales end, and what biases take back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco.accel.number_formats import FORMATS, IntegerFormat
from baco.compiler.network.builder import IntegerBuilder
from baco.compiler.network.compensation import Moments, compensated
from baco.compiler.network.least_error import channel_ends, weights_end
from baco.compiler.network.parameters import ParameterShapes
from baco.compiler.ops.arithmetic import distinct
from baco.workloads.network import Operator

#: Sums of products and bias must stay within int32.
LARGEST_SUM = 2**31 - 1
#: By what scales of channels differ where weights have shapes alone: no two of trained ones are alike.
_APART = 2.0**-20


@dataclass(frozen=True)
class QuantisedWeights:
    """Weights and bias of one operator.

    Attributes:
        integers: int8 [..., K], within the limits of the weights' format.
        bias: int32 [K] in units of the products, or None.
        scales: of the weights: float64 of every channel [K], or of all [1]; each is a float32.
    """

    integers: np.ndarray
    bias: np.ndarray | None
    scales: np.ndarray


def quantise_weights(
    b: IntegerBuilder,
    op: Operator,
    weight: np.ndarray,
    bias: np.ndarray | None,
    fan_in: int,
    source: float,
    mean: np.ndarray | None = None,
    *,
    by_channel: bool = False,
    moments: Moments | None = None,
) -> QuantisedWeights:
    """Weights and bias for inputs of the scale `source`.

    A scale is raised where the bias would not fit beside the largest possible sum of products. The bias takes back what
    rounding the weights adds to a sum on average (Nagel et al., "Data-free quantization through weight equalization and bias
    correction", 2019).

    Args:
        weight: real [..., input channels of a group, output channels].
        mean: of every input channel, or None: the bias stays as it is.
        by_channel: every output channel has a scale of its own.
        moments: of what is read, for weights that are rounded one after the other; None: each becomes the nearest.
    """
    shape, weight = weight.shape, distinct(weight)
    if not np.isfinite(weight).all() or (bias is not None and not np.isfinite(bias).all()):
        raise b.error(op, "its parameters are not all finite numbers")
    form = FORMATS[b.quantiser.format_of(op.name)]
    assert isinstance(form, IntegerFormat)
    scales = _scales(b, weight, shape[-1] if by_channel else 1, form)
    room = LARGEST_SUM - fan_in * 127 * 128
    if room < 2**24:
        raise b.error(op, f"sums of {fan_in} products do not fit into 32 bits")
    if bias is None or not bias.any():
        return QuantisedWeights(_rounded(weight, scales, form, shape, moments), None, scales)
    largest = np.abs(bias) if scales.size > 1 else np.abs(bias).max(keepdims=True)
    for channel in np.flatnonzero(scales < largest / (source * room)):
        scales[channel] = b.scale_for(float(largest[channel]) / (source * room) * form.high, form.high)
    if not b.quantiser.bias_correction:
        mean = None
    rounded = _rounded(weight, scales, form, shape, moments, centred=mean is not None)
    if mean is not None:
        difference = np.broadcast_to(rounded * scales - weight, shape)
        bias = bias - (
            mean_error(difference, mean) if moments is None else source * moments.mean_sums(difference)
        )
    integers = np.clip(np.rint(bias / (scales * source)), -room, room).astype(np.int32)
    return QuantisedWeights(rounded, integers, scales)


def _scales(b: IntegerBuilder, weight: np.ndarray, channels: int, form: IntegerFormat) -> np.ndarray:
    """Of so many channels, or of all."""
    cut = b.quantiser.observer != "min-max"
    if channels == 1:
        largest = float(np.abs(weight).max(initial=0.0)) or 1.0
        end = weights_end(weight, largest, form) if cut else largest
        return np.array([b.scale_for(end, form.high)])
    columns = weight.reshape(-1, weight.shape[-1])
    reached = np.abs(columns).max(0, initial=0.0)
    reached = np.where(reached == 0, 1.0, reached)
    ends = channel_ends(columns, reached, form) if cut else reached
    scales = np.broadcast_to([b.scale_for(float(end), form.high) for end in ends], (channels,)).copy()
    if isinstance(b.parameters, ParameterShapes) and len(ends) < channels:
        scales = (scales * (1 + _APART * np.arange(channels))).astype(np.float32).astype(np.float64)
    return scales


def _rounded(
    weight: np.ndarray,
    scales: np.ndarray,
    form: IntegerFormat,
    shape: tuple[int, ...],
    moments: Moments | None,
    *,
    centred: bool = False,
) -> np.ndarray:
    if moments is not None:
        return compensated(np.broadcast_to(weight, shape), scales, form, moments, centred=centred)
    return np.broadcast_to(form.encode(weight / scales).astype(np.int8), shape)


def mean_error(difference: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """What weights that differ by `difference` [..., C / groups, K] add to a sum of products with inputs of `mean` [C]: [K]."""
    depth, channels = difference.shape[-2:]
    taps = difference.reshape(-1, depth, mean.size // depth, channels * depth // mean.size).sum(0)
    return np.asarray(np.einsum("gc,cgk->gk", mean.reshape(-1, depth), taps).reshape(channels))
