"""Maximum pooling: on the way out of a tile, or afterwards over the whole image."""

from __future__ import annotations

from collections.abc import Sequence

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.layers.operands import Operands
from baco.compiler.styles.explicit.jobs import MoveJob
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import ExplicitPlan

#: Workspace of requantised results before pooling, `[N, Q, P]` pixels of all groups.
UNPOOLED = "unpooled"
#: Largest number of rows or columns that the store configuration holds.
_FIELD = 255


def pools_on_the_way(plan: ExplicitPlan) -> bool:
    """Whether every window lies in one tile, so that the store of a tile can pool it."""
    pool = plan.layer.pooling
    assert pool is not None
    if max(pool.columns, pool.rows) > _FIELD or plan.result_rows > _bank(plan.accelerator):
        return False
    for name in ("Q", "P"):
        size, bound = plan.tile[name], plan.bounds[name]
        apart = pool.padding == 0 and pool.size <= pool.stride and size % pool.stride == 0
        # a store takes the columns it holds for the distance of its rows: no narrower tile at the edge
        even = name == "Q" or bound % size == 0
        if size > _FIELD or not (size == bound or (apart and even)):
            return False
    return True


def _bank(accelerator: Accelerator) -> int:
    """Rows of an accumulator bank, half of the accumulator at most. A pooled store's rows are protected against other
    commands up to the end of the bank that it begins in, so windows must not go on in the next one."""
    return accelerator.accumulator_rows // max(2, accelerator.accumulator_banks)


def pooled_tile(
    e: Emitter, plan: ExplicitPlan, operands: Operands, parameters: int, *, whole: bool
) -> MoveJob:
    """A job that stores pooled tiles: one store an image and column block. Configures the stores as it begins one."""
    layer, dim = plan.layer, plan.accelerator.dim
    pool, tile = layer.pooling, plan.tile
    assert pool is not None
    assert layer.scale is not None
    scale = float32_bits(layer.scale)

    def windows(place: Place, name: str, count: int) -> tuple[Number, Number]:
        """First pooled row (column) of the tile, and how many."""
        if tile[name] == plan.bounds[name]:
            return 0, count
        first = e.div(place.tile_start(name), pool.stride)
        return first, e.min(e.sub(count, first), e.ceil_div(place.tile_extent(name), pool.stride))

    def bounds(numbers: Sequence[Number]) -> Sequence[Number]:
        place = Place.of(e, plan, numbers[:-1])
        return [e.ceil_div(place.tile_extent("K"), dim), place.tile_extent("N")]

    def body(numbers: Sequence[Number], at: Sequence[Number]) -> None:
        place = Place.of(e, plan, numbers[:-1])
        (first_row, rows), (first_column, columns) = (
            windows(place, name, count) for name, count in (("Q", pool.rows), ("P", pool.columns))
        )
        k = e.mul(at[0], dim)
        image = e.add(place.tile_start("N"), at[1])
        pixel = e.add(e.mul(e.add(e.mul(image, pool.rows), first_row), pool.columns), first_column)
        row = e.add(numbers[-1], e.mul(at[0], plan.pixels_out), e.mul(at[1], tile["Q"] * tile["P"]))
        address = e.address(
            operands.output,
            layer.element_bytes,
            e.mul(place.group, layer.output.group),
            e.mul(pixel, layer.output.pitch),
            place.tile_start("K"),
            k,
        )
        # windows may also end before the tile begins: the pooled image need not cover all results
        some = e.both(e.compare("sgt", rows, 0), e.compare("sgt", columns, 0))
        with e.when(some):
            e.command(
                "config_st",
                **_window(pool),
                activation=int(layer.relu),
                pool_out_dim=pool.columns,
                porows=rows,
                pocols=columns,
                orows=place.tile_extent("Q"),
                ocols=tile["P"],
                stride=layer.output.pitch * layer.element_bytes,
                acc_scale=scale,
            )
            e.command(
                "mvout",
                address=address,
                local=e.local(row, accumulator=True),
                cols=e.min(dim, e.sub(place.tile_extent("K"), k)),
                rows=1,
            )

    return MoveJob(e, parameters, 2, bounds, body, whole=whole)


def _window(pool: Pooling) -> dict[str, int]:
    return {"pool_stride": pool.stride, "pool_size": pool.size, "upad": pool.padding, "lpad": pool.padding}


def emit_pool(
    e: Emitter, layer: Layer, accelerator: Accelerator, operands: Operands, unpooled: Number, channels: int
) -> None:
    """Pool requantised results that lie in main memory, `[N, Q, P]` pixels of `channels` results of all groups.

    They pass through the accumulator, unscaled, a few windows at a time. What stored them has to be fenced.
    """
    pool, problem, dim, element = layer.pooling, layer.problem, accelerator.dim, layer.element_bytes
    assert pool is not None
    rows, columns, alone = check_pool(layer, accelerator)
    half = 0 if alone else accelerator.accumulator_rows // 2
    # groups side by side are one
    adjacent = layer.output.group == problem.K
    groups, size = (1, channels) if adjacent else (problem.groups, problem.K)
    e.command("config_ld", state=0, stride=channels * element, block_stride=dim, shrink=1)
    place = e.variable(0)
    with (
        e.loop(groups, hint="group") as group,
        e.loop(-(-size // dim)) as block,
        e.loop(problem.N, hint="n") as image,
        e.loop(-(-pool.rows // rows)) as tile_row,
        e.loop(-(-pool.columns // columns)) as tile_column,
    ):
        base = place.get() if half else 0
        place.set(e.sub(half, base))
        if alone:
            e.fence()
        first_row, first_column = e.mul(tile_row, rows), e.mul(tile_column, columns)
        porows = e.min(rows, e.sub(pool.rows, first_row))
        pocols = e.min(columns, e.sub(pool.columns, first_column))
        y, upad, orows = _reach(e, pool, first_row, porows, problem.Q)
        x, lpad, ocols = _reach(e, pool, first_column, pocols, problem.P)
        k = e.mul(block, dim)
        cols = e.min(dim, e.sub(size, k))
        with e.loop(orows, hint="y") as line, e.loop(e.ceil_div(ocols, dim), hint="x") as chunk:
            at = e.mul(chunk, dim)
            pixel = e.add(e.mul(e.add(e.mul(image, problem.Q), y, line), problem.P), x, at)
            e.command(
                "mvin",
                address=e.address(unpooled, element, e.mul(pixel, channels), e.mul(group, size), k),
                local=e.local(e.add(base, e.mul(line, ocols), at), accumulator=True),
                cols=cols,
                rows=e.min(dim, e.sub(ocols, at)),
            )
        if alone:
            e.fence()
        window = _window(pool) | {"upad": upad, "lpad": lpad}
        e.command(
            "config_st",
            **window,
            pool_out_dim=pool.columns if rows > 1 else 0,
            porows=porows,
            pocols=pocols,
            orows=orows,
            ocols=ocols,
            stride=layer.output.pitch * element,
        )
        pixel = e.add(e.mul(e.add(e.mul(image, pool.rows), first_row), pool.columns), first_column)
        e.command(
            "mvout",
            address=e.address(
                operands.output,
                element,
                e.mul(pixel, layer.output.pitch),
                e.mul(group, layer.output.group),
                k,
            ),
            local=e.local(base, accumulator=True),
            cols=cols,
            rows=1,
        )


def check_pool(layer: Layer, accelerator: Accelerator) -> tuple[int, int, bool]:
    """Pooled rows and columns that `emit_pool` makes at once, and whether nothing may run beside them, since the results
    they need do not fit one bank. Raises InfeasibleError if one window does not fit the accumulator."""
    pool, problem = layer.pooling, layer.problem
    assert pool is not None
    needed = min(pool.size, problem.Q) * min(pool.size, problem.P)
    alone = needed > _bank(accelerator)
    if needed > accelerator.accumulator_rows:
        raise InfeasibleError(
            f"a pooling window takes {needed} rows of the accumulator,"
            f" {needed - accelerator.accumulator_rows} more than there are"
        )
    capacity = accelerator.accumulator_rows if alone else _bank(accelerator)
    rows, columns = _windows(pool, problem.Q, problem.P, capacity)
    return rows, columns, alone


def _windows(pool: Pooling, height: int, width: int, capacity: int) -> tuple[int, int]:
    """Pooled rows and columns at once, so that the results they need fit `capacity` rows and the store's fields."""

    def needed(windows: int, extent: int) -> int:
        return min(extent, (windows - 1) * pool.stride + pool.size)

    def largest(limit: int, extent: int, fits: int) -> int:
        """Most windows, at least one, that need at most `fits` rows or columns."""
        return max((n for n in range(1, min(limit, _FIELD) + 1) if needed(n, extent) <= fits), default=1)

    columns = largest(pool.columns, width, min(_FIELD, capacity // needed(1, height)))
    rows = largest(pool.rows, height, min(_FIELD, capacity // needed(columns, width)))
    return (1 if pool.columns > _FIELD else rows), columns


def _reach(
    e: Emitter, pool: Pooling, first: Number, count: Number, extent: int
) -> tuple[Number, Number, Number]:
    """Results that `count` windows from `first` meet along one direction: the first one, padding before it, how many."""
    start = e.sub(e.mul(first, pool.stride), pool.padding)
    low = e.max(0, start)
    high = e.min(extent, e.add(start, e.mul(e.sub(count, 1), pool.stride), pool.size))
    return low, e.sub(low, start), e.sub(high, low)
