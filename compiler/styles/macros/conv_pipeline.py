"""LOOP_CONV_WS on the original, run by run (`baco.compiler.styles.macros.pipeline`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from baco.compiler.analysis.arrays import NUMPY, Values
from baco.compiler.analysis.traffic import MachineRates, loaded
from baco.compiler.styles.macros.cycles import ConvTile, conv_inputs, conv_stores, unpooled
from baco.compiler.styles.macros.pipeline import (
    MOST_RUNS,
    NEVER,
    PIPELINES,
    PipelineConstants,
    cycles_of,
    fresh_share,
    groups_simulated,
    of_all_groups,
    shortest,
    whole,
)
from baco.compiler.styles.macros.runs import MacroLayer, parts, tiles_loaded

#: Blocks of channels that a load moves side by side.
_WIDE = 4


@dataclass(frozen=True)
class _Whole:
    """What all inputs and weights take, loaded the first time and again, and all stores; of these the port's part."""

    inputs: float
    inputs_again: float
    weights: float
    weights_again: float
    store: float
    written: float


@dataclass(frozen=True)
class _Run:
    """Cycles of a run's phases by themselves.

    Attributes:
        operands: of loads, `commands` of them.
        addends: in which the accumulator is filled with the bias or zeros.
        compute: of passes, `passes` of them.
        store, written: of stores, of these the port's part; `stores` commands. 0 for a run that only adds.
        last: whether results leave.
    """

    operands: float
    commands: float
    addends: float
    compute: float
    passes: float
    store: float
    written: float
    stores: float
    last: bool


def conv_pipeline(
    machine: MachineRates,
    layer: MacroLayer,
    tile: ConvTile,
    order: str,
    constants: PipelineConstants | None = None,
) -> float | None:
    """Cycles from the first command to the end of the last store; None for very many runs, whose mean says enough. Layer and tile are
    numbers.

    Args:
        order: of the loops over tiles, outermost first, of "nqpksrc".
    """
    constants = constants or PIPELINES["loop_conv"]
    sizes = _by_axis(
        layer.images, layer.rows, layer.columns, layer.channels, layer.kernel_rows, layer.kernel_columns, layer.depth
    )  # fmt: skip
    tiles = _by_axis(
        tile.images, tile.rows, tile.columns, tile.channels, tile.kernel_rows, tile.kernel_columns, tile.depth
    )  # fmt: skip
    trips = {axis: whole(sizes[axis] / tiles[axis]) for axis in sizes}
    if math.prod(trips.values()) > MOST_RUNS:
        return None
    runs = list(_runs(machine, layer, tile, constants, (order, sizes, tiles, trips)))
    return _through(runs, float(layer.groups), machine, constants)


def _by_axis(*values: Values) -> dict[str, float]:
    return {axis: float(value) for axis, value in zip("nqpksrc", values, strict=True)}


def _totals(machine: MachineRates, layer: MacroLayer, tile: ConvTile) -> _Whole:
    def in_blocks(size: Values) -> Values:
        return NUMPY.up(size / machine.dim)

    rows, trips_q = unpooled(NUMPY, layer, layer.rows, tile.rows, layer.results_down, lambda x: x)
    columns, trips_p = unpooled(NUMPY, layer, layer.columns, tile.columns, layer.results_across, lambda x: x)
    blocks_c, _ = parts(NUMPY, layer.depth, tile.depth, in_blocks)
    down = (rows, trips_q, NUMPY.up(layer.kernel_rows / tile.kernel_rows))
    across = (columns, trips_p, NUMPY.up(layer.kernel_columns / tile.kernel_columns))
    inputs, inputs_twice = (
        conv_inputs(NUMPY, machine, layer, replace(tile, input_loads=n), down, across, blocks_c)
        for n in (1.0, 2.0)
    )
    window = layer.kernel_rows * layer.kernel_columns * layer.depth
    once = tiles_loaded(
        NUMPY, machine, window, layer.channels, tile.channels, layer.weight_pitch, layer.weight_size,
        command_rows=NUMPY.smaller(machine.dim, tile.depth),
    )  # fmt: skip
    weights, weights_twice = (
        loaded(
            NUMPY, machine, once, n, window, layer.channels, layer.weight_pitch, tile.channels,
            groups=layer.groups,
        )
        for n in (1.0, 2.0)
    )  # fmt: skip
    written, store_rows = conv_stores(
        NUMPY, machine, layer, tile, parts(NUMPY, layer.channels, tile.channels, in_blocks)[0]
    )
    return _Whole(
        inputs=cycles_of(inputs),
        inputs_again=max(float(inputs_twice.port - inputs.port), float(inputs.rows)),
        weights=cycles_of(weights),
        weights_again=max(float(weights_twice.port - weights.port), float(weights.rows)),
        store=float(store_rows),
        written=float(written) / float(machine.bandwidth),
    )


def _runs(
    machine: MachineRates,
    layer: MacroLayer,
    tile: ConvTile,
    constants: PipelineConstants,
    loops: tuple[str, dict[str, float], dict[str, float], dict[str, int]],
) -> Iterator[_Run]:
    """Those of one group, in their order."""
    order, sizes, tiles, trips = loops
    totals, dim, short = _totals(machine, layer, tile), float(machine.dim), shortest(machine, constants)
    keeps_input = float(tile.input_loads) < 1.5 and trips["k"] > 1
    keeps_weights = float(tile.weight_loads) < 1.5 and trips["n"] * trips["q"] * trips["p"] > 1
    cut_window = trips["s"] * trips["r"] > 1
    for place in itertools.product(*(range(trips[axis]) for axis in order)):
        at = dict(zip(order, place, strict=True))
        size = {axis: min(tiles[axis], sizes[axis] - at[axis] * tiles[axis]) for axis in order}
        rows = _before_pooling(layer, size["q"], layer.results_down)
        columns = _before_pooling(layer, size["p"], layer.results_across)
        channels, depth = whole(size["k"] / dim), whole(size["c"] / dim)
        results = size["n"] * size["q"] * size["p"] / (sizes["n"] * sizes["q"] * sizes["p"])
        window = size["s"] * size["r"] / (sizes["s"] * sizes["r"])
        share, of_pixels = size["c"] / sizes["c"], results * (window if cut_window else 1.0)
        inputs = of_pixels * share * (0.0 if keeps_input and at["k"] else totals.inputs_again)
        if at["k"] == 0:
            fresh = fresh_share(machine, at["c"] * tiles["c"], size["c"], sizes["c"], layer.input_pitch)
            inputs += of_pixels * fresh * (totals.inputs - totals.inputs_again)
        share *= window
        first = at["n"] == at["q"] == at["p"] == 0
        weights = (
            share * size["k"] / sizes["k"] * (0.0 if keeps_weights and not first else totals.weights_again)
        )
        if first:
            fresh = fresh_share(machine, at["k"] * tiles["k"], size["k"], sizes["k"], layer.weight_pitch)
            weights += share * fresh * (totals.weights - totals.weights_again)
        lines = size["n"] * rows
        chunks = whole(columns / dim)
        blocks = channels * depth * size["s"] * whole(size["r"] / float(tile.pixels))
        passes = lines * chunks
        last_pass = max(columns - (chunks - 1) * dim, short)
        pixels = lines * ((chunks - 1) * max(dim, short) + last_pass) - last_pass
        begins = at["s"] == at["r"] == at["c"] == 0
        last = all(at[axis] == trips[axis] - 1 for axis in "src")
        part = results * size["k"] / sizes["k"]
        high = (rows - 1) * float(layer.stride_down) + size["s"]
        wide = (columns - 1) * float(layer.stride_across) + size["r"]
        commands = size["n"] * high * whole(wide / dim) * whole(depth / _WIDE) if inputs else 0.0
        commands += size["s"] * size["r"] * depth * whole(channels / _WIDE) if weights else 0.0
        yield _Run(
            operands=inputs + weights,
            commands=commands,
            addends=constants.addend * lines * columns * channels if begins else 0.0,
            compute=blocks * (pixels + dim + constants.exchange) / float(machine.array_speed),
            passes=passes * blocks,
            store=constants.store * totals.store * part * last,
            written=totals.written * part * last,
            stores=max(1.0, size["n"] * size["q"] * whole(size["p"] / dim) * channels),
            last=last,
        )


def _before_pooling(layer: MacroLayer, stored: float, results: Values) -> float:
    """Results along an axis that some stored ones come from."""
    if float(layer.pool_size) < 0.5:
        return stored
    return min((stored - 1.0) * float(layer.pool_stride) + float(layer.pool_size), float(results))


def _through(runs: list[_Run], groups: float, machine: MachineRates, k: PipelineConstants) -> float:
    """All runs one after the other through loads, array and stores: passes of a run wait for all its loads to be sent, stores for all
    its passes."""
    ends: list[float] = []
    loads = array = 0.0
    stores, sent, sent_before = NEVER, NEVER, NEVER
    free, half = [NEVER, NEVER], 0
    for number, run in enumerate(runs * groups_simulated(groups)):
        begin = max(loads, sent_before + k.enter, number * k.host / float(machine.host_speed))
        if run.addends:
            begin = max(begin + run.addends, free[half] + k.addend_wait)
        end = begin + run.operands
        ahead = min(1.0, k.loads_ahead / max(run.commands, 1.0)) * run.operands
        each = run.compute / run.passes
        array = max(max(array, end - ahead + k.load_latency) + run.compute, end + k.load_latency + each)
        over = array - k.passes_ahead * each
        if run.last:
            stores = max(stores, array) + run.store + k.store_latency
            free[half], half = stores, 1 - half
            over = max(over, stores - k.stores_ahead * run.store / run.stores)
        else:
            over = max(over, end - ahead)
        loads = end + min(k.writes * run.written, run.operands)
        sent_before, sent = sent, max(sent, over)
        if (number + 1) % len(runs) == 0:
            ends.append(max(stores, array))
    return of_all_groups(ends, groups) + k.start
