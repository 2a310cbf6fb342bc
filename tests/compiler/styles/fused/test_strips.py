"""Chains of convolutions strip by strip: results against numpy integers, bytes and accesses against counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.layers.reference import layer_result
from baco.compiler.styles.fused.adding import AdditionOperands
from baco.compiler.styles.fused.convolutions import StripOperands, diagonal_weights, emit_strips
from baco.compiler.styles.fused.predict_strips import choose_strips, predict_strips
from baco.compiler.styles.fused.strip_placement import is_depthwise
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule, place_strips, rows_needed
from baco.compiler.styles.fused.text import parse_group_schedule
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.machines import GEMMINI, SMALL
from tests.seeds import seeds

Array = np.ndarray[Any, Any]
SIDE16 = SMALL.replace(dim=16, scratchpad_kib=64, accumulator_kib=32)


def layer(
    size: tuple[int, int], channels: int, outputs: int, window: tuple[int, int], stride: tuple[int, int],
    padding: tuple[int, int], *, images: int = 1, bias: bool = True, relu: bool = True,
) -> Layer:  # fmt: skip
    """`outputs` 0: every channel by itself."""
    (height, width), (s, r) = size, window
    c, k, groups = (1, 1, channels) if outputs == 0 else (channels, outputs, 1)
    q = (height + 2 * padding[0] - s) // stride[0] + 1
    p = (width + 2 * padding[1] - r) // stride[1] + 1
    problem = Problem(
        R=r, S=s, P=p, Q=q, C=c, K=k, N=images, stride_w=stride[1], stride_h=stride[0], groups=groups
    )
    scale = float(np.float32(1 / (60 * (s * r * c) ** 0.5)))
    return Layer(problem, image=size, padding=padding, bias=bias, relu=relu, scale=scale)


def chain(
    size: tuple[int, int], channels: int, *convolutions: tuple[int, int, int, int], images: int = 1
) -> ConvolutionChain:
    """Outputs, window, stride and padding of each, square."""
    layers = []
    for number, (outputs, window, stride, padding) in enumerate(convolutions):
        square = ((window, window), (stride, stride), (padding, padding))
        one = layer(size, channels, outputs, *square, images=images, relu=number % 2 == 0)
        layers.append(one)
        size, channels = (one.problem.Q, one.problem.P), outputs or channels
    return ConvolutionChain(tuple(layers))


def with_addition(units: ConvolutionChain, *, scale: float = 0.5, relu: bool = True) -> ConvolutionChain:
    """An image is added to the results."""
    p = units.layers[-1].problem
    alone = Problem(P=p.P, Q=p.Q, C=1, K=1, N=p.N, groups=p.K * p.groups)
    return replace(units, addition=Layer(alone, residual_scale=scale, scale=0.75, relu=relu))


def run(
    units: ConvolutionChain,
    schedule: StripSchedule,
    accelerator: Accelerator,
    engine: str = "functional",
    seed: int = 0,
) -> dict[str, int]:
    """Compile, run and compare; what was counted."""
    random = np.random.default_rng(seed)
    image = random.integers(-128, 128, units.layers[0].input_extent, dtype=np.int8)
    buffers, result = [Buffer("input", image.shape, "int8", "input", image)], image
    given: list[tuple[Array, Array]] = []
    for layer in units.layers:
        p = layer.problem
        weights = random.integers(-128, 128, layer.weight_extent, dtype=np.int8)
        bias = random.integers(-4000, 4000, p.groups * p.K, dtype=np.int32)
        result = layer_result(
            layer, {"input": result, "weight": weights} | ({"bias": bias} if layer.bias else {})
        )
        if is_depthwise(layer):
            weights = diagonal_weights(weights.reshape(p.S, p.R, p.groups), accelerator.dim).reshape(-1)
        given.append((weights, bias))
    residual = np.empty(0, np.int8)
    if units.addition is not None:
        residual = random.integers(-128, 128, units.addition.residual_extent, dtype=np.int8)
        weights = np.ones(units.addition.weight_extent, np.int8)
        tensors = {"input": result, "weight": weights, "residual": residual}
        result = layer_result(units.addition, tensors)
    buffers.append(Buffer("output", result.shape, "int8", "output"))
    for number, (weights, bias) in enumerate(given):
        buffers.append(Buffer(f"weights{number}", weights.shape, "int8", "constant", weights))
        buffers.append(Buffer(f"bias{number}", bias.shape, "int32", "constant", bias))
    if units.addition is not None:
        ones = np.eye(accelerator.dim, dtype=np.int8)
        buffers.append(Buffer("residual", residual.shape, "int8", "input", residual))
        buffers.append(Buffer("ones", ones.shape, "int8", "constant", ones))
    e = Emitter("chain", [buffer.name for buffer in buffers])
    source, target, *others = e.arguments
    scales = tuple(float32_bits(layer.scale or 0.0) for layer in units.layers)
    addition = None
    if units.addition is not None:
        *others, added, unit = others
        bits = [float32_bits(scale or 0.0) for scale in (units.addition.residual_scale, units.addition.scale)]
        addition = AdditionOperands(added, unit, *bits)
    operands = StripOperands(source, target, tuple(others[::2]), tuple(others[1::2]), scales, addition)
    emit_strips(e, units, schedule, accelerator, operands)
    e.fence()
    outputs, simulation = run_program(build_program(e.finish(), "chain", buffers, accelerator), engine=engine)
    np.testing.assert_array_equal(outputs["output"], result)
    assert result.std() > 2  # not all saturated, or zero
    return dict(simulation.activity) | {"cycles": int(simulation.cycles or 0)}


def random_chain(random: np.random.Generator) -> ConvolutionChain:
    images = int(random.integers(1, 3))
    size, channels = (int(random.integers(4, 12)), int(random.integers(4, 12))), int(random.integers(1, 11))
    layers: list[Layer] = []
    for _ in range(int(random.integers(1, 5))):
        window = tuple(int(random.choice([1, 1, 2, 3])) for _ in range(2))
        stride = tuple(int(random.integers(1, 3)) for _ in range(2))
        padding = tuple(int(random.integers(0, one)) for one in window)
        outputs = int(random.choice([0, int(random.integers(1, 11))]))
        outputs = 1 if channels == 1 and outputs == 0 else outputs
        if any(extent + 2 * pad < edge for extent, pad, edge in zip(size, padding, window, strict=True)):
            break
        one = layer(
            size, channels, outputs, window, stride, padding, images=images, bias=bool(random.integers(2)),  # type: ignore[arg-type]
            relu=bool(random.integers(2)),
        )  # fmt: skip
        layers.append(one)
        size, channels = (one.problem.Q, one.problem.P), outputs or channels
    if not layers:
        return random_chain(random)
    units = ConvolutionChain(tuple(layers))
    if random.integers(2):
        return units
    return with_addition(units, scale=float(random.normal()), relu=bool(random.integers(2)))


@pytest.mark.parametrize("seed", seeds(2, of=60))
def test_random_chains_in_random_strips(seed: int) -> None:
    random = np.random.default_rng(seed)
    units = random_chain(random)
    rows = int(random.integers(1, units.layers[-1].problem.Q + 1))
    streamed = tuple(i for i in range(len(units.layers)) if random.integers(3) == 0)
    schedule = StripSchedule(rows, int(random.integers(1, rows + 1)), streamed)
    try:
        place_strips(units, schedule, SMALL)
    except InfeasibleError:
        schedule = StripSchedule(1, 1, streamed)
    run(units, schedule, SMALL, seed=seed)


#: The last five run with the slow tests.
IN_HARDWARE = [
    (chain((14, 14), 24, (72, 1, 1, 0), (0, 3, 2, 1), (40, 1, 1, 0)), StripSchedule(1)),
    (chain((12, 20), 24, (40, 3, 1, 1), (24, 3, 2, 0), images=2), StripSchedule(2)),
    (chain((10, 10), 24, (88, 3, 2, 1), (0, 3, 1, 1), (200, 1, 1, 0)), StripSchedule(2, 1, (0, 2))),
    (with_addition(chain((14, 14), 24, (72, 1, 1, 0), (0, 3, 1, 1), (24, 1, 1, 0))), StripSchedule(3)),
    (with_addition(chain((15, 20), 24, (40, 3, 2, 1))), StripSchedule(3)),
    (chain((14, 14), 24, (72, 1, 1, 0), (0, 3, 1, 1), (24, 1, 1, 0)), StripSchedule(3)),
    (chain((7, 7), 40, (0, 3, 1, 1)), StripSchedule(7, 4)),
    (chain((9, 9), 40, (96, 3, 1, 1), (24, 1, 1, 0), images=2), StripSchedule(3, 3, (0,))),
    (
        with_addition(chain((14, 14), 40, (16, 1, 1, 0), (16, 3, 1, 1), (64, 1, 1, 0), images=2)),
        StripSchedule(2),
    ),
]


@pytest.mark.parametrize("number", seeds(2, of=len(IN_HARDWARE)))
def test_chains_in_hardware_with_the_bytes_and_accesses_predicted(number: int) -> None:
    units, schedule = IN_HARDWARE[number]
    counted = run(units, schedule, GEMMINI, "rtl")
    cost = predict_strips(units, schedule, GEMMINI)
    assert cost.read_bytes == pytest.approx(counted["dram_read_bytes"], rel=0.02)
    assert cost.written_bytes == counted["dram_write_bytes"]
    assert cost.macs == counted["macs"]
    assert cost.accumulator_words == pytest.approx(
        counted["accumulator_read_words"] + counted["accumulator_write_words"], rel=0.02
    )
    assert cost.scratchpad_bytes == pytest.approx(
        counted["scratchpad_read_bytes"] + counted["scratchpad_write_bytes"], rel=0.15
    )


def test_rows_needed_are_those_that_windows_read() -> None:
    """Counted row by row: which rows of each image any result of the strips so far depends on."""
    for units in (
        chain((15, 9), 4, (8, 3, 2, 1), (0, 3, 1, 1), (4, 1, 1, 0)),
        chain((16, 9), 4, (8, 3, 1, 0), (4, 2, 2, 0)),
        chain((9, 9), 4, (8, 1, 1, 0), (4, 3, 3, 1)),
    ):
        height = units.layers[-1].problem.Q
        for rows, begin in ((1, 1), (2, 1), (3, 1), (3, 2), (height, height)):
            schedule, end, size = StripSchedule(rows, begin), 0, begin
            ends = [0]  # a strip has twice the rows of the one before, until all rows of a strip are reached
            while end < height:
                end, size = end + size, min(rows, 2 * size)
                ends.append(min(height, end))
            assert schedule.ends(height) == ends[1:]
            for strip, end in enumerate(ends, -1):
                needed = set(range(end))
                counts = [len(needed)]
                for one in reversed(units.layers):
                    p = one.problem
                    reached = {q * p.stride_h + s - one.padding[0] for q in needed for s in range(p.S)}
                    top = max((y for y in reached if y < one.size[0]), default=-1)
                    counts.insert(0, max(0, top + 1))
                    needed = set(range(max(0, top + 1)))
                assert rows_needed(units, strip, schedule) == counts


def test_chosen_strips_fit_and_move_less_than_layers_one_by_one() -> None:
    units = chain((28, 28), 16, (96, 1, 1, 0), (0, 3, 1, 1), (16, 1, 1, 0))
    schedule = choose_strips(units, SIDE16)
    used = place_strips(units, schedule, SIDE16)
    assert used.scratchpad_rows <= SIDE16.scratchpad_rows
    assert used.accumulator_rows <= SIDE16.accumulator_rows
    cost = predict_strips(units, schedule, SIDE16)
    between = 2 * 28 * 28 * 96  # two images that are written and read
    assert cost.read_bytes + cost.written_bytes < 0.5 * 2 * between
    wide = chain((28, 28), 256, (256, 3, 1, 1), (16, 1, 1, 0))
    with pytest.raises(
        InfeasibleError, match=r"no strips of the chain fit: strips 1 from 1 takes .* rows of the scratchpad"
    ):
        choose_strips(wide, SIDE16)


def test_nothing_lies_on_anything_else_in_the_scratchpad() -> None:
    """Row by row, of random chains; pixels a stride apart lie in other banks than weights where both fit in two quarters each."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        units = random_chain(random)
        streamed = tuple(i for i in range(len(units.layers)) if random.integers(2))
        schedule = StripSchedule(1 + int(random.integers(units.layers[-1].problem.Q)), 1, streamed)
        try:
            memory = place_strips(units, schedule, SMALL)
        except InfeasibleError:
            continue
        taken: set[int] = set()
        parts = [(image.zeros, image.start) for image in memory.images if image.zeros < image.start]
        parts += [(at, at + slots * image.slot) for image in memory.images for at, slots in image.pieces]
        for weights in memory.weights:
            parts += weights.parts
            rows = sum(end - start for start, end in weights.parts)
            assert rows == weights.rows * (2 * weights.wide if weights.streamed else weights.blocks)
        for start, end in parts:
            assert 0 <= start < end <= memory.scratchpad_rows <= SMALL.scratchpad_rows
            assert not taken & set(range(start, end))
            taken |= set(range(start, end))
    strided = place_strips(chain((28, 28), 32, (64, 3, 2, 1), (64, 1, 1, 0)), StripSchedule(1), SIDE16)
    quarter = SIDE16.scratchpad_rows // 4
    image, weights = strided.images[0], strided.weights[0]
    pixels = {row // quarter % 2 for row in range(image.zeros, image.start + image.slots * image.slot)}
    assert pixels.isdisjoint(
        {row // quarter % 2 for start, end in weights.parts for row in range(start, end)}
    )
    assert strided.together[0] == 0.0
    # a ring of more than a quarter, in two pieces
    large = load_accelerator("gemmini-default")
    image = place_strips(chain((147, 147), 32, (64, 3, 2, 1), (80, 1, 1, 0)), StripSchedule(6), large).images[
        0
    ]
    quarter = large.scratchpad_rows // 4
    assert [at // quarter for at, _ in image.pieces] == [1, 3]
    assert all((at + slots * image.slot - 1) // quarter == at // quarter for at, slots in image.pieces)
    rows = [at + n * image.slot - image.start for at, slots in image.pieces for n in range(slots)]
    assert [image.place(y) for y in range(2 * image.slots)] == 2 * rows


def test_weights_come_again_for_every_strip_where_they_do_not_fit() -> None:
    units = chain((14, 14), 64, (128, 3, 1, 1), (64, 1, 1, 0))
    with pytest.raises(InfeasibleError, match="rows of the scratchpad"):
        place_strips(units, StripSchedule(1), SIDE16)
    schedule = choose_strips(units, SIDE16)
    assert schedule.streamed == (0,)
    once = 9 * 64 * 128 + 128 * 64 + 14 * 14 * 64
    times = len(schedule.ends(14)) - 1
    biases = predict_strips(units, schedule, SIDE16).read_bytes - once - times * 9 * 64 * 128
    assert 0 < biases < 20_000


def test_chains_are_convolutions_that_follow_each_other() -> None:
    one, two = chain((8, 8), 4, (8, 3, 1, 1), (4, 1, 1, 0)).layers
    for layers, why in (
        ((), "a chain has convolutions"),
        ((two, two), "reads what the one before makes"),
        ((replace(one, scale=None, relu=False), two), "int8 results"),
        ((one, replace(two, residual_scale=1.0)), "no residual"),
        ((replace(one, problem=replace(one.problem, dilation_h=2), padding=(2, 1)), two), "no dilation"),
        ((replace(one, problem=replace(one.problem, C=2, K=4, groups=2), weight=Layout(8, 4), input=Layout(4, 2), output=Layout(8, 4)), two), "one for each channel"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=why):
            ConvolutionChain(layers)


def test_diagonal_weights_convolve_every_channel_by_itself() -> None:
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (3, 2, 10), dtype=np.int8)
    found = diagonal_weights(weights, 4)
    assert found.shape == (3, 3, 2, 4, 4)
    pixels = random.integers(-128, 128, 12)
    for s in range(3):
        for r in range(2):
            sums = np.concatenate([pixels[4 * b : 4 * b + 4] @ found[b, s, r].astype(int) for b in range(3)])
            np.testing.assert_array_equal(sums[:10], pixels[:10] * weights[s, r])
            assert not sums[10:].any()


def test_texts_of_schedules_are_read_back() -> None:
    assert parse_group_schedule("strips 7") == StripSchedule(7)
    for schedule in (StripSchedule(7), StripSchedule(7, 3), StripSchedule(4, 1, (0, 2))):
        assert parse_group_schedule(str(schedule)) == schedule
    for text in ("strips 0", "strips", "strips 1 2", "strips 2 from 0", "strips 2 from 1 streaming"):
        with pytest.raises(InputError, match="is no schedule of a group"):
            parse_group_schedule(text)
