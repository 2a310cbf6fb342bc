"""The loop that runs a searcher, keeps every batch in a study, and can be interrupted and resumed.

A *sample* is one design point, that is, one mapping for every task: a budget of n samples is n x tasks
problem-mapping evaluations (one with gradient counts as three). With a budget in samples nothing depends on
the clock, so that the same seed, versions and budget give the same study, interrupted or not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from baco.common.errors import BacoError, InfeasibleError, InputError, Location, StorageError
from baco.compiler.layers.layer import Layer
from baco.exploration.accuracy import kept_accuracy
from baco.exploration.candidate import BatchSummary, Candidate, CostModelName
from baco.exploration.cost.infeasible import (
    Impossible,
    Patience,
    impossible,
    infeasible_error,
    no_accelerator_error,
)
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.proof import BOUND, PHASE, provable, prove
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget, Progress, Told, interrupted
from baco.exploration.records import DecidedPrograms, ProvenanceRecord, SessionRecord
from baco.exploration.rest import RestOfPrograms
from baco.exploration.samplers.searchers import check_searcher, groups_itself, make_searcher
from baco.exploration.search.searcher import (
    BatchResult,
    GroupingSearcher,
    Searcher,
    SearchSetup,
    check_budget,
)
from baco.exploration.space import DesignSpace
from baco.exploration.space.shortfall import Shortfall, shortfall
from baco.exploration.studies.interruption import StopRequest
from baco.exploration.studies.preparation import (
    describe_setup,
    made_now,
    opened_study,
    programs_beside,
    settled,
    studied_model,
)
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.exploration.studies.suggest import tried_bounds, with_bounds
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.network import Workload

if TYPE_CHECKING:
    from baco.exploration.cost.program_rest import Programs
    from baco.exploration.search.groups import Grouping

#: Samples spent unless the user says otherwise, by cost model: an evaluation by commands costs several of the reference
#: model's, and the search is done sooner, since most of what it changes are the sizes of macro tiles.
DEFAULT_SAMPLES: dict[CostModelName, int] = {"instruction": 5000, "reference": 20000}
#: A searcher that neither spends nor finds anything for so many batches in a row is broken, not thinking.
_MOST_IDLE_BATCHES = 1000

Stopped = Literal["budget", "time", "converged", "interrupted"]


@dataclass(frozen=True)
class SearchOutcome:
    """How a search ended; everything else is in the study.

    Attributes:
        path: the study's file.
        setup: what was searched.
        best: least objective.
        front: Pareto front in `Objective.front_metrics`.
        evaluations: problem-mapping evaluations spent, all sessions.
        seconds: search time, all sessions.
        stopped: `budget` or `time` used up, `converged` (the searcher had nothing left to do),
            or `interrupted` by the user.
        resumed: True when an earlier session was continued.
        notes: what the user should know, as given to `Progress.note`.
        proven_edp: no design of the space has a lower EDP, µJ·cycles; None where that was not proven.
    """

    path: Path
    setup: SearchSetup
    best: Candidate
    front: tuple[Candidate, ...]
    evaluations: int
    seconds: float
    stopped: Stopped
    resumed: bool
    notes: tuple[str, ...] = ()
    proven_edp: float | None = None

    @property
    def interrupted(self) -> bool:
        """True when the user ended the search before its budget was used."""
        return self.stopped == "interrupted"


def run_exploration(
    workload: Workload,
    space: DesignSpace,
    objective: Objective,
    searcher: str = "gradient",
    samples: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    *,
    out: Path,
    resume: bool = False,
    proof: bool = False,
    cost_model: str | None = None,
    whole: bool = True,
    fusion: bool = True,
    blocks: Sequence[tuple[int, int, int]] = (),
    progress: Progress | None = None,
    command: str | None = None,
) -> SearchOutcome:
    """Search, keeping every batch in `out`/study.sqlite, until the budget is used, or SIGINT or SIGTERM comes.

    A first signal lets the current batch finish and be recorded; a second raises KeyboardInterrupt at once,
    and the study holds all batches before. Either way `resume` continues.

    Args:
        searcher: a name in `baco.exploration.samplers.searchers.SEARCHERS`.
        samples: design points in total. By default `DEFAULT_SAMPLES`, or no limit when `time_limit` is given;
            when resuming, what the study was given last.
        time_limit: seconds of search in total, interruptions excluded; checked between batches.
        out: folder of the study, created when missing.
        resume: continue the study in `out`, or start one if there is none. A finished study goes on when it
            gets a larger budget, and is returned as it is otherwise.
        proof: when the search has ended, prove how near the optimum the best design is, where `provable`, and
            add the optimum if the search missed it. No samples are charged for this. Nothing can be proven of
            the instruction-aware model, with which there is no proof.
        cost_model: a name in `baco.exploration.cost.choice.COST_MODELS`; by default that of the study to resume, or of
            `default_cost_model`.
        whole: minimise what whole programs cost, with everything beside the tensor operators; else these alone, as the
            reference model always does.
        fusion: of whole programs, operators may run as one unit (`baco.exploration.search.groups`).
        blocks: of a kernel, see `SearchSetup`.
        command: the command line to reproduce the study; by default this process's.

    Raises:
        InputError: nothing to explore, a bad budget, an unknown searcher or cost model, a cost model that cannot
            predict the space, or settings that differ from those of the study to resume.
        InfeasibleError: no feasible candidate was found; names the binding constraint.
        StorageError: a study is in `out` and `resume` is False, or it is damaged, locked, or cannot be written.
    """
    _check(workload, samples, time_limit, None if blocks else searcher)
    with contextlib.ExitStack() as stack:
        asked = getattr(progress, "stopped", None)
        stop = stack.enter_context(StopRequest(progress.note if progress is not None else None, asked))
        told = Told(out, progress, lambda: stop.requested)
        model_name = studied_model(cost_model, space, out / FILE_NAME if resume else None)
        space, whole, fusion = settled(space, model_name, told.note, whole=whole, fusion=fusion)
        record = describe_setup(
            workload, space, objective, searcher, seed, model_name, whole=whole, fusion=fusion, blocks=blocks
        )
        made = made_now(record, command)
        programs = _programs(workload, space, model_name, out)
        searched = None if programs is None or blocks else partial(programs.searched, workload, space)
        study = stack.enter_context(
            opened_study(
                out,
                record,
                workload,
                searched or (lambda: workload.tasks),
                made,
                resume=resume,
                note=told.note,
            )
        )
        budget = _budget(study, samples, time_limit)
        prepare = partial(_prepared, study, workload, space, budget, blocks, programs, told)
        return _continued(study, budget, made, prepare, stop, progress, told, proof=proof)


def _continued(
    study: StudyRecord,
    budget: Budget,
    made: ProvenanceRecord,
    prepare: Callable[[], _Ready],
    stop: StopRequest,
    progress: Progress | None,
    told: Told,
    *,
    proof: bool,
) -> SearchOutcome:
    """One session of a study: the search goes on while there is budget, then what remains is proven if that is asked for.

    Raises as `run_exploration`.
    """
    sessions = study.sessions()
    finished = study.done and not _larger(budget, sessions)
    if not finished:
        study.begin_session({**made, "samples": budget.samples, "time_limit": budget.time_limit})
    start = time.monotonic()
    ready = prepare()
    if not finished:
        engine = make_searcher(study.setup["searcher"], ready.setup)
        stopped = _search(study, engine, ready, budget, stop, progress, start)
    else:
        stopped = _completed(study.summaries()[-1].evaluations, budget)
    if stopped is None:
        raise _infeasible(study, ready, stop)
    if proof and stopped != "interrupted" and not _prove(study, ready.setup, stop, budget, progress):
        stopped = "interrupted"
    return _outcome(study, ready, stopped, stop, resumed=bool(sessions), notes=told.notes)


def _programs(workload: Workload, space: DesignSpace, model: CostModelName, folder: Path) -> Programs | None:
    """Of the networks, whose layers are searched, with the study's numbers; None where only problems count."""
    if model != "instruction":
        return None
    from baco.exploration.cost.program_rest import Programs  # loads the compiler

    quantiser = kept_accuracy(folder).quantiser
    return Programs(workload.networks, keep=bool(space.settings), quantiser=quantiser)


def _check(workload: Workload, samples: int | None, time_limit: float | None, searcher: str | None) -> None:
    """Raises InputError for what no search can be made of; `searcher`: its name, None where a kernel's blocks are searched."""
    if not workload.tasks:
        raise InputError("the networks have no operator that the accelerator could run")
    check_budget(samples, time_limit)
    if searcher is not None:
        check_searcher(searcher)


@dataclass
class _Ready:
    """A search that can begin.

    Attributes:
        setup: all that a searcher needs to know, what programs do beside the tasks included, which the study keeps.
        proven_none: the proof that no design is feasible, where there is one.
        grouping: decides which operators run as one unit, when a search with `setup` has begun; None where that is known.
    """

    setup: SearchSetup
    layers: Sequence[Layer] | None
    proven_none: Impossible | None = None
    grouping: Grouping | None = None

    def prove(self, rest: RestOfPrograms | None, *, far: bool) -> None:
        """Look for a proof, with what programs do beside the tasks."""
        space = self.setup.space
        # limits hold for the settings of the base alone, and for groups that are known
        known = self.proven_none is None and not space.settings
        if known and (space.constraints.power_mw is not None or not far):
            self.proven_none = impossible(limits_of(self.setup.tasks, space, self.layers, rest))

    def hopeless(self, study: StudyRecord) -> bool:
        """Whether it is known that nothing is feasible, or anywhere near."""
        return self.proven_none is not None or study.far_off

    def decided(self, study: StudyRecord) -> DecidedPrograms | None:
        """What a batch has decided of the programs, if it has."""
        if self.grouping is None or self.grouping.decided is None:
            return None
        rest, far = self.grouping.decided
        self.grouping = None
        self.setup = dataclasses.replace(self.setup, model=self.setup.cost_model.beside(rest), grouping=None)
        self.prove(rest, far=far)
        return DecidedPrograms(rest, study.searches_units, far)


def _prepared(
    study: StudyRecord,
    workload: Workload,
    space: DesignSpace,
    budget: Budget,
    blocks: Sequence[tuple[int, int, int]],
    programs: Programs | None,
    told: Told,
) -> _Ready:
    objective, seed, name = study.objective, study.setup["seed"], study.cost_model
    tasks, layers = study.tasks, layers_of_tasks(study.tasks, workload)
    known, rest = study.rest, None
    if study.setup["whole"]:
        assert programs is not None
        space, rest = programs_beside(study, workload, space, programs, told.note, told.doing)
        if known is not None:
            study.rest = rest
    short = shortfall(space)
    if short is not None:
        told.doing("looking for bounds that designs satisfy")
        room = dataclasses.replace(space, constraints=with_bounds(space.constraints, short.feasible))
        roomy = make_cost_model(name, layers, room, rest)
        raise _no_accelerator(
            short, study.setup["searcher"], SearchSetup(tasks, space, objective, None, seed, roomy)
        )
    compiled = layers if name == "instruction" else None
    proven_none = None
    power_bounded = space.constraints.power_mw is not None
    if study.fusion and not blocks and not power_bounded:
        proven_none = impossible(limits_of(tasks, space, compiled, fused=True))
    grouping = None
    setup = SearchSetup(tasks, space, objective, budget.evaluations, seed, None, tuple(blocks))
    if rest is not None and programs is not None and (known is None or study.undecided):
        far = proven_none is not None
        if study.fusion and not far:
            rest, far, grouping = _fused(rest, programs, workload, setup, study.setup["searcher"], told)
        if known is None:
            found = DecidedPrograms(rest, space.search_units, far)
            study.keep_programs(found, open=grouping is not None)
    model = make_cost_model(name, layers, space, rest)
    decide = None if grouping is None else grouping.decide
    ready = _Ready(dataclasses.replace(setup, model=model, grouping=decide), compiled, proven_none, grouping)
    if grouping is None:
        ready.prove(rest, far=study.far_off)
    return ready


def _fused(
    rest: RestOfPrograms,
    programs: Programs,
    workload: Workload,
    setup: SearchSetup,
    searcher: str,
    told: Told,
) -> tuple[RestOfPrograms, bool, Grouping | None]:
    """The programs with operators that run as one unit where that is better, and whether nothing is near the constraints; or
    without, and what is to decide when the search has begun."""
    if setup.blocks:
        from baco.exploration.search.kernel_units import with_unit  # loads the compiler

        return with_unit(rest, workload, setup.space, setup.blocks), False, None
    from baco.exploration.search.groups import Grouping

    model = make_cost_model("instruction", layers_of_tasks(setup.tasks, workload), setup.space, rest)
    without = dataclasses.replace(setup, model=model)
    if groups_itself(searcher):
        grouping = Grouping(rest, programs, without, told.say)
        return rest, False, grouping if grouping.needed else None
    return *Grouping(rest, programs, without, told.doing).decide_first(), None


def _budget(study: StudyRecord, samples: int | None, time_limit: float | None) -> Budget:
    """The budget asked for, else that of the study's last session, else the default."""
    tasks, sessions = len(study.tasks), study.sessions()
    if samples is None and time_limit is None:
        if sessions:
            samples, time_limit = sessions[-1]["samples"], sessions[-1]["time_limit"]
        else:
            samples = DEFAULT_SAMPLES[study.cost_model]
    return Budget(samples, None if samples is None else samples * tasks, time_limit, tasks)


def _larger(budget: Budget, sessions: list[SessionRecord]) -> bool:
    """Whether a search that said it was done within its last budget may go on."""
    before = sessions[-1]["samples"] if sessions else None
    return before is not None and (budget.samples is None or budget.samples > before)


def _completed(evaluations: int, budget: Budget) -> Stopped:
    """What ended a search whose searcher said that it was done."""
    spent = budget.evaluations is not None and evaluations >= budget.evaluations
    return "budget" if spent else "converged"


def _search(
    study: StudyRecord,
    searcher: Searcher,
    ready: _Ready,
    budget: Budget,
    stop: StopRequest,
    progress: Progress | None,
    start: float,
) -> Stopped | None:
    """Step the searcher until something ends the search; `start` is when this session's clock began.

    None where patience is over: nothing was feasible, nor would be.
    """
    patience = Patience(ready.setup.space.constraints, len(study.tasks), hopeless=ready.hopeless(study))
    evaluations, seconds_before = 0, 0.0
    restored = study.batches > 0
    if restored:
        study.restore(searcher)
        for last in study.summaries():
            patience.see(last)
        evaluations, seconds_before = last.evaluations, last.seconds
    idle = 0
    while True:
        seconds = seconds_before + time.monotonic() - start
        if budget.evaluations is not None and evaluations >= budget.evaluations:
            return "budget"
        # whatever came before, one batch is made, so that there is a result
        late = budget.time_limit is not None and seconds >= budget.time_limit and study.batches > 0
        if late and ready.grouping is None:
            return "time"
        if stop.requested:
            return "interrupted"
        if patience.over:
            return None
        with _from_snapshot(study, restored):
            if late:
                assert isinstance(searcher, GroupingSearcher)
                result = searcher.group()
            else:
                result = searcher.step()
        programs = ready.decided(study)
        if programs is not None:
            patience.hopeless = ready.hopeless(study) or programs.far
        idle = 0 if result.candidates or result.evaluations > evaluations else idle + 1
        if idle > _MOST_IDLE_BATCHES and not result.done:
            raise RuntimeError(f"{type(searcher).__name__} makes no progress in phase '{result.phase}'")
        evaluations = result.evaluations
        seconds = seconds_before + time.monotonic() - start
        summary = _summary(study, result, seconds, anew=programs is not None)
        nearest = result.nearest if patience.see(summary) else ()
        state = searcher.state()
        study.record(summary, result.candidates, state, done=result.done, nearest=nearest, programs=programs)
        if progress is not None:
            progress.update(summary, budget)
        if result.done:
            return _completed(evaluations, budget)


@contextlib.contextmanager
def _from_snapshot(study: StudyRecord, restored: bool) -> Iterator[None]:
    """A searcher that began from a snapshot believes its arrays; what it trips over may be what somebody wrote there."""
    try:
        yield
    except BacoError:
        raise
    except Exception as error:
        if not restored:
            raise
        raise StorageError(
            f"the search cannot go on from this study's snapshot: {type(error).__name__}: {error}",
            location=Location(str(study.path)),
            hint="take a copy that nobody has edited, or explore again into another folder; if this study is as"
            " baco wrote it, please report it",
        ) from error


def _prove(
    study: StudyRecord,
    setup: SearchSetup,
    stop: StopRequest,
    budget: Budget,
    progress: Progress | None,
) -> bool:
    """Record a proof as the study's last batch, unless it is there or nothing can be proven. False if a signal ended it before: it is done again
    when the study is resumed, so that what it finds does not depend on when that was."""
    best, state = study.best(), study.state()
    if best is None or state is None:
        return True
    if not setup.cost_model.exact or not provable(setup.space, study.objective):
        return True
    last = study.summaries()[-1]
    if last.phase == PHASE:
        return True
    begun = time.monotonic()
    found = prove(best, setup.space, study.objective, lambda: stop.requested)
    if found is None:
        return False
    better = [] if found.better is None else [found.better]
    result = BatchResult(better, last.evaluations, PHASE, True, found.details)
    summary = _summary(study, result, last.seconds + time.monotonic() - begun)
    study.record(summary, better, state, done=study.done)
    if progress is not None:
        progress.update(summary, budget)
    return True


def _summary(study: StudyRecord, result: BatchResult, seconds: float, *, anew: bool = False) -> BatchSummary:
    """Of a batch; with `anew` designs from before do not count."""
    scores = [study.objective.scalar(candidate.cost) for candidate in result.candidates]
    if study.best_objective is not None and not anew:
        scores.append(study.best_objective)
    return BatchSummary(
        batch=study.batches,
        evaluations=result.evaluations,
        seconds=seconds,
        best_objective=min(scores, default=None),
        phase=result.phase,
        details=dict(result.details),
    )


def _outcome(
    study: StudyRecord, ready: _Ready, stopped: Stopped, stop: StopRequest, *, resumed: bool, notes: list[str]
) -> SearchOutcome:
    summaries = study.summaries()
    evaluations = summaries[-1].evaluations if summaries else 0
    best = study.best()
    if best is None:
        if stopped == "interrupted":
            raise interrupted(study.path.parent, evaluations)
        raise _infeasible(study, ready, stop)
    return SearchOutcome(
        path=study.path,
        setup=ready.setup,
        best=best,
        front=tuple(study.front()),
        evaluations=evaluations,
        seconds=summaries[-1].seconds,
        stopped=stopped,
        resumed=resumed,
        notes=tuple(notes),
        proven_edp=summaries[-1].details.get(BOUND),
    )


def _no_accelerator(short: Shortfall, searcher: str, setup: SearchSetup) -> InfeasibleError:
    """The error of a space without accelerators: with bounds that a design satisfies, those on mappings included."""
    with StopRequest() as stop:
        feasible = tried_bounds(searcher, setup, {}, lambda: stop.requested, short.feasible)
    return no_accelerator_error(setup.space.constraints, short, feasible)


def _infeasible(study: StudyRecord, ready: _Ready, stop: StopRequest) -> InfeasibleError:
    """The error of a study without a feasible design: about its nearest one, and bounds to put in place."""
    setup = dataclasses.replace(ready.setup, grouping=None)
    constraints = setup.space.constraints
    patience = Patience(constraints, len(study.tasks), hopeless=False)
    evaluations = 0
    for summary in study.summaries():
        patience.see(summary)
        evaluations = summary.evaluations
    tried = tried_bounds(study.setup["searcher"], setup, patience.nearest, lambda: stop.requested)
    return infeasible_error(constraints, patience.nearest, evaluations, ready.proven_none, tried)
