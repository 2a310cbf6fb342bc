"""Groups of operators in networks: what is found, what runs as one unit, and what its program computes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.network.group_choice import GroupChoice, group_schedule
from baco.compiler.network.groups import (
    Group,
    GroupOperators,
    GroupSchedule,
    best_groups,
    convolution_group,
    groups_of,
)
from baco.compiler.network.plan import Plan
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.network.quantise import sketch as quantise_sketch
from baco.compiler.network.reference import reference
from baco.compiler.network.row_code import RowCode
from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Addition, Map, Multiplication
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import Softmax
from baco.compiler.ops.views import View
from baco.compiler.row_functions import exponentials, softmax_numerator
from baco.compiler.styles.fused.chain import ProductChain
from baco.compiler.styles.fused.merged import MergedProducts
from baco.exploration.cost.program_rest import sketches
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.machines import UNITS

TEMPLATE = IntegerOperator("", (), View("x", (1,), (1,)))
#: One program for both, whose compilation takes the time.
ENGINES = pytest.mark.parametrize("engine", ["rtl", pytest.param("functional", marks=pytest.mark.slow)])
UNITS16 = UNITS.replace(dim=16, scratchpad_kib=64, accumulator_kib=64)


def heads(value: View, rows: int, count: int, size: int) -> View:
    """Heads of a matrix whose rows have them one behind the other."""
    return View(value.value, (1, count, rows, size), (0, size, count * size, 1))


def attention(
    s: Sketch,
    rows: int = 24,
    keys: int = 20,
    count: int = 3,
    size: int = 8,
    *,
    causal: bool = False,
    softmax: bool = True,
) -> Sketch:
    """Scores, softmax and values of some heads."""
    query, key, value = (s.value((n, count * size)) for n in (rows, keys, keys))
    scores = s.value((1, count, rows, keys), "intermediate")
    turned = heads(key, keys, count, size).transposed((0, 1, 3, 2))
    s.matmul(scores, heads(query, rows, count, size), turned, scale=0.003)
    between = scores
    if softmax:
        mask = None
        if causal:
            known = (np.arange(keys) < 2 + np.arange(rows)[:, None]).astype(np.int8)
            mask = s.value((rows, keys), "constant", known).expanded((1, count, rows, keys))
        between = s.value((1, count, rows, keys), "intermediate")
        s.add(
            Softmax, between, input=scores, table=s.value((256,), "constant", exponentials(0.05)),
            numerator=softmax_numerator(1 / 127), mask=mask,
        )  # fmt: skip
    result = s.value((rows, count * size), "output")
    s.matmul(heads(result, rows, count, size), between, heads(value, keys, count, size), scale=0.01)
    return s


def always(names: tuple[str, ...], group: Group, between: RowCode | None) -> tuple[GroupSchedule, float]:
    """One unit, whether it pays or not; the longer the better."""
    return group_schedule(group, UNITS), float(len(names))


def sketch(seed: int = 0) -> Sketch:
    return Sketch(np.random.default_rng(seed))


@ENGINES
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_one_unit(engine: str, causal: bool) -> None:
    s = attention(sketch(), causal=causal)
    program = check(s, UNITS, engine, schedule=scheduler(UNITS), groups=always)
    assert [one for one in program.lowered.steps if one.function == "group_0"]
    assert all(code.kinds != "functions of rows" for code in program.lowered.codes.values())
    (code,) = program.lowered.groups.values()
    assert isinstance(code.group, ProductChain)
    assert (code.group.groups, code.group.softmax, code.group.causal) == (3, True, 2 if causal else None)
    assert program.lowered.reasons["operator 0"] == "on chip, in one unit with operator 2"
    assert all("scores" not in name for name in program.memory.offsets)
    (cost,) = predict_steps(program.lowered, UNITS)[:1]
    assert cost.cycles > 3 * 24 * 20 * 16 / 16


def test_without_fusion_operators_run_one_by_one() -> None:
    s = attention(sketch())
    program = check(s, UNITS, schedule=scheduler(UNITS))
    assert not program.lowered.groups
    assert len(program.lowered.layers) == 2


def test_a_plan_gives_the_same_program() -> None:
    network = attention(sketch()).network()
    first = compile_network(network, UNITS, schedule=scheduler(UNITS), groups=always)
    plan = Plan.of("sketch", UNITS, 0, first.lowered)
    assert len(plan.groups) == 1
    again = Plan.from_json(plan.to_json())
    second = compile_network(network, UNITS, schedule=again, groups=again.group)
    assert second.program.elf == first.program.elf


def test_what_somebody_else_reads_is_no_chain() -> None:
    s = attention(sketch(), softmax=False)
    assert [[one.names for one in row] for row in groups_of(s.network())] == [[("operator 0", "operator 1")]]
    scores = s.operators[0].output
    s.matmul(s.value((1, 3, 24, 4), "output"), scores, s.value((1, 3, 20, 4)), scale=0.01)
    assert groups_of(s.network()) == []
    check(s, UNITS)


def test_a_group_pays_where_it_is_predicted_to() -> None:
    schedule = scheduler(UNITS)
    asked: list[tuple[tuple[str, ...], Group, RowCode | None]] = []

    def watched(names: tuple[str, ...], group: Group, between: RowCode | None) -> None:
        asked.append((names, group, between))

    compile_network(attention(sketch(), rows=64, keys=64).network(), UNITS, schedule=schedule, groups=watched)
    ((names, group, between),) = asked
    assert between is not None
    assert isinstance(group, ProductChain)
    wide = ProductChain(
        replace(group.first, problem=replace(group.first.problem, P=512), image=(1, 512)),
        replace(group.second, problem=replace(group.second.problem, P=512), image=(1, 512)),
        softmax=True,
    )
    found = GroupChoice(UNITS16, scheduler(UNITS16))(names, wide, between)
    assert found is not None
    assert found[1] > 0
    # rows that the accumulator does not hold
    large = UNITS.replace(accumulator_kib=1)
    assert GroupChoice(large, scheduler(large))(names, group, between) is None


def bottleneck(
    s: Sketch, stride: int = 1, size: int = 9, channels: int = 6, wide: int = 20, *, residual: bool = False
) -> Sketch:
    """A convolution of one pixel, one of every channel by itself, and one of one pixel; perhaps with the input added."""
    image = given = s.value((1, size, size, channels))
    depth, extent = channels, size
    for number, (window, outputs, groups, step) in enumerate(
        ((1, wide, 1, 1), (3, wide, wide, stride), (1, channels, 1, 1))
    ):
        after = (extent + 2 * (window // 2) - window) // step + 1
        ends = number == 2 and not residual
        target = s.value((1, after, after, outputs), "output" if ends else "intermediate")
        weight = s.value((window, window, depth // groups, outputs), "constant")
        bias = s.value((outputs,), "constant", s.random.integers(-999, 999, outputs, dtype=np.int32))
        s.add(
            Convolution, target, input=image, weight=weight, bias=bias, stride=(step, step), dilation=(1, 1),
            padding=(window // 2, window // 2), size=(after, after), groups=groups, relu=number < 2, scale=0.004, pool=None,
        )  # fmt: skip
        image, depth, extent = target, outputs, after
    if residual:  # in the network's order of dimensions
        output = s.value(image.shape, "output")
        left, right, total = (one.transposed((0, 3, 1, 2)) for one in (given, image, output))
        s.add(Addition, total, left=left, right=right, left_scale=0.6, right_scale=1.0, scale=0.8, relu=True)
    return s


@ENGINES
@pytest.mark.parametrize("stride", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_bottleneck_is_one_unit(engine: str, stride: int) -> None:
    s = bottleneck(sketch(), stride)
    program = check(s, UNITS, engine, schedule=scheduler(UNITS), groups=always)
    assert [one.operator for one in program.lowered.steps if one.accelerator] == ["operator 2"]
    assert program.lowered.units == {("operator 0", "operator 1", "operator 2"): "group_0"}
    assert program.memory.nbytes == 0
    plan = Plan.of("sketch", UNITS, 0, program.lowered)
    again = compile_network(s.network(), UNITS, data=s.inputs(), schedule=plan, groups=plan.group)
    assert again.lowered.units == program.lowered.units


def gated(s: Sketch, rows: int = 20, depth: int = 24, columns: int = 28) -> Sketch:
    """Three products of one input: of the first, through a table, and the last the elements are multiplied; another operator
    reads the first before the last has its turn."""
    source = s.value((rows, depth))
    results = []
    for number in range(3):
        result = s.value((rows, columns), "intermediate" if number < 2 else "output")
        bias = None
        if number:
            bias = s.value((columns,), "constant", s.random.integers(-999, 999, columns, dtype=np.int32))
        s.matmul(
            result,
            source,
            s.value((depth, columns), "constant"),
            bias=bias,
            relu=number == 2,
            scale=0.002 * (number + 1),
        )
        if number == 0:
            table = s.value((256,), "constant", s.random.integers(-128, 128, 256).astype(np.int8))
            result = s.add(Map, s.value((rows, columns), "intermediate"), input=result, table=table)
        results.append(result)
        if number == 1:
            s.add(
                Multiplication, s.value((rows, columns), "output"), left=results[0], right=results[1],
                rescale=FixedPoint(1 << 10, 16),
            )  # fmt: skip
    return s


@ENGINES
@pytest.mark.parametrize("units", [False, True])
def test_products_of_one_input_are_one_unit(engine: str, units: bool) -> None:
    accelerator = UNITS if units else DIM4
    s = gated(sketch())
    ((one,),) = groups_of(s.network())
    assert (one.names, one.merged) == (("operator 0", "operator 2", "operator 4"), True)
    for checked in (False, True):
        program = check(
            s, accelerator, engine, check_layers=checked, schedule=scheduler(accelerator), groups=always
        )
        assert program.lowered.units == {one.names: "group_0"}
        assert not program.lowered.layers
        (code,) = program.lowered.groups.values()
        assert isinstance(code.group, MergedProducts)
        assert code.group.tables == (units, False, False)
    checks = [step.operator for step in program.lowered.steps if step.function == "net_check"]
    first = "operator 1" if units else "operator 0"
    assert {first, "operator 2", "operator 3", "operator 4"} <= set(checks)
    plan = Plan.of("sketch", accelerator, 0, program.lowered)
    again = compile_network(s.network(), accelerator, data=s.inputs(), schedule=plan, groups=plan.group)
    assert again.lowered.units == program.lowered.units


def test_products_that_are_not_merged() -> None:
    s = sketch()
    source, other = s.value((8, 12)), s.value((8, 12))
    weights = [s.value((12, 8), "constant") for _ in range(3)]
    between = s.value((8, 8), "intermediate")
    # the first has another left operand, the second a right operand that is no constant
    for left, right, target in (
        (other, weights[0], s.value((8, 8), "output")),
        (source, s.value((12, 8)), s.value((8, 8), "output")),
        (source, weights[1], between),
        (between, s.value((8, 4), "constant"), s.value((8, 4), "output")),  # a chain with the one before
        (source, weights[2], s.value((8, 8), "output")),
    ):
        s.matmul(target, left, right, scale=0.01)
    assert [[one.names for one in row] for row in groups_of(s.network())] == [[("operator 2", "operator 3")]]
    check(s, UNITS, schedule=scheduler(UNITS), groups=always)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("bert_base:seq=8", [("encoder.query[0]", "encoder.key[0]", "encoder.value[0]")]),
        ("vit_b16", []),  # it has them as one product already
    ],
)
def test_queries_keys_and_values_of_networks_are_found(name: str, found: list[tuple[str, ...]]) -> None:
    (part,) = [
        part
        for _, part in sketches(load_network(name))
        if any(isinstance(op, MatMul) for op in part.operators)
    ][:1]
    merged = [one.names for row in groups_of(part) for one in row if one.merged]
    assert merged[:1] == found


@pytest.mark.parametrize(
    ("rows", "width"),
    [(48, 64), pytest.param(128, 768, marks=pytest.mark.slow)],  # the second of a layer of BERT
)
def test_queries_keys_and_values_as_one_unit_read_their_input_two_times_less_by_the_rtl(
    rows: int, width: int
) -> None:
    accelerator = UNITS if width < 100 else load_accelerator("gemmini-transformer")
    s = sketch()
    source = s.value((rows, width))
    for number in range(3):
        weights, bias = (
            s.value((width, width), "constant"),
            s.random.integers(-999, 999, width, dtype=np.int32),
        )
        s.matmul(
            s.value((rows, width), "output"),
            source,
            weights,
            bias=s.value((width,), "constant", bias),
            scale=0.0004 * (number + 1),
        )
    network, read = s.network(), []
    expected = reference(network, s.inputs())
    for groups in (None, GroupChoice(accelerator, scheduler(accelerator))):
        program = compile_network(
            network, accelerator, data=s.inputs(), groups=groups, schedule=scheduler(accelerator), check=False
        )
        assert bool(program.lowered.units) == bool(groups)
        run = run_network(program, expected, "rtl")
        assert not run.wrong
        read.append(run.result.activity["dram_read_bytes"])
    assert read[0] - read[1] == 2 * rows * width


@ENGINES
def test_a_bottleneck_with_its_residual_is_one_unit(engine: str) -> None:
    s = bottleneck(sketch(), residual=True)
    program = check(s, UNITS, engine, schedule=scheduler(UNITS), groups=always)
    names = tuple(f"operator {n}" for n in range(4))
    assert program.lowered.units == {names: "group_0"}
    assert all(code.kinds != "additions" for code in program.lowered.codes.values())
    assert program.memory.nbytes == 0
    plan = Plan.of("sketch", UNITS, 0, program.lowered)
    options = {"data": s.inputs(), "check_layers": True, "reference": reference(s.network(), s.inputs())}
    again = compile_network(s.network(), UNITS, schedule=plan, groups=plan.group, **options)
    assert again.program.elf == program.program.elf


@pytest.mark.parametrize(("name", "blocks"), [("resnet50:image=64", 16), ("mobilenet_v2:image=64", 10)])
def test_residual_blocks_of_networks_are_groups(name: str, blocks: int) -> None:
    network = quantise_sketch(load_network(name))
    additions = {op.name for op in network.operators if isinstance(op, Addition)}
    longest: dict[str, int] = {}
    for one in (one for row in groups_of(network) for one in row if one.turn in additions):
        assert convolution_group(one) is not None
        longest[one.turn] = max(longest.get(one.turn, 0), len(one.names))
    assert len(longest) == len(additions) == blocks
    assert set(longest.values()) == {4}  # three convolutions and the addition


def test_an_addition_belongs_to_one_of_its_operands_at_most() -> None:
    """A projection beside a bottleneck: either may be one unit with the addition, not both."""
    s = bottleneck(sketch(), residual=True)
    image, addition = s.operators[0], s.operators.pop()
    assert isinstance(image, Convolution)
    assert isinstance(addition, Addition)
    beside = s.value((1, 9, 9, 6), "intermediate")
    weight = s.value((1, 1, 6, 6), "constant")
    s.operators.append(replace(image, name="operator 3", output=beside, weight=weight, bias=None))
    left = beside.transposed((0, 3, 1, 2))
    s.operators.append(replace(addition, name="operator 4", left=left, left_scale=1.0))
    (row,) = groups_of(s.network())
    ends = {one.names[:-1] for one in row if one.turn == "operator 4"}
    main = tuple(f"operator {n}" for n in range(3))
    assert ends == {main, main[1:], main[2:], ("operator 3",)}
    program = check(s, UNITS, schedule=scheduler(UNITS), groups=always)
    assert list(program.lowered.units) == [main, ("operator 3", "operator 4")]  # all five


def test_what_is_not_added_as_it_is_ends_a_group() -> None:
    for change in ({"right_scale": 0.5}, {"right_scale": -1.0}):
        s = bottleneck(sketch(), residual=True)
        s.operators[-1] = replace(s.operators[-1], **change)
        assert all(one.turn != "operator 3" for row in groups_of(s.network()) for one in row)
    s = bottleneck(sketch(), residual=True)
    addition = s.operators[-1]
    assert isinstance(addition, Addition)
    row = s.value((6,), "constant")  # one pixel for all
    alike = replace(row, shape=addition.left.shape, strides=(0, 1, 0, 0))
    s.operators[-1] = replace(addition, left=alike)
    assert all(one.turn != "operator 3" for row in groups_of(s.network()) for one in row)
    check(s, UNITS, schedule=scheduler(UNITS), groups=always)


def test_the_best_groups_of_a_row_are_those_of_brute_force() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        names = [f"n{at}" for at in range(int(random.integers(2, 8)))]
        operators = [replace(TEMPLATE, name=name) for name in names]
        candidates = [
            GroupOperators(tuple(operators[start:stop]))
            for start, stop in itertools.combinations(range(len(names) + 1), 2)
        ]
        gains = {
            candidate.names: float(random.integers(-5, 20))
            for candidate in candidates
            if random.random() < 0.7
        }
        most = 0.0
        for cuts in itertools.product((False, True), repeat=len(names) - 1):
            places = [0, *(at + 1 for at, cut in enumerate(cuts) if cut), len(names)]
            parts = [tuple(names[a:b]) for a, b in itertools.pairwise(places)]
            most = max(most, sum(max(0.0, gains.get(part, 0.0)) for part in parts))
        found = list(best_groups(candidates, gains))
        assert sum(gains[group.names] for group in found) == most
        assert len({name for group in found for name in group.names}) == sum(
            len(group.names) for group in found
        )
