"""`linalg-pipeline`: which loads of block programs run ahead of the loops that use them, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.passes import ModulePass

from baco.accel.config import Accelerator
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.pipelining import mark, pipelined_loads
from baco.compiler.blocks.stages import choose_stages
from baco.compiler.blocks.to_instgem import is_structured
from baco.compiler.passes.linalg_to_instgem import machine_of


@dataclass(frozen=True)
class PipelineLoads(ModulePass):
    """Marks blocks that can be loaded ahead with their stages (`baco.compiler.blocks.pipelining`).

    Attributes:
        accelerator: its configuration, or a file of it; None: Gemmini's default.
        stages: of every block; None: chosen by the model of `baco.compiler.analysis.pipelined`, within what fits.
    """

    name: ClassVar[str] = "linalg-pipeline"
    accelerator: Accelerator | str | None = None
    stages: int | None = None

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        machine = machine_of(self.accelerator)
        for one in op.ops:
            if isinstance(one, func.FuncOp) and is_structured(one):
                analysis = Analysis(one, machine)
                loads = pipelined_loads(one, analysis, machine.dim)
                chosen = choose_stages(loads, analysis, machine) if self.stages is None else {}
                for load in loads:
                    mark(load, chosen.get(load.value, self.stages or 1))
