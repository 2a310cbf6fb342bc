"""Ends of scales by the least squared error: steps are finer for all numbers where a few large ones are cut off.

A scale that reaches the largest magnitude rounds every number by up to half of its step, and tails are long: of activations the
largest is often 20 times the root mean square. What rounding and cutting off cost together is reckoned from how magnitudes are
distributed (the mean squared error of Banner et al., "Post training 4-bit quantization of convolutional networks", 2019).
"""

from __future__ import annotations

import numpy as np

from baco.accel.number_formats import IntegerFormat
from baco.workloads.network import Network, Tensor

#: float32 numbers without their last 19 bits: sixteenths of octaves.
_BIN_BITS = 19
_BINS = 1 << (31 - _BIN_BITS)
#: Ends that are tried, as parts of the largest magnitude.
_PARTS = np.arange(40, 9, -1) / 40
#: A shorter end must take this part of the error away at least.
_LEAST_GAIN = 0.1
#: Weights of which errors are reckoned: about as many, evenly spread.
_SAMPLED_WEIGHTS = 1 << 20

#: What hands numbers on from image to image, so that a cut off number is only a smaller one.
_PRODUCERS = {"conv", "conv_transpose", "batchnorm"}
_CARRIERS = {"unary", "identity", "maxpool", "avgpool", "resize", "concat", "pad"}
_READERS = _PRODUCERS | _CARRIERS | {"binary", "reduce"}
_ARITHMETIC = {"add", "sub", "mul"}


class Magnitudes:
    """How many numbers there are of each magnitude, in bins of a sixteenth of an octave."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)

    def add(self, numbers: np.ndarray) -> None:
        """Count finite numbers of any shape."""
        bits = np.ascontiguousarray(numbers, dtype=np.float32).reshape(-1).view(np.uint32)
        self._counts += np.bincount(bits >> _BIN_BITS & (_BINS - 1), minlength=_BINS)

    def end(
        self, largest: float, most_cut: float = 1.0, least_gain: float = _LEAST_GAIN, steps: int = 127
    ) -> float:
        """Where a scale of so many steps ends that has the least squared error: `largest`, or a part of it.

        Args:
            largest: of the magnitudes.
            most_cut: share of the numbers that may be beyond the end.
            least_gain: share of the squared error that a shorter end must take away at least.
        """
        (filled,) = self._counts.nonzero()
        count = self._counts[filled].astype(np.float64)
        middles = ((filled.astype(np.uint32) << _BIN_BITS) + (1 << (_BIN_BITS - 1))).view(np.float32)
        size = np.minimum(middles.astype(np.float64), largest)
        end = largest * _PARTS[:, None]
        step = end / steps
        rounded = np.where(size < step / 2, size**2, step**2 / 12)
        error = (count * np.where(size > end, (size - end) ** 2, rounded)).sum(1)
        cut = (count * (size > end)).sum(1)
        error[cut > most_cut * count.sum()] = np.inf
        best = int(error.argmin())
        return largest * float(_PARTS[best]) if error[best] < (1 - least_gain) * error[0] else largest


def weights_end(weight: np.ndarray, largest: float, form: IntegerFormat) -> float:
    """Where the scale of weights of a format ends. Numbers that the largest one's scale holds exactly stay exact."""
    sample = weight.reshape(-1)[:: weight.size // _SAMPLED_WEIGHTS + 1]
    magnitudes = Magnitudes()
    magnitudes.add(sample)
    end = magnitudes.end(largest, steps=form.high)
    shorter, whole = (float(_squared_error(sample, one, form)) for one in (end, largest))
    return end if shorter < (1 - _LEAST_GAIN) * whole else largest


def channel_ends(weight: np.ndarray, largest: np.ndarray, form: IntegerFormat) -> np.ndarray:
    """Where the scale of each channel ends: float64 [K], of weights [n, K] whose magnitudes reach `largest` [K]."""
    best = whole = _squared_error(weight, largest, form)
    ends = largest.astype(np.float64)
    for part in _PARTS[1:]:
        error = _squared_error(weight, largest * part, form)
        better = (error < best) & (error < (1 - _LEAST_GAIN) * whole)
        best, ends = np.where(better, error, best), np.where(better, largest * part, ends)
    return ends


def _squared_error(numbers: np.ndarray, end: np.ndarray | float, form: IntegerFormat) -> np.ndarray:
    """What rounding numbers [n] or [n, K] to scales that end there costs: of all, or of each column."""
    step = end / form.high
    return np.asarray(((form.rounded(numbers / step) * step - numbers) ** 2).sum(0))


def images_inside(network: Network) -> set[str]:
    """Activations that convolutions, and what hands their results on element by element, compute for each other.

    Elsewhere the rare large numbers may be what matters: in outputs, in front of a softmax or of a normalisation.
    """
    readers: dict[str, set[str]] = {}
    found: set[str] = set()
    for op in network.operators:
        assert op.semantics is not None
        function, operands = op.semantics.function, op.semantics.operands
        for operand in operands:
            if isinstance(operand, Tensor):
                readers.setdefault(operand.name, set()).add(function)
        known = any(isinstance(one, Tensor) and one.name in found for one in operands)
        carries = function in _CARRIERS or (
            function == "binary" and op.semantics.attributes["name"] in _ARITHMETIC
        )
        if function in _PRODUCERS or (known and carries):
            found.add(op.name)
    outputs = {tensor.name for tensor in network.outputs}
    return {name for name in found - outputs if readers.get(name, set()) <= _READERS}
