"""`baco simulate`: run a program on an accelerator."""

from __future__ import annotations

import sys
from pathlib import Path
from string import digits
from typing import Annotated

import typer

from baco.cli.compile_options import Accelerator, Timing


def simulate(
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
    json: bool = False,
    quiet: bool = False,
    waves: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE.vcd|.fst", help="Record waveforms (slow).")
    ] = None,
    waves_from: Annotated[
        int, typer.Option("--trace-from", min=0, metavar="CYCLE", help="First cycle of the waveforms.")
    ] = 0,
    waves_until: Annotated[
        int | None, typer.Option("--trace-until", min=1, metavar="CYCLE", help="Cycle where they stop.")
    ] = None,
    log: Path | None = None,
    max_cycles: Annotated[int, typer.Option(min=0)] = 4_000_000_000,
    stall_cycles: Annotated[int, typer.Option(min=0)] = 200_000,
    timeout: Annotated[float, typer.Option(min=0)] = 3600.0,
    memory_latency: Annotated[int, typer.Option(min=0, max=1_000_000)] = 60,
    memory_bandwidth: Annotated[float | None, typer.Option(min=0.001)] = None,
    memory_burst: Annotated[int, typer.Option(min=1, max=4096)] = 8,
    memory_mib: Annotated[int, typer.Option(min=1, max=1 << 16)] = 512,
    l2_kib: Annotated[int, typer.Option(min=0, max=1 << 20)] = 0,
    l2_latency: Annotated[int, typer.Option(min=0, max=1_000_000)] = 20,
    tools: str | None = None,
    spike: Path | None = None,
    simulator: Path | None = None,
    load: list[str] | None = None,
    dump: list[str] | None = None,
    engine_argument: list[str] | None = None,
) -> None:
    """Run a program on an accelerator; measure cycles, work and memory traffic.

    Exit code 0: the program ended with 0. 1: it ended with another code, which is printed. 2: it could not be run or
    had to be stopped. The first run of a configuration builds its simulator and keeps it.

    Args:
        engine (-e): rtl: the Verilog, cycle by cycle. timed: its cycles by a model. gemmini-model: those of a model of the
            original Gemmini, which is what rtl stands for with --timing gemmini. functional: results only. spike, chipyard: a
            simulator of yours.
        stream (FILE): Raw commands instead of a program, without a host core.
        quiet (-q): The program's output and errors only.
        log (FILE.csv): Log every command; `baco trace` draws it.
        max_cycles: Give up after so many cycles; 0: never.
        stall_cycles: Give up when nothing moves for so long; 0: never.
        timeout: Give up after so many seconds of running; 0: never.
        memory_latency: DRAM latency, cycles.
        memory_bandwidth: DRAM bytes per cycle; default: the accelerator's.
        memory_burst: DRAM moves aligned bursts of so many bytes.
        memory_mib: Size of main memory, from 0x80000000 on.
        l2_kib: Second-level cache (512: Gemmini's); 0: none.
        l2_latency: Cycles of a hit in it.
        tools: package (default) or system: which tools build simulators.
        spike (PATH): Spike with Gemmini's extension, for --engine spike; default: $BACO_SPIKE, or spike on $PATH.
        simulator (PATH): Simulator built with Chipyard, for --engine chipyard; default: $BACO_CHIPYARD_SIMULATOR.
        load (WHERE=FILE): Lay a file over memory before the start; WHERE: a symbol, or 0xADDRESS. Repeatable.
        dump (WHERE=FILE): Write memory to a file at the end; WHERE: a symbol, or 0xADDRESS:BYTES. Repeatable.
        engine_argument (ARG): One more for spike or chipyard, as --engine-argument=+dramsim.
    """
    from baco.api.simulate import simulate as simulate_program
    from baco.common.errors import InputError
    from baco.common.files import atomic_write
    from baco.display.console import print_json, stderr, stdout
    from baco.sim.job import Limits, MainMemory, Recording

    for option, value, owner in (("--spike", spike, "spike"), ("--simulator", simulator, "chipyard")):
        if value and engine != owner:
            raise InputError(f"{option} is for the engine {owner}, not '{engine}'")
    if memory_burst & (memory_burst - 1):
        raise InputError(f"--memory-burst must be a power of two, not {memory_burst}")
    images, dumps, files = _memory_files(program, load or [], dump or [])
    notes = stderr()
    talkative = not (json or quiet)
    result = simulate_program(
        program,
        accelerator,
        engine=engine,
        stream=stream,
        memory=MainMemory(
            size_bytes=memory_mib << 20,
            latency_cycles=memory_latency,
            bytes_per_cycle=memory_bandwidth,
            burst_bytes=memory_burst,
            l2_kib=l2_kib,
            l2_latency_cycles=l2_latency,
        ),
        timing=timing,
        limits=Limits(max_cycles=max_cycles, stall_cycles=stall_cycles, timeout_seconds=timeout),
        recording=Recording(waves=waves, waves_from=waves_from, waves_until=waves_until, log=log),
        images=images,
        dumps=dumps,
        tools=tools,
        simulator=spike or simulator,
        engine_arguments=tuple(engine_argument or ()),
        report=notes.print if talkative else None,
        console=None if json else _show,
    )
    for path, data in zip(files, result.memory_dumps if dumps else (), strict=True):
        atomic_write(path, data)
    if json:
        print_json(result.to_dict())
    elif not quiet:
        from baco.cli.result_text import result_lines

        for line in result_lines(result):
            stdout().print(line)
    if result.exit_code:
        sys.stdout.flush()
        notes.print(f"the program ended with exit code {result.exit_code}")
        raise typer.Exit(1)


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
