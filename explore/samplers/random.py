"""Random search, one loop: a sample is a random mapping of every task; the hardware is inferred from them."""

from __future__ import annotations

import numpy as np

from baco.exploration.samplers.sampler import Asked, Sampler

_SMALLEST_BATCH, _LARGEST_BATCH = 8, 512


class RandomSampler(Sampler):
    """Mappings with exact divisors and the three published loop orders; the accelerator is the least legal one
    that holds those of all tasks.

    The largest tile of many random mappings is nearly always enormous. So each sample draws a random
    accelerator first, and mappings that fit it: samples then spread over all sizes, which is far kinder to
    random search than independent draws.
    """

    def ask(self, rng: np.random.Generator) -> Asked:
        """As many as were asked for a quarter of before."""
        places = rng.random(self.problem.settings)
        self.problem.enter(places)
        size = self.problem.growing(_SMALLEST_BATCH, _LARGEST_BATCH)
        limit = self.problem.hardware.random(size, rng)
        return Asked(self.problem.drawn(limit, 1, rng), settings=places)
