"""Whether operators run as one group: predicted cycles against those of the operators one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.addition import AdditionCode
from baco.compiler.network.groups import Group, GroupCode, GroupSchedule, GroupStyle, predict_group
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.prediction import group_cost, unit_cost
from baco.compiler.network.row_code import RowCode
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.nests import nest_of
from baco.compiler.styles.fused.chain import chain_rows
from baco.compiler.styles.fused.merged import MergedProducts, merged_costs, merged_rows
from baco.compiler.styles.fused.predict import chain_schedules
from baco.compiler.styles.fused.predict_strips import strip_schedules, strip_unit_costs
from baco.compiler.styles.fused.row_unit import table_rows
from baco.compiler.styles.fused.strips import ConvolutionChain, strip_memories

#: One unit of products that moves less is taken if it is predicted to take up to so many times the cycles: energy is saved, and of the
#: published chains those that are up to 1.035 take fewer on the RTL than one by one (`results/chains.md`). One of convolutions has to save
#: as much as predictions of its strips are off: of the published chains those that are predicted to save less take more on the RTL.
_EVEN, _SAVING = 1.01, 0.99


def group_schedule(group: Group, accelerator: Accelerator) -> GroupSchedule:
    """The best schedule of a group. Raises InfeasibleError where none fits."""
    return GroupStyle.of(group).choose(group, accelerator)


def group_options(
    group: Group, accelerator: Accelerator, among: Collection[GroupSchedule] | None = None
) -> Iterator[tuple[GroupSchedule, int, int, StepCost]]:
    """Of every schedule of a group that fits: the schedule, rows that it needs of scratchpad and accumulator, and its cost on whatever
    accelerator of the side holds these.

    Args:
        among: schedules to look at; None for all.
    """

    def asked(schedule: GroupSchedule) -> bool:
        return among is None or schedule in among

    if isinstance(group, ConvolutionChain):
        schedules = list(strip_schedules(group))
        # `choose_strips` looks at other beginnings of the best; here any may be
        schedules += [replace(one, begin=one.rows) for one in schedules if one.rows > 1]
        memories = strip_memories(group, [one for one in schedules if asked(one)], accelerator)
        found = strip_unit_costs(group, memories, accelerator)
        needs = memories.least_rows.tolist(), (group.least_copies * memories.sums).tolist()
        for strips, least, sums, unit in zip(memories.schedules, *needs, found, strict=True):
            yield strips, least, sums, unit_cost(group, unit, accelerator)
        return
    if isinstance(group, MergedProducts):
        try:
            costs = merged_costs(group, accelerator)
        except InfeasibleError:
            return
        for runs, unit in costs:
            if not asked(runs):
                continue
            yield runs, *merged_rows(group, runs, accelerator), unit_cost(group, unit, accelerator)
        return
    for tiles in chain_schedules(group, accelerator):
        if not asked(tiles):
            continue
        try:
            cost = group_cost(GroupCode(group, tiles), accelerator)
        except InfeasibleError:
            continue
        scratchpad, accumulator = chain_rows(group, tiles, accelerator)
        yield tiles, scratchpad, max(accumulator, table_rows(accelerator) * group.softmax), cost


@dataclass(frozen=True)
class Considered:
    """Operators that might have been one unit.

    Attributes:
        names: of the operators.
        group: what they compute.
        schedule: the best as one unit; None with a `reason` where there is none.
        reason: why the operators run one by one even so, in words; empty for a unit that pays.
        cycles, bytes: predicted, as one unit and (`_alone`) one by one; bytes of main memory.
    """

    names: tuple[str, ...]
    group: Group
    schedule: GroupSchedule | None
    reason: str
    cycles: float
    bytes: float
    cycles_alone: float
    bytes_alone: float


class GroupChoice:
    """Chooses one unit where that is predicted to take fewer cycles than the operators with their own schedules; a
    `baco.compiler.network.groups.GroupScheduler`.

    Attributes:
        considered: all that it was asked about, in order.
    """

    def __init__(self, accelerator: Accelerator, schedule: Scheduler) -> None:
        self._accelerator, self._schedule = accelerator, schedule
        self._known: dict[tuple[Group, RowCode | None], Considered] = {}
        self._alone: dict[Layer, tuple[float, float]] = {}
        self.considered: list[Considered] = []

    def __call__(
        self, names: tuple[str, ...], group: Group, between: RowCode | None
    ) -> tuple[GroupSchedule, float] | None:
        """The schedule and the cycles that it saves."""
        key = (group, between)
        if key not in self._known:
            self._known[key] = self._rated(names, group, between)
        one = self._known[key]
        self.considered.append(replace(one, names=names))
        if one.schedule is None or one.reason:
            return None
        return one.schedule, _allowed(group) * one.cycles_alone - one.cycles

    def _rated(self, names: tuple[str, ...], group: Group, between: RowCode | None) -> Considered:
        alone, moved = self._one_by_one(group, between)
        try:
            found = group_schedule(group, self._accelerator)
        except InfeasibleError as error:
            return Considered(names, group, None, error.message, 0.0, 0.0, alone, moved)
        code = GroupCode(group, found)
        cost = predict_group(code, self._accelerator)
        cycles, together = group_cost(code, self._accelerator).cycles, cost.read_bytes + cost.written_bytes
        few = cycles < min(1.0, _allowed(group)) * alone
        even = cycles < _allowed(group) * alone and together < moved
        reason = "" if few or even else "one by one they take fewer cycles"
        return Considered(names, group, found, reason, cycles, together, alone, moved)

    def _one_by_one(self, group: Group, between: RowCode | None) -> tuple[float, float]:
        """Cycles and bytes of main memory; no end of cycles where the host would compute a layer."""
        layers = group.layers
        try:
            new = [layer for layer in dict.fromkeys(layers) if layer not in self._alone]
            found = (
                predict_layers(new, [self._schedule(layer)[0] for layer in new], self._accelerator)
                if new
                else []
            )
        except InfeasibleError:
            return float("inf"), float("inf")
        for layer, latency in zip(new, found, strict=True):
            self._alone[layer] = latency.cycles.item(), latency.bytes.item()
        cycles, moved = (sum(self._alone[layer][part] for layer in layers) for part in (0, 1))
        addition = addition_alone(group, self._accelerator)
        if addition is not None:
            cycles += addition[0].cycles
            moved += addition[1]
        if between is not None:
            cycles += between.cost(self._accelerator).cycles
            moved += 2 * group.first.problem.groups * group.first.problem.P * group.first.problem.K  # type: ignore[union-attr]
        return cycles, moved


def _allowed(group: Group) -> float:
    """Predicted cycles of a unit that moves less, as a multiple of those one by one."""
    return _SAVING if isinstance(group, ConvolutionChain) else _EVEN


def addition_alone(group: Group, accelerator: Accelerator) -> tuple[StepCost, float] | None:
    """Of what is added to a chain's results, if anything is: its cost by itself, and bytes of main memory."""
    added = group.addition if isinstance(group, ConvolutionChain) else None
    if added is None:
        return None
    pixels, channels, pitch = added.pixels_out, added.problem.groups, added.output.pitch
    nest = nest_of((pixels, channels), ((channels, 1), (pitch, 1), (pitch, 1)))
    return AdditionCode(nest, added.relu).cost(accelerator), 3.0 * pixels * channels
