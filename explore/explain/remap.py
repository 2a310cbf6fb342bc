"""What an accelerator costs with layers mapped for it anew, from what a search knows.

The mappings that a search has left behind are evaluated on the accelerator, and with them a few plain ones; the best combination is
where the search's own finish begins (`baco.exploration.search.tiling_finish`: the compiler's macro schedules and the descent of
their tilings; `finish`: exact solutions, with the reference model). That is less than a search: an accelerator may have better
mappings than are found here, so that a gain is what there is at least, and a loss at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.errors import InfeasibleError
from baco.common.portable import Bools, Ints
from baco.common.tensors import one_thread
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.network.groups import Group, GroupSchedule
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.exploration.candidate import Candidate, Cost, CostModelName, broken_bounds
from baco.exploration.cost.evaluation import KEPT
from baco.exploration.cost.genome import FLOW, FLOWS, WIDTH, Genomes, from_mapping, macro_side
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.explain.beside import BesideLayers
from baco.exploration.explain.hardware_steps import only
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import Objective
from baco.exploration.rest import RestOfPrograms
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.finish import ExactFinish
from baco.exploration.search.focus import focuses
from baco.exploration.search.searcher import SearchSetup, State
from baco.exploration.search.seeds import plain_mappings
from baco.exploration.search.selector import Elite, Selector
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.workloads.network import Task, Workload

if TYPE_CHECKING:
    from baco.exploration.search.tiling_finish import TilingFinish


#: Mappings of tasks: places of these, and rows.
Pool = tuple[Ints, Genomes]
#: Evaluations that a search's finish is told of, so that it is due.
_LATE = 10**12
#: Layers are polished that take so much of the time of all together.
_MOST_TIME = 0.8
#: Mappings of a task that are taken from one accelerator to others of its sizes.
_MOST = 96


@dataclass(frozen=True)
class Known:
    """What a study knows, for those who map anew.

    Attributes:
        workload: with graphs alone, as a study keeps it.
        layers: of its tasks.
        space: that was searched.
        objective: what was minimised.
        cost_model: what predicted.
        rest: what programs do beside the tasks; None where only these count.
        designs: whose mappings are known.
        state: the search's snapshot; None where there is none.
        blocks: of a kernel, see `SearchSetup`.
        quantiser: how the study's numbers were chosen.
    """

    workload: Workload
    layers: Sequence[Layer]
    space: DesignSpace
    objective: Objective
    cost_model: CostModelName
    rest: RestOfPrograms | None
    designs: Sequence[Candidate]
    state: State | None = None
    blocks: tuple[tuple[int, int, int], ...] = ()
    quantiser: Quantiser = DEFAULT

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Of the workload."""
        return self.designs[0].tasks


@dataclass(frozen=True)
class Remapped:
    """An accelerator with mappings that were chosen for it.

    Attributes:
        accelerator: the hardware.
        mappings: one a task.
        cost: predicted, of the workload.
        rest: what its programs do beside the tasks; None where only these count.
        broken: constraints of the space that it breaks, by path: value reached, and bound.
    """

    accelerator: Accelerator
    mappings: tuple[Mapping, ...]
    cost: Cost
    rest: RestOfPrograms | None
    broken: dict[str, tuple[float, float]]


class Reference(NamedTuple):
    """What mapping anew on the best accelerator leaves for others of its sizes.

    Attributes:
        pool: mappings that are worth a look there: those that no other of the task is better than in energy, cycles and words of main
            memory at once.
        leading: of every group of operators the schedules that lead; None where groups were not decided on anew.
    """

    pool: Pool
    leading: dict[Group, set[GroupSchedule]] | None


class Remapper:
    """Maps the tasks of a study anew on accelerators, one by one; what depends on the study alone is found once.

    Args:
        known: of the study.
    """

    def __init__(self, known: Known) -> None:
        one_thread()
        self.known = known
        self._focus = focuses(known.objective)[0]
        self._flows = [FLOWS.index(flow) for flow in known.space.dataflows]
        self._beside = None
        if known.rest is not None:
            best = known.designs[0].accelerator
            self._beside = BesideLayers(known.workload, known.space, known.rest, best, known.quantiser)

    def remap(self, accelerator: Accelerator) -> Remapped:
        """The best that is found on an accelerator. Raises BacoError with the reason where nothing can be said."""
        return self._remap(accelerator)[0]

    def reference(self) -> tuple[Remapped, Reference]:
        """The same on the accelerator of the first design, and what it leaves for others of its sizes."""
        found, pool = self._remap(self.known.designs[0].accelerator)
        return found, Reference(pool, None if self._beside is None else self._beside.leading)

    def _remap(self, accelerator: Accelerator) -> tuple[Remapped, Pool]:
        if self.known.blocks:
            return self._blocks(accelerator), (np.zeros(0, np.int64), np.zeros((0, WIDTH), np.int64))
        archive = self._archive(accelerator, self._searched)
        self._polish(archive)
        return self._chosen(archive), _pool(archive)

    def near(self, accelerator: Accelerator, reference: Reference) -> Remapped:
        """As `remap`, of what the reference leaves alone; of a kernel, of all its block sizes."""
        if self.known.blocks:
            return self._blocks(accelerator)
        if self._beside is not None:
            self._beside.leading = reference.leading
        return self._chosen(self._archive(accelerator, reference.pool))

    # -- mappings ----------------------------------------------------------------------------------------

    @cached_property
    def _searched(self) -> Pool:
        """All mappings that the search has left behind: its archive, or those of its designs; and those of the first design."""
        tasks, rows = [], []
        state = self.known.state or {}
        found = "archive.rows" in state
        if found:
            sizes = state["archive.sizes"]
            tasks.append(np.repeat(np.arange(len(sizes)), sizes))
            rows.append(state["archive.rows"])
        for design in self.known.designs[: 1 if found else None]:
            for place, mapping in enumerate(design.mappings):
                row = from_mapping(
                    mapping,
                    design.accelerator.dim,
                    self.known.tasks[place].problem.groups,
                    self.known.space.double_buffer,
                )
                if row is not None:
                    tasks.append(np.array([place]))
                    rows.append(row[None, :])
        task, table = np.concatenate(tasks), np.concatenate(rows)
        _, first = np.unique(np.column_stack([task, table]), axis=0, return_index=True)
        keep = np.sort(first)
        return task[keep], table[keep]

    def _archive(self, accelerator: Accelerator, pool: Pool) -> Archive:
        """Those of the mappings that an accelerator holds, and plain ones, evaluated on it; it says what programs do beside them.

        Raises BacoError.
        """
        space = only(self.known.space, accelerator)
        model = make_cost_model(
            self.known.cost_model, self.known.layers, space, self._known_rest(accelerator)
        )
        archive = Archive(self.known.tasks, space, model)
        side = np.array([accelerator.dim])
        macros = archive.model if archive.model.macros else None
        plain = plain_mappings(archive.problems.bounds, side, self._flows, macros)  # type: ignore[arg-type]
        task, rows = (np.concatenate(both) for both in zip(plain, pool, strict=True))
        here = np.isin(macro_side(rows[:, FLOW]), (0, accelerator.dim))
        here &= (rows[:, 1:3] <= accelerator.dim).all(1)
        task, rows = task[here], rows[here]
        if macros is not None:
            rows = macros.styled(task, rows, np.full(len(rows), accelerator.dim))  # type: ignore[attr-defined]
        load = archive.load(task, rows, np.tile(np.array(_sizes(accelerator)), (len(rows), 1)))
        fits: Bools = (load[0] <= 1) & (load[1] <= 1)
        _, first = np.unique(np.column_stack([task, rows])[fits], axis=0, return_index=True)
        keep = np.flatnonzero(fits)[np.sort(first)]
        archive.add(task[keep], rows[keep])
        return archive

    def _known_rest(self, accelerator: Accelerator) -> RestOfPrograms | None:
        """What programs do beside the tasks; groups are not in it where the study has not decided on them."""
        return None if self._beside is None else self._beside.of(accelerator)

    def _elite(self, archive: Archive) -> Elite:
        selector = Selector(archive, self.known.objective, [self._focus])
        found = selector.choose(_sizes(archive.base), False, self._focus)
        if found is None:
            raise InfeasibleError("no mapping of some layer is known that it holds")
        return found

    def _polish(self, archive: Archive) -> None:
        """The search's own finish, for the layers that matter most."""
        elite = replace(self._elite(archive), violation=0.0)
        finish: ExactFinish | TilingFinish = ExactFinish(archive)
        if archive.model.macros:
            from baco.exploration.search.tiling_finish import TilingFinish

            finish = TilingFinish(archive, archive.model, _leading(archive, elite))  # type: ignore[arg-type]
        while finish.due([elite], _LATE, np.inf):
            finish.step(self._focus, np.inf)

    def _chosen(self, archive: Archive) -> Remapped:
        """The best combination, with groups of operators where these are decided on here."""
        if self._beside is not None and archive.model.rest is not None:
            metric = self.known.objective.metrics[0]
            rest = self._beside.with_groups(archive.model.rest, archive, metric)
            archive.model = archive.model.beside(rest)
        elite = self._elite(archive)
        selector = Selector(archive, self.known.objective, [self._focus])
        return self._made(selector.candidate(elite, 0), archive.model)

    # -- kernels -----------------------------------------------------------------------------------------

    def _blocks(self, accelerator: Accelerator) -> Remapped:
        """The best of a kernel's block sizes on an accelerator."""
        known = self.known
        space = replace(only(known.space, accelerator), constraints=Constraints())
        model = make_cost_model(known.cost_model, known.layers, space, self._known_rest(accelerator))
        search = make_searcher(
            "local", SearchSetup(known.tasks, space, known.objective, None, 0, model, known.blocks)
        )
        found: list[Candidate] = []
        while True:
            batch = search.step()
            found += batch.candidates
            if batch.done:
                break
        if not found:
            raise InfeasibleError("no tile of whole blocks fits it")
        return self._made(min(found, key=lambda one: one.objective), model)

    # -- results -----------------------------------------------------------------------------------------

    def _made(self, design: Candidate, model: CostModel) -> Remapped:
        """With the constraints of the whole space that the design breaks."""
        accelerator, constraints = design.accelerator, self.known.space.constraints
        layers = model.layer_costs(design.mappings, accelerator) if constraints.networks else ()
        runs = [(one.latency_cycles, one.energy_pj) for one in layers]
        broken = broken_bounds(constraints, design.cost, design.tasks, runs, accelerator, model.rest)
        return Remapped(accelerator, design.mappings, design.cost, model.rest, broken)


def _leading(archive: Archive, elite: Elite) -> list[int]:
    """The tasks that take most of the cycles of all, those that take the most first."""
    costs = archive.at(elite.point)
    _, cycles = costs.chosen(elite.choice)
    taken = costs.counts * cycles
    shares = taken / max(float(portable.total(taken)), 1.0)
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    return [int(n) for n in order[before < _MOST_TIME]]


def _pool(archive: Archive) -> Pool:
    """See `Reference`."""
    point = archive.point(_sizes(archive.base))
    tasks, rows = [], []
    for task, genomes in enumerate(archive.genomes):
        energy, cycles = (one[0] for one in archive.costs(task, point))
        words = archive.model.words(archive.data[task][KEPT:], point.dim[0])
        table = np.stack([energy, cycles, np.broadcast_to(words, energy.shape)], 1)
        fits = np.flatnonzero(np.isfinite(cycles))
        best = fits[nondominated(table[fits])]
        best = best[thin(table[best], _MOST)]
        tasks.append(np.full(len(best), task))
        rows.append(genomes[best])
    return np.concatenate(tasks), np.concatenate(rows)


def _sizes(accelerator: Accelerator) -> tuple[float, float, float]:
    """In the order of an archive's points."""
    return float(accelerator.dim), float(accelerator.accumulator_kib), float(accelerator.scratchpad_kib)
