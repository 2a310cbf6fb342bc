"""Strided views: how an operator reads or writes part of a value in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from baco.workloads.views import Step, apply_steps


@dataclass(frozen=True)
class View:
    """Elements of a value, seen as a tensor: element `i` is at `offset + sum(i[d] * strides[d])`.

    The value itself is a row-major block of its shape; a stride of 0 repeats an element (broadcasting), and a
    view that is written has no two indices at the same element.

    Attributes:
        value: name of the value.
        shape: extents of the view.
        strides: in elements, one for each extent; never negative but for flips.
        offset: of the first element, in elements.
    """

    value: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def words(self) -> int:
        """Number of elements, repeated ones counted."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """True when the elements follow one another in row-major order without gaps."""
        return self.collapsed().strides in ((), (1,))

    def read(self, data: np.ndarray) -> np.ndarray:
        """The view of `data`, the value's elements in any shape (row-major); read-only."""
        flat = np.ascontiguousarray(data).reshape(-1)
        steps = tuple(s * flat.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, steps, writeable=False)

    def write(self, data: np.ndarray, elements: np.ndarray) -> None:
        """Put `elements` (of the view's shape) into `data`, a contiguous array, in place."""
        flat = data.reshape(-1)
        assert np.shares_memory(flat, data) or not flat.size, "only contiguous arrays are written in place"
        steps = tuple(s * flat.itemsize for s in self.strides)
        np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, steps)[...] = elements

    # Other views of the same elements

    def transposed(self, axes: Sequence[int]) -> View:
        """Dimensions in another order."""
        return View(
            self.value, tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset
        )

    def sliced(self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> View:
        """A box with steps: element i of the result is element starts + i * steps of this view."""
        offset = self.offset + sum(a * s for a, s in zip(starts, self.strides, strict=True))
        strides = tuple(s * step for s, step in zip(self.strides, steps, strict=True))
        return View(self.value, tuple(shape), strides, offset)

    def expanded(self, shape: Sequence[int]) -> View:
        """Broadcast as numpy does: new leading dimensions and extents of 1 repeat."""
        extra = len(shape) - len(self.shape)
        if extra < 0:
            raise ValueError(f"{self.shape} does not broadcast to {tuple(shape)}")
        strides = [0] * extra
        for size, stride, wanted in zip(self.shape, self.strides, shape[extra:], strict=True):
            if size != wanted and size != 1:
                raise ValueError(f"{self.shape} does not broadcast to {tuple(shape)}")
            strides.append(stride if size == wanted and size != 1 else 0)
        return View(self.value, tuple(shape), tuple(strides), self.offset)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The elements in row-major order of this view under another shape; None if that needs a copy."""
        if math.prod(shape) != self.words:
            raise ValueError(f"{self.shape} cannot be reshaped to {tuple(shape)}")
        parts = list(zip(*self._merged(), strict=True))
        strides: list[int] = []
        size, stride = parts.pop() if parts else (1, 1)
        for wanted in reversed(shape):
            if wanted == 1:
                strides.append(0)
                continue
            if size == 1 and parts:
                size, stride = parts.pop()
            if size % wanted:
                return None
            strides.append(stride)
            size, stride = size // wanted, stride * wanted
        return View(self.value, tuple(shape), tuple(reversed(strides)), self.offset)

    def collapsed(self) -> View:
        """The same elements in the same order with as few dimensions as possible (none for one element)."""
        shape, strides = self._merged()
        return View(self.value, tuple(shape), tuple(strides), self.offset)

    def _merged(self) -> tuple[list[int], list[int]]:
        shape: list[int] = []
        strides: list[int] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if shape and strides[-1] == stride * size:
                shape[-1] *= size
                strides[-1] = stride
            else:
                shape.append(size)
                strides.append(stride)
        return shape, strides


@dataclass(frozen=True)
class JoinedView:
    """A tensor in parts that lie in values of their own (`baco.compiler.network.joined`).

    Attributes:
        parts: in order.
        axis: that they are joined along.
        steps: what the tensor is made of the whole by.
    """

    parts: tuple[View | JoinedView, ...]
    axis: int
    steps: tuple[Step, ...] = ()

    @property
    def views(self) -> Iterator[View]:
        """All parts that lie in memory."""
        for part in self.parts:
            yield from part.views if isinstance(part, JoinedView) else [part]

    def read(self, numbers: Callable[[View], np.ndarray]) -> np.ndarray:
        """The tensor, of the numbers that a part holds."""
        parts = [part.read(numbers) if isinstance(part, JoinedView) else numbers(part) for part in self.parts]
        return apply_steps(np.concatenate(parts, self.axis), self.steps)


def dense(value: str, shape: Sequence[int]) -> View:
    """The whole of a value of this shape."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return View(value, tuple(shape), tuple(reversed(strides)))
