"""Loads of a plan: weights and inputs of a block to the scratchpad."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from baco.accel.dataflows import RELEVANT
from baco.accel.isa import LocalAddress
from baco.compiler.analysis.arrays import Values
from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.layers.operands import Operands
from baco.compiler.layers.weight_blocks import BLOCK_CHANNELS, WeightBlocks
from baco.compiler.styles.explicit.extents import ImageAxis, Tiling, product
from baco.compiler.styles.explicit.jobs import MoveJob
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import ExplicitPlan
from baco.compiler.styles.explicit.reach import ImageReach


@dataclass(frozen=True)
class LoadCounts:
    """What loads of all blocks of an operand issue and move, in all groups.

    Attributes:
        fills: blocks brought.
        loads: commands; those of zeros beside the image apart (`zeros`), which are estimated.
        rows: local rows that they write, by column blocks of the array's side; zeros included.
        spans: rows in memory that they fetch.
        bytes: useful bytes of them.
        runs: entries of the innermost loop.
    """

    fills: Values
    loads: Values
    zeros: Values
    rows: Values
    spans: Values
    bytes: Values
    runs: Values


def count_weight_loads(t: Tiling) -> LoadCounts:
    """What `WeightLoads` issues."""
    a, bounds, run = t.a, t.bounds, t.weight_run
    by_dim, by_width = t.chunks(t.dim), t.chunks(t.weight_width)
    apart, turned = t.tiles_apart, t.transposed
    columns = a.where(apart, t.over_tiles("K", by_width), t.over_blocks("K", by_width))
    whole_columns = t.over_blocks("K", by_dim)
    row_blocks = a.where(apart, t.column_blocks, whole_columns)
    rows = bounds["R"] * bounds["S"] * bounds["C"]
    slabs = t.over_blocks("C", by_width)
    times = t.groups * t.repeats(RELEVANT["W"])
    local = a.where(turned, t.over_blocks("C", by_dim) * bounds["K"], row_blocks * rows)
    loads = a.where(
        turned, slabs * whole_columns, columns * run.choose(a, *t.nested_chunks(run.names, t.over_blocks))
    )
    spans = a.where(turned, slabs * bounds["K"], columns * rows)
    runs = a.where(turned, slabs * t.steps["K"], columns * run.choose(a, *t.nested_count(run.names, t.steps)))
    # weights in blocks: powers and elements of one block, each of which lies together, position by position of the window
    lines = columns * bounds["R"] * bounds["S"]
    moves = 2 * lines * t.over_blocks("C", t.chunks(BLOCK_CHANNELS))
    blocked = t.weight_panel > 0
    return LoadCounts(
        fills=times * product([t.steps[name] for name in RELEVANT["W"]]),
        loads=times * a.where(blocked, moves, loads),
        zeros=0 * times,
        rows=times * local,
        spans=times * a.where(blocked, moves, spans),
        bytes=times * rows * bounds["K"],
        runs=times * a.where(blocked, lines * t.steps["C"], runs),
    )


class BlockLoads(ABC):
    """Brings a block of an operand, by loads in nested loops."""

    def __init__(self, e: Emitter, plan: ExplicitPlan) -> None:
        self._e, self._plan = e, plan

    @property
    def steps(self) -> int:
        """Loads of a full block, those of zeros beside others not counted."""
        total = 1
        for bound in self._full_bounds:
            assert isinstance(bound, int)
            total *= bound
        return total

    def job(self, *, whole: bool) -> MoveJob:
        """A job to load a block; started with `Place.numbers` over blocks and the first scratchpad row."""
        loops = len(self._full_bounds)
        return MoveJob(self._e, len(self._plan.blocks) + 1, loops, self._bounds, self._body, whole=whole)

    @property
    def _full_bounds(self) -> Sequence[Number]:
        return self._bounds([*(0 for _ in self._plan.blocks), 0])

    def _place(self, parameters: Sequence[Number]) -> Place:
        return Place.of(self._e, self._plan, parameters[:-1])

    @abstractmethod
    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        """Of the loops, outermost first."""

    @abstractmethod
    def _body(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        """The load of one step."""


class WeightLoads(BlockLoads):
    """Brings the weights of a block, a chunk of `dim` rows and a few column blocks at a time.

    In the scratchpad a row holds the weights of one window position and channel for `dim` results; rows that follow each
    other in memory as well are loaded as one run. Transposed weights (products only) have one result and `dim` channels
    in a row instead.
    """

    def __init__(self, e: Emitter, plan: ExplicitPlan, operands: Operands) -> None:
        super().__init__(e, plan)
        self._operands = operands
        blocks = plan.layer.weight_blocks
        # a load stays within a block of channels, and so within a position of the window
        self._run_along = plan.weight_run.along if blocks is None else ("C",)
        self._most_rows = plan.dim if blocks is None else BLOCK_CHANNELS
        self._width = plan.weight_width
        self._state = 1

    def configure(self) -> None:
        """Set the load state that only weights use."""
        plan = self._plan
        distance = plan.weight_distance if plan.wide_weights else plan.dim
        blocks = plan.layer.weight_blocks
        form = {"packed": int(plan.layer.weight_bits == 4)} if blocks is None else blocks.loaded
        self._e.command(
            "config_ld",
            state=self._state,
            stride=plan.layer.weight_steps.pitch if blocks is None else blocks.row_bytes,
            block_stride=max(distance, min(self._most_rows, self._longest)),
            **form,
        )

    @property
    def _longest(self) -> int:
        """Rows of the longest load."""
        plan = self._plan
        if plan.transposed:
            return plan.block["K"]
        return math.prod(plan.block[name] for name in self._run_along)

    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        e, plan, place = self._e, self._plan, self._place(parameters)
        dim, width = plan.dim, self._width
        if plan.transposed:
            return [e.ceil_div(place.weight_depth, width), e.ceil_div(place.extent("K"), dim)]
        columns = [e.ceil_div(place.extent("K"), width)]
        if plan.tiles_apart:
            columns = [e.ceil_div(place.extent("K"), plan.tile["K"]), -(-plan.tile["K"] // width)]
        # window positions that do not follow each other in memory
        window = [place.extent(name) for name in ("S", "R") if name not in self._run_along]
        return [*columns, *window, e.ceil_div(self._run(place), self._most_rows)]

    def _run(self, place: Place) -> Number:
        """Rows that follow each other in memory."""
        depth = place.weight_depth
        return self._e.mul(*(place.extent(name) for name in ("S", "R") if name in self._run_along), depth)

    def _body(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        e, plan, place = self._e, self._plan, self._place(parameters)
        layout, problem, dim = plan.layer.weight_steps, plan.layer.problem, plan.accelerator.dim
        element = plan.layer.element_bytes
        base = e.add(self._operands.weight, e.mul(place.group, layout.group))
        chunk, width = e.mul(at[-1], self._most_rows), self._width
        if plan.transposed:
            c = e.mul(at[0], width)
            rows, columns = place.extent("K"), e.sub(place.weight_depth, c)
            source = e.address(
                e.mul(e.add(place.start("K"), chunk), layout.pitch), element, place.start("C"), c
            )
            row = e.add(e.mul(at[0], width // plan.depth * plan.block["K"]), chunk)
        else:
            window = list(at[2:-1] if plan.tiles_apart else at[1:-1])
            s = window[0] if window else 0
            r = window[1] if len(window) > 1 else 0
            first = e.add(
                e.mul(
                    e.add(e.mul(e.add(place.start("S"), s), problem.R), place.start("R"), r),
                    problem.C,
                ),
                place.start("C"),
                chunk,
            )
            if plan.tiles_apart:
                tile, inside = e.mul(at[0], plan.tile["K"]), e.mul(at[1], width)
                k = e.add(tile, inside)
                columns = e.min(e.sub(plan.tile["K"], inside), e.sub(place.extent("K"), k))
                block = e.add(e.mul(at[0], plan.tile_columns), e.mul(at[1], width // dim))
            else:
                k = e.mul(at[0], width)
                columns = e.sub(place.extent("K"), k)
                block = e.mul(at[0], width // dim)
            rows = self._run(place)
            if plan.layer.weight_blocks is not None:
                source = self._block(place, plan.layer.weight_blocks, (s, r), at)
            elif plan.layer.weight_bits == 4:
                source = e.add(e.mul(first, layout.pitch), e.div(e.add(place.start("K"), k), 2))
            else:
                source = e.address(e.mul(first, layout.pitch), element, place.start("K"), k)
            row = e.add(
                e.mul(block, plan.window_rows),
                e.mul(e.add(e.mul(s, plan.block["R"]), r), plan.block["C"]),
                chunk,
            )
        columns, local = e.min(width, columns), e.add(parameters[-1], row)
        with e.when(e.compare("sgt", columns, 0)):
            address = e.add(base, source)
            if plan.layer.weight_blocks is not None:
                powers = e.add(local, LocalAddress(accumulate=True, row=0).word)
                e.command("mvin2", address=address, local=powers, cols=columns, rows=1)
                address = e.add(address, width)
            e.command(
                "mvin2",
                address=address,
                local=local,
                cols=columns,
                rows=e.min(self._most_rows, e.sub(rows, chunk)),
            )

    def _block(
        self, place: Place, blocks: WeightBlocks, window: tuple[Number, Number], at: Sequence[Number]
    ) -> Number:
        """Bytes before the powers of a block: the width of a load is that of a panel, and blocks of the scratchpad begin with one."""
        e, problem = self._e, self._plan.layer.problem
        s, r = window
        panel = e.add(e.div(place.start("K"), blocks.columns), at[0])
        position = e.add(e.mul(e.add(place.start("S"), s), problem.R), place.start("R"), r)
        block = e.add(e.div(place.start("C"), BLOCK_CHANNELS), at[-1])
        return e.add(
            e.mul(panel, blocks.panel_bytes(problem.S * problem.R, problem.C)),
            e.mul(position, blocks.position_bytes(problem.C)),
            e.mul(block, blocks.block_bytes),
        )


def count_input_loads(t: Tiling, image: ImageReach) -> LoadCounts:
    """What `InputLoads` issues."""
    a, bounds, steps, row, column = t.a, t.bounds, t.steps, t.row, t.column
    by_dim = t.chunks(t.dim)

    def positions(axis: ImageAxis, results: Values, window: Values) -> Values:
        return axis.positions(results, window) * ((results > 0) & (window > 0))

    def lines(results: Values, window: Values) -> Values:
        # lines between those that windows cover are not loaded
        return a.smaller(positions(row, results, window), results * window)

    widths = t.pairs("P", "R", lambda results, window: positions(column, results, window))
    all_lines = t.pairs("Q", "S", lines).pair_total()
    all_chunks, all_positions = widths.pair_total(by_dim), widths.pair_total()
    over, _ = image.above.lost(t, first=True)
    under, _ = image.below.lost(t, first=False)
    left, left_edges = image.left.lost(t, first=True)
    right, right_edges = image.right.lost(t, first=False)
    inside_lines = a.at_least(all_lines - over - under, 0)
    inside_positions = a.at_least(all_positions - left - right, 0)
    # a chunk at the edge has zeros beside it; whole chunks of zeros are no other number of commands
    edges = left_edges + right_edges
    slabs = t.over_blocks("C", t.chunks(t.input_width))
    runs = a.where(t.lines_inside, all_chunks * steps["Q"] * steps["S"], all_lines * steps["P"] * steps["R"])
    brought = t.groups * t.repeats(RELEVANT["I"])
    times = brought * bounds["N"]
    return LoadCounts(
        fills=brought * product([steps[name] for name in RELEVANT["I"]]),
        loads=times * slabs * inside_lines * all_chunks,
        zeros=times * slabs * ((all_lines - inside_lines) * all_chunks + inside_lines * edges),
        rows=times * t.depth_chunks.total() * all_lines * all_positions,
        spans=times * slabs * inside_lines * inside_positions,
        bytes=times * bounds["C"] * inside_lines * inside_positions,
        runs=times * slabs * runs,
    )


class InputLoads(BlockLoads):
    """Brings the pixels of a block, at most `dim` of one image row and a few channel blocks at a time.

    A row of the scratchpad holds `depth` channels of one pixel; pixels outside the image are loads of zeros.
    """

    def __init__(self, e: Emitter, plan: ExplicitPlan, operands: Operands) -> None:
        super().__init__(e, plan)
        self._operands = operands
        self._width = plan.input_width
        problem, (height, width), (top, left) = plan.layer.problem, plan.layer.size, plan.layer.padding
        self._above, self._left = top > 0, left > 0
        self._below = (problem.Q - 1) * problem.stride_h + (
            problem.S - 1
        ) * problem.dilation_h - top >= height
        self._right = (problem.P - 1) * problem.stride_w + (
            problem.R - 1
        ) * problem.dilation_w - left >= width

    def configure(self) -> None:
        """Set the load state that only inputs use."""
        plan = self._plan
        self._e.command(
            "config_ld",
            state=0,
            stride=plan.layer.input.pitch * plan.column.step * plan.layer.element_bytes,
            block_stride=max(plan.pixels_in if plan.wide_inputs else plan.dim, 1),
        )

    def _positions(self, place: Place, axis: ImageAxis, results: str, window: str) -> Number:
        """Positions of an axis that this block needs."""
        e = self._e
        return e.add(
            e.mul(e.sub(place.extent(results), 1), axis.result),
            e.mul(e.sub(place.extent(window), 1), axis.window),
            1,
        )

    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        e, plan, place = self._e, self._plan, self._place(parameters)
        lines = self._positions(place, plan.row, "Q", "S")
        chunks = e.ceil_div(self._positions(place, plan.column, "P", "R"), plan.accelerator.dim)
        return [
            e.ceil_div(place.extent("C"), self._width),
            place.extent("N"),
            *((chunks, lines) if plan.lines_inside else (lines, chunks)),
        ]

    def _body(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        e, plan, place = self._e, self._plan, self._place(parameters)
        layer, dim = plan.layer, plan.accelerator.dim
        problem, (height, width) = layer.problem, layer.size
        slab, image = at[0], at[1]
        line, number = (at[3], at[2]) if plan.lines_inside else (at[2], at[3])
        chunk = e.mul(number, dim)
        c = e.mul(slab, self._width)
        columns = e.min(self._width, e.sub(place.extent("C"), c))
        count = e.min(dim, e.sub(self._positions(place, plan.column, "P", "R"), chunk))
        y = e.add(
            e.mul(place.start("Q"), problem.stride_h),
            e.mul(place.start("S"), problem.dilation_h),
            e.mul(line, plan.row.step),
            -layer.padding[0],
        )
        x = e.add(
            e.mul(place.start("P"), problem.stride_w),
            e.mul(place.start("R"), problem.dilation_w),
            e.mul(chunk, plan.column.step),
            -layer.padding[1],
        )
        low, high = self._valid(x, y, count)
        row = e.add(
            parameters[-1],
            e.mul(slab, self._width // plan.depth * plan.pixels_in),
            e.mul(e.add(e.mul(image, plan.row.extent), line), plan.column.extent),
            chunk,
        )
        first = e.add(
            e.mul(e.add(e.mul(e.add(place.start("N"), image), height), y), width),
            x,
            e.mul(low, plan.column.step),
        )
        source = e.address(
            self._operands.input,
            layer.element_bytes,
            e.mul(place.group, layer.input.group),
            e.mul(first, layer.input.pitch),
            place.start("C"),
            c,
        )
        # a line that nothing reads would be loaded over again with nothing to wait for in between
        with e.when(self._line_used(place, line) if self._gaps else True):
            self._load(0, row, columns, low, rarely=True)
            self._load(source, e.add(row, low), columns, e.sub(high, low))
            self._load(0, e.add(row, high), columns, e.sub(count, high), rarely=True)

    @property
    def _gaps(self) -> bool:
        """Whether some block may have lines between those that its windows cover."""
        axis, window, bound = self._plan.row, self._plan.block["S"], self._plan.bounds["S"]
        return (axis.window > 1 and window > 1) or (bound % window or window) < axis.result

    def _line_used(self, place: Place, line: Number) -> Condition:
        """Whether a result q and a window position s of the block meet at the line."""
        e, axis = self._e, self._plan.row
        uses: Number = 0
        for s in range(self._plan.block["S"]):
            ahead = e.sub(line, s * axis.window)
            result = e.div(e.max(ahead, 0), axis.result)
            meets = e.both(
                e.compare("eq", e.mul(result, axis.result), ahead),
                e.compare("slt", result, place.extent("Q")),
            )
            uses = e.add(uses, e.select(e.both(meets, e.compare("slt", s, place.extent("S"))), 1, 0))
        return e.compare("sgt", uses, 0)

    def _load(
        self, address: Number, row: Number, columns: Number, rows: Number, *, rarely: bool = False
    ) -> None:
        e = self._e
        with e.when(e.compare("sgt", rows, 0), rarely=rarely):
            e.command("mvin", address=address, local=row, cols=columns, rows=rows)

    def _valid(self, x: Number, y: Number, count: Number) -> tuple[Number, Number]:
        """Positions of a run of `count` from pixel (y, x) that lie in the image: from the first to before the second."""
        e, (height, width), step = self._e, self._plan.layer.size, self._plan.column.step
        low: Number = 0
        high = count
        if self._left:
            low = e.min(count, e.ceil_div(e.max(0, e.sub(0, x)), step))
        if self._right:
            high = e.max(low, e.min(count, e.ceil_div(e.max(0, e.sub(width, x)), step)))
        inside: Condition = True
        if self._above:
            inside = e.compare("sge", y, 0)
        if self._below:
            inside = e.both(inside, e.compare("slt", y, height))
        if inside is not True:
            # a row outside is one load of zeros: all of it lies "before" the image
            low, high = e.select(inside, low, count), e.select(inside, high, count)
        return low, high
