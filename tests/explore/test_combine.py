"""Exact combination of layers against trying all combinations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from baco.exploration.combine import chain, lower_hull
from tests.seeds import seeds


def layers(seed: int) -> tuple[list[np.ndarray], list[np.ndarray], list[float]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, rng.integers(1, 5))
    energy = [np.round(rng.uniform(1, 20, n), 1) for n in sizes]
    latency = [np.round(rng.uniform(1, 20, n), 1) for n in sizes]
    if seed % 3 == 0:  # some points are infeasible, some are equal
        for e, t in zip(energy, latency, strict=True):
            if len(e) > 2:
                e[0] = t[0] = np.inf
                e[1], t[1] = e[2], t[2]
    return energy, latency, list(rng.integers(1, 5, len(sizes)).astype(float))


def totals(energy: list[np.ndarray], latency: list[np.ndarray], counts: list[float]) -> np.ndarray:
    """(energy, latency) of every combination of finite points."""
    finite = [np.flatnonzero(np.isfinite(e)) for e in energy]
    return np.array(
        [
            (
                sum(w * e[i] for w, e, i in zip(counts, energy, pick, strict=True)),
                sum(w * t[i] for w, t, i in zip(counts, latency, pick, strict=True)),
            )
            for pick in itertools.product(*finite)
        ]
    )


@pytest.mark.parametrize("seed", seeds(20, of=60))
def test_the_chain_holds_the_best_of_all_combinations(seed: int) -> None:
    energy, latency, counts = layers(seed)
    merged = chain(energy, latency, counts)
    assert merged is not None
    every = totals(energy, latency, counts)
    assert (merged.energy * merged.latency).min() == pytest.approx((every[:, 0] * every[:, 1]).min())
    for weight in (0.0, 0.1, 0.5, 1.0, 3.0, 20.0):
        best = (weight * every[:, 0] + every[:, 1]).min()
        assert (weight * merged.energy + merged.latency).min() == pytest.approx(best)
    assert merged.energy.min() == pytest.approx(every[:, 0].min())
    for e, t, choice in zip(merged.energy, merged.latency, merged.choice, strict=True):
        assert e == pytest.approx(sum(w * x[i] for w, x, i in zip(counts, energy, choice, strict=True)))
        assert t == pytest.approx(sum(w * x[i] for w, x, i in zip(counts, latency, choice, strict=True)))
    assert (np.diff(merged.latency) >= 0).all()
    assert (np.diff(merged.energy) <= 1e-12).all()


def test_no_chain_without_a_feasible_point_in_every_layer() -> None:
    one, none = np.array([1.0, 2.0]), np.array([np.inf, np.inf])
    assert chain([one, none], [one, none], [1.0, 1.0]) is None
    assert len(lower_hull(none, none)) == 0


def test_the_hull_leaves_out_what_is_dominated_or_above_a_chord() -> None:
    energy = np.array([10.0, 1.0, 6.0, 5.0, 10.0, np.nan])
    latency = np.array([1.0, 10.0, 6.0, 4.0, 2.0, 0.0])
    assert lower_hull(energy, latency).tolist() == [0, 3, 1]
