"""More mappings that hold some tiles once and use the room for larger ones, for measurements to choose among.

A search finds those that the model thinks best; how much a single copy costs is what the model knows least
(`docs/models.md`), so that a measured search also tries the next best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from accel.config import Accelerator
from common.errors import BacoError
from compiler.layers.layer import Layer
from compiler.mapping.batch import AXES
from compiler.mapping.nest import Mapping, packed_problem, requirement
from explore.cost.genome import ONCE, explicit, from_mapping, to_mapping
from explore.cost.predicted import instruction_costs
from explore.search.moves import copies_around
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
        problem, a = self.layers[place].problem, self.accelerator
        found: dict[Mapping, None] = {}
        for base in beam:
            row = from_mapping(base, a.dim, problem.groups, double_buffer=True)
            if row is None:
                continue
            bounds = np.array([packed_problem(problem, base).bounds[DIMS.index(axis)] for axis in AXES])
            rows = copies_around(explicit(row[None])[0], bounds, problem.groups)
            for one in (to_mapping(row, problem.groups, double_buffer=True) for row in rows if row[ONCE]):
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
