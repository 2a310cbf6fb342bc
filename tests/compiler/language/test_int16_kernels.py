"""Kernels on arrays of int16, to the bit against numpy's 64-bit integers, wrapped, and float32 scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import baco
import baco.language as bl
from baco.accel.config import Accelerator
from baco.common.errors import InputError
from tests.machines import SMALL, WIDE_INTS
from tests.seeds import seeds

ROOMY = WIDE_INTS.replace(name="roomy", dim=8, scratchpad_kib=8, accumulator_kib=4)
Array = np.ndarray[Any, Any]


@baco.jit
def layer(x, w, bias, y, M, N, K, scale, BM: baco.const, BN: baco.const, BK: baco.const):
    rows = bl.program_id(0) * BM + bl.arange(0, BM)
    columns = bl.program_id(1) * BN + bl.arange(0, BN)
    total = bl.zeros((BM, BN), "int32")
    for k in range(baco.cdiv(K, BK)):
        depth = k * BK + bl.arange(0, BK)
        inside = (rows < M)[:, None] & (depth < K)[None, :]
        xs = bl.load(x + rows[:, None] * K + depth[None, :], mask=inside)
        ws = bl.load(
            w + depth[:, None] * N + columns[None, :], mask=(depth < K)[:, None] & (columns < N)[None, :]
        )
        total += bl.dot(xs, ws)
    total += bl.load(bias + columns, mask=columns < N)[None, :]
    result = bl.requantize(bl.maximum(total, 0), scale, y.dtype)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    bl.store(y + rows[:, None] * N + columns[None, :], result, mask=inside)


@baco.jit
def residual(a, b, r, y, sums, M, N, K, scale, BM: baco.const, BN: baco.const):
    """Elements are added to sums, which are stored as they are and as elements."""
    rows = bl.program_id(0) * BM + bl.arange(0, BM)
    columns = bl.program_id(1) * BN + bl.arange(0, BN)
    depth = bl.arange(0, K)
    at = rows[:, None] * N + columns[None, :]
    right = bl.load(b + columns[:, None] * K + depth[None, :]).T
    total = bl.dot(bl.load(a + rows[:, None] * K + depth[None, :]), right)
    total += bl.load(r + at).to("int32")
    bl.store(sums + at, total)
    bl.store(y + at, bl.requantize(total, scale, "int16"))


def wrapped(sums: Array) -> Array:
    return ((sums + 2**31) % 2**32 - 2**31).astype(np.int32)


def rounded(sums: Array, scale: float) -> Array:
    return np.clip(np.rint(sums.astype(np.float32) * np.float32(scale)), -(2**15), 2**15 - 1).astype(np.int16)


def drawn(random: np.random.Generator, *shape: int) -> Array:
    """All of 16 bits, large and small."""
    numbers = random.integers(-(2**15), 2**15, shape, dtype=np.int16)
    return numbers >> random.integers(0, 12, shape, dtype=np.int16)


def launch(
    kernel: Any, grid: tuple[int, int], machine: Accelerator, engine: str, **given: Any
) -> dict[str, Array]:
    own = {key: array.copy() if isinstance(array, np.ndarray) else array for key, array in given.items()}
    kernel[grid].options(accelerator=machine, engine=engine)(**own)
    return own


def each_kernel(machine: Accelerator, engines: tuple[str, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    m, n, k = (int(random.integers(1, 4 * machine.dim)) for _ in range(3))
    blocks = {name: int(random.choice([4, 6, 8])) for name in ("BM", "BN", "BK")}
    x, w = drawn(random, m, k), drawn(random, k, n)
    bias = random.integers(-(2**31), 2**31, n, dtype=np.int32)
    scale = float(random.choice([2.0**-16, 3.1e-5, 1.0]))
    sums = wrapped(x.astype(np.int64) @ w.astype(np.int64) + bias)
    wanted = rounded(np.maximum(sums, 0), scale)
    grid = baco.cdiv(m, blocks["BM"]), baco.cdiv(n, blocks["BN"])
    given = {
        "x": x,
        "w": w,
        "bias": bias,
        "y": np.zeros((m, n), np.int16),
        "M": m,
        "N": n,
        "K": k,
        "scale": scale,
    }
    for engine in engines:
        np.testing.assert_array_equal(launch(layer, grid, machine, engine, **given, **blocks)["y"], wanted)

    m, n = 2 * machine.dim, 8
    a, b, r = drawn(random, m, k), drawn(random, n, k), drawn(random, m, n)
    sums = wrapped(a.astype(np.int64) @ b.T.astype(np.int64) + r)
    empty = {"y": np.zeros((m, n), np.int16), "sums": np.zeros((m, n), np.int32)}
    sizes = {"M": m, "N": n, "K": k, "scale": scale, "BM": machine.dim, "BN": 4}
    for engine in engines:
        found = launch(residual, (2, n // 4), machine, engine, a=a, b=b, r=r, **empty, **sizes)
        np.testing.assert_array_equal(found["sums"], sums)
        np.testing.assert_array_equal(found["y"], rounded(sums, scale))


@pytest.mark.parametrize("seed", seeds(3, of=30))
def test_kernels(seed: int) -> None:
    each_kernel((WIDE_INTS, ROOMY)[seed % 2], ("functional", "timed", "interpret"), seed)


def test_on_rtl() -> None:
    each_kernel(WIDE_INTS, ("rtl",), 0)


def test_the_array_multiplies() -> None:
    """Of its own elements the array computes products; int16 beside int8 the host core does, with the same results."""
    random = np.random.default_rng(0)
    x, w, bias = drawn(random, 8, 8), drawn(random, 8, 8), np.zeros(8, np.int32)
    given = {
        "x": x,
        "w": w,
        "bias": bias,
        "y": np.zeros((8, 8), np.int16),
        "M": 8,
        "N": 8,
        "K": 8,
        "scale": 2.0**-12,
    }
    blocks = {"BM": 8, "BN": 8, "BK": 8}
    wanted = rounded(np.maximum(wrapped(x.astype(np.int64) @ w.astype(np.int64)), 0), 2.0**-12)
    for machine in (WIDE_INTS, SMALL):
        np.testing.assert_array_equal(
            launch(layer, (1, 1), machine, "functional", **given, **blocks)["y"], wanted
        )


def test_bytes_are_refused() -> None:
    given = {
        "x": np.ones((8, 8), np.int8), "w": np.ones((8, 8), np.int8), "bias": np.zeros(8, np.int32),
        "y": np.zeros((8, 8), np.int16), "M": 8, "N": 8, "K": 8, "scale": 1.0, "BM": 8, "BN": 8, "BK": 8,
    }  # fmt: skip
    with pytest.raises(InputError, match="a product of integers, and wide-ints computes elements of int16"):
        launch(layer, (1, 1), WIDE_INTS, "functional", **given)
