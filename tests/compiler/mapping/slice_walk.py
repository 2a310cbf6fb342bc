"""Tile trees carried out iteration by iteration in plain Python, with sets of tensor elements.

Nothing of the analyses is used: loops run, every instance of a tile remembers which elements it holds, and what it lacks
is counted. Blocks are the boxes around what all iterations inside a tile touch.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.tree import Tile

Origins = dict[str, dict[str, int]]
Element = tuple[int, ...]
#: Words or rows of a block.
Cost = Callable[[set[tuple[int, ...]], Access], int]


def names(tile: Tile) -> list[str]:
    return [leaf.operator for leaf in tile.leaves]


def size(tile: Tile, operator: str, dim: str) -> int:
    """Iterations of a dimension in a tile whose loops all belong to the operator."""
    total = 1
    for loop in tile.loops:
        total *= loop.factor if loop.dim == dim else 1
    for child in tile.children:
        if operator in names(child):
            total *= size(child, operator, dim)
    return total


class Walk:
    """Counts by (tensor, outer level, inner level, operators of the inner tile): down, up, own."""

    def __init__(self, tree: Tile, operators: Sequence[Contraction]) -> None:
        self.tree = tree
        self.ops = {operator.name: operator for operator in operators}
        self.maker = {operator.output.operand: operator.name for operator in operators}
        self.counts: dict[tuple[str, int, int, tuple[str, ...]], Counter[str]] = defaultdict(Counter)
        self.executed: Counter[str] = Counter()
        self.distinct: Counter[str] = Counter()
        self.held: dict[object, set[Element]] = {}
        self.made: dict[object, set[Element]] = {}
        self.whole: dict[object, set[Element]] = {}
        self.seen: set[object] = set()
        self.start = {name: dict.fromkeys(operator.extents, 0) for name, operator in self.ops.items()}

    def everything(self) -> Walk:
        """Carry the tree out."""
        self.run(self.tree, self.start, [])
        return self

    def hold(
        self, tile: Tile, origin: Origins, level: int, live: list[int], most: list[int], cost: Cost
    ) -> int:
        """Allocate what a tile and those inside keep in a memory, and free it when its time is over; what is live is
        `live[0]`, the most so far `most[0]`. What the tile itself leaves allocated is returned."""
        own = 0
        if tile.level == level:
            for kept in tile.keeps:
                access = self.touches(tile, kept.tensor)[0][1]
                own += kept.copies * cost(self.box(tile, origin, kept.tensor), access)
        live[0] += own
        most[0] = max(most[0], live[0])
        _, at = next(self.iterations(tile, origin))
        for child in tile.children:
            left = self.hold(child, at, level, live, most, cost)
            if tile.relation == "Seq" and len(tile.children) > 1:
                live[0] -= left
            else:
                own += left
        return own

    def touches(self, tile: Tile, tensor: str) -> list[tuple[str, Access]]:
        return [
            (name, access)
            for name in names(tile)
            for access in self.ops[name].accesses
            if access.operand == tensor
        ]

    def iterations(self, tile: Tile, origin: Origins) -> Iterator[tuple[tuple[int, ...], Origins]]:
        """Numbers of the tile's loops, and where its children then begin."""
        ops = names(tile)
        readers = {
            name: [
                one
                for one in ops
                if one != name
                and any(i.operand == self.ops[name].output.operand for i in self.ops[one].inputs)
            ]
            for name in ops
        }
        for numbers in itertools.product(*(range(loop.factor) for loop in tile.loops)):
            at: Origins = {}
            while len(at) < len(ops):
                for name in ops:
                    if name in at or not set(readers[name]) <= set(at):
                        continue
                    at[name] = dict(origin[name])
                    if not readers[name]:
                        inner = dict.fromkeys(at[name], 1)
                        for child in tile.children:
                            if name in names(child):
                                inner = {d: size(child, name, d) for d in at[name]}
                        for number, loop in reversed(list(zip(numbers, tile.loops, strict=True))):
                            if loop.dim in inner:
                                at[name][loop.dim] += number * inner[loop.dim]
                                inner[loop.dim] *= loop.factor
                        continue
                    output = self.ops[name].output
                    reader = self.ops[readers[name][0]]
                    wanted = next(i for i in reader.inputs if i.operand == output.operand)
                    for own, read in zip(output.indices, wanted.indices, strict=True):
                        at[name][own.variables[0]] = read.evaluate(at[reader.name])
            yield numbers, at

    def box(self, tile: Tile, origin: Origins, tensor: str) -> set[Element]:
        """The block of a tensor: all between the first and the last element touched in the tile."""
        low: list[int] | None = None
        high: list[int] = []
        for name, point in self.points(tile, origin):
            for access in self.ops[name].accesses:
                if access.operand == tensor:
                    element = [index.evaluate(point) for index in access.indices]
                    low = element if low is None else list(map(min, low, element))
                    high = list(map(max, high, element)) if high else element
        assert low is not None
        return set(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))

    def points(self, tile: Tile, origin: Origins) -> Iterator[tuple[str, dict[str, int]]]:
        """First and last iterations of every operator in the tile (boxes need no others)."""
        corners = [
            (numbers, at)
            for numbers, at in self.iterations(tile, origin)
            if all(n in (0, loop.factor - 1) for n, loop in zip(numbers, tile.loops, strict=True))
        ]
        for _, at in corners:
            if not tile.children:
                yield tile.operator, at[tile.operator]
            for child in tile.children:
                yield from self.points(child, at)

    def run(self, tile: Tile, origin: Origins, path: list[tuple[Tile, tuple[int, ...]]]) -> None:
        """One execution of a tile; `path` are the tiles around it with the numbers of their loops."""
        self.enter(tile, origin, path)
        for numbers, at in self.iterations(tile, origin):
            here = [*path, (tile, numbers)]
            instance = self.place(here)
            if len(tile.children) > 1:
                # results that others in this tile read are made afresh, in every iteration
                for name in names(tile):
                    tensor = self.ops[name].output.operand
                    users = {one for one, _ in self.touches(self.tree, tensor)}
                    child = next(c for c in tile.children if name in names(c))
                    if len(users) > 1 and users <= set(names(tile)) and not users <= set(names(child)):
                        self.forget(child, tensor, instance, self.held)
                        self.forget(child, tensor, instance, self.made)
                        block = self.box(child, at, tensor)
                        key = (tensor, id(child), instance)
                        rest = 1
                        for dim in self.ops[name].reduction:
                            points = [p[dim] for one, p in self.points(child, at) if one == name]
                            rest *= max(points) - min(points) + 1
                        self.distinct[name] += rest * len(block - self.whole.get(key, set()))
                        self.whole[key] = block
            for child in tile.children:
                if tile.relation == "Seq":
                    for other in tile.children:
                        if other is not child:
                            for tensor in {a.operand for n in names(other) for a in self.ops[n].accesses}:
                                self.forget(other, tensor, instance, self.held)
                                self.forget(other, tensor, instance, self.whole)
                self.run(child, at, here)
            if not tile.children:
                self.compute(tile, at[tile.operator], here)

    def forget(
        self, tile: Tile, tensor: str, around: tuple[tuple[int, ...], ...], what: dict[object, set[Element]]
    ) -> None:
        inside = {id(one) for one in tile.tiles}
        for key in list(what):
            assert isinstance(key, tuple)
            if key[0] == tensor and key[1] in inside:
                common = min(len(around), len(key[2]))
                if key[2][:common] == around[:common]:
                    del what[key]

    @staticmethod
    def place(path: Sequence[tuple[Tile, tuple[int, ...]]]) -> tuple[tuple[int, ...], ...]:
        """Which instance: numbers of the spatial loops."""
        return tuple(
            tuple(n for n, loop in zip(numbers, tile.loops, strict=True) if loop.spatial)
            for tile, numbers in path
        )

    @staticmethod
    def time(path: Sequence[tuple[Tile, tuple[int, ...]]]) -> object:
        return tuple(
            tuple(n for n, loop in zip(numbers, tile.loops, strict=True) if not loop.spatial)
            for tile, numbers in path
        )

    def enter(self, tile: Tile, origin: Origins, path: list[tuple[Tile, tuple[int, ...]]]) -> None:
        for kept in tile.keeps:
            outer = [n for n, (t, _) in enumerate(path) if kept.tensor in [k.tensor for k in t.keeps]]
            if not outer:
                continue
            block = self.box(tile, origin, kept.tensor)
            key = (kept.tensor, id(tile), self.place(path))
            new = block - self.held.get(key, set())
            self.held[key] = block
            self.count(tile, tile.level, kept.tensor, path, outer[-1], new, frozenset(block))

    def compute(self, leaf: Tile, point: Mapping[str, int], path: list[tuple[Tile, tuple[int, ...]]]) -> None:
        self.executed[leaf.operator] += 1
        for access in self.ops[leaf.operator].accesses:
            element = tuple(index.evaluate(point) for index in access.indices)
            outer = [n for n, (t, _) in enumerate(path) if access.operand in [k.tensor for k in t.keeps]]
            self.count(leaf, -1, access.operand, path, outer[-1], {element}, element)

    def count(
        self,
        tile: Tile,
        inner: int,
        tensor: str,
        path: list[tuple[Tile, tuple[int, ...]]],
        outer: int,
        new: set[Element],
        block: object,
    ) -> None:
        users = tuple(dict.fromkeys(name for name, _ in self.touches(tile, tensor)))
        counter = self.counts[tensor, path[outer][0].level, inner, users]
        counter["own"] += len(new)
        beyond = self.place(path[:outer])
        key = (tensor, id(tile), inner, self.time(path), beyond, block)
        if key in self.seen:
            return  # another instance wants the same at the same time
        self.seen.add(key)
        if self.maker.get(tensor) not in users:
            counter["down"] += len(new)
            return
        counter["up"] += len(new)
        if {name for name, _ in self.touches(self.tree, tensor)} <= set(users) and len(users) > 1:
            return  # complete before it leaves
        made = self.made.setdefault((tensor, id(tile), self.place(path[:outer]), inner), set())
        counter["down"] += len(new & made)
        made |= new
