"""Linear forms: what is a sum of neighbours of one image times constants is found to be one stencil, however it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from baco.workloads.pipelines.node import Node
from baco.workloads.pipelines.ranges import exponent_of

#: RowSet down, columns to the right, channel read for one channel of the result (None: each its own).
Tap = tuple[int, int, int | None]
#: Taps of a form, beyond which it is not looked for.
_MOST_TAPS = 1024


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * image at a tap, for every pixel of the result.

    Attributes:
        base: the image (height, width) or (height, width, channels); None of a constant.
        taps: coefficients.
        shape: of the result.
    """

    base: Node | None
    taps: Mapping[Tap, Fraction]
    constant: Fraction
    shape: tuple[int, ...]

    def times(self, factor: Fraction) -> Linear:
        """All of it times a number."""
        taps = {tap: number * factor for tap, number in self.taps.items()}
        return Linear(self.base, taps, self.constant * factor, self.shape)

    def plus(self, number: Fraction) -> Linear:
        """All of it plus a number."""
        return Linear(self.base, self.taps, self.constant + number, self.shape)


@dataclass(frozen=True)
class IntegerStencil:
    """A linear form in whole numbers: (constant + sum of kernel * image) * 2**exponent.

    Attributes:
        kernel: int64 [rows, columns, channels read, channels of the result].
        offset: rows and columns from a pixel of the result to the kernel's first one.
    """

    base: Node
    kernel: np.ndarray
    constant: int
    exponent: int
    offset: tuple[int, int]
    shape: tuple[int, ...]


class Forms:
    """Linear forms of nodes, each found once.

    Args:
        is_byte: whether a node's numbers are kept as bytes, so that it is an image that the array reads.
    """

    def __init__(self, is_byte: Callable[[Node], bool]) -> None:
        self._is_byte = is_byte
        self._known: dict[int, Linear | None] = {}

    def of(self, node: Node) -> Linear | None:
        """The form of a node in terms of one image of bytes; None where it has none."""
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [x for x in self._read(top) if id(x) not in self._known]
            if missing and id(top) not in self._known:
                stack.extend(missing)
                continue
            stack.pop()
            if id(top) not in self._known:
                self._known[id(top)] = self._form(top)
        return self._known[id(node)]

    def made_of(self, stencil: Node) -> Linear | None:
        """The form of a stencil whose results are an image of bytes themselves, in terms of the image that it reads."""
        self.of(stencil.operands[0])
        return self._stencil(stencil)

    def _read(self, node: Node) -> tuple[Node, ...]:
        inner = node.function in ("binary", "unary", "slice", "reshape", "stencil", "matmul")
        return node.operands if inner and not self._is_image(node) else ()

    def _is_image(self, node: Node) -> bool:
        views = ("slice", "reshape", "transpose", "expand")
        return len(node.shape) in (2, 3) and node.function not in views and self._is_byte(node)

    def _form(self, node: Node) -> Linear | None:
        if node.function == "constant":
            if node.range.low != node.range.high:
                return None
            return Linear(None, {}, node.range.low, node.shape)
        if self._is_image(node):
            channel_tap: Tap = (0, 0, None)
            return Linear(node, {channel_tap: Fraction(1)}, Fraction(0), node.shape)
        if node.function == "slice":
            return self._slice(node)
        if node.function == "reshape":
            return self._channel(node)
        if node.function == "stencil":
            return self._stencil(node)
        if node.function == "matmul":
            return self._mixed(node)
        return self._arithmetic(node)

    def _slice(self, node: Node) -> Linear | None:
        form, a = self.of(node.operands[0]), node.attributes
        if form is None or form.base is None or set(a["steps"]) != {1}:
            return None
        down, right = a["starts"][:2]
        if len(node.shape) == 3 and node.shape[2] != node.operands[0].shape[2]:
            if node.shape[2] != 1 or any(tap[2] is not None for tap in form.taps):
                return None
            channel: int | None = int(a["starts"][2])
            moved = {(y + down, x + right, channel): n for (y, x, _), n in form.taps.items()}
        else:
            moved = {(y + down, x + right, c): n for (y, x, c), n in form.taps.items()}
        return Linear(form.base, moved, form.constant, node.shape)

    def _channel(self, node: Node) -> Linear | None:
        """A channel of its own: (height, width, 1) as (height, width)."""
        inner = node.operands[0]
        form = self.of(inner)
        if form is None or form.base is None or inner.shape != (*node.shape, 1) or len(node.shape) != 2:
            return None
        return Linear(form.base, form.taps, form.constant, node.shape)

    def _stencil(self, node: Node) -> Linear | None:
        form = self.of(node.operands[0])
        kernel = node.attributes["kernel"]
        if form is None or form.base is None or len(form.taps) * kernel.size > _MOST_TAPS:
            return None
        taps: dict[Tap, Fraction] = {}
        for (down, right), weight in np.ndenumerate(kernel):
            for (y, x, c), number in form.taps.items():
                key = (y + down, x + right, c)
                taps[key] = taps.get(key, Fraction(0)) + number * Fraction(weight.item())
        total = sum((Fraction(one.item()) for one in kernel.reshape(-1)), Fraction(0))
        return Linear(form.base, taps, form.constant * total, node.shape)

    def _mixed(self, node: Node) -> Linear | None:
        """Channels times a constant vector: one channel, as gray of colours."""
        image, vector = node.operands
        form = self.of(image)
        if form is None or form.base is None or len(image.shape) != 3 or vector.value is None:
            return None
        if vector.value.ndim != 1 or any(tap[2] is not None for tap in form.taps):
            return None
        numbers = [Fraction(one.item()) for one in vector.value]
        taps: dict[Tap, Fraction] = {
            (y, x, c): n * number for (y, x, _), n in form.taps.items() for c, number in enumerate(numbers)
        }
        return Linear(form.base, taps, form.constant * sum(numbers, Fraction(0)), node.shape)

    def _arithmetic(self, node: Node) -> Linear | None:
        if node.function not in ("binary", "unary"):
            return None
        name = node.attributes["name"]
        forms = [self.of(x) for x in node.operands]
        if node.function == "unary":
            return forms[0].times(Fraction(-1)) if name == "neg" and forms[0] is not None else None
        left, right = forms
        if left is None or right is None:
            return None
        if name in ("mul", "div"):
            if name == "mul" and left.base is None:
                left, right = right, left
            if right.base is not None or left.shape != node.shape or (name == "div" and not right.constant):
                return None
            return left.times(right.constant if name == "mul" else 1 / right.constant)
        if name not in ("add", "sub"):
            return None
        return _sum(left, right if name == "add" else right.times(Fraction(-1)), node.shape)


def _sum(left: Linear, right: Linear, shape: tuple[int, ...]) -> Linear | None:
    if left.base is not None and right.base is not None and left.base is not right.base:
        return None
    for one in (left, right):
        if one.base is not None and one.shape != shape:
            return None
    own = {tap[2] is None for one in (left, right) for tap in one.taps}
    if len(own) > 1 or len(left.taps) + len(right.taps) > _MOST_TAPS:
        return None
    taps = dict(left.taps)
    for tap, number in right.taps.items():
        taps[tap] = taps.get(tap, Fraction(0)) + number
    base = left.base if left.base is not None else right.base
    return Linear(base, taps, left.constant + right.constant, shape)


def integer_stencil(form: Linear) -> IntegerStencil | None:
    """The form with weights of 8 bits; None where they are no such whole numbers times a power of two."""
    taps = {tap: number for tap, number in form.taps.items() if number}
    if form.base is None or not taps:
        return None
    exponents = [exponent_of(number) for number in (*taps.values(), form.constant) if number]
    known = [one for one in exponents if one is not None]
    if len(known) != len(exponents):
        return None
    exponent = min(known)
    unit = Fraction(2) ** exponent
    channels = form.base.shape[2] if len(form.base.shape) == 3 else 1
    single = len(form.shape) == 2
    first = (min(tap[0] for tap in taps), min(tap[1] for tap in taps))
    size = [max(tap[i] for tap in taps) - first[i] + 1 for i in range(2)]  # type: ignore[type-var, operator]
    kernel = np.zeros((*size, channels, 1 if single else channels), np.int64)
    for (down, right, channel), number in taps.items():
        whole = int(number / unit)
        at = (down - first[0], right - first[1])
        if channel is not None:
            kernel[(*at, channel, 0)] = whole
        else:
            for each in range(channels):
                kernel[(*at, each, each)] = whole
    if np.abs(kernel).max() > 127:
        return None
    return IntegerStencil(form.base, kernel, int(form.constant / unit), exponent, first, form.shape)
