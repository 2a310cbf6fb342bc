"""ONNX operators that only look at a tensor in another way: the steps of their views."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco.workloads.onnx.node import OnnxNode
from baco.workloads.views import (
    Expand,
    Reshape,
    Slice,
    Step,
    Transpose,
    depth_to_space,
    fits,
    slice_of,
    space_to_depth,
    tiled,
)

#: A node, the shape of its input and the index and shape of its output, to steps.
Rule = Callable[[OnnxNode, tuple[int, ...], int, tuple[int, ...]], tuple[Step, ...]]


def view_steps(imp: OnnxNode, output: int = 0) -> tuple[Step, ...]:
    """Steps from the node's first input to an output; none if they cannot be told."""
    rule = _RULES.get(imp.node.op_type)
    source, target = imp.shape(0), imp.output_shape(output)
    if rule is None:
        return ()
    try:
        steps = rule(imp, source, output, target)
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError):
        return ()  # damaged attributes: the shape, which ONNX inferred, is all that is known
    return steps if fits(source, target, steps) else ()


def view_rules() -> frozenset[str]:
    """Operators whose views are recorded."""
    return frozenset(_RULES)


def view_rule(operator: str) -> Rule | None:
    """The rule that tells an operator's steps; None for an operator without."""
    return _RULES.get(operator)


def _numbers(imp: OnnxNode, index: int, attribute: str) -> list[int] | None:
    """Integers from a constant input, or from the attribute that older operator sets have."""
    if imp.has(index):
        value = imp.value(index)
        if value is None:
            raise ValueError("not constant")
        return [int(n) for n in value.reshape(-1)]
    given = imp.integers(attribute)
    return None if given is None else list(given)


def _transpose(
    imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]
) -> tuple[Step, ...]:
    axes = imp.integers("perm", tuple(reversed(range(len(source)))))
    return (Transpose(tuple(axes or ())),)


def _slice(imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]) -> tuple[Step, ...]:
    starts, ends = _numbers(imp, 1, "starts"), _numbers(imp, 2, "ends")
    if starts is None or ends is None:
        return ()
    axes = _numbers(imp, 3, "axes") or list(range(len(starts)))
    steps = _numbers(imp, 4, "steps") or [1] * len(starts)
    result: list[Step] = []
    shape = source
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # An end before the first element, for a negative step, has no number in Python's slices.
        stop = None if step < 0 and end < -source[axis] else end
        part = slice_of(shape, axis % len(source), start, stop, step)
        result.append(part)
        shape = part.shape
    return tuple(result)


def _split(imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]) -> tuple[Step, ...]:
    axis = imp.integer("axis", 0) % len(source)
    parts = _numbers(imp, 1, "split")
    start = output * -(-source[axis] // len(imp.node.output)) if parts is None else sum(parts[:output])
    return (slice_of(source, axis, start, start + target[axis]),)


def _gather(imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]) -> tuple[Step, ...]:
    """Gather by constant indices that are evenly spaced."""
    axis, value = imp.integer("axis", 0) % len(source), imp.value(1)
    if value is None or value.size < 1:
        return ()
    index = np.where(value < 0, value + source[axis], value).reshape(-1).astype(np.int64)
    step = int(index[1] - index[0]) if index.size > 1 else 1
    if step == 0 or (index != index[0] + step * np.arange(index.size)).any():
        return ()
    if index.min() < 0 or index.max() >= source[axis]:
        return ()
    starts, shape, steps = [0] * len(source), list(source), [1] * len(source)
    starts[axis], shape[axis], steps[axis] = int(index[0]), index.size, step
    return Slice(tuple(starts), tuple(shape), tuple(steps)), Reshape(target)


def _tile(imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]) -> tuple[Step, ...]:
    repeats = imp.value(1)
    return () if repeats is None else tiled(source, [int(n) for n in repeats])


def _depth_to_space(
    imp: OnnxNode, source: tuple[int, ...], output: int, target: tuple[int, ...]
) -> tuple[Step, ...]:
    return depth_to_space(source, imp.integer("blocksize", 1), imp.text("mode", "DCR") == "CRD")


_RULES: dict[str, Rule] = {
    "Transpose": _transpose,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Expand": lambda imp, source, output, target: (Expand(target),),
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": lambda imp, source, output, target: space_to_depth(
        source, imp.integer("blocksize", 1), imp.text("mode", "DCR") == "CRD"
    ),
}
_RULES |= dict.fromkeys(
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze"), lambda imp, source, output, target: (Reshape(target),)
)
