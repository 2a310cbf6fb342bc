"""Structures of tile trees for chains of operators: which operators meet, where and how; tile sizes are left open.

Source: TileFlow's encoding (memory level at which an operator is fused, into which one, and the relation). Each operator reads what
the one before makes. Those that meet on chip are a *group*: loops over their common iterations, which are those of the last one, lie
around them at the levels further out, spread over instances of the memories inside where these are several.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.factors import divisors
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.slices import product
from baco.compiler.mapping.tree import Loop, Relation, Residency, Tile

#: How operators of a group that run on one chip may be related: `Para` is for such as do not read each other's results.
_RELATIONS: tuple[Relation, ...] = ("Shar", "Pipe")


@dataclass(frozen=True)
class Gene:
    """How an operator joins the one before.

    Attributes:
        level: of the memory through which it gets that one's results; main memory: they are no group.
        relation: to that one, in a group.
        innermost: the dimension whose loop is innermost around a group that ends here.
        online: of a softmax that the next operator of its group reads: its rows may come in blocks (`baco.compiler.mapping.rows`).
    """

    level: int
    relation: Relation
    innermost: str
    online: bool = False


@dataclass(frozen=True)
class Choice:
    """An open tile size: a loop of a group at a level.

    Attributes:
        group, dim, level, spatial: which.
        owner: the operator whose loop it is: the last of the group, or one that has levels of its own below its meeting.
    """

    group: int
    owner: int
    dim: str
    level: int
    spatial: bool


@dataclass(frozen=True)
class TreeStructure:
    """Trees that differ in their tile sizes alone.

    Attributes:
        operators: a chain.
        genes: one for each operator; of the first of a group only `innermost` counts.
        fixed: dimensions that no loop around a group cuts.
    """

    operators: tuple[Contraction, ...]
    machine: Machine
    genes: tuple[Gene, ...]
    fixed: frozenset[str] = frozenset()

    @property
    def top(self) -> int:
        """Level of main memory."""
        return len(self.machine.levels) - 1

    @property
    def groups(self) -> list[range]:
        """Operators of each group."""
        cuts = [n for n, gene in enumerate(self.genes) if n == 0 or gene.level >= self.top]
        return [range(a, b) for a, b in itertools.pairwise([*cuts, len(self.operators)])]

    @property
    def canonical(self) -> TreeStructure:
        """The same structure, genes that do not count set to the first possibility, those of a group to one."""
        genes = list(self.genes)
        for group in self.groups:
            meeting = self.meeting(group)
            for n in group:
                gene = genes[n]
                if n > group[0]:
                    gene = replace(gene, level=meeting, relation=genes[group[1]].relation)
                else:
                    gene = replace(gene, level=self.top, relation=_RELATIONS[0])
                if n < group[-1]:
                    gene = replace(gene, innermost=next(iter(self.operators[n].extents)))
                else:
                    gene = replace(gene, online=False)
                genes[n] = gene
        return replace(self, genes=tuple(genes))

    def meeting(self, group: range) -> int:
        """Level of the memory that a group's operators share; of a single one, the innermost on chip."""
        return max((self.genes[n].level for n in group[1:]), default=1)

    def whole(self, group: range) -> set[str]:
        """Dimensions of the last operator of a group that no loop around it cuts: those given, and rows of a softmax that does
        not run online."""
        found = set(self.fixed)
        for n in group if len(group) > 1 else ():
            row = set(self.operators[n].output.indices[-1].variables)
            if self.operators[n].body != "softmax" or self.genes[n].online:
                continue
            for reader in group[n - group[0] + 1 :]:
                access = self.operators[reader].access(self.operators[reader - 1].output.operand)
                made = self.operators[reader - 1].output
                along = zip(made.indices, access.indices, strict=True)
                row = {name for index, read in along if row & set(index.variables) for name in read.variables}
            found |= row
        return found

    def choices(self) -> list[Choice]:
        """Open sizes, those further out first."""
        choices = []
        for number, group in enumerate(self.groups):
            last, meeting = group[-1], self.meeting(group)
            whole = self.whole(group)
            for level in range(self.top, meeting, -1):
                dims = [dim for dim in self.operators[last].extents if dim not in whole]
                choices += [Choice(number, last, dim, level, True) for dim in dims if self.room(level) > 1]
                choices += [Choice(number, last, dim, level, False) for dim in dims]
            for owner in group:
                for level in range(meeting, 1, -1):
                    dims = list(self.operators[owner].extents)
                    choices += [
                        Choice(number, owner, dim, level, True) for dim in dims if self.room(level) > 1
                    ]
                    choices += [Choice(number, owner, dim, level, False) for dim in dims]
        return choices

    def room(self, level: int) -> int:
        """Instances of the memory inside a level, side by side."""
        return int(product([axis.size for axis in self.machine.axes if axis.level == level]))

    def options(self, choice: Choice, made: Mapping[Choice, int]) -> list[int]:
        """Sizes that a choice may still have: divisors of what is left of the dimension, and instances that there are."""
        group = self.groups[choice.group]
        meeting, last = self.meeting(group), group[-1]
        around = choice.level > meeting
        left = (
            self.operators[last].extents[choice.dim]
            if around
            else self._blocks(group, made)[choice.owner][choice.dim]
        )
        owner = None if around else choice.owner
        taken = self._taken(made, choice.group, choice.dim, meeting, owner)
        sizes: list[int] = divisors(left // taken).tolist()
        if choice.spatial:
            used = product(
                [
                    f
                    for other, f in made.items()
                    if other.spatial
                    and (other.group, other.level) == (choice.group, choice.level)
                    and (other.level > meeting or other.owner == choice.owner)
                ]
            )
            sizes = [size for size in sizes if size * used <= self.room(choice.level)]
        return sizes

    @staticmethod
    def _taken(made: Mapping[Choice, Any], group: int, dim: str, meeting: int, owner: int | None) -> Any:
        """The product of a dimension's factors around a group (owner None), or of those that an operator has of its own."""
        return product(
            [
                f
                for one, f in made.items()
                if (one.group, one.dim) == (group, dim)
                and (one.level > meeting if owner is None else one.level <= meeting and one.owner == owner)
            ]
        )

    def _blocks(self, group: range, made: Mapping[Choice, Any]) -> dict[int, dict[str, Any]]:
        """Iterations of every operator of a group between two loops around it."""
        number, meeting = self.groups.index(group), self.meeting(group)
        last = self.operators[group[-1]]
        blocks = {
            group[-1]: {
                dim: _over(extent, self._taken(made, number, dim, meeting, None))
                for dim, extent in last.extents.items()
            }
        }
        for n in reversed(group[:-1]):
            maker, reader = self.operators[n], self.operators[n + 1]
            sizes = reader.access(maker.output.operand).slice(blocks[n + 1])
            needed: dict[str, Any] = dict(maker.extents)
            for index, size in zip(maker.output.coefficients, sizes, strict=True):
                (name,) = index
                needed[name] = _smaller(size, needed[name])
            blocks[n] = needed
        return blocks

    def tree(self, made: Mapping[Choice, int]) -> Tile:
        """The tree of all sizes."""
        return self._tree(
            made, lambda dim, factor, spatial: Loop(dim, factor, spatial) if factor > 1 else None
        )

    def relaxed(self, made: Mapping[Choice, Any]) -> tuple[Tile, list[Any]]:
        """A tree with every loop that any sizes make, and their factors where sizes are arrays or tensors, and no whole numbers;
        for analyses that take factors beside a tree."""
        known: list[Any] = []

        def loop(dim: str, factor: Any, spatial: bool) -> Loop:
            known.append(factor)
            return Loop(dim, len(known), spatial)  # which of them it is

        tree = self._tree(made, loop)
        return tree, [known[one.factor - 1] for tile in tree.tiles for one in tile.loops]

    def _tree(self, made: Mapping[Choice, Any], loop: _MakeLoop) -> Tile:
        parts = [self._group(number, group, made, loop) for number, group in enumerate(self.groups)]
        everything = tuple(dict.fromkeys(access.operand for one in self.operators for access in one.accesses))
        inner = {self.operators[n].output.operand for group in self.groups for n in group[:-1]}
        kept = tuple(Residency(tensor) for tensor in everything if tensor not in inner)
        if len(parts) == 1:
            return Tile(self.top, kept, parts[0].loops, parts[0].children)
        return Tile(self.top, kept, (), tuple(parts), "Seq")

    def _group(self, number: int, group: range, made: Mapping[Choice, Any], loop: _MakeLoop) -> Tile:
        meeting, last = self.meeting(group), self.operators[group[-1]]
        blocks = self._blocks(group, made)
        tensors = tuple(dict.fromkeys(a.operand for n in group for a in self.operators[n].accesses))
        children = tuple(self._operator(number, n, meeting, blocks[n], made, loop) for n in group)
        if len(group) == 1:
            inside = Tile(meeting, tuple(map(Residency, tensors)), children[0].loops, children[0].children)
        else:
            relation = self.genes[group[1]].relation
            inside = Tile(meeting, tuple(map(Residency, tensors)), (), children, relation)
        innermost = self.genes[group[-1]].innermost
        dims = sorted(last.extents, key=lambda dim: dim == innermost)
        outside = {a.operand for n in group for a in self.operators[n].accesses} - {
            self.operators[n].output.operand for n in group[:-1]
        }
        for level in range(meeting + 1, self.top + 1):
            loops = self._loops(number, group[-1], dims, level, made, loop)
            keeps = (
                tuple(Residency(tensor) for tensor in tensors if tensor in outside)
                if level < self.top
                else ()
            )
            inside = Tile(level, keeps, loops, (inside,))
        return inside

    def _loops(
        self,
        number: int,
        owner: int,
        dims: Sequence[str],
        level: int,
        made: Mapping[Choice, Any],
        loop: _MakeLoop,
    ) -> tuple[Loop, ...]:
        chosen = [Choice(number, owner, dim, level, spatial) for spatial in (False, True) for dim in dims]
        found = [loop(choice.dim, made[choice], choice.spatial) for choice in chosen if choice in made]
        return tuple(kept for kept in found if kept is not None)

    def _operator(
        self,
        number: int,
        n: int,
        meeting: int,
        block: Mapping[str, Any],
        made: Mapping[Choice, Any],
        loop: _MakeLoop,
    ) -> Tile:
        """An operator's own tiles: its levels below the meeting, its results spread over the array's rows and columns."""
        operator = self.operators[n]
        left = {
            dim: _over(extent, self._taken(made, number, dim, meeting, n)) for dim, extent in block.items()
        }
        sizes = [axis.size for axis in self.machine.axes if axis.level == 1]
        outputs = [name for index in operator.output.coefficients for name in index]
        spread = {
            dim: _smaller(left[dim], size)
            for dim, size in zip(reversed(outputs), sizes, strict=False)
            if not (isinstance(left[dim], int) and left[dim] == 1)
        }

        def all_of(*loops: Loop | None) -> tuple[Loop, ...]:
            return tuple(loop for loop in loops if loop is not None)

        spatial = all_of(*(loop(dim, size, True) for dim, size in spread.items()))
        temporal = all_of(
            *(loop(dim, _times(extent, spread.get(dim, 1)), False) for dim, extent in left.items())
        )
        sums = set(operator.reduction)
        own = tuple(Residency(access.operand) for access in operator.accesses)
        # results stay in the array while they are summed up
        core = Tile(
            0,
            (Residency(operator.output.operand),),
            tuple(loop for loop in temporal if loop.dim in sums),
            operator=operator.name,
            online=self.genes[n].online,
        )
        outer = tuple(loop for loop in temporal if loop.dim not in sums)
        inside = Tile(1, own if meeting > 1 else (), (*outer, *spatial), (core,))
        for level in range(2, meeting + 1):
            loops = self._loops(number, n, list(operator.extents), level, made, loop)
            inside = Tile(level, own if level < meeting else (), loops, (inside,))
        return inside


#: Makes a loop of a dimension, a factor and whether it is spatial, or none.
_MakeLoop: TypeAlias = "Callable[[str, Any, bool], Loop | None]"


def _over(extent: Any, by: Any) -> Any:
    """What is left of an extent."""
    return extent // by if isinstance(extent, int) and isinstance(by, int) else extent / by


def _times(extent: Any, by: Any) -> Any:
    """How often a loop over an extent runs in steps."""
    return -(-extent // by) if isinstance(extent, int) and isinstance(by, int) else extent / by


def _smaller(one: Any, other: Any) -> Any:
    return one + (other - one) * (other < one)


def structures(operators: Sequence[Contraction], machine: Machine) -> Iterator[TreeStructure]:
    """Every structure of a chain of operators, each once. Raises as `check_chain`."""
    check_chain(operators)
    each = [genes(one, n, machine) for n, one in enumerate(operators)]
    for found in itertools.product(*each):
        structure = TreeStructure(tuple(operators), machine, found)
        if structure == structure.canonical:
            yield structure


def genes(operator: Contraction, place: int, machine: Machine) -> list[Gene]:
    """All genes of the operator at a place of a chain."""
    top = len(machine.levels) - 1
    relations = _RELATIONS if machine.arrays > 1 else _RELATIONS[:1]
    rows = (False, True) if operator.body == "softmax" and machine.running_softmax else (False,)
    return [
        Gene(level, relation, innermost, online)
        for level in range(top if place == 0 else 1, top + 1)
        for relation in (relations if level < top else _RELATIONS[:1])
        for innermost in operator.extents
        for online in rows
    ]


def check_chain(operators: Sequence[Contraction]) -> None:
    """Raise InputError where an operator does not read what the one before makes."""
    for before, one in itertools.pairwise(operators):
        if all(access.operand != before.output.operand for access in one.inputs):
            raise InputError(f"{one.name} does not read what {before.name} makes: they are no chain")
