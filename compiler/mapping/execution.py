"""What a tile tree computes, carried out loop by loop in numpy integers: slow, and independent of all analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.contraction_text import tensor_shapes
from baco.compiler.mapping.tree import Loop, Tile

__all__ = ["execute_tree"]

#: First and one behind the last of each iteration.
_Block: TypeAlias = dict[str, tuple[int, int]]
#: What a function of single elements makes of its inputs, in their order.
_Function: TypeAlias = Callable[..., np.ndarray]
_BODIES = ("products", "sum", "pointwise")


def execute_tree(
    tree: Tile,
    operators: Sequence[Contraction],
    tensors: Mapping[str, np.ndarray],
    functions: Mapping[str, _Function] | None = None,
) -> dict[str, np.ndarray]:
    """All tensors that a tree makes, int64.

    Blocks are cut as its loops say: a loop of a tile belongs to the operators whose results nobody else in the tile reads;
    others make what these read of them, anew for every block. Elements outside a stored tensor are zero.

    Args:
        operators: those with a leaf of their name, and others, which are computed wherever they are read.
        tensors: that nobody makes.
        functions: of operators that work on single elements, by name; the others hand on their first input.

    Raises InputError for a leaf that is no operator, and for operators that are no sums and no functions of elements.
    """
    return _Run(operators, tensors, functions or {}, {leaf.operator for leaf in tree.leaves}).of(tree)


class _Run:
    def __init__(
        self,
        operators: Sequence[Contraction],
        tensors: Mapping[str, np.ndarray],
        functions: Mapping[str, _Function],
        leaves: set[str],
    ) -> None:
        self.operators = {one.name: one for one in operators}
        self.functions = functions
        for name in leaves - set(self.operators):
            raise InputError(f"the tree computes '{name}', which is no operator")
        for one in operators:
            if one.body not in _BODIES:
                raise InputError(f"{one} is no sum and no function of elements")
        self.values = {name: np.asarray(array).astype(np.int64) for name, array in tensors.items()}
        self.inlined = {one.output.operand: one for one in operators if one.name not in leaves}
        for one in operators:
            if one.name in leaves:
                shape = tensor_shapes(one)[one.output.operand]
                self.values[one.output.operand] = np.zeros(shape, np.int64)

    def of(self, tree: Tile) -> dict[str, np.ndarray]:
        """Everything that is stored in the end."""
        whole = {
            leaf.operator: {dim: (0, n) for dim, n in self.operators[leaf.operator].extents.items()}
            for leaf in tree.leaves
        }
        self.tile(tree, whole)
        return self.values

    def tile(self, tile: Tile, blocks: Mapping[str, _Block]) -> None:
        """A tile over blocks of its operators' iterations."""
        if not tile.children:
            # one block, whatever its loops
            self.compute(self.operators[tile.operator], blocks[tile.operator])
            return
        owners = self.owners(tile)
        for owned in _steps({name: blocks[name] for name in owners}, tile.loops):
            inner = {**blocks, **owned}
            if len(tile.children) > 1:
                self.follow(tile, owners, inner)
            for child in tile.children:
                self.tile(child, inner)

    def owners(self, tile: Tile) -> list[str]:
        """Operators whose results nobody else in a tile reads."""
        inside = [leaf.operator for leaf in tile.leaves]
        read = {access.operand for name in inside for access in self.operators[name].inputs}
        return [name for name in inside if self.operators[name].output.operand not in read]

    def follow(self, tile: Tile, owners: Sequence[str], blocks: dict[str, _Block]) -> None:
        """Give every operator but the owners the block that its readers need, and let it begin anew."""
        inside = [leaf.operator for leaf in tile.leaves]
        for name in reversed(inside):
            if name in owners:
                continue
            one = self.operators[name]
            needed: list[tuple[int, int]] = []
            for reader in inside:
                for access in self.operators[reader].inputs:
                    if access.operand == one.output.operand:
                        needed = _joined(needed, _reach(access, blocks[reader]))
            block = {dim: (0, extent) for dim, extent in one.extents.items()}
            for index, (low, high) in zip(one.output.coefficients, needed, strict=True):
                (dim,) = index  # an index of a result that is read inside a tile is one iteration
                block[dim] = (max(low, 0), min(high, one.extents[dim]))
            blocks[name] = block
            if one.body != "pointwise":
                place = tuple(slice(*block[dim]) for index in one.output.coefficients for dim in index)
                self.values[one.output.operand][place] = 0

    def compute(self, one: Contraction, block: _Block) -> None:
        """A block of an operator."""
        sizes = [max(0, high - low) for low, high in block.values()]
        if 0 in sizes:
            return
        grids = np.meshgrid(*(np.arange(*ends) for ends in block.values()), indexing="ij", sparse=True)
        at = dict(zip(block, grids, strict=True))
        elements = [self.read(access, at) for access in one.inputs]
        place = tuple(np.broadcast_to(index.evaluate(at), sizes) for index in one.output.indices)
        if one.body == "pointwise":
            function: _Function = self.functions.get(one.name, _first)
            made = function(*elements)
            self.values[one.output.operand][place] = np.broadcast_to(made, sizes)
            return
        total = elements[0]
        for factor in elements[1:]:
            total = total * factor
        np.add.at(self.values[one.output.operand], place, np.broadcast_to(total, sizes))

    def read(self, access: Access, at: Mapping[str, np.ndarray]) -> np.ndarray:
        """Elements of a tensor; of one that is computed where it is read, made here."""
        places = [np.asarray(index.evaluate(at)) for index in access.indices]
        maker = self.inlined.get(access.operand)
        if maker is not None:
            named = [name for index in maker.output.coefficients for name in index]
            inside = dict(zip(named, places, strict=True))
            elements = [self.read(one, inside) for one in maker.inputs]
            shape: tuple[int, ...] = tuple(maker.extents[name] for name in named)
            function: _Function = self.functions.get(maker.name, _first)
            value = function(*elements)
        else:
            stored = self.values[access.operand]
            shape = stored.shape
            clipped = [np.clip(place, 0, extent - 1) for place, extent in zip(places, shape, strict=True)]
            value = stored[tuple(clipped)]
        within: np.ndarray = np.ones((), bool)
        for place, extent in zip(places, shape, strict=True):
            within = within & (place >= 0) & (place < extent)
        return np.where(within, value, 0)


def _first(first: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return first


def _steps(blocks: dict[str, _Block], loops: Sequence[Loop]) -> Iterator[dict[str, _Block]]:
    """The blocks that loops cut, one after the other, each operator's own; a loop cuts into equal parts, the last one less."""
    if not loops:
        yield blocks
        return
    loop, rest = loops[0], loops[1:]
    parts = {
        name: [_part(block, loop, n) for n in range(loop.factor)] if loop.dim in block else []
        for name, block in blocks.items()
    }
    for n in range(loop.factor):
        yield from _steps({name: parts[name][n] if parts[name] else blocks[name] for name in blocks}, rest)


def _part(block: _Block, loop: Loop, number: int) -> _Block:
    low, high = block[loop.dim]
    step = -(-(high - low) // loop.factor)
    begin = min(low + number * step, high)
    return {**block, loop.dim: (begin, min(begin + step, high))}


def _reach(access: Access, block: _Block) -> list[tuple[int, int]]:
    """First and one behind the last index in each dimension that a block touches."""
    first = {dim: np.asarray(low) for dim, (low, _) in block.items()}
    found = []
    for index, factors in zip(access.indices, access.coefficients, strict=True):
        low = high = int(index.evaluate(first))
        for dim, factor in factors.items():
            step = factor * (block[dim][1] - block[dim][0] - 1)
            low, high = low + min(step, 0), high + max(step, 0)
        found.append((low, high + 1))
    return found


def _joined(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not one:
        return other
    return [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True)]
