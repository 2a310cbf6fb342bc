"""The instruction-aware model as a search uses it: latencies and traffic by array side, and which mappings run as macros.

Latency and the bytes that main memory moves depend on the array's side and on what the space fixes (DMA, memory
bandwidth, queues), but not on capacities: these only say whether a mapping fits. So a pair of numbers a side serves all
accelerators of a space.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW, check_executable
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import INTEGER_ARRAYS
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.latency import HardwareBatch, LayerBatch, latency, predict_layers
from baco.compiler.latency.batch import Resource
from baco.compiler.layers.float_sums import in_sum_order
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import (
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.styles.macros.estimate import expansion_cycles
from baco.compiler.styles.macros.loop_conv_check import POOLED_SIDE, downsamples, plan_loop_conv
from baco.compiler.styles.macros.loop_ws import as_product, check_loop_ws
from baco.compiler.styles.macros.tile_rows import (
    ConvExtents,
    conv_tile_rows,
    one_step,
    pooled_reach,
    pooled_results,
    product_tile_rows,
)
from baco.compiler.styles.packed import packed_layer
from baco.compiler.styles.registry import macro_form, realise
from baco.exploration.candidate import CodeStyle, CostModelName, LayerCost
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    DATAFLOW_NUMBER,
    FLOW,
    INNER_ORDER,
    K_AXIS,
    ORDER,
    ORDERS,
    P_AXIS,
    PLAIN,
    Q_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    ProblemSet,
    batch_of,
    copies_of,
    explicit,
    is_macro_flow,
    macro_flow,
    macro_side,
    needs,
)
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.reference import Counts
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.workloads.problem import DIMS, Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Places of axes (7,) in the orders of loops, innermost smallest.
_PLACES = np.array([[order.index(axis) for axis in AXES] for order in ORDERS])
#: Rows predicted at once, so that memory stays small.
_CHUNK = 32_768


class InstructionModel:
    """See `baco.exploration.cost.model.CostModel`.

    Args:
        layers: what the tasks compute, in the tasks' order.
        space: of the `gemmini` rules.
        rest: what programs do beside the tasks; None where only these count.

    Attributes:
        sides: (S,) array sides of the space, ascending.
        accelerators: one with the largest memories for every side.
        able: (tasks, S) whether a macro can carry the layer out at all, strides or dilations that differ down and across in tiles of one
            row or column.
        real: (tasks,) whether the layer adds up floating point, which has one order.
        packs: (tasks,) whether groups of the layer may share a pass.
        product: (tasks,) whether that macro is LOOP_WS, else LOOP_CONV_WS.
    """

    name: CostModelName = "instruction"
    macros = True
    exact = False
    padded = False

    def __init__(
        self, layers: Sequence[Layer], space: DesignSpace, rest: RestOfPrograms | None = None
    ) -> None:
        check_executable(space.dataflows)
        self.rest = rest
        self.layers = tuple(layers)
        self.space = space
        points = space.rule_points()
        self.sides: Ints = np.unique(points.dim)
        self.accelerators = side_machines(space)
        self.kept = 2 * len(self.sides) + 2
        most = int(self.sides[-1]) if MACRO_DATAFLOW in space.dataflows else 1
        packed = [_packed_layers(layer, most) for layer in layers]
        self.packs: Bools | None = np.array([len(ones) > 0 for ones in packed], dtype=np.bool_)
        self.problems = ProblemSet([layer.problem for layer in layers], self.packs)
        self.product = np.array([as_product(layer) is not None for layer in layers])
        self.real = np.array([layer.real for layer in layers], dtype=np.bool_)
        self._uneven = ~self.product & np.array(
            [
                (one.problem.stride_h, one.problem.dilation_h)
                != (one.problem.stride_w, one.problem.dilation_w)
                for one in layers
            ],
            dtype=np.bool_,
        )
        self.able = np.array([[_able(layer, a) for a in self.accelerators] for layer in layers])
        self._pools = {
            axis: np.array(
                [
                    (one.pooling.size, one.pooling.stride, getattr(one.pooling, axis))
                    if one.pooling
                    else (0, 1, 1)
                    for one in layers
                ],
                dtype=np.int64,
            )
            for axis in ("rows", "columns")
        }
        self._down = np.array([int(downsamples(layer)) for layer in layers])
        self._asked = np.ones(len(self.sides), dtype=np.bool_)
        #: Place in `_layers` of each layer with two groups at once; those with more follow.
        self._first: Ints = len(layers) + np.cumsum([0, *map(len, packed)])[:-1]
        runs = [one for ones in packed for one in ones]
        self._layers = LayerBatch.of([*self.layers, *runs])
        before = [
            expansion_cycles(layer, n)
            for layer, ones in zip(layers, packed, strict=True)
            for n in range(2, len(ones) + 2)
        ]
        self._before = np.array([0.0] * len(layers) + before)
        self._hardware = HardwareBatch.of(self.accelerators)

    def narrowed(self, sides: Ints) -> InstructionModel:
        """The same model, which predicts no other sides: on those nothing runs."""
        one = copy(self)
        one._asked = np.isin(self.sides, sides)
        return one

    def at(self, space: DesignSpace) -> InstructionModel:
        """See `CostModel`. What macros can do on a side depends on features alone, and not on settings."""
        rest = self.rest.at(space) if self.rest is not None else None
        one = copy(self)
        one.space, one.rest = space, rest
        one.accelerators = side_machines(space)
        if [a.dim for a in one.accelerators] != self.sides.tolist():
            return InstructionModel(self.layers, space, rest)
        one._hardware = HardwareBatch.of(one.accelerators)
        return one

    def beside(self, rest: RestOfPrograms) -> InstructionModel:
        """See `CostModel`."""
        one = copy(self)
        one.rest = rest
        return one

    # -- searching ---------------------------------------------------------------------------------------

    def keep(self, task: Ints, genomes: Genomes, counts: Counts) -> Floats:
        """Latency on every side, infinite where the mapping is not for that side, then bytes moved, then rows of
        accumulator and of scratchpad, (2 S + 2, B)."""
        cycles = np.full((len(self.sides), len(task)), np.inf)
        moved = np.zeros_like(cycles)
        allowed, macro = self._meant(task, genomes)
        batch = batch_of(self.problems.batch.take(torch.from_numpy(task)), genomes, self.space.double_buffer)
        packed = self.problems.packed(task, genomes)
        run = np.where(packed > 1, self._first[task] + packed - 2, task)
        for kind in (False, True):  # apart, so that nothing need be picked out twice
            side, row = np.nonzero(allowed & (macro == kind))
            for start in range(0, len(row), _CHUNK):
                s, b = side[start : start + _CHUNK], row[start : start + _CHUNK]
                found = latency(
                    self._layers.take(torch.from_numpy(run[b])),
                    batch.take(torch.from_numpy(b)),
                    self._hardware.take(torch.from_numpy(s)),
                    torch.full((len(b),), kind),
                )
                cycles[s, b] = found.cycles.numpy() + self._before[run[b]]
                moved[s, b] = found.bytes.numpy()
        return np.concatenate([cycles, moved, counts.a1_rows.numpy()[None], counts.a2_rows.numpy()[None]])

    def cycles(self, kept: Floats, dim: Floats) -> Floats:
        """See `CostModel`."""
        place = self._place(dim)
        found = _at(kept[: len(self.sides)], place)
        return np.asarray(np.where(self.sides[place] == dim, found, np.inf))

    def words(self, kept: Floats, dim: Floats) -> Floats:
        """See `CostModel`; a word is a byte."""
        return _at(kept[len(self.sides) : 2 * len(self.sides)], self._place(dim))

    def local(self, kept: Floats, dim: Floats) -> tuple[Floats, Floats]:
        """See `CostModel`."""
        return kept[-2] * dim, kept[-1] * dim

    def _place(self, dim: Floats | Ints) -> Ints:
        """Where array sides are, or would be, in `sides`."""
        return np.asarray(np.searchsorted(self.sides, dim).clip(0, len(self.sides) - 1))

    def groups(self, kept: Floats) -> list[Bools]:
        """Every side needs a mapping of its own."""
        return list(np.isfinite(kept[: len(self.sides)]))

    def needs(
        self, task: Ints, genomes: Genomes, accumulator: Floats, scratchpad: Floats
    ) -> tuple[Floats, Floats]:
        """Rows of the local memories that mappings take: what `baco.exploration.cost.genome.needs` says, and for macro form no less
        than the two halves in which the macro places its blocks (`baco.compiler.styles.macros.loop_conv_check`, `loop_ws`)."""
        index = np.flatnonzero(is_macro_flow(genomes[:, FLOW]))
        if not len(index):
            return accumulator, scratchpad
        acc, sp = self._macro_rows(task[index], genomes[index], macro_side(genomes[index, FLOW]))
        accumulator, scratchpad = accumulator.copy(), scratchpad.copy()
        accumulator[index] = np.maximum(accumulator[index], 2.0 * acc)
        scratchpad[index] = np.maximum(scratchpad[index], 2.0 * sp)
        return accumulator, scratchpad

    def can(self, task: Ints, dim: Ints) -> Bools:
        """Whether macros carry tasks out on arrays of the given sides."""
        place = self._place(dim)
        return np.asarray(self.able[task, place] & (self.sides[place] == dim))

    def styled(self, task: Ints, genomes: Genomes, side: Ints | None = None) -> Genomes:
        """Rows whose flow says that they are in macro form where arrays of the given sides (None: the least that hold
        the rows) would run them so."""
        extent = genomes[:, [ROWS, COLUMNS]].max(1) if side is None else side
        place = self._place(extent)
        dim = self.sides[place]
        macro = (
            ~is_macro_flow(genomes[:, FLOW]) & self.able[task, place] & self.macro_shape(task, genomes, dim)
        )
        if not macro.any():
            return genomes
        rows = genomes.copy()
        rows[macro, FLOW] = macro_flow(dim[macro])
        return rows

    def _macro_rows(self, task: Ints, genomes: Genomes, side: Ints) -> tuple[Ints, Ints]:
        """Rows that a macro's tile takes of accumulator and scratchpad on arrays of the given sides."""
        tile = self._macro_tile(task, genomes)
        weights, inputs, results = product_tile_rows(
            -(-tile.rows * tile.columns * tile.images // side), -(-tile.channels // side), -(-tile.depth // side), side
        )  # fmt: skip
        (stride, _), (dilation, _) = self._macro_steps(task, tile)
        of_convolution = conv_tile_rows(tile, stride, dilation, self._down[task], side)
        product = self.product[task]
        scratchpad: Ints = np.asarray(
            np.where(product, weights + inputs, of_convolution[0] + of_convolution[1])
        )
        accumulator: Ints = np.asarray(np.where(product, results, of_convolution[2]))
        return accumulator, scratchpad

    def _macro_tile(self, task: Ints, genomes: Genomes) -> ConvExtents:
        """Extents (B,) of a macro's tile."""
        bounds, trips = self.problems.bounds[task], genomes[:, T3]
        tile = genomes[:, T1].copy()
        tile[:, C_AXIS] *= genomes[:, ROWS]
        tile[:, K_AXIS] *= genomes[:, COLUMNS]
        r, s, c, k, p, q, n = np.minimum(tile, bounds).T
        p = self._reach(task, p, trips[:, P_AXIS], bounds[:, P_AXIS], "columns")
        q = self._reach(task, q, trips[:, Q_AXIS], bounds[:, Q_AXIS], "rows")
        return ConvExtents(n, q, p, k, s, r, c)

    def _macro_steps(self, task: Ints, tile: ConvExtents) -> tuple[tuple[Ints, Bools], tuple[Ints, Bools]]:
        """The one stride and the one dilation of LOOP_CONV_WS for tiles, and whether there is one."""
        steps = []
        for name, rows, columns in (
            ("stride", tile.rows, tile.columns), ("dilation", tile.kernel_rows, tile.kernel_columns)
        ):  # fmt: skip
            down, across = (
                getattr(self.problems.batch, f"{name}_{axis}").numpy()[task].astype(np.int64) for axis in "hw"
            )
            steps.append(one_step(INTEGER_ARRAYS, down, across, rows, columns))
        return steps[0], steps[1]

    def _reach(self, task: Ints, tile: Ints, trips: Ints, extent: Ints, axis: str) -> Ints:
        """Results along an axis that a macro computes for a tile, before pooling: whole windows."""
        size, stride, stored = self._pools[axis][task].T
        part = pooled_results(INTEGER_ARRAYS, tile, trips, extent, (size, stride, stored))
        return np.where(size > 0, pooled_reach(INTEGER_ARRAYS, part, extent, size, stride), tile)

    def macro_shape(self, task: Ints, genomes: Genomes, side: Ints) -> Bools:
        """Which rows a macro carries out on arrays of the given sides, whatever their flow says: those whose mapping
        has macro form (`baco.compiler.styles.registry.macro_form`) and all of whose tiles have two copies."""
        bounds = self.problems.bounds[task]
        t1 = genomes[:, T1]
        twice = is_macro_flow(genomes[:, FLOW])
        if self.space.double_buffer:
            twice |= (copies_of(genomes, self.problems.groups[task]) == 2).all(0)
        spread = np.ones(len(genomes), dtype=np.bool_)
        for axis, place in ((C_AXIS, ROWS), (K_AXIS, COLUMNS)):
            tile = np.minimum(t1[:, axis] * genomes[:, place], bounds[:, axis])
            spread &= (genomes[:, place] <= side) & (t1[:, axis] <= -(-tile // side))
        pooled = np.flatnonzero(self._pools["rows"][task, 0])
        for axis, name in ((P_AXIS, "columns"), (Q_AXIS, "rows")) if len(pooled) else ():
            one, extent = task[pooled], bounds[pooled, axis]
            tile = np.minimum(t1[pooled, axis], extent)
            spread[pooled] &= (
                self._reach(one, tile, genomes[pooled][:, T3][:, axis], extent, name) < POOLED_SIDE
            )
        uneven = np.flatnonzero(self._uneven[task])
        if len(uneven):
            tile = self._macro_tile(task[uneven], genomes[uneven])
            (_, one_stride), (_, one_dilation) = self._macro_steps(task[uneven], tile)
            spread[uneven] &= one_stride & one_dilation
        stationary = DATAFLOW_NUMBER[genomes[:, FLOW]] == PLAIN
        if self.packs is not None and self.packs.any():
            # rows that hold several groups run these at once, whatever their flow says: no macro does
            stationary &= self.problems.packed(task, explicit(genomes)) == 1
        return np.asarray(
            stationary & twice & spread & (genomes[:, T2] == 1).all(1) & self._ordered(task, genomes)
        )

    def in_order(self, task: Ints, genomes: Genomes, side: Ints) -> Bools:
        """See `CostModel`."""
        found = np.ones(len(task), dtype=np.bool_)
        index = np.flatnonzero(self.real[task])
        if not len(index):
            return found
        task, rows, side = task[index], genomes[index], side[index]
        bounds = self.problems.packed_bounds(task, self.problems.packed(task, rows))
        inner = rows[:, T1] * rows[:, T2]
        inner[:, C_AXIS] *= rows[:, ROWS]
        tile = np.minimum(inner, bounds)
        trips, rank, tiles = (
            dict(zip(AXES, table.T, strict=True))
            for table in (-(-bounds // tile), _PLACES[rows[:, ORDER]], tile)
        )
        fine = np.asarray(in_sum_order(trips, rank, tiles, side), dtype=np.bool_)
        # LOOP_WS takes whole blocks, whatever a mapping says
        whole = self.product[task] & self.able[task, self._place(side)]
        fine |= whole & (is_macro_flow(rows[:, FLOW]) | self.macro_shape(task, rows, side))
        found[index] = fine
        return found

    def _ordered(self, task: Ints, genomes: Genomes) -> Bools:
        """Whether the loops over DRAM are such as a macro runs them."""
        busy = ((genomes[:, T3] > 1) << np.arange(7)).sum(1)
        kind = (genomes[:, ORDER], busy, self.product[task].astype(np.int64))
        unknown = np.unique(np.ravel_multi_index(kind, _FITS.shape)[_FITS[kind] < 0])
        for order, loops, product in zip(*np.unravel_index(unknown, _FITS.shape), strict=True):
            _FITS[order, loops, product] = _order_fits(int(order), int(loops), bool(product))
        return np.asarray(_FITS[kind] > 0)

    def _meant(self, task: Ints, genomes: Genomes) -> tuple[Bools, Bools]:
        """The sides that mappings are predicted for, and those on which a macro runs them; (S, B) each.

        What has macro form runs as a macro, though its flow does not say so. Then it must fit as the macro places it
        within what it says it needs, else it is not predicted there: where it fits, would depend on the memories.
        """
        allowed, macro = np.zeros((2, len(self.sides), len(task)), dtype=np.bool_)
        dim = macro_side(genomes[:, FLOW])
        own = np.flatnonzero(np.isin(dim, self.sides))
        place = np.searchsorted(self.sides, dim[own])
        shaped = self.macro_shape(task[own], genomes[own], dim[own])
        shaped &= self.in_order(task[own], genomes[own], dim[own])
        allowed[place, own] = self._asked[place] & self.able[task[own], place] & shaped
        macro[place, own] = True

        plain = np.flatnonzero(dim == 0)
        task, genomes = task[plain], genomes[plain]
        extent = genomes[:, [ROWS, COLUMNS]].max(1, initial=0)
        acc, _, sp = needs(self.problems, task, genomes, self.space.double_buffer)
        for n in np.flatnonzero(self._asked):
            side = self.sides[n]
            here = np.full(len(plain), side)
            shaped = self.macro_shape(task, genomes, here) & self.able[task, n]
            placed_acc, placed_sp = self._macro_rows(task, genomes, here)
            holds = (2 * placed_acc <= acc) & (2 * placed_sp <= sp)
            allowed[n, plain] = (extent <= side) & (~shaped | holds) & self.in_order(task, genomes, here)
            macro[n, plain] = shaped
        return allowed, macro

    def relaxed(
        self, task: Tensor, mappings: MappingBatch, counts: Counts, dim: Tensor, macro: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `CostModel`."""
        place = torch.from_numpy(self._place(dim.detach().numpy()))
        if macro is None:
            macro = torch.zeros(len(task), dtype=torch.bool)
        hardware = self._hardware.take(place)
        found = latency(self._layers.take(task), mappings, hardware, macro, relaxed=True)
        return found.cycles, found.bytes

    # -- reporting ---------------------------------------------------------------------------------------

    def layer_costs(self, mappings: Sequence[Mapping], accelerator: Accelerator) -> list[LayerCost]:
        """See `instruction_costs`."""
        return instruction_costs(self.layers, mappings, accelerator)

    def design_costs(self, designs: Sequence[tuple[Sequence[Mapping], Accelerator]]) -> list[list[LayerCost]]:
        """See `CostModel`; all are predicted together, which takes a tenth of the time."""
        machines = rows_by_machine(self.layers, designs)
        words = [
            cost
            for machine, rows in machines.items()
            for cost in layer_costs(
                [one.problem for one, _ in rows], [how for _, how in rows], machine, padded=False
            )
        ]
        rows = [(machine, *row) for machine, ones in machines.items() for row in ones]
        accelerators, layers, mappings = zip(*rows, strict=True) if rows else ((), (), ())
        found = dict(zip(rows, by_instructions(words, layers, mappings, accelerators), strict=True))
        return [
            [found[machine, *row] for row in zip(self.layers, how, strict=True)] for how, machine in designs
        ]


def rows_by_machine(
    layers: Sequence[Layer], designs: Sequence[tuple[Sequence[Mapping], Accelerator]]
) -> dict[Accelerator, list[tuple[Layer, Mapping]]]:
    """What designs (mappings, one a layer, and an accelerator) run on each accelerator, every layer under a mapping once: most of
    the designs that a search keeps differ from others in a few layers."""
    found: dict[Accelerator, dict[tuple[Layer, Mapping], None]] = {}
    for how, machine in designs:
        found.setdefault(machine, {}).update(dict.fromkeys(zip(layers, how, strict=True)))
    return {machine: list(rows) for machine, rows in found.items()}


#: What bounds a latency here: what the model reports, and between array and loads the channel of main memory, which
#: loads and stores share.
RESOURCES: tuple[Resource, ...] = ("compute", "memory", "load", "store", "issue")


def instruction_costs(
    layers: Sequence[Layer], mappings: Sequence[Mapping], accelerator: Accelerator
) -> list[LayerCost]:
    """Cost of one run of each layer under its mapping: latency and bytes of main memory by the instruction-aware model,
    other accesses as the reference model counts them. Raises as `by_instructions`."""
    problems = [layer.problem for layer in layers]
    words = layer_costs(problems, mappings, accelerator, padded=False)
    return by_instructions(words, layers, mappings, [accelerator] * len(layers))


def by_instructions(
    words: Sequence[LayerCost],
    layers: Sequence[Layer],
    how: Sequence[Mapping | Schedule],
    accelerators: Sequence[Accelerator],
) -> list[LayerCost]:
    """Costs of counted words, with the predicted latency and traffic of main memory of each layer, carried out as a
    mapping or schedule says. Raises as `baco.compiler.latency.predict_layers`."""
    predicted = predict_layers(layers, how, accelerators)
    found = []
    for one, cost, layer, own, accelerator in zip(how, words, layers, predicted, accelerators, strict=True):
        schedule = realise(layer, one, accelerator) if isinstance(one, Mapping) else one
        style: CodeStyle = (
            "macro" if schedule.by_macros else "packed" if schedule.style == "packed" else "explicit"
        )
        moved = float(own.bytes)
        busy = {name: float(own.terms[own.names.index(name)]) for name in RESOURCES if name in own.names}
        busy["memory"] = moved / channel_bytes_per_cycle(accelerator)
        energy = (*cost.energy_terms_pj[:4], accelerator.energy_law.dram_pj * moved)
        idle = accelerator.static_pj(float(own.cycles))
        found.append(
            replace(
                cost,
                energy_pj=sum(energy) + idle,
                static_pj=idle,
                energy_terms_pj=energy,
                accesses=(*cost.accesses[:3], moved),
                latency_cycles=float(own.cycles),
                latency_terms=tuple(busy[name] for name in RESOURCES),
                resources=RESOURCES,
                style=style,
            )
        )
    return found


def side_machines(space: DesignSpace) -> tuple[Accelerator, ...]:
    """An accelerator with the largest memories for every array side of a space, ascending."""
    return tuple(_largest(space, int(side)) for side in np.unique(space.rule_points().dim))


def _largest(space: DesignSpace, side: int) -> Accelerator:
    """The accelerator of a side with the largest memories."""
    points = space.rule_points()
    mine = points.take(points.dim == side)
    best = int(np.lexsort((mine.accumulator_kib, mine.scratchpad_kib))[-1])
    return space.accelerator(side, int(mine.accumulator_kib[best]), int(mine.scratchpad_kib[best]))


def _at(table: Floats, place: Ints) -> Floats:
    """Entries of a table (S, ...) at places that broadcast with the rest of it."""
    if table.ndim == 3 and table.shape[1] == 1 and place.shape == (len(place), 1):
        return np.asarray(table[place[:, 0], 0])  # whole rows: what a scan asks for, at a tenth of the time
    shape = np.broadcast_shapes(table.shape[1:], np.shape(place))
    whole = np.broadcast_to(table, (len(table), *shape))
    return np.asarray(np.take_along_axis(whole, np.broadcast_to(place, shape)[None], 0)[0])


def _packed_layers(layer: Layer, side: int) -> list[Layer]:
    """The layer with two groups at once, with three and so on, as many as an array has lanes for."""
    p = layer.problem
    try:
        return [packed_layer(layer, n) for n in range(2, min(p.groups, side // max(p.C, p.K)) + 1)]
    except InfeasibleError:
        return []


def most_packed(layer: Layer, side: int) -> int:
    """Groups of a layer that an array of the side runs at once at most."""
    p = layer.problem
    most = min(p.groups, side // max(p.C, p.K))
    try:
        return most if most > 1 and packed_layer(layer, most) else 1
    except InfeasibleError:
        return 1


def _able(layer: Layer, accelerator: Accelerator) -> bool:
    """Whether a macro can do the layer in some tiles."""
    try:
        if as_product(layer) is not None:
            check_loop_ws(layer, LoopWsSchedule(1, 1, 1), accelerator)
            return True
        depth = accelerator.dim if layer.real else 1  # channels of floating point come in whole blocks
        plan_loop_conv(layer, LoopConvSchedule(1, 1, 1, 1, 1, 1, depth), accelerator)
    except InfeasibleError:
        return False
    return True


#: `_order_fits` by its arguments, 1 where it says yes, -1 where it has not been asked yet.
_FITS = np.full((len(ORDERS), 1 << len(AXES), 2), -1, dtype=np.int8)


def _order_fits(order: int, busy: int, product: bool) -> bool:
    """Whether the macros run loops over DRAM in an order.

    Args:
        order: index into `ORDERS`.
        busy: bit n is set if the loop over `AXES[n]` runs more than once.
        product: whether the macro is LOOP_WS.

    `macro_form` itself decides, on the smallest layer with such loops.
    """
    trips = {axis: 1 + (busy >> n & 1) for n, axis in enumerate(AXES)}
    window = {} if product else {axis: 2 for axis in "RS" if trips[axis] == 1}
    levels = [{}, window, {}, trips]
    layer = Layer(Problem(**{axis: trips[axis] * window.get(axis, 1) for axis in AXES}))
    mapping = Mapping(
        dataflow=MACRO_DATAFLOW,
        rows=1,
        columns=1,
        temporal=tuple(tuple(level.get(name, 1) for name in DIMS) for level in levels),
        order=(INNER_ORDER, INNER_ORDER, INNER_ORDER, ORDERS[order]),
        buffering=(2, 2, 2),
    )
    return macro_form(layer, mapping, _gemmini()) is not None


@cache
def _gemmini() -> Accelerator:
    return load_accelerator("gemmini-default")
