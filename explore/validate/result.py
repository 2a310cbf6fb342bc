"""What came of measuring a design: its status, its measured cost, or an estimate with an error bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco.common import portable
from baco.exploration.candidate import Cost
from baco.exploration.measure.measurement import Measurement
from baco.exploration.validate.design import Design, PlannedLayer
from baco.exploration.validate.whole import PlannedProgram
from baco.workloads.network import Task

__all__ = [
    "Estimate",
    "LayerResult",
    "ModelError",
    "ProgramResult",
    "Status",
    "ValidatedDesign",
    "model_error",
]

#: `measured`: every layer ran and every element of its output was right. `sampled`: so far some of them.
#: `failed`: an output was wrong or a simulation went wrong. `infeasible`: it cannot be compiled. `pending`: nothing yet.
Status = Literal["measured", "sampled", "failed", "infeasible", "pending"]


class _Result:
    """What came of something that was planned and perhaps measured: a layer, or a program."""

    planned: PlannedLayer | PlannedProgram
    measured: Measurement | None

    @property
    def status(self) -> Status:
        """How far it got."""
        if self.planned.reason:
            return "infeasible"
        return self.measured.status if self.measured else "pending"

    @property
    def reason(self) -> str:
        """Of what failed or is infeasible."""
        return self.planned.reason or (self.measured.reason if self.measured else "")

    @property
    def ratio(self) -> float | None:
        """Predicted over measured cycles."""
        predicted = self.planned.predicted_cycles
        if self.status != "measured" or self.measured is None or predicted is None:
            return None
        return predicted / self.measured.cycles


@dataclass(frozen=True)
class LayerResult(_Result):
    """One task of a design with its measurement, if it has been made.

    Attributes:
        task: the problem and its count.
        planned: how it is carried out, and the prediction.
        measured: None as long as it was not measured.
    """

    task: Task
    planned: PlannedLayer
    measured: Measurement | None


@dataclass(frozen=True)
class ProgramResult(_Result):
    """A network's whole program with its measurement, if it has been made.

    Attributes:
        planned: what it is, and the prediction.
        measured: None as long as it was not measured.
    """

    planned: PlannedProgram
    measured: Measurement | None


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
class ValidatedDesign:
    """A design and what was measured of it.

    Attributes:
        design: hardware, schedules, predictions.
        layers: one for each task, same order.
        programs: one for each network where the design is measured as whole programs; then these count.
    """

    design: Design
    layers: tuple[LayerResult, ...]
    programs: tuple[ProgramResult, ...] = ()

    @classmethod
    def of(
        cls, design: Design, tasks: Sequence[Task], measurements: Mapping[str, Measurement]
    ) -> ValidatedDesign:
        """Join a design with the measurements there are, by key. Raises ValueError for other tasks."""
        return cls(
            design,
            tuple(
                LayerResult(task, planned, measurements.get(planned.key))
                for task, planned in zip(tasks, design.layers, strict=True)
            ),
            tuple(ProgramResult(one, measurements.get(one.key)) for one in design.programs),
        )

    @property
    def status(self) -> Status:
        """Of the whole: the worst thing that was found, else how far it got."""
        found = {one.status for one in self.programs or self.layers}
        if self.design.reason:
            return "infeasible"
        for worst in ("failed", "infeasible"):
            if worst in found:
                return worst  # type: ignore[return-value]
        if found == {"measured"}:
            return "measured"
        return "sampled" if "measured" in found else "pending"

    @property
    def reason(self) -> str:
        """Why it failed or is infeasible: the first layer of that status, and what it says."""
        if self.design.reason:
            return self.design.reason
        status = self.status
        if status not in ("failed", "infeasible"):
            return ""
        for program in self.programs:
            if program.status == status:
                return f"{program.planned.network}: {program.reason}"
        for layer in self.layers:
            if layer.status == status:
                return f"{layer.task.name}: {layer.reason}"
        return ""

    @property
    def counts(self) -> Sequence[float]:
        """How often each layer runs by itself."""
        return self.design.counts or [one.task.count for one in self.layers]

    @property
    def cost(self) -> Cost | None:
        """Measured cost of the workload: sums of count times measured cycles and energy; None unless all is measured."""
        if self.status != "measured":
            return None
        measured = [
            *((one.planned.weight, one.measured) for one in self.programs if one.measured),
            *(
                (count, one.measured)
                for one, count in zip(self.layers, self.counts, strict=True)
                if one.measured and not self.programs
            ),
        ]
        beside = (0.0, 0.0) if self.programs else self.design.rest
        return Cost(
            beside[0] + sum(count * one.cycles for count, one in measured),
            beside[1] + sum(count * one.energy_pj for count, one in measured),
            self.design.accelerator.area_mm2,
            "measured",
            self.design.compared_clock,
        )

    @property
    def estimate(self) -> Estimate | None:
        """Cost with an error bar where only some layers were measured; None otherwise, and without predictions."""
        if self.status != "sampled" or self.programs:
            return None
        latency, energy = (_estimate(self.layers, self.counts, what) for what in ("cycles", "energy_pj"))
        if latency is None or energy is None:
            return None
        area = self.design.accelerator.area_mm2
        cycles, pj = self.design.rest
        return Estimate(
            Cost(latency[0] + cycles, energy[0] + pj, area, clock_mhz=self.design.compared_clock),
            latency[2],
            latency[1],
            energy[1],
        )


def _estimate(
    layers: Sequence[LayerResult], counts: Sequence[float], what: str
) -> tuple[float, float | None, float] | None:
    """(total, relative error, predicted share of what is measured) of a quantity; see `Estimate`."""
    known, rest, ratios = 0.0, [], []
    predicted_known = 0.0
    for layer, count in zip(layers, counts, strict=True):
        predicted = getattr(layer.planned, f"predicted_{what}")
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


@dataclass(frozen=True)
class ModelError:
    """How far predicted cycles are from measured ones, over what was measured.

    Attributes:
        what: `layers`, or `whole programs` where any were measured.
        count: how many.
        mean_absolute: mean of |predicted / measured - 1|.
        bias: mean of predicted / measured - 1.
        worst_ratio: the ratio predicted / measured farthest from 1.
    """

    what: Literal["layers", "whole programs"]
    count: int
    mean_absolute: float
    bias: float
    worst_ratio: float


def model_error(designs: Sequence[ValidatedDesign]) -> ModelError | None:
    """Over all programs, else all layers, of all designs that were measured and predicted, each measurement once; None
    without any."""
    what: Literal["layers", "whole programs"] = "whole programs"
    ratios = {
        program.planned.key: program.ratio
        for design in designs
        for program in design.programs
        if program.ratio is not None
    }
    if not ratios:
        what = "layers"
        ratios = {
            layer.planned.key: layer.ratio
            for design in designs
            for layer in design.layers
            if layer.ratio is not None
        }
    if not ratios:
        return None
    found = np.array(list(ratios.values()), dtype=np.float64)
    return ModelError(
        what,
        count=len(found),
        mean_absolute=float(np.abs(found - 1).mean()),
        bias=float((found - 1).mean()),
        worst_ratio=float(found[np.abs(portable.log(found)).argmax()]),
    )
