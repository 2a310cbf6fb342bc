"""Operands of the loop macros that stay in the scratchpad from one run to the next (spad ids 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.schedules.trip import Trip


@dataclass(frozen=True)
class Reuse:
    """An operand whose tiles take the two halves of the scratchpad in turn and are loaded once each.

    Attributes:
        relevant: loops that choose the operand's tile, outermost first.
        others: loops over the runs that share a tile.
    """

    relevant: tuple[Trip, ...]
    others: tuple[Trip, ...]

    def address(self, e: Emitter, address: Number, at: Mapping[str, Number]) -> Number:
        """Where a run loads from: null unless it is the first one with its tile. `at` has the loops' numbers."""
        repeated: Number = 0
        for trip in self.others:
            repeated = e.bit_or(repeated, at[trip.name])
        return e.select(e.compare("eq", repeated, 0), address, 0)

    def half(self, e: Emitter, at: Mapping[str, Number]) -> Number:
        """The spad id of a run: 1 and 2 in turn."""
        ordinal: Number = 0
        for trip in self.relevant:
            ordinal = e.add(e.mul(ordinal, trip.count), at[trip.name])
        return e.add(e.mod(ordinal, 2), 1)


def plan_reuse(loops: Sequence[Trip], relevant: str) -> Reuse | None:
    """How an operand that the axes `relevant` index is kept in the runs of a loop nest; None if it cannot.

    Two ways are safe on every implementation, whose loads may run one macro ahead of its products: runs that share a
    tile follow each other, then the other half is free for the next tile; or all tiles but those of the outermost
    relevant loops are two, one a half (section 13.2 of the instruction set). In both, neighbouring runs with
    different tiles have them in different halves.

    Args:
        loops: the nest, outermost first.
        relevant: axes that choose the operand's tile.
    """
    busy = [trip for trip in loops if trip.count > 1]
    chosen = tuple(trip for trip in busy if trip.name in relevant)
    others = tuple(trip for trip in busy if trip.name not in relevant)
    if not others:
        return None
    first = next(n for n, trip in enumerate(busy) if trip.name not in relevant)
    inside = 1
    for trip in busy[first:]:
        inside *= trip.count if trip.name in relevant else 1
    return Reuse(chosen, others) if inside in (1, 2) else None
