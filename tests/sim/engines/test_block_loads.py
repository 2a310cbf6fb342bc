"""Loads of elements with shared powers: every element with every power, on engines, against exact fractions that are rounded once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from baco.accel.isa import encode
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory
from tests.machines import BLOCKS

BASE = 0x80000000
POWERS, CODES, OUTPUT = BASE, BASE + 0x1000, BASE + 0x10000
ACCUMULATE = 1 << 30
#: What CONFIG_LD says of a format, and its numbers by code.
E2M1 = ({"packed": 1, "block_format": 1}, np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn))
BYTES = [
    ({"block_format": 1}, np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)),
    ({"block_format": 2}, np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2)),
    ({"block_format": 3}, np.arange(256, dtype=np.uint8).view(np.int8)),
]
#: A number of bfloat16 is the largest below that; it has 8 significant bits, and no place below 2^-133.
LIMIT, LEAST = Fraction(2) ** 128, -133


def bf16(exact: Fraction, negative: bool) -> int:
    """Code of the nearest number, ties to even, infinite beyond the largest."""
    size = abs(exact)
    # denominators are powers of two
    place = max(LEAST, size.numerator.bit_length() - size.denominator.bit_length() - 7)
    steps = round(size / Fraction(2) ** place)  # ties to even
    number = np.float32(float(steps * Fraction(2) ** place)) if size < LIMIT else np.float32(np.inf)
    return int(number.view(np.uint32)) >> 16 | negative << 15


def expected(numbers: np.ndarray) -> np.ndarray:
    """Codes [len(numbers), 256]: of a format's numbers times all powers."""
    found = np.empty((len(numbers), 256), np.uint16)
    unit = Fraction(1, 64) if numbers.dtype == np.int8 else Fraction(1)
    for n, number in enumerate(numbers.astype(np.float64)):
        for power in range(255):
            if np.isnan(number):
                found[n, power] = 0x7FC0
            elif np.isinf(number):
                found[n, power] = 0x7F80 | int(number < 0) << 15
            else:
                exact = Fraction(number) * unit * Fraction(2) ** (power - 127)
                found[n, power] = bf16(exact, bool(np.signbit(number)))
    found[:, 255] = 0x7FC0
    return found


@pytest.mark.parametrize("engine", ["functional", "rtl"])
@pytest.mark.parametrize(
    ("form", "numbers"), [E2M1, *(pytest.param(*one, marks=pytest.mark.slow) for one in BYTES)]
)
def test_every_element_with_every_power(
    form: dict[str, int], numbers: np.ndarray, engine: str, tmp_path: Path
) -> None:
    """Blocks of 32 columns and rows of which each is one code, as many as the scratchpad holds, stored as they have come."""
    dim, width, count = BLOCKS.dim, 32, len(numbers)
    rows = np.repeat(np.arange(count, dtype=np.uint8)[:, None], width, 1)
    if form.get("packed"):
        rows = rows[:, ::2] | rows[:, 1::2] << 4
    tall = min(count, BLOCKS.scratchpad_rows * dim // width)
    commands = [
        encode("CONFIG_LD", block_stride=tall, stride=rows.shape[1], **form),
        encode("CONFIG_ST", stride=512),
    ]
    for power in range(0, 256, width):
        commands.append(encode("MVIN", address=POWERS + power, local=ACCUMULATE, cols=width, rows=1))
        for code in range(0, count, tall):
            source = CODES + code * rows.shape[1]
            commands.append(encode("MVIN", address=source, local=0, cols=width, rows=tall))
            for block in range(width // dim):
                target = OUTPUT + code * 512 + (power + block * dim) * 2
                commands.append(encode("MVOUT", address=target, local=block * tall, cols=dim, rows=tall))
    lines = [f"write {POWERS:x} {bytes(range(256)).hex()}", f"write {CODES:x} {rows.tobytes().hex()}"]
    lines += [f"cmd {one.funct:x} {one.rs1:x} {one.rs2:x}" for one in commands]
    path = tmp_path / "stream"
    path.write_text("\n".join([*lines, "fence", f"dump {OUTPUT:x} {count * 512:x}\n"]))
    (dump,) = run_job(Job(BLOCKS, stream=path, memory=MainMemory()), engine=engine).memory_dumps
    assert np.array_equal(np.frombuffer(dump, np.uint16).reshape(count, 256), expected(numbers))


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_zeros_stay_zeros(engine: str, tmp_path: Path) -> None:
    """Loads of zeros, whatever the powers; and powers that are loaded as zeros."""
    commands = [
        encode("CONFIG_LD", block_stride=4, stride=4, block_format=1),
        encode("CONFIG_ST", stride=8),
        encode("MVIN", address=POWERS, local=ACCUMULATE, cols=4, rows=1),
        encode("MVIN", address=0, local=0, cols=4, rows=1),
        encode("MVIN", address=0, local=ACCUMULATE, cols=4, rows=1),
        encode("MVIN", address=CODES, local=1, cols=4, rows=1),
        encode("MVOUT", address=OUTPUT, local=0, cols=4, rows=2),
    ]
    lines = [f"write {POWERS:x} ffffffff", f"write {CODES:x} 387e017f"]
    lines += [f"cmd {one.funct:x} {one.rs1:x} {one.rs2:x}" for one in commands]
    path = tmp_path / "stream"
    path.write_text("\n".join([*lines, "fence", f"dump {OUTPUT:x} 10\n"]))
    (dump,) = run_job(Job(BLOCKS, stream=path, memory=MainMemory()), engine=engine).memory_dumps
    # 1, 448, 2^-9 and NaN times 2^-127: half of 2^-126, a normal number, nothing, and NaN
    assert np.frombuffer(dump, np.uint16).tolist() == [0, 0, 0, 0, 0x0040, 0x0460, 0, 0x7FC0]
