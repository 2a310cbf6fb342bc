"""Networks on systems: profiles against the programs they are of, rates over the hyperperiod, cuts before a link."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from baco.accel.presets import load_accelerator, system_of
from baco.accel.system import HOST, System
from baco.common.errors import InputError
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import sketch
from baco.compiler.ops.elements import RealFunction
from baco.exploration.systems.link import LinkModel, splits
from baco.exploration.systems.mix import Demand, hyperperiod_ns, mix
from baco.exploration.systems.system_plan import plan_system
from baco.exploration.systems.task_graph import TaskGraph
from baco.exploration.systems.unit_profile import UnitProfile, profile
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_sketch import DIM4, Sketch

#: Operators of a block of BERT that the machine with row functions runs as one.
_TOGETHER = (("query", "key", "value"), ("scores", "softmax", "context"), ("intermediate", "gelu"))


def system(*names: str, host: bool = True) -> System:
    return system_of([*names, *([HOST] if host else [])])


@pytest.fixture(scope="module")
def attention() -> UnitProfile:
    """One block of BERT on a machine with row functions, which runs groups, and on one half its side without."""
    units = system("gemmini-transformer", "gemmini-default,dim=8,clock_mhz=500")
    return profile(sketch(load_network("bert_base:seq=16"), 1), units)


def test_groups_take_what_the_programs_steps_take(attention: UnitProfile) -> None:
    network = sketch(load_network("bert_base:seq=16"), 1)
    for unit, name in enumerate(attention.graph.units[: attention.graph.units.index(HOST)]):
        accelerator = load_accelerator(name)
        built = compile_network(network, accelerator)
        cycles = sum(one.cycles for one in predict_steps(built.lowered, accelerator))
        ns = 1e3 / accelerator.clock_mhz
        assert attention.alone_ns[name] == pytest.approx(cycles * ns)
        # every step is a group's, those of the core between the accelerator's included
        assert attention.graph.times[:, unit].sum() == pytest.approx(cycles * ns)
        numbers = [number for group in attention.steps for number in group[unit]]
        assert sorted(numbers) == list(range(len(built.lowered.steps)))
    assert (attention.graph.shared <= attention.graph.times).all()


def test_groups_are_what_no_unit_takes_apart(attention: UnitProfile) -> None:
    network = sketch(load_network("bert_base:seq=16"), 1)
    names = [name for group in attention.operators for name in group]
    assert sorted(names) == sorted(op.name for op in network.operators)
    together = [tuple(f"encoder.{name}[0]" for name in names) for names in _TOGETHER]
    assert [group for group in attention.operators if len(group) > 1][:3] == together
    # the residual of the first addition: what the embeddings wrote, a byte an element
    assert 16 * 768 in attention.graph.edges.values()


def test_a_network_alone_takes_no_longer_than_its_program() -> None:
    units = system("gemmini-default", host=False)
    own = profile(sketch(load_network("deepbench_ocr")), units)
    plan = plan_system([own], [Demand()], units)
    assert plan.timetable.makespan <= own.alone_ns["gemmini-default"] * (1 + 1e-9)
    saving = plan.saving()
    assert saving is not None
    assert saving[1] == pytest.approx(1 - plan.timetable.makespan / own.alone_ns["gemmini-default"])
    assert plan.record()["evidence"] == "predicted"


def test_rates_over_the_hyperperiod() -> None:
    """30 and 20 Hz: three and two runs in 100 ms; 29.97 Hz is 2997/100."""
    demands = [Demand(Fraction(30)), Demand(Fraction(20), deadline_ms=10.5), Demand()]
    assert hyperperiod_ns(demands) == 100_000_000
    assert hyperperiod_ns([Demand(Fraction("29.97"))]) == Fraction(10**11, 2997)
    units = system("gemmini-default")
    graph = TaskGraph(("a", "b"), ("gemmini-default", HOST), np.full((2, 2), 5e6), {(0, 1): 1.0})
    own = UnitProfile("small", (("a",), ("b",)), graph, (), {"gemmini-default": 1e7}, {"gemmini-default": 0})
    made = mix([own] * 3, demands, units)
    third = 1e8 / 3
    assert [run.network for run in made.runs] == [0, 0, 0, 1, 1, 2]
    assert [run.begin_ns for run in made.runs] == pytest.approx([0, third, 2 * third, 0, 5e7, 0])
    deadlines = [third, 2 * third, 1e8, 1.05e7, 6.05e7, math.inf]
    assert [run.deadline_ns for run in made.runs] == pytest.approx(deadlines)
    plan = plan_system([own] * 3, demands, units, seconds=0.5)
    assert not plan.late
    for run in made.runs:
        assert all(plan.timetable.starts[task] >= run.begin_ns - 1e-3 for task in run.tasks)
    tight = plan_system([own], [Demand(deadline_ms=9.0)], units)
    assert [run.run for run in tight.late] == [0]
    words = (
        "missed deadlines, with 5% for errors of predictions: small run 1 by 1.429 ms; no schedule meets all"
    )
    assert tight.deadline_words() == words
    with pytest.raises(InputError, match="more than 3000 groups"):
        mix([own] * 2, [Demand(Fraction("29.97")), Demand(Fraction("30.01"))], units)


def test_rates_and_deadlines_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match="behind the next run at 30 Hz"):
        Demand(Fraction(30), deadline_ms=40.0)
    with pytest.raises(InputError, match="rate and runs exclude each other"):
        Demand(Fraction(30), runs=2)


def test_the_published_link() -> None:
    """DNNTune's Wi-Fi: an image of 224 x 224 x 3 floats in 0.1007 s, 1.2 W: 0.121 J."""
    link = LinkModel(4 * 3 * 224**2 / 0.1007 / 1e6, watt=1.2)
    seconds = link.seconds(4 * 3 * 224**2)
    assert seconds == pytest.approx(0.1007)
    assert round(link.joule(seconds), 3) == 0.121
    assert link.seconds(0) == 0
    assert LinkModel.parse("6,2,1.2") == LinkModel(6.0, 0.002, 1.2)
    for text in ("0", "6,-1", "6,1,1,1", "x"):
        with pytest.raises(InputError):
            LinkModel.parse(text)


def test_every_cut() -> None:
    """a (3 s here, 1 s there) -> b (4, 1) -> c (2, 1); 10 bytes in, 2 from a to b, also read by c, 8 from b to c; 1 byte/s."""
    graph = TaskGraph(("a", "b", "c"), ("x",), np.ones((3, 1)), {(0, 1): 2.0, (0, 2): 2.0, (1, 2): 8.0})
    edge, cloud = [3e9, 4e9, 2e9], [1e9, 1e9, 1e9]
    cuts = splits(graph, edge, cloud, [0.0, 0.0, 1e12], [(10.0, 0)], LinkModel(1e-6, 0.5, 2.0))
    assert [(one.edge_s, one.link_s, one.cloud_s) for one in cuts] == [
        (0, 10.5, 3),
        (3, 2.5, 2),
        (7, 10.5, 1),
        (9, 0, 0),
    ]
    assert min(cuts, key=lambda one: one.seconds).groups == 1
    assert [one.joule for one in cuts] == [21, 5, 21, 1]


def test_functions_of_real_numbers_are_one_task() -> None:
    """An absolute value and a root behind it, which are one call of the host core in every program."""
    s = Sketch(np.random.default_rng(0))
    x = s.value((4, 6), "input", s.random.normal(0, 3, (4, 6)).astype(np.float32))
    between, result = s.value((4, 6), "intermediate"), s.value((4, 6), "output")
    for view in (between, result):
        s.values[view.value] = replace(s.values[view.value], dtype="float32")
    s.add(RealFunction, between, input=x, function="abs")
    s.add(RealFunction, result, input=between, function="sqrt")
    profiled = profile(s.network(), System.of([("small", DIM4), (HOST, None)]))
    assert len(profiled.operators) == 1
    assert np.isfinite(profiled.graph.times[0, -1])
