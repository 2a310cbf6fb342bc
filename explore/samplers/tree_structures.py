"""Structures by a genetic algorithm, each judged by the sizes that are found for it (TileFlow); beside published dataflows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from baco.common.errors import InfeasibleError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.dataflows import dataflow, dataflow_names
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.structure import Gene, TreeStructure, check_chain, genes
from baco.compiler.mapping.text import format_tree
from baco.exploration.samplers.mcts import SizedTree, search_sizes
from baco.exploration.samplers.tree_descent import descend_sizes

#: Name of the row of the search.
SEARCHED = "searched"
#: Trees looked at for the sizes of each published dataflow, and of each structure that a search looks at.
_TRIALS, _SHARE = 1000, 150

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
    watch: Callable[[int, SizedTree | None], None] = lambda _, __: None,
) -> SizedTree | None:
    """The tree of least latency found for a chain of operators, least energy among equals; None where none runs.

    Args:
        known: structures to begin with (published dataflows, say), beside random ones.
        rounds: generations.
        trials: trees looked at for each structure; those that lead get as many again in every round.
        watch: told after every generation its number and the best so far.

    Raises InputError for operators that are no chain.
    """
    check_chain(operators)
    drawn = random.Random(seed)
    each = [genes(operator, n, machine) for n, operator in enumerate(operators)]
    dims = sorted({dim for operator in operators for dim in operator.extents})
    best: dict[_Key, SizedTree | None] = {}
    looked: dict[_Key, int] = {}

    def judge(structure: TreeStructure) -> None:
        key = structure.genes, structure.fixed
        looked[key] = looked.get(key, 0) + 1
        found = search_sizes(structure, trials * looked[key], seed + looked[key] - 1)
        before = best.get(key)
        if before is None or (found is not None and found.value < before.value):
            best[key] = found

    def child(parent: _Key, other: _Key) -> TreeStructure:
        mixed = [drawn.choice(pair) for pair in zip(parent[0], other[0], strict=True)]
        mixed = [
            drawn.choice(each[n]) if drawn.random() < _MUTATION else gene for n, gene in enumerate(mixed)
        ]
        fixed = set(drawn.choice((parent, other))[1])
        if drawn.random() < _MUTATION:
            fixed ^= {drawn.choice(dims)}
        return TreeStructure(tuple(operators), machine, tuple(mixed), frozenset(fixed)).canonical

    for structure in known:
        judge(structure)
    for _ in range(_POPULATION):
        judge(
            TreeStructure(
                tuple(operators), machine, tuple(drawn.choice(options) for options in each)
            ).canonical
        )
    for number in range(rounds):
        running = {key: tree for key, tree in best.items() if tree is not None}
        parents = sorted(running, key=lambda key: running[key].value)[:_PARENTS]
        watch(number, best[parents[0]] if parents else None)
        if parents:
            judge(TreeStructure(tuple(operators), machine, *parents[0]))
        parents = parents or list(best)
        for _ in range(_POPULATION):
            new = child(drawn.choice(parents), drawn.choice(parents))
            if (new.genes, new.fixed) not in best:
                judge(new)
    return _least(tree for tree in best.values() if tree)


def _least(trees: Iterable[SizedTree]) -> SizedTree | None:
    return min(trees, key=lambda one: one.value, default=None)


def compare_trees(
    operators: Sequence[Contraction],
    machine: Machine,
    *,
    rounds: int = 8,
    seed: int = 0,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row a dataflow, the searched one last: its name, cycles, energy in pJ, words of main memory and of all levels, arrays at
    work, and the tree as text; numbers are None where no tiles fit the machine.

    Published dataflows get the better sizes of two searches, tree search and gradient descent, since either alone leaves some
    of them several times slower than they can be. The search over structures begins with them, and looks at sizes of each
    structure by tree search, which is the faster of the two where only few trees are looked at.

    Raises InputError for operators that are no chain, InfeasibleError where the search finds nothing either.
    """
    rows, known, published = [], [], []
    for name in dataflow_names(operators):
        structure = dataflow(name, operators, machine)
        known.append(structure)
        sized = [one for find in (search_sizes, descend_sizes) if (one := find(structure, _TRIALS, seed))]
        published += sized
        rows.append(_row(name, _least(sized)))

    def tell(number: int, best: SizedTree | None) -> None:
        cycles = "nothing fits yet" if best is None else f"{best.cost.cycles:,.0f} cycles"
        watch(f"generation {number + 1} of {rounds}: {cycles}")

    searched = search_trees(
        operators, machine, known=known, rounds=rounds, trials=_SHARE, seed=seed, watch=tell
    )
    best = _least([*published, *([searched] if searched else [])])
    if best is None:
        raise InfeasibleError(
            f"no tiles of this chain fit {machine.name}", hint="more memory, or smaller operators"
        )
    return [*rows, _row(SEARCHED, best)]


def _row(name: str, found: SizedTree | None) -> dict[str, Any]:
    if found is None:
        return {"dataflow": name, "cycles": None, "energy_pj": None, "dram_words": None, "words": None, "arrays": None, "tree": None}  # fmt: skip
    cost = found.cost
    return {
        "dataflow": name,
        "cycles": float(cost.cycles),
        "energy_pj": float(cost.energy_pj),
        "dram_words": float(cost.words[-1]),
        "words": [float(one) for one in cost.words],
        "arrays": int(cost.arrays),
        "tree": format_tree(found.tree),
    }


def trees_table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table in Markdown, and the searched tree."""
    first = next((row["cycles"] for row in rows if row["cycles"] is not None), None)
    lines = [
        title,
        "",
        "| dataflow | cycles | times the first | energy, µJ | words of main memory | arrays |",
    ]
    lines.append("|---|--:|--:|--:|--:|--:|")
    for row in rows:
        if row["cycles"] is None:
            lines.append(f"| {row['dataflow']} | no tiles fit | | | | |")
            continue
        lines.append(
            f"| {row['dataflow']} | {row['cycles']:,.0f} | {first / row['cycles']:.2f}× faster |"
            f" {row['energy_pj'] * 1e-6:,.0f} | {row['dram_words']:,.0f} | {row['arrays']} |"
        )
    return "\n".join([*lines, "", str(rows[-1]["tree"])])
