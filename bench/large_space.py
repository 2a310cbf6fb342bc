"""Searchers in the space of sizes and settings, whole programs, at equal evaluations and equal time: `python -m baco.bench.large_space`.

A run goes on until both budgets are used, and its curve says what was best at either. Seconds are those of the processor that a
process has had, so that they mean the same on a busy machine; what a search needs to know of a network is not counted. Intervals
are of the mean over networks and seeds of the logarithm of a ratio (Student's t over networks, each the mean of its seeds, since
seeds of a network are alike).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from baco.bench.curves import figure
from baco.bench.harness.experiment import ResultFiles, each, geometric_mean, page_of, table
from baco.bench.large_space_peers import PEERS, HardwareSearch
from baco.bench.runs import RunKey, RunShelf, SearchRun, load
from baco.bench.sets.spaces import published_space
from baco.common.files import atomic_write, output_folder
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.program_rest import rest_by_settings, searched_tasks
from baco.exploration.objective import Objective
from baco.exploration.samplers.descent import GradientSearch
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup
from baco.exploration.search.settings import SettingsSearch
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

NETWORKS = ("resnet18", "mobilenet_v2", "bert_base", "unet", "vit_b16")
#: The main searcher, and the same with gradient descent.
MAIN, DESCENT = "gradient", "gradient-descent"
SEARCHERS = (MAIN, DESCENT, *PEERS, "bayesian", "genetic", "random")
SPACE = "gemmini-large"
#: What searchers are called on the page.
_NAMES = {
    MAIN: "main",
    DESCENT: "main, with descent",
    "cma-es": "CMA-ES, mappings searched",
    "turbo": "TuRBO, mappings searched",
    "bayesian": "TPE, random mappings",
    "genetic": "NSGA-II of hardware and mappings",
    "random": "random",
}
#: Shares of the seconds that the table of curves shows.
_SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)


def setup_of(network: str, seed: int) -> SearchSetup:
    """A search of the least EDP of a network's whole program. Raises InputError for a network that is not there."""
    workload, space = Workload.of([load_network(network)]), published_space(SPACE)
    rest = rest_by_settings(workload, space)
    if not rest.units_may_pay(power_bounded=False):
        rest, space = rest.without_units(), space.without_units()
    tasks = searched_tasks(workload, space)
    model = make_cost_model("instruction", layers_of_tasks(tasks, workload), space, rest)
    return SearchSetup(tasks, space, Objective(("edp",)), None, seed, model)


class _WithDescent(GradientSearch):
    """The main searcher with 4% of its evaluations spent on gradient descent."""

    macro_descent_share = 0.04


def make(name: str, setup: SearchSetup) -> Searcher | HardwareSearch:
    """A searcher by name: one of this bench, or one that everybody has."""
    if name == DESCENT:
        return SettingsSearch(setup, _WithDescent)
    if name in PEERS:
        return HardwareSearch(setup, PEERS[name])
    return make_searcher(name, setup)


def execute(key: RunKey, seconds: float) -> SearchRun:
    """Run until both budgets are used, or for three times as long as `seconds`."""
    torch.set_num_threads(1)
    setup = setup_of(key.network, key.seed)
    begin = time.process_time()
    engine, curve = make(key.searcher, setup), []
    spent, clock, best = 0, 0.0, math.inf
    while clock < 3 * seconds and (clock < seconds or spent < key.samples * len(setup.tasks)):
        result = engine.step()
        clock, spent = time.process_time() - begin, result.evaluations
        least = min((one.objective for one in result.candidates), default=math.inf)
        if least < best:
            best = least
            curve.append((spent, clock, least))
        if result.done:
            break
    return SearchRun(key, len(setup.tasks), spent, clock, tuple(curve))


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


#: Networks and seeds.
Values = dict[tuple[str, int], float | None]


def ratio(one: Values, other: Values) -> Ratio | None:
    """Of values by network and seed; None without two networks that both have."""
    pairs = []
    for key, value in one.items():
        against = other.get(key)
        if value is not None and against is not None:
            pairs.append((key[0], math.log(value / against)))
    means = [
        np.mean([log for name, log in pairs if name == network])
        for network in dict.fromkeys(n for n, _ in pairs)
    ]
    if len(means) < 2:
        return None
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means)))
    wide = float(student.ppf(0.975, len(means) - 1)) * error
    return Ratio(math.exp(mean), math.exp(mean - wide), math.exp(mean + wide), len(means), len(pairs))


def _values(runs: Sequence[SearchRun], searcher: str, of: Callable[[SearchRun], float | None]) -> Values:
    return {(run.key.network, run.key.seed): of(run) for run in runs if run.key.searcher == searcher}


def summary(
    runs: Sequence[SearchRun], samples: int, seconds: float
) -> dict[str, tuple[Ratio | None, Ratio | None]]:
    """Of every other searcher, ratios of the main one's EDP to its, after as many seconds and after as many samples."""

    def at(run: SearchRun) -> float | None:
        return run.best_at(samples * run.tasks)

    def after(run: SearchRun) -> float | None:
        return run.best_after(seconds)

    there = {run.key.searcher for run in runs}
    return {
        name: (
            ratio(_values(runs, MAIN, after), _values(runs, name, after)),
            ratio(_values(runs, MAIN, at), _values(runs, name, at)),
        )
        for name in SEARCHERS
        if name in there and name != MAIN
    }


def page(runs: Sequence[SearchRun], samples: int, seconds: float) -> str:
    """What the runs come to, as Markdown."""
    there = [name for name in SEARCHERS if any(run.key.searcher == name for run in runs)]
    networks = list(dict.fromkeys(run.key.network for run in runs))
    against = [entry for entry in summary(runs, samples, seconds).items() if any(entry[1])]
    main_end = _values(runs, MAIN, lambda run: run.best_after(seconds))

    def text(ratio: Ratio | None) -> str:
        return "" if ratio is None else str(ratio)

    def end(network: str, name: str) -> str:
        own = [run for run in runs if (run.key.searcher, run.key.network) == (name, network)]
        mean = geometric_mean(run.best_after(seconds) for run in own)
        return "" if mean is None else f"{mean:.3e}"

    def rate(name: str) -> str:
        own = [run for run in runs if run.key.searcher == name]
        return f"{geometric_mean(run.evaluations / run.tasks / run.seconds for run in own):,.0f}"

    def on_the_way(share: float, name: str) -> str:
        over = ratio(_values(runs, name, lambda run: run.best_after(share * seconds)), main_end)
        return "" if over is None else f"{over.mean:.2f}"

    called = {"": lambda name: _NAMES[name]}
    return page_of(
        "Searchers in the space of sizes and settings",
        f"Space `{SPACE}`, EDP of whole programs without fusion, predicted (instruction-aware model and the rest of"
        f" programs). A run takes {seconds:g} s of processor time on one thread, and at least {samples:,} samples where these"
        " take no more than three times as long; a sample is a mapping of every layer. Peers that search mappings do so on each"
        " accelerator as the main searcher does, 100 samples each, from the best ones known.",
        "## EDP of the main searcher over that of others",
        "Geometric means with 95% intervals over networks (each the mean of its seeds; runs with the same seed are paired).",
        table(
            against,
            {
                "against": lambda entry: _NAMES[entry[0]],
                f"after {seconds:g} s": lambda entry: text(entry[1][0]),
                f"after {samples:,} samples": lambda entry: text(entry[1][1]),
                "runs": lambda entry: next(ratio.runs for ratio in entry[1] if ratio),
            },
        ),
        f"## EDP after {seconds:g} s",
        "µJ·cycles at 1 GHz, geometric means over the seeds that there are; and samples in a second.",
        table(there, {**called, **each({network: network for network in networks}, end), "samples/s": rate}),
        f"## EDP on the way, over the main searcher's after {seconds:g} s",
        table(there, {**called, **each({f"{share * seconds:g} s": share for share in _SHARES}, on_the_way)}),
        "Curves: [large-space.png](large-space.png), bands from the best to the worst seed.",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not there yet, and write the page of all runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--searchers", nargs="*", default=SEARCHERS, choices=SEARCHERS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=Path, default=Path("results/runs/large-space"))
    parser.add_argument("--out", type=Path, help="folder for page, figures and curves; none: only run")
    options = parser.parse_args(arguments)
    shelf = RunShelf(output_folder(options.runs))
    for seed in range(options.seeds):
        for network in options.networks:
            for searcher in options.searchers:
                key = RunKey(network, SPACE, searcher, seed, options.samples, "instruction")
                name = f"{network}_{searcher}_{seed}_{options.samples}_{options.seconds:g}s.json"
                if shelf.get(name) is not None or not shelf.claim(name):
                    continue
                run = shelf.put(name, execute(key, options.seconds))
                print(f"{key.label}: {run.best_after(options.seconds)} in {run.seconds:.1f} s", flush=True)
    if options.out is not None:
        runs = [
            load(path) for path in sorted(options.runs.glob(f"*_{options.samples}_{options.seconds:g}s.json"))
        ]
        write(runs, options.samples, options.seconds, output_folder(options.out))


def write(runs: Sequence[SearchRun], samples: int, seconds: float, out: Path) -> None:
    """Page, figures and curves of runs."""
    runs = sorted(runs, key=lambda run: (run.key.network, SEARCHERS.index(run.key.searcher), run.key.seed))
    content: dict[str, Any] = {
        "samples": samples,
        "seconds": seconds,
        "main over (seconds, samples)": summary(runs, samples, seconds),
        "runs": runs,
    }
    ResultFiles(out, "large-space", str).keep_as(content, page(runs, samples, seconds))
    atomic_write(out / "large-space.png", figure(runs, "png"))


if __name__ == "__main__":
    main()
