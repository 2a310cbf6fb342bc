"""The design space file: what its YAML may say. `explore/space/reading.py` gives it meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from baco.accel.config import PARAMETERS, SETTINGS, Accelerator
from baco.accel.dataflows import Dataflow, offered
from baco.accel.input_format import INPUT_FORMATS, InputFormat
from baco.common.yaml import Name
from baco.exploration.space.constraints import Constraints

Rules = Literal["gemmini", "reference"]
Units = Literal["none", "row_functions"]

#: Largest capacity that can be asked for; 64 MiB on chip is far beyond any.
MAX_KIB = 1 << 16
#: What every space chooses, by its key in the file.
SIZES = tuple(name for name, row in PARAMETERS.items() if row.searched == "size")
#: Accelerator fields that the space itself decides.
SEARCHED = (*SIZES, "dataflow")


class SearchRange(BaseModel):
    """All values from `min` to `max`: every `step`-th counted from `min`, or the powers of `powers_of`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: int = Field(ge=1, le=MAX_KIB)
    max: int = Field(ge=1, le=MAX_KIB)
    step: int | None = Field(None, ge=1, le=MAX_KIB)
    powers_of: int | None = Field(None, ge=2, le=16)

    @model_validator(mode="after")
    def _check(self) -> SearchRange:
        if self.max < self.min:
            raise ValueError(f"the range is empty: max {self.max} is less than min {self.min}")
        if self.step is not None and self.powers_of is not None:
            raise ValueError("a range has a step or powers_of, not both")
        if not self.values:
            raise ValueError(
                f"the range is empty: no power of {self.powers_of} lies between {self.min} and {self.max}"
            )
        return self

    @property
    def values(self) -> tuple[int, ...]:
        """The values, ascending."""
        if self.powers_of is None:
            return tuple(range(self.min, self.max + 1, self.step or 1))
        values, power = [], 1
        while power <= self.max:
            if power >= self.min:
                values.append(power)
            power *= self.powers_of
        return tuple(values)


Side = Annotated[int, Field(ge=2, le=128)]
Kib = Annotated[int, Field(ge=1, le=MAX_KIB)]


class SideRange(SearchRange):
    """A range of array sides."""

    min: int = Field(ge=2, le=128)
    max: int = Field(ge=2, le=128)


Values = Annotated[list[Annotated[int, Field(ge=1, le=MAX_KIB)]], Field(min_length=1, max_length=64)]


class _Settings(BaseModel):
    """What is chosen of an accelerator beside its sizes, dataflows and units: a list or a range each; what is left out is as
    base and fixed say. Searches begin with the values nearest to these."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _described(name: str) -> str:
    """What a file's author should know of a setting."""
    field, row = SETTINGS[name]
    words = row.label if row.setting else Accelerator.model_fields[field].description or ""
    said = words if not row.setting else f"{words}, {row.unit}"
    return f"{said[:1].upper()}{said[1:]}{f'; {row.note}' if row.note else ''}."


#: A field for every row of the table of hardware parameters that is a setting (`baco.accel.config.SETTINGS`).
Settings: type[_Settings] = create_model(
    "Settings",
    __base__=_Settings,
    __doc__=_Settings.__doc__,
    **{name: (Values | SearchRange | None, Field(None, description=_described(name))) for name in SETTINGS},  # type: ignore[call-overload]
)


class WeightedNetwork(BaseModel):
    """A network of the mix and how often it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: Name = Field(min_length=1, description="Name or file, with options, as --network takes it.")
    weight: float = Field(1.0, gt=0, le=1e9, allow_inf_nan=False, description="Runs of it in the mix.")


class SpaceFile(BaseModel):
    """A design space: the accelerators that a search may choose from, and the constraints on them."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="baco design space")

    name: Name = Field("custom", min_length=1, max_length=100, description="What reports call the space.")
    rules: Rules = Field(
        "gemmini",
        description="gemmini: power-of-two arrays and banks, as its instruction set needs. "
        "reference: any side and capacity, to compare with published results.",
    )
    base: Name = Field(
        "gemmini-default", min_length=1, description="Preset or file for everything that is not searched."
    )
    fixed: dict[str, Any] = Field(
        default_factory=dict, description="Fields of the accelerator that replace those of the base."
    )
    technology: Name | None = Field(
        None,
        description="What areas are in, and clocks close at (baco technology list); by default as base and fixed say.",
    )
    dim: Annotated[list[Side], Field(min_length=1, max_length=127)] | SideRange = Field(
        description="Array sides: a list, or a range (of which only legal sides are kept)."
    )
    scratchpad_kib: Annotated[list[Kib], Field(min_length=1, max_length=10_000)] | SearchRange = Field(
        description="Scratchpad capacities in KiB: a list, or a range (of which only legal ones are kept)."
    )
    accumulator_kib: Annotated[list[Kib], Field(min_length=1, max_length=10_000)] | SearchRange = Field(
        description="Accumulator capacities in KiB: a list, or a range (of which only legal ones are kept)."
    )
    dataflows: Annotated[list[Dataflow], Field(min_length=1, max_length=2)] = Field(
        list(offered("both")),
        description="Stationary operand: WS weights, OS outputs; both: the mapping chooses.",
    )
    units: Annotated[list[Units], Field(min_length=1, max_length=2)] | None = Field(
        None,
        description="Units for non-linear functions: none; row_functions (softmax, layer norm, GELU and others on the way "
        "out of the array); both: the search chooses, by what whole programs cost. By default as base and fixed say.",
    )
    input_formats: Annotated[list[InputFormat], Field(min_length=1, max_length=len(INPUT_FORMATS))] | None = (
        Field(
            None,
            description="Formats of elements; several: searched with accuracy as an objective, a study each, weight-stationary and without what "
            "works on integers where elements are floating point. By default as base and fixed say.",
        )
    )
    settings: Settings = Field(  # type: ignore[valid-type]
        default_factory=Settings,
        description="Further fields of the accelerator that are searched; with the instruction-aware model alone.",
    )
    double_buffer: bool = Field(
        True,
        description="True: tiles that change have two copies, so that the next is loaded while one is used; with the "
        "instruction-aware model a search may choose one copy for a tensor. False: all have one.",
    )
    constraints: Constraints = Field(default_factory=Constraints, description="Upper bounds.")
    networks: Annotated[list[WeightedNetwork], Field(max_length=100)] = Field(
        default_factory=list, description="The workload, unless --network is given: one accelerator for all."
    )
