"""The neural residuals: losses by hand, masked statements, storage."""

import math

import numpy as np
import pytest
import torch

from baco.bench.learned.neural import (
    PUBLISHED,
    EncoderLearner,
    LstmLearner,
    MlpLearner,
    NeuralLearner,
    TrainingOptions,
    negative_log_likelihood,
    rank_loss,
)
from baco.bench.learned.statements import StatementFeatures

QUICK = TrainingOptions(hidden=16, members=1, epochs=25, batch=64, rate=5e-3, dropout=0.0)


def data(rows: int = 160, seed: int = 0) -> tuple[StatementFeatures, np.ndarray, np.ndarray]:
    """A correction that follows from the flat row and from a statement that not all rows have."""
    rng = np.random.default_rng(seed)
    flat, tokens = rng.normal(size=(rows, 5)), rng.normal(size=(rows, 4, 6))
    tokens[:, :, :4] = np.eye(4)  # what each is
    mask = np.ones((rows, 4), np.bool_)
    mask[:, 2] = rng.random(rows) < 0.5
    truth = 0.3 * flat[:, 0] + np.where(mask[:, 2], 0.4, -0.4)
    return (
        StatementFeatures(("predicted", "b", "c", "d", "e"), flat, tokens, mask),
        truth,
        np.arange(rows) // 4,
    )


def test_rank_loss_of_a_pair() -> None:
    truth, together = torch.tensor([2.0, 1.0]), torch.zeros(2)
    for scores, expected in (([1.0, 0.0], 0.3133), ([0.0, 1.0], 1.3133), ([0.5, 0.5], math.log(2))):
        assert float(rank_loss(torch.tensor(scores), truth, together)) == pytest.approx(expected, abs=5e-5)


def test_rank_loss_takes_pairs_of_one_group_and_different_truth() -> None:
    score, truth = torch.tensor([0.3, -0.2, 0.9, 0.1]), torch.tensor([1.0, 2.0, 3.0, 3.0])
    groups = torch.tensor([0, 0, 0, 1])
    pairs = [(1, 0), (2, 0), (2, 1)]
    expected = np.mean([math.log1p(math.exp(-(score[i] - score[j]))) for i, j in pairs])
    assert float(rank_loss(score, truth, groups)) == pytest.approx(expected, rel=1e-5)
    assert float(rank_loss(score, truth, torch.arange(4))) == 0


def test_the_likelihood_asks_for_the_median_and_the_mean_absolute_error() -> None:
    truth = torch.tensor([0.0, 0.0, 0.0, 10.0])
    mean = torch.zeros(4)
    at = torch.tensor(math.log(2.5))
    best = float(negative_log_likelihood(mean, at.expand(4), truth))
    for other in (at - 0.3, at + 0.3):
        assert float(negative_log_likelihood(mean, other.expand(4), truth)) > best
    assert float(negative_log_likelihood(mean + 0.5, at.expand(4), truth)) > best


@pytest.mark.parametrize("kind", [MlpLearner, LstmLearner, EncoderLearner])
def test_what_stands_in_masked_statements_changes_nothing(kind: type[NeuralLearner]) -> None:
    features, truth, groups = data(80)
    other = features.tokens.copy()
    other[~features.mask] = 1e6 * np.random.default_rng(9).normal(size=(int((~features.mask).sum()), 6))
    other[~features.mask][:3] = np.nan
    changed = StatementFeatures(features.names, features.flat, other, features.mask)
    options = TrainingOptions(hidden=16, members=1, epochs=3, batch=32)
    one, two = kind(1, options), kind(1, options)
    one.fit(features, truth, groups)
    two.fit(changed, truth, groups)
    for model in (one, two):
        for found in (model.predict(features), model.predict(changed)):
            assert (found.log == one.predict(features).log).all()
            assert (found.rank == one.predict(features).rank).all()
            assert (found.deviation == one.predict(features).deviation).all()


def test_whether_a_statement_exists_is_seen_by_the_encoder() -> None:
    features, truth, groups = data(200)
    encoder = EncoderLearner(0, QUICK)
    encoder.fit(features, truth, groups)
    test, expected, _ = data(80, seed=1)
    assert np.corrcoef(encoder.predict(test).log, expected)[0, 1] > 0.9


def test_the_recurrent_network_reads_statements_in_their_order() -> None:
    features, truth, groups = data(200)
    lstm = LstmLearner(0, QUICK)
    lstm.fit(features, truth, groups)
    test, expected, _ = data(80, seed=1)
    assert np.corrcoef(lstm.predict(test).log, expected)[0, 1] > 0.9
    turned = StatementFeatures(
        features.names, features.flat, features.tokens[:, ::-1], features.mask[:, ::-1]
    )
    assert np.abs(lstm.predict(turned).log - lstm.predict(features).log).max() > 1e-4


def test_the_encoder_of_the_comparison_has_its_published_size() -> None:
    """Two layers of four heads, 512 wide (ATFormer, section 4); queries, keys and values of all heads are 3 x 512."""
    network = EncoderLearner(0, PUBLISHED).network(234, 31)
    layers = [one for one in network.modules() if isinstance(one, torch.nn.TransformerEncoderLayer)]
    assert len(layers) == 2
    for one in layers:
        assert one.self_attn.num_heads == 4
        assert one.self_attn.in_proj_weight.shape == (3 * 512, 512)


def test_statements_may_come_in_any_order() -> None:
    features, truth, groups = data(60)
    encoder = EncoderLearner(0, TrainingOptions(hidden=16, members=1, epochs=2))
    encoder.fit(features, truth, groups)
    turned = StatementFeatures(
        features.names, features.flat, features.tokens[:, ::-1], features.mask[:, ::-1]
    )
    assert encoder.predict(turned).log == pytest.approx(encoder.predict(features).log, abs=1e-5)


@pytest.mark.parametrize("kind", [MlpLearner, LstmLearner, EncoderLearner])
def test_the_same_seed_learns_the_same(kind: type[NeuralLearner]) -> None:
    features, truth, groups = data(100)
    options = TrainingOptions(hidden=16, members=2, epochs=4)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    models = [kind(3, options), kind(3, options)]
    for model in models:
        model.fit(features, truth, groups)
        torch.rand(7)
    one, two = (model.predict(features) for model in models)
    assert (one.log == two.log).all()
    assert (one.deviation == two.deviation).all()
    torch.manual_seed(5)
    assert (torch.random.get_rng_state() == before).all()


def test_missing_numbers_stand_for_the_mean() -> None:
    features, truth, groups = data(60)
    model = MlpLearner(0, TrainingOptions(hidden=16, members=1, epochs=3))
    model.fit(features, truth, groups)
    flat = features.flat.copy()
    flat[:, 3] = flat[:, 3].mean()
    missing = flat.copy()
    missing[:, 3] = np.nan
    one, two = (
        model.predict(StatementFeatures(features.names, rows, features.tokens, features.mask))
        for rows in (flat, missing)
    )
    assert two.log == pytest.approx(one.log, abs=1e-6)
