"""Sums of models that are quantised already are requantised on their way out of machines that can: the same whole numbers."""

import numpy as np
import pytest

import baco
from baco.compiler.network.output_stage import requantised_parts
from baco.compiler.network.quantise import quantise
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import Requantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.given_models import GivenModel, saved
from tests.compiler.network.given_operators import PAIRS
from tests.compiler.network.test_net_given import drawn
from tests.seeds import some

MACHINE = "gemmini-default,dim=8,features.requantization=true"
NAMES = ("convolution", "padded", "with ReLU", "1-D", "transposed", "Gemm", "MatMul", "two layers")


def depthwise(m):
    """One scale for each of its channels."""
    x = m.rounded(m.input(1, 20, 6, 5), 0.03)
    w, scale = m.weight((20, 1, 3, 3))
    y = m("Conv", x, w, m.bias(20, m.scale_of(x) * scale), group=20, pads=[1] * 4)
    return m.rounded(y, 0.2)


def parts_of(network, dim):
    """For every product whose sums are requantised the parts that it is computed in."""
    sums = {op.output.value: op for op in network.operators if isinstance(op, Convolution | MatMul)}
    behind = [op for op in network.operators if isinstance(op, Requantise)]
    return [
        (one, requantised_parts(sums[one.input.value], one, network.constants[one.factors.value], dim))
        for one in behind
    ]


@pytest.mark.parametrize(
    "form",
    some(
        2,
        [
            {"kind": "uint8", "per_channel": True},
            {"kind": "int8"},
            {"kind": "int8", "zeros": False, "per_channel": True},
        ],
    ),
    ids=str,
)
def test_programs_give_the_models_whole_numbers(tmp_path, form):
    m = GivenModel(seed=6, **form)
    made = [*(PAIRS[name](m) for name in NAMES), depthwise(m)]
    run = baco.run(saved(m.build(*made), tmp_path), MACHINE, inputs=drawn(m))
    assert run.right, run.wrong
    assert run.agreement.judge.startswith(("onnx.reference", "onnxruntime"))
    assert not any("net_requantise" in step.function for step in run._measured.steps)


def test_groups_of_several_scales_stay_with_the_host(tmp_path):
    m = GivenModel(seed=6, kind="uint8", per_channel=True)
    run = baco.run(saved(m.build(PAIRS["in groups"](m)), tmp_path), MACHINE, inputs=drawn(m))
    assert run.right, run.wrong
    assert any("net_requantise" in step.function for step in run._measured.steps)


@pytest.mark.parametrize("dim", [4, 16])
def test_parts_are_the_whole(tmp_path, dim):
    """Channels of an operator, part by part, by numpy: every one by its own factor, none twice."""
    m = GivenModel(seed=2, kind="uint8", per_channel=True)
    inputs_of = [PAIRS["padded"](m), PAIRS["Gemm"](m)]
    path, inputs = saved(m.build(*inputs_of), tmp_path), drawn(m)
    network = quantise(load_network(path), [inputs])
    factors = network.constants
    for behind, parts in parts_of(network, dim):
        own = np.ascontiguousarray(factors[behind.factors.value]).view(np.float32).reshape(-1)
        assert np.array_equal(np.concatenate([part.factors for part in parts]), own)
        assert all(part.product.output.shape[-1] == len(part.factors) <= dim for part in parts)
        assert [part.start for part in parts] == list(range(0, len(own), dim))
