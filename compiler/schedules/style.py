"""Code styles: what each makes of its schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import Schedule

LocalMemoryName = Literal["scratchpad", "accumulator"]
OwnSchedule = TypeVar("OwnSchedule", bound=Schedule)


@dataclass(frozen=True)
class HeldTensor:
    """A tensor in a local memory.

    Attributes:
        memory: the scratchpad for W and I, the accumulator for O.
        tensor: W, I or O.
        rows: of one copy, as wide as the array; parts of rows that nothing fills included.
        copies: that there is room for, so that one is moved while another is used.
    """

    memory: LocalMemoryName
    tensor: str
    rows: int
    copies: int


@dataclass(frozen=True)
class LayerPlan:
    """A schedule worked out for one layer and an accelerator that can carry it out: all that is asked of its code.

    Attributes:
        tiles: rows of one copy and copies of the weights, inputs and results of the largest tile.
        lanes: rows and columns of the array that a full pass uses.
        requirement: least hardware of the same kind that the code runs on: `dim`, and rows of the local memories
            (`scratchpad_rows`, `accumulator_rows`).
        workspaces: name and bytes of the main memory that the code wants in `Operands.workspaces`, beside the layer's
            tensors. Contents do not matter before, and mean nothing after.
        emit: writes the commands of the layer where an emitter stands, with all the configuration they need. Nothing is
            assumed of what ran before but that its memory accesses are fenced; nor is there a fence at the end.
    """

    tiles: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    lanes: tuple[int, int]
    requirement: dict[str, int]
    workspaces: tuple[tuple[str, int], ...]
    emit: Callable[[Emitter, Operands], None]

    @property
    def held(self) -> tuple[HeldTensor, HeldTensor, HeldTensor]:
        """Weights, inputs and results of the largest tile."""
        weights, inputs, results = self.tiles
        return (
            HeldTensor("scratchpad", "W", *weights),
            HeldTensor("scratchpad", "I", *inputs),
            HeldTensor("accumulator", "O", *results),
        )


def check_weight_bits(layer: Layer, accelerator: Accelerator, *, blocks: bool = False) -> None:
    """Raise InfeasibleError for weights of 4 bits, or in blocks, that the accelerator or a style of code (`blocks`) cannot load."""
    if layer.weight_blocks is not None and not (blocks and accelerator.features.block_weights):
        if accelerator.features.block_weights:
            raise InfeasibleError("only explicit code loads weights in blocks")
        raise InfeasibleError(
            f"{accelerator.name} loads no weights in blocks", hint="set features.block_weights to true"
        )
    if layer.weight_bits == 4 and not accelerator.features.packed_weights:
        raise InfeasibleError(
            f"{accelerator.name} loads no weights of 4 bits", hint="set features.packed_weights to true"
        )


def check_elements(layer: Layer, accelerator: Accelerator) -> None:
    """Raise InfeasibleError for a layer of other elements than the accelerator's."""
    if layer.elements != accelerator.input_format:
        given, own = (
            "integers" if one == "integer" else one for one in (layer.elements, accelerator.input_format)
        )
        raise InfeasibleError(f"the layer is of {given}, and {accelerator.name} computes {own}")


class Style(ABC, Generic[OwnSchedule]):
    """A way to write code: which mappings it carries out, and what it makes of its schedules.

    Attributes:
        schedule: the class of its schedules.
    """

    schedule: type[OwnSchedule]

    @abstractmethod
    def recognise(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> OwnSchedule | None:
        """The schedule that carries a mapping out; None if the style cannot."""

    @abstractmethod
    def plan(self, layer: Layer, schedule: OwnSchedule, accelerator: Accelerator) -> LayerPlan:
        """Raises InputError for a schedule that does not cover the layer, InfeasibleError for one that the accelerator cannot
        carry out, with the reason."""

    @abstractmethod
    def mapping(self, layer: Layer, schedule: OwnSchedule, accelerator: Accelerator) -> Mapping:
        """The mapping that a schedule stands for. Raises InfeasibleError where there is none."""

    def counted(self, layer: Layer, schedule: OwnSchedule, accelerator: Accelerator) -> tuple[Layer, Mapping]:
        """The layer and its mapping whose accesses are those of a schedule, and whose cycles, where no macro does the work.
        Raises as `mapping`."""
        return layer, self.mapping(layer, schedule, accelerator)

    def host_cycles(self, layer: Layer, schedule: OwnSchedule) -> float:
        """In which the host rearranges what the code reads, before it begins."""
        return 0.0
