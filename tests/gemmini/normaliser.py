"""Gemmini's normaliser commands, layer norm, I-GELU and softmax in numpy's integers, from the ISA specification (3.2, 4.4, 10).

Rounding and order of operations are those of Gemmini's functional simulator, whose int32 wraps around and which rounds results
of softmax to int8 before `acc_scale`; but for layer norm, which is that of its RTL: one rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
RESET, SUM, MEAN, VARIANCE, INV_STDDEV, MAX, SUM_EXP, INV_SUM_EXP = range(8)
LAYER_NORM, I_GELU, SOFTMAX = 2, 3, 4
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def wrap(x: Ints) -> Ints:
    """int64 to the int32 with the same low bits."""
    return (np.asarray(x, np.int64) + 2**31) % 2**32 - 2**31


def divided(a: int, b: int) -> int:
    """int32 quotient towards zero."""
    return int(wrap(np.int64(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))))


def rounded(x: Ints, scale: np.float32) -> Ints:
    """int32 times float32, to the nearest int8, ties to even; NaN is 127."""
    with np.errstate(all="ignore"):
        product = np.rint(x.astype(np.float32) * scale).astype(np.float64)
    return np.where(np.isnan(product), 127, np.clip(product, -128, 127)).astype(np.int64)


@dataclass
class Slot:
    """Statistics of a row."""

    fresh: bool = True
    sum: int = 0
    count: int = 0
    running: int = INT_MIN
    max: int = 0
    mean: int = 0
    inv_stddev: np.float32 = field(default_factory=lambda: np.float32(0))
    inv_sum_exp: np.float32 = field(default_factory=lambda: np.float32(0))


@dataclass
class Normaliser:
    """What CONFIG_NORM and normaliser commands have left."""

    slots: tuple[Slot, Slot] = field(default_factory=lambda: (Slot(), Slot()))
    slot: int = 0
    qb: int = 0
    qc: int = 0
    qln2: int = 0
    qln2_inv: int = 0

    def exponential(self, q: Ints) -> Ints:
        """((q + z ln2 + qb)**2 + qc) >> z for q <= 0; shifts are by the low five bits of z."""
        z = wrap(wrap(-q) * self.qln2_inv) >> 16
        base = wrap(wrap(q + wrap(z * self.qln2)) + self.qb)
        return wrap(wrap(base * base) + self.qc) >> (z & 31)

    def i_gelu(self, q: Ints) -> Ints:
        """q * (sign(q) * ((min(|q|, -qb) + qb)**2 + qc) + qc)."""
        sign = np.where(q < 0, -1, 1)
        base = wrap(np.minimum(wrap(np.abs(q)), int(wrap(np.int64(-self.qb)))) + self.qb)
        polynomial = wrap(wrap(base * base) + self.qc)
        return wrap(q * wrap(wrap(sign * polynomial) + self.qc))

    def take(self, row: Ints, command: int) -> None:
        """A whole row of a store: the command of its last block."""
        s = self.slots[self.slot]
        if s.fresh:
            s.sum, s.count, s.running = 0, 0, INT_MIN
        s.fresh = command in (RESET, MEAN, INV_STDDEV)
        if command in (SUM, MEAN):
            s.sum = int(wrap(np.int64(s.sum) + row.sum()))
        if command in (VARIANCE, INV_STDDEV):
            s.sum = int(wrap(np.int64(s.sum) + wrap(wrap(row - s.mean) ** 2).sum()))
        if command in (SUM, MEAN, VARIANCE, INV_STDDEV):
            s.count = int(wrap(np.int64(s.count + len(row))))
        if command == MAX:
            s.running = max(s.running, int(row.max()))
        if command in (SUM_EXP, INV_SUM_EXP):
            s.max = s.running
            s.sum = int(wrap(np.int64(s.sum) + self.exponential(wrap(row - s.max)).sum()))
        if command == MEAN:
            s.mean = divided(s.sum, s.count)
        if command == INV_STDDEV:
            variance = divided(s.sum, s.count)
            root = INT_MAX if variance < 0 else max(1, isqrt(variance))
            s.inv_stddev = np.float32(1) / np.float32(root)
        if command == INV_SUM_EXP:
            s.running = INT_MIN
            with np.errstate(divide="ignore"):
                s.inv_sum_exp = np.float32(127) / np.float32(s.sum)

    def leave(self) -> None:
        """Results leave the accumulator, of whatever activation: the slot's next statistics begin anew."""
        self.take(np.zeros(1, np.int64), RESET)

    def results(self, x: Ints, activation: int, scale: float | np.float32) -> Ints:
        """int8 elements of a store."""
        s, factor = self.slots[self.slot], np.float32(scale)
        if activation == LAYER_NORM:
            with np.errstate(all="ignore"):
                return rounded(wrap(x - s.mean), s.inv_stddev * factor)
        if activation == I_GELU:
            return rounded(self.i_gelu(x), factor)
        if activation == SOFTMAX:
            return rounded(rounded(self.exponential(wrap(x - s.max)), s.inv_sum_exp), factor)
        return rounded(np.maximum(x, 0) if activation == 1 else x, factor)
