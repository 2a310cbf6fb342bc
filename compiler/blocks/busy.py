"""Cycles in which array, host core and memory are busy with a structured program, block by block: what launches are predicted from, and
what loops that load ahead are told of their rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import memref, scf
from xdsl.dialects.linalg.ops import GenericOp, MatmulOp
from xdsl.ir import Block, Operation, SSAValue

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.reading import (
    BlockLoad,
    Size,
    addend_of,
    block_load,
    is_relu,
    mixed,
    requantised,
    shape_of,
)
from baco.compiler.blocks.scratchpad import oriented
from baco.compiler.blocks.state import bytes_of
from baco.compiler.dialects.baco import SoftmaxOp

#: Cycles of the host core for a command, for a block of weights and for a round, measured on our RTL (`baco.bench.pipelining`).
_COMMAND, _WEIGHTS, _ROUND = 4.5, 15.0, 20.0
#: Instructions of the host core for an element that it computes, beside its operations: addresses, loads, stores, the loop.
_ELEMENT = 8
#: Of a softmax over the elements of its rows.
_SOFTMAX_PASSES = 3


@dataclass(frozen=True)
class BlockCycles:
    """Cycles that some operations take of the array, of the host core, of the loader for blocks, and of the channel for
    results."""

    array: float = 0.0
    host: float = 0.0
    loads: float = 0.0
    stores: float = 0.0

    def plus(self, other: BlockCycles, times: float = 1.0) -> BlockCycles:
        """With so many times as much as `other` more."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return BlockCycles(*(own + times * more for own, more in both))


class BlockRates:
    """Busy cycles of operations of one structured function on one accelerator."""

    def __init__(self, accelerator: Accelerator, analysis: Analysis) -> None:
        self.accelerator, self.analysis = accelerator, analysis
        self.latency = PROFILES[accelerator.timing].latency
        self.bandwidth = channel_bytes_per_cycle(accelerator)
        self.beat = accelerator.dma_bits / 8

    def loop(self, loop: scf.ForOp) -> BlockCycles:
        """All rounds of a loop."""
        return BlockCycles().plus(self.block(loop.body.block).plus(BlockCycles(host=_ROUND)), trips(loop))

    def block(self, block: Block) -> BlockCycles:
        """The operations of a block once; of what is done on a condition, as if it held."""
        total = BlockCycles()
        for op in block.ops:
            total = total.plus(self._operation(op))
            for value in op.results:
                load = block_load(value) if value in self.analysis.factors else None
                if load is not None:
                    total = total.plus(self.load(load))
        return total

    def _operation(self, op: Operation) -> BlockCycles:
        if isinstance(op, scf.ForOp):
            return self.loop(op)
        if isinstance(op, scf.IfOp):
            return self.block(op.true_region.block)
        if isinstance(op, MatmulOp):
            return self._product(op)
        if isinstance(op, memref.CopyOp) and isinstance(op.destination.owner, memref.ReinterpretCastOp):
            return self._store(op.destination.owner)
        if isinstance(op, SoftmaxOp):
            return self._softmax(op)
        if isinstance(op, GenericOp):
            return self._elementwise(op)
        return BlockCycles()

    def load(self, load: BlockLoad) -> BlockCycles:
        """The loads of a block: as fast as the channel, the port, rows, and requests that wait for the latency allow."""
        lies = oriented(InMemory(0, load.strides, load.sizes, load.low, load.shape, load.bits))
        *above, columns = map(_most, lies.sizes)
        rows = math.prod(above)
        width = columns * load.bits / 8
        requests = rows * math.ceil(width / self.accelerator.dma_max_bytes)
        beats = math.ceil(width / self.beat)
        cycles = max(
            rows * max(width / self.bandwidth, beats), requests * self.latency / self.accelerator.dma_requests
        )
        dim = self.accelerator.dim
        commands = math.ceil(rows / min(dim, rows)) * math.ceil(width / max(MOVE_BYTES, dim))
        return BlockCycles(host=commands * _COMMAND, loads=cycles)

    def _product(self, op: MatmulOp) -> BlockCycles:
        """A product's passes, a block of weights takes the array's side to come in; or the host core's work."""
        found, dim = self.analysis.products.get(op), self.accelerator.dim
        if found is None:
            (rows, depth), (_, columns) = (shape_of(one) for one in op.inputs)
            return BlockCycles(host=rows * depth * columns * _ELEMENT)
        (rows, depth), (_, columns) = (
            tuple(map(_most, self.analysis.factor_sizes(one))) for one in (found.left, found.right)
        )
        blocks = math.ceil(depth / dim) * math.ceil(columns / dim)
        passes = blocks * math.ceil(rows / dim)
        return BlockCycles(array=blocks * max(rows, dim), host=blocks * _WEIGHTS + passes * 2 * _COMMAND)

    def _store(self, view: memref.ReinterpretCastOp) -> BlockCycles:
        """Results on their way out."""
        sizes = [_most(one) for one in mixed(view.static_sizes.get_values(), view.sizes)] or [1]
        elements, dim = math.prod(sizes), self.accelerator.dim
        commands = math.ceil(sizes[0] / dim) * math.ceil(elements / sizes[0] / dim)
        return BlockCycles(host=commands * _COMMAND, stores=elements * bytes_of(view.source) / self.bandwidth)

    def _softmax(self, op: SoftmaxOp) -> BlockCycles:
        """By the units of rows where they can, else by the host core."""
        elements, found = math.prod(shape_of(op.result)), requantised(op.value)
        unit = self.accelerator.features.row_functions and op.mask is None
        if unit and found is not None and self.analysis.in_accumulator(found[0]):
            return BlockCycles(
                array=_SOFTMAX_PASSES * elements / self.accelerator.dim, stores=elements / self.bandwidth
            )
        return BlockCycles(host=_SOFTMAX_PASSES * _ELEMENT * elements)

    def _elementwise(self, op: GenericOp) -> BlockCycles:
        """The host core's work, but where loads, products and stores do it on the way."""
        value = op.results[0]
        riding = self.analysis.sum_of(value)
        if riding is not None:
            return self.load(riding.addend.load)
        if any(use.operation in self.analysis.products for use in value.uses) or (
            addend_of(value, self.analysis.element_bits) is not None
        ):
            return BlockCycles()
        source = _before_the_way_out(value)
        if source is not value and self.analysis.in_accumulator(source):
            return BlockCycles()
        each = _ELEMENT + len(list(op.body.block.ops))
        return BlockCycles(host=each * max(math.prod(shape_of(one)) for one in (*op.inputs, value)))


def _before_the_way_out(value: SSAValue) -> SSAValue:
    """What a store's scaling and rectifier would make the value of."""
    while True:
        scaled = requantised(value)
        below = is_relu(value) if scaled is None else scaled[0]
        if below is None:
            return value
        value = below


def trips(loop: scf.ForOp) -> int:
    """Rounds of a loop, as many as there can be; 1 where nothing is known."""
    (first, _), (_, end), (step, _) = map(bounds_of, (loop.lb, loop.ub, loop.step))
    return max(1, -(-(end - first) // max(step, 1))) if abs(end - first) < 1 << 40 else 1


def _most(size: Size) -> int:
    return max(1, size if isinstance(size, int) else bounds_of(size)[1])
