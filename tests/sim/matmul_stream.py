"""Matrix products of any shape as plain commands (no macros), with the results that numpy gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from baco.accel.isa import GARBAGE, IDENTITY_SCALE, Command, encode

BASE = 0x80000000
ACCUMULATOR, ACCUMULATE, READ_FULL = 1 << 31, 1 << 30, 1 << 29


def spans(size: int, dim: int) -> list[tuple[int, int]]:
    """(block, elements in it) for every block of a dimension."""
    return [(block, min(dim, size - block * dim)) for block in range(-(-size // dim))]


@dataclass
class ProductStream:
    """A stream under construction: `lines` to play, `expected` int32 results in the order of its dumps."""

    dim: int
    seed: int
    lines: list[str] = field(default_factory=list)
    expected: list[np.ndarray] = field(default_factory=list)
    at: int = BASE

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.dumps: list[str] = []

    def emit(self, command: str, **fields: int) -> None:
        made: Command = encode(command, **fields)
        self.lines.append(f"cmd {made.funct:x} {made.rs1:x} {made.rs2:x}")

    def matrix(self, rows: int, cols: int) -> tuple[int, np.ndarray]:
        """A random int8 matrix in main memory, packed, at any alignment."""
        values = self.random.integers(-128, 128, (rows, cols)).astype(np.int8)
        if self.random.random() < 0.2:
            values[:] = -128
        address = self.take(rows * cols)
        self.lines.append(f"write {address:x} {values.tobytes().hex()}")
        return address, values

    def take(self, count: int) -> int:
        address = self.at
        self.at += count + int(self.random.integers(0, 9))
        return address

    def product(self, m: int, n: int, k: int, ws: bool) -> None:
        """C = A B, rows of blocks in the scratchpad one after the other, C raw from the accumulator."""
        dim = self.dim
        (a, a_values), (b, b_values) = self.matrix(m, k), self.matrix(k, n)
        ms, ns, ks = spans(m, dim), spans(n, dim), spans(k, dim)
        b_start = len(ms) * len(ks) * dim
        self.emit("CONFIG_EX", dataflow=int(ws), a_stride=1, c_stride=1, acc_scale=IDENTITY_SCALE)
        for state, stride in ((0, k), (1, n)):
            self.emit(
                "CONFIG_LD",
                state=state,
                pixel_repeats=1,
                block_stride=dim,
                scale=IDENTITY_SCALE,
                stride=stride,
            )
        self.emit("CONFIG_ST", stride=4 * n, acc_scale=IDENTITY_SCALE)
        for i, rows in ms:
            for x, cols in ks:
                self.emit(
                    "MVIN",
                    address=a + i * dim * k + x * dim,
                    local=(i * len(ks) + x) * dim,
                    cols=cols,
                    rows=rows,
                )
        for x, rows in ks:
            for j, cols in ns:
                at = b_start + (x * len(ns) + j) * dim
                self.emit("MVIN2", address=b + x * dim * n + j * dim, local=at, cols=cols, rows=rows)
        if ws:
            self._weight_stationary(ms, ns, ks, b_start)
        else:
            self._output_stationary(ms, ns, ks, b_start)
        c = self.take(4 * m * n)
        for i, rows in ms:
            for j, cols in ns:
                local = ACCUMULATOR | READ_FULL | (i * len(ns) + j) * dim
                self.emit("MVOUT", address=c + 4 * (i * dim * n + j * dim), local=local, cols=cols, rows=rows)
        self.dumps.append(f"dump {c:x} {4 * m * n:x}")
        self.expected.append(a_values.astype(np.int64) @ b_values.astype(np.int64))

    def _weight_stationary(self, ms: list, ns: list, ks: list, b_start: int) -> None:
        dim = self.dim
        for j, cols in ns:
            for x, inner in ks:
                for i, rows in ms:
                    new = i == 0
                    weights = b_start + (x * len(ns) + j) * dim if new else GARBAGE
                    target = ACCUMULATOR | (ACCUMULATE if x else 0) | (i * len(ns) + j) * dim
                    self.emit(
                        "PRELOAD", bd=weights, bd_cols=cols, bd_rows=inner, c=target, c_cols=cols, c_rows=rows
                    )
                    self.emit(
                        "COMPUTE_PRELOADED" if new else "COMPUTE_ACCUMULATED",
                        a=(i * len(ks) + x) * dim,
                        a_cols=inner,
                        a_rows=rows,
                        bd=GARBAGE,
                        bd_cols=cols,
                        bd_rows=rows,
                    )

    def _output_stationary(self, ms: list, ns: list, ks: list, b_start: int) -> None:
        dim = self.dim
        for i, rows in ms:
            for j, cols in ns:
                for x, inner in ks:
                    last = x == len(ks) - 1
                    target = ACCUMULATOR | (i * len(ns) + j) * dim if last else GARBAGE
                    self.emit(
                        "PRELOAD", bd=GARBAGE, bd_cols=cols, bd_rows=rows, c=target, c_cols=cols, c_rows=rows
                    )
                    self.emit(
                        "COMPUTE_PRELOADED" if x == 0 else "COMPUTE_ACCUMULATED",
                        a=(i * len(ks) + x) * dim,
                        a_cols=inner,
                        a_rows=rows,
                        bd=b_start + (x * len(ns) + j) * dim,
                        bd_cols=cols,
                        bd_rows=inner,
                    )

    def text(self) -> str:
        """The whole stream: a fence and all dumps at its end."""
        return "\n".join([*self.lines, "fence", *self.dumps]) + "\n"

    def check(self, dumps: tuple[bytes, ...]) -> None:
        """Every result is exact."""
        assert len(dumps) == len(self.expected)
        for data, expected in zip(dumps, self.expected, strict=True):
            found = np.frombuffer(data, "<i4").reshape(expected.shape)
            np.testing.assert_array_equal(found, expected)
