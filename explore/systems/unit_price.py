"""What a network's program on one unit takes, step by step, whatever other units there are: predicted, or measured.

A unit is a core with an accelerator, or a core alone. A network is lowered for it as it is compiled; what a step takes is its prediction
(`baco.compiler.network.prediction`), in nanoseconds at the unit's clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.traffic import bytes_per_cycle, channel_bytes_per_cycle
from baco.compiler.host_core import LINE_BYTES
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.lowering import lower_network, lower_on_host
from baco.compiler.network.prediction import host_misses, predict_steps
from baco.compiler.network.program import default_choices
from baco.compiler.network.steps import ByteRange, region
from baco.exploration._json import Amount, Count, from_json, reader, to_json
from baco.exploration.cost.schedules import schedule_costs

#: Of a channel for which predictions or measurements say how much longer steps take: what it moves less than there is.
SLOWER = 2 / 3


@dataclass(frozen=True)
class StepPrice:
    """Of a step of a program.

    Attributes:
        step: its number.
        operators: that it computes, sorted.
        time: nanoseconds that it takes alone.
        nbytes: that it needs of the memory channel.
        exposed: nanoseconds that it would take longer if another unit moved all it can; below 0 where predictions are not monotonic.
        energy: picojoules, without what the accelerator takes for being there.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    step: Count
    operators: tuple[str, ...]
    time: Amount
    nbytes: Amount
    exposed: float
    energy: Amount


@dataclass(frozen=True)
class UnitPrice:
    """Of a network's program on a unit.

    Attributes:
        steps: all of them.
        kept: operators that hand each other something of the program's own, so that no other unit can compute one of them alone.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    steps: tuple[StepPrice, ...]
    kept: tuple[tuple[str, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        plain: dict[str, Any] = to_json(self)
        return plain

    @classmethod
    @reader("a unit's price")
    def from_dict(cls, data: dict[str, Any]) -> UnitPrice:
        """Inverse of `to_dict`. Raises InputError for anything else."""
        return from_json(cls, data)


class MeasuredStep(NamedTuple):
    """Cycles that a step of a program took, bytes that the accelerator moved meanwhile, and cycles that it would take longer if another unit
    moved all it can."""

    cycles: float
    dram_bytes: float
    exposed: float


#: What every step of a network's program for an accelerator took.
MeasureSteps = Callable[[Accelerator], Sequence[MeasuredStep]]


def lower_for(network: QuantisedNetwork, machine: Accelerator, *, accelerator: bool) -> LoweredNetwork:
    """As the network is compiled for an accelerator, or for the core beside it alone.

    Raises InfeasibleError for an accelerator whose programs cannot compute it.
    """
    schedule, groups, combinations = default_choices(machine)
    if not accelerator:
        return lower_on_host(network, machine, schedule)
    if not machine.common_elements:
        raise InfeasibleError(f"quantised networks have 8-bit elements, and {machine.name} has others")
    return lower_network(network, machine, schedule, groups, combinations)


def unit_price(lowered: LoweredNetwork, machine: Accelerator, *, accelerator: bool) -> UnitPrice:
    """What a network takes that was lowered for a unit, as predicted."""
    return UnitPrice(
        tuple(_steps(lowered, machine, whole=accelerator)), tuple(_kept(lowered, whole=accelerator))
    )


def _kept(lowered: LoweredNetwork, *, whole: bool) -> Iterator[tuple[str, ...]]:
    own: dict[str, set[str]] = defaultdict(set)
    for step, operators in zip(lowered.steps, _operators_of(lowered, whole=whole), strict=True):
        for one in (*step.reads, *step.writes):
            if one.value not in lowered.network.values and one.value not in lowered.constants:
                own[one.value] |= operators
    for members in sorted({tuple(sorted(members)) for members in own.values()}):
        if len(members) > 1:
            yield members


def _steps(lowered: LoweredNetwork, machine: Accelerator, *, whole: bool) -> Iterator[StepPrice]:
    """`whole`: whether the steps compute all operators."""
    codes = lowered.layers
    layers = schedule_costs(
        [one.layer for one in codes.values()],
        [one.schedule for one in codes.values()],
        machine,
        "instruction",
    )
    of_layer = dict(zip(codes, layers, strict=True))
    ns, rate = 1e3 / machine.clock_mhz, channel_bytes_per_cycle(machine)
    costs, operators = predict_steps(lowered, machine), _operators_of(lowered, whole=whole)
    narrow = machine.model_copy(update={"dram_bytes_per_cycle": bytes_per_cycle(machine) * SLOWER})
    slower = predict_steps(lowered, narrow)
    for number, (step, cost, slow, names) in enumerate(
        zip(lowered.steps, costs, slower, operators, strict=True)
    ):
        moved, energy = cost.dram_bytes, cost.energy_pj(machine) - machine.static_pj(cost.cycles)
        if step.function in of_layer:
            layer = of_layer[step.function]
            terms = dict(zip(layer.resources, layer.latency_terms, strict=True))
            moved, energy = terms["memory"] * rate, layer.energy_pj - layer.static_pj
        elif not step.accelerator:
            moved = host_misses(lowered, step) * LINE_BYTES
        exposed = (slow.cycles - cost.cycles) / (1 / SLOWER - 1) * ns
        yield StepPrice(number, tuple(sorted(names)), cost.cycles * ns, moved, exposed, energy)


def _operators_of(lowered: LoweredNetwork, *, whole: bool) -> list[frozenset[str]]:
    """Operators that each step computes: those that it is called for, and where all are computed those without a step whose results it
    writes or, inside it, are read by these."""
    network = lowered.network
    known = {op.name for op in network.operators}
    called = [
        {
            name
            for one in (step.operator, *step.also)
            for name in (one, one.partition("[")[0])
            if name in known
        }
        for step in lowered.steps
    ]
    left = [op for op in network.operators if whole and op.name not in set().union(*called)]
    for op in reversed(left):
        written = region(op.output, network.values)
        inside = [
            at for at, step in enumerate(lowered.steps) if any(meet(written, one) for one in step.writes)
        ]
        readers = {other.name for other in network.operators if any(_reads(network, other, written))}
        for at in inside or [at for at, names in enumerate(called) if names & readers]:
            called[at].add(op.name)
    return [frozenset(names) for names in called]


def _reads(network: QuantisedNetwork, op: object, written: ByteRange) -> Iterator[bool]:
    for view in op.inputs:  # type: ignore[attr-defined]
        yield meet(region(view, network.values), written)


def meet(one: ByteRange, other: ByteRange) -> bool:
    """Whether bytes are in both."""
    return one.value == other.value and one.start < other.stop and other.start < one.stop
