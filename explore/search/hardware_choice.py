"""Hardware as a black-box searcher sees it: random points, and the allowed point nearest to any values."""

from __future__ import annotations

import numpy as np

from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.space import DesignSpace

#: Spaces with at most so many points are drawn from as a list.
_LISTED = 20_000
_STEP = 0.9


class HardwareChoice:
    """Points (dim, accumulator KiB, scratchpad KiB) of a space within its bounds on area and SRAM, without row functions
    where these are searched.

    Attributes:
        low, high: (3,) logarithms (base 2) of the least and largest values.
    """

    def __init__(self, space: DesignSpace) -> None:
        self.space = space
        self._choices = [
            np.array(v, dtype=np.float64) for v in (space.dim, space.accumulator_kib, space.scratchpad_kib)
        ]
        self.low = portable.log2([v[0] for v in self._choices])
        self.high = portable.log2([v[-1] for v in self._choices])
        self._listed: Floats | None = None
        if len(space.dim) * len(space.accumulator_kib) * len(space.scratchpad_kib) <= _LISTED:
            p = space.hardware()
            p = p.take(p.units == space.units[0])
            self._listed = np.stack([p.dim, p.accumulator_kib, p.scratchpad_kib], 1).astype(np.float64)

    def random(self, size: int, rng: np.random.Generator) -> Floats:
        """(size, 3) points: evenly from a space that can be listed, else evenly in the logarithm of each value
        (in KiB as such, nearly all capacities would be absurdly large)."""
        if self._listed is not None:
            return self._listed[rng.integers(0, len(self._listed), size)]
        return self.nearest(self.low + (self.high - self.low) * rng.random((size, 3)))

    def nearest(self, log2: Floats) -> Floats:
        """The allowed points nearest to (B, 3) logarithms; where area or SRAM is too large, capacities shrink
        together until it is not, and then the array."""
        if self._listed is not None:
            distance = portable.total((log2[:, None, :] - portable.log2(self._listed)[None, :, :]) ** 2)
            return np.asarray(self._listed[distance.argmin(1)])
        value = portable.exp2(log2)
        for _ in range(400):
            point = np.stack([_nearest(c, value[:, i]) for i, c in enumerate(self._choices)], 1)
            broken = ~self.space.allowed(point[:, 0], point[:, 1], point[:, 2])
            if not broken.any():
                break
            least = (point[:, 1] <= self._choices[1][0]) & (point[:, 2] <= self._choices[2][0])
            value[broken, 1:] *= _STEP
            value[broken & least, 0] *= _STEP
        else:
            # The area may fall as the side grows (see `baco.accel.area`), then a side may be out of reach from above.
            point[broken] = self._least_point(log2[broken, 0])
        return point

    def _least_point(self, log2_side: Floats) -> Floats:
        """Least memories around the nearest of the sides that they are allowed with."""
        sides, acc, sp = self._choices
        open_ = sides[self.space.allowed(sides, acc[0], sp[0])]
        nearest = np.abs(portable.log2(open_)[None, :] - log2_side[:, None]).argmin(1)
        return np.stack([open_[nearest], *(np.full(len(nearest), v[0]) for v in (acc, sp))], 1)


def _nearest(allowed: Floats, value: Floats) -> Floats:
    above = np.searchsorted(allowed, value).clip(0, len(allowed) - 1)
    below = np.maximum(above - 1, 0)
    nearer = np.abs(allowed[above] - value) < np.abs(value - allowed[below])
    return np.asarray(np.where(nearer, allowed[above], allowed[below]))
