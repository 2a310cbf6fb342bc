"""Schedules among which a measured search chooses: for each accelerator, several of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.styles.registry import mapping_of, plan_layer, realise
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.measure.job import MeasurementJob
from baco.sim.engines.base import CycleEngine


@dataclass(frozen=True)
class Alternative:
    """One way to run one layer on one accelerator.

    Attributes:
        mapping: how, as a search says it.
        job: what measures it; key: of its measurement.
        style: of its code.
        cycles, energy_pj: predicted, of one run.
    """

    mapping: Mapping
    job: MeasurementJob
    key: str
    style: str
    cycles: float
    energy_pj: float


@dataclass
class MachineAlternatives:
    """An accelerator and, for each layer, the alternatives known so far; the first is the search's own choice.

    Attributes:
        accelerator: the hardware.
        layers: one for each task.
        names: of the tasks, for people.
        engine: which measures them.
        found: alternatives by layer.
    """

    accelerator: Accelerator
    layers: Sequence[Layer]
    names: Sequence[str]
    engine: CycleEngine = "rtl"
    found: list[list[Alternative]] = field(default_factory=list)
    _asked: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        mappings: Sequence[Mapping],
        layers: Sequence[Layer],
        names: Sequence[str],
        engine: CycleEngine = "rtl",
    ) -> MachineAlternatives | None:
        """With one design's mappings; None where one of them cannot be compiled."""
        machine = cls(accelerator, layers, names, engine, [[] for _ in layers], [0] * len(layers))
        machine.add([[mapping] for mapping in mappings])
        return machine if all(machine.found) else None

    def add(self, mappings: Sequence[Sequence[Mapping]]) -> int:
        """Take up more mappings, by layer; those that cannot be compiled or are known are left out. How many are new."""
        new = 0
        for layer, name, ones, known in zip(self.layers, self.names, mappings, self.found, strict=True):
            keys = {alternative.key for alternative in known}
            usable: list[tuple[Mapping, MeasurementJob, str, str]] = []
            for mapping in ones:
                try:
                    schedule = realise(layer, mapping, self.accelerator)
                    plan_layer(layer, schedule, self.accelerator)
                except BacoError:
                    continue
                job = MeasurementJob(layer, schedule, self.accelerator, name=name, engine=self.engine)
                key = job.key
                if key not in keys:
                    keys.add(key)
                    usable.append((mapping, job, key, schedule.style))
            costs = instruction_costs([layer] * len(usable), [entry[0] for entry in usable], self.accelerator)
            known += [
                Alternative(*entry, cost.latency_cycles, cost.energy_pj)
                for entry, cost in zip(usable, costs, strict=True)
            ]
            new += len(usable)
        return new

    def widen(self, shares: Sequence[int]) -> int:
        """More alternatives: `shares[i]` more of the compiler's best schedules of layer i. How many are new."""
        more: list[list[Mapping]] = []
        for place, (layer, share) in enumerate(zip(self.layers, shares, strict=True)):
            ones: list[Mapping] = []
            if share > 0:
                self._asked[place] += int(share)
                for choice in choices(layer, self.accelerator, best=self._asked[place]):
                    try:
                        ones.append(mapping_of(layer, choice.schedule, self.accelerator))
                    except BacoError:  # no mapping says what the schedule does
                        continue
            more.append(ones)
        return self.add(more)
