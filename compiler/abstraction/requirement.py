"""The least hardware that a matched program requires (design vocabulary: *requirement*)."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.abstraction.intrinsic import Scope
from compiler.abstraction.matching import Matching
from compiler.mapping.nest import Requirement

__all__ = ["capacities", "gemmini_requirement", "least_extents"]


def capacities(matching: Matching) -> dict[Scope, int]:
    """Elements that each on-chip memory must hold for all operands of the program at once, padding included."""
    found: dict[Scope, int] = {}
    for access, inner in matching.pairs:
        scope = matching.intrinsic.scope(inner.operand)
        found[scope] = found.get(scope, 0) + matching.operand(access.operand).elements
    return found


def least_extents(matching: Matching) -> dict[str, int]:
    """Per instruction iteration the extent that is used at most: a smaller array needs more instructions."""
    extents = matching.intrinsic.compute.extents
    return {name: min(extents[name], matching.extent(name)) for name in extents}


def gemmini_requirement(matchings: Iterable[Matching]) -> Requirement:
    """Least Gemmini hardware that holds each of the programs, one at a time, tiles of all operands on the chip.

    The matchings are to `compiler.abstraction.intrinsic.gemmini`. Rows are those of the reduction (the array's rows),
    columns those of the results.
    """
    rows = columns = accumulator = words = scratchpad_rows = 0
    for matching in matchings:
        extents, used = matching.intrinsic.compute.extents, least_extents(matching)
        rows, columns = max(rows, used["k"]), max(columns, used["n"])
        output = matching.operand(matching.contraction.output.operand)
        accumulator = max(accumulator, output.elements // extents["n"])
        tiles = [matching.operand(access.operand) for access in matching.contraction.accesses[1:]]
        words = max(words, sum(_unpadded(matching, one.operand) for one in tiles))
        scratchpad_rows = max(scratchpad_rows, sum(one.elements // one.tile[-1] for one in tiles))
    return Requirement(rows, columns, accumulator, words, scratchpad_rows)


def _unpadded(matching: Matching, operand: str) -> int:
    """Elements of an operand's tiles without padding."""
    layout = matching.operand(operand)
    count = 1
    for extent, tiles, padding in zip(
        layout.tile, layout.counts[len(layout.outer) :], layout.padding, strict=True
    ):
        count *= extent * tiles - padding
    for tiles in layout.counts[: len(layout.outer)]:
        count *= tiles
    return count
