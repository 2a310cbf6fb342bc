"""The schedule of a layer by search: sketches, random annotation, evolution, and, where asked for, measurement of the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import DOUBT, choices
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule, Schedule
from baco.compiler.styles.macros.loop_ws import sums_wait
from baco.exploration.programs.evolution import POPULATION, Evolution
from baco.exploration.programs.layers import LayerPrograms
from baco.exploration.programs.program import AnnotatedSketch

__all__ = ["Begin", "Found", "LayerSearch", "best_measured"]

#: What a search begins with: the compiler's choice and random programs, or random ones alone; `sampling` never goes on from
#: what it has, all of its programs are random.
Begin: TypeAlias = Literal["choice", "random", "sampling"]


#: What predictions of products whose sums wait in main memory count: on the RTL they take 4 to 15% more than predicted, since
#: addends, loads and stores wait for each other there.
_SUMS_WAIT = 1.1


@dataclass(frozen=True)
class Found:
    """A schedule of a layer and its predicted cycles.

    Attributes:
        doubted: the cycles that it is compared by: predictions of single commands are less certain than those of macros
            (`baco.compiler.choice.choose`), and those of sums that wait in main memory too low.
    """

    layer: Layer
    schedule: Schedule
    cycles: float
    doubted: float

    @classmethod
    def of(cls, layer: Layer, schedule: Schedule, accelerator: Accelerator) -> Found:
        """Raises InfeasibleError if the accelerator cannot carry it out."""
        cycles = schedule_cycles(layer, schedule, accelerator)
        doubt = 1.0
        if isinstance(schedule, ExplicitSchedule | DepthwiseSchedule):
            doubt = DOUBT
        elif isinstance(schedule, LoopWsSchedule) and sums_wait(layer, schedule, accelerator):
            doubt = _SUMS_WAIT
        return cls(layer, schedule, cycles, cycles * doubt)


class LayerSearch:
    """A search for one layer's schedule, which can be continued; a unit of a `TuningTask`'s budget is a generation.

    Args:
        begin: see `Begin`.
        seed: of all that is drawn.
    """

    def __init__(
        self, layer: Layer, accelerator: Accelerator, *, begin: Begin = "choice", seed: int = 0
    ) -> None:
        self.layer, self.accelerator, self.begin = layer, accelerator, begin
        self.programs = LayerPrograms({"layer": layer}, accelerator)
        self.evolution = Evolution(
            self.programs.sketches, self.programs.cycles, self.programs.fits, seed=seed
        )

    def step(self, count: int = POPULATION) -> float:
        """A generation of at most so many programs; the least predicted cycles so far. Raises InfeasibleError where no program
        fits."""
        if self.begin == "sampling" or not self.evolution.scored:
            known = self._known() if self.begin == "choice" else []
            self.evolution.begin(known, count)
        else:
            self.evolution.step(count)
        best = self.evolution.best
        if best is None:
            raise InfeasibleError(f"no program of {self.layer.problem} fits {self.accelerator.name}")
        return best[1]

    def run(self, evaluations: int) -> None:
        """As many generations as make so many evaluations, fewer where nothing new is found."""
        while (done := len(self.evolution.scored)) < evaluations:
            self.step(min(POPULATION, evaluations - done))
            if len(self.evolution.scored) == done:
                break

    def best(self, count: int = 1) -> list[Found]:
        """The best different schedules, as they are compared; with the compiler's own, if that is what the search began with."""
        found: dict[Schedule, Found] = {}
        if self.begin == "choice":
            for choice in choices(self.layer, self.accelerator)[:1]:
                found[choice.schedule] = Found.of(self.layer, choice.schedule, self.accelerator)
        ranked = sorted(self.evolution.scored.items(), key=lambda pair: pair[1])
        # what is doubted may stand behind what is so much slower
        for program, cycles in ranked:
            if (
                len(found) > count
                and cycles > DOUBT * sorted(one.doubted for one in found.values())[count - 1]
            ):
                break
            try:
                layer, schedule = self.programs.schedule(program, self.programs.computed(program)[0])
                if schedule not in found:
                    found[schedule] = Found.of(layer, schedule, self.accelerator)
            except InfeasibleError:
                continue
        return sorted(found.values(), key=lambda one: one.doubted)[:count]

    def _known(self) -> list[AnnotatedSketch]:
        """The compiler's choices and Gemmini's default tilings, as far as a sketch has them."""
        schedules = [one.schedule for one in choices(self.layer, self.accelerator, 3)]
        schedules += gemmini_paths(self.layer, self.accelerator)
        found = [self.programs.known({"layer": one}) for one in schedules]
        return [one for one in dict.fromkeys(found) if one is not None and self._fits(one)]

    def _fits(self, program: AnnotatedSketch) -> bool:
        return all(
            self.programs.fits(part, annotation)
            for part, annotation in zip(program.sketch.parts, program.annotations, strict=True)
        )


def best_measured(
    found: Sequence[Found], measure: Callable[[Layer, Schedule], float | None]
) -> tuple[Found, float] | None:
    """The one of least measured cycles, and these; None where nothing could be measured (`measure` says None)."""
    measured = [(measure(one.layer, one.schedule), one) for one in found]
    ran = [(cycles, n) for n, (cycles, _) in enumerate(measured) if cycles is not None]
    if not ran:
        return None
    cycles, place = min(ran)
    return found[place], cycles
