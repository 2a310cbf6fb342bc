"""Peers of the main searcher in a space with settings: a black-box optimiser over hardware, the main searcher's local search inside.

Every proposal is a whole accelerator: array side, memories, and a value of each setting. For it, the mappings of all layers are
searched as the main searcher does (`baco.exploration.search.local_search`: mappings built to fill it, their neighbours where importance says,
the compiler's schedules), from the best ones known; its EDP is what the optimiser is told. So these peers differ from the main
searcher in how hardware is found, and in that one evaluated mapping serves one accelerator only.

Optimisers: CMA-ES with margin (Optuna's), and Gaussian processes in a trust region (TuRBO; Eriksson et al., NeurIPS 2019).
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import IntDistribution
from optuna.samplers import CmaEsSampler
from scipy.stats import qmc

from baco.common.errors import InputError
from baco.common.portable import Floats, Ints
from baco.exploration.cost.genome import Genomes
from baco.exploration.search.local_search import LocalSearch
from baco.exploration.search.searcher import BatchResult, SearchSetup
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import Choice, DesignSpace

#: Evaluations a task for the mappings of one accelerator.
MAPPINGS = 100
#: Of these, mappings built to fill it, and the most in one batch of neighbours (small batches take most of their time to begin).
_BUILT, _BATCH = 16, 40
#: Settings whose models are held.
_MOST_KNOWN = 200

Place = tuple[int, ...]


class Optimiser(Protocol):
    """Minimises over places (d,), each coordinate from 0 to one less than its number of values."""

    def ask(self) -> Place: ...

    def tell(self, value: float) -> None:
        """The logarithm of what the place that was asked for last is worth."""


class CmaEs:
    """CMA-ES with margin, Optuna's, which begins at `first`."""

    def __init__(self, sizes: Place, first: Place, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = {f"x{i:02d}": IntDistribution(0, size - 1) for i, size in enumerate(sizes) if size > 1}
        self._sizes = sizes
        begin = {f"x{i:02d}": at for i, at in enumerate(first)}
        with warnings.catch_warnings():
            # that it is experimental, and that Optuna 6 will have it elsewhere
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.simplefilter("ignore", FutureWarning)
            sampler = CmaEsSampler(x0=begin, seed=seed, with_margin=True, warn_independent_sampling=False)
        self._study = optuna.create_study(sampler=sampler)
        self._study.enqueue_trial({name: first[int(name[1:])] for name in self._space})

    def ask(self) -> Place:
        """The next place."""
        self._trial = self._study.ask(dict(self._space))
        params = self._trial.params
        return tuple(params.get(f"x{i:02d}", 0) for i in range(len(self._sizes)))

    def tell(self, value: float) -> None:
        """See `Optimiser`."""
        self._study.tell(self._trial, value)


class TrustRegion:
    """TuRBO with one region: Thompson samples of a Gaussian process with a length of its own along every coordinate, within a
    box around the best place that grows when it succeeds and halves when it does not; a new start when it is too small."""

    #: Places before the first model, and of which the next one is chosen by a sample of the process.
    first_places, candidates = 12, 1000
    #: Side of the box: at first, at most, and where a new start is made; successes and failures in a row that change it.
    side, most, least = 0.8, 1.6, 0.5**7
    successes = 3

    def __init__(self, sizes: Place, first: Place, seed: int) -> None:
        self._steps = np.array(sizes) - 1
        self._free = np.flatnonzero(self._steps > 0)
        self._rng = np.random.default_rng(seed)
        self._kernel: object = None
        self._restart(np.array(first))

    def _restart(self, first: Ints | None) -> None:
        self._length, self._won, self._lost = self.side, 0, 0
        self._x, self._y = np.zeros((0, len(self._free))), np.zeros(0)
        sobol = qmc.Sobol(len(self._free), seed=self._rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that their number is no power of two
            self._open = list(sobol.random(self.first_places))
        if first is not None:
            self._open[0] = first[self._free] / self._steps[self._free]

    def ask(self) -> Place:
        """The next place."""
        self._asked = self._open.pop(0) if self._open else self._sampled()
        place = np.zeros(len(self._steps), dtype=np.int64)
        place[self._free] = np.rint(self._asked * self._steps[self._free])
        return tuple(int(v) for v in place)

    def tell(self, value: float) -> None:
        """See `Optimiser`."""
        best = self._y.min(initial=np.inf)
        modelled = len(self._y) >= self.first_places
        # as the place is, not as it was asked for
        steps = self._steps[self._free]
        self._x = np.concatenate([self._x, [np.rint(self._asked * steps) / steps]])
        self._y = np.append(self._y, value)
        if not modelled:
            return
        better = value < best - 1e-3 * abs(best)
        self._won, self._lost = (self._won + 1, 0) if better else (0, self._lost + 1)
        if self._won == self.successes:
            self._length, self._won = min(2 * self._length, self.most), 0
        elif self._lost == max(4, len(self._free)):
            self._length, self._lost = self._length / 2, 0
        if self._length < self.least:
            self._restart(None)

    def _sampled(self) -> Floats:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        d = len(self._free)
        values = (self._y - self._y.mean()) / (self._y.std() + 1e-12)
        # lengths are fitted anew every few places, which takes most of the time
        fit = self._kernel is None or len(self._y) % 4 == 0
        kernel = self._kernel or ConstantKernel(1.0, (0.05, 20.0)) * Matern(
            np.full(d, 0.5), (0.05, 4.0), nu=2.5
        ) + WhiteKernel(1e-2, (1e-4, 0.2))
        process = GaussianProcessRegressor(kernel, optimizer="fmin_l_bfgs_b" if fit else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lengths at their bounds
            process.fit(self._x, values)
        self._kernel = process.kernel_
        lengths = np.atleast_1d(process.kernel_.k1.k2.length_scale)
        weights = lengths / np.exp(np.log(lengths).mean())
        centre = self._x[int(self._y.argmin())]
        half = self._length * weights / 2
        low, high = (centre - half).clip(0, 1), (centre + half).clip(0, 1)
        steps = self._steps[self._free]
        points = low + (high - low) * self._rng.random((self.candidates, d))
        # only some coordinates move, at least one
        moved = self._rng.random((self.candidates, d)) < min(1.0, 20 / d)
        moved[np.arange(self.candidates), self._rng.integers(0, d, self.candidates)] = True
        points = np.rint(np.where(moved, points, centre) * steps) / steps
        known = {tuple(row) for row in self._x.tolist()}
        fresh = np.array([row for row in np.unique(points, axis=0).tolist() if tuple(row) not in known])
        if not len(fresh):  # the box holds nothing new
            return np.asarray(self._rng.integers(0, steps + 1) / steps)
        sample = process.sample_y(fresh, random_state=int(self._rng.integers(2**31)))[:, 0]
        return np.asarray(fresh[int(sample.argmin())])


class _Mapper(LocalSearch):
    """The main searcher on one accelerator: no effort goes to others."""

    def __init__(self, setup: SearchSetup, point: tuple[float, float, float], budget: int) -> None:
        super().__init__(setup)
        self.budget = budget
        self.point = np.array(point)
        self.focuses = self.focuses[:1]
        self.selector.focuses = self.focuses
        self.elites = self.elites[:1]

    def _seed(self) -> None:
        super()._seed()
        n = len(self.setup.tasks)
        self._construct(np.tile(np.arange(n), _BUILT), np.tile(self.point, (_BUILT * n, 1)))

    def _batch_size(self) -> int:
        return max(1, min(_BATCH * len(self.setup.tasks), self.budget - self.spent))

    def _bases(self, focus: int, task: NDArray[np.int64]) -> tuple[Genomes, Floats]:
        base, _ = super()._bases(focus, task)
        return base, np.tile(self.point, (len(task), 1))

    def begin_with(self, rows: Genomes) -> None:
        """Evaluate mappings (n, 25) of other accelerators, as they are and made tilings for this one, where they fit."""
        n = len(rows)
        task = np.arange(n)
        dim = np.full(n, int(self.point[0]))
        bounds = self.archive.problems.bounds
        able = np.flatnonzero(self.archive.model.can(task, dim))
        shaped = in_macro_form(rows[able], bounds[able], dim[able])
        task, rows = np.concatenate([task, able]), np.concatenate([rows, shaped])
        acc, sp = self.archive.load(task, rows, np.tile(self.point, (len(rows), 1)))
        fits = (acc <= 1) & (sp <= 1) & self.archive.fresh(task, rows)
        self._evaluate(task[fits], rows[fits])
        self._rescan()

    def chosen(self) -> Genomes:
        """The mappings of the best design, (n, 25)."""
        leader = self.elites[0][0]
        return np.stack([of[k] for of, k in zip(self.archive.genomes, leader.choice, strict=True)])


@dataclass
class _Known:
    """What a place was worth when it was last looked at: logarithm of the objective, and its mappings."""

    value: float
    rows: Genomes


class HardwareSearch:
    """See the module's description. Searches of a bench are not saved, so that it has no snapshots.

    Args:
        setup: of a space with settings.
        optimiser: as in `PEERS`.
        mappings: evaluations a task on each accelerator.

    Raises InputError where what the optimisers need is not installed.
    """

    def __init__(
        self,
        setup: SearchSetup,
        optimiser: Callable[[Place, Place, int], Optimiser],
        mappings: int = MAPPINGS,
    ) -> None:
        if any(importlib.util.find_spec(module) is None for module in ("cmaes", "sklearn")):
            raise InputError(
                "peers of the main searcher need cmaes and scikit-learn",
                hint="install them: pip install 'baco[bench]'",
            )
        self.setup, self.mappings = setup, mappings
        space = setup.space
        self._values = [np.array(v) for v in (space.dim, space.accumulator_kib, space.scratchpad_kib)]
        sizes = [len(v) for v in self._values] + [len(v) for _, v in space.settings]
        middle = [len(v) // 2 for v in self._values]
        #: The settings with which the main searcher begins, and middling sizes.
        first = (*middle, *space.chosen)
        self.optimiser = optimiser(tuple(sizes), first, setup.seed)
        self._setups: dict[Choice, SearchSetup] = {}
        self._known: dict[tuple[Choice, tuple[float, ...]], _Known] = {}
        self.lead: _Known | None = None
        self.spent, self.batches, self.best = 0, 0, math.inf

    def _at(self, choice: Choice) -> SearchSetup:
        if choice not in self._setups:
            if len(self._setups) >= _MOST_KNOWN:
                self._setups.pop(next(iter(self._setups)))
            space = self.setup.space.at(choice)
            self._setups[choice] = replace(self.setup, space=space, model=self.setup.cost_model.at(space))
        return self._setups[choice]

    def _nearest(self, space: DesignSpace, wanted: Floats) -> tuple[float, float, float] | None:
        """The allowed accelerator nearest to sizes (3,), by ratio; None if the settings leave none."""
        points = space.hardware()
        points = points.take(points.units == space.units[0])
        table = np.stack([points.dim, points.accumulator_kib, points.scratchpad_kib], 1).astype(np.float64)
        if not len(table):
            return None
        distance = (np.log2(table / wanted) ** 2).sum(1)
        dim, acc, sp = table[int(distance.argmin())].tolist()
        return dim, acc, sp

    def step(self) -> BatchResult:
        """One accelerator."""
        place = self.optimiser.ask()
        choice = place[3:]
        setup = self._at(choice)
        wanted = np.array([v[i] for v, i in zip(self._values, place[:3], strict=True)], dtype=np.float64)
        point = self._nearest(setup.space, wanted)
        budget = self.mappings * len(setup.tasks)
        if self.setup.evaluations is not None:
            budget = min(budget, self.setup.evaluations - self.spent)
        found = []
        value = math.inf
        if point is not None:
            key = (choice, point)
            dim, acc, sp = (int(v) for v in point)
            one = replace(setup.space, dim=(dim,), accumulator_kib=(acc,), scratchpad_kib=(sp,))
            seed = self.setup.seed * 1_000_003 + self.batches
            mapper = _Mapper(replace(setup, space=one, evaluations=None, seed=seed), point, budget)
            begin = self._known.get(key, self.lead)
            while mapper.spent < budget:
                result = mapper.step()
                found += [c for c in result.candidates if c.objective < self.best]
                self.best = min([self.best, *(c.objective for c in result.candidates)])
                if begin is not None and mapper.batches == 1:
                    mapper.begin_with(begin.rows)
            self.spent += mapper.spent
            if mapper.elites[0] and mapper.elites[0][0].violation == 0:
                clock = setup.space.clock_mhz
                value = mapper.elites[0][0].value + (math.log(1e3 / clock) if clock else 0.0)
                self._keep(key, value, mapper.chosen())
                value = self._known[key].value
        else:
            self.spent += len(self.setup.tasks)  # an accelerator that cannot be is no free look
        self.optimiser.tell(value if math.isfinite(value) else self._bad())
        self.batches += 1
        done = self.setup.evaluations is not None and self.spent >= self.setup.evaluations
        return BatchResult(found, self.spent, "accelerators", done, {})

    def _keep(self, key: tuple[Choice, tuple[float, ...]], value: float, rows: Genomes) -> None:
        if key not in self._known or value < self._known[key].value:
            self._known[key] = _Known(value, rows)
        if self.lead is None or value < self.lead.value:
            self.lead = _Known(value, rows)

    def _bad(self) -> float:
        """What is told of accelerators that cannot be: a little worse than the worst."""
        return max((one.value for one in self._known.values()), default=50.0) + 1.0


#: Optimisers by name, made for the numbers of values, the place to begin at, and a seed.
PEERS: dict[str, Callable[[Place, Place, int], Optimiser]] = {"cma-es": CmaEs, "turbo": TrustRegion}
