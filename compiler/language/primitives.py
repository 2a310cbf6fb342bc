"""The functions of the block language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

from baco.common.errors import did_you_mean
from baco.compiler.dialects.baco import DotOp, ExpandDimsOp, TransOp
from baco.compiler.dialects.baco_types import MOST_BLOCK_ELEMENTS, MOST_BLOCK_RANK
from baco.compiler.language import access, arithmetic, layouts, rows
from baco.compiler.language.builder import Builder
from baco.compiler.language.dtypes import BY_NAME, Dtype, boolean, float32, int8, int16, int32, offset, uint8
from baco.compiler.language.forms import Form, ceiling_quotient
from baco.compiler.language.source import KernelError
from baco.compiler.language.values import (
    BlockPointer,
    Data,
    Integer,
    KernelConstant,
    KernelRange,
    Offsets,
    Pointer,
    Tuple,
    Value,
    Window,
    format_shape,
    integer,
)

NONE = rows.NO_VALUE
Arguments = Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class Primitive:
    """A function of the block language. It means something in a kernel only.

    Attributes:
        name: without `baco.`.
        parameters: names, in order.
        translate: gives the value of a call.
        defaults: of the last parameters.
        variadic: takes any number of values from two, by position.
    """

    name: str
    parameters: tuple[str, ...]
    translate: Callable[[Builder, Arguments], Value]
    defaults: Mapping[str, Value] = field(default_factory=dict)
    variadic: bool = False

    def __call__(self, *values: Any, **named: Any) -> Any:
        raise KernelError(
            f"baco.{self.name} works in kernels only",
            hint="call it in a function marked by `@baco.jit`, and launch that",
        )


class CeilingDivision(Primitive):
    """`cdiv`, which also works outside of kernels, for grids: `(baco.cdiv(M, 16),)`."""

    def __call__(self, dividend: int, divisor: int) -> int:  # type: ignore[override]
        """The least integer that is at least dividend / divisor.

        Raises:
            KernelError: the divisor is not positive, or one of them no integer.
        """
        try:
            x, y = dividend.__index__(), divisor.__index__()
        except AttributeError as error:
            raise KernelError(f"baco.cdiv takes two integers, got {dividend!r} and {divisor!r}") from error
        if y < 1:
            raise KernelError(f"baco.cdiv divides by a positive integer, got {y}")
        return ceiling_quotient(x, y)


def to_dtype(b: Builder, value: Value) -> Dtype:
    """The element type that a string or a type names."""
    if isinstance(value, KernelConstant):
        if isinstance(value.value, Dtype):
            return value.value
        if isinstance(value.value, str):
            if value.value in BY_NAME:
                return BY_NAME[value.value]
            b.fail(f"no element type '{value.value}'", did_you_mean(value.value, BY_NAME))
    raise b.error(
        f"an element type is needed, got {value.describe()}", "element types: " + ", ".join(BY_NAME)
    )


def to_shape(b: Builder, value: Value) -> tuple[int, ...]:
    """The shape that a tuple of compile-time integers, or one such integer, names."""
    items = value.items if isinstance(value, Tuple) else (value,)
    if not items:
        b.fail("a block has at least one dimension")
    shape = tuple(b.fixed_integer(item, "a size of a block", low=1) for item in items)
    check_size(b, shape)
    return shape


def check_size(b: Builder, shape: tuple[int, ...]) -> None:
    """Raises unless a block can have the shape."""
    if len(shape) > MOST_BLOCK_RANK:
        b.fail(f"a block has at most {MOST_BLOCK_RANK} dimensions, not {len(shape)}")
    if prod(shape) > MOST_BLOCK_ELEMENTS:
        b.fail(
            f"a block {format_shape(shape)} has {prod(shape)} elements, more than {MOST_BLOCK_ELEMENTS}",
            "cut the work into smaller blocks",
        )


def to_integer(b: Builder, value: Value, what: str) -> Form:
    number = b.as_integer(value)
    if number is None:
        b.fail(f"{what} must be an integer, got {value.describe()}")
    return number.form


def _program_id(b: Builder, args: Arguments) -> Value:
    return Integer(b.program_id(_axis_of_grid(b, args["axis"])))


def _axis_of_grid(b: Builder, value: Value) -> int:
    axis = b.fixed_integer(value, "the axis", low=0)
    if axis >= len(b.grid):
        b.fail(
            f"axis {axis} does not exist: the kernel was launched on a grid of {len(b.grid)} "
            + ("axis" if len(b.grid) == 1 else "axes"),
            "axes count from 0; --grid says how many programs there are along each, or `grid(meta)` in the kernel's file",
        )
    return axis


def _num_programs(b: Builder, args: Arguments) -> Value:
    return integer(int(b.grid[_axis_of_grid(b, args["axis"])]))


def _cdiv(b: Builder, args: Arguments) -> Value:
    return Integer(
        b.quotient(
            "cdiv",
            to_integer(b, args["dividend"], "the dividend"),
            to_integer(b, args["divisor"], "the divisor"),
        )
    )


def _arange(b: Builder, args: Arguments) -> Value:
    start = b.fixed_form(args["start"], "the start of an arange")
    end = args["end"]
    if end == NONE:
        start, last = Form(), start
    else:
        last = b.fixed_form(end, "the end of an arange")
    if last.value <= start.value:
        b.fail(f"baco.arange({start.value}, {last.value}) is empty", "the end must exceed the start")
    check_size(b, (last.value - start.value,))
    return layouts.arange(start, last)


def _full(b: Builder, args: Arguments) -> Value:
    shape, dtype = to_shape(b, args["shape"]), to_dtype(b, args["dtype"])
    value = args["value"]
    if not isinstance(value, Integer) and not (isinstance(value, Data) and not value.shape):
        b.fail(f"a block is filled with an integer, got {value.describe()}")
    if isinstance(value, Data) and value.dtype == boolean:
        b.fail("a block is filled with an integer, got a condition", "use baco.where")
    return Data(b.emit_broadcast(b.materialize(value, dtype).ssa, shape))


def _zeros(b: Builder, args: Arguments) -> Value:
    return _full(b, {**args, "value": integer(0)})


def _load(b: Builder, args: Arguments) -> Value:
    return access.load(b, args["pointer"], args["mask"], args["other"], args["boundary_check"])


def _store(b: Builder, args: Arguments) -> Value:
    access.store(b, args["pointer"], args["value"], args["mask"], args["boundary_check"])
    return NONE


def dot(b: Builder, a: Value, second: Value, accumulator: Value = NONE) -> Value:
    """The matrix product of two blocks."""
    for value in (a, second):
        if not isinstance(value, Data) or len(value.shape) != 2:
            b.fail(f"baco.dot multiplies blocks with two dimensions, got {value.describe()}")
        if value.dtype not in (int8, uint8, int16) and (value.dtype == float32 or not value.dtype.floating):
            b.fail(
                f"baco.dot multiplies int8, uint8 or int16, or elements of floating point, got {value.describe()}",
                'cast by `.to("int8")`',
            )
    assert isinstance(a, Data)
    assert isinstance(second, Data)
    if a.dtype != second.dtype and not {a.dtype, second.dtype} <= {int8, uint8}:
        b.fail(f"baco.dot of {a.describe()} and {second.describe()}", "an array has elements of one type")
    total_type = float32 if a.dtype.floating else int32
    if a.shape[1] != second.shape[0]:
        b.fail(
            f"baco.dot of {a.describe()} and {second.describe()}: "
            f"the first has {a.shape[1]} columns, the second {second.shape[0]} rows"
        )
    total = None
    if accumulator != NONE:
        shape = (a.shape[0], second.shape[1])
        if not isinstance(accumulator, Data) or accumulator.shape != shape or accumulator.dtype != total_type:
            b.fail(
                f"the accumulator of this product must be a block {total_type}{format_shape(shape)}, got {accumulator.describe()}"
            )
        total = accumulator.ssa
    return Data(b.emit(DotOp(a.ssa, second.ssa, total)))


def _requantize(b: Builder, args: Arguments) -> Value:
    dtype = None if args["dtype"] == NONE else to_dtype(b, args["dtype"])
    return rows.requantize(b, args["x"], args["scale"], dtype)


def _reduction(kind: str) -> Primitive:
    return Primitive(
        kind,
        ("x", "axis", "keep_dims"),
        lambda b, v: rows.reduce(b, kind, v["x"], v["axis"], v["keep_dims"]),
        {"axis": NONE, "keep_dims": KernelConstant(False)},
    )


def cast(b: Builder, value: Value, dtype: Dtype) -> Value:
    """The value in another element type."""
    if isinstance(value, Data) and value.dtype == boolean:
        b.fail("a condition has no integer type", "use baco.where(condition, 1, 0)")
    if not isinstance(value, Integer | Offsets | Data):
        b.fail(f"a cast of {value.describe()}", "blocks and integers can be cast")
    return b.materialize(value, dtype)


def _expand_dims(b: Builder, args: Arguments) -> Value:
    return expand_dims(b, args["x"], b.fixed_integer(args["axis"], "the axis"))


def expand_dims(b: Builder, value: Value, axis: int) -> Value:
    """One more dimension, of size 1, at `axis`."""
    if isinstance(value, Pointer) and not isinstance(value.offset, Integer):
        moved = expand_dims(b, value.offset, axis)
        assert isinstance(moved, Offsets | Data)
        return Pointer(value.argument, moved)
    if not isinstance(value, Offsets | Data) or not value.shape:
        b.fail(f"a dimension cannot be inserted into {value.describe()}", "blocks have dimensions")
    rank = len(value.shape)
    check_size(b, (1, *value.shape))
    if not -rank - 1 <= axis <= rank:
        b.fail(f"axis {axis} does not exist after inserting one into {rank} dimensions")
    axis %= rank + 1
    if isinstance(value, Offsets):
        return Offsets(layouts.expand(value.layout, axis))
    window = value.window
    if window is not None:
        window = Window(
            (*value.shape[:axis], 1, *value.shape[axis:]),
            {d + (d >= axis): bounds for d, bounds in window.lows.items()},
            {d + (d >= axis): bounds for d, bounds in window.highs.items()},
            window.conditions,
        )
    return Data(b.emit(ExpandDimsOp(value.ssa, axis)), window)


def transpose(b: Builder, value: Value, permutation: tuple[int, ...] | None = None) -> Value:
    """The block with its dimensions permuted (default: two exchanged)."""
    if isinstance(value, Pointer) and not isinstance(value.offset, Integer):
        moved = transpose(b, value.offset, permutation)
        assert isinstance(moved, Offsets | Data)
        return Pointer(value.argument, moved)
    if not isinstance(value, Offsets | Data) or len(value.shape) < 2:
        b.fail(f"{value.describe()} cannot be transposed", "blocks with two dimensions or more can")
    rank = len(value.shape)
    if permutation is None:
        if rank != 2:
            b.fail(f"a transposition of {rank} dimensions needs the permutation", "baco.trans(x, (0, 2, 1))")
        permutation = (1, 0)
    if sorted(permutation) != list(range(rank)):
        b.fail(f"{permutation} is no permutation of {rank} dimensions")
    if isinstance(value, Offsets):
        return Offsets(layouts.permute(value.layout, permutation))
    return Data(b.emit(TransOp(value.ssa, permutation)))


def _trans(b: Builder, args: Arguments) -> Value:
    order = args["permutation"]
    if order == NONE:
        return transpose(b, args["x"])
    if not isinstance(order, Tuple):
        b.fail(f"the permutation must be a tuple, got {order.describe()}")
    return transpose(b, args["x"], tuple(b.fixed_integer(item, "a dimension") for item in order.items))


def _broadcast_to(b: Builder, args: Arguments) -> Value:
    value, shape = args["x"], to_shape(b, args["shape"])
    own = value.shape if isinstance(value, Offsets | Data) else () if isinstance(value, Integer) else None
    if own is None or layouts.broadcast_shapes(own, shape) != shape:
        b.fail(f"{value.describe()} cannot be broadcast to {format_shape(shape)}")
    assert isinstance(value, Integer | Offsets | Data)
    if isinstance(value, Data):
        return Data(b.emit_broadcast(value.ssa, shape))
    return Offsets(layouts.broadcast(layouts.as_layout(value), shape))


def _make_block_ptr(b: Builder, args: Arguments) -> Value:
    base = args["base"]
    if not isinstance(base, Pointer) or base.shape:
        b.fail(f"the base of a block pointer is a pointer, got {base.describe()}", "pass an array argument")
    assert isinstance(base.offset, Integer | Data)
    offset_of_base = b.as_integer(base.offset)
    assert offset_of_base is not None
    lists = {}
    for name in ("shape", "strides", "offsets", "block_shape"):
        value = args[name]
        items = value.items if isinstance(value, Tuple) else (value,)
        what = f"an element of `{name}`"
        if name == "offsets":
            lists[name] = tuple(to_integer(b, item, what) for item in items)
        else:
            lists[name] = tuple(
                b.fixed_form(item, what, low=1 if name == "block_shape" else 0) for item in items
            )
    ranks = {name: len(forms) for name, forms in lists.items()}
    if len(set(ranks.values())) != 1:
        b.fail("the ranks differ: " + ", ".join(f"{name} has {rank}" for name, rank in ranks.items()))
    _check_order(b, args["order"], ranks["shape"])
    check_size(b, tuple(size.value for size in lists["block_shape"]))
    return BlockPointer(
        Pointer(base.argument, offset_of_base),
        lists["shape"],
        lists["strides"],
        lists["offsets"],
        lists["block_shape"],
    )


def _check_order(b: Builder, order: Value, rank: int) -> None:
    """`order` is accepted for kernels written elsewhere; the strides say everything already."""
    if order == NONE:
        return
    items = order.items if isinstance(order, Tuple) else (order,)
    if sorted(b.fixed_integer(item, "an element of `order`") for item in items) != list(range(rank)):
        b.fail(f"`order` must be a permutation of 0 ... {rank - 1}")


def _advance(b: Builder, args: Arguments) -> Value:
    pointer, steps = args["pointer"], args["offsets"]
    if not isinstance(pointer, BlockPointer):
        b.fail(f"baco.advance moves block pointers, got {pointer.describe()}", "other pointers move by `+`")
    items = steps.items if isinstance(steps, Tuple) else (steps,)
    if len(items) != len(pointer.block):
        b.fail(f"{len(items)} offsets for a block with {len(pointer.block)} dimensions")
    moved = tuple(
        start + to_integer(b, item, "an offset") for start, item in zip(pointer.offsets, items, strict=True)
    )
    return BlockPointer(pointer.base, pointer.shape, pointer.strides, moved, pointer.block)


def _range(b: Builder, args: Arguments, *, unrolled: bool = False) -> Value:
    forms = [
        to_integer(b, args[name], "a bound of a range") for name in ("start", "end") if args[name] != NONE
    ]
    start, end = (Form(), forms[0]) if len(forms) == 1 else forms
    step = b.fixed_form(args["step"], "the step of a range")
    if step.value < 1:
        b.fail(
            f"the step of a range must be positive, got {step.value}",
            "count upwards and compute the index from that",
        )
    if unrolled and not (start.fixed and end.fixed):
        b.fail("the bounds of baco.static_range must be compile-time integers", "use range")
    return KernelRange(start, end, step, unrolled)


def _extremum(symbol: str) -> Callable[[Builder, Arguments], Value]:
    def translate(b: Builder, args: Arguments) -> Value:
        values = list(args.values())
        result = values[0]
        for value in values[1:]:
            result = arithmetic.binary(b, symbol, result, value)
        return result

    return translate


def _abs(b: Builder, args: Arguments) -> Value:
    value = args["x"]
    if isinstance(value, KernelConstant) and isinstance(value.value, float):
        return KernelConstant(abs(value.value))
    if isinstance(value, Integer) and value.fixed:
        return integer(abs(value.value))
    if isinstance(value, Data) and value.dtype == uint8:
        return value
    return arithmetic.binary(b, "maximum", value, arithmetic.negate(b, value))


def _len(b: Builder, args: Arguments) -> Value:
    value = args["x"]
    if not isinstance(value, Tuple):
        b.fail(f"len of {value.describe()}", "the size of a block is in its .shape")
    return integer(len(value.items))


def _to_number(kind: type[int] | type[float]) -> Callable[[Builder, Arguments], Value]:
    def translate(b: Builder, args: Arguments) -> Value:
        value = args["x"]
        number = value.value if isinstance(value, KernelConstant) else b.fixed_integer(value, "the number")
        if not isinstance(number, int | float):
            b.fail(f"{kind.__name__} of {value.describe()}")
        if kind is float:
            return KernelConstant(float(number))
        if not isfinite(number):
            b.fail(f"int of {number}")
        return Integer(b.checked(Form.of(int(number))))

    return translate


_BLOCK_POINTER = ("base", "shape", "strides", "offsets", "block_shape", "order")
_RANGE = (("start", "end", "step"), {"end": NONE, "step": integer(1)})

PRIMITIVES: dict[str, Primitive] = {
    primitive.name: primitive
    for primitive in (
        Primitive("program_id", ("axis",), _program_id),
        Primitive("num_programs", ("axis",), _num_programs),
        CeilingDivision("cdiv", ("dividend", "divisor"), _cdiv),
        Primitive("arange", ("start", "end"), _arange, {"end": NONE}),
        Primitive("zeros", ("shape", "dtype"), _zeros, {"dtype": KernelConstant(int32)}),
        Primitive("full", ("shape", "value", "dtype"), _full, {"dtype": KernelConstant(int32)}),
        Primitive(
            "load",
            ("pointer", "mask", "other", "boundary_check"),
            _load,
            {"mask": NONE, "other": integer(0), "boundary_check": NONE},
        ),
        Primitive(
            "store",
            ("pointer", "value", "mask", "boundary_check"),
            _store,
            {"mask": NONE, "boundary_check": NONE},
        ),
        Primitive("dot", ("a", "b", "acc"), lambda b, v: dot(b, v["a"], v["b"], v["acc"]), {"acc": NONE}),
        Primitive("make_block_ptr", _BLOCK_POINTER, _make_block_ptr, {"order": NONE}),
        Primitive("advance", ("pointer", "offsets"), _advance),
        Primitive("maximum", ("x", "y"), _extremum("maximum")),
        Primitive("minimum", ("x", "y"), _extremum("minimum")),
        Primitive(
            "where",
            ("condition", "x", "y"),
            lambda b, v: arithmetic.select(b, v["condition"], v["x"], v["y"]),
        ),
        *(
            Primitive(name, ("x", "scale", "dtype"), _requantize, {"dtype": NONE})
            for name in ("requantize", "requantise")
        ),
        _reduction("sum"),
        _reduction("max"),
        _reduction("min"),
        Primitive(
            "softmax",
            ("x", "scale", "out_scale", "mask"),
            lambda b, v: rows.softmax(b, v["x"], v["scale"], v["out_scale"], v["mask"]),
            {"out_scale": KernelConstant(1 / 127), "mask": NONE},
        ),
        Primitive("cast", ("x", "dtype"), lambda b, v: cast(b, v["x"], to_dtype(b, v["dtype"]))),
        Primitive("trans", ("x", "permutation"), _trans, {"permutation": NONE}),
        Primitive("expand_dims", ("x", "axis"), _expand_dims),
        Primitive("broadcast_to", ("x", "shape"), _broadcast_to),
        Primitive("static_range", _RANGE[0], lambda b, v: _range(b, v, unrolled=True), _RANGE[1]),
    )
}

#: Built-in functions of Python that kernels may call.
BUILTINS: dict[str, Primitive] = {
    primitive.name: primitive
    for primitive in (
        Primitive("range", _RANGE[0], _range, _RANGE[1]),
        Primitive("max", (), _extremum("maximum"), variadic=True),
        Primitive("min", (), _extremum("minimum"), variadic=True),
        Primitive("abs", ("x",), _abs),
        Primitive("len", ("x",), _len),
        Primitive("int", ("x",), _to_number(int)),
        Primitive("float", ("x",), _to_number(float)),
    )
}

__all__ = [
    "BUILTINS",
    "PRIMITIVES",
    "Primitive",
    "cast",
    "dot",
    "expand_dims",
    "offset",
    "to_dtype",
    "transpose",
]
