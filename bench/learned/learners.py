"""How residuals learn: trees by scikit-learn, laws by gradient descent."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.law import (
    PREDICTED,
    RESOURCES,
    SHARE,
    LawResidual,
    column,
    event_counts,
    explicit_rows,
)
from baco.bench.learned.resource_law import LEAST_COUNT, ResourceLaw
from baco.common.errors import InputError
from baco.exploration.cost.learned.boosting import Booster
from baco.exploration.cost.learned.protocol import Arrays, Correction, Floats, ProgramFeatures, Residual
from baco.exploration.cost.learned.trees import TREES, TreeResidual, shrunk

__all__ = ["BlendLearner", "LawLearner", "Learner", "TreeLearner", "choose_doubt", "fit_law", "grow"]

_HOST = "host "
#: Parts of the analytical model that are sums of host events already.
_SUMS = ("host loads", "host passes", "host stores")
_LEAST_ROWS, _STEPS = 60, 500
_RATE, _LATE_RATE = 0.04, 0.01
_LEAST_ERROR = 1e-3
#: Groups that say something of groups.
_LEAST_GROUPS = 3
#: Doubts that are tried, see `shrunk`.
_DOUBTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, math.inf)


class Learner(Residual, Protocol):
    """A residual that can learn."""

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """Learn from measurements.

        Args:
            log_ratio: (B,) logarithm of measured over predicted cycles.
            groups: (B,) whole numbers; rows of one group (a task, say) are never split between what a part of the
                model learns from and what its errors are estimated on.
        """
        ...


class LawLearner(LawResidual):
    """A law that can learn."""

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`; with few rows of explicit code they get one factor, too."""
        explicit = explicit_rows(features)
        self.law = None
        if explicit.sum() >= _LEAST_ROWS and (resources := _resources(features.names)):
            self.law = ResourceLaw(resources)
            rows = features.take(explicit)
            predicted = np.exp(column(rows, PREDICTED))
            fit_law(
                self.law, event_counts(rows, self.law.events), predicted * np.exp(log_ratio[explicit]), _STEPS
            )
        # the macros' own formulas are right in the middle already
        self.factor = 0.0 if self.law or not len(log_ratio) else float(np.median(log_ratio))
        error = self.predict(features).log - log_ratio
        self.deviations = (_spread(error[explicit]), _spread(error[~explicit]))


class TreeLearner(TreeResidual):
    """Boosted trees that can learn.

    Each member learns from the groups that its fold leaves in; the rows left out show how wrong it is, and a smaller
    booster learns the size of these errors, so that the deviation knows hard regions and is not the training error.
    The same rows say how much corrections are to be doubted.

    Attributes:
        left_out: (B,) what the rows learned from were predicted by the member that had not seen their group.
    """

    left_out: Floats

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`. With fewer groups than members, rows are left out one by one."""
        names = np.unique(groups)
        rng = np.random.default_rng(self.seed)
        if len(names) >= len(self.members):
            fold_of = dict(zip(rng.permutation(names), range(len(names)), strict=True))
            fold = np.array([fold_of[group] for group in groups]) % len(self.members)
        else:
            fold = rng.permutation(len(groups)) % len(self.members)
        left_out = np.zeros(len(features))
        for number, member in enumerate(self.members):
            out = fold == number
            grow(member, features.flat[~out], log_ratio[~out], self.seed * 1000 + number)
            left_out[out] = member.predict(features.flat[out])
        size = np.log(np.maximum(np.abs(left_out - log_ratio), _LEAST_ERROR))
        grow(self.error, features.flat, size, self.seed * 1000 + 999)
        self.left_out = left_out
        self.doubt = choose_doubt(left_out, self.error_size(features.flat), log_ratio, groups)


class BlendLearner:
    """A law, which extrapolates, and trees on its shares and all other features, which do not but see everything."""

    name = "blend"

    def __init__(self, seed: int = 0) -> None:
        self.law, self.trees = LawLearner(seed), TreeLearner(seed, options=TREES)

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`: the trees learn what the law leaves."""
        self.law.fit(features, log_ratio, groups)
        left = log_ratio - self.law.predict(features).log
        self.trees.fit(self.law.augmented(features), left, groups)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        found = self.trees.predict(self.law.augmented(features))
        return Correction(self.law.predict(features).log + found.log, found.deviation)

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`."""
        header: dict[str, Any] = {}
        arrays: Arrays = {}
        for part in (self.law, self.trees):
            header[part.name], own = part.arrays()
            arrays |= {f"{part.name}/{name}": array for name, array in own.items()}
        return header, arrays

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        for part in (self.law, self.trees):
            prefix = f"{part.name}/"
            own = {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}
            part.restore(header[part.name], own)


def choose_doubt(log: Floats, deviation: Floats, log_ratio: Floats, groups: NDArray[Any]) -> float:
    """The largest doubt that costs nothing that can be told apart from chance.

    Each group's mean error counts once. Of the doubts whose mean is within one standard error (over groups, of the
    differences) of the best one's, the largest: no correction, unless enough groups say that it helps. Source: the rule of
    one standard error, Hastie et al., "The Elements of Statistical Learning" (2009), section 7.10.

    Args:
        log, deviation: (B,) corrections of rows by models that had not seen their groups, and their deviations.
        log_ratio: (B,) what they should be.
        groups: (B,) whole numbers.
    """
    number = np.unique(groups, return_inverse=True)[1]
    rows = np.bincount(number)
    if len(rows) < _LEAST_GROUPS:
        return math.inf
    losses = np.stack(
        [np.bincount(number, np.abs(shrunk(log, deviation, one) - log_ratio)) / rows for one in _DOUBTS]
    )
    worse = losses - losses[losses.mean(1).argmin()]
    error = worse.std(1, ddof=1) / len(rows) ** 0.5
    return max(one for one, more, spread in zip(_DOUBTS, worse.mean(1), error, strict=True) if more <= spread)


def fit_law(law: ResourceLaw, counts: Floats, cycles: Floats, steps: int = 700) -> None:
    """Learn costs and power from counts (B, events) and cycles (B,): least mean |log(predicted / cycles)|."""
    import torch

    events = torch.from_numpy(np.maximum(counts, LEAST_COUNT))
    target = torch.from_numpy(np.log(cycles))
    sizes = [len(one) for one in law.resources.values()]
    logarithm = torch.full((sum(sizes),), -1.0, dtype=torch.float64, requires_grad=True)
    excess = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logarithm, excess], lr=_RATE)
    for step in range(steps):
        if step == 2 * steps // 3:
            optimiser.param_groups[0]["lr"] = _LATE_RATE
        busy = torch.stack([part.sum(1) for part in torch.split(events * logarithm.exp(), sizes, dim=1)])
        power = 1 + torch.nn.functional.softplus(excess)
        loss = (torch.logsumexp(power * busy.log(), 0) / power - target).abs().mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    law.costs = logarithm.detach().exp().numpy()
    law.power = float(1 + torch.nn.functional.softplus(excess.detach()))


def grow(booster: Booster, x: Floats, y: Floats, seed: int) -> None:
    """Learn y (B,) from x (B, F); deterministic in the seed. Raises InputError without scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise InputError(
            "learning needs scikit-learn", hint="install it: pip install 'baco[learn]'"
        ) from None
    o = booster.options
    x = np.where(np.isnan(x).all(0), 0.0, x)  # scikit-learn takes no column without numbers
    model = HistGradientBoostingRegressor(
        loss=f"{o.loss}_error",
        learning_rate=o.rate,
        max_iter=o.trees,
        max_depth=o.depth,
        max_leaf_nodes=None,
        min_samples_leaf=o.least,
        l2_regularization=o.penalty,
        max_features=o.columns,
        early_stopping=False,
        random_state=seed,
    ).fit(x, y)
    booster.start = float(model._baseline_prediction.item())
    booster.allocate(model.n_iter_)
    for tree, (grown,) in enumerate(model._predictors):
        _keep(booster, tree, grown.nodes, 0, 0)


def _keep(booster: Booster, tree: int, nodes: NDArray[Any], at: int, place: int) -> None:
    """Copy scikit-learn's node `at`, and what is below it, to a place of the complete tree."""
    node, inner = nodes[at], booster.threshold.shape[1]
    if place >= inner:
        booster.leaves[tree, place - inner] = node["value"]
        return
    if not node["is_leaf"]:
        booster.feature[tree, place] = node["feature_idx"]
        booster.threshold[tree, place] = node["num_threshold"]
        booster.missing[tree, place] = node["missing_go_to_left"]
    for side, child in ((1, "left"), (2, "right")):
        _keep(booster, tree, nodes, at if node["is_leaf"] else int(node[child]), 2 * place + side)


def _spread(error: Floats) -> float:
    """Standard deviation of errors, by their median size."""
    return max(float(1.4826 * np.median(np.abs(error))), 0.01) if len(error) else 0.2


def _resources(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The law's resources and events, as far as the analytical model has them; none without host events."""
    shares = {name.removeprefix(SHARE) for name in names if name.startswith(SHARE)}
    host = sorted(one for one in shares if one.startswith(_HOST) and one not in _SUMS)
    found = {"host": (*host, "one")}
    found |= {name: tuple(one for one in events if one in shares) for name, events in RESOURCES.items()}
    return found if host and all(found.values()) else {}
