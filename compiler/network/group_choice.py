"""Whether operators run as one group: predicted cycles against those of the operators one by one."""

from __future__ import annotations

from accel.config import Accelerator
from common.errors import InfeasibleError
from compiler.latency import predict_layers
from compiler.network.groups import Group, GroupCode, GroupSchedule, GroupScheduler, group_layers
from compiler.network.lowered import Scheduler
from compiler.network.prediction import group_cost, row_cost
from compiler.network.row_code import RowCode
from compiler.styles.fused.predict import choose_chain
from compiler.styles.fused.predict_strips import choose_strips
from compiler.styles.fused.strips import ConvolutionChain

__all__ = ["group_schedule", "group_scheduler"]


def group_schedule(group: Group, accelerator: Accelerator) -> GroupSchedule:
    """The best schedule of a group. Raises InfeasibleError where none fits."""
    if isinstance(group, ConvolutionChain):
        return choose_strips(group, accelerator)
    return choose_chain(group, accelerator)


def group_scheduler(accelerator: Accelerator, schedule: Scheduler) -> GroupScheduler:
    """Chooses one unit where that is predicted to take fewer cycles than the operators with their own schedules."""
    known: dict[tuple[Group, RowCode | None], tuple[GroupSchedule, float] | None] = {}
    alone: dict[object, float] = {}

    def cycles_alone(group: Group) -> float:
        layers = group_layers(group)
        new = [one for one in layers if one not in alone]
        found = predict_layers(new, [schedule(one)[0] for one in new], accelerator) if new else []
        alone.update((one, prediction.cycles.item()) for one, prediction in zip(new, found, strict=True))
        return sum(alone[one] for one in layers)

    def chosen(
        names: tuple[str, ...], group: Group, between: RowCode | None
    ) -> tuple[GroupSchedule, float] | None:
        key = (group, between)
        if key not in known:
            known[key] = rated(group, between)
        return known[key]

    def rated(group: Group, between: RowCode | None) -> tuple[GroupSchedule, float] | None:
        try:
            found = group_schedule(group, accelerator)
        except InfeasibleError:
            return None
        cycles = group_cost(GroupCode(group, found), accelerator).cycles
        try:
            saved = cycles_alone(group) - cycles
        except InfeasibleError:  # the host would compute one of the layers, which takes longer in any case
            saved = cycles
        if between is not None:
            saved += row_cost(between, accelerator).cycles
        return (found, saved) if saved > 0 else None

    return chosen
