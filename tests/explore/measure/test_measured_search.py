"""Searching with measurements: against brute force over everything that could have been measured."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.registry import mapping_of
from baco.exploration.measure.alternatives import MachineAlternatives
from baco.exploration.measure.belief import Belief, PredictionSubject
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.loop import Design, Expected, MeasuredSearch, Round
from baco.exploration.measure.measurement import Measurement
from baco.exploration.objective import Objective
from baco.workloads.network import Task
from baco.workloads.problem import Problem
from tests.seeds import some

EDP = Objective.parse("edp")
TASKS = (
    Task("net", Problem(P=40, K=24, C=36), 2.0, ("a",)),
    Task("net", Problem(P=12, Q=12, R=3, S=3, K=8, C=8), 1.0, ("b",)),
    Task("net", Problem(P=1, K=64, C=48), 3.0, ("c",)),
)
LAYERS = tuple(Layer(task.problem, scale=2.0**-8) for task in TASKS)
NAMES = [task.name for task in TASKS]


def machine(dim: int) -> MachineAlternatives:
    accelerator = load_accelerator("gemmini-default").replace(
        name=f"dim{dim}", dim=dim, scratchpad_kib=16, accumulator_kib=8
    )
    mappings = [
        mapping_of(layer, choices(layer, accelerator, style="macro")[0].schedule, accelerator)
        for layer in LAYERS
    ]
    found = MachineAlternatives.of(accelerator, mappings, LAYERS, NAMES)
    assert found is not None
    return found


class Truth:
    """Measurements that disagree with predictions by a factor of the schedule's own, and are the same each time."""

    def __init__(self, machines: Sequence[MachineAlternatives], wrong: frozenset[str] = frozenset()) -> None:
        self.machines, self.wrong = machines, wrong
        self.asked: list[str] = []

    def cost(self, job: MeasurementJob) -> Measurement:
        one = next(a for m in self.machines for ones in m.found for a in ones if a.job is job)
        if one.key in self.wrong:
            return Measurement("failed", "output[0] is 1, should be 2")
        # not the key, which changes with the compiler's sources
        subject = f"{one.job.accelerator.dim} {one.job.name} {one.job.schedule}"
        draw = np.random.default_rng(zlib.crc32(subject.encode()))
        factor = math.exp(draw.normal(0.02, 0.15))
        energy = one.energy_pj * math.exp(draw.normal(0.0, 0.02))
        return Measurement("measured", cycles=round(one.cycles * factor), energy_pj=energy)

    def __call__(self, jobs: Sequence[MeasurementJob]) -> list[Measurement]:
        self.asked += [
            a.key for j in jobs for m in self.machines for ones in m.found for a in ones if a.job is j
        ]
        return [self.cost(job) for job in jobs]


def edp(costs: Sequence[Measurement]) -> float:
    energy = sum(task.count * one.energy_pj for task, one in zip(TASKS, costs, strict=True))
    cycles = sum(task.count * one.cycles for task, one in zip(TASKS, costs, strict=True))
    return energy * 1e-6 * cycles


def brute_force(machines: Sequence[MachineAlternatives], truth: Truth) -> float:
    best = math.inf
    for one in machines:
        measured = [
            [cost for a in ones if (cost := truth.cost(a.job)).status == "measured"] for ones in one.found
        ]
        best = min([best, *(edp(chosen) for chosen in itertools.product(*measured))])
    return best


def run(
    budget: float, dims: Sequence[int] = (4, 8), **options: object
) -> tuple[Design, MeasuredSearch, Truth, list[Round]]:
    machines = [machine(dim) for dim in dims]
    machines.sort(key=lambda one: predicted(one))
    truth = Truth(machines)
    rounds: list[Round] = []
    search = MeasuredSearch(
        TASKS,
        EDP,
        machines,
        truth,
        budget,
        watch=rounds.append,
        **options,  # type: ignore[arg-type]
    )
    found = search.run()
    assert found is not None
    return found, search, truth, rounds


def measured(design: Design | None) -> float:
    assert design is not None
    assert design.measured is not None
    return EDP.scalar(design.measured)


def predicted(one: MachineAlternatives) -> float:
    energy = sum(task.count * ones[0].energy_pj for task, ones in zip(TASKS, one.found, strict=True))
    cycles = sum(task.count * ones[0].cycles for task, ones in zip(TASKS, one.found, strict=True))
    return energy * cycles


def test_ample_budget_finds_the_best_of_all_combinations() -> None:
    found, search, truth, rounds = run(3e6)
    known = {a.key for m in search.machines for ones in m.found for a in ones}
    contenders = [m for m in search.machines if all(a.key in truth.asked for ones in m.found for a in ones)]
    assert contenders, "an ample budget measures whatever the leading machine can do"
    assert len(known) > 3 * len(TASKS)
    assert measured(found) == pytest.approx(brute_force(contenders, truth), rel=1e-12)
    assert search.first is not None
    assert measured(found) < measured(search.first)
    assert len(truth.asked) == len(set(truth.asked)), "nothing is measured twice"
    assert [round_.cycles for round_ in rounds] == sorted(round_.cycles for round_ in rounds)
    assert [round_.objective for round_ in rounds] == sorted(
        (round_.objective for round_ in rounds), reverse=True
    )


def test_costs_of_the_winner_are_those_measured() -> None:
    found, search, truth, _ = run(1e6)
    costs = []
    home = next(m for m in search.machines if m.accelerator == found.accelerator)
    for ones, mapping in zip(home.found, found.mappings, strict=True):
        costs.append(truth.cost(next(a for a in ones if a.mapping == mapping).job))
    assert edp(costs) == pytest.approx(measured(found), rel=1e-12)
    assert found.measured.source == "measured"


@pytest.mark.parametrize("budget", some(1, [2e4, 1e5, 4e5]))
def test_budget_is_kept_and_never_worse_than_the_first(budget: float) -> None:
    found, search, truth, _ = run(budget)
    assert search.spent <= budget
    simulated = sum(truth.cost(a.job).cycles for m in search.machines for ones in m.found for a in ones
                    if a.key in truth.asked)  # fmt: skip
    assert search.spent + search.verified == simulated
    assert search.first is not None
    assert measured(found) <= measured(search.first)


def test_equal_runs_are_equal() -> None:
    one, first, asked, _ = run(3e5)
    two, second, again, _ = run(3e5)
    assert (one, first.spent, asked.asked) == (two, second.spent, again.asked)


def test_wrong_results_are_told_and_never_win() -> None:
    machines = [machine(4)]
    truth = Truth(machines, wrong=frozenset({machines[0].found[1][0].key}))
    search = MeasuredSearch(TASKS, EDP, machines, truth, 1e6)
    found = search.run()
    assert search.first is None, "the predicted best has a layer that went wrong"
    assert any("should be 2" in text for text in search.failures)
    assert found is not None
    assert found.mappings[1] != machines[0].found[1][0].mapping


def test_bounds_hold_for_the_winner() -> None:
    free, _, _, _ = run(1e6)
    # that something be slower can always be had; less energy than the winner's may not exist
    limit = free.measured.latency_cycles * 1.001

    def allowed(_: Accelerator, costs: Sequence[Expected]) -> bool:
        return sum(t.count * one.cycles for t, one in zip(TASKS, costs, strict=True)) >= limit

    bounded, _, _, _ = run(1e6, allowed=allowed)
    assert bounded.measured.latency_cycles >= limit
    assert (bounded.accelerator, bounded.mappings) != (free.accelerator, free.mappings)
    machines = [machine(4)]
    impossible = MeasuredSearch(TASKS, EDP, machines, Truth(machines), 1e6, allowed=lambda _, __: False).run()
    assert impossible is None


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="no design"):
        MeasuredSearch(TASKS, EDP, [], lambda _: [], 1.0)
    with pytest.raises(InputError, match="measures nothing"):
        MeasuredSearch(TASKS, EDP, [machine(4)], lambda _: [], 0.0)


def test_belief_is_the_conditional_of_a_normal_distribution() -> None:
    """Against the textbook formula on the full covariance, and a simulation of the parts."""
    programs = [
        PredictionSubject("loop_ws", machine, layer, log, 0.05)
        for machine, layer, log in (("m", "a", 0.0), ("m", "b", 0.1), ("n", "a", -0.1), ("n", "c", 0.0))
    ] + [PredictionSubject("explicit", "m", "a", 0.0, 0.2)]
    draw = np.random.default_rng(1)
    n = 400_000
    style = {s: draw.normal(0, 0.06, n) for s in ("loop_ws", "explicit")}
    both = {(p.style, p.machine): draw.normal(0, 0.04, n) for p in programs}
    layer = {(p.style, p.layer): draw.normal(0, 0.06, n) for p in programs}
    value = np.array(
        [
            p.log + style[p.style] + both[p.style, p.machine] + layer[p.style, p.layer]
            + draw.normal(0, p.deviation, n)
            for p in programs
        ]
    )  # fmt: skip
    belief = Belief()
    seen = (0.12, -0.02)
    belief.learn(programs[0], seen[0])
    belief.learn(programs[1], seen[1])
    mean, deviation = belief.predict(programs[2:])
    # regression of the others on the two that are known, from the simulated draws
    known = value[:2] - np.array([[programs[0].log], [programs[1].log]])
    for place, program in enumerate(programs[2:]):
        target = value[place + 2] - program.log
        weights = np.linalg.lstsq(known.T, target, rcond=None)[0]
        expected = program.log + weights @ (np.array(seen) - [programs[0].log, programs[1].log])
        assert mean[place] == pytest.approx(expected, abs=2e-3)
        left = (target - weights @ known).std()
        assert deviation[place] == pytest.approx(left, rel=1e-2)
    assert deviation[0] < deviation[-1]
    # of a weighted sum
    weights = np.array([0.5, 0.2, 0.3])
    target = weights @ (value[2:] - np.array([[one.log] for one in programs[2:]]))
    left = (target - np.linalg.lstsq(known.T, target, rcond=None)[0] @ known).std()
    assert belief.spread(programs[2:], weights) == pytest.approx(left, rel=1e-2)
