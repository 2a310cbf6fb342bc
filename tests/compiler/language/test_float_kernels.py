"""Kernels on arrays of floating point, to the bit against float32 of numpy and rounding of ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import baco
import baco.language as bl
from baco.accel.config import Accelerator
from baco.compiler.language.compile import compile_launch
from tests.gemmini.float_machine import rounded_once
from tests.machines import BFLOATS, FLOATS, SMALL
from tests.seeds import seeds, some

ROOMY = FLOATS.replace(name="roomy", scratchpad_kib=4, accumulator_kib=2, input_format="fp8-e5m2")
TYPES = {"fp8-e4m3": ml_dtypes.float8_e4m3fn, "fp8-e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}
Array = np.ndarray[Any, Any]


@baco.jit
def layer(x, w, bias, y, M, N, K, scale, BM: baco.const, BN: baco.const, BK: baco.const):
    rows = bl.program_id(0) * BM + bl.arange(0, BM)
    columns = bl.program_id(1) * BN + bl.arange(0, BN)
    total = bl.zeros((BM, BN), "float32")
    total += bl.load(bias + columns)[None, :]
    for k in range(baco.cdiv(K, BK)):
        depth = k * BK + bl.arange(0, BK)
        xs = bl.load(x + rows[:, None] * K + depth[None, :])
        ws = bl.load(w + depth[:, None] * N + columns[None, :])
        total += bl.dot(xs, ws)
    result = bl.requantize(bl.maximum(total, 0.0), scale, y.dtype)
    bl.store(y + rows[:, None] * N + columns[None, :], result)


@baco.jit
def sums(a, b, c, M, N, K, BM: baco.const, BN: baco.const, BK: baco.const):
    """Sums that begin as what is there."""
    rows = bl.program_id(0) * BM + bl.arange(0, BM)
    columns = bl.program_id(1) * BN + bl.arange(0, BN)
    at = c + rows[:, None] * N + columns[None, :]
    total = bl.load(at)
    for k in range(baco.cdiv(K, BK)):
        depth = k * BK + bl.arange(0, BK)
        right = bl.load(b + columns[:, None] * K + depth[None, :]).T
        total = bl.dot(bl.load(a + rows[:, None] * K + depth[None, :]), right, acc=total)
    bl.store(at, total)


@baco.jit
def residual(a, b, first, r, y, M, N, K, scale, BM: baco.const, BN: baco.const):
    """Two products, of a depth of several blocks each, and what is added behind them."""
    rows = bl.program_id(0) * BM + bl.arange(0, BM)
    columns = bl.program_id(1) * BN + bl.arange(0, BN)
    depth = bl.arange(0, K)
    left = bl.load(a + rows[:, None] * K + depth[None, :])
    total = bl.dot(left, bl.load(b + depth[:, None] * N + columns[None, :]))
    total += bl.dot(left, bl.load(b + K * N + depth[:, None] * N + columns[None, :]))
    at = rows[:, None] * N + columns[None, :]
    total += bl.load(first + at)
    total += bl.load(r + at).to("float32")
    bl.store(y + at, bl.requantize(total, scale, y.dtype))


class Numpy:
    """The same with arrays of ml_dtypes, an addition at a time."""

    def __init__(self, machine: Accelerator) -> None:
        self.dim, self.type = machine.dim, TYPES[machine.input_format]

    def added(self, total: Array | None, a: Array, b: Array, step: int) -> Array:
        """float32 sums [M, N] with products of a [M, K] and b [K, N] added, `step` of the depth in a product of the text."""
        a, b = a.astype(np.float32), b.astype(np.float32)
        with np.errstate(all="ignore"):
            for begin in range(0, a.shape[1], step):
                end = min(begin + step, a.shape[1])
                for first in range(begin, end, self.dim):
                    block = np.zeros((len(a), b.shape[1]), np.float32)
                    for k in range(first, min(first + self.dim, end)):
                        block = block + a[:, k, None] * b[k]
                    total = block if total is None else total + block
        assert total is not None
        assert total.dtype == np.float32
        return total

    def rounded(self, sums: Array, scale: float, *, relu: bool = False) -> Array:
        largest = float(ml_dtypes.finfo(self.type).max)
        exact = sums.astype(np.float64) * scale
        if relu:
            exact = np.where(np.signbit(exact) & ~np.isnan(exact), 0.0, exact)
        with np.errstate(all="ignore"):
            return rounded_once(np.clip(exact, -largest, largest), self.type)


def numbers(random: np.random.Generator, shape: tuple[int, ...], kind: Any, *, any_code: bool) -> Array:
    """Numbers of like size, or of any codes, NaN and infinities among them."""
    if not any_code:
        return random.standard_normal(shape).astype(kind)
    integer = np.dtype(f"uint{8 * np.dtype(kind).itemsize}")
    return random.integers(0, np.iinfo(integer).max, shape, integer, endpoint=True).view(kind)


def same(found: Array, wanted: Array) -> bool:
    """Bit for bit, but for codes of NaN."""
    integer = np.dtype(f"uint{8 * found.dtype.itemsize}")
    lost = np.isnan(found) & np.isnan(wanted)
    return bool((lost | (found.view(integer) == wanted.view(integer))).all())


def check(
    launcher: Callable[[], Any],
    machine: Accelerator,
    engine: str,
    arrays: dict[str, Array],
    name: str,
    wanted: Array,
    **rest: Any,
) -> None:
    """Launched by an engine and by the interpreter, an array is what is wanted."""
    for how in (engine, "interpret"):
        own = {key: array.copy() for key, array in arrays.items()}
        launcher().options(accelerator=machine, engine=how)(**own, **rest)
        assert same(own[name], wanted), how


def draw(seed: int, dim: int) -> tuple[np.random.Generator, dict[str, int]]:
    random = np.random.default_rng(seed)
    sizes = {name: int(random.integers(1, 4 * dim)) for name in "MNK"}
    return random, sizes


MACHINES = [FLOATS, BFLOATS, ROOMY]


def each_kernel(machine: Accelerator, engine: str, seed: int) -> None:
    random, sizes = draw(seed, machine.dim)
    m, n, k = sizes.values()
    oracle, kind, wild = Numpy(machine), TYPES[machine.input_format], seed % 3 == 2
    blocks = {name: int(random.choice([2, 4, 6, 8])) for name in ("BM", "BN", "BK")}
    grid = baco.cdiv(m, blocks["BM"]), baco.cdiv(n, blocks["BN"])
    a, b, r = (numbers(random, shape, kind, any_code=wild) for shape in ((m, k), (k, n), (m, n)))
    bias, begin = (numbers(random, shape, np.float32, any_code=wild) for shape in ((n,), (m, n)))
    scale = 2.0 ** int(random.integers(-4, 5))

    total = oracle.added(np.broadcast_to(bias, (m, n)), a, b, blocks["BK"])
    arrays = {"x": a, "w": b, "bias": bias, "y": np.zeros((m, n), kind)}
    wanted = oracle.rounded(total, scale, relu=True)
    check(lambda: layer[grid], machine, engine, arrays, "y", wanted, **sizes, scale=scale, **blocks)

    arrays = {"a": a, "b": np.ascontiguousarray(b.T), "c": begin}
    check(
        lambda: sums[grid],
        machine,
        engine,
        arrays,
        "c",
        oracle.added(begin, a, b, blocks["BK"]),
        **sizes,
        **blocks,
    )

    twice = np.concatenate([b, np.roll(b, 1, 0)])
    total = oracle.added(oracle.added(None, a, twice[:k], k), a, twice[k:], k)
    with np.errstate(all="ignore"):
        total = (total + begin) + r.astype(np.float32)
    del blocks["BK"]
    arrays = {"a": a, "b": twice, "first": begin, "r": r, "y": np.zeros((m, n), kind)}
    wanted = oracle.rounded(total, scale)
    check(lambda: residual[grid], machine, engine, arrays, "y", wanted, **sizes, scale=scale, **blocks)


@pytest.mark.parametrize("seed", seeds(3, of=90))
def test_kernels(seed: int) -> None:
    each_kernel(MACHINES[seed % 3 if seed < 6 else seed // 3 % 3], "functional", seed)


@pytest.mark.parametrize("machine", some(1, [FLOATS, BFLOATS]), ids=lambda machine: machine.name)
def test_in_rtl(machine: Accelerator) -> None:
    for seed in (1, 2, 5):
        each_kernel(machine, "rtl", seed)


def test_product_as_a_layer_and_block_by_block() -> None:
    """A tiled product is the layer compiler's code where its blocks are whole ones of the array, with the same sums."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((16, 16)).astype(ml_dtypes.bfloat16) for _ in range(2))
    bias, y = np.zeros(16, np.float32), np.zeros((16, 16), ml_dtypes.bfloat16)

    def elf(depth: int, *, blockwise: bool) -> bytes:
        launch = layer[2, 2].bind(a, b, bias, y, 16, 16, 16, 1.0, 8, 8, depth)
        return bytes(compile_launch(launch, BFLOATS, blockwise=blockwise).elf)

    assert elf(8, blockwise=False) != elf(8, blockwise=True)
    # 6 products are no whole blocks of 4: in the layer's order others would be added up
    assert elf(6, blockwise=False) == elf(6, blockwise=True)


def test_torch_tensors() -> None:
    a, b = (torch.randn(8, 8).to(torch.bfloat16) for _ in range(2))
    bias, y = torch.zeros(8), torch.zeros(8, 8, dtype=torch.bfloat16)
    layer[1, 1].options(accelerator=BFLOATS)(a, b, bias, y, 8, 8, 8, 1.0, 8, 8, 8)
    numpy = [one.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for one in (a, b, y)]
    oracle = Numpy(BFLOATS)
    total = oracle.added(bias.numpy() + np.zeros((8, 8), np.float32), numpy[0], numpy[1], 8)
    assert same(numpy[2], oracle.rounded(total, 1.0, relu=True))


@baco.jit
def moved(x, y, N: baco.const):
    at = bl.arange(0, N)[:, None] * N + bl.arange(0, N)[None, :]
    bl.store(y + at, bl.load(x + at).T)


@baco.jit
def scalar(x, y):
    bl.store(y, bl.load(x) + bl.load(x + 1))


@baco.jit
def product(a, b, c, N: baco.const):
    at = bl.arange(0, N)[:, None] * N + bl.arange(0, N)[None, :]
    bl.store(c + at, bl.dot(bl.load(a + at), bl.load(b + at)))


@baco.jit
def scaled(x, y, scale: baco.const, N: baco.const):
    bl.store(y + bl.arange(0, N), bl.requantize(bl.load(x + bl.arange(0, N)), scale, "bfloat16"))


@baco.jit
def doubled(x, y, N: baco.const):
    bl.store(y + bl.arange(0, N), bl.load(x + bl.arange(0, N)) * 2)


@baco.jit
def larger(x, y, N: baco.const):
    bl.store(y + bl.arange(0, N), bl.maximum(bl.load(x + bl.arange(0, N)), 1))


@baco.jit
def row_sums(x, y, N: baco.const):
    bl.store(
        y + bl.arange(0, N), bl.sum(bl.load(x + bl.arange(0, N)[:, None] * N + bl.arange(0, N)[None, :]), 1)
    )


@baco.jit
def summed_elements(x, y, N: baco.const):
    bl.store(y + bl.arange(0, N), bl.load(x + bl.arange(0, N)) + bl.load(x + bl.arange(0, N)))


def test_blocks_are_moved_as_they_are() -> None:
    x = numbers(np.random.default_rng(0), (8, 8), np.float32, any_code=True)
    y = np.zeros_like(x)
    moved[1].options(accelerator=FLOATS)(x, y, 8)
    assert (y.view(np.int32) == x.T.view(np.int32)).all()


F32, BF16 = np.ones(64, np.float32), np.ones(64, ml_dtypes.bfloat16)
CODES, E4M3 = np.ones(64, np.int8), np.ones(64, ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize(
    ("launch", "machine", "message"),
    [
        (lambda: (product, (CODES, CODES, np.zeros(64, np.int32), 8)), FLOATS, "a product of integers, and floats computes elements of fp8-e4m3"),
        (lambda: (product, (E4M3, E4M3, F32.copy(), 8)), SMALL, "a product of elements of fp8-e4m3, and small computes integers"),
        (lambda: (product, (E4M3, E4M3, F32.copy(), 8)), BFLOATS, "a product of elements of fp8-e4m3, and bfloats computes elements of bf16"),
        (lambda: (product, (E4M3, BF16, F32.copy(), 8)), FLOATS, "an array has elements of one type"),
        (lambda: (product, (F32, F32, F32.copy(), 8)), FLOATS, "multiplies int8, uint8 or int16, or elements of floating point"),
        (lambda: (scaled, (F32, BF16.copy(), 0.3, 8)), BFLOATS, "the scale 0.3 is no power of two"),
        (lambda: (scaled, (F32, BF16.copy(), -0.5, 8)), BFLOATS, "the scale -0.5 is no power of two"),
        (lambda: (scaled, (F32, BF16.copy(), 0.5, 8)), BFLOATS, "arrays of floating point do not compute this"),
        (lambda: (scalar, (F32, F32.copy())), BFLOATS, "arrays of floating point do not compute this"),
        (lambda: (doubled, (F32, F32.copy(), 8)), FLOATS, "the constant 2 as float32"),
        (lambda: (larger, (F32, F32.copy(), 8)), FLOATS, "`maximum` of two blocks of float32"),
        (lambda: (row_sums, (F32, F32.copy(), 8)), FLOATS, "no reduce of floating point"),
        (lambda: (summed_elements, (BF16, BF16.copy(), 8)), BFLOATS, "sums are float32"),
    ],
)  # fmt: skip
def test_what_arrays_do_not_do(
    launch: Callable[[], tuple[Any, tuple[Any, ...]]], machine: Accelerator, message: str
) -> None:
    kernel, arguments = launch()
    with pytest.raises((baco.KernelError, baco.BacoError)) as error:
        kernel[1].options(accelerator=machine)(*arguments)
    assert message in str(error.value)
    assert "test_float_kernels.py" in str(error.value)
