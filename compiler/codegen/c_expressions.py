"""Expressions of C: types, numbers, and what operations without effects compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, builtin, llvm, math
from xdsl.ir import Attribute, Operation

from baco.common.errors import InputError
from baco.compiler.ir.location import location_of

#: Words that no variable or member can be called: those of C and C++, names of types, and what compilers define for a system.
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype default
delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register restrict return short signed sizeof static struct switch template
this throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t linux unix
"""
C_WORDS = frozenset(_WORDS.split())
#: What expressions need beside C's operators: rounding to even and conversions that saturate, as the host core does them.
HELPERS = """\
// Compilers do not know which memory commands touch, nor that a fence waits for them.
#define barrier() __asm__ volatile("" : : : "memory")
#define wait_until_done() do { barrier(); gemmini_fence(); barrier(); } while (0)

static inline __attribute__((unused)) float round_even_float(float x) {
  int64_t n;
  if (!(x > -8388608.0f && x < 8388608.0f)) return x;
  __asm__("fcvt.l.s %0, %1, rne" : "=r"(n) : "f"(x));
  return __builtin_copysignf((float)n, x);
}
static inline __attribute__((unused)) double round_even_double(double x) {
  int64_t n;
  if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
  __asm__("fcvt.l.d %0, %1, rne" : "=r"(n) : "f"(x));
  return __builtin_copysign((double)n, x);
}
// Instructions, since compilers may call functions of a library for these.
#define INSTRUCTION(name, type, text)                                            \\
  static inline __attribute__((unused)) type name(type x, type y) {              \\
    type z;                                                                      \\
    __asm__(text : "=f"(z) : "f"(x), "f"(y));                                    \\
    return z;                                                                    \\
  }
INSTRUCTION(larger_float, float, "fmax.s %0, %1, %2")
INSTRUCTION(larger_double, double, "fmax.d %0, %1, %2")
INSTRUCTION(smaller_float, float, "fmin.s %0, %1, %2")
INSTRUCTION(smaller_double, double, "fmin.d %0, %1, %2")
INSTRUCTION(root_float, float, "fsqrt.s %0, %1")
INSTRUCTION(root_double, double, "fsqrt.d %0, %1")
#undef INSTRUCTION

// Towards zero, limited to what the integer can be; 0 of what is no number.
static inline __attribute__((unused)) int64_t saturated_integer(double x, double low, double high, int64_t least, int64_t most) {
  if (x != x) return 0;
  return x <= low ? least : x >= high ? most : (int64_t)x;
}
"""

_TYPES = {1: "int", 8: "int8_t", 16: "int16_t", 32: "int32_t", 64: "int64_t"}
_INFIX: Mapping[type[Operation], str] = {
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
    arith.DivSIOp: "/",
    arith.RemSIOp: "%",
    arith.AndIOp: "&",
    arith.OrIOp: "|",
    arith.XOrIOp: "^",
    arith.ShRSIOp: ">>",
    arith.AddfOp: "+",
    arith.SubfOp: "-",
    arith.MulfOp: "*",
    arith.DivfOp: "/",
}
_UNSIGNED: Mapping[type[Operation], str] = {
    arith.DivUIOp: "/",
    arith.RemUIOp: "%",
    arith.ShRUIOp: ">>",
    arith.ShLIOp: "<<",
}
#: Operations whose operands stand in more than one place.
TWICE = (
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.FloorDivSIOp, arith.CeilDivSIOp),
    *(arith.CmpfOp, math.SqrtOp),
)
#: Comparison that chooses the first operand, and whether it is one of unsigned numbers.
_CHOICES: Mapping[type[Operation], tuple[str, bool]] = {
    arith.MinSIOp: ("<", False),
    arith.MaxSIOp: (">", False),
    arith.MinUIOp: ("<", True),
    arith.MaxUIOp: (">", True),
}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
#: Of floats, by predicate: ordered ones are false, unordered ones true where an operand is no number.
_FLOAT_COMPARISONS = {
    1: "{a} == {b}",
    2: "{a} > {b}",
    3: "{a} >= {b}",
    4: "{a} < {b}",
    5: "{a} <= {b}",
    8: "!({a} < {b} || {a} > {b})",
    9: "!({a} <= {b})",
    10: "!({a} < {b})",
    11: "!({a} >= {b})",
    12: "!({a} > {b})",
    13: "{a} != {b}",
}
_CALLS: Mapping[type[Operation], tuple[str, str]] = {
    # of float32 and of float64
    math.RoundEvenOp: ("round_even_float", "round_even_double"),
    math.AbsFOp: ("__builtin_fabsf", "__builtin_fabs"),
    math.SqrtOp: ("root_float", "root_double"),
    arith.MaxnumfOp: ("larger_float", "larger_double"),
    arith.MinnumfOp: ("smaller_float", "smaller_double"),
}
_CASTS = (
    *(arith.IndexCastOp, arith.ExtSIOp, arith.TruncIOp, arith.SIToFPOp, arith.ExtFOp, arith.TruncFOp),
    *(llvm.IntToPtrOp, llvm.PtrToIntOp),
)


def no_form(op: Operation) -> InputError:
    return InputError(f"{op.name} has no form in C", location=location_of(op))


def c_type(kind: Attribute, op: Operation) -> str:
    if isinstance(kind, builtin.IndexType | llvm.LLVMPointerType):
        return "int64_t"
    if isinstance(kind, builtin.IntegerType) and kind.width.data in _TYPES:
        return _TYPES[kind.width.data]
    if isinstance(kind, builtin.Float32Type):
        return "float"
    if isinstance(kind, builtin.Float64Type):
        return "double"
    raise InputError(f"{op.name} has the type {kind}, which has no form in C", location=location_of(op))


def literal(attribute: Attribute, kind: str) -> str:
    if isinstance(attribute, builtin.FloatAttr):
        value = attribute.value.data
        if value != value or value in (float("inf"), float("-inf")):
            name = "nan" if value != value else "inf"
            return f"{'-' if value < 0 else ''}__builtin_{name}{'f' if kind == 'float' else ''}" + (
                '("")' if name == "nan" else "()"
            )
        return (
            f"({value.hex()}{'f' if kind == 'float' else ''})"
            if value < 0
            else value.hex() + ("f" if kind == "float" else "")
        )
    assert isinstance(attribute, builtin.IntegerAttr)
    number = attribute.value.data
    if kind == "int":
        return str(number & 1)
    if number == -(1 << 63):
        return "INT64_MIN"
    return f"({number})" if number < 0 else str(number)


def bare(text: str) -> str:
    """An expression that stands alone: without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def expression(op: Operation, given: Sequence[str], prefix: str) -> str:
    """A pure operation on operands, which are atoms or in parentheses; `prefix` is that of constants' names.

    Raises InputError for one that has no form in C.
    """
    kind = type(op)
    if isinstance(op, llvm.AddressOfOp):
        return f"(int64_t){prefix}{op.global_name.root_reference.data}"
    result = c_type(op.results[0].type, op) if len(op.results) == 1 else ""
    if kind in _INFIX:
        text = f"{given[0]} {_INFIX[kind]} {given[1]}"
        return text if result in ("int64_t", "float", "double", "int") else f"({result})({text})"
    if kind in _UNSIGNED:
        first = f"(u{result}){given[0]}"
        second = given[1] if kind in (arith.ShRUIOp, arith.ShLIOp) else f"(u{result}){given[1]}"
        return f"({result})({first} {_UNSIGNED[kind]} {second})"
    if kind in _CHOICES:
        how, unsigned = _CHOICES[kind]
        cast = f"(u{result})" if unsigned else ""
        return f"{cast}{given[0]} {how} {cast}{given[1]} ? {given[0]} : {given[1]}"
    if kind in _CALLS:
        both = (*given, *given) if kind is math.SqrtOp else given
        return f"{_CALLS[kind][result == 'double']}({', '.join(map(bare, both))})"
    if isinstance(op, _CASTS):
        source = c_type(op.operands[0].type, op)
        if source == "int" and isinstance(op, arith.ExtSIOp):
            return f"-({result}){given[0]}"
        if result == "int" and isinstance(op, arith.TruncIOp):
            return f"(int)({given[0]} & 1)"
        return f"({result}){given[0]}"
    write = _EXPRESSIONS.get(kind)
    if write is None:
        raise no_form(op)
    return write(op, given, result)


def _compare(op: arith.CmpiOp, given: Sequence[str], _: str) -> str:
    number = op.predicate.value.data
    cast = f"(u{c_type(op.lhs.type, op)})" if number >= 6 else ""
    return f"{cast}{given[0]} {_COMPARISONS[number]} {cast}{given[1]}"


def _compare_floats(op: arith.CmpfOp, given: Sequence[str], _: str) -> str:
    form = _FLOAT_COMPARISONS.get(op.predicate.value.data)
    if form is None:
        raise no_form(op)
    return form.format(a=given[0], b=given[1])


def _select(op: arith.SelectOp, given: Sequence[str], _: str) -> str:
    return f"{given[0]} ? {given[1]} : {given[2]}"


def _widen(op: arith.ExtUIOp, given: Sequence[str], result: str) -> str:
    source = c_type(op.input.type, op)
    return f"({result})" + (given[0] if source == "int" else f"(u{source}){given[0]}")


def _negate(op: arith.NegfOp, given: Sequence[str], _: str) -> str:
    return f"-{given[0]}"


def _to_integer(op: arith.FPToSIOp, given: Sequence[str], result: str) -> str:
    bits = int(re.sub(r"\D", "", result))
    high = float(1 << (bits - 1))
    least, most = f"INT{bits}_MIN", f"INT{bits}_MAX"
    return f"({result})saturated_integer({bare(given[0])}, {-high!r}, {high!r}, {least}, {most})"


def _round_division(up: bool) -> Callable[[Operation, Sequence[str], str], str]:
    def write(op: Operation, given: Sequence[str], result: str) -> str:
        a, b = given
        sign = "==" if up else "!="
        exact = f"{a} / {b} {'+' if up else '-'} ({a} % {b} != 0 && (({a} < 0) {sign} ({b} < 0)))"
        return exact if result == "int64_t" else f"({result})({exact})"

    return write


_EXPRESSIONS: Mapping[type[Operation], Callable[..., str]] = {
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    arith.ExtUIOp: _widen,
    arith.NegfOp: _negate,
    arith.FPToSIOp: _to_integer,
    arith.FloorDivSIOp: _round_division(up=False),
    arith.CeilDivSIOp: _round_division(up=True),
}
