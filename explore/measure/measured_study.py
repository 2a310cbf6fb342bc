"""`explore --measure`: from a study on disk to the best measured design in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.errors import InfeasibleError, InputError, Location
from baco.exploration.candidate import Cost, broken_bounds, network_costs
from baco.exploration.executors.executor_choice import LOCAL, ExecutorChoice
from baco.exploration.executors.tasks import Finished, gather
from baco.exploration.measure.alternatives import Alternative, MachineAlternatives
from baco.exploration.measure.choose import by_accelerator
from baco.exploration.measure.compare import best_measured
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.loop import Allowed, Expected, MeasuredSearch, Prior, Round
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.session import (
    STORE_NAME,
    StudyDesigns,
    ValidationOptions,
    validate_designs,
)
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.exploration.studies.interruption import Ended, Stop, stop_on_signals
from baco.exploration.studies.study import StudyRecord
from baco.sim.engines.base import CycleEngine, engine_for
from baco.sim.engines.timed import check_timed
from baco.workloads.network import Task

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


@dataclass(frozen=True, repr=False)
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

    first: Design | None
    best: Design | None
    rounds: tuple[Round, ...]
    spent: int
    verified: int
    failures: tuple[str, ...]
    ended: Ended

    def __repr__(self) -> str:
        designs = (
            f"{name} {one.accelerator.name}: EDP {one.measured.edp:.5g} µJ·cycles measured"
            for name, one in (("first", self.first), ("best", self.best))
            if one is not None and one.measured is not None
        )
        failed = [f"{len(self.failures)} failures"] if self.failures else []
        spent = f"{self.spent:,} cycles in {len(self.rounds)} rounds, {self.verified:,} beyond the budget"
        return f"<MeasuredOutcome {'; '.join([*designs, spent, *failed, self.ended])}>"


def measure_study(
    path: Path,
    budget: float,
    *,
    engine: ExecutorChoice = LOCAL,
    counted_by: CycleEngine = "rtl",
    learned: bool = False,
    watch: Watch | None = None,
) -> MeasuredOutcome:
    """Spend a budget of simulated cycles on the study at `path` and keep the best measured design in it.

    Measurements are kept as they are finished, in the file beside the study; the same call repeats an interrupted run
    from them. A first SIGINT or SIGTERM ends it. `engine` says who measures.

    Args:
        counted_by: what counts the cycles of layers while designs are compared. With `timed`, the model of our units in time,
            no design's Verilog is built until the search has ended; the predicted best and the winner are measured on
            their Verilog then, and these are the measurements that are given back.
        learned: whether what is expected before anything is measured comes from the learned residual. Off, since searches
            have not ended at a lower measured EDP by it (`baco bench loop`).

    Raises InputError for a study of the reference model, whose designs are not programs, InfeasibleError for one
    without any design that can be compiled or with one whose cycles `counted_by` does not count, StorageError for one that is
    missing, damaged or being written.
    """
    with StudyRecord.open(path) as study:
        known = StudyDesigns(study)
        if not known.model.macros:
            raise InputError(
                "a measured search needs the instruction-aware cost model",
                location=Location(str(path)),
                hint="explore with --cost-model instruction",
            )
        contenders = _contenders(known, _MACHINES, counted_by)
        rounds: list[Round] = []

        def told(done: Round) -> None:
            rounds.append(done)
            if watch:
                watch.round(done)

        with MeasurementStore(path.with_name(STORE_NAME)) as store, engine.executor() as executor:

            def finished(_: int, __: int, done: Finished[MeasurementJob, Measurement]) -> None:
                if watch:
                    watch.layer(done.value, done.task)

            search = MeasuredSearch(
                study.tasks,
                study.objective,
                contenders,
                lambda jobs: gather(executor, jobs, store, finished),
                budget,
                prior=learned_prior() if learned else None,
                allowed=_allowed(study.tasks, known.space, study.rest),
                rest=study.rest,
                clocks=known.space.clocks,
                watch=told,
            )
            ended: Ended = "done"
            try:
                with stop_on_signals(None):
                    best = search.run()
            except Stop as stop:
                ended, best = stop.ended, search.best()
        samples = study.summaries()[-1].evaluations
        first, verified = search.first, search.verified
        designs = {
            one.identity: replace(one.unmeasured, samples=samples) for one in (first, best) if one is not None
        }
        if designs:
            options = ValidationOptions(best=len(designs), engine=engine)
            done = validate_designs(study, list(designs.values()), options).designs
            if counted_by != "rtl":
                first, best = _on_verilog(first, done), best_measured(done, study.objective)
                verified += _simulated(done)
        return MeasuredOutcome(
            first, best, tuple(rounds), search.spent, verified, tuple(search.failures), ended
        )


def _on_verilog(design: Design | None, measured: Sequence[Design]) -> Design | None:
    """The same design as its Verilog measured it; None where it did not."""
    return next((one for one in measured if design is not None and one.identity == design.identity), None)


def _simulated(designs: Iterable[Design]) -> int:
    """Cycles of all layers that were measured, once each."""
    layers = {
        part.key: part.measured for design in designs for part in design.parts if part.measured is not None
    }
    return sum(measured.cycles for measured in layers.values())


def _contenders(known: StudyDesigns, most: int, counted_by: CycleEngine) -> list[MachineAlternatives]:
    """The best accelerators of a study with the mappings found for them. Raises InfeasibleError where there is none."""
    study = known.study
    names = [task.name for task in study.tasks]
    best_of_each, _ = by_accelerator(known.candidates, study.objective)
    chosen = [known.candidates[i] for i in best_of_each[:most]]
    if counted_by == "timed":
        for candidate in chosen:
            engine_for(counted_by, None, candidate.accelerator)
            check_timed(candidate.accelerator)
    found = [
        MachineAlternatives.of(candidate.accelerator, candidate.mappings, known.layers, names, counted_by)
        for candidate in chosen
    ]
    compiled = [machine for machine in found if machine is not None]
    if not compiled:
        raise InfeasibleError(
            "none of the best designs can be compiled",
            location=Location(str(study.path)),
            hint="baco validate says why",
        )
    return compiled


def learned_prior() -> Prior | None:
    """What the shipped residual expects; None where there is none."""
    from baco.exploration.cost.learned.features import described
    from baco.exploration.cost.learned.learned_model import shipped_model

    model = shipped_model()
    if model is None:
        return None
    learned = model

    def prior(ones: Sequence[Alternative]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        features, predicted = described(
            [alternative.job.layer for alternative in ones],
            [alternative.mapping for alternative in ones],
            [alternative.job.accelerator for alternative in ones],
            [alternative.style for alternative in ones],
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
        runs = [(cost.cycles, cost.energy_pj) for cost in expected]
        networks = network_costs(tasks, runs, accelerator, rest)
        whole = Cost(
            math.fsum(weights[name] * cost.latency_cycles for name, cost in networks.items()),
            math.fsum(weights[name] * cost.energy_pj for name, cost in networks.items()),
            accelerator.area_mm2,
        )
        return not broken_bounds(space.constraints, whole, tasks, runs, accelerator, rest)

    return allowed
