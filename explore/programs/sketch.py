"""Sketches: structures of programs, tile sizes and all else that is a number left open (Ansor, section 4.1).

A sketch says of every operator of a graph how its loops are divided (`LoopForm`), whom it takes along (a consumer fused behind its
sums), whether it is computed where it is read, and whether a sum is split to run side by side. With an annotation for every
operator (`baco.exploration.programs.annotation`) it is a tile tree (`baco.exploration.programs.program`). Rules that derive sketches are in
`baco.exploration.programs.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from baco.accel.dataflows import Dataflow
from baco.compiler.mapping.contraction import Contraction
from baco.exploration.programs.graph import TensorGraph

__all__ = ["LoopForm", "Part", "Sketch", "Slot", "letters"]


@dataclass(frozen=True)
class Slot:
    """A place for loops: a factor of each of its dimensions.

    Attributes:
        level: of the memory whose tiles they run over.
        dims: in the order in which they run, unless an annotation may change it.
        lanes: of the array's axis that they are spread over, None for temporal loops; 0: as many as there are.
    """

    level: int
    dims: tuple[str, ...]
    lanes: int | None = None


@dataclass(frozen=True)
class LoopForm:
    """How an operator's loops are divided.

    Attributes:
        name: for people.
        slots: outermost first.
        meeting: so many slots from outside are the loops of a fused consumer, too; what is left of it comes after them.
        flow: the array's dataflow, which says what tiles of each level keep (`baco.accel.dataflows`); None for sketches of no
            memory in particular.
        order: which orders of loops an annotation may choose: the slots' own, any, or any whose sums are complete before other
            loops over main memory go on (`sums`).
        copies: of the tiles that change, which an annotation may choose to be one or two of each; None: it may not, there
            are two of each.
        exact: factors multiply to the extent; else they cover it.
    """

    name: str
    slots: tuple[Slot, ...]
    meeting: int = 0
    flow: Dataflow | None = None
    order: Literal["own", "any", "sums"] = "own"
    copies: bool = False
    exact: bool = True

    @property
    def loops(self) -> int:
        """How many loops there are."""
        return sum(len(slot.dims) for slot in self.slots)

    def temporal(self, dim: str) -> list[bool]:
        """Of the slots that a dimension has, which are no lanes of the array."""
        return [slot.lanes is None for slot in self.slots if dim in slot.dims]


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

    def __str__(self) -> str:
        return self.title

    @cached_property
    def title(self) -> str:
        """What becomes of every operator, in words."""
        return "; ".join(
            f"{part.tensor}: "
            + (
                "inlined"
                if part.inlined
                else "behind"
                if part.behind
                else part.form.name
                if part.form
                else "whole"
            )
            + (f" with {part.consumer}" if part.consumer else "")
            + (f" split {part.split[0]}" if part.split else "")
            for part in self.parts
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
    slots = tuple(
        Slot(len(structure) - n, groups[letter], 0 if n < spatial else None)
        for n, letter in enumerate(structure)
    )
    return LoopForm(structure, slots, meeting)
