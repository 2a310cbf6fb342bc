"""Tensors of a pipeline that is being traced: numpy's operators and functions record what they would compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from baco.common.errors import did_you_mean
from baco.workloads.pipelines import ranges
from baco.workloads.pipelines.node import Node, checked_range, constant_node, refused
from baco.workloads.pipelines.ranges import Range

_TRUTHS = Range(Fraction(0), Fraction(1), 0)
_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
#: numpy's universal function -> ours of one number.
_UNARY = {
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "round",
    "trunc": "trunc",
    "exp": "exp",
    "tanh": "tanh",
}
_BINARY = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "div",
    "divide": "div",
    "maximum": "maximum",
    "minimum": "minimum",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    **{name: name for name in _COMPARISONS},
}
#: Truths, which numpy writes as bits.
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


class Recorder(Protocol):
    """Where operations are recorded (`baco.workloads.pipelines.trace.Trace`).

    Attributes:
        functions: numpy's that are traced, by name.
    """

    functions: Mapping[str, Callable[..., Any]]

    def add(
        self,
        function: str,
        operands: tuple[Node, ...],
        attributes: Mapping[str, Any],
        shape: tuple[int, ...],
        found: Range,
    ) -> Traced:
        """One more operation."""

    def pointwise(self, name: str, inputs: Sequence[Any]) -> Traced:
        """One of numpy's universal functions."""

    def clip(self, x: Any, low: Any, high: Any) -> Traced:
        """Limited by two numbers, or tensors."""

    def where(self, condition: Any, left: Any, right: Any) -> Traced:
        """Chosen by truths."""


class Traced(NDArrayOperatorsMixin):
    """A tensor whose elements are known only when the pipeline runs. Numbers do not wrap: they are those of mathematics."""

    def __init__(self, trace: Recorder, node: Node) -> None:
        self.trace = trace
        self.node = node

    # What numpy asks of an array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.node.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.node.shape)

    @property
    def T(self) -> Traced:  # noqa: N802  numpy calls it so
        """Dimensions turned round."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise refused("a number has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<traced {'×'.join(map(str, self.shape)) or 'number'}, {float(self.node.range.low):g} to {float(self.node.range.high):g}>"

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise refused(
            "the program decides by a tensor's elements, which are not known while it is traced",
            "write both ways and choose by np.where(condition, one, other)",
        )

    __bool__ = __int__ = __float__ = __index__ = __complex__ = _unknown

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise refused(
            "a traced tensor was given to a function that needs its elements", "use numpy's functions on it"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if options.get("out") is not None:
            raise refused("tensors cannot be written in place while they are traced")
        if method == "reduce" and name in ("add", "maximum", "minimum", "logical_and", "logical_or"):
            of = {"add": "sum", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max"}
            return self.reduced(of[name], options.get("axis", 0), bool(options.get("keepdims")))
        if method != "__call__" or any(options.get(one) is not None for one in ("where", "casting", "axis")):
            raise refused(f"np.{name}.{method} cannot be traced")
        return self.trace.pointwise(name, inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = self.trace.functions.get(function.__name__)
        if known is None:
            raise refused(
                f"np.{function.__name__} cannot be traced",
                did_you_mean(function.__name__, self.trace.functions),
            )
        try:
            return known(*args, **kwargs)
        except TypeError as error:
            raise refused(f"np.{function.__name__}: {error}") from None

    # Views

    def __getitem__(self, key: Any) -> Traced:
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(isinstance(one, (Traced, np.ndarray, list)) for one in keys):
            raise refused("indexing by an array is traced as np.take or np.where")
        present = sum(one is not None and one is not Ellipsis for one in keys)
        if present > self.ndim:
            raise refused(f"{present} indices of a tensor of {self.ndim} dimensions")
        if Ellipsis in [one if one is Ellipsis else None for one in keys]:
            at = next(i for i, one in enumerate(keys) if one is Ellipsis)
            keys[at : at + 1] = [slice(None)] * (self.ndim - present)
        keys += [slice(None)] * (self.ndim - sum(one is not None for one in keys))
        starts, sizes, steps, shape = [], [], [], []
        axis = 0
        for one in keys:
            if one is None:
                shape.append(1)
                continue
            extent = self.shape[axis]
            axis += 1
            if isinstance(one, slice):
                first, last, step = one.indices(extent)
                count = len(range(first, last, step))
                shape.append(count)
            else:
                first, count, step = self._index(one, extent), 1, 1
            if not count:
                raise refused(f"{one.start}:{one.stop} of {extent} elements is empty")
            starts.append(first)
            sizes.append(count)
            steps.append(step)
        sliced = self
        if tuple(sizes) != self.shape or any(step != 1 for step in steps):
            attributes = {"starts": tuple(starts), "steps": tuple(steps)}
            sliced = self._view("slice", tuple(sizes), attributes)
        return sliced if sliced.shape == tuple(shape) else sliced._view("reshape", tuple(shape), {})

    def _index(self, index: Any, extent: int) -> int:
        try:
            number = int(index.__index__())
        except AttributeError:
            raise refused(f"{type(index).__name__} is no index") from None
        if not -extent <= number < extent:
            raise refused(f"index {number} of {extent} elements")
        return number % extent

    def __setitem__(self, key: Any, value: Any) -> None:
        raise refused(
            "tensors cannot be written in place while they are traced", "use np.where or np.concatenate"
        )

    def _view(self, function: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> Traced:
        return self.trace.add(function, (self.node,), attributes, shape, self.node.range)

    def reshape(self, *shape: Any, **_: Any) -> Traced:
        """The same elements in another shape."""
        wanted = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
        if wanted.count(-1) == 1:
            known = math.prod(one for one in wanted if one != -1)
            wanted[wanted.index(-1)] = self.size // known if known else 0
        if math.prod(wanted) != self.size or min(wanted, default=1) < 1:
            raise refused(f"{self.size} elements in the shape {tuple(wanted)}")
        return self._view("reshape", tuple(wanted), {})

    def transpose(self, *axes: Any) -> Traced:
        """Dimensions in another order."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(given) if given else tuple(reversed(range(self.ndim)))
        order = tuple(axis % max(self.ndim, 1) for axis in order)
        if sorted(order) != list(range(self.ndim)):
            raise refused(f"{order} is no order of {self.ndim} dimensions")
        return self._view("transpose", tuple(self.shape[axis] for axis in order), {"axes": order})

    def squeeze(self, axis: Any = None) -> Traced:
        """Without dimensions of 1."""
        axes = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else [self._axis(axis)]
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if i not in axes))

    def ravel(self) -> Traced:
        """All elements in a row."""
        return self.reshape(-1)

    flatten = ravel

    def expanded(self, shape: tuple[int, ...]) -> Traced:
        """Broadcast to a shape."""
        try:
            np.broadcast_shapes(self.shape, shape)
        except ValueError:
            raise refused(f"shapes {self.shape} and {shape} do not fit") from None
        return self if self.shape == shape else self._view("expand", shape, {})

    # Functions

    def astype(self, dtype: Any, **_: Any) -> Traced:
        """As a type of whole numbers, towards zero, which must hold them all; as it is in floating point.

        Raises PipelineError where that is not proven.
        """
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return self
        if kind.kind == "b":
            return self.trace.pointwise("not_equal", (self, 0))
        x = self if self.node.range.exponent is not None and self.node.range.exponent >= 0 else self._trunc()
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        if x.node.range.low < low or x.node.range.high > high:
            raise refused(
                f"numbers from {float(x.node.range.low):g} to {float(x.node.range.high):g} do not fit into {kind.name}",
                f"limit them first: np.clip(x, {low}, {high})",
            )
        return x

    def _trunc(self) -> Traced:
        return self.trace.pointwise("trunc", (self,))

    def clip(self, low: Any = None, high: Any = None, **_: Any) -> Traced:
        """Limited."""
        return self.trace.clip(self, low, high)

    def round(self, decimals: int = 0) -> Traced:
        """To the nearest whole number, ties to even."""
        if decimals:
            raise refused("only whole numbers are rounded to")
        return self.trace.pointwise("rint", (self,))

    def sum(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Along dimensions."""
        return self.reduced("sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Along dimensions."""
        return self.reduced("mean", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Along dimensions."""
        return self.reduced("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Along dimensions."""
        return self.reduced("min", axis, keepdims)

    any, all = max, min

    def var(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Mean of squares less the square of the mean: sums of whole numbers, which are exact before they are divided."""
        mean, squares = self.mean(axis, keepdims), (self * self).mean(axis, keepdims)
        difference = squares - mean * mean
        high = (self.node.range.high - self.node.range.low) ** 2 / 4  # Popoviciu's inequality
        return self.trace.clip(difference, 0, float(high))

    def std(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        """Root of `var`."""
        return self.trace.pointwise("sqrt", (self.var(axis, keepdims),))

    def reduced(self, name: str, axis: Any, keepdims: bool) -> Traced:
        """A reduction along dimensions, all of them by default."""
        given = range(self.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = sorted({self._axis(one) for one in given})
        kept = tuple(n for i, n in enumerate(self.shape) if i not in axes)
        shape = tuple(1 if i in axes else n for i, n in enumerate(self.shape)) if keepdims else kept
        count = math.prod(self.shape[i] for i in axes)
        total = self.node.range
        if name in ("sum", "mean"):
            total = checked_range(ranges.summed(total, count), "the sum")
        if name == "mean":
            quotient = ranges.divided(total, ranges.of_numbers([Fraction(count)]))
            assert quotient is not None
            total = quotient
        attributes = {"name": name, "axes": tuple(axes), "keepdims": keepdims}
        return self.trace.add("reduce", (self.node,), attributes, shape, total)

    def _axis(self, axis: Any) -> int:
        if not isinstance(axis, (int, np.integer)) or not -self.ndim <= axis < self.ndim:
            raise refused(f"axis {axis} of a tensor of {self.ndim} dimensions")
        return int(axis) % self.ndim

    def argmax(self, axis: Any = None, **_: Any) -> Traced:
        """Position of the first maximum."""
        return self.chosen(axis, 1, smallest=False)

    def argmin(self, axis: Any = None, **_: Any) -> Traced:
        """Position of the first minimum."""
        return self.chosen(axis, 1, smallest=True)

    def chosen(self, axis: Any, count: int, *, smallest: bool, keep: bool = False) -> Traced:
        """Positions of the largest or smallest elements along a dimension, in order, equal ones by their position."""
        x = self.ravel() if axis is None else self
        at = x._axis(-1 if axis is None else axis)
        if not 1 <= count <= x.shape[at]:
            raise refused(f"{count} of {x.shape[at]} elements")
        shape = tuple(count if i == at else n for i, n in enumerate(x.shape))
        found = Range(Fraction(0), Fraction(x.shape[at] - 1), 0)
        attributes = {"axis": at, "count": count, "smallest": smallest}
        result = x.trace.add("topk", (x.node,), attributes, shape, found)
        return (
            result if keep or count > 1 else result.reshape(tuple(n for i, n in enumerate(shape) if i != at))
        )


def wrapped(trace: Recorder, value: Any) -> Node:
    """The node of an operand."""
    if isinstance(value, Traced):
        return value.node
    return constant_node(value)


#: What becomes of ranges, by function of one number.
UNARY_RANGES: dict[str, Callable[[Range], Range]] = {
    "neg": ranges.negated,
    "abs": ranges.absolute,
    "sqrt": ranges.root,
    **{name: partial(ranges.rounded, function=name) for name in ("floor", "ceil", "round", "trunc")},
    "exp": lambda x: Range(
        Fraction(math.exp(x.low) * (1 - 2**-40)), Fraction(math.exp(x.high) * (1 + 2**-40)), None
    ),
    "tanh": lambda x: Range(Fraction(-1), Fraction(1), None),
    "square": ranges.squared,
}


def unary_node(name: str, x: Node) -> tuple[str, Range]:
    """Our function and the range of its results. Raises PipelineError for what is not defined on all of the operand's range."""
    function = {"square": "square", **_UNARY}[name]
    if function == "sqrt" and x.range.low < 0:
        raise refused(
            f"the square root of numbers that may be {float(x.range.low):g}",
            "limit them first: np.maximum(x, 0)",
        )
    if function == "exp" and x.range.high > 80:
        raise refused(f"exp of numbers that may be {float(x.range.high):g} is beyond the range of float32")
    return function, UNARY_RANGES[function](x.range)


def binary_range(function: str, x: Node, y: Node) -> Range:
    """Range of a function of two numbers. Raises PipelineError for quotients by what may be 0."""
    if function in ("add", "sub"):
        return ranges.added(x.range, y.range if function == "add" else ranges.negated(y.range))
    if function == "mul":
        return ranges.squared(x.range) if x is y else ranges.multiplied(x.range, y.range)
    if function == "div":
        found = ranges.divided(x.range, y.range)
        if found is None:
            raise refused("a division by numbers that may be 0", "limit them first: np.maximum(x, 1)")
        return found
    if function in ("maximum", "minimum"):
        choose = max if function == "maximum" else min
        both = ranges.joined(x.range, y.range)
        return Range(choose(x.range.low, y.range.low), choose(x.range.high, y.range.high), both.exponent)
    return _TRUTHS


def known_unary(name: str) -> bool:
    """Whether it is a function of one number."""
    return name in _UNARY or name == "square"


def known_binary(name: str) -> str | None:
    """Our name of numpy's function of two numbers."""
    return _BINARY.get(name)


def truth_function(name: str, x: Node, y: Node) -> str | None:
    """Our name of a function of bits, whose operands must be truths."""
    if name not in _BITS:
        return None
    for one in (x, y):
        if one.range.low < 0 or one.range.high > 1 or one.range.exponent is None:
            raise refused("& and | and ^ are traced of truths alone", "compare first: (a > 0) & (b > 0)")
    return _BITS[name]
