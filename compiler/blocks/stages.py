"""How many places the blocks of a loop get: what a round loads and computes, as the model of loops that load ahead takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from baco.accel.config import Accelerator
from baco.compiler.analysis.pipelined import LoopTimes
from baco.compiler.blocks.analysis import Analysis, enclosing_loops
from baco.compiler.blocks.busy import BlockCycles, BlockRates, trips
from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.pipelining import PipelinedLoad
from baco.compiler.blocks.reading import shape_of
from baco.compiler.blocks.scratchpad import layout_of

#: Places of a block at most.
MOST_STAGES = 8


def choose_stages(
    loads: Sequence[PipelinedLoad], analysis: Analysis, accelerator: Accelerator
) -> dict[SSAValue, int]:
    """Places of each block: those with which its loop takes the fewest cycles, fewer where the scratchpad is too small."""
    times = loop_times(loads, analysis, accelerator)
    chosen = {load.value: times[load.nest].stages(MOST_STAGES) for load in loads}
    rows = {load.value: _rows(load, accelerator.dim) for load in loads}

    def loss(load: PipelinedLoad) -> float:
        loop, stages = times[load.nest], chosen[load.value]
        return (loop.cycles(stages - 1) - loop.cycles(stages)) / rows[load.value]

    while sum(chosen[value] * rows[value] for value in chosen) > accelerator.scratchpad_rows:
        smaller = [load for load in loads if chosen[load.value] > 1]
        if not smaller:
            break
        least = min(smaller, key=loss)
        chosen[least.value] -= 1
    return chosen


def loop_times(
    loads: Sequence[PipelinedLoad], analysis: Analysis, accelerator: Accelerator
) -> dict[tuple[scf.ForOp, ...], LoopTimes]:
    """What the model is told of each nest of loops with loads that can run ahead."""
    rates = BlockRates(accelerator, analysis)
    found: dict[tuple[scf.ForOp, ...], LoopTimes] = {}
    for nest in dict.fromkeys(one.nest for one in loads):
        rounds = math.prod(map(trips, nest))
        outside = math.prod(trips(loop) for loop in enclosing_loops(nest[0]))
        whole = rates.loop(nest[0])
        own = BlockCycles()
        for one in loads:
            if one.nest == nest:
                own = own.plus(rates.load(one.load))
        found[nest] = LoopTimes(
            latency=rates.latency,
            busy=own.loads,
            use=max(whole.array, whole.host) / max(rounds, 1),
            rounds=rounds * outside,
            beside=outside * (whole.stores + max(0.0, whole.loads - rounds * own.loads)),
        )
    return found


def _rows(load: PipelinedLoad, dim: int) -> int:
    """Rows of the scratchpad that one place takes."""
    assert len(shape_of(load.value)) == 2
    return layout_of(InMemory(0, load.load.strides, (), (), load.load.shape, load.load.bits), dim).rows
