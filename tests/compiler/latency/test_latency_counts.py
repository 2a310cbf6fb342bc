"""Counts of the instruction-aware model against commands that programs really issue, and measured ones."""

from __future__ import annotations

import random

import pytest
import torch

from baco.accel.config import Accelerator
from baco.bench.sets.dataset import read_dataset
from baco.bench.sets.sample import draw_mapping
from baco.bench.sets.shapes import draw_layer
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.commands import Commands, count_commands
from baco.compiler.latency.tiling import BatchTiling, make_tiling
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles.explicit.code import prepare
from tests.compiler.ir.counting_machine import issued_commands

ACCELERATORS = [
    Accelerator(name="four", dim=4, scratchpad_kib=8, accumulator_kib=4),
    Accelerator(name="eight", dim=8, scratchpad_kib=16, accumulator_kib=8, partial_sum_bits=20),
    Accelerator(name="sixteen", dim=16, scratchpad_kib=64, accumulator_kib=32, dma_max_bytes=32),
]
Case = tuple[Accelerator, Layer, Mapping]


def _cases(count: int, seed: int) -> list[Case]:
    r = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        accelerator = r.choice(ACCELERATORS)
        layer = draw_layer(r, 10 ** r.uniform(3.5, 5.0))
        drawn = draw_mapping(r, layer, accelerator, macro=False)
        if drawn is not None and isinstance(drawn[1], ExplicitSchedule):
            found.append((accelerator, layer, drawn[0]))
    return found


def _counted(cases: list[Case]) -> tuple[BatchTiling, Commands]:
    accelerators, layers, mappings = zip(*cases, strict=True)
    tiling = make_tiling(
        LayerBatch.of(layers), MappingBatch.of(mappings), HardwareBatch.of(accelerators), TensorArrays()
    )
    return tiling, count_commands(tiling)


def _compare(cases: list[Case]) -> None:
    _, counts = _counted(cases)
    for at, (accelerator, layer, mapping) in enumerate(cases):
        issued = issued_commands(layer, ExplicitSchedule(mapping), accelerator).issued
        exact = {
            "preload": counts.passes,
            "compute_preloaded": counts.weight_blocks,
            "compute_accumulated": counts.passes - counts.weight_blocks,
            "mvin2": counts.weight_loads,
            "mvin3": counts.bias_loads + counts.residual_loads + counts.sum_loads,
            "mvout": counts.stores + counts.sum_stores,
        }
        where = f"{layer} on {accelerator.name} as {mapping}"
        assert {name: issued[name] for name in exact} == {
            name: round(float(count[at]), 6) for name, count in exact.items()
        }, where
        # loads of zeros beside the image are estimated
        loads = float(counts.input_loads[at] + counts.zero_loads[at])
        padded = layer.padding != (0, 0) or bool(counts.zero_loads[at] > 0)
        error = 0.3 * issued["mvin"] + 8 if padded else 1e-6
        assert abs(loads - issued["mvin"]) <= error, where


def test_counts_are_those_of_compiled_programs() -> None:
    _compare(_cases(9, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_counts_are_those_of_compiled_programs(seed: int) -> None:
    _compare(_cases(25, seed))


@pytest.mark.parametrize("name", ["micro", "train"])
def test_counts_are_those_of_measured_programs(name: str) -> None:
    data = read_dataset(name)
    data = data.where([row.style == "explicit" for row in data.rows])
    cases = list(zip(data.accelerators, data.layers, data.mappings, strict=True))
    _, counts = _counted(cases)
    expected = {
        "preloads": counts.passes,
        "computes": counts.passes,
        "stores": counts.stores + counts.sum_stores,
    }
    for column, count in expected.items():
        assert torch.equal(count.round(), torch.from_numpy(data.numbers(column)))
    loads = counts.weight_loads + counts.input_loads + counts.zero_loads
    loads = loads + counts.bias_loads + counts.residual_loads + counts.sum_loads
    error = (loads - torch.from_numpy(data.numbers("loads"))) / torch.from_numpy(data.numbers("loads"))
    assert float(error.abs().mean()) < 0.01
    assert float((error.abs() < 1e-9).double().mean()) > 0.8


def test_tiles_and_loops_are_those_of_the_compiler() -> None:
    """Visits, spills, copies and loop extents, without running anything."""
    cases = _cases(60, 20)
    tiling, counts = _counted(cases)
    for at, (accelerator, layer, mapping) in enumerate(cases):
        plan = prepare(layer, mapping, accelerator).plan
        assert float(counts.visits[at]) == plan.visits
        assert bool(counts.sum_stores[at] > 0) == plan.spills
        assert bool(counts.fences[at] > 0) == plan.spills
        assert tuple(int(copies[at]) for copies in tiling.copies) == plan.copies
        for axis in "RSCKPQN":
            assert float(tiling.block[axis][at]) == plan.block[axis]
            if axis in plan.tile:
                assert float(tiling.tile[axis][at]) == plan.tile[axis]
