"""`explore --validate` and `baco validate`: choose designs of a study, measure their parts side by side, keep every measurement in it.

Workers keep each measurement in a file of their own (`STORE_NAME`, beside the study) the moment it is finished, and this
process copies it into the study. Whoever is killed when, what was finished is found again: nothing is measured twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from baco.common.door import words
from baco.common.errors import BacoError, InfeasibleError, InputError, Location
from baco.common.files import output_folder
from baco.compiler.layers.layer import Layer
from baco.exploration._json import to_json
from baco.exploration.accuracy import keep_accuracy, kept_accuracy, settle_accuracy
from baco.exploration.candidate import Candidate
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.executors.executor_choice import LOCAL, ExecutorChoice
from baco.exploration.executors.tasks import Finished, gather
from baco.exploration.measure.choose import choose_candidates
from baco.exploration.measure.job import Measurable
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.planning import (
    MOST_CYCLES,
    WholeNetworks,
    baseline_design,
    design_of_candidate,
)
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.measure.written import write_best
from baco.exploration.space.reference_machine import reference_machine, reference_space
from baco.exploration.studies._store import STUDY
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.interruption import Ended, Stop, stop_on_signals
from baco.exploration.studies.samples import WorkloadData, check_samples, keep_samples, kept_samples
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_again
from baco.workloads.network import Workload

#: File of measurements beside a study, and folder of the search for mappings on the reference machine.
STORE_NAME, BASELINE_FOLDER = "measurements.sqlite", "reference-mappings"
#: Candidates along the front that are measured beside the best, unless the user says otherwise.
DEFAULT_SPREAD = 2


@dataclass(frozen=True)
class ValidationOptions:
    """How much to measure.

    Attributes:
        best, spread: see `baco.exploration.measure.choose.choose_candidates`.
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

    designs: tuple[Design, ...]
    ended: Ended


class StudyDesigns:
    """The candidates of a study as designs to measure.

    Attributes:
        candidates: of the study; layers, model, space: what they were predicted with.

    Raises InfeasibleError for a study without any feasible design, StorageError for a damaged one.
    """

    def __init__(self, study: StudyRecord) -> None:
        self.study, self.space = study, study.space()
        self.layers: Sequence[Layer] = layers_of_tasks(study.tasks, study.workload())
        self.model: CostModel = make_cost_model(study.cost_model, self.layers, self.space, study.rest)
        self.candidates = study.candidates()
        if not self.candidates:
            raise InfeasibleError(
                "the study holds no feasible design yet",
                location=Location(str(study.path)),
                hint=words("continue it with --resume", "call validate again to go on"),
            )

    def design(self, name: str, candidate: Candidate) -> Design:
        """One candidate, layer by layer."""
        return design_of_candidate(name, candidate, self.layers, self.model)

    def baselines(self, note: Callable[[str], None]) -> list[Design]:
        """The reference machine under Gemmini's default tiling and under mappings searched for it, by the study's searcher,
        budget, objective and seed, in a folder beside the study."""
        study = self.study
        found = [baseline_design(self.space, study.tasks, self.layers, self.model)]
        sessions = study.sessions()
        budget = sessions[-1]["samples"] if sessions else None
        note("searching mappings for the reference machine")
        try:
            outcome = run_exploration(
                study.workload(),
                reference_space(self.space),
                study.objective,
                study.setup["searcher"],
                budget,
                seed=study.setup["seed"],
                out=output_folder(study.path.parent, BASELINE_FOLDER),
                resume=True,
                cost_model=study.cost_model,
                whole=study.rest is not None,
                fusion=False,
            )
        except BacoError as error:
            note(f"no mappings were found for the reference machine: {error.message}")
            return found
        machine = reference_machine(self.space)
        best = replace(outcome.best, accelerator=machine)
        name = f"{machine.name}, mappings searched"
        return [*found, design_of_candidate(name, best, self.layers, self.model, "mappings")]

    def as_programs(
        self, designs: Sequence[Design], note: Callable[[str], None], *, fusion: bool
    ) -> list[Design]:
        """The designs as whole programs; layer by layer where these cannot be, or would take too long."""
        longest = max((one.predicted.latency_cycles for one in designs if one.predicted), default=0.0)
        if longest > MOST_CYCLES:
            note(
                f"layers are measured one by one: whole programs are predicted to take {longest:,.0f} cycles, more than"
                f" {MOST_CYCLES:,.0f}"
            )
            return list(designs)
        try:
            workload = self.study.workload()
            folder = self.study.path.parent
            networks = WholeNetworks(
                workload, kept_samples(folder, workload), kept_accuracy(folder).quantiser
            )
        except BacoError as error:
            note(f"layers are measured one by one, as whole programs cannot be: {error.message}")
            return list(designs)
        note("compiling whole programs")
        fusion = fusion and self.study.fusion
        return [
            one.as_programs(networks.programs(one, self.study.objective, fusion=fusion)) for one in designs
        ]


def validate_file(
    path: Path,
    options: ValidationOptions,
    *,
    baseline: bool = False,
    data: WorkloadData | None = None,
    progress: ValidationProgress | None = None,
) -> ValidationOutcome:
    """Measure the best candidates of the study at `path`, and some along its front.

    Args:
        baseline: measure the reference machine too, see `StudyDesigns.baselines`.
        data: samples of the networks' inputs, which the study has from now on.

    Raises InfeasibleError for a study without any feasible design, StorageError for one that is missing, damaged or
    being written, and as `validate_designs` does.
    """
    note: Callable[[str], None] = progress.note if progress else lambda _: None
    with StudyRecord.open(path) as study:
        known = StudyDesigns(study)
        if data is not None:
            workload = Workload.of([load_again(network) for network in study.workload().networks])
            samples, before = check_samples(data, workload), kept_accuracy(path.parent)
            found = settle_accuracy(workload, samples, before.quantiser, before.bound)
            keep_samples(path.parent, samples)
            keep_accuracy(path.parent, found)
        chosen = choose_candidates(known.candidates, study.objective, options.best, options.spread)
        designs = [known.design(name, one) for name, one in chosen]
        if baseline:
            designs += known.baselines(note)
        if study.rest is not None and options.cycle_limit is None:
            designs = known.as_programs(designs, note, fusion=options.fusion)
        outcome = validate_designs(study, designs, options, progress)
        write_best(measured_designs(study), study.objective, path.parent)
        return outcome


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
    for design in designs:
        for key, job in design.jobs(options.cycle_limit).items():
            jobs.setdefault(key, job)
    predicted = {part.key: part.predicted_cycles for design in designs for part in design.parts}
    keys = list(jobs)
    if progress:
        progress.begin(designs, len(jobs), sum(predicted[key] or 0.0 for key in jobs))
        _tell_failures(designs, progress)

    def finished(number: int, _: int, done: Finished[Measurable, Measurement]) -> None:
        key = keys[done.index]
        if key not in known:
            study.keep_measurement(key, done.value.to_dict())
            known.add(key)
        if progress:
            progress.measured(number, done.value, done.task, predicted[key])

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
        tuple(design for design in measured_designs(study) if design.identity in identities), ended
    )


def _keep(study: StudyRecord, designs: Sequence[Design]) -> None:
    """Write the designs to the study; one chosen earlier gives its name away and is called `earlier` from now on."""
    identities = {design.identity for design in designs}
    names = {design.name for design in designs}
    kept = [Design.from_json(record, study.tasks) for record in study.validations()]
    earlier = sum(one.name.startswith("earlier ") for one in kept)
    for one in kept:
        if one.identity not in identities and one.name in names:
            earlier += 1
            study.keep_validation(one.identity, to_json(replace(one, name=f"earlier {earlier}")))
    for design in designs:
        study.keep_validation(design.identity, to_json(design))


def measured_designs(study: StudyRecord) -> list[Design]:
    """All designs of a study that were chosen to be measured, with the measurements there are, in that order.

    Raises StorageError for records that are damaged.
    """
    try:
        measurements = {key: Measurement.from_dict(one) for key, one in study.measurements().items()}
        return [Design.from_json(record, study.tasks, measurements) for record in study.validations()]
    except (InputError, TypeError, ValueError) as error:
        raise STUDY.damaged(study.path, f"its validated designs: {error}") from error


def _tell_failures(designs: Sequence[Design], progress: ValidationProgress) -> None:
    """Those that no measuring is needed for."""
    for design in designs:
        if any(one.reason for one in (design, *design.parts)):
            progress.note(f"{design.name} is infeasible: {design.failure}")
