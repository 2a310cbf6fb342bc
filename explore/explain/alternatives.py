"""Designs on a front that trade one metric for others better than the rest, beside the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["LEAST_GAIN", "Alternative", "trade_offs"]

#: What is gained must be so much of the best design's, at least.
LEAST_GAIN = 0.1
#: Losses count as no less than this, so that the price of a gain for next to nothing stays a number.
_LEAST_LOSS = 0.005


@dataclass(frozen=True)
class Alternative:
    """A design worth a look beside the best.

    Attributes:
        design: its number.
        gains: the metric of which it has less than the best.
        pays: the metric of which it has most in exchange.
        ratios: its costs over those of the best, by metric.
        knee: it is the knee of the front (`Result.knee`), and not chosen for what it gains.
        source: whether these are of predicted or of measured costs.
    """

    design: int
    gains: str
    pays: str
    ratios: Mapping[str, float]
    knee: bool = False
    source: str = "predicted"


def trade_offs(
    ratios: Mapping[int, Mapping[str, float]], metrics: Sequence[str], sources: Mapping[int, str]
) -> list[Alternative]:
    """For every metric the design that gains it at the best price, if any has at least a tenth less of it than the best; each
    once, the best price first.

    The price is the logarithm of the largest ratio among the other metrics over that of the gain. So a design with half the area
    for 7% more of the worst of the others is better than one with a third of it for 50% more.

    Args:
        ratios: of designs, by number: costs over those of the best, by metric; no other is better in all of them.
        metrics: that are to be gained.
        sources: of the ratios.
    """
    found: list[tuple[float, Alternative]] = []
    for name in metrics:
        priced = [
            (_price(one, name), number)
            for number, one in ratios.items()
            if one[name] <= 1 - LEAST_GAIN and all(number != other.design for _, other in found)
        ]
        if priced:
            price, number = min(priced)
            found.append(
                (
                    price,
                    Alternative(
                        number, name, _worst(ratios[number], name), ratios[number], False, sources[number]
                    ),
                )
            )
    return [one for _, one in sorted(found, key=lambda item: (item[0], item[1].design))]


def _worst(ratios: Mapping[str, float], gained: str) -> str:
    return max((name for name in ratios if name != gained), key=lambda name: ratios[name])


def _price(ratios: Mapping[str, float], gained: str) -> float:
    worst = max(ratios[_worst(ratios, gained)], 1 + _LEAST_LOSS)
    return math.log(worst) / math.log(1 / ratios[gained]) if ratios[gained] > 0 else 0.0
