"""What is compared: accelerators and ways to choose mappings, each costed for one workload with the reference model.

| system | accelerator | mappings |
|---|---|---|
| `eyeriss`, `nvdla-small`, `nvdla-large` | analytical (`accel.analytical`) | `explore.cost.nest_search` |
| `gemmini-default` | the preset | the tiling of Gemmini's C library (`compiler.heuristic`) |
| `gemmini-random` | the preset | best of random ones, layer by layer, as the published set-up has it |
| `gemmini-best` | the preset | optimal (`explore.cost.certificate`) |
| `baco` | at most the preset's area, everything buildable | optimal, hardware included |
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

from accel.analytical import load_analytical
from accel.config import Accelerator
from accel.presets import load_accelerator
from common.errors import InfeasibleError
from compiler.heuristic import gemmini_schedule
from compiler.layer import Layer
from compiler.lower.realise import mapping_of
from compiler.mapping import ROW_DIM, Mapping
from explore.candidate import Candidate
from explore.cost.certificate import certify
from explore.cost.nest_search import search_nests, search_network
from explore.cost.reference import MappingBatch, ProblemBatch, access_counts, energy_terms, latency_terms
from explore.objective import Objective
from explore.search.base import Searcher, SearchSetup, make_searcher
from explore.space import DesignSpace, load_space
from explore.validate.baseline import reference_space
from workloads.network import Task
from workloads.problem import DIMS, Problem

BASELINES = ("eyeriss", "nvdla-small", "nvdla-large")
#: Beside accelerators of at most gemmini-default's area, and in the space of published searches.
EQUAL_AREA = (*BASELINES, "gemmini-default", "gemmini-random", "gemmini-best", "baco")
FREE = ("dosa-free", "baco-free")
SYSTEMS = (*EQUAL_AREA, *FREE)
DEFAULT = "gemmini-default"
#: Proven optima are within this ratio of the bound.
TOLERANCE = 0.005
#: Samples of a search (the published set-up takes 5,000 mappings an operator).
SAMPLES = 5000

_REFERENCE = ("accel/energy.py", "explore/cost/reference.py", "explore/genome.py")
_CODE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(BASELINES, ("accel/analytical", "explore/cost/nest.py", "explore/cost/nest_search.py")),
    "gemmini-default": (
        "compiler/heuristic.py",
        "compiler/lower/realise.py",
        "explore/bench/paper/systems.py",
    ),
    **dict.fromkeys(
        ("gemmini-best", "baco"),
        (
            "accel/area.py",
            "explore/cost/bound.py",
            "explore/cost/certificate.py",
            "explore/cost/exact.py",
            "explore/cost/tiles.py",
        ),
    ),
    "gemmini-random": ("explore/search/random.py", "explore/search/baseline.py"),
    "dosa-free": ("explore/search/dosa.py", "explore/search/baseline.py"),
    "baco-free": ("explore/search",),
}


def code_of(system: str) -> tuple[str, ...]:
    """Source files and folders that decide what `evaluate_system` finds."""
    return (*_CODE[system], *_REFERENCE)


@dataclass(frozen=True)
class Found:
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
        """Plain JSON; `Found(**values)` is the way back."""
        return dataclasses.asdict(self)


def equal_area() -> DesignSpace:
    """Everything buildable of at most gemmini-default's area."""
    return load_space("gemmini").constrain("equal area", area_mm2=load_accelerator(DEFAULT).area_mm2)


def evaluate_system(
    name: str,
    tasks: Sequence[Task],
    layers: Sequence[Layer] | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Found:
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
    if name == "gemmini-default":
        return _heuristic(tasks, layers or [Layer(task.problem) for task in tasks])
    runs: dict[str, Callable[[], Found]] = {
        "gemmini-random": lambda: _random(tasks, samples, seed),
        "gemmini-best": lambda: _optimal(tasks, reference_space(load_space("gemmini"))),
        "baco": lambda: _optimal(tasks, equal_area()),
        "dosa-free": lambda: _searched("dosa", tasks, load_space("reference"), samples, seed),
        "baco-free": lambda: _searched("gradient", tasks, load_space("reference"), samples, seed),
    }
    return runs[name]()


def _analytical(name: str, tasks: Sequence[Task], seed: int) -> Found:
    accelerator = load_analytical(name)
    if len(tasks) == 1:
        energy, latency = search_nests(tasks[0].problem, accelerator, seed=seed, restarts=1).best()
        return Found(tasks[0].count * energy, tasks[0].count * latency, name)
    found = search_network(tasks, accelerator, seed=seed)
    return Found(found.energy_pj, found.latency_cycles, name)


def _heuristic(tasks: Sequence[Task], layers: Sequence[Layer]) -> Found:
    """Gemmini's default tiling by the reference model."""
    preset = load_accelerator(DEFAULT)
    mappings = [
        even_tiles(
            mapping_of(layer, gemmini_schedule(layer, preset, pointwise_products=True), preset), task.problem
        )
        for task, layer in zip(tasks, layers, strict=True)
    ]
    return Found(*reference_cost(tasks, mappings, preset), DEFAULT)


def even_tiles(mapping: Mapping, problem: Problem) -> Mapping:
    """The same number of tiles in every dimension, but all of one size, as small as covers the problem.

    The reference model charges padded factors, while code runs what is left of a dimension as a smaller tile: with
    tiles of one size it counts what that code does (56 as 3 tiles of 19, not of 23, which would be 69).
    """
    temporal = [list(level) for level in mapping.temporal]
    spatial = {ROW_DIM[mapping.dataflow]: mapping.rows}
    spatial["K"] = mapping.columns  # rows never take K
    for d, (name, bound) in enumerate(zip(DIMS, problem.bounds, strict=True)):
        for level in (3, 2, 1, 0):
            others = spatial.get(name, 1) * math.prod(temporal[m][d] for m in range(4) if m != level)
            temporal[level][d] = -(-bound // others)
        if name in spatial:
            spatial[name] = -(-bound // math.prod(level[d] for level in temporal))
    return dataclasses.replace(
        mapping,
        temporal=tuple(tuple(level) for level in temporal),
        rows=spatial[ROW_DIM[mapping.dataflow]],
        columns=spatial["K"],
    )


def _optimal(tasks: Sequence[Task], space: DesignSpace) -> Found:
    """The proven optimum (within `TOLERANCE`) of a space."""
    proof = certify(tasks, space, tolerance=TOLERANCE)
    assert proof.point is not None
    assert proof.mappings is not None
    p = proof.point
    accelerator = space.accelerator(p.dim, int(p.accumulator_kib), int(p.scratchpad_kib))
    energy, latency = reference_cost(tasks, proof.mappings, accelerator)
    return Found(energy, latency, accelerator.name, proof.bound)


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
    energy = energy_terms(counts, sizes[0], sizes[1], sizes[2], accelerator.energy).sum(0)
    runs = torch.tensor([task.count for task in tasks], dtype=torch.float64)
    return float(runs @ energy), float(runs @ cycles)


def _random(tasks: Sequence[Task], samples: int, seed: int) -> Found:
    """Every layer by the best of so many random mappings of its own, on the default machine."""
    space = reference_space(load_space("gemmini"))
    energy = latency = 0.0
    for task in tasks:
        found = _searched("random", [dataclasses.replace(task, count=1.0)], space, samples, seed)
        energy += task.count * found.energy_pj
        latency += task.count * found.latency_cycles
    return Found(energy, latency, DEFAULT)


def _searched(searcher: str, tasks: Sequence[Task], space: DesignSpace, samples: int, seed: int) -> Found:
    """What a searcher finds with a budget of samples, by the reference model."""
    setup = SearchSetup(tuple(tasks), space, Objective(("edp",)), samples * len(tasks), seed)
    best = best_candidate(make_searcher(searcher, setup))
    return Found(best.cost.energy_pj, best.cost.latency_cycles, best.accelerator.name)


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
