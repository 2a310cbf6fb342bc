"""Cycles that every step of a network's program will take, without running it.

* Layers: the estimate that schedules are chosen by.
* Additions and poolings on the accelerator: the bytes they move through main memory, or the commands that the host
  core writes for them if that takes longer.
* The host's functions: `compiler.network.host_model`.
* Every step: its call, and what a fence before the next one waits for at the end.

A step that the next one does not wait for is predicted as if it were waited for; what overlaps there is little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.estimate import schedule_cycles
from compiler.lower.explicit_pool import check_pool
from compiler.lower.traffic import MEMORY_LATENCY, bytes_per_cycle, read_cycles
from compiler.network.addition import MOVE_BYTES, AdditionCode
from compiler.network.host_model import host_cycles
from compiler.network.host_work import host_work
from compiler.network.program import NetworkProgram
from compiler.network.steps import Pointer, Step

__all__ = ["predict_steps"]

#: Cycles in which the host core writes a command of explicit code.
_COMMAND_CYCLES = 7.5
#: Before the first data and behind the last ones: commands, memory and the way through the accelerator, both ways.
_START = 4 * MEMORY_LATENCY


def predict_steps(built: NetworkProgram, accelerator: Accelerator) -> list[float]:
    """Predicted cycles of every step of a network's program, in order."""
    return [_step(built, step, accelerator) for step in built.lowered.steps]


def _step(built: NetworkProgram, step: Step, accelerator: Accelerator) -> float:
    lowered = built.lowered
    if step.function in lowered.layers:
        code = lowered.layers[step.function]
        return schedule_cycles(code.layer, code.schedule, accelerator)
    if step.function in lowered.additions:
        return _addition(lowered.additions[step.function], accelerator)
    if step.function in lowered.pools:
        return _pooling(lowered.pools[step.function], accelerator)
    return _host(built, step)


def _addition(code: AdditionCode, accelerator: Accelerator) -> float:
    """Two loads and a store; see `compiler.network.addition` for the tiles."""
    nest, dim = code.nest, accelerator.dim
    outer, extent, _ = nest.split()
    rows = float(math.prod(outer.shape))
    if len(nest.shape) < 2:  # contiguous elements, as rows as long as a move can have
        rows, extent = extent / MOVE_BYTES, MOVE_BYTES
    pitches = [steps[-2] if len(steps) > 1 else MOVE_BYTES for steps in nest.strides]
    memory = sum(_read(accelerator, rows, extent, pitch) for pitch in pitches[:2])
    memory += rows * extent / bytes_per_cycle(accelerator)
    tiles = math.ceil(rows / dim) * math.ceil(extent / MOVE_BYTES)
    passes = tiles * math.ceil(min(extent, MOVE_BYTES) / dim)
    commands = 3 * tiles + 2 * passes * (1 if accelerator.features.preload_d else 2)
    return max(memory, commands * _COMMAND_CYCLES) + _START


def _pooling(layer: Layer, accelerator: Accelerator) -> float:
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
    loads = blocks * _read(accelerator, pixels, min(p.K, dim), p.K)
    moved = p.N * p.K * (pixels + pool.rows * pool.columns) / bytes_per_cycle(accelerator)
    commands = blocks * (across * rows * math.ceil(columns / across / dim) + 2 * down * across)
    waits = blocks * down * across * 2 * MEMORY_LATENCY if alone else 0.0
    return max(loads, moved, commands * _COMMAND_CYCLES) + waits + _START


def _read(accelerator: Accelerator, rows: float, columns: int, pitch: int) -> float:
    return float(read_cycles(accelerator, np.array([rows]), np.array([float(columns)]), pitch)[0])


def _host(built: NetworkProgram, step: Step) -> float:
    parameters, *operands = step.arguments
    assert isinstance(parameters, Pointer)
    words: Sequence[int] = built.lowered.constants[parameters.value].tolist()
    places = [built.placement.address(one) if isinstance(one, Pointer) else None for one in operands]
    work = host_work(step.function, words, places)
    assert work is not None, f"host_work knows every function of host/, and not {step.function}"
    return host_cycles(work)
