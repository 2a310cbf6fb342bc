"""What any searcher must do, whatever it is good at. `test_searchers.py` runs it for every one registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from baco.common.arrays import pack_arrays, unpack_arrays
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Requirement, requirement
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.infeasible import PREFIX
from baco.exploration.cost.reference import access_counts, energy_terms, latency_terms
from baco.exploration.search.searcher import BatchResult, Searcher, SearchSetup
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.workloads.network import Task
from tests.explore.study_helpers import equal_states

Make = Callable[[SearchSetup], Searcher]
Recompute = Callable[[Candidate], Cost]

#: Far more steps than any of the small budgets here can take.
_MOST_STEPS = 2000
#: Steps behind a restored snapshot that are compared.
_STEPS_AFTER = 4


def model_cost(candidate: Candidate) -> Cost:
    """The candidate's cost from nothing but its mappings and accelerator, by the reference model."""
    return task_cost(candidate, candidate.tasks)


def task_cost(candidate: Candidate, tasks: tuple[Task, ...]) -> Cost:
    """The share of some of its tasks, counts as given."""
    accelerator = candidate.accelerator
    chosen = dict(zip(candidate.tasks, candidate.mappings, strict=True))
    counts = access_counts(
        ProblemBatch.of([task.problem for task in tasks]), MappingBatch.of([chosen[task] for task in tasks])
    )
    sizes = [
        torch.tensor(float(value), dtype=torch.float64)
        for value in (accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    ]
    times = torch.tensor([task.count for task in tasks], dtype=torch.float64)
    latency = latency_terms(counts, sizes[0], accelerator.dram_bytes_per_cycle).amax(0)
    energy = energy_terms(counts, *sizes, accelerator.energy).sum(0)
    static = (
        accelerator.energy.leakage_mw_per_mm2 * 1e3 / accelerator.clock_mhz
        + accelerator.energy.clock_pj_per_mm2
    )
    energy = energy + static * accelerator.area_mm2 * latency
    return Cost(float((latency * times).sum()), float((energy * times).sum()), accelerator.area_mm2)


def run(searcher: Searcher, steps: int = _MOST_STEPS) -> list[BatchResult]:
    """Step until it is done, at most `steps` times."""
    found: list[BatchResult] = []
    while len(found) < steps and not (found and found[-1].done):
        found.append(searcher.step())
    return found


def same(one: BatchResult, other: BatchResult) -> bool:
    """Equal to the last bit."""
    return (
        list(one.candidates) == list(other.candidates)
        and (one.evaluations, one.phase, one.done) == (other.evaluations, other.phase, other.done)
        and repr(sorted(one.details.items())) == repr(sorted(other.details.items()))
    )


def check_determinism(make: Make, setup: SearchSetup) -> None:
    """Equal set-ups give equal batches, whatever the global random generators hold; seeds matter."""
    np.random.seed(1)
    torch.manual_seed(1)
    one = make(setup)
    first = run(one)
    np.random.seed(2)
    torch.manual_seed(2)
    two = make(setup)
    second = run(two)
    assert len(first) == len(second)
    for number, (left, right) in enumerate(zip(first, second, strict=True)):
        assert same(left, right), f"batch {number} differs between two runs"
    assert equal_states(one.state(), two.state())
    other = run(make(dataclasses.replace(setup, seed=setup.seed + 1)))
    assert any(list(a.candidates) != list(b.candidates) for a, b in zip(first, other, strict=False)), (
        "the seed has no influence"
    )


def check_state(make: Make, setup: SearchSetup) -> None:
    """Restoring a snapshot, as the study keeps it, and stepping gives what stepping on would have."""
    searcher = make(setup)
    results: list[BatchResult] = []
    packed: list[bytes] = []
    while len(results) < _MOST_STEPS and not (results and results[-1].done):
        results.append(searcher.step())
        packed.append(pack_arrays(searcher.state()))
    held = searcher.state()
    before = pack_arrays(held)
    tries = sorted(
        {0, 1, len(results) // 3, len(results) // 2, len(results) - 2} & set(range(len(results) - 1))
    )
    assert tries, "the budget of this test must take several batches"
    for at in tries:
        again = make(setup)
        again.restore(unpack_arrays(packed[at]))
        for number in range(at + 1, min(at + 1 + _STEPS_AFTER, len(results))):
            assert same(again.step(), results[number]), f"batch {number} differs after a restore at {at}"
            assert pack_arrays(again.state()) == packed[number], (
                f"state {number} differs after a restore at {at}"
            )
    # A snapshot is a copy: stepping on, here beyond the end of a larger budget, must not change it.
    larger = make(dataclasses.replace(setup, evaluations=2 * (setup.evaluations or 1)))
    larger.restore(held)
    run(larger, 3)
    assert pack_arrays(held) == before, "the state changes after it was handed out or restored from"


def check_budget(make: Make, setup: SearchSetup) -> None:
    """Evaluations only grow, never exceed the budget, and are spent; done is done."""
    assert setup.evaluations is not None
    searcher = make(setup)
    results = run(searcher)
    spent = [result.evaluations for result in results]
    assert results[-1].done, "it never ends"
    assert not any(result.done for result in results[:-1])
    assert spent == sorted(spent)
    assert spent[-1] <= setup.evaluations
    assert spent[-1] >= 0.5 * setup.evaluations, "it ends long before its budget is used"
    for result in results:
        for candidate in result.candidates:
            assert 0 < candidate.samples <= result.evaluations


def check_tiny_budgets(make: Make, setup: SearchSetup) -> None:
    """Budgets too small for what the searcher likes to do are respected too, and it ends."""
    for samples in (1, 2, 3, 7):
        budget = samples * len(setup.tasks)
        results = run(make(dataclasses.replace(setup, evaluations=budget)))
        assert results[-1].done
        assert results[-1].evaluations <= budget


def check_more_budget(make: Make, setup: SearchSetup) -> None:
    """A search that was done goes on when it gets more, and never gets worse."""
    assert setup.evaluations is not None
    first = make(setup)
    found = [c for result in run(first) for c in result.candidates]
    more = dataclasses.replace(setup, evaluations=2 * setup.evaluations)
    again = make(more)
    again.restore(unpack_arrays(pack_arrays(first.state())))
    results = run(again)
    assert results[-1].evaluations > setup.evaluations
    assert results[-1].evaluations <= 2 * setup.evaluations
    assert results[-1].done
    assert found


def check_candidates(make: Make, setup: SearchSetup, recompute: Recompute) -> None:
    """Every candidate is complete, legal, feasible, and costs what it says."""
    found = [candidate for result in run(make(setup)) for candidate in result.candidates]
    assert found, "nothing was found in a space that is easy"
    for candidate in found:
        check_candidate(candidate, setup, recompute)


def check_candidate(candidate: Candidate, setup: SearchSetup, recompute: Recompute) -> None:
    """One design point against the seams: mapping, requirement, space, constraints, cost."""
    space, accelerator = setup.space, candidate.accelerator
    sizes = (accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    assert candidate.tasks == setup.tasks
    assert len(candidate.mappings) == len(setup.tasks)
    assert accelerator == space.accelerator(*sizes)
    assert bool(np.all(space.allowed(*sizes)))
    for task, mapping in zip(candidate.tasks, candidate.mappings, strict=True):
        mapping.check(task.problem)
        assert mapping.dataflow in space.dataflows
        check_fits(space, candidate, requirement(mapping, task.problem))
        if not space.double_buffer:
            assert mapping.buffering == (1, 1, 1)
    cost = recompute(candidate)
    for name in ("latency_cycles", "energy_pj", "area_mm2"):
        stated, true = getattr(candidate.cost, name), getattr(cost, name)
        assert abs(stated - true) <= 1e-9 * true, f"{name} is {true}, not {stated}"
    assert candidate.cost.source == "predicted"
    assert np.isfinite(candidate.objective)
    values = space.constraints.values(cost, sram_kib=sizes[1] + sizes[2], clock_mhz=accelerator.clock_mhz)
    assert all(value <= bound for value, bound in values.values())


def check_fits(space: DesignSpace, candidate: Candidate, need: Requirement) -> None:
    """The accelerator holds what the mapping needs, by the rule of the space."""
    accelerator = candidate.accelerator
    assert need.dim <= accelerator.dim
    assert need.accumulator_kib(accelerator.dim) <= accelerator.accumulator_kib
    if space.rules == "gemmini":
        assert need.scratchpad_rows * accelerator.dim <= accelerator.scratchpad_kib * 1024
    else:
        assert need.scratchpad_words <= accelerator.scratchpad_kib * 1024


def check_constraints(make: Make, setup: SearchSetup, recompute: Recompute) -> None:
    """Bounds that bind are kept; impossible ones give no candidate and a report of the nearest design."""
    free = [candidate for result in run(make(setup)) for candidate in result.candidates]
    areas = sorted(candidate.cost.area_mm2 for candidate in free)
    tight = Constraints(area_mm2=(areas[0] + areas[-1]) / 2, sram_kib=1e6)
    bounded = dataclasses.replace(setup, space=dataclasses.replace(setup.space, constraints=tight))
    check_candidates(make, bounded, recompute)

    least_latency = min(candidate.cost.latency_cycles for candidate in free)
    impossible = Constraints(latency_cycles=least_latency / 1e4, power_mw=1e9)
    hopeless = dataclasses.replace(setup, space=dataclasses.replace(setup.space, constraints=impossible))
    results = run(make(hopeless))
    assert not any(result.candidates for result in results)
    assert results[-1].done
    details = results[-1].details
    nearest = {path: details[PREFIX + path] for path in impossible.bounds}
    # What it reached must be above the bound, and not absurdly far from what is possible.
    assert impossible.latency_cycles is not None
    # An array of the largest side, always full, would need this long.
    floor = sum(task.count * task.problem.macs for task in setup.tasks) / setup.space.dim[-1] ** 2
    assert impossible.latency_cycles < floor <= nearest["latency_cycles"] <= 1e3 * least_latency
