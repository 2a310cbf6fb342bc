"""`explore --validate` and `baco validate`: from a study on disk to measured designs in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from baco.common.errors import BacoError
from baco.common.files import output_folder
from baco.compiler.layers.layer import Layer
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.layers import layers_of_tasks
from baco.exploration.reference_machine import reference_machine, reference_space
from baco.exploration.space import DesignSpace
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.samples import WorkloadData, check_samples, keep_samples, kept_samples
from baco.exploration.studies.study import StudyRecord
from baco.exploration.validate.baseline import baseline_design
from baco.exploration.validate.choose import choose_candidates
from baco.exploration.validate.design import Design, as_programs, design_of_candidate
from baco.exploration.validate.programs import write_best
from baco.exploration.validate.run import (
    ValidationOptions,
    ValidationOutcome,
    ValidationProgress,
    no_design,
    validate_designs,
)
from baco.exploration.validate.whole import MOST_CYCLES, whole_networks
from baco.workloads.inputs.load import load_again
from baco.workloads.network import Workload

__all__ = ["BASELINE_FOLDER", "validate_file"]

#: Folder, beside a study, of the search for mappings on the reference machine.
BASELINE_FOLDER = "reference-mappings"


def validate_file(
    path: Path,
    options: ValidationOptions,
    *,
    baseline: bool = False,
    baseline_samples: int | None = None,
    data: WorkloadData | None = None,
    progress: ValidationProgress | None = None,
) -> ValidationOutcome:
    """Measure the best candidates of the study at `path`, and some along its front.

    Args:
        baseline: measure the reference machine too, under Gemmini's default tiling and under mappings searched for it
            (by the study's searcher, objective and seed, in a folder beside the study).
        baseline_samples: budget of that search; by default that of the study.
        data: samples of the networks' inputs, which the study has from now on.

    Raises InfeasibleError for a study without any feasible design, StorageError for one that is missing, damaged or
    being written, and as `baco.exploration.validate.run.validate_designs` does.
    """
    with StudyRecord.open(path) as study:
        workload = study.workload()
        space = study.space()
        layers = layers_of_tasks(study.tasks, workload)
        model = make_cost_model(study.cost_model, layers, space, study.rest)
        candidates = study.candidates()
        if not candidates:
            raise no_design(path)
        if data is not None:
            networks = [load_again(network) for network in workload.networks]
            keep_samples(path.parent, check_samples(data, Workload.of(networks)))
        chosen = choose_candidates(candidates, study.objective, options.best, options.spread)
        designs = [design_of_candidate(one.name, one.candidate, layers, model) for one in chosen]
        if baseline:
            designs += _baselines(study, space, layers, model, baseline_samples, progress)
        if study.rest is not None and options.cycle_limit is None:
            designs = _as_programs(designs, study, progress, fusion=options.fusion and study.fusion)
        outcome = validate_designs(study, designs, options, progress)
        write_best(study, path.parent)
        return outcome


def _as_programs(
    designs: Sequence[Design], study: StudyRecord, progress: ValidationProgress | None, *, fusion: bool
) -> list[Design]:
    """The designs as whole programs; layer by layer where these cannot be, or would take too long."""
    note: Callable[[str], None] = progress.note if progress else lambda _: None
    longest = max((one.predicted.latency_cycles for one in designs if one.predicted), default=0.0)
    if longest > MOST_CYCLES:
        note(
            f"layers are measured one by one: whole programs are predicted to take {longest:,.0f} cycles, more than"
            f" {MOST_CYCLES:,.0f}"
        )
        return list(designs)
    workload = study.workload()
    networks = whole_networks(workload, kept_samples(study.path.parent, workload), note)
    if networks is None:
        return list(designs)
    note("compiling whole programs")
    found = []
    for one in designs:
        if one.role == "baseline":
            programs = networks.of_baseline(one.accelerator, one.reason)
        else:
            candidate = one.candidate(study.tasks, study.objective)
            programs = networks.of_candidate(candidate, study.objective, one.reason, fusion=fusion)
        found.append(as_programs(one, programs))
    return found


def _baselines(
    study: StudyRecord,
    space: DesignSpace,
    layers: Sequence[Layer],
    model: CostModel,
    samples: int | None,
    progress: ValidationProgress | None,
) -> list[Design]:
    note: Callable[[str], None] = progress.note if progress else lambda _: None
    found = [baseline_design(space, study.tasks, layers, model)]
    sessions = study.sessions()
    budget = samples or (sessions[-1]["samples"] if sessions else None)
    note("searching mappings for the reference machine")
    try:
        outcome = run_exploration(
            study.workload(),
            reference_space(space),
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
    machine = reference_machine(space)
    best = dataclasses.replace(outcome.best, accelerator=machine)
    name = f"{machine.name}, mappings searched"
    return [*found, design_of_candidate(name, best, layers, model, "mappings")]
