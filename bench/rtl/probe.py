"""Runs short command streams on the RTL and reads from the command log when what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import check_rtl, verilog
from baco.bench.rtl.stream import StreamText
from baco.common.scratch import scratch_folder
from baco.sim.build import Report, rtl_simulator
from baco.sim.engines.native import run_simulator
from baco.sim.job import Job, MainMemory, Recording, Simulation
from baco.sim.toolchain import toolchain
from baco.sim.trace import LogEntry, read_log

#: A memory that never is the bottleneck of what is measured.
FAST_MEMORY = MainMemory(latency_cycles=1, bytes_per_cycle=1024.0)


@dataclass(frozen=True)
class Timeline:
    """Commands by unit in program order, with the cycles of their allocation, issue and end, and the run's result."""

    front: tuple[LogEntry, ...]
    load: tuple[LogEntry, ...]
    execute: tuple[LogEntry, ...]
    store: tuple[LogEntry, ...]
    result: Simulation

    def loads(self) -> list[LogEntry]:
        """Without configuration."""
        return [e for e in self.load if e.funct != 0]

    def stores(self) -> list[LogEntry]:
        """Without configuration."""
        return [e for e in self.store if e.funct != 0]

    def computes(self) -> list[LogEntry]:
        """The second commands of the passes."""
        return [e for e in self.execute if e.name.startswith("COMPUTE")]

    def preloads(self) -> list[LogEntry]:
        """The first commands of the passes."""
        return [e for e in self.execute if e.name == "PRELOAD"]


def done(entry: LogEntry) -> int:
    """The cycle in which a finished command was done."""
    assert entry.done is not None, entry
    return entry.done


def issued(entry: LogEntry) -> int:
    """The cycle in which a command was issued."""
    assert entry.issued is not None, entry
    return entry.issued


def period(entries: Sequence[LogEntry]) -> float:
    """Mean cycles from one command's end to the next in the middle half, where the pipelines are full."""
    first, last = len(entries) // 4, 3 * len(entries) // 4
    return (done(entries[last]) - done(entries[first])) / (last - first)


class Probe:
    """One accelerator's RTL, built (or found in the cache).

    Raises as `baco.sim.build.rtl_simulator`, and InfeasibleError when no RTL exists for the configuration.
    """

    def __init__(self, accelerator: Accelerator, report: Report | None = None, program: Path | None = None):
        """`program`: the simulator where it has been built already."""
        check_rtl(accelerator)
        self.accelerator = accelerator
        self.tools = toolchain()
        if program is None:
            program = rtl_simulator(verilog(accelerator), self.tools, report=report)
        self.program = program

    def stream(self) -> StreamText:
        """A new stream."""
        return StreamText(self.accelerator.dim)

    def run(self, stream: StreamText, memory: MainMemory = FAST_MEMORY) -> Timeline:
        """Run with the command log. Raises as `baco.sim.engines.base.Engine.run`."""
        with scratch_folder() as scratch:
            log = scratch / "log.csv"
            result = self.result(stream, memory, Recording(log=log))
            entries = sorted(read_log(log).entries, key=lambda e: e.allocated)
        units = ("front", "load", "execute", "store")
        front, load, execute, store = (tuple(e for e in entries if e.unit == unit) for unit in units)
        return Timeline(front, load, execute, store, result)

    def result(
        self, stream: StreamText, memory: MainMemory = FAST_MEMORY, recording: Recording | None = None
    ) -> Simulation:
        """Run for the totals only."""
        with scratch_folder() as scratch:
            job = Job(
                self.accelerator,
                stream=stream.save(scratch / "stream.txt"),
                memory=memory,
                recording=recording or Recording(),
            )
            return run_simulator(self.program, "rtl", job, None, self.tools, build_seconds=0.0)
