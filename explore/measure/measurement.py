"""What came of a measurement, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from baco.compiler.network.agreement import Agreement
from baco.exploration._json import Amount, Count, from_json, reader, to_json

Status = Literal["measured", "failed", "infeasible"]


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
    cycles: Count
    predicted_cycles: Amount


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
        counters: everything the simulator counted, by name (`baco.sim.job.Simulation.counters`), and commands by name,
            `command_NAME` as the host issued them and `unrolled_NAME` as the units executed them.
        activity: `baco.sim.job.Simulation.activity`, but the bytes of DRAM are those that its channel moved.
        energy_pj: `energy_terms_pj` summed up.
        energy_terms_pj: by `baco.sim.energy.ENERGY_TERMS`; of a program also `host`, the host core's; `static` where
            the energy table has such a part.
        operators: of a program, in order; empty for a layer.
        style: of the code: explicit, packed, loop_ws, loop_conv.
        schedule: as `Schedule.text` writes it.
        config_hash: of the accelerator.
        seconds: wall time, builds included.
        agreement: of a program: how near its outputs, and the operators that are furthest, are to the user's model; None for
            a network that nothing else evaluates.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    status: Status
    reason: str = ""
    cycles: Count = 0
    program_cycles: Count = 0
    counters: dict[str, Count] = field(default_factory=dict)
    activity: dict[str, Count] = field(default_factory=dict)
    energy_pj: Amount = 0.0
    energy_terms_pj: dict[str, Amount] = field(default_factory=dict)
    style: str = ""
    schedule: str = ""
    config_hash: str = ""
    seconds: Amount = 0.0
    operators: tuple[OperatorMeasurement, ...] = ()
    agreement: Agreement | None = None

    @property
    def host_cycles(self) -> int:
        """Of a program: those in which the host core alone works, before its first operator and behind the last, too."""
        if not self.operators:
            return 0
        return self.cycles - sum(one.cycles for one in self.operators if one.on != "host")

    @property
    def host_pj(self) -> float:
        """Of a program: the host core's energy."""
        return self.energy_terms_pj.get("host", 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        plain: dict[str, Any] = to_json(self)
        return plain

    @classmethod
    @reader("a measurement")
    def from_dict(cls, data: dict[str, Any]) -> Measurement:
        """Inverse of `to_dict`. Raises InputError for anything else."""
        found = from_json(cls, data)
        if found.status == "measured" and not (found.cycles and found.energy_pj):
            raise ValueError("it took neither cycles nor energy")
        return found
