"""Operators on the values of a kernel, typed and broadcast as numpy does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import NoReturn

from baco.compiler.dialects.baco import (
    AddOp,
    AndOp,
    BinaryOp,
    CmpOp,
    FloorDivOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    OrOp,
    SelectOp,
    ShlOp,
    ShrOp,
    SubOp,
    XorOp,
)
from baco.compiler.language import layouts
from baco.compiler.language.builder import Builder
from baco.compiler.language.dtypes import Dtype, boolean, float32, int32, offset, promote
from baco.compiler.language.forms import Form
from baco.compiler.language.values import (
    BlockPointer,
    Data,
    Integer,
    KernelConstant,
    Offsets,
    Pointer,
    Value,
    Window,
    format_shape,
    integer,
)

#: Operators on data: symbol -> operation.
ELEMENTWISE: dict[str, type[BinaryOp]] = {
    "+": AddOp,
    "-": SubOp,
    "*": MulOp,
    "//": FloorDivOp,
    "%": ModOp,
    "&": AndOp,
    "|": OrOp,
    "^": XorOp,
    "<<": ShlOp,
    ">>": ShrOp,
    "maximum": MaximumOp,
    "minimum": MinimumOp,
}
#: Operators on compile-time numbers that are not kept as forms.
_PYTHON: dict[str, Callable[..., int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "maximum": max,
    "minimum": min,
}
_COMPARE: dict[str, Callable[..., bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def binary(b: Builder, symbol: str, left: Value, right: Value) -> Value:
    """The value of `left symbol right`."""
    for value in (left, right):
        if isinstance(value, BlockPointer):
            b.fail(f"`{symbol}` does not move {value.describe()}", "use baco.advance(pointer, offsets)")
    if isinstance(left, Pointer) or isinstance(right, Pointer):
        return _move(b, symbol, left, right)
    left, right = _zero_as_integer(_as_offsets(left), right), _zero_as_integer(_as_offsets(right), left)
    if isinstance(left, Offsets):
        right = _offsets_of_data(b, right)
    elif isinstance(right, Offsets):
        left = _offsets_of_data(b, left)
    if symbol == "/":
        return _divide(b, left, right)
    if _is_number(left) and _is_number(right):
        return _fold(b, symbol, left, right)
    if isinstance(left, Integer) and isinstance(right, Integer):
        return _integers(b, symbol, left, right)
    if isinstance(left, Integer | Offsets) and isinstance(right, Integer | Offsets):
        result = _offsets(b, symbol, left, right)
        if result is not None:
            return result
    return elementwise(b, symbol, left, right)


def _zero_as_integer(value: Value, other: Value) -> Value:
    """0.0 beside floating point as the constant that there is; anything else as it is."""
    zero = isinstance(value, KernelConstant) and isinstance(value.value, float) and value.value == 0
    return integer(0) if zero and isinstance(other, Data) and other.dtype.floating else value


def _as_offsets(value: Value, ends: tuple[int, int] | None = None, *, data: bool = False) -> Value:
    """A block of offsets that an operation computes, as offsets of a layout; anything else as it is."""
    if isinstance(value, Data) and value.shape and value.dtype == offset:
        return layouts.gathered(value.ssa, ends, data=data)
    return value


def _offsets_of_data(b: Builder, value: Value) -> Value:
    """Data that meets offsets: numbers become integers, blocks become offsets that are data."""
    if not isinstance(value, Data) or value.dtype == boolean:
        return value
    if not value.shape:
        return b.as_integer(value) or value
    return _as_offsets(b.materialize(value, offset), data=value.dtype != offset)


def _depends_on_data(value: Value) -> bool:
    """Whether offsets come from memory."""
    if isinstance(value, Integer):
        return any(atom.kind == "memory" for atom in value.form.origins())
    return isinstance(value, Offsets) and any(one.source == "data" for one in value.layout.gathers)


def _ends(value: Value) -> tuple[int, int] | None:
    """Bounds of integers and offsets, if they are known."""
    if isinstance(value, Integer):
        return value.form.range if value.form.bounded else None
    return layouts.bounds(value.layout) if isinstance(value, Offsets) else None


def _is_number(value: Value) -> bool:
    """A compile-time number (a bool is none)."""
    if isinstance(value, KernelConstant):
        return isinstance(value.value, float)
    return isinstance(value, Integer) and value.fixed


def _number(value: Value) -> int | float:
    if isinstance(value, KernelConstant):
        assert isinstance(value.value, float)
        return value.value
    assert isinstance(value, Integer)
    return value.value


def _divide(b: Builder, left: Value, right: Value) -> Value:
    if (
        _is_number(left)
        and _is_number(right)
        and (isinstance(left, KernelConstant) or isinstance(right, KernelConstant))
    ):
        return _fold(b, "/", left, right)
    raise b.error(
        "`/` gives a fraction, and a kernel computes with integers", "write `//` for the integer quotient"
    )


def _fold(b: Builder, symbol: str, left: Value, right: Value) -> Value:
    """Compile-time arithmetic."""
    if isinstance(left, Integer) and isinstance(right, Integer) and symbol in ("+", "-", "*", "//", "%"):
        return _integers(b, symbol, left, right)
    if isinstance(left, Integer) and isinstance(right, Integer) and symbol in ("maximum", "minimum"):
        return Integer(b.quotient(symbol[:3], left.form, right.form))
    x, y = _number(left), _number(right)
    if symbol in ("**", "<<") and (abs(y) > 64 or (y < 0 and isinstance(y, int))):
        b.fail(f"`{x} {symbol} {y}` is no sensible integer")
    try:
        result = _PYTHON[symbol](x, y)
    except (ArithmeticError, TypeError, ValueError) as error:
        b.fail(f"`{x} {symbol} {y}` cannot be computed: {error}")
    if isinstance(result, complex):
        b.fail(f"`{x} {symbol} {y}` is no real number")
    if isinstance(result, float):
        return KernelConstant(result)
    return Integer(b.checked(Form.of(result)))


def _integers(b: Builder, symbol: str, left: Integer, right: Integer) -> Integer:
    x, y = left.form, right.form
    if symbol in ("<<", ">>") and right.fixed and 0 <= right.value < 40:
        factor = Form.of(2**right.value)
        return Integer(b.checked(x * factor) if symbol == "<<" else b.quotient("floordiv", x, factor))
    if symbol == "&" and right.fixed and right.value >= 0 and (right.value & (right.value + 1)) == 0:
        return Integer(b.quotient("mod", x, Form.of(right.value + 1)))
    if symbol == "+":
        return Integer(b.checked(x + y))
    if symbol == "-":
        return Integer(b.checked(x - y))
    if symbol == "*":
        if not (x.bounded and y.bounded) and not (left.fixed or right.fixed):
            b.fail(
                "the product of two numbers from memory is no offset", 'compute with `.to("int32")` values'
            )
        return Integer(b.checked(x * y))
    if symbol in ("//", "%"):
        return Integer(b.quotient("floordiv" if symbol == "//" else "mod", x, y))
    if symbol in ("maximum", "minimum"):
        return Integer(b.quotient(symbol[:3], x, y))
    raise b.error(
        f"`{symbol}` is not available for integers known only when the program runs",
        "available: + - * // % min max",
    )


def _offsets(b: Builder, symbol: str, left: Integer | Offsets, right: Integer | Offsets) -> Offsets | None:
    """The operator on offsets, if its result has a layout again."""
    if symbol == "-" and isinstance(right, Offsets):
        return _offsets(b, "+", left, Offsets(layouts.scale(right.layout, Form.of(-1))))
    if symbol == "*":
        if isinstance(left, Integer):
            left, right = right, left
        if isinstance(left, Offsets) and isinstance(right, Integer) and right.fixed:
            return Offsets(layouts.scale(left.layout, right.form))
        return None
    if symbol == "%" and isinstance(left, Offsets) and isinstance(right, Integer):
        # A remainder that changes nothing keeps the layout.
        ends = layouts.bounds(left.layout)
        unchanged = ends is not None and ends[0] >= 0 and ends[1] < right.form.low
        return left if unchanged else None
    if symbol not in ("+", "-"):
        return None
    if isinstance(left, Integer):
        left, right = right, left
    assert isinstance(left, Offsets)
    if isinstance(right, Integer):
        return Offsets(layouts.shift(left.layout, right.form if symbol == "+" else -right.form))
    total = layouts.add(left.layout, right.layout)
    if total is None:
        mismatch(b, symbol, left, right)
    return Offsets(total)


def mismatch(b: Builder, symbol: str, left: Value, right: Value) -> NoReturn:
    """Raises the error of two shapes that do not fit."""
    b.fail(
        f"`{symbol}` of {left.describe()} and {right.describe()}: the shapes do not fit",
        "sizes must be equal or 1, counted from the last dimension; insert dimensions by [:, None] or [None, :]",
    )


def _move(b: Builder, symbol: str, left: Value, right: Value) -> Pointer:
    """A pointer plus or minus offsets."""
    if isinstance(right, Pointer):
        left, right = right, left
        if symbol != "+" or isinstance(right, Pointer):
            b.fail(
                f"`{symbol}` of {right.describe()} and {left.describe()}",
                "a pointer moves by pointer + offsets",
            )
    assert isinstance(left, Pointer)
    if symbol not in ("+", "-"):
        b.fail(f"`{symbol}` does not apply to {left.describe()}", "a pointer moves by `+` and `-`")
    right = _offsets_of_data(b, right)
    if not isinstance(right, Integer | Offsets):
        b.fail(
            f"{left.describe()} cannot be moved by {right.describe()}",
            "it moves by integers and blocks of them",
        )
    total = binary(b, symbol, left.offset, right)
    assert isinstance(total, Integer | Offsets | Data)
    return Pointer(left.argument, total)


# Data


def _operand_dtypes(b: Builder, what: str, operands: Sequence[Value]) -> Dtype:
    """The common element type of operands at least one of which is a block or number of data."""
    known = [
        value.dtype if isinstance(value, Data) else offset
        for value in operands
        if isinstance(value, Data | Offsets)
    ]
    for value in operands:
        if isinstance(value, KernelConstant) and isinstance(value.value, float):
            if any(dtype.floating for dtype in known):
                b.fail(
                    f"{what} of a fraction ({value.value})",
                    "numbers in floating point but 0 come from arrays",
                )
            b.fail(
                f"{what} of a fraction ({value.value}) and integers",
                "scale with baco.requantize(x, scale), the only operation that takes a fraction",
            )
        if not isinstance(value, Data | Offsets | Integer):
            b.fail(f"{what} does not apply to {value.describe()}", "it takes integers and blocks of them")
    dtype = known[0] if known else offset
    for other in known[1:]:
        if boolean in (dtype, other) and dtype != other:
            b.fail(
                f"{what} of {dtype} and {other}",
                "turn conditions into numbers by baco.where(condition, 1, 0)",
            )
        if dtype != other and (dtype.floating or other.floating):
            b.fail(f"{what} of {dtype} and {other}", 'elements become float32 by `.to("float32")`')
        dtype = promote(dtype, other)
    if any(isinstance(value, Integer) and not value.fixed for value in operands) and dtype not in (
        offset,
        boolean,
    ):
        dtype = promote(dtype, int32)  # as wide as a number that the program computes
    return dtype


def coerce(b: Builder, what: str, operands: Sequence[Value], dtype: Dtype | None = None) -> list[Data]:
    """The operands with a common element type and shape.

    Args:
        what: the operation, for errors.
        dtype: the element type, if it is not to follow from the operands.
    """
    common = _operand_dtypes(b, what, operands)
    common = dtype or common
    shape: tuple[int, ...] = ()
    for value in operands:
        own = value.shape if isinstance(value, Data | Offsets) else ()
        joint = layouts.broadcast_shapes(shape, own)
        if joint is None:
            b.fail(
                f"{what}: the shapes {format_shape(shape)} and {format_shape(own)} do not fit",
                "sizes must be equal or 1, counted from the last dimension; insert dimensions by [:, None] or [None, :]",
            )
        shape = joint
    result = []
    for value in operands:
        assert isinstance(value, Integer | Offsets | Data)
        data = b.materialize(value, common)
        result.append(Data(b.emit_broadcast(data.ssa, shape)))
    return result


def _operator_ends(symbol: str, left: Value, right: Value) -> tuple[int, int] | None:
    """Bounds of an operator's results on offsets, where they follow from those of the operands."""
    a, c = _ends(left), _ends(right)
    if a is None or c is None:
        return None
    if symbol == "%":
        return (0, c[1] - 1) if c[1] > 0 else (c[0] + 1, 0)
    if symbol in ("&", "|", "^"):
        if min(a[0], c[0]) < 0:
            return None
        return 0, min(a[1], c[1]) if symbol == "&" else (1 << max(a[1], c[1]).bit_length()) - 1
    corners = [int(_PYTHON[symbol](x, y)) for x in a for y in c]
    return min(corners), max(corners)


def elementwise(b: Builder, symbol: str, left: Value, right: Value) -> Data | Offsets:
    """An operator on data, element by element."""
    what = f"`{symbol}`"
    if symbol not in ELEMENTWISE:
        b.fail(f"{what} is not available for {left.describe()} and {right.describe()}")
    dtype = _operand_dtypes(b, what, (left, right))
    if dtype.floating:
        _check_floats(b, symbol, (left, right), dtype)
    if dtype == boolean and symbol not in ("&", "|", "^"):
        b.fail(
            f"{what} of conditions",
            "conditions combine by & | ^ ~; numbers come from baco.where(condition, 1, 0)",
        )
    if symbol in ("//", "%", "<<", ">>"):
        _check_right_operand(b, symbol, right, dtype)
    x, y = coerce(b, what, (left, right))
    result = Data(b.emit(ELEMENTWISE[symbol](x.ssa, y.ssa)))
    if dtype == offset and result.shape:
        data = _depends_on_data(left) or _depends_on_data(right)
        return layouts.gathered(result.ssa, _operator_ends(symbol, left, right), data=data)
    if symbol == "&" and isinstance(left, Data) and isinstance(right, Data):
        return Data(result.ssa, both(left.window, right.window, result.shape))
    return result


def _check_floats(b: Builder, symbol: str, operands: Sequence[Value], dtype: Dtype) -> None:
    """Raises unless arrays of floating point do this."""
    if symbol == "+" and dtype != float32:
        b.fail(f"`+` of {dtype}", 'sums are float32: `.to("float32")`')
    zeros = [value for value in operands if isinstance(value, Integer) and value.fixed and value.value == 0]
    if symbol == "maximum" and len(zeros) != 1:
        b.fail(f"`maximum` of two blocks of {dtype}", "arrays of floating point have baco.maximum(x, 0) only")


def _check_right_operand(b: Builder, symbol: str, right: Value, dtype: Dtype) -> None:
    if not isinstance(right, Integer) or not right.fixed:
        b.fail(
            f"the right operand of `{symbol}` on data must be a compile-time integer, got {right.describe()}"
        )
    if symbol in ("//", "%") and right.value == 0:
        b.fail("division by 0")
    width = 64 if dtype == offset else dtype.numpy.itemsize * 8
    if symbol in ("<<", ">>") and not 0 <= right.value < width:
        b.fail(f"a shift of {dtype} goes from 0 to {width - 1}, got {right.value}")


def both(left: Window | None, right: Window | None, shape: tuple[int, ...]) -> Window | None:
    """The window that both conditions leave, after broadcasting to `shape`."""
    if left is None or right is None:
        return None
    lows: dict[int, tuple[Form, ...]] = {}
    highs: dict[int, tuple[Form, ...]] = {}
    for window in (left, right):
        distance = len(shape) - len(window.shape)
        for source, target in ((window.lows, lows), (window.highs, highs)):
            for dimension, bounds in source.items():
                if window.shape[dimension] != shape[dimension + distance]:
                    return None  # one element, repeated: no bound on where it is
                target[dimension + distance] = target.get(dimension + distance, ()) + bounds
    return Window(shape, lows, highs, left.conditions + right.conditions)


def compare(b: Builder, symbol: str, left: Value, right: Value) -> Value:
    """The value of `left symbol right`, for == != < <= > >=."""
    if (
        isinstance(left, KernelConstant)
        or isinstance(right, KernelConstant)
        or (_is_number(left) and _is_number(right))
    ):
        return _compare_constants(b, symbol, left, right)
    for value in (left, right):
        if not isinstance(value, Integer | Offsets | Data):
            b.fail(f"`{symbol}` does not compare {value.describe()}")
    x, y = coerce(b, f"`{symbol}`", (left, right), _comparison_dtype(b, symbol, left, right))
    result = b.emit(CmpOp(_PREDICATES[symbol], x.ssa, y.ssa))
    return Data(result, _window(b, symbol, left, right))


def _comparison_dtype(b: Builder, symbol: str, left: Value, right: Value) -> Dtype:
    if isinstance(left, Integer) and isinstance(right, Integer):
        return offset
    dtype = _operand_dtypes(b, f"`{symbol}`", (left, right))
    if dtype == boolean and symbol not in ("==", "!="):
        b.fail(f"`{symbol}` of conditions")
    return dtype


def _compare_constants(b: Builder, symbol: str, left: Value, right: Value) -> KernelConstant:
    pair: list[object] = []
    for value in (left, right):
        if isinstance(value, KernelConstant):
            pair.append(value.value)
        elif _is_number(value):
            pair.append(_number(value))
        elif isinstance(value, Pointer | BlockPointer) and symbol in ("==", "!="):
            b.fail("a pointer is compared with None by `is None` or `is not None`")
        else:
            b.fail(f"`{symbol}` of {left.describe()} and {right.describe()}")
    try:
        return KernelConstant(bool(_COMPARE[symbol](*pair)))
    except TypeError:
        b.fail(f"`{symbol}` of {left.describe()} and {right.describe()}")


def _window(b: Builder, symbol: str, left: Value, right: Value) -> Window | None:
    """A comparison of integers, or of a run of offsets with an integer, as a window."""
    if isinstance(left, Integer) and isinstance(right, Integer) and symbol in ("<", "<=", ">", ">="):
        difference = right.form - left.form if symbol in ("<", "<=") else left.form - right.form
        return Window((), conditions=(difference + Form.of(symbol in ("<=", ">=")),))
    if isinstance(left, Integer) and isinstance(right, Offsets):
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        return _window(b, mirrored[symbol], right, left) if symbol in mirrored else None
    if not (isinstance(left, Offsets) and isinstance(right, Integer)):
        return None
    if len(left.layout.axes) != 1 or left.layout.gathers:
        return None
    ((dimension, axis),) = left.layout.axes.items()
    if symbol not in _PREDICATES or symbol in ("==", "!=") or axis.coefficient.value < 1:
        return None
    # coefficient * i < distance, or >= distance, with the smallest such i rounded up.
    distance = right.form - left.layout.rest - axis.coefficient * axis.start + Form.of(symbol in ("<=", ">"))
    bound = distance if axis.coefficient.value == 1 else b.quotient("cdiv", distance, axis.coefficient)
    if symbol in ("<", "<="):
        return Window(left.shape, highs={dimension: (bound,)})
    return Window(left.shape, lows={dimension: (bound,)})


def negate(b: Builder, value: Value) -> Value:
    """-value."""
    if isinstance(value, KernelConstant) and isinstance(value.value, float):
        return KernelConstant(-value.value)
    if isinstance(value, Data) and value.dtype == boolean:
        b.fail("`-` of a condition", "conditions are inverted by `~`")
    return binary(b, "-", integer(0), value)


def invert(b: Builder, value: Value) -> Value:
    """~value: of a condition its opposite, of integers -value - 1."""
    if isinstance(value, Data) and value.dtype == boolean:
        true = b.emit_broadcast(b.emit_constant(-1, boolean.ir), value.shape)
        return Data(b.emit(XorOp(value.ssa, true)))
    if isinstance(value, Integer | Offsets):
        return binary(b, "-", integer(-1), value)
    if isinstance(value, Data):
        return elementwise(b, "^", value, integer(-1 if value.dtype.range[0] < 0 else value.dtype.range[1]))
    raise b.error(f"`~` of {value.describe()}")


def select(b: Builder, condition: Value, yes: Value, no: Value) -> Value:
    """`yes` where the condition holds, else `no`."""
    if isinstance(condition, KernelConstant) and isinstance(condition.value, bool):
        return yes if condition.value else no
    if not isinstance(condition, Data) or condition.dtype != boolean:
        b.fail(
            f"baco.where needs a condition, got {condition.describe()}", "conditions come from comparisons"
        )
    if not any(isinstance(value, Data) for value in (yes, no)):
        # Numbers of Python without a type: as wide as results are.
        x, y = coerce(b, "baco.where", (yes, no), offset if Offsets in (type(yes), type(no)) else int32)
    else:
        x, y = coerce(b, "baco.where", (yes, no))
    shape = layouts.broadcast_shapes(condition.shape, x.shape)
    if shape is None:
        b.fail(f"baco.where of {condition.describe()} and {x.describe()}: the shapes do not fit")
    chosen = [b.emit_broadcast(value, shape) for value in (condition.ssa, x.ssa, y.ssa)]
    ends = [_ends(yes), _ends(no)]
    known = [pair for pair in ends if pair is not None]
    span = (min(low for low, _ in known), max(high for _, high in known)) if len(known) == 2 else None
    data = _depends_on_data(yes) or _depends_on_data(no)
    return _as_offsets(Data(b.emit(SelectOp(*chosen))), span, data=data)
