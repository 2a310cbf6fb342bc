"""Runs functions at the instgem level on the numpy accelerator, which asserts what hardware does not say: no compiler involved."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.accel.isa.command import CommandType
from tests.compiler.ir.ir_machine import Machine
from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import LoadState, NumpyGemmini, Place, bits


class StrictGemmini(NumpyGemmini):
    """Also asserts what only timing would show on hardware.

    * Main memory that a store or the host has written is read, or written again, after a fence only.
    * Loads may overtake loads: what is used has not been loaded over a load that nothing had waited for.
    * Loads that add to the accumulator have no products beside them.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dirty = np.zeros(len(self.memory), bool)
        # by memory: the load that wrote each row last, and whether one before it may still be on its way
        sizes = {False: len(self.sp), True: len(self.acc)}
        self.load_of = {memory: np.zeros(size, np.int64) for memory, size in sizes.items()}
        self.raced = {memory: np.zeros(size, bool) for memory, size in sizes.items()}
        self.loads = 0
        self.flying: set[int] = set()
        self.computed = self.has_added = False

    def fence(self) -> None:
        self.dirty[:] = False
        self.flying.clear()
        self.computed = self.has_added = False

    def read(self, addresses: np.ndarray, size: int) -> np.ndarray:
        for byte in range(size):
            assert not self.dirty[addresses - self.base + byte].any(), "read without a fence"
        return super().read(addresses, size)

    def write(self, addresses: np.ndarray, values: np.ndarray, size: int) -> None:
        for byte in range(size):
            assert not self.dirty[addresses - self.base + byte].any(), "written twice without a fence"
        super().write(addresses, values, size)
        for byte in range(size):
            self.dirty[addresses - self.base + byte] = True

    def mvin(self, state: LoadState, address: int, rs2: int) -> None:
        if self.unrolling:  # the unroller waits by itself
            super().mvin(state, address, rs2)
            return
        to, rows, cols = self.place(bits(rs2, 31, 0)), bits(rs2, 63, 48), bits(rs2, 47, 32)
        assert state.block_stride >= rows
        blocks = -(-cols // self.dim)
        places = to.row + np.arange(rows) + np.arange(blocks)[:, None] * state.block_stride
        if to.accumulator and to.accumulate:
            assert not self.computed, "a load adds beside products"
            self.has_added = True
        before = np.unique(self.load_of[to.accumulator][places])
        late = np.array([one for one in before if one in self.flying], np.int64)
        self.raced[to.accumulator][places] = np.isin(self.load_of[to.accumulator][places], late)
        self.loads += 1
        self.flying.add(self.loads)
        self.load_of[to.accumulator][places] = self.loads
        super().mvin(state, address, rs2)

    def used(self, accumulator: bool, rows: np.ndarray) -> None:
        if self.unrolling:
            return
        assert not self.raced[accumulator][rows].any(), "loads of one row may be out of order"
        self.flying.difference_update(np.unique(self.load_of[accumulator][rows]).tolist())

    def matrix(self, word: int, stride: int = 1, transposed: bool = False) -> np.ndarray:
        at, rows, cols = self.place(bits(word, 31, 0)), bits(word, 63, 48), bits(word, 47, 32)
        if not at.garbage:
            self.used(False, at.row + np.arange(cols if transposed else rows) * stride)
        return super().matrix(word, stride, transposed)

    def stored(self, source: Place, row: np.ndarray, col: np.ndarray) -> np.ndarray:
        self.used(source.accumulator, np.asarray(row))
        return super().stored(source, row, col)

    def compute(self, preloaded: bool, rs1: int, rs2: int) -> None:
        target = self.target
        assert target is not None
        if not self.unrolling:
            assert not self.has_added, "a load adds beside products"
            self.computed = True
        if not self.unrolling and not target.place.garbage:
            rows = target.place.row + np.arange(target.rows) * self.ex.stride_c
            # a result waits for the loads of its rows, be it added to them or not
            self.flying.difference_update(np.unique(self.load_of[True][rows]).tolist())
            if target.place.accumulate:
                self.used(True, rows)
            self.raced[True][rows] = False
        super().compute(preloaded, rs1, rs2)


class StrictMachine(Machine):
    """The numpy accelerator with memory, and the host."""

    def __init__(self, accelerator: Accelerator, bytes_: int) -> None:
        a, f = accelerator, accelerator.features
        super().__init__(ModuleOp([]))
        config = GemminiConfig(
            dim=a.dim,
            ws="WS" in a.dataflows,
            os="OS" in a.dataflows,
            scratchpad_rows=a.scratchpad_rows,
            accumulator_rows=a.accumulator_rows,
            partial_sum_bits=a.partial_sum_bits,
            dma_max_bytes=a.dma_max_bytes,
            **{name: value for name, value in f.model_dump().items() if name != "normalizations"},
        )
        random = np.random.default_rng(1)
        self.bytes = random.integers(0, 256, bytes_, dtype=np.uint8)
        self.gemmini = StrictGemmini(config, self.bytes)
        # nothing may depend on what the memories hold at first
        self.gemmini.sp[:] = random.integers(-128, 128, self.gemmini.sp.shape)
        self.gemmini.acc[:] = random.integers(-(2**31), 2**31, self.gemmini.acc.shape)
        self.base = self.gemmini.base
        self.words: list[tuple[int, int, int]] = []  # commands as they go over the port
        self.fences = 0
        self._own: set[int] = set()  # bytes that the host has written: it sees them at once

    def command(self, kind: CommandType, fields: dict[str, int]) -> None:
        """Execute it; a value that does not fit its field is a mistake of the program."""
        registers = {"rs1": kind.subtype or 0, "rs2": 0}
        for field in kind.fields:
            value = fields[field.name]
            assert 0 <= value <= field.mask, f"{kind.name}.{field.name} = {value}"
            registers[field.register] |= value << field.low
        self.words.append((kind.funct, registers["rs1"], registers["rs2"]))
        self.gemmini.execute(*self.words[-1])

    def fence(self) -> None:
        self.fences += 1
        self.gemmini.fence()

    def load(self, address: int, bits: int) -> int:
        at = address - self.base
        assert not self.gemmini.dirty[at : at + bits // 8].any() or at in self._own, "read without a fence"
        return int.from_bytes(self.bytes[at : at + bits // 8].tobytes(), "little", signed=True)

    def store(self, address: int, value: int, bits: int) -> None:
        at = address - self.base
        self._own.update(range(at, at + bits // 8))
        self.gemmini.dirty[at : at + bits // 8] = True
        data = (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
        self.bytes[at : at + bits // 8] = np.frombuffer(data, np.uint8)
