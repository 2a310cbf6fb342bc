"""What a kernel that is attention costs on every accelerator of a space: as one unit, with the best of its block sizes.

Such a unit replaces both products and the softmax of the network that stands for the kernel, and costs the same whatever
mappings its products would have by themselves: it is part of the rest of programs (`baco.exploration.fused`), as groups of other
networks' operators are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.groups import GroupCode
from baco.compiler.network.prediction import group_cost
from baco.compiler.network.steps import StepCost
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, chain_rows
from baco.compiler.styles.fused.predict import UnitCost, chain_schedules, predict_chain, preferred
from baco.compiler.styles.fused.row_unit import table_rows
from baco.exploration.cost.program_rest import lowered_with_groups, sketches
from baco.exploration.fused import FusedPrograms, Fusion, Point
from baco.exploration.operators import OperatorCost
from baco.exploration.rest import RestOfPrograms
from baco.exploration.search.groups import largest_of_side
from baco.exploration.space import DesignSpace
from baco.workloads.network import Workload


@dataclass(frozen=True)
class _Option:
    """A schedule, the rows of scratchpad and accumulator that it needs, and its cost on any accelerator of the side."""

    schedule: ChainSchedule
    needs: tuple[int, int]
    cost: UnitCost


def with_unit(
    rest: RestOfPrograms, workload: Workload, space: DesignSpace, blocks: Sequence[tuple[int, int, int]]
) -> RestOfPrograms:
    """The rest of programs of a kernel's network, whose operators run as one unit wherever strips of whole blocks fit.

    Args:
        blocks: as of `baco.exploration.search.searcher.SearchSetup`; of one of them strips are made.
    """
    (network,) = workload.networks
    ((_, part),) = sketches(network)
    points = space.hardware()
    fusions: dict[Fusion, int] = {}
    placed: dict[Point, tuple[int, ...]] = {}
    for side in np.unique(points.dim).tolist():
        machine = largest_of_side(space, points.dim == side, True)
        _, groups = lowered_with_groups(part, machine)
        found = [(names, group) for names, group in groups.items() if isinstance(group, ProductChain)]
        if len(found) != 1:
            raise InputError(f"the operators of {network.name} are no unit on {machine.name}")
        ((names, chain),) = found
        options = _options(chain, machine, sorted({block[0] for block in blocks}))
        costs: dict[ChainSchedule, StepCost] = {}
        for at in np.flatnonzero(points.dim == side).tolist():
            accumulator, scratchpad = int(points.accumulator_kib[at]), int(points.scratchpad_kib[at])
            accelerator = space.accelerator(side, accumulator, scratchpad, True)
            there = accelerator.scratchpad_rows, accelerator.accumulator_rows
            fitting = [
                option for option in options if option.needs[0] <= there[0] and option.needs[1] <= there[1]
            ]
            if not fitting:
                continue
            schedule = fitting[preferred([option.cost for option in fitting])].schedule
            if schedule not in costs:
                costs[schedule] = group_cost(GroupCode(chain, schedule), machine)
            beside = rest.operators_of(network.name, accelerator)
            fusion = Fusion(
                (OperatorCost(" > ".join(names), "group", True, 1.0, costs[schedule]),),
                tuple(other for other in beside if other.operator in names),
                tuple(task.count for task in workload.tasks),
            )
            place = fusions.setdefault(fusion, len(fusions))
            placed[side, accumulator, scratchpad, accelerator.features.row_functions] = (place,)
    if not placed:
        return rest
    return replace(
        rest, fused=FusedPrograms({network.name: len(workload.tasks)}, {network.name: tuple(fusions)}, placed)
    )


def _options(chain: ProductChain, machine: Accelerator, blocks: Sequence[int]) -> list[_Option]:
    """All schedules in strips of whole blocks that fit the accelerator, whose memories are the largest of its side."""
    found = []
    for schedule in dict.fromkeys(one for rows in blocks for one in chain_schedules(chain, machine, rows)):
        try:
            cost = predict_chain(chain, schedule, machine)
        except InfeasibleError:
            continue
        scratchpad, accumulator = chain_rows(chain, schedule, machine)
        found.append(_Option(schedule, (scratchpad, max(accumulator, table_rows(machine))), cost))
    return found
