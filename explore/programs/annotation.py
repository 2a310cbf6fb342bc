"""Random programs of a sketch (Ansor, section 4.2): every open number drawn evenly from its valid values."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.factors import divisions, divisors
from baco.exploration.programs.program import AnnotatedSketch, Annotation
from baco.exploration.programs.sketch import LoopForm, Part, Sketch, Slot

__all__ = [
    "Fits",
    "annotated",
    "by_dim",
    "by_slot",
    "cut",
    "depths",
    "divisions",
    "random_order",
    "random_program",
    "shrunk",
    "tilings",
]

#: Rounds of shrinking tiles until they fit.
_MOST_ROUNDS = 200
_SUMS = ("R", "S", "C")

#: Whether the machine holds an operator's tiles.
Fits: TypeAlias = Callable[[Part, Annotation], bool]


def tilings(form: LoopForm, operator: Contraction) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All tile sizes of a form whose factors multiply to the extents: the factors of every dimension, in the order of
    `extents`, by slot."""
    counts = [sum(dim in slot.dims for slot in form.slots) for dim in operator.extents]
    return itertools.product(
        *(divisions(extent, count) for extent, count in zip(operator.extents.values(), counts, strict=True))
    )


@functools.lru_cache(maxsize=4096)
def _covers(extent: int) -> tuple[int, ...]:
    """Sizes of equal parts: those for which no smaller size gives as few parts."""
    return tuple(sorted({-(-extent // -(-extent // size)) for size in range(1, extent + 1)})) if extent <= 4096 else tuple(
        sorted(
            {-(-extent // parts) for parts in range(1, math.isqrt(extent) + 2)}
            | {size for size in range(1, math.isqrt(extent) + 1) if -(-extent // -(-extent // size)) == size}
        )
    )  # fmt: skip


def cut(form: LoopForm, dim: str, extent: int, drawn: random.Random) -> list[int]:
    """Factors of one dimension, a slot each that has it: spread ones fill the array, temporal ones divide the rest, exactly or
    in equal parts whose last one may be less."""
    slots = [slot for slot in form.slots if dim in slot.dims]
    if form.exact:
        return list(drawn.choice(divisions(extent, len(slots))))
    factors = [min(extent, slot.lanes) if slot.lanes else 1 for slot in slots]
    left = -(-extent // math.prod(factors))
    temporal = [n for n, slot in enumerate(slots) if slot.lanes is None]
    drawn.shuffle(temporal)
    for n in temporal[:-1]:
        factors[n] = drawn.choice(_covers(left))
        left = -(-left // factors[n])
    if temporal:
        factors[temporal[-1]] = left
    return factors


def random_order(form: LoopForm, slot: Slot, operator: Contraction, drawn: random.Random) -> tuple[str, ...]:
    """An order of a slot's loops that its form allows."""
    dims = list(slot.dims)
    if form.order == "own" or slot.lanes is not None:
        return slot.dims
    drawn.shuffle(dims)
    if form.order == "sums" and slot.level == 3:
        if drawn.random() < 0.5 and operator.extents["R"] * operator.extents["S"] == 1:
            # partial sums of products may wait in main memory, as long as loops over pixels stand together
            groups = [["N", "Q", "P"], ["K"], ["R", "S", "C"]]
            drawn.shuffle(groups)
            return tuple(dim for group in groups for dim in group)
        return tuple(sorted(dims, key=lambda dim: dim in _SUMS))
    return tuple(dims)


def annotated(part: Part, sketch: Sketch, drawn: random.Random) -> Annotation:
    """A random annotation of one part."""
    if part.split is not None:
        return Annotation(parts=drawn.choice(divisors(part.operator.extents[part.split[0]]).tolist()))
    if part.movable:
        return Annotation(depth=drawn.choice(depths(part, sketch)))
    form = part.form
    if form is None:
        return Annotation()
    columns = {dim: cut(form, dim, n, drawn) for dim, n in part.operator.extents.items() if dim != "G"}
    return Annotation(
        factors=by_slot(form, columns),
        orders=tuple(random_order(form, slot, part.operator, drawn) for slot in form.slots),
        copies=(drawn.choice((1, 2)), drawn.choice((1, 2)), drawn.choice((1, 2))) if form.copies else (2, 2, 2),
    )  # fmt: skip


def depths(part: Part, sketch: Sketch) -> range:
    """Places of a part that may lie inside its reader's tiles: 0 outside, then ever further in."""
    (reader,) = sketch.graph.readers(part.tensor)
    form = sketch.part(reader.output.operand).form
    return range(1 + (len(form.slots) if form is not None else 0))


def random_program(
    sketches: Sequence[Sketch], drawn: random.Random, fits: Fits = lambda _part, _annotation: True
) -> AnnotatedSketch | None:
    """A random program of a random sketch; None where its smallest tiles do not fit either."""
    sketch = drawn.choice(list(sketches))
    annotations = []
    for part in sketch.parts:
        one = shrunk(part, annotated(part, sketch, drawn), drawn, fits)
        if one is None:
            return None
        annotations.append(one)
    return AnnotatedSketch(sketch, tuple(annotations))


def shrunk(part: Part, annotation: Annotation, drawn: random.Random, fits: Fits) -> Annotation | None:
    """The annotation with tiles so much smaller that they fit, random loops halved in favour of the outermost ones; None where
    the smallest do not."""
    form = part.form
    for _ in range(_MOST_ROUNDS):
        if fits(part, annotation):
            return annotation
        if form is None:
            return None
        columns = by_dim(form, annotation)
        inner = [
            (dim, n)
            for dim, factors in columns.items()
            for n, factor in enumerate(factors)
            if n > 0 and factor > 1 and form.temporal(dim)[n]
        ]
        if not inner:
            if annotation.copies == (2, 2, 2) and form.copies:
                annotation = replace(annotation, copies=(1, 1, 1))
                continue
            return None
        dim, n = drawn.choice(inner)
        factors, whole = columns[dim], part.operator.extents[dim]
        factors[n] = -(-factors[n] // 2)
        factors[0] = -(-whole // math.prod(factors[1:]))
        annotation = replace(annotation, factors=by_slot(form, columns))
    return None


def by_dim(form: LoopForm, annotation: Annotation) -> dict[str, list[int]]:
    """Factors of every dimension, outermost first."""
    found: dict[str, list[int]] = {}
    for slot, factors in zip(form.slots, annotation.factors, strict=True):
        for dim, factor in zip(slot.dims, factors, strict=True):
            found.setdefault(dim, []).append(factor)
    return found


def by_slot(form: LoopForm, columns: dict[str, list[int]]) -> tuple[tuple[int, ...], ...]:
    """The way back."""
    left = {dim: list(factors) for dim, factors in columns.items()}
    return tuple(tuple(left[dim].pop(0) for dim in slot.dims) for slot in form.slots)
