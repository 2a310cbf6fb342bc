"""What a tile tree needs of every memory and of the array, and whether a machine has it: the one rule of "does it fit".

A tile holds its copies of the blocks that it keeps (where a softmax runs online, two words of each row beside the results that
are not complete before the last block of rows), beside what its children hold in the same memory: the largest of them
in a `Seq`, all of them together in `Shar`, `Pipe` and `Para`. Blocks are padded to whole rows of their memory along their
last dimension, as the instruction set addresses them. Numbers are those of one instance of a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.common.errors import InfeasibleError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.machine import Level, Machine
from baco.compiler.mapping.rows import OnlineRows, online_rows, row_problems
from baco.compiler.mapping.slices import Placed, larger, place, product
from baco.compiler.mapping.tree import Tile


@dataclass(frozen=True)
class Held:
    """What one instance of a memory holds.

    Attributes:
        words: elements in words of the memory, copies included, unpadded.
        rows: of `Level.row_words` words, every block padded.
        parts: unpadded words by tensor.
    """

    words: Any
    rows: Any
    parts: dict[str, Any]

    def beside(self, other: Held) -> Held:
        """Both at once."""
        names = {**self.parts, **other.parts}
        parts = {name: self.parts.get(name, 0) + other.parts.get(name, 0) for name in names}
        return Held(self.words + other.words, self.rows + other.rows, parts)

    def either(self, other: Held) -> Held:
        """One after the other."""
        names = {**self.parts, **other.parts}
        parts = {name: larger(self.parts.get(name, 0), other.parts.get(name, 0)) for name in names}
        return Held(larger(self.words, other.words), larger(self.rows, other.rows), parts)


def footprint(
    tree: Tile, operators: Sequence[Contraction], machine: Machine, factors: Sequence[Any] | None = None
) -> tuple[Held, ...]:
    """What the tree holds in every level of the machine, innermost first.

    Args and errors as `baco.compiler.mapping.slices.place`; InfeasibleError for a level that the machine does not have.
    """
    root = place(tree, operators, factors)
    for tile in root.all:
        if tile.tile.level >= len(machine.levels):
            raise InfeasibleError(
                f"{machine.name} has no memory level {tile.tile.level}, but levels 0 to {len(machine.levels) - 1}"
            )
    online = online_rows(root)
    return tuple(_held(root, number, level, online) for number, level in enumerate(machine.levels))


def shortfalls(tree: Tile, operators: Sequence[Contraction], machine: Machine) -> list[str]:
    """Why the tree does not run on the machine, a sentence for every reason; none if it does. Raises as `footprint`."""
    reasons = []
    root = place(tree, operators)
    for number, held in enumerate(footprint(tree, operators, machine)):
        level = machine.levels[number]
        if level.words is not None and held.rows * level.row_words > level.words:
            padded = f" ({held.words} unpadded)" if level.row_words > 1 else ""
            reasons.append(
                f"{level.name}: tiles of {', '.join(held.parts)} need {held.rows * level.row_words} words{padded},"
                f" there are {level.words}"
            )
        for tensor, room in (level.parts or {}).items():
            if held.parts.get(tensor, 0) > room:
                reasons.append(f"{level.name}: {tensor} needs {held.parts[tensor]} words, there are {room}")
    for number in range(len(machine.levels)):
        room = product([axis.size for axis in machine.axes if axis.level == number])
        used = max(
            (
                product([t.factor for t in tile.trips if t.loop.spatial])
                for tile in root.all
                if tile.tile.level == number
            ),
            default=1,
        )
        if used > room:
            reasons.append(f"the array has room for {room} at {machine.levels[number].name}, not for {used}")
    for tile in root.all:
        if tile.tile.relation in ("Para", "Pipe") and machine.arrays < len(tile.children):
            reasons.append(
                f"{tile.tile.relation} of {len(tile.children)} operators needs as many arrays, {machine.name} has"
                f" {machine.arrays}"
            )
    impossible, online = row_problems(root)
    reasons += impossible
    if not machine.running_softmax:
        reasons += [f"{machine.name} has code for whole rows only: {name}" for name in online]
    for operator in operators:
        for access in operator.inputs if operator.body == "products" else ():
            if access.data_type not in machine.data_types:
                reasons.append(
                    f"the array multiplies {' and '.join(machine.data_types)}, but {access.operand} is {access.data_type}"
                )
    return reasons


def check_fits(tree: Tile, operators: Sequence[Contraction], machine: Machine) -> None:
    """Raise InfeasibleError with every one of `shortfalls`, if there are any."""
    found = shortfalls(tree, operators, machine)
    if found:
        raise InfeasibleError(
            f"{machine.name} cannot run this tree: " + "; ".join(found),
            hint="smaller tiles or fewer copies, another relation, or a machine that has what is named",
        )


def _held(placed: Placed, number: int, level: Level, online: Sequence[OnlineRows]) -> Held:
    inside = [_held(child, number, level, online) for child in placed.children]
    total = Held(0, 0, {})
    for one in inside:
        total = total.either(one) if placed.tile.relation == "Seq" else total.beside(one)
    if placed.tile.level != number:
        return total
    for kept in placed.tile.keeps:
        block = placed.block(kept.tensor)
        words = level.element_words(placed.accesses(kept.tensor)[0][1])
        along = block[-1] * words if block else words
        across = product(block[:-1])
        used = kept.copies * across * along
        rows = kept.copies * across * -(-along // level.row_words)
        total = total.beside(Held(used, rows, {kept.tensor: used}))
        for rows_of in online:
            if kept.tensor == rows_of.output.operand and any(placed is tile for tile in rows_of.around):
                words = kept.copies * rows_of.state_words(placed) * level.element_words(rows_of.output)
                total = total.beside(Held(words, -(-words // level.row_words), {rows_of.name: words}))
    return total
