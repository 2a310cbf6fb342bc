"""Search, measure, learn, search again: the best design by measurements, for a budget of simulated cycles.

The predicted best design is measured first, so the result is never worse than that of a search without measurements;
then the best designs of a few other accelerators. After that every round asks for more schedules of the layers that
importance estimation points at (the compiler's next best), believes what measurements say about
predictions (`baco.exploration.measure.belief`), combines the alternatives of every accelerator exactly, and measures what
promises most per simulated cycle: single layers of accelerators that were measured, whole designs of others. The winner
is measured whole; what that simulates beyond the budget is counted apart.

Everything follows from the study, the budget and the measurements, and these are kept: a run that was killed is
repeated up to where it stood without simulating anything again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.errors import InputError
from baco.common.portable import Floats
from baco.exploration.candidate import Cost
from baco.exploration.combine import chain
from baco.exploration.cost.bound import compulsory_costs
from baco.exploration.cost.learned.selection import MeasurementChoice, select
from baco.exploration.importance import ImportanceEstimator
from baco.exploration.measure.alternatives import Alternative, MachineAlternatives
from baco.exploration.measure.belief import Belief, PredictionSubject
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measured_design import Design, DesignLayer
from baco.exploration.measure.measurement import Measurement
from baco.exploration.objective import Objective
from baco.exploration.rest import RestOfPrograms
from baco.workloads.network import Task

#: Whether a design keeps the bounds that were set: accelerator, and the cost of one run of each task.
Allowed = Callable[[Accelerator, Sequence["Expected"]], bool]
#: Measures jobs, in their order.
Measure = Callable[[Sequence[MeasurementJob]], list[Measurement]]
#: What is known of errors before anything is measured: mean and deviation of log(measured / predicted) cycles, (n,).
Prior = Callable[[Sequence[Alternative]], tuple[Floats, Floats]]

#: Share of the budget for the predicted best designs of all machines, and share that a round may spend.
_OPENING, _SLICE = 1 / 2, 1 / 8
#: Further schedules a layer that a round asks for on average, and rounds without anything worth measuring before the end.
_UNITS, _MOST_IDLE = 2, 5
#: Machines farther behind the leader (in ln of the objective) than this are left alone.
_BEHIND = 0.15
#: Deviations of a program's own error: of cycles where no learned residual tells, and of energy.
_OWN_CYCLES, _OWN_ENERGY = 0.08, 0.02
#: Names of the predicted best as it was measured first, and of what measurements led to.
FIRST, MEASURED = "best 1", "measured search"
#: Group of whole designs, which compete with each other.
_DESIGNS = -1


@dataclass(frozen=True)
class Round:
    """What one round did.

    Attributes:
        number: from 0.
        measured: programs that were measured in it.
        cycles: simulated so far, of the budget.
        objective: of the best design measured so far; infinite before there is one.
        alternatives: schedules known so far.
    """

    number: int
    measured: int
    cycles: int
    objective: float
    alternatives: int


@dataclass(frozen=True)
class Expected:
    """Cost of one run of an alternative, measured or believed.

    Attributes:
        energy_pj, cycles: infinite for what went wrong.
        deviation: of the logarithm of the cycles; 0 for what was measured.
    """

    energy_pj: float
    cycles: float
    deviation: float


_NEVER = Expected(math.inf, math.inf, 0.0)


@dataclass(frozen=True)
class _Contender:
    """A machine (its place), an alternative for each layer, the objective, and the deviation of its logarithm."""

    place: int
    chosen: list[Alternative]
    objective: float
    deviation: float


class MeasuredSearch:
    """One run; see the module.

    Args:
        tasks, objective: what is explored.
        machines: accelerators with the mappings that a search found for them, the best by prediction first.
        measure: simulates; it may keep what it measured and give it back when it is asked again.
        budget: simulated cycles (of the layers measured, as `Measurement.cycles` counts them).
        prior: what a learned residual expects; by default nothing.
        allowed: bounds on designs; by default there are none.
        rest: what programs do beside the tasks, as it is predicted; None where only the tasks count.
        clocks: whether machines have several clocks (`Cost.clock_mhz`).
        watch: called after every round.

    Attributes:
        first: the predicted best as measured; None while it is not, or where a layer of it failed.
        spent: simulated cycles of the budget; verified: simulated beyond it, to measure the winner whole.
        failures: measurements that went wrong, `name: reason`.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        objective: Objective,
        machines: Sequence[MachineAlternatives],
        measure: Measure,
        budget: float,
        *,
        prior: Prior | None = None,
        allowed: Allowed = lambda _, __: True,
        rest: RestOfPrograms | None = None,
        clocks: bool = False,
        watch: Callable[[Round], None] = lambda _: None,
    ) -> None:
        if not machines:
            raise InputError("there is no design to begin with")
        if not budget > 0:
            raise InputError(f"a budget of {budget} cycles measures nothing")
        self.tasks, self.objective, self.machines = tuple(tasks), objective, list(machines)
        self._measure_jobs, self._prior, self._watch, self._allowed = measure, prior, watch, allowed
        self.budget, self.spent, self.verified = budget, 0, 0
        self._rest, self._clocks = rest, clocks
        self.first: Design | None = None
        self.failures: list[str] = []
        #: By machine, how often each task runs by itself.
        self._runs = {
            one.accelerator.config_hash: np.array(
                rest.counts(tasks, one.accelerator) if rest is not None else [task.count for task in tasks]
            )
            for one in machines
        }
        self._known: dict[str, Measurement] = {}
        self._cycles, self._energy = Belief(), Belief()
        self._programs: dict[str, PredictionSubject] = {}
        self._beliefs: dict[str, Expected] = {}
        self._importance = [ImportanceEstimator(self._counts(one)) for one in machines]

    # -- the loop ----------------------------------------------------------------------------------------

    def run(self) -> Design | None:
        """Spend the budget and measure the winner whole. None where no design could be measured."""
        opening = [ones[0] for ones in self.machines[0].found]
        self._take(self._affordable(opening), within=True)
        # errors of one machine's layers go together, so machines are compared by whole designs before layers are
        for machine in self.machines[1:]:
            design = [ones[0] for ones in machine.found if ones[0].key not in self._known]
            if self.spent + sum(map(self._bound, design)) <= self.budget * _OPENING:
                self._take(design, within=True)
        number = idle = 0
        self._tell(number, len(self._known))
        while self.spent < self.budget and idle < _MOST_IDLE:
            number += 1
            fresh = self._widen()
            picked = self._choose(min(self.budget - self.spent, self.budget * _SLICE))
            if not picked:
                picked = self._choose(self.budget - self.spent)
            if not picked:
                idle = idle + 1 if fresh else _MOST_IDLE
                continue
            idle = 0
            before = len(self._known)
            self._take(picked, within=True)
            self._tell(number, len(self._known) - before)
        self._verify(opening)
        return self.best()

    def _verify(self, opening: Sequence[Alternative]) -> None:
        """Measure what is left of the predicted best, and of the design that is believed best now."""
        self._take(opening, within=False)
        self.first = self._found(self.machines[0], opening, FIRST)
        design = min(self._designs(), key=lambda one: one.objective)
        if math.isfinite(design.objective):
            self._take(design.chosen, within=False)

    def _affordable(self, wanted: Sequence[Alternative]) -> list[Alternative]:
        """The largest contributions first, as far as the budget goes."""
        left, chosen = self.budget, []
        counts = self._counts(self.machines[0])
        order = sorted(range(len(wanted)), key=lambda i: (-counts[i] * wanted[i].cycles, i))
        for i in order:
            if self._bound(wanted[i]) <= left:
                left -= self._bound(wanted[i])
                chosen.append(wanted[i])
        return chosen

    def _widen(self) -> int:
        """More alternatives where they may matter. How many are new."""
        fresh = 0
        contenders = self._contenders()
        if not contenders:  # what there was of some layer went wrong
            fresh = sum(machine.widen([_UNITS] * len(self.tasks)) for machine in self.machines)
        problems = [task.problem for task in self.tasks]
        for design in contenders:
            estimator = self._importance[design.place]
            believed = [self._believed(one) for one in design.chosen]
            estimator.observe(
                np.array([at.energy_pj for at in believed]),
                np.array([at.cycles for at in believed]),
                *compulsory_costs(problems, self.machines[design.place].accelerator),
            )
            shares = estimator.shares(_UNITS * len(self.tasks))
            if not shares.any():
                shares = np.full(len(self.tasks), _UNITS)
            estimator.charge(shares)
            fresh += self.machines[design.place].widen(shares.tolist())
        if fresh:
            self._beliefs.clear()
        return fresh

    def _choose(self, budget: float) -> list[Alternative]:
        """What to measure next, within a budget of cycles."""
        choices: list[MeasurementChoice] = []
        wanted: list[list[Alternative]] = []
        best = self.best()
        known = portable.log(self._objective(best)) if best else math.inf
        for design in self._contenders():
            missing = {option.key: option for option in design.chosen if option.key not in self._known}
            if missing:
                cycles = sum(map(self._bound, missing.values()))
                log = portable.log(design.objective)
                choices.append(MeasurementChoice(log, design.deviation, cycles, _DESIGNS, known))
                wanted.append(list(missing.values()))
            self._layer_choices(design, choices, wanted)
        picked = select(choices, budget)
        return list({option.key: option for at in picked for option in wanted[at]}.values())

    def _layer_choices(
        self, design: _Contender, choices: list[MeasurementChoice], wanted: list[list[Alternative]]
    ) -> None:
        """Single layers of a machine: costs are their parts in d ln(objective), so that gains of all layers compare."""
        machine = self.machines[design.place]
        counts = self._counts(machine)
        totals = self._totals(machine, design.chosen)
        by_energy, by_cycles = self._elasticity(*totals, machine.accelerator.area_mm2)
        for layer, ones in enumerate(machine.found):
            parts = []
            for option in ones:
                at = self._believed(option)
                energy = counts[layer] * by_energy * at.energy_pj / totals[0]
                cycles = counts[layer] * by_cycles * at.cycles / totals[1]
                parts.append((energy + cycles, cycles))
            measured = [
                part for option, (part, _) in zip(ones, parts, strict=True) if option.key in self._known
            ]
            least = min(measured, default=math.inf)
            if not (math.isfinite(least) and least > 0):
                continue
            for option, (part, cycles) in zip(ones, parts, strict=True):
                if option.key in self._known or not part > 0:
                    continue
                spread = self._believed(option).deviation * cycles / part + _OWN_ENERGY * (1 - cycles / part)
                group = design.place * len(self.tasks) + layer
                choices.append(
                    MeasurementChoice(
                        portable.log(part), spread, self._bound(option), group, portable.log(least), least
                    )
                )
                wanted.append([option])

    def _elasticity(self, energy: float, cycles: float, area: float) -> tuple[float, float]:
        """d ln(objective) / d ln(energy) and / d ln(latency)."""
        here = self.objective.scalar(Cost(cycles, energy, area))
        step = 1e-4
        found = [
            portable.log(self.objective.scalar(Cost(cycles * b, energy * a, area)) / here)
            / portable.log(1 + step)
            for a, b in ((1 + step, 1.0), (1.0, 1 + step))
        ]
        return found[0], found[1]

    def _objective(self, design: Design) -> float:
        assert design.measured is not None  # all its layers were
        return self.objective.scalar(design.measured)

    def _cost(self, machine: MachineAlternatives, cycles: float, energy: float) -> Cost:
        clock = machine.accelerator.clock_mhz if self._clocks else None
        return Cost(cycles, energy, machine.accelerator.area_mm2, clock_mhz=clock)

    # -- what is believed --------------------------------------------------------------------------------

    def _believed(self, one: Alternative) -> Expected:
        """Cost of one run: as measured, else as believed; infinite for what went wrong."""
        if one.key not in self._beliefs:
            self._refresh()
        return self._beliefs[one.key]

    def _refresh(self) -> None:
        """Beliefs about all alternatives at once."""
        everyone = {a.key: a for machine in self.machines for ones in machine.found for a in ones}
        new = [a for a in everyone.values() if a.key not in self._programs]
        if new:
            logs, spreads = (
                self._prior(new) if self._prior else (np.zeros(len(new)), np.full(len(new), _OWN_CYCLES))
            )
            for a, log, spread in zip(new, logs, spreads, strict=True):
                layer = str(a.job.layer.problem)
                self._programs[a.key] = PredictionSubject(
                    a.style, a.job.accelerator.config_hash, layer, float(log), float(spread)
                )
        programs = [self._programs[key] for key in everyone]
        cycles, deviation = self._cycles.predict(programs)
        energy, _ = self._energy.predict([_energy_program(one) for one in programs])
        for place, (key, a) in enumerate(everyone.items()):
            found = self._known.get(key)
            if found is None:
                self._beliefs[key] = Expected(
                    a.energy_pj * portable.exp(energy[place]),
                    a.cycles * portable.exp(cycles[place]),
                    float(deviation[place]),
                )
            elif found.status == "measured":
                self._beliefs[key] = Expected(found.energy_pj, float(found.cycles), 0.0)
            else:
                self._beliefs[key] = Expected(math.inf, math.inf, 0.0)

    def _bound(self, one: Alternative) -> float:
        """Cycles that measuring an alternative will hardly exceed."""
        at = self._believed(one)
        return at.cycles * portable.exp(2 * at.deviation)

    # -- designs -----------------------------------------------------------------------------------------

    def _designs(self) -> list[_Contender]:
        return [self._design(place) for place in range(len(self.machines))]

    def _contenders(self) -> list[_Contender]:
        """Designs of the machines that are not far behind the best."""
        designs = self._designs()
        least = min(one.objective for one in designs)
        if not math.isfinite(least):
            return []
        return [one for one in designs if one.objective <= least * portable.exp(_BEHIND)]

    def _design(self, place: int) -> _Contender:
        """The best combination of a machine's alternatives as they are believed."""
        machine = self.machines[place]
        chosen = self._combined(machine, lambda option: True)
        if chosen is None:
            return _Contender(place, [ones[0] for ones in machine.found], math.inf, 0.0)
        energy, cycles = self._totals(machine, chosen)
        value = self.objective.scalar(self._cost(machine, cycles, energy))
        unknown = [i for i, option in enumerate(chosen) if option.key not in self._known]
        counts = self._counts(machine)
        shares = [counts[i] * self._believed(chosen[i]).cycles / cycles for i in unknown]
        programs = [self._programs[chosen[i].key] for i in unknown]
        return _Contender(place, chosen, value, self._cycles.spread(programs, np.array(shares)))

    def _combined(
        self, machine: MachineAlternatives, usable: Callable[[Alternative], bool]
    ) -> list[Alternative] | None:
        """The best combination of some alternatives that keeps the bounds; None where there is none."""
        energies, latencies = [], []
        for ones in machine.found:
            believed = [self._believed(option) if usable(option) else _NEVER for option in ones]
            energies.append(np.array([belief.energy_pj for belief in believed]))
            latencies.append(np.array([option.cycles for option in believed]))
        merged = chain(energies, latencies, self._counts(machine).tolist())
        if merged is None:
            return None
        rest_cycles, rest_pj = self._beside(machine)
        values = [
            self.objective.scalar(self._cost(machine, float(cycles) + rest_cycles, float(energy) + rest_pj))
            for energy, cycles in zip(merged.energy, merged.latency, strict=True)
        ]
        for at in np.argsort(values, kind="stable"):
            chosen = [ones[i] for ones, i in zip(machine.found, merged.choice[at], strict=True)]
            if self._allowed(machine.accelerator, [self._believed(option) for option in chosen]):
                return chosen
        return None

    def _counts(self, machine: MachineAlternatives) -> NDArray[np.float64]:
        return self._runs[machine.accelerator.config_hash]

    def _beside(self, machine: MachineAlternatives) -> tuple[float, float]:
        """Cycles and energy (pJ) of what programs do beside the tasks."""
        return (0.0, 0.0) if self._rest is None else self._rest.whole(machine.accelerator)

    def _totals(self, machine: MachineAlternatives, chosen: Sequence[Alternative]) -> tuple[float, float]:
        """Energy (pJ) and cycles of the workload."""
        believed = [self._believed(option) for option in chosen]
        cycles, energy = self._beside(machine)
        return (
            float(portable.dot([belief.energy_pj for belief in believed], self._counts(machine))) + energy,
            float(portable.dot([belief.cycles for belief in believed], self._counts(machine))) + cycles,
        )

    def _found(self, machine: MachineAlternatives, chosen: Sequence[Alternative], name: str) -> Design | None:
        """A design as measured; None unless all its layers were, and were right."""
        results = [self._known.get(option.key) for option in chosen]
        if any(result is None or result.status != "measured" for result in results):
            return None
        counts, rest = self._counts(machine), self._beside(machine)
        predicted = self._cost(
            machine,
            float(portable.dot([option.cycles for option in chosen], counts)) + rest[0],
            float(portable.dot([option.energy_pj for option in chosen], counts)) + rest[1],
        )
        return Design(
            name,
            "candidate",
            machine.accelerator,
            tuple(option.mapping for option in chosen),
            predicted,
            tuple(
                DesignLayer(
                    option.key,
                    option.job.layer,
                    option.job.schedule,
                    "",
                    option.cycles,
                    option.energy_pj,
                    result,
                )
                for option, result in zip(chosen, results, strict=True)
            ),
            "",
            "instruction",
            rest=rest,
            counts=tuple(counts.tolist()),
            tasks=self.tasks,
        )

    def best(self) -> Design | None:
        """The best design of measured layers alone."""
        found = []
        for machine in self.machines:
            chosen = self._combined(machine, lambda one: one.key in self._known)
            design = self._found(machine, chosen, MEASURED) if chosen else None
            if design:
                found.append(design)
        return min(found, key=self._objective, default=None)

    # -- measuring ---------------------------------------------------------------------------------------

    def _take(self, wanted: Sequence[Alternative], *, within: bool) -> None:
        """Measure what is not known yet and learn from it; `within` the budget or beyond."""
        fresh = {option.key: option for option in wanted if option.key not in self._known}
        if not fresh:
            return
        for option in fresh.values():
            self._believed(option)  # before it is known
        for key, found in zip(
            fresh, self._measure_jobs([option.job for option in fresh.values()]), strict=True
        ):
            option = fresh[key]
            program = self._programs[key]
            self._known[key] = found
            if within:
                self.spent += found.cycles
            else:
                self.verified += found.cycles
            if found.status != "measured":
                self.failures.append(f"{option.job.name}: {found.reason}")
                continue
            self._cycles.learn(program, portable.log(found.cycles / option.cycles))
            if found.energy_pj > 0 and option.energy_pj > 0:
                self._energy.learn(_energy_program(program), portable.log(found.energy_pj / option.energy_pj))
        self._beliefs.clear()

    def _tell(self, number: int, measured: int) -> None:
        best = self.best()
        alternatives = sum(len(ones) for machine in self.machines for ones in machine.found)
        value = self._objective(best) if best else math.inf
        self._watch(Round(number, measured, self.spent, value, alternatives))


def _energy_program(one: PredictionSubject) -> PredictionSubject:
    return PredictionSubject(one.style, one.machine, one.layer, 0.0, _OWN_ENERGY)
