"""Counting through a nest of loops one combination of numbers at a time, as what runs ahead of the loops does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.ir.emit import Condition, Emitter, Number


@dataclass(frozen=True)
class Advance:
    """From one combination of loop numbers to the next.

    Attributes:
        numbers: the next ones.
        touched: for every loop whether its number changes (or begins anew).
        over: whether there is no next one.
    """

    numbers: list[Number]
    touched: list[Condition]
    over: Condition


def following(e: Emitter, numbers: Sequence[Number], counts: Sequence[Number]) -> Advance:
    """The next combination, the last loop fastest."""
    following_numbers: list[Number] = [0] * len(numbers)
    touched: list[Condition] = [True] * len(numbers)
    carry: Condition = True
    for at in reversed(range(len(numbers))):
        touched[at] = carry
        counted = e.add(numbers[at], 1)
        ends = e.compare("sge", counted, counts[at])
        following_numbers[at] = e.select(carry, e.select(ends, 0, counted), numbers[at])
        carry = e.both(carry, ends)
    return Advance(following_numbers, touched, carry)
