"""Products in parts, whose results the host takes through a table while the array makes the next part."""

from dataclasses import replace

import numpy as np
import pytest

from baco.compiler.network.combinations import Combinations
from baco.compiler.network.fences import StepAccess, fences
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.reference import reference
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.products import MatMul
from baco.sim.engines.program import run_program
from tests.compiler.network.net_sketch import DIM4, Sketch, check

ROWS, DEPTH, COLUMNS = 128, 24, 128


def product_and_table(s: Sketch, columns: int = COLUMNS) -> None:
    """A product with a bias, and a table behind it."""
    left, right = s.value((ROWS, DEPTH)), s.value((DEPTH, columns), "constant")
    bias = s.value((columns,), "constant", s.random.integers(-1000, 1000, columns, np.int32))
    middle = s.matmul(s.value((ROWS, columns), "intermediate"), left, right, bias=bias)
    s.map(s.value((ROWS, columns), "output"), middle, s.value((256,), "constant"))


def functions(program: NetworkProgram) -> list[str]:
    return [step.function for step in program.lowered.steps]


@pytest.mark.parametrize("check_layers", [True, False])
def test_a_product_goes_in_parts_beside_the_table(check_layers: bool) -> None:
    s = Sketch(np.random.default_rng(1))
    product_and_table(s)
    program = check(s, check_layers=check_layers, combinations=Combinations(beside=True))
    called = [name for name in functions(program) if name != "net_check"]
    parts = called.count("net_map")
    assert parts >= 4
    layer = called[0]
    assert called == [layer, *[layer, "net_map"] * (parts - 1), "net_map"]
    if not check_layers:
        # each part waits for the one before, and only the last table for a part
        waits = [step for step, wait in zip(called, program.waits, strict=True) if wait]
        assert waits == [layer] * (parts - 1) + ["net_map"]


def test_nothing_goes_in_parts_that_is_not_told_to_or_too_narrow() -> None:
    for beside, columns in ((False, COLUMNS), (True, 12)):
        s = Sketch(np.random.default_rng(2))
        product_and_table(s, columns)
        assert (
            functions(check(s, check_layers=False, combinations=Combinations(beside=beside))).count("net_map")
            == 1
        )


def test_the_longer_of_the_two_is_predicted() -> None:
    """Each part of the product but the first costs its commands, and each table but the last at least what is left of a part."""
    s = Sketch(np.random.default_rng(3))
    product_and_table(s)
    lowered = compile_network(s.network(), DIM4, combinations=Combinations(beside=True)).lowered
    found = [cost.cycles for cost in predict_steps(lowered, DIM4)]
    lowered.steps[:] = [replace(step, waits=False) for step in lowered.steps]
    alone = [cost.cycles for cost in predict_steps(lowered, DIM4)]
    assert (found[0], found[-1]) == (alone[0], alone[-1])
    for part in range(1, len(found) - 1, 2):
        assert found[part] < alone[part]
        assert found[part] + found[part + 1] == max(alone[part], found[part] + alone[part + 1])


def test_results_by_numpy() -> None:
    """The same product and table by numpy alone, whatever order they are computed in."""
    s = Sketch(np.random.default_rng(4))
    product_and_table(s)
    network, inputs = s.network(), s.inputs()
    program = compile_network(
        network,
        DIM4,
        data=inputs,
        reference=reference(network, inputs),
        combinations=Combinations(beside=True),
    )
    outputs, result = run_program(program.program)
    assert result.exit_code == 0
    product, behind = s.operators
    assert isinstance(product, MatMul)
    assert isinstance(behind, Map)
    assert product.bias is not None
    assert behind.table is not None
    left, right, bias = (
        s.data[one.value].astype(np.int64) for one in (product.left, product.right, product.bias)
    )
    scaled = np.rint(
        ((left @ right + bias).astype(np.float32) * np.float32(product.scale)).astype(np.float64)
    )
    table = s.data[behind.table.value]
    wanted = table[np.clip(scaled, -128, 127).astype(np.int64) + 128]
    (found,) = (
        outputs[name] for name in program.buffer_names.values() if name in outputs and "output" in name
    )
    assert np.array_equal(found, wanted)


def test_a_step_that_is_told_to_wait_does() -> None:
    steps = [
        StepAccess([(0, 8)], [(8, 16)], True, False),
        StepAccess([(16, 24)], [(24, 32)], True, False, True),
    ]
    assert fences(steps) == [False, True]
