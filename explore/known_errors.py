"""How far predicted figures are off from what is measured: the errors that reports show and the documentation names.

All are of programs or machines that nothing was fitted to. `tests/explore/test_known_errors.py` compares them with the files of
`results/` that they come from, and with the pages that name them.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.config import Timing
from baco.accel.technology import PUBLISHED, known_figures, technology
from baco.exploration.candidate import CostModelName


@dataclass(frozen=True)
class KnownError:
    """Of a predicted figure.

    Attributes:
        mean: of |predicted / measured - 1|.
        bias: mean of predicted / measured - 1; None where it is not known.
        subject: what was measured, in words.
    """

    mean: float
    bias: float | None
    subject: str

    def times(self, other: KnownError) -> KnownError:
        """Of the product of two figures: both may be wrong in the same direction."""
        return KnownError((1 + self.mean) * (1 + other.mean) - 1, None, f"{self.subject}; {other.subject}")


#: `baco bench paper --only accuracy`: results/paper/accuracy.json and results/latency-model.json.
_LAYERS = "1,120 random mappings of single layers on the RTL of 8 accelerators"
#: `baco bench programs`: results/whole-programs.json.
_PROGRAMS = "25 whole programs of 5 networks on the RTL"
#: `baco bench timing --cross-validate 5`.
_ORIGINAL = "180 random programs on the original's RTL, constants fitted on other layers"
#: `python -m baco.bench.fit.area`.
_AREA = KnownError(0.025, None, "95 published configurations, by ten-fold cross-validation")

_CYCLES: dict[CostModelName, KnownError] = {
    "reference": KnownError(0.8147, -0.031, _LAYERS),
    "instruction": KnownError(0.096, 0.028, _LAYERS),
}
_ENERGY: dict[CostModelName, KnownError] = {
    "reference": KnownError(0.7032, 0.289, _LAYERS),
    "instruction": KnownError(0.051, 0.020, _LAYERS),
}
_WHOLE = KnownError(0.016, -0.001, _PROGRAMS)
#: `python -m baco.bench.fit.energy`: results/energy.json, with the clock.
_SWITCHED = KnownError(
    0.049, 0.0095, "42 whole programs of small networks on 6 machines, against what switches in RTL"
)
_AS_GEMMINI = KnownError(0.100, None, _ORIGINAL)


def known_errors(
    model: CostModelName,
    *,
    whole: bool = False,
    timing: Timing = "baco",
    silicon: str = PUBLISHED,
    dim: int | None = None,
) -> dict[str, KnownError]:
    """Of every metric of an objective (`baco.exploration.objective.metric`), and of the `clock` where netlists say what designs
    close at.

    Args:
        model: that predicts cycles and energy.
        whole: whether cycles are those of whole programs.
        timing: `Accelerator.timing`, whose cycles they are.
        silicon: `Accelerator.technology`, which areas are in.
        dim: side of the array, which may be beyond those of its netlists.
    """
    latency, energy = _CYCLES[model], _ENERGY[model]
    if model == "instruction":
        latency = _AS_GEMMINI if timing == "gemmini" else _WHOLE if whole else latency
    if known_figures(silicon) is not None:
        energy = _SWITCHED
    edp, area = latency.times(energy), _held_out(silicon, "area", dim) or _AREA
    clock = _held_out(silicon, "period", dim)
    found = {"latency": latency, "energy": energy, "area": area, "edp": edp, "edap": edp.times(area)}
    return found if clock is None else found | {"clock": clock}


def _held_out(silicon: str, law: str, dim: int | None) -> KnownError | None:
    """Of a law of a technology, on netlists that it has not seen; None where there are none."""
    named = technology(silicon)
    off, beyond = named.error(law, dim), dim is not None and named.beyond(dim)
    if off is None:
        return None
    by = (
        f"those of side {named.largest_side} by laws of smaller ones" if beyond else "each by laws without it"
    )
    return KnownError(off["mean_percent"] / 100, None, f"{named.description}, {by}")
