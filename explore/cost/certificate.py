"""How near the optimum of a whole design space is a design? A proven lower bound on the EDP, and the gap.

On one hardware point, the least value V of weighing * energy + latency over all mappings of every layer
(`explore.cost.exact`), summed over layers, is a line that no design on that point lies below. Several lines
leave a convex region; the product energy * latency is quasi-concave, so its least value there is taken at a
vertex, and is a lower bound of the EDP on that point. Lines are added where the least vertex is until the
bound reaches the incumbent or meets what the solver's own mappings achieve. Hardware points are taken in
rising order of their bounds (first those of `explore.cost.bound`), so most are never looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from compiler.mapping import Mapping
from explore.cost.bound import capacity_bound
from explore.cost.exact import LayerSolver
from explore.cost.tiles import Floats, Point
from explore.search.genome import to_mapping
from explore.space import DesignSpace
from workloads.network import Task
from workloads.problem import Problem

#: Weighings of the first, cheap lines, relative to the incumbent's latency per energy.
_FIRST_WEIGHINGS = (0.0, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0, np.inf)
#: A new line that lifts the bound by less than this ratio ends the refinement of a point.
_STALL = 1e-6


@dataclass(frozen=True)
class Certificate:
    """What is proven about a design space, for one workload.

    Attributes:
        bound: no design of the space has a lower EDP, µJ·cycles.
        incumbent: the EDP that was to be judged, as given.
        best: the lowest EDP known: the incumbent's, or that of a better design found on the way.
        point, mappings: that better design (a mapping for each task); None when the incumbent stands.
        points: hardware points of the space within its bounds on area and SRAM.
        examined: points that the cheap bound did not settle.
        solved: points on which mappings were searched.
    """

    bound: float
    incumbent: float
    best: float
    point: Point | None
    mappings: tuple[Mapping, ...] | None
    points: int
    examined: int
    solved: int

    @property
    def gap(self) -> float:
        """The incumbent is at most this much (as a ratio) above the optimum."""
        return self.incumbent / self.bound - 1 if self.bound else np.inf


@dataclass
class _Proof:
    """Lines known for one hardware point."""

    point: Point
    weighings: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    exact: bool = False

    def add(self, weighings: Sequence[float], values: Floats) -> None:
        self.weighings += [float(w) for w in weighings]
        self.values += [float(v) for v in values]

    def least(self) -> tuple[float, float, float]:
        """(EDP bound in µJ·cycles, energy, latency) of the vertex with the least product."""
        return least_product(np.array(self.weighings), np.array(self.values))


def least_product(weighings: Floats, values: Floats) -> tuple[float, float, float]:
    """Least energy * latency where weighing * energy + latency >= value for all lines (energy >= value for an
    infinite weighing), as (product in µJ·cycles, energy in pJ, latency in cycles).

    Both a line of weighing 0 and one of infinite weighing must be given, with which the vertices are those
    of the region's whole boundary.
    """
    if not np.isfinite(values).all():
        return np.inf, np.inf, np.inf
    upright = np.isinf(weighings)
    least_energy = float(values[upright].max())
    slope, value = weighings[~upright], values[~upright]
    # Energies at which two lines cross, and where the energy bound cuts them all.
    rise = slope[:, None] - slope[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ((value[:, None] - value[None, :]) / rise)[rise != 0]
    energy = np.concatenate([[least_energy], crossing[crossing > least_energy]])
    latency = (value[:, None] - slope[:, None] * energy[None, :]).max(0)
    product = energy * 1e-6 * latency
    i = int(product.argmin())
    return float(product[i]), float(energy[i]), float(latency[i])


def certify(
    tasks: Sequence[Task],
    space: DesignSpace,
    incumbent: float,
    tolerance: float = 0.005,
    progress: Callable[[float, int], None] | None = None,
) -> Certificate:
    """Prove how near `incumbent` is to the least EDP of an enumerable space.

    Bounds on area and SRAM are respected; other constraints are not used, so the bound holds with or
    without them (but a better design found on the way may break them).

    Args:
        incumbent: EDP of a known design in µJ·cycles.
        tolerance: stop once the bound is within this ratio of the best EDP known.
        progress: called with (bound so far, points still open) after every step.

    Raises:
        InputError: when the space is not enumerable.
    """
    cheap = capacity_bound(tasks, space)
    work = _Certifier(tasks, space, incumbent, tolerance)
    heap: list[tuple[float, int]] = [
        (float(b), i) for i, b in enumerate(cheap.edp_by_point) if np.isfinite(b)
    ]
    heapq.heapify(heap)
    proofs: dict[int, _Proof] = {}
    settled = np.inf  # least bound of points that cannot be refined further
    while heap:
        bound, i = heapq.heappop(heap)
        if min(bound, settled) >= work.target:
            settled = min(settled, bound)
            break
        if i not in proofs:
            point = Point(int(cheap.dim[i]), float(cheap.accumulator_kib[i]), float(cheap.scratchpad_kib[i]))
            proofs[i] = _Proof(point)
        better, final = work.refine(proofs[i], bound)
        if final:
            settled = min(settled, better)
        else:
            heapq.heappush(heap, (better, i))
        if progress is not None:
            lowest = min(settled, heap[0][0]) if heap else settled
            progress(min(lowest, work.best), sum(1 for b, _ in heap if b < work.target))
    return Certificate(
        bound=min(settled, work.best),
        incumbent=incumbent,
        best=work.best,
        point=work.point,
        mappings=work.mappings,
        points=len(cheap.dim),
        examined=len(proofs),
        solved=sum(proof.exact for proof in proofs.values()),
    )


class _Certifier:
    """Solvers by problem, and the best design known."""

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, incumbent: float, tolerance: float) -> None:
        self.space = space
        self.tolerance = tolerance
        self.tasks = tuple(tasks)
        self.runs: dict[Problem, float] = {}
        for task in tasks:
            self.runs[task.problem] = self.runs.get(task.problem, 0.0) + task.count
        self.solvers = {problem: LayerSolver(problem, space) for problem in self.runs}
        self.best = incumbent
        self.ratio: float | None = None
        self.point: Point | None = None
        self.mappings: tuple[Mapping, ...] | None = None

    @property
    def target(self) -> float:
        """A bound this high is as good as wanted."""
        return self.best / (1 + self.tolerance)

    def refine(self, proof: _Proof, bound: float) -> tuple[float, bool]:
        """Add lines to a point's proof; returns its bound and whether that is final."""
        if not proof.weighings:
            self._start(proof)
            better = max(bound, proof.least()[0])
            return better, not np.isfinite(better)
        _, energy, latency = proof.least()
        weighing = latency / energy
        self.ratio = weighing
        if not proof.exact:
            values = self._cheap_lines(proof.point, np.array([weighing]))
            proof.add([weighing], values)
            better = max(bound, proof.least()[0])
            # Once cheap lines no longer help, mappings are searched.
            proof.exact = better < bound * (1 + self.tolerance / 10)
            return better, False
        proof.add([weighing], np.array([self._solve(proof.point, weighing)]))
        better = max(bound, proof.least()[0])
        return better, better < bound * (1 + _STALL)

    def _start(self, proof: _Proof) -> None:
        """The first lines, all from one pass over the tilings of every layer."""
        if self.ratio is None:
            ends = np.array([0.0, np.inf])
            latency, energy = self._cheap_lines(proof.point, ends)
            self.ratio = latency / energy if np.isfinite(energy) and energy > 0 else 1.0
        weighings = np.array([w * self.ratio if w else 0.0 for w in _FIRST_WEIGHINGS])
        proof.add(weighings.tolist(), self._cheap_lines(proof.point, weighings))

    def _cheap_lines(self, point: Point, weighings: Floats) -> Floats:
        total = np.zeros(len(weighings))
        for problem, runs in self.runs.items():
            total += runs * self.solvers[problem].bounds(point, weighings)
        return total

    def _solve(self, point: Point, weighing: float) -> float:
        """The network's least weighing * energy + latency (a proven bound); keeps the design if it is the best."""
        total = energy = latency = 0.0
        genomes: dict[Problem, NDArray[np.int64]] = {}
        for problem, runs in self.runs.items():
            solution = self.solvers[problem].solve(point, weighing, tolerance=self.tolerance / 10)
            if solution.genome is None:
                return float(np.inf)
            total += runs * solution.bound
            energy += runs * solution.energy_pj
            latency += runs * solution.latency_cycles
            genomes[problem] = solution.genome
        edp = energy * 1e-6 * latency
        if edp < self.best:
            self.best, self.point = edp, point
            self.mappings = tuple(
                to_mapping(genomes[t.problem], t.problem.groups, self.space.double_buffer) for t in self.tasks
            )
        return total
