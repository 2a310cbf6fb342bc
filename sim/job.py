"""What is asked of a simulator, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.system import System, SystemUnit
from baco.common.errors import BacoError, InputError
from baco.common.shown import Shown

#: What results call an engine for people, where that is not its name.
ENGINE_WORDS = {"gemmini-model": "model of the original Gemmini"}


@dataclass(frozen=True)
class MainMemory:
    """Main memory.

    Attributes:
        base, size_bytes: where it lies; it is zero at the start and takes room only where it is touched.
        latency_cycles: from the start of a transfer to its first bytes. No source fixes one for the reference
            system (timing page, section 10): 60 accelerator cycles is our default.
        bytes_per_cycle: bandwidth, reads and writes together; None takes the accelerator's.
        burst_bytes: the channel moves aligned bursts of this size; a power of two.
        l2_kib: capacity of a second-level cache (8 ways, 64-byte lines, write-back); 0 = none.
        l2_latency_cycles, l2_bytes_per_cycle: of a hit, and at the accelerator's port.
    """

    base: int = 0x80000000
    size_bytes: int = 512 << 20
    latency_cycles: int = 60
    bytes_per_cycle: float | None = None
    burst_bytes: int = 8
    l2_kib: int = 0
    l2_latency_cycles: int = 20
    l2_bytes_per_cycle: float = 16.0


@dataclass(frozen=True)
class Limits:
    """When to give up.

    Attributes:
        max_cycles: in all; 0 = never. The default stops host code that loops for ever within a minute or so.
        stall_cycles: without any instruction, command or memory transfer.
        timeout_seconds: of wall time; 0 = never.
    """

    max_cycles: int = 4_000_000_000
    stall_cycles: int = 200_000
    timeout_seconds: float = 3600.0


@dataclass(frozen=True)
class Recording:
    """Files written while simulating; None for those not wanted.

    Attributes:
        waves: waveforms of the whole accelerator, .vcd or .fst.
        waves_from, waves_until: cycles recorded, [from, until); None = to the end.
        log: when each command was allocated, issued and done (`baco.sim.trace` reads it).
    """

    waves: Path | None = None
    waves_from: int = 0
    waves_until: int | None = None
    log: Path | None = None


@dataclass(frozen=True)
class Watchpoint:
    """An instruction of the program at which the simulation notes what it has counted so far; no cycle changes by it.

    Attributes:
        address: of the instruction.
        copies: ranges of memory, (address, bytes), copied whenever it is about to be executed.
    """

    address: int
    copies: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Mark:
    """The host core came to a watched instruction.

    Attributes:
        address: of the instruction.
        cycle: in which it began; the functional engine counts the host core's cycles.
        counters, activity: as in `Simulation`, up to this cycle, with `instructions`, `dram_read_bytes` and
            `dram_write_bytes` among the counters.
        copies: of the ranges that `Watchpoint` asks for.
        unit: of a system whose core it was.
    """

    address: int
    cycle: int
    counters: dict[str, int]
    activity: dict[str, int]
    copies: tuple[bytes, ...] = field(default=(), repr=False)
    unit: int = 0


@dataclass(frozen=True)
class Job:
    """One simulation: a program (ELF), or a stream of raw commands, on an accelerator or a system.

    Attributes:
        machine: what it runs on; a stream needs an accelerator.
        program: ELF file; None when there is a stream.
        stream: text file of commands for a machine without a host core; None when there is a program.
        timing: whose cycles are counted, one of `baco.accel.config.TIMINGS`; None for the accelerator's. With `gemmini`, the engine
            `rtl` stands for `gemmini-model`, a model of the original Gemmini.
        images: bytes laid over the program's in memory before it starts, each at an address.
        dumps: ranges of memory, (address, bytes), that the result has as they are at the end of a program.
        watches: instructions at which counters are noted; each address once.
        tools: kind of `baco.sim.toolchain.toolchain`; None for the default.
        simulator: program that runs it, for the engines of `baco.sim.engines.base.EXTERNAL_ENGINES`; None for the one
            that the environment names.
        engine_arguments: for that program, before those that name what to run.
        report: where progress of builds goes.
        console: gets what the program prints, as it comes; the result has it in any case.
    """

    machine: Accelerator | System
    program: Path | None = None
    stream: Path | None = None
    memory: MainMemory = field(default_factory=MainMemory)
    timing: str | None = None
    limits: Limits = field(default_factory=Limits)
    recording: Recording = field(default_factory=Recording)
    images: tuple[tuple[int, bytes], ...] = ()
    dumps: tuple[tuple[int, int], ...] = ()
    watches: tuple[Watchpoint, ...] = ()
    tools: str | None = None
    simulator: Path | None = None
    engine_arguments: tuple[str, ...] = ()
    report: Callable[[str], None] | None = None
    console: Callable[[str], None] | None = None

    @property
    def accelerator(self) -> Accelerator:
        """The machine. Raises InputError for a system, which not all engines simulate."""
        if isinstance(self.machine, System):
            raise InputError(
                f"this engine simulates a single accelerator, not the system '{self.machine.name}'",
                hint="take --engine rtl or --engine functional",
            )
        return self.machine

    @property
    def units(self) -> tuple[SystemUnit, ...]:
        """Of the system that is simulated; of an accelerator, one."""
        machine = self.machine
        return machine.units if isinstance(machine, System) else System.single(machine).units


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """What a simulation measured; None, or nothing by name, for what the engine does not measure.

    Attributes:
        engine: what ran it; `gemmini-model` where cycles are those of a model of the original Gemmini.
        exit_code: the program's own; 0 for a stream.
        cycles: from reset to the end, at the accelerator's clock; None for engines without timing.
        instructions: executed by the host core.
        commands: accelerator commands by name, as the program issued them.
        unrolled: commands by name that the load, execute and store units executed.
        macs: multiply-accumulates the program asked for; padding up to the array's side does not count.
        utilisation: macs / (cycles × dim²); None without cycles.
        dram_read_bytes, dram_write_bytes: moved between memory and accelerator (or its second-level cache).
        counters: everything else that was counted, by name.
        activity: what the executed commands did, the same for every engine (sim/cpp/activity.h): `macs`; `array_macs`,
            of all elements of the array in every wave that entered it; `stationary_words` moved into the array's
            registers; words and bytes of whole rows that were read from and written to the `accumulator` and the
            `scratchpad`; bytes of `dram` that loads and stores named; with functions of rows, elements of whole rows that
            left through each of them (`table_elements`, `softmax_elements`, `normalisation_elements`).
        console: what the program printed.
        memory_dumps: what the stream's `dump` lines, or the job's dumps, asked for.
        marks: every time that the program came to an instruction that the job watches, in order.
        notes: things that may surprise.
        config_hash: of the accelerator.
        tools: versions of what built the simulator.
        wall_seconds, build_seconds: running, and building before it (0 when the cache had it).
        units: of a system, what was measured of each; counts above are their sums. Bytes of main memory are those of the
            channel there, and None of units where only that counts them.
    """

    engine: str
    exit_code: int
    cycles: int | None
    instructions: int | None
    commands: dict[str, int]
    unrolled: dict[str, int]
    macs: int | None
    utilisation: float | None
    dram_read_bytes: int | None
    dram_write_bytes: int | None
    counters: dict[str, int]
    console: str
    memory_dumps: tuple[bytes, ...]
    notes: tuple[str, ...]
    config_hash: str
    tools: dict[str, str]
    wall_seconds: float
    build_seconds: float = 0.0
    activity: dict[str, int] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    units: tuple[Simulation, ...] = ()

    def _headline(self) -> str:
        return repr(self).strip("<>")

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "engine", ENGINE_WORDS.get(self.engine, self.engine)
        yield "exit code", self.exit_code
        yield "cycles", None if self.cycles is None else f"{self.cycles:,}"
        yield "instructions", None if self.instructions is None else f"{self.instructions:,}"
        yield "commands", f"{sum(self.commands.values()):,}" if self.macs is not None else None
        yield "MACs", None if self.macs is None else f"{self.macs:,}"
        yield "utilisation", None if self.utilisation is None else f"{self.utilisation:.1%}"
        if self.dram_read_bytes is not None and self.dram_write_bytes is not None:
            yield (
                "main memory",
                f"{self.dram_read_bytes:,} bytes read, {self.dram_write_bytes:,} bytes written",
            )
        yield "notes", "; ".join(self.notes) or None

    def __repr__(self) -> str:
        # what was counted fills pages; `to_dict` gives all of it
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles"
        macs = "" if not self.macs else f", {self.macs:,} MACs"
        used = "" if self.utilisation is None else f", utilisation {100 * self.utilisation:.1f} %"
        commands = f", {sum(self.commands.values()):,} accelerator commands" if self.macs is not None else ""
        return f"<{ENGINE_WORDS.get(self.engine, self.engine)}: exit code {self.exit_code}{cycles}{commands}{macs}{used}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(replace(self, memory_dumps=(), marks=tuple(replace(m, copies=()) for m in self.marks)))
        for mark in plain["marks"]:
            del mark["copies"]
        return plain | {"memory_dumps": [d.hex() for d in self.memory_dumps]}


class SimulationError(BacoError):
    """The simulation was stopped: a hang, a refused command, a memory fault, a limit.

    Attributes:
        kind: stall, max_cycles, timeout, output, refused, memory, host, crash, arguments, file.
        console: what the program had printed.
        record: everything the simulator knew, as plain values (last commands, commands in flight, counters).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        console: str,
        record: dict[str, Any],
        hint: str | None = None,
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.kind, self.console, self.record = kind, console, record
