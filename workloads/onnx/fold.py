"""Evaluating the small integer graphs by which ONNX exporters compute shapes.

ONNX's own shape inference follows only some operators; what it leaves open (`Where`, `Equal`,
`ConstantOfShape`... as exporters write for `expand` and `view`) is computed here on values of few elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from workloads.onnx.external import is_external

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


Values = Sequence[np.ndarray]
Attributes = dict[str, onnx.AttributeProto]


def stored_value(tensor: onnx.TensorProto) -> np.ndarray | None:
    """Numbers of a stored tensor; None for a large one, one stored elsewhere, one of texts, or a damaged one."""
    if math.prod(tensor.dims) > SMALL or is_external(tensor):
        return None
    try:
        value = np.asarray(onnx.numpy_helper.to_array(tensor))
        return value if value.dtype.kind in "biuf" else None  # texts have no part in shapes
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError):
        return None


def _integer(attributes: Attributes, name: str, default: int) -> int:
    return int(attributes[name].i) if name in attributes else default


def _axes(x: Values, attributes: Attributes) -> tuple[int, ...]:
    if len(x) > 1:
        return tuple(int(a) for a in x[1].reshape(-1))
    return tuple(attributes["axes"].ints) if "axes" in attributes else ()


def _bounded(shape: Sequence[int]) -> tuple[int, ...]:
    result = tuple(int(n) for n in shape)
    if any(n < 0 for n in result) or math.prod(result) > SMALL:
        raise ValueError("not a small shape")
    return result


def _unsqueeze(x: Values, attributes: Attributes) -> np.ndarray:
    axes = _axes(x, attributes)
    return np.expand_dims(x[0], axes)


def _slice(x: Values, attributes: Attributes) -> np.ndarray:
    if len(x) == 1:
        starts, ends = attributes["starts"].ints, attributes["ends"].ints
        axes = attributes["axes"].ints if "axes" in attributes else range(len(starts))
        steps: Sequence[int] = [1] * len(starts)
    else:
        starts, ends = x[1].tolist(), x[2].tolist()
        axes = x[3].tolist() if len(x) > 3 else range(len(starts))
        steps = x[4].tolist() if len(x) > 4 else [1] * len(starts)
    index: list[slice] = [slice(None)] * x[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # An end before the first element, for a negative step, has no number in Python's slices.
        stop = None if step < 0 and end < -x[0].shape[axis] else end
        index[axis] = slice(start, stop, step)
    return x[0][tuple(index)]


def _reshape(x: Values, attributes: Attributes) -> np.ndarray:
    target = [x[0].shape[i] if n == 0 else int(n) for i, n in enumerate(x[1].tolist())]
    return x[0].reshape(target)


def _constant_of_shape(x: Values, attributes: Attributes) -> np.ndarray:
    fill = stored_value(attributes["value"].t) if "value" in attributes else np.zeros(1)
    if fill is None:
        raise ValueError("the value is not known")
    return np.full(_bounded(x[0].tolist()), fill.reshape(-1)[0])


def _range(x: Values, attributes: Attributes) -> np.ndarray:
    start, limit, delta = (v.reshape(-1)[0] for v in x)
    _bounded([max(0, math.ceil((limit - start) / delta))])
    return np.arange(start, limit, delta, dtype=x[0].dtype)


def _expand(x: Values, attributes: Attributes) -> np.ndarray:
    shape = _bounded(np.broadcast_shapes(x[0].shape, _bounded_extents(x[1])))
    return np.broadcast_to(x[0], shape).copy()


def _bounded_extents(x: np.ndarray) -> tuple[int, ...]:
    return _bounded(x.reshape(-1).tolist())


def _divide(x: Values, attributes: Attributes) -> np.ndarray:
    if not np.issubdtype(x[0].dtype, np.integer):
        return np.divide(x[0], x[1])
    # Integer division rounds toward zero in ONNX, toward minus infinity in numpy.
    quotient = np.abs(x[0]) // np.abs(x[1])
    return np.asarray(np.sign(x[0]) * np.sign(x[1]) * quotient).astype(x[0].dtype)


def _cast(x: Values, attributes: Attributes) -> np.ndarray:
    return x[0].astype(onnx.helper.tensor_dtype_to_np_dtype(_integer(attributes, "to", 0)))


def _reduce_prod(x: Values, attributes: Attributes) -> np.ndarray:
    axes = _axes(x, attributes) or None
    return np.asarray(np.prod(x[0], axis=axes, keepdims=bool(_integer(attributes, "keepdims", 1))))


#: Those whose operands are broadcast against each other.
_BROADCAST = frozenset(
    ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Equal", "Greater", "Less", "And", "Where")
)
EVALUATE: dict[str, Callable[[Values, Attributes], np.ndarray]] = {
    "Identity": lambda x, a: x[0],
    "Cast": _cast,
    "Gather": lambda x, a: np.take(x[0], x[1].astype(np.int64), axis=_integer(a, "axis", 0)),
    "Concat": lambda x, a: np.concatenate(x, axis=_integer(a, "axis", 0)),
    "Unsqueeze": _unsqueeze,
    "Squeeze": lambda x, a: np.squeeze(x[0], axis=_axes(x, a) or None),
    "Slice": _slice,
    "Reshape": _reshape,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Expand": _expand,
    "Add": lambda x, a: np.add(x[0], x[1]),
    "Sub": lambda x, a: np.subtract(x[0], x[1]),
    "Mul": lambda x, a: np.multiply(x[0], x[1]),
    "Div": _divide,
    "Mod": lambda x, a: (np.fmod if _integer(a, "fmod", 0) else np.mod)(x[0], x[1]),
    "Neg": lambda x, a: np.negative(x[0]),
    "Floor": lambda x, a: np.floor(x[0]),
    "Ceil": lambda x, a: np.ceil(x[0]),
    "Sqrt": lambda x, a: np.sqrt(x[0]),
    "Min": lambda x, a: np.minimum.reduce(np.broadcast_arrays(*x)),
    "Max": lambda x, a: np.maximum.reduce(np.broadcast_arrays(*x)),
    "Equal": lambda x, a: np.equal(x[0], x[1]),
    "Greater": lambda x, a: np.greater(x[0], x[1]),
    "Less": lambda x, a: np.less(x[0], x[1]),
    "Not": lambda x, a: np.logical_not(x[0]),
    "And": lambda x, a: np.logical_and(x[0], x[1]),
    "Where": lambda x, a: np.where(x[0], x[1], x[2]),
    "ReduceProd": _reduce_prod,
}


def evaluate(
    node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]], known: dict[str, np.ndarray]
) -> np.ndarray | None:
    """The result of a node of a shape computation, from shapes and values known so far; None if open."""
    if node.domain not in ("", "ai.onnx"):
        return None
    attributes = {a.name: a for a in node.attribute}
    return _evaluate(node, attributes, shapes, known)


def _evaluate(
    node: onnx.NodeProto,
    attributes: Attributes,
    shapes: dict[str, tuple[int, ...]],
    known: dict[str, np.ndarray],
) -> np.ndarray | None:
    names = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size"):
        if len(names) != 1 or names[0] not in shapes:
            return None
        shape = shapes[names[0]]
        if node.op_type == "Size":
            return np.asarray(math.prod(shape)) if math.prod(shape) < 2**62 else None
        end = _integer(attributes, "end", len(shape))
        return np.asarray(shape[_integer(attributes, "start", 0) : end], dtype=np.int64)
    if node.op_type == "Constant" and "value" in attributes:
        return stored_value(attributes["value"].t)
    if node.op_type not in EVALUATE or not names or len(names) < len(node.input):
        return None
    if any(name not in known for name in names):
        return None
    values = [known[name] for name in names]
    try:
        if node.op_type in _BROADCAST:
            _bounded(np.broadcast_shapes(*(value.shape for value in values)))
        with np.errstate(all="ignore"):
            return np.asarray(EVALUATE[node.op_type](values, attributes))
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError):
        return None  # malformed: whatever depends on it stays unknown and is reported there
