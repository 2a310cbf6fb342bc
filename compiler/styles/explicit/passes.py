"""Passes of the array over one tile, for either dataflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from baco.accel.dataflows import DATAFLOWS
from baco.accel.isa import GARBAGE
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import Values
from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.styles.explicit.extents import LARGEST_STRIDE, PIXELS, Tiling, product
from baco.compiler.styles.explicit.jobs import Pace
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import ExplicitPlan

_ACCUMULATE = 1 << 30
#: Passes of one weight block between which nothing else is issued; the reservation station holds about as many.
UNINTERRUPTED = 8
#: Moves that may be issued at once where that is less work for the host core.
MOVES_IN_A_ROW = 2


@dataclass(frozen=True)
class PassCounts:
    """Passes of all tiles, in all groups.

    Attributes:
        passes: preloads, and as many computes.
        weight_blocks: weight-stationary: blocks of weights shifted into the array, visits of a block counted again;
            output-stationary: chains of sums begun. The computes that are `compute_preloaded`.
        runs: runs of result rows that passes cut in pieces of the array's side.
        chunks: these pieces, of one block of weights.
        steps: blocks of weights of all tiles of one place in the image.
    """

    passes: Values
    weight_blocks: Values
    runs: Values
    chunks: Values
    steps: Values


def count_passes(t: Tiling) -> PassCounts:
    """What `Passes` issues."""
    a, bounds, rows, tiles = t.a, t.bounds, t.pass_rows, t.tiles_counted
    by_dim = t.chunks(t.dim)
    chunks = rows.choose(
        a,
        rows.run.choose(a, *t.pixel_chunks),
        t.over_tiles("Q", by_dim) * bounds["P"] * bounds["N"],
        t.over_tiles("N", by_dim) * bounds["P"] * bounds["Q"],
    )
    runs = rows.choose(
        a,
        rows.run.choose(a, *t.pixel_runs),
        tiles["Q"] * bounds["P"] * bounds["N"],
        tiles["N"] * bounds["P"] * bounds["Q"],
    )
    columns = t.groups * t.column_blocks
    steps = columns * bounds["R"] * bounds["S"] * t.depth_chunks.total()
    # sums that begin anew in the array over the whole reduction
    chains = t.pairs(
        "R", "S", lambda r, s: t.depth_chunks.total(lambda chunks: a.pieces(r * s * chunks, t.chain))
    ).pair_total()
    return PassCounts(
        passes=steps * chunks,
        weight_blocks=a.where(
            t.weights_stay, steps * product([tiles[name] for name in PIXELS]), columns * chunks * chains
        ),
        runs=a.where(t.weights_stay, steps * runs, steps * chunks),
        chunks=chunks,
        steps=steps,
    )


class Passes:
    """Products of a tile.

    The rows of a pass are pixels that lie evenly spaced in I and in the tile: neighbours in an image row, whole image
    rows one after the other where nothing lies between them, or neighbours in a column or across images where that
    takes fewer passes.
    """

    def __init__(self, e: Emitter, plan: ExplicitPlan) -> None:
        self._e, self._plan = e, plan
        self._distance = plan.distance
        self._names = plan.pass_rows.along
        if max(self._distance[self._names[0]]) > LARGEST_STRIDE:
            raise InfeasibleError("the rows of a pass are too far apart in the scratchpad")
        self._outer = [name for name in ("N", "Q", "P") if name not in self._names and plan.tile[name] > 1]
        self._rows: int = plan.tile_passes(self._names)
        self._rule = DATAFLOWS[plan.dataflow]
        self._beat: Literal["block", "run", "pass", "slab"] = "slab" if self._rule.sums_stay else "pass"
        self._stride_a, self._stride_c = self._distance[self._names[0]]

    @property
    def count(self) -> int:
        """Passes over a full tile in a full block."""
        plan = self._plan
        depth = plan.block["S"] * plan.block["R"] * plan.depth_blocks
        return plan.tile_columns * depth * self._rows

    @property
    def _run_passes(self) -> int:
        """Passes of a run of rows."""
        rows = math.prod(self._plan.tile[name] for name in self._names)
        return -(-rows // self._plan.dim)

    def settle(self, moves: float) -> None:
        """Decide where moves are issued between passes, before any are written.

        The less often, the less it costs the host core; but moves must not come in long rows, nor passes in rows so
        long that moves start late. After every weight block if they are few enough then, else after every run of rows
        or pass; where sums stay after the channels of a window position.

        Args:
            moves: to be issued during a visit.
        """
        if self._rule.sums_stay:
            return
        blocks = (
            self._plan.tile_columns * self._plan.block["S"] * self._plan.block["R"] * self._plan.depth_blocks
        )
        if self._rows <= UNINTERRUPTED or moves <= MOVES_IN_A_ROW * blocks:
            self._beat = "block"
        elif self._outer and self._run_passes <= UNINTERRUPTED:
            self._beat = "run"
        else:
            self._beat = "pass"

    @property
    def beats(self) -> int:
        """How often a pace hears of passes, over a full tile in a full block."""
        passes = {
            "block": self._rows,
            "run": self._run_passes,
            "pass": 1,
            "slab": self._plan.depth_blocks,
        }
        beats = self.count // passes[self._beat]
        if self._beat in ("run", "pass") and self._outer:
            # the copy of the loops with the first pass does not count
            size = self._plan.tile[self._outer[0]]
            beats = beats * (size - 1) // size
        return max(1, beats)

    def configure(self) -> None:
        """Set how matrix products run."""
        self._e.command(
            "config_ex",
            dataflow=self._rule.config_ex,
            b_transpose=int(self._plan.layer.weights_transposed),
            a_stride=max(1, self._stride_a),
            c_stride=max(1, self._stride_c),
        )

    def emit(
        self, place: Place, inputs: Number, weights: Number, results: Number, overwrite: Condition, pace: Pace
    ) -> None:
        """All passes of a visit.

        Args:
            place: the visit.
            inputs, weights, results: first rows of the block's I and W and of the tile.
            overwrite: the accumulator holds nothing that belongs to the tile.
            pace: told of passes done, see `beats`.
        """
        e, dim = self._e, self._plan.accelerator.dim
        with e.loop(e.ceil_div(place.tile_extent("K"), dim), hint="k") as block:
            columns = e.min(dim, e.sub(place.tile_extent("K"), e.mul(block, dim)))
            result = e.add(results, e.mul(block, self._plan.pixels_out))
            weight = self._weights(place, weights, block)
            image = self._image(place, inputs)
            multiply = self._output_stationary if self._rule.sums_stay else self._weight_stationary
            multiply(place, image, weight, result, columns, overwrite, pace)

    # ---------------------------------------------------------------- addresses

    def _image(self, place: Place, inputs: Number) -> Number:
        """Row of I of the tile's first result at the first window position and channel."""
        e = self._e
        return e.add(
            inputs, *(e.mul(place.inside(name), self._distance[name][0]) for name in ("N", "Q", "P"))
        )

    def _weights(self, place: Place, weights: Number, block: Number) -> Number:
        """Row of W of a column block's first weights."""
        e, plan = self._e, self._plan
        if plan.layer.weights_transposed:
            return e.add(weights, place.inside("K"), e.mul(block, plan.accelerator.dim))
        tile = e.mul(place.tiles.get("K", 0), plan.tile_columns)
        return e.add(weights, e.mul(e.add(tile, block), plan.window_rows))

    def _offsets(self, s: Number, r: Number, c: Number) -> tuple[Number, Number]:
        """Rows of I and of W from their first ones to window position (s, r) and channel block c."""
        e, plan = self._e, self._plan
        line = plan.column.extent
        a = e.add(e.mul(s, plan.row.window * line), e.mul(r, plan.column.window), e.mul(c, plan.pixels_in))
        if plan.layer.weights_transposed:
            return a, e.mul(c, plan.block["K"])
        w = e.add(e.mul(e.add(e.mul(s, plan.block["R"]), r), plan.block["C"]), e.mul(c, plan.depth))
        return a, w

    def _rows_of(self, place: Place) -> Number:
        """Rows of a run."""
        return self._e.mul(*(place.tile_extent(name) for name in self._names))

    # ---------------------------------------------------------------- dataflows

    def _weight_stationary(
        self,
        place: Place,
        image: Number,
        weight: Number,
        result: Number,
        columns: Number,
        overwrite: Condition,
        pace: Pace,
    ) -> None:
        """Weights stay for all rows of the tile: only the first pass of a block brings any."""
        e, plan, dim = self._e, self._plan, self._plan.accelerator.dim
        depth = place.extent("C")
        with (
            e.loop(place.extent("S"), hint="s") as s,
            e.loop(place.extent("R"), hint="r") as r,
            e.loop(e.ceil_div(depth, plan.depth), hint="c") as c,
        ):
            inner = e.min(plan.depth, e.sub(depth, e.mul(c, plan.depth)))
            a_offset, w_offset = self._offsets(s, r, c)
            a_base, w_base = e.add(image, a_offset), e.add(weight, w_offset)
            first = e.both(overwrite, e.compare("eq", e.bit_or(e.bit_or(s, r), c), 0))
            c_base = e.local(
                result, accumulator=True, accumulate=(not first) if isinstance(first, bool) else True
            )
            if not isinstance(first, bool):
                c_base = e.sub(c_base, e.select(first, _ACCUMULATE, 0))
            # where weights are stored transposed, their rows are the columns of what is preloaded: the size given to
            # the hazard logic covers both, and channels beyond A's are multiplied by nothing
            stored = dim if plan.layer.weights_transposed else inner
            block = PassWeights(w_base, inner, columns, stored)
            inside = None if self._beat == "block" else pace
            self._walk(place, self._outer, block, a_base, c_base, inside, first=True)
            if inside is None:
                pace.beat()

    def _walk(
        self,
        place: Place,
        outer: Sequence[str],
        weights: PassWeights,
        a: Number,
        c: Number,
        pace: Pace | None,
        *,
        first: bool,
    ) -> None:
        """All passes of a weight block; with `first`, its very first one, which brings the weights, apart.

        Loops have to be written several times for that; `pace` is told of the passes in the one that runs most.
        """
        e = self._e
        if not outer:
            inside = None if self._beat == "run" else pace
            self._run(self._rows_of(place), weights, a, c, inside, first=first)
            if pace is not None and inside is None:
                pace.beat()
            return
        name, *rest = outer
        distance_a, distance_c = self._distance[name]
        if first:
            self._walk(place, rest, weights, a, c, None, first=True)
        with e.loop(place.tile_extent(name), int(first), hint=name.lower()) as at:
            self._walk(
                place,
                rest,
                weights,
                e.add(a, e.mul(at, distance_a)),
                e.add(c, e.mul(at, distance_c)),
                pace,
                first=False,
            )

    def _run(
        self, extent: Number, weights: PassWeights, a: Number, c: Number, pace: Pace | None, *, first: bool
    ) -> None:
        """The passes of one run of rows."""
        e, dim = self._e, self._plan.accelerator.dim
        if first:
            array_pass(e, dim, weights, e.min(dim, extent), a=a, c=c)
        whole = e.div(extent, dim)
        with e.loop(whole, int(first), hint="row") as chunk:
            row = e.mul(chunk, dim)
            a_row, c_row = e.add(a, e.mul(row, self._stride_a)), e.add(c, e.mul(row, self._stride_c))
            array_pass(e, dim, weights, dim, a=a_row, c=c_row, new=False)
            if pace is not None:
                pace.beat()
        # what is left apart: so the size of a pass in the loop is known
        row = e.mul(whole, dim)
        rest = e.sub(extent, row)
        some = e.compare("sgt", rest, 0)
        with e.when(e.both(some, e.compare("sgt", whole, 0)) if first else some):
            a_row, c_row = e.add(a, e.mul(row, self._stride_a)), e.add(c, e.mul(row, self._stride_c))
            array_pass(e, dim, weights, rest, a=a_row, c=c_row, new=False)

    def _output_stationary(
        self,
        place: Place,
        image: Number,
        weight: Number,
        result: Number,
        columns: Number,
        overwrite: Condition,
        pace: Pace,
    ) -> None:
        """Sums of a block of results stay in the array for the whole reduction, or as long as they fit partial sums."""
        e, plan, dim = self._e, self._plan, self._plan.accelerator.dim
        depth = place.extent("C")
        slabs = e.ceil_div(depth, plan.depth)
        steps = e.mul(place.extent("S"), place.extent("R"), slabs)
        chain = plan.chain
        with ExitStack() as loops:
            a_run: Number = 0
            c_run: Number = 0
            for name in self._outer:
                at = loops.enter_context(e.loop(place.tile_extent(name), hint=name.lower()))
                a_run = e.add(a_run, e.mul(at, self._distance[name][0]))
                c_run = e.add(c_run, e.mul(at, self._distance[name][1]))
            extent = e.mul(*(place.tile_extent(name) for name in self._names))
            chunk = loops.enter_context(e.loop(e.ceil_div(extent, dim), hint="row"))
            row = e.mul(chunk, dim)
            rows = e.min(dim, e.sub(extent, row))
            a_row = e.add(a_run, e.mul(row, self._stride_a))
            c_row = e.add(c_run, e.mul(row, self._stride_c))
            target = e.local(e.add(result, c_row), accumulator=True)
            with e.loop(place.extent("S"), hint="s") as s, e.loop(place.extent("R"), hint="r") as r:
                with e.loop(slabs, hint="c") as c:
                    inner = e.min(plan.depth, e.sub(depth, e.mul(c, plan.depth)))
                    a_offset, w_offset = self._offsets(s, r, c)
                    step = e.add(e.mul(e.add(e.mul(s, place.extent("R")), r), slabs), c)
                    first, last = self._ends(step, steps, chain)
                    fresh = e.both(overwrite, e.compare("slt", step, chain))
                    accumulate = e.select(fresh, 0, _ACCUMULATE)
                    c_word = e.select(last, e.bit_or(target, accumulate), GARBAGE)
                    e.command(
                        "preload",
                        bd=GARBAGE, bd_rows=dim, bd_cols=dim, c=c_word, c_rows=rows, c_cols=columns,
                    )  # fmt: skip
                    operands = {
                        "a": e.add(image, a_row, a_offset), "a_rows": rows, "a_cols": inner,
                        "bd": e.add(weight, w_offset), "bd_rows": inner, "bd_cols": columns,
                    }  # fmt: skip
                    with e.when(first):
                        e.command("compute_preloaded", **operands)
                    if first is not True:
                        with e.when(e.compare("ne", e.select(first, 1, 0), 1)):
                            e.command("compute_accumulated", **operands)
                pace.beat()

    def _ends(self, step: Number, steps: Number, chain: int) -> tuple[Condition, Condition]:
        """Whether a step begins a chain of sums, and whether it ends one."""
        e = self._e
        block = self._plan.block
        if block["S"] * block["R"] * self._plan.depth_blocks <= chain:
            return e.compare("eq", step, 0), e.compare("eq", step, e.sub(steps, 1))
        at = e.mod(step, chain)
        end = e.bit_or(
            e.select(e.compare("eq", at, chain - 1), 1, 0),
            e.select(e.compare("eq", step, e.sub(steps, 1)), 1, 0),
        )
        return e.compare("eq", at, 0), e.compare("ne", end, 0)
