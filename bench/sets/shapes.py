"""Layers like those of networks, drawn at random and cut to a size that can be simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

from baco.compiler.layers.layer import Layer
from baco.exploration.task_layers import result_scale
from baco.workloads.problem import Problem

_CHANNELS = (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 2048)
_SIDES = (7, 8, 10, 13, 14, 16, 19, 20, 26, 28, 32, 38, 40, 52, 56, 64, 80, 112, 128, 160)
_TOKENS = (16, 32, 49, 50, 64, 77, 96, 100, 128, 192, 196, 197, 256, 384, 512)
_FEATURES = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1280, 2048, 3072, 4096)
_HEADS = (2, 3, 4, 6, 8, 12)
#: A dimension is now and then not a round number.
_ODD = 0.25
_WITH_BIAS, _WITH_RELU, _RAW, _PADDED = 0.6, 0.5, 0.06, 0.85


def _square(
    random_: random.Random, kernel: int, stride: int = 1, dilation: int = 1, **bounds: int
) -> Problem:
    side = _odd(random_, random_.choice(_SIDES))
    return Problem(
        R=kernel, S=kernel, P=side, Q=side,
        stride_w=stride, stride_h=stride, dilation_w=dilation, dilation_h=dilation, **bounds,
    )  # fmt: skip


def _odd(random_: random.Random, size: int) -> int:
    if size < 5 or random_.random() > _ODD:
        return size
    return random_.randint(-(-size * 2 // 3), size)


def _channels(random_: random.Random) -> int:
    return _odd(random_, random_.choice(_CHANNELS))


def _features(random_: random.Random) -> int:
    return _odd(random_, random_.choice(_FEATURES))


def _product(r: random.Random) -> Problem:
    return Problem(P=_odd(r, r.choice(_TOKENS)), C=_features(r), K=_features(r))


def _vector(r: random.Random) -> Problem:
    return Problem(P=r.choice((1, 1, 1, 1, 2, 4)), C=_features(r), K=_features(r))


def _attention(r: random.Random) -> Problem:
    tokens, head = _odd(r, r.choice(_TOKENS)), r.choice((32, 64, 80, 128))
    c, k = (head, tokens) if r.random() < 0.5 else (tokens, head)
    return Problem(P=tokens, C=c, K=k, groups=r.choice(_HEADS))


def _grouped(r: random.Random) -> Problem:
    groups = r.choice((2, 4, 8, 16, 32))
    size = r.choice((4, 8, 16, 24, 32, 48))
    return _square(r, 3, r.choice((1, 1, 2)), C=size, K=r.choice((size, size, 2 * size)), groups=groups)


def _depthwise(r: random.Random) -> Problem:
    groups = r.choice((16, 24, 32, 48, 64, 96, 144, 192))
    return _square(r, r.choice((3, 3, 5)), r.choice((1, 1, 2)), groups=groups)


def _packed(r: random.Random) -> Problem:
    groups = r.choice((16, 32, 48, 64, 96, 144, 192, 256, 384, 576, 960))
    c, k = r.choice(((1, 1), (1, 1), (1, 1), (1, 1), (1, 2), (2, 2), (4, 4)))
    return _square(r, r.choice((3, 3, 3, 5)), r.choice((1, 1, 2)), C=c, K=k, groups=_odd(r, groups))


#: How often each kind of layer is drawn, and how; what is never drawn by itself is asked for by its name.
KINDS: dict[str, tuple[int, Callable[[random.Random], Problem]]] = {
    "product": (16, _product),
    "vector": (8, _vector),
    "attention": (4, _attention),
    "1x1": (14, lambda r: _square(r, 1, C=_channels(r), K=_channels(r))),
    "1x1 strided": (5, lambda r: _square(r, 1, 2, C=_channels(r), K=_channels(r))),
    "3x3": (16, lambda r: _square(r, 3, C=_channels(r), K=_channels(r))),
    "3x3 strided": (6, lambda r: _square(r, 3, 2, C=_channels(r), K=_channels(r))),
    "dilated": (4, lambda r: _square(r, 3, 1, r.choice((2, 2, 4)), C=_channels(r), K=_channels(r))),
    "5x5": (3, lambda r: _square(r, 5, r.choice((1, 2)), C=_channels(r), K=_channels(r))),
    "first": (5, lambda r: _square(r, r.choice((7, 7, 5, 3)), 2, C=r.choice((3, 3, 1)), K=r.choice((16, 32, 48, 64)))),
    "expansion": (7, lambda r: _square(r, 1, C=r.choice((4, 8, 16, 24)), K=r.choice((64, 96, 144, 192, 256)))),
    "grouped": (5, _grouped),
    "depthwise": (7, _depthwise),
    "packed": (0, _packed),
}  # fmt: skip


def draw_layer(random_: random.Random, macs: float, kind: str | None = None) -> Layer:
    """A layer of about `macs` multiplications at most, of a kind or of one drawn by the weights of `KINDS`.

    Too large a layer is cut along pixels and channels, the longest first, as a slice of it would be.
    """
    if kind is None:
        kind = random_.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    problem = _cut(KINDS[kind][1](random_), macs, random_)
    return _dressed(problem, random_)


def _cut(problem: Problem, macs: float, random_: random.Random) -> Problem:
    while problem.macs > macs:
        sizes = {
            "pixels": max(problem.P, problem.Q),
            "C": problem.C,
            "K": problem.K,
            "groups": problem.groups,
        }
        # pixels shrink in two directions, so that they are cut less often than channels of the same number
        weights = [math.log2(size) * (0.5 if name == "pixels" else 1.0) for name, size in sizes.items()]
        if sum(weights) == 0:
            break
        name = random_.choices(list(sizes), weights)[0]
        if name == "pixels":
            problem = replace(problem, P=-(-problem.P // 2), Q=-(-problem.Q // 2))
        else:
            problem = replace(problem, **{name: -(-sizes[name] // 2)})
    return problem


def _dressed(problem: Problem, random_: random.Random) -> Layer:
    """With padding as networks have it (the window's middle over the first pixel) or none, bias, ReLU and a scale."""
    p, padding, image = problem, (0, 0), None
    if max(p.R, p.S) > 1 and random_.random() < _PADDED:
        padding = (p.dilation_h * (p.S - 1) // 2, p.dilation_w * (p.R - 1) // 2)
        image = (p.Q * p.stride_h, p.P * p.stride_w)
        if min(image) <= max(padding):
            padding, image = (0, 0), None
    raw = random_.random() < _RAW
    return Layer(
        problem,
        image=image,
        padding=padding,
        bias=random_.random() < _WITH_BIAS,
        relu=not raw and random_.random() < _WITH_RELU,
        scale=None if raw else result_scale(problem),
    )
