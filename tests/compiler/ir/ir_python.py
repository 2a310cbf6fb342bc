"""Runs functions at the instgem level on the numpy accelerator, by turning them into Python: no compiler involved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects import arith, func, llvm, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from baco.accel.config import Accelerator
from baco.compiler.dialects.instgem import CommandOp, FenceOp
from tests.gemmini.config import GemminiConfig
from tests.gemmini.machine import LoadState, NumpyGemmini, Place, bits

__all__ = ["Machine", "python_of"]

_BINARY = {
    arith.AddiOp: "{} + {}", arith.SubiOp: "{} - {}", arith.MuliOp: "{} * {}", arith.DivUIOp: "{} // {}",
    arith.RemUIOp: "{} % {}", arith.MinSIOp: "min({}, {})", arith.MaxSIOp: "max({}, {})", arith.OrIOp: "{} | {}",
    arith.AndIOp: "{} & {}",
}  # fmt: skip
_COMPARE = {0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">="}


class _Writer:
    def __init__(self) -> None:
        self.names: dict[SSAValue, str] = {}
        self.lines: list[str] = []

    def name(self, value: SSAValue) -> str:
        return self.names.setdefault(value, f"v{len(self.names)}")

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)
        self.put(depth, "pass")

    def op(self, op: Operation, d: int) -> None:
        arguments = [self.name(one) for one in op.operands]
        out = self.name(op.results[0]) if op.results else ""
        if isinstance(op, CommandOp):
            self.command(op, d)
        elif isinstance(op, FenceOp):
            self.put(d, "fence()")
        elif isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            self.put(d, f"{out} = {op.value.value.data}")
        elif type(op) in _BINARY:
            self.put(d, f"{out} = {_BINARY[type(op)].format(*arguments)}")
        elif isinstance(op, arith.CmpiOp):
            self.put(d, f"{out} = int({arguments[0]} {_COMPARE[op.predicate.value.data]} {arguments[1]})")
        elif isinstance(op, arith.SelectOp):
            self.put(d, f"{out} = {arguments[1]} if {arguments[0]} else {arguments[2]}")
        elif isinstance(op, (arith.ExtSIOp, arith.TruncIOp, llvm.IntToPtrOp)):
            self.put(d, f"{out} = {arguments[0]}")
        elif isinstance(op, scf.ForOp):
            body = op.body.block
            index = self.name(body.args[0])
            self.put(d, f"for {index} in range({', '.join(arguments)}):")
            self.block(body, d + 1)
        elif isinstance(op, scf.IfOp):
            self.put(d, f"if {arguments[0]}:")
            self.block(op.true_region.block, d + 1)
        elif isinstance(op, memref.AllocaOp):
            self.put(d, f"{out} = [0]")
        elif isinstance(op, memref.LoadOp):
            self.put(d, f"{out} = {arguments[0]}[0]")
        elif isinstance(op, memref.StoreOp):
            self.put(d, f"{arguments[1]}[0] = {arguments[0]}")
        elif isinstance(op, llvm.LoadOp):
            assert isinstance(op.results[0].type, IntegerType)
            self.put(d, f"{out} = load({arguments[0]}, {op.results[0].type.width.data})")
        elif isinstance(op, llvm.StoreOp):
            width = op.operands[0].type
            assert isinstance(width, IntegerType)
            self.put(d, f"store({arguments[1]}, {arguments[0]}, {width.width.data})")
        elif isinstance(op, func.ReturnOp):
            self.put(d, "return")
        else:
            assert isinstance(op, scf.YieldOp), op.name

    def command(self, op: CommandOp, d: int) -> None:
        known = {"rs1": op.KIND.subtype or 0, "rs2": 0}
        parts: dict[str, list[str]] = {"rs1": [], "rs2": []}
        for field in op.KIND.fields:
            value = op.fields[field.name]
            if isinstance(value, int):
                known[field.register] |= value << field.low
            else:
                # a value that does not fit its field is a mistake of the program
                parts[field.register].append(
                    f"fit({self.name(value)}, {field.mask}, '{op.name}.{field.name}') << {field.low}"
                )
        words = [" | ".join([str(known[r]), *parts[r]]) for r in ("rs1", "rs2")]
        self.put(d, f"command({op.KIND.funct}, {words[0]}, {words[1]})")


def python_of(function: func.FuncOp) -> str:
    """Python source of `run(arguments..., command, fence, load, store, fit)`."""
    writer = _Writer()
    entry = function.body.block
    arguments = ", ".join(writer.name(one) for one in entry.args)
    writer.block(entry, 1)
    head = f"def run({arguments}{', ' if arguments else ''}command, fence, load, store, fit):"
    return "\n".join([head, *writer.lines]) + "\n"


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
        self.computed = self.added = False

    def fence(self) -> None:
        self.dirty[:] = False
        self.flying.clear()
        self.computed = self.added = False

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
            self.added = True
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
            assert not self.added, "a load adds beside products"
            self.computed = True
        if not self.unrolling and not target.place.garbage:
            rows = target.place.row + np.arange(target.rows) * self.ex.stride_c
            # a result waits for the loads of its rows, be it added to them or not
            self.flying.difference_update(np.unique(self.load_of[True][rows]).tolist())
            if target.place.accumulate:
                self.used(True, rows)
            self.raced[True][rows] = False
        super().compute(preloaded, rs1, rs2)


class Machine:
    """The numpy accelerator with memory, and the host."""

    def __init__(self, accelerator: Accelerator, bytes_: int) -> None:
        a, f = accelerator, accelerator.features
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
        self.memory = random.integers(0, 256, bytes_, dtype=np.uint8)
        self.gemmini = StrictGemmini(config, self.memory)
        # nothing may depend on what the memories hold at first
        self.gemmini.sp[:] = random.integers(-128, 128, self.gemmini.sp.shape)
        self.gemmini.acc[:] = random.integers(-(2**31), 2**31, self.gemmini.acc.shape)
        self.base = self.gemmini.base
        self.commands: list[tuple[int, int, int]] = []
        self.fences = 0
        self._own: set[int] = set()  # bytes that the host has written: it sees them at once

    def run(self, function: func.FuncOp, *arguments: int, record: bool = False) -> None:
        """Call a function with byte addresses."""
        scope: dict[str, Callable[..., None]] = {}
        exec(python_of(function), scope)

        def command(funct: int, rs1: int, rs2: int) -> None:
            if record:
                self.commands.append((funct, rs1, rs2))
            self.gemmini.execute(funct, rs1, rs2)

        def fence() -> None:
            self.fences += 1
            self.gemmini.fence()

        scope["run"](*arguments, command, fence, self._load, self._store, _fit)

    def _load(self, address: int, bits: int) -> int:
        at = address - self.base
        assert not self.gemmini.dirty[at : at + bits // 8].any() or at in self._own, "read without a fence"
        return int.from_bytes(self.memory[at : at + bits // 8].tobytes(), "little", signed=True)

    def _store(self, address: int, value: int, bits: int) -> None:
        at = address - self.base
        self._own.update(range(at, at + bits // 8))
        self.gemmini.dirty[at : at + bits // 8] = True
        data = (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
        self.memory[at : at + bits // 8] = np.frombuffer(data, np.uint8)


def _fit(value: int, mask: int, what: str) -> int:
    assert 0 <= value <= mask, f"{what} = {value}"
    return value
