"""Embeddings on the accelerator: the host reads indices, loads and stores move the rows of the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.host_core import COMMAND_CYCLES
from baco.compiler.ir.emit import Emitter, Number, parts
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.lookup import Embedding
from baco.compiler.ops.nests import Nest, nest_of

#: Most moves whose data lie in the scratchpad at once; a power of two, so that turns are a mask.
_MOST_TURNS = 16
#: Rows of a table shorter than this the host copies as fast.
_SHORTEST = 32


@dataclass(frozen=True)
class GatherCode(OperatorCode):
    """All that the code of an embedding depends on but its addresses.

    Attributes:
        nest: loops over the indices, with strides of indices and results.
        entries, pitch: rows of the table, and elements from row to row.
        features: elements of a row.
    """

    kinds: ClassVar[str] = "embeddings"

    nest: Nest
    entries: int
    pitch: int
    features: int

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "embedding"

    def __str__(self) -> str:
        return self.kind

    def cost(self, accelerator: Accelerator) -> StepCost:
        """A load and a store of every row, by as few moves as there can be."""
        rows = math.prod(self.nest.shape)
        memory = read_cycles(accelerator, float(rows), self.features, self.pitch)
        elements = float(rows * self.features)
        whole, rest = divmod(self.features, MOVE_BYTES)
        moves = math.ceil(whole / accelerator.dim) + bool(rest)
        commands = rows * (2 * moves + 2)  # the index takes about as long as two
        cycles = max(memory + elements / bytes_per_cycle(accelerator), commands * COMMAND_CYCLES)
        return StepCost(
            cycles + PROFILES[accelerator.timing].begin_and_end,
            2 * elements * accelerator.energy_law.dram_pj,
            0.0,
            2 * elements,
            2 * elements,
        )

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        e = Emitter(name, ["indices", "table", "output"])
        indices, table, target = e.arguments
        emit_gather(e, self, accelerator, (indices, table, target))
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """See `OperatorCode`."""
        return _turns(accelerator) * _tile_rows(accelerator), 0


def plan_gather(op: Embedding, accelerator: Accelerator) -> GatherCode | str:
    """The accelerator's code of an embedding; a text that says why there is none otherwise."""
    entries, features = op.table.shape
    if not accelerator.features.row_functions and accelerator.timing != "gemmini":
        return "programs for Gemmini's own machines leave it to the host"
    if features > 1 and (op.table.strides[1] != 1 or op.output.strides[-1] != 1):
        return "the elements of a row are not neighbours in memory"
    if features < _SHORTEST:
        return f"its rows of {features} elements are short: the host is faster"
    if accelerator.scratchpad_rows < _tile_rows(accelerator):
        return "a row does not fit in the scratchpad"
    lead = len(op.indices.shape)
    nest = nest_of(op.indices.shape, [op.indices.strides, op.output.strides[:lead]])
    return GatherCode(nest, entries, op.table.strides[0], features)


def _tile_rows(accelerator: Accelerator) -> int:
    return accelerator.dim * max(1, MOVE_BYTES // accelerator.dim)


def _turns(accelerator: Accelerator) -> int:
    return max(1, min(accelerator.scratchpad_rows // _tile_rows(accelerator), _MOST_TURNS))


def emit_gather(
    e: Emitter,
    code: GatherCode,
    accelerator: Accelerator,
    addresses: tuple[Number, Number, Number],
) -> None:
    """Write the code of an embedding; `addresses` of indices (int32), table and output.

    A row is moved as up to `dim` rows of as many elements as a move can have.
    """
    indices, table, output = addresses
    wide = max(accelerator.dim, MOVE_BYTES // accelerator.dim * accelerator.dim)
    e.command("config_ld", state=0, block_stride=accelerator.dim, stride=wide)
    e.command("config_st", stride=wide)
    turns = _turns(accelerator)
    turn = e.variable(0)

    def row(index_at: Number, target: Number) -> None:
        index: Number = e.load(index_at, 32)
        index = e.add(index, e.select(e.compare("slt", index, 0), code.entries, 0))
        index = e.max(0, e.min(index, code.entries - 1))
        source = e.add(table, e.mul(index, code.pitch))
        whole = code.features // wide
        # whole moves one below the other, what remains as one short row
        moves = [
            (rows, wide, first * accelerator.dim * wide, count)
            for rows, first, count in parts(whole, accelerator.dim)
        ]
        if code.features % wide:
            moves.append((1, code.features % wide, whole * wide, 1))
        for rows, columns, at, count in moves:
            with e.loop(count) as n:
                behind = e.add(e.mul(n, accelerator.dim * wide), at)
                local = e.mul(e.mod(turn.get(), turns), _tile_rows(accelerator))
                e.command("mvin", address=e.add(source, behind), local=local, cols=columns, rows=rows)
                e.command("mvout", address=e.add(target, behind), local=local, cols=columns, rows=rows)
                turn.set(e.add(turn.get(), 1))

    def loops(level: int, index_at: Number, target: Number) -> None:
        if level == len(code.nest.shape):
            row(index_at, target)
            return
        of_indices, of_output = (steps[level] for steps in code.nest.strides)
        with e.loop(code.nest.shape[level]) as n:
            loops(level + 1, e.add(index_at, e.mul(n, 4 * of_indices)), e.add(target, e.mul(n, of_output)))

    loops(0, indices, output)
