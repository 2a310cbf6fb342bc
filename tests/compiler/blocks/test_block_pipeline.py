"""Loads that run ahead of loops: what is computed, how many loads are issued, which blocks can be pipelined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func, scf
from xdsl.ir import BlockArgument

import baco
from baco.accel.config import Accelerator
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.pipelining import PipelinedLoad, mark, pipelined_loads
from baco.compiler.dialects.context import all_dialects
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.passes.pipeline_loads import PipelineLoads
from tests.compiler.blocks.block_run import execute, machine
from tests.compiler.kernels import CASES
from tests.compiler.product_kernels import Case, dot, gemm, int8s
from tests.machines import SMALL


@baco.jit
def nested_kernel(
    a, b, w, c, M, N, K, OUTER: baco.const, INNER: baco.const, BM: baco.const, BN: baco.const, BK: baco.const
):
    """c = sum over outer and inner of a-blocks @ b-blocks, plus once per outer round of what w holds: two levels of loads."""
    i, j, k = baco.program_id(0) * BM + baco.arange(0, BM), baco.arange(0, BN), baco.arange(0, BK)
    total = baco.zeros((BM, BN))
    rows, columns = (i < M)[:, None], (j < N)[None, :]
    for ko in range(OUTER):
        u = baco.load(w + (ko * BK + k)[:, None] * N + j[None, :], mask=columns)
        for ki in range(INNER):
            depth = (ko * INNER + ki) * BK + k
            x = baco.load(a + i[:, None] * K + depth[None, :], mask=rows)
            y = baco.load(b + depth[:, None] * N + j[None, :], mask=columns)
            total += baco.dot(x, y)
            total += baco.dot(x, u)
    baco.store(c + i[:, None] * N + j[None, :], total, mask=rows & columns)


@baco.jit
def triangular_kernel(a, b, c, M, N, BM: baco.const, BN: baco.const):
    """c = lower triangle of blocks of a @ b: the inner loop's end is the outer one's number."""
    m, n = baco.arange(0, BM), baco.arange(0, BN)
    for row in range(M // BM):
        total = baco.zeros((BM, BN))
        for k in range(row):
            x = baco.load(a + (row * BM + m)[:, None] * M + (k * BM + m)[None, :])
            total += baco.dot(x, baco.load(b + (k * BM + m)[:, None] * N + n[None, :]))
        baco.store(c + (row * BM + m)[:, None] * N + n[None, :], total)


def nested(
    rng: np.random.Generator, programs: int, outer: int, inner: int, blocks: tuple[int, int, int]
) -> Case:
    bm, bn, bk = blocks
    m, n, k = programs * bm - 1, bn - 1, outer * inner * bk
    a, b, w = int8s(rng, m, k), int8s(rng, k, n), int8s(rng, outer * bk, n)
    total = dot(a, b)
    for number in range(outer * inner):
        ko = number // inner
        total = total + dot(a[:, number * bk : (number + 1) * bk], w[ko * bk : (ko + 1) * bk])
    return Case(
        f"{outer} x {inner}",
        nested_kernel[(programs,)],
        (a, b, w, np.zeros((m, n), np.int32), m, n, k, outer, inner, bm, bn, bk),
        {3: total},
    )


def triangular(rng: np.random.Generator, rows: int, block: int, columns: int) -> Case:
    m = rows * block
    a, b = int8s(rng, m, m), int8s(rng, m, columns)
    mask = np.kron(np.tril(np.ones((rows, rows), np.int8), -1), np.ones((block, block), np.int8))
    return Case(
        f"triangle of {rows}",
        triangular_kernel[(1,)],
        (a, b, np.zeros((m, columns), np.int32), m, columns, block, columns),
        {2: dot(a * mask, b)},
    )


def commands_of(rows: int, columns: int, accelerator: Accelerator) -> int:
    """Loads of a block: `dim` rows and 64 bytes of columns at a time."""
    dim = accelerator.dim
    return -(-rows // min(dim, rows)) * -(-columns // (max(64 // dim, 1) * dim))


def loads(result: Any) -> int:
    return sum(int(count) for name, count in result.commands.items() if name.startswith("MVIN"))


@pytest.mark.parametrize(
    ("shape", "blocks", "stages"),
    [
        *(((37, 21, 45), (16, 8, 8), stages) for stages in (1, 3, 4)),
        *(pytest.param((37, 21, 45), (16, 8, 8), stages, marks=pytest.mark.slow) for stages in (2, 5)),
        ((5, 7, 3), (4, 4, 4), 3),
        ((16, 70, 33), (16, 66, 16), 2),
        pytest.param((16, 70, 33), (16, 66, 16), 4, marks=pytest.mark.slow),
        ((9, 4, 52), (9, 4, 4), 5),
    ],
)
def test_products_load_every_block_once(
    shape: tuple[int, int, int], blocks: tuple[int, int, int], stages: int
) -> None:
    """Rounds before, in and after the pipeline bring each block of each round exactly once, cut off at the edges."""
    accelerator = machine(4)
    _, result = execute(gemm(np.random.default_rng(stages), shape, blocks), accelerator, stages=stages)
    (m, n, k), (bm, bn, bk) = shape, blocks
    expected = moved = 0
    for i in range(0, m, bm):
        for j in range(0, n, bn):
            for d in range(0, k, bk):
                rows, columns, depth = min(bm, m - i), min(bn, n - j), min(bk, k - d)
                expected += commands_of(rows, depth, accelerator) + commands_of(depth, columns, accelerator)
                moved += rows * depth + depth * columns
    assert loads(result) == expected
    assert result.dram_read_bytes == moved


@pytest.mark.parametrize(
    ("outer", "inner", "stages"),
    [
        (1, 1, 3),
        (1, 3, 5),
        (3, 1, 2),
        (2, 3, 4),
        (3, 5, 1),
        (3, 5, 4),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2, 3, 2), (3, 5, 2), (3, 5, 3), (5, 2, 5))),
    ],
)
def test_nested_loops_are_one_pipeline(outer: int, inner: int, stages: int) -> None:
    """Inner extents that stages do not divide: the place is the flat round's, not the inner one's."""
    accelerator = machine(4)
    case = nested(np.random.default_rng(outer * 10 + inner), 2, outer, inner, (8, 8, 4))
    _, result = execute(case, accelerator, stages=stages)
    rounds = outer * inner
    each = sum(commands_of(rows, 4, accelerator) for rows in (8, 7))
    factor = 2 * commands_of(4, 7, accelerator)
    assert loads(result) == rounds * (each + factor) + outer * factor
    assert result.dram_read_bytes == 15 * 4 * rounds + 2 * 4 * 7 * (rounds + outer)


@pytest.mark.parametrize("stages", [2, 5])
def test_loops_whose_end_is_computed(stages: int) -> None:
    case = triangular(np.random.default_rng(3), 5, 4, 6)
    _, result = execute(case, machine(4), stages=stages)
    rounds = sum(range(5))
    assert result.dram_read_bytes == rounds * (4 * 4 + 4 * 6)


@pytest.mark.parametrize(
    "name",
    [
        *("chained", "batched", "two products"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("all by columns", "attention")),
    ],
)
def test_kernels_with_three_stages(name: str) -> None:
    execute(CASES[name](np.random.default_rng(17)), machine(4), stages=3)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 2, 4, 5])
@pytest.mark.parametrize("name", CASES)
def test_kernels_with_stages(name: str, stages: int) -> None:
    execute(CASES[name](np.random.default_rng(17)), machine(4), stages=stages)


@pytest.mark.parametrize("stages", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_stages_in_rtl(stages: int) -> None:
    """The hardware's own ordering keeps loads into a place behind the products that still read it."""
    rng = np.random.default_rng(5)
    execute(nested(rng, 2, 3, 5, (8, 8, 4)), SMALL, engine="rtl", stages=stages)
    execute(gemm(rng, (37, 21, 45), (16, 8, 8)), SMALL, engine="rtl", stages=stages)


def test_fewer_places_where_memory_is_small() -> None:
    """Five places of 12 rows and more do not fit 256 rows with these blocks; as many as fit are used."""
    small = machine(4, scratchpad_kib=1, scratchpad_banks=1)
    case = gemm(np.random.default_rng(6), (40, 12, 60), (40, 12, 4))
    requirement, _ = execute(case, small, stages=9)
    assert 52 * 2 <= requirement["scratchpad_rows"] <= 256
    assert requirement["scratchpad_rows"] % 52 == 0


def _structured(case: Case) -> tuple[Any, func.FuncOp]:
    module = case.launcher.bind(*case.arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    return module, next(op for op in module.ops if isinstance(op, func.FuncOp))


def _found(case: Case) -> list[PipelinedLoad]:
    _, function = _structured(case)
    accelerator = machine(4)
    return pipelined_loads(function, Analysis(function, accelerator), accelerator.dim)


def _argument(load: PipelinedLoad) -> int:
    assert isinstance(load.load.source, BlockArgument)
    return load.load.source.index


def test_identification() -> None:
    """Copies in sequential loops, over all loops directly inside each other whose rounds are known beforehand."""
    rng = np.random.default_rng(8)
    # left and right factor in the loop over depth and both grid loops
    assert [len(load.nest) for load in _found(gemm(rng, (16, 16, 16), (8, 8, 8)))] == [2, 2]
    # one loaded in the outer loop, two in the inner one, each with the grid's loop around
    assert [len(load.nest) for load in _found(nested(rng, 2, 3, 5, (8, 8, 4)))] == [2, 3, 3]
    # the end of the inner loop is a number of the outer one
    assert [len(load.nest) for load in _found(triangular(rng, 5, 4, 6))] == [1, 1]
    # rule 1: the second product's left factor is computed, not copied; a, b and w are copies
    assert [_argument(load) for load in _found(CASES["chained"](rng))] == [0, 1, 2]
    # rule 3: the array transposes a right factor with tiles that are not full, which the hardware does not order
    assert [_argument(load) for load in _found(CASES["B transposed"](rng))] == [0]


def test_sums_stay_in_the_accumulator_through_nested_loops() -> None:
    """What the outer loop carries is used once, by the inner loop: neither is stored between rounds."""
    _, function = _structured(nested(np.random.default_rng(8), 2, 3, 5, (8, 8, 4)))
    analysis = Analysis(function, machine(4))
    nests = [op for op in function.walk() if isinstance(op, scf.ForOp) and op.iter_args]
    assert [analysis.carried(loop, 0) for loop in nests] == [True, True]


def test_the_pass_marks() -> None:
    module, function = _structured(gemm(np.random.default_rng(9), (16, 16, 16), (8, 8, 8)))
    PipelineLoads(machine(4), 3).apply(all_dialects(), module)
    assert str(function).count("baco.stages = 3") == 2
    analysis = Analysis(function, machine(4))
    first, second = pipelined_loads(function, analysis, 4)
    mark(second, 7)
    assert [one.stages for one in pipelined_loads(function, analysis, 4)] == [3, 7]
    assert (first.stages, second.stages) == (3, 3)
