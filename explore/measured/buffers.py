"""Mappings that hold some tiles once and use the room for larger ones.

A search holds every tile that changes twice (its space says so), which halves the memories. Where a large tile changes
rarely, one copy and a tile twice as large can be faster; how much a single copy costs is what the model knows least
(`docs/models.md`), so that such mappings are for measured searches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accel.config import Accelerator
from common.errors import BacoError
from compiler.layers.layer import Layer
from compiler.mapping.nest import Mapping, packed_problem, requirement
from explore.cost.layers import even_tiles
from explore.cost.predicted import instruction_costs
from workloads.problem import DIMS

__all__ = ["Roomier"]

#: Rounds of growing tiles, and mappings that go on to the next.
_ROUNDS, _BEAM = 3, 16
#: Candidates looked at in a round.
_MOST = 1500


@dataclass
class Roomier:
    """Ranks such mappings of the layers of one accelerator by prediction.

    Attributes:
        accelerator, layers: where, and of what.
    """

    accelerator: Accelerator
    layers: Sequence[Layer]
    _seen: dict[int, dict[Mapping, float]] = field(default_factory=dict)
    _begun: set[tuple[int, Mapping]] = field(default_factory=set)

    def best(self, place: int, base: Mapping, number: int, energy: float, cycles: float) -> list[Mapping]:
        """The best new ones of a layer that come of this mapping, or came of those before; at most `number`.

        Args:
            energy, cycles: what a picojoule and a cycle weigh.
        """
        waiting = self._seen.setdefault(place, {})
        if (place, base) not in self._begun:
            self._begun.add((place, base))
            beam = [base]
            for _ in range(_ROUNDS):
                fresh = [one for one in self._grown(place, beam) if one not in waiting]
                weights = self._weigh(self.layers[place], fresh, energy, cycles)
                waiting |= dict(zip(fresh, weights, strict=True))
                order = np.argsort(weights, kind="stable")[:_BEAM]
                beam = [fresh[at] for at in order if np.isfinite(weights[at])]
        ranked = sorted((one for one in waiting if np.isfinite(waiting[one])), key=waiting.__getitem__)[
            :number
        ]
        for one in ranked:
            waiting[one] = np.inf  # given
        return ranked

    def _grown(self, place: int, beam: Sequence[Mapping]) -> list[Mapping]:
        problem = self.layers[place].problem
        a = self.accelerator
        found: dict[Mapping, None] = {}
        for base in beam:
            for one in _larger(base):
                one = even_tiles(one, packed_problem(problem, one))
                need = requirement(one, problem)
                if need.accumulator_words <= a.accumulator_rows and need.scratchpad_rows <= a.scratchpad_rows:
                    found[one] = None
                    if len(found) == _MOST:
                        return list(found)
        return list(found)

    def _weigh(self, layer: Layer, ones: Sequence[Mapping], energy: float, cycles: float) -> list[float]:
        """Predicted cost of each; infinite where it cannot be predicted."""
        try:
            costs = instruction_costs([layer] * len(ones), ones, self.accelerator)
        except BacoError:
            return [float("inf")] * len(ones)
        return [energy * cost.energy_pj + cycles * cost.latency_cycles for cost in costs]


def _larger(base: Mapping) -> Iterator[Mapping]:
    """The mapping with fewer copies, and with one axis in fewer and larger tiles."""
    for w, i, o in itertools.product((1, 2), repeat=3):
        if (w, i, o) == (2, 2, 2) or any(b > a for a, b in zip(base.buffering, (w, i, o), strict=True)):
            continue
        fewer = replace(base, buffering=(w, i, o))
        yield fewer
        for d, name in enumerate(DIMS):
            trips = base.factor(name, 3)
            for level in (1, 2):
                cover = base.factor(name, level) * trips
                for parts in sorted({1, -(-trips // 3), -(-trips // 2), trips - 1} - {0}):
                    if parts < trips:
                        temporal = [list(one) for one in base.temporal]
                        temporal[level][d], temporal[3][d] = -(-cover // parts), parts
                        yield replace(fewer, temporal=tuple(map(tuple, temporal)))
