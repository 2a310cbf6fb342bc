"""What the elements of an array are, and what an accelerator needs for it."""

from __future__ import annotations

from typing import Any, Literal, get_args

from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW
from baco.accel.number_formats import ArrayFloat, array_float
from baco.accel.technology import PUBLISHED, technology

#: Integers, or numbers in floating point (`baco.accel.number_formats`), whose sums are float32.
InputFormat = Literal["integer", ArrayFloat]
#: In the order of their numbers in C++.
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
#: What arrays of floating point are built with, beside elements of their format's bits.
_NEEDED = {
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
#: Feature whose loads make elements of one format, and the format.
_BLOCKS, _BLOCKS_BECOME = "block_weights", "bf16"


def of_format(accelerator: Any, form: InputFormat) -> dict[str, Any]:
    """Fields by which an `Accelerator` of integers has elements of a format: weight-stationary for floating point, without what works on
    integers."""
    features = accelerator.features.model_dump()
    if form != _BLOCKS_BECOME:
        features |= {_BLOCKS: False}
    if form == "integer":
        floats = array_float(accelerator.input_format) is not None
        return {"input_format": form, "features": features} | ({"input_bits": 8} if floats else {})
    features |= dict.fromkeys(_INTEGER_FEATURES, False)
    return {"dataflow": MACRO_DATAFLOW, "features": features} | with_bits({"input_format": form})


def with_bits(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of an `Accelerator` whose elements in floating point have the bits of their format, where no others are given."""
    form = array_float(fields.get("input_format", "integer"))
    if form is None or fields.get("input_bits", 8) != 8:
        return fields
    return fields | {"input_bits": form.bits}


def _known(accelerator: Any) -> bool:
    """Whether its technology says what its floating point takes."""
    silicon = technology(accelerator.technology)
    energy = silicon.switching is None or accelerator.input_format in silicon.float_macs
    return energy and (silicon.period is None or silicon.period.known(accelerator))


def format_problem(accelerator: Any) -> str | None:
    """What an `Accelerator` (whose module imports this one) must have, and has not, for the format of its elements; None for nothing."""
    form = array_float(accelerator.input_format)
    if getattr(accelerator.features, _BLOCKS) and accelerator.input_format != _BLOCKS_BECOME:
        return f"features.{_BLOCKS} needs input_format {_BLOCKS_BECOME} (not {accelerator.input_format})"
    if form is None:
        return None
    needed = {"input_bits": form.bits} | _NEEDED
    own = {name: getattr(accelerator, name) for name in needed}
    wrong = [f"{name} {needed[name]} (not {value})" for name, value in own.items() if value != needed[name]]
    if any(DATAFLOWS[name].sums_stay for name in accelerator.dataflows):
        flows = " or ".join(name for name, rule in DATAFLOWS.items() if not rule.sums_stay)
        wrong.insert(0, f"dataflow {flows} (not {accelerator.dataflow})")
    extra = [f"features.{name}" for name in _INTEGER_FEATURES if getattr(accelerator.features, name)]
    if not _known(accelerator):
        wrong.append(
            f"technology {PUBLISHED} (not {accelerator.technology}, where its clock or energy is not known)"
        )
    if extra:
        wrong.append(f"{', '.join(extra)} false (integers only)")
    return f"input_format {accelerator.input_format} needs {', '.join(wrong)}" if wrong else None
