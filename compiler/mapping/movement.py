"""Words that a tile tree moves between memories: differences of consecutive blocks, summed up over all loops.

A tile keeps a block of a tensor. When loops around it go on, only what the new block has and the old one lacked is
brought (TileFlow's data movement). Blocks are boxes of one size that a loop moves by a fixed step, and when loop i goes
on, all loops inside it start again; so what is new has one closed form for each loop:

    words = |B| + sum over i of (n_i - 1) prod_{j outside i} n_j (|B| - |B and B moved by s_i - sum_{k inside i} (n_k - 1) s_k|)

Rules:

* Blocks reach from the first to the last element in each dimension (elements between windows of a stride included), and
  tiles at the edge count in full: padded work is charged, as in `baco.exploration.cost.reference`.
* What tiles of a `Seq` kept is gone when the next iteration begins.
* Instances along an axis that does not matter to a tensor are served by one read of the level outside; partial sums of
  the same results are added on their way out for nothing.
* A result that others in the tree read is made afresh in every iteration of the tile where they meet; what it needed of
  the level outside for its partial sums counts each time. Other partial sums come back unless it is their first time.
* A tensor goes from the innermost tile that keeps it to the multipliers with every iteration, but for instances that
  share it.

* A softmax that runs online (`baco.compiler.mapping.rows`) makes results of the product that reads it move more often, and two words of
  each row with them.

Where `baco.exploration.cost.reference` differs: it brings the union of the input's windows while the innermost loop that moves
them runs, and everything again when a loop further out goes on, also what the previous window had. Weights and results
agree with it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.rows import STATE, OnlineRows, online_rows
from baco.compiler.mapping.slices import LoopTrip, Placed, place, product
from baco.compiler.mapping.tree import Tile


@dataclass(frozen=True)
class Transfer:
    """What one tensor moves between a tile and the tile around that keeps it, over the whole run; words are elements.

    Attributes:
        tensor: its name.
        bits: of an element.
        outer, inner: levels; inner is -1 for the multipliers.
        operators: inside the inner tile, that touch it.
        down: words read from the outer level.
        up: words written to it.
        own: words that the inner side takes in (of a result: gives out), every instance's own.
    """

    tensor: str
    bits: int
    outer: int
    inner: int
    operators: tuple[str, ...]
    down: Any
    up: Any
    own: Any

    @property
    def words(self) -> Any:
        """Words at the outer side, both ways."""
        return self.down + self.up

    @property
    def bytes(self) -> Any:
        """Bytes at the outer side, both ways."""
        return self.words * self.bits / 8


@dataclass(frozen=True)
class Work:
    """Iterations of an operator.

    Attributes:
        executed: as the tree carries it out; halos are made again.
        distinct: if what a tile shares with the one before it were kept.
    """

    executed: Any
    distinct: Any


def fresh(block: Sequence[Any], loops: Sequence[tuple[Any, Sequence[Any], bool]]) -> Any:
    """Words brought into a block while loops move it, the first block included: the formula above.

    Args:
        block: extents.
        loops: around it, innermost first: how often each runs, its step in every dimension, and whether what was there
            before it went on is still there.
    """
    size = product(block)
    outside: list[Any] = [1]  # how often each loop starts
    for count, _, _ in reversed(loops):
        outside.append(outside[-1] * count)
    total = size
    back = [0 * extent for extent in block]  # what loops further in go back when they start again
    for (count, step, kept), starts in zip(loops, reversed(outside[:-1]), strict=True):
        overlap: Any = 0
        if kept:
            rest = [
                extent - abs(ahead - behind) for extent, ahead, behind in zip(block, step, back, strict=True)
            ]
            overlap = product([one * (one > 0) for one in rest])
        total = total + (count - 1) * starts * (size - overlap)
        back = [behind + (count - 1) * ahead for ahead, behind in zip(step, back, strict=True)]
    return total


def movement(
    tree: Tile, operators: Sequence[Contraction], factors: Sequence[Any] | None = None
) -> list[Transfer]:
    """All transfers of a tree, between tiles and to the multipliers.

    Args and errors as `baco.compiler.mapping.slices.place`; also InputError for a tensor that no tile around all operators
    that touch it keeps, or that nothing of a group's makes available to a reader.
    """
    return [one for _, one in tile_transfers(place(tree, operators, factors))]


def tile_transfers(root: Placed) -> list[tuple[Placed, Transfer]]:
    """All transfers of a tree with the inner tile of each. Raises InputError as `movement` for tensors without a home."""
    operators = root.operators.values()
    made = {operator.output.operand: operator.name for operator in operators}
    found: list[tuple[Placed, Transfer]] = []
    tensors = dict.fromkeys(access.operand for operator in operators for access in operator.accesses)
    for tensor in tensors:
        _check_home(root, tensor)
        for tile in root.all:
            if any(residency.tensor == tensor for residency in tile.tile.keeps):
                outer = next((placed for placed in tile.around if _keeps(placed, tensor)), None)
                if outer is not None:
                    found.append((tile, _transfer(tile, outer, tensor, made.get(tensor))))
            if not tile.children and tile.accesses(tensor):
                found.append((tile, _served(tile, tensor, made.get(tensor))))
    for rows in online_rows(root):
        found += _corrected(rows, found)
    return found


def _corrected(rows: OnlineRows, moved: Sequence[tuple[Placed, Transfer]]) -> list[tuple[Placed, Transfer]]:
    """What an online softmax moves more: results of the product that are corrected and in the end divided, and words of rows: where
    they stay, to the multipliers and back, and wherever results leave that are not complete."""
    output, both = rows.output, rows.around
    names = (rows.softmax.tile.operator, rows.reader.tile.operator)
    keeper = next(placed for placed in both if _keeps(placed, output.operand))
    found = []
    for tensor, words in (
        (output.operand, rows.results * rows.blocks * rows.cut),
        (rows.name, STATE * rows.rows * rows.blocks * rows.cut),
    ):
        transfer = Transfer(tensor, output.bits, keeper.tile.level, -1, names, words, words, words)
        found.append((rows.softmax, transfer))
    for tile, transfer in moved:
        if transfer.tensor == output.operand and any(tile is inner for inner in both):
            # as often as results come back, with all rows of a block of them
            words = transfer.down / product(tile.block(output.operand)) * rows.state_words(tile)
            found.append(
                (
                    tile,
                    Transfer(
                        rows.name, transfer.bits, transfer.outer, transfer.inner, names, words, words, words
                    ),
                )
            )
    return found


def work(
    tree: Tile, operators: Sequence[Contraction], factors: Sequence[Any] | None = None
) -> dict[str, Work]:
    """Iterations of every operator, padding included. Args and errors as `place`."""
    root = place(tree, operators, factors)
    found = {}
    for leaf in (tile for tile in root.all if not tile.children):
        name = leaf.tile.operator
        executed = product(_counts([leaf, *leaf.around], spatial=None))
        output = leaf.operators[name].output
        meeting = _meeting(leaf, output.operand)
        if meeting is None:
            found[name] = Work(executed, executed)
            continue
        branch = _branch(leaf, meeting)
        block = output.slice(branch.extents[name])
        sums = product([branch.extents[name][dim] for dim in leaf.operators[name].reduction])
        apart = [t for one in branch.around for t in one.trips if t.loop.spatial]
        distinct = fresh(block, _loops(branch, output.operand, lost=None)) * product(
            [t.factor for t in apart]
        )
        found[name] = Work(executed, sums * distinct)
    return found


def _keeps(placed: Placed, tensor: str) -> bool:
    return any(one.tensor == tensor for one in placed.tile.keeps)


def _check_home(root: Placed, tensor: str) -> None:
    """Some tile that keeps the tensor holds all operators that touch it."""
    users = {name for name, _ in root.accesses(tensor)}
    if not any(_keeps(tile, tensor) and users <= set(tile.extents) for tile in root.all):
        raise InputError(
            f"no tile keeps {tensor} for all operators that touch it ({', '.join(sorted(users))})",
            hint="name it in the tile where they meet, or further out",
        )


def _meeting(tile: Placed, tensor: str) -> Placed | None:
    """The innermost tile around that also holds those that read the tensor; None if nobody does."""
    root = [tile, *tile.around][-1]
    users = {name for name, _ in root.accesses(tensor)}
    if len(users) == 1:
        return None
    return next(one for one in (tile, *tile.around) if users <= set(one.extents))


def _branch(tile: Placed, around: Placed) -> Placed:
    """The child of `around` that holds `tile`."""
    return next(one for one in (tile, *tile.around) if one.parent is around)


def _counts(tiles: Sequence[Placed], *, spatial: bool | None) -> list[Any]:
    return [t.factor for tile in tiles for t in tile.trips if spatial is None or t.loop.spatial == spatial]


def _loops(tile: Placed, tensor: str, lost: Placed | None) -> list[tuple[Any, list[Any], bool]]:
    """Temporal loops around a tile for `fresh`; from the tile `lost` outward nothing is left of the block before."""
    found, kept = [], True
    for one in tile.around:
        kept &= one is not lost and not (one.tile.relation == "Seq" and len(one.children) > 1)
        for trip in reversed(one.trips):
            if not trip.loop.spatial:
                found.append((trip.factor, tile.step(trip, tensor), kept))
    return found


def _transfer(tile: Placed, outer: Placed, tensor: str, maker: str | None) -> Transfer:
    inner_side = list(tile.around)
    between = inner_side[: inner_side.index(outer) + 1]
    beyond = inner_side[len(between) :]
    apart = [trip for one in between for trip in one.trips if trip.loop.spatial]
    return _moved(tile, tensor, maker, tile.tile.level, outer.tile.level, apart, beyond, once=False)


def _served(leaf: Placed, tensor: str, maker: str | None) -> Transfer:
    """Between the innermost tile that keeps a tensor and the multipliers."""
    keeper = next(placed for placed in (leaf, *leaf.around) if _keeps(placed, tensor))
    chain = [leaf, *leaf.around]
    between, beyond = chain[: chain.index(keeper) + 1], chain[chain.index(keeper) + 1 :]
    apart = [trip for placed in between for trip in placed.trips if trip.loop.spatial]
    return _moved(leaf, tensor, maker, -1, keeper.tile.level, apart, beyond, once=True)


def _moved(
    tile: Placed,
    tensor: str,
    maker: str | None,
    inner: int,
    outer: int,
    apart: Sequence[LoopTrip],
    beyond: Sequence[Placed],
    *,
    once: bool,
) -> Transfer:
    """A transfer; `apart` are spatial loops between the two, `beyond` tiles around the outer one, `once` if a single
    element goes with every iteration instead of the tile's block with its differences."""
    makes = maker is not None and maker in tile.extents
    users = tile.accesses(tensor)
    # a leaf's block is a single element at its multipliers
    meeting = _meeting(tile, tensor) if makes else None
    complete = meeting is not None and meeting in (tile, *_inside(tile))
    lost = meeting if makes and not complete else None
    if once:
        everyone = [tile, *tile.around]
        words = product(_counts(everyone, spatial=False))
        several = _counts(everyone, spatial=True)
    else:
        words = fresh(tile.block(tensor), _loops(tile, tensor, lost))
        several = _counts(list(tile.around), spatial=True)
    own = words * product(several)
    merged = [trip for trip in apart if tile.moved_by(trip, tensor)]
    copies = [trip for outer in beyond for trip in outer.trips if trip.loop.spatial]
    outside = words * product([trip.factor for trip in (*merged, *copies)])
    down, up = outside, 0 * outside
    if makes:
        down, up = up, outside
        if not complete:
            context = [tile, *tile.around][-1] if lost is None else _branch(tile, lost)
            shared = [trip for trip in apart if not any(trip is other for other in merged)]
            rounds = [
                trip.factor
                for outer in context.around
                for trip in outer.trips
                if not any(trip is other for other in shared)
            ]
            # each memory further out has first times of its own
            inside = [outer for outer in beyond if not any(outer is other for other in context.around)]
            rounds += [
                trip.factor
                for outer in inside
                for trip in outer.trips
                if trip.loop.spatial and not tile.moved_by(trip, tensor)
            ]
            first = product(context.operators[str(maker)].output.slice(context.extents[str(maker)]))
            down = outside - first * product(rounds)
    names = tuple(dict.fromkeys(name for name, _ in users))
    return Transfer(tensor, users[0][1].bits, outer, inner, names, down, up, own)


def _inside(tile: Placed) -> list[Placed]:
    return [one for child in tile.children for one in child.all]
