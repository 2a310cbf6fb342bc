"""Views of tensors: what lies between the operator that writes a tensor and the one that reads it.

Reshaping, transposition, slices and expansion are no operators of a network, since memory is read through
addresses; an operand records them as the steps applied to the producer's output, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order under another shape."""

    shape: tuple[int, ...]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The view of x."""
        return x.reshape(self.shape)


@dataclass(frozen=True)
class Transpose:
    """Dimensions in another order: dimension i of the result is dimension axes[i]."""

    axes: tuple[int, ...]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The view of x."""
        return x.transpose(self.axes)


@dataclass(frozen=True)
class Slice:
    """A box: index i of the result is index starts + i * steps, in every dimension; steps may be negative."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The view of x."""
        index = []
        for start, size, step in zip(self.starts, self.shape, self.steps, strict=True):
            stop = start + size * step
            index.append(slice(start, stop if stop >= 0 else None, step))
        return x[tuple(index)]


@dataclass(frozen=True)
class Expand:
    """Broadcast to a shape, as numpy does."""

    shape: tuple[int, ...]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The view of x."""
        return np.broadcast_to(x, self.shape)


@dataclass(frozen=True)
class Unknown:
    """A view whose elements are not recorded: enough to explore a network, not to run it.

    Attributes:
        reason: for whoever wants to run it.
        node: of the source that the reason is about; empty: the view itself.
    """

    reason: str
    node: str = ""

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Raises ValueError."""
        raise ValueError(self.reason)


Step: TypeAlias = Reshape | Transpose | Slice | Expand | Unknown


def unrecorded(steps: Sequence[Step]) -> bool:
    """Whether the last step already is one of unknown elements."""
    return bool(steps) and isinstance(steps[-1], Unknown)


def apply_steps(x: np.ndarray, steps: Sequence[Step]) -> np.ndarray:
    """The view of x that the steps describe. Raises ValueError for an unknown one."""
    for step in steps:
        x = step.apply(x)
    return x


def fits(source: tuple[int, ...], target: tuple[int, ...], steps: Sequence[Step]) -> bool:
    """Whether the steps lead from one shape to the other; no memory of that size is needed."""
    shape = source
    for step in steps:
        if isinstance(step, Unknown):
            return True
        if isinstance(step, Reshape):
            if math.prod(step.shape) != math.prod(shape):
                return False
            shape = step.shape
            continue
        # Strides of 0 see a tensor of any size in one byte.
        x = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, (0,) * len(shape), writeable=False)
        try:
            seen = step.apply(x)
        except (ValueError, IndexError):
            return False
        if isinstance(step, Slice) and seen.shape != step.shape:
            return False
        shape = seen.shape
    return shape == target


def slice_of(shape: Sequence[int], axis: int, start: int | None, stop: int | None, step: int = 1) -> Slice:
    """Python's `start:stop:step` along one dimension of a tensor of this shape."""
    first, last, step = slice(start, stop, step).indices(shape[axis])
    size = len(range(first, last, step))
    starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], sizes[axis], steps[axis] = first, size, step
    return Slice(tuple(starts), tuple(sizes), tuple(steps))


def tiled(shape: Sequence[int], repeats: Sequence[int]) -> tuple[Step, ...]:
    """numpy.tile: the whole repeated along each dimension."""
    repeats = (*(1 for _ in range(len(shape) - len(repeats))), *repeats)
    shape = (*(1 for _ in range(len(repeats) - len(shape))), *shape)
    split = tuple(n for size in shape for n in (1, size))
    wide = tuple(n for size, count in zip(shape, repeats, strict=True) for n in (count, size))
    return Reshape(split), Expand(wide), Reshape(tuple(s * r for s, r in zip(shape, repeats, strict=True)))


def depth_to_space(shape: Sequence[int], block: int, channels_first: bool = True) -> tuple[Step, ...]:
    """(N, C * block**2, H, W) to (N, C, H * block, W * block); the block's index is the outer part of the
    channels (ONNX: DCR) or, with `channels_first`, the inner part (CRD, PyTorch's pixel shuffle)."""
    n, c, h, w = shape
    depth = c // block**2
    if channels_first:
        split, axes = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    else:
        split, axes = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    return Reshape(split), Transpose(axes), Reshape((n, depth, h * block, w * block))


def space_to_depth(shape: Sequence[int], block: int, channels_first: bool = True) -> tuple[Step, ...]:
    """(N, C, H, W) to (N, C * block**2, H / block, W / block), the inverse of `depth_to_space`."""
    n, c, h, w = shape
    split = (n, c, h // block, block, w // block, block)
    axes = (0, 1, 3, 5, 2, 4) if channels_first else (0, 3, 5, 1, 2, 4)
    return Reshape(split), Transpose(axes), Reshape((n, c * block**2, h // block, w // block))
