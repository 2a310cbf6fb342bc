"""Estimate and choice of schedules, against brute force and plain arithmetic."""

import random
import time

import numpy as np
import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import NUMPY
from baco.compiler.analysis.profile import MEMORY_LATENCY
from baco.compiler.analysis.requests import request_table
from baco.compiler.analysis.traffic import MachineRates, RowLoads, store_bytes
from baco.compiler.choice.choose import choices, choose
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
)
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.reuse import Trip, plan_reuse
from baco.workloads.problem import Problem
from tests.compiler.styles.random_layers import draw_convolution

DEFAULT = load_accelerator("gemmini-default")


def _covering(beat: int, most: int, offset: int, useful: int) -> list[int]:
    """Sizes of the requests for `useful` bytes at an offset, by trying the largest that is aligned and not too long."""
    at, end = offset // beat * beat, -(-(offset + useful) // beat) * beat
    sizes = []
    while at < end:
        sizes.append(max(s for s in (4, 8, 16, 32, 64, 128) if s <= most and at % s == 0 and at + s <= end))
        at += sizes[-1]
    return sizes


def test_requests_of_a_row():
    assert _covering(16, 64, 40, 64) == [32, 32, 16]
    table = request_table().values
    for beat, most, step in (
        (16, 64, 1),
        (16, 64, 16),
        (16, 64, 64),
        (4, 64, 2),
        (8, 16, 4),
        (64, 64, 8),
        (32, 128, 128),
    ):
        place = (beat.bit_length() - 3, most.bit_length() - 4, step.bit_length() - 1)
        for useful in (1, 3, 8, 31, 48, 64, 100, 128):
            found = [_covering(beat, most, offset, useful) for offset in range(0, 128, step)]
            assert table[(0, *place, useful)] == pytest.approx(sum(map(len, found)) / len(found))
            assert table[(1, *place, useful)] * beat == pytest.approx(sum(map(sum, found)) / len(found))


def test_rows_that_follow_each_other_are_one_span():
    rows = np.array([64.0])
    machine = MachineRates.of(DEFAULT)
    dense = RowLoads.of(NUMPY, machine, rows, 16.0).moved(np.array([16.0]))
    apart = RowLoads.of(NUMPY, machine, rows, 64.0).moved(np.array([16.0]))
    assert dense.bytes == apart.bytes == 64 * 16
    assert dense.port == 64 * 16 / 8
    assert apart.port == pytest.approx(64 * (MEMORY_LATENCY + 2) / 16)
    with_gaps = RowLoads.of(NUMPY, machine, rows, 24.0).moved(np.array([16.0]))
    assert with_gaps.bytes >= 64 * 24 - 4 * 8


@pytest.mark.parametrize("pitch", [16, 24, 40, 7, 100])
def test_stored_bytes(pitch):
    """Against counting the aligned 8 bytes that every piece of a row touches, at all offsets that occur."""
    for columns in (3, 8, 13, 16):
        if pitch <= columns:
            continue
        touched = 0
        for row in range(64):
            for piece in range(0, columns, 16):
                first, last = row * pitch + piece, row * pitch + min(columns, piece + 16) - 1
                touched += (last // 8 - first // 8 + 1) * 8
        found = store_bytes(NUMPY, MachineRates.of(DEFAULT), 64.0, np.array(float(columns)), float(pitch), piece=16.0, element=1.0)  # fmt: skip
        assert float(found) == pytest.approx(touched, rel=0.02)


def test_reuse():
    def plan(loops: dict[str, int], relevant: str):
        return plan_reuse([Trip(*one) for one in loops.items()], relevant)

    assert plan({"i": 3, "j": 4, "k": 1}, "ik") is not None  # neighbours share a tile of A
    assert plan({"i": 3, "j": 4, "k": 2}, "ik") is not None  # both tiles of a row stay
    assert plan({"i": 3, "j": 4, "k": 3}, "ik") is None
    assert plan({"i": 3, "j": 2, "k": 1}, "jk") is not None  # all of B stays
    assert plan({"i": 3, "j": 3, "k": 1}, "jk") is None
    assert plan({"i": 3, "j": 1, "k": 1}, "ik") is None  # nothing to share


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (Layer(Problem(P=128, C=768, K=768)), LoopWsSchedule),
        (Layer(Problem(P=1, C=4096, K=11008)), (LoopWsSchedule, LoopConvSchedule)),
        (Layer(Problem(P=56, Q=56, C=64, K=64, R=3, S=3), (56, 56), (1, 1)), LoopConvSchedule),
        (Layer(Problem(P=112, Q=112, C=3, K=64, R=7, S=7, stride_w=2, stride_h=2), (224, 224), (3, 3)), LoopConvSchedule),
        (Layer(Problem(P=28, Q=28, R=3, S=3, groups=96), (28, 28), (1, 1)), DepthwiseSchedule),
        (Layer(Problem(P=100, C=64, K=48), bias=True, residual_scale=0.5), ExplicitSchedule),
        (Layer(Problem(P=14, Q=14, C=20, K=30, R=3, S=3), (14, 14), (1, 1), scale=None), ExplicitSchedule),
        (
            Layer(Problem(P=14, Q=14, C=20, K=30, R=3, S=3, stride_h=2), (28, 14), (1, 1), pooling=Pooling(2, 2, 0, 7, 7)),
            ExplicitSchedule,
        ),
    ],
)  # fmt: skip
def test_style(layer, kind):
    start = time.process_time()
    schedule = choose(layer, DEFAULT)
    assert isinstance(schedule, kind)
    assert time.process_time() - start < 5  # half a second on an idle machine
    assert schedule == choose(layer, DEFAULT)


@pytest.mark.parametrize("dim", [2, 8, 64])
def test_other_accelerators(dim):
    """Whatever is chosen can be carried out, on large and small memories."""
    accelerator = Accelerator(
        name="other", dim=dim, scratchpad_kib=2 * dim, accumulator_kib=dim, dma_max_bytes=64
    )
    r = random.Random(dim)
    for _ in range(15):
        layer = draw_convolution(r)
        for choice in choices(layer, accelerator, 2):
            assert choice.cycles > 0
            if isinstance(choice.schedule, LoopConvSchedule):
                plan_loop_conv(layer, choice.schedule, accelerator)


@pytest.mark.parametrize(
    "layer",
    [Layer(Problem(P=50, C=40, K=30)), Layer(Problem(R=3, S=3, P=9, Q=9, C=20, K=30), padding=(1, 1))],
)
def test_styles_asked_for(layer):
    assert isinstance(choose(layer, DEFAULT, style="explicit"), ExplicitSchedule)
    assert isinstance(choose(layer, DEFAULT, style="macro"), LoopWsSchedule | LoopConvSchedule)
    best = min(choices(layer, DEFAULT), key=lambda one: one.cycles)
    assert choose(layer, DEFAULT) == best.schedule


def test_a_style_that_cannot_do_it():
    raw = Layer(Problem(R=3, S=3, P=9, Q=9, C=20, K=30), padding=(1, 1), scale=None)
    with pytest.raises(InfeasibleError, match="the style 'macro' cannot compute"):
        choose(raw, DEFAULT, style="macro")


def test_narrow_rows_are_not_fast():
    """Rows of 16 bytes are requests of their own: the weights of this layer are fetched in wider ones."""
    schedule = choose(Layer(Problem(C=2048, K=1000)), DEFAULT, style="explicit")
    assert isinstance(schedule, ExplicitSchedule)
    assert schedule.mapping.tile(2)["K"] >= 64


def test_output_stationary_arrays_take_explicit_moves():
    accelerator = DEFAULT.replace(dataflow="OS")
    schedule = choose(Layer(Problem(P=50, C=40, K=30)), accelerator)
    assert isinstance(schedule, ExplicitSchedule)
    assert schedule.mapping.dataflow == "OS"


def test_nothing_can_do_it():
    features = Features(read_full_width=False)
    with pytest.raises(
        InfeasibleError, match=r"P4 .*on other: other cannot store int32 sums; LOOP_CONV_WS stores"
    ):
        choose(Layer(Problem(P=4, C=4, K=4), scale=None), DEFAULT.replace(name="other", features=features))


def test_narrow_tiles_cost_more_requests():
    """48 neighbouring bytes take two requests, and only so many can be in flight."""
    wide = Layer(Problem(P=1, C=64, K=96), weight=Layout(11008))
    best = choose(wide, DEFAULT)
    assert not isinstance(best, LoopWsSchedule) or best.j != 3
