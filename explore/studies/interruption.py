"""Signals that end a search politely: at the end of what is being recorded."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """Within the block, a first SIGINT or SIGTERM only sets `requested`; a second stops at once.

    Signal handlers belong to the main thread; in another one the block changes nothing.

    Args:
        acknowledge: told at once that the first has come.
        asked: whether somebody has asked for the end in another way.
    """

    def __init__(
        self, acknowledge: Callable[[str], None] | None = None, asked: Callable[[], bool] | None = None
    ) -> None:
        self._signalled = False
        self._acknowledge, self._asked = acknowledge, asked
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the search is to end."""
        return self._signalled or (self._asked is not None and self._asked())

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
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
        for number, handler in self._before.items():
            signal.signal(number, handler)
