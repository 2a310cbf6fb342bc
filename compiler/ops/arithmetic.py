"""Integer and float32 arithmetic of quantised networks, each exactly as C on the host or the accelerator has it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


def saturate8(x: np.ndarray) -> np.ndarray:
    """int8 nearest to each integer."""
    return np.asarray(np.clip(x, -128, 127), dtype=np.int8)


def float32(x: float) -> float:
    """The float32 nearest to x, as a Python number."""
    return float(np.float32(x))


@dataclass(frozen=True)
class FixedPoint:
    """A factor `multiplier * 2**-shift`, applied as floor((x * multiplier + 2**(shift - 1)) / 2**shift).

    In C: `(x * multiplier + ((int64_t)1 << (shift - 1))) >> shift` in int64_t, >> arithmetic: to nearest, halves up.

    Attributes:
        multiplier: -2**31 < multiplier < 2**31.
        shift: 1 to 62.
    """

    multiplier: int
    shift: int

    def __post_init__(self) -> None:
        if abs(self.multiplier) >= 2**31 or not 1 <= self.shift <= 62:
            raise ValueError(f"no fixed-point factor: {self}")

    def apply(self, x: np.ndarray) -> np.ndarray:
        """x (any integers) rescaled, int64. |x * multiplier| must stay below 2**62."""
        product = x.astype(np.int64) * np.int64(self.multiplier)
        return np.asarray((product + np.int64(1 << (self.shift - 1))) >> np.int64(self.shift))

    @property
    def value(self) -> float:
        """The factor as a float."""
        return math.ldexp(self.multiplier, -self.shift)


def fixed_point(factor: float, bits: int = 31) -> FixedPoint:
    """The fixed-point factor nearest to `factor` with a multiplier of at most `bits` bits.

    Factors below 2**-62 become zero. Raises ValueError for those of 2**(bits - 1) and more.
    """
    if factor == 0 or not math.isfinite(factor):
        return FixedPoint(0, 1)
    exponent = math.frexp(factor)[1]  # |factor| = 2**exponent * 0.5...1
    shift = min(bits - exponent, 62)
    if shift < 1:
        raise ValueError(f"{factor} is too large for a fixed-point factor of {bits} bits")
    multiplier = round(math.ldexp(factor, shift))
    if abs(multiplier) >= 2**bits:  # the mantissa was rounded up to 1
        multiplier, shift = multiplier // 2, shift - 1
    return FixedPoint(multiplier, max(shift, 1))


def distinct(array: np.ndarray) -> np.ndarray:
    """An array of one element where one number in memory stands for all elements (`numpy.broadcast_to`), else the array."""
    if array.size > 1 and not any(array.strides):
        return array[(slice(0, 1),) * array.ndim]
    return array
