"""Layers measured and predicted by the timing of their accelerator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from baco.accel.presets import load_accelerator
from baco.api.sources import with_timing
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.text import parse_layer
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.store import measurement_key
from baco.exploration.space import load_space
from baco.exploration.space.reference_machine import reference_machine

OURS = load_accelerator("gemmini-default")
ORIGINAL = OURS.replace(timing="gemmini")
CASES = {
    "explicit": (
        "P64 C64 K64 scale 0.001",
        "explicit L3[WIO] K2 P2 - L2[WI] N1 K16X - L1[O] K2 C4 C16X - L0[W] P32 buffers 2,2,2",
    ),
    "product": ("P128 C128 K128 scale 0.001", "loop_ws 4,4,4 order jik keep B"),
    "convolution": (
        "R3 S3 P14 Q14 C32 K32 padding 1x1 image 14x14 scale 0.001",
        "loop_conv 1,7,14,32,3,3,32 order nkpqcsr",
    ),
    "narrow rows": ("P40 Q40 C4 K16 scale 0.001", "loop_ws 16,1,1 order jik keep B"),
}


@pytest.mark.parametrize("case", CASES)
def test_prediction_and_simulation_have_the_accelerator_s_timing(case: str) -> None:
    """By each timing the model is near its own simulator; the simulators are another matter."""
    layer, schedule = (
        read(text) for read, text in zip((parse_layer, parse_schedule), CASES[case], strict=True)
    )
    measured = measure_layer(layer, schedule, ORIGINAL)
    assert measured.status == "measured", measured.reason
    assert schedule_cycles(layer, schedule, ORIGINAL) == pytest.approx(measured.cycles, rel=0.3)


def test_measurements_of_two_timings_are_kept_apart() -> None:
    layer, schedule = parse_layer(CASES["product"][0]), parse_schedule(CASES["product"][1])
    assert measurement_key(layer, schedule, OURS) != measurement_key(layer, schedule, ORIGINAL)


def test_the_machine_to_compare_with_has_the_timing_of_the_space() -> None:
    space = load_space("gemmini")
    assert reference_machine(replace(space, base=with_timing(space.base, "gemmini"))).timing == "gemmini"


def test_a_timing_that_a_machine_cannot_have_is_refused() -> None:
    with pytest.raises(InputError, match="there is no timing 'gemini'"):
        with_timing(OURS, "gemini")
    with pytest.raises(InfeasibleError, match="at most 64 bytes"):
        with_timing(OURS.replace(dma_max_bytes=128), "gemmini")
