"""Sums, extrema and softmax of blocks: what they mean to numpy, compiled and interpreted, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

import baco
from baco.common.errors import BacoError

A, B, C = 2, 3, 5


@baco.jit
def collected(x, total, largest, least, AXIS: baco.const):
    at = (
        baco.arange(0, A)[:, None, None] * (B * C)
        + baco.arange(0, B)[None, :, None] * C
        + baco.arange(0, C)[None, None, :]
    )
    block = baco.load(x + at)
    kept = baco.sum(block, AXIS, keep_dims=True)
    baco.store(total + at, baco.broadcast_to(kept, (A, B, C)))
    baco.store(largest + at, baco.broadcast_to(baco.max(block, axis=AXIS, keep_dims=True), (A, B, C)))
    smallest = baco.min(block, axis=AXIS)
    if AXIS is None:
        baco.store(least, smallest)
    else:
        baco.store(least + at, baco.broadcast_to(baco.expand_dims(smallest, AXIS), (A, B, C)))


@pytest.mark.parametrize(
    ("dtype", "axis", "interpreted"),
    [
        # every type along every axis, either interpreted or compiled, every time
        pytest.param(*(dtype, axis, way), marks=[pytest.mark.slow] * ((a + b + way) % 2))
        for a, dtype in enumerate(("int8", "uint8", "int16", "int32"))
        for b, axis in enumerate((0, 1, -1, None))
        for way in (True, False)
    ],
)
def test_reductions_are_numpys(dtype: str, axis: int | None, interpreted: bool) -> None:
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (A, B, C), dtype=dtype, endpoint=True)
    total, largest, least = np.zeros(x.shape, np.int32), np.zeros_like(x), np.zeros_like(x)
    launcher = collected.interpret[1] if interpreted else collected[1]
    launcher(x, total, largest, least, axis)
    wrapped = x.astype(np.int64).sum(axis, keepdims=True).astype(np.int32)
    assert (total == wrapped).all()
    assert (largest == x.max(axis, keepdims=True)).all()
    if axis is None:
        assert least.flat[0] == x.min()
    else:
        assert (least == x.min(axis, keepdims=True)).all()


@baco.jit
def of_a_line(x, out, y, N: baco.const):
    line = baco.load(x + baco.arange(0, N))
    number = baco.max(line)
    baco.store(out + baco.arange(0, N), line - number)
    baco.store(y, baco.sum(line, axis=0))


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_a_line_becomes_a_number(engine: str) -> None:
    x = np.random.default_rng(6).integers(-(1 << 30), 1 << 30, 7, dtype=np.int32)
    out, y = np.zeros_like(x), np.zeros(1, np.int32)
    of_a_line[1].options(engine=engine)(x, out, y, 7)
    assert (out == x - x.max()).all()
    assert y[0] == x.astype(np.int64).sum().astype(np.int32)


@baco.jit
def masked(x, out, R: baco.const, C: baco.const):
    row, column = baco.arange(0, R)[:, None], baco.arange(0, C)[None, :]
    causal = column <= row
    baco.store(out + row * C + column, baco.softmax(baco.load(x + row * C + column), 0.02, mask=causal))


@pytest.mark.parametrize("accelerator", ["gemmini-default", "gemmini-transformer"])
def test_elements_that_do_not_take_part_become_zero(accelerator: str) -> None:
    x = np.random.default_rng(7).integers(-128, 128, (6, 9), dtype=np.int8)
    found, same = np.ones_like(x), np.ones_like(x)
    masked[1].options(accelerator=accelerator)(x, found, 6, 9)
    masked.interpret[1](x, same, 6, 9)
    part = np.arange(9) <= np.arange(6)[:, None]
    e = np.where(part, np.exp(0.02 * x.astype(float)), 0.0)
    assert (found == same).all()
    assert (found[~part] == 0).all()
    assert np.abs(found - 127 * e / e.sum(1, keepdims=True)).max() <= 1


@baco.jit
def wrong(x, how: baco.const):
    block = baco.load(x + baco.arange(0, 4)[:, None] * 4 + baco.arange(0, 4)[None, :])
    if how == "axis":
        baco.sum(block, axis=2)
    elif how == "number":
        baco.max(3, axis=0)
    elif how == "offsets":
        baco.sum(baco.arange(0, 4), axis=0)
    elif how == "conditions":
        baco.sum(block > 3, axis=0)
    elif how == "keep":
        baco.sum(block, axis=0, keep_dims=1)
    elif how == "wide":
        baco.softmax(block.to("int32"), 0.05)
    elif how == "scale":
        baco.softmax(block, block)
    elif how == "mask":
        baco.softmax(block, 0.05, mask=block)


@pytest.mark.parametrize(
    ("how", "message", "hint"),
    [
        ("axis", "axis 2 does not exist in a block with 2 dimensions", "axes count from 0 to 1"),
        ("number", "baco.max needs a block, got the constant 3", "blocks have dimensions"),
        ("offsets", "baco.sum of a block of offsets", '.to("int32")'),
        ("conditions", "baco.sum of conditions", "baco.where"),
        ("keep", "`keep_dims` is True or False, got the constant 1", ""),
        ("wide", "baco.softmax of a block int32[4, 4]", "requantise sums"),
        ("scale", "the scale must be a compile-time number", ""),
        ("mask", "`mask` is a condition, got a block int8[4, 4]", "conditions come from comparisons"),
    ],
)
def test_mistakes_show_their_line(how: str, message: str, hint: str) -> None:
    with pytest.raises(BacoError) as caught:
        wrong[1](np.zeros((4, 4), np.int8), how)
    text = str(caught.value)
    assert message in text
    assert hint in text
    assert "^" in text
