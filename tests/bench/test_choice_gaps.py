"""`baco bench choice`: its layers and alternatives, and the choice against them on the model of the original."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.bench.alternatives import alternatives
from baco.bench.choice_gaps import ChoiceGaps, JudgedLayer, TimedSchedule, drawn_layers, page, run
from baco.common.errors import InputError
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.latency import predict_layers
from baco.compiler.layers.text import parse_layer
from baco.compiler.styles.registry import parse_schedule, plan_layer
from baco.exploration.measure.layer import measure_layer
from tests.seeds import some

ORIGINAL = load_accelerator("gemmini-default").replace(timing="gemmini")
LAYERS = (
    "P96 C64 K320 bias scale 0.001",
    "P49 C96 K96 residual 1.0 scale 0.5",
    "C512 K192 bias scale 0.001",
    "R3 S3 P12 Q12 C32 K32 image 12x12 padding 1x1 bias relu scale 0.001",
    "P16 Q16 C48 K64 stride 2x2 bias scale 0.001",
)


def cycles(layer: str, schedule: str) -> int:
    found = measure_layer(parse_layer(layer), parse_schedule(schedule), ORIGINAL)
    assert found.status == "measured", found.reason
    return found.cycles


def test_every_kind_is_drawn_and_seeds_decide() -> None:
    layers = drawn_layers(90, 0)
    assert len({layer for _, layer in layers}) == 90
    kinds = Counter(kind for kind, _ in layers)
    assert {"product", "vector", "3x3", "depthwise", "pooled", "addition", "published"} <= set(kinds)
    assert layers == drawn_layers(90, 0) != drawn_layers(90, 1)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("depthwice", "no layers are of the kind 'depthwice'"),
        ("depthwise", "none of 3 layers drawn is of these kinds"),
    ],
)
def test_kinds_without_layers_are_refused(kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        run(layers=3, kinds=[kind], out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [*LAYERS, "R3 S3 P14 Q14 groups 32 image 14x14 padding 1x1 scale 0.001"])
def test_alternatives_can_be_carried_out_and_fewer_are_the_first_of_more(text: str) -> None:
    layer = parse_layer(text)
    found = alternatives(layer, ORIGINAL, 50)
    assert len(found) == len(set(found)) == 50
    for schedule in found:
        plan_layer(layer, schedule, ORIGINAL)
    assert set(gemmini_paths(layer, ORIGINAL)) & set(found[:2])
    assert {schedule.by_macros for schedule in found} == {True, False}
    assert alternatives(layer, ORIGINAL, 12) == found[:12]


@pytest.mark.parametrize("text", some(2, LAYERS))
def test_the_choice_is_near_the_best_of_twelve(text: str) -> None:
    layer = parse_layer(text)
    best = min(cycles(text, schedule.text) for schedule in alternatives(layer, ORIGINAL, 12))
    assert cycles(text, choose(layer, ORIGINAL).text) <= 1.05 * best


def test_unequal_runs_are_predicted_as_they_are() -> None:
    """A depth of nine blocks in runs of eight and one keeps nothing under way beside the short one; in three equal runs it does."""
    layer, unequal, equal = (
        "P256 C144 K128 bias scale 0.001",
        "loop_ws 4,8,8 order ijk",
        "loop_ws 4,8,3 order ijk",
    )
    measured = [cycles(layer, schedule) for schedule in (unequal, equal)]
    predicted = [
        found.cycles.item()
        for found in predict_layers(
            [parse_layer(layer)] * 2, [parse_schedule(schedule) for schedule in (unequal, equal)], ORIGINAL
        )
    ]
    for said, took in zip(predicted, measured, strict=True):
        assert said == pytest.approx(took, rel=0.15)
    assert (predicted[0] > predicted[1]) == (measured[0] > measured[1])


def test_the_page_says_gaps(tmp_path: Path) -> None:
    choice = TimedSchedule("loop_ws 1,1,1 order ijk", 90.0, 110)
    others = (
        TimedSchedule("loop_ws 2,1,1 order ijk", 120.0, 100),
        TimedSchedule("loop_ws 4,1,1 order ijk", 130.0, 150),
    )
    timed = TimedSchedule("loop_ws 2,2,1 order ijk", 95.0, 102)
    layer = JudgedLayer("product", "P64 C64 K64", choice, others, timed)
    assert layer.gap == pytest.approx(0.1)
    assert layer.timed_gap == pytest.approx(0.02)
    assert layer.spearman == pytest.approx(0.5)
    text = page(ChoiceGaps("machine", 2, 0, 8, [layer]))
    assert "| product | 1 | **+10.00%** | 10.00% | +10.0% | **+2.00%** | 2.00% | +2.0% | 0.500 |" in text
    assert "loop_ws 2,1,1 order ijk: 100 (120)" in text
