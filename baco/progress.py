"""Live progress of a search: one status line on a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from baco.commands.context import amount, duration, stderr
from common.text import one_line
from explore.candidate import BatchSummary
from explore.engine import Budget

_UNITS = {"edp": "µJ·cycles", "latency": "cycles", "energy": "pJ", "area": "mm²", "edap": "µJ·cycles·mm²"}
#: Seconds between plain lines, so that logs stay short.
_PLAIN_INTERVAL = 5.0


class ClosableProgress(Protocol):
    """The engine's progress interface, plus the end of the display."""

    def update(self, summary: BatchSummary, budget: Budget) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


def make_progress(tasks: int, objective: str) -> ClosableProgress:
    """A display on standard error: live on a terminal, plain lines otherwise.

    Args:
        tasks: problem-mapping evaluations a sample.
        objective: as given; its first metric is what `best` shows.
    """
    console = stderr()
    kind = LiveProgress if console.is_terminal else PlainProgress
    return kind(console, tasks, objective.split(",")[0])


class PlainProgress:
    """A line when something happens, at most one every few seconds."""

    def __init__(self, console: Console, tasks: int, metric: str) -> None:
        self.console = console
        self.tasks = tasks
        self.metric = metric
        self.start = time.monotonic()
        self.first: tuple[int, float] | None = None
        self.last_line = 0.0

    def line(self, summary: BatchSummary, budget: Budget) -> str:
        """`descent: best EDP 7.1e+10 µJ·cycles | 1,200 of 5,000 samples | 812 samples/s | 5 s left`."""
        if summary.best_objective is None:
            best = f"no feasible design yet ({self.metric})"
        else:
            best = f"best {self.metric} {amount(summary.best_objective)} {_UNITS[self.metric]}"
        samples = summary.evaluations / self.tasks
        parts = [f"{summary.phase}: {best}"]
        parts.append(
            f"{samples:,.0f} of {budget.samples:,} samples" if budget.samples else f"{samples:,.0f} samples"
        )
        rate = self._rate(summary, samples)
        if rate:
            parts.append(f"{amount(float(f'{rate:.3g}'))} samples/s")
        left = []
        if budget.time_limit is not None:
            left.append(budget.time_limit - summary.seconds)
        if budget.samples and rate:
            left.append((budget.samples - samples) / rate)
        if left:
            parts.append(f"{duration(min(left))} left")
        return " | ".join(parts)

    def _rate(self, summary: BatchSummary, samples: float) -> float | None:
        """Samples per second of this session (a resumed study has a past that was not timed here)."""
        if self.first is None:
            self.first = (summary.evaluations, summary.seconds)
            return samples / summary.seconds if summary.batch == 0 and summary.seconds > 0 else None
        evaluations, seconds = self.first
        if summary.batch > 0 and summary.seconds > seconds:
            return (summary.evaluations - evaluations) / self.tasks / (summary.seconds - seconds)
        return None

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """Show where the search stands."""
        text = self.line(summary, budget)
        now = time.monotonic()
        if now - self.last_line >= _PLAIN_INTERVAL:
            self.last_line = now
            self.console.print(Text(one_line(text)))

    def note(self, text: str) -> None:
        """Show a remark."""
        self.console.print(Text(one_line(f"note: {text}")))

    def close(self) -> None:
        """End the display."""
        sys.stderr.flush()


class LiveProgress(PlainProgress):
    """One line that is redrawn in place."""

    def __init__(self, console: Console, tasks: int, metric: str) -> None:
        super().__init__(console, tasks, metric)
        self.live = Live(Text("starting"), console=console, refresh_per_second=8, transient=True)
        self.live.start()

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """Redraw the line."""
        self.live.update(Text(self.line(summary, budget), no_wrap=True, overflow="ellipsis"))

    def close(self) -> None:
        """Remove the line and give the terminal back."""
        self.live.stop()
