"""Cycles of macro schedules: of one, and of many tilings of a macro at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.compiler.analysis.arrays import NUMPY, Values
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.host_core import CACHE_BYTES, LINE_BYTES, MISS_CYCLES
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.command_stream import MacroRun, stream_cycles
from baco.compiler.styles.macros.conv_pipeline import conv_pipeline
from baco.compiler.styles.macros.cycles import (
    ConvTile,
    MacroCycles,
    MacroLayer,
    ProductTile,
    conv_macro,
    macro_runs,
    product_macro,
)
from baco.compiler.styles.macros.first_run import with_first_run
from baco.compiler.styles.macros.loop_conv_check import AXES, plan_loop_conv
from baco.compiler.styles.macros.loop_ws import Product, check_loop_ws
from baco.compiler.styles.macros.product_pipeline import product_pipeline
from baco.compiler.styles.macros.sent_commands import macro_runs_of

Numbers = NDArray[np.float64]
#: What it costs the host core to clear a word of expanded weights, to begin a row of a group, and to copy an element, cache
#: misses apart: measured on 9 to 81 KiB of expanded weights.
_CLEAR, _BEGIN, _COPY = 4.6, 2.0, 5.0
#: Commands of a layer that are gone through one by one, at most.
_MOST_COMMANDS = 10_000


def macro_cycles(
    layer: Layer,
    schedule: LoopWsSchedule | LoopConvSchedule,
    accelerator: Accelerator,
    machine: MachineRates | None = None,
) -> MacroCycles:
    """What the resources need for a macro schedule; on another machine than the accelerator's if one is given. Raises
    InfeasibleError if it cannot be carried out."""
    machine = MachineRates.of(accelerator) if machine is None else machine
    numbers, tile = macro_numbers(layer, schedule, accelerator)
    found = _one_by_one(machine, schedule, numbers, tile)
    if found is None:
        return macro_runs(NUMPY, machine, numbers, tile)
    return replace(found, total=found.total * (commands_share(layer, schedule, accelerator) or 1.0))


def macro_choice_cycles(
    layer: Layer, schedule: LoopWsSchedule | LoopConvSchedule, accelerator: Accelerator
) -> MacroCycles:
    """Cycles and bytes of a macro schedule as the choice among tilings counts them, its commands not looked at (`commands_share`). Raises
    InfeasibleError if it cannot be carried out."""
    machine = MachineRates.of(accelerator)
    numbers, tile = macro_numbers(layer, schedule, accelerator)
    found = _one_by_one(machine, schedule, numbers, tile)
    if found is not None:
        return found
    found = macro_runs(NUMPY, machine, numbers, tile)
    if isinstance(tile, ProductTile):
        return found
    return with_first_run(machine, numbers, tile, found)


def _one_by_one(
    machine: MachineRates,
    schedule: LoopWsSchedule | LoopConvSchedule,
    numbers: MacroLayer,
    tile: ProductTile | ConvTile,
) -> MacroCycles | None:
    """Cycles of runs one after the other; None where the timing's runs are all like the mean of them, or too many."""
    if not machine.profile.runs_wait:
        return None
    if isinstance(tile, ProductTile):
        total = product_pipeline(machine, numbers, tile)
    else:
        total = conv_pipeline(machine, numbers, tile, schedule.order)
    if total is None:
        return None
    return replace(macro_runs(NUMPY, machine, numbers, tile), total=np.float64(total))


@lru_cache(maxsize=4096)
def commands_share(
    layer: Layer, schedule: LoopWsSchedule | LoopConvSchedule, accelerator: Accelerator
) -> float | None:
    """What a macro schedule takes by the commands of its runs one by one (`baco.compiler.styles.macros.command_stream`), over what it takes
    by its runs; None where the timing's runs do not wait, sums wait in main memory, weights are no bytes, or commands are very many.

    Raises InfeasibleError if it cannot be carried out.
    """
    machine = MachineRates.of(accelerator)
    by_runs = _one_by_one(machine, schedule, *macro_numbers(layer, schedule, accelerator))
    if by_runs is None or layer.weight_bits != 8 or layer.element_bytes != 1:
        return None
    runs: list[MacroRun] = []
    commands = 0
    for run in macro_runs_of(layer, schedule, accelerator):
        runs.append(run)
        commands += len(run)
        if commands > _MOST_COMMANDS:
            return None
    bank_rows = accelerator.scratchpad_rows // accelerator.scratchpad_banks
    cycles = stream_cycles(runs, machine, accelerator.accumulator_rows // 2, bank_rows, schedule.style)
    return cycles / float(by_runs.total)


def macro_numbers(
    layer: Layer, schedule: LoopWsSchedule | LoopConvSchedule, accelerator: Accelerator
) -> tuple[MacroLayer, ProductTile | ConvTile]:
    """What the cycles of a macro schedule depend on. Raises InfeasibleError if it cannot be carried out."""
    if isinstance(schedule, LoopWsSchedule):
        product = check_loop_ws(layer, schedule, accelerator)
        blocks = (schedule.i, schedule.j, schedule.k)
        keeps = (schedule.keep_a, schedule.keep_b)
        return _layer(layer), _product_tile(accelerator, product, blocks, schedule.order, keeps)
    plan = plan_loop_conv(layer, schedule, accelerator)
    trips = plan.trips
    inputs = 1 if plan.keep_input else trips["k"]
    weights = 1 if plan.keep_weights else trips["n"] * trips["q"] * trips["p"]
    return _layer(layer), _conv_tile(plan.tile, plan.pixels, plan.downsample, float(inputs), float(weights))


def expansion_cycles(layer: Layer, packed: int) -> float:
    """Cycles in which the host expands the weights of a layer, `packed` groups to a matrix.

    It clears the workspace, then copies elements into it: where the cache does not hold it, every line comes twice.
    """
    p = layer.problem
    rows = p.groups * p.S * p.R * p.C
    words = -(-p.groups // packed) * packed * p.S * p.R * p.C * packed * p.K / 8
    misses = 8 * words / LINE_BYTES * (2 if 8 * words > CACHE_BYTES else 1)
    return _CLEAR * words + rows * (_BEGIN + _COPY * p.K) + MISS_CYCLES * misses


def product_cycles(
    layer: Layer,
    accelerator: Accelerator,
    product: Product,
    blocks: tuple[Values, Values, Values],
    order: str,
    keeps: tuple[Values, Values],
) -> MacroCycles:
    """Cycles and bytes of LOOP_WS over all groups.

    Args:
        blocks: of a tile in rows, columns and depth, numbers or arrays of them.
        order: of the loops over tiles, outermost first.
        keeps: whether A and B stay in the scratchpad where the order lets them.
    """
    tile = _product_tile(accelerator, product, blocks, order, keeps)
    return product_macro(NUMPY, MachineRates.of(accelerator), _layer(layer), tile)


def cycles_of_products(
    layers: Sequence[Layer],
    accelerator: Accelerator,
    blocks: tuple[Numbers, Numbers, Numbers],
    order: str,
    keeps: tuple[bool, bool],
) -> MacroCycles:
    """As `product_cycles`, of several layers that are products of one group at once: (layers, tiles) each."""
    sizes = [(one.problem.P, one.problem.K, one.problem.C) for one in layers]
    tiles = [_product_tile(accelerator, Product(*size), blocks, order, keeps) for size in sizes]
    numbers = np.array([astuple(_layer(one)) for one in layers]).T[:, :, None]
    parts = np.stack([np.array(np.broadcast_arrays(*astuple(tile))) for tile in tiles], 1)
    return product_macro(NUMPY, MachineRates.of(accelerator), MacroLayer(*numbers), ProductTile(*parts))


def conv_cycles(
    layer: Layer,
    accelerator: Accelerator,
    tile: Mapping[str, Values],
    *,
    pixels: int,
    downsample: bool,
    input_loads: Values,
    weight_loads: Values,
) -> MacroCycles:
    """Cycles and bytes of LOOP_CONV_WS over all groups, the loops that sum innermost, as the choice among tilings counts them.

    Args:
        tile: sizes by axis of "nqpksrc", numbers or arrays of them.
        pixels: of the window that a row of the array holds.
        input_loads, weight_loads: how often an operand is loaded over the loops that do not choose its tile.
    """
    numbers, parts = _layer(layer), _conv_tile(tile, pixels, downsample, input_loads, weight_loads)
    machine = MachineRates.of(accelerator)
    return with_first_run(machine, numbers, parts, conv_macro(NUMPY, machine, numbers, parts))


def _layer(layer: Layer) -> MacroLayer:
    p, pool = layer.problem, layer.pooling
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    pooling = (pool.size, pool.stride, pool.padding) if pool else (0, 0, 0)
    numbers = (
        p.N, *stored, p.K, p.S, p.R, p.C, p.groups, p.Q, p.P, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w,
        *layer.size, *layer.padding, layer.bias, layer.residual_scale is not None, layer.scale is None,
        layer.weights_transposed, *pooling, layer.input.pitch, layer.weight.pitch, layer.output.pitch,
        layer.weight_size, layer.element_bytes,
    )  # fmt: skip
    return MacroLayer(*[float(number) for number in numbers])


def _product_tile(
    accelerator: Accelerator,
    product: Product,
    blocks: tuple[Values, Values, Values],
    order: str,
    keeps: tuple[Values, Values],
) -> ProductTile:
    sizes = (product.rows, product.columns, product.depth)
    tile = [np.minimum(part * accelerator.dim, size) for part, size in zip(blocks, sizes, strict=True)]
    outside = (order.index("j") < order.index("i"), 2 - order.index("k"))
    kept = [np.asarray(keep, dtype=np.float64)[()] for keep in keeps]  # numbers of numbers
    return ProductTile(*tile, *[float(number) for number in outside], *kept)


def _conv_tile(
    tile: Mapping[str, Values], pixels: int, downsample: bool, input_loads: Values, weight_loads: Values
) -> ConvTile:
    parts: list[Values] = [np.asarray(tile[axis], dtype=np.float64) for axis in AXES]
    parts += [input_loads, weight_loads, float(pixels), float(downsample)]
    return ConvTile(*parts)
