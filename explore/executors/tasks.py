"""Tasks, who runs them, and where results are kept: the interface, and the list of what is still to do.

An executor only says who computes what when. Results belong to a `Shelf` (a file of measurements, say), which alone decides
what is done: tasks whose result it has are never given out, whoever is killed when.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from operator import length_hint
from os import getpid
from socket import gethostname
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from baco.common.errors import BacoError
from baco.common.provenance import versions

#: What a machine must have to run a task: tools that build simulators and programs, a graphics card.
Need = Literal["compiler", "gpu"]
#: Seconds until somebody is asked again who works at a task of ours for another run.
_ASK_AGAIN = 0.25
#: Workers that a task may cost before it is given up: that ended by themselves, and that were killed, which need not be the
#: task's fault.
_CRASHES, _KILLS = 2, 10

ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)


class WorkItem(Protocol[ValueT_co]):
    """Something to compute. Tasks and what they give travel between processes, so they can be pickled.

    Attributes:
        name: for people who watch.
        key: equal for tasks that must come out equal. A worker derives it anew, so that a machine with another version of
            baco, which may give another result, is found out: what a task caches of it must not travel.
        needs: what the machine must have that runs it.
    """

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def needs(self) -> tuple[Need, ...]: ...

    def run(self) -> ValueT_co: ...


@dataclass(frozen=True)
class Call(Generic[ValueT]):
    """A function of a module and its arguments as a task of which nothing is kept; see `WorkItem`.

    Attributes:
        name: tells it from the other tasks of a run.
    """

    name: str
    function: Callable[..., ValueT]
    arguments: tuple[Any, ...]
    needs: tuple[Need, ...] = ()

    @property
    def key(self) -> str:
        """Its name, and whose function it is."""
        return f"{self.name}, baco {_version()}"

    def run(self) -> ValueT:
        """Call it."""
        return self.function(*self.arguments)


@functools.cache
def _version() -> str | None:
    return versions().get("baco")


TaskT = TypeVar("TaskT", bound=WorkItem[Any])


class Shelf(Protocol[ValueT]):
    """Where results are kept. Pickled, it is opened again where it arrives, on the same machine."""

    def get(self, key: str) -> ValueT | None:
        """What is kept under a key."""

    def put(self, key: str, value: ValueT) -> ValueT:
        """Keep a value, unless there is one, and return what is kept."""

    def claim(self, key: str) -> bool:
        """Whether this process may work at a key, since nobody else does. Claims end with the process, if not before."""

    def release(self, key: str) -> None:
        """Give a claim back."""


@dataclass(frozen=True)
class Finished(Generic[TaskT, ValueT]):
    """A result.

    Attributes:
        index: of the task in the order in which tasks were drawn.
        worker: who computed it, `HOST:PID`; empty for what was there already.
        seconds: that it took.
    """

    index: int
    task: TaskT
    value: ValueT
    worker: str
    seconds: float


class Executor(Protocol):
    """Runs tasks; used in a `with` block, at whose end its workers are gone."""

    @property
    def workers(self) -> int:
        """How many tasks run side by side."""

    def run(
        self, tasks: Iterable[TaskT], shelf: Shelf[ValueT] | None = None
    ) -> Iterator[Finished[TaskT, ValueT]]:
        """Results in the order in which they are finished.

        Tasks are drawn as workers become free, so that no more wait than these will soon be at. Those whose result is on the
        shelf are not run; results are on the shelf before they are given out. An iterator that is closed stops what is
        running.

        Raises what a task raises, if it is a BacoError, and BacoError for a task of which workers die.
        """

    def close(self) -> None:
        """End all workers."""


#: Called after each task: how many are finished, of how many, and the last of them.
Progress: TypeAlias = Callable[[int, int, Finished[TaskT, ValueT]], None]


def gather(
    executor: Executor,
    tasks: Iterable[TaskT],
    shelf: Shelf[ValueT] | None = None,
    progress: Progress[TaskT, ValueT] | None = None,
    *,
    total: int | None = None,
) -> list[ValueT]:
    """Results of all tasks in their order.

    Args:
        progress: called for each task, in the order in which they are finished.
        total: of tasks, for the progress; by default the number of them where it is known.

    Raises as `Executor.run`; results finished before are on the shelf.
    """
    expected = length_hint(tasks) if total is None else total
    found: dict[int, ValueT] = {}
    with closing(executor.run(tasks, shelf)) as results:  # type: ignore[type-var]
        for one in results:
            found[one.index] = one.value
            if progress:
                progress(len(found), max(expected, len(found)), one)
    return [found[index] for index in sorted(found)]


@functools.cache
def this_worker() -> str:
    """This process, as `HOST:PID`."""
    return f"{gethostname()}:{getpid()}"


@dataclass(frozen=True)
class WorkOutcome(Generic[ValueT]):
    """What a worker says of a task that it has finished; see `Finished`."""

    value: ValueT
    worker: str
    seconds: float


@dataclass
class Given(Generic[TaskT]):
    """A task that is due, or being worked at; `crashes` and `kills` are workers it has cost."""

    index: int
    task: TaskT
    key: str
    crashes: int = 0
    kills: int = 0

    def finished(self, outcome: WorkOutcome[ValueT]) -> Finished[TaskT, ValueT]:
        """With what came of it."""
        return Finished(self.index, self.task, outcome.value, outcome.worker, outcome.seconds)


class Agenda(Generic[TaskT, ValueT]):
    """What is still to do, for executors: tasks drawn one by one, those to run again, those that others are at."""

    def __init__(self, tasks: Iterable[TaskT], shelf: Shelf[ValueT] | None) -> None:
        self._fresh: Iterator[tuple[int, TaskT]] = iter(enumerate(tasks))
        self._drawn_all = False
        self._shelf = shelf
        self._again: deque[Given[TaskT]] = deque()
        self._elsewhere: deque[tuple[float, Given[TaskT]]] = deque()

    def take(self) -> Given[TaskT] | Finished[TaskT, ValueT] | None:
        """A task that is due, or one whose result is there; None where nothing is due now."""
        if self._again:
            return self._again.popleft()
        if self._elsewhere and self._elsewhere[0][0] <= time.monotonic():
            return self._look(self._elsewhere.popleft()[1])
        if not self._drawn_all:
            for index, task in self._fresh:
                return self._look(Given(index, task, task.key))
            self._drawn_all = True
        return None

    def take_claimed(self) -> Given[TaskT] | Finished[TaskT, ValueT] | None:
        """As `take`, for executors whose workers do not see the shelf: this process has claimed what is due."""
        while True:
            one = self.take()
            if not isinstance(one, Given) or self._shelf is None:
                return one
            if not self._shelf.claim(one.key):
                self.elsewhere(one)
                continue
            known = self._look(one)  # whoever had the claim before may have finished it
            if isinstance(known, Finished):
                self._shelf.release(one.key)
            return known

    def _look(self, given: Given[TaskT]) -> Given[TaskT] | Finished[TaskT, ValueT]:
        known = None if self._shelf is None else self._shelf.get(given.key)
        return given if known is None else Finished(given.index, given.task, known, "", 0.0)

    @property
    def over(self) -> bool:
        """Whether nothing will be due any more, unless workers die of what they are at."""
        return self._drawn_all and not self._again and not self._elsewhere

    @property
    def pause(self) -> float | None:
        """Seconds until somebody is to be asked about what others are at; None where nobody is."""
        return max(0.0, self._elsewhere[0][0] - time.monotonic()) if self._elsewhere else None

    def elsewhere(self, given: Given[TaskT]) -> None:
        """Another run is at that task: its result is looked for in a moment."""
        self._elsewhere.append((time.monotonic() + _ASK_AGAIN, given))

    def put_back(self, all_given: Iterable[Given[TaskT]]) -> None:
        """Tasks that nobody has begun are due again."""
        self._again.extend(all_given)

    def died(self, given: Given[TaskT], *, killed: bool, how: str) -> None:
        """A worker died at a task: it is due again, first of all. Raises BacoError where that has happened too often."""
        given.kills += killed
        given.crashes += not killed
        if given.crashes >= _CRASHES or given.kills >= _KILLS:
            raise BacoError(
                f"'{given.task.name or given.key}' ended its process {given.crashes + given.kills} times ({how})",
                hint="if memory ran out, use fewer workers; else please report this",
            )
        self._again.append(given)


def check_worker(task: WorkItem[Any], key: str) -> None:
    """Raises BacoError where this process cannot run a task, or would give it another result than is asked for."""
    for need in task.needs:
        _check_need(need)
    if task.key != key:
        raise BacoError(
            f"the worker {this_worker()} would give '{task.name}' another result than this machine asks for",
            hint="install the same version of baco on all machines of the cluster",
        )


@functools.cache
def _check_need(need: Need) -> None:
    if need == "compiler":
        from baco.sim.toolchain import toolchain

        toolchain()
    else:
        from torch import cuda

        if not cuda.is_available():
            raise BacoError(
                f"the worker {this_worker()} has no graphics card that PyTorch can use",
                hint="run the command without --device cuda, or on a machine that has one",
            )


def carry_out(given: Given[Any], shelf: Shelf[ValueT] | None) -> WorkOutcome[ValueT] | None:
    """Run a task in this process and keep what it gives; None where another process is at it."""
    task, key = given.task, given.key
    begun = time.monotonic()
    check_worker(task, key)
    if shelf is None:
        return WorkOutcome(task.run(), this_worker(), time.monotonic() - begun)
    if not shelf.claim(key):
        return None
    try:
        value = shelf.get(key)  # whoever had the claim before may have finished it
        if value is None:
            value = shelf.put(key, task.run())
    finally:
        shelf.release(key)
    return WorkOutcome(value, this_worker(), time.monotonic() - begun)
