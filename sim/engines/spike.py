"""Spike, the RISC-V instruction-set simulator, with Gemmini's functional model as an extension (libgemmini).

What is relied on, read from the sources of Spike (fesvr/syscall.cc, fesvr/htif.cc, riscv/extensions.cc) and of
libgemmini, and tried with Spike 1.1.1 without the extension:

* A program that ends through `tohost` with a code other than 0 makes Spike print `*** FAILED *** (tohost = CODE)` on
  standard error; the process itself ends with the code's low 8 bits. Success prints nothing.
* Spike's own failures (bad option, missing library, address outside memory, exception) end it with 1 or 255 and some
  text on standard error, without that line.
* libgemmini prints the side of its array on standard output when the processor is reset; through a pipe the text
  comes only at the end. The side is compiled into the library, so it has to be that of the accelerator.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

from baco.common.errors import InfeasibleError
from baco.sim.engines.external import (
    check_external,
    failed,
    find_simulator,
    fingerprint,
    load_for,
    result_of,
    run_external,
    unsaid,
)
from baco.sim.job import Job, Simulation

VARIABLE = "BACO_SPIKE"
_WHAT = "a Spike with Gemmini's extension"
_BUILD_HINT = (
    "Gemmini's software/libgemmini builds the extension, from gemmini_params.h as 'baco export-chipyard' writes it;"
    " --engine-argument=--extlib=PATH/libgemmini.so names one that is not installed"
)
_FAILED = re.compile(r"^\*\*\* FAILED \*\*\* \(tohost = (-?\d+)\)")
_BANNER = "Gemmini extension configured with:"
_DIM = re.compile(r"^ +dim = (\d+)$")
_VERSION = re.compile(r"RISC-V ISA Simulator (\S+)")
_VERSION_SECONDS = 20


class SpikeEngine:
    """Exit code and console; no timing, and no counts."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for an accelerator that is no Gemmini."""
        problems = job.accelerator.gemmini_problems()
        if problems:
            raise InfeasibleError(
                f"accelerator '{job.accelerator.name}' is no Gemmini: " + "; ".join(problems),
                hint="take --engine functional, or change the fields named",
            )
        check_external("spike", job)
        _simulator(job)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`. Raises InfeasibleError for an accelerator that is not the library's."""
        program = load_for(job)
        spike = _simulator(job)
        said = _Said()
        outcome = run_external(_command(spike, job), job, said)
        exit_code = said.exit_code
        if exit_code is None:
            # the system call `exit` sets the process's code without a word; else words are complaints
            if outcome.code < 0 or (outcome.code > 0 and (said.dim is None or any(outcome.errors))):
                raise unsaid(outcome, _hint("\n".join(outcome.errors)))
            exit_code = outcome.code
        if said.dim is None:
            message = "no Gemmini ran: the simulator did not tell the side of its array"
            raise failed("crash", message, outcome, hint=_BUILD_HINT)
        if said.dim != job.accelerator.dim:
            raise InfeasibleError(
                f"this Spike's Gemmini has dim = {said.dim}, accelerator '{job.accelerator.name}' has"
                f" {job.accelerator.dim}",
                hint=_BUILD_HINT,
            )
        return result_of(
            "spike", job, program, outcome, exit_code=exit_code, tools={"spike": _version(spike)}
        )


def _simulator(job: Job) -> Path:
    return find_simulator(job, what=_WHAT, option="--spike", variable=VARIABLE, on_path="spike")


class _Said:
    """What Spike and the extension told."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.dim: int | None = None
        self._in_banner = False

    def output_line(self, line: str) -> int:
        # the banner may stand behind an unfinished line of the program's
        if line.endswith(_BANNER):
            self._in_banner = True
            return len(line) - len(_BANNER)
        found = _DIM.match(line) if self._in_banner else None
        self._in_banner = False
        if found:
            self.dim = int(found[1])
            return 0
        return len(line)

    def error_line(self, line: str) -> None:
        if found := _FAILED.match(line):
            self.exit_code = int(found[1])


def _command(spike: Path, job: Job) -> list[str]:
    memory, extra = job.memory, list(job.engine_arguments)
    if not any(argument.startswith("--extension=") for argument in extra):
        extra.append("--extension=gemmini")  # behind an --extlib that brings it
    assert job.program is not None
    return [
        str(spike),
        "--isa=rv64gc",  # the last one counts
        f"-m{memory.base:#x}:{memory.size_bytes:#x}",
        *extra,
        str(job.program.absolute()),
    ]


def _hint(errors: str) -> str:
    if "couldn't find" in errors:  # the library, or the extension in it
        return _BUILD_HINT
    if "dtc" in errors:
        return "Spike needs the device tree compiler: install 'dtc' (device-tree-compiler)"
    return "does the program run on this Spike by hand? an old libgemmini knows only older instructions"


def _version(spike: Path) -> str:
    """Version as its help tells it, and which file it is."""
    text = ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [str(spike), "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_SECONDS,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
    found = _VERSION.search(text)
    return f"{found[1]}, {fingerprint(spike)}" if found else fingerprint(spike)
