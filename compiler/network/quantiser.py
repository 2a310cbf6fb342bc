"""How real numbers become integers: what a user chooses of a quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError, did_you_mean
from baco.compiler.layers.float_sums import FloatSums
from baco.compiler.layers.weight_blocks import BLOCK_WEIGHTS, BlockWeights
from baco.compiler.layers.wide_sums import ArraySums, WideSums, array_sums

#: How scales are chosen: any float32, or powers of two only.
Scales: TypeAlias = Literal["float", "power-of-two"]
#: Where the scale of an activation ends (`baco.compiler.network.observers`).
Observer: TypeAlias = Literal["mse", "min-max", "percentile", "entropy"]
OBSERVERS: tuple[Observer, ...] = get_args(Observer)
#: Formats of trained weights of int8 networks; what is computed is int8 all the same. And blocks with shared powers, whose numbers
#: networks of bfloat16 then have.
WeightFormat: TypeAlias = Literal["int8", "int4", BlockWeights]
#: How weights become whole numbers: each the nearest, or one after the other (`baco.compiler.network.compensation`).
WeightRounding: TypeAlias = Literal["nearest", "compensated"]
#: What has a scale of its own: all weights of an operator, or those of each output channel.
WeightScales: TypeAlias = Literal["tensor", "channel"]
#: Choices that say how numbers become integers.
_OF_INTEGERS = (
    "observer",
    "scales",
    "bias_correction",
    "weight_format",
    "weight_scales",
    "int4_layers",
    "weight_rounding",
)


@dataclass(frozen=True)
class Quantiser:
    """The choices.

    Attributes:
        observer: `mse` the least squared error of rounding and cutting off; `min-max` the largest magnitude, of weights too;
            `percentile` all but one number in ten thousand; `entropy` the least information lost (Kullback-Leibler divergence).
        scales: any float32, or powers of two.
        bias_correction: whether biases take back what rounded weights add to sums on average.
        calibration: samples, of those given, that ranges are taken from at most: the first ones.
        weight_format: of trained weights. int4 ones lie two a byte where the accelerator has `packed_weights`, else as int8. Those in blocks,
            of 32 channels with a shared power of two, are for arrays of bfloat16, and lie so where the accelerator has `block_weights`.
        weight_scales: what has a scale. Scales of channels are applied on the way out by machines with the feature
            `requantization`, else by the host core, and not to maxima over windows that ride.
        equalisation: whether channels of neighbouring layers are brought to like ranges first (`equalise.equalised`).
        int4_layers: operators, by name, whose weights are int4 where those of others are int8.
        weight_rounding: `nearest`, or `compensated`: weights still to be rounded take back what rounded ones add to sums of the samples.
        floats: the array's elements and sums where these are not int8 (`baco.compiler.network.float_contractions`): scales are from largest
            magnitudes, powers of two in floating point, and nothing else is chosen. None for int8.

    Raises InputError for a choice that there is not.
    """

    observer: Observer = "mse"
    scales: Scales = "float"
    bias_correction: bool = True
    calibration: int = 128
    weight_format: WeightFormat = "int8"
    weight_scales: WeightScales = "tensor"
    equalisation: bool = False
    int4_layers: tuple[str, ...] = ()
    weight_rounding: WeightRounding = "nearest"
    floats: ArraySums | None = None

    def __post_init__(self) -> None:
        choices: list[tuple[str, str, tuple[str, ...]]] = [
            ("scales cannot be", self.scales, get_args(Scales)),
            ("there is no observer", self.observer, OBSERVERS),
            ("weights cannot be", self.weight_format, get_args(WeightFormat)),
            ("scales of weights cannot be by", self.weight_scales, get_args(WeightScales)),
            ("weights cannot be rounded", self.weight_rounding, get_args(WeightRounding)),
        ]
        for says, given, known in choices:
            if given not in known:
                raise InputError(f"{says} '{given}'", hint=did_you_mean(given, known))
        if isinstance(self.floats, Mapping):
            kind = WideSums if self.floats["form"] == WideSums.form else FloatSums
            object.__setattr__(self, "floats", kind(**self.floats))
        object.__setattr__(self, "int4_layers", tuple(self.int4_layers))  # JSON gives a list
        if self.calibration < 1:
            raise InputError(f"ranges are taken from at least one sample, not {self.calibration}")

    def to_json(self) -> dict[str, Any]:
        """Plain values, arguments of one that is equal."""
        plain = asdict(self) | {"int4_layers": list(self.int4_layers)}
        if self.floats is None:
            del plain["floats"]
        return plain

    def on(self, accelerator: Accelerator) -> Quantiser:
        """The same for the elements of an accelerator. Raises InfeasibleError for choices of int8 where it computes no such."""
        floats = array_sums(accelerator)
        chosen = [name for name in _OF_INTEGERS if getattr(self, name) != getattr(DEFAULT, name)]
        if self.block_weights is not None and accelerator.input_format != "bf16":
            raise InfeasibleError(
                f"weights in {self.weight_format} are for arrays of bf16, and the elements of {accelerator.name} are"
                f" {accelerator.elements}",
                hint="set input_format to bf16, or leave weight_format out",
            )
        if self.block_weights is not None:
            chosen.remove("weight_format")
        if floats and chosen:
            raise InfeasibleError(
                f"{', '.join(chosen)} cannot be chosen for {accelerator.name}, whose elements are {floats.form}",
                hint="they say how int8 is rounded",
            )
        return replace(self, floats=floats)

    @property
    def label(self) -> str:
        """The choices that lose more or less accuracy, in a few words, the observer first."""
        if self.floats:
            return (
                self.floats.form
                if self.block_weights is None
                else f"{self.floats.form}, {self.block_weights} weights"
            )
        words = {
            "int4": self.weight_format == "int4",
            f"int4 in {', '.join(self.int4_layers)}": bool(self.int4_layers),
            "scales of channels": self.by_channel,
            "equalised": self.equalisation,
            "errors compensated": self.weight_rounding == "compensated",
        }
        return ", ".join([self.observer, *(word for word, chosen in words.items() if chosen)])

    @property
    def block_weights(self) -> BlockWeights | None:
        """Format of blocks with shared powers that weights have; None for another."""
        return next((form for form in BLOCK_WEIGHTS if form == self.weight_format), None)

    @property
    def by_channel(self) -> bool:
        """Whether every output channel has a scale."""
        return self.weight_scales == "channel"

    def format_of(self, operator: str) -> WeightFormat:
        """Of the weights of an operator of the network."""
        return "int4" if operator in self.int4_layers else self.weight_format


#: What nobody chose.
DEFAULT = Quantiser()
