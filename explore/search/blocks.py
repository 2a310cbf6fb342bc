"""Block sizes of a kernel and the hardware that it runs on, searched together.

A design is a point of the space and one of the kernel's choices of block sizes. What the compiler makes of it, tiles of whole
blocks (`baco.compiler.choice`), is predicted by the same model as any mapping, and is what the study keeps. Attention runs as one
unit, which is part of its program's rest with the best block sizes on every accelerator (`baco.exploration.search.kernel_units`): a design
is a point alone. Designs are drawn at
random first; then the best one's neighbours are looked at, a step in one capacity or in the array's side, or other blocks,
until none is better; and both again, from the next best designs.
"""

from __future__ import annotations

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.common.portable import Ints
from baco.compiler.choice.choose import choose
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.styles.macros.loop_ws_style import flat_layer
from baco.compiler.styles.registry import mapping_of
from baco.exploration.candidate import Candidate, Cost, broken_bounds
from baco.exploration.search.searcher import BatchResult, SearchSetup, State

#: Designs of one batch, and batches drawn at random before neighbours are looked at.
_AT_ONCE, _RANDOM = 24, 4
#: The search ends where so many of the best designs have no better neighbour that was not looked at.
_SETTLED = 3


class BlockSearch:
    """See the module's description. Raises InputError for a set-up with several tasks or another cost model.

    Attributes:
        seen: (n, 2) points and blocks that were looked at, and `scores` (n,): their objective, infinite where infeasible.
    """

    def __init__(self, setup: SearchSetup) -> None:
        self.setup, self.model = setup, setup.cost_model
        rest = self.model.rest
        self._unit = rest is not None and bool(rest.fused.points)
        if len(setup.tasks) != 1 and not self._unit:
            raise InputError(f"a kernel is explored by itself, not {len(setup.tasks)} operators together")
        self.choices = 1 if self._unit else len(setup.blocks)
        layers = getattr(self.model, "layers", ())
        if not layers:
            raise InputError(
                "kernels are predicted by the instruction-aware model", hint="leave --cost-model out"
            )
        self.layers: tuple[Layer, ...] = tuple(layers)
        self.points = setup.space.hardware()
        self.axes = [
            np.unique(one)
            for one in (self.points.dim, self.points.scratchpad_kib, self.points.accumulator_kib)
        ]
        self._places = {
            (int(d), int(s), int(a), bool(u)): n
            for n, (d, s, a, u) in enumerate(
                zip(
                    self.points.dim,
                    self.points.scratchpad_kib,
                    self.points.accumulator_kib,
                    self.points.units,
                    strict=True,
                )
            )
        }
        self.seen: Ints = np.zeros((0, 2), np.int64)
        self.scores = np.zeros(0)
        self.batches = 0

    def step(self) -> BatchResult:
        """One batch, see `Searcher`."""
        rng = np.random.default_rng([self.setup.seed, self.batches])
        left = _AT_ONCE
        if self.setup.evaluations is not None:
            left = min(left, self.setup.evaluations - len(self.seen))
        known = {(int(p), int(b)) for p, b in self.seen}
        random = self.batches < _RANDOM or not np.isfinite(self.scores).any()
        asked = [] if random else self._neighbours(known)
        settled = not random and not asked
        if not settled:
            everything = len(self.points) * self.choices
            # what is left beside neighbours is drawn at random
            for _ in range(4 * left):
                if len(asked) >= left or len(known) + len(asked) >= everything:
                    break
                one = (int(rng.integers(len(self.points))), int(rng.integers(self.choices)))
                if one not in known and one not in asked:
                    asked.append(one)
        found = self._evaluate(asked[:left])
        self.batches += 1
        spent = len(self.seen)
        budget = self.setup.evaluations is not None and spent >= self.setup.evaluations
        done = settled or budget or spent >= len(self.points) * self.choices
        phase = "random designs" if random else "neighbours"
        return BatchResult(found, spent, phase, done, {"designs": float(spent)})

    def state(self) -> State:
        """Snapshot, see `Searcher`."""
        return {
            "blocks.seen": self.seen.copy(),
            "blocks.scores": self.scores.copy(),
            "blocks.batches": np.array([self.batches]),
        }

    def restore(self, state: State) -> None:
        """Undo `state`."""
        self.seen, self.scores = state["blocks.seen"].copy(), state["blocks.scores"].copy()
        self.batches = int(state["blocks.batches"][0])

    def _neighbours(self, known: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Designs a step from the best ones that were not looked at, those of the best first."""
        best = np.argsort(self.scores, kind="stable")[:_SETTLED]
        found: list[tuple[int, int]] = []
        for place, blocks in self.seen[best[np.isfinite(self.scores[best])]]:
            at = [
                int(self.points.dim[place]),
                int(self.points.scratchpad_kib[place]),
                int(self.points.accumulator_kib[place]),
            ]
            units = bool(self.points.units[place])
            near = [(int(place), other) for other in range(self.choices)]
            for axis, values in enumerate(self.axes):
                for number in np.searchsorted(values, at[axis]) + np.array([-2, -1, 1, 2]):
                    if 0 <= number < len(values):
                        moved = [*at[:axis], int(values[number]), *at[axis + 1 :]]
                        other = self._places.get((moved[0], moved[1], moved[2], units))
                        if other is not None:
                            near.append((other, int(blocks)))
            found += [one for one in near if one not in known and one not in found]
        return found

    def _evaluate(self, asked: list[tuple[int, int]]) -> list[Candidate]:
        """Predict designs, and remember them; the feasible ones."""
        space, objective = self.setup.space, self.setup.objective
        designs: list[tuple[int, Accelerator, tuple[Mapping, ...]]] = []
        for index, (place, blocks) in enumerate(asked):
            machine = space.accelerator(
                int(self.points.dim[place]),
                int(self.points.accumulator_kib[place]),
                int(self.points.scratchpad_kib[place]),
                bool(self.points.units[place]),
            )
            mappings = self._mappings(machine, blocks)
            if mappings:
                designs.append((index, machine, mappings))
        scores = np.full(len(asked), np.inf)
        found: list[Candidate] = []
        costs = (
            self.model.design_costs([(mappings, machine) for _, machine, mappings in designs])
            if designs
            else []
        )
        tasks, rest = self.setup.tasks, self.model.rest
        for (index, machine, mappings), parts in zip(designs, costs, strict=True):
            cycles, pj = rest.whole(machine) if rest else (0.0, 0.0)
            counts = rest.counts(tasks, machine) if rest else [task.count for task in tasks]
            for count, part in zip(counts, parts, strict=True):
                if count:
                    cycles, pj = cycles + count * part.latency_cycles, pj + count * part.energy_pj
            cost = Cost(cycles, pj, machine.area_mm2, clock_mhz=space.clock_mhz)
            runs = [(part.latency_cycles, part.energy_pj) for part in parts]
            if not np.isfinite(cycles) or broken_bounds(space.constraints, cost, tasks, runs, machine, rest):
                continue
            scores[index] = objective.scalar(cost)
            samples = len(self.seen) + index + 1
            found.append(Candidate(machine, tasks, mappings, cost, samples, scores[index]))
        self.seen = np.concatenate([self.seen, np.array(asked, np.int64).reshape(-1, 2)])
        self.scores = np.concatenate([self.scores, scores])
        return found

    def _mappings(self, machine: Accelerator, blocks: int) -> tuple[Mapping, ...]:
        """The mappings that the compiler makes of blocks; none where no tile of whole blocks fits."""
        if not self._unit:
            return self._mapping(self.layers[0], machine, self.setup.blocks[blocks])
        rest, (task, *_) = self.model.rest, self.setup.tasks
        sizes = machine.dim, machine.accumulator_kib, machine.scratchpad_kib
        assert rest is not None
        if rest.fused.at(task.network, (*sizes, machine.features.row_functions)) is None:
            return ()
        alone = [self._mapping(layer, machine, None) for layer in self.layers]
        return tuple(one for found in alone for one in found) if all(alone) else ()

    @staticmethod
    def _mapping(
        layer: Layer, machine: Accelerator, blocks: tuple[int, int, int] | None
    ) -> tuple[Mapping, ...]:
        for style in ("macro", "explicit"):
            try:
                schedule = choose(layer, machine, style=style, blocks=blocks)  # type: ignore[arg-type]
                return (mapping_of(flat_layer(layer), schedule, machine),)
            except InfeasibleError:
                continue
        return ()
