"""The timing of the original Gemmini against cycles measured on its RTL (`baco bench timing`)."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.harness.experiment import Say, silent, table
from baco.bench.latency import Accuracy, accuracy
from baco.bench.streaming import TABLE as STREAMED_TABLE
from baco.bench.streaming import StreamedProduct, streamed_products
from baco.common.errors import InputError, Location
from baco.common.files import read_input
from baco.common.numbers import whole_number
from baco.common.scratch import scratch_folder
from baco.common.table import read_rows, read_table_text
from baco.compiler.latency import predict_layers
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Call, gather
from baco.sim.engines.base import run_job
from baco.sim.job import Job, SimulationError

#: Of a measured set: a row a program, and the programs.
TABLES, PROGRAMS = ("random.csv", "micro.csv"), "programs.tar.gz"
_COLUMNS = ("file", "style", "layer", "mapping", "original_cycles")


@dataclass(frozen=True)
class ListedProgram:
    """A program that was measured: the table that lists it, its row there, and the ELF file."""

    table: str
    row: dict[str, str]
    program: bytes

    @property
    def file(self) -> str:
        """Its name in the archive; of a streamed product its sizes."""
        return self.row["file"]

    @property
    def measured(self) -> int:
        """Cycles from reset to the end."""
        return whole_number("original_cycles", self.row["original_cycles"])


@dataclass(frozen=True)
class TimedProgram:
    """A program, how long it took on the original's RTL, and how long it is said to take.

    Attributes:
        table, file: where it is listed, and its name in the archive.
        style: code style; `layer`, `mapping`, `schedule`: what it does and how, in words.
        measured, modelled: cycles from reset to the end.
        beside: of the modelled cycles, those before the first command and after the last work.
        host: of the modelled cycles, those in which the host core neither waited for the accelerator nor in a fence.
        predicted: cycles from reset to the end by the analytical model: the layer's, and those beside it as modelled; None
            where the table does not say how the layer is carried out.
    """

    table: str
    file: str
    style: str
    layer: str
    mapping: str
    measured: int
    modelled: int
    schedule: str = ""
    beside: int = 0
    host: int = 0
    predicted: float | None = None

    @property
    def error(self) -> float:
        """Signed and relative."""
        return self.modelled / self.measured - 1


@dataclass(frozen=True)
class TimingAccuracy:
    """How well the cycles of a measured set are met, by table, and by table and code style.

    Attributes:
        parts: by the simulator.
        predicted: by the analytical model, of the programs for which there is a prediction.
    """

    programs: tuple[TimedProgram, ...]
    parts: dict[str, Accuracy]
    predicted: dict[str, Accuracy]

    def worst(self, count: int) -> list[TimedProgram]:
        """The programs that are furthest off, the furthest first."""
        return sorted(self.programs, key=lambda one: -abs(one.error))[:count]

    def text(self, worst: int = 10) -> str:
        """As a Markdown table, and the worst programs."""

        def row(of: dict[str, Accuracy], text: Callable[[Accuracy], str]) -> Callable[[str], str]:
            return lambda name: text(of[name]) if name in of else ""

        columns: dict[str, Callable[[str], Any]] = {
            "programs": str,
            "rows": lambda name: self.parts[name].rows,
        }
        for title, of in (("", self.parts), ("analytical: ", self.predicted)):
            columns |= {
                f"{title}Spearman": row(of, lambda a: "" if a.spearman is None else f"{a.spearman:.4f}"),
                f"{title}mean error": row(of, lambda a: f"{a.mean_absolute_error:.1%}"),
                f"{title}median": row(of, lambda a: f"{a.median_absolute_error:.1%}"),
                f"{title}bias": row(of, lambda a: f"{a.bias:+.1%}"),
            }
        lines = [
            f"{program.file}: {program.modelled:,} cycles, measured {program.measured:,}"
            f" ({program.error:+.1%}), {program.style}, {program.layer}, {program.mapping}"
            for program in self.worst(worst)
        ]
        return "\n".join([table(self.parts, columns), *lines])


def bench_timing(
    folder: str | Path,
    accelerator: Accelerator,
    *,
    timing: str = "gemmini",
    files: Sequence[str] = (),
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> TimingAccuracy:
    """Run the programs of a measured set, and compare their cycles with those measured.

    Args:
        folder: with random.csv, micro.csv and programs.tar.gz; the tables' columns `file`, `style`, `layer`, `mapping` and
            `original_cycles` are read, and `schedule` if it is there, for predictions. Where streaming.csv is there, its products
            (`m`, `k`, `n`, `original_cycles`) are compiled as they were measured.
        accelerator: the machine that was measured.
        timing: whose cycles are counted, one of `baco.sim.job.TIMINGS`.
        files: only these programs; all by default. A product of streaming.csv is called by its sizes, as in 8x512x768.
        engine: where the programs run.

    Raises InputError for a folder that lacks something, SimulationError for a program that had to be stopped.
    """
    tasks = [
        Call(f"{one.table} {one.file}", _run, (accelerator, timing, one), ("compiler",))
        for one in measured_programs(folder, accelerator.replace(timing=timing), files)
    ]
    with engine.executor() as executor:
        programs: list[TimedProgram] = gather(
            executor, tasks, None, lambda done, of, one: say(f"{done} of {of}: {one.task.name}")
        )
    return timing_accuracy(_predicted(programs, accelerator.replace(timing=timing)))


def measured_programs(
    folder: str | Path, accelerator: Accelerator, files: Sequence[str] = ()
) -> list[ListedProgram]:
    """The programs of a measured set, those of its archive first, as `bench_timing` takes them. Raises InputError as that."""
    folder = Path(folder)
    rows = [
        (name, row) for name in TABLES for row in _rows(folder / name) if not files or row["file"] in files
    ]
    content = _unpack(folder / PROGRAMS, {row["file"] for _, row in rows})
    found = [ListedProgram(table, row, content[row["file"]]) for table, row in rows]
    products = (one for one in streamed_products(folder) if not files or one.name in files)
    return found + [
        ListedProgram(STREAMED_TABLE, _streamed_row(one), one.program(accelerator)) for one in products
    ]


def _streamed_row(product: StreamedProduct) -> dict[str, str]:
    said = {"file": product.name, "style": product.schedule.style, "layer": layer_text(product.layer)}
    return said | {"mapping": "", "schedule": product.schedule.text, "original_cycles": str(product.measured)}


def _run(accelerator: Accelerator, timing: str, one: ListedProgram) -> TimedProgram:
    """Run a program. Raises SimulationError where it had to be stopped, or says that it failed."""
    table, row, content = one.table, one.row, one.program
    with scratch_folder() as scratch:
        program = scratch / row["file"]
        program.write_bytes(content)
        result = run_job(Job(accelerator, program=program, timing=timing), engine="rtl")
    if result.exit_code or result.cycles is None:
        raise SimulationError(
            f"{row['file']} ended with exit code {result.exit_code}",
            kind="output",
            console=result.console,
            record={},
        )
    count = result.counters
    layer = count["accelerator_last_work_cycle"] + 1 - count["accelerator_first_command_cycle"]
    return TimedProgram(
        Path(table).stem,
        row["file"],
        row["style"],
        row["layer"],
        row["mapping"],
        one.measured,
        result.cycles,
        row.get("schedule", ""),
        result.cycles - layer,
        result.cycles - count["host_stall_command"] - count["host_stall_fence"],
    )


def timing_accuracy(programs: Sequence[TimedProgram]) -> TimingAccuracy:
    """How well the cycles of some programs are met."""
    said = [replace(one, modelled=round(one.predicted)) for one in programs if one.predicted is not None]
    return TimingAccuracy(tuple(programs), _parts(programs), _parts(said))


def _predicted(programs: Sequence[TimedProgram], accelerator: Accelerator) -> list[TimedProgram]:
    """The programs with their predictions."""
    known = [program for program in programs if program.schedule]
    layers = [parse_layer(program.layer) for program in known]
    found = predict_layers(layers, [parse_schedule(program.schedule) for program in known], accelerator)
    cycles = {
        (program.table, program.file): program.beside + said.cycles.item()
        for program, said in zip(known, found, strict=True)
    }
    return [replace(program, predicted=cycles.get((program.table, program.file))) for program in programs]


def _parts(programs: Sequence[TimedProgram]) -> dict[str, Accuracy]:
    found: dict[str, list[TimedProgram]] = {}
    for program in programs:
        found.setdefault(program.table, [])
        found.setdefault(f"{program.table}, {program.style}", [])
        found[program.table].append(program)
        found[f"{program.table}, {program.style}"].append(program)
    return {
        name: accuracy(
            np.array([program.modelled for program in part], dtype=np.float64),
            np.array([program.measured for program in part], dtype=np.float64),
        )
        for name, part in found.items()
    }


def _rows(path: Path) -> list[dict[str, str]]:
    name = str(path)
    header, *rows = read_rows(read_table_text(path), name)
    for column in _COLUMNS:
        if column not in header.fields:
            raise InputError(f"the table has no column '{column}'", location=Location(name, line=header.line))
    return [dict(zip(header.fields, row.fields, strict=True)) for row in rows]


def _unpack(path: Path, names: set[str]) -> dict[str, bytes]:
    """The programs of those names, whatever folder of the archive they are in."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_input(path))) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in names and member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None  # it is a file
                    found[name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"this is no archive of programs: {error}", location=Location(str(path))) from None
    for name in sorted(names - set(found)):
        raise InputError(f"the archive lacks {name}", location=Location(str(path)))
    return found
