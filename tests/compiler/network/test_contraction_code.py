"""Contractions by their matchings: every one computes the definition's integers, on paper, functionally and on the RTL."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import baco
from baco.accel.presets import load_accelerator
from baco.bench.intrinsics.operators import KINDS, Kind
from baco.bench.intrinsics.run import joined, program_of
from baco.common.errors import InputError
from baco.compiler.abstraction import gemmini, matchings
from baco.compiler.network.contraction_choice import choose_matching
from baco.compiler.network.contraction_code import contraction_network
from baco.compiler.network.program import compile_network
from baco.compiler.network.reference import reference
from baco.compiler.network.tensor_program import TensorProgram
from baco.sim.network.run import run_network
from tests.seeds import some

SMALL = {
    "GMV": {"m": 20, "k": 18},
    "GMM": {"m": 9, "n": 7, "k": 20},
    "C1D": {"p": 9, "k": 6, "c": 5},
    "C2D": {"n": 2, "p": 4, "q": 3, "k": 5, "c": 3},
    "C3D": {"d": 2, "p": 3, "q": 2, "k": 3, "c": 3},
    "T2D": {"p": 3, "q": 2, "k": 3, "c": 3, "r": 3, "s": 2},
    "GRP": {"g": 2, "p": 3, "q": 4, "k": 5, "c": 4},
    "DIL": {"p": 4, "q": 3, "k": 5, "c": 4},
    "DEP": {"c": 6, "p": 4, "q": 5, "k": 2},
    "CAP": {"p": 3, "q": 2, "k": 3, "j": 2, "c": 3},
    "BCV": {"n": 2, "p": 3, "q": 4, "k": 5, "c": 4},
    "GFC": {"n": 5, "g": 3, "k": 4, "c": 7},
    "MEN": {"m": 7, "k": 20},
    "VAR": {"m": 5, "k": 9},
    "SCN": {"m": 6, "j": 8, "k": 8},
}


def _inputs(program: TensorProgram) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        name: random.integers(-128, 128, shape, dtype=np.int8)
        for name, shape in program.shapes.items()
        if program.role(name) == "input"
    }


def _by_loops(program: TensorProgram, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The sums by one loop around another, in Python's own integers."""
    c = program.contraction
    tensors = {**program.constants, **inputs}
    sums = np.zeros(program.shapes[c.output.operand], dtype=object)
    for numbers in itertools.product(*map(range, c.extents.values())):
        at = dict(zip(c.extents, numbers, strict=True))
        product = 1
        for access in c.inputs:
            where = tuple(index.evaluate(at) for index in access.indices)
            tensor = tensors[access.operand]
            inside = all(0 <= one < extent for one, extent in zip(where, tensor.shape, strict=True))
            product *= int(tensor[where]) if inside else 0
        sums[tuple(index.evaluate(at) for index in c.output.indices)] += product
    # 2**-8 is exact, and so is rounding half to even of what fits in 24 bits
    return np.clip(np.rint(sums.astype(np.float64) * 2.0**-8), -128, 127).astype(np.int8)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_matching_computes_the_definition(kind: Kind) -> None:
    program = program_of(kind, SMALL[kind.name])
    inputs = _inputs(program)
    expected = _by_loops(program, inputs)
    np.testing.assert_array_equal(program.result(inputs), expected)
    found = list(matchings(program.products, gemmini(16)))
    for one in found[:: max(1, len(found) // 24)]:
        network = contraction_network(program, one)
        got = reference(network, inputs)[program.contraction.output.operand]
        np.testing.assert_array_equal(got, expected, err_msg=str(one))


@pytest.mark.slow
def test_the_49_matchings_of_a_convolution_run_bit_exact() -> None:
    accelerator = load_accelerator("gemmini-default")
    program = program_of(KINDS["C2D"], {"n": 2, "p": 3, "q": 2, "k": 5, "c": 3, "r": 2, "s": 2})
    inputs = _inputs(program)
    expected = _by_loops(program, inputs)
    found = list(matchings(program.products, gemmini(accelerator.dim), swaps=(False,)))
    assert len(found) == 49
    network = joined([contraction_network(program, one) for one in found])
    built = compile_network(network, accelerator, data=inputs, check=False)
    run = run_network(built, None, "functional")
    for number, one in enumerate(found):
        np.testing.assert_array_equal(run.values[f"{number}.O"], expected, err_msg=str(one))


@pytest.mark.parametrize("name", some(2, ["C3D", "T2D", "VAR"]))
def test_operators_without_a_rule_on_the_rtl(name: str) -> None:
    program = program_of(KINDS[name], SMALL[name])
    inputs = _inputs(program)
    accelerator = load_accelerator("gemmini-default")
    choice = choose_matching(program, accelerator)
    built = compile_network(choice.network, accelerator, data=inputs, check=False)
    run = run_network(built, None, "rtl")
    np.testing.assert_array_equal(run.values["O"], _by_loops(program, inputs))


def test_padding_strides_and_values_at_the_edges() -> None:
    """An image whose windows reach out on all sides, in the order channels, columns, rows."""
    made = baco.expression(
        "O[p,q,k] += I[c, q*2 + s - 1, p + r*2 - 2] * W[k,r,s,c]",
        p=6, q=4, k=3, c=5, r=3, s=3,
        constants=["W"], shapes={"I": (5, 8, 6)}, scale=2.0**-8, relu=True,
    )  # fmt: skip
    inputs = _inputs(made)
    expected = np.maximum(_by_loops(made, inputs), 0)
    for one in matchings(made.products, gemmini(16)):
        network = contraction_network(made, one)
        np.testing.assert_array_equal(reference(network, inputs)["O"], expected, err_msg=str(one))


def test_expressions_are_compiled_and_run() -> None:
    made = baco.expression("O[m] += A[m,k]", m=9, k=40)
    run = baco.run(made)
    assert run.right
    assert baco.compile(made, mapping="m=m k=k").schedule == "m=m k=k"
    assert run.outputs["O"].shape == (9,)


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("O[m] = A[m]", {"m": 1}, "no sum of products"),
        ("O[m] += A[m,k] * B[k] * C[k]", {"m": 1, "k": 1}, "multiplies 3 tensors"),
        ("O[m] += A[m,k] * B[m]", {"m": 2, "k": 2}, "sums up 'k' of one tensor alone"),
        ("O[m,n] += A[m]", {"m": 2, "n": 2}, "no tensor on the right"),
        ("O[m] += A[m,k*k]", {"m": 2, "k": 2}, "is no index"),
        ("O[m] += A[m,k]", {"m": 2}, "how often 'k'"),
        ("O[m] += A[m]", {"m": 2, "z": 2}, "no iteration 'z'"),
        ("O[m-1] += A[m,k]", {"m": 2, "k": 2}, "must|reaches"),
        ("O[m] += O[m,k]", {"m": 2, "k": 2}, "dimensions|reads what it writes"),
        ("O[m] += A[m,k]", {"m": 2, "k": 1 << 20}, "do not fit into 32 bits"),
        ("O[m] += A[m,k]", {"m": 0, "k": 1}, "whole number of times"),
        ("O[m+k+n] += A[m,k,n]", {"m": 2, "k": 2, "n": 2}, "no transposed convolution"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _ = baco.expression(text, **sizes).products
