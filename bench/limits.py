"""How much is left: the best EDP that the default search finds, above limits that no design can beat.

python -m baco.bench.limits [NETWORK ...] [--technology NAME ...] [--out FOLDER] [--samples N] [--seed N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from baco.exploration.cost.fitting_limits import least_edp
from baco.exploration.cost.limits import limits_of
from baco.exploration.objective import Objective
from baco.exploration.space import in_technology, load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

NETWORKS = ("resnet50", "mobilenet_v2", "bert_base", "unet", "retinanet", "gpt2")
#: What designs are compared in: published results', whose memory is slower than the port of accelerators, and one whose memory is not.
TECHNOLOGIES = ("published-45nm", "ihp-sg13g2")


def measure(network: str, technology: str, samples: int | None, seed: int) -> dict[str, float | str]:
    """One search in the default space, its best EDP (µJ·cycles) over both limits, and processor seconds that these take."""
    workload, objective = Workload.of([load_network(network)]), Objective.parse("edp")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "study")
        space = in_technology(load_space("gemmini"), technology)
        run_exploration(workload, space, objective, samples=samples, seed=seed, out=out)
        with StudyRecord.open(out / FILE_NAME, read_only=True) as study:
            best, space, rest = study.best(), study.space(), study.rest
    assert best is not None
    layers = layers_of_tasks(best.tasks, workload)
    start = time.process_time()
    limits = limits_of(best.tasks, space, layers, rest)
    compulsory = limits.edp
    between = time.process_time()
    capacity = least_edp(limits, layers, best.cost.edp)
    return {
        "technology": technology,
        "network": network,
        "edp": best.cost.edp,
        "compulsory": best.cost.edp / compulsory,
        "capacity": best.cost.edp / capacity,
        "compulsory_seconds": between - start,
        "capacity_seconds": time.process_time() - between,
    }


def table(rows: Sequence[dict[str, float | str]]) -> str:
    """The page of some networks in some technologies."""
    lines = [
        "| technology | network | best EDP, µJ·cycles | over compulsory work | over capacity | processor s of the limits |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for technology in dict.fromkeys(row["technology"] for row in rows):
        ones = [row for row in rows if row["technology"] == technology]
        lines += [
            f"| {technology} | {row['network']} | {row['edp']:.5g} | {row['compulsory']:.4f} | {row['capacity']:.4f}"
            f" | {row['compulsory_seconds']:.2f} + {row['capacity_seconds']:.2f} |"
            for row in ones
        ]
        means = [
            np.exp(np.mean(np.log([float(row[name]) for row in ones]))) for name in ("compulsory", "capacity")
        ]
        lines.append(f"| {technology} | geometric mean | | {means[0]:.4f} | **{means[1]:.4f}** | |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--technology", action="append", help="repeatable; by default two")
    parser.add_argument("--out", type=Path, help="folder for limits.md")
    parser.add_argument(
        "--samples", type=int, help="design points of each search; the default budget otherwise"
    )
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    rows = [
        measure(network, technology, chosen.samples, chosen.seed)
        for technology in chosen.technology or TECHNOLOGIES
        for network in chosen.networks
    ]
    page = table(rows)
    print(page, end="")
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        head = f"# Best design over the limits\n\nDefault space and search, seed {chosen.seed}.\n\n"
        (chosen.out / "limits.md").write_text(head + page, encoding="utf-8")


if __name__ == "__main__":
    main()
