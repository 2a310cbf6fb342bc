"""Quantised networks one behind the other as one: what a network reads is what the one before it gives, in its own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.floating import Decoded, Encoded
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.views import JoinedView, View, dense
from baco.workloads.encoding import Encoding

_BYTES = np.arange(-128, 128)


def composed(name: str, parts: Sequence[QuantisedNetwork]) -> QuantisedNetwork:
    """One network of several.

    Args:
        name: of the whole.
        parts: in order; the outputs of each are the inputs of the next one, in their order. Output X of part N is the tensor `N:X` of
            the whole.

    Raises InputError where numbers or shapes of outputs are not those of inputs, and where positions or outputs in parts are read on.
    """
    whole = _numbered(parts[0], 0)
    for number, part in enumerate(parts[1:], 1):
        whole = _joined(name, whole, _numbered(part, number))
    return replace(whole, name=name)


def _numbered(part: QuantisedNetwork, number: int) -> QuantisedNetwork:
    """Values and operators under names that no other part has."""
    new = {name: f"{number}:{name}" for name in part.values}

    def view(old: View) -> View:
        return replace(old, value=new[old.value])

    def outside(old: View | JoinedView) -> View | JoinedView:
        return view(old) if isinstance(old, View) else replace(old, parts=tuple(map(outside, old.parts)))

    operators = []
    for op in part.operators:
        operands = {f.name: getattr(op, f.name) for f in fields(op)}
        views: dict[str, Any] = {name: view(x) for name, x in operands.items() if isinstance(x, View)}
        operators.append(replace(op, name=f"{number}:{op.name}", **views))
    outputs = {name: outside(output) for name, output in part.outputs.items()}
    return replace(
        part,
        values={new[name]: replace(value, name=new[name]) for name, value in part.values.items()},
        operators=tuple(operators),
        constants={new[name]: array for name, array in part.constants.items()},
        inputs={name: view(given) for name, given in part.inputs.items()},
        outputs=outputs,
        tensors={f"{number}:{name}": output for name, output in outputs.items() if isinstance(output, View)},
    )


def _joined(name: str, first: QuantisedNetwork, second: QuantisedNetwork) -> QuantisedNetwork:
    here = Location(name)
    if len(first.outputs) != len(second.inputs):
        raise InputError(
            f"{len(first.outputs)} results ({', '.join(first.outputs)}) for {len(second.inputs)} inputs"
            f" ({', '.join(second.inputs)})",
            location=here,
        )
    values = {
        key: replace(value, role="intermediate") if value.role in ("input", "output") else value
        for key, value in (*first.values.items(), *second.values.items())
    }
    for key, value in first.values.items():
        if value.role == "input":
            values[key] = value
    for key, value in second.values.items():
        if value.role == "output":
            values[key] = value
    constants = {**first.constants, **second.constants}
    links: list[IntegerOperator] = []
    for (given, source), (wanted, target) in zip(first.outputs.items(), second.inputs.items(), strict=True):
        if isinstance(source, JoinedView):
            raise InputError(f"'{given}' is kept in parts, which '{wanted}' cannot read", location=here)
        if source.shape != target.shape:
            raise InputError(
                f"'{given}' has the shape {source.shape}, but '{wanted}' is {target.shape}", location=here
            )
        label = f"{target.value}.given"
        link, table = _link(label, source, target, (first, given), (second, wanted), here)
        if table is not None:
            constants[f"{label}.table"] = table
            values[f"{label}.table"] = IntegerTensor(
                f"{label}.table",
                table.shape,
                "float32" if table.dtype == np.float32 else "int8",
                1.0,
                "constant",
            )
        links.append(link)
    return QuantisedNetwork(
        name,
        values,
        (*first.operators, *links, *second.operators),
        constants,
        first.inputs,
        second.outputs,
        {**first.tensors, **second.tensors},
        (*first.random, *second.random),
        second.seed,
        {key: one for key, one in first.whole.items() if key in first.inputs}
        | {key: one for key, one in second.whole.items() if key in second.outputs},
    )


def _link(
    label: str,
    source: View,
    target: View,
    giver: tuple[QuantisedNetwork, str],
    taker: tuple[QuantisedNetwork, str],
    here: Location,
) -> tuple[IntegerOperator, np.ndarray | None]:
    """(The operator that hands elements on in the reader's numbers, its table)."""
    given, wanted = giver[0].values[source.value], taker[0].values[target.value]
    if "int32" in (given.dtype, wanted.dtype):
        raise InputError(f"'{giver[1]}' or '{taker[1]}' holds positions, which are no numbers", location=here)
    table = dense(f"{label}.table", (256,))
    theirs = _encoding(wanted, taker[0].whole, taker[1])
    if given.dtype == "float32":
        if wanted.dtype == "float32":
            return Map(label, (label,), target, source, None), None
        limits = theirs.zero, theirs.low, theirs.high
        return Encoded(label, (label,), target, source, theirs.scale, *limits), None
    numbers = _encoding(given, giver[0].whole, giver[1]).real(_BYTES)
    if wanted.dtype == "float32":
        return Decoded(label, (label,), target, source, table), np.asarray(numbers, np.float32)
    entries = theirs.whole(numbers).astype(np.int8)
    if np.array_equal(entries, _BYTES):
        return Map(label, (label,), target, source, None), None
    return Map(label, (label,), target, source, table), entries


def _encoding(value: IntegerTensor, whole: Mapping[str, Encoding], name: str) -> Encoding:
    """How a value's bytes stand for numbers; where the user sees whole numbers, for these."""
    if name in whole:
        shift = whole[name].shift
        return Encoding(1.0, -shift, whole[name].low - shift, whole[name].high - shift)
    return value.encoding or Encoding(value.scale, 0, -128, 127)
