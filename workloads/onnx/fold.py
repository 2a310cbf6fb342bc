"""Evaluating the small integer graphs by which ONNX exporters compute shapes.

ONNX's own shape inference follows the values of only some operators; what it leaves open (`Where`, `Equal`,
`ConstantOfShape`... as exporters write for `expand` and `view`) is computed here, by ONNX's own evaluator, on values of few
elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from baco.workloads.onnx.evaluate import STANDARD_DOMAINS, evaluate_node
from baco.workloads.onnx.external import is_external
from baco.workloads.views import Step

#: Larger values are data, not shapes.
SMALL = 1024

#: Name and elements of a stored tensor that counts as weights.
Root = tuple[str, int]


@dataclass(frozen=True)
class WholeConstant:
    """Whole numbers of a constant: (q - zero) * scale.

    Attributes:
        name: of the constant that holds them.
        scale, zero: one for everything, or one for each index along `axis`.
        axis: a dimension of that constant.
        steps: what became of the real numbers since.
    """

    name: str
    scale: tuple[float, ...]
    zero: tuple[int, ...]
    axis: int
    steps: tuple[Step, ...] = ()


@dataclass
class FoldedTensor:
    """A value known before the network runs.

    Attributes:
        shape: None when not known.
        roots: (name, elements) of the stored tensors it was made from, for counting weights once.
        value: elements, kept for small tensors only.
        whole: whole numbers that a quantised model stores for them.
    """

    shape: tuple[int, ...] | None
    roots: tuple[Root, ...] = ()
    value: np.ndarray | None = None
    whole: WholeConstant | None = None


def roots_of(name: str, kind: int, shape: Sequence[int]) -> tuple[Root, ...]:
    """What a stored tensor contributes to the weights: all of it, but nothing if it holds indices or flags."""
    if kind in (onnx.TensorProto.INT64, onnx.TensorProto.BOOL):
        return ()
    return ((name, math.prod(shape)),)


def stored_value(tensor: onnx.TensorProto) -> np.ndarray | None:
    """Numbers of a stored tensor; None for a large one, one stored elsewhere, one of texts, or a damaged one."""
    if math.prod(tensor.dims) > SMALL or is_external(tensor):
        return None
    try:
        value = np.asarray(onnx.numpy_helper.to_array(tensor))
        return value if value.dtype.kind in "biuf" else None  # texts have no part in shapes
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError):
        return None


#: Operators whose results are not the same every time.
RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
#: Operators whose results are of no known size, but never larger than what they read, dimensions aside.
_BOUNDED = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
#: Attributes of Constant that give its elements without a tensor.
_ELEMENTS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def write_constants_as_tensors(nodes: Iterable[onnx.NodeProto]) -> None:
    """Constants that are given as numbers, in place, in the one form that everything else reads."""
    for node in nodes:
        if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS or len(node.attribute) != 1:
            continue
        kind = _ELEMENTS.get(node.attribute[0].name)
        if kind is not None:
            value = np.asarray(onnx.helper.get_attribute_value(node.attribute[0]), kind)
            tensor = onnx.numpy_helper.from_array(value)
            node.attribute[0].CopyFrom(onnx.helper.make_attribute("value", tensor))


def evaluate(
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    known: Mapping[str, np.ndarray],
    sizes: Sequence[int | None],
    opset: int,
) -> dict[str, np.ndarray] | None:
    """The results of a node of small constants, or of shapes, from what is known so far, by name; None if open.

    Args:
        sizes: elements of the results, None where that is not known: then nothing is computed but shapes.
        opset: version of the standard operators.
    """
    values = _evaluate(node, shapes, known, sizes, opset)
    if values is None or any(v.size > SMALL or v.dtype.kind not in "biuf" for v in values.values()):
        return None
    return values


def _range(node: onnx.NodeProto, known: Mapping[str, np.ndarray], opset: int) -> dict[str, np.ndarray] | None:
    """Range of three numbers, vectors of one element included, which ONNX's own functions give it."""
    given = {name: known[name].reshape(()) for name in node.input if known[name].size == 1}
    if len(node.input) != 3 or any(name not in given for name in node.input):
        return None
    start, limit, delta = (float(given[name]) for name in node.input)
    if not delta or not (limit - start) / delta <= SMALL:
        return None
    try:
        return evaluate_node(node, given, opset)
    except ValueError:
        return None


def _evaluate(
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    known: Mapping[str, np.ndarray],
    sizes: Sequence[int | None],
    opset: int,
) -> dict[str, np.ndarray] | None:
    if node.domain not in STANDARD_DOMAINS or not any(node.output):
        return None
    first = node.output[0]
    attributes = {a.name: a for a in node.attribute}
    names = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size"):
        if len(names) != 1 or names[0] not in shapes:
            return None
        shape = shapes[names[0]]
        if node.op_type == "Size":
            return {first: np.asarray(math.prod(shape))} if math.prod(shape) < 2**62 else None
        start, end = (int(attributes[n].i) if n in attributes else None for n in ("start", "end"))
        return {first: np.asarray(shape[start:end], dtype=np.int64)}
    if node.op_type == "Constant" and "value" in attributes:
        value = stored_value(attributes["value"].t)
        return None if value is None else {first: value}
    if node.op_type in RANDOM or not names or any(name not in known for name in names):
        return None
    if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
        return None
    if node.op_type == "Range":
        return _range(node, known, opset)
    if node.op_type not in _BOUNDED and any(size is None or size > SMALL for size in sizes):
        return None
    try:
        return evaluate_node(node, {name: known[name] for name in names}, opset)
    except ValueError:
        return None  # malformed: whatever depends on it stays unknown and is reported there
