"""Running a built simulator: files in, limits, console out, report read back."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from baco.accel.config import Accelerator
from baco.accel.isa import find_command_type
from baco.accel.system import System
from baco.accel.verilog.generate import config_lines, unit_lines
from baco.common.errors import BacoError, InputError, Location
from baco.common.files import open_in_place, read_input, storage_error
from baco.common.scratch import scratch_folder
from baco.sim.elf import ElfProgram, load_elf
from baco.sim.failure import describe
from baco.sim.job import Job, Mark, Recording, Simulation, SimulationError
from baco.sim.toolchain import Toolchain

#: What the simulator may map beyond main memory: the model, buffers, the system's libraries.
_EXTRA_BYTES = 8 << 30
#: Wall time beyond the job's own limit before the simulator is killed, seconds.
_GRACE_SECONDS = 30.0
_UNUSABLE = 3
#: Text of the longest stream of commands.
_STREAM_BYTES = 64 << 20
#: What a result keeps of the console, characters; the callback gets all of it.
_CONSOLE_KEPT = 8 << 20


def load_program(job: Job) -> ElfProgram | None:
    """The job's program, checked; None for a stream, of which only the file is checked.

    For engines to call before they build anything. Raises InputError.
    """
    if (job.program is None) == (job.stream is None):
        raise InputError("a simulation needs either a program or a stream of commands")
    if job.program is None:
        if job.images or job.dumps:
            raise InputError("a stream of commands fills and dumps memory by its own lines")
        if job.watches:
            raise InputError("a stream of commands has no instructions to watch")
        read_input(str(job.stream), limit_bytes=_STREAM_BYTES)  # missing or unreadable
        return None
    _check_ranges(job)
    program = load_elf(job.program, memory_base=job.memory.base, memory_bytes=job.memory.size_bytes)
    _check_hash(program, job.machine)
    return program


def run_simulator(
    simulator: Path,
    engine: str,
    job: Job,
    elf: ElfProgram | None,
    tools: Toolchain,
    *,
    build_seconds: float,
    more: Sequence[str] = (),
) -> Simulation:
    """Run a job in a simulator that `baco.sim.build` made; `elf` is what `load_program` gave, `more` further arguments of it.

    Raises as `baco.sim.engines.base.Engine.run`.
    """
    # the harness takes the model of the original in the place of the Verilog
    original = engine == "gemmini-model"
    inside, timing = ("rtl", "gemmini") if original else (engine, "baco")
    with scratch_folder() as folder, _recordings(job.recording, folder) as recording_arguments:
        machine = job.machine
        config = unit_lines(machine) if isinstance(machine, System) else config_lines(machine)
        (folder / "config").write_text(config, encoding="ascii")
        arguments = [
            *("--config", str(folder / "config"), "--engine", inside, "--result", str(folder / "result")),
            *("--timing", timing),
            *_memory_arguments(job),
            *_limit_arguments(job),
            *recording_arguments,
            *more,
        ]
        if elf is None:
            arguments += ["--stream", str(job.stream)]
        else:
            with open(folder / "image", "wb") as image:
                image.writelines(elf.image())
                for address, data in job.images:
                    image.write(struct.pack("<QQ", address, len(data)) + data)
            arguments += ["--image", str(folder / "image"), "--entry", hex(elf.entry)]
            arguments += ["--tohost", hex(elf.tohost), "--fromhost", hex(elf.fromhost)]
        if job.dumps:
            ranges = "".join(f"{address} {count}\n" for address, count in job.dumps)
            (folder / "ranges").write_text(ranges, encoding="ascii")
            arguments += ["--dump-ranges", str(folder / "ranges"), "--dump-file", str(folder / "dump")]
        if job.watches:
            (folder / "marks").write_text(_mark_lines(job), encoding="ascii")
            arguments += ["--marks", str(folder / "marks"), "--mark-file", str(folder / "copies")]
        output, errors, code = _execute([str(simulator), *arguments], job)
        report = folder / "result"
        record = json.loads(report.read_text(encoding="ascii")) if code == 0 and report.exists() else None
        finished = record if record is not None and "failure" not in record else None
        dumps = _read_dumps(folder / "dump", job) if finished else ()
        marks = _read_marks(folder / "copies", job, finished) if finished else ()
    if record is None:
        raise _broken(code, errors, output, job)
    record["engine"] = engine
    if "failure" in record:
        message, details, hint = describe(record, elf)
        raise SimulationError(
            message,
            kind=record["failure"]["kind"],
            console=output,
            record=record,
            hint=hint,
            details=details,
        )
    return _result(record, job, elf, output, tools, build_seconds, dumps, marks)


def _check_ranges(job: Job) -> None:
    first, last = job.memory.base, job.memory.base + job.memory.size_bytes
    wanted = [("an image", address, len(data)) for address, data in job.images]
    wanted += [("a dump", *dump) for dump in job.dumps]
    wanted += [("the copy of a mark", *copy) for watch in job.watches for copy in watch.copies]
    if len({watch.address for watch in job.watches}) < len(job.watches):
        raise InputError("an instruction is watched twice", hint="give one watch all the ranges to copy")
    for what, address, count in wanted:
        if count < 0 or address < first or address + count > last:
            raise InputError(
                f"{what} of {count:,} bytes at {address:#x} is outside memory, which is {first:#x} to {last - 1:#x}",
                hint="enlarge memory with --memory-mib",
            )


def _read_dumps(path: Path, job: Job) -> tuple[bytes, ...]:
    if not job.dumps:
        return ()
    with open(path, "rb") as file:
        return tuple(file.read(count) for _, count in job.dumps)


def _mark_lines(job: Job) -> str:
    """What sim/cpp/marks.h reads: address of an instruction, address and bytes of a range."""
    lines = []
    for watch in job.watches:
        for address, count in watch.copies or ((0, 0),):
            lines.append(f"{watch.address} {address} {count}\n")
    return "".join(lines)


def _read_marks(path: Path, job: Job, record: dict[str, Any]) -> tuple[Mark, ...]:
    if not job.watches:
        return ()
    copies = {watch.address: watch.copies for watch in job.watches}
    with open(path, "rb") as file:
        return tuple(
            Mark(
                address=one["address"],
                cycle=one["cycle"],
                counters=_counters(one)
                | {
                    name: one[name]
                    for name in ("instructions", "dram_read_bytes", "dram_write_bytes")
                    if name in one
                },
                activity=one["activity"],
                copies=tuple(file.read(count) for _, count in copies[one["address"]]),
                unit=one["unit"],
            )
            for one in record["marks"]
        )


def _counters(record: dict[str, Any]) -> dict[str, int]:
    return {
        f"{group}_{name}": value
        for group in ("host", "accelerator", "memory", "array")
        for name, value in record.get(group, {}).items()
    }


def _memory_arguments(job: Job) -> list[str]:
    memory = job.memory
    bandwidth = memory.bytes_per_cycle or job.machine.dram_bytes_per_cycle
    values: dict[str, object] = {
        "--memory-base": memory.base,
        "--memory-bytes": memory.size_bytes,
        "--memory-latency": memory.latency_cycles,
        "--memory-bandwidth": bandwidth,
        "--memory-burst": memory.burst_bytes,
        "--l2-kib": memory.l2_kib,
        "--l2-latency": memory.l2_latency_cycles,
        "--l2-bandwidth": memory.l2_bytes_per_cycle,
    }
    return [text for name, value in values.items() for text in (name, str(value))]


def _limit_arguments(job: Job) -> list[str]:
    limits = job.limits
    return [
        *("--max-cycles", str(limits.max_cycles), "--stall-cycles", str(limits.stall_cycles)),
        *("--timeout", str(limits.timeout_seconds)),
    ]


@contextmanager
def _recordings(recording: Recording, folder: Path) -> Iterator[list[str]]:
    """The simulator's arguments for what it records. Files it writes itself; what goes to a stream (see
    `baco.common.files.open_in_place`) is written to `folder` and copied at the end, whatever that is."""
    arguments: list[str] = []
    with ExitStack() as copies:
        for name, path in (("--trace", recording.waves), ("--log", recording.log)):
            if path is None:
                continue
            stream = open_in_place(path)
            if stream is None:
                try:  # a place that cannot be written is better known before a long run
                    path.open("wb").close()
                except OSError as error:
                    raise storage_error(error, path) from error
                arguments += [name, str(path)]
            else:
                beside = folder / f"{name.strip('-')}{path.suffix}"
                copies.callback(_copy, beside, stream, path)
                arguments += [name, str(beside)]
        if recording.waves is not None:
            arguments += ["--trace-from", str(recording.waves_from)]
            if recording.waves_until is not None:
                arguments += ["--trace-until", str(recording.waves_until)]
        yield arguments


def _copy(source: Path, stream: int, name: Path) -> None:
    try:
        with os.fdopen(stream, "wb") as target:
            if source.exists():  # not if the simulator did not start
                with open(source, "rb") as file:
                    shutil.copyfileobj(file, target)
    except OSError as error:
        raise storage_error(error, name) from error


def _check_hash(program: ElfProgram, machine: Accelerator | System) -> None:
    what = "system" if isinstance(machine, System) else "accelerator"
    if program.config_hash is not None and program.config_hash != machine.config_hash:
        raise InputError(
            f"the program was compiled for the {what} {program.config_hash}, this one is"
            f" {machine.config_hash} ({machine.name})",
            location=Location(program.path),
            hint=f"compile it again for this {what}, or name the one it was compiled for",
        )


class _Reader(threading.Thread):
    """Reads a pipe to its end so that the simulator never waits for us; keeps a bounded amount."""

    def __init__(self, pipe: IO[bytes], job: Job | None) -> None:
        super().__init__(daemon=True)
        self._pipe, self._job, self._decoder = pipe, job, codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = io.StringIO()
        self.start()

    def run(self) -> None:
        while block := self._pipe.read1(1 << 16):  # type: ignore[attr-defined]
            text = self._decoder.decode(block)
            # a stream's dumps are its result, and bounded by the stream itself
            if self._job is None or self._job.stream is not None or self._kept.tell() < _CONSOLE_KEPT:
                self._kept.write(text)
            if self._job is not None and self._job.console is not None:
                self._job.console(text)

    def text(self) -> str:
        self.join()
        return self._kept.getvalue()


def _execute(command: Sequence[str], job: Job) -> tuple[str, str, int]:
    """Standard output and error, and exit code (negative: signal)."""
    limit = job.limits.timeout_seconds + _GRACE_SECONDS if job.limits.timeout_seconds > 0 else None
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        limit_memory(process.pid, job)
        output, errors = _Reader(process.stdout, job), _Reader(process.stderr, None)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        return output.text(), errors.text(), code


def limit_memory(pid: int, job: Job, extra_bytes: int = _EXTRA_BYTES) -> None:
    """No more address space for a simulator's process than what it simulates and so much, and no core file."""
    if not hasattr(resource, "prlimit"):
        return
    most = job.memory.size_bytes + extra_bytes
    # the process may have ended already, or run under a stricter limit
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _broken(code: int, errors: str, console: str, job: Job) -> BacoError:
    """The error for a simulator that wrote no report."""
    text = errors.strip()
    if code == _UNUSABLE:
        message = text or "the simulator refused its arguments"
        return InputError(message, location=Location(str(job.stream)) if job.stream else None)
    name = f"code {code}"
    if code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
    reason = f": {text.splitlines()[-1]}" if text else ""
    return SimulationError(
        f"the simulator ended with {name}{reason}",
        kind="crash",
        console=console,
        record={"exit_code": code, "stderr": text[-4000:]},
        hint="if memory ran out, free some; else please report this",
    )


def _names(counts: Sequence[Sequence[int]]) -> dict[str, int]:
    """Counts by command name, from (funct, config subtype, count)."""
    found = {}
    for funct, subtype, count in counts:
        kind = find_command_type(funct, subtype)
        found[kind.name if kind else f"funct_{funct}"] = count
    return found


def _result(
    record: dict[str, Any],
    job: Job,
    elf: ElfProgram | None,
    output: str,
    tools: Toolchain,
    build_seconds: float,
    dumps: tuple[bytes, ...],
    marks: tuple[Mark, ...],
) -> Simulation:
    cycles: int | None = record.get("cycles")
    notes = list(record.get("notes", ()))
    if elf is not None and elf.config_hash is None:
        notes.append(
            "the program carries no configuration hash: whether it fits the accelerator is not known"
        )
    if record["engine"] == "gemmini-model":
        notes.append("cycles are those of a model of the original Gemmini in a Rocket system, not of Verilog")
    if record["console_dropped_bytes"]:
        notes.append(f"{record['console_dropped_bytes']:,} bytes of the program's output were dropped")
    if record["marks_dropped"]:
        notes.append(f"{record['marks_dropped']:,} marks beyond the first {len(marks):,} were dropped")
    if job.stream is not None:
        dumps = tuple(
            bytes.fromhex(line.split(" ")[2]) for line in output.split("\n") if line.startswith("dump ")
        )

    def measured(record: dict[str, Any], accelerators: Sequence[Accelerator], **more: Any) -> Simulation:
        elements = sum(accelerator.dim**2 for accelerator in accelerators)
        macs = record["activity"]["macs"]
        return Simulation(
            engine=engine,
            cycles=cycles,
            instructions=record.get("instructions", 0),
            commands=_names(record["commands"]),
            unrolled=_names(record["unrolled"]),
            macs=macs,
            utilisation=macs / (cycles * elements) if cycles and elements else None,
            dram_read_bytes=record.get("dram_read_bytes"),
            dram_write_bytes=record.get("dram_write_bytes"),
            counters=_counters(record),
            activity=record["activity"],
            tools=tools.versions,
            wall_seconds=wall_seconds,
            build_seconds=build_seconds,
            **more,
        )

    engine, exit_code, wall_seconds = record["engine"], record["exit_code"], record["wall_seconds"]
    units: tuple[Simulation, ...] = ()
    if "units" in record:
        units = tuple(
            measured(
                part,
                [] if unit.accelerator is None else [unit.accelerator],
                exit_code=exit_code,
                console="",
                memory_dumps=(),
                marks=tuple(mark for mark in marks if mark.unit == number),
                notes=(),
                config_hash="" if unit.accelerator is None else unit.accelerator.config_hash,
            )
            for number, (unit, part) in enumerate(zip(job.units, record["units"], strict=True))
        )
        record = record | _sums(record)
    return measured(
        record,
        [unit.accelerator for unit in job.units if unit.accelerator is not None],
        exit_code=exit_code,
        console=output,
        memory_dumps=dumps,
        marks=marks,
        notes=tuple(notes),
        config_hash=job.machine.config_hash,
        units=units,
    )


def _sums(record: dict[str, Any]) -> dict[str, Any]:
    """What the report of a system does not say of the whole: sums over its units."""
    units = record["units"]
    found: dict[str, Any] = {"instructions": sum(unit["instructions"] for unit in units)}
    for name in ("dram_read_bytes", "dram_write_bytes"):
        found[name] = record.get(name, sum(unit.get(name, 0) for unit in units))
    for name in ("host", "accelerator", "array", "activity"):
        values = [unit[name] for unit in units if name in unit]
        keys = dict.fromkeys(key for value in values for key in value)
        if values:
            found[name] = {key: sum(value.get(key, 0) for value in values) for key in keys}
    for name in ("commands", "unrolled"):
        counts: Counter[tuple[int, int]] = Counter()
        for unit in units:
            for funct, subtype, count in unit[name]:
                counts[funct, subtype] += count
        found[name] = [[funct, subtype, count] for (funct, subtype), count in sorted(counts.items())]
    return found
