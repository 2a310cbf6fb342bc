"""Cycles and energy that every step of a network's program will take, without running it.

* Groups that run as one unit: `baco.compiler.styles.fused.predict` and `predict_strips`.
* Layers: the latency that schedules are chosen by; where none is chosen, products by their bytes and passes.
* Additions, poolings, functions of rows and embeddings on the accelerator: the bytes they move through main memory, or the
  commands that the host core writes for them, or the passes of stores over whole rows, if that takes longer.
* The host's functions: `baco.compiler.ops.host_model`.
* Every step: its call, and what a fence before the next one waits for at the end.

A step that the next one does not wait for is predicted as if it were waited for; what overlaps there is little.
"""

from __future__ import annotations

import math

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.host_core import LINE_BYTES, MISS_CYCLES
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.addition import AdditionCode
from baco.compiler.network.gather import GatherCode
from baco.compiler.network.groups import Group, GroupCode, predict_group
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.row_code import RowCode
from baco.compiler.network.steps import Step, StepCost, ValueAddress
from baco.compiler.ops.host_model import host_cycles
from baco.compiler.styles.explicit.pool import check_pool
from baco.compiler.styles.fused.chain import ProductChain
from baco.compiler.styles.fused.merged import MergedProducts
from baco.compiler.styles.fused.predict import UnitCost
from baco.compiler.styles.fused.row_unit import RowFunctionName

#: Cycles in which the host core writes a command of explicit code.
_COMMAND_CYCLES = 7.5
#: Before the first data and behind the last ones: commands, memory and the way through the accelerator, both ways, as many
#: times the latency of memory.
_START = 4
#: What a table takes until it is in force: its loads, one way through memory, in latencies.
_TABLE = 2
#: Cycles that the scale of a column takes: the host core loads two at once and sends them.
_SCALES = 2.0
#: Passes of a store over the blocks of its rows before the one with the results: to find the largest element and the sum of
#: exponentials, or sums. What the unit of quotients and roots takes for a row then (accel/rtl/baco_row_statistics.v).
_PASSES: dict[RowFunctionName, int] = {"copy": 0, "table": 0, "softmax": 2, "normalisation": 1, "product": 0}
_ROW_CYCLES: dict[RowFunctionName, int] = {
    "copy": 0,
    "table": 0,
    "softmax": 18,
    "normalisation": 132,
    "product": 0,
}
#: Instructions of the host's functions in a cycle without cache misses: 0.92 to 1.00 of embedding, normalisation, softmax,
#: tables and averages, measured.
_PER_CYCLE = 0.95


def predict_steps(lowered: LoweredNetwork, accelerator: Accelerator) -> list[StepCost]:
    """Predicted cost of every step of a network's program, in order."""
    layers = lowered.layers
    codes = list(layers.values())
    found = predict_layers([code.layer for code in codes], [code.schedule for code in codes], accelerator)
    cycles = {name: latency.cycles.item() for name, latency in zip(layers, found, strict=True)}
    table = _TABLE * PROFILES[accelerator.timing].latency
    scales = {
        name: _SCALES * accelerator.dim if layer.output and layer.output.by_column else 0.0
        for name, layer in layers.items()
    }
    return [
        StepCost(
            cycles[step.function] + (table if layers[step.function].table else 0.0) + scales[step.function]
        )
        if step.function in layers
        else predict_step(lowered, step, accelerator)
        for step in lowered.steps
    ]


def predict_step(lowered: LoweredNetwork, step: Step, accelerator: Accelerator) -> StepCost:
    """Predicted cost of a step that is no layer."""
    if step.function in lowered.groups:
        return group_cost(lowered.groups[step.function], accelerator)
    if step.function in lowered.additions:
        return addition_cost(lowered.additions[step.function], accelerator)
    if step.function in lowered.pools:
        return _pooling(lowered.pools[step.function], accelerator)
    if step.function in lowered.rows:
        return row_cost(lowered.rows[step.function], accelerator)
    if step.function in lowered.gathers:
        return _gather(lowered.gathers[step.function], accelerator)
    return _host(lowered, step, accelerator)


def host_energy_pj(instructions: float, lines: float, accelerator: Accelerator) -> float:
    """Energy of the host core: its instructions, and cache lines that it brings from main memory."""
    table = accelerator.energy
    return instructions * table.instruction_pj + lines * LINE_BYTES * table.dram_pj


def group_cost(code: GroupCode, accelerator: Accelerator) -> StepCost:
    """Operators that run as one unit, as their schedule says."""
    return unit_cost(code.group, predict_group(code, accelerator), accelerator)


def unit_cost(group: Group, found: UnitCost, accelerator: Accelerator) -> StepCost:
    """Operators that run as one unit of a predicted cost."""
    table = accelerator.energy_law
    fixed = table.array_pj(found.macs, found.stationary_words, float(accelerator.dim))
    moved = found.read_bytes + found.written_bytes
    fixed += moved * table.dram_pj
    fixed += found.softmax_elements * table.function_pj("softmax")
    table_loaded = (isinstance(group, ProductChain) and group.softmax) or (
        isinstance(group, MergedProducts) and any(group.tables)
    )
    cycles = found.cycles + _TABLE * PROFILES[accelerator.timing].latency * table_loaded
    return StepCost(cycles, fixed, found.accumulator_words, found.scratchpad_bytes, moved)


def addition_cost(code: AdditionCode, accelerator: Accelerator) -> StepCost:
    """Two loads and a store; see `baco.compiler.network.addition` for the tiles.

    Each sum is a product with the identity and an addend: a multiplication in every row of the array, a stationary word,
    an access of the accumulator each way, three reads and two writes of the scratchpad, three bytes of main memory.
    """
    nest, dim = code.nest, accelerator.dim
    outer, extent, _ = nest.split()
    rows = float(math.prod(outer.shape))
    if len(nest.shape) < 2:  # contiguous elements, as rows as long as a move can have
        rows, extent = extent / MOVE_BYTES, MOVE_BYTES
    pitches = [steps[-2] if len(steps) > 1 else MOVE_BYTES for steps in nest.strides]
    memory = sum(read_cycles(accelerator, rows, extent, pitch) for pitch in pitches[:2])
    memory += rows * extent / bytes_per_cycle(accelerator)
    tiles = math.ceil(rows / dim) * math.ceil(extent / MOVE_BYTES)
    passes = tiles * math.ceil(min(extent, MOVE_BYTES) / dim)
    commands = 3 * tiles + 2 * passes * (1 if accelerator.features.preload_d else 2)
    sums, table = rows * extent, accelerator.energy_law
    latency = PROFILES[accelerator.timing].latency
    fixed = sums * (sum(table.array_terms(dim, dim + 1, float(dim))) + 3 * table.dram_pj)
    cycles = max(memory, commands * _COMMAND_CYCLES) + (_START + (_TABLE if code.table else 0)) * latency
    return StepCost(cycles, fixed, 2 * sums, 5 * sums, 3 * sums)


def row_cost(code: RowCode, accelerator: Accelerator) -> StepCost:
    """Loads and a store; see `baco.compiler.network.row_code` for the tiles.

    Memory works all the time, but while the last tile's rows are gone through for what their results depend on; or the stores
    do, from the first tile's arrival on.
    """
    nest, dim, table = code.nest, accelerator.dim, accelerator.energy_law
    outer, extent, _ = nest.split()
    rows = float(math.prod(outer.shape))
    if len(nest.shape) < 2:
        rows, extent = extent / MOVE_BYTES, MOVE_BYTES
    pitches = [steps[-2] if len(steps) > 1 else MOVE_BYTES for steps in nest.strides[:-1]]
    inner = min(float(outer.shape[-1]), rows) if outer.shape else rows
    whole, rest = divmod(inner, dim)
    matrices = rows / inner
    elements, blocks = rows * extent, math.ceil(extent / dim)
    loads = sum(read_cycles(accelerator, rows, extent, pitch) for pitch in pitches)
    memory = loads + elements / bytes_per_cycle(accelerator)
    stores = matrices * (whole * _store(code.function, dim, blocks) + _store(code.function, rest, blocks))
    first = loads * min(dim, rows) / rows
    last = _PASSES[code.function] * (rest or min(dim, rows)) * blocks
    commands = matrices * math.ceil(inner / dim) * (len(pitches) * math.ceil(extent / MOVE_BYTES) + 1)
    parameters = 4 * extent / bytes_per_cycle(accelerator) if code.function == "normalisation" else 0.0
    # gains and offsets are read, a right operand is written and read
    wide = {"normalisation": 1, "product": 2}.get(code.function, 0)
    return StepCost(
        max(memory + last, first + stores, commands * _COMMAND_CYCLES)
        + parameters
        + (_START + _TABLE) * PROFILES[accelerator.timing].latency,
        elements
        * (
            (1 + len(pitches)) * table.dram_pj
            + (0.0 if code.function == "copy" else table.function_pj(code.function))
        ),
        wide * elements,
        (2 + _PASSES[code.function]) * elements,
        elements * (1 + len(pitches)),
    )


def _store(function: RowFunctionName, rows: float, blocks: int) -> float:
    """Cycles of a store of rows of so many blocks: passes over all of them, a block a cycle; a unit works on one row after the
    other from its sums on; results follow, and before each block of a normalisation its gains and offsets, of a product its right operand."""
    if not rows:
        return 0.0
    before = max(0, _PASSES[function] - 1) * rows * blocks
    results = blocks * (2 if function in ("normalisation", "product") else 1)
    unit = _ROW_CYCLES[function]
    known = before + max(blocks + rows * unit, rows * blocks + unit) + results if unit else 0.0
    return max(_PASSES[function] * rows * blocks + rows * results, known)


def _gather(code: GatherCode, accelerator: Accelerator) -> StepCost:
    """A load and a store of every row, by as few moves as there can be."""
    rows = math.prod(code.nest.shape)
    memory = read_cycles(accelerator, float(rows), code.features, code.pitch)
    elements = float(rows * code.features)
    whole, rest = divmod(code.features, MOVE_BYTES)
    moves = math.ceil(whole / accelerator.dim) + bool(rest)
    commands = rows * (2 * moves + 2)  # the index takes about as long as two
    cycles = max(memory + elements / bytes_per_cycle(accelerator), commands * _COMMAND_CYCLES)
    return StepCost(
        cycles + _START * PROFILES[accelerator.timing].latency,
        2 * elements * accelerator.energy_law.dram_pj,
        0.0,
        2 * elements,
        2 * elements,
    )


def _pooling(layer: Layer, accelerator: Accelerator) -> StepCost:
    """Every pixel passes through the accumulator, once for each tile whose windows meet it (`emit_pool`).

    Loads of one block of channels are short, so that the number in flight limits them and leaves room for stores.
    """
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    assert pool is not None
    tile_rows, tile_columns, alone = check_pool(layer, accelerator)

    def met(windows: int, together: int, extent: int) -> tuple[int, int]:
        """Tiles along one direction, and the pixels that they read."""
        tiles = math.ceil(windows / together)
        sizes = [min(together, windows - n * together) for n in range(tiles)]
        return tiles, sum(min(extent, (size - 1) * pool.stride + pool.size) for size in sizes)

    (down, rows), (across, columns) = met(pool.rows, tile_rows, p.Q), met(pool.columns, tile_columns, p.P)
    blocks, pixels = math.ceil(p.K / dim) * p.N, float(rows * columns)
    loads = blocks * read_cycles(accelerator, pixels, min(p.K, dim), p.K)
    moved = p.N * p.K * (pixels + pool.rows * pool.columns) / bytes_per_cycle(accelerator)
    commands = blocks * (across * rows * math.ceil(columns / across / dim) + 2 * down * across)
    latency = PROFILES[accelerator.timing].latency
    waits = blocks * down * across * 2 * latency if alone else 0.0
    read, written = p.N * p.K * pixels, float(p.N * p.K * pool.rows * pool.columns)
    accesses = (
        read + written * pool.size**2
    )  # every pixel is written once, and read for each window that it is in
    cycles = max(loads, moved, commands * _COMMAND_CYCLES) + waits + _START * latency
    moved = read + written
    return StepCost(cycles, moved * accelerator.energy_law.dram_pj, accesses, dram_bytes=moved)


def _host(lowered: LoweredNetwork, step: Step, accelerator: Accelerator) -> StepCost:
    assert step.work is not None, (
        "steps that no code of the accelerator has are calls of the host's functions"
    )
    places = [
        (lowered.in_place.get(one.value, one.value), one.offset) if isinstance(one, ValueAddress) else None
        for one in step.arguments[1:]
    ]
    misses = step.work.misses(places)
    cycles = host_cycles(step.work, misses)
    instructions = _PER_CYCLE * (cycles - MISS_CYCLES * misses)
    return StepCost(cycles, host_energy_pj(instructions, misses, accelerator))
