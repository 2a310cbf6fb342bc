"""Tables, softmax, normalisation and products of rows in numpy's integers, from the instruction set's definition (docs/isa.md)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RowFunction:
    """What CONFIG_FUNCTION says.

    Attributes:
        table: (256,) entries of 16 bits.
        epsilon: of a normalisation; the factor of a product is its low 28 bits.
        gain, offset: of all columns, for a normalisation.
        product: instead of a normalisation, times `other`, elements of 16 bits of the same row.
    """

    function: int
    table: Ints
    centre: bool = False
    causal: bool = False
    shift: int = 0
    valid: int = 0
    numerator: int = 0
    epsilon: int = 0
    gain: Ints | None = None
    offset: Ints | None = None
    product: bool = False
    other: Ints | None = None

    def of(self, x: Ints, index: int = 0) -> Ints:
        """The result of one row of int8 elements; `index` of the row since the configuration."""
        if self.function == 1:
            low = self.table[x & 255] & 255
            return np.where(low > 127, low - 256, low)
        if self.function == 2:
            return self._softmax(x, index)
        return self._multiplied(x) if self.product else self._normalised(x)

    def _multiplied(self, x: Ints) -> Ints:
        assert self.other is not None
        t = np.clip((x * (self.epsilon % 2**28) + 128) >> 8, -(2**19), 2**19 - 1)
        return np.clip((t * self.other + (1 << (self.shift - 1))) >> self.shift, -128, 127)

    def _softmax(self, x: Ints, index: int) -> Ints:
        n = min(self.valid + index, len(x)) if self.causal else len(x)
        result = np.zeros_like(x)
        if n:
            e = self.table[x[:n].max() - x[:n]]
            total = int(e.sum())
            inverse = min((self.numerator << self.shift) // total, 65535) if total else 0
            result[:n] = np.minimum((e * inverse + 2**23) >> 24, 127)
        return result

    def _normalised(self, x: Ints) -> Ints:
        assert self.gain is not None
        assert self.offset is not None
        n = len(x)
        s = int(x.sum()) if self.centre else 0
        v = (n * int((x * x).sum()) - s * s + self.epsilon) % 2**48
        root = max(isqrt(v << 16), 1)
        factor = min((n << 28) // root, 2**28 - 1)
        mean = min((abs(s) << 28) // root, 2**36 - 1) * (1 if s >= 0 else -1)
        t = np.clip((x * factor - mean + 128) >> 8, -(2**19), 2**19 - 1)
        y = (t * self.gain + (self.offset << (self.shift - 7)) + (1 << (self.shift - 1))) >> self.shift
        return np.clip(y, -128, 127)
