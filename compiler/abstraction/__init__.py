"""The accelerator's instructions as data, and what follows from it: matching, padding, addresses, least hardware."""

from __future__ import annotations

from compiler.abstraction.from_linalg import contraction_of
from compiler.abstraction.intrinsic import Intrinsic, MemoryStatement, gemmini
from compiler.abstraction.matching import Matching, OperandTiles, is_identity, match, matchings
from compiler.abstraction.requirement import capacities, gemmini_requirement, least_extents

__all__ = [
    "Intrinsic",
    "Matching",
    "MemoryStatement",
    "OperandTiles",
    "capacities",
    "contraction_of",
    "gemmini",
    "gemmini_requirement",
    "is_identity",
    "least_extents",
    "match",
    "matchings",
]
