"""Layers drawn at random, for what is claimed of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer, Pooling
from baco.workloads.problem import Problem


def random_layer(rng: np.random.Generator) -> Layer:
    """Of any kind, with paddings that images of networks have and some that they have not, with pooling and without."""
    while True:
        try:
            layer = _draw(rng)
            return _pooled(rng, layer) if rng.random() < 0.2 else layer
        except InputError:
            continue


def _pooled(rng: np.random.Generator, layer: Layer) -> Layer:
    size, stride = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    padding = int(rng.integers(0, size))
    rows, columns = (
        (extent + 2 * padding - size) // stride + 1 for extent in (layer.problem.Q, layer.problem.P)
    )
    return replace(layer, pooling=Pooling(size, stride, padding, rows, columns))


def _draw(rng: np.random.Generator) -> Layer:
    """Raises InputError for an image that the windows do not fit."""
    kind = rng.integers(4)
    draw = lambda most: int(rng.integers(1, most + 1))  # noqa: E731
    if kind == 0:
        return Layer(Problem(P=draw(70), C=draw(70), K=draw(70), groups=draw(3)))
    groups, c, k = (1, draw(40), draw(40)) if kind < 3 else (draw(40), draw(3), draw(3))
    r, s, p, q = draw(5), draw(5), draw(20), draw(20)
    stride, dilation = draw(3), draw(2)
    problem = Problem(
        R=r, S=s, P=p, Q=q, C=c, K=k, N=draw(2), groups=groups,
        stride_w=stride, stride_h=stride, dilation_w=dilation, dilation_h=dilation,
    )  # fmt: skip
    reach = [(n - 1) * stride + (w - 1) * dilation + 1 for n, w in ((q, s), (p, r))]
    padding = [int(rng.integers(0, w)) for w in (s, r)]
    image = [
        max(1, whole - int(rng.integers(1, 3)) * before) for whole, before in zip(reach, padding, strict=True)
    ]
    return Layer(
        problem,
        (image[0], image[1]),
        (padding[0], padding[1]),
        scale=None if kind == 1 else 1.0,
        bias=bool(rng.integers(2)),
    )
