"""The timing `gemmini` of the analytical model: against cycles measured on the original's RTL, and its tables by brute force."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from baco.accel.presets import load_accelerator
from baco.bench.streaming import streamed_products
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.requests import request_table
from baco.compiler.latency import HardwareBatch, predict_layers
from baco.compiler.layers.text import parse_layer
from baco.compiler.styles.registry import parse_schedule

OURS = load_accelerator("gemmini-default")
ORIGINAL = OURS.replace(timing="gemmini")
MEASURED = Path(__file__).resolve().parents[4] / "shared" / "data" / "original-rtl" / "random.csv"


@pytest.mark.skipif(
    not MEASURED.exists(), reason="needs the original's cycles in ../shared/data/original-rtl"
)
def test_a_subset_of_the_measured_programs() -> None:
    """Every fourth random program: ranked, and nearer than by our Verilog's timing."""
    with open(MEASURED, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[::4]
    layers = [parse_layer(row["layer"]) for row in rows]
    schedules = [parse_schedule(row["schedule"]) for row in rows]
    measured = np.array([float(row["original_cycles"]) for row in rows])
    beside = np.array([float(row["baco_rtl_cycles"]) - float(row["baco_rtl_layer_cycles"]) for row in rows])
    errors = {}
    for machine in (OURS, ORIGINAL):
        cycles = [one.cycles.item() for one in predict_layers(layers, schedules, machine)]
        predicted = np.array(cycles) + beside
        errors[machine.timing] = np.abs(predicted / measured - 1).mean()
        if machine is ORIGINAL:
            assert spearmanr(predicted, measured).statistic > 0.98
    assert errors["gemmini"] < 0.12
    assert errors["gemmini"] < errors["baco"] * 0.7


def test_requests_that_bring_the_most() -> None:
    """Byte by byte: of the aligned requests of a power of two that hold the next byte, the one with most wanted bytes."""
    table = request_table(covers=True).values
    beat, largest = 16, 64
    place = (beat.bit_length() - 3, largest.bit_length() - 4)
    for step in (1, 4, 16, 64):
        for size in (1, 3, 16, 17, 40, 63, 64, 65, 91, 128):
            found = []
            for start in range(0, 128, step):
                wanted, requests, beats, several = set(range(start, start + size)), 0, 0, 0
                while wanted:
                    first = min(wanted)
                    choices = []
                    for bytes_ in (16, 32, 64):
                        low = first // bytes_ * bytes_
                        choices.append((len(wanted & set(range(low, low + bytes_))), -bytes_, low))
                    _, minus, low = max(choices)
                    wanted -= set(range(low, low - minus))
                    requests, beats, several = requests + 1, beats - minus // beat, several + (-minus > beat)
                found.append((requests, beats, several))
            means = np.mean(found, axis=0)
            np.testing.assert_allclose(table[:, *place, step.bit_length() - 1, size], means)


def test_what_sets_the_timings_apart() -> None:
    """Rows of few channels, each a request of its own, take the original longer; operands that come again find its cache."""
    narrow = parse_layer("P56 Q56 C4 K16 scale 0.001")
    again = parse_layer("P256 C256 K256 scale 0.001")
    for layer, schedule, slower in (
        (narrow, "loop_ws 16,1,1 order jik keep B", True),
        (again, "loop_ws 1,16,4 order ijk", False),
    ):
        (ours,), (original,) = (
            predict_layers([layer], [parse_schedule(schedule)], machine) for machine in (OURS, ORIGINAL)
        )
        assert (original.cycles > ours.cycles) == slower


def test_a_batch_has_one_timing() -> None:
    with pytest.raises(ValueError, match="one timing"):
        HardwareBatch.of([OURS, ORIGINAL])


def test_victims_of_an_empty_cache_line_by_line() -> None:
    """Sets of eight ways take lines in at random: the share of ways that are full, squared, summed line by line."""
    profile = PROFILES["gemmini"]
    sets = profile.cache_bytes / profile.line_bytes / 8
    draw = np.random.default_rng(0)
    for lines_of_a_set in (1, 3, 8, 16, 32, 100):
        full = np.zeros((4000, 8), bool)
        victims = []
        for _ in range(lines_of_a_set):
            victims.append(full.mean())
            full[np.arange(len(full)), draw.integers(8, size=len(full))] = True
        each = profile.line_cycles + profile.victim_cycles * np.mean(np.square(victims))
        lines = sets * lines_of_a_set
        assert profile.fill_cycles(lines) / lines == pytest.approx(each, abs=0.05 * profile.victim_cycles)


@pytest.mark.parametrize("lines", [0.0, 1e4, 1e6])
def test_a_fill_without_victims_is_what_the_bus_takes(lines: float) -> None:
    profile = replace(PROFILES["gemmini"], victim_cycles=0.0)
    assert profile.fill_cycles(lines) == 8 * lines


@pytest.mark.skipif(
    not MEASURED.with_name("streaming.csv").exists(),
    reason="needs the original's cycles in ../shared/data/original-rtl",
)
def test_streamed_weights_are_predicted_as_measured() -> None:
    """Rows of whole lines: what shares lines between tiles, 16 x 768 x 3072, is further off."""
    products = [product for product in streamed_products(MEASURED.parent) if product.name != "16x768x3072"]
    predicted = predict_layers(
        [product.layer for product in products], [product.schedule for product in products], ORIGINAL
    )
    errors = [
        cost.cycles.item() / product.measured - 1 for cost, product in zip(predicted, products, strict=True)
    ]
    assert len(products) == 4
    assert np.abs(errors).max() < 0.1
