"""Searches for formats of layers: shares of the front are areas, and each search measures what it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from baco.bench.formats import FormatNetwork, Judged, dominated, page, searches

RANDOM = np.random.default_rng(5)
SIZES = {"a": 64, "b": 200, "c": 16, "d": 1000, "e": 500}
NOISE = {"a": 0.02, "b": 0.001, "c": 0.003, "d": 0.05, "e": 0.001}


def test_the_dominated_part_is_the_area_counted_on_a_grid() -> None:
    steps = (np.arange(400) + 0.5) / 400
    x, y = np.meshgrid(steps, steps)
    for count in (0, 1, 2, 7):
        points = RANDOM.uniform(-0.2, 1.2, (count, 2))
        inside = np.zeros_like(x, bool)
        for a, b in points:
            inside |= (x >= a) & (y >= b)
        found = dominated([(max(a, 0.0), b) for a, b in points.tolist()])
        assert found == pytest.approx(inside.mean(), abs=0.01)


def network(noise: dict[str, float]) -> FormatNetwork:
    """Whose layers' noises add up to that of all."""
    choices = []
    for bits in itertools.product([False, True], repeat=len(SIZES)):
        names = tuple(name for name, some in zip(SIZES, bits, strict=True) if some)
        power = 1e-4 + sum(noise[name] for name in names)
        weights = sum(SIZES.values()) - sum(SIZES[name] for name in names) / 2
        choices.append(Judged(names, weights, -10 * np.log10(power), 0.9))
    return FormatNetwork("five", "0", SIZES, choices)


def test_every_search_has_its_share_of_the_front() -> None:
    found = network(NOISE)
    rows = {(row["search"], row["measurements"]): row for row in searches(found, seeds=5)}
    # five layers alone, and 0 to 5 of them listed, of which none and the first alone are known
    listed = rows["list of sensitivities", 10]
    # noise adds up here, so that what is measured again says nothing new
    stepwise = rows["the least noise a byte, measured again at each step", 16]
    assert listed["share"] == stepwise["share"] > 0.9
    assert rows["NSGA-II", 32]["share"] == rows["random choices", 32]["share"] == pytest.approx(1.0)
    assert rows["random choices", 10]["least"] < rows["random choices", 10]["most"] <= 1
    text = page([{"network": found, "searches": list(rows.values())}])
    front = text[text.index("The front:") :].splitlines()[4:]
    sizes = [float(line.split("|")[2].replace(",", "")) for line in front if line]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == sum(SIZES.values())
    assert sizes[-1] == sum(SIZES.values()) / 2
