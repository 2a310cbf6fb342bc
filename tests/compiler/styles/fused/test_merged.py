"""Products of one left operand as one unit: results against numpy integers, bytes and accesses against counters."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.layers.operands import Operands
from baco.compiler.layers.reference import layer_result
from baco.compiler.styles.fused.merged import (
    MergedProducts,
    MergedSchedule,
    choose_merged,
    emit_merged,
    merged_rows,
    merged_schedules,
    predict_merged,
)
from baco.compiler.styles.fused.text import parse_group_schedule
from baco.compiler.styles.registry import plan_layer
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.machines import GEMMINI, SMALL
from tests.seeds import seeds

SIDE16 = SMALL.replace(dim=16, scratchpad_kib=64, accumulator_kib=32)


def products(
    rows: int, depth: int, *columns: int, pitch: int = 0, random: np.random.Generator | None = None
) -> MergedProducts:
    """With bias; of random ones, some without, some with ReLU, some with weights stored transposed or wider results."""
    layers = []
    for number, count in enumerate(columns):
        bias, relu, turned, wider = True, number == 1, False, 0
        if random is not None:
            bias, relu, turned = (bool(random.integers(2)) for _ in range(3))
            wider = int(random.integers(3))
        layers.append(
            Layer(
                Problem(P=rows, C=depth, K=count), bias=bias, relu=relu, weights_transposed=turned,
                scale=float(np.float32((number + 1) / (90 * depth**0.5))), input=Layout(max(pitch, depth)),
                output=Layout(count + wider),
            )
        )  # fmt: skip
    return MergedProducts(tuple(layers), (False,) * len(columns))


def run(
    merged: MergedProducts,
    schedule: MergedSchedule,
    accelerator: Accelerator,
    engine: str = "functional",
    *,
    apart: bool = False,
) -> dict[str, int]:
    """Compile, run and compare; what was counted. `apart`: one by one, each in the same tiles."""
    random = np.random.default_rng(0)
    source = random.integers(-128, 128, merged.layers[0].input_extent, dtype=np.int8)
    buffers, results = [Buffer("input", source.shape, "int8", "input", source)], []
    for number, layer in enumerate(merged.layers):
        weights = random.integers(-128, 128, layer.weight_extent, dtype=np.int8)
        bias = random.integers(-4000, 4000, layer.problem.K, dtype=np.int32)
        given = {"input": source, "weight": weights} | ({"bias": bias} if layer.bias else {})
        results.append(layer_result(layer, given))
        buffers.append(Buffer(f"weights{number}", weights.shape, "int8", "constant", weights))
        buffers.append(Buffer(f"bias{number}", bias.shape, "int32", "constant", bias))
        buffers.append(Buffer(f"output{number}", results[-1].shape, "int8", "output"))
    e = Emitter("merged", [buffer.name for buffer in buffers])
    left, *others = e.arguments
    operands = [
        Operands(input=left, weight=weights, bias=bias, output=output)
        for weights, bias, output in zip(others[::3], others[1::3], others[2::3], strict=True)
    ]
    if apart:
        for layer, arguments in zip(merged.layers, operands, strict=True):
            plan_layer(layer, schedule.runs, accelerator).emit(e, arguments)
    else:
        scales = [float32_bits(layer.scale or 0.0) for layer in merged.layers]
        emit_merged(e, merged, schedule, accelerator, operands, scales, lambda on: None)
    e.fence()
    outputs, simulation = run_program(
        build_program(e.finish(), "merged", buffers, accelerator), engine=engine
    )
    for number, (layer, expected) in enumerate(zip(merged.layers, results, strict=True)):
        columns = np.arange(expected.size) % layer.output.pitch < layer.problem.K
        np.testing.assert_array_equal(outputs[f"output{number}"][columns], expected[columns])
        assert expected[columns].std() > 2  # not all saturated, or zero
    return dict(simulation.activity)


@pytest.mark.parametrize("seed", seeds(2, of=12))
def test_random_products_in_random_tiles(seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = [int(random.integers(1, 30)) for _ in range(int(random.integers(2, 5)))]
    rows, depth = int(random.integers(1, 40)), int(random.integers(5, 40))
    merged = products(rows, depth, *columns, pitch=int(random.integers(30, 60)), random=random)
    fitting = []
    for schedule in merged_schedules(merged, SMALL.dim):
        try:
            predict_merged(merged, schedule, SMALL)
        except InfeasibleError:
            continue
        fitting.append(schedule)
    run(merged, fitting[int(random.integers(len(fitting)))], SMALL)


@pytest.mark.parametrize(
    ("merged", "schedule"),
    [
        (products(100, 48, 64, 64, 64), MergedSchedule(2, 2, 3, "rows")),
        (products(96, 64, 32, 80), MergedSchedule(2, 2, 2, "rows")),
        (products(96, 64, 80, 32, 48), MergedSchedule(3, 1, 4, "columns")),
        (products(64, 128, 48, 48), MergedSchedule(4, 3, 4, "columns")),
    ],
    ids=["strips of rows", "two tiles of depth", "weights once", "all rows at once"],
)
def test_bytes_are_what_the_rtl_counts(merged: MergedProducts, schedule: MergedSchedule) -> None:
    counted, apart = (run(merged, schedule, GEMMINI, "rtl", apart=apart) for apart in (False, True))
    found = predict_merged(merged, schedule, GEMMINI)
    assert counted["dram_read_bytes"] == found.read_bytes
    assert counted["dram_write_bytes"] == found.written_bytes
    # of all reads of the left operand one is left
    p = merged.layers[0].problem
    assert apart["dram_read_bytes"] - counted["dram_read_bytes"] == (len(merged.layers) - 1) * p.P * p.C
    assert counted["scratchpad_read_bytes"] + counted["scratchpad_write_bytes"] == found.scratchpad_bytes


def test_the_left_operand_comes_once_or_a_schedule_is_refused() -> None:
    merged = products(128, 96, 40, 40)
    for schedule, reason in (
        (MergedSchedule(2, 1, 6, "columns"), "more tiles than stay"),  # four tiles of rows
        (MergedSchedule(2, 1, 2, "rows"), "more tiles than stay"),  # three of depth
        (MergedSchedule(8, 3, 6, "rows"), "more than half of it has"),
    ):
        with pytest.raises(InfeasibleError, match=reason):
            predict_merged(merged, schedule, SIDE16)
    with pytest.raises(InfeasibleError, match="no LOOP_WS"):
        choose_merged(merged, SIDE16.replace(features={"loop_ws": False}))
    with pytest.raises(InfeasibleError, match="no units for functions of rows"):
        choose_merged(replace(merged, tables=(True, False)), SIDE16)


def test_the_choice_holds_what_moves_less() -> None:
    few, many = products(32, 96, 512, 512), products(2048, 96, 16, 16)
    whole, held = choose_merged(few, SIDE16), choose_merged(many, SIDE16)
    assert math.ceil(2 / whole.i) * math.ceil(6 / whole.k) <= 2  # all rows, while the weights pass once
    assert predict_merged(few, whole, SIDE16).read_bytes == 32 * 96 + 2 * (96 * 512 + 2 * 512 * 4)
    assert held.holds == "rows"
    assert held.j == 1
    for one in (few, many):
        schedule = choose_merged(one, SIDE16)
        scratchpad, accumulator = merged_rows(one, schedule, SIDE16)
        assert scratchpad <= SIDE16.scratchpad_rows
        assert accumulator <= SIDE16.accumulator_rows
        # no other fits and moves less in about as few cycles
        best = predict_merged(one, schedule, SIDE16)
        for other in merged_schedules(one, SIDE16.dim):
            try:
                cost = predict_merged(one, other, SIDE16)
            except InfeasibleError:
                continue
            assert cost.read_bytes >= best.read_bytes or cost.cycles > best.cycles


def test_text_and_products_that_are_none() -> None:
    for holds in ("rows", "columns"):
        schedule = MergedSchedule(4, 6, 48, holds)  # type: ignore[arg-type]
        assert parse_group_schedule(str(schedule)) == schedule
    one = products(8, 8, 8, 8)
    with pytest.raises(InputError, match="two products"):
        MergedProducts(one.layers[:1], (False,))
    with pytest.raises(InputError, match="same rows, depth"):
        MergedProducts((one.layers[0], products(8, 9, 8, 8).layers[0]), (False, False))
    with pytest.raises(InputError, match="int8 results"):
        MergedProducts((one.layers[0], replace(one.layers[1], scale=None, relu=False)), (False, False))
    with pytest.raises(InputError, match="pooling"):
        MergedProducts(
            (one.layers[0], replace(one.layers[1], residual_scale=0.5, bias=False)), (False, False)
        )
