"""Gradient-boosted regression trees on histograms, small enough to need nothing but numpy.

Friedman, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics, 2001), with binned
features and second-order-free gains as Ke et al., "LightGBM" (NIPS 2017) describe them. Trees are complete binary trees
of one depth, which makes learning and prediction a few array operations a level; a node that is not worth splitting
sends every row to the left. Missing values (NaN) have a bin of their own, below all others.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explore.cost.learned.protocol import Arrays, Floats

__all__ = ["Booster", "BoostingOptions"]

Loss = Literal["absolute", "squared"]
#: A node that is not split: no bin is above this one.
_ALL_LEFT = 255
_BINS = 64
#: Keeps the gain of an empty side finite.
_TINY = 1e-9


@dataclass(frozen=True)
class BoostingOptions:
    """How trees are grown.

    Attributes:
        loss: `absolute` learns medians, `squared` learns means.
        trees, depth, rate: number, depth, and weight of a tree.
        least: rows that both sides of a split keep.
        columns, rows: parts of features and rows that a tree sees.
        penalty: rows' worth of zeros that a leaf's value is drawn towards.
    """

    loss: Loss = "absolute"
    trees: int = 300
    depth: int = 4
    rate: float = 0.05
    least: int = 8
    columns: float = 0.35
    rows: float = 0.7
    penalty: float = 1.0


class Booster:
    """One boosted model. `fit` is deterministic in its seed."""

    def __init__(self, options: BoostingOptions | None = None) -> None:
        self.options = options or BoostingOptions()
        self.start = 0.0
        self.edges: Floats = np.zeros((0, _BINS - 2))
        self.feature: NDArray[np.int16] = np.zeros((0, 0), np.int16)
        self.threshold: NDArray[np.uint8] = np.zeros((0, 0), np.uint8)
        self.leaves: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def fit(self, x: Floats, y: Floats, seed: int, weight: Floats | None = None) -> None:
        """Learn y (B,) from x (B, F), rows weighted if `weight` (B,) is given."""
        o, rng = self.options, np.random.default_rng(seed)
        weights = np.ones(len(y)) if weight is None else weight
        self.edges = _edges(x)
        bins = self._bins(x)
        self.start = float(
            _weighted_median(y, weights) if o.loss == "absolute" else np.average(y, weights=weights)
        )
        left = y - self.start
        inner, outer = 2**o.depth - 1, 2**o.depth
        self.feature = np.zeros((o.trees, inner), np.int16)
        self.threshold = np.full((o.trees, inner), _ALL_LEFT, np.uint8)
        self.leaves = np.zeros((o.trees, outer), np.float32)
        features = x.shape[1]
        for tree in range(o.trees):
            columns = rng.permutation(features)[: max(1, round(o.columns * features))]
            seen = np.sort(rng.permutation(len(y))[: max(2, round(o.rows * len(y)))])
            gradient = (np.sign(left) if o.loss == "absolute" else left) * weights
            self._grow(tree, bins[seen][:, columns], columns, gradient[seen], weights[seen])
            place = self._leaf(tree, bins)
            for leaf in np.unique(place[seen]):
                mine = seen[place[seen] == leaf]
                if o.loss == "absolute":
                    value = _weighted_median(left[mine], weights[mine])
                else:
                    value = np.average(left[mine], weights=weights[mine])
                total = float(weights[mine].sum())
                self.leaves[tree, leaf] = o.rate * value * total / (total + o.penalty)
            left = left - self.leaves[tree, place]

    def predict(self, x: Floats) -> Floats:
        """y of x (B, F), shape (B,)."""
        bins = self._bins(x)
        result = np.full(len(x), self.start)
        for tree in range(len(self.leaves)):
            result += self.leaves[tree, self._leaf(tree, bins)]
        return result

    def arrays(self) -> Arrays:
        """Everything that prediction needs."""
        return {
            "start": np.array(self.start),
            "edges": self.edges,
            "feature": self.feature,
            "threshold": self.threshold,
            "leaves": self.leaves,
        }

    def restore(self, arrays: Dictionary[str, NDArray[Any]]) -> None:
        """The way back from `arrays`."""
        self.start, self.edges = float(arrays["start"]), arrays["edges"]
        self.feature, self.threshold, self.leaves = arrays["feature"], arrays["threshold"], arrays["leaves"]

    def _bins(self, x: Floats) -> NDArray[np.uint8]:
        result = np.empty(x.shape, np.uint8)
        for column, edges in enumerate(self.edges):
            values = x[:, column]
            result[:, column] = np.where(np.isnan(values), 0, 1 + np.searchsorted(edges, values, "left"))
        return result

    def _grow(
        self,
        tree: int,
        bins: NDArray[np.uint8],
        columns: NDArray[Any],
        gradient: Floats,
        weights: Floats,
    ) -> None:
        o = self.options
        node = np.zeros(len(bins), np.int64)
        for level in range(o.depth):
            nodes, first = 2**level, 2**level - 1
            size = nodes * len(columns) * _BINS
            cell = (node[:, None] * len(columns) + np.arange(len(columns))) * _BINS + bins
            shape = (nodes, len(columns), _BINS)

            def cumulated(
                values: Floats, cell: NDArray[Any] = cell, size: int = size, shape: Any = shape
            ) -> Floats:
                spread = np.broadcast_to(values[:, None], cell.shape).ravel()
                return np.bincount(cell.ravel(), spread, size).reshape(shape).cumsum(2)

            sums, counts = cumulated(gradient), cumulated(np.ones(len(bins)))
            masses = counts if (weights == 1).all() else cumulated(weights)
            whole, mass, count = sums[..., -1:], masses[..., -1:], counts[..., -1:]
            less = o.penalty + _TINY
            gain = sums**2 / (masses + less) + (whole - sums) ** 2 / (mass - masses + less)
            gain -= whole**2 / (mass + less)
            gain[(counts < o.least) | (count - counts < o.least)] = -np.inf
            best = gain.reshape(nodes, -1).argmax(1)
            worth = gain.reshape(nodes, -1)[np.arange(nodes), best] > 1e-12
            chosen, cut = best // _BINS, np.where(worth, best % _BINS, _ALL_LEFT)
            self.feature[tree, first : first + nodes] = columns[chosen]
            self.threshold[tree, first : first + nodes] = cut
            node = 2 * node + (bins[np.arange(len(bins)), chosen[node]] > cut[node])

    def _leaf(self, tree: int, bins: NDArray[np.uint8]) -> NDArray[np.int64]:
        node = np.zeros(len(bins), np.int64)
        rows = np.arange(len(bins))
        for level in range(self.leaves.shape[1].bit_length() - 1):
            place = 2**level - 1 + node
            node = 2 * node + (bins[rows, self.feature[tree, place]] > self.threshold[tree, place])
        return node


def _edges(x: Floats) -> Floats:
    """(F, edges) quantiles of each column, halfway between values met, so that close values are not torn apart."""
    quantiles = np.linspace(0.0, 1.0, _BINS - 1)[1:-1]
    result = np.full((x.shape[1], _BINS - 2), np.inf)
    for column in range(x.shape[1]):
        values = np.unique(x[~np.isnan(x[:, column]), column])
        if len(values) < 2:
            continue
        halves = (values[1:] + values[:-1]) / 2
        if len(halves) > len(quantiles):
            met = x[~np.isnan(x[:, column]), column]
            halves = np.unique(
                halves[np.searchsorted(halves, np.quantile(met, quantiles)).clip(0, len(halves) - 1)]
            )
        result[column, : len(halves)] = halves
    return result


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])
