"""Random search, one loop: a sample is a random mapping of every task; the hardware is inferred from them."""

from __future__ import annotations

import numpy as np

from baco.exploration.candidate import Candidate
from baco.exploration.search.baseline import BaselineSearch

_SMALLEST_BATCH, _LARGEST_BATCH = 8, 512


class RandomSearch(BaselineSearch):
    """Mappings with exact divisors and the three published loop orders; the accelerator is the least legal one
    that holds those of all tasks.

    The largest tile of many random mappings is nearly always enormous. So each sample draws a random
    accelerator first, and mappings that fit it: samples then spread over all sizes, which is far kinder to
    random search than independent draws.
    """

    def _batch(self, rng: np.random.Generator) -> list[Candidate]:
        self._enter(rng.random(self.settings))
        n = len(self.evaluator)
        size = self._growing(_SMALLEST_BATCH, _LARGEST_BATCH)
        limit = self.hardware.random(size, rng)
        genomes = self._draw(np.tile(np.arange(n), size), np.repeat(limit, n, axis=0), rng)
        designs = self.evaluator.infer(genomes.reshape(size, n, -1))
        before, self.spent = self.spent, self.spent + size * n
        return self._offer(designs, before)
