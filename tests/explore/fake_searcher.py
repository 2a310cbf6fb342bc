"""A small deterministic hill climber with a toy cost, to test everything around searchers."""

from __future__ import annotations

import math

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.mapping.nest import Mapping, requirement
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.infeasible import nearest_details, violation
from baco.exploration.search.searcher import BatchResult, SearchSetup, State
from baco.workloads.network import Task
from baco.workloads.problem import DIMS


def toy_mapping(task: Task, dim: int, tile: int) -> Mapping:
    """Output rows cut into tiles of `tile`, everything else over DRAM."""
    problem = task.problem
    rows, columns = min(dim, problem.C), min(dim, problem.K)
    outer = dict(zip(DIMS, problem.bounds, strict=True))
    tile = min(tile, problem.P)
    outer |= {"C": -(-problem.C // rows), "K": -(-problem.K // columns), "P": -(-problem.P // tile)}
    ones = (1,) * len(DIMS)
    accumulator = tuple(tile if name == "P" else 1 for name in DIMS)
    order = "".join(DIMS)
    return Mapping(
        "WS", rows, columns, (ones, accumulator, ones, tuple(outer.values())), (order, order, order, order)
    )


def toy_cost(accelerator: Accelerator, tasks: tuple[Task, ...], mappings: tuple[Mapping, ...]) -> Cost:
    """No model of anything: rewards large arrays and tiles, charges for memory."""
    cycles = energy = 0.0
    for task, mapping in zip(tasks, mappings, strict=True):
        tile = mapping.factor("P", 1)
        cycles += task.count * math.prod(mapping.padded_bounds) / (mapping.rows * mapping.columns)
        cycles += task.count * 1e4 / tile
        energy += task.count * task.problem.macs * (1 + 10 / tile + 0.01 * accelerator.accumulator_kib)
    return Cost(cycles, energy + accelerator.scratchpad_kib * 1e3, accelerator.area_mm2)


def fits(mapping: Mapping, task: Task, accelerator: Accelerator) -> bool:
    """By the stricter, padded rule for the scratchpad."""
    need = requirement(mapping, task.problem)
    return (
        need.dim <= accelerator.dim
        and need.accumulator_kib(accelerator.dim) <= accelerator.accumulator_kib
        and need.scratchpad_rows * accelerator.dim <= accelerator.scratchpad_kib * 1024
    )


class FakeSearch:
    """Changes one coordinate of the incumbent at a time. `batch_points` design points a batch."""

    batch_points = 3

    def __init__(self, setup: SearchSetup) -> None:
        self.setup = setup
        self.batch = 0
        self.spent = 0
        self.incumbent = np.zeros(4, dtype=np.int64)  # positions of dim, accumulator, scratchpad; tile
        self.incumbent[3] = 1
        self.score = np.inf
        self.nearest: dict[str, tuple[float, float]] = {}

    def step(self) -> BatchResult:
        rng = np.random.default_rng([self.setup.seed, self.batch])
        space, tasks = self.setup.space, self.setup.tasks
        found: list[Candidate] = []
        for _ in range(self.batch_points):
            if self.setup.evaluations is not None and self.spent + len(tasks) > self.setup.evaluations:
                break
            point = self.incumbent.copy()
            which = int(rng.integers(4))
            sizes = (len(space.dim), len(space.accumulator_kib), len(space.scratchpad_kib))
            point[which] = rng.integers(sizes[which]) if which < 3 else rng.integers(1, 65)
            dim = space.dim[point[0]]
            accelerator = space.accelerator(
                dim, space.accumulator_kib[point[1]], space.scratchpad_kib[point[2]]
            )
            mappings = tuple(toy_mapping(task, dim, int(point[3])) for task in tasks)
            cost = toy_cost(accelerator, tasks, mappings)
            self.spent += len(tasks)
            if not all(fits(m, t, accelerator) for m, t in zip(mappings, tasks, strict=True)):
                continue
            sram = accelerator.scratchpad_kib + accelerator.accumulator_kib
            values = space.constraints.values(cost, sram_kib=sram, clock_mhz=accelerator.clock_mhz)
            if violation(values) > 0:
                if not self.nearest or violation(values) < violation(self.nearest):
                    self.nearest = values
                continue
            score = self.setup.objective.scalar(cost)
            found.append(Candidate(accelerator, tasks, mappings, cost, self.spent, score))
            if score < self.score:
                self.score, self.incumbent = score, point
        self.batch += 1
        budget = self.setup.evaluations
        return BatchResult(
            candidates=found,
            evaluations=self.spent,
            phase="climbing",
            done=budget is not None and self.spent + len(tasks) > budget,
            details={"score": self.score} if math.isfinite(self.score) else nearest_details(self.nearest),
        )

    def state(self) -> State:
        names = sorted(self.nearest)
        return {
            "counters": np.array([self.batch, self.spent]),
            "incumbent": self.incumbent.copy(),
            "score": np.array(self.score),
            "nearest.names": np.array(names, dtype="U64"),
            "nearest.values": np.array([self.nearest[name] for name in names], dtype=float).reshape(-1, 2),
        }

    def restore(self, state: State) -> None:
        self.batch, self.spent = (int(value) for value in state["counters"])
        self.incumbent = state["incumbent"].copy()
        self.score = float(state["score"])
        pairs = zip(state["nearest.names"], state["nearest.values"], strict=True)
        self.nearest = {str(name): (float(value), float(bound)) for name, (value, bound) in pairs}
