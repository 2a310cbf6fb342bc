"""The node at hand during an ONNX import: what handlers of operators read and write."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx

from baco.common.errors import InputError, Location
from baco.common.text import file_label
from baco.workloads.builder import GraphBuilder
from baco.workloads.encoding import Encoding
from baco.workloads.network import Tensor, Unsupported, UnsupportedNodeError
from baco.workloads.onnx.expansion import UNITS
from baco.workloads.onnx.fold import FoldedTensor, WholeConstant, roots_of, stored_value
from baco.workloads.onnx.load import LoadedModel, tensor_shape
from baco.workloads.onnx.quantised_constants import RESHAPING
from baco.workloads.onnx.reading import default_of, passed_over
from baco.workloads.onnx.values import OnnxValues
from baco.workloads.semantics import Fill, Parameter, Semantics, WholeNumbers
from baco.workloads.views import Reshape, Transpose, Unknown, unrecorded

#: Operators that choose among elements: whole numbers and real ones alike.
_KEEP_ELEMENTS = frozenset(
    (
        *("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand"),
        *("Tile", "Concat", "DepthToSpace", "SpaceToDepth", "MaxPool", "GlobalMaxPool", "ReduceMax"),
    )
)


class OnnxNode:
    """A cursor over the graph, `imp` to the handlers of `baco.workloads.onnx.operators`.

    Attributes:
        builder: where operators go.
        node: the node at hand.
        name: its unique name.
        version: of the operator set that it is from.
        values_of_constants: elements of any constant by name, for running the network later.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.builder = GraphBuilder(file_label(model.path), source=model.path, options=model.options)
        self.values: dict[str, Tensor] = {}
        self.constants = dict(model.constants)
        self.values_of_constants = OnnxValues(
            model.path, model.graph, model.version, model.shapes, model.stored
        )
        self.unsupported: list[Unsupported] = []
        self.node = onnx.NodeProto()
        self.name = ""
        self._attributes: dict[str, onnx.AttributeProto] = {}
        #: What the operator at hand computes; None where that is not known, or the handler says it.
        self.rule: Rule | None = None
        #: Why the rule at hand does not say what the node computes.
        self.obstacle = ""
        self._claimed: set[str] = set()
        self._unknown: set[str] = set()
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()
        #: Of values of the model that are whole numbers which a QuantizeLinear made; here they stay real ones.
        self.encodings: dict[str, Encoding] = {}
        #: Whether real numbers of the model are whole ones throughout, as its deployer's operators have them.
        self.whole = False
        #: Inputs of the model.
        self.given: set[str] = set()
        self._refused: list[str] = []
        self._first, self.version = 0, 1
        #: Nodes that read a value, None for the model's outputs.
        self.readers: dict[str, list[onnx.NodeProto | None]] = {}
        for reader in model.graph.node:
            for read in dict.fromkeys(reader.input):
                self.readers.setdefault(read, []).append(reader)
        for value in model.graph.output:
            self.readers.setdefault(value.name, []).append(None)

    def enter(self, index: int, node: onnx.NodeProto) -> None:
        """Move to a node."""
        self.node = node
        self._attributes = {a.name: a for a in node.attribute}
        self.version = self.model.version(node)
        self._first = self.builder.count
        self._refused = []
        self.forget()
        self.obstacle = ""
        own = node.name or (node.output[0] if node.output and node.output[0] else f"{node.op_type}_{index}")
        self.name = self.builder.unique(own)

    def fold(self, dequantised: Callable[[OnnxNode], WholeConstant | None]) -> bool:
        """Results of constants are constants; True when the node was one.

        Args:
            dequantised: tells what whole numbers a DequantizeLinear at hand makes real ones of.
        """
        node = self.node
        sources = [name for name in node.input if name]
        has_body = any(
            a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute
        )
        if has_body or any(name not in self.constants for name in sources):
            return False
        value: np.ndarray | None = None
        shape: tuple[int, ...] | None = None
        if node.op_type == "Constant" and "value" in self._attributes:
            tensor = self._attributes["value"].t
            shape = tensor_shape(self.model.path, self.name, tensor.dims)
            value = stored_value(tensor)
        elif sources and node.op_type in ("Identity", "Cast", "DequantizeLinear", "QuantizeLinear", "Clip"):
            shape = self.constants[sources[0]].shape
            if node.op_type in ("Identity", "Cast"):
                value = self.constants[sources[0]].value
        roots = tuple(dict.fromkeys(root for name in sources for root in self.constants[name].roots))
        if node.op_type in ("DequantizeLinear", "QuantizeLinear", "Clip"):
            roots = self.constants[sources[0]].roots if sources else ()
        elif node.op_type in ("Shape", "Size"):
            roots = ()
        elif node.op_type == "Constant" and shape is not None:
            roots = roots_of(node.output[0], self._attributes["value"].t.data_type, shape)
        for output in node.output:
            known: tuple[int, ...] | None = self.model.shapes.get(output, shape)
            whole = self._whole_numbers(known, dequantised)
            if whole is not None and value is None and node.op_type == "DequantizeLinear":
                value = self._small(whole)
            roots = self.model.computed.get(output, roots)
            self.constants[output] = FoldedTensor(known, roots, value, whole)
        return True

    def _whole_numbers(
        self, shape: tuple[int, ...] | None, dequantised: Callable[[OnnxNode], WholeConstant | None]
    ) -> WholeConstant | None:
        """Those that the real numbers of the constant at hand stand for, of the shape `shape`; None where there are none."""
        node = self.node
        source = self.constants[node.input[0]].whole if node.input and node.input[0] else None
        if node.op_type == "DequantizeLinear":
            return dequantised(self)
        if source is None or shape is None:
            return None
        if node.op_type in RESHAPING:
            return replace(source, steps=(*source.steps, Reshape(shape)))
        if node.op_type == "Transpose":
            given = self.integers("perm")
            axes = tuple(range(len(shape)))[::-1] if given is None else given
            return replace(source, steps=(*source.steps, Transpose(axes)))
        return None

    def _small(self, whole: WholeConstant) -> np.ndarray | None:
        """Real numbers of a small constant."""
        stored = self.constants[whole.name].value
        if stored is None:
            return None
        numbers = WholeNumbers(Parameter(whole.name, stored.shape), whole.scale, whole.zero, whole.axis)
        difference = stored.astype(np.int64) - numbers.zeros
        return np.asarray(difference.astype(np.float32) * numbers.scales)

    def forget(self) -> None:
        """Nothing of the node counts as read so far: what a rule reads from here on is what decides the results."""
        self._read_attributes.clear()
        self._read_inputs.clear()

    def refuse(self, reason: str) -> None:
        """Whoever runs the network is told that the node cannot be; it can be explored."""
        self._refused.append(reason)

    def settle(self) -> None:
        """After the handler: refuse by name what it passed over, and outputs that it does not give.

        The outputs stay, so that the network can be explored; whoever runs it is told the reason.
        """
        node = self.node
        if self.builder.runs_since(self._first):
            missed = passed_over(node, self.version, self._read_attributes, self._read_inputs)
            missed += self._refused + self._encoded()
        else:
            reason = self.model.reason(node) or self.obstacle
            missed = [reason] if reason else self._refused or ["this form of it is not supported"]
        label = node.name or self.name
        for index, name in enumerate(node.output):
            if missed and name in self.values and not unrecorded(self.values[name].steps):
                x = self.values[name]
                reason = f"{self._operator()}: {', '.join(missed)}"
                self.values[name] = x.viewed(x.shape, Unknown(reason, label))
            elif name in self.readers and name not in self.values and name not in self.constants:
                self.values[name] = self._stranger(
                    name, f"{self._operator()}: its output {index} ('{name}') is not supported", label
                )

    def _encoded(self) -> list[str]:
        """Whole numbers of a QuantizeLinear among the inputs, unless the node takes them for what they are."""
        node = self.node
        known = [self.encodings[name] for name in node.input if name in self.encodings]
        if not known or node.op_type in ("QuantizeLinear", "DequantizeLinear", "Clip"):
            return []
        nearest = node.op_type in ("Resize", "Upsample") and self.text("mode", "nearest") == "nearest"
        keeps = nearest or node.op_type in _KEEP_ELEMENTS
        if keeps and known.count(known[0]) == len(known):
            self.encodings |= dict.fromkeys(node.output, known[0])
            return []
        return ["whole numbers of a QuantizeLinear as an input are not supported"]

    def output(self, name: str) -> Tensor:
        """An output of the graph, whether it can be run or not."""
        if name in self.values:
            x = self.values[name]
            if name not in self.encodings:
                return x
            attributes = {"encoding": self.encodings[name]}
            meaning = Semantics("encode", (x,), attributes)
            return self.builder.op(
                "requantize", (x,), x.shape, name=self.builder.unique(name), semantics=meaning
            )
        constant = self.constants.get(name)
        if constant is not None and constant.shape is not None and 0 not in constant.shape:
            return self.builder.stored(self.parameter(name), self.builder.unique(name))
        return self._stranger(name, "its shape is not known, which an output's must be", f"output '{name}'")

    def parameter(self, name: str, fill: Fill = "normal", fan_in: int = 1) -> Parameter:
        """A constant of known shape."""
        constant = self.constants[name]
        known, shape = constant.value, constant.shape
        assert shape is not None
        load = (lambda: known) if known is not None else partial(self.values_of_constants, name)
        whole = None
        if constant.whole is not None:
            own = constant.whole
            elements = self.parameter(own.name)
            whole = WholeNumbers(elements, own.scale, own.zero, own.axis, own.steps)
        elif self.whole:
            whole = WholeNumbers(Parameter(name, shape, load), (1.0,), (0,), 0)
        return Parameter(name, shape, load, fill, fan_in, whole=whole)

    def _stranger(self, name: str, reason: str, label: str) -> Tensor:
        """A tensor that nothing computes, with the reason for whoever wants to run the network."""
        shape = self.model.shapes.get(name)
        if shape is None or not math.prod(shape):
            shape = (1,)
        return self.builder.input(self.builder.unique(name), shape).viewed(shape, Unknown(reason, label))

    def reject(self, reason: str) -> None:
        """List the node as unsupported; its outputs count as inputs from outside."""
        outputs = [name for name in self.node.output if name]
        follows = any(name in self._unknown for name in self.node.input)
        reason = self.model.reason(self.node) or reason
        if any(name in self.model.guessed for name in outputs):
            reason = f"{reason or 'it is not known here'}; output assumed to have the shape of its input"
        label = self.node.name or self.name
        self.unsupported.append(Unsupported(self._operator(), label, reason, follows))
        for output in outputs:
            shape = self.model.shapes.get(output)
            if shape is not None and 0 not in shape:
                self.values[output] = self.builder.input(self.builder.unique(output), shape)
            else:
                self._unknown.add(output)

    def _operator(self) -> str:
        domain = self.node.domain
        return self.node.op_type if domain in ("", "ai.onnx") else f"{domain}.{self.node.op_type}"

    # For handlers

    def error(self, message: str) -> InputError:
        """An error located at the node."""
        return InputError(message, location=Location(self.model.path, node=self.node.name or self.name))

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def constant(self, index: int) -> FoldedTensor | None:
        """The input if it is a constant."""
        return self.constants.get(self.node.input[index]) if self.has(index) else None

    def reads(self, index: int) -> None:
        """The input takes part in what is computed."""
        self._read_inputs.add(index)

    def kind(self, index: int) -> int:
        """Element type of an input, as ONNX numbers them; 0 where it is not known."""
        return self.model.kinds.get(self.node.input[index], 0) if self.has(index) else 0

    def value(self, index: int) -> np.ndarray | None:
        """Elements of the input if it is a small constant."""
        self.reads(index)
        constant = self.constant(index)
        return constant.value if constant else None

    def tensor(self, index: int) -> Tensor:
        """The input as an activation. Raises UnsupportedNodeError when its shape is not known."""
        if not self.has(index):
            raise self.error(f"{self.node.op_type} lacks its input {index}")
        self.reads(index)
        return self._activation(index)

    def _activation(self, index: int) -> Tensor:
        name = self.node.input[index]
        if name in self.values:
            return self.values[name]
        if name in self.constants:
            raise UnsupportedNodeError(f"its input '{name}' is a constant")
        raise UnsupportedNodeError(f"the shape of its input '{name}' is not known")

    def tensors(self) -> list[Tensor]:
        """All inputs that are activations."""
        return [
            self.tensor(i) for i in range(len(self.node.input)) if self.has(i) and self.constant(i) is None
        ]

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an input, constant or not."""
        constant = self.constant(index)
        if constant is None:
            if not self.has(index):
                raise self.error(f"{self.node.op_type} lacks its input {index}")
            return self._activation(index).shape
        if constant.shape is None:
            raise UnsupportedNodeError(f"the shape of its input '{self.node.input[index]}' is not known")
        return constant.shape

    def output_shape(self, index: int = 0) -> tuple[int, ...]:
        """Inferred shape of an output. Raises UnsupportedNodeError when it is not known or empty."""
        name = self.node.output[index] if index < len(self.node.output) else ""
        shape = self.model.shapes.get(name)
        if shape is None:
            raise UnsupportedNodeError("the shape of its output is not known")
        if not math.prod(shape):
            raise UnsupportedNodeError(f"its output is empty: {shape}")
        return shape

    def claim(self, index: int) -> int:
        """Weights of a constant input, 0 when another operator counted them already."""
        constant = self.constant(index)
        fresh = {
            name: words for name, words in (constant.roots if constant else ()) if name not in self._claimed
        }
        self._claimed.update(fresh)
        return sum(fresh.values())

    def emit(self, value: Tensor, output: int = 0) -> None:
        """`value` is what the node writes to its output."""
        if output < len(self.node.output) and self.node.output[output]:
            self.values[self.node.output[output]] = value

    def emit_constant(self, output: int = 0) -> None:
        """The output does not depend on the data (a shape)."""
        name = self.node.output[output]
        self.constants[name] = FoldedTensor(self.model.shapes.get(name))

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        attribute = self._attribute(name, onnx.AttributeProto.INT)
        return default if attribute is None else int(attribute.i)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """An attribute that is a list of real numbers."""
        attribute = self._attribute(name, onnx.AttributeProto.FLOATS)
        return None if attribute is None else tuple(float(n) for n in attribute.floats)

    def number(self, name: str, default: float) -> float:
        """A real attribute."""
        attribute = self._attribute(name, onnx.AttributeProto.FLOAT)
        return default if attribute is None else float(attribute.f)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """An attribute that is a list of integers."""
        attribute = self._attribute(name, onnx.AttributeProto.INTS)
        if attribute is None:
            return None if default is None else tuple(default)
        return tuple(int(i) for i in attribute.ints)

    def array(self, name: str) -> np.ndarray | None:
        """An attribute that is a tensor, or a number."""
        given = self._attributes.get(name)
        if given is not None and given.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
            self._read_attributes.add(name)
            return np.array(onnx.helper.get_attribute_value(given))
        attribute = self._attribute(name, onnx.AttributeProto.TENSOR)
        return None if attribute is None else np.asarray(onnx.numpy_helper.to_array(attribute.t))

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        attribute = self._attribute(name, onnx.AttributeProto.STRING)
        return default if attribute is None else attribute.s.decode("utf-8", "replace")

    @property
    def units(self) -> tuple[float, ...] | None:
        """Scales and zero points of an operator that stands for one of whole numbers (`UNITS`)."""
        found = next((one.value for one in self.node.metadata_props if one.key == UNITS), None)
        return None if found is None else tuple(json.loads(found))

    def _attribute(self, name: str, kind: int) -> onnx.AttributeProto | None:
        self._read_attributes.add(name)
        attribute = self._attributes.get(name) or default_of(self.node, self.version, name)
        if attribute is not None and attribute.type != kind:
            wanted = onnx.AttributeProto.AttributeType.Name(kind)
            raise self.error(f"the attribute '{name}' is not of type {wanted}")
        return attribute


Handler: TypeAlias = Callable[[OnnxNode], None]
Rule: TypeAlias = Callable[[OnnxNode], Semantics | None]


class OnnxOperator(NamedTuple):
    """How an operator is imported: `handler` writes it to the network, `rule` tells what it computes, where the handler asks for that."""

    handler: Handler
    rule: Rule | None = None
