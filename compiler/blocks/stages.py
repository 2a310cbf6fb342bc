"""How many places the blocks of a loop get: what a round loads and computes, as the model of loops that load ahead takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref, scf
from xdsl.ir import Block, Operation, SSAValue

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.analysis.pipelined import LoopTimes
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.blocks.analysis import Analysis, enclosing_loops
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.pipelining import PipelinedLoad
from baco.compiler.blocks.reading import BlockLoad, Size, block_load, mixed, shape_of
from baco.compiler.blocks.scratchpad import layout_of, oriented
from baco.compiler.blocks.state import bytes_of

#: Places of a block at most.
MOST_STAGES = 8
#: Cycles of the host core for a command, for a block of weights and for a round, measured on our RTL (`baco.bench.pipelining`).
_COMMAND, _WEIGHTS, _ROUND = 4.5, 15.0, 20.0


@dataclass(frozen=True)
class _Work:
    """Cycles that some operations take of the array, of the host core, of the loader for blocks, and of the channel for
    results."""

    array: float = 0.0
    host: float = 0.0
    loads: float = 0.0
    stores: float = 0.0

    def plus(self, other: _Work, times: float = 1.0) -> _Work:
        return _Work(*(a + times * b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


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
    latency = PROFILES[accelerator.timing].latency
    rates = _Rates(accelerator, analysis, latency)
    found: dict[tuple[scf.ForOp, ...], LoopTimes] = {}
    for nest in dict.fromkeys(one.nest for one in loads):
        rounds = math.prod(map(_trips, nest))
        outside = math.prod(_trips(loop) for loop in enclosing_loops(nest[0]))
        whole = rates.loop(nest[0])
        own = _Work()
        for one in loads:
            if one.nest == nest:
                own = own.plus(rates.load(one.load))
        found[nest] = LoopTimes(
            latency=latency,
            busy=own.loads,
            use=max(whole.array, whole.host) / max(rounds, 1),
            rounds=rounds * outside,
            beside=outside * (whole.stores + max(0.0, whole.loads - rounds * own.loads)),
        )
    return found


class _Rates:
    """Cycles of operations on one accelerator."""

    def __init__(self, accelerator: Accelerator, analysis: Analysis, latency: float) -> None:
        self.accelerator, self.analysis, self.latency = accelerator, analysis, latency
        self.bandwidth = channel_bytes_per_cycle(accelerator)
        self.beat = accelerator.dma_bits / 8

    def loop(self, loop: scf.ForOp) -> _Work:
        """All rounds of a loop."""
        return _Work().plus(self.block(loop.body.block).plus(_Work(host=_ROUND)), _trips(loop))

    def block(self, block: Block) -> _Work:
        """The operations of a block once."""
        total = _Work()
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                total = total.plus(self.loop(op))
            elif op in self.analysis.products:
                total = total.plus(self.product(op))
            elif isinstance(op, memref.CopyOp) and isinstance(op.destination.owner, memref.ReinterpretCastOp):
                total = total.plus(self.store(op.destination.owner))
            for value in op.results:
                load = block_load(value) if value in self.analysis.factors else None
                if load is not None:
                    total = total.plus(self.load(load))
        return total

    def load(self, load: BlockLoad) -> _Work:
        """The loads of a block: as fast as the channel, the port, rows, and requests that wait for the latency allow."""
        lies = oriented(InMemory(0, load.strides, load.sizes, load.low, load.shape, load.bits))
        rows, columns = (_most(size) for size in lies.sizes)
        width = columns * load.bits / 8
        requests = rows * math.ceil(width / self.accelerator.dma_max_bytes)
        beats = math.ceil(width / self.beat)
        cycles = max(
            rows * max(width / self.bandwidth, beats), requests * self.latency / self.accelerator.dma_requests
        )
        dim = self.accelerator.dim
        commands = math.ceil(rows / min(dim, rows)) * math.ceil(width / max(MOVE_BYTES, dim))
        return _Work(host=commands * _COMMAND, loads=cycles)

    def product(self, op: Operation) -> _Work:
        """A product's passes: a block of weights takes the array's side to come in."""
        found, dim = self.analysis.products[op], self.accelerator.dim
        (rows, depth), (_, columns) = (
            tuple(map(_most, self.analysis.factor_sizes(one))) for one in (found.left, found.right)
        )
        blocks = math.ceil(depth / dim) * math.ceil(columns / dim)
        passes = blocks * math.ceil(rows / dim)
        return _Work(array=blocks * max(rows, dim), host=blocks * _WEIGHTS + passes * 2 * _COMMAND)

    def store(self, view: memref.ReinterpretCastOp) -> _Work:
        """Results on their way out."""
        sizes = [_most(one) for one in mixed(view.static_sizes.get_values(), view.sizes)]
        elements, dim = math.prod(sizes), self.accelerator.dim
        commands = math.ceil(sizes[0] / dim) * math.ceil(elements / sizes[0] / dim)
        return _Work(host=commands * _COMMAND, stores=elements * bytes_of(view.source) / self.bandwidth)


def _most(size: Size) -> int:
    return max(1, size if isinstance(size, int) else bounds_of(size)[1])


def _trips(loop: scf.ForOp) -> int:
    """Rounds of a loop, as many as there can be."""
    (first, _), (_, end), (step, _) = map(bounds_of, (loop.lb, loop.ub, loop.step))
    return max(1, -(-(end - first) // max(step, 1))) if abs(end - first) < 1 << 40 else 1


def _rows(load: PipelinedLoad, dim: int) -> int:
    """Rows of the scratchpad that one place takes."""
    assert len(shape_of(load.value)) == 2
    return layout_of(InMemory(0, load.load.strides, (), (), load.load.shape, load.load.bits), dim).rows
