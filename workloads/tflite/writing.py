"""A TensorFlow Lite model while it is written out in ONNX: tensors with their scales, and the node at hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from baco.common.errors import InputError, Location
from baco.workloads.encoding import check_scales
from baco.workloads.network import UnsupportedNodeError

#: Types of TensorFlow Lite's schema, by their number: as numpy has them.
TYPES = {0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8"}
#: Four bits, two of them a byte, the lower ones first.
_INT4 = 17
#: Of tensors that stand for real numbers where they have a scale.
_WHOLE = frozenset(("int8", "uint8", "int16", "int32"))
_VERSION = 21


class TfliteWriter:
    """Nodes, constants and types of the ONNX model.

    Args:
        path: of the model.
        model: as the schema's `ModelT` has it.
    """

    def __init__(self, path: str, model: Any) -> None:
        self.path, self.model = path, model
        self.graph = model.subgraphs[0]
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, onnx.TensorProto] = {}
        self.names: list[str] = []
        for index, tensor in enumerate(self.graph.tensors):
            name = bytes(tensor.name or b"").decode("utf-8", "replace") or f"tensor{index}"
            self.names.append(f"{name}~{index}" if name in self.names else name)

    def error(self, message: str, node: str) -> InputError:
        """An error located at a node."""
        return InputError(message, location=Location(self.path, node=node))

    def shape(self, index: int) -> tuple[int, ...]:
        """Of a tensor."""
        shape = self.graph.tensors[index].shape
        return () if shape is None else tuple(int(n) for n in shape)

    def kind(self, index: int) -> str:
        """Type of a tensor, as numpy calls it. Raises UnsupportedNodeError for others."""
        number = self.graph.tensors[index].type
        if number == _INT4:
            return "int8"
        if number not in TYPES:
            raise UnsupportedNodeError(f"'{self.names[index]}' is of type {number} of the schema")
        return TYPES[number]

    def scale(self, index: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Scales, zero points and the dimension that they lie along; None without."""
        q = self.graph.tensors[index].quantization
        if q is None or q.scale is None or not len(q.scale):
            return None
        scale = np.asarray(q.scale, np.float32)
        zero = (
            np.zeros(scale.size) if q.zeroPoint is None or not len(q.zeroPoint) else np.asarray(q.zeroPoint)
        )
        return scale, zero.astype(np.int64), int(q.quantizedDimension)

    def elements(self, index: int, node: str) -> np.ndarray | None:
        """Of a constant; None for other tensors. Raises InputError where the file holds another number of them."""
        tensor = self.graph.tensors[index]
        buffers = self.model.buffers
        data = buffers[tensor.buffer].data if 0 <= tensor.buffer < len(buffers) else None
        if data is None or not len(data):
            return None
        given, shape = np.asarray(data, np.uint8), self.shape(index)
        if tensor.type == _INT4:
            pairs = given.view(np.int8)
            values = np.stack([(pairs << 4) >> 4, pairs >> 4], -1).reshape(-1)[: math.prod(shape)]
        elif given.size % np.dtype(self.kind(index)).itemsize:
            values = np.zeros(0)
        else:
            values = given.view(self.kind(index))
        if values.size != math.prod(shape):
            raise self.error(
                f"its constant '{self.names[index]}' holds {values.size} elements, not {shape}", node
            )
        return values.reshape(shape)

    def info(self, index: int) -> onnx.ValueInfoProto:
        """Name, type and shape of a tensor."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.kind(index)))
        return helper.make_tensor_value_info(self.names[index], kind, self.shape(index))

    def built(self) -> onnx.ModelProto:
        """The model. Raises InputError for inputs and outputs of types that are not known."""
        written = {name for node in self.nodes for name in node.output}
        declared = [index for index, name in enumerate(self.names) if name in written]
        try:
            inputs = [self.info(int(index)) for index in self.graph.inputs]
            outputs = [self.info(int(index)) for index in self.graph.outputs]
        except UnsupportedNodeError as error:
            raise InputError(str(error), location=Location(self.path)) from None
        infos = [self.info(index) for index in declared if self.graph.tensors[index].type in TYPES]
        stored = list(self.stored.values())
        graph = helper.make_graph(self.nodes, "tflite", inputs, outputs, stored, value_info=infos)
        opsets = [helper.make_opsetid("", _VERSION), helper.make_opsetid("tflite", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class TfliteNode:
    """A node and what is written for it, `n` to the rules of `baco.workloads.tflite.operators`.

    Args:
        operator: as the schema's `OperatorT` has it.
        name: of the node.
    """

    def __init__(self, writer: TfliteWriter, operator: Any, name: str) -> None:
        self._writer, self._operator, self.name = writer, operator, name
        self._inputs = [] if operator.inputs is None else [int(i) for i in operator.inputs]
        self._written: list[onnx.NodeProto] = []
        self._stored: dict[str, onnx.TensorProto] = {}

    # Reading

    @property
    def count(self) -> int:
        """How many inputs there are."""
        return len(self._inputs)

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < self.count and self._inputs[index] >= 0

    def _tensor(self, index: int) -> int:
        if not self.has(index):
            raise self._writer.error(f"it lacks its input {index}", self.name)
        return self._inputs[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """Of an input."""
        return self._writer.shape(self._tensor(index))

    def output_shape(self) -> tuple[int, ...]:
        """Of the result."""
        return self._writer.shape(int(self._operator.outputs[0]))

    def option(self, name: str, default: Any) -> Any:
        """An option of the operator, as the schema calls it."""
        return getattr(self._operator.builtinOptions, name, default)

    def numbers(self, index: int) -> list[int]:
        """Elements of a constant input. Raises UnsupportedNodeError for others."""
        value = self._writer.elements(self._tensor(index), self.name)
        if value is None:
            raise UnsupportedNodeError(f"its input {index} is computed")
        return [int(n) for n in value.reshape(-1)]

    def real(self, index: int, order: Sequence[int] | None = None) -> str:
        """An input in real numbers; `order`: of the dimensions of a constant, which is stored so.

        Raises InputError for whole numbers without a scale.
        """
        tensor = self._tensor(index)
        name, kind, scale = self._writer.names[tensor], self._writer.kind(tensor), self._writer.scale(tensor)
        value = self._writer.elements(tensor, self.name)
        if value is not None:
            value = value if order is None else np.ascontiguousarray(value.transpose(order))
            name = f"{name}.{'x'.join(map(str, order))}" if order else name
            self._stored[name] = numpy_helper.from_array(value, name)
        elif order is not None:
            raise UnsupportedNodeError(f"its input {index} is computed")
        if kind == "float16":
            return self.add("Cast", name, to=onnx.TensorProto.FLOAT)
        if kind not in _WHOLE or (scale is None and kind == "int32"):
            return name
        if scale is None:
            raise self._writer.error(f"its input '{name}' is {kind} without a scale", self.name)
        return self._converted("DequantizeLinear", name, tensor, scale, order)

    def _converted(
        self,
        operator: str,
        x: str,
        tensor: int,
        scale: tuple[np.ndarray, np.ndarray, int],
        order: Sequence[int] | None = None,
    ) -> str:
        """Between whole numbers and real ones; `order`: of the dimensions, which the scale says nothing of."""
        numbers, zero, axis = scale
        kind, shape = self._writer.kind(tensor), self._writer.shape(tensor)
        limits = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        try:
            axis = check_scales(numbers, zero, limits, kind, axis, shape)
        except ValueError as error:
            raise self._writer.error(f"'{self._writer.names[tensor]}': {error}", self.name) from None
        if numbers.size == 1:
            numbers, zero = numbers.reshape(()), zero.reshape(-1)[:1].reshape(())
        names = [self.constant(numbers), self.constant(zero.astype(kind))]
        where: dict[str, Any] = (
            {} if numbers.size == 1 else {"axis": axis if order is None else list(order).index(axis)}
        )
        return self.add(operator, x, *names, **where)

    # Writing

    def constant(self, value: np.ndarray | np.generic) -> str:
        """A constant."""
        name = f"{self.name}.constant{len(self._stored)}"
        self._stored[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """An operator; the name of its result."""
        name = f"{self.name}.{operator.lower()}{len(self._written)}"
        attributes = {
            key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()
        }
        self._written.append(
            helper.make_node(operator, list(inputs), [name], self.name, domain=domain, **attributes)
        )
        return name

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        """Another shape."""
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def finish(self, y: str) -> None:
        """Real numbers as the result: rounded where that has a scale. Raises InputError where it lacks one."""
        index = int(self._operator.outputs[0])
        kind, scale, name = self._writer.kind(index), self._writer.scale(index), self._writer.names[index]
        if kind in _WHOLE and scale is None and kind != "int32":
            raise self._writer.error(f"its result '{name}' is {kind} without a scale", self.name)
        if kind in _WHOLE and scale is not None:
            y = self._converted("QuantizeLinear", y, index, scale)
        if self._written and self._written[-1].output[0] == y:
            self._written[-1].output[0] = name
        else:
            self._written.append(helper.make_node("Identity", [y], [name], self.name))
        self._writer.nodes += self._written
        self._writer.stored |= self._stored

    def leave(self, operator: str) -> None:
        """An operator that is not known here, by its name."""
        writer = self._writer
        names = [writer.names[index] for index in self._inputs if index >= 0]
        for index in self._inputs:
            value = (
                writer.elements(index, self.name)
                if index >= 0 and writer.graph.tensors[index].type in TYPES
                else None
            )
            if value is not None:
                writer.stored[writer.names[index]] = numpy_helper.from_array(value, writer.names[index])
        outputs = [writer.names[int(index)] for index in self._operator.outputs]
        writer.nodes.append(helper.make_node(operator, names, outputs, self.name, domain="tflite"))


def operator_names(schema: Any) -> Mapping[int, str]:
    """Names of operators by their number in the schema."""
    return {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
