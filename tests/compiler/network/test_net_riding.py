"""Products to whose results something is added a part of them later, as the original can do it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.network.addition import AdditionCode
from baco.compiler.network.combinations import Combinations
from baco.compiler.network.program import NetworkProgram, compile_network, scheduler
from baco.compiler.network.riding import RidingCode, can_ride
from baco.compiler.network.riding_plan import RiddenProduct, RidingPlan
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.products import Convolution
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.seeds import seeds

STOCK = load_accelerator("gemmini-default").model_copy(update={"timing": "gemmini"})
SMALL = DIM4.model_copy(update={"timing": "gemmini"})


def block(
    s: Sketch, side: tuple[int, int], depth: int, columns: int, *, swapped: bool = False, **fixed: Any
) -> None:
    """A product of an image with weights, and an addition to its results."""
    random = s.random
    image, pixels = (1, *side, depth), (1, *side, columns)
    result = s.value(pixels, "intermediate")
    bias = s.value((columns,), "constant", random.integers(-3000, 3000, columns, dtype=np.int32))
    s.add(
        Convolution, result, input=s.value(image), weight=s.value((1, 1, depth, columns), "constant"),
        bias=bias if fixed.get("bias", True) else None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), size=side,
        groups=1, relu=bool(fixed.get("product_relu")), scale=float(np.float32(0.03 / depth**0.5)),
    )  # fmt: skip
    other, scale = s.value(pixels), float(np.float32(fixed.get("added_scale", 0.7)))
    operands = {"left": result, "right": other, "left_scale": 1.0, "right_scale": scale}
    if swapped:
        operands = {"left": other, "right": result, "left_scale": scale, "right_scale": 1.0}
    relu = bool(fixed.get("relu", True))
    s.add(Addition, s.value(pixels, "output"), **operands, scale=float(np.float32(0.8)), relu=relu)


def always(accelerator: Accelerator) -> Callable[[Layer, AdditionCode, RidingCode], bool]:
    return lambda product, addition, code: can_ride(code, accelerator)


def ridden(s: Sketch, accelerator: Accelerator, engine: str = "functional", **options: Any) -> NetworkProgram:
    program = check(
        s,
        accelerator,
        engine,
        schedule=scheduler(accelerator),
        combinations=Combinations(rides=always(accelerator)),
        **options,
    )
    assert [type(code) for code in program.lowered.codes.values()] == [RidingCode]
    assert not program.lowered.layers
    return program


@pytest.mark.parametrize(
    ("side", "depth", "columns"), [((8, 8), 16, 128), ((7, 7), 32, 128), ((3, 5), 16, 192), ((16, 3), 64, 64)]
)
def test_sums_are_those_of_product_and_addition(side: tuple[int, int], depth: int, columns: int) -> None:
    s = Sketch(np.random.default_rng(depth))
    block(s, side, depth, columns)
    program = ridden(s, STOCK)
    (code,) = program.lowered.codes.values()
    assert isinstance(code, RidingCode)
    assert code.product.rows == side[0] * side[1]


def _random_block(seed: int) -> Sketch:
    s = Sketch(np.random.default_rng(seed))
    random = s.random
    side = (int(random.integers(1, 10)), int(random.integers(1, 10)))
    block(
        s, side, 4 * int(random.integers(1, 6)), 64 * int(random.integers(1, 4)), swapped=bool(random.integers(2)),
        bias=bool(random.integers(2)), relu=bool(random.integers(2)), product_relu=bool(random.integers(2)),
        added_scale=random.choice([1.0, 0.5, -0.8, 1.5]),
    )  # fmt: skip
    return s


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_random_sums_are_those_of_product_and_addition(seed: int) -> None:
    machine = SMALL if seed % 2 else SMALL.model_copy(update={"dim": 8})
    s = _random_block(seed)
    code, *_ = compile_network(
        s.network(),
        machine,
        schedule=scheduler(machine),
        combinations=Combinations(rides=always(machine)),
        check=False,
    ).lowered.codes.values()
    if isinstance(code, RidingCode):
        ridden(s, machine)


def test_the_verilog_computes_the_same() -> None:
    s = Sketch(np.random.default_rng(3))
    block(s, (5, 7), 8, 128)
    ridden(s, SMALL, "rtl")


@pytest.mark.parametrize("weights_stay", [True, False])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_every_way_to_cut_a_product_into_parts(
    weights_stay: bool, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ride = RiddenProduct(128, 32, 256, (32, 256, 256, 256), True, False, True, True)
    plan = RidingPlan(ride, 16, weights_stay, parts)
    monkeypatch.setattr(RidingPlan, "of", classmethod(lambda cls, ride, accelerator: plan))
    s = Sketch(np.random.default_rng(parts))
    block(s, (8, 16), 32, 256)
    ridden(s, STOCK)


def test_the_best_plan_is_that_of_the_fewest_cycles() -> None:
    ride = RiddenProduct(3136, 64, 256, (64, 256, 256, 256), True, False, True, False)
    plan = RidingPlan.of(ride, STOCK)
    others = [replace(plan, parts=n) for n in range(1, 197) if 196 % n == 0]
    assert plan.weights_stay
    assert plan.cycles == min(one.cycles for one in others)
    # weights of more columns than a bank holds pass by
    assert not RidingPlan.of(replace(ride, rows=196, depth=256, columns=1024), STOCK).weights_stay
    with pytest.raises(ValueError):
        RidingPlan.of(replace(ride, depth=2048, columns=2048), STOCK)


def _choice(side: int, depth: int, columns: int, accelerator: Accelerator) -> bool:
    s = Sketch(np.random.default_rng(0))
    block(s, (side, side), depth, columns)
    lowered = compile_network(s.network(), accelerator, check=False).lowered
    return any(isinstance(one, RidingCode) for one in lowered.codes.values())


def test_an_addition_rides_where_that_is_faster_on_the_original_and_on_no_other_machine() -> None:
    assert _choice(28, 128, 512, STOCK)
    assert not _choice(28, 128, 512, load_accelerator("gemmini-default"))
    # weights that hardly any pixel uses are what takes time
    assert not _choice(2, 512, 2048, STOCK)


def test_a_product_that_somebody_else_reads_stays_apart() -> None:
    s = Sketch(np.random.default_rng(0))
    block(s, (4, 4), 16, 64)
    product = s.operators[0].output
    s.map(s.value((1, 4, 4, 64), "output"), product, None)
    asked: list[Layer] = []
    check(
        s,
        STOCK,
        schedule=scheduler(STOCK),
        combinations=Combinations(rides=lambda layer, addition, code: bool(asked.append(layer))),
    )
    assert not asked


def test_what_the_original_lacks_is_not_asked_of_it() -> None:
    code = RidingCode(RiddenProduct(64, 16, 64, (16, 64, 64, 64), True, False, True, True))
    assert can_ride(code, STOCK)
    for feature in ("mvin_scale", "preload_d", "accumulator_scale"):
        features = STOCK.features.model_copy(update={feature: False})
        assert not can_ride(code, STOCK.model_copy(update={"features": features}))
    assert not can_ride(replace(code, product=replace(code.product, columns=48)), STOCK)
    assert not can_ride(replace(code, product=replace(code.product, depth=24)), STOCK)
