"""Exact matrix products of int8 numbers on the processor that baco runs on, as fast as its libraries have them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

Array = np.ndarray
#: Sums of so many products of int8 numbers are below 2**24: every partial sum, in any order, is exact in float32.
_EXACT_TERMS = 1 << 10
#: The same below 2**31 in 32-bit integers.
_MOST_TERMS = (1 << 17) - 1


def int8_products(left: Array, right: Array) -> Array:
    """left @ right, as numpy broadcasts them, of int8 [..., M, K] and [..., K, N]: int32, int64 where sums may be beyond.

    Integer instructions of the processor are used where they are there, right and faster; else floating point whose sums are
    exact.
    """
    depth = left.shape[-1]
    assert depth < 2**38, "sums must stay below 2**53"
    if depth > _MOST_TERMS:
        return np.rint(left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    if right.ndim == 2:
        rows = np.ascontiguousarray(left).reshape(-1, depth)
        multiply = _integer_product() or _float_product
        return multiply(rows, np.ascontiguousarray(right)).reshape(*left.shape[:-1], right.shape[1])
    return _float_product(left, right)


def _float_product(left: Array, right: Array) -> Array:
    """By float32, in parts that are exact; by float64 where parts would be many."""
    depth = left.shape[-1]
    if depth > 8 * _EXACT_TERMS:
        return np.asarray((left.astype(np.float64) @ right.astype(np.float64)).astype(np.int32))
    total = np.zeros((1, 1), np.int32)
    for start in range(0, max(depth, 1), _EXACT_TERMS):
        part = slice(start, start + _EXACT_TERMS)
        product = left[..., part].astype(np.float32) @ right[..., part, :].astype(np.float32)
        total = product.astype(np.int32) if start == 0 else total + product.astype(np.int32)
    return total


@cache
def _integer_product() -> Callable[[Array, Array], Array] | None:
    """torch's product of int8 matrices; None where this processor, or this torch, has none that is exact and faster.

    Without instructions for it some libraries add pairs of products up in 16 bits, which saturate: the largest numbers tell.
    """
    import torch

    if not hasattr(torch, "_int_mm"):
        return None

    def multiply(left: Array, right: Array) -> Array:
        # torch warns of arrays that it could write to and must not
        tensors = [torch.from_numpy(x if x.flags.writeable else x.copy()) for x in (left, right)]
        return np.asarray(torch._int_mm(*tensors).numpy())

    random = np.random.default_rng(0)
    left, right = (random.choice(np.array([-128, 127], np.int8), (512, 512)) for _ in range(2))
    try:
        found = multiply(left, right)
    except RuntimeError:
        return None
    if not np.array_equal(found, left.astype(np.float64) @ right.astype(np.float64)):
        return None
    return multiply if _seconds(multiply, left, right) < _seconds(_float_product, left, right) else None


def _seconds(multiply: Callable[[Array, Array], Array], left: Array, right: Array) -> float:
    """The least of several times: others may use the processor."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        multiply(left, right)
        times.append(time.perf_counter() - started)
    return min(times)
