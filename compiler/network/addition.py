"""Residual additions on the accelerator.

Both operands are loaded into the scratchpad, scaled on the way, and the array adds them: one times the identity
matrix, plus the other, or plus the other times the identity matrix where the array takes no bias. Two loads into the
same accumulator rows would do without the array, but implementations may let them land in either order (instruction
set, 6.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.accel.dataflows import executed
from baco.accel.isa import GARBAGE
from baco.accel.number_formats import FORMATS, FloatFormat
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.host_core import COMMAND_CYCLES
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.network.tiles import TileWalk
from baco.compiler.ops.elements import CodedSum
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.nests import Nest, common
from baco.compiler.styles.fused.row_unit import begin_table, end_function, table_rows

#: Cycles of the original for a row of a block, where operands and sums are more than twice what the L2 has room for, and else.
_MISSING, _HITTING, _LARGE = 6.3, 3.9, 2 * 512 * 1024


@dataclass(frozen=True)
class AdditionCode(OperatorCode):
    """All that the code of an addition depends on but its addresses and scales.

    Attributes:
        nest: loops over left, right and output, the innermost one contiguous in all of them.
        relu: whether negative sums become 0.
        table: whether results go through a table (`baco.compiler.network.row_code`).
        diagonals: of floating point, whose loads scale nothing: matrices with scales on their diagonals, by which the operands are
            multiplied, one for both, or one each; 0 for integers.
    """

    kinds: ClassVar[str] = "additions"

    nest: Nest
    relu: bool
    table: bool = False
    diagonals: int = 0

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "addition"

    def __str__(self) -> str:
        by = f", by {self.diagonals} diagonals" if self.diagonals else ""
        return "addition" + by + (", through a table" if self.table else "")

    def cost(self, accelerator: Accelerator) -> StepCost:
        """Two loads and a store; see `_AdditionWriter` for the tiles.

        Each sum is a product with the identity and an addend: a multiplication in every row of the array, a stationary word,
        an access of the accumulator each way, three reads and two writes of the scratchpad, three bytes of main memory.
        """
        nest, dim = self.nest, accelerator.dim
        outer, extent, _ = nest.split()
        rows = float(math.prod(outer.shape))
        if len(nest.shape) < 2:  # contiguous elements, as rows as long as a move can have
            rows, extent = extent / MOVE_BYTES, MOVE_BYTES
        pitches = [steps[-2] if len(steps) > 1 else MOVE_BYTES for steps in nest.strides]
        memory = sum(read_cycles(accelerator, rows, extent, pitch) for pitch in pitches[:2])
        memory += rows * extent / bytes_per_cycle(accelerator)
        tiles = math.ceil(rows / dim) * math.ceil(extent / MOVE_BYTES)
        passes = tiles * math.ceil(min(extent, MOVE_BYTES) / dim)
        turns = 1 if accelerator.features.preload_d and not self.diagonals else 2
        commands = 3 * tiles + 2 * passes * turns
        sums, table = rows * extent, accelerator.energy_law
        profile = PROFILES[accelerator.timing]
        fixed = sums * (sum(table.array_terms(dim, dim + 1, float(dim))) + 3 * table.dram_pj)
        if accelerator.timing == "gemmini":
            memory = max(memory, sums / dim * (_MISSING if 3 * sums > _LARGE else _HITTING))
        cycles = max(memory, commands * COMMAND_CYCLES) + profile.begin_and_end + profile.table * self.table
        return StepCost(cycles, fixed, 2 * sums, 5 * sums, 3 * sums)

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        table = ["table"] if self.table else []
        e = Emitter(
            name, ["identity", "left", "right", "output", *table, "left_scale", "right_scale", "scale"]
        )
        identity, left, right, target, *tables, left_scale, right_scale, scale = e.arguments
        for one in tables:
            begin_table(e, accelerator, one)
        emit_addition(e, self, accelerator, identity, (left, right, target), (left_scale, right_scale, scale))
        if tables:
            end_function(e)
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """See `OperatorCode`."""
        writer = _AdditionWriter(Emitter("rows"), self, accelerator)
        sums = writer.acc_turns * writer.tile_rows
        scratchpad = writer.right + writer.turns * writer.tile_rows
        return scratchpad, max(sums, table_rows(accelerator)) if self.table else sums


def plan_addition(op: Addition, accelerator: Accelerator) -> AdditionCode | None:
    """The accelerator's code of an addition; None if it cannot compute it exactly."""
    features = accelerator.features
    scales = (op.left_scale, op.right_scale)
    able = (
        accelerator.partial_sum_bits >= 10
        and features.read_small_width
        and (features.mvin_scale or scales == (1.0, 1.0))
        and (features.accumulator_scale or op.scale == 1.0)
        and (features.activations or not op.relu)
        and accelerator.scratchpad_rows >= 3 * accelerator.dim
        and accelerator.accumulator_rows >= accelerator.dim
    )
    nest = _nest(op, accelerator) if able else None
    return None if nest is None else AdditionCode(nest, op.relu)


def _nest(op: Addition | CodedSum, accelerator: Accelerator) -> Nest | None:
    """Loops over the operands; None where moves cannot take them, or the host is faster."""
    nest = common((op.left, op.right, op.output))
    if any(step < 0 for steps in nest.strides for step in steps):
        return None
    if nest.shape and any(steps[-1] != 1 for steps in nest.strides):
        return None
    if len(nest.shape) > 1 and nest.shape[-1] * 4 < accelerator.dim:
        return None  # rows of a few elements: the host is faster
    return nest


def plan_coded_sum(op: CodedSum, accelerator: Accelerator) -> AdditionCode | None:
    """The accelerator's code of an addition of codes of floating point; None if it cannot compute it exactly."""
    features = accelerator.features
    diagonals = 1 if op.left_scale == op.right_scale else 2
    able = (
        accelerator.input_format == op.form
        and features.read_small_width
        and (features.accumulator_scale or op.scale == 1.0)
        and (features.activations or not op.relu)
        and accelerator.scratchpad_rows >= (2 + diagonals) * accelerator.dim
        and accelerator.accumulator_rows >= accelerator.dim
    )
    nest = _nest(op, accelerator) if able else None
    return None if nest is None else AdditionCode(nest, op.relu, diagonals=diagonals)


def diagonals(op: CodedSum, dim: int) -> np.ndarray:
    """int8 [dim, dim] or [2 dim, dim], codes: the matrices by which the operands are multiplied."""
    form = FORMATS[op.form]
    assert isinstance(form, FloatFormat)
    scales = dict.fromkeys((op.left_scale, op.right_scale))
    numbers = np.concatenate([np.eye(dim) * scale for scale in scales])
    return form.encode(numbers).astype(np.uint8).view(np.int8)


def identity(dim: int) -> np.ndarray:
    """int8 [dim, dim], the weights of an addition."""
    return np.eye(dim, dtype=np.int8)


def emit_addition(
    e: Emitter,
    code: AdditionCode,
    accelerator: Accelerator,
    weights: Number,
    addresses: tuple[Number, Number, Number],
    scales: tuple[Number, Number, Number],
) -> None:
    """Write the code of an addition.

    Args:
        weights: address of the identity matrix.
        addresses: of left, right and output.
        scales: bits of the float32 scales of left, right and output.
    """
    _AdditionWriter(e, code, accelerator).write(weights, addresses, scales)


class _AdditionWriter:
    """Tiles of up to `dim` rows and `blocks` blocks of columns.

    In the scratchpad the identity matrix lies first; the tiles of left and right take turns in the rest of its two
    halves, so that both come from different banks where there are several. Results take turns in the accumulator.
    """

    def __init__(self, e: Emitter, code: AdditionCode, accelerator: Accelerator) -> None:
        self.e, self.code, self.dim = e, code, accelerator.dim
        self.rule = executed(accelerator.dataflows)
        # what streams in with A where weights stay is preloaded where sums do; with a fixed dataflow the feature may be off
        self.takes_bias = accelerator.features.preload_d and not code.diagonals
        dim, first = accelerator.dim, max(code.diagonals, 1) * accelerator.dim
        half = accelerator.scratchpad_rows // 2
        room = min(half - first, accelerator.scratchpad_rows - half, accelerator.accumulator_rows)
        columns = min(code.nest.split()[1], MOVE_BYTES)
        self.blocks = max(1, min(MOVE_BYTES // dim, -(-columns // dim), room // dim))
        self.tile_rows = self.blocks * dim
        self.left, self.right = first, half
        if half < first + dim:  # a scratchpad of few rows
            self.left, self.right, self.blocks, self.tile_rows = first, first + dim, 1, dim
        self.turns = max(1, min((self.right - self.left) // self.tile_rows, 8))
        self.turns = min(self.turns, (accelerator.scratchpad_rows - self.right) // self.tile_rows)
        self.acc_turns = min(8, accelerator.accumulator_rows // self.tile_rows)

    def write(
        self, weights: Number, addresses: tuple[Number, Number, Number], scales: tuple[Number, Number, Number]
    ) -> None:
        """The whole addition."""
        e, code, dim = self.e, self.code, self.dim
        walk = TileWalk(e, code.nest, dim, self.blocks * dim)
        pitches = walk.pitches
        e.command("config_ex", dataflow=self.rule.config_ex)
        e.command("config_ld", state=2, block_stride=dim, stride=dim)
        e.command("config_ld", state=0, block_stride=dim, stride=pitches[0], scale=scales[0])
        e.command("config_ld", state=1, block_stride=dim, stride=pitches[1], scale=scales[1])
        e.command("config_st", stride=pitches[2], acc_scale=scales[2], activation=int(code.relu))
        for below in range(0, max(code.diagonals, 1) * dim, dim):
            e.command("mvin3", address=e.add(weights, below * dim), local=below, cols=dim, rows=dim)
        walk.each(addresses, self._tile)

    def _tile(self, size: tuple[int, int], addresses: tuple[Number, ...], turn: Number) -> None:
        e, dim = self.e, self.dim
        rows, columns = size
        left, right, output = addresses
        slot = e.mul(e.mod(turn, self.turns), self.tile_rows)
        sums = e.mul(e.mod(turn, self.acc_turns), self.tile_rows)
        a, d = e.add(slot, self.left), e.add(slot, self.right)
        e.command("mvin", address=left, local=a, cols=columns, rows=rows)
        e.command("mvin2", address=right, local=d, cols=columns, rows=rows)
        blocks = [(n * dim, min(dim, columns - n * dim)) for n in range(-(-columns // dim))]
        for below, width in blocks:
            bias = e.add(d, below) if self.takes_bias else GARBAGE
            self._pass(e.add(a, below), bias, e.add(sums, below), (rows, width), accumulate=False)
        if not self.takes_bias:
            for below, width in blocks:
                by = dim if self.code.diagonals == 2 else 0
                self._pass(
                    e.add(d, below), GARBAGE, e.add(sums, below), (rows, width), accumulate=True, by=by
                )
        e.command("mvout", address=output, local=e.local(sums, accumulator=True), cols=columns, rows=rows)

    def _pass(
        self, a: Number, d: Number, c: Number, size: tuple[int, int], *, accumulate: bool, by: int = 0
    ) -> None:
        """Rows of the accumulator become, or grow by, a times the matrix at `by` plus d, all of `size`.

        The matrix comes anew for every pass: whether it is still in the array is not worth knowing.
        """
        rows, width = size
        target = self.e.local(c, accumulator=True, accumulate=accumulate)
        matrix = PassWeights(by, width, width)
        array_pass(self.e, self.dim, matrix, rows, a=a, c=target, d=d, sums_stay=self.rule.sums_stay)
