"""Which convolutions and tilings LOOP_CONV_WS can carry out, and its parameters for those it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import INTEGERS
from baco.compiler.layers.float_sums import check_sum_order
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule
from baco.compiler.schedules.style import check_weight_bits
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.loop_ws import check_epilogue, check_halves
from baco.compiler.styles.macros.reuse import Reuse, plan_reuse
from baco.compiler.styles.macros.tile_rows import ConvExtents, conv_tile_rows, one_step, pooled_reach

#: Axes of a tile in the order of `LoopConvSchedule.tile`; the last three are summed over.
AXES = "nqpksrc"
#: A pooled image's sides, and those of what is pooled at once, are less.
POOLED_SIDE = 1 << 8


@dataclass(frozen=True)
class ConvPlan:
    """A schedule that the macro can carry out.

    Attributes:
        sizes, tile, trips: by axis (`trips` also of "g", the groups): extents of the stored results, of a full tile,
            and how many tiles there are.
        rows: of the local memories that a tile's weights, inputs and results take.
        order: loops over tiles inside the groups, outermost first.
        stride, dilation: the macro's.
        pixels: of the window that an array row holds.
        downsample, depthwise: modes of the macro.
        keep_input, keep_weights: how an operand stays in the scratchpad, None if it is loaded for every run.
    """

    sizes: Mapping[str, int]
    tile: Mapping[str, int]
    trips: Mapping[str, int]
    rows: tuple[int, int, int]
    order: str
    stride: int
    dilation: int
    pixels: int
    downsample: bool
    depthwise: bool
    keep_input: Reuse | None
    keep_weights: Reuse | None


def plan_loop_conv(layer: Layer, schedule: LoopConvSchedule, accelerator: Accelerator) -> ConvPlan:
    """The macro's parameters. Raises InfeasibleError with the reason if it cannot do the layer in this way."""
    p, pool = layer.problem, layer.pooling
    _check_features(layer, accelerator)
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    sizes = dict(zip(AXES, (p.N, *stored, p.K, p.S, p.R, p.C), strict=True))
    tile = {axis: min(size, sizes[axis]) for axis, size in zip(AXES, schedule.tile, strict=True)}
    trips = {axis: -(-sizes[axis] // tile[axis]) for axis in AXES}
    _check_order(schedule.order, trips)
    rows, columns = unpooled(layer, tile["q"], p.Q), unpooled(layer, tile["p"], p.P)
    stride = _one("stride", (p.stride_h, rows), (p.stride_w, columns))
    dilation = _one("dilation", (p.dilation_h, tile["s"]), (p.dilation_w, tile["r"]))
    down = schedule.downsample
    if down and not downsamples(layer):
        raise InfeasibleError(
            "downsampling needs windows of one unpadded pixel, stride 2 and an image of even sides"
        )
    pixels = schedule.pixels
    _check_packing(layer, schedule, tile, accelerator)

    dim = accelerator.dim
    extents = ConvExtents(tile["n"], rows, columns, tile["k"], tile["s"], tile["r"], tile["c"])
    weights, inputs, results = conv_tile_rows(extents, stride, dilation, int(down), dim)
    check_halves(inputs + weights, results, accelerator)
    if layer.weight_bits == 4 and trips["k"] > 1 and tile["k"] % 2:
        raise InfeasibleError("a load of weights of 4 bits would begin inside a byte", hint="split k evenly")
    in_rows = rows * stride + (tile["s"] - 1) * dilation
    _check_fields(layer, stride, rows, columns, in_rows, tile)

    if layer.real:
        if pixels > 1:
            raise InfeasibleError(
                "pixels packed in a row are added up in another order than real numbers are to be added in"
            )
        blocks = {"S": tile["s"], "R": tile["r"], "C": -(-tile["c"] // dim)}
        outer = [(axis.upper(), trips[axis]) for axis in schedule.order if axis in "src"]
        check_sum_order([*outer, *blocks.items()], "this tiling")
        if trips["c"] > 1 and tile["c"] % dim:
            raise InfeasibleError("tiles of real numbers have whole blocks of channels")
    loops = [Trip("g", p.groups), *(Trip(axis, trips[axis]) for axis in schedule.order)]
    return ConvPlan(
        sizes=sizes,
        tile=tile,
        trips=trips | {"g": p.groups},
        rows=(weights, inputs, results),
        order=schedule.order,
        stride=stride,
        dilation=dilation,
        pixels=pixels,
        downsample=down,
        depthwise=p.C == p.K == 1
        and p.groups > 1
        and layer.weight.pitch == 1
        and accelerator.features.depthwise_convs,
        # copies of repeated pixels reach below the start of a half, where a kept operand could be
        keep_input=plan_reuse(loops, "gnqpsrc") if schedule.keep_input and pixels == 1 else None,
        keep_weights=plan_reuse(loops, "gksrc") if schedule.keep_weights and pixels == 1 else None,
    )


def _check_features(layer: Layer, accelerator: Accelerator) -> None:
    features = accelerator.features
    if not features.loop_conv or MACRO_DATAFLOW not in accelerator.dataflows:
        raise InfeasibleError(f"{accelerator.name} has no LOOP_CONV_WS")
    if layer.scale is None:
        raise InfeasibleError("LOOP_CONV_WS stores requantised results only, and the layer's are raw int32")
    if not features.read_small_width:
        raise InfeasibleError(f"{accelerator.name} cannot store requantised sums")
    if layer.residual_scale is not None:
        raise InfeasibleError("LOOP_CONV_WS cannot add a residual")
    if layer.weights_transposed:
        raise InfeasibleError("LOOP_CONV_WS is not used with transposed weights")
    if layer.pooling and not features.max_pool:
        raise InfeasibleError(f"{accelerator.name} has no max-pooling")
    check_epilogue(layer, accelerator)
    check_weight_bits(layer, accelerator)


def _check_order(order: str, trips: Mapping[str, int]) -> None:
    busy = [axis for axis in order if trips[axis] > 1]
    inside = "".join(busy).lstrip("nqpk")
    if inside.strip("src"):
        raise InfeasibleError(
            f"the loop over {inside.strip('src')[0]} runs inside one that sums, and LOOP_CONV_WS cannot store partial sums",
            hint="put the loops over s, r and c innermost",
        )


def unpooled(layer: Layer, count: int, extent: int) -> int:
    """Most results before pooling along one axis that a tile of `count` stored ones needs."""
    pool = layer.pooling
    return count if pool is None else pooled_reach(INTEGERS, count, extent, pool.size, pool.stride)


def _one(what: str, vertical: tuple[int, int], horizontal: tuple[int, int]) -> int:
    """The macro's only step for both directions: those given, each with extents in a tile, agree or one is not used."""
    (down, rows), (across, columns) = vertical, horizontal
    step, there_is = one_step(INTEGERS, down, across, rows, columns)
    if not there_is:
        raise InfeasibleError(
            f"LOOP_CONV_WS has one {what}, the layer has {down} down and {across} across",
            hint="tiles of one row or column avoid that",
        )
    return int(step)


def _check_packing(
    layer: Layer, schedule: LoopConvSchedule, tile: Mapping[str, int], accelerator: Accelerator
) -> None:
    pixels = schedule.pixels
    if pixels == 1:
        return
    if not accelerator.features.first_layer:
        raise InfeasibleError(f"{accelerator.name} cannot repeat pixels")
    if pixels * tile["c"] > accelerator.dim or pixels > tile["r"]:
        raise InfeasibleError(
            f"{pixels} pixels of {tile['c']} channels do not fit an array row of {accelerator.dim},"
            f" or exceed the window's {tile['r']} columns"
        )
    if schedule.downsample or layer.problem.dilation_w > 1 or -(-layer.problem.C // tile["c"]) > 1:
        raise InfeasibleError("packed pixels cannot be downsampled, dilated or split by channel")


def _check_fields(
    layer: Layer, stride: int, rows: int, columns: int, in_rows: int, tile: Mapping[str, int]
) -> None:
    """Numbers that must fit their fields."""
    p, pool = layer.problem, layer.pooling
    below = (p.Q - 1) * p.stride_h + stride + (p.S - 1) * p.dilation_h - layer.padding[0] - layer.size[0]
    limits = {
        "image sides, channels and batch": (max(*layer.size, p.C, p.K, p.N, p.Q, p.P), 16),
        "pitch of pixels or weights": (max(layer.input.pitch, layer.weight.pitch, layer.output.pitch), 16),
        "stride": (max(p.stride_h, p.stride_w), 8),
        "dilation": (max(p.dilation_h, p.dilation_w), 8),
        "padding below the image": (min(in_rows, max(0, below)), 8),
    }
    if pool:
        sides = max(pool.columns, rows, columns, tile["q"], tile["p"])
        limits["sides of a pooled tile or image"] = (sides, POOLED_SIDE.bit_length() - 1)
    for name, (number, bits) in limits.items():
        if number >> bits:
            raise InfeasibleError(f"LOOP_CONV_WS has {bits} bits for the {name}, not enough for {number}")


def downsamples(layer: Layer) -> bool:
    """Whether the macro's mode for windows of one pixel and stride 2 applies: it skips what no window touches."""
    p = layer.problem
    return (
        p.R == p.S == 1
        and p.stride_h == p.stride_w == 2
        and layer.padding == (0, 0)
        and layer.pooling is None
        and layer.size[0] % 2 == layer.size[1] % 2 == 0
    )
