"""What one step in each parameter of a design's hardware would cost or gain, with layers mapped anew for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.exploration.candidate import Cost
from baco.exploration.explain.hardware_steps import SIZES, HardwareStep, hardware_steps
from baco.exploration.explain.remap import Known, Remapped, Remapper
from baco.exploration.objective import metric

__all__ = ["Neighbour", "Neighbours", "cost_ratio", "neighbours", "size_neighbours"]

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
            one
            for one in self.steps
            if one.found is not None
            and one.ratios[self.metric] < 1
            and (inside is None or one.step.inside == inside)
            and not one.found.broken
        ]
        return min(open_, key=lambda one: one.ratios[self.metric], default=None)


#: What was found of a step: an accelerator with mappings, or why there is none.
Tried = tuple[Remapped | None, str]


def size_neighbours(known: Known, remapper: Remapper | None = None) -> list[Tried]:
    """What is found of the steps in the sizes of the first of the known designs, in their order: most of the work of `neighbours`,
    which may be done beside the rest of it. Raises BacoError where nothing can be said.

    Args:
        remapper: for `known`, where there is one.
    """
    mapper = remapper or Remapper(known)
    return [_tried(one, lambda machine: mapper.remap(machine)[0]) for one in _steps(known) if _sized(one)]


def neighbours(
    known: Known,
    predicted: Cost,
    sizes: Callable[[Callable[[], list[Tried]]], list[Tried]] = lambda here: here(),
) -> Neighbours:
    """Neighbours of the first of the known designs.

    Args:
        predicted: what the search predicted of it.
        sizes: gives `size_neighbours`, which are worked out elsewhere, or by the function that it is given.

    Raises BacoError where not even the design itself can be mapped anew.
    """
    names = [*known.objective.metrics, *(one for one in _TRADED if one not in known.objective.metrics)]
    remapper = Remapper(known)
    reference, pool = remapper.remap(known.designs[0].accelerator)
    steps = _steps(known)
    others = iter(
        [_tried(one, lambda machine: remapper.from_pool(machine, pool)) for one in steps if not _sized(one)]
    )
    sized = iter(sizes(partial(size_neighbours, known, remapper)))
    found = []
    for step in steps:
        there, reason = next(sized if _sized(step) else others)
        ratios = {} if there is None else _ratios(names, there, reference)
        found.append(Neighbour(step, there, ratios, reason))
    own = {name: cost_ratio(name, reference.cost, predicted) for name in names}
    return Neighbours(reference, own, found)


def _steps(known: Known) -> list[HardwareStep]:
    return hardware_steps(known.designs[0].accelerator, known.space, known.cost_model)


def _sized(step: HardwareStep) -> bool:
    return step.parameter in SIZES


def _tried(step: HardwareStep, remap: Callable[[Accelerator], Remapped]) -> Tried:
    if step.accelerator is None:
        return None, step.reason
    try:
        return remap(step.accelerator), step.reason
    except BacoError as error:
        return None, error.message


def _ratios(names: Sequence[str], one: Remapped, other: Remapped) -> Ratios:
    clocks = one.accelerator.clock_mhz, other.accelerator.clock_mhz
    costs = [replace(each.cost, clock_mhz=clock) for each, clock in zip((one, other), clocks, strict=True)]
    return {name: cost_ratio(name, *costs) for name in names}


def cost_ratio(name: str, one: Cost, other: Cost) -> float:
    """Of a metric; 1 where both are nothing."""
    above, below = metric(one, name), metric(other, name)
    return above / below if below else 1.0
