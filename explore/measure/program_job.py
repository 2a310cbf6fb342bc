"""A whole network measured: one program, run from input to output on the accelerator's RTL, every operator compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.common.provenance import stable_hash
from baco.compiler.network.agreement import Agreement, agreement
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.plan import Plan
from baco.compiler.network.prediction import host_energy_pj, predict_steps
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import names_outside, quantise, quantise_inputs, runnable
from baco.compiler.network.reference import reference
from baco.exploration.executors.tasks import Need
from baco.exploration.measure.attempt import WrongResultError, attempt, check_exit, counted
from baco.exploration.measure.job import MEASURING_NEEDS
from baco.exploration.measure.measurement import Measurement, OperatorMeasurement
from baco.exploration.measure.store import source_hash
from baco.sim.job import Limits
from baco.sim.network.run import run_network
from baco.workloads.expand import expand
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network

#: Inputs that are run differ from those that ranges were taken from.
_OTHER_SEED = 1
Arrays = dict[str, np.ndarray[Any, Any]]


def other_inputs(network: Network, quantised: QuantisedNetwork, seed: int) -> Arrays:
    """Random inputs for a run, in real numbers, by name: none of those that ranges were taken from with this seed."""
    found = random_inputs(expand(network), seed + _OTHER_SEED)
    return {name: array for name, array in found.items() if name in quantised.inputs}


@dataclass(frozen=True)
class _PlannedNetwork:
    """A plan's network in integers, with what its inputs hold: the first sample of its data, random numbers without."""

    plan: Plan
    network: Network
    quantised: QuantisedNetwork
    inputs: Arrays

    @classmethod
    def of(cls, plan: Plan) -> _PlannedNetwork:
        network = load_network(plan.network)
        samples = [] if plan.data is None else plan.data.read(network, names_outside(network)[0])
        quantised = quantise(network, samples, seed=plan.seed, quantiser=plan.quantiser)
        inputs = dict(samples[0]) if samples else other_inputs(network, quantised, plan.seed)
        return cls(plan, network, quantised, inputs)

    @cached_property
    def data(self) -> Arrays:
        """The elements of its inputs, by value."""
        return quantise_inputs(self.quantised, self.inputs)

    def compile(self) -> NetworkProgram:
        plan = self.plan
        return compile_network(
            self.quantised, plan.accelerator, schedule=plan, groups=plan.group, data=self.data, check=False
        )

    def agreement(self, values: Mapping[str, np.ndarray[Any, Any]]) -> Agreement | None:
        """Of a run with the user's model; None for a network that nothing else evaluates. `values`: by value, as written."""
        if self.network.judge is None:
            return None
        parameters = Parameters(self.network.source, self.plan.seed)
        known = {**self.quantised.constants, **self.data, **values}
        network = runnable(self.network, parameters, quantiser=self.plan.quantiser)
        at_random = self.plan.data is None
        return agreement(network, parameters, self.quantised, self.inputs, known, random=at_random)


def compile_plan(plan: Plan) -> NetworkProgram:
    """The program of a plan.

    Equal plans give equal bytes, whoever compiles them where.
    Raises InputError for a network or samples that are not there, InfeasibleError for what no code can be written for.
    """
    return _PlannedNetwork.of(plan).compile()


@dataclass(frozen=True)
class ProgramJob:
    """The measurement of a plan's program; see `baco.exploration.measure.job.Measurable`."""

    plan: Plan
    name: str = ""
    limits: Limits = field(default_factory=Limits)

    @property
    def accelerator(self) -> Accelerator:
        """That is built for it."""
        return self.plan.accelerator

    @cached_property
    def key(self) -> str:
        """Equal for measurements that must come out equal."""
        return stable_hash({"plan": self.plan.identity, "sources": source_hash()})

    def __reduce__(self) -> tuple[type[ProgramJob], tuple[Plan, str, Limits]]:
        """Without the key, which a worker derives anew."""
        return ProgramJob, (self.plan, self.name, self.limits)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Of the machine."""
        return MEASURING_NEEDS

    def run(self) -> Measurement:
        """Compile the plan, run it on the RTL, compare what every operator writes with numpy's integers, and count.

        What fails or is infeasible is a result, too. Raises InputError for a network that is not there, and BuildError or
        StorageError where simulators cannot be built at all.
        """
        return attempt(self.accelerator, self._measured)

    def _measured(self) -> Measurement:
        planned = _PlannedNetwork.of(self.plan)
        built, values = planned.compile(), reference(planned.quantised, planned.data)
        predicted = [one.cycles for one in predict_steps(built.lowered, self.accelerator)]
        run = run_network(built, values, "rtl", predicted=predicted, limits=self.limits)
        result = run.result
        check_exit(result)
        if run.wrong:
            raise WrongResultError("; ".join(map(str, run.wrong[:3])))
        near = planned.agreement({**values, **run.values})
        if near is not None and near.problems:
            raise WrongResultError("; ".join(near.problems[:3]))
        assert result.cycles is not None
        misses = result.counters.get("host_data_misses", 0)
        return counted(
            result,
            self.accelerator,
            result.cycles,
            host_energy_pj(result.instructions or 0, misses, self.accelerator),
            agreement=near and near.shortened(),
            operators=tuple(
                OperatorMeasurement(one.operator, one.what, one.on, one.cycles, one.predicted or 0.0)  # type: ignore[arg-type]
                for one in run.operators
            ),
        )
