"""The main searcher in a space with settings: descent along the settings between stretches of search with fixed ones.

With fixed settings a space is like any other, and the main searcher works on it as it does (`baco.exploration.search.local_search`). Every
now and then the mappings of its leading designs are evaluated with neighbouring values of one setting after the other, or of
the few that make a memory faster together; each time all accelerators are scanned with them, since sizes follow settings
(the interface of a faster memory takes area). Where a neighbour is better, that is the next place, until none is; then the
search goes on there with all mappings that it knew. Every mapping that is predicted with other settings is an evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from baco.accel.config import SETTINGS
from baco.common import portable
from baco.common.portable import Ints
from baco.exploration.candidate import Candidate
from baco.exploration.cost.genome import Genomes
from baco.exploration.search.archive import Archive
from baco.exploration.search.local_search import LocalSearch
from baco.exploration.search.searcher import BatchResult, SearchSetup, State
from baco.exploration.search.selector import Selector
from baco.exploration.space import Choice

#: Evaluations a task before the first descent, and how much more of them before each one after.
_FIRST, _LATER = 60, 2.0
#: What an objective must be better by, in its logarithm, to be worth a move.
_BETTER = 1e-4
#: Settings that are changed together, by a step each: a memory of another speed with the port and the requests that fill it, and
#: with the clock that makes use of it.
_TOGETHER = [
    dict.fromkeys((name, *others), 1) for name, (_, row) in SETTINGS.items() for others in row.together
]
#: Neighbours that are looked at in one step of a search.
_AT_ONCE = 8


class SettingsSearch:
    """See the module's description.

    Args:
        setup: of a space with settings.
        kind: what searches with fixed ones.

    Attributes:
        choice: settings that the search is at; `inner` searches there.
        due: evaluations at which the next descent begins.
        place: of a descent that is going on, with its value; None between two.
        open: moves from there that are to be tried yet, in order: which of `moves`, and which way.
        improved: whether one of those before was an improvement.
    """

    def __init__(self, setup: SearchSetup, kind: type[LocalSearch]) -> None:
        self.setup, self.kind = setup, kind
        self.choice: Choice = setup.space.chosen
        self._setups: dict[Choice, SearchSetup] = {}
        self.inner = kind(self._at(self.choice))
        self.due = _FIRST * len(setup.tasks)
        self.place: Choice | None = None
        self.value = np.inf
        self.open: list[tuple[int, int]] = []
        self.improved = False
        names = [name for name, _ in setup.space.settings]
        #: Steps along all settings: one by one, and some together; those that matter most come first.
        self.moves = [
            tuple(move.get(name, 0) for name in names)
            for move in (*_TOGETHER, *({name: 1} for name in names))
            if set(move) <= set(names)
        ]
        self.best = np.inf

    def _at(self, choice: Choice) -> SearchSetup:
        """The search with some settings."""
        if choice not in self._setups:
            if len(self._setups) > 200:
                self._setups.clear()
            space = self.setup.space.at(choice)
            self._setups[choice] = replace(self.setup, space=space, model=self.setup.cost_model.at(space))
        return self._setups[choice]

    def step(self) -> BatchResult:
        """A batch of the search with fixed settings, or a few neighbours of a descent."""
        inner = self.inner
        if self.place is None and self.due <= inner.spent and inner.elites[0]:
            self.place, self.value = self.choice, self._value(inner.elites[0][0].value, self.choice)
            self._sweep()
        if self.place is not None:
            return self._descend()
        found = inner.step()
        return replace(found, candidates=self._kept(found.candidates))

    def _kept(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """What is best of all settings, and what may be on the front."""
        found = list(candidates)
        least = min((one.objective for one in found), default=np.inf)
        if len(found) == 1 and least >= self.best:
            return []  # best with these settings only
        self.best = min(self.best, least)
        return found

    # -- descent -----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """All moves are open again."""
        self.open, self.improved = [(n, way) for n in range(len(self.moves)) for way in (1, -1)], False

    def _descend(self) -> BatchResult:
        assert self.place is not None
        inner = self.inner
        task, rows = self._leaders()
        tried = 0
        while tried < _AT_ONCE and self.open and inner._room() >= len(rows):
            (move, way), *others = self.open
            there = tuple(n + way * step for n, step in zip(self.place, self.moves[move], strict=True))
            lengths = (len(values) for _, values in self.setup.space.settings)
            value = np.inf
            if all(0 <= n < length for n, length in zip(there, lengths, strict=True)):
                value = self._value_at(there, task, rows)
                inner.spent += len(rows)
                tried += 1
            if value < self.value - _BETTER:
                # the same again, and not back
                self.place, self.value, self.improved = there, value, True
                self.open = [(move, way), *(one for one in others if one != (move, -way))]
            else:
                self.open = others
            if not self.open and self.improved:
                self._sweep()
        if not self.open or inner._room() < len(rows):
            self._arrive()
        done = inner._left() < 1
        return BatchResult([], inner.spent, "settings", done, {})

    def _arrive(self) -> None:
        """Go on searching where a descent has ended."""
        assert self.place is not None
        old = self.inner
        if self.place != self.choice:
            inner = self.kind(self._at(self.place))
            inner.go_on_from(old)
            sizes = [len(one) for one in old.archive.genomes]
            task, rows = np.repeat(np.arange(len(sizes)), sizes), np.concatenate(old.archive.genomes)
            room = int(min(len(rows), max(0, inner._left())))
            # those of the leaders come first where not all can be paid for
            if room < len(rows):
                task, rows = self._leaders()
                room = int(min(len(rows), max(0, inner._left())))
            inner.archive.fresh(task, rows)
            inner._evaluate(task[:room], rows[:room])
            inner._rescan()
            self.inner, self.choice = inner, self.place
        self.place, self.open = None, []
        self.due = int(_LATER * self.inner.spent)

    def _leaders(self) -> tuple[Ints, Genomes]:
        """Mappings of the leading designs of all focuses, each once."""
        tasks, rows = [], []
        for task, genomes in enumerate(self.inner.archive.genomes):
            chosen = sorted({int(e.choice[task]) for elites in self.inner.elites for e in elites})
            tasks.append(np.full(len(chosen), task))
            rows.append(genomes[chosen])
        return np.concatenate(tasks), np.concatenate(rows)

    def _value_at(self, choice: Choice, task: Ints, rows: Genomes) -> float:
        """The best value that some mappings reach with other settings, on any accelerator; an evaluation each."""
        setup = self._at(choice)
        archive = Archive(setup.tasks, setup.space, setup.cost_model)
        selector = Selector(archive, setup.objective, self.inner.focuses[:1])
        if selector.points is not None and not len(selector.points):
            return np.inf
        archive.narrow(selector.sides())
        archive.add(task, rows)
        selector.ratio = self.inner.selector.ratio
        (elites,) = selector.scan([], [2], prune=False)
        return self._value(elites[0].value, choice) if elites else np.inf

    def _value(self, value: float, choice: Choice) -> float:
        """A value in nanoseconds, from that in cycles where clocks differ."""
        clock = self._at(choice).space.clock_mhz
        if clock is None:
            return value
        return value + self.inner.focuses[0].latency * float(portable.log(1e3 / clock))

    # -- resuming ----------------------------------------------------------------------------------------

    def state(self) -> State:
        """Snapshot: that of the search with fixed settings, and where it is."""
        numbers = {
            "choice": self.choice,
            "due": self.due,
            "place": self.place,
            "value": self.value if np.isfinite(self.value) else None,
            "open": self.open,
            "improved": self.improved,
            "best": self.best if np.isfinite(self.best) else None,
        }
        text = json.dumps(numbers).encode()
        return {**self.inner.state(), "settings": np.frombuffer(text, dtype=np.uint8).copy()}

    def restore(self, state: State) -> None:
        """Undo `state`."""
        numbers = json.loads(bytes(state["settings"]).decode())
        self.choice, self.due, self.improved = tuple(numbers["choice"]), numbers["due"], numbers["improved"]
        self.place = None if numbers["place"] is None else tuple(numbers["place"])
        self.open = [(move, way) for move, way in numbers["open"]]
        self.value = np.inf if numbers["value"] is None else numbers["value"]
        self.best = np.inf if numbers["best"] is None else numbers["best"]
        self.inner = self.kind(self._at(self.choice))
        self.inner.restore({name: value for name, value in state.items() if name != "settings"})
