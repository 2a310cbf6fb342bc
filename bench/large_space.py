"""Searchers in the space of sizes and settings, whole programs, at equal evaluations and equal time: `python -m bench.large_space`.

A run goes on until both budgets are used, and its curve says what was best at either. Seconds are those of the processor that a
process has had, so that they mean the same on a busy machine; what a search needs to know of a network is not counted. Runs are
kept and not repeated. Intervals are of the mean over networks and seeds of the logarithm of a ratio (Student's t over networks,
each the mean of its seeds, since seeds of a network are alike).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from common.files import atomic_write
from explore.cost.model import make_cost_model
from explore.cost.rest import rest_by_settings
from explore.layers import layers_of_tasks
from explore.objective import Objective
from explore.search.base import SearchSetup, make_searcher
from explore.space import load_space
from workloads.inputs.load import load_network
from workloads.network import Workload

__all__ = ["NETWORKS", "SEARCHERS", "LargeRun", "Ratio", "execute", "ratio", "summary"]

NETWORKS = ("resnet18", "mobilenet_v2", "bert_base", "unet", "vit_b16")
#: The main searcher with descent and without, and its peers.
SEARCHERS = ("gradient", "local", "bayesian", "random", "genetic")
SPACE = "gemmini-large"


@dataclass(frozen=True)
class LargeRun:
    """One run: improvements as (evaluations, seconds of the processor, objective), and what it had spent in the end."""

    network: str
    searcher: str
    seed: int
    tasks: int
    evaluations: int
    seconds: float
    curve: tuple[tuple[int, float, float], ...]

    def after(self, seconds: float) -> float:
        """The best objective after so many seconds; infinite before any."""
        return min((value for _, clock, value in self.curve if clock <= seconds), default=math.inf)

    def at(self, samples: int) -> float:
        """The best objective after so many samples."""
        return min(
            (value for spent, _, value in self.curve if spent <= samples * self.tasks), default=math.inf
        )


def setup_of(network: str, seed: int) -> SearchSetup:
    """A search of the least EDP of a network's whole program. Raises InputError for a network that is not there."""
    workload, space = Workload.of([load_network(network)]), load_space(SPACE)
    rest = rest_by_settings(workload, space)
    if not rest.units_may_pay(power_bounded=False):
        rest, space = rest.without_units(), space.without_units()
    model = make_cost_model("instruction", layers_of_tasks(workload.tasks, workload), space, rest)
    return SearchSetup(workload.tasks, space, Objective(("edp",)), None, seed, model)


def execute(network: str, searcher: str, seed: int, samples: int, seconds: float) -> LargeRun:
    """Run until both budgets are used, or for three times as long as `seconds`."""
    torch.set_num_threads(1)
    setup = setup_of(network, seed)
    begin = time.process_time()
    engine, curve = make_searcher(searcher, setup), []
    spent, clock, best = 0, 0.0, math.inf
    while clock < 3 * seconds and (clock < seconds or spent < samples * len(setup.tasks)):
        result = engine.step()
        clock, spent = time.process_time() - begin, result.evaluations
        least = min((one.objective for one in result.candidates), default=math.inf)
        if least < best:
            best = least
            curve.append((spent, clock, least))
        if result.done:
            break
    return LargeRun(network, searcher, seed, len(setup.tasks), spent, clock, tuple(curve))


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of one searcher's objective over another's, and its interval of 95%."""

    mean: float
    low: float
    high: float
    networks: int
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio(one: dict[tuple[str, int], float], other: dict[tuple[str, int], float]) -> Ratio | None:
    """Of values by network and seed; None without two networks that both have."""
    pairs = [
        (key[0], math.log(value / other[key]))
        for key, value in one.items()
        if key in other and math.isfinite(value) and math.isfinite(other[key])
    ]
    means = [
        np.mean([log for name, log in pairs if name == network])
        for network in dict.fromkeys(n for n, _ in pairs)
    ]
    if len(means) < 2:
        return None
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means)))
    wide = float(student.ppf(0.975, len(means) - 1)) * error
    return Ratio(math.exp(mean), math.exp(mean - wide), math.exp(mean + wide), len(means), len(pairs))


def summary(runs: Sequence[LargeRun], samples: int, seconds: float, main: str) -> dict[str, Any]:
    """Ratios of the searcher `main` to every other one at equal evaluations and at equal time."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(run.searcher for run in runs):
        if name == main:
            continue
        budgets: dict[str, Callable[[LargeRun], float]] = {
            "samples": lambda run: run.at(samples),
            "seconds": lambda run: run.after(seconds),
        }
        for what, of in budgets.items():
            values = [
                {(run.network, run.seed): of(run) for run in runs if run.searcher == searcher}
                for searcher in (main, name)
            ]
            one = ratio(*values)
            found[f"{main} / {name}, equal {what}"] = None if one is None else asdict(one)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not there yet, and write a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--searchers", nargs="*", default=SEARCHERS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("results/large-space.json"))
    options = parser.parse_args(arguments)
    runs: list[LargeRun] = []
    if options.out.exists():
        runs = [
            LargeRun(**{**one, "curve": tuple(tuple(point) for point in one["curve"])})
            for one in json.loads(options.out.read_text("utf-8"))["runs"]
        ]
    there = {(run.network, run.searcher, run.seed) for run in runs}
    for seed in range(options.seeds):
        for network in options.networks:
            for searcher in options.searchers:
                if (network, searcher, seed) in there:
                    continue
                run = execute(network, searcher, seed, options.samples, options.seconds)
                runs.append(run)
                print(
                    f"{network}, {searcher}, {seed}: {run.after(options.seconds):.4e} in {options.seconds:g} s,"
                    f" {run.at(options.samples):.4e} in {options.samples} samples; {run.evaluations / run.tasks:,.0f}"
                    f" samples in {run.seconds:.1f} s",
                    flush=True,
                )
                content = {
                    "samples": options.samples,
                    "seconds": options.seconds,
                    "summary": {
                        **summary(runs, options.samples, options.seconds, "gradient"),
                        **summary(runs, options.samples, options.seconds, "local"),
                    },
                    "runs": [asdict(one) for one in runs],
                }
                atomic_write(options.out, json.dumps(content) + "\n")
    for name, one in content["summary"].items() if runs else ():
        print(name, "-" if one is None else Ratio(**one))


if __name__ == "__main__":
    main()
