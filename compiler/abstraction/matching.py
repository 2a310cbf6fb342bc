"""Matching tensor programs to intrinsics: tensor iteration -> instruction iteration -> operand address.

An iteration of either nest belongs to a class: the set of operands (output, left, right) whose element it chooses. A
tensor iteration can run on an instruction iteration of the same class only. All tensor iterations that share one
instruction iteration are fused into one number in loop order; what is matched to none runs outside the instruction.

Source: AMOS (Zheng et al., ISCA 2022). Its matcher finds some of the maps that its own check (Algorithm 4, `accepts`)
accepts; both are offered, see `matchings`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco.common.errors import InputError, did_you_mean
from baco.compiler.abstraction.intrinsic import Intrinsic
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, Sum, as_sum, variable

#: Which maps are found: `full`, all that are valid; `strict`, those of the published matcher.
Counting = Literal["full", "strict"]


@dataclass(frozen=True)
class OperandTiles:
    """How an operand of the tensor program is laid out in tiles of one instruction's operand.

    Attributes:
        operand: name in the tensor program.
        outer: tensor iterations that run outside the instruction and choose this operand's element.
        counts: tiles along each of: the outer iterations, then the instruction's dimensions.
        tile: extents of one tile.
        padding: elements of zero padding along each instruction dimension.
        address: flattened address of the tile (elements), in the tensor iterations.
    """

    operand: str
    outer: tuple[str, ...]
    counts: tuple[int, ...]
    tile: tuple[int, ...]
    padding: tuple[int, ...]
    address: Expression

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
        for position, name in enumerate((*outer, *along)):
            step = math.prod(counts[position + 1 :]) * size
            if position < len(outer):
                address = address + variable(name) * step
            else:
                address = address + self.index(name) // extents[name] * step
        padding = tuple(self.tiles(name) * extents[name] - self.extent(name) for name in along)
        return OperandTiles(access.operand, outer, counts, tile, padding, address)

    def __str__(self) -> str:
        """As `matching_of` reads it."""
        parts = [f"{name}={','.join(names)}" for name, names in self.fused.items() if names]
        return " ".join((*parts, "swapped") if self.swapped else parts)


def match(contraction: Contraction, intrinsic: Intrinsic) -> Matching:
    """The matching of least instructions; among equals the first of `matchings`.

    Raises as `matchings`.
    """
    return min(matchings(contraction, intrinsic), key=lambda one: one.instructions)


def matchings(
    contraction: Contraction,
    intrinsic: Intrinsic,
    *,
    counting: Counting = "full",
    swaps: Sequence[bool] = (False, True),
) -> Iterator[Matching]:
    """Every matching: which operand is which, and which iterations of a class share its instruction iteration.

    Yielded with as many iterations inside the instruction as possible first. Something is matched to every instruction
    iteration of whose class the program has iterations; any other runs once and the rest of its extent is padding.

    Where iterations that are added in an index of the output come to one element several times, only the one with the
    largest factor can be matched: otherwise two places of an instruction's result would be one element.

    Args:
        counting: `strict` leaves out what the published matcher misses. That one matches one iteration to each
            instruction iteration at a time, none of them two that are added in one index (p + r), and fuses what it
            found; so no map is found that has an iteration without such partners.
        swaps: which operand is which: the program's left one as the intrinsic's, or the other way round.

    Raises InputError for what is no sum of products of two operands.
    """
    if contraction.body != "products" or len(contraction.inputs) != 2:
        raise InputError(f"{contraction} is no sum of products of two operands")
    fixed = _overlapping(contraction)
    for swapped in swaps:
        pools: dict[str, list[str]] = {name: [] for name in intrinsic.compute.extents}
        classes = _classes(intrinsic.compute, swapped)
        for name, kind in _classes(contraction, False).items():
            for iteration, inner in classes.items():
                if kind == inner and name not in fixed:
                    pools[iteration].append(name)
        for fused in _spread(pools):
            matching = Matching(contraction, intrinsic, swapped, fused)
            if counting == "full" or _found_by_tuples(matching):
                yield matching


def matching_of(text: str, contraction: Contraction, intrinsic: Intrinsic) -> Matching:
    """The matching that a text like `m=n,p,q n=k k=c,r` describes; `swapped` behind it exchanges the operands.

    Raises InputError for a text of another form, and for a map that is not valid (Algorithm 4).
    """
    hint = f"write it like '{next(iter(matchings(contraction, intrinsic)))}'"
    fused: dict[str, tuple[str, ...]] = dict.fromkeys(intrinsic.compute.extents, ())
    swapped = False
    seen: set[str] = set()
    for part in text.split():
        if part == "swapped":
            swapped = True
            continue
        iteration, equals, names = part.partition("=")
        if not equals or iteration not in fused:
            raise InputError(f"'{part}' is no part of a matching to {intrinsic.name}", hint=hint)
        for name in names.split(","):
            if name not in contraction.extents:
                raise InputError(
                    f"{contraction} has no iteration '{name}'",
                    hint=did_you_mean(name, contraction.extents) or hint,
                )
            if name in seen:
                raise InputError(f"'{name}' is matched twice", hint=hint)
            seen.add(name)
        fused[iteration] = tuple(name for name in contraction.extents if name in names.split(","))
    matching = Matching(contraction, intrinsic, swapped, fused)
    if not accepts(matching) or seen & _overlapping(contraction):
        raise InputError(f"'{text}' is no valid matching of {contraction}", hint=hint)
    return matching


def access_matrix(contraction: Contraction, *, swapped: bool = False) -> np.ndarray:
    """bool [left, right, output; iterations]: which operand's element an iteration chooses."""
    output, left, right = (set(access.variables) for access in contraction.accesses)
    rows = (right, left, output) if swapped else (left, right, output)
    return np.array([[name in row for name in contraction.extents] for row in rows], dtype=bool)


def accepts(matching: Matching) -> bool:
    """The published check (Algorithm 4) on Boolean matrices: with the access matrices X of what is matched and Z of the
    intrinsic and the map Y, both Z * Y = X and X * transposed Y = Z.

    An instruction iteration of whose class the program has no iteration at all is left out of it, as if the program had
    one that runs once.
    """
    extents, fused = matching.contraction.extents, matching.fused
    names = list(extents)
    instruction = list(fused)
    y = np.array([[name in fused[one] for name in names] for one in instruction], dtype=bool)
    x = access_matrix(matching.contraction, swapped=matching.swapped)
    z = access_matrix(matching.intrinsic.compute)
    inside = y.any(axis=0)
    missing = np.array([not (column == x.T).all(axis=1).any() for column in z.T])
    kept = y.any(axis=1) | ~missing
    made = (z[:, kept].astype(int) @ y[kept].astype(int)) > 0
    back = (x.astype(int) @ y[kept].T.astype(int)) > 0
    return bool((made[:, inside] == x[:, inside]).all() and (back == z[:, kept]).all())


def _classes(contraction: Contraction, swapped: bool) -> dict[str, tuple[bool, ...]]:
    """Per iteration whether left, right operand and output use it."""
    columns = access_matrix(contraction, swapped=swapped).T
    return {name: tuple(map(bool, column)) for name, column in zip(contraction.extents, columns, strict=True)}


def _overlapping(contraction: Contraction) -> set[str]:
    """Iterations that are added to one of a larger factor in an index of the output, where both together come to one
    element several times."""
    found = set[str]()
    for index in contraction.output.coefficients:
        names = sorted(index, key=lambda name: abs(index[name]))
        reach = 0
        for place, name in enumerate(names):
            if abs(index[name]) <= reach:
                found |= set(names[:place])
            reach += abs(index[name]) * (contraction.extents[name] - 1)
    return found


def _spread(pools: Mapping[str, list[str]]) -> Iterator[dict[str, tuple[str, ...]]]:
    """Every way to give each tensor iteration to one of the instruction iterations of its class, or to none."""
    names = list(dict.fromkeys(name for pool in pools.values() for name in pool))
    options = [[*(it for it, pool in pools.items() if name in pool), None] for name in names]
    # an instruction iteration that shares its iterations with another one may go without
    needed = [
        it
        for it, pool in pools.items()
        if pool and not any(set(pool) & set(other) for one, other in pools.items() if one != it)
    ]
    for chosen in itertools.product(*options):
        if all(it in chosen for it in needed):
            yield {
                iteration: tuple(name for name, to in zip(names, chosen, strict=True) if to == iteration)
                for iteration in pools
            }


def _found_by_tuples(matching: Matching) -> bool:
    """Whether every matched iteration is in a tuple of one iteration for each instruction iteration, no two of which
    are added in one index of an operand."""
    added = {
        frozenset(pair)
        for access in matching.contraction.accesses
        for index in access.indices
        for pair in itertools.combinations((str(term) for term, _ in as_sum(index).terms), 2)
    }
    axes = [names for names in matching.fused.values() if names]
    covered = {
        name
        for chosen in itertools.product(*axes)
        if not any(frozenset(pair) in added for pair in itertools.combinations(chosen, 2))
        for name in chosen
    }
    return covered == {name for names in axes for name in names}


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
