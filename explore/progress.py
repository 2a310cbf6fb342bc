"""What a search tells of itself while it runs: to displays, and to pages."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from baco.common.door import words
from baco.common.errors import Location, StoppedError
from baco.exploration.candidate import BatchSummary


@dataclass(frozen=True)
class Budget:
    """What a search may spend in total, earlier sessions of a resumed study included.

    Attributes:
        samples: design points; None when only time limits.
        evaluations: the same in problem-mapping evaluations.
        time_limit: seconds of search; None when only samples limit.
        tasks: problem-mapping evaluations a design point.
    """

    samples: int | None
    evaluations: int | None
    time_limit: float | None
    tasks: int


class Doing(Protocol):
    """Who wants to know what is being done beside batches."""

    def __call__(self, text: str, done: int = 0, of: int | None = None) -> None:
        """`done` of `of` parts of this are finished; None where nobody knows how many there are."""


class Progress(Protocol):
    """Who wants to see a search advance (the command line's display).

    An object that has a `doing` as well is told what is done before the first batch (see `Doing`); one that has a `stopped()` ends
    the search, after its batch, by returning true.
    """

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """A batch has been recorded."""

    def note(self, text: str) -> None:
        """Something the user should know, in one sentence."""


def silent(text: str, done: int = 0, of: int | None = None) -> None:
    """A `Doing` that tells nobody."""


class Told:
    """Tells somebody, if there is somebody, and keeps what must be said at the end, too.

    Args:
        folder: of the study.
        stopped: whether the user has asked to stop; work before the first batch then ends at its next word.

    Attributes:
        notes: so far.
    """

    def __init__(self, folder: Path, progress: Progress | None, stopped: Callable[[], bool]) -> None:
        self.notes: list[str] = []
        self._folder, self._progress, self._stopped = folder, progress, stopped

    def note(self, text: str) -> None:
        """Something the user should know."""
        self.notes.append(text)
        if self._progress is not None:
            self._progress.note(text)

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """A `Doing`. Raises StoppedError where the user has asked to stop."""
        if self._stopped():
            raise interrupted(self._folder, 0)
        self.say(text, done, of)

    def say(self, text: str, done: int = 0, of: int | None = None) -> None:
        """The same of work within a batch, which a stop waits for."""
        tell: Doing | None = getattr(self._progress, "doing", None)
        if tell is not None:
            tell(text, done, of)


def interrupted(folder: Path, evaluations: int) -> StoppedError:
    """The error of a search that was ended so early that there is no result."""
    return StoppedError(
        f"interrupted before any feasible design was found, in {evaluations:,} evaluations",
        location=Location(str(folder)),
        hint=words(
            f"continue with --resume --out {shlex.quote(str(folder))}",
            f"continue with out={str(folder)!r}, resume=True",
        ),
    )
