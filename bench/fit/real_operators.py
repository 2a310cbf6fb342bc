"""Random operators on real numbers, for the fit of the host's cycles (`baco.bench.fit.host`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from baco.bench.fit.host_sketch import HostSketch
from baco.compiler.ops import elements, floating
from baco.compiler.ops.elementary import UNARY
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.views import View

#: Functions that take as long for any number.
_SHORT = ("abs", "neg", "floor", "round", "clip", "leaky_relu", "hard_sigmoid")


def _reals(s: HostSketch, *shape: int) -> View:
    return s.value(shape, "input", s.random.uniform(0.1, 4.0, shape).astype(np.float32))


def _output(s: HostSketch, *shape: int) -> View:
    target = s.value(shape, "output")
    s.values[target.value] = IntegerTensor(target.value, shape, "float32", role="output")
    return target


def _sums(s: HostSketch, *shape: int) -> View:
    return s.value(shape, "input", s.random.integers(-10_000, 10_000, shape).astype(np.int32))


def _decode(s: HostSketch) -> None:
    shape = s.shape(2)
    table = s.value((256,), "constant", np.linspace(-1, 1, 256).astype(np.float32))
    s.add(elements.Decoded, _output(s, *shape), input=s.turned(shape), table=table)


def _encode(s: HostSketch) -> None:
    shape = s.shape(2)
    s.add(
        elements.Encoded, s.turned(shape, "output"), input=_reals(s, *shape), scale=float(s.random.choice([0.03, 0.25])), zero=3, low=-128, high=127
    )  # fmt: skip


def _function(s: HostSketch, name: str) -> None:
    shape = s.shape(2, 4000)
    s.add(
        elements.RealFunction, _output(s, *shape), input=_reals(s, *shape), function=name, parameters=(0.5, 2.0)
    )  # fmt: skip


def _pair(s: HostSketch) -> None:
    shape = s.shape(2)
    name = str(s.random.choice(["add", "mul", "div", "maximum"]))
    s.add(
        elements.RealPair, _output(s, *shape), left=_reals(s, *shape), right=_reals(s, *shape), function=name
    )


def _select(s: HostSketch) -> None:
    shape = s.shape(2)
    parts = {name: _reals(s, *shape) for name in ("condition", "left", "right")}
    s.add(elements.RealSelection, _output(s, *shape), **parts)


def _scale(s: HostSketch) -> None:
    rows, channels = s.size(1, 200), s.size(2, 200)
    none = s.value((1,), "constant", np.zeros(1, np.int32)).expanded((rows, channels))
    factors = s.value((channels,), "constant", np.full(channels, 0.01, np.float32)).expanded((rows, channels))
    s.add(
        elements.ScaledSums, _output(s, rows, channels), input=_sums(s, rows, channels), rows=none, columns=none,
        factors=factors,
    )  # fmt: skip


def _rows(s: HostSketch, name: str) -> None:
    rows, extent = s.size(1, 60), s.size(2, 200)
    shape = (rows,) if floating.ROWS.index(name) < floating.ROWS.index("softmax") else (rows, extent)
    s.add(floating.RealRows, _output(s, *shape), input=_reals(s, rows, extent), function=name, epsilon=1e-5)


def _products(s: HostSketch) -> None:
    rows, depth, columns = (s.size(1, 24) for _ in range(3))
    s.add(
        floating.RealProducts, _output(s, rows, columns), left=_reals(s, rows, depth), right=_reals(s, depth, columns)
    )  # fmt: skip


def _image(s: HostSketch) -> tuple[View, dict[str, Any], tuple[int, int]]:
    """An image, what its windows of 3 x 3 pixels are like, and how many there are."""
    height, width = s.size(4, 12), s.size(4, 12)
    pairs = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    return _reals(s, 1, height, width, s.size(1, 12)), pairs, (height, width)


def _convolve(s: HostSketch) -> None:
    image, pairs, size = _image(s)
    channels = s.size(1, 12)
    weight = s.value((3, 3, image.shape[3], channels), "constant", None)
    numbers = s.random.uniform(-1, 1, weight.shape).astype(np.float32)
    s.values[weight.value] = IntegerTensor(weight.value, weight.shape, "float32", role="constant")
    s.data[weight.value] = numbers
    s.add(
        floating.RealConvolution, _output(s, 1, *size, channels), input=image, weight=weight, groups=1, **pairs
    )  # fmt: skip


def _window(s: HostSketch) -> None:
    image, pairs, size = _image(s)
    divisors = s.value(size, "constant", np.full(size, 9, np.float32)) if s.random.random() < 0.5 else None
    s.add(
        floating.RealWindows, _output(s, 1, *size, image.shape[3]), input=image, divisors=divisors, kernel=(3, 3),
        **pairs,
    )  # fmt: skip


def _resize(s: HostSketch) -> None:
    image, _, size = _image(s)
    rows, columns = (
        s.value(
            (2 * n, 3),
            "constant",
            np.stack([at := np.arange(2 * n) // 2, at, 0 * at + 0.25], 1).astype(np.float32),
        )
        for n in size
    )
    target = _output(s, 1, 2 * size[0], 2 * size[1], image.shape[3])
    s.add(floating.RealResize, target, input=image, rows=rows, columns=columns)


def _between(s: HostSketch, *shape: int) -> View:
    target = s.value(shape, "intermediate")
    s.values[target.value] = IntegerTensor(target.value, shape, "float32")
    return target


def _fused(s: HostSketch) -> None:
    """Functions of elements, each of the result of the one before, which are fused: with up to three operands, or a number for each row."""
    shape = (s.size(1, 60), s.size(8, 200))
    others = [_reals(s, *shape) for _ in range(s.size(1, 3))]
    if s.random.random() < 0.3:
        others.append(_reals(s, shape[0], 1).expanded(shape))
    now, count, encodes = others[0], s.size(2, 10), s.random.random() < 0.3
    if s.random.random() < 0.3:
        table = s.value((256,), "constant", np.linspace(0.1, 4, 256).astype(np.float32))
        source, now = s.turned(shape), _between(s, *shape)
        s.add(elements.Decoded, now, input=source, table=table)
    for left in reversed(range(count)):
        target = _between(s, *shape) if left or encodes else _output(s, *shape)
        other, kind = others[int(s.random.integers(len(others)))], s.random.random()
        if kind < 0.3:
            name = str(s.random.choice(list(UNARY) if now is others[0] else _SHORT))
            s.add(elements.RealFunction, target, input=now, function=name, parameters=(0.5, 2.0))
        elif kind < 0.4:
            s.add(elements.RealSelection, target, condition=now, left=now, right=other)
        else:
            name = str(s.random.choice(["add", "sub", "mul", "div", "maximum", "minimum"]))
            s.add(elements.RealPair, target, left=now, right=other, function=name)
        now = target
    if encodes:
        target = s.value(shape, "output")
        s.add(
            elements.Encoded,
            target,
            input=now,
            scale=float(s.random.choice([0.03, 0.25])),
            zero=3,
            low=-128,
            high=127,
        )


#: Each adds one random operator.
REAL_KINDS: tuple[Callable[[HostSketch], None], ...] = (
    *(_decode, _encode, _pair, _select, _scale, _products, _convolve, _window, _resize),
    *(partial(_function, name=name) for name in UNARY),
    *(partial(_rows, name=name) for name in floating.ROWS),
)
#: Those of several, of which there are many parts to tell apart.
FUSED_KINDS: tuple[Callable[[HostSketch], None], ...] = (_fused,) * 8
