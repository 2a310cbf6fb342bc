"""Many streams over many configurations, with what failed shortened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from accel.config import Accelerator
from accel.legality.errors import ERRORS
from bench.cosim.illegal import illegal_stream
from bench.cosim.minimise import Minimised, minimise
from bench.cosim.run import Simulator, StreamOutcome, random_stream
from bench.cosim.stream import Stream

__all__ = ["ConfigurationResult", "Failure", "run_campaign"]

#: Streams made and played at a time: bounds memory, and how long a failure stays unseen.
_BATCH = 100
#: Configurations treated side by side; playing a stream takes one processor.
_WORKERS = 2


@dataclass(frozen=True)
class Failure:
    """A stream on which the models disagree; `minimised` for the first of a configuration only."""

    stream: Stream
    outcome: StreamOutcome
    minimised: Minimised | None = None


@dataclass(frozen=True)
class ConfigurationResult:
    """What was played on one configuration.

    Attributes:
        streams: on which the models agree; `commands` and `cycles` of those of them that are legal.
        refused: how many of them are illegal, by the name of the error.
        failures: the others.
    """

    accelerator: Accelerator
    streams: int
    commands: int
    cycles: int
    refused: Counter[str] = field(default_factory=Counter)
    failures: tuple[Failure, ...] = field(default=())


def run_campaign(
    accelerators: Sequence[Accelerator],
    streams: int,
    seed: int,
    *,
    illegal: bool = False,
    report: Callable[[str], None] | None = None,
    shorten: bool = True,
) -> Iterator[ConfigurationResult]:
    """Play streams on each configuration; results come in the order of the configurations, as they are ready.

    Args:
        streams: on each configuration: those with the indices 0, 1, ... of the seed.
        illegal: streams that are damaged or made by chance, instead of legal ones.
        report: gets sentences about progress, from several threads.
        shorten: minimise the first failure of a configuration.

    Raises as `Simulator`, and RuntimeError when a stream that should be legal is not or races, which is a mistake of
    the generator.
    """
    pool = ThreadPoolExecutor(_WORKERS)
    try:
        say = report or (lambda _: None)
        yield from pool.map(
            lambda one: _configuration(one, streams, seed, illegal, say, shorten), accelerators
        )
    finally:
        pool.shutdown(cancel_futures=True)


def _configuration(
    accelerator: Accelerator,
    streams: int,
    seed: int,
    illegal: bool,
    report: Callable[[str], None],
    shorten: bool,
) -> ConfigurationResult:
    make = illegal_stream if illegal else random_stream
    names = {one.code: one.name for one in ERRORS}
    refused: Counter[str] = Counter()
    report(f"{accelerator.name}: building")
    simulator = Simulator(accelerator)
    failures: list[Failure] = []
    played = commands = cycles = 0
    for start in range(0, streams, _BATCH):
        made = [make(accelerator, seed, index) for index in range(start, min(streams, start + _BATCH))]
        for stream, outcome in zip(made, simulator.play(made), strict=True):
            if outcome.failed:
                failures.append(Failure(stream, outcome))
                continue
            if not illegal and outcome.kind != "same":
                raise RuntimeError(f"stream {stream.name} is not legal: {outcome.describe()}")
            played, commands, cycles = played + 1, commands + outcome.commands, cycles + outcome.cycles
            if outcome.kind == "refused":
                refused[names[outcome.error]] += 1
        report(
            f"{accelerator.name}: {start + len(made):,} of {streams:,} streams, {len(failures)} mismatches"
        )
    if failures and shorten:
        first = failures[0]
        report(f"{accelerator.name}: shortening {first.stream.name}")
        failures[0] = Failure(first.stream, first.outcome, minimise(first.stream, simulator))
    return ConfigurationResult(accelerator, played, commands, cycles, refused, tuple(failures))
