"""Structures by a genetic algorithm, each judged by the sizes that are found for it (TileFlow)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.machine import Machine
from baco.exploration.trees.sizes import SizedTree, SizeSearch, search_sizes
from baco.exploration.trees.structure import Gene, TreeStructure, check_chain, genes

__all__ = ["search_trees"]

_POPULATION, _PARENTS, _MUTATION = 16, 6, 0.25
#: A structure: its genes, and the dimensions that no loop around its groups cuts (fewer sizes to search).
_Key = tuple[tuple[Gene, ...], frozenset[str]]


def search_trees(
    operators: Sequence[Contraction],
    machine: Machine,
    *,
    known: Sequence[TreeStructure] = (),
    rounds: int = 12,
    trials: int = 200,
    seed: int = 0,
    sizes: SizeSearch = search_sizes,
    watch: Callable[[int, SizedTree | None], None] = lambda _, __: None,
) -> SizedTree | None:
    """The tree of least latency found for a chain of operators, least energy among equals; None where none runs.

    Args:
        known: structures to begin with (published dataflows, say), beside random ones.
        rounds: generations.
        trials: trees looked at for each structure; those that lead get as many again in every round.
        sizes: finds those of a structure.
        watch: told after every generation its number and the best so far.

    Raises InputError for operators that are no chain.
    """
    check_chain(operators)
    drawn = random.Random(seed)
    each = [genes(one, n, machine) for n, one in enumerate(operators)]
    dims = sorted({dim for one in operators for dim in one.extents})
    best: dict[_Key, SizedTree | None] = {}
    looked: dict[_Key, int] = {}

    def judge(structure: TreeStructure) -> None:
        key = structure.genes, structure.fixed
        looked[key] = looked.get(key, 0) + 1
        found = sizes(structure, trials * looked[key], seed + looked[key] - 1)
        before = best.get(key)
        if before is None or (found is not None and _order(found) < _order(before)):
            best[key] = found

    def child(one: _Key, other: _Key) -> TreeStructure:
        mixed = [drawn.choice(pair) for pair in zip(one[0], other[0], strict=True)]
        mixed = [
            drawn.choice(each[n]) if drawn.random() < _MUTATION else gene for n, gene in enumerate(mixed)
        ]
        fixed = set(drawn.choice((one, other))[1])
        if drawn.random() < _MUTATION:
            fixed ^= {drawn.choice(dims)}
        return TreeStructure(tuple(operators), machine, tuple(mixed), frozenset(fixed)).canonical

    for structure in known:
        judge(structure)
    for _ in range(_POPULATION):
        judge(TreeStructure(tuple(operators), machine, tuple(drawn.choice(one) for one in each)).canonical)
    for number in range(rounds):
        parents = sorted((key for key, one in best.items() if one), key=lambda key: _order(best[key]))[
            :_PARENTS
        ]
        watch(number, best[parents[0]] if parents else None)
        if parents:
            judge(TreeStructure(tuple(operators), machine, *parents[0]))
        parents = parents or list(best)
        for _ in range(_POPULATION):
            new = child(drawn.choice(parents), drawn.choice(parents))
            if (new.genes, new.fixed) not in best:
                judge(new)
    return min((one for one in best.values() if one), key=_order, default=None)


def _order(one: SizedTree | None) -> tuple[float, float]:
    assert one is not None
    return float(one.cost.cycles), float(one.cost.energy_pj)
