"""Validating a study: choose designs, measure their layers side by side, keep every measurement in the study.

Workers keep each measurement in a file of their own (`STORE_NAME`, beside the study) the moment it is finished, and this
process copies it into the study. Whoever is killed when, what was finished is found again: nothing is measured twice.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

from baco.common.door import words
from baco.common.errors import InfeasibleError, InputError, Location
from baco.exploration._json import to_json
from baco.exploration.executors.base import Finished, gather
from baco.exploration.executors.engine import LOCAL, ExecutorChoice
from baco.exploration.measure.job import Measurable
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.studies._store import STUDY
from baco.exploration.studies.study import StudyRecord
from baco.exploration.validate.design import Design, jobs_of, programs_of
from baco.exploration.validate.result import ValidatedDesign
from baco.workloads.network import Task

__all__ = [
    "DEFAULT_SPREAD",
    "STORE_NAME",
    "Stop",
    "ValidationOptions",
    "ValidationOutcome",
    "ValidationProgress",
    "no_design",
    "stop_on_signals",
    "validate_designs",
    "validated_designs",
]

#: File of measurements beside a study.
STORE_NAME = "measurements.sqlite"
#: Candidates along the front that are measured beside the best, unless the user says otherwise.
DEFAULT_SPREAD = 2

Ended = Literal["done", "time", "interrupted"]


@dataclass(frozen=True)
class ValidationOptions:
    """How much to measure.

    Attributes:
        best, spread: see `baco.exploration.validate.choose.choose_candidates`.
        engine: who measures.
        cycle_limit: simulated cycles of a design, as predicted. None: whole programs, as far as that is possible. With a
            limit, layers are taken by the cycles they contribute to the network, the most first, until the next one would
            exceed it (the first is taken in any case), and the rest is estimated.
        time_limit: seconds after which what is being measured is given up; None for no limit.
        fusion: operators of whole programs run as one unit where that is predicted to be better.
    """

    best: int = 5
    spread: int = DEFAULT_SPREAD
    engine: ExecutorChoice = LOCAL
    cycle_limit: float | None = None
    time_limit: float | None = None
    fusion: bool = True

    def __post_init__(self) -> None:
        if self.best < 1:
            raise InputError(f"at least 1 candidate must be validated, not {self.best}")
        if self.spread < 0:
            raise InputError(f"a spread of {self.spread} candidates does not exist")
        for name, limit in (("cycle limit", self.cycle_limit), ("time limit", self.time_limit)):
            if limit is not None and not 0 < limit < float("inf"):
                raise InputError(f"the {name} must be a positive number, not {limit}")


class ValidationProgress(Protocol):
    """Who wants to see a validation advance."""

    def begin(self, designs: Sequence[Design], jobs: int, cycles: float) -> None:
        """So many different programs, of whole networks or of layers, of so many predicted cycles, stand for the designs;
        those measured before count as finished soon."""

    def measured(self, finished: int, result: Measurement, job: Measurable, predicted: float | None) -> None:
        """One more program has been measured; `predicted` are its cycles."""

    def note(self, text: str) -> None:
        """Something the user should know, in one sentence."""


@dataclass(frozen=True)
class ValidationOutcome:
    """How a validation ended; everything else is in the study.

    Attributes:
        designs: what was chosen, with what was measured so far.
        ended: `done`, or why it ended early: `time` or `interrupted`.
    """

    designs: tuple[ValidatedDesign, ...]
    ended: Ended


def no_design(path: Path) -> InfeasibleError:
    """The error for a study in which there is nothing to measure."""
    return InfeasibleError(
        "the study holds no feasible design yet",
        location=Location(str(path)),
        hint=words("continue it with --resume", "call validate again to go on"),
    )


def validate_designs(
    study: StudyRecord,
    designs: Sequence[Design],
    options: ValidationOptions,
    progress: ValidationProgress | None = None,
) -> ValidationOutcome:
    """Measure designs and keep them and their measurements in the study.

    What was measured before, for whatever design, is not measured again. A first SIGINT or SIGTERM ends it with
    everything finished in the study; so does the time limit.

    Raises StorageError when the disk is full or fails, and what building simulators raises.
    """
    _keep(study, designs)
    jobs: dict[str, Measurable] = {}
    predicted: dict[str, float | None] = {}
    for design in designs:
        if design.programs:
            predicted |= {one.key: one.predicted_cycles for one in design.programs}
            jobs |= {key: job for key, job in programs_of(design).items() if key not in jobs}
            continue
        wanted = _within(design, study.tasks, options.cycle_limit)
        predicted |= {one.key: one.predicted_cycles for one in design.layers}
        jobs |= {
            key: job for key, job in jobs_of(design, study.tasks).items() if key in wanted and key not in jobs
        }
    keys = list(jobs)
    if progress:
        progress.begin(designs, len(jobs), sum(predicted[key] or 0.0 for key in jobs))
        _tell_problems(designs, progress)

    def finished(number: int, _: int, one: Finished[Measurable, Measurement]) -> None:
        key = keys[one.index]
        if key not in known:
            study.keep_measurement(key, one.value.to_dict())
            known.add(key)
        if progress:
            progress.measured(number, one.value, one.task, predicted[key])

    kept = study.measurements()
    known = set(kept)
    ended: Ended = "done"
    try:
        with (
            stop_on_signals(options.time_limit),
            MeasurementStore(study.path.with_name(STORE_NAME)) as store,
            options.engine.executor() as executor,
        ):
            for key in jobs.keys() & known:  # the file beside the study may be gone
                if store.get(key) is None:
                    store.put(key, Measurement.from_dict(kept[key]))
            gather(executor, [jobs[key] for key in keys], store, finished)
    except Stop as stop:
        ended = stop.ended
    identities = {design.identity for design in designs}
    return ValidationOutcome(
        tuple(one for one in validated_designs(study) if one.design.identity in identities), ended
    )


def _keep(study: StudyRecord, designs: Sequence[Design]) -> None:
    """Write the designs to the study; one chosen earlier gives its name away and is called `earlier` from now on."""
    identities = {design.identity for design in designs}
    names = {design.name for design in designs}
    kept = [Design.from_json(record) for record in study.validations()]
    earlier = sum(one.name.startswith("earlier ") for one in kept)
    for one in kept:
        if one.identity not in identities and one.name in names:
            earlier += 1
            study.keep_validation(one.identity, to_json(replace(one, name=f"earlier {earlier}")))
    for design in designs:
        study.keep_validation(design.identity, to_json(design))


def validated_designs(study: StudyRecord) -> list[ValidatedDesign]:
    """All designs of a study that were chosen to be measured, with the measurements there are, in that order.

    Raises StorageError for records that are damaged.
    """
    try:
        measurements = {key: Measurement.from_dict(one) for key, one in study.measurements().items()}
        designs = [Design.from_json(record) for record in study.validations()]
        return [ValidatedDesign.of(design, study.tasks, measurements) for design in designs]
    except (InputError, TypeError, ValueError) as error:
        raise STUDY.damaged(study.path, f"its validated designs: {error}") from error


def _within(design: Design, tasks: Sequence[Task], limit: float | None) -> set[str]:
    """Keys of the layers to measure under a limit of simulated cycles; see `ValidationOptions.cycle_limit`."""
    keys = {one.key for one in design.layers}
    cycles = [one.predicted_cycles for one in design.layers]
    if limit is None or any(one is None for one in cycles):
        return keys
    counts = design.counts or [task.count for task in tasks]
    weights = [count * (one or 0.0) for count, one in zip(counts, cycles, strict=True)]
    chosen: set[str] = set()
    spent = 0.0
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        planned = design.layers[index]
        if planned.key in chosen:
            continue
        spent += planned.predicted_cycles or 0.0
        if chosen and spent > limit:
            break
        chosen.add(planned.key)
    return chosen


def _tell_problems(designs: Sequence[Design], progress: ValidationProgress) -> None:
    for design in designs:
        problems = [f"{one.network}: {one.reason}" for one in design.programs if one.reason]
        if not design.programs:
            problems = [f"{one.layer}: {one.reason}" for one in design.layers if one.reason]
        reason = design.reason or "".join(problems[:1])
        if reason:
            progress.note(f"{design.name} is infeasible: {reason}")


class Stop(BaseException):
    """Ends a validation from a signal handler; no `except Exception` on the way may hold it."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended


@contextmanager
def stop_on_signals(time_limit: float | None) -> Iterator[None]:
    """Within the block a first SIGINT or SIGTERM, or the end of the time limit, raises `Stop`.

    Signal handlers belong to the main thread; in another one the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(number: int, frame: FrameType | None) -> None:
        restore()  # a second signal stops at once
        raise Stop("time" if number == signal.SIGALRM else "interrupted")

    for number in numbers:
        before[number] = signal.signal(number, stop)
    try:
        if time_limit is not None:
            signal.setitimer(signal.ITIMER_REAL, time_limit)
        yield
    finally:
        restore()
