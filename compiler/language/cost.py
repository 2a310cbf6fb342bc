"""Cycles that a launch will take, without running it: what block sizes are chosen by.

A kernel that is one tiled product takes what its layer is predicted to take, and attention that runs as one unit what such a
group of operators does: the analyses are those of networks (`baco.compiler.latency`, `baco.compiler.styles.fused`). Any other kernel is predicted from its structured program, block by block: host core, array and memory
are busy side by side, and the busiest of them decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects import func, memref, scf
from xdsl.dialects.linalg.ops import FillOp, GenericOp, MatmulOp
from xdsl.ir import Block

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.attention import TiledAttention, attention_schedule, has_softmax, tiled_attention
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.blocks.products import TiledProduct, product_schedule, tiled_product
from baco.compiler.blocks.reading import Size, addend_of, is_relu, mixed, requantised, shape_of
from baco.compiler.blocks.to_instgem import function_to_instgem
from baco.compiler.codegen.pipeline import run_pass
from baco.compiler.dialects.baco import SoftmaxOp
from baco.compiler.dialects.context import all_dialects
from baco.compiler.host_core import COMMAND_CYCLES, EDGE_COMMAND_CYCLES
from baco.compiler.language.jit import BoundLaunch
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.styles.fused.predict import predict_chain

#: Instructions of the host core for an element that it computes, beside its operations: addresses, loads, stores, the loop.
_ELEMENT = 8
#: The array takes at least as many cycles for a pass.
_SHORTEST_PASS = 4
#: Of a softmax over the elements of its rows.
_SOFTMAX_PASSES = 3


@dataclass
class _Busy:
    """Cycles in which parts of the machine are busy."""

    host: float = 0.0
    array: float = 0.0
    memory: float = 0.0

    def add(self, other: _Busy, times: float) -> None:
        """So many times as much as `other` more."""
        for name in ("host", "array", "memory"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


def launch_work(launch: BoundLaunch) -> TiledProduct | TiledAttention:
    """What a launch computes, see `baco.compiler.blocks.products` and `baco.compiler.blocks.attention`.

    Raises KernelError for a kernel that is wrong, InputError, with the line, for one that is neither.
    """
    function = _structured(launch)
    return tiled_attention(function) if has_softmax(function) else tiled_product(function)


def work_cycles(work: TiledProduct | TiledAttention, accelerator: Accelerator) -> float:
    """Cycles of it on an accelerator. Raises InfeasibleError where no tile, or strip, of whole blocks fits."""
    from baco.compiler.latency import schedule_cycles

    if isinstance(work, TiledAttention):
        return predict_chain(work.chain, attention_schedule(work, accelerator), accelerator).cycles
    return schedule_cycles(work.layer, product_schedule(work, accelerator), accelerator)


def predicted_cycles(launch: BoundLaunch, accelerator: Accelerator) -> float:
    """Cycles of a launch on an accelerator, from its first command to the end of its last store.

    Raises KernelError for a kernel that is wrong, InfeasibleError where its blocks exceed the accelerator's memories, and
    InputError for one that cannot be compiled.
    """
    function = _structured(launch)
    try:
        work = tiled_attention(function) if has_softmax(function) else tiled_product(function)
        return work_cycles(work, accelerator)
    except (InputError, InfeasibleError):
        pass
    busy = _Counting(function, accelerator).block(function.body.block)
    function_to_instgem(function, accelerator)  # raises where blocks do not fit
    return PROFILES[accelerator.timing].begin_and_end + max(busy.host, busy.array, busy.memory)


def _structured(launch: BoundLaunch) -> func.FuncOp:
    module = launch.module()
    run_pass(module, BacoToLinalg(), all_dialects())
    return next(op for op in module.ops if isinstance(op, func.FuncOp))


class _Counting:
    """Counts what the block lowering makes of a structured function."""

    def __init__(self, function: func.FuncOp, accelerator: Accelerator) -> None:
        self.accelerator, self.analysis = accelerator, Analysis(function, accelerator)
        # where blocks are cut off at edges, their sizes are computed in every round
        uneven = any(isinstance(op, memref.ReinterpretCastOp) and op.sizes for op in function.walk())
        self.command = EDGE_COMMAND_CYCLES if uneven else COMMAND_CYCLES

    def block(self, block: Block) -> _Busy:
        """Of all operations of a block."""
        total = _Busy()
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                total.add(self.block(op.body.block), _trips(op))
            elif isinstance(op, scf.IfOp):
                total.add(self.block(op.true_region.block), 1.0)
            elif isinstance(op, memref.CopyOp):
                self._move(op, total)
            elif isinstance(op, MatmulOp):
                self._product(op, total)
            elif isinstance(op, GenericOp) and not self._rides(op):
                each = _ELEMENT + len(list(op.body.block.ops))
                total.host += each * max(prod(shape_of(one)) for one in (*op.inputs, op.results[0]))
            elif isinstance(op, SoftmaxOp):
                self._softmax(op, total)
            elif not isinstance(op, FillOp):
                total.host += 1.0
        return total

    def _move(self, op: memref.CopyOp, busy: _Busy) -> None:
        view = (
            op.source.owner if isinstance(op.source.owner, memref.ReinterpretCastOp) else op.destination.owner
        )
        if not isinstance(view, memref.ReinterpretCastOp):
            return
        sizes = [_most(one) for one in mixed(view.static_sizes.get_values(), view.sizes)]
        size = view.source.type.element_type.width.data // 8  # type: ignore[attr-defined]
        rows, columns = prod(sizes[:-1]), sizes[-1] if sizes else 1
        dim = self.accelerator.dim
        busy.memory += rows * ceil(columns * size / bytes_per_cycle(self.accelerator))
        wide = max(1, MOVE_BYTES // (dim * size)) * dim
        busy.host += self.command * ceil(rows / dim) * ceil(columns / wide)

    def _softmax(self, op: SoftmaxOp, busy: _Busy) -> None:
        elements, found = prod(shape_of(op.result)), requantised(op.value)
        unit = self.accelerator.features.row_functions and op.mask is None
        if unit and found is not None and self.analysis.in_accumulator(found[0]):
            busy.array += _SOFTMAX_PASSES * elements / self.accelerator.dim
            busy.memory += elements / bytes_per_cycle(self.accelerator)
        else:
            busy.host += _SOFTMAX_PASSES * _ELEMENT * elements

    def _product(self, op: MatmulOp, busy: _Busy) -> None:
        (rows, depth), (_, columns) = (shape_of(one) for one in op.inputs)
        if op not in self.analysis.products:
            busy.host += rows * depth * columns * _ELEMENT
            return
        dim = self.accelerator.dim
        blocks = ceil(depth / dim) * ceil(columns / dim)
        passes = ceil(rows / dim)
        # new weights come in behind the last rows; the first pass cannot be shorter than that
        busy.array += blocks * max(dim, max(rows, _SHORTEST_PASS * passes))
        busy.host += 2 * self.command * blocks * passes

    def _rides(self, op: GenericOp) -> bool:
        """Done by loads, products and stores on the way."""
        uses = [use.operation for use in op.results[0].uses]
        return (
            self.analysis.sum_of(op.results[0]) is not None
            or any(one in self.analysis.products for one in uses)
            or requantised(op.results[0]) is not None
            or is_relu(op.results[0]) is not None
            or addend_of(op.results[0]) is not None
        )


def _most(size: Size) -> int:
    return size if isinstance(size, int) else bounds_of(size)[1]


def _trips(loop: scf.ForOp) -> int:
    """Rounds of a loop at most; 1 where nothing is known."""
    (first, _), (_, end), (step, _) = (bounds_of(one) for one in (loop.lb, loop.ub, loop.step))
    return len(range(first, end, step)) if step > 0 and end - first < 1 << 60 else 1
