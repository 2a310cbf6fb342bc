"""The reference model's counts by walking the loop nest in plain Python.

Fills of weights and outputs are counted by looking, iteration by iteration, whether the tile that a level
keeps is another one than before. Inputs are sets of touched elements: while only the innermost loop that
matters to the input runs (those inside it repeat the same tile), what is brought in is the union of its
tiles; when any loop further out moves, everything is brought afresh. That is the rule of section 3: overlaps
with what an outer loop's previous iteration left behind are not used, in the model and here. A tile of a
strided convolution is the whole rectangle between its first and last row and column.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from baco.accel.dataflows import RELEVANT
from baco.compiler.mapping.nest import Mapping
from baco.workloads.problem import DIMS, Problem

Loop = tuple[str, int, int]  # dimension, factor, extent of the dimension inside the loop


@dataclass
class Walked:
    """Totals over all groups; `words` by level 0 to 3 and tensor, which add up to `a0` to `a3`."""

    macs: int
    words: tuple[dict[str, int], ...]

    def __getattr__(self, name: str) -> int:
        if name in ("a0", "a1", "a2", "a3"):
            return sum(self.words[int(name[1])].values())
        raise AttributeError(name)


def _loops_outside(mapping: Mapping, level: int) -> list[Loop]:
    """Temporal loops of the levels above `level`, outermost first, those that run once left out."""
    loops = []
    for m in (3, 2, 1):
        if m <= level:
            break
        inside = mapping.tile(m)
        for name in reversed(mapping.order[m]):
            factor = mapping.factor(name, m)
            if factor > 1:
                # Spatial factors of a level lie inside its temporal loops.
                loops.append((name, factor, inside[name] // factor))
    return loops


def _changes(mapping: Mapping, tensor: str, level: int) -> int:
    """How often the tile of `tensor` at `level` is replaced, the first one included."""
    loops = _loops_outside(mapping, level)
    previous, changes = None, 0
    for place in itertools.product(*(range(factor) for _, factor, _ in loops)):
        tile = tuple(i for i, (name, _, _) in zip(place, loops, strict=True) if name in RELEVANT[tensor])
        changes += tile != previous
        previous = tile
    return changes


def _input_words(problem: Problem, mapping: Mapping) -> int:
    """Words of the input brought into the scratchpad, one group."""
    loops = _loops_outside(mapping, 2)
    extent = mapping.tile(2)
    innermost = max((i for i, loop in enumerate(loops) if loop[0] in RELEVANT["I"]), default=-1)
    brought: dict[tuple[int, ...], set[tuple[int, int, int, int]]] = {}
    for place in itertools.product(*(range(factor) for _, factor, _ in loops)):
        origin = dict.fromkeys(DIMS, 0)
        for i, (name, _, inside) in zip(place, loops, strict=True):
            origin[name] += i * inside
        left = origin["P"] * problem.stride_w + origin["R"] * problem.dilation_w
        top = origin["Q"] * problem.stride_h + origin["S"] * problem.dilation_h
        width = (extent["P"] - 1) * problem.stride_w + (extent["R"] - 1) * problem.dilation_w + 1
        height = (extent["Q"] - 1) * problem.stride_h + (extent["S"] - 1) * problem.dilation_h + 1
        tile = itertools.product(
            range(origin["N"], origin["N"] + extent["N"]),
            range(origin["C"], origin["C"] + extent["C"]),
            range(left, left + width),
            range(top, top + height),
        )
        brought.setdefault(place[: max(innermost, 0)], set()).update(tile)
    return sum(len(elements) for elements in brought.values())


def walk(problem: Problem, mapping: Mapping) -> Walked:
    """Counts of a mapping with small factors."""
    tile1, tile2, whole = mapping.tile(1), mapping.tile(2), mapping.tile(3)
    array = mapping.rows * mapping.columns
    steps = 1
    for level in range(4):
        for name in DIMS:
            steps *= mapping.factor(name, level)
    macs = steps * array
    outputs = whole["K"] * whole["P"] * whole["Q"] * whole["N"]
    w2 = tile2["R"] * tile2["S"] * tile2["C"] * tile2["K"]
    o1 = tile1["K"] * tile1["P"] * tile1["Q"] * tile1["N"] * mapping.columns
    weights = w2 * _changes(mapping, "W", 2)
    outputs_moved = o1 * _changes(mapping, "O", 1)
    inputs = _input_words(problem, mapping)
    sums_stay = mapping.dataflow.startswith("O")  # the others keep weights
    registers = array * _changes(mapping, "O" if sums_stay else "W", 0)
    # Every row takes one input a step.
    if not sums_stay:
        # Every step a column of the array delivers one partial sum.
        updates, stationary, read = steps * mapping.columns, "W", registers
    else:
        # Columns take weights; sums stay until their register is wanted for another output.
        updates, stationary, read = registers, "O", steps * mapping.columns
    g = problem.groups
    return Walked(
        macs=g * macs,
        words=(
            {stationary: g * (macs + registers)},
            {"O": g * (updates + (updates - outputs) + outputs_moved)},
            {"W": g * (read + weights), "I": g * (steps * mapping.rows + inputs)},
            {"W": g * weights, "I": g * inputs, "O": g * (outputs_moved + (outputs_moved - outputs))},
        ),
    )
