"""How real numbers become integers: what a user chooses of a quantisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from baco.common.errors import InputError, did_you_mean

#: How scales are chosen: any float32, or powers of two only.
Scales: TypeAlias = Literal["float", "power-of-two"]
#: Where the scale of an activation ends (`baco.compiler.network.observers`).
Observer: TypeAlias = Literal["mse", "min-max", "percentile", "entropy"]
OBSERVERS: tuple[Observer, ...] = get_args(Observer)


@dataclass(frozen=True)
class Quantiser:
    """The choices.

    Attributes:
        observer: `mse` the least squared error of rounding and cutting off; `min-max` the largest magnitude, of weights too;
            `percentile` all but one number in ten thousand; `entropy` the least information lost (Kullback-Leibler divergence).
        scales: any float32, or powers of two.
        bias_correction: whether biases take back what rounded weights add to sums on average.
        calibration: samples, of those given, that ranges are taken from at most: the first ones.

    Raises InputError for a choice that there is not.
    """

    observer: Observer = "mse"
    scales: Scales = "float"
    bias_correction: bool = True
    calibration: int = 128

    def __post_init__(self) -> None:
        if self.scales not in get_args(Scales):
            raise InputError(
                f"scales cannot be '{self.scales}'", hint=did_you_mean(self.scales, get_args(Scales))
            )
        if self.observer not in OBSERVERS:
            raise InputError(
                f"there is no observer '{self.observer}'", hint=did_you_mean(self.observer, OBSERVERS)
            )
        if self.calibration < 1:
            raise InputError(f"ranges are taken from at least one sample, not {self.calibration}")


#: What nobody chose.
DEFAULT = Quantiser()
