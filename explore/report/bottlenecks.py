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
        mine = [one for one in entries if limit_of(one) == name]
        doubled: float | None = None
        if name == "host":
            doubled = math.fsum(one.total_cycles / (1 + (one.on == "host")) for one in entries)
        elif name in resources and details is not None:
            place = resources.index(name)
            doubled = math.fsum(
                one.total_cycles if one.task is None else one.runs * details[one.task].doubled[place]
                for one in entries
            )
        found.append(Bottleneck(name, len(mine), math.fsum(one.total_cycles for one in mine), doubled))
    return sorted(found, key=lambda one: (one.doubled_cycles is None, one.doubled_cycles or 0.0, -one.cycles))


def _any(entries: Sequence[CostEntry], name: str) -> bool:
    return any(limit_of(one) == name for one in entries)
