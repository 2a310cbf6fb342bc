"""No argument of a PyTorch operator is passed over: one that a rule does not ask for is refused by name."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from baco.common.errors import InputError
from baco.compiler.network.calibrate import needed
from baco.workloads.torch.graph import network_of_module
from baco.workloads.torch.reading import Arguments


class Behind(torch.nn.Module):
    """A function behind a product."""

    def __init__(self, function):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        return self.function(self.line(x))


def _run(function):
    return needed(network_of_module(Behind(function).eval(), torch.ones(2, 3, 4)))


ARGUMENTS = [
    ("negative_slope", lambda x: functional.leaky_relu(x, 0.3)),
    ("alpha", lambda x: functional.celu(x, 3.0)),
    ("beta", lambda x: functional.softplus(x, 2.0)),
    ("threshold", lambda x: functional.softplus(x, 1.0, 5.0)),
    ("lambd", lambda x: functional.hardshrink(x, 0.2)),
    ("approximate", lambda x: functional.gelu(x, approximate="tanh")),
    ("max", lambda x: x.clamp(-1.0, 2.0)),
    ("keepdim", lambda x: x.mean(1, keepdim=True)),
    ("rounding_mode", lambda x: torch.div(x, 0.3, rounding_mode="floor")),
    ("eps", lambda x: functional.layer_norm(x, (4,), eps=0.3)),
    ("count_include_pad", lambda x: functional.avg_pool1d(x, 3, 1, 1, count_include_pad=False)),
]


@pytest.mark.parametrize(("name", "function"), ARGUMENTS, ids=[name for name, _ in ARGUMENTS])
def test_an_argument_that_a_rule_does_not_read_is_refused_by_name(name, function, monkeypatch):
    _run(function)
    get, item = Arguments.get, Arguments.__getitem__

    def blind(self, key, ask):
        before = key in self.read
        value = ask()
        if key == name and not before:
            self.read.discard(key)
        return value

    monkeypatch.setattr(
        Arguments, "get", lambda self, key, default=None: blind(self, key, lambda: get(self, key, default))
    )
    monkeypatch.setattr(Arguments, "__getitem__", lambda self, key: blind(self, key, lambda: item(self, key)))
    with pytest.raises(InputError, match=rf"{name}=.* is not supported"):
        _run(function)


def test_what_training_would_drop_is_refused():
    with pytest.raises(InputError, match="dropped at random"):
        _run(lambda x: functional.dropout(x, 0.5, training=True))
    _run(lambda x: functional.dropout(x, 0.5, training=False))


def test_whole_numbers_as_a_result_are_refused_where_they_are_not_followed():
    with pytest.raises(InputError, match="whole numbers as its result are not supported"):
        _run(lambda x: x.sum(1, dtype=torch.int64))
