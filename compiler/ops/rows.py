"""Operators on whole rows (`host/rows.c`; sums of terms and largest elements `host/selection.c`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from baco.compiler.host_core import LINE_BYTES
from baco.compiler.ops.accesses import Accesses, of_chosen, of_reduced, of_rows
from baco.compiler.ops.arithmetic import FixedPoint, saturate8
from baco.compiler.ops.calls import loop_call
from baco.compiler.ops.host_work import HostWork, OperandWalk, counted, line_misses
from baco.compiler.ops.nests import RowLoops, nest_of, row_loops
from baco.compiler.ops.operator import Array, Dependences, HostCall, IntegerOperator, Read, Values
from baco.compiler.ops.views import View
from baco.compiler.row_functions import normalise, normalise_by, softmax

_FILE = "rows.c"
#: Results that net_reduce advances together (host/rows.c).
_TOTALS = 64
#: Exponentials that net_softmax keeps of a row.
_KEPT = 1024
#: Rows that net_softmax takes element by element.
SHORT = 16
#: Rows that are normalised side by side.
_SIDE_BY_SIDE = 8


@dataclass(frozen=True)
class Softmax(IntegerOperator):
    """Softmax over the last dimension, of the elements whose mask is not 0: `row_functions.softmax`.

    Attributes:
        input, output: int8 [..., L].
        table: int32 constant [256], `row_functions.exponentials`.
        numerator: `row_functions.softmax_numerator`.
        mask: int8 [..., L], 0 where an element takes no part, or None: all do.
    """

    input: View
    table: View
    numerator: int
    mask: View | None = None

    def compute(self, read: Read) -> Array:
        """See the class."""
        takes_part = None if self.mask is None else read(self.mask) != 0
        return softmax(read(self.input), takes_part, read(self.table), self.numerator)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_rows(self, "input", "mask")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        loops = row_loops(self.input, self.output, self.mask or self.input)
        dense = loops.steps[0] == loops.steps[1] == 1
        extent = loops.extent
        short = extent < SHORT or not dense
        # of neighbours eight go together where words begin: before the first and behind the last one are up to seven
        rest = extent % 4 if short else 7 if extent % 8 else 0
        variant = "strided" if not dense else "short" if short else "dense"
        if self.mask is not None:
            together = dense and loops.steps[2] == 1 and extent <= _KEPT
            rest, variant = (extent % 8, "masked") if together else (extent % 4, "masked strided")
        return loop_call(
            "net_softmax",
            _FILE,
            loops,
            (1, 1, 1),
            (self.input, self.table, self.mask, self.output),
            (self.numerator,),
            walked=(0, 3, None if self.mask is None else 2),
            variant=variant,
            # elements beyond those whose exponentials are kept, and those that go one by one
            amounts={"late": loops.rows * max(0, extent - _KEPT), "rest": loops.rows * rest},
        )


@dataclass(frozen=True)
class Normalisation(IntegerOperator):
    """Layer, RMS, group and instance normalisation over the last `axes` dimensions: `row_functions.normalise`.

    Attributes:
        input, output: int8 [..., normalised dimensions].
        gain, offset: int32 constants of 16 bits, broadcast to the shape of the input.
        axes: how many trailing dimensions are one row.
        centre: subtract the mean (all but RMS).
        epsilon: n*n*eps / scale_in**2, rounded.
        shift: fraction bits of the products, 7 to 31.
    """

    input: View
    gain: View
    offset: View
    axes: int
    centre: bool
    epsilon: int
    shift: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        gain, offset = read(self.gain), read(self.offset)
        x = read(self.input)
        return normalise(x, gain, offset, self.shift, self.epsilon, centre=self.centre, axes=self.axes)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        touched = Accesses(self)
        lead = touched.result[: len(touched.result) - self.axes]
        extents = self.input.shape[len(lead) :]
        row = [touched.reduce(f"r{at}", size) for at, size in enumerate(extents)]
        touched.read("input", [*lead, *row])
        touched.read("gain", touched.result)
        touched.read("offset", touched.result)
        return touched.done((1 + self.centre) * self.output.words)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        shape = self.input.shape
        lead = len(shape) - self.axes
        views = (self.input, self.gain.expanded(shape), self.offset.expanded(shape), self.output)
        outer = nest_of(shape[:lead], [view.strides[:lead] for view in views])
        row = RowLoops(*nest_of(shape[lead:], [view.strides[lead:] for view in views]).split())
        numbers = (math.prod(shape[lead:]), int(self.centre), self.epsilon, self.shift)
        rows = math.prod(outer.shape)
        nest = tuple(
            walk.around(outer.shape, strides)
            for walk, strides in zip(row.walks((1, 4, 4, 1)), outer.strides, strict=True)
        )
        shared = not any(step for steps in outer.strides[1:3] for step in steps)
        alone = rows % _SIDE_BY_SIDE if row.dense and row.rows == 1 and shared else rows
        work = HostWork(
            f"net_normalise {'dense' if row.dense else 'strided'}",
            counted(
                rows=rows,
                parts=rows * row.rows,
                elements=rows * row.elements,
                alone=alone * row.elements,
            ),
            nest,
        )
        return HostCall("net_normalise", _FILE, (*outer.words(), *row.words(), *numbers), views, work)


@dataclass(frozen=True)
class NormalisationBySums(IntegerOperator):
    """A normalisation of rows whose sums and sums of squares are there already: `row_functions.normalise_by`.

    Attributes:
        input, output: int8 [rows, columns], columns next to each other.
        sums, squares: int32 [rows]; without `sums` (RMS) nothing is subtracted.
        gain, offset: int32 constants of 16 bits [columns].
        epsilon, shift: as in `Normalisation`.
        count: elements of a row; `columns` of them are normalised.
    """

    takes_runs: ClassVar[bool] = False

    input: View
    sums: View | None
    squares: View
    gain: View
    offset: View
    epsilon: int
    shift: int
    count: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        squares = read(self.squares).astype(np.int64)[:, None]
        total = np.zeros_like(squares) if self.sums is None else read(self.sums).astype(np.int64)[:, None]
        gain, offset = read(self.gain), read(self.offset)
        return normalise_by(
            read(self.input), total, squares, gain, offset, self.shift, self.epsilon, count=self.count
        )

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        touched = Accesses(self)
        row, column = touched.result
        touched.read("input", [row, column])
        touched.read("sums", [row])
        touched.read("squares", [row])
        touched.read("gain", [column])
        touched.read("offset", [column])
        return touched.done((1 + (self.sums is not None)) * self.output.words)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        rows, columns = self.input.shape
        steps = (self.input.strides[0], self.output.strides[0])
        along = (0 if self.sums is None else self.sums.strides[0], self.squares.strides[0])
        numbers = (int(self.sums is not None), self.epsilon, self.shift, self.count)
        words = (rows, columns, *steps, *along, *numbers)
        # gains and offsets are fetched for so many rows together
        together = OperandWalk(3, (-(-rows // _SIDE_BY_SIDE), columns), (0, 4), 4)
        lines = line_misses([together, replace(together, place=4)])
        nest = tuple(
            OperandWalk(n, (rows, columns), (step, 1)) for n, step in zip((0, 5), steps, strict=True)
        )
        alone = rows % _SIDE_BY_SIDE * columns
        amounts = counted(rows=rows, elements=rows * columns, alone=alone)
        work = HostWork("net_normalise_by", amounts, nest, lines)
        operands = (self.input, self.sums, self.squares, self.gain, self.offset, self.output)
        return HostCall("net_normalise_by", _FILE, words, operands, work)


@dataclass(frozen=True)
class Reduction(IntegerOperator):
    """Over the last `axes` dimensions: output = sat8(total * rescale), total the int64 sum, maximum or minimum.

    `output` has the leading dimensions of `input`.
    """

    input: View
    function: Literal["sum", "max", "min"]
    axes: int
    rescale: FixedPoint

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        axes = tuple(range(x.ndim - self.axes, x.ndim))
        functions: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}
        return saturate8(self.rescale.apply(np.asarray(functions[self.function](x, axis=axes))))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_reduced(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        shape, strides = self.input.shape, self.input.strides
        lead = len(shape) - self.axes
        results = RowLoops(*nest_of(shape[:lead], [strides[:lead], self.output.strides]).split())
        row = RowLoops(*nest_of(shape[lead:], [strides[lead:]]).split())
        kind = ("sum", "max", "min").index(self.function)
        numbers = (kind, self.rescale.multiplier, self.rescale.shift)
        words = (*results.words(), *row.words(), *numbers)
        return HostCall("net_reduce", _FILE, words, (self.input, self.output), self._work(results, row))

    def _work(self, results: RowLoops, row: RowLoops) -> HostWork:
        """Neighbouring results advance together, row by row; others are summed one after the other."""
        outer, many = results.outer, results.extent
        (inner,) = row.walks((1,))
        quick = 0.0  # the share of the results that are summed eight elements at a time
        if results.steps[0] == 1 and many > 1:
            groups = -(-many // _TOTALS)
            within = inner.around((*outer.shape, groups), (*outer.strides[0], min(many, _TOTALS)))
            source = within.over(min(many, _TOTALS), 1)
            visits, variant = results.rows * groups * row.elements, "together"
            starts = (self.input.offset, *outer.strides[0], *inner.strides)
            if self.function == "sum" and all(one % 8 == 0 for one in starts):
                quick = many // _TOTALS * _TOTALS / many
        else:
            source = inner.around((*outer.shape, many), (*outer.strides[0], results.steps[0]))
            visits, variant = results.elements * row.rows, "single"
        target = outer.walk(1).over(many, results.steps[1])
        elements = results.elements * row.elements
        amounts = counted(
            results=results.elements,
            visits=visits,
            elements=elements * (1 - quick),
            quick_elements=elements * quick,
        )
        kind = {"sum": "sum", "max": "largest", "min": "smallest"}[self.function]
        lines = line_misses([source]) + line_misses([target])
        return HostWork(f"net_reduce {variant} {kind}", amounts, lines=lines)


@dataclass(frozen=True)
class ArgMax(IntegerOperator):
    """output (int32) = index of the first maximum (`last`: of the last one; `smallest`: minimum) of the last dimension."""

    input: View
    last: bool = False
    smallest: bool = False

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        x = -x if self.smallest else x
        index = x.shape[-1] - 1 - np.argmax(x[..., ::-1], -1) if self.last else np.argmax(x, -1)
        return np.asarray(index, dtype=np.int32)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_reduced(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        numbers = (int(self.last), int(self.smallest))
        return reducing_call("net_argmax", _FILE, self.input, self.output, numbers)


def reducing_call(
    function: str, source: str, rows: View, results: View, numbers: tuple[int, ...]
) -> HostCall:
    """A call that makes an int32 number of every row; parameters: walk, extent and stride of a row, numbers."""
    lead = len(rows.shape) - 1
    outer = nest_of(rows.shape[:lead], [rows.strides[:lead], results.strides[:lead]])
    loops = RowLoops(outer, rows.shape[-1], (rows.strides[-1],))
    row = outer.walk(0).over(loops.extent, rows.strides[-1])
    work = HostWork(
        function,
        counted(rows=loops.rows, elements=loops.elements),
        lines=line_misses([row]) + line_misses([outer.walk(1, 4)]),
    )
    return HostCall(function, source, (*loops.words(), *numbers), (rows, results), work)


def largest_first(x: Array, count: int, smallest: bool) -> Array:
    """Positions int32 [..., count] of the largest or smallest of rows [..., n], equal ones in the order of their positions."""
    order = np.argsort(x if smallest else -x, axis=-1, kind="stable")
    return np.asarray(order[..., :count], np.int32)


def top_call(rows: View, positions: View, smallest: bool, work: HostWork, source: str, size: int) -> HostCall:
    """A call with the walk over rows, extent and stride of a row and of its results, and which end of them is wanted.

    Args:
        work: its function and amounts, without the lines of memory.
        size: bytes of an element that is read.
    """
    views = (rows, positions)
    outer = nest_of(rows.shape[:-1], [one.strides[:-1] for one in views])
    lengths = (number for one in views for number in (one.shape[-1], one.strides[-1]))
    lines = sum(
        line_misses([outer.walk(n, width).over(views[n].shape[-1], views[n].strides[-1])])
        for n, width in enumerate((size, 4))
    )
    numbers = (*outer.words(), *lengths, int(smallest))
    return HostCall(work.variant, source, numbers, views, replace(work, lines=lines))


@dataclass(frozen=True)
class TopK(IntegerOperator):
    """output (int32) [..., k] = positions of the k largest elements of the last dimension of `input`, the largest one first,
    equal ones in the order of their positions; `smallest`: of the k smallest, the smallest one first."""

    takes_runs: ClassVar[bool] = False

    input: View
    smallest: bool = False

    def compute(self, read: Read) -> Array:
        """See the class."""
        return largest_first(read(self.input).astype(np.int64), self.output.shape[-1], self.smallest)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        rows = math.prod(self.input.shape[:-1])
        amounts = counted(rows=rows, elements=rows * self.input.shape[-1])
        work = HostWork("net_top", amounts)
        return top_call(self.input, self.output, self.smallest, work, "selection.c", 1)


@dataclass(frozen=True)
class TermSum(IntegerOperator):
    """output = -128 + how many of `limits` are at most the sum of terms[x + 128] over the last `axes` dimensions of `input`.

    A function of a sum of functions, its rounding exact: norms (terms |x|**p, limits where the root reaches the next half step)
    and logarithms of sums of exponentials. `terms` int64 constant [256], `limits` int64 constant [255], rising; sums stay below
    2**63. `output` has the leading dimensions of `input`.
    """

    takes_runs: ClassVar[bool] = False

    input: View
    terms: View
    limits: View
    axes: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        terms = read(self.terms)[x.astype(np.int16) + 128]
        total = terms.sum(tuple(range(x.ndim - self.axes, x.ndim)), dtype=np.int64)
        return np.asarray(np.searchsorted(read(self.limits), total, side="right") - 128, np.int8)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_reduced(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        shape, strides = self.input.shape, self.input.strides
        lead = len(shape) - self.axes
        outer = nest_of(shape[:lead], [strides[:lead], self.output.strides])
        row = RowLoops(*nest_of(shape[lead:], [strides[lead:]]).split())
        (inner,) = row.walks((1,))
        results = math.prod(outer.shape)
        amounts = counted(results=results, parts=results * row.rows, elements=results * row.elements)
        lines = line_misses([inner.around(outer.shape, outer.strides[0])]) + line_misses([outer.walk(1)])
        tables = 256 * 8 / LINE_BYTES + 8  # of the limits a search touches one in each of its steps
        lines += min(tables, results * row.elements)
        work = HostWork(f"net_term_sum {'dense' if row.dense else 'strided'}", amounts, lines=lines)
        operands = (self.input, self.terms, self.limits, self.output)
        return HostCall("net_term_sum", "selection.c", (*outer.words(), *row.words()), operands, work)
