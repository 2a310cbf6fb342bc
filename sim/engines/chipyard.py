"""A simulator of a whole system with Gemmini that the user built with Chipyard, by Verilator or VCS.

What is relied on, read from the sources of the harnesses (rocket-chip's emulator.cc and TestDriver.v, Spike's
fesvr/syscall.cc, testchipip's SimTSI, Verilator's run-time library) and from logs in the projects' issues:

* `*** FAILED *** (tohost = CODE)` on standard error, by the front-end server, whenever a program ends with a code other
  than 0. It is the only word of it under VCS before Chipyard 1.9, whose process ends with 0 all the same
  (chipyard issue 1283).
* emulator.cc (Verilator, until Chipyard 1.9) then prints `*** FAILED *** (code = CODE, seed N) after N cycles`, also
  `via dtm`, `via jtag`, or `via trace_count (timeout, ...)`. It prints `*** PASSED *** Completed after N cycles` only
  with +cycle-count or +verbose, which is why the former is always passed.
* TestDriver.v (VCS; Verilator since Chipyard 1.10) prints `*** PASSED *** Completed after N simulation cycles` with
  +verbose only, and `*** FAILED *** (timeout) after N simulation cycles`, N padded with spaces. It ends with $finish,
  which Verilator announces as `- FILE:LINE: Verilog $finish`, VCS as `$finish called from file ...`, followed by the
  time simulated.
* Since Chipyard 1.9 a program's failure is also an assertion, `*** FAILED *** (exit code = CODE)`, after which the
  simulator stops like after any other assertion of the hardware.

The harness counts its own clock, from before reset on and with the loading of the program, and systems may run at
another frequency than the harness: its count is no `Simulation.cycles`, but a counter of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from baco.accel.chipyard import chipyard_gaps
from baco.common.errors import InfeasibleError
from baco.sim.engines.external import (
    Outcome,
    check_external,
    failed,
    find_simulator,
    fingerprint,
    load_for,
    result_of,
    run_external,
    unsaid,
)
from baco.sim.job import Job, Simulation, SimulationError

VARIABLE = "BACO_CHIPYARD_SIMULATOR"
_WHAT = "a simulator built with Chipyard (simulator-chipyard... or simv-chipyard...)"
_HINT = "pass what Chipyard's make passes (say +dramsim, +loadmem=FILE) with --engine-argument"
#: Of the numbers of cycles that programs print, so many become counters.
_MOST_PRINTED = 100

_EXIT = re.compile(
    r"\*\*\* FAILED \*\*\* (?:via \w+ )?\((?:tohost|code|exit code) = *(-?\d+)(?:, seed -?\d+)?\)"
    r"(?: after +(\d+) cycles)?"
)
# Verilog pads texts and numbers, with spaces or zero bytes
_TIMEOUT = re.compile(
    r"\*\*\* FAILED \*\*\*[\s\0]*(?:via trace_count )?\(timeout[^)]*\) after +(\d+) (?:simulation )?cycles"
)
_PASSED = re.compile(r"\*\*\* PASSED \*\*\* Completed after +(\d+) (?:simulation )?cycles")
_STOPPED = re.compile(r'(?:\[\d+\] )?%(?:Error|Fatal)\b.*|(?:Error|Fatal): ".*|Assertion failed.*')
_FINISHED = re.compile(r'- \S*:\d+: Verilog \$finish$|\$finish called from file ".*", line \d+\.$')
_TIME = re.compile(r"Time: (\d+) (fs|ps|ns|us)$")
_FEMTOSECONDS = {"fs": 1, "ps": 10**3, "ns": 10**6, "us": 10**9}
_VCS = re.compile(r"Compiler version (\S+);")
_CHATTER = re.compile(
    r"\[UART\] UART\d+ is here.*|This emulator compiled with JTAG Remote Bitbang client\..*|Listening on port \d+"
    r"|Chronologic VCS simulator copyright.*|Contains Synopsys proprietary information\.|Compiler version .*"
    r"|Aborting\.\.\."
)
_PRINTED = re.compile(r"\bm?cycles?\b[^:=\d]{0,24}[:=] *(\d+)\b|\b(\d+) +cycles?\b", re.IGNORECASE)


class ChipyardEngine:
    """Exit code and console, the harness's cycles, and the cycles that the program printed."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for an accelerator that cannot be built as a Gemmini.

        Whether the simulator was built from the accelerator cannot be checked: programs do not see it.
        """
        accelerator = job.accelerator
        problems = accelerator.gemmini_problems() + chipyard_gaps(accelerator)
        if problems:
            raise InfeasibleError(
                f"no simulator of Chipyard's can be accelerator '{accelerator.name}': " + "; ".join(problems),
                hint="take --engine rtl, or change the fields named",
            )
        check_external("chipyard", job)
        _simulator(job)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        program = load_for(job)
        simulator = _simulator(job)
        said = _Said()
        outcome = run_external(_command(simulator, job), job, said)
        exit_code = said.ending(outcome)
        notes = ["that the simulator was built from this accelerator is not checked", *said.notes(outcome)]
        tools = {"simulator": fingerprint(simulator)} | ({"vcs": said.vcs} if said.vcs else {})
        counters = said.counters() | _printed_cycles(outcome.console)
        return result_of(
            "chipyard",
            job,
            program,
            outcome,
            exit_code=exit_code,
            tools=tools,
            counters=counters,
            notes=notes,
        )


def _command(simulator: Path, job: Job) -> list[str]:
    assert job.program is not None
    most = job.limits.max_cycles
    return [
        str(simulator),
        "+permissive",  # from here on, what a harness does not know is not an error
        "+cycle-count",
        *([f"+max-cycles={most}"] if most else []),
        *job.engine_arguments,
        "+permissive-off",
        str(job.program.absolute()),
    ]


class _Words:
    """What one stream of output told."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.cycles: int | None = None
        self.timed_out = self.passed = False
        self.stops: list[str] = []

    def read(self, line: str) -> int | None:
        """Take note of the line; where the simulator's part begins, None if it has none."""
        if "*** " in line:
            for kind in (_EXIT, _TIMEOUT, _PASSED):
                if verdict := kind.search(line):
                    self._verdict(kind, verdict)
                    # an assertion tells a verdict within its own line
                    stop = _STOPPED.search(line)
                    return min(verdict.start(), stop.start() if stop else verdict.start())
        if stopped := _STOPPED.match(line):
            self.stops.append(stopped[0].strip()[:300])
            return 0
        return None

    def _verdict(self, kind: re.Pattern[str], found: re.Match[str]) -> None:
        if kind is _EXIT:
            self.exit_code = int(found[1])
        elif kind is _TIMEOUT:
            self.timed_out = True
        else:
            self.passed = True
        cycles = found[found.re.groups]
        if cycles is not None:
            self.cycles = int(cycles)


def _simulator(job: Job) -> Path:
    return find_simulator(job, what=_WHAT, option="--simulator", variable=VARIABLE)


class _Said:
    """What the simulator told: standard error has the last word, since programs cannot write there."""

    def __init__(self) -> None:
        self._errors, self._output = _Words(), _Words()
        self._finished = False
        self._femtoseconds: int | None = None
        self.vcs: str | None = None

    def output_line(self, line: str) -> int:
        if self._finished:  # VCS's report
            if time := _TIME.match(line):
                self._femtoseconds = int(time[1]) * _FEMTOSECONDS[time[2]]
            return 0
        if finished := _FINISHED.search(line):
            self._finished = True
            return finished.start()
        if _CHATTER.fullmatch(line):
            if version := _VCS.match(line):
                self.vcs = version[1]
            return 0
        start = self._output.read(line)
        return len(line) if start is None else start

    def error_line(self, line: str) -> None:
        self._errors.read(line)

    def ending(self, outcome: Outcome) -> int:
        """The program's exit code. Raises SimulationError when there is none."""
        for words in (self._errors, self._output):
            if words.exit_code is not None:
                return words.exit_code
            if words.timed_out:
                raise failed(
                    "max_cycles",
                    f"the limit of {words.cycles:,} cycles has passed",
                    outcome,
                    hint="if the program only needs longer, raise --max-cycles; loading it counts too",
                )
            if words.passed:
                return 0
        if self._finished and outcome.code == 0:
            return 0
        raise self._stopped(outcome) or unsaid(outcome, _HINT)

    def _stopped(self, outcome: Outcome) -> SimulationError | None:
        stops = self._errors.stops + self._output.stops
        if not stops:
            return None
        return failed(
            "crash",
            "the simulated hardware stopped by itself",
            outcome,
            hint="an assertion of the hardware failed, or its simulator did",
            details=stops[:4],
        )

    def notes(self, outcome: Outcome) -> list[str]:
        found = []
        cycles = self._cycles()
        if cycles is not None:
            found.append(
                "harness cycles are of the harness's clock, with reset and the loading of the program; what the"
                " program measured is in its output"
            )
        stops = self._errors.stops + self._output.stops
        if stops and self._errors.exit_code is None and self._output.exit_code is None:
            found.append(f"the program ended well, but the hardware complained: {stops[0]}")
        elif outcome.code < 0 and not stops:
            found.append(f"the simulator ended with {outcome.ending} after the program had ended")
        return found

    def _cycles(self) -> int | None:
        return self._errors.cycles if self._errors.cycles is not None else self._output.cycles

    def counters(self) -> dict[str, int]:
        found = {}
        cycles = self._cycles()
        if cycles is not None:
            found["harness_cycles"] = cycles
        if self._femtoseconds is not None:
            found["simulated_picoseconds"] = self._femtoseconds // 1000
        return found


def _printed_cycles(console: str) -> dict[str, int]:
    """The numbers of cycles in what the program printed, in their order, as far as they look like such."""
    numbers = [int(one or other) for one, other in _PRINTED.findall(console)]
    return {f"printed_cycles_{i}": number for i, number in enumerate(numbers[:_MOST_PRINTED], 1)}
