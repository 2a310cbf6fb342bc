"""The program of a network as a graph: what runs as one unit, on what, and what rides along on the way out of it.

It is the program that costs are of: operators that a design runs as a group stand together, an operator that the costs know by
itself is a unit by itself, and only what costs nothing of its own rides on another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from baco.exploration.breakdown import CostEntry, DesignCosts
from baco.workloads.network import Network, Operator


@dataclass
class GraphNode:
    """One operator and those that it carries.

    Attributes:
        name, kind, repeat: of the operator that gives it its name.
        on: what runs it; `nothing` of what has no code of its own, such as a change of shape.
        entry: place among `DesignCosts.layers` and, behind these, `DesignCosts.beside`, of what its cost is part of; None where
            it costs nothing.
        group: name of the group that it runs in; None where it runs by itself.
        rides: names and kinds of the operators that cost nothing beside it.
        sources: units whose results it reads, by their places; -1 for what comes from outside.
    """

    name: str
    kind: str
    repeat: int
    on: Literal["accelerator", "host", "nothing"]
    entry: int | None = None
    group: str | None = None
    rides: list[str] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)


def network_units(network: Network, costs: DesignCosts) -> list[GraphNode]:
    """The units of a network's program on a design, in the order in which they run, those of a group one behind the other.

    The program is the measured one where there is one. An operator that the accelerator does on the way out of its accumulator
    rides on the unit that makes what it reads first, or on a later one that it reads too, since both must be there.
    """
    entries = (*costs.layers, *costs.beside)
    own, groups = _by_operator(network.name, entries, costs.measured is not None)
    units: list[GraphNode] = []
    made: dict[str, int] = {}  # unit that makes a tensor
    for op in network.operators:
        sources = {made.get(name, -1) for name in op.inputs}
        place = groups.get(op.name, own.get(op.name))
        if op.fused and place is None and max(sources, default=-1) >= 0:
            unit = max(sources)
            units[unit].rides.append(f"{op.name} ({op.kind})")
        else:
            unit = len(units)
            units.append(_node(op, place, entries, op.name in groups))
        units[unit].sources |= sources - {unit}
        made[op.output.name] = unit
    ordered = _together(units)
    known = {unit.entry for unit in ordered}
    for place in dict.fromkeys(own.values()):
        if place not in known:  # of the program alone: copies of inputs, its start and its end
            one = entries[place]
            ordered.append(GraphNode(one.name, one.function, 1, one.on, place))
    return ordered


def _by_operator(
    network: str, entries: Iterable[CostEntry], measured: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Places of the entries of a network that run, by names of operators: those by themselves, and groups."""
    own: dict[str, int] = {}
    groups: dict[str, int] = {}
    for place, one in enumerate(entries):
        runs = one.runs if not measured else one.measured.cycles if one.measured is not None else 0.0
        if one.network != network or not runs:
            continue
        found = groups if one.kind == "group" else own
        for name in one.operators or (one.name,):
            found.setdefault(name, place)
    return own, groups


def _node(op: Operator, place: int | None, entries: tuple[CostEntry, ...], grouped: bool) -> GraphNode:
    if place is None:
        return GraphNode(op.name, op.kind, op.repeat, "nothing")
    entry = entries[place]
    return GraphNode(op.name, op.kind, op.repeat, entry.on, place, group=entry.name if grouped else None)


def _together(units: list[GraphNode]) -> list[GraphNode]:
    """The same units with those of a group one behind the other, where the group runs: at the first of them if all that the
    others read from elsewhere is there by then, else at the last."""
    members: dict[str, list[int]] = {}
    for position, unit in enumerate(units):
        if unit.group is not None:
            members.setdefault(unit.group, []).append(position)
    turn: dict[int, tuple[int, int]] = {position: (position, 0) for position in range(len(units))}
    for places in members.values():
        outside = {source for position in places for source in units[position].sources} - set(places)
        at = places[0] if max(outside, default=-1) < places[0] else places[-1]
        turn.update({position: (at, number + 1) for number, position in enumerate(places)})
    order = sorted(range(len(units)), key=lambda position: (*turn[position], position))
    moved = {old: new for new, old in enumerate(order)}
    return [
        replace(units[old], sources={moved.get(source, -1) for source in units[old].sources}) for old in order
    ]
