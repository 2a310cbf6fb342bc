"""Two-loop search: random hardware outside, random mappings inside (the published baseline)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.exploration.candidate import Candidate
from baco.exploration.search.base import SearchSetup
from baco.exploration.search.baseline import BaselineSearch
from baco.exploration.search.designs import Designs

#: Random mappings of every task on a hardware point.
MAPPINGS = 100
#: Exponents of (energy, latency) by which the inner loop ranks the mappings of one layer, by objective; area
#: does not depend on them.
_RANKINGS = {
    "edp": (1.0, 1.0),
    "edap": (1.0, 1.0),
    "area": (1.0, 1.0),
    "energy": (1.0, 0.0),
    "latency": (0.0, 1.0),
}


class InnerSearch(BaselineSearch):
    """Best of random mappings for every task on given hardware: what two-loop searchers share."""

    def __init__(self, setup: SearchSetup) -> None:
        super().__init__(setup)
        names = [*setup.objective.metrics, "edp", "energy", "latency"]
        #: The objective's own first; the others yield alternatives for the front from the same evaluations.
        self.rankings = list(dict.fromkeys(_RANKINGS[name] for name in names))

    def _map(
        self, point: NDArray[np.float64], mappings: int, rng: np.random.Generator
    ) -> tuple[Designs, NDArray[np.int64]]:
        """Evaluate `mappings` random mappings of every task on each hardware point (H, 3).

        Returns:
            the design points, one for each hardware point and ranking, (H · rankings,), hardware by hardware;
            and the evaluations spent when each was complete.
        """
        n, size = len(self.evaluator), len(point)
        task = np.tile(np.repeat(np.arange(n), mappings), size)
        on = np.repeat(point, n * mappings, axis=0)
        genomes = self._draw(task, on, rng)
        energy, latency = self.evaluator.costs(self.evaluator.measure(task, genomes), on)
        energy, latency = (v.reshape(size, n, mappings) for v in (energy, latency))
        genomes = genomes.reshape(size, n, mappings, -1)
        before, self.spent = self.spent, self.spent + len(task)
        h, layer = np.arange(size)[:, None], np.arange(n)[None, :]
        chosen = []
        for by_energy, by_latency in self.rankings:
            # A trace of the other breaks ties: latencies often tie at a full array.
            score = max(by_energy, 1e-6) * portable.log(energy) + max(by_latency, 1e-6) * portable.log(
                latency
            )
            chosen.append(score.argmin(2))
        pick = np.stack(chosen, 1)  # (H, rankings, n)
        every = pick.shape[1]
        h, layer = h[:, :, None], layer[:, None, :]
        designs = Designs(
            genomes[h, layer, pick].reshape(size * every, n, -1),
            np.repeat(point, every, axis=0),
            energy[h, layer, pick].reshape(size * every, n),
            latency[h, layer, pick].reshape(size * every, n),
        )
        return designs, np.repeat(before + n * mappings * np.arange(1, size + 1), every)


class TwoLoopSearch(InnerSearch):
    """Hardware points drawn at random; on each, the best of `MAPPINGS` random mappings of every layer."""

    def _batch(self, rng: np.random.Generator) -> list[Candidate]:
        self._enter(rng.random(self.settings))
        mappings = int(min(MAPPINGS, self._left() // len(self.evaluator)))
        points = max(1, self._growing(1, 8 * MAPPINGS) // mappings)
        designs, samples = self._map(self.hardware.random(points, rng), mappings, rng)
        return self.keeper.offer(designs, samples)
