"""What constraints cost: time of constrained searches over unconstrained ones, at equal samples.

`python -m baco.bench.constrained` prints a table. The bounds are drawn from the front of the unconstrained search:
each is a little above what a design of it has that is not the best one, so that the constraints are feasible and bind.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path

from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.space.constraints import Constraints, power_mw
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

#: Networks, and the space of each.
CASES = (
    (("resnet18",), "gemmini"),
    (("mobilenet_v2",), "gemmini"),
    (("bert_base",), "gemmini"),
    (("resnet18", "mobilenet_v2"), "gemmini"),
    (("resnet50",), "reference"),
)
#: Bounds are so much above the design they are taken from.
_ROOM = 1.05


def binding(free: SearchOutcome) -> Constraints:
    """Bounds on power and latency that some design of a front satisfies, but not the best one."""
    best, clock = free.best, free.best.accelerator.clock_mhz
    others = [one for one in free.front if power_mw(one.cost, clock) < 0.85 * power_mw(best.cost, clock)]
    taken = min(others or [best], key=lambda one: one.cost.edp)
    return Constraints(
        power_mw=power_mw(taken.cost, clock) * _ROOM,
        latency_cycles=taken.cost.latency_cycles * _ROOM,
    )


def timed(workload: Workload, space: DesignSpace, samples: int, seed: int) -> tuple[float, SearchOutcome]:
    """Processor seconds of a search, without a proof, and its outcome. Raises as `run_exploration`."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        found = run_exploration(
            workload, space, Objective.parse("edp"), samples=samples, seed=seed, out=Path(folder) / "study"
        )
        return time.process_time() - begun, found


def main() -> None:
    """Print a row for each case and seed, and the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    ratios = []
    print("| networks | space | seed | unconstrained, s | constrained, s | ratio | EDP ratio |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for names, space_name in CASES:
        workload = Workload.of([load_network(name) for name in names], [1.0] * len(names))
        space = load_space(space_name)
        for seed in range(options.seeds):
            seconds, free = timed(workload, space, options.samples, seed)
            bounded = dataclasses.replace(space, constraints=_both(space.constraints, binding(free)))
            longer, found = timed(workload, bounded, options.samples, seed)
            ratios.append(longer / seconds)
            print(
                f"| {', '.join(names)} | {space_name} | {seed} | {seconds:.1f} | {longer:.1f} | {ratios[-1]:.2f} |"
                f" {found.best.cost.edp / free.best.cost.edp:.3f} |",
                flush=True,
            )
    print(f"\nmedian ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")


def _both(one: Constraints, other: Constraints) -> Constraints:
    return one.model_copy(update=other.model_dump(exclude_unset=True))


if __name__ == "__main__":
    main()
