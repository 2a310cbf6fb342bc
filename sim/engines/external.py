"""Running a simulator that the user has built: finding it, limits, its output told apart from the program's."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from baco.common.errors import InputError, Location
from baco.sim.elf import ElfProgram
from baco.sim.engines.native import limit_memory, load_program
from baco.sim.job import Job, MainMemory, Simulation, SimulationError

#: More standard output than this is a program that prints for ever, bytes.
OUTPUT_LIMIT_BYTES = 256 << 20
#: What a result keeps of the console, characters; the callback gets all of it.
_CONSOLE_KEPT = 8 << 20
#: A line longer than this is handed on in parts.
_LINE_LIMIT = 1 << 16
#: Lines of standard error kept; a trace of every instruction may go there.
_ERROR_LINES = 40
#: What the simulator may map beyond the simulated memory.
_EXTRA_BYTES = 64 << 30
#: For the rest of the output after the simulator's end, seconds.
_DRAIN_SECONDS = 2.0


class Watcher(Protocol):
    """Reads what the simulator says. The two methods are called by two threads, one each."""

    def output_line(self, line: str) -> int:
        """A line of standard output, without its end: how many of its first characters the program printed.

        Simulators write behind a program that did not end its last line.
        """
        ...

    def error_line(self, line: str) -> None:
        """A line of standard error, where programs do not write."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How the simulator ended.

    Attributes:
        code: exit code; negative: signal.
        console: what the program printed, the first part if it was much.
        dropped: characters of it that are not in `console`.
        errors: the last lines of standard error.
        seconds: wall time.
    """

    code: int
    console: str
    dropped: int
    errors: tuple[str, ...]
    seconds: float

    @property
    def ending(self) -> str:
        """`code 3` or `SIGSEGV`."""
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-self.code).name
        return f"code {self.code}"


def find_simulator(job: Job, *, what: str, option: str, variable: str, on_path: str | None = None) -> Path:
    """The program to run: the job's, the environment's, or the one of a name on the search path.

    Raises InputError, which says how to name one, when there is none or it is no program.
    """
    named = str(job.simulator) if job.simulator is not None else os.environ.get(variable, "")
    hint = f"name one by {option}, or by the environment variable {variable}"
    if not named:
        found = shutil.which(on_path) if on_path else None
        if found is None:
            raise InputError(f"this engine needs {what}, which baco does not bring along", hint=hint)
        return Path(found).absolute()
    # a bare name is looked up as a shell does, unless it is a file here
    path = Path(os.path.expanduser(named))  # which leaves users that there are not as they are
    if not os.path.exists(path) and "/" not in named:
        path = Path(shutil.which(named) or path)
    here = Location(str(path))
    if not os.path.exists(path):
        raise InputError(f"no such file; it should be {what}", location=here, hint=hint)
    if not path.is_file() or not os.access(path, os.X_OK):
        raise InputError(f"this is not an executable file; it should be {what}", location=here, hint=hint)
    return path.absolute()  # not resolved: programs look for their files beside the link's name


def check_external(engine: str, job: Job) -> None:
    """Raises InputError for what such an engine cannot do."""
    if job.stream is not None:
        raise InputError(f"the engine '{engine}' runs programs, not streams of commands")
    if job.recording.waves is not None or job.recording.log is not None:
        raise InputError(
            f"the engine '{engine}' records neither waveforms nor a log of commands",
            hint="use the engine 'rtl', or pass the simulator's own options with --engine-argument",
        )
    if job.images or job.dumps:
        raise InputError(
            f"the engine '{engine}' neither fills nor dumps memory", hint="use 'functional' or 'rtl'"
        )
    if job.watches:
        raise InputError(f"the engine '{engine}' watches no instructions", hint="use 'functional' or 'rtl'")
    if job.memory != MainMemory(base=job.memory.base, size_bytes=job.memory.size_bytes):
        raise InputError(f"the timing of memory cannot be set for the engine '{engine}'")
    for argument in job.engine_arguments:
        if argument[:1] not in ("-", "+") or len(argument) < 2:
            raise InputError(
                f"an argument for the simulator must begin with - or +, not be '{argument}'",
                hint="the first other word is taken for the program; write --name=value in one",
            )


def load_for(job: Job) -> ElfProgram:
    """The job's program. Raises InputError."""
    program = load_program(job)
    assert program is not None
    if not program.fromhost:
        raise InputError(
            "the program has no symbol 'fromhost', without which this simulator never sees it end",
            location=Location(program.path),
            hint="define both mailboxes, tohost and fromhost",
        )
    return program


def run_external(
    command: Sequence[str], job: Job, watcher: Watcher, *, output_limit_bytes: int = OUTPUT_LIMIT_BYTES
) -> Outcome:
    """Run the simulator in the current folder to its end.

    It and everything that it started are killed at the job's time limit, at the limit of output, and when the
    caller is interrupted. Raises SimulationError at a limit and InputError when the system cannot start it.
    """
    start = time.perf_counter()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL character in an argument
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be started: {reason}", location=Location(command[0])) from None
    assert process.stdout is not None
    assert process.stderr is not None
    limit_memory(process.pid, job, _EXTRA_BYTES)
    output = _Output(process.stdout, job, watcher, output_limit_bytes, lambda: _kill(process))
    readers = output, errors = output, _Errors(process.stderr, watcher)
    late = False
    try:
        process.wait(job.limits.timeout_seconds or None)
        _join(readers)  # filters behind the simulator may still hold the last lines
    except subprocess.TimeoutExpired:
        late = True
    finally:
        _kill(process)
        code = process.wait()
        _join(readers)
        for reader in readers:
            reader.muted = True
    outcome = Outcome(
        code, output.kept.getvalue(), output.dropped, tuple(errors.lines), time.perf_counter() - start
    )
    for reader in readers:
        if reader.failure is not None:
            raise reader.failure
    if output.exceeded:
        raise failed("output", f"more than {output_limit_bytes:,} bytes were printed", outcome)
    if late:
        message = f"the time limit of {job.limits.timeout_seconds:g} s has passed"
        raise failed("timeout", message, outcome, hint="if the program only needs longer, raise --timeout")
    return outcome


def failed(
    kind: str, message: str, outcome: Outcome, *, hint: str | None = None, details: Sequence[str] = ()
) -> SimulationError:
    """An error that carries what is known of the run."""
    record = {"exit_code": outcome.code, "stderr": "\n".join(outcome.errors)}
    return SimulationError(
        message, kind=kind, console=outcome.console, record=record, hint=hint, details=details
    )


def unsaid(outcome: Outcome, hint: str) -> SimulationError:
    """The error for a simulator that ended without telling how the program did."""
    said = [line for line in outcome.errors if line.strip()][-6:]
    message = f"the simulator ended with {outcome.ending} and did not tell how the program ended"
    return failed("crash", message, outcome, hint=hint, details=said)


def result_of(
    engine: str,
    job: Job,
    program: ElfProgram,
    outcome: Outcome,
    *,
    exit_code: int,
    tools: dict[str, str],
    counters: dict[str, int] | None = None,
    notes: Sequence[str] = (),
) -> Simulation:
    """A result in which only these figures were measured."""
    found = list(notes)
    if program.config_hash is None:
        found.append(
            "the program carries no configuration hash: whether it fits the accelerator is not known"
        )
    if outcome.dropped:
        found.append(f"{outcome.dropped:,} characters of the program's output were dropped")
    return Simulation(
        engine=engine,
        exit_code=exit_code,
        cycles=None,
        instructions=None,
        commands={},
        unrolled={},
        macs=None,
        utilisation=None,
        dram_read_bytes=None,
        dram_write_bytes=None,
        counters=counters or {},
        console=outcome.console,
        memory_dumps=(),
        notes=tuple(found),
        config_hash=job.accelerator.config_hash,
        tools=tools,
        wall_seconds=outcome.seconds,
    )


def fingerprint(simulator: Path) -> str:
    """Name and hash of a program's file, which tell one build from another. Raises InputError if unreadable."""
    try:
        with simulator.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", location=Location(str(simulator))) from None
    return f"{simulator.name} (sha256 {digest[:16]})"


class _Reader(threading.Thread):
    """Reads a pipe to its end, whatever happens to those who are told of the lines."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe, self._decoder = pipe, codecs.getincrementaldecoder("utf-8")("replace")
        self.failure: BaseException | None = None
        self.muted = False

    def run(self) -> None:
        rest = ""
        with self._pipe:
            while block := self._pipe.read1(1 << 16):  # type: ignore[attr-defined]
                self._count(len(block))
                *lines, rest = (rest + self._decoder.decode(block)).split("\n")
                for line in lines:
                    self._tell(line, "\n")
                if len(rest) > _LINE_LIMIT:
                    self._tell(rest, "")
                    rest = ""
        if rest:
            self._tell(rest, "")

    def _tell(self, line: str, end: str) -> None:
        if self.failure is None and not self.muted:
            try:
                self._line(line, end)
            except BaseException as error:  # raised again by who waits for the simulator
                self.failure = error

    def _count(self, size: int) -> None:
        """More bytes have come."""

    def _line(self, line: str, end: str) -> None:
        raise NotImplementedError


class _Output(_Reader):
    def __init__(
        self, pipe: IO[bytes], job: Job, watcher: Watcher, limit: int, stop: Callable[[], None]
    ) -> None:
        super().__init__(pipe)
        self._console, self._watcher, self._limit, self._stop = job.console, watcher, limit, stop
        self._bytes = 0
        self.kept, self.dropped, self.exceeded = io.StringIO(), 0, False
        self.start()

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limit and not self.exceeded:
            self.exceeded = True
            self._stop()

    def _line(self, line: str, end: str) -> None:
        own = self._watcher.output_line(line.removesuffix("\r"))
        if own < len(line.removesuffix("\r")):
            line, end = line[:own], ""
        text = line + end
        if not text:
            return
        if self.kept.tell() < _CONSOLE_KEPT:
            self.kept.write(text)
        else:
            self.dropped += len(text)
        if self._console is not None:
            self._console(text)


class _Errors(_Reader):
    def __init__(self, pipe: IO[bytes], watcher: Watcher) -> None:
        super().__init__(pipe)
        self._watcher = watcher
        self.lines: deque[str] = deque(maxlen=_ERROR_LINES)
        self.start()

    def _line(self, line: str, end: str) -> None:
        self.lines.append(line[:500])
        self._watcher.error_line(line)


def _join(readers: Sequence[_Reader]) -> None:
    """Wait for the rest of the output, but not for whoever else may hold the pipes for ever."""
    end = time.monotonic() + _DRAIN_SECONDS
    for reader in readers:
        reader.join(max(0.0, end - time.monotonic()))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the simulator and what it started: all of its session, which is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
