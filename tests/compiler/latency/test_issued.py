"""Explicit code gone through command by command: against cycles of the timed model of the original, and its shares by brute force."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.analysis.arrays import NUMPY
from baco.compiler.analysis.traffic import MachineRates, cache_lines
from baco.compiler.latency import HardwareBatch, LayerBatch, predict_layers
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.commands import count_commands
from baco.compiler.latency.issued import _fresh, _shares, issued_cycles
from baco.compiler.latency.model import constants, explicit_latency
from baco.compiler.latency.tiling import make_tiling
from baco.compiler.layers.text import parse_layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles.registry import parse_schedule

ORIGINAL = load_accelerator("gemmini-default").replace(timing="gemmini")
MEASURED = Path(__file__).resolve().parents[4] / "shared" / "data" / "original-rtl" / "random.csv"
LINE = 64

#: Cycles by the timed model of the original, whose stores wait for lines beside strided loads.
STRIDED = "P42 Q42 C32 K80 stride 2x2 bias scale 0.0009765625"
WHOLE_ROWS = "explicit L3[WIO] Q42 - L2[WI] N1 K16X - L1[O] K5 C2 C16X - L0[W] P42 buffers 2,2,2"
THIRDS = "explicit L3[WIO] Q42 P3 - L2[WI] N1 K16X - L1[O] K5 C2 C16X - L0[W] P14 buffers 2,2,2"


def test_stores_that_wait_keep_passes_waiting() -> None:
    """Whole rows of pixels take the timed model half as long again as thirds, though they are fewer commands."""
    layer = parse_layer(STRIDED)
    schedules = [parse_schedule(text) for text in (WHOLE_ROWS, THIRDS)]
    whole, thirds = (cost.cycles.item() for cost in predict_layers([layer] * 2, schedules, ORIGINAL))
    assert whole == pytest.approx(53_783, rel=0.15)
    assert thirds == pytest.approx(34_845, rel=0.15)


@pytest.mark.skipif(
    not MEASURED.exists(), reason="needs the original's cycles in ../shared/data/original-rtl"
)
def test_explicit_programs_of_the_original() -> None:
    """Those that are gone through are predicted better than in closed form on what was measured on the original's RTL."""
    with open(MEASURED, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["schedule"].startswith("explicit")]
    layers = [parse_layer(row["layer"]) for row in rows]
    mappings = []
    for row in rows:
        schedule = parse_schedule(row["schedule"])
        assert isinstance(schedule, ExplicitSchedule)
        mappings.append(schedule.mapping)
    measured = np.array([float(row["original_cycles"]) for row in rows])
    beside = np.array([float(row["baco_rtl_cycles"]) - float(row["baco_rtl_layer_cycles"]) for row in rows])
    tiling = make_tiling(
        LayerBatch.of(layers),
        MappingBatch.of(mappings),
        HardwareBatch.of([ORIGINAL] * len(rows)),
        TensorArrays(),
    )
    commands, fitted = count_commands(tiling), constants("gemmini")
    issued = issued_cycles(tiling, commands, fitted.host).numpy()
    gone_through = ~np.isnan(issued)
    assert gone_through.sum() >= 8
    closer, closed = (
        np.abs((cycles + beside) / measured - 1)[gone_through].mean()
        for cycles in (issued, explicit_latency(tiling, commands, fitted).cycles.numpy())
    )
    assert closer < min(closed, 0.12)


def test_what_is_not_gone_through() -> None:
    """Sums that stay in the array, and results that are pooled, keep their closed form."""
    pooled = "R3 S3 P8 Q8 C16 K16 padding 1x1 scale 0.5 pool 2,2,0,4,4"
    for layer, schedule in (
        (
            "P16 C32 K32 scale 0.5",
            "explicit L3[WIO] N1 - L2[WI] K2 C2 K16X - L1[O] P16X - L0[O] C16 buffers 1,1,1",
        ),
        (pooled, "explicit L3[WIO] N1 - L2[WI] N1 K16X - L1[O] S3 R3 C16X - L0[W] Q8 P8 buffers 1,1,1"),
    ):
        mapping = parse_schedule(schedule)
        assert isinstance(mapping, ExplicitSchedule)
        tiling = make_tiling(
            LayerBatch.of([parse_layer(layer)]), MappingBatch.of([mapping.mapping]), HardwareBatch.of([ORIGINAL]), TensorArrays()
        )  # fmt: skip
        assert issued_cycles(tiling, count_commands(tiling), constants("gemmini").host).isnan().all()


def test_lines_of_rows_one_by_one() -> None:
    """Rows that begin at any multiple of the largest power of two in their pitch, and fill it or not."""
    machine = MachineRates.of(ORIGINAL)
    for pitch, columns in ((64, 32), (64, 64), (80, 80), (96, 20), (200, 64), (48, 48), (24, 8), (128, 65)):
        rows = 64
        touched = {
            line
            for row in range(rows)
            for line in range(row * pitch // LINE, (row * pitch + columns - 1) // LINE + 1)
        }
        lines = float(
            cache_lines(
                NUMPY, machine, np.array([64.0]), np.array([float(columns)]), np.array([float(pitch)]), 1.0
            )[0]
        )
        assert lines == pytest.approx(len(touched), rel=0.02 if pitch >= LINE else 0.35)


def test_lines_that_parts_of_rows_touch_first() -> None:
    """Of commands that go column by column, and of tiles beside each other."""
    lines, port = _shares(80, 80, 16, LINE, 16)
    assert sum(lines) == pytest.approx(1)
    assert lines[0] == pytest.approx(64 / 80)
    assert set(port) == {0.2}
    for step in (16, 64):
        for size, whole in ((16, 80), (32, 256), (48, 96)):
            touched: list[set[tuple[int, int]]] = [
                {
                    (begin, line)
                    for begin in range(0, LINE, step)
                    for line in range((begin + start) // LINE, (begin + start + size - 1) // LINE + 1)
                }
                for start in range(0, whole, size)
                if start + size <= whole
            ]
            seen: set[tuple[int, int]] = set()
            for number, tile in enumerate(touched):
                begins = {(begin, begin // LINE) for begin in range(0, LINE, step)}
                assert begins <= touched[0]
                expected = len(tile - seen)
                seen |= tile
                every = sum(-(-(begin + whole) // LINE) for begin in range(0, LINE, step))
                assert _fresh(number * size, size, whole, step, LINE) == pytest.approx(expected / every)
