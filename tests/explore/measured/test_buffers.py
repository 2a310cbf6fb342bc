"""Mappings with single copies and larger tiles: they fit, cover the layer, and are what the model ranks best."""

from __future__ import annotations

import pytest

from accel.config import Accelerator
from compiler.latency import predict_layers
from compiler.layers.layer import Layer
from compiler.mapping.nest import Mapping, requirement
from compiler.mapping.text import parse_mapping_text
from compiler.styles import check_schedule
from compiler.styles.realise import realise
from explore.measure.layer import measure_layer
from explore.measured.buffers import Roomier
from workloads.problem import Problem

ACCELERATOR = Accelerator(name="small", dim=8, scratchpad_kib=16, accumulator_kib=2)
#: A product whose depth does not fit: sums go to main memory and back as often as it is cut.
LAYER = Layer(Problem(P=32, C=768, K=96), scale=2.0**-8)
TWICE = parse_mapping_text("L3[WIO] C8 K12 - L2[WI] N1 K8X - L1[O] C12 C8X - L0[W] P32 buffers 2,2,2")


@pytest.fixture(scope="module")
def found() -> list[Mapping]:
    return Roomier(ACCELERATOR, [LAYER]).best(0, TWICE, 6, 0.0, 1.0)


def test_they_fit_and_have_fewer_copies(found: list[Mapping]) -> None:
    assert len(set(found)) == len(found) == 6
    for one in found:
        one.check(LAYER.problem)
        assert one.buffering != (2, 2, 2)
        need = requirement(one, LAYER.problem)
        assert need.scratchpad_rows <= ACCELERATOR.scratchpad_rows
        assert need.accumulator_words <= ACCELERATOR.accumulator_rows
        check_schedule(LAYER, realise(LAYER, one, ACCELERATOR), ACCELERATOR)


def test_the_best_come_first_and_once(found: list[Mapping]) -> None:
    cycles = [float(one.cycles) for one in predict_layers([LAYER] * 6, found, ACCELERATOR)]
    assert cycles == sorted(cycles)
    again = Roomier(ACCELERATOR, [LAYER])
    assert again.best(0, TWICE, 3, 0.0, 1.0) == found[:3]
    assert again.best(0, TWICE, 3, 0.0, 1.0) == found[3:]
    assert Roomier(ACCELERATOR, [LAYER]).best(0, TWICE, 10**6, 0.0, 1.0)[:6] == found


def test_room_for_a_larger_tile_is_worth_a_copy(found: list[Mapping]) -> None:
    base = measure_layer(LAYER, TWICE, ACCELERATOR)
    one = measure_layer(LAYER, found[0], ACCELERATOR)
    assert base.status == one.status == "measured"
    assert one.cycles < 0.95 * base.cycles
