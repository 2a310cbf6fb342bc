"""The node at hand while it is written out in simpler operators: what expansions read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

#: Version of the standard operators that expansions write.
NODES_VERSION = 23


#: Metadata of an operator that stands for one of whole numbers, in JSON: of an Add or Mul scales and zero points of operands and result, of an
#: AveragePool those of the result.
UNITS = "baco.units"


class RefusedError(Exception):
    """A form of the operator that cannot be run; the text says which."""


@dataclass
class Facts:
    """What is known of the graph before the node at hand.

    Attributes:
        shapes, kinds: of values (element types as ONNX numbers them), where they are known.
        known: elements of small constants.
        constants: names of all constants, large ones included.
        names: all names in use.
        version: of the model's standard operators.
        sequences: names of the tensors in each sequence.
        own: what writes out operators of the user's table, by their name with the domain in front.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, int]
    known: Mapping[str, np.ndarray]
    constants: Callable[[str], bool]
    names: set[str] = field(default_factory=set)
    version: int = NODES_VERSION
    sequences: dict[str, list[str]] = field(default_factory=dict)
    own: Mapping[str, Callable[[Expansion], None]] = field(default_factory=dict)

    def fresh(self, wanted: str) -> str:
        """The name, with a number behind it where it is taken."""
        name, number = wanted, 1
        while name in self.names:
            number += 1
            name = f"{wanted}~{number}"
        self.names.add(name)
        return name


class Expansion:
    """A node and what is written in its place.

    Attributes:
        node: the node.
        version: of its operator set.
        nodes: written so far, each with its version of the standard operators.
        read_attributes, read_inputs: names and positions of what the rule has read.
    """

    def __init__(self, node: onnx.NodeProto, version: int, facts: Facts) -> None:
        self.node = node
        self.version = version
        self.facts = facts
        self.nodes: list[tuple[onnx.NodeProto, int]] = []
        self.read_attributes: set[str] = set()
        self.read_inputs: set[int] = set()
        self._attributes = {a.name: a for a in node.attribute}
        self._base = node.name or next(iter(node.output), "") or node.op_type

    # Reading

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def input(self, index: int) -> str:
        """Name of an input. Raises RefusedError when it is missing."""
        if not self.has(index):
            raise RefusedError(f"its input {index} is missing")
        self.read_inputs.add(index)
        return str(self.node.input[index])

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs."""
        return [self.input(i) for i in range(len(self.node.input)) if self.has(i)]

    def wants(self, output: int) -> bool:
        """Whether the node writes the output."""
        return output < len(self.node.output) and bool(self.node.output[output])

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an input."""
        return self.shape_of(self.input(index))

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Shape of a value. Raises RefusedError where it is not known."""
        shape = self.facts.shapes.get(name)
        if shape is None:
            raise RefusedError(f"the shape of its input '{name}' is not known")
        return shape

    def is_constant(self, index: int) -> bool:
        """Whether an input is known before the network runs."""
        return self.has(index) and self.facts.constants(self.input(index))

    def value(self, index: int, what: str) -> np.ndarray:
        """Elements of an input. Raises RefusedError where it is no small constant; `what` it is."""
        value = self.facts.known.get(self.input(index))
        if value is None:
            raise RefusedError(f"its {what} ('{self.node.input[index]}') is not a constant")
        return value

    def numbers(self, index: int, attribute: str, what: str) -> list[int] | None:
        """Whole numbers from an input or the attribute that older versions have; None without both."""
        if self.has(index):
            return [int(n) for n in self.value(index, what).reshape(-1)]
        given: list[int] | None = self.attribute(attribute, None)
        return given

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute."""
        self.read_attributes.add(name)
        if name not in self._attributes:
            return default
        value: Any = onnx.helper.get_attribute_value(self._attributes[name])
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value

    def raw_attributes(self, *left_out: str) -> list[onnx.AttributeProto]:
        """All attributes as they are, for a node of the same operator, without some."""
        self.read_attributes |= self._attributes.keys() - set(left_out)
        return [a for name, a in self._attributes.items() if name not in left_out]

    # Writing

    def fresh(self, part: str) -> str:
        """A new name below that of the node."""
        return self.facts.fresh(f"{self._base}.{part}")

    def write(self, node: onnx.NodeProto, version: int = NODES_VERSION) -> None:
        """A node as it is."""
        self.nodes.append((node, version))

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant: whole numbers as int64, others as float32, unless `dtype` says else."""
        array = np.asarray(value)
        if dtype is None:
            dtype = (
                array.dtype
                if array.dtype.kind == "b"
                else np.float32
                if array.dtype.kind == "f"
                else np.int64
            )
        return self.stored(
            onnx.numpy_helper.from_array(np.ascontiguousarray(array, dtype).reshape(array.shape))
        )

    def stored(self, tensor: onnx.TensorProto) -> str:
        """A constant with the elements of a stored tensor."""
        name = self.fresh("constant")
        self.write(onnx.helper.make_node("Constant", [], [name], value=tensor))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """An operator; the name of its output, or a list of several."""
        names = [self.fresh(operator.lower()) for _ in range(outputs)]
        self.write(onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def finish(self, operator: str, *inputs: str, output: int = 0, **attributes: Any) -> None:
        """The operator that writes an output of the node."""
        if not self.wants(output):
            return
        name = self.node.name if output == 0 else ""
        names = [self.node.output[output]]
        self.write(onnx.helper.make_node(operator, list(inputs), names, name=name, **attributes))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Another shape."""
        return str(self.add("Reshape", x, self.constant(list(shape), np.int64)))

    def slice(self, x: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """`start:stop:step` along a dimension; a stop below 0 is before the first element."""
        stop = stop if stop >= 0 else -(1 << 62)
        numbers = [self.constant([n]) for n in (start, stop, axis, step)]
        return str(self.add("Slice", x, *numbers))
