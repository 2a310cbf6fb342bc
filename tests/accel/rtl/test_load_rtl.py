"""The load unit against the tests' model of Gemmini."""

import copy
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.accel.testbench import BENCHES, RTL, build
from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import NumpyGemmini
from tests.seeds import seeds

SOURCES = [
    RTL / f"baco_{name}.v"
    for name in ["load", "load_rows", "load_scale", "fifo", "dma_read", "aligner", "pixel_repeat", "scale"]
]
BASE = 0x8000_1000
SPACE = 1 << 40  # memory addresses wrap here
MVIN = {0: 2, 1: 1, 2: 14}  # function codes by state id
ONE = 0x3F800000


@dataclass(frozen=True)
class Unit:
    """Parameters of one build."""

    dim: int
    dma_bits: int
    dma_max_bytes: int
    sp_rows: int = 256
    acc_rows: int = 64
    dma_requests: int = 16
    load_queue: int = 4
    defines: tuple[str, ...] = ("BACO_MVIN_SCALE", "BACO_FIRST_LAYER")

    @property
    def beat(self) -> int:
        return self.dma_bits // 8

    @property
    def max_row_bytes(self) -> int:
        return max(64, self.dma_max_bytes, self.dim * 4)

    def build(self) -> Path:
        parameters = {
            "DIM": self.dim,
            "DMA_BITS": self.dma_bits,
            "DMA_MAX_BYTES": self.dma_max_bytes,
            "SP_ROWS": self.sp_rows,
            "ACC_ROWS": self.acc_rows,
            "DMA_REQUESTS": self.dma_requests,
            "LOAD_QUEUE": self.load_queue,
        }
        return build(SOURCES, "baco_load", parameters, self.defines, BENCHES / "load_bench.cpp")


UNITS = [
    Unit(2, 128, 64, load_queue=1, dma_requests=3),
    Unit(4, 64, 32, sp_rows=200),
    Unit(16, 128, 64, load_queue=8),
    Unit(16, 256, 32, defines=()),
    Unit(32, 64, 64, dma_requests=5, defines=("BACO_MVIN_SCALE", "BACO_MVIN_SCALE_ACC", "BACO_FIRST_LAYER")),
]


@dataclass
class Traffic:
    """How memory and local memories answer: cycles of latency, and chances in 256 of moving on in a cycle."""

    latency: int = 20
    jitter: int = 0
    chances: tuple[int, int, int, int, int] = (256,) * 5  # command, request, beat, scratchpad, accumulator


@dataclass
class State:
    """What CONFIG of a load state sets."""

    stride: int = 0
    scale: int = ONE
    shrink: bool = False
    block_stride: int = 0
    repeats: int = 1

    def command(self, state: int) -> tuple[int, int, int]:
        rs1 = (
            self.scale << 32 | self.block_stride << 16 | self.repeats << 8 | state << 3 | self.shrink << 2 | 1
        )
        return 0, rs1, self.stride


def fetched(unit: Unit, stride: int, address: int, rows: int, length: int) -> list[int]:
    """Every beat that holds needed bytes, row by row; once where rows follow less than a beat apart."""
    starts = [address + r * stride for r in range(rows if stride else 1)]
    beats = [b for at in starts for b in range(at // unit.beat, (at + length - 1) // unit.beat + 1)]
    return list(dict.fromkeys(beats)) if 0 <= stride - length < unit.beat else beats


def _float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _run(
    unit: Unit,
    model: NumpyGemmini,
    commands: list[tuple[int, int, int]],
    traffic: Traffic,
    seed: int,
    folder: Path,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scratchpad and accumulator after commands from the model's state on, and requests (n, 2: address, bytes)."""
    header = [seed, BASE, len(model.memory), len(commands), traffic.latency, traffic.jitter, *traffic.chances]
    parts = [np.array(header, np.uint64), model.memory, model.sp.astype(np.int8), model.acc.astype(np.int32)]
    parts.append(np.array(commands, np.uint64))
    (folder / "input").write_bytes(b"".join(part.tobytes() for part in parts))
    done = subprocess.run(
        [unit.build(), folder / "input", folder / "output"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    output = (folder / "output").read_bytes()
    scratchpad = np.frombuffer(output, np.int8, unit.sp_rows * unit.dim).reshape(-1, unit.dim)
    output = output[scratchpad.nbytes :]
    accumulator = np.frombuffer(output, np.int32, unit.acc_rows * unit.dim).reshape(-1, unit.dim)
    words = np.frombuffer(output[accumulator.nbytes :], np.uint64)
    # two words a command are its times
    return scratchpad, accumulator, words[2 * len(commands) + 1 :].reshape(-1, 2).astype(np.int64)


def _model(unit: Unit, random: np.random.Generator, memory_bytes: int) -> NumpyGemmini:
    config = GemminiConfig(
        dim=unit.dim, scratchpad_rows=unit.sp_rows, accumulator_rows=unit.acc_rows,
        dma_max_bytes=unit.dma_max_bytes, first_layer="BACO_FIRST_LAYER" in unit.defines,
        mvin_scale="BACO_MVIN_SCALE" in unit.defines, mvin_scale_acc="BACO_MVIN_SCALE_ACC" in unit.defines,
    )  # fmt: skip
    model = NumpyGemmini(config, random.integers(0, 256, memory_bytes).astype(np.uint8), BASE)
    model.sp[:] = random.integers(-128, 128, model.sp.shape)
    model.acc[:] = random.integers(-(2**31), 2**31, model.acc.shape)
    return model


def _random_load(
    unit: Unit, random: np.random.Generator, memory_bytes: int
) -> tuple[State, tuple[int, int, int, int]]:
    """A legal load state and a load (address, local address, rows, cols) for it, all bytes within memory."""
    pick = lambda *choices: choices[random.integers(len(choices))]  # noqa: E731
    state = State(repeats=int(pick(0, 1, 1, 1)))
    rows = int(pick(1, unit.dim, random.integers(1, unit.dim + 1), random.integers(1, unit.dim + 1)))
    to_acc = int(pick(0, 0, 1))
    state.shrink = bool(pick(False, True)) and bool(to_acc)
    size = 4 if to_acc and not state.shrink else 1
    widest = unit.max_row_bytes // size
    cols = int(
        pick(
            unit.dim,
            min(widest, 4 * unit.dim),
            random.integers(1, widest + 1),
            random.integers(1, unit.dim + 1),
        )
    )
    if not to_acc and random.random() < 0.25:
        state.repeats = int(random.integers(2, unit.dim + 1)) if unit.dim > 1 else 1
        cols = int(random.integers(1, unit.dim // state.repeats + 1))
    blocks = max(1, -(-cols // unit.dim))
    local_rows = unit.acc_rows if to_acc else unit.sp_rows
    while rows * blocks > local_rows:
        cols -= unit.dim
        blocks -= 1
    slack = (local_rows - rows * blocks) // blocks
    state.block_stride = rows + int(pick(0, 0, random.integers(0, slack + 1)))
    base = int(random.integers(0, local_rows - rows - (blocks - 1) * state.block_stride + 1))
    if state.repeats > 1 and random.random() < 0.5:  # near the borders that clip
        base = int(pick(0, 0, unit.sp_rows // 2, unit.sp_rows // 2 - rows // 2, random.integers(0, unit.dim)))
    kind = pick("tight", "gap", "far", "far", "repeat", "overlap", "backward")
    length = cols * size
    state.stride = {
        "tight": length,
        "gap": length + int(random.integers(0, unit.beat + 3)),
        "far": int(pick(64, 128, 3 * length, random.integers(length, 4 * length + 100))),
        "repeat": 0,
        "overlap": int(random.integers(1, length + 1)),
        "backward": -int(random.integers(1, length + 40)),
    }[kind]
    reach = (max(rows, 1) - 1) * state.stride
    first = int(random.integers(max(0, -reach), memory_bytes - length - max(0, reach) + 1))
    if random.random() < 0.5:  # the ends of memory, and aligned data
        first = int(pick(max(0, -reach), memory_bytes - length - max(0, reach)))
        first -= first % 16 if -reach <= first - first % 16 else 0
    address = 0 if random.random() < 0.15 else BASE + first
    if random.random() < 0.4 and (size == 1 or "BACO_MVIN_SCALE_ACC" in unit.defines):
        values = [0.5, -1.0, 1.5, 0.3, -2.7, 1 / 3, 100.0, 0.0, np.inf, -np.inf, np.nan, 1e-40]
        state.scale = _float_bits(values[random.integers(len(values))])
    local = to_acc << 31 | int(random.integers(2)) << 30 | base
    return state, (address, local, rows, cols)


@pytest.mark.parametrize(
    "unit", UNITS, ids=lambda unit: f"dim{unit.dim}-{unit.dma_bits}-{unit.dma_max_bytes}"
)
@pytest.mark.parametrize("part", seeds(1, of=4))
def test_random_loads(unit: Unit, part: int, tmp_path: Path) -> None:
    random = np.random.default_rng([unit.dim, unit.dma_bits, part])
    memory_bytes = 1 << 15
    for run in range(10):
        model = _model(unit, random, memory_bytes)
        start = copy.deepcopy(model)
        states = [State(), State(), State()]
        commands: list[tuple[int, int, int]] = [state.command(n) for n, state in enumerate(states)]
        beats: list[int] = []
        for _ in range(80):
            state, (address, local, rows, cols) = _random_load(unit, random, memory_bytes)
            which = int(random.integers(3))
            if state != states[which]:
                states[which] = state
                funct, rs1, rs2 = state.command(which)
                noise = int(random.integers(2**40, 2**41)) if state.stride >= 0 else 0
                commands.append((funct, rs1, rs2 % SPACE | noise >> 40 << 63))
            for _ in range(int(random.integers(1, 3))):
                commands.append((MVIN[which], address, rows << 48 | cols << 32 | local))
                if address:
                    size = 4 if local >> 31 and not state.shrink else 1
                    beats += fetched(unit, state.stride, address, rows, cols * size)
        for command in commands:
            model.execute(*command)
        chances = (256,) * 5 if run % 3 == 0 else tuple(int(c) for c in random.choice([30, 128, 230, 256], 5))
        traffic = Traffic(int(random.integers(1, 60)), int(random.integers(0, 30)), chances)
        scratchpad, accumulator, requests = _run(unit, start, commands, traffic, run + 1, tmp_path)
        np.testing.assert_array_equal(scratchpad, model.sp)
        np.testing.assert_array_equal(accumulator, model.acc)
        assert beats == [
            (address + offset) // unit.beat
            for address, size in requests
            for offset in range(0, int(size), unit.beat)
        ]
