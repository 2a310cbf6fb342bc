"""A sampler of one's own: the worked example of docs/samplers.md by the rules of all searches, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import baco
from baco.exploration.candidate import Cost
from baco.exploration.samplers.sampler import SampledSearch
from baco.exploration.samplers.searchers import adopt_sampler, check_searcher, make_searcher
from baco.exploration.search.searcher import SearchSetup
from tests.explore import searcher_conformance as conformance
from tests.explore.search.test_searchers import setup_in
from tests.explore.study_helpers import content
from tests.user_module import page_module

PAGE = (Path(__file__).parents[3] / "docs" / "samplers.md").read_text("utf-8")


@pytest.fixture(scope="module")
def climb(tmp_path_factory: pytest.TempPathFactory) -> type[baco.Sampler]:
    """The class of the page."""
    kind: type[baco.Sampler] = page_module(PAGE, tmp_path_factory.mktemp("page") / "climb.py").Climb
    return kind


@pytest.mark.parametrize("space", ["gemmini", "reference"])
def test_the_example_keeps_to_the_rules(climb: type[baco.Sampler], space: str) -> None:
    def make(setup: SearchSetup) -> SampledSearch:
        return SampledSearch(setup, climb)

    conformance.check_determinism(make, setup_in("climb", space, 300))
    conformance.check_state(make, setup_in("climb", space, 300))
    conformance.check_budget(make, setup_in("climb", space, 300))
    conformance.check_tiny_budgets(make, setup_in("climb", space, 1))
    conformance.check_candidates(make, setup_in("climb", space, 300), conformance.model_cost)


def test_a_study_of_it_goes_on_and_is_told_apart(climb: type[baco.Sampler], tmp_path: Path) -> None:
    space = {"rules": "reference", "dim": [8, 16], "scratchpad_kib": [64, 128], "accumulator_kib": [16, 32]}
    given = {"space": space, "seed": 2, "progress": False, "proof": False}

    def explore(folder: str, **more: object) -> baco.Result:
        return baco.explore("deepbench_ocr", out=tmp_path / folder, **{**given, **more})  # type: ignore[arg-type]

    straight = explore("straight", sampler=climb, samples=80)
    assert straight.stopped == "budget"
    explore("parts", sampler=climb, samples=40)
    parts = explore("parts", sampler=climb, samples=80, resume=True)
    assert parts.best.cost == straight.best.cost
    one, other = (content(tmp_path / folder / "study.sqlite") for folder in ("parts", "straight"))
    for part in (one, other):  # the first half was the end of a smaller budget
        part["batches"] = [row[:-1] for row in part["batches"]]
    assert one == other
    with pytest.raises(baco.InputError, match="searcher is climb:Climb in the study, random now"):
        explore("parts", search="random", samples=90, resume=True)


class Nothing(baco.Sampler):
    """Proposes what is no design."""

    wrong: object = None

    def ask(self, rng: np.random.Generator) -> baco.Asked:
        return self.wrong  # type: ignore[return-value]


class Silent(baco.Sampler):
    """Does not propose."""


class Listing(baco.Sampler):
    """Remembers a list."""

    def __init__(self, problem: baco.SamplerProblem) -> None:
        super().__init__(problem)
        self.seen: list[int] = []

    def ask(self, rng: np.random.Generator) -> baco.Asked:
        return baco.Asked(self.problem.drawn(self.problem.hardware.random(1, rng), 1, rng))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Silent, "Silent has no method 'ask'"),
        (object, "object is no sampler"),
        (3, "sampler must be text or a class, not 3"),
        (lambda problem: None, "sampler must be text or a class, not <function"),
    ],
)
def test_what_is_no_sampler_is_refused_before_the_search(kind: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(baco.InputError, match=message):
        baco.explore("deepbench_ocr", sampler=kind, out=tmp_path / "out", samples=5)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_one_strategy_at_a_time(climb: type[baco.Sampler]) -> None:
    with pytest.raises(baco.InputError, match="search names another"):
        baco.explore("deepbench_ocr", search="random", sampler=climb, samples=5)


def test_a_sampler_that_nobody_passed_is_unknown() -> None:
    adopted = adopt_sampler(Listing)
    check_searcher(adopted)
    with pytest.raises(baco.InputError, match="the sampler 'elsewhere:Mine' is not known here"):
        check_searcher("elsewhere:Mine")


def rows(problem: baco.SamplerProblem, designs: int, mappings: int) -> np.ndarray:  # type: ignore[type-arg]
    rng = np.random.default_rng(0)
    return problem.drawn(problem.hardware.random(designs, rng), mappings, rng)


def test_what_is_no_design_is_refused() -> None:
    setup = setup_in("own", "gemmini", 50)
    search = SampledSearch(setup, Nothing)
    some = rows(search.problem, 2, 3)
    for wrong, message in (
        (None, "Nothing.ask proposes nothing"),
        ([1, 2], "Nothing.ask must return baco.Asked or None, not list"),
        (baco.Asked(some[0]), "genomes must be"),
        (baco.Asked(some), "3 mappings of a layer to choose from need the hardware"),
        (baco.Asked(some, np.ones((3, 3))), r"point must be \(2, 3\), not \(3, 3\)"),
        (baco.Asked(some, np.full((2, 3), 17.0)), "sizes of hardware that the space has not"),
    ):
        Nothing.wrong = wrong
        with pytest.raises(baco.InputError, match=message):
            search.step()
    listing = make_searcher(adopt_sampler(Listing), setup)
    with pytest.raises(baco.InputError, match=r"a study cannot keep Listing\.seen, which is of type list"):
        listing.state()


def test_what_the_budget_has_no_room_for_is_left_out() -> None:
    setup = setup_in("own", "gemmini", 7)
    told: list[tuple[int, ...]] = []

    class Greedy(baco.Sampler):
        def ask(self, rng: np.random.Generator) -> baco.Asked:
            point = self.problem.hardware.random(3, rng)
            return baco.Asked(self.problem.drawn(point, 5, rng), point)

        def tell(self, asked: baco.Asked, answer: baco.Answer) -> None:
            assert answer.energy.shape == asked.genomes.shape[:3]
            assert len(answer.scores) == len(asked.genomes)
            told.append(answer.energy.shape)

    search = SampledSearch(setup, Greedy)
    results = [search.step() for _ in range(2)]
    assert [one.done for one in results] == [False, True]
    assert told == [(1, len(setup.tasks), 5), (1, len(setup.tasks), 2)]
    assert results[-1].evaluations == setup.evaluations


def test_a_study_takes_the_class(climb: type[baco.Sampler], tmp_path: Path) -> None:
    """By prices of the user's own, too."""

    def price(cost: Cost) -> float:
        return cost.area_mm2 * cost.latency_cycles

    for kind in (climb, "bayesian"):
        study = baco.Study("deepbench_ocr", "gemmini", price, sampler=kind, out=tmp_path / str(kind)[:4])
        study.optimize(samples=30, progress=False)
        assert study.best.objective == pytest.approx(price(study.best.cost))
