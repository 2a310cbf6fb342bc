"""Kernels that are one tiled product: what is recognised, what it becomes, and that it computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func

import baco
from baco.common.errors import InputError
from baco.compiler.blocks.products import TiledProduct, tiled_product
from baco.compiler.choice.choose import choices
from baco.compiler.dialects.context import all_dialects
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.workloads.problem import Problem
from tests.compiler.blocks.block_run import execute, machine
from tests.compiler.blocks.test_block_results import SHAPES
from tests.compiler.kernels import CASES
from tests.compiler.product_kernels import (
    Case,
    batched,
    dot,
    gemm,
    gemv,
    int8s,
    int32s,
    saturated,
    transposed,
)
from tests.machines import SMALL
from tests.seeds import some


def product_of(launcher: Any, arguments: tuple[Any, ...]) -> TiledProduct:
    """What is recognised in a launch."""
    module = launcher.bind(*arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    return tiled_product(next(op for op in module.ops if isinstance(op, func.FuncOp)))


@baco.jit
def layer_kernel(
    a, b, bias, c, M, N, K, scale, BM: baco.const, BN: baco.const, BK: baco.const, GROUP: baco.const
):
    pid = baco.program_id(0)
    num_m, num_n = baco.cdiv(M, BM), baco.cdiv(N, BN)
    in_group = GROUP * num_n
    first_m = pid // in_group * GROUP
    here = min(num_m - first_m, GROUP)
    pid_m = first_m + (pid % in_group) % here
    pid_n = (pid % in_group) // here
    rows = pid_m * BM + baco.arange(0, BM)
    columns = pid_n * BN + baco.arange(0, BN)
    depth = baco.arange(0, BK)
    total = baco.zeros((BM, BN), "int32")
    for k in range(0, K, BK):
        inside = depth < K - k
        left = baco.load(
            a + rows[:, None] * K + (k + depth)[None, :], mask=(rows[:, None] < M) & inside[None, :]
        )
        right = baco.load(
            b + (k + depth)[:, None] * N + columns[None, :], mask=inside[:, None] & (columns[None, :] < N)
        )
        total += baco.dot(left, right)
    total += baco.load(bias + columns, mask=columns < N)[None, :]
    out = baco.requantize(baco.maximum(total, 0), scale)
    baco.store(
        c + rows[:, None] * N + columns[None, :], out, mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


def layer_case(
    rng: np.random.Generator, shape: tuple[int, int, int], blocks: tuple[int, int, int], group: int
) -> Case:
    """Bias, ReLU and requantisation, in the order of programs of a matrix product as Triton's tutorial has it."""
    m, n, k = shape
    a, b, bias = int8s(rng, m, k), int8s(rng, k, n), int32s(rng, n, bound=5000)
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)
    return Case(
        f"layer {shape} in {blocks}, {group} at a time",
        layer_kernel[grid],
        (a, b, bias, np.full((m, n), 7, np.int8), m, n, k, 0.003, *blocks, group),
        {3: saturated(np.maximum(dot(a, b) + bias, 0), 0.003)},
    )


@pytest.mark.parametrize("index", some(3, range(0, len(SHAPES), 5)))
def test_products_are_right(index: int) -> None:
    shape, blocks = SHAPES[index]
    accelerator = machine((4, 8, 16)[index % 3])
    execute(gemm(np.random.default_rng(index), shape, blocks), accelerator, blockwise=False)
    execute(layer_case(np.random.default_rng(index), shape, blocks, 2), accelerator, blockwise=False)


#: Cases that are one tiled product, which the layer compiler's code does.
TILED = (
    "fused without residual", "B transposed", "B by columns", "all by columns", "by index", "masked", "block pointers",
    "batched", "gemv", "int8 by int8",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products_and_no_other_kernels_become_layers(name: str) -> None:
    """All others are compiled block by block, as test_block_results has them."""
    case = CASES[name](np.random.default_rng(7))
    if name not in TILED:
        with pytest.raises(InputError):
            product_of(case.launcher, case.arguments)
    else:
        product_of(case.launcher, case.arguments)
        case.launch(accelerator=machine(8))


@pytest.mark.parametrize(
    "changes", [{"dataflow": "OS"}, {"partial_sum_bits": 17}, {"dataflow": "WS"}], ids=str
)
def test_machines_without_macros(changes: dict[str, Any]) -> None:
    case = layer_case(np.random.default_rng(3), (21, 19, 30), (8, 8, 8), 3)
    execute(case, machine(4, **changes), blockwise=False)


def test_products_in_rtl() -> None:
    rng = np.random.default_rng(12)
    layers = layer_case(rng, (45, 27, 40), (16, 8, 16), 2)
    for case in (layers, transposed(rng, (29, 33, 17), False, True), batched(rng, 3, (9, 11, 14), (8, 8, 8))):
        _, result = execute(case, SMALL, engine="rtl", blockwise=False)
        assert result.commands["LOOP_WS"], case.name


def test_what_is_recognised() -> None:
    case = layer_case(np.random.default_rng(0), (45, 27, 40), (16, 8, 16), 2)
    found = product_of(case.launcher, case.arguments)
    scale = float(np.float32(0.003))
    assert found.layer == Layer(Problem(P=45, K=27, C=40), bias=True, relu=True, scale=scale)
    assert found.blocks == (16, 8, 16)
    assert [one.argument for one in (found.input, found.weight, found.output)] == [0, 1, 3]
    assert found.bias is not None
    assert (found.bias.argument, found.bias.byte) == (2, 0)


def test_batches_and_transposed_factors_are_recognised() -> None:
    rng = np.random.default_rng(0)
    case = batched(rng, 3, (9, 11, 14), (8, 8, 8))
    assert product_of(case.launcher, case.arguments).layer == Layer(
        Problem(P=9, K=11, C=14, groups=3), scale=None
    )
    case = transposed(rng, (13, 17, 11), False, True)
    plain = Layer(Problem(P=13, K=17, C=11), scale=None, weights_transposed=True)
    assert product_of(case.launcher, case.arguments).layer == plain
    # all by columns: B'A' = C', row by row
    case = gemm(rng, (13, 10, 18), (8, 8, 8), a_columns=True, b_columns=True, c_columns=True)
    found = product_of(case.launcher, case.arguments)
    assert found.layer == Layer(Problem(P=10, K=13, C=18), scale=None)
    assert (found.input.argument, found.weight.argument) == (1, 0)
    assert product_of(*_launch(gemv(rng, 37, 70))).layer.problem == Problem(P=37, C=70)


def _launch(case: Case) -> tuple[Any, tuple[Any, ...]]:
    return case.launcher, case.arguments


def test_heads_side_by_side_are_a_batch() -> None:
    """Scores of attention: matrices that lie column by column in a row of all heads."""

    @baco.jit
    def scores(q, k, s, S, H, D: baco.const, B: baco.const):
        head = baco.program_id(2)
        rows = baco.program_id(0) * B + baco.arange(0, B)
        columns = baco.program_id(1) * B + baco.arange(0, B)
        depth = head * D + baco.arange(0, D)
        left = baco.load(q + rows[:, None] * (H * D) + depth[None, :])
        right = baco.load(k + columns[:, None] * (H * D) + depth[None, :])
        out = baco.requantize(baco.dot(left, right.T), 0.001)
        baco.store(s + head * S * S + rows[:, None] * S + columns[None, :], out)

    rng = np.random.default_rng(5)
    q, k, out = int8s(rng, 20, 3, 6), int8s(rng, 20, 3, 6), np.zeros((3, 20, 20), np.int8)
    grid = (baco.cdiv(20, 8), baco.cdiv(20, 8), 3)
    expected = saturated(np.einsum("ihd,jhd->hij", q.astype(np.int32), k.astype(np.int32)), 0.001)
    case = Case("scores", scores[grid], (q, k, out, 20, 3, 6, 8), {2: expected})
    layer = product_of(*_launch(case)).layer
    assert layer.problem == Problem(P=20, K=20, C=6, groups=3)
    assert (layer.input, layer.weight, layer.output) == (Layout(18, 6), Layout(18, 6), Layout(20, 400))
    execute(case, machine(4), blockwise=False)


@baco.jit
def overlapping_kernel(a, b, c, N, K, STEP: baco.const, BM: baco.const, BN: baco.const):
    rows = baco.program_id(0) * STEP + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    depth = baco.arange(0, K)
    left = baco.load(a + rows[:, None] * K + depth[None, :])
    right = baco.load(b + depth[:, None] * N + columns[None, :])
    baco.store(c + rows[:, None] * N + columns[None, :], baco.dot(left, right))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fused", "what is added is one row of int32 for all rows"),
        ("chained", "it has one product and one store, not 2 and 1"),
        ("A by columns", "the left factor's rows are dense"),
        ("add int8", "it has one product and one store, not 0 and 1"),
        ("uint8 by int8", "factors are blocks of int8 that are loaded, padded by zeros"),
    ],
)
def test_what_is_no_product_says_why(name: str, reason: str) -> None:
    case = CASES[name](np.random.default_rng(1))
    with pytest.raises(InputError, match="this kernel is not one tiled product") as caught:
        product_of(case.launcher, case.arguments)
    assert caught.value.hint == reason
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("kernels.py")


def test_programs_that_overlap_are_no_partition() -> None:
    rng = np.random.default_rng(2)
    a, b, c = int8s(rng, 24, 8), int8s(rng, 8, 16), np.zeros((24, 16), np.int32)
    for step, grid, whole in ((8, (3, 2), True), (4, (5, 2), False), (8, (2, 2), True)):
        arguments = (a, b, c, 16, 8, step, 8, 8)
        if whole:
            rows = 8 * grid[0]
            assert product_of(overlapping_kernel[grid], arguments).layer.problem == Problem(P=rows, K=16, C=8)
        else:
            with pytest.raises(InputError):
                product_of(overlapping_kernel[grid], arguments)
        expected = np.zeros_like(c)
        reached = step * (grid[0] - 1) + 8
        expected[:reached] = dot(a, b)[:reached]
        c[:] = 0
        execute(
            Case("overlapping", overlapping_kernel[grid], arguments, {2: expected}),
            machine(4),
            blockwise=False,
        )


@pytest.mark.parametrize("blocks", [(16, 16, 16), (64, 32, 48), (96, 8, 200), (1000, 16, 16)], ids=str)
def test_tiles_are_made_of_whole_blocks(blocks: tuple[int, int, int]) -> None:
    layer, accelerator = Layer(Problem(P=700, K=300, C=500)), machine(16, scratchpad_kib=256)
    found = choices(layer, accelerator, best=50, blocks=blocks)
    macros = [one.schedule for one in found if isinstance(one.schedule, LoopWsSchedule)]
    assert macros or blocks == (1000, 16, 16)
    for schedule in macros:
        tile = (schedule.i * 16, schedule.j * 16, schedule.k * 16)
        for size, block, whole in zip(tile, blocks, (700, 300, 500), strict=True):
            assert size % block == 0 or size >= whole
