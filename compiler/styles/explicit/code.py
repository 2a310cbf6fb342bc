"""A layer by explicit moves and products, as a mapping says.

The program is one loop over visits: a tile of the accumulator in a block of the scratchpad. Before the passes of a visit
everything it needs has been asked for; while they run, the jobs of the next block (weights, inputs) and of the tiles
beside it (stores of the one before, biases of the one after) are issued between them, into the other copy of each
memory region. The hazard logic of the accelerator does the waiting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS
from baco.common.errors import InfeasibleError
from baco.compiler.ir.counting import Advance, following
from baco.compiler.ir.emit import Cell, Condition, Emitter, Number
from baco.compiler.layers.float_sums import check_sum_order
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.layers.operands import Operands
from baco.compiler.layers.weight_blocks import BLOCK_CHANNELS
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.schedules.style import LayerPlan, Style, check_weight_bits
from baco.compiler.styles.explicit.extents import REDUCTION
from baco.compiler.styles.explicit.jobs import MoveJob, Pace, Turns
from baco.compiler.styles.explicit.loads import InputLoads, WeightLoads
from baco.compiler.styles.explicit.memory import LocalMemory, TileCopies, allocate
from baco.compiler.styles.explicit.passes import Passes
from baco.compiler.styles.explicit.place import Place
from baco.compiler.styles.explicit.plan import ExplicitPlan, make_plan
from baco.compiler.styles.explicit.pool import UNPOOLED, check_pool, emit_pool, pools_on_the_way
from baco.compiler.styles.explicit.results import PARTIAL_SUMS, Results, spill_bytes
from baco.compiler.styles.explicit.weights import TRANSPOSED, emit_transposed

#: Loads of blocks, and moves of results, that are issued in a row between passes (measured on our RTL).
LOADS_TOGETHER, RESULTS_TOGETHER = 2, 4


@dataclass(frozen=True)
class Preparation:
    """A layer and mapping made ready: what is computed by tiles, and what happens before and after.

    Attributes:
        plan: tiles and loops.
        memory: their place.
        pooled_after: the results go to a workspace first and are pooled from there.
        transposed: the host transposes the weights into a workspace first.
    """

    plan: ExplicitPlan
    memory: LocalMemory
    pooled_after: bool
    transposed: bool


def prepare(
    layer: Layer, mapping: Mapping, accelerator: Accelerator, *, last: Dictionary[str, int] | None = None
) -> Preparation:
    """Decide how a mapping is carried out.

    Args:
        layer, mapping, accelerator: what to do, how, on what.
        last: C and K of the last group where it has fewer than the others.

    Raises InputError if the mapping does not cover the layer, InfeasibleError if the accelerator cannot run it.
    """
    _check_features(layer, accelerator)
    check_weight_bits(layer, accelerator, blocks=True)
    pooled_after = transposed = False
    plan = make_plan(layer, mapping, accelerator, last=last)
    if layer.pooling and not pools_on_the_way(plan):
        pooled_after = True
        check_pool(layer, accelerator)
        inner = replace(layer, pooling=None, output=Layout(_channels(layer, last), layer.problem.K))
        plan = make_plan(inner, mapping, accelerator, last=last)
    if layer.weight_bits == 4:
        _check_pairs(plan)
    if layer.weight_blocks is not None:
        _check_blocks(plan)
    if layer.real:
        _check_sums(plan)
    if layer.weights_transposed:
        # not every dataflow takes weights transposed; stored so they may also take more rows
        try:
            memory = allocate(plan)
        except InfeasibleError:
            transposed = True
        transposed |= (False, True) not in DATAFLOWS[mapping.dataflow].transposes
        if transposed:
            p = plan.layer.problem
            turned = replace(plan.layer, weights_transposed=False, weight=Layout(p.K, p.C * p.K))
            plan = replace(plan, layer=turned, transposed=False)
    memory = allocate(plan)
    features = accelerator.features
    if (plan.spills or layer.scale is None) and not features.read_full_width:
        raise InfeasibleError(f"{accelerator.name} cannot store int32 sums")
    return Preparation(plan, memory, pooled_after, transposed)


def _check_sums(plan: ExplicitPlan) -> None:
    """Raise InfeasibleError for another order of sums than that of real numbers."""
    outside = [(trip.name, trip.count) for trip in plan.blocks if trip.name in REDUCTION]
    inside = {"S": plan.block["S"], "R": plan.block["R"], "C": plan.depth_blocks}
    check_sum_order([*outside, *inside.items()], "the mapping")
    if plan.steps["C"] > 1 and plan.block["C"] % plan.depth:
        raise InfeasibleError("blocks of real numbers have whole blocks of channels")


def _check_pairs(plan: ExplicitPlan) -> None:
    """Raise InfeasibleError where a load of weights of 4 bits would begin inside a byte, or the host would have to turn them."""
    if plan.layer.weights_transposed:
        raise InfeasibleError("explicit code takes weights of 4 bits as they lie, and these are transposed")
    splits = [plan.block["K"]] * (plan.block["K"] < plan.bounds["K"])
    splits += [plan.tile["K"]] * bool(plan.tiles_apart)
    if any(size % 2 for size in splits):
        raise InfeasibleError(
            "a load of weights of 4 bits would begin inside a byte", hint="split columns evenly"
        )


def _check_blocks(plan: ExplicitPlan) -> None:
    """Raise InfeasibleError where a load of weights in blocks would reach into a second panel or a second block."""
    panel = plan.weight_panel
    if plan.tiles_apart or plan.weight_width != panel:
        raise InfeasibleError("loads of weights in blocks bring a whole panel's columns")
    for name, whole in (("K", panel), ("C", BLOCK_CHANNELS)):
        if plan.block[name] < plan.bounds[name] and plan.block[name] % whole:
            raise InfeasibleError(
                f"of weights in blocks, blocks of {name} in the scratchpad are multiples of {whole}, not {plan.block[name]}"
            )


def buffered(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> Mapping:
    """The mapping with two copies of as many tiles as fit, inputs first: for one that says nothing of copies.

    Raises as `prepare` if not even single copies fit.
    """
    for copies_i, copies_w, copies_o in ((2, 2, 2), (2, 2, 1), (2, 1, 2), (2, 1, 1), (1, 2, 1), (1, 1, 2)):
        more = replace(mapping, buffering=(copies_w, copies_i, copies_o))
        try:
            prepare(layer, more, accelerator)
        except InfeasibleError:
            continue
        return more
    prepare(layer, replace(mapping, buffering=(1, 1, 1)), accelerator)
    return replace(mapping, buffering=(1, 1, 1))


def _channels(layer: Layer, last: Dictionary[str, int] | None) -> int:
    """Results K of all groups."""
    problem = layer.problem
    return (problem.groups - 1) * problem.K + (last or {}).get("K", problem.K)


def _check_features(layer: Layer, accelerator: Accelerator) -> None:
    features, name = accelerator.features, accelerator.name
    if layer.relu and not features.activations:
        raise InfeasibleError(f"{name} has no ReLU")
    if layer.pooling and not features.max_pool:
        raise InfeasibleError(f"{name} has no pooling")
    if layer.scale is not None and not features.read_small_width:
        raise InfeasibleError(f"{name} cannot store requantised sums")
    if layer.scale not in (None, 1.0) and not features.accumulator_scale:
        raise InfeasibleError(f"{name} cannot scale results")
    if layer.residual_scale not in (None, 1.0) and not features.mvin_scale:
        raise InfeasibleError(f"{name} cannot scale a residual")


def explicit_code(
    layer: Layer, mapping: Mapping, accelerator: Accelerator, *, last: Dictionary[str, int] | None = None
) -> LayerPlan:
    """All that is asked of the code of a mapping. Arguments and errors as for `prepare`."""
    ready = prepare(layer, mapping, accelerator, last=last)
    problem, memory = layer.problem, ready.memory
    # the pooling afterwards takes what the accumulator has
    accumulator = accelerator.accumulator_rows if ready.pooled_after else memory.accumulator_used
    sizes = {
        PARTIAL_SUMS: spill_bytes(ready.plan),
        UNPOOLED: layer.pixels_out * _channels(layer, last) * ready.pooled_after * layer.element_bytes,
        TRANSPOSED: problem.groups * problem.C * problem.K * ready.transposed * layer.element_bytes,
    }

    def emit(e: Emitter, operands: Operands) -> None:
        inner = operands
        if ready.transposed:
            turned = operands.workspaces[TRANSPOSED]
            emit_transposed(e, layer, operands.weight, turned)
            inner = replace(inner, weight=turned)
        if ready.pooled_after:
            inner = replace(inner, output=operands.workspaces[UNPOOLED])
        _Program(e, ready.plan, memory, inner).emit()
        if ready.pooled_after:
            e.fence()
            emit_pool(e, layer, accelerator, operands, inner.output, _channels(layer, last))

    return LayerPlan(
        (memory.weights.room, memory.inputs.room, memory.results.room),
        (mapping.rows, mapping.columns),
        {"dim": accelerator.dim, "scratchpad_rows": memory.scratchpad_used, "accumulator_rows": accumulator},
        tuple((name, size) for name, size in sizes.items() if size),
        emit,
    )


class ExplicitStyle(Style[ExplicitSchedule]):
    """Loops of explicit moves, preloads and computes: carries out every mapping that the accelerator has room for."""

    schedule = ExplicitSchedule

    def recognise(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> ExplicitSchedule:
        """Whether the accelerator has room is for `plan` to say."""
        return ExplicitSchedule(mapping)

    def plan(self, layer: Layer, schedule: ExplicitSchedule, accelerator: Accelerator) -> LayerPlan:
        return explicit_code(layer, schedule.mapping, accelerator)

    def mapping(self, layer: Layer, schedule: ExplicitSchedule, accelerator: Accelerator) -> Mapping:
        return schedule.mapping


class _Half:
    """Which copy of a region is in use: its first row, now and for what comes next."""

    def __init__(self, e: Emitter, region: TileCopies) -> None:
        self._e, self._region = e, region
        self._row = e.variable(region.starts[0]) if region.distance else None

    @property
    def row(self) -> Number:
        return self._region.starts[0] if self._row is None else self._row.get()

    @property
    def other(self) -> Number:
        return self._e.sub(self._region.starts[0] + self._region.starts[-1], self.row)

    def flip(self, condition: Condition) -> None:
        """Go over to the other copy if the condition holds."""
        if self._row is not None:
            self._row.set(self._e.select(condition, self.other, self.row))


class _Operand:
    """W or I: its loads, its copies, and when a block has another tile of it."""

    def __init__(
        self,
        e: Emitter,
        plan: ExplicitPlan,
        tensor: str,
        loads: WeightLoads | InputLoads,
        region: TileCopies,
        *,
        at_once: bool,
    ) -> None:
        self.e, self.loads = e, loads
        self.half = _Half(e, region)
        self.ahead = len(region.starts) > 1
        self.place = plan.innermost(plan.changes(tensor))
        self.job = loads.job(whole=not self.ahead or at_once)
        self.due: Cell | None = None

    def begin(self, numbers: Sequence[Number]) -> None:
        """Before all visits: load the first tile, unless every block loads its own."""
        if self.ahead or self.place is None:
            self.job.start([*numbers, self.half.row])
        else:
            self.due = self.e.variable(1)

    def arrive(self, numbers: Sequence[Number]) -> None:
        """At the beginning of a block: see to it that its tile has been asked for."""
        if self.ahead:
            self.job.finish()
        elif self.due is not None:
            with self.e.when(self.e.compare("ne", self.due.get(), 0)):
                self.job.start([*numbers, self.half.row])

    def prefetch(self, step: Advance) -> None:
        """Start to load the next block's tile into the other copy, if it is another one."""
        if self.ahead and self.place is not None:
            go = self.e.both(self._not(step.over), step.touched[self.place])
            with self.e.when(go):
                self.job.start([*step.numbers, self.half.other])

    def advance(self, step: Advance, leaves: Condition) -> None:
        """From one visit to the next; `leaves` if that is in another block."""
        if self.place is None:
            return
        changes = self.e.both(leaves, step.touched[self.place])
        if self.ahead:
            self.half.flip(changes)
        elif self.due is not None:
            self.due.set(self.e.select(changes, 1, 0))

    def _not(self, condition: Condition) -> Condition:
        if isinstance(condition, bool):
            return not condition
        return self.e.compare("eq", self.e.select(condition, 1, 0), 0)


class _Program:
    """The loop over visits."""

    def __init__(self, e: Emitter, plan: ExplicitPlan, memory: LocalMemory, operands: Operands) -> None:
        self.e, self.plan = e, plan
        self.single = plan.visits == 1
        self.passes = Passes(e, plan)
        self.results = Results(e, plan, operands)
        self.loads = (WeightLoads(e, plan, operands), InputLoads(e, plan, operands))
        a = plan.accelerator
        self.visits_in_block = math.prod(trip.count for trip in plan.tiles)
        # a tile that is held for several blocks has that long
        self.held = math.prod(plan.steps[name] for name in plan.held)

        def at_once(moves: int, room: int, visits: int) -> bool:
            # the reservation station takes few moves without keeping passes waiting, and beside few passes nothing is
            # gained by spreading moves, which costs the host core more than the moves themselves
            return moves <= room or visits * self.passes.count <= a.execute_entries

        def operand(tensor: str, loads: WeightLoads | InputLoads, region: TileCopies) -> _Operand:
            few = at_once(loads.steps, a.load_entries // 2, self.visits_in_block)
            return _Operand(e, plan, tensor, loads, region, at_once=few)

        self.weights = operand("W", self.loads[0], memory.weights)
        self.inputs = operand("I", self.loads[1], memory.inputs)
        self.tile = _Half(e, memory.results)
        self.deferred = len(memory.results.starts) > 1
        self.cells = [] if self.single else [e.variable(0) for _ in (*plan.blocks, *plan.tiles)]
        kinds = self.results.kinds
        # one kind of load, not one after another on the same rows, and nothing that waits for a fence
        self.ahead = self.deferred and not plan.spills and len(kinds) == 1
        stored_at_once = not self.deferred or at_once(self.results.steps, a.store_entries, self.held)
        # what the copy held before has to be stored first
        opened_at_once = not self.ahead or (
            stored_at_once and at_once(self.results.steps, a.load_entries // 2, self.held)
        )
        self.stores = {False: self.results.store_job(sums=False, whole=stored_at_once)}
        self.stores[True] = self.stores[False]
        if plan.spills and not self.results.same_store:
            self.stores[True] = self.results.store_job(sums=True, whole=stored_at_once)
        self.opening: dict[str, MoveJob] = {}
        for at, kind in enumerate(kinds):
            onto = kind == "residual" and at > 0
            after = self.stores[False] if self.ahead else None
            self.opening[kind] = self.results.load_job(
                kind, whole=opened_at_once, accumulate=onto, after=after
            )
        self.fence_due = e.variable(0) if plan.spills else None

    # ---------------------------------------------------------------- the loop

    def emit(self) -> None:
        """Write it all."""
        e, plan = self.e, self.plan
        self.passes.configure()
        for loads in self.loads:
            loads.configure()
        if len(self.opening) == 1:
            self.results.configure_load(*self.opening)
        if self.stores[False] is self.stores[True]:
            self.results.configure_store(sums=False)
        first = [0] * (len(plan.blocks) + len(plan.tiles))
        self.inputs.begin(first[: len(plan.blocks)])
        self.weights.begin(first[: len(plan.blocks)])
        if self.ahead:
            self._only_opening.start([*first, self.tile.row])
        early = [operand for operand in (self.inputs, self.weights) if not operand.job.whole]
        moves = [job for job in (*self._stores, *self.opening.values()) if not job.whole]
        block_steps = max((one.loads.steps for one in early), default=0)
        # of the stores' two jobs only one is ever at work
        tile_steps = self.results.steps * len({job in self._stores for job in moves})
        per_visit = len(early) * block_steps / self.visits_in_block + tile_steps / self.held
        self.passes.settle(per_visit)
        beats = self.passes.beats
        pace = Pace(
            e,
            [
                Turns([one.job for one in early], block_steps, beats * self.visits_in_block, LOADS_TOGETHER),
                Turns(moves, tile_steps, beats * self.held, RESULTS_TOGETHER),
            ],
        )
        with e.loop(plan.visits, hint="visit"):
            self._visit(pace)
        for job in moves:
            job.finish()

    @property
    def _only_opening(self) -> MoveJob:
        return next(iter(self.opening.values()))

    def _visit(self, pace: Pace) -> None:
        e, plan = self.e, self.plan
        numbers = [cell.get() for cell in self.cells]
        place = Place.of(e, plan, numbers)
        blocks = len(plan.blocks)
        counts = [trip.count for trip in plan.blocks]
        next_block = following(e, numbers[:blocks], counts)
        next_tile = following(e, numbers[blocks:], [place.tile_count(trip.name) for trip in plan.tiles])
        begins: Condition = True
        for number in numbers[blocks:]:
            begins = e.both(begins, e.compare("eq", number, 0))
        with e.when(begins):
            self._begin_block(numbers[:blocks], next_block)
        self._open(place, next_block, next_tile)
        overwrite = place.fresh if set(self.opening) <= {"sums"} else False
        self.passes.emit(place, self.inputs.half.row, self.weights.half.row, self.tile.row, overwrite, pace)
        self._close(place)
        if not self.single:
            self._advance(place, next_block, next_tile)

    def _begin_block(self, numbers: Sequence[Number], step: Advance) -> None:
        e = self.e
        if self.fence_due is not None:
            with e.when(e.compare("ne", self.fence_due.get(), 0)):
                for job in self._stores:
                    job.finish()
                e.fence()
        for operand in (self.inputs, self.weights):
            operand.arrive(numbers)
        for operand in (self.inputs, self.weights):
            operand.prefetch(step)

    def _open(self, place: Place, next_block: Advance, next_tile: Advance) -> None:
        """Bring what the tile begins with."""
        e = self.e
        if not self.opening:
            return
        if self.ahead:
            self._only_opening.finish()
            if self.single:
                return
            after = self._next(place, next_block, next_tile)
            go = e.both(after.opens, e.compare("eq", e.select(self._ends(next_block, next_tile), 1, 0), 0))
            with e.when(go):
                self._only_opening.start([*after.numbers, self.tile.other])
            return
        with e.when(place.opens):
            parameters = [*place.numbers, self.tile.row]
            fresh = place.fresh
            with e.when(fresh):
                started = [kind for kind in self.opening if kind != "sums"]
                for at, kind in enumerate(started):
                    if at:
                        # adding to rows that an earlier load is still on its way to is not safe, nor beside products
                        e.fence()
                    if len(self.opening) > 1:
                        self.results.configure_load(kind)
                    self.opening[kind].start(parameters)
                if len(started) > 1:
                    e.fence()
            if "sums" in self.opening:
                with e.when(e.compare("eq", e.select(fresh, 1, 0), 0)):
                    if len(self.opening) > 1:
                        self.results.configure_load("sums")
                    self.opening["sums"].start(parameters)

    def _close(self, place: Place) -> None:
        """Store the tile if it leaves the accumulator."""
        e = self.e
        parameters = [*place.numbers, self.tile.row]
        with e.when(place.closes):
            for job in self._stores:
                job.finish()
            if self.stores[False] is self.stores[True]:
                self.stores[False].start(parameters)
                return
            final = e.select(place.final, 1, 0)
            for sums in (False, True):
                with e.when(e.compare("ne" if not sums else "eq", final, 0)):
                    self.results.configure_store(sums=sums)
                    self.stores[sums].start(parameters)

    @property
    def _stores(self) -> list[MoveJob]:
        return list({id(job): job for job in self.stores.values()}.values())

    # ---------------------------------------------------------------- from visit to visit

    def _ends(self, next_block: Advance, next_tile: Advance) -> Condition:
        return self.e.both(next_block.over, next_tile.over)

    def _next(self, place: Place, next_block: Advance, next_tile: Advance) -> Place:
        """The place of the next visit."""
        e = self.e
        blocks = [
            e.select(next_tile.over, new, old)
            for new, old in zip(next_block.numbers, place.blocks.values(), strict=True)
        ]
        return Place.of(e, self.plan, [*blocks, *next_tile.numbers])

    def _advance(self, place: Place, next_block: Advance, next_tile: Advance) -> None:
        after = self._next(place, next_block, next_tile)
        for operand in (self.inputs, self.weights):
            operand.advance(next_block, next_tile.over)
        self.tile.flip(after.opens)
        if self.fence_due is not None:
            at = self.plan.innermost(self.plan.revisits)
            assert at is not None
            changes = self.e.both(next_tile.over, next_block.touched[at])
            self.fence_due.set(self.e.select(changes, 1, 0))
        for cell, number in zip(self.cells, after.numbers, strict=True):
            cell.set(number)
