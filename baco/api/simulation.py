"""`baco.simulate` and `baco.evaluate`: programs of any origin on an accelerator, and mappings of any origin in a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.argument_types import checked
from baco.api.sources import AcceleratorSource
from baco.api.sources import accelerator as find
from baco.common.door import words
from baco.common.errors import InputError

if TYPE_CHECKING:
    from baco.exploration.cost.evaluate import Statistics
    from baco.exploration.cost.tiled_rows import TiledStatistics
    from baco.sim.job import Limits, MainMemory, Recording, Simulation


@checked()
def simulate(
    program: str | Path | None = None,
    accelerator: AcceleratorSource = "gemmini-default",
    *,
    engine: str = "rtl",
    stream: str | Path | None = None,
    memory: MainMemory | None = None,
    timing: str | None = None,
    limits: Limits | None = None,
    recording: Recording | None = None,
    images: Sequence[tuple[int, bytes]] = (),
    dumps: Sequence[tuple[int, int]] = (),
    tools: str | None = None,
    simulator: str | Path | None = None,
    engine_arguments: Sequence[str] = (),
    report: Callable[[str], None] | None = None,
    console: Callable[[str], None] | None = None,
) -> Simulation:
    """Run a bare-metal RISC-V program on an accelerator; measure cycles, work and memory traffic.

    Args:
        program: an ELF file.
        accelerator: as `baco.accelerator` takes it; or the file of a system, all of whose harts run the program.
        engine: `rtl` (the Verilog, cycle by cycle), `timed` (its cycles by a model of its units), `functional` (results alone), `gemmini-model` (the cycles
            of a model of the original Gemmini's units, caches and core, which has a memory system of its own), `soc` (the
            Verilog of the core CVA6 and the accelerator together; `baco[soc]`), `spike` or `chipyard` (of the user's own).
        stream: a text file of commands for a machine without a host core, in place of a program.
        memory: size and timing of main memory (`baco.sim.job.MainMemory`).
        timing: whose cycles are counted: `baco` (the Verilog's) or `gemmini` (the original's: with it, `rtl` stands for
            `gemmini-model`); by default what the accelerator says.
        limits: when to give up (`baco.sim.job.Limits`).
        recording: waveforms and logs to write (`baco.sim.job.Recording`).
        images: bytes laid over the program's in memory before it starts, each at an address.
        dumps: ranges of memory, address and bytes, that the result has as they are at the end.
        tools: `package` or `system`: which tools build simulators.
        simulator, engine_arguments: program of the engines `spike` and `chipyard`, and more arguments for it.
        report: told how building a simulator goes on.
        console: gets what the program prints, as it comes.

    Returns what was counted, the exit code included (`baco.sim.job.Simulation`). Raises SimulationError for a program that had to be
    stopped, InputError for what is malformed or missing.
    """
    from baco.accel.presets import is_system, load_system
    from baco.sim.engines.base import run_job
    from baco.sim.job import Job, Limits, MainMemory, Recording

    if (program is None) == (stream is None):
        raise InputError("give either a program or a --stream of commands")
    of_system = isinstance(accelerator, str | Path) and is_system(accelerator)
    job = Job(
        machine=load_system(Path(str(accelerator))) if of_system else find(accelerator),
        program=None if program is None else Path(program),
        stream=None if stream is None else Path(stream),
        memory=memory or MainMemory(),
        timing=timing,
        limits=limits or Limits(),
        recording=recording or Recording(),
        images=tuple(images),
        dumps=tuple(dumps),
        tools=tools,
        simulator=None if simulator is None else Path(simulator),
        engine_arguments=tuple(engine_arguments),
        report=report,
        console=console,
    )
    return run_job(job, engine=engine)


@checked()
def evaluate(
    table: str | Path, out: str | Path, *, cost_model: str = "reference", timing: str | None = None
) -> Statistics:
    """Predict cycles, energy and EDP of given mappings, and compare with the target columns where there are any.

    Args:
        table: mappings in the published column format, `.csv` or `.csv.gz`.
        out: where the rows go with `predicted.cycle` (cycles), `predicted.energy` (µJ) and `predicted.edp` (J·cycles).
        cost_model: `reference` (the published model), or `instruction` (programs on `gemmini-default` with the array and
            the capacities of each row).
        timing: whose cycles the model `instruction` predicts: `baco` (our Verilog's, the default) or `gemmini` (the original's).

    Returns error statistics; as text, for people. Raises InputError naming line and column of what is wrong.
    """
    from baco.exploration.cost.evaluate import evaluate_file

    return evaluate_file(table, out, cost_model, timing)


@checked()
def evaluate_tiles(table: str | Path, out: str | Path, machine: str | Path) -> TiledStatistics:
    """Predict cycles of products, and of two chained products, in given tiles on any machine with one array.

    Args:
        table: rows with sizes and tiles (`baco.exploration.cost.tiled_rows` says which columns), `.csv` or `.csv.gz`.
        out: where the rows go with `predicted.cycle`, and for chains the bits moved between memory, buffer and registers.
        machine: a machine that comes with baco (`tileflow-16`), or a YAML file.

    Returns error statistics where the table has columns to compare with; as text, for people. Raises InputError naming
    line and column of what is wrong.
    """
    from baco.compiler.mapping.machines import load_machine
    from baco.exploration.cost.tiled_rows import evaluate_tiled_rows

    return evaluate_tiled_rows(table, out, load_machine(machine))


@checked()
def trace(
    log: str | Path,
    out: str | Path | None = None,
    *,
    perfetto: str | Path | None = None,
    first: int = 0,
    until: int | None = None,
) -> None:
    """Draw when each command of a log was allocated, issued and done, unit by unit.

    Args:
        log: a command log (`.csv`), which `Compiled.run` and `simulate` write.
        out: a chart: a page to zoom (`.html`), or a picture (`.png`, `.svg`, `.pdf`).
        perfetto: a trace for ui.perfetto.dev and other viewers (`.json`); a cycle is a microsecond.
        first, until: the cycles that are drawn, `until` excluded.

    Raises InputError for a log that is none, or nothing to write.
    """
    from baco.sim.trace import draw_html, draw_image, read_log, write_perfetto

    if out is None and perfetto is None:
        raise InputError(
            "nothing is to be written",
            hint=words(
                "add --out FILE.html or --perfetto FILE.json", "give out or perfetto the name of a file"
            ),
        )
    if until is not None and until <= first:
        raise InputError(f"no cycle lies from --from {first:,} to --until {until:,}")
    content = read_log(log)
    if out is not None:
        draw = draw_html if Path(out).suffix == ".html" else draw_image
        draw(content, out, first=first, until=until)
    if perfetto is not None:
        write_perfetto(content, perfetto, first=first, until=until)
