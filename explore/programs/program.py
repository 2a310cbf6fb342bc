"""Programs: sketches whose open numbers are filled in, as tile trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from baco.common.errors import InputError
from baco.compiler.mapping import nest
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, Sum, Variable, as_sum, variable
from baco.compiler.mapping.tree import Loop, Residency, Tile, mapping_of
from baco.exploration.programs.sketch import Part, Sketch, Slot

__all__ = ["AnnotatedSketch", "Annotation", "array_tree", "factor_products"]

#: Behind the name of a tensor: parts of its sums; behind that of a dimension: which part, and inside of one.
_PARTS, _SIDE, _REST = ".parts", ".side", ".rest"


@dataclass(frozen=True)
class Annotation:
    """What a sketch leaves open of one operator.

    Attributes:
        factors: by slot of its form, a factor of each of the slot's dimensions.
        orders: by slot, its dimensions, the outermost first.
        copies: of the tiles of W, I and O, on the array.
        depth: so many tiles of its reader's lie around it; 0: it runs before them.
        parts: in which a split sum is cut.
    """

    factors: tuple[tuple[int, ...], ...] = ()
    orders: tuple[tuple[str, ...], ...] = ()
    copies: tuple[int, int, int] = (2, 2, 2)
    depth: int = 0
    parts: int = 1


@dataclass(frozen=True)
class AnnotatedSketch:
    """A sketch with an annotation for each of its parts."""

    sketch: Sketch
    annotations: tuple[Annotation, ...]

    def __hash__(self) -> int:
        return hash((self.sketch.title, self.annotations))

    def annotation(self, tensor: str) -> Annotation:
        """Of the part that makes a tensor."""
        return next(
            one
            for part, one in zip(self.sketch.parts, self.annotations, strict=True)
            if part.tensor == tensor
        )

    @property
    def operators(self) -> tuple[Contraction, ...]:
        """What runs, each operator called like the tensor that it makes: sums that are split are two of them."""
        return tuple(
            one
            for part, annotation in zip(self.sketch.parts, self.annotations, strict=True)
            for one in _operators(part, annotation)
        )

    def mapping(self, tensor: str) -> nest.Mapping:
        """How the array computes a tensor. Raises InputError where another machine does."""
        part = self.sketch.part(tensor)
        if part.form is None or part.form.flow is None:
            raise InputError(f"no array computes '{tensor}' in this sketch: {self.sketch}")
        return mapping_of(array_tree(part, self.annotation(tensor)))

    @property
    def tree(self) -> Tile:
        """The whole program: what runs one after the other, tiles of each inside. Operators that are computed where they are
        read have no leaf."""
        placed: dict[str, list[Part]] = {}
        for part in self.sketch.parts:
            if part.movable and self.annotation(part.tensor).depth:
                (reader,) = self.sketch.graph.readers(part.tensor)
                placed.setdefault(reader.output.operand, []).append(part)
        moved = {part.tensor for parts in placed.values() for part in parts}
        tiles: list[Tile] = []
        for part in self.sketch.parts:
            if part.inlined or part.behind or part.tensor in moved:
                continue
            if part.form is None:
                tiles += [_whole(one) for one in _operators(part, self.annotation(part.tensor))]
            else:
                tiles.append(self._nest(part, placed.get(part.tensor, [])))
        level = max(tile.level for tile in tiles) + 1
        return Tile(level, (), (), tuple(tiles))

    def _nest(self, part: Part, placed: list[Part]) -> Tile:
        form, annotation = part.form, self.annotation(part.tensor)
        assert form is not None
        consumer = self.sketch.part(part.consumer).operator if part.consumer else None
        names: Mapping[str, str] = _same(part.operator, consumer) if consumer is not None else {}

        def block(slots: int) -> dict[str, int]:
            """Iterations inside so many slots."""
            extents = dict.fromkeys(part.operator.extents, 1)
            for slot, factors in zip(form.slots[slots:], annotation.factors[slots:], strict=True):
                for dim, factor in zip(slot.dims, factors, strict=True):
                    extents[dim] *= factor
            return extents

        inside = Tile(0, operator=part.tensor)
        for place in reversed(range(len(form.slots))):
            slot = form.slots[place]
            children = [inside]
            if consumer is not None and place + 1 == form.meeting:
                left = block(form.meeting)
                children.append(
                    Tile(
                        0, (), _plain_loops({names[dim]: left[dim] for dim in names}), operator=part.consumer
                    )
                )
            for one in placed:
                if self.annotation(one.tensor).depth == place + 1:
                    read = part.operator.access(one.tensor).slice(block(place + 1))
                    made = [name for index in one.operator.output.coefficients for name in index]
                    loops = _plain_loops(dict(zip(made, read, strict=True)))
                    children.insert(0, Tile(0, (), loops, operator=one.tensor))
            rename = names if consumer is not None and place < form.meeting else {}
            loops = _slot_loops(slot, annotation.factors[place], annotation.orders[place], rename)
            inside = Tile(slot.level, (), loops, tuple(children), "Shar" if len(children) > 1 else "Seq")
        return inside


def array_tree(part: Part, annotation: Annotation) -> Tile:
    """The tile tree of an operator on the array, in the array's words: W, I, O. A consumer runs on the sums' way out of the
    accumulator and has no tile of its own."""
    form = part.form
    assert form is not None
    assert form.flow is not None
    kept = nest.KEEPS[form.flow]
    copies = dict(zip(((2, "W"), (2, "I"), (1, "O")), annotation.copies, strict=True))
    inside: tuple[Tile, ...] = ()
    for level in range(4):
        loops: list[Loop] = []
        if level == 3 and "G" in part.operator.extents:
            loops.append(Loop("G", part.operator.extents["G"]))
        for slot, factors, order in zip(form.slots, annotation.factors, annotation.orders, strict=True):
            if slot.level == level:
                loops += _slot_loops(slot, factors, order, {})
        keeps = tuple(Residency(tensor, copies.get((level, tensor), 1)) for tensor in kept[level])
        inside = (Tile(level, keeps, tuple(loops), inside),)
    return inside[0]


def _slot_loops(
    slot: Slot, factors: tuple[int, ...], order: tuple[str, ...], names: Mapping[str, str]
) -> tuple[Loop, ...]:
    """Its loops but those that run once; spread ones stand even then."""
    factor = dict(zip(slot.dims, factors, strict=True))
    spatial = slot.lanes is not None
    return tuple(
        Loop(names.get(dim, dim), factor[dim], spatial) for dim in order if factor[dim] > 1 or slot.lanes
    )


def _plain_loops(extents: Mapping[str, int]) -> tuple[Loop, ...]:
    return tuple(Loop(dim, extent) for dim, extent in extents.items() if extent > 1)


def _whole(operator: Contraction) -> Tile:
    return Tile(0, (), _plain_loops(operator.extents), operator=operator.name)


def _same(maker: Contraction, reader: Contraction) -> dict[str, str]:
    """For every dimension of a result, the reader's that runs over it."""
    access = reader.access(maker.output.operand)
    return {
        one: other
        for index, read in zip(maker.output.coefficients, access.coefficients, strict=True)
        for one, other in zip(index, read, strict=True)
    }


def _operators(part: Part, annotation: Annotation) -> tuple[Contraction, ...]:
    one = replace(part.operator, name=part.tensor)
    if part.split is None or annotation.parts == 1:
        return (one,)
    (dim, runs), parts = part.split, annotation.parts
    if one.extents[dim] % parts:
        raise InputError(f"{one.extents[dim]} iterations of '{dim}' are no {parts} equal parts")
    side, rest = dim + _SIDE, dim + _REST
    size = one.extents[dim] // parts
    new = variable(side) * size + variable(rest) if runs else variable(rest) * parts + variable(side)
    extents = {side: parts} | {name: extent for name, extent in one.extents.items() if name != dim}
    name = part.tensor + _PARTS
    made = Contraction(
        {**extents, rest: size},
        Access(name, (variable(side), *one.output.indices), one.output.data_type),
        tuple(replace(a, indices=tuple(_with(i, dim, new) for i in a.indices)) for a in one.inputs),
        one.body,
        name,
    )
    kept = {name: extent for name, extent in one.extents.items() if name in one.output.variables}
    total = Contraction({side: parts, **kept}, one.output, (made.output,), "sum", part.tensor)
    return made, total


def _with(index: Expression, dim: str, new: Expression) -> Expression:
    """An index with another expression in an iteration's place."""
    total: Expression = Sum((), as_sum(index).constant)
    for term, factor in as_sum(index).terms:
        total = total + (new if term == Variable(dim) else term) * factor
    return total


def factor_products(part: Part, annotation: Annotation) -> dict[str, int]:
    """For every dimension the product of its factors: what all mutants of a program have in common."""
    products = dict.fromkeys(part.operator.extents, 1)
    assert part.form is not None
    for slot, factors in zip(part.form.slots, annotation.factors, strict=True):
        for dim, factor in zip(slot.dims, factors, strict=True):
            products[dim] = math.prod((products[dim], factor))
    return products
