"""Designs as whole programs: one plan for each network of a workload, and what it is predicted to take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.common.errors import BacoError, InfeasibleError
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import GroupScheduler
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.plan import Plan
from baco.compiler.network.program import scheduler
from baco.compiler.network.quantise import names_outside, quantise
from baco.exploration._json import Amount, Json
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.program import ProgramCost, program_cost
from baco.exploration.measure.program import ProgramJob
from baco.exploration.objective import Objective
from baco.exploration.studies.plan import SearchedSchedules
from baco.workloads.inputs.load import load_again
from baco.workloads.inputs.samples import SampleFile
from baco.workloads.network import Workload

__all__ = ["MOST_CYCLES", "PlannedProgram", "WholeNetworks", "predicted_cost", "whole_networks"]

#: Programs that are predicted to take longer are not simulated whole: at two million cycles a second, ten minutes.
MOST_CYCLES = 1.2e9
#: Of parameters that a network's source does not give, and of samples.
_SEED = 0


@dataclass(frozen=True)
class PlannedProgram:
    """A network's program on a design.

    Attributes:
        network, weight: which, and how often it runs in the workload.
        key: of its measurement; empty when nothing can be measured.
        plan: as JSON; None when there is none.
        reason: why it cannot be compiled; empty when it can.
        predicted: cost of one run; None without a plan.
    """

    network: str
    weight: Amount
    key: str
    plan: Json | None
    reason: str
    predicted: ProgramCost | None

    @property
    def predicted_cycles(self) -> float | None:
        """Of one run."""
        return self.predicted.cycles if self.predicted else None


def predicted_cost(programs: Sequence[PlannedProgram], area_mm2: float) -> Cost | None:
    """Of the workload; None where a program is not predicted."""
    known = [(one.weight, one.predicted) for one in programs if one.predicted is not None]
    if len(known) < len(programs):
        return None
    return Cost(
        sum(weight * one.cycles for weight, one in known),
        sum(weight * one.energy_pj for weight, one in known),
        area_mm2,
    )


@dataclass(frozen=True)
class _Quantised:
    """A network of a workload in integers: its name, where it comes from, how often it runs, what its ranges are of."""

    name: str
    spec: str
    weight: float
    network: QuantisedNetwork
    data: SampleFile | None


class WholeNetworks:
    """The networks of a workload in integers, for plans on any number of accelerators.

    Args:
        workload: with graphs alone, as a study keeps it: networks are loaded from where they came from.
        data: samples that their ranges are taken from, by the network's name; random ones where there are none.

    Raises InputError for a network or samples that are not there any more or cannot be run, InfeasibleError for one that no
    main memory holds.
    """

    def __init__(self, workload: Workload, data: Mapping[str, SampleFile] | None = None) -> None:
        self._networks: list[_Quantised] = []
        for network, weight in zip(workload.networks, workload.weights, strict=True):
            found, file = load_again(network), (data or {}).get(network.name)
            samples = [] if file is None else file.read(found, names_outside(found)[0])
            quantised = quantise(found, samples, seed=_SEED)
            self._networks.append(_Quantised(network.name, found.spec, weight, quantised, file))

    def of_candidate(
        self, candidate: Candidate, objective: Objective, reason: str, *, fusion: bool = True
    ) -> tuple[PlannedProgram, ...]:
        """A design's mappings, each where it is best in the program, and unless told otherwise operators as one unit where that
        is. With a `reason` nothing can be compiled."""

        def schedules() -> tuple[Scheduler, GroupScheduler | None]:
            searched = SearchedSchedules(candidate, objective)
            # the original has no moves that groups need
            return searched, searched.group if fusion and candidate.accelerator.timing == "baco" else None

        return self._planned(candidate.accelerator, schedules, reason)

    def of_baseline(self, machine: Accelerator, reason: str) -> tuple[PlannedProgram, ...]:
        """What Gemmini's library would run on a machine."""
        return self._planned(machine, lambda: (scheduler(machine, baseline=True), None), reason)

    def _planned(
        self,
        accelerator: Accelerator,
        schedules: Callable[[], tuple[Scheduler, GroupScheduler | None]],
        reason: str,
    ) -> tuple[PlannedProgram, ...]:
        found = []
        for one in self._networks:
            plan: Plan | None = None
            predicted: ProgramCost | None = None
            problem = reason
            if not reason:
                try:
                    lowered = lower_network(one.network, accelerator, *schedules())
                    plan = Plan.of(one.spec, accelerator, _SEED, lowered, one.data)
                    predicted = program_cost(lowered, accelerator)
                except InfeasibleError as error:
                    problem = error.message
            key = ProgramJob(plan).key if plan and not problem else ""
            record = plan.to_json() if plan else None
            found.append(PlannedProgram(one.name, one.weight, key, record, problem, predicted))
        return tuple(found)


def whole_networks(
    workload: Workload, data: Mapping[str, SampleFile], note: Callable[[str], None]
) -> WholeNetworks | None:
    """The networks of a study in integers; None, with a note why, where they cannot become programs."""
    try:
        return WholeNetworks(workload, data)
    except BacoError as error:
        note(f"layers are measured one by one, as whole programs cannot be: {error.message}")
        return None
