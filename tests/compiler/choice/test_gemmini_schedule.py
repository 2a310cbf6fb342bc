"""Gemmini's default tiling against the published check vectors, and what the drivers do with it."""

import math

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.gemmini import (
    gemmini_conv_tile,
    gemmini_matmul_tile,
    gemmini_paths,
    gemmini_schedule,
)
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.workloads.problem import Problem

DEFAULT = load_accelerator("gemmini-default")


@pytest.mark.parametrize(
    ("sizes", "tile", "runs"),
    [
        ((64, 64, 64), (4, 4, 4), 1),
        ((128, 128, 128), (5, 6, 8), 4),
        ((512, 512, 512), (5, 6, 32), 42),
        ((1024, 1024, 1024), (5, 5, 51), 338),
        ((16, 1000, 2048), (1, 8, 56), 24),
        ((3136, 64, 64), (8, 4, 4), 25),
        ((196, 1024, 256), (5, 6, 16), 33),
        ((100, 100, 100), (5, 6, 7), 4),
        ((49, 2048, 512), (4, 8, 32), 16),
        ((128, 3072, 768), (5, 5, 48), 78),
    ],
)
def test_products(sizes, tile, runs):
    assert gemmini_matmul_tile(DEFAULT, *sizes) == tile
    rows, columns, depth = sizes
    schedule = gemmini_schedule(Layer(Problem(P=rows, K=columns, C=depth)), DEFAULT)
    assert isinstance(schedule, LoopWsSchedule)
    assert (schedule.i, schedule.j, schedule.k) == tile
    trips = [math.ceil(math.ceil(size / 16) / part) for size, part in zip(sizes, tile, strict=True)]
    assert trips[0] * trips[1] * trips[2] == runs
    assert schedule.keep_a == (trips[0] * trips[2] <= 2)
    assert schedule.keep_b == (trips[1] * trips[2] <= 2)


def _layer(batch, size, depth, channels, kernel, stride, padding, pool=None):
    out = (size + 2 * padding - kernel) // stride + 1
    pooling = None
    if pool:
        edge, step, border = pool
        pooled = (out + 2 * border - edge) // step + 1
        pooling = Pooling(edge, step, border, pooled, pooled)
    problem = Problem(
        R=kernel, S=kernel, P=out, Q=out, C=depth, K=channels, N=batch, stride_w=stride, stride_h=stride
    )
    return Layer(problem, (size, size), (padding, padding), pooling=pooling)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((4, 224, 3, 64, 7, 2, 3, (3, 2, 1)), (2, 2, 20, 16, 7, 7, 3)),
        ((4, 56, 64, 64, 3, 1, 1), (4, 8, 16, 16, 3, 3, 64)),
        ((4, 56, 64, 64, 1, 1, 0), (4, 8, 16, 16, 1, 1, 64)),
        ((4, 56, 256, 512, 1, 2, 0), (4, 8, 16, 16, 1, 1, 240)),
        ((4, 28, 128, 128, 3, 1, 1), (4, 8, 16, 16, 3, 3, 128)),
        ((4, 14, 256, 256, 3, 1, 1), (4, 9, 14, 16, 3, 3, 144)),
        ((4, 7, 512, 512, 3, 1, 1), (4, 7, 7, 32, 3, 3, 208)),
        ((1, 32, 17, 18, 3, 2, 1), (1, 16, 16, 18, 3, 3, 17)),
        ((1, 7, 512, 2048, 1, 1, 0), (1, 7, 7, 160, 1, 1, 512)),
        ((1, 227, 3, 96, 11, 4, 0, (3, 2, 0)), (1, 5, 17, 16, 7, 6, 3)),
    ],
)
def test_convolutions(shape, tile):
    layer = _layer(*shape)
    assert gemmini_conv_tile(layer, DEFAULT) == tile
    schedule = gemmini_schedule(layer, DEFAULT, pointwise_products=False)
    assert isinstance(schedule, LoopConvSchedule)
    assert schedule.tile == tile
    assert schedule.order == "nqpksrc"


def test_windows_of_one_pixel_take_the_convolution_path():
    schedule = gemmini_schedule(_layer(1, 14, 1024, 256, 1, 1, 0), DEFAULT, pointwise_products=False)
    assert isinstance(schedule, LoopConvSchedule)
    assert schedule.keep_input
    assert not schedule.keep_weights


def test_windows_of_one_pixel_as_products():
    """As in the ResNet-50 that comes with Gemmini; strides and padding keep the convolution path."""
    layer = _layer(1, 14, 1024, 256, 1, 1, 0)
    product = gemmini_schedule(layer, DEFAULT)
    convolution = gemmini_schedule(layer, DEFAULT, pointwise_products=False)
    assert gemmini_paths(layer, DEFAULT) == [product, convolution]
    assert product == gemmini_schedule(Layer(Problem(P=196, K=256, C=1024)), DEFAULT)
    for other in (_layer(1, 14, 64, 64, 1, 2, 0), _layer(1, 14, 64, 64, 1, 1, 1)):
        schedule = gemmini_schedule(other, DEFAULT)
        assert gemmini_paths(other, DEFAULT) == [schedule]
        assert isinstance(schedule, LoopConvSchedule)


def test_modes():
    """Packed pixels for few channels, downsampling for unpadded windows of one pixel and stride 2."""
    first = gemmini_schedule(_layer(1, 224, 3, 64, 7, 2, 3), DEFAULT)
    assert isinstance(first, LoopConvSchedule)
    assert first.pixels == 5
    assert not first.downsample
    for size, down in ((28, True), (27, False)):
        schedule = gemmini_schedule(_layer(1, size, 32, 64, 1, 2, 0), DEFAULT)
        assert isinstance(schedule, LoopConvSchedule)
        assert schedule.downsample == down
