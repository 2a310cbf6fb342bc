"""Liberty's tables read: many at once, one, and those of a cell that repeats into others like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.liberty import LibraryCell, Table

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Points:
    """Where values lie between the points of tables, shape (n,) each.

    Attributes:
        row, column: the intervals that slews and loads lie in.
        down, across: where in these, 0 ... 1 inside.
    """

    row: Integers
    column: Integers
    down: Array
    across: Array


class Tables:
    """Many tables of any size, read by one call."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._tables: list[Table] = []
        self._stacked: tuple[Array, Array, Array, Integers, Integers] | None = None

    def number(self, table: Table) -> int:
        """Of a table."""
        index = self._numbers.get(id(table))
        if index is None:
            index = self._numbers[id(table)] = len(self._tables)
            self._tables.append(table)
            self._stacked = None
        return index

    def _stack(self) -> tuple[Array, Array, Array, Integers, Integers]:
        if self._stacked is None:
            wide = [_widened(table) for table in self._tables]
            rows, columns = (max(shape) for shape in zip(*(v.shape for _, _, v in wide), strict=True))
            first = np.full((len(wide), rows), np.inf)
            second = np.full((len(wide), columns), np.inf)
            values = np.zeros((len(wide), rows, columns))
            for place, (one, other, value) in enumerate(wide):
                first[place, : one.size], second[place, : other.size] = one, other
                values[place, : one.size, : other.size] = value
            sizes = np.array([v.shape for _, _, v in wide], np.int64)
            self._stacked = first, second, values, sizes[:, 0], sizes[:, 1]
        return self._stacked

    def read(self, which: Integers, x: Array, y: Array) -> Array:
        """Values of tables `which` at slews `x` and loads `y`, shape (n,): linear between and beyond the points."""
        return self.values(which, self.points(which, x, y))

    def points(self, which: Integers, x: Array, y: Array) -> Points:
        """Where slews `x` and loads `y` lie in tables `which`."""
        first, second, _, rows, columns = self._stack()
        row, down = _place(first, which, rows, x)
        column, across = _place(second, which, columns, y)
        return Points(row, column, down, across)

    def values(self, which: Integers, points: Points) -> Array:
        """Of tables `which` at points of them, shape (n,)."""
        values = self._stack()[2]
        _, rows, columns = values.shape
        corner = (which * rows + points.row) * columns + points.column
        at = values.reshape(-1)
        low = at[corner] * (1 - points.across) + at[corner + 1] * points.across
        corner += columns
        high = at[corner] * (1 - points.across) + at[corner + 1] * points.across
        found: Array = low * (1 - points.down) + high * points.down
        return found

    def are_alike(self, which: Integers, others: Integers) -> bool:
        """Whether each table has the points of its other, shape (n,) both."""
        first, second, *_ = self._stack()
        axes = np.unique(np.concatenate([first, second], 1), axis=0, return_inverse=True)[1].reshape(-1)
        return bool((axes[which] == axes[others]).all())


def _widened(table: Table) -> tuple[Array, Array, Array]:
    """At least two points along each axis."""
    first, second, values = table.first, table.second, table.values
    if first.size == 1:
        first, values = np.array([first[0], first[0] + 1.0]), np.repeat(values, 2, 0)
    if second.size == 1:
        second, values = np.array([second[0], second[0] + 1.0]), np.repeat(values, 2, 1)
    return first, second, values


def _place(axes: Array, which: Integers, sizes: Integers, x: Array) -> tuple[Integers, Array]:
    """The interval that x lies in, and where in it, 0 ... 1 inside; shape (n,)."""
    index = np.full(x.size, -1, np.int64)
    for points in np.ascontiguousarray(axes.T):
        index += x >= points[which]
    index = np.clip(index, 0, sizes[which] - 2)
    below = which * axes.shape[1] + index
    low, high = axes.reshape(-1)[below], axes.reshape(-1)[below + 1]
    return index, (x - low) / (high - low)


def repeated(cell: LibraryCell, load: Array, slew: float = 0.0) -> Array:
    """Delays of a cell with one input that drives loads, F, shape (n,), each in a row of such: at the slew that each makes for the
    next, s.

    Args:
        slew: what the search for that begins at, s.

    Returns:
        Of the rising and the falling edge, s, shape (2, n).
    """
    arc = next(arc for arc in cell.arcs if arc.kind == "combinational" and arc.rise and arc.fall)
    tables = Tables()
    delays = [tables.number(table) for table in (arc.rise, arc.fall) if table]
    slews = [tables.number(table) for table in (arc.rise_slew, arc.fall_slew) if table]
    kinds = len(delays + slews)
    which, loads = np.repeat(delays + slews, load.size), np.tile(load, kinds)
    values, given = np.zeros((kinds, load.size)), np.full(load.size, slew)
    for _ in range(4):
        values = tables.read(which, np.tile(given, kinds), loads).reshape(kinds, load.size)
        given = values[2:].max(0) if slews else given
    return values[:2]
