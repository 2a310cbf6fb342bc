"""What the loop macros of the original take run by run: the constants, and what both macros' runs have in common.

The closed forms of `baco.compiler.styles.macros.cycles` take every run to be the mean of all. On the original, which has two runs
under way, unequal runs wait for each other, and so do the first and the last of a layer: a run comes in when all commands of the one
before the last have been sent to the reservation station, a tile's sums are brought when its place in the accumulator has been
stored, and both macros send loads, passes and stores in an order of their own (`sim/cpp/gemmini_unroller.h`). Here every run of a layer
goes through the load unit, the array and the store unit after the runs before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.analysis.arrays import Values
from baco.compiler.analysis.traffic import MachineRates, Moved
from baco.compiler.styles.macros.runs import fitted

#: Runs of a layer beyond which a mean run says enough, and groups of which the others are like the last.
MOST_RUNS, _GROUPS = 2000, 3
#: Before the first run.
NEVER = -1e9


@dataclass(frozen=True)
class PipelineConstants:
    """Cycles and numbers of commands, fitted to runs of one macro.

    Attributes:
        start: from the first command to the first load, and behind the last store.
        enter: from when a run may come in to its first load.
        host: of the host core for a run.
        load_latency, store_latency: from the last load to the first pass that waits for it, from the last pass to a store.
        exchange: of a block of weights beside its rows.
        pass_latency: of a pass from reservation station to result, beside two cycles a row of the array.
        addend: of a block of sums that begin with a bias or zeros.
        addend_wait: from a store to the load of sums that takes its place.
        store: share of what the stores of a run take by themselves that shows.
        writes, fills: share of the stores' time on the port, and on the bus to main memory, that loads wait for.
        passes_ahead, stores_ahead, loads_ahead: commands sent and not done when a phase of a run has sent all.
    """

    start: float
    enter: float
    host: float
    load_latency: float
    store_latency: float
    exchange: float
    pass_latency: float
    addend: float
    addend_wait: float
    store: float
    writes: float
    fills: float
    passes_ahead: float
    stores_ahead: float
    loads_ahead: float


#: By macro, `loop_ws` and `loop_conv`: fitted to the programs measured on the original and to alternatives of `baco bench choice --seed 1`
#: on its timed model; LOOP_WS's then by `python -m baco.bench.fit.original` to the programs alone. LOOP_CONV's are not, since of
#: alternatives of the seeds 1 and 2 constants fitted to its 71 programs alone choose worse (1.6% behind the best, not 1.1%).
PIPELINES = fitted("pipeline.json", PipelineConstants)


def cycles_of(moved: Moved) -> float:
    """Of the port or of the rows of the local memory."""
    return max(float(moved.port), float(moved.rows))


def whole(x: Values) -> int:
    """Rounded up."""
    return math.ceil(float(x) - 1e-9)


def shortest(machine: MachineRates, constants: PipelineConstants) -> float:
    """Cycles from pass to pass that short ones cannot go below."""
    latency = 2.0 * machine.dim + constants.pass_latency
    return float(latency * max(2.0 / machine.execute_entries, 1.0 / machine.profile.passes_inside))


def fresh_share(machine: MachineRates, start: float, size: float, columns: float, pitch: Values) -> float:
    """Share of the cache's lines which a matrix lies in that `size` of its columns, from `start` on, are the first to touch, the columns
    before them having been loaded. Where rows begin with a line, a tile of fewer columns than that has all of it or nothing; where
    they begin anywhere, as much as it has columns."""
    line = machine.profile.line_bytes
    step = math.gcd(round(float(pitch)), round(line)) if line else 1
    begins = range(0, round(line), step) if line else ()
    if step < machine.dim or not begins:
        return size / columns

    def lines(first: float, width: float) -> float:
        return sum((begin + first + width - 1) // line - (begin + first - 1) // line for begin in begins)

    return lines(start, size) / lines(0.0, columns)


def groups_simulated(groups: float) -> int:
    """How many groups of a layer are gone through."""
    return min(round(groups), _GROUPS)


def of_all_groups(ends: Sequence[float], groups: float) -> float:
    """When the last group ends, given when the first ones do: each of the others takes as long as the last of these."""
    rest = round(groups) - len(ends)
    return ends[-1] + (rest * (ends[-1] - ends[-2]) if rest else 0.0)
