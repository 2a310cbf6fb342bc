"""What a report shows of one layer: words by tensor, occupancy of memories, what doubling gives."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from baco.accel.dataflows import RELEVANT, Dataflow
from baco.accel.presets import load_accelerator
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping, tile_words
from baco.compiler.schedules.schedule import ExplicitSchedule, LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.registry import mapping_of, plan_layer, realise
from baco.exploration.cost.detail import LayerDetail, layer_details, schedule_details
from baco.exploration.cost.layer_costs import layer_costs, layer_words
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.cost.reference import access_counts, latency_terms, tensor_accesses
from baco.exploration.cost.schedules import schedule_costs
from baco.workloads.problem import DIMS, Problem
from tests.explore.cost.test_reference_model import random_case
from tests.explore.nest_oracle import walk

GEMMINI = load_accelerator("gemmini-default")
PRODUCT = Layer(Problem(P=200, C=300, K=120), scale=0.01)
CONV = Layer(Problem(R=3, S=3, P=28, Q=28, C=64, K=96), (28, 28), (1, 1), bias=True, scale=0.01)
SCHEDULES = [
    (PRODUCT, LoopWsSchedule(4, 3, 5, "jik")),
    (PRODUCT, LoopWsSchedule(13, 2, 19, "ijk", keep_b=True)),
    (CONV, LoopConvSchedule(1, 7, 14, 48, 3, 3, 32)),
    (CONV, LoopConvSchedule(1, 5, 28, 33, 3, 1, 64)),
]


@pytest.mark.parametrize("dataflow", ["WS", "OS"])
def test_words_by_tensor_are_those_of_the_walked_nest(dataflow: Dataflow) -> None:
    cases = [random_case(seed, dataflow) for seed in range(200)]
    problems, mappings = zip(*cases, strict=True)
    words = tensor_accesses(ProblemBatch.of(problems), MappingBatch.of(mappings))
    assert words.shape == (4, 3, 200)
    for i, (problem, mapping) in enumerate(cases):
        walked = walk(problem, mapping)
        for level, tensors in enumerate(walked.words):
            for t, tensor in enumerate("WIO"):
                assert words[level, t, i].item() == tensors.get(tensor, 0), (level, tensor, problem, mapping)


def test_words_by_tensor_of_mixed_batches_add_up_to_the_counts() -> None:
    cases = [random_case(seed, "WS" if seed % 2 else "OS") for seed in range(60)]
    problems, mappings = zip(*cases, strict=True)
    batch = ProblemBatch.of(problems), MappingBatch.of(mappings)
    counts, words = access_counts(*batch), tensor_accesses(*batch)
    for level in range(4):
        assert torch.equal(words[level].sum(0), getattr(counts, f"a{level}"))
    for padded in (True, False):
        costs = layer_costs(problems, mappings, GEMMINI, padded=padded)
        found = layer_words(problems, mappings, None if padded else GEMMINI.dim)
        for one, cost in zip(found, costs, strict=True):
            assert tuple(map(sum, one)) == pytest.approx(cost.accesses)
    assert layer_words([], []) == []


@pytest.mark.parametrize("dataflow", ["WS", "OS"])
def test_tiles_hold_what_a_walk_touches(dataflow: Dataflow) -> None:
    checked = 0
    for seed in range(150):
        problem, mapping = random_case(seed, dataflow)
        inside = {"W": mapping.tile(2), "I": mapping.tile(2), "O": mapping.tile(1)}
        if max(_volume(one) for one in inside.values()) > 3000:
            continue
        checked += 1
        for tensor, tile in inside.items():
            assert tile_words(mapping, problem)[tensor] == _touched(problem, tensor, tile)
    assert checked > 50


def _volume(tile: dict[str, int]) -> int:
    volume = 1
    for extent in tile.values():
        volume *= extent
    return volume


def _touched(problem: Problem, tensor: str, tile: dict[str, int]) -> int:
    """Words of a tensor that a walk of the loops inside a tile needs; of the input, the rectangle around them."""
    seen = set()
    for place in itertools.product(*(range(tile[name]) for name in DIMS)):
        at = dict(zip(DIMS, place, strict=True))
        if tensor == "I":
            x = at["P"] * problem.stride_w + at["R"] * problem.dilation_w
            y = at["Q"] * problem.stride_h + at["S"] * problem.dilation_h
            seen.add((at["N"], at["C"], x, y))
        else:
            seen.add(tuple(at[name] for name in RELEVANT[tensor]))
    if tensor != "I":
        return len(seen)
    width, height = 1 + max(x for *_, x, _ in seen), 1 + max(y for *_, y in seen)
    return tile["N"] * tile["C"] * width * height


def test_occupancy_of_macros_is_that_of_their_blocks() -> None:
    """Rows of the array's width, counted one by one."""
    dim = GEMMINI.dim
    for layer, schedule in SCHEDULES:
        weights, inputs, results = plan_layer(layer, schedule, GEMMINI).held
        assert [(h.memory, h.tensor, h.copies) for h in (weights, inputs, results)] == [
            ("scratchpad", "W", 2),
            ("scratchpad", "I", 2),
            ("accumulator", "O", 2),
        ]
        p = layer.problem
        if isinstance(schedule, LoopWsSchedule):
            i, j, k = (
                range(min(n, -(-size // dim)))
                for n, size in ((schedule.i, p.P), (schedule.j, p.K), (schedule.k, p.C))
            )
            block = range(dim)
            assert weights.rows == len(set(itertools.product(k, j, block)))
            assert inputs.rows == len(set(itertools.product(i, k, block)))
            assert results.rows == len(set(itertools.product(i, j, block)))
        else:
            n, q, x, k, s, r, c = schedule.tile
            taps = itertools.product(range(q), range(x), range(s), range(r))
            seen = {(y + v, z + u) for y, z, v, u in taps}
            height, width = (1 + max(one[axis] for one in seen) for axis in (0, 1))
            blocks_c, blocks_k = -(-c // dim), -(-k // dim)
            assert weights.rows == blocks_k * s * r * c
            assert blocks_c * n * height * width == inputs.rows
            assert results.rows == blocks_k * n * q * x


def test_occupancy_of_explicit_code_fits_and_holds_the_tiles() -> None:
    for layer, schedule in SCHEDULES:
        mapping = mapping_of(layer, schedule, GEMMINI)
        held = plan_layer(layer, ExplicitSchedule(mapping), GEMMINI).held
        tile = {name: min(mapping.tile(2)[name], getattr(layer.problem, name)) for name in "RSCK"}
        capacity = {"scratchpad": GEMMINI.scratchpad_rows, "accumulator": GEMMINI.accumulator_rows}
        for one in held:
            if one.tensor == "W":
                blocks = -(-tile["K"] // mapping.columns)
                assert one.rows == blocks * tile["R"] * tile["S"] * tile["C"]
            capacity[one.memory] -= one.rows * one.copies
        assert min(capacity.values()) >= 0


def _details(layer: Layer, how: LoopWsSchedule | LoopConvSchedule) -> tuple[LayerDetail, float]:
    costs = schedule_costs([layer], [how], GEMMINI, "instruction")
    (found,) = schedule_details("instruction", [layer], [how], costs, GEMMINI)
    return found, costs[0].latency_cycles


def test_what_doubling_gives_is_the_prediction_for_such_an_accelerator() -> None:
    for layer, schedule in SCHEDULES:
        explicit = ExplicitSchedule(mapping_of(layer, schedule, GEMMINI))
        for how in (schedule, explicit):
            detail, cycles = _details(layer, how)  # type: ignore[arg-type]
            compute, memory, load, store, issue = detail.doubled
            faster = GEMMINI.replace(dram_bytes_per_cycle=2 * GEMMINI.dram_bytes_per_cycle)
            wider = GEMMINI.replace(
                dma_bits=2 * GEMMINI.dma_bits,
                dma_requests=2 * GEMMINI.dma_requests,
                load_entries=2 * GEMMINI.load_entries,
            )
            for found, machine in ((memory, faster), (load, wider), (store, wider)):
                (again,) = predict_layers([layer], [how], machine)
                assert found == min(cycles, float(again.cycles))
            assert cycles / 2 <= compute <= cycles
            assert cycles / 2 <= issue <= cycles


def test_moved_bytes_add_up_and_memory_is_a_resource() -> None:
    for layer, schedule in SCHEDULES:
        detail, _ = _details(layer, schedule)
        (cost,) = schedule_costs([layer], [schedule], GEMMINI, "instruction")
        moved = detail.moved_by_name
        assert sum(moved.values()) == pytest.approx(cost.accesses[3])
        assert moved["weights"] >= layer.problem.weight_words
        assert moved["results"] >= layer.problem.output_words
        busy = dict(zip(cost.resources, cost.latency_terms, strict=True))
        assert busy["memory"] == pytest.approx(cost.accesses[3] / GEMMINI.dram_bytes_per_cycle)


def test_details_of_the_reference_model() -> None:
    chance = random.Random(3)
    cases = [random_case(chance.randrange(10**6), "WS") for _ in range(30)]
    layers = [Layer(problem) for problem, _ in cases]
    mappings = [mapping for _, mapping in cases]
    problems = [problem for problem, _ in cases]
    costs = layer_costs(problems, mappings, GEMMINI)
    (found,) = layer_details("reference", layers, [(mappings, GEMMINI)], [costs])
    counts = access_counts(ProblemBatch.of(problems), MappingBatch.of(mappings))
    bandwidth = GEMMINI.dram_bytes_per_cycle
    faster = latency_terms(counts, float(GEMMINI.dim), 2 * bandwidth).amax(0).tolist()
    for detail, cost, best, mapping, problem in zip(found, costs, faster, mappings, problems, strict=True):
        assert detail.doubled[cost.resources.index("dram")] == best
        assert all(cost.latency_cycles / 2 <= one <= cost.latency_cycles for one in detail.doubled)
        assert tuple(map(sum, detail.words)) == cost.accesses
        assert detail.moved == ()
        scratchpad = sum(h.bytes * h.copies for h in detail.held if h.memory == "scratchpad")
        words, copies = tile_words(mapping, problem), mapping.buffering
        assert scratchpad == words["W"] * copies[0] + words["I"] * copies[1]


def test_details_of_many_designs_are_those_of_each() -> None:
    layers = [layer for layer, _ in SCHEDULES]
    mappings = [mapping_of(layer, schedule, GEMMINI) for layer, schedule in SCHEDULES]
    large = load_accelerator("gemmini-large")
    designs = [(mappings, GEMMINI), (mappings, large)]
    costs = [instruction_costs(layers, *design) for design in designs]
    together = layer_details("instruction", layers, designs, costs)
    for design, cost, found in zip(designs, costs, together, strict=True):
        assert layer_details("instruction", layers, [design], [cost]) == [found]
        assert all(one.held == () or len(one.held) == 3 for one in found)
    assert [type(realise(layer, m, GEMMINI)) for layer, m in zip(layers, mappings, strict=True)] == [
        type(schedule) for _, schedule in SCHEDULES
    ]


def test_code_that_does_not_fit_holds_nothing() -> None:
    layer = Layer(Problem(C=1 << 14, K=1 << 10), scale=0.5)
    temporal = [[1] * 7 for _ in range(4)]
    temporal[1][DIMS.index("C")] = 1 << 10
    temporal[2][DIMS.index("K")] = 1 << 6
    large = Mapping("WS", 16, 16, tuple(map(tuple, temporal)), tuple(["".join(DIMS)] * 4))  # type: ignore[arg-type]
    costs = instruction_costs([layer], [large], GEMMINI)
    ((detail,),) = layer_details("instruction", [layer], [([large], GEMMINI)], [costs])
    assert detail.held == ()
    assert sum(detail.moved) > 0


def test_lanes_of_the_array() -> None:
    assert [plan_layer(layer, schedule, GEMMINI).lanes for layer, schedule in SCHEDULES] == [(16, 16)] * 4
    narrow = Layer(Problem(P=50, C=5, K=7), scale=0.01)
    assert plan_layer(narrow, LoopWsSchedule(1, 1, 1), GEMMINI).lanes == (5, 7)
    first = Layer(Problem(R=7, S=7, P=28, Q=28, C=3, K=12, stride_w=2, stride_h=2), scale=0.01)
    assert plan_layer(first, LoopConvSchedule(1, 4, 28, 12, 7, 7, 3), GEMMINI).lanes == (3, 12)
    assert plan_layer(first, LoopConvSchedule(1, 4, 28, 12, 7, 7, 3, pixels=5), GEMMINI).lanes == (15, 12)
    mapping = mapping_of(narrow, LoopWsSchedule(1, 1, 1), GEMMINI)
    assert plan_layer(narrow, ExplicitSchedule(mapping), GEMMINI).lanes == (mapping.rows, mapping.columns)
