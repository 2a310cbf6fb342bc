"""Accelerators that exist here only as analytical models, for comparisons: a stack of memories and an array.

One YAML file each. Other than `baco.accel.presets`, nothing can be compiled for them or built; they are costed by
`baco.bench.paper.nest` with the energy laws and the word counting of the reference model, but with their own levels,
bandwidths and dataflow.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from baco.accel.energy import EnergyTable
from baco.common.errors import InputError, did_you_mean
from baco.common.yaml import load_yaml, parse_model

__all__ = ["AnalyticalAccelerator", "Axis", "Memory", "Store", "analytical_names", "load_analytical"]

Dimension = Literal["R", "S", "P", "Q", "C", "K", "N"]
Tensor = Literal["W", "I", "O"]

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Axis(BaseModel):
    """One direction in which a level fans out to instances of the level inside it."""

    model_config = _STRICT

    size: int = Field(ge=1, le=65_536, description="instances along this direction")
    dims: tuple[Dimension, ...] = Field(
        min_length=1, description="loop dimensions that may be spread along it, several together"
    )


class Store(BaseModel):
    """Capacity for one tensor, or shared by several."""

    model_config = _STRICT

    tensors: tuple[Tensor, ...] = Field(min_length=1, description="what is kept here")
    words: int | None = Field(
        None,
        ge=1,
        description="capacity of one instance in words (a partial sum is one word); none: no limit",
    )


class Memory(BaseModel):
    """One level of the hierarchy.

    Temporal loops of a level run over the tiles that it keeps; its axes lie inside them, between it and the level
    inside. A tensor that no store of a level names passes it by.
    """

    model_config = _STRICT

    name: str = Field(min_length=1, description="for tables")
    stores: tuple[Store, ...] = Field(min_length=1, description="what it holds")
    loops: tuple[Dimension, ...] = Field(description="dimensions whose temporal loops may run at this level")
    axes: tuple[Axis, ...] = Field(
        (), description="fan-out to the level inside (at level 0: to the multipliers)"
    )
    energy: Literal["register", "accumulator", "scratchpad", "dram"] = Field(
        description="energy law of an access (baco.accel.energy); `accumulator` and `scratchpad` grow with capacity_kib"
    )
    capacity_kib: float = Field(0.0, ge=0, description="capacity of one instance, for the energy law")
    words_per_cycle: float | None = Field(
        None, gt=0, description="reads and writes together, one instance; none: never binds"
    )
    reads_per_cycle: float | None = Field(None, gt=0, description="words read a cycle, one instance")
    writes_per_cycle: float | None = Field(None, gt=0, description="words written a cycle, one instance")

    @property
    def kept(self) -> frozenset[str]:
        """Tensors kept here."""
        return frozenset(tensor for store in self.stores for tensor in store.tensors)

    def access_pj(self, table: EnergyTable) -> float:
        """Energy of one word access in pJ."""
        if self.energy == "accumulator":
            return table.accumulator_pj(self.capacity_kib, 1.0)  # a column's own memory: nothing to share out
        if self.energy == "scratchpad":
            return table.scratchpad_pj(self.capacity_kib)
        return {"register": table.register_pj, "dram": table.dram_pj}[self.energy]


class AnalyticalAccelerator(BaseModel):
    """A stack of memories from the multipliers outward; the outermost keeps everything.

    Assumptions are in the comments of its YAML file, the rules of counting in `baco.bench.paper.nest`.
    """

    model_config = _STRICT

    name: str = Field(min_length=1, description="label for tables")
    levels: tuple[Memory, ...] = Field(min_length=2, description="innermost first")
    energy: EnergyTable = Field(default_factory=EnergyTable, description="energy constants, pJ")

    @model_validator(mode="after")
    def _check(self) -> AnalyticalAccelerator:
        top = self.levels[-1]
        if top.kept != {"W", "I", "O"} or any(store.words is not None for store in top.stores):
            raise ValueError("the outermost level must keep W, I and O without a limit")
        if set(top.loops) != set("RSPQCKN"):
            raise ValueError("every dimension must be able to loop at the outermost level")
        for memory in self.levels:
            named = [tensor for store in memory.stores for tensor in store.tensors]
            if len(set(named)) < len(named):
                raise ValueError(f"level '{memory.name}' keeps a tensor twice")
        return self

    @property
    def multipliers(self) -> int:
        """Multiply-accumulates a cycle at most."""
        product = 1
        for memory in self.levels:
            for axis in memory.axes:
                product *= axis.size
        return product


def analytical_names() -> list[str]:
    """Names of the accelerators that come with the product, sorted."""
    folder = resources.files(__package__)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_analytical(name: str) -> AnalyticalAccelerator:
    """An analytical accelerator by its name. Raises InputError for an unknown one."""
    names = analytical_names()
    if name not in names:
        raise InputError(f"unknown analytical accelerator '{name}'", hint=did_you_mean(name, names))
    with resources.as_file(resources.files(__package__) / f"{name}.yaml") as path:
        return parse_model(AnalyticalAccelerator, load_yaml(path))
