"""Attention and encoders in parts: what the host does runs beside products, and results are those of the operators one by one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from baco.compiler.network.combinations import Combinations
from baco.compiler.network.program import NetworkProgram
from baco.compiler.network.rounds import ArrayPart, Shared
from baco.compiler.network.steps import ValueAddress
from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Addition, Map, Multiplication
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import exponentials
from tests.compiler.network.net_sketch import Sketch, check

_SHARED = Combinations(beside=True, sums=True)
#: Every time; the others with the slow tests.
_EACH = {("even", "timed"), ("odd", "functional")}
_SCALE = 2.0**-7


def product(s: Sketch, left: View, columns: int, role: str = "intermediate") -> View:
    """Of a matrix with weights, and a bias."""
    rows, depth = left.shape
    bias = s.value((columns,), "constant", s.random.integers(-500, 500, columns, np.int32))
    output = s.value((rows, columns), role)
    weights = s.value((depth, columns), "constant")
    s.operators.append(MatMul(f"operator {len(s.operators)}", (), output, left, weights, bias, False, _SCALE))
    return output


def attention(s: Sketch, heads: int, rows: int, width: int, masked: bool) -> None:
    """Three projections, and all heads side by side."""
    source = s.value((rows, 12))
    columns = heads * width
    query, key, value = (product(s, source, columns) for _ in range(3))
    steps = (width, columns, 1)
    left, right, values = (View(one.value, (heads, rows, width), steps) for one in (query, key, value))
    scores = s.value((heads, rows, rows), "intermediate")
    s.operators.append(
        MatMul("scores", (), scores, left, right.transposed((0, 2, 1)), None, False, _SCALE / 4)
    )
    table = s.value((256,), "constant", exponentials(0.05))
    mask = s.value((rows, rows), "constant", np.tril(np.ones((rows, rows), np.int8))) if masked else None
    weights = s.value((heads, rows, rows), "intermediate")
    broadcast = None if mask is None else View(mask.value, (heads, rows, rows), (0, rows, 1))
    s.add(Softmax, weights, input=scores, table=table, numerator=127 << 24, mask=broadcast)
    result = s.value((rows, columns), "output")
    context = View(result.value, (heads, rows, width), steps)
    s.operators.append(MatMul("context", (), context, weights, values, None, False, _SCALE))


def encoder_half(s: Sketch, rows: int, columns: int, inner: int, read_again: bool) -> None:
    """Two products around a table, an addition and a normalisation; its operand may be read once more behind it."""
    source = s.value((rows, columns))
    expanded = product(s, source, inner)
    mapped = s.value((rows, inner), "intermediate")
    s.map(mapped, expanded, s.value((256,), "constant"))
    contracted = product(s, mapped, columns)
    total = s.value((rows, columns), "intermediate")
    s.operators.append(Addition("add", (), total, contracted, source, 1.0, 0.5, 1.0, False))
    gain, offset = (
        View(
            s.value((columns,), "constant", s.random.integers(-3000, 3000, columns, np.int32)).value,
            (rows, columns),
            (0, 1),
        )
        for _ in range(2)
    )
    normal = s.value((rows, columns), "output")
    s.add(
        Normalisation, normal, input=total, gain=gain, offset=offset, axes=1, centre=True, epsilon=7, shift=20
    )
    if read_again:
        s.operators.append(
            Addition("later", (), s.value((rows, columns), "output"), total, normal, 1.0, 1.0, 1.0, False)
        )


def called(program: NetworkProgram) -> list[str]:
    return [step.function for step in program.lowered.steps if step.function != "net_check"]


def beside(program: NetworkProgram, function: str) -> int:
    """How many calls of a function of the host come right behind a step of the accelerator that was begun for that."""
    steps = program.lowered.steps
    return sum(a.waits and b.function == function for a, b in itertools.pairwise(steps))


def taken_over(program: NetworkProgram) -> set[str]:
    """Operators whose results lie where an operand lay, a part where the same part was."""
    steps = [step for step in program.lowered.steps if step.replaces is not None]
    assert steps
    at = {op.name: program.address(ValueAddress(op.output.value)) for op in program.network.operators}
    return {
        step.operator
        for step in steps
        if step.replaces is not None
        and program.address(ValueAddress(step.replaces.value)) == at[step.operator]
    }


@pytest.mark.parametrize(
    ("heads", "rows", "width", "masked", "engine"),
    [
        # every size on one of the two quick engines every time
        pytest.param(
            *(*size, engine),
            id=f"{name}-{engine}",
            marks=[pytest.mark.slow] * (engine == "rtl" or (a + b) % 2 > 0),
        )
        for a, (name, size) in enumerate(
            {"even": (2, 64, 8, False), "odd": (3, 70, 20, False), "masked": (2, 66, 5, True)}.items()
        )
        for b, engine in enumerate(("functional", "timed", "rtl"))
    ],
)
def test_products_of_other_heads_run_beside_a_softmax(
    heads: int, rows: int, width: int, masked: bool, engine: str
) -> None:
    s = Sketch(np.random.default_rng(heads))
    attention(s, heads, rows, width, masked)
    program = check(s, engine=engine, check_layers=False, combinations=_SHARED)
    assert called(program).count("net_softmax") >= 4
    assert beside(program, "net_softmax") >= 3
    assert len(taken_over(program)) == 1
    # no projection is computed as a whole before
    assert program.lowered.steps[0].operator == s.operators[0].name
    assert {step.operator for step in program.lowered.steps} == {op.name for op in s.operators}


def test_parts_of_attention_are_checked_one_by_one() -> None:
    s = Sketch(np.random.default_rng(7))
    attention(s, 2, 64, 8, masked=False)
    assert called(check(s, combinations=_SHARED)).count("net_softmax") >= 4


@pytest.mark.parametrize(
    ("rows", "columns", "inner", "read_again", "engine"),
    [
        pytest.param(
            *shape, engine, id=f"{name}-{engine}", marks=[] if (name, engine) in _EACH else [pytest.mark.slow]
        )
        for name, shape in (("even", (128, 64, 96, False)), ("odd", (121, 72, 500, True)))
        for engine in ("functional", "timed", "rtl")
    ],
)
def test_halves_of_an_encoder_run_beside_its_table_and_norm(
    rows: int, columns: int, inner: int, read_again: bool, engine: str
) -> None:
    s = Sketch(np.random.default_rng(rows))
    encoder_half(s, rows, columns, inner, read_again)
    program = check(s, engine=engine, check_layers=False, combinations=_SHARED)
    names = called(program)
    assert names.count("net_normalise_by") > 2
    assert beside(program, "net_normalise_by") >= 1
    assert beside(program, "net_map") >= 4
    # the sum that a later operator reads stays, and results are no intermediate values
    assert taken_over(program) == {op.name for op in s.operators if isinstance(op, Map)}
    if inner > 200:  # more runs than are taken at once: sums stay in the accumulator between them
        assert len({name for name in names if name.startswith("runs")}) > 1


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "engine"),
    [
        # every kind, size and engine every time, not all of each with all
        pytest.param(kind, *size, engine, marks=[pytest.mark.slow] * (engine == "rtl" or (a + b + c) % 2 > 0))
        for a, kind in enumerate(("gate", "later", "table"))
        for b, size in enumerate(((4, 256), (3, 250), (1, 300)))
        for c, engine in enumerate(("functional", "timed", "rtl"))
    ],
)
def test_last_columns_of_few_rows_run_beside_functions_of_those_before(
    rows: int, columns: int, kind: str, engine: str
) -> None:
    """A gate whose function is of the first product and of the second one, and a table: the first columns are made at once, and parts
    of the others beside the host."""
    s = Sketch(np.random.default_rng(columns))
    source = s.value((rows, 160))
    products = [product(s, source, columns) for _ in range(1 if kind == "table" else 2)]
    other, mapped = products[0], products[-1] if kind != "gate" else products[0]
    table = s.value((256,), "constant")
    if kind == "table":
        s.map(s.value((rows, columns), "output"), mapped, table)
    else:
        other = products[0] if kind == "later" else products[1]
        middle = s.value((rows, columns), "intermediate")
        s.map(middle, mapped, table)
        s.add(
            Multiplication, s.value((rows, columns), "output"), left=middle, right=other,
            rescale=FixedPoint(700, 16),
        )  # fmt: skip
    program = check(s, engine=engine, check_layers=False, combinations=_SHARED)
    function = "net_map" if kind == "table" else "net_gate"
    assert beside(program, function) >= (1 if kind == "table" else 2)
    assert called(program).count(function) > beside(program, function)
    ours = [
        step.function
        for step in program.lowered.steps
        if step.operator == s.operators[len(products) - 1].name
    ]
    columns_of = [program.lowered.layers[name].layer.problem.K for name in ours]
    assert sum(columns_of) == columns
    assert columns_of[0] == max(columns_of)


def test_too_little_is_not_shared() -> None:
    """One token, and few rows."""
    for rows in (1, 12):
        s = Sketch(np.random.default_rng(rows))
        attention(s, 2, rows, 8, masked=False)
        encoder_half(s, rows, 64, 96, read_again=False)
        names = called(check(s, check_layers=False, combinations=_SHARED))
        assert (names.count("net_softmax"), names.count("net_map")) == (1, 1)


# -------------------------------------------------------------------- order


def _random_work(random: np.random.Generator) -> tuple[Shared, Mapping[str, int]]:
    """A product in parts of some runs each, a table behind each, and a product that reads some of these."""
    parts, runs = int(random.integers(2, 8)), int(random.integers(1, 4))
    width = 4

    def of(name: str, start: int, count: int) -> View:
        return View(name, (1, count * width), (0, 1), start * width)

    weights = dense("w", (width, width))
    array = [
        ArrayPart(
            MatMul("first", (), of("a", n, 1), of("x", 0, 1), weights, None, False, 1.0),
            (run, run + 1),
            run == runs - 1,
        )
        for n in range(parts)
        for run in range(runs)
    ]
    host = [Map("table", (), of("b", n, 1), of("a", n, 1), None) for n in range(parts)]
    for n in range(parts):
        read = int(random.integers(1, parts - n + 1))
        array.append(
            ArrayPart(MatMul("second", (), of("c", n, 1), of("b", n, read), weights, None, False, 1.0))
        )
    order = random.permutation(parts)
    host = [host[n] for n in order]
    return Shared((), tuple(array), tuple(host)), dict.fromkeys("abcx", parts * width)


def test_rounds_depend_on_earlier_ones_alone() -> None:
    """Every part once, behind all whose results it reads; runs of a part follow each other; by brute force over elements."""
    random = np.random.default_rng(5)
    for _ in range(50):
        work, words = _random_work(random)
        done = {name: np.zeros(size, bool) for name, size in words.items()}
        done["x"][:] = True
        seen: list[object] = []
        begun: tuple[object, int] | None = None
        for ours, theirs in work.rounds(words, lambda part: 1.0 + isinstance(part, ArrayPart)):
            now = [*([ours.op] if ours else []), *theirs]
            for op in now:
                for view in op.inputs:
                    assert view.value not in done or view.read(done[view.value]).all()
            if begun is not None:
                assert ours is not None
                assert ours.runs is not None
                assert (ours.op, ours.runs[0]) == begun
            begun = None if ours is None or ours.last or ours.runs is None else (ours.op, ours.runs[1])
            for op in now:
                if op is not (ours.op if ours else None) or ours is None or ours.last:
                    op.output.write(done[op.output.value], np.ones(op.output.shape, bool))
            seen += [*([ours] if ours else []), *theirs]
            assert now
        assert len(seen) == len(work.array) + len(work.host)
        assert all(part in seen for part in (*work.array, *work.host))


@pytest.mark.parametrize("product", [2.4, 2.49, 2.51, 2.6])
def test_rounds_leave_no_work_for_the_end(product: float) -> None:
    """Three parts of the host's behind each product take a little longer than one. Worked out by hand: beside every product but the
    first the host does the three of the one before, whether or not more than half of the third fits."""
    count, width = 12, 4

    def of(name: str, part: int) -> View:
        return View(name, (1, width), (0, 1), part * width)

    weights = dense("w", (width, width))
    array = [
        ArrayPart(MatMul("product", (), of("a", n), of("x", 0), weights, None, False, 1.0))
        for n in range(count)
    ]
    host = [Map("table", (), of("b", n), of("a", n // 3), None) for n in range(3 * count)]
    work = Shared((), tuple(array), tuple(host))
    rounds = work.rounds(
        {"a": count * width, "b": 3 * count * width, "x": width},
        lambda part: product if isinstance(part, ArrayPart) else 1.0,
    )
    cycles = sum(max(0.0 if ours is None else product, len(theirs)) for ours, theirs in rounds)
    assert cycles == pytest.approx(product + 3 * count)
