"""Dynamic energy of a run: each net's switching times what its load and its cell take, by Liberty.

A change of a net takes half of its capacitance times V squared (pins, wires, and the buffers of the tree where it reaches many
pins) and what the cell that drives it, and those that it enters, take inside: tables over the slew of the cause and the load.
Energies under conditions count as often as these hold, taking pins as independent, but for what a register holds and
takes: these differ exactly where it switches. The clock runs in every cycle. Glitches within a cycle are not in it,
nor short circuits beyond what Liberty says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.flat import Flat, Instances
from baco.accel.synthesis.functions import BooleanFunction, read_function
from baco.accel.synthesis.liberty import Energy, Library
from baco.accel.synthesis.mapping import ONE
from baco.accel.synthesis.memories import Bank
from baco.accel.synthesis.switching import Switching
from baco.accel.synthesis.tables import Tables
from baco.accel.synthesis.timing import Timing, input_f, loads, repeater, tree_buffers

Array = NDArray[np.float64]
#: Of what energy goes to: clock (tree, pins, registers' own), changes of what registers hold, gates, memories' accesses.
KINDS = ("clock", "registers", "logic", "memories")
#: By kind of cell.
_KIND_OF = {"flip-flop": KINDS.index("registers"), "memory": KINDS.index("memories")}


@dataclass(frozen=True)
class DynamicEnergy:
    """Energy of a run.

    Attributes:
        by_scope: J, shape (module instances, `KINDS`).
        cycles: of the run.
    """

    by_scope: Array
    cycles: int

    @property
    def total_j(self) -> float:
        """All of it."""
        return float(self.by_scope.sum())


@dataclass(frozen=True)
class ModulePower:
    """All instances of one module, without the modules inside: dynamic power by `KINDS`."""

    name: str
    mw: dict[str, float]

    @property
    def total_mw(self) -> float:
        """All of it."""
        return sum(self.mw.values())


@dataclass(frozen=True)
class Power:
    """What a design takes while a program runs, leakage apart.

    Attributes:
        dynamic_mw: in the mean of the run, at `clock_mhz`; mw: by `KINDS`.
        energy_uj: of the run.
        cycles: that it took.
        modules: the most hungry first.
    """

    dynamic_mw: float
    clock_mhz: float
    energy_uj: float
    cycles: int
    mw: dict[str, float]
    modules: tuple[ModulePower, ...]


def power(flat: Flat, energy: DynamicEnergy, clock_mhz: float) -> Power:
    """Energy of a run as power, by module."""
    to_mw = clock_mhz * 1e6 / max(energy.cycles, 1) * 1e3
    by_name: dict[str, Array] = {}
    for module, row in zip(flat.modules, energy.by_scope, strict=True):
        by_name[module.name] = by_name.get(module.name, np.zeros(len(KINDS))) + row * to_mw
    modules = [
        ModulePower(name, dict(zip(KINDS, row.tolist(), strict=True))) for name, row in by_name.items()
    ]
    kinds = dict(zip(KINDS, (energy.by_scope.sum(0) * to_mw).tolist(), strict=True))
    return Power(
        energy.total_j * to_mw,
        clock_mhz,
        energy.total_j * 1e6,
        energy.cycles,
        kinds,
        tuple(sorted(modules, key=lambda module: (-module.total_mw, module.name))),
    )


@dataclass
class _Run:
    """What the parts of the sum share."""

    flat: Flat
    volts: float
    timing: Timing
    switching: Switching
    clock: int
    tables: Tables = field(default_factory=Tables)

    def toggles(self, nets: NDArray[np.int64]) -> Array:
        """Changes, of constants none; shape as given."""
        found = np.where(nets >= 0, self.switching.toggles[nets], 0).astype(float)
        return np.where(nets == self.clock, 2.0 * self.switching.cycles, found)

    def high(self, nets: NDArray[np.int64]) -> Array:
        """Share of time at 1; shape as given."""
        found = np.where(nets >= 0, self.switching.high[nets], (nets == ONE).astype(float))
        return np.where(nets == self.clock, 0.5, found)

    def slew(self, nets: NDArray[np.int64]) -> Array:
        """Of edges, rising and falling, s; shape (2, n)."""
        flat = np.stack([self.timing.slew_s[nets * 2], self.timing.slew_s[nets * 2 + 1]])
        driven = (nets >= 0) & (nets != self.clock) & (flat > 0)
        return np.where(driven, flat, self.timing.assumptions.clock_slew_s)

    def edges(self, energy: Energy, slews: Array, load: Array) -> Array:
        """Mean of a rising and a falling edge, J, shape (n,); `slews` and `load`: shape (2, n)."""
        found = np.zeros(slews.shape[1])
        for edge, table in enumerate((energy.rise, energy.fall)):
            if table is not None and found.size:
                number = np.full(found.size, self.tables.number(table), np.int64)
                found += self.tables.read(number, slews[edge], load[edge]) / 2
        return found


def dynamic_energy(
    flat: Flat, library: Library, timing: Timing, switching: Switching, banks: Mapping[str, Bank]
) -> DynamicEnergy:
    """Where the energy of a run went.

    Args:
        timing: of the design, with its slews and loads.
        switching: of its nets in the run.
        banks: memories by the name of their cell.
    """
    clock = int(flat.ports["clock"][1][0])
    run = _Run(flat, library.volts, timing, switching, clock)
    found = np.zeros((len(flat.scopes), len(KINDS)))
    for (
        instances
    ) in flat.instances.values():  # all before the first is read, which arranges those known by then
        for energy in instances.cell.energies:
            for table in (energy.rise, energy.fall):
                if table is not None:
                    run.tables.number(table)
    of_change, sinks = _net_energy(run, library)
    edge_of_clock = of_change[clock] / max(int(sinks[clock]), 1)  # each pin's part
    for name, instances in flat.instances.items():
        kind = _KIND_OF.get(instances.cell.kind, KINDS.index("logic"))

        def add(kind: int, values: Array, scopes: NDArray[np.int64] = instances.scopes) -> None:
            found[:, kind] += np.bincount(scopes, weights=values, minlength=len(found))

        if name in banks:
            add(kind, _accesses(run, instances) * banks[name].access_j)
        for pin in instances.cell.pins_of("output"):
            nets = instances.column(pin)
            add(kind, run.toggles(nets) * np.where(nets >= 0, of_change[nets], 0.0))
            add(kind, _inside(run, instances, pin))
        for pin in instances.cell.pins_of("input"):
            clocked = instances.column(pin) == clock
            taken = _entered(run, instances, pin)
            add(0, np.where(clocked, taken + run.toggles(instances.column(pin)) * edge_of_clock, 0.0))
            add(kind, np.where(clocked, 0.0, taken))
    return DynamicEnergy(found, switching.cycles)


def _net_energy(run: _Run, library: Library) -> tuple[Array, NDArray[np.int64]]:
    """Energy of a change of each net, J, shape (nets,): its load's, and that of the tree of buffers that long ones have; and the
    pins that each reaches."""
    assumed = run.timing.assumptions
    load, sinks = loads(run.flat, assumed.wire_f)
    half = run.volts**2 / 2
    found: Array = (load[0::2] + load[1::2]) / 2 * half
    buffers = library.buffers()
    if not assumed.most_sinks or not buffers:
        return found, sinks
    taken: dict[str, tuple[float, float]] = {}
    for net in np.flatnonzero(sinks > assumed.most_sinks):
        pin_f = float(load[net * 2 : net * 2 + 2].max() / sinks[net])
        key = f"{pin_f:.2e}"
        if key not in taken:
            _, fastest = repeater(buffers, np.array([float(key)]), assumed)
            buffer = buffers[int(fastest[0])]
            full = np.full((2, 1), assumed.most_sinks * pin_f)
            slews = np.full((2, 1), assumed.clock_slew_s)
            inside = sum(float(run.edges(one, slews, full)[0]) for one in buffer.energies)
            taken[key] = input_f(buffer) + assumed.wire_f, inside
        number = sum(tree_buffers(int(sinks[net]), assumed.most_sinks))
        found[net] += number * (taken[key][0] * half + taken[key][1])
    return found, sinks


def _accesses(run: _Run, instances: Instances) -> Array:
    """Reads and writes of each memory, shape (instances,)."""
    return sum(
        (run.high(instances.column(pin)) for pin in ("read_enable", "write_enable")),
        np.zeros(len(instances.nets)),
    ) * float(run.switching.cycles)


def _weights(run: _Run, instances: Instances, energies: list[Energy]) -> list[Array]:
    """How often each condition holds; what stands under none holds where no other one does. Shape (instances,) each."""
    given = [
        _holds(run, instances, read_function(energy.when)) if energy.when else np.zeros(0)
        for energy in energies
    ]
    rest = np.maximum(0.0, 1 - sum((holds for holds in given if holds.size), np.zeros(len(instances.nets))))
    return [holds if holds.size else rest for holds in given]


def _holds(run: _Run, instances: Instances, when: BooleanFunction) -> Array:
    """Share of time in which a condition holds, shape (instances,)."""
    joint = _register_states(run, instances)

    def value(name: str) -> Array:
        return (
            run.high(instances.column(name)) if name in instances.pins else np.full(len(instances.nets), 0.5)
        )

    holds = np.zeros(len(instances.nets))
    if joint is None:
        holds += when.probability(value)
        return holds
    taken, held, states = joint
    for (next_state, state), share in states.items():
        fixed = {taken.name: next_state ^ taken.inverted, **{pin: state ^ bad for pin, bad in held.items()}}
        holds += share * when.probability(_Known(fixed, value))
    return holds


@dataclass(frozen=True)
class _Known:
    """Values of pins, some of them fixed."""

    fixed: Mapping[str, bool]
    others: Callable[[str], Array]

    def __call__(self, name: str) -> Array | float:
        return float(self.fixed[name]) if name in self.fixed else self.others(name)


@dataclass(frozen=True)
class _Taken:
    """The pin whose value a register takes."""

    name: str
    inverted: bool


def _register_states(
    run: _Run, instances: Instances
) -> tuple[_Taken, dict[str, bool], dict[tuple[bool, bool], Array]] | None:
    """Of flip-flops that take one pin: that pin, outputs and whether each is inverted, and the share of cycles by what
    is taken and what is held; None for other cells."""
    register = instances.cell.register
    if register is None:
        return None
    taken = read_function(register.next_state)
    inverted = taken.kind == "not"
    taken = taken.of[0] if inverted else taken
    held = {}
    for pin in instances.cell.pins_of("output"):
        text = instances.cell.pins[pin].function.strip("() ")
        if text in (register.state, register.inverse):
            held[pin] = text == register.inverse
    if taken.kind != "pin" or not held:
        return None
    change, high = np.zeros(len(instances.nets)), np.full(len(instances.nets), 0.5)
    for pin, bad in held.items():
        nets = instances.column(pin)
        change = np.maximum(change, run.toggles(nets) / max(run.switching.cycles, 1))
        high = np.where(nets >= 0, np.abs(bad - run.high(nets)), high)
    states = {
        (False, True): change / 2,
        (True, False): change / 2,
        (True, True): np.maximum(0.0, high - change / 2),
        (False, False): np.maximum(0.0, 1 - high - change / 2),
    }
    return _Taken(taken.name, inverted), held, states


def _entered(run: _Run, instances: Instances, pin: str) -> Array:
    """What cells take inside as an input switches, J, shape (instances,)."""
    energies = [one for one in instances.cell.energies if one.pin == pin]
    found = np.zeros(len(instances.nets))
    if not energies:
        return found
    nets = instances.column(pin)
    slews, nothing = run.slew(nets), np.zeros((2, nets.size))
    for energy, weight in zip(energies, _weights(run, instances, energies), strict=True):
        found += weight * run.edges(energy, slews, nothing)
    return found * run.toggles(nets)


def _inside(run: _Run, instances: Instances, pin: str) -> Array:
    """What cells take inside as an output switches, J, shape (instances,): of the inputs that make it, as often as each switches."""
    energies = [one for one in instances.cell.energies if one.pin == pin]
    nets = instances.column(pin)
    if not energies:
        return np.zeros(nets.size)
    load = np.stack([run.timing.load_f[nets * 2], run.timing.load_f[nets * 2 + 1]])
    total, weights = np.zeros(nets.size), np.zeros(nets.size)
    for energy, holds in zip(energies, _weights(run, instances, energies), strict=True):
        cause = instances.column(energy.related) if energy.related in instances.pins else nets
        weight = holds * run.toggles(cause) + 1e-12
        slews = np.broadcast_to(run.slew(cause).mean(0), (2, nets.size))  # either edge may be the cause
        total += weight * run.edges(energy, slews, load)
        weights += weight
    return total / weights * run.toggles(nets)
