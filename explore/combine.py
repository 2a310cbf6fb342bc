"""Exact combination of per-layer (energy, latency) choices on one accelerator.

A network's energy and latency are weighted sums over its layers, so for any objective that is quasi-concave
in the two sums (their product, either alone, a weighted sum) the best combination lies on the lower convex
hull of the sum of the layers' point sets; its vertices are found by merging the layers' own hulls by slope.
The same vertices, ordered from least latency to least energy, are the accelerator's Pareto chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.common.portable import Floats


@dataclass(frozen=True)
class Chain:
    """Vertices of a network's hull on one accelerator, from least latency to least energy.

    Attributes:
        energy, latency: (V,) network totals.
        choice: (V, layers) index of the chosen point of every layer.
    """

    energy: Floats
    latency: Floats
    choice: NDArray[np.int64]


def lower_hull(energy: Floats, latency: Floats) -> NDArray[np.int64]:
    """Indices of the lower-left convex hull, from least latency to least energy.

    Points that are not finite (infeasible) are never chosen; empty if none is finite.
    """
    usable = np.flatnonzero(np.isfinite(energy) & np.isfinite(latency))
    order = usable[np.lexsort((energy[usable], latency[usable]))]
    # the last vertex so far has the least energy so far: others that do not go below are none
    least = np.minimum.accumulate(energy[order])
    order = order[np.concatenate([[True], energy[order[1:]] < least[:-1]])] if len(order) else order
    e, t = energy[order].tolist(), latency[order].tolist()
    hull: list[int] = []
    for i in range(len(order)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (t[b] - t[a]) * (e[i] - e[a]) - (e[b] - e[a]) * (t[i] - t[a]) > 0:
                break
            hull.pop()
        hull.append(i)
    return np.asarray(order[hull], dtype=np.int64)


def chain(energy: Sequence[Floats], latency: Sequence[Floats], counts: Sequence[float]) -> Chain | None:
    """Merge per-layer points into the network's hull.

    Args:
        energy, latency: per layer, the cost of one run of each of its points.
        counts: how often each layer runs.

    Returns:
        The hull's vertices, or None if a layer has no finite point.
    """
    hulls = [lower_hull(e, t) for e, t in zip(energy, latency, strict=True)]
    if any(len(hull) == 0 for hull in hulls):
        return None
    steps: list[tuple[float, int, int]] = []
    for layer, hull in enumerate(hulls):
        e, t = energy[layer][hull], latency[layer][hull]
        for k in range(len(hull) - 1):
            # Energy saved per cycle lost; a hull's own steps come in falling order of it.
            steps.append(((e[k] - e[k + 1]) / max(t[k + 1] - t[k], 1e-300), layer, k))
    steps.sort(key=lambda step: (-step[0], step[1], step[2]))
    place = np.zeros(len(hulls), dtype=np.int64)
    choices = [np.array([hull[0] for hull in hulls], dtype=np.int64)]
    for _, layer, k in steps:
        place[layer] = k + 1
        following = choices[-1].copy()
        following[layer] = hulls[layer][k + 1]
        choices.append(following)
    choice = np.stack(choices)
    weights = np.asarray(counts, dtype=np.float64)
    # Totals are summed afresh for every vertex: running differences would accumulate rounding.
    total_e = sum(w * energy[i][choice[:, i]] for i, w in enumerate(weights))
    total_t = sum(w * latency[i][choice[:, i]] for i, w in enumerate(weights))
    return Chain(np.asarray(total_e), np.asarray(total_t), choice)
