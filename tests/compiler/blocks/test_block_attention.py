"""Kernels that are attention: what is recognised, that it runs as one unit and block by block, and that it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func

import baco
from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.blocks.attention import TiledAttention, attention_to_instgem, tiled_attention
from baco.compiler.codegen.block_program import lower_block_program
from baco.compiler.dialects.context import all_dialects
from baco.compiler.language.cost import predicted_cycles
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.styles.fused.chain import ProductChain
from tests import machines
from tests.compiler.blocks.block_run import execute, machine
from tests.compiler.product_kernels import Case, int8s, saturated
from tests.seeds import some

Array = np.ndarray[Any, Any]
UNITS = machine(4, features={"row_functions": True})
#: Heads, length, depth and rows of a block.
SHAPES = pytest.mark.parametrize(
    "shape", [(1, 10, 5, 4), (3, 7, 4, 2), pytest.param((2, 20, 12, 8), marks=pytest.mark.slow)]
)


def softmax(x: Array, scale: float) -> Array:
    """Rows of int8, from the definition in the documents of the language."""
    table = np.array([round(65535 * float(np.exp(-one * scale))) for one in range(256)])
    below = table[x.max(-1, keepdims=True).astype(int) - x]
    inverse = np.minimum(127 * 2**24 // below.sum(-1, keepdims=True), 65535)
    return np.minimum((below * inverse + 2**23) >> 24, 127).astype(np.int8)


def attention(q: Array, k: Array, v: Array, relu: bool = False) -> Array:
    """(..., rows, depth) each."""
    scores = q.astype(np.int32) @ np.swapaxes(k, -1, -2).astype(np.int32)
    weights = softmax(saturated(np.maximum(scores, 0) if relu else scores, 0.004), 0.05)
    return saturated(weights.astype(np.int32) @ v.astype(np.int32), 0.02)


@baco.jit
def heads_apart(q, k, v, out, S, D, BM: baco.const):
    head = baco.program_id(1) * S * D
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    keys, depth = baco.arange(0, S), baco.arange(0, D)
    queries = baco.load(q + head + rows[:, None] * D + depth[None, :])
    scores = baco.dot(queries, baco.load(k + head + keys[:, None] * D + depth[None, :]).T)
    weights = baco.softmax(baco.requantize(scores, 0.004), 0.05)
    values = baco.load(v + head + keys[:, None] * D + depth[None, :])
    result = baco.requantize(baco.dot(weights, values), 0.02)
    baco.store(out + head + rows[:, None] * D + depth[None, :], result)


@baco.jit
def heads_beside(q, k, v, out, S, H, D, BM: baco.const, BD: baco.const):
    """All heads in one row; programs count heads first; scores are summed in steps of depth; keys lie by columns."""
    head = baco.program_id(0) * D
    rows = baco.program_id(1) * BM + baco.arange(0, BM)
    keys = baco.arange(0, S)
    scores = baco.zeros((BM, S), "int32")
    for start in range(0, D, BD):
        depth = start + baco.arange(0, BD)
        queries = baco.load(q + head + rows[:, None] * (H * D) + depth[None, :])
        scores += baco.dot(queries, baco.load(k + (head + depth)[:, None] * S + keys[None, :]))
    weights = baco.softmax(baco.requantize(baco.maximum(scores, 0), 0.004), 0.05)
    columns = baco.arange(0, D)
    values = baco.load(v + head + keys[:, None] * (H * D) + columns[None, :])
    result = baco.requantize(baco.dot(weights, values), 0.02)
    baco.store(out + head + rows[:, None] * (H * D) + columns[None, :], result)


@baco.jit
def loops(q, k, v, out, B, S, D, BM: baco.const):
    """One program for all, keys and values loaded once a head."""
    keys, depth = baco.arange(0, S), baco.arange(0, D)
    for head in range(B):
        there = head * S * D + keys[:, None] * D + depth[None, :]
        right, values = baco.load(k + there), baco.load(v + there)
        for start in range(0, S, BM):
            rows = start + baco.arange(0, BM)
            here = head * S * D + rows[:, None] * D + depth[None, :]
            weights = baco.softmax(baco.requantize(baco.dot(baco.load(q + here), right.T), 0.004), 0.05)
            baco.store(out + here, baco.requantize(baco.dot(weights, values), 0.02))


def apart(seed: int, heads: int, seq: int, size: int, rows: int) -> Case:
    rng = np.random.default_rng(seed)
    q, k, v = (int8s(rng, heads, seq, size) for _ in range(3))
    grid = (baco.cdiv(seq, rows), heads)
    arguments = (q, k, v, np.zeros_like(q), seq, size, rows)
    return Case("apart", heads_apart[grid], arguments, {3: attention(q, k, v)})


def beside(seed: int, heads: int, seq: int, size: int, rows: int) -> Case:
    rng = np.random.default_rng(seed)
    q, k, v = (int8s(rng, heads, seq, size) for _ in range(3))
    stored = [np.ascontiguousarray(one.transpose(1, 0, 2)) for one in (q, v, attention(q, k, v, relu=True))]
    turned = np.ascontiguousarray(k.transpose(0, 2, 1))
    grid = (heads, baco.cdiv(seq, rows))
    arguments = (stored[0], turned, stored[1], np.zeros_like(stored[0]), seq, heads, size, rows, 4)
    return Case("beside", heads_beside[grid], arguments, {3: stored[2]})


def looped(seed: int, heads: int, seq: int, size: int, rows: int) -> Case:
    case = apart(seed, heads, seq, size, rows)
    q, k, v, out, *_ = case.arguments
    return Case("loops", loops[(1,)], (q, k, v, out, heads, seq, size, rows), case.expected)


def structured(case: Case) -> func.FuncOp:
    module = case.launcher.bind(*case.arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    return next(op for op in module.ops if isinstance(op, func.FuncOp))


def recognised(case: Case) -> TiledAttention:
    return tiled_attention(structured(case))


@pytest.mark.parametrize("make", [apart, beside, looped])
def test_attention_is_recognised_however_it_is_written(make: Any) -> None:
    found = recognised(make(1, 3, 12, 8, 4))
    assert isinstance(found.chain, ProductChain)
    sizes = (
        found.chain.groups,
        found.chain.rows,
        found.chain.depth,
        found.chain.between,
        found.chain.columns,
    )
    assert sizes == (3, 12, 8, 12, 8)
    assert (found.rows, found.scale, found.out_scale) == (4, 0.05, 1 / 127)
    assert found.chain.first.weights_transposed == (make is not beside)
    assert found.chain.first.relu == (make is beside)
    places = [found.left, found.first, found.second, found.output]
    assert [(one.argument, one.byte) for one in places] == [(n, 0) for n in range(4)]


@pytest.mark.parametrize(
    ("make", "shape"),
    some(
        3,
        [
            (apart, (1, 10, 5, 4)),
            (beside, (3, 7, 4, 2)),
            (looped, (1, 10, 5, 4)),
            *((make, (2, 20, 12, 8)) for make in (apart, beside, looped)),
            (apart, (3, 7, 4, 2)),
            (beside, (1, 10, 5, 4)),
            (looped, (3, 7, 4, 2)),
        ],
    ),
)
def test_attention_as_one_unit_is_right(make: Any, shape: tuple[int, int, int, int]) -> None:
    case = make(2, *shape)
    assert attention_to_instgem(structured(case), UNITS) is not None
    execute(case, UNITS, blockwise=False)


def test_attention_in_rtl() -> None:
    _, result = execute(apart(3, 2, 24, 8, 8), machines.UNITS, engine="rtl", blockwise=False)
    launch = apart(3, 2, 24, 8, 8)
    predicted = predicted_cycles(launch.launcher.bind(*launch.arguments), UNITS)
    assert predicted < result.cycles < 2 * predicted  # of such a small one most is beginning and end


@baco.jit
def causal(q, k, v, out, S, D, BM: baco.const):
    head = baco.program_id(1) * S * D
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    keys, depth = baco.arange(0, S), baco.arange(0, D)
    queries = baco.load(q + head + rows[:, None] * D + depth[None, :])
    scores = baco.dot(queries, baco.load(k + head + keys[:, None] * D + depth[None, :]).T)
    weights = baco.softmax(baco.requantize(scores, 0.004), 0.05, mask=keys[None, :] <= rows[:, None])
    values = baco.load(v + head + keys[:, None] * D + depth[None, :])
    result = baco.requantize(baco.dot(weights, values), 0.02)
    baco.store(out + head + rows[:, None] * D + depth[None, :], result)


def masked(seed: int, heads: int, seq: int, size: int, rows: int) -> Case:
    rng = np.random.default_rng(seed)
    q, k, v = (int8s(rng, heads, seq, size) for _ in range(3))
    scores = saturated(q.astype(np.int32) @ k.transpose(0, 2, 1).astype(np.int32), 0.004)
    weights = np.zeros_like(scores)
    for row in range(seq):  # by the definition, of what each row sees
        weights[:, row, : row + 1] = softmax(scores[:, row, : row + 1], 0.05)
    expected = saturated(weights.astype(np.int32) @ v.astype(np.int32), 0.02)
    grid = (baco.cdiv(seq, rows), heads)
    return Case("causal", causal[grid], (q, k, v, np.zeros_like(q), seq, size, rows), {3: expected})


@SHAPES
def test_causal_attention_as_one_unit_is_right(shape: tuple[int, int, int, int]) -> None:
    case = masked(2, *shape)
    assert recognised(case).chain.causal == 1
    assert attention_to_instgem(structured(case), UNITS) is not None
    execute(case, UNITS, blockwise=False)


def test_causal_attention_in_rtl() -> None:
    execute(masked(3, 2, 24, 8, 8), machines.UNITS, engine="rtl", blockwise=False)


@pytest.mark.parametrize("accelerator", some(2, [UNITS, machine(8, dataflow="OS"), machine(4), machine(8)]))
def test_block_by_block_it_is_the_same(accelerator: Accelerator) -> None:
    execute(apart(4, 2, 14, 6, 4), accelerator, engine="functional")


def test_block_by_block_by_the_unit_in_rtl() -> None:
    _, result = execute(apart(5, 2, 12, 8, 4), machines.UNITS, engine="rtl")
    assert "LOAD_TABLE" in result.commands


@baco.jit
def two_tables(a, b, one, two, N: baco.const):
    i, j = baco.arange(0, N)[:, None], baco.arange(0, N)[None, :]
    for step in range(3):
        at = step * N * N + i * N + j
        scores = baco.requantize(baco.dot(baco.load(a + at), baco.load(b + at)), 0.01)
        baco.store(one + at, baco.softmax(scores, 0.05))
        baco.store(two + at, baco.softmax(scores, 0.2, out_scale=0.015625))


@pytest.mark.parametrize("accelerator", [UNITS, machine(4)])
def test_every_softmax_has_its_own_table(accelerator: Accelerator) -> None:
    rng = np.random.default_rng(6)
    a, b = int8s(rng, 3, 8, 8), int8s(rng, 3, 8, 8)
    scores = saturated(a.astype(np.int32) @ b.astype(np.int32), 0.01)
    wide = scores.astype(np.float64)
    exact = [np.exp((wide - wide.max(-1, keepdims=True)) * scale) for scale in (0.05, 0.2)]
    parts = [one / one.sum(-1, keepdims=True) for one in exact]
    arguments = (a, b, np.zeros_like(a), np.zeros_like(a), 8)
    execute(Case("two tables", two_tables[(1,)], arguments, {2: softmax(scores, 0.05)}), accelerator)
    assert np.abs(arguments[2] - 127 * parts[0]).max() <= 1
    assert np.abs(arguments[3] - 64 * parts[1]).max() <= 1


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("turned", "its softmax is the left factor of its second product, and nothing else"),
        ("int32", "sums of both products are requantised"),
        ("mask", "all elements of a row take part, or those up to its own (mask=keys <= rows)"),
        ("added", "its sum begins as zeros, or a row of int32 for all rows"),
        ("more", "all elements of a row of scores are there: blocks of keys are no wider than the keys"),
    ],
)
def test_what_is_no_attention_says_why(how: str, reason: str) -> None:
    rng = np.random.default_rng(7)
    q, k, v = (int8s(rng, 8, 8) for _ in range(3))
    out = np.zeros((8, 8), np.int32 if how == "int32" else np.int8)
    case = Case(how, almost[(1,)], (q, k, v, out, 8, 16 if how == "more" else 8, how))
    with pytest.raises(InputError, match="this kernel is not one tiled product or attention") as caught:
        recognised(case)
    assert caught.value.hint == reason
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_block_attention.py")


@baco.jit
def almost(q, k, v, out, S, BN: baco.const, how: baco.const):
    rows, keys, depth = baco.arange(0, 8), baco.arange(0, BN), baco.arange(0, 8)
    there = keys[:, None] * 8 + depth[None, :]
    scores = baco.dot(
        baco.load(q + rows[:, None] * 8 + depth[None, :]), baco.load(k + there, mask=keys[:, None] < S).T
    )
    if how == "added":
        scores += keys[None, :].to("int32")
    small = baco.requantize(scores, 0.004)
    weights = baco.softmax(small, 0.05, mask=small > 3) if how == "mask" else baco.softmax(small, 0.05)
    values = baco.load(v + there, mask=keys[:, None] < S)
    result = baco.dot(weights.T, weights) if how == "turned" else baco.dot(weights, values)
    if how != "int32":
        result = baco.requantize(result, 0.02)
    baco.store(out + rows[:, None] * 8 + depth[None, :], result)


def test_rows_that_are_too_long_are_one_message_at_their_line() -> None:
    case = apart(8, 1, 2048, 4, 16)
    module = case.launcher.bind(*case.arguments).module()
    with pytest.raises(InfeasibleError, match="needs 2048 rows of the accumulator") as caught:
        lower_block_program(module, UNITS.replace(dim=16))
    assert caught.value.location is not None
    assert caught.value.hint == "use smaller blocks, or an accelerator with a larger accumulator"
    # fewer rows are one answer
    execute(apart(8, 1, 256, 4, 4), UNITS, blockwise=False)
