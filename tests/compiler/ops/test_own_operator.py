"""An operator of one's own: the worked example of docs/operators.md on views of all kinds, quantised, predicted; what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.host_core import LINE_BYTES, MISS_CYCLES
from baco.compiler.network import float_graph, quantise
from baco.compiler.network.prediction import predict_steps
from baco.compiler.ops.host_model import host_cycles
from baco.compiler.ops.views import dense
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from baco.workloads.semantics import Semantics
from tests.compiler.network.net_quant_networks import run_both
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.user_module import page_module

PAGE = (Path(__file__).parents[3] / "docs" / "operators.md").read_text("utf-8")


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file of the page, its function among those of networks."""
    monkeypatch.setattr(quantise, "RULES", dict(quantise.RULES))
    monkeypatch.setattr(float_graph, "FUNCTIONS", dict(float_graph.FUNCTIONS))
    return page_module(PAGE, tmp_path / "running_maximum.py")


def network() -> Network:
    graph = GraphBuilder("running")
    x = graph.input("x", (2, 3, 40))
    graph.op("cumsum", (x,), x.shape, semantics=Semantics("running_maximum", (x,)))
    return graph.build()


def test_its_code_computes_it_on_views_of_all_kinds(example: ModuleType) -> None:
    sketch = Sketch(np.random.default_rng(5))
    for shape in ((7,), (1,), (3, 50), (4, 2, 9), (2, 3, 1, 17), (300, 5)):
        for _ in range(3):
            sketch.add(
                example.RunningMaximum, sketch.either(shape, "output"), input=sketch.either(shape, "input")
            )
    program = check(sketch)
    assert all(cost.cycles > 0 for cost in predict_steps(program.lowered, DIM4))


def test_its_definition_is_that_of_its_loops(example: ModuleType) -> None:
    elements = np.random.default_rng(1).integers(-128, 128, (2, 3, 11), dtype=np.int8)
    view = dense("x", elements.shape)
    op = example.RunningMaximum("running", (), dense("y", elements.shape), view)
    computed = op.compute(lambda one: one.read(elements))
    for *row, last in np.ndindex(elements.shape):
        assert computed[(*row, last)] == max(elements[tuple(row)][: last + 1])
    touched = op.accesses()
    (operand,) = touched.operands
    assert touched.relies_on_many(operand)
    assert not touched.indirect


def test_networks_with_it_are_quantised_without_a_loss_of_its_own(example: ModuleType) -> None:
    quantised, values, noise = run_both(network())
    (op,) = quantised.operators
    source, target = (quantised.values[view.value] for view in (op.input, op.output))
    assert source.scale == target.scale
    np.testing.assert_array_equal(values[target.name], np.maximum.accumulate(values[source.name], -1))
    assert noise[0] > 35


def test_its_work_is_counted_and_costs_what_it_says(example: ModuleType) -> None:
    shape = (30, 200)
    call = example.RunningMaximum("running", (), dense("y", shape), dense("x", shape)).host_call({})
    assert call.work.amounts == {"calls": 1, "rows": 30, "elements": 6000}
    misses = call.work.misses(["x", "y"])
    assert misses == pytest.approx(2 * math.prod(shape) / LINE_BYTES, abs=2)
    assert host_cycles(call.work, misses) == 60 + 30 * 60 + 6000 * 14 + MISS_CYCLES * misses


def test_a_name_that_is_taken_is_refused(example: ModuleType) -> None:
    for name in ("running_maximum", "softmax"):
        with pytest.raises(InputError, match=f"already a function '{name}'"):
            quantise.adopt_function(name, example.real, example.rule)
