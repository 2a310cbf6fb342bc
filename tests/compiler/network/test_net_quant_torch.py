"""PyTorch models: the imported graph computes what the module does, and its integers are near that."""

import textwrap

import pytest
import torch

from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_quant_networks import agrees, run_both

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

def seeded(make):
    torch.manual_seed(0)
    return make()
"""


@pytest.fixture
def check(tmp_path):
    """Import `model()` of some source, compare with the module itself, return (network, quantised)."""

    def run(source, least_db=25.0):
        path = tmp_path / "code.py"
        path.write_text(HEAD + textwrap.dedent(source))
        scope = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        module, inputs = scope["model"]()
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        with torch.no_grad():
            wanted = module.eval()(*inputs)
        wanted = [w.numpy() for w in (wanted if isinstance(wanted, tuple) else (wanted,))]
        network = load_network(f"{path}:model")
        feeds = {t.name: x.numpy() for t, x in zip(network.inputs, inputs, strict=True)}
        return network, agrees(network, feeds, wanted, least_db)

    return run


def test_convolutional_network(check):
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Conv2d(3, 8, 3, padding="same")
                self.norm = nn.BatchNorm2d(8)
                self.depth = nn.Conv2d(8, 8, 3, groups=8, padding=1)
                self.point = nn.Conv2d(8, 16, 1)
                self.group = nn.GroupNorm(4, 16)
                self.up = nn.ConvTranspose2d(16, 4, 3, stride=2, padding=1, output_padding=1)
                self.line = nn.Linear(4 * 16 * 16, 10)

            def forward(self, x):
                y = F.max_pool2d(F.relu6(self.norm(self.first(x))), 2)
                a, b = torch.split(y, 4, 1)
                y = torch.cat([b, a * 2 + 1], 1)
                y = self.depth(y) + y
                y = self.up(self.group(self.point(F.silu(y))))
                y = F.avg_pool2d(F.hardswish(y), 2, padding=1, stride=1)[:, :, :16, :16]
                return self.line(y.flatten(1)), y.mean((2, 3)), y.argmax(1)

        def model():
            net = seeded(Net)
            net.norm.running_mean.normal_(0, 0.2)
            net.norm.running_var.uniform_(0.5, 2)
            return net, torch.randn(2, 3, 16, 16)
        """
    )


def test_transformer_encoder(check):
    _, quantised = check(
        """
        def model():
            layer = seeded(lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"))
            return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 10, 32)
        """
    )
    assert sum(type(op).__name__ == "Softmax" for op in quantised.operators) == 2


def test_decoder_with_tied_weights_and_a_mask(check):
    network, quantised = check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(50, 32)
                self.places = nn.Parameter(torch.randn(10, 32))
                self.qkv = nn.Linear(32, 96)
                self.register_buffer("mask", torch.tril(torch.ones(10, 10)))
                self.norm = nn.RMSNorm(32)
                self.head = nn.Linear(32, 50, bias=False)
                self.head.weight = self.words.weight

            def forward(self, tokens):
                x = self.words(tokens) + self.places
                q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
                q, k, v = (t.view(2, 10, 4, 8).transpose(1, 2) for t in (q, k, v))
                scores = (q @ k.transpose(-2, -1)) / 8**0.5
                scores = scores.masked_fill(self.mask == 0, float("-inf"))
                y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 10, 32)
                y = y + F.scaled_dot_product_attention(q, k[:, :1].expand(-1, 4, -1, -1), v, is_causal=True)\\
                    .transpose(1, 2).flatten(2)
                return self.head(x + y)

        def model():
            return seeded(Net), torch.randint(0, 50, (2, 10))
        """
    )
    masked = [op for op in quantised.operators if type(op).__name__ == "Softmax"]
    assert [op.mask is not None for op in masked] == [True, True]
    assert network.weight_words == 50 * 32 + 10 * 32 + 96 * 33 + 32


def test_recurrent_network(check):
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.LSTM(8, 16, batch_first=True)
                self.line = nn.Linear(16, 3)

            def forward(self, x):
                return self.line(self.cell(x)[0][:, -1])

        def model():
            return seeded(Net), torch.randn(2, 5, 8)
        """
    )


def test_lines_views_and_functions(check):
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(4, 6, 5, stride=2, padding=2, dilation=1)
                self.slope = nn.PReLU(6)
                self.back = nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1)
                self.table = nn.Parameter(torch.randn(4, 16))

            def forward(self, x):
                y = self.slope(self.conv(x))
                y = F.interpolate(y, scale_factor=2, mode="linear")
                z = self.back(y)
                z = F.pad(z, (1, -1)).movedim(1, 2).unflatten(1, (4, 8)).permute(0, 3, 1, 2)
                z = F.pixel_shuffle(z, 2).repeat(1, 3, 1, 1).flip(2)
                a, b = z.unbind(0)
                y = torch.stack([F.elu(a), torch.maximum(a, b), a * b.sigmoid(), F.softplus(b) / 2], 1)
                w = torch.einsum("ncl,ck->nkl", x, self.table)
                w = torch.addmm(torch.arange(16.0), w[:, 0], self.table.T @ self.table / 4)
                return y.narrow(1, 1, 3).select(1, 0), y.amax(-1), (w - w.mean(-1, keepdim=True)).abs(), y[:, ::2]

        def model():
            return seeded(Net), torch.randn(2, 4, 16)
        """,
        least_db=18,
    )


def test_grouped_heads_and_images_without_a_batch(check):
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(2, 8, 3)
                self.norm = nn.InstanceNorm2d(8, affine=True)

            def forward(self, x):
                y = F.max_pool2d(torch.relu(self.conv(x)), 2)
                y = self.norm(y[None]).reshape(1, 8, 4, 4)
                y = F.scaled_dot_product_attention(y, y[:, :2], y[:, 2:4], enable_gqa=True, scale=0.4)
                return F.adaptive_avg_pool2d(y, 2), F.adaptive_max_pool2d(y, 1)

        def model():
            return seeded(Net), torch.randn(2, 10, 10)
        """
    )


def test_classifier_that_ends_in_a_log_softmax(check):
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 8, 3)
                self.first = nn.Linear(8 * 6 * 6, 32)
                self.second = nn.Linear(32, 10)

            def forward(self, x):
                x = torch.flatten(F.max_pool2d(F.relu(self.conv(x)), 2), 1)
                x = 8 * self.second(F.relu(self.first(x)))
                return F.log_softmax(x, dim=1), F.log_softmax(x, dim=0)

        def model():
            return seeded(Net), torch.randn(4, 1, 14, 14)
        """
    )


def test_models_on_the_meta_device_are_drawn(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(
        HEAD
        + textwrap.dedent(
            """
            def model():
                with torch.device("meta"):
                    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.zeros(1, 3, 8, 8)
            """
        )
    )
    quantised, _, ratios = run_both(load_network(f"{path}:model"))
    assert set(quantised.random) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert ratios[0] > 25


def test_what_cannot_be_run_is_named(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(
        HEAD
        + textwrap.dedent(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.line = nn.Linear(4, 4)

                def forward(self, x):
                    return self.line(x.cumsum(0).roll(1, 0))

            def model():
                return Net(), torch.zeros(3, 4)
            """
        )
    )
    with pytest.raises(
        InputError, match=r"1 of its operators cannot be run: cumsum \(cumsum\): what it computes"
    ):
        quantise(load_network(f"{path}:model"))
