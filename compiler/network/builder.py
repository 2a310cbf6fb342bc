"""A quantised network under construction: values, scales, views of tensors, copies where a view needs one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import cast, get_args

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.layers.weight_blocks import BlockWeights
from baco.compiler.network.calibrate import Ranges
from baco.compiler.network.compensation import Moments, ReadMoments
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.joined import joins_outside
from baco.compiler.network.least_error import images_inside
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.ops.arithmetic import distinct, float32, saturate8
from baco.compiler.ops.elements import Encoded
from baco.compiler.ops.elementwise import Conversion, Map
from baco.compiler.ops.operator import Dtype, IntegerOperator, IntegerTensor, Role
from baco.compiler.ops.views import JoinedView, View, dense
from baco.workloads.encoding import Encoding
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics
from baco.workloads.views import Expand, Reshape, Slice, Step, Transpose, Unknown

#: Memory order of the dimensions of (N, C, L) and (N, C, H, W).
CHANNELS_LAST: dict[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 2, 3, 1)}

#: Limits of whole numbers of a byte.
_BYTE, _SIGNED_BYTE = (0, 255), (-128, 127)


class IntegerBuilder:
    """What the rules of `tensor_operators` and `host_operators` read and write.

    Args:
        network: unrolled, with semantics (`calibrate.needed`).
        parameters: elements of its parameters.
        ranges: of its activations.
        quantiser: how scales are chosen.
        encodings: of tensors whose whole numbers the model gives (`baco.compiler.network.given`).
        real: tensors of such a model that stay real numbers (`baco.compiler.network.given_floats`).
        given: it is such a model, even where none of its numbers are whole.
    """

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        ranges: Ranges,
        quantiser: Quantiser,
        encodings: Mapping[str, Encoding] | None = None,
        real: Container[str] = (),
        *,
        given: bool = False,
        moments: ReadMoments | None = None,
    ) -> None:
        #: Of tensors whose whole numbers the model gives, as they are stored.
        self.encodings = {name: one.stored for name, one in (encodings or {}).items()}
        self.real = real
        #: Whether the model says how its numbers are kept.
        self.given = given or bool(encodings)
        #: Real numbers of tensors that hold whole ones.
        self.decoded: dict[str, View] = {}
        #: Inputs and outputs that the user sees as whole numbers.
        self.whole: dict[str, Encoding] = {}
        self.network = network
        self.parameters = parameters
        self.ranges = ranges
        self.quantiser = quantiser
        self._moments = moments
        self.values: dict[str, IntegerTensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.operators: list[IntegerOperator] = []
        self.tensors: dict[str, View] = {}
        #: Operators that an earlier one computes as well.
        self.done: set[str] = set()
        #: Operators whose zeros the convolution behind them adds: name -> operator.
        self.folded_pads: dict[str, Operator] = {}
        #: Operators that join parts of outputs, which stay apart in memory, and what became of them.
        self.outside = joins_outside(network, ranges) - self.encodings.keys()
        self.joined: dict[str, JoinedView] = {}
        #: Activations whose rare large numbers may be cut off.
        self._images = images_inside(network)
        self._names: set[str] = set()
        self._readers: dict[str, list[tuple[Operator | None, Tensor]]] = {}
        for op in network.operators:
            assert op.semantics is not None
            for operand in op.semantics.operands:
                if isinstance(operand, Tensor):
                    self._readers.setdefault(operand.name, []).append((op, operand))
        for tensor in network.outputs:
            self._readers.setdefault(tensor.name, []).append((None, tensor))

    def error(self, op: Operator, message: str, hint: str | None = None) -> InputError:
        """An error located at an operator."""
        return InputError(message, location=Location(self.network.source, node=op.name), hint=hint)

    # Questions

    def reader(self, name: str) -> Operator | None:
        """The operator that reads a tensor, if it is the only one and reads all of it as it is."""
        readers = self._readers.get(name, [])
        if len(readers) == 1 and not readers[0][1].steps:
            return readers[0][0]
        return None

    def readers(self, name: str) -> list[tuple[Operator | None, Tensor]]:
        """All (operator, view) that read a tensor; an output of the network has no operator."""
        return self._readers.get(name, [])

    def scale(self, view: View) -> float:
        """Of the value seen."""
        return self.values[view.value].scale

    def zero(self, view: View) -> int:
        """The element that stands for 0, of the value seen."""
        return self.values[view.value].zero

    def encoding(self, view: View) -> Encoding:
        """Of the elements of the value seen."""
        value = self.values[view.value]
        return value.encoding or Encoding(value.scale, value.zero, -128, 127)

    def scale_for(self, largest: float, steps: int = 127) -> float:
        """The scale by which numbers up to `largest` in magnitude are at most `steps`: those of int8."""
        ideal = largest / steps
        if self.quantiser.scales == "float":
            return float32(ideal)
        return math.ldexp(1.0, math.ceil(math.log2(ideal)))

    def scale_of(self, name: str) -> float:
        """That of a tensor's range; whole numbers are exact in it where they can be, so that they compare as they are."""
        if name in self.encodings:
            return self.encodings[name].scale
        largest = self.ranges[name]
        if self.ranges.counts(name) and 1 <= largest <= 127:
            return self._whole_scale(largest)
        return self.scale_for(self.ranges.end(name) if name in self._images else largest)

    def _whole_scale(self, largest: float) -> float:
        if self.quantiser.scales == "float":
            return float32(1 / math.floor(127 / largest))
        return self.scale_for(largest)  # a power of two, and at most 1

    # Values

    def value(
        self,
        name: str,
        shape: Sequence[int],
        scale: float,
        dtype: Dtype = "int8",
        role: Role = "intermediate",
        encoding: Encoding | None = None,
        blocks: BlockWeights | None = None,
    ) -> View:
        """A new value of this (or the next free) name, and the view of all of it; `encoding` comes before `scale`."""
        unique = _free_name(name, self.values)
        zero = 0
        if encoding is not None:
            scale, zero = encoding.scale, encoding.zero
        if encoding is not None and encoding.bits == 16:
            dtype = "int16"
        self.values[unique] = IntegerTensor(unique, tuple(shape), dtype, scale, role, zero, encoding, blocks)
        return dense(unique, shape)

    def moments(self, weight: str) -> Moments | None:
        """Of what is multiplied by trained weights, by their name, where these are rounded one after the other."""
        return None if self._moments is None else self._moments.of(weight)

    def constant(
        self,
        name: str,
        array: np.ndarray,
        scale: float = 1.0,
        encoding: Encoding | None = None,
        blocks: BlockWeights | None = None,
    ) -> View:
        """A constant value; equal ones of one name are stored once."""
        if encoding is not None:
            scale = encoding.scale
        like = (scale, encoding)
        if name in self.constants and (self.values[name].scale, self.values[name].encoding) == like:
            known = self.constants[name]
            if known.dtype == array.dtype and np.array_equal(known, array):
                return dense(name, array.shape)
        assert array.dtype.name in get_args(Dtype), array.dtype
        dtype = cast(Dtype, array.dtype.name)
        view = self.value(name, array.shape, scale, dtype, "constant", encoding, blocks)
        self.constants[view.value] = np.ascontiguousarray(array)
        return view

    def quantised(self, name: str, array: np.ndarray) -> View:
        """A real constant as int8 with a scale of its own."""
        numbers = distinct(array).astype(np.float64)
        # Infinite numbers (of masks) have no part in the scale, and become its ends.
        finite = numbers[np.isfinite(numbers)]
        largest = float(np.abs(finite).max(initial=0.0)) or 1.0
        whole = 1 <= largest <= 127 and bool((finite == np.rint(finite)).all())
        scale = self._whole_scale(largest) if whole else self.scale_for(largest)
        return self.constant(name, np.broadcast_to(saturate8(np.rint(numbers / scale)), array.shape), scale)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        order: Sequence[int] | None = None,
        scale: float | None = None,
        dtype: Dtype = "int8",
        like: View | None = None,
    ) -> View:
        """Memory for what a tensor of the network holds: its view in the network's shape.

        Args:
            name: of the operator of the network whose result it is.
            shape: as the network has it.
            order: dimensions from the outermost to the innermost in memory; None as they are.
            scale: None when any will do: that of the tensor's range, or of what it becomes a part of.
            like: holds the same elements: scale and encoding are its own.
        """
        order = tuple(range(len(shape))) if order is None else tuple(order)
        encoding = self.encodings.get(name) if dtype == "int8" else None
        if like is not None:
            scale, encoding = self.scale(like), self.values[like.value].encoding
        if (scale is None or encoding is not None) and dtype == "int8":
            part = self._part(name, order)
            if part is not None and part.shape == tuple(shape):
                self.tensors[name] = part
                return part
            scale = self.scale_of(name) if encoding is None else encoding.scale
        stored = [shape[a] for a in order]
        view = self.value(name, stored, 1.0 if scale is None else scale, dtype, encoding=encoding)
        inverse = sorted(range(len(order)), key=lambda i: order[i])
        self.tensors[name] = view.transposed(inverse)
        return self.tensors[name]

    def joined_input(self, x: Tensor) -> View | None:
        """Memory for an input that is only read to be joined with others, as a part of the whole: results that are joined
        with it (keys and values behind earlier ones) are then written beside it. None for other inputs."""
        part = self._part(x.name, tuple(range(len(x.shape))))
        if part is None or part.shape != x.shape:
            return None
        self.tensors[x.name] = part
        return part

    def mark_input(self, view: View) -> None:
        """The value is written by the user."""
        self.values[view.value] = replace(self.values[view.value], role="input")

    def _part(self, name: str, order: tuple[int, ...]) -> View | None:
        """Where a tensor goes that is only read to be joined with others: its part of the whole."""
        join = self.reader(name)
        if join is None or join.semantics is None or join.semantics.function != "concat":
            return None
        if join.name in self.outside or self.encodings.get(join.name) != self.encodings.get(name):
            return None
        if join.name not in self.tensors:
            self.tensor(join.name, join.output.shape, order)
        whole, axis = self.tensors[join.name], join.semantics.attributes["axis"]
        start = 0
        for operand in join.semantics.operands:
            assert operand is not None
            size = operand.shape[axis]
            if isinstance(operand, Tensor) and operand.name == name:
                part = part_of(whole, axis, start, size)
                # Another part that came first may have settled on another order.
                return part if self.order_like(part) == order else None
            start += size
        return None

    def part_outside(self, x: Operand, op: Operator) -> View | JoinedView:
        """An output, or a part of one that is joined outside."""
        if isinstance(x, Tensor) and x.name in self.joined:
            whole = self.joined[x.name]
            return replace(whole, steps=(*whole.steps, *x.steps))
        return self.operand(x, op, None)

    def order_like(self, view: View) -> tuple[int, ...]:
        """Memory order of a new tensor that is worked out element by element from this one."""
        axes = [a for a, size in enumerate(view.shape) if size > 1]
        if any(view.strides[a] == 0 for a in axes):
            return tuple(range(len(view.shape)))
        by_stride = iter(sorted(axes, key=lambda a: -abs(view.strides[a])))
        return tuple(next(by_stride) if size > 1 else a for a, size in enumerate(view.shape))

    # Operands

    def operand(
        self, operand: Operand, op: Operator, dtype: Dtype | None = "int8", *, as_given: bool = False
    ) -> View:
        """What an operator reads, in the network's shape; parameters become int8 constants.

        Args:
            as_given: whatever element stands for 0; else that is 0, of a copy with coarser steps where it must be.
        """
        assert operand is not None
        if isinstance(operand, Parameter):
            given = self._given_constant(operand) if as_given else None
            return given or self.quantised(operand.name, self.parameters(operand))
        view = self.viewed(self.tensors[operand.name], operand.steps, op)
        own = self.values[view.value].dtype
        if dtype == "int8" and own == "float32":
            return self._encoded(operand.name, view)
        if dtype is None or own == dtype or (dtype, own) == ("int8", "int16"):
            return view if as_given or dtype != "int8" or not self.zero(view) else self._centred(view, op)
        return self._converted(operand.name, self._centred(view, op) if self.zero(view) else view, op, dtype)

    def _given_constant(self, parameter: Parameter) -> View | None:
        """The whole numbers of a constant that a quantised model stores with one scale; None for others."""
        numbers = parameter.whole
        if numbers is None or len(numbers.scale) != 1 or len(numbers.zero) != 1:
            return None
        elements = self.parameters.whole(parameter).astype(np.int64)
        (scale,), (zero,) = numbers.scale, numbers.zero
        encoding = Encoding(scale, zero, *(_BYTE if elements.max(initial=0) > 127 else _SIGNED_BYTE))
        stored = elements - encoding.shift
        if stored.min(initial=0) < -128 or stored.max(initial=0) > 127:
            return None
        return self.constant(parameter.name, stored.astype(np.int8), encoding=encoding.stored)

    def _centred(self, view: View, op: Operator) -> View:
        """The same numbers with 0 for 0."""
        encoding = self.encoding(view)
        largest = float(np.abs(encoding.real(np.array([encoding.low, encoding.high]))).max())
        scale = self.scale_for(largest)
        entries = rounded(encoding.real(np.arange(-128, 128)) / scale)
        label = f"{op.name}.centred"
        order = self.order_like(view)
        inverse = sorted(range(len(order)), key=lambda i: order[i])
        result = self.value(label, [view.shape[a] for a in order], scale).transposed(inverse)
        self.emit(Map(self.name(label), (op.name,), result, view, self.constant(f"{label}.table", entries)))
        return result

    def _encoded(self, name: str, view: View) -> View:
        """Real numbers in the scale of their range, for what there is no rule of real numbers for."""
        scale, order = self.scale_of(name), self.order_like(view)
        inverse = sorted(range(len(order)), key=lambda i: order[i])
        result = self.value(f"{name}.numbers", [view.shape[a] for a in order], scale).transposed(inverse)
        self.emit(Encoded(self.name(f"{name}.numbers"), (name,), result, view, scale, 0, -128, 127))
        return result

    def _converted(self, name: str, view: View, op: Operator, dtype: Dtype) -> View:
        """Positions as numbers, or numbers as positions; a tensor with a value for each element of the view."""
        positions = dtype == "int32"
        scale = 1.0 if positions else self.scale_of(name)
        factor = self.scale(view) if positions else 1 / scale
        label = f"{name}.{'positions' if positions else 'numbers'}"
        order = self.order_like(view)
        inverse = sorted(range(len(order)), key=lambda i: order[i])
        result = self.value(label, [view.shape[a] for a in order], scale, dtype).transposed(inverse)
        self.emit(Conversion(self.name(label), (op.name,), result, view, float32(factor)))
        return result

    def viewed(self, view: View, steps: Sequence[Step], op: Operator) -> View:
        """A view of a view, by way of a copy where no strides describe it."""
        for step in steps:
            if isinstance(step, Transpose):
                view = view.transposed(step.axes)
            elif isinstance(step, Slice):
                view = view.sliced(step.starts, step.shape, step.steps)
            elif isinstance(step, Expand):
                view = view.expanded(step.shape)
            elif isinstance(step, Reshape):
                reshaped = view.reshaped(step.shape)
                if reshaped is None:
                    reshaped = self.copied(view, op).reshaped(step.shape)
                    assert reshaped is not None
                view = reshaped
            else:
                assert isinstance(step, Unknown)
                raise self.error(op, step.reason)
        return view

    def copied(self, view: View, op: Operator) -> View:
        """The same elements in memory of their own, one after the other."""
        source = self.values[view.value]
        if source.role == "constant":
            elements = np.ascontiguousarray(view.read(self.constants[view.value]))
            return self.constant(f"{view.value}.copy", elements, source.scale, source.encoding)
        copy = self.value(f"{op.name}.copy", view.shape, source.scale, source.dtype, encoding=source.encoding)
        self.emit(Map(self.name(f"{op.name}.copy"), (op.name,), copy, view, None))
        return copy

    # Results

    def name(self, wanted: str) -> str:
        """A name that no integer operator has yet."""
        unique = _free_name(wanted, self._names)
        self._names.add(unique)
        return unique

    def emit(self, op: IntegerOperator) -> None:
        """Append an operator."""
        self.operators.append(op)

    def table(
        self, name: str, function: Callable[[np.ndarray], np.ndarray], source: float, target: float
    ) -> View:
        """int8 constant [256]: function of the real number of every int8, in the scale `target`."""
        real = function(numbers_of(source))
        return self.constant(name, rounded(real / target))

    def finish(self, name: str, seed: int) -> QuantisedNetwork:
        """The network, with the roles of its values."""
        inputs = {tensor.name: self.tensors[tensor.name] for tensor in self.network.inputs}
        outputs: dict[str, View | JoinedView] = {}
        for called, tensor in self.network.named_outputs:
            outputs[_free_name(called, outputs)] = self.part_outside(tensor, self.network.operators[-1])
        views = (one.views if isinstance(one, JoinedView) else [one] for one in outputs.values())
        for view in itertools.chain.from_iterable(views):
            value = self.values[view.value]
            if value.role == "intermediate":
                self.values[view.value] = replace(value, role="output")
        return QuantisedNetwork(
            name,
            self.values,
            tuple(self.operators),
            self.constants,
            inputs,
            outputs,
            self.tensors,
            self.parameters.random,
            seed,
            self.whole,
        )


def numbers_of(scale: float) -> np.ndarray:
    """The real numbers [256] of every int8 in a scale; in one of whole numbers these are exact."""
    q = np.arange(-128, 128, dtype=np.float64)
    parts = round(1 / scale) if 0 < scale <= 1 else 0
    if parts and float32(1 / parts) == scale:
        return q / parts
    numbers = q * scale
    # The scale itself is rounded to 24 bits: 127 of them are the 2 that the range ends at, not a little less, or floor tells.
    whole = np.rint(numbers)
    return np.where(np.abs(numbers - whole) <= np.abs(whole) * 2.0**-22, whole, numbers)


def _free_name(wanted: str, taken: Container[str]) -> str:
    """The name, with a number behind it where it is taken."""
    numbered = (f"{wanted}~{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([wanted], numbered) if name not in taken)


def semantics_of(op: Operator) -> Semantics:
    """What an operator of a network that is run computes: networks with others have been refused (`quantise.runnable`)."""
    assert op.semantics is not None
    return op.semantics


def spatial_pair(values: Sequence[int], one: int = 1) -> tuple[int, int]:
    """(height, width) of what a convolution or pooling says for its one or two dimensions; `one` stands for the height."""
    return (values[0], values[1]) if len(values) == 2 else (one, values[0])


def rounded(numbers: np.ndarray) -> np.ndarray:
    """int8 nearest to each number (ties to even); undefined numbers become 0, infinite ones the ends."""
    return saturate8(np.rint(np.nan_to_num(np.clip(numbers, -1e9, 1e9), nan=0.0)))


def part_of(whole: View, axis: int, start: int, size: int) -> View:
    """`size` indices of one dimension, from `start`."""
    starts = [0] * len(whole.shape)
    shape = list(whole.shape)
    starts[axis], shape[axis] = start, size
    return whole.sliced(starts, shape, [1] * len(shape))
