"""What the elements of an array are, and what an accelerator needs for it."""

from __future__ import annotations

from typing import Any, Literal, get_args

from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW
from baco.accel.technology import PUBLISHED, technology

#: Integers, or numbers of 8 bits in floating point (`baco.accel.number_formats`), whose sums are float32.
InputFormat = Literal["integer", "fp8-e4m3", "fp8-e5m2"]
#: In the order of their numbers in C++.
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
#: What arrays of floating point are built with.
_NEEDED = {
    "input_bits": 8,
    "accumulator_bits": 32,
    "partial_sum_bits": 32,
    "timing": "baco",
}
#: Features that work on integers.
_INTEGER_FEATURES = (
    "normalizations",
    "mvin_scale",
    "mvin_scale_acc",
    "row_functions",
    "requantization",
    "packed_weights",
)


def of_format(accelerator: Any, form: InputFormat) -> dict[str, Any]:
    """Fields by which an `Accelerator` of integers has elements of a format: weight-stationary for floating point, without what works on
    integers."""
    if form == "integer":
        return {"input_format": form}
    features = accelerator.features.model_dump() | dict.fromkeys(_INTEGER_FEATURES, False)
    return {"input_format": form, "dataflow": MACRO_DATAFLOW, "features": features}


def _known_in(name: str) -> bool:
    """Whether a technology says what floating point takes: figures of switching are those of integers."""
    if name == PUBLISHED:
        return True
    silicon = technology(name)
    return silicon.switching is None and (silicon.period is None or silicon.period.floats > 0)


def format_problem(accelerator: Any) -> str | None:
    """What an `Accelerator` (whose module imports this one) must have, and has not, for the format of its elements; None for nothing."""
    if accelerator.input_format == "integer":
        return None
    own = {name: getattr(accelerator, name) for name in _NEEDED}
    wrong = [f"{name} {_NEEDED[name]} (not {value})" for name, value in own.items() if value != _NEEDED[name]]
    if any(DATAFLOWS[name].sums_stay for name in accelerator.dataflows):
        flows = " or ".join(name for name, rule in DATAFLOWS.items() if not rule.sums_stay)
        wrong.insert(0, f"dataflow {flows} (not {accelerator.dataflow})")
    extra = [f"features.{name}" for name in _INTEGER_FEATURES if getattr(accelerator.features, name)]
    if not _known_in(accelerator.technology):
        wrong.append(
            f"technology {PUBLISHED} (not {accelerator.technology}, where its clock or energy is not known)"
        )
    if extra:
        wrong.append(f"{', '.join(extra)} false (integers only)")
    return f"input_format {accelerator.input_format} needs {', '.join(wrong)}" if wrong else None
