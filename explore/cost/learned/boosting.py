"""Boosted trees: scikit-learn grows them, plain arrays keep them.

Trees are kept complete to their depth, with a comparison at every inner node, so that predicting takes a few array
operations a level, needs no library, and has the same bits everywhere. A leaf above the last level sends all its rows to
the left. Missing values (NaN) go the way that was learned for them.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from baco.exploration.cost.learned.protocol import Arrays, Floats


@dataclass(frozen=True)
class BoostingOptions:
    """How trees are grown.

    Attributes:
        loss: `absolute` learns medians, `squared` learns means.
        trees, depth, rate: number, depth, and weight of a tree.
        least: rows that both sides of a split keep.
        columns: part of the features that a split chooses among.
        penalty: rows' worth of zeros that a leaf's value is drawn towards.
    """

    loss: Literal["absolute", "squared"] = "absolute"
    trees: int = 300
    depth: int = 6
    rate: float = 0.05
    least: int = 20
    columns: float = 0.2
    penalty: float = 10.0


class Booster:
    """One boosted model.

    Attributes:
        start: what the trees add to.
        feature, threshold, missing: (trees, inner nodes) the column compared, what it is at most on the way to the left,
            and whether NaN goes there too; the children of node n are 2 n + 1 and 2 n + 2.
        leaves: (trees, leaves) summands.
    """

    def __init__(self, options: BoostingOptions | None = None) -> None:
        self.options = options or BoostingOptions()
        self.start = 0.0
        self.allocate(0)

    def allocate(self, trees: int) -> None:
        """Room for so many trees, which predict nothing yet."""
        inner = 2**self.options.depth - 1
        self.feature: NDArray[np.int16] = np.zeros((trees, inner), np.int16)
        self.threshold: NDArray[np.float32] = np.full((trees, inner), np.inf, np.float32)
        self.missing: NDArray[np.bool_] = np.ones((trees, inner), np.bool_)
        self.leaves: NDArray[np.float32] = np.zeros((trees, inner + 1), np.float32)

    def predict(self, x: Floats) -> Floats:
        """y of x (B, F), shape (B,)."""
        result = np.full(len(x), self.start)
        rows, inner = np.arange(len(x)), self.threshold.shape[1]
        for tree in range(len(self.leaves)):
            place = np.zeros(len(x), np.int64)
            while len(place) and place[0] < inner:
                value = x[rows, self.feature[tree, place]]
                left = np.where(
                    np.isnan(value), self.missing[tree, place], value <= self.threshold[tree, place]
                )
                place = 2 * place + np.where(left, 1, 2)
            result += self.leaves[tree, place - inner] if len(place) else 0.0
        return result

    def arrays(self) -> Arrays:
        """Everything that prediction needs."""
        return {
            "start": np.array(self.start),
            "feature": self.feature,
            "threshold": self.threshold,
            "missing": self.missing,
            "leaves": self.leaves,
        }

    def restore(self, arrays: Dictionary[str, NDArray[Any]]) -> None:
        """The way back from `arrays`."""
        self.start = float(arrays["start"])
        self.feature, self.threshold = arrays["feature"], arrays["threshold"]
        self.missing, self.leaves = arrays["missing"], arrays["leaves"]
