"""PyTorch's rolls, uneven averages, selections and mirrored padding against PyTorch itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import baco
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference


class Behind(nn.Module):
    """A function of a convolution's results."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 8, 3)
        self.function = function

    def forward(self, x):
        return self.function(self.conv(x))


CASES = {
    "roll of two dimensions": lambda t: torch.roll(t, (3, -2), (2, 3)),
    "roll of all": lambda t: torch.roll(t, 5),
    "a list of channels": lambda t: t[:, [3, 0, 7, 7]],
    "index_select": lambda t: torch.index_select(t, 2, torch.tensor([4, 1])),
    "reflection": lambda t: nn.functional.pad(t, (1, 2, 3, 0), mode="reflect"),
    "replication": lambda t: nn.functional.pad(t, (2, 0, 1, 1), mode="replicate"),
    "circular": lambda t: nn.functional.pad(t, (2, 1, 1, 3), mode="circular"),
    "uneven averages": nn.AdaptiveAvgPool2d((3, 7)),
    "even averages": nn.AdaptiveAvgPool2d(5),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(name):
    model = Behind(CASES[name]).eval()
    x = torch.tensor(np.random.default_rng(1).uniform(-1, 1, (1, 3, 12, 12)).astype(np.float32))
    network = baco.network(model, x)
    inputs = {network.inputs[0].name: x.numpy()}
    quantised = quantise(network, [inputs])
    elements = reference(quantised, quantise_inputs(quantised, inputs))
    found = np.asarray(real(quantised, elements, next(iter(quantised.outputs))))
    with torch.no_grad():
        wanted = model(x).numpy()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 0.04 * np.abs(wanted).max()


@pytest.mark.parametrize("filled", [False, True])
def test_choices_by_a_comparison(filled):
    def choose(t):
        return t.masked_fill(t > 0, 0.5) if filled else torch.where(t > 0, t, -0.5 * t)

    model = Behind(choose).eval()
    x = torch.tensor(np.random.default_rng(2).uniform(-1, 1, (1, 3, 6, 6)).astype(np.float32))
    network = baco.network(model, x)
    inputs = {network.inputs[0].name: x.numpy()}
    quantised = quantise(network, [inputs])
    elements = reference(quantised, quantise_inputs(quantised, inputs))
    found = np.asarray(real(quantised, elements, next(iter(quantised.outputs))))
    with torch.no_grad():
        before, wanted = model.conv(x).numpy(), model(x).numpy()
    clear = np.abs(before) > 0.05  # near 0 the comparison of int8 may fall on the other side
    assert clear.mean() > 0.5
    assert np.abs(found - wanted)[clear].max() <= 0.05 * np.abs(wanted).max()
