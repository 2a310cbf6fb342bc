"""Softmaxes in tile trees: whole rows where operators meet, or rows block by block (online).

A softmax needs its whole row before it gives a result. Where it meets the operator that makes its rows, or the one that reads
them, each iteration has to hold whole rows; unless it runs *online*: with the largest element and the sum so far of every
row, each block gives what is right for the blocks until then, and the results of the product that reads them are corrected
whenever another block comes, and divided by the sums at the end (Chimera swaps product and division likewise, without the largest
element; FlashAttention has both). That is more work and more to hold:

* two words of a row, wherever the product's results stay, moved with them where they leave before they are complete;
* each result of the product is read, multiplied and written back with every block: to be corrected, the last time divided;
* each row's two words are read, renewed and written back with every block.

What an online softmax takes is that of these numbers; a row in one block takes none of it. Source of the recurrence: Milakov and
Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention" (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.slices import LoopTrip, Placed, product

#: Words of a row: its largest element and its sum.
STATE = 2


@dataclass(frozen=True)
class OnlineRows:
    """A softmax that runs online, and what that takes over a whole run.

    Attributes:
        softmax, reader: innermost tiles of it, and of the product that reads its results.
        blocks: that a row comes in.
        results: of the product, each iteration that makes it again counted.
        rows: of the softmax, likewise.
        cycles: more that the softmax takes.
        name: of the words that are kept of rows.
    """

    softmax: Placed
    reader: Placed
    blocks: Any
    results: Any
    rows: Any
    cycles: Any
    name: str

    @property
    def cut(self) -> Any:
        """1 where rows come in several blocks, else 0."""
        return (self.blocks > 1) * 1

    @property
    def output(self) -> Access:
        """Of the product."""
        return _operator(self.reader).output

    def state_words(self, tile: Placed) -> Any:
        """Words kept of the rows in a tile that has softmax and product."""
        made = _operator(self.softmax).output.operand
        shared = set(_operator(self.reader).access(made).variables)
        lines = Access("rows", tuple(i for i in self.output.indices if set(i.variables) <= shared))
        return self.cut * STATE * product(lines.slice(tile.extents[self.reader.tile.operator]))

    @property
    def around(self) -> list[Placed]:
        """Tiles that have both, the innermost first."""
        return [one for one in self.softmax.around if self.reader.tile.operator in one.extents]


def online_rows(root: Placed) -> list[OnlineRows]:
    """Softmaxes of a tree that run online, those that cannot (`row_problems`) left out."""
    found = []
    for leaf in _softmaxes(root):
        reader = _reader(leaf)
        if not leaf.tile.online or reader is None:
            continue
        blocks = product([trip.factor for trip in _cuts(leaf, reader)])
        over = _operator(reader)
        sums, row = over.reduction, _row(_operator(leaf))
        found.append(
            OnlineRows(
                leaf,
                reader,
                blocks,
                _visits(reader, sums, spatial=True),
                _visits(leaf, row, spatial=True),
                (blocks > 1)
                * blocks
                * (_visits(reader, sums, spatial=False) + _visits(leaf, row, spatial=False)),
                f"{_operator(leaf).output.operand}~rows",
            )
        )
    return found


def row_problems(root: Placed) -> tuple[list[str], list[str]]:
    """Why softmaxes of a tree cannot run as it says, a sentence each; and those that run online, in words."""
    found, online = [], []
    for leaf in _softmaxes(root):
        name, row = leaf.tile.operator, ", ".join(_row(_operator(leaf)))
        cuts: dict[int, LoopTrip] = {}
        for partner in _partners(leaf):
            for trip in _cuts(leaf, partner):
                cuts[id(trip)] = trip
        blocks = product([trip.factor for trip in cuts.values()])
        if blocks == 1:
            continue
        if not leaf.tile.online:
            found.append(
                f"softmax '{name}' needs whole rows where it meets others, but loops over {row} cut them into {blocks} blocks"
            )
            continue
        reader = _reader(leaf)
        if reader is None:
            found.append(
                f"softmax '{name}' cannot run online: no product that sums over {row} reads its results beside it"
            )
            continue
        outside = {id(trip) for trip in _cuts(leaf, reader)}
        if any(one not in outside for one in cuts):
            found.append(
                f"softmax '{name}' cannot run online: its rows are cut inside the tile where '{reader.tile.operator}' reads them"
            )
        elif any(trip.loop.spatial for trip in cuts.values()):
            found.append(f"softmax '{name}' cannot run online: instances side by side have parts of its rows")
        else:
            online.append(f"softmax '{name}' in {blocks} blocks of its rows")
    return found, online


def _operator(leaf: Placed) -> Contraction:
    return leaf.operators[leaf.tile.operator]


def _row(softmax: Contraction) -> tuple[str, ...]:
    """Iterations over a row: those of the last index."""
    return softmax.output.indices[-1].variables


def _softmaxes(root: Placed) -> list[Placed]:
    return [one for one in root.all if not one.children and _operator(one).body == "softmax"]


def _partners(leaf: Placed) -> list[Placed]:
    """Innermost tiles of who makes a softmax's rows and who reads its results."""
    softmax = _operator(leaf)
    read = {access.operand for access in softmax.inputs}
    root = [leaf, *leaf.around][-1]
    return [
        one
        for one in root.all
        if not one.children
        and one is not leaf
        and (
            _operator(one).output.operand in read
            or any(access.operand == softmax.output.operand for access in _operator(one).inputs)
        )
    ]


def _reader(leaf: Placed) -> Placed | None:
    """The one product that reads a softmax's results and sums over its rows."""
    softmax = _operator(leaf)
    made = softmax.output.operand
    readers = [one for one in _partners(leaf) if any(a.operand == made for a in _operator(one).inputs)]
    if len(readers) != 1:
        return None
    product_ = _operator(readers[0])
    along = product_.access(made).indices[-1].variables
    fits = product_.body == "products" and along and set(along) <= set(product_.reduction)
    return readers[0] if fits else None


def _cuts(leaf: Placed, partner: Placed) -> list[LoopTrip]:
    """Loops that cut a softmax's rows before it meets another operator, or where it does."""
    name, row = leaf.tile.operator, set(_row(_operator(leaf)))
    return [
        trip
        for tile in leaf.around
        if partner.tile.operator in tile.extents
        for trip in tile.trips
        if row & set(trip.moves.get(name, {}))
    ]


def _visits(leaf: Placed, without: Sequence[str], *, spatial: bool) -> Any:
    """Iterations of an operator, those apart that move it along some dimensions alone."""
    name = leaf.tile.operator
    return product(
        [
            trip.factor
            for tile in (leaf, *leaf.around)
            for trip in tile.trips
            if (spatial or not trip.loop.spatial)
            and not (trip.moves.get(name) and set(trip.moves[name]) <= set(without))
        ]
    )
