"""Normalisations and softmaxes that models spell out run as one operator, and forms that only look like them do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import baco
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.compiler.ops.rows import Normalisation, Reduction, Softmax, TermSum

GAIN, SHIFT = torch.rand(24) + 0.5, torch.randn(24)


def _flax(x):
    mean = x.sum(-1, keepdim=True) / 24
    variance = torch.relu((x * x).sum(-1, keepdim=True) * (1 / 24) - mean * mean)
    return (x - mean) * (torch.rsqrt(variance + 1e-5) * GAIN) + SHIFT


def _paddle(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * GAIN + SHIFT


def _twice_centred(x):
    variance = torch.square(x - x.mean(-1, keepdim=True)).mean(-1, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * (variance + 1e-5).pow(-0.5)


def _of_two_dimensions(x):
    centred = x - x.mean((-2, -1), keepdim=True)
    return centred * torch.reciprocal(torch.sqrt((centred * centred).mean((-2, -1), keepdim=True)))


def _softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def _log_softmax(x):
    below = x - x.amax(-1, keepdim=True)
    return below - torch.log(torch.exp(below).sum(-1, keepdim=True))


NORMALISED = {
    "as Flax has it": _flax,
    "as Paddle has it": _paddle,
    "centred twice": _twice_centred,
    "of two dimensions": _of_two_dimensions,
    "as Llama has it": lambda x: GAIN * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "a quotient by the root mean square": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True)) * GAIN,
}
OTHERS = {
    "of another dimension": lambda x: (x - x.mean(1, keepdim=True)) / torch.sqrt(((x - x.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) + 1e-5),
    "without one in the count": lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(((x - x.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True) / 20 + 1e-5),
    "a large number added": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 3.0),
    "the spread of another": lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(((2 * x) ** 2).mean(-1, keepdim=True) + 1e-5),
}  # fmt: skip


class Behind(nn.Module):
    """A function of a product's results."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(4)
        self.line, self.function = nn.Linear(16, 24), function

    def forward(self, x):
        return self.function(self.line(x))


def _run(function):
    """(operators of the network in integers, largest error as a part of the range)."""
    model = Behind(function).eval()
    x = torch.tensor(np.random.default_rng(2).standard_normal((1, 6, 16)).astype(np.float32))
    network = baco.network(model, x)
    inputs = {network.inputs[0].name: x.numpy()}
    quantised = quantise(network, [inputs])
    values = reference(quantised, quantise_inputs(quantised, inputs))
    found = real(quantised, values, next(iter(quantised.outputs)))
    with torch.no_grad():
        wanted = model(x).numpy()
    return quantised.operators, float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", NORMALISED)
def test_normalisations_are_one_operator(name):
    operators, error = _run(NORMALISED[name])
    assert sum(isinstance(op, Normalisation) for op in operators) == 1
    assert len(operators) == 2  # the product is the other one
    assert error < 0.03


@pytest.mark.parametrize("above", [False, True])
def test_softmaxes_are_one_operator(above):
    function = _softmax if above else lambda x: x.exp() / x.exp().sum(-1, keepdim=True)
    operators, error = _run(function)
    assert sum(isinstance(op, Softmax) for op in operators) == 1
    assert len(operators) == 2
    assert error < 0.03


@pytest.mark.parametrize("above", [False, True])
def test_logarithms_of_softmaxes_are_one_operator(above):
    function = _log_softmax if above else lambda x: x - x.exp().sum(-1, keepdim=True).log()
    operators, error = _run(function)
    named, _ = _run(lambda x: torch.log_softmax(x, -1))
    assert [type(op) for op in operators] == [type(op) for op in named]
    assert error < 0.03


def test_a_logarithm_of_what_is_below_the_maximum_is_no_softmax_of_all():
    operators, error = _run(lambda x: x - (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True).log())
    assert not any(isinstance(op, TermSum) for op in operators)
    assert error < 0.1


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_one_is_left_as_it_is(name):
    operators, error = _run(OTHERS[name])
    assert not any(isinstance(op, Normalisation) for op in operators)
    assert any(isinstance(op, Reduction) for op in operators) or name == "of another dimension"
    assert error < 0.2
