"""Boosted trees against brute force, and what every stored model must do."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from baco.bench.learned.trees import TreeLearner, grow
from baco.common.errors import InputError
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions
from baco.exploration.cost.learned.protocol import Correction, ProgramFeatures, load_arrays, store_arrays
from baco.exploration.cost.learned.trees import TreeResidual

ALL = {"columns": 1.0, "penalty": 0.0, "rate": 1.0, "trees": 1}


def features(flat: np.ndarray) -> ProgramFeatures:
    names = tuple(f"f{n}" for n in range(flat.shape[1]))
    return ProgramFeatures(names, flat)


def test_one_split_is_the_best_of_all_splits() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 12, (40, 5)).astype(float), rng.normal(size=40)
    booster = Booster(BoostingOptions("squared", depth=1, least=4, **ALL))
    grow(booster, x, y, seed=0)
    best = min(
        sum(((y[side] - y[side].mean()) ** 2).sum() for side in (x[:, f] <= cut, x[:, f] > cut))
        for f in range(5)
        for cut in np.unique(x[:, f])
        if min((x[:, f] <= cut).sum(), (x[:, f] > cut).sum()) >= 4
    )
    assert ((y - booster.predict(x)) ** 2).sum() == pytest.approx(best, rel=1e-5)


def test_leaves_are_medians_of_their_rows() -> None:
    x = np.repeat([[0.0], [1.0]], 5, axis=0)
    y = np.array([0.0, 0, 0, 0, 100, 5, 5, 5, 5, -100])
    booster = Booster(BoostingOptions("absolute", depth=1, least=2, **ALL))
    grow(booster, x, y, seed=0)
    assert booster.predict(np.array([[0.0], [1.0], [0.4], [0.6]])) == pytest.approx([0, 5, 0, 5])


def test_a_table_of_steps_is_learned_exactly_and_missing_values_stand_for_themselves() -> None:
    x = np.array([[a, b] for a in range(8) for b in (0.0, 1.0, np.nan)] * 3)
    y = x[:, 0] * 2 + np.where(np.isnan(x[:, 1]), 50, 7 * x[:, 1])
    options = BoostingOptions("squared", trees=60, depth=4, rate=0.5, least=1, columns=1.0, penalty=0.0)
    booster = Booster(options)
    grow(booster, x, y, seed=0)
    assert booster.predict(x) == pytest.approx(y, abs=1e-3)


def test_predictions_are_those_of_the_library_that_grew_the_trees() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(300, 6)), rng.normal(size=300)
    x[rng.random(x.shape) < 0.2] = np.nan
    booster = Booster(
        BoostingOptions("absolute", trees=30, depth=5, rate=0.05, least=8, columns=0.35, penalty=1.0)
    )
    grow(booster, x, y, seed=1)
    theirs = HistGradientBoostingRegressor(
        loss="absolute_error", learning_rate=0.05, max_iter=30, max_depth=5, max_leaf_nodes=None, min_samples_leaf=8,
        l2_regularization=1.0, max_features=0.35, early_stopping=False, random_state=1,
    ).fit(x, y)  # fmt: skip
    assert booster.predict(x) == pytest.approx(theirs.predict(x), abs=1e-6)
    assert booster.predict(x[:0]).shape == (0,)


def test_nothing_to_split_gives_the_median() -> None:
    booster = Booster(BoostingOptions("absolute", trees=5))
    grow(booster, np.ones((30, 2)), np.arange(30.0), seed=0)
    assert booster.predict(np.full((2, 2), 9.0)) == pytest.approx([14, 14], abs=1)


def test_a_residual_comes_back_from_its_file_and_learns_the_same_twice(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    noise = np.where(x[:, 1] > 0, 0.5, 0.01) * rng.normal(size=600)
    y, groups = np.sign(x[:, 0]) + noise, np.arange(600) // 4
    paths = []
    for number in range(2):
        residual = TreeLearner(seed=7, members=3, options=BoostingOptions(trees=60, depth=2, columns=1.0))
        residual.fit(features(x), y, groups)
        paths.append(tmp_path / f"{number}.zip")
        store_arrays(paths[-1], *residual.arrays())
    assert paths[0].read_bytes() == paths[1].read_bytes()
    again = TreeResidual()
    again.restore(*load_arrays(paths[0]))
    one, other = residual.predict(features(x)), again.predict(features(x))
    assert isinstance(one, Correction)
    assert (one.log == other.log).all()
    assert (one.deviation == other.deviation).all()
    noisy = one.deviation[x[:, 1] > 0.2].mean()
    assert noisy > 1.5 * one.deviation[x[:, 1] < -0.2].mean(), "the deviation does not see where the noise is"
    assert np.corrcoef(one.log, np.sign(x[:, 0]))[0, 1] > 0.8


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nothing", b"plain text"])
def test_files_that_are_no_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.zip"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no weights of a learned model"):
        load_arrays(path)


def test_weights_never_bring_code_along(tmp_path: Path) -> None:
    path = tmp_path / "weights.zip"
    np.save(tmp_path / "bad.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "bad.npy", "bad.npy")
    with pytest.raises(InputError, match="no weights"):
        load_arrays(path)


def test_features_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        ProgramFeatures(("a",), np.zeros((3, 2)))
