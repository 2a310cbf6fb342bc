"""A quantised network as a list of calls: layers and additions on the accelerator, the rest by the host's C functions.

Where a view of a value is nothing that a layer can read or write in place, it is copied, constants while compiling
and everything else by the program. What no schedule can compute, the host computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accel.config import Accelerator
from accel.isa import float32_bits
from common.errors import InfeasibleError, InputError
from compiler.layers.layer import Layer
from compiler.network.addition import AdditionCode, identity, plan_addition
from compiler.network.arithmetic import float32
from compiler.network.graph import (
    Addition,
    BinaryTable,
    Convolution,
    IntegerOperator,
    IntegerTensor,
    Map,
    MatMul,
    MaxPool,
    Multiplication,
    Normalisation,
    QuantisedNetwork,
    Softmax,
)
from compiler.network.host_calls import copy_call, host_call
from compiler.network.layers import (
    MatrixCalls,
    convolution_layer,
    is_image,
    matmul_layer,
    matrix_pitch,
    pooling_of,
)
from compiler.network.pooling import plan_max_pool
from compiler.network.row_functions import OFFSET_FRACTION
from compiler.network.steps import (
    Argument,
    ByteRange,
    HostCall,
    Step,
    ValueAddress,
    itemsize,
    pointer,
    region,
)
from compiler.network.views import View, dense
from compiler.schedules.schedule import Schedule

__all__ = ["ANY_SCALE", "LayerCode", "LoweredNetwork", "Scheduler", "lower_network", "step_kind"]

#: How a layer (of any scale, `ANY_SCALE`) is carried out, and the workspaces (name, bytes) that its code wants.
Scheduler = Callable[[Layer], tuple[Schedule, tuple[tuple[str, int], ...]]]


#: Scale of layers whose functions take the real one as an argument: layers that differ in nothing else share one.
ANY_SCALE = float32(0.7390851)


@dataclass(frozen=True)
class LayerCode:
    """A function that computes a layer.

    Its arguments are input, weight, output, bias if there is one, workspaces, and the bits of the scale where the
    layer's is `ANY_SCALE`.
    """

    layer: Layer
    schedule: Schedule
    workspaces: tuple[tuple[str, int], ...]


@dataclass
class LoweredNetwork:
    """What `lower_network` finds.

    Attributes:
        network: what was lowered.
        steps: calls in order.
        values: all that the steps touch, temporary ones and constants included.
        constants: elements of the constants among them.
        layers, additions, pools: code of the functions that run on the accelerator, by name.
        sources: C files that the host's functions are in.
        in_place: values that may take over the memory of another one that is read for the last time.
        notes: what could not be computed as wished, one sentence each.
    """

    network: QuantisedNetwork
    steps: list[Step] = field(default_factory=list)
    values: dict[str, IntegerTensor] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    layers: dict[str, LayerCode] = field(default_factory=dict)
    additions: dict[str, AdditionCode] = field(default_factory=dict)
    pools: dict[str, Layer] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    in_place: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def step_kind(lowered: LoweredNetwork, function: str) -> str:
    """`layer`, `addition` or `pooling` for a function that runs on the accelerator; the host's keep their names."""
    kinds = (("layer", lowered.layers), ("addition", lowered.additions), ("pooling", lowered.pools))
    return next((kind for kind, functions in kinds if function in functions), function)


def lower_network(network: QuantisedNetwork, accelerator: Accelerator, schedule: Scheduler) -> LoweredNetwork:
    """The calls that compute a network.

    Args:
        schedule: chooses how a layer is carried out; raises InfeasibleError for one that the accelerator cannot
            compute. Asked once for each different layer.

    Raises InfeasibleError for an operator without code.
    """
    lowering = _Lowering(network, accelerator, schedule)
    for operator in network.operators:
        lowering.lower(operator)
    result = lowering.result
    called = {step.function for step in result.steps}
    # a layer that was looked at but became another one once an operand had been copied
    result.layers = {name: code for name, code in result.layers.items() if name in called}
    return result


#: Bytes of the largest memory request; weights may grow by one part in so many to begin there.
_REQUEST, _MOST_PADDING = 64, 8
#: Operators whose result may lie where an operand of the same view lay.
_POINTWISE = (Map, Addition, Multiplication, BinaryTable, Softmax, Normalisation)


class _Lowering:
    def __init__(self, network: QuantisedNetwork, accelerator: Accelerator, schedule: Scheduler) -> None:
        self.network, self.accelerator = network, accelerator
        self._schedule = schedule
        self.result = LoweredNetwork(network)
        self.values: dict[str, IntegerTensor] = dict(network.values)
        self._data: dict[str, np.ndarray] = dict(network.constants)
        self._layer_names: dict[Layer, str | None] = {}
        self._addition_names: dict[AdditionCode, str] = {}
        self._pool_names: dict[Layer, str] = {}
        self._negative: set[str] = set()
        self._parameter_names: dict[tuple[int, ...], str] = {}
        self._operator = ""

    def lower(self, op: IntegerOperator) -> None:
        """Append the steps of an operator."""
        self._operator = op.name
        if isinstance(op, Convolution):
            self._convolution(op)
        elif isinstance(op, MatMul):
            self._matmul(op)
        elif isinstance(op, Addition):
            self._addition(op)
        elif isinstance(op, MaxPool):
            self._max_pool(op)
        elif isinstance(op, Normalisation):
            self._host(host_call(replace(op, offset=self._rounding(op.offset)), self.values))
        else:
            self._host(host_call(op, self.values))
        if isinstance(op, _POINTWISE):
            self._note_in_place(op)
        if not self._is_positive(op):
            self._negative.add(op.output.value)

    # ---------------------------------------------------------------- convolutions

    def _convolution(self, op: Convolution) -> None:
        op = replace(
            op,
            weight=self._constant(op.weight),
            bias=None if op.bias is None else self._constant(op.bias),
        )
        if op.pool is not None:
            try:
                pooling_of(op.pool, op.output)
                if self._layer_of(self._on_images(op)) is None:
                    raise ValueError("no schedule")
            except ValueError:
                self._pool_afterwards(op)
                return
        source = op.input if is_image(op.input) else self._copied(op.input)
        op = replace(op, input=source)
        target = op.output
        if not is_image(target):
            op = replace(op, output=self._temporary(target.shape, target))
        name = self._layer_of(op)
        if name is None:
            self._host(host_call(replace(op, output=target), self.values))
            return
        self._call_layer(name, op.input, op.weight, op.bias, op.output, op.scale)
        if op.output is not target:
            self._host(copy_call(op.output, target, self.values))

    def _on_images(self, op: Convolution) -> Convolution:
        """The operator as it will be once what is no image has been copied; for choosing only."""
        source, target = (
            view if is_image(view) else dense(view.value, view.shape) for view in (op.input, op.output)
        )
        return replace(op, input=source, output=target)

    def _pool_afterwards(self, op: Convolution) -> None:
        """A convolution whose pooling the accelerator cannot do: the host pools the whole result."""
        pool = op.pool
        assert pool is not None
        shape = (op.input.shape[0], *op.size, op.output.shape[3])
        whole = self._temporary(shape, op.output)
        self._convolution(replace(op, pool=None, output=whole))
        if not op.relu or op.scale < 0:
            self._negative.add(whole.value)
        one = (1, 1)
        self._max_pool(MaxPool(op.name, (), op.output, whole, pool.kernel, pool.stride, pool.padding, one))

    def _layer_of(self, op: Convolution) -> str | None:
        try:
            layer = convolution_layer(op)
        except InputError as error:  # a window that meets no pixel, say
            self._note(op.name, str(error))
            return None
        return self._layer_name(layer)

    # ---------------------------------------------------------------- products

    def _matmul(self, op: MatMul) -> None:
        if op.bias is not None:
            op = replace(op, bias=self._constant(op.bias))
        op = replace(op, right=self._with_aligned_rows(op.right))
        target = op.output
        if self._layer_name(self._on_matrices(op).layer) is None:
            self._host(host_call(op, self.values))
            return
        if not _has_rows(op.left):
            op = replace(op, left=self._copied(op.left))
        if not _has_rows(op.right) and not _has_rows(_transposed(op.right)):
            op = replace(op, right=self._copied(op.right))
        if not _has_rows(op.output):
            op = replace(op, output=self._temporary(target.shape, target))
        calls = matmul_layer(op)
        assert calls is not None, "every operand has rows now"
        name = self._layer_name(calls.layer)
        if name is None:  # the copies made it another layer
            self._host(host_call(replace(op, output=target), self.values))
            return
        self._call_layer(name, op.left, op.right, op.bias, op.output, op.scale, calls.offsets)
        if op.output is not target:
            self._host(copy_call(op.output, target, self.values))

    @staticmethod
    def _on_matrices(op: MatMul) -> MatrixCalls:
        """As `_on_images`."""

        def usable(view: View, transposed: bool = False) -> View:
            if _has_rows(view) or (transposed and _has_rows(_transposed(view))):
                return view
            return dense(view.value, view.shape)

        calls = matmul_layer(
            replace(op, left=usable(op.left), right=usable(op.right, True), output=usable(op.output))
        )
        assert calls is not None
        return calls

    # ---------------------------------------------------------------- additions

    def _addition(self, op: Addition) -> None:
        code = plan_addition(op, self.accelerator)
        if code is None:
            self._host(host_call(op, self.values))
            return
        if code not in self._addition_names:
            name = f"addition_{len(self._addition_names)}"
            self._addition_names[code] = name
            self.result.additions[name] = code
        ones = self._add_constant(f"identity{self.accelerator.dim}", identity(self.accelerator.dim))
        views = (ones, op.left, op.right)
        self._step(
            self._addition_names[code],
            [
                *(self._pointer(one) for one in (*views, op.output)),
                *(float32_bits(one) for one in (op.left_scale, op.right_scale, op.scale)),
            ],
            [self._region(one) for one in views],
            [self._region(op.output)],
            accelerator=True,
            host=False,
        )

    # ---------------------------------------------------------------- pooling

    def _max_pool(self, op: MaxPool) -> None:
        layer = plan_max_pool(op, self.accelerator, non_negative=self._never_negative(op.input.value))
        if layer is None:
            self._host(host_call(op, self.values))
            return
        if layer not in self._pool_names:
            name = f"pool_{len(self._pool_names)}"
            self._pool_names[layer] = name
            self.result.pools[name] = layer
        self._step(
            self._pool_names[layer],
            [self._pointer(op.input), self._pointer(op.output)],
            [self._region(op.input)],
            [self._region(op.output)],
            accelerator=True,
            host=False,
        )

    def _never_negative(self, name: str) -> bool:
        """Whether every operator that writes the value so far leaves no negative element in it."""
        return self.values[name].role in ("intermediate", "output") and name not in self._negative

    def _is_positive(self, op: IntegerOperator) -> bool:
        if isinstance(op, Convolution | MatMul | Addition):
            return op.relu and op.scale >= 0
        if isinstance(op, MaxPool):
            return self._never_negative(op.input.value)
        return isinstance(op, Softmax)

    # ---------------------------------------------------------------- steps

    def _call_layer(
        self,
        name: str,
        source: View,
        weight: View,
        bias: View | None,
        target: View,
        scale: float,
        offsets: Sequence[tuple[int, int, int]] = ((0, 0, 0),),
    ) -> None:
        code = self.result.layers[name]
        spaces = [self._workspace(nbytes) for _, nbytes in code.workspaces]
        for at in offsets:
            arguments: list[Argument] = [
                self._pointer(view, offset) for view, offset in zip((source, weight, target), at, strict=True)
            ]
            if bias is not None:
                arguments.append(self._pointer(bias))
            arguments += [self._pointer(one) for one in spaces]
            if code.layer.scale == ANY_SCALE:
                arguments.append(float32_bits(scale))
            busy = [self._region(one) for one in spaces]
            read = [self._region(one) for one in (source, weight, bias) if one is not None]
            self._step(
                name,
                arguments,
                read + busy,
                [self._region(target), *busy],
                accelerator=True,
                host=bool(spaces),
            )

    def _host(self, call: HostCall) -> None:
        for name, data in call.extra.items():
            self._add_constant(name, data)
        self.result.sources.add(call.source)
        if call.parameters not in self._parameter_names:
            name = f"parameters.{len(self._parameter_names)}"
            self._parameter_names[call.parameters] = name
            self._add_constant(name, np.array(call.parameters, dtype=np.int64))
        parameters = dense(self._parameter_names[call.parameters], (len(call.parameters),))
        *read, target = (
            self._constant(view) if view is not None and self._is_tabular(view) else view
            for view in call.operands
        )
        assert target is not None
        given = [parameters, *read]
        self._step(
            call.function,
            [0 if one is None else self._pointer(one) for one in (*given, target)],
            [self._region(one) for one in given if one is not None],
            [self._region(target)],
        )

    @staticmethod
    def _is_tabular(view: View) -> bool:
        """Whether the host's code takes the operand as a dense table."""
        return view.shape in ((256,), (256, 256)) and not view.is_dense

    def _step(
        self,
        function: str,
        arguments: Sequence[Argument],
        reads: Sequence[ByteRange],
        writes: Sequence[ByteRange],
        accelerator: bool = False,
        host: bool = True,
    ) -> None:
        self.result.steps.append(
            Step(self._operator, function, tuple(arguments), tuple(reads), tuple(writes), accelerator, host)
        )

    def _pointer(self, view: View, offset: int = 0) -> ValueAddress:
        self._use(view.value)
        at = pointer(view, self.values)
        return ValueAddress(at.value, at.offset + offset * itemsize(self.values[view.value]))

    def _region(self, view: View) -> ByteRange:
        return region(view, self.values)

    def _use(self, name: str) -> None:
        """Values that steps touch are in the result, with their data if they are constants."""
        if name not in self.result.values:
            self.result.values[name] = self.values[name]
            if name in self._data:
                self.result.constants[name] = self._data[name]

    # ---------------------------------------------------------------- values

    def _add_constant(self, name: str, data: np.ndarray) -> View:
        if name not in self.values:
            dtype = {1: "int8", 4: "int32", 8: "int64"}[data.dtype.itemsize]
            self.values[name] = IntegerTensor(name, data.shape, dtype, role="constant")  # type: ignore[arg-type]
            self._data[name] = data
        return dense(name, data.shape)

    def _constant(self, view: View) -> View:
        """A constant's view as a dense constant."""
        if view.is_dense or view.value not in self._data:
            return view
        elements = np.ascontiguousarray(view.read(self._data[view.value]))
        return self._add_constant(
            f"{view.value}.{view.offset}.{'x'.join(map(str, view.shape))}.{'x'.join(map(str, view.strides))}",
            elements,
        )

    def _rounding(self, offset: View) -> View:
        """Offsets of a normalisation with the half that rounds its result, which saves the host an addition an element."""
        half = np.int32(1 << (OFFSET_FRACTION - 1))
        name = f"{offset.value}.rounding"
        self._add_constant(name, self._data[offset.value] + half)
        return replace(offset, value=name)

    def _with_aligned_rows(self, view: View) -> View:
        """Weights whose rows begin at multiples of a memory request, if that makes them little larger.

        A load fetches naturally aligned requests, so rows that begin anywhere take more of them.
        """
        if view.value not in self._data or len(view.shape) != 2:
            return view
        turned = view.strides[1] != 1
        rows = _transposed(view) if turned else view
        count, extent = rows.shape
        pitch = -(-extent // _REQUEST) * _REQUEST
        if (
            rows.strides != (extent, 1)
            or count == 1
            or (pitch - extent) * _MOST_PADDING > extent
            or pitch == extent
        ):
            return view
        elements = np.zeros((count, pitch), dtype=self._data[view.value].dtype)
        elements[:, :extent] = rows.read(self._data[view.value])
        name = f"{view.value}.{rows.offset}.{count}x{extent}.pitch{pitch}"
        self._add_constant(name, elements)
        aligned = View(name, rows.shape, (pitch, 1))
        return _transposed(aligned) if turned else aligned

    def _temporary(self, shape: Sequence[int], like: View) -> View:
        name = f"{self._operator}.temporary{len(self.values)}"
        self.values[name] = IntegerTensor(name, tuple(shape), self.values[like.value].dtype)
        return dense(name, shape)

    def _workspace(self, nbytes: int) -> View:
        name = f"{self._operator}.workspace{len(self.values)}"
        self.values[name] = IntegerTensor(name, (nbytes,))
        return dense(name, (nbytes,))

    def _copied(self, view: View) -> View:
        """A dense copy of a view."""
        if view.value in self._data:
            return self._constant(view)
        copy = self._temporary(view.shape, view)
        self._host(copy_call(view, copy, self.values))
        return copy

    # ---------------------------------------------------------------- layers

    def _layer_name(self, layer: Layer) -> str | None:
        """The function of a layer, None if the accelerator cannot compute it."""
        if layer.scale not in (None, 1.0):
            layer = replace(layer, scale=ANY_SCALE)
        if layer not in self._layer_names:
            try:
                schedule, workspaces = self._schedule(layer)
            except InfeasibleError as error:
                self._layer_names[layer] = None
                self._note(self._operator, str(error))
            else:
                name = f"layer_{len(self.result.layers)}"
                self._layer_names[layer] = name
                self.result.layers[name] = LayerCode(layer, schedule, workspaces)
        return self._layer_names[layer]

    def _note(self, operator: str, reason: str) -> None:
        self.result.notes.append(f"{operator}: not on the accelerator as a whole: {reason}")

    # ---------------------------------------------------------------- memory

    def _note_in_place(self, op: IntegerOperator) -> None:
        """Remember that the result may replace an operand: same view, nothing else of it is read."""
        for view in op.inputs:
            others = [one for one in op.inputs if one.value == view.value]
            if (
                self.values[view.value].role == self.values[op.output.value].role == "intermediate"
                and all(_same_elements(one, op.output) for one in others)
                and math.prod(self.values[view.value].shape) == view.words
                and view.words == math.prod(self.values[op.output.value].shape)
            ):
                self.result.in_place.setdefault(op.output.value, view.value)
                return


def _has_rows(view: View) -> bool:
    """Whether the last two dimensions are matrices of contiguous rows."""
    return matrix_pitch(*view.shape[-2:], *view.strides[-2:]) is not None


def _transposed(view: View) -> View:
    axes = [*range(len(view.shape) - 2), len(view.shape) - 1, len(view.shape) - 2]
    return view.transposed(axes)


def _same_elements(a: View, b: View) -> bool:
    """Element i of one lies where element i of the other does, in their values."""
    one, other = a.collapsed(), b.collapsed()
    return (one.shape, one.strides, one.offset) == (other.shape, other.strides, other.offset)
