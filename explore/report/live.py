"""`progress.html`: a page that lives while a search runs, and leads to the report when it is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from baco.common.files import atomic_write, output_folder
from baco.common.page import html_cards, page
from baco.common.text import html_text
from baco.exploration.candidate import BatchSummary
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget, Doing, Progress
from baco.exploration.report.units import scientific, significant

#: Name of the page in the folder of a study.
PROGRESS_PAGE = "progress.html"
#: Seconds between two versions, and after which a browser looks for the next one.
_INTERVAL, _REFRESH = 2.0, 3
_ASSETS = Path(__file__).parent


class LivePage:
    """Writes the page as a search advances (an `baco.exploration.studies.engine.Progress`, which hands on to another).

    Args:
        folder: of the study; made when the first version is written.
        networks: their names, for the heading.
        objective: what is minimised; the page shows its first metric.
        inner: who else wants to know.
    """

    def __init__(
        self, folder: Path, networks: str, objective: Objective, inner: Progress | None = None
    ) -> None:
        self._path = folder / PROGRESS_PAGE
        self._new = not os.path.exists(self._path)
        self._networks, self._objective, self._inner = networks, objective, inner
        self._summaries: list[BatchSummary] = []
        self._notes: list[str] = []
        self._budget: Budget | None = None
        self._doing = ""
        self._written = -_INTERVAL

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """A batch has been recorded. Raises StorageError when the page cannot be written."""
        self._summaries.append(summary)
        self._budget = budget
        self._doing = ""
        self._now_and_then("searching")
        if self._inner is not None:
            self._inner.update(summary, budget)

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """What is done before the first batch. Raises StorageError when the page cannot be written."""
        self._doing = f"{text}: {done:,} of {of:,}" if of else text
        self._now_and_then("preparing")
        tell: Doing | None = getattr(self._inner, "doing", None)
        if tell is not None:
            tell(text, done, of)

    def _now_and_then(self, state: str) -> None:
        now = time.monotonic()
        if now - self._written >= _INTERVAL:
            self._written = now
            self._write(f'<meta http-equiv="refresh" content="{_REFRESH}">', state, "")

    def note(self, text: str) -> None:
        """Something the user should know."""
        self._notes.append(text)
        if self._inner is not None:
            self._inner.note(text)

    def withdraw(self) -> None:
        """The search was refused: a page that has shown nothing yet goes again."""
        if self._new and not self._summaries:
            self._path.unlink(missing_ok=True)

    def finish(self) -> None:
        """The report has been written: the page leads there. Raises StorageError when the page cannot be written."""
        link = '<p class="lead">The search has ended: <a href="report.html">report.html</a> shows what it found.</p>'
        self._write('<meta http-equiv="refresh" content="2; url=report.html">', "ended", link)

    def _write(self, head: str, state: str, more: str) -> None:
        notes = "".join(f"<li>{html_text(note)}</li>" for note in self._notes)
        body = (
            f'{more}<ul class="cards">{html_cards(self._cards())}</ul>'
            + (f'<ul class="notes">{notes}</ul>' if notes else "")
            + '<section aria-labelledby="h-best"><h2 id="h-best">Best so far</h2>'
            '<p class="hint">This page renews itself every few seconds while the search runs. If it stays the same, the search'
            " was ended: continue it with <code>--resume</code>, or write the report of what was found with"
            ' <code>baco report</code>.</p><div id="curve"></div></section>'
        )
        text = page(
            title=f"{self._networks}: {state} (baco)",
            brand="design-space exploration",
            heading=self._networks,
            subheading=f'{html_text(f"minimising {self._objective}")} <span class="tag">{state}</span>',
            body=body,
            head=head,
            data={"history": self._history(), "metric": self._objective.metrics[0]},
            scripts=[(_ASSETS / "live.js").read_text("utf-8")],
        )
        output_folder(self._path.parent)
        atomic_write(self._path, text)

    def _history(self) -> Any:
        if not self._summaries:  # the first version comes before anything large is loaded
            return {"samples": [], "best": []}
        from baco.exploration.report.payload import history

        return history(self._summaries)

    def _cards(self) -> list[tuple[str, str, str]]:
        if not self._summaries:
            return [("Doing", self._doing, "before the search")] if self._doing else []
        last, budget = self._summaries[-1], self._budget
        samples = last.evaluations / (budget.tasks if budget else 1)
        best: Any = "none yet" if last.best_objective is None else scientific(last.best_objective)
        of = f"of {budget.samples:,}" if budget and budget.samples else "so far"
        limit = f" of {significant(budget.time_limit)}" if budget and budget.time_limit else ""
        return [
            (f"Best {self._objective.metrics[0]}", best, "of the feasible designs"),
            ("Design points", f"{samples:,.0f}", of),
            ("Seconds", f"{significant(last.seconds)}{limit}", "of search"),
            ("Doing", last.phase, f"batch {last.batch + 1:,}"),
        ]
