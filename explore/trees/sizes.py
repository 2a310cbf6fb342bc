"""Tile sizes of a structure by Monte Carlo tree search, or all of them.

Source: TileFlow: sizes are fixed one after the other; what is fixed limits the rest (divisors of what is left, instances that there
are), upper confidence bounds choose where to look again, and random sizes complete what is looked at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from baco.common import portable
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.mapping.footprint import shortfalls
from baco.compiler.mapping.tree import Tile
from baco.compiler.mapping.tree_cost import TreeCost, tree_cost
from baco.exploration.trees.structure import Choice, TreeStructure

__all__ = ["SizeSearch", "SizedTree", "all_sizes", "rated", "search_sizes"]

#: Weight of how seldom a branch was taken.
_CURIOSITY = 0.5


@dataclass(frozen=True)
class SizedTree:
    """A tree that runs on its machine, and what it costs."""

    structure: TreeStructure
    tree: Tile
    cost: TreeCost


#: The best tree of a structure among so many that are looked at, by a seed.
SizeSearch: TypeAlias = "Callable[[TreeStructure, int, int], SizedTree | None]"


@dataclass
class _Node:
    visits: int = 0
    reward: float = 0.0
    options: list[int] | None = None
    children: dict[int, _Node] = field(default_factory=dict)


def rated(structure: TreeStructure, made: Mapping[Choice, int]) -> SizedTree | None:
    """The tree of some sizes; None where the machine cannot run it."""
    try:
        tree = structure.tree(made)
        if shortfalls(tree, structure.operators, structure.machine):
            return None
        cost = tree_cost(tree, structure.operators, structure.machine)
    except (InputError, InfeasibleError):
        return None
    if cost.arrays > structure.machine.arrays:
        return None
    return SizedTree(structure, tree, cost)


def all_sizes(structure: TreeStructure) -> Iterator[SizedTree]:
    """Every tree of a structure that runs on the machine."""
    order = structure.choices()

    def further(made: dict[Choice, int]) -> Iterator[SizedTree]:
        if len(made) == len(order):
            found = rated(structure, made)
            if found is not None:
                yield found
            return
        choice = order[len(made)]
        for size in structure.options(choice, made):
            yield from further({**made, choice: size})

    yield from further({})


def search_sizes(structure: TreeStructure, trials: int, seed: int) -> SizedTree | None:
    """The tree of least latency among so many that are looked at, least energy among equals; None where none runs."""
    drawn, order = random.Random(seed), structure.choices()
    root, best = _Node(), None
    seen: dict[tuple[int, ...], SizedTree | None] = {}
    for _ in range(trials):
        made: dict[Choice, int] = {}
        path, node = [root], root
        while len(made) < len(order):
            choice = order[len(made)]
            if node.options is None:
                node.options = structure.options(choice, made)
            fresh = [size for size in node.options if size not in node.children]
            if fresh:
                size = drawn.choice(fresh)
                node.children[size] = _Node()
            else:
                size = max(node.options, key=lambda one: _promise(node, node.children[one]))
            made[choice] = size
            node = node.children[size]
            path.append(node)
            if fresh:
                break
        for choice in order[len(made) :]:
            made[choice] = drawn.choice(structure.options(choice, made))
        key = tuple(made[choice] for choice in order)
        if key not in seen:
            seen[key] = rated(structure, made)
        found = seen[key]
        if found is not None and (best is None or _value(found) < _value(best)):
            best = found
        reward = 0.0 if found is None or best is None else float(best.cost.cycles / found.cost.cycles)
        for one in path:
            one.visits += 1
            one.reward += reward
    return best


def _value(one: SizedTree) -> tuple[float, float]:
    return float(one.cost.cycles), float(one.cost.energy_pj)


def _promise(parent: _Node, child: _Node) -> float:
    return child.reward / child.visits + _CURIOSITY * math.sqrt(
        float(portable.log(parent.visits)) / child.visits
    )
