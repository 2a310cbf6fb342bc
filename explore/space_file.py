"""The design space file: what its YAML may say. `explore/space.py` gives it meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow, offered
from baco.common.files import atomic_write
from baco.common.yaml import Name
from baco.exploration.constraints import Constraints

Rules = Literal["gemmini", "reference"]
Units = Literal["none", "row_functions"]

SCHEMA_PATH = Path(__file__).parent / "spaces" / "space.schema.json"
#: Largest capacity that can be asked for; 64 MiB on chip is far beyond any.
MAX_KIB = 1 << 16
#: Accelerator fields that the space itself decides.
SEARCHED = ("dim", "scratchpad_kib", "accumulator_kib", "dataflow")
#: Accelerator field that each setting decides, where it is not the one of its name.
SETTING_FIELDS = {"memory_gb_s": "dram_bytes_per_cycle"}


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


def _setting(description: str) -> Any:
    return Field(None, description=description)


Values = Annotated[list[Annotated[int, Field(ge=1, le=MAX_KIB)]], Field(min_length=1, max_length=64)]


class Settings(BaseModel):
    """What is chosen of an accelerator beside its sizes, dataflows and units: a list or a range each; what is left out is as
    base and fixed say. Searches begin with the values nearest to these."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dma_bits: Values | SearchRange | None = _setting("Width of the memory port, bits.")
    dma_requests: Values | SearchRange | None = _setting("Memory requests in flight.")
    load_entries: Values | SearchRange | None = _setting("Reservation-station entries, loads.")
    execute_entries: Values | SearchRange | None = _setting("Reservation-station entries, execution.")
    store_entries: Values | SearchRange | None = _setting("Reservation-station entries, stores.")
    load_queue: Values | SearchRange | None = _setting("Commands queued before the load controller.")
    execute_queue: Values | SearchRange | None = _setting("Commands queued before the execute controller.")
    store_queue: Values | SearchRange | None = _setting("Commands queued before the store controller.")
    scratchpad_banks: Values | SearchRange | None = _setting("Scratchpad banks.")
    accumulator_banks: Values | SearchRange | None = _setting(
        "Accumulator banks, at least 2: the model of cycles does not know what a single one holds up."
    )
    memory_gb_s: Values | SearchRange | None = _setting(
        "Bandwidth of main memory, GB/s; memory_mm2_per_gb_s and energy.memory_mw_per_gb_s say what it costs."
    )
    clock_mhz: Values | SearchRange | None = _setting(
        "Clock, MHz. Supply and energy follow it (docs/models.md), and objectives count nanoseconds instead of cycles."
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
    settings: Settings = Field(
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


def space_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the space file, for editors; committed at `SCHEMA_PATH`."""
    schema = SpaceFile.model_json_schema()
    accelerator = Accelerator.model_json_schema()
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    definitions.update(accelerator.pop("$defs", {}))
    properties = {k: v for k, v in accelerator["properties"].items() if k not in (*SEARCHED, "name")}
    fixed = schema["properties"]["fixed"]
    schema["properties"]["fixed"] = {
        "type": "object",
        "description": fixed["description"],
        "properties": properties,
        "additionalProperties": False,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def main() -> None:
    """Write the committed copy of the schema: `python -m baco.exploration.space_file`."""
    atomic_write(SCHEMA_PATH, json.dumps(space_json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
