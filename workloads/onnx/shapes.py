"""Shape inference on ONNX graphs: ONNX's own rules node by node, with shape computations evaluated on the way."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference

from baco.common.errors import InputError, Location
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.expansion import Facts
from baco.workloads.onnx.expansions import Rule, expanded
from baco.workloads.onnx.fold import (
    RANDOM,
    FoldedTensor,
    Root,
    evaluate,
    roots_of,
    write_constants_as_tensors,
)
from baco.workloads.onnx.functions import MOST_NODES
from baco.workloads.onnx.quantised_constants import keeps_whole_numbers
from baco.workloads.onnx.sequences import SEQUENCES


def known_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    """Shape of a tensor type when every extent is known."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if any(d.WhichOneof("value") != "dim_value" or d.dim_value < 0 for d in dims):
        return None
    return tuple(d.dim_value for d in dims)


@dataclass
class Inferred:
    """What is known of the values of a graph.

    Attributes:
        shapes: of all values whose shape can be known.
        kinds: element types as ONNX numbers them, where they are known.
        guessed: outputs whose shape is a guess.
        computed: values that were computed from constants and shapes, with the stored tensors behind them.
        versions: of operator sets, by the first output of nodes that were written in place of others.
        reasons: why a node could not be written out in simpler ones, by its first output.
    """

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    computed: dict[str, tuple[Root, ...]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def infer_shapes(
    path: str,
    model: onnx.ModelProto,
    constants: dict[str, FoldedTensor],
    has_rule: Callable[[str], bool] = lambda name: True,
    own: Mapping[str, Rule] | None = None,
) -> Inferred:
    """Shapes and types of all values, node by node.

    The inputs of the graph must have fixed shapes. Results of small constants and of shapes are evaluated and replaced by
    constants in the graph; operators of `baco.workloads.onnx.expansions` are written out in simpler ones. Where an operator is
    not defined by ONNX and its output not declared, the output is assumed to have the shape of the operator's first
    activation, so that what follows can still be explored.

    Args:
        has_rule: whether operators of a name are imported as they are; others become the functions that define them.
        own: the user's table of operators (`baco.workloads.onnx.table`).

    Raises InputError when an operator set is not declared, and for a graph that becomes too large.
    """
    inference = _Inference(path, model, constants, has_rule, own or {})
    inference.run()
    return inference.result


class _Inference:
    def __init__(
        self,
        path: str,
        model: onnx.ModelProto,
        constants: dict[str, FoldedTensor],
        has_rule: Callable[[str], bool],
        own: Mapping[str, Rule],
    ) -> None:
        self.path = path
        self.model = model
        self.has_rule = has_rule
        self.result = Inferred()
        graph = model.graph
        self.opsets = {
            ("" if e.domain in STANDARD_DOMAINS else e.domain): e.version for e in model.opset_import
        }
        self.types = {value.name: value.type for value in graph.input}
        self.declared = {v.name: v.type for v in graph.value_info if known_shape(v.type) is not None}
        self.known = {name: c.value for name, c in constants.items() if c.value is not None}
        #: Constants that a quantised model stores as whole numbers.
        self.whole: set[str] = set()
        #: Of constants, large ones included.
        self.roots = {name: constant.roots for name, constant in constants.items()}
        names = set(self.types) | {name for node in graph.node for name in (*node.output, *node.input)}
        self.facts = Facts(
            self.result.shapes,
            self.result.kinds,
            self.known,
            self.roots.__contains__,
            names | set(self.declared),
            self.opsets.get("", 1),
            own=own,
        )
        for name, kind in self.types.items():
            self._settle(name, kind)

    def run(self) -> None:
        """All nodes; those of the graph are replaced."""
        graph = self.model.graph
        queue = deque((node, self._version(node)) for node in graph.node)
        nodes: list[onnx.NodeProto] = []
        while queue:
            node, version = queue.popleft()
            written, reason = self._written_out(node, version)
            if written is not None:
                write_constants_as_tensors(one for one, _ in written)
                queue.extendleft(reversed(written))
                for one, own in written:
                    self.result.versions |= dict.fromkeys(filter(None, one.output), own)
                if len(queue) + len(nodes) > MOST_NODES:
                    raise InputError(
                        f"the model has more than {MOST_NODES:,} nodes once {node.op_type} is written out",
                        location=Location(self.path, node=node.name or node.output[0]),
                    )
                continue
            if reason:
                self.result.reasons |= dict.fromkeys(filter(None, node.output), reason)
            nodes += self._node(node, version)
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)

    def _version(self, node: onnx.NodeProto) -> int:
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        if domain not in self.opsets:
            raise InputError(
                f"the model does not declare the operator set '{domain}' that {node.op_type} is from",
                location=Location(self.path, node=node.name or node.op_type),
            )
        return int(self.opsets[domain])

    def _written_out(
        self, node: onnx.NodeProto, version: int
    ) -> tuple[list[tuple[onnx.NodeProto, int]] | None, str]:
        """What stands for a node in simpler operators, unless it has none or is a constant."""
        if node.op_type == "Constant":
            return None, ""
        has_graph = any(
            a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute
        )
        standard = node.domain in STANDARD_DOMAINS
        known = all(name in self.roots for name in node.input if name)
        if standard and not has_graph and known and node.op_type not in SEQUENCES:
            return None, ""
        types = [self.types.get(name) if name else None for name in node.input]
        return expanded(node, version, self.facts, types, self.has_rule)

    def _node(self, node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
        """Shapes of the outputs; the node, or constants in its place."""
        shapes = self.result.shapes
        found = _infer_node(self.model, node, version, self.types, self.known)
        sizes = [
            None
            if not found or name not in found or (shape := known_shape(found[name])) is None
            else math.prod(shape)
            for name in node.output
            if name
        ]
        values = evaluate(node, shapes, self.known, sizes, version)
        if values is None and found and 0 in sizes:
            return self._without_empty(node, version, found)
        nodes = [node]
        if values is not None:
            nodes = []
            for name, value in values.items():
                kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                if node.op_type == "Constant":
                    self.roots[name] = roots_of(name, kind, value.shape)
                elif node.op_type in ("Shape", "Size"):
                    self.roots[name] = ()
                else:
                    self._derived(node, name)
                nodes.append(_constant(node.name, name, value))
                self.known[name] = value
                self.result.computed[name] = self.roots[name]
            if keeps_whole_numbers(node, self.whole):
                # Their values are known, and so are the whole numbers that a quantised model stores for them.
                self.whole.update(node.output)
                nodes = [node]
            found = {
                name: onnx.helper.make_tensor_type_proto(
                    onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape
                )
                for name, v in values.items()
            }
        elif all(name in self.roots for name in node.input if name) and node.op_type not in RANDOM:
            for name in filter(None, node.output):
                self._derived(node, name)
        for name in node.output:
            inferred = found.get(name) if found else None
            if inferred is not None and (known_shape(inferred) is not None or name not in self.declared):
                self._settle(name, inferred)
            elif name in self.declared:
                self._settle(name, self.declared[name])
        first = next((name for name in node.input if name and name not in self.roots), None)
        output = next(iter(node.output), "")
        if found is None and output and output not in self.types and first in self.types:
            self._settle(output, self.types[first])
            self.result.guessed.add(output)
        return nodes

    def _without_empty(
        self, node: onnx.NodeProto, version: int, found: dict[str, onnx.TypeProto]
    ) -> list[onnx.NodeProto]:
        """A node some of whose results hold no element: these are constants."""
        kept = onnx.NodeProto()
        kept.CopyFrom(node)
        nodes: list[onnx.NodeProto] = []
        for index, name in enumerate(node.output):
            shape = known_shape(found[name]) if name in found else None
            if not name or shape is None or 0 not in shape:
                continue
            kept.output[index] = ""
            dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(found[name].tensor_type.elem_type or 1)
            nodes += self._node(_constant("", name, np.zeros(shape, dtype=dtype)), version)
        return nodes + (self._node(kept, version) if any(kept.output) else [])

    def _derived(self, node: onnx.NodeProto, name: str) -> None:
        self.roots[name] = tuple(
            dict.fromkeys(r for source in node.input for r in self.roots.get(source, ()))
        )

    def _settle(self, name: str, kind: onnx.TypeProto) -> None:
        self.types[name] = kind
        shape = known_shape(kind)
        if shape is not None:
            self.result.shapes[name] = shape
        if kind.HasField("tensor_type"):
            self.result.kinds[name] = kind.tensor_type.elem_type


def _constant(node: str, name: str, value: np.ndarray) -> onnx.NodeProto:
    """A value that is known, as a node."""
    tensor = onnx.numpy_helper.from_array(np.array(value, order="C"))
    return onnx.helper.make_node("Constant", [], [name], name=node, value=tensor)


def _infer_node(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    version: int,
    types: dict[str, onnx.TypeProto],
    known: dict[str, np.ndarray],
) -> dict[str, onnx.TypeProto] | None:
    """Types of a node's outputs, as far as its rule tells; None for operators that ONNX does not define."""
    domain = "" if node.domain in STANDARD_DOMAINS else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version beyond the range of its integers
        return None
    names = {name for name in node.input if name}
    inputs = {
        name: types.get(name, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
        for name in names
    }
    data = {
        name: onnx.numpy_helper.from_array(np.array(known[name], order="C"))
        for name in names
        if name in known
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, inputs, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        RuntimeError,
        ValueError,
        TypeError,
    ):
        return {}  # what depends on it is reported as of unknown shape
    return dict(found)
