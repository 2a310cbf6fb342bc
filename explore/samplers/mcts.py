"""Tile sizes of a structure by Monte Carlo tree search.

Source: TileFlow: sizes are fixed one after the other; what is fixed limits the rest (divisors of what is left, instances that there
are), upper confidence bounds choose where to look again, and random sizes complete what is looked at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from baco.common import portable
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.mapping.footprint import shortfalls
from baco.compiler.mapping.structure import Choice, TreeStructure
from baco.compiler.mapping.tree import Tile
from baco.compiler.mapping.tree_cost import TreeCost, tree_cost

#: Weight of how seldom a branch was taken.
_CURIOSITY = 0.5


@dataclass(frozen=True)
class SizedTree:
    """A tree that runs on its machine, and what it costs."""

    structure: TreeStructure
    tree: Tile
    cost: TreeCost

    @property
    def value(self) -> tuple[float, float]:
        """Cycles and energy, by which trees are compared."""
        return float(self.cost.cycles), float(self.cost.energy_pj)


@dataclass
class _Node:
    visits: int = 0
    reward: float = 0.0
    options: list[int] | None = None
    children: dict[int, _Node] = field(default_factory=dict)

    def promise(self, child: _Node) -> float:
        """Upper confidence bound of what lies behind a child."""
        return child.reward / child.visits + _CURIOSITY * math.sqrt(
            float(portable.log(self.visits)) / child.visits
        )


class MonteCarloTree:
    """Asks for sizes of a structure, one choice after the other; is told how good they are.

    Args:
        seed: of what is drawn.
    """

    def __init__(self, structure: TreeStructure, seed: int) -> None:
        self._structure, self._order, self._drawn = structure, structure.choices(), random.Random(seed)
        self._root = _Node()
        self._path: list[_Node] = []

    def ask(self) -> dict[Choice, int]:
        """A size for each choice: known ones by upper confidence bounds, the first new one and all behind it at random."""
        made: dict[Choice, int] = {}
        node = self._root
        self._path = [node]
        for choice in self._order:
            if node.options is None:
                node.options = self._structure.options(choice, made)
            fresh = [size for size in node.options if size not in node.children]
            if fresh:
                size = self._drawn.choice(fresh)
                node.children[size] = _Node()
            else:
                size = max(node.options, key=lambda one: node.promise(node.children[one]))
            made[choice] = size
            node = node.children[size]
            self._path.append(node)
            if fresh:
                break
        for choice in self._order[len(made) :]:
            made[choice] = self._drawn.choice(self._structure.options(choice, made))
        return made

    def tell(self, reward: float) -> None:
        """How good the sizes asked for last are, 0 to 1."""
        for one in self._path:
            one.visits += 1
            one.reward += reward


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


def search_sizes(structure: TreeStructure, trials: int, seed: int) -> SizedTree | None:
    """The tree of least latency among so many that are looked at, least energy among equals; None where none runs."""
    sampler, best = MonteCarloTree(structure, seed), None
    seen: dict[tuple[int, ...], SizedTree | None] = {}
    for _ in range(trials):
        made = sampler.ask()
        key = tuple(made.values())
        if key not in seen:
            seen[key] = rated(structure, made)
        found = seen[key]
        if found is not None and (best is None or found.value < best.value):
            best = found
        sampler.tell(0.0 if found is None or best is None else float(best.cost.cycles / found.cost.cycles))
    return best
