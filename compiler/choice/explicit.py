"""A mapping for the explicit styles: where the macros cannot do a layer, or groups are too small for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, Dataflow, check_executable
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.choice.equal_parts import equal_parts
from baco.compiler.latency import HardwareBatch, LayerBatch, predict_layers
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.commands import count_commands
from baco.compiler.latency.host import paced_moves
from baco.compiler.latency.model import constants, explicit_latency
from baco.compiler.latency.tiling import make_tiling
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.weight_blocks import BLOCK_CHANNELS
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.compiler.mapping.nest import Mapping, requirement
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.workloads.problem import DIMS, Problem

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Orders of the outer loops, and that of the inner ones.
_ORDERS, _INNER = ("CRSKPQN", "CRSPQNK"), "RSCKPQN"
#: How many sizes of a tile are tried along P, Q, K and C.
_MOST_SIZES = (6, 6, 6, 4)
#: Whole windows and copies of every tile, then ever less, until something fits.
_STEPS = ((True, (2, 2, 2)), (True, (2, 2, 1)), (True, (1, 1, 1)), (False, (1, 1, 1)))
#: Copies that are looked at beside, where commands come in turn: loads between passes cost the host core more than their waiting may.
_BESIDE: dict[tuple[int, int, int], tuple[tuple[int, int, int], ...]] = {(2, 2, 2): ((1, 2, 2), (2, 1, 2))}
#: Shares by which cycles in closed form count as more where weights, inputs, openings of tiles, or stores go one by one between passes: of
#: 205 good schedules of 33 layers on the timed model of the original, those without any are 2% over-told on the mean, others by 1 to 17%
#: under-told.
_DOUBTS = (0.05, 0.08, 0.03, 0.0)
#: Of windows of one pixel, mappings whose commands are gone through one by one, where these come in turn: so many of the fastest in closed form, whose errors are
#: 15%, unless one takes so many times as long.
_LOOKED_AT, _WITHIN = 24, 1.5


def explicit_mappings(
    layer: Layer, accelerator: Accelerator, blocks: tuple[int, int, int] | None = None
) -> Iterator[tuple[float, Mapping]]:
    """Mappings that fit the accelerator, with predicted cycles, the best first; none if none fits. By a timing whose commands come in
    turn, those are first that are the fastest by `issued_cycles`.

    Pixels of a tile are all at level 0 (a block of weights serves them all while it is in the array), the window and
    the depth of a tile at level 1, and tiles at level 3, with the depth innermost so that sums stay in the accumulator,
    and whichever of pixels and channels costs fewer loads outermost.

    Args:
        blocks: of a product: tiles are made of whole blocks of so many rows, columns and depth.
    """
    in_turn = PROFILES[accelerator.timing].in_turn
    # the host core decides what whole windows take, of which sums say more (depthwise layers of `baco bench choice --seed 25`)
    closer = in_turn and layer.problem.R * layer.problem.S == 1
    for whole, buffering in _STEPS:
        found: list[tuple[float, _Tilings, int]] = []
        for copies in (buffering, *(_BESIDE.get(buffering, ()) if in_turn else ())):
            tilings = _Tilings.of(layer, accelerator, copies, whole=whole)
            fits = tilings.fit(accelerator)
            if layer.real:  # channels are added up within each position of the kernel
                tile = tilings.tile(2)
                fits &= (tile["C"] >= layer.problem.C) | (tile["R"] * tile["S"] == 1)
            if blocks is not None:
                fits &= tilings.made_of(blocks)
            if fits.any():
                fitting = tilings.take(np.flatnonzero(fits))
                cycles = fitting.cycles(layer, accelerator, doubted=in_turn and not closer).tolist()
                found += [(took, fitting, n) for n, took in enumerate(cycles)]
        if found:
            found.sort(key=lambda option: option[0])
            # few are asked for
            options = ((took, fitting.mapping(n)) for took, fitting, n in found)
            return _looked_at(layer, accelerator, options) if closer else options
    return iter(())


def _looked_at(
    layer: Layer, accelerator: Accelerator, options: Iterator[tuple[float, Mapping]]
) -> Iterator[tuple[float, Mapping]]:
    """The fastest options with closer cycles, before all others."""
    first = list(itertools.islice(options, _LOOKED_AT))
    near = [mapping for took, mapping in first if took <= _WITHIN * first[0][0]]
    costs = predict_layers([layer] * len(near), [ExplicitSchedule(mapping) for mapping in near], accelerator)
    closer = [(cost.cycles.item(), mapping) for cost, mapping in zip(costs, near, strict=True)]
    closer.sort(key=lambda option: option[0])
    last = closer[-1][0]
    left = itertools.chain(first[len(near) :], options)
    return itertools.chain(closer, ((max(took, last), mapping) for took, mapping in left))


@dataclass(frozen=True)
class _Tilings:
    """Tilings of a problem on an accelerator, each with both orders of the outer loops.

    Attributes:
        levels: (T, 4, 7) temporal factors, dimensions in the order of `DIMS`.
        rows, columns: spatial factors, of all; dataflow, buffering: likewise, as of `Mapping`.
    """

    problem: Problem
    dataflow: Dataflow
    rows: int
    columns: int
    levels: Integers
    buffering: tuple[int, int, int]

    @classmethod
    def of(
        cls, layer: Layer, accelerator: Accelerator, buffering: tuple[int, int, int], *, whole: bool
    ) -> _Tilings:
        """With windows that are whole or single pixels; where weights lie in blocks, of whole ones."""
        p = layer.problem
        dataflow = accelerator.dataflows[0]
        check_executable([dataflow])
        rule = DATAFLOWS[dataflow]
        columns, spread = min(p.K, accelerator.dim), min(getattr(p, rule.row), accelerator.dim)
        unit = {"K": columns, rule.row: spread}
        least = dict(unit)
        if layer.weight_blocks is not None:
            whole_blocks = {"K": layer.weight_blocks.columns, "C": BLOCK_CHANNELS}
            least |= {name: math.lcm(unit.get(name, 1), size) for name, size in whole_blocks.items()}
        options = [
            _sizes(getattr(p, name), least.get(name, 1), most)
            for name, most in zip("PQKC", _MOST_SIZES, strict=True)
        ]
        grids = np.meshgrid(*options, indexing="ij")
        tile = {name: grid.ravel().astype(np.int64) for name, grid in zip("PQKC", grids, strict=True)}
        window = (p.R, p.S) if whole else (1, 1)
        tile |= {name: np.full_like(tile["P"], size) for name, size in zip("RS", window, strict=True)}
        levels = np.ones((len(tile["P"]), 4, len(DIMS)), dtype=np.int64)
        for d, (name, bound) in enumerate(zip(DIMS, p.bounds, strict=True)):
            each = unit.get(name, 1)
            if name in tile:
                inside = name in rule.loops[0]
                levels[:, 0 if inside else 1, d] = tile[name] if inside else -(-tile[name] // each)
            levels[:, 3, d] = -(-bound // (levels[:, 0, d] * levels[:, 1, d] * each))
        return cls(p, dataflow, spread, columns, levels, buffering)

    def take(self, index: Integers) -> _Tilings:
        """Those at `index`."""
        return replace(self, levels=self.levels[index])

    def mapping(self, n: int) -> Mapping:
        """The tiling n // 2 with the order n % 2."""
        order = _ORDERS[n % 2]
        temporal = tuple(tuple(level) for level in self.levels[n // 2].tolist())
        orders = (order, _INNER, _INNER, order)
        return Mapping(self.dataflow, self.rows, self.columns, temporal, orders, self.buffering)

    def tile(self, level: int) -> dict[str, Integers]:
        """As `Mapping.tile`, (T,) each."""
        extent = dict(zip(DIMS, self.levels[:, : level + 1].prod(1).T, strict=True))
        if level >= 1:
            extent[DATAFLOWS[self.dataflow].row] = extent[DATAFLOWS[self.dataflow].row] * self.rows
        if level >= 2:
            extent["K"] = extent["K"] * self.columns
        return extent

    def fit(self, accelerator: Accelerator) -> Bools:
        """Which fit, (T,)."""
        need = requirement(self, self.problem)
        return np.asarray(
            (need.accumulator_words <= accelerator.accumulator_rows)
            & (need.scratchpad_rows <= accelerator.scratchpad_rows)
        )

    def made_of(self, blocks: tuple[int, int, int]) -> Bools:
        """Whose tiles are whole blocks, or the whole product, (T,)."""
        tile, found = self.tile(2), np.ones(len(self.levels), dtype=np.bool_)
        for axis, size in zip("PKC", blocks, strict=True):
            found &= (tile[axis] % size == 0) | (tile[axis] >= getattr(self.problem, axis))
        return found

    def cycles(self, layer: Layer, accelerator: Accelerator, *, doubted: bool) -> NDArray[np.float64]:
        """Predicted, (2 T,): with both orders."""
        count = 2 * len(self.levels)
        places = [DIMS.index(axis) for axis in AXES]
        rank = np.array(
            [[[o.index(axis) for axis in AXES] for o in (_INNER, _INNER, one)] for one in _ORDERS]
        )
        flow = torch.full((count,), list(DATAFLOWS).index(self.dataflow))
        batch = MappingBatch(
            temporal=torch.from_numpy(
                np.repeat(self.levels[:, :, places], 2, 0).transpose(1, 2, 0).astype(np.float64)
            ),
            rows=torch.full((count,), float(self.rows), dtype=torch.float64),
            columns=torch.full((count,), float(self.columns), dtype=torch.float64),
            rank=torch.from_numpy(np.tile(rank, (len(self.levels), 1, 1)).transpose(1, 2, 0).astype(np.int8)),
            flow=flow if bool(flow.any()) else None,
            copies=torch.tensor([self.buffering], dtype=torch.float64).T.repeat(1, count),
        )
        first = torch.zeros(count, dtype=torch.int64)
        layers, hardware = LayerBatch.of([layer]).take(first), HardwareBatch.of([accelerator]).take(first)
        tiling = make_tiling(layers, batch, hardware, TensorArrays())
        commands = count_commands(tiling)
        cycles = explicit_latency(tiling, commands, constants(accelerator.timing)).cycles
        if doubted:
            for moves, doubt in zip(paced_moves(tiling, commands), _DOUBTS, strict=True):
                cycles = torch.where(moves, cycles * (1.0 + doubt), cycles)
        return np.asarray(cycles.numpy())


def _sizes(bound: int, unit: int, most: int) -> list[int]:
    """At most so many equal parts of a bound, in whole units."""
    units = -(-bound // unit)
    sizes = equal_parts(units).tolist()
    if len(sizes) > most:
        step = (len(sizes) - 1) / (most - 1)
        sizes = [sizes[round(n * step)] for n in range(most)]
    return [min(bound, size * unit) for size in sizes]
