"""Many operators under one budget: which of them gets the next unit of it (Ansor, section 6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from baco.common import portable
from baco.common.errors import InputError, did_you_mean

#: f1: time of all networks, one after the other. f2: the same, but no network needs to be faster than required. f3: mean
#: speed-up over references. f4: f1, but what has stopped to get better counts no more.
Objective: TypeAlias = Literal["f1", "f2", "f3", "f4"]
OBJECTIVES: tuple[Objective, ...] = ("f1", "f2", "f3", "f4")


@dataclass
class TuningTask:
    """One operator that is searched for.

    Attributes:
        step: spends a unit of the budget; returns the least latency so far.
        work: operations of the operator, in any unit that is the same for all tasks.
        kind: tasks of one kind are alike: what one reaches per operation, others may.
        history: latency after each unit.
    """

    step: Callable[[], float]
    work: float = 1.0
    kind: str = ""
    history: list[float] = field(default_factory=list)

    @property
    def units(self) -> int:
        """Spent so far (t)."""
        return len(self.history)

    @property
    def latency(self) -> float:
        """Least so far (g)."""
        return self.history[-1]


def gradient(
    slope: float,
    latency: float,
    before: float,
    units: int,
    reachable: float,
    *,
    alpha: float = 0.2,
    beta: float = 2.0,
    window: int = 3,
) -> float:
    """Change of the objective that another unit of a task promises.

    Source: Ansor, section 6.2: slope * (alpha (g(t) - g(t - window)) / window + (1 - alpha) min(-g(t) / t, beta C / max V - g(t))).

    Args:
        slope: of the objective by the task's latency.
        latency, before: g now and `window` units ago.
        units: t, those spent.
        reachable: C / max V, the latency at the best rate of tasks like this one.
    """
    backward = (latency - before) / window
    forward = min(-latency / units, beta * reachable - latency)
    return slope * (alpha * backward + (1 - alpha) * forward)


@dataclass
class Scheduler:
    """Spends a budget on tasks: a unit for each, then always where the objective promises to fall most.

    Attributes:
        tasks: by name.
        networks: for each, how often it runs which task.
        objective: of `OBJECTIVES`.
        required: f2: of every network, the latency that is enough.
        references: f3: of every network, the latency that speed-ups are over.
        patience: f4: units without gain after which a task is done.
        alpha, beta, window: of `gradient`.
        curiosity: how often a task is taken at random.
        seed: of that.
        order: names of the tasks that had a unit, in order.

    Raises InputError for a network of unknown tasks and for missing latencies of networks.
    """

    tasks: Mapping[str, TuningTask]
    networks: Sequence[Mapping[str, float]]
    objective: Objective = "f1"
    required: Sequence[float] = ()
    references: Sequence[float] = ()
    patience: int = 3
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    curiosity: float = 0.05
    seed: int = 0
    order: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._drawn = random.Random(self.seed)
        if self.objective not in OBJECTIVES:
            raise InputError(
                f"there is no objective '{self.objective}'", hint=did_you_mean(self.objective, OBJECTIVES)
            )
        for name in {name for network in self.networks for name in network} - set(self.tasks):
            raise InputError(f"a network runs '{name}', which is no task")
        for objective, given in (("f2", self.required), ("f3", self.references)):
            if self.objective == objective and len(given) != len(self.networks):
                raise InputError(f"{objective} needs a latency for each of {len(self.networks)} networks")

    def latencies(self) -> list[float]:
        """Of every network."""
        return [sum(w * self.tasks[name].latency for name, w in one.items()) for one in self.networks]

    def value(self) -> float:
        """The objective now, every task begun."""
        found = self.latencies()
        if self.objective == "f1":
            return sum(found)
        if self.objective == "f2":
            return sum(max(one, enough) for one, enough in zip(found, self.required, strict=True))
        if self.objective == "f3":
            return -self._speed_up(found)
        return sum(
            w * max(self.tasks[name].latency, self._stop(self.tasks[name]))
            for network in self.networks
            for name, w in network.items()
        )

    def slope(self, name: str) -> float:
        """The objective's derivative by a task's latency."""
        found = self.latencies()
        total = 0.0
        for n, network in enumerate(self.networks):
            weight = network.get(name, 0.0)
            if self.objective == "f2" and found[n] <= self.required[n]:
                continue
            if self.objective == "f4" and self.tasks[name].latency <= self._stop(self.tasks[name]):
                continue
            if self.objective == "f3":
                weight *= self._speed_up(found) / (len(found) * found[n])
            total += weight
        return total

    def promise(self, name: str) -> float:
        """How much a unit more for a task may lower the objective (its gradient)."""
        task = self.tasks[name]
        before = task.history[max(0, task.units - 1 - self.window)]
        return gradient(
            self.slope(name), task.latency, before, task.units, self._reachable(task),
            alpha=self.alpha, beta=self.beta, window=self.window,
        )  # fmt: skip

    def spend(self, units: int) -> float:
        """So many units more; the objective then. Raises InputError where there are fewer than tasks not yet begun."""
        fresh = [name for name, task in self.tasks.items() if not task.units]
        if units < len(fresh):
            raise InputError(
                f"{units} units are too few for {len(fresh)} tasks", hint="one for each at least"
            )
        for n in range(units):
            self._unit(fresh[n] if n < len(fresh) else self._next())
        return self.value()

    def _next(self) -> str:
        names = list(self.tasks)
        if self._drawn.random() < self.curiosity:
            return self._drawn.choice(names)
        return max(names, key=lambda name: abs(self.promise(name)))

    def _unit(self, name: str) -> None:
        task = self.tasks[name]
        found = task.step()
        task.history.append(min(found, task.latency) if task.history else found)
        self.order.append(name)

    def _speed_up(self, found: Sequence[float]) -> float:
        product = 1.0
        for reference, latency in zip(self.references, found, strict=True):
            product *= reference / latency
        return float(portable.power(product, 1 / len(found)))

    def _stop(self, task: TuningTask) -> float:
        """ES: the latency itself where it did not fall in the last units, else 0."""
        done = task.units > self.patience and task.history[-1 - self.patience] <= task.latency
        return task.latency if done else 0.0

    def _reachable(self, task: TuningTask) -> float:
        alike = [other for other in self.tasks.values() if other.kind == task.kind and other.units]
        return task.work / max(other.work / other.latency for other in alike)
