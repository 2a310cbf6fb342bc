"""The numpy model for elements in floating point: ml_dtypes' conversions, numpy's float32."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tests.gemmini.machine import NumpyGemmini

#: By `input_format`: type, largest number, code of NaN.
_FORMATS = {
    1: (ml_dtypes.float8_e4m3fn, 448.0, 0x7F),
    2: (ml_dtypes.float8_e5m2, 57344.0, 0x7E),
    3: (ml_dtypes.bfloat16, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), 0x7FC0),
}
_NAN = 0x7FC00000
#: Elements of blocks by format.
_ELEMENTS = (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8)


def _words(sums: np.ndarray) -> np.ndarray:
    """int64 of the bits of float32 sums, as int32; there is one NaN."""
    sums = np.asarray(sums, np.float32)
    return np.where(np.isnan(sums), np.int32(_NAN), sums.view(np.int32)).astype(np.int64)


def _sums(words: np.ndarray) -> np.ndarray:
    return np.asarray(words).astype(np.int32).view(np.float32)


def rounded_once(numbers: np.ndarray, kind: type) -> np.ndarray:
    """float64 in a format of ml_dtypes, which goes to bfloat16 by float32: to odd there, so that only the second rounding counts."""
    if kind is not ml_dtypes.bfloat16:
        return numbers.astype(kind)
    near = numbers.astype(np.float32)
    inexact = near.astype(np.float64) != numbers
    inwards = np.where(
        np.abs(near.astype(np.float64)) > np.abs(numbers), np.nextafter(near, np.float32(0)), near
    )
    odd = np.where(inexact, inwards.view(np.uint32) | 1, near.view(np.uint32)).astype(np.uint32)
    return odd.view(np.float32).astype(kind)


@dataclass
class FloatGemmini(NumpyGemmini):
    """Elements are codes, sums the bits of float32, both as the integers that the same bits are."""

    def _numbers(self, codes: np.ndarray) -> np.ndarray:
        kind = _FORMATS[self.config.input_format][0]
        return np.asarray(codes).astype(self._integer).view(kind).astype(np.float32)

    @property
    def _integer(self) -> type:
        return np.int16 if self.config.element_bytes == 2 else np.int8

    def _codes(self, words: np.ndarray, relu: bool, power: int = 0) -> np.ndarray:
        kind, largest, nan = _FORMATS[self.config.input_format]
        sums = _sums(words)
        missing = np.isnan(sums)
        tiny = (np.abs(sums) < np.finfo(np.float32).tiny) & (self.config.element_bytes == 1)
        numbers = np.ldexp(
            np.where(tiny, np.copysign(0, sums), np.nan_to_num(sums)).astype(np.float64), power
        )
        numbers = np.where(np.isinf(sums), sums, numbers)
        numbers = np.where(missing | (relu & np.signbit(numbers)), 0.0, numbers)
        codes = rounded_once(np.clip(numbers, -largest, largest), kind).view(self._integer)
        return np.where(missing, nan, codes).astype(np.int64)

    def of_blocks(self, kind: int, codes: np.ndarray, powers: np.ndarray) -> np.ndarray:
        elements = codes.astype(np.uint8).view(_ELEMENTS[kind]).astype(np.float64) / (64 if kind == 3 else 1)
        numbers = elements * powers.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        with np.errstate(all="ignore"):
            found = rounded_once(numbers, ml_dtypes.bfloat16)
        return np.where(np.isnan(numbers), 0x7FC0, found.view(np.int16)).astype(np.int64)

    def as_sums(self, values: np.ndarray) -> np.ndarray:
        return _words(self._numbers(values))

    def added(self, values: np.ndarray, before: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _words(_sums(before) + _sums(values))

    def narrowed(self, values: np.ndarray, col: np.ndarray) -> np.ndarray:
        power = (self.st.scale >> 23 & 255) - 127 if self.config.accumulator_scale else 0
        return self._codes(values, self.st.relu, power)

    def largest(self, values: np.ndarray) -> np.ndarray:
        # codes are a sign and a size: -0 is less than 0
        least = np.iinfo(self._integer).min
        most = np.where(values < 0, least - 1 - values, values).max(axis=(2, 3))
        return np.where(most < 0, least - 1 - most, most)

    def limited(self, result: np.ndarray) -> np.ndarray:
        return self._codes(result, self.ex.relu)

    def products(self, a: np.ndarray, d: np.ndarray) -> np.ndarray:
        multiplicands, weights = self._numbers(a), self._numbers(self.weights)
        sums = self._numbers(d)
        with np.errstate(all="ignore"):
            for k in range(self.dim):
                sums = sums + multiplicands[:, k, None] * weights[k]
        assert sums.dtype == np.float32
        return _words(sums)
