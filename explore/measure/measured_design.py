"""A design as it is measured: every layer with its schedule, programs, what was predicted, and what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.network.plan import Plan
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import parse_schedule
from baco.exploration._json import Amount, Count, Json, from_json, reader, text, to_json
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.program import ProgramCost
from baco.exploration.measure.job import Measurable, MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.program_job import ProgramJob
from baco.exploration.measure.store import measurement_key
from baco.exploration.objective import Objective
from baco.workloads.network import Task

#: `candidate`: found by a search; `baseline`: the reference machine with Gemmini's default tiling; `mappings`: the
#: reference machine with mappings that were searched for it.
Role = Literal["candidate", "baseline", "mappings"]
#: `measured`: every layer ran and every element of its output was right. `sampled`: so far some of them.
#: `failed`: an output was wrong or a simulation went wrong. `infeasible`: it cannot be compiled. `pending`: nothing yet.
DesignStatus = Literal["measured", "sampled", "failed", "infeasible", "pending"]

#: Layers, schedules and plans are kept as their texts and JSON; what was measured is kept apart, by key.
_LayerText = Annotated[Layer, PlainSerializer(layer_text), PlainValidator(lambda one: parse_layer(text(one)))]
_ScheduleText = Annotated[
    Schedule | None,
    PlainValidator(lambda one: parse_schedule(text(one)) if one != "" else None),
    # behind the reader: the one class of all schedules has no reader of pydantic's own
    PlainSerializer(lambda one: "" if one is None else one.text),
]
_PlanJson = Annotated[
    Plan | None,
    PlainSerializer(lambda one: None if one is None else one.to_json()),
    PlainValidator(lambda one: None if one is None else Plan.from_json(one)),
]
_Measured = Annotated[Measurement | None, Field(exclude=True)]
_Tasks = Annotated[tuple[Task, ...], Field(exclude=True)]


class _Part:
    """What is measured by itself of a design, a layer or a program; both are dataclasses with these fields."""

    reason: str
    measured: Measurement | None

    if TYPE_CHECKING:  # a default here would be one of the dataclasses' fields

        @property
        def predicted_cycles(self) -> float | None:
            """Of one run; None where nothing predicts it."""

        @property
        def predicted_energy_pj(self) -> float | None:
            """Likewise."""

    @property
    def status(self) -> DesignStatus:
        """How far it got."""
        if self.reason:
            return "infeasible"
        return self.measured.status if self.measured else "pending"

    @property
    def failure(self) -> str:
        """Why it failed or is infeasible."""
        return self.reason or (self.measured.reason if self.measured else "")

    @property
    def ratio(self) -> float | None:
        """Predicted over measured cycles."""
        predicted = self.predicted_cycles
        if self.status != "measured" or self.measured is None or predicted is None:
            return None
        return predicted / self.measured.cycles

    @property
    def energy_ratio(self) -> float | None:
        """Predicted over measured energy."""
        predicted = self.predicted_energy_pj
        if self.status != "measured" or self.measured is None or predicted is None:
            return None
        return predicted / self.measured.energy_pj


@dataclass(frozen=True)
class DesignLayer(_Part):
    """One task of a design.

    Attributes:
        key: of its measurement; empty when nothing can be measured.
        layer, schedule: what and how; `schedule` is None when there is none.
        reason: why it cannot be compiled; empty when it can.
        predicted_cycles, predicted_energy_pj: of one run; None where nothing predicts it.
        measured: None as long as it was not.
    """

    key: str
    layer: _LayerText
    schedule: _ScheduleText
    reason: str
    predicted_cycles: Amount | None
    predicted_energy_pj: Amount | None
    measured: _Measured = None


@dataclass(frozen=True)
class DesignProgram(_Part):
    """A network's program on a design.

    Attributes:
        network, weight: which, and how often it runs in the workload.
        key: of its measurement; empty when nothing can be measured.
        plan: None when there is none.
        reason: why it cannot be compiled; empty when it can.
        predicted: cost of one run; None without a plan.
        measured: None as long as it was not.
    """

    network: str
    weight: Amount
    key: str
    plan: _PlanJson
    reason: str
    predicted: ProgramCost | None
    measured: _Measured = None

    @property
    def predicted_cycles(self) -> float | None:
        """Of one run."""
        return self.predicted.cycles if self.predicted else None

    @property
    def predicted_energy_pj(self) -> float | None:
        """Likewise."""
        return self.predicted.energy_pj if self.predicted else None


@dataclass(frozen=True)
class Estimate:
    """Cost of a workload of which some layers were measured; the others are predicted, and scaled as those are.

    Attributes:
        cost: totals.
        share: part of the predicted cycles that belongs to measured layers.
        latency_error, energy_error: relative half-widths of intervals that hold the truth about 19 times in 20, from
            the spread of predicted over measured among the measured layers; None below three of them.
    """

    cost: Cost
    share: float
    latency_error: float | None
    energy_error: float | None

    @property
    def edp_error(self) -> float | None:
        """The same for the EDP: both factors may be wrong in the same direction."""
        if self.latency_error is None or self.energy_error is None:
            return None
        return (1 + self.latency_error) * (1 + self.energy_error) - 1


@dataclass(frozen=True)
class Design:
    """An accelerator with a schedule for each task of a workload, and what was measured of it.

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
        tasks: of the workload; kept once for all designs of a study.
    """

    name: str
    role: Role
    accelerator: Accelerator
    mappings: tuple[Mapping, ...]
    predicted: Cost | None
    layers: tuple[DesignLayer, ...]
    reason: str
    cost_model: str
    samples: Count = 0
    rest: tuple[Amount, Amount] = (0.0, 0.0)
    programs: tuple[DesignProgram, ...] = ()
    counts: tuple[Amount, ...] = ()
    searched: Cost | None = None
    tasks: _Tasks = field(default=(), repr=False)

    @classmethod
    @reader("a validated design")
    def from_json(
        cls, data: Json, tasks: tuple[Task, ...], measurements: Dictionary[str, Measurement] | None = None
    ) -> Design:
        """Inverse of `baco.exploration._json.to_json`, with the tasks of its study and the measurements there are, by key.

        Raises InputError for anything else, and for other tasks.
        """
        found = replace(from_json(cls, data), tasks=tasks)
        if len(found.layers) != len(tasks) or len(found.counts or tasks) != len(tasks):
            raise ValueError(f"{len(found.layers)} layers for {len(tasks)} tasks")
        return found.with_measurements(measurements or {})

    def with_measurements(self, measurements: Dictionary[str, Measurement]) -> Design:
        """The same with what was measured, by key, and nothing else."""
        layers = (replace(layer, measured=measurements.get(layer.key)) for layer in self.layers)
        programs = (replace(program, measured=measurements.get(program.key)) for program in self.programs)
        return replace(self, layers=tuple(layers), programs=tuple(programs))

    def as_programs(self, programs: tuple[DesignProgram, ...]) -> Design:
        """The same design, to be measured as whole programs, and predicted as these are."""
        predicted = self.predicted
        known = [(program.weight, program.predicted) for program in programs if program.predicted is not None]
        if len(known) == len(programs):
            predicted = self._cost(
                sum(weight * cost.cycles for weight, cost in known),
                sum(weight * cost.energy_pj for weight, cost in known),
            )
        return replace(self, programs=programs, predicted=predicted, searched=self.predicted)

    @property
    def prediction(self) -> Cost | None:
        """What the search predicted, whatever its programs were predicted to take since; None where that was not kept."""
        return self.searched or (None if self.programs else self.predicted)

    @property
    def unmeasured(self) -> Design:
        """Its layers as its own Verilog is to measure them, whatever measured them before."""
        layers = [
            one
            if one.schedule is None
            else replace(one, key=measurement_key(one.layer, one.schedule, self.accelerator), measured=None)
            for one in self.layers
        ]
        return replace(self, layers=tuple(layers))

    @property
    def identity(self) -> str:
        """Equal for equal hardware and mappings, whatever they are called."""
        mappings = [to_json(mapping) for mapping in self.mappings]
        schedules = ("" if layer.schedule is None else layer.schedule.text for layer in self.layers)
        return _identity(self.accelerator, mappings or list(schedules))

    def candidate(self, objective: Objective) -> Candidate:
        """The design as a search would have found it, on no front. It must have a prediction."""
        predicted = self.prediction or self.predicted
        assert predicted is not None
        scalar = objective.scalar(predicted)
        return Candidate(
            self.accelerator, self.tasks, self.mappings, predicted, self.samples, scalar, front=False
        )

    def jobs(self, cycle_limit: float | None = None) -> dict[str, Measurable]:
        """What must be measured, by key: programs, or else layers, nothing where some layer cannot be compiled.

        Layers that are predicted to take longest come first, so that workers end together.

        Args:
            cycle_limit: of layers, as predicted; see `baco.exploration.measure.session.ValidationOptions`.
        """
        if self.programs:
            return {
                program.key: ProgramJob(program.plan, f"{self.name}, {program.network}")
                for program in self.programs
                if program.key and program.plan is not None
            }
        if self.reason or any(layer.reason for layer in self.layers):
            return {}
        wanted = self._within(cycle_limit)
        named = zip(self.layers, self.tasks, strict=True)
        return {
            layer.key: MeasurementJob(
                layer.layer, layer.schedule, self.accelerator, name=f"{self.name}, {task.name}"
            )
            for layer, task in sorted(named, key=lambda pair: -(pair[0].predicted_cycles or 0.0))
            if layer.schedule is not None and layer.key in wanted
        }

    @property
    def parts(self) -> tuple[DesignProgram, ...] | tuple[DesignLayer, ...]:
        """What is measured: programs where there are any, else layers."""
        return self.programs or self.layers

    @property
    def status(self) -> DesignStatus:
        """Of the whole: the worst thing that was found, else how far it got."""
        found = {one.status for one in self.parts}
        if self.reason:
            return "infeasible"
        worst: tuple[DesignStatus, ...] = ("failed", "infeasible")
        for status in worst:
            if status in found:
                return status
        if found == {"measured"}:
            return "measured"
        return "sampled" if "measured" in found else "pending"

    @property
    def failure(self) -> str:
        """Why it failed or is infeasible: the first program or layer of that status, and what it says."""
        status = self.status
        if self.reason or status not in ("failed", "infeasible"):
            return self.reason
        names = [program.network for program in self.programs] or [task.name for task in self.tasks]
        return next(
            f"{name}: {part.failure}"
            for name, part in zip(names, self.parts, strict=True)
            if part.status == status
        )

    @property
    def runs(self) -> Sequence[float]:
        """How often each layer runs by itself."""
        return self.counts or [task.count for task in self.tasks]

    @cached_property
    def measured(self) -> Cost | None:
        """Measured cost of the workload: sums of count times measured cycles and energy; None unless all is measured."""
        if self.status != "measured":
            return None
        times = [program.weight for program in self.programs] or self.runs
        cycles, energy = (0.0, 0.0) if self.programs else self.rest
        found = [
            (count, part.measured)
            for count, part in zip(times, self.parts, strict=True)
            if part.measured is not None
        ]
        return self._cost(
            cycles + sum(count * cost.cycles for count, cost in found),
            energy + sum(count * cost.energy_pj for count, cost in found),
            "measured",
        )

    @property
    def estimate(self) -> Estimate | None:
        """Cost with an error bar where only some layers were measured; None otherwise, and without predictions."""
        if self.status != "sampled" or self.programs:
            return None
        latency, energy = (self._estimated(what) for what in ("cycles", "energy_pj"))
        if latency is None or energy is None:
            return None
        cycles, pj = self.rest
        return Estimate(self._cost(latency[0] + cycles, energy[0] + pj), latency[2], latency[1], energy[1])

    def _cost(
        self, cycles: float, energy_pj: float, source: Literal["predicted", "measured"] = "predicted"
    ) -> Cost:
        clock = self.predicted.clock_mhz if self.predicted else None
        return Cost(cycles, energy_pj, self.accelerator.area_mm2, source, clock)

    def _within(self, limit: float | None) -> set[str]:
        """Keys of the layers to measure under a limit of simulated cycles."""
        cycles = [layer.predicted_cycles for layer in self.layers]
        if limit is None or any(predicted is None for predicted in cycles):
            return {layer.key for layer in self.layers}
        weights = [count * (predicted or 0.0) for count, predicted in zip(self.runs, cycles, strict=True)]
        chosen: set[str] = set()
        spent = 0.0
        for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
            layer = self.layers[index]
            if layer.key in chosen:
                continue
            spent += layer.predicted_cycles or 0.0
            if chosen and spent > limit:
                break
            chosen.add(layer.key)
        return chosen

    def _estimated(self, what: str) -> tuple[float, float | None, float] | None:
        """(total, relative error, predicted share of what is measured) of a quantity of the layers; see `Estimate`."""
        known, predicted_known = 0.0, 0.0
        rest, ratios = [], []
        for layer, count in zip(self.layers, self.runs, strict=True):
            predicted = getattr(layer, f"predicted_{what}")
            if predicted is None:
                return None
            if count == 0:
                continue
            predicted *= count
            if layer.status == "measured":
                value = count * getattr(layer.measured, what)
                known, predicted_known = known + value, predicted_known + predicted
                ratios.append(value / predicted)
            else:
                rest.append(predicted)
        scale = known / predicted_known
        total = known + scale * sum(rest)
        share = predicted_known / (predicted_known + sum(rest))
        if len(ratios) < 3:
            return total, None, share
        spread = float(np.std(portable.log(ratios), ddof=1))
        # of each layer on its own, and of the scale that all share
        own = math.sqrt(sum((scale * one * spread) ** 2 for one in rest))
        common = scale * sum(rest) * spread / math.sqrt(len(ratios))
        return total, 2 * math.sqrt(own * own + common * common) / total, share


def _identity(accelerator: Accelerator, how: Any) -> str:
    """See `Design.identity`; `how` is plain JSON of mappings or schedules."""
    return stable_hash({"accelerator": accelerator.config_hash, "how": how})


def candidate_identity(candidate: Candidate) -> str:
    """`Design.identity` of a candidate."""
    return _identity(candidate.accelerator, [to_json(one) for one in candidate.mappings])
