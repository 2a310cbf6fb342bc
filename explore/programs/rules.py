"""Rules that derive sketches, from the last node of a graph backwards.

Source: Ansor, Table 1 and section 4.3; the accelerator's own rules follow from what its memories and its array are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW
from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Variable
from baco.exploration.programs.graph import TensorGraph
from baco.exploration.programs.sketch import LoopForm, Part, Sketch, Slot, letters
from baco.workloads.problem import DIMS

__all__ = ["Rule", "array_rules", "cpu_rules", "derive", "gpu_rules"]

#: Sketches of a graph that are more mean that a rule does not end.
_MOST_STATES = 5_000
#: What is behind the name of a tensor while it is summed up, apart from where it is stored in the end.
_CACHE = ".sums"
#: Loops of the macros: whole tiles over main memory, blocks of a tile, rows of a block.
_BLOCKS, _PIXELS = ("S", "R", "C", "K"), ("N", "Q", "P")

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


def array_rules(accelerator: Accelerator) -> list[Rule]:
    """Rules of a systolic array with its two memories.

    A node that sums up products runs on the array, always; its operands are cached in the scratchpad (7), its sums in the
    accumulator, from which they leave by the node's consumer (5). Then its innermost tile becomes an instruction (8): in
    every dataflow that the array offers, by single commands, which leave order and copies open, and by the loop macro.
    """

    def computes(sketch: Sketch, tensor: str) -> bool:
        part = _own(sketch, tensor)
        return part is not None and part.form is None and _is_layer(part.operator)

    def cached(sketch: Sketch, tensor: str) -> bool:
        return "cache read" in {name for name, at in sketch.trace if at == _place(sketch, tensor)}

    def consumer(sketch: Sketch, tensor: str) -> bool:
        return sketch.graph.fusible_consumer(tensor) is not None

    def tensorise(sketch: Sketch, tensor: str) -> Iterable[tuple[Sketch, bool]]:
        operator = sketch.part(tensor).operator
        for form in array_forms(operator, accelerator):
            yield _fused(sketch, tensor, form), True

    return [
        Rule("skip", lambda s, t: not s.graph.is_inlinable(t) and not computes(s, t), _skip),
        Rule("inline", lambda s, t: s.graph.is_inlinable(t) and not computes(s, t), _inline),
        Rule("cache read", lambda s, t: computes(s, t) and not cached(s, t), lambda s, t: [(s, False)]),
        Rule(
            "cache write", lambda s, t: computes(s, t) and cached(s, t) and not consumer(s, t), _cache_write
        ),
        Rule(
            "tensorise", lambda s, t: computes(s, t) and cached(s, t) and consumer(s, t), tensorise
        ),
    ]  # fmt: skip


def array_forms(operator: Contraction, accelerator: Accelerator) -> list[LoopForm]:
    """Ways in which an operator runs on an array: the macro first, then single commands in every dataflow.

    Copies and orders of loops are an annotation's to choose, but for what a macro fixes (`baco.compiler.styles.realise`).
    """
    dim, all_dims = accelerator.dim, DIMS
    found = []
    product = operator.extents["R"] == operator.extents["S"] == 1
    features = accelerator.features
    if MACRO_DATAFLOW in accelerator.dataflows and (features.loop_ws if product else features.loop_conv):
        slots: tuple[Slot, ...] = (
            Slot(3, all_dims), Slot(2, ("K",), dim), Slot(1, _BLOCKS), Slot(1, ("C",), dim), Slot(0, _PIXELS),
        )  # fmt: skip
        found.append(LoopForm("macro", slots, 1, MACRO_DATAFLOW, "sums", exact=False))
    for flow in accelerator.dataflows:
        rule = DATAFLOWS[flow]
        slots = (
            Slot(3, all_dims), Slot(2, all_dims), Slot(2, ("K",), dim), Slot(1, all_dims),
            Slot(1, (rule.row,), dim), Slot(0, rule.loops[0]),
        )  # fmt: skip
        found.append(LoopForm(flow, slots, 1, flow, "any", copies=True, exact=False))
    return found


# -------------------------------------------------------------------- the published rules


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


def _place(sketch: Sketch, tensor: str) -> int:
    return sketch.graph.nodes.index(tensor) + 1


def _is_layer(operator: Contraction) -> bool:
    """A convolution or product as the array's tools name its dimensions (`baco.compiler.mapping.contraction.convolution`)."""

    def plain(access: Access) -> bool:
        return all(isinstance(index, Variable) for index in access.indices)

    return (
        operator.body == "products"
        and set(DIMS) <= set(operator.extents) <= {"G", *DIMS}
        and len(operator.inputs) == 2
        and plain(operator.output)
        and plain(operator.inputs[1])
    )
