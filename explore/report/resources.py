"""What time and energy go to: how pages, figures and sentences call it, and its colour, the same wherever it is shown."""

from __future__ import annotations

from typing import NamedTuple


class Resource(NamedTuple):
    """What a cost's terms are named after.

    Attributes:
        label: on pages and in figures.
        color: of a light and of a dark page.
        words: in a sentence; empty for what takes energy alone.
        twice: what there would be with twice of it, in a sentence; empty where that is no single thing.
        binds: whether it is a resource that bounds a layer; else a kind of part of which no single one is known to.
    """

    label: str
    color: str
    words: str = ""
    twice: str = ""
    binds: bool = True

    @property
    def limited(self) -> str:
        """The parts of a program that it limits, in a sentence."""
        if not self.binds:
            return self.words
        return f"layers that {self.words} limit{'' if self.words in ('loads', 'stores') else 's'}"


#: Twice of loads or stores, which share it.
_PORT = "a memory port of twice the width"
#: By the names that terms of latency and energy have. Okabe and Ito's colours, and more between: no two are alike, for
#: colour-blind readers either.
RESOURCES: dict[str, Resource] = {
    "compute": Resource("array (MACs)", "#0072b2", "the array", "an array of twice the speed"),
    "mac": Resource("array (MACs)", "#0072b2"),
    "registers": Resource("registers", "#56b4e9"),
    "accumulator": Resource(
        "accumulator", "#009e73", "the accumulator", "twice the bandwidth of the accumulator"
    ),
    "scratchpad": Resource(
        "scratchpad", "#e69f00", "the scratchpad", "twice the bandwidth of the scratchpad"
    ),
    "dram": Resource("DRAM", "#d55e00", "DRAM bandwidth", "twice the DRAM bandwidth"),
    "array": Resource("array and registers of groups and others", "#4040b8"),
    "control": Resource("commands", "#5d4a68"),
    "static": Resource("leakage and clock", "#bdbdbd"),
    "functions": Resource("functions of rows", "#c03bd8"),
    "normalisations": Resource("normalisations", "#8a2c14"),
    "memory": Resource("memory channel", "#aa3377", "the memory channel", "twice the memory channel"),
    "load": Resource("loads", "#e3d430", "loads", _PORT),
    "store": Resource("stores", "#e39ac2", "stores", _PORT),
    "issue": Resource(
        "issue of commands", "#7d5a3c", "the issue of commands", "commands issued at twice the rate"
    ),
    "group": Resource(
        "groups of operators", "#7a5cff", "groups of operators that run as one unit", binds=False
    ),
    "operator": Resource("other operators", "#3ddc84", "other operators on the accelerator", binds=False),
    "host": Resource("host core", "#667a3a", "the host core", "a host core of twice the speed", binds=False),
}
