"""Sequences and optional values, as far as their lengths are known: lists of names while a model is read, no operators of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError


def _items(e: Expansion) -> list[str]:
    """Names of the tensors in the first input."""
    items = e.facts.sequences.get(e.input(0))
    if items is None:
        raise RefusedError(f"how many tensors its input '{e.node.input[0]}' holds is not known")
    return list(items)


def _position(e: Expansion, index: int, count: int, most: int) -> int:
    """A constant position up to `most` in a sequence of `count`, those below 0 from the end."""
    position = int(e.value(index, "position").reshape(-1)[0])
    if not -count <= position <= most:
        raise RefusedError(f"position {position} of a sequence of {count}")
    return position + count if position < 0 else position


def _write(e: Expansion, items: list[str]) -> None:
    e.facts.sequences[e.node.output[0]] = items


def _empty(e: Expansion) -> None:
    e.attribute("dtype", 0)
    _write(e, [])


def _construct(e: Expansion) -> None:
    _write(e, e.inputs)


def _insert(e: Expansion) -> None:
    items = _items(e)
    at = _position(e, 2, len(items), len(items)) if e.has(2) else len(items)
    _write(e, [*items[:at], e.input(1), *items[at:]])


def _erase(e: Expansion) -> None:
    items = _items(e)
    if not items:
        raise RefusedError("an element of an empty sequence")
    del items[_position(e, 1, len(items), len(items) - 1) if e.has(1) else -1]
    _write(e, items)


def _at(e: Expansion) -> None:
    items = _items(e)
    e.finish("Identity", items[_position(e, 1, len(items), len(items) - 1)])


def _length(e: Expansion) -> None:
    e.finish("Identity", e.constant(len(_items(e)), np.int64))


def _joined(e: Expansion) -> None:
    items = _items(e)
    if not items:
        raise RefusedError("a sequence of no tensors")
    axis = e.attribute("axis", 0)
    if e.attribute("new_axis", 0):
        items = [e.add("Unsqueeze", x, e.constant([axis])) for x in items]
    e.finish("Concat", *items, axis=axis)


def _split(e: Expansion) -> None:
    shape = e.shape(0)
    axis = e.attribute("axis", 0) % len(shape)
    size, keeps = shape[axis], bool(e.attribute("keepdims", 1))
    if e.has(1):
        given, keeps = e.value(1, "split"), True
        step = int(given.reshape(-1)[0])
        parts = (
            [int(n) for n in given]
            if given.ndim
            else [step] * (size // step) + [size % step] * (size % step > 0)
        )
    else:
        parts = [1] * size
    start, items = 0, []
    for count in parts:
        item = e.slice(e.input(0), axis, start, start + count)
        items.append(item if keeps else e.add("Squeeze", item, e.constant([axis])))
        start += count
    _write(e, items)


def _optional(e: Expansion) -> None:
    if not e.has(0):
        raise RefusedError("an optional value that holds nothing")
    _same(e)


def _same(e: Expansion) -> None:
    """The element of an optional value is the value."""
    name = e.input(0)
    if name in e.facts.sequences:
        _write(e, e.facts.sequences[name])
    else:
        e.finish("Identity", name)


def _has_element(e: Expansion) -> None:
    """Known of what the graph itself makes; an optional input of the model is the user's to leave out."""
    if e.has(0) and e.input(0) not in e.facts.sequences:
        e.shape(0)
    e.finish("Identity", e.constant(np.bool_(e.has(0))))


#: Operator -> what it makes of lists.
SEQUENCES: dict[str, Callable[[Expansion], None]] = {
    "SequenceEmpty": _empty,
    "SequenceConstruct": _construct,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
    "SplitToSequence": _split,
    "Optional": _optional,
    "OptionalGetElement": _same,
    "OptionalHasElement": _has_element,
}
