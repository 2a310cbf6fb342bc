"""Products of a few rows on the original: weights come in once, line by line, at the pace of main memory."""

from __future__ import annotations

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choose
from baco.compiler.layers.layer import Layer
from baco.exploration.measure.layer import measure_layer
from baco.workloads.problem import Problem
from tests.seeds import some

STOCK = load_accelerator("gemmini-default").replace(timing="gemmini")
LINE = 64


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    some(1, [(1, 768, 768), (8, 1536, 1408), (8, 768, 2304)]),
)
def test_every_line_of_the_weights_is_read_once(rows: int, depth: int, columns: int) -> None:
    layer = Layer(Problem(P=rows, C=depth, K=columns), scale=2.0**-9)
    counters = measure_layer(layer, choose(layer, STOCK), STOCK).counters
    lines = depth * columns / LINE
    others = (rows * depth + rows * columns) / LINE + 600  # inputs, results, the program itself
    assert lines <= counters["memory_l2_misses"] <= lines + others
    # requests split in two by a line's end would be as many more
    assert counters["memory_read_requests"] <= 1.1 * (lines + rows * depth / LINE * columns / 256)
