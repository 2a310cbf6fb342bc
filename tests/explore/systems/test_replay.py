"""Plans that run: random units and orders for all groups, several networks at once, every operator against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from graphlib import TopologicalSorter

import numpy as np
import pytest

import baco
from baco.accel.system import System
from baco.compiler.network import system_program
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.network.system_program import SystemProgram
from baco.compiler.ops.operator import itemsize
from baco.exploration.measure.program_job import other_inputs
from baco.exploration.systems.measured import (
    MeasuredPlan,
    RunData,
    compile_plan,
    measured_profile,
    replay_plan,
)
from baco.exploration.systems.mix import Demand
from baco.exploration.systems.system_plan import SystemPlan, plan_system
from baco.exploration.systems.timetable import dispatch, orderly
from baco.exploration.systems.unit_profile import profile
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network
from tests.compiler.network import net_quant_networks as small
from tests.compiler.network.test_net_program_random import NETWORKS
from tests.machines import MIXED, PAIR
from tests.seeds import seeds


def network_of(number: int) -> Network:
    """A small network of several operators."""
    return getattr(small, NETWORKS[number % len(NETWORKS)])()  # type: ignore[no-any-return]


def planned(
    networks: Sequence[Network], demands: Sequence[Demand], system: System = PAIR
) -> tuple[SystemPlan, list[RunData]]:
    """A plan, and the data of its runs: other inputs each."""
    integers = [quantise(network) for network in networks]
    plan = plan_system([profile(one, system) for one in integers], demands, system, seconds=0.2)
    data = []
    for number, run in enumerate(plan.mix.runs):
        network, own = networks[run.network], integers[run.network]
        inputs = quantise_inputs(own, other_inputs(network, own, number))
        data.append((inputs, reference(own, inputs)))
    return plan, data


def shuffled(plan: SystemPlan, random: np.random.Generator) -> SystemPlan:
    """The same on random units, in a random order."""
    graph = plan.mix.graph
    units = [int(random.choice(able)) for able in graph.able]
    made = dispatch(graph, units, orderly(graph, random.random(len(units)).tolist()))
    return replace(plan, planned=replace(plan.planned, best=made))


def right(measured: MeasuredPlan) -> None:
    assert measured.wrong == ()
    graph, plan = measured.plan.mix.graph, measured.plan.timetable
    computed = [task for run in measured.plan.mix.runs for task in run.tasks]
    assert len(computed) == len(graph.names)
    assert measured.checked
    # what reads begins when what writes is done, and a unit does one thing at a time
    slack = 1.0
    for producer, consumer in graph.edges:
        assert measured.finishes_ns[producer] <= measured.starts_ns[consumer] + slack
    for unit in range(len(graph.units)):
        own = sorted((plan.starts[task], task) for task in computed if plan.units[task] == unit)
        ends = [measured.finishes_ns[task] for _, task in own]
        begins = [measured.starts_ns[task] for _, task in own]
        assert all(end <= begin + slack for end, begin in zip(ends, begins[1:], strict=False))


@pytest.mark.parametrize("seed", seeds(2, of=24))
def test_any_units_in_any_order_compute_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    plan, data = planned([network_of(seed), network_of(seed + 1)], [Demand(runs=2), Demand()])
    right(replay_plan(shuffled(plan, random), data, "functional"))


def test_the_planners_plan_computes_the_same() -> None:
    networks = [load_network("resnet18:image=32")]
    plan, data = planned(networks, [Demand(runs=2)])
    assert len(set(plan.timetable.units)) > 1
    measured = replay_plan(plan, data, "functional")
    right(measured)
    assert values_that_share(measured.program)


def test_without_waits_results_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared does depend on the order that flags enforce."""
    random = np.random.default_rng(0)
    plan, data = planned([network_of(0)], [Demand(runs=2)])
    mixed = shuffled(plan, random)
    right(replay_plan(mixed, data, "functional"))
    order = system_program._Order

    class Careless(order):  # type: ignore[misc, valid-type]
        def __init__(self, tasks: Sequence[system_program.SystemTask], units: int) -> None:
            super().__init__(tasks, units)
            self.waits = [[] for _ in self.waits]

    monkeypatch.setattr(system_program, "_Order", Careless)
    assert replay_plan(mixed, data, "functional").wrong


def values_that_share(made: SystemProgram) -> int:
    """Pairs of values with common bytes. By all paths through steps and flags, of two steps that touch these for one of them each, one
    lies before the other."""
    built, units, steps = made.built, made.units, made.built.lowered.steps
    signals = {step.arguments: at for at, step in enumerate(steps) if step.function == "harts_signal"}
    needs: dict[int, set[int]] = {
        at: {at - 1} if at and units[at - 1] == units[at] else set() for at in range(len(steps))
    }
    for at, step in enumerate(steps):
        if step.function == "harts_wait":
            needs[at].add(signals[step.arguments])
    before: dict[int, set[int]] = {}
    for at in TopologicalSorter(needs).static_order():
        before[at] = needs[at].union(*(before[one] for one in needs[at]))
    touched: dict[str, set[int]] = {}
    for at, step in enumerate(steps):
        for view in (*step.reads, *step.writes):
            if view.value in built.memory.offsets:
                touched.setdefault(view.value, set()).add(at)

    def span(name: str) -> range:
        value, start = built.lowered.values[name], built.memory.offsets[name]
        return range(start, start + int(np.prod(value.shape)) * itemsize(value))

    shared = 0
    for first, second in itertools.combinations(touched, 2):
        if max(span(first).start, span(second).start) >= min(span(first).stop, span(second).stop):
            continue
        shared += 1
        for a, b in itertools.product(touched[first] - touched[second], touched[second] - touched[first]):
            assert a in before[b] or b in before[a], (first, second)
    return shared


def test_a_plan_on_memory_ports_of_several_widths_computes_the_same_in_verilog() -> None:
    random = np.random.default_rng(4)
    plan, data = planned([network_of(4), network_of(7)], [Demand(), Demand()], MIXED)
    mixed = shuffled(plan, random)
    assert len(set(mixed.timetable.units)) > 2
    right(replay_plan(mixed, data, "rtl"))


@pytest.mark.parametrize("seed", seeds(1, of=30))
def test_values_share_memory_only_where_waits_order_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    plan, data = planned([network_of(seed)], [Demand(runs=2)])
    values_that_share(compile_plan(shuffled(plan, random), data)[0])


@pytest.mark.parametrize("seed", seeds(1, of=20))
def test_deadlines_that_a_plan_promises_are_met_in_verilog(seed: int) -> None:
    """Random mixes of two networks, the second at a multiple of the first one's rate, on times of groups that were measured alone."""
    random = np.random.default_rng(seed)
    networks = [network_of(int(at)) for at in random.choice(len(NETWORKS), 2, replace=False)]
    integers = [quantise(network) for network in networks]
    inputs = [
        quantise_inputs(own, other_inputs(one, own, 0)) for one, own in zip(networks, integers, strict=True)
    ]
    profiles = [
        measured_profile(own, data, PAIR, "timed") for own, data in zip(integers, inputs, strict=True)
    ]
    work = [min(own.alone_ns.values()) for own in profiles]
    more = int(random.integers(1, 4))
    for room in itertools.count(0.8, 0.1):  # as tight as a plan still promises
        period = int(room * (work[0] + more * work[1]))
        demands = []
        for rate in (1, more):
            deadline_ms = random.uniform(0.7, 1.0) * period / rate * 1e-6
            demands.append(Demand(Fraction(rate * 1_000_000_000, period), deadline_ms=deadline_ms))
        plan = plan_system(profiles, demands, PAIR, seconds=0.2)
        if not plan.late:
            break
    data = [
        (inputs[run.network], reference(integers[run.network], inputs[run.network])) for run in plan.mix.runs
    ]
    measured = replay_plan(plan, data, "rtl")
    right(measured)
    assert len(plan.mix.runs) == 1 + more
    assert measured.late == []
    for run in plan.mix.runs:
        assert min(measured.starts_ns[task] for task in run.tasks) >= run.begin_ns


@pytest.mark.slow
def test_a_plan_of_measured_groups_takes_what_it_says() -> None:
    """By the model of the units in time: the programs of single units are measured, the plan of both is not."""
    units = ["gemmini-default,dim=8", "gemmini-default,dim=4"]
    made = baco.plan(["resnet18:image=32@runs=2"], units, profiled="timed", seconds=0.3).replay("timed")
    assert made.measured is not None
    right(made.measured)
    assert abs(made.measured.error) < 0.05
    assert made.measured.speedup is not None
    assert made.measured.speedup[1] > 1
    assert made.makespan_ms == made.plan.timetable.makespan * 1e-6
    assert list(made.groups.columns[-2:]) == ["measured_start_ms", "measured_end_ms"]
