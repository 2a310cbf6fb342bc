"""One-loop search with exact combination and local search: the main searcher.

It begins with mappings that fill hardware points drawn from the space. *Local search*: neighbours of the mappings chosen on the leading
accelerators are evaluated, layer by layer as the importance estimator grants. In the end the tasks' best mappings on the
leading accelerators are found exactly, so that no neighbour wins anything back. After every batch all evaluated mappings are
combined exactly on every accelerator worth scanning, so that a mapping found for one serves all.

A cost model that tells macros from explicit code makes macro tilings one more kind of mapping beside those of the two
dataflows (`baco.exploration.search.tilings`), and has another finish (`baco.exploration.search.tiling_finish`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.genome import (
    FLOWS,
    WIDTH,
    Genomes,
)
from baco.exploration.cost.infeasible import nearest_details
from baco.exploration.cost.reference import Counts
from baco.exploration.importance import ImportanceEstimator
from baco.exploration.search.archive import Archive
from baco.exploration.search.finish import ExactFinish
from baco.exploration.search.focus import focuses
from baco.exploration.search.proposals import Proposals
from baco.exploration.search.searcher import BatchResult, SearchSetup, State
from baco.exploration.search.seeds import plain_mappings
from baco.exploration.search.selector import Elite, Selector

if TYPE_CHECKING:
    from baco.exploration.cost.predicted import InstructionModel
    from baco.exploration.search.tiling_finish import TilingFinish


#: Samples after which it is decided which operators run as one unit, where that is still to be decided.
GROUPED_AFTER = 300
#: Array sides that get plain mappings to begin with.
_SEED_SIDES = 6
#: Hardware points that get mappings that fill them to begin with.
_SEED_POINTS = 24
#: Share of local search spent on mappings built anew.
_FRESH = 0.12
#: Of these, the share for accelerators drawn from the space, and how many are drawn in a batch.
_STRANGE, _STRANGERS = 0.3, 3
#: Local search: elites kept for the first focus.
_LEADERS = 12
#: Chances that a neighbour is to fit another accumulator or scratchpad, another array side, and that it starts
#: from another mapping of the archive.
_OTHER_MEMORIES, _OTHER_SIDE, _OTHER_MAPPING = 0.3, 0.15, 0.15
#: Chance that a neighbour is sought for the best accelerator and not for one of the next.
_GREED = 0.3
#: Evaluations a task in one batch of local search: few at first, when every answer changes the questions.
_SMALLEST_BATCH, _LARGEST_BATCH = 24, 768
#: Points of the front that are reported at once.
_FRONT = 48
#: What a snapshot says of an elite beside its choice.
_PLAIN = ("point", "units", "energy", "latency", "value", "violation", "violated")
#: Leading designs that are reported while none is feasible.
_NEAREST = 5


class LocalSearch:
    """See the module's description."""

    #: Whether local search goes where importance says, or evenly to all layers (to see what importance is worth).
    by_importance = True

    def __init__(self, setup: SearchSetup) -> None:
        self.setup = setup
        self.archive = Archive(setup.tasks, setup.space, setup.cost_model)
        self.focuses = focuses(setup.objective, setup.space.clock_mhz)
        self.selector = Selector(self.archive, setup.objective, self.focuses)
        self.archive.narrow(self.selector.sides())
        self.flows = [FLOWS.index(flow) for flow in setup.space.dataflows]
        self.random = np.random.default_rng(setup.seed)
        self.elites: list[list[Elite]] = [[] for _ in self.focuses]
        self.importance = ImportanceEstimator(self.archive.counts)
        self.spent = 0
        self.macros: InstructionModel | None = None
        self.finish: ExactFinish | TilingFinish = ExactFinish(self.archive)
        if self.archive.model.macros:
            from baco.exploration.cost.predicted import InstructionModel
            from baco.exploration.search.tiling_finish import TilingFinish

            assert isinstance(self.archive.model, InstructionModel)
            self.macros = self.archive.model
            self.finish = TilingFinish(self.archive, self.macros)
        self.proposals = Proposals(self.archive, self.flows, self.random, self.macros)
        self.grouping = setup.grouping
        self.batches = 0
        self.last_front = 0
        self.best = np.inf

    # -- one batch ---------------------------------------------------------------------------------------

    def step(self) -> BatchResult:
        """One batch, then a scan of the hardware."""
        if self.spent == 0:
            phase = "seeding"
            self._seed()
        elif self.finish.due(self.elites[0], self.spent, self._left()):
            phase = self.finish.phase
            self.spent += self.finish.step(self.focuses[0], self._left())
        else:
            phase = self._improve()
        self._rescan()
        self.batches += 1
        done = self._left() < 1
        if self.grouping is not None and (done or self.spent >= GROUPED_AFTER * len(self.setup.tasks)):
            self._group()
        found, details = self._candidates(done), self._details()
        return BatchResult(found, self.spent, phase, done, details, self._nearest())

    def _improve(self) -> str:
        """Look for better mappings; what that is called."""
        self._search_neighbours()
        return "local search"

    def group(self) -> BatchResult:
        """A batch that decides which operators run as one unit, before the first samples are all there."""
        self._group()
        return BatchResult(
            self._candidates(True), self.spent, "fusion groups", False, self._details(), self._nearest()
        )

    def _group(self) -> None:
        """Go on with programs in which some operators run as one unit: what has been found is rated anew."""
        assert self.grouping is not None
        self.archive.model = self.grouping(self.archive, self._details())
        self.grouping, self.best, self.last_front = None, np.inf, 0
        self._rescan()

    def _left(self) -> float:
        return np.inf if self.setup.evaluations is None else self.setup.evaluations - self.spent

    def _room(self) -> float:
        """What is left but for what the finish holds back."""
        return self._left() - self.finish.reserve(self.elites[0])

    def _seed(self) -> None:
        """A few plain mappings of every task on every array side of note, so that no accelerator lacks one:
        the array filled, one tile of pixels a pass, everything else at DRAM."""
        n = len(self.setup.tasks)
        dims = self.selector.sides()
        sides = dims[np.linspace(0, len(dims) - 1, min(len(dims), _SEED_SIDES)).round().astype(int)]
        task, found = plain_mappings(self.archive.problems.bounds, sides[::-1], self.flows, self.macros)
        fresh = self.archive.fresh(task, found)
        size = int(min(self._left(), fresh.sum()))
        self._evaluate(task[fresh][:size], found[fresh][:size])
        points = self.selector.sample(_SEED_POINTS, self.random)
        if len(points):
            self._construct(np.tile(np.arange(n), len(points)), np.repeat(points, n, axis=0))

    def _construct(self, task: NDArray[np.int64], limit: Floats) -> None:
        """Evaluate new mappings that fill the given hardware points (B, 3)."""
        rows, good = self.proposals.construct(task, limit)
        good[good] = self.archive.fresh(task[good], rows[good])
        index = np.flatnonzero(good)[: int(min(self._left(), good.sum()))]
        self._evaluate(task[index], rows[index])

    def _evaluate(self, task: NDArray[np.int64], rows: Genomes) -> Counts:
        self.spent += len(rows)
        if self.macros is not None:
            rows = self.macros.styled(task, rows)
        return self.archive.add(task, rows)

    def _nearest_sides(self, wanted: Floats) -> Floats:
        """The array sides of the space nearest in ratio to the wanted ones."""
        dims = np.array(self.setup.space.dim, dtype=np.float64)
        return np.asarray(dims[np.abs(portable.log(dims)[None, :] - portable.log(wanted)[:, None]).argmin(1)])

    # -- local search ------------------------------------------------------------------------------------

    def _batch_size(self) -> int:
        n = len(self.setup.tasks)
        size = int(np.clip(self.spent / n / 6, _SMALLEST_BATCH, _LARGEST_BATCH)) * n
        return int(min(size, self._room()))

    def _search_neighbours(self) -> None:
        size = self._batch_size()
        if not self.elites[0]:
            self._shake(size)
            return
        shares = np.array(
            [focus.share if elites else 0.0 for focus, elites in zip(self.focuses, self.elites, strict=True)]
        )
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
        anew = self.random.random(len(task)) < _FRESH
        if anew.any():
            # Some of them for accelerators that nobody has looked at lately.
            points = self.selector.sample(_STRANGERS, self.random)
            strange = anew & (self.random.random(len(task)) < _STRANGE)
            limit[strange] = points[self.random.integers(0, len(points), int(strange.sum()))]
            self._construct(task[anew], limit[anew])
            task, base, limit = task[~anew], base[~anew], limit[~anew]
        task, found = self.proposals.neighbours(task, base, limit)
        if len(found):
            self._evaluate(task, found)
        if len(found) < size // 4:
            self._shake(size - len(found))

    def _tasks_for(self, focus: int, amount: int) -> NDArray[np.int64]:
        """Which task each of `amount` neighbours is of: for the first focus as importance grants, else evenly."""
        n = len(self.setup.tasks)
        shares = np.zeros(n, dtype=np.int64)
        if focus == 0 and self.by_importance:
            shares = self.importance.shares(amount)
        if not shares.any():
            shares = np.bincount(self.random.permutation(n)[np.arange(amount) % n], minlength=n)
        self.importance.charge(shares)
        return np.repeat(np.arange(n), shares)[:amount]

    def _bases(self, focus: int, task: NDArray[np.int64]) -> tuple[Genomes, Floats]:
        """Mappings to change, chosen on an elite of the focus, and the hardware (B, 3) they should fit."""
        elites = self.elites[focus]
        # the chance that a neighbour is for none of the first n
        beyond = np.cumprod(np.full(len(elites) - 1, 1.0 - _GREED))
        which = (self.random.random(len(task))[:, None] < beyond).sum(1)
        base = np.empty((len(task), WIDTH), dtype=np.int64)
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
        far = self.random.random((len(task), 2)) < _OTHER_MEMORIES
        factors = self.random.choice(np.array([0.5, 0.7, 0.85, 1.2, 1.5, 2.0]), (len(task), 2))
        limit[:, 1:] *= np.where(far, factors, 1.0)
        wider = self.random.random(len(task)) < _OTHER_SIDE
        side = self._nearest_sides(
            limit[wider, 0] * self.random.choice(np.array([0.5, 1.25, 2.0]), int(wider.sum()))
        )
        # The same tiles on a wider array need more rows of both memories.
        limit[wider, 1:] *= np.maximum(1.0, side / limit[wider, 0])[:, None]
        limit[wider, 0] = side
        # And some start from another mapping of the task that is of use somewhere.
        other = np.flatnonzero(self.random.random(len(task)) < _OTHER_MAPPING)
        for i in other.tolist():
            pool = self.archive.genomes[task[i]]
            base[i] = pool[self.random.integers(0, len(pool))]
        return base, limit

    def _shake(self, amount: int) -> None:
        """Nearly everything around has been tried: neighbours of neighbours of neighbours."""
        amount = int(min(amount, self._room()))
        task = self.random.integers(0, len(self.setup.tasks), amount)
        base, limit = self._bases(0, task) if self.elites[0] else self._any_base(task)
        base = self.proposals.shaken(task, base, limit)
        keep = self.archive.fresh(task, base)
        self._evaluate(task[keep], base[keep])
        # Repeats are charged as well: the budget is a promise to stop.
        self.spent += amount - int(keep.sum())

    def _any_base(self, task: NDArray[np.int64]) -> tuple[Genomes, Floats]:
        """Any mapping of the archive, on the largest accelerator."""
        space = self.setup.space
        base = np.stack(
            [self.archive.genomes[t][self.random.integers(0, len(self.archive.genomes[t]))] for t in task]
        )
        largest = [float(space.dim[-1]), float(space.accumulator_kib[-1]), float(space.scratchpad_kib[-1])]
        return base, np.tile(np.array(largest), (len(task), 1))

    # -- bookkeeping -------------------------------------------------------------------------------------

    def _rescan(self) -> None:
        keep = [_LEADERS if k == 0 else 1 for k in range(len(self.focuses))]
        flat = [elite for elites in self.elites for elite in elites]
        self.elites = self.selector.scan(flat, keep)
        if not self.elites[0]:
            return
        leader = self.elites[0][0]
        costs = self.archive.at(leader.point, leader.units)
        self.importance.rest = np.array([costs.rest_energy.sum(), costs.rest_latency.sum()])
        self.importance.counts = costs.counts
        self.importance.observe(*costs.chosen(leader.choice), *self.archive.least(leader.point))

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

    def _nearest(self) -> list[Candidate]:
        """The leading designs, while none of them is feasible."""
        if np.isfinite(self.best):
            return []
        return [self.selector.candidate(elite, self.spent) for elite in self.elites[0][:_NEAREST]]

    def _details(self) -> dict[str, float]:
        details = {"mappings": float(sum(len(g) for g in self.archive.genomes))}
        if self.elites[0] and not np.isfinite(self.best):
            elite = self.elites[0][0]
            dim, acc, sp = elite.point
            costs = self.archive.at(elite.point, elite.units)
            (network_e,), (network_l,) = self.archive.totals(costs, elite.choice[None, :])
            area = float(self.setup.space.area_of(dim, acc, sp, elite.units))
            cost = Cost(elite.latency, elite.energy, area)
            bounds = self.setup.space.constraints
            values = self.archive.reached(bounds, cost, (network_e, network_l), acc + sp)
            details |= nearest_details(values)
        return details

    def go_on_from(self, other: LocalSearch) -> None:
        """Have another search's place in its course (budget, chance), not its mappings."""
        self.random = self.proposals.random = other.random
        self.spent, self.batches, self.last_front = other.spent, other.batches, other.last_front
        self.selector.ratio = other.selector.ratio

    def state(self) -> State:
        """Snapshot: the archive, the random generator, the counters; elites are found again by a scan."""
        numbers = {
            "spent": self.spent,
            "finish": self.finish.state(),
            "batches": self.batches,
            "last_front": self.last_front,
            "best": self.best if np.isfinite(self.best) else None,
            "ratio": self.selector.ratio,
            "scans": self.selector.scans,
            "random": self.random.bit_generator.state,
            "elites": [
                [[*(getattr(e, name) for name in _PLAIN), e.choice.tolist()] for e in elites]
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
        self.spent = numbers["spent"]
        self.finish.restore(numbers["finish"])
        self.batches, self.last_front = numbers["batches"], numbers["last_front"]
        self.best = np.inf if numbers["best"] is None else numbers["best"]
        self.selector.ratio, self.selector.scans = numbers["ratio"], numbers["scans"]
        self.random.bit_generator.state = numbers["random"]
        self.elites = [
            [
                Elite(**dict(zip(_PLAIN, e, strict=False)) | {"point": tuple(e[0])}, choice=np.array(e[-1]))
                for e in elites
            ]
            for elites in numbers["elites"]
        ]
