"""Launches as users write them: compiled, run by an engine, results in the user's arrays, equal to numpy's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import baco
from baco.accel.config import Accelerator
from baco.common.cache import Cache
from baco.common.errors import BacoError
from baco.compiler.language import compile as compiling
from tests.compiler.language import example_kernels as kernels
from tests.machines import SMALL

RNG = np.random.default_rng(11)


def machine(dim: int) -> Accelerator:
    return Accelerator(dim=dim, scratchpad_kib=64, accumulator_kib=32)


def random_int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, dtype=np.int8)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def requantise(x: np.ndarray, scale: float) -> np.ndarray:
    return np.clip(np.rint(x.astype(np.float32) * np.float32(scale)), -128, 127).astype(np.int8)


def gemm(
    shape: tuple[int, int, int], blocks: tuple[int, int, int], **options: Any
) -> tuple[np.ndarray, np.ndarray, Any]:
    """(result, what it must be, what was measured) of the thesis' kernel."""
    M, N, K = shape
    a, b, c = random_int8(M, K), random_int8(K, N), np.full((M, N), 99, np.int32)
    grid = (baco.cdiv(M, blocks[0]) * baco.cdiv(N, blocks[1]),)
    launcher = kernels.matmul_kernel[grid].options(**options)
    result = launcher(a, b, c, M, N, K, K, 1, N, 1, N, 1, *blocks)
    return c, product(a, b), result


@pytest.mark.parametrize("dim", [4, 8, 16])
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((30, 20, 50), (16, 8, 16)),
        ((1, 1, 1), (16, 16, 16)),
        ((33, 17, 65), (16, 16, 32)),
        ((7, 40, 9), (8, 32, 8)),
    ],
)
def test_the_gemm_of_the_thesis(shape: tuple[int, int, int], blocks: tuple[int, int, int], dim: int) -> None:
    result, expected, measured = gemm(shape, blocks, accelerator=machine(dim))
    assert np.array_equal(result, expected)
    assert measured.engine == "functional"
    assert measured.commands["LOOP_WS"], "it runs on the accelerator, not on the host"


def test_the_gemm_of_the_thesis_in_rtl() -> None:
    result, expected, measured = gemm((10, 7, 13), (8, 4, 8), accelerator=SMALL, engine="rtl")
    assert np.array_equal(result, expected)
    assert measured.cycles > 0


def test_settings_for_all_launches() -> None:
    try:
        baco.use(accelerator=machine(8), engine="interpret")
        result, expected, measured = gemm((9, 9, 9), (8, 8, 8))
        assert measured is None
        assert np.array_equal(result, expected)
        _, _, measured = gemm((9, 9, 9), (8, 8, 8), engine="functional")
        assert measured.config_hash == machine(8).config_hash
    finally:
        baco.use(accelerator="gemmini-default", engine="functional")


def test_a_program_is_compiled_once_for_all_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = compiling.build_program
    monkeypatch.setattr(compiling, "_programs", type(compiling._programs)())
    monkeypatch.setattr(compiling, "build_program", lambda *a, **k: built.append(1) or build(*a, **k))
    for _ in range(3):
        result, expected, _ = gemm((9, 10, 11), (8, 8, 8), accelerator=machine(4))
        assert np.array_equal(result, expected)
    assert len(built) == 1
    gemm((9, 10, 12), (8, 8, 8), accelerator=machine(4))
    gemm((9, 10, 11), (8, 8, 8), accelerator=machine(8))
    assert len(built) == 3


def test_unknown_engine_and_accelerator() -> None:
    with pytest.raises(BacoError, match="engine"):
        gemm((4, 4, 4), (4, 4, 4), engine="fpga")
    with pytest.raises(BacoError, match="accelerator"):
        gemm((4, 4, 4), (4, 4, 4), accelerator="gemini")


def test_views_and_what_lies_between() -> None:
    whole = np.full((12, 20), 55, np.int32)
    a, b = random_int8(20, 30)[:13, :9].T, random_int8(13, 7)
    c = whole[2:11, 5:12]
    strides = [stride // array.itemsize for array in (a, b, c) for stride in array.strides]
    kernels.matmul_kernel[2].options(accelerator=machine(4))(a, b, c, 9, 7, 13, *strides, 8, 8, 8)
    expected = np.full_like(whole, 55)
    expected[2:11, 5:12] = product(a, b)
    assert np.array_equal(whole, expected)


def test_torch() -> None:
    x, y = (torch.tensor(random_int8(40)) for _ in range(2))
    out = torch.zeros(40, dtype=torch.int8)
    kernels.add_kernel[baco.cdiv(40, 16)].options(accelerator=machine(4))(x, y, out, 40, 16)
    assert torch.equal(out, x + y)


def test_arguments_that_share_memory() -> None:
    whole = np.arange(64, dtype=np.int32)
    expected = whole.copy()
    expected[32:] = whole[:32] + whole[16:48]
    kernels.add_kernel[1].options(accelerator=machine(4))(whole[:32], whole[16:48], whole[32:], 32, 32)
    assert np.array_equal(whole, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_element_types(dtype: str) -> None:
    info = np.iinfo(dtype)
    x, y = (RNG.integers(info.min, info.max + 1, 50, dtype=dtype) for _ in range(2))
    out = np.zeros_like(x)
    kernels.add_kernel[baco.cdiv(50, 32)].options(accelerator=machine(4))(x, y, out, 50, BLOCK=32)
    assert np.array_equal(out, x + y)


@pytest.mark.parametrize("name", ["matmul_by_index", "matmul_block_pointers", "matmul_masked"])
@pytest.mark.parametrize("shape", [(16, 16, 16), (30, 20, 50), (5, 7, 3)])
def test_other_ways_to_write_a_gemm(name: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b, c = random_int8(M, K), random_int8(K, N), np.full((M, N), 99, np.int32)
    rows, columns = baco.cdiv(M, 16), baco.cdiv(N, 8)
    if name == "matmul_masked":
        kernels.matmul_masked[rows * columns].options(accelerator=machine(8))(a, b, c, M, N, K, 16, 8, 16, 2)
    else:
        getattr(kernels, name)[rows, columns].options(accelerator=machine(8))(a, b, c, M, N, K, 16, 8, 16)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_fused_layer(with_bias: bool, with_residual: bool) -> None:
    M, N, K, scale = 19, 21, 40, 0.01
    x, w, y = random_int8(M, K), random_int8(K, N), np.zeros((M, N), np.int8)
    bias, residual = RNG.integers(-3000, 3000, N, dtype=np.int32), random_int8(M, N)
    measured = kernels.fused_layer[baco.cdiv(M, 16), baco.cdiv(N, 16)].options(accelerator=machine(8))(
        x, w, bias if with_bias else None, residual if with_residual else None, y, M, N, K, scale, 16, 16, 16
    )
    total = product(x, w) + with_bias * bias + with_residual * residual.astype(np.int32)
    assert np.array_equal(y, requantise(np.maximum(total, 0), scale))
    assert measured.commands["MVOUT" if with_residual else "LOOP_WS"] > 0


def test_batched_gemm() -> None:
    a, b, c = random_int8(3, 18, 20), random_int8(3, 20, 9), np.zeros((3, 18, 9), np.int32)
    grid = (baco.cdiv(18, 8), baco.cdiv(9, 8), 3)
    kernels.batched_matmul[grid].options(accelerator=machine(4))(a, b, c, 18, 9, 20, 8, 8, 8)
    assert np.array_equal(c, product(a, b))


def test_transposition() -> None:
    x, y = random_int8(13, 37), np.zeros((37, 13), np.int8)
    grid = (baco.cdiv(13, 8), baco.cdiv(37, 16))
    kernels.transpose_kernel[grid].options(accelerator=machine(4))(x, y, 13, 37, 8, 16)
    assert np.array_equal(y, x.T)


def test_max_pool() -> None:
    x, y = random_int8(14, 11), np.zeros((6, 5), np.int8)
    grid = (baco.cdiv(6, 4), baco.cdiv(5, 4))
    kernels.max_pool_kernel[grid].options(accelerator=machine(4))(x, y, 14, 11, 6, 5, 3, 2, 4, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::2, ::2]
    assert np.array_equal(y, windows.max((2, 3)))


@pytest.mark.parametrize(("pad", "stride"), [(0, 1), (1, 1), (1, 2)])
def test_convolution_with_padding(pad: int, stride: int) -> None:
    H, W, C, R, S, K = 7, 9, 5, 3, 3, 6
    P, Q = (H + 2 * pad - R) // stride + 1, (W + 2 * pad - S) // stride + 1
    x, w, y = random_int8(H, W, C), random_int8(R, S, C, K), np.zeros((P, Q, K), np.int32)
    grid = (P, baco.cdiv(Q, 4), baco.cdiv(K, 4))
    measured = kernels.convolution_kernel[grid].options(accelerator=machine(4))(
        x, w, y, H, W, C, R, S, P, Q, K, pad, stride, 4, 4, 4
    )
    assert measured.commands["PRELOAD"] > 0, "padding and strides stay on the accelerator"
    image = torch.tensor(x).permute(2, 0, 1)[None].double()
    filters = torch.tensor(w).permute(3, 2, 0, 1).double()
    expected = torch.nn.functional.conv2d(image, filters, padding=pad, stride=stride)[0].permute(1, 2, 0)
    assert np.array_equal(y, expected.numpy().astype(np.int32))


def test_gather() -> None:
    table, ids = random_int8(50, 16), RNG.integers(0, 50, 21, dtype=np.int32)
    out = np.zeros((21, 16), np.int8)
    kernels.embedding_kernel[baco.cdiv(21, 8)].options(accelerator=machine(4))(table, ids, out, 21, 16, 8)
    assert np.array_equal(out, table[ids])


def test_chained_products() -> None:
    T, D = 21, 12
    q, k, v = (random_int8(T, D) for _ in range(3))
    out = np.zeros((T, D), np.int8)
    kernels.attention_scores[baco.cdiv(T, 8)].options(accelerator=machine(4))(
        q, k, v, out, T, D, 100, 0.002, 0.01, 8, 16
    )
    weights = np.maximum(requantise(product(q, k.T) + 100, 0.002), 0)
    assert np.array_equal(out, requantise(product(weights, v), 0.01))


BOTH = pytest.mark.parametrize(
    "options", [{"engine": "interpret"}, {"accelerator": machine(4)}], ids=["numpy", "dim4"]
)


@BOTH
def test_loops_whose_bounds_are_data(options: dict[str, Any]) -> None:
    matrix = (RNG.random((7, 9)) < 0.4) * RNG.integers(-9, 9, (7, 9))
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    columns = np.nonzero(matrix)[1].astype(np.int32)
    values = matrix[matrix != 0].astype(np.int32)
    x, y = RNG.integers(-100, 100, 9, dtype=np.int32), np.zeros(7, np.int32)
    kernels.sparse_matrix_times_vector[1].options(**options)(starts, columns, values, x, y, 7)
    assert np.array_equal(y, matrix @ x)


@BOTH
@pytest.mark.parametrize("shape", [(16, 16, 16), (21, 13, 19)])
def test_rows_modulo_the_size(shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    M, N, K = shape
    a, b, c = random_int8(M, K), random_int8(K, N), np.full((M, N), 99, np.int32)
    launcher = kernels.matmul_wrapped[baco.cdiv(M, 8) * baco.cdiv(N, 8)].options(**options)
    launcher(a, b, c, M, N, K, 8, 8, 8)
    assert np.array_equal(c, product(a, b))


@BOTH
def test_rows_that_are_data(options: dict[str, Any]) -> None:
    a, b, c = random_int8(30, 19), random_int8(19, 9), np.full((11, 9), 99, np.int32)
    which = RNG.integers(0, 30, 11, dtype=np.int32)
    launcher = kernels.gathered_matmul[baco.cdiv(11, 8), baco.cdiv(9, 8)].options(**options)
    launcher(a, which, b, c, 11, 9, 19, 8, 8, 8)
    assert np.array_equal(c, product(a[which], b))


@BOTH
def test_three_dimensions(options: dict[str, Any]) -> None:
    x, y = random_int8(3, 4, 5), np.zeros((5, 3, 4), np.int8)
    kernels.permuted_kernel[1].options(**options)(x, y, 3, 4, 5)
    assert np.array_equal(y, x.transpose(2, 0, 1))


@BOTH
def test_numbers(options: dict[str, Any]) -> None:
    x, y = random_int8(17), np.zeros(2, np.int8)
    kernels.maximum_kernel[1].options(**options)(x, y, 17)
    assert list(y) == [x.max(), x.max() > 3]


@BOTH
@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_products_of_signed_and_unsigned(left: str, right: str, options: dict[str, Any]) -> None:
    a = RNG.integers(np.iinfo(left).min, np.iinfo(left).max + 1, (5, 6), dtype=left)
    b = RNG.integers(np.iinfo(right).min, np.iinfo(right).max + 1, (6, 7), dtype=right)
    c = np.zeros((5, 7), np.int32)
    kernels.mixed_product[1].options(**options)(a, b, c, 5, 7, 6)
    assert np.array_equal(c, product(a, b))


def test_blocks_that_do_not_fit_the_accelerator() -> None:
    small = Accelerator(dim=4, scratchpad_kib=4, accumulator_kib=2)
    with pytest.raises(BacoError, match=r"(accumulator|scratchpad)") as caught:
        gemm((256, 256, 256), (256, 256, 256), accelerator=small)
    location = caught.value.location
    assert location is not None
    assert location.file.endswith("example_kernels.py")
    lines = str(caught.value).splitlines()
    assert location.line is not None
    source = Path(location.file).read_text().splitlines()[location.line - 1]
    assert lines[1].strip() == source.strip()
    assert lines[2].strip().startswith("^")


TUNED = [{"BM": 4, "BN": 4, "BK": 4}, {"BM": 16, "BN": 16, "BK": 16}, {"BM": 512, "BN": 512, "BK": 512}]


def tuned(**options: Any) -> Any:
    configs = [baco.Config(constants) for constants in TUNED]
    return baco.autotune(configs, key=["M", "N", "K"], **options)(kernels.matmul_by_index)


def test_autotune_takes_the_cost_that_it_is_given() -> None:
    seen = []

    def cost(candidate: Any) -> float:
        seen.append(dict(candidate.config.constants))
        assert candidate.arrays["a"].shape == (10, 12)
        return {4: 3.0, 16: 1.0, 512: 2.0}[candidate.config.constants["BM"]]

    kernel = tuned(cost=cost)
    a, b, c = random_int8(10, 12), random_int8(12, 9), np.zeros((10, 9), np.int32)
    grid = lambda meta: (baco.cdiv(meta["M"], meta["BM"]), baco.cdiv(meta["N"], meta["BN"]))  # noqa: E731
    for _ in range(2):
        c[:] = 0
        kernel[grid].options(accelerator=machine(4))(a, b, c, 10, 9, 12)
        assert np.array_equal(c, product(a, b))
    assert seen == TUNED, "chosen once for a key"
    assert kernel[grid].bind(a, b, c, 10, 9, 12).constants["BM"] == 16


def test_autotune_takes_what_is_fast_in_rtl() -> None:
    sizes = [
        {"BM": 128, "BN": 16, "BK": 128},
        {"BM": 16, "BN": 16, "BK": 16},
        {"BM": 16, "BN": 256, "BK": 16},
    ]
    m, n, k = 128, 256, 64
    a, b, c = random_int8(m, k), random_int8(k, n), np.zeros((m, n), np.int32)
    grid = lambda meta: (baco.cdiv(m, meta["BM"]), baco.cdiv(n, meta["BN"]))  # noqa: E731
    kernel = baco.autotune([baco.Config(one) for one in sizes])(kernels.matmul_by_index)
    chosen = kernel[grid].bind(a, b, c, m, n, k).constants
    cycles = [
        baco.do_bench(lambda one=one: kernels.matmul_by_index[grid](a, b, c, m, n, k, **one)) for one in sizes
    ]
    assert np.array_equal(c, product(a, b))
    best = cycles[sizes.index({name: chosen[name] for name in sizes[0]})]
    assert best < max(cycles)
    assert best <= 1.05 * min(cycles), "as near as predictions are"


def test_autotune_prunes_and_measures_as_triton_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baco.compiler.language.autotune.Cache", lambda: Cache(tmp_path))
    seen, a, b, c = [], random_int8(32, 32), random_int8(32, 32), np.zeros((32, 32), np.int32)

    def prune(configs: Any, arguments: Any) -> Any:
        assert arguments["M"] == 32
        assert arguments["a"].shape == (32, 32)
        return configs[:2]

    def model(candidate: Any) -> float:
        seen.append(candidate.config.constants["BM"])
        return float(candidate.config.constants["BM"])

    kernel = tuned(prune_configs_by={"early_config_prune": prune, "perf_model": model, "top_k": 1})
    grid = lambda meta: (baco.cdiv(32, meta["BM"]), baco.cdiv(32, meta["BN"]))  # noqa: E731
    assert kernel[grid].bind(a, b, c, 32, 32, 32).constants["BM"] == 4
    assert seen == [4, 16]
    assert not c.any(), "arrays of the user's do not change while kernels are measured"
    (entry,) = (tmp_path / "baco-cache" / "entries").glob("autotune-*")
    assert int((entry / "cycles.json").read_text()) == baco.do_bench(
        lambda: kernel[grid](a, b, c, 32, 32, 32)
    )


@pytest.mark.parametrize(
    ("by", "message"),
    [({"top": 3}, "prunes by no 'top'"), ({"top_k": 0}, "top_k is a number"), ({"early_config_prune": lambda *_: []}, "gives some of")],
)  # fmt: skip
def test_autotune_refuses_what_is_no_pruning(by: Any, message: str) -> None:
    a, b, c = random_int8(8, 8), random_int8(8, 8), np.zeros((8, 8), np.int32)
    with pytest.raises(baco.KernelError, match=message):
        tuned(prune_configs_by=by)[1, 1].bind(a, b, c, 8, 8, 8)


def test_do_bench_wants_what_a_launch_measured() -> None:
    with pytest.raises(baco.KernelError, match="a function that launches a kernel in RTL"):
        baco.do_bench(lambda: None)


def test_autotune_passes_over_what_does_not_fit() -> None:
    big = {"BM": 128, "BN": 128, "BK": 128}
    kernel = baco.autotune([baco.Config(big), baco.Config(TUNED[0])])(kernels.matmul_by_index)
    a, b, c = random_int8(130, 20), random_int8(20, 130), np.zeros((130, 130), np.int32)
    grid = lambda meta: (baco.cdiv(130, meta["BM"]), baco.cdiv(130, meta["BN"]))  # noqa: E731
    small = Accelerator(dim=4, scratchpad_kib=4, accumulator_kib=2)
    kernel[grid].options(accelerator=small)(a, b, c, 130, 130, 20)
    assert np.array_equal(c, product(a, b))
    assert kernel[grid].options(accelerator=small).bind(a, b, c, 130, 130, 20).constants["BM"] == 4


def test_autotune_with_nothing_that_fits() -> None:
    def cost(candidate: Any) -> float:
        raise baco_infeasible()

    from baco.common.errors import InfeasibleError

    def baco_infeasible() -> InfeasibleError:
        return InfeasibleError("no room")

    kernel = tuned(cost=cost)
    a, b, c = random_int8(8, 8), random_int8(8, 8), np.zeros((8, 8), np.int32)
    with pytest.raises(InfeasibleError, match=r"none of the configurations(.|\n)*BM=4, BN=4, BK=4: no room"):
        kernel[1, 1].bind(a, b, c, 8, 8, 8)
