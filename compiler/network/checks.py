"""Programs that compare what every operator wrote with the reference, while they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baco.common.errors import InputError
from baco.compiler.host_core import LINE_BYTES
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.steps import ByteRange, Step, ValueAddress, pointer, region
from baco.compiler.ops.host_work import HostWork, counted, line_misses
from baco.compiler.ops.nests import RowLoops, nest_of
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor, itemsize
from baco.compiler.ops.views import View


def add_checks(lowered: LoweredNetwork, reference: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Add calls that compare what every operator wrote: one after its last step, or one before each step that replaces a part.

    Args:
        reference: every value that an operator writes, of the value's shape.

    Raises InputError for a value that is missing.
    """
    network = lowered.network
    lowered.sources["check.c"] = ""
    replaced = lowered.replaced_parts()
    written = {op.output.value: op for op in network.operators}
    last = {name: number for number, step in enumerate(lowered.steps) for name in (step.operator, *step.also)}
    behind: dict[int, list[IntegerOperator]] = {}
    for op in network.operators:
        if op.output.value not in reference:
            raise InputError(f"the reference has no value '{op.output.value}'")
        if op.name in last and op.output.value not in replaced:
            behind.setdefault(last[op.name], []).append(op)
    steps = []
    for number, step in enumerate(lowered.steps):
        part = step.replaces
        if part is not None:
            name = written[part.value].name
            steps.append(_check(lowered, name, part, reference[part.value], f"{name}.{number}"))
        steps.append(step)
        for op in behind.get(number, []):
            steps.append(_check(lowered, op.name, op.output, reference[op.output.value], op.name))
    lowered.steps[:] = steps


def _check(
    lowered: LoweredNetwork, operator: str, view: View, expected: np.ndarray[Any, Any], label: str
) -> Step:
    """A call that compares a view of what an operator wrote; `label` tells its constants from those of others."""
    value = lowered.values[view.value]
    loops = RowLoops(*nest_of(view.shape, [view.strides], in_order=True).split())
    size = itemsize(value)
    elements = np.ascontiguousarray(view.read(np.asarray(expected, dtype=value.dtype)))
    words = np.array([*loops.words(), size], dtype=np.int64)
    text = np.frombuffer(operator.encode() + b"\0", dtype=np.int8)
    read = []
    for part, data in (("parameters", words), ("name", text), ("expected", elements)):
        name = f"check.{label}.{part}"
        dtype = data.dtype.name
        lowered.values[name] = IntegerTensor(name, data.shape, dtype, role="constant")  # type: ignore[arg-type]
        lowered.constants[name] = data
        read.append(ByteRange(name, 0, data.nbytes))
    found = region(view, lowered.values)
    lines = line_misses(loops.walks((size,))) + loops.elements * size / LINE_BYTES
    work = HostWork(f"net_check {size}", counted(rows=loops.rows, elements=loops.elements), lines=lines)
    return Step(
        operator,
        "net_check",
        (*(ValueAddress(one.value) for one in read), pointer(view, lowered.values)),
        (*read, found),
        (),
        work=work,
    )
