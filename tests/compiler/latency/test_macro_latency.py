"""The macro latency of the instruction-aware model: against the compiler's own, its gradients."""

import random

import pytest
import torch

import baco
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.layer_shapes import layer_shapes
from baco.compiler.latency import schedule_cycles
from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.model import latency
from baco.compiler.latency.prediction import InstructionLatency
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles.macros.loop_ws_style import flat_layer
from baco.compiler.styles.registry import mapping_of, realise
from tests.compiler.styles.macro_mappings import draw_macro_mapping
from tests.compiler.styles.random_layers import draw_convolution, draw_product
from tests.compiler.styles.test_float_layers import real

DEFAULT = load_accelerator("gemmini-default")
torch.set_num_threads(1)


def _accelerator(r: random.Random) -> Accelerator:
    dim = r.choice((2, 4, 8, 16))
    return Accelerator(
        name="random", dim=dim, scratchpad_kib=r.choice((4, 16)) * dim, accumulator_kib=r.choice((1, 4)) * dim,
        dma_bits=r.choice((64, 128)), dma_requests=r.choice((8, 16)), execute_entries=r.choice((8, 16)),
    )  # fmt: skip


def _case(r: random.Random) -> tuple[Layer, Mapping, Accelerator]:
    accelerator = _accelerator(r)
    if r.random() < 0.5:
        layer = draw_product(r, *(r.randint(1, 6 * accelerator.dim) for _ in range(3)))
    else:
        layer = draw_convolution(r)
    if r.random() < 0.25:
        accelerator = accelerator.in_format("fp8-e4m3")
        layer = real(r, layer, accelerator)
    return layer, draw_macro_mapping(r, layer.problem, accelerator.dim), accelerator


def _batches(cases):
    layers, mappings, accelerators = zip(*cases, strict=True)
    return LayerBatch.of(layers), MappingBatch.of(mappings), HardwareBatch.of(accelerators)


def macro_latency(
    layers: LayerBatch, mappings: MappingBatch, hardware: HardwareBatch, *, relaxed: bool = False
) -> InstructionLatency:
    """Of mappings that macros carry out, all of them."""
    macro = torch.ones_like(mappings.rows, dtype=torch.bool)
    return latency(layers, mappings, hardware, macro, relaxed=relaxed)


def test_same_as_the_compilers():
    """Mappings cost what the schedules cost that realise them."""
    r = random.Random(1)
    cases = []
    while len(cases) < 400:
        layer, mapping, accelerator = _case(r)
        p = layer.problem
        # shapes that only one of two forms of the same layer has
        if layer.size[0] < p.Q or ((p.P == 1 or p.Q == 1) and not layer.is_product):
            continue
        cases.append((layer, mapping, accelerator))
    layers, mappings, hardware = _batches(cases)
    cycles, terms, *_ = macro_latency(layers, mappings, hardware)
    assert terms.shape == (5, 400)
    macros, floats, uneven = 0, 0, 0
    for n, (layer, mapping, accelerator) in enumerate(cases):
        schedule = realise(layer, mapping, accelerator)
        if not isinstance(schedule, ExplicitSchedule):
            macros += 1
            floats += layer.real
            p = layer.problem
            uneven += not layer.is_product and (p.stride_h, p.dilation_h) != (p.stride_w, p.dilation_w)
            assert float(cycles[n]) == pytest.approx(schedule_cycles(layer, schedule, accelerator), rel=0.02)
    assert 100 < macros < 400
    assert floats > 25
    assert uneven > 5


def test_same_for_the_compilers_choice():
    from baco.compiler.choice.choose import choose

    cases, wanted = [], []
    for named in layer_shapes(("resnet50",))[::3]:
        layer = flat_layer(named.layer)
        schedule = choose(layer, DEFAULT, style="macro")
        cases.append((layer, mapping_of(layer, schedule, DEFAULT), DEFAULT))
        wanted.append(schedule_cycles(layer, schedule, DEFAULT))
    layers, mappings, hardware = _batches(cases)
    cycles = macro_latency(layers, mappings, hardware).cycles
    assert cycles.tolist() == pytest.approx(wanted, rel=1e-6)


def test_gradients():
    """Of the relaxed form, against differences, away from the kinks."""
    r = random.Random(4)
    layer = Layer(flat_layer(Layer(draw_product(r, 200, 120, 90).problem)).problem, bias=True)
    conv = layer_shapes(("resnet50",))[2].layer
    agreed = total = 0
    for one in (layer, conv):
        for _ in range(10):
            mapping = MappingBatch.of([draw_macro_mapping(r, one.problem, 16)], dtype=torch.float64)
            arguments = (LayerBatch.of([one]), HardwareBatch.of([DEFAULT]))
            factors = mapping.temporal.clone().requires_grad_()

            def cycles(temporal: torch.Tensor, mapping=mapping, arguments=arguments) -> torch.Tensor:
                changed = MappingBatch(
                    temporal,
                    mapping.rows,
                    mapping.columns,
                    mapping.rank,
                    mapping.flow,
                    mapping.copies,
                )
                return macro_latency(arguments[0], changed, arguments[1], relaxed=True)[0].sum()

            cycles(factors).backward()
            assert factors.grad is not None
            assert bool(torch.isfinite(factors.grad).all())
            for level, axis in ((0, 4), (0, 5), (1, 2), (1, 3)):
                step = 1e-5 * float(mapping.temporal[level, axis, 0])
                up, down = mapping.temporal.clone(), mapping.temporal.clone()
                up[level, axis] += step
                down[level, axis] -= step
                slope = float(cycles(up) - cycles(down)) / (2 * step)
                total += 1
                agreed += abs(slope - float(factors.grad[level, axis, 0])) <= 1e-3 * max(1.0, abs(slope))
    assert agreed >= 0.8 * total


def test_batches_in_single_precision():
    r = random.Random(6)
    cases = [_case(r) for _ in range(100)]
    layers, mappings, accelerators = zip(*cases, strict=True)
    double, *_ = macro_latency(*_batches(cases))
    single, *_ = macro_latency(
        LayerBatch.of(layers, torch.float32), MappingBatch.of(mappings, torch.float32),
        HardwareBatch.of(accelerators, torch.float32),
    )  # fmt: skip
    assert single.dtype == torch.float32
    assert ((single / double - 1).abs() < 1e-3).float().mean() > 0.97


@pytest.mark.parametrize("queue", [1, 2, 4])
def test_small_loads_wait_for_a_place_in_the_load_unit(queue: int):
    """Depthwise windows load a row of a byte at a time: what a unit with few places takes for them, by the timed model."""
    machine = baco.accelerator(load_queue=queue, load_entries=16)
    for side in (2, 4):
        layer = baco.conv(side, side, 64, 64, kernel=3, padding=1, groups=64)
        run = baco.run(layer, accelerator=machine, engine="timed", style="macro")
        assert run.right
        assert run.predicted_cycles == pytest.approx(run.cycles, rel=0.3)
