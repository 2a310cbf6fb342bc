"""Cycles that a launch will take, without running it: what block sizes are chosen by.

A kernel that is one tiled product takes what its layer is predicted to take, and attention that runs as one unit what such a
group of operators does: the analyses are those of networks (`baco.compiler.latency`, `baco.compiler.styles.fused`). Any other
kernel is predicted from its structured program, block by block (`baco.compiler.blocks.busy`): host core, array and memory are
busy side by side, and the busiest of them decides.
"""

from __future__ import annotations

from xdsl.dialects import func

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.attention import TiledAttention, attention_schedule, has_softmax, tiled_attention
from baco.compiler.blocks.busy import BlockRates
from baco.compiler.blocks.products import TiledProduct, product_schedule, tiled_product
from baco.compiler.blocks.to_instgem import function_to_instgem
from baco.compiler.codegen.pipeline import run_pass
from baco.compiler.dialects.context import all_dialects
from baco.compiler.language.jit import BoundLaunch
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.styles.fused.predict import predict_chain


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
    busy = BlockRates(accelerator, Analysis(function, accelerator)).block(function.body.block)
    function_to_instgem(function, accelerator)  # raises where blocks do not fit
    return PROFILES[accelerator.timing].begin_and_end + max(busy.host, busy.array, busy.loads + busy.stores)


def _structured(launch: BoundLaunch) -> func.FuncOp:
    module = launch.module()
    run_pass(module, BacoToLinalg(), all_dialects())
    return next(op for op in module.ops if isinstance(op, func.FuncOp))
