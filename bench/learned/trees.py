"""How the boosted trees that ship learn: scikit-learn grows them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common.errors import InputError
from baco.exploration.cost.learned.boosting import Booster
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import TreeResidual, shrunk

_LEAST_ERROR = 1e-3
#: Groups that say something of groups.
_LEAST_GROUPS = 3
#: Doubts that are tried, see `shrunk`.
_DOUBTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, math.inf)


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
        """Learn from measurements. With fewer groups than members, rows are left out one by one.

        Args:
            log_ratio: (B,) logarithm of measured over predicted cycles.
            groups: (B,) whole numbers; rows of one group (a task, say) are never split between what a part of the
                model learns from and what its errors are estimated on.
        """
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
        [np.bincount(number, np.abs(shrunk(log, deviation, doubt) - log_ratio)) / rows for doubt in _DOUBTS]
    )
    worse = losses - losses[losses.mean(1).argmin()]
    error = worse.std(1, ddof=1) / len(rows) ** 0.5
    return max(
        doubt for doubt, more, spread in zip(_DOUBTS, worse.mean(1), error, strict=True) if more <= spread
    )


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
