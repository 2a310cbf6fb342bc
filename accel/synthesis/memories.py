"""What banks of memory are in silicon: composed of the user's macros, or of a law where he has none.

A bank reads a row and writes lanes of another in one cycle. Macros with two ports do that; a library that has none with two
ports is used as it is, which is said. A bank takes the macros that need least area: as many beside each other as its rows
are wide, as many below each other as it has rows, each of those with a multiplexer of the library behind it.

Without macros a bank costs a law fitted to the two-port memories of IHP's 130 nm library (Apache-2.0,
IHP-GmbH/IHP-Open-PDK at 5cccb16): area = a + b sqrt(bits) + c width + d bits, in areas of the library's smallest two-input
NAND, so that it follows a technology's cells; access and setup times in delays of an inverter that drives four, those of a bank
that is larger than these memories as of parts of their size, as with macros; energies of accesses by the same terms as areas,
in what charges an input of that NAND.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from baco.accel.bank_law import bank_laws
from baco.accel.synthesis.liberty import Arc, Library, LibraryCell, Pin, Table
from baco.accel.synthesis.mapping import BankShape
from baco.accel.synthesis.tables import repeated
from baco.accel.synthesis.timing import input_f

#: What cells take in processes from 3 um to 3 nm, with room: delays of inverters that drive four are some 0.4 ps a nm of gate
#: length (Ho, Mai, Horowitz, "The Future of Wires", Proc. IEEE 2001); smallest inputs and NANDs go from about 100 fF and 3,000 um2
#: to 0.3 fF and 0.03 um2.
_FO4_PS, _INPUT_FF, _NAND2_UM2 = (1.0, 2000.0), (0.05, 500.0), (0.005, 10000.0)


@dataclass(frozen=True)
class Bank:
    """One kind of bank in silicon.

    Attributes:
        memory: what it holds.
        area_um2, leakage_w: of one bank.
        access_s: from the clock to the data.
        setup_s: of its inputs before the clock.
        access_j: energy of reading or writing a row.
        macro: what it is made of; empty where the law speaks.
        across, down: macros beside and below each other.
    """

    memory: BankShape
    area_um2: float
    leakage_w: float
    access_s: float
    setup_s: float
    access_j: float
    macro: str = ""
    across: int = 1
    down: int = 1

    @property
    def text(self) -> str:
        """In a few words."""
        size = f"{self.memory.rows:,} x {self.memory.width}"
        return f"{size}: {self.across} x {self.down} {self.macro}" if self.macro else f"{size}: by law"


def banks(
    memories: Iterable[BankShape], cells: Library, macros: Library | None
) -> tuple[dict[BankShape, Bank], list[str]]:
    """Each kind of bank in silicon, and remarks on what was missing.

    Args:
        cells: the standard cells.
        macros: memories of the user's; None: by law.
    """
    remarks = []
    usable = macros_of(macros) if macros is not None else []
    if macros is not None and not usable:
        remarks.append("the files of memories hold no memory with a size: banks are counted by law")
    two_ports = [macro for macro in usable if macro.ports > 1]
    if usable and not two_ports:
        remarks.append(
            "no memory with two ports: banks are made of memories with one, which cannot read and write in a cycle"
        )
    found = {}
    for memory in memories:
        chosen = two_ports or usable
        found[memory] = (
            min((_composed(memory, macro, cells) for macro in chosen), key=lambda bank: bank.area_um2)
            if chosen
            else _by_law(memory, cells)
        )
    return found, remarks


@dataclass(frozen=True)
class Macro:
    """A memory of a library: its words, their bits, its ports; times, s, and energy of an access, J, as `Bank` has them."""

    cell: LibraryCell
    words: int
    bits: int
    ports: int
    access_s: float
    setup_s: float
    access_j: float

    @classmethod
    def of(cls, cell: LibraryCell) -> Macro:
        """Its ports are counted by its outputs: a macro has a word of them a port that reads."""
        outputs = len(cell.pins_of("output"))
        access = _largest(cell.arcs, ("rising_edge", "falling_edge"))
        setup = _largest(cell.arcs, ("setup_rising", "setup_falling"))
        ports = max(1, outputs // cell.word_bits) if cell.word_bits else 1
        return cls(cell, cell.words, cell.word_bits, ports, access, setup, _access_j(cell))


def macros_of(library: Library) -> list[Macro]:
    """The memories of a library that have a size."""
    found = [Macro.of(cell) for cell in library.kinds("memory")]
    return [macro for macro in found if macro.words and macro.bits]


def _largest(arcs: Sequence[Arc], kinds: tuple[str, ...]) -> float:
    """The largest value at the steepest slew and the middle load, s."""
    found = [0.0]
    for arc in arcs:
        if arc.kind in kinds:
            tables = [table for table in (arc.rise, arc.fall) if table is not None]
            found += [float(table.values[0, table.values.shape[1] // 2]) for table in tables]
    return max(found)


def _access_j(cell: LibraryCell) -> float:
    """Of a macro: the median of what an edge of its first clock takes where it does something, J.

    Conditions of clocks name pins as every vendor likes; those that read or write take most, and less than half of the most is
    taken by what does nothing.
    """
    clock = next((name for name, pin in cell.pins.items() if pin.is_clock), None)
    taken = []
    for energy in cell.energies:
        if energy.pin == clock:
            taken.append(
                sum(float(table.values.mean()) for table in (energy.rise, energy.fall) if table is not None)
            )
    return float(np.median([value for value in taken if value >= max(taken) / 2])) if taken else 0.0


def _composed(memory: BankShape, macro: Macro, cells: Library) -> Bank:
    width = memory.width
    across, down = math.ceil(width / macro.bits), math.ceil(memory.rows / macro.words)
    number = across * down
    select = nand2_um2(cells) * 3 * width * (down - 1)  # a multiplexer is about three NANDs
    return Bank(
        memory,
        number * macro.cell.area_um2 + select,
        number * macro.cell.leakage_w,
        macro.access_s + _selection_s(down, cells),
        macro.setup_s,
        across * macro.access_j,  # of those below each other, one is read
        macro.cell.name,
        across,
        down,
    )


def _selection_s(down: int, cells: Library) -> float:
    """Delay of the multiplexer behind memories below each other, s."""
    return 2 * math.ceil(math.log2(down)) * fo4_s(cells)


def _by_law(memory: BankShape, cells: Library) -> Bank:
    fo4, laws = fo4_s(cells), bank_laws()
    first, second = laws.access_fo4
    part = min(memory.rows, laws.words) * min(memory.width, laws.word_bits)
    return Bank(
        memory,
        laws.area.of(memory.bits, memory.width) * nand2_um2(cells),
        laws.bit_leakage * memory.bits * nand2_leakage_w(cells),
        (first + second * math.log2(part)) * fo4 + _selection_s(math.ceil(memory.rows / laws.words), cells),
        laws.setup_fo4 * fo4,
        laws.access.of(memory.bits, memory.width) * nand2_charge_j(cells),
    )


def _nand2(cells: Library) -> LibraryCell:
    """The smallest gate of two inputs that inverts: what a library's density is measured by."""
    for cell in cells.kinds("gate"):
        outputs = cell.pins_of("output")
        if len(cell.pins_of("input")) == 2 and len(outputs) == 1 and _inverts(cell):
            return cell
    return cells.kinds("gate")[0]


def nand2_um2(cells: Library) -> float:
    """Area of the library's smallest NAND or NOR of two inputs."""
    return _nand2(cells).area_um2


def nand2_leakage_w(cells: Library) -> float:
    """Leakage of it."""
    return _nand2(cells).leakage_w


def nand2_charge_j(cells: Library) -> float:
    """What charges and discharges an input of it, J."""
    nand = _nand2(cells)
    return nand.pins[nand.pins_of("input")[0]].rise_f * cells.volts**2


def _inverts(cell: LibraryCell) -> bool:
    arcs = [arc for arc in cell.arcs if arc.kind == "combinational"]
    return bool(arcs) and all(arc.sense == "negative_unate" for arc in arcs)


def fo4_s(cells: Library) -> float:
    """Delay of the library's smallest inverter that drives four like it, at the slew that it makes itself, s."""
    cell = _inverter(cells)
    return 0.0 if cell is None else float(repeated(cell, np.array([4 * input_f(cell)])).sum()) / 2


def _inverter(cells: Library) -> LibraryCell | None:
    """The smallest one that has delays."""
    return next(
        (
            cell
            for cell in cells.kinds("gate")
            if len(cell.pins_of("input")) == len(cell.pins_of("output")) == 1 and _inverts(cell)
        ),
        None,
    )


def doubts(cells: Library) -> list[str]:
    """Figures of a library that no process has, in words: its units may be others than it says."""
    inverter = _inverter(cells)
    figures = {
        "an inverter that drives four takes {:.3g} ps": (fo4_s(cells) * 1e12, _FO4_PS),
        "an inverter's input takes {:.3g} fF": (input_f(inverter) * 1e15 if inverter else 0.0, _INPUT_FF),
        "a NAND takes {:.3g} µm²": (nand2_um2(cells), _NAND2_UM2),
    }
    return [
        f"{text.format(value)}, which no process does ({low:g} to {high:g}): are the library's units right?"
        for text, (value, (low, high)) in figures.items()
        if not low <= value <= high
    ]


def bank_cell(name: str, bank: Bank) -> LibraryCell:
    """A bank as timing sees it: a register of its inputs, and data that come a while after the clock."""
    memory = bank.memory
    row_bits = max(1, math.ceil(math.log2(memory.rows)))
    widths = {
        "read_enable": 1, "read_row": row_bits, "write_enable": 1, "write_row": row_bits,
        "write_mask": memory.lanes, "write_data": memory.width,
    }  # fmt: skip
    pins = {"clock": Pin("input", is_clock=True)}
    arcs = []
    setup, access, slew = _constant(bank.setup_s), _constant(bank.access_s), _constant(0.0)
    for pin, width in widths.items():
        for bit in range(width):
            wire = pin if width == 1 else f"{pin}[{bit}]"
            pins[wire] = Pin("input")
            arcs.append(Arc("clock", wire, "setup_rising", "non_unate", setup, setup))
    for bit in range(memory.width):
        wire = f"read_data[{bit}]"
        pins[wire] = Pin("output")
        arcs.append(Arc("clock", wire, "rising_edge", "non_unate", access, access, slew, slew))
    return LibraryCell(
        name, bank.area_um2, bank.leakage_w, pins, tuple(arcs), kind="memory", words=memory.rows
    )


def _constant(value: float) -> Table:
    return Table(np.zeros(1), np.zeros(1), np.array([[value]]))
