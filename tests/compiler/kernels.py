"""Kernels of the block language that several tests interpret, compile and run: each with data, and its result in numpy.

Kernels are pieces of users' code: nothing here knows the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import baco
from tests.compiler.product_kernels import (
    Case,
    batched,
    chained,
    dot,
    fused,
    gathered,
    gemm,
    gemv,
    int8s,
    int32s,
    matmul_block_pointers,
    matmul_by_index,
    matmul_masked,
    matmul_wrapped,
    saturated,
    transposed,
    written,
)


@baco.jit
def add_kernel(x, y, out, n, BLOCK: baco.const):
    """out = x + y."""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    mask = i < n
    baco.store(out + i, baco.load(x + i, mask=mask) + baco.load(y + i, mask=mask), mask=mask)


def add(rng: np.random.Generator, dtype: str, count: int = 50) -> Case:
    """A sum that wraps around."""
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max + 1, count, dtype=dtype) for _ in range(2))
    return Case(
        f"add {dtype}", add_kernel[baco.cdiv(count, 32)], (x, y, np.zeros_like(x), count, 32), {2: x + y}
    )


@baco.jit
def requantise_kernel(x_ptr, z_ptr, N, BLOCK: baco.const, SCALE: baco.const):
    offs = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    baco.store(z_ptr + offs, baco.requantize(baco.load(x_ptr + offs), SCALE))


def requantise(rng: np.random.Generator, scale: float) -> Case:
    """Numbers of all magnitudes and halfway cases by the host core's whole-number arithmetic."""
    magnitudes = (1 << rng.integers(0, 32, 300).astype(np.int64)) + rng.integers(-3, 4, 300)
    special = np.array(
        [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 2**25 + 2, -(2**24) - 3, 127, 128, -128, -129, 255, 5, -5]
    )
    x = np.concatenate([magnitudes, -magnitudes, special, np.arange(-300, 300)])
    x = np.clip(x, -(2**31), 2**31 - 1).astype(np.int32)
    out = np.zeros(len(x), np.int8)
    return Case(
        f"requantise by {scale}",
        requantise_kernel[(baco.cdiv(len(x), 256),)],
        (x, out, len(x), 256, scale),
        {1: saturated(x, scale)},
    )


@baco.jit
def transpose_kernel(x, y, M, N, BM: baco.const, BN: baco.const):
    """y = x.T"""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    block = baco.load(x + rows[:, None] * N + columns[None, :])
    baco.store(y + columns[:, None] * M + rows[None, :], block.T)


def turned(rng: np.random.Generator) -> Case:
    x, grid = int8s(rng, 13, 37), (baco.cdiv(13, 8), baco.cdiv(37, 16))
    arguments = (x, np.zeros((37, 13), np.int8), 13, 37, 8, 16)
    return Case("turned", transpose_kernel[grid], arguments, {1: np.ascontiguousarray(x.T)})


@baco.jit
def max_pool_kernel(x, y, H, W, P, Q, WINDOW: baco.const, STRIDE: baco.const, BP: baco.const, BQ: baco.const):
    """y[p, q] = max over the window of x[p * STRIDE + r, q * STRIDE + s]."""
    p = baco.program_id(0) * BP + baco.arange(0, BP)
    q = baco.program_id(1) * BQ + baco.arange(0, BQ)
    best = baco.full((BP, BQ), -128, "int8")
    for r in baco.static_range(WINDOW):
        for s in baco.static_range(WINDOW):
            best = baco.maximum(
                best, baco.load(x + (p * STRIDE + r)[:, None] * W + (q * STRIDE + s)[None, :])
            )
    baco.store(y + p[:, None] * Q + q[None, :], best)


def max_pool(rng: np.random.Generator, window: int, stride: int) -> Case:
    """By the maximum of as many loads as a window has places."""
    x = int8s(rng, 14, 11)
    windows = np.lib.stride_tricks.sliding_window_view(x, (window, window))[::stride, ::stride]
    result = windows.max((2, 3))
    grid = tuple(baco.cdiv(size, 4) for size in result.shape)
    arguments = (x, np.zeros_like(result), *x.shape, *result.shape, window, stride, 4, 4)
    return Case(f"max pool {window} {stride}", max_pool_kernel[grid], arguments, {1: result})


@baco.jit
def convolution_kernel(
    x, w, y, H, W, C, R, S, P, Q, K, PAD, STRIDE, BQ: baco.const, BK: baco.const, BC: baco.const
):
    """y[p, q, k] = sum of x[p * STRIDE + r - PAD, q * STRIDE + s - PAD, c] * w[r, s, c, k], padded by zeros."""
    p = baco.program_id(0)
    q = baco.program_id(1) * BQ + baco.arange(0, BQ)
    k = baco.program_id(2) * BK + baco.arange(0, BK)
    total = baco.zeros((BQ, BK))
    for r in range(R):
        h = p * STRIDE + r - PAD
        for s in range(S):
            column = q * STRIDE + s - PAD
            inside = (column >= 0) & (column < W) & (h >= 0) & (h < H)
            for c0 in range(0, C, BC):
                c = c0 + baco.arange(0, BC)
                a = baco.load(
                    x + h * W * C + column[:, None] * C + c[None, :], mask=inside[:, None] & (c < C)[None, :]
                )
                b = baco.load(w + ((r * S + s) * C + c)[:, None] * K + k[None, :])
                total += baco.dot(a, b)
    baco.store(y + p * Q * K + q[:, None] * K + k[None, :], total)


def convolution(rng: np.random.Generator, pad: int, stride: int) -> Case:
    height, width, channels, kernel, outputs = 5, 6, 5, 3, 3
    x, w = int8s(rng, height, width, channels), int8s(rng, kernel, kernel, channels, outputs)
    image, filters = torch.tensor(x).permute(2, 0, 1)[None], torch.tensor(w).permute(3, 2, 0, 1)
    result = torch.nn.functional.conv2d(image.double(), filters.double(), padding=pad, stride=stride)
    expected = result[0].permute(1, 2, 0).contiguous().numpy().astype(np.int32)
    rows, columns, _ = expected.shape
    return Case(
        f"convolution {pad} {stride}",
        convolution_kernel[rows, baco.cdiv(columns, 4), baco.cdiv(outputs, 4)],
        (
            x,
            w,
            np.zeros_like(expected),
            height,
            width,
            channels,
            kernel,
            kernel,
            rows,
            columns,
            outputs,
            pad,
            stride,
            4,
            4,
            4,
        ),
        {2: expected},
    )


@baco.jit
def mixed_product(a, b, c, M: baco.const, N: baco.const, K: baco.const):
    """c = a @ b in one block, factors signed or not."""
    i, j, k = baco.arange(0, M), baco.arange(0, N), baco.arange(0, K)
    baco.store(c + i[:, None] * N + j, baco.load(a + i[:, None] * K + k) @ baco.load(b + k[:, None] * N + j))


def mixed(rng: np.random.Generator, left: str, right: str) -> Case:
    """A product of an unsigned factor, which the array does not know."""
    a, b = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape, dtype=kind)
        for kind, shape in ((left, (5, 6)), (right, (6, 7)))
    )
    arguments = (a, b, np.zeros((5, 7), np.int32), 5, 7, 6)
    return Case(f"{left} by {right}", mixed_product[1], arguments, {2: dot(a, b)})


@baco.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, N, C, BLOCK: baco.const, BC: baco.const):
    offs = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    columns = baco.arange(0, BC)
    rows = baco.load(index_ptr + offs, mask=offs < N)
    inside = (offs[:, None] < N) & (columns[None, :] < C)
    values = baco.load(table_ptr + rows[:, None] * C + columns[None, :], mask=inside, other=-1)
    baco.store(out_ptr + offs[:, None] * C + columns[None, :], values, mask=inside)


def gather(rng: np.random.Generator, rows: int, columns: int, count: int) -> Case:
    """Rows of a table by an index array."""
    table, index = int32s(rng, rows, columns), rng.integers(0, rows, count).astype(np.int32)
    out = np.zeros((count, columns), np.int32)
    return Case(
        f"gather {count} of {rows}x{columns}",
        gather_kernel[(baco.cdiv(count, 8),)],
        (table, index, out, count, columns, 8, columns + 2),
        {2: table[index]},
    )


@baco.jit
def in_place_kernel(x_ptr, N, BLOCK: baco.const):
    offs = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    x = baco.load(x_ptr + offs)
    baco.store(x_ptr + offs, x * x - 3)
    y = baco.load(x_ptr + offs)
    baco.store(x_ptr + offs, x + y)


def in_place(rng: np.random.Generator, count: int) -> Case:
    """Loads and stores of one array, old and new contents both used."""
    x = int32s(rng, count, bound=1 << 31)
    wide = x.astype(np.int64)
    return Case(
        f"in place {count}",
        in_place_kernel[(baco.cdiv(count, 16),)],
        (x.copy(), count, 16),
        {0: (wide * wide - 3 + wide).astype(np.int32)},
    )


@baco.jit
def scan_kernel(x_ptr, y_ptr, N, STEPS, BLOCK: baco.const):
    offs = baco.arange(0, BLOCK)
    total = baco.zeros((BLOCK,), dtype="int32")
    for step in range(STEPS):
        total = total * 3 + baco.load(x_ptr + step * N + offs, mask=offs < N).to("int32")
        baco.store(y_ptr + step * N + offs, total, mask=offs < N)


def recurrence(rng: np.random.Generator, count: int, steps: int) -> Case:
    """A block carried by a loop of the host core, stored in every round."""
    x = rng.integers(-(1 << 15), 1 << 15, (steps, count)).astype(np.int16)
    y = np.zeros((steps, count), np.int32)
    expected, total = np.zeros((steps, count), np.int64), np.zeros(count, np.int64)
    for step in range(steps):
        total = total * 3 + x[step]
        expected[step] = total
    return Case(
        f"recurrence {count} {steps}",
        scan_kernel[(1,)],
        (x, y, count, steps, count + 1),
        {1: expected.astype(np.int32)},
    )


@baco.jit
def attention_scores(q, k, v, out, T, D, shift, scale1, scale2, BT: baco.const, BD: baco.const):
    """out = requantise(relu(requantise(q @ k.T)) @ v): two products, one after the other, over blocks of keys."""
    rows = baco.program_id(0) * BT + baco.arange(0, BT)
    dims = baco.arange(0, BD)
    queries = baco.load(q + rows[:, None] * D + dims[None, :], mask=dims[None, :] < D)
    total = baco.zeros((BT, BD))
    for start in range(0, T, BT):
        keys = start + baco.arange(0, BT)
        ks = baco.load(k + keys[:, None] * D + dims[None, :], mask=(dims < D)[None, :])
        vs = baco.load(v + keys[:, None] * D + dims[None, :], mask=(dims < D)[None, :])
        scores = baco.requantise(baco.dot(queries, ks.T) + shift, scale1)
        weights = baco.where((keys < T)[None, :], baco.maximum(scores, 0), 0)
        total += baco.dot(weights.to("int8"), vs)
    baco.store(
        out + rows[:, None] * D + dims[None, :], baco.requantise(total, scale2), mask=(dims < D)[None, :]
    )


def scored(rng: np.random.Generator) -> Case:
    """Two products over blocks of keys, of which the last is not full."""
    q, k, v = (int8s(rng, 21, 12) for _ in range(3))
    weights = np.maximum(saturated(dot(q, k.T) + 100, 0.002), 0)
    arguments = (q, k, v, np.zeros((21, 12), np.int8), 21, 12, 100, 0.002, 0.01, 8, 16)
    return Case(
        "attention", attention_scores[baco.cdiv(21, 8)], arguments, {3: saturated(dot(weights, v), 0.01)}
    )


@baco.jit
def two_products_kernel(a_ptr, b_ptr, c_ptr, d_ptr, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_n = baco.program_id(1) * BN + baco.arange(0, BN)
    first = baco.load(d_ptr + offs_m[:, None] * N + offs_n[None, :])
    acc = first + baco.zeros((BM, BN), dtype="int32")
    for k in range(0, K, BK):
        offs_k = k + baco.arange(0, BK)
        a = baco.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        b = baco.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
        acc += baco.dot(a, b)
        acc += baco.dot(a, b)
    low = baco.minimum(acc, 1000)
    baco.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc - low * 2)


def two_products(rng: np.random.Generator, m: int, n: int, k: int) -> Case:
    """An accumulator that starts as loaded numbers and is used twice by the host core."""
    a, b, d = int8s(rng, m, k), int8s(rng, k, n), int32s(rng, m, n)
    out = np.zeros((m, n), np.int32)
    total = d + 2 * dot(a, b)
    return Case(
        f"two products {m}x{n}x{k}",
        two_products_kernel[(baco.cdiv(m, 6), baco.cdiv(n, 10))],
        (a, b, out, d, m, n, k, 6, 10, 8),
        {2: total - 2 * np.minimum(total, 1000)},
    )


@baco.jit
def sparse_matrix_times_vector(row_starts, columns, values, x, y, n):
    """y = A @ x for A in compressed rows: loops whose bounds are data, offsets that are data."""
    for row in range(n):
        total = 0
        for j in range(baco.load(row_starts + row), baco.load(row_starts + row + 1)):
            total += baco.load(values + j) * baco.load(x + baco.load(columns + j))
        baco.store(y + row, total)


def sparse(rng: np.random.Generator) -> Case:
    matrix = (rng.random((7, 9)) < 0.4) * rng.integers(-9, 9, (7, 9))
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))])
    x = int32s(rng, 9, bound=100)
    arrays = (starts, np.nonzero(matrix)[1], matrix[matrix != 0], x, np.zeros(7))
    arguments = (*(one.astype(np.int32) for one in arrays), 7)
    return Case("sparse", sparse_matrix_times_vector[1], arguments, {4: (matrix @ x).astype(np.int32)})


@baco.jit
def permuted_kernel(x, y, A: baco.const, B: baco.const, C: baco.const):
    """y = x.transpose(2, 0, 1), blocks with three dimensions."""
    i, j, k = baco.arange(0, A), baco.arange(0, B), baco.arange(0, C)
    block = baco.load(x + (i[:, None, None] * B * C + j[None, :, None] * C + k[None, None, :]))
    place = k[:, None, None] * A * B + i[None, :, None] * B + j[None, None, :]
    baco.store(y + place, baco.trans(block, (2, 0, 1)))


def permuted(rng: np.random.Generator) -> Case:
    x = int8s(rng, 3, 4, 5)
    arguments = (x, np.zeros((5, 3, 4), np.int8), 3, 4, 5)
    return Case("permuted", permuted_kernel[1], arguments, {1: x.transpose(2, 0, 1)})


@baco.jit
def maximum_kernel(x, y, n):
    """y = (max(x), whether it is greater than 3): numbers, no blocks."""
    best = baco.load(x)
    for i in range(1, n):
        best = baco.maximum(best, baco.load(x + i))
    baco.store(y, best)
    baco.store(y + 1, baco.where(best > 3, 1, 0).to("int8"))


def maximum(rng: np.random.Generator) -> Case:
    x = int8s(rng, 17)
    expected = np.array([x.max(), x.max() > 3], np.int8)
    return Case("maximum", maximum_kernel[1], (x, np.zeros(2, np.int8), 17), {1: expected})


#: Cases by name; each makes its data with the generator it is given.
CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "fused": fused,
    "fused without bias": lambda rng: fused(rng, bias=False),
    "fused without residual": lambda rng: fused(rng, residual=False),
    "chained": lambda rng: chained(rng, 19, 13, 22, 9),
    "A transposed": lambda rng: transposed(rng, (13, 17, 11), True, False),
    "B transposed": lambda rng: transposed(rng, (13, 17, 11), False, True),
    "both transposed": lambda rng: transposed(rng, (13, 17, 11), True, True),
    "A by columns": lambda rng: gemm(rng, (13, 10, 18), (8, 8, 8), a_columns=True),
    "B by columns": lambda rng: gemm(rng, (13, 10, 18), (8, 8, 8), b_columns=True),
    "all by columns": lambda rng: gemm(
        rng, (13, 10, 18), (8, 8, 8), a_columns=True, b_columns=True, c_columns=True
    ),
    "by index": lambda rng: written(rng, matmul_by_index, (30, 20, 50), (16, 8, 16)),
    "masked": lambda rng: written(rng, matmul_masked, (30, 20, 50), (16, 8, 16), 2),
    "block pointers": lambda rng: written(rng, matmul_block_pointers, (30, 20, 50), (16, 8, 16)),
    "wrapped": lambda rng: written(rng, matmul_wrapped, (21, 13, 19), (8, 8, 8), 0),
    "gathered": gathered,
    "batched": lambda rng: batched(rng, 3, (9, 11, 14), (8, 8, 8)),
    "gemv": lambda rng: gemv(rng, 37, 70),
    **{f"add {kind}": lambda rng, kind=kind: add(rng, kind) for kind in ("int8", "uint8", "int16", "int32")},  # type: ignore[misc]
    "requantise 0.05": lambda rng: requantise(rng, 0.05),
    "requantise negative": lambda rng: requantise(rng, -1.5),
    "requantise tiny": lambda rng: requantise(rng, 2.0**-31),
    "turned": turned,
    "max pool 2": lambda rng: max_pool(rng, 2, 2),
    "max pool 3": lambda rng: max_pool(rng, 3, 1),
    "max pool 3 by 2": lambda rng: max_pool(rng, 3, 2),
    "convolution": lambda rng: convolution(rng, 0, 1),
    "convolution padded": lambda rng: convolution(rng, 1, 1),
    "convolution in steps": lambda rng: convolution(rng, 1, 2),
    "int8 by uint8": lambda rng: mixed(rng, "int8", "uint8"),
    "uint8 by int8": lambda rng: mixed(rng, "uint8", "int8"),
    "uint8 by uint8": lambda rng: mixed(rng, "uint8", "uint8"),
    "int8 by int8": lambda rng: mixed(rng, "int8", "int8"),
    "gather": lambda rng: gather(rng, 20, 6, 27),
    "in place": lambda rng: in_place(rng, 50),
    "recurrence": lambda rng: recurrence(rng, 11, 6),
    "attention": scored,
    "two products": lambda rng: two_products(rng, 15, 13, 20),
    "sparse": sparse,
    "permuted": permuted,
    "maximum": maximum,
}
#: Kernels that other cases show with other numbers.
_ALIKE = (
    "add uint8", "add int16", "max pool 3", "convolution ", "requantise n", "requantise t", "uint8 by uint8", "A by",
    "B by", "fused without bias",
)  # fmt: skip


def kinds() -> list[Any]:
    """Names of all cases, as parameters; of kernels that another case shows too, slow."""
    return [pytest.param(one, marks=pytest.mark.slow) if one.startswith(_ALIKE) else one for one in CASES]
