"""Sketches: structures of programs, tile sizes and all else that is a number left open, and the rules that derive them (Ansor, section
4.1 and Table 1).

A sketch says of every operator of a graph how its loops are divided (`LoopForm`), whom it takes along (a consumer fused behind its
sums), whether it is computed where it is read, and whether a sum is split to run side by side. Filled in, it is a tile tree
(`baco.exploration.samplers.sketches`). Rules go from the last node of a graph backwards. On an array, what rules leave open is what a
`Mapping` says, and nothing is derived.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.factors import divisions
from baco.compiler.mapping.tensor_graph import TensorGraph

__all__ = [
    "LoopForm",
    "Part",
    "Rule",
    "Sketch",
    "Slot",
    "cpu_rules",
    "derive",
    "gpu_rules",
    "letters",
    "tilings",
]

#: Sketches of a graph that are more mean that a rule does not end.
_MOST_STATES = 5_000
#: What is behind the name of a tensor while it is summed up, apart from where it is stored in the end.
_CACHE = ".sums"


@dataclass(frozen=True)
class Slot:
    """A place for loops: a factor of each of its dimensions.

    Attributes:
        level: of the memory whose tiles they run over.
        dims: in the order in which they run.
        spatial: whether they run side by side (blocks and threads of a GPU).
    """

    level: int
    dims: tuple[str, ...]
    spatial: bool = False


@dataclass(frozen=True)
class LoopForm:
    """How an operator's loops are divided, by factors that multiply to the extents.

    Attributes:
        name: for people.
        slots: outermost first.
        meeting: so many slots from outside are the loops of a fused consumer, too; what is left of it comes after them.
    """

    name: str
    slots: tuple[Slot, ...]
    meeting: int = 0

    @property
    def loops(self) -> int:
        """How many loops there are."""
        return sum(len(slot.dims) for slot in self.slots)

    def parts(self, dim: str) -> int:
        """Slots that have a dimension."""
        return sum(dim in slot.dims for slot in self.slots)


@dataclass(frozen=True)
class Part:
    """One operator in a sketch.

    Attributes:
        form: None: one nest of whole loops.
        consumer: name of the operator that runs behind its sums, block by block.
        behind: this is such a consumer.
        inlined: computed where it is read.
        movable: an annotation may place it inside its reader's tiles.
        split: of a sum in parts side by side: the dimension, and whether parts are runs of neighbours.
    """

    operator: Contraction
    form: LoopForm | None = None
    consumer: str = ""
    behind: bool = False
    inlined: bool = False
    movable: bool = False
    split: tuple[str, bool] | None = None

    @property
    def tensor(self) -> str:
        """That it makes."""
        return self.operator.output.operand


@dataclass(frozen=True)
class Sketch:
    """A structure and how it came about.

    Attributes:
        parts: one for each operator, those that make a tensor before those that read it.
        trace: rules applied, with the number of the node they worked on.
        shapes: of tensors from outside (`TensorGraph`).
    """

    parts: tuple[Part, ...]
    trace: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @cached_property
    def graph(self) -> TensorGraph:
        """Its operators."""
        return TensorGraph(tuple(part.operator for part in self.parts), dict(self.shapes))

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules applied, in order."""
        return tuple(name for name, _ in self.trace)

    def part(self, tensor: str) -> Part:
        """The part that makes a tensor."""
        return next(part for part in self.parts if part.tensor == tensor)

    def with_part(self, tensor: str, **changes: object) -> Sketch:
        """With a part changed."""
        return replace(
            self,
            parts=tuple(replace(part, **changes) if part.tensor == tensor else part for part in self.parts),  # type: ignore[arg-type]
        )

    def with_parts(self, tensor: str, parts: tuple[Part, ...]) -> Sketch:
        """With others in a part's place."""
        return replace(
            self,
            parts=tuple(new for part in self.parts for new in (parts if part.tensor == tensor else (part,))),
        )


def letters(structure: str, operator: Contraction, meeting: int, spatial: int = 0) -> LoopForm:
    """Multi-level tiling in Ansor's notation, on no memories in particular: S for loops over results, R for those that sum up.

    Args:
        structure: "SSRSRS", say.
        meeting: see `LoopForm`.
        spatial: so many groups from outside run side by side (blocks and threads of a GPU).
    """
    groups = {
        "S": tuple(name for name in operator.extents if name not in operator.reduction),
        "R": operator.reduction,
    }
    slots = tuple(Slot(len(structure) - n, groups[letter], n < spatial) for n, letter in enumerate(structure))
    return LoopForm(structure, slots, meeting)


def tilings(form: LoopForm, operator: Contraction) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All tile sizes of a form: the factors of every dimension, in the order of `extents`, by slot."""
    return itertools.product(
        *(divisions(extent, form.parts(dim)) for dim, extent in operator.extents.items())
    )


# -------------------------------------------------------------------- rules


#: The sketch so far, and the tensor that is worked on.
Applies: TypeAlias = "Callable[[Sketch, str], bool]"
#: Next sketches, each with whether work goes on with the node before.
Apply: TypeAlias = "Callable[[Sketch, str], Iterable[tuple[Sketch, bool]]]"


@dataclass(frozen=True)
class Rule:
    """When a rule applies to a node, and what it makes of it. A user's own rules are made in the same way."""

    name: str
    applies: Applies
    apply: Apply


def derive(graph: TensorGraph, rules: Sequence[Rule]) -> list[Sketch]:
    """All sketches of a graph: every rule that applies is applied to every state, the first found first.

    A node that no rule applies to ends its state. Raises InputError for rules that do not come to an end.
    """
    start = Sketch(
        tuple(map(Part, graph.operators)), shapes=tuple((k, tuple(v)) for k, v in graph.shapes.items())
    )
    queue, found = deque([(start, len(graph.nodes))]), []
    taken = 0
    while queue:
        sketch, number = queue.popleft()
        taken += 1
        if taken > _MOST_STATES:
            raise InputError(f"more than {_MOST_STATES:,} states of sketches", hint="a rule repeats itself")
        if number == 0:
            found.append(sketch)
            continue
        tensor = sketch.graph.nodes[number - 1]
        for rule in rules:
            if rule.applies(sketch, tensor):
                for following, onward in rule.apply(sketch, tensor):
                    traced = replace(following, trace=(*sketch.trace, (rule.name, number)))
                    queue.append((traced, number - 1 if onward else number))
    return found


def cpu_rules(lanes: int = 64, structure: str = "SSRSRS") -> list[Rule]:
    """Ansor's six rules for processors.

    Args:
        lanes: that work side by side: with fewer results, sums are split.
        structure: of multi-level tiling; consumers are fused behind its second group.
    """
    return _published(lanes, structure, meeting=2, spatial=0)


def gpu_rules(lanes: int = 1024) -> list[Rule]:
    """The same for GPUs: three groups of loops are blocks, virtual threads and threads; consumers come behind them."""
    return _published(lanes, "SSSRRSRS", meeting=3, spatial=3)


def _published(lanes: int, structure: str, meeting: int, spatial: int) -> list[Rule]:
    def tiled(sketch: Sketch, tensor: str, *, fuse: bool) -> list[tuple[Sketch, bool]]:
        form = letters(structure, sketch.part(tensor).operator, meeting if fuse else 0, spatial)
        return [(_fused(sketch, tensor, form) if fuse else sketch.with_part(tensor, form=form), True)]

    def reuse(sketch: Sketch, tensor: str) -> bool:
        return sketch.graph.has_reuse(tensor)

    def consumer(sketch: Sketch, tensor: str) -> bool:
        return sketch.graph.fusible_consumer(tensor) is not None

    def parallel(sketch: Sketch, tensor: str) -> bool:
        return not tensor.endswith(_CACHE) and sketch.graph.has_parallel_reduction(tensor, lanes)

    return [
        Rule("skip", lambda s, t: not s.graph.is_inlinable(t), _skip),
        Rule("inline", lambda s, t: s.graph.is_inlinable(t), _inline),
        Rule("tile", reuse, lambda s, t: tiled(s, t, fuse=False)),
        Rule("tile and fuse", lambda s, t: reuse(s, t) and consumer(s, t), lambda s, t: tiled(s, t, fuse=True)),
        Rule("cache write", lambda s, t: reuse(s, t) and not consumer(s, t), _cache_write),
        Rule("rfactor", parallel, _rfactor),
    ]  # fmt: skip


def _skip(sketch: Sketch, tensor: str) -> list[tuple[Sketch, bool]]:
    """The node stays what it is. One that nobody tiles or reads elementwise may be computed inside its reader's tiles."""
    part = _own(sketch, tensor)
    if part is not None and not part.behind and not part.operator.reduction:
        readers = sketch.graph.readers(tensor)
        movable = len(readers) == 1 and sketch.part(readers[0].output.operand).form is not None
        sketch = sketch.with_part(tensor, movable=movable)
    return [(sketch, True)]


def _inline(sketch: Sketch, tensor: str) -> list[tuple[Sketch, bool]]:
    return [(sketch.with_part(tensor, inlined=True), True)]


def _fused(sketch: Sketch, tensor: str, form: LoopForm) -> Sketch:
    consumer = sketch.graph.fusible_consumer(tensor)
    assert consumer is not None
    name = consumer.output.operand
    return sketch.with_part(tensor, form=form, consumer=name).with_part(name, behind=True)


def _cache_write(sketch: Sketch, tensor: str) -> list[tuple[Sketch, bool]]:
    """The node's sums get a tensor of their own, and a new consumer that stores them."""
    one = sketch.part(tensor).operator
    sums = replace(one, output=replace(one.output, operand=tensor + _CACHE))
    extents = {name: one.extents[name] for name in one.output.variables}
    store = Contraction(extents, one.output, (replace(one.output, operand=tensor + _CACHE),), "pointwise", one.name)  # fmt: skip
    return [(sketch.with_parts(tensor, (Part(sums), Part(store))), False)]


def _rfactor(sketch: Sketch, tensor: str) -> list[tuple[Sketch, bool]]:
    """One summed dimension is cut into parts that are summed up side by side: parts of neighbours, or of every so-manieth."""
    reduction = sketch.part(tensor).operator.reduction
    return [
        (sketch.with_part(tensor, split=(name, runs)), True) for name in reduction for runs in (True, False)
    ]


def _own(sketch: Sketch, tensor: str) -> Part | None:
    return None if sketch.graph.maker(tensor) is None else sketch.part(tensor)
