"""What every group of a network takes on every unit of a system, as predicted or as measured of each unit's own program.

A unit is a core with an accelerator, or a core alone. A network is lowered for each of them as it is compiled; its groups are the least
sets of operators that no unit takes apart, since some run several operators as one. What a group takes is the sum of its steps'
predictions (`baco.compiler.network.prediction`), in nanoseconds at the unit's clock, those of its core between the accelerator's
included.

All units work on one main memory: a group's operands come from there and its results go there, which is part of what it takes, by an
accelerator's DMA or a core's cache lines. So a result costs a group on another unit nothing beyond that. What tasks on different units
share is the channel of main memory: bytes over the largest of the units' rates. What a task takes longer because of others is what
predictions say of a channel that moves two thirds as many bytes a cycle. Measurements also say what each cycle of latency costs, since
requests wait behind what other units have in flight; predictions leave that out.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.system import HOST, System
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

#: Of a channel for which predictions or measurements say how much longer steps take: what it moves less than there is.
SLOWER = 2 / 3
#: The resources that tasks share, in the order of `TaskGraph.shared`.
SHARED = ("memory channel",)


def channel_gb_s(system: System) -> float:
    """Of main memory: the fastest that any unit is told of."""
    return max(channel_bytes_per_cycle(one) * one.clock_mhz * 1e-3 for one in system.accelerators)


def static_pj_per_ns(system: System) -> float:
    """What all accelerators take for being there, and the memory interface once."""
    interfaces = [
        one.energy.memory_pj_per_cycle(one.dram_bytes_per_cycle) * one.clock_mhz * 1e-3
        if one.static_pj(1.0)
        else 0.0
        for one in system.accelerators
    ]
    own = sum(one.static_pj(1.0) * one.clock_mhz * 1e-3 for one in system.accelerators)
    return own - sum(interfaces) + max(interfaces)


@dataclass(frozen=True, eq=False)
class UnitProfile:
    """A network's groups on the units of a system.

    Attributes:
        network: its name.
        operators: of every group, by name.
        graph: groups as tasks: nanoseconds, picojoules, bytes.
        inputs: bytes of each of the network's, and the last group that reads it.
        alone_ns, alone_pj: by unit with an accelerator, of its own program, one step after the other, its own static energy included.
        fused: the network as it is lowered.
        lowered: by unit, all of it.
        steps: by group and unit, numbers of its steps there; nothing where the unit cannot run it.
    """

    network: str
    operators: tuple[tuple[str, ...], ...]
    graph: TaskGraph
    inputs: tuple[tuple[float, int], ...]
    alone_ns: Mapping[str, float]
    alone_pj: Mapping[str, float]
    fused: QuantisedNetwork | None = None
    lowered: tuple[LoweredNetwork, ...] = ()
    steps: tuple[tuple[tuple[int, ...], ...], ...] = ()


@dataclass(frozen=True)
class _Part:
    """Of a step's operators: its number, time, what it needs of the memory channel and how much longer it would take if another unit moved
    all it can (nanoseconds), energy (picojoules)."""

    step: int
    operators: frozenset[str]
    time: float
    memory: float
    exposed: float
    energy: float


class MeasuredStep(NamedTuple):
    """Cycles that a step of a program took, bytes that the accelerator moved meanwhile, and cycles that it would take longer if another unit
    moved all it can."""

    cycles: float
    dram_bytes: float
    exposed: float


#: What every step of a network's program for an accelerator took.
MeasureSteps = Callable[[Accelerator], Sequence[MeasuredStep]]


def profile(network: QuantisedNetwork, system: System, measure: MeasureSteps | None = None) -> UnitProfile:
    """The network's groups on the units of a system.

    Args:
        measure: runs its program for an accelerator; by default times are predicted. What a core alone takes is predicted where no
            accelerator's core computes it by the same calls.

    Raises InfeasibleError for a network that one of the accelerators' programs cannot compute.
    """
    network = fused_elements(network)  # as every program has it
    known: dict[str, LoweredNetwork] = {}
    measured: dict[str, Sequence[MeasuredStep]] = {}
    lowered, programs = [], []
    for unit in system.units:
        machine = unit.accelerator or system.accelerators[0]
        key = machine.config_hash if unit.accelerator else HOST
        if key not in known:
            known[key] = _lower(network, machine, accelerator=unit.accelerator is not None)
        lowered.append(known[key])
        parts = list(_parts(known[key], machine, channel_gb_s(system), whole=unit.accelerator is not None))
        if measure is not None and unit.accelerator is not None:
            if key not in measured:
                measured[key] = measure(machine)
            parts = [
                replace(
                    part,
                    time=took.cycles * 1e3 / machine.clock_mhz,
                    # bytes of the core's cache are predicted
                    memory=max(part.memory, took.dram_bytes / channel_gb_s(system)),
                    exposed=took.exposed * 1e3 / machine.clock_mhz,
                )
                for part, took in zip(parts, measured[key], strict=True)
            ]
        programs.append(parts)
    groups = _groups(network, lowered, programs)
    place = {name: at for at, names in enumerate(groups) for name in names}
    tables = {
        name: np.full((len(groups), len(system.units)), np.inf)
        for name in ("time", "memory", "exposed", "energy")
    }
    steps: list[list[tuple[int, ...]]] = [[() for _ in system.units] for _ in groups]
    for unit_at, parts in enumerate(programs):
        computed = {name for part in parts for name in part.operators}
        for at, own in _by_group(parts, place).items():
            if not computed.issuperset(groups[at]):
                continue  # a core alone has no function for some
            steps[at][unit_at] = tuple(part.step for part in own)
            for name, table in tables.items():
                table[at, unit_at] = sum(getattr(part, name) for part in own)
    if measured:
        _core_as_measured(system, lowered, steps, list(tables.values()))
    time, able = tables["time"], np.isfinite(tables["time"])
    memory = np.where(able, np.minimum(tables["memory"], time), 0.0)
    graph = TaskGraph(
        tuple(_label(names) for names in groups),
        tuple(unit.name for unit in system.units),
        time,
        _edges(network, place),
        energies=np.where(able, tables["energy"], 0.0),
        shared=memory[None],
        exposed=np.where(able, np.maximum(tables["exposed"], 0.0), 0.0)[None],
        static=static_pj_per_ns(system),
    )
    alone_ns, alone_pj = {}, {}
    for unit, parts in zip(system.units, programs, strict=True):
        if unit.accelerator is None:
            continue
        own_static = unit.accelerator.static_pj(1.0) * unit.accelerator.clock_mhz * 1e-3
        alone_ns[unit.name] = sum(part.time for part in parts)
        alone_pj[unit.name] = sum(part.energy for part in parts) + own_static * alone_ns[unit.name]
    return UnitProfile(
        network.name,
        tuple(groups),
        graph,
        _inputs(network, place),
        alone_ns,
        alone_pj,
        network,
        tuple(lowered),
        tuple(map(tuple, steps)),
    )


def _core_as_measured(
    system: System,
    lowered: Sequence[LoweredNetwork],
    steps: Sequence[Sequence[tuple[int, ...]]],
    tables: Sequence[Floats],
) -> None:
    """Where the core beside an accelerator computes a group by the same calls as a core alone, what was measured of it counts for that, too."""

    def calls(group: Sequence[tuple[int, ...]], unit: int) -> list[str]:
        called = [lowered[unit].steps[number] for number in group[unit]]
        return [] if any(step.accelerator for step in called) else [step.function for step in called]

    alone = [at for at, unit in enumerate(system.units) if unit.accelerator is None]
    beside = next(at for at, unit in enumerate(system.units) if unit.accelerator is not None)
    for at, group in enumerate(steps):
        for unit in alone:
            if calls(group, unit) and calls(group, unit) == calls(group, beside):
                for table in tables:
                    table[at, unit] = table[at, beside]


def _lower(network: QuantisedNetwork, machine: Accelerator, *, accelerator: bool) -> LoweredNetwork:
    """As the network is compiled for an accelerator, or for the core beside it alone."""
    schedule, groups, combinations = default_choices(machine)
    if not accelerator:
        return lower_on_host(network, machine, schedule)
    if (machine.input_bits, machine.accumulator_bits) != (8, 32):
        raise InfeasibleError(f"quantised networks have 8-bit elements, and {machine.name} has others")
    return lower_network(network, machine, schedule, groups, combinations)


def _parts(lowered: LoweredNetwork, machine: Accelerator, channel: float, *, whole: bool) -> Iterator[_Part]:
    """What each step takes; `channel`: bytes a nanosecond of main memory; `whole`: whether the steps compute all operators."""
    codes = lowered.layers
    layers = schedule_costs(
        [one.layer for one in codes.values()],
        [one.schedule for one in codes.values()],
        machine,
        "instruction",
    )
    of_layer = dict(zip(codes, layers, strict=True))
    ns, rate = 1e3 / machine.clock_mhz, channel_bytes_per_cycle(machine)
    costs, operators = predict_steps(lowered, machine), _operators_of(lowered, whole=whole)
    narrow = machine.model_copy(update={"dram_bytes_per_cycle": machine.dram_bytes_per_cycle * SLOWER})
    slower = predict_steps(lowered, narrow)
    for number, (step, cost, slow, names) in enumerate(
        zip(lowered.steps, costs, slower, operators, strict=True)
    ):
        moved, energy = cost.dram_bytes, cost.energy_pj(machine) - machine.static_pj(cost.cycles)
        if step.function in of_layer:
            layer = of_layer[step.function]
            terms = dict(zip(layer.resources, layer.latency_terms, strict=True))
            moved, energy = terms["memory"] * rate, layer.energy_pj - layer.static_pj
        elif not step.accelerator:
            moved = host_misses(lowered, step) * LINE_BYTES
        exposed = (slow.cycles - cost.cycles) / (1 / SLOWER - 1) * ns
        yield _Part(number, names, cost.cycles * ns, moved / channel, exposed, energy)


def _operators_of(lowered: LoweredNetwork, *, whole: bool) -> list[frozenset[str]]:
    """Operators that each step computes: those that it is called for, and where all are computed those without a step whose results it
    writes or, inside it, are read by these."""
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
    left = [op for op in network.operators if whole and op.name not in set().union(*called)]
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


def _groups(
    network: QuantisedNetwork, lowered: Sequence[LoweredNetwork], programs: Sequence[Sequence[_Part]]
) -> list[tuple[str, ...]]:
    """The least sets of operators that no step of any program takes apart, nor what steps hand to each other that is the program's own,
    and that do not wait for each other in a circle, each behind all that it reads from."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names = [op.name for op in network.operators]
    number = {name: at for at, name in enumerate(names)}
    pairs = set(_edges(network, number))
    for program, parts in zip(lowered, programs, strict=True):
        together = [part.operators for part in parts]
        own: dict[str, set[str]] = defaultdict(set)
        for part in parts:
            step = program.steps[part.step]
            for one in (*step.reads, *step.writes):
                if one.value not in network.values and one.value not in program.constants:
                    own[one.value] |= part.operators
        for members in (*together, *own.values()):
            ordered = sorted(number[name] for name in members)
            pairs |= {pair for a, b in itertools.pairwise(ordered) for pair in ((a, b), (b, a))}
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
    found: list[tuple[str, ...]] = []
    done: set[int] = set()
    while len(done) < len(members_of):
        ready = [group for group, before in needs.items() if group not in done and before <= done]
        first = min(ready, key=lambda group: members_of[group][-1])
        done.add(first)
        found.append(tuple(names[at] for at in members_of[first]))
    return found


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
