"""A layer by Gemmini's default tilings and by another schedule, each measured once and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from baco.accel.config import Accelerator
from baco.bench.sets.collect import store_path
from baco.common.errors import BacoError
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore, measurement_key
from baco.sim.engines.base import CycleEngine

#: What a schedule of a layer takes; None where the accelerator cannot carry it out.
Measure = Callable[[Layer, Schedule], Measurement | None]


def kept_measurements(store: Path | None) -> AbstractContextManager[MeasurementStore]:
    """Finished measurements: of a file, by default that of `baco bench measurements`."""
    return MeasurementStore(store or store_path())


def measuring(accelerator: Accelerator, kept: MeasurementStore, engine: CycleEngine = "rtl") -> Measure:
    """Measures what is not kept yet. Raises BacoError where a program is wrong."""

    def measure(layer: Layer, schedule: Schedule) -> Measurement | None:
        key = measurement_key(layer, schedule, accelerator, engine)
        found = kept.get(key) or kept.put(key, measure_layer(layer, schedule, accelerator, engine=engine))
        if found.status == "infeasible":
            return None
        if found.cycles is None:
            raise BacoError(f"{layer.problem} by '{schedule.text}': {found.reason}")
        return found

    return measure


def default_paths(
    layer: Layer, accelerator: Accelerator, measure: Measure
) -> list[tuple[Schedule, Measurement]]:
    """What the paths of Gemmini's library take that can be carried out: windows of one pixel as products, where they can be, and
    last the path that the library takes, as convolutions."""
    found = ((path, measure(layer, path)) for path in gemmini_paths(layer, accelerator))
    return [(path, one) for path, one in found if one is not None]
