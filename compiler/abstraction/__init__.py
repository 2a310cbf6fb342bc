"""The accelerator's instructions as data, and what follows from it: matching, padding, addresses."""

from __future__ import annotations

from baco.compiler.abstraction.from_linalg import contraction_of
from baco.compiler.abstraction.intrinsic import Intrinsic, MemoryStatement, gemmini
from baco.compiler.abstraction.matching import Matching, OperandTiles, is_identity, match, matchings

__all__ = [
    "Intrinsic",
    "Matching",
    "MemoryStatement",
    "OperandTiles",
    "contraction_of",
    "gemmini",
    "is_identity",
    "match",
    "matchings",
]
