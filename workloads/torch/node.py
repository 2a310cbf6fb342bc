"""The node at hand during a torch import: what handlers of operators read and write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.fx import Node

from baco.common.errors import InputError, Location
from baco.workloads.builder import GraphBuilder
from baco.workloads.encoding import Encoding
from baco.workloads.network import Tensor, Unsupported, UnsupportedNodeError
from baco.workloads.semantics import Fill, Parameter, Semantics, WholeNumbers
from baco.workloads.torch.reading import Arguments, passed_over
from baco.workloads.views import Unknown, unrecorded

#: A tensor's elements, or whatever else a constant node gives.
Load = Callable[[], Any]


@dataclass(frozen=True)
class Root:
    """A stored tensor: a parameter (`trained`) or a buffer."""

    name: str
    words: int
    trained: bool


@dataclass(frozen=True)
class FixedTensor:
    """A tensor that does not depend on the inputs.

    Attributes:
        roots: the stored tensors it was made from.
        load: gives its elements; None from there if they have no values (the meta device).
        name: of a stored tensor.
        whole: the whole numbers that its elements stand for, where the model quantises it.
    """

    shape: tuple[int, ...]
    roots: tuple[Root, ...] = ()
    load: Load | None = None
    name: str = ""
    whole: WholeNumbers | None = None


@dataclass(frozen=True)
class ScaledNumbers:
    """Whole numbers q of an activation whose real ones are (q - zero) * scale, both computed while the model runs.

    Attributes:
        whole: q, as real numbers.
        scale, zero: tensors of one element.
        limits: of q.
    """

    whole: Tensor
    scale: Tensor
    zero: Tensor
    limits: tuple[int, int]


def node_shapes(node: Node) -> list[tuple[int, ...]]:
    """Shapes of the tensors a node returns; none for numbers, and for shapes that depend on the data."""
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [
        tuple(v.shape)
        for v in values
        if isinstance(v, torch.Tensor) and all(isinstance(size, int) for size in v.shape)
    ]


class TorchNode:
    """A cursor over an exported graph, `imp` to the handlers of `baco.workloads.torch.operators`.

    Attributes:
        builder: where operators go.
        node: the node at hand; `args` its arguments by the names of the operator's schema.
        name: its unique name, after the module that called it.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.builder = GraphBuilder(name, source=path)
        self.values: dict[Node, Tensor] = {}
        self.constants: dict[Node, FixedTensor] = {}
        #: Results of nodes that return several views.
        self.parts: dict[Node, list[Tensor]] = {}
        self.unsupported: list[Unsupported] = []
        self.node: Node
        self.args = Arguments()
        self.name = ""
        #: What the operator at hand computes; None where that is not known, or the handler says it.
        self.rule: Rule | None = None
        #: Of whole numbers that the model itself quantises; here they stay real ones.
        self.encodings: dict[Node, Encoding] = {}
        #: Whole numbers whose scale is computed, and what is dequantised from them.
        self.scaled: dict[Node, ScaledNumbers] = {}
        #: Inputs of the model that hold whole numbers.
        self.given: set[Node] = set()
        #: Whether the node at hand takes the whole numbers among its inputs for what they are.
        self.takes_whole = False
        self._refused: list[str] = []
        self._first = 0
        self._claimed: set[str] = set()

    def enter(self, node: Node) -> None:
        """Move to a node."""
        self.node = node
        self.name = self.builder.unique(_name(node))
        self.args = Arguments()
        self.takes_whole = False
        self._first = self.builder.count
        self._refused = []
        if isinstance(node.target, torch._ops.OpOverload):
            for index, argument in enumerate(node.target._schema.arguments):
                given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
                if given is None and argument.has_default_value() and argument.name not in node.kwargs:
                    given = argument.default_value
                self.args[argument.name] = given

    def fold(self) -> bool:
        """Results of constants, and numbers, are constants; True when the node was one."""
        sources = self.node.all_input_nodes
        if any(source in self.values for source in sources):
            return False
        if any(source not in self.constants for source in sources):
            return False
        shapes = node_shapes(self.node)
        roots = tuple(dict.fromkeys(root for source in sources for root in self.constants[source].roots))
        self.constants[self.node] = FixedTensor(
            shapes[0] if shapes else (), roots, self._evaluation(self.node)
        )
        return True

    def _evaluation(self, node: Node) -> Load:
        """What a constant node computes from constants."""
        sources = {source: self.constants[source] for source in node.all_input_nodes}
        target = node.target

        def load() -> Any:
            values = {source: None if c.load is None else c.load() for source, c in sources.items()}
            if any(value is None for value in values.values()) or not callable(target):
                return None
            arguments: Any = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            with torch.no_grad():
                return target(*arguments[0], **arguments[1])

        return load

    def evaluation_of_shape(self, node: Node) -> Load:
        """What a node computes from the shape of its first argument, and constants."""
        shapes = node_shapes(node.all_input_nodes[0]) if node.all_input_nodes else []
        target = node.target

        def load() -> Any:
            if not shapes or len(node.all_input_nodes) != 1 or not callable(target):
                return None
            source = torch.zeros(shapes[0])
            arguments: Any = torch.fx.node.map_arg((node.args, node.kwargs), lambda _: source)
            return target(*arguments[0], **arguments[1])

        return load

    def parameter(self, node: Any, fill: Fill = "normal", fan_in: int = 1) -> Parameter:
        """A constant tensor as a parameter of an operator. Raises ValueError if it is none."""
        found = self.constants.get(node) if isinstance(node, Node) else None
        if found is None:
            raise ValueError("no constant")
        loader = found.load

        def load() -> np.ndarray | None:
            value = None if loader is None else loader()
            if not isinstance(value, torch.Tensor) or value.is_meta:
                return None
            if value.is_floating_point():
                value = value.to(torch.float32)
            return np.asarray(value.detach().cpu().numpy())

        return Parameter(found.name or str(node.name), found.shape, load, fill, fan_in, whole=found.whole)

    def refuse(self, reason: str) -> None:
        """Whoever runs the network is told that the node cannot be; it can be explored."""
        self._refused.append(reason)

    def settle(self, operator: str) -> None:
        """After the handler of `operator`: refuse by name what it passed over. The result stays, to be explored."""
        runs = self.builder.runs_since(self._first)
        missed = passed_over(self.node, operator, self.args) if runs else []
        missed += self._refused
        sources = [n for n in self.node.all_input_nodes if n in self.encodings or n in self.scaled]
        if sources and not self.takes_whole:
            missed.append("whole numbers of a quantisation as an input are not supported")
        x = self.values.get(self.node)
        if missed and x is not None and not unrecorded(x.steps):
            reason = f"{operator}: {', '.join(missed)}"
            self.values[self.node] = x.viewed(x.shape, Unknown(reason, self.name))

    def output(self, node: Node) -> Tensor:
        """An output of the model, whether it can be run or not."""
        label = f"output '{node.name}'"
        if node in self.values:
            x = self.values[node]
            if node in self.encodings:
                meaning = Semantics("encode", (x,), {"encoding": self.encodings[node]})
                name = self.builder.unique(node.name)
                return self.builder.op("requantize", (x,), x.shape, name=name, semantics=meaning)
            if node not in self.scaled:
                return x
            reason = "whole numbers whose scale is computed as an output are not supported"
            return x.viewed(x.shape, Unknown(reason, label))
        shape = node_shapes(node)[0]
        if node in self.constants and 0 not in shape:
            return self.builder.stored(self.parameter(node), self.builder.unique(node.name))
        shape = shape if math.prod(shape) else (1,)
        reason = "it holds nothing that could be read"
        return self.builder.input(self.builder.unique(node.name), shape).viewed(shape, Unknown(reason, label))

    def reject(self, operator: str, reason: str) -> None:
        """List the node as unsupported; its output counts as an input from outside."""
        self.unsupported.append(Unsupported(operator, self.name, reason))
        shapes = node_shapes(self.node)
        if shapes and 0 not in shapes[0]:
            self.values[self.node] = self.builder.input(self.name, shapes[0])

    def error(self, message: str) -> InputError:
        """An error located at the node."""
        return InputError(message, location=Location(self.path, node=self.name))

    # For handlers

    def tensor(self, name: str) -> Tensor:
        """An argument as an activation. Raises UnsupportedNodeError if it is none."""
        node = self.args.get(name)
        if isinstance(node, Node) and node in self.values:
            return self.values[node]
        raise UnsupportedNodeError(f"its argument '{name}' is no activation of known shape")

    def constant(self, name: str) -> FixedTensor | None:
        """An argument if it is a constant tensor."""
        node = self.args.get(name)
        return self.constants.get(node) if isinstance(node, Node) else None

    def operand(self, name: str) -> Tensor | Parameter:
        """An activation or a constant."""
        constant = self.constant(name)
        if constant is None:
            return self.tensor(name)
        shape = constant.shape
        return self.parameter(self.args[name], fan_in=shape[-1] if shape else 1)

    def tensors(self) -> list[Tensor]:
        """All arguments that are activations, those in lists included."""
        self.args.read_tensors()
        return [self.values[node] for node in self.node.all_input_nodes if node in self.values]

    def shape(self) -> tuple[int, ...]:
        """Shape of the (first) output. Raises UnsupportedNodeError for none or an empty one."""
        shapes = node_shapes(self.node)
        if not shapes or 0 in shapes[0]:
            raise UnsupportedNodeError("its output is no tensor, or empty")
        return shapes[0]

    def claim(self, *names: str) -> int:
        """Weights behind constant arguments, without those that other operators counted already."""
        return sum(self._claim(root) for name in names if (c := self.constant(name)) for root in c.roots)

    def claim_trained(self) -> int:
        """The same for all constant arguments, parameters only (masks and tables are buffers)."""
        constants = [self.constants[n] for n in self.node.all_input_nodes if n in self.constants]
        return sum(self._claim(root) for constant in constants for root in constant.roots if root.trained)

    def _claim(self, root: Root) -> int:
        if root.name in self._claimed:
            return 0
        self._claimed.add(root.name)
        return root.words

    def numbers(self, name: str, default: int) -> tuple[int, ...]:
        """An argument that is a list of integers; empty or missing ones give the default."""
        value = self.args.get(name)
        if isinstance(value, int):
            return (value,)
        return tuple(int(v) for v in value) if value else (default,)

    def emit(self, value: Tensor) -> None:
        """`value` is what the node returns."""
        self.values[self.node] = value


def _name(node: Node) -> str:
    """The module's path for the operators of standard modules, else the path and the node's name."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = (str(stack[-1][0]), str(stack[-1][1])) if stack else ("", "")
    if path and "torch.nn.modules." in kind and "Attention" not in kind:
        return path
    return f"{path}.{node.name}" if path else node.name


Handler: TypeAlias = Callable[[TorchNode], None]
Rule: TypeAlias = Callable[[TorchNode], Semantics | None]


class TorchOperator(NamedTuple):
    """How an operator is imported: `handler` writes it to the network, `rule` tells what it computes, where the handler asks for that."""

    handler: Handler
    rule: Rule | None = None
