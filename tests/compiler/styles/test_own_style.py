"""A code style of one's own: the worked example of docs/code-styles.md is asked whatever the others are asked."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text
from baco.compiler.network.plan import Plan
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles import registry
from baco.compiler.styles.registry import mapping_of, parse_schedule, plan_layer, realise
from baco.exploration.cost.schedules import schedule_costs
from baco.workloads.problem import Problem
from tests.compiler.ir.strict_machine import StrictMachine
from tests.compiler.styles.layer_programs import Case, right_on, wrong_layers
from tests.compiler.styles.random_mappings import draw_layer, draw_mapping
from tests.user_module import page_module

PAGE = (Path(__file__).parents[3] / "docs" / "code-styles.md").read_text("utf-8")
SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)
LAYER = Layer(Problem(P=57, C=3, K=4), scale=0.01, relu=True)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file of the page, its style in the list."""
    module = page_module(PAGE, tmp_path / "one_block.py")
    monkeypatch.setattr(registry, "STYLES", (module.OneBlockStyle(), *registry.STYLES))
    return module


def test_its_code_computes_the_layer_and_avoids_hazards(example: ModuleType) -> None:
    cases = [
        Case(Layer(Problem(P=p, C=c, K=k), scale=scale, relu=relu), example.OneBlockSchedule(rows))
        for p, c, k, scale, relu, rows in (
            (57, 3, 4, 0.01, True, 4), (8, 4, 4, 1.0, False, 4), (1, 1, 1, 0.5, False, 3), (9, 4, 2, 0.02, True, 1),
        )
    ]  # fmt: skip
    assert wrong_layers(cases, SMALL) == []
    need = plan_layer(cases[0].layer, cases[0].schedule, SMALL).requirement
    machine = StrictMachine(SMALL, 1 << 19)
    machine.gemmini.sp = machine.gemmini.sp[: need["scratchpad_rows"]]
    machine.gemmini.acc = machine.gemmini.acc[: need["accumulator_rows"]]
    assert all(right_on(machine, SMALL, case, np.random.default_rng(1)) for case in cases)


def test_its_text_is_read_and_plans_of_networks_hold_it(example: ModuleType) -> None:
    schedule = example.OneBlockSchedule(4)
    assert parse_schedule(schedule.text) == schedule
    plan = Plan("a network", SMALL, 0, {layer_text(LAYER): schedule.text}, {})
    assert Plan.from_json(plan.to_json())(LAYER) == (schedule, ())
    with pytest.raises(InputError, match="is no schedule"):
        parse_schedule("one_block many")


def test_mappings_of_its_kind_become_its_schedules_and_no_others(example: ModuleType) -> None:
    schedule = example.OneBlockSchedule(4)
    assert realise(LAYER, mapping_of(LAYER, schedule, SMALL), SMALL) == schedule
    r, kinds = random.Random(3), set()
    for _ in range(300):
        layer = draw_layer(r)
        mapping = draw_mapping(r, layer.problem, SMALL.dim, "WS")
        found = realise(layer, mapping, SMALL)
        kinds.add(found.style)
        if found.style == "one_block":
            assert mapping_of(layer, found, SMALL) == mapping
    assert {"explicit", "loop_ws"} <= kinds


def test_predictions_and_costs_are_those_of_its_mapping(example: ModuleType) -> None:
    schedule = example.OneBlockSchedule(4)
    explicit = ExplicitSchedule(mapping_of(LAYER, schedule, SMALL))
    own, other = predict_layers([LAYER] * 2, [schedule, explicit], SMALL)
    assert own.cycles.item() == other.cycles.item() > 0
    cost, _ = schedule_costs([LAYER] * 2, [schedule, explicit], SMALL, "instruction")
    assert cost.accesses[3] >= LAYER.problem.P * (LAYER.problem.C + LAYER.problem.K)


@pytest.mark.parametrize(
    ("layer", "rows", "reason"),
    [
        (Layer(Problem(P=5, Q=5, R=3, C=2, K=2), (5, 7), scale=0.1), 4, "no product"),
        (Layer(Problem(P=5, C=5, K=2), scale=0.1), 4, "one block of weights"),
        (Layer(Problem(P=5, C=2, K=2), scale=0.1, bias=True), 4, "scale and ReLU"),
        (LAYER, 5, "5 rows pass"),
    ],
)
def test_what_it_cannot_do_is_refused_with_the_reason(
    example: ModuleType, layer: Layer, rows: int, reason: str
) -> None:
    with pytest.raises(InfeasibleError, match=reason):
        plan_layer(layer, example.OneBlockSchedule(rows), SMALL)
    with pytest.raises(InfeasibleError, match="small keeps no weights"):
        plan_layer(LAYER, example.OneBlockSchedule(4), SMALL.replace(dataflow="OS"))


def test_without_it_its_text_is_none() -> None:
    with pytest.raises(InputError, match="'one_block 4' is no schedule"):
        parse_schedule("one_block 4")
