"""Evaluating the small integer graphs by which ONNX exporters compute shapes.

ONNX's own shape inference follows the values of only some operators; what it leaves open (`Where`, `Equal`,
`ConstantOfShape`... as exporters write for `expand` and `view`) is computed here, by ONNX's own evaluator, on values of few
elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from baco.workloads.onnx.evaluate import STANDARD_DOMAINS, evaluate_node
from baco.workloads.onnx.external import is_external

#: Larger values are data, not shapes.
SMALL = 1024

#: Name and elements of a stored tensor that counts as weights.
Root = tuple[str, int]


@dataclass
class FoldedTensor:
    """A value known before the network runs.

    Attributes:
        shape: None when not known.
        roots: (name, elements) of the stored tensors it was made from, for counting weights once.
        value: elements, kept for small tensors only.
    """

    shape: tuple[int, ...] | None
    roots: tuple[Root, ...] = ()
    value: np.ndarray | None = None


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


#: Operators of shape computations.
_FOLDED = frozenset(
    (
        *(
            "Identity",
            "Cast",
            "Gather",
            "Concat",
            "Unsqueeze",
            "Squeeze",
            "Slice",
            "Reshape",
            "ConstantOfShape",
        ),
        *("Range", "Expand", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Floor", "Ceil", "Sqrt", "Min", "Max"),
        *("Equal", "Greater", "Less", "Not", "And", "Where", "ReduceProd"),
    )
)


def evaluate(
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    known: Mapping[str, np.ndarray],
    size: int | None,
    opset: int,
) -> np.ndarray | None:
    """The result of a node of a shape computation, from shapes and values known so far; None if open.

    Args:
        size: elements of the result, None where that is not known: then nothing is computed but shapes.
        opset: version of the standard operators.
    """
    if node.domain not in STANDARD_DOMAINS:
        return None
    attributes = {a.name: a for a in node.attribute}
    names = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size"):
        if len(names) != 1 or names[0] not in shapes:
            return None
        shape = shapes[names[0]]
        if node.op_type == "Size":
            return np.asarray(math.prod(shape)) if math.prod(shape) < 2**62 else None
        start, end = (int(attributes[n].i) if n in attributes else None for n in ("start", "end"))
        return np.asarray(shape[start:end], dtype=np.int64)
    if node.op_type == "Constant" and "value" in attributes:
        return stored_value(attributes["value"].t)
    if node.op_type not in _FOLDED or not names or len(names) < len(node.input):
        return None
    if size is None or size > SMALL or any(name not in known for name in names):
        return None
    try:
        value = evaluate_node(node, {name: known[name] for name in names}, opset)
        return value if value.dtype.kind in "biuf" else None
    except ValueError:
        return None  # malformed: whatever depends on it stays unknown and is reported there
