"""The schedule of a layer by measurement: its promising schedules run on the timed model, and the fastest is taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from baco.accel.config import Accelerator
from baco.common.cache import own_folder
from baco.compiler.choice.promising import promising
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.store import MeasurementStore
from baco.sim.engines.base import CycleEngine
from baco.sim.job import Limits

#: Cycles of a whole program beyond which a schedule is not waited for.
_LIMITS = Limits(max_cycles=100_000_000)


class TimedChoice:
    """The schedules of a network's layers; a `baco.compiler.network.lowering.Scheduler`.

    A layer runs by itself, its operands in main memory: what a network has left in a cache is not counted. The same layers give the
    same schedules, since what bounds the work is how many are tried, not how long that takes.

    Args:
        accelerator: whose timing counts: the original's model, or that of our own units in time.
        tried: schedules of a layer that run, at most (`baco.compiler.choice.promising`).
        store: file of finished measurements; by default in the cache of simulators.
        report: gets a line for every layer.

    Attributes:
        runs: programs that ran; `kept`: those whose result was known; seconds: that choosing took.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        tried: int,
        *,
        store: Path | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._accelerator, self._tried, self._report = accelerator, tried, report
        self._store = store or own_folder() / "measurements.sqlite"
        # with the original's timing the model of the original takes the place of the RTL
        self._engine: CycleEngine = "timed" if accelerator.timing == "baco" else "rtl"
        self._chosen: dict[Layer, Schedule] = {}
        self.runs = self.kept = self._better = 0
        self.seconds = 0.0

    def __call__(self, layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        """The schedule, and the buffers that it needs besides the tensors (name, bytes). Raises InfeasibleError where there is none."""
        if layer not in self._chosen:
            start = time.perf_counter()
            options = [choice.schedule for choice in promising(layer, self._accelerator, max(1, self._tried))]
            self._chosen[layer] = self._fastest(layer, options)
            self.seconds += time.perf_counter() - start
        found = self._chosen[layer]
        return found, plan_layer(layer, found, self._accelerator).workspaces

    def _fastest(self, layer: Layer, options: Sequence[Schedule]) -> Schedule:
        """Of schedules the one that took fewest cycles; the first of equal ones, and where none could be measured."""
        if len(options) < 2:
            return options[0]
        with MeasurementStore(self._store) as store:
            took = [self._cycles(store, layer, schedule) for schedule in options]
        measured = [n for n, cycles in enumerate(took) if cycles is not None]
        best = min(measured, key=lambda n: took[n] or 0, default=0)
        first, least = took[0], took[best]
        self._better += best > 0
        if self._report is not None:
            gain = f", {1 - least / first:.1%} fewer cycles than the first" if first and least else ""
            self._report(f"{layer_text(layer)}: {options[best]}, of {len(options)} timed{gain}")
        return options[best]

    def _cycles(self, store: MeasurementStore, layer: Layer, schedule: Schedule) -> int | None:
        """From the first command to the last work; None for what cannot be measured, which is tried again the next time."""
        job = MeasurementJob(layer, schedule, self._accelerator, limits=_LIMITS, engine=self._engine)
        found = store.get(job.key)
        if found is not None:
            self.kept += 1
        else:
            found = job.run()
            self.runs += 1
            if found.status == "measured":
                store.put(job.key, found)
        return found.cycles if found.status == "measured" else None

    def summary(self) -> str:
        """What was tried, in a sentence."""
        return (
            f"{len(self._chosen)} different layers: {self.runs} schedules timed, {self.kept} known before, {self.seconds:.0f} s;"
            f" another than the first by estimate for {self._better}"
        )
