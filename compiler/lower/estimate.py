"""Cycles of schedules, estimated: of one, and of many tilings of a macro at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.arrays import NUMPY, Values
from compiler.lower.explicit_choice import explicit_cycles
from compiler.lower.grouped import packed_layer
from compiler.lower.loop_conv_check import AXES, plan_loop_conv
from compiler.lower.loop_ws import Product, check_loop_ws
from compiler.lower.macro_cycles import (
    ConvLayer,
    ConvTile,
    ProductLayer,
    ProductTile,
    conv_macro,
    product_macro,
)
from compiler.lower.traffic import Machine
from compiler.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule, Schedule

__all__ = ["conv_cycles", "expansion_cycles", "product_cycles", "schedule_cycles"]

Numbers = NDArray[np.float64]
#: What it costs the host core to write a byte of expanded weights.
_HOST_CYCLES_A_BYTE = 4.0


def schedule_cycles(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> float:
    """Cycles from the first command of a layer's code to the end of its last store.

    Raises InfeasibleError for a macro schedule that cannot be carried out.
    """
    if isinstance(schedule, ExplicitSchedule):
        return explicit_cycles(layer, schedule.mapping, accelerator)
    if isinstance(schedule, DepthwiseSchedule):
        inner = packed_layer(layer, schedule.packed)
        return explicit_cycles(inner, schedule.mapping, accelerator) + expansion_cycles(inner)
    if isinstance(schedule, LoopWsSchedule):
        product = check_loop_ws(layer, schedule, accelerator)
        tile = (schedule.i, schedule.j, schedule.k)
        keeps = (schedule.keep_a, schedule.keep_b)
        return float(product_cycles(layer, accelerator, product, tile, schedule.order, keeps))
    plan = plan_loop_conv(layer, schedule, accelerator)
    trips = plan.trips
    return float(
        conv_cycles(
            layer,
            accelerator,
            plan.tile,
            pixels=plan.pixels,
            downsample=plan.downsample,
            input_loads=1 if plan.keep_input else trips["k"],
            weight_loads=1 if plan.keep_weights else trips["n"] * trips["q"] * trips["p"],
        )
    )


def expansion_cycles(packed: Layer) -> float:
    """Cycles in which the host expands the weights of packed groups; `packed` is the layer of `packed_layer`."""
    return _HOST_CYCLES_A_BYTE * packed.problem.groups * packed.weight.group


def product_cycles(
    layer: Layer,
    accelerator: Accelerator,
    product: Product,
    blocks: tuple[Values, Values, Values],
    order: str,
    keeps: tuple[Values, Values] = (True, True),
) -> Values:
    """Cycles of LOOP_WS over all groups.

    Args:
        blocks: of a tile in rows, columns and depth, numbers or arrays of them.
        order: of the loops over tiles, outermost first.
        keeps: whether A and B stay in the scratchpad where the order lets them.
    """
    dim = accelerator.dim
    sizes = (product.rows, product.columns, product.depth)
    tile = [np.minimum(part * dim, size) for part, size in zip(blocks, sizes, strict=True)]
    numbers = (
        *sizes,
        layer.problem.groups,
        layer.bias,
        layer.residual_scale is not None,
        layer.scale is None,
        layer.weights_transposed,
        layer.input.pitch,
        layer.weight.pitch,
        layer.output.pitch,
    )
    outside = (order.index("j") < order.index("i"), 2 - order.index("k"))
    kept = [np.asarray(keep, dtype=np.float64) for keep in keeps]
    return product_macro(
        NUMPY,
        Machine.of(accelerator),
        ProductLayer(*[float(number) for number in numbers]),
        ProductTile(*tile, *[float(number) for number in outside], *kept),
    ).total


def conv_cycles(
    layer: Layer,
    accelerator: Accelerator,
    tile: Mapping[str, Values],
    *,
    pixels: int,
    downsample: bool,
    input_loads: Values,
    weight_loads: Values,
) -> Values:
    """Cycles of LOOP_CONV_WS over all groups, the loops that sum innermost.

    Args:
        tile: sizes by axis of "nqpksrc", numbers or arrays of them.
        pixels: of the window that a row of the array holds.
        input_loads, weight_loads: how often an operand is loaded over the loops that do not choose its tile.
    """
    p, pool = layer.problem, layer.pooling
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    numbers = (
        p.N, *stored, p.K, p.S, p.R, p.C, p.groups, p.Q, p.P, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w,
        *layer.size, *layer.padding, layer.bias, pool.size if pool else 0, pool.stride if pool else 0,
        pool.padding if pool else 0,
        layer.input.pitch, layer.weight.pitch, layer.output.pitch,
    )  # fmt: skip
    parts: list[Values] = [np.asarray(tile[axis], dtype=np.float64) for axis in AXES]
    parts += [input_loads, weight_loads, float(pixels), float(downsample)]
    return conv_macro(
        NUMPY,
        Machine.of(accelerator),
        ConvLayer(*[float(number) for number in numbers]),
        ConvTile(*parts),
    ).total
