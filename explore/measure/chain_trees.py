"""A chain of operators on an accelerator: every tile tree that there is code for, by the cycles that its program is predicted to take;
compiled and measured.

Trees are few enough to look at all (`baco.compiler.styles.fused.trees`). Cycles are those that a program's steps are predicted to
take (`baco.compiler.network.prediction`), of operators one by one as well as of a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from baco.accel.config import Accelerator
from baco.common.errors import BacoError, InfeasibleError
from baco.compiler.latency import predict_layers
from baco.compiler.mapping.text import format_tree
from baco.compiler.mapping.tree import Tile
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.chain_network import chain_network
from baco.compiler.network.group_choice import group_options, group_schedule
from baco.compiler.network.groups import Group, GroupSchedule
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.network.row_code import RowCode
from baco.compiler.ops.rows import Softmax
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain
from baco.compiler.styles.fused.merged import MergedProducts
from baco.compiler.styles.fused.predict import ALIKE
from baco.compiler.styles.fused.strips import StripSchedule
from baco.compiler.styles.fused.trees import Chain, schedule_of_tree, tree_of_schedule
from baco.sim.network.run import run_network

#: What the program is called whose operators run one by one.
ONE_BY_ONE = "one by one"


@dataclass(frozen=True)
class ChainProgram:
    """A chain of operators as a program.

    Attributes:
        name: of the structure.
        tree: whose sizes take fewest cycles; None for operators one by one.
        schedule: of the unit.
        schedules: of all that runs on the accelerator, in words.
        cycles, dram_bytes: predicted; bytes that the accelerator moves through main memory, of operators one by one with unused parts
            of bursts.
    """

    name: str
    tree: Tile | None
    schedule: GroupSchedule | None
    schedules: tuple[str, ...]
    cycles: float
    dram_bytes: float


@dataclass(frozen=True)
class MeasuredChain:
    """What a program took on the RTL, every result that of integers."""

    cycles: int
    dram_bytes: int


class ChainTrees:
    """The programs that a chain of operators may be on an accelerator, with random numbers in it.

    Args:
        chain: as `baco.compiler.network.chain_network` reads it.
        seed: of weights and inputs.

    Attributes:
        reason: why the chain cannot be one unit, in words; empty if it can.

    Raises InputError for what is no chain, InfeasibleError for operators without code.
    """

    def __init__(self, chain: str, accelerator: Accelerator, seed: int = 0) -> None:
        self.chain, self.accelerator, self.reason = chain, accelerator, ""
        network = chain_network(chain)
        self._quantised = quantise(network, seed=seed)
        self._data = quantise_inputs(self._quantised, random_inputs(network, seed + 1))
        self._scheduler = scheduler(accelerator)
        self._group: Group | None = None
        self._alone = self._lower(self._noted)

    def programs(self) -> list[ChainProgram]:
        """One by one; then of each structure of trees the one whose sizes are best."""
        found = [self._program(ONE_BY_ONE, None, None, self._alone)]
        chain = self._unit
        if chain is None:
            return found
        best: dict[str, list[tuple[float, float, GroupSchedule]]] = {}
        for schedule, _, _, cost in group_options(chain, self.accelerator):
            best.setdefault(_structure(chain, schedule), []).append((cost.cycles, cost.dram_bytes, schedule))
        for rated in best.values():
            n = preferred([(cycles, moved) for cycles, moved, _ in rated])
            schedule = rated[n][2]
            assert isinstance(schedule, ChainSchedule | StripSchedule)
            program = self.program_of(tree_of_schedule(chain, schedule, self.accelerator))
            # weights of a single block stay, whatever is asked for
            if all((one.cycles, one.dram_bytes) != (program.cycles, program.dram_bytes) for one in found):
                found.append(program)
        return found

    def program_of(self, tree: Tile) -> ChainProgram:
        """The program that a tree is. Raises InputError for a tree without code, InfeasibleError for one that does not fit."""
        chain = self._unit
        if chain is None:
            raise InfeasibleError(f"{self.chain} is no unit on {self.accelerator.name}: {self.reason}")
        schedule = schedule_of_tree(chain, tree, self.accelerator)
        return self._program(_structure(chain, schedule), tree, schedule, self._lower(_always(schedule)))

    def measure(self, program: ChainProgram, engine: str = "rtl") -> MeasuredChain:
        """Compile a program and run it. Raises BacoError for a result that is not what numpy's integers give, and what compiling and
        simulating raise."""
        built = compile_network(
            self._quantised,
            self.accelerator,
            schedule=self._scheduler,
            groups=None if program.schedule is None else _always(program.schedule),
            data=self._data,
            check=False,
        )
        run = run_network(built, self._values, engine)
        if run.wrong:
            raise BacoError(f"{self.chain} on {self.accelerator.name}, {program.name}: {run.wrong[0]}")
        activity = run.result.activity
        moved = activity["dram_read_bytes"] + activity["dram_write_bytes"]
        return MeasuredChain(int(run.result.cycles or 0), int(moved))

    @cached_property
    def _values(self) -> Any:
        return reference(self._quantised, self._data)

    @cached_property
    def _unit(self) -> Chain | None:
        """The chain as one unit, if there is code for any of its schedules."""
        if self._group is None or isinstance(self._group, MergedProducts):
            rows = any(isinstance(one, Softmax) for one in self._quantised.operators)
            host = rows and not self.accelerator.features.row_functions
            self.reason = (
                f"{self.accelerator.name} has no units for functions of rows"
                if host
                else "there is no code for its operators as one unit"
            )
            return None
        try:
            group_schedule(self._group, self.accelerator)
        except InfeasibleError as error:
            self.reason = error.message
            return None
        return self._group

    def _noted(self, names: tuple[str, ...], group: Group, _: RowCode | None) -> None:
        """Keeps what all operators are as one unit, and takes none."""
        if len(names) == len(self._quantised.operators):
            self._group = group

    def _lower(self, groups: Callable[..., Any]) -> LoweredNetwork:
        return lower_network(self._quantised, self.accelerator, self._scheduler, groups)

    def _program(
        self, name: str, tree: Tile | None, schedule: GroupSchedule | None, lowered: LoweredNetwork
    ) -> ChainProgram:
        steps = predict_steps(lowered, self.accelerator)
        codes = lowered.layers
        costs = predict_layers(
            [code.layer for code in codes.values()],
            [code.schedule for code in codes.values()],
            self.accelerator,
        )
        moved = {name: cost.bytes.item() for name, cost in zip(codes, costs, strict=True)}
        return ChainProgram(
            name,
            tree,
            schedule,
            (
                *(str(code.schedule) for code in codes.values()),
                *(str(unit.schedule) for unit in lowered.groups.values()),
            ),
            sum(cost.cycles for cost in steps),
            sum(
                moved.get(step.function, cost.dram_bytes)
                for step, cost in zip(lowered.steps, steps, strict=True)
            ),
        )


def _always(schedule: GroupSchedule) -> Callable[..., Any]:
    """A `baco.compiler.network.groups.GroupScheduler` that makes one unit of most operators, by this schedule."""
    return lambda names, *_: (schedule, float(len(names)))


def _structure(chain: Chain, schedule: GroupSchedule) -> str:
    """What trees that differ in sizes alone have in common."""
    if isinstance(schedule, ChainSchedule):
        if isinstance(chain, ProductChain) and schedule.staged(chain):
            return "one unit, scores in tiles"
        return f"one unit, right operands of a {schedule.weights}"
    assert isinstance(schedule, StripSchedule)
    again = " and ".join(str(n + 1) for n in schedule.streamed)
    return f"one unit, weights of {again} with every strip" if again else "one unit, weights that stay"


def preferred(costs: Sequence[tuple[float, float]]) -> int:
    """Of (cycles, bytes), which is taken: of those of about the fewest cycles the one of the fewest bytes."""
    fastest = min(cycles for cycles, _ in costs)
    alike = [n for n, (cycles, _) in enumerate(costs) if cycles <= ALIKE * fastest]
    return min(alike, key=lambda n: (costs[n][1], costs[n][0]))


def chain_rows(
    trees: ChainTrees,
    tree: Tile | None = None,
    *,
    measure: bool = False,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row a program: its structure, tree and schedules, predicted cycles and bytes of main memory, whether it is the best, and what
    that one takes on the RTL; numbers are None where nothing was measured.

    Args:
        tree: to look at beside one by one, instead of all.
        measure: the best one, or the given tree.
    """
    programs = [*trees.programs()[:1], trees.program_of(tree)] if tree is not None else trees.programs()
    best = (
        len(programs) - 1
        if tree is not None
        else preferred([(program.cycles, program.dram_bytes) for program in programs])
    )
    rows = []
    for n, program in enumerate(programs):
        measured = None
        if measure and n == best:
            watch(f"{program.name}: compiled, runs on the RTL of {trees.accelerator.name}")
            measured = trees.measure(program)
        rows.append(
            {
                "program": program.name,
                "best": n == best,
                "tree": None if program.tree is None else format_tree(program.tree),
                "schedules": list(program.schedules),
                "cycles": program.cycles,
                "dram_bytes": program.dram_bytes,
                "measured_cycles": measured and measured.cycles,
                "measured_dram_bytes": measured and measured.dram_bytes,
                "error": measured and program.cycles / measured.cycles - 1,
            }
        )
    return rows
