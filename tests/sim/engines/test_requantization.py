"""Stores by CONFIG_OUTPUT and SET_SCALES, on the functional model and the RTL, against numpy's float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import SCARCE, WHOLE
from tests.sim.harness_helpers import BASE, command

ACCUMULATOR = 1 << 31
OUT = BASE + 0x1000
ROWS = 4


def stored(sums: np.ndarray, scales: np.ndarray, zero: int, low: int, high: int, relu: bool) -> np.ndarray:
    """int8 of int32 sums [rows, columns], by the definition of ONNX's QuantizeLinear and its like."""
    floor = np.maximum(sums, 0) if relu else sums
    steps = np.rint(floor.astype(np.float32) * scales.astype(np.float32))
    return np.clip(np.clip(steps, -1e6, 1e6) + zero, low, high).astype(np.int8)


def ties(rng: np.random.Generator, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums [ROWS, dim] and scales that meet halves, both ends of the range and what lies far beyond."""
    scales = rng.choice([0.5, 0.25, 2.0**-20, 1.0, -0.5, 0.0117, 3.1e-5, 1e-42, 1e20], dim).astype(np.float32)
    wanted = rng.choice([-300, -257, -256, -128.5, -0.5, 0, 0.5, 1.5, 127.5, 254.5, 255, 300], (ROWS, dim))
    with np.errstate(divide="ignore", over="ignore"):
        sums = np.clip(wanted / scales.astype(np.float64), -(2.0**31), 2.0**31 - 1)
    return sums.astype(np.int32), scales


@pytest.mark.parametrize("engine", ["functional", "rtl"])
@pytest.mark.parametrize("machine", [SCARCE, WHOLE], ids=lambda one: one.name)
def test_results(machine: Accelerator, engine: str, tmp_path: Path) -> None:
    rng, dim = np.random.default_rng(1), machine.dim
    lines = [command("CONFIG_LD", stride=4 * dim, block_stride=dim, scale=1.0)]
    expected = []
    for case in range(40):
        sums, scales = ties(rng, dim)
        by_column, relu, common = case % 4 != 0, case % 3 == 0, np.float32(0.25)
        zero, low, high = (
            (0, -128, 127)
            if case % 5 == 0
            else (int(rng.integers(-128, 128)), *sorted(rng.integers(-128, 128, 2)))
        )
        at = BASE + 0x100 * (case % 8)
        lines.append(f"fence\nwrite {at:x} {sums.astype('<i4').tobytes().hex()}\n")
        lines.append(command("MVIN", address=at, local=ACCUMULATOR | 4, cols=dim, rows=ROWS))
        for pair, words in enumerate(scales.view("<u8")):
            lines.append(command("SET_SCALES", column=2 * pair + case % 2, scales=int(words)))
        lines.append(
            command(
                "CONFIG_OUTPUT",
                by_column=int(by_column),
                zero=zero & 255,
                low=int(low) & 255,
                high=int(high) & 255,
            )
        )
        lines.append(command("CONFIG_ST", activation=int(relu), stride=dim, acc_scale=float(common)))
        target = OUT + case * ROWS * dim
        lines.append(command("MVOUT", address=target, local=ACCUMULATOR | 4, cols=dim, rows=ROWS))
        used = scales if by_column else np.full(dim, common)
        expected.append(stored(sums, used, zero, int(low), int(high), relu))
    size = len(expected) * ROWS * dim
    path = tmp_path / "stream"
    path.write_text("".join(lines) + f"fence\ndump {OUT:x} {size:x}\n")
    (dump,) = run_job(Job(machine, stream=path), engine=engine).memory_dumps
    found = np.frombuffer(dump, np.int8).reshape(len(expected), ROWS, dim)
    for case, wanted in enumerate(expected):
        assert (found[case] == wanted).all(), case


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="requantization needs accumulator_scale"):
        SCARCE.replace(features={"requantization": True, "accumulator_scale": False})
    with pytest.raises(InputError, match="exclude each other"):
        SCARCE.replace(features={"requantization": True, "normalizations": True})
