"""A design as it is measured: every layer with its schedule, and what was predicted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import check_rtl
from baco.common.errors import BacoError, InfeasibleError
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.network.plan import Plan
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.schedules.text import layer_text, parse_layer, parse_schedule, schedule_text
from baco.compiler.styles import check_schedule
from baco.compiler.styles.realise import realise
from baco.exploration._json import Amount, Count, Json, from_json, reader, to_json
from baco.exploration.candidate import Candidate, Cost, LayerCost
from baco.exploration.cost.model import CostModel
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.program import ProgramJob
from baco.exploration.objective import Objective
from baco.exploration.validate.whole import PlannedProgram, predicted_cost
from baco.workloads.network import Task

__all__ = [
    "Design",
    "PlannedLayer",
    "Role",
    "as_programs",
    "design_of_candidate",
    "design_of_schedules",
    "jobs_of",
    "programs_of",
]

#: `candidate`: found by the search; `baseline`: the reference machine with Gemmini's default tiling; `mappings`: the
#: reference machine with mappings that were searched for it.
Role = Literal["candidate", "baseline", "mappings"]


@dataclass(frozen=True)
class PlannedLayer:
    """One task of a design.

    Attributes:
        key: of its measurement; empty when nothing can be measured.
        layer, schedule: as `baco.compiler.schedules.text` writes them; `schedule` is empty when there is none.
        reason: why it cannot be compiled; empty when it can.
        predicted_cycles, predicted_energy_pj: of one run; None where nothing predicts it.
    """

    key: str
    layer: str
    schedule: str
    reason: str
    predicted_cycles: Amount | None
    predicted_energy_pj: Amount | None


@dataclass(frozen=True)
class Design:
    """An accelerator with a schedule for each task of a workload, as the study keeps it.

    Attributes:
        name: for people: `best 1`, `front 2`, or what the baseline is.
        role: see `Role`.
        accelerator: the hardware.
        mappings: of a candidate, as searched; empty for the compiler's or a heuristic's schedules.
        predicted: cost of the workload; None where some layer has no prediction. Of whole programs, as they are compiled.
        layers: one for each task, same order.
        reason: why no Verilog can be generated for the accelerator; empty when it can.
        cost_model: what predicted.
        samples: problem-mapping evaluations spent when it was found; 0 for what no search found.
        rest: cycles and energy (pJ), predicted, of what programs do beside the layers, for designs whose costs have it.
        programs: one for each network where the design is measured as whole programs; empty where it is layer by layer.
        counts: how often each layer runs by itself; empty: as often as its task says.
        searched: what the search predicted of a design that is measured as whole programs, before they were compiled.
    """

    name: str
    role: Role
    accelerator: Accelerator
    mappings: tuple[Mapping, ...]
    predicted: Cost | None
    layers: tuple[PlannedLayer, ...]
    reason: str
    cost_model: str
    samples: Count = 0
    rest: tuple[Amount, Amount] = (0.0, 0.0)
    programs: tuple[PlannedProgram, ...] = ()
    counts: tuple[Amount, ...] = ()
    searched: Cost | None = None

    @property
    def prediction(self) -> Cost | None:
        """What the search predicted, whatever its programs were predicted to take since; None where that was not kept."""
        return self.searched or (None if self.programs else self.predicted)

    @property
    def identity(self) -> str:
        """Equal for equal hardware and mappings, whatever they are called."""
        mappings = [to_json(one) for one in self.mappings]
        return design_identity(self.accelerator, mappings or [one.schedule for one in self.layers])

    def candidate(self, tasks: tuple[Task, ...], objective: Objective) -> Candidate:
        """The design as a search would have found it, on no front. It must have a prediction."""
        predicted = self.prediction or self.predicted
        assert predicted is not None
        scalar = objective.scalar(predicted)
        return Candidate(self.accelerator, tasks, self.mappings, predicted, self.samples, scalar, front=False)

    @property
    def compared_clock(self) -> float | None:
        """See `Cost.clock_mhz`."""
        return self.predicted.clock_mhz if self.predicted else None

    @classmethod
    @reader("a validated design")
    def from_json(cls, data: Json) -> Design:
        """Inverse of `baco.exploration._json.to_json`. Raises InputError for anything else."""
        found = from_json(cls, data)
        for one in found.programs:
            if one.plan is not None:
                Plan.from_json(one.plan)
        return found


def design_identity(accelerator: Accelerator, how: object) -> str:
    """See `Design.identity`; `how` is plain JSON of mappings or schedules."""
    return stable_hash({"accelerator": accelerator.config_hash, "how": how})


def candidate_identity(candidate: Candidate) -> str:
    """`Design.identity` of a candidate."""
    return design_identity(candidate.accelerator, [to_json(one) for one in candidate.mappings])


def design_of_candidate(
    name: str,
    candidate: Candidate,
    layers: Sequence[Layer],
    model: CostModel,
    role: Role = "candidate",
) -> Design:
    """A candidate's mappings as they are realised, with its prediction by the model that found it.

    What cannot be compiled is said in the layers, or in the design when no Verilog can be made of its accelerator.
    """
    accelerator = candidate.accelerator
    costs = model.layer_costs(candidate.mappings, accelerator)
    planned = []
    reason = _rtl_problem(accelerator)
    for layer, mapping, cost in zip(layers, candidate.mappings, costs, strict=True):
        planned.append(_planned(layer, mapping, accelerator, cost, reason))
    return Design(
        name,
        role,
        accelerator,
        candidate.mappings,
        candidate.cost,
        tuple(planned),
        reason,
        model.name,
        candidate.samples,
        model.rest.whole(accelerator) if model.rest else (0.0, 0.0),
        counts=tuple(model.rest.counts(candidate.tasks, accelerator)) if model.rest else (),
    )


def design_of_schedules(
    name: str,
    role: Role,
    accelerator: Accelerator,
    tasks: Sequence[Task],
    layers: Sequence[Layer],
    schedules: Sequence[Schedule],
    model: CostModel,
    *,
    clocks: bool = False,
) -> Design:
    """A design whose schedules come from elsewhere than a search; predicted where each can be carried out."""
    costs: list[LayerCost] | None = None
    try:
        costs = schedule_costs(layers, schedules, accelerator, model.name)
    except BacoError:  # some schedule cannot be carried out
        costs = None
    reason = _rtl_problem(accelerator)
    planned = [
        _planned(layer, schedule, accelerator, costs[i] if costs else None, reason)
        for i, (layer, schedule) in enumerate(zip(layers, schedules, strict=True))
    ]
    predicted = None
    rest_cycles, rest_pj = model.rest.without_groups().whole(accelerator) if model.rest else (0.0, 0.0)
    if costs:
        predicted = Cost(
            rest_cycles + sum(t.count * cost.latency_cycles for t, cost in zip(tasks, costs, strict=True)),
            rest_pj + sum(t.count * cost.energy_pj for t, cost in zip(tasks, costs, strict=True)),
            accelerator.area_mm2,
            clock_mhz=accelerator.clock_mhz if clocks else None,
        )
    return Design(
        name,
        role,
        accelerator,
        (),
        predicted,
        tuple(planned),
        reason,
        model.name,
        rest=(rest_cycles, rest_pj),
    )


def as_programs(design: Design, programs: tuple[PlannedProgram, ...]) -> Design:
    """The same design, to be measured as whole programs, and predicted as these are."""
    predicted = predicted_cost(programs, design.accelerator.area_mm2)
    if predicted is not None:
        predicted = replace(predicted, clock_mhz=design.compared_clock)
    return replace(
        design, programs=programs, predicted=predicted or design.predicted, searched=design.predicted
    )


def programs_of(design: Design) -> dict[str, ProgramJob]:
    """The programs that must be measured for a design, by key."""
    return {
        one.key: ProgramJob(Plan.from_json(one.plan), f"{design.name}, {one.network}")
        for one in design.programs
        if one.key
    }


def jobs_of(design: Design, tasks: Sequence[Task]) -> dict[str, MeasurementJob]:
    """The layers that must be measured for a design, by key; nothing where some layer cannot be compiled.

    Layers that are predicted to take longest come first, so that workers end together.
    """
    if design.reason or any(one.reason for one in design.layers):
        return {}
    named = zip(design.layers, tasks, strict=True)
    longest = sorted(named, key=lambda pair: -(pair[0].predicted_cycles or 0.0))
    return {
        one.key: MeasurementJob(
            parse_layer(one.layer),
            parse_schedule(one.schedule),
            design.accelerator,
            name=f"{design.name}, {task.name}",
        )
        for one, task in longest
    }


def _planned(
    layer: Layer, how: Mapping | Schedule, accelerator: Accelerator, cost: LayerCost | None, reason: str
) -> PlannedLayer:
    predicted = (None, None) if cost is None else (cost.latency_cycles, cost.energy_pj)
    if reason:
        return PlannedLayer("", layer_text(layer), "", "", *predicted)
    try:
        schedule = realise(layer, how, accelerator) if isinstance(how, Mapping) else how
        check_schedule(layer, schedule, accelerator)
    except InfeasibleError as error:
        return PlannedLayer("", layer_text(layer), "", error.message, *predicted)
    text = schedule_text(schedule)
    job = MeasurementJob(layer, parse_schedule(text), accelerator)
    return PlannedLayer(job.key, layer_text(layer), text, "", *predicted)


def _rtl_problem(accelerator: Accelerator) -> str:
    try:
        check_rtl(accelerator)
    except InfeasibleError as error:
        return error.message
    return ""
