"""Many streams over many configurations, with what failed shortened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from baco.accel.config import Accelerator
from baco.accel.legality.errors import ERRORS
from baco.accel.system import System
from baco.common.errors import BacoError
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Call
from baco.sim.cosim.illegal import illegal_stream
from baco.sim.cosim.minimise import Minimised, minimise
from baco.sim.cosim.run import (
    Simulator,
    StreamOutcome,
    in_place_stream,
    powered_stream,
    random_stream,
    system_stream,
)
from baco.sim.cosim.stream import Stream, SystemStream
from baco.sim.cosim.wide import wide_stream

#: Streams of everything that is legal (`powered`: from random contents of registers and memories on), of products in place,
#: of values of all widths, and of what is damaged or made by chance.
StreamKind = Literal["legal", "powered", "in place", "wide", "illegal"]
_MAKERS = {
    "legal": random_stream,
    "powered": powered_stream,
    "in place": in_place_stream,
    "wide": wide_stream,
    "illegal": illegal_stream,
}

#: Streams that a task makes and plays: bounds memory, and how long a failure stays unseen.
_BATCH = 100


@dataclass(frozen=True)
class Failure:
    """A stream on which the models disagree; `minimised` for the first of an accelerator's only."""

    stream: Stream | SystemStream
    outcome: StreamOutcome
    minimised: Minimised | None = None


@dataclass(frozen=True)
class ConfigurationResult:
    """What was played on one accelerator or system.

    Attributes:
        streams: on which the models agree; `commands` and `cycles` of those of them that are legal.
        refused: how many of them are illegal, by the name of the error.
        failures: the others.
    """

    machine: Accelerator | System
    streams: int
    commands: int
    cycles: int
    refused: Counter[str] = field(default_factory=Counter)
    failures: tuple[Failure, ...] = field(default=())


def run_campaign(
    machines: Sequence[Accelerator | System],
    streams: int,
    seed: int,
    *,
    kind: StreamKind = "legal",
    checked: bool = False,
    engine: ExecutorChoice = HERE,
    report: Callable[[str], None] = lambda _: None,
    shorten: bool = True,
) -> Iterator[ConfigurationResult]:
    """Play streams on each configuration; results come in the order of the configurations, as they are ready.

    Args:
        streams: on each configuration: those with the indices 0, 1, ... of the seed.
        kind: of streams; a system's are legal.
        checked: in Verilog whose ports are held to their protocol; `powered` streams always are.
        engine: where they are played.
        report: gets sentences about progress.
        shorten: minimise the first failure of a configuration.

    Raises as `Simulator`, and BacoError when a stream that should be legal is not or races, which is a mistake of
    the generator.
    """
    starts = range(0, streams, _BATCH)
    tasks = (
        Call(
            f"{machine.name}: streams {start:,} to {min(start + _BATCH, streams):,} of {streams:,}",
            _play,
            (machine, seed, range(start, min(start + _BATCH, streams)), kind, checked),
            ("compiler",),
        )
        for machine in machines
        for start in starts
    )
    found: list[dict[int, ConfigurationResult]] = [{} for _ in machines]
    ready = 0
    with engine.executor() as executor, closing(executor.run(tasks)) as results:  # type: ignore[type-var, var-annotated]
        for done in results:
            found[done.index // len(starts)][done.index] = done.value
            report(f"{done.task.name}: {len(done.value.failures)} mismatches")
            while ready < len(found) and len(found[ready]) == len(starts):
                whole = _sum([found[ready].pop(index) for index in sorted(found[ready])])
                if whole.failures and shorten and isinstance(whole.machine, Accelerator):
                    report(f"{whole.machine.name}: shortening {whole.failures[0].stream.name}")
                    whole = _shortened(whole, _simulator(whole.machine, checked or kind == "powered"))
                yield whole
                ready += 1


@lru_cache(maxsize=1)
def _simulator(machine: Accelerator | System, checked: bool) -> Simulator:
    return Simulator(machine, checked=checked)


def _play(
    machine: Accelerator | System, seed: int, indices: range, kind: StreamKind, checked: bool
) -> ConfigurationResult:
    names = {one.code: one.name for one in ERRORS}
    refused: Counter[str] = Counter()
    failures: list[Failure] = []
    played = commands = cycles = 0
    made: Sequence[Stream | SystemStream]
    if isinstance(machine, System):
        made = [system_stream(machine, seed, index) for index in indices]
    else:
        made = [_MAKERS[kind](machine, seed, index) for index in indices]
    simulator = _simulator(machine, checked or kind == "powered")
    for stream, outcome in zip(made, simulator.play(made), strict=True):
        if outcome.failed:
            failures.append(Failure(stream, outcome))
            continue
        if kind != "illegal" and outcome.kind != "same":
            raise BacoError(
                f"stream {stream.name} is not legal: {outcome.describe()}", hint="please report this"
            )
        played, commands, cycles = played + 1, commands + outcome.commands, cycles + outcome.cycles
        if outcome.kind == "refused":
            refused[names[outcome.error]] += 1
    return ConfigurationResult(machine, played, commands, cycles, refused, tuple(failures))


def _sum(parts: Sequence[ConfigurationResult]) -> ConfigurationResult:
    """Of parts of one configuration, at least one."""
    return ConfigurationResult(
        parts[0].machine,
        sum(result.streams for result in parts),
        sum(result.commands for result in parts),
        sum(result.cycles for result in parts),
        sum((result.refused for result in parts), Counter[str]()),
        tuple(failure for result in parts for failure in result.failures),
    )


def _shortened(result: ConfigurationResult, simulator: Simulator) -> ConfigurationResult:
    """With its first failure minimised."""
    first, *others = result.failures
    assert isinstance(first.stream, Stream)
    small = minimise(first.stream, simulator)
    return replace(result, failures=(replace(first, minimised=small), *others))
