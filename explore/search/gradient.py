"""One-loop gradient descent with exact combination and local search: the main searcher.

It alternates two kinds of batches. *Descent*: relaxed mappings of all tasks, for a batch of starts (array
sides x weighings of energy, latency and area), move by gradients and are rounded; the accelerator is inferred
from the mappings. *Local search*: neighbours of the mappings chosen on the best accelerators are evaluated,
layer by layer as the importance estimator grants. After every batch all evaluated mappings are combined
exactly on every accelerator worth scanning, so that a mapping found for one serves all.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from accel.area import area_mm2
from explore.candidate import Candidate, Cost
from explore.importance import ImportanceEstimator
from explore.infeasible import nearest_details
from explore.search.archive import Archive, Hardware
from explore.search.base import BatchResult, SearchSetup, State
from explore.search.focus import Focus, focuses
from explore.search.genome import DRAM_ORDERS, FLOWS, ORDER, Genomes, count, mutate
from explore.search.relaxed import RelaxedStarts, Weights, random_log_factors
from explore.search.selector import Elite, Selector

Floats = NDArray[np.float64]

#: Descent: starts in a batch, steps between roundings, and Adam's step in units of ln(factor).
_STARTS, _STEPS, _RATE = 6, 8, 0.25
#: Local search: evaluations of one exploration unit, and elites kept for the first focus.
_UNIT, _LEADERS = 16, 4
#: Evaluations a task in one batch of local search: few at first, when every answer changes the questions.
_SMALLEST_BATCH, _LARGEST_BATCH = 24, 768
#: Share of descent in the evaluations so far, above which local search goes on.
_DESCENT_SHARE = 0.2
#: Points of the front that are reported at once.
_FRONT = 48


class GradientSearch:
    """See the module's description."""

    def __init__(self, setup: SearchSetup) -> None:
        self.setup = setup
        self.archive = Archive(setup.tasks, setup.space)
        self.focuses = focuses(setup.objective)
        self.selector = Selector(self.archive, setup.objective, self.focuses)
        self.flows = [FLOWS.index(flow) for flow in setup.space.dataflows]
        self.random = np.random.default_rng(setup.seed)
        self.elites: list[list[Elite]] = [[] for _ in self.focuses]
        self.importance = self._estimator()
        self.spent = 0
        self.spent_descending = 0
        self.batches = 0
        self.last_front = 0
        self.best = np.inf

    def _estimator(self) -> ImportanceEstimator:
        kinds = [task.problem.kind for task in self.setup.tasks]
        return ImportanceEstimator(
            counts=self.archive.counts,
            macs=np.array([float(task.problem.macs) for task in self.setup.tasks]),
            family=np.array([sorted(set(kinds)).index(kind) for kind in kinds]),
        )

    # -- one batch ---------------------------------------------------------------------------------------

    def step(self) -> BatchResult:
        """One batch of descent or of local search, then a scan of the hardware."""
        descent_cost = self._descent_cost()
        descend = self.spent_descending <= _DESCENT_SHARE * self.spent and descent_cost <= self._left()
        if not self.elites[0] and not descend and self.spent:
            descend = descent_cost <= self._left()
        before = self.spent
        phase = "descent" if descend else "local search"
        if descend:
            self._descend()
            self.spent_descending += self.spent - before
        elif self.elites[0]:
            self._search_neighbours()
        else:
            self._seed()
        self._rescan(descend)
        self.batches += 1
        done = self._left() < 1
        return BatchResult(self._candidates(done), self.spent, phase, done, self._details())

    def _left(self) -> float:
        return np.inf if self.setup.evaluations is None else self.setup.evaluations - self.spent

    def _descent_cost(self) -> int:
        n = len(self.setup.tasks)
        return n * _STARTS * (2 * _STEPS * 3 + len(DRAM_ORDERS) + 2)

    def _seed(self) -> None:
        """With a budget too small for descent: the trivial mapping and neighbours of it."""
        n = len(self.setup.tasks)
        size = int(min(self._left(), 16 * n))
        task = np.arange(size) % n
        dim = np.full(size, self.setup.space.dim[-1], dtype=np.int64)
        rows = np.ones((size, 25), dtype=np.int64)
        rows[:, 0], rows[:, ORDER] = self.flows[0], 0
        bounds = self.archive.problems.bounds[task]
        for _ in range(8):
            rows = np.where((self.random.random(size) < 0.7)[:, None], mutate(rows, bounds, dim, self.flows, self.random), rows)
        self._evaluate(task, rows)

    def _evaluate(self, task: NDArray[np.int64], rows: Genomes) -> None:
        self.archive.add(task, rows)
        self.spent += len(rows)

    # -- descent -----------------------------------------------------------------------------------------

    def _start_weights(self) -> Weights:
        """The first focus for half of the starts, the sweep for the others."""
        chosen: list[Focus] = []
        for i in range(_STARTS):
            k = 0 if i % 2 == 0 or len(self.focuses) == 1 else 1 + (self.batches + i // 2) % (len(self.focuses) - 1)
            chosen.append(self.focuses[k])
        return Weights(
            np.array([f.energy for f in chosen]),
            np.array([f.latency for f in chosen]),
            np.array([f.area for f in chosen]),
        )

    def _start_sides(self) -> Floats:
        """Array sides: spread over the space at first, later near those of the elites."""
        dims = np.array(self.setup.space.dim, dtype=np.float64)
        leaders = [e.point[0] for elites in self.elites for e in elites]
        if not leaders:
            places = np.linspace(len(dims) - 1, (len(dims) - 1) * 0.35, _STARTS).round().astype(int)
            return dims[places]
        centre = self.random.choice(np.array(leaders), _STARTS)
        wanted = centre * np.exp(self.random.normal(0.0, 0.3, _STARTS))
        return dims[np.abs(np.log(dims)[None, :] - np.log(wanted)[:, None]).argmin(1)]

    def _descend(self) -> None:
        n = len(self.setup.tasks)
        dim = self._start_sides()
        flow = self.random.choice(np.array(self.flows), (_STARTS, n))
        starts = RelaxedStarts(
            self.archive.problems,
            self.archive.counts,
            self.setup.space,
            dim,
            flow,
            self.random.integers(0, 3, (_STARTS, n)),
            random_log_factors(self.archive.problems, dim, flow, self.random),
            self._start_weights(),
        )
        for i in range(2 * _STEPS):
            if i == _STEPS:
                self._reorder(starts)
            starts.descend(_RATE * (1 - 0.5 * i / (2 * _STEPS)))
            self.spent += 3 * starts.size
        for variant in (0, 1):
            task, rows = starts.rounded(variant)
            self._evaluate(task, rows)

    def _reorder(self, starts: RelaxedStarts) -> None:
        """Round, try all DRAM orders, and go on with the best of each mapping."""
        task, rows = starts.rounded()
        orders = len(DRAM_ORDERS)
        many = np.repeat(rows, orders, axis=0)
        many[:, ORDER] = np.tile(np.arange(orders), len(rows))
        each = np.repeat(task, orders)
        self._evaluate(each, many)
        # Orders differ in traffic alone, and DRAM words dominate both energy and time.
        traffic = count(self.archive.problems, each, many, self.setup.space.double_buffer).a3.numpy()
        starts.set_order(traffic.reshape(len(rows), orders).argmin(1).reshape(starts.flow.shape))

    # -- local search ------------------------------------------------------------------------------------

    def _batch_size(self) -> int:
        n = len(self.setup.tasks)
        size = int(np.clip(self.spent / n / 6, _SMALLEST_BATCH, _LARGEST_BATCH)) * n
        return int(min(size, self._left()))

    def _search_neighbours(self) -> None:
        size = self._batch_size()
        if not self.importance.gradient().any():
            self.importance.revive()
        shares = np.array([focus.share if elites else 0.0 for focus, elites in zip(self.focuses, self.elites, strict=True)])
        amounts = np.floor(size * shares / shares.sum()).astype(int)
        amounts[0] += size - amounts.sum()
        tasks, rows, limits = [], [], []
        for k, amount in enumerate(amounts.tolist()):
            if amount == 0:
                continue
            task = self._tasks_for(k, amount)
            base, limit = self._bases(k, task)
            tasks.append(task)
            rows.append(base)
            limits.append(limit)
        task, base, limit = np.concatenate(tasks), np.concatenate(rows), np.concatenate(limits)
        task, found = self._neighbours(task, base, limit)
        if len(found):
            self._evaluate(task, found)
        if len(found) < size // 4:
            # Nearly everything around has been tried: look farther out.
            self.spent += 0
            self._shake(size - len(found))

    def _tasks_for(self, focus: int, amount: int) -> NDArray[np.int64]:
        n = len(self.setup.tasks)
        if focus == 0:
            units = max(1, amount // _UNIT)
            shares = self.importance.shares(units)
            if shares.sum():
                task = np.repeat(np.arange(n), shares * _UNIT)
                extra = self.random.integers(0, n, max(0, amount - len(task)))
                return np.concatenate([task, extra])[:amount]
        return self.random.integers(0, n, amount)

    def _bases(self, focus: int, task: NDArray[np.int64]) -> tuple[Genomes, Floats]:
        """Mappings to change, chosen on an elite of the focus, and the hardware (B, 3) they should fit."""
        elites = self.elites[focus]
        which = np.minimum(self.random.geometric(0.55, len(task)) - 1, len(elites) - 1)
        base = np.empty((len(task), 25), dtype=np.int64)
        limit = np.empty((len(task), 3))
        for i, elite in enumerate(elites):
            mine = which == i
            if not mine.any():
                continue
            limit[mine] = elite.point
            for t in np.unique(task[mine]):
                rows = mine & (task == t)
                base[rows] = self.archive.genomes[t][elite.choice[t]]
        # Some neighbours are sought for a neighbouring accelerator, so that the hardware can move.
        far = self.random.random((len(task), 2)) < 0.3
        factors = self.random.choice(np.array([0.5, 0.7, 0.85, 1.2, 1.5, 2.0]), (len(task), 2))
        limit[:, 1:] *= np.where(far, factors, 1.0)
        # And some start from another mapping of the task that is of use somewhere.
        other = np.flatnonzero(self.random.random(len(task)) < 0.15)
        for i in other:
            pool = self.archive.genomes[task[i]]
            base[i] = pool[self.random.integers(0, len(pool))]
        return base, limit

    def _neighbours(
        self, task: NDArray[np.int64], base: Genomes, limit: Floats
    ) -> tuple[NDArray[np.int64], Genomes]:
        """Changed mappings that fit and have not been tried; proposals are free, only evaluations count."""
        hardware = Hardware(limit[:, 0].copy(), limit[:, 1].copy(), limit[:, 2].copy())
        dim = limit[:, 0].astype(np.int64)
        bounds = self.archive.problems.bounds[task]
        open_ = np.ones(len(task), dtype=np.bool_)
        result = base.copy()
        for _ in range(6):
            index = np.flatnonzero(open_)
            if not len(index):
                break
            rows = mutate(base[index], bounds[index], dim[index], self.flows, self.random)
            good = self.archive.fits(task[index], rows, hardware.take(index))
            good[good] = self.archive.fresh(task[index][good], rows[good])
            result[index[good]] = rows[good]
            open_[index[good]] = False
        return task[~open_], result[~open_]

    def _shake(self, amount: int) -> None:
        """Neighbours of neighbours of whatever the archive holds, on the leaders' array side."""
        n = len(self.setup.tasks)
        amount = int(min(amount, self._left()))
        task = self.random.integers(0, n, amount)
        base, limit = self._bases(0, task)
        bounds = self.archive.problems.bounds[task]
        for _ in range(2):
            base = mutate(base, bounds, limit[:, 0].astype(np.int64), self.flows, self.random)
        keep = self.archive.fresh(task, base)
        if keep.any():
            self._evaluate(task[keep], base[keep])
        else:
            # The space around is exhausted; the budget is a promise to stop, not to go on forever.
            self.spent += n

    # -- bookkeeping -------------------------------------------------------------------------------------

    def _rescan(self, after_descent: bool) -> None:
        keep = [_LEADERS if len(self.focuses) == 1 or k == 0 else 1 for k in range(len(self.focuses))]
        flat = [elite for elites in self.elites for elite in elites]
        old = self.elites[0][0] if self.elites[0] else None
        before = self._layer_costs(old) if old else None
        self.elites = self.selector.scan(flat, keep)
        if not self.elites[0]:
            return
        leader = self.elites[0][0]
        if old is None or leader.point != old.point:
            self.importance.revive()
        after = self._layer_costs(leader)
        for layer in range(len(self.setup.tasks)):
            e, t = after[0][layer], after[1][layer]
            improved = before is None or bool(
                e / before[0][layer] + t / before[1][layer] < 2 - 1e-6
            )
            self.importance.update(layer, e, t, improved)

    def _layer_costs(self, elite: Elite) -> tuple[Floats, Floats]:
        hardware = Hardware.of([elite.point])
        pairs = [
            (pj[0, k], cycles[0, k])
            for layer, k in enumerate(elite.choice)
            for pj, cycles in [self.archive.costs(layer, hardware)]
        ]
        e, t = (np.array(column) for column in zip(*pairs, strict=True))
        return e, t

    def _candidates(self, done: bool) -> list[Candidate]:
        found: list[Candidate] = []
        if not self.elites[0]:
            return found
        leader = self.elites[0][0]
        if leader.violation == 0:
            candidate = self.selector.candidate(leader, self.spent)
            if candidate.objective < self.best:
                self.best = candidate.objective
                found.append(candidate)
        if done or self.spent >= 1.6 * self.last_front:
            self.last_front = self.spent
            flat = [elite for elites in self.elites for elite in elites]
            found += self.selector.front(flat, self.spent, _FRONT)
        return found

    def _details(self) -> dict[str, float]:
        details = {"mappings": float(sum(len(g) for g in self.archive.genomes))}
        if self.elites[0] and not np.isfinite(self.best):
            elite = self.elites[0][0]
            dim, acc, sp = elite.point
            network_e, network_l = self.archive.totals(elite.point, elite.choice)
            area = float(area_mm2(dim, acc, sp))
            networks = {
                name: Cost(network_l[i] / w, network_e[i] / w, area)
                for i, (name, w) in enumerate(zip(self.archive.networks, self.archive.mix_weights, strict=True))
            }
            values = self.setup.space.constraints.values(
                Cost(elite.latency, elite.energy, area),
                sram_kib=acc + sp,
                clock_mhz=self.archive.base.clock_mhz,
                networks=networks,
            )
            details |= nearest_details(values)
        return details

    def state(self) -> State:
        """Snapshot: the archive, the random generator, the counters; elites are found again by a scan."""
        numbers = {
            "spent": self.spent,
            "spent_descending": self.spent_descending,
            "batches": self.batches,
            "last_front": self.last_front,
            "best": self.best if np.isfinite(self.best) else None,
            "ratio": self.selector.ratio,
            "random": self.random.bit_generator.state,
            "elites": [
                [[*e.point, e.energy, e.latency, e.value, e.violation, e.violated, e.choice.tolist()] for e in elites]
                for elites in self.elites
            ],
        }
        return {
            **self.archive.state(),
            **self.importance.state(),
            "numbers": np.frombuffer(json.dumps(numbers).encode(), dtype=np.uint8).copy(),
        }

    def restore(self, state: State) -> None:
        """Undo `state`."""
        self.archive.restore(state)
        self.importance.restore(state)
        numbers = json.loads(bytes(state["numbers"]).decode())
        self.spent, self.spent_descending = numbers["spent"], numbers["spent_descending"]
        self.batches, self.last_front = numbers["batches"], numbers["last_front"]
        self.best = np.inf if numbers["best"] is None else numbers["best"]
        self.selector.ratio = numbers["ratio"]
        self.random.bit_generator.state = numbers["random"]
        self.elites = [
            [Elite((e[0], e[1], e[2]), np.array(e[8]), e[3], e[4], e[5], e[6], e[7]) for e in elites]
            for elites in numbers["elites"]
        ]
