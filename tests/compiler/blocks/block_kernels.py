# ruff: noqa: B007  kernels are written as their users write them
"""Kernels that tests of the block lowering compile and run; each with its result in numpy, written independently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import baco

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """One launch: arguments, and what arrays must hold afterwards, by position."""

    name: str
    launcher: Any
    arguments: tuple[Any, ...]
    expected: dict[int, Array] = field(default_factory=dict)


def saturated(numbers: Array, scale: float) -> Array:
    """int32 to int8 as results are stored: float32, times the scale, to nearest even, saturated."""
    with np.errstate(over="ignore"):
        product = numbers.astype(np.float32) * np.float32(scale)
    return np.clip(np.rint(product.astype(np.float64)), -128, 127).astype(np.int8)


def int8s(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def int32s(rng: np.random.Generator, *shape: int, bound: int = 1 << 20) -> Array:
    return rng.integers(-bound, bound, shape).astype(np.int32)


def dot(a: Array, b: Array) -> Array:
    return a.astype(np.int32) @ b.astype(np.int32)


@baco.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_SIZE_M: baco.const,
    BLOCK_SIZE_N: baco.const,
    BLOCK_SIZE_K: baco.const,
):
    pid = baco.program_id(0)
    num_pid_m = baco.cdiv(M, BLOCK_SIZE_M)  # noqa: F841  the extent of the rows follows from it
    num_pid_n = baco.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    offs_am = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    offs_k = baco.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = baco.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype="int32")
    for k in range(0, K, BLOCK_SIZE_K):
        a = baco.load(a_ptrs)
        b = baco.load(b_ptrs)
        accumulator += baco.dot(a, b)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to("int32")
    offs_cm = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    baco.store(c_ptrs, c)


def gemm(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    blocks: tuple[int, int, int],
    *,
    a_columns: bool = False,
    b_columns: bool = False,
    c_columns: bool = False,
) -> Case:
    """The method's kernel on M x K by K x N; `..._columns`: the array is stored column by column."""
    m, n, k = shape
    a, b = int8s(rng, m, k), int8s(rng, k, n)
    memory_a = np.ascontiguousarray(a.T) if a_columns else a
    memory_b = np.ascontiguousarray(b.T) if b_columns else b
    c = np.full((n, m) if c_columns else (m, n), -7, np.int32)
    result = dot(a, b)
    strides = (
        *((1, m) if a_columns else (k, 1)),
        *((1, k) if b_columns else (n, 1)),
        *((1, m) if c_columns else (n, 1)),
    )
    return Case(
        f"gemm {m}x{n}x{k} in {blocks}" + " A'" * a_columns + " B'" * b_columns + " C'" * c_columns,
        matmul_kernel[(baco.cdiv(m, blocks[0]) * baco.cdiv(n, blocks[1]),)],
        (memory_a, memory_b, c, m, n, k, *strides, *blocks),
        {2: np.ascontiguousarray(result.T) if c_columns else result},
    )


@baco.jit
def fused_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    res_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: baco.const,
    BN: baco.const,
    BK: baco.const,
    SCALE: baco.const,
    RELU: baco.const,
):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_n = baco.program_id(1) * BN + baco.arange(0, BN)
    offs_k = baco.arange(0, BK)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = baco.zeros((BM, BN), dtype="int32")
    for k in range(0, K, BK):
        acc += baco.dot(baco.load(a_ptrs), baco.load(b_ptrs))
        a_ptrs += BK
        b_ptrs += BK * N
    bias = baco.load(bias_ptr + offs_n)
    acc = acc + bias[None, :]
    residual = baco.load(res_ptr + offs_m[:, None] * N + offs_n[None, :])
    acc = acc + residual.to("int32")
    if RELU:
        acc = baco.maximum(acc, 0)
    baco.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], baco.requantize(acc, SCALE))


def fused(
    rng: np.random.Generator, shape: tuple[int, int, int], blocks: tuple[int, int, int], relu: bool
) -> Case:
    """Product, bias by column, int8 residual, ReLU, requantisation."""
    m, n, k = shape
    a, b, bias, residual = int8s(rng, m, k), int8s(rng, k, n), int32s(rng, n), int8s(rng, m, n)
    total = dot(a, b) + bias + residual.astype(np.int32)
    scale = 1 / 4096
    out = np.zeros((m, n), np.int8)
    return Case(
        f"fused {shape} in {blocks}, relu {relu}",
        fused_kernel[(baco.cdiv(m, blocks[0]), baco.cdiv(n, blocks[1]))],
        (a, b, bias, residual, out, m, n, k, *blocks, scale, relu),
        {4: saturated(np.maximum(total, 0) if relu else total, scale)},
    )


@baco.jit
def chained_kernel(
    a_ptr, b_ptr, w_ptr, c_ptr, M, N, K, P, BM: baco.const, BN: baco.const, BK: baco.const, BP: baco.const
):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_n = baco.arange(0, BN)
    offs_p = baco.arange(0, BP)
    acc = baco.zeros((BM, BN), dtype="int32")
    for k in range(0, K, BK):
        offs_k = k + baco.arange(0, BK)
        inside = offs_k < K
        a = baco.load(
            a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=(offs_m[:, None] < M) & inside[None, :]
        )
        b = baco.load(
            b_ptr + offs_k[:, None] * N + offs_n[None, :], mask=inside[:, None] & (offs_n[None, :] < N)
        )
        acc += baco.dot(a, b)
    hidden = baco.requantize(baco.maximum(acc, 0), 0.001)
    w = baco.load(
        w_ptr + offs_n[:, None] * P + offs_p[None, :], mask=(offs_n[:, None] < N) & (offs_p[None, :] < P)
    )
    out = baco.dot(hidden, w)
    baco.store(
        c_ptr + offs_m[:, None] * P + offs_p[None, :], out, mask=(offs_m[:, None] < M) & (offs_p[None, :] < P)
    )


def chained(rng: np.random.Generator, m: int, n: int, k: int, p: int) -> Case:
    """Two products, requantised in between, masks given by comparisons."""
    a, b, w = int8s(rng, m, k), int8s(rng, k, n), int8s(rng, n, p)
    hidden = saturated(np.maximum(dot(a, b), 0), 0.001)
    out = np.zeros((m, p), np.int32)
    return Case(
        f"chained {m} {n} {k} {p}",
        chained_kernel[(baco.cdiv(m, 8),)],
        (a, b, w, out, m, n, k, p, 8, n + 3, 8, p + 2),
        {3: dot(hidden, w)},
    )


@baco.jit
def transposed_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: baco.const, BN: baco.const, TA: baco.const, TB: baco.const
):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_n = baco.program_id(1) * BN + baco.arange(0, BN)
    offs_k = baco.arange(0, K)
    if TA:
        a = baco.load(a_ptr + offs_k[:, None] * M + offs_m[None, :]).T
    else:
        a = baco.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
    if TB:
        b = baco.trans(baco.load(b_ptr + offs_n[:, None] * K + offs_k[None, :]))
    else:
        b = baco.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
    baco.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], baco.dot(a, b))


def transposed(rng: np.random.Generator, shape: tuple[int, int, int], ta: bool, tb: bool) -> Case:
    """Factors stored transposed, turned by `.T`."""
    m, n, k = shape
    a, b = int8s(rng, m, k), int8s(rng, k, n)
    out = np.zeros((m, n), np.int32)
    return Case(
        f"transposed {shape} {ta} {tb}",
        transposed_kernel[(baco.cdiv(m, 8), baco.cdiv(n, 12))],
        (
            np.ascontiguousarray(a.T) if ta else a,
            np.ascontiguousarray(b.T) if tb else b,
            out,
            m,
            n,
            k,
            8,
            12,
            ta,
            tb,
        ),
        {2: dot(a, b)},
    )


@baco.jit
def batched_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    batch = baco.program_id(2)
    a_block = baco.make_block_ptr(
        a_ptr + batch * M * K,
        shape=(M, K),
        strides=(K, 1),
        offsets=(baco.program_id(0) * BM, 0),
        block_shape=(BM, BK),
    )
    b_block = baco.make_block_ptr(
        b_ptr + batch * K * N,
        shape=(K, N),
        strides=(N, 1),
        offsets=(0, baco.program_id(1) * BN),
        block_shape=(BK, BN),
    )
    acc = baco.zeros((BM, BN), dtype="int32")
    for k in range(0, K, BK):
        acc = baco.dot(
            baco.load(a_block, boundary_check=(0, 1)), baco.load(b_block, boundary_check=(0, 1)), acc
        )
        a_block = baco.advance(a_block, (0, BK))
        b_block = baco.advance(b_block, (BK, 0))
    c_block = baco.make_block_ptr(
        c_ptr + batch * M * N,
        shape=(M, N),
        strides=(N, 1),
        offsets=(baco.program_id(0) * BM, baco.program_id(1) * BN),
        block_shape=(BM, BN),
    )
    baco.store(c_block, acc, boundary_check=(0, 1))


def batched(
    rng: np.random.Generator, batches: int, shape: tuple[int, int, int], blocks: tuple[int, int, int]
) -> Case:
    """Batched product by block pointers."""
    m, n, k = shape
    a, b = int8s(rng, batches, m, k), int8s(rng, batches, k, n)
    out = np.zeros((batches, m, n), np.int32)
    return Case(
        f"batched {batches} {shape} in {blocks}",
        batched_kernel[(baco.cdiv(m, blocks[0]), baco.cdiv(n, blocks[1]), batches)],
        (a, b, out, m, n, k, *blocks),
        {2: dot(a, b)},
    )


@baco.jit
def gemv_kernel(a_ptr, x_ptr, y_ptr, M, K, BM: baco.const, BK: baco.const):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_k = baco.arange(0, BK)
    column = baco.arange(0, 1)
    acc = baco.zeros((BM, 1), dtype="int32")
    for k in range(0, K, BK):
        a = baco.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        x = baco.load(x_ptr + (k + offs_k)[:, None] + column[None, :])
        acc += baco.dot(a, x)
    baco.store(y_ptr + offs_m[:, None] + column[None, :], acc)


def gemv(rng: np.random.Generator, m: int, k: int) -> Case:
    """Matrix times vector."""
    a, x = int8s(rng, m, k), int8s(rng, k)
    y = np.zeros(m, np.int32)
    return Case(f"gemv {m}x{k}", gemv_kernel[(baco.cdiv(m, 16),)], (a, x, y, m, k, 16, 32), {2: dot(a, x)})


@baco.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: baco.const, SCALE: baco.const):
    offs = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    x = baco.load(x_ptr + offs)
    y = baco.load(y_ptr + offs)
    baco.store(z_ptr + offs, baco.requantize(x.to("int32") + y.to("int32"), SCALE))


def add(rng: np.random.Generator, count: int, block: int) -> Case:
    """Sum of two vectors, requantised by the host core."""
    x, y = int8s(rng, count), int8s(rng, count)
    out = np.zeros(count, np.int8)
    total = x.astype(np.int32) + y.astype(np.int32)
    return Case(
        f"add {count} in {block}",
        add_kernel[(baco.cdiv(count, block),)],
        (x, y, out, count, block, 0.37),
        {2: saturated(total, 0.37)},
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
def pool_kernel(x_ptr, y_ptr, H, W, C, OH, OW, BLOCK: baco.const):
    row = baco.program_id(1)
    offs_w = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    offs_c = baco.arange(0, C)
    inside = (offs_w[:, None] < OW) & (offs_c[None, :] < C)
    corner = x_ptr + (2 * row * W + 2 * offs_w[:, None]) * C + offs_c[None, :]
    best = baco.load(corner, mask=inside)
    best = baco.maximum(best, baco.load(corner + C, mask=inside))
    best = baco.maximum(best, baco.load(corner + W * C, mask=inside))
    best = baco.maximum(best, baco.load(corner + W * C + C, mask=inside))
    baco.store(y_ptr + (row * OW + offs_w[:, None]) * C + offs_c[None, :], best, mask=inside)


def max_pool(rng: np.random.Generator, height: int, width: int, channels: int) -> Case:
    """2 x 2 maximum, stride 2, by the maximum of four loads."""
    x = int8s(rng, height, width, channels)
    rows, columns = height // 2, width // 2
    out = np.zeros((rows, columns, channels), np.int8)
    cut = x[: rows * 2, : columns * 2].reshape(rows, 2, columns, 2, channels)
    return Case(
        f"max pool {height}x{width}x{channels}",
        pool_kernel[(baco.cdiv(columns, 4), rows)],
        (x, out, height, width, channels, rows, columns, 4),
        {1: cut.max(axis=(1, 3))},
    )


@baco.jit
def uint8_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: baco.const, BN: baco.const):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_n = baco.program_id(1) * BN + baco.arange(0, BN)
    offs_k = baco.arange(0, K)
    a = baco.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
    b = baco.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
    baco.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], baco.dot(a, b))


def uint8_product(rng: np.random.Generator, m: int, n: int, k: int) -> Case:
    """An unsigned factor, which the array does not know."""
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), int8s(rng, k, n)
    out = np.zeros((m, n), np.int32)
    return Case(
        f"uint8 {m}x{n}x{k}",
        uint8_kernel[(baco.cdiv(m, 5), baco.cdiv(n, 4))],
        (a, b, out, m, n, k, 5, 4),
        {2: dot(a, b)},
    )


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
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, L, D, BM: baco.const, BN: baco.const):
    offs_m = baco.program_id(0) * BM + baco.arange(0, BM)
    offs_d = baco.arange(0, D)
    q = baco.load(q_ptr + offs_m[:, None] * D + offs_d[None, :])
    acc = baco.zeros((BM, D), dtype="int32")
    for start in range(0, L, BN):
        offs_n = start + baco.arange(0, BN)
        k = baco.load(k_ptr + offs_n[:, None] * D + offs_d[None, :])
        v = baco.load(v_ptr + offs_n[:, None] * D + offs_d[None, :])
        scores = baco.requantize(baco.dot(q, k.T), 0.004)
        acc += baco.dot(scores, v)
    baco.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], baco.requantize(acc, 0.01))


def attention(rng: np.random.Generator, length: int, depth: int) -> Case:
    """Scores and values without softmax: products of products inside a loop."""
    q, k, v = (int8s(rng, length, depth) for _ in range(3))
    scores = saturated(dot(q, k.T), 0.004)
    out = np.zeros((length, depth), np.int8)
    return Case(
        f"attention {length}x{depth}",
        attention_kernel[(baco.cdiv(length, 8),)],
        (q, k, v, out, length, depth, 8, 12),
        {3: saturated(dot(scores, v), 0.01)},
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


#: Cases by name; each makes its data with the generator it is given.
CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "fused with relu": lambda rng: fused(rng, (21, 19, 30), (8, 8, 16), True),
    "fused without relu": lambda rng: fused(rng, (16, 32, 16), (16, 16, 8), False),
    "chained": lambda rng: chained(rng, 19, 13, 22, 9),
    "A transposed": lambda rng: transposed(rng, (13, 17, 11), True, False),
    "B transposed": lambda rng: transposed(rng, (13, 17, 11), False, True),
    "both transposed": lambda rng: transposed(rng, (13, 17, 11), True, True),
    "A by columns": lambda rng: gemm(rng, (13, 10, 18), (8, 8, 8), a_columns=True),
    "B by columns": lambda rng: gemm(rng, (13, 10, 18), (8, 8, 8), b_columns=True),
    "all by columns": lambda rng: gemm(
        rng, (13, 10, 18), (8, 8, 8), a_columns=True, b_columns=True, c_columns=True
    ),
    "batched": lambda rng: batched(rng, 3, (9, 11, 14), (8, 8, 8)),
    "gemv": lambda rng: gemv(rng, 37, 70),
    "add": lambda rng: add(rng, 1000, 128),
    "requantise 0.05": lambda rng: requantise(rng, 0.05),
    "requantise negative": lambda rng: requantise(rng, -1.5),
    "requantise tiny": lambda rng: requantise(rng, 2.0**-31),
    "max pool": lambda rng: max_pool(rng, 9, 13, 5),
    "uint8": lambda rng: uint8_product(rng, 11, 9, 13),
    "gather": lambda rng: gather(rng, 20, 6, 27),
    "in place": lambda rng: in_place(rng, 50),
    "recurrence": lambda rng: recurrence(rng, 11, 6),
    "attention": lambda rng: attention(rng, 27, 12),
    "two products": lambda rng: two_products(rng, 15, 13, 20),
}
