"""Where in a layer the program is: numbers of the loops over blocks and tiles, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.styles.explicit.extents import REDUCTION
from baco.compiler.styles.explicit.plan import GROUP, ExplicitPlan


@dataclass(frozen=True)
class Place:
    """One visit of a tile.

    Attributes:
        blocks: numbers of the loops over blocks by dimension, those that run more than once.
        tiles: numbers of the loops over tiles in the block likewise.
    """

    e: Emitter
    plan: ExplicitPlan
    blocks: Dictionary[str, Number]
    tiles: Dictionary[str, Number]

    @property
    def numbers(self) -> list[Number]:
        """The loops' numbers, those over blocks first, outermost first."""
        return [*self.blocks.values(), *self.tiles.values()]

    @staticmethod
    def of(e: Emitter, plan: ExplicitPlan, numbers: Sequence[Number]) -> Place:
        """The place with the given numbers, in the order of `numbers`; those over tiles may be left out (0)."""
        n = len(plan.blocks)
        rest = numbers[n:] or [0] * len(plan.tiles)
        return Place(
            e,
            plan,
            {trip.name: number for trip, number in zip(plan.blocks, numbers[:n], strict=True)},
            {trip.name: number for trip, number in zip(plan.tiles, rest, strict=True)},
        )

    @property
    def group(self) -> Number:
        """Group of the layer."""
        return self.blocks.get(GROUP, 0)

    def start(self, name: str) -> Number:
        """First element of the block along a dimension."""
        return self.e.mul(self.blocks.get(name, 0), self.plan.block[name])

    def extent(self, name: str) -> Number:
        """Elements of the block along a dimension, clipped at the end of the group."""
        return self._clipped(name, self.plan.block[name], self.start(name), name in self.blocks)

    @property
    def weight_depth(self) -> Number:
        """Channels C of the block that there are weights for; the last group may have fewer inputs."""
        if "C" in self.plan.last:
            return self.plan.block["C"]
        return self.extent("C")

    def inside(self, name: str) -> Number:
        """First element of the tile along a dimension of the results, from the block's first."""
        return self.e.mul(self.tiles.get(name, 0), self.plan.tile[name])

    def tile_start(self, name: str) -> Number:
        """First element of the tile along a dimension of the results."""
        return self.e.add(self.start(name), self.inside(name))

    def tile_extent(self, name: str) -> Number:
        """Elements of the tile along a dimension of the results, clipped."""
        moves = name in self.blocks or name in self.tiles
        return self._clipped(name, self.plan.tile[name], self.tile_start(name), moves)

    def tile_count(self, name: str) -> Number:
        """How often the loop over tiles runs in this block."""
        return self.e.ceil_div(self.extent(name), self.plan.tile[name])

    def _clipped(self, name: str, size: int, start: Number, moves: bool) -> Number:
        bound = self.plan.bounds[name]
        if name in self.plan.last:
            last = self.e.compare("eq", self.group, self.plan.layer.problem.groups - 1)
            return self.e.select(last, self.plan.last[name], bound)
        if not moves or bound % size == 0:
            return size
        return self.e.min(size, self.e.sub(bound, start))

    # ---------------------------------------------------------------- what it means for the results

    def _all(self, names: Sequence[str], *, last: bool) -> Condition:
        """Whether the loops over blocks of these dimensions are all at their first (last) number."""
        holds: Condition = True
        for name in names:
            want = self.plan.steps[name] - 1 if last else 0
            holds = self.e.both(holds, self.e.compare("eq", self.blocks[name], want))
        return holds

    @property
    def opens(self) -> Condition:
        """Whether the tile comes to the accumulator with this visit."""
        return self._all(self.plan.held, last=False)

    @property
    def closes(self) -> Condition:
        """Whether it leaves it with this visit."""
        return self._all(self.plan.held, last=True)

    @property
    def fresh(self) -> Condition:
        """Whether nothing has been summed up in it before."""
        return self._all([name for name in REDUCTION if name in self.blocks], last=False)

    @property
    def final(self) -> Condition:
        """Whether its sums are complete after this visit."""
        return self._all([name for name in REDUCTION if name in self.blocks], last=True)
