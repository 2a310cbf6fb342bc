"""What time and energy go to: how pages and figures call it, and its colour, the same wherever it is shown."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RESOURCES", "Resource"]


class Resource(NamedTuple):
    """Name and colour (of a light and of a dark page) of what a cost's terms are named after."""

    label: str
    color: str


#: By the names that terms of latency and energy have. Okabe and Ito's colours, and a few between: no two are alike, for
#: colour-blind readers either.
RESOURCES: dict[str, Resource] = {
    "array": Resource("array (MACs)", "#0072b2"),
    "mac": Resource("array (MACs)", "#0072b2"),
    "compute": Resource("array (MACs)", "#0072b2"),
    "registers": Resource("registers", "#56b4e9"),
    "accumulator": Resource("accumulator", "#009e73"),
    "scratchpad": Resource("scratchpad", "#e69f00"),
    "dram": Resource("DRAM", "#d55e00"),
    "static": Resource("leakage and clock", "#bdbdbd"),
    "memory": Resource("memory channel", "#aa3377"),
    "load": Resource("loads", "#e3d430"),
    "store": Resource("stores", "#e39ac2"),
    "issue": Resource("issue of commands", "#7d5a3c"),
    "host": Resource("host core", "#667a3a"),
    # of parts of programs that no single resource is known to limit, or whose energy is not told apart
    "group": Resource("groups of operators", "#332288"),
    "operator": Resource("other operators", "#5fd3c4"),
    "unsplit": Resource("array and memory of groups and other operators", "#8a7fd0"),
}
