"""What accelerator commands mean, on numpy arrays: the oracle of the functional model and of the RTL.

Written from the ISA specification alone and in a style unlike the C++ model: integers are int64 with explicit
wrapping, and a command is a handful of array operations; loop macros are written out by closed formulas. Only legal programs are modelled: what the specification forbids trips an assertion.
Sections quoted are those of the ISA specification.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tests.gemmini.config import GemminiConfig
from tests.gemmini.macros import LoopMacros
from tests.gemmini.normaliser import Normaliser
from tests.gemmini.row_functions import RowFunction

__all__ = ["GemminiConfig", "LoadState", "NumpyGemmini", "StoreState", "bits", "scaled"]

ONE = 0x3F800000
ADDRESSES = 1 << 40  # memory addresses wrap here


@dataclass
class LoadState:
    shrink: bool = False
    repeats: int = 1
    block_stride: int = 0
    scale: int = ONE
    stride: int = 0
    packed: bool = False
    block_format: int = 0


@dataclass
class StoreState:
    relu: bool = False
    activation: int = 0
    mode: str = "rows"  # or "pooled", "1-D"
    pool_stride: int = 0
    pool_size: int = 0
    upad: int = 0
    lpad: int = 0
    out_dim: int = 0
    porows: int = 0
    pocols: int = 0
    orows: int = 0
    ocols: int = 0
    stride: int = 0
    scale: int = ONE


@dataclass
class OutputState:
    """CONFIG_OUTPUT; float32 bits of every column."""

    scales: np.ndarray
    by_column: bool = False
    zero: int = 0
    low: int = -128
    high: int = 127


@dataclass
class ExecuteState:
    ws: bool = False
    relu: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    stride_a: int = 1
    stride_c: int = 1
    shift: int = 0


@dataclass(frozen=True)
class Place:
    """A decoded local address (3.2)."""

    accumulator: bool
    accumulate: bool
    full: bool
    garbage: bool
    row: int
    norm: int = 0  # normaliser command


@dataclass
class Target:
    place: Place
    rows: int
    cols: int


def bits(value: int, high: int, low: int) -> int:
    """Bits [high:low] of a register value, both inclusive."""
    return (value >> low) & ((1 << (high - low + 1)) - 1)


def wrapped(x: np.ndarray, width: int) -> np.ndarray:
    """Two's complement of `width` bits (int64 in and out)."""
    half = 1 << (width - 1)
    return (x + half) % (2 * half) - half


def saturated(x: np.ndarray, width: int) -> np.ndarray:
    """The nearest in `width` bits."""
    return np.clip(x, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def scaled(x: np.ndarray, scale_bits: int | np.ndarray, width: int) -> np.ndarray:
    """Integers times a float32 scale (or one each), rounded to even, saturated to `width` bits; NaN is the maximum (10)."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    scale = np.asarray(scale_bits, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        product = np.rint(x.astype(np.float32) * scale).astype(np.float64)
    return np.where(np.isnan(product), float(high), np.clip(product, low, high)).astype(np.int64)


def rounded_shift(x: np.ndarray, shift: int) -> np.ndarray:
    """x / 2**shift, ties to even, in exact integers."""
    if shift == 0:
        return x
    unit = 1 << shift
    quotient, rest = np.divmod(x, unit)
    up = (2 * rest > unit) | ((2 * rest == unit) & (quotient % 2 == 1))
    return quotient + up


@dataclass
class NumpyGemmini(LoopMacros):
    """Architectural state and `execute`.

    Attributes:
        sp: [scratchpad_rows, dim] int8 values. acc: [accumulator_rows, dim] int32 values. Both as int64.
        memory: main memory as uint8, its first byte at address `base`.
    """

    config: GemminiConfig
    memory: np.ndarray
    base: int = 0x80000000
    ex: ExecuteState = field(default_factory=ExecuteState)
    ld: list[LoadState] = field(default_factory=lambda: [LoadState() for _ in range(3)])
    st: StoreState = field(default_factory=StoreState)

    def __post_init__(self) -> None:
        c = self.config
        self.dim = c.dim
        self.sp = np.zeros((c.scratchpad_rows, c.dim), np.int64)
        self.acc = np.zeros((c.accumulator_rows, c.dim), np.int64)
        self.row_bits = max(c.scratchpad_rows - 1, c.accumulator_rows - 1).bit_length()
        self.weights = np.zeros((c.dim, c.dim), np.int64)  # W: weight-stationary operand in use
        self.sums = np.zeros((c.dim, c.dim), np.int64)  # P: output-stationary sums
        self.shadow = np.zeros((c.dim, c.dim), np.int64)
        self.target: Target | None = None
        self.normaliser = Normaliser()
        self.output = OutputState(np.zeros(c.dim, np.int64))
        self.table = np.zeros(256, np.int64)
        self.powers = np.zeros(0, np.int64)  # of blocks, by column
        self.function = RowFunction(0, self.table)
        self.apart = self.dim
        self.parameters = self.rows_stored = (
            0  # first accumulator row of gains; rows stored since the configuration
        )
        self.ex.ws = not c.os
        self.reset_macros()

    # Main memory, as arrays of byte addresses.

    def read(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Little-endian signed integers of `size` bytes (1 or 4) at every address."""
        offsets = (addresses % ADDRESSES) - self.base
        assert offsets.size == 0 or (offsets.min() >= 0 and offsets.max() + size <= len(self.memory))
        value = sum(self.memory[offsets + n].astype(np.int64) << (8 * n) for n in range(size))
        return wrapped(np.asarray(value), 8 * size)

    def write(self, addresses: np.ndarray, values: np.ndarray, size: int) -> None:
        offsets = (addresses % ADDRESSES) - self.base
        assert offsets.size == 0 or (offsets.min() >= 0 and offsets.max() + size <= len(self.memory))
        lanes = np.arange(size)
        # one assignment, rows outermost: where the rows of a store overlap, the last one stays
        self.memory[offsets[..., None] + lanes] = ((values[..., None] >> (8 * lanes)) & 255).astype(np.uint8)

    def place(self, word: int) -> Place:
        """Decode a local address; the garbage pattern needs every flag, the garbage bit and all row bits."""
        garbage = bits(word, 31, 29) == 7 and bits(word, self.row_bits, 0) == (2 << self.row_bits) - 1
        return Place(
            bits(word, 31, 31) == 1, bits(word, 30, 30) == 1, bits(word, 29, 29) == 1, garbage,
            bits(word, self.row_bits - 1, 0), bits(word, 28, 26) if self.config.normalizations else 0,
        )  # fmt: skip

    def execute(self, funct: int, rs1: int, rs2: int) -> None:
        """One command. Counter operations and the translation and clock commands change nothing modelled."""
        if funct == 0:
            (self.config_ex, self.config_ld, self.config_st, self.config_norm)[rs1 & 3](rs1, rs2)
        elif funct in (2, 1, 14):
            self.mvin(self.ld[(2, 1, 14).index(funct)], rs1, rs2)
        elif funct == 3:
            self.mvout(rs1, rs2)
        elif funct == 26:
            self.config_function(rs1, rs2)
        elif funct == 27:
            words = self.acc[self.place(rs1).row :].reshape(-1)[:128] & 0xFFFFFFFF
            self.table = np.stack([words & 0xFFFF, words >> 16], 1).reshape(256)
        elif funct == 28:
            zero, low, high = (int(wrapped(np.int64(bits(rs1, n + 7, n)), 8)) for n in (8, 16, 24))
            self.output = OutputState(self.output.scales, rs1 & 1 == 1, zero, low, high)
        elif funct == 29:
            column = bits(rs1, 7, 1) * 2
            self.output.scales[column : column + 2] = (bits(rs2, 31, 0), bits(rs2, 63, 32))[
                : self.dim - column
            ]
        elif funct == 23:
            self.mvout_spad(rs1, rs2)
        elif funct == 6:
            self.preload(rs1, rs2)
        elif funct in (4, 5):
            self.compute(funct == 4, rs1, rs2)
        elif funct in range(8, 14) or funct in (24, 25) or funct in range(15, 22):
            self.macro(funct, rs1, rs2)
        else:
            assert funct in (7, 22, 126), funct

    # Configuration (4).

    def config_ex(self, rs1: int, rs2: int) -> None:
        self.ex.stride_a, self.ex.stride_c = bits(rs1, 31, 16), bits(rs2, 63, 48)
        if bits(rs1, 7, 7):
            return
        c = self.config
        self.ex.ws = bits(rs1, 2, 2) == 1 if c.ws and c.os else c.ws
        self.ex.relu = bits(rs1, 4, 3) == 1 and c.activations
        self.ex.transpose_a, self.ex.transpose_b = bits(rs1, 8, 8) == 1, bits(rs1, 9, 9) == 1
        self.ex.shift = bits(rs2, 4, 0)
        legal = {(0, 0), (1, 0), (0, 1)} if self.ex.ws else {(0, 0), (1, 0), (1, 1)}
        assert (bits(rs1, 8, 8), bits(rs1, 9, 9)) in legal

    def config_ld(self, rs1: int, rs2: int) -> None:
        repeats = max(1, bits(rs1, 15, 8)) if self.config.first_layer else 1
        self.ld[bits(rs1, 4, 3)] = LoadState(
            bits(rs1, 2, 2) == 1,
            repeats,
            bits(rs1, 31, 16),
            bits(rs1, 63, 32),
            rs2 % ADDRESSES,
            bits(rs1, 5, 5) == 1,
            bits(rs1, 7, 6) if self.config.block_weights else 0,
        )

    def config_st(self, rs1: int, rs2: int) -> None:
        st = self.st
        st.activation = bits(rs1, 3, 2)
        assert st.activation < 2 or self.config.normalizations
        st.relu = bits(rs1, 3, 2) == 1 and self.config.activations
        st.stride = bits(rs2, 31, 0)
        if bits(rs2, 63, 32) != 0xFFFFFFFF:
            st.scale = bits(rs2, 63, 32)
        stride, size = bits(rs1, 5, 4), bits(rs1, 7, 6)
        if stride and self.config.max_pool:
            st.mode = "pooled"
            st.pool_stride, st.pool_size = stride, size
            st.upad, st.lpad = bits(rs1, 9, 8), bits(rs1, 11, 10)
            st.porows, st.pocols = bits(rs1, 39, 32), bits(rs1, 47, 40)
        else:
            st.mode = "1-D" if size else "rows"
        if st.mode != "rows":
            st.out_dim, st.orows, st.ocols = bits(rs1, 31, 24), bits(rs1, 55, 48), bits(rs1, 63, 56)

    def config_norm(self, rs1: int, rs2: int) -> None:
        assert self.config.normalizations
        normal = self.normaliser
        normal.slot = bits(rs1, 15, 8)
        if bits(rs1, 17, 17):
            return
        self.st.activation = self.st.activation & 3 | bits(rs1, 16, 16) << 2
        assert self.st.activation <= 4
        constants = [
            int(wrapped(np.int64(n), 32)) for n in (bits(rs1, 63, 32), bits(rs2, 31, 0), bits(rs2, 63, 32))
        ]
        normal.qb, normal.qc = constants[1:]
        if bits(rs1, 18, 18):
            normal.qln2_inv = constants[0]
        else:
            normal.qln2 = constants[0]

    # Data movement (5).

    def scaled_load(self, values: np.ndarray, state: LoadState, wide: bool) -> np.ndarray:
        on = self.config.mvin_scale_acc if wide else self.config.mvin_scale
        return (
            scaled(values, state.scale, 32 if wide else self.config.element_bits)
            if on and state.scale != ONE
            else values
        )

    def mvin(self, state: LoadState, address: int, rs2: int) -> None:
        to, rows, cols = self.place(bits(rs2, 31, 0)), bits(rs2, 63, 48), bits(rs2, 47, 32)
        wide = to.accumulator and not state.shrink
        size = 4 if wide else self.config.element_bytes
        assert 1 <= rows <= 255
        assert 1 <= cols <= max(64, self.config.dma_max_bytes, 4 * self.dim) // size
        r, c = np.mgrid[0:rows, 0:cols]
        if state.block_format and bits(rs2, 30, 30):
            assert rows == 1
            self.powers = self.read(address + c[0], 1) & 255 if address else np.zeros(cols, np.int64)
            return
        if address and state.block_format:
            assert not to.accumulator
            half = state.packed and state.block_format == 1
            codes = self.read(address + r * state.stride + (c // 2 if half else c), 1) & 255
            kind = 0 if half else state.block_format
            values = self.of_blocks(kind, codes >> 4 * (c % 2) & 15 if half else codes, self.powers[c])
        elif address and self.config.packed_weights and state.packed and not wide:
            pairs = self.read(address + r * state.stride + c // 2, 1)
            values = self.scaled_load(wrapped(pairs >> 4 * (c % 2), 4), state, wide)
        elif address:
            values = self.scaled_load(self.read(address + r * state.stride + c * size, size), state, wide)
        else:
            values = np.zeros((rows, cols), np.int64)
        row, col = to.row + r + c // self.dim * state.block_stride, c % self.dim
        if to.accumulator:
            assert state.repeats == 1
            values = values if wide else self.as_sums(values)
            self.acc[row, col] = self.added(values, self.acc[row, col]) if to.accumulate else values
            return
        half = self.config.scratchpad_rows // 2
        for p in range(state.repeats):
            kept = row - p >= np.where((row >= half) & (state.repeats > 1), half, 0)
            self.sp[(row - p)[kept], (col + p * cols)[kept]] = values[kept]

    def of_blocks(self, kind: int, codes: np.ndarray, powers: np.ndarray) -> np.ndarray:
        """Elements of blocks (0 E2M1, 1 E4M3, 2 E5M2, 3 INT8) and the bytes of their powers as the scratchpad has them."""
        raise NotImplementedError("of elements in floating point")

    def as_sums(self, values: np.ndarray) -> np.ndarray:
        """Elements as accumulator values."""
        return values

    def added(self, values: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Sums of accumulator values."""
        return wrapped(before + values, 32)

    def narrowed(self, values: np.ndarray, col: np.ndarray) -> np.ndarray:
        """int32 accumulator values of these columns as a store of elements sends them."""
        if self.st.activation >= 2:
            factor = np.array([self.st.scale], np.uint32).view(np.float32)[0]
            return self.normaliser.results(values, self.st.activation, factor)
        if self.st.relu:
            values = np.maximum(values, 0)
        if self.config.requantization:
            own = self.output.scales[col] if self.output.by_column else self.st.scale
            moved = scaled(values, own, 9) + self.output.zero
            return np.minimum(np.maximum(moved, self.output.low), self.output.high)
        scale = self.st.scale if self.config.accumulator_scale else ONE
        bits = self.config.element_bits
        return saturated(values, bits) if scale == ONE else scaled(values, scale, bits)

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Of every window, the third and fourth dimension."""
        return np.asarray(values.max(axis=(2, 3)))

    def stored(self, source: Place, row: np.ndarray, col: np.ndarray) -> np.ndarray:
        if not source.accumulator:
            return self.sp[row, col]
        values = self.acc[row, col]
        return values if source.full else self.narrowed(values, col)

    def mvout(self, address: int, rs2: int) -> None:
        source, rows, cols = self.place(bits(rs2, 31, 0)), bits(rs2, 63, 48), bits(rs2, 47, 32)
        st, narrow = self.st, self.config.element_bytes
        size = 4 if source.accumulator and source.full else narrow
        if self.config.normalizations and source.accumulator and st.mode == "rows":
            for n in range(rows):
                c = np.arange(cols)
                self.normaliser.take(
                    self.acc[source.row + n + c // self.dim * self.dim, c % self.dim], source.norm
                )
        if source.norm:
            return
        if st.mode == "pooled":
            assert size == narrow
            assert cols <= self.dim
            pr, pc, wr, wc, c = np.ogrid[: st.porows, : st.pocols, : st.pool_size, : st.pool_size, :cols]
            row, col = pr * st.pool_stride + wr - st.upad, pc * st.pool_stride + wc - st.lpad
            inside = (row >= 0) & (row < st.orows) & (col >= 0) & (col < st.ocols)
            held = self.stored(source, np.where(inside, source.row + row * st.ocols + col, 0), c)
            values = np.where(inside, self.by_table(held), 0)
            pixel = (pr * st.out_dim + pc)[:, :, 0, 0]
            self.write(address + pixel * st.stride + c[:, :, 0, 0] * narrow, self.largest(values), narrow)
            return
        if st.mode == "1-D":
            rows = st.orows * st.ocols
        r, c = np.mgrid[0:rows, 0:cols]
        assert (
            1
            <= rows
            <= (self.dim if cols > self.dim or (self.function.function >= 2 and size == narrow) else 255)
            or st.mode == "1-D"
        )
        assert cols <= self.dim or (size == narrow and st.mode == "rows")
        pixel = r // st.ocols * st.out_dim + r % st.ocols if st.mode == "1-D" else r
        apart = self.apart if size == narrow else self.dim
        values = self.stored(source, source.row + r + c // self.dim * apart, c % self.dim)
        if size == narrow:
            values = self.by_table(values)
            if self.function.function >= 2:
                gains = self.acc[self.parameters :].reshape(-1)[:cols] & 0xFFFFFFFF
                gain, offset = wrapped(gains & 0xFFFF, 16), wrapped(gains >> 16, 16)
                function = replace(self.function, table=self.table, gain=gain, offset=offset)
                if function.function == 3 and function.product:
                    place = self.parameters + source.row + r + c // self.dim * self.dim
                    others = wrapped(self.acc[place, c % self.dim] & 0xFFFF, 16)
                    values = np.stack(
                        [replace(function, other=b).of(a) for a, b in zip(values, others, strict=True)]
                    )
                else:
                    values = np.stack(
                        [function.of(row, self.rows_stored + i) for i, row in enumerate(values)]
                    )
                self.rows_stored += rows
        self.write(address + pixel * st.stride + c * size, values, size)

    def config_function(self, rs1: int, rs2: int) -> None:
        self.function = RowFunction(
            bits(rs1, 1, 0), self.table, bool(bits(rs1, 2, 2)), bool(bits(rs1, 3, 3)), bits(rs1, 8, 4), bits(rs1, 31, 16),
            bits(rs1, 63, 32), bits(rs2, 47, 0), product=bool(bits(rs1, 9, 9)),
        )  # fmt: skip
        self.parameters, self.rows_stored = self.place(bits(rs1, 63, 32)).row, 0
        self.apart = (bits(rs2, 55, 48) if bits(rs1, 1, 0) == 2 else 0) or self.dim

    def by_table(self, values: np.ndarray) -> np.ndarray:
        """Through the table, if that is the function of stores."""
        return replace(self.function, table=self.table).of(values) if self.function.function == 1 else values

    def mvout_spad(self, rs1: int, rs2: int) -> None:
        source, rows, cols = self.place(bits(rs2, 31, 0)), bits(rs2, 63, 48), bits(rs2, 47, 32)
        to, stride = self.place(bits(rs1, 31, 0)), bits(rs1, 63, 32)
        assert self.st.mode == "rows"
        assert not to.accumulator
        assert not (source.accumulator and source.full)
        r, c = np.mgrid[0:rows, 0:cols]
        block = c // self.dim * self.dim
        values = self.by_table(self.stored(source, source.row + r + c // self.dim * self.apart, c % self.dim))
        if self.function.function == 2:
            function = replace(self.function, table=self.table)
            values = np.stack([function.of(row, self.rows_stored + i) for i, row in enumerate(values)])
            self.rows_stored += rows
        self.sp[to.row + r * stride + block, c % self.dim] = values

    # Matrix products (6).

    def matrix(self, word: int, stride: int = 1, transposed: bool = False) -> np.ndarray:
        """A source operand, zero-padded to dim x dim; garbage is zero."""
        at, rows, cols = self.place(bits(word, 31, 0)), bits(word, 63, 48), bits(word, 47, 32)
        assert rows <= self.dim
        assert cols <= self.dim
        full = np.zeros((self.dim, self.dim), np.int64)
        if at.garbage:
            return full
        assert not at.accumulator
        i, j = np.ogrid[:rows, :cols]
        full[:rows, :cols] = (
            self.sp[at.row + j * stride, i] if transposed else self.sp[at.row + i * stride, j]
        )
        return full

    def preload(self, rs1: int, rs2: int) -> None:
        c = self.config
        if self.ex.ws:
            self.shadow = self.matrix(rs1, transposed=self.ex.transpose_b)
        elif c.preload_d or c.ws:
            self.shadow = self.matrix(rs1)
        else:
            self.shadow = np.zeros((self.dim, self.dim), np.int64)
        self.target = Target(self.place(bits(rs2, 31, 0)), bits(rs2, 63, 48), bits(rs2, 47, 32))

    def products(self, a: np.ndarray, d: np.ndarray) -> np.ndarray:
        """What leaves a weight-stationary array."""
        return wrapped(a @ self.weights + d, self.config.partial_sum_bits)

    def limited(self, result: np.ndarray) -> np.ndarray:
        """Results of the array as elements."""
        result = saturated(result, self.config.element_bits)
        return np.maximum(result, 0) if self.ex.relu else result

    def compute(self, preloaded: bool, rs1: int, rs2: int) -> None:
        c, target = self.config, self.target
        assert target is not None
        self.target = None
        a = self.matrix(rs1, self.ex.stride_a, self.ex.transpose_a)
        if self.ex.ws:
            if preloaded:
                self.weights = self.shadow
            d = self.matrix(rs2) if c.preload_d or c.os else np.zeros_like(a)
            result = self.products(a, d)
        else:
            b = self.matrix(rs2, transposed=self.ex.transpose_b)
            start = self.shadow if preloaded else self.sums
            self.sums = wrapped(start + a @ b, c.partial_sum_bits)
            limit = 1 << (c.partial_sum_bits - 1)
            result = np.clip(rounded_shift(self.sums, self.ex.shift), -limit, limit - 1)
        to = target.place
        if to.garbage:
            return
        result = result[: target.rows, : target.cols]
        i, j = np.mgrid[: target.rows, : target.cols]
        row = to.row + i * self.ex.stride_c
        if to.accumulator:
            self.acc[row, j] = self.added(result, self.acc[row, j]) if to.accumulate else result
        else:
            assert c.write_to_scratchpad
            self.sp[row, j] = self.limited(result)
