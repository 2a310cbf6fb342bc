"""Loads of a plan: weights and inputs of a block to the scratchpad."""

from __future__ import annotations

from collections.abc import Sequence

from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.layers.operands import Operands
from baco.compiler.styles.explicit.jobs import MoveJob
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import LARGEST_STRIDE, ExplicitPlan, ImageAxis


class WeightLoads:
    """Brings the weights of a block, a chunk of `dim` rows and a few column blocks at a time.

    In the scratchpad a row holds the weights of one window position and channel for `dim` results; rows that follow each
    other in memory as well are loaded as one run. Transposed weights (products only) have one result and `dim` channels
    in a row instead.
    """

    def __init__(self, e: Emitter, plan: ExplicitPlan, operands: Operands) -> None:
        self._e, self._plan, self._operands = e, plan, operands
        problem, block = plan.layer.problem, plan.block
        self._transposed = plan.layer.weights_transposed
        self._whole_depth = block["C"] == problem.C
        self._whole_rows = self._whole_depth and block["R"] == problem.R
        self._by_tile = block["K"] > plan.tile["K"] and plan.tile["K"] % plan.accelerator.dim != 0
        distance = block["K"] if self._transposed else plan.window_rows
        unit = plan.depth if self._transposed else plan.accelerator.dim
        wide = distance <= LARGEST_STRIDE and unit == plan.accelerator.dim
        self._blocks = plan.load_blocks if wide else 1
        self._unit = unit
        self._distance = distance if wide else plan.accelerator.dim
        self._state = 1

    def configure(self) -> None:
        """Set the load state that only weights use."""
        self._e.command(
            "config_ld",
            state=self._state,
            stride=self._plan.layer.weight.pitch,
            block_stride=max(self._distance, min(self._plan.accelerator.dim, self._longest)),
        )

    @property
    def _longest(self) -> int:
        """Rows of the longest load."""
        plan = self._plan
        if self._transposed:
            return plan.block["K"]
        if self._whole_rows:
            return plan.window_rows
        return plan.block["R"] * plan.block["C"] if self._whole_depth else plan.block["C"]

    @property
    def steps(self) -> int:
        """Loads of a full block."""
        total = 1
        for bound in self._bounds([*(0 for _ in self._plan.blocks), 0]):
            assert isinstance(bound, int)
            total *= bound
        return total

    def job(self, *, whole: bool) -> MoveJob:
        """A job to load a block; started with `Place.numbers` over blocks and the first scratchpad row."""
        loops = len(self._bounds([*(0 for _ in self._plan.blocks), 0]))
        return MoveJob(self._e, len(self._plan.blocks) + 1, loops, self._bounds, self._body, whole=whole)

    def _place(self, parameters: Sequence[Number]) -> Place:
        return Place.of(self._e, self._plan, parameters[:-1])

    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        e, plan, place = self._e, self._plan, self._place(parameters)
        dim = plan.accelerator.dim
        width = self._blocks * self._unit
        if self._transposed:
            return [e.ceil_div(place.weight_depth, width), e.ceil_div(place.extent("K"), dim)]
        columns = [e.ceil_div(place.extent("K"), width)]
        if self._by_tile:
            columns = [e.ceil_div(place.extent("K"), plan.tile["K"]), -(-plan.tile["K"] // width)]
        return [*columns, *self._window(place), e.ceil_div(self._run(place), dim)]

    def _window(self, place: Place) -> list[Number]:
        """Loops over window positions that do not follow each other in memory."""
        if self._whole_rows:
            return []
        return [place.extent("S")] if self._whole_depth else [place.extent("S"), place.extent("R")]

    def _run(self, place: Place) -> Number:
        """Rows that follow each other in memory."""
        e, depth = self._e, place.weight_depth
        if self._whole_rows:
            return e.mul(place.extent("S"), place.extent("R"), depth)
        return e.mul(place.extent("R"), depth) if self._whole_depth else depth

    def _body(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        e, plan, place = self._e, self._plan, self._place(parameters)
        layout, problem, dim = plan.layer.weight, plan.layer.problem, plan.accelerator.dim
        base = e.add(self._operands.weight, e.mul(place.group, layout.group))
        chunk = e.mul(at[-1], dim)
        width = self._blocks * self._unit
        if self._transposed:
            c = e.mul(at[0], width)
            rows, columns = place.extent("K"), e.sub(place.weight_depth, c)
            source = e.add(e.mul(e.add(place.start("K"), chunk), layout.pitch), place.start("C"), c)
            row = e.add(e.mul(at[0], self._blocks * plan.block["K"]), chunk)
        else:
            window = list(at[2:-1] if self._by_tile else at[1:-1])
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
            if self._by_tile:
                tile, inside = e.mul(at[0], plan.tile["K"]), e.mul(at[1], width)
                k = e.add(tile, inside)
                columns = e.min(e.sub(plan.tile["K"], inside), e.sub(place.extent("K"), k))
                block = e.add(e.mul(at[0], plan.tile_columns), e.mul(at[1], self._blocks))
            else:
                k = e.mul(at[0], width)
                columns = e.sub(place.extent("K"), k)
                block = e.mul(at[0], self._blocks)
            rows = self._run(place)
            source = e.add(e.mul(first, layout.pitch), place.start("K"), k)
            row = e.add(
                e.mul(block, plan.window_rows),
                e.mul(e.add(e.mul(s, plan.block["R"]), r), plan.block["C"]),
                chunk,
            )
        columns = e.min(width, columns)
        with e.when(e.compare("sgt", columns, 0)):
            e.command(
                "mvin2",
                address=e.add(base, source),
                local=e.add(parameters[-1], row),
                cols=columns,
                rows=e.min(dim, e.sub(rows, chunk)),
            )


class InputLoads:
    """Brings the pixels of a block, at most `dim` of one image row and a few channel blocks at a time.

    A row of the scratchpad holds `depth` channels of one pixel; pixels outside the image are loads of zeros.
    """

    def __init__(self, e: Emitter, plan: ExplicitPlan, operands: Operands) -> None:
        self._e, self._plan, self._operands = e, plan, operands
        wide = plan.pixels_in <= LARGEST_STRIDE and plan.depth == plan.accelerator.dim
        self._blocks = plan.load_blocks if wide else 1
        self._distance = plan.pixels_in if wide else plan.accelerator.dim
        problem, (height, width), (top, left) = plan.layer.problem, plan.layer.size, plan.layer.padding
        self._above, self._left = top > 0, left > 0
        # the longer loop goes inside: its steps cost the host core the least
        self._by_row = plan.row.extent > -(-plan.column.extent // plan.accelerator.dim)
        self._below = (problem.Q - 1) * problem.stride_h + (
            problem.S - 1
        ) * problem.dilation_h - top >= height
        self._right = (problem.P - 1) * problem.stride_w + (
            problem.R - 1
        ) * problem.dilation_w - left >= width

    def configure(self) -> None:
        """Set the load state that only inputs use."""
        self._e.command(
            "config_ld",
            state=0,
            stride=self._plan.layer.input.pitch * self._plan.column.step,
            block_stride=max(self._distance, 1),
        )

    @property
    def steps(self) -> int:
        """Loads of a full block, those of zeros beside others not counted."""
        total = 1
        for bound in self._bounds([*(0 for _ in self._plan.blocks), 0]):
            assert isinstance(bound, int)
            total *= bound
        return total

    def job(self, *, whole: bool) -> MoveJob:
        """A job to load a block; started with `Place.numbers` over blocks and the first scratchpad row."""
        return MoveJob(self._e, len(self._plan.blocks) + 1, 4, self._bounds, self._body, whole=whole)

    def _positions(self, place: Place, axis: ImageAxis, results: str, window: str) -> Number:
        """Positions of an axis that this block needs."""
        e = self._e
        return e.add(
            e.mul(e.sub(place.extent(results), 1), axis.result),
            e.mul(e.sub(place.extent(window), 1), axis.window),
            1,
        )

    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        e, plan = self._e, self._plan
        place = Place.of(e, plan, parameters[:-1])
        lines = self._positions(place, plan.row, "Q", "S")
        chunks = e.ceil_div(self._positions(place, plan.column, "P", "R"), plan.accelerator.dim)
        return [
            e.ceil_div(place.extent("C"), self._blocks * plan.depth),
            place.extent("N"),
            *((chunks, lines) if self._by_row else (lines, chunks)),
        ]

    def _body(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        e, plan = self._e, self._plan
        place = Place.of(e, plan, parameters[:-1])
        layer, dim = plan.layer, plan.accelerator.dim
        problem, (height, width) = layer.problem, layer.size
        slab, image = at[0], at[1]
        line, number = (at[3], at[2]) if self._by_row else (at[2], at[3])
        chunk = e.mul(number, dim)
        c = e.mul(slab, self._blocks * plan.depth)
        columns = e.min(self._blocks * plan.depth, e.sub(place.extent("C"), c))
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
            e.mul(slab, self._blocks * plan.pixels_in),
            e.mul(e.add(e.mul(image, plan.row.extent), line), plan.column.extent),
            chunk,
        )
        first = e.add(
            e.mul(e.add(e.mul(e.add(place.start("N"), image), height), y), width),
            x,
            e.mul(low, plan.column.step),
        )
        source = e.add(
            self._operands.input,
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
