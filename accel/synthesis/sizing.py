"""What a layout tool does to a mapped netlist before it places it: buffers behind what drives many pins, and stronger cells where
paths are longest.

A mapper that knows no loads takes the smallest cell of each function, and lets it drive whatever reads its output. Here a net
that reaches many pins gets buffers, the most urgent pins nearest to what drives it (as in C. L. Berman, J. L. Carter,
K. F. Day, "The Fanout Problem: From Theory to Practice", 1989: the least urgent ones are put behind a buffer together, which
then is a pin like the others). Then cells on the longest paths become the strength of their function that lets their
output arrive first, what their larger inputs cost those that drive them counted, in a few rounds; the best netlist of all rounds
stays (J. P. Fishburn, A. E. Dunlop, "TILOS", ICCAD 1985, takes one cell at a time).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.flat import Flat, Instances
from baco.accel.synthesis.liberty import Library, LibraryCell
from baco.accel.synthesis.mapping import OPEN
from baco.accel.synthesis.tables import repeated
from baco.accel.synthesis.timing import (
    CAUSES,
    CLOCKED,
    COMBINATIONAL,
    EITHER,
    FALL,
    FIRST_STAGE,
    RISE,
    Arrivals,
    Assumptions,
    arrivals,
    driving_cells,
    input_f,
    loads,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Pins that an urgent net drives itself, and that a buffer drives: more of them are slower than another buffer. Others may drive
#: as many as timing takes for granted (`Assumptions.most_sinks`).
_PINS = (6, 8)
#: Slack of urgent nets, and of cells that may become stronger, in parts of the period.
_SLACK = 0.15
#: Rounds of choosing strengths; what follows two that gained nothing gains nothing either.
_ROUNDS = 6
#: What a change should gain, s: less is noise.
_GAIN_S = 0.5e-12
#: A step of load by which it is seen how much later a cell's output comes for more, F.
_STEP_F = 1e-15


def resized(flat: Flat, library: Library, assumed: Assumptions) -> Arrivals:
    """The same design with buffers, and with stronger cells on its longest paths, timed.

    Args:
        flat: stays as it is.
        library: gives buffers, and cells of the same function.
    """
    # buffers help where cells are weak for what they drive, which shows once they are there
    plain = arrivals(flat, library, assumed)
    starts = (_buffered(plain, library, assumed, pins) for pins in (_PINS, (assumed.most_sinks,) * 2))
    timed = (arrivals(start, library, assumed, plain.graph) for start in starts)
    best = found = min(timed, key=lambda one: one.need_s)
    idle = 0
    families = _families(library)
    for _ in range(_ROUNDS):
        found = arrivals(_stronger(found, families, assumed), library, assumed, found.graph)
        idle = 0 if found.need_s < best.need_s - _GAIN_S else idle + 1
        best = min(best, found, key=lambda one: one.need_s)
        if idle == 2:
            break
    return best


# Buffers


@dataclass(frozen=True)
class _Buffer:
    """A kind of buffer, and its delay before what it drives, s: a constant and a slope by load, s / F."""

    cell: LibraryCell
    input_f: float
    fixed_s: float
    slope: float

    @classmethod
    def of(cls, cell: LibraryCell, assumed: Assumptions) -> _Buffer:
        """Delays at the slew that such buffers make."""
        taken = input_f(cell)
        loads_f = np.array([4 * taken, 12 * taken])
        low, high = repeated(cell, loads_f, assumed.clock_slew_s).max(0).tolist()
        slope = (high - low) / (8 * taken) if taken else 0.0
        return cls(cell, taken, low - slope * 4 * taken, slope)

    def delay(self, load_f: float) -> float:
        """For a load, F."""
        return self.fixed_s + self.slope * load_f


class _Pin(NamedTuple):
    """A pin that a net reaches: when the signal is wanted there, negated (the least urgent first), and which it is.

    Attributes:
        later_s: the negative of the time, s.
        load_f: with its wire.
        place: cell, row and column in `Flat.instances`; of a buffer, the number of its output's net.
    """

    later_s: float
    load_f: float
    place: tuple[str, int, int] | int


def _buffered(
    plain: Arrivals, library: Library, assumed: Assumptions, pins_of_urgent: tuple[int, int]
) -> Flat:
    """With buffers behind nets that reach many pins; clocks stay, which have a tree of their own.

    Args:
        plain: the design without them.
        pins_of_urgent: how many an urgent net drives itself, and a buffer behind it; 0: any.
    """
    flat = plain.graph.flat
    buffers = [_Buffer.of(cell, assumed) for cell in library.buffers() if _repeats(cell)]
    if not buffers:
        return flat
    nets = {name: one.nets.copy() for name, one in flat.instances.items()}
    made: dict[int, tuple[_Buffer, int, int]] = {}  # by the net behind it: kind, net before it, scope
    scopes = driving_cells(flat)[1]
    behind = flat.nets
    for net, (is_urgent, pins) in _long_nets(plain, assumed, pins_of_urgent[0]).items():
        direct, most = pins_of_urgent if is_urgent else (FIRST_STAGE, assumed.most_sinks)
        heapq.heapify(pins)
        while len(pins) > direct:
            last = [heapq.heappop(pins) for _ in range(min(most, len(pins) - direct + 1))]
            load = sum(pin.load_f for pin in last)
            choice = buffers if is_urgent else buffers[:1]
            buffer = min(choice, key=lambda one: one.delay(load) + buffers[0].slope * one.input_f)
            for pin in last:
                if isinstance(pin.place, int):
                    made[pin.place] = (made[pin.place][0], behind, made[pin.place][2])
                else:
                    name, row, column = pin.place
                    nets[name][row, column] = behind
            made[behind] = buffer, net, max(int(scopes[net]), 0)
            wanted = -last[-1].later_s - buffer.delay(load)
            heapq.heappush(pins, _Pin(-wanted, buffer.input_f + assumed.wire_f, behind))
            behind += 1
    instances = {name: replace(one, nets=nets[name]) for name, one in flat.instances.items()}
    rows: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for output, (buffer, given, scope) in made.items():
        rows[buffer.cell.name].append((given, output, scope))
    for name, places in rows.items():
        table = np.array(places, np.int64)
        cell = library.cells[name]
        pins_of = {cell.pins_of("input")[0]: table[:, 0], cell.pins_of("output")[0]: table[:, 1]}
        added = np.stack([pins_of.get(pin, np.full(len(table), OPEN)) for pin in cell.pins], 1)
        _join(instances, Instances(cell, tuple(cell.pins), added, table[:, 2]))
    return replace(flat, nets=behind, instances=instances)


def _repeats(cell: LibraryCell) -> bool:
    return any(arc.kind == "combinational" and arc.rise and arc.fall for arc in cell.arcs)


def _join(instances: dict[str, Instances], more: Instances) -> None:
    """Add instances to those of the same cell, in place."""
    there = instances.get(more.cell.name)
    instances[more.cell.name] = (
        more
        if there is None
        else replace(
            there,
            nets=np.concatenate([there.nets, more.nets]),
            scopes=np.concatenate([there.scopes, more.scopes]),
        )
    )


def _long_nets(
    plain: Arrivals, assumed: Assumptions, most_of_urgent: int
) -> dict[int, tuple[bool, list[_Pin]]]:
    """Of each net that reaches too many pins whether it has little slack, and the pins."""
    flat = plain.graph.flat
    sinks = loads(flat, assumed.wire_f)[1]
    required, period = plain.required, plain.need_s
    urgent = (required - plain.at).reshape(-1, 2).min(1) < _SLACK * period
    many = np.where(urgent, sinks > (most_of_urgent or np.inf), sinks > (assumed.most_sinks or np.inf))
    for instances in flat.instances.values():
        for pin in _clocks(instances.cell):
            if pin in instances.pins:
                nets = instances.column(pin)
                many[nets[nets >= 0]] = False
    result: dict[int, tuple[bool, list[_Pin]]] = {
        int(net): (bool(urgent[net]), []) for net in np.flatnonzero(many)
    }
    for name, instances in flat.instances.items():
        wanted = np.full(len(instances.nets), np.inf)
        if instances.cell.kind == "gate":
            for pin in instances.cell.pins_of("output"):
                nets = instances.column(pin)
                edges = np.minimum(required[nets * 2], required[nets * 2 + 1])
                wanted = np.minimum(wanted, np.where(nets >= 0, edges, np.inf))
        wanted = np.minimum(wanted, period)  # what a register takes; also where nothing depends on it
        for column, pin in enumerate(instances.pins):
            if instances.cell.pins[pin].direction != "input":
                continue
            nets = instances.nets[:, column]
            load = max(instances.cell.pins[pin].rise_f, instances.cell.pins[pin].fall_f) + assumed.wire_f
            rows = np.flatnonzero((nets >= 0) & many[nets])
            for row, net, later in zip(
                rows.tolist(), nets[rows].tolist(), (-wanted[rows]).tolist(), strict=True
            ):
                result[net][1].append(_Pin(later, load, (name, row, column)))
    return result


def _clocks(cell: LibraryCell) -> set[str]:
    edges = {arc.source for arc in cell.arcs if arc.kind in CLOCKED}
    return edges | {name for name, pin in cell.pins.items() if pin.is_clock}


# Strengths


def _families(library: Library) -> list[list[LibraryCell]]:
    """Cells that may stand for each other: usable, of the same pins and functions; smallest first."""
    found: defaultdict[tuple[object, ...], list[LibraryCell]] = defaultdict(list)
    for kind in ("gate", "flip-flop"):
        for cell in library.kinds(kind):
            pins = tuple(sorted((name, pin.direction, pin.function) for name, pin in cell.pins.items()))
            found[(kind, pins, cell.register)].append(cell)
    return [cells for cells in found.values() if len(cells) > 1]


def _stronger(found: Arrivals, families: Sequence[Sequence[LibraryCell]], assumed: Assumptions) -> Flat:
    """The design with the best strength of each cell that has little slack."""
    state = _State(found, assumed)
    flat = found.graph.flat
    instances = dict(flat.instances)
    for family in families:
        there = [instances.pop(cell.name) for cell in family if cell.name in instances]
        for one in there:
            chosen = state.choice(one, family)
            for place in np.unique(chosen):
                rows = chosen == place
                order = [one.pins.index(pin) for pin in family[place].pins]
                _join(
                    instances,
                    Instances(
                        family[place], tuple(family[place].pins), one.nets[rows][:, order], one.scopes[rows]
                    ),
                )
    return replace(flat, instances=instances)


class _State:
    """A timed netlist, and what strengths are compared by."""

    def __init__(self, found: Arrivals, assumed: Assumptions) -> None:
        self._found, self._assumed = found, assumed
        self._required = found.required
        self._tight = self._required - found.at <= _SLACK * found.need_s
        graph = found.graph
        self._tables = graph.tables
        later = graph.delays(found.at, found.slew, _STEP_F) - found.took
        #: How much later an edge comes for each farad more that its net carries, s / F.
        self._slope = np.zeros(found.at.size)
        np.maximum.at(self._slope, graph.target, later / _STEP_F)
        for instances in graph.flat.instances.values():
            self._launched(instances)

    def _launched(self, instances: Instances) -> None:
        """Slopes behind registers, in place."""
        load, tables = self._found.graph.load, self._tables
        for arc in instances.cell.arcs:
            if arc.kind not in CLOCKED or arc.target not in instances.pins:
                continue
            nets = instances.column(arc.target)
            nets = nets[nets >= 0]
            for edge, delay in ((RISE, arc.rise), (FALL, arc.fall)):
                if delay is None or not nets.size:
                    continue
                places = nets * 2 + edge
                which = np.full(nets.size, tables.number(delay))
                slews = np.full(nets.size, self._assumed.clock_slew_s)
                now, then = (tables.read(which, slews, load[places] + more) for more in (0.0, _STEP_F))
                self._slope[places] = np.maximum(self._slope[places], (then - now) / _STEP_F)

    def choice(self, instances: Instances, family: Sequence[LibraryCell]) -> Integers:
        """By instance the place in its family of the strength that it should have, shape (instances,)."""
        now = next(place for place, cell in enumerate(family) if cell.name == instances.cell.name)
        chosen = np.full(len(instances.nets), now)
        outputs = [instances.column(pin) for pin in instances.cell.pins_of("output")]
        tight = sum(
            ((nets >= 0) & (self._tight[nets * 2] | self._tight[nets * 2 + 1]) for nets in outputs),
            np.zeros(len(instances.nets), bool),
        )
        rows = np.flatnonzero(tight)
        if not rows.size:
            return chosen
        part = replace(instances, nets=instances.nets[rows], scopes=instances.scopes[rows])
        scores = np.stack([self._lateness(part, cell) for cell in family])
        scores[now] -= _GAIN_S
        chosen[rows] = scores.argmin(0)
        return chosen

    def _lateness(self, instances: Instances, cell: LibraryCell) -> Array:
        """How much later than wanted the outputs of instances would come if they were another cell, s, shape (instances,)."""
        found, tables = self._found, self._tables
        # what leads to an output: which instances, when, how steep, by which table, to which edge of a net
        causes: list[tuple[Integers, Array, Array, Integers, Integers]] = []
        for arc in cell.arcs:
            if arc.kind not in (*COMBINATIONAL, *CLOCKED) or arc.target not in instances.pins:
                continue
            source, target = instances.column(arc.source), instances.column(arc.target)
            more = {
                edge: getattr(cell.pins[arc.source], name) - getattr(instances.cell.pins[arc.source], name)
                for edge, name in ((RISE, "rise_f"), (FALL, "fall_f"))
            }
            clocked = arc.kind in CLOCKED
            for edge, delay in ((RISE, arc.rise), (FALL, arc.fall)):
                if delay is None:
                    continue
                real = np.flatnonzero((target >= 0) & ((source >= 0) | clocked))
                ends = target[real] * 2 + edge
                which = np.full(real.size, tables.number(delay))
                for before in (RISE,) if clocked else CAUSES.get(arc.sense, EITHER)[edge]:
                    if clocked:
                        begins, slews = np.zeros(real.size), np.full(real.size, self._assumed.clock_slew_s)
                    else:
                        starts = source[real] * 2 + before
                        begins = found.at[starts] + self._slope[starts] * more[before]
                        slews = np.where(np.isfinite(found.at[starts]), found.slew[starts], 0.0)
                    causes.append((real, begins, slews, which, ends))
        worst = np.full(len(instances.nets), -np.inf)
        if causes:
            real, begins, slews, which, ends = (
                np.concatenate(column) for column in zip(*causes, strict=True)
            )
            late = begins + tables.read(which, slews, found.graph.load[ends]) - self._required[ends]
            np.maximum.at(worst, real, np.where(np.isnan(late), -np.inf, late))
        return worst
