"""Executes accelerator commands one after the other on numpy arrays: weight-stationary, accumulator results.

Covers what the convolution unroller emits and what software issues around it (sections 4 to 6 of the ISA). Commands
run in the order given, so two streams that leave the same memory are equivalent, hazards included.
"""

from dataclasses import dataclass, field

import numpy as np

from tests.accel.loop_conv_expansion import (
    COMPUTE_ACCUMULATED,
    COMPUTE_PRELOADED,
    CONFIG,
    GARBAGE,
    MVIN,
    MVIN2,
    MVIN3,
    MVOUT,
    PRELOAD,
    Command,
    Machine,
)

_ROW = (1 << 26) - 1
_LOAD_STATE = {MVIN: 0, MVIN2: 1, MVIN3: 2}


def bits(word: int, high: int, low: int) -> int:
    return word >> low & ((1 << (high - low + 1)) - 1)


def _operand(word: int) -> tuple[int, int, int]:
    """(rows, cols, local address)"""
    return bits(word, 63, 48), bits(word, 47, 32), bits(word, 31, 0)


@dataclass
class _Load:
    stride: int = 0
    block_stride: int = 0
    repeats: int = 1


@dataclass
class Interpreter:
    """Local memories start with junk, so that what was never loaded shows."""

    machine: Machine
    memory: np.ndarray  # uint8
    scratchpad: np.ndarray = field(init=False)  # (rows, dim) int8
    accumulator: np.ndarray = field(init=False)  # (rows, dim) int32

    def __post_init__(self) -> None:
        m, random = self.machine, np.random.default_rng(7)
        self.scratchpad = random.integers(-128, 128, (m.sp_rows, m.dim)).astype(np.int8)
        self.accumulator = random.integers(-(1 << 20), 1 << 20, (m.acc_rows, m.dim)).astype(np.int32)
        self._loads = [_Load() for _ in range(3)]
        self._a_stride = self._c_stride = 1
        self._a_transpose = self._b_transpose = False
        self._st_stride = self._pool_stride = self._activation = 0
        self._pool = 0
        self._scale = np.float32(1)
        self._weights = np.zeros((m.dim, m.dim), np.int64)
        self._preloaded = np.zeros((m.dim, m.dim), np.int64)
        self._c = (0, 0, 0)

    def run(self, commands: list[Command]) -> None:
        for funct, rs1, rs2 in commands:
            if funct == CONFIG:
                [self._config_ex, self._config_ld, self._config_st][bits(rs1, 1, 0)](rs1, rs2)
            elif funct in _LOAD_STATE:
                self._load(self._loads[_LOAD_STATE[funct]], rs1, rs2)
            elif funct == PRELOAD:
                self._preload(rs1, rs2)
            elif funct in (COMPUTE_PRELOADED, COMPUTE_ACCUMULATED):
                self._compute(funct == COMPUTE_PRELOADED, rs1)
            elif funct == MVOUT:
                self._store(rs1, rs2)
            else:
                raise AssertionError(f"command {funct}")

    def _config_ex(self, rs1: int, rs2: int) -> None:
        self._a_stride, self._c_stride = bits(rs1, 31, 16), bits(rs2, 63, 48)
        if not bits(rs1, 7, 7):
            self._a_transpose, self._b_transpose = bool(bits(rs1, 8, 8)), bool(bits(rs1, 9, 9))

    def _config_ld(self, rs1: int, rs2: int) -> None:
        assert rs1 >> 32 == 0x3F800000
        self._loads[bits(rs1, 4, 3)] = _Load(rs2, bits(rs1, 31, 16), max(1, bits(rs1, 15, 8)))

    def _config_st(self, rs1: int, rs2: int) -> None:
        self._activation, self._pool_stride = bits(rs1, 3, 2), bits(rs1, 5, 4)
        self._st_stride = bits(rs2, 31, 0)
        if bits(rs2, 63, 32) != 0xFFFFFFFF:
            self._scale = np.array([bits(rs2, 63, 32)], np.uint32).view(np.float32)[0]
        if self._pool_stride:
            self._pool = rs1

    def _load(self, state: _Load, address: int, rs2: int) -> None:
        rows, cols, word = _operand(rs2)
        dim, row = self.machine.dim, word & _ROW
        is_acc = word >> 31
        dtype, size = (np.int32, 4) if is_acc else (np.int8, 1)
        assert 0 < rows <= dim
        assert 0 < cols <= max(dim, self.machine.dma_max_bytes // size)
        assert rows <= state.block_stride
        data = np.zeros((rows, cols), dtype)
        if address:
            for r in range(rows):
                at = address + r * state.stride
                data[r] = self.memory[at : at + cols * size].view(dtype)
        target = self.accumulator if is_acc else self.scratchpad
        assert state.repeats * cols <= dim or state.repeats == 1
        half = self.machine.sp_rows // 2
        for block in range(0, cols, dim):
            first = row + block // dim * state.block_stride
            part = data[:, block : block + dim]
            assert first + rows <= len(target)
            for copy in range(state.repeats):
                for r in range(rows):
                    if first + r - copy >= (half if first + r >= half else 0):
                        target[first + r - copy, copy * cols : copy * cols + part.shape[1]] = part[r]

    def _preload(self, rs1: int, rs2: int) -> None:
        rows, cols, word = _operand(rs1)
        self._c = _operand(rs2)
        if word == GARBAGE:
            return
        assert 0 < rows <= self.machine.dim
        assert 0 < cols <= self.machine.dim
        self._preloaded = np.zeros((self.machine.dim,) * 2, np.int64)
        if self._b_transpose:
            self._preloaded[:rows, :cols] = self.scratchpad[word : word + cols, :rows].T
        else:
            self._preloaded[:rows, :cols] = self.scratchpad[word : word + rows, :cols]

    def _compute(self, swap: bool, rs1: int) -> None:
        if swap:
            self._weights = self._preloaded
        rows, cols, word = _operand(rs1)
        c_rows, c_cols, c = self._c
        assert c >> 30 == 3
        assert rows == c_rows
        if self._a_transpose:
            a = self.scratchpad[word + np.arange(cols) * self._a_stride, :rows].T
        else:
            a = self.scratchpad[word + np.arange(rows) * self._a_stride, :cols]
        result = a.astype(np.int64) @ self._weights[:cols, :c_cols]
        self.accumulator[(c & _ROW) + np.arange(c_rows) * self._c_stride, :c_cols] += result.astype(np.int32)

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        if self._activation == 1:
            rows = np.maximum(rows, 0)
        return np.clip(np.rint(rows.astype(np.float32) * self._scale), -128, 127).astype(np.int8)

    def _store(self, address: int, rs2: int) -> None:
        rows, cols, word = _operand(rs2)
        assert word >> 29 == 4
        assert 0 < cols <= self.machine.dim
        assert 0 < rows <= self.machine.dim
        base, stride = word & _ROW, self._st_stride
        if not self._pool_stride:
            for r, values in enumerate(self._scaled(self.accumulator[base : base + rows, :cols])):
                self.memory[address + r * stride : address + r * stride + cols] = values.view(np.uint8)
            return
        pool, step = self._pool, self._pool_stride
        orows, ocols, size = bits(pool, 55, 48), bits(pool, 63, 56), bits(pool, 7, 6)
        image = self._scaled(self.accumulator[base : base + orows * ocols, :cols]).reshape(orows, ocols, cols)
        for pr in range(bits(pool, 39, 32)):
            for pc in range(bits(pool, 47, 40)):
                best = np.full(cols, -128, np.int8)
                for r in range(pr * step - bits(pool, 9, 8), pr * step - bits(pool, 9, 8) + size):
                    for c in range(pc * step - bits(pool, 11, 10), pc * step - bits(pool, 11, 10) + size):
                        inside = 0 <= r < orows and 0 <= c < ocols
                        best = np.maximum(best, image[r, c] if inside else np.int8(0))
                at = address + (pr * bits(pool, 31, 24) + pc) * stride
                self.memory[at : at + cols] = best.view(np.uint8)
