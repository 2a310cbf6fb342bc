"""One layer in detail, as a report draws it: words and bytes by tensor, what the memories hold, what more of a resource
would give. Every number is an existing model's; nothing is counted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.latency.model import predict_changed
from baco.compiler.latency.prediction import MOVED
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping, tile_words
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.schedules.style import HeldTensor
from baco.compiler.styles.registry import counted_mapping, plan_layer, realise
from baco.exploration.candidate import CostModelName, LayerCost
from baco.exploration.cost.layer_costs import layer_words
from baco.exploration.cost.predicted import RESOURCES, rows_by_machine
from baco.exploration.cost.schedules import standing_mappings


@dataclass(frozen=True)
class HeldBytes:
    """A tensor in a local memory: bytes of one copy (with the instruction-aware model whole rows), and copies."""

    memory: str
    tensor: str
    bytes: float
    copies: int


@dataclass(frozen=True)
class LayerDetail:
    """One run of one layer.

    Attributes:
        words: of (W, I, O) read and written at levels 0 (registers), 1 (accumulator), 2 (scratchpad), 3 (DRAM), as the
            reference model counts them; they add up to `LayerCost.accesses`, but for DRAM with the instruction-aware
            model, which predicts the bytes that code moves there (`moved`).
        moved: bytes that main memory moves, by `baco.compiler.latency.prediction.MOVED`; empty with the reference
            model.
        held: what the local memories hold; empty where the code cannot be compiled.
        lanes: rows and columns of the array that a full pass uses.
        doubled: latency in cycles with twice of each resource, in the order of `LayerCost.resources`; all else, the
            mapping too, stays.
    """

    words: tuple[tuple[float, ...], ...]
    moved: tuple[float, ...]
    held: tuple[HeldBytes, ...]
    lanes: tuple[int, int]
    doubled: tuple[float, ...]

    @property
    def moved_by_name(self) -> dict[str, float]:
        """`moved` with its names."""
        return dict(zip(MOVED, self.moved, strict=True)) if self.moved else {}


def layer_details(
    model: CostModelName,
    layers: Sequence[Layer],
    designs: Sequence[tuple[Sequence[Mapping], Accelerator]],
    costs: Sequence[Sequence[LayerCost]],
) -> list[list[LayerDetail]]:
    """Details of one run of each layer under its mapping, for each of many designs.

    Args:
        designs: mappings, one a layer, and the accelerator they are for.
        costs: what the same model says of them.
    """
    problems = [layer.problem for layer in layers]
    if model == "reference":
        return [
            [
                LayerDetail(
                    words,
                    (),
                    _reference_held(layer, mapping, accelerator),
                    (mapping.rows, mapping.columns),
                    _halved(cost),
                )
                for layer, mapping, cost, words in zip(
                    layers, mappings, machine_costs, layer_words(problems, mappings), strict=True
                )
            ]
            for (mappings, accelerator), machine_costs in zip(designs, costs, strict=True)
        ]
    machines = rows_by_machine(layers, designs)
    rows = [(machine, layer, how) for machine, ones in machines.items() for layer, how in ones]
    words = [
        one
        for machine, ones in machines.items()
        for one in layer_words([layer.problem for layer, _ in ones], [how for _, how in ones], machine.dim)
    ]
    schedules = [realise(layer, how, machine) for machine, layer, how in rows]
    details = dict(zip(rows, _details(rows, words, schedules), strict=True))
    return [[details[machine, *row] for row in zip(layers, how, strict=True)] for how, machine in designs]


def schedule_details(
    model: CostModelName,
    layers: Sequence[Layer],
    schedules: Sequence[Schedule],
    costs: Sequence[LayerCost],
    accelerator: Accelerator,
) -> list[LayerDetail]:
    """As `layer_details`, of one design's schedules. Raises InfeasibleError for one that cannot be carried out."""
    problems, mappings = standing_mappings(layers, schedules, accelerator)
    words = layer_words(problems, mappings, accelerator.dim)
    rows = [(accelerator, layer, how) for layer, how in zip(layers, schedules, strict=True)]
    details = _details(rows, words, schedules)
    if model == "instruction":
        return details
    return [
        LayerDetail(one.words, (), one.held, one.lanes, _halved(cost))
        for one, cost in zip(details, costs, strict=True)
    ]


def _details(
    rows: Sequence[tuple[Accelerator, Layer, Mapping | Schedule]],
    words: Sequence[tuple[tuple[float, ...], ...]],
    schedules: Sequence[Schedule],
) -> list[LayerDetail]:
    """By the instruction-aware model; all are predicted together, once with twice of each resource."""
    accelerators, layers, how = zip(*rows, strict=True)
    found, *twice = predict_changed(layers, how, accelerators, [None, *RESOURCES])
    details = []
    for place, (accelerator, layer, _) in enumerate(rows):
        cycles, schedule = float(found[place].cycles), schedules[place]
        details.append(
            LayerDetail(
                words[place],
                tuple(found[place].moved.flatten().tolist()),
                *_held(layer, schedule, accelerator),
                # the fitted terms for overlap may charge a little for what is idle longer; more is never slower
                tuple(min(cycles, float(one[place].cycles)) for one in twice),
            )
        )
    return details


def _halved(cost: LayerCost) -> tuple[float, ...]:
    """Latencies of the reference model, the largest of the terms, with each term halved in turn."""
    terms = cost.latency_terms
    return tuple(max(*(t / (1 + (i == n)) for i, t in enumerate(terms)), 0.0) for n in range(len(terms)))


def _held(
    layer: Layer, schedule: Schedule, accelerator: Accelerator
) -> tuple[tuple[HeldBytes, ...], tuple[int, int]]:
    """What code holds, and the lanes it uses; nothing, and those of the mapping, where it cannot be compiled."""
    widths = {"scratchpad": accelerator.input_bits, "accumulator": accelerator.accumulator_bits}

    def in_bytes(held: HeldTensor) -> HeldBytes:
        row = accelerator.dim * widths[held.memory] / 8
        return HeldBytes(held.memory, held.tensor, held.rows * row, held.copies)

    try:
        plan = plan_layer(layer, schedule, accelerator)
    except InfeasibleError:
        _, mapping = counted_mapping(layer, schedule, accelerator)
        return (), (mapping.rows, mapping.columns)
    return tuple(in_bytes(held) for held in plan.held), plan.lanes


def _reference_held(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> tuple[HeldBytes, ...]:
    """Of a mapping by the rules of the reference model: words without padding, every column of the accumulator."""
    words = tile_words(mapping, layer.problem)
    column = accelerator.dim * accelerator.accumulator_bits / 8
    size = {"W": accelerator.input_bits / 8, "I": accelerator.input_bits / 8, "O": column}
    return tuple(
        HeldBytes(
            "accumulator" if tensor == "O" else "scratchpad", tensor, words[tensor] * size[tensor], copies
        )
        for tensor, copies in zip("WIO", mapping.buffering, strict=True)
    )
