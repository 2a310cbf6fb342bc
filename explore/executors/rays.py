"""Ray, on this machine or on a cluster that runs already.

Where a cluster is started here, workers put results on the shelf themselves, as local processes do. Of a cluster that runs
already, only this process sees the shelf: it claims what it gives out and keeps what comes back, so that other machines need
none of its files. Ray ends what runs for a process that dies: that is run again by whoever comes next.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Generic

from baco.common.errors import BacoError, InputError, Location, StorageError
from baco.common.processes import python_children
from baco.common.text import one_line
from baco.exploration.executors.tasks import (
    Agenda,
    Finished,
    Given,
    Need,
    Shelf,
    TaskT,
    ValueT,
    WorkOutcome,
    carry_out,
)

#: Short tasks are given out several at a time, so that a worker is busy this long: Ray needs some milliseconds for each call.
_CHUNK_SECONDS, _LONGEST_CHUNK = 0.25, 256
#: Bytes of memory that a cluster started here shares between its processes; what is larger goes through the disk.
_SHARED_BYTES = 256 << 20
#: What is cancelled has so long to end.
_CANCEL_SECONDS = 5.0
#: How often it is tried to start Ray here: it gives its processes 30 s, which may be too few on a busy machine.
_STARTS = 3
#: A cluster that runs answers sooner.
_KNOCK_SECONDS = 10.0
#: Of the resource by which machines say that they have a compiler, taken by a task that needs one.
_LITTLE = 0.001
#: Ray asks nobody outside, and does not touch the variables that choose graphics cards.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

#: Of a task: None where another process is at it.
_Answer = WorkOutcome[Any] | BacoError | None


_Chunk = list[Given[Any]]


class RayExecutor:
    """See `baco.exploration.executors.tasks.Executor`.

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
        self._ours = self._declares_compilers = False

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
        """See `baco.exploration.executors.tasks.Executor`."""
        run = _Run(Agenda(tasks, shelf), shelf, remote=not self._starts_one)
        agenda = run.agenda
        try:
            while True:
                yield from self._fill(run)
                if not run.running:
                    if agenda.over:
                        return
                    time.sleep(agenda.pause or 0.0)
                    continue
                ready, _ = self._ray.wait(list(run.running), num_returns=1, timeout=agenda.pause)
                for reference in ready:
                    chunk = run.running.pop(reference)
                    done = list(run.kept(chunk, self._hear(reference, chunk, agenda)))
                    # before somebody looks at the results, who may take his time
                    there = list(self._fill(run))
                    yield from done
                    yield from there
        finally:
            if run.running:  # only when it is given up
                self._cancel(run)

    @property
    def _starts_one(self) -> bool:
        """Whether the cluster is, or will be, one of this machine that is started here."""
        if self._ray is not None:
            return self._ours
        ray = sys.modules.get("ray")
        return self._address is None and not (ray and ray.is_initialized())

    def _fill(self, run: _Run[TaskT, ValueT]) -> Iterator[Finished[TaskT, ValueT]]:
        """Give out chunks until enough are under way; what needs no work is given back."""
        while not run.running or len(run.running) < self._most(run):
            chunk: _Chunk = []
            while len(chunk) < run.chunk_length:
                one = run.agenda.take_claimed() if run.remote else run.agenda.take()
                if one is None:
                    break
                if isinstance(one, Finished):
                    yield one
                    continue
                if chunk and (one.crashes or one.kills or one.task.needs != chunk[0].task.needs):
                    # by itself, so that it is known whose fault it is, and where it can run
                    self._submit([one], run)
                    continue
                chunk.append(one)
                if one.crashes or one.kills:
                    break
            if not chunk:
                return
            self._submit(chunk, run)

    def _most(self, run: _Run[Any, Any]) -> int:
        """Chunks under way: of short tasks one more than there are workers, where it waits for a processor, so that no worker
        waits for this process."""
        waits = run.chunk_length > 1 and (self._ours or self._wanted is None)
        return self.workers + waits * max(1, self.workers // 8)

    def _submit(self, chunk: _Chunk, run: _Run[Any, Any]) -> None:
        self._connect()
        first = chunk[0].task
        call = self._remote.options(**self._resources(first.needs), name=first.name or "task")
        run.running[call.remote(chunk, os.getcwd(), run.shelf_there)] = chunk

    def _cancel(self, run: _Run[Any, Any]) -> None:
        """End what is under way, and the simulators of it, and give the claims back."""
        for reference, chunk in run.running.items():
            with suppress(Exception):  # whatever keeps Ray from it, its workers end with it
                self._ray.cancel(reference, force=True)
            run.release(chunk)
        with suppress(Exception):
            self._ray.wait(list(run.running), num_returns=len(run.running), timeout=_CANCEL_SECONDS)

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
        alone = len(chunk) == 1
        for given in chunk:
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
            _relay_logs()
        self._ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=0)(_work)
        self._declares_compilers = "compiler" in ray.cluster_resources()

    def close(self) -> None:
        """End all workers, and the cluster if it was started here."""
        if self._ours and self._ray is not None:
            with _signals_kept():
                self._ray.shutdown()
        self._ray, self._ours = None, False


class _Run(Generic[TaskT, ValueT]):
    """What is under way.

    Attributes:
        remote: workers do not see the shelf.
        running: chunks by what stands for their answers.
        chunk_length: tasks that are given out at a time, from how long they took.
        shelf_there: the shelf for workers that see it, pickled.
    """

    def __init__(self, agenda: Agenda[TaskT, ValueT], shelf: Shelf[ValueT] | None, *, remote: bool) -> None:
        self.agenda, self.remote = agenda, remote
        self.running: dict[Any, _Chunk] = {}
        self.chunk_length = 1
        self.shelf_there = None if shelf is None or remote else pickle.dumps(shelf)
        self._shelf = shelf if remote else None
        self._mean = 0.0

    def kept(self, chunk: _Chunk, answers: Sequence[_Answer]) -> Iterator[Finished[TaskT, ValueT]]:
        """What is finished of a chunk, on the shelf; what is not is due again. Raises the error that ended it."""
        for given, answer in zip(chunk, answers, strict=False):
            if isinstance(answer, BacoError):
                self.release(chunk)
                raise answer
            if answer is None:
                self.agenda.elsewhere(given)
                continue
            if self._shelf is not None:
                answer = replace(answer, value=self._shelf.put(given.key, answer.value))
            self._mean = 0.5 * (self._mean + answer.seconds) if self._mean else answer.seconds
            yield given.finished(answer)
        if answers:
            self.agenda.put_back(chunk[len(answers) :])
            self.chunk_length = max(1, min(_LONGEST_CHUNK, int(_CHUNK_SECONDS / max(self._mean, 1e-6))))
        self.release(chunk)

    def release(self, chunk: _Chunk) -> None:
        """Give the claims of this process back."""
        if self._shelf is not None:
            for given in chunk:
                self._shelf.release(given.key)


#: In a worker: shelves that are open.
_shelves: dict[bytes, Shelf[Any]] = {}


def _work(chunk: _Chunk, folder: str, shelf: bytes | None) -> list[_Answer]:
    """In a worker: run tasks, until one has failed, or time is up."""
    begun = time.monotonic()
    with suppress(OSError):  # names of files are relative to it
        os.chdir(folder)
    answers: list[_Answer] = []
    for given in chunk:
        try:
            if shelf is not None and shelf not in _shelves:
                _shelves[shelf] = pickle.loads(shelf)
            answers.append(carry_out(given, None if shelf is None else _shelves[shelf]))
        except BacoError as error:
            return [*answers, error]
        except OSError as error:
            return [*answers, StorageError(f"{error.strerror or error}")]
        if time.monotonic() - begun > 2 * _CHUNK_SECONDS:
            break
    return answers


def _initialise(ray: Any, workers: int | None, address: str | None) -> None:
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": True}
    if address is None:
        options |= {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _SHARED_BYTES,
        }
    left = 1 if address is not None else _STARTS
    while True:
        left -= 1
        try:
            if address is not None:
                _knock(address)
            ray.init(**options)
            return
        except Exception as error:
            late = type(error) is Exception  # as Ray raises it, of its processes
            if late and left:
                continue
            if not late and not isinstance(error, (ConnectionError, RuntimeError, ValueError, OSError)):
                raise
            where = "--executor" if address is None else "--address"
            busy = "this machine may be too busy: try again, or use --executor local" if late else None
            raise BacoError(
                f"Ray does not start: {_first_line(error)}"
                if address is None
                else f"there is no Ray cluster at '{address}': {_first_line(error)}",
                location=Location(where),
                hint="start one with `ray start --head`, or leave --address out" if address else busy,
            ) from error


def _knock(address: str) -> None:
    """Raises OSError where nobody listens at `HOST:PORT`: Ray would end this process."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()


def _relay_logs() -> None:
    """What workers print goes to standard error with the worker's name, not to standard output, where results go."""
    with suppress(ImportError, AttributeError):  # no documented part of Ray
        logs = importlib.import_module("ray._private.ray_logging").global_worker_stdstream_dispatcher
        logs.remove_handler("ray_print_logs")
        logs.add_handler("ray_print_logs", _tell)


def _tell(said: dict[str, Any]) -> None:
    if str(
        said.get("pid")
    ).isdigit():  # others are Ray's own, and tell of workers that died, as this file does
        for line in said.get("lines", ()):
            sys.stderr.write(f"{said.get('ip')}:{said.get('pid')}: {one_line(str(line))}\n")


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
    """The folder that the package `baco` is in."""
    return Path(str(resources.files("baco"))).resolve().parent


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
