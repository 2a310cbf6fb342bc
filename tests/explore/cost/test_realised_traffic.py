"""Words that macro schedules move, counted from the program, against the reference model's counts of their mappings."""

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import requirement
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule, Schedule
from baco.compiler.styles.registry import mapping_of, realise
from baco.exploration.cost.reference import access_counts
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem

DEFAULT = load_accelerator("gemmini-default").replace(scratchpad_kib=64, accumulator_kib=16)

GEMM = Layer(Problem(P=96, C=128, K=96), scale=1.0)
CONV = Layer(Problem(R=3, S=3, P=12, Q=12, C=64, K=48), scale=1.0)
STRIDED = Layer(Problem(R=3, S=3, P=8, Q=8, C=64, K=32, stride_w=2, stride_h=2), scale=1.0)
GROUPED = Layer(Problem(R=3, S=3, P=8, Q=8, C=16, K=48, groups=3), scale=1.0)


@pytest.mark.parametrize(
    ("layer", "schedule"),
    [
        (GEMM, LoopWsSchedule(2, 2, 2, "ijk")),
        (GEMM, LoopWsSchedule(2, 3, 2, "jik")),
        (GEMM, LoopWsSchedule(3, 2, 8, "ijk", keep_a=True)),
        (GEMM, LoopWsSchedule(2, 3, 8, "jik", keep_b=True)),
        (CONV, LoopConvSchedule(1, 4, 12, 16, 3, 3, 16, "nqpksrc")),
        (CONV, LoopConvSchedule(1, 6, 4, 16, 3, 3, 64, "nqpksrc", keep_input=True)),
        (CONV, LoopConvSchedule(1, 4, 12, 16, 3, 3, 64, "knqpsrc", keep_weights=True)),
        (CONV, LoopConvSchedule(1, 4, 6, 16, 1, 3, 16, "nqpksrc")),
        (GROUPED, LoopConvSchedule(1, 4, 8, 16, 3, 3, 16, "nqpksrc", keep_input=True)),
        (STRIDED, LoopConvSchedule(1, 4, 8, 16, 3, 3, 16, "nqpksrc")),
    ],
    ids=lambda one: str(one) if not isinstance(one, Layer) else one.problem.kind,
)
def test_words_moved(layer: Layer, schedule: Schedule):
    """Products and weights exactly; inputs of strided tiles are fetched with the pixels between two tiles."""
    mapping = mapping_of(layer, schedule, DEFAULT)
    assert realise(layer, mapping, DEFAULT) == schedule
    counts = access_counts(ProblemBatch.of([layer.problem]), MappingBatch.of([mapping]))
    tensors = draw_tensors(layer, 1)
    _, result = run_program(layer_program(layer, schedule, DEFAULT, tensors))
    moved = result.activity["dram_read_bytes"] + result.activity["dram_write_bytes"]
    # the reference model slides the window along one more loop than tiles that are loaded whole
    words = float(counts.a3[0])
    p = layer.problem
    if p.R == 1:
        assert moved == words
    else:
        reads = _loaded_whole(layer, schedule)
        assert result.activity["dram_read_bytes"] == reads
        assert result.activity["dram_write_bytes"] == p.output_words
        assert words <= moved * 1.001


def _loaded_whole(layer: Layer, schedule: Schedule) -> int:
    """Bytes of tiles of inputs and weights by a plain nest of loops over them, an operand once while it is kept."""
    assert isinstance(schedule, LoopConvSchedule)
    p = layer.problem
    sizes = dict(zip("nqpksrc", (p.N, p.Q, p.P, p.K, p.S, p.R, p.C), strict=True))
    tile = dict(zip("nqpksrc", schedule.tile, strict=True))
    shape = [range(-(-sizes[axis] // tile[axis])) for axis in schedule.order]
    total, seen = 0, [set[tuple[int, ...]](), set[tuple[int, ...]]()]
    for at in np.ndindex(*(len(one) for one in shape)):
        place = dict(zip(schedule.order, at, strict=True))
        part = {axis: min(tile[axis], sizes[axis] - place[axis] * tile[axis]) for axis in sizes}
        height = part["q"] * p.stride_h + part["s"] - 1
        width = part["p"] * p.stride_w + part["r"] - 1
        top = place["q"] * tile["q"] * p.stride_h + place["s"] * tile["s"]
        left = place["p"] * tile["p"] * p.stride_w + place["r"] * tile["r"]
        height, width = min(height, layer.size[0] - top), min(width, layer.size[1] - left)
        inputs, weights = (
            tuple(place[x] for x in "nqpsrc"), tuple(place[x] for x in "ksrc")
        )  # fmt: skip
        if not (schedule.keep_input and inputs in seen[0]):
            total += part["n"] * height * width * part["c"]
        if not (schedule.keep_weights and weights in seen[1]):
            total += part["s"] * part["r"] * part["c"] * part["k"]
        seen[0].add(inputs)
        seen[1].add(weights)
    return total * p.groups


def test_tiles_and_capacity():
    """The mapping's tile is the schedule's, and what it needs is twice its rows."""
    schedule = LoopConvSchedule(1, 4, 12, 16, 3, 3, 16)
    mapping = mapping_of(CONV, schedule, DEFAULT)
    tile = mapping.tile(2)
    assert [tile[x] for x in "NQPKSRC"] == list(schedule.tile)
    need = requirement(mapping, CONV.problem)
    assert need.accumulator_words == 2 * 4 * 12
    assert need.scratchpad_rows == 2 * (6 * 14 + 9 * 16)
