"""Layers by explicit moves and products, exact against numpy integers, on the functional engine and on RTL."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.dataflows import Dataflow
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule
from baco.compiler.styles.explicit.code import buffered, prepare
from baco.compiler.styles.explicit.memory import allocate
from baco.compiler.styles.explicit.plan import make_plan
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import DIMS, Problem
from tests import machines
from tests.compiler.ir.strict_machine import StrictMachine
from tests.compiler.styles.layer_programs import Case, right_on, wrong_layers
from tests.compiler.styles.random_mappings import draw_case, draw_explorer_case, draw_mapping
from tests.seeds import seeds

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)
#: The whole range of GEMMs at dim 4.
SIZES = list(product(range(1, 10), repeat=3))
DATAFLOWS: tuple[Dataflow, Dataflow] = ("WS", "OS")


def accelerators(seed: int, count: int) -> list[Accelerator]:
    """Small machines of various shapes."""
    r = random.Random(seed)
    return [
        Accelerator(
            name=f"random-{n}",
            dim=r.choice((2, 4, 8, 16)),
            scratchpad_kib=r.choice((2, 8)),
            accumulator_kib=r.choice((2, 4)),
            partial_sum_bits=r.choice((32, 32, 20)),
            dma_max_bytes=r.choice((16, 64)),
        )
        for n in range(count)
    ]


def mapping(
    dataflow: Dataflow = "WS",
    *levels: dict[str, int],
    order: str = "PQNRSCK",
    buffering: tuple[int, int, int] = (1, 1, 1),
    rows: int = 4,
    columns: int = 4,
) -> Mapping:
    """A mapping from factors by level, 0 to 3."""
    temporal = tuple(tuple(level.get(name, 1) for name in DIMS) for level in levels)
    return Mapping(dataflow, rows, columns, temporal, ("RSCPQNK", "RSCPQNK", "RSCPQNK", order), buffering)


def _products(sizes: list[tuple[int, int, int]], dataflow: Dataflow, seed: int) -> list[Case]:
    r = random.Random(seed)
    cases = []
    for rows, depth, columns in sizes:
        scale = r.choice((None, 0.05))
        layer = Layer(
            Problem(P=rows, C=depth, K=columns),
            bias=r.random() < 0.5,
            scale=scale,
            relu=scale is not None and r.random() < 0.5,
            weights_transposed=r.random() < 0.2,
        )
        cases.append(Case(layer, ExplicitSchedule(draw_mapping(r, layer.problem, 4, dataflow))))
    return cases


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_products(dataflow: Dataflow) -> None:
    assert wrong_layers(_products(random.Random(1).sample(SIZES, 8), dataflow, 1), SMALL) == []


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("part", range(81))
def test_all_small_products(dataflow: Dataflow, part: int) -> None:
    assert wrong_layers(_products(SIZES[part::81], dataflow, part), SMALL) == []


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("accelerator", accelerators(3, 1), ids=lambda one: one.name)
def test_layers_with_wild_mappings(dataflow: Dataflow, accelerator: Accelerator) -> None:
    r = random.Random(accelerator.dim)
    assert wrong_layers([draw_case(r, accelerator, dataflow) for _ in range(4)], accelerator) == []


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("seed", range(125))
def test_many_layers_with_wild_mappings(dataflow: Dataflow, seed: int) -> None:
    accelerator = accelerators(seed, 1)[0]
    r = random.Random(seed)
    assert wrong_layers([draw_case(r, accelerator, dataflow) for _ in range(8)], accelerator) == []


def _explorer_cases(seed: int, dataflow: Dataflow, count: int) -> tuple[list[Case], Accelerator]:
    accelerator = accelerators(seed, 1)[0]
    r = random.Random(seed)
    memories = (accelerator.scratchpad_rows, accelerator.accumulator_rows)
    return [draw_explorer_case(r, accelerator.dim, dataflow, *memories) for _ in range(count)], accelerator


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_mappings_of_the_explorer_run_on_what_they_require(dataflow: Dataflow) -> None:
    assert wrong_layers(*_explorer_cases(100, dataflow, 4)) == []


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("seed", range(63))
def test_many_mappings_of_the_explorer(dataflow: Dataflow, seed: int) -> None:
    assert wrong_layers(*_explorer_cases(seed, dataflow, 8)) == []


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_on_rtl(dataflow: Dataflow) -> None:
    r = random.Random(7)
    assert (
        wrong_layers([draw_case(r, machines.SMALL, dataflow) for _ in range(4)], machines.SMALL, engine="rtl")
        == []
    )


# ---------------------------------------------------------------- chosen cases


def test_sums_that_are_visited_again_go_through_memory() -> None:
    """A reduction loop outside: int32 sums in a workspace, or in the raw output."""
    chosen = mapping("WS", {}, {}, {}, {"P": 3, "C": 3, "K": 2}, order="PKRSCQN", buffering=(2, 2, 2))
    narrow = Layer(Problem(P=3, C=11, K=7), bias=True, residual_scale=0.5, scale=0.02)
    raw = Layer(Problem(P=3, C=11, K=7), bias=True, scale=None)
    schedule = ExplicitSchedule(chosen)
    assert plan_layer(narrow, schedule, SMALL).workspaces == (("partial_sums", 3 * 7 * 4),)
    assert plan_layer(raw, schedule, SMALL).workspaces == ()
    assert wrong_layers([Case(narrow, schedule), Case(raw, schedule)], SMALL) == []


def test_a_reduction_loop_innermost_keeps_the_sums() -> None:
    schedule = ExplicitSchedule(mapping("WS", {"P": 3}, {}, {}, {"C": 3, "K": 2}, order="CRSPQKN"))
    assert plan_layer(Layer(Problem(P=3, C=11, K=7)), schedule, SMALL).workspaces == ()


def test_long_output_stationary_sums_are_cut_where_partial_sums_would_overflow() -> None:
    narrow = SMALL.replace(partial_sum_bits=20)
    layer = Layer(Problem(P=5, C=200, K=3), scale=None)
    case = Case(layer, ExplicitSchedule(mapping("OS", {"C": 200}, {"P": 2}, {}, {})))
    assert wrong_layers([case], narrow) == []


@pytest.mark.parametrize(
    "pooling",
    [Pooling(2, 2, 0, 4, 4), Pooling(3, 2, 1, 4, 4), Pooling(3, 1, 1, 8, 8), Pooling(1, 3, 0, 3, 2)],
    ids=str,
)
def test_pooling_on_the_way_and_afterwards(pooling: Pooling) -> None:
    layer = Layer(Problem(R=3, S=3, P=8, Q=8, C=5, K=6), (8, 8), (1, 1), scale=0.02, pooling=pooling)
    window = {"R": 3, "S": 3, "C": 2}
    whole = mapping("WS", {"P": 8, "Q": 8}, {}, window, {"K": 2})
    parts = mapping("WS", {"P": 4, "Q": 2}, {}, window, {"K": 2, "P": 2, "Q": 4})
    machine = SMALL.replace(accumulator_kib=4)
    assert not prepare(layer, whole, machine).pooled_after
    assert prepare(layer, parts, machine).pooled_after == (pooling.size != 2)
    assert wrong_layers([Case(layer, ExplicitSchedule(one)) for one in (whole, parts)], machine) == []


def test_pooling_windows_that_fill_the_accumulator_or_a_field() -> None:
    window = Layer(Problem(P=5, Q=5, C=3, K=3), scale=1.0, pooling=Pooling(3, 1, 1, 5, 5))
    tiny = SMALL.replace(dim=16, accumulator_kib=1)  # 16 rows, 8 a bank
    wide = Layer(Problem(P=300, C=3, K=3), scale=1.0, pooling=Pooling(2, 1, 1, 2, 301))
    one = ExplicitSchedule(mapping("WS", {"P": 5}, {}, {}, {"Q": 5}, rows=3, columns=3))
    assert wrong_layers([Case(window, one)], tiny) == []
    strips = ExplicitSchedule(mapping("WS", {"P": 60}, {}, {}, {"P": 5}, rows=3, columns=3))
    assert wrong_layers([Case(wide, strips)], SMALL) == []
    with pytest.raises(InfeasibleError, match="takes 9 rows of the accumulator, 1 more than there are"):
        plan_layer(window, one, SMALL.replace(dim=32, accumulator_kib=1))


def test_depthwise_layers_of_several_groups_at_once() -> None:
    for groups in (4, 11):
        layer = Layer(Problem(R=3, S=3, P=6, Q=5, groups=groups), (5, 6), (1, 1), bias=True, scale=0.05)
        packs = mapping("WS", {"P": 6, "Q": 5}, {}, {"R": 3, "S": 3}, {})
        alone = mapping("WS", {"P": 6, "Q": 5}, {}, {"R": 3, "S": 3}, {}, rows=1, columns=1)
        cases = [Case(layer, DepthwiseSchedule(packs, 4)), Case(layer, ExplicitSchedule(alone))]
        assert wrong_layers(cases, SMALL) == []


def test_transposed_weights_in_either_dataflow() -> None:
    layer = Layer(Problem(P=6, C=9, K=5, groups=2), weights_transposed=True, scale=None)
    stationary = mapping("WS", {"P": 6}, {}, {"C": 3, "K": 2}, {})
    moving = mapping("OS", {"C": 9}, {"P": 2}, {"K": 2}, {})
    assert not prepare(layer, stationary, SMALL).transposed
    assert prepare(layer, moving, SMALL).transposed
    assert wrong_layers([Case(layer, ExplicitSchedule(one)) for one in (stationary, moving)], SMALL) == []


def test_pixels_between_strides_are_not_loaded() -> None:
    """A window of one pixel at stride 2 keeps a quarter of the image."""
    layer = Layer(Problem(P=4, Q=4, C=4, K=4, stride_w=2, stride_h=2))
    plan = make_plan(layer, mapping("WS", {"P": 4, "Q": 4}, {}, {}, {}), SMALL)
    assert (plan.row.step, plan.column.step, plan.input_rows) == (2, 2, 16)


def test_rows_of_pixels_become_one() -> None:
    """Nothing tells the pixels of an unpadded 1x1 convolution apart: passes and moves run across rows."""
    layer = Layer(Problem(P=7, Q=7, N=2, C=4, K=4))
    plan = make_plan(layer, mapping("WS", {"P": 7, "Q": 7}, {}, {}, {"N": 2}), SMALL)
    assert plan.bounds["P"] == 98
    assert (plan.tile["P"], plan.tile["Q"], plan.visits) == (49, 1, 2)


def test_copies_where_they_fit() -> None:
    layer = Layer(Problem(P=96, C=8, K=8))
    small = mapping("WS", {"P": 4}, {}, {}, {"P": 24, "C": 2, "K": 2})
    assert buffered(layer, small, SMALL).buffering == (2, 2, 2)
    long = mapping("WS", {"P": 96}, {}, {}, {"C": 2, "K": 2})  # 96 of 128 accumulator rows
    assert buffered(layer, long, SMALL).buffering == (2, 2, 1)
    with pytest.raises(InfeasibleError, match="take 96 rows of the accumulator, 32 more"):
        buffered(layer, long, SMALL.replace(accumulator_kib=1))


def test_regions_lie_in_different_banks() -> None:
    layer = Layer(Problem(P=8, C=8, K=8))
    chosen = mapping("WS", {"P": 4}, {}, {}, {"P": 2, "C": 2, "K": 2}, buffering=(2, 2, 2))
    memory = allocate(make_plan(layer, chosen, SMALL))
    quarter = SMALL.scratchpad_rows // 4
    assert {start // quarter % 2 for start in memory.inputs.starts} == {0}
    assert {start // quarter % 2 for start in memory.weights.starts} == {1}
    assert memory.results.starts == (0, SMALL.accumulator_rows // 2)
    assert str(memory) == (
        "scratchpad of 1024 rows: I 0..3, 512..515; W 256..259, 768..771\n"
        "accumulator of 128 rows: O 0..3, 64..67"
    )


# ---------------------------------------------------------------- refusals

LAYER = Layer(Problem(P=8, C=8, K=8))
WHOLE = mapping("WS", {"P": 8}, {}, {"C": 2, "K": 2}, {})


@pytest.mark.parametrize(
    ("layer", "chosen", "changes", "message"),
    [
        (LAYER, WHOLE, {"dataflow": "OS"}, "the mapping is WS, but small runs OS only"),
        (
            LAYER,
            mapping("WS", {"P": 8}, {}, {}, {}, rows=8, columns=8),
            {},
            "uses 8 rows of the array, 4 more",
        ),
        (
            Layer(Problem(P=300, C=4, K=4)),
            mapping("WS", {"P": 300}, {}, {}, {}),
            {},
            "take 300 rows of the accumulator, 172 more than its 128",
        ),
        (
            Layer(Problem(P=100, C=80, K=4)),
            mapping("WS", {"P": 100}, {}, {"C": 20}, {}),
            {},
            "take 2080 rows of the scratchpad, 1056 more than its 1024",
        ),
        (
            Layer(LAYER.problem, scale=None),
            WHOLE,
            {"features": Features(read_full_width=False)},
            "int32 sums",
        ),
        (Layer(LAYER.problem, relu=True), WHOLE, {"features": Features(activations=False)}, "no ReLU"),
        (LAYER, WHOLE, {"features": Features(read_small_width=False)}, "requantised sums"),
        (
            Layer(LAYER.problem, scale=0.5),
            WHOLE,
            {"features": Features(accumulator_scale=False)},
            "scale results",
        ),
        (
            Layer(LAYER.problem, residual_scale=0.5),
            WHOLE,
            {"features": Features(mvin_scale=False)},
            "scale a residual",
        ),
        (LAYER, WHOLE, {"partial_sum_bits": 12}, "12 bits cannot hold one product"),
    ],
    ids=str,
)
def test_what_cannot_run_says_why(
    layer: Layer, chosen: Mapping, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InfeasibleError, match=message):
        plan_layer(layer, ExplicitSchedule(chosen), SMALL.replace(**changes))


def test_a_mapping_that_does_not_cover_the_layer() -> None:
    with pytest.raises(InputError, match="factors of C multiply to 4, less than its bound 8"):
        plan_layer(LAYER, ExplicitSchedule(mapping("WS", {"P": 8}, {}, {"K": 2}, {})), SMALL)


def test_groups_that_cannot_run_together() -> None:
    layer = Layer(Problem(P=4, Q=4, groups=4), input=Layout(8, 2))
    with pytest.raises(InfeasibleError, match="side by side"):
        plan_layer(layer, DepthwiseSchedule(WHOLE, 4), SMALL)
    with pytest.raises(InfeasibleError, match="there are only 4"):
        plan_layer(layer, DepthwiseSchedule(WHOLE, 5), SMALL)


# ---------------------------------------------------------------- what a program requires


def strictly(case: Case, accelerator: Accelerator, seed: int, rows: dict[str, int] | None = None) -> bool:
    """Whether a case is right on the numpy accelerator that asserts hazards are avoided.

    `rows`: of the local memories, as `requirement` gives them; default: all.
    """
    machine = StrictMachine(accelerator, 1 << 19)
    if rows:
        machine.gemmini.sp = machine.gemmini.sp[: rows["scratchpad_rows"]]
        machine.gemmini.acc = machine.gemmini.acc[: rows["accumulator_rows"]]
    return right_on(machine, accelerator, case, np.random.default_rng(seed))


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_hazards_are_avoided(dataflow: Dataflow) -> None:
    r = random.Random(31)
    assert all(strictly(draw_case(r, SMALL, dataflow), SMALL, seed) for seed in range(7))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_hazards_are_avoided_by_many(seed: int) -> None:
    accelerator = accelerators(seed, 1)[0]
    r = random.Random(seed)
    for dataflow in DATAFLOWS:
        assert all(strictly(draw_case(r, accelerator, dataflow), accelerator, n) for n in range(10))


@pytest.mark.parametrize("seed", seeds(2, of=6, start=1))
def test_a_program_runs_on_what_it_requires(seed: int) -> None:
    """The rows it addresses are enough: an accelerator with fewer rows does with it."""
    case = draw_case(random.Random(seed), SMALL, "WS")
    need = plan_layer(case.layer, case.schedule, SMALL).requirement
    assert need["dim"] == 4
    assert need["scratchpad_rows"] <= SMALL.scratchpad_rows
    assert need["accumulator_rows"] <= SMALL.accumulator_rows
    assert strictly(case, SMALL, seed, need)


def test_what_macros_require() -> None:
    layer = Layer(Problem(P=16, C=16, K=16))
    big = SMALL.replace(scratchpad_kib=64, accumulator_kib=64)
    need = plan_layer(layer, LoopWsSchedule(2, 2, 2), big).requirement
    assert need == {"dim": 4, "scratchpad_rows": 256, "accumulator_rows": 64}
