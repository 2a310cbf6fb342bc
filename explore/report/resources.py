"""What time and energy go to: how pages and figures call it, and its colour, the same wherever it is shown."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RESOURCES", "Resource"]


class Resource(NamedTuple):
    """Name and colour (of a light and of a dark page) of what a cost's terms are named after.

    Attributes:
        binds: whether it is a resource that bounds a layer; else a kind of part of which no single one is known to.
    """

    label: str
    color: str
    binds: bool = True


#: By the names that terms of latency and energy have. Okabe and Ito's colours, and more between: no two are alike, for
#: colour-blind readers either.
RESOURCES: dict[str, Resource] = {
    "compute": Resource("array (MACs)", "#0072b2"),
    "mac": Resource("array (MACs)", "#0072b2"),
    "registers": Resource("registers", "#56b4e9"),
    "accumulator": Resource("accumulator", "#009e73"),
    "scratchpad": Resource("scratchpad", "#e69f00"),
    "dram": Resource("DRAM", "#d55e00"),
    "array": Resource("array and registers of groups and others", "#4040b8"),
    "static": Resource("leakage and clock", "#bdbdbd"),
    "functions": Resource("functions of rows", "#c03bd8"),
    "normalisations": Resource("normalisations", "#8a2c14"),
    "memory": Resource("memory channel", "#aa3377"),
    "load": Resource("loads", "#e3d430"),
    "store": Resource("stores", "#e39ac2"),
    "issue": Resource("issue of commands", "#7d5a3c"),
    "group": Resource("groups of operators", "#7a5cff", binds=False),
    "operator": Resource("other operators", "#3ddc84", binds=False),
    "host": Resource("host core", "#667a3a", binds=False),
}
