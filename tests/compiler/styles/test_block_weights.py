"""Layers whose weights lie in blocks with shared powers in main memory, exact against ml_dtypes and float32 additions."""

from __future__ import annotations

import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.dataflows import RELEVANT
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer, stored_blocks
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.layers.weight_blocks import BLOCK_WEIGHTS, WeightBlocks, in_blocks
from baco.compiler.schedules.schedule import ExplicitSchedule, LoopWsSchedule
from baco.compiler.styles.explicit.code import prepare
from baco.compiler.styles.explicit.loads import count_weight_loads
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import Problem
from tests.compiler.ir.counting_machine import issued_commands
from tests.compiler.layers.layer_oracle import read_blocks, rounded_to_blocks
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_mappings import draw_mapping
from tests.machines import BLOCKS
from tests.seeds import seeds, some

ROOMY = BLOCKS.replace(name="roomy", scratchpad_kib=16, accumulator_kib=4)
#: The port is narrower than a row of elements; a row of powers is two blocks of columns.
WIDER = BLOCKS.replace(name="wider", dim=16, scratchpad_kib=64, accumulator_kib=16, dma_bits=64)


def draw_layer(r: random.Random, columns: int) -> Layer:
    """A product or convolution with up to three blocks of channels, none of which need be whole."""
    channels, results = r.choice((1, 31, 32, 33, 64, r.randint(1, 80))), r.randint(1, 2 * columns + 5)
    sizes = {"P": r.randint(1, 9), "C": channels, "K": results}
    if r.random() < 0.5:
        sizes |= {"R": r.randint(1, 3), "S": r.randint(1, 3), "Q": r.randint(1, 4)}
    layer = Layer(Problem(**sizes), bias=r.random() < 0.5, scale=r.choice((None, 1.0, 0.25)), elements="bf16")
    return replace(layer, weight_blocks=WeightBlocks(r.choice(BLOCK_WEIGHTS), columns))


def cases(r: random.Random, machine: Accelerator, count: int) -> list[Case]:
    """By drawn mappings, of panels of a load's columns and of the array's."""
    found: list[Case] = []
    while len(found) < count:
        layer = draw_layer(r, r.choice((machine.dim, 32)))
        schedule = ExplicitSchedule(draw_mapping(r, layer.problem, machine.dim, "WS"))
        try:
            plan_layer(layer, schedule, machine)
        except InfeasibleError:
            continue
        found.append(Case(layer, schedule))
    return found


@pytest.mark.parametrize(
    ("machine", "engine"),
    some(2, [(ROOMY, "functional"), (WIDER, "timed"), (ROOMY, "timed"), (WIDER, "functional")]),
    ids=lambda one: getattr(one, "name", one),
)
def test_weights_in_blocks(machine: Accelerator, engine: str) -> None:
    assert wrong_layers(cases(random.Random(machine.dim), machine, 12), machine, engine) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, of=20))
def test_many_weights_in_blocks(seed: int) -> None:
    assert wrong_layers(cases(random.Random(seed), ROOMY, 30), ROOMY) == []


def test_weights_in_blocks_on_rtl() -> None:
    assert wrong_layers(cases(random.Random(3), BLOCKS, 6), BLOCKS, "rtl") == []


@pytest.mark.parametrize("seed", seeds(1, of=10))
def test_plans_say_what_is_loaded(seed: int) -> None:
    """Commands, and bytes of whole blocks: a power for each column and block, and the elements."""
    r = random.Random(seed)
    for case in cases(r, ROOMY, 8):
        assert isinstance(case.schedule, ExplicitSchedule)
        plan = prepare(case.layer, case.schedule.mapping, ROOMY).plan
        counted = count_weight_loads(plan)
        found = issued_commands(case.layer, case.schedule, ROOMY)
        assert counted.loads == counted.spans == found.issued["mvin2"], str(case)
        p, blocks = case.layer.problem, case.layer.weight_blocks
        assert blocks is not None
        stored = case.layer.weight_bytes
        whole = p.K % blocks.columns == 0
        assert (
            counted.bytes * case.layer.weight_size == pytest.approx(stored * plan.repeats(RELEVANT["W"]))
        ) == whole


@pytest.mark.parametrize("form", BLOCK_WEIGHTS)
def test_rounded_weights_are_stored_as_they_are(form: str) -> None:
    """Numbers that are rounded to blocks are read again from the bytes, and nothing else is taken for them."""
    numbers = np.random.default_rng(4).normal(size=(2, 70, 37)) * 2.0 ** np.arange(-18, 19)
    layer = Layer(Problem(P=2, C=70, K=37, R=2), elements="bf16", weight_blocks=WeightBlocks(form, 16))  # type: ignore[arg-type]
    codes = in_blocks(form, numbers).astype(ml_dtypes.bfloat16).view(np.int16).reshape(-1)
    stored = stored_blocks(layer, codes)
    assert np.array_equal(codes, rounded_to_blocks(form, numbers).reshape(-1))
    assert stored.shape == (layer.weight_bytes,)
    assert np.array_equal(read_blocks(layer, stored), codes)
    with pytest.raises(InputError, match=f"no numbers of {form}"):
        stored_blocks(layer, numbers.astype(ml_dtypes.bfloat16).view(np.int16).reshape(-1))


def test_what_is_not_loaded_in_blocks() -> None:
    blocks = WeightBlocks("mxfp4", 32)
    layer = Layer(Problem(P=4, C=64, K=64), elements="bf16", weight_blocks=blocks)
    with pytest.raises(InfeasibleError, match="only explicit code loads weights in blocks"):
        plan_layer(layer, LoopWsSchedule(1, 1, 1), ROOMY)
    schedule = ExplicitSchedule(draw_mapping(random.Random(0), layer.problem, 4, "WS"))
    plain = ROOMY.replace(features=ROOMY.features.model_copy(update={"block_weights": False}))
    with pytest.raises(InfeasibleError, match="loads no weights in blocks"):
        plan_layer(layer, schedule, plain)
    with pytest.raises(InputError, match="of bfloat16 layers of one group"):
        Layer(Problem(P=4, C=4, K=4, groups=2), elements="bf16", weight_blocks=blocks)
    with pytest.raises(InputError, match="of bfloat16 layers of one group"):
        Layer(Problem(P=4, C=4, K=4), elements="fp8-e4m3", weight_blocks=blocks)
    with pytest.raises(InputError, match="even number of columns"):
        WeightBlocks("mxfp4", 3)
    with pytest.raises(InputError, match="no weights in 'mxfp6-e2m3'"):
        WeightBlocks("mxfp6-e2m3", 4)  # type: ignore[arg-type]


def test_text() -> None:
    layer = Layer(
        Problem(P=4, C=64, K=6), bias=True, elements="bf16", weight_blocks=WeightBlocks("mxint8", 16)
    )
    assert "blocks mxint8,16" in layer_text(layer)
    assert parse_layer(layer_text(layer)) == layer
