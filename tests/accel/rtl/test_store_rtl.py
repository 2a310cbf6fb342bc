"""The store controller against the tests' model of Gemmini.

Random streams of CONFIG, MVOUT and MVOUT_SPAD run with random refusals and latencies on every port; scratchpad and
memory must be equal byte for byte afterwards. The bench itself checks the rules of the ports.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.accel.testbench import BENCHES, RTL, build
from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import NumpyGemmini

CONFIG, MVOUT, MVOUT_SPAD = 0, 3, 23
MODULES = [
    "baco_store",
    "baco_store_walk",
    "baco_store_convert",
    "baco_store_packer",
    "baco_scale",
    "baco_fifo",
]
FEATURES = ["BACO_ACC_SCALE", "BACO_ACTIVATIONS", "BACO_COUNTERS", "BACO_MAX_POOL"]
ACC, READ_FULL = 1 << 31, 1 << 29
MEMORY_BASE = 0x80000000
SP_ROWS, ACC_ROWS, MEMORY_BYTES = 1024, 512, 1 << 18

Command = tuple[int, int, int]  # funct, rs1, rs2


def config_st(
    stride: int,
    scale: float | int = 1.0,
    activation: int = 0,
    pool: tuple[int, int, int, int, int, int, int] | None = None,
    image: tuple[int, int] = (0, 0),
) -> Command:
    """`pool` = (step, edge, upad, lpad, out_dim, porows, pocols), with a step of 0 for 1-D mode; int scales are bits."""
    step, edge, up, left, out_dim, porows, pocols = pool or (0,) * 7
    rs1 = 2 | activation << 2 | step << 4 | edge << 6 | up << 8 | left << 10 | out_dim << 24
    rs1 |= porows << 32 | pocols << 40 | image[0] << 48 | image[1] << 56
    bits = scale if isinstance(scale, int) else int(np.float32(scale).view(np.uint32))
    return CONFIG, rs1, stride | bits << 32


def mvout(address: int, local: int, rows: int, cols: int) -> Command:
    return MVOUT, address, local | cols << 32 | rows << 48


class Streams:
    """Random legal commands that stay within the memories."""

    def __init__(self, seed: int, dim: int, max_bytes: int, features: list[str]) -> None:
        self.random = np.random.default_rng(seed)
        self.dim, self.features = dim, features
        self.wide_cols = max(dim, max_bytes)
        self.windowed: tuple[int, int, int] | None = None  # local rows, output pixels, stride
        self.stride = 0
        self.pooling = False

    def integer(self, low: int, high: int) -> int:
        """Uniform over low..high, both included."""
        return int(self.random.integers(low, high + 1))

    def config(self) -> Command:
        kind = self.random.choice(["rows", "pool", "1-d"], p=[0.6, 0.25, 0.15])
        scale: float | int = float(self.random.choice([1.0, 0.5, 0.02, 1e-7, -0.3, 3.0, 0.0]))
        if self.integer(0, 5) == 0:
            scale = int(self.random.choice([0xFFFFFFFF, 0x7F800000, 0x7FC00000]))
        activation = self.integer(0, 1)
        # contiguous rows, apart, apart and misaligned, or over each other
        self.stride = int(self.random.choice([self.dim, 4 * self.dim, 64, 96, 5, 0, self.integer(0, 200)]))
        self.windowed, self.pooling = None, False
        if kind == "rows":
            return config_st(self.stride, scale, activation)
        step, edge, up, left = self.integer(1, 3), self.integer(1, 3), self.integer(0, 2), self.integer(0, 2)
        if kind == "1-d":
            step, up, left = 0, self.integer(0, 3), self.integer(0, 3)
        image = (self.integer(1, 7), self.integer(1, 7))
        out = (self.integer(1, 4), self.integer(1, 4))
        out_dim = self.integer(1, 9)
        pixels = (
            (image[0] * max(out_dim, image[1])) if step == 0 else (out[0] * max(out_dim, out[1]) + out[1])
        )
        if step == 0 or "BACO_MAX_POOL" not in self.features:
            pixels = image[0] * max(out_dim, image[1]) + image[1]
        else:
            self.pooling = True
        self.windowed = (image[0] * image[1], pixels + 1, self.stride)
        return config_st(self.stride, scale, activation, (step, edge, up, left, out_dim, *out), image)

    def store(self) -> Command:
        windowed = self.windowed
        acc = self.integer(0, 3) > 0
        full = acc and not self.pooling and self.integer(0, 2) == 0
        size = 4 if full else 1
        rows = self.integer(1, self.dim)
        cols = self.integer(1, self.dim)
        if self.integer(0, 2) == 0:
            rows, cols = self.dim, self.dim
        elif not (full or windowed) and self.integer(0, 1):
            cols = self.integer(1, self.wide_cols)
        last_row = windowed[0] if windowed else rows + -(-cols // self.dim) * self.dim
        local = self.integer(0, (ACC_ROWS if acc else SP_ROWS) - max(1, last_row))
        extent = (windowed[1] if windowed else rows) * self.stride + max(cols, self.dim) * size
        address = MEMORY_BASE + self.integer(0, MEMORY_BYTES - extent)
        if self.integer(0, 1):
            address &= ~63
        return mvout(address, local | (ACC if acc else 0) | (READ_FULL if full else 0), rows, cols)

    def copy(self) -> Command:
        acc, rows, cols = self.integer(0, 1) == 1, self.integer(1, self.dim), self.integer(1, self.dim)
        step = self.integer(1, 3)
        # source and destination in different halves: rows are read while others are being written
        half = SP_ROWS // 2
        target = self.integer(0, half - rows * step)
        local = self.integer(0, ACC_ROWS - rows) | ACC if acc else self.integer(0, half - rows)
        if self.integer(0, 1):
            target += half
        elif not acc:
            local += half
        return MVOUT_SPAD, target | step << 32, mvout(0, local, rows, cols)[2]

    def commands(self, count: int) -> list[Command]:
        found = [config_st(0)]
        while len(found) < count:
            choice = self.integer(0, 9)
            if choice < 3:
                found.append(self.config())
            elif choice == 3 and not self.pooling and self.windowed is None:
                found.append(self.copy())
            else:
                found.extend(self.store() for _ in range(self.integer(1, 3)))
        return found


def images(seed: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sp = random.integers(-128, 128, (SP_ROWS, dim)).astype(np.int8)
    acc = random.integers(-(1 << 31), 1 << 31, (ACC_ROWS, dim)) >> random.integers(0, 32, (ACC_ROWS, dim))
    return sp, acc.astype(np.int32), random.integers(0, 256, MEMORY_BYTES).astype(np.uint8)


def run(
    folder: Path,
    bench: Path,
    commands: list[Command],
    initial: tuple[np.ndarray, np.ndarray, np.ndarray],
    traffic: tuple[int, int, int, int, int],
) -> tuple[np.ndarray, np.ndarray, str]:
    """Scratchpad and memory afterwards, and the statistics. `traffic`: seed and the bench's last four arguments."""
    (folder / "commands").write_text("".join(f"{f} {a} {b}\n" for f, a, b in commands))
    for name, image in zip(["sp", "acc", "memory"], initial, strict=True):
        image.tofile(folder / name)
    arguments = [folder / "commands", folder / "sp", folder / "acc", folder / "memory", folder / "out"]
    done = subprocess.run(
        [str(a) for a in [bench, *arguments, *traffic]], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    sp = np.fromfile(folder / "out.sp", np.int8).reshape(initial[0].shape)
    return sp, np.fromfile(folder / "out.memory", np.uint8), done.stdout


def store_bench(dim: int, dma_bits: int, features: list[str], **others: int) -> Path:
    parameters = {
        "DIM": dim,
        "SP_ROWS": SP_ROWS,
        "ACC_ROWS": ACC_ROWS,
        "DMA_BITS": dma_bits,
        "DMA_REQUESTS": 4,
    }
    parameters |= {"DMA_MAX_BYTES": 64, "STORE_QUEUE": 2} | others
    sources = [RTL / f"{name}.v" for name in MODULES]
    return build(sources, "baco_store", parameters, features, BENCHES / "store_bench.cpp")


@pytest.mark.parametrize(
    ("dim", "dma_bits", "others", "features"),
    [
        (2, 128, {"STORE_QUEUE": 1}, FEATURES),
        (4, 64, {"DMA_MAX_BYTES": 32}, FEATURES),
        (16, 128, {}, FEATURES),
        (16, 256, {"STORE_QUEUE": 3}, ["BACO_COUNTERS"]),
        (32, 128, {"DMA_MAX_BYTES": 128, "DMA_REQUESTS": 16}, FEATURES),
    ],
)
def test_random_streams(
    tmp_path: Path, dim: int, dma_bits: int, others: dict[str, int], features: list[str]
) -> None:
    bench = store_bench(dim, dma_bits, features, **others)
    for seed, traffic in enumerate([(0, 0, 0, 1), (0, 30, 0, 5), (30, 10, 40, 60), (80, 0, 90, 3)]):
        commands = Streams(seed, dim, 64, features).commands(120)
        initial = images(seed, dim)
        sp, memory, _ = run(tmp_path, bench, commands, initial, (seed, *traffic))
        config = GemminiConfig(
            dim=dim, scratchpad_rows=SP_ROWS, accumulator_rows=ACC_ROWS, max_pool="BACO_MAX_POOL" in features,
            activations="BACO_ACTIVATIONS" in features, accumulator_scale="BACO_ACC_SCALE" in features,
        )  # fmt: skip
        model = NumpyGemmini(config, initial[2].copy(), MEMORY_BASE)
        model.sp[:], model.acc[:] = initial[:2]
        for command in commands:
            model.execute(*command)
        np.testing.assert_array_equal(sp, model.sp)
        np.testing.assert_array_equal(memory, model.memory)
