"""`baco bench compiler`: its layers, programs and report."""

import pytest

from baco.accel.presets import load_accelerator
from baco.bench import compiler
from baco.bench.layer_shapes import layer_shapes
from baco.common.errors import InputError
from baco.compiler.choice.choose import choose
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


def test_nothing_to_run():
    with pytest.raises(InputError, match="no layer of gemm is called like 'xyz'"):
        compiler.run(SMALL, ("gemm",), only="xyz")


@pytest.mark.slow
def test_bench(tmp_path):
    machine = SMALL.replace(scratchpad_kib=64, accumulator_kib=32)
    result = compiler.run(machine, ("gemm",), only="scores 12", out=tmp_path, store=tmp_path / "kept.sqlite")
    (row,) = result["layers"]
    assert row["ours"]["cycles"] >= row["bound"]
    assert row["ratio"] == row["ours"]["cycles"] / row["bound"]
    assert row["against"] == row["ours"]["cycles"] / row["heuristic"]["cycles"]
    text = (tmp_path / "compiler-quality.md").read_text()
    assert "BERT scores" in text
    assert text == compiler.page(result)
