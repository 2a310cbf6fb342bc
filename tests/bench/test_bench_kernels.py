"""Products on the RTL: in the block language, by the layer path, and as published."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.bench.hand_scheduled import HAND_SCHEDULED, HandSchedule, hand_scheduled_program
from baco.bench.kernels import PRODUCTS, kernels, run
from baco.common.errors import InfeasibleError, InputError
from baco.sim.engines.program import run_program


def test_a_kernel_is_as_fast_as_the_layer_path(tmp_path: Path) -> None:
    (row,) = kernels([(160, 192, 128)], blocks=(32, 64, 64), stages=("products",), out=tmp_path)
    assert row["kernel"] <= 1.03 * row["layer"]
    assert row["peak_cycles"] == 160 * 192 * 128 / 256
    assert row["peak_cycles"] < row["kernel"] < row["blockwise"]
    assert json.loads((tmp_path / "kernels.json").read_text()) == [row]
    assert "| 160x192x128 |" in (tmp_path / "kernels.md").read_text()


def test_stages_keep_what_others_measured(tmp_path: Path) -> None:
    (tmp_path / "kernels.json").write_text(
        '[{"product": "64x64x64", "machine": "gemmini-default", "kernel": 7, "blockwise": 9, "layer": 8, "blocks": [1, 1, 1]}]'
    )
    (row,) = kernels([(64, 64, 64)], blocks=(32, 32, 32), stages=("published",), out=tmp_path)
    assert row["kernel"] == 7
    for cycles in row["published"].values():
        assert cycles["hand"] is None
        assert 64 * 64 * 64 / 256 < cycles["layer"] <= 1.1 * cycles["library"]
    with pytest.raises(InputError, match="another machine"):
        kernels([(64, 64, 64)], machine="gemmini-lean", stages=("published",), out=tmp_path)
    with pytest.raises(InputError, match="no stage 'publishd'"):
        run(only=("publishd",), out=tmp_path)


@pytest.mark.parametrize(
    ("shape", "schedule", "loads_of_a", "loads_of_b"),
    [
        # four tiles of the rows, A once, B for every one of them
        ((64, 128, 128), HandSchedule(row_blocks=1, column_tiles=2), 4 * 2, 4 * 8 * 2),
        # B once
        ((96, 64, 64), HandSchedule(row_blocks=2, sums_by_row=True), 6, 4),
        ((96, 128, 64), HandSchedule(row_blocks=3), 6, 4 * 2),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_product_by_hand_is_right_and_moves_what_its_schedule_says(
    shape: tuple[int, int, int], schedule: HandSchedule, loads_of_a: int, loads_of_b: int, apart: bool
) -> None:
    rows, columns, depth = shape
    program = hand_scheduled_program(
        shape, schedule, load_accelerator("gemmini-default"), 2.0**-7, apart=apart
    )
    rng = np.random.default_rng(3)
    a = rng.integers(-128, 128, (rows, depth), np.int8)
    b = rng.integers(-128, 128, (depth, columns), np.int8)
    outputs, result = run_program(program, {"input": a.reshape(-1), "weight": b.reshape(-1)})
    exact = np.rint((a.astype(np.int64) @ b.astype(np.int64)) / 2**7)
    assert (outputs["output"].reshape(rows, columns) == np.clip(exact, -128, 127)).all()
    blocks = rows * columns // 256
    assert result.commands["MVIN2"] == loads_of_a
    assert result.commands["MVIN3"] == loads_of_b
    assert result.commands["MVIN"] == result.commands["MVOUT"] == blocks
    assert result.commands["COMPUTE_PRELOADED"] == blocks * depth // 16


def test_the_published_products_are_those_of_the_bench_and_fit_the_machine() -> None:
    assert set(HAND_SCHEDULED) == set(PRODUCTS)
    machine = load_accelerator("gemmini-default")
    for (rows, columns, depth), schedule in HAND_SCHEDULED.items():
        in_bytes = schedule.row_blocks * 16 * depth + columns // schedule.column_tiles * depth
        assert in_bytes <= machine.scratchpad_rows * 16
        assert rows % (schedule.row_blocks * 16) == 0
    with pytest.raises(InfeasibleError, match="not made of whole tiles"):
        hand_scheduled_program((64, 96, 64), HandSchedule(row_blocks=2), machine, 1.0)
    with pytest.raises(InfeasibleError, match="rows of the scratchpad"):
        hand_scheduled_program((1024, 512, 512), HandSchedule(row_blocks=64), machine, 1.0)
