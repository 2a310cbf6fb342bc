"""Tile trees: how a group of operators, or a single one, is tiled on a machine.

A *tile* is a block of iterations whose tensors stay in one memory: its level, what it keeps there and how many copies of
it, its loops, and what it is made of. Its temporal loops run over blocks that its children carry out; its spatial loops
spread blocks over instances of what lies inside. A tile without children is one operator's innermost block. Several
children stand in a *relation* (TileFlow's notation):

* `Seq`: one after the other, each with the memories to itself; what they kept is gone when the next one begins.
* `Shar`: one after the other, memories shared; `Pipe`: at the same time, each working on what the one before made; `Para`:
  at the same time, independent.

A loop of a tile with several operators belongs to those whose results nobody else in the tile reads; what the others
have to make follows from what these read (`baco.compiler.mapping.slices`). The mapping of one operator (`nest.Mapping`) is
the tree with one leaf: `tree_of` and `mapping_of` convert, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from baco.accel.dataflows import dataflow_of
from baco.common.errors import InputError
from baco.compiler.mapping.nest import KEEPS, ROW_DIM, Mapping
from baco.workloads.problem import DIMS

Relation = Literal["Seq", "Shar", "Pipe", "Para"]
#: Names of tensors, dimensions and operators: what the text form can hold.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~/-")


@dataclass(frozen=True)
class Loop:
    """A loop over one dimension; spatial ones run on instances side by side."""

    dim: str
    factor: int
    spatial: bool = False

    def __post_init__(self) -> None:
        _check_name(self.dim, "dimension")
        if self.factor < 1:
            raise InputError(f"the factor of loop {self.dim} must be at least 1, not {self.factor}")


@dataclass(frozen=True)
class Residency:
    """A tensor whose block stays in a tile's memory, and how many copies of it (2: the next is moved meanwhile)."""

    tensor: str
    copies: int = 1

    def __post_init__(self) -> None:
        _check_name(self.tensor, "tensor")
        if self.copies < 1:
            raise InputError(f"tensor {self.tensor} needs at least one copy, not {self.copies}")


@dataclass(frozen=True)
class Tile:
    """One tile and all inside it.

    Attributes:
        level: of the memory, 0 innermost.
        keeps: what stays there.
        loops: outermost first, temporal ones before spatial ones.
        children: in the order in which they run; none for the innermost block of an operator.
        relation: of several children.
        operator: its name, where there are no children and several operators.
        online: of an operator that is a softmax, that its rows may come in blocks (`baco.compiler.mapping.rows`).

    Raises InputError for a tree that means nothing.
    """

    level: int
    keeps: tuple[Residency, ...] = ()
    loops: tuple[Loop, ...] = ()
    children: tuple[Tile, ...] = ()
    relation: Relation = "Seq"
    operator: str = ""
    online: bool = False

    def __post_init__(self) -> None:
        if self.level < 0:
            raise InputError(f"there is no memory level {self.level}")
        if self.relation not in get_args(Relation):
            raise InputError(f"'{self.relation}' is no relation of tiles", hint=", ".join(get_args(Relation)))
        if self.operator:
            _check_name(self.operator, "operator")
        kinds = [loop.spatial for loop in self.loops]
        if kinds != sorted(kinds):
            raise InputError(f"a temporal loop of level {self.level} follows a spatial one")
        if len({(loop.dim, loop.spatial) for loop in self.loops}) < len(self.loops):
            raise InputError(f"level {self.level} loops over a dimension twice")
        tensors = [one.tensor for one in self.keeps]
        if len(set(tensors)) < len(tensors):
            raise InputError(f"level {self.level} keeps a tensor twice")
        if self.children and self.operator:
            raise InputError(f"operator '{self.operator}' is named where tiles inside follow")
        if self.online and not self.operator:
            raise InputError("what runs online is an operator that is named")
        if len(self.children) < 2 and self.relation != "Seq":
            raise InputError(f"{self.relation} needs several tiles")
        for child in self.children:
            if child.level > self.level or (child.level == self.level and any(kinds)):
                raise InputError(
                    f"a tile of level {child.level} cannot lie inside this one of level {self.level}"
                )
        names = [leaf.operator for leaf in self.leaves]
        if len(set(names)) < len(names):
            raise InputError("every operator of a tree needs a name of its own")

    @property
    def tiles(self) -> Iterator[Tile]:
        """This tile and all inside, outer ones first."""
        yield self
        for child in self.children:
            yield from child.tiles

    @property
    def leaves(self) -> list[Tile]:
        """Innermost tiles, one an operator."""
        return [tile for tile in self.tiles if not tile.children]


def _check_name(name: str, what: str) -> None:
    if not name or not set(name) <= _PLAIN:
        raise InputError(f"'{name}' cannot name a {what}", hint="letters, digits and _ . ~ / - only")


def tree_of(mapping: Mapping, groups: int = 1) -> Tile:
    """The tree with one leaf that a mapping is; the groups of its problem, if several, are the outermost loop, G."""
    w, i, o = mapping.buffering
    copies = {(2, "W"): w, (2, "I"): i, (1, "O"): o}
    spatial = {1: (ROW_DIM[mapping.dataflow], mapping.rows), 2: ("K", mapping.columns)}
    inside: tuple[Tile, ...] = ()
    for level, keeps in enumerate(KEEPS[mapping.dataflow]):
        loops = [Loop(name, mapping.factor(name, level)) for name in reversed(mapping.order[level])]
        if level in spatial:
            loops.append(Loop(*spatial[level], spatial=True))
        if level == 3 and groups > 1:
            loops.insert(0, Loop("G", groups))
        kept = tuple(Residency(tensor, copies.get((level, tensor), 1)) for tensor in keeps)
        inside = (Tile(level, kept, tuple(loops), inside),)
    return inside[0]


def mapping_of(tree: Tile) -> Mapping:
    """The mapping that a tree with one leaf is; loops that it leaves out run once, outermost in their level.

    Raises InputError for a tree that is no mapping of this project's array.
    """
    chain = list(tree.tiles)
    kept = tuple("".join(residency.tensor for residency in tile.keeps) for tile in reversed(chain))
    row = next((loop.dim for tile in chain if tile.level == 1 for loop in tile.loops if loop.spatial), None)
    flow = dataflow_of(kept, row)
    if len(tree.leaves) != 1 or [tile.level for tile in chain] != [3, 2, 1, 0] or flow is None:
        raise InputError(
            "this tree is no mapping of one operator",
            hint="four levels, 3 to 0, that keep " + " or ".join(map(str, dict.fromkeys(KEEPS.values()))),
        )
    sizes = {1: 1, 2: 1}
    spread = {1: ROW_DIM[flow], 2: "K"}
    temporal, order = [[1] * len(DIMS) for _ in range(4)], [""] * 4
    copies = {"W": 1, "I": 1, "O": 1}
    for tile in chain:
        names = []
        for place, loop in enumerate(tile.loops):
            if loop.dim == "G" and tile.level == 3 and place == 0:
                continue  # one group after the other
            if loop.dim not in DIMS or (loop.spatial and spread.get(tile.level) != loop.dim):
                raise InputError(f"level {tile.level} of a mapping cannot have the loop {loop}")
            if loop.spatial:
                sizes[tile.level] = loop.factor
            else:
                temporal[tile.level][DIMS.index(loop.dim)] = loop.factor
                names.append(loop.dim)
        present = "".join(reversed(names))
        order[tile.level] = present + "".join(name for name in DIMS if name not in present)
        for residency in tile.keeps:
            if residency.copies > 1 and (tile.level, residency.tensor) not in ((2, "W"), (2, "I"), (1, "O")):
                raise InputError(f"level {tile.level} of a mapping keeps one copy of {residency.tensor}")
            copies[residency.tensor] = max(copies[residency.tensor], residency.copies)
    return Mapping(
        flow,
        sizes[1],
        sizes[2],
        tuple(map(tuple, temporal)),
        (order[0], order[1], order[2], order[3]),
        (copies["W"], copies["I"], copies["O"]),
    )
