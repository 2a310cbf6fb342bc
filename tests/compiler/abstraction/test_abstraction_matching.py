"""Matching of tensor programs to intrinsics: the published example, addresses, padding, other intrinsics."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.dialects.linalg.ops import MatmulOp
from xdsl.dialects.tensor import EmptyOp

from common.errors import InputError
from compiler.abstraction import (
    Intrinsic,
    Matching,
    MemoryStatement,
    capacities,
    contraction_of,
    gemmini,
    gemmini_requirement,
    is_identity,
    match,
    matchings,
)
from compiler.abstraction.intrinsic import Scope
from compiler.mapping.contraction import Access, Contraction, convolution, matmul
from compiler.mapping.expression import variable
from workloads.problem import Problem


def dot_product(lanes: int) -> Intrinsic:
    """A vector unit: d += sum over k < lanes of a[k] * b[k]."""
    k, base = variable("k"), variable("base")
    move = {
        name: MemoryStatement(
            "load", name, "dram", "scratchpad", {"k": lanes}, (base + k,), (base + k,), ("base",)
        )
        for name in "AB"
    }
    store = MemoryStatement("store", "D", "accumulator", "dram", {}, (base,), (base,), ("base",))
    compute = Contraction({"k": lanes}, Access("D", ()), (Access("A", (k,)), Access("B", (k,))))
    return Intrinsic(f"dot product of {lanes}", compute, (move["A"], move["B"], store))


def outer_block(rows: int, columns: int, depth: int) -> Intrinsic:
    """A tensor core of unequal sides: D[m, n] += A[m, k] * B[k, n], m < rows, n < columns, k < depth."""
    m, n, k, base = variable("m"), variable("n"), variable("k"), variable("base")
    extents = {"m": rows, "n": columns, "k": depth}

    def statement(instruction: str, access: Access, source: Scope, destination: Scope) -> MemoryStatement:
        shape = {str(index): extents[str(index)] for index in access.indices}
        row, column = access.indices
        flat = (base + row * extents[str(column)] + column,)
        return MemoryStatement(instruction, access.operand, source, destination, shape, flat, flat, ("base",))

    d, a, b = Access("D", (m, n)), Access("A", (m, k)), Access("B", (k, n))
    memory = (
        statement("load", a, "dram", "scratchpad"),
        statement("load", b, "dram", "scratchpad"),
        statement("store", d, "accumulator", "dram"),
    )
    return Intrinsic(f"tensor core {rows}x{columns}x{depth}", Contraction(extents, d, (a, b)), memory)


#: The motivating example of the method: R=S=3, P=Q=2, C=1, K=4, N=1.
EXAMPLE = Problem(R=3, S=3, P=2, Q=2, C=1, K=4, N=1)


def _example_in_the_order_of_the_text() -> Contraction:
    """The example with the loop order of the published expression: n, p, q and c, r, s."""
    v = {name: variable(name) for name in "npqkcrs"}
    return Contraction(
        {"n": 1, "p": 2, "q": 2, "k": 4, "c": 1, "r": 3, "s": 3},
        Access("O", (v["n"], v["p"], v["q"], v["k"])),
        (
            Access("I", (v["n"], v["p"] + v["r"], v["q"] + v["s"], v["c"])),
            Access("W", (v["r"], v["s"], v["c"], v["k"])),
        ),
    )


def test_worked_example() -> None:
    matching = match(_example_in_the_order_of_the_text(), gemmini(2))
    assert (matching.swapped, matching.outer) == (False, ())
    assert dict(matching.fused) == {"m": ("n", "p", "q"), "n": ("k",), "k": ("c", "r", "s")}
    image = matching.operand("I")
    assert (image.counts, image.tile) == ((2, 5), (2, 2)), "4 x 9 is split into 2 x 5 sub-matrices of 2 x 2"
    assert image.padding == (0, 1), "the trailing sub-matrices are padded with zeros"
    assert str(image.address) == "(n*4 + p*2 + q)//2*20 + (c*9 + r*3 + s)//2*4"
    weights = matching.operand("W")
    assert (weights.counts, weights.padding) == ((5, 2), (1, 0))
    assert matching.instructions == 2 * 2 * 5


@pytest.mark.parametrize("dim", [2, 4, 8, 16])
def test_number_of_elements_follows_the_array(dim: int) -> None:
    matching = match(convolution(EXAMPLE), gemmini(dim))
    image = matching.operand("I")
    assert image.counts == (-(-4 // dim), -(-9 // dim))
    assert image.elements == image.counts[0] * image.counts[1] * dim * dim


def _execute(matching: Matching, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Runs the program as instructions on packed operands; the output's tiles, flat."""
    a, b = (one.operand for one in matching.contraction.inputs)
    o = matching.contraction.output.operand
    packed = {a: matching.pack(a, left.astype(np.int64)), b: matching.pack(b, right.astype(np.int64))}
    layouts = {name: matching.operand(name) for name in (o, a, b)}
    result = np.zeros(layouts[o].elements, np.int64)
    inner = matching.intrinsic.compute.extents
    tiles = {"tile " + name: range(matching.tiles(name)) for name in matching.fused}
    outer = {name: range(matching.contraction.extents[name]) for name in matching.outer}
    inside = {access.operand: [str(i) for i in inner.indices] for access, inner in matching.pairs}
    for numbers in itertools.product(*outer.values(), *tiles.values()):
        at = dict(zip((*outer, *tiles), numbers, strict=True))

        def tile(name: str, at: dict[str, int] = at) -> slice:
            layout = layouts[name]
            number = 0
            for key, count in zip(
                (*layout.outer, *("tile " + i for i in inside[name])), layout.counts, strict=True
            ):
                number = number * count + at[key]
            size = int(np.prod(layout.tile))
            return slice(number * size, (number + 1) * size)

        letters = {name: chr(97 + place) for place, name in enumerate(inner)}
        subscripts = {name: "".join(letters[i] for i in inside[name]) for name in layouts}
        product = np.einsum(
            f"{subscripts[a]},{subscripts[b]}->{subscripts[o]}",
            packed[a][tile(a)].reshape(layouts[a].tile),
            packed[b][tile(b)].reshape(layouts[b].tile),
        )
        result[tile(o)] += product.reshape(-1)
    return result


def _brute_force(problem: Problem, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    p = problem
    out = np.zeros((p.groups, p.N, p.Q, p.P, p.K), np.int64)
    for g, n, y, x, s, r in itertools.product(*map(range, (p.groups, p.N, p.Q, p.P, p.S, p.R))):
        pixel = image[g, n, y * p.stride_h + s * p.dilation_h, x * p.stride_w + r * p.dilation_w]
        out[g, n, y, x] += pixel.astype(np.int64) @ weights[g, s, r].astype(np.int64)
    return out


@pytest.mark.parametrize(
    "problem",
    [
        EXAMPLE,
        Problem(R=3, S=2, P=3, Q=4, C=5, K=3, N=2, stride_w=2, stride_h=3, dilation_w=2),
        Problem(P=7, C=9, K=5),
        Problem(P=3, C=4, K=5, groups=3),
        Problem(R=3, S=3, P=4, Q=4, groups=5),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "intrinsic",
    [gemmini(2), gemmini(4), outer_block(4, 4, 8), outer_block(2, 3, 5), dot_product(4)],
    ids=lambda i: i.name,
)
def test_instructions_on_the_derived_addresses_compute_the_program(
    problem: Problem, intrinsic: Intrinsic
) -> None:
    rng = np.random.default_rng(1)
    p = problem
    height = (p.Q - 1) * p.stride_h + (p.S - 1) * p.dilation_h + 1
    width = (p.P - 1) * p.stride_w + (p.R - 1) * p.dilation_w + 1
    image = rng.integers(-128, 128, (p.groups, p.N, height, width, p.C))
    weights = rng.integers(-128, 128, (p.groups, p.S, p.R, p.C, p.K))
    expected = _brute_force(p, image, weights)
    if p.groups == 1:
        image, weights, expected = image[0], weights[0], expected[0]
    matching = match(convolution(problem), intrinsic)
    flat = _execute(matching, image, weights)
    extents = {name: matching.contraction.extents[name] for name in matching.contraction.output.variables}
    element = matching.operand("O").element
    for numbers in itertools.product(*map(range, extents.values())):
        at = dict(zip(extents, numbers, strict=True))
        where = tuple(index.evaluate(at) for index in matching.contraction.output.indices)
        assert flat[element.evaluate(at)] == expected[where]
    size = matching.operand("O").elements
    assert flat.size == size


def test_every_matching_computes_the_product() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (3, 5)), rng.integers(-9, 9, (5, 4))
    seen = 0
    for matching in matchings(matmul(3, 4, 5), gemmini(2)):
        seen += 1
        flat = _execute(matching, a, b)
        element = matching.operand("D").element
        got = np.array(
            [[flat[element.evaluate({"m": i, "n": j, "k": 0})] for j in range(4)] for i in range(3)]
        )
        np.testing.assert_array_equal(got, a @ b)
    assert seen == 16, "two ways to name the operands, three iterations inside or outside"


def test_dot_product_leaves_rows_and_columns_outside() -> None:
    matching = match(matmul(3, 4, 10), dot_product(4))
    assert (matching.outer, matching.tiles("k")) == (("m", "n"), 3)
    assert matching.instructions == 36
    assert str(matching.operand("A").address) == "m*12 + k//4*4"
    assert capacities(matching) == {"scratchpad": 3 * 12 + 4 * 12, "accumulator": 12}


def test_an_intrinsic_is_added_by_describing_it() -> None:
    """A matrix-vector unit that no code knows: d[m] += sum over k < 8 of a[m, k] * b[k], m < 2."""
    m, k, base = variable("m"), variable("k"), variable("base")
    unit = Intrinsic(
        "matrix-vector 2x8",
        Contraction({"m": 2, "k": 8}, Access("y", (m,)), (Access("w", (m, k)), Access("x", (k,)))),
        (
            MemoryStatement(
                "load_w", "w", "dram", "scratchpad", {"m": 2, "k": 8}, (m, k), (base + m * 8 + k,), ("base",)
            ),
            MemoryStatement("load_x", "x", "dram", "registers", {"k": 8}, (k,), (base + k,), ("base",)),
            MemoryStatement("store_y", "y", "accumulator", "dram", {"m": 2}, (base + m,), (m,), ("base",)),
        ),
    )
    matching = match(matmul(5, 3, 9), unit)
    assert (matching.outer, matching.instructions) == (("n",), 3 * 3 * 2)
    assert capacities(matching) == {"scratchpad": 6 * 16, "registers": 3 * 16, "accumulator": 3 * 6}
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 9, (5, 9)), rng.integers(-9, 9, (9, 3))
    flat = _execute(matching, a, b)
    element = matching.operand("D").element
    for i, j in itertools.product(range(5), range(3)):
        assert flat[element.evaluate({"m": i, "n": j, "k": 0})] == (a @ b)[i, j]


def test_operands_swap_when_that_needs_fewer_instructions() -> None:
    matching = match(matmul(2, 100, 8), outer_block(100, 2, 8))
    assert (matching.swapped, matching.instructions) == (True, 1)
    assert not is_identity(matching)


def test_requirement_of_the_example() -> None:
    need = gemmini_requirement([match(convolution(EXAMPLE), gemmini(2))])
    assert (need.rows, need.columns, need.dim) == (2, 2, 2)
    assert need.accumulator_words == 2 * 2 * 2, "2 x 2 tiles of two rows, a word in each column"
    assert need.scratchpad_rows == 2 * 5 * 2 + 5 * 2 * 2
    assert need.scratchpad_words == 4 * 9 + 9 * 4
    larger = gemmini_requirement([match(matmul(3, 3, 3), gemmini(16))])
    assert (larger.rows, larger.columns) == (3, 3), "a product of three needs no array of sixteen"


def test_contraction_of_linalg() -> None:
    a, b = EmptyOp((), TensorType(i8, [3, 5])), EmptyOp((), TensorType(i8, [5, 7]))
    out = EmptyOp((), TensorType(i32, [3, 7]))
    op = MatmulOp([a.tensor, b.tensor], [out.tensor])
    contraction = contraction_of(op)
    assert str(contraction) == "D[i0, i1] += A[i0, i2] * B[i2, i1]"
    assert contraction.extents == {"i0": 3, "i1": 7, "i2": 5}
    assert is_identity(match(contraction, gemmini(4)))


def test_bad_descriptions_are_refused() -> None:
    i = variable("i")
    with pytest.raises(InputError, match=r"'i' .* has no extent"):
        Contraction({}, Access("D", (i,)), (Access("A", (i,)), Access("B", ())))
    with pytest.raises(InputError, match="runs 0 times"):
        matmul(1, 0, 1)
    with pytest.raises(InputError, match="neither an index nor a symbol"):
        MemoryStatement("load", "A", "dram", "scratchpad", {}, (i,), (i,))
    compute = Contraction({"i": 2}, Access("D", (i,)), (Access("A", (i,)), Access("B", (i,))))
    statement = MemoryStatement("load", "Z", "dram", "scratchpad", {"i": 2}, (i,), (i,))
    with pytest.raises(InputError, match="moves unknown operand 'Z'"):
        Intrinsic("x", compute, (statement,))
    with pytest.raises(InputError, match="no operand 'Q'"):
        match(matmul(1, 1, 1), gemmini(2)).operand("Q")


def test_expressions() -> None:
    x, y = variable("x"), variable("y")
    for expression, text in (
        (x * 2 + y + 3, "x*2 + y + 3"),
        (x - y, "x - y"),
        ((x + 1) * 4 - 4, "x*4"),
        ((x * 4 + y) // 2 % 3, "(x*4 + y)//2%3"),
        (x - x, "0"),
        (x * 0 + y, "y"),
    ):
        assert str(expression) == text
        for a, b in itertools.product(range(4), range(3)):
            assert expression.evaluate({"x": a, "y": b}) == eval(text, {"x": a, "y": b})
    with pytest.raises(ValueError, match="positive"):
        x // 0


def test_examples_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    """The code of docs/block-lowering.md prints what its comments say."""
    text = (Path(__file__).parents[3] / "docs" / "block-lowering.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "block-lowering.md", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        prints = [line for line in block.splitlines() if line.startswith("print(")]
        for line, got in zip(prints, printed, strict=True):
            _, marker, comment = line.partition("  # ")
            assert not marker or got == comment
