"""A process beside this one, for work that nobody waits for yet: the second core of a long command.

What is asked of it is pure: a function of a module of ours and its arguments, which give the same wherever they are worked out. So
nothing depends on whether there is a companion: where none can be started, where it dies, or where it cannot do the work, the
work is done here.

The process begins with code on its command line and not, as those of `multiprocessing` do, with the user's script: a script needs no
`if __name__ == "__main__"`, and there is one in notebooks and under `python -c`, too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Generic, TypeVar

from baco.common.processes import collect_seldom, processors, python_children

ValueT = TypeVar("ValueT")
#: Where modules are, then what a companion does.
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from baco.common.companion import serve; serve()"
_LENGTH = struct.Struct("<Q")


class Pending(Generic[ValueT]):
    """What some work gives; who asks for it twice gets it twice, worked out once.

    Attributes:
        work: the function that gives it.
    """

    def __init__(self, work: Callable[..., ValueT], arguments: tuple[Any, ...]) -> None:
        self.work, self._arguments = work, arguments
        self._known: list[ValueT] = []
        self._process: _Process | None = None
        self._number = -1

    def give_to(self, process: _Process) -> None:
        """Have a companion do the work."""
        number = process.send(self.work, self._arguments)
        if number is not None:
            self._process, self._number = process, number

    @property
    def begun(self) -> bool:
        """Whether a companion is at it, or has done it."""
        return self._process is not None and self._process.begun(self._number)

    def get(self, here: Callable[[], ValueT] | None = None) -> ValueT:
        """The result, waited for. Raises what the work raises.

        Args:
            here: the same work as it is best done in this process.
        """
        if not self._known:
            received = None if self._process is None else self._process.receive(self._number)
            self._process = None
            if received is None:
                received = (self.work(*self._arguments) if here is None else here(),)
            self._known.append(received[0])
        return self._known[0]


class _Process:
    """A companion. It is given one thing at a time, the latest that is asked first: whoever needs what it has not begun, does that
    himself."""

    def __init__(self) -> None:
        path = json.dumps([folder for folder in sys.path if folder])
        with python_children(single_threads=True), _interrupts_held():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        self._asked = 0
        self._waiting: list[tuple[int, bytes]] = []
        self._at: int | None = None
        self._answers: dict[int, bytes] = {}
        self._news = threading.Condition()
        self._over = False
        # threads, so that neither of the two processes ever waits for the other to read
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def send(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> int | None:
        """The number of the answer; None for what cannot be sent."""
        try:
            text = pickle.dumps((work, arguments), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        with self._news:
            self._waiting.append((self._asked, text))
            self._asked += 1
            self._news.notify_all()
            return self._asked - 1

    def receive(self, number: int) -> tuple[Any] | None:
        """An answer, waited for; None where there will be none."""
        with self._news:
            self._waiting = [one for one in self._waiting if one[0] != number]
            while self._at == number and not self._over:
                self._news.wait()
            text = self._answers.pop(number, b"")
        try:
            return pickle.loads(text) if text else None
        except (pickle.UnpicklingError, AttributeError, ImportError, TypeError):
            return None

    def begun(self, number: int) -> bool:
        """Whether it is at some work, or has done it."""
        with self._news:
            return number == self._at or number in self._answers

    def close(self) -> None:
        """End it, whatever it is at."""
        with self._news:
            self._over = True
            self._news.notify_all()
        self._process.kill()
        self._process.wait()
        for one in self._threads:
            one.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was not written any more
                pipe.close()

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        while True:
            with self._news:
                while not self._over and (self._at is not None or not self._waiting):
                    self._news.wait()
                if self._over:
                    return
                self._at, text = self._waiting.pop()
            try:
                _put(pipe, text)
            except (OSError, ValueError):
                return  # it has died, as the reader finds out

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        while True:
            try:
                text = _take(pipe)
            except (OSError, ValueError):
                text = None
            with self._news:
                if text is None or self._at is None:
                    self._over = True
                else:
                    self._answers[self._at] = text
                self._at = None
                self._news.notify_all()
                if self._over:
                    return


_current: list[_Process] = []


@contextlib.contextmanager
def companion(modules: Sequence[str] = (), *, wanted: bool = True) -> Iterator[None]:
    """For a block in which a companion does what is asked (`ask`), where there is a second processor. In a block of this kind
    it is that of the outer one.

    Args:
        modules: that it imports to begin with.
        wanted: whether there should be one.
    """
    if not wanted or _current or processors() < 2 or not sys.executable or getattr(sys, "frozen", False):
        yield
        return
    try:
        process = _Process()
    except (OSError, ValueError, RuntimeError):  # no more processes, or threads
        yield
        return
    _current.append(process)
    try:
        process.send(_imported, (tuple(modules),))
        yield
    finally:
        _current.remove(process)
        process.close()


def ask(work: Callable[..., ValueT], *arguments: Any) -> Pending[ValueT]:
    """Have the companion work something out, if there is one; else it is worked out when it is asked for.

    Args:
        work: a function of a module of ours, which changes nothing.
        arguments: of it; what can be pickled.
    """
    answer = Pending(work, arguments)
    if _current:
        answer.give_to(_current[-1])
    return answer


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """For a process started inside: Control-C reaches the whole foreground group, and the parent alone decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the companion ------------------------------------------------------------------------------------


def serve() -> None:
    """Do what comes from standard input, until it is closed; answers go to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what work prints is nobody's answer
    while True:
        text = _take(source)
        if text is None:
            return
        try:
            work, arguments = pickle.loads(text)
            answer = pickle.dumps((work(*arguments),), pickle.HIGHEST_PROTOCOL)
        except Exception:  # whoever asks does it himself, and meets the same error
            answer = b""
        try:
            _put(target, answer)
        except OSError:
            return


def _imported(modules: tuple[str, ...]) -> None:
    for one in modules:
        importlib.import_module(one)


def _put(pipe: IO[bytes], text: bytes) -> None:
    pipe.write(_LENGTH.pack(len(text)) + text)
    pipe.flush()


def _take(pipe: IO[bytes]) -> bytes | None:
    """The next frame; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    text = pipe.read(length)
    return text if len(text) == length else None
