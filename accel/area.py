"""Area of an accelerator in mm2, fitted to the published Accelergy/CACTI/Aladdin areas.

The law is a sum of three parts, each of which the published data determine separately:

    area = element * dim^2                      multipliers and registers of the array
         + dim * accumulator(E)                 one two-bank memory of E = KiB * 256 / dim words a column
         + scratchpad(B) + wiring * dim * B     one memory of B bytes; a row of it is dim bytes wide

`accumulator` and `scratchpad` are continuous piecewise linear laws whose knots and slopes lie in
`area.json`. A scratchpad of fewer than 64 rows takes the room of one with 64 (so the memory generator behind
the data has it). No slope is negative, and accumulator(E)/E never rises, so that the area never falls when
any argument grows, even as a larger array spreads the same accumulator over more columns. Beyond the data
(above 2 MiB) the last slopes continue. `python -m accel.fit_area PATH` refits the coefficients.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar, cast

__all__ = ["AreaLaw", "area_mm2"]

#: A Python number, numpy array or torch tensor: the law is plain arithmetic.
Number = TypeVar("Number")

#: Rows below which the memory generator behind the published areas no longer shrinks a scratchpad.
MIN_SCRATCHPAD_ROWS = 64


@dataclass(frozen=True)
class AreaLaw:
    """Coefficients of the law above.

    Attributes:
        element_mm2: area per processing element.
        accumulator_knots: words per column at which the slope changes, ascending; the first segment
            starts at 0 and the last has no end.
        accumulator_slopes: mm2 per word, one more than there are knots.
        scratchpad_knots: likewise, bytes.
        scratchpad_slopes: mm2 per byte.
        wiring_mm2: mm2 per byte of capacity and byte of row width.
    """

    element_mm2: float
    accumulator_knots: tuple[float, ...]
    accumulator_slopes: tuple[float, ...]
    scratchpad_knots: tuple[float, ...]
    scratchpad_slopes: tuple[float, ...]
    wiring_mm2: float

    def array_mm2(self, dim: Number) -> Number:
        """Area of the array."""
        side: Any = dim
        return cast(Number, self.element_mm2 * side * side)

    def accumulator_mm2(self, dim: Number, accumulator_kib: Number) -> Number:
        """Area of the accumulator memories of all columns."""
        side: Any = dim
        capacity: Any = accumulator_kib
        words = capacity * 256 / side
        return cast(Number, side * _piecewise(words, self.accumulator_knots, self.accumulator_slopes))

    def scratchpad_mm2(self, dim: Number, scratchpad_kib: Number) -> Number:
        """Area of the scratchpad."""
        side: Any = dim
        capacity: Any = scratchpad_kib
        least = side * MIN_SCRATCHPAD_ROWS
        size = least + _positive(capacity * 1024 - least)
        law = _piecewise(size, self.scratchpad_knots, self.scratchpad_slopes)
        return cast(Number, law + self.wiring_mm2 * side * size)

    def __call__(self, dim: Number, accumulator_kib: Number, scratchpad_kib: Number) -> Number:
        """Area in mm2; see `area_mm2`."""
        array: Any = self.array_mm2(dim)
        accumulator: Any = self.accumulator_mm2(dim, accumulator_kib)
        return cast(Number, array + accumulator + self.scratchpad_mm2(dim, scratchpad_kib))


def _positive(x: Any) -> Any:
    """max(x, 0) by arithmetic that numbers, arrays and tensors share; its derivative at 0 is 1/2."""
    return (x + abs(x)) / 2


def _piecewise(x: Any, knots: tuple[float, ...], slopes: tuple[float, ...]) -> Any:
    """Integral from 0 to x of the slopes between 0, the knots and infinity.

    Written so that a derivative taken exactly at a knot (capacities are mostly powers of two, as the knots
    are) is the mean of the slopes beside it.
    """
    total = slopes[0] * x
    for knot, before, after in zip(knots, slopes[:-1], slopes[1:], strict=True):
        total = total + (after - before) * _positive(x - knot)
    return total


def _load() -> AreaLaw:
    text = resources.files(__package__).joinpath("area.json").read_text(encoding="utf-8")
    coefficients: dict[str, Any] = json.loads(text)["coefficients"]
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in coefficients.items()}
    return AreaLaw(**values)


#: The law with the committed coefficients.
AREA = _load()


def area_mm2(dim: Number, accumulator_kib: Number, scratchpad_kib: Number) -> Number:
    """Area of an accelerator with 8-bit inputs and 32-bit accumulation, in mm2.

    Args:
        dim: array side. accumulator_kib, scratchpad_kib: capacities in KiB. Python numbers, numpy arrays or
            torch tensors of any one broadcastable shape; relaxed (fractional) values are accepted.

    Returns:
        The area, with the shape of the arguments; differentiable for torch (its derivative jumps at knots).

    The mean error against the published areas is stated, with cross-validation, in `area.json`; see the
    module's text for the law and its source.
    """
    return AREA(dim, accumulator_kib, scratchpad_kib)
