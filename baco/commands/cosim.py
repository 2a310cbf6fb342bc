"""`baco cosim`: random command streams through the RTL and the functional model."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import ACCELERATOR_HELP
from baco.cli.completions import accelerator_completions
from baco.cli.engine_options import WorkerOptions
from baco.common.errors import only_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from baco.accel.config import Accelerator
    from baco.exploration.cosim import ConfigurationResult, Failure, StreamKind
    from baco.sim.cosim.stream import Stream

#: Random streams in all, and configurations that share them.
_STREAMS, _CONFIGURATIONS = 500, 4


def cosim(
    engine: WorkerOptions,
    accelerator: Annotated[
        str,
        typer.Option(
            "--accelerator",
            "-a",
            metavar="NAME|random",
            help=f"One configuration, or random ones. {ACCELERATOR_HELP}",
            autocompletion=accelerator_completions,
        ),
    ] = "random",
    streams: Annotated[int, typer.Option(min=1, max=10**9)] = _STREAMS,
    configurations: Annotated[int, typer.Option(min=1, max=100_000)] = _CONFIGURATIONS,
    first: Annotated[int, typer.Option(min=0, max=100_000)] = 0,
    seed: Seed = 0,
    illegal: bool = False,
    in_place: bool = False,
    stream: Path | None = None,
    minimise: bool = False,
    out: Path = Path("cosim-failures"),
    json: bool = False,
) -> None:
    """Compare the accelerator's Verilog with the functional model on random command streams.

    Legal ones, unless --illegal is given: both must leave the same contents of memory. Where a stream is illegal, both
    must refuse the same command with the same error.

    Exit code 0: no difference. 1: there are some; the first failing stream of each configuration is shortened and
    written, with its configuration. The same seed gives the same configurations and streams.

    Args:
        streams: Command streams in all.
        configurations: Random configurations that share the streams.
        first: Number of the first random configuration: resumes a run.
        seed: Of configurations and streams.
        illegal: Damaged streams and commands of chance: is the verdict the same?
        in_place: Legal streams of products whose results overwrite their operands.
        stream (FILE): Play this stream instead.
        minimise: Shorten the stream of --stream when it fails.
        out (-o, FOLDER): Where failing streams are written.
    """
    from baco.accel.presets import load_accelerator
    from baco.common.errors import InputError
    from baco.display.console import print_json, stderr, stdout
    from baco.exploration.cosim import run_campaign
    from baco.sim.cosim.accelerators import random_accelerator

    if illegal and in_place:
        raise InputError("--illegal and --in-place are two kinds of streams", hint="give one of them")
    notes = stderr()
    report = notes.print
    of_many = {"--configurations": configurations != _CONFIGURATIONS, "--first": first != 0}
    if accelerator != "random":
        only_with("random configurations, without --accelerator", of_many)
    elif first >= configurations:
        raise InputError(
            f"there is no configuration from --first {first} to --configurations {configurations}"
        )
    if stream is not None:
        if accelerator == "random":
            raise InputError("--stream needs the --accelerator that it is for")
        of_random = {
            "--streams": streams != _STREAMS,
            "--illegal": illegal,
            "--in-place": in_place,
            "--seed": seed != 0,
        }
        only_with("random streams, without --stream", of_random | of_many)
        _play(load_accelerator(accelerator), stream, minimise, out, report)
        return
    only_with("--stream", {"--minimise": minimise})
    if accelerator == "random":
        chosen = [random_accelerator(seed, number) for number in range(first, configurations)]
    else:
        chosen = [load_accelerator(accelerator)]
    total = configurations if accelerator == "random" else 1
    kind: StreamKind = "illegal" if illegal else "in place" if in_place else "legal"
    start = time.monotonic()
    results = []
    for result in run_campaign(
        chosen, -(-streams // total), seed, kind=kind, engine=engine.chosen, report=report
    ):
        results.append(result)
        if not json:
            stdout().print(_line(result))
        for failure in result.failures[:1]:
            _write(result.accelerator, failure, out, report)
    seconds = time.monotonic() - start
    failed = sum(len(result.failures) for result in results)
    if json:
        print_json(
            {"seed": seed, "seconds": seconds, "configurations": [_record(result) for result in results]}
        )
    else:
        played = sum(result.streams for result in results) + failed
        commands, cycles = (
            sum(getattr(result, name) for result in results) for name in ("commands", "cycles")
        )
        refused = sum((result.refused for result in results), Counter[str]())
        stdout().print(
            f"{played:,} streams on {len(results)} configurations: {failed} mismatches"
            f" ({_refused(refused)}{commands:,} commands, {cycles:,} cycles, {seconds:.0f} s)",
        )
    if failed:
        raise typer.Exit(1)


def _refused(counts: Counter[str]) -> str:
    """`5 illegal: BAD_SIZE 3, BAD_FLAGS 2; `, or nothing."""
    if not counts:
        return ""
    return f"{counts.total():,} illegal: {', '.join(f'{name} {count:,}' for name, count in counts.most_common())}; "


def _line(result: ConfigurationResult) -> str:
    a = result.accelerator
    return (
        f"{a.name} ({a.config_hash}, dim {a.dim}, {a.dataflow}): {result.streams + len(result.failures):,} streams,"
        f" {_refused(result.refused)}{result.commands:,} commands, {result.cycles:,} cycles, {len(result.failures)} mismatches"
    )


def _record(result: ConfigurationResult) -> dict[str, Any]:
    a = result.accelerator
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


def _write(accelerator: Accelerator, failure: Failure, out: Path, report: Callable[[str], None]) -> None:
    """The failing stream, as short as it could be made, and its configuration."""
    from baco.common.files import atomic_write, output_folder
    from baco.common.text import one_line, shell_word

    small = failure.minimised
    stream = small.stream if small else failure.stream
    text = failure.outcome.describe()
    if small:
        text = small.divergence.describe() if small.divergence else small.outcome.describe()
    path, configuration = out / f"{failure.stream.name}.stream", out / f"{accelerator.config_hash}.yaml"
    words = ("baco", "cosim", "--accelerator", str(configuration), "--stream", str(path))
    again = " ".join(map(shell_word, words))
    output_folder(out)
    head = "".join(f"# {line}\n" for line in (*text.splitlines(), f"again: {again}"))
    atomic_write(path, head + stream.text(comments=True))
    atomic_write(configuration, accelerator.to_yaml())
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
    simulator = Simulator(accelerator, report=report)
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
