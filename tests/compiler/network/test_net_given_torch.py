"""Models that PyTorch's PT2E quantisation made run as they are; the judge is PyTorch itself."""

import importlib.util

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # which registers quantized_decomposed
from torch.nn import functional

import baco
from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.workloads.torch.graph import network_of_module

Q = torch.ops.quantized_decomposed
LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


class Given(torch.nn.Module):
    """Helpers of models that are quantised; weights are whole numbers."""

    def __init__(self, kind=torch.int8, per_channel=True, **weights):
        super().__init__()
        self.kind, self.per_channel = kind, per_channel
        random = torch.Generator().manual_seed(3)
        for name, shape in weights.items():
            whole = torch.randint(-127, 128, shape, generator=random, dtype=torch.int8)
            self.register_buffer(name, whole)
            self.register_buffer(f"{name}_scale", torch.rand(shape[0], generator=random) * 0.004 + 0.004)
            self.register_buffer(f"{name}_zero", torch.zeros(shape[0], dtype=torch.int64))
            self.register_buffer(f"{name}_bias", torch.randn(shape[0], generator=random))

    def weight(self, name):
        whole = getattr(self, name)
        if not self.per_channel:
            return Q.dequantize_per_tensor(whole, 0.0061, 0, -127, 127, torch.int8)
        scale, zero = getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero")
        return Q.dequantize_per_channel(whole, scale, zero, 0, -127, 127, torch.int8)

    def rounded(self, x, scale, zero=7):
        low, high = LIMITS[self.kind]
        numbers = scale, zero + (128 if low == 0 else 0), low, high, self.kind
        return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *numbers), *numbers)

    def chosen(self, x, name="choose_qparams"):
        limits = LIMITS[self.kind]
        pair = getattr(Q, name).tensor(x, *limits, 2**-12, self.kind)
        whole = Q.quantize_per_tensor.tensor(x, *pair, *limits, self.kind)
        return Q.dequantize_per_tensor.tensor(whole, *pair, *limits, self.kind)


class Operators(Given):
    """Each result is rounded, and an output."""

    def forward(self, x):
        x = self.rounded(x, 0.0231)
        a = self.rounded(functional.relu(functional.conv2d(x, self.weight("a"), self.a_bias, 1, 1)), 0.0613)
        b = self.rounded(functional.conv2d(a, self.weight("b"), self.b_bias, 1, 1, 1, 8), 0.1511)
        c = self.rounded(a + b, 0.1703)
        d = self.rounded(
            functional.hardtanh(functional.conv2d(c, self.weight("c"), None, 2), 0, 6), 0.0301, -100
        )
        e = self.rounded(functional.max_pool2d(d, 2), 0.0301, -100)
        f = self.rounded(functional.adaptive_avg_pool2d(e, 1).flatten(1), 0.0101, -90)
        g = self.rounded(functional.linear(f, self.weight("d"), self.d_bias), 0.0377)
        return a, b, c, d, e, f, g, self.rounded(torch.softmax(g, -1), 1 / 256, -128), torch.sigmoid(g)


STEPS = (0.0613, 0.1511, 0.1703, 0.0301, 0.0301, 0.0101, 0.0377, 1 / 256, 1e-5)
SHAPES = {"a": (8, 3, 3, 3), "b": (8, 1, 3, 3), "c": (6, 8, 1, 1), "d": (10, 6)}


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def judged(model, *inputs):
    """The network in integers, and each of its outputs beside PyTorch's."""
    network = network_of_module(model, inputs)
    given = {x.name: value.numpy() for x, value in zip(network.inputs, inputs, strict=True)}
    found = quantise(network, [given])
    values = reference(found, quantise_inputs(found, given))
    assert network.judge is not None
    _, wanted = network.judge(given)
    names = [name for name, _ in network.named_outputs]
    return found, [(np.asarray(real(found, values, n)), w) for n, w in zip(names, wanted, strict=True)]


@pytest.mark.parametrize(
    ("kind", "per_channel"),
    [
        # every kind either way, and either way some kind, every time
        pytest.param(kind, per_channel, marks=[pytest.mark.slow] * ((number + per_channel) % 2))
        for number, kind in enumerate(LIMITS)
        for per_channel in (False, True)
    ],
    ids=str,
)
def test_operators_give_the_models_whole_numbers(kind, per_channel):
    model = Operators(kind, per_channel, **SHAPES)
    network, outputs = judged(model, drawn(2, 3, 9, 9))
    kinds = [type(op).__name__ for op in network.operators]
    assert kinds.count("Convolution") == 3
    assert kinds.count("MatMul") == 1
    for (found, wanted), step in zip(outputs, STEPS, strict=True):
        assert len(np.unique(wanted)) > 2
        np.testing.assert_array_equal(np.rint(found / step), np.rint(wanted / step))


class Dynamic(Given):
    def __init__(self, *arguments, choice, **weights):
        super().__init__(*arguments, **weights)
        self.choice = choice

    def forward(self, x):
        y = functional.linear(self.chosen(x, self.choice), self.weight("a"), self.a_bias)
        z = self.chosen(torch.relu(y), self.choice)
        return y, functional.linear(z, self.weight("b")), z.sum(-1)


@pytest.mark.parametrize("kind", LIMITS, ids=str)
@pytest.mark.parametrize("choice", ["choose_qparams", "choose_qparams_symmetric"])
def test_scales_that_are_computed(kind, choice):
    model = Dynamic(kind, choice=choice, a=(24, 40), b=(5, 24))
    network, outputs = judged(model, drawn(3, 40))
    assert any(type(op).__name__ == "MatMul" for op in network.operators)
    for found, wanted in outputs:
        assert np.abs(found - wanted).max() <= 3e-6 * np.abs(wanted).max()


def test_a_product_of_numbers_with_a_computed_scale_is_the_arrays():
    class Line(Dynamic):
        def forward(self, x):
            return functional.linear(self.chosen(x), self.weight("a"), self.a_bias)

    network, ((found, wanted),) = judged(Line(choice="", a=(24, 40)), drawn(3, 40))
    assert [type(op).__name__ for op in network.operators].count("MatMul") == 1
    assert np.abs(found - wanted).max() <= 3e-6 * np.abs(wanted).max()


class Whole(Given):
    def forward(self, x):
        x = Q.dequantize_per_tensor(x, 0.03, 5, 0, 255, torch.uint8).reshape(2, -1)
        return Q.quantize_per_tensor(
            functional.linear(x, self.weight("a")), 0.11, -9, -128, 127, torch.int8
        ).t()


def test_whole_numbers_go_in_and_come_out():
    given = torch.randint(0, 256, (2, 4, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    network, ((found, wanted),) = judged(Whole(a=(7, 24)), given)
    assert [type(op).__name__ for op in network.operators] == ["MatMul", "Requantise"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_the_program_gives_what_pytorch_gives(engine):
    model, x = Operators(**SHAPES), drawn(1, 3, 6, 6)
    run = baco.run(network_of_module(model, x), "gemmini-default", inputs={"x": x.numpy()}, engine=engine)
    assert run.right, run.wrong
    for name, step, wanted in zip(run.outputs, STEPS, model(x), strict=True):
        np.testing.assert_array_equal(np.rint(run.outputs[name] / step), np.rint(wanted.numpy() / step))


class Broken(Given):
    """Of a pair that is wrong, on an activation or on weights."""

    def __init__(self, scale=0.1, zero=0, after=0.0, channels=None, axis=0):
        super().__init__(a=(4, 3))
        self.numbers, self.after, self.axis = (scale, zero), after, axis
        if channels:
            self.a_scale, self.a_zero = torch.full((channels,), scale), torch.full((channels,), zero)
        self.per_channel = bool(channels)

    def forward(self, x):
        scale, zero = self.numbers
        if self.per_channel:
            w = Q.dequantize_per_channel(self.a, self.a_scale, self.a_zero, self.axis, -128, 127, torch.int8)
            return functional.linear(x, w)
        x = Q.quantize_per_tensor(x, scale, zero, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(x, scale + self.after, zero, -128, 127, torch.int8)
        return functional.linear(x, self.weight("a"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scale": -0.5}, "quantize_per_tensor.*its scale is -0.5"),
        ({"scale": float("nan")}, "quantize_per_tensor.*its scale is nan"),
        ({"zero": 300}, "quantize_per_tensor.*zero point 300 is out of the range of int8"),
        ({"after": 0.1}, "dequantize_per_tensor.*differ from those of the quantisation before it"),
        ({"channels": 4, "scale": 0.0}, "dequantize_per_channel.*its scale is 0"),
        ({"channels": 5}, "dequantize_per_channel.*5 scales, but its axis 0 is 4 long"),
        ({"channels": 4, "axis": 1}, "dequantize_per_channel.*4 scales, but its axis 1 is 3 long"),
        ({"channels": 4, "zero": 200}, "dequantize_per_channel.*zero point 200 is out of the range"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_pair_is_said_with_the_nodes_name(changes, says):
    with pytest.raises(InputError, match=says):
        quantise(network_of_module(Broken(**changes), drawn(2, 3)))


@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="needs the package torchao")
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_torchao_writes(dynamic):
    """Prepared, calibrated and converted by its own quantiser."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    if not dynamic:
        image = torch.nn.Unflatten(1, (1, 4, 4)), torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        layers = *image, torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), *layers
    model, x = torch.nn.Sequential(*layers).eval(), drawn(4, 16)
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(
        torch.export.export(model, (x,)).module(), xnnpack.XNNPACKQuantizer().set_global(config)
    )
    prepared(x)
    network, ((found, wanted),) = judged(convert_pt2e(prepared), x)
    assert any(type(op).__name__ == "MatMul" for op in network.operators)
    if dynamic:
        assert np.abs(found - wanted).max() <= 3e-6 * np.abs(wanted).max()
    else:  # a bias in units of the sums is not the real one
        step = np.diff(np.unique(wanted)).min()
        apart = np.rint((found - wanted) / step)
        assert np.abs(apart).max() <= 1
        assert np.mean(apart != 0) <= 0.1
