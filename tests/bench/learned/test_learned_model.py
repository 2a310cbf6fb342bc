"""Features, storage and cross-validation of the learned model, on small made-up measurements."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from baco.bench.learned.evaluate import cross_validated, split_folds, stratum_scores
from baco.bench.learned.measured_set import (
    MeasuredSet,
    joined,
)
from baco.bench.learned.train import train
from baco.bench.learned.trees import choose_doubt
from baco.bench.sets.dataset import read_dataset
from baco.common.errors import InputError
from baco.exploration.cost.learned.analytical import instruction_base
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.learned_model import LearnedModel
from baco.exploration.cost.learned.protocol import Correction, Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import TreeResidual, shrunk
from baco.main import run
from tests.explore.learned_programs import WIDE, programs, reference_base


def measurements(count: int, seed: int = 0) -> MeasuredSet:
    """Made-up cycles: the reference model's, times what rows and machine add, times a little noise."""
    layers, mappings, accelerators = programs(count, seed)
    features, predicted = described(layers, mappings, accelerators, ["explicit"] * count, reference_base)
    rng = np.random.default_rng(seed + 1)
    machines = np.array([one is WIDE for one in accelerators], dtype=np.int64)
    pixels = features.flat[:, features.names.index("bound P")]
    error = 0.4 - 0.3 * pixels + 0.2 * machines + 0.02 * rng.normal(size=count)
    tasks = np.unique([str(layer.problem) for layer in layers], return_inverse=True)[1]
    strata = tuple(("compute", "load")[int(p > 2.5)] for p in pixels)
    return MeasuredSet(
        features, predicted, predicted * np.exp(error), tasks, machines, ("small", "wide"), strata
    )


def test_trees_come_back_from_their_file(tmp_path: Path) -> None:
    data = measurements(70)
    path = tmp_path / "weights.zip"
    model = train(data, 1)
    model.store(path)
    again = LearnedModel.load(path)
    one, other = (m.correct(data.features, data.predicted) for m in (model, again))
    assert other.cycles == pytest.approx(one.cycles, rel=1e-6)
    assert other.deviation == pytest.approx(one.deviation, rel=1e-6)
    model.store(tmp_path / "again.zip")
    assert path.read_bytes() == (tmp_path / "again.zip").read_bytes()
    with pytest.raises(InputError, match="other features"):
        again.correct(described(*programs(3), ["explicit"] * 3, instruction_base)[0], np.ones(3))


def test_corrections_go_both_ways_and_hold_for_new_programs() -> None:
    data, new = measurements(160), measurements(60, seed=7)
    model = train(data)
    found = model.correct(new.features, new.predicted)
    factor = found.cycles / new.predicted
    assert factor.min() < 0.8
    assert factor.max() > 1.05
    error = np.abs(np.log(found.cycles / new.cycles))
    assert np.median(error) < 0.06
    assert (error < 3 * found.deviation).mean() > 0.9


def test_corrections_are_drawn_towards_none_where_they_are_small_beside_their_deviation() -> None:
    log, deviation = np.array([0.1, -0.1, 0.4, 0.0]), np.array([0.1, 0.1, 0.1, 0.1])
    assert shrunk(log, deviation, 0.0) == pytest.approx(log)
    assert shrunk(log, deviation, 1.0) == pytest.approx([0.05, -0.05, 0.4 * 16 / 17, 0.0])
    assert (shrunk(log, deviation, math.inf) == 0).all()


def test_doubt_is_what_groups_that_were_not_seen_ask_for() -> None:
    """Corrections that are right are not doubted; those of noise, or that only one of many groups needs, are."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    shift = rng.normal(size=40)[groups] * 0.3
    deviation = np.full(400, 0.05)
    right = shift + 0.05 * rng.normal(size=400)
    assert choose_doubt(right, deviation, shift, groups) <= 1
    noise = 0.3 * rng.normal(size=400)
    assert choose_doubt(noise, np.full(400, 0.3), shift, groups) == math.inf
    few = groups < 2
    assert choose_doubt(right[few], deviation[few], 0.1 * shift[few], groups[few]) == math.inf
    assert choose_doubt(right[:0], deviation[:0], shift[:0], groups[:0]) == math.inf


def test_trees_with_nothing_to_learn_correct_nothing() -> None:
    data = measurements(150)
    rng = np.random.default_rng(3)
    unrelated = data.predicted * np.exp(0.2 * rng.normal(size=len(data)))
    noisy = MeasuredSet(
        data.features, data.predicted, unrelated, data.tasks, data.machines, data.names, data.strata
    )
    model = train(noisy)
    found = model.correct(data.features, data.predicted)
    assert np.abs(np.log(found.cycles / data.predicted)).max() < 0.1


def test_splits_keep_tasks_and_machines_apart() -> None:
    data = measurements(80)
    for split, kept in (("task", ["tasks"]), ("accelerator", ["machines"]), ("both", ["tasks", "machines"])):
        tested = np.zeros(len(data), dtype=int)
        for learned, test in split_folds(data, split, 3, 0):
            tested += test
            for name in kept:
                groups = getattr(data, name)
                assert not set(groups[learned]) & set(groups[test]), (split, name)
        assert (tested == 1).all()


class Median(TreeResidual):
    """Corrects everything by what is typical of the rows learned from: rows that come twice change nothing."""

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: np.ndarray) -> None:
        self.log = float(np.median(log_ratio))

    def predict(self, features: ProgramFeatures) -> Correction:
        return Correction(np.full(len(features), self.log), np.ones(len(features)))


def test_rows_of_other_sets_never_have_the_layers_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the set beside it brings nothing, since every layer tested is taken out of it."""
    monkeypatch.setattr("baco.bench.learned.train.TreeLearner", Median)
    data = measurements(60)
    alone, _ = cross_validated(data, "task", folds=3)
    beside, _ = cross_validated(data, "task", folds=3, also=data)
    assert beside.seeds[0].mean_percent == pytest.approx(alone.seeds[0].mean_percent, rel=1e-9)
    one, _ = cross_validated(data, "task", folds=3, rounds=1)
    assert one.seeds[0].rows < 40


def test_sets_are_joined_with_their_layers_recognised() -> None:
    one, other = measurements(20), measurements(30, seed=4)
    both = joined([one, other])
    assert len(both) == 50
    assert len(both.names) == 4
    assert set(both.machines) == {0, 1, 2, 3}
    assert both.tasks.tolist() == [*one.tasks, *other.tasks]


def test_cross_validation_scores_every_row_once() -> None:
    data = measurements(60)
    found, predictions = cross_validated(data, "task", folds=3, seeds=(0, 1))
    assert len(found.seeds) == 2
    assert found.seeds[0].rows == 60
    assert (predictions.cycles > 0).all()
    assert sum(one.rows for one in stratum_scores(predictions.cycles, data).values()) == 60


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"nothing")
    with pytest.raises(InputError, match="no weights"):
        LearnedModel.load(tmp_path / "a.zip")


def test_shipped_weights_belong_to_this_model(capsys: pytest.CaptureFixture[str]) -> None:
    """They were trained on the features that programs have now, and know shapes and accelerators they never saw."""
    assert run("baco", ["model", "evaluate", "--set", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictors"]
    assert {"analytical", "trees, mappings", "trees, mappings and compiled programs"} <= set(found)
    analytical, mappings = found["analytical"], found["trees, mappings"]
    programs = found["trees, mappings and compiled programs"]
    assert programs["mean_percent"] < mappings["mean_percent"] < analytical["mean_percent"]
    assert programs["spearman"] > 0.99
    assert programs["mean_percent"] < 6.0
    assert abs(programs["bias_percent"]) < 2.0


def test_evaluate_asks_for_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baco", ["model", "evaluate"]) == 2
    assert "--set" in capsys.readouterr().err
    assert run("baco", ["model", "evaluate", "--set", "nothing.csv.gz"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_commands_train_and_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        dataset = read_dataset("micro")
    except InputError:
        pytest.skip("the measured sets are not in this copy")
    from baco.bench.sets.dataset import write_dataset

    small = tmp_path / "small.csv.gz"
    write_dataset(small, dataset.rows[:150:2], dataset.configurations.values())
    weights = tmp_path / "weights.zip"
    line = ["model", "train", "--set", str(small), "--out", str(weights)]
    assert run("baco", line) == 0
    assert "75" in capsys.readouterr().out
    assert run("baco", ["model", "evaluate", "--set", str(small), "--weights", str(weights), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 75
    assert set(report["predictors"]) == {"MACs / dim²", "analytical", "trees, mappings"}
