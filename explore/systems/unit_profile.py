"""What every group of a network takes on every unit of a system, as predicted.

A unit is an accelerator or the host core. A network is lowered for each of them as it is compiled; its groups are the least sets of
operators that no unit takes apart, since some run several operators as one. What a group takes is the sum of its steps'
predictions (`baco.compiler.network.prediction`), in nanoseconds at the unit's clock; by the host core, where an accelerator's program
computes nothing of the group on the accelerator.

What tasks on different units share:

* the host core, which writes the accelerators' commands: of a layer what the latency model says that it is busy; of other work of an
  accelerator all its time; of the host's own functions theirs. With units that read their commands themselves (`issue="unit"`), nothing of the commands.
* the channel of main memory: bytes over the largest of the units' rates.

All units work on one main memory: a group's operands come from there and its results go there, which is part of what it takes, by an
accelerator's DMA or the host's cache lines. So a result costs a group on another unit nothing beyond that.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.host_core import LINE_BYTES
from baco.compiler.network.fuse_elements import fused_elements
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.lowering import lower_network, lower_on_host
from baco.compiler.network.prediction import host_misses, predict_steps
from baco.compiler.network.program import default_choices
from baco.compiler.network.steps import ByteRange, region
from baco.compiler.ops.operator import itemsize
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.systems.task_graph import Edge, Floats, TaskGraph

#: How units get their commands: the host core writes them while a layer runs, or a unit reads them itself.
Issue = Literal["host", "unit"]
#: The resources that tasks share, in the order of `TaskGraph.shared`.
SHARED = ("host core", "memory channel")
HOST = "host"


@dataclass(frozen=True)
class SystemUnits:
    """A system: accelerators on one main memory, and a host core.

    Attributes:
        names: of the accelerators, as they are shown.
        accelerators: of them, one to four.
        host: whether the host core computes groups, too, beside those that no accelerator can.
        issue: how units get commands.

    The host core is that of the first accelerator, and has its clock.
    """

    names: tuple[str, ...]
    accelerators: tuple[Accelerator, ...]
    host: bool = True
    issue: Issue = "host"

    @property
    def units(self) -> tuple[str, ...]:
        """Names, that of the host core last."""
        return (*self.names, HOST)

    @property
    def channel_gb_s(self) -> float:
        """Of main memory: the fastest that any unit is told of."""
        return max(channel_bytes_per_cycle(one) * one.clock_mhz * 1e-3 for one in self.accelerators)

    @property
    def static_pj_per_ns(self) -> float:
        """What all accelerators take for being there, and the memory interface once."""
        interfaces = [
            one.energy.memory_pj_per_cycle(one.dram_bytes_per_cycle) * one.clock_mhz * 1e-3
            if one.static_pj(1.0)
            else 0.0
            for one in self.accelerators
        ]
        own = sum(one.static_pj(1.0) * one.clock_mhz * 1e-3 for one in self.accelerators)
        return own - sum(interfaces) + max(interfaces)


@dataclass(frozen=True, eq=False)
class UnitProfile:
    """A network's groups on the units of a system.

    Attributes:
        network: its name.
        operators: of every group, by name.
        graph: groups as tasks: nanoseconds, picojoules, bytes.
        inputs: bytes of each of the network's, and the last group that reads it.
        alone_ns, alone_pj: by accelerator, of its own program with what the host does in it, one step after the other, its own static energy
            included.
    """

    network: str
    operators: tuple[tuple[str, ...], ...]
    graph: TaskGraph
    inputs: tuple[tuple[float, int], ...]
    alone_ns: Mapping[str, float]
    alone_pj: Mapping[str, float]


@dataclass(frozen=True)
class _Part:
    """Of a step's operators: time and what it needs of what is shared (nanoseconds), energy (picojoules)."""

    operators: frozenset[str]
    accelerator: bool
    time: float
    host: float
    memory: float
    energy: float


def profile(network: QuantisedNetwork, system: SystemUnits) -> UnitProfile:
    """Raises InfeasibleError for a network that one of the accelerators' programs cannot compute."""
    network = fused_elements(network)  # as every program has it
    programs = [_parts(network, machine, system) for machine in system.accelerators]
    first = system.accelerators[0]
    alone = lower_on_host(network, first, default_choices(first)[0])
    on_host = list(_steps(alone, first, system))
    groups = _groups(network, programs)
    place = {name: at for at, names in enumerate(groups) for name in names}
    table = np.full((4, len(groups), len(system.units)), np.inf)
    for unit, parts in enumerate(programs):
        for at, own in _by_group(parts, place).items():
            computed = any(part.accelerator for part in own)
            # the host core runs what an accelerator's program leaves to it
            _enter(table, at, unit if computed else len(programs), own)
    computed_there = {name for part in on_host for name in part.operators}
    for at, own in _by_group(on_host, place).items():
        if computed_there.issuperset(groups[at]) and (system.host or np.isinf(table[0, at]).all()):
            _enter(table, at, len(programs), own)
    time, host, memory, energy = table
    shared = np.stack([np.minimum(host, time), np.minimum(memory, time)])
    graph = TaskGraph(
        tuple(_label(names) for names in groups),
        system.units,
        time,
        _edges(network, place),
        energies=np.where(np.isfinite(time), energy, 0.0),
        shared=np.where(np.isfinite(shared), shared, 0.0),
        static=system.static_pj_per_ns,
    )
    sums = {
        name: (sum(part.time for part in parts), sum(part.energy for part in parts))
        for name, parts in zip(system.names, programs, strict=True)
    }
    own_static = {
        name: machine.static_pj(1.0) * machine.clock_mhz * 1e-3
        for name, machine in zip(system.names, system.accelerators, strict=True)
    }
    return UnitProfile(
        network.name,
        tuple(groups),
        graph,
        _inputs(network, place),
        {name: time for name, (time, _) in sums.items()},
        {name: energy + own_static[name] * time for name, (time, energy) in sums.items()},
    )


def _enter(table: Floats, group: int, unit: int, parts: Sequence[_Part]) -> None:
    """Write sums of parts into (time, host, memory, energy) of a group on a unit, unless a faster way is known."""
    sums = [sum(getattr(one, name) for one in parts) for name in ("time", "host", "memory", "energy")]
    if sums[0] < table[0, group, unit]:
        table[:, group, unit] = sums


def _parts(network: QuantisedNetwork, accelerator: Accelerator, system: SystemUnits) -> list[_Part]:
    """Of a program as it is compiled."""
    if (accelerator.input_bits, accelerator.accumulator_bits) != (8, 32):
        raise InfeasibleError(f"quantised networks have 8-bit elements, and {accelerator.name} has others")
    schedule, groups, combinations = default_choices(accelerator)
    lowered = lower_network(network, accelerator, schedule, groups, combinations)
    return list(_steps(lowered, accelerator, system))


def _steps(lowered: LoweredNetwork, accelerator: Accelerator, system: SystemUnits) -> Iterator[_Part]:
    """What each step takes."""
    codes = lowered.layers
    layers = schedule_costs(
        [one.layer for one in codes.values()],
        [one.schedule for one in codes.values()],
        accelerator,
        "instruction",
    )
    of_layer = dict(zip(codes, layers, strict=True))
    ns = 1e3 / accelerator.clock_mhz
    rate = channel_bytes_per_cycle(accelerator)
    for step, cost, names in zip(
        lowered.steps, predict_steps(lowered, accelerator), _operators_of(lowered), strict=True
    ):
        moved, energy = cost.dram_bytes, cost.energy_pj(accelerator) - accelerator.static_pj(cost.cycles)
        busy = 0.0 if step.accelerator and system.issue == "unit" else cost.cycles
        if step.function in of_layer:
            layer = of_layer[step.function]
            terms = dict(zip(layer.resources, layer.latency_terms, strict=True))
            moved, energy = terms["memory"] * rate, layer.energy_pj - layer.static_pj
            busy = min(busy, terms["issue"])
        elif not step.accelerator:
            moved = host_misses(lowered, step) * LINE_BYTES
        yield _Part(names, step.accelerator, cost.cycles * ns, busy * ns, moved / system.channel_gb_s, energy)


def _operators_of(lowered: LoweredNetwork) -> list[frozenset[str]]:
    """Operators that each step computes: those that it is called for, and those without a step whose results it writes or, inside
    it, are read by these."""
    network = lowered.network
    known = {op.name for op in network.operators}
    called = [
        {
            name
            for one in (step.operator, *step.also)
            for name in (one, one.partition("[")[0])
            if name in known
        }
        for step in lowered.steps
    ]
    left = [op for op in network.operators if op.name not in set().union(*called)]
    for op in reversed(left):
        written = region(op.output, network.values)
        inside = [
            at for at, step in enumerate(lowered.steps) if any(_meet(written, one) for one in step.writes)
        ]
        readers = {other.name for other in network.operators if any(_reads(network, other, written))}
        for at in inside or [at for at, names in enumerate(called) if names & readers]:
            called[at].add(op.name)
    return [frozenset(names) for names in called]


def _reads(network: QuantisedNetwork, op: object, written: ByteRange) -> Iterator[bool]:
    for view in op.inputs:  # type: ignore[attr-defined]
        yield _meet(region(view, network.values), written)


def _meet(one: ByteRange, other: ByteRange) -> bool:
    return one.value == other.value and one.start < other.stop and other.start < one.stop


def _groups(network: QuantisedNetwork, programs: Sequence[Sequence[_Part]]) -> list[tuple[str, ...]]:
    """The least sets of operators that no step of any program takes apart and that do not wait for each other in a circle, each
    behind all that it reads from."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names = [op.name for op in network.operators]
    number = {name: at for at, name in enumerate(names)}
    pairs = set(_edges(network, number))
    for part in (part for parts in programs for part in parts):
        members = sorted(number[name] for name in part.operators)
        pairs |= {pair for a, b in itertools.pairwise(members) for pair in ((a, b), (b, a))}
    rows, columns = zip(*sorted(pairs), strict=True) if pairs else ((), ())
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, label = connected_components(matrix, directed=True, connection="strong")
    members_of: dict[int, list[int]] = defaultdict(list)
    for at, group in enumerate(label.tolist()):
        members_of[group].append(at)
    needs: dict[int, set[int]] = {group: set() for group in members_of}
    for a, b in pairs:
        if label[a] != label[b]:
            needs[int(label[b])].add(int(label[a]))
    ordered: list[tuple[str, ...]] = []
    done: set[int] = set()
    while len(done) < len(members_of):
        ready = [group for group, before in needs.items() if group not in done and before <= done]
        first = min(ready, key=lambda group: members_of[group][-1])
        done.add(first)
        ordered.append(tuple(names[at] for at in members_of[first]))
    return ordered


def _edges(network: QuantisedNetwork, place: Mapping[str, int]) -> dict[Edge, float]:
    """Bytes that operators at one place read of what those at another wrote."""
    writers: dict[str, list[tuple[str, ByteRange, float]]] = defaultdict(list)
    edges: dict[Edge, float] = defaultdict(float)
    for op in network.operators:
        for view in op.inputs:
            needed, size = region(view, network.values), itemsize(network.values[view.value])
            for name, written, nbytes in writers[view.value]:
                if place[name] != place[op.name] and _meet(needed, written):
                    edges[place[name], place[op.name]] += min(float(view.words * size), nbytes)
        size = itemsize(network.values[op.output.value])
        writers[op.output.value].append(
            (op.name, region(op.output, network.values), float(op.output.words * size))
        )
    return dict(edges)


def _inputs(network: QuantisedNetwork, place: Mapping[str, int]) -> tuple[tuple[float, int], ...]:
    """See `UnitProfile.inputs`."""
    values = network.values
    last: dict[str, int] = {}
    for op in network.operators:
        for view in op.inputs:
            if values[view.value].role == "input":
                last[view.value] = max(place[op.name], last.get(view.value, 0))
    return tuple(
        (float(np.prod(values[name].shape) * itemsize(values[name])), at) for name, at in last.items()
    )


def _by_group(parts: Iterable[_Part], place: Mapping[str, int]) -> dict[int, list[_Part]]:
    found: dict[int, list[_Part]] = defaultdict(list)
    for part in parts:
        for at in sorted({place[name] for name in part.operators})[:1]:
            found[at].append(part)
    return found


def _label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1} more"
