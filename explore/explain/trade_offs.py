"""Designs on a front that trade one metric for others better than the rest, beside the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baco.common import portable

#: What is gained must be so much of the best design's, at least.
LEAST_GAIN = 0.1
#: Designs that are enough, and the most that are named.
_ENOUGH, _MOST = 2, 3
#: Losses count as no less than this, so that the price of a gain for next to nothing stays a number.
_LEAST_LOSS = 0.005


@dataclass(frozen=True)
class TradeOff:
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
) -> list[TradeOff]:
    """Up to three designs that gain a metric at the best price, each once.

    For every metric, of the designs that have at least a tenth less of it than the best, the one with the best price; then, as long
    as there are fewer than two, of those that have a tenth less than that again. The price is the logarithm of the largest ratio among the
    other metrics over that of the gain. So a design with half the area for 7% more of the worst of the others comes before one with
    a third of it for 50% more.

    Args:
        ratios: of designs, by number: costs over those of the best, by metric; no other is better in all of them.
        metrics: that are to be gained.
        sources: of the ratios.
    """
    found: list[TradeOff] = []
    most = dict.fromkeys(metrics, 1.0)
    while len(found) < _ENOUGH:
        priced: list[tuple[float, int, str]] = []
        for name in metrics:
            known = {trade_off.design for trade_off in found} | {number for _, number, _ in priced}
            offers = [
                (_price(changes, name), number, name)
                for number, changes in ratios.items()
                if changes[name] <= most[name] * (1 - LEAST_GAIN) and number not in known
            ]
            priced += [min(offers)] if offers else []
        if not priced:
            break
        for _, number, name in sorted(priced):
            changes = ratios[number]
            most[name] = changes[name]
            found.append(TradeOff(number, name, _worst(changes, name), changes, False, sources[number]))
    return found[:_MOST]


def _worst(ratios: Mapping[str, float], gained: str) -> str:
    return max((name for name in ratios if name != gained), key=lambda name: ratios[name])


def _price(ratios: Mapping[str, float], gained: str) -> float:
    worst = max(ratios[_worst(ratios, gained)], 1 + _LEAST_LOSS)
    return portable.log(worst) / portable.log(1 / ratios[gained]) if ratios[gained] > 0 else 0.0
