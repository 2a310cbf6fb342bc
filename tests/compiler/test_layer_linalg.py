"""Layers at the linalg level: they say what is computed, are read back, and are lowered only if they agree."""

from __future__ import annotations

import random

import numpy as np
import pytest
from layer_oracle import draw_tensors, run_layer
from linalg_python import call
from random_mappings import draw_case, draw_layer
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from accel.config import Accelerator
from common.errors import InputError
from compiler.codegen.pipeline import run_passes
from compiler.dialects.context import all_dialects
from compiler.ir_text import check_level, read_ir, write_ir
from compiler.layer import Layer, Pooling
from compiler.lower.linalg_form import is_layer_function, layer_function, layer_of, lower_layer_function
from compiler.mapping.nest import Mapping
from compiler.passes.linalg_to_instgem import LAYER, lower_block_functions
from compiler.schedule import ExplicitSchedule, LoopConvSchedule, LoopWsSchedule
from workloads.problem import Problem

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)
ORDER = "RSCPQNK"


def whole(problem: Problem) -> ExplicitSchedule:
    """One element at a time: any accelerator holds it."""
    return ExplicitSchedule(Mapping("WS", 1, 1, ((1,) * 7,) * 3 + (problem.bounds,), (ORDER,) * 4))


def function_of(text: str) -> func.FuncOp:
    found = read_ir(text, "layer.mlir", all_dialects(), "linalg").body.block.first_op
    assert isinstance(found, func.FuncOp)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_operations_compute_the_layer(seed: int) -> None:
    layer = draw_layer(random.Random(seed), largest=3)
    while layer.problem.macs > 4000:
        seed += 100
        layer = draw_layer(random.Random(seed), largest=3)
    tensors = draw_tensors(layer, np.random.default_rng(seed))
    wanted = run_layer(layer, tensors, fill=5)
    output = np.full_like(wanted, 5)
    function = layer_function(layer, whole(layer.problem), SMALL)
    names = [one for one in ("input", "weight", "bias", "residual") if one in tensors]
    # a workspace, if any, is no concern of this level
    spaces = [np.zeros(1, np.int8)] * (len(function.body.block.args) - len(names) - 1)
    call(function, *(tensors[one] for one in names), output, *spaces)
    assert np.array_equal(output, wanted)


@pytest.mark.parametrize("seed", range(10))
def test_text_is_read_back_and_lowered(seed: int) -> None:
    case = draw_case(random.Random(seed), SMALL, "WS")
    function = layer_function(case.layer, case.schedule, SMALL)
    text = write_ir(ModuleOp([function]))
    assert is_layer_function(function)
    again = function_of(text)
    assert write_ir(ModuleOp([again.clone()])) == text
    assert layer_of(again) == (case.layer, case.schedule)
    module = ModuleOp([again.clone()])
    lower_block_functions(module, SMALL)
    check_level(module, "instgem")
    assert len(module.body.block.first_op.body.block.args) == len(function.body.block.args)


@pytest.mark.parametrize(
    "schedule",
    [LoopWsSchedule(1, 1, 1, "ikj", keep_a=True), LoopConvSchedule(1, 4, 1, 4, 1, 1, 4, pixels=1)],
    ids=str,
)
def test_schedules_of_the_macros(schedule: LoopWsSchedule | LoopConvSchedule) -> None:
    layer = Layer(Problem(P=1, Q=4, C=4, K=4))
    function = layer_function(layer, schedule, SMALL)
    assert layer_of(function_of(write_ir(ModuleOp([function])))) == (layer, schedule)


def test_the_pass() -> None:
    layer = Layer(Problem(P=3, C=4, K=4))
    module = ModuleOp([layer_function(layer, whole(layer.problem), SMALL, "product")])
    run_passes(module, ["linalg-to-instgem"])
    assert "instgem.mvout" in write_ir(module)
    assert LAYER not in write_ir(module)


LAYERS = write_ir(
    ModuleOp([layer_function(Layer(Problem(P=3, C=4, K=4), relu=True), whole(Problem(P=3, C=4, K=4)), SMALL)])
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("arith.maxsi", "arith.minsi", "does not compute what its attribute baco.layer says"),
        ("relu = true", "relu = false", "does not compute"),
        ("C = 4 : i64", "C = 3 : i64", "does not compute"),
        ("C = 4 : i64", "C = 4.0 : f64", "baco.layer.problem.C cannot be 4.0"),
        ("relu = true", "rellu = true", "baco.layer has no field 'rellu'"),
        ("relu = true", "relu = 7 : i64, bias = 3.0 : f32", "bias"),
        ('style = "explicit"', 'style = "explixit"', "there is no style 'explixit'"),
        ('style = "explicit", ', "", "baco.schedule has no style"),
        ("rows = 1 : i64, ", "", "baco.schedule.mapping has no field 'rows'"),
        ('dataflow = "WS"', 'dataflow = "XS"', "dataflow must be WS or OS, not 'XS'"),
        (", baco.schedule = ", ", other = ", "@layer has no attribute baco.schedule"),
    ],
)
def test_texts_that_do_not_agree_are_refused(old: str, new: str, message: str) -> None:
    assert old in LAYERS
    with pytest.raises(InputError, match=message) as refused:
        lower_layer_function(function_of(LAYERS.replace(old, new, 1)), SMALL)
    assert refused.value.location is not None
    assert refused.value.location.line == 2


def test_pooling_windows_beside_the_image_count_as_zero() -> None:
    layer = Layer(Problem(P=3, Q=3), pooling=Pooling(3, 2, 1, 2, 2))
    output = np.zeros(4, np.int8)
    function = layer_function(layer, whole(layer.problem), SMALL)
    spaces = [np.zeros(9, np.int8)] * (len(function.body.block.args) - 3)
    call(function, np.full(9, -1, np.int8), np.ones(1, np.int8), output, *spaces)
    assert output.tolist() == [0, 0, 0, 0]
