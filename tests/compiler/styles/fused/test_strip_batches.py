"""Many schedules of a chain of convolutions at once are what each is by itself, and what plain arithmetic, round by round, says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.ir.emit import parts
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.predict_strips import predict_strips, strip_schedules, strip_unit_costs
from baco.compiler.styles.fused.strip_cycles import strip_costs
from baco.compiler.styles.fused.strip_placement import is_depthwise
from baco.compiler.styles.fused.strip_rooms import Rooms
from baco.compiler.styles.fused.strips import (
    ConvolutionChain,
    StripMemory,
    StripSchedule,
    place_strips,
    rows_needed,
    strip_memories,
)
from tests.compiler.styles.fused.test_strips import SIDE16, SMALL, chain, random_chain, with_addition
from tests.seeds import some

LARGE = load_accelerator("gemmini-default")


def plain_cycles(
    units: ConvolutionChain, schedule: StripSchedule, machine: Accelerator, memory: StripMemory
) -> float:
    """The model of `strip_cycles`, one round and one turn after the other, in Python's numbers."""
    costs, dim, layers = strip_costs(), machine.dim, units.layers
    count, images, last = len(layers), layers[0].problem.N, layers[-1].problem
    strips = len(schedule.ends(last.Q))
    there = [
        [rows_needed(units, min(number - lag, strips - 1), schedule)[lag] for lag in range(count + 1)]
        for number in range(strips + count)
    ]
    first = layers[0].problem
    row = read_cycles(machine, layers[0].size[1], first.C * first.groups, layers[0].input.pitch)
    loads = []
    for layer, place in zip(layers, memory.weights, strict=True):
        p = layer.problem
        rows, columns, pitch = p.S * p.R * p.C, p.K, layer.weight.pitch
        wide = min(columns, place.wide * dim)
        if is_depthwise(layer):
            rows, columns, pitch, wide = math.ceil(p.groups / dim) * p.S * p.R * dim, dim, dim, dim
        loads.append(read_cycles(machine, rows, wide, pitch) * columns / wide)
    total = costs["start"] + costs["first"] * count
    for layer in layers:
        p = layer.problem
        unrolled = p.R == 1 or is_depthwise(layer)
        kinds = len(parts(p.K * p.groups, dim)) * (1 if is_depthwise(layer) else len(parts(p.C, dim)))
        total += costs["copy"] * p.S * (p.R if unrolled else 1) * kinds
    ends = [0, *schedule.ends(last.Q)]
    total += there[0][0] * row + loads[0] / memory.weights[0].groups / images
    total += (ends[-1] - ends[-2]) * last.P * min(dim, last.K * last.groups) / bytes_per_cycle(machine)
    for number in range(1, len(there)):
        new = [now - then for then, now in zip(there[number - 1], there[number], strict=True)]
        busy, store = 0.0, 0.0
        moved = new[0] * row + new[-1] * last.P * last.K * last.groups / bytes_per_cycle(machine)
        for i, layer in enumerate(layers):
            if not new[i + 1]:
                continue
            adds = units.addition if i == count - 1 else None
            once = loads[i] / images if number - 1 == i else 0.0
            streamed = memory.weights[i].streamed
            moved += loads[i] if streamed else once
            pixels = new[i + 1] * layer.problem.P
            runs = math.ceil(pixels / 255)
            kept = new[i + 1] if i < count - 1 else runs if adds is not None else 0
            if i and not streamed:
                busy = max(busy, once / memory.weights[i].groups)
            elif i and number - 1 == i:
                busy = max(busy, loads[i] / images / memory.weights[i].groups)
            for one, away in ((layer, kept), (adds, 0)):
                if one is None:
                    continue
                blocks, array, host, held = plain_block(one, new[i + 1], machine, memory.together[i], away)
                again = loads[i] if streamed and one is layer else 0.0
                begin = max(0.0, costs["begin"] - min(held, max(0.0, blocks * (array - host))))
                busy += max(blocks * max(array, host) + begin, again + costs["begin"])
                store += blocks * pixels + costs["keep"] * blocks * away
                if one is adds:
                    moved += (
                        blocks
                        / memory.wide
                        * read_cycles(machine, pixels, memory.wide * dim, one.output.pitch)
                    )
        total += max(busy, moved * (1 if units.addition is None else 1.2), store)
    return images * total + 4 * PROFILES[machine.timing].latency


def plain_block(
    layer: Layer, rows: int, machine: Accelerator, together: float, kept: int
) -> tuple[int, float, float, float]:
    """Blocks of results, cycles of the array and of the host core for one, and of the passes that wait for the array."""
    costs, p, dim = strip_costs(), layer.problem, machine.dim
    adds, depthwise = layer.residual_scale is not None, is_depthwise(layer)
    deep = p.S * p.R * (1 if depthwise else math.ceil(p.C / dim))
    array = max(dim, rows * p.P) + (dim / 2 * together if p.stride_w > 1 and not adds else 0.0)
    passes = math.ceil(rows * p.P / dim) if adds else rows * math.ceil(p.P / dim)
    below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > layer.size[0]
    host = costs["weights"] + costs["unrolled"] * (p.R == 1 or depthwise)
    host += (1 if adds else rows) * (costs["row"] + costs["padded"] * (layer.padding[0] > 0 or below))
    host += passes * costs["pass"]
    runs = math.ceil(rows * p.P / 255)
    moves = runs * layer.bias + adds + (kept or runs)
    beside = costs["block"] + costs["move"] * moves
    held = (machine.execute_entries + 6) // 2 * array / passes
    return math.ceil(p.K * p.groups / dim), deep * array + costs["results"], deep * host + beside, held


def chains() -> list[ConvolutionChain]:
    drawn = [random_chain(np.random.default_rng(seed)) for seed in range(25)]
    return [
        *drawn,
        chain((147, 147), 32, (64, 3, 2, 1), (80, 1, 1, 0)),
        chain((28, 28), 256, (128, 1, 1, 0), (128, 3, 2, 1), (256, 1, 1, 0)),
        with_addition(chain((14, 14), 64, (32, 1, 1, 0), (32, 3, 1, 1), (64, 1, 1, 0))),
    ]


@pytest.mark.parametrize("machine", some(2, [SMALL, SIDE16, LARGE]), ids=lambda one: one.name)
def test_many_schedules_at_once_are_each_by_itself(machine: Accelerator) -> None:
    compared = 0
    for units in chains():
        schedules = list(strip_schedules(units))
        schedules += [StripSchedule(one.rows, one.rows, one.streamed) for one in schedules if one.rows > 1]
        memories = strip_memories(units, schedules, machine)
        costs = strip_unit_costs(units, memories, machine)
        assert {*memories.schedules, *memories.reasons} == {*schedules}
        for n in range(0, len(costs), 3):
            schedule, cost = memories.schedules[n], costs[n]
            memory = place_strips(units, schedule, machine)
            assert memories.one(n) == memory
            assert predict_strips(units, schedule, machine) == cost
            assert cost.cycles == pytest.approx(plain_cycles(units, schedule, machine, memory), rel=1e-12)
            compared += 1
    assert compared > 100


def test_rooms_give_the_smallest_interval_that_holds_what_is_asked_for() -> None:
    """Against a set of rows of each scratchpad."""
    random = np.random.default_rng(0)
    rows, count = 64, 50
    rooms, free = Rooms(count, rows), [set(range(rows)) for _ in range(count)]
    refused = 0
    for group in (None, 0, 1, None, 1, 0, None, None, 0):
        asked = random.integers(1, 20, count)
        where = random.random(count) < 0.8
        start, found = rooms.take(asked, group, where)
        for n in range(count):
            open_ = {row for row in free[n] if group is None or row // 16 % 2 == group}
            edges = [
                row for row in sorted(open_) if row - 1 not in open_ or (group is not None and row % 16 == 0)
            ]
            runs = []
            for edge in edges:
                end = edge
                while end in open_ and (end == edge or end not in edges):
                    end += 1
                runs.append((end - edge, edge))
            fitting = sorted(run for run in runs if run[0] >= asked[n])
            assert found[n] == bool(where[n] and fitting)
            refused += not fitting
            if found[n]:
                assert start[n] == fitting[0][1]
                free[n] -= set(range(start[n], start[n] + asked[n]))
    assert refused
