"""Cells and memories of a technology, from Liberty files, in SI units.

What is read is what area, timing, power and simulation need (Liberty User Guide, 2017.06): areas, leakage, capacitances and
functions of pins, what registers take, non-linear delay tables with their slews and constraints, and energies inside cells.
Several files are one library (ASAP7 comes as five). Tables may give their axes themselves or by a template, in either order.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.liberty_text import Group, read_groups
from baco.common.errors import InputError, Location
from baco.common.text import one_line

Array = NDArray[np.float64]
#: Powers of ten by Liberty's prefixes of units.
_PREFIXES = {"": 1.0, "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
#: Variables of tables, as an axis of ours: the slew of the input (or of the clock, for constraints), the load (or the
#: slew of the constrained pin).
_FIRST = ("input_net_transition", "input_transition_time", "related_pin_transition")
_SECOND = ("total_output_net_capacitance", "constrained_pin_transition", "output_net_capacitance")
#: Larger memories are none of a chip.
_MOST_ADDRESS_BITS, _MOST_WORD_BITS = 40, 1 << 16


@dataclass(frozen=True)
class Table:
    """A quantity over two axes, linear between its points and beyond them.

    Attributes:
        first: slews of the input or of the clock, s, ascending.
        second: loads, F, or slews of the constrained pin, s, ascending.
        values: shape (first, second).
    """

    first: Array
    second: Array
    values: Array


@dataclass(frozen=True)
class Arc:
    """From one pin to another of a cell.

    Attributes:
        source, target: pins; of a constraint the clock and the constrained pin.
        kind: Liberty's timing_type; `combinational` where none is given.
        sense: `positive_unate`, `negative_unate` or `non_unate`.
        rise, fall: delay of the target's edge (of a constraint, the time before the clock's edge), s; None where the
            target has no such edge.
        rise_slew, fall_slew: s; None for constraints.
    """

    source: str
    target: str
    kind: str
    sense: str
    rise: Table | None
    fall: Table | None
    rise_slew: Table | None = None
    fall_slew: Table | None = None


@dataclass(frozen=True)
class Energy:
    """What a cell takes inside when a pin switches, without what its load takes.

    Attributes:
        pin: that switches.
        related: pin whose edge makes an output switch; empty: any.
        when: function of pins under which it holds; empty: where no other one does.
        rise, fall: J by slew of the cause (or of the pin itself, of an input) and load; None: nothing.
    """

    pin: str
    related: str
    when: str
    rise: Table | None
    fall: Table | None


@dataclass(frozen=True)
class Register:
    """What a flip-flop does; functions are texts of `baco.accel.synthesis.functions`.

    Attributes:
        state, inverse: names of what it holds, in the functions of its outputs.
        clocked_on, next_state: the clock and what is taken at its rising edge.
        clear, preset: that set the state at any time; empty without.
    """

    state: str
    inverse: str
    clocked_on: str
    next_state: str
    clear: str = ""
    preset: str = ""


@dataclass(frozen=True)
class Pin:
    """One bit of a cell's interface: its direction (`input`, `output`, ...), capacitance when it rises and falls, F, and function."""

    direction: str
    rise_f: float = 0.0
    fall_f: float = 0.0
    function: str = ""
    is_clock: bool = False


@dataclass(frozen=True)
class LibraryCell:
    """A cell, or a memory.

    Attributes:
        area_um2, leakage_w: of one instance.
        pins: by name; of buses one a bit, `A[3]`.
        arcs: as the file gives them, those under conditions among them.
        kind: `gate`, `flip-flop`, `latch`, `clock gate` or `memory`.
        words, word_bits: of a memory.
        unusable: the library says that tools should not use it.
        energies: of pins that switch; grounds apart, which give back what supplies gave.
        register: of a flip-flop of one bit.
    """

    name: str
    area_um2: float
    leakage_w: float
    pins: dict[str, Pin]
    arcs: tuple[Arc, ...]
    kind: str = "gate"
    words: int = 0
    word_bits: int = 0
    unusable: bool = False
    energies: tuple[Energy, ...] = ()
    register: Register | None = None

    def pins_of(self, direction: str) -> list[str]:
        """Names of its pins of a direction."""
        return [name for name, pin in self.pins.items() if pin.direction == direction]


@dataclass
class Library:
    """The cells of some files.

    Attributes:
        names: of the libraries in the files.
        volts, celsius: nominal; of the first file that says.
        cells: by name.
        files: where they came from.
        digest: of what stands in them.
    """

    names: list[str] = field(default_factory=list)
    volts: float = 0.0
    celsius: float = 0.0
    cells: dict[str, LibraryCell] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    digest: str = ""

    def kinds(self, kind: str) -> list[LibraryCell]:
        """The usable cells of a kind, smallest first."""
        found = [cell for cell in self.cells.values() if cell.kind == kind and not cell.unusable]
        return sorted(found, key=lambda cell: (cell.area_um2, cell.name))

    @property
    def adders(self) -> list[LibraryCell]:
        """Cells of three inputs and two outputs: full adders."""
        return [
            cell
            for cell in self.kinds("gate")
            if (len(cell.pins_of("input")), len(cell.pins_of("output"))) == (3, 2)
        ]

    def buffers(self) -> list[LibraryCell]:
        """Cells that repeat their only input, smallest first."""
        found = []
        for cell in self.kinds("gate"):
            inputs, outputs = cell.pins_of("input"), cell.pins_of("output")
            if len(inputs) == len(outputs) == 1 and cell.pins[outputs[0]].function.strip("() ") == inputs[0]:
                found.append(cell)
        return found


def read_library(paths: Sequence[Path]) -> Library:
    """Cells of one or several Liberty files, which may be compressed by gzip.

    Raises InputError for a file that cannot be read or holds no library, and where no file holds a cell.
    """
    library, content = Library(files=list(paths)), hashlib.sha256()
    for path in paths:
        groups = [group for group in read_groups(path, content.update) if group.kind == "library"]
        if not groups:
            raise InputError(
                "the file holds no library",
                location=Location(str(path)),
                hint="it should be a Liberty (.lib) file",
            )
        for group in groups:
            _Reader(group, path).into(library)
    library.digest = content.hexdigest()
    if not library.cells:
        raise InputError(
            "no cells in this library",
            location=Location(str(paths[0]) if paths else "--liberty"),
            hint="give its other files, too",
        )
    return library


class _Reader:
    """One `library` group, with its units and templates."""

    def __init__(self, group: Group, path: Path) -> None:
        self._group, self._path = group, path
        self._second = self._unit("time_unit", "s", 1e-9)
        self._volt = self._unit("voltage_unit", "v", 1.0)
        self._leakage = self._unit("leakage_power_unit", "w", 1e-9)
        load = group.attributes.get("capacitive_load_unit", ["1", "pf"])
        self._farad = self._quantity("capacitive_load_unit", "".join(load[:2]), "f", 1e-12)
        self._templates = {
            template.name: template
            for template in group.groups
            if template.kind.endswith(("table_template", "lut_template"))
        }
        self._buses = {kind.name: kind for kind in group.all("type")}
        self._tables: dict[tuple[Any, ...], Array] = {}

    def into(self, library: Library) -> None:
        """Add what the group holds."""
        group = self._group
        library.names.append(group.name)
        library.volts = library.volts or (group.number("nom_voltage") or 0.0) * self._volt
        library.celsius = library.celsius or group.number("nom_temperature") or 0.0
        for cell in group.all("cell"):
            library.cells[cell.name] = self._cell(cell)

    def _unit(self, attribute: str, letter: str, default: float) -> float:
        text = self._group.text(attribute)
        return self._quantity(attribute, text, letter, default) if text else default

    def _quantity(self, attribute: str, text: str, letter: str, default: float) -> float:
        found = re.fullmatch(rf"\s*([\d.eE+-]+)?\s*([fpnumk]?){letter}\s*", text, re.IGNORECASE)
        if not text.strip():
            return default
        if found is None:
            raise InputError(
                f"'{text}' is no unit of {attribute}", location=Location(str(self._path), self._group.line)
            )
        return float(found[1] or 1) * _PREFIXES[found[2].lower()]

    def _cell(self, group: Group) -> LibraryCell:
        pins: dict[str, Pin] = {}
        arcs: list[Arc] = []
        energies: list[Energy] = []
        grounds = {pin.name for pin in group.all("pg_pin") if pin.text("pg_type").endswith("ground")}
        for pin, names in self._pins(group):
            direction = pin.text("direction", "input")
            for name in names:
                rise, fall = (
                    self._capacitance(pin, direction, edge) * self._farad for edge in ("rise", "fall")
                )
                pins[name] = Pin(direction, rise, fall, pin.text("function"), pin.text("clock") == "true")
            for name in names:
                arcs += [arc for timing in pin.all("timing") for arc in self._arcs(timing, name)]
                for power in pin.all("internal_power"):
                    if power.text("related_pg_pin") not in grounds:
                        energies += self._energies(power, name)
        area = group.number("area")
        memory = next(group.all("memory"), None)
        address, word = (
            (memory.number(name) or 0) if memory else 0 for name in ("address_width", "word_width")
        )
        if not (0 <= address <= _MOST_ADDRESS_BITS and 0 <= word <= _MOST_WORD_BITS):
            raise InputError(
                f"a memory of {address:g} bits of address and {word:g} of a word",
                location=Location(str(self._path), group.line),
            )
        return LibraryCell(
            group.name,
            area if area is not None else 0.0,
            self._cell_leakage(group),
            pins,
            tuple(arcs),
            _kind(group),
            1 << int(address) if memory else 0,
            int(word),
            group.text("dont_use") == "true",
            tuple(energies),
            _register(group),
        )

    def _pins(self, group: Group) -> Iterable[tuple[Group, list[str]]]:
        """Groups with pins' attributes, and the bits that they speak of."""
        for pin in group.all("pin"):
            yield pin, pin.names
        for bus in (*group.all("bus"), *group.all("bundle")):
            kind = self._buses.get(bus.text("bus_type"))
            kind = kind or next((one for one in group.all("type") if one.name == bus.text("bus_type")), None)
            if kind is not None:
                ends = [int(kind.number(end) or 0) for end in ("bit_from", "bit_to")]
                bits = [f"{bus.name}[{bit}]" for bit in range(min(ends), max(ends) + 1)]
            else:
                bits = [name for pin in bus.all("pin") for name in pin.names] or [bus.name]
            yield bus, bits
            for pin in bus.all("pin"):
                merged = Group("pin", pin.names, pin.line, {**bus.attributes, **pin.attributes}, pin.groups)
                yield merged, [bit for name in pin.names for bit in _bits(name)]

    def _capacitance(self, pin: Group, direction: str, edge: str) -> float:
        """The most of an edge, in the file's units; 0 of what is no input."""
        if direction != "input":
            return 0.0
        span = pin.attributes.get(f"{edge}_capacitance_range")
        if span:
            return max(self._numbers(" ".join(span), pin) or [0.0])
        given = (
            pin.number(f"{edge}_capacitance"),
            pin.number("capacitance"),
            self._group.number("default_input_pin_cap"),
        )
        return next((value for value in given if value is not None), 0.0)

    def _cell_leakage(self, group: Group) -> float:
        """The mean of its states where the cell gives no value of its own, W."""
        own = group.number("cell_leakage_power")
        if own is None:
            # powers of a supply under the same condition add up, and grounds take none
            states: dict[str, float] = {}
            for leakage in group.all("leakage_power"):
                value = leakage.number("value")
                if value is not None:
                    states[leakage.text("when")] = states.get(leakage.text("when"), 0.0) + value
            states = {when: value for when, value in states.items() if when} or states
            own = (
                sum(states.values()) / len(states)
                if states
                else self._group.number("default_cell_leakage_power")
            )
        return (own or 0.0) * self._leakage

    def _arcs(self, timing: Group, target: str) -> Iterable[Arc]:
        kind = timing.text("timing_type", "combinational")
        constraint = next(timing.all("rise_constraint"), None), next(timing.all("fall_constraint"), None)
        for source in timing.text("related_pin", timing.text("related_bus_pins")).split():
            if constraint != (None, None):
                rise, fall = (self._table(group, self._second, self._second) for group in constraint)
                yield Arc(source, target, kind, "non_unate", rise, fall)
                continue
            found = [
                self._table(next(timing.all(name), None), self._second, self._farad)
                for name in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
            ]
            if found[:2] != [None, None]:
                yield Arc(source, target, kind, timing.text("timing_sense", "non_unate"), *found)

    def _energies(self, power: Group, pin: str) -> Iterable[Energy]:
        joule = self._farad * self._volt**2  # as the User Guide has it
        edges = []
        for name in ("rise_power", "fall_power"):
            table = next(power.all(name), next(power.all("power"), None))
            edges.append(self._table(table, self._second, self._farad, joule))
        for related in power.text("related_pin").split() or [""]:
            yield Energy(pin, related, power.text("when"), *edges)

    def _table(
        self, group: Group | None, first: float, second: float, unit: float | None = None
    ) -> Table | None:
        """Shape (first, second) in SI units; constants and tables over one variable are widened.

        Args:
            first, second: units of the axes.
            unit: of the values; that of time where it is not given.
        """
        if group is None or "values" not in group.attributes:
            return None
        template = self._templates.get(group.name)
        values = np.array([x for row in group.attributes["values"] for x in self._numbers(row, group)])
        variables = [template.text(f"variable_{n}") for n in (1, 2)] if template else ["", ""]
        axes = [self._axis(group, template, n) for n in (1, 2)]
        if values.size == 1:
            axes, values = [np.zeros(1), np.zeros(1)], values.reshape(1, 1)
        elif axes[1] is None:  # over one variable
            axis = axes[0]
            if axis is None or axis.size != values.size:
                raise self._bad(group)
            over_second = variables[0] in _SECOND
            axes = [np.zeros(1), axis] if over_second else [axis, np.zeros(1)]
            values = values.reshape((1, -1) if over_second else (-1, 1))
        else:
            assert axes[0] is not None
            if values.size != axes[0].size * axes[1].size:
                raise self._bad(group)
            values = values.reshape(axes[0].size, axes[1].size)
            if variables[0] in _SECOND and variables[1] in _FIRST:
                axes, values = axes[::-1], values.T
        assert axes[0] is not None
        assert axes[1] is not None
        return Table(axes[0] * first, axes[1] * second, values * (self._second if unit is None else unit))

    def _axis(self, group: Group, template: Group | None, number: int) -> Array | None:
        for source in (group, template):
            if source is not None and f"index_{number}" in source.attributes:
                text = tuple(source.attributes[f"index_{number}"])
                if text not in self._tables:
                    self._tables[text] = np.array([x for part in text for x in self._numbers(part, group)])
                return self._tables[text]
        return None

    def _numbers(self, text: str, group: Group) -> list[float]:
        try:
            numbers = [float(word) for word in text.replace(",", " ").replace("\\", " ").split()]
        except ValueError:
            numbers = [math.nan]
        if not all(map(math.isfinite, numbers)):
            raise InputError(
                f"'{one_line(text, 60)}' of '{group.kind}' are no numbers",
                location=Location(str(self._path), group.line),
            )
        return numbers

    def _bad(self, group: Group) -> InputError:
        return InputError(
            f"the table '{group.kind}' does not have as many values as its axes say",
            location=Location(str(self._path), group.line),
        )


def _register(group: Group) -> Register | None:
    """Of a cell with one `ff`."""
    found = list(group.all("ff"))
    if len(found) != 1 or len(found[0].names) < 2:
        return None
    texts = (found[0].text(name) for name in ("clocked_on", "next_state", "clear", "preset"))
    return Register(found[0].names[0], found[0].names[1], *texts)


def _bits(name: str) -> list[str]:
    """`A[3:0]` as its bits."""
    found = re.fullmatch(r"(.+)\[(\d+):(\d+)\]", name)
    if found is None:
        return [name]
    ends = sorted((int(found[2]), int(found[3])))
    return [f"{found[1]}[{bit}]" for bit in range(ends[0], ends[1] + 1)]


def _kind(group: Group) -> str:
    if "clock_gating_integrated_cell" in group.attributes:
        return "clock gate"
    kinds = {inner.kind for inner in group.groups}
    if "memory" in kinds:
        return "memory"
    if kinds & {"ff", "ff_bank"}:
        return "flip-flop"
    return "latch" if kinds & {"latch", "latch_bank", "statetable"} else "gate"
