"""Energy in a technology with figures of switching: what counts become, written out once more by hand."""

from __future__ import annotations

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.energy import EnergyTable
from baco.accel.structure_law import structure_law
from baco.accel.switched_energy import TYPICAL, SwitchedEnergy, Toggles
from baco.accel.switching_figures import SwitchingFigures
from baco.accel.technology import switching_figures

NAME = "ihp-sg13g2"
MACHINE = Accelerator(
    name="here", dim=8, scratchpad_kib=32, accumulator_kib=16, technology=NAME,
    energy=EnergyTable(leakage_mw_per_mm2=2.0).model_dump(),
)  # fmt: skip
FIGURES = switching_figures(NAME)


def test_published_technologies_keep_their_table() -> None:
    published = MACHINE.replace(technology="published-45nm")
    assert published.energy_law is published.energy
    assert isinstance(MACHINE.energy_law, SwitchedEnergy)


def test_of_the_array_by_hand() -> None:
    toggles = Toggles(a=2.0, weight=3.0, product=5.0, total=7.0, elements=1.5)
    law = SwitchedEnergy(FIGURES, MACHINE.energy, MACHINE, toggles)
    f = FIGURES
    each = 2.0 * f.a + 5.0 * f.product + 7.0 * f.total + 1.5 * f.element
    # a word that stays moves down the whole column, of 8 elements
    shifted = 8 * (3.0 * f.weight + f.element)
    macs, registers = law.array_terms(100.0, 104.0, 8)
    assert (macs, registers) == (pytest.approx(100 * each), pytest.approx(4 * shifted))
    assert law.array_pj(100.0, 4.0, 8) == pytest.approx(100 * each + 4 * shifted)
    wider = law.array_pj(100.0, 4.0, np.array([8.0, 16.0]))
    assert wider[1] - wider[0] == pytest.approx(4 * shifted)


def test_of_memories_is_that_of_accesses_of_rows() -> None:
    law = MACHINE.energy_law
    row = FIGURES.scratchpad_pj(MACHINE)
    assert 8 * law.scratchpad_pj(32.0, 8.0) == pytest.approx(row)
    row = FIGURES.accumulator_pj(MACHINE) + 8 * FIGURES.accumulated_word
    assert 8 * law.accumulator_pj(16.0, 8.0) == pytest.approx(row)
    assert law.dram_pj == MACHINE.energy.dram_pj + FIGURES.moved_byte
    # banks that are larger take more
    sizes = law.scratchpad_pj(np.array([32.0, 64.0, 128.0]), 8.0)
    assert (np.diff(sizes) > 0).all()


def test_of_a_cycle_is_clock_and_leakage() -> None:
    registers = structure_law().counts(MACHINE, 8)["register_bits"]
    leakage = 2.0 * MACHINE.area_mm2 * 1e3 / MACHINE.clock_mhz
    assert MACHINE.static_pj(100) == pytest.approx(100 * (FIGURES.clock * registers + leakage))
    sides = np.array([4.0, 8.0])
    both = MACHINE.static_pj_of(100.0, sides, 16.0, 32.0)
    assert both[1] == pytest.approx(MACHINE.static_pj(100))
    assert both[0] < both[1]


def test_zeros_cost_less_and_typical_numbers_lie_between() -> None:
    law = MACHINE.energy_law
    assert isinstance(law, SwitchedEnergy)
    nothing = law.with_numbers(Toggles(0.0, 0.0, 0.0, 0.0))
    dense = law.with_numbers(Toggles(4.0, 4.5, 8.0, 16.0))
    assert FIGURES.element == nothing.mac_pj < law.with_numbers(TYPICAL).mac_pj == law.mac_pj < dense.mac_pj


def test_figures_of_no_more_than_a_clock_are_nothing_else() -> None:
    nothing = dict.fromkeys(FIGURES.to_dict(), 0.0)
    law = SwitchedEnergy(SwitchingFigures(**nothing | {"clock": 1.0}), EnergyTable(dram_pj=0.0), MACHINE)
    assert law.array_pj(1e6, 1e3, 8) == law.scratchpad_pj(32.0, 8.0) == law.accumulator_pj(16.0, 8.0) == 0.0
    assert law.function_pj("softmax") == law.normalisation_pj("variance") == law.dram_pj == 0.0
