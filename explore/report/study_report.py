"""From a study on disk to its report."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from baco.accel.config import Accelerator
from baco.common.companion import ask
from baco.common.door import words
from baco.common.errors import BacoError, InfeasibleError, Location
from baco.compiler.layers.layer import Layer
from baco.exploration.accuracy import kept_accuracy
from baco.exploration.breakdown import CostEntry, DesignCosts, layer_entries, operator_entries
from baco.exploration.candidate import BatchSummary, Candidate, Cost, CostModelName, LayerCost, broken_bounds
from baco.exploration.cost.bound import capacity_bound
from baco.exploration.cost.detail import layer_details, schedule_details
from baco.exploration.cost.fitting_limits import Fitting, least_edp
from baco.exploration.cost.host import host_costs
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.cost.proof import BOUND
from baco.exploration.cost.schedules import schedule_costs, standing_mappings
from baco.exploration.explain.hardware_steps import HardwareStep
from baco.exploration.explain.remap import Known, Reference, Remapper
from baco.exploration.explain.steps import NeighbourSearch, Tried, tried
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.merge import Merged, merge
from baco.exploration.measure.planning import baseline_schedules
from baco.exploration.measure.session import measured_designs
from baco.exploration.objective import Objective
from baco.exploration.records import ProvenanceRecord
from baco.exploration.report import Baseline, CostBound, ReportData, SearchRecord, write_report
from baco.exploration.report.data import LaterDetails
from baco.exploration.report.measured_costs import with_measurements
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.network import Task, Workload

#: Most layers shown in detail, of all designs together: half a millisecond each.
_MOST_DETAILED = 4000
#: How a search ended (`Outcome.stopped`), in words that follow "the search".
ENDED = {
    "budget": "used its budget",
    "time": "reached its time limit",
    "converged": "was complete",
    "interrupted": "was interrupted",
}
_reports = itertools.count()


def write_study_report(path: Path, out: Path) -> None:
    """Write the report of the study at `path` to the folder `out`.

    A study without any feasible design gets a report of the nearest ones. Raises StorageError for a study that cannot be
    read or a folder that cannot be written, InfeasibleError for a study without any design.
    """
    write_report(report_data(path), out)


def report_data(path: Path, *, stopped: str | None = None, notes: tuple[str, ...] = ()) -> ReportData:
    """What a report shows, from the study at `path` (read only: a search may be going on in it).

    Args:
        stopped: how the search ended, a key of `ENDED`; inferred when None.
        notes: remarks for the reader.

    Raises as `write_study_report` does.
    """
    number = next(_reports)
    ask(_read_beside, path, number)
    found = _read(path, stopped, notes)

    def aside(step: HardwareStep, reference: Reference | None) -> Callable[[Callable[[], Tried]], Tried]:
        return ask(_neighbour, path, number, step, reference).get

    search = NeighbourSearch(found.known, aside)
    known, merged, nearest = found.known, found.merged, found.nearest
    layers, space, rest, objective = known.layers, known.space, known.rest, known.objective
    candidates, best, cost_model = merged.candidates, known.designs[0], known.cost_model
    model = make_cost_model(cost_model, layers, space, rest)
    designs = [(c.mappings, c.accelerator) for c in candidates]
    layer_costs = model.design_costs(designs)
    programs = _Programs(known.workload, best.tasks, rest)
    costs = [
        with_measurements(programs.costs(candidate.accelerator, layer_cost), merged.validated.get(index))
        for index, (candidate, layer_cost) in enumerate(zip(candidates, layer_costs, strict=True))
    ]
    for design_costs, predicted in zip(costs, merged.predictions, strict=True):
        design_costs.check(predicted)
    detailed = _detailed(candidates, candidates.index(best), objective)
    details = partial(
        layer_details,
        cost_model,
        layers,
        [designs[i] for i in detailed],
        [layer_costs[i] for i in detailed],
    )
    own = costs[candidates.index(best)]
    return ReportData(
        workload=known.workload,
        objective=objective,
        candidates=candidates,
        best=best,
        costs=costs,
        summaries=found.summaries,
        search=found.search,
        provenance={**found.provenance},
        command=found.provenance["command"],
        bounds=_bounds(best, space, layers, found.summaries, cost_model, rest),
        accuracy=kept_accuracy(path.parent),
        validated=merged.validated,
        others=merged.others,
        violations=[
            broken_bounds(
                space.constraints,
                candidate.cost,
                candidate.tasks,
                ((run.latency_cycles, run.energy_pj) for run in layer),
                candidate.accelerator,
                rest,
            )
            for candidate, layer in zip(nearest, layer_costs, strict=True)
        ]
        if nearest
        else (),
        baseline=_baseline(space, best.tasks, layers, model, merged.others, known.workload),
        details=LaterDetails(detailed, details),
        find_neighbours=partial(search.neighbours, _predicted(best, own)),
    )


@dataclass(frozen=True)
class _Found:
    """What a study holds beside what it takes to map layers anew (`known`, whose first design is the best).

    Attributes:
        merged: what is known of the designs.
        nearest: the designs, where none is feasible.
    """

    known: Known
    merged: Merged
    nearest: Sequence[Candidate]
    summaries: Sequence[BatchSummary]
    search: SearchRecord
    provenance: ProvenanceRecord


def _read(path: Path, stopped: str | None = None, notes: tuple[str, ...] = ()) -> _Found:
    """Raises as `write_study_report` does."""
    with StudyRecord.open(path, read_only=True) as study:
        nearest = [replace(one, front=True) for one in study.nearest()]
        if study.best() is None and not nearest:
            raise InfeasibleError(
                "the study holds no feasible design yet",
                location=Location(str(path)),
                hint=words("continue it with --resume", "continue it with resume=True"),
            )
        workload, space, objective, rest = study.workload(), study.space(), study.objective, study.rest
        record = _search_record(study, bool(nearest), stopped, notes)
        merged = merge(study.candidates() or nearest, measured_designs(study), objective)
        summaries, provenance = study.summaries(), study.provenance
        state, blocks = study.state(), tuple((m, n, k) for m, n, k in study.setup.get("blocks", ()))
    best = nearest[0] if nearest else merged.candidates[merged.best]
    layers = layers_of_tasks(best.tasks, workload)
    designs = [best, *merged.candidates]
    quantiser = kept_accuracy(path.parent).quantiser
    known = Known(
        workload, layers, space, objective, record.cost_model, rest, designs, state, blocks, quantiser
    )
    return _Found(known, merged, nearest, summaries, record, provenance)


@functools.lru_cache(maxsize=1)
def _remapper(path: Path, report: int) -> Remapper:
    """For the best design of a study, as it is when a report is made: read once for each."""
    return Remapper(_read(path).known)


def _read_beside(path: Path, report: int) -> None:
    """Have the study read by the time that neighbours are asked for."""
    _remapper(path, report)


def _neighbour(path: Path, report: int, step: HardwareStep, reference: Reference | None) -> Tried:
    """See `tried`."""
    return tried(_remapper(path, report), step, reference)


def _predicted(best: Candidate, costs: DesignCosts) -> Cost:
    """What is predicted of a design, measured or not."""
    return replace(best.cost, latency_cycles=costs.cycles, energy_pj=costs.energy_pj, source="predicted")


def _search_record(
    study: StudyRecord, infeasible: bool, stopped: str | None, notes: tuple[str, ...]
) -> SearchRecord:
    """How the search of a study was set up and ended."""
    if infeasible:
        ended = "found no feasible design"
    elif stopped:
        ended = ENDED[stopped]
    else:
        ended = "was complete" if study.done else "used its budget or was stopped"
    return SearchRecord(
        searcher=study.setup["searcher"],
        seed=study.setup["seed"],
        space_name=study.setup["space_name"],
        space_text=study.setup["space"],
        ended=ended,
        notes=notes,
        cost_model=study.cost_model,
        whole=study.rest is not None,
    )


def _detailed(candidates: Sequence[Candidate], best: int, objective: Objective) -> list[int]:
    """Candidates whose layers the report shows in detail: the best, the best of every accelerator, then others, as many
    as are predicted in some seconds."""
    order = sorted(range(len(candidates)), key=lambda i: (i != best, objective.scalar(candidates[i].cost), i))
    first: dict[str, int] = {}
    for index in order:
        first.setdefault(candidates[index].accelerator.config_hash, index)
    heads = list(first.values())
    rest = [index for index in order if index not in set(heads)]
    most = max(1, _MOST_DETAILED // max(1, len(candidates[best].tasks)))
    return (heads + rest)[:most]


def _baseline(
    space: DesignSpace,
    tasks: Sequence[Task],
    layers: Sequence[Layer],
    model: CostModel,
    others: Sequence[Design],
    workload: Workload,
) -> Baseline | None:
    """Gemmini's default machine under its own tiling; None where some layer cannot be carried out on it."""
    machine = reference_machine(space)
    try:
        name, schedules = baseline_schedules(layers, machine)
        _, mappings = standing_mappings(layers, schedules, machine)
        costs = schedule_costs(layers, schedules, machine, model.name)
        details = schedule_details(model.name, layers, schedules, costs, machine)
    except BacoError:
        return None
    measured = next((one.measured for one in others if one.role == "baseline" and one.measured), None)
    rest = None if model.rest is None else model.rest.without_groups()
    parts = _Programs(workload, tasks, rest).costs(machine, costs)
    parts.check(None)
    clock = machine.clock_mhz if space.clocks else None
    cost = measured or Cost(parts.cycles, parts.energy_pj, machine.area_mm2, clock_mhz=clock)
    return Baseline(name, machine, mappings, parts, details, cost)


class _Programs:
    """What a workload's programs cost on accelerators, part by part."""

    def __init__(self, workload: Workload, tasks: Sequence[Task], rest: RestOfPrograms | None) -> None:
        self._workload, self._tasks, self._rest = workload, tasks, rest
        self._known: dict[str, tuple[tuple[CostEntry, ...], list[float]]] = {}

    def costs(self, accelerator: Accelerator, layers: Sequence[LayerCost]) -> DesignCosts:
        """Of a design whose layers cost so much, one run each."""
        if accelerator.config_hash not in self._known:
            self._known[accelerator.config_hash] = self._beside(accelerator)
        beside, runs = self._known[accelerator.config_hash]
        own = layer_entries(self._tasks, layers, runs, beside)
        return DesignCosts(own, beside, self._rest is not None)

    def _beside(self, accelerator: Accelerator) -> tuple[tuple[CostEntry, ...], list[float]]:
        """What runs beside layers, with the weights of the networks; and how often each task runs by itself."""
        rest = self._rest
        found: list[CostEntry] = []
        for network, weight in zip(self._workload.networks, self._workload.weights, strict=True):
            operators = (
                rest.operators_of(network.name, accelerator) if rest else host_costs(network, accelerator)
            )
            macs = {
                operator.name: float(operator.problem.macs)
                for operator in network.operators
                if operator.problem
            }
            found += operator_entries(network.name, weight, operators, accelerator, macs)
        runs = rest.counts(self._tasks, accelerator) if rest else [task.count for task in self._tasks]
        return tuple(found), runs


def _bounds(
    best: Candidate,
    space: DesignSpace,
    layers: Sequence[Layer],
    summaries: Sequence[BatchSummary],
    cost_model: CostModelName,
    rest: RestOfPrograms | None,
) -> list[CostBound]:
    """Limits on the EDP of the workload that hold for the best design's costs, the tightest last.

    What is measured was compiled, so of measured costs the limit of compiled programs holds, whatever model the search
    believed.
    """
    if space.settings:  # nothing holds for all of them
        return []
    measured = best.cost.source == "measured"
    if measured or cost_model == "instruction":
        limits = limits_of(best.tasks, space, layers, rest)
        bounds = [
            CostBound(
                "compulsory work",
                limits.edp,
                "On its best accelerator of the space, every operand crosses main memory's channel once while the array"
                " takes a full row of operands every cycle; all dataflows and packings at their best.",
                predicted=cost_model == "instruction",
            )
        ]
        if not measured and Fitting.knows(space):
            bounds.append(
                CostBound(
                    "capacity",
                    least_edp(limits, layers, best.cost.edp),
                    "As compulsory work, but for each accelerator of the space the least of all tilings that fit its memories,"
                    " with what they bring again, as the model counts energy and cycles of one and the same tiling.",
                )
            )
        return bounds
    bounds = [
        CostBound(
            "compulsory traffic",
            limits_of(best.tasks, space, None).edp,
            "On its best accelerator of the space, every tensor crosses the DRAM bus once and the array is perfectly"
            " used; what memories cannot hold costs nothing.",
        )
    ]
    proven = [summary.details[BOUND] for summary in summaries if BOUND in summary.details]
    if proven:
        bounds.append(
            CostBound(
                "proven",
                proven[-1],
                "Exact branch and bound over all accelerators of the space and all mappings: no design is better.",
            )
        )
    elif space.enumerable:
        bounds.append(
            CostBound(
                "capacity",
                capacity_bound(best.tasks, space).edp,
                "As compulsory traffic, but for each accelerator of the space with the least DRAM traffic of any tiling"
                " that fits its memories.",
            )
        )
    return sorted(bounds, key=lambda bound: bound.edp)
