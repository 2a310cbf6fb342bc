"""How far blocks reach: what is derived, what is proved, and what is refused rather than guessed.

Each kernel copies, so that an element that is wrongly left out or touched shows. Arrays lie in larger ones whose
other elements must stay as they are.
"""

from typing import Any

import numpy as np
import pytest

import baco
from baco.accel.config import Accelerator
from baco.common.errors import BacoError


def copies(launcher: Any, rows: int, columns: int, *constants: Any) -> bool:
    """Whether the launch copies a matrix exactly, and nothing beside it."""
    rng = np.random.default_rng(rows * columns)
    x = rng.integers(-128, 128, (rows, columns), dtype=np.int8)
    y = np.zeros_like(x)
    launcher(x, y, rows, columns, *constants)
    return bool(np.array_equal(x, y))


@baco.jit
def copy_by_grid(x, y, M, N, BM: baco.const, BN: baco.const):
    i = baco.program_id(0) * BM + baco.arange(0, BM)
    j = baco.program_id(1) * BN + baco.arange(0, BN)
    baco.store(y + i[:, None] * N + j[None, :], baco.load(x + i[:, None] * N + j[None, :]))


@baco.jit
def copy_by_product_of_grid(x, y, M, N, BM: baco.const, BN: baco.const):
    pid = baco.program_id(0)
    i = pid // baco.cdiv(N, BN) * BM + baco.arange(0, BM)
    j = pid % baco.cdiv(N, BN) * BN + baco.arange(0, BN)
    baco.store(y + (i[:, None] * N + j), baco.load(x + (j + i[:, None] * N)))


@baco.jit
def copy_by_written_out_cdiv(x, y, M, N, BM: baco.const, BN: baco.const):
    pid = baco.program_id(0)
    num_m, num_n = (M + BM - 1) // BM, (N + BN - 1) // BN
    i = (pid % num_m) * BM + baco.arange(0, BM)
    j = (pid // num_m) * BN + baco.arange(0, BN)
    assert num_n == baco.cdiv(N, BN)
    baco.store(y + i[:, None] * N + j[None, :], baco.load(x + i[:, None] * N + j[None, :]))


@baco.jit
def copy_by_loops(x, y, M, N, BM: baco.const, BN: baco.const):
    for row in range(0, M, BM):
        i = row + baco.arange(0, BM)
        for column in range(baco.cdiv(N, BN)):
            j = column * BN + baco.arange(BN)
            baco.store(y + i[:, None] * N + j[None, :], baco.load(x + i[:, None] * N + j[None, :]))


@baco.jit
def copy_by_moving_pointers(x, y, M, N, BM: baco.const, BN: baco.const):
    i, j = baco.arange(0, BM), baco.arange(0, BN)
    x_rows, y_rows = x + i[:, None] * N + j[None, :], y + i[:, None] * N + j[None, :]
    for _ in range(0, M, BM):
        x_ptrs, y_ptrs = x_rows, y_rows
        for _ in range(0, N, BN):
            baco.store(y_ptrs, baco.load(x_ptrs))
            x_ptrs += BN
            y_ptrs += BN
        x_rows += BM * N
        y_rows += BM * N


@baco.jit
def copy_by_moving_offsets(x, y, M, N, BM: baco.const, BN: baco.const):
    i, j = baco.arange(0, BM), baco.arange(0, BN)
    for _ in range(baco.cdiv(M, BM)):
        k = j
        for _ in range(0, N, BN):
            baco.store(y + i[:, None] * N + k[None, :], baco.load(x + i[:, None] * N + k[None, :]))
            k += BN
        i += BM


@baco.jit
def copy_by_block_pointers(x, y, M, N, BM: baco.const, BN: baco.const):
    source = baco.make_block_ptr(x, (M, N), (N, 1), (0, 0), (BM, BN))
    target = baco.make_block_ptr(y, (M, N), (N, 1), (0, 0), (BM, BN))
    for _ in range(0, M, BM):
        for _ in range(0, N, BN):
            baco.store(target, baco.load(source))
            source, target = baco.advance(source, (0, BN)), baco.advance(target, (0, BN))
        back = -baco.cdiv(N, BN) * BN
        source, target = baco.advance(source, (BM, back)), baco.advance(target, (BM, back))


@baco.jit
def copy_by_masks(x, y, M, N, BM: baco.const, BN: baco.const):
    i = baco.program_id(0) * BM + baco.arange(0, BM)
    j = baco.program_id(1) * BN + baco.arange(0, BN)
    inside = (i < M)[:, None] & (j < N)
    baco.store(y + i[:, None] * N + j, baco.load(x + i[:, None] * N + j, mask=inside), mask=inside)


@baco.jit
def copy_by_half_masks(x, y, M, N, BM: baco.const, BN: baco.const):
    """The mask decides about columns, the grid about rows."""
    i = baco.program_id(0) * BM + baco.arange(0, BM)
    j = baco.program_id(1) * BN + baco.arange(0, BN)
    inside = (j <= N - 1)[None, :]
    baco.store(y + i[:, None] * N + j, baco.load(x + i[:, None] * N + j, mask=inside), mask=inside)


@baco.jit
def copy_by_opaque_masks(x, y, M, N, BM: baco.const, BN: baco.const):
    i = baco.program_id(0) * BM + baco.arange(0, BM)
    j = baco.program_id(1) * BN + baco.arange(0, BN)
    outside = (i >= M)[:, None] | (j >= N)[None, :]
    baco.store(y + i[:, None] * N + j, baco.load(x + i[:, None] * N + j, mask=~outside), mask=~outside)


SHAPES = [(16, 16), (17, 16), (16, 17), (1, 1), (1, 40), (40, 1), (33, 21), (7, 5)]
BY_AXES = [copy_by_grid, copy_by_masks, copy_by_half_masks, copy_by_opaque_masks]
ALONE = [copy_by_loops, copy_by_moving_pointers, copy_by_moving_offsets, copy_by_block_pointers]


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        # every shape in blocks of one size every time
        pytest.param(shape, blocks, marks=[pytest.mark.slow] * ((number + place) % 3 > 0))
        for number, shape in enumerate(SHAPES)
        for place, blocks in enumerate(((16, 8), (8, 8), (8, 16)))
    ],
)
def test_every_way_to_cut_a_matrix(shape: tuple[int, int], blocks: tuple[int, int]) -> None:
    rows, columns = baco.cdiv(shape[0], blocks[0]), baco.cdiv(shape[1], blocks[1])
    for kernel in BY_AXES:
        assert copies(kernel.interpret[rows, columns], *shape, *blocks), kernel.name
    for kernel in (copy_by_product_of_grid, copy_by_written_out_cdiv):
        assert copies(kernel.interpret[rows * columns], *shape, *blocks), kernel.name
    # The kernel's own cdiv tells as much as the grid's.
    assert copies(copy_by_written_out_cdiv.interpret[int(rows * columns)], *shape, *blocks)
    for kernel in ALONE:
        assert copies(kernel.interpret[1], *shape, *blocks), kernel.name


@pytest.mark.parametrize(
    "shape", [(33, 21), *(pytest.param(one, marks=pytest.mark.slow) for one in ((1, 40), (7, 5)))]
)
def test_compiled(shape: tuple[int, int]) -> None:
    options = {"accelerator": Accelerator(dim=4, scratchpad_kib=64, accumulator_kib=32)}
    rows, columns = baco.cdiv(shape[0], 16), baco.cdiv(shape[1], 8)
    launches = [(kernel, (rows, columns)) for kernel in BY_AXES]
    launches += [
        (kernel, (rows * columns,)) for kernel in (copy_by_product_of_grid, copy_by_written_out_cdiv)
    ]
    launches += [(kernel, (1,)) for kernel in ALONE]
    for kernel, grid in launches:
        assert copies(kernel[grid].options(**options), *shape, 16, 8), kernel.name


def test_the_bounds_are_written_into_the_block_program() -> None:
    x, y = np.zeros((20, 30), np.int8), np.zeros((20, 30), np.int8)
    text = str(copy_by_grid[baco.cdiv(20, 16), baco.cdiv(30, 8)].module(x, y, 20, 30, 16, 8))
    assert text.count(" high[") == 2
    assert " mask " not in text
    # Blocks that divide the matrix need no bounds; nor do masks that are bounds become blocks.
    text = str(copy_by_grid[baco.cdiv(20, 4), baco.cdiv(30, 10)].module(x, y, 20, 30, 4, 10))
    assert "high" not in text
    text = str(copy_by_masks[2, 4].module(x, y, 20, 30, 16, 8))
    assert " mask " not in text
    assert text.count(" high[") == 2
    text = str(copy_by_opaque_masks[2, 4].module(x, y, 20, 30, 16, 8))
    assert text.count(" mask ") == 2


@baco.jit
def strided(x, y, n, m, STEP: baco.const, FIRST: baco.const, BLOCK: baco.const):
    """y[i] = x[i * STEP + FIRST], 0 where that is outside of x."""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    at = i * STEP + FIRST
    a = baco.load(x + at, mask=(at >= 0) & (at < n))
    b = baco.load(x + at, mask=(at > -1) & (n - 1 >= at))
    baco.store(y + i, a + b, mask=i < m)


@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize("first", [-7, -1, 0, 4])
def test_masks_of_strided_blocks_are_bounds(first: int, step: int) -> None:
    x, y = np.arange(1, 24, dtype=np.int32), np.full(13, 99, np.int32)
    launch = strided.interpret[baco.cdiv(13, 4)]
    assert " mask " not in str(launch.module(x, y, 23, 13, step, first, 4))
    launch(x, y, 23, 13, step, first, 4)
    places = np.arange(13) * step + first
    inside = (places >= 0) & (places < 23)
    assert np.array_equal(y, np.where(inside, 2 * x[np.where(inside, places, 0)], 0))


@baco.jit
def strided_rows(x, y, M, N, P, STEP: baco.const, BM: baco.const):
    """y[i] = x[i * STEP - 1]: strided rows with padding, and no condition but the bounds."""
    i = baco.program_id(0) * BM + baco.arange(0, BM)
    row = i * STEP - 1
    j = baco.arange(0, 4)
    inside = (row >= 0) & (row < M)
    values = baco.load(x + row[:, None] * N + j[None, :], mask=inside[:, None])
    baco.store(y + i[:, None] * N + j[None, :], values, mask=(i < P)[:, None])


@pytest.mark.parametrize("step", [1, 2, 3])
def test_masks_of_strided_rows(step: int) -> None:
    x, y = np.arange(1, 37, dtype=np.int8).reshape(9, 4), np.full((6, 4), 99, np.int8)
    launch = strided_rows.interpret[baco.cdiv(6, 4)]
    assert " mask " not in str(launch.module(x, y, 9, 4, 6, step, 4))
    launch(x, y, 9, 4, 6, step, 4)
    rows = np.arange(6) * step - 1
    inside = (rows >= 0) & (rows < 9)
    assert np.array_equal(y, np.where(inside[:, None], x[np.where(inside, rows, 0)], 0))


@baco.jit
def conditional_rows(x, y, M, N, first, BN: baco.const):
    """Rows from `first` on; those outside of x are zero. The condition on the row is one number."""
    row = baco.program_id(0) + first
    j = baco.program_id(1) * BN + baco.arange(0, BN)
    inside = (row >= 0) & (row < M)
    values = baco.load(x + row * N + j, mask=inside & (j < N))
    baco.store(y + baco.program_id(0) * N + j, values)
    baco.store(y, baco.load(y), mask=row < M)


@pytest.mark.parametrize("first", [-3, 0, 2])
def test_conditions_on_numbers_are_bounds(first: int) -> None:
    x = np.arange(1, 5 * 11 + 1, dtype=np.int8).reshape(5, 11)
    y = np.full((6, 11), 99, np.int8)
    launch = conditional_rows[6, baco.cdiv(11, 4)]
    text = str(launch.module(x, y, 5, 11, first, 4))
    assert text.count(" mask ") == 1, "of the access to one element only"
    expected = np.zeros((6, 11), np.int8)
    for row in range(6):
        if 0 <= row + first < 5:
            expected[row] = x[row + first]
    conditional_rows.interpret[6, baco.cdiv(11, 4)](x, y, 5, 11, first, 4)
    assert np.array_equal(y, expected)
    y[:] = 99
    machine = Accelerator(dim=4, scratchpad_kib=64, accumulator_kib=32)
    launch.options(accelerator=machine)(x, y, 5, 11, first, 4)
    assert np.array_equal(y, expected)


@baco.jit
def one_block_size(x, y, M, N, B: baco.const):
    """Both dimensions are cut by the same constant, and only the loop says how far one of them goes."""
    i = baco.program_id(0) * B + baco.arange(0, B)
    for column in range(0, N, B):
        j = column + baco.arange(0, B)
        baco.store(y + i[:, None] * N + j, baco.load(x + i[:, None] * N + j))


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (31, 17), (17, 31)])
def test_the_extent_of_one_dimension_is_never_taken_for_another(shape: tuple[int, int]) -> None:
    """As many blocks of 16 in both: an extent guessed by the count would be the wrong one."""
    x, y = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
    with pytest.raises(BacoError, match="no extent follows for dimension 0"):
        one_block_size[2].module(x, y, *shape, 16)
    assert copies(one_block_size.interpret[baco.cdiv(shape[0], 16)], *shape, 16)


@baco.jit
def one_block_size_by_cdiv(x, y, M, N, B: baco.const):
    i = baco.program_id(0) * B + baco.arange(0, B)
    for step in range(baco.cdiv(N, B)):
        j = step * B + baco.arange(0, B)
        baco.store(y + i[:, None] * N + j, baco.load(x + i[:, None] * N + j))


def test_the_count_of_a_loop_says_nothing_about_the_grid() -> None:
    x, y = np.zeros((30, 20), np.int8), np.zeros((30, 20), np.int8)
    with pytest.raises(BacoError, match="no extent follows for dimension 0"):
        one_block_size_by_cdiv[2].module(x, y, 30, 20, 16)
    assert copies(one_block_size_by_cdiv.interpret[baco.cdiv(30, 16)], 30, 20, 16)


@baco.jit
def shifted(x, y, n, distance, BLOCK: baco.const):
    """y[i] = x[i + distance]"""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    baco.store(y + i, baco.load(x + i + distance))


def test_shifted_blocks_count_the_same_elements() -> None:
    x, y = np.arange(40, dtype=np.int32), np.zeros(25, np.int32)
    shifted.interpret[baco.cdiv(25, 8)](x, y, 25, 13, 8)
    assert np.array_equal(y, x[13:38])
    with pytest.raises(BacoError, match="may reach element 40 of `x`"):
        shifted[baco.cdiv(25, 8)].module(x, y, 25, 16, 8)
    with pytest.raises(BacoError, match="may reach element -1 of `x`"):
        shifted[baco.cdiv(25, 8)].module(x, y, 25, -1, 8)


@baco.jit
def literal_blocks(x, y, n):
    q, r = x + baco.arange(0, 8), y + baco.arange(0, 8)
    for _ in range(0, n, 8):
        baco.store(r, baco.load(q))
        q += 8
        r += 8


@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_sizes_without_names(n: int) -> None:
    x, y = np.arange(n, dtype=np.int16), np.zeros(n, np.int16)
    literal_blocks.interpret[1](x, y, n)
    assert np.array_equal(x, y)


@baco.jit
def triangle(x, y, N, B: baco.const):
    """Sums of the lower triangle, block by block: a loop whose end depends on the program."""
    row = baco.program_id(0)
    i = row * B + baco.arange(0, B)
    total = baco.zeros((B, B))
    for column in range(row + 1):
        j = column * B + baco.arange(0, B)
        block = baco.load(x + i[:, None] * N + j, mask=(i[:, None] < N) & (j < N)[None, :])
        total += baco.where(j[None, :] <= i[:, None], block.to("int32"), 0)
    baco.store(y + i[:, None] * B + baco.arange(0, B), total)


def test_loops_that_depend_on_the_program() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (16, 16), dtype=np.int8)
    y = np.zeros((16, 4), np.int32)
    triangle.interpret[baco.cdiv(16, 4)](x, y, 16, 4)
    assert np.array_equal(y, np.tril(x.astype(np.int32)).reshape(16, 4, 4).sum(1))


@baco.jit
def irregular(x, y, n, BLOCK: baco.const):
    """A pointer that moves by 1, 2, 3, ...: it is carried around the loop."""
    i = baco.arange(0, BLOCK)
    q = x + i
    total = baco.zeros((BLOCK,))
    steps = 0
    for j in range(n):
        total += baco.load(q, mask=i < BLOCK)
        q += j + 1
        steps += 2
    baco.store(y + i, total + steps)


def test_pointers_that_move_irregularly() -> None:
    x, y = np.arange(100, dtype=np.int32), np.zeros(4, np.int32)
    irregular.interpret[1](x, y, 6, 4)
    starts = np.array([0, 1, 3, 6, 10, 15])
    assert np.array_equal(y, (starts[:, None] + np.arange(4)).sum(0) + 12)


@baco.jit
def wrapped(x, y, n, BLOCK: baco.const):
    """Offsets modulo the size: a gather that stays inside."""
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    baco.store(y + i, baco.load(x + (i + 5) % n))


def test_offsets_that_wrap_around() -> None:
    x, y = np.arange(11, dtype=np.int8), np.zeros(11, np.int8)
    wrapped.interpret[baco.cdiv(11, 4)](x, y, 11, 4)
    assert np.array_equal(y, np.roll(x, -5))


@baco.jit
def computed_offsets(x, y):
    """Offsets that operators other than + - * give, whose bounds follow nevertheless."""
    i = baco.arange(0, 16)
    total = baco.load(x + (i ^ 5)) + baco.load(x + (i >> 1)) + baco.load(x + (i & 3)) + baco.load(x + (i | 8))
    total += (
        baco.load(x + (15 - i)) + baco.load(x + baco.minimum(i, 9)) + baco.load(x + baco.where(i > 3, i, 0))
    )
    baco.store(y + i, total + baco.load(x + (i // 3) * 2))


def test_offsets_by_other_operators() -> None:
    x, y = np.random.default_rng(3).integers(-1000, 1000, 16, dtype=np.int32), np.zeros(16, np.int32)
    computed_offsets.interpret[1](x, y)
    i = np.arange(16)
    places = [i ^ 5, i >> 1, i & 3, i | 8, 15 - i, np.minimum(i, 9), np.where(i > 3, i, 0), i // 3 * 2]
    assert np.array_equal(y, sum(x[place] for place in places))


@baco.jit
def doubling(x, y, n):
    """Offsets that double in each iteration: a block of offsets is carried around the loop."""
    i = baco.arange(0, 4)
    total = baco.zeros((4,))
    for _ in range(n):
        total += baco.load(x + i, mask=i < 32)
        i = i * 2
    baco.store(y + baco.arange(0, 4), total)


def test_offsets_that_are_carried() -> None:
    x, y = np.arange(32, dtype=np.int32), np.zeros(4, np.int32)
    doubling.interpret[1](x, y, 5)
    places = np.arange(4) * 2 ** np.arange(5)[:, None]
    assert np.array_equal(y, np.where(places < 32, x[np.minimum(places, 31)], 0).sum(0))


@baco.jit
def count(y, n):
    total = 0
    last = 7
    for i in range(2, n, 3):
        total += i
        last = i * 2
    baco.store(y, total)
    baco.store(y + 1, last)


@pytest.mark.parametrize("n", [0, 2, 3, 5, 6, 20])
def test_integers_that_change_in_a_loop(n: int) -> None:
    y = np.zeros(2, np.int32)
    count.interpret[1](y, n)
    values = list(range(2, n, 3))
    assert list(y) == [sum(values), 2 * values[-1] if values else 7]
