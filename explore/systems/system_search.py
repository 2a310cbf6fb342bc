"""Search over systems: number and kind of units and what runs where, together, within an area.

An evolution: systems at random and those of equal accelerators first, then changes and crossings of good ones (`system_space`). Every system
is planned by rules (`list_plans`); the best ones once more by all solvers. What a network takes on a unit does not depend on the other
units, so it is priced once for every accelerator, whatever systems have it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict

from baco.accel.config import Accelerator
from baco.accel.system import HOST
from baco.common.errors import InfeasibleError
from baco.common.provenance import stable_hash
from baco.compiler.network.fuse_elements import fused_elements
from baco.compiler.network.graph import QuantisedNetwork
from baco.exploration._database import Format
from baco.exploration._json import Amount, from_json, reader, to_json
from baco.exploration._record_store import RecordStore
from baco.exploration.candidate import BatchSummary
from baco.exploration.executors.tasks import Executor, Need
from baco.exploration.front import nondominated
from baco.exploration.measure.store import source_hash
from baco.exploration.progress import Budget, Progress
from baco.exploration.systems.mix import Demand, mix
from baco.exploration.systems.planner import rule_plans
from baco.exploration.systems.system_plan import Objective, SystemPlan, goal_of, plan_system
from baco.exploration.systems.system_space import SystemPoint, SystemSpace
from baco.exploration.systems.timetable import replay
from baco.exploration.systems.unit_price import UnitPrice, lower_for, unit_price
from baco.exploration.systems.unit_profile import UnitProfile, unit_profile

#: Systems of a batch, whose accelerators are priced side by side.
_BATCH = 8
#: Share of the samples that are random, and how many at most.
_RANDOM, _MOST_RANDOM = 0.2, 40
#: Systems among which a parent is the best, and the share of parents that are drawn from the front instead.
_TOURNAMENT, _FROM_FRONT = 4, 0.3
#: Changes that are looked at for one that is new.
_LOOKS = 50
#: Of the best systems by rules, so many are planned by all solvers.
FINALISTS = 3


@dataclass(frozen=True)
class SystemValue:
    """What a system is worth, as planned by rules.

    Attributes:
        lateness: what tasks end behind deadlines, ns together.
        makespan: ns.
        energy: pJ.
        area: mm², cores included.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    lateness: Amount
    makespan: Amount
    energy: Amount
    area: Amount

    def score(self, objective: Objective) -> tuple[float, float]:
        """Less is better, the first first."""
        of = {"makespan": self.makespan, "energy": self.energy, "edp": self.makespan * self.energy}
        return self.lateness, of[objective]


@dataclass(frozen=True)
class PriceUnit:
    """The task (`baco.exploration.executors.tasks.WorkItem`) of pricing a network on an accelerator.

    Attributes:
        network: as programs have it.
        network_key: of it.
        machine: whose core it is.
        accelerator: whether it is used, or the core alone.
    """

    network: QuantisedNetwork
    network_key: str
    machine: Accelerator
    accelerator: bool
    needs: tuple[Need, ...] = ()

    @property
    def name(self) -> str:
        """Of what is priced."""
        return f"{self.network.name} on {self.machine.name if self.accelerator else HOST}"

    @property
    def key(self) -> str:
        """See `WorkItem`."""
        return stable_hash(
            [self.network_key, self.machine.config_hash, self.machine.timing, self.accelerator, source_hash()]
        )

    def run(self) -> UnitPrice:
        """A price without steps where programs of the unit cannot compute the network."""
        try:
            lowered = lower_for(self.network, self.machine, accelerator=self.accelerator)
            return unit_price(lowered, self.machine, accelerator=self.accelerator)
        except InfeasibleError:
            return UnitPrice((), ())


class SearchRecords(RecordStore[UnitPrice | SystemValue]):
    """What a search has computed, by key: prices of units, and what systems are worth."""

    FORMAT = Format(
        name="the records of a search over systems",
        application_id=0x62616373,  # "bacs" in ASCII
        version=1,
        schema="CREATE TABLE records (key TEXT PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID",
        remedy="remove the file, or name another folder: what it held will be computed again",
        going_on="start the same command again",
    )
    TABLE, RECORD = "records", "the record"

    @staticmethod
    def plain(value: UnitPrice | SystemValue) -> dict[str, Any]:
        """See `RecordStore`."""
        return {"unit": value.to_dict()} if isinstance(value, UnitPrice) else {"system": to_json(value)}

    @staticmethod
    @reader("a search over systems")
    def value(data: dict[str, Any]) -> UnitPrice | SystemValue:
        """See `RecordStore`."""
        return UnitPrice.from_dict(data["unit"]) if "unit" in data else from_json(SystemValue, data["system"])


@dataclass(frozen=True)
class SystemSample:
    """A system of a search, and what it is worth; None where it cannot run the networks."""

    point: SystemPoint
    value: SystemValue | None


@dataclass(frozen=True, eq=False)
class SearchedSystems:
    """What a search found.

    Attributes:
        samples: all systems, in the order in which they were looked at.
        priced: how many accelerators were priced.
        front: of those that meet all deadlines, what no other one beats in area, makespan and energy at once; the smallest first.
        best: plans of the best systems by the objective, by all solvers, the best first.
        ended: how the search ended.
    """

    samples: tuple[SystemSample, ...]
    priced: int
    front: tuple[SystemSample, ...]
    best: tuple[tuple[SystemPoint, SystemPlan], ...]
    ended: Literal["done", "interrupted"]


class SystemSearch:
    """See the module.

    Args:
        networks: in integers, with how often each runs.
        space: systems to choose from.
        objective: what there is least of, once deadlines are met.
        seed: of all that is random. The same seed gives the same systems, whoever computes them.
        executor: that prices accelerators.
        records: what was computed before is looked up there, and everything is kept.
    """

    def __init__(
        self,
        networks: Sequence[QuantisedNetwork],
        demands: Sequence[Demand],
        space: SystemSpace,
        *,
        objective: Objective = "makespan",
        seed: int = 0,
        executor: Executor,
        records: SearchRecords | None = None,
    ) -> None:
        self.networks = [fused_elements(one) for one in networks]
        self.demands, self.space, self.objective = demands, space, objective
        self._rng = np.random.default_rng(seed)
        self._executor, self._records = executor, records
        self._prices: dict[str, UnitPrice] = {}
        self.samples: dict[SystemPoint, SystemSample] = {}

    @cached_property
    def _network_keys(self) -> list[str]:
        return [
            hashlib.sha256(repr((one.operators, sorted(one.values.items()))).encode()).hexdigest()[:16]
            for one in self.networks
        ]

    def run(
        self,
        samples: int,
        *,
        seconds: float = 20.0,
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> SearchedSystems:
        """Look at so many systems.

        Args:
            seconds: that solvers have for each of the best ones.
            stopped: asked between batches whether to end.

        Raises InfeasibleError where no system can run all networks.
        """
        began, batch = time.monotonic(), 0
        ended: Literal["done", "interrupted"] = "done"
        while len(self.samples) < samples:
            if stopped() and self._ranked():
                ended = "interrupted"
                break
            asked = self._ask(min(_BATCH, samples - len(self.samples)), samples)
            if not asked:
                break  # all systems there are
            self._tell(asked, progress)
            if progress is not None:
                self._show(progress, batch, time.monotonic() - began, samples)
            batch += 1
        ranked = self._ranked()
        if not ranked:
            raise InfeasibleError("no system that was looked at can run all networks")
        if progress is not None and hasattr(progress, "doing"):
            progress.doing("planning the best systems by all solvers")
        best = [(one.point, self.planned(one.point, seconds)) for one in ranked[:FINALISTS]]
        best.sort(
            key=lambda pair: (sum(late.end_ns(pair[1].timetable) for late in pair[1].late), pair[1].worth)
        )
        every = tuple(self.samples.values())
        units = {(one.point.choice, unit) for one in every for unit in one.point.accelerators}
        return SearchedSystems(every, len(units), self._front(ranked), tuple(best), ended)

    def _show(self, progress: Progress, batch: int, seconds: float, samples: int) -> None:
        ranked, best = self._ranked(), None
        if ranked and ranked[0].value is not None and not ranked[0].value.lateness:
            ghz = self.space.system(ranked[0].point).clock_mhz * 1e-3
            unit = {"makespan": 1e-6, "energy": 1.0, "edp": 1e-6 * ghz}[self.objective]
            best = ranked[0].value.score(self.objective)[1] * unit
        count = len(self.samples)
        progress.update(
            BatchSummary(batch, count, seconds, best, "systems", {}), Budget(samples, samples, None, 1)
        )

    # -- what to look at ------------------------------------------------------------------------------------

    def _ask(self, count: int, samples: int) -> list[SystemPoint]:
        """New systems; fewer where no more are found."""
        asked: dict[SystemPoint, None] = {}
        if not self.samples:
            asked = dict.fromkeys(self.space.first())
        random = min(_MOST_RANDOM, math.ceil(_RANDOM * samples))
        ranked, front = self._ranked(), self._front(self._ranked())
        for _ in range(count * _LOOKS):
            if len(asked) >= count:
                break
            if len(self.samples) + len(asked) < random or not ranked:
                point = self.space.draw(self._rng)
            else:
                point = self.space.changed(
                    self._parent(ranked, front), self._parent(ranked, front), self._rng
                )
            if point not in self.samples:
                asked[point] = None
        return list(asked)[: max(count, 0)]

    def _parent(self, ranked: Sequence[SystemSample], front: Sequence[SystemSample]) -> SystemPoint:
        if front and self._rng.random() < _FROM_FRONT:
            return front[int(self._rng.integers(len(front)))].point
        return ranked[int(self._rng.integers(len(ranked), size=_TOURNAMENT).min())].point

    def _ranked(self) -> list[SystemSample]:
        """Those that can run the networks, the best first; of equals the one that was looked at first."""
        able = [one for one in self.samples.values() if one.value is not None]
        return sorted(
            able, key=lambda one: one.value.score(self.objective) if one.value else (math.inf, math.inf)
        )

    @staticmethod
    def _front(ranked: Iterable[SystemSample]) -> tuple[SystemSample, ...]:
        good = [(one, one.value) for one in ranked if one.value is not None and not one.value.lateness]
        rows = np.array([(value.area, value.makespan, value.energy) for _, value in good]).reshape(-1, 3)
        return tuple(
            sorted(
                (good[at][0] for at in nondominated(rows)),
                key=lambda one: one.value.area if one.value else 0.0,
            )
        )

    # -- what it is worth -----------------------------------------------------------------------------------

    def _tell(self, points: Sequence[SystemPoint], progress: Progress | None = None) -> None:
        """Evaluate systems."""
        keys = {point: self._key(point) for point in points}
        known = {point: self._kept(key) for point, key in keys.items()}
        self._price([point for point, value in known.items() if value is None], progress)
        for point in points:
            value = known[point]
            if value is None and (value := self._value(point)) is not None and self._records is not None:
                self._records.put(keys[point], value)
            self.samples[point] = SystemSample(point, value)

    def _kept(self, key: str) -> SystemValue | None:
        value = None if self._records is None else self._records.get(key)
        return value if isinstance(value, SystemValue) else None

    def _key(self, point: SystemPoint) -> str:
        system = self.space.system(point)
        asked = [self._network_keys, [repr(one) for one in self.demands], self.objective]
        return stable_hash(
            [*asked, system.config_hash, system.clock_mhz, self.space.area_mm2(point), source_hash()]
        )

    def _tasks(self, point: SystemPoint) -> list[list[PriceUnit]]:
        """By network, of every unit; cores alone are the same beside any accelerator with these settings."""
        core, system = self.space.least(point.choice), self.space.system(point)
        return [
            [
                PriceUnit(network, key, unit.accelerator or core, unit.accelerator is not None)
                for unit in system.units
            ]
            for network, key in zip(self.networks, self._network_keys, strict=True)
        ]

    def _price(self, points: Iterable[SystemPoint], progress: Progress | None) -> None:
        """What the units of these systems take, as far as that is not known."""
        wanted: dict[str, PriceUnit] = {}
        for point in points:
            for row in self._tasks(point):
                wanted |= {task.key: task for task in row if task.key not in self._prices}
        told = getattr(progress, "doing", None)
        for done, finished in enumerate(self._executor.run(list(wanted.values()), self._records), 1):
            assert isinstance(finished.value, UnitPrice)
            self._prices[finished.task.key] = finished.value
            if told is not None and len(wanted) > 1:
                told("pricing accelerators", done, len(wanted))

    def profiles(self, point: SystemPoint) -> list[UnitProfile]:
        """Of all networks on a system."""
        system = self.space.system(point)
        rows = self._tasks(point)
        if any(task.key not in self._prices for row in rows for task in row):
            self._price([point], None)
        return [
            unit_profile(network, system, [self._prices[task.key] for task in row])
            for network, row in zip(self.networks, rows, strict=True)
        ]

    def _value(self, point: SystemPoint) -> SystemValue | None:
        system = self.space.system(point)
        try:
            graph = mix(self.profiles(point), self.demands, system).graph
        except InfeasibleError:
            return None
        goal = goal_of(self.objective, graph)
        planned = [replay(graph, made) for made in rule_plans(graph, goal).values()]
        best = min(planned, key=lambda one: one.value(graph, goal))
        return SystemValue(
            best.lateness(graph), best.makespan, best.energy(graph), self.space.area_mm2(point)
        )

    def planned(self, point: SystemPoint, seconds: float) -> SystemPlan:
        """By all solvers."""
        return plan_system(
            self.profiles(point),
            self.demands,
            self.space.system(point),
            objective=self.objective,
            seconds=seconds,
        )
