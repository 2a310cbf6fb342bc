"""Relaxed mappings: real-valued factors that move by gradient descent, many starts in one batch.

Variables are logarithms of the factors of the array and of levels 1 and 2; the DRAM factor is the loop bound
divided by them (method specification section 4). One start is a mapping for every task plus the accelerator
inferred from them: a fixed array side, and capacities that are the (smooth) maximum over tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baco.common import portable, tensors
from baco.common.portable import Floats
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    DATAFLOW_NUMBER,
    FLOW,
    K_AXIS,
    ONCE,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    Genomes,
    ProblemSet,
    assemble,
    is_macro_flow,
    tighten,
    trivial,
)
from baco.exploration.cost.model import CostModel
from baco.exploration.cost.reference import access_counts, total_energy
from baco.exploration.search.exact_factors import nearest_divisor
from baco.exploration.space import DesignSpace

#: Exponent of the smooth maximum over tasks: large enough to be near the maximum, small enough that every
#: large task feels the pull and not the largest alone.
_MAX_POWER = 12.0


@dataclass(frozen=True)
class Weights:
    """Exponents of the scalarised objective E^energy · L^latency · A^area, one value a start, (S,)."""

    energy: Floats
    latency: Floats
    area: Floats


class RelaxedStarts:
    """A batch of S starts on n tasks, with the state of the Adam optimiser.

    Args:
        problems: the tasks' problems.
        counts: (n,) repetitions.
        model: predicts latency.
        space: technology, capacity rule, buffering, limits.
        dim: (S,) array side of each start.
        units: (S,) which have row functions, where that is searched.
        flow: (S, n) dataflow of each mapping.
        order: (S, n) DRAM order of each mapping.
        once: (S, n) tensors that each mapping holds once (`baco.exploration.cost.genome.ONCE`).
        log_factors: (S, n, 16) logarithms: rows, columns, 7 factors of level 1, 7 of level 2.
        weights: what each start minimises.
    """

    def __init__(
        self,
        problems: ProblemSet,
        counts: Floats,
        model: CostModel,
        space: DesignSpace,
        dim: Floats,
        units: NDArray[np.bool_],
        flow: NDArray[np.int64],
        order: NDArray[np.int64],
        once: NDArray[np.int64],
        log_factors: Floats,
        weights: Weights,
    ) -> None:
        self.problems = problems
        self.model = model
        self.space = space
        self.counts = torch.from_numpy(counts).view(-1, 1)
        self.dim = dim
        self.units = torch.from_numpy(units.astype(np.float64))
        self.flow = flow
        self.order = order
        self.once = once
        self.weights = weights
        self.x = torch.from_numpy(log_factors.copy())
        self.first = torch.zeros_like(self.x)
        self.second = torch.zeros_like(self.x)
        self.steps = 0
        rest = (np.zeros((len(dim), 1)),) * 4
        if model.rest is not None:
            # with memories that hold what row functions need: descent does not lead to the smallest ones
            rest = model.rest.of(dim, units=space.units_at(units))
        #: Amounts of what programs do beside the tasks (`RestOfPrograms.of`), (S,) each.
        self._rest = [torch.from_numpy(portable.total(one)) for one in rest]
        starts, tasks = flow.shape
        self._bounds = torch.from_numpy(portable.log(problems.bounds))
        self._task = torch.arange(tasks).repeat(starts)
        self._shape = problems.batch.take(self._task)
        self._side = torch.from_numpy(portable.log(dim)).view(-1, 1).expand(starts, tasks)
        self.project()

    @property
    def size(self) -> int:
        """Problem-mapping evaluations in one forward pass."""
        return int(self.flow.size)

    def project(self) -> None:
        """Back to the feasible box: factors at least 1, array factors within the side, products within the
        bounds (so that the DRAM factor is at least 1). Mappings in macro form keep it: the array as full as it
        can be, and no loops at level 2."""
        macro = torch.from_numpy(is_macro_flow(self.flow))
        some_macro = bool(macro.any())
        with torch.no_grad():
            x = self.x.clamp_(min=0.0)
            if some_macro:
                x[..., 9:16] = torch.where(macro[..., None], 0.0, x[..., 9:16])
                for place, axis in ((0, C_AXIS), (1, K_AXIS)):
                    x[..., place] = torch.where(macro, self._bounds[:, axis], x[..., place])
            x[..., 0] = torch.minimum(x[..., 0], self._side)
            x[..., 1] = torch.minimum(x[..., 1], self._side)
            axes = torch.from_numpy(ROW_AXIS[self.flow])
            mask = torch.nn.functional.one_hot(axes, len(AXES)).to(torch.float64)
            spatial = x[..., 0:1] * mask
            spatial[..., K_AXIS] += x[..., 1]
            if some_macro:
                inside = torch.minimum(x[..., 2:9], self._bounds - spatial)
                x[..., 2:9] = torch.where(macro[..., None], inside, x[..., 2:9])
            total = spatial + x[..., 2:9] + x[..., 9:16]
            scale = torch.where(total > self._bounds, self._bounds / total.clamp(min=1e-9), 1.0)
            x[..., 0] *= scale.gather(-1, axes[..., None])[..., 0]
            x[..., 1] *= scale[..., K_AXIS]
            x[..., 2:9] *= scale
            x[..., 9:16] *= scale

    def loss(self, x: Tensor) -> Tensor:
        """Logarithm of the scalarised objective of each start, (S,). Constraint on area as a penalty."""
        starts, tasks = self.flow.shape
        flat = x.reshape(starts * tasks, 16).T
        bounds = self._bounds.repeat(starts, 1).T
        log_dram = bounds - log_spatial(flat, self.flow) - flat[2:9] - flat[9:16]
        macro = torch.from_numpy(is_macro_flow(self.flow.reshape(-1)))
        groups = self._shape.groups if self.space.double_buffer else None
        batch = relaxed_mappings(flat, log_dram, self.flow, self.order, groups, self.once)
        c = access_counts(self._shape, batch)
        dim = torch.from_numpy(self.dim)
        need = c.scratchpad_rows if self.space.rules == "gemmini" else c.scratchpad_words
        acc_words = _smooth_max(c.accumulator_words.view(starts, tasks))
        sp_need = _smooth_max(need.view(starts, tasks))
        acc_kib = (dim * acc_words * 4 / 1024).clamp(min=float(self.space.accumulator_kib[0]))
        row = dim * self.space.base.element_bytes if self.space.rules == "gemmini" else 1
        sp_kib = sp_need * row / 1024
        sp_kib = sp_kib.clamp(min=float(self.space.scratchpad_kib[0]))

        def each(per_start: Tensor) -> Tensor:
            return tensors.spread(per_start, tasks, 1).reshape(-1)

        base = self.space.base
        cycles, words = self.model.relaxed(self._task, batch, c, each(dim), macro)
        c = replace(c, a3=words)
        energy = total_energy(c, each(dim), each(acc_kib), each(sp_kib), base.energy_law)
        rest_cycles, *amounts = self._rest
        rest_pj = base.energy_law.with_memories(
            *amounts, accumulator_kib=acc_kib, scratchpad_kib=sp_kib, dim=dim
        )
        total_pj, total_cycles = (
            tensors.total(one.view(starts, tasks).T * self.counts) + rest
            for one, rest in ((energy, rest_pj), (cycles, rest_cycles))
        )
        total_pj = total_pj + self.space.static_pj_of(total_cycles, dim, acc_kib, sp_kib, self.units)
        area = self.space.area_of(dim, acc_kib, sp_kib, self.units)
        w = self.weights
        exponents = torch.from_numpy(np.stack([w.energy, w.latency, w.area]))
        loss = tensors.total(exponents * tensors.log(torch.stack([total_pj, total_cycles, area])))
        ratios = [acc_kib / self.space.accumulator_kib[-1], sp_kib / self.space.scratchpad_kib[-1]]
        if self.space.constraints.area_mm2 is not None:
            ratios.append(area / self.space.constraints.area_mm2)
        excess = tensors.total(tensors.log(torch.stack(ratios)).clamp(min=0.0))
        result: Tensor = loss + 3.0 * excess
        return result

    def descend(self, rate: float) -> Floats:
        """One projected Adam step of every start; costs three evaluations a mapping. Returns losses (S,)."""
        x = self.x.detach().requires_grad_()
        losses = self.loss(x)
        (gradient,) = torch.autograd.grad(tensors.total(losses), x)
        # Layers differ in their share of the objective by orders of magnitude; Adam's scaling lets all move.
        self.steps += 1
        # a product and a sum in one call may be one operation, with other bits, on some processors
        self.first = self.first * 0.9 + gradient * 0.1
        self.second = self.second * 0.99 + gradient * gradient * 0.01
        m = self.first / (1 - math.prod([0.9] * self.steps))
        v = self.second / (1 - math.prod([0.99] * self.steps))
        with torch.no_grad():
            self.x = self.x - rate * m / (v.sqrt() + 1e-12)
        self.project()
        values: Floats = losses.detach().numpy()
        return values

    def rounded(self, variant: int = 0) -> tuple[NDArray[np.int64], Genomes]:
        """Valid whole-number mappings nearest to the relaxed ones, spatial first, then inner to outer.

        Args:
            variant: 0 rounds every factor to the nearest whole number, 1 rounds to a divisor of what is left.

        Returns:
            (S·n,) task of each row, and the rows, start by start.
        """
        starts, tasks = self.flow.shape
        genomes = trivial(starts * tasks)
        genomes[:, FLOW] = self.flow.reshape(-1)
        genomes[:, ORDER] = self.order.reshape(-1)
        genomes[:, ONCE] = self.once.reshape(-1)
        task = np.tile(np.arange(tasks), starts)
        bounds = self.problems.bounds[task]
        side = np.repeat(self.dim, tasks)
        factors = portable.exp(self.x.reshape(-1, 16).numpy())
        index = np.arange(len(genomes))
        row_axis = ROW_AXIS[genomes[:, FLOW]]
        left = bounds.copy()

        def settle(value: Floats, axis_left: NDArray[np.int64], limit: Floats) -> NDArray[np.int64]:
            most = np.minimum(axis_left, limit.astype(np.int64))
            if variant:
                return nearest_divisor(portable.log(value), axis_left, most)
            return np.clip(np.rint(value).astype(np.int64), 1, most)

        macro = is_macro_flow(genomes[:, FLOW])

        def spread(value: Floats, bound: NDArray[np.int64]) -> NDArray[np.int64]:
            full = np.minimum(bound, side.astype(np.int64))
            return np.where(macro, full, settle(value, bound, side))

        genomes[:, ROWS] = spread(factors[:, 0], left[index, row_axis])
        left[index, row_axis] = -(-left[index, row_axis] // genomes[:, ROWS])
        genomes[:, COLUMNS] = spread(factors[:, 1], left[:, K_AXIS])
        left[:, K_AXIS] = -(-left[:, K_AXIS] // genomes[:, COLUMNS])
        for place, columns in ((T1, slice(2, 9)), (T2, slice(9, 16))):
            values = factors[:, columns]
            chosen = np.stack(
                [settle(values[:, a], left[:, a], left[:, a].astype(np.float64)) for a in range(7)], 1
            )
            genomes[:, place] = chosen
            left = -(-left // chosen)
        tighten(genomes, bounds)
        return task, genomes


def relaxed_mappings(
    factors: Tensor,
    log_dram: Tensor,
    flow: NDArray[np.int64],
    order: NDArray[np.int64],
    groups: Tensor | None,
    once: NDArray[np.int64] | None = None,
) -> MappingBatch:
    """Mappings of real-valued factors.

    Args:
        factors: (16, B) logarithms: rows, columns, 7 of level 1, 7 of level 2.
        log_dram: (7, B) logarithms of the factors at main memory, which are at least 1.
        flow, order, once: of each mapping, B in all (`baco.exploration.cost.genome`).
        groups: (B,) of the problems where tiles that change are held twice, else None.
    """
    number, macro = DATAFLOW_NUMBER[flow.reshape(-1)], is_macro_flow(flow.reshape(-1))
    real = tensors.exp(factors)
    return assemble(
        torch.from_numpy(number) if number.any() else None,
        real[0],
        real[1],
        real[2:9],
        real[9:16],
        tensors.exp(log_dram.clamp(min=0.0)),
        torch.from_numpy(order.reshape(-1)),
        groups,
        torch.from_numpy(macro) if macro.any() else None,
        torch.from_numpy(once.reshape(-1)) if once is not None and once.any() else None,
    )


def log_spatial(factors: Tensor, flow: NDArray[np.int64]) -> Tensor:
    """Logarithms (7, B) of what mappings spread over the array along each axis.

    Args:
        factors: (16, B) logarithms: rows, columns, others.
        flow: dataflow of each mapping, B in all.
    """
    row_axis = ROW_AXIS[flow.reshape(-1)]
    # rows are never spread over K
    axis = torch.from_numpy(np.stack([row_axis, np.full_like(row_axis, K_AXIS)]))
    return torch.zeros((len(AXES), len(row_axis)), dtype=factors.dtype).scatter(0, axis, factors[:2])


def _smooth_max(values: Tensor) -> Tensor:
    """Maximum over the last axis, smoothed so that all near-maximal entries get a gradient; (S,).

    A weighted mean with weights v^p, so never above the true maximum."""
    scaled = values / values.detach().amax(-1, keepdim=True)
    weight = tensors.power(scaled, _MAX_POWER)
    return tensors.total(values * weight, -1) / tensors.total(weight, -1)
