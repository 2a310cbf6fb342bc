"""Fused dataflows on the machines of TileFlow's comparison: published ones against the trees that a search finds."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.harness.experiment import (
    FOLDER,
    ResultFiles,
    Say,
    each,
    geometric_mean,
    page_of,
    silent,
    table,
)
from baco.compiler.mapping.chains import parse_chain
from baco.compiler.mapping.machines import load_machine
from baco.exploration.samplers.tree_structures import SEARCHED, compare_trees

TREE_MACHINES = ("edge", "cloud")
#: Attention of the networks of Chimera's and TileFlow's tables (G1 to G6), and three of their chains of convolutions.
TREE_CHAINS = {
    "BERT-small": "attention:heads=8,seq=512,dim=64",
    "BERT-base": "attention:heads=12,seq=512,dim=64",
    "BERT-large": "attention:heads=16,seq=512,dim=64",
    "ViT-base/14": "attention:heads=12,seq=256,dim=64",
    "ViT-large/14": "attention:heads=16,seq=256,dim=64",
    "ViT-huge/14": "attention:heads=16,seq=256,dim=80",
    "C3": "convolutions:channels=64,height=56,width=56,first=128,second=64",
    "C4": "convolutions:channels=128,height=28,width=28,first=256,second=128",
    "C6": "convolutions:channels=64,height=56,width=56,first=64,second=64",
}


def run(
    chains: Sequence[str] = tuple(TREE_CHAINS),
    *,
    machines: Sequence[str] = TREE_MACHINES,
    rounds: PositiveInt = 8,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Fused dataflows of chains of operators on the Edge and Cloud machines: published ones and searched tile trees.

    Args:
        chains (--chain): repeatable, as of `baco fuse`; by default nine.
        rounds: generations of each search.
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for trees.md and trees.json.

    A row a chain and machine: cycles and words of main memory of every dataflow, by seed.

    Raises as `compare_trees`.
    """
    files = ResultFiles(out, "trees", page)
    rows: list[dict[str, Any]] = []
    for machine, chain in itertools.product(machines, chains):
        operators, on = parse_chain(TREE_CHAINS.get(chain, chain)), load_machine(machine)
        say(f"{chain} on {machine}")
        found = [compare_trees(operators, on, rounds=rounds, seed=seed) for seed in range(seeds)]
        flows = {
            one["dataflow"]: {name: [run[n][name] for run in found] for name in ("cycles", "dram_words")}
            for n, one in enumerate(found[0])
        }
        rows.append({"machine": machine, "chain": chain, "dataflows": flows, "tree": found[0][-1]["tree"]})
        files.keep(rows)
    return rows


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many times faster than layer by layer each dataflow is, medians over the seeds."""
    seeds = len(rows[0]["dataflows"][SEARCHED]["cycles"])
    parts = []
    for machine in dict.fromkeys(row["machine"] for row in rows):
        ours = [row for row in rows if row["machine"] == machine]
        kinds = [[row for row in ours if ("isos" in row["dataflows"]) == other] for other in (False, True)]
        parts += [f"**{machine}**\n\n{_table(mine)}" for mine in kinds if mine]
    return page_of(
        "Fused dataflows by analysis: published ones and searched trees",
        f"Times faster than layer by layer, each dataflow with the best tile sizes found for it (medians of {seeds} seeds; the range of"
        " the search in brackets), and words of main memory of the searched tree against layer by layer. A dash: no tiles fit.",
        *parts,
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row a chain, and geometric means."""
    names = list(rows[0]["dataflows"])

    def gain(row: Mapping[str, Any], name: str) -> float | None:
        cycles = row["dataflows"][name]["cycles"]
        return None if None in cycles else _alone(row, "cycles") / float(statistics.median(cycles))

    def cell(name: str, row: Mapping[str, Any]) -> str:
        value, cycles, base = gain(row, name), row["dataflows"][name]["cycles"], _alone(row, "cycles")
        if value is None:
            return "–"
        spread = f" ({base / max(cycles):.2f} to {base / min(cycles):.2f})" if name == SEARCHED else ""
        return f"{value:.2f}{spread}"

    def words(row: Mapping[str, Any]) -> str:
        searched = statistics.median(row["dataflows"][SEARCHED]["dram_words"])
        return f"{searched / _alone(row, 'dram_words'):.1%}"

    means = [geometric_mean(gain(row, name) for row in rows) for name in names]
    columns = each({name: name for name in names}, cell)
    return table(
        rows,
        {"chain": lambda row: row["chain"], **columns, "words": words},
        ["geometric mean", *("–" if mean is None else f"{mean:.2f}" for mean in means), ""],
    )


def _alone(row: Mapping[str, Any], what: str) -> float:
    """Of layer by layer."""
    return float(statistics.median(row["dataflows"]["layerwise"][what]))
