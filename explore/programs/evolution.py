"""Evolution of programs (Ansor, section 5.1): mutations that keep programs valid, crossover by nodes, selection in proportion to
fitness."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from baco.compiler.mapping.factors import divisors
from baco.exploration.programs.annotation import (
    Fits,
    annotated,
    by_dim,
    by_slot,
    cut,
    depths,
    random_order,
    random_program,
    shrunk,
)
from baco.exploration.programs.program import AnnotatedSketch, Annotation
from baco.exploration.programs.sketch import Part, Sketch

__all__ = ["Evolution", "Score", "crossed", "mutated", "other_form"]

#: Programs that a generation has, and how many of the best go on unchanged.
POPULATION, _KEPT = 48, 12
#: Share of children that two parents have; of the mutations of tiles, those that cut a dimension anew.
_CROSSED, _ANEW = 0.15, 0.25
#: Attempts at a child that differs from all known.
_ATTEMPTS = 20

#: Costs of programs, the less the better.
Score: TypeAlias = Callable[[Sequence[AnnotatedSketch]], Sequence[float]]


@dataclass
class Evolution:
    """Programs of some sketches that get better, a generation a step.

    Attributes:
        sketches: of one graph.
        score: what is minimised; a program is scored once.
        fits: see `Fits`.
        seed: of all that is drawn; equal seeds give equal programs.
        scored: all programs so far and their scores.
        population: those that may become parents.
    """

    sketches: Sequence[Sketch]
    score: Score
    fits: Fits = lambda _part, _annotation: True
    seed: int = 0
    scored: dict[AnnotatedSketch, float] = field(default_factory=dict)
    population: list[AnnotatedSketch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.drawn = random.Random(self.seed)

    @property
    def best(self) -> tuple[AnnotatedSketch, float] | None:
        """The program of the least score, the first of equals."""
        return min(self.scored.items(), key=lambda pair: pair[1], default=None)

    def begin(self, known: Sequence[AnnotatedSketch] = (), count: int = POPULATION) -> None:
        """The first generation: `known` programs and random ones."""
        found = list(known)
        for _ in range(4 * count):
            if len(found) >= count:
                break
            one = random_program(self.sketches, self.drawn, self.fits)
            if one is not None and one not in found:
                found.append(one)
        self._take(found)

    def step(self, count: int = POPULATION) -> None:
        """A generation of at most so many new programs."""
        if not self.population:
            self.begin(count=count)
            return
        least = min(self.scored[one] for one in self.population)
        fitness = [least / self.scored[one] for one in self.population]
        children: dict[AnnotatedSketch, None] = {}
        for _ in range(count * _ATTEMPTS):
            if len(children) >= count:
                break
            child = self._child(fitness)
            if child is not None and child not in self.scored:
                children[child] = None
        self._take(list(children))

    def _child(self, fitness: list[float]) -> AnnotatedSketch | None:
        one, other = self.drawn.choices(self.population, fitness, k=2)
        child: AnnotatedSketch | None = one
        if self.drawn.random() < _CROSSED and one != other:
            child = crossed(one, other, self.drawn, self.fits)
        if child is None or child in self.scored:
            child = mutated(child or one, self.sketches, self.drawn, self.fits)
        return child

    def _take(self, programs: list[AnnotatedSketch]) -> None:
        self.scored |= dict(zip(programs, self.score(programs), strict=True)) if programs else {}
        elders = sorted(self.population, key=lambda one: self.scored[one])
        self.population = sorted([*elders[:_KEPT], *programs], key=lambda one: self.scored[one])[:POPULATION]


# -------------------------------------------------------------------- mutations


def mutated(
    program: AnnotatedSketch, sketches: Sequence[Sketch], drawn: random.Random, fits: Fits
) -> AnnotatedSketch | None:
    """The program with one decision changed; None where the machine does not hold the result.

    What can be changed: a factor moves between two loops of a dimension (their product stays), a dimension is cut anew (where
    factors only have to cover it), the order of a tile's loops, copies, the place of an operator inside its reader's tiles, the
    parts of a split sum, and the form in which the array computes an operator, its tiles as they are.
    """
    open_ = [
        (n, change)
        for n, part in enumerate(program.sketch.parts)
        for change in _changes(part, program, sketches)
    ]
    if not open_:
        return None
    n, change = drawn.choice(open_)
    part, annotation = program.sketch.parts[n], program.annotations[n]
    if change is _form:
        return other_form(program, part, sketches, drawn, fits)
    found = change(part, program.sketch, annotation, drawn)
    if part.form is not None and not fits(part, found):
        smaller = shrunk(part, found, drawn, fits) if not part.form.exact else None
        if smaller is None:
            return None
        found = smaller
    return replace(program, annotations=(*program.annotations[:n], found, *program.annotations[n + 1 :]))


_Change: TypeAlias = Callable[[Part, Sketch, Annotation, random.Random], Annotation]


def _changes(part: Part, program: AnnotatedSketch, sketches: Sequence[Sketch]) -> list[_Change]:
    """Mutations that can do something to a part, tile sizes as often as all others together."""
    if part.split is not None:
        return [_parts]
    if part.movable:
        return [_depth]
    if part.form is None:
        return []
    others: list[_Change] = []
    if part.form.order != "own":
        others.append(_order)
    if part.form.copies:
        others.append(_copies)
    if part.form.flow is not None and _siblings(program, part, sketches):
        others.append(_form)
    return [_tiles] * max(2, len(others)) + others


def _tiles(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    """A factor of one loop goes to another one of the same dimension."""
    form = part.form
    assert form is not None
    columns = by_dim(form, annotation)
    if not form.exact and drawn.random() < _ANEW:
        dim = drawn.choice([name for name in columns if part.operator.extents[name] > 1] or list(columns))
        columns[dim] = cut(form, dim, part.operator.extents[dim], drawn)
        return replace(annotation, factors=by_slot(form, columns))
    movable = [
        (dim, n)
        for dim, factors in columns.items()
        for n, factor in enumerate(factors)
        if factor > 1 and form.temporal(dim)[n] and sum(form.temporal(dim)) > 1
    ]
    if not movable:
        return annotation
    dim, n = drawn.choice(movable)
    by = drawn.choice(divisors(columns[dim][n])[1:].tolist())
    to = drawn.choice([m for m, temporal in enumerate(form.temporal(dim)) if temporal and m != n])
    columns[dim][n] //= by
    columns[dim][to] *= by
    return replace(annotation, factors=by_slot(form, columns))


def _order(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    form = part.form
    assert form is not None
    n = drawn.choice([n for n, slot in enumerate(form.slots) if slot.lanes is None])
    new = random_order(form, form.slots[n], part.operator, drawn)
    return replace(annotation, orders=(*annotation.orders[:n], new, *annotation.orders[n + 1 :]))


def _copies(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    w, i, o = annotation.copies
    return replace(annotation, copies=drawn.choice(((3 - w, i, o), (w, 3 - i, o), (w, i, 3 - o))))


def _depth(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    return replace(annotation, depth=drawn.choice(depths(part, sketch)))


def _parts(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    return annotated(part, sketch, drawn)


def _form(part: Part, sketch: Sketch, annotation: Annotation, drawn: random.Random) -> Annotation:
    raise AssertionError("changes the sketch: `other_form`")


# -------------------------------------------------------------------- other sketches


def other_form(
    program: AnnotatedSketch, part: Part, sketches: Sequence[Sketch], drawn: random.Random, fits: Fits
) -> AnnotatedSketch | None:
    """The program in a sketch that differs in the form of one part, tiles of every level as large as they were, as far as the
    form has room for them; None where there is none that fits."""
    others = _siblings(program, part, sketches)
    if not others:
        return None
    sketch = drawn.choice(others)
    new = sketch.part(part.tensor)
    found = shrunk(new, carried(part, program.annotation(part.tensor), new, drawn), drawn, fits)
    if found is None:
        return None
    return AnnotatedSketch(
        sketch,
        tuple(
            found if one.tensor == part.tensor else annotation
            for one, annotation in zip(sketch.parts, program.annotations, strict=True)
        ),
    )


def _siblings(program: AnnotatedSketch, part: Part, sketches: Sequence[Sketch]) -> list[Sketch]:
    """Sketches with the same parts but for the form of one."""
    found = []
    for sketch in sketches:
        if len(sketch.parts) != len(program.sketch.parts):
            continue
        differ = [
            mine.tensor
            for mine, theirs in zip(program.sketch.parts, sketch.parts, strict=True)
            if mine != theirs
        ]
        if differ == [part.tensor] and sketch.part(part.tensor).form is not None:
            found.append(sketch)
    return found


def carried(part: Part, annotation: Annotation, new: Part, drawn: random.Random) -> Annotation:
    """An annotation of one form for another: temporal factors go to the loop of their level, else to one further in."""
    old, form = part.form, new.form
    assert old is not None
    assert form is not None
    columns: dict[str, list[int]] = {}
    for dim, factors in by_dim(old, annotation).items():
        levels = [slot.level for slot in old.slots if dim in slot.dims]
        slots = [slot for slot in form.slots if dim in slot.dims]
        extent = part.operator.extents[dim]
        made = [min(extent, slot.lanes) if slot.lanes else 1 for slot in slots]
        temporal = [n for n, slot in enumerate(slots) if slot.lanes is None]
        for level, factor, free in zip(levels, factors, old.temporal(dim), strict=True):
            if free:
                inner = [n for n in temporal if slots[n].level <= level]
                place = inner[0] if inner else temporal[-1]
                made[place] *= factor
        top = temporal[0]
        made[top] = -(-extent // math.prod(one for n, one in enumerate(made) if n != top))
        columns[dim] = made
    known = dict(zip((_key(slot.level, slot.lanes) for slot in old.slots), annotation.orders, strict=True))
    orders = []
    for slot in form.slots:
        before = known.get(_key(slot.level, slot.lanes), ())
        keeps = form.order == "any" and set(before) == set(slot.dims)
        orders.append(before if keeps else random_order(form, slot, new.operator, drawn))
    copies = annotation.copies if form.copies else (2, 2, 2)
    return Annotation(by_slot(form, columns), tuple(orders), copies)


def _key(level: int, lanes: int | None) -> tuple[int, bool]:
    return level, lanes is not None


def crossed(
    one: AnnotatedSketch, other: AnnotatedSketch, drawn: random.Random, fits: Fits
) -> AnnotatedSketch | None:
    """A program with every node's decisions from one of two parents (node-based crossover); None where they do not go together.

    A consumer goes with the node whose sums it takes; an operator inside tiles that the reader no longer has goes as far in as
    there are tiles.
    """
    mine, theirs = one.sketch, other.sketch
    if [part.tensor for part in mine.parts] != [part.tensor for part in theirs.parts]:
        return None
    parts: list[Part] = []
    annotations: list[Annotation] = []
    chosen: dict[str, bool] = {}
    for n, part in enumerate(mine.parts):
        first = chosen.get(part.tensor)
        if first is None:
            first = drawn.random() < 0.5
        parent = one if first else other
        taken = parent.sketch.parts[n]
        for half in (mine, theirs):
            for name in (half.parts[n].consumer,):
                if name:
                    chosen[name] = first
        parts.append(taken)
        annotations.append(parent.annotations[n])
    sketch = replace(mine, parts=tuple(parts), trace=_trace(mine, theirs, parts))
    for n, part in enumerate(parts):
        if part.movable:
            places = depths(part, sketch)
            annotations[n] = replace(annotations[n], depth=min(annotations[n].depth, places[-1]))
    return AnnotatedSketch(sketch, tuple(annotations))


def _trace(mine: Sketch, theirs: Sketch, parts: list[Part]) -> tuple[tuple[str, int], ...]:
    """Of the parent whose parts these are; of a mixture, both."""
    for sketch in (mine, theirs):
        if list(sketch.parts) == parts:
            return sketch.trace
    return mine.trace
