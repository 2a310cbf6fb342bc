"""Which block of each tensor a tile of a tree touches, and how that block moves: what all analyses of trees begin with.

In a tile that holds several operators, loops belong to those whose results nobody else in the tile reads. What such an
operator reads of another one's result moves with it, and the other one's iterations with that: a convolution that reads
rows q*s + r of an image makes its producer's tile (T_q - 1)*s + R rows high, which moves by s rows when q does, so that rows
of neighbouring tiles that both need (the halo) are made again, or kept.

Factors are whole numbers, or, given beside the tree as a template, numpy arrays or torch tensors of one broadcastable
shape: one entry for each loop, outer tiles first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.tree import Loop, Tile


@dataclass(eq=False)
class LoopTrip:
    """A loop where it stands: how often it runs, and by how much it moves every operator's iterations."""

    loop: Loop
    factor: Any
    moves: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(eq=False)
class Placed:
    """A tile with what it holds.

    Attributes:
        tile: of the tree.
        parent: the tile around it.
        children: inside.
        extents: by operator, extents of its iterations in one tile, own loops included.
        trips: its loops.
        operators: all of the group.
    """

    tile: Tile
    operators: Mapping[str, Contraction]
    parent: Placed | None = None
    children: list[Placed] = field(default_factory=list)
    extents: dict[str, dict[str, Any]] = field(default_factory=dict)
    trips: list[LoopTrip] = field(default_factory=list)

    @property
    def all(self) -> Iterator[Placed]:
        """This tile and all inside."""
        yield self
        for child in self.children:
            yield from child.all

    @property
    def around(self) -> Iterator[Placed]:
        """Tiles around this one, the nearest first."""
        if self.parent is not None:
            yield self.parent
            yield from self.parent.around

    def accesses(self, tensor: str) -> list[tuple[str, Access]]:
        """Operators inside that touch a tensor, with how."""
        return [
            (name, access)
            for name in self.extents
            for access in self.operators[name].accesses
            if access.operand == tensor
        ]

    def block(self, tensor: str) -> list[Any]:
        """Extents of the tensor's block in this tile; where several operators touch it, of what holds each one's."""
        found = [access.slice(self.extents[name]) for name, access in self.accesses(tensor)]
        if not found:
            raise InputError(
                f"no operator in the tile of level {self.tile.level} that keeps {tensor} touches it"
            )
        return [_largest(sizes) for sizes in zip(*found, strict=True)]

    def step(self, trip: LoopTrip, tensor: str) -> list[Any]:
        """By how much a loop around this tile moves the tensor's block."""
        found = [access.move(trip.moves.get(name, {})) for name, access in self.accesses(tensor)]
        if any(one != found[0] for one in found[1:]):
            raise InputError(
                f"operators that share {tensor} do not move over it together with the loop over {trip.loop.dim}"
            )
        return found[0]

    def moved_by(self, trip: LoopTrip, tensor: str) -> bool:
        """Whether a loop moves the tensor's block at all."""
        return any(
            factor and name in trip.moves.get(operator, {})
            for operator, access in self.accesses(tensor)
            for index in access.coefficients
            for name, factor in index.items()
        )


def place(tree: Tile, operators: Sequence[Contraction], factors: Sequence[Any] | None = None) -> Placed:
    """A tree with the blocks that its tiles hold.

    Args:
        tree: its leaves are the operators.
        operators: the group; a tensor that one makes and others read links them.
        factors: instead of the loops' own, one for each loop of `tree.tiles`. Whether they cover what the operators
            need is then the caller's matter.

    Raises InputError if leaves and operators do not agree, a loop is over a dimension that it cannot run over, or the
    loops do not cover the operators' extents.
    """
    known = {one.name: one for one in operators}
    if sorted(known) != sorted(leaf.operator for leaf in tree.leaves) or len(known) < len(operators):
        raise InputError(
            "the leaves of the tree are not the operators of the group",
            hint=f"operators: {', '.join(known)}; leaves: {', '.join(leaf.operator for leaf in tree.leaves)}",
        )
    numbers = iter(
        [loop.factor for tile in tree.tiles for loop in tile.loops] if factors is None else list(factors)
    )
    root = _place(tree, known, None, numbers, check=factors is None)
    if factors is None:
        for name, extents in root.extents.items():
            for dim, bound in known[name].extents.items():
                if extents[dim] < bound:
                    raise InputError(
                        f"loops over {dim} of operator '{name}' multiply to {extents[dim]}, less than its extent {bound}"
                    )
    return root


def _place(
    tile: Tile,
    operators: Mapping[str, Contraction],
    parent: Placed | None,
    numbers: Iterator[Any],
    *,
    check: bool,
) -> Placed:
    placed = Placed(tile, operators, parent)
    placed.trips = [LoopTrip(loop, next(numbers)) for loop in tile.loops]
    placed.children = [_place(child, operators, placed, numbers, check=check) for child in tile.children]
    for child in placed.children:
        placed.extents |= {name: dict(extents) for name, extents in child.extents.items()}
    if not tile.children:
        placed.extents = {tile.operator: dict.fromkeys(operators[tile.operator].extents, 1)}
    order = _consumers_first(placed)
    if check:
        _check_made(placed, order)
    sinks = [name for name, readers in order if not readers]
    for trip in reversed(placed.trips):
        dim = trip.loop.dim
        if not any(dim in operators[name].extents for name in sinks):
            raise InputError(
                f"a loop over {dim} at level {tile.level} moves none of the operators there",
                hint="a tile's loops run over dimensions of operators whose result no other one in the tile reads: "
                + ", ".join(sinks),
            )
        for name, readers in order:
            extents = placed.extents[name]
            if not readers:
                moves = {dim: extents[dim]} if dim in extents else {}
            else:
                moves = _follow(operators[name], [(operators[one], trip.moves[one]) for one in readers])
            trip.moves[name] = moves
            for moved, by in moves.items():
                extents[moved] = extents[moved] + (trip.factor - 1) * by
    return placed


def _consumers_first(placed: Placed) -> list[tuple[str, list[str]]]:
    """Operators of a tile with those there that read their result, readers before what they read."""
    names = list(placed.extents)
    ops = placed.operators
    readers = {
        name: [
            one
            for one in names
            if one != name and any(i.operand == ops[name].output.operand for i in ops[one].inputs)
        ]
        for name in names
    }
    found: list[tuple[str, list[str]]] = []
    while len(found) < len(names):
        done = {name for name, _ in found}
        ready = [name for name in names if name not in done and set(readers[name]) <= done]
        if not ready:
            raise InputError("operators of a tile read each other's results in a circle")
        found += [(name, readers[name]) for name in ready]
    return found


def _follow(maker: Contraction, readers: Sequence[tuple[Contraction, dict[str, Any]]]) -> dict[str, Any]:
    """How the iterations of an operator move when those that read its result move."""
    tensor = maker.output.operand
    found = [reader.access(tensor).move(moves) for reader, moves in readers]
    used = [
        {dim for dim, index in enumerate(reader.access(tensor).coefficients) if set(index) & set(moves)}
        for reader, moves in readers
    ]
    if any(one != used[0] for one in used[1:]) or any(
        found[0][dim] is not one[dim] and found[0][dim] != one[dim] for one in found[1:] for dim in used[0]
    ):
        raise InputError(f"operators that read {tensor} do not move over it together")
    result = {}
    for dim in sorted(used[0]):
        index = maker.output.coefficients[dim]
        if list(index.values()) != [1]:
            raise InputError(f"{maker.output}: a result that others read is indexed by single iterations")
        result[next(iter(index))] = found[0][dim]
    return result


def _check_made(placed: Placed, order: Sequence[tuple[str, list[str]]]) -> None:
    """Every operator makes as much in a tile as others there read of it."""
    for name, readers in order:
        output = placed.operators[name].output
        made = output.slice(placed.extents[name])
        for reader in readers:
            access = placed.operators[reader].access(output.operand)
            for index, (has, wants) in enumerate(
                zip(made, access.slice(placed.extents[reader]), strict=True)
            ):
                if has < wants:
                    raise InputError(
                        f"operator '{name}' makes {has} of {output.operand} along {output.indices[index]}"
                        f" in a tile of level {placed.tile.level}, '{reader}' reads {wants}"
                    )


def _largest(sizes: Sequence[Any]) -> Any:
    result = sizes[0]
    for size in sizes[1:]:
        result = result + (size - result) * (size > result)
    return result


def larger(one: Any, other: Any) -> Any:
    """The larger number, also of arrays and of numbers that are differentiated."""
    return one + (other - one) * (other > one)


def product(sizes: Sequence[Any]) -> Any:
    """Product of numbers, arrays or tensors; 1 of none."""
    result: Any = 1
    for size in sizes:
        result = result * size
    return result
