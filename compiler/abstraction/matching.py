"""Matching tensor programs to intrinsics: tensor iteration -> instruction iteration -> operand address.

An iteration of either nest belongs to a class: the set of operands (output, left, right) whose element it chooses. A
tensor iteration can run on an instruction iteration of the same class only. All tensor iterations that share one
instruction iteration are fused into one number in loop order; what is matched to none runs outside the instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from common.errors import InputError
from compiler.abstraction.intrinsic import Intrinsic
from compiler.mapping.contraction import Access, Contraction, iteration_grid
from compiler.mapping.expression import Expression, Sum, variable

__all__ = ["Matching", "OperandTiles", "is_identity", "match", "matchings"]


@dataclass(frozen=True)
class OperandTiles:
    """How an operand of the tensor program is laid out in tiles of one instruction's operand.

    Attributes:
        operand: name in the tensor program.
        intrinsic_operand: name in the intrinsic.
        outer: tensor iterations that run outside the instruction and choose this operand's element.
        counts: tiles along each of: the outer iterations, then the instruction's dimensions.
        tile: extents of one tile.
        padding: elements of zero padding along each instruction dimension.
        address: flattened address of the tile (elements), in the tensor iterations.
        element: address of the element itself.
    """

    operand: str
    intrinsic_operand: str
    outer: tuple[str, ...]
    counts: tuple[int, ...]
    tile: tuple[int, ...]
    padding: tuple[int, ...]
    address: Expression
    element: Expression

    @property
    def elements(self) -> int:
        """Elements of all tiles, padding included."""
        return math.prod(self.counts) * math.prod(self.tile)


@dataclass(frozen=True)
class Matching:
    """A tensor program on an intrinsic.

    Attributes:
        contraction, intrinsic: what was matched.
        swapped: the program's left operand is the intrinsic's right one, and conversely.
        fused: per instruction iteration, the tensor iterations that share it, outermost first.
    """

    contraction: Contraction
    intrinsic: Intrinsic
    swapped: bool
    fused: Mapping[str, tuple[str, ...]]

    @property
    def outer(self) -> tuple[str, ...]:
        """Tensor iterations that run outside the instruction, in loop order."""
        inside = {name for names in self.fused.values() for name in names}
        return tuple(name for name in self.contraction.extents if name not in inside)

    def index(self, iteration: str) -> Expression:
        """The fused number of an instruction iteration before it is cut into tiles, e.g. n*4 + p*2 + q."""
        total: Expression = Sum(())
        factor = 1
        for name in reversed(self.fused[iteration]):
            # written outermost first, as loops are
            total = variable(name) * factor + total
            factor *= self.contraction.extents[name]
        return total

    def extent(self, iteration: str) -> int:
        """How many fused numbers there are."""
        return math.prod(self.contraction.extents[name] for name in self.fused[iteration])

    def tiles(self, iteration: str) -> int:
        """Instructions along an instruction iteration."""
        return -(-self.extent(iteration) // self.intrinsic.compute.extents[iteration])

    @property
    def instructions(self) -> int:
        """Instructions in all."""
        outside = math.prod(self.contraction.extents[name] for name in self.outer)
        return outside * math.prod(self.tiles(name) for name in self.fused)

    @property
    def utilisation(self) -> float:
        """Useful multiply-accumulates over those that the instructions do, 0 to 1."""
        return self.contraction.macs / (self.instructions * self.intrinsic.compute.macs)

    def operand(self, name: str) -> OperandTiles:
        """Tiles and addresses of an operand of the tensor program. Raises InputError for an unknown name."""
        for access, inner in self.pairs:
            if access.operand == name:
                return self._operand(access, inner)
        raise InputError(f"{self.contraction} has no operand '{name}'")

    @property
    def pairs(self) -> tuple[tuple[Access, Access], ...]:
        """Operands of the tensor program with those of the intrinsic: output, left, right of the program."""
        output, left, right = self.intrinsic.compute.accesses
        if self.swapped:
            left, right = right, left
        return tuple(zip(self.contraction.accesses, (output, left, right), strict=True))

    def _operand(self, access: Access, inner: Access) -> OperandTiles:
        extents = self.intrinsic.compute.extents
        along = [str(index) for index in inner.indices]
        outer = tuple(name for name in self.outer if name in access.variables)
        tile = tuple(extents[name] for name in along)
        counts = (
            *(self.contraction.extents[name] for name in outer),
            *(self.tiles(name) for name in along),
        )
        size = math.prod(tile)
        address: Expression = Sum(())
        element: Expression = Sum(())
        for position, name in enumerate((*outer, *along)):
            step = math.prod(counts[position + 1 :]) * size
            if position < len(outer):
                address = address + variable(name) * step
                continue
            address = address + self.index(name) // extents[name] * step
            below = math.prod(tile[along.index(name) + 1 :])
            element = element + self.index(name) % extents[name] * below
        padding = tuple(self.tiles(name) * extents[name] - self.extent(name) for name in along)
        return OperandTiles(
            access.operand, inner.operand, outer, counts, tile, padding, address, address + element
        )

    def pack(self, operand: str, tensor: np.ndarray) -> np.ndarray:
        """The operand's tiles as one flat array: what the local memory holds, padding and outside elements zero.

        `tensor` is indexed by the program's index expressions; indices below 0 or beyond it count as zero.
        """
        access = next(access for access, _ in self.pairs if access.operand == operand)
        layout = self.operand(operand)
        names = access.variables
        extents = {name: self.contraction.extents[name] for name in names}
        grid = iteration_grid(extents)
        shape = tuple(extents.values())
        indices = [np.broadcast_to(index.evaluate(grid), shape) for index in access.indices]
        inside = np.ones(shape, bool)
        for index, extent in zip(indices, tensor.shape, strict=True):
            inside &= (index >= 0) & (index < extent)
        flat = np.zeros(layout.elements, tensor.dtype)
        element = np.broadcast_to(layout.element.evaluate(grid), shape)
        flat[element[inside]] = tensor[tuple(index[inside] for index in indices)]
        return flat


def match(contraction: Contraction, intrinsic: Intrinsic) -> Matching:
    """The matching of least instructions; among equals the first of `matchings`.

    Raises InputError if the intrinsic has an iteration that this program cannot use at all and may not be left at 1.
    """
    return min(matchings(contraction, intrinsic), key=lambda one: one.instructions)


def matchings(contraction: Contraction, intrinsic: Intrinsic) -> Iterator[Matching]:
    """Every matching: which operand is which, and which iterations of a class share its instruction iteration.

    Yielded with as many iterations inside the instruction as possible first. An instruction iteration to which
    nothing is matched runs once and the rest of its extent is padding. Raises InputError for what is no sum of products.
    """
    if contraction.body != "products" or len(contraction.inputs) != 2:
        raise InputError(f"{contraction} is no sum of products of two operands")
    for swapped in (False, True):
        pools = {name: [] for name in intrinsic.compute.extents}  # type: dict[str, list[str]]
        classes = _classes(intrinsic.compute, swapped)
        for name, kind in _classes(contraction, False).items():
            for iteration, inner in classes.items():
                if kind == inner:
                    pools[iteration].append(name)
        if _ambiguous(pools):
            yield from _spread(contraction, intrinsic, swapped, pools)
            continue
        choices = [_subsets(tuple(pool)) for pool in pools.values()]
        for chosen in itertools.product(*choices):
            yield Matching(contraction, intrinsic, swapped, dict(zip(pools, chosen, strict=True)))


def _classes(contraction: Contraction, swapped: bool) -> dict[str, tuple[bool, bool, bool]]:
    """Per iteration whether output, left and right operand use it."""
    output, left, right = (set(access.variables) for access in contraction.accesses)
    if swapped:
        left, right = right, left
    return {name: (name in output, name in left, name in right) for name in contraction.extents}


def _ambiguous(pools: Mapping[str, list[str]]) -> bool:
    """Some tensor iteration could run on several instruction iterations."""
    names = [name for pool in pools.values() for name in pool]
    return len(names) != len(set(names))


def _spread(
    contraction: Contraction, intrinsic: Intrinsic, swapped: bool, pools: Mapping[str, list[str]]
) -> Iterator[Matching]:
    """Every way to give each tensor iteration to one of the instruction iterations of its class, or to none."""
    names = list(dict.fromkeys(name for pool in pools.values() for name in pool))
    options = [[*(it for it, pool in pools.items() if name in pool), None] for name in names]
    for chosen in itertools.product(*options):
        fused = {
            iteration: tuple(name for name, to in zip(names, chosen, strict=True) if to == iteration)
            for iteration in pools
        }
        yield Matching(contraction, intrinsic, swapped, fused)


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All subsets in order, the largest first."""
    return [subset for count in range(len(names), -1, -1) for subset in itertools.combinations(names, count)]


def is_identity(matching: Matching) -> bool:
    """The program has the intrinsic's own shape: each instruction iteration takes at most one tensor iteration,
    none is left outside, and operands are indexed by single iterations in the intrinsic's order."""
    if matching.outer or any(len(names) > 1 for names in matching.fused.values()):
        return False
    inverse = {names[0]: iteration for iteration, names in matching.fused.items() if names}
    for access, inner in matching.pairs:
        order = [inverse.get(str(index)) for index in access.indices]
        if order != [str(index) for index in inner.indices]:
            return False
    return True
