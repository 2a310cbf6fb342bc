"""IEEE 754 arithmetic with RISC-V's rules, by exact fractions: slow, and independent of any floating-point unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

RNE, RTZ, RDN, RUP, RMM = range(5)
NX, UF, OF, DZ, NV = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Format:
    """A binary interchange format: its width and the bits of its fraction."""

    width: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.width - self.fraction - 2)) - 1

    @property
    def infinity(self) -> int:
        return (2 * self.bias + 1) << self.fraction

    @property
    def nan(self) -> int:
        """The canonical NaN."""
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def is_signalling(self, bits: int) -> bool:
        return self.is_nan(bits) and not bits >> (self.fraction - 1) & 1

    def is_infinite(self, bits: int) -> bool:
        return bits & ~self.sign == self.infinity

    def negative(self, bits: int) -> bool:
        return bool(bits & self.sign)

    def value(self, bits: int) -> Fraction:
        """Of a finite number."""
        exponent = (bits & ~self.sign) >> self.fraction
        significand = bits & (1 << self.fraction) - 1
        if exponent:
            significand |= 1 << self.fraction
        else:
            exponent = 1
        magnitude = Fraction(significand) * Fraction(2) ** (exponent - self.bias - self.fraction)
        return -magnitude if self.negative(bits) else magnitude


BINARY32 = Format(32, 23)
BINARY64 = Format(64, 52)

Result = tuple[int, int]  # bits (or an integer) and the flags raised


def round_integer(value: Fraction, mode: int) -> int:
    """The neighbouring integer that a rounding mode chooses."""
    low = math.floor(value)
    rest = value - low
    if rest == 0:
        return low
    if mode == RDN:
        return low
    if mode == RUP:
        return low + 1
    if mode == RTZ:
        return low if value > 0 else low + 1
    if rest != Fraction(1, 2):
        return low + (rest > Fraction(1, 2))
    if mode == RMM:
        return low + (value > 0)
    return low + (low & 1)


def _exponent(magnitude: Fraction) -> int:
    """e with 2**e <= magnitude < 2**(e+1)."""
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return e if Fraction(2) ** e <= magnitude else e - 1


def round_value(value: Fraction, f: Format, mode: int, zero_sign: bool = False) -> Result:
    """The nearest number of a format; `zero_sign` is the sign of an exact zero."""
    if value == 0:
        return (f.sign if zero_sign else 0), 0
    sign = f.sign if value < 0 else 0
    least = 1 - f.bias
    e = _exponent(abs(value))

    def at(exponent: int) -> Fraction:
        quantum = Fraction(2) ** (exponent - f.fraction)
        return abs(round_integer(value / quantum, mode) * quantum)

    rounded = at(max(e, least))
    flags = NX if rounded != abs(value) else 0
    if flags and e < least and at(e) < Fraction(2) ** least:
        flags |= UF
    if rounded >= Fraction(2) ** (f.bias + 1):
        away = mode in (RNE, RMM) or mode == (RDN if sign else RUP)
        return sign | (f.infinity if away else f.infinity - 1), OF | NX
    if rounded == 0:
        return sign, flags
    e = max(_exponent(rounded), least)
    units = rounded / Fraction(2) ** (e - f.fraction)
    assert units.denominator == 1
    bits = units.numerator if units < 1 << f.fraction else units.numerator + ((e - least) << f.fraction)
    return sign | bits, flags


def _nan(f: Format, *operands: int, invalid: bool = False) -> Result:
    return f.nan, NV if invalid or any(map(f.is_signalling, operands)) else 0


def fused(f: Format, a: int, b: int, c: int, mode: int) -> Result:
    """a * b + c."""
    negative = f.negative(a) != f.negative(b)
    if (f.is_infinite(a) and b & ~f.sign == 0) or (f.is_infinite(b) and a & ~f.sign == 0):
        return _nan(f, invalid=True)
    if any(map(f.is_nan, (a, b, c))):
        return _nan(f, a, b, c)
    if f.is_infinite(a) or f.is_infinite(b):
        if f.is_infinite(c) and f.negative(c) != negative:
            return _nan(f, invalid=True)
        return f.infinity | (f.sign if negative else 0), 0
    if f.is_infinite(c):
        return c, 0
    product = f.value(a) * f.value(b)
    same = product == 0 and f.value(c) == 0 and negative == f.negative(c)
    return round_value(product + f.value(c), f, mode, negative if same else mode == RDN)


def add(f: Format, a: int, b: int, mode: int) -> Result:
    if f.is_nan(a) or f.is_nan(b):
        return _nan(f, a, b)
    one = f.bias << f.fraction
    return fused(f, a, one, b, mode)


def multiply(f: Format, a: int, b: int, mode: int) -> Result:
    if f.is_nan(a) or f.is_nan(b):
        return _nan(f, a, b)
    zero = (
        f.sign if f.negative(a) != f.negative(b) else 0
    )  # adding a zero of the product's sign changes nothing
    return fused(f, a, b, zero, mode)


def divide(f: Format, a: int, b: int, mode: int) -> Result:
    negative = f.negative(a) != f.negative(b)
    sign = f.sign if negative else 0
    if f.is_nan(a) or f.is_nan(b):
        return _nan(f, a, b)
    if f.is_infinite(a):
        return _nan(f, invalid=True) if f.is_infinite(b) else (sign | f.infinity, 0)
    if f.is_infinite(b):
        return sign, 0
    if f.value(b) == 0:
        return _nan(f, invalid=True) if f.value(a) == 0 else (sign | f.infinity, DZ)
    return round_value(f.value(a) / f.value(b), f, mode, negative)


def square_root(f: Format, a: int, mode: int) -> Result:
    if f.is_nan(a):
        return _nan(f, a)
    if a & ~f.sign == 0:
        return a, 0
    if f.negative(a):
        return _nan(f, invalid=True)
    if f.is_infinite(a):
        return a, 0
    value = f.value(a)
    k = 2 * f.width + abs(_exponent(value))  # enough places for the root
    scaled = value * 4**k
    assert scaled.denominator == 1
    root = math.isqrt(scaled.numerator)
    if root * root == scaled:
        return round_value(Fraction(root, 2**k), f, mode)
    return round_value(Fraction(2 * root + 1, 2 ** (k + 1)), f, mode)  # strictly between two such fractions


def _key(f: Format, bits: int) -> tuple[Fraction | float, bool]:
    """Orders numbers, -0 before +0."""
    if f.is_infinite(bits):
        return (-math.inf if f.negative(bits) else math.inf), False
    return f.value(bits), not f.negative(bits)


def pick(f: Format, a: int, b: int, least: bool) -> Result:
    """fmin, fmax."""
    flags = NV if f.is_signalling(a) or f.is_signalling(b) else 0
    if f.is_nan(a):
        return (f.nan if f.is_nan(b) else b), flags
    if f.is_nan(b):
        return a, flags
    return (min if least else max)(a, b, key=lambda bits: _key(f, bits)), flags


def compare(f: Format, a: int, b: int, kind: str) -> Result:
    """feq, flt or fle."""
    if f.is_nan(a) or f.is_nan(b):
        quiet = kind == "feq" and not f.is_signalling(a) and not f.is_signalling(b)
        return 0, 0 if quiet else NV
    x, y = _key(f, a)[0], _key(f, b)[0]
    return int({"feq": x == y, "flt": x < y, "fle": x <= y}[kind]), 0


def classify(f: Format, a: int) -> int:
    if f.is_nan(a):
        return 1 << (8 if f.is_signalling(a) else 9)
    exponent = (a & ~f.sign) >> f.fraction
    if f.is_infinite(a):
        rank = 3
    elif exponent:
        rank = 2
    else:
        rank = 1 if a & ~f.sign else 0
    return 1 << (3 - rank if f.negative(a) else 4 + rank)


def to_integer(f: Format, a: int, low: int, high: int, mode: int) -> Result:
    """Saturates to low..high."""
    if f.is_nan(a):
        return high, NV
    if f.is_infinite(a):
        return (low if f.negative(a) else high), NV
    value = f.value(a)
    rounded = round_integer(value, mode)
    if not low <= rounded <= high:
        return (low if rounded < low else high), NV
    return rounded, NX if rounded != value else 0


def convert(source: Format, target: Format, a: int, mode: int) -> Result:
    if source.is_nan(a):
        return target.nan, NV if source.is_signalling(a) else 0
    sign = target.sign if source.negative(a) else 0
    if source.is_infinite(a):
        return sign | target.infinity, 0
    return round_value(source.value(a), target, mode, bool(sign))
