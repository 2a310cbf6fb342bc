"""A system: units on one main memory and its one channel, for systems of one to four accelerators.

A *unit* is an in-order core with an accelerator of its own on its RoCC port, as the tiles of Chipyard have it, or a core without one
(`host`). Not one core for all accelerators: the commands of explicit code would then have to be interleaved when a program is
compiled, and what the core computes itself would hold up every accelerator. So a core's `fence` waits for its own
accelerator only, and programs run on all cores at once: all start at the same address, `mhartid` is the number of the unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from baco.accel.area import adapter_counts, arbiter_counts, cells_mm2
from baco.accel.config import Accelerator
from baco.accel.technology import technology
from baco.common.errors import InputError
from baco.common.provenance import stable_hash

#: What names a unit without an accelerator.
HOST = "host"
MOST_ACCELERATORS, _MOST_HOSTS = 4, 4
#: What a core with its caches takes, as a share of what the published 16 x 16 accelerator does (256 + 64 KiB, both dataflows) in the same
#: technology: Rocket's 171 of 1,029 thousand um2 in Intel's 22 nm (Genc et al., Gemmini, DAC 2021).
CORE_SHARE = 171 / (1029 - 171)
#: Of a system, and stacks of its programs.
MOST_UNITS = MOST_ACCELERATORS + _MOST_HOSTS


@dataclass(frozen=True)
class SystemUnit:
    """A core of a system.

    Attributes:
        name: as it is shown; no other unit of the system has it.
        accelerator: on its RoCC port; None for a core without.
    """

    name: str
    accelerator: Accelerator | None


@dataclass(frozen=True)
class System:
    """Units on one main memory, in the order of their harts.

    Attributes:
        name: label; has no influence on anything computed.
        units: one to four with accelerators, and at most four without. Raises InputError for others.
    """

    name: str
    units: tuple[SystemUnit, ...]

    def __post_init__(self) -> None:
        hosts = len(self.units) - len(self.accelerators)
        if not 1 <= len(self.accelerators) <= MOST_ACCELERATORS or hosts > _MOST_HOSTS:
            raise InputError(
                f"a system has one to {MOST_ACCELERATORS} accelerators and at most {_MOST_HOSTS} cores without,"
                f" not {len(self.accelerators)} and {hosts}"
            )
        names = [unit.name for unit in self.units]
        if len(set(names)) < len(names):
            raise InputError(f"two units of system '{self.name}' have one name: {', '.join(names)}")

    @classmethod
    def of(cls, units: Iterable[tuple[str, Accelerator | None]], name: str = "system") -> Self:
        """The system of units by name; one whose name is there twice is numbered: `gemmini-default (2)`."""
        rows = list(units)
        names = [shown for shown, _ in rows]
        return cls(
            name,
            tuple(
                SystemUnit(
                    shown if names.count(shown) == 1 else f"{shown} ({names[: at + 1].count(shown)})", own
                )
                for at, (shown, own) in enumerate(rows)
            ),
        )

    @classmethod
    def single(cls, accelerator: Accelerator) -> Self:
        """One unit."""
        return cls(accelerator.name, (SystemUnit(accelerator.name, accelerator),))

    @cached_property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """Of the units that have one."""
        return tuple(unit.accelerator for unit in self.units if unit.accelerator is not None)

    @property
    def clock_mhz(self) -> float:
        """Of all units. Raises InputError where their clocks differ: what is built has one."""
        clocks = sorted({accelerator.clock_mhz for accelerator in self.accelerators})
        if len(clocks) > 1:
            raise InputError(
                f"the accelerators of system '{self.name}' have clocks of"
                f" {' and '.join(f'{mhz:g}' for mhz in clocks)} MHz; hardware and simulators have one for all",
                hint="give all the same clock_mhz",
            )
        return clocks[0]

    @property
    def dma_bits(self) -> int:
        """Width of the memory port, that of the accelerator whose own is widest; the others are behind adapters."""
        return max(accelerator.dma_bits for accelerator in self.accelerators)

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Bandwidth of the channel: the most that any accelerator is told of, or what the one memory port moves if that is less."""
        return min(
            max(accelerator.dram_bytes_per_cycle for accelerator in self.accelerators), self.dma_bits / 8
        )

    @property
    def reads_in_flight(self) -> int:
        """Read requests of all accelerators together that may be under way at a time."""
        return sum(accelerator.dma_requests for accelerator in self.accelerators)

    @property
    def writes_in_flight(self) -> int:
        """Likewise, beats of writes."""
        return sum(map(_write_beats, self.accelerators))

    def adapter_depths(self, accelerator: Accelerator) -> dict[str, int]:
        """Of the adapter before an accelerator's narrower port: requests, beats that are kept (its largest request, two at least, so that one
        leaves as another one comes), beats of writes under way."""
        kept = max(2, accelerator.dma_max_bytes * 8 // self.dma_bits)
        return {"reads": accelerator.dma_requests, "beats": kept, "writes": _write_beats(accelerator)}

    @property
    def arbiter_mm2(self) -> float:
        """Area of what is before the memory port, in the first accelerator's technology."""
        counts = [
            arbiter_counts(
                len(self.accelerators), self.dma_bits, self.reads_in_flight, self.writes_in_flight
            ),
            *(
                adapter_counts(one.dma_bits, self.dma_bits, **self.adapter_depths(one))
                for one in self.accelerators
                if one.dma_bits < self.dma_bits
            ),
        ]
        silicon = technology(self.accelerators[0].technology)
        return sum(cells_mm2(own, silicon.logic_um2 if silicon.measured else None) for own in counts)

    @property
    def area_mm2(self) -> float:
        """Predicted area of the accelerators and what is before their memory port, the memory interface once, without the cores."""
        interfaces = [accelerator.memory_mm2 for accelerator in self.accelerators]
        own = sum(accelerator.area_mm2 for accelerator in self.accelerators)
        return own - sum(interfaces) + max(interfaces) + self.arbiter_mm2

    @property
    def cores_mm2(self) -> float:
        """Area of the cores of all units: assumed, by `CORE_SHARE`."""
        published = Accelerator(
            name="published",
            dim=16,
            scratchpad_kib=256,
            accumulator_kib=64,
            technology=self.accelerators[0].technology,
        )
        return len(self.units) * CORE_SHARE * (published.area_mm2 - published.memory_mm2)

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits over all that programs and Verilog depend on; of a single unit, its accelerator's."""
        hashes = [HOST if unit.accelerator is None else unit.accelerator.config_hash for unit in self.units]
        return hashes[0] if len(hashes) == 1 else stable_hash(hashes)


def _write_beats(accelerator: Accelerator) -> int:
    """Of an accelerator that may be under way at a time."""
    return accelerator.dma_requests * accelerator.dma_max_bytes * 8 // accelerator.dma_bits
