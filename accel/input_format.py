"""What the elements of an array are, and what an accelerator needs for it."""

from __future__ import annotations

from typing import Any, Literal, get_args

from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW
from baco.accel.number_formats import ArrayFloat, array_float
from baco.accel.technology import PUBLISHED, technology

#: Integers of 8 bits, or numbers in floating point (`baco.accel.number_formats`), whose sums are float32, or integers of 16 bits.
InputFormat = Literal["integer", ArrayFloat, "int16"]
#: In the order of their numbers in C++.
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
#: What arrays of others than int8 are built with, beside elements of their format's bits.
_NEEDED = {"accumulator_bits": 32, "partial_sum_bits": 32, "timing": "baco"}
#: Features that work on int8, and on integers.
_BYTE_FEATURES = ("normalizations", "row_functions", "requantization", "packed_weights")
_INTEGER_FEATURES = (*_BYTE_FEATURES, "mvin_scale", "mvin_scale_acc")
#: Feature whose loads make elements of one format, and the format.
_BLOCKS, _BLOCKS_BECOME = "block_weights", "bf16"


def element_bits(form: InputFormat) -> int:
    """Bits of an element."""
    found = array_float(form)
    return found.bits if found is not None else 16 if form == "int16" else 8


def of_format(accelerator: Any, form: InputFormat) -> dict[str, Any]:
    """Fields by which an `Accelerator` of integers has elements of a format: weight-stationary for floating point, without what works on
    other elements only."""
    floats, features = array_float(form), accelerator.features.model_dump()
    if form != "integer":
        features |= dict.fromkeys(_INTEGER_FEATURES if floats else _BYTE_FEATURES, False)
    if form != _BLOCKS_BECOME:
        features |= {_BLOCKS: False}
    fields = {"input_format": form, "features": features} | ({"dataflow": MACRO_DATAFLOW} if floats else {})
    return fields if form == accelerator.input_format else fields | {"input_bits": element_bits(form)}


def with_bits(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of an `Accelerator` whose elements have the bits of their format, where no others are given; integers of 16 bits have a
    format of their own."""
    form, bits = fields.get("input_format", "integer"), fields.get("input_bits", 8)
    if (form, bits) == ("integer", 16):
        return fields | {"input_format": "int16"}
    return fields | {"input_bits": element_bits(form)} if bits == 8 and form in INPUT_FORMATS[1:] else fields


def _known(accelerator: Any) -> bool:
    """Whether its technology says what its elements take, where they are not int8."""
    silicon = technology(accelerator.technology)
    energy = silicon.switching is None or accelerator.input_format in silicon.float_macs
    return energy and (silicon.period is None or silicon.period.known(accelerator))


def format_problem(accelerator: Any) -> str | None:
    """What an `Accelerator` (whose module imports this one) must have, and has not, for the format of its elements; None for nothing."""
    form, floats = accelerator.input_format, accelerator.floating
    if getattr(accelerator.features, _BLOCKS) and form != _BLOCKS_BECOME:
        return f"features.{_BLOCKS} needs input_format {_BLOCKS_BECOME} (not {form})"
    if form == "integer":
        return None
    needed = {"input_bits": element_bits(form)} | _NEEDED
    own = {name: getattr(accelerator, name) for name in needed}
    wrong = [f"{name} {needed[name]} (not {value})" for name, value in own.items() if value != needed[name]]
    if floats and any(DATAFLOWS[name].sums_stay for name in accelerator.dataflows):
        flows = " or ".join(name for name, rule in DATAFLOWS.items() if not rule.sums_stay)
        wrong.insert(0, f"dataflow {flows} (not {accelerator.dataflow})")
    lacking = _INTEGER_FEATURES if floats else _BYTE_FEATURES
    extra = [f"features.{name}" for name in lacking if getattr(accelerator.features, name)]
    if not _known(accelerator):
        wrong.append(
            f"technology {PUBLISHED} (not {accelerator.technology}, where its clock or energy is not known)"
        )
    if extra:
        wrong.append(f"{', '.join(extra)} false ({'integers' if floats else 'int8'} only)")
    return f"input_format {form} needs {', '.join(wrong)}" if wrong else None
