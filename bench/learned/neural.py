"""Neural residuals: plain networks, recurrent ones, and transformer encoders, trained on errors and on order.

They are peers in comparisons; nothing of them is in the product.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baco.bench.learned.statements import StatementFeatures
from baco.bench.learned.trees import Peer
from baco.exploration.cost.learned.protocol import Correction, Floats, ProgramFeatures

#: Of a standardised input; what lies beyond was never learned.
_FAR = 4.0
_CHUNK = 2048
#: Of the encoder.
_LAYERS, _HEADS = 2, 4
#: Column of the analytical prediction, and by how much scores of programs a tenth apart differ, times ten.
_PREDICTED, _SHARPNESS = "predicted", 10.0
_LAPLACE = 2**0.5
_LEAST_LOG_SCALE, _MOST_LOG_SCALE = -5.0, 1.0


@dataclass(frozen=True)
class TrainingOptions:
    """How a network learns.

    Attributes:
        hidden: width.
        members: networks whose mean is the prediction.
        epochs, batch: passes over the rows, and rows of a step.
        rate, last_rate: of Adam, falling along half a cosine.
        decay: weight decay.
        dropout: part of units switched off while learning.
        rank: weight of the rank loss.
    """

    hidden: int = 64
    members: int = 2
    epochs: int = 40
    batch: int = 128
    rate: float = 2e-3
    last_rate: float = 1e-5
    decay: float = 1e-2
    dropout: float = 0.1
    rank: float = 0.2


#: The encoder's published size; its epochs are cut to what two processor cores can do, and so are those of its peers.
PUBLISHED = TrainingOptions(hidden=512, members=1, epochs=5, batch=64, rate=7e-4, last_rate=1e-6)


class NeuralLearner(Peer):
    """An ensemble of networks with three outputs: correction, logarithm of its scale, rank score."""

    name = "neural"

    def __init__(self, seed: int = 0, options: TrainingOptions | None = None) -> None:
        self.seed, self.options = seed, options or TrainingOptions()
        self.sizes = (0, 0)
        self.networks: list[nn.Module] = []
        self.inflation = 1.0

    @abstractmethod
    def network(self, flat: int, token: int) -> nn.Module:
        """A new network: forward(flat (B, flat), tokens (B, S, token), mask (B, S)) -> (B, 3)."""

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`. One fifth of the groups tells how much larger errors are than the networks believe."""
        features = _with_statements(features)
        self.centre = _centre(features.flat), _centre(features.tokens[features.mask])
        self.sizes = (features.flat.shape[1], features.tokens.shape[2])
        rng = np.random.default_rng(self.seed)
        names = rng.permutation(np.unique(groups))
        held = np.isin(groups, names[: len(names) // 5])
        number = torch.from_numpy(np.asarray(groups, dtype=np.int64))
        inputs, truth = self._inputs(features), _truth(log_ratio, features)
        with _one_seed(self.seed):
            if held.any() and not held.all():
                rows = torch.from_numpy(np.flatnonzero(~held))
                probe = self._train(
                    self.seed * 100 + 99, [one[rows] for one in inputs], truth[rows], number[rows]
                )
                self.networks, self.inflation = [probe], 1.0
                found = self.predict(features.take(held))
                ratio = np.abs(found.log - log_ratio[held]) / found.deviation
                self.inflation = float(np.clip(ratio.mean() * (np.pi / 2) ** 0.5, 0.5, 5.0))
            self.networks = [
                self._train(self.seed * 100 + member, inputs, truth, number)
                for member in range(self.options.members)
            ]

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        inputs = self._inputs(_with_statements(features))
        each = []
        with torch.no_grad():
            for network in self.networks:
                network.eval()
                parts = [
                    network(*chunk)
                    for chunk in zip(*(torch.split(one, _CHUNK) for one in inputs), strict=True)
                ]
                each.append(torch.cat(parts).double().numpy() if parts else np.zeros((0, 3)))
        found = np.stack(each)
        scale = _LAPLACE * np.exp(found[..., 1].clip(_LEAST_LOG_SCALE, _MOST_LOG_SCALE).mean(0))
        deviation = self.inflation * np.hypot(scale, found[..., 0].std(0))
        return Correction(found[..., 0].mean(0), deviation, found[..., 2].mean(0) + _log_predicted(features))

    def _inputs(self, features: StatementFeatures) -> list[Tensor]:
        """Standardised flat rows, tokens with zeros where masked, and the mask."""
        (mean, scale), (token_mean, token_scale) = self.centre
        flat = ((features.flat - mean) / scale).clip(-_FAR, _FAR)
        tokens = ((features.tokens - token_mean) / token_scale).clip(-_FAR, _FAR)
        tokens = np.where(features.mask[..., None], tokens, 0.0)
        numbers = [torch.from_numpy(np.nan_to_num(one).astype(np.float32)) for one in (flat, tokens)]
        return [*numbers, torch.from_numpy(np.ascontiguousarray(features.mask))]

    def _train(self, seed: int, inputs: list[Tensor], truth: Tensor, groups: Tensor) -> nn.Module:
        torch.manual_seed(seed)
        network = self.network(*self.sizes)
        o, rows = self.options, len(truth)
        steps = max(1, o.epochs * -(-rows // o.batch))
        optimiser = torch.optim.AdamW(network.parameters(), lr=o.rate, weight_decay=o.decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, steps, eta_min=min(o.rate, o.last_rate)
        )
        network.train()
        for _ in range(o.epochs):
            for chosen in torch.split(torch.randperm(rows), o.batch):
                out = network(*(one[chosen] for one in inputs))
                scale = out[:, 1].clamp(_LEAST_LOG_SCALE, _MOST_LOG_SCALE)
                loss = negative_log_likelihood(out[:, 0], scale, truth[chosen, 0])
                if o.rank:
                    score = _SHARPNESS * (out[:, 2] + truth[chosen, 1])
                    loss = loss + o.rank * rank_loss(score, truth[chosen].sum(1), groups[chosen])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                schedule.step()
        return network.eval()


class MlpLearner(NeuralLearner):
    """Two hidden layers on the flat features; statements are not looked at."""

    name = "mlp"

    def network(self, flat: int, token: int) -> nn.Module:
        """As `NeuralLearner.network`."""
        return _Mlp(flat, self.options.hidden, self.options.dropout)


class EncoderLearner(NeuralLearner):
    """ATFormer's shape on the statements of a program: an embedding, two encoder layers of four heads, two heads.

    The flat row becomes one more token in front, whose encoding the regression head reads; the rank head scores every
    statement and adds the scores up. Statements that do not exist take part in nothing. Source: ATFormer (EMNLP 2023),
    sections 3.2 and 3.3, narrower.
    """

    name = "encoder"

    def network(self, flat: int, token: int) -> nn.Module:
        """As `NeuralLearner.network`."""
        return _Encoder(flat, token, self.options.hidden, self.options.dropout)


class LstmLearner(NeuralLearner):
    """A recurrent network that reads the statements of a program one after the other, and the flat row."""

    name = "lstm"

    def network(self, flat: int, token: int) -> nn.Module:
        """As `NeuralLearner.network`."""
        return _Lstm(flat, token, self.options.hidden, self.options.dropout)


class _Mlp(nn.Module):
    def __init__(self, flat: int, hidden: int, dropout: float) -> None:
        super().__init__()
        sizes = ((flat, hidden), (hidden, hidden))
        layers = (layer for two in sizes for layer in (nn.Linear(*two), nn.GELU(), nn.Dropout(dropout)))
        self.layers = nn.Sequential(*layers, _last(hidden, 3))

    def forward(self, flat: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.layers(flat)
        return result


class _Encoder(nn.Module):
    def __init__(self, flat: int, token: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(token, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.whole = nn.Sequential(nn.Linear(flat, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        layer = nn.TransformerEncoderLayer(
            hidden, _HEADS, 2 * hidden, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.regression = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU(), _last(hidden, 2))
        self.score = nn.Linear(hidden, 1)

    def forward(self, flat: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        whole = self.whole(flat)
        sequence = torch.cat([whole[:, None], self.embed(tokens)], dim=1)
        there = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)
        encoded = self.encoder(sequence, src_key_padding_mask=~there)
        found = self.regression(torch.cat([encoded[:, 0], whole], dim=1))
        scores = self.score(encoded).squeeze(2).masked_fill(~there, 0.0)
        return torch.cat([found, scores.sum(1, keepdim=True)], dim=1)


class _Lstm(nn.Module):
    def __init__(self, flat: int, token: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(token, hidden), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(flat, hidden), nn.GELU(), nn.Dropout(dropout))
        self.reader = nn.LSTM(hidden, hidden, batch_first=True)
        self.heads = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU(), _last(hidden, 3))

    def forward(self, flat: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        # statements that exist first, in their order: the reader ends behind the last of them
        order = torch.argsort(~mask, dim=1, stable=True)
        there = torch.gather(tokens, 1, order[..., None].expand_as(tokens))
        read, _ = self.reader(self.embed(there))
        last = (mask.sum(1) - 1).clamp_min(0)[:, None, None].expand(-1, 1, read.shape[2])
        found: Tensor = self.heads(torch.cat([read.gather(1, last).squeeze(1), self.whole(flat)], dim=1))
        return found


def _last(hidden: int, outputs: int) -> nn.Linear:
    """No correction, a deviation of about 0.2 and no preference to begin with."""
    layer = nn.Linear(hidden, outputs)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.0, -2.0, 0.0])[:outputs])
    return layer


def rank_loss(score: Tensor, truth: Tensor, groups: Tensor) -> Tensor:
    """Mean logistic loss over pairs (i, j) of a group with truth_i > truth_j: log(1 + exp(score_j - score_i)).

    Source: RankLoss of ATFormer (EMNLP 2023), after Cao et al., "Learning to rank" (ICML 2007). A pair that is one
    apart the right way costs 0.3133, the wrong way 1.3133, and one of equal scores ln 2.

    Args:
        score, truth: (B,).
        groups: (B,) whole numbers.

    0 without pairs.
    """
    above = (truth[:, None] > truth[None, :]) & (groups[:, None] == groups[None, :])
    if not bool(above.any()):
        return score.sum() * 0.0
    return torch.nn.functional.softplus((score[None, :] - score[:, None])[above]).mean()


def negative_log_likelihood(mean: Tensor, log_scale: Tensor, truth: Tensor) -> Tensor:
    """Mean negative logarithm of a Laplace density, which asks for the median of each row: |error| / b + log(b)."""
    return ((mean - truth).abs() * torch.exp(-log_scale) + log_scale).mean()


def _with_statements(features: ProgramFeatures) -> StatementFeatures:
    if not isinstance(features, StatementFeatures):
        raise TypeError("networks look at statements, too")
    return features


def _log_predicted(features: ProgramFeatures) -> Floats:
    if _PREDICTED not in features.names:
        return np.zeros(len(features))
    return features.flat[:, features.names.index(_PREDICTED)]


def _truth(log_ratio: Floats, features: ProgramFeatures) -> Tensor:
    """(B, 2): log(measured / predicted) and log(predicted), whose sum says which program is faster."""
    return torch.from_numpy(np.stack([log_ratio, _log_predicted(features)], axis=1).astype(np.float32))


def _centre(values: Floats) -> tuple[Floats, Floats]:
    """Means and scales of columns (B, F), of what is known of each."""
    if not values.size:
        values = np.zeros((1, values.shape[1]))
    known = ~np.isnan(values)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, values, 0).sum(0) / count
    spread = np.sqrt(np.where(known, (values - mean) ** 2, 0).sum(0) / count)
    # what never varied says nothing wherever it does
    return mean, np.where(spread > 1e-6, spread, 1e9)


@contextmanager
def _one_seed(seed: int) -> Iterator[None]:
    """Random numbers of torch as if nothing had been drawn before, and as they were afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
