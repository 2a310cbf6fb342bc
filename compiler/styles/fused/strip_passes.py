"""Rows of pixels through blocks of weights: the passes of a strip of a convolution (`baco.compiler.styles.fused.convolutions`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.strip_placement import Image
from baco.compiler.styles.fused.strip_plans import TurnPlan


class RowPasses:
    """What passes of all convolutions share.

    Attributes:
        y, place: of the row of results whose turn it is: the image row that it reads, and where that one's first pixel lies.
        limit: where the piece of the ring ends in which that row lies.
        into: where sums go.
    """

    def __init__(self, e: Emitter, dim: int) -> None:
        self.e, self.dim = e, dim
        self.y, self.place = e.variable(0), e.variable(0)
        self.limit, self.into = e.variable(0), e.variable(0)


@dataclass(frozen=True)
class PassedRows:
    """All rows through one block of weights, at one place of the window.

    Attributes:
        weights: the block.
        window: row and column of the window, and block of the image's channels.
    """

    cells: RowPasses
    layer: Layer
    image: Image
    turn: TurnPlan
    weights: PassWeights
    window: tuple[int, Number, Number]

    def write(self, behind: Callable[[Number], None] | None) -> None:
        """`behind` writes what comes behind a row."""
        e, cells, p, image = self.cells.e, self.cells, self.layer.problem, self.image
        s, r, block = self.window
        sums = cells.into.get()
        begin = e.add(image.start, e.mul(block, image.pitch), r)
        cells.y.set(e.add(e.mul(self.turn.first, p.stride_h), s - self.layer.padding[0]))
        cells.place.set(e.add(begin, self.turn.reads[s]))
        edge, end = e.add(begin, image.edge), e.add(begin, image.ring)
        if image.gap:
            cells.limit.set(e.select(e.compare("slt", cells.place.get(), edge), edge, end))
        # the few pixels that are over come first: a pass of few rows before new weights would wait for these
        dim, over = cells.dim, p.P % cells.dim
        runs = [(over, 0, 1)] * (over > 0) + [(dim, over, p.P // dim)] * (dim <= p.P)
        left, target = self._ends(sums, 0)
        array_pass(e, dim, self.weights, runs[0][0], a=left, c=target)
        self._rest(runs, left, target, 1)
        if behind is not None:
            behind(0)
        with e.loop(self.turn.rows, 1, hint="row") as q:
            self._on(edge, end)
            self._rest(runs, *self._ends(sums, q), 0)
            if behind is not None:
                behind(q)

    def _ends(self, sums: Number, q: Number) -> tuple[Number, Number]:
        """Scratchpad row of the first pixel that a row of results reads, and accumulator row of its sum."""
        e, p, image, (s, r, _) = self.cells.e, self.layer.problem, self.image, self.window
        above = max(0, self.layer.padding[0] - s)
        below = (p.Q - 1) * p.stride_h + s - self.layer.padding[0] >= image.height
        source: Number = self.cells.place.get()
        if above > (0 if isinstance(q, int) else p.stride_h):  # others but the first row may be
            source = e.unless(e.compare("slt", self.cells.y.get(), 0), e.add(r, image.zeros), source)
        if below:
            beyond = e.compare("sge", self.cells.y.get(), image.height)
            source = e.unless(beyond, e.add(r, image.zeros), source)
        return source, e.add(sums, e.mul(q, p.P))

    def _on(self, edge: Number, end: Number) -> None:
        """To the next row: additions alone, since the host core has as little time for a row as the array."""
        e, p, image, place = self.cells.e, self.layer.problem, self.image, self.cells.place
        self.cells.y.set(e.add(self.cells.y.get(), p.stride_h))
        step = p.stride_h % image.slots * image.slot
        if not step:
            return
        after = e.add(place.get(), step)
        if not image.gap:
            place.set(e.unless(e.compare("sge", after, end), e.sub(after, image.ring), after))
            return
        place.set(after)
        limit = self.cells.limit.get()
        with e.when(e.compare("sge", after, limit), rarely=True):
            first = e.compare("eq", limit, edge)
            place.set(e.add(after, e.select(first, image.gap, -image.ring)))
            self.cells.limit.set(e.select(first, end, edge))

    def _rest(self, runs: list[tuple[int, int, int]], left: Number, target: Number, begin: int) -> None:
        """The passes of a row of results from the `begin`-th on."""
        e = self.cells.e
        for number, (pixels, before, times) in enumerate(runs):
            low = begin if number == 0 else 0
            with e.loop(max(0, times - low), hint="pixel") as m:
                x = e.add(e.mul(e.add(m, low), self.cells.dim), before)
                source = e.add(left, e.mul(x, self.layer.problem.stride_w))
                array_pass(e, self.cells.dim, self.weights, pixels, a=source, c=e.add(target, x), new=False)
