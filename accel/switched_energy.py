"""Energy in a technology whose figures of switching are known: analytical counts times the figures (`SwitchingFigures`), with the
numbers of a network in them.

What `baco.sim.energy.switched_energy` takes from counters of a run in RTL is predicted here from counts of the analytical models:

    array        = macs (a + product + total + element) + dim x stationary words (weight + element)
    memories     = rows accessed x energy of an access + words of the accumulator x their way
    main memory  = bytes x (what the energy table says + their way through the accelerator)
    every cycle  = registers x clock + leakage

where `a`, `weight`, `product` and `total` are bits that change (`Toggles`) times the figure of one. Commands are left out (0.2 to 2%
of what is not the clock's).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from baco.accel.bank_law import bank_laws
from baco.accel.energy import EnergyLaw, EnergyTable
from baco.accel.switching_figures import SwitchingConfiguration, SwitchingFigures


@dataclass(frozen=True)
class Toggles:
    """Bits that change in the array for one operation, on average: what the numbers of a network do.

    Attributes:
        a: of an element that enters a row of the array, for each of the multiplications that it takes part in.
        weight: of a stationary element that moves one element down its column.
        product, total: of an element's product and of its sum, for each multiplication.
        elements: of the array, for each of them that multiplies: those that have no operands are clocked, too.
    """

    a: float
    weight: float
    product: float
    total: float
    elements: float = 1.0


#: The middle of the networks of `results/energy.md`, for searches, which know shapes and no numbers.
TYPICAL = Toggles(a=3.2, weight=4.4, product=5.8, total=13.5, elements=1.1)


@dataclass(frozen=True)
class SwitchedEnergy(EnergyLaw):
    """The energy of accelerators that differ in their sizes only; `baco.accel.energy.EnergyLaw`.

    Attributes:
        figures: of the technology.
        table: what main memory, its interface, leakage and the host core take.
        configuration: everything but sizes.
        toggles: of the numbers that are multiplied.
        times: energy of a multiply-accumulate next to that of integers with these numbers.
    """

    figures: SwitchingFigures
    table: EnergyTable
    configuration: SwitchingConfiguration
    toggles: Toggles = TYPICAL
    times: float = 1.0

    def with_numbers(self, toggles: Toggles) -> SwitchedEnergy:
        """The same for other numbers."""
        return replace(self, toggles=toggles)

    @property
    def mac_pj(self) -> float:
        """Of a multiply-accumulate."""
        figures, bits = self.figures, self.toggles
        moved = figures.a * bits.a + figures.product * bits.product + figures.total * bits.total
        return self.times * (moved + figures.element * bits.elements)

    @property
    def register_pj(self) -> float:
        """See `EnergyLaw`."""
        return 0.0

    @property
    def static(self) -> bool:
        """See `EnergyLaw`: the clock."""
        return True

    @property
    def dram_pj(self) -> float:
        """Of a byte of main memory, its way through the accelerator included."""
        return self.table.dram_pj + self.figures.moved_byte

    @property
    def instruction_pj(self) -> float:
        """Of an instruction of the host core."""
        return self.table.instruction_pj

    def array_terms(self, macs: Any, accesses: Any, dim: Any) -> tuple[Any, Any]:
        """See `EnergyLaw.array_terms`: what is no multiplication among the accesses is a stationary word, which shifts through a
        column."""
        shift = self.figures.weight * self.toggles.weight + self.figures.element
        return self.mac_pj * macs, shift * dim * (accesses - macs)

    def array_pj(self, macs: Any, stationary: Any, dim: Any) -> Any:
        """See `EnergyLaw`."""
        multiplied, shifted = self.array_terms(macs, macs + stationary, dim)
        return multiplied + shifted

    def accumulator_pj(self, accumulator_kib: Any, dim: Any) -> Any:
        """See `EnergyLaw`."""
        of = self.configuration
        bits = accumulator_kib * 8192 / of.accumulator_banks
        access = bank_laws().access.of(bits, of.accumulator_bits * dim)
        return self.figures.charge * access / dim + self.figures.accumulated_word

    def scratchpad_pj(self, scratchpad_kib: Any, dim: Any) -> Any:
        """See `EnergyLaw`."""
        of = self.configuration
        bits = scratchpad_kib * 8192 / of.scratchpad_banks
        return self.figures.charge * bank_laws().access.of(bits, of.input_bits * dim) / dim
