"""Text at the structured level that no kernel becomes: whole layers, any contraction and pooling, by the host core."""

from __future__ import annotations

import pytest

from baco.compiler.choice.choose import choose
from baco.compiler.codegen.block_program import with_workspace
from baco.compiler.codegen.layer_program import layer_buffers
from baco.compiler.codegen.program import build_program
from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import read_ir
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.passes.linalg_to_instgem import lower_block_functions
from baco.compiler.styles import workspaces
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.compiler.blocks.block_run import machine
from tests.compiler.blocks.layer_linalg import layer_text

LAYERS = [
    Layer(Problem(P=9, C=14, K=7), bias=True, relu=True, scale=0.01),
    Layer(Problem(P=6, Q=6, R=3, S=3, C=4, K=8), padding=(1, 1), image=(6, 6), scale=None),
    Layer(
        Problem(P=6, Q=6, R=3, S=3, C=4, K=3, groups=2, stride_w=2, dilation_h=2),
        padding=(1, 1),
        image=(9, 13),
        scale=0.01,
        pooling=Pooling(2, 2, 0, 3, 3),
    ),
    Layer(Problem(P=5, C=6, K=7), bias=True, residual_scale=0.3, relu=True, scale=0.05),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: str(layer.problem))
def test_layers_are_block_programs_too(layer: Layer) -> None:
    accelerator = machine(4)
    schedule = choose(layer, accelerator)
    spaces = workspaces(layer, schedule, accelerator)
    module = read_ir(layer_text(layer, "layer", spaces), "layer.mlir", all_dialects(), "linalg")
    tensors = draw_tensors(layer, 1)
    buffers = layer_buffers(layer, schedule, accelerator, tensors, layer_result(layer, tensors))
    lower_block_functions(module, accelerator)
    program = build_program(
        module, "layer", with_workspace(module, "layer", buffers), accelerator, check=True
    )
    _, result = run_program(program)
    assert result.exit_code == 0, result.console
