"""Two-loop search: random hardware outside, random mappings inside (the published baseline)."""

from __future__ import annotations

import numpy as np

from baco.exploration.samplers.sampler import Asked, Sampler

#: Random mappings of every task on a hardware point.
MAPPINGS = 100


class TwoLoopSampler(Sampler):
    """Hardware points drawn at random; on each, the best of `MAPPINGS` random mappings of every layer."""

    def ask(self, rng: np.random.Generator) -> Asked:
        """A few points, and mappings on each."""
        problem, places = self.problem, rng.random(self.problem.settings)
        problem.enter(places)
        mappings = problem.affordable(MAPPINGS)
        points = max(1, problem.growing(1, 8 * MAPPINGS) // mappings)
        point = problem.hardware.random(points, rng)
        return Asked(problem.drawn(point, mappings, rng), point, places)
