"""Whatever is chosen for random layers on random accelerators is exact."""

import random
from dataclasses import replace

import pytest

from baco.accel.config import Accelerator, Features
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.choice.choose import choices
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import check_loop_ws
from baco.compiler.styles.registry import plan_layer
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_layers import draw_convolution, draw_product


def _accelerator(r: random.Random) -> Accelerator:
    dim = r.choice((2, 4, 4, 8, 16))
    beat = r.choice((32, 64, 128, 256, 512))
    features = {
        name: r.random() < 0.85
        for name in ("loop_ws", "loop_conv", "first_layer", "depthwise_convs", "training_convs", "max_pool")
    }
    return Accelerator(
        name="random",
        dim=dim,
        scratchpad_kib=r.choice((2, 4, 8)) * dim,
        accumulator_kib=r.choice((1, 2, 4)) * dim,
        scratchpad_banks=r.choice((2, 4)),
        dataflow=r.choice(("WS", "both", "both", "OS")),
        dma_bits=beat,
        dma_max_bytes=max(beat // 8, r.choice((16, 32, 64, 128))),
        dma_requests=r.choice((4, 16, 64)),
        features=Features(**features),
    )


def _layer(r: random.Random) -> Layer:
    if r.random() < 0.4:
        return draw_product(r, r.randint(1, 40), r.randint(1, 40), r.randint(1, 40))
    layer = draw_convolution(r)
    if r.random() < 0.2:
        return replace(layer, scale=None, relu=False, pooling=None)
    if r.random() < 0.2 and layer.pooling is None:
        return replace(layer, residual_scale=0.3)
    return layer


def _cases(r: random.Random, accelerator: Accelerator, count: int) -> list[Case]:
    """Every style's best schedule, and the default tiling where it can be carried out."""
    cases = []
    for _ in range(count):
        layer = _layer(r)
        try:
            cases += [Case(layer, one.schedule) for one in choices(layer, accelerator, 1)]
        except InputError as error:
            raise AssertionError(f"{layer}: {error}") from error
        schedule = gemmini_schedule(layer, accelerator)
        try:
            if isinstance(schedule, LoopWsSchedule):
                check_loop_ws(layer, schedule, accelerator)
            else:
                plan_loop_conv(layer, schedule, accelerator)
        except InfeasibleError:
            continue
        cases.append(Case(layer, schedule))
    return [one for one in cases if _small(one, accelerator)]


def _small(case: Case, accelerator: Accelerator) -> bool:
    return sum(size for _, size in plan_layer(case.layer, case.schedule, accelerator).workspaces) < 1 << 20


def _run(seed: int, count: int) -> list[str]:
    r = random.Random(seed)
    accelerator = _accelerator(r)
    cases = _cases(r, accelerator, count)
    return wrong_layers(cases, accelerator) if cases else []


@pytest.mark.parametrize("seed", range(2))
def test_chosen(seed):
    assert _run(seed, 6) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 40))
def test_many_chosen(seed):
    assert _run(seed, 15) == []
