"""Fused dataflows on the machines of TileFlow's comparison: published ones against the trees that a search finds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.common.files import atomic_write, output_folder
from baco.common.text import markdown_table
from baco.compiler.mapping.chains import parse_chain
from baco.compiler.mapping.machines import load_machine
from baco.exploration.samplers.tree_structures import SEARCHED, compare_trees

__all__ = ["TREE_CHAINS", "TREE_MACHINES", "trees", "trees_page"]

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


def trees(
    chains: Sequence[str] = tuple(TREE_CHAINS),
    *,
    machines: Sequence[str] = TREE_MACHINES,
    rounds: PositiveInt = 8,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    out: Path = Path("baco-bench"),
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Fused dataflows of chains of operators on the Edge and Cloud machines: published ones and searched tile trees.

    Args:
        chains (--chain): repeatable, as of `baco fuse`; by default nine.
        rounds: generations of each search.
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for trees.md and trees.json.

    A row a chain and machine: cycles and words of main memory of every dataflow, by seed. Raises as `compare_trees`.
    """
    folder = output_folder(out)
    rows: list[dict[str, Any]] = []
    for machine in machines:
        for chain in chains:
            operators, on = parse_chain(TREE_CHAINS.get(chain, chain)), load_machine(machine)
            watch(f"{chain} on {machine}")
            found = [compare_trees(operators, on, rounds=rounds, seed=seed) for seed in range(seeds)]
            flows = {
                one["dataflow"]: {
                    "cycles": [run[n]["cycles"] for run in found],
                    "dram_words": [run[n]["dram_words"] for run in found],
                }
                for n, one in enumerate(found[0])
            }
            rows.append(
                {"machine": machine, "chain": chain, "dataflows": flows, "tree": found[0][-1]["tree"]}
            )
            atomic_write(folder / "trees.json", json.dumps(rows, indent=1) + "\n")
            atomic_write(folder / "trees.md", trees_page(rows))
    return rows


def trees_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: how many times faster than layer by layer each dataflow is, medians over the seeds."""
    seeds = len(rows[0]["dataflows"][SEARCHED]["cycles"])
    lines = [
        "# Fused dataflows by analysis: published ones and searched trees",
        "",
        f"Times faster than layer by layer, each dataflow with the best tile sizes found for it (medians of {seeds} seeds; the range of"
        " the search in brackets), and words of main memory of the searched tree against layer by layer. A dash: no tiles fit.",
    ]
    for machine in dict.fromkeys(row["machine"] for row in rows):
        for attention in (True, False):
            mine = [
                row
                for row in rows
                if row["machine"] == machine and ("isos" not in row["dataflows"]) == attention
            ]
            if mine:
                lines += ["", f"**{machine}**", "", _table(mine)]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row a chain, and geometric means."""
    names = list(rows[0]["dataflows"])
    gains: dict[str, list[float]] = {name: [] for name in names}
    found = []
    for row in rows:
        flows = row["dataflows"]
        base, cells = _median(flows["layerwise"]["cycles"]), []
        for name in names:
            cycles = flows[name]["cycles"]
            if None in cycles:
                cells.append("–")
                continue
            gains[name].append(base / _median(cycles))
            spread = f" ({base / max(cycles):.2f} to {base / min(cycles):.2f})" if name == SEARCHED else ""
            cells.append(f"{gains[name][-1]:.2f}{spread}")
        share = _median(flows[SEARCHED]["dram_words"]) / _median(flows["layerwise"]["dram_words"])
        found.append([row["chain"], *cells, f"{share:.1%}"])
    means = [
        f"{statistics.geometric_mean(ones):.2f}" if len(ones) == len(rows) else "–" for ones in gains.values()
    ]
    return markdown_table(["chain", *names, "words"], [*found, ["geometric mean", *means, ""]])


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
