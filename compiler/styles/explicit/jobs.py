"""Runs of moves that can be issued a few at a time, between the passes of the array.

The reservation station takes commands in program order and holds few of each class: a long run of moves keeps the
passes behind it waiting, and one behind the passes starts too late. So a run is a job that keeps its place in variables,
and the passes of the tile before call it to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baco.compiler.ir.emit import Cell, Condition, Emitter, Number

#: Writes the moves of one step, from the job's parameters and loop numbers.
Body = Callable[[Sequence[Number], Sequence[Number]], None]
#: Upper ends of a job's loops, outermost first, from its parameters.
Bounds = Callable[[Sequence[Number]], Sequence[Number]]


class MoveJob:
    """A nest of loops around a few moves.

    Args:
        e: what writes the program.
        parameters: how many numbers the job is started with.
        loops: how many loops it has.
        bounds, body: its loops and what is in them.
        whole: never interrupted: `start` writes loops, and nothing is left to do.
        after: a job that has to end before this one takes steps.
    """

    def __init__(
        self,
        e: Emitter,
        parameters: int,
        loops: int,
        bounds: Bounds,
        body: Body,
        *,
        whole: bool,
        after: MoveJob | None = None,
    ) -> None:
        self._e, self._bounds, self._body, self._after = e, bounds, body, after
        # of the innermost loop, where nothing is clipped
        inner = bounds([0] * parameters)[-1]
        self.run = inner if isinstance(inner, int) else 1
        self._parameters: list[Cell] = []
        self._at: list[Cell] = []
        self._active: Cell | None = None
        if not whole:
            self._parameters = [e.variable(0) for _ in range(parameters)]
            self._at = [e.variable(0) for _ in range(loops)]
            self._active = e.variable(0)

    @property
    def whole(self) -> bool:
        """Whether it is never interrupted."""
        return self._active is None

    @property
    def flag(self) -> Number:
        """1 if steps are left, else 0."""
        return 0 if self._active is None else self._active.get()

    @property
    def active(self) -> Condition:
        """Whether steps are left."""
        return self._e.compare("ne", self.flag, 0)

    def start(self, parameters: Sequence[Number]) -> None:
        """Begin. What is left of an earlier run is forgotten."""
        bounds = self._bounds(parameters)
        if self._active is None:
            self._loops(parameters, bounds, [])
            return
        e = self._e
        for cell, number in zip(self._parameters, parameters, strict=True):
            cell.set(number)
        some: Condition = True
        for cell, bound in zip(self._at, bounds, strict=True):
            cell.set(0)
            some = e.both(some, e.compare("sgt", bound, 0))
        self._active.set(e.select(some, 1, 0))

    def step(self, most: int = 1) -> None:
        """Up to `most` steps of one run of the innermost loop, if any is left and its time has come."""
        if self._active is None:
            return
        e = self._e
        blocked = 0 if self._after is None else self._after.flag
        with e.when(self.active), e.when(e.compare("eq", blocked, 0)):
            self._some(most)

    def finish(self) -> None:
        """All steps that are left."""
        if self._active is None:
            return
        e = self._e
        with e.when(self.active):
            # runs left: the outer loops' numbers, counted down, as one mixed-radix number
            left: Number = 0
            bounds = self._bounds([cell.get() for cell in self._parameters])
            for cell, bound in zip(self._at[:-1], bounds[:-1], strict=True):
                left = e.add(e.mul(left, bound), e.sub(e.sub(bound, 1), cell.get()))
            with e.loop(e.add(left, 1)):
                self._some(None)

    def _loops(self, parameters: Sequence[Number], bounds: Sequence[Number], at: list[Number]) -> None:
        if len(at) == len(bounds):
            self._body(parameters, at)
            return
        with self._e.loop(bounds[len(at)]) as index:
            self._loops(parameters, bounds, [*at, index])

    def _some(self, most: int | None) -> None:
        """Steps of the innermost loop, at most so many or to its end: neighbours share most of their arithmetic."""
        e = self._e
        parameters = [cell.get() for cell in self._parameters]
        bounds = self._bounds(parameters)
        at = [0 if bound == 1 else cell.get() for cell, bound in zip(self._at, bounds, strict=True)]
        left = e.sub(bounds[-1], at[-1])
        count: Number = left if most is None else e.min(most, left)
        if most == 1:
            count = 1
        with e.loop(count) as step:
            self._body(parameters, [*at[:-1], e.add(at[-1], step)])
        self._advance(len(at) - 1, at, bounds, count)

    def _advance(self, place: int, at: Sequence[Number], bounds: Sequence[Number], by: Number = 1) -> None:
        """Count the loop at `place` on, and those outside it when it ends."""
        e = self._e
        assert self._active is not None
        if place < 0:
            self._active.set(0)
            return
        if isinstance(bounds[place], int) and bounds[place] == 1:
            self._advance(place - 1, at, bounds)
            return
        following = e.add(at[place], by)
        ended = e.compare("sge", following, bounds[place])
        self._at[place].set(e.select(ended, 0, following))
        with e.when(ended):
            self._advance(place - 1, at, bounds)


@dataclass(frozen=True)
class Turns:
    """Jobs that take a step each whenever it is their turn.

    Attributes:
        jobs: the jobs.
        steps: that one job has to take while `beats` passes, or whatever a pace hears of, go by.
        together: steps at a turn, if there are so many: neighbours cost the host core a fraction of steps by
            themselves, but long rows keep the passes behind them waiting.
    """

    jobs: Sequence[MoveJob]
    steps: int
    beats: int
    together: int = 1

    @property
    def every(self) -> int:
        """Beats from turn to turn: a quarter earlier than necessary, since the last moves take their time too."""
        return max(1, min(self.together, self.steps) * self._beats // max(1, self.steps))

    @property
    def count(self) -> int:
        """Steps at a turn."""
        return max(1, -(-self.steps * self.every // self._beats))

    @property
    def _beats(self) -> int:
        return max(1, 3 * self.beats // 4)


class Pace:
    """Lets jobs take steps at regular intervals.

    One counter for those whose turn comes most often, which is all that most beats cost the host core; the others
    count its turns.
    """

    def __init__(self, e: Emitter, turns: Sequence[Turns]) -> None:
        self._e = e
        self._turns = sorted((turn for turn in turns if turn.jobs), key=lambda turn: turn.every)
        self._every: list[int] = []
        before = 1
        for turn in self._turns:
            self._every.append(max(1, turn.every // before))
            before *= self._every[-1]
        self._left = [e.variable(every) if every > 1 else None for every in self._every]

    def beat(self) -> None:
        """A pass has been written."""
        self._turn(0)

    def _turn(self, place: int) -> None:
        if place == len(self._turns):
            return
        e, cell = self._e, self._left[place]
        if cell is None:
            self._steps(self._turns[place])
            self._turn(place + 1)
            return
        left = e.sub(cell.get(), 1)
        cell.set(left)
        with e.when(e.compare("eq", left, 0), rarely=True):
            cell.set(self._every[place])
            self._steps(self._turns[place])
            self._turn(place + 1)

    def _steps(self, turns: Turns) -> None:
        e = self._e
        some: Number = 0
        for job in turns.jobs:
            some = e.bit_or(some, job.flag)
        with e.when(e.compare("ne", some, 0)):
            for job in turns.jobs:
                most = max(1, min(turns.count, job.run))
                with e.loop(-(-turns.count // most)):
                    job.step(most)
