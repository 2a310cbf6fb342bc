"""What one step in each parameter of a design's hardware would cost or gain, with layers mapped anew for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from baco.common.errors import BacoError
from baco.exploration.candidate import Cost
from baco.exploration.explain.hardware_steps import SIZES, HardwareStep, hardware_steps
from baco.exploration.explain.remap import Known, Reference, Remapped, Remapper
from baco.exploration.objective import metric

#: Ratios of two costs, by name.
Ratios = Mapping[str, float]
#: What architects trade, beside the objective.
_TRADED = ("latency", "energy", "area")


@dataclass(frozen=True)
class Neighbour:
    """A design one step away.

    Attributes:
        step: which parameter, from what to what.
        found: the accelerator with mappings chosen for it; None where nothing can be said, as `reason` says.
        ratios: its costs over those of the reference (`Neighbours.reference`): the metrics of the objective, latency (in seconds),
            energy and area; empty without a design.
        reason: why there is none.
    """

    step: HardwareStep
    found: Remapped | None
    ratios: Ratios
    reason: str = ""


@dataclass(frozen=True)
class Neighbours:
    """All designs one step away from one.

    Attributes:
        reference: the design itself, mapped anew as its neighbours are: what these are compared with.
        ratios: its costs over those that the search predicted, as of `Neighbour`.
        steps: in the order of `baco.exploration.explain.hardware_steps.PARAMETERS`, down before up.
    """

    reference: Remapped
    ratios: Ratios
    steps: Sequence[Neighbour]

    @cached_property
    def metric(self) -> str:
        """The first metric of the objective."""
        return next(iter(self.ratios))

    def best(self, *, inside: bool | None = None) -> Neighbour | None:
        """The step with the least of the first metric; None where none is less than the reference.

        Args:
            inside: only steps in the space (True) or out of it (False) that break no constraint.
        """
        open_ = [
            neighbour
            for neighbour in self.steps
            if neighbour.found is not None
            and neighbour.ratios[self.metric] < 1
            and (inside is None or neighbour.step.inside == inside)
            and not neighbour.found.broken
        ]
        return min(open_, key=lambda neighbour: neighbour.ratios[self.metric], default=None)


#: What was found of a step: an accelerator with mappings, or why there is none.
Tried = tuple[Remapped | None, str]
#: Has `tried` of a step worked out elsewhere, and gives what it found there, or what the function gives that it is handed.
Aside = Callable[[HardwareStep, Reference | None], Callable[[Callable[[], Tried]], Tried]]


class NeighbourSearch:
    """Looks for the neighbours of the first of some known designs.

    Steps in sizes take most of the time. They are begun at once, where somebody else can, since all others build on what is found of
    the design itself.

    Args:
        known: what a study knows.
        aside: who works out steps beside this process, those first that were handed over last; None for nobody.
    """

    def __init__(self, known: Known, aside: Aside | None = None) -> None:
        self._known, self._aside = known, aside
        self._steps = hardware_steps(known.designs[0].accelerator, known.space, known.cost_model)
        self._found = {n: self._begun(one, None) for n, one in enumerate(self._steps) if _sized(one)}

    def neighbours(self, predicted: Cost) -> Neighbours:
        """All of them.

        Args:
            predicted: what the search predicted of the design.

        Raises BacoError where not even the design itself can be mapped anew.
        """
        metrics = self._known.objective.metrics
        names = [*metrics, *(one for one in _TRADED if one not in metrics)]
        remapper = Remapper(self._known)
        itself, reference = remapper.reference()
        others = [n for n in range(len(self._steps)) if n not in self._found]
        self._found |= {n: self._begun(self._steps[n], reference) for n in others}
        tries: dict[int, Tried] = {}
        for n in [*others, *(n for n in self._found if n not in others)]:
            step, base = self._steps[n], None if _sized(self._steps[n]) else reference
            tries[n] = self._found[n](partial(tried, remapper, step, base))
        found = []
        for n, step in enumerate(self._steps):
            there, reason = tries[n]
            ratios = {} if there is None else _ratios(names, there, itself)
            found.append(Neighbour(step, there, ratios, reason))
        return Neighbours(itself, {name: cost_ratio(name, itself.cost, predicted) for name in names}, found)

    def _begun(
        self, step: HardwareStep, reference: Reference | None
    ) -> Callable[[Callable[[], Tried]], Tried]:
        if self._aside is None or step.accelerator is None:
            return lambda here: here()
        return self._aside(step, reference)


def tried(remapper: Remapper, step: HardwareStep, reference: Reference | None) -> Tried:
    """What is found of a step.

    Args:
        reference: of the design itself; None for steps in its sizes.
    """
    if step.accelerator is None:
        return None, step.reason
    try:
        if reference is None:
            return remapper.remap(step.accelerator), step.reason
        return remapper.near(step.accelerator, reference), step.reason
    except BacoError as error:
        return None, error.message


def _sized(step: HardwareStep) -> bool:
    return step.parameter in SIZES


def _ratios(names: Sequence[str], one: Remapped, other: Remapped) -> Ratios:
    clocks = one.accelerator.clock_mhz, other.accelerator.clock_mhz
    costs = [replace(each.cost, clock_mhz=clock) for each, clock in zip((one, other), clocks, strict=True)]
    return {name: cost_ratio(name, *costs) for name in names}


def cost_ratio(name: str, one: Cost, other: Cost) -> float:
    """Of a metric; 1 where both are nothing."""
    above, below = metric(one, name), metric(other, name)
    return above / below if below else 1.0
