"""Static timing of a flat netlist on a library's tables: the longest path from register to register, and the clock it allows.

Delays and slews are the library's non-linear delay tables, linear between points. Arrivals and slews at a net are the worst of
those that lead there, apart for rising and falling edges, as OpenSTA's are (`tests/accel/synthesis` compares). The clock is
ideal. What layout adds is stated, not known: each pin that a net reaches adds a length of wire (`Assumptions.wire_f`), nets
that reach many are taken to be driven through a tree of the library's buffers, and the clock keeps a margin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.flat import Flat, Instances
from baco.accel.synthesis.liberty import Arc, Library, LibraryCell
from baco.accel.synthesis.tables import Tables, repeated

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
RISE, FALL = 0, 1
#: Edges of the input that lead to an edge of the output, by sense.
CAUSES = {"positive_unate": ((0,), (1,)), "negative_unate": ((1,), (0,))}
EITHER = ((0, 1), (0, 1))
#: Arcs along which signals pass through gates, and from clocks on.
COMBINATIONAL = ("combinational", "combinational_rise", "combinational_fall")
CLOCKED = ("rising_edge", "falling_edge")
#: Buffers of a tree that a gate drives itself.
FIRST_STAGE = 4
#: Transitions evaluated at once.
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Assumptions:
    """What is not in the netlist.

    Attributes:
        wire_f: capacitance of the wire to one pin, F.
        clock_slew_s: at registers; and at the design's inputs.
        most_sinks: pins that a net reaches without a tree of buffers; 0: all.
        margin: part of the period that layout, clock tree and variation take.
    """

    wire_f: float
    clock_slew_s: float
    most_sinks: int = 16
    margin: float = 0.2


@dataclass(frozen=True)
class PathStep:
    """A net on a path: when the signal arrives there, s, through which cell, in which module instance."""

    net: int
    arrival_s: float
    cell: str
    scope: int


@dataclass(frozen=True)
class Path:
    """From a register, memory or input to the next.

    Attributes:
        need_s: period that it needs, setup time included.
        steps: nets passed, the first behind the register.
        end: name of the cell that it ends in; empty at an output.
        end_scope: module instance that this lies in.
    """

    need_s: float
    steps: tuple[PathStep, ...]
    end: str
    end_scope: int


@dataclass(frozen=True)
class Timing:
    """What the analysis found.

    Attributes:
        need_s: period without margin.
        clock_mhz: that the design closes at, margin included.
        paths: worst first, one an endpoint's module.
        loops: nets in combinational loops, which are left out; there should be none.
        assumptions: those made.
        load_f, slew_s: what drives each net sees of it, and how steep its edges are; edge e of net n at n * 2 + e.
    """

    need_s: float
    clock_mhz: float
    paths: tuple[Path, ...]
    loops: int
    assumptions: Assumptions
    load_f: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    slew_s: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


_Ends = list[tuple[Array, Integers, str, Integers]]


class TimingGraph:
    """Transitions between edges of nets; edge e of net n is n * 2 + e.

    Args:
        like: of the same design, whose tables are used on; where nets are the same, driven by cells of other strengths, they are in
            its order.
    """

    def __init__(self, flat: Flat, load: Array, like: TimingGraph | None = None) -> None:
        self.flat, self.load = flat, load
        self.tables: Tables = Tables() if like is None else like.tables
        self.source: Integers
        self.target: Integers
        self.delay: Integers
        self.slew: Integers
        self._collect()
        self.level, self.loops = self._order(like)
        self._alike = self.tables.are_alike(self.delay, self.slew) if self.delay.size else True
        order = np.lexsort((self.target, self.level[self.target >> 1]))
        for name in ("source", "target", "delay", "slew"):
            setattr(self, name, getattr(self, name)[order])

    def _collect(self) -> None:
        parts: list[tuple[Integers, Integers, Integers, Integers]] = []
        for instances in self.flat.instances.values():
            for arc in instances.cell.arcs:
                if arc.kind not in COMBINATIONAL:
                    continue
                parts += self._transitions(instances, arc)
        empty = np.zeros(0, np.int64)
        joined = (
            [np.concatenate([empty, *column]) for column in zip(*parts, strict=True)]
            if parts
            else [empty] * 4
        )
        self.source, self.target, self.delay, self.slew = joined

    def _order(self, like: TimingGraph | None) -> tuple[Integers, int]:
        """As of `_levels`."""
        source, target = self.source >> 1, self.target >> 1
        same = like is not None and like.level.size == self.flat.nets and not like.loops
        if like is not None and same and (like.level[source] < like.level[target]).all():
            return like.level, 0
        return _levels(self.flat.nets, source, target)

    def _transitions(
        self, instances: Instances, arc: Arc
    ) -> Iterable[tuple[Integers, Integers, Integers, Integers]]:
        if arc.source not in instances.pins or arc.target not in instances.pins:
            return
        source, target = instances.column(arc.source), instances.column(arc.target)
        real = (source >= 0) & (target >= 0)
        source, target = source[real], target[real]
        for edge, delay, slew in ((RISE, arc.rise, arc.rise_slew), (FALL, arc.fall, arc.fall_slew)):
            if delay is None or slew is None or not source.size:
                continue
            for before in CAUSES.get(arc.sense, EITHER)[edge]:
                delays = np.full(source.size, self.tables.number(delay), np.int64)
                slews = np.full(source.size, self.tables.number(slew), np.int64)
                yield source * 2 + before, target * 2 + edge, delays, slews

    def timed(self, at: Array, slew: Array, late: Array) -> Array:
        """Fill arrivals and slews, s, by edges of nets, level by level. `late`: added at each net behind its driver.

        Returns how long each transition takes, s, shape (transitions,)."""
        took = np.zeros(self.target.size)
        levels = self.level[self.target >> 1]
        starts = np.searchsorted(levels, np.arange(levels[-1] + 2)) if levels.size else np.zeros(1, np.int64)
        for begin, end in pairwise(starts.tolist()):
            while begin < end:
                stop = min(begin + _CHUNK, end)
                if stop < end:  # a target's transitions stay together
                    stop = int(np.searchsorted(self.target[begin:end], self.target[stop])) + begin or end
                    stop = end if stop == begin else stop
                took[begin:stop] = self._step(slice(begin, stop), at, slew, late)
                begin = stop
        return took

    def _step(self, part: slice, at: Array, slew: Array, late: Array) -> Array:
        source, target = self.source[part], self.target[part]
        reached = np.isfinite(at[source])
        given = np.where(reached, slew[source], 0.0)
        points = self.tables.points(self.delay[part], given, self.load[target])
        took = self.tables.values(self.delay[part], points)
        arrival = at[source] + took
        if not self._alike:
            points = self.tables.points(self.slew[part], given, self.load[target])
        transition = np.where(reached, self.tables.values(self.slew[part], points), 0.0)
        firsts = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
        nets = target[firsts]
        at[nets] = np.maximum(at[nets], np.maximum.reduceat(arrival, firsts) + late[nets >> 1])
        slew[nets] = np.maximum(slew[nets], np.maximum.reduceat(transition, firsts))
        return took

    def delays(self, at: Array, slew: Array, more_f: float) -> Array:
        """How long each transition would take, s, shape (transitions,), if its target had so much more load, F."""
        given = np.where(np.isfinite(at[self.source]), slew[self.source], 0.0)
        return self.tables.read(self.delay, given, self.load[self.target] + more_f)


def _levels(nets: int, source: Integers, target: Integers) -> tuple[Integers, int]:
    """Longest distance of each net from a net that no gate drives, shape (nets,), and how many are in loops."""
    pairs = np.sort(source * nets + target)
    pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
    source, target = pairs // max(nets, 1), pairs % max(nets, 1)
    waiting = np.bincount(target, minlength=nets)
    starts = np.searchsorted(source, np.arange(nets + 1))
    level = np.zeros(nets, np.int64)
    front = np.flatnonzero(waiting == 0)
    depth, seen = 0, front.size
    while front.size:
        depth += 1
        counts = starts[front + 1] - starts[front]
        offsets = np.repeat(starts[front] - np.r_[0, np.cumsum(counts)[:-1]], counts) + np.arange(
            counts.sum()
        )
        reached, times = np.unique(target[offsets], return_counts=True)
        waiting[reached] -= times
        front = reached[waiting[reached] == 0]
        level[front] = depth
        seen += front.size
    level[waiting > 0] = 0
    return level, int(nets - seen)


@dataclass(frozen=True)
class Arrivals:
    """When signals arrive, and what that asks of the period.

    Attributes:
        graph: what leads where.
        at, slew: of edges of nets, s, shape (nets * 2,); -inf where nothing arrives.
        late: what trees of buffers add to nets, s, shape (nets,).
        took: how long each transition takes, s, shape (transitions,).
        ends: period needed, s, edge of a net, cell and module instance of each input of registers and memories, and of outputs.
    """

    graph: TimingGraph
    at: Array
    slew: Array
    late: Array
    took: Array
    ends: _Ends

    @property
    def need_s(self) -> float:
        """The period that the worst path needs."""
        return float(np.r_[*(end[0] for end in self.ends), 0.0].max())

    @cached_property
    def required(self) -> Array:
        """When edges of nets may arrive at the latest for the period needed, s, shape (nets * 2,); inf where nothing depends on it."""
        graph, period = self.graph, self.need_s
        found = np.full(self.at.size, np.inf)
        for need, places, _, _ in self.ends:
            reached = np.isfinite(need)
            places = places[reached]
            np.minimum.at(found, places, period - need[reached] + self.at[places])
        delays = self.took + self.late[graph.target >> 1]
        levels = graph.level[graph.target >> 1]
        starts = np.searchsorted(levels, np.arange(levels[-1] + 2)) if levels.size else np.zeros(1, np.int64)
        for begin, end in reversed([*pairwise(starts.tolist())]):
            np.minimum.at(found, graph.source[begin:end], found[graph.target[begin:end]] - delays[begin:end])
        return found


def arrivals(
    flat: Flat, library: Library, assumptions: Assumptions, like: TimingGraph | None = None
) -> Arrivals:
    """Signals followed through a design.

    Args:
        library: gives the buffers of trees.
        like: as of `TimingGraph`.
    """
    load, sinks = loads(flat, assumptions.wire_f)
    late = np.zeros(flat.nets)
    buffers = library.buffers()
    if assumptions.most_sinks and buffers:
        _buffered(load, sinks, late, buffers, assumptions)
    graph = TimingGraph(flat, load, like)
    at, slew = np.full(flat.nets * 2, -np.inf), np.zeros(flat.nets * 2)
    inputs = flat.ends("input")
    outside = np.r_[inputs * 2, inputs * 2 + 1]
    at[outside], slew[outside] = 0.0, assumptions.clock_slew_s
    for instances in flat.instances.values():
        _launch(graph, instances, at, slew, late, assumptions.clock_slew_s)
    took = graph.timed(at, slew, late)
    return Arrivals(graph, at, slew, late, took, _endpoints(graph, at, slew, assumptions.clock_slew_s))


def analyse(flat: Flat, library: Library, assumptions: Assumptions) -> Timing:
    """The longest paths of a design.

    Args:
        library: gives the buffers of trees.
    """
    return timing(arrivals(flat, library, assumptions), assumptions)


def timing(found: Arrivals, assumptions: Assumptions, paths: int = 10) -> Timing:
    """The longest paths of a design whose signals were followed.

    Args:
        paths: how many to tell, the worst of each module that paths end in.
    """
    graph, worst = found.graph, found.need_s
    told = _worst_paths(found, paths)
    mhz = 1e-6 / (worst * (1 + assumptions.margin)) if worst > 0 else 0.0
    return Timing(worst, mhz, tuple(told), graph.loops, assumptions, graph.load, found.slew)


def loads(flat: Flat, wire_f: float) -> tuple[Array, Integers]:
    """Capacitance by edges of nets, F, trees of buffers apart, and reached pins of each net."""
    load, sinks = np.zeros(flat.nets * 2), np.zeros(flat.nets, np.int64)
    for instances in flat.instances.values():
        for column, name in enumerate(instances.pins):
            pin = instances.cell.pins[name]
            if pin.direction != "input":
                continue
            nets = instances.nets[:, column]
            nets, count = np.unique(nets[nets >= 0], return_counts=True)
            load[nets * 2 + RISE] += count * (pin.rise_f + wire_f)
            load[nets * 2 + FALL] += count * (pin.fall_f + wire_f)
            sinks[nets] += count
    return load, sinks


def _buffered(
    load: Array, sinks: Integers, late: Array, buffers: list[LibraryCell], assumed: Assumptions
) -> None:
    """Give nets that reach many pins a tree of buffers, in place: less load, and its delay.

    What drives the net has the inputs of the tree's first stage as its load. Each buffer drives `most_sinks` pins like the
    net's own, or inputs of buffers; the delay of a stage is that of the library's fastest buffer for that load at the slew that
    such stages make.
    """
    many = np.flatnonzero(sinks > assumed.most_sinks)
    if not many.size:
        return
    pin_f = np.maximum(load[many * 2], load[many * 2 + 1]) / sinks[many]
    pins, kinds = np.unique([float(f"{one:.2e}") for one in pin_f], return_inverse=True)
    to_pins, fastest = repeater(buffers, pins, assumed)
    taken = np.array([input_f(buffer) + assumed.wire_f for buffer in buffers])
    full = taken * assumed.most_sinks
    to_buffers = {
        place: float(repeated(buffers[place], full[place : place + 1], assumed.clock_slew_s).max())
        for place in set(fastest.tolist())
    }
    for net, kind in zip(many, kinds, strict=True):
        stages, place = tree_buffers(int(sinks[net]), assumed.most_sinks), int(fastest[kind])
        late[net] = to_pins[kind] + (len(stages) - 1) * to_buffers[place]
        load[net * 2 : net * 2 + 2] = stages[-1] * taken[place]


def tree_buffers(sinks: int, most: int) -> list[int]:
    """Buffers of a tree that drives so many pins, each at most `most`, by stage from the pins on.

    Where more than `FIRST_STAGE` would be left for what drives the tree, there is one more in front of them.
    """
    found = []
    while sinks > most:
        sinks = -(-sinks // most)
        found.append(sinks)
    if found and found[-1] > FIRST_STAGE:
        found.append(1)
    return found


def repeater(buffers: Sequence[LibraryCell], pin_f: Array, assumed: Assumptions) -> tuple[Array, Integers]:
    """The fastest buffers' delays for full stages of trees whose pins take `pin_f` each, F, shape (n,), s, and which these are."""
    full = pin_f * assumed.most_sinks
    delays = np.stack([repeated(one, full, assumed.clock_slew_s).max(0) for one in buffers])
    return delays.min(0), delays.argmin(0)


def input_f(buffer: LibraryCell) -> float:
    """Capacitance of a buffer's input, F."""
    (given,) = buffer.pins_of("input")
    return max(buffer.pins[given].rise_f, buffer.pins[given].fall_f)


def _launch(
    graph: TimingGraph, instances: Instances, at: Array, slew: Array, late: Array, clock_slew: float
) -> None:
    """Arrivals behind registers and memories, in place."""
    for arc in instances.cell.arcs:
        if arc.kind not in CLOCKED or arc.target not in instances.pins:
            continue
        nets = instances.column(arc.target)
        nets = nets[nets >= 0]
        for edge, delay, transition in ((RISE, arc.rise, arc.rise_slew), (FALL, arc.fall, arc.fall_slew)):
            if delay is None or transition is None or not nets.size:
                continue
            places = nets * 2 + edge
            given = np.full(nets.size, clock_slew), graph.load[places]
            numbers = [
                np.full(nets.size, graph.tables.number(table), np.int64) for table in (delay, transition)
            ]
            arrival = graph.tables.read(numbers[0], *given) + late[nets]
            at[places] = np.maximum(at[places], arrival)
            slew[places] = np.maximum(slew[places], graph.tables.read(numbers[1], *given))


def _endpoints(graph: TimingGraph, at: Array, slew: Array, clock_slew: float) -> _Ends:
    """Period needed, edge of a net, cell and module instance of each input of registers and memories, and of outputs."""
    found: _Ends = []
    for name, instances in graph.flat.instances.items():
        for arc in instances.cell.arcs:
            if not arc.kind.startswith("setup_") or arc.target not in instances.pins:
                continue
            nets = instances.column(arc.target)
            real = nets >= 0
            nets, scopes = nets[real], instances.scopes[real]
            for edge, table in ((RISE, arc.rise), (FALL, arc.fall)):
                if table is None or not nets.size:
                    continue
                places = nets * 2 + edge
                number = np.full(nets.size, graph.tables.number(table), np.int64)
                setup = graph.tables.read(number, np.full(nets.size, clock_slew), slew[places])
                found.append((at[places] + setup, places, name, scopes))
    outputs = graph.flat.ends("output")
    outputs = np.r_[outputs * 2, outputs * 2 + 1]
    if outputs.size:
        found.append((at[outputs], outputs, "", np.zeros(outputs.size, np.int64)))
    return found


def _worst_paths(found: Arrivals, count: int) -> list[Path]:
    """The worst path into each module, worst first."""
    graph = found.graph
    best: dict[str, tuple[float, int, str, int]] = {}
    for need, places, cell, scopes in found.ends:
        order = np.argsort(-need, kind="stable")
        names: set[str] = set()
        for place in order:
            if not np.isfinite(need[place]):
                break
            module = graph.flat.modules[scopes[place]].name if cell else ""
            if module in names:
                continue
            names.add(module)
            entry = float(need[place]), int(places[place]), cell, int(scopes[place])
            best[module] = max(best.get(module, entry), entry)
            if len(names) > count:
                break
    worst = sorted(best.values(), reverse=True)[:count]
    drivers = driving_cells(graph.flat)
    return [
        Path(need, tuple(_trace(found, place, drivers)), cell, scope) for need, place, cell, scope in worst
    ]


def driving_cells(flat: Flat) -> tuple[Integers, Integers, list[str]]:
    """By net the number of the cell that drives it, the module instance it lies in (-1 without), and cells' names."""
    cell, scope = np.full(flat.nets, -1, np.int64), np.full(flat.nets, -1, np.int64)
    names = list(flat.instances)
    for number, name in enumerate(names):
        instances = flat.instances[name]
        for pin in instances.cell.pins_of("output"):
            nets = instances.column(pin)
            real = nets >= 0
            cell[nets[real]], scope[nets[real]] = number, instances.scopes[real]
    return cell, scope, names


def _trace(found: Arrivals, place: int, drivers: tuple[Integers, Integers, list[str]]) -> list[PathStep]:
    """Nets of the path to an edge of a net, the first one first."""
    graph, at = found.graph, found.at
    cell, scope, names = drivers
    steps = []
    levels = graph.level[graph.target >> 1]
    while True:
        net = place >> 1
        name = names[cell[net]] if cell[net] >= 0 else ""
        steps.append(PathStep(net, float(at[place]), name, int(scope[net])))
        low, high = np.searchsorted(levels, [graph.level[net], graph.level[net] + 1])
        begin, end = np.searchsorted(graph.target[low:high], [place, place + 1]) + low
        if begin == end:
            break
        arrival = at[graph.source[begin:end]] + found.took[begin:end]
        best = int(np.argmax(arrival))
        if not np.isfinite(arrival[best]) or arrival[best] + found.late[net] < at[place] - 1e-15:
            break
        place = int(graph.source[begin + best])
    return steps[::-1]
