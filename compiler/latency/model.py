"""Cycles of mappings as the compiler realises them, predicted from the commands their code issues.

Every visit of a tile is a few phases one after the other: loads that nothing hides, passes with what goes on beside
them, stores that nothing hides. In each phase the host core writes commands, memory moves data and the array multiplies
at the same time, so a phase takes what the busiest of them takes. Which moves hide behind passes is what the mapping's
buffering says.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import torch
from torch import Tensor

from baco.accel.config import Accelerator
from baco.common import tensors
from baco.compiler.analysis.traffic import RowTransfer
from baco.compiler.latency.arrays import TensorArrays, larger, smaller
from baco.compiler.latency.batch import HardwareBatch, LayerBatch, Resource
from baco.compiler.latency.cached import cache_cycles
from baco.compiler.latency.commands import Commands, count_commands
from baco.compiler.latency.host import (
    HOST_FEATURES,
    MoveKinds,
    by_blocks,
    host_costs,
    opens_ahead,
    paced_moves,
    paces_stores,
    stores_of_a_tile,
)
from baco.compiler.latency.issued import issued_cycles
from baco.compiler.latency.macro import by_kind, macro_kinds, schedule_latency
from baco.compiler.latency.prediction import TERMS, InstructionLatency
from baco.compiler.latency.tiling import BatchTiling, make_tiling
from baco.compiler.latency.transfers import Transfers, transfers
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import (
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.styles.explicit.extents import LOOP
from baco.compiler.styles.registry import counted_mapping, realise, style_of

__all__ = [
    "TERMS",
    "Constants",
    "InstructionLatency",
    "constants",
    "latency",
    "predict_changed",
    "predict_layers",
    "schedule_cycles",
]


@dataclass(frozen=True)
class Constants:
    """The fitted constants.

    Attributes:
        host: cycles by `HOST_FEATURES`.
        timing: cycles and exponents by the names in `TIMING`.
    """

    host: dict[str, float]
    timing: dict[str, float]


#: What the model's timing constants mean, with the values that it starts from.
TIMING = {
    # cycles from a load of a block that nothing hides to its first products, beside the transfer
    "load_wait": 60.0,
    # cycles from the last product of a tile to its first stored row, and to the next tile's products
    "store_wait": 60.0,
    # cycles that waiting for partial sums in memory takes
    "fence_wait": 40.0,
    # cycles of the array for a block of weights beside its rows
    "exchange": 2.0,
    # cycles that a pass keeps its place in the reservation station, beside its rows and the array's latency
    "held": 6.0,
    # cycles from the command for new weights to the first row they multiply, beside those in which they are shifted in
    "weights_late": 2.0,
    # share of its phases in which the host core works while everything else waits, and the other way round
    "phases": 0.15,
    # exponent of the norm that joins what goes on at the same time: the larger, the nearer to the maximum
    "overlap": 8.0,
    # cycles of start and end
    "start": 200.0,
}


@functools.cache
def constants(timing: str = "baco") -> Constants:
    """Those of a timing in `constants.json`, which `baco.bench.fit.explicit` writes."""
    text = resources.files("baco.compiler.latency").joinpath("constants.json").read_text("utf-8")
    values = json.loads(text)[timing]
    return Constants(
        {name: float(values["host"][name]) for name in HOST_FEATURES},
        {name: float(values["timing"][name]) for name in TIMING},
    )


def latency(
    layers: LayerBatch,
    mappings: MappingBatch,
    hardware: HardwareBatch,
    macro: Tensor,
    *,
    relaxed: bool = False,
    fitted: Constants | None = None,
) -> InstructionLatency:
    """Predicted latency of a batch.

    Differentiable in the tile factors: with `relaxed`, partial tiles count by their share and the gradient is that of
    the value; without, values are exact and gradients those of the relaxed one, roughly.

    Args:
        layers, mappings, hardware: of the batch (B,), any float type, on one device.
        macro: (B,) which rows are carried out by macros (`baco.compiler.styles.registry.realise`).
        fitted: other constants than the committed ones.
    """
    a = TensorArrays(relaxed)
    constants_used = fitted or constants(hardware.timing)

    def explicit(layers: LayerBatch, mappings: MappingBatch, hardware: HardwareBatch) -> InstructionLatency:
        tiling = make_tiling(layers, mappings, hardware, a)
        return explicit_latency(tiling, count_commands(tiling), constants_used)

    kinds = [(macro & chosen, predict) for chosen, predict in macro_kinds(layers, a)]
    return by_kind(layers, mappings, hardware, [(~macro, explicit), *kinds])


@dataclass(frozen=True)
class BusyCycles:
    """What a batch keeps busy, cycles (B,) each: moves that have to wait, moves beside passes, passes.

    Attributes:
        host_loads, host_passes, host_stores: the host core, in each of the phases.
        loads, stores: memory, moves that nothing hides.
        beside: memory, moves that passes hide.
        waves: the array.
        turn: the host core between the passes of two blocks of weights of a tile, on average.
        read, written: all reads, all writes.
        bytes: that memory moves, not cycles.
        moved: (4, B) these bytes by `MOVED`.
    """

    host_loads: Tensor
    host_passes: Tensor
    host_stores: Tensor
    loads: Tensor
    stores: Tensor
    beside: Tensor
    waves: Tensor
    turn: Tensor
    read: Tensor
    written: Tensor
    bytes: Tensor
    moved: Tensor


def explicit_latency(t: BatchTiling, c: Commands, fitted: Constants) -> InstructionLatency:
    """Latency of explicit code from its counts."""
    return joined(t, c, measure_work(t, c, fitted), fitted.timing)


def joined(t: BatchTiling, c: Commands, work: BusyCycles, k: Dictionary[str, float]) -> InstructionLatency:
    """Latency from what is kept busy; `k` has the constants of `TIMING`."""
    copies_w, copies_i, copies_o = (copies > LOOP for copies in t.copies)
    zero = torch.zeros_like(c.visits)
    fills = torch.where(copies_w, zero, c.weight_fills)
    fills = larger(fills, torch.where(copies_i, zero, c.input_fills))
    late_tiles = torch.where(copies_o, zero, c.tiles)
    fences = c.fences * k["fence_wait"]
    waits = fills * k["load_wait"] + late_tiles * k["store_wait"] + fences
    loads = work.loads + fills * k["load_wait"]
    stores = work.stores + late_tiles * k["store_wait"]
    host_loads, host_passes, host_stores = (
        one / t.hardware.host_speed for one in (work.host_loads, work.host_passes, work.host_stores)
    )
    host = host_loads + host_passes + host_stores
    power = k["overlap"]
    waves = torch.where(t.weights_stay, _stationary(t, c, work, k), work.waves) / t.hardware.array_speed
    busy = _join(power, waves, work.beside)
    together = _join(power, host, loads + busy + stores)
    apart = (
        _join(power, host_loads, loads) + _join(power, host_passes, busy) + _join(power, host_stores, stores)
    )
    start = k["start"] + zero
    cycles = together + k["phases"] * (apart - together) + fences + start
    terms = torch.stack([waves, work.read, work.written, host, start + waits])
    return InstructionLatency(cycles, terms, work.bytes, work.moved)


def _stationary(t: BatchTiling, c: Commands, work: BusyCycles, k: Dictionary[str, float]) -> Tensor:
    """Cycles of weight-stationary passes, which the reservation station may hold up.

    It has room for a `window` of passes, in order: a pass comes in when the one `window` before it has written its last
    row, which is the array's latency after that row went in. Weights are shifted in while earlier passes multiply, if their
    command is there by then. So a block of weights takes at least what its rows take, what shifting takes, and what its
    passes take at a window's pace; and its first pass comes that much after the first of an earlier block: its weights' way in, what the
    host does beforehand, windows of passes that have to be written, and the rows of the passes in between.
    """
    one = torch.ones_like(c.passes)
    pixels = (
        t.bounds["P"]
        * t.bounds["Q"]
        * t.bounds["N"]
        / (t.tiles_counted["P"] * t.tiles_counted["Q"] * t.tiles_counted["N"])
    )
    passes = c.passes / c.weight_blocks
    rows = pixels / passes
    window = torch.floor(t.hardware.execute_entries / 2).clamp_min(1.0)
    held = rows + 2 * t.hardware.groups + k["held"]
    if t.hardware.profile.passes_inside:
        # the array holds fewer passes than the station, and weights come in with the rows of the pass before
        pace = larger(rows, held / window.clamp_max(t.hardware.profile.passes_inside))
        cycles: Tensor = (passes - 1.0).clamp_min(0.0) * pace + t.hardware.dim + k["exchange"]
        return c.weight_blocks * cycles
    blocks = larger(t.a.up(window / passes), one)
    windows = larger(t.a.down(blocks * passes / window), one)
    rest = (blocks * passes - windows * window).clamp_min(0.0)
    back = windows * held + t.hardware.dim + k["weights_late"] + rest * rows
    back = back + (work.turn / t.hardware.host_speed - rows).clamp_min(0.0)
    steady = larger(larger(pixels, passes * held / window), t.hardware.dim)
    return c.weight_blocks * (larger(steady, back / blocks) + k["exchange"])


def _join(power: float, one: Tensor, other: Tensor) -> Tensor:
    """What takes two times at once takes: a little more than the longer one."""
    most = larger(one, other).clamp_min(1e-9)
    share = smaller(one, other) / most
    return most * tensors.power(1.0 + tensors.power(share, power), 1 / power)


def _paced(hw: HardwareBatch, moved: RowTransfer) -> Tensor:
    """Cycles by the width of the channel and of the port."""
    return larger(moved.bytes / hw.bandwidth, moved.beats)


def _read_cycles(hw: HardwareBatch, moved: RowTransfer, rows: Tensor) -> Tensor:
    waiting = moved.requests * (hw.profile.latency / hw.requests)
    return larger(larger(_paced(hw, moved), waiting), larger(rows, moved.requests))


def _memory_cycles(t: BatchTiling, c: Commands, traffic: Transfers, again: Tensor) -> tuple[Tensor, ...]:
    """Of loads of weights, of inputs, of what opens tiles, and of stores."""
    layer, hw = t.layer, t.hardware
    opening_rows = c.result_rows * (layer.bias + layer.residual * hw.scale_pace + again)
    store_rows = c.result_rows * (hw.store_pace(layer.raw) + again * hw.profile.store_pace)
    found = (
        _read_cycles(hw, traffic.weights, c.weight_rows),
        _read_cycles(hw, traffic.inputs, c.input_rows),
        _read_cycles(hw, traffic.opening, opening_rows),
        larger(_paced(hw, traffic.stored), store_rows),
    )
    return cache_cycles(t, c, *found) if hw.profile.cached else found


def _awaited(t: BatchTiling, c: Commands) -> MoveKinds:
    """Shares of moves that passes wait for: of those that nothing hides all.

    By the original's timing also of those that go ahead all at once: commands come to the reservation station in the program's order, and
    where a class has no free entry, all behind wait. So passes go on when all but as many moves have been issued as there are entries.
    """
    zero = torch.zeros_like(c.visits)
    copies_w, copies_i, copies_o = (copies > LOOP for copies in t.copies)
    hidden = MoveKinds(copies_w, copies_i, opens_ahead(t, c), copies_o)
    if not t.hardware.profile.in_turn:
        return MoveKinds(*(torch.where(one, zero, zero + 1.0) for one in hidden))
    paced = paced_moves(t, c)
    loads = (
        torch.where(paced.weights, zero, c.weight_loads / c.weight_fills)
        + torch.where(paced.inputs, zero, (c.input_loads + c.zero_loads) / c.input_fills)
        + torch.where(paced.opening, zero, (c.bias_loads + c.residual_loads + c.sum_loads) / c.tiles)
    )
    held_loads, held_stores = (
        (1.0 - entries / moves.clamp_min(1.0)).clamp_min(0.0)
        for moves, entries in (
            (loads, t.hardware.load_entries),
            (stores_of_a_tile(c), t.hardware.store_entries),
        )
    )
    held = MoveKinds(held_loads, held_loads, held_loads, held_stores)
    return MoveKinds(
        *(
            torch.where(one, torch.where(apart, zero, share), zero + 1.0)
            for one, apart, share in zip(hidden, paced, held, strict=True)
        )
    )


def measure_work(t: BatchTiling, c: Commands, fitted: Constants) -> BusyCycles:
    """What the commands of a batch keep busy."""
    hw, zero = t.hardware, torch.zeros_like(c.visits)
    copies_w, copies_i, copies_o = (copies > LOOP for copies in t.copies)
    opened_early = opens_ahead(t, c)
    awaited = _awaited(t, c)

    def late(early: Tensor, value: Tensor) -> Tensor:
        return torch.where(early, zero, value)

    cost_of, host, paced = host_costs(t, c, fitted.host)
    window = cost_of("column", "window", "weight", "beat")
    host_loads = late(copies_w, cost_of("weights")) + late(copies_i, cost_of("inputs", "zeros"))
    host_stores = late(copies_o, cost_of("stores")) + late(opened_early, cost_of("opening"))

    again = t.times_left - 1.0 + zero  # a pooled tile's sums leave as they are
    traffic = transfers(t, c, again)
    weights, inputs, bias, residual = traffic.weights, traffic.inputs, traffic.bias, traffic.residual
    results, sums_out, sums_in = traffic.results, traffic.sums_out, traffic.sums_in
    weight_cycles, input_cycles, opening_cycles, store_cycles = _memory_cycles(t, c, traffic, again)
    loads = awaited.weights * weight_cycles + awaited.inputs * input_cycles
    # Results that leave all at once do so before the next tile's first pass: where that tile's loads wait for the array, stores
    # take their part of the channel meanwhile, and nothing is left of them to go beside passes.
    waiting_tiles = larger(late(copies_w, c.weight_fills), late(copies_i, c.input_fills))
    at_once = copies_o & ~paces_stores(t, c) & (awaited.stores == 0)
    shared = torch.where(at_once, (waiting_tiles / c.tiles).clamp_max(1.0), zero)
    idle = loads - (late(copies_w, weights.bytes) + late(copies_i, inputs.bytes)) / hw.bandwidth
    leaving = shared * (results.bytes + sums_out.bytes) / hw.bandwidth
    # nor do they leave faster than the port writes
    loads = larger(loads + (leaving - idle).clamp_min(0.0), shared * _paced(hw, traffic.stored))
    stores = awaited.stores * store_cycles + awaited.opening * opening_cycles
    # what goes beside passes shares the channel; reads and writes have a port each
    beside_w, beside_i, beside_b, beside_o = (1.0 - share for share in awaited)
    moved_early = (
        beside_w * weights.bytes
        + beside_i * inputs.bytes
        + beside_o * (results.bytes + sums_out.bytes)
        + beside_b * (bias.bytes + residual.bytes + sums_in.bytes)
    ) / hw.bandwidth - leaving
    read_early = beside_w * weight_cycles + beside_i * input_cycles + beside_b * opening_cycles
    written_early = beside_o * (1.0 - shared) * store_cycles
    beside = larger(larger(moved_early, read_early), written_early)
    return BusyCycles(
        host_loads=host_loads,
        host_passes=host - host_loads - host_stores,
        host_stores=host_stores,
        loads=loads,
        stores=stores,
        beside=beside,
        waves=c.waves,
        turn=(window + torch.where(by_blocks(c), paced, zero)) / c.weight_blocks,
        read=weight_cycles + input_cycles + opening_cycles,
        written=store_cycles,
        bytes=weights.bytes
        + inputs.bytes
        + bias.bytes
        + residual.bytes
        + sums_in.bytes
        + results.bytes
        + sums_out.bytes,
        moved=torch.stack(
            torch.broadcast_tensors(  # type: ignore[no-untyped-call]
                weights.bytes,
                inputs.bytes,
                bias.bytes + residual.bytes + sums_in.bytes,
                results.bytes + sums_out.bytes,
            )
        ),
    )


def _looked_at(
    predicted: InstructionLatency,
    layers: LayerBatch,
    mappings: MappingBatch,
    hardware: HardwareBatch,
    which: Tensor,
) -> InstructionLatency:
    """The latency of a batch, some of it (B,), where commands come in turn, with the cycles that `issued_cycles` finds."""
    if not hardware.profile.in_turn or not bool(which.any()):
        return predicted
    tiling = make_tiling(layers, mappings, hardware, TensorArrays())
    issued = issued_cycles(tiling, count_commands(tiling), constants(hardware.timing).host, which)
    return predicted._replace(cycles=torch.where(issued.isnan(), predicted.cycles, issued))


def predict_layers(
    layers: Sequence[Layer],
    how: Sequence[Schedule | Mapping],
    accelerator: Accelerator | Sequence[Accelerator],
) -> list[InstructionLatency]:
    """Predicted latency of one run of each layer (tensors of one element), carried out as a schedule or mapping says: of schedules where
    commands come in turn, as closely as can be, of mappings as a search says (`latency`).

    Args:
        accelerator: one for all layers, or one each: many at once take little longer than one.

    Raises InfeasibleError for a macro schedule that cannot be carried out.
    """
    return predict_changed(layers, how, accelerator, [None])[0]


def predict_changed(
    layers: Sequence[Layer],
    how: Sequence[Schedule | Mapping],
    accelerator: Accelerator | Sequence[Accelerator],
    changes: Sequence[Resource | None],
) -> list[list[InstructionLatency]]:
    """`predict_layers` for each of some resources that there may be twice of (`HardwareBatch.doubled`): what does not depend on them is done once."""
    accelerators = [accelerator] * len(layers) if isinstance(accelerator, Accelerator) else accelerator
    rest: list[tuple[int, Layer, Mapping, bool, bool, float]] = []
    found: list[dict[int, InstructionLatency]] = [{} for _ in changes]
    for number, (layer, one, accelerator) in enumerate(zip(layers, how, accelerators, strict=True)):
        if isinstance(one, LoopWsSchedule | LoopConvSchedule):
            for twice, ones in zip(changes, found, strict=True):
                ones[number] = schedule_latency(layer, one, accelerator, twice)
            continue
        schedule = realise(layer, one, accelerator) if isinstance(one, Mapping) else one
        if isinstance(one, Mapping) and schedule.by_macros:
            rest.append((number, layer, one, True, False, 0.0))
        else:
            counted = counted_mapping(layer, schedule, accelerator)
            expansion = style_of(schedule).host_cycles(layer, schedule)
            rest.append((number, *counted, False, not isinstance(one, Mapping), expansion))
    if rest:
        places, inner, mappings, macros, closer, before = zip(*rest, strict=True)
        hardware = HardwareBatch.of([accelerators[number] for number in places])
        batch, rows = LayerBatch.of(inner), MappingBatch.of(mappings)
        # all changes in one batch, behind each other: many rows take little longer than few
        machines = HardwareBatch.joined(
            [hardware if twice is None else hardware.doubled(twice) for twice in changes]
        )
        if len(changes) > 1:
            again = torch.arange(len(places)).repeat(len(changes))
            batch, rows = batch.take(again), rows.take(again)
        macro, given = (torch.tensor(which).repeat(len(changes)) for which in (macros, closer))
        predicted = _looked_at(latency(batch, rows, machines, macro), batch, rows, machines, given)
        dtype = predicted.cycles.dtype
        share = torch.tensor([0.5 if twice == "issue" else 1.0 for twice in changes], dtype=dtype)
        first = torch.outer(share, torch.tensor(before, dtype=dtype)).flatten()
        terms = predicted.terms.clone()
        terms[TERMS.index("start")] += first
        whole = predicted._replace(cycles=predicted.cycles + first, terms=terms)
        for start, ones in enumerate(found):
            ones |= {
                number: whole.take(torch.tensor([start * len(places) + at]))
                for at, number in enumerate(places)
            }
    return [[ones[number] for number in range(len(layers))] for ones in found]


def schedule_cycles(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> float:
    """Cycles from the first command of a layer's code to the end of its last store; see `predict_layers`."""
    return predict_layers([layer], [schedule], accelerator)[0].cycles.item()
