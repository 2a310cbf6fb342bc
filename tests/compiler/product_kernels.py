# ruff: noqa: B007  kernels are written as their users write them
"""Kernels that are matrix products, in all the ways they are written: each with data, and its result in numpy."""

from __future__ import annotations

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

    def launch(self, **options: Any) -> Any:
        """Run it as users do and compare; what was measured."""
        measured = self.launcher.options(**options)(*self.arguments)
        self.compare()
        return measured

    def compare(self) -> None:
        """Every array holds what it must."""
        for position, expected in self.expected.items():
            np.testing.assert_array_equal(self.arguments[position], expected, err_msg=self.name)


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


# fmt: off
@baco.jit
def matmul_kernel(
    # Pointers to matrices and dimensions
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak,  # Increase a_ptr by each dimension
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    # Meta-parameters
    BLOCK_SIZE_M: baco.const, BLOCK_SIZE_N: baco.const, BLOCK_SIZE_K: baco.const):
    # Map program ids 'pid' to the block of C it should compute.
    pid = baco.program_id(0)
    num_pid_m = baco.cdiv(M, BLOCK_SIZE_M)  # noqa: F841
    num_pid_n = baco.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    # a_ptrs is a block of [BLOCK_SIZE_M, BLOCK_SIZE_K] pointers
    offs_am = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    offs_k = baco.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    # Iterate to compute a block of the C matrix
    accumulator = baco.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype="int32")
    for k in range(0, K, BLOCK_SIZE_K):
        a = baco.load(a_ptrs)
        b = baco.load(b_ptrs)
        # We accumulate along the K dimension
        accumulator += baco.dot(a, b)
        # Advance the ptrs to the next K block
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to("int32")
    # Write back the block of the output matrix C
    offs_cm = pid_m * BLOCK_SIZE_M + baco.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + baco.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    baco.store(c_ptrs, c)
# fmt: on


def gemm(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    blocks: tuple[int, int, int],
    *,
    a_columns: bool = False,
    b_columns: bool = False,
    c_columns: bool = False,
) -> Case:
    """The method's kernel; `..._columns`: the array is stored column by column."""
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
def matmul_by_index(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """Row-major GEMM on a grid with two axes; addresses are computed anew from the loop variable."""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    total = baco.zeros((BM, BN), "int32")
    for step in range(baco.cdiv(K, BK)):
        depth = step * BK + baco.arange(0, BK)
        x = baco.load(a + rows[:, None] * K + depth[None, :])
        y = baco.load(b + depth[:, None] * N + columns[None, :])
        total = baco.dot(x, y, acc=total)
    baco.store(c + rows[:, None] * N + columns[None, :], total)


@baco.jit
def matmul_masked(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const, GROUP: baco.const):
    """GEMM with every mask written out, in the grouped order of programs that keeps operands in caches."""
    pid = baco.program_id(0)
    num_m, num_n = baco.cdiv(M, BM), baco.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pid_m = first + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rows = pid_m * BM + baco.arange(0, BM)
    columns = pid_n * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    a_ptrs = a + (rows[:, None] * K + depth[None, :])
    b_ptrs = b + (depth[:, None] * N + columns[None, :])
    total = baco.zeros((BM, BN))
    for k in range(baco.cdiv(K, BK)):
        x = baco.load(a_ptrs, mask=(rows[:, None] < M) & (depth[None, :] < K - k * BK), other=0)
        y = baco.load(b_ptrs, mask=(depth[:, None] < K - k * BK) & (columns[None, :] < N))
        total = baco.dot(x, y, total)
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(
        c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


@baco.jit
def matmul_block_pointers(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """GEMM by block pointers."""
    row, column = baco.program_id(0) * BM, baco.program_id(1) * BN
    a_block = baco.make_block_ptr(a, (M, K), (K, 1), (row, 0), (BM, BK), order=(1, 0))
    b_block = baco.make_block_ptr(b, (K, N), (N, 1), (0, column), (BK, BN))
    total = baco.zeros((BM, BN), baco.int32)
    for _ in range(0, K, BK):
        total += baco.load(a_block, boundary_check=(0, 1)) @ baco.load(b_block)
        a_block = baco.advance(a_block, (0, BK))
        b_block = baco.advance(b_block, (BK, 0))
    c_block = baco.make_block_ptr(
        base=c, shape=(M, N), strides=(N, 1), offsets=(row, column), block_shape=(BM, BN)
    )
    baco.store(c_block, total)


@baco.jit
def matmul_wrapped(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """GEMM whose overhanging rows and columns are loaded modulo the size of the matrix."""
    pid = baco.program_id(0)
    num_m = baco.cdiv(M, BM)
    row, column = (pid % num_m) * BM, (pid // num_m) * BN
    depth = baco.arange(0, BK)
    a_ptrs = a + (((row + baco.arange(0, BM)) % M)[:, None] * K + depth[None, :])
    b_ptrs = b + (depth[:, None] * N + ((column + baco.arange(0, BN)) % N)[None, :])
    total = baco.zeros([BM, BN], dtype=baco.int32)
    for _ in range(0, K, BK):
        total = baco.dot(baco.load(a_ptrs), baco.load(b_ptrs), total)
        a_ptrs += BK
        b_ptrs += BK * N
    rows, columns = row + baco.arange(0, BM), column + baco.arange(0, BN)
    baco.store(
        c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


def written(
    rng: np.random.Generator,
    kernel: Any,
    shape: tuple[int, int, int],
    blocks: tuple[int, int, int],
    group: int | None = None,
) -> Case:
    """A gemm written in another way, on a grid of two axes, or of one that goes through `group` rows of blocks at a time."""
    m, n, k = shape
    a, b, c = int8s(rng, m, k), int8s(rng, k, n), np.full((m, n), 99, np.int32)
    rows, columns = baco.cdiv(m, blocks[0]), baco.cdiv(n, blocks[1])
    grid = (rows, columns) if group is None else (rows * columns,)
    more = (group,) if group else ()
    return Case(kernel.name, kernel[grid], (a, b, c, m, n, k, *blocks, *more), {2: dot(a, b)})


@baco.jit
def gathered_matmul(a, which, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """c = a[which] @ b: rows by offsets that are data, columns by a loop."""
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    a_ptrs = a + baco.load(which + rows)[:, None] * K + baco.arange(0, BK)[None, :]
    b_ptrs = b + baco.arange(0, BK)[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN))
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(a_ptrs), baco.load(b_ptrs))
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(c + rows[:, None] * N + columns[None, :], total)


def gathered(rng: np.random.Generator) -> Case:
    a, b, which = int8s(rng, 30, 19), int8s(rng, 19, 9), rng.integers(0, 30, 11, dtype=np.int32)
    arguments = (a, which, b, np.full((11, 9), 99, np.int32), 11, 9, 19, 8, 8, 8)
    return Case(
        "gathered", gathered_matmul[baco.cdiv(11, 8), baco.cdiv(9, 8)], arguments, {3: dot(a[which], b)}
    )


@baco.jit
def relu(x):
    """A helper that kernels call."""
    return baco.maximum(x, 0)


@baco.jit
def fused_layer(x, w, bias, residual, y, M, N, K, scale, BM: baco.const, BN: baco.const, BK: baco.const):
    """y = requantise(relu(x @ w + bias + residual)), with bias and residual optional (None)."""
    pid_m, pid_n = baco.program_id(0), baco.program_id(1)
    rows = pid_m * BM + baco.arange(0, BM)
    columns = pid_n * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    x_ptrs = x + rows[:, None] * K + depth[None, :]
    w_ptrs = w + depth[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN), "int32")
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(x_ptrs), baco.load(w_ptrs))
        x_ptrs += BK
        w_ptrs += BK * N
    if bias is not None:
        total += baco.load(bias + columns)[None, :]
    if residual is not None:
        total += baco.load(residual + rows[:, None] * N + columns[None, :])
    baco.store(y + rows[:, None] * N + columns[None, :], baco.requantize(relu(total), scale))


def fused(
    rng: np.random.Generator,
    shape: tuple[int, int, int] = (21, 19, 30),
    blocks: tuple[int, int, int] = (8, 8, 16),
    *,
    bias: bool = True,
    residual: bool = True,
    scale: float = 1 / 4096,
) -> Case:
    """Product, bias by column, int8 residual, ReLU, requantisation."""
    m, n, k = shape
    x, w, added, skipped = int8s(rng, m, k), int8s(rng, k, n), int32s(rng, n), int8s(rng, m, n)
    total = dot(x, w) + bias * added + residual * skipped.astype(np.int32)
    return Case(
        f"fused {shape} in {blocks}",
        fused_layer[baco.cdiv(m, blocks[0]), baco.cdiv(n, blocks[1])],
        (
            x,
            w,
            added if bias else None,
            skipped if residual else None,
            np.zeros((m, n), np.int8),
            m,
            n,
            k,
            scale,
            *blocks,
        ),
        {4: saturated(np.maximum(total, 0), scale)},
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
def batched_matmul(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """c[i] = a[i] @ b[i]; the batch is axis 2 of the grid."""
    batch = baco.program_id(2)
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    a_ptrs = a + batch * M * K + rows[:, None] * K + depth[None, :]
    b_ptrs = b + batch * K * N + depth[:, None] * N + columns[None, :]
    total = baco.zeros((BM, BN), "int32")
    for _ in range(0, K, BK):
        total += baco.dot(baco.load(a_ptrs), baco.load(b_ptrs))
        a_ptrs += BK
        b_ptrs += BK * N
    baco.store(c + batch * M * N + rows[:, None] * N + columns[None, :], total)


def batched(
    rng: np.random.Generator, batches: int, shape: tuple[int, int, int], blocks: tuple[int, int, int]
) -> Case:
    m, n, k = shape
    a, b = int8s(rng, batches, m, k), int8s(rng, batches, k, n)
    return Case(
        f"batched {batches} {shape} in {blocks}",
        batched_matmul[baco.cdiv(m, blocks[0]), baco.cdiv(n, blocks[1]), batches],
        (a, b, np.zeros((batches, m, n), np.int32), m, n, k, *blocks),
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
