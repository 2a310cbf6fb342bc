"""Kernels against numpy, by interpretation of their block programs: what the language means."""

import numpy as np
import pytest
import torch

import baco
from tests.compiler.language import example_kernels as kernels

#: M, N, K: one of each kind of overhang, and everything smaller than a block.
SHAPES = [
    (16, 16, 16),
    (32, 16, 64),
    (1, 1, 1),
    (17, 16, 16),
    (16, 17, 16),
    (16, 16, 17),
    (30, 20, 50),
    (33, 17, 65),
    (64, 1, 30),
    (1, 64, 30),
    (5, 7, 3),
    (47, 31, 16),
]
BLOCKS = [(16, 16, 16), (16, 8, 32), (32, 16, 8)]


def random_int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, dtype=np.int8)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def requantise(x: np.ndarray, scale: float) -> np.ndarray:
    return np.clip(np.rint(x.astype(np.float32) * np.float32(scale)), -128, 127).astype(np.int8)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gemm_of_the_thesis(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
    M, N, K = shape
    rng = np.random.default_rng(M * N * K)
    a, b, c = random_int8(rng, M, K), random_int8(rng, K, N), np.full((M, N), 99, np.int32)
    bm, bn, bk = blocks

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (baco.cdiv(M, meta["BLOCK_SIZE_M"]) * baco.cdiv(N, meta["BLOCK_SIZE_N"]),)

    kernels.matmul_kernel.interpret[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, bm, bn, bk)
    assert np.array_equal(c, product(a, b))
    # A grid of plain numbers says nothing about the extents; the kernel's own cdiv does.
    c[:] = 77
    plain = (-(-M // bm) * -(-N // bn),)
    kernels.matmul_kernel.interpret[plain](a, b, c, M, N, K, K, 1, N, 1, N, 1, bm, bn, bk)
    assert np.array_equal(c, product(a, b))


def test_the_gemm_of_the_thesis_on_transposed_and_padded_matrices() -> None:
    rng = np.random.default_rng(5)
    M, N, K = 21, 13, 37
    a = random_int8(rng, K + 3, M + 5)[:K, :M].T  # column-major, with gaps
    b = random_int8(rng, K, N + 9)[:, 4 : 4 + N]
    whole = np.full((M + 2, N + 3), 55, np.int32)
    c = whole[1 : M + 1, 2 : N + 2]
    strides = [stride // array.itemsize for array in (a, b, c) for stride in array.strides]
    kernels.matmul_kernel.interpret[(2 * 2,)](a, b, c, M, N, K, *strides, 16, 8, 16)
    expected = np.full_like(whole, 55)
    expected[1 : M + 1, 2 : N + 2] = product(a, b)
    assert np.array_equal(whole, expected), "elements outside of the view must not change"


@pytest.mark.parametrize("blocks", BLOCKS[:2])
@pytest.mark.parametrize("shape", SHAPES[::2])
@pytest.mark.parametrize("name", ["matmul_by_index", "matmul_block_pointers", "matmul_masked"])
def test_other_ways_to_write_a_gemm(
    name: str, shape: tuple[int, int, int], blocks: tuple[int, int, int]
) -> None:
    M, N, K = shape
    rng = np.random.default_rng(M + N + K)
    a, b, c = random_int8(rng, M, K), random_int8(rng, K, N), np.full((M, N), 99, np.int32)
    rows, columns = baco.cdiv(M, blocks[0]), baco.cdiv(N, blocks[1])
    if name == "matmul_masked":
        kernels.matmul_masked.interpret[rows * columns](a, b, c, M, N, K, *blocks, 2)
    else:
        getattr(kernels, name).interpret[rows, columns](a, b, c, M, N, K, *blocks)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_fused_layer(with_bias: bool, with_residual: bool) -> None:
    rng = np.random.default_rng(1)
    M, N, K, scale = 19, 21, 40, 0.0078125 * 1.3
    x, w, y = random_int8(rng, M, K), random_int8(rng, K, N), np.zeros((M, N), np.int8)
    bias = rng.integers(-3000, 3000, N, dtype=np.int32)
    residual = random_int8(rng, M, N)
    grid = (baco.cdiv(M, 16), baco.cdiv(N, 16))
    kernels.fused_layer.interpret[grid](
        x, w, bias if with_bias else None, residual if with_residual else None, y, M, N, K, scale, 16, 16, 16
    )
    total = product(x, w) + with_bias * bias + with_residual * residual.astype(np.int32)
    assert np.array_equal(y, requantise(np.maximum(total, 0), scale))


def test_batched_gemm() -> None:
    rng = np.random.default_rng(2)
    a, b, c = random_int8(rng, 3, 18, 20), random_int8(rng, 3, 20, 9), np.zeros((3, 18, 9), np.int32)
    kernels.batched_matmul.interpret[baco.cdiv(18, 8), baco.cdiv(9, 8), 3](a, b, c, 18, 9, 20, 8, 8, 8)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_elementwise_addition_wraps(dtype: str) -> None:
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max + 1, 77, dtype=dtype) for _ in range(2))
    out = np.zeros_like(x)
    kernels.add_kernel.interpret[baco.cdiv(77, 32)](x, y, out, 77, BLOCK=32)
    assert np.array_equal(out, x + y)


def test_transposition() -> None:
    rng = np.random.default_rng(4)
    x, y = random_int8(rng, 13, 37), np.zeros((37, 13), np.int8)
    kernels.transpose_kernel.interpret[baco.cdiv(13, 8), baco.cdiv(37, 16)](x, y, 13, 37, 8, 16)
    assert np.array_equal(y, x.T)


@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 1), (3, 2)])
def test_max_pool(window: int, stride: int) -> None:
    rng = np.random.default_rng(6)
    H, W = 14, 11
    P, Q = (H - window) // stride + 1, (W - window) // stride + 1
    x, y = random_int8(rng, H, W), np.zeros((P, Q), np.int8)
    kernels.max_pool_kernel.interpret[baco.cdiv(P, 4), baco.cdiv(Q, 4)](
        x, y, H, W, P, Q, window, stride, 4, 4
    )
    windows = np.lib.stride_tricks.sliding_window_view(x, (window, window))[::stride, ::stride]
    assert np.array_equal(y, windows.max((2, 3)))


@pytest.mark.parametrize(("pad", "stride"), [(0, 1), (1, 1), (1, 2)])
def test_convolution_with_padding(pad: int, stride: int) -> None:
    rng = np.random.default_rng(7)
    H, W, C, R, S, K = 5, 6, 5, 3, 3, 3
    P, Q = (H + 2 * pad - R) // stride + 1, (W + 2 * pad - S) // stride + 1
    x, w, y = random_int8(rng, H, W, C), random_int8(rng, R, S, C, K), np.zeros((P, Q, K), np.int32)
    kernels.convolution_kernel.interpret[P, baco.cdiv(Q, 4), baco.cdiv(K, 4)](
        x, w, y, H, W, C, R, S, P, Q, K, pad, stride, 4, 4, 4
    )
    image = torch.tensor(x).permute(2, 0, 1)[None].double()
    filters = torch.tensor(w).permute(3, 2, 0, 1).double()
    expected = torch.nn.functional.conv2d(image, filters, padding=pad, stride=stride)[0].permute(1, 2, 0)
    assert np.array_equal(y, expected.numpy().astype(np.int32))


def test_gather() -> None:
    rng = np.random.default_rng(8)
    table, ids = random_int8(rng, 50, 16), rng.integers(0, 50, 21, dtype=np.int32)
    out = np.zeros((21, 16), np.int8)
    kernels.embedding_kernel.interpret[baco.cdiv(21, 8)](table, ids, out, 21, 16, 8)
    assert np.array_equal(out, table[ids])


def test_chained_products() -> None:
    rng = np.random.default_rng(9)
    T, D = 21, 12
    q, k, v = (random_int8(rng, T, D) for _ in range(3))
    out = np.zeros((T, D), np.int8)
    kernels.attention_scores.interpret[baco.cdiv(T, 8)](q, k, v, out, T, D, 100, 0.002, 0.01, 8, 16)
    weights = np.maximum(requantise(product(q, k.T) + 100, 0.002), 0)
    assert np.array_equal(out, requantise(product(weights, v), 0.01))


def test_torch_tensors() -> None:
    x, y = torch.arange(-20, 20, dtype=torch.int8), torch.full((40,), 100, dtype=torch.int8)
    out = torch.zeros(40, dtype=torch.int8)
    kernels.add_kernel.interpret[3](x, y, out, 40, 16)
    assert torch.equal(out, x + y)


def test_arguments_that_share_memory() -> None:
    whole = np.arange(64, dtype=np.int32)
    expected = whole.copy()
    expected[32:] = whole[:32] + whole[16:48]
    x, y, out = whole[:32], whole[16:48], whole[32:]
    kernels.add_kernel.interpret[1](x, y, out, 32, 32)
    assert np.array_equal(whole, expected)
