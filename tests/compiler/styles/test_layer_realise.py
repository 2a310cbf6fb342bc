"""Mappings and the macro schedules that carry them out."""

import random
from dataclasses import replace

import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator
from baco.bench.layer_shapes import layer_shapes
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.choice.choose import choices
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.mapping.nest import Mapping, packed_groups, requirement
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
)
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import as_product, check_loop_ws
from baco.compiler.styles.macros.loop_ws_style import flat_layer
from baco.compiler.styles.registry import macro_form, mapping_of, plan_layer, realise
from baco.workloads.problem import DIMS, Problem
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.macro_mappings import draw_macro_mapping
from tests.compiler.styles.random_layers import draw_convolution, draw_product

DEFAULT = load_accelerator("gemmini-default")
ACCELERATORS = (
    DEFAULT,
    Accelerator(name="small", dim=8, scratchpad_kib=32, accumulator_kib=8),
    Accelerator(name="large", dim=32, scratchpad_kib=128, accumulator_kib=64),
)
#: Shapes that differ in kind; the slow test takes all of them.
SOME = ("conv1 ", "layer2.0.conv2", "layer2.0.downsample", "layer3.1.conv1", "fc", "BERT scores")


def _round_trips(layer: Layer, accelerator: Accelerator, best: int) -> int:
    """Every macro schedule of a flat layer that a mapping can say is what its mapping becomes; how many there were."""
    count = 0
    for choice in choices(layer, accelerator, best, style="macro"):
        schedule = choice.schedule
        mapping = mapping_of(layer, schedule, accelerator)
        mapping.check(layer.problem)
        again = realise(layer, mapping, accelerator)
        if isinstance(schedule, LoopConvSchedule) and as_product(layer):
            assert isinstance(again, LoopWsSchedule | ExplicitSchedule)
            continue
        if schedule == gemmini_schedule(layer, accelerator):
            continue
        if isinstance(schedule, LoopConvSchedule) and schedule.pixels > 1:
            # packed operands never stay, whatever is asked for
            schedule = replace(schedule, keep_input=False, keep_weights=False)
        assert again == schedule
        count += 1
    return count


def _named(names: tuple[str, ...]):
    return [one for one in layer_shapes(("resnet50", "gemm")) if one.name.startswith(names)]


@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda one: one.name)
def test_round_trip(accelerator):
    for named in _named(SOME):
        assert _round_trips(flat_layer(named.layer), accelerator, 3)


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda one: one.name)
def test_round_trip_of_all_shapes(accelerator):
    for named in _named(("",)):
        assert _round_trips(flat_layer(named.layer), accelerator, 8)


@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda one: one.name)
def test_default_tilings(accelerator):
    """Those that the macros can do become macros of the same tiles, or nearly those where channels do not divide."""
    seen = 0
    for named in _named(("",)):
        layer = flat_layer(named.layer)
        schedule = gemmini_schedule(layer, accelerator)
        mapping = mapping_of(layer, schedule, accelerator)
        mapping.check(layer.problem)
        again = realise(layer, mapping, accelerator)
        assert type(again) is type(schedule)
        if isinstance(schedule, LoopWsSchedule):
            assert isinstance(again, LoopWsSchedule)
            assert (again.i, again.j, again.k) == (schedule.i, schedule.j, schedule.k)
        else:
            assert isinstance(again, LoopConvSchedule)
            ours, theirs = again.tile, schedule.tile
            assert [ours[n] for n in (0, 1, 2, 4, 5)] == [theirs[n] for n in (0, 1, 2, 4, 5)]
            for n, bound in ((3, layer.problem.K), (6, layer.problem.C)):
                blocks = -(-theirs[n] // accelerator.dim)
                assert theirs[n] - blocks < ours[n] <= theirs[n]
                assert -(-bound // ours[n]) == -(-bound // theirs[n])
        seen += 1
    assert seen == 34


def _accelerator(r: random.Random) -> Accelerator:
    dim = r.choice((2, 4, 8))
    return Accelerator(
        name="random", dim=dim, scratchpad_kib=r.choice((4, 8)) * dim, accumulator_kib=r.choice((1, 2)) * dim
    )


def _drawn(r: random.Random, accelerator: Accelerator) -> tuple[Layer, Mapping]:
    if r.random() < 0.5:
        layer = draw_product(r, *(r.randint(1, 5 * accelerator.dim) for _ in range(3)))
    else:
        layer = draw_convolution(r)
    mapping = draw_macro_mapping(r, layer.problem, accelerator.dim)
    if r.random() < 0.3:
        order = "".join(r.sample(DIMS, len(DIMS)))
        mapping = replace(mapping, order=(*mapping.order[:3], order))
    return layer, mapping


def _can_be_said(layer: Layer) -> bool:
    """Whether mappings can say all tilings of a layer, see `mapping_of`; pooled ones where no result is left out."""
    p, pool = layer.problem, layer.pooling
    if pool is not None:
        reach = [(n - 1) * pool.stride + pool.size - pool.padding for n in (pool.rows, pool.columns)]
        return pool.size >= pool.stride and reach[0] >= p.Q and reach[1] >= p.P
    return layer.is_product or as_product(layer) is None


def _random_mappings_are_exact(seed: int, count: int) -> None:
    r = random.Random(seed)
    accelerator = _accelerator(r)
    cases = []
    while len(cases) < count:
        layer, mapping = _drawn(r, accelerator)
        schedule = realise(layer, mapping, accelerator)
        if isinstance(schedule, ExplicitSchedule):
            continue
        assert macro_form(layer, mapping, accelerator) == schedule
        again = mapping_of(layer, schedule, accelerator)
        again.check(layer.problem)
        if _can_be_said(layer):
            assert realise(layer, again, accelerator) == schedule
        cases.append(Case(layer, schedule))
    assert wrong_layers(cases, accelerator, seed=seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_mappings_are_exact(seed):
    _random_mappings_are_exact(seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 40))
def test_many_random_mappings_are_exact(seed):
    _random_mappings_are_exact(seed, 60)


def test_needs_are_halves():
    """Whole blocks and stride 1: a mapping needs twice the rows of its macro's tile, no more and no less."""
    r = random.Random(3)
    seen = 0
    while seen < 300:
        dim = r.choice((4, 8, 16))
        window = r.choice((1, 3))
        p = Problem(R=window, S=window, P=dim * r.randint(1, 3), Q=r.randint(1, 5) if window > 1 else 1,
                    C=dim * r.randint(1, 6), K=dim * r.randint(1, 6), N=r.choice((1, 2)) if window > 1 else 1)  # fmt: skip
        layer = Layer(p)
        mapping = draw_macro_mapping(r, p, dim)
        tile = mapping.tile(2)
        if mapping.rows != dim or mapping.columns != dim or any(tile[x] > getattr(p, x) for x in "CK"):
            continue
        if window == 1 and tile["P"] % dim:
            continue
        need = requirement(mapping, p)
        just = _accelerator_of(dim, need.scratchpad_rows, need.accumulator_words)
        if just is None:
            continue
        schedule = realise(layer, mapping, just)
        assert not isinstance(schedule, ExplicitSchedule)
        for fewer in (
            {"scratchpad_kib": just.scratchpad_kib // 2},
            {"accumulator_kib": just.accumulator_kib // 2},
        ):
            if 0 not in fewer.values():
                assert isinstance(realise(layer, mapping, just.replace(**fewer)), ExplicitSchedule)
        least = plan_layer(layer, schedule, just).requirement
        assert least["scratchpad_rows"] == just.scratchpad_rows
        assert least["accumulator_rows"] == just.accumulator_rows
        seen += 1


def _accelerator_of(dim: int, scratchpad_rows: int, accumulator_rows: int) -> Accelerator | None:
    """The smallest accelerator with so many rows."""
    scratchpad, accumulator = 1, 1
    while scratchpad * 1024 // dim < scratchpad_rows:
        scratchpad *= 2
    while accumulator * 1024 // (4 * dim) < accumulator_rows:
        accumulator *= 2
    try:
        return Accelerator(name="just", dim=dim, scratchpad_kib=scratchpad, accumulator_kib=accumulator,
                           scratchpad_banks=2)  # fmt: skip
    except (InputError, ValueError):
        return None


def _mapping(layer: Layer, tile: dict[str, int], **changes) -> Mapping:
    """16 lanes both ways, a tile of the given pixels and blocks."""
    p = layer.problem
    level0 = tuple(tile.get(x, 1) if x in "PQN" else 1 for x in DIMS)
    level1 = tuple(1 if x in "PQN" else tile.get(x, 1) for x in DIMS)
    lanes = {"C": 16, "K": 16}
    level3 = tuple(-(-getattr(p, x) // (tile.get(x, 1) * lanes.get(x, 1))) for x in DIMS)
    fields = {
        "dataflow": "WS", "rows": 16, "columns": 16, "temporal": (level0, level1, (1,) * 7, level3),
        "order": ("RSCPQNK",) * 3 + ("RSCKPQN",), "buffering": (2, 2, 2),
    } | changes  # fmt: skip
    return Mapping(**fields)


GEMM = Layer(Problem(P=128, C=128, K=128), bias=True)
CONV = Layer(Problem(R=3, S=3, P=28, Q=28, C=64, K=64), (28, 28), (1, 1))


def test_what_becomes_of_a_mapping():
    whole = _mapping(GEMM, {"P": 64, "C": 8, "K": 4})
    assert realise(GEMM, whole, DEFAULT) == LoopWsSchedule(4, 4, 8, "ijk", keep_a=True, keep_b=True)
    outside = replace(whole, order=(*whole.order[:3], "RSCPQNK"))
    assert realise(GEMM, outside, DEFAULT) == LoopWsSchedule(4, 4, 8, "jik", keep_a=True, keep_b=True)
    spilling = _mapping(GEMM, {"P": 64, "C": 2, "K": 8}, order=("RSCPQNK",) * 3 + ("PQNKRSC",))
    assert realise(GEMM, spilling, DEFAULT) == LoopWsSchedule(4, 8, 2, "kji", keep_b=True)
    rounded = _mapping(GEMM, {"P": 50, "C": 8, "K": 4})
    assert realise(GEMM, rounded, DEFAULT) == LoopWsSchedule(4, 4, 8, "ijk", keep_a=True, keep_b=True)
    conv = _mapping(CONV, {"P": 28, "Q": 7, "R": 3, "S": 3, "C": 4, "K": 2})
    assert realise(CONV, conv, DEFAULT) == LoopConvSchedule(
        1, 7, 28, 32, 3, 3, 64, "nqpkcsr", keep_input=True, keep_weights=True
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"dataflow": "OS", "temporal": ((1,) * 7, (1, 1, 64, 1, 128, 4, 1), (1,) * 7, (1, 1, 2, 1, 1, 2, 1)), "rows": 1},
        {"buffering": (1, 2, 2)},
        {"temporal": ((1, 1, 64, 1, 1, 1, 1), (1, 1, 1, 1, 8, 4, 1), (1, 1, 1, 1, 1, 2, 1), (1, 1, 2, 1, 1, 1, 1))},
        {"temporal": ((1, 1, 32, 1, 1, 1, 1), (1, 1, 2, 1, 8, 4, 1), (1,) * 7, (1, 1, 2, 1, 1, 2, 1))},
        {"rows": 8, "temporal": ((1, 1, 64, 1, 1, 1, 1), (1, 1, 1, 1, 16, 4, 1), (1,) * 7, (1, 1, 2, 1, 1, 2, 1))},
        {"columns": 17},
    ],
)  # fmt: skip
def test_no_macro_form(changes):
    mapping = _mapping(GEMM, {"P": 64, "C": 8, "K": 4}, **changes)
    assert macro_form(GEMM, mapping, DEFAULT) is None
    assert realise(GEMM, mapping, DEFAULT) == ExplicitSchedule(mapping)


def test_sums_that_leave_a_convolution():
    mapping = _mapping(
        CONV, {"P": 28, "Q": 7, "R": 3, "S": 3, "C": 2, "K": 2}, order=("RSCPQNK",) * 3 + ("PQNRSCK",)
    )
    assert macro_form(CONV, mapping, DEFAULT) is None
    still = _mapping(
        CONV, {"P": 28, "Q": 7, "R": 3, "S": 3, "C": 4, "K": 2}, order=("RSCPQNK",) * 3 + ("PQNRSCK",)
    )
    assert isinstance(realise(CONV, still, DEFAULT), LoopConvSchedule)


def test_loops_over_pixels_split_by_another():
    layer = Layer(Problem(P=32, Q=4, C=32, K=64))
    split = _mapping(layer, {"P": 16, "C": 2, "K": 2}, order=("RSCPQNK",) * 3 + ("RSCPKQN",))
    assert macro_form(layer, split, DEFAULT) is None
    whole = _mapping(layer, {"P": 16, "C": 2, "K": 4}, order=("RSCPQNK",) * 3 + ("RSCPKQN",))
    assert realise(layer, whole, DEFAULT) == LoopWsSchedule(1, 4, 2, "ijk", keep_b=True)


def test_what_the_macros_lack_is_explicit():
    mapping = _mapping(GEMM, {"P": 64, "C": 8, "K": 4})
    without = DEFAULT.replace(features=Features(loop_ws=False))
    assert realise(GEMM, mapping, without) == ExplicitSchedule(mapping)
    both = replace(GEMM, residual_scale=0.5)
    assert realise(both, mapping, DEFAULT) == ExplicitSchedule(mapping)
    raw = replace(CONV, scale=None)
    conv = _mapping(CONV, {"P": 28, "Q": 7, "R": 3, "S": 3, "C": 4, "K": 2})
    assert realise(raw, conv, DEFAULT) == ExplicitSchedule(conv)
    large = _mapping(GEMM, {"P": 128, "C": 8, "K": 8})
    tiny = DEFAULT.replace(scratchpad_kib=32)
    assert realise(GEMM, large, tiny) == ExplicitSchedule(large)


def test_first_layers_pack_pixels():
    layer = Layer(Problem(R=7, S=7, P=56, Q=56, C=3, K=64, stride_w=2, stride_h=2), (112, 112), (3, 3))
    mapping = _mapping(layer, {"P": 28, "Q": 4, "R": 7, "S": 7, "K": 4}, rows=3)
    schedule = realise(layer, mapping, DEFAULT)
    assert isinstance(schedule, LoopConvSchedule)
    assert schedule.pixels == 5
    plain = DEFAULT.replace(features=Features(first_layer=False))
    unpacked = realise(layer, mapping, plain)
    assert isinstance(unpacked, LoopConvSchedule)
    assert unpacked.pixels == 1


def test_pooled_tiles():
    """Unpooled tiles that meet are pooled tiles that overlap: as many of them."""
    layer = Layer(
        Problem(R=3, S=3, P=112, Q=112, C=16, K=16), (112, 112), (1, 1), pooling=Pooling(3, 2, 1, 56, 56)
    )
    mapping = _mapping(layer, {"P": 28, "Q": 14, "R": 3, "S": 3})
    schedule = realise(layer, mapping, DEFAULT)
    assert isinstance(schedule, LoopConvSchedule)
    assert (schedule.columns, schedule.rows) == (14, 7)
    again = mapping_of(layer, schedule, DEFAULT)
    assert again.factor("P", 0) == 29
    assert realise(layer, again, DEFAULT) == schedule


def test_flat_layers():
    """A window of one pixel is a product; its tensors lie as before, so the same schedule computes the same."""
    r = random.Random(9)
    seen = 0
    while seen < 100:
        layer = draw_convolution(r)
        flat = flat_layer(layer)
        if as_product(layer) is None:
            assert flat is layer
            continue
        assert flat.is_product
        assert as_product(flat) == as_product(layer)
        assert (flat.input_extent, flat.weight_extent, flat.output_extent) == (
            layer.input_extent, layer.weight_extent, layer.output_extent
        )  # fmt: skip
        seen += 1


def test_nearest_tile_of_an_image():
    """128 neighbouring pixels of an image 56 wide are no rectangle; tiles that take as many blocks stand for them."""
    layer = Layer(Problem(P=56, Q=56, C=64, K=64))
    schedule = LoopWsSchedule(8, 4, 4, "ijk", keep_b=True)
    mapping = mapping_of(layer, schedule, DEFAULT)
    mapping.check(layer.problem)
    assert realise(layer, mapping, DEFAULT) == schedule
    flat = mapping_of(flat_layer(layer), schedule, DEFAULT)
    assert flat.factor("P", 0) == 128
    assert flat.factor("P", 3) == 25


def test_mappings_must_cover_the_problem():
    mapping = _mapping(GEMM, {"P": 64, "C": 8, "K": 4})
    with pytest.raises(InputError, match="less than its bound"):
        realise(Layer(Problem(P=500, C=128, K=128)), mapping, DEFAULT)
    with pytest.raises(InfeasibleError, match="is a convolution"):
        mapping_of(CONV, LoopWsSchedule(1, 1, 1), DEFAULT)


def test_checks_agree():
    """Whatever has macro form and is refused, the lowering refuses too."""
    r = random.Random(11)
    refused = 0
    for _ in range(400):
        accelerator = _accelerator(r)
        layer, mapping = _drawn(r, accelerator)
        form = macro_form(layer, mapping, accelerator)
        if form is None or not isinstance(realise(layer, mapping, accelerator), ExplicitSchedule):
            continue
        refused += 1
        check = check_loop_ws if isinstance(form, LoopWsSchedule) else plan_loop_conv
        with pytest.raises(InfeasibleError):
            check(layer, form, accelerator)
    assert refused


# -------------------------------------------------------------------- groups that share a pass

DEPTHWISE = Layer(Problem(R=3, S=3, P=11, Q=9, C=1, K=1, groups=21), (9, 11), (1, 1), scale=0.02)
PAIRS = Layer(Problem(R=3, S=1, P=12, Q=5, C=3, K=2, groups=9), scale=0.01, bias=True)


@pytest.mark.parametrize(
    "accelerator",
    [*ACCELERATORS[:2], pytest.param(ACCELERATORS[2], marks=pytest.mark.slow)],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("layer", [DEPTHWISE, PAIRS], ids=["depthwise", "grouped"])
def test_packed_schedules_are_mappings_and_compute_the_layer(layer: Layer, accelerator: Accelerator) -> None:
    packed = [
        choice.schedule
        for choice in choices(layer, accelerator, 3)
        if isinstance(choice.schedule, DepthwiseSchedule)
    ]
    assert packed
    for schedule in packed:
        mapping = mapping_of(layer, schedule, accelerator)
        mapping.check(layer.problem)
        assert realise(layer, mapping, accelerator) == schedule
        assert schedule.packed * layer.problem.C <= mapping.rows
        assert schedule.packed * layer.problem.K <= mapping.columns
    assert not wrong_layers([Case(layer, schedule) for schedule in packed[:2]], accelerator)


def test_which_mappings_run_several_groups_at_once() -> None:
    def mapping(rows: int, columns: int, c: int = 1, dataflow: str = "WS") -> Mapping:
        level1 = {"R": 3, "S": 3, "C": c}
        level3 = {"P": 11, "Q": 9}
        temporal = tuple(tuple(level.get(name, 1) for name in DIMS) for level in ({}, level1, {}, level3))
        return Mapping(dataflow, rows, columns, temporal, ("RSCPQNK",) * 4)  # type: ignore[arg-type]

    problem = DEPTHWISE.problem
    assert packed_groups(mapping(1, 1), problem) == 1
    assert packed_groups(mapping(8, 4), problem) == 4
    assert packed_groups(mapping(64, 64), problem) == 21
    assert packed_groups(mapping(8, 8, c=2), problem) == 1, "the depth is not all in the array"
    assert packed_groups(mapping(8, 8, dataflow="OS"), problem) == 1, "rows are pixels"
    assert packed_groups(mapping(8, 8), replace(problem, groups=1)) == 1
    assert packed_groups(mapping(8, 8), replace(problem, C=3, K=2)) == 2
    # channels of neighbouring groups that are not side by side
    apart = replace(DEPTHWISE, input=Layout(pitch=42, group=2))
    assert isinstance(realise(apart, mapping(8, 8), DEFAULT), ExplicitSchedule)
    with pytest.raises(InfeasibleError, match="no mapping"):
        mapping_of(DEPTHWISE, DepthwiseSchedule(mapping(8, 8), 4), DEFAULT)


def test_few_pixels_take_few_groups_at_once() -> None:
    """Large matrices are not worth expanding for a few pixels: no choice is worse than the one with most groups."""
    few = Layer(Problem(R=3, S=3, P=7, Q=7, C=1, K=1, groups=64), (7, 7), (1, 1), scale=0.02)
    chosen = choices(few, ACCELERATORS[2], style="explicit")[0].schedule
    assert isinstance(chosen, DepthwiseSchedule)
    assert 1 < chosen.packed < 32
