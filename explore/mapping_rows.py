"""Tables of mappings in the published column format, read row by row with the place of everything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import EXACT, real_number, whole_number
from baco.common.table import TableRow, read_rows, read_table_text
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import parse_mapping
from baco.workloads.problem import DIMS, Problem

MAPPING = "mapping.mapping"
#: Array side, 32-bit words a column of the accumulator, bytes of the scratchpad.
ARCH = ("arch.meshX", "arch.mem1_entries", "arch.mem2_entries")
BOUNDS = tuple(f"prob.{name}" for name in DIMS)
#: Columns of the input window's shape, and the field of `Problem` they give. Dilations default to 1.
SHAPE = {
    "prob.Wstride": "stride_w",
    "prob.Hstride": "stride_h",
    "prob.Wdilation": "dilation_w",
    "prob.Hdilation": "dilation_h",
}
REQUIRED = (MAPPING, *ARCH, *BOUNDS, "prob.Wstride", "prob.Hstride")
#: Measured or published costs: cycles, µJ, J·cycles.
TARGETS = ("target.cycle", "target.energy", "target.edp")
COUNT = "count"
#: Costs and counts between these have sums, products and ratios that float64 holds.
_SMALLEST, _LARGEST = 1e-30, 1e30


@dataclass(frozen=True)
class MappingTable:
    """Rows of mappings; all sequences have one entry a row.

    Attributes:
        path: of the file.
        header, fields: the columns' names, and the text of every field, as they stand in the file.
        lines: line of each row.
        problems, mappings: what is mapped, and how.
        arch: (B, 3) array side, accumulator words a column, scratchpad bytes.
        targets: by name, for the targets that are in the file: costs (B,), NaN where a field is empty.
        count: (B,) how often each row runs in its network; None without such a column.
    """

    path: str
    header: tuple[str, ...]
    fields: Sequence[Sequence[str]]
    lines: Sequence[int]
    problems: Sequence[Problem]
    mappings: Sequence[Mapping]
    arch: NDArray[np.float64]
    targets: Dictionary[str, NDArray[np.float64]]
    count: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.fields)

    def column(self, name: str) -> list[str] | None:
        """The text of a column, or None if there is none of that name."""
        if name not in self.header:
            return None
        at = self.header.index(name)
        return [row[at] for row in self.fields]


def read_mapping_table(path: str | Path) -> MappingTable:
    """Read a CSV file, or a gzipped one if its name ends in `.gz`.

    Raises InputError with line and column of what is wrong: a missing column, a malformed number or mapping,
    a mapping that does not cover its bounds.
    """
    name = str(path)
    header, rows = _read(name, read_table_text(name))
    places = {column: i for i, column in enumerate(header)}
    problems, mappings, arch = [], [], []
    kept: list[TableRow] = []
    measured: dict[str, list[float]] = {target: [] for target in TARGETS if target in places}
    count: list[float] = []
    known: dict[tuple[str, ...], Problem] = {}
    shape_columns = [column for column in (*BOUNDS, *SHAPE) if column in places]
    for row in rows:

        def whole(column: str, row: TableRow = row) -> int:
            return _whole(row, places[column], header, name)

        def positive(column: str, row: TableRow = row) -> float:
            return _positive(row, places[column], header, name)

        key = tuple(row.fields[places[column]] for column in shape_columns)
        if key not in known:
            values = {d: whole(f"prob.{d}") for d in DIMS}
            values |= {field: whole(column) for column, field in SHAPE.items() if column in places}
            known[key] = _problem(values, Location(name, row.line))
        problem = known[key]
        at = Location(name, row.line, row.column(places[MAPPING]))
        mapping = parse_mapping(row.fields[places[MAPPING]], at)
        try:
            mapping.check(problem)
        except InputError as error:
            raise InputError(error.message, location=at, hint=error.hint) from None
        if math.prod(mapping.padded_bounds) * problem.groups > EXACT:
            raise InputError("the padded product is beyond the exact range (2^53 MACs)", location=at)
        problems.append(problem)
        mappings.append(mapping)
        arch.append([whole(column) for column in ARCH])
        kept.append(row)
        for target, column in measured.items():
            column.append(positive(target) if row.fields[places[target]].strip() else math.nan)
        if COUNT in places:
            count.append(positive(COUNT))
    if not kept:
        raise InputError("the table has a header but no rows", location=Location(name))
    return MappingTable(
        path=name,
        header=header,
        fields=[row.fields for row in kept],
        lines=[row.line for row in kept],
        problems=problems,
        mappings=mappings,
        arch=np.array(arch, dtype=np.float64),
        targets={target: np.array(column) for target, column in measured.items()},
        count=np.array(count) if count else None,
    )


def _read(name: str, text: str) -> tuple[tuple[str, ...], Iterator[TableRow]]:
    """Header, and all rows that are not empty."""
    rows = read_rows(text, name)
    first = next(rows, None)
    if first is None:
        raise InputError("the file is empty", location=Location(name), hint="columns: " + ", ".join(REQUIRED))
    return _header(name, first.line, [field.strip() for field in first.fields]), rows


def _header(name: str, line: int, columns: list[str]) -> tuple[str, ...]:
    repeated = [column for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise InputError(f"the column '{repeated[0]}' is given twice", location=Location(name, line))
    missing = [column for column in REQUIRED if column not in columns]
    if len(missing) == len(REQUIRED):
        raise InputError(
            "this is not a table of mappings: its first line names none of the columns",
            location=Location(name, line),
            hint="columns: " + ", ".join(REQUIRED),
        )
    if missing:
        raise InputError(
            f"missing column{'s' * (len(missing) > 1)} {', '.join(missing)}",
            location=Location(name, line),
            hint=did_you_mean(missing[0], [c for c in columns if c not in REQUIRED] or REQUIRED),
        )
    return tuple(columns)


def _whole(row: TableRow, place: int, header: Sequence[str], name: str) -> int:
    text = row.fields[place].strip()
    at = Location(name, row.line, row.column(place))
    if text.isascii() and text.isdigit():
        return whole_number(header[place], text, least=1, location=at)
    # other programs write whole numbers as 64.0 or 1e3
    number = real_number(header[place], text, positive=False, location=at)
    if number != int(number) or not 1 <= number <= EXACT:
        raise InputError(
            f"{header[place]} must be a whole number from 1 to {EXACT}, not '{text[:40]}'", location=at
        )
    return int(number)


def _positive(row: TableRow, place: int, header: Sequence[str], name: str) -> float:
    at = Location(name, row.line, row.column(place))
    value = real_number(header[place], row.fields[place].strip(), location=at)
    if not _SMALLEST <= value <= _LARGEST:
        raise InputError(f"{header[place]} must be from {_SMALLEST:g} to {_LARGEST:g}", location=at)
    return value


def _problem(values: dict[str, int], location: Location) -> Problem:
    try:
        return Problem(**values)
    except InputError as error:
        raise InputError(error.message, location=location, hint=error.hint) from None
