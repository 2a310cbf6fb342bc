"""Many measurements side by side, each kept the moment it is finished.

Workers are processes that wait on a pipe for the next job and write what they measured into the store themselves: when
the parent dies, they finish what they are at, keep it, find the pipe closed and end. When a worker dies, the parent
finds the pipe closed and gives the job to another one, once.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from operator import length_hint
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeVar

from accel.config import Accelerator
from common.errors import BacoError, StorageError
from common.processes import python_children
from compiler.layers.layer import Layer
from compiler.schedules.schedule import Schedule
from explore.measure.layer import measure_layer
from explore.measure.measurement import Measurement
from explore.measure.store import MeasurementStore, measurement_key
from sim.job import Limits

__all__ = ["Measurable", "MeasurementJob", "Progress", "measure_many"]

#: How often a job is given out when workers die of it.
_ATTEMPTS = 2


@dataclass(frozen=True)
class MeasurementJob:
    """One measurement that is wanted; arguments of `explore.measure.layer.measure_layer`.

    Attributes:
        name: for people who watch.
    """

    layer: Layer
    schedule: Schedule
    accelerator: Accelerator
    limits: Limits = field(default_factory=Limits)
    name: str = ""

    @property
    def key(self) -> str:
        """Of the store."""
        return measurement_key(self.layer, self.schedule, self.accelerator)

    def measure(self) -> Measurement:
        """See `measure_layer`."""
        return measure_layer(self.layer, self.schedule, self.accelerator, limits=self.limits)


class Measurable(Protocol):
    """Something to measure.

    Attributes:
        name: for people who watch.
        accelerator: that is built for it.
        key: of the store: equal for measurements that must come out equal.
    """

    @property
    def name(self) -> str: ...

    @property
    def accelerator(self) -> Accelerator: ...

    @property
    def key(self) -> str: ...

    def measure(self) -> Measurement: ...


JobT = TypeVar("JobT", bound=Measurable)
#: Called after each measurement: finished, all, the job, and what came of it.
Progress: TypeAlias = Callable[[int, int, JobT, Measurement], None]


@dataclass
class _Task:
    index: int
    job: Any
    attempts: int = 0


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    task: _Task | None = None


def measure_many(
    jobs: Iterable[JobT],
    workers: int,
    store: MeasurementStore,
    progress: Progress[JobT] | None = None,
    *,
    total: int | None = None,
) -> list[Measurement]:
    """Measurements of all jobs, in their order; those the store has already are taken from there.

    Args:
        jobs: taken one by one as workers become free, so that they may be drawn meanwhile.
        workers: processes that work side by side; 0 measures in this process.
        store: gets every measurement at once.
        progress: called for each job, in the order in which they are finished.
        total: of jobs, for the progress; by default the number of them where it is known.

    Raises what `measure_layer` raises, from the first job it happens to; measurements finished before are kept.
    """
    found: dict[int, Measurement] = {}
    expected = length_hint(jobs) if total is None else total

    def take(index: int, job: JobT, measurement: Measurement) -> None:
        found[index] = measurement
        if progress:
            progress(len(found), max(expected, len(found)), job, measurement)

    def due() -> Iterator[tuple[int, JobT]]:
        for index, job in enumerate(jobs):
            known = store.get(job.key)
            if known is None:
                yield index, job
            else:
                take(index, job, known)

    if workers < 1:
        for index, job in due():
            take(index, job, _measure(job, store))
    else:
        _share_out(due(), workers, store.path, take)
    return [found[index] for index in sorted(found)]


def _measure(job: Measurable, store: MeasurementStore) -> Measurement:
    return store.put(job.key, job.measure())


def _share_out(
    due: Iterator[tuple[int, JobT]],
    workers: int,
    path: Path,
    take: Callable[[int, JobT, Measurement], None],
) -> None:
    crew: list[_Worker] = []
    again: list[_Task] = []
    try:
        while True:
            while sum(one.task is not None for one in crew) < workers:
                task = again.pop() if again else next((_Task(*one) for one in due), None)
                if task is None:
                    break
                idle = next((one for one in crew if one.task is None), None)
                if idle is None:
                    idle = _start(path)
                    crew.append(idle)
                idle.task = task
                task.attempts += 1
                _send(idle, task.job)
            busy = [one for one in crew if one.task is not None]
            if not busy:
                return
            ready = wait([one.pipe for one in busy])
            for worker in [one for one in busy if one.pipe in ready]:
                task = worker.task
                assert task is not None
                try:
                    answer = worker.pipe.recv()
                except (EOFError, ConnectionError):
                    crew.remove(worker)
                    worker.pipe.close()
                    worker.process.join()
                    if task.attempts >= _ATTEMPTS:
                        raise _deadly(task, worker.process.exitcode) from None
                    again.append(task)
                    continue
                worker.task = None
                if isinstance(answer, BacoError):
                    raise answer
                take(task.index, task.job, answer)
    finally:
        for worker in crew:
            worker.pipe.close()
            if worker.task is not None:  # only when this process gives up
                worker.process.terminate()
            worker.process.join()


def _deadly(task: _Task, code: int | None) -> BacoError:
    return BacoError(
        f"measuring {task.job.name or task.job.key} ended its process {task.attempts} times (code {code})",
        hint="if memory ran out, use fewer workers; else please report this",
    )


def _start(path: Path) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, path), daemon=False)
    with python_children(single_threads=True), _interrupts_held():
        process.start()
    theirs.close()  # so that the worker's end is the only one, and its death shows
    return _Worker(process, ours)


def _send(worker: _Worker, job: Measurable) -> None:
    try:
        worker.pipe.send(job)
    except ConnectionError:  # it has died; waiting for its answer finds out
        return


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """For processes started inside: they inherit that SIGINT is blocked, and so do their simulators.

    Control-C reaches the whole foreground group; the parent alone decides what becomes of its workers, from their first
    import on. An interrupt that comes meanwhile reaches the parent afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _work(pipe: Connection, path: Path) -> None:
    """A worker: jobs in, measurements out, until the other end is closed."""
    signal.signal(signal.SIGTERM, _leave)  # as an exception, so that its simulator is stopped as well
    try:
        _serve(pipe, path)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to be stopped


def _serve(pipe: Connection, path: Path) -> None:
    with MeasurementStore(path) as store:
        while True:
            try:
                job: Measurable = pipe.recv()
            except (EOFError, ConnectionError, KeyboardInterrupt):
                return
            try:
                answer: Measurement | BacoError = _measure(job, store)
            except BacoError as error:
                answer = error
            except OSError as error:
                answer = StorageError(f"{error.strerror or error}")
            except KeyboardInterrupt:
                return
            try:
                pipe.send(answer)
            except ConnectionError:
                return
