"""`baco bench compiler`: its layers, programs and report."""

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.bench.compiler import bench_compiler, geometric_mean, layer_program, report_text
from baco.bench.layer_shapes import layer_shapes
from baco.common.errors import InputError
from baco.compiler.choice.choose import choose
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.machines import SMALL


def test_layers():
    layers = layer_shapes(["resnet50", "gemm"])
    assert [sum(one.set == name for one in layers) for name in ("resnet50", "gemm")] == [24, 10]
    assert len({one.name for one in layers}) == len(layers)
    first = layers[0].layer
    assert first.size == (224, 224)
    assert first.padding == (3, 3)
    with pytest.raises(InputError, match="no set of layers is called 'resnet5'; did you mean 'resnet50'"):
        layer_shapes(["resnet5"])


def test_layers_can_be_scheduled():
    """On the default machine every layer gets a macro."""
    accelerator = load_accelerator("gemmini-default")
    for one in layer_shapes(["resnet50", "gemm"])[::5]:
        assert "explicit" not in str(choose(one.layer, accelerator))


def test_program():
    """Against numpy integers; sums go through a workspace."""
    layer = Layer(Problem(P=9, K=10, C=11), bias=True, residual_scale=None, scale=2.0**-5)
    program = layer_program(layer, LoopWsSchedule(1, 1, 1, "kij"), SMALL)
    outputs, _ = run_program(program)
    a = program.buffer("input").data.reshape(9, 11).astype(np.int64)
    b = program.buffer("weight").data.reshape(11, 10).astype(np.int64)
    total = a @ b + program.buffer("bias").data
    wanted = np.clip(np.rint(total * layer.scale), -128, 127)
    assert np.array_equal(outputs["output"].reshape(9, 10), wanted)


def test_nothing_to_run():
    with pytest.raises(InputError, match="no layer of gemm is called like 'xyz'"):
        bench_compiler(SMALL, ("gemm",), only="xyz")


def test_geometric_mean():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


@pytest.mark.slow
def test_bench(tmp_path):
    machine = SMALL.replace(scratchpad_kib=64, accumulator_kib=32)
    result = bench_compiler(machine, ("gemm",), only="scores 12", out=tmp_path)
    (row,) = result["layers"]
    assert row["ours"]["cycles"] >= row["bound"]
    assert row["ours"]["digest"] == row["heuristic"]["digest"]
    assert row["ratio"] == row["ours"]["cycles"] / row["bound"]
    assert "BERT scores" in (tmp_path / "compiler-quality.md").read_text()
    assert report_text(result) in (tmp_path / "compiler-quality.md").read_text()
