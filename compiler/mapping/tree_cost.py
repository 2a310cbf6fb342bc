"""Latency, energy and units used of an arbitrary tile tree on an arbitrary machine.

Source: TileFlow (MICRO 2023). A tile loads, lets what is inside work, and stores, all three at once (double buffering): over the
whole run it takes the longest of these. What is inside takes the sum of its tiles' times in `Seq` and `Shar`, which run one
after the other, and the longest in `Pipe` and `Para`, which run at the same time on arrays of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.movement import Transfer, tile_transfers
from baco.compiler.mapping.rows import OnlineRows, online_rows
from baco.compiler.mapping.slices import Placed, larger, place, product
from baco.compiler.mapping.tree import Tile


@dataclass(frozen=True)
class TreeCost:
    """Of one run of a tree.

    Attributes:
        cycles: latency.
        energy_pj: of accesses and multiply-accumulates.
        words: moved across each level's boundary to the level inside, both ways, by level.
        arrays: that work at the same time at most.
    """

    cycles: Any
    energy_pj: Any
    words: tuple[Any, ...]
    arrays: Any

    @property
    def edp(self) -> Any:
        """pJ·cycles."""
        return self.cycles * self.energy_pj


def tree_cost(
    tree: Tile, operators: Sequence[Contraction], machine: Machine, factors: Sequence[Any] | None = None
) -> TreeCost:
    """Cost of a tree whose levels the machine has. Args and errors as `baco.compiler.mapping.slices.place`."""
    root = place(tree, operators, factors)
    moved = tile_transfers(root)
    words = [0 for _ in machine.levels]
    energy: Any = 0
    for _, transfer in moved:
        words[transfer.outer] = words[transfer.outer] + transfer.words
        inner = machine.levels[transfer.inner].access_pj * transfer.own if transfer.inner >= 0 else 0
        energy = energy + machine.levels[transfer.outer].access_pj * transfer.words + inner
    for leaf in (tile for tile in root.all if not tile.children):
        energy = energy + machine.mac_pj * product(
            [trip.factor for placed in (leaf, *leaf.around) for trip in placed.trips]
        )
    online = online_rows(root)
    for rows in online:  # a multiplication for each correction
        energy = energy + machine.mac_pj * rows.cut * rows.blocks * (rows.results + rows.rows)
    return TreeCost(_cycles(root, moved, machine, online), energy, tuple(words), _arrays(root))


def _cycles(
    placed: Placed,
    moved: Sequence[tuple[Placed, Transfer]],
    machine: Machine,
    online: Sequence[OnlineRows],
) -> Any:
    """Of all runs of a tile, on each of the instances of its memory."""
    chain = (placed, *placed.around)
    if placed.children:
        inside = [_cycles(child, moved, machine, online) for child in placed.children]
        at_once = placed.tile.relation in ("Pipe", "Para") and len(inside) > 1
        cycles = inside[0]
        for child in inside[1:]:
            cycles = larger(cycles, child) if at_once else cycles + child
    else:
        cycles = product([trip.factor for node in chain for trip in node.trips if not trip.loop.spatial])
        cycles = cycles + sum(rows.cycles for rows in online if rows.softmax is placed)
    mine = [transfer for tile, transfer in moved if tile is placed]
    for outer in {transfer.outer for transfer in mine}:
        level = machine.levels[outer]
        # instances of that memory work side by side, each with a rate of its own
        several = product(
            [t.factor for node in chain for t in node.trips if t.loop.spatial and node.tile.level > outer]
        )
        down, up = (
            sum(getattr(transfer, way) for transfer in mine if transfer.outer == outer)
            for way in ("down", "up")
        )
        rates = [
            (down, level.reads_per_cycle),
            (up, level.writes_per_cycle),
            (down + up, level.words_per_cycle),
        ]
        for words, rate in rates:
            if rate is not None:
                cycles = larger(cycles, words / rate / several)
    return cycles


def _arrays(placed: Placed) -> Any:
    """Arrays that work at the same time: instances of the innermost memory, and side by side in it."""
    inside = [_arrays(child) for child in placed.children]
    arrays: Any = 1
    if inside:
        arrays = inside[0]
        for one in inside[1:]:
            arrays = arrays + one if placed.tile.relation in ("Pipe", "Para") else larger(arrays, one)
    if placed.tile.level > 1:
        arrays = arrays * product([trip.factor for trip in placed.trips if trip.loop.spatial])
    return arrays
