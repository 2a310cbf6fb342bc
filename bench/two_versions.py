"""Two versions of the search at equal samples, run by run in turn: `python -m baco.bench.two_versions OLD NEW [NETWORK]...`.

`OLD` and `NEW` are Pythons (`.venv/bin/python` of two checkouts). Each searches for every network and seed with the same budget,
without a report; a page of what the new one's best design costs of the old one's, and its processor time, is printed. Finished
runs are kept in `--out` and not repeated. Costs are those that each version predicts: compare versions whose models agree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baco.common.errors import InputError
from baco.common.files import atomic_write, output_folder

#: A search by itself, as versions with `baco.exploration` know it: network, seed, samples, folder.
_SEARCH = """
import json, pathlib, resource, sys
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
try:
    from baco.exploration.space import in_technology
except ImportError:  # of versions whose spaces are all in the published technology
    in_technology = lambda space, name: space
from baco.exploration.studies.engine import run_exploration
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

network, seed, samples, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
space = in_technology(load_space("gemmini"), "published-45nm")
found = run_exploration(Workload.of([load_network(network)]), space, Objective.parse("edp"), samples=samples, seed=seed, out=folder)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"objective": found.best.objective, "samples": found.evaluations, "processor_seconds": used.ru_utime + used.ru_stime}))
"""
NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "unet", "gpt2")


@dataclass(frozen=True)
class VersionRun:
    """One search by one version.

    Attributes:
        objective: EDP of the best design in µJ·cycles.
        samples: evaluations spent.
        processor_seconds: of the search, start included.
    """

    objective: float
    samples: int
    processor_seconds: float


def run_version(python: str, network: str, seed: int, samples: int, folder: Path) -> VersionRun:
    """Search, or read what an earlier search left in `folder`. Raises InputError when it fails."""
    kept = folder / "run.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as study:
            words = [python, "-c", _SEARCH, network, str(seed), str(samples), study]
            done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=study)
        if done.returncode:
            raise InputError(f"{python} failed to search for {network}: {done.stderr.strip()[-500:]}")
        atomic_write(kept, done.stdout)
    return VersionRun(**json.loads(kept.read_text()))


def page(pairs: dict[str, list[tuple[VersionRun, VersionRun]]]) -> str:
    """A row a network, from (old, new) runs of its seeds: geometric mean of the new EDP over the old, with its standard error."""
    lines = [
        "| network | EDP, new / old | standard error | by seed | processor time, new / old |",
        "|" + "---|" * 5,
    ]
    every: list[float] = []
    for network, runs in pairs.items():
        logs = [math.log(new.objective / old.objective) for old, new in runs]
        every += logs
        times = [math.log(new.processor_seconds / old.processor_seconds) for old, new in runs]
        ratios = ", ".join(f"{math.exp(one):.4f}" for one in logs)
        lines.append(
            f"| {network} | {math.exp(statistics.fmean(logs)):.4f} | {_error(logs):.4f} | {ratios}"
            f" | {math.exp(statistics.fmean(times)):.2f} |"
        )
    lines.append(f"| all | {math.exp(statistics.fmean(every)):.4f} | {_error(every):.4f} | | |")
    return "\n".join(lines)


def _error(logs: Sequence[float]) -> float:
    """Of the mean, as a ratio; of one value, none."""
    return statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan


def main(arguments: Sequence[str]) -> None:
    """See the module's description."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.two_versions")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("baco-bench/two-versions"))
    asked = parser.parse_args(arguments)
    pairs: dict[str, list[tuple[VersionRun, VersionRun]]] = {}
    # all networks with one seed before the next seed: what there is so far is of all of them
    for seed, network in itertools.product(range(asked.seeds), asked.networks):
        old, new = (
            run_version(
                python,
                network,
                seed,
                asked.samples,
                output_folder(asked.out, kind, f"{network.replace(':', '-')}-{seed}"),
            )
            for kind, python in (("old", asked.old), ("new", asked.new))
        )
        pairs.setdefault(network, []).append((old, new))
        print(
            f"{network}, seed {seed}: {old.objective:.5e} -> {new.objective:.5e} µJ·cycles,"
            f" {old.processor_seconds:.1f} -> {new.processor_seconds:.1f} processor seconds",
            file=sys.stderr,
            flush=True,
        )
    print(page(pairs))


if __name__ == "__main__":
    main(sys.argv[1:])
