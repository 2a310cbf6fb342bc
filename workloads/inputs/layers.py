"""Layers of published tables on their way to a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baco.common.errors import InputError, Location
from baco.common.text import file_label, name_problem
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Unsupported
from baco.workloads.options import LARGEST
from baco.workloads.problem import Problem
from baco.workloads.shapes import window_count


@dataclass(frozen=True)
class TableLayer:
    """One layer: its problems are made when its place is known, so that errors name it.

    Attributes:
        problems: of which it consists: one, or those of the phases of a transposed convolution.
        skipped: why it has none; empty where it has.
    """

    name: str
    where: Location
    problems: Callable[[], Problem | Sequence[Problem]]
    skipped: str = ""


def network_of_layers(
    path: str, rest: str | None, layers: Sequence[TableLayer], name: str | None = None
) -> Network:
    """The network of a table that holds one. Raises InputError for other names behind the file's, and for a table without
    layers."""
    label = name or file_label(path)
    if rest not in (None, label):
        raise InputError(
            f"no network '{rest}' in this table: it holds '{label}' alone", location=Location(path)
        )
    if all(layer.skipped for layer in layers):
        raise InputError("the table holds no layer", location=Location(path))
    builder = GraphBuilder(label, source=path)
    used: set[str] = set()

    def unique(own: str) -> str:
        name, number = own, 1
        while name in used:
            number += 1
            name = f"{own}~{number}"
        used.add(name)
        return name

    unsupported = []
    for index, layer in enumerate(layers):
        problem = name_problem(layer.name) if layer.name else None
        if problem:
            raise InputError(f"the layer's name {problem}", location=layer.where)
        own = layer.name or f"layer{index}"
        if layer.skipped:
            unsupported.append(Unsupported(layer.skipped, own, "it has no product"))
            continue
        try:
            made = layer.problems()
            parts = [made] if isinstance(made, Problem) else list(made)
            for number, part in enumerate(parts):
                builder.layer(part, unique(own if len(parts) == 1 else f"{own}.phase{number}"))
        except InputError as error:
            raise InputError(error.message, location=layer.where, hint=error.hint) from None
    return builder.build(unsupported)


def outputs_of_window(what: str, size: int, kernel: int, stride: int) -> int:
    """Positions of a window along a dimension. Raises InputError where there are none."""
    count = window_count(size, kernel, stride, (0, 0))
    if count < 1:
        raise InputError(f"a filter of {kernel} does not fit into an input {what} of {size}")
    return count


def layer_integer(value: object, where: Location) -> int:
    """A size. Raises InputError for anything but a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(f"must be a whole number from 1 to {LARGEST}, not {str(value)[:40]}", location=where)
    return value
