"""The comparison of searchers in the large space: its statistics, its page, and the peers that it brings along."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from baco.bench import large_space as bench
from baco.bench.large_space_peers import PEERS, HardwareSearch, Place, TrustRegion
from baco.bench.runs import RunKey, SearchRun
from baco.common.portable import Floats
from baco.exploration.candidate import Candidate
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.search.archive import Archive
from tests.explore.search.test_instruction_search import every_row
from tests.explore.search.test_settings import TINY, setup_of
from tests.explore.search.test_units import LAYERS


def run(network: str, searcher: str, seed: int, *curve: tuple[int, float, float]) -> SearchRun:
    key = RunKey(network, "gemmini-large", searcher, seed, 100, "instruction")
    return SearchRun(key, 2, 400, 60.0, curve)


def test_intervals_are_of_networks_not_of_seeds() -> None:
    """Three networks whose mean logarithms are 1, 2 and 3: t of 97.5% with two degrees of freedom is 4.303 (tables)."""
    ones = {("a", 0): math.exp(0.5), ("a", 1): math.exp(1.5), ("b", 0): math.exp(2), ("c", 0): math.exp(3)}
    found = bench.ratio({**ones, ("d", 0): None}, dict.fromkeys([*ones, ("d", 0), ("e", 0)], 1.0))
    assert found is not None
    assert (found.networks, found.runs) == (3, 4)
    assert math.log(found.mean) == pytest.approx(2)
    assert math.log(found.high) == pytest.approx(2 + 4.303 / math.sqrt(3), rel=1e-3)
    assert math.log(found.low) == pytest.approx(2 - 4.303 / math.sqrt(3), rel=1e-3)
    assert bench.ratio({("a", 0): 1.0}, {("a", 0): 1.0}) is None


def test_runs_are_compared_after_as_long_and_after_as_many_samples(tmp_path: Path) -> None:
    runs = []
    for network in ("m", "n"):
        # main: 4 after 200 evaluations (100 samples), 2 in the end; the peer: 8 after 100 samples, 3 in the end
        runs.append(run(network, bench.MAIN, 0, (10, 1.0, 9.0), (200, 30.0, 4.0), (300, 50.0, 2.0)))
        runs.append(
            run(network, "turbo", 0, (10, 1.0, 9.0), (150, 2.0, 8.0), (210, 55.0, 3.0), (400, 61.0, 1.0))
        )
    found = bench.summary(runs, 100, 60.0)
    assert list(found) == ["turbo"]
    by_time, by_samples = found["turbo"]
    assert by_time is not None
    assert by_samples is not None
    assert by_time.mean == pytest.approx(2 / 3)
    assert by_samples.mean == pytest.approx(4 / 8)
    bench.write(runs, 100, 60.0, tmp_path)
    text = (tmp_path / "large-space.md").read_text()
    assert "| TuRBO, mappings searched | 0.667 [0.667, 0.667] | 0.500 [0.500, 0.500] | 2 |" in text
    assert (tmp_path / "large-space.png").stat().st_size > 1000


def test_a_trust_region_finds_what_trying_everything_finds() -> None:
    """A valley across two coordinates and a lesser one beside it, on a grid of 3,168 places."""
    sizes = (6, 11, 8, 6, 1)
    values = {}
    for place in itertools.product(*map(range, sizes)):
        x = np.array(place) / np.maximum(np.array(sizes) - 1, 1)
        valley = 4 * (x[0] + x[1] - 1.1) ** 2 + (x[1] - 0.8) ** 2 + (x[2] - 0.3) ** 2
        beside = 0.15 + 3 * (x[0] - 0.9) ** 2 + (x[2] - 0.9) ** 2 + (x[3] - 0.1) ** 2
        values[place] = min(valley + 0.5 * (x[3] - 0.6) ** 2, beside)
    optimiser = TrustRegion(sizes, (0, 0, 0, 0, 0), 1)
    asked = []
    for _ in range(70):
        asked.append(optimiser.ask())
        optimiser.tell(values[asked[-1]])
    assert asked[0] == (0, 0, 0, 0, 0)
    order = sorted(values.values())
    assert min(values[place] for place in asked) <= order[5]


def designs_of(search: HardwareSearch) -> list[Candidate]:
    """All that it reports until it is done."""
    found: list[Candidate] = []
    done = False
    while not done:
        result = search.step()
        found += result.candidates
        done = result.done
    return found


class Always:
    """An optimiser that asks for one place and remembers what it was told."""

    def __init__(self, place: Place) -> None:
        self.place, self.told = place, list[float]()

    def ask(self) -> Place:
        return self.place

    def tell(self, value: float) -> None:
        self.told.append(value)


def test_mappings_of_an_accelerator_become_those_that_trying_all_finds() -> None:
    """The second time a search begins with what it knew."""
    choice, sizes = (1, 0, 1), (0, 1, 1)
    there = TINY.at(choice)
    point = tuple(
        v[i] for v, i in zip((TINY.dim, TINY.accumulator_kib, TINY.scratchpad_kib), sizes, strict=True)
    )
    setup = setup_of(TINY, 1500)
    archive = Archive(setup.tasks, there, make_cost_model("instruction", LAYERS, there, None))
    energy: Floats = np.zeros(1)
    cycles: Floats = np.zeros(1)
    for task, one in enumerate(setup.tasks):
        rows = every_row(one.problem, TINY.dim[0])
        archive.add(np.full(len(rows), task), rows)
        pj, time = (found[0] for found in archive.costs(task, archive.point(point)))
        fits = np.isfinite(pj)
        # the best of two sums are sums of those that none beats in both
        order = np.lexsort((time[fits], pj[fits]))
        pj, time = pj[fits][order], time[fits][order]
        first = np.concatenate([[True], time[1:] < np.minimum.accumulate(time)[:-1]])
        energy = (energy[:, None] + pj[first]).ravel()
        cycles = (cycles[:, None] + time[first]).ravel()
    least = float((energy * 1e-6 * cycles).min()) * 1000 / 1000  # at 1 GHz
    optimiser = Always((*sizes, *choice))
    search = HardwareSearch(setup, lambda *_: optimiser, mappings=250)
    found = designs_of(search)
    assert {(one.accelerator.dma_bits, one.accelerator.memory_gb_s) for one in found} == {(64, 2)}
    assert len(optimiser.told) > 3
    assert optimiser.told == sorted(optimiser.told, reverse=True)
    assert least * (1 - 1e-9) <= found[-1].objective <= least * 1.02


@pytest.mark.parametrize("name", PEERS)
def test_peers_price_designs_as_their_accelerators_say(name: str) -> None:
    def found() -> list[Candidate]:
        return designs_of(HardwareSearch(setup_of(TINY, 120), PEERS[name], mappings=40))

    designs = found()
    assert [design.objective for design in designs] == sorted(
        (design.objective for design in designs), reverse=True
    )
    for design in designs:
        machine = design.accelerator
        assert TINY.constraints.area_mm2 is not None
        assert machine.area_mm2 <= TINY.constraints.area_mm2
        costs = instruction_costs(LAYERS, design.mappings, machine)
        cycles = sum(task.count * cost.latency_cycles for task, cost in zip(design.tasks, costs, strict=True))
        energy = sum(task.count * cost.energy_pj for task, cost in zip(design.tasks, costs, strict=True))
        assert design.objective == pytest.approx(energy * 1e-6 * cycles * 1000 / machine.clock_mhz, rel=1e-9)
    assert [design.objective for design in found()] == [design.objective for design in designs]
