"""Running a function on tensors without elements, to learn what it computes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import FrameType
from typing import Any

import numpy as np

from baco.common.errors import BacoError, Location
from baco.common.text import one_line
from baco.workloads.pipelines import ranges
from baco.workloads.pipelines.functions import NUMPY
from baco.workloads.pipelines.node import Node, PipelineError, checked_range, is_users, refused, user_line
from baco.workloads.pipelines.ranges import Range
from baco.workloads.pipelines.tensor import (
    Traced,
    binary_range,
    known_binary,
    known_unary,
    truth_function,
    unary_node,
    wrapped,
)

#: Operations of a pipeline, and lines of the user's that may be run while it is traced.
MOST_NODES, MOST_LINES = 5_000, 2_000_000


@dataclass(frozen=True)
class Numbers:
    """An input of a pipeline.

    Attributes:
        shape: as the function sees it: (height, width) or (height, width, channels) of an image, any other of numbers.
        low, high: what its whole numbers can be: 0 to 255 of an image.
        scale: a number is this times a whole one: of what a network gives.
        real: whether they are real numbers between `low` and `high`.
    """

    shape: tuple[int, ...]
    low: float = 0
    high: float = 255
    scale: float = 1.0
    real: bool = False

    @property
    def range(self) -> Range:
        """Of its elements."""
        if self.real:
            return Range(Fraction(self.low), Fraction(self.high), None)
        unit = Fraction(self.scale)
        exponent = ranges.exponent_of(unit)
        whole = exponent is not None and unit == Fraction(2) ** exponent
        return Range(Fraction(self.low) * unit, Fraction(self.high) * unit, exponent if whole else None)


class Trace:
    """Nodes as they are asked for.

    Attributes:
        functions: numpy's that are traced, by name.
    """

    functions: Mapping[str, Callable[..., Any]] = NUMPY

    def __init__(self) -> None:
        self.count = 0

    def add(
        self,
        function: str,
        operands: tuple[Node, ...],
        attributes: Mapping[str, Any],
        shape: tuple[int, ...],
        found: Range,
    ) -> Traced:
        """One more operation. Raises PipelineError where there are too many."""
        self.count += 1
        if self.count > MOST_NODES:
            raise _endless(f"more than {MOST_NODES:,} operations", user_line())
        return Traced(self, Node(function, operands, attributes, shape, found, user_line()))

    def pointwise(self, name: str, inputs: Sequence[Any]) -> Traced:
        """One of numpy's universal functions. Raises PipelineError for one that cannot be traced."""
        nodes = [wrapped(self, one) for one in inputs]
        if name == "positive":
            return Traced(self, nodes[0])
        if name in ("invert", "logical_not"):
            return self.pointwise("equal", (inputs[0], 0))
        if known_unary(name):
            function, found = unary_node(name, nodes[0])
            if function == "square":
                return self.pointwise("multiply", (inputs[0], inputs[0]))
            whole = nodes[0].range.exponent is not None and nodes[0].range.exponent >= 0
            if function in ("floor", "ceil", "round", "trunc") and whole:
                return Traced(self, nodes[0])
            return self._one(function, nodes[0], found)
        if name == "matmul":
            return self.product(nodes[0], nodes[1])
        if name in ("floor_divide", "right_shift", "left_shift", "power"):
            return self._composed(name, inputs, nodes)
        function_or_none = known_binary(name) or truth_function(name, nodes[0], nodes[1])
        if function_or_none is None:
            raise refused(f"np.{name} cannot be traced")
        return self._two(function_or_none, nodes[0], nodes[1])

    def _one(self, function: str, x: Node, found: Range) -> Traced:
        attributes = {"name": function, "numbers": {}}
        return self.add("unary", (x,), attributes, x.shape, checked_range(found, function))

    def _two(self, function: str, x: Node, y: Node) -> Traced:
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise refused(f"shapes {x.shape} and {y.shape} do not fit") from None
        found = checked_range(binary_range(function, x, y), f"the result of '{function}'")
        return self.add("binary", (x, y), {"name": function}, shape, found)

    def _composed(self, name: str, inputs: Sequence[Any], nodes: Sequence[Node]) -> Traced:
        x, y = inputs
        if name == "floor_divide":
            return self.pointwise("floor", (self.pointwise("divide", (x, y)),))
        number = nodes[1]
        if (
            number.function != "constant"
            or number.range.low != number.range.high
            or number.range.exponent is None
        ):
            raise refused(f"np.{name} by anything but a whole number")
        by = number.range.low
        if by.denominator != 1 or not 0 <= by <= 64:
            raise refused(f"np.{name} by {float(by):g}")
        if name == "power":
            result = Traced(self, nodes[0])
            for _ in range(int(by) - 1):
                result = self.pointwise("multiply", (result, inputs[0]))
            if by == 0:
                raise refused("the power 0 of a tensor is 1")
            return result
        if nodes[0].range.exponent is None or nodes[0].range.exponent < 0:
            raise refused("bits of numbers that are not whole", "round them first: np.rint(x)")
        if name == "left_shift":
            return self.pointwise("multiply", (x, 1 << int(by)))
        return self.pointwise("floor", (self.pointwise("divide", (x, 1 << int(by))),))

    def clip(self, x: Any, low: Any, high: Any) -> Traced:
        """Limited by two numbers, or tensors."""
        if isinstance(low, Traced) or isinstance(high, Traced):
            result = x if low is None else self.pointwise("maximum", (x, low))
            return result if high is None else self.pointwise("minimum", (result, high))
        node = wrapped(self, x)
        least = None if low is None else wrapped(self, low).range.low
        most = None if high is None else wrapped(self, high).range.low
        if least is not None and most is not None and least > most:
            raise refused(f"limits from {float(least):g} to {float(most):g} are none")
        numbers = {name: float(one) for name, one in (("low", least), ("high", most)) if one is not None}
        attributes = {"name": "clip", "numbers": numbers}
        return self.add("unary", (node,), attributes, node.shape, ranges.limited(node.range, least, most))

    def where(self, condition: Any, left: Any, right: Any) -> Traced:
        """Chosen by truths."""
        nodes = [wrapped(self, one) for one in (condition, left, right)]
        try:
            shape = np.broadcast_shapes(*(one.shape for one in nodes))
        except ValueError:
            raise refused(f"shapes {', '.join(str(one.shape) for one in nodes)} do not fit") from None
        found = ranges.joined(nodes[1].range, nodes[2].range)
        masked = self._masked(nodes, found, shape)
        return self.add("where", tuple(nodes), {}, shape, found) if masked is None else masked

    def _masked(self, nodes: Sequence[Node], found: Range, shape: tuple[int, ...]) -> Traced | None:
        """A choice between a number and whole numbers as a product with the mask; None for other choices."""
        mask, left, right = nodes
        if mask.range.low < 0 or mask.range.high > 1 or mask.range.exponent != 0 or not found.exact:
            return None
        if _number(left) is not None and _number(right) is None:
            mask, left, right = self._two("sub", wrapped(self, 1), mask).node, right, left
        number = _number(right)
        if number is None or max(math.prod(mask.shape), math.prod(left.shape)) < math.prod(shape):
            return None
        if number:
            left = self._two("sub", left, right).node
        product = self.add(
            "binary", (mask, left), {"name": "mul"}, shape, ranges.multiplied(mask.range, left.range)
        )
        if not number:
            return self.add("binary", (mask, left), {"name": "mul"}, shape, found)
        return self.add("binary", (product.node, right), {"name": "add"}, shape, found)

    def product(self, x: Node, y: Node) -> Traced:
        """A matrix product, as numpy's."""
        if not x.shape or not y.shape or x.shape[-1] != y.shape[-2 if len(y.shape) > 1 else 0]:
            raise refused(f"matrices {x.shape} and {y.shape} do not fit")
        try:
            lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        except ValueError:
            raise refused(f"matrices {x.shape} and {y.shape} do not fit") from None
        shape = (*lead, *x.shape[-2:-1], *(y.shape[-1:] if len(y.shape) > 1 else ()))
        found = ranges.summed(ranges.multiplied(x.range, y.range), x.shape[-1])
        for matrix, given, turned in ((x, y, True), (y, x, False)):
            if matrix.value is not None and len(matrix.shape) == 2 and matrix.range.exponent is not None:
                unit = 2.0**matrix.range.exponent
                whole = np.rint(np.asarray(matrix.value, np.float64) / unit).astype(np.int64)
                found = ranges.weighted(given.range, whole.T if turned else whole, matrix.range.exponent)
        return self.add("matmul", (x, y), {}, shape, checked_range(found, "the product"))


def _number(node: Node) -> Fraction | None:
    """The value of a constant that is one number everywhere."""
    return node.range.low if node.function == "constant" and not node.shape else None


def _endless(what: str, line: Location | None) -> PipelineError:
    return PipelineError(
        f"the pipeline does not end when it is traced: {what}",
        location=line,
        hint="loops run while a pipeline is traced, so that their ends must be constants",
    )


class _Watch:
    """Counts the lines of the user's function, and stops one that does not end."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        return self.line if is_users(frame.f_code.co_filename) else None

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        """Called by the interpreter."""
        self.lines += event == "line"
        if self.lines > MOST_LINES:
            raise _endless(
                f"more than {MOST_LINES:,} lines were run", Location(frame.f_code.co_filename, frame.f_lineno)
            )
        return self.line


def traced(function: Callable[..., Any], inputs: Mapping[str, Numbers]) -> tuple[dict[str, Node], list[Node]]:
    """(Nodes of the inputs, nodes of the results) of a function of tensors.

    Args:
        function: called once, with a tensor for every input, in their order.
        inputs: what it is called with.

    Raises PipelineError, at the user's line, for what cannot be traced, is not defined on all of a range, or does not end.
    """
    trace = Trace()
    nodes = {
        name: Node("input", (), {"name": name}, one.shape, one.range, None) for name, one in inputs.items()
    }
    before = sys.gettrace()
    if before is None:  # a debugger stays where it is
        sys.settrace(_Watch())
    try:
        results = function(*(Traced(trace, node) for node in nodes.values()))
    except BacoError:
        raise
    except RecursionError as error:
        raise _endless("it calls itself without end", _line_of(error)) from None
    except Exception as error:
        raise PipelineError(one_line(f"{type(error).__name__}: {error}"), location=_line_of(error)) from error
    finally:
        sys.settrace(before)
    code = getattr(function, "__code__", None)
    where = None if code is None else Location(code.co_filename, code.co_firstlineno)
    given = results if isinstance(results, (tuple, list)) else [results]
    for one in given:
        if not isinstance(one, Traced):
            raise PipelineError(
                f"the pipeline gives a {type(one).__name__}, which depends on none of its inputs",
                location=where,
            )
    if not given:
        raise PipelineError("the pipeline gives nothing", location=where)
    return nodes, [one.node for one in given]


def _line_of(error: BaseException) -> Location | None:
    """The last line of the user's that was run."""
    found, step = None, error.__traceback__
    while step is not None:
        if is_users(step.tb_frame.f_code.co_filename):
            found = Location(step.tb_frame.f_code.co_filename, step.tb_lineno)
        step = step.tb_next
    return found
