"""Random programs of a sketch (Ansor, section 4.2): every open number drawn evenly from its valid values, as tile trees."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, Sum, Variable, as_sum, variable
from baco.compiler.mapping.factors import divisions, divisors
from baco.compiler.mapping.sketches import Part, Sketch
from baco.compiler.mapping.tree import Loop, Tile

__all__ = ["SketchProgram", "random_program"]

#: Behind the name of a tensor: parts of its sums; behind that of a dimension: which part, and inside of one.
_PARTS, _SIDE, _REST = ".parts", ".side", ".rest"


@dataclass(frozen=True)
class SketchProgram:
    """What runs: the tree, what runs one after the other and tiles of each inside, and its operators, each called like the tensor that
    it makes; sums that are split are two of them. Operators that are computed where they are read have no leaf."""

    tree: Tile
    operators: tuple[Contraction, ...]


def random_program(sketch: Sketch, drawn: random.Random) -> SketchProgram:
    """A random program of a sketch."""
    loops: dict[str, list[dict[str, int]]] = {}  # factors of a tiled operator's dimensions, slot by slot
    split: dict[str, int] = {}  # in how many parts a sum is cut
    inside: dict[str, list[tuple[Part, int]]] = {}  # what lies inside so many of a reader's tiles
    for part in sketch.parts:
        if part.split is not None:
            split[part.tensor] = drawn.choice(divisors(part.operator.extents[part.split[0]]).tolist())
        elif part.movable:
            (reader,) = sketch.graph.readers(part.tensor)
            form = sketch.part(reader.output.operand).form
            depth = drawn.randrange(1 + (len(form.slots) if form is not None else 0))
            if depth:
                inside.setdefault(reader.output.operand, []).append((part, depth))
        elif part.form is not None:
            columns = {
                dim: list(drawn.choice(divisions(extent, part.form.parts(dim))))
                for dim, extent in part.operator.extents.items()
            }
            loops[part.tensor] = [{dim: columns[dim].pop(0) for dim in slot.dims} for slot in part.form.slots]
    operators = {part.tensor: _operators(part, split.get(part.tensor, 1)) for part in sketch.parts}
    moved = {part.tensor for parts in inside.values() for part, _ in parts}
    tiles: list[Tile] = []
    for part in sketch.parts:
        if part.inlined or part.behind or part.tensor in moved:
            continue
        if part.form is None:
            tiles += [
                Tile(0, (), _plain_loops(one.extents), operator=one.name) for one in operators[part.tensor]
            ]
        else:
            tiles.append(_nest(sketch, part, loops[part.tensor], inside.get(part.tensor, [])))
    tree = Tile(max(tile.level for tile in tiles) + 1, (), (), tuple(tiles))
    return SketchProgram(tree, tuple(one for ones in operators.values() for one in ones))


def _nest(sketch: Sketch, part: Part, loops: list[dict[str, int]], placed: list[tuple[Part, int]]) -> Tile:
    """A tiled operator, its consumer behind its sums, others inside its tiles."""
    form = part.form
    assert form is not None
    consumer = sketch.part(part.consumer).operator if part.consumer else None
    names: Mapping[str, str] = _same(part.operator, consumer) if consumer is not None else {}

    def block(slots: int) -> dict[str, int]:
        """Iterations inside so many slots."""
        extents = dict.fromkeys(part.operator.extents, 1)
        for factors in loops[slots:]:
            for dim, factor in factors.items():
                extents[dim] *= factor
        return extents

    inside = Tile(0, operator=part.tensor)
    for place in reversed(range(len(form.slots))):
        slot = form.slots[place]
        children = [inside]
        if consumer is not None and place + 1 == form.meeting:
            left = block(form.meeting)
            own = _plain_loops({names[dim]: left[dim] for dim in names})
            children.append(Tile(0, (), own, operator=part.consumer))
        for one, depth in placed:
            if depth == place + 1:
                read = part.operator.access(one.tensor).slice(block(place + 1))
                made = [name for index in one.operator.output.coefficients for name in index]
                own = _plain_loops(dict(zip(made, read, strict=True)))
                children.insert(0, Tile(0, (), own, operator=one.tensor))
        rename = names if consumer is not None and place < form.meeting else {}
        around = tuple(
            Loop(rename.get(dim, dim), factor, slot.spatial)
            for dim, factor in loops[place].items()
            if factor > 1
        )
        inside = Tile(slot.level, (), around, tuple(children), "Shar" if len(children) > 1 else "Seq")
    return inside


def _plain_loops(extents: Mapping[str, int]) -> tuple[Loop, ...]:
    return tuple(Loop(dim, extent) for dim, extent in extents.items() if extent > 1)


def _same(maker: Contraction, reader: Contraction) -> dict[str, str]:
    """For every dimension of a result, the reader's that runs over it."""
    access = reader.access(maker.output.operand)
    return {
        one: other
        for index, read in zip(maker.output.coefficients, access.coefficients, strict=True)
        for one, other in zip(index, read, strict=True)
    }


def _operators(part: Part, parts: int) -> tuple[Contraction, ...]:
    """What a part runs: one operator, or sums in so many parts side by side and their total."""
    one = replace(part.operator, name=part.tensor)
    if part.split is None or parts == 1:
        return (one,)
    dim, runs = part.split
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
