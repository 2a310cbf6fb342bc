"""What tiles in the accumulator begin with, and how they leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from baco.accel.isa import float32_bits
from baco.compiler.analysis.arrays import Values
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.operands import Operands
from baco.compiler.styles.explicit.extents import NONE, PIXELS, REDUCTION, Tiling, product
from baco.compiler.styles.explicit.jobs import MoveJob
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import ExplicitPlan
from baco.compiler.styles.explicit.pool import pooled_tile
from baco.workloads.problem import DIMS

#: Workspace of int32 partial sums, dense `[N, Q, P, K]` of one group.
PARTIAL_SUMS = "partial_sums"
_INT32 = 4


def spill_bytes(plan: ExplicitPlan) -> int:
    """Bytes of the workspace for partial sums; raw results take them in themselves."""
    return (
        plan.layer.pixels_out * plan.layer.problem.K * _INT32
        if plan.spills and plan.layer.scale is not None
        else 0
    )


@dataclass(frozen=True)
class ResultCounts:
    """What it takes to move all tiles between accumulator and memory once, in all groups.

    Attributes:
        columns: column blocks of tiles of one group.
        moves: commands.
        rows: local rows, and as many in memory.
        runs: entries of the innermost loop.
    """

    columns: Values
    moves: Values
    rows: Values
    runs: Values


def count_results(t: Tiling) -> ResultCounts:
    """What `Results` issues."""
    columns = t.column_blocks
    return ResultCounts(
        columns=columns,
        moves=t.groups * columns * t.result_run.choose(t.a, *t.pixel_chunks),
        rows=t.groups * columns * product([t.bounds[name] for name in PIXELS]),
        runs=t.groups * columns * t.result_run.choose(t.a, *t.pixel_runs),
    )


def count_fences(t: Tiling) -> Values:
    """Fences before partial sums are read again: at every step of the loops from the outermost to the innermost that
    tiles come back in."""
    leaving = [t.a.where(t.holds[name], NONE, t.rank[name]) for name in REDUCTION]
    innermost = reduce(t.a.smaller, leaving)
    steps = [t.a.where((t.rank[name] >= innermost) & t.runs[name], t.steps[name], 1) for name in DIMS]
    return t.a.where(innermost < NONE, t.groups * product(steps) - 1, 0)


class Results:
    """Moves between accumulator and main memory. Jobs are started with `Place.numbers` and the tile's first row."""

    def __init__(self, e: Emitter, plan: ExplicitPlan, operands: Operands) -> None:
        self._e, self._plan, self._operands = e, plan, operands
        self._parameters = len(plan.blocks) + len(plan.tiles) + 1
        self._run = plan.result_run.along
        self._outer = [name for name in ("N", "Q") if name not in self._run]

    # ---------------------------------------------------------------- places

    def _place(self, parameters: Sequence[Number]) -> Place:
        return Place.of(self._e, self._plan, parameters[:-1])

    def _bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        """Column blocks, pixels not in a run, chunks of a run."""
        e, place, dim = self._e, self._place(parameters), self._plan.accelerator.dim
        run = e.mul(*(place.tile_extent(name) for name in self._run))
        return [
            e.ceil_div(place.tile_extent("K"), dim),
            *(place.tile_extent(name) for name in self._outer),
            e.ceil_div(run, dim),
        ]

    @property
    def steps(self) -> int:
        """Moves of a full tile."""
        total = 1
        for bound in self._bounds([0] * self._parameters):
            assert isinstance(bound, int)
            total *= bound
        return total

    def _job(self, body: object, *, whole: bool, after: MoveJob | None = None) -> MoveJob:
        loops = 2 + len(self._outer)
        return MoveJob(self._e, self._parameters, loops, self._bounds, body, whole=whole, after=after)  # type: ignore[arg-type]

    def _piece(
        self, parameters: Sequence[Number], at: Sequence[Number]
    ) -> tuple[Place, Number, Number, Number, Number, Number]:
        """Of a step: place, first result column, columns, first pixel of the layer, rows, first accumulator row."""
        e, plan, place = self._e, self._plan, self._place(parameters)
        dim, problem = plan.accelerator.dim, plan.layer.problem
        k = e.mul(at[0], dim)
        outer = dict(zip(self._outer, at[1:-1], strict=True))
        chunk = e.mul(at[-1], dim)
        run = e.mul(*(place.tile_extent(name) for name in self._run))
        n, q = (e.add(place.tile_start(name), outer.get(name, 0)) for name in ("N", "Q"))
        pixel = e.add(e.mul(e.add(e.mul(n, problem.Q), q), problem.P), place.tile_start("P"), chunk)
        row = e.add(
            parameters[-1],
            e.mul(at[0], plan.pixels_out),
            e.mul(e.add(e.mul(outer.get("N", 0), plan.tile["Q"]), outer.get("Q", 0)), plan.tile["P"]),
            chunk,
        )
        columns = e.min(dim, e.sub(place.tile_extent("K"), k))
        return place, e.add(place.tile_start("K"), k), columns, pixel, e.min(dim, e.sub(run, chunk)), row

    # ---------------------------------------------------------------- beginning

    @property
    def kinds(self) -> tuple[str, ...]:
        """Loads that tiles begin with: bias, residual, sums (of an earlier visit)."""
        layer = self._plan.layer
        asked = (
            ("bias", layer.bias),
            ("residual", layer.residual_scale is not None),
            ("sums", self._plan.spills),
        )
        return tuple(name for name, wanted in asked if wanted)

    def configure_load(self, kind: str) -> None:
        """Set the load state that these loads share."""
        layer, dim = self._plan.layer, self._plan.accelerator.dim
        if kind == "bias":
            self._e.command("config_ld", state=2, stride=0, block_stride=dim)
        elif kind == "residual":
            assert layer.residual_scale is not None
            scale = float32_bits(layer.residual_scale)
            stride = layer.output.pitch * layer.element_bytes
            self._e.command("config_ld", state=2, stride=stride, block_stride=dim, shrink=1, scale=scale)
        else:
            self._e.command("config_ld", state=2, stride=self._sums[1] * _INT32, block_stride=dim)

    def load_job(
        self, kind: str, *, whole: bool, accumulate: bool = False, after: MoveJob | None = None
    ) -> MoveJob:
        """A job that loads what a tile begins with, over what the accumulator holds or, if asked, onto it."""

        def body(parameters: Sequence[Number], at: Sequence[Number]) -> None:
            e, layer = self._e, self._plan.layer
            place, k, columns, pixel, rows, row = self._piece(parameters, at)
            if kind == "bias":
                column = e.add(e.mul(place.group, layer.problem.K), k)
                address = e.add(self._operands.bias, e.mul(column, _INT32))
            elif kind == "residual":
                offset = e.mul(self._element(place, pixel, k), layer.element_bytes)
                address = e.add(self._operands.residual, offset)
            else:
                address = self._sum_address(place, pixel, k)
            local = e.local(row, accumulator=True, accumulate=accumulate)
            e.command("mvin3", address=address, local=local, cols=columns, rows=rows)

        return self._job(body, whole=whole, after=after)

    def _element(self, place: Place, pixel: Number, k: Number) -> Number:
        """Offset in elements in output or residual."""
        e, output = self._e, self._plan.layer.output
        return e.add(e.mul(place.group, output.group), e.mul(pixel, output.pitch), k)

    @property
    def _sums(self) -> tuple[Number, int]:
        """Address and pitch (elements) of the partial sums in main memory."""
        layer = self._plan.layer
        if layer.scale is None:
            return self._operands.output, layer.output.pitch
        return self._operands.workspaces[PARTIAL_SUMS], layer.problem.K

    def _sum_address(self, place: Place, pixel: Number, k: Number) -> Number:
        e, (address, pitch) = self._e, self._sums
        group = e.mul(place.group, self._plan.layer.output.group) if self._plan.layer.scale is None else 0
        return e.add(address, e.mul(e.add(group, e.mul(pixel, pitch), k), _INT32))

    # ---------------------------------------------------------------- end

    def store_job(self, *, sums: bool, whole: bool) -> MoveJob:
        """A job that stores a tile, finished or as partial sums."""
        layer = self._plan.layer
        if layer.pooling and not sums:
            return pooled_tile(self._e, self._plan, self._operands, self._parameters, whole=whole)
        raw = sums or layer.scale is None

        def body(parameters: Sequence[Number], at: Sequence[Number]) -> None:
            e = self._e
            place, k, columns, pixel, rows, row = self._piece(parameters, at)
            if sums:
                address = self._sum_address(place, pixel, k)
            else:
                address = e.add(
                    self._operands.output,
                    e.mul(self._element(place, pixel, k), _INT32 if raw else layer.element_bytes),
                )
            local = e.local(row, accumulator=True, read_full=raw)
            e.command("mvout", address=address, local=local, cols=columns, rows=rows)

        return self._job(body, whole=whole)

    def configure_store(self, *, sums: bool) -> None:
        """Set what stores do on the way; pooled stores do it themselves, tile by tile."""
        layer = self._plan.layer
        if sums:
            self._e.command("config_st", stride=self._sums[1] * _INT32)
        elif layer.scale is None:
            self._e.command("config_st", stride=layer.output.pitch * _INT32)
        elif layer.pooling is None:
            self._e.command(
                "config_st",
                stride=layer.output.pitch * layer.element_bytes,
                activation=int(layer.relu),
                acc_scale=float32_bits(layer.scale),
            )

    @property
    def same_store(self) -> bool:
        """Whether finished tiles leave as partial sums do."""
        return self._plan.layer.scale is None
