"""Buffers of a network's program, and where each value lies in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco.common.errors import InputError
from baco.compiler.codegen.buffer import Buffer, Role
from baco.compiler.network.image import constant_image
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.memory_plan import MemoryPlan
from baco.compiler.network.steps import ByteRange, ValueAddress

Array = np.ndarray[Any, Any]
#: Buffers that are no values of the network.
CONSTANTS, ACTIVATIONS = "constants", "activations"
#: Between buffers in the numbering of bytes that dependences are found by.
_GAP = 1 << 12


@dataclass(frozen=True)
class Placement:
    """Where everything is.

    Attributes:
        buffers: inputs, outputs, then `constants` and `activations`.
        names: buffer of every input and output, by its value.
        image: content of `constants`, bytes.
        places: number of the buffer and offset in it, bytes, by value.
    """

    buffers: tuple[Buffer, ...]
    names: Mapping[str, str]
    image: Array
    places: Mapping[str, tuple[int, int]]

    def address(self, pointer: ValueAddress) -> tuple[int, int]:
        """Number of the buffer and offset in it."""
        buffer, offset = self.places[pointer.value]
        return buffer, offset + pointer.offset

    def span(self, region: ByteRange) -> tuple[int, int]:
        """The bytes of a region in a numbering of all bytes of all buffers."""
        buffer, offset = self.places[region.value]
        start = sum(one.nbytes + _GAP for one in self.buffers[:buffer]) + offset
        return start + region.start, start + region.stop


def place(
    lowered: LoweredNetwork, memory: MemoryPlan, data: Mapping[str, Array], reference: Mapping[str, Array]
) -> Placement:
    """Buffers of a lowered network.

    Args:
        data: of inputs, by value.
        reference: of outputs, and of inputs beside whose elements results are written, by value; others are ignored.

    Raises InputError for data that do not fit and for names of what is no input.
    """
    network = lowered.network
    inputs = [one.name for one in network.values.values() if one.role == "input"]
    for name in data:
        if name not in inputs:
            raise InputError(f"no value '{name}' is an input", hint="inputs: " + ", ".join(inputs))
    image, offsets = constant_image(
        lowered.constants, [name for name in lowered.values if name in lowered.constants]
    )
    buffers: list[Buffer] = []
    names: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    taken = {CONSTANTS, ACTIVATIONS}
    written = {op.output.value for op in network.operators}
    for one in network.values.values():
        if one.role not in ("input", "output"):
            continue
        names[one.name] = _identifier(one.name, taken)
        places[one.name] = (len(buffers), 0)
        role: Role = "inout" if one.role == "input" and one.name in written else one.role
        buffers.append(
            Buffer(
                names[one.name],
                one.shape,
                one.dtype,
                role=role,
                data=_fitting(data.get(one.name)),
                expected=None if role == "input" else _fitting(reference.get(one.name)),
            )
        )
    places |= {name: (len(buffers), offset) for name, offset in offsets.items()}
    image = image if image.size else np.zeros(1, dtype=np.int8)
    buffers.append(Buffer(CONSTANTS, image.shape, "int8", role="constant", data=image))
    places |= {name: (len(buffers), offset) for name, offset in memory.offsets.items()}
    buffers.append(Buffer(ACTIVATIONS, (max(memory.nbytes, 1),), "int8", role="workspace"))
    return Placement(tuple(buffers), names, image, places)


def _fitting(array: Array | None) -> Array | None:
    return None if array is None else np.asarray(array)


def _identifier(name: str, taken: set[str]) -> str:
    """A name for a buffer that is like the value's and no other's."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    text = text if text[:1].isalpha() else f"value_{text}"
    identifier, number = text, 1
    while identifier in taken:
        number += 1
        identifier = f"{text}_{number}"
    taken.add(identifier)
    return identifier
