"""Ray, on this machine or on a cluster that runs already.

Only this process sees the shelf: it claims what it gives out and keeps what comes back, so the other machines need none of its
files. Ray ends what runs for a process that dies, whose claims end with it: what was running is run again by whoever comes
next, what was told to be finished is on the shelf.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from common.errors import BacoError, InputError, Location, StorageError
from common.processes import python_children
from explore.executors.base import (
    Agenda,
    Finished,
    Given,
    Need,
    Outcome,
    Shelf,
    TaskT,
    ValueT,
    carry_out,
)

__all__ = ["RayExecutor"]

#: Short tasks are given out several at a time, so that a worker is busy this long: Ray needs some milliseconds for each call.
_CHUNK_SECONDS, _LONGEST_CHUNK = 0.25, 256
#: Bytes of memory that a cluster started here shares between its processes; what is larger goes through the disk.
_SHARED_BYTES = 256 << 20
#: What is cancelled has so long to stop its simulator.
_CANCEL_SECONDS = 5.0
#: Of the resource by which machines say that they have a compiler, taken by a task that needs one.
_LITTLE = 0.001
#: Ray asks nobody outside, and does not touch the variables that choose graphics cards.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

#: Of a task.
_Answer = Outcome[Any] | BacoError


@dataclass
class _Chunk:
    tasks: list[Given[Any]]


class RayExecutor:
    """See `explore.executors.base.Executor`.

    Args:
        workers: tasks side by side; by default as many as the cluster has processors.
        address: of a cluster that runs already; None starts one on this machine when there is something to run.

    Raises InputError where Ray is not installed, BacoError for a cluster that is not there.
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if importlib.util.find_spec("ray") is None:
            raise InputError("Ray is not installed", hint="pip install 'baco[ray]'")
        self._wanted, self._address = workers, address
        self._ray: Any = None
        self._ours = False
        self._declares_compilers = False

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """How many tasks run side by side."""
        self._connect()
        return self._wanted or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, tasks: Iterable[TaskT], shelf: Shelf[ValueT] | None = None
    ) -> Iterator[Finished[TaskT, ValueT]]:
        """See `explore.executors.base.Executor`."""
        agenda: Agenda[TaskT, ValueT] = Agenda(tasks, shelf)
        running: dict[Any, _Chunk] = {}
        size = _ChunkSize()
        try:
            while True:
                yield from self._fill(agenda, running, size)
                if not running:
                    if agenda.over:
                        return
                    time.sleep(agenda.pause or 0.0)
                    continue
                ready, _ = self._ray.wait(list(running), num_returns=1, timeout=agenda.pause)
                for reference in ready:
                    chunk = running.pop(reference)
                    answers = self._hear(reference, chunk, agenda)
                    size.see([one.seconds for one in answers if isinstance(one, Outcome)])
                    done = list(_kept(chunk, answers, shelf))
                    # before somebody looks at the results, who may take his time
                    there = list(self._fill(agenda, running, size))
                    yield from done
                    yield from there
        finally:
            if running:  # only when it is given up
                self._cancel(running, shelf)

    def _fill(
        self, agenda: Agenda[TaskT, ValueT], running: dict[Any, _Chunk], size: _ChunkSize
    ) -> Iterator[Finished[TaskT, ValueT]]:
        """Give out chunks until enough are under way; what needs no work is given back."""
        while not running or len(running) < self._most(size):
            chunk: list[Given[Any]] = []
            while len(chunk) < size.wanted:
                one = agenda.take_claimed()
                if one is None:
                    break
                if isinstance(one, Finished):
                    yield one
                    continue
                if chunk and (one.crashes or one.kills or one.task.needs != chunk[0].task.needs):
                    # by itself, so that it is known whose fault it is, and where it can run
                    self._submit(_Chunk([one]), running)
                    continue
                chunk.append(one)
                if one.crashes or one.kills:
                    break
            if not chunk:
                return
            self._submit(_Chunk(chunk), running)

    def _most(self, size: _ChunkSize) -> int:
        """Chunks under way: of short tasks one more than there are workers, where it waits for a processor, so that no worker
        waits for this process."""
        waits = size.wanted > 1 and (self._ours or self._wanted is None)
        return self.workers + waits * max(1, self.workers // 8)

    def _submit(self, chunk: _Chunk, running: dict[Any, _Chunk]) -> None:
        self._connect()
        needs = chunk.tasks[0].task.needs
        call = self._remote.options(**self._resources(needs), name=chunk.tasks[0].task.name or "task")
        running[call.remote(chunk.tasks, os.getcwd())] = chunk

    def _cancel(self, running: dict[Any, _Chunk], shelf: Shelf[Any] | None) -> None:
        """End what is under way, so that it stops its simulators, and give the claims back."""
        for reference, chunk in running.items():
            with suppress(Exception):  # whatever keeps Ray from it, its workers end with it
                self._ray.cancel(reference)
            for given in chunk.tasks:
                if shelf is not None:
                    shelf.release(given.key)
        with suppress(Exception):
            self._ray.wait(list(running), num_returns=len(running), timeout=_CANCEL_SECONDS)

    def _hear(self, reference: Any, chunk: _Chunk, agenda: Agenda[TaskT, ValueT]) -> list[_Answer]:
        """What became of a chunk; nothing, if its worker died: its tasks are due again."""
        errors = self._ray.exceptions
        try:
            answers: list[_Answer] = self._ray.get(reference)
            return answers
        except errors.OutOfMemoryError as error:
            how, killed = f"memory ran out: {_first_line(error)}", False
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError) as error:
            how, killed = _first_line(error), True
        except errors.RayTaskError:
            raise  # a mistake in baco, with its traceback
        except errors.RayError as error:
            raise BacoError(f"the Ray cluster has failed: {_first_line(error)}") from error
        alone = len(chunk.tasks) == 1
        for given in chunk.tasks:
            agenda.died(given, killed=killed or not alone, how=how)
        return []

    def _resources(self, needs: tuple[Need, ...]) -> dict[str, Any]:
        """What a machine must have for a task, as Ray's options. Raises BacoError where no machine has it."""
        if "gpu" in needs and not self._ray.cluster_resources().get("GPU"):
            raise BacoError(
                "no machine of the Ray cluster has a graphics card",
                hint="run the command without --device cuda, or start a worker with `ray start --num-gpus 1`",
            )
        compiler = "compiler" in needs and self._declares_compilers
        return {
            "num_gpus": 1 if "gpu" in needs else 0,
            "resources": {"compiler": _LITTLE} if compiler else {},
        }

    def _connect(self) -> None:
        """Connect to the cluster, or start one."""
        if self._ray is not None:
            return
        os.environ |= {name: value for name, value in _QUIET.items() if name not in os.environ}
        ray: Any = importlib.import_module("ray")
        if not ray.is_initialized():
            self._ours = True
            # Ray lets workers import from the current folder, which is a user's
            with _signals_kept(), python_children(single_threads=True), chdir(_packages()):
                _initialise(ray, self._wanted, self._address)
        self._ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=0)(_work)
        self._declares_compilers = "compiler" in ray.cluster_resources()

    def close(self) -> None:
        """End all workers, and the cluster if it was started here."""
        if self._ours and self._ray is not None:
            with _signals_kept():
                self._ray.shutdown()
        self._ray, self._ours = None, False


class _ChunkSize:
    """How many tasks are given out at a time, from how long they took."""

    def __init__(self) -> None:
        self._mean: float | None = None

    @property
    def wanted(self) -> int:
        if self._mean is None:
            return 1
        return max(1, min(_LONGEST_CHUNK, int(_CHUNK_SECONDS / max(self._mean, 1e-6))))

    def see(self, seconds: Sequence[float]) -> None:
        """Some tasks took so long; what was seen last counts most."""
        if seconds:
            mean = sum(seconds) / len(seconds)
            self._mean = mean if self._mean is None else 0.5 * (self._mean + mean)


def _kept(
    chunk: _Chunk, answers: Sequence[_Answer], shelf: Shelf[Any] | None
) -> Iterator[Finished[Any, Any]]:
    """Results put on the shelf and claims given back; the first error is raised when all results are kept."""
    failed: BacoError | None = None
    for given, answer in zip(chunk.tasks, answers, strict=False):  # it ends at the first error
        if isinstance(answer, BacoError):
            failed = answer
            break
        if shelf is not None:
            answer = replace(answer, value=shelf.put(given.key, answer.value))
        yield given.finished(answer)
    if shelf is not None:
        for given in chunk.tasks:
            shelf.release(given.key)
    if failed is not None:
        raise failed


def _work(chunk: Sequence[Given[Any]], folder: str) -> list[_Answer]:
    """In a worker: run tasks, until one has failed."""
    with suppress(OSError):  # names of files are relative to it
        os.chdir(folder)
    answers: list[_Answer] = []
    for given in chunk:
        try:
            outcome: Outcome[Any] | None = carry_out(given, None)
            assert outcome is not None  # without a shelf nobody else can be at it
            answers.append(outcome)
        except BacoError as error:
            return [*answers, error]
        except OSError as error:
            return [*answers, StorageError(f"{error.strerror or error}")]
    return answers


def _initialise(ray: Any, workers: int | None, address: str | None) -> None:
    common: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": True}
    try:
        if address is None:
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=_SHARED_BYTES,
                **common,
            )
        else:
            ray.init(address=address, **common)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "--executor" if address is None else "--address"
        raise BacoError(
            f"Ray does not start: {_first_line(error)}"
            if address is None
            else f"there is no Ray cluster at '{address}': {_first_line(error)}",
            location=Location(where),
            hint="start one with `ray start --head`, or leave --address out" if address else None,
        ) from error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; whoever had it keeps it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _packages() -> Path:
    """The folder that baco's packages are in."""
    return Path(__file__).resolve().parents[2]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
