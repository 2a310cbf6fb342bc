"""Plain gradient descent in the style of DOSA: the published one-loop baseline.

A few starts, one after the other: a random accelerator and good random mappings on it. The mappings' factors
are real numbers that move by Adam on the objective of the whole workload; the accelerator is what they need.
Every few hundred steps they are rounded to divisors, the best of the three published loop orders is chosen
for every layer, and descent goes on from there; the best rounded point is the result (Hong et al., MICRO
2023; method specification sections 3 and 4).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from baco.common import portable, tensors
from baco.common.portable import Floats
from baco.exploration.candidate import Cost
from baco.exploration.cost.evaluation import ACCUMULATOR, SCRATCHPAD, SIDE
from baco.exploration.cost.genome import (
    COLUMNS,
    FLOW,
    K_AXIS,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    WIDTH,
    Genomes,
    trivial,
)
from baco.exploration.cost.reference import access_counts, total_energy
from baco.exploration.samplers.relaxed import log_spatial, relaxed_mappings
from baco.exploration.samplers.sampler import Answer, Asked, Sampler, SamplerProblem
from baco.exploration.search.exact_factors import PUBLISHED_ORDERS, nearest_divisor
from baco.exploration.search.focus import direction

#: Descent steps of one start (published), between two roundings, and in one batch at most.
START_STEPS, ROUNDING_STEPS, _BATCH_STEPS = 1490, 298, 149
#: Starts of a run that can afford them (published); more follow if budget is left.
STARTS = 7
#: Random accelerators of which a start takes the best (the original rejects start points that are far worse
#: than others), and random mappings of every layer on each (the original asks a commercial solver for one).
_START_POINTS, _START_MAPPINGS = 5, 50
#: Adam's step, in the logarithm of a factor.
_RATE = 0.02
#: Weight of what is broken (a factor below 1, a constraint) against the logarithm of the objective.
_PENALTY = 10.0
#: How far, at most, the logarithms of factors are moved for roundings beside the nearest.
_NEAR = 0.5
#: A rounding that does not fit is tried again with inner factors raised to this power.
_SHRINK = 0.9
#: Relaxed factors of a mapping: rows, columns, 7 of level 1, 7 of level 2.
_PLACES = [ROWS, COLUMNS, *range(T1.start, T1.stop), *range(T2.start, T2.stop)]


class DosaSampler(Sampler):
    """See the module's description. Several metrics take turns, start by start."""

    phase = "descent"
    asks = 2
    #: Evaluations a layer that a step counts (forward and gradient), and that a mapping does which is tried at a start
    #: or in a rounding.
    step_cost, try_cost = 3, 1
    #: Roundings of every layer that are tried, the nearest one among them.
    roundings = 32

    def __init__(self, problem: SamplerProblem) -> None:
        super().__init__(problem)
        n = len(problem.tasks)
        #: Starts begun; steps done in the present ones, START_STEPS when the next are due; Adam's steps.
        self.starts, self.steps, self.adam_steps = 0, START_STEPS, 0
        #: (S, n, 16) logarithms of the relaxed factors, and the moments of their gradients.
        self.x, self.first, self.second = np.zeros((3, 0, n, len(_PLACES)))
        #: (S, n) dataflow and loop order; (S, 3) exponents of energy, latency and area in the objective.
        self.flow, self.order = np.zeros((2, 0, n), dtype=np.int64)
        self.exponents = np.zeros((0, 3))
        self._log_bounds = portable.log(problem.evaluator.problems.bounds)
        #: Mappings to go on from, which are to be reported, (S, n, 1, 26).
        self._adopted: Genomes | None = None
        self._batch: np.random.Generator | None = None

    # -- batches -----------------------------------------------------------------------------------------

    def ask(self, rng: np.random.Generator) -> Asked | None:
        """Random mappings to start from, steps of descent, or roundings; then what was adopted of these, which costs nothing."""
        adopted, self._adopted = self._adopted, None
        if rng is self._batch:
            return None if adopted is None else Asked(adopted, charge=0)
        self._batch = rng
        size = self.flow.size
        # What a rounding costs is kept back, so that no descent is in vain.
        rounding = self.try_cost * self.roundings * PUBLISHED_ORDERS * size
        affordable = (self.problem.left - rounding) // (self.step_cost * size) if size else 0
        if self.steps >= START_STEPS or affordable < 1:
            return self._start(rng)
        until_rounding = ROUNDING_STEPS - self.steps % ROUNDING_STEPS
        steps = int(min(affordable, until_rounding, START_STEPS - self.steps, _BATCH_STEPS))
        for _ in range(steps):
            self._descend()
        self.steps += steps
        charge = self.step_cost * size * steps
        if steps == affordable or self.steps % ROUNDING_STEPS == 0 or self.steps == START_STEPS:
            return self._round(rng, charge)
        nothing = np.zeros((0, len(self.problem.tasks), 1, WIDTH), dtype=np.int64)
        return Asked(nothing, np.zeros((0, 3)), charge=charge, offered=False)

    def tell(self, asked: Asked, answer: Answer) -> None:
        """Go on from the best mapping of every layer; of a start, on the best of its accelerators."""
        starts = len(self.flow)
        if asked.offered or not len(asked.genomes):
            return
        if self.steps:
            self._adopted = self._adopt_best(asked.genomes, answer.energy, answer.latency)
            return
        energy, latency = (v.reshape(starts, -1, *v.shape[1:]) for v in (answer.energy, answer.latency))
        layer_best = self._score(energy, latency).argmin(3)[..., None]
        totals = (
            portable.dot(np.take_along_axis(values, layer_best, 3)[..., 0], self.problem.evaluator.counts)
            for values in (energy, latency)
        )
        assert asked.point is not None
        area = np.asarray(self.problem.space.area_of(*asked.point.T)).reshape(starts, -1)
        point_best = (self._score(*totals) + self.exponents[:, 2:] * portable.log(area)).argmin(1)
        chosen = np.arange(starts), point_best
        rows = asked.genomes.reshape(starts, -1, *asked.genomes.shape[1:])[chosen]
        begun = self._adopt_best(rows, energy[chosen], latency[chosen])
        # Where trying is free, a start has cost nothing yet, so it is no result.
        self._adopted = begun if self.try_cost else None

    def _starts_at_once(self) -> int:
        """As many as the budget lets finish: one after the other would give the same, only slower."""
        steps = self.step_cost * START_STEPS
        per_start = len(self.problem.tasks) * (steps + self.try_cost * _START_POINTS * _START_MAPPINGS)
        return int(np.clip(self.problem.left / per_start, 1, STARTS))

    def _start(self, rng: np.random.Generator) -> Asked:
        """For every start some random accelerators, and on each some random mappings of every layer."""
        problem, n, starts = self.problem, len(self.problem.tasks), self._starts_at_once()
        mappings, points = _START_MAPPINGS, _START_POINTS
        if self.try_cost:
            mappings = int(min(mappings, problem.left // (n * starts)))
            points = int(min(points, problem.left // (n * starts * mappings)))
        metrics = problem.objective.metrics
        turns = range(self.starts, self.starts + starts)
        self.exponents = np.array([direction(metrics[turn % len(metrics)]) for turn in turns])
        self.flow, self.order = np.zeros((2, starts, n), dtype=np.int64)
        self.starts += starts
        self.steps = 0
        point = problem.hardware.random(starts * points, rng)
        charge = self.try_cost * starts * points * n * mappings
        return Asked(problem.drawn(point, mappings, rng), point, charge=charge, offered=False)

    def _score(self, energy: Floats, latency: Floats) -> Floats:
        """Logarithm of each start's objective without its area, for costs whose first axis are the starts."""
        shape = (-1,) + (1,) * (energy.ndim - 1)
        by_energy, by_latency = (self.exponents[:, i].reshape(shape) for i in (0, 1))
        return np.asarray(by_energy * portable.log(energy) + by_latency * portable.log(latency))

    def _adopt_best(self, genomes: Genomes, energy: Floats, latency: Floats) -> Genomes:
        """Go on from the best of the mappings (S, n, m, 26) of every layer of every start; those, (S, n, 1, 26)."""
        best = self._score(energy, latency).argmin(2)[..., None]
        adopted = np.take_along_axis(genomes, best[..., None], 2)
        chosen: Genomes = adopted[:, :, 0]
        self.flow, self.order = chosen[..., FLOW].copy(), chosen[..., ORDER].copy()
        self.x = portable.log(chosen[..., _PLACES])
        self.first, self.second = np.zeros((2, *self.x.shape))
        self.adam_steps = 0
        return adopted

    # -- descent -----------------------------------------------------------------------------------------

    def _descend(self) -> None:
        """One step of Adam; factors inside stay at least 1."""
        x = torch.from_numpy(self.x).requires_grad_()
        (slope,) = torch.autograd.grad(tensors.total(self._loss(x)), x)
        gradient = slope.numpy()
        self.adam_steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * (gradient * gradient)
        mean = self.first / (1 - math.prod([0.9] * self.adam_steps))
        spread = self.second / (1 - math.prod([0.999] * self.adam_steps))
        self.x = np.maximum(self.x - _RATE * mean / (np.sqrt(spread) + 1e-12), 0.0)
        self.x[..., :2] = np.minimum(self.x[..., :2], portable.log(self.problem.space.dim[-1]))

    def _loss(self, x: Tensor) -> Tensor:
        """Logarithm of the objective plus penalties, (S,); the accelerator is the maximum of the layers' needs."""
        space, evaluator = self.problem.space, self.problem.evaluator
        starts, n = self.flow.shape
        flat = x.reshape(starts * n, len(_PLACES)).T
        inside = flat[2:9] + flat[9:16] + log_spatial(flat, self.flow)
        log_dram = torch.from_numpy(np.tile(self._log_bounds, (starts, 1)).T) - inside
        task = torch.arange(n).repeat(starts)
        shape = evaluator.problems.batch.take(task)
        groups = shape.groups if space.double_buffer else None
        batch = relaxed_mappings(flat, log_dram, self.flow, self.order, groups)
        c = access_counts(shape, batch)

        def most(need: Tensor) -> Tensor:
            return need.view(starts, n).amax(1)

        dim = most(torch.maximum(c.rows, c.columns)).clamp(min=float(space.dim[0]))
        held = c.scratchpad_rows if space.rules == "gemmini" else c.scratchpad_words
        acc, sp = evaluator.kib(most(c.accumulator_words), most(held), dim)
        acc, sp = acc.clamp(min=float(space.accumulator_kib[0])), sp.clamp(min=float(space.scratchpad_kib[0]))
        each = [tensors.spread(v, n, 1).reshape(-1) for v in (dim, acc, sp)]
        latency, words = evaluator.model.relaxed(task, batch, c, each[0])
        energy = total_energy(replace(c, a3=words), each[0], each[1], each[2], space.base.energy_law)
        energy = energy + space.static_pj_of(latency, *each)

        def sum_up(layers: Tensor, counts: Floats) -> Tensor:
            return tensors.total(layers.view(starts, n).T * torch.from_numpy(counts).view(-1, 1))

        area = space.area_of(dim, acc, sp)
        total_e, total_l = (sum_up(one, evaluator.counts) for one in (energy, latency))
        exponents = torch.from_numpy(np.ascontiguousarray(self.exponents.T))
        loss = tensors.total(exponents * tensors.log(torch.stack([total_e, total_l, area])))
        shares = evaluator.counts * evaluator.members / evaluator.weights[:, None]
        networks = {
            name: Cost(sum_up(latency, runs), sum_up(energy, runs), area)  # type: ignore[arg-type]
            for name, runs in zip(evaluator.networks, shares, strict=True)
        }
        cost = Cost(total_l, total_e, area)  # type: ignore[arg-type]
        values = space.constraints.values(
            cost, sram_kib=acc + sp, clock_mhz=space.base.clock_mhz, networks=networks
        )
        pairs = [*values.values(), (acc, space.accumulator_kib[-1]), (sp, space.scratchpad_kib[-1])]
        excess = -tensors.total(tensors.total(log_dram.clamp(max=0.0)).view(starts, n), 1)
        ratios = torch.stack([value / bound for value, bound in pairs])
        excess = excess + tensors.total(tensors.log(ratios).clamp(min=0.0))
        result: Tensor = loss + _PENALTY * excess
        return result

    # -- rounding ----------------------------------------------------------------------------------------

    def _round(self, rng: np.random.Generator, charge: int) -> Asked:
        """Round to divisors; of every layer some near roundings in all loop orders, for the accelerator which the nearest ones
        need."""
        (starts, n), evaluator = self.flow.shape, self.problem.evaluator
        nearest = np.stack([self._rounded(start) for start in range(starts)])
        m = evaluator.measure(np.tile(np.arange(n), starts), nearest.reshape(-1, WIDTH)).reshape(
            -1, starts, n
        )
        point = evaluator.least(*m[[SIDE, ACCUMULATOR, SCRATCHPAD]].max(-1))
        tried = np.repeat(nearest[:, :, None], self.roundings, 2)
        for start in range(starts):
            near = np.repeat(self.x[start], self.roundings - 1, axis=0)
            near = near + _NEAR * (2 * rng.random(near.shape) - 1)
            found = self._snap(start, near, int(point[start, 0]), self.roundings - 1)
            tried[start, :, 1:] = found.reshape(n, self.roundings - 1, WIDTH)
        many = np.repeat(tried, PUBLISHED_ORDERS, axis=2)
        many[..., ORDER] = np.tile(np.arange(PUBLISHED_ORDERS), self.roundings)
        charge += self.try_cost * many[..., 0].size
        return Asked(many, point, charge=charge, offered=False)

    def _rounded(self, start: int) -> Genomes:
        """Whole-number mappings (n, 25), spatial factors first, then inner to outer. If the accelerator that
        they need is not in the space, they are made to fit the nearest one that is."""
        task = np.arange(len(self.problem.tasks))
        x = self.x[start]
        genomes = self._snap(start, x, self.problem.space.dim[-1])
        side, acc, sp = self.problem.evaluator.needs(task, genomes)
        point = self.problem.evaluator.least(
            side.max(keepdims=True), acc.max(keepdims=True), sp.max(keepdims=True)
        )
        if self.problem.space.allowed(*point[0]) and self.problem.evaluator.fits(task, genomes, point).all():
            return genomes
        dim = max(2.0, float(side.max()))
        least = self.problem.evaluator.kib(acc.max(), sp.max(), dim)
        point = self.problem.hardware.nearest(portable.log2([[dim, *least]]))
        genomes = self._snap(start, x, int(point[0, 0]))
        smaller = x.copy()
        for _ in range(60):
            broken = np.flatnonzero(~self.problem.evaluator.fits(task, genomes, point))
            if not len(broken):
                break
            smaller[:, 2:] *= _SHRINK
            genomes[broken] = self._snap(start, smaller, int(point[0, 0]))[broken]
        return genomes

    def _snap(self, start: int, x: Floats, dim: int, each: int = 1) -> Genomes:
        """Factors rounded to the nearest divisor of what is left of the bound, array factors within `dim`; `each` rows of
        every layer."""
        genomes = trivial(len(x))
        flow = np.repeat(self.flow[start], each)
        genomes[:, FLOW], genomes[:, ORDER] = flow, np.repeat(self.order[start], each)
        left = np.repeat(self.problem.evaluator.problems.bounds, each, axis=0)
        index = np.arange(len(x))
        for place, axis in ((ROWS, ROW_AXIS[flow]), (COLUMNS, np.full(len(x), K_AXIS))):
            genomes[:, place] = nearest_divisor(x[:, place - ROWS], left[index, axis], np.full(len(x), dim))
            left[index, axis] //= genomes[:, place]
        for block, columns in ((T1, slice(2, 9)), (T2, slice(9, 16))):
            for axis in range(7):
                factor = nearest_divisor(x[:, columns][:, axis], left[:, axis], left[:, axis])
                genomes[:, block.start + axis] = factor
                left[:, axis] //= factor
        genomes[:, T3] = left
        return genomes


class PublishedDosaSampler(DosaSampler):
    """The same descent, counted as its publication does: a step of all layers is one sample, gradient included, and what
    starts and roundings try is free. Seven starts of 1,490 steps are 10,430 samples."""

    step_cost, try_cost = 1, 0
