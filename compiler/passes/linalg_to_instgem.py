"""`linalg-to-instgem`: structured operations to accelerator commands and host code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.passes import ModulePass

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.compiler.blocks.attention import attention_to_instgem
from baco.compiler.blocks.products import product_to_instgem
from baco.compiler.blocks.to_instgem import function_to_instgem, is_structured


@dataclass(frozen=True)
class LinalgToInstGem(ModulePass):
    """Lowers block programs, see `baco.compiler.blocks.to_instgem`; those that are one tiled product become the layer
    compiler's code (`baco.compiler.blocks.products`), and attention runs as one unit (`baco.compiler.blocks.attention`).

    Attributes:
        accelerator: its configuration, or what names one; None: Gemmini's default.
        blockwise: do all of them block by block.
    """

    name: ClassVar[str] = "linalg-to-instgem"
    accelerator: Accelerator | str | None = None
    blockwise: bool = False

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        lower_block_functions(op, machine_of(self.accelerator), blockwise=self.blockwise)


def machine_of(accelerator: Accelerator | str | None) -> Accelerator:
    """A pass's option: a configuration, what names one, or None for Gemmini's default."""
    if accelerator is None:
        return Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)
    return load_accelerator(accelerator) if isinstance(accelerator, str) else accelerator


def lower_block_functions(
    module: builtin.ModuleOp, accelerator: Accelerator, *, blockwise: bool = False
) -> None:
    """Lower every structured function of a module in place."""
    for one in list(module.ops):
        if isinstance(one, func.FuncOp) and is_structured(one):
            whole = None
            if not blockwise:
                whole = product_to_instgem(one, accelerator) or attention_to_instgem(one, accelerator)
            lowered = whole or function_to_instgem(one, accelerator)
            lowered.location = one.location
            module.body.block.insert_op_before(lowered, one)
            module.body.block.erase_op(one)
