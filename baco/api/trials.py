"""A search in which the user judges what the sampler proposes: `Study.ask` and `Study.tell`.

The search runs beside the user, in a thread, and waits where designs are to be judged, so that all that a search does (its budget, its
batches on disk, going on after an interruption) is as of `Study.optimize`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.common.errors import BacoError, InputError
from baco.common.shown import Shown

if TYPE_CHECKING:
    from baco.exploration.candidate import Candidate


@dataclass(frozen=True, repr=False)
class Trial(Shown):
    """Designs that a sampler proposes, to be judged together.

    Attributes:
        number: counted from 0 in this session.
        designs: with their predicted costs; None for one whose mappings fit no accelerator of the space.
    """

    number: int
    designs: tuple[Candidate | None, ...]
    metrics: tuple[str, ...] = field(repr=False)

    def _headline(self) -> str:
        known = [one for one in self.designs if one is not None]
        return f"{self.number}: {len(known)} designs to judge by {', '.join(self.metrics)}"

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        rows = [
            (one.accelerator.name, f"{one.cost.latency_cycles:,.0f}", f"{one.cost.energy_uj:,.4g}")
            for one in self.designs
            if one is not None
        ]
        return ("accelerator", "predicted cycles", "predicted µJ"), rows

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "judged by", ", ".join(self.metrics)

    def scores(self, values: Sequence[Any] | None) -> np.ndarray[Any, Any] | None:
        """(designs, metrics) of what the user says; NaN where she says nothing. Raises InputError for what is none of that."""
        if values is None:
            return None
        width = len(self.metrics)
        rows = [
            [np.nan] * width if value is None else list(value) if np.ndim(value) else [value]
            for value in values
        ]
        if len(rows) != len(self.designs) or any(len(row) != width for row in rows):
            each = "a number" if width == 1 else f"{width} numbers"
            raise InputError(f"the trial has {len(self.designs)} designs: give {each}, or None, for each")
        found = np.array(rows, dtype=np.float64)
        if not (np.isnan(found) | ((found > 0) & np.isfinite(found))).all():
            raise InputError(
                "what a design costs is a positive number, or None for one that is out of question"
            )
        return found


class Conversation:
    """A search that asks.

    Args:
        search: runs it; is to be stopped from within by what it was given for that.
    """

    def __init__(self, search: Callable[[], object]) -> None:
        self._search = search
        self._asked: Queue[Trial | BaseException | None] = Queue()
        self._told: Queue[np.ndarray[Any, Any] | None] = Queue()
        self._open: Trial | None = None
        self._number, self.over = 0, False
        threading.Thread(target=self._run, daemon=True, name="baco search").start()

    def _run(self) -> None:
        from baco.exploration.samplers.sampler import judged_by

        try:
            with judged_by(self._judge):
                self._search()
            self._asked.put(None)
        except BaseException as error:
            self._asked.put(error)

    def _judge(
        self, designs: tuple[Candidate | None, ...], metrics: tuple[str, ...]
    ) -> np.ndarray[Any, Any] | None:
        self._asked.put(Trial(self._number, designs, metrics))
        self._number += 1
        return self._told.get()

    def ask(self) -> Trial | None:
        """The next trial; None when the search has ended. Raises what the search raises."""
        if self._open is not None:
            raise InputError(
                f"trial {self._open.number} has not been told of", hint="study.tell(trial, values)"
            )
        if self.over:
            return None
        found = self._asked.get()
        if isinstance(found, Trial):
            self._open = found
            return found
        self.over = True
        if isinstance(found, BacoError):
            raise found
        if found is not None:
            raise RuntimeError("the search has failed") from found
        return None

    def tell(self, trial: Trial, values: Sequence[Any] | None) -> None:
        """Go on with what the user found. Raises InputError for another trial than the last one asked for."""
        if trial is not self._open:
            raise InputError("this trial is not the one that was asked for last")
        scores = trial.scores(values)
        self._open = None
        self._told.put(scores)

    def end(self) -> None:
        """Let the search end, after its batch, on predictions."""
        self._open = None
        while not self.over:
            self._told.put(None)
            self.ask()
            self._open = None
