"""Whole designs of Gemmini-compatible machines for a network: predicted by either cost model, and measured on RTL.

`stages` are those of the published ablation (Table 6.7), in this product's terms:

| stage | accelerator | mappings |
|---|---|---|
| default | gemmini-default | tiling of Gemmini's C library |
| partition | gemmini-default | block sizes as this compiler chooses them (`baco.compiler.choice.choose`) |
| hardware | best of the largest that fit gemmini-default's area, arrays no smaller | likewise |
| analytical | at most that area, searched | the better of the compiler's and those searched with the instruction-aware model, effort spread evenly over layers |
| importance | likewise | the same, effort given out by the importance estimator |

Parts are added: a stage that searches keeps the design of `hardware` where it finds none that is predicted to be better. The
published stage `learned` has no counterpart: what ships learned nothing that a search uses by default. Beside the stages stands
`reference`, hardware and mappings optimal by the published analytical model, which knows no instructions.

Each is judged by the same cost model, whatever chose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.bench.harness.experiment import Say, silent
from baco.bench.importance import EvenSearch
from baco.bench.paper.cache import Json, RecordCache
from baco.bench.paper.systems import DEFAULT, TOLERANCE, SystemCost, best_candidate, equal_area
from baco.bench.sets.spaces import published_space
from baco.common.errors import BacoError
from baco.compiler.choice.choose import choose
from baco.compiler.layers.layer import Layer
from baco.exploration._json import to_json
from baco.exploration.candidate import Candidate, Cost, CostModelName
from baco.exploration.cost.certificate import certify
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.executors.tasks import gather
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.planning import baseline_design, design_of_candidate, design_of_schedules
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine, reference_space
from baco.exploration.studies.plan import SearchedSchedules
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Task, Workload

STAGES = ("default", "partition", "hardware", "analytical", "importance")
#: Those that a seed decides on, and the design beside the stages.
SEARCHED_STAGES, BESIDE = ("analytical", "importance"), "reference"
#: Designs of the network table: Gemmini's machine and tiling, that machine with searched mappings, and everything.
NETWORK_DESIGNS = ("gemmini-default", "gemmini-best", "baco")


@dataclass(frozen=True)
class NetworkLayers:
    """A network as it is designed for: unique problems with counts, and the layers that stand for them."""

    name: str
    tasks: tuple[Task, ...]
    layers: tuple[Layer, ...]

    @classmethod
    def load(cls, name: str) -> NetworkLayers:
        """By the name that `--network` takes. Raises InputError."""
        workload = Workload.of([load_network(name)])
        return cls(name, workload.tasks, layers_of_tasks(workload.tasks, workload))

    @property
    def texts(self) -> list[str]:
        """Problems and counts, for keys."""
        return [f"{task.problem} x{task.count:g}" for task in self.tasks]

    def model(self, name: CostModelName, space: DesignSpace) -> CostModel:
        """A cost model for the network's layers in a space."""
        return make_cost_model(name, self.layers, space)


def make_design(
    network: NetworkLayers, what: str, model: CostModelName, samples: int, seed: int = 0
) -> Design:
    """The design of a stage or of the network table, predicted by `model` (which also searches, where it does).

    Raises BacoError where a layer cannot be compiled or predicted.
    """
    space = published_space()
    if what in ("default", "gemmini-default"):
        judge = network.model(model, reference_space(space))
        return baseline_design(space, network.tasks, network.layers, judge)
    if what == "partition":
        return _partitioned(network, reference_space(space), 0, model)
    if what == "hardware":
        return min(
            (_partitioned(network, equal_area(), i, model) for i in range(len(_largest(equal_area())))),
            key=lambda design: predicted(design, network.tasks).edp,
        )
    if what == BESIDE:
        return _optimal(network, model)
    if what == "gemmini-best":
        return _searched(network, reference_space(space), model, samples, seed)
    even = what == "analytical"
    if not even and what not in ("importance", "baco"):
        raise ValueError(f"no design is called {what!r}")
    return _searched(network, equal_area(), model, samples, seed, even)


def _largest(space: DesignSpace) -> list[tuple[int, int, int]]:
    """Points (dim, accumulator KiB, scratchpad KiB) of a space to which nothing can be added within its area, their
    arrays no smaller than gemmini-default's."""
    p = space.hardware()
    p = p.take(p.dim >= reference_machine(space).dim)
    found = []
    for i in range(len(p)):
        above = (p.dim == p.dim[i]) & (p.accumulator_kib >= p.accumulator_kib[i])
        above &= p.scratchpad_kib >= p.scratchpad_kib[i]
        if above.sum() == 1:
            found.append((int(p.dim[i]), int(p.accumulator_kib[i]), int(p.scratchpad_kib[i])))
    return found


def _partitioned(network: NetworkLayers, space: DesignSpace, point: int, model: CostModelName) -> Design:
    """The compiler's own choice of block sizes on one of the largest accelerators of a space."""
    accelerator = space.accelerator(*_largest(space)[point])
    schedules = [choose(layer, accelerator) for layer in network.layers]
    judge = network.model(model, space)
    return design_of_schedules(
        f"{accelerator.name}, blocks chosen by the compiler",
        "candidate",
        accelerator,
        network.tasks,
        network.layers,
        schedules,
        judge,
    )


def _optimal(network: NetworkLayers, model: CostModelName) -> Design:
    """Optimal by the reference model within gemmini-default's area, judged by `model`."""
    space = equal_area()
    proof = certify(network.tasks, space, tolerance=TOLERANCE)
    assert proof.point is not None
    assert proof.mappings is not None
    p = proof.point
    accelerator = space.accelerator(p.dim, int(p.accumulator_kib), int(p.scratchpad_kib))
    costs = network.model("reference", space).layer_costs(proof.mappings, accelerator)
    cost = Cost(
        sum(task.count * c.latency_cycles for task, c in zip(network.tasks, costs, strict=True)),
        sum(task.count * c.energy_pj for task, c in zip(network.tasks, costs, strict=True)),
        accelerator.area_mm2,
    )
    candidate = Candidate(
        accelerator=accelerator,
        tasks=network.tasks,
        mappings=proof.mappings,
        cost=cost,
        samples=0,
        objective=cost.edp,
    )
    judge = network.model(model, space)
    return design_of_candidate("optimal by the reference model", candidate, network.layers, judge)


def _searched(
    network: NetworkLayers,
    space: DesignSpace,
    model: CostModelName,
    samples: int,
    seed: int,
    even: bool = False,
) -> Design:
    """The best design of a search. By the instruction-aware model it is what a program of it is: each layer takes the better of the mapping
    that was searched and the compiler's own."""
    judge, objective = network.model(model, space), Objective(("edp",))
    setup = SearchSetup(network.tasks, space, objective, samples * len(network.tasks), seed, judge)
    best = best_candidate(EvenSearch(setup) if even else make_searcher("gradient", setup))
    if model == "reference":
        return design_of_candidate("searched", best, network.layers, judge)
    schedule = SearchedSchedules(best, objective)
    schedules = [schedule(layer)[0] for layer in network.layers]
    return design_of_schedules(
        "searched", "candidate", best.accelerator, network.tasks, network.layers, schedules, judge
    )


def predicted(design: Design, tasks: Sequence[Task]) -> SystemCost:
    """Predicted cost of one run of the network, by the model that judges the design.

    Raises BacoError when a layer has no prediction.
    """
    energy = latency = 0.0
    for task, layer in zip(tasks, design.layers, strict=True):
        if layer.predicted_cycles is None or layer.predicted_energy_pj is None:
            raise BacoError(f"{design.name}: no prediction of {task.name}: {layer.reason}")
        energy += task.count * layer.predicted_energy_pj
        latency += task.count * layer.predicted_cycles
    return SystemCost(energy, latency, machine_name(design))


def cached_design(
    cache: RecordCache, network: NetworkLayers, what: str, model: CostModelName, samples: int, seed: int = 0
) -> Design:
    """`make_design`, kept."""
    subject: Json = {
        "network": network.name,
        "tasks": network.texts,
        "design": what,
        "model": model,
        "samples": samples,
        "seed": seed,
    }
    return Design.from_json(
        cache.get(subject, __name__, lambda: to_json(make_design(network, what, model, samples, seed))),
        network.tasks,
    )


def measured(
    design: Design,
    store: MeasurementStore,
    engine: ExecutorChoice,
    say: Say = silent,
) -> Design:
    """A design with every layer measured on the RTL; what the store has is not measured again."""
    jobs = design.jobs()
    with engine.executor() as executor:
        found = gather(
            executor,
            list(jobs.values()),
            store,
            lambda done, total, _: say(f"{design.name}: {done} of {total} layers measured"),
        )
    return design.with_measurements(dict(zip(jobs, found, strict=True)))


def machine_name(design: Design) -> str:
    """The accelerator for tables: the preset's name, or side, scratchpad and accumulator KiB."""
    a = design.accelerator
    preset = reference_machine(published_space())
    if (a.dim, a.scratchpad_kib, a.accumulator_kib) == (
        preset.dim,
        preset.scratchpad_kib,
        preset.accumulator_kib,
    ):
        return DEFAULT
    return f"{a.dim}x{a.dim}-{a.scratchpad_kib}-{a.accumulator_kib}"
