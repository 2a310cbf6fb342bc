"""Fitting the constants of the original's memory system: descent to known ones, and products left out."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from baco.bench.fit.original_memory import best, fit, left_out
from baco.common.portable import Floats
from baco.sim.engines.original import MemoryConstants

TRUE = MemoryConstants(7, 12, 5, 9, 2)


def _errors(constants: MemoryConstants) -> tuple[Floats, Floats]:
    """Programs feel each constant on its own; three products memory's alone, the last of them as if it took 8 cycles more."""
    off = np.array(astuple(constants)) - np.array(astuple(TRUE))
    return off / 100, np.array([off[1], off[1], off[1] - 8]) / 100


def test_descent_finds_the_constants_of_made_cycles() -> None:
    tried = fit(MemoryConstants(10, 10, 3, 8, 0), _errors)
    assert best(tried) == TRUE


def test_a_product_left_out_is_judged_by_the_fit_of_all_others() -> None:
    tried = fit(MemoryConstants(10, 10, 3, 8, 0), _errors)
    np.testing.assert_allclose(left_out(tried), [0, 0, -0.08])


def test_no_constant_becomes_negative() -> None:
    tried = fit(
        MemoryConstants(0, 0, 0, 0, 0), lambda one: (np.array([1.0 + sum(astuple(one))]), np.array([]))
    )
    assert min(min(astuple(one)) for one in tried) == 0
    assert best(tried) == MemoryConstants(0, 0, 0, 0, 0)
