"""What a name in a kernel can stand for while the kernel is translated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from baco.compiler.dialects.baco import element_type, shape_of
from baco.compiler.language.dtypes import BY_IR, Dtype
from baco.compiler.language.forms import Form, TooLargeError

#: Values in a tuple, those of tuples in it included.
MAX_ITEMS = 4096


class Value:
    """Base of all values."""

    def describe(self) -> str:
        """The kind of value, for messages."""
        raise NotImplementedError


@dataclass(frozen=True)
class KernelConstant(Value):
    """A compile-time value that is no integer: a bool, float, string, None or an element type."""

    value: bool | float | str | Dtype | None

    def describe(self) -> str:
        if isinstance(self.value, Dtype):
            return f"the type {self.value}"
        return f"the constant {self.value!r}"


@dataclass(frozen=True)
class Integer(Value):
    """A Python integer: known when compiling (`form.fixed`), or computed from program ids and loop variables."""

    form: Form

    @property
    def fixed(self) -> bool:
        return self.form.fixed

    @property
    def value(self) -> int:
        """The value of a compile-time integer."""
        return self.form.value

    def describe(self) -> str:
        return f"the constant {self.value}" if self.fixed else "an integer known only when the program runs"


@dataclass(frozen=True)
class Tuple(Value):
    """A tuple of values."""

    items: tuple[Value, ...]
    #: Values in it, those of tuples in it included.
    count: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", sum(getattr(item, "count", 1) for item in self.items))
        if self.count > MAX_ITEMS:
            raise TooLargeError(f"this tuple has more than {MAX_ITEMS:,} values")

    def describe(self) -> str:
        return f"a tuple of {len(self.items)}"


@dataclass(frozen=True)
class AxisTerm:
    """A dimension along which offsets change: element i lies at coefficient * (start + i).

    Attributes:
        coefficient: distance between neighbours; fixed.
        start: the logical offset of element 0.
        size: number of elements; fixed. Kept as a form since the names in it tell what the dimension is cut by.
    """

    coefficient: Form
    start: Form
    size: Form


@dataclass(frozen=True)
class Gather:
    """Offsets that follow no line, times a coefficient: remainders, offsets out of memory...

    Attributes:
        ssa: a block of element type index.
        dimensions: of the layout, one for each of the block; sizes are those of the layout, or 1.
        coefficient: fixed.
        low, high: bounds of the block's elements, if they are known.
        source: "program": the bounds follow from the program; "data": offsets from memory, which are not checked;
            "unknown": neither.
    """

    ssa: SSAValue
    dimensions: tuple[int, ...]
    coefficient: Form
    low: int
    high: int
    source: str

    @property
    def known(self) -> bool:
        """Whether the bounds hold."""
        return self.source == "program"


@dataclass(frozen=True)
class BlockLayout:
    """Offsets as a sum of a term per dimension, gathered terms, and a rest that is the same for the whole block.

    Attributes:
        shape: of the block.
        axes: dimension -> term; dimensions that are absent do not change the offset.
        rest: added to every element.
        gathers: terms without structure.
    """

    shape: tuple[int, ...]
    axes: dict[int, AxisTerm]
    rest: Form
    gathers: tuple[Gather, ...] = ()

    @property
    def origin(self) -> Form:
        """The offset of the first element."""
        total = self.rest
        for axis in self.axes.values():
            total = total + axis.coefficient * axis.start
        return total


@dataclass(frozen=True)
class Offsets(Value):
    """A block of integers with a known layout. It has no operation of its own: it is emitted where it is used."""

    layout: BlockLayout

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def describe(self) -> str:
        return f"a block of offsets {format_shape(self.shape)}"


@dataclass(frozen=True)
class Window:
    """Bounds on the elements of a block: element i of dimension d satisfies low <= i < high for all bounds of d.

    Attributes:
        shape: of the block.
        lows, highs: dimension -> bounds, all of which hold.
        conditions: numbers that must all be positive; else no element satisfies the window.
    """

    shape: tuple[int, ...]
    lows: dict[int, tuple[Form, ...]] = field(default_factory=dict)
    highs: dict[int, tuple[Form, ...]] = field(default_factory=dict)
    conditions: tuple[Form, ...] = ()

    @property
    def dimensions(self) -> set[int]:
        return set(self.lows) | set(self.highs)


@dataclass(frozen=True)
class Data(Value):
    """A number or block of numbers with an operation that computes it: loaded, a product, a comparison...

    Attributes:
        ssa: its value in the IR.
        window: of a comparison, what it says as bounds per dimension, if that is all it says.
    """

    ssa: SSAValue
    window: Window | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.ssa.type)

    @property
    def dtype(self) -> Dtype:
        return BY_IR[element_type(self.ssa.type)]

    def describe(self) -> str:
        if not self.shape:
            return f"a number of type {self.dtype}"
        if isinstance(element_type(self.ssa.type), IndexType):
            return f"a block of offsets {format_shape(self.shape)}"
        return f"a block {self.dtype}{format_shape(self.shape)}"


@dataclass(frozen=True)
class Argument:
    """An array argument of the kernel.

    Attributes:
        name: of the parameter.
        ssa: the pointer in the IR, to the first element of the array's buffer.
        dtype: of its elements.
        size: elements of the buffer.
    """

    name: str
    ssa: SSAValue
    dtype: Dtype
    size: int


@dataclass(frozen=True)
class Pointer(Value):
    """A pointer or block of pointers: an array and offsets into it, counted in elements."""

    argument: Argument
    offset: Integer | Offsets | Data

    @property
    def shape(self) -> tuple[int, ...]:
        return () if isinstance(self.offset, Integer) else self.offset.shape

    def describe(self) -> str:
        if not self.shape:
            return f"a pointer to {self.argument.dtype}"
        return f"a block of pointers to {self.argument.dtype} {format_shape(self.shape)}"


@dataclass(frozen=True)
class BlockPointer(Value):
    """A window on an array of any rank: what `make_block_ptr` gives.

    Attributes:
        base: of the whole array.
        shape: extents of the whole array, one per dimension.
        strides: elements between neighbours, one per dimension.
        offsets: position of the block's first element, one per dimension.
        block: sizes of the block, fixed.
    """

    base: Pointer
    shape: tuple[Form, ...]
    strides: tuple[Form, ...]
    offsets: tuple[Form, ...]
    block: tuple[Form, ...]

    @property
    def block_shape(self) -> tuple[int, ...]:
        return tuple(size.value for size in self.block)

    def describe(self) -> str:
        return f"a pointer to a block {self.base.argument.dtype}{format_shape(self.block_shape)}"


@dataclass(frozen=True)
class KernelRange(Value):
    """What `range(...)` gives; `unrolled` for `static_range`."""

    start: Form
    end: Form
    step: Form
    unrolled: bool

    def describe(self) -> str:
        return "a range"


@dataclass(frozen=True)
class Function(Value):
    """Something that can only be called: a primitive, a method of a value, or another kernel.

    Attributes:
        name: as the user wrote it.
        target: a `Primitive` or a `KernelFunction`.
        receiver: the value whose method it is.
    """

    name: str
    target: Any
    receiver: Value | None = None

    def describe(self) -> str:
        return f"the function `{self.name}`"


@dataclass(frozen=True)
class Module(Value):
    """The `baco` module, or whatever module the user calls by a name."""

    name: str
    members: dict[str, Any]

    def describe(self) -> str:
        return f"the module {self.name}"


@dataclass(frozen=True)
class Unavailable(Value):
    """A name whose value does not outlive the loop that gave it.

    Attributes:
        line: of the loop, in the user's file.
    """

    line: int

    def describe(self) -> str:
        return "a value of a loop that has ended"


def format_shape(shape: tuple[int, ...]) -> str:
    """A shape for messages: [16, 32]."""
    return "[" + ", ".join(map(str, shape)) + "]"


def integer(value: int) -> Integer:
    """A compile-time integer."""
    return Integer(Form.of(value))
