"""The accelerator configuration: one frozen object that every part of the product takes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from decimal import ROUND_DOWN, Context
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from baco.accel.area import configured_area_mm2, configured_blocks_mm2
from baco.accel.dataflows import DATAFLOWS, Dataflow, DataflowSetting, offered
from baco.accel.energy import EnergyLaw, EnergyTable
from baco.accel.input_format import InputFormat, format_problem, of_format, with_bits
from baco.accel.number_formats import array_float
from baco.accel.parameters import ParameterRow, Reader
from baco.accel.switched_energy import SwitchedEnergy
from baco.accel.technology import PUBLISHED, known_figures, technology
from baco.common.errors import InfeasibleError, InputError, did_you_mean
from baco.common.provenance import stable_hash
from baco.common.shown import shown_html

#: Bytes of main memory in a row that one load or store moves on every accelerator, whatever its memory requests.
MOVE_BYTES = 64
#: Whose cycles an accelerator takes: those of our Verilog, or of the original Gemmini in a Rocket system.
Timing = Literal["baco", "gemmini"]
TIMINGS: tuple[Timing, ...] = get_args(Timing)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
#: Features that Gemmini lacks.
_ADDITIONS = ("row_functions", "requantization", "packed_weights", "block_weights")
#: Features without which there are no results that could be normalised.
_NORMALIZED = ("activations", "accumulator_scale", "read_small_width")
#: Features without which there are no scaled results.
_REQUANTIZED = ("accumulator_scale", "read_small_width")
#: What is named in files only where it is not as on published accelerators.
_SILENT = ("memory_mm2_per_gb_s", "memory_mw_per_gb_s", "instruction_pj", "technology", "input_format")
_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
#: What clocks are rounded to: they still close.
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_DOWN)


#: Who reads what an array and its memories are.
_ALL: tuple[Reader, ...] = ("program", "instruction", "reference")


def _port(machine: Accelerator, bits: float) -> dict[str, Any]:
    """A request must hold a transfer of a wider port."""
    return {"dma_bits": int(bits), "dma_max_bytes": max(machine.dma_max_bytes, int(bits) // 8)}


def _clock(machine: Accelerator, mhz: float) -> dict[str, Any]:
    """A clock comes with its energy (`EnergyTable.at_clock`), and main memory keeps its GB/s at any."""
    if mhz == machine.clock_mhz:
        return {}
    return {
        "clock_mhz": float(mhz),
        "energy": machine.energy.at_clock(mhz, machine.clock_mhz).model_dump(),
        "dram_bytes_per_cycle": machine.memory_gb_s * 1e3 / mhz,
    }


def _bandwidth(machine: Accelerator, gb_s: float) -> dict[str, Any]:
    return {"dram_bytes_per_cycle": gb_s * 1e3 / machine.clock_mhz}


class Features(BaseModel):
    """Optional features; what is off is absent from the hardware. Defaults: Gemmini's defaultConfig."""

    model_config = _STRICT

    loop_ws: bool = Field(True, description="LOOP_WS: unroller of tiled matrix products")
    loop_conv: bool = Field(True, description="LOOP_CONV_WS: unroller of tiled convolutions (has_loop_conv)")
    training_convs: bool = Field(
        True, description="transposed and dilated convolutions of training (has_training_convs)"
    )
    depthwise_convs: bool = Field(True, description="depthwise convolutions in LOOP_CONV_WS (has_dw_convs)")
    first_layer: bool = Field(
        True, description="pixel repeats for few input channels (has_first_layer_optimizations)"
    )
    max_pool: bool = Field(True, description="max-pooling on the way out (has_max_pool)")
    activations: bool = Field(True, description="ReLU on the way out (has_nonlinear_activations)")
    normalizations: bool = Field(
        False, description="layer norm, softmax and I-GELU of results (has_normalizations)"
    )
    mvin_scale: bool = Field(True, description="float32 scaling of scratchpad loads (mvin_scale_args)")
    mvin_scale_acc: bool = Field(
        False, description="float32 scaling of accumulator loads (mvin_scale_acc_args)"
    )
    accumulator_scale: bool = Field(
        True, description="float32 scaling of accumulator results (acc_scale_args)"
    )
    read_small_width: bool = Field(
        True, description="scaled accumulator results of input width (acc_read_small_width)"
    )
    read_full_width: bool = Field(
        True, description="raw accumulator results of full width (acc_read_full_width)"
    )
    preload_d: bool = Field(
        True, description="bias of a matrix product from local memory (off: hardcode_d_to_garbage_addr)"
    )
    write_to_scratchpad: bool = Field(
        True, description="matrix products may end in the scratchpad (ex_write_to_spad)"
    )
    row_functions: bool = Field(
        False,
        description="tables, softmax, normalisation and products of rows on the way out (not in Gemmini)",
    )
    requantization: bool = Field(
        False,
        description="a scale for each column, zero point and limits of scaled results (not in Gemmini)",
    )
    packed_weights: bool = Field(
        False, description="loads of elements of 4 bits, two a byte, which become int8 (not in Gemmini)"
    )
    block_weights: bool = Field(
        False,
        description="loads of elements with a shared power of two (MXFP4, MXFP8, MXINT8), which become bf16 (not in Gemmini)",
    )

    @model_serializer(mode="wrap")
    def _without_additions(self, handler: SerializerFunctionWrapHandler) -> dict[str, bool]:
        # a machine without what Gemmini lacks is written, and hashed, as Gemmini's
        values: dict[str, bool] = handler(self)
        return {name: value for name, value in values.items() if value or name not in _ADDITIONS}


class _Checked(type(BaseModel)):  # type: ignore[misc]
    """Wrong fields of a constructor's call are a user's mistake."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        try:
            return super().__call__(*args, **fields)
        except ValidationError as error:
            raise _field_error(error) from None


def memory_rows(kib: int, row_bits: int) -> int:
    """Whole rows of so many bits in a memory (ISA specification 3.1)."""
    return kib * 8192 // row_bits


class Accelerator(BaseModel, metaclass=_Checked):
    """One hardware configuration (design vocabulary: *accelerator*).

    What Gemmini itself would refuse is allowed here and listed by `gemmini_problems`, since published
    comparisons use such points. Defaults are those of Gemmini's defaultConfig unless a description says
    otherwise. Unknown fields and bad values raise InputError.
    """

    model_config = _STRICT

    name: str = Field(
        "custom",
        min_length=1,
        max_length=64,
        json_schema_extra={"pattern": f"^{_NAME}$"},
        description="label; has no influence on anything computed",
    )
    dim: Annotated[int, ParameterRow("array side", rtl="DIM", readers=_ALL, searched="size")] = Field(
        ge=2, le=128, description="rows and columns of the array"
    )
    dataflow: DataflowSetting = Field(
        "both", description="weight-stationary, output-stationary, or selectable by command"
    )
    tile_rows: Annotated[int, ParameterRow("rows of a tile", rtl="TILE_ROWS")] = Field(
        1, ge=1, le=128, description="rows and columns of elements between pipeline registers; divides dim"
    )
    scratchpad_kib: Annotated[
        int,
        ParameterRow("scratchpad", "KiB", "SP_ROWS", "scratchpad_rows", readers=_ALL, searched="size"),
    ] = Field(ge=1, le=1 << 20, description="scratchpad capacity, KiB")
    scratchpad_banks: Annotated[
        int, ParameterRow("scratchpad banks", rtl="SP_BANKS", searched="setting", order=8)
    ] = Field(4, ge=1, le=64, description="scratchpad banks")
    accumulator_kib: Annotated[
        int,
        ParameterRow("accumulator", "KiB", "ACC_ROWS", "accumulator_rows", readers=_ALL, searched="size"),
    ] = Field(ge=1, le=1 << 20, description="accumulator capacity, KiB, shared out evenly to the columns")
    accumulator_banks: Annotated[
        int,
        ParameterRow(
            "accumulator banks",
            rtl="ACC_BANKS",
            readers=("program", "instruction"),
            searched="setting",
            order=9,
            least=2,
            why="predicted cycles leave out what a single bank holds up",
            note="at least 2: predicted cycles leave out what a single one holds up, up to a quarter of a layer's",
        ),
    ] = Field(2, ge=1, le=4, description="accumulator banks")
    input_bits: Annotated[Literal[8, 16, 32], ParameterRow("input", "bits", readers=_ALL)] = Field(
        8,
        description="bits of a signed input or weight element; those of the format where that is no integer",
    )
    accumulator_bits: Annotated[Literal[8, 16, 32], ParameterRow("sum", "bits", readers=_ALL)] = Field(
        32, description="bits of a signed accumulator element"
    )
    partial_sum_bits: Annotated[
        int, ParameterRow("partial sum", "bits", "PSUM_BITS", readers=("program", "instruction"))
    ] = Field(32, ge=8, le=32, description="bits of a partial sum inside the array (Gemmini: 20)")
    input_format: Annotated[InputFormat, ParameterRow("format of elements", readers=_ALL)] = Field(
        "integer",
        description="integers of input_bits, int16 (that with input_bits: 16), or fp8-e4m3, fp8-e5m2, bf16: floating point of 8 and 16 bits, float32 sums",
    )
    dma_bits: Annotated[
        Literal[32, 64, 128, 256, 512],
        ParameterRow("memory port", "bits", "DMA_BITS", searched="setting", order=0, changes=_port),
    ] = Field(128, description="width of the memory port, bits")
    dma_max_bytes: Annotated[
        Literal[8, 16, 32, 64, 128],
        ParameterRow("memory request", "bytes", "DMA_MAX_BYTES", readers=("program", "instruction")),
    ] = Field(64, description="largest memory request, bytes")
    dma_requests: Annotated[
        int, ParameterRow("memory requests in flight", rtl="DMA_REQUESTS", searched="setting", order=1)
    ] = Field(16, ge=1, le=256, description="memory requests in flight")
    load_queue: Annotated[
        int, ParameterRow("queue of loads", "commands", "LOAD_QUEUE", searched="setting", order=5)
    ] = Field(8, ge=1, le=64, description="commands queued before the load controller")
    execute_queue: Annotated[
        int, ParameterRow("queue of execution", "commands", "EX_QUEUE", searched="setting", order=6)
    ] = Field(8, ge=1, le=64, description="commands queued before the execute controller")
    store_queue: Annotated[
        int, ParameterRow("queue of stores", "commands", "STORE_QUEUE", searched="setting", order=7)
    ] = Field(2, ge=1, le=64, description="commands queued before the store controller")
    scale_lanes: Annotated[
        Literal[1, 2, 4, 8, 16, 32, 64, 128],
        ParameterRow("scaling lanes", "elements", "SCALE_LANES", searched="setting", order=12),
    ] = Field(
        128, description="elements of a row scaled in a cycle at most, of results and of loads with a scale"
    )
    load_entries: Annotated[
        int,
        ParameterRow("reservation station, loads", "entries", "LOAD_ENTRIES", searched="setting", order=2),
    ] = Field(8, ge=1, le=64, description="reservation-station entries, loads")
    execute_entries: Annotated[
        int,
        ParameterRow("reservation station, execution", "entries", "EX_ENTRIES", searched="setting", order=3),
    ] = Field(16, ge=1, le=64, description="reservation-station entries, execution")
    store_entries: Annotated[
        int,
        ParameterRow("reservation station, stores", "entries", "STORE_ENTRIES", searched="setting", order=4),
    ] = Field(4, ge=1, le=64, description="reservation-station entries, stores")
    counters: Annotated[int, ParameterRow("performance counters", rtl="COUNTERS", readers=())] = Field(
        8, ge=0, le=64, description="performance counters; 0 removes them"
    )
    clock_mhz: Annotated[
        float,
        ParameterRow(
            "clock",
            "MHz",
            readers=("instruction", "reference"),
            searched="setting",
            order=11,
            changes=_clock,
            factor=1.25,
            note="supply and energy follow it (docs/models.md), and objectives count nanoseconds instead of cycles",
        ),
    ] = Field(1000.0, gt=0, le=100_000, description="clock frequency, MHz")
    dram_bytes_per_cycle: Annotated[
        float,
        ParameterRow(
            "memory bandwidth",
            "GB/s",
            readers=("instruction", "reference"),
            searched="setting",
            setting="memory_gb_s",
            order=10,
            least=0,
            changes=_bandwidth,
            together=(
                ("dma_bits",),
                ("dma_bits", "dma_requests"),
                ("clock_mhz",),
                ("dma_requests",),
            ),
            note="memory_mm2_per_gb_s and energy.memory_mw_per_gb_s say what it costs",
        ),
    ] = Field(8.0, gt=0, le=65_536, description="DRAM bandwidth, bytes per accelerator cycle")
    memory_mm2_per_gb_s: float = Field(
        0.0,
        ge=0,
        le=1_000,
        description="area of the memory interface for each GB/s, mm2 (published areas have none of it, 0)",
    )
    timing: Timing = Field(
        "baco",
        description="whose cycles are predicted and measured: baco (our Verilog's) or gemmini (the original's)",
    )
    technology: str = Field(
        PUBLISHED, description="what its area is in (baco technology list); published-45nm assumes its clock"
    )
    features: Features = Field(default_factory=Features, description="optional features: true or false")
    energy: EnergyTable = Field(default_factory=EnergyTable, description="energy constants, pJ")

    @field_validator("technology")
    @classmethod
    def _check_technology(cls, value: str) -> str:
        try:
            if value != PUBLISHED:
                technology(value)
        except InputError as error:
            raise ValueError(f"{error.message}; {error.hint}") from None
        return value

    @model_validator(mode="before")
    @classmethod
    def _element_bits(cls, values: Any) -> Any:
        return with_bits(values) if isinstance(values, dict) else values

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        # it ends up in file names, comments of generated Verilog and YAML
        if not re.fullmatch(_NAME, value):
            raise ValueError(
                "name must start with a letter or digit, and go on with letters, digits, '.', '_', '+' and '-'"
            )
        return value

    @model_validator(mode="after")
    def _check(self) -> Accelerator:
        if self.dim % self.tile_rows:
            raise ValueError(f"tile_rows must divide dim: {self.dim} is no multiple of {self.tile_rows}")
        if self.accumulator_bits < self.input_bits:
            raise ValueError(
                f"accumulator_bits ({self.accumulator_bits}) must be at least input_bits ({self.input_bits})"
            )
        if not self.input_bits <= self.partial_sum_bits <= self.accumulator_bits:
            raise ValueError(
                f"partial_sum_bits ({self.partial_sum_bits}) must lie between input_bits ({self.input_bits})"
                f" and accumulator_bits ({self.accumulator_bits})"
            )
        if (problem := format_problem(self)) is not None:
            raise ValueError(problem)
        if self.features.normalizations:
            missing = [name for name in _NORMALIZED if not getattr(self.features, name)]
            if missing:
                raise ValueError(f"features.normalizations needs {' and '.join(missing)} as well")
        if self.features.requantization:
            missing = [name for name in _REQUANTIZED if not getattr(self.features, name)]
            if missing:
                raise ValueError(f"features.requantization needs {' and '.join(missing)} as well")
            if self.features.normalizations:
                raise ValueError("features.requantization and normalizations exclude each other")
        if self.dma_bits > 8 * self.dma_max_bytes:
            raise ValueError(
                f"dma_max_bytes ({self.dma_max_bytes}) must hold at least one transfer of"
                f" dma_bits ({self.dma_bits} bits = {self.dma_bits // 8} bytes)"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_additions(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # an accelerator without what published ones lack is written, and hashed, as these
        values: dict[str, Any] = handler(self)
        if not values.get("memory_mm2_per_gb_s"):
            values.pop("memory_mm2_per_gb_s", None)
        if values.get("scale_lanes") == type(self).model_fields["scale_lanes"].default:
            del values["scale_lanes"]
        if values.get("technology") == PUBLISHED:
            del values["technology"]
        if values.get("input_format") == "integer":
            del values["input_format"]
        return values

    def __repr__(self) -> str:
        # every field of it would bury what people look for; `to_yaml` gives all
        return f"<Accelerator {self._headline()}>"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return shown_html(f"Accelerator {self._headline()}", self._facts())

    def _headline(self) -> str:
        return (
            f"{self.name}: {self.dim}×{self.dim} {self.dataflow}, {self.scratchpad_kib:,}+{self.accumulator_kib:,} KiB,"
            f" {self.clock_mhz:g} MHz, {self.config_hash}"
        )

    def _facts(self) -> Iterator[tuple[str, object]]:
        usual = Features()
        yield (
            "array",
            f"{self.dim}×{self.dim}, {' and '.join(self.dataflows)}, {self.elements}",
        )
        yield "scratchpad", f"{self.scratchpad_kib:,} KiB in {self.scratchpad_banks} banks"
        yield "accumulator", f"{self.accumulator_kib:,} KiB in {self.accumulator_banks} banks"
        yield (
            "memory port",
            f"{self.dma_bits} bits, {self.dma_requests} requests of up to {self.dma_max_bytes} bytes in flight",
        )
        yield "main memory", f"{self.dram_bytes_per_cycle:g} bytes a cycle, {self.memory_gb_s:g} GB/s"
        yield "clock", f"{self.clock_mhz:g} MHz"
        yield "technology", self.technology if self.technology != PUBLISHED else None
        yield "area, predicted", f"{self.area_mm2:.3g} mm²" if self.common_elements else None
        for what, wanted in (("with", True), ("without", False)):
            names = [
                name
                for name in Features.model_fields
                if getattr(self.features, name) is wanted is not getattr(usual, name)
            ]
            yield f"{what}, unlike Gemmini", ", ".join(names) or None
        yield "cycles", "those of a model of the original Gemmini" if self.timing == "gemmini" else None
        yield "hash", self.config_hash

    @property
    def floating(self) -> bool:
        """Whether elements are numbers in floating point."""
        return array_float(self.input_format) is not None

    def check_integers(self, what: str) -> None:
        """Raise InfeasibleError where elements are not int8; `what` is about int8 only."""
        if self.input_format != "integer":
            raise InfeasibleError(
                f"{what} of int8 only, and {self.name} has elements of {self.input_format}",
                hint="layers and networks (baco run), command streams (baco cosim) and programs of your own (baco simulate) run on it",
            )

    @property
    def elements(self) -> str:
        """What is multiplied and added up, in words."""
        if self.floating:
            return f"{self.input_format} in, float32 sums"
        return f"int{self.input_bits} in, int{self.accumulator_bits} out"

    @property
    def common_elements(self) -> bool:
        """Whether elements are int8, int16 or floating point, and sums have 32 bits: what programs are compiled for."""
        return self.accumulator_bits == 32 and (self.input_bits == 8 or self.input_format != "integer")

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of the scratchpad, and of an operand in main memory."""
        return self.input_bits // 8

    @property
    def dataflows(self) -> tuple[Dataflow, ...]:
        """Dataflows the array can run."""
        return offered(self.dataflow)

    @property
    def scratchpad_rows(self) -> int:
        """Whole scratchpad rows of `dim` input elements (ISA specification 3.1)."""
        return memory_rows(self.scratchpad_kib, self.dim * self.input_bits)

    @property
    def accumulator_rows(self) -> int:
        """Whole accumulator rows of `dim` elements, that is, entries of each column (ISA 3.1)."""
        return memory_rows(self.accumulator_kib, self.dim * self.accumulator_bits)

    @property
    def area_mm2(self) -> float:
        """Predicted area (`baco.accel.area`), which knows 8-bit inputs and 32-bit accumulation only."""
        return float(self.area_of(self.dim, self.accumulator_kib, self.scratchpad_kib))

    def area_of(self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any) -> Any:
        """Area in mm2 of accelerators that differ from this one in their sizes only.

        The sizes are numbers, numpy arrays or torch tensors of any one broadcastable shape, which the result
        has. With the defaults elsewhere it is exactly `baco.accel.area.area_mm2`.
        """
        return self._silicon_of(dim, accumulator_kib, scratchpad_kib) + self.memory_mm2

    def _silicon_of(self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any) -> Any:
        """`area_of` without the memory interface."""
        if self.technology != PUBLISHED and (silicon := technology(self.technology)).measured:
            return silicon.area_mm2(self, dim, accumulator_kib, scratchpad_kib)
        return configured_area_mm2(self, _area_reference(self.dataflow), dim, accumulator_kib, scratchpad_kib)

    def area_blocks(self) -> dict[str, float]:
        """`area_mm2` by block, in mm2: `array`, `accumulator`, `scratchpad`, and `tables` (of row functions), `logic` (that it has
        more than a published machine) and `memory_interface` where they are there. In a technology measured in netlists, `logic`
        is all of it, the array too."""
        sizes = float(self.dim), float(self.accumulator_kib), float(self.scratchpad_kib)
        silicon = technology(self.technology)
        if silicon.measured:
            blocks = {name: float(mm2) for name, mm2 in silicon.blocks_mm2(self, *sizes).items()}
        else:
            blocks = configured_blocks_mm2(self, _area_reference(self.dataflow), *sizes)
        return blocks | ({"memory_interface": self.memory_mm2} if self.memory_mm2 else {})

    @property
    def closes_at_mhz(self) -> float | None:
        """The clock that it closes at before layout in its technology; None where clocks are assumed."""
        return technology(self.technology).closes_at_mhz(self, float(self.dim))

    def in_technology(
        self, given: Iterable[str], dim: int | None = None, *, units: bool = False
    ) -> Accelerator:
        """Itself with what its technology decides of what was not given: its clock, with main memory's GB/s as they are, and energies.

        Args:
            given: names of the fields that somebody chose.
            dim: side that the clock must hold for; its own by default.
            units: whether it must hold with row functions, too.

        Raises InputError where the clock that was given is more than it closes at.
        """
        chosen, silicon = set(given), technology(self.technology)
        most = self._most_mhz(dim, units)
        changes: dict[str, Any] = {}
        if most is not None and "clock_mhz" not in chosen:
            mhz = float(_FOUR_DIGITS.create_decimal_from_float(most))
            changes = {"clock_mhz": mhz}
            if "dram_bytes_per_cycle" not in chosen:
                changes["dram_bytes_per_cycle"] = min(self.memory_gb_s * 1e3 / mhz, 65_536.0)
        elif most is not None and self.clock_mhz > most:
            raise InputError(
                f"clock_mhz: in {self.technology} a side of {dim or self.dim}{' with row functions' if units else ''} closes at"
                f" {most:.4g} MHz before layout, not at {self.clock_mhz:g}",
                hint=f"give less, or leave it out; in technology {PUBLISHED} any clock is assumed to be met",
            )
        if silicon.energy and "energy" not in chosen:
            changes["energy"] = self.energy.model_dump() | silicon.energy
        return self.replace(**changes) if changes else self

    def closing(self, dim: int | None = None, *, units: bool = False) -> Accelerator:
        """Itself, with less of a clock where it would not close in its technology, and main memory's GB/s as they are; `dim` and
        `units` as of `in_technology`."""
        most = self._most_mhz(dim, units)
        closes = most is None or self.clock_mhz <= most
        return self if closes else self.in_technology({"energy"}, dim, units=units)

    def _most_mhz(self, dim: int | None, units: bool) -> float | None:
        features = self.features.model_dump() | {"row_functions": True}
        machine = self.replace(features=features) if units else self
        return technology(self.technology).closes_at_mhz(machine, float(dim or self.dim))

    @property
    def memory_gb_s(self) -> float:
        """Bandwidth of main memory."""
        return self.dram_bytes_per_cycle * self.clock_mhz * 1e-3

    @property
    def memory_mm2(self) -> float:
        """Area of the memory interface."""
        return self.memory_mm2_per_gb_s * self.memory_gb_s

    @property
    def energy_law(self) -> EnergyLaw:
        """What its counts become energy by: figures of switching where its technology has some, else the table `energy`."""
        figures = known_figures(self.technology)
        if figures is not None:
            times = technology(self.technology).float_macs.get(self.input_format, 1.0)
            return SwitchedEnergy(figures, self.energy, self, times=times)
        if self.input_format == "integer":
            return self.energy
        form = array_float(self.input_format)
        return self.energy.of_elements(None if form is None else form.fraction_bits, self.input_bits)

    def static_pj_of(self, cycles: Any, dim: Any, accumulator_kib: Any, scratchpad_kib: Any) -> Any:
        """Static energy in pJ of accelerators that differ from this one in their sizes only, over some cycles: leakage
        and clock (`baco.accel.energy`; of their registers in a technology with figures of switching), and what the memory interface takes by itself, instead of those. Numbers, arrays
        or tensors that broadcast; 0.0 where the table has none.
        """
        figures = known_figures(self.technology)
        if figures is None and not self.energy.static:
            return 0.0
        area = self._silicon_of(dim, accumulator_kib, scratchpad_kib)
        own = self.energy.static_pj_per_cycle(area, self.clock_mhz)
        if figures is not None:
            own = own + figures.clock_pj_of(self, dim)
        return (own + self.energy.memory_pj_per_cycle(self.dram_bytes_per_cycle)) * cycles

    def static_pj(self, cycles: float) -> float:
        """Static energy in pJ of this accelerator over some cycles."""
        return float(self.static_pj_of(cycles, self.dim, self.accumulator_kib, self.scratchpad_kib))

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits over all that programs and Verilog depend on (all fields but `name` and `timing`), equal on
        every platform and in every process."""
        return stable_hash(self.model_dump(mode="json", exclude={"name", "timing"}))

    def gemmini_problems(self) -> list[str]:
        """Why Gemmini's generator would refuse this point, one sentence a reason; empty when it would not.

        Source: ISA specification 3.1 and the elaboration constraints of the timing page, section 11.
        Element widths are powers of two by their types, so what Gemmini asks of them always holds.
        """
        problems = []
        if not _power_of_two(self.dim):
            problems.append(f"dim must be a power of two, not {self.dim}")
        problems += self._bank_problems(
            "scratchpad", self.scratchpad_kib, self.scratchpad_banks, self.input_bits
        )
        problems += self._bank_problems(
            "accumulator", self.accumulator_kib, self.accumulator_banks, self.accumulator_bits
        )
        for flow in self.dataflows:
            if DATAFLOWS[flow].execute is None:
                problems.append(f"dataflow must not be {flow}: the instruction set has no such")
        if self.scratchpad_banks < 2:
            problems.append(f"scratchpad_banks must be at least 2, not {self.scratchpad_banks}")
        rows = max(self.scratchpad_rows, self.accumulator_rows)
        if rows > 1 << 25:
            problems.append(f"a local address holds at most {1 << 25} rows, the larger memory has {rows}")
        if self.scratchpad_rows // self.dim - 2 < self.accumulator_rows // self.dim:
            problems.append(
                f"the scratchpad must have at least {2 * self.dim} rows more than the accumulator's"
                f" {self.accumulator_rows}, not {self.scratchpad_rows} in all"
            )
        for name in ("load_entries", "execute_entries", "store_entries"):
            if not _power_of_two(getattr(self, name)):
                problems.append(f"{name} must be a power of two, not {getattr(self, name)}")
        if self.execute_queue < 3:
            problems.append(f"execute_queue must be at least 3, not {self.execute_queue}")
        return problems

    def _bank_problems(self, memory: str, kib: int, banks: int, bits: int) -> list[str]:
        rows, rest = divmod(kib * 8192, banks * self.dim * bits)
        if rest or not _power_of_two(rows):
            exact = f"{kib * 8192 / (banks * self.dim * bits):g}"
            return [
                f"rows of each {memory} bank must be a power of two, not {exact} ({kib} KiB in {banks} banks)"
            ]
        if rows % self.dim:
            return [f"rows of each {memory} bank must be a multiple of dim ({self.dim}), not {rows}"]
        return []

    def replace(self, **changes: Any) -> Accelerator:
        """A validated copy with other values. Raises InputError for an unknown field or a bad value."""
        known = type(self).model_fields
        for name in changes:
            if name not in known:
                raise InputError(f"an accelerator has no field '{name}'", hint=did_you_mean(name, known))
        try:
            return Accelerator.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise _field_error(error) from None

    def with_setting(self, name: str, value: float) -> Accelerator:
        """A validated copy with another value of a setting, a key of `SETTINGS`, and of what follows it. Raises InputError."""
        field, row = SETTINGS[name]
        return self.replace(**(row.changes(self, value) if row.changes is not None else {field: value}))

    def in_format(self, form: InputFormat) -> Accelerator:
        """A validated copy with elements of a format, weight-stationary and without what works on integers where that is floating point.
        Raises InputError for what a format needs besides."""
        return self.replace(**of_format(self, form))

    @property
    def as_coded(self) -> Accelerator:
        """The one accelerator that stands for all for which programs do the same beside their layers: what these do not depend on has
        its default."""
        silent = (
            name
            for name, field in type(self).model_fields.items()
            if name not in ("features", "timing")
            and "program" not in PARAMETERS.get(name, _NO_HARDWARE).readers
            and not field.is_required()
        )
        fields = type(self).model_fields
        return self.model_copy(
            update={name: fields[name].get_default(call_default_factory=True) for name in silent}
        )

    def to_yaml(self) -> str:
        """The configuration as a commented file that `from_yaml` reads back to an equal object."""
        lines = [f"# Accelerator configuration, hash {self.config_hash} (baco)"]
        lines += _yaml_lines(self, "")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_yaml(cls, path: str | Path) -> Accelerator:
        """Read a configuration file; fields left out take the values of the accelerator that its `base` names, else their defaults.

        Raises InputError with file, line and column for anything wrong with it.
        """
        # by name: what finds a base stands above this file
        found: Accelerator = importlib.import_module("baco.accel.presets").load_accelerator(Path(path))
        return found


#: The table of hardware parameters: rows by field, in the order of fields.
PARAMETERS: dict[str, ParameterRow] = {
    name: row
    for name, field in Accelerator.model_fields.items()
    for row in field.metadata
    if isinstance(row, ParameterRow)
}
#: What a space may choose beside sizes, in the order of search: field and row by the name in its file.
SETTINGS: dict[str, tuple[str, ParameterRow]] = {
    row.setting or name: (name, row)
    for name, row in sorted(PARAMETERS.items(), key=lambda pair: pair[1].order)
    if row.searched == "setting"
}
#: Of fields that are no hardware: names, and what costs nothing but silicon and energy.
_NO_HARDWARE = ParameterRow("", readers=())


@cache
def _area_reference(dataflow: DataflowSetting) -> Accelerator:
    """What the published areas stand for (`baco.accel.area`): the defaults, around an array in which weights can stay."""
    if all(DATAFLOWS[name].sums_stay for name in offered(dataflow)):
        dataflow = "both"
    return Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64, dataflow=dataflow)


def _field_error(error: ValidationError) -> InputError:
    """The first thing that pydantic found."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    reason = first["msg"].removeprefix("Value error, ")
    hint = did_you_mean(field, Accelerator.model_fields) if first["type"] == "extra_forbidden" else None
    return InputError(f"{field}: {reason}" if field else reason, hint=hint)


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _yaml_lines(model: BaseModel, indent: str) -> list[str]:
    lines = []
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if name in _SILENT and value == info.default:
            continue
        if isinstance(value, BaseModel):
            lines += ["", f"{indent}{name}:  # {info.description}", *_yaml_lines(value, indent + "  ")]
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, str):
            text = f'"{value}"'  # the pattern of `name` leaves nothing to escape
        else:
            text = repr(value)
        lines.append(f"{indent}{name}: {text}".ljust(34) + f" # {info.description}")
    return lines
