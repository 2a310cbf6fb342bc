"""Functions of rows, tables on the way out and embeddings on the accelerator, against the integer reference."""

from __future__ import annotations

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.compiler.network.gather import plan_gather
from baco.compiler.network.lowered import step_kind
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import NetworkProgram
from baco.compiler.network.row_code import plan_normalisation, plan_softmax, plan_table
from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Addition, Multiplication
from baco.compiler.ops.lookup import Embedding
from baco.compiler.ops.products import Convolution, Pool
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import exponentials, softmax_numerator
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.machines import UNITS

UNITS4 = DIM4.replace(name="small-transformer", scratchpad_kib=8, features={"row_functions": True})
UNITS16 = UNITS4.replace(dim=16, scratchpad_kib=16, accumulator_kib=16)
SIDES = pytest.mark.parametrize(
    "accelerator", [UNITS4, pytest.param(UNITS16, marks=pytest.mark.slow)], ids=["4", "16"]
)


def table(s: Sketch) -> View:
    return s.value((256,), "constant")


def add_table(s: Sketch, source: View, target: View) -> None:
    s.map(target, source, table(s))


def add_softmax(s: Sketch, source: View, target: View, mask: View | None = None, peak: float = 1.0) -> None:
    s.add(
        Softmax, target, input=source, table=s.value((256,), "constant", exponentials(0.05)),
        numerator=softmax_numerator(peak / 127), mask=mask,
    )  # fmt: skip


def add_normalisation(s: Sketch, source: View, target: View, axes: int = 1, centre: bool = True) -> None:
    row = source.shape[-axes:]
    gain, offset = (
        s.value(row, "constant", s.random.integers(-(2**15), 2**15, row, dtype=np.int32)).expanded(
            source.shape
        )
        for _ in range(2)
    )
    s.add(
        Normalisation, target, input=source, gain=gain, offset=offset, axes=axes, centre=centre,
        epsilon=int(s.random.integers(1, 9999)), shift=int(s.random.integers(7, 32)),
    )  # fmt: skip


def kinds(program: NetworkProgram) -> list[str]:
    """Of the steps of a program but its comparisons."""
    found = [step_kind(program.lowered, step.function) for step in program.lowered.steps]
    return [kind for kind in found if kind != "net_check"]


@pytest.mark.parametrize("accelerator", [UNITS4, UNITS16], ids=["4", "16"])
def test_rows_of_every_length(accelerator: Accelerator) -> None:
    s = Sketch(np.random.default_rng(1))
    wanted = []
    for shape in ((1, 4), (5, 100), (33, 7), (2, 3, 20), (16, 64), (3, 257), (1, 700)):
        whole = s.value((*shape[:-1], shape[-1] + 9))
        part = View(whole.value, shape, whole.strides, 5)
        for source in (s.value(shape), part):
            add_table(s, source, s.value(shape, "output"))
            add_softmax(s, source, s.value(shape, "output"))
            for centre in (True, False):
                add_normalisation(s, source, s.value(shape, "output"), centre=centre)
            wanted += ["table", "softmax", "normalisation", "normalisation"]
    add_table(s, s.value((300,)), s.value((300,), "output"))
    add_normalisation(s, s.value((6, 5, 12)), s.value((6, 5, 12), "output"), axes=2)
    assert kinds(check(s, accelerator)) == [*wanted, "table", "normalisation"]


def add_product(s: Sketch, left: View, right: View, target: View, rescale: FixedPoint) -> None:
    s.add(Multiplication, target, left=left, right=right, rescale=rescale)


@SIDES
def test_products_of_elements(accelerator: Accelerator) -> None:
    """Dense ones, rows that lie apart, a right operand that all matrices share; multipliers and shifts at their ends."""
    s = Sketch(np.random.default_rng(11))
    ends = [FixedPoint(4095, 19), FixedPoint(1, 7), FixedPoint(2048, 31), FixedPoint(2731, 18)]
    for rescale, shape in zip(
        ends * 2, ((700,), (5, 100), (33, 8), (2, 3, 20), (16, 64), (3, 257), (1, 4), (9, 70)), strict=True
    ):
        whole = s.value((*shape[:-1], shape[-1] + 9))
        part = View(whole.value, shape, whole.strides, 5)
        add_product(s, s.value(shape), s.value(shape), s.value(shape, "output"), rescale)
        add_product(s, part, s.value(shape), s.value(shape, "output"), rescale)
        add_product(s, part, part, s.value(shape, "output"), rescale)
        add_product(
            s, s.value((3, *shape)), part.expanded((3, *shape)), s.value((3, *shape), "output"), rescale
        )
    assert kinds(check(s, accelerator)) == ["product"] * 32


def test_a_product_takes_the_place_of_an_operand() -> None:
    """A chain of them, in Verilog: tiles of the result lie where those of the operand lay."""
    s = Sketch(np.random.default_rng(12))
    y = s.value((9, 300))
    for n in range(4):
        target = s.value((9, 300), "output" if n == 3 else "intermediate")
        add_product(s, y, s.value((9, 300)), target, FixedPoint(2777, 17))
        y = target
    program = check(s, UNITS, "rtl", check_layers=False)
    assert (
        program.lowered.in_place == {"intermediate 3": "intermediate 1"} or len(program.lowered.in_place) == 2
    )
    assert kinds(program) == ["product"] * 4


@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize("rows", [5, 21])
def test_causal_masks(first: int, rows: int) -> None:
    s = Sketch(np.random.default_rng(2))
    flags = np.tri(rows, 18, first - 1, dtype=np.int8)
    mask = s.value((rows, 18), "constant", flags).expanded((2, 3, rows, 18))
    # matrices of a batch lie apart, or between one another
    for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
        shape = tuple((2, 3, rows, 18)[axis] for axis in order)
        add_softmax(s, s.value(shape).transposed(order), s.value(shape, "output").transposed(order), mask)
    assert kinds(check(s, UNITS4)) == ["softmax", "softmax"]


@pytest.mark.parametrize("peak", [1.0, 0.3, 0.01, 1e-4])
def test_softmaxes_of_small_probabilities(peak: float) -> None:
    s = Sketch(np.random.default_rng(8))
    add_softmax(s, s.value((21, 40)), s.value((21, 40), "output"), peak=peak)
    assert kinds(check(s, UNITS4)) == ["softmax"]


def test_the_host_does_what_units_cannot() -> None:
    s = Sketch(np.random.default_rng(3))
    any_mask = s.value((6, 8), "constant", s.random.integers(0, 2, (6, 8), dtype=np.int8))
    add_softmax(s, s.value((6, 8)), s.value((6, 8), "output"), any_mask)
    s.add(
        Softmax, s.value((6, 8), "output"), input=s.value((6, 8)), table=s.value((256,), "constant", exponentials(0.05)),
        numerator=2**33 + 1, mask=None,
    )  # fmt: skip
    add_softmax(s, s.value((6, 8)).transposed((1, 0)), s.value((8, 6), "output"))
    add_table(s, s.value((30, 70)).transposed((1, 0)), s.value((70, 30), "output"))
    add_normalisation(s, s.value((1, 9000)), s.value((1, 9000), "output"))
    add_softmax(s, s.value((1, 9000)), s.value((1, 9000), "output"))
    shape = (6, 8)
    add_product(s, s.value(shape), s.value(shape), s.value(shape, "output"), FixedPoint(4096, 20))
    add_product(s, s.value(shape), s.value(shape), s.value(shape, "output"), FixedPoint(-7, 20))
    add_product(s, s.value(shape), s.value(shape), s.value(shape, "output"), FixedPoint(7, 32))
    add_product(
        s, s.value(shape), s.value((6, 1)).expanded(shape), s.value(shape, "output"), FixedPoint(7, 9)
    )
    program = check(s, UNITS4)
    (normalisation,) = (op.name for op in program.network.operators if isinstance(op, Normalisation))
    # whose rows the array adds up
    assert {step.operator for step in program.lowered.steps if step.accelerator} == {normalisation}
    assert [program.lowered.reasons[op.name] for op in program.network.operators] == [
        "its mask is not causal",
        "its numerator has more than 32 bits",
        "the elements of a row are not neighbours in memory",
        "the elements of a row are not neighbours in memory",
        "its gains and offsets do not fit in the accumulator",
        "its rows of 9000 elements do not fit in the scratchpad",
        *["the ratio of its scales is none that the accelerator has"] * 3,
        "the elements of a row are not neighbours in memory",
    ]


def test_without_units_the_host_does_it() -> None:
    s = Sketch(np.random.default_rng(4))
    shape = (9, 40)
    add_table(s, s.value(shape), s.value(shape, "output"))
    add_softmax(s, s.value(shape), s.value(shape, "output"))
    add_normalisation(s, s.value(shape), s.value(shape, "output"))
    assert kinds(check(s, DIM4)) == ["net_map", "net_softmax", "net_normalise"]
    for plan, op in zip(
        (plan_table, lambda op, machine: plan_softmax(op, None, machine), plan_normalisation),
        s.operators,
        strict=True,
    ):
        assert "no units" in str(plan(op, DIM4))  # type: ignore[operator]


def product(s: Sketch, target: View, relu: bool = False) -> None:
    rows, columns = target.shape[-2:]
    s.matmul(target, s.value((rows, 24)), s.value((24, columns), "constant"), relu=relu)


def convolution(s: Sketch, target: View, pool: Pool | None = None) -> None:
    s.add(
        Convolution, target, input=s.value((1, 8, 8, 6)), weight=s.value((3, 3, 6, target.shape[3]), "constant"),
        bias=None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), size=(8, 8), groups=1, relu=pool is not None,
        scale=0.004, pool=pool,
    )  # fmt: skip


@SIDES
def test_tables_on_the_way_out(accelerator: Accelerator) -> None:
    s = Sketch(np.random.default_rng(5))
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, y.reshaped((1, 20, 36)), s.value((1, 20, 36), "output"))
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, y.transposed((1, 0)), s.value((20, 36), "output").transposed((1, 0)))
    y = s.value((1, 8, 8, 20), "intermediate")
    convolution(s, y)
    channels_first = y.transposed((0, 3, 1, 2))
    wide = s.value((1, 8, 8, 31), "output")
    add_table(s, channels_first, View(wide.value, y.shape, wide.strides, 3).transposed((0, 3, 1, 2)))
    y = s.value((7, 40), "intermediate")
    scales = {"left_scale": 0.5, "right_scale": -0.25, "scale": 1.5}
    s.add(Addition, y, left=s.value((7, 40)), right=s.value((7, 40)), relu=False, **scales)
    add_table(s, y, s.value((7, 40), "output"))
    program = check(s, accelerator)
    assert kinds(program) == ["layer", "layer", "layer", "addition"]
    assert {step.operator for step in program.lowered.steps} == {
        "operator 1",
        "operator 3",
        "operator 5",
        "operator 7",
    }
    assert program.lowered.reasons["operator 1"] == "on the way out of operator 0"


def test_tables_that_stay_behind() -> None:
    """Results that are read twice, are outputs or maxima, or would be in another order than one view has."""
    s = Sketch(np.random.default_rng(6))
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, y, s.value((20, 36), "output"))
    add_table(s, y, s.value((20, 36), "output"))
    y = s.value((20, 36), "output")
    product(s, y)
    add_table(s, y, s.value((20, 36), "output"))
    y = s.value((1, 4, 4, 20), "intermediate")
    convolution(s, y, Pool((2, 2), (2, 2), (0, 0)))
    add_table(s, y, s.value((1, 4, 4, 20), "output"))
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, View(y.value, (10, 36), (36, 1), 36), s.value((10, 36), "output"))
    program = check(s, UNITS4)
    assert kinds(program) == ["layer", "table", "table", "layer", "table", "layer", "table", "layer", "table"]


def test_a_layer_that_the_host_computes_takes_its_table_along() -> None:
    s = Sketch(np.random.default_rng(7))
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, y, s.value((20, 36), "output"))

    def refuse(layer: object) -> None:
        from baco.common.errors import InfeasibleError

        raise InfeasibleError("no schedule")

    program = check(s, UNITS4, schedule=refuse)
    assert kinds(program) == ["net_matmul", "net_map"]
    assert program.lowered.reasons["operator 1"] == "no schedule"


@SIDES
def test_embeddings(accelerator: Accelerator) -> None:
    s = Sketch(np.random.default_rng(8))
    for count, features in ((11, 200), (3, 64), (1, 1500), (5, 37)):
        indices = s.value((count,), "input", s.random.integers(-60, 60, count).astype(np.int32))
        entries = s.value((40, features), "constant")
        s.add(Embedding, s.value((count, features), "output"), indices=indices, table=entries)
    every_other = View(indices.value, (2, 2), (2, 1), 1)
    wide = s.value((2, 2, 90), "output")
    target = View(wide.value, (2, 2, 64), wide.strides, 7)
    s.add(Embedding, target, indices=every_other, table=View(entries.value, (20, 64), (70, 1), 3))
    assert kinds(check(s, accelerator)) == ["embedding"] * 5


@SIDES
def test_copies(accelerator: Accelerator) -> None:
    """Into another layout, of a row that is repeated, for an operand that has no rows."""
    s = Sketch(np.random.default_rng(11))
    source = s.value((6, 3, 24))
    s.map(s.value((3, 6, 24), "output"), source.transposed((1, 0, 2)), None)
    s.map(s.value((9, 40), "output"), s.value((40,)).expanded((9, 40)), None)
    s.map(s.value((500,), "output"), s.value((500,)), None)
    heads = s.value((5, 2, 3, 16)).transposed((1, 0, 2, 3))
    rows = View(heads.value, (10, 48), (48, 1))
    s.matmul(s.value((10, 8), "output"), rows, s.value((48, 8), "constant"))
    assert kinds(check(s, accelerator)) == ["copy", "copy", "copy", "layer"]


def test_short_or_scattered_rows_of_embeddings_stay_with_the_host() -> None:
    indices = dense("i", (5,))
    short = Embedding("e", (), dense("y", (5, 8)), indices, dense("t", (9, 8)))
    assert "short" in str(plan_gather(short, UNITS4))
    turned = Embedding("e", (), dense("y", (5, 64)), indices, dense("t", (64, 9)).transposed((1, 0)))
    assert "neighbours" in str(plan_gather(turned, UNITS4))


def test_every_step_has_a_prediction() -> None:
    """More elements take longer, energy grows with them."""
    costs = []
    for length in (64, 640):
        s = Sketch(np.random.default_rng(9))
        shape = (64, length)
        add_table(s, s.value(shape), s.value(shape, "output"))
        add_softmax(s, s.value(shape), s.value(shape, "output"))
        add_normalisation(s, s.value(shape), s.value(shape, "output"))
        indices = s.value((64,), "input", np.zeros(64, np.int32))
        s.add(Embedding, s.value(shape, "output"), indices=indices, table=s.value((9, length), "constant"))
        program = check(s, UNITS16, check_layers=False)
        costs.append(predict_steps(program.lowered, UNITS16))
    for short, long in zip(*costs, strict=True):
        assert 1 < long.cycles / short.cycles <= 10
        assert long.fixed_pj == pytest.approx(10 * short.fixed_pj)
        assert long.scratchpad_words == 10 * short.scratchpad_words


def test_on_the_rtl() -> None:
    s = Sketch(np.random.default_rng(10))
    for shape in ((5, 100), (33, 20), (2, 3, 20)):
        add_table(s, s.value(shape), s.value(shape, "output"))
        add_softmax(s, s.value(shape), s.value(shape, "output"))
        add_normalisation(s, s.value(shape), s.value(shape, "output"))
    mask = s.value((21, 18), "constant", np.tri(21, 18, 2, dtype=np.int8)).expanded((2, 21, 18))
    add_softmax(s, s.value((2, 21, 18)), s.value((2, 21, 18), "output"), mask)
    y = s.value((20, 36), "intermediate")
    product(s, y)
    add_table(s, y, s.value((20, 36), "output"))
    y = s.value((1, 8, 8, 20), "intermediate")
    convolution(s, y)
    add_table(s, y, s.value((1, 8, 8, 20), "output"))
    indices = s.value((11,), "input", s.random.integers(-60, 60, 11).astype(np.int32))
    s.add(Embedding, s.value((11, 200), "output"), indices=indices, table=s.value((40, 200), "constant"))
    program = check(s, UNITS, engine="rtl", check_layers=False)
    assert all(step.accelerator for step in program.lowered.steps)
