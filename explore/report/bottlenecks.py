"""What a design's time waits for, and what twice of a resource would give: of the whole program, from its headline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco.exploration.breakdown import CostEntry, DesignCosts
from baco.exploration.cost.detail import LayerDetail


@dataclass(frozen=True)
class Bottleneck:
    """One resource, or one kind of part that no single resource is known to limit.

    Attributes:
        name: a resource of `LayerCost.resources`; `group` of groups of operators; `operator` of what else the accelerator runs;
            `host` of the host core.
        entries: how many parts of the program it limits.
        cycles: that these take, of the whole program's; those of all rows add up to them.
        doubled_cycles: of the whole program with twice of it (of the host core: twice as fast), all else as it is, mappings too;
            groups and other operators of the accelerator are counted as they are. None where that is not known.
    """

    name: str
    entries: int
    cycles: float
    doubled_cycles: float | None


def limit_of(entry: CostEntry) -> str:
    """What limits a part of a program, as `Bottleneck.name`."""
    if entry.layer is not None:
        return entry.layer.bottleneck
    if entry.on == "host":
        return "host"
    return "group" if entry.kind == "group" else "operator"


def bottlenecks(costs: DesignCosts, details: Sequence[LayerDetail] | None) -> list[Bottleneck]:
    """As predicted, what gains most by doubling first; of equals, what takes most time.

    Args:
        details: of one run of each task; None where they are not known.
    """
    entries = costs.entries
    resources = costs.layers[0].layer.resources if costs.layers and costs.layers[0].layer else ()
    names = [*resources, *(name for name in ("group", "operator", "host") if _any(entries, name))]
    found = []
    for name in names:
        mine = [entry for entry in entries if limit_of(entry) == name]
        doubled: float | None = None
        if name == "host":
            doubled = math.fsum(entry.total_cycles / (1 + (entry.on == "host")) for entry in entries)
        elif name in resources and details is not None:
            place = resources.index(name)
            doubled = math.fsum(
                entry.total_cycles if entry.task is None else entry.runs * details[entry.task].doubled[place]
                for entry in entries
            )
        found.append(Bottleneck(name, len(mine), math.fsum(entry.total_cycles for entry in mine), doubled))
    return sorted(
        found,
        key=lambda bottleneck: (
            bottleneck.doubled_cycles is None,
            bottleneck.doubled_cycles or 0.0,
            -bottleneck.cycles,
        ),
    )


def _any(entries: Sequence[CostEntry], name: str) -> bool:
    return any(limit_of(one) == name for one in entries)
