"""Tile sizes of a structure by gradient descent: the search of this project, over trees.

As for mappings of one operator (`baco.exploration.samplers.descent`), factors are relaxed to positive numbers whose logarithms are
variables, many starts in one batch, and what analyses say of them (`baco.compiler.mapping.tree_cost`, `baco.compiler.mapping.footprint`, which
take tensors) falls along its gradient: the logarithm of the cycles, and what tiles hold beyond a memory, or loops run beyond a
dimension or its instances. Where a start ends, sizes are rounded one after the other to the nearest that may still follow.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from baco.common import portable, tensors
from baco.common.errors import BacoError
from baco.compiler.mapping.footprint import footprint
from baco.compiler.mapping.slices import product
from baco.compiler.mapping.structure import Choice, TreeStructure
from baco.compiler.mapping.tree_cost import tree_cost
from baco.exploration.samplers.mcts import SizedTree, rated

#: Steps of a start, the length of the first, and of what the logarithm of the cycles counts against what does not fit.
_STEPS, _STEP, _PENALTY = 24, 0.4, 8.0
#: Of the optimiser (Adam).
_MEAN, _SQUARE, _LEAST = 0.9, 0.99, 1e-8


def descend_sizes(structure: TreeStructure, trials: int, seed: int) -> SizedTree | None:
    """The tree of least latency among so many that are looked at, least energy among equals; None where none runs. Each step of each
    start is a look, and each tree that is rounded to."""
    drawn, order = random.Random(seed), structure.choices()
    best: SizedTree | None = None
    if not order:
        return rated(structure, {})
    starts = max(1, trials // (_STEPS + 2))
    points = _starts(structure, order, starts, drawn)
    seen: set[tuple[int, ...]] = set()
    left = trials

    def look(row: list[float]) -> None:
        nonlocal best, left
        made = _rounded(structure, order, row)
        key = tuple(made.values())
        if key in seen or left <= 0:
            return
        seen.add(key)
        left -= 1
        found = rated(structure, made)
        if found is not None and (best is None or found.value < best.value):
            best = found

    mean, square = torch.zeros_like(points), torch.zeros_like(points)
    for step in range(min(_STEPS, max(0, trials // starts - 2))):
        at = points.clone().requires_grad_(True)
        try:
            value = _relaxed_value(structure, dict(zip(order, at, strict=True)))
        except BacoError:
            break  # no sizes make this structure a tree
        value.backward()  # type: ignore[no-untyped-call]
        left -= starts
        gradient = torch.nan_to_num(at.grad if at.grad is not None else torch.zeros_like(at))
        mean = _MEAN * mean + (1 - _MEAN) * gradient
        square = _SQUARE * square + (1 - _SQUARE) * gradient * gradient
        corrected = mean / (1 - _power(_MEAN, step + 1))
        scale = (square / (1 - _power(_SQUARE, step + 1))).sqrt() + _LEAST
        length = _STEP * (1 - step / _STEPS)
        points = (points - length * corrected / scale).clamp(min=0.0)
    for row in points.T.tolist():
        look(row)
    # what looks are left go to neighbours of where starts ended
    ends = points.T.tolist()
    for _ in range(20 * trials):
        if left <= 0:
            break
        row = drawn.choice(ends)
        look([max(0.0, one + drawn.gauss(0.0, 0.5)) for one in row])
    return best


def _power(base: float, exponent: int) -> float:
    found = 1.0
    for _ in range(exponent):
        found *= base
    return found


def _starts(structure: TreeStructure, order: list[Choice], starts: int, drawn: random.Random) -> Tensor:
    """Logarithms of random sizes, (choices, starts)."""
    rows = []
    for _ in range(starts):
        made: dict[Choice, int] = {}
        for choice in order:
            made[choice] = drawn.choice(structure.options(choice, made))
        rows.append([float(portable.log(size)) for size in made.values()])
    return torch.tensor(rows, dtype=torch.float64).T.contiguous()


def _rounded(structure: TreeStructure, order: list[Choice], row: list[float]) -> dict[Choice, int]:
    made: dict[Choice, int] = {}
    for choice, wanted in zip(order, row, strict=True):
        options = structure.options(choice, made)
        made[choice] = min(options, key=lambda size: abs(float(portable.log(size)) - wanted))
    return made


def _relaxed_value(structure: TreeStructure, logs: Mapping[Choice, Tensor]) -> Tensor:
    """What falls: of all starts together, since none depends on another."""
    made = {choice: tensors.exp(log) for choice, log in logs.items()}
    tree, factors = structure.relaxed(made)
    # a loop that is too long for its dimension runs once, and what it is too long by is a penalty
    over: Any = 0.0
    whole = []
    for factor in factors:
        number = factor if isinstance(factor, Tensor) else torch.full_like(next(iter(made.values())), factor)
        short = torch.clamp(-tensors.log(torch.clamp(number, min=1e-9)), min=0.0)
        over = over + short
        whole.append(torch.clamp(number, min=1.0))
    cost = tree_cost(tree, structure.operators, structure.machine, whole)
    held = footprint(tree, structure.operators, structure.machine, whole)
    for level, need in zip(structure.machine.levels, held, strict=True):
        if level.words is not None:
            over = over + _beyond(need.words, level.words)  # blocks padded to rows are found out when rounded
        for tensor, room in (level.parts or {}).items():
            over = over + _beyond(need.parts.get(tensor, 0), room)
    for group, place in dict.fromkeys((choice.group, choice.level) for choice in made if choice.spatial):
        used = [
            f
            for choice, f in made.items()
            if choice.spatial and (choice.group, choice.level) == (group, place)
        ]
        over = over + _beyond(product(used), structure.room(place))
    values = tensors.log(cost.cycles) + _PENALTY * over
    return tensors.total(values)


def _beyond(used: Any, room: float) -> Any:
    """Logarithm of how many times more is used than there is room for; 0 where it fits."""
    if not isinstance(used, Tensor):
        return max(0.0, float(portable.log(used / room))) if used > 0 else 0.0
    return torch.clamp(tensors.log(torch.clamp(used, min=1e-9)) - float(portable.log(room)), min=0.0)
