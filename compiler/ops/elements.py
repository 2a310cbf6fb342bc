"""Operators on real numbers whose results are made of one element of each operand, and their C functions.

The function is written for what it computes, of the functions in `host/real.h`. Several operators, one after the other, are one pass
over memory (`FusedElements`): what lies between them stays in registers, and costs neither a load and a store nor a line of the cache.
Elementary functions: `baco.compiler.ops.elementary`. Values are float32; each result is rounded once to float32 from operations in
float64 (of two numbers: from one in float32).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from baco.accel.input_format import InputFormat
from baco.accel.isa import float32_bits, float64_bits
from baco.accel.number_formats import FORMATS, FloatFormat
from baco.common.provenance import stable_hash
from baco.compiler.layers.float_sums import FloatSums
from baco.compiler.mapping.contraction import Access
from baco.compiler.mapping.expression import variable
from baco.compiler.ops.accesses import FUNCTION, of_elements
from baco.compiler.ops.calls import loop_call
from baco.compiler.ops.elementary import BINARY, NUMBERS, UNARY, rounded
from baco.compiler.ops.nests import element_loops
from baco.compiler.ops.operator import (
    Array,
    Dependences,
    HostCall,
    IntegerOperator,
    Operand,
    Read,
    Values,
    itemsize,
)
from baco.compiler.ops.views import View
from baco.workloads.encoding import FloatEncoding

#: Operands besides the result: a C function has as many arguments in registers beside its parameters.
MOST_INPUTS = 6
_TYPES = {"int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
#: What a function costs an element, by kinds of about the same time; all others are `simple`.
_COSTS = {
    **dict.fromkeys(("div", "reciprocal"), "divisions"),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), "roundings"),
    **{name: name for name in ("sqrt", "exp", "log", "erf", "tanh", "sigmoid")},
}


@dataclass
class PassedNumbers:
    """Numbers that the C function of some operators reads among its parameters, so that it is the same for others.

    Attributes:
        kinds: C types.
        words: of 64 bits.
    """

    kinds: list[str] = field(default_factory=list)
    words: list[int] = field(default_factory=list)

    def whole(self, number: int) -> str:
        """The name of a whole number."""
        return self._add("int64_t", number)

    def real(self, number: float) -> str:
        """The name of a float32 number."""
        return self._add("float", float32_bits(number))

    def double(self, number: float) -> str:
        """The name of a float64 number."""
        return self._add("double", float64_bits(number))

    def _add(self, kind: str, word: int) -> str:
        self.kinds.append(kind)
        self.words.append(word)
        return f"n{len(self.words) - 1}"


@dataclass(frozen=True)
class ElementOperator(IntegerOperator):
    """One of them; all views have the shape of `output`, but tables."""

    #: A kind of what its function costs an element, the C type of its result, and whether it never joins others.
    cost: ClassVar[str] = "simple"
    result: ClassVar[str] = "float"
    alone: ClassVar[bool] = False

    @abstractmethod
    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """What it computes in C.

        Args:
            names: of the elements of its operands, and of tables.
            numbers: where its own numbers go.
        """

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        return FusedElements(self.name, self.sources, self.output, (self,)).host_call(values)


@dataclass(frozen=True)
class Decoded(ElementOperator):
    """output (float32) = table[input + 128]; `table`: float32 constant [256]."""

    cost: ClassVar[str] = "tables"

    input: View
    table: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.asarray(read(self.table)[read(self.input).astype(np.int16) + 128])

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        return f"{names[self.table]}[{names[self.input]} + 128]"


@dataclass(frozen=True)
class Widened(ElementOperator):
    """output (float32) = the number of bfloat16 whose code is `input` (int16)."""

    input: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        return FloatEncoding(1.0, 0, -128, 127, "bf16").real(read(self.input))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        return f"widened({names[self.input]})"


@dataclass(frozen=True)
class ScaledIntegers(ElementOperator):
    """output (float32) = float32(input) * scale, the product one of float32, of int16 or int32."""

    input: View
    scale: float

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.asarray(read(self.input).astype(np.float32) * np.float32(self.scale))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        return f"(float){names[self.input]} * {numbers.real(self.scale)}"


@dataclass(frozen=True)
class Encoded(ElementOperator):
    """output (int8, or int16 beyond) = limited(rint(input / scale) + zero) to low...high, ties to even, the quotient one of float32; what is
    no number becomes `low`."""

    input: View
    scale: float
    zero: int
    low: int
    high: int

    @property
    def _bits(self) -> int:
        return 8 if self.high < 128 else 16

    @property
    def result(self) -> str:  # type: ignore[override]
        """See `ElementOperator`."""
        return f"int{self._bits}_t"

    @property
    def cost(self) -> str:  # type: ignore[override]
        """See `ElementOperator`."""
        return "divided encodings" if " / " in self._by(PassedNumbers()) else "encodings"

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            steps = read(self.input) / np.float32(self.scale)
        least, most = np.float32(self.low - self.zero), np.float32(self.high - self.zero)
        whole = np.rint(np.fmin(np.fmax(steps, least), most)) + self.zero
        return np.asarray(whole, np.dtype(f"int{self._bits}"))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        limits = ", ".join(map(numbers.whole, (self.zero, self.low, self.high)))
        wide = "" if self._bits == 8 else "_wide"
        return f"encoded{wide}({names[self.input]}{self._by(numbers)}, {limits})"

    def _by(self, numbers: PassedNumbers) -> str:
        """The quotient; by a power of two a product, which is rounded from the same number."""
        if self.scale == 1.0:
            return ""
        exact = math.frexp(self.scale)[0] == 0.5 and 2.0**-126 <= self.scale <= 2.0**126
        return f" * {numbers.real(1 / self.scale)}" if exact else f" / {numbers.real(self.scale)}"


@dataclass(frozen=True)
class Coded(ElementOperator):
    """output (int8 or int16): code in the format `form` nearest to input / scale, a power of two, ties to even, saturated."""

    cost: ClassVar[str] = "encodings"

    input: View
    scale: float
    form: str

    @property
    def result(self) -> str:  # type: ignore[override]
        """See `ElementOperator`."""
        return f"int{FORMATS[self.form].bits}_t"

    def compute(self, read: Read) -> Array:
        """See the class."""
        return FloatEncoding(self.scale, 0, -128, 127, self.form).whole(read(self.input))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        by = "" if self.scale == 1.0 and self.form == "bf16" else f" * {numbers.real(1 / self.scale)}"
        return _coded(f"{names[self.input]}{by}", self.form, numbers)


def _coded(number: str, name: str, numbers: PassedNumbers) -> str:
    """The code of a number in C, in the format of a name."""
    form = FORMATS[name]
    assert isinstance(form, FloatFormat)
    if name == "bf16":
        return f"narrowed({number})"
    largest, nan = (int(form.encode(np.array(x))) for x in (form.largest, np.nan))
    least = 128 - form.bias  # exponent of the least normal number, as float32 has it
    return f"coded({number}, {', '.join(map(numbers.whole, (form.fraction_bits, least, largest, nan)))})"


@dataclass(frozen=True)
class CodedSum(ElementOperator):
    """output (int8 codes) = code nearest to scale * (max(sum, 0) if relu else sum), sum = left * left_scale + right * right_scale, one
    of float32, of what codes stand for: all scales are powers of two, and products exact. Zeros lose their signs.

    A residual addition on arrays of floating point, by products with matrices that have the scales on their diagonals.

    Attributes:
        table: float32 constant [256], what code - 128 stands for.
        form: of the codes.
    """

    cost: ClassVar[str] = "encodings"
    result: ClassVar[str] = "int8_t"
    alone: ClassVar[bool] = True

    left: View
    right: View
    table: View
    left_scale: float
    right_scale: float
    scale: float
    relu: bool
    form: InputFormat

    def compute(self, read: Read) -> Array:
        """See the class."""
        left, right = (
            read(self.table)[read(view).astype(np.int16) + 128] * np.float32(scale) + np.float32(0)
            for view, scale in ((self.left, self.left_scale), (self.right, self.right_scale))
        )
        return FloatSums(self.form, 1).codes(left + right, self.relu, self.scale)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        left, right = (
            f"({names[self.table]}[{names[view]} + 128] * {numbers.real(scale)} + 0.0f)"
            for view, scale in ((self.left, self.left_scale), (self.right, self.right_scale))
        )
        total = f"{left} + {right}"
        if self.relu:
            limits = numbers.double(0.0), numbers.double(math.inf)
            total = f"unary({list(UNARY).index('clip')}, {total}, {', '.join(limits)})"
        return _coded(f"(float)({total}) * {numbers.real(self.scale)}", self.form, numbers)


@dataclass(frozen=True)
class RealFunction(ElementOperator):
    """output = function(input) of `elementary.UNARY` with two parameters."""

    input: View
    function: str
    parameters: tuple[float, float] = (0.0, 0.0)

    @property
    def cost(self) -> str:  # type: ignore[override]
        """See `ElementOperator`."""
        return _COSTS.get(self.function, "simple")

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            return rounded(UNARY[self.function](read(self.input).astype(np.float64), *self.parameters))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input", operations=FUNCTION)

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        parameters = map(numbers.double, self.parameters) if self.function in NUMBERS else ("0", "0")
        return (
            f"(float)unary({list(UNARY).index(self.function)}, {names[self.input]}, {', '.join(parameters)})"
        )


@dataclass(frozen=True)
class RealPair(ElementOperator):
    """output = function(left, right) of `elementary.BINARY`; truths are 0 and 1."""

    left: View
    right: View
    function: str

    @property
    def cost(self) -> str:  # type: ignore[override]
        """See `ElementOperator`."""
        return _COSTS.get(self.function, "simple")

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            return rounded(BINARY[self.function](read(self.left), read(self.right)))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        return f"binary({list(BINARY).index(self.function)}, {names[self.left]}, {names[self.right]})"


@dataclass(frozen=True)
class RealSelection(ElementOperator):
    """output = left where `condition` is not 0, else right."""

    condition: View
    left: View
    right: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.where(read(self.condition) != 0, read(self.left), read(self.right))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "condition", "left", "right")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        return f"{names[self.condition]} != 0 ? {names[self.left]} : {names[self.right]}"


@dataclass(frozen=True)
class ScaledSums(ElementOperator):
    """output (float32) = float32(input + rows + columns) * factors, the product one of float32, the sum one of 64 bits.

    Attributes:
        input: int32 [..., K], sums of products.
        rows, columns: int32, broadcast to that shape.
        factors: float32, broadcast to that shape.
    """

    cost: ClassVar[str] = "sums"

    input: View
    rows: View
    columns: View
    factors: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        total = read(self.input).astype(np.int64) + read(self.rows) + read(self.columns)
        return np.asarray(total.astype(np.float32) * read(self.factors), np.float32)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input", "rows", "columns", "factors")

    def expression(self, names: Mapping[View, str], numbers: PassedNumbers) -> str:
        """See `ElementOperator`."""
        total = f"(int64_t){names[self.input]} + {names[self.rows]} + {names[self.columns]}"
        return f"(float)({total}) * {names[self.factors]}"


@dataclass(frozen=True)
class FusedElements(IntegerOperator):
    """What some operators compute one after the other, of which only the last one's result is stored.

    Attributes:
        steps: the operators; what one of them writes, only later ones read, by the same elements.
        literals: operands that are one constant number everywhere, with that number.
    """

    steps: tuple[ElementOperator, ...]
    literals: tuple[tuple[View, float | int], ...] = ()

    @cached_property
    def _written(self) -> Mapping[View, int]:
        """Step by what it writes, but for the last."""
        return {step.output.collapsed(): number for number, step in enumerate(self.steps[:-1])}

    @cached_property
    def inputs(self) -> tuple[View, ...]:  # type: ignore[override]
        """Views that are read in memory, each once; tables and literals included."""
        views = (view for step in self.steps for view in step.inputs)
        return tuple(dict.fromkeys(view for view in views if view.collapsed() not in self._written))

    @cached_property
    def tables(self) -> frozenset[View]:
        """Those of `Decoded` and `CodedSum`."""
        return frozenset(step.table for step in self.steps if isinstance(step, Decoded | CodedSum))

    @property
    def operands(self) -> tuple[View, ...]:
        """Arguments of the C function: of `inputs` those that are no literals."""
        literal = dict(self.literals)
        return tuple(view for view in self.inputs if view not in literal)

    def compute(self, read: Read) -> Array:
        """See the class."""
        results: list[Array] = []

        def read_here(view: View) -> Array:
            number = self._written.get(view.collapsed())
            return read(view) if number is None else results[number]

        for step in self.steps:
            results.append(step.compute(read_here))
        return results[-1]

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        extents = {f"d{at}": size for at, size in enumerate(self.output.shape)}
        index = tuple(variable(name) for name in extents)
        operands = tuple(
            Operand(f"inputs.{n}", view, Access(f"inputs.{n}", index))
            for n, view in enumerate(self.inputs)
            if view not in self.tables
        )
        operations = sum(step.accesses().operations for step in self.steps)
        return Dependences(self, extents, Access("output", index), operands, operations)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        views = (*self.operands, self.output)
        walked = [number for number, view in enumerate(views) if view not in self.tables]
        loops = element_loops(*(views[number] for number in walked))
        counts: dict[str, float] = {}
        moved = ["operands" if loops.dense else "strided operands"] * len(walked)
        for kind in (*moved, *(step.cost for step in self.steps)):
            counts[kind] = counts.get(kind, 0.0) + loops.elements
        numbers = PassedNumbers()
        text = self._code([_TYPES[values[view.value].dtype] for view in views], numbers)
        name = f"net_elements_{stable_hash(text)[:12]}"
        call = loop_call(
            "net_elements",
            f"{name.removeprefix('net_')}.c",
            loops,
            [itemsize(values[views[number].value]) for number in walked],
            views,
            numbers.words,
            walked=walked,
            amounts=counts,
            code=text.replace("FUNCTION", name),
        )
        return replace(call, function=name)

    def _statements(self, names: Mapping[View, str], result: str, numbers: PassedNumbers) -> list[str]:
        """A line of C for each step; `result`: the type of the last."""
        lines = []
        for number, step in enumerate(self.steps):
            written = {view: self._written.get(view.collapsed()) for view in step.inputs}
            known = {view: names[view] if at is None else f"y{at}" for view, at in written.items()}
            kind = result if number + 1 == len(self.steps) else step.result
            lines.append(f"  const {kind} y{number} = {step.expression(known, numbers)};")
        return lines

    def _code(self, kinds: Sequence[str], numbers: PassedNumbers) -> str:
        """The C file; `FUNCTION` stands for the name.

        Args:
            kinds: C types of the elements of the operands and of the result.
            numbers: where those go that are parameters.
        """
        views, result = self.operands, kinds[-1]
        names = {
            view: numbers.real(number) if isinstance(number, float) else numbers.whole(number)
            for view, number in self.literals
        }
        names |= {view: f"{'table' if view in self.tables else 'x'}{n}" for n, view in enumerate(views)}
        lines = self._statements(names, result, numbers)
        walked = [n for n, view in enumerate(views) if view not in self.tables]
        given = [(kind, f"n{n}") for n, kind in enumerate(numbers.kinds)]
        decoded = {"float": "as_float(d[{}])", "double": "as_double(d[{}])", "int64_t": "d[{}]"}
        read = [decoded[kind].format(n + len(walked) + 2) for n, kind in enumerate(numbers.kinds)]
        pointers = [f"const {kind}* {names[view]}" for kind, view in zip(kinds[:-1], views, strict=True)]
        elements = [f"{kinds[n]} x{n}" if n in walked else pointers[n] for n in range(len(views))]
        own = [f"{kind} {name}" for kind, name in given]
        steps = [*(f"s{n}" for n in walked), "s"]
        element = [f"x{n}[i * s{n}]" if n in walked else names[views[n]] for n in range(len(views))]
        rows = [
            f"x{n} + w.at[{walked.index(n)}]" if n in walked else names[views[n]] for n in range(len(views))
        ]

        def call(*strides: str) -> str:
            return (
                f"FUNCTION_row({', '.join(['d[0]', *rows, f'to + w.at[{len(walked)}]', *strides, *read])});"
            )

        strides = [f"d[{n + 1}]" for n in range(len(steps))]
        return "\n".join(
            [
                f"// {', '.join(getattr(step, 'function', type(step).__name__) for step in self.steps)}.",
                '#include "real.h"',
                "",
                f"INLINE {result} FUNCTION_element({', '.join([*elements, *own])}) {{",
                *lines,
                f"  return y{len(self.steps) - 1};",
                "}",
                "",
                f"INLINE void FUNCTION_row({', '.join(['int64_t n', *pointers, f'{result}* to', *(f'int64_t {one}' for one in steps), *own])}) {{",
                f"  FOR_EACH(i, n, {result}, to[i * s], FUNCTION_element({', '.join([*element, *(name for _, name in given)])}));",
                "}",
                "",
                "// Walk of the operands that are no tables and of the result; extent and steps of a row; numbers.",
                f"void FUNCTION({', '.join(['const int64_t* d', *pointers, f'{result}* to'])}) {{",
                "  struct walk w;",
                f"  d = walk_begin(&w, d, {len(steps)});",
                f"  const int dense = {' && '.join(f'{one} == 1' for one in strides)};",
                "  do {",
                f"    if (dense) {call(*('1' for _ in steps))}",
                f"    else {call(*strides)}",
                "  } while (walk_next(&w));",
                "}",
                "",
            ]
        )
