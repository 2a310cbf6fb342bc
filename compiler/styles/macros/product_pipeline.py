"""LOOP_WS on the original, run by run (`baco.compiler.styles.macros.pipeline`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from baco.compiler.analysis.arrays import NUMPY, Values
from baco.compiler.analysis.traffic import (
    MOST_ALIGNED,
    MachineRates,
    cache_lines,
    covered,
    loaded,
    request_place,
    stored,
)
from baco.compiler.styles.macros.pipeline import (
    MOST_RUNS,
    NEVER,
    PIPELINES,
    PipelineConstants,
    cycles_of,
    fresh_share,
    groups_simulated,
    of_all_groups,
    shortest,
    whole,
)
from baco.compiler.styles.macros.product_cycles import (
    ProductTile,
    operands_loaded,
    stores_of_product,
)
from baco.compiler.styles.macros.runs import MacroLayer, tiles_loaded

#: Blocks of the array's side that a load or a store moves side by side.
_WIDE = 4


@dataclass(frozen=True)
class _Whole:
    """What the operands of the whole product take: loaded the first time, of that the memory bus, and again, in requests an element;
    brought onto the sums; stored, and of that the port's and the memory bus's part, in requests an element."""

    a: float
    a_filled: float
    a_again: float
    a_requests: float
    b: float
    b_filled: float
    b_again: float
    b_requests: float
    residual: float
    store: float
    written: float
    filled: float
    puts: float


@dataclass(frozen=True)
class _Run:
    """Cycles of a run's phases by themselves.

    Attributes:
        operands, addends: of loads; `requests` for operands, in `fetched` cycles of the memory bus; `needed` of the operands before the
            first pass, `late` of them behind what the last passes wait for; `commands` that load operands.
        compute: of passes, `passes` of them, over `steps` parts of the depth that are loaded together.
        banks: rows that loads may write to the banks that passes read.
        store, written, filled: of stores, of these the port's and the bus's part; `stores` commands of `puts` requests for lines of their own,
            which by themselves are `busy`. 0 for a run that only adds.
        storing: from the first store to the last pass, at most.
        crossing: of the passes, those that may go while what they overwrite is still being stored: of all blocks but the last that leave.
        behind: share of the addends that come after the last store which makes room for them.
        last: whether results leave.
    """

    operands: float
    requests: float
    fetched: float
    needed: float
    late: float
    commands: float
    addends: float
    compute: float
    passes: float
    steps: float
    banks: float
    store: float
    written: float
    filled: float
    stores: float
    puts: float
    busy: float
    storing: float
    crossing: float
    behind: float
    last: bool


def product_pipeline(
    machine: MachineRates,
    layer: MacroLayer,
    tile: ProductTile,
    constants: PipelineConstants | None = None,
) -> float | None:
    """Cycles from the first command to the end of the last store; None for sums that wait in main memory, and for very many
    runs, whose mean says enough. Layer and tile are numbers."""
    constants = constants or PIPELINES["loop_ws"]
    order = _order(tile)
    sizes = {"i": float(layer.pixels), "j": float(layer.channels), "k": float(layer.depth)}
    parts = {"i": float(tile.rows), "j": float(tile.columns), "k": float(tile.depth)}
    trips = {axis: whole(sizes[axis] / parts[axis]) for axis in "ijk"}
    behind_k = order[order.index("k") + 1 :]
    if trips["k"] > 1 and any(trips[axis] > 1 for axis in behind_k):
        return None
    if trips["i"] * trips["j"] * trips["k"] > MOST_RUNS:
        return None
    runs = list(_runs(machine, layer, tile, constants, (order, sizes, parts, trips)))
    return _through(runs, float(layer.groups), machine, constants)


def _order(tile: ProductTile) -> str:
    rows_and_columns = "ji" if float(tile.columns_outside) > 0.5 else "ij"
    place = 2 - round(float(tile.depth_outside))
    return rows_and_columns[:place] + "k" + rows_and_columns[place:]


@lru_cache(maxsize=1024)  # which no constants decide: whoever fits them asks hundreds of times
def _totals(machine: MachineRates, layer: MacroLayer, tile: ProductTile) -> _Whole:
    once, twice = (operands_loaded(NUMPY, machine, layer, tile, n, n) for n in (1.0, 2.0))
    again = [max(float(two.port - one.port), float(one.rows)) for one, two in zip(once, twice, strict=True)]
    residual = tiles_loaded(
        NUMPY, machine, layer.pixels, layer.channels, tile.columns, layer.output_pitch, layer.element_size
    )
    residual = loaded(
        NUMPY, machine, residual, 1.0, layer.pixels, layer.channels, layer.output_pitch, tile.columns
    )
    written, rows = stores_of_product(
        NUMPY, machine, layer, tile, layer.output_pitch, NUMPY.up(layer.channels / machine.dim), 0.0
    )
    raw = layer.raw > 0.5
    piece: Values = NUMPY.where(
        raw, machine.dim, NUMPY.larger(machine.request / layer.element_size, machine.dim)
    )
    filled = stored(
        NUMPY, machine, 0.0 * layer.pixels, layer.pixels, layer.channels, layer.output_pitch,
        piece=NUMPY.smaller(piece, tile.columns), element=layer.result_size, shift=tile.columns,
        running=1.0 - layer.bias - layer.residual,
    )  # fmt: skip
    port = float(written) / float(machine.bandwidth)
    weights = (layer.depth, layer.channels)
    if float(layer.transposed) > 0.5:
        weights = weights[::-1]
    lines = (
        float(cache_lines(NUMPY, machine, rows, columns, pitch, 1.0))
        for rows, columns, pitch in (
            (layer.pixels, layer.depth, layer.input_pitch),
            (*weights, layer.weight_pitch),
        )
    )
    a_filled, b_filled = (machine.profile.fill_cycles(count) for count in lines)
    size = layer.result_size
    # requests of a line that rows share wait together
    apart = float(layer.output_pitch * size) >= machine.profile.line_bytes
    puts = _requests(machine, layer.output_pitch, tile.columns, piece, size) if apart else 0.0
    across = float(tile.depth if float(layer.transposed) > 0.5 else tile.columns)
    return _Whole(
        a=cycles_of(once[0]), a_filled=a_filled, a_again=again[0],
        a_requests=_requests(machine, layer.input_pitch, tile.depth, machine.request / layer.element_size, layer.element_size),
        b=cycles_of(once[1]), b_filled=b_filled, b_again=again[1],
        b_requests=_requests(machine, layer.weight_pitch, across, machine.request / layer.element_size, layer.weight_size),
        residual=cycles_of(residual.scaled(machine)) * float(layer.residual), store=max(float(rows), port), written=port,
        filled=float(filled), puts=puts,
    )  # fmt: skip


def _requests(machine: MachineRates, pitch: Values, width: Values, piece: Values, element: Values) -> float:
    """Of the port for an element of rows of so many, which commands move in pieces."""
    size = float(NUMPY.smaller(piece, width))
    aligned = NUMPY.smaller(NUMPY.power(pitch) * element, MOST_ALIGNED)
    place = request_place(NUMPY, machine, aligned)
    requests, _, _ = covered(NUMPY, machine, place, size * element)
    return float(requests) / size


def _runs(
    machine: MachineRates,
    layer: MacroLayer,
    tile: ProductTile,
    constants: PipelineConstants,
    loops: tuple[str, dict[str, float], dict[str, float], dict[str, int]],
) -> Iterator[_Run]:
    """Those of one group, in their order."""
    order, sizes, parts, trips = loops
    dim, short, totals = float(machine.dim), shortest(machine, constants), _totals(machine, layer, tile)
    keeps = {"a": _stays(order, trips, "j", tile.keep_a), "b": _stays(order, trips, "i", tile.keep_b)}
    for place in itertools.product(*(range(trips[axis]) for axis in order)):
        at = dict(zip(order, place, strict=True))
        rows, columns, depth = (min(parts[axis], sizes[axis] - at[axis] * parts[axis]) for axis in "ijk")
        i, j, k = (whole(size / dim) for size in (rows, columns, depth))
        share = {
            "a": rows * depth / (sizes["i"] * sizes["k"]),
            "b": columns * depth / (sizes["j"] * sizes["k"]),
            "c": rows * columns / (sizes["i"] * sizes["j"]),
        }
        load_a = share["a"] * (0.0 if keeps["a"] and at["j"] else totals.a_again)
        if at["j"] == 0:
            fresh = fresh_share(machine, at["k"] * parts["k"], depth, sizes["k"], layer.input_pitch)
            load_a += rows / sizes["i"] * fresh * (totals.a - totals.a_again)
        load_b = share["b"] * (0.0 if keeps["b"] and at["i"] else totals.b_again)
        if at["i"] == 0:
            load_b += _fresh_weights(machine, layer, at, (columns, depth), (sizes, parts)) * (
                totals.b - totals.b_again
            )
        steps, together = whole(k / _WIDE), min(_WIDE, k)
        last = at["k"] == trips["k"] - 1
        addends = (
            0.0 if at["k"] else float(layer.bias) * i * j * constants.addend + totals.residual * share["c"]
        )
        wide = 1 if float(layer.raw) > 0.5 else _WIDE
        stores = float(i * whole(j / wide))
        compute = j * k * ((i - 1) * max(min(rows, dim), short) + dim + constants.exchange)
        compute /= float(machine.array_speed)
        yield _Run(
            operands=load_a + load_b,
            requests=(rows * depth * totals.a_requests if load_a else 0.0)
            + (columns * depth * totals.b_requests if load_b else 0.0),
            fetched=share["a"] * totals.a_filled * (at["j"] == 0)
            + share["b"] * totals.b_filled * (at["i"] == 0),
            needed=(load_a + load_b / together) / steps,
            late=load_b * (1.0 - 1.0 / together) / steps,
            commands=(i * steps if load_a else 0) + (k * whole(j / _WIDE) if load_b else 0),
            addends=addends,
            compute=compute,
            passes=i * j * k,
            steps=steps,
            banks=(i * k * dim if load_a else 0.0) + (k * j * dim / i if load_b else 0.0),
            store=constants.store * totals.store * share["c"] * last,
            written=totals.written * share["c"] * last,
            filled=totals.filled * share["c"] * last,
            stores=stores,
            puts=rows * columns * totals.puts * last,
            busy=rows * j * float(machine.store_pace(layer.raw)),
            storing=compute / k * (1.0 - 1.0 / max(1.0, j / wide)),
            crossing=compute * (1.0 - (min(wide, j) - (i - 1) / i) / j),
            # stores go column by column of blocks, and so do loads of what takes their place
            behind=1.0 / stores if float(layer.residual) else ((min(wide, j) - 1) * i + 1) / (i * j),
            last=last,
        )


def _fresh_weights(
    machine: MachineRates,
    layer: MacroLayer,
    at: dict[str, int],
    tile: tuple[float, float],
    axes: tuple[dict[str, float], dict[str, float]],
) -> float:
    """Share of the lines of B that a tile of some columns and some depth is the first to touch."""
    (columns, depth), (sizes, parts) = tile, axes
    if float(layer.transposed) > 0.5:
        fresh = fresh_share(machine, at["k"] * parts["k"], depth, sizes["k"], layer.weight_pitch)
        return columns / sizes["j"] * fresh
    fresh = fresh_share(machine, at["j"] * parts["j"], columns, sizes["j"], layer.weight_pitch)
    return depth / sizes["k"] * fresh


def _stays(order: str, trips: dict[str, int], other: str, kept: Values) -> bool:
    """Whether an operand that the axis `other` does not choose stays in the scratchpad (`baco.compiler.styles.macros.reuse`)."""
    inside = order[order.index(other) + 1 :]
    between = 1
    for axis in inside:
        between *= trips[axis]
    return float(kept) > 0.5 and between <= 2 and trips[other] > 1


def _in_turn(run: _Run, begin: float, storing: tuple[float, float], pace: float) -> float:
    """By how much loads from `begin` on are longer since their requests take turns with those of stores, each `pace` cycles of
    refills, beside which come their own."""
    before = max(0.0, storing[0] - begin)
    if not pace or before >= run.operands:
        return 0.0
    rest = run.operands - before
    slower = max((run.requests * pace + run.fetched) * rest / run.operands, rest)
    return (slower - rest) * min(1.0, max(0.0, storing[1] - begin - before) / slower)


def _through(runs: list[_Run], groups: float, machine: MachineRates, k: PipelineConstants) -> float:
    """All runs one after the other through loads, array and stores."""
    ends: list[float] = []
    loads = array = 0.0
    stores, sent, sent_before = NEVER, NEVER, NEVER
    # of the two halves of the accumulator: when stored, and how much of the next addends comes after that
    free, behind = [NEVER, NEVER], [1.0, 1.0]
    half, early = 0, None
    # cycles of a request of the stores under way, where these wait for refills
    pace, storing = 0.0, NEVER
    every = runs * groups_simulated(groups)
    # then tiles wait for their place before anything else
    sums_loaded = any(run.addends for run in runs)
    for number, run in enumerate(every):
        host = k.host / float(machine.host_speed)
        enter = max(sent_before + k.enter, number * host)
        addends = early
        if addends is None and run.addends:
            room = free[half] + k.addend_wait + run.addends * behind[half]
            addends = max(max(loads, enter) + run.addends, room)
        begin = max(loads, enter, addends or 0.0)
        operands = run.operands + _in_turn(run, begin, (storing, stores), pace)
        end, early = begin + operands, None
        each = operands / max(1.0, run.commands)
        ahead = min(run.commands, k.loads_ahead) * each
        following = every[number + 1] if number + 1 < len(every) else None
        if following is not None and following.addends:
            # the next run's addends go before operands that are not sent yet, and wait for their place
            other = 1 - half if run.last else half
            allowed = max(sent + k.enter, (number + 1) * host)
            if allowed < end - ahead:
                room = free[other] + k.addend_wait + following.addends * behind[other]
                early = max(max(allowed, begin) + following.addends, room)
                if allowed <= max(enter, begin - ahead):
                    begin, end = early, early + operands
                else:
                    end += max(0.0, early - max(allowed, begin))
        if run.operands or addends is not None:
            first = max(begin, addends or 0.0) + run.needed + k.load_latency
        else:
            first = enter
        passes = max(array, first)
        # passes follow the stores of what they overwrite, block by block, and keep these from the bank that they write
        crossed = min(max(0.0, free[half] - passes), run.crossing)
        stores, free[half] = stores + crossed, free[half] + crossed
        done = max(passes + run.compute, free[half] + run.compute - run.crossing)
        if run.operands:
            # loads write banks that passes read
            done += run.banks * min(1.0, max(0.0, (end - passes) / run.operands))
            done = max(done, end + k.load_latency - run.late + run.compute / run.steps)
        over = max(done - k.passes_ahead * run.compute / run.passes, end - ahead)
        if run.last:
            storing = begin = max(stores, done - run.storing, passes)
            waits = run.puts and run.filled > run.busy and not sums_loaded
            pace = run.filled / run.puts if waits else 0.0
            stores = max(begin + run.store, done + k.store_latency + run.store / run.stores)
            free[half], behind[half], half = stores, run.behind, 1 - half
            # The first column of blocks that leaves makes room for passes while the others wait in the reservation station; a run of which
            # all is sent lets the next one's sums go before the operands of the one between.
            waiting = k.stores_ahead
            if run.storing > 0 and not sums_loaded:
                waiting = min(float(machine.store_entries), run.stores / 2)
            elif run.storing > 0:
                waiting = max(waiting, min(float(machine.store_entries), run.stores) - 1.0)
            over = max(over, stores - waiting * run.store / run.stores)
        on_the_bus = max(0.0, run.fetched + k.fills * run.filled - run.operands)
        loads = end + min(k.writes * run.written + on_the_bus, run.operands)
        array, sent_before, sent = done, sent, max(sent, over)
        if (number + 1) % len(runs) == 0:
            ends.append(max(stores, array))
    return of_all_groups(ends, groups) + k.start
