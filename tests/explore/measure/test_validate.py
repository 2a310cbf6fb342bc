"""Validation: which candidates are measured, what becomes of them, and what a study and a report say of it."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

import baco.exploration.measure.session as running
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError, StorageError
from baco.compiler.layers.layer import Layer
from baco.exploration.candidate import Candidate
from baco.exploration.measure.choose import MOST_LATENCY, choose_candidates
from baco.exploration.measure.compare import model_error
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measured_design import Design, DesignLayer
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.session import STORE_NAME, ValidationOptions, measured_designs, validate_file
from baco.exploration.objective import Objective
from baco.exploration.report.page import page_html
from baco.exploration.report.study_report import report_data, write_study_report
from baco.exploration.report.summary import SCHEMA_PATH
from baco.exploration.studies.study import StudyRecord
from baco.workloads.network import Network, Operator, Task, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.report.test_report_page import Engine, size_of_unit
from tests.explore.report_helpers import report_data as random_report
from tests.explore.study_helpers import new_study
from tests.explore.validate_helpers import explored, fake_measuring, made_up, products

pytestmark = pytest.mark.usefixtures("short_reports")

EDP = Objective.parse("edp")


class Lines:
    """A progress display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.layers: list[tuple[int, str, float | None]] = []
        self.total = 0

    def begin(self, designs: object, layers: int, cycles: float) -> None:
        self.total = layers

    def measured(
        self, finished: int, result: Measurement, job: MeasurementJob, predicted: float | None
    ) -> None:
        self.layers.append((finished, job.name, predicted))

    def note(self, text: str) -> None:
        self.notes.append(text)


# ---------------------------------------------------------------- which candidates


def _candidates(count: int = 12) -> list[Candidate]:
    return list(random_report(candidates=count, seed=3).candidates)


def test_the_best_of_different_accelerators_come_first() -> None:
    found = _candidates()
    twin = replace(found[0], objective=found[0].objective)
    chosen = choose_candidates([*found, twin], EDP, 4, 0)
    assert [name for name, _ in chosen] == ["best 1", "best 2", "best 3", "best 4"]
    ranked = sorted(found, key=lambda candidate: candidate.cost.edp)
    hashes = list(dict.fromkeys(candidate.accelerator.config_hash for candidate in ranked))
    assert [candidate.accelerator.config_hash for _, candidate in chosen] == hashes[:4]
    assert chosen[0][1].cost.edp == ranked[0].cost.edp


def test_with_too_few_accelerators_the_next_best_fill_up() -> None:
    found = _candidates(3)
    worse = [
        replace(candidate, cost=replace(candidate.cost, energy_pj=2 * candidate.cost.energy_pj))
        for candidate in found
    ]
    chosen = choose_candidates([*found, *worse], EDP, 5, 0)
    distinct = {candidate.accelerator.config_hash for candidate in found}
    assert len(chosen) == 5
    assert {candidate.accelerator.config_hash for _, candidate in chosen[: len(distinct)]} == distinct


def test_the_spread_lies_on_the_front_and_is_not_too_slow() -> None:
    found = _candidates(40)
    chosen = choose_candidates(found, EDP, 2, 3)
    best, spread = [candidate for _, candidate in chosen[:2]], [candidate for _, candidate in chosen[2:]]
    assert [name for name, _ in chosen[2:]] == [f"front {i + 1}" for i in range(len(spread))]
    members = [
        candidate
        for candidate in found
        if candidate.front
        and candidate.cost.latency_cycles <= MOST_LATENCY * best[0].cost.latency_cycles
        and all(candidate is not other for other in best)
    ]
    assert len(spread) == min(3, len(members)) > 0
    assert all(any(candidate is member for member in members) for candidate in spread)
    # the first of them is the member farthest from the best ones, by brute force
    points = np.log([[c.cost.latency_cycles, c.cost.energy_pj, c.cost.area_mm2] for c in best + members])
    scaled = (points - points.min(0)) / np.ptp(points, 0)
    distance = [min(((row - other) ** 2).sum() for other in scaled[:2]) for row in scaled[2:]]
    assert spread[0] is members[int(np.argmax(distance))]


def test_no_spread_and_no_candidates() -> None:
    assert choose_candidates([], EDP, 5, 2) == []
    assert len(choose_candidates(_candidates(3), EDP, 100, 0)) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"best": 0},
        {"spread": -1},
        {"cycle_limit": 0.0},
        {"time_limit": -1.0},
        {"time_limit": math.nan},
    ],
)
def test_options_that_do_not_exist(options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        ValidationOptions(**options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- what becomes of them


def test_measured_costs_are_sums_over_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    study = explored(tmp_path)
    lines = Lines()
    outcome = validate_file(study, ValidationOptions(1, 0), progress=lines)
    (one,) = outcome.designs
    macs = [2 * 8 * 64, 9 * 64, 10 * 64]  # the first layer runs twice
    assert one.status == "measured"
    assert one.measured is not None
    assert one.measured.source == "measured"
    assert one.measured.latency_cycles == 2 * sum(macs)
    assert one.measured.energy_pj == pytest.approx(3 * sum(macs))
    assert one.measured.area_mm2 == one.accelerator.area_mm2
    assert lines.total == 3
    assert [finished for finished, _, _ in lines.layers] == [1, 2, 3]
    assert {name for _, name, _ in lines.layers} == {f"best 1, product{i}" for i in range(3)}
    error = model_error(outcome.designs)
    ratios = [layer.predicted_cycles / (2 * n) for layer, n in zip(one.layers, (512, 576, 640), strict=True)]
    assert error is not None
    assert error.bias == pytest.approx(np.mean(ratios) - 1)
    assert error.mean_absolute == pytest.approx(np.mean(np.abs(np.array(ratios) - 1)))


def test_nothing_is_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(running, "gather", fake_measuring(log=log))
    study = explored(tmp_path)
    first = validate_file(study, ValidationOptions(3, 0))
    done = len(log)
    assert done == len({layer.key for one in first.designs for layer in one.layers})
    again = validate_file(study, ValidationOptions(3, 0))
    assert len(log) == done
    assert again.designs == first.designs
    # the study alone is enough: the file of the workers may be gone
    (tmp_path / STORE_NAME).unlink()
    validate_file(study, ValidationOptions(3, 0))
    assert len(log) == done


def test_a_wrong_element_makes_the_candidate_failed_and_never_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = explored(tmp_path)
    with StudyRecord.open(study, read_only=True) as opened:
        predicted_best = opened.best()
    assert predicted_best is not None
    wrong = "output[3] (group 0, n 0, q 0, p 0, k 3) is 5, should be 6; 1 of 64 elements are wrong"

    def measure(job: MeasurementJob) -> Measurement:
        if job.name.startswith("best 1,") and job.name.endswith("product1"):
            return Measurement("failed", wrong)
        return made_up(job)

    monkeypatch.setattr(running, "gather", fake_measuring(measure))
    outcome = validate_file(study, ValidationOptions(2, 0))
    first = outcome.designs[0]
    assert (first.status, first.measured) == ("failed", None)
    assert first.failure == f"product1: {wrong}"
    data = report_data(study)
    (index,) = [i for i, one in data.validated.items() if one.name == "best 1"]
    assert not data.candidates[index].front
    assert data.best_index != index
    write_study_report(study, tmp_path)
    engine = Engine((tmp_path / "report.html").read_text())
    assert engine.text("validation-failures") == f"FAILED best 1: product1: {wrong}"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert "FAILED" in summary["text"]


def test_what_does_not_fit_is_infeasible_and_is_not_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(running, "gather", fake_measuring(log=log))
    study = explored(tmp_path)
    import baco.exploration.measure.planning as planning

    def refuse(*_: object) -> None:
        raise InfeasibleError("the tile needs 9 rows, there are 8")

    monkeypatch.setattr(planning, "plan_layer", refuse)
    lines = Lines()
    outcome = validate_file(study, ValidationOptions(1, 0), progress=lines)
    assert log == []
    (one,) = outcome.designs
    assert one.status == "infeasible"
    assert one.failure == "product0: the tile needs 9 rows, there are 8"
    assert any("best 1 is infeasible" in note for note in lines.notes)


def test_an_array_without_verilog_is_infeasible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs of the reference space need not have a power-of-two side."""
    log: list[str] = []
    monkeypatch.setattr(running, "gather", fake_measuring(log=log))
    from baco.exploration.space import load_space
    from baco.exploration.studies.engine import run_exploration

    space = replace(load_space("reference"), dim=(6,))
    run_exploration(products(2), space, EDP, "random", 20, out=tmp_path)
    outcome = validate_file(tmp_path / "study.sqlite", ValidationOptions(1, 0))
    (one,) = outcome.designs
    assert one.status == "infeasible"
    assert "dim must be a power of two, not 6" in one.failure
    assert log == []
    data = report_data(tmp_path / "study.sqlite")
    assert [data.candidates[index].front for index in data.validated] == [False]


# ---------------------------------------------------------------- limits


def test_a_cycle_limit_takes_the_layers_that_matter_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(running, "gather", fake_measuring(log=log))
    study = explored(tmp_path, products(6))
    outcome = validate_file(study, ValidationOptions(1, 0, cycle_limit=1.0))
    (one,) = outcome.designs
    assert one.status == "sampled"
    assert one.measured is None
    weights = [
        task.count * (layer.predicted_cycles or 0) for task, layer in zip(one.tasks, one.layers, strict=True)
    ]
    measured = [i for i, layer in enumerate(one.layers) if layer.status == "measured"]
    assert measured == [int(np.argmax(weights))]  # the first is taken in any case
    assert one.estimate is not None
    assert one.estimate.latency_error is None  # one layer says nothing of the spread
    assert one.estimate.share == pytest.approx(weights[measured[0]] / sum(weights))
    # without the limit the rest follows
    (whole,) = validate_file(study, ValidationOptions(1, 0)).designs
    assert whole.status == "measured"
    assert len(log) == 6


def test_error_bars_hold_the_truth_nineteen_times_in_twenty() -> None:
    """Layers whose predictions are off by log-normal factors; a random half of them measured."""
    random = np.random.default_rng(5)
    held = {"latency": 0, "energy": 0, "edp": 0}
    trials = 400
    workload = products(24)
    for _ in range(trials):
        planned = []
        measurements = {}
        true_latency = true_energy = 0.0
        for i, task in enumerate(workload.tasks):
            cycles = float(random.lognormal(9, 0.7))
            ratio_l, ratio_e = random.lognormal(0.3, 0.25, 2)
            planned.append(_planned(str(i), cycles, 10 * cycles))
            true_latency += task.count * cycles * ratio_l
            true_energy += task.count * 10 * cycles * ratio_e
            if random.random() < 0.5:
                measurements[str(i)] = Measurement(
                    "measured", cycles=max(1, round(cycles * ratio_l)), energy_pj=10 * cycles * ratio_e
                )
        if len(measurements) < 4 or len(measurements) == len(planned):
            trials -= 1
            continue
        one = _design(tuple(planned), workload.tasks).with_measurements(measurements)
        found = one.estimate
        assert found is not None
        assert found.latency_error is not None
        assert found.energy_error is not None
        assert found.edp_error is not None
        held["latency"] += abs(found.cost.latency_cycles / true_latency - 1) <= found.latency_error
        held["energy"] += abs(found.cost.energy_pj / true_energy - 1) <= found.energy_error
        edp = true_latency * true_energy * 1e-6
        held["edp"] += abs(found.cost.edp / edp - 1) <= found.edp_error
    assert held["latency"] / trials > 0.88
    assert held["energy"] / trials > 0.88
    assert held["edp"] / trials > 0.92  # the sum of both is a cautious bar for their product


def _planned(key: str, cycles: float, energy: float) -> DesignLayer:
    return DesignLayer(key, Layer(Problem(P=1)), None, "", cycles, energy)


def _design(layers: tuple[DesignLayer, ...], tasks: tuple[Task, ...]) -> Design:
    machine = load_accelerator("gemmini-default")
    return Design("d", "candidate", machine, (), None, layers, "", "reference", tasks=tasks)


@pytest.mark.parametrize(
    ("number", "ended"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "interrupted")]
)
def test_a_signal_ends_it_with_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, ended: str
) -> None:
    before = signal.getsignal(number)

    def measure(job: MeasurementJob) -> Measurement:
        if job.name.endswith("product2"):
            os.kill(os.getpid(), number)
        return made_up(job)

    monkeypatch.setattr(running, "gather", fake_measuring(measure))
    study = explored(tmp_path)
    outcome = validate_file(study, ValidationOptions(1, 0))
    assert outcome.ended == ended
    assert signal.getsignal(number) == before
    done = [layer.status for layer in outcome.designs[0].layers]
    assert "pending" in done
    monkeypatch.setattr(running, "gather", fake_measuring())
    assert validate_file(study, ValidationOptions(1, 0)).designs[0].status == "measured"


def test_a_time_limit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def slow(job: MeasurementJob) -> Measurement:
        if not job.name.endswith("product2"):
            time.sleep(30)
        return made_up(job)

    monkeypatch.setattr(running, "gather", fake_measuring(slow))
    study = explored(tmp_path)
    outcome = validate_file(study, ValidationOptions(1, 0, time_limit=0.2))
    assert outcome.ended == "time"
    assert outcome.designs[0].status in ("sampled", "pending")


# ---------------------------------------------------------------- reports


def test_a_report_draws_measured_points_where_they_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    study = explored(tmp_path, samples=60, scratchpad_kib=(8, 16, 32), accumulator_kib=(4, 8))
    outcome = validate_file(study, ValidationOptions(2, 1))
    write_study_report(study, tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA_PATH.read_text()))
    block = summary["validation"]
    assert [design["name"] for design in block["designs"]] == [design.name for design in outcome.designs]
    measured = {design["candidate"]: design for design in block["designs"]}
    costs = [design.measured for design in outcome.designs]
    least = min(cost.edp for cost in costs if cost)
    assert summary["best"]["cost"]["source"] == "measured"
    assert summary["best"]["cost"]["edp_uj_cycles"] == pytest.approx(least)
    assert summary["networks"][0]["cost"]["source"] == "measured"
    assert summary["networks"][0]["cost"]["latency_cycles"] == summary["best"]["cost"]["latency_cycles"]
    rows = pq.read_table(tmp_path / "candidates.parquet").to_pylist()
    for row in rows:
        if row["id"] in measured:
            design = measured[row["id"]]
            assert (row["source"], row["status"]) == ("measured", "measured")
            assert row["latency_cycles"] == design["measured"]["latency_cycles"]
            assert row["predicted_latency_cycles"] == design["predicted"]["latency_cycles"]
        else:
            assert (row["source"], row["status"]) == ("predicted", None)
            assert row["predicted_latency_cycles"] == row["latency_cycles"]
    layer = block["designs"][0]["layers"][0]
    assert layer["measured_cycles"] == 1024
    assert layer["busy"] == {
        "array": 0.5,
        "load": 0.25,
        "store": 0.125,
        "memory": 0.0625,
        "waits_for_host": 0.25,
    }
    page = (tmp_path / "report.html").read_text()
    assert '"was":{' in page
    engine = Engine(page)
    assert engine.get("elements['validation'].hidden") is False
    assert engine.text("validation-parts").count("Layers of ") == len(outcome.designs)
    cells = [row.split(" | ") for row in engine.rows("validated")]
    assert [row[0] for row in cells] == [
        f"{design['name']} (#{design['candidate']})" for design in block["designs"]
    ]
    for row, design in zip(cells, outcome.designs, strict=True):
        assert row[4] == "measured"
        assert design.measured is not None
        assert float(row[10]) == pytest.approx(design.measured.edp, rel=0.005)


def test_the_page_draws_lines_from_predictions_to_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    study = explored(tmp_path, samples=60, scratchpad_kib=(8, 16, 32), accumulator_kib=(4, 8))
    designs = validate_file(study, ValidationOptions(2, 0)).designs
    plot = Engine(page_html(report_data(study))).get("plots['plot-front']")
    traces = plot["traces"]
    named = {trace["name"]: trace for trace in traces if "name" in trace}
    axes = [
        (sorted(named["measured"][axis]), sorted(named["predicted before"][axis]), scale, what)
        for axis, scale, what in (
            ("x", 1 / size_of_unit(plot["layout"]["xaxis"]["title"]["text"], "cycles"), "latency_cycles"),
            ("y", 1e-12 / size_of_unit(plot["layout"]["yaxis"]["title"]["text"], "J"), "energy_pj"),
        )
    ]
    for measured, predicted, scale, what in axes:
        costs = sorted(getattr(design.measured, what) * scale for design in designs)
        before = sorted(getattr(design.predicted, what) * scale for design in designs)
        assert measured == pytest.approx(costs, rel=1e-4)
        assert predicted == pytest.approx(before, rel=1e-4)
    dotted = next(trace for trace in traces if trace.get("line", {}).get("dash") == "dot")
    assert dotted["x"][2::3] == [None] * len(designs)
    assert sorted(dotted["x"][1::3]) == axes[0][0]
    assert sorted(dotted["x"][::3]) == axes[0][1]


def test_a_report_without_validation_says_nothing_of_it(tmp_path: Path) -> None:
    write_study_report(explored(tmp_path), tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["validation"] is None
    engine = Engine((tmp_path / "report.html").read_text())
    assert engine.get("elements['validation'].hidden") is True


def test_names_from_users_are_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    bad = "</script><img src=x onerror=alert(1)>"
    op = Operator(bad, "layer", ("x",), Tensor("y", (1,)), Problem(P=4, C=4, K=4))
    study = explored(tmp_path, Workload.of([Network("net", (), (op,))]))
    validate_file(study, ValidationOptions(1, 0))
    write_study_report(study, tmp_path)
    assert "<img" not in (tmp_path / "report.html").read_text()


# ---------------------------------------------------------------- studies


def test_a_study_without_designs_and_one_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no study here"):
        validate_file(tmp_path / "none.sqlite", ValidationOptions())
    path = tmp_path / "study.sqlite"
    new_study(path).close()
    with pytest.raises(InfeasibleError, match="no feasible design"):
        validate_file(path, ValidationOptions())


def test_a_damaged_record_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    study = explored(tmp_path)
    validate_file(study, ValidationOptions(1, 0))
    with StudyRecord.open(study) as opened:
        opened.keep_validation("odd", {"name": "odd"})
        with pytest.raises(StorageError, match="its validated designs"):
            measured_designs(opened)


def test_designs_chosen_earlier_keep_their_measurements_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "gather", fake_measuring())
    study = explored(tmp_path)
    (first,) = validate_file(study, ValidationOptions(1, 0)).designs
    from baco.exploration.studies.engine import run_exploration
    from tests.explore.validate_helpers import small_space

    run_exploration(
        products(3),
        small_space(),
        EDP,
        "random",
        4000,
        seed=1,
        out=tmp_path,
        resume=True,
        cost_model="reference",
    )
    (now,) = validate_file(study, ValidationOptions(1, 0)).designs
    assert now.identity != first.identity  # the longer search found something better
    with StudyRecord.open(study, read_only=True) as opened:
        names = {one.name: one for one in measured_designs(opened)}
    assert names["earlier 1"].identity == first.identity
    assert names["earlier 1"].measured == first.measured
    # both are in the report, whether the study still keeps the candidate or not
    assert {one.name for one in report_data(study).validated_designs} == {"best 1", "earlier 1"}
