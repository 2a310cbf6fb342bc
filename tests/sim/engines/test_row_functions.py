"""Stores with tables, softmax, normalisation and products, on the functional model and the RTL against numpy's integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.gemmini.row_functions import Ints, RowFunction
from tests.machines import UNITS, WIDE
from tests.sim.harness_helpers import BASE, command

#: A slice of a store is a whole row of the first, half a row of the second.
MACHINES = {
    "small": UNITS,
    "wide": WIDE,
}
IN, OUT, PARAMETERS = BASE, BASE + 0x20000, BASE + 0x10000
ACCUMULATOR = 1 << 31


class RowStream:
    """Stores of rows of one matrix, each tile of up to DIM rows from the scratchpad or the accumulator."""

    def __init__(self, machine: Accelerator, rng: np.random.Generator) -> None:
        self.machine, self.rng, self.dim = machine, rng, machine.dim
        self.lines: list[str] = []
        self.results: list[Ints] = []
        self.at = OUT
        self.table = np.zeros(256, np.int64)

    def load_table(self, table: Ints) -> None:
        self.table = table
        rows = max(1, 128 // self.dim)
        words = (table[0::2] | table[1::2] << 16).astype("<u4").tobytes()
        self._load(words, rows, min(self.dim, 128), ACCUMULATOR | self._last(rows), 4)
        self.lines.append(command("LOAD_TABLE", table=ACCUMULATOR | self._last(rows)))

    def _last(self, rows: int) -> int:
        return self.machine.accumulator_rows - rows

    def _load(self, data: bytes, rows: int, cols: int, local: int, size: int) -> None:
        """A dense matrix, DIM columns a load."""
        at = PARAMETERS if size == 4 else IN
        self.lines.append(f"write {at:x} {data.hex()}\n")
        for c in range(0, cols, self.dim):
            some = min(self.dim, cols - c)
            self.lines.append(
                command(
                    "CONFIG_LD", stride=cols * size, block_stride=self.dim, scale=1.0, shrink=int(size == 1)
                )
            )
            for r in range(0, rows, self.dim):
                self.lines.append(
                    command(
                        "MVIN",
                        address=at + (r * cols + c) * size,
                        local=local + r + c // self.dim * self.dim,
                        cols=some,
                        rows=min(self.dim, rows - r),
                    )
                )

    def configure(self, function: RowFunction) -> None:
        fields = {
            "function": function.function,
            "centre": int(function.centre),
            "causal": int(function.causal),
        }
        parameter = function.numerator
        if function.gain is not None and function.offset is not None:
            words = ((function.gain & 0xFFFF) | (function.offset & 0xFFFF) << 16).astype("<u4")
            blocks = -(-len(words) // self.dim)
            whole = np.zeros(blocks * self.dim, "<u4")
            whole[: len(words)] = words
            parameter = ACCUMULATOR | self._last(blocks)
            self._load(whole.tobytes(), blocks, self.dim, parameter, 4)
        if function.product:
            parameter = ACCUMULATOR | self.machine.accumulator_rows // 2
        self.lines.append(
            command(
                "CONFIG_FUNCTION",
                **fields,
                shift=function.shift,
                product=int(function.product),
                valid=function.valid,
                parameter=parameter,
                epsilon=function.epsilon,
            )
        )

    def multiply(self, x: Ints, others: Ints, function: RowFunction, accumulator: bool, first: int) -> None:
        """Rows, each by its own, from local row `first` on; `others` of 32 bits, of which 16 count."""
        rows, cols = x.shape
        local = first | (ACCUMULATOR if accumulator else 0)
        self._load(x.astype(np.int8).tobytes(), rows, cols, local, 1)
        half = self.machine.accumulator_rows // 2
        self._load(others.astype("<i4").tobytes(), rows, cols, ACCUMULATOR | (half + first), 4)
        self.lines.append(command("CONFIG_ST", stride=cols, acc_scale=1.0))
        self.lines.append(command("MVOUT", address=self.at, local=local, cols=cols, rows=rows))
        self.lines.append(f"fence\ndump {self.at:x} {rows * cols:x}\n")
        low = (others + 2**15) % 2**16 - 2**15
        self.results.append(np.stack([replace(function, other=b).of(a) for a, b in zip(x, low, strict=True)]))
        self.at += rows * cols

    def store(self, x: Ints, function: RowFunction, accumulator: bool, index: int = 0) -> None:
        rows, cols = x.shape
        local = ACCUMULATOR if accumulator else 0
        self._load(x.astype(np.int8).tobytes(), rows, cols, local, 1)
        self.lines.append(command("CONFIG_ST", stride=cols, acc_scale=1.0))
        self.lines.append(command("MVOUT", address=self.at, local=local, cols=cols, rows=rows))
        self.lines.append(f"fence\ndump {self.at:x} {rows * cols:x}\n")
        self.results.append(np.stack([function.of(row, index + i) for i, row in enumerate(x)]))
        self.at += rows * cols

    def check(self, engine: str, folder: Path) -> None:
        stream = folder / "rows.txt"
        stream.write_text("".join(self.lines))
        dumps = run_job(Job(self.machine, stream=stream), engine=engine).memory_dumps
        assert len(dumps) == len(self.results)
        for place, (got, wanted) in enumerate(zip(dumps, self.results, strict=True)):
            np.testing.assert_array_equal(
                np.frombuffer(got, np.int8).reshape(wanted.shape), wanted, err_msg=f"store {place}"
            )


def rows_of(rng: np.random.Generator, rows: int, cols: int) -> Ints:
    """Random rows of all kinds: full range, narrow, constant, one large element."""
    kinds = rng.integers(0, 4, rows)
    full = rng.integers(-128, 128, (rows, cols))
    narrow = rng.integers(-3, 4, (rows, cols))
    constant = np.broadcast_to(rng.integers(-128, 128, (rows, 1)), (rows, cols))
    spike = np.where(np.arange(cols) == rng.integers(0, cols), 127, -128 + rng.integers(0, 2, (rows, cols)))
    return np.choose(kinds[:, None], [full, narrow, constant, spike]).astype(np.int64)


def exponentials(scale: float) -> Ints:
    return np.rint(np.exp(-np.arange(256) * scale) * 65535).astype(np.int64)


@pytest.fixture(params=["functional", "rtl"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Accelerator:
    return MACHINES[str(request.param)]


def test_tables(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    stream = RowStream(machine, rng)
    stream.load_table(rng.integers(0, 65536, 256))
    function = RowFunction(1, stream.table)
    stream.configure(function)
    for cols in (1, 3, 4, 5, 16, 37, 64):
        stream.store(rows_of(rng, int(rng.integers(1, 5)), cols), function, bool(rng.integers(2)))
    stream.check(engine, tmp_path)


def test_softmax(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    stream = RowStream(machine, rng)
    for scale, out, shift in (
        (0.05, 1 / 127, 0),
        (0.7, 1 / 127, 3),
        (0.001, 1 / 5000, 5),
        (0.01, 1 / 40000, 15),
        (0.2, 1 / 2**22, 15),
        (0.2, 1.0, 0),
    ):
        stream.load_table(exponentials(scale))
        function = RowFunction(2, stream.table, shift=shift, numerator=round(2 ** (24 - shift) / out))
        stream.configure(function)
        for cols in (1, 2, 4, 7, 64, 130, 300):
            stream.store(rows_of(rng, int(rng.integers(1, 5)), cols), function, bool(rng.integers(2)))
    stream.check(engine, tmp_path)


def test_causal_softmax_goes_on_from_store_to_store(
    engine: str, machine: Accelerator, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    stream = RowStream(machine, rng)
    stream.load_table(exponentials(0.1))
    for first, cols in ((1, 9), (0, 17), (14, 8), (65530, 40)):
        function = RowFunction(2, stream.table, causal=True, valid=first, numerator=127 << 24)
        stream.configure(function)
        done = 0
        for rows in (4, 2, 3):
            stream.store(rows_of(rng, rows, cols), function, bool(rng.integers(2)), done)
            done += rows
    stream.check(engine, tmp_path)


def test_normalisation(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    stream = RowStream(machine, rng)
    for cols in (1, 2, 4, 6, 33, 64, 200, 256):
        for centre in (True, False):
            shift = int(rng.integers(7, 32))
            function = RowFunction(
                3,
                stream.table,
                centre=centre,
                shift=shift,
                epsilon=int(rng.choice([0, 1, 12345, 2**48 - 1])),
                gain=rng.integers(-(2**15), 2**15, cols),
                offset=rng.integers(-(2**15), 2**15, cols),
            )
            stream.configure(function)
            for _ in range(2):
                stream.store(rows_of(rng, int(rng.integers(1, 5)), cols), function, bool(rng.integers(2)))
    stream.check(engine, tmp_path)


def test_products(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    """Factors and operands of all sizes: of networks, so large that results are limited, upper bits that do not count."""
    rng = np.random.default_rng(6)
    stream = RowStream(machine, rng)
    for factor, shift, bits in (
        (2049 << 8, 18, 7),
        (4095 << 8, 31, 7),
        (2**28 - 1, 7, 15),
        (77, 9, 31),
        (0, 7, 7),
    ):
        function = RowFunction(
            3,
            stream.table,
            centre=True,
            shift=shift,
            epsilon=factor | int(rng.integers(2**20)) << 28,
            product=True,
        )
        stream.configure(function)
        for cols in (1, 4, 7, 16, 37, 64):
            rows = int(rng.integers(1, 5))
            others = rng.integers(-(2**bits), 2**bits, (rows, cols))
            first = int(rng.integers(0, 40))
            stream.multiply(rows_of(rng, rows, cols), others, function, bool(rng.integers(2)), first)
    stream.check(engine, tmp_path)


def test_ordinary_stores_go_on_after_functions(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    stream = RowStream(machine, rng)
    stream.load_table(rng.integers(0, 65536, 256))
    for function in (
        RowFunction(1, stream.table),
        RowFunction(2, stream.table, numerator=2**31),
        RowFunction(1, np.arange(256)),
    ):
        if function.table is not stream.table:
            function = RowFunction(0, stream.table)
        stream.configure(function)
        x = rows_of(rng, 4, 24)
        stream.store(x, function if function.function else RowFunction(1, np.arange(256)), True)
    stream.check(engine, tmp_path)
