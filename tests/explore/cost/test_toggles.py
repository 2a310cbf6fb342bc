"""What numbers make switch, against every wave of an array that passes whole layers, counted by Python's integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from baco.accel.switched_energy import Toggles
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View
from baco.exploration.cost.toggles import network_toggles

Array = np.ndarray[Any, Any]


def _view(name: str, array: Array) -> View:
    strides = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
    return View(name, array.shape, tuple(strides))


def _toggles(op: Any, values: Mapping[str, Array], dim: int) -> Toggles:
    tensors = {name: IntegerTensor(name, one.shape) for name, one in values.items()}
    network = QuantisedNetwork("one", tensors, (op,), {}, {}, {})
    return network_toggles(network, values, dim)[op.name]


def _bits(a: int, b: int, width: int) -> int:
    mask = (1 << width) - 1
    return ((a & mask) ^ (b & mask)).bit_count()


def _waves(rows: Array, weights: Array, dim: int) -> tuple[float, float, float]:
    """Bits of inputs, products and sums that change for a multiplication, over all blocks and rows of a product."""
    depth, columns = weights.shape
    changed = np.zeros(3)
    for first in range(0, depth, dim):
        for column in range(columns):
            before = None
            for row in rows[:, first : first + dim]:
                state: list[tuple[int, int, int]] = []
                total = 0
                for k, a in enumerate(row):
                    product = int(a) * int(weights[first + k, column])
                    total += product
                    state.append((int(a), product, total))
                for now, then in zip(state, before or [], strict=False):
                    changed += [_bits(x, y, w) for x, y, w in zip(now, then, (8, 16, 32), strict=True)]
                before = state
    found = changed / ((len(rows) - 1) * depth * columns)
    return float(found[0]), float(found[1]), float(found[2])


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("dim", [4, 8])
def test_products_are_those_of_all_waves(share: float, dim: int) -> None:
    random = np.random.default_rng(0)
    left = random.integers(-60, 60, (40, 16)).astype(np.int8)
    left[random.random(left.shape) >= share] = 0
    right = random.integers(-40, 40, (16, 16)).astype(np.int8)
    values = {"left": left, "right": right, "out": np.zeros((40, 16), np.int8)}
    op = MatMul("product", (), _view("out", values["out"]), _view("left", left), _view("right", right), None, False, 1.0)  # fmt: skip
    found, (a, product, total) = _toggles(op, values, dim), _waves(left, right, dim)
    assert found.a == pytest.approx(a, rel=0.15)
    assert found.product == pytest.approx(product, rel=0.15)
    assert found.total == pytest.approx(total, rel=0.15)
    assert found.elements == 1.0


def test_what_a_relu_leaves_is_cheaper_to_multiply() -> None:
    random = np.random.default_rng(1)
    right = random.integers(-40, 40, (16, 16)).astype(np.int8)
    before = random.integers(-60, 60, (40, 16)).astype(np.int8)
    found = []
    for left in (before, np.maximum(before, 0), np.zeros_like(before)):
        values = {"left": left, "right": right, "out": np.zeros((40, 16), np.int8)}
        op = MatMul("product", (), _view("out", values["out"]), _view("left", left), _view("right", right), None, False, 1.0)  # fmt: skip
        found.append(_toggles(op, values, 8))
    for name in ("a", "product", "total"):
        dense, half, none = (getattr(one, name) for one in found)
        assert dense > half > none == 0.0


def test_a_channel_alone_drags_its_sum_down_an_empty_column() -> None:
    """A depthwise layer uses one element of the array: its sum passes through all others of the column, which are clocked, too."""
    random = np.random.default_rng(2)
    image = random.integers(-60, 60, (1, 8, 8, 4)).astype(np.int8)
    weight = random.integers(-40, 40, (1, 1, 1, 4)).astype(np.int8)
    values = {"x": image, "w": weight, "y": np.zeros((1, 8, 8, 4), np.int8)}
    op = Convolution(
        "deep", (), _view("y", values["y"]), _view("x", image), _view("w", weight), None, (1, 1), (0, 0), (1, 1), (8, 8), 4, False, 1.0
    )  # fmt: skip
    small, large = (_toggles(op, values, dim) for dim in (4, 16))
    assert large.total == pytest.approx(4 * small.total, rel=0.3)
    assert (small.elements, large.elements) == (16.0, 256.0)


def test_what_lies_outside_of_the_image_is_zero() -> None:
    image = np.full((1, 1, 1, 8), 85, np.int8)
    weight = np.full((3, 3, 8, 8), 85, np.int8)
    values = {"x": image, "w": weight, "y": np.zeros((1, 1, 1, 8), np.int8)}
    op = Convolution(
        "edge", (), _view("y", values["y"]), _view("x", image), _view("w", weight), None, (1, 1), (1, 1), (1, 1), (1, 1), 1, False, 1.0
    )  # fmt: skip
    # one position of nine meets the image, which comes from zero and goes to zero: at most 2 x 4 bits, on a ninth of the draws
    assert _toggles(op, values, 8).a <= 8.0 / 2
