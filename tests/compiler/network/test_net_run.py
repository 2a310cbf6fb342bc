"""Networks in simulation: steps measured, boundaries checked, cycles predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.reference import reference
from baco.compiler.network.steps import ValueAddress
from baco.compiler.ops.elementwise import Addition, Map
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import Softmax
from baco.compiler.ops.views import View
from baco.sim.engines.program import run_program
from baco.sim.job import Limits, SimulationError
from baco.sim.network.boundaries import boundaries
from baco.sim.network.run import NetworkRun, run_network
from baco.sim.network.table import COLUMNS, kind_errors, run_to_dict, table_rows
from tests.compiler.network.net_sketch import DIM4, Sketch

Array = np.ndarray[Any, Any]


class Small:
    """A residual block, pointwise functions in place, a product and a softmax."""

    def __init__(self) -> None:
        s = Sketch(np.random.default_rng(7))
        self.sketch = s
        table = s.value((256,), "constant", np.roll(np.arange(-128, 128), 3).astype(np.int8))
        x = s.value((1, 6, 6, 8))
        a = self.convolution(x, 3, 8)
        b = self.convolution(a, 3, 8)
        c = s.add(
            Addition, s.value((1, 6, 6, 8), "intermediate"), left=a, right=b, left_scale=0.5, right_scale=0.25,
            scale=1.0, relu=False,
        )  # fmt: skip
        d = s.add(Map, s.value((1, 6, 6, 8), "intermediate"), input=c, table=table)
        e = s.add(Map, s.value((1, 6, 6, 8), "intermediate"), input=d, table=table)
        rows = View(e.value, (36, 8), (8, 1))
        f = s.add(
            MatMul, s.value((36, 12), "intermediate"), left=rows, right=s.value((8, 12), "constant"), bias=None,
            relu=False, scale=0.004,
        )  # fmt: skip
        exponentials = np.rint(65535 * np.exp(-0.05 * np.arange(256))).astype(np.int32)
        s.add(
            Softmax, s.value((36, 12), "output"), input=f, table=s.value((256,), "constant", exponentials),
            numerator=2**24 * 127,
        )  # fmt: skip
        self.network: QuantisedNetwork = s.network()
        self.expected = reference(self.network, s.inputs())
        self.built: NetworkProgram = compile_network(self.network, DIM4, data=s.inputs())

    def convolution(self, x: View, kernel: int, channels: int) -> View:
        s = self.sketch
        return s.add(
            Convolution, s.value((*x.shape[:3], channels), "intermediate"), input=x,
            weight=s.value((kernel, kernel, x.shape[3], channels), "constant"), bias=None, stride=(1, 1),
            padding=(kernel // 2,) * 2, dilation=(1, 1), size=(x.shape[1], x.shape[2]), groups=1, relu=False,
            scale=0.004,
        )  # fmt: skip

    def run(self, engine: str, **options: Any) -> NetworkRun:
        return run_network(
            self.built,
            self.expected,
            engine,
            predicted=[one.cycles for one in predict_steps(self.built.lowered, DIM4)],
            **options,
        )


@pytest.fixture(scope="module")
def small() -> Small:
    return Small()


@pytest.fixture(scope="module", params=["functional", "rtl"])
def ran(request: pytest.FixtureRequest, small: Small) -> NetworkRun:
    return small.run(request.param)


def test_every_operator_is_checked_and_right(small: Small, ran: NetworkRun) -> None:
    assert list(ran.checked) == [op.name for op in small.network.operators]
    assert ran.wrong == ()
    (name,) = ran.values
    np.testing.assert_array_equal(ran.values[name], small.expected[name])


def test_steps_add_up(small: Small, ran: NetworkRun) -> None:
    result = ran.result
    total = result.cycles if result.cycles is not None else result.counters["host_cycles"]
    assert ran.prologue + sum(step.cycles for step in ran.steps) + ran.epilogue == total
    assert [step.start for step in ran.steps] == [
        ran.prologue + sum(step.cycles for step in ran.steps[:n]) for n in range(len(ran.steps))
    ]
    assert [step.function for step in ran.steps] == [step.function for step in small.built.lowered.steps]
    assert [operator.operator for operator in ran.operators] == [op.name for op in small.network.operators]
    # nothing moves outside the steps
    for name in ("host_rocc_commands", "dram_read_bytes", "dram_write_bytes"):
        whole = result.counters.get(name, getattr(result, name, None))
        assert sum(step.counters[name] for step in ran.steps) == whole
        assert sum(operator.counters[name] for operator in ran.operators) == whole
    assert sum(operator.activity["macs"] for operator in ran.operators) == result.macs


def test_looking_changes_no_cycle(small: Small) -> None:
    watched = small.run("rtl").result
    _, plain = run_program(small.built.program, engine="rtl")
    assert (watched.cycles, watched.counters, watched.unrolled) == (
        plain.cycles,
        plain.counters,
        plain.unrolled,
    )


def test_values_that_share_memory_are_seen_before_they_are_replaced(small: Small) -> None:
    places = [one.address for one in boundaries(small.built)]
    assert len(set(places)) < len(places)  # the two maps work in place


def test_results_are_looked_at_behind_the_fence(small: Small) -> None:
    steps, waits = small.built.lowered.steps, small.built.waits
    for one in boundaries(small.built):
        last = max(n for n, step in enumerate(steps) if step.operator == one.operator)
        if steps[last].accelerator:
            assert one.step == len(steps) or waits[one.step]
            assert not any(waits[last + 1 : one.step])
        else:
            assert one.step == last + 1


def wrong_weight(small: Small, number: int) -> tuple[str, Array, dict[str, Array]]:
    """Name of operator `number`, the constants with one of its weights changed, and what the network gives then."""
    op = small.network.operators[number]
    name = op.weight.value if isinstance(op, Convolution) else op.right.value
    _, offset = small.built.placement.address(ValueAddress(name))
    image = small.built.image.copy()
    at = offset + small.network.constants[name].size - 5
    image[at] ^= 0x40
    constants = dict(small.network.constants)
    changed = constants[name].copy()
    changed.reshape(-1)[changed.size - 5] ^= 0x40
    network = QuantisedNetwork(
        "changed", small.network.values, small.network.operators, {**constants, name: changed},
        small.network.inputs, small.network.outputs,
    )  # fmt: skip
    return op.name, image, reference(network, small.sketch.inputs())


@pytest.mark.parametrize(("engine", "number"), [("functional", 0), ("functional", 5), ("rtl", 1)])
def test_a_wrong_weight_is_found_where_it_is(small: Small, engine: str, number: int) -> None:
    operator, image, then = wrong_weight(small, number)
    run = small.run(engine, inputs={"constants": image})
    first = run.wrong[0]
    assert first.operator == operator
    assert {one.operator for one in run.wrong} <= {op.name for op in small.network.operators[number:]}
    value = small.network.operators[number].output.value
    different = np.argwhere(then[value] != small.expected[value])
    assert first.index == tuple(different[0])
    assert (first.found, first.expected) == (then[value][first.index], small.expected[value][first.index])
    assert (first.wrong, first.elements) == (len(different), then[value].size)
    assert str(first).startswith(
        f"wrong: {operator}[{', '.join(map(str, first.index))}] is {first.found}, not"
    )


def test_predictions(small: Small) -> None:
    run = small.run("rtl")
    predicted = [cost.cycles for cost in predict_steps(small.built.lowered, DIM4)]
    assert len(predicted) == len(run.steps)
    assert all(np.isfinite(cycles) and cycles > 0 for cycles in predicted)
    assert [step.predicted for step in run.steps] == predicted
    kinds = kind_errors(small.built, run)
    assert {kind for kind, *_ in kinds} == {"layer", "addition", "map", "softmax"}
    assert sum(cycles for _, _, cycles, _ in kinds) == sum(step.cycles for step in run.steps)
    assert sum(value for *_, value in kinds) == pytest.approx(sum(predicted))


def test_table(small: Small, ran: NetworkRun) -> None:
    rows = table_rows(ran)
    plain = run_to_dict(small.built, ran)
    assert plain["boundaries"] == len(small.network.operators)
    assert plain["wrong_boundaries"] == []
    if ran.result.cycles is None:
        assert rows == []
        return
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert [row[0] for row in rows] == [*(op.name for op in small.network.operators), "all operators"]
    assert sum(int(row[1].replace(",", "")) for row in rows[:-1]) == int(rows[-1][1].replace(",", ""))
    assert [one["busy"]["mesh"] > 0 for one in plain["operators"]] == [
        step.accelerator for step in small.built.lowered.steps
    ]


def test_a_stopped_simulation_says_where(small: Small) -> None:
    whole = small.run("rtl")
    third = whole.steps[2]
    with pytest.raises(SimulationError, match=rf"\(in step 3 of 7, operator '{third.operator}'\)") as stopped:
        small.run("rtl", limits=Limits(max_cycles=third.start + third.cycles // 2))
    assert stopped.value.kind == "max_cycles"


def test_a_program_that_ends_early(small: Small) -> None:
    """It compares its results itself, and the boundaries up to there are compared as well."""
    operator, image, _ = wrong_weight(small, 1)
    built = compile_network(
        small.network, DIM4, data=small.sketch.inputs(), reference=small.expected, check_layers=True
    )
    # constants of the comparisons came behind those of the network
    shared = min(image.size, built.image.size)
    assert np.count_nonzero(built.image[:shared] != small.built.image[:shared]) == 0
    run = run_network(
        built,
        small.expected,
        inputs={"constants": np.concatenate([image[:shared], built.image[shared:]])},
    )
    assert run.result.exit_code == 1
    assert f"wrong: {operator} element" in run.result.console
    assert run.steps == run.operators == ()
    assert [one.operator for one in run.wrong] == [operator]
    assert run.checked[0] == small.network.operators[0].name
    assert predict_steps(built.lowered, DIM4)[2].cycles > 0  # comparisons are predicted, too
