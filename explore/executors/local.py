"""Processes of this machine, each of which keeps what it has finished by itself.

Workers wait on a pipe for the next task and put what they found on the shelf themselves: when the parent dies, they finish
what they are at, keep it, find the pipe closed and end. When a worker dies, the parent finds the pipe closed and gives the
task to another one.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import FrameType, ModuleType, TracebackType
from typing import Any

from baco.common.errors import BacoError, StorageError
from baco.common.processes import processors, python_children
from baco.exploration.executors.tasks import (
    Agenda,
    Finished,
    Given,
    Shelf,
    TaskT,
    ValueT,
    WorkOutcome,
    carry_out,
)


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    shelf: object = None
    given: Given[Any] | None = None


class LocalExecutor:
    """See `baco.exploration.executors.tasks.Executor`.

    Args:
        workers: processes, started as they are needed; by default as many as this process may use processors. 0 runs tasks in this process.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = processors() if workers is None else workers
        self._crew: list[_Worker] = []

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self, tasks: Iterable[TaskT], shelf: Shelf[ValueT] | None = None
    ) -> Iterator[Finished[TaskT, ValueT]]:
        """See `baco.exploration.executors.tasks.Executor`."""
        agenda: Agenda[TaskT, ValueT] = Agenda(tasks, shelf)
        if self.workers < 1:
            yield from _alone(agenda, shelf)
            return
        try:
            while True:
                done = self._fill(agenda, shelf)
                if done is not None:
                    yield done
                    continue
                busy = [member for member in self._crew if member.given is not None]
                if not busy and agenda.over:
                    return
                ready = wait([member.pipe for member in busy], agenda.pause)
                for worker in [member for member in busy if member.pipe in ready]:
                    found = self._hear(worker, agenda)
                    if found is not None:
                        # before somebody looks at the result, who may take his time
                        there = self._fill(agenda, shelf)
                        yield found
                        if there is not None:
                            yield there
        finally:
            for worker in [
                member for member in self._crew if member.given is not None
            ]:  # only when it is given up
                self._dismiss(worker)

    def _fill(
        self, agenda: Agenda[TaskT, ValueT], shelf: Shelf[ValueT] | None
    ) -> Finished[TaskT, ValueT] | None:
        """Give tasks to whoever is free, until one turns up that needs no work."""
        while sum(one.given is not None for one in self._crew) < self.workers:
            given = agenda.take()
            if not isinstance(given, Given):
                return given
            worker = next((one for one in self._crew if one.given is None), None)
            if worker is None:
                worker = _start()
                self._crew.append(worker)
            worker.given = given
            _send(worker, given, shelf)
        return None

    def _hear(self, worker: _Worker, agenda: Agenda[TaskT, ValueT]) -> Finished[TaskT, ValueT] | None:
        """What a worker says; None for a task that is due again."""
        given = worker.given
        assert given is not None
        try:
            answer: WorkOutcome[ValueT] | BacoError | None = worker.pipe.recv()
        except (EOFError, ConnectionError):
            self._crew.remove(worker)
            worker.pipe.close()
            worker.process.join()
            code = worker.process.exitcode
            killed = code in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
            agenda.died(given, killed=killed, how=f"code {code}")
            return None
        worker.given = None
        if isinstance(answer, BacoError):
            raise answer
        if answer is None:
            agenda.elsewhere(given)
            return None
        return given.finished(answer)

    def _dismiss(self, worker: _Worker) -> None:
        self._crew.remove(worker)
        worker.pipe.close()
        if worker.given is not None:
            worker.process.terminate()
        worker.process.join()

    def close(self) -> None:
        """End all workers."""
        for worker in self._crew:
            worker.pipe.close()  # all at once, so that they end side by side
        for worker in list(self._crew):
            self._dismiss(worker)


def _alone(agenda: Agenda[TaskT, ValueT], shelf: Shelf[ValueT] | None) -> Iterator[Finished[TaskT, ValueT]]:
    """In this process; what others are at is waited for."""
    while not agenda.over:
        one = agenda.take()
        if one is None and agenda.pause:
            wait([], agenda.pause)
        if isinstance(one, Given):
            outcome = carry_out(one, shelf)
            if outcome is None:
                agenda.elsewhere(one)
                continue
            one = one.finished(outcome)
        if one is not None:
            yield one


def _start() -> _Worker:
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of PyTorch's threads
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=False)
    with python_children(single_threads=True):
        resource_tracker.ensure_running()  # starting a process would start it, and that lets interrupts through
        with _interrupts_held(), _without_script():
            process.start()
    theirs.close()  # so that the worker's end is the only one, and its death shows
    return _Worker(process, ours)


def _send(worker: _Worker, given: Given[Any], shelf: Shelf[Any] | None) -> None:
    changed = worker.shelf is not shelf
    worker.shelf = shelf
    try:
        worker.pipe.send((given, changed, shelf if changed else None))
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


@contextmanager
def _without_script() -> Iterator[None]:
    """For processes started inside: they do not begin with the user's script, which needs no `if __name__ == "__main__"` then.

    Tasks are of modules; those of one that is run by `python -m` are found there.
    """
    script = sys.modules["__main__"]
    if getattr(script, "__spec__", None) is None:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _work(pipe: Connection) -> None:
    """A worker: tasks in, results out, until the other end is closed."""
    signal.signal(signal.SIGTERM, _leave)  # as an exception, so that its simulator is stopped as well
    try:
        _serve(pipe)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to be stopped


def _serve(pipe: Connection) -> None:
    shelf: Shelf[Any] | None = None
    while True:
        try:
            given, changed, other = pipe.recv()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return
        except BacoError as error:  # of a shelf that cannot be opened here
            answer: object = error
        else:
            shelf = other if changed else shelf
            answer = _answer(given, shelf)
        try:
            pipe.send(answer)
        except ConnectionError:
            return


def _answer(given: Given[Any], shelf: Shelf[Any] | None) -> WorkOutcome[Any] | BacoError | None:
    try:
        return carry_out(given, shelf)
    except BacoError as error:
        return error
    except OSError as error:
        return StorageError(f"{error.strerror or error}")
