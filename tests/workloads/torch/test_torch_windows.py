"""Convolutions of three dimensions and with computed weights, masks and constants of modules, against PyTorch itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import baco


class Of(nn.Module):
    """A function of tensors, with modules of its own."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def _video(**options):
    return lambda: (Of(lambda m, x: m.c(x), c=nn.Conv3d(4, 6, 3, **options)), [(1, 4, 5, 7, 8)])


def _pooled(function):
    return lambda: (Of(lambda m, x: function(m.c(x)), c=nn.Conv3d(2, 4, 3, padding=1)), [(2, 2, 6, 7, 8)])


CASES = {
    "3-D": _video(),
    "3-D, padded and dilated": _video(padding=(1, 2, 0), dilation=(2, 1, 2)),
    "3-D, strides and groups": _video(stride=(2, 1, 2), groups=2, bias=False),
    "3-D, padded to the same": _video(padding="same"),
    "3-D, kernel of depth 1": lambda: (Of(lambda m, x: m.c(x), c=nn.Conv3d(2, 3, (1, 3, 3))), [(1, 2, 4, 5, 5)]),
    "3-D, no batch": lambda: (Of(lambda m, x: m.c(x), c=nn.Conv3d(2, 3, 2)), [(2, 4, 5, 5)]),
    "3-D maximum": _pooled(lambda t: F.max_pool3d(t, (2, 3, 2), (1, 2, 2), padding=(1, 1, 0))),
    "3-D maximum, rounded up": _pooled(lambda t: F.max_pool3d(t, 3, 2, ceil_mode=True)),
    "3-D mean": _pooled(lambda t: F.avg_pool3d(t, 2)),
    "3-D mean without padding": _pooled(lambda t: F.avg_pool3d(t, 3, 2, padding=1, count_include_pad=False)),
    "3-D mean of all": _pooled(lambda t: F.adaptive_avg_pool3d(t, 1).flatten(1)),
    "3-D uneven means": _pooled(lambda t: F.adaptive_avg_pool3d(t, (2, 3, 5))),
    "3-D normalised": lambda: (
        Of(lambda m, x: F.relu(m.b(m.c(x))), c=nn.Conv3d(2, 4, 3), b=nn.BatchNorm3d(4)),
        [(1, 2, 5, 6, 7)],
    ),
    "weights are an input": lambda: (
        Of(lambda m, x, w, b: F.conv2d(x, w, b, stride=2, padding=1)),
        [(2, 3, 7, 8), (5, 3, 3, 2), (5,)],
    ),
    "weights are computed": lambda: (
        Of(lambda m, x, z: F.conv2d(x, m.g(z).view(4, 3, 3, 3), padding=1), g=nn.Linear(8, 108)),
        [(1, 3, 6, 6), (8,)],
    ),
    "weights of every channel are an input": lambda: (
        Of(lambda m, x, k: F.conv2d(x, k, groups=4, dilation=2)),
        [(1, 4, 8, 9), (8, 1, 3, 3)],
    ),
    "weights of a line are an input": lambda: (
        Of(lambda m, x, k: F.conv1d(x, k, torch.arange(5.0), padding="same")),
        [(1, 4, 12), (5, 4, 3)],
    ),
    "constant outputs": lambda: (
        Of(lambda m, x: (m.f(x), torch.arange(300).view(3, 100), torch.linspace(-2, 5, 12).view(3, 4)), f=nn.Linear(4, 3)),
        [(2, 4)],
    ),
}  # fmt: skip


def _outputs(found):
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]


def _run(model, inputs):
    network = baco.network(model.eval(), tuple(inputs))
    given = {
        tensor.name: one.numpy().astype(np.float32) if one.dtype is torch.bool else one.numpy()
        for tensor, one in zip(network.inputs, inputs, strict=True)
    }
    run = baco.run(network, inputs=given)
    assert run.right, run.wrong
    with torch.no_grad():
        wanted = _outputs(model(*inputs))
    return list(run.outputs.values()), wanted


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(name):
    torch.manual_seed(5)
    model, shapes = CASES[name]()
    found, wanted = _run(model, [torch.randn(*shape) for shape in shapes])
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        if other.dtype.kind == "i":
            assert (one == other).all()
        assert np.abs(one - other).max() <= 0.05 * np.abs(other).max()


@pytest.mark.parametrize("additive", [False, True])
def test_a_mask_that_is_an_input(additive):
    """Of padding, as truths or as numbers that are added: keys that are masked do not count."""
    torch.manual_seed(2)
    attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def attend(m, x, mask):
        return m.a(x, x, x, key_padding_mask=mask, need_weights=False)[0]

    padding = torch.tensor([[False] * 5 + [True] * 3])
    mask = padding.float() * -10000.0 if additive else padding
    found, wanted = _run(Of(attend, a=attention), [torch.randn(1, 8, 16), mask])
    assert np.abs(found[0] - wanted[0]).max() <= 0.05 * np.abs(wanted[0]).max()
    unmasked = Of(attend, a=attention)(torch.randn(1, 8, 16), None).detach().numpy()
    assert np.abs(found[0] - unmasked).max() > 0.2 * np.abs(wanted[0]).max()


def test_transposed_ones_of_three_dimensions_are_refused_by_name():
    model = Of(lambda m, x: m.c(x), c=nn.ConvTranspose3d(2, 3, 2, 2))
    with pytest.raises(baco.InputError) as caught:
        baco.run((model, (torch.randn(1, 2, 3, 4, 4),)))
    assert "transposed 3-D convolution" in f"{caught.value.message} {caught.value.hint}"
