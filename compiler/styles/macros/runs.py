"""What the cycles of both loop macros are made of: their fitted constants, loads of tiles, and runs that overlap.

See `baco.compiler.styles.macros.cycles`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

from baco.compiler.analysis.arrays import Arrays, Values
from baco.compiler.analysis.traffic import MachineRates, Moved, RowLoads, command_cycles, held_cycles


@dataclass(frozen=True)
class MacroConstants:
    """What no formula gives: cycles, fitted to runs of our RTL.

    Attributes:
        start: from the command that starts the first run to its first load, from there to the first pass, and from the
            last pass to the end of its store.
        change: of a LOOP_CONV_WS run beside what its units need.
        host_ws, host_conv: of the host core for a run.
        pass_latency: of a short pass through reservation station and array, beside two cycles a row of the array.
        join_ws, power_ws, join_conv, power_conv: share of a run that it takes longer than the array or memory alone when
            both are as busy, and the power of their ratio by which it falls.
        slot_ws, slot_conv, slot_side: of a run that neither loads nor computes, and of it a row of the array.
        switch, switch_stride: of a block of weights in LOOP_CONV_WS, if the array has nothing else to wait for: for
            every row that its passes are shorter than the array, and for every pixel that a stride skips.
        reload: of a run that loads, where others find their operands in the scratchpad.
        write_delay: share of the stores' time on the memory channel that loads wait for.
        drain: of a LOOP_WS run whose addends are loaded, beside its loads, passes and stores; 0 where the unroller lets these
            go on beside the runs before. The original's sends the addends of the next run before the operands of this one:
            they wait for the stores of the run before, whose place in the accumulator they take, and everything behind them.
        drain_hidden: share of such a run's addends, loads, passes and stores that goes on beside the longest of them.
    """

    start: float
    change: float
    host_ws: float
    host_conv: float
    pass_latency: float
    join_ws: float
    power_ws: float
    join_conv: float
    power_conv: float
    slot_ws: float
    slot_conv: float
    slot_side: float
    switch: float
    switch_stride: float
    reload: float
    write_delay: float
    drain: float
    drain_hidden: float


_Constants = TypeVar("_Constants")


def fitted(file: str, kind: type[_Constants]) -> dict[str, _Constants]:
    """Constants of a kind by name, from a file beside this one."""
    text = resources.files("baco.compiler.styles.macros").joinpath(file).read_text("utf-8")
    return {name: kind(**values) for name, values in json.loads(text).items()}


#: By timing (`baco.accel.config.TIMINGS`), those that `python -m baco.bench.fit.macro` wrote.
CONSTANTS = fitted("constants.json", MacroConstants)


@dataclass(frozen=True)
class MacroLayer:
    """A convolution, or the product of all its pixels (a window of one).

    Attributes:
        images, rows, columns, channels: of the results that are stored, pooled or not.
        kernel_rows, kernel_columns, depth: of the window.
        results_down, results_across: rows and columns of the results before pooling.
        height, width, top, left: of the stored image, and the padding above and left of it.
        bias, residual, raw, transposed: see `baco.compiler.latency.batch.LayerBatch`; of all but a bias, convolutions have none.
        pool_size, pool_stride, pool_padding: 0 without pooling.
        weight_size, element_size: bytes of a weight, and of an element of input and results, in main memory.
    """

    images: Values
    rows: Values
    columns: Values
    channels: Values
    kernel_rows: Values
    kernel_columns: Values
    depth: Values
    groups: Values
    results_down: Values
    results_across: Values
    stride_down: Values
    stride_across: Values
    dilation_down: Values
    dilation_across: Values
    height: Values
    width: Values
    top: Values
    left: Values
    bias: Values
    residual: Values
    raw: Values
    transposed: Values
    pool_size: Values
    pool_stride: Values
    pool_padding: Values
    input_pitch: Values
    weight_pitch: Values
    output_pitch: Values
    weight_size: Values
    element_size: Values

    @property
    def result_size(self) -> Values:
        """Bytes of a result: an element, or a sum."""
        return self.element_size + (4.0 - self.element_size) * self.raw

    @property
    def pixels(self) -> Values:
        """Rows of the product."""
        return self.results_across * self.results_down * self.images


@dataclass(frozen=True)
class MacroCycles:
    """Cycles of a layer's runs.

    Attributes:
        total: from the first command to the end of the last store.
        compute, load, memory, store, host: what each resource needs for all runs.
        ends: before the first pass and after the last load or pass.
        bytes: that the channel of main memory moves.
        weight_bytes, input_bytes, addend_bytes, result_bytes: of these; addends are bias, residual and partial sums that
            come back.
    """

    total: Values
    compute: Values
    load: Values
    memory: Values
    store: Values
    host: Values
    ends: Values
    bytes: Values
    weight_bytes: Values
    input_bytes: Values
    addend_bytes: Values
    result_bytes: Values


def bias_loaded(a: Arrays, machine: MachineRates, commands: Values, rows: Values, moved: Values) -> Moved:
    """Loads that write one row of memory to many of the accumulator."""
    transfer = moved / a.smaller(machine.bandwidth, machine.beat)
    return Moved(
        a.larger(transfer, held_cycles(machine, commands, transfer, command_cycles(a, machine))), rows, moved
    )


def tiles_loaded(
    a: Arrays,
    machine: MachineRates,
    rows: Values,
    columns: Values,
    part: Values,
    pitch: Values,
    element: Values = 1.0,
    command_rows: Values = None,
    between: Values = None,
    crowd: Values = 1.0,
) -> Moved:
    """Loads of a matrix once, in tiles of `part` columns."""
    trips = a.up(columns / part)
    loads = RowLoads.of(
        a, machine, rows, pitch, element=element, shift=part, between=between, crowd=crowd,
        command_rows=a.smaller(machine.dim, rows) if command_rows is None else command_rows,
    )  # fmt: skip
    moved: Moved = loads.moved(part) * (trips - 1.0) + loads.moved(columns - (trips - 1.0) * part)
    return moved


def parts(a: Arrays, whole: Values, part: Values, of: Callable[[Values], Values]) -> tuple[Values, Values]:
    """Sum of `of(size)` over the parts of a whole, and the number of parts."""
    trips = a.up(whole / part)
    return (trips - 1.0) * of(part) + of(whole - (trips - 1.0) * part), trips


def sign(a: Arrays, x: Values) -> Values:
    """1 where positive, else 0."""
    return a.where(x > 0.5, 1.0 + 0.0 * x, 0.0 * x)


def shortest_pass(a: Arrays, machine: MachineRates, constants: MacroConstants) -> Values:
    """Cycles from pass to pass that short ones cannot go below: each has two entries of the reservation station until
    its results have left the array, which the original's holds few passes of.
    """
    latency = 2.0 * machine.dim + constants.pass_latency
    inside = machine.profile.passes_inside
    if not inside:
        return latency * 2.0 / machine.execute_entries
    return latency * a.larger(2.0 / machine.execute_entries, 1.0 / inside)


def block_cycles(a: Arrays, machine: MachineRates, rows: Values, passes: Values, short: Values) -> Values:
    """Cycles of the array for a block of weights and its passes of so many rows in all."""
    if not machine.profile.passes_inside:
        return a.larger(a.larger(rows, passes * short), machine.dim)
    # the next block comes in beside the last pass, row by row
    each = a.larger(rows / a.larger(passes, 1.0), short)
    return a.larger(passes - 1.0, 0.0) * each + machine.dim


@dataclass(frozen=True)
class MacroWork:
    """Runs of one group, and what one of them takes.

    Attributes:
        groups, runs: numbers.
        outer: runs that bring addends and store; the others only add to sums.
        compute: cycles of passes.
        loads, kept: weights and inputs, of all runs on the average; `kept` is what a run needs whole before most of its
            passes.
        addends: of outer runs.
        written, store_rows: bytes and cycles of the store unit, of outer runs.
        loading: share of the runs that load `kept`; it stays for the others.
        first: cycles of the loads that the first pass waits for.
        tail: cycles of passes after the last load.
        fences: how often everything ends before the next run begins.
        drains: whether addends of a run hold up the operands of the one before (`MacroConstants.drain`).
    """

    groups: Values
    runs: Values
    outer: Values
    compute: Values
    loads: Moved
    kept: Moved
    addends: Moved
    written: Values
    store_rows: Values
    loading: Values
    first: Values
    tail: Values
    fences: Values
    drains: bool = False


def overlapped(
    a: Arrays,
    machine: MachineRates,
    work: MacroWork,
    *,
    join: tuple[float, float],
    change: float,
    host: float,
    slot: float,
    constants: MacroConstants,
) -> MacroCycles:
    """All runs of all groups, one behind the other."""
    compute, host = work.compute / machine.array_speed, host / machine.host_speed
    store = work.written / machine.bandwidth
    depth = 2.0 * machine.dim
    none = Moved(0.0 * store, 0.0 * store, 0.0 * store)
    # what a run needs whole is loaded beside the passes of the run before only
    share = work.loading
    loads = work.loads + work.kept * (1.0 / share) + Moved((1.0 - share) * constants.reload, 0.0, 0.0)

    def run(load: Moved, written: Values, stored: Values) -> tuple[Values, Values]:
        channel = load.bytes / machine.bandwidth + written
        memory = a.larger(
            a.larger(
                load.port + constants.write_delay * a.smaller(written, load.bytes / machine.bandwidth),
                load.rows,
            ),
            a.larger(channel, stored),
        )
        larger, smaller = a.larger(compute, memory), a.smaller(compute, memory)
        both = larger * (1.0 + join[0] * a.raised(smaller / larger, join[1])) + change
        alone = slot + constants.slot_side * machine.dim + compute + load.port + written
        return a.larger(a.larger(both, host), alone / 2.0), memory

    def drained(loads: Moved) -> Values:
        addends, operands = (a.larger(one.port, one.rows) for one in (work.addends, loads))
        total = addends + operands + compute + work.store_rows
        longest = a.larger(a.larger(addends, operands), a.larger(compute, work.store_rows))
        return constants.drain + total - constants.drain_hidden * (total - longest)

    def runs(addends: Moved, written: Values, stored: Values) -> tuple[Values, Values]:
        loading, memory = run(loads + addends, written, stored)
        others, less = run(work.loads + addends, written, stored)
        if constants.drain and work.drains and addends is not none:
            drains = (addends.port > 0) & (work.runs * work.groups > 1.5)
            loading = a.where(drains, a.larger(loading, drained(loads)), loading)
            others = a.where(drains, a.larger(others, drained(work.loads)), others)
        return share * loading + (1.0 - share) * others, share * memory + (1.0 - share) * less

    outer_time, memory = runs(work.addends, store, work.store_rows)
    inner_time, _ = runs(none, 0.0 * store, 0.0 * store)
    # the ends show only as far as nothing else goes on meanwhile
    ends = (
        constants.start
        + depth
        + (work.first + store) * (1.0 - a.smaller(memory / outer_time, 1.0))
        + work.tail / machine.array_speed * (1.0 - a.smaller(compute / outer_time, 1.0))
    )
    inner = a.larger(work.runs - work.outer, 0.0)
    body = work.groups * (inner * inner_time + work.outer * outer_time + work.fences * ends)
    everything = (work.loads + work.kept) * work.runs + work.addends * work.outer
    moved = work.groups * (everything.bytes + work.written * work.outer)
    return MacroCycles(
        total=body + ends,
        compute=work.groups * work.runs * compute,
        load=work.groups * a.larger(everything.port, everything.rows),
        memory=moved / machine.bandwidth,
        store=work.groups * work.outer * work.store_rows,
        host=work.groups * work.runs * host,
        ends=ends,
        bytes=moved,
        weight_bytes=work.groups * work.runs * work.loads.bytes,
        input_bytes=work.groups * work.runs * work.kept.bytes,
        addend_bytes=work.groups * work.outer * work.addends.bytes,
        result_bytes=work.groups * work.outer * work.written,
    )
