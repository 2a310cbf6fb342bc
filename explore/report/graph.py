"""A network as units: what the accelerator runs with what rides along on its way out, and what the host runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from baco.exploration.report.data import OtherOperator
from baco.workloads.network import Network, Operator, Task

__all__ = ["GraphNode", "network_units"]


@dataclass
class GraphNode:
    """One operator and those that it carries.

    Attributes:
        operator: that gives it its name.
        on: what runs it.
        rides: names and kinds of the operators that cost nothing beside it.
        sources: units whose results it reads, by their places; -1 for what comes from outside.
        task: place among the tasks of the report; None for operators of the host.
        cycles: of one run on the host; 0 for others.
    """

    operator: Operator
    on: Literal["accelerator", "host"]
    task: int | None = None
    cycles: float = 0.0
    rides: list[str] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)


def network_units(network: Network, tasks: Sequence[Task], host: Sequence[OtherOperator]) -> list[GraphNode]:
    """The units of a network in the order in which it runs.

    An operator that the accelerator does on the way out of its accumulator rides on the unit that makes what it reads
    first, or on a later one that it reads too, since both must be there.
    """
    places = {(task.network, task.problem): place for place, task in enumerate(tasks)}
    cycles = {one.operator: one.latency_cycles for one in host if one.network == network.name}
    units: list[GraphNode] = []
    made: dict[str, int] = {}  # unit that makes a tensor
    for op in network.operators:
        sources = {made.get(name, -1) for name in op.inputs}
        if op.fused and max(sources, default=-1) >= 0:
            own = max(sources)
            units[own].rides.append(f"{op.name} ({op.kind})")
        else:
            own = len(units)
            runs = op.problem is not None or op.fused
            units.append(
                GraphNode(
                    op,
                    "accelerator" if runs else "host",
                    None if op.problem is None else places.get((network.name, op.problem)),
                    cycles.get(op.name, 0.0),
                )
            )
        units[own].sources |= sources - {own}
        made[op.output.name] = own
    return units
