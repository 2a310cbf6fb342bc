"""A process that searches in small spaces, and prints a digest of each study: one line of JSON, by case.

Arguments: `quick`, `all`, or `libraries`, which leaves searches out
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.registry import mapping_of
from baco.exploration.measure.alternatives import MachineAlternatives
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.loop import MeasuredSearch
from baco.exploration.measure.measured_study import learned_prior
from baco.exploration.measure.measurement import Measurement
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import SEARCHERS
from baco.exploration.studies.engine import run_exploration
from baco.workloads.network import Network, Operator, Task, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.study_helpers import GEMMINI, REFERENCE, content, early_phases, small_workload

#: By name: space, cost model, samples of searchers that have phases.
MODELS = {
    "instruction": (GEMMINI, "instruction", 200),
    "reference": (REFERENCE, "reference", 400),
    "reference, gemmini": (GEMMINI, "reference", 400),
}
#: Samples of the others, all and the quick ones.
FEW = 60
QUICK = 20


def workload() -> Workload:
    """Convolutions of several kinds, one of them depthwise, and a product."""
    problems = (
        Problem(R=3, S=3, P=14, Q=14, C=24, K=36),
        Problem(R=3, S=3, P=7, Q=7, C=1, K=1, groups=48, stride_w=2, stride_h=2),
        Problem(P=49, C=96, K=40),
        Problem(R=5, S=5, P=10, Q=10, C=3, K=20),
    )
    tensors = [Tensor(f"t{i}", (1, 8, 8, 8)) for i in range(len(problems) + 1)]
    operators = tuple(
        Operator(f"op{i}", "conv2d", (f"t{i}",), tensors[i + 1], one, weight_words=one.weight_words)
        for i, one in enumerate(problems)
    )
    return Workload.of([Network("several", (tensors[0],), operators)])


def searches(which: str) -> Iterator[tuple[str, str, str, str, bool]]:
    """(case, searcher, objective, model, whether to prove)."""
    for turn, searcher in enumerate(SEARCHERS):
        models = tuple(MODELS) if which == "all" else (("instruction", "reference")[turn % 2],)
        for model in models:
            yield f"{searcher}, {model}", searcher, "edp", model, False
    yield "proof", "gradient", "edp", "reference, gemmini", True
    if which == "all":
        for objective in ("latency", "energy,area", "latency,energy,area", "edap"):
            for searcher in SEARCHERS:
                yield f"{searcher}, {objective}", searcher, objective, "instruction", False
                yield f"{searcher}, {objective}, reference", searcher, objective, "reference", False


def searched(few: int, searcher: str, objective: str, model: str, proof: bool, folder: Path) -> str:
    space, cost_model, samples = MODELS[model]
    network = workload() if cost_model == "instruction" else small_workload()
    found = run_exploration(
        network,
        space,
        Objective.parse(objective),
        searcher,
        samples if searcher in ("gradient", "local") else few,
        seed=3,
        out=folder,
        cost_model=cost_model,
        proof=proof,
    )
    return digest(content(found.path))


class Simulated:
    """Measurements that differ from predictions by a factor of the schedule's own, of exact arithmetic alone."""

    def __init__(self, machines: Sequence[MachineAlternatives]) -> None:
        self.machines = machines
        self.asked: list[str] = []

    def __call__(self, jobs: Sequence[MeasurementJob]) -> list[Measurement]:
        return [self.cost(job) for job in jobs]

    def cost(self, job: MeasurementJob) -> Measurement:
        one = next(a for m in self.machines for ones in m.found for a in ones if a.job is job)
        subject = f"{job.accelerator.dim} {job.name} {job.schedule}"
        self.asked.append(subject)
        factor = 1 + (zlib.crc32(subject.encode()) % 1000 - 450) / 4000
        return Measurement("measured", cycles=round(one.cycles * factor), energy_pj=one.energy_pj * factor)


def measured(budget: float) -> str:
    tasks = tuple(
        Task("net", problem, count, (name,))
        for name, problem, count in (
            ("a", Problem(P=40, K=24, C=36), 2.0),
            ("b", Problem(P=12, Q=12, R=3, S=3, K=8, C=8), 1.0),
            ("c", Problem(P=1, K=64, C=48), 3.0),
        )
    )
    layers = tuple(Layer(task.problem, scale=2.0**-8) for task in tasks)
    machines = []
    for dim in (4, 8):
        accelerator = load_accelerator("gemmini-default").replace(
            name=f"dim{dim}", dim=dim, scratchpad_kib=16, accumulator_kib=8
        )
        mappings = [
            mapping_of(one, choices(one, accelerator, style="macro")[0].schedule, accelerator)
            for one in layers
        ]
        machine = MachineAlternatives.of(accelerator, mappings, layers, [task.name for task in tasks])
        assert machine is not None
        machines.append(machine)
    simulated = Simulated(machines)
    search = MeasuredSearch(tasks, Objective.parse("edp"), machines, simulated, budget, prior=learned_prior())
    found = search.run()
    assert found is not None
    assert len(simulated.asked) > 20
    return digest([simulated.asked, repr(found), search.spent])


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def libraries() -> str:
    """What libraries make of some numbers in their own ways."""
    x = np.random.default_rng(0).random(10_001) * 50 + 0.01
    found = [np.exp(x), np.log(x), x**3.067, x @ x, [math.exp(one) for one in x.tolist()]]
    found += [torch.from_numpy(x).pow(3.067).numpy(), torch.from_numpy(x).sum().numpy()]
    return digest([np.asarray(one).tobytes() for one in found])


def digests(which: str) -> dict[str, str]:
    """Of every case."""
    if which == "libraries":
        return {"libraries": libraries()}
    result = {}
    with early_phases(), tempfile.TemporaryDirectory() as folder:
        for number, (case, *search) in enumerate(searches(which)):
            few = QUICK if which == "quick" else FEW
            result[case] = searched(few, *search, Path(folder) / str(number))  # type: ignore[arg-type]
    result["measured"] = measured(4e4 if which == "quick" else 1e6)
    result["libraries"] = libraries()
    return result


if __name__ == "__main__":
    print(json.dumps(digests(sys.argv[1])))
