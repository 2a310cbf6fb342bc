"""Which operators run as one unit on each accelerator of a space, decided when a search has begun.

What a group costs is known (`baco.compiler.network.group_choice`). What its operators cost one by one depends on mappings, which
are what a search looks for; so its first samples know of no groups. They say about what operators cost on every accelerator, and
there those groups are taken that together lower the objective most. From then on the decision is part of the programs' rest
(`baco.exploration.fused`): a design's cost depends on nothing but its accelerator and its mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.companion import ask
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.group_choice import group_options
from baco.compiler.network.groups import (
    Group,
    GroupSchedule,
    groups_of,
    product_calls,
)
from baco.compiler.network.steps import StepCost
from baco.compiler.styles.fused.chain import ProductChain
from baco.exploration.cost.infeasible import least_violation
from baco.exploration.cost.model import CostModel
from baco.exploration.cost.program_rest import (
    GroupsByNames,
    Programs,
    lowered_with_groups,
    places_of_calls,
)
from baco.exploration.front import nondominated
from baco.exploration.fused import FusedPrograms, Fusion, Point
from baco.exploration.operators import OperatorCost
from baco.exploration.progress import Doing, silent
from baco.exploration.rest import RestOfPrograms
from baco.exploration.search.archive import Archive
from baco.exploration.search.focus import direction
from baco.exploration.search.group_gains import (
    Judge,
    PossibleGroup,
    PossibleGroups,
    group_name,
    plain_name,
    taken_groups,
)
from baco.exploration.search.local_search import GROUPED_AFTER, LocalSearch
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace
from baco.workloads.network import Network, Task

__all__ = [
    "Grouping",
    "PossibleGroups",
    "largest_of_side",
    "leading_schedules",
    "possible_groups",
    "with_possible_groups",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Relative excess over a bound that no groups make up for: they have made whole programs take 0.4 times the cycles and energy at best.
_FAR = 3.0


_Parts = list[tuple[float, QuantisedNetwork]]


class Grouping:
    """Decides which operators of a search's programs run as one unit.

    Args:
        rest: of programs without such.
        programs: of the same networks.
        setup: of the search; its cost model knows of no groups.
        doing: told what is being done.

    Attributes:
        needed: whether any operators could.
        decided: the rest of programs in which they do where that pays, and whether the first samples have found nothing that is
            anywhere near the constraints. There, groups are not looked at. But they are if power is bounded: they save time more
            than energy, so that bounds which designs without them keep need not be within the reach of those with them.
    """

    def __init__(
        self, rest: RestOfPrograms, programs: Programs, setup: SearchSetup, doing: Doing = silent
    ) -> None:
        self._rest, self._setup, self._doing = rest, setup, doing
        self._parts = {name: programs.parts(name) for name in rest.networks}
        self.needed = any(groups_of(part) for one in self._parts.values() for _, part in one)
        self.decided: tuple[RestOfPrograms, bool] | None = None if self.needed else (rest, False)
        # what groups cost depends on no mapping: it is found while the first samples are
        self._possible = ask(_found, self._parts, setup.tasks, setup.space) if self.needed else None

    def decide(self, archive: Archive, details: Mapping[str, float]) -> CostModel:
        """The cost model of programs with groups, from the mappings that a search has found in its first samples.

        Args:
            details: of its last batch, as `BatchResult.details`.
        """
        constraints = self._setup.space.constraints
        rest, far = self._rest, least_violation(constraints, details) > _FAR
        if not far or constraints.power_mw is not None:
            assert self._possible is not None
            found = self._possible.get(
                partial(_found, self._parts, self._setup.tasks, self._setup.space, self._doing)
            )
            if found:
                rest = _decided(rest, found, archive, self._setup.objective.metrics[0], self._doing)
        self.decided = rest, far
        return archive.model.beside(rest)

    def decide_first(self) -> tuple[RestOfPrograms, bool]:
        """The same after first samples of its own, for a search that cannot go on with another cost model."""
        samples = GROUPED_AFTER
        search = LocalSearch(
            replace(self._setup, evaluations=samples * len(self._setup.tasks), grouping=self.decide)
        )
        while self.decided is None:
            self._doing(
                "samples of a first search without groups", search.spent // len(search.setup.tasks), samples
            )
            search.step()
        return self.decided


def possible_groups(
    network: Network,
    parts: Sequence[tuple[float, QuantisedNetwork, GroupsByNames]],
    names: Collection[str],
    tasks: Sequence[Task],
    space: DesignSpace,
    machine: Accelerator,
    among: Mapping[Group, Collection[GroupSchedule]] | None = None,
) -> PossibleGroups:
    """What groups of a network, of these names alone, cost on an accelerator.

    Args:
        parts: of the network there, see `Programs.groups`.
        names: as `Fusion.groups` has them.
        tasks, space: of the search.
        among: schedules to look at, of groups that are there; of others all are.
    """
    found = []
    for times, part, known in parts:
        places = places_of_calls(part, network.name, tasks, space)
        found.append((times, _possible(part, known, places, machine, only=names, among=among or {})))
    return found


def leading_schedules(
    possible: Iterable[PossibleGroups], machine: Accelerator
) -> dict[Group, set[GroupSchedule]]:
    """Of every group the schedules that fit an accelerator and that no other of them is better than in every part of its cost."""
    found: dict[Group, set[GroupSchedule]] = {}
    for ones in possible:
        for one in (one for _, rows in ones for row in rows for one in row):
            assert one.group is not None
            fits = np.flatnonzero((one.needs <= (machine.scratchpad_rows, machine.accumulator_rows)).all(1))
            found[one.group] = {one.schedules[n] for n in fits[nondominated(one.costs[fits])]}
    return found


def with_possible_groups(
    rest: RestOfPrograms, possible: Mapping[str, PossibleGroups], archive: Archive, metric: str
) -> RestOfPrograms:
    """As `Grouping.decide`, on the one accelerator of an archive's space.

    Args:
        rest: of programs there.
        possible: groups by the name of their network, on that accelerator.
        archive: whose mappings say what operators cost one by one.
        metric: the objective.
    """
    (dim,), (units,) = archive.space.dim, archive.space.units
    found = {(name, dim, units): rows for name, rows in possible.items() if any(any(of) for _, of in rows)}
    return _decided(rest, found, archive, metric) if found else rest


def _decided(
    rest: RestOfPrograms,
    found: Mapping[tuple[str, int, bool], PossibleGroups],
    archive: Archive,
    metric: str,
    doing: Doing = silent,
) -> RestOfPrograms:
    """The rest of programs with those of the possible groups that lower a metric most on each accelerator of a space."""
    space, hardware = archive.space, archive.space.hardware().floats()
    judge = Judge(archive, hardware, *direction(metric)[:2])
    names = sorted({name for name, *_ in found})
    tasks = {name: [n for n, task in enumerate(archive.tasks) if task.network == name] for name in names}
    choices: dict[str, dict[Fusion, int]] = {name: {} for name in names}
    placed: dict[Point, tuple[int, ...]] = {}
    known = np.flatnonzero(judge.known).tolist()
    # accelerators on which a program does the same without groups, by network
    alike: dict[tuple[str, int, bool, tuple[OperatorCost, ...]], list[int]] = {}
    for at in known:
        dim, accumulator, scratchpad = (int(size) for size in hardware.row(at))
        units = bool(space.units_at(bool(hardware.units[at])))
        machine = space.accelerator(dim, accumulator, scratchpad, units)
        for name in names:
            alike.setdefault((name, dim, units, rest.operators_of(name, machine)), []).append(at)
    fusions: dict[tuple[str, int], Fusion] = {}
    for number, ((name, dim, units, operators), places) in enumerate(alike.items()):
        doing("choosing such units for kinds of accelerators", number, len(alike))
        groups = found.get((name, dim, units), [])
        for at, fusion in zip(
            places, taken_groups(groups, operators, tasks[name], judge, places), strict=True
        ):
            fusions[name, at] = fusion
    for at in known:
        dim, accumulator, scratchpad = (int(size) for size in hardware.row(at))
        if any(fusions[name, at].groups for name in names):
            placed[dim, accumulator, scratchpad, bool(space.units_at(bool(hardware.units[at])))] = tuple(
                choices[name].setdefault(fusions[name, at], len(choices[name])) for name in names
            )
    counts = {name: len(of) for name, of in tasks.items()}
    return replace(
        rest, fused=FusedPrograms(counts, {name: tuple(ones) for name, ones in choices.items()}, placed)
    )


def _found(
    parts_of: Mapping[str, _Parts], tasks: Sequence[Task], space: DesignSpace, doing: Doing = silent
) -> dict[tuple[str, int, bool], PossibleGroups]:
    """Groups of every network that fit arrays of a side, with row functions or without; only where there are any."""
    points = space.hardware()
    sides = np.unique(points.dim).tolist()
    every = [row for parts in parts_of.values() for _, part in parts for row in groups_of(part)]
    total = sum(map(len, every)) * len(sides) * len(space.units)
    priced = 0

    def one_more() -> None:
        nonlocal priced
        doing("pricing operators as one unit", priced, total)
        priced += 1

    found = {}
    for name, parts in parts_of.items():
        if not any(groups_of(part) for _, part in parts):
            continue
        called = [places_of_calls(part, name, tasks, space) for _, part in parts]
        for side in sides:
            for units in space.units:
                machine = largest_of_side(space, points.dim == side, units)
                rows = []
                for (times, part), calls in zip(parts, called, strict=True):
                    _, known = lowered_with_groups(part, machine)
                    rows.append((times, _possible(part, known, calls, machine, one_more)))
                if any(row for _, ones in rows for row in ones):
                    found[name, side, units] = rows
    return found


def largest_of_side(space: DesignSpace, of_side: NDArray[np.bool_], units: bool) -> Accelerator:
    """An accelerator with the largest memories of a side."""
    points = space.hardware()
    mine = points.take(of_side)
    return space.accelerator(
        int(mine.dim[0]), int(mine.accumulator_kib.max()), int(mine.scratchpad_kib.max()), units
    )


def _possible(
    part: QuantisedNetwork,
    known: GroupsByNames,
    places: Mapping[str, tuple[int, ...]],
    machine: Accelerator,
    one_more: Callable[[], None] = lambda: None,
    only: Collection[str] | None = None,
    among: Mapping[Group, Collection[GroupSchedule]] | None = None,
) -> list[list[PossibleGroup]]:
    """Groups of an integer network of a network, row by row, that fit an accelerator; of some names only (None: of all), and some
    schedules of those in `among`.

    Args:
        known: those that the accelerator could run.
        places: which tasks each operator calls (`places_of_calls`).
        one_more: called for each that might fit.
    """
    options: dict[Group, list[tuple[GroupSchedule, int, int, StepCost]]] = {}
    rows = []
    for row in groups_of(part):
        possible = []
        for one in row:
            one_more()
            if one.names not in known or (only is not None and group_name(one.names) not in only):
                continue
            group = known[one.names]
            if group not in options:
                few = (among or {}).get(group)
                # all of them where none of these fits
                options[group] = list(group_options(group, machine, few)) or (
                    list(group_options(group, machine)) if few is not None else []
                )
            if not options[group]:
                continue
            calls = 1
            if isinstance(group, ProductChain):
                found = product_calls(one, group.causal)
                calls = len(found.offsets) if found is not None else 1
            possible.append(
                PossibleGroup(
                    one,
                    tuple(place for name in one.names for place in places.get(name, ())),
                    tuple(plain_name(name) for name in one.names if name not in places),
                    np.array([needs for _, *needs, _ in options[group]], dtype=np.float64),
                    calls * np.array([cost for *_, cost in options[group]], dtype=np.float64),
                    group,
                    tuple(schedule for schedule, *_ in options[group]),
                )
            )
        if possible:
            rows.append(possible)
    return rows
