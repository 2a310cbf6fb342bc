"""`baco cosim`: random command streams through the RTL and the functional model."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import ACCELERATOR_HELP
from baco.cli.completions import accelerator_completions
from baco.cli.engine_options import WorkerOptions
from baco.common.errors import InputError, only_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from baco.accel.config import Accelerator
    from baco.accel.system import System
    from baco.exploration.cosim import ConfigurationResult, Failure, StreamKind
    from baco.sim.cosim.stream import Stream


@dataclass(frozen=True)
class StreamFlags:
    """What is played.

    Attributes:
        streams: Command streams in all.
        configurations: Random configurations that share the streams.
        first: Number of the first random configuration: resumes a run.
        seed: Of configurations and streams.
        illegal: Damaged streams and commands of chance: is the verdict the same?
        in_place: Legal streams of products whose results overwrite their operands.
        power_up: Legal streams on hardware whose registers and memories hold random bits before reset.
        stream (FILE): Play this stream instead.
        minimise: Shorten the stream of --stream when it fails.
        coverage (FOLDER): Count which lines, branches and bits of the Verilog legal and broken streams reach, on nine machines
            that together have all of it or on the --accelerator given; gets the page and what was counted, with which a later run
            goes on.
    """

    accelerator: Annotated[
        str,
        typer.Option(
            "--accelerator",
            "-a",
            metavar="NAME|SYSTEM.yaml|random",
            help=f"One configuration, or random ones; or a system, whose accelerators work side by side. {ACCELERATOR_HELP}",
            autocompletion=accelerator_completions,
        ),
    ] = "random"
    streams: Annotated[int, typer.Option(min=1, max=10**9)] = 500
    configurations: Annotated[int, typer.Option(min=1, max=100_000)] = 4
    first: Annotated[int, typer.Option(min=0, max=100_000)] = 0
    seed: Seed = 0
    illegal: bool = False
    in_place: bool = False
    power_up: bool = False
    stream: Path | None = None
    minimise: bool = False
    coverage: Path | None = None

    def check(self) -> None:
        """Raises InputError for what does not go together."""
        kinds = [name for name, given in self._given("illegal", "in_place", "power_up").items() if given]
        if len(kinds) > 1:
            raise InputError(f"{kinds[0]} and {kinds[1]} are two kinds of streams", hint="give one of them")
        of_many = self._given("configurations", "first")
        if self.coverage is not None:
            given = self._given("illegal", "in_place", "power_up", "stream", "minimise") | of_many
            if extra := [name for name, is_given in given.items() if is_given]:
                raise InputError(f"{extra[0]} and --coverage exclude each other")
            return
        if self.accelerator != "random":
            only_with("random configurations, without --accelerator", of_many)
        elif self.first >= self.configurations:
            raise InputError(
                f"there is no configuration from --first {self.first} to --configurations {self.configurations}"
            )
        if self.stream is None:
            only_with("--stream", self._given("minimise"))
            return
        if self.accelerator == "random":
            raise InputError("--stream needs the --accelerator that it is for")
        of_random = self._given("streams", "illegal", "in_place", "power_up", "seed")
        only_with("random streams, without --stream", of_random | of_many)

    def _given(self, *names: str) -> dict[str, bool]:
        usual = StreamFlags()
        return {f"--{name.replace('_', '-')}": getattr(self, name) != getattr(usual, name) for name in names}

    @property
    def chosen(self) -> list[Accelerator]:
        """The configurations. Raises InputError for one that there is not."""
        from baco.accel.presets import load_accelerator
        from baco.sim.cosim.accelerators import random_accelerator

        if self.accelerator != "random":
            return [load_accelerator(self.accelerator)]
        return [random_accelerator(self.seed, number) for number in range(self.first, self.configurations)]

    @property
    def system(self) -> System | None:
        """The system, where its file is given. Raises InputError for one that is wrong, and for what does not go with it."""
        from baco.accel.presets import is_system, load_system

        if self.accelerator == "random" or not is_system(self.accelerator):
            return None
        given = self._given("illegal", "in_place", "power_up", "stream", "minimise", "coverage")
        if extra := [name for name, is_given in given.items() if is_given]:
            raise InputError(f"{extra[0]} is for single accelerators, not for a system")
        return load_system(self.accelerator)

    @property
    def kind(self) -> StreamKind:
        """Of the streams."""
        if self.illegal:
            return "illegal"
        return "in place" if self.in_place else "powered" if self.power_up else "legal"


def cosim(
    engine: WorkerOptions,
    asked: StreamFlags,
    out: Path = Path("cosim-failures"),
    json: bool = False,
) -> None:
    """Compare the accelerator's Verilog with the functional model on random command streams.

    Legal ones, unless --illegal is given: both must leave the same contents of memory. Where a stream is illegal, both
    must refuse the same command with the same error.

    Exit code 0: no difference. 1: there are some; the first failing stream of each configuration is shortened and
    written, with its configuration. The same seed gives the same configurations and streams.

    Args:
        out (-o, FOLDER): Where failing streams are written.
    """
    from baco.display.console import print_json, stderr, stdout
    from baco.exploration.cosim import run_campaign

    asked.check()
    system = asked.system
    report = stderr().print
    if asked.coverage is not None:
        _measure(asked, asked.coverage, engine, out, json)
        return
    if asked.stream is not None:
        _play(asked.chosen[0], asked.stream, asked.minimise, out, report)
        return
    total = asked.configurations if asked.accelerator == "random" else 1
    each, start = -(-asked.streams // total), time.monotonic()
    results = []
    for result in run_campaign(
        asked.chosen if system is None else [system],
        each,
        asked.seed,
        kind=asked.kind,
        checked=True,
        engine=engine.chosen,
        report=report,
    ):
        results.append(result)
        if not json:
            stdout().print(_line(result))
        for failure in result.failures[:1]:
            _write(result.machine, failure, out, report)
    seconds = time.monotonic() - start
    if json:
        records = [_record(result) for result in results]
        print_json({"seed": asked.seed, "seconds": seconds, "configurations": records})
    else:
        stdout().print(_whole(results, seconds))
    if any(result.failures for result in results):
        raise typer.Exit(1)


def _measure(asked: StreamFlags, folder: Path, engine: WorkerOptions, out: Path, json: bool) -> None:
    """--coverage: the page into the folder, its figures to the console."""
    from baco.common.files import atomic_write, output_folder
    from baco.display.console import print_json, stderr, stdout
    from baco.exploration.coverage import measure_coverage
    from baco.sim.coverage.machines import COVERED

    whole = asked.accelerator == "random"
    machines = COVERED if whole else asked.chosen
    each = -(-asked.streams // len(machines))
    output_folder(folder)
    run = measure_coverage(
        machines, each, asked.seed, folder, whole=whole, engine=engine.chosen, report=stderr().print
    )
    for machine, failure in run.failures[:1]:
        _write(machine, failure, out, stderr().print)
    names = ", ".join(f"{machine.name} ({machine.config_hash})" for machine in machines)
    head = f"{run.streams:,} streams of seed {asked.seed} on {names}: {len(run.failures)} mismatches."
    atomic_write(folder / "coverage.md", run.coverage.page([head]))
    shares = run.coverage.shares
    if json:
        figures = {
            name: {"reached": share.reached, "points": share.points, "waived": share.waived}
            for name, share in shares.items()
        }
        print_json({"seed": asked.seed, "streams": run.streams, "mismatches": len(run.failures), **figures})
    else:
        stdout().print(head)
        for name, share in shares.items():
            left = share.points - share.waived
            stdout().print(
                f"{name}: {share.reached:,} of {left:,}, {share.percent:.1f}% ({share.percent_of_all:.1f}% with the {share.waived:,} waived)"
            )
        stdout().print(f"what is not reached: {folder / 'coverage.md'}")
    if run.failures:
        raise typer.Exit(1)


def _whole(results: Sequence[ConfigurationResult], seconds: float) -> str:
    failed = sum(len(result.failures) for result in results)
    played = sum(result.streams for result in results) + failed
    commands, cycles = (sum(getattr(result, name) for result in results) for name in ("commands", "cycles"))
    refused = sum((result.refused for result in results), Counter[str]())
    return (
        f"{played:,} streams on {len(results)} configurations: {failed} mismatches"
        f" ({_refused(refused)}{commands:,} commands, {cycles:,} cycles, {seconds:.0f} s)"
    )


def _refused(counts: Counter[str]) -> str:
    """`5 illegal: BAD_SIZE 3, BAD_FLAGS 2; `, or nothing."""
    if not counts:
        return ""
    return f"{counts.total():,} illegal: {', '.join(f'{name} {count:,}' for name, count in counts.most_common())}; "


def _line(result: ConfigurationResult) -> str:
    a = result.machine
    what = ", ".join(f"dim {one.dim}, {one.dataflow}" for one in _accelerators(a))
    return (
        f"{a.name} ({a.config_hash}, {what}): {result.streams + len(result.failures):,} streams,"
        f" {_refused(result.refused)}{result.commands:,} commands, {result.cycles:,} cycles, {len(result.failures)} mismatches"
    )


def _record(result: ConfigurationResult) -> dict[str, Any]:
    a = result.machine
    return {
        "name": a.name,
        "configuration_hash": a.config_hash,
        "streams": result.streams + len(result.failures),
        "commands": result.commands,
        "cycles": result.cycles,
        "illegal": dict(result.refused),
        "mismatches": [
            {"stream": one.stream.name, "difference": one.outcome.describe()} for one in result.failures
        ],
    }


def _accelerators(machine: Accelerator | System) -> Sequence[Accelerator]:
    from baco.accel.system import System

    return machine.accelerators if isinstance(machine, System) else [machine]


def _write(machine: Accelerator | System, failure: Failure, out: Path, report: Callable[[str], None]) -> None:
    """The failing stream, as short as it could be made, and an accelerator's configuration."""
    from baco.accel.system import System
    from baco.common.files import atomic_write, output_folder
    from baco.common.text import one_line, shell_word
    from baco.sim.cosim.stream import SystemStream

    small = failure.minimised
    stream = small.stream if small else failure.stream
    text = failure.outcome.describe()
    if small:
        text = small.divergence.describe() if small.divergence else small.outcome.describe()
    path = out / f"{failure.stream.name}.stream"
    output_folder(out)
    if isinstance(stream, SystemStream):  # which the seed and its number give again
        atomic_write(path, f"# {text}\n" + stream.text(comments=True))
        report(f"{failure.stream.name}: {text}\n  {len(stream.items)} commands in {one_line(str(path))}")
        return
    assert not isinstance(machine, System)
    configuration = out / f"{machine.config_hash}.yaml"
    words = ("baco", "cosim", "--accelerator", str(configuration), "--stream", str(path))
    again = " ".join(map(shell_word, words))
    head = "".join(f"# {line}\n" for line in (*text.splitlines(), f"again: {again}"))
    atomic_write(path, head + stream.text(comments=True))
    atomic_write(configuration, machine.to_yaml())
    report(
        f"{failure.stream.name}: {text}\n  {len(stream.items)} commands in {one_line(str(path))}; again: {again}"
    )


def _play(
    accelerator: Accelerator, path: Path, shorten: bool, out: Path, report: Callable[[str], None]
) -> None:
    from baco.common.files import read_input_text
    from baco.display.console import stdout
    from baco.exploration.cosim import Failure
    from baco.sim.cosim.minimise import first_divergence, minimise
    from baco.sim.cosim.run import Simulator
    from baco.sim.cosim.stream import parse_stream

    stream: Stream = parse_stream(read_input_text(path), str(path))
    simulator = Simulator(accelerator, checked=True, report=report)
    (outcome,) = simulator.play([stream])
    if not outcome.failed:
        text = f"{outcome.commands:,} commands, {outcome.cycles:,} cycles"
        if outcome.kind == "raced":
            text = "the stream races in main memory, so that contents are not compared"
        elif outcome.kind == "refused":
            text = outcome.describe()
        stdout().print(f"no difference: {text}")
        return
    if shorten:
        _write(accelerator, Failure(stream, outcome, minimise(stream, simulator, report=report)), out, report)
    else:
        divergence = first_divergence(stream, simulator)
        stdout().print(divergence.describe() if divergence else outcome.describe())
    raise typer.Exit(1)
