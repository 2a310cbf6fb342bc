"""Random legal command streams, with the answers that NumpyGemmini expects.

A `Program` holds the text of a stream (sim/cpp/stream.h) and runs every command on the numpy model as it is added.
Main memory is split in an input part, which commands only read, and an output part, which they only write, so that
no fences are needed between them: any machine that keeps program order must print the expected lines.
"""

from __future__ import annotations

import random

import numpy as np

from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import ONE, NumpyGemmini

BASE = 0x80000000
INPUT_BYTES = 1 << 16
OUTPUT = BASE + INPUT_BYTES
OUTPUT_BYTES = 1 << 15
SIZE = INPUT_BYTES + OUTPUT_BYTES
GARBAGE = 0xFFFFFFFF
ACC, ADD, FULL = 1 << 31, 1 << 30, 1 << 29

# Scales with ties, saturation, both signs, subnormals, one below and one above 1.0.
SCALES = (ONE, ONE, ONE, 0x3F000000, 0x3E800000, 0x40200000, 0xBF000000, 0x3F7FFFFF, 0x3F800001, 0x00000001, 0x3C23D70A, 0x7F800000, 0x7FC00000)  # fmt: skip


def operand(address: int, rows: int, cols: int) -> int:
    """The register value naming rows x cols elements at a local address word."""
    return address | cols << 32 | rows << 48


class Program:
    """A stream under construction; `text()` and `expected` are what to run and what it must print."""

    def __init__(self, config: GemminiConfig, seed: int) -> None:
        self.config = config
        self.dim = config.dim
        self.random = random.Random(seed)
        numbers = np.random.default_rng(seed)
        memory = np.zeros(SIZE, np.uint8)
        memory[:INPUT_BYTES] = numbers.integers(0, 256, INPUT_BYTES, np.uint8)
        self.model = NumpyGemmini(config, memory, BASE)
        self.lines = [f"write {BASE:x} {memory[:INPUT_BYTES].tobytes().hex()}"]
        self.commands: list[tuple[int, int, int]] = []
        self.expected: list[str] = []

    def cmd(self, funct: int, rs1: int, rs2: int) -> None:
        rs1, rs2 = rs1 % 2**64, rs2 % 2**64
        self.lines.append(f"cmd {funct:x} {rs1:x} {rs2:x}")
        self.commands.append((funct, rs1, rs2))
        self.model.execute(funct, rs1, rs2)

    def fence(self) -> None:
        self.lines.append("fence")

    def dump(self, address: int, count: int) -> None:
        self.lines.append(f"dump {address:x} {count:x}")
        start = address - BASE
        self.expected.append(f"dump {address:x} {self.model.memory[start : start + count].tobytes().hex()}")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def initialise(self) -> None:
        """Fill both local memories and the weights with known values (hardware wakes up with any)."""
        c, dim = self.config, self.dim
        for flags, rows, size in ((0, c.scratchpad_rows, 1), (ACC, c.accumulator_rows, 4)):
            self.cmd(0, 1 | 1 << 8 | dim << 16 | ONE << 32, dim * size)
            for row in range(0, rows, dim):
                address = BASE + self.random.randrange(INPUT_BYTES - dim * dim * size)
                self.cmd(2, address, operand(flags | row, min(dim, rows - row), dim))

    def finish(self) -> None:
        """Show all outputs, then all of both local memories, through ordinary stores."""
        self.fence()
        self.dump(OUTPUT, OUTPUT_BYTES)
        c, dim = self.config, self.dim
        memories = [(0, c.scratchpad_rows, 1)]
        if c.read_full_width:
            memories.append((ACC | FULL, c.accumulator_rows, 4))
        for flags, rows, size in memories:
            self.cmd(0, 2, dim * size | ONE << 32)
            step = OUTPUT_BYTES // (dim * size) // dim * dim
            for first in range(0, rows, step):
                last = min(first + step, rows)
                for row in range(first, last, dim):
                    address = OUTPUT + (row - first) * dim * size
                    self.cmd(3, address, operand(flags | row, min(dim, last - row), dim))
                self.fence()
                self.dump(OUTPUT, (last - first) * dim * size)

    # Ordinary commands

    def pick(self, low: int, high: int) -> int:
        """low..high inclusive, the ends more often."""
        return self.random.choice((low, high, self.random.randint(low, high), self.random.randint(low, high)))

    def config_ld(self, state: int | None = None) -> None:
        r, dim = self.random, self.dim
        state = r.randrange(3) if state is None else state
        repeats = r.choice((0, 1, 1, r.randint(1, dim)))
        block_stride = r.randint(dim, 3 * dim)
        stride = r.choice((0, dim, r.randint(1, 200), 4 * dim, 2**64 - r.randint(1, 40)))
        self.cmd(
            0, 1 | r.getrandbits(1) << 2 | state << 3 | repeats << 8 | block_stride << 16 | r.choice(SCALES) << 32, stride
        )  # fmt: skip

    def mvin(self) -> None:
        r, dim, c = self.random, self.dim, self.config
        number = r.randrange(3)
        state = self.model.ld[number]
        to_acc = r.random() < 0.4 and state.repeats == 1
        size = 4 if to_acc and not state.shrink else 1
        limit = max(64, c.dma_max_bytes, 4 * dim) // size
        rows = self.pick(1, dim)
        cols = self.pick(1, dim // state.repeats) if state.repeats > 1 else self.pick(1, limit)
        if r.random() < 0.5:
            cols = min(cols, dim)
        if cols <= dim and r.random() < 0.2:
            rows = r.randint(1, 255)
        memory = c.accumulator_rows if to_acc else c.scratchpad_rows
        reach = rows + (cols - 1) // dim * state.block_stride
        if reach > memory:
            return
        row = self.pick(0, memory - reach)
        stride = state.stride - 2**40 if state.stride >= 2**39 else state.stride
        extent = abs(stride) * (rows - 1)
        if 2 * extent + cols * size >= INPUT_BYTES:
            return
        address = BASE + r.randrange(extent, INPUT_BYTES - extent - cols * size)
        flags = ACC | (ADD if r.getrandbits(1) else 0) if to_acc else 0
        zero = r.random() < 0.1
        self.cmd((2, 1, 14)[number], 0 if zero else address, operand(flags | row, rows, cols))

    def config_ex(
        self, ws: bool | None = None, strides: bool = True, transposes: tuple[int, int] | None = None
    ) -> None:
        r, c = self.random, self.config
        if r.random() < 0.2 and ws is None:
            self.cmd(0, 1 << 7 | r.randint(0, 3) << 16, r.randint(1, 3) << 48)
            return
        ws = (r.random() < 0.5 if c.ws and c.os else c.ws) if ws is None else ws
        if transposes is None:
            transposes = r.choice(((0, 0), (1, 0), (0, 1)) if ws else ((0, 0), (1, 0), (1, 1)))
        ws_bit = ws if c.ws and c.os else r.getrandbits(1)
        a_stride, c_stride = (r.choice((1, 1, 2, 3)), r.choice((1, 1, 2))) if strides else (1, 1)
        act = r.getrandbits(1) if strides else 0
        self.cmd(
            0, ws_bit << 2 | act << 3 | transposes[0] << 8 | transposes[1] << 9 | a_stride << 16 | ONE << 32,
            r.choice((0, 0, 1, 4, 9, 31)) | c_stride << 48,
        )  # fmt: skip
        self.fresh = True

    fresh = True  # the array holds nothing of this dataflow yet
    taken = False  # the last sums have left the array as a result

    def source(self, rows: int, stride: int = 1) -> int:
        reach = max(1, (rows - 1) * stride + 1)
        return self.random.randrange(self.config.scratchpad_rows - reach + 1)

    def matmul(self) -> None:
        r, dim, c, ex = self.random, self.dim, self.config, self.model.ex
        size = lambda: self.pick(1, dim)  # noqa: E731
        none = operand(GARBAGE, dim, dim)
        m, k, n = size(), size(), size()

        def place(rows: int, cols: int, stride: int, transposed: int, p_none: float) -> tuple[int, range]:
            if r.random() < p_none:
                return operand(GARBAGE, rows, cols), range(0)
            stored = cols if transposed else rows
            at = self.source(stored, stride)
            return operand(at, rows, cols), range(at, at + (stored - 1) * stride + 1)

        a, a_rows = place(m, k, ex.stride_a, ex.transpose_a, 0.05)
        b, b_rows = place(k, n, 1, ex.transpose_b, 0.3)
        d, d_rows = place(m, n, 1, 0, 0.4)
        rows, cols = self.pick(1, dim), self.pick(1, dim)
        reach = (rows - 1) * ex.stride_c + 1
        to_acc = r.random() < 0.6 or not c.write_to_scratchpad
        memory = c.accumulator_rows if to_acc else c.scratchpad_rows
        if r.random() < 0.15 or reach > memory:
            target = none
        else:
            row = r.randrange(memory - reach + 1)
            taken = range(row, row + reach)
            if not to_acc and any(
                t.start < taken.stop and taken.start < t.stop for t in (a_rows, b_rows, d_rows)
            ):
                return
            target = operand(row | (ACC | (ADD if r.getrandbits(1) else 0) if to_acc else 0), rows, cols)
        preloaded = self.fresh or (self.taken and not ex.ws) or r.random() < 0.6
        self.fresh, self.taken = False, target != none
        self.cmd(6, b if ex.ws else d, target)
        self.cmd(4 if preloaded else 5, a, d if ex.ws else b)

    def config_st(self, plain: bool = False, stride: int | None = None) -> None:
        r = self.random
        mode = 0 if plain else r.choice((0, 0, 1, 2))
        fields = 0
        if mode:
            orows, ocols = r.randint(1, 5), r.randint(1, 5)
            size, step = r.randint(1, 3), r.randint(1, 3) if mode == 1 else 0
            fields = (
                step << 4 | size << 6 | r.randint(0, 1) << 8 | r.randint(0, 1) << 10 | r.randint(5, 8) << 24
                | r.randint(1, 3) << 32 | r.randint(1, 3) << 40 | orows << 48 | ocols << 56
            )  # fmt: skip
        stride = r.choice((self.dim, r.randint(1, 64), 4 * self.dim)) if stride is None else stride
        scale = r.choice((*SCALES, 0xFFFFFFFF))
        self.cmd(0, 2 | r.getrandbits(1) << 2 | fields, stride | scale << 32)

    def mvout(self) -> None:
        r, dim, c, st = self.random, self.dim, self.config, self.model.st
        acc = r.random() < 0.7 and (c.read_full_width or c.read_small_width)
        full = acc and (not c.read_small_width or (c.read_full_width and r.random() < 0.3))
        if st.mode == "pooled" and full:
            return
        rows = self.pick(1, dim)
        blocks = 1 if full or st.mode != "rows" else r.randint(1, max(1, c.dma_max_bytes // dim))
        if blocks == 1 and st.mode == "rows" and r.random() < 0.2:
            rows = r.randint(1, 255)
        cols = (blocks - 1) * dim + self.pick(1, dim)
        reach = rows + (blocks - 1) * dim if st.mode == "rows" else st.orows * st.ocols
        memory = c.accumulator_rows if acc else c.scratchpad_rows
        if reach > memory:
            return
        row = r.randrange(memory - reach + 1)
        extent = st.stride * (255 if rows > dim else 80) + cols * 4
        if extent >= OUTPUT_BYTES:
            return
        address = OUTPUT + r.randrange(OUTPUT_BYTES - extent)
        self.cmd(3, address, operand((ACC if acc else 0) | (FULL if full else 0) | row, rows, cols))

    def mvout_spad(self) -> None:
        r, dim, c = self.random, self.dim, self.config
        if self.model.st.mode != "rows":
            return
        acc = r.random() < 0.6 and c.read_small_width
        blocks = r.choice((1, 1, r.randint(1, max(1, c.dma_max_bytes // dim))))
        rows, cols = self.pick(1, dim), (blocks - 1) * dim + self.pick(1, dim)
        if blocks == 1 and r.random() < 0.3:
            rows = r.randint(1, 255)
        stride = r.randint(1, 3) if blocks == 1 else 1
        span = rows + (blocks - 1) * dim
        reach = (rows - 1) * stride + 1 + (blocks - 1) * dim
        memory = c.accumulator_rows if acc else c.scratchpad_rows
        if span > memory or reach > c.scratchpad_rows:
            return
        source = r.randrange(memory - span + 1)
        target = r.randrange(c.scratchpad_rows - reach + 1)
        if not acc and target < source + span and source < target + reach:
            return
        self.cmd(23, target | stride << 32, operand((ACC if acc else 0) | source, rows, cols))

    def ordinary(self, count: int, mvout_spad: bool = True) -> None:
        """`count` random loads, products, stores and configurations."""
        for state in range(3):
            self.config_ld(state)
        self.config_ex(ws=self.config.ws)
        self.config_st()
        actions = [self.config_ld] * 2 + [self.mvin] * 6 + [self.config_ex] + [self.matmul] * 6
        actions += [self.config_st] + [self.mvout] * 4 + ([self.mvout_spad] if mvout_spad else [])
        for _ in range(count):
            self.random.choice(actions)()
