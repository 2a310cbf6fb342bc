"""`baco simulate`: run a program on an accelerator or a system."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING, Annotated

import typer

from baco.cli.compile_options import Accelerator, Timing

if TYPE_CHECKING:
    from baco.accel.switching_figures import SwitchingFigures
    from baco.sim.job import Limits, MainMemory, Simulation


@dataclass(frozen=True)
class WaveFlags:
    """Waveforms of the run."""

    waves: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE.vcd|.fst", help="Record waveforms (slow).")
    ] = None
    waves_from: Annotated[
        int, typer.Option("--trace-from", min=0, metavar="CYCLE", help="First cycle of the waveforms.")
    ] = 0
    waves_until: Annotated[
        int | None, typer.Option("--trace-until", min=1, metavar="CYCLE", help="Cycle where they stop.")
    ] = None


@dataclass(frozen=True)
class LimitFlags:
    """When a run is given up.

    Attributes:
        max_cycles: Give up after so many cycles; 0: never.
        stall_cycles: Give up when nothing moves for so long; 0: never.
        timeout: Give up after so many seconds of running; 0: never.
    """

    max_cycles: Annotated[int, typer.Option(min=0)] = 4_000_000_000
    stall_cycles: Annotated[int, typer.Option(min=0)] = 200_000
    timeout: Annotated[float, typer.Option(min=0)] = 3600.0

    @property
    def limits(self) -> Limits:
        """As simulations take them."""
        from baco.sim.job import Limits

        return Limits(self.max_cycles, self.stall_cycles, self.timeout)


@dataclass(frozen=True)
class MemoryFlags:
    """Main memory, and what is laid over it and read from it.

    Attributes:
        memory_latency: DRAM latency, cycles.
        memory_bandwidth: DRAM bytes per cycle; default: the accelerator's.
        memory_burst: DRAM moves aligned bursts of so many bytes.
        memory_mib: Size of main memory, from 0x80000000 on.
        l2_kib: Second-level cache (512: Gemmini's); 0: none.
        l2_latency: Cycles of a hit in it.
        load (WHERE=FILE): Lay a file over memory before the start; WHERE: a symbol, or 0xADDRESS. Repeatable.
        dump (WHERE=FILE): Write memory to a file at the end; WHERE: a symbol, or 0xADDRESS:BYTES. Repeatable.
    """

    memory_latency: Annotated[int, typer.Option(min=0, max=1_000_000)] = 60
    memory_bandwidth: Annotated[float | None, typer.Option(min=0.001)] = None
    memory_burst: Annotated[int, typer.Option(min=1, max=4096)] = 8
    memory_mib: Annotated[int, typer.Option(min=1, max=1 << 16)] = 512
    l2_kib: Annotated[int, typer.Option(min=0, max=1 << 20)] = 0
    l2_latency: Annotated[int, typer.Option(min=0, max=1_000_000)] = 20
    load: list[str] | None = None
    dump: list[str] | None = None

    @property
    def memory(self) -> MainMemory:
        """As simulations take it. Raises InputError for a burst that is none."""
        from baco.common.errors import InputError
        from baco.sim.job import MainMemory

        if self.memory_burst & (self.memory_burst - 1):
            raise InputError(f"--memory-burst must be a power of two, not {self.memory_burst}")
        return MainMemory(
            size_bytes=self.memory_mib << 20,
            latency_cycles=self.memory_latency,
            bytes_per_cycle=self.memory_bandwidth,
            burst_bytes=self.memory_burst,
            l2_kib=self.l2_kib,
            l2_latency_cycles=self.l2_latency,
        )


@dataclass(frozen=True)
class SimulatorFlags:
    """Who simulates.

    Attributes:
        tools: package (default) or system: which tools build simulators.
        spike (PATH): Spike with Gemmini's extension, for --engine spike; default: $BACO_SPIKE, or spike on $PATH.
        simulator (PATH): Simulator built with Chipyard, for --engine chipyard; default: $BACO_CHIPYARD_SIMULATOR.
        engine_argument (ARG): One more for spike or chipyard, as --engine-argument=+dramsim.
    """

    tools: str | None = None
    spike: Path | None = None
    simulator: Path | None = None
    engine_argument: list[str] | None = None

    def check(self, engine: str) -> None:
        """Raises InputError for a simulator of another engine."""
        from baco.common.errors import InputError

        for option, value, owner in (
            ("--spike", self.spike, "spike"),
            ("--simulator", self.simulator, "chipyard"),
        ):
            if value and engine != owner:
                raise InputError(f"{option} is for the engine {owner}, not '{engine}'")


def simulate(
    waves: WaveFlags,
    limits: LimitFlags,
    memory: MemoryFlags,
    simulator: SimulatorFlags,
    program: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROGRAM.elf", help="Bare-metal RISC-V program; or give --stream.", show_default=False
        ),
    ] = None,
    accelerator: Accelerator = "gemmini-default",
    engine: str = "rtl",
    timing: Timing = None,
    stream: Path | None = None,
    log: Path | None = None,
    technology: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Run a program on an accelerator, or on a system by its file; measure cycles, work and memory traffic.

    Exit code 0: the program ended with 0. 1: it ended with another code, which is printed. 2: it could not be run or
    had to be stopped. The first run of a configuration builds its simulator and keeps it.

    Args:
        engine (-e): rtl: the Verilog, cycle by cycle. timed: its cycles by a model. gemmini-model: those of a model of the
            original Gemmini, which is what rtl stands for with --timing gemmini. functional: results only. spike, chipyard: a
            simulator of yours. soc: the Verilog of the core CVA6 with the accelerator (baco[soc]).
        stream (FILE): Raw commands instead of a program, without a host core.
        quiet (-q): The program's output and errors only.
        log (FILE.csv): Log every command; `baco trace` draws it.
        technology (NAME): Energy of what switched in the Verilog, with figures of ihp-sg13g2.
    """
    from baco.accel.technology import switching_figures
    from baco.api.simulation import simulate as simulate_program
    from baco.common.files import atomic_write
    from baco.display.console import print_json, stderr, stdout
    from baco.sim.job import Recording

    simulator.check(engine)
    figures = None if technology is None else switching_figures(technology)
    images, dumps, files = _memory_files(program, memory.load or [], memory.dump or [])
    notes = stderr()
    result = simulate_program(
        program,
        accelerator,
        engine=engine,
        stream=stream,
        memory=memory.memory,
        timing=timing,
        limits=limits.limits,
        recording=Recording(**vars(waves), log=log),
        images=images,
        dumps=dumps,
        tools=simulator.tools,
        simulator=simulator.spike or simulator.simulator,
        engine_arguments=tuple(simulator.engine_argument or ()),
        report=None if json or quiet else notes.print,
        console=None if json else _show,
    )
    for path, data in zip(files, result.memory_dumps if dumps else (), strict=True):
        atomic_write(path, data)
    energy = {} if figures is None else _energy(result, accelerator, figures)
    if json:
        print_json(result.to_dict() | ({"switched_energy_pj": energy} if energy else {}))
    elif not quiet:
        from baco.cli.result_text import result_lines

        for line in result_lines(result):
            stdout().print(line)
        if figures is not None:
            parts = ", ".join(f"{name} {pj * 1e-6:.4g}" for name, pj in energy.items())
            total = f"{sum(energy.values()) * 1e-6:.4g} µJ of switching in {technology} before layout"
            stdout().print(f"{total}: {parts} (±{figures.error:.1%} clock apart; no leakage, no main memory)")
    if result.exit_code:
        sys.stdout.flush()
        notes.print(f"the program ended with exit code {result.exit_code}")
        raise typer.Exit(1)


def _energy(result: Simulation, accelerator: str, figures: SwitchingFigures) -> dict[str, float]:
    """pJ of what switched, by part. Raises InputError for arrays of other numbers than integers."""
    from baco.api.sources import accelerator as find
    from baco.sim.energy import switched_energy

    machine = find(accelerator)
    machine.check_integers("figures of switching are those of arrays")
    return switched_energy(result, machine, figures)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _memory_files(
    program: Path | None, loads: list[str], dumps: list[str]
) -> tuple[tuple[tuple[int, bytes], ...], tuple[tuple[int, int], ...], list[Path]]:
    """Images and ranges of the options --load and --dump, and the files of the latter."""
    from baco.common.errors import InputError
    from baco.common.files import read_input
    from baco.common.numbers import any_base_number
    from baco.sim.elf import symbol_range

    def parts(option: str, text: str) -> tuple[str, Path]:
        where, equals, file = text.partition("=")
        if not (where and equals and file):
            raise InputError(f"{option} takes WHERE=FILE, not '{text}'")
        if program is None:
            raise InputError(f"{option} is for programs", hint="a stream has lines of its own for that")
        return where, Path(file)

    images, ranges, files = [], [], []
    for text in loads:
        where, file = parts("--load", text)
        data = read_input(file)
        if where[0] in digits:
            images.append((any_base_number("--load", where), data))
            continue
        start, size = symbol_range(str(program), where)
        if len(data) > size:
            raise InputError(f"{file} has {len(data):,} bytes, '{where}' holds {size:,}")
        images.append((start, data))
    for text in dumps:
        where, file = parts("--dump", text)
        files.append(file)
        if where[0] in digits:
            address, _, count = where.partition(":")
            ranges.append((any_base_number("--dump", address), any_base_number("--dump", count)))
        else:
            ranges.append(symbol_range(str(program), where))
    return tuple(images), tuple(ranges), files
