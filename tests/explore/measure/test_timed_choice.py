"""The schedule of a layer by trying some: the fastest that was measured, and what is known is not run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choose
from baco.compiler.choice.promising import promising
from baco.compiler.layers.text import parse_layer
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.timed_choice import TimedChoice

ORIGINAL = load_accelerator("gemmini-default").replace(timing="gemmini")


@pytest.mark.parametrize(
    "text",
    ["P42 C42 K32 groups 4 scale 0.01", pytest.param("P48 C96 K64 bias scale 0.001", marks=pytest.mark.slow)],
)
def test_the_fastest_of_those_tried_is_taken_and_never_a_slower_one_than_the_estimate_chooses(
    text: str, tmp_path: Path
) -> None:
    layer, lines = parse_layer(text), list[str]()
    store = tmp_path / "measurements.sqlite"
    choice = TimedChoice(ORIGINAL, 4, store=store, report=lines.append)
    found, _ = choice(layer)
    took = {
        one.schedule: measure_layer(layer, one.schedule, ORIGINAL).cycles
        for one in promising(layer, ORIGINAL, 4)
    }
    assert took[found] == min(took.values())
    assert choose(layer, ORIGINAL) in took
    assert choice.runs == len(took) > 1
    assert len(lines) == 1
    assert str(found) in lines[0]
    assert choice(layer)[0] == found
    assert choice.runs == len(took)

    again = TimedChoice(ORIGINAL, 4, store=store)
    assert again(layer)[0] == found
    assert (again.runs, again.kept) == (0, len(took))
    assert f"{len(took)} known before" in again.summary()
