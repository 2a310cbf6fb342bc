"""Whether every operator of a network wrote what it must, looked at from outside while the program runs.

The program is not changed for it: the simulator copies memory between two instructions. An operator's result is
copied at the first place where it is certain to be complete, and nothing has replaced it yet: what the host core
writes is there when the next step begins; what the accelerator writes is there behind the next fence, and whatever
overwrites it waits at a fence, too (`baco.compiler.network.fences`). A result that is replaced part by part is copied so, each part
before the step that reads and replaces it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baco.common.errors import InputError
from baco.compiler.network.program import NetworkProgram
from baco.compiler.network.steps import ByteRange, ValueAddress, region
from baco.compiler.ops.operator import itemsize
from baco.compiler.ops.views import View

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Boundary:
    """The result of one operator, or a part of it.

    Attributes:
        operator: its name.
        view: what it wrote there.
        region: the bytes between the first and the last element of that, in the value.
        address: of the region's first byte in main memory.
        step: number of the step before which this is complete and still there; the number of steps: the end.
    """

    operator: str
    view: View
    region: ByteRange
    address: int
    step: int

    @property
    def nbytes(self) -> int:
        """Of the region."""
        return self.region.stop - self.region.start


@dataclass(frozen=True)
class Mismatch:
    """An operator whose result is not right.

    Attributes:
        operator: whose result it is.
        index: of the first wrong element, in the order of the operator's view (images: channels last).
        found, expected: that element.
        wrong, elements: how many are wrong, of how many.
    """

    operator: str
    index: tuple[int, ...]
    found: int
    expected: int
    wrong: int
    elements: int

    def __str__(self) -> str:
        where = ", ".join(map(str, self.index))
        return (
            f"wrong: {self.operator}[{where}] is {self.found}, not {self.expected};"
            f" {self.wrong:,} of {self.elements:,} elements are wrong"
        )


def boundaries(built: NetworkProgram) -> list[Boundary]:
    """Every operator that a step computes, in order."""
    steps = built.lowered.steps
    writers: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        writers.setdefault(step.operator, []).append(number)
    parts = built.lowered.replaced_parts()
    found: list[Boundary] = []

    def add(name: str, view: View, step: int) -> None:
        bytes_of = region(view, built.lowered.values)
        address = built.address(ValueAddress(view.value, bytes_of.start))
        found.append(Boundary(name, view, bytes_of, address, step))

    for op in built.network.operators:
        view = op.output
        if view.value in parts:
            for number, part in parts[view.value]:
                add(op.name, part, number)
            continue
        numbers = [
            number
            for number in writers.get(op.name, [])
            if any(one.value == view.value for one in steps[number].writes)
        ]
        if numbers:
            add(op.name, view, max(_complete(built, number) for number in numbers))
    return found


def _complete(built: NetworkProgram, number: int) -> int:
    """The first step before which everything that step `number` writes is in memory."""
    if not built.lowered.steps[number].accelerator:
        return number + 1
    waits = built.waits
    return next((later for later in range(number + 1, len(waits)) if waits[later]), len(waits))


def compare(
    built: NetworkProgram,
    found: Sequence[tuple[Boundary, bytes]],
    reference: Mapping[str, Array],
) -> list[Mismatch]:
    """The operators whose results are wrong, in order.

    Args:
        found: boundaries with the bytes of their regions, those of an operator one after the other.
        reference: every value that an operator writes, of the value's shape (`baco.compiler.network.reference`).

    Raises InputError for a value that the reference lacks.
    """
    wrong = []
    outputs = {op.name: op.output for op in built.network.operators}
    for operator, parts in itertools.groupby(found, key=lambda pair: pair[0].operator):
        view = outputs[operator]
        if view.value not in reference:
            raise InputError(f"the reference has no value '{view.value}'")
        value = built.lowered.values[view.value]
        right = np.asarray(reference[view.value], np.dtype(value.dtype)).reshape(-1)
        there = right.copy()
        for boundary, data in parts:
            part = boundary.view
            inside = replace(part, offset=part.offset - boundary.region.start // itemsize(value))
            part.write(there, inside.read(np.frombuffer(data, dtype=there.dtype)))
        is_there, expected = view.read(there), view.read(right)
        different = np.argwhere(is_there != expected)
        if len(different):
            first = tuple(int(one) for one in different[0])
            wrong.append(
                Mismatch(
                    operator,
                    first,
                    int(is_there[first]),
                    int(expected[first]),
                    len(different),
                    expected.size,
                )
            )
    return wrong
