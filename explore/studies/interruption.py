"""Signals that end what is going on politely: a search at the end of what is being recorded, measurements at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal

#: How what `Stop` may end has ended.
Ended = Literal["done", "time", "interrupted"]


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals, once: bool = False
) -> Iterator[None]:
    """Within the block a handler has these signals; `once`: only until the first of them.

    Signal handlers belong to the main thread; in another one the block changes nothing.
    """
    before: dict[signal.Signals, Any] = {}

    def hand_back() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    def called(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        finally:
            if once:
                hand_back()

    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            before[number] = signal.signal(number, called)
    try:
        yield
    finally:
        hand_back()


class StopRequest:
    """Within the block, a first SIGINT or SIGTERM only sets `requested`; a second stops at once.

    Args:
        acknowledge: told at once that the first has come.
        asked: whether somebody has asked for the end in another way.
    """

    def __init__(
        self, acknowledge: Callable[[str], None] | None = None, asked: Callable[[], bool] | None = None
    ) -> None:
        self._signalled = False
        self._acknowledge, self._asked = acknowledge, asked
        self._block: AbstractContextManager[Any] = _handled(self._handle, signal.SIGINT, signal.SIGTERM)

    @property
    def requested(self) -> bool:
        """Whether the search is to end."""
        return self._signalled or (self._asked is not None and self._asked())

    def __enter__(self) -> StopRequest:
        self._block.__enter__()
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            raise KeyboardInterrupt
        self._signalled = True
        if self._acknowledge is not None:
            # in a thread of its own: the handler may have struck in the middle of a display's writing
            text = "stopping after this batch; once more (Ctrl-C) stops at once, and nothing recorded is lost"
            threading.Thread(target=self._acknowledge, args=(text,), daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)


class Stop(BaseException):
    """Ends measurements from a signal handler; no `except Exception` on the way may hold it."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended


@contextmanager
def stop_on_signals(time_limit: float | None) -> Iterator[None]:
    """Within the block a first SIGINT or SIGTERM, or the end of the time limit (seconds), raises `Stop`; a second signal stops at
    once."""

    limited = time_limit is not None and threading.current_thread() is threading.main_thread()

    def no_alarm() -> None:
        if limited:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def stop(number: int, frame: FrameType | None) -> None:
        no_alarm()  # before its signal has no handler any more
        raise Stop("time" if number == signal.SIGALRM else "interrupted")

    with _handled(stop, signal.SIGINT, signal.SIGTERM, signal.SIGALRM, once=True):
        try:
            if time_limit is not None and limited:
                signal.setitimer(signal.ITIMER_REAL, time_limit)
            yield
        finally:
            no_alarm()
