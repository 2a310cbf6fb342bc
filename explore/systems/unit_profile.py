"""What every group of a network takes on every unit of a system, as predicted or as measured of each unit's own program.

A network is lowered for each unit as it is compiled; its groups are the least sets of operators that no unit takes apart, since some run
several operators as one. What a group takes is the sum of its steps' prices (`baco.exploration.systems.unit_price`), those of the unit's
core between the accelerator's included.

All units work on one main memory: a group's operands come from there and its results go there, which is part of what it takes, by an
accelerator's DMA or a core's cache lines. So a result costs a group on another unit nothing beyond that. What tasks on different units
share is the channel of main memory: bytes over the largest of the units' rates. What a task takes longer because of others is what
predictions say of a channel that moves two thirds as many bytes a cycle. Measurements also say what each cycle of latency costs, since
requests wait behind what other units have in flight; predictions leave that out.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.system import HOST, System
from baco.compiler.analysis.traffic import bytes_per_cycle
from baco.compiler.network.fuse_elements import fused_elements
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.steps import ByteRange, region
from baco.compiler.ops.operator import itemsize
from baco.exploration.systems.task_graph import Edge, Floats, TaskGraph
from baco.exploration.systems.unit_price import (
    MeasuredStep,
    MeasureSteps,
    StepPrice,
    UnitPrice,
    lower_for,
    meet,
    unit_price,
)

#: The resources that tasks share, in the order of `TaskGraph.shared`.
SHARED = ("memory channel",)


def channel_gb_s(system: System) -> float:
    """Of main memory: the fastest that any unit is told of, through the one port of all."""
    return max(bytes_per_cycle(one) * one.clock_mhz * 1e-3 for one in system.accelerators)


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


def profile(network: QuantisedNetwork, system: System, measure: MeasureSteps | None = None) -> UnitProfile:
    """The network's groups on the units of a system.

    Args:
        measure: runs its program for an accelerator; by default times are predicted. What a core alone takes is predicted where no
            accelerator's core computes it by the same calls.

    Raises InfeasibleError for a network that one of the accelerators' programs cannot compute.
    """
    network = fused_elements(network)  # as every program has it
    known: dict[str, tuple[LoweredNetwork, UnitPrice]] = {}
    for unit in system.units:
        machine, accelerator = unit.accelerator or system.accelerators[0], unit.accelerator is not None
        key = machine.config_hash if accelerator else HOST
        if key not in known:
            lowered = lower_for(network, machine, accelerator=accelerator)
            price = unit_price(lowered, machine, accelerator=accelerator)
            if measure is not None and accelerator:
                price = _as_measured(price, measure(machine), machine)
            known[key] = lowered, price
    rows = [known[HOST if one.accelerator is None else one.accelerator.config_hash] for one in system.units]
    lowered_for = tuple(lowered for lowered, _ in rows)
    return unit_profile(
        network, system, [price for _, price in rows], lowered_for, measured=measure is not None
    )


def _as_measured(price: UnitPrice, took: Sequence[MeasuredStep], machine: Accelerator) -> UnitPrice:
    ns = 1e3 / machine.clock_mhz
    steps = (
        # bytes of the core's cache are predicted
        replace(step, time=one.cycles * ns, nbytes=max(step.nbytes, one.dram_bytes), exposed=one.exposed * ns)
        for step, one in zip(price.steps, took, strict=True)
    )
    return replace(price, steps=tuple(steps))


def unit_profile(
    network: QuantisedNetwork,
    system: System,
    prices: Sequence[UnitPrice],
    lowered: tuple[LoweredNetwork, ...] = (),
    *,
    measured: bool = False,
) -> UnitProfile:
    """The network's groups on the units of a system, from what it takes on each of these.

    Args:
        network: as programs have it (`baco.compiler.network.fuse_elements`).
        prices: of its program on every unit.
        lowered: on every unit, if programs are to be made of plans.
        measured: whether prices of accelerators are measured, so that what their cores compute is that of cores alone, too.
    """
    groups = _groups(network, prices)
    channel = channel_gb_s(system)
    place = {name: at for at, names in enumerate(groups) for name in names}
    tables = {
        name: np.full((len(groups), len(system.units)), np.inf)
        for name in ("time", "nbytes", "exposed", "energy")
    }
    steps: list[list[tuple[int, ...]]] = [[() for _ in system.units] for _ in groups]
    for unit_at, price in enumerate(prices):
        computed = {name for step in price.steps for name in step.operators}
        for at, own in _by_group(price.steps, place).items():
            if not computed.issuperset(groups[at]):
                continue  # a core alone has no function for some
            steps[at][unit_at] = tuple(step.step for step in own)
            for name, table in tables.items():
                table[at, unit_at] = sum(getattr(step, name) for step in own)
    tables["nbytes"] /= channel
    if measured:
        _core_as_measured(system, lowered, steps, list(tables.values()))
    time, able = tables["time"], np.isfinite(tables["time"])
    memory = np.where(able, np.minimum(tables["nbytes"], time), 0.0)
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
    for unit, price in zip(system.units, prices, strict=True):
        if unit.accelerator is None:
            continue
        own_static = unit.accelerator.static_pj(1.0) * unit.accelerator.clock_mhz * 1e-3
        alone_ns[unit.name] = sum(step.time for step in price.steps) if price.steps else math.inf
        alone_pj[unit.name] = sum(step.energy for step in price.steps) + own_static * alone_ns[unit.name]
    return UnitProfile(
        network.name,
        tuple(groups),
        graph,
        _inputs(network, place),
        alone_ns,
        alone_pj,
        network,
        lowered,
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


def _groups(network: QuantisedNetwork, prices: Sequence[UnitPrice]) -> list[tuple[str, ...]]:
    """The least sets of operators that no step of any program takes apart, nor what steps hand to each other that is the program's own,
    and that do not wait for each other in a circle, each behind all that it reads from."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names = [op.name for op in network.operators]
    number = {name: at for at, name in enumerate(names)}
    pairs = set(_edges(network, number))
    for price in prices:
        for members in (*(step.operators for step in price.steps), *price.kept):
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
                if place[name] != place[op.name] and meet(needed, written):
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


def _by_group(steps: Iterable[StepPrice], place: Mapping[str, int]) -> dict[int, list[StepPrice]]:
    found: dict[int, list[StepPrice]] = defaultdict(list)
    for step in steps:
        for at in sorted({place[name] for name in step.operators})[:1]:
            found[at].append(step)
    return found


def _label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1} more"
