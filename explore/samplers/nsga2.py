"""Genetic search over hardware and mappings (Optuna's NSGA-II)."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import NSGAIISampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from baco.common.portable import Floats
from baco.exploration.cost.genome import Genomes
from baco.exploration.samplers.sampler import Answer, Asked, Sampler, SamplerProblem

#: Design points in a generation.
POPULATION = 50
#: Values of a gene of a mapping; see `ExactMappings.decode`.
_GENE = 2**31 - 1
_HARDWARE = ("dim", "accumulator_kib", "scratchpad_kib")
_GENERATION = "generation"


class _Generations(NSGAIISampler):
    """NSGA-II on a study of two generations at most, which trials carry as an attribute: then a search can go
    on from the last generation and its parents, and a trial costs the same however many came before."""

    present = 0

    def get_trial_generation(self, study: optuna.Study, trial: FrozenTrial) -> int:
        return self.present

    def get_population(self, study: optuna.Study, generation: int) -> list[FrozenTrial]:
        trials = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        return [trial for trial in trials if trial.user_attrs[_GENERATION] == generation]


class GeneticSampler(Sampler):
    """An individual is a design point: logarithms of array side and capacities, and two genes for the mapping of
    every task, which is made to fit that accelerator; the design is then the least accelerator that holds all.

    Several metrics are several objectives; a constraint that is broken is a penalty.
    """

    phase = "genetic search"

    def __init__(self, problem: SamplerProblem) -> None:
        super().__init__(problem)
        #: Numbers of an individual before its genes.
        self._plain = len(_HARDWARE) + problem.settings
        genes = 2 * len(problem.tasks)
        width = self._plain + genes
        metrics = len(problem.objective.metrics)
        #: Parents of the last generation, and that generation: parameters and values of each individual.
        self.parents, self.children = np.zeros((2, 0, width))
        self.parent_values, self.child_values = np.zeros((2, 0, metrics))
        limits = zip(problem.hardware.low, problem.hardware.high, strict=True)
        distributions: list[BaseDistribution] = [FloatDistribution(float(a), float(b)) for a, b in limits]
        distributions += [FloatDistribution(0.0, 1.0)] * problem.settings
        # One object for all genes: Optuna copies distributions with every trial, this one only once.
        distributions += [IntDistribution(0, _GENE)] * genes
        self._names = [f"x{i:04d}" for i in range(width)]
        self._distributions = dict(zip(self._names, distributions, strict=True))

    def ask(self, rng: np.random.Generator) -> Asked:
        """The next generation."""
        problem, size = self.problem, self.problem.affordable(POPULATION)
        self.children = self._next(size, int(rng.integers(0, 2**31)))
        self.child_values = np.zeros((size, self.child_values.shape[1]))
        places = self.children[:, len(_HARDWARE) : self._plain] if problem.settings else None
        parts = np.split(self.children, size) if problem.settings else [self.children]
        return Asked(np.concatenate([self._decoded(part) for part in parts]), settings=places)

    def tell(self, asked: Asked, answer: Answer) -> None:
        """What the generation is worth."""
        self.child_values = answer.scores

    def _decoded(self, individuals: Floats) -> Genomes:
        """Mappings that individuals with the same settings stand for."""
        problem, size, n = self.problem, len(individuals), len(self.problem.tasks)
        problem.enter(individuals[0, len(_HARDWARE) : self._plain])
        limit = np.repeat(problem.hardware.nearest(individuals[:, : len(_HARDWARE)]), n, axis=0)
        task = np.tile(np.arange(n), size)
        genomes, _ = problem.mappings.decode(
            task,
            individuals[:, self._plain :].astype(np.int64).reshape(size * n, 2),
            limit[:, 0].astype(np.int64),
            lambda index, rows: problem.evaluator.fits(task[index], rows, limit[index]),
        )
        return genomes.reshape(size, n, 1, -1)

    def _next(self, size: int, seed: int) -> Floats:
        """Parameters of the next generation, (size, width); its parents become `parents`."""
        # Made afresh, so that nothing but the two generations needs to be saved.
        sampler = _Generations(population_size=POPULATION, seed=seed)
        sampler.present = 2 if len(self.parents) else 1 if len(self.children) else 0
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            study = optuna.create_study(directions=["minimize"] * self.child_values.shape[1], sampler=sampler)
            old = [
                (0, self.parents, self.parent_values),
                (sampler.present - 1, self.children, self.child_values),
            ]
            for generation, rows, values in old:
                study.add_trials(
                    [self._trial(generation, row, v) for row, v in zip(rows, values, strict=True)]
                )
            for _ in range(size):
                study.ask(self._distributions)
            trials = study.get_trials(deepcopy=False, states=[TrialState.RUNNING])
            parents = sampler.get_parent_population(study, sampler.present)
        finally:
            optuna.logging.set_verbosity(verbosity)
        self.parents = np.array([self._row(trial) for trial in parents]).reshape(-1, len(self._names))
        self.parent_values = np.array([t.values for t in parents]).reshape(-1, self.child_values.shape[1])
        return np.array([self._row(trial) for trial in trials])

    def _trial(self, generation: int, row: Floats, values: Floats) -> FrozenTrial:
        h = self._plain
        params = dict(zip(self._names, [*row[:h].tolist(), *map(int, row[h:])], strict=True))
        return create_trial(
            params=params,
            distributions=self._distributions,
            values=values.tolist(),
            user_attrs={_GENERATION: generation},
        )

    def _row(self, trial: FrozenTrial) -> list[float]:
        params = trial.params
        return [params[name] for name in self._names]
