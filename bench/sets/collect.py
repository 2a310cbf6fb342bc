"""Collecting a measured set: rows drawn, measured side by side, kept, and written as a file as it grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pydantic import PositiveInt

from baco.bench.harness.experiment import Say, check_names, silent
from baco.bench.sets.accelerators import SETS, SetName, accelerators_of
from baco.bench.sets.dataset import MeasuredRow, write_dataset
from baco.bench.sets.sets import ROWS, Sample, samples
from baco.common.cache import own_folder
from baco.common.files import output_folder
from baco.exploration.executors.executor_choice import HERE, LOCAL, ExecutorChoice
from baco.exploration.executors.tasks import Finished, gather
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from baco.sim.job import Limits

#: Rows between two writings of the file.
_WRITE_EVERY = 50
#: Rows of the random sets are guessed to stay far below.
_LIMITS = Limits(max_cycles=40_000_000)


def store_path() -> Path:
    """Where measurements are kept between runs, beside the simulators built. Raises StorageError."""
    return own_folder() / "measurements.sqlite"


def collect(
    name: str,
    *,
    rows: int | None = None,
    out: Path,
    engine: ExecutorChoice = HERE,
    store: Path | None = None,
    say: Say = silent,
) -> list[MeasuredRow]:
    """Measure the first `rows` rows of a set, all by default, and write `out`/NAME.csv.gz and the accelerators.

    What an earlier run has measured is not measured again, as long as neither the Verilog nor the compiler nor the
    simulator has changed. Failed rows are in the file, too, and are told at once.

    Args:
        out: folder.
        engine: who measures.
        store: file of finished measurements; by default `store_path()`.
        say: gets a line a row.

    Raises InputError for a set that there is not, as `baco.exploration.executors.tasks.gather`, and StorageError where files cannot be written.
    """
    check_names([name], SETS, "measured set")
    name = cast(SetName, name)
    wanted = ROWS.get(name, rows) if rows is None else rows
    done: dict[int, MeasuredRow] = {}
    drawn: dict[str, Sample] = {}

    def jobs() -> Iterator[MeasurementJob]:
        for sample in samples(name, rows):
            label = f"{name} {sample.index}"
            drawn[label] = sample
            yield MeasurementJob(
                sample.layer, sample.schedule, sample.accelerator, limits=_LIMITS, name=label
            )

    def write() -> None:
        write_dataset(out / f"{name}.csv.gz", done.values(), accelerators_of(name).values())

    def progress(finished: int, total: int, one: Finished[MeasurementJob, Measurement]) -> None:
        sample, measured = drawn[one.task.name], one.value
        row = MeasuredRow.of(
            sample.index, sample.what, sample.accelerator, sample.layer, sample.mapping, measured
        )
        done[sample.index] = row
        result = f"{measured.cycles:,} cycles, {row.stratum}" if row.stratum else measured.reason
        say(
            f"{finished} of {total}: {sample.accelerator.name} {row.layer} [{row.style}]"
            f" {measured.status}, {result} ({measured.seconds:.1f} s)"
        )
        if finished % _WRITE_EVERY == 0:
            write()

    output_folder(out)
    with MeasurementStore(store or store_path()) as measurements, engine.executor() as executor:
        gather(executor, jobs(), measurements, progress, total=wanted)
    write()
    return [done[index] for index in sorted(done)]


def run(
    name: str,
    *,
    rows: PositiveInt | None = None,
    out: Path = Path("baco-measurements"),
    engine: ExecutorChoice = LOCAL,
    store: Path | None = None,
    say: Say = silent,
) -> dict[str, int]:
    """Measure a set of random or systematic mappings on the RTL; the sets under results/ were made by this command.

    What an earlier run has measured is not measured again, as long as neither the Verilog nor the compiler nor the
    simulator has changed. Failed rows are in the file, too, and are told at once.

    Args:
        name (--set): micro, train, test, packed, packed-test or ranking.
        out: folder for SET.csv.gz and accelerators.yaml.
        rows: only the first rows of the set.
        store: file of finished measurements; by default in the cache of simulators.

    Returns the number of rows, and of those with each status.

    Raises as `collect`.
    """
    found = collect(name, rows=rows, out=out, engine=engine, store=store, say=say)
    return {"rows": len(found), **Counter(row.status for row in found)}


def page(counts: dict[str, int]) -> str:
    """A line each."""
    return "\n".join(f"{name}: {count}" for name, count in counts.items())
