"""PyTorch operators that only look at a tensor in another way: the steps of their views."""

from __future__ import annotations

from collections.abc import Callable

from baco.workloads.torch.node import TorchNode, node_shapes
from baco.workloads.views import (
    Expand,
    Reshape,
    Slice,
    Step,
    Transpose,
    Unknown,
    depth_to_space,
    fits,
    slice_of,
    space_to_depth,
    tiled,
)

Shape = tuple[int, ...]
#: A node and the shapes of its input and (first) output, to steps.
Rule = Callable[[TorchNode, Shape, Shape], tuple[Step, ...]]


def view_steps(imp: TorchNode, name: str) -> list[tuple[Shape, tuple[Step, ...]]]:
    """Shape and steps of every output of a view of the node's first activation.

    Args:
        imp: at the node.
        name: of its operator, without overload.
    """
    source = imp.tensors()[0].shape
    shapes = node_shapes(imp.node) or [imp.shape()]
    rule = _RULES.get(name)
    several: list[tuple[Step, ...]] = []
    try:
        if name in _PARTS:
            several = _parts(imp, name, source, shapes)
        elif rule is not None:
            several = [rule(imp, source, shapes[0])]
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError):
        several = []
    result: list[tuple[Shape, tuple[Step, ...]]] = []
    for index, shape in enumerate(shapes):
        steps = several[index] if index < len(several) else None
        if steps is None or not fits(source, shape, steps):
            steps = (Unknown(f"a view ({name}) that is not recorded"),)
        result.append((shape, steps))
    return result


_PARTS = frozenset(
    {"split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split"}
)


def _parts(imp: TorchNode, name: str, source: Shape, shapes: list[Shape]) -> list[tuple[Step, ...]]:
    axis = int(imp.args.get("dim") or 0) % len(source)
    result: list[tuple[Step, ...]] = []
    start = 0
    for shape in shapes:
        size = 1 if name == "unbind" else shape[axis]
        part = slice_of(source, axis, start, start + size)
        result.append((part, Reshape(shape)) if name == "unbind" else (part,))
        start += size
    return result


def _axes(imp: TorchNode, *names: str) -> list[int]:
    return [int(imp.args[name]) for name in names]


def _swap(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    names = ("dim0", "dim1") if "dim0" in imp.args else ("axis0", "axis1")
    return _swapped(len(source), *_axes(imp, *names))


def _swapped(rank: int, a: int, b: int) -> tuple[Step, ...]:
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return (Transpose(tuple(order)),)


def _permute(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return (Transpose(tuple(a % len(source) for a in imp.numbers("dims", 0))),)


def _movedim(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    rank = len(source)
    start = [a % rank for a in imp.numbers("source", 0)]
    end = [a % rank for a in imp.numbers("destination", 0)]
    order = [a for a in range(rank) if a not in start]
    for position, axis in sorted(zip(end, start, strict=True)):
        order.insert(position, axis)
    return (Transpose(tuple(order)),)


def _slice(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    axis = int(imp.args.get("dim") or 0) % len(source)
    stop = imp.args.get("end")
    start, step = imp.args.get("start"), imp.args.get("step")
    return (
        slice_of(
            source,
            axis,
            None if start is None else int(start),
            None if stop is None else int(stop),
            1 if step is None else int(step),
        ),
    )


def _select(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    axis, index = (int(imp.args[name]) for name in ("dim", "index"))
    index %= source[axis]
    return slice_of(source, axis % len(source), index, index + 1), Reshape(target)


def _narrow(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    axis, start, length = (int(imp.args[name]) for name in ("dim", "start", "length"))
    start %= source[axis]
    return (slice_of(source, axis % len(source), start, start + length),)


def _flip(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    flipped = {a % len(source) for a in imp.numbers("dims", 0)}
    starts = tuple(n - 1 if a in flipped else 0 for a, n in enumerate(source))
    return (Slice(starts, source, tuple(-1 if a in flipped else 1 for a in range(len(source)))),)


def _repeat(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return tiled(source, imp.numbers("repeats" if "repeats" in imp.args else "dims", 1))


def _shuffle(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    if len(source) != 4:
        return ()
    if "upscale_factor" in imp.args:
        return depth_to_space(source, int(imp.args["upscale_factor"]))
    return space_to_depth(source, int(imp.args["downscale_factor"]))


def _reshape(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return (Reshape(target),)


def _expand(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return (Expand(target),)


def _same(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return ()


def _matrix_transpose(imp: TorchNode, source: Shape, target: Shape) -> tuple[Step, ...]:
    return _swapped(len(source), -1, -2) if len(source) > 1 else ()


_RULES: dict[str, Rule] = {
    "transpose": _swap,
    "swapaxes": _swap,
    "swapdims": _swap,
    "t": _matrix_transpose,
    "mT": _matrix_transpose,
    "adjoint": _matrix_transpose,
    "numpy_T": lambda imp, source, target: (Transpose(tuple(reversed(range(len(source))))),),
    "permute": _permute,
    "movedim": _movedim,
    "slice": _slice,
    "select": _select,
    "narrow": _narrow,
    "flip": _flip,
    "repeat": _repeat,
    "tile": _repeat,
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _shuffle,
}
_RULES |= dict.fromkeys(
    (
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "view_as",
        "_reshape_alias",
    ),
    _reshape,
)
_RULES |= dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand)
_RULES |= dict.fromkeys(("contiguous", "detach", "alias", "lift_fresh", "clone", "to", "_to_copy"), _same)
