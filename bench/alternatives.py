"""Ways to carry a layer out that a choice among schedules is judged against: of all code styles, good ones and random ones.

None of them depends on what the timing under test predicts: a model that is mended meets the same alternatives again, whose cycles
are known.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from baco.accel.config import Accelerator
from baco.bench.sets.sample import draw_mapping, draw_packed
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.choice.choose import choices
from baco.compiler.choice.equal_parts import equal_parts
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.styles.macros.loop_conv_check import downsamples
from baco.compiler.styles.macros.loop_conv_style import packed_pixels
from baco.compiler.styles.macros.loop_ws import as_product
from baco.compiler.styles.registry import plan_layer

#: Alternatives that are drawn of a layer; fewer are the first of them.
_MOST = 64
#: Of every style, so many of those that our own timing takes for the fastest.
_FASTEST = 6
#: Share of the alternatives in single commands where macros can do the layer, and where they take groups one by one.
_SINGLE, _SINGLE_OF_GROUPS = 0.12, 0.4
#: Share of the macros' alternatives that are neighbours of good ones; the others are drawn.
_NEAR = 0.6
#: Drawings before no more are looked for.
_ATTEMPTS = 4000
_CONV_ORDERS = ("nqpksrc", "knqpsrc", "nkqpsrc", "nqpkcsr", "qpnksrc")


def alternatives(layer: Layer, accelerator: Accelerator, count: int, seed: int = 0) -> list[Schedule]:
    """At most `count` different schedules that the accelerator carries out, Gemmini's default tilings first.

    Good ones are what the timing `baco` takes for the fastest of every style; macros are varied by a size, the order of loops or
    what stays in the scratchpad, single commands by how far loads run ahead (buffers) and otherwise drawn.
    """
    random_ = random.Random(f"{seed} {layer_text(layer)}")
    ours = accelerator.replace(timing="baco")
    default: list[Schedule] = list(_legal(gemmini_paths(layer, accelerator), layer, accelerator))
    good = [found.schedule for found in choices(layer, ours, best=_FASTEST)]
    macros = [schedule for schedule in good if schedule.by_macros]
    single = [schedule for schedule in good if not schedule.by_macros]
    share = _SINGLE_OF_GROUPS if layer.problem.groups > 1 else _SINGLE
    room = round(_MOST * (share if macros else 1.0))
    found: dict[Schedule, None] = {}
    _fill(found, room, single[: room // 2], _drawn_commands(random_, layer, accelerator, single))
    _fill(found, _MOST, macros, _drawn_macros(random_, layer, accelerator, [*default, *macros]))
    _fill(found, _MOST, [], _drawn_commands(random_, layer, accelerator, single))
    rest = [schedule for schedule in found if schedule not in default]
    random_.shuffle(rest)
    return [*default, *rest][:count]


def _fill(
    found: dict[Schedule, None], most: int, first: Iterable[Schedule], more: Iterator[Schedule]
) -> None:
    """Add schedules until there are `most`."""
    for schedule in first:
        if len(found) < most:
            found.setdefault(schedule)
    for _, schedule in zip(range(_ATTEMPTS), more, strict=False):
        if len(found) >= most:
            break
        found.setdefault(schedule)


def _legal(schedules: Iterable[Schedule], layer: Layer, accelerator: Accelerator) -> Iterator[Schedule]:
    for schedule in schedules:
        try:
            plan_layer(layer, schedule, accelerator)
        except (InfeasibleError, InputError):
            continue
        yield schedule


def _drawn_macros(
    random_: random.Random, layer: Layer, accelerator: Accelerator, good: list[Schedule]
) -> Iterator[Schedule]:
    """Neighbours of good macro schedules, and random ones."""

    def schedules() -> Iterator[Schedule]:
        product = as_product(layer)
        while good:
            base = random_.choice(good)
            near = random_.random() < _NEAR
            if isinstance(base, LoopWsSchedule) and product is not None:
                yield _product(random_, base, product.blocks(accelerator.dim), near)
            elif isinstance(base, LoopConvSchedule):
                yield _convolution(random_, base, layer, accelerator, near)

    # a layer of few tiles has fewer schedules than drawings
    drawn = (schedule for _, schedule in zip(range(_ATTEMPTS), schedules(), strict=False))
    return _legal(drawn, layer, accelerator)


def _size(random_: random.Random, size: int, whole: int, near: bool) -> int:
    """Another size of a tile along an axis: near to one, or any that cuts the whole in equal parts."""
    if not near:
        return int(random_.choice(equal_parts(whole).tolist()))
    other = random_.choice((size - 1, size + 1, size * 2, -(-size // 2), whole))
    return max(1, min(whole, other))


def _product(
    random_: random.Random, base: LoopWsSchedule, blocks: tuple[int, int, int], near: bool
) -> LoopWsSchedule:
    tile = dict(zip("ijk", (base.i, base.j, base.k), strict=True))
    axes = random_.sample("ijk", random_.choice((0, 1, 1, 2))) if near else list("ijk")
    for axis in axes:
        tile[axis] = _size(random_, tile[axis], blocks["ijk".index(axis)], near)
    order = base.order
    if not near or not axes or random_.random() < 0.3:
        order = random_.choice(("ijk", "jik", "ijk", "jik", "ikj", "jki", "kij", "kji"))
    keep_a, keep_b = base.keep_a, base.keep_b
    if not near or random_.random() < 0.3:
        keep_a, keep_b = random_.random() < 0.5, random_.random() < 0.5
    return LoopWsSchedule(tile["i"], tile["j"], tile["k"], order, keep_a, keep_b)


def _convolution(
    random_: random.Random, base: LoopConvSchedule, layer: Layer, accelerator: Accelerator, near: bool
) -> LoopConvSchedule:
    p, dim = layer.problem, accelerator.dim
    stored = (layer.pooling.rows, layer.pooling.columns) if layer.pooling else (p.Q, p.P)
    whole = (p.N, *stored, p.K, p.S, p.R, p.C)
    tile = list(base.tile)
    for axis in random_.sample((0, 1, 2, 3, 6), random_.choice((0, 1, 1, 2))) if near else (0, 1, 2, 3, 6):
        # channels in whole blocks
        block = dim if axis in (3, 6) and whole[axis] > dim else 1
        size = _size(random_, -(-tile[axis] // block), -(-whole[axis] // block), near)
        tile[axis] = min(size * block, whole[axis])
    if random_.random() < 0.1:
        tile[4], tile[5] = random_.choice(((1, p.R), (1, 1), (p.S, p.R)))
    packed = packed_pixels(layer, tile[5], tile[6], accelerator)
    pixels = 1 if downsamples(layer) else random_.choice((packed, packed, 1))
    same = near and random_.random() < 0.7
    batches, rows, columns, channels, kernel_rows, kernel_columns, depth = tile
    return replace(
        base,
        batches=batches, rows=rows, columns=columns, out_channels=channels,
        kernel_rows=kernel_rows, kernel_columns=kernel_columns, in_channels=depth,
        order=base.order if same else random_.choice(_CONV_ORDERS),
        pixels=pixels,
        keep_input=pixels == 1 and (base.keep_input if same else random_.random() < 0.5),
        keep_weights=pixels == 1 and (base.keep_weights if same else random_.random() < 0.5),
    )  # fmt: skip


def _drawn_commands(
    random_: random.Random, layer: Layer, accelerator: Accelerator, good: list[Schedule]
) -> Iterator[Schedule]:
    """Good schedules of single commands whose loads run ahead otherwise, and random ones, groups together where they can be."""

    def schedules() -> Iterator[Schedule]:
        for _ in range(_ATTEMPTS):
            if good and random_.random() < 0.5:
                base = random_.choice(good)
                buffers = random_.randint(1, 2), random_.randint(1, 2), random_.randint(1, 2)
                if isinstance(base, ExplicitSchedule):
                    yield ExplicitSchedule(replace(base.mapping, buffering=buffers))
                elif isinstance(base, DepthwiseSchedule):
                    yield DepthwiseSchedule(replace(base.mapping, buffering=buffers), base.packed)
            elif layer.problem.groups > 1 and random_.random() < 0.5:
                if packed := draw_packed(random_, layer, accelerator, attempts=5):
                    yield packed[1]
            elif drawn := draw_mapping(random_, layer, accelerator, macro=False, attempts=5):
                yield drawn[1]

    return _legal(schedules(), layer, accelerator)
