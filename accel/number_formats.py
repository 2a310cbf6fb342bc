"""How numbers are stored, each format once: what a code stands for, and which code a number becomes.

Integers; floating point of the OCP's 8-bit specification (OFP8, 2023: E4M3, E5M2), of bfloat16 and of float32; and blocks of 32
elements with one shared power of two, of the OCP's Microscaling specification (MX, 1.0, 2023). Everywhere:

* rounding is to the nearest, ties to the even code; subnormal numbers are numbers as all others; a zero keeps its sign;
* what is beyond the largest number becomes that (`saturate`), or, where asked for, what the format has beyond it: infinity, else
  NaN; infinities count as beyond;
* NaN stays NaN, and is 0 in a format that has none;
* a product is rounded to float32, which holds those of two formats of up to 12 significant bits exactly; sums are float32, one
  product after the other in the order of the operands (`products_summed`).

Numbers are arrays of float64 or float32 of any shape; results are exact in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np

Array: TypeAlias = np.ndarray

#: What the largest exponent of a floating-point format holds beside numbers: infinities and NaN, one NaN of all ones, or nothing.
Specials: TypeAlias = Literal["infinities", "nan", "none"]
#: Products that are held at once while they are added up.
_HELD = 1 << 19


@dataclass(frozen=True)
class IntegerFormat:
    """Two's complement, or from 0 on; times 2^-`point`.

    Attributes:
        bits: of a number, sign among them; at most 32.
        signed: whether numbers are negative, too.
        point: binary digits behind the point.
        symmetric: whether the least number is left out, so that every number's negative is one.
    """

    name: str
    bits: int
    signed: bool = True
    point: int = 0
    symmetric: bool = False

    @property
    def low(self) -> int:
        """Least whole number."""
        return -(1 << (self.bits - 1)) + self.symmetric if self.signed else 0

    @property
    def high(self) -> int:
        """Largest whole number."""
        return (1 << (self.bits - self.signed)) - 1

    @property
    def largest(self) -> float:
        """Largest number."""
        return float(np.ldexp(float(self.high), -self.point))

    @property
    def largest_exponent(self) -> int:
        """Of the largest power of two that is a number."""
        return self.bits - self.signed - 1 - self.point

    def encode(self, numbers: Array) -> Array:
        """Whole numbers, int64: the nearest, saturated."""
        return self._steps(numbers).astype(np.int64)

    def _steps(self, numbers: Array) -> Array:
        """As `encode`, float64."""
        steps = np.rint(np.asarray(numbers, np.float64) * np.ldexp(1.0, self.point))
        return np.clip(np.where(np.isnan(steps), 0.0, steps), self.low, self.high)

    def decode(self, codes: Array) -> Array:
        """What whole numbers stand for, float64."""
        return np.asarray(np.asarray(codes, np.float64) * np.ldexp(1.0, -self.point))

    def rounded(self, numbers: Array) -> Array:
        """What is left of numbers that are stored."""
        return self.decode(self._steps(numbers))


@dataclass(frozen=True)
class FloatFormat:
    """A sign, an exponent and a fraction, from the highest bit down.

    Attributes:
        exponent_bits, fraction_bits: of a code, beside its sign.
        specials: what the largest exponent holds beside numbers.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    specials: Specials

    @property
    def bits(self) -> int:
        """Of a code."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """What exponents are stored with."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest_exponent(self) -> int:
        """Of the largest power of two that is a number."""
        return (1 << self.exponent_bits) - 1 - self.bias - (self.specials == "infinities")

    @property
    def largest(self) -> float:
        """Largest number."""
        return float(self.decode(np.array(self._last)))

    @property
    def smallest(self) -> float:
        """Least number above 0, a subnormal one."""
        return float(np.ldexp(1.0, 1 - self.bias - self.fraction_bits))

    @cached_property
    def _last(self) -> int:
        """Code of the largest number."""
        ones = (1 << (self.bits - 1)) - 1
        return {"none": ones, "nan": ones - 1, "infinities": ones - (1 << self.fraction_bits)}[self.specials]

    @property
    def _nan(self) -> int:
        """Code of NaN: all ones, or the quiet one beside infinities."""
        if self.specials == "infinities":
            return self._last + 1 + (1 << (self.fraction_bits - 1))
        return self._last + 1 if self.specials == "nan" else 0

    def encode(self, numbers: Array, *, saturate: bool = True) -> Array:
        """Codes, uint32: of the nearest numbers; `saturate` says what becomes of what is beyond the largest one."""
        numbers = np.asarray(numbers, np.float64)
        undefined = np.isnan(numbers)
        size = np.where(undefined, 0.0, np.minimum(np.abs(numbers), 2.0 * self.largest))
        # An exponent is that of the leading bit, or the least one; a step is the fraction's last bit. A fraction that is rounded
        # up to the next power of two carries into the exponent by itself.
        least = 1 - self.bias
        exponent = np.maximum(np.frexp(size)[1].astype(np.int64) - 1, least)
        exponent = np.where(size == 0, least, exponent)
        steps = np.rint(np.ldexp(size, self.fraction_bits - exponent)).astype(np.int64)
        code = ((exponent - least) << self.fraction_bits) + steps
        beyond = self._last if saturate or self.specials == "none" else self._last + 1
        code = np.where(code > self._last, beyond, code)
        code = code | (np.signbit(numbers).astype(np.int64) << (self.bits - 1))
        return np.where(undefined, self._nan, code).astype(np.uint32)

    def decode(self, codes: Array) -> Array:
        """What codes stand for, float64."""
        codes = np.asarray(codes, np.int64)
        size = codes & ((1 << (self.bits - 1)) - 1)
        exponent, fraction = size >> self.fraction_bits, size & ((1 << self.fraction_bits) - 1)
        steps = fraction + np.where(exponent > 0, 1 << self.fraction_bits, 0)
        numbers = np.ldexp(steps.astype(np.float64), np.maximum(exponent, 1) - self.bias - self.fraction_bits)
        if self.specials != "none":
            numbers = np.where(size > self._last, np.nan, numbers)
        if self.specials == "infinities":
            numbers = np.where(size == self._last + 1, np.inf, numbers)
        return np.asarray(np.where(codes >> (self.bits - 1) & 1, -numbers, numbers))

    def rounded(self, numbers: Array, *, saturate: bool = True) -> Array:
        """What is left of numbers that are stored."""
        return self.decode(self.encode(numbers, saturate=saturate))

    def codes(self, numbers: Array) -> Array:
        """Codes of the nearest numbers, saturated, as the signed integers of as many bits, 8, 16 or 32, that memory holds."""
        return self.encode(numbers).astype(f"uint{self.bits}").view(f"int{self.bits}")

    def numbers(self, codes: Array) -> Array:
        """float32 that such integers stand for."""
        codes = np.asarray(codes).astype(f"int{self.bits}").view(f"uint{self.bits}")
        return self._table[codes] if self.bits <= 16 else codes.view(np.float32)

    @cached_property
    def _table(self) -> Array:
        """float32 by code."""
        return self.decode(np.arange(1 << self.bits)).astype(np.float32)


@dataclass(frozen=True)
class BlockFormat:
    """Neighbouring elements with one power of two, which is stored in a byte as E8M0: 2^(byte - 127), 255 for NaN.

    A block's power is that of its largest magnitude less that of its elements' largest number (MX, section 6.3); elements beyond that
    saturate. A block that holds an infinity or NaN is NaN. A dimension that is no multiple of `length` ends with a shorter block.

    Attributes:
        element: format of an element, in units of its block's power.
        length: elements of a block.
    """

    name: str
    element: FloatFormat | IntegerFormat
    length: int = 32

    #: What the byte of a power of two has beyond its exponent, and the byte of NaN.
    _BIAS, _NAN = 127, 255

    @property
    def bits(self) -> float:
        """Of a number, with its part of the shared byte."""
        return self.element.bits + 8 / self.length

    def encode(self, numbers: Array) -> tuple[Array, Array]:
        """(bytes of powers [..., blocks], codes of elements [..., n]) of numbers [..., n], blocks along the last dimension."""
        numbers = np.asarray(numbers, np.float64)
        blocks = self._blocks(numbers)
        largest = np.abs(blocks).max(-1, initial=0.0)
        finite = np.isfinite(largest)
        exponent = np.frexp(np.where(finite, largest, 0.0))[1].astype(np.int64) - 1
        exponent -= self.element.largest_exponent
        exponent = np.where(largest == 0, -self._BIAS, np.clip(exponent, -self._BIAS, self._BIAS))
        powers = np.where(finite, exponent + self._BIAS, self._NAN).astype(np.uint8)
        elements = np.where(finite[..., None], np.ldexp(blocks, -exponent[..., None]), 0.0)
        codes = self.element.encode(elements)
        return powers, codes.reshape(*codes.shape[:-2], -1)[..., : numbers.shape[-1]]

    def decode(self, powers: Array, codes: Array) -> Array:
        """What bytes of powers [..., blocks] and codes [..., n] stand for, float64 [..., n]."""
        elements = self._blocks(self.element.decode(codes))
        numbers = np.ldexp(elements, powers[..., None].astype(np.int64) - self._BIAS)
        numbers = np.where((powers == self._NAN)[..., None], np.nan, numbers)
        return np.asarray(numbers.reshape(*numbers.shape[:-2], -1)[..., : codes.shape[-1]])

    def rounded(self, numbers: Array) -> Array:
        """What is left of numbers [..., n] that are stored in blocks along their last dimension."""
        return self.decode(*self.encode(numbers))

    def _blocks(self, numbers: Array) -> Array:
        """[..., blocks, length], zeros at the end."""
        count = -(-numbers.shape[-1] // self.length)
        blocks = np.zeros((*numbers.shape[:-1], count * self.length), numbers.dtype)
        blocks[..., : numbers.shape[-1]] = numbers
        return blocks.reshape(*numbers.shape[:-1], count, self.length)


NumberFormat: TypeAlias = IntegerFormat | FloatFormat | BlockFormat

_E4M3 = FloatFormat("fp8-e4m3", 4, 3, "nan")
_E5M2 = FloatFormat("fp8-e5m2", 5, 2, "infinities")
_E3M2 = FloatFormat("fp6-e3m2", 3, 2, "none")
_E2M3 = FloatFormat("fp6-e2m3", 2, 3, "none")
_E2M1 = FloatFormat("fp4-e2m1", 2, 1, "none")

#: By name.
FORMATS: dict[str, NumberFormat] = {
    one.name: one
    for one in (
        IntegerFormat("int4", 4),
        IntegerFormat("int8", 8),
        IntegerFormat("uint8", 8, signed=False),
        IntegerFormat("int16", 16),
        IntegerFormat("int32", 32),
        _E2M1,
        _E2M3,
        _E3M2,
        _E4M3,
        _E5M2,
        FloatFormat("bf16", 8, 7, "infinities"),
        FloatFormat("fp16", 5, 10, "infinities"),
        FloatFormat("fp32", 8, 23, "infinities"),
        BlockFormat("mxint8", IntegerFormat("mxint8 element", 8, point=6, symmetric=True)),
        BlockFormat("mxfp8-e4m3", _E4M3),
        BlockFormat("mxfp8-e5m2", _E5M2),
        BlockFormat("mxfp6-e3m2", _E3M2),
        BlockFormat("mxfp6-e2m3", _E2M3),
        BlockFormat("mxfp4", _E2M1),
    )
}


#: Of floating point that arrays multiply, with float32 sums.
ArrayFloat: TypeAlias = Literal["fp8-e4m3", "fp8-e5m2", "bf16"]
#: In the order of their numbers in C++, from 1 on.
FLOATS: tuple[ArrayFloat, ...] = get_args(ArrayFloat)


def array_float(form: str) -> FloatFormat | None:
    """The format of an array's elements by `Accelerator.input_format`; None for integers."""
    if form not in FLOATS:
        return None
    found = FORMATS[form]
    assert isinstance(found, FloatFormat)
    return found


def products_summed(left: Array, right: Array) -> Array:
    """left [M, K] times right [K, N], float32: each product rounded, and added in the order of K.

    Numbers are those that operands' formats hold.
    """
    rows, depth = left.shape
    columns = right.shape[1]
    result = np.zeros((rows, columns), np.float32)
    right = right.astype(np.float32)
    step = max(1, _HELD // max(1, depth * columns))
    for first in range(0, rows if depth else 0, step):
        part = left[first : first + step].astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = part.T[:, :, None] * right[:, None, :]
            # one after the other by definition, where a sum might be taken in pairs
            result[first : first + step] = np.add.accumulate(terms, axis=0, dtype=np.float32)[-1]
    return result
