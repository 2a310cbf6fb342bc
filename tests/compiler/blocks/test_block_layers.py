"""Text at the structured level that no kernel becomes: whole layers, any contraction and pooling, by the host core."""

from __future__ import annotations

from pathlib import Path

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
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.compiler.blocks.block_run import machine

#: What the texts beside this file compute.
LAYERS = {
    "pooled_layer": Layer(
        Problem(P=6, Q=6, R=3, S=3, C=4, K=3, groups=2, stride_w=2, dilation_h=2),
        padding=(1, 1),
        image=(9, 13),
        scale=0.01,
        pooling=Pooling(2, 2, 0, 3, 3),
    ),
    "added_layer": Layer(Problem(P=5, C=6, K=7), bias=True, residual_scale=0.3, relu=True, scale=0.05),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_block_programs_too(name: str) -> None:
    layer, accelerator = LAYERS[name], machine(4)
    schedule = choose(layer, accelerator)
    text = Path(__file__).with_name(f"{name}.mlir").read_text(encoding="utf-8")
    module = read_ir(text, "layer.mlir", all_dialects(), "linalg")
    tensors = draw_tensors(layer, 1)
    buffers = layer_buffers(layer, schedule, accelerator, tensors, layer_result(layer, tensors))
    lower_block_functions(module, accelerator)
    program = build_program(
        module, "layer", with_workspace(module, "layer", buffers), accelerator, check=True
    )
    _, result = run_program(program)
    assert result.exit_code == 0, result.console
