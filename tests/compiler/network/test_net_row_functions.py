"""The integer definition of softmax and normalisation against float64, in steps of the results."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baco.compiler.row_functions import (
    exponentials,
    normalise,
    normalise_parameters,
    numerator_parts,
    softmax,
    softmax_numerator,
    variance_root,
)

LENGTHS = (1, 2, 3, 7, 16, 17, 64, 100, 128, 197, 384, 768, 1000, 1600, 3072)


def rows(random: np.random.Generator, length: int) -> np.ndarray:
    """int8 [12, length]: spread in many ways, all equal, one element far above or below the rest."""
    deviations = (1, 3, 10, 30, 60)
    spread = [np.clip(np.rint(random.normal(0, d, length)), -128, 127) for d in deviations]
    even = [random.integers(-128, 128, length), np.full(length, 127), np.full(length, -128), np.zeros(length)]
    alone = [np.full(length, -128), np.full(length, 127), np.full(length, 5)]
    for row, element in zip(alone, (127, -128, 6), strict=True):
        row[random.integers(length)] = element
    return np.array([*spread, *even, *alone], dtype=np.int8)


def probabilities(x: np.ndarray, scale: float, takes_part: np.ndarray | None = None) -> np.ndarray:
    logits = x.astype(np.float64) * scale
    if takes_part is not None:
        logits = np.where(takes_part, logits, -np.inf)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


@pytest.mark.parametrize("share", [1.0, 0.8])
def test_softmax_is_at_most_a_step_off(share: float) -> None:
    """Scales that reach the largest probability, or a share of it: larger ones are saturated."""
    random = np.random.default_rng(1)
    worst = 0.0
    for length in LENGTHS:
        x = rows(random, length)
        for scale in (0.005, 0.02, 0.08, 0.3):
            real = probabilities(x, scale)
            scale_out = share * float(real.max()) / 127
            y = softmax(x, None, exponentials(scale), softmax_numerator(scale_out))
            exact = np.minimum(real / scale_out, 127)
            worst = max(worst, float(np.abs(y - exact).max()))
    assert worst <= 1.0


def test_a_causal_softmax_is_at_most_a_step_off() -> None:
    x = np.random.default_rng(2).integers(-128, 128, (3, 50, 50), dtype=np.int8)
    causal = np.broadcast_to(np.tri(50, dtype=bool), x.shape)
    y = softmax(x, causal, exponentials(0.05), softmax_numerator(1 / 127))
    assert not y[~causal].any()
    assert np.abs(y - probabilities(x, 0.05, causal) * 127).max() <= 1.0


@pytest.mark.parametrize("scale", [1.0, 1 / 127, 1 / 256, 1 / 5000, 3e-5, 2.0**-22, 1e-12])
def test_numerators_are_of_32_bits_and_a_shift(scale: float) -> None:
    numerator = softmax_numerator(scale)
    parts = numerator_parts(numerator)
    assert parts is not None
    number, shift = parts
    assert number < 2**32
    assert shift <= 15
    assert number << shift == numerator
    assert numerator == pytest.approx(min(2**24 / scale, 2**47), rel=2**-23)


def test_a_row_without_elements_is_zero() -> None:
    x = np.full((1, 4), 9, np.int8)
    assert not softmax(x, np.zeros((1, 4), bool), exponentials(0.1), softmax_numerator(1 / 127)).any()


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1])
def test_normalisation_is_at_most_a_step_off(centre: bool, eps: float) -> None:
    """With the eps that was asked for; short rows, and those that are all but equal, with the one that became an integer."""
    random = np.random.default_rng(3)
    worst = worst_rounded = 0.0
    for length in LENGTHS:
        x = rows(random, length)
        for scale_in in (0.003, 0.03, 0.3):
            gain, offset = random.normal(1, 0.3, length), random.normal(0, 0.5, length)
            real = normalised(x * scale_in, gain, offset, eps, centre)
            scale_out = min(max(float(np.abs(real).max()), 1.0), 20.0) / 127
            parameters = normalise_parameters(gain, offset, scale_in, scale_out, length, eps)
            found = normalise(x, *parameters, centre=centre)
            rounded = normalised(
                x * scale_in, gain, offset, parameters[-1] * (scale_in / length) ** 2, centre
            )
            worst_rounded = max(worst_rounded, steps_off(found, rounded, scale_out))
            if length >= 64:
                worst = max(worst, steps_off(found[:-1], real[:-1], scale_out))
    assert worst <= 1.0
    assert worst_rounded <= 1.0


def normalised(x: np.ndarray, gain: np.ndarray, offset: np.ndarray, eps: float, centre: bool) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True) if centre else x
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain + offset)


def steps_off(found: np.ndarray, real: np.ndarray, scale: float) -> float:
    return float(np.abs(found - np.clip(real / scale, -128, 127)).max())


def test_rows_of_several_dimensions_are_one_row() -> None:
    random = np.random.default_rng(4)
    x = random.integers(-128, 128, (2, 3, 4, 5), dtype=np.int8)
    gain, offset = random.integers(-999, 999, (2, 4, 5))
    flat = normalise(x.reshape(2, 3, 20), gain.reshape(20), offset.reshape(20), 12, 99, centre=True)
    assert (normalise(x, gain, offset, 12, 99, centre=True, axes=2).reshape(flat.shape) == flat).all()


def test_the_root_is_exact() -> None:
    random = np.random.default_rng(5)
    numbers = [0, 1, 2, 3, 255, 256, 2**20, 2**48 - 1, 2**62 - 1, *random.integers(0, 2**62, 500)]
    numbers += [int(n) * int(n) + d for n in random.integers(1, 2**30, 500) for d in (-1, 0, 1)]
    found = variance_root(np.array(numbers, np.int64))
    assert found.tolist() == [math.isqrt(int(n) << 16) for n in numbers]


def test_parameters_keep_their_bits() -> None:
    for largest in (1e-9, 0.3, 1.0, 1.9999, 2.0, 31.9999999, 500.0, 1e5):
        gain, offset, shift, _ = normalise_parameters(
            np.array([largest, -largest / 3]), np.array([0.0, 1e9]), 0.1, 1.0, 10, 0.0
        )
        assert np.abs(gain).max() < 2**15
        assert 7 <= shift <= 31
        assert offset.tolist() == [0, 2**15 - 1]
        assert shift == 31 or np.abs(gain).max() >= 2**14 - 1  # no bit is wasted
    with pytest.raises(ValueError, match="gain"):
        normalise_parameters(np.array([1e8]), np.zeros(1), 0.1, 1.0, 10, 0.0)


def test_equal_elements_become_the_offset() -> None:
    """However long the row and however small the epsilon: nothing is limited that has to cancel."""
    for length in (1, 255, 256, 768, 65535):
        gain, offset, shift, epsilon = normalise_parameters(
            np.ones(1), np.array([5.0]), 0.05, 0.5, length, 1e-12
        )
        for element in (-128, -1, 3, 127):
            x = np.full((1, length), element, np.int8)
            assert (normalise(x, gain, offset, shift, epsilon, centre=True) == 10).all()
