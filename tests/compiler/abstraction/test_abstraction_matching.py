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

from baco.bench.intrinsics.operators import KINDS, Kind
from baco.common.errors import InputError
from baco.compiler.abstraction import (
    Intrinsic,
    MemoryStatement,
    contraction_of,
    gemmini,
    is_identity,
    match,
    matchings,
)
from baco.compiler.abstraction.intrinsic import Scope
from baco.compiler.abstraction.matching import accepts, matching_of
from baco.compiler.mapping.contraction import Access, Contraction, convolution, matmul
from baco.compiler.mapping.expression import variable
from baco.workloads.problem import Problem


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


def test_dot_product_leaves_rows_and_columns_outside() -> None:
    matching = match(matmul(3, 4, 10), dot_product(4))
    assert (matching.outer, matching.tiles("k")) == (("m", "n"), 3)
    assert matching.instructions == 36
    assert str(matching.operand("A").address) == "m*12 + k//4*4"


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


def test_operands_swap_when_that_needs_fewer_instructions() -> None:
    matching = match(matmul(2, 100, 8), outer_block(100, 2, 8))
    assert (matching.swapped, matching.instructions) == (True, 1)
    assert not is_identity(matching)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_as_many_matchings_as_published(kind: Kind) -> None:
    """Table 5.3 of the thesis (AMOS, ISCA 2022): strict; what Algorithm 4 accepts: full."""
    contraction, unit = kind.contraction(), gemmini(16)
    strict = {str(matching) for matching in matchings(contraction, unit, counting="strict", swaps=(False,))}
    full = list(matchings(contraction, unit, swaps=(False,)))
    assert (len(strict), len(full)) == (kind.strict, kind.full)
    assert strict <= {str(matching) for matching in full}
    assert all(accepts(matching) for matching in full)


def _accepted(contraction: Contraction, choices: int) -> list[tuple[int, ...]]:
    """Maps of all iterations to i1, i2, r1 (or to none: 3) that Algorithm 4 accepts, by Boolean products of its matrices."""
    output, left, right = (set(access.variables) for access in contraction.accesses)
    names = list(contraction.extents)
    x = np.array([[name in tensor for name in names] for tensor in (left, right, output)], int)
    z = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    found = []
    for chosen in itertools.product(range(choices), repeat=len(names)):
        y = np.array([[one == axis for one in chosen] for axis in range(3)], int)
        inside = np.array(chosen) < 3
        if ((z @ y > 0)[:, inside] == x[:, inside]).all() and ((x @ y.T > 0) == z).all():
            found.append(chosen)
    return found


def test_algorithm_4_on_all_maps_of_a_convolution() -> None:
    contraction = KINDS["C2D"].contraction()
    assert len(_accepted(contraction, 3)) == 1, "of 3^7 = 2187 total maps"
    maps = _accepted(contraction, 4)
    assert len(maps) == 49, "of 4^7 = 16384, where iterations may stay outside"
    names = list(contraction.extents)
    brute = {
        tuple(tuple(n for n, to in zip(names, one, strict=True) if to == axis) for axis in range(3))
        for one in maps
    }
    own = {
        tuple(one.fused[axis] for axis in "mnk")
        for one in matchings(contraction, gemmini(16), swaps=(False,))
    }
    assert own == brute


#: Iterations on i1 and r1 (i2 = k) that were chosen for the layers of ResNet-18 at batch 16 (Table 5.4 of the thesis).
RESNET18 = [
    "nq|crs",
    "nq|cr",
    "pq|c",
    "npq|cs",
    "pq|c",
    "pq|c",
    "n|cs",
    "npq|c",
    "pq|c",
    "npq|crs",
    "npq|c",
    "n|crs",
]


def test_choices_of_resnet18_are_found() -> None:
    contraction = KINDS["C2D"].contraction()
    strict = {
        tuple("".join(sorted(one.fused[axis])) for axis in "mk")
        for one in matchings(contraction, gemmini(16), counting="strict", swaps=(False,))
    }
    chosen = [tuple("".join(sorted(part)) for part in text.split("|")) for text in RESNET18]
    assert set(chosen) <= strict
    assert len(chosen) == 12
    assert len(set(chosen)) == 8


def test_matchings_as_text() -> None:
    contraction, unit = KINDS["C2D"].contraction(), gemmini(16)
    for one in matchings(contraction, unit):
        again = matching_of(str(one), contraction, unit)
        assert (dict(again.fused), again.swapped) == (dict(one.fused), one.swapped)
    for text, message in (
        ("m=n,k n=p k=c", "no valid matching"),
        ("m=n n=k k=z", "no iteration 'z'"),
        ("m=n n=k k=c k=n", "matched twice"),
        ("rows=n", "no part of a matching"),
        ("m=n n=k", "no valid matching"),
    ):
        with pytest.raises(InputError, match=message):
            matching_of(text, contraction, unit)
    with pytest.raises(InputError, match="no valid matching"):
        matching_of("m=n,p n=k,r k=c", KINDS["T2D"].contraction(), unit)


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
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "block-lowering.md", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        prints = [line for line in block.splitlines() if line.startswith("print(")]
        for line, got in zip(prints, printed, strict=True):
            _, marker, comment = line.partition("  # ")
            assert not marker or got == comment
