"""What the code of a chain of convolutions does in each turn of each round: a table, which the program reads a turn ahead."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Cell, Emitter, Number
from baco.compiler.styles.fused.strip_moves import next_row
from baco.compiler.styles.fused.strip_placement import Image
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule, rows_by_round


@dataclass(frozen=True)
class TurnPlan:
    """One convolution in one round, in numbers or in cells.

    Attributes:
        rows, first: of results, and the first of them.
        reads: for each row of the window, where the image row lies in its ring that the first row of results reads.
        writes: where the first row of results goes in the ring of the next convolution.
        comes: image rows that come in this round.
    """

    rows: Any
    first: Any
    reads: tuple[Any, ...]
    writes: Any
    comes: Any


def _plan(chain: ConvolutionChain, schedule: StripSchedule, images: Sequence[Image]) -> list[tuple[int, ...]]:
    """By round but the first, in which only pixels come, and by convolution: the numbers of a turn, of `reads` the first one."""
    there = rows_by_round(chain, schedule)
    turns: list[tuple[int, ...]] = []
    for then, now in itertools.pairwise(there):
        for i, (layer, image) in enumerate(zip(chain.layers, images, strict=True)):
            p, first = layer.problem, then[i + 1]
            top = image.place(first * p.stride_h - layer.padding[0])
            to = images[i + 1] if i + 1 < len(images) else None
            written = 0 if to is None else to.place(first)
            turns.append((now[i + 1] - first, first, top, written, now[0] - then[0]))
    return turns


class Plans:
    """What is done in every turn. The program reads it from a table, while the turn before goes on: the host core has little time
    between two turns."""

    def __init__(
        self, e: Emitter, chain: ConvolutionChain, schedule: StripSchedule, images: Sequence[Image]
    ) -> None:
        self._e, self._images, self._windows = e, images, [layer.problem.S for layer in chain.layers]
        turns = _plan(chain, schedule, images)
        self.rounds = len(turns) // len(images)
        self._rows = [turn[0] for turn in turns]
        #: Whether image rows come in a round in which the first convolution has nothing to do.
        self.late = any(turn[-1] and not turn[0] for turn in turns[:: len(images)])
        self._widths = [max(one).bit_length() for one in zip(*turns, strict=True)]
        if sum(self._widths) > 64:
            raise InfeasibleError("strips of so many rows have no code")
        self._table = e.table([self._word(turn) for turn in [*turns, turns[0]]])
        cells = [
            TurnPlan(
                e.variable(0),
                e.variable(0),
                tuple(e.variable(0) for _ in range(rows)),
                e.variable(0),
                e.variable(0),
            )
            for rows in self._windows
        ]
        # of one convolution those of this turn and of the next
        self._now = cells
        self._next = cells if len(cells) > 1 else [
            TurnPlan(e.variable(0), e.variable(0), tuple(e.variable(0) for _ in cells[0].reads), e.variable(0), e.variable(0))
        ]  # fmt: skip
        self._set(0, turns[0])

    def _word(self, turn: Sequence[int]) -> int:
        lows = itertools.accumulate(self._widths, initial=0)
        return sum(part << low for part, low in zip(turn, lows, strict=False))

    def _set(self, index: int, turn: Sequence[Number]) -> None:
        e, cells = self._e, self._next[index]
        rows, first, read, written, come = turn
        for cell, number in (
            (cells.rows, rows),
            (cells.first, first),
            (cells.writes, written),
            (cells.comes, come),
        ):
            cell.set(number)
        for n, cell in enumerate(cells.reads):
            cell.set(next_row(e, self._images[index], read, n))

    def waits(self, index: int) -> bool:
        """Whether no convolution has anything to do between one's turn and that, a round later, of the next one, which reads its results."""
        count = len(self._images)
        starts = range(index, len(self._rows) - count - 1, count) if index < count - 1 else ()
        return any(
            self._rows[at] and self._rows[at + count + 1] and not any(self._rows[at + 1 : at + count + 1])
            for at in starts
        )

    def turn(self, index: int) -> TurnPlan:
        """The turn that begins."""
        now, following = self._now[index], self._next[index]
        if now is not following:
            for cell, other in zip(_cells(now), _cells(following), strict=True):
                cell.set(other.get())
        return TurnPlan(
            now.rows.get(),
            now.first.get(),
            tuple(cell.get() for cell in now.reads),
            now.writes.get(),
            now.comes.get(),
        )

    def ahead(self, at: Number, index: int) -> None:
        """Read what is done behind the turn of a convolution in a round."""
        e, count = self._e, len(self._images)
        word = e.load(e.add(self._table, e.mul(at, 8 * count), 8 * (index + 1)))
        lows = itertools.accumulate(self._widths, initial=0)
        self._set(
            (index + 1) % count,
            [e.bits(word, low, width) for low, width in zip(lows, self._widths, strict=False)],
        )


def _cells(turn: TurnPlan) -> list[Cell]:
    return [turn.rows, turn.first, *turn.reads, turn.writes, turn.comes]
