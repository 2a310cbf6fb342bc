"""Reading ONNX files: parsing, dropping weights, fixing symbolic dimensions, shape inference.

Nothing here needs the weights' values, so external data may be missing; small constants (which hold
shapes, axes and scales) are kept because shape inference reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx
import onnx.checker
import onnx.defs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from baco.common.errors import InputError, Location
from baco.common.files import read_input
from baco.common.text import one_line
from baco.workloads.onnx.checks import check_names, sort_nodes
from baco.workloads.onnx.dimensions import fix_dimensions
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.expansion import Expansion
from baco.workloads.onnx.fold import FoldedTensor, Root, roots_of, stored_value, write_constants_as_tensors
from baco.workloads.onnx.functions import check_size, inline_functions
from baco.workloads.onnx.shapes import infer_shapes, known_shape

#: protobuf cannot hold more.
MAX_BYTES = 2**31 - 1


@dataclass
class LoadedModel:
    """An ONNX graph with shapes.

    Attributes:
        shapes: of every value whose shape is known.
        constants: initializers.
        guessed: outputs of operators without a definition, assumed to have their input's shape.
        computed: values that were computed from constants and shapes, with the stored tensors behind them.
        opset: version of the standard operators.
        opsets: versions by domain, "" for the standard.
        kinds: element types of values as ONNX numbers them, where they are known.
        versions: of the standard operators, by the first output of nodes that stand for others.
        stored: tensors by name, of a model that comes from no file of ONNX's.
        reasons: why a node could not be written out in simpler ones, by its first output.
    """

    path: str
    graph: onnx.GraphProto
    inputs: list[tuple[str, tuple[int, ...]]]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, FoldedTensor]
    options: dict[str, int | str]
    guessed: set[str] = field(default_factory=set)
    computed: dict[str, tuple[Root, ...]] = field(default_factory=dict)
    opset: int = 1
    opsets: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    stored: Mapping[str, onnx.TensorProto] | None = None

    def version(self, node: onnx.NodeProto) -> int:
        """Of the operator set that a node is from."""
        own = self.versions.get(next(filter(None, node.output), ""))
        if own is not None:
            return own
        return self.opsets.get("" if node.domain in STANDARD_DOMAINS else node.domain, 1)

    def reason(self, node: onnx.NodeProto) -> str:
        """Why a node could not be written out in simpler ones; empty where it need not be."""
        return self.reasons.get(next(filter(None, node.output), ""), "")


def load_model(
    path: str,
    rest: str | None,
    has_rule: Callable[[str], bool],
    own: Mapping[str, Callable[[Expansion], None]] | None = None,
    written: onnx.ModelProto | None = None,
) -> LoadedModel:
    """Read a model. Raises InputError.

    Args:
        rest: options (`baco.workloads.onnx.dimensions`).
        has_rule: whether operators of a name are imported as they are; others become the functions that define them.
        own: the user's table of operators (`baco.workloads.onnx.table`).
        written: the model itself, where the file is none of ONNX's.
    """
    model = _parse(path) if written is None else written
    stored = None if written is None else {tensor.name: tensor for tensor in written.graph.initializer}
    try:
        check_size(path, model)
        constants = _strip_weights(path, model.graph)
        model = inline_functions(model)
        write_constants_as_tensors(model.graph.node)
        sort_nodes(path, model.graph)
        options = fix_dimensions(path, model, constants, rest)
        inputs = [
            (value.name, shape)
            for value in model.graph.input
            if value.name not in constants and (shape := known_shape(value.type)) is not None
        ]
        found = infer_shapes(path, model, constants, has_rule, own)
    except (RuntimeError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        raise _broken(path, error) from None
    opsets = {("" if e.domain in STANDARD_DOMAINS else e.domain): e.version for e in model.opset_import}
    return LoadedModel(
        path,
        model.graph,
        inputs,
        found.shapes,
        constants,
        options,
        found.guessed,
        found.computed,
        opsets[""],
        opsets,
        found.kinds,
        found.versions,
        found.reasons,
        stored,
    )


def _broken(path: str, error: Exception) -> InputError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InputError(f"this ONNX model is damaged: {first[:200]}", location=Location(path))


def _parse(path: str) -> onnx.ModelProto:
    data = read_input(path, limit_bytes=MAX_BYTES)
    if not data:
        raise InputError("the file is empty", location=Location(path))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise InputError(
            "this is not an ONNX model, or a truncated one",
            location=Location(path),
            hint=str(error)[:200] or None,
        ) from None
    if not model.HasField("graph") or not model.graph.node:
        raise InputError("this is not an ONNX model: it holds no graph", location=Location(path))
    if not model.opset_import:
        raise InputError(
            "the model does not say which operator set it uses: it is truncated or damaged",
            location=Location(path),
        )
    check_names(path, model)
    _complete_operator_sets(path, model)
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain in STANDARD_DOMAINS and entry.version > newest:
            raise InputError(
                f"the model is of operator set {entry.version}, newer than {newest}, the last that is known here",
                location=Location(path, node=model.graph.node[0].name or model.graph.node[0].op_type),
                hint="export it with an older one, or install a newer package 'onnx'",
            )
    return model


def _complete_operator_sets(path: str, model: onnx.ModelProto) -> None:
    """Say which standard operators a model uses that does not: the newest that its format had when it was written.

    Raises InputError for a model without standard operators.
    """
    if any(entry.domain in STANDARD_DOMAINS for entry in model.opset_import):
        return
    if not any(node.domain in STANDARD_DOMAINS for node in model.graph.node):
        domains = {one_line(str(node.domain)) for node in model.graph.node}
        operators = {one_line(str(node.op_type)) for node in model.graph.node}
        raise InputError(
            f"the model holds no standard operator: {', '.join(sorted(operators)[:4])} of {', '.join(sorted(domains))}",
            location=Location(path),
        )
    known = [row[2] for row in onnx.helper.VERSION_TABLE if row[1] <= model.ir_version]
    model.opset_import.append(onnx.helper.make_opsetid("", max(known, default=1)))


def tensor_shape(path: str, name: str, dims: Iterable[int]) -> tuple[int, ...]:
    """Dimensions of a stored tensor. Raises InputError for negative ones."""
    shape = tuple(int(n) for n in dims)
    if any(n < 0 for n in shape):
        raise InputError(f"the tensor has a negative extent: {shape}", location=Location(path, node=name))
    return shape


def _strip_weights(path: str, graph: onnx.GraphProto) -> dict[str, FoldedTensor]:
    """Constants of the graph, which become inputs of known shape in it."""
    constants: dict[str, FoldedTensor] = {}
    stored = [(t.name, t.data_type, t.dims, t) for t in graph.initializer]
    stored += [(t.values.name, t.values.data_type, t.dims, None) for t in graph.sparse_initializer]
    kept = [value for value in graph.input if value.name not in {name for name, *_ in stored}]
    for name, kind, dims, tensor in stored:
        shape = tensor_shape(path, name, dims)
        value = None if tensor is None else stored_value(tensor)
        constants[name] = FoldedTensor(shape, roots_of(name, kind, shape), value)
        kept.append(onnx.helper.make_tensor_value_info(name, kind or onnx.TensorProto.FLOAT, shape))
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del graph.input[:], graph.initializer[:], graph.sparse_initializer[:]
    graph.input.extend(copies)
    return constants
