"""How fast simulations run and are built, and where the time of a simulated cycle goes."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.isa import GARBAGE
from baco.accel.verilog.generate import verilog
from baco.bench.rtl.hollow import hollow_verilog
from baco.bench.rtl.layers import LayerStream, Matmul
from baco.bench.rtl.probe import FAST_MEMORY, Probe
from baco.bench.rtl.program import matmul_program
from baco.bench.rtl.stream import BASE, StreamText, accumulator
from baco.common.cache import Cache
from baco.common.errors import BacoError
from baco.common.scratch import scratch_folder
from baco.sim.build import functional_simulator, rtl_simulator
from baco.sim.engines.rtl import RtlEngine
from baco.sim.job import Job, MainMemory, Simulation
from baco.sim.toolchain import toolchain

Progress = Callable[[str], None]
#: Runs of each; the fastest counts, since other programs on the machine only ever slow one down.
_REPEATS = 2
#: Waiting for longer would look like a hang.
_WAIT_CYCLES = 100_000
_HOLLOW_WAITS, _UNIT_COMMANDS = 10, 6_000


@dataclass(frozen=True)
class Timed:
    """A run and the processor time of its process (user mode; starting it included)."""

    result: Simulation
    cpu_seconds: float

    @property
    def cycles(self) -> int:
        """Of the accelerator."""
        assert self.result.cycles is not None
        return self.result.cycles

    @property
    def seconds_a_cycle(self) -> float:
        """Processor time."""
        return self.cpu_seconds / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        moved = (self.result.dram_read_bytes or 0) + (self.result.dram_write_bytes or 0)
        return {
            "cycles": self.cycles,
            "utilisation": self.result.utilisation,
            "cycles_per_cpu_s": self.cycles / self.cpu_seconds,
            "cycles_per_wall_s": self.cycles / self.result.wall_seconds,
            "dram_bytes_per_cycle": moved / self.cycles,
        }


def timed(run: Callable[[], Simulation], repeats: int = _REPEATS) -> Timed:
    """The fastest of some equal runs."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        result = run()
        found.append(Timed(result, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before))
    return min(found, key=lambda one: one.cpu_seconds)


def timed_layer(probe: Probe, layer: LayerStream, memory: MainMemory, repeats: int = 1) -> Timed:
    """Run a layer. Raises BacoError when its result is wrong, which must never pass for a measurement."""
    found = timed(lambda: probe.result(layer.stream, memory), repeats)
    if layer.wanted and found.result.memory_dumps[-1] != layer.wanted:
        raise BacoError(f"{layer.name}: the simulated result is wrong", hint="please report this")
    return found


def timed_program(probe: Probe, matmul: Matmul, memory: MainMemory) -> Timed:
    """Run the product as a program of the host core."""
    with scratch_folder() as scratch:
        program = matmul_program(matmul, probe.accelerator.dim, scratch)
        return timed(lambda: RtlEngine().run(Job(probe.accelerator, program=program, memory=memory)), 1)


def timed_build(accelerator: Accelerator, folder: Path, report: Progress) -> tuple[Path, dict[str, float]]:
    """Build the simulator of an accelerator in an empty cache `folder`, then ask for it again.

    Returns the program, and the seconds of: what all simulators share, this accelerator (wall time, and processor
    time of all cores), and finding it again.
    """
    cache, tools, text = Cache(folder), toolchain(), verilog(accelerator)
    start = time.perf_counter()
    functional_simulator(tools, report, cache)
    # the rest of what is shared, Verilator's run-time library, comes with any RTL simulator
    rtl_simulator(hollow_verilog(text), tools, report=report, cache_=cache)
    shared, before = time.perf_counter(), _children_seconds()
    program = rtl_simulator(text, tools, report=report, cache_=cache)
    built, after = time.perf_counter(), _children_seconds()
    rtl_simulator(text, tools, report=report, cache_=cache)
    found = time.perf_counter()
    return program, {
        "shared_s": shared - start,
        "cold_s": built - shared,
        "cold_cpu_s": after - before,
        "warm_s": found - built,
    }


def _children_seconds() -> float:
    """Processor time of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cycle_costs(probe: Probe, progress: Progress) -> dict[str, float]:
    """Nanoseconds of processor time a simulated cycle, by what is busy in it.

    `harness`: the simulator's C++ around an accelerator with nothing inside. `idle`: the accelerator, waiting for
    memory. `array`, `loads`, `stores`: one unit at work all the time.
    """
    hollow = hollow_verilog(verilog(probe.accelerator))
    empty = Probe(probe.accelerator, program=rtl_simulator(hollow, probe.tools))
    count = StreamText(probe.accelerator.dim)
    count.lines = [f"cmd 2 {_WAIT_CYCLES:x} 0", "fence"] * _HOLLOW_WAITS
    wait = probe.stream()
    wait.config_load(probe.accelerator.dim)
    for _ in range(2):
        wait.load(BASE, 0, rows=1)
        wait.fence()
    cases = {
        "harness": (empty, count, FAST_MEMORY),
        "idle": (probe, wait, replace(FAST_MEMORY, latency_cycles=_WAIT_CYCLES)),
        "array": (probe, _array(probe), FAST_MEMORY),
        "loads": (probe, _loads(probe), FAST_MEMORY),
        "stores": (probe, _stores(probe), FAST_MEMORY),
    }
    costs = {}
    for name, (machine, stream, memory) in cases.items():
        progress(f"cost of a cycle: {name}")
        costs[name] = timed(lambda m=machine, s=stream, y=memory: m.result(s, y)).seconds_a_cycle * 1e9  # type: ignore[misc]
    return costs


def shares(costs: dict[str, float], run: Timed) -> dict[str, float]:
    """Where the processor time of a run went, by the costs of cycles and how often which unit was busy; adds up to 1.

    `always` is what evaluating the accelerator costs even when nothing moves; `rest` is what the parts do not explain.
    """
    total, cycles, counters = run.seconds_a_cycle * 1e9, run.cycles, run.result.counters
    parts = {
        "harness": costs["harness"],
        "always": costs["idle"] - costs["harness"],
        "array": (costs["array"] - costs["idle"]) * counters["accelerator_mesh_cycles"] / cycles,
        "loads": (costs["loads"] - costs["idle"]) * counters["accelerator_read_beats"] / cycles,
        "stores": (costs["stores"] - costs["idle"]) * counters["accelerator_write_beats"] / cycles,
    }
    return {name: value / total for name, value in parts.items()} | {"rest": 1 - sum(parts.values()) / total}


def _random(stream: StreamText, rows: int) -> None:
    """Fill scratchpad rows with pseudo-random elements."""
    data = np.random.default_rng(9).integers(-128, 128, (rows, stream.dim), dtype=np.int8)
    stream.write(BASE, data.tobytes())
    stream.config_load(stream.dim)
    for row in range(0, rows, stream.dim):
        stream.load(BASE + row * stream.dim, row)
    stream.fence()


def _array(probe: Probe) -> StreamText:
    """Passes with new weights every fourth time, as loops over tiles have them."""
    dim, stream = probe.accelerator.dim, probe.stream()
    _random(stream, 16 * dim)
    stream.emit("CONFIG_EX", dataflow=1)
    for n in range(_UNIT_COMMANDS):
        weights = (8 + n // 4 % 8) * dim if n % 4 == 0 else GARBAGE
        stream.product(n % 8 * dim, accumulator(n % 4 * dim, accumulate=True), stationary=weights)
    return stream


def _wide(probe: Probe) -> int:
    return max(1, probe.accelerator.dma_max_bytes // probe.accelerator.dim)


def _loads(probe: Probe) -> StreamText:
    dim, wide, stream = probe.accelerator.dim, _wide(probe), probe.stream()
    _random(stream, 16 * dim)
    stream.config_load(dim * wide)
    for n in range(_UNIT_COMMANDS // 4):
        stream.load(BASE, n % 2 * wide * dim, cols=dim * wide)
    return stream


def _stores(probe: Probe) -> StreamText:
    """Scaled stores of accumulator rows, which hold products."""
    dim, stream = probe.accelerator.dim, probe.stream()
    wide = min(_wide(probe), 4)
    _random(stream, 16 * dim)
    stream.emit("CONFIG_EX", dataflow=1)
    stream.product(0, accumulator(0), stationary=8 * dim)
    for n in range(2 * wide):
        stream.product(n % 8 * dim, accumulator(n * dim))
    stream.emit("CONFIG_ST", stride=dim * wide, acc_scale=2.0**-7)
    for n in range(_UNIT_COMMANDS // 4):
        stream.store(BASE + (1 << 20), accumulator(n % 2 * wide * dim), cols=dim * wide)
    return stream
