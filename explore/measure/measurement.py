"""What came of a measurement, as it is kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from common.errors import InputError

__all__ = ["Measurement", "OperatorMeasurement", "Status"]

Status = Literal["measured", "failed", "infeasible"]
_Count = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class OperatorMeasurement:
    """One operator of a whole program.

    Attributes:
        operator: of the network.
        what: how it was carried out: a schedule, or what the host calls.
        on: what ran it: `accelerator`, `host` or `both`.
        cycles: from the start of its first step to that of the next operator's.
        predicted_cycles: as the program's steps were predicted.
    """

    operator: str
    what: str
    on: Literal["accelerator", "host", "both"]
    cycles: _Count
    predicted_cycles: _Amount


@dataclass(frozen=True)
class Measurement:
    """What one layer, or a whole program, cost on the RTL; all counts are 0 and empty unless it ran to its end.

    Attributes:
        status: `measured`, every element of the output being right; `failed`, the simulation or an element of the
            output being wrong; `infeasible`, the accelerator or the compiler cannot carry the schedule out.
        reason: of a failure the first wrong element and the command that wrote it, or the simulator's message, the binding constraint of what is
            infeasible; empty otherwise.
        cycles: of a layer from the first command the accelerator accepted to the end of its last work, of a program as
            `program_cycles`.
        program_cycles: from reset to the program's end.
        counters: everything the simulator counted, by name (`sim.job.Simulation.counters`), and commands by name,
            `command_NAME` as the host issued them and `unrolled_NAME` as the units executed them.
        activity: `sim.job.Simulation.activity`, but the bytes of DRAM are those that its channel moved.
        energy_pj: `energy_terms_pj` summed up.
        energy_terms_pj: by `explore.measure.energy.ENERGY_TERMS`; of a program also `host`, the host core's; `static` where
            the energy table has such a part.
        operators: of a program, in order; empty for a layer.
        style: of the code: explicit, packed, loop_ws, loop_conv.
        schedule: as `compiler.schedules.text.schedule_text` writes it.
        config_hash: of the accelerator.
        seconds: wall time, builds included.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    status: Status
    reason: str = ""
    cycles: _Count = 0
    program_cycles: _Count = 0
    counters: dict[str, _Count] = field(default_factory=dict)
    activity: dict[str, _Count] = field(default_factory=dict)
    energy_pj: _Amount = 0.0
    energy_terms_pj: dict[str, _Amount] = field(default_factory=dict)
    style: str = ""
    schedule: str = ""
    config_hash: str = ""
    seconds: _Amount = 0.0
    operators: tuple[OperatorMeasurement, ...] = ()

    @property
    def host_cycles(self) -> int:
        """Of a program: those of operators that the host core runs alone."""
        return sum(one.cycles for one in self.operators if one.on == "host")

    @property
    def host_pj(self) -> float:
        """Of a program: the host core's energy."""
        return self.energy_terms_pj.get("host", 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Measurement:
        """Inverse of `to_dict`. Raises InputError for anything else."""
        try:
            found = _measurement_type().validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(map(str, first["loc"]))
            raise InputError(f"this is no measurement: {at}: {first['msg'].lower()}") from error
        if found.status == "measured" and not (found.cycles and found.energy_pj):
            raise InputError("this is no measurement: it took neither cycles nor energy")
        return found


@cache
def _measurement_type() -> TypeAdapter[Measurement]:
    return TypeAdapter(Measurement)
