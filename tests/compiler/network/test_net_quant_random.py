"""Random small networks: the integers are near the real results, so no view, layout or fusion went astray."""

import numpy as np
import pytest

from baco.compiler.network.quantiser import Quantiser
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.semantics import Parameter, Semantics, constant
from tests.compiler.network.net_quant_networks import run_both
from tests.seeds import seeds


class RandomNetwork:
    """Grows a network by operators and views that suit the shapes at hand."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.b = GraphBuilder(f"random{seed}")
        self.pool: list[Tensor] = [self.b.input("image", (2, 4, 6, 5)), self.b.input("rows", (2, 6, 8))]

    def grow(self, count: int) -> Network:
        actions = [getattr(self, name) for name in dir(self) if name.startswith("add_")]
        while len(self.b.build().operators) < count:
            action = actions[self.random.integers(len(actions))]
            # Newer tensors more often, so that networks become deep.
            place = len(self.pool) - 1 - min(int(self.random.geometric(0.4)) - 1, len(self.pool) - 1)
            made = action(self.pool[place])
            if made is not None and 1 < made.words <= 2000:
                self.pool.append(made)
        return self.b.build()

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def add_conv(self, x):
        if len(x.shape) not in (3, 4) or min(x.shape[2:]) < 3:
            return None
        rank = len(x.shape) - 2
        groups = x.shape[1] if self.random.random() < 0.4 else 1
        channels = groups * self.number(1, 2) if groups > 1 else self.number(2, 6)
        stride, padding = self.number(1, 2), self.number(0, 2)
        kernel, bias = self.number(1, 3), self.random.random() < 0.5
        return self.b.conv2d(x, channels, kernel, stride, padding, 1, groups, bias=bias, rank=rank)

    def add_transposed(self, x):
        if len(x.shape) not in (3, 4) or min(x.shape[2:]) < 2:
            return None
        kernel = self.number(2, 4)
        return self.b.conv_transpose2d(x, 3, kernel, 2, self.number(0, 1), rank=len(x.shape) - 2, bias=True)

    def add_epilogue(self, x):
        if len(x.shape) < 3:
            return None
        choice = self.number(0, 3)
        if choice == 0:
            return self.b.batchnorm(x)
        if choice == 1:
            return self.b.relu(x)
        if choice == 2:
            return self.b.unary("relu6", x, function="clip", low=0, high=1.5)
        shape = (x.shape[1], *(1 for _ in x.shape[2:]))
        name = ("add", "mul", "sub")[self.number(0, 2)]
        line = Parameter(f"line{len(self.pool)}", shape, fill="scale")
        pair = (x, line) if self.random.random() < 0.5 else (line, x)
        return self.b.op("elementwise", (x,), x.shape, semantics=Semantics("binary", pair, {"name": name}))

    def add_pool(self, x):
        if len(x.shape) not in (3, 4) or min(x.shape[2:]) < 2:
            return None
        kind = ("maxpool", "avgpool")[self.number(0, 1)]
        return self.b.pool(kind, x, 2, self.number(1, 2), self.number(0, 1), ceil=self.random.random() < 0.5)

    def add_linear(self, x):
        return self.b.linear(x, self.number(2, 8), bias=self.random.random() < 0.5)

    def add_attention(self, x):
        if len(x.shape) < 2:
            return None
        turned = self.b.transpose(x, (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))
        return self.b.matmul(self.b.softmax(self.b.matmul(x, turned, alpha=0.3)), x)

    def add_sum(self, x):
        fit = [y for y in self.pool if y.shape == x.shape]
        return self.b.binary(("add", "sub", "mul")[self.number(0, 2)], x, fit[self.number(0, len(fit) - 1)])

    def add_function(self, x):
        names = ("gelu", "silu", "sigmoid", "tanh")
        return self.b.unary(names[self.number(0, 3)], x)

    def add_norm(self, x):
        return self.b.layernorm(x) if x.shape[-1] > 2 else None

    def add_concat(self, x):
        axis = self.number(0, len(x.shape) - 1)
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        fit = [
            y
            for y in self.pool
            if len(y.shape) == len(x.shape) and (*y.shape[:axis], *y.shape[axis + 1 :]) == rest
        ]
        return self.b.concat([x, fit[self.number(0, len(fit) - 1)]], axis)

    def add_padding(self, x):
        if len(x.shape) != 4:
            return None
        edges = [self.number(0, 1) for _ in range(4)]
        attributes = {"before": (0, 0, *edges[:2]), "after": (0, 0, *edges[2:]), "value": 0.0}
        shape = (*x.shape[:2], x.shape[2] + edges[0] + edges[2], x.shape[3] + edges[1] + edges[3])
        return self.b.op("pad", (x,), shape, semantics=Semantics("pad", (x,), attributes))

    def add_scalar(self, x):
        pair = (x, constant("half", 0.5))
        name = ("add", "mul", "maximum")[self.number(0, 2)]
        return self.b.op("elementwise", (x,), x.shape, semantics=Semantics("binary", pair, {"name": name}))

    def add_reduction(self, x):
        axis = self.number(0, len(x.shape) - 1)
        shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        attributes = {"name": ("mean", "max")[self.number(0, 1)], "axes": (axis,), "keepdims": True}
        return self.b.op("reduce", (x,), shape, semantics=Semantics("reduce", (x,), attributes))

    def add_view(self, x):
        choice = self.number(0, 3)
        if choice == 0:
            return self.b.transpose(x, [int(a) for a in self.random.permutation(len(x.shape))])
        axis = self.number(0, len(x.shape) - 1)
        if choice == 1:
            return self.b.slice(x, axis, self.number(0, x.shape[axis] - 1), None, self.number(1, 2))
        if choice == 2:
            return self.b.reshape(x, (*x.shape[:axis], -1))
        return self.b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) if len(x.shape) < 4 else None


@pytest.mark.parametrize("seed", seeds(8, of=40))
def test_random_networks_are_near_their_real_results(seed):
    network = RandomNetwork(seed).grow(8)
    quantised, _, ratios = run_both(
        network, quantiser=Quantiser(scales="power-of-two" if seed % 4 == 3 else "float"), seed=seed
    )
    for (name, view), ratio in zip(quantised.outputs.items(), ratios, strict=True):
        if quantised.values[view.value].dtype == "int8":
            assert ratio > 8, (name, ratio)
