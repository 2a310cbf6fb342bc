"""The loop that runs a searcher, keeps every batch in a study, and can be interrupted and resumed.

A *sample* is one design point, that is, one mapping for every task: a budget of n samples is n x tasks
problem-mapping evaluations (one with gradient counts as three). With a budget in samples nothing depends on
the clock, so that the same seed, versions and budget give the same study, interrupted or not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol

from baco.common.errors import BacoError, InfeasibleError, InputError, Location, StorageError
from baco.common.files import output_folder
from baco.common.provenance import Provenance, stable_hash, versions
from baco.exploration.candidate import BatchSummary, Candidate, CostModelName
from baco.exploration.cost.choice import check_cost_model, default_cost_model
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
from baco.exploration.layers import layers_of_tasks
from baco.exploration.objective import Objective
from baco.exploration.records import SessionRecord, SetupRecord, provenance_record
from baco.exploration.rest import RestBySettings, RestOfPrograms
from baco.exploration.search.base import BatchResult, Searcher, SearchSetup, check_budget, make_searcher
from baco.exploration.serialize import workload_to_json
from baco.exploration.shortfall import Shortfall, shortfall
from baco.exploration.space import DesignSpace
from baco.exploration.studies.study import FILE_NAME, Study, already_there
from baco.exploration.studies.suggest import tried_bounds, with_bounds
from baco.workloads.network import Task, Workload

#: Samples spent unless the user says otherwise, by cost model: an evaluation by commands costs several of the reference
#: model's, and the search is done sooner, since most of what it changes are the sizes of macro tiles.
DEFAULT_SAMPLES: dict[CostModelName, int] = {"instruction": 5000, "reference": 20000}
#: A searcher that neither spends nor finds anything for so many batches in a row is broken, not thinking.
_MOST_IDLE_BATCHES = 1000

Stopped = Literal["budget", "time", "converged", "interrupted"]


@dataclass(frozen=True)
class Budget:
    """What a search may spend in total, earlier sessions of a resumed study included.

    Attributes:
        samples: design points; None when only time limits.
        evaluations: the same in problem-mapping evaluations.
        time_limit: seconds of search; None when only samples limit.
    """

    samples: int | None
    evaluations: int | None
    time_limit: float | None


class Progress(Protocol):
    """Who wants to see a search advance (the command line's display)."""

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        """A batch has been recorded."""

    def note(self, text: str) -> None:
        """Something the user should know, in one sentence."""


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


class _StopRequest:
    """Within the block, a first SIGINT or SIGTERM only sets `requested`; a second stops at once.

    Signal handlers belong to the main thread; in another one the block changes nothing.

    Args:
        acknowledge: told at once that the first has come.
    """

    def __init__(self, acknowledge: Callable[[str], None] | None = None) -> None:
        self.requested = False
        self._acknowledge = acknowledge
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._acknowledge is not None:
            # in a thread of its own: the handler may have struck in the middle of a display's writing
            text = "stopping after this batch; once more (Ctrl-C) stops at once, and nothing recorded is lost"
            threading.Thread(target=self._acknowledge, args=(text,), daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def describe_setup(
    workload: Workload,
    space: DesignSpace,
    objective: Objective,
    searcher: str,
    seed: int,
    cost_model: CostModelName = "reference",
    rest: RestOfPrograms | None = None,
    *,
    fusion: bool = False,
    blocks: Sequence[tuple[int, int, int]] = (),
) -> SetupRecord:
    """What determines a study's result, budget and versions apart, as plain JSON.

    The space is kept as YAML and the networks as whole graphs, so that a report needs no other file.
    """
    record: SetupRecord = {
        "workload": workload_to_json(workload),
        "space": space.to_yaml(),
        "space_name": space.name,
        "space_hash": space.space_hash,
        "objective": str(objective),
        "searcher": searcher,
        "seed": int(seed),
        "cost_model": cost_model,
        "rest": None if rest is None else rest.to_json(),
        "fusion": fusion,
    }
    if blocks:
        record["blocks"] = [list(one) for one in blocks]
    return record


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
        searcher: a name in `baco.exploration.search.base.SEARCHERS`.
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
    if not workload.tasks:
        raise InputError("the networks have no operator that the accelerator could run")
    check_budget(samples, time_limit)
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        if progress is not None:
            progress.note(text)

    model_name = _cost_model(cost_model, space, out / FILE_NAME if resume else None)
    if space.search_units and space.base.timing == "gemmini":
        note("the original Gemmini has no row functions: only accelerators without them are searched")
        space = space.without_units()
    rest: RestOfPrograms | None = None
    if whole and model_name == "instruction":
        from baco.exploration.cost.rest import rest_by_settings, rest_in_space  # loads the compiler

        rest = rest_by_settings(workload, space) if space.settings else rest_in_space(workload, space)
        for name, reason in rest.reasons.items():
            if any(rest.operators[name].values()):
                note(
                    f"{name} cannot become one program ({reason}): what its host operators take is estimated from the graph"
                )
    if space.search_units and not units_may_pay(space, rest):
        rest = rest.without_units() if rest is not None else None
        space = space.without_units()
    fusion = fusion and rest is not None and space.base.timing == "baco"
    if fusion and space.settings:
        fusion = False
        note(
            "operators run one by one while settings are searched; explore with the best ones fixed to fuse some"
        )
    record = describe_setup(
        workload, space, objective, searcher, seed, model_name, rest, fusion=fusion, blocks=blocks
    )
    path = output_folder(out) / FILE_NAME
    study = _study_to_resume(path, record, workload.tasks, resume, note)
    with contextlib.ExitStack() as stack:
        if study is not None:
            stack.enter_context(study)
            if isinstance(rest, RestBySettings) and isinstance(study.rest, RestBySettings):
                study.rest = rest = dataclasses.replace(study.rest, find=rest.find)
            rest = study.rest
        sessions = study.sessions() if study is not None else []
        default = DEFAULT_SAMPLES[model_name]
        budget = _budget(sessions, samples, time_limit, len(workload.tasks), default)
        layers = layers_of_tasks(workload.tasks, workload)
        short = shortfall(space)
        if short is not None:
            room = dataclasses.replace(space, constraints=with_bounds(space.constraints, short.feasible))
            roomy = make_cost_model(model_name, layers, room, rest)
            raise _no_accelerator(
                short, searcher, SearchSetup(workload.tasks, space, objective, None, seed, roomy)
            )
        model = make_cost_model(model_name, layers, space, rest)
        stop = stack.enter_context(_StopRequest(progress.note if progress is not None else None))
        start = time.monotonic()
        if rest is not None and fusion and study is None:
            from baco.exploration.search.groups import with_groups  # loads the compiler

            without = SearchSetup(workload.tasks, space, objective, None, seed, model)
            if blocks:
                from baco.exploration.search.kernel_units import with_unit

                rest = with_unit(rest, workload, space, blocks)
            else:
                rest = with_groups(rest, workload, without, lambda: stop.requested)
            if rest is None:
                raise _interrupted(0)
            model = make_cost_model(model_name, layers, space, rest)
            record["rest"] = rest.to_json()
        provenance = Provenance.now(seed=seed, configuration_hash=stable_hash(record), command=command)
        made = provenance_record(provenance)
        proven_none = None
        if not space.settings:  # limits hold for those of the base alone
            proven_none = impossible(
                limits_of(workload.tasks, space, layers if model.name == "instruction" else None, rest)
            )
        setup = SearchSetup(workload.tasks, space, objective, budget.evaluations, seed, model, tuple(blocks))
        proof = proof and model.exact and provable(space, objective)
        if study is not None and study.done and not _larger(budget, sessions):
            whole = not proof or _prove(study, space, stop, budget, progress)
            ended: Stopped = _completed(study.summaries()[-1].evaluations, budget) if whole else "interrupted"
            return _outcome(study, setup, ended, stop, resumed=True, notes=notes, proven_none=proven_none)
        # The searcher comes before the study, so that settings it refuses leave nothing behind.
        engine = make_searcher(searcher, setup)
        if study is None:
            study = stack.enter_context(Study.create(path, record, workload.tasks, made))
            if isinstance(rest, RestBySettings):
                study.rest = rest
        study.begin_session({**made, "samples": budget.samples, "time_limit": budget.time_limit})
        patience = Patience(space.constraints, len(workload.tasks), hopeless=proven_none is not None)
        stopped = _search(study, engine, patience, budget, stop, progress, start)
        if stopped is None:
            raise _infeasible(study, setup, proven_none, stop)
        if proof and stopped != "interrupted" and not _prove(study, space, stop, budget, progress):
            stopped = "interrupted"
        return _outcome(
            study, setup, stopped, stop, resumed=bool(sessions), notes=notes, proven_none=proven_none
        )


def units_may_pay(space: DesignSpace, rest: RestOfPrograms | None) -> bool:
    """Whether row functions are worth searching in a space with that choice: false where it is proven that they would cost
    area and static energy for nothing, since they are of use only in what programs do beside the tasks."""
    return rest is not None and rest.units_may_pay(power_bounded=space.constraints.power_mw is not None)


def _cost_model(name: str | None, space: DesignSpace, study: Path | None) -> CostModelName:
    """The model asked for, else that of the study to resume, else the space's default."""
    if name is not None:
        return check_cost_model(name, space)
    if study is None or not study.exists():
        return default_cost_model(space)
    with Study.open(study, read_only=True) as earlier:
        return earlier.cost_model


def _study_to_resume(
    path: Path, record: SetupRecord, tasks: Sequence[Task], resume: bool, note: Callable[[str], None]
) -> Study | None:
    """The study at `path` if it is to be resumed with the settings it was made with; None if there is none."""
    if not path.exists():
        if resume:
            note(f"there is no study in {path.parent} yet: starting one")
        return None
    if not resume:
        raise already_there(path)
    study = Study.open(path)
    try:
        differences = _differences(study, record, tasks)
        if differences:
            raise InputError(
                "the study was made with other settings: " + "; ".join(differences),
                location=Location(str(path)),
                hint=f"resume with the study's own settings ({study.provenance['command']}), "
                "or choose another --out",
            )
        made, now = study.provenance["versions"], versions()
        changed = [
            f"{name} {made.get(name, 'absent')} -> {now.get(name, 'absent')}"
            for name in sorted({*made, *now})
            if made.get(name) != now.get(name)
        ]
        if changed:
            note(
                "versions have changed since the study was started, so its result may differ from that of an "
                f"uninterrupted run ({', '.join(changed)})"
            )
    except BaseException:
        study.close()
        raise
    return study


def _differences(study: Study, record: SetupRecord, tasks: Sequence[Task]) -> list[str]:
    """What keeps a study from being resumed with the settings of `record`, in words."""
    found = []
    if study.tasks != tuple(tasks):
        theirs, ours = (
            ", ".join(f"{network['name']} x{weight:g}" for network, weight in zip(*pair, strict=True))
            for pair in ((w["networks"], w["weights"]) for w in (study.setup["workload"], record["workload"]))
        )
        same = " (same names, other problems or counts)" if theirs == ours else ""
        found.append(f"network is {theirs} in the study, {ours} now{same}")
    if study.setup["space_hash"] != record["space_hash"]:
        theirs, ours = (f"{r['space_name']} ({r['space_hash']})" for r in (study.setup, record))
        found.append(f"space is {theirs} in the study, {ours} now")
    for name in ("objective", "searcher", "seed", "cost_model"):
        before, now = dict(study.setup)[name], dict(record)[name]
        if before != now:
            found.append(f"{name.replace('_', ' ')} is {before} in the study, {now} now")
    before, now = (
        "whole programs" if one["rest"] else "tensor operators alone" for one in (study.setup, record)
    )
    if before != now:
        found.append(f"costs are those of {before} in the study, of {now} now")
    if study.setup["fusion"] != record["fusion"]:
        before, now = ("on" if one["fusion"] else "off" for one in (study.setup, record))
        found.append(f"fusion is {before} in the study, {now} now")
    return found


def _budget(
    sessions: list[SessionRecord], samples: int | None, time_limit: float | None, tasks: int, default: int
) -> Budget:
    """The budget asked for, else that of the study's last session, else the default."""
    if samples is None and time_limit is None:
        if sessions:
            samples, time_limit = sessions[-1]["samples"], sessions[-1]["time_limit"]
        else:
            samples = default
    return Budget(samples, None if samples is None else samples * tasks, time_limit)


def _larger(budget: Budget, sessions: list[SessionRecord]) -> bool:
    """Whether a search that said it was done within its last budget may go on."""
    before = sessions[-1]["samples"] if sessions else None
    return before is not None and (budget.samples is None or budget.samples > before)


def _completed(evaluations: int, budget: Budget) -> Stopped:
    """What ended a search whose searcher said that it was done."""
    spent = budget.evaluations is not None and evaluations >= budget.evaluations
    return "budget" if spent else "converged"


def _search(
    study: Study,
    searcher: Searcher,
    patience: Patience,
    budget: Budget,
    stop: _StopRequest,
    progress: Progress | None,
    start: float,
) -> Stopped | None:
    """Step the searcher until something ends the search; `start` is when this session's clock began.

    None when `patience` is over: nothing was feasible, nor would be.
    """
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
        if budget.time_limit is not None and seconds >= budget.time_limit:
            return "time"
        if stop.requested:
            return "interrupted"
        if patience.over:
            return None
        with _from_snapshot(study, restored):
            result = searcher.step()
        idle = 0 if result.candidates or result.evaluations > evaluations else idle + 1
        if idle > _MOST_IDLE_BATCHES and not result.done:
            raise RuntimeError(f"{type(searcher).__name__} makes no progress in phase '{result.phase}'")
        evaluations = result.evaluations
        summary = _summary(study, result, seconds_before + time.monotonic() - start)
        nearest = result.nearest if patience.see(summary) else ()
        study.record(summary, result.candidates, searcher.state(), done=result.done, nearest=nearest)
        if progress is not None:
            progress.update(summary, budget)
        if result.done:
            return _completed(evaluations, budget)


@contextlib.contextmanager
def _from_snapshot(study: Study, restored: bool) -> Iterator[None]:
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
    study: Study,
    space: DesignSpace,
    stop: _StopRequest,
    budget: Budget,
    progress: Progress | None,
) -> bool:
    """Record a proof as the study's last batch, unless it is there. False if a signal ended it before: it is done again
    when the study is resumed, so that what it finds does not depend on when that was."""
    best, state = study.best(), study.state()
    if best is None or state is None:
        return True
    last = study.summaries()[-1]
    if last.phase == PHASE:
        return True
    begun = time.monotonic()
    found = prove(best, space, study.objective, lambda: stop.requested)
    if found is None:
        return False
    better = [] if found.better is None else [found.better]
    result = BatchResult(better, last.evaluations, PHASE, True, found.details)
    summary = _summary(study, result, last.seconds + time.monotonic() - begun)
    study.record(summary, better, state, done=study.done)
    if progress is not None:
        progress.update(summary, budget)
    return True


def _summary(study: Study, result: BatchResult, seconds: float) -> BatchSummary:
    scores = [study.objective.scalar(candidate.cost) for candidate in result.candidates]
    if study.best_objective is not None:
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
    study: Study,
    setup: SearchSetup,
    stopped: Stopped,
    stop: _StopRequest,
    *,
    resumed: bool,
    notes: list[str],
    proven_none: Impossible | None,
) -> SearchOutcome:
    summaries = study.summaries()
    evaluations = summaries[-1].evaluations if summaries else 0
    best = study.best()
    if best is None:
        if stopped == "interrupted":
            raise _interrupted(evaluations)
        raise _infeasible(study, setup, proven_none, stop)
    return SearchOutcome(
        path=study.path,
        setup=setup,
        best=best,
        front=tuple(study.front()),
        evaluations=evaluations,
        seconds=summaries[-1].seconds,
        stopped=stopped,
        resumed=resumed,
        notes=tuple(notes),
        proven_edp=summaries[-1].details.get(BOUND),
    )


def _interrupted(evaluations: int) -> InfeasibleError:
    return InfeasibleError(
        f"interrupted before any feasible design was found, in {evaluations:,} evaluations",
        hint="continue with --resume",
    )


def _no_accelerator(short: Shortfall, searcher: str, setup: SearchSetup) -> InfeasibleError:
    """The error of a space without accelerators: with bounds that a design satisfies, those on mappings included."""
    with _StopRequest() as stop:
        feasible = tried_bounds(searcher, setup, {}, lambda: stop.requested, short.feasible)
    return no_accelerator_error(setup.space.constraints, short, feasible)


def _infeasible(
    study: Study, setup: SearchSetup, proven_none: Impossible | None, stop: _StopRequest
) -> InfeasibleError:
    """The error of a study without a feasible design: about its nearest one, and bounds to put in place."""
    constraints = setup.space.constraints
    patience = Patience(constraints, len(study.tasks), hopeless=False)
    evaluations = 0
    for summary in study.summaries():
        patience.see(summary)
        evaluations = summary.evaluations
    tried = tried_bounds(study.setup["searcher"], setup, patience.nearest, lambda: stop.requested)
    return infeasible_error(constraints, patience.nearest, evaluations, proven_none, tried)
