"""Kernels against numpy, by interpretation of their block programs: what the language means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import baco
from tests.compiler import product_kernels as kernels
from tests.compiler.blocks.block_run import machine
from tests.compiler.kernels import CASES, add_kernel

#: M, N, K: one of each kind of overhang, and everything smaller than a block.
SHAPES = [
    (16, 16, 16), (32, 16, 64), (1, 1, 1), (17, 16, 16), (16, 17, 16), (16, 16, 17), (30, 20, 50), (33, 17, 65),
    (64, 1, 30), (1, 64, 30), (5, 7, 3), (47, 31, 16),
]  # fmt: skip
BLOCKS = [(16, 16, 16), (16, 8, 32), (32, 16, 8)]
#: Interpreted, and compiled.
BOTH = pytest.mark.parametrize(
    "options", [{"engine": "interpret"}, {"accelerator": machine(4)}], ids=["numpy", "dim4"]
)


@pytest.mark.parametrize("name", CASES)
def test_every_kernel(name: str) -> None:
    CASES[name](np.random.default_rng(3)).launch(engine="interpret")


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        # every shape in every other size of blocks every time
        pytest.param(shape, blocks, marks=[pytest.mark.slow] * ((number + place) % 2))
        for number, shape in enumerate(SHAPES)
        for place, blocks in enumerate(BLOCKS)
    ],
)
def test_the_gemm_of_the_thesis(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
    m, n, k = shape
    case = kernels.gemm(np.random.default_rng(m * n * k), shape, blocks)

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (baco.cdiv(m, meta["BLOCK_SIZE_M"]) * baco.cdiv(n, meta["BLOCK_SIZE_N"]),)

    # A grid of plain numbers says nothing about the extents; the kernel's own cdiv does.
    for launched in (grid, (-(-m // blocks[0]) * -(-n // blocks[1]),)):
        case.arguments[2][:] = 99
        kernels.matmul_kernel.interpret[launched](*case.arguments)
        case.compare()


@pytest.mark.parametrize("blocks", BLOCKS[:2])
@pytest.mark.parametrize("shape", SHAPES[::2])
def test_other_ways_to_write_a_gemm(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    for kernel in (kernels.matmul_by_index, kernels.matmul_block_pointers):
        kernels.written(rng, kernel, shape, blocks).launch(engine="interpret")
    kernels.written(rng, kernels.matmul_masked, shape, blocks, 2).launch(engine="interpret")


@BOTH
def test_transposed_matrices_with_gaps(options: dict[str, Any]) -> None:
    """Elements outside of a view do not change."""
    rng = np.random.default_rng(5)
    m, n, k = 21, 13, 37
    a = kernels.int8s(rng, k + 3, m + 5)[:k, :m].T
    b = kernels.int8s(rng, k, n + 9)[:, 4 : 4 + n]
    whole = np.full((m + 2, n + 3), 55, np.int32)
    c = whole[1 : m + 1, 2 : n + 2]
    strides = [stride // array.itemsize for array in (a, b, c) for stride in array.strides]
    kernels.matmul_kernel[(2 * 2,)].options(**options)(a, b, c, m, n, k, *strides, 16, 8, 16)
    expected = np.full_like(whole, 55)
    expected[1 : m + 1, 2 : n + 2] = kernels.dot(a, b)
    assert np.array_equal(whole, expected)


@BOTH
def test_torch_tensors(options: dict[str, Any]) -> None:
    x, y = torch.arange(-20, 20, dtype=torch.int8), torch.full((40,), 100, dtype=torch.int8)
    out = torch.zeros(40, dtype=torch.int8)
    add_kernel[baco.cdiv(40, 16)].options(**options)(x, y, out, 40, 16)
    assert torch.equal(out, x + y)


@BOTH
def test_arguments_that_share_memory(options: dict[str, Any]) -> None:
    whole = np.arange(64, dtype=np.int32)
    expected = whole.copy()
    expected[32:] = whole[:32] + whole[16:48]
    add_kernel[1].options(**options)(whole[:32], whole[16:48], whole[32:], 32, 32)
    assert np.array_equal(whole, expected)
