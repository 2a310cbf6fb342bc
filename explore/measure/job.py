"""What is to be measured, as a task: a layer under a schedule on an accelerator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.executors.tasks import Need, WorkItem
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import measurement_key
from baco.sim.engines.base import CycleEngine
from baco.sim.job import Limits

#: Programs are compiled, and simulators built.
MEASURING_NEEDS: tuple[Need, ...] = ("compiler",)


class Measurable(WorkItem[Measurement], Protocol):
    """Something to measure.

    Attributes:
        accelerator: that is built for it.
        key: of the store: equal for measurements that must come out equal.
    """

    @property
    def accelerator(self) -> Accelerator: ...


@dataclass(frozen=True)
class MeasurementJob:
    """One measurement that is wanted; arguments of `baco.exploration.measure.layer.measure_layer`. See `Measurable`."""

    layer: Layer
    schedule: Schedule
    accelerator: Accelerator
    limits: Limits = field(default_factory=Limits)
    name: str = ""
    engine: CycleEngine = "rtl"

    @property
    def key(self) -> str:
        """Of the store."""
        return measurement_key(self.layer, self.schedule, self.accelerator, self.engine)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Of the machine."""
        return MEASURING_NEEDS

    def run(self) -> Measurement:
        """See `measure_layer`."""
        return measure_layer(
            self.layer, self.schedule, self.accelerator, engine=self.engine, limits=self.limits
        )
