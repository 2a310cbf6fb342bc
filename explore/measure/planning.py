"""Designs to measure: a candidate's, given schedules, the machine to compare with; layer by layer or as whole programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.switched_energy import SwitchedEnergy, Toggles
from baco.accel.verilog.generate import check_rtl
from baco.common.errors import BacoError, InfeasibleError
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import GroupScheduler
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.plan import Plan
from baco.compiler.network.program import scheduler
from baco.compiler.network.quantise import names_outside, quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer
from baco.exploration.candidate import Candidate, Cost, LayerCost
from baco.exploration.cost.model import CostModel
from baco.exploration.cost.program import program_cost
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.cost.toggles import network_toggles
from baco.exploration.measure.layer import schedule_for
from baco.exploration.measure.measured_design import Design, DesignLayer, DesignProgram, Role
from baco.exploration.measure.program_job import ProgramJob, other_inputs
from baco.exploration.measure.store import measurement_key
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine
from baco.exploration.studies.plan import SearchedSchedules
from baco.workloads.inputs.load import load_again
from baco.workloads.inputs.samples import SampleFile
from baco.workloads.network import Task, Workload

#: Programs that are predicted to take longer are not simulated whole: at two million cycles a second, ten minutes.
MOST_CYCLES = 1.2e9
#: Of parameters that a network's source does not give, and of samples.
_SEED = 0


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
    accelerator, rest = candidate.accelerator, model.rest
    costs = model.layer_costs(candidate.mappings, accelerator)
    reason = _rtl_problem(accelerator)
    return Design(
        name,
        role,
        accelerator,
        candidate.mappings,
        candidate.cost,
        _planned(layers, candidate.mappings, accelerator, costs, reason),
        reason,
        model.name,
        candidate.samples,
        rest.whole(accelerator) if rest else (0.0, 0.0),
        counts=tuple(rest.counts(candidate.tasks, accelerator)) if rest else (),
        tasks=candidate.tasks,
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
        _planned(layers, schedules, accelerator, costs, reason),
        reason,
        model.name,
        rest=(rest_cycles, rest_pj),
        tasks=tuple(tasks),
    )


def _planned(
    layers: Sequence[Layer],
    how: Sequence[Mapping | Schedule],
    accelerator: Accelerator,
    costs: Sequence[LayerCost] | None,
    reason: str,
) -> tuple[DesignLayer, ...]:
    """Layers as they are carried out; with a `reason` none can be."""
    found = []
    for place, (layer, one) in enumerate(zip(layers, how, strict=True)):
        predicted = (costs[place].latency_cycles, costs[place].energy_pj) if costs else (None, None)
        key, schedule, problem = "", None, ""
        if not reason:
            try:
                schedule = schedule_for(layer, one, accelerator)
                plan_layer(layer, schedule, accelerator)
                key = measurement_key(layer, schedule, accelerator)
            except InfeasibleError as error:
                schedule, problem = None, error.message
        found.append(DesignLayer(key, layer, schedule, problem, *predicted))
    return tuple(found)


def _rtl_problem(accelerator: Accelerator) -> str:
    try:
        check_rtl(accelerator)
    except InfeasibleError as error:
        return error.message
    return ""


def baseline_design(
    space: DesignSpace, tasks: Sequence[Task], layers: Sequence[Layer], model: CostModel
) -> Design:
    """The machine to compare with: Gemmini's default configuration with what Gemmini's library would run on it
    (`baco.compiler.choice.gemmini`).

    Convolutions of one pixel are matrix products, as in the ResNet-50 that comes with Gemmini; as convolutions they would
    take up to three times as long. Layers that the library's macros cannot express run as this compiler chooses, which the
    design's name tells.
    """
    machine = reference_machine(space)
    name, schedules = baseline_schedules(layers, machine)
    return design_of_schedules(
        name, "baseline", machine, tasks, layers, schedules, model, clocks=space.clocks
    )


def baseline_schedules(layers: Sequence[Layer], machine: Accelerator) -> tuple[str, list[Schedule]]:
    """What the baseline is called, and its schedules (see `baseline_design`)."""
    schedules: list[Schedule] = []
    own = 0
    for layer in layers:
        schedule: Schedule = gemmini_schedule(layer, machine)
        try:
            plan_layer(layer, schedule, machine)
        except InfeasibleError:
            schedule, own = choose(layer, machine), own + 1
        schedules.append(schedule)
    name = f"{machine.name}, Gemmini's tiling"
    if own:
        name += f" ({own} of {len(layers)} layers, which its macros cannot express, as this compiler chooses)"
    return name, schedules


@dataclass(frozen=True)
class _Quantised:
    """A network of a workload in integers: its name, where it comes from, how often it runs, what its ranges are of, what its inputs
    hold when it is measured."""

    name: str
    spec: str
    weight: float
    network: QuantisedNetwork
    data: SampleFile | None
    quantiser: Quantiser
    inputs: Dictionary[str, np.ndarray[Any, Any]]

    @cached_property
    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """All elements of a run."""
        return reference(self.network, quantise_inputs(self.network, self.inputs))

    def toggles(self, accelerator: Accelerator) -> dict[str, Toggles] | None:
        """What its numbers make switch, where energies depend on it."""
        if not isinstance(accelerator.energy_law, SwitchedEnergy) or accelerator.input_format != "integer":
            return None
        return network_toggles(self.network, self.values, accelerator.dim)


class WholeNetworks:
    """The networks of a workload in integers, for plans on any number of accelerators.

    Args:
        workload: with graphs alone, as a study keeps it: networks are loaded from where they came from.
        data: samples that their ranges are taken from, by the network's name; random ones where there are none.
        quantiser: how scales are chosen.

    Raises InputError for a network or samples that are not there any more or cannot be run, InfeasibleError for one that no
    main memory holds.
    """

    def __init__(
        self,
        workload: Workload,
        data: Dictionary[str, SampleFile] | None = None,
        quantiser: Quantiser = DEFAULT,
    ) -> None:
        self._networks: list[_Quantised] = []
        for network, weight in zip(workload.networks, workload.weights, strict=True):
            found, file = load_again(network), (data or {}).get(network.name)
            samples = [] if file is None else file.read(found, names_outside(found)[0])
            quantised = quantise(found, samples, seed=_SEED, quantiser=quantiser)
            inputs = samples[0] if samples else other_inputs(found, quantised, _SEED)
            self._networks.append(
                _Quantised(network.name, found.spec, weight, quantised, file, quantiser, inputs)
            )

    def programs(
        self, design: Design, objective: Objective, *, fusion: bool = True
    ) -> tuple[DesignProgram, ...]:
        """A design's programs. The baseline's are what Gemmini's library would run; else a mapping is taken where it is best
        in the program, and unless told otherwise operators run as one unit where that is."""
        machine = design.accelerator

        def schedules() -> tuple[Scheduler, GroupScheduler | None]:
            if design.role == "baseline":
                return scheduler(machine, baseline=True), None
            searched = SearchedSchedules(design.candidate(objective), objective)
            # the original has no moves that groups need
            return searched, searched.group if fusion and machine.timing == "baco" else None

        return tuple(
            self._program(design, one, None if design.reason else schedules) for one in self._networks
        )

    def _program(
        self,
        design: Design,
        one: _Quantised,
        schedules: Callable[[], tuple[Scheduler, GroupScheduler | None]] | None,
    ) -> DesignProgram:
        if schedules is None:
            return DesignProgram(one.name, one.weight, "", None, design.reason, None)
        try:
            machine = design.accelerator
            lowered = lower_network(one.network.on(machine), machine, *schedules())
            plan = Plan.of(one.spec, machine, _SEED, lowered, one.data, one.quantiser.on(machine))
            predicted = program_cost(lowered, design.accelerator, one.toggles(design.accelerator))
        except InfeasibleError as error:
            return DesignProgram(one.name, one.weight, "", None, error.message, None)
        return DesignProgram(one.name, one.weight, ProgramJob(plan).key, plan, "", predicted)
