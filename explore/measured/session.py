"""`explore --measure`: from a study on disk to the best measured design in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.errors import InfeasibleError, InputError, Location
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.constraints import network_costs
from baco.exploration.cost.model import make_cost_model
from baco.exploration.executors.base import Finished, gather
from baco.exploration.executors.engine import LOCAL, ExecutorChoice
from baco.exploration.layers import layers_of_tasks
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.measured.alternatives import Alternative, MachineAlternatives
from baco.exploration.measured.search import Allowed, Expected, MeasuredDesign, MeasuredSearch, Prior, Round
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.exploration.studies.study import StudyRecord
from baco.exploration.validate.choose import by_accelerator
from baco.exploration.validate.design import design_of_candidate
from baco.exploration.validate.run import (
    STORE_NAME,
    Ended,
    Stop,
    ValidationOptions,
    no_design,
    stop_on_signals,
    validate_designs,
)
from baco.workloads.network import Task

__all__ = ["MEASURED", "MeasuredOutcome", "Watch", "learned_prior", "measure_study"]

#: Names of the designs in the study: what measurements led to, and the predicted best that was measured first.
MEASURED, FIRST = "measured search", "best 1"
#: Accelerators that are looked at.
_MACHINES = 3


class Watch(Protocol):
    """Who wants to see the search advance."""

    def layer(self, result: Measurement, job: MeasurementJob) -> None:
        """A layer was measured, now or before."""

    def round(self, done: Round) -> None:
        """A round has ended."""

    def note(self, text: str) -> None:
        """Something the user should know, in one sentence."""


@dataclass(frozen=True)
class MeasuredOutcome:
    """How a measured search ended.

    Attributes:
        first: the predicted best, measured; None where it was not measured whole.
        best: the best measured design; None where there is none.
        rounds: what each did.
        spent, verified: simulated cycles, of the budget and beyond it (to measure designs whole).
        failures: measurements that went wrong.
        ended: `done`, or `interrupted`.
    """

    first: MeasuredDesign | None
    best: MeasuredDesign | None
    rounds: tuple[Round, ...]
    spent: int
    verified: int
    failures: tuple[str, ...]
    ended: Ended


def measure_study(
    path: Path,
    budget: float,
    *,
    engine: ExecutorChoice = LOCAL,
    machines: int = _MACHINES,
    learned: bool = False,
    watch: Watch | None = None,
) -> MeasuredOutcome:
    """Spend a budget of simulated cycles on the study at `path` and keep the best measured design in it.

    Measurements are kept as they are finished, in the file beside the study; the same call repeats an interrupted run
    from them. A first SIGINT or SIGTERM ends it. `engine` says who measures.

    Args:
        learned: whether what is expected before anything is measured comes from the learned residual. Off, since searches
            have not ended at a lower measured EDP by it (`baco bench loop`).

    Raises InputError for a study of the reference model, whose designs are not programs, InfeasibleError for one
    without any design that can be compiled, StorageError for one that is missing, damaged or being written.
    """
    with StudyRecord.open(path) as study:
        workload = study.workload()
        space = study.space()
        layers = layers_of_tasks(study.tasks, workload)
        model = make_cost_model(study.cost_model, layers, space, study.rest)
        if not model.macros:
            raise InputError(
                "a measured search needs the instruction-aware cost model",
                location=Location(str(path)),
                hint="explore with --cost-model instruction",
            )
        candidates = study.candidates()
        if not candidates:
            raise no_design(path)
        names = [task.name for task in study.tasks]
        contenders = []
        best_of_each, _ = by_accelerator(candidates, study.objective)
        for one in (candidates[i] for i in best_of_each[:machines]):
            machine = MachineAlternatives.of(one.accelerator, one.mappings, layers, names)
            if machine is not None:
                contenders.append(machine)
        if not contenders:
            raise InfeasibleError(
                "none of the best designs can be compiled",
                location=Location(str(path)),
                hint="baco validate says why",
            )
        rounds: list[Round] = []

        def told(done: Round) -> None:
            rounds.append(done)
            if watch:
                watch.round(done)

        with MeasurementStore(path.with_name(STORE_NAME)) as store, engine.executor() as executor:

            def measure(jobs: Sequence[MeasurementJob]) -> list[Measurement]:
                def finished(_: int, __: int, one: Finished[MeasurementJob, Measurement]) -> None:
                    if watch:
                        watch.layer(one.value, one.task)

                return gather(executor, jobs, store, finished)

            search = MeasuredSearch(
                study.tasks,
                study.objective,
                contenders,
                measure,
                budget,
                prior=learned_prior() if learned else None,
                allowed=_allowed(study.tasks, space, study.rest),
                rest=study.rest,
                clocks=space.clocks,
                watch=told,
            )
            best: MeasuredDesign | None = None
            ended: Ended = "done"
            try:
                with stop_on_signals(None):
                    best = search.run()
            except Stop as stop:
                ended, best = stop.ended, search.best()
        designs = [
            design_of_candidate(name, _candidate(found, study), layers, model)
            for name, found in ((FIRST, search.first), (MEASURED, best))
            if found is not None
        ]
        if len(designs) == 2 and designs[0].identity == designs[1].identity:
            designs = designs[1:]
        if designs:
            validate_designs(study, designs, ValidationOptions(best=len(designs), engine=engine))
        return MeasuredOutcome(
            search.first, best, tuple(rounds), search.spent, search.verified, tuple(search.failures), ended
        )


def learned_prior() -> Prior | None:
    """What the shipped residual expects; None where there is none."""
    from baco.exploration.cost.learned.features import described
    from baco.exploration.cost.learned.model import shipped_model

    model = shipped_model()
    if model is None:
        return None
    learned = model

    def prior(ones: Sequence[Alternative]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        features, predicted = described(
            [one.job.layer for one in ones],
            [one.mapping for one in ones],
            [one.job.accelerator for one in ones],
            [one.style for one in ones],
        )
        found = learned.correct(features, predicted)
        return portable.log(found.cycles / predicted), found.deviation

    return prior


def _allowed(tasks: Sequence[Task], space: DesignSpace, rest: RestOfPrograms | None) -> Allowed:
    """The bounds of a space."""

    weights = {task.network: task.weight for task in tasks}

    def allowed(accelerator: Accelerator, expected: Sequence[Expected]) -> bool:
        if not space.constraints.any_on_mappings:
            return True
        runs = ((one.cycles, one.energy_pj) for one in expected)
        networks = network_costs(tasks, runs, accelerator, rest)
        whole = Cost(
            math.fsum(weights[name] * one.latency_cycles for name, one in networks.items()),
            math.fsum(weights[name] * one.energy_pj for name, one in networks.items()),
            accelerator.area_mm2,
        )
        return not space.constraints.violations(
            whole,
            sram_kib=accelerator.scratchpad_kib + accelerator.accumulator_kib,
            clock_mhz=accelerator.clock_mhz,
            networks=networks,
        )

    return allowed


def _candidate(found: MeasuredDesign, study: StudyRecord) -> Candidate:
    return Candidate(
        found.accelerator,
        study.tasks,
        found.mappings,
        found.predicted,
        study.summaries()[-1].evaluations,
        study.objective.scalar(found.predicted),
    )
