"""The ends of a quantiser's ranges: kept where they decide results (a ReLU that was left to them), else no operator at all."""

from __future__ import annotations

from dataclasses import replace

from baco.compiler.network.calibrate import Ranges
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Semantics

#: Numbers this far beyond the ends, as a part of the range, are what rounding leaves.
_ROUNDING = 1 / 128


def settle_requantisations(network: Network, ranges: Ranges) -> Network:
    """The network with every requantisation as a clip, or as a copy where nothing of its input is beyond its ends.

    Without ranges (a network whose values are not known) only the ends at zero count.
    """
    return replace(network, operators=tuple(_settled(op, ranges) for op in network.operators))


def _settled(op: Operator, ranges: Ranges) -> Operator:
    semantics = op.semantics
    if semantics is None or not semantics.attributes.get("requantises"):
        return op
    (source,) = semantics.operands
    assert isinstance(source, Tensor)
    low, high = semantics.attributes["numbers"]["low"], semantics.attributes["numbers"]["high"]
    spare = (high - low) * _ROUNDING
    ends = ranges.ends.get(source.name)
    cuts = 0 in (low, high) if ends is None else ends[0] < low - spare or ends[1] > high + spare
    return op if cuts else replace(op, semantics=Semantics("identity", (source,)))
