"""Kernels through the block lowering, on the functional engine and in RTL, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.blocks.block_run import execute, machine
from tests.compiler.kernels import CASES, kinds, requantise
from tests.compiler.product_kernels import gemm
from tests.machines import SMALL
from tests.seeds import seeds

#: M, N, K and the sides of the blocks: whole, smaller than a tile, multiples of nothing.
SHAPES = [
    ((1, 1, 1), (4, 4, 4)),
    ((1, 1, 1), (1, 1, 1)),
    ((1, 37, 5), (1, 16, 4)),
    ((37, 1, 5), (16, 1, 4)),
    ((2, 3, 5), (2, 3, 5)),
    ((3, 5, 2), (4, 4, 4)),
    ((4, 4, 4), (4, 4, 4)),
    ((5, 5, 5), (4, 4, 4)),
    ((7, 11, 13), (7, 11, 13)),
    ((8, 8, 8), (16, 16, 16)),
    ((9, 17, 33), (8, 16, 32)),
    ((15, 16, 17), (16, 16, 16)),
    ((16, 16, 16), (16, 16, 16)),
    ((16, 64, 16), (16, 64, 16)),
    ((17, 15, 16), (8, 24, 8)),
    ((17, 65, 9), (16, 64, 8)),
    ((23, 29, 31), (12, 20, 28)),
    ((29, 23, 1), (16, 16, 16)),
    ((31, 33, 63), (32, 32, 32)),
    ((32, 32, 32), (32, 32, 32)),
    ((33, 31, 65), (32, 16, 64)),
    ((40, 24, 56), (16, 8, 24)),
    ((41, 19, 100), (48, 24, 33)),
    ((50, 50, 50), (7, 9, 11)),
    ((63, 65, 64), (32, 64, 16)),
    ((64, 1, 64), (32, 1, 32)),
    ((64, 64, 64), (32, 32, 32)),
    ((65, 63, 3), (64, 64, 4)),
    ((100, 3, 20), (24, 4, 20)),
    ((128, 70, 30), (64, 48, 16)),
]


@pytest.mark.parametrize("index", seeds(6, of=len(SHAPES)))
def test_matmul_of_the_method(index: int) -> None:
    shape, blocks = SHAPES[index]
    execute(gemm(np.random.default_rng(index), shape, blocks), machine((4, 8, 16)[index % 3]))


@pytest.mark.parametrize("name", kinds())
def test_kernels(name: str) -> None:
    dim = (4, 8, 16)[list(CASES).index(name) % 3]
    execute(CASES[name](np.random.default_rng(7)), machine(dim))


@pytest.mark.parametrize(
    "name",
    [
        *("both transposed", "B transposed", "chained", "gemv"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("A by columns", "two products")),
    ],
)
def test_output_stationary(name: str) -> None:
    execute(CASES[name](np.random.default_rng(8)), machine(4, dataflow="OS"))


@pytest.mark.parametrize(
    "features",
    [
        {"read_full_width": False},
        {"activations": False},
        {"accumulator_scale": False},
        {"read_small_width": False},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_the_hardware_lacks_is_done_by_the_host_core(features: dict[str, bool]) -> None:
    rng = np.random.default_rng(9)
    accelerator = machine(4)
    lacking = accelerator.replace(features={**accelerator.features.model_dump(), **features})
    execute(CASES["fused"](rng), lacking)


def test_narrow_partial_sums_are_not_trusted() -> None:
    """Sixteen bits cannot hold four products of int8: the host core multiplies."""
    requirement, _ = execute(
        gemm(np.random.default_rng(10), (6, 5, 9), (4, 4, 4)), machine(4, partial_sum_bits=16)
    )
    assert requirement["scratchpad_rows"] == requirement["accumulator_rows"] == 0


@pytest.mark.parametrize("scale", [0.0, 1.0, 0.5, 0.1, 3.7e-8, 1e-38, 1e-44, 3e38, -0.25, 1.9999999])
def test_requantisation_in_whole_numbers(scale: float) -> None:
    execute(requantise(np.random.default_rng(11), scale), machine(4))


@pytest.mark.parametrize("name", ["fused", "attention", "all by columns", "two products"])
def test_kernels_in_rtl(name: str) -> None:
    execute(CASES[name](np.random.default_rng(12)), SMALL, engine="rtl")


def test_matmul_in_rtl() -> None:
    for index in (4, 10, 16):
        shape, blocks = SHAPES[index]
        execute(gemm(np.random.default_rng(index), shape, blocks), SMALL, engine="rtl")


@pytest.mark.slow
@pytest.mark.parametrize("dim", [4, 8, 16])
@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_matmul_of_the_method_in_rtl(index: int, dim: int) -> None:
    shape, blocks = SHAPES[index]
    execute(gemm(np.random.default_rng(index), shape, blocks), machine(dim), engine="rtl")
