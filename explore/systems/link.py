"""A network between a device and a machine behind a link (DNNTune): T = T_edge + T_link + T_cloud, E = E_edge + E_link.

The groups before a cut run on the device, the others behind the link. What crosses the cut is sent once; results that come back are not
counted, nor is the energy of the machine behind the link, as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from baco.common.errors import InputError
from baco.common.numbers import real_number
from baco.exploration.systems.task_graph import TaskGraph


@dataclass(frozen=True)
class LinkModel:
    """What sending takes.

    Attributes:
        mb_s: 10^6 bytes a second.
        round_trip_s: before the first byte.
        watt: that the device's radio takes meanwhile.
    """

    mb_s: float
    round_trip_s: float = 0.0
    watt: float = 0.0

    @classmethod
    def parse(cls, text: str) -> LinkModel:
        """`MB/s[,ms[,W]]`. Raises InputError for anything else."""
        parts = text.split(",")
        if len(parts) > 3:
            raise InputError(
                f"'{text}' is no link", hint="give MB/s, milliseconds of a round trip, and watts: 6,2,1.2"
            )
        numbers = [real_number("a link's number", part, positive=False) for part in parts] + [0.0, 0.0]
        if not numbers[0] > 0 or min(numbers) < 0:
            raise InputError("a link has a rate above 0, and neither time nor power below")
        return cls(numbers[0], numbers[1] * 1e-3, numbers[2])

    def seconds(self, nbytes: float) -> float:
        """That so many bytes take; none are not sent."""
        return self.round_trip_s + nbytes / (self.mb_s * 1e6) if nbytes else 0.0

    def joule(self, seconds: float) -> float:
        """That sending for so long takes of the device."""
        return seconds * self.watt


class LinkSplit(NamedTuple):
    """A cut behind so many groups: seconds on the device, on the link and behind it, bytes sent, joules of the device."""

    groups: int
    edge_s: float
    link_s: float
    cloud_s: float
    nbytes: float
    joule: float

    @property
    def seconds(self) -> float:
        """Of all."""
        return self.edge_s + self.link_s + self.cloud_s


def splits(
    graph: TaskGraph,
    edge_ns: Sequence[float],
    cloud_ns: Sequence[float],
    edge_pj: Sequence[float],
    inputs: Sequence[tuple[float, int]],
    link: LinkModel,
) -> list[LinkSplit]:
    """Every cut of the groups in their order, from all behind the link to none.

    Args:
        edge_ns, cloud_ns, edge_pj: of each group, on the device and behind the link.
        inputs: bytes of each of the network's, and the last group that reads it: sent unless that runs on the device.
    """
    cuts = []
    for cut in range(len(graph.names) + 1):
        sent: dict[int, float] = {}
        for (a, b), size in graph.edges.items():
            if a < cut <= b:
                sent[a] = max(sent.get(a, 0.0), size)
        nbytes = sum(sent.values()) + sum(size for size, last in inputs if last >= cut)
        seconds = link.seconds(nbytes)
        cuts.append(
            LinkSplit(
                cut,
                sum(edge_ns[:cut]) * 1e-9,
                seconds,
                sum(cloud_ns[cut:]) * 1e-9,
                nbytes,
                sum(edge_pj[:cut]) * 1e-12 + link.joule(seconds),
            )
        )
    return cuts
