"""Scalar arithmetic of the structured level as numbers of the emitter.

Every integer is kept as the i64 that equals it, sign-extended (`i1` as 0 or 1, `index` as it is).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from baco.common.errors import InputError
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.ir.location import location_of


def width_of(kind: Attribute) -> int:
    """Bits of a scalar type; 64 for `index`."""
    return kind.width.data if isinstance(kind, IntegerType) else 64


def wrap(e: Emitter, number: Number, width: int) -> Number:
    """The number modulo 2^width, as a signed one (of width 1: 0 or 1)."""
    if width >= 64:
        return number
    if isinstance(number, int):
        number &= (1 << width) - 1
        return number - (1 << width) if width > 1 and number >> (width - 1) else number
    if width == 1:
        return _binary(e, arith.AndIOp, number, 1)
    left = _binary(e, arith.ShLIOp, number, 64 - width)
    return _binary(e, arith.ShRSIOp, left, 64 - width)


def unsigned(e: Emitter, number: Number, width: int) -> Number:
    """The number as the unsigned one of the same bits."""
    mask = (1 << width) - 1
    if isinstance(number, int):
        return number & mask
    return number if width >= 64 else _binary(e, arith.AndIOp, number, mask)


def either(e: Emitter, a: Condition, b: Condition) -> Condition:
    """Logical or."""
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return e.insert(arith.OrIOp(a, b)).results[0]


def truth(e: Emitter, number: Number) -> Condition:
    """An i1 number as a condition."""
    return e.compare("ne", number, 0)


def shifted_right(e: Emitter, number: Number, by: Number) -> Number:
    """The number shifted right arithmetically."""
    if isinstance(number, int) and isinstance(by, int):
        return number >> by
    return _binary(e, arith.ShRSIOp, number, by)


def shifted_left(e: Emitter, number: Number, by: Number) -> Number:
    """The number shifted left."""
    if isinstance(number, int) and isinstance(by, int):
        return number << by
    return _binary(e, arith.ShLIOp, number, by)


def _binary(e: Emitter, kind: type[IRDLOperation], a: Number, b: Number) -> Number:
    return e.insert(kind(e.value(a), e.value(b))).results[0]  # type: ignore[call-arg,arg-type]


def floor_div(e: Emitter, a: Number, b: Number) -> Number:
    """a / b rounded down, b not 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    quotient = _binary(e, arith.DivSIOp, a, b)
    rest = e.sub(a, e.mul(quotient, b))
    wrong_sign = e.compare("slt", _binary(e, arith.XOrIOp, rest, b), 0)
    down = e.both(e.compare("ne", rest, 0), wrong_sign)
    return e.add(quotient, e.select(down, -1, 0))


def _quotient(signed: bool) -> Callable[[Emitter, Number, Number], Number]:
    kind = arith.DivSIOp if signed else arith.DivUIOp

    def divide(e: Emitter, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int) and a >= 0 and b > 0:
            return a // b
        return _binary(e, kind, a, b)

    return divide


def _remainder(signed: bool) -> Callable[[Emitter, Number, Number], Number]:
    kind = arith.RemSIOp if signed else arith.RemUIOp

    def remain(e: Emitter, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int) and a >= 0 and b > 0:
            return a % b
        return _binary(e, kind, a, b)

    return remain


def _bits(kind: type[IRDLOperation]) -> Callable[[Emitter, Number, Number], Number]:
    return lambda e, a, b: _binary(e, kind, a, b)


#: What gives the result (before it is wrapped) from sign-extended operands.
_SIGNED: dict[type[Operation], Callable[[Emitter, Number, Number], Number]] = {
    arith.AddiOp: lambda e, a, b: e.add(a, b),
    arith.SubiOp: lambda e, a, b: e.sub(a, b),
    arith.MuliOp: lambda e, a, b: e.mul(a, b),
    arith.AndIOp: _bits(arith.AndIOp),
    arith.OrIOp: _bits(arith.OrIOp),
    arith.XOrIOp: _bits(arith.XOrIOp),
    arith.ShLIOp: shifted_left,
    arith.ShRSIOp: shifted_right,
    arith.MaxSIOp: lambda e, a, b: e.max(a, b),
    arith.MinSIOp: lambda e, a, b: e.min(a, b),
    arith.FloorDivSIOp: floor_div,
    arith.CeilDivSIOp: lambda e, a, b: e.sub(0, floor_div(e, e.sub(0, a), b)),
    arith.DivSIOp: _quotient(True),
    arith.RemSIOp: _remainder(True),
}
#: The same from zero-extended operands.
_UNSIGNED: dict[type[Operation], Callable[[Emitter, Number, Number], Number]] = {
    arith.ShRUIOp: lambda e, a, b: _binary(e, arith.ShRUIOp, a, b),
    arith.MaxUIOp: lambda e, a, b: e.max(a, b),
    arith.MinUIOp: lambda e, a, b: e.min(a, b),
    arith.DivUIOp: _quotient(False),
    arith.RemUIOp: _remainder(False),
}
#: Comparisons by the number in the attribute: eq ne slt sle sgt sge ult ule ugt uge.
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "slt", "sle", "sgt", "sge")


def is_scalar_operation(op: Operation) -> bool:
    """`scalar_operation` knows it."""
    return (
        type(op) in _SIGNED
        or type(op) in _UNSIGNED
        or isinstance(
            op,
            arith.ConstantOp
            | arith.CmpiOp
            | arith.SelectOp
            | arith.ExtSIOp
            | arith.ExtUIOp
            | arith.TruncIOp
            | arith.IndexCastOp,
        )
    )


def scalar_operation(e: Emitter, op: Operation, operands: Sequence[Number]) -> Number:
    """The result of an integer operation on scalars. Raises InputError for one that there is not."""
    width = width_of(op.results[0].type)
    if isinstance(op, arith.ConstantOp):
        if isinstance(op.value, IntegerAttr):
            return wrap(e, int(op.value.value.data), width)
    elif type(op) in _SIGNED:
        if isinstance(op, arith.FloorDivSIOp) and _simple_division(op):
            return e.div(operands[0], operands[1])  # type: ignore[arg-type]
        if isinstance(op, arith.RemSIOp) and _simple_division(op):
            return e.mod(operands[0], operands[1])  # type: ignore[arg-type]
        result = _SIGNED[type(op)](e, operands[0], operands[1])
        grows = isinstance(
            op, arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.ShLIOp | arith.DivSIOp | arith.FloorDivSIOp
        )
        return wrap(e, result, width) if grows else result
    elif type(op) in _UNSIGNED:
        plain = [unsigned(e, one, width) for one in operands]
        return wrap(e, _UNSIGNED[type(op)](e, plain[0], plain[1]), width)
    elif isinstance(op, arith.CmpiOp):
        how = op.predicate.value.data
        a, b = operands[:2]
        if how >= 6:
            own = width_of(op.lhs.type)
            a, b = unsigned(e, a, own), unsigned(e, b, own)
        return e.select(e.compare(_PREDICATES[how], a, b), 1, 0)  # type: ignore[arg-type]
    elif isinstance(op, arith.SelectOp):
        return e.select(truth(e, operands[0]), operands[1], operands[2])
    elif isinstance(op, arith.ExtUIOp):
        return unsigned(e, operands[0], width_of(op.input.type))
    elif isinstance(op, arith.ExtSIOp):
        own = width_of(op.input.type)
        return e.sub(0, operands[0]) if own == 1 else operands[0]
    elif isinstance(op, arith.TruncIOp | arith.IndexCastOp):
        return wrap(e, operands[0], width)
    raise InputError(f"'{op.name}' cannot be compiled for the host core", location=location_of(op))


def _simple_division(op: arith.FloorDivSIOp | arith.RemSIOp) -> bool:
    """Of an index that is never negative by a positive constant."""
    (low, _), (first, last) = bounds_of(op.lhs), bounds_of(op.rhs)
    return low >= 0 and first == last and first > 0


def requantise(e: Emitter, number: Number, scale_bits: int, bits: int) -> Number:
    """int32 to int8 or int16 (`bits`) as the accelerator stores results (instruction set, section 10), in whole numbers.

    float32 of the number, times the scale in float32, each rounded to nearest even, then to the nearest integer, ties
    to even, saturated. A product too small for a normal float32 is 0 either way.
    """
    fraction, exponent = scale_bits & 0x7FFFFF, scale_bits >> 23 & 0xFF
    mantissa = fraction | (1 << 23) if exponent else fraction
    power = max(exponent, 1) - 150
    if mantissa == 0:
        return 0
    negative = e.compare("slt", number, 0)
    magnitude = e.select(negative, e.sub(0, number), number)
    digits, first = _to_24_bits(e, magnitude, (8, 4, 2, 1))
    digits, second = _to_24_bits(e, e.mul(digits, mantissa), (16, 8, 4, 2, 1))
    power_of_result = e.add(first, second, power)
    # |result| = digits * 2^power: at least 2^32 saturates, at most 2^-40 of 24 digits vanishes
    left = e.min(e.max(power_of_result, 0), 32)
    right = e.min(e.max(e.sub(0, power_of_result), 0), 40)
    most = 1 << (bits - 1)
    rounded = e.min(_round_shift(e, shifted_left(e, digits, left), right), most)
    if scale_bits >> 31:
        result = e.select(negative, rounded, e.sub(0, rounded))
    else:
        result = e.select(negative, e.sub(0, rounded), rounded)
    return e.max(e.min(result, most - 1), -most)


def _to_24_bits(e: Emitter, number: Number, steps: Sequence[int]) -> tuple[Number, Number]:
    """The number rounded to 24 digits: (digits, shift), with number ~ digits * 2^shift; shift at most the steps' sum."""
    shift: Number = 0
    for step in steps:
        large = e.compare("sge", shifted_right(e, number, shift), 1 << (23 + step))
        shift = e.add(shift, e.select(large, step, 0))
    return _round_shift(e, number, shift), shift


def _round_shift(e: Emitter, number: Number, by: Number) -> Number:
    """A number that is not negative divided by 2^by, to nearest, ties to even."""
    last = _binary(e, arith.AndIOp, shifted_right(e, number, by), 1)
    half = shifted_right(e, shifted_left(e, 1, by), 1)
    add = e.select(e.compare("sgt", by, 0), e.add(half, last, -1), 0)
    return shifted_right(e, e.add(number, add), by)
