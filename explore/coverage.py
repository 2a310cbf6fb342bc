"""Streams over the machines that coverage is measured on, and what all of them together reach."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.common.files import atomic_write
from baco.common.scratch import scratch_folder
from baco.exploration.cosim import Failure
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Call
from baco.sim.cosim.illegal import illegal_stream
from baco.sim.cosim.run import Simulator, in_place_stream, random_base, random_stream
from baco.sim.cosim.stream import Stream
from baco.sim.cosim.wide import wide_stream
from baco.sim.coverage.page import Coverage
from baco.sim.coverage.points import Counts, CoveragePoint, expected_crosses, read_counts
from baco.sim.coverage.waivers import check_waivers, load_waivers

#: Streams that a task makes and plays; what it counted is kept.
_BATCH = 50
#: What is played, round and round: none begins with random contents, which would count as reached whatever the stream does.
_MAKERS = (random_stream, illegal_stream, wide_stream, illegal_stream, in_place_stream, wide_stream)


@dataclass(frozen=True)
class CoverageRun:
    """What was played and reached.

    Attributes:
        streams: on which the models agree.
    """

    coverage: Coverage
    streams: int
    failures: tuple[tuple[Accelerator, Failure], ...]


@dataclass(frozen=True)
class _Part:
    """Of one task."""

    counts: Counts
    streams: int
    failures: tuple[tuple[Accelerator, Failure], ...]


def measure_coverage(
    accelerators: Sequence[Accelerator],
    streams: int,
    seed: int,
    folder: Path,
    *,
    whole: bool = False,
    engine: ExecutorChoice = HERE,
    report: Callable[[str], None] = lambda _: None,
) -> CoverageRun:
    """Play streams on each accelerator and count what they reach, all accelerators together.

    Args:
        streams: on each accelerator: those with the indices 0, 1, ... of the seed.
        folder: keeps what was counted, so that a run that was interrupted, or that is to have more streams, goes on.
        whole: the accelerators have every part of the Verilog: a waiver of what none of them has is wrong.
        engine: where they are played.
        report: gets sentences about progress.

    Raises as `Simulator`; InputError for waivers that match nothing.
    """
    waivers = load_waivers()
    starts = range(0, streams, _BATCH)
    tasks = (
        Call(
            f"{accelerator.name}: streams {start:,} to {min(start + _BATCH, streams):,} of {streams:,}",
            _counted,
            (accelerator, seed, start, min(start + _BATCH, streams), folder),
            ("compiler",),
        )
        for accelerator in accelerators
        for start in starts
    )
    counts: Counts = Counter()
    played, failures = 0, list[tuple[Accelerator, Failure]]()
    for accelerator in accelerators:
        counts.update(dict.fromkeys(expected_crosses(accelerator), 0))
    with engine.executor() as executor, closing(executor.run(tasks)) as results:  # type: ignore[type-var, var-annotated]
        for done in results:
            part: _Part = done.value
            counts.update(
                {point: n for point, n in part.counts.items() if point.kind != "cross" or point in counts}
            )
            played += part.streams
            failures += part.failures
            report(f"{done.task.name}: {len(part.failures)} mismatches")
    if whole:
        check_waivers(counts, waivers)
    return CoverageRun(Coverage(counts, waivers), played, tuple(failures))


@lru_cache(maxsize=1)
def _simulator(accelerator: Accelerator) -> Simulator:
    return Simulator(accelerator, covered=True)


def _stream(accelerator: Accelerator, seed: int, index: int) -> Stream:
    make = _MAKERS[index % len(_MAKERS)]
    return make(accelerator, seed, index, random_base(f"{accelerator.config_hash}-{seed}-{index}"))


def _counted(accelerator: Accelerator, seed: int, start: int, past: int, folder: Path) -> _Part:
    simulator = _simulator(accelerator)
    # its folder is named after all that it was made from
    kept = folder / "counts" / f"{simulator.program.parent.name}-{seed}-{start}-{past}.json.gz"
    if kept.is_file():
        return _Part(*_read(kept), ())
    streams = [_stream(accelerator, seed, index) for index in range(start, past)]
    with scratch_folder() as scratch:
        file = scratch / "coverage"
        outcomes = simulator.play(streams, file)
        counts = read_counts(file, accelerator)
    failures = tuple(
        (accelerator, Failure(stream, outcome))
        for stream, outcome in zip(streams, outcomes, strict=True)
        if outcome.failed
    )
    part = _Part(counts, len(streams) - len(failures), failures)
    if not failures:
        _write(kept, part)
    return part


def _write(path: Path, part: _Part) -> None:
    records: list[Any] = [[*point, count] for point, count in part.counts.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"streams": part.streams, "counts": records})
    atomic_write(path, gzip.compress(text.encode(), mtime=0))


def _read(path: Path) -> tuple[Counts, int]:
    data = json.loads(gzip.decompress(path.read_bytes()))
    return Counter({CoveragePoint(*one[:4]): one[4] for one in data["counts"]}), data["streams"]
