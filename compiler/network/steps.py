"""What a network's program does, one call after the other, before anything has an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from baco.accel.config import Accelerator
from baco.compiler.ops.host_work import HostWork
from baco.compiler.ops.operator import IntegerTensor, itemsize
from baco.compiler.ops.views import View


@dataclass(frozen=True)
class ValueAddress:
    """A byte address: `offset` bytes into a value."""

    value: str
    offset: int = 0


#: What a call passes: an address, or a number (0: no such operand).
Argument: TypeAlias = ValueAddress | int


@dataclass(frozen=True)
class ByteRange:
    """Bytes [start, stop) of a value."""

    value: str
    start: int
    stop: int


@dataclass(frozen=True)
class Step:
    """One call of a function.

    Attributes:
        operator: name of the operator that it is part of.
        function: what is called.
        arguments: of the call.
        reads, writes: what the function touches, workspaces in both.
        accelerator: whether it gives the accelerator work, which may go on after the call.
        host: whether the host core itself touches memory.
        also: names of further operators whose results it writes.
        work: what a function of the host has to do; None of others.
        waits: for all that came before, so that what comes behind may run beside it.
        replaces: part of an operand whose memory the result may take over, as nothing else reads it.
    """

    operator: str
    function: str
    arguments: tuple[Argument, ...]
    reads: tuple[ByteRange, ...]
    writes: tuple[ByteRange, ...]
    accelerator: bool = False
    host: bool = True
    also: tuple[str, ...] = ()
    work: HostWork | None = None
    waits: bool = False
    replaces: View | None = None


class StepCost(NamedTuple):
    """Predicted cost of a step.

    Attributes:
        cycles: until the next step can begin.
        fixed_pj: energy of host core, array and main memory, which does not depend on capacities. None of the energies is
            known of a layer, which depends on its mapping.
        accumulator_words, scratchpad_words: accesses whose energy does.
        dram_bytes: that the accelerator moves through main memory; their energy is part of `fixed_pj`.
    """

    cycles: float
    fixed_pj: float = 0.0
    accumulator_words: float = 0.0
    scratchpad_words: float = 0.0
    dram_bytes: float = 0.0

    def energy_pj(self, accelerator: Accelerator) -> float:
        """On an accelerator of the same side, its static energy included: it waits while the host works."""
        dynamic = float(
            accelerator.energy_law.with_memories(
                self.fixed_pj,
                self.accumulator_words,
                self.scratchpad_words,
                accumulator_kib=float(accelerator.accumulator_kib),
                scratchpad_kib=float(accelerator.scratchpad_kib),
                dim=float(accelerator.dim),
            )
        )
        return dynamic + accelerator.static_pj(self.cycles)


def pointer(view: View, values: Mapping[str, IntegerTensor]) -> ValueAddress:
    """Address of a view's first element."""
    return ValueAddress(view.value, view.offset * itemsize(values[view.value]))


def region(view: View, values: Mapping[str, IntegerTensor]) -> ByteRange:
    """The bytes between the first and the last element of a view."""
    reach = [(size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(one for one in reach if one < 0)
    high = view.offset + sum(one for one in reach if one > 0) + 1
    size = itemsize(values[view.value])
    return ByteRange(view.value, low * size, high * size)


def regions(view: View, values: Mapping[str, IntegerTensor]) -> list[ByteRange]:
    """The bytes of a view's elements without those in the gaps between rows that are contiguous."""
    rows = view.collapsed()
    contiguous = bool(rows.strides) and rows.strides[-1] == 1
    lead = rows.shape[:-1] if contiguous else rows.shape
    length = rows.shape[-1] if contiguous else 1
    size = itemsize(values[view.value])
    starts = [rows.offset]
    for extent, stride in zip(lead, rows.strides, strict=False):
        starts = [start + n * stride for start in starts for n in range(extent if stride else 1)]
    return [ByteRange(view.value, start * size, (start + length) * size) for start in starts]
