"""What is compared: accelerators and ways to choose mappings, each costed for one workload with the reference model.

| system | accelerator | mappings |
|---|---|---|
| `eyeriss`, `nvdla-small`, `nvdla-large` | analytical (`baco.accel.analytical`) | `baco.bench.paper.nest_search` |
| `eyeriss-random`, ... | the same | best of random ones, layer by layer, as the published set-up has it |
| `gemmini-default` | the preset | the tiling of Gemmini's C library (`baco.compiler.choice.gemmini`) |
| `gemmini-random` | the preset | likewise |
| `gemmini-best` | the preset | optimal (`baco.exploration.cost.certificate`) |
| `baco` | at most the preset's area, everything buildable | our search |
| `proof` | the same | optimal, hardware included, by branch and bound: no search |
| `dosa-free` | any side up to 128, whole KiB | descent in DOSA's style |
| `baco-free` | the same | our search |
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from baco.accel.analytical import load_analytical
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.paper.nest_search import best_of_random, search_nests, search_network
from baco.bench.sets.spaces import published_space
from baco.common.errors import InfeasibleError
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping
from baco.exploration.candidate import Candidate
from baco.exploration.cost.certificate import certify
from baco.exploration.cost.reference import access_counts, latency_terms, total_energy
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup
from baco.exploration.space import DesignSpace
from baco.exploration.space.reference_machine import reference_space
from baco.workloads.network import Task

BASELINES = ("eyeriss", "nvdla-small", "nvdla-large")
#: The same machines with the published mapper.
RANDOM_BASELINES = tuple(f"{name}-random" for name in BASELINES)
#: Beside accelerators of at most gemmini-default's area, and in the space of published searches.
EQUAL_AREA = (
    *BASELINES,
    *RANDOM_BASELINES,
    "gemmini-default",
    "gemmini-random",
    "gemmini-best",
    "baco",
    "proof",
)
FREE = ("dosa-free", "baco-free")
SYSTEMS = (*EQUAL_AREA, *FREE)
DEFAULT = "gemmini-default"
#: Proven optima are within this ratio of the bound.
TOLERANCE = 0.005
#: Samples of a search (the published set-up takes 5,000 mappings an operator).
SAMPLES = 5000


@dataclass(frozen=True)
class SystemCost:
    """The cost of a workload on a system.

    Attributes:
        energy_pj, latency_cycles: totals; EDP is their product.
        accelerator: what it runs on, in words.
        bound_edp: proven lower bound of what the system could reach, µJ·cycles; None where not proven.
    """

    energy_pj: float
    latency_cycles: float
    accelerator: str
    bound_edp: float | None = None

    @property
    def edp(self) -> float:
        """µJ·cycles."""
        return self.energy_pj * 1e-6 * self.latency_cycles

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `SystemCost(**values)` is the way back."""
        return dataclasses.asdict(self)


def equal_area() -> DesignSpace:
    """Everything buildable of at most gemmini-default's area."""
    space = published_space().without_units()  # layers alone have no use for them
    return space.constrain("equal area", area_mm2=load_accelerator(DEFAULT).area_mm2)


def evaluate_system(
    name: str,
    tasks: Sequence[Task],
    layers: Sequence[Layer] | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> SystemCost:
    """The cost of one run of `tasks` on a system.

    Args:
        name: of `SYSTEMS`.
        layers: of the tasks, for the default tiling; without padding and bias when not given.
        samples: budget of the searches by samples.
        seed: of what is random.

    All costs are predicted by the reference model and its counting.
    """
    if name in BASELINES:
        return _analytical(name, tasks, seed)
    if name in RANDOM_BASELINES:
        return _random_nests(name.removesuffix("-random"), tasks, samples, seed)
    if name == "gemmini-default":
        return _heuristic(tasks, layers or [Layer(task.problem) for task in tasks])
    runs: dict[str, Callable[[], SystemCost]] = {
        "gemmini-random": lambda: _random(tasks, samples, seed),
        "gemmini-best": lambda: _optimal(tasks, reference_space(published_space())),
        "baco": lambda: _searched("gradient", tasks, equal_area(), samples, seed),
        "proof": lambda: _optimal(tasks, equal_area()),
        "dosa-free": lambda: _searched("dosa", tasks, published_space("reference"), samples, seed),
        "baco-free": lambda: _searched("gradient", tasks, published_space("reference"), samples, seed),
    }
    return runs[name]()


def _analytical(name: str, tasks: Sequence[Task], seed: int) -> SystemCost:
    accelerator = load_analytical(name)
    if len(tasks) == 1:
        energy, latency = search_nests(tasks[0].problem, accelerator, seed=seed, restarts=1).best()
        return SystemCost(tasks[0].count * energy, tasks[0].count * latency, name)
    found = search_network(tasks, accelerator, seed=seed)
    return SystemCost(found.energy_pj, found.latency_cycles, name)


def _random_nests(name: str, tasks: Sequence[Task], samples: int, seed: int) -> SystemCost:
    """Every layer by the best of so many random nests of its own, on an analytical machine."""
    accelerator = load_analytical(name)
    energy = latency = 0.0
    for task in tasks:
        pj, cycles = best_of_random(task.problem, accelerator, samples, seed=seed)
        energy += task.count * pj
        latency += task.count * cycles
    return SystemCost(energy, latency, name)


def _heuristic(tasks: Sequence[Task], layers: Sequence[Layer]) -> SystemCost:
    """Gemmini's default tiling by the reference model."""
    preset = load_accelerator(DEFAULT)
    schedules = [gemmini_schedule(layer, preset) for layer in layers]
    costs = schedule_costs(layers, schedules, preset, "reference")
    return SystemCost(
        math.fsum(task.count * cost.energy_pj for task, cost in zip(tasks, costs, strict=True)),
        math.fsum(task.count * cost.latency_cycles for task, cost in zip(tasks, costs, strict=True)),
        DEFAULT,
    )


def _optimal(tasks: Sequence[Task], space: DesignSpace) -> SystemCost:
    """The proven optimum (within `TOLERANCE`) of a space."""
    proof = certify(tasks, space, tolerance=TOLERANCE)
    assert proof.point is not None
    assert proof.mappings is not None
    p = proof.point
    accelerator = space.accelerator(p.dim, int(p.accumulator_kib), int(p.scratchpad_kib))
    energy, latency = reference_cost(tasks, proof.mappings, accelerator)
    return SystemCost(energy, latency, accelerator.name, proof.bound)


def reference_cost(
    tasks: Sequence[Task], mappings: Sequence[Mapping], accelerator: Accelerator
) -> tuple[float, float]:
    """(energy in pJ, latency in cycles) of a workload with given mappings, by the reference model."""
    counts = access_counts(ProblemBatch.of([t.problem for t in tasks]), MappingBatch.of(mappings))
    sizes = [
        torch.tensor(float(v), dtype=torch.float64)
        for v in (accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    ]
    cycles = latency_terms(counts, sizes[0], accelerator.dram_bytes_per_cycle).amax(0)
    energy = total_energy(counts, sizes[0], sizes[1], sizes[2], accelerator.energy)
    runs = torch.tensor([task.count for task in tasks], dtype=torch.float64)
    return float(runs @ energy), float(runs @ cycles)


def _random(tasks: Sequence[Task], samples: int, seed: int) -> SystemCost:
    """Every layer by the best of so many random mappings of its own, on the default machine."""
    space = reference_space(published_space())
    energy = latency = 0.0
    for task in tasks:
        found = _searched("random", [dataclasses.replace(task, count=1.0)], space, samples, seed)
        energy += task.count * found.energy_pj
        latency += task.count * found.latency_cycles
    return SystemCost(energy, latency, DEFAULT)


def _searched(
    searcher: str, tasks: Sequence[Task], space: DesignSpace, samples: int, seed: int
) -> SystemCost:
    """What a searcher finds with a budget of samples, by the reference model."""
    setup = SearchSetup(tuple(tasks), space, Objective(("edp",)), samples * len(tasks), seed)
    best = best_candidate(make_searcher(searcher, setup))
    return SystemCost(best.cost.energy_pj, best.cost.latency_cycles, best.accelerator.name)


def best_candidate(searcher: Searcher) -> Candidate:
    """Run a searcher to its end; what has the least objective. Raises InfeasibleError if it finds nothing."""
    best: Candidate | None = None
    while True:
        result = searcher.step()
        for candidate in result.candidates:
            if best is None or candidate.objective < best.objective:
                best = candidate
        if result.done:
            break
    if best is None:
        raise InfeasibleError("the search found no feasible design", hint="give it more samples")
    return best
