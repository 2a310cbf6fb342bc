"""What switching costs in a technology: figures that counts of a run in RTL become energy by (`baco.sim.energy.switched_energy`).

Fitted by `python -m baco.bench.fit.switching` to gate-level runs of a small machine: each net's switching in its mapped netlist
times Liberty's energies (`baco.accel.synthesis.power`), before layout.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from baco.accel.area import priced_mm2, term_prices
from baco.accel.bank_law import bank_laws
from baco.accel.structure_law import Configuration


class SwitchingConfiguration(Configuration, Protocol):
    """The part of `baco.accel.config.Accelerator` that decides what accesses and cycles take."""

    @property
    def dim(self) -> int: ...
    @property
    def input_bits(self) -> int: ...
    @property
    def accumulator_bits(self) -> int: ...
    @property
    def scratchpad_rows(self) -> int: ...
    @property
    def accumulator_rows(self) -> int: ...


@dataclass(frozen=True)
class SwitchingFigures:
    """Energies in pJ.

    Attributes:
        clock: of a register's bit in a cycle, its part of the clock's tree included.
        a, weight, multiplier: of a changed bit at a port of the array, for each of the elements that it passes.
        product, total: of a changed bit of an element's product and of its sum.
        element: of an element in a cycle in which the array advances.
        command: of a command on its way through queues, station and units.
        moved_byte: of a byte from or to main memory inside the accelerator.
        accumulated_word: of a word that is read from or written to the accumulator, its access apart.
        charge: of an input of the smallest NAND that rises and falls, which accesses of memories are counted in.
        error: of single runs against gate level, clock apart: mean of their sizes.
    """

    clock: float
    a: float
    weight: float
    multiplier: float
    product: float
    total: float
    element: float
    command: float
    moved_byte: float
    accumulated_word: float
    charge: float
    error: float

    def access_pj(self, rows: int, width: int) -> float:
        """Of reading or writing a row of a bank."""
        return self.charge * float(bank_laws().access.of(rows * width, width))

    def scratchpad_pj(self, accelerator: SwitchingConfiguration) -> float:
        """Of an access of a row of the scratchpad."""
        rows = accelerator.scratchpad_rows // accelerator.scratchpad_banks
        return self.access_pj(rows, accelerator.dim * accelerator.input_bits)

    def accumulator_pj(self, accelerator: SwitchingConfiguration) -> float:
        """Of an access of a row of the accumulator."""
        rows = accelerator.accumulator_rows // accelerator.accumulator_banks
        return self.access_pj(rows, accelerator.dim * accelerator.accumulator_bits)

    def clock_pj(self, accelerator: SwitchingConfiguration) -> float:
        """Of a cycle, whatever happens in it: nothing gates the clock of our Verilog."""
        return float(self.clock_pj_of(accelerator, float(accelerator.dim)))

    def clock_pj_of(self, configuration: Configuration, dim: Any) -> Any:
        """`clock_pj` of accelerators that have everything but their sizes from a configuration; a number, array or tensor."""
        return self.clock * priced_mm2(configuration, dim, _REGISTER_PRICES)

    def to_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


#: A register's bit at one each, in terms of the law of structure.
_REGISTER_PRICES = term_prices((("register_bits", 1e6),))
