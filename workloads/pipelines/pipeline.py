"""A pipeline: a function of numpy's, traced once, of which networks are made and with which their results are compared."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from baco.workloads.pipelines.byte_choice import VIEWS, in_order
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.lower import Lowered
from baco.workloads.pipelines.node import Node, PipelineError
from baco.workloads.pipelines.ranges import CARRYING, scale
from baco.workloads.pipelines.trace import Numbers, traced
from baco.workloads.views import Reshape, Transpose

#: Our operations by the names that scales have (`ranges.scale`).
_SCALED = {"add": "add", "sub": "sub", "mul": "mul", "stencil": "conv", "matmul": "matmul"}


@dataclass(frozen=True)
class ProvenRange:
    """What an operation of a pipeline is proven to give.

    Attributes:
        operation: its name.
        line: of the user's that asked for it.
        low, high: limits.
        step: what results are multiples of; None for real numbers.
        scale: the power of two by which results are below 1 for any operands of their magnitude (Xia, 2022); None where none is
            known: of functions that are not linear, and of sums over whole images, before which nothing is scaled.
    """

    operation: str
    line: Location | None
    low: float
    high: float
    step: float | None
    scale: Fraction | None


class TracedPipeline:
    """A function with what it computes.

    Args:
        function: of tensors, which are numpy arrays or stand for such.
        inputs: by the names that its arguments get.

    Raises PipelineError, at the user's line, as `trace.traced` does.
    """

    def __init__(self, function: Callable[..., Any], inputs: Mapping[str, Numbers]) -> None:
        self.function, self.inputs = function, dict(inputs)
        self.name = getattr(function, "__name__", type(function).__name__).strip("<>")
        self.nodes, self.outputs = traced(function, self.inputs)
        code = getattr(function, "__code__", None)
        #: Where the function begins.
        self.line = None if code is None else Location(code.co_filename, code.co_firstlineno)

    @property
    def output_names(self) -> list[str]:
        """Of the results, in order."""
        if len(self.outputs) == 1:
            return ["result"]
        return [f"result{number}" for number in range(len(self.outputs))]

    def network(self, how: Placing, shapes: Sequence[tuple[int, ...]] | None = None) -> Network:
        """The pipeline as a network.

        Args:
            how: where operators run.
            shapes: of the results, where a network behind it asks for others: (1, C, H, W) of (H, W, C).

        Raises PipelineError for what is not proven to stay in range, and results of other shapes.
        """
        source = "built-in" if self.line is None else str(self.line)
        builder = GraphBuilder(self.name, source)
        lowered = Lowered(builder, self.outputs, how)
        for name, node in self.nodes.items():
            lowered.given(node, builder.input(name, node.shape))
        results = [lowered.of(node) for node in self.outputs]
        for number, wanted in enumerate(shapes or ()):
            results[number] = self._as_network_input(builder, results[number], wanted)
        for number, tensor in enumerate(results):
            if tensor.name in self.inputs:  # no operator gives it
                results[number] = lowered.op("elementwise", (tensor,), tensor.shape, "identity")
        return builder.build(outputs=results, output_names=self.output_names)

    def _as_network_input(self, builder: GraphBuilder, tensor: Any, wanted: tuple[int, ...]) -> Any:
        if tensor.shape == wanted:
            return tensor
        if wanted[0] == 1 and tensor.shape in (wanted[1:], (math.prod(wanted),)):
            return tensor.viewed(wanted, Reshape(wanted))
        if (1, *(tensor.shape[2:] or (1,)), *tensor.shape[:2]) != wanted:
            raise PipelineError(
                f"the pipeline gives {tensor.shape}, but the network reads {wanted}",
                location=self.line,
                hint="an image (height, width, channels) is read as (1, channels, height, width)",
            )
        if len(tensor.shape) == 3:
            axes = (2, 0, 1)
            tensor = tensor.viewed(tuple(tensor.shape[a] for a in axes), Transpose(axes))
        return tensor.viewed(wanted, Reshape(wanted))

    # Data

    def checked(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs as the pipeline was traced for.

        Raises PipelineError for missing ones, other sizes or channels, NaN, and numbers beyond the range that was proven.
        """
        for name in arrays:
            if name not in self.inputs:
                raise PipelineError(
                    f"there is no input '{name}'", location=self.line, hint=", ".join(self.inputs)
                )
        found = {}
        for name, given in self.inputs.items():
            if name not in arrays:
                raise PipelineError(f"the input '{name}' is missing", location=self.line)
            array = np.asarray(arrays[name])
            if array.shape != given.shape:
                raise PipelineError(
                    f"'{name}' is {_size(array.shape)}, but the pipeline was compiled for {_size(given.shape)}",
                    location=self.line,
                    hint="compile it for this size, or resize before",
                )
            if array.dtype.kind not in "fiub":
                raise PipelineError(f"'{name}' holds no numbers but {array.dtype}", location=self.line)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise PipelineError(f"'{name}' holds {array[~np.isfinite(array)][0]}", location=self.line)
            low, high = float(given.range.low), float(given.range.high)
            if array.min() < low or array.max() > high:
                raise PipelineError(
                    f"'{name}' holds {array.min():g} to {array.max():g}, but the proof is for {low:g} to {high:g}",
                    location=self.line,
                )
            if not given.real and given.scale == 1 and (array != np.rint(array)).any():
                raise PipelineError(f"'{name}' holds other numbers than whole ones", location=self.line)
            found[name] = array
        return found

    def graph_inputs(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same as the network reads them."""
        return {name: array.astype(np.float32) for name, array in self.checked(arrays).items()}

    def evaluated(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Results of the function itself, by numpy in 64 bits. Raises PipelineError where it fails on arrays."""
        wide = []
        for name, given in self.inputs.items():
            array = np.asarray(arrays[name])
            wide.append(array.astype(np.float64 if given.real or given.scale != 1 else np.int64))
        try:
            results = self.function(*wide)
        except Exception as error:
            raise PipelineError(
                f"the function cannot be run on arrays: {type(error).__name__}: {error}", location=self.line
            ) from error
        given_back = results if isinstance(results, (tuple, list)) else [results]
        return [np.asarray(one) for one in given_back]

    def random(self, seed: int) -> dict[str, np.ndarray]:
        """Inputs in range."""
        random = np.random.default_rng(seed)
        found: dict[str, np.ndarray] = {}
        for name, given in self.inputs.items():
            if given.real:
                found[name] = random.uniform(given.low, given.high, given.shape)
                continue
            whole: np.ndarray = random.integers(
                round(given.low), round(given.high), given.shape, endpoint=True
            )
            found[name] = whole if given.scale == 1 else whole * given.scale
        return found

    # Proof

    @property
    def exact(self) -> list[bool]:
        """Of every result, whether it is proven to be what whole numbers give, to the bit."""
        return [all(_is_exact(node) for node in in_order([one])) for one in self.outputs]

    def proof(self) -> list[ProvenRange]:
        """Limits of all operations, in order; views left out."""
        found = []
        for node in in_order(self.outputs):
            if node.function in VIEWS or node.function == "constant":
                continue
            name = str(node.attributes.get("name", node.function))
            step = None if node.range.exponent is None else 2.0**node.range.exponent
            limits = float(node.range.low), float(node.range.high)
            found.append(ProvenRange(name, node.line, *limits, step, _scale(node, name)))
        return found


def _is_exact(node: Node) -> bool:
    return node.range.exponent is not None and (node.range.exact or node.function == "constant")


def _scale(node: Node, name: str) -> Fraction | None:
    kind = _SCALED.get(name)
    magnitude = max((x.range.magnitude for x in node.operands), default=node.range.magnitude)
    if kind is not None:
        count = 1
        if name == "stencil":
            count = int(node.attributes["kernel"].size)
            magnitude = max(magnitude, Fraction(float(np.abs(node.attributes["kernel"]).max())))
        elif name == "matmul":
            count = node.operands[0].shape[-1]
        return scale(kind, magnitude, count)
    if node.function in CARRYING or node.function == "input":
        return scale("input", node.range.magnitude)
    return None


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Of the tensors that a function takes: its arguments without defaults."""
    return [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]


def given_inputs(function: Callable[..., Any], inputs: Any) -> dict[str, Numbers]:
    """What a function is traced with, from shapes, `Numbers`, or arrays; by name, or for its only argument.

    Raises InputError for anything else, and for another number of arguments.
    """
    names = argument_names(function)
    if not isinstance(inputs, Mapping):
        inputs = {names[0] if names else "image": inputs}
    if len(inputs) != len(names):
        code = getattr(function, "__code__", None)
        where = None if code is None else Location(code.co_filename, code.co_firstlineno)
        wanted = f"{len(names)} arguments ({', '.join(names)})"
        raise InputError(f"the function has {wanted}, but is given {len(inputs)}", location=where)
    return {name: _given(name, one) for name, one in inputs.items()}


def _given(name: str, one: Any) -> Numbers:
    if isinstance(one, Numbers):
        made = one
    elif isinstance(one, np.ndarray):
        made = Numbers(one.shape)
    elif isinstance(one, Sequence) and all(isinstance(n, int) for n in one):
        made = Numbers(tuple(one))
    else:
        raise InputError(
            f"'{name}' is a {type(one).__name__}, no shape", hint="give (height, width, channels)"
        )
    if not made.shape or min(made.shape) < 1:
        raise InputError(f"'{name}' has the shape {made.shape}, which holds nothing")
    return made


__all__ = ["Numbers", "TracedPipeline", "argument_names", "given_inputs"]
