"""What results depend on: index maps against the arithmetic itself, whose operands are changed one element at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from baco.compiler.mapping.contraction import iteration_grid
from baco.compiler.network.dependences import IndexMap, map_between
from baco.compiler.ops import elements as e
from baco.compiler.ops import floating as f
from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Addition, BinaryTable, Multiplication
from baco.compiler.ops.images import AveragePool, MaxPool
from baco.compiler.ops.lookup import Embedding, Rotation
from baco.compiler.ops.operator import Dependences, IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul, Pool
from baco.compiler.ops.rows import ArgMax, Normalisation, Reduction, Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import exponentials, softmax_numerator
from tests.compiler.network.net_sketch import Sketch

Array = np.ndarray[Any, Any]
ONE = FixedPoint(1 << 10, 10)


def small(s: Sketch, *shape: int, role: str = "input") -> View:
    """Elements of which no sum is beyond int8, and no product 0."""
    return s.value(shape, role, s.random.choice([-1, 1], shape).astype(np.int8))


def ids(*shape: int) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.int8).reshape(shape)


def matmul(s: Sketch) -> IntegerOperator:
    out = s.value((2, 3, 4), "output")
    s.matmul(out, small(s, 2, 3, 5), small(s, 2, 5, 4), scale=1.0)
    return s.operators[-1]


def biased(s: Sketch) -> IntegerOperator:
    out = s.value((3, 4), "output")
    bias = s.value((4,), "constant", np.arange(4, dtype=np.int32))
    s.matmul(out, small(s, 3, 5), small(s, 5, 4), bias=bias, scale=1.0)
    return s.operators[-1]


def convolution(s: Sketch, groups: int = 1, pool: Pool | None = None) -> IntegerOperator:
    size = (4, 3)
    shape = (1, 2, 2, 4) if pool else (1, *size, 4)
    s.add(
        Convolution, s.value(shape, "output"), input=small(s, 1, 8, 5, 4), weight=small(s, 3, 2, 4 // groups, 4),
        bias=None, stride=(2, 1), padding=(1, 0), dilation=(1, 2), size=size, groups=groups, relu=False, scale=1.0,
        pool=pool,
    )  # fmt: skip
    return s.operators[-1]


def pooled(s: Sketch, kind: type[IntegerOperator]) -> IntegerOperator:
    more: dict[str, Any] = {"dilation": (1, 1)}
    if kind is AveragePool:
        more = {"factor": s.value((3, 3), "constant", np.full((3, 3), 64, np.int32)), "shift": 6}
    s.add(
        kind, s.value((1, 3, 3, 2), "output"), input=small(s, 1, 5, 6, 2), kernel=(2, 3), stride=(2, 2), padding=(1, 1),
        **more,
    )  # fmt: skip
    return s.operators[-1]


def elementwise(s: Sketch, kind: type[IntegerOperator], **fields: Any) -> IntegerOperator:
    left = small(s, 3, 4)
    right = small(s, 4).expanded((3, 4))
    s.add(kind, s.value((3, 4), "output"), left=left, right=right, **fields)
    return s.operators[-1]


def rows(s: Sketch, kind: type[IntegerOperator]) -> IntegerOperator:
    source, out = small(s, 2, 3, 5), s.value((2, 3, 5), "output")
    if kind is Softmax:
        table = s.value((256,), "constant", exponentials(0.05))
        s.add(kind, out, input=source, table=table, numerator=softmax_numerator(1 / 127), mask=None)
    else:
        gain = s.value((5,), "constant", np.full(5, 1 << 12, np.int32)).expanded((2, 3, 5))
        offset = s.value((5,), "constant", np.zeros(5, np.int32)).expanded((2, 3, 5))
        s.add(kind, out, input=source, gain=gain, offset=offset, axes=1, centre=True, epsilon=1, shift=20)
    return s.operators[-1]


def reduced(s: Sketch) -> IntegerOperator:
    s.add(Reduction, s.value((2,), "output"), input=small(s, 2, 3, 4), function="sum", axes=2, rescale=ONE)
    return s.operators[-1]


def largest(s: Sketch) -> IntegerOperator:
    s.add(ArgMax, s.value((2, 3), "output"), input=small(s, 2, 3, 4))
    return s.operators[-1]


def table(s: Sketch) -> IntegerOperator:
    s.map(
        s.value((3, 4), "output"),
        small(s, 3, 4),
        s.value((256,), "constant", np.arange(-128, 128).astype(np.int8)),
    )
    return s.operators[-1]


def looked_up(s: Sketch) -> IntegerOperator:
    entries = s.random.permutation(256 * 256).reshape(256, 256).astype(np.int8)
    return elementwise(s, BinaryTable, table=s.value((256, 256), "constant", entries))


def rotated(s: Sketch, interleaved: bool) -> IntegerOperator:
    turn = [s.value((3, 4), "constant", np.full((3, 4), 64, np.int8)).expanded((2, 3, 4)) for _ in range(2)]
    s.add(
        Rotation, s.value((2, 3, 8), "output"), input=small(s, 2, 3, 8), cosine=turn[0], sine=turn[1],
        interleaved=interleaved, scale=1.0,
    )  # fmt: skip
    return s.operators[-1]


def real(s: Sketch, *shape: int) -> View:
    return s.value(shape, "input", s.random.choice([-1, 1], shape).astype(np.float32))


def real_operator(
    kind: type[IntegerOperator], result: tuple[int, ...], **fields: Any
) -> Callable[[Sketch], Any]:
    """Of fields that are shapes of operands, or what they are."""

    def make(s: Sketch) -> IntegerOperator:
        operands = {k: real(s, *v) if k in _OPERANDS else v for k, v in fields.items()}
        if kind is e.RealSelection:  # either is taken, from what differs everywhere
            s.data[operands["condition"].value][:] = s.random.integers(0, 2, fields["condition"])
            s.data[operands["right"].value][:] = 7
        s.add(kind, s.value(result, "output"), **operands)
        return s.operators[-1]

    return make


_OPERANDS = ("input", "left", "right", "condition", "weight")
_WINDOW: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
REAL = {
    "real function": real_operator(e.RealFunction, (3, 4), input=(3, 4), function="exp"),
    "real pair": real_operator(e.RealPair, (3, 4), left=(3, 4), right=(3, 4), function="add"),
    "real selection": real_operator(e.RealSelection, (1, 2), condition=(1, 2), left=(1, 2), right=(1, 2)),
    "real sum": real_operator(f.RealRows, (2, 3), input=(2, 3, 5), function="sum"),
    "real softmax": real_operator(f.RealRows, (2, 3, 5), input=(2, 3, 5), function="softmax"),
    "real products": real_operator(f.RealProducts, (2, 3, 4), left=(2, 3, 5), right=(2, 5, 4)),
    "real convolution": real_operator(
        f.RealConvolution, (1, 4, 3, 4), input=(1, 8, 5, 4), weight=(3, 2, 2, 4), groups=2, **_WINDOW
    ),
    "real windows": real_operator(
        f.RealWindows, (1, 4, 3, 4), input=(1, 8, 5, 4), kernel=(3, 2), divisors=None, **_WINDOW
    ),
}

OPERATORS: dict[str, Callable[[Sketch], IntegerOperator]] = {
    "matmul": matmul,
    "biased": biased,
    "convolution": convolution,
    "grouped": lambda s: convolution(s, 2),
    "depthwise": lambda s: convolution(s, 4),
    "pooled convolution": lambda s: convolution(s, 1, Pool((2, 2), (2, 1), (0, 0))),
    "maximum": lambda s: pooled(s, MaxPool),
    "average": lambda s: pooled(s, AveragePool),
    "addition": lambda s: elementwise(s, Addition, left_scale=1.0, right_scale=1.0, scale=1.0, relu=False),
    "multiplication": lambda s: elementwise(s, Multiplication, rescale=ONE),
    "binary table": looked_up,
    "softmax": lambda s: rows(s, Softmax),
    "normalisation": lambda s: rows(s, Normalisation),
    "reduction": reduced,
    "largest": largest,
    "table": table,
    "rotation": lambda s: rotated(s, False),
    "interleaved rotation": lambda s: rotated(s, True),
    **REAL,
}


def told(one: Dependences, name: str) -> set[tuple[tuple[int, ...], int]]:
    """Pairs of a result's index and the number of an element of an operand's value, by walking all iterations; those that meet
    what lies beside an operand (padding) count for none."""
    at = iteration_grid(one.extents)
    shape = tuple(one.extents.values())
    result = [np.broadcast_to(index.evaluate(at), shape).ravel() for index in one.output.indices]
    inside = np.ones(result[0].size, bool)
    places = {}
    for operand in one.operands:
        assert operand.access is not None
        place = np.full(result[0].size, operand.view.offset)
        for index, size, stride in zip(
            operand.access.indices, operand.view.shape, operand.view.strides, strict=True
        ):
            element = np.broadcast_to(index.evaluate(at), shape).ravel()
            inside &= (element >= 0) & (element < size)
            place = place + element * stride
        places[operand.name] = place
    found = zip(*(one.tolist() for one in result), places[name].tolist(), strict=True)
    return {(pair[:-1], pair[-1]) for pair, kept in zip(found, inside, strict=True) if kept}


def seen(s: Sketch, op: IntegerOperator, name: str) -> set[tuple[tuple[int, ...], int]]:
    """The same, by changing every element of the operand's value to several others."""
    view = getattr(op, name)
    data = {key: value.copy() for key, value in s.data.items()}

    def result() -> Array:
        return op.compute(lambda one: one.read(data[one.value]))

    before, pairs = result(), set()
    flat = data[view.value].reshape(-1)
    for place, kept in enumerate(flat.tolist()):
        for other in (127, -127, -kept, kept + 40, 3, 0):
            flat[place] = other
            pairs |= {(tuple(at), place) for at in np.argwhere(result() != before).tolist()}
        flat[place] = kept
    return pairs


@pytest.mark.parametrize("name", OPERATORS)
def test_results_depend_on_what_changes_them(name: str) -> None:
    pairs: dict[str, list[set[tuple[tuple[int, ...], int]]]] = {}
    for seed in range(3):  # of one set of elements, a change may be hidden by a maximum or by rounding
        s = Sketch(np.random.default_rng(seed))
        op = OPERATORS[name](s)
        one = op.accesses()
        for operand in one.operands:
            if operand.name in ("gain", "offset", "factor"):
                continue
            pairs.setdefault(operand.name, []).append(seen(s, op, operand.name))
            expected = told(one, operand.name)
            assert pairs[operand.name][-1] <= expected
            several = len(expected) > len({result for result, _ in expected})
            assert one.relies_on_many(operand) == several
    for operand_name, found in pairs.items():
        assert set().union(*found) == told(one, operand_name)


def test_which_elements_an_embedding_needs_is_not_known() -> None:
    s = Sketch(np.random.default_rng(0))
    indices = s.value((3,), "input", np.array([0, 2, 1], dtype=np.int32))
    s.add(Embedding, s.value((3, 4), "output"), indices=indices, table=small(s, 5, 4))
    one = s.operators[0].accesses()
    assert one.indirect
    assert [operand.indirect for operand in one.operands] == [False, True]


# ---------------------------------------------------------------- what computes


def product(rows: int, depth: int, columns: int) -> Dependences:
    views = [dense(name, shape) for name, shape in (("a", (rows, depth)), ("b", (depth, columns)))]
    target = dense("c", (rows, columns))
    return MatMul("p", (), target, *views, bias=None, relu=False, scale=1.0).accesses()


def test_what_computes_and_what_moves() -> None:
    """Two operations and more for an element moved, and something that is reduced."""
    whole = product(512, 768, 768)
    assert (whole.operations, whole.moved) == (512 * 768 * 768, 2 * 512 * 768 + 768 * 768)
    assert whole.computes
    assert not product(1, 768, 768).computes  # a matrix times a vector: one operation for each weight
    # rows of few numbers: r*k*c operations for r*k + k*c + r*c elements
    for r, k, c in itertools.product((1, 2, 3, 5, 8), repeat=3):
        assert product(r, k, c).computes == (k > 1 and r * k * c >= 2 * (r * k + k * c + r * c))
    s = Sketch(np.random.default_rng(0))
    found = {name: make(s).accesses() for name, make in OPERATORS.items()}
    assert [
        name for name in ("softmax", "normalisation", "reduction", "largest") if found[name].computes
    ] == []
    # ten operations for two elements, and nothing that is reduced
    assert found["table"].operations == 10 * 12
    assert not found["table"].computes
    image = dense("x", (1, 112, 112, 64))
    depthwise = Convolution(
        "d", (), dense("y", image.shape), image, dense("w", (3, 3, 1, 64)), None, (1, 1), (1, 1), (1, 1), (112, 112),
        64, relu=True, scale=1.0,
    )  # fmt: skip
    assert depthwise.accesses().computes  # nine for two


# ---------------------------------------------------------------- composition


def test_the_published_composition() -> None:
    """relu, every second row, transposed: element (i, j) is that at (2 j, i); the text prints the transposed matrix."""
    written = dense("x", (8, 5))
    read = written.sliced((0, 0), (4, 5), (2, 1)).transposed((1, 0))
    assert map_between(read, written) == IndexMap(((0, 2), (1, 0)), (0, 0))


def random_view(random: np.random.Generator, view: View) -> View:
    """Slices with steps, transpositions and new dimensions of one."""
    for _ in range(int(random.integers(1, 4))):
        shape = view.shape
        if random.random() < 0.5:
            view = view.transposed([int(at) for at in random.permutation(len(shape))])
        else:
            starts = [int(random.integers(0, size)) for size in shape]
            steps = [int(random.integers(1, 3)) for _ in shape]
            sizes = [
                int(random.integers(1, (size - start - 1) // step + 2))
                for size, start, step in zip(shape, starts, steps, strict=True)
            ]
            view = view.sliced(starts, sizes, steps)
    return view


def test_maps_of_1000_random_chains() -> None:
    """Operators of single elements, each reading a random view of what the one before wrote (part of a larger value), as one
    map; against indices that are moved along."""
    random = np.random.default_rng(0)
    longest = 0
    for _ in range(1000):
        shape = tuple(int(size) for size in random.integers(2, 7, int(random.integers(1, 4))))
        steps: list[IndexMap] = []
        numbers, written = np.arange(int(np.prod(shape))).reshape(shape), dense("v", shape)
        length = int(random.integers(1, 6))
        for _ in range(length):
            read = random_view(random, written)
            step = map_between(read, written)
            assert step is not None
            value = np.full(written.offset + int(np.prod(written.shape)) * 3 + 64, -1)
            written.write(value, numbers)
            numbers = read.read(value).copy()
            steps.insert(0, step)
            written = View("v", read.shape, dense("v", read.shape).strides, int(random.integers(0, 9)))
        longest = max(longest, length)
        strides = dense("v", shape).strides
        at = np.indices(numbers.shape).reshape(numbers.ndim, -1)
        for step in steps:
            at = np.array(step.matrix, int).reshape(-1, len(at)) @ at + np.array(step.offset, int)[:, None]
        assert (np.array(strides) @ at == numbers.reshape(-1)).all()
    assert longest == 5


def test_views_between_which_there_is_no_map() -> None:
    matrix = dense("v", (4, 6))
    assert (
        map_between(View("v", (24,), (1,)), matrix) is None
    )  # rows one behind the other: a quotient and a remainder
    assert map_between(View("v", (4, 6), (6, 1)), View("v", (2, 6), (6, 1))) is None  # more than was written
    assert map_between(View("v", (2, 2), (6, 1), 13), View("v", (2, 3), (6, 1), 12)) == IndexMap(
        ((1, 0), (0, 1)), (0, 1)
    )
    flipped = View("v", (4, 6), (-6, 1), 18)
    assert map_between(flipped, matrix) == IndexMap(((-1, 0), (0, 1)), (3, 0))
    heads = View("v", (2, 4, 3), (3, 6, 1))
    assert map_between(heads, matrix) == IndexMap(((0, 1, 0), (3, 0, 1)), (0, 0))
