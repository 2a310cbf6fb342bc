"""Launches as users write them: compiled, run by an engine, results in the user's arrays, equal to numpy's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baco
from baco.accel.config import Accelerator
from baco.common.cache import Cache
from baco.common.errors import BacoError
from baco.compiler.language import compile as compiling
from tests.compiler import product_kernels as kernels
from tests.compiler.blocks.block_run import machine
from tests.compiler.kernels import CASES
from tests.machines import SMALL

RNG = np.random.default_rng(11)


def random_int8(*shape: int) -> np.ndarray:
    return kernels.int8s(RNG, *shape)


def gemm(shape: tuple[int, int, int], blocks: tuple[int, int, int], **options: Any) -> Any:
    """What was measured of the thesis' kernel, whose result is right."""
    return kernels.gemm(RNG, shape, blocks).launch(**options)


@pytest.mark.parametrize("dim", [4, 8, 16])
@pytest.mark.parametrize(("shape", "blocks"), [((1, 1, 1), (16, 16, 16)), ((33, 17, 65), (16, 16, 32))])
def test_the_gemm_of_the_thesis(shape: tuple[int, int, int], blocks: tuple[int, int, int], dim: int) -> None:
    measured = gemm(shape, blocks, accelerator=machine(dim))
    assert measured.engine == "functional"
    assert measured.commands["LOOP_WS"], "it runs on the accelerator, not on the host"


def test_the_gemm_of_the_thesis_in_rtl() -> None:
    assert gemm((10, 7, 13), (8, 4, 8), accelerator=SMALL, engine="rtl").cycles > 0


@pytest.mark.parametrize(
    ("name", "command"),
    [("fused", "MVOUT"), ("fused without residual", "LOOP_WS"), ("convolution in steps", "PRELOAD")],
)
def test_what_runs_on_the_accelerator(name: str, command: str) -> None:
    """Epilogues by the macro or by stores, padding and strides by moves."""
    assert CASES[name](RNG).launch(accelerator=machine(8)).commands[command] > 0


def test_settings_for_all_launches() -> None:
    try:
        baco.use(accelerator=machine(8), engine="interpret")
        assert gemm((9, 9, 9), (8, 8, 8)) is None
        measured = gemm((9, 9, 9), (8, 8, 8), engine="functional")
        assert measured.config_hash == machine(8).config_hash
    finally:
        baco.use(accelerator="gemmini-default", engine="functional")


def test_a_program_is_compiled_once_for_all_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = compiling.build_program
    monkeypatch.setattr(compiling, "_programs", type(compiling._programs)())
    monkeypatch.setattr(compiling, "build_program", lambda *a, **k: built.append(1) or build(*a, **k))
    for _ in range(3):
        gemm((9, 10, 11), (8, 8, 8), accelerator=machine(4))
    assert len(built) == 1
    gemm((9, 10, 12), (8, 8, 8), accelerator=machine(4))
    gemm((9, 10, 11), (8, 8, 8), accelerator=machine(8))
    assert len(built) == 3


def test_unknown_engine_and_accelerator() -> None:
    with pytest.raises(BacoError, match="engine"):
        gemm((4, 4, 4), (4, 4, 4), engine="fpga")
    with pytest.raises(BacoError, match="accelerator"):
        gemm((4, 4, 4), (4, 4, 4), accelerator="gemini")


def test_blocks_that_do_not_fit_the_accelerator() -> None:
    small = Accelerator(dim=4, scratchpad_kib=4, accumulator_kib=2)
    with pytest.raises(BacoError, match=r"(accumulator|scratchpad)") as caught:
        gemm((256, 256, 256), (256, 256, 256), accelerator=small)
    location = caught.value.location
    assert location is not None
    assert location.file.endswith("product_kernels.py")
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
        assert np.array_equal(c, kernels.dot(a, b))
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
    kernel = baco.autotune([baco.Config(size) for size in sizes])(kernels.matmul_by_index)
    chosen = kernel[grid].bind(a, b, c, m, n, k).constants
    cycles = [
        baco.do_bench(lambda size=size: kernels.matmul_by_index[grid](a, b, c, m, n, k, **size))
        for size in sizes
    ]
    assert np.array_equal(c, kernels.dot(a, b))
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
    assert np.array_equal(c, kernels.dot(a, b))
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
