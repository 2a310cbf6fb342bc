"""`baco.Study`: a search in steps, with callbacks, a user's own objective, interruptions, and spaces made in Python."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import baco
from baco.api.preparation import SearchOptions
from baco.api.search_call import call_of
from baco.api.space import design_space
from baco.common.errors import InfeasibleError, InputError, StorageError
from baco.exploration.candidate import BatchSummary, Cost
from baco.exploration.measure.measured_study import MeasuredOutcome
from baco.exploration.objective import FunctionMetric, Objective
from baco.exploration.studies.study import StudyRecord
from baco.main import run as main_run

pytestmark = pytest.mark.usefixtures("short_reports")

TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 14, Q: 14, C: 8, K: 16, count: 2}
  - {name: product, type: gemm, M: 64, K: 50, N: 48}
"""
SPACE = baco.Space(dim=[4, 8, 16], scratchpad_kib=[8, 16, 32], accumulator_kib=[4, 8], units="none")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.yaml").write_text(TABLE)
    return tmp_path / "table.yaml"


def wide(cost: Cost) -> float:
    """An architect's price: silicon, and time."""
    return 3e6 * cost.area_mm2 + cost.latency_cycles


def test_a_study_searches_in_steps_and_goes_on_in_another_session(table: Path) -> None:
    study = baco.Study(table, SPACE)
    with pytest.raises(InputError, match="nothing has been searched yet"):
        _ = study.best
    assert "nothing searched yet" in repr(study)
    assert "nothing searched yet" in study._repr_html_()
    assert study.optimize(samples=30) is study
    assert study.stopped == "budget"
    assert 30 <= study.samples <= 31
    first = study.best.objective
    assert study.front
    assert len(study.frame()) >= len(study.front)
    study.optimize(samples=20)
    assert 50 <= study.samples <= 53
    assert study.best.objective <= first
    again = baco.load_study(study.folder)
    assert again.best == study.best
    assert again.space == SPACE
    assert again.networks == ["small"]
    again.optimize(samples=20)
    assert 70 <= again.samples <= 75
    assert again.best.objective <= study.best.objective
    assert again.report().name == "report.html"
    assert "samples" in again._repr_html_()


def test_one_call_is_a_study_that_can_go_on(table: Path) -> None:
    study = baco.explore(table, space=SPACE, samples=20, progress=False)
    assert isinstance(study, baco.Study)
    assert isinstance(study, baco.Result)
    assert study.optimize(samples=10).samples >= 30


def test_the_same_steps_find_the_same(table: Path) -> None:
    found = []
    for name in ("one", "two"):
        study = baco.Study(table, SPACE, seed=3, out=table.parent / name)
        study.optimize(samples=20).optimize(samples=20)
        found.append((study.best, [one.cost for one in study.front], study.samples))
    assert found[0] == found[1]


def test_studies_without_a_folder_do_not_get_in_each_others_way(table: Path) -> None:
    one, two = baco.Study(table, SPACE), baco.Study(table, SPACE)
    one.optimize(samples=10), two.optimize(samples=10)
    assert one.folder != two.folder
    with pytest.raises(StorageError, match="already here"):
        baco.Study(table, SPACE, out=one.folder)
    assert baco.Study(table, SPACE, out=one.folder, resume=True).samples == one.samples


def test_callbacks_see_the_best_so_far_and_may_stop(table: Path) -> None:
    seen: list[tuple[int, float]] = []

    def watch(study: baco.Study, summary: BatchSummary) -> None:
        seen.append((summary.evaluations, study.best.objective))
        assert summary.best_objective == study.best.objective
        if len(seen) == 2:
            study.stop()

    study = baco.Study(table, SPACE).optimize(samples=1000, callbacks=[watch])
    assert len(seen) == 2
    assert study.stopped == "interrupted"
    assert study.samples < 1000
    study.optimize(samples=20)
    assert study.stopped == "budget"


def test_a_callback_that_fails_ends_the_call_and_leaves_the_study(table: Path) -> None:
    def fail(study: baco.Study, summary: BatchSummary) -> None:
        raise ZeroDivisionError("mine")

    study = baco.Study(table, SPACE)
    with pytest.raises(ZeroDivisionError, match="mine"):
        study.optimize(samples=100, callbacks=[fail])
    assert study.samples > 0
    assert study.best.objective > 0
    study.optimize(samples=10)


def test_an_interruption_leaves_a_usable_study(table: Path) -> None:
    def interrupt(study: baco.Study, summary: BatchSummary) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    study = baco.Study(table, SPACE).optimize(samples=1000, callbacks=[interrupt])
    assert study.stopped == "interrupted"
    assert study.best.objective > 0
    assert study.optimize(samples=10).stopped == "budget"


def test_a_function_of_costs_decides_what_is_best(table: Path) -> None:
    """The best by a function is better by it than what other objectives lead to, and than all that was kept."""
    by_function = baco.Study(table, SPACE, wide, seed=1).optimize(samples=150)
    assert by_function.best.objective == wide(by_function.best.cost)
    assert all(wide(one.cost) >= by_function.best.objective for one in by_function.front)
    for metric in ("edp", "latency"):
        other = baco.Study(table, SPACE, metric, seed=1).optimize(samples=150)
        assert wide(other.best.cost) > by_function.best.objective
    assert str(by_function.objective) == "wide()"
    assert "objective=wide" in by_function.data.command
    page = by_function.report().read_text(encoding="utf-8")
    assert "wide()" in page


def test_the_energy_delay_product_as_a_function_finds_the_same_as_by_name(table: Path) -> None:
    named = baco.Study(table, SPACE, "edp").optimize(samples=60)
    own = baco.Study(table, SPACE, lambda cost: cost.edp).optimize(samples=60)
    assert own.best.cost == named.best.cost
    assert own.best.accelerator == named.best.accelerator
    assert str(own.objective) == "objective()"


def test_two_objectives_one_of_them_a_function(table: Path) -> None:
    study = baco.Study(table, SPACE, [wide, "energy"]).optimize(samples=100)
    costs = [(wide(one.cost), one.cost.energy_pj) for one in study.front]
    assert costs == sorted(costs)
    assert all(not (a[0] <= b[0] and a[1] <= b[1]) for a in costs for b in costs if a is not b)


@pytest.mark.parametrize(
    "sampler", ["local", "random", "bayesian", "genetic", "two-loop", "evolution", "dosa"]
)
def test_every_sampler_ranks_by_a_function(sampler: str, table: Path) -> None:
    """Negative values, too: the best is the best of all that was kept."""

    def worth(cost: Cost) -> float:
        return cost.area_mm2 + 1e-6 * cost.latency_cycles - 100

    study = baco.Study(table, SPACE, worth, sampler=sampler, whole=False).optimize(samples=60)
    assert study.best.objective == worth(study.best.cost) < 0
    assert all(worth(one.cost) >= study.best.objective for one in study.front)
    assert study.sampler == sampler


def test_a_study_of_a_function_needs_it_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = baco.Study(table, SPACE, wide).optimize(samples=20)
    monkeypatch.setattr("baco.exploration.objective._given", {})  # as in another process
    with pytest.raises(InputError, match=r"the Python function `wide\(\)`, which no file holds"):
        baco.load_study(study.folder).report()
    with pytest.raises(InputError, match=r"minimises wide\(\), not edp"):
        baco.load_study(study.folder, objective=["edp"])
    again = baco.load_study(study.folder, objective=wide)
    assert again.optimize(samples=10).best.objective <= study.best.objective


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda cost: 1 / 0, "ZeroDivisionError"),
        (lambda cost: "much", "ValueError"),
        (lambda cost: math.inf, "is inf for"),
        (lambda: 1, "TypeError"),
        (lambda cost: cost.speed, "no attribute 'speed'"),
    ],
)
def test_functions_that_are_none(function: object, message: str, table: Path) -> None:
    with pytest.raises(InputError, match=message):
        baco.Study(table, SPACE, function).optimize(samples=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [
        lambda cost: cost.edp * cost.area_mm2,
        lambda cost: cost.edp if cost.area_mm2 < 1 else 2 * cost.edp,
        lambda cost: math.log(cost.latency_cycles) + cost.energy_uj,
        lambda cost: max(cost.latency_cycles, 1e5) + cost.area_mm2,
        lambda cost: 7,
        lambda cost: -1 / cost.edp,
    ],
)
def test_functions_of_arrays_are_those_of_their_numbers(function: object) -> None:
    rng = np.random.default_rng(0)
    latency, energy, area = rng.uniform(1e3, 1e6, (3, 4, 5)) * np.array([1.0, 1e3, 2e-6])[:, None, None]
    latency[1, 2] = np.inf
    metric = FunctionMetric.of(function)  # type: ignore[arg-type]
    for _ in range(2):  # the second time, it is known whether it takes arrays
        found = metric.of_arrays(Cost(latency, energy, area))  # type: ignore[arg-type]
        for index in np.ndindex(latency.shape):
            one = Cost(float(latency[index]), float(energy[index]), float(area[index]))
            assert found[index] == (
                pytest.approx(function(one), rel=1e-12) if np.isfinite(latency[index]) else np.inf
            )  # type: ignore[operator]


def test_objectives_that_are_none() -> None:
    with pytest.raises(InputError, match="unknown objective 'speed'"):
        baco.Study("resnet18", objective="speed")
    with pytest.raises(InputError, match="objective must be text, a function or a list"):
        baco.Study("resnet18", objective=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown objective"):
        Objective.parse("wide()")
    with pytest.raises(InputError, match="names a metric twice"):
        Objective.parse([wide, wide])


def test_budgets_and_callbacks_that_are_none(table: Path) -> None:
    study = baco.Study(table, SPACE)
    with pytest.raises(InputError, match="samples must be a whole number of at least 1, not 0"):
        study.optimize(samples=0)
    with pytest.raises(InputError, match="callbacks must be"):
        study.optimize(samples=1, callbacks=lambda s, b: None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="callbacks must be"):
        study.optimize(samples=1, callbacks=[3])  # type: ignore[list-item]
    assert not study.folder.exists()


def test_an_infeasible_study_says_so_and_can_be_looked_at(table: Path) -> None:
    study = baco.Study(table, SPACE, constraints={"latency_cycles": 10})
    with pytest.raises(InfeasibleError, match="latency_cycles"):
        study.optimize(samples=10)
    assert "Study small" in repr(study)


# ------------------------------------------------------------------ spaces


def test_a_space_in_python_is_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(
        "dim: [8, 16]\nscratchpad_kib: [64]\naccumulator_kib: [16, 32]\nconstraints: {area_mm2: 3}\n"
    )
    values = {"dim": range(8, 17, 8), "scratchpad_kib": 64, "accumulator_kib": [16, 32]}
    made = baco.Space.load(file).replace(constraints={"area_mm2": 2})
    assert made.constraints == {"area_mm2": 2}
    assert made.dim == (8, 16)
    assert made == baco.Space.load(file).replace(**values, constraints={"area_mm2": 2})
    assert baco.Space.load(made.save(tmp_path / "again.yaml")) == made
    assert hash(made) == hash(baco.Space.load(tmp_path / "again.yaml"))


def test_replacing_leaves_the_rest_of_any_space() -> None:
    for name in ("gemmini", "gemmini-large", "reference"):
        space = baco.Space.load(name)
        assert space.replace() == space
        changed = space.replace(dim=[16])
        assert changed.dim == (16,)
        assert changed.dataflows == space.dataflows
        assert changed != space
        assert changed.design.rules == space.design.rules
        assert changed.design.search_units == space.design.search_units
    bounded = baco.Space(constraints={"area_mm2": 2, "power_mw": 300})
    assert bounded.replace(constraints={"area_mm2": None}).constraints == {"power_mw": 300}
    assert bounded.replace(settings={"dma_bits": [64, 128]}).settings == {"dma_bits": (64, 128)}


def test_the_accelerators_of_a_space() -> None:
    frame = SPACE.accelerators()
    assert len(frame) == len(SPACE) > 3
    row = frame.iloc[-1]
    sizes = int(row["dim"]), int(row["accumulator_kib"]), int(row["scratchpad_kib"])
    one = SPACE.accelerator(*sizes)
    assert one in SPACE
    assert one.area_mm2 == pytest.approx(row["area_mm2"])
    assert one.replace(dim=32, scratchpad_kib=256, accumulator_kib=64) not in SPACE
    assert "text" not in SPACE
    assert one.replace(dma_bits=64) not in SPACE
    with pytest.raises(InputError, match="has no accelerator of side 64"):
        SPACE.accelerator(64, 8, 8)


def test_spaces_that_are_none() -> None:
    with pytest.raises(InputError, match=r"space \(dims\): unknown key 'dims'"):
        baco.Space(dims=[4])
    with pytest.raises(InfeasibleError, match=r"space \(dim\[0\]\): 'dim' cannot be 5"):
        SPACE.replace(dim=5)
    with pytest.raises(InputError, match="unknown space 'gemini'"):
        baco.Space.load("gemini")


def test_a_study_goes_on_from_its_folder_alone(tmp_path: Path) -> None:
    space = {"dim": [8, 16], "scratchpad_kib": [64], "accumulator_kib": [16, 32]}
    made = baco.Study("deepbench_face", space, out=tmp_path / "s", sampler="random", seed=3, samples=10)
    made.optimize(progress=False)
    assert made.samples == 10
    with StudyRecord.open(made.path, read_only=True) as record:
        command = record.provenance["command"]
    assert "space={'dim': [8, 16], 'scratchpad_kib': [64], 'accumulator_kib': [16, 32]}" in command
    again = baco.explore(out=tmp_path / "s", resume=True, samples=20, progress=False)
    assert (again.samples, again.sampler, again.space) == (20, "random", made.space)
    assert (
        main_run("baco", ["explore", "--out", str(tmp_path / "s"), "--resume", "--samples", "25", "-q"]) == 0
    )
    assert baco.load_study(tmp_path / "s").samples == 25
    with pytest.raises(baco.InputError, match="seed is the study's, where no network is given"):
        baco.explore(out=tmp_path / "s", resume=True, seed=4)
    with pytest.raises(baco.InputError, match="the study minimises edp, not area"):
        baco.explore(out=tmp_path / "s", resume=True, objective="area")


@pytest.mark.parametrize(
    ("space", "written"),
    [
        ("gemmini", "gemmini"),
        (baco.Space.load("reference"), "reference"),
        (baco.Space(dim=8), {"dim": [8]}),
        (baco.Space.load().replace(constraints={"area_mm2": 20.0}), {"constraints": {"area_mm2": 20.0}}),
        (
            baco.Space.load().replace(technology="published-45nm"),
            {
                "technology": "published-45nm",
                "fixed": {"energy": {"clock_pj_per_mm2": 40.0, "leakage_mw_per_mm2": 18.0}},
                "constraints": {"area_mm2": 5.0},
            },
        ),
    ],
    ids=str,
)
def test_a_space_is_written_as_an_argument_that_makes_it(space: Any, written: object, tmp_path: Path) -> None:
    made = SearchOptions("deepbench_face", space, out=tmp_path).prepared()
    call = call_of(made)
    assert f"space={written!r}" in call
    assert baco.Space.of(design_space(written)) == baco.Space.of(made.space)


def test_workers_do_not_run_the_users_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from baco.exploration.executors.tasks import Call, gather\n"
        "from baco.exploration.executors.executor_choice import ExecutorChoice\n"
        "print('begun', flush=True)\n"
        "with ExecutorChoice('local', 2).executor() as executor:\n"
        "    print(gather(executor, [Call(str(n), pow, (n, 2)) for n in range(4)]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(baco.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=True,
    )
    assert done.stdout.split("\n") == ["begun", "[0, 1, 4, 9]", ""]


def test_a_measured_outcome_shows_itself_in_a_line() -> None:
    shown = repr(MeasuredOutcome(None, None, (), 1_000_000, 20, ("one failed",) * 300, "done"))
    assert shown == "<MeasuredOutcome 1,000,000 cycles in 0 rounds, 20 beyond the budget; 300 failures; done>"


@pytest.mark.parametrize("sampler", ["random", "bayesian", "two-loop"])
def test_what_is_told_as_predicted_is_what_optimize_finds(sampler: str, table: Path) -> None:
    asked = baco.Study(table, SPACE, sampler=sampler, seed=1, samples=30, out="asked")
    numbers = []
    while (trial := asked.ask()) is not None:
        numbers.append(trial.number)
        assert all(one is None or one.accelerator in SPACE for one in trial.designs)
        asked.tell(trial)
    assert numbers == list(range(len(numbers)))
    assert asked.samples == 30
    alone = baco.Study(table, SPACE, sampler=sampler, seed=1, samples=30, out="alone").optimize(
        progress=False
    )
    assert asked.best == alone.best


class Listening(baco.Sampler):
    """Two random designs at a time; keeps the scores that it is told."""

    heard: ClassVar[list[np.ndarray[Any, Any]]] = []

    def ask(self, rng: np.random.Generator) -> baco.Asked:
        point = self.problem.hardware.random(2, rng)
        return baco.Asked(self.problem.drawn(point, 1, rng), point)

    def tell(self, asked: baco.Asked, answer: baco.Answer) -> None:
        self.heard.append(answer.scores)


def test_a_sampler_learns_what_it_is_told(table: Path) -> None:
    Listening.heard.clear()
    study = baco.Study(table, SPACE, sampler=Listening, seed=0, samples=6, out="told")
    for values in (None, [5.0, None], [(7.0,), (2.0,)]):
        trial = study.ask()
        assert trial is not None
        study.tell(trial, values)
    assert study.ask() is None
    predicted, some, all_told = Listening.heard
    assert predicted.shape == some.shape == all_told.shape == (2, 1)
    assert some[0, 0] == pytest.approx(math.log(5))
    assert some[1, 0] > predicted.max() + 20, "a design that is out of question is worse than any"
    assert all_told[:, 0] == pytest.approx([math.log(7), math.log(2)])


def test_asking_ends_early_and_goes_on(table: Path) -> None:
    study = baco.Study(table, SPACE, sampler="random", samples=200, out="early")
    trial = study.ask()
    assert trial is not None
    with pytest.raises(InputError, match="trial 0 has not been told of"):
        study.ask()
    with pytest.raises(InputError, match=rf"the trial has {len(trial.designs)} designs"):
        study.tell(trial, [1.0] * (len(trial.designs) + 1))
    with pytest.raises(InputError, match="a positive number, or None"):
        study.tell(trial, [-1.0] * len(trial.designs))
    study.tell(trial)
    study.ask()
    study.stop()
    assert 0 < study.samples < 200
    with pytest.raises(InputError, match="nothing has been asked"):
        study.tell(trial)
    assert study.optimize(samples=5, progress=False).best.cost.edp > 0
    with pytest.raises(InputError, match="the search 'gradient' judges its designs itself"):
        baco.Study(table, SPACE, out="gradient").ask()
