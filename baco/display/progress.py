"""Live progress of a search: a bar on a terminal or in a notebook, occasional plain lines elsewhere."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from baco.common.text import html_text, one_line
from baco.common.viewer import in_notebook
from baco.display.console import amount, duration, is_wanted, rounded, stderr
from baco.display.time_left import TimeLeft

if TYPE_CHECKING:
    from baco.exploration.candidate import BatchSummary
    from baco.exploration.progress import Budget, Progress

_UNITS = {
    "edp": "µJ·cycles",
    "latency": "cycles",
    "energy": "pJ",
    "area": "mm²",
    "edap": "µJ·cycles·mm²",
    "makespan": "ms",
}
#: Seconds between plain lines, so that logs stay short.
_PLAIN_INTERVAL = 5.0
#: Seconds between two versions of a line in a notebook.
_NOTEBOOK_INTERVAL = 0.5
_BAR_CELLS = 20


class ClosableProgress(Protocol):
    """The engine's progress interface, plus the end of the display."""

    def update(self, summary: BatchSummary, budget: Budget) -> None: ...

    def note(self, text: str) -> None: ...

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None: ...

    def close(self) -> None: ...


@contextmanager
def waiting(text: str, progress: object = None) -> Iterator[None]:
    """Says what is being done while there is nothing yet to count, where somebody is looking.

    Args:
        progress: True or False; None for where somebody is looking; an object of the user's own is told nothing.
    """
    wanted = is_wanted(progress) if progress is None or isinstance(progress, bool) else False
    if not wanted:
        yield
        return
    display = make_progress("edp")
    display.doing(text)
    try:
        yield
    finally:
        display.close()


@contextmanager
def shown(progress: Progress | bool | None, objective: str) -> Iterator[Progress | None]:
    """The display of a search, closed at the end: the user's own, the usual one, or none.

    Args:
        progress: True or False; None for a display where somebody is looking; or one of the user's own.
        objective: as for `make_progress`.
    """
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    if not is_wanted(progress):
        yield None
        return
    display = make_progress(objective)
    try:
        yield display
    finally:
        display.close()


def make_progress(objective: str) -> ClosableProgress:
    """A display on standard error, live on a terminal and plain lines otherwise; in a notebook, below the cell.

    Args:
        objective: as given; its first metric is what `best` shows.
    """
    metric = objective.split(",")[0]
    if in_notebook():
        return NotebookProgress(metric)
    console = stderr()
    kind = LiveProgress if console.is_terminal else PlainProgress
    return kind(console, metric)


class Standing:
    """Where a search stands, in words: share of its budget, phase, best so far, time left."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.share: float | None = None
        self._first: tuple[float, float] | None = None
        self._time_left = TimeLeft()
        self._words = ""
        self._limit: float | None = None
        self._seconds = 0.0
        self._doing = ""
        self._doing_since = 0.0
        self._parts_left: str | None = None

    def update(self, summary: BatchSummary, budget: Budget) -> bool:
        """Take in what a batch did; whether it is the first."""
        new, self._parts_left = self._first is None, None
        if summary.best_objective is None:
            best = f"no feasible design yet ({self.metric})"
        else:
            best = (
                f"best {self.metric} {amount(summary.best_objective)} {_UNITS.get(self.metric, '')}".rstrip()
            )
        samples = summary.evaluations / budget.tasks
        parts = [f"{summary.phase}: {best}"]
        parts.append(
            f"{samples:,.0f} of {budget.samples:,} samples" if budget.samples else f"{samples:,.0f} samples"
        )
        rate = self._rate(summary, samples)
        if rate:
            parts.append(f"{amount(float(f'{rate:.3g}'))} samples/s")
        self._words = " | ".join(parts)
        self._seconds = summary.seconds
        self._limit = budget.time_limit
        shares = []
        if budget.samples:
            shares.append(min(1.0, samples / budget.samples))
            self._time_left.report(summary.seconds, shares[0])
        if budget.time_limit is not None:
            shares.append(min(1.0, summary.seconds / budget.time_limit))
        self.share = max(shares, default=None)
        return new

    def doing(self, text: str, done: int = 0, of: int | None = None) -> bool:
        """Take in what is done before the first batch; whether that is something else than before."""
        now = time.monotonic()
        new = self._doing != text
        if new:
            self._doing, self._doing_since = text, now
        self._words = in_words(text, done, of)
        self._parts_left = None
        if of and done:
            left = (now - self._doing_since) / done * (of - done)
            self._parts_left = f"about {duration(rounded(left))} of this left" if left >= 1 else None
        return new

    def line(self, since: float = 0.0) -> str:
        """`descent: best edp 7.1e+10 µJ·cycles | 1,200 of 5,000 samples | 812 samples/s | about 5 s left`.

        Args:
            since: seconds since the last update.
        """
        left = self.time_left(since)
        return f"{self._words} | {left}" if left else self._words

    def short_line(self, since: float = 0.0) -> str:
        """The same with the time left first: what follows may be cut off."""
        left = self.time_left(since)
        return f"{left} | {self._words}" if left else self._words

    def time_left(self, since: float = 0.0) -> str:
        """`about 5 s left`, or nothing as long as there is no estimate."""
        if self._parts_left is not None:
            return self._parts_left
        now = self._seconds + since
        left = [] if self._limit is None else [max(0.0, self._limit - now)]
        estimate = self._time_left.left(now)
        if estimate is not None:
            left.append(estimate)
        if not left:
            return ""
        return "nearly done" if min(left) < 1 else f"about {duration(rounded(min(left)))} left"

    def _rate(self, summary: BatchSummary, samples: float) -> float | None:
        """Samples per second since the first batch: a resumed study has a past that was not timed here, and a new one's first
        batch has in its time what came before."""
        if self._first is None:
            self._first = (samples, summary.seconds)
            return None
        earlier, seconds = self._first
        if summary.batch > 0 and summary.seconds > seconds:
            return (samples - earlier) / (summary.seconds - seconds)
        return None


def in_words(text: str, done: int, of: int | None) -> str:
    """`fusion groups: 120 of 500`; of what begins, which a log may show for long, how much it is: `fusion groups: 500 to do`."""
    if of and not done:
        return f"{text}: {of:,} to do"
    if of:
        return f"{text}: {done:,} of {of:,}"
    return f"{text}: {done:,}" if done else text


def bar(share: float) -> str:
    """A bar of text, and the share in percent: 100% only when all is spent."""
    full = int(share * _BAR_CELLS)
    return "█" * full + "░" * (_BAR_CELLS - full) + f" {int(100 * share):3d}%"


class PlainProgress:
    """A line when something happens, at most one every few seconds."""

    def __init__(self, console: Console, metric: str) -> None:
        self.console = console
        self.standing = Standing(metric)
        self.last_line = 0.0

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """Show where the search stands."""
        new = self.standing.update(summary, budget)
        now = time.monotonic()
        if new or now - self.last_line >= _PLAIN_INTERVAL:
            self.last_line = now
            self.console.print(Text(one_line(self.standing.line())))

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """Show what is done before the first batch."""
        new, now = self.standing.doing(text, done, of), time.monotonic()
        if new or now - self.last_line >= _PLAIN_INTERVAL:
            self.last_line = now
            self.console.print(Text(one_line(self.standing.line())))

    def note(self, text: str) -> None:
        """Show a remark."""
        self.console.print(Text(one_line(f"note: {text}")))

    def close(self) -> None:
        """End the display."""
        sys.stderr.flush()


class LiveProgress(PlainProgress):
    """A bar that is redrawn in place, whose time goes on while a batch takes long."""

    def __init__(self, console: Console, metric: str) -> None:
        super().__init__(console, metric)
        self.updated: float | None = None
        self.live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._line)
        self.live.start()

    def _line(self) -> Text:
        if self.updated is None:
            return Text("starting")
        share = self.standing.share
        words = one_line(self.standing.short_line(time.monotonic() - self.updated))
        return Text(words if share is None else f"{bar(share)} {words}", no_wrap=True, overflow="ellipsis")

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """Redraw the bar."""
        self.standing.update(summary, budget)
        self.updated = time.monotonic()

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """Redraw what is done before the first batch."""
        self.standing.doing(text, done, of)
        self.updated = time.monotonic()

    def close(self) -> None:
        """Remove the bar and give the terminal back."""
        self.live.stop()


class NotebookProgress:
    """A bar below a cell, which goes when the search is done; remarks stay."""

    def __init__(self, metric: str) -> None:
        screen = importlib.import_module("IPython.display")  # there where a notebook is
        self.standing = Standing(metric)
        self._html: Any = screen.HTML
        self._handle: Any = screen.display(self._html("<div>starting</div>"), display_id=True)
        self._drawn = 0.0

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """Redraw the bar."""
        self.standing.update(summary, budget)
        self._draw()

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """Redraw what is done before the first batch, at most twice a second."""
        new, now = self.standing.doing(text, done, of), time.monotonic()
        if new or now - self._drawn >= _NOTEBOOK_INTERVAL:
            self._drawn = now
            self._draw()

    def _draw(self) -> None:
        share = self.standing.share
        meter = "" if share is None else f'<progress value="{share:.4f}"></progress> '
        self._handle.update(
            self._html(f"<div>{meter}{html_text(one_line(self.standing.short_line()))}</div>")
        )

    def note(self, text: str) -> None:
        """Show a remark."""
        sys.stderr.write(one_line(f"note: {text}") + "\n")

    def close(self) -> None:
        """Remove the bar."""
        self._handle.update(self._html(""))
