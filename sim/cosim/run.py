"""Playing streams in the native simulator: both models in one process, many streams a process."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from baco.accel.config import Accelerator
from baco.accel.isa import disassemble
from baco.accel.legality.errors import error_reason
from baco.accel.system import System
from baco.accel.verilog.generate import ADDRESS_BITS, config_lines, unit_lines, verilog
from baco.accel.verilog.system import accelerator_modules, system_verilog
from baco.common.errors import BacoError
from baco.common.scratch import scratch_folder
from baco.sim.build import Report, Waves, rtl_simulator
from baco.sim.cosim.builder import REGION_BYTES
from baco.sim.cosim.macros import MacroGenerator
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, Stream, SystemStream
from baco.sim.toolchain import toolchain

#: Cycles without any progress after which the RTL counts as stuck: ten times the longest memory latency drawn.
_STALL_CYCLES = 20_000
#: Wall time that a stream may take on average, seconds, and what starting costs at most.
_SECONDS_A_STREAM, _SECONDS = 20.0, 60.0
#: Where main memory may begin: behind the addresses that mean nothing, and so that local memories fit behind it.
_FIRST_BASE, _PAST_BASE = 1 << 16, (1 << ADDRESS_BITS) - (1 << 28)


@dataclass(frozen=True)
class StreamOutcome:
    """How a stream ended.

    Attributes:
        kind: `same` (legal, with the same contents of memory), `raced` (legal, contents are nobody's business), `refused`
            (illegal, on both sides alike), or what is wrong: `verdict` (only one side refuses, or each something else),
            `local`, `memory` (contents differ), `handshake` (a port inside breaks its protocol), `responses`, `stuck`, `fault`,
            `crash`.
        text: the details, as sim/cpp/cosim.h lists them.
        cycles, commands, digest: of a stream of the kind `same`.
        error: code of the error of a stream of the kind `refused`.
    """

    name: str
    kind: str
    text: str
    cycles: int = 0
    commands: int = 0
    digest: str = ""
    error: int = 0

    @property
    def failed(self) -> bool:
        """The models disagree."""
        return self.kind not in ("same", "raced", "refused")

    def describe(self) -> str:
        """One sentence with the place and both values."""
        words = self.text.split()
        if self.kind == "local":
            place, row, column, rtl, functional = words
            return f"{place} row {row} column {column}: {rtl} in RTL, {functional} in the functional model"
        if self.kind == "memory":
            address, rtl, functional = words
            return f"main memory at 0x{address}: {rtl} in RTL, {functional} in the functional model"
        if self.kind == "handshake":
            return f"{self.text} takes back or changes what it offers before it is taken"
        if self.kind == "responses":
            return f"{words[0]} responses in RTL, {words[1]} in the functional model"
        if self.kind == "refused":
            return f"refused, {_verdict(words)}"
        if self.kind == "verdict":
            rtl, functional = (_verdict(side.split()) for side in self.text.split(" | "))
            return f"RTL: {rtl}; functional model: {functional}"
        return f"{self.kind}: {self.text}" if self.text else self.kind


def _verdict(words: list[str]) -> str:
    """`legal`, or the error and the command."""
    if words == ["legal"]:
        return "legal"
    code, *command = words
    funct, rs1, rs2 = (int(word, 16) for word in command)
    return f"{error_reason(int(code))}: {disassemble(funct, rs1, rs2)}"


def random_base(seed: str) -> int:
    """First address of main memory: the usual one, any, or so that the stream's addresses carry into a high bit."""
    r = random.Random(f"{seed}/base")
    anywhere = r.randrange(_FIRST_BASE, _PAST_BASE) & -4096
    carries = (1 << r.randrange(18, ADDRESS_BITS)) - r.randrange(0, MEMORY_BYTES, 64)
    return r.choice((BASE, anywhere, carries))


def random_stream(accelerator: Accelerator, seed: int, index: int, base: int = BASE) -> Stream:
    """The `index`-th stream of a seed for an accelerator: a few dozen commands, or some macros between them.

    base: first address of main memory.
    """
    name = f"{accelerator.config_hash}-{seed}-{index}"
    generator = MacroGenerator(accelerator, name, base)
    generator.initialise()
    return _random(generator, name)


def powered_stream(accelerator: Accelerator, seed: int, index: int) -> Stream:
    """Likewise, where registers and memories hold random bits before reset, and main memory begins anywhere.

    First, every row of both memories and every register of the array is written, so that all that is compared at the end is
    defined.
    """
    name = f"{accelerator.config_hash}-{seed}-powered-{index}"
    generator = MacroGenerator(accelerator, name, random_base(name))
    power = {"power": generator.random.getrandbits(31) | 1}
    generator.initialise(whole=True)
    generator.initialise_units()
    power["setup"] = len(generator.items)
    stream = _random(generator, name)
    return replace(stream, settings=stream.settings | power)


def _random(generator: MacroGenerator, name: str) -> Stream:
    r = generator.random
    if r.random() < 0.5:
        generator.ordinary(r.randint(10, 120))
    else:
        generator.mixed(r.randint(1, 6))
    return generator.stream(name)


def in_place_stream(accelerator: Accelerator, seed: int, index: int, base: int = BASE) -> Stream:
    """As `random_stream`, of products whose results overwrite their operands, with loads and stores among them."""
    name = f"{accelerator.config_hash}-{seed}-in-place-{index}"
    generator = MacroGenerator(accelerator, name, base)
    generator.initialise()
    generator.products(generator.random.randint(10, 80))
    return generator.stream(name)


def system_stream(system: System, seed: int, index: int) -> SystemStream:
    """The `index`-th stream of a seed for a system: one as of `random_stream` or `in_place_stream` for each accelerator.

    The first region of main memory is read by all; behind it each has its own.
    """
    name = f"{system.config_hash}-{seed}-{index}"
    parts = []
    for number, accelerator in enumerate(system.accelerators):
        base = BASE + REGION_BYTES + number * MEMORY_BYTES
        generator = MacroGenerator(accelerator, f"{name}-{number}", base)
        generator.shared = [(BASE - base) // REGION_BYTES]
        generator.initialise()
        if generator.chance(0.1):
            generator.products(generator.random.randint(10, 80))
            parts.append(generator.stream(name))
        else:
            parts.append(_random(generator, name))
    settings = {key: value for key, value in parts[0].settings.items() if key != "base"}
    return SystemStream(name, tuple(parts), settings)


def system_memory_bytes(system: System) -> int:
    """Of the main memory of a `system_stream`."""
    return REGION_BYTES + len(system.accelerators) * MEMORY_BYTES


class Simulator:
    """One accelerator, or a system, built.

    Raises on construction as `baco.sim.build.rtl_simulator`, and InfeasibleError when no RTL exists for the configuration.
    """

    def __init__(
        self,
        machine: Accelerator | System,
        *,
        sources: Path | None = None,
        checked: bool = False,
        covered: bool = False,
        brief: bool = False,
        report: Report | None = None,
    ) -> None:
        """Build it.

        Args:
            sources: another folder of Verilog sources than the product's own.
            checked: ports are held to their protocol, and streams may begin with random contents of registers and memories
                (their setting `power`); slower to build and to run.
            covered: likewise, and it can count what is reached; slower still.
            brief: built in half of the time, for few streams.
        """
        self.machine = machine
        waves: Waves = "coverage" if covered else "checks" if checked else ""
        if isinstance(machine, System):
            text, units = system_verilog(machine, sources), accelerator_modules(machine)
            self._lines, self._memory_bytes = unit_lines(machine), system_memory_bytes(machine)
        else:
            text, units = verilog(machine, sources), []
            self._lines, self._memory_bytes = config_lines(machine), MEMORY_BYTES
        self.program = rtl_simulator(text, toolchain(), waves=waves, units=units, brief=brief, report=report)

    def play(
        self, streams: Sequence[Stream | SystemStream], coverage: Path | None = None
    ) -> list[StreamOutcome]:
        """Play each stream on new devices.

        coverage: gets a line `C 'POINT' COUNT` for each point of the Verilog and how often all streams reached it, those
        before a crash left out; needs a simulator that was built `covered`.

        A simulator that crashes ends the streams before it; the one it was at gets the kind `crash`, later ones are
        played by another process. Raises StorageError when files cannot be written, BacoError when the simulator
        cannot read them.
        """
        outcomes: list[StreamOutcome] = []
        while len(outcomes) < len(streams):
            rest = streams[len(outcomes) :]
            found, crash = self._process(rest, coverage)
            outcomes += found
            if len(found) < len(rest):
                outcomes.append(StreamOutcome(rest[len(found)].name, "crash", crash))
        return outcomes

    def _process(
        self, streams: Sequence[Stream | SystemStream], coverage: Path | None
    ) -> tuple[list[StreamOutcome], str]:
        with scratch_folder() as folder:
            config, text = folder / "config", folder / "streams"
            config.write_text(self._lines, encoding="ascii")
            text.write_text("".join(stream.text() for stream in streams), encoding="ascii")
            arguments = [str(self.program), "--config", str(config), "--cosim", str(text)]
            arguments += ["--memory-base", str(BASE), "--memory-bytes", str(self._memory_bytes)]
            arguments += ["--stall-cycles", str(_STALL_CYCLES)]
            arguments += ["--coverage", str(coverage)] if coverage else []
            return _run(arguments, _SECONDS + _SECONDS_A_STREAM * len(streams))


def _run(arguments: list[str], limit: float) -> tuple[list[StreamOutcome], str]:
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        errors, code = f"no end after {limit:g} s", -1
    if code == 3:
        raise BacoError(f"the simulator cannot play the streams: {errors.strip()}")
    return list(_outcomes(output.splitlines())), f"exit code {code}: {errors.strip()[-300:]}"


def _outcomes(lines: Iterable[str]) -> Iterable[StreamOutcome]:
    for line in lines:
        name, kind, text = (*line.split(" ", 2), "")[:3]
        if kind == "same":
            cycles, commands, digest = text.split()
            yield StreamOutcome(name, kind, "", int(cycles), int(commands), digest)
        elif kind == "refused":
            yield StreamOutcome(name, kind, text, error=int(text.split()[0]))
        else:
            yield StreamOutcome(name, kind, text)
