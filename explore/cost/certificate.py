"""How near the optimum of a whole design space is a design? A proven lower bound on the EDP, and the gap.

On one hardware point, the least value V of weighing * energy + latency over all mappings of every layer
(`baco.exploration.cost.exact`), summed over layers, is a line that no design on that point lies below. Several lines
leave a convex region; the product energy * latency is quasi-concave, so its least value there is taken at a
vertex, and is a lower bound of the EDP on that point. Lines are added where the least vertex is until the
bound reaches what is wanted or meets what the solver's own mappings achieve.

Hardware is treated by branch and bound too: lines for a box of hardware points charge for its least memories
and grant its largest, so they hold for every point inside; boxes are split, lowest bound first, until the
lowest is a single point that is solved exactly. So spaces of any size can be treated. Where the points can be
listed, `baco.exploration.cost.bound` bounds them all at once, which settles most.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count as counter

import numpy as np
from numpy.typing import NDArray

from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.bound import capacity_bound
from baco.exploration.cost.exact import LayerSolver
from baco.exploration.cost.genome import to_mapping
from baco.exploration.cost.tiles import Floats, Point, Region
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task
from baco.workloads.problem import Problem

#: A line that lies above the vertex it was drawn for by less than this ratio ends the refinement of a point.
_STALL = 1e-6


@dataclass(frozen=True)
class Certificate:
    """What is proven about a design space, for one workload.

    Attributes:
        bound: no design of the space has a lower EDP, µJ·cycles; infinite if nothing fits anywhere.
        incumbent: the EDP that was to be judged, as given.
        best: the lowest EDP known: the incumbent's, or that of a better design found on the way.
        point, mappings: that better design (a mapping for each task); None when the incumbent stands.
        regions: boxes of hardware points that were bounded.
        solved: hardware points on which mappings were searched.
        complete: False when it was stopped before the tolerance was reached (the bound holds all the same).
    """

    bound: float
    incumbent: float
    best: float
    point: Point | None
    mappings: tuple[Mapping, ...] | None
    regions: int
    solved: int
    complete: bool

    @property
    def gap(self) -> float:
        """The incumbent is at most this much (as a ratio) above the optimum."""
        return self.incumbent / self.bound - 1 if self.bound else np.inf


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
    incumbent: float = np.inf,
    tolerance: float = 0.005,
    progress: Callable[[float, float], None] | None = None,
    stop: Callable[[], bool] | None = None,
    max_regions: int | None = None,
) -> Certificate:
    """Prove how near `incumbent` is to the least EDP of a space.

    Bounds on area and SRAM are respected; other constraints are not used, so the bound holds with or
    without them (but a better design found on the way may break them).

    Args:
        incumbent: EDP of a known design in µJ·cycles; infinite to find the optimum from nothing.
        tolerance: stop once the bound is within this ratio of the best EDP known.
        progress: called with (proven bound, best EDP known) after every step.
        stop: asked after every step whether to end early.
        max_regions: end after bounding this many boxes of hardware points.
    """
    work = _Certifier(tasks, space, incumbent, tolerance)
    ticket = counter()
    heap: list[tuple[float, int, _Box]] = []

    def push(box: _Box) -> None:
        if np.isfinite(box.bound):
            heapq.heappush(heap, (box.bound, next(ticket), box))

    for box in work.start():
        push(box)
    settled = np.inf  # least bound of points that cannot be refined further
    complete = True
    while heap and min(heap[0][0], settled) < work.target:
        if settled <= heap[0][0]:
            break  # nothing open can lower the bound, nothing closed can be raised
        if (stop is not None and stop()) or (max_regions is not None and work.regions >= max_regions):
            complete = False
            break
        box = heapq.heappop(heap)[2]
        if box.single:
            final = work.refine(box)
            if final:
                settled = min(settled, box.bound)
            else:
                push(box)
        else:
            for ranges in work.grid.halves(box.ranges):
                push(work.child(box, ranges))
        if progress is not None:
            progress(min(settled, work.best, heap[0][0] if heap else np.inf), work.best)
    return Certificate(
        bound=min(settled, work.best, heap[0][0] if heap else np.inf),
        incumbent=incumbent,
        best=work.best,
        point=work.point,
        mappings=work.mappings,
        regions=work.regions,
        solved=work.solved,
        complete=complete,
    )


#: First and last index of the choices of (dim, accumulator, scratchpad).
_Ranges = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


class _Grid:
    """The hardware points of a space as boxes of indices into its choices."""

    def __init__(self, space: DesignSpace) -> None:
        self.space = space
        self.values = tuple(np.array(v) for v in (space.dim, space.accumulator_kib, space.scratchpad_kib))

    def everything(self) -> _Ranges | None:
        """The box of all points; None when there is none."""
        dims, accs, sps = ((0, len(v) - 1) for v in self.values)
        whole = (dims, accs, sps)
        return whole if self._any(whole) else None

    def place(self, point: Sequence[int]) -> _Ranges:
        """The box of one point."""
        dim, acc, sp = (int(np.searchsorted(v, x)) for v, x in zip(self.values, point, strict=True))
        return (dim, dim), (acc, acc), (sp, sp)

    def _any(self, ranges: _Ranges) -> bool:
        """Whether a box may hold an allowed point: area and SRAM grow with the capacities, so if the least ones
        break their bounds on every side, all points do. Rules that couple the values are asked of single points
        alone."""
        low = self.region(ranges).low
        if all(first == last for first, last in ranges):
            return bool(self.space.allowed(low.dim, low.accumulator_kib, low.scratchpad_kib))
        first, last = ranges[0]
        areas = self.space.area_of(self.values[0][first : last + 1], low.accumulator_kib, low.scratchpad_kib)
        values = {"area_mm2": float(areas.min()), "sram_kib": low.accumulator_kib + low.scratchpad_kib}
        bounds = self.space.constraints.hardware_only
        return all(values[name] <= bound for name, bound in bounds.items())

    def halves(self, ranges: _Ranges) -> list[_Ranges]:
        """The two parts of a box, cut across its longest side (as a ratio)."""
        ratio = [v[b] / v[a] for v, (a, b) in zip(self.values, ranges, strict=True)]
        axis = int(np.argmax(ratio))
        first, last = ranges[axis]
        v = self.values[axis]
        middle = int(np.searchsorted(v, np.sqrt(float(v[first]) * float(v[last])), side="right")) - 1
        middle = min(max(middle, first), last - 1)
        parts = []
        for side in ((first, middle), (middle + 1, last)):
            cut = tuple(side if i == axis else r for i, r in enumerate(ranges))
            part = (cut[0], cut[1], cut[2])
            if self._any(part):
                parts.append(part)
        return parts

    def region(self, ranges: _Ranges) -> Region:
        """The box as hardware values."""
        low, high = (
            Point(*(int(v[r[end]]) for v, r in zip(self.values, ranges, strict=True))) for end in (0, 1)
        )
        return Region(low, high)


@dataclass
class _Box:
    """Lines known for a box of hardware points, and the EDP bound they give."""

    ranges: _Ranges
    region: Region
    weighings: Floats
    values: Floats
    bound: float = 0.0
    exact: bool = False

    @property
    def single(self) -> bool:
        """Whether it is one hardware point."""
        return self.region.low == self.region.high

    def add(self, weighings: Sequence[float], values: Floats) -> None:
        self.weighings = np.append(self.weighings, weighings)
        self.values = np.append(self.values, values)
        self.bound = max(self.bound, least_product(self.weighings, self.values)[0])

    @property
    def slope(self) -> float:
        """The weighing for which a further line lifts the least vertex best."""
        _, energy, latency = least_product(self.weighings, self.values)
        return latency / energy


class _Certifier:
    """Solvers by problem, and the best design known."""

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, incumbent: float, tolerance: float) -> None:
        self.space = space
        self.tolerance = tolerance
        self.tasks = tuple(tasks)
        self.grid = _Grid(space)
        self.runs: dict[Problem, float] = {}
        for task in tasks:
            self.runs[task.problem] = self.runs.get(task.problem, 0.0) + task.count
        self.solvers = {problem: LayerSolver(problem, space) for problem in self.runs}
        self.best = incumbent
        self.point: Point | None = None
        self.mappings: tuple[Mapping, ...] | None = None
        self.regions = self.solved = 0
        self.hint: list[float] = []  # a weighing that mattered on another point

    @property
    def target(self) -> float:
        """A bound this high is as good as wanted."""
        return self.best / (1 + self.tolerance)

    def start(self) -> list[_Box]:
        """Boxes that cover the space: all points if they can be listed, else one box."""
        if self.space.enumerable:
            cheap = capacity_bound(self.tasks, self.space)
            points = np.stack([cheap.dim, cheap.accumulator_kib, cheap.scratchpad_kib], axis=1).astype(int)
            return [
                self._box(self.grid.place(point), float(bound))
                for point, bound in zip(points.tolist(), cheap.edp_by_point, strict=True)
            ]
        everything = self.grid.everything()
        return [] if everything is None else [self._bounded(self._box(everything), [0.0, np.inf])]

    def _box(self, ranges: _Ranges, bound: float = 0.0) -> _Box:
        return _Box(ranges, self.grid.region(ranges), np.zeros(0), np.zeros(0), bound)

    def child(self, parent: _Box, ranges: _Ranges) -> _Box:
        """A part of a box: its parent's lines hold for it, and new ones are drawn where they matter."""
        box = replace(parent, ranges=ranges, region=self.grid.region(ranges))
        return self._bounded(box, [0.0, parent.slope, np.inf])

    def _bounded(self, box: _Box, weighings: list[float]) -> _Box:
        self.regions += 1
        box.add(weighings, self._cheap_lines(box.region, np.array(weighings)))
        return box

    def refine(self, box: _Box) -> bool:
        """Add a line to a single point's proof; returns whether no further line could lift its bound."""
        if not len(box.weighings):
            self._bounded(box, [0.0, *self.hint, np.inf])
            return not np.isfinite(box.bound)
        _, energy, latency = least_product(box.weighings, box.values)
        weighing = latency / energy
        self.hint = [weighing]
        here = weighing * energy + latency  # of the least vertex; a line that is no higher leaves it
        if not box.exact:
            values = self._cheap_lines(box.region, np.array([weighing]))
            box.add([weighing], values)
            # Once cheap lines no longer help, mappings are searched.
            box.exact = bool(values[0] <= here * (1 + max(self.tolerance / 10, _STALL)))
            self.solved += box.exact
            return not np.isfinite(box.bound)
        value = self._solve(box.region.low, weighing)
        box.add([weighing], np.array([value]))
        return value <= here * (1 + _STALL) or not np.isfinite(value)

    def _cheap_lines(self, region: Region, weighings: Floats) -> Floats:
        total = np.zeros(len(weighings))
        for problem, runs in self.runs.items():
            total += runs * self.solvers[problem].bounds(region, weighings)
            if not np.isfinite(total).any():
                break
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
