"""Quantised networks one behind the other as one: what a network reads is what the one before it gives, in its own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.elements import Decoded, Encoded
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.views import JoinedView, View, dense
from baco.workloads.encoding import Encoding

_BYTES = np.arange(-128, 128)


def composed(name: str, parts: Sequence[QuantisedNetwork]) -> QuantisedNetwork:
    """One network of several.

    Args:
        name: of the whole.
        parts: in order; the outputs of each are the inputs of the next one, in their order. Output X of part N is the tensor `N:X` of
            the whole: in the next part's bytes where real numbers would only lie between two tables.

    Raises InputError where numbers or shapes of outputs are not those of inputs, and where positions or outputs in parts are read on.
    """
    whole = _numbered(parts[0], 0)
    for number, part in enumerate(parts[1:], 1):
        whole = _joined(name, whole, _numbered(part, number))
    return replace(whole, name=name)


def _numbered(part: QuantisedNetwork, number: int) -> QuantisedNetwork:
    """Values and operators under names that no other part has."""
    named = prefixed(part, f"{number}:")
    outputs = named.outputs
    return replace(
        named,
        tensors={f"{number}:{name}": output for name, output in outputs.items() if isinstance(output, View)},
    )


def prefixed(part: QuantisedNetwork, prefix: str, constants: str | None = None) -> QuantisedNetwork:
    """Values and operators behind a prefix, constants behind another one where it is given."""
    fixed = prefix if constants is None else constants
    names = {name: (fixed if name in part.constants else prefix) + name for name in part.values}
    named = _with_values(part, names)
    return replace(named, operators=tuple(replace(op, name=prefix + op.name) for op in named.operators))


def _with_values(part: QuantisedNetwork, new: Mapping[str, str]) -> QuantisedNetwork:
    """Values under other names."""

    def view(old: View) -> View:
        return replace(old, value=new.get(old.value, old.value))

    def outside(old: View | JoinedView) -> View | JoinedView:
        return view(old) if isinstance(old, View) else replace(old, parts=tuple(map(outside, old.parts)))

    operators = []
    for op in part.operators:
        operands = {f.name: getattr(op, f.name) for f in fields(op)}
        views: dict[str, Any] = {name: view(x) for name, x in operands.items() if isinstance(x, View)}
        operators.append(replace(op, **views))
    return replace(
        part,
        values={new.get(name, name): replace(x, name=new.get(name, name)) for name, x in part.values.items()},
        operators=tuple(operators),
        constants={new.get(name, name): array for name, array in part.constants.items()},
        inputs={name: view(given) for name, given in part.inputs.items()},
        outputs={name: outside(output) for name, output in part.outputs.items()},
        tensors={name: view(tensor) for name, tensor in part.tensors.items()},
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
    operators = list(first.operators)
    for (given, source), (wanted, target) in zip(first.outputs.items(), second.inputs.items(), strict=True):
        if isinstance(source, JoinedView):
            raise InputError(f"'{given}' is kept in parts, which '{wanted}' cannot read", location=here)
        if source.shape != target.shape:
            raise InputError(
                f"'{given}' has the shape {source.shape}, but '{wanted}' is {target.shape}", location=here
            )
        label = f"{target.value}.given"
        theirs, number = values[target.value], _encoding(values[target.value], second.whole, wanted)
        tables = _encoded_tables(operators, values, source, theirs, number, constants)
        if tables is not None:
            operators = tables.operators
            values[source.value] = replace(theirs, name=source.value, shape=values[source.value].shape)
            values.update(tables.values)
            constants.update(tables.constants)
            if _same_elements(source, target):
                second = _with_values(second, {target.value: source.value})
                del values[target.value]
            else:
                operators.append(Map(label, (label,), target, source, None))
            continue
        link, table = _link(label, source, target, (first, given), (second, wanted), here)
        if table is not None:
            constants[f"{label}.table"] = table
            values[f"{label}.table"] = _constant(f"{label}.table", table)
        operators.append(link)
    return QuantisedNetwork(
        name,
        values,
        (*operators, *second.operators),
        constants,
        first.inputs,
        second.outputs,
        {**first.tensors, **second.tensors},
        (*first.random, *second.random),
        second.seed,
        {key: one for key, one in first.whole.items() if key in first.inputs}
        | {key: one for key, one in second.whole.items() if key in second.outputs},
    )


@dataclass(frozen=True)
class _Tables:
    """Operators of a part whose tables give the next part's bytes, with new tables."""

    operators: list[IntegerOperator]
    values: Mapping[str, IntegerTensor]
    constants: Mapping[str, np.ndarray]


def _same_elements(x: View, y: View) -> bool:
    """Whether two views have the same elements of their values, in order."""
    steps = [[n for n, size in zip(one.strides, one.shape, strict=True) if size > 1] for one in (x, y)]
    return x.shape == y.shape and x.offset == y.offset and steps[0] == steps[1]


def _encoded_tables(
    operators: Sequence[IntegerOperator],
    values: Mapping[str, IntegerTensor],
    source: View,
    theirs: IntegerTensor,
    encoding: Encoding,
    constants: Mapping[str, np.ndarray],
) -> _Tables | None:
    """Where real numbers that only go on as bytes all come from tables, tables of these bytes; None elsewhere."""
    if values[source.value].dtype != "float32" or theirs.dtype != "int8":
        return None
    for op in operators:
        written = op.output.value == source.value and not isinstance(op, Decoded)
        if written or any(view.value == source.value for view in op.inputs):
            return None
    found = _Tables([], {}, {})
    made: dict[str, np.ndarray] = {}
    for op in operators:
        if not isinstance(op, Decoded) or op.output.value != source.value:
            found.operators.append(op)
            continue
        table = replace(op.table, value=f"{op.table.value}.bytes")
        rule = Encoded("", (), table, op.table, encoding.scale, encoding.zero, encoding.low, encoding.high)
        made[table.value] = rule.compute(lambda view: constants[view.value])
        found.operators.append(Map(op.name, op.sources, op.output, op.input, table))
    return replace(found, values={key: _constant(key, array) for key, array in made.items()}, constants=made)


def _constant(name: str, table: np.ndarray) -> IntegerTensor:
    dtype = "float32" if table.dtype == np.float32 else "int8"
    return IntegerTensor(name, table.shape, dtype, 1.0, "constant")  # type: ignore[arg-type]


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
