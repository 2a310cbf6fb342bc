"""Weights rounded one after the other: against least squares solved anew for every weight, numpy's moments, and whole networks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import baco
from baco.accel.number_formats import FORMATS
from baco.common.errors import InputError
from baco.compiler.network.compensation import Moments, ReadMoments, compensated
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import Quantiser

INT4 = FORMATS["int4"]


def _reads(seed, groups, depth, rows=200):
    """Whole numbers that depend on one another, as channels of an image do."""
    random = np.random.default_rng(seed)
    mixed = random.standard_normal((groups, rows, depth)) @ random.standard_normal((groups, depth, depth))
    return np.clip(np.rint(12 * mixed + 9), -128, 127)


def _moments(x):
    return Moments(x.transpose(0, 2, 1) @ x / x.shape[1], x.mean(1))


@pytest.mark.parametrize("centred", [False, True])
def test_each_weight_is_the_nearest_of_what_least_squares_leave(centred):
    """By the definition: with the weights before it rounded, all others are solved for anew."""
    depth, columns = 6, 5
    x = _reads(1, 1, depth)
    weight = np.random.default_rng(2).standard_normal((depth, columns))
    scales = np.full(columns, 0.3)
    about = x[0] - x[0].mean(0) * centred
    second = about.T @ about / len(about)
    damped = second + 0.01 * np.trace(second) / depth * np.eye(depth)
    order = np.argsort(-np.diag(second), kind="stable")
    wanted = np.zeros((depth, columns), np.int64)
    for column in range(columns):
        known: list[int] = []
        for at in order:
            rest = [n for n in range(depth) if n not in known]
            error = wanted[known, column] * scales[column] - weight[known, column]
            # the others' errors that make the form least: damped[rest, rest] e + damped[rest, known] error = 0
            others = np.linalg.solve(damped[np.ix_(rest, rest)], -damped[np.ix_(rest, known)] @ error)
            now = weight[at, column] + others[rest.index(at)]
            wanted[at, column] = np.clip(np.rint(now / scales[column]), INT4.low, INT4.high)
            known.append(int(at))
    found = compensated(weight, scales, INT4, _moments(x), centred=centred)
    np.testing.assert_array_equal(found, wanted)


def test_sums_lose_less_and_little_more_than_the_best_of_all():
    """Of four weights all roundings up and down are tried; of groups every one is on its own."""
    nearest, better, best = 0.0, 0.0, 0.0
    for seed in range(30):
        x = _reads(seed, 2, 4)
        weight = np.random.default_rng(100 + seed).uniform(-2, 2, (2, 2, 1, 6))  # S R 1 K
        scales = np.full(6, 0.4)
        found = compensated(weight, scales, INT4, _moments(x), centred=False).reshape(4, 2, 3)
        plain = np.clip(np.rint(weight / scales), -8, 7).reshape(4, 2, 3)
        real = weight.reshape(4, 2, 3)
        for group in range(2):

            def lost(whole, group=group, x=x, real=real):
                return ((x[group] @ (whole * 0.4 - real[:, group])) ** 2).mean(0)

            nearest += lost(plain[:, group]).sum()
            better += lost(found[:, group]).sum()
            low = np.floor(real[:, group] / 0.4)
            every = [lost(low + np.array(one)[:, None]) for one in itertools.product((0, 1), repeat=4)]
            best += np.min(every, axis=0).sum()
    assert best <= better < 0.7 * nearest
    assert better < 1.6 * best


def test_what_nothing_is_said_of_becomes_the_nearest():
    weight = np.array([[0.9, -3.0], [0.26, 5.0], [2.4, 0.1]])
    zeros = Moments(np.zeros((1, 3, 3)), np.zeros((1, 3)))
    found = compensated(weight, np.array([0.5]), INT4, zeros, centred=True)
    np.testing.assert_array_equal(found, np.clip(np.rint(weight / 0.5), -8, 7))


class Mixed(torch.nn.Module):
    """Convolutions with strides, groups and padding, a depthwise one, and a product."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(4, 16, 3, padding=1, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 24, 3, groups=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(24, 24, 3, groups=24, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(24, 32, 1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(32 * 16, 10, bias=False),
        )

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def mixed():
    network = baco.network((Mixed().eval(), torch.zeros(1, 4, 12, 12)))
    random = np.random.default_rng(6)
    coarse = random.standard_normal((24, 4, 3, 3))
    images = np.kron(coarse, np.ones((4, 4))) + 0.3 * random.standard_normal((24, 4, 12, 12))
    return network, images.astype(np.float32)


def test_moments_are_those_of_all_that_is_multiplied(mixed):
    network, images = mixed
    integers = quantise(network, [{"x": one[None]} for one in images])
    runs = [quantise_inputs(integers, {"x": one[None]}) for one in images[:3]]
    moments = ReadMoments(integers, runs)
    assert moments.of("nothing") is None
    first = next(op for op in integers.operators if getattr(op, "stride", None) == (2, 2))
    read = np.stack([run[first.input.value].reshape(first.input.shape)[0] for run in runs]).astype(np.int64)
    padded = np.pad(read, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = [
        padded[n, 2 * q : 2 * q + 3, 2 * p : 2 * p + 3].reshape(-1)
        for n, q, p in itertools.product(range(3), range(6), range(6))
    ]
    found = moments.of(first.weight.value)
    np.testing.assert_array_equal(found.second[0], sum(np.outer(row, row) for row in rows) / len(rows))
    np.testing.assert_array_equal(found.first[0], np.mean(rows, 0))
    shapes = {op.weight.value: op.weight.shape for op in integers.operators if hasattr(op, "weight")}
    groups = {name: moments.of(name).first.shape for name in shapes}
    assert sorted(groups.values()) == [(1, 24), (1, 36), (2, 72), (24, 9)]


@pytest.mark.parametrize("scales", ["tensor", "channel"])
def test_a_network_of_four_bits_loses_less(mixed, scales):
    """Signal to noise of the outputs, in numpy's integers beside floating point, on samples that no moment is of; and its program."""
    network, images = mixed
    options = {"weight_format": "int4", "weight_scales": scales}

    def made(rounding):
        return baco.quantise(network, {"x": images[:16]}, weight_rounding=rounding, **options)

    def db(model):
        with torch.no_grad():
            wanted = Mixed().eval()(torch.from_numpy(images[16:])).numpy()
        got = np.stack([np.ravel(*one.values()) for one in model.outputs({"x": images[16:]})])
        return 10 * np.log10((wanted**2).mean() / ((wanted - got) ** 2).mean())

    plain, better = made("nearest"), made("compensated")
    assert db(better) > db(plain) + 2
    again = quantise(
        network,
        [{"x": one[None]} for one in images[:16]],
        quantiser=Quantiser(weight_rounding="compensated", **options),
    )
    for name, constant in better._integers.constants.items():
        np.testing.assert_array_equal(again.constants[name], constant)
    run = baco.run(better, "gemmini-default,dim=8,features.requantization=true")
    assert run.right, run.wrong


def test_a_rounding_that_there_is_not():
    with pytest.raises(InputError, match="weights cannot be rounded 'compensate'") as error:
        Quantiser(weight_rounding="compensate")
    assert "compensated" in (error.value.hint or "")
