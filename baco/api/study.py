"""`baco.Study`: a search to hold, to go on with, and to look at; `baco.explore` is one in a single call."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from baco.api.argument_types import checked
from baco.api.preparation import PreparedSearch, SearchOptions, search_of_study
from baco.api.result import Result, study_file
from baco.api.search_call import call_of
from baco.api.space import Space
from baco.common.errors import InputError, Location
from baco.exploration.candidate import BatchSummary

if TYPE_CHECKING:
    from baco.api.cost import CostTree
    from baco.api.trials import Conversation, Trial
    from baco.exploration.candidate import Candidate
    from baco.exploration.measure.measured_study import MeasuredOutcome
    from baco.exploration.objective import CostFunction, Objective
    from baco.exploration.progress import Budget, Progress
    from baco.exploration.report.data import ReportData
    from baco.exploration.samplers.sampler import Sampler


_Arguments = ParamSpec("_Arguments")
_Self = TypeVar("_Self")

#: Called after every batch of a search with the study and what the batch did; `study.stop()` ends the search.
Callback: TypeAlias = "Callable[[Study, BatchSummary], object]"


def _held(
    options: Callable[_Arguments, SearchOptions],
) -> Callable[[Callable[[_Self, SearchOptions], None]], Callable[Concatenate[_Self, _Arguments], None]]:
    """Decorates the `__init__` of what is made of options: its arguments are theirs."""

    def decorate(
        make: Callable[[_Self, SearchOptions], None],
    ) -> Callable[Concatenate[_Self, _Arguments], None]:
        def init(self: _Self, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
            make(self, options(*args, **kwargs))

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = [own, *inspect.signature(options).parameters.values()]
        init.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        return init

    return decorate


class Study(Result):
    """A search of a design space, step by step: `optimize` searches and can be called again; what was found is there in between.

    Everything is kept on disk as it is found: after Ctrl-C, or in another process, the study goes on where it was
    (`baco.load_study(folder).optimize(...)`). What a `Result` has, a study has as soon as it has searched.

    Its arguments are those of `baco.explore`, and it raises as that does, before anything is searched; `samples` and `time_limit`, if
    given, are what `optimize` spends that is given no budget.
    """

    @_held(SearchOptions)
    def __init__(self, options: SearchOptions) -> None:
        self._adopt(options.prepared())

    def _adopt(self, prepared: PreparedSearch) -> None:
        self._prepared, self._budget = prepared, (prepared.samples, prepared.time_limit)
        self.path, self.explored = prepared.file, prepared.kernel
        self.stopped, self.notes = None, ()
        self._stop, self._searching = False, False
        self._asking: Conversation | None = None

    @classmethod
    def of(cls, prepared: PreparedSearch) -> Study:
        """The study of a search whose parts are known to fit together."""
        made = cls.__new__(cls)
        made._adopt(prepared)
        return made

    # ------------------------------------------------------------------ searching

    @checked(
        callbacks="functions of the study and of what a batch did",
        progress="True, False, or an object with update(summary, budget) and note(text)",
    )
    def optimize(
        self,
        samples: int | None = None,
        seconds: float | None = None,
        *,
        total: bool = False,
        callbacks: Sequence[Callback] = (),
        progress: Progress | bool | None = None,
        command: str | None = None,
    ) -> Study:
        """Search on, until a budget is used, nothing is left to do, a callback calls `stop`, or Ctrl-C; `stopped` says which.

        A search plans with its budget, so that several calls with parts of one find about the same as one call, not the same.

        Args:
            samples: design points (a mapping for every layer) to spend now. Without both budgets: what the study's own, or the
                default (see `baco.explore`), leaves.
            seconds: of search, now.
            total: budgets are for all sessions together, so that the same call again, after an interruption, only does what is left.
            callbacks: called after every batch with this study and a summary (`evaluations`, `seconds`, `best_objective`,
                `phase`). An exception that one raises ends the call; the study holds what was found.
            progress: as of `baco.explore`.
            command: what reports say reproduces the study; by default a call of `baco.explore`.

        Returns this study. Raises as `baco.explore` does.
        """
        from baco.display.progress import shown
        from baco.exploration.search.searcher import check_budget

        if samples is None and seconds is None:
            samples, seconds, total = (*self._budget, True)
        check_budget(samples, seconds)
        for one in callbacks:
            if not callable(one):
                raise InputError(f"a callback is a function of the study and a summary, not {one!r}")
        if not total:
            spent, lasted = self._spent()
            samples = None if samples is None else spent + samples
            seconds = None if seconds is None else lasted + seconds
        prepared = self._prepared.at_start()
        prepared = dataclasses.replace(prepared, samples=samples, time_limit=seconds)
        self._prepared, self.path = prepared, prepared.file
        self._stop, self._searching = False, True
        try:
            with shown(progress, str(prepared.objective)) as display:
                outcome = prepared.run(_Watched(self, display, callbacks), command or call_of(prepared))
        finally:
            self._searching = False
            self._prepared = dataclasses.replace(prepared, resume=prepared.resume or prepared.file.exists())
            self.reload()
        self.stopped, self.notes = outcome.stopped, outcome.notes
        return self

    def stop(self) -> None:
        """End the search that is going on, after its batch: for callbacks, and for who asks and tells."""
        self._stop = True
        if self._asking is not None:
            self._asking.end()
            self._asking = None

    def ask(self) -> Trial | None:
        """The next designs that the sampler proposes, for `tell` to say what they cost; None when the budget is used up.

        The first call begins a search with the study's budget (`Study(..., samples=...)`, else the default); `stop` ends it early. What
        the study keeps are the designs with their predicted costs, as of `optimize`; what is told is what the sampler learns from.

        Raises InputError for a search that is no sampler's (`gradient`, `local`, a kernel's), and as `optimize` does.
        """
        from baco.api.trials import Conversation
        from baco.exploration.samplers.searchers import can_be_asked

        if self._asking is None:
            if not can_be_asked(self.sampler):
                raise InputError(
                    f"the search '{self.sampler}' judges its designs itself",
                    hint="ask a sampler: random, bayesian, genetic, two-loop, evolution, or a class of your own",
                )
            self._asking = Conversation(lambda: self.optimize(progress=False))
        found = self._asking.ask()
        if found is None:
            self._asking = None
        return found

    @checked()
    def tell(self, trial: Trial, values: Sequence[Any] | None = None) -> None:
        """What the designs of a trial cost, as the user found it.

        Args:
            trial: the one that `ask` gave last.
            values: for each of its designs the objective (of several a tuple), a positive number; None for a design that is out of
                question. Without values, the sampler is told what is predicted.

        Raises InputError for another trial, and for values that are none.
        """
        if self._asking is None:
            raise InputError("nothing has been asked", hint="trial = study.ask()")
        self._asking.tell(trial, values)

    def _spent(self) -> tuple[int, float]:
        """Design points and seconds of all sessions so far."""
        last = self._last()
        return (0, 0.0) if last is None else (math.ceil(last[1]), last[0].seconds)

    def _last(self) -> tuple[BatchSummary, float] | None:
        """The last batch, and the design points spent up to it."""
        from baco.exploration.studies.study import StudyRecord

        if not (self._prepared.resume or self._searching) or not self.path.exists():
            return None
        with StudyRecord.open(self.path, read_only=True) as record:
            if not record.batches:
                return None
            last = record.summaries()[-1]
            return last, last.evaluations / len(record.tasks)

    # ------------------------------------------------------------------ what was found

    def _read(self) -> ReportData:
        if not (self._prepared.resume or self._searching) or not self.path.exists():
            raise InputError(
                "nothing has been searched yet",
                location=Location(str(self.folder)),
                hint="study.optimize(samples=...) searches",
            )
        return super()._read()

    @property
    def best(self) -> Candidate:
        """As of `Result`; during a search, the best so far. Raises InputError before anything was searched, InfeasibleError as long
        as no design is feasible."""
        if not self._searching:
            return super().best
        from baco.common.errors import InfeasibleError
        from baco.exploration.studies.study import StudyRecord

        with StudyRecord.open(self.path, read_only=True) as record:
            found = record.best()
        if found is None:
            raise InfeasibleError("no feasible design was found yet", location=Location(str(self.folder)))
        return found

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        return self._prepared.objective

    @property
    def space(self) -> Space:
        """What is searched, with all constraints."""
        return Space.of(self._prepared.space)

    @property
    def sampler(self) -> str:
        """What proposes designs, by name."""
        return self._prepared.search

    @property
    def networks(self) -> list[str]:
        """Names of what is explored."""
        return [one.name for one in self._prepared.workload.networks]

    @property
    def samples(self) -> float:
        """Design points spent, all sessions."""
        last = self._last()
        return 0.0 if last is None else last[1]

    @property
    def seconds(self) -> float:
        """Search time, all sessions."""
        last = self._last()
        return 0.0 if last is None else last[0].seconds

    @checked()
    def cost(self, design: int | Candidate | None = None) -> CostTree:
        """What a design is predicted to cost, part by part (`baco.cost`), groups of operators included.

        Args:
            design: a number of `frame()`, or a design; by default the best.

        Raises InputError for a number or design that the study does not have.
        """
        from baco.api.cost import design_tree

        index = self._index(design)
        costs, machine = self.data.costs[index], self.data.candidates[index].accelerator
        assert costs is not None, "report_data costs the parts of every candidate"
        texts = [one.text for one in self.data.candidates[index].mappings]
        return design_tree(costs, ", ".join(self.networks), machine, texts, self.data.search.cost_model)

    # ------------------------------------------------------------------ going on

    def measure(self, cycles: float, **options: Any) -> MeasuredOutcome:
        """As `baco.measure` with this study."""
        from baco.api.measure import measure

        return measure(self, cycles, **options)

    def validate(self, **options: Any) -> Study:
        """As `baco.validate` with this study, which then shows what was measured."""
        from baco.api.measure import validate

        validate(self, **options)
        return self

    def report(self, folder: str | Path | None = None) -> Path:
        """As `save_report`."""
        return self.save_report(folder)

    # ------------------------------------------------------------------ shown

    def _headline(self) -> str:
        return (
            f"{', '.join(self.networks)}: {self.objective} in {self._prepared.space.name}, by {self.sampler}"
        )

    def __repr__(self) -> str:
        if (known := self._last()) is None:
            return f"<Study {self._headline()}; nothing searched yet>"
        last, samples = known
        found = "no feasible design yet" if last.best_objective is None else f"best {last.best_objective:.5g}"
        return f"<Study {self._headline()}; {samples:,.0f} samples, {found}; {self.folder}>"

    def _repr_html_(self) -> str:
        last = self._last()
        if last is None or last[0].best_objective is None or self._searching:
            from baco.common.shown import shown_html

            return shown_html(repr(self).strip("<>"), self._prepared.space._facts())
        return super()._repr_html_()


class _Watched:
    """Shows a search's progress, and calls what a study was given to call."""

    def __init__(self, study: Study, display: Progress | None, callbacks: Sequence[Callback]) -> None:
        self._study, self._display, self._callbacks = study, display, callbacks

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """A batch has been recorded."""
        if self._display is not None:
            self._display.update(summary, budget)
        for one in self._callbacks:
            one(self._study, summary)

    def note(self, text: str) -> None:
        """A remark."""
        if self._display is not None:
            self._display.note(text)

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        """What is done before the first batch."""
        tell = getattr(self._display, "doing", None)
        if tell is not None:
            tell(text, done, of)

    def stopped(self) -> bool:
        """Whether somebody asked for the end."""
        return self._study._stop


@checked()
def load_study(
    folder: str | Path,
    *,
    objective: CostFunction | Sequence[str | CostFunction] | None = None,
    sampler: type[Sampler] | None = None,
) -> Study:
    """An earlier study, from its folder or its file, to look at or to go on with; a search may still be going on in it.

    Args:
        objective: where functions were minimised, these: no file holds them.
        sampler: where a sampler of the user's own is to go on, its class.

    Raises InputError where there is no study, StorageError for a damaged one.
    """

    return Study.of(search_of_study(study_file(Path(folder)), objective, sampler))


def _at_once(options: Callable[_Arguments, SearchOptions]) -> Callable[_Arguments, Study]:
    """Searches with options: arguments, and what is said of them, are those of the options."""

    def explore(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Study:
        made = options(*args, **kwargs).prepared()
        return Study.of(made).optimize(made.samples, made.time_limit, total=True, progress=made.progress)

    explore.__doc__ = options.__doc__
    signature = inspect.signature(options).replace(return_annotation="Study")
    explore.__signature__ = signature  # type: ignore[attr-defined]
    return explore


explore = _at_once(SearchOptions)
