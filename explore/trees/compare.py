"""A chain of operators on a machine: published dataflows and the tree that a search finds, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baco.common.errors import InfeasibleError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.text import format_tree
from baco.exploration.trees.dataflows import dataflow, dataflow_names
from baco.exploration.trees.genetic import search_trees
from baco.exploration.trees.sizes import SizedTree, search_sizes

__all__ = ["SEARCHED", "compare_trees", "trees_table"]

#: Name of the row of the search.
SEARCHED = "searched"
#: Trees looked at for the sizes of each published dataflow, and of each structure that a search looks at.
_TRIALS, _SHARE = 1000, 150


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

    Raises InputError for operators that are no chain, InfeasibleError where the search finds nothing either.
    """
    rows, known = [], []
    for name in dataflow_names(operators):
        structure = dataflow(name, operators, machine)
        known.append(structure)
        rows.append(_row(name, search_sizes(structure, _TRIALS, seed)))

    def tell(number: int, best: SizedTree | None) -> None:
        cycles = "nothing fits yet" if best is None else f"{best.cost.cycles:,.0f} cycles"
        watch(f"generation {number + 1} of {rounds}: {cycles}")

    best = search_trees(operators, machine, known=known, rounds=rounds, trials=_SHARE, seed=seed, watch=tell)
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
