"""What a study's networks lose in integers on its data, and how their numbers were chosen for it.

All accelerators of a space compute the same int8 numbers, so that accuracy is a property of the quantisation: it is measured once, before
the search, and holds for every design that is found. What can be chosen for it is the quantiser: where scales end, whether
channels are equalised, whether they have scales of their own; and, where accuracy is an objective, which weights have 4 bits
(`baco.exploration.weight_formats`), each choice with a study of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.common.errors import InfeasibleError, InputError, Location
from baco.common.files import atomic_write, check_output, output_folder, read_input_text
from baco.compiler.network.quantiser import DEFAULT, OBSERVERS, Quantiser
from baco.workloads.network import Workload

if TYPE_CHECKING:
    from baco.compiler.network.accuracy import ModelAccuracy
    from baco.workloads.inputs.samples import SampleSet


_FILE = "accuracy.json"
#: What is tried for a bound, one after the other until it is kept: other scales, which cost nothing; errors of rounding that are
#: compensated, and equalised channels, which do neither; scales of channels, which the hardware or the host must apply.
_STAGES = [
    [Quantiser(observer, **options) for observer in OBSERVERS]
    for options in (
        {},
        {"weight_rounding": "compensated"},
        {"equalisation": True},
        {"weight_scales": "channel"},
        {"weight_scales": "channel", "equalisation": True},
    )
]


@dataclass(frozen=True)
class StudyAccuracy:
    """How a study's numbers are chosen, and what that costs.

    Attributes:
        quantiser: the choice.
        networks: `ModelAccuracy.to_dict` by network; empty where there is nothing to measure on.
        bound: largest loss that was allowed; None without.
        tried: loss by choice (`Quantiser.label`), the largest of all networks; empty where the quantiser was given.
    """

    quantiser: Quantiser = DEFAULT
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bound: float | None = None
    tried: Mapping[str, float] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str]]:
        """Of every network, what it loses and what says so, short."""
        found = []
        for network, one in self.networks.items():
            right = f"{one['agreeing']:.2%} as in floating point"
            if one["integers"] is not None:
                right = f"{one['integers']:.2%} right, {one['floats']:.2%} in floating point"
            bound = "" if self.bound is None else f" (bound {self.bound:.2%})"
            found.append(
                (network, f"{right}, every design{self._weights}{bound}; measured on {one['evidence']}")
            )
        return found

    @property
    def _weights(self) -> str:
        """What is not int8, in words."""
        if self.quantiser.weight_format == "int4":
            return ", weights of 4 bits"
        if self.quantiser.block_weights is not None:
            return f", weights in {self.quantiser.block_weights}"
        layers = self.quantiser.int4_layers
        return f", weights of 4 bits in {', '.join(layers)}" if layers else ""

    def sentences(self) -> list[str]:
        """For the report's opening paragraph."""
        found, floats = [], self.quantiser.floats
        numbers = "integers" if floats is None else floats.form
        for network, one in self.networks.items():
            right = (
                f"{one['agreeing']:.2%} of the answers of {network} are the float model's"
                if one["integers"] is None
                else f"{network} is right on {one['integers']:.2%} in {numbers} and on {one['floats']:.2%} in floating point, a loss of"
                f" {one['loss']:.2%} (± {one['deviation']:.2%})"
            )
            bound = "" if self.bound is None else f", within the bound of {self.bound:.2%}"
            found.append(
                f"Every design computes the same {'int8' if floats is None else floats.form} numbers{self._weights}: {right}{bound}, measured on {one['evidence']}."
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return {
            "quantiser": self.quantiser.to_json(),
            "bound": self.bound,
            "tried": dict(self.tried),
            "networks": {name: dict(one) for name, one in self.networks.items()},
        }

    @classmethod
    def from_json(cls, data: Any) -> StudyAccuracy:
        """Inverse of `to_json`. Raises InputError for anything else."""
        try:
            return cls(Quantiser(**data["quantiser"]), data["networks"], data["bound"], data["tried"])
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(f"this says nothing of accuracy: {error}") from None


def share(text: str | float) -> float:
    """`1%` and `0.01` as a number. Raises InputError for what is none from 0 to 1."""
    try:
        number = float(text[:-1]) / 100 if isinstance(text, str) and text.endswith("%") else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError(f"a loss of accuracy is a share, such as 1% or 0.01, not {text}")
    return number


def settle_accuracy(
    workload: Workload, samples: Mapping[str, SampleSet], quantiser: Quantiser | None, bound: float | None
) -> StudyAccuracy:
    """Measure what networks lose; with a bound and no quantiser, by what loses least of that which costs least of what keeps it.

    Args:
        workload: networks with what they compute.
        samples: by network.

    Raises:
        InputError: a bound without data, labels that do not fit.
        InfeasibleError: more is lost than the bound allows.
    """
    from baco.compiler.network.accuracy import measure_accuracy
    from baco.compiler.network.quantise import quantise

    measured = {
        name: sample for name, sample in samples.items() if sample.labels is not None or len(sample) > 1
    }
    if bound is not None and len(measured) < len(workload.networks):
        raise InputError(
            "a loss of accuracy is measured on data of every network",
            hint="give --data FILE.npz, with labels",
        )

    def measure(choice: Quantiser) -> dict[str, ModelAccuracy]:
        return {
            network.name: measure_accuracy(
                network,
                quantise(network, measured[network.name].inputs, quantiser=choice),
                measured[network.name],
                quantiser=choice,
            )
            for network in workload.networks
            if network.name in measured
        }

    stages = [[quantiser or DEFAULT]] if quantiser is not None or bound is None else _STAGES
    chosen: dict[str, Quantiser] = {}
    found: dict[str, dict[str, ModelAccuracy]] = {}
    losses: dict[str, float] = {}
    for stage in stages:
        for choice in stage:
            chosen[choice.label], found[choice.label] = choice, measure(choice)
            networks = found[choice.label].values()
            losses[choice.label] = max((accuracy.loss for accuracy in networks), default=0.0)
        best = min(losses, key=lambda name: losses[name])
        if bound is None or losses[best] <= bound:
            break
    if bound is not None and losses[best] > bound:
        tried = ", ".join(f"{name} {loss:.2%}" for name, loss in losses.items())
        raise InfeasibleError(
            f"int8 loses {losses[best]:.2%} of accuracy at least, more than the bound of {bound:.2%}",
            hint=f"tried: {tried}",
        )
    return StudyAccuracy(
        chosen[best],
        {name: accuracy.to_dict() for name, accuracy in found[best].items()},
        bound,
        losses if len(losses) > 1 else {},
    )


def keep_accuracy(folder: Path, found: StudyAccuracy) -> Path:
    """Write it beside the study in `folder`. Raises StorageError."""
    path = folder / _FILE
    output_folder(folder)
    check_output(path)
    atomic_write(path, json.dumps(found.to_json(), indent=1) + "\n")
    return path


def kept_accuracy(folder: Path) -> StudyAccuracy:
    """That beside a study; what nobody chose and nothing measured where there is none. Raises InputError for a damaged file."""
    path = folder / _FILE
    if not path.exists():
        return StudyAccuracy()
    try:
        return StudyAccuracy.from_json(json.loads(read_input_text(path)))
    except (ValueError, InputError) as error:
        raise InputError(f"this says nothing of accuracy: {error}", location=Location(str(path))) from None
