"""Matrix products scheduled by hand for Gemmini, as the Exo project published them (PLDI 2022), written anew in our IR.

Exo's matrix products on Gemmini do without the loop macros: its users wrote a schedule for each of six products, and a compiler
carried them out. What follows is our own code from what these schedules say; nothing of theirs is in it. All six are the same
program with other numbers. It computes sixteen rows and four blocks of columns at a time:

    for every tile of the rows: for every tile of the columns: for every row of blocks: for every four blocks of columns:
        four blocks of sums become 0 (MVIN of nothing)
        for every four blocks of the depth:
            A: sixteen rows of these four blocks, by one MVIN2, where they are not there yet
            for each of the four:
                B: sixteen rows of the four blocks of columns, by one MVIN3, where they are not there yet
                four times PRELOAD and COMPUTE_PRELOADED, one for each block of columns
        four MVOUT, requantised

Every block has its own place from the first load to the last use: nothing is loaded twice while its tile lasts, nothing is
double-buffered, and the tile that follows overwrites the last one. Loads run ahead as far as the machine's queue lets them.
Configuration stands in front of all loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.ir.emit import Condition, Emitter, Number

#: Blocks of columns computed together, and of the depth that one load of A brings.
_WIDE = 4
_WS = 1


@dataclass(frozen=True)
class HandSchedule:
    """The numbers that tell the six programs apart.

    Attributes:
        row_blocks: blocks of sixteen rows in a tile of the rows.
        column_tiles: tiles of the columns; with one, all of B stays in the scratchpad throughout. With more, the rows of A
            stay while all tiles of the columns pass, and B is loaded again for every tile of the rows.
        sums_by_row: the places of sums go round by blocks of rows, not by blocks of columns.
    """

    row_blocks: int
    column_tiles: int = 1
    sums_by_row: bool = False


#: By rows, columns and depth.
HAND_SCHEDULED: Mapping[tuple[int, int, int], HandSchedule] = {
    (512, 512, 512): HandSchedule(row_blocks=16, column_tiles=2),
    (12544, 256, 64): HandSchedule(row_blocks=196),
    (12544, 64, 256): HandSchedule(row_blocks=8, sums_by_row=True),
    (3136, 512, 128): HandSchedule(row_blocks=49),
    (3136, 128, 512): HandSchedule(row_blocks=14),
    (784, 1024, 256): HandSchedule(row_blocks=7, column_tiles=2),
}


def hand_scheduled_program(
    shape: tuple[int, int, int],
    schedule: HandSchedule,
    accelerator: Accelerator,
    scale: float,
    *,
    apart: bool = False,
) -> Program:
    """The product `output = input weight`, int8 requantised by `scale`, of flat buffers of these names.

    Args:
        shape: rows, columns, depth; the array's side divides the rows, and four times that the others.
        apart: B at the end of the scratchpad, mostly in banks of its own. As published it begins where A ends.

    Raises InfeasibleError where tiles do not divide the product, or exceed a local memory.
    """
    rows, columns, depth = shape
    e = Emitter("product", ("input", "weight", "output"))
    _Product(e, shape, schedule, accelerator, apart).emit(scale)
    e.fence()
    buffers = (
        Buffer("input", (rows * depth,), "int8", "input"),
        Buffer("weight", (depth * columns,), "int8", "input"),
        Buffer("output", (rows * columns,), "int8", "output"),
    )
    return build_program(e.finish(), "product", buffers, accelerator)


class _Product:
    """Writes one product. Rows of local memories are those of the array's side."""

    def __init__(
        self,
        e: Emitter,
        shape: tuple[int, int, int],
        schedule: HandSchedule,
        accelerator: Accelerator,
        apart: bool,
    ) -> None:
        self.e, self.shape, self.schedule, self.dim = e, shape, schedule, accelerator.dim
        wide = _WIDE * self.dim
        self.row_tiles, rest = divmod(shape[0], schedule.row_blocks * self.dim)
        self.column_groups, rest_columns = divmod(shape[1], schedule.column_tiles * wide)
        self.depths, rest_depth = divmod(shape[2], wide)
        if rest or rest_columns or rest_depth:
            raise InfeasibleError(f"a product of {shape} is not made of whole tiles of {schedule}")
        #: Rows that sixteen rows of A take, that four blocks of columns of B take, and of four blocks of sums.
        self.a_rows = self.depths * wide
        self.b_rows = self.depths * _WIDE * wide
        self.sum_rows = wide
        all_a, all_b = schedule.row_blocks * self.a_rows, self.column_groups * self.b_rows
        sum_places = schedule.row_blocks if schedule.sums_by_row else self.column_groups
        for memory, taken, there in (
            ("scratchpad", all_a + all_b, accelerator.scratchpad_rows),
            ("accumulator", sum_places * self.sum_rows, accelerator.accumulator_rows),
        ):
            if taken > there:
                raise InfeasibleError(f"{schedule} takes {taken} rows of the {memory}, which has {there}")
        self.b_start = accelerator.scratchpad_rows - all_b if apart else all_a

    def emit(self, scale: float) -> None:
        e, schedule = self.e, self.schedule
        _, columns, depth = self.shape
        for state, stride in enumerate((0, depth, columns)):
            e.command("config_ld", state=state, stride=stride, block_stride=self.dim)
        e.command("config_st", stride=columns, acc_scale=float32_bits(scale))
        e.command("config_ex", dataflow=_WS)
        with (
            e.loop(self.row_tiles, hint="row_tile") as row_tile,
            e.loop(schedule.column_tiles, hint="column_tile") as column_tile,
            e.loop(schedule.row_blocks, hint="row") as row,
            e.loop(self.column_groups, hint="columns") as group,
        ):
            first = e.compare("eq", row, 0)
            self._block(
                row,
                group,
                e.add(e.mul(row_tile, schedule.row_blocks), row),
                e.add(e.mul(column_tile, self.column_groups), group),
                new_a=e.both(e.compare("eq", column_tile, 0), e.compare("eq", group, 0)),
                new_b=first if schedule.column_tiles > 1 else e.both(first, e.compare("eq", row_tile, 0)),
            )

    def _block(
        self,
        row: Number,
        group: Number,
        row_at: Number,
        group_at: Number,
        *,
        new_a: Condition,
        new_b: Condition,
    ) -> None:
        """Sixteen rows and four blocks of columns, here in their tiles, and `_at` in the matrices."""
        e, dim = self.e, self.dim
        _, columns, depth = self.shape
        source_a, source_b, target = e.arguments
        sums = e.mul(row if self.schedule.sums_by_row else group, self.sum_rows)
        places = [e.add(sums, n * dim) for n in range(_WIDE)]
        for sum_row in places:
            e.command("mvin", address=0, local=e.local(sum_row, accumulator=True), cols=dim, rows=dim)
        with e.loop(self.depths, hint="depth") as at:
            a = e.add(e.mul(row, self.a_rows), e.mul(at, _WIDE * dim))
            with e.when(new_a):
                start = e.add(source_a, e.mul(row_at, dim * depth), e.mul(at, _WIDE * dim))
                e.command("mvin2", address=start, local=a, cols=_WIDE * dim, rows=dim)
            for inner in range(_WIDE):
                b = e.add(
                    e.mul(group, self.b_rows),
                    e.mul(at, _WIDE * _WIDE * dim),
                    self.b_start + inner * _WIDE * dim,
                )
                with e.when(new_b):
                    start = e.add(
                        source_b,
                        e.mul(at, _WIDE * dim * columns),
                        inner * dim * columns,
                        e.mul(group_at, _WIDE * dim),
                    )
                    e.command("mvin3", address=start, local=b, cols=_WIDE * dim, rows=dim)
                for n, sum_row in enumerate(places):
                    self._pass(e.add(a, inner * dim), e.add(b, n * dim), sum_row)
        start = e.add(target, e.mul(row_at, dim * columns), e.mul(group_at, _WIDE * dim))
        for n, sum_row in enumerate(places):
            local = e.local(sum_row, accumulator=True)
            e.command("mvout", address=e.add(start, n * dim), local=local, cols=dim, rows=dim)

    def _pass(self, a: Number, b: Number, sums: Number) -> None:
        """A block of A times a block of B, added to sums."""
        e, dim = self.e, self.dim
        c = e.local(sums, accumulator=True, accumulate=True)
        e.command("preload", bd=b, bd_cols=dim, bd_rows=dim, c=c, c_cols=dim, c_rows=dim)
        nothing = (1 << 32) - 1
        e.command("compute_preloaded", a=a, a_cols=dim, a_rows=dim, bd=nothing, bd_cols=dim, bd_rows=dim)
