"""Tables of mappings in the published column format, read row by row with the place of everything."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, Location, did_you_mean
from common.files import MAX_INPUT_BYTES, decode_text, read_input
from compiler.mapping import Mapping
from compiler.mapping_text import parse_mapping
from workloads.problem import DIMS, Problem

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
_LARGEST = 2**53


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
    header, rows = _read(name, decode_text(_content(name), name))
    places = {column: i for i, column in enumerate(header)}
    problems, mappings, arch, lines = [], [], [], []
    measured: dict[str, list[float]] = {target: [] for target in TARGETS if target in places}
    count: list[float] = []
    known: dict[tuple[str, ...], Problem] = {}
    shape_columns = [column for column in (*BOUNDS, *SHAPE) if column in places]
    for line, fields in rows:

        def whole(column: str, fields: list[str] = fields, line: int = line) -> int:
            return _whole(fields, places[column], header, Location(name, line))

        key = tuple(fields[places[column]] for column in shape_columns)
        if key not in known:
            values = {d: whole(f"prob.{d}") for d in DIMS}
            values |= {field: whole(column) for column, field in SHAPE.items() if column in places}
            known[key] = _problem(values, Location(name, line))
        problem = known[key]
        at = Location(name, line, _column(fields, places[MAPPING]))
        mapping = parse_mapping(fields[places[MAPPING]], at)
        try:
            mapping.check(problem)
        except InputError as error:
            raise InputError(error.message, location=at, hint=error.hint) from None
        problems.append(problem)
        mappings.append(mapping)
        arch.append([whole(column) for column in ARCH])
        lines.append(line)
        for target, column in measured.items():
            column.append(_positive(fields, places[target], header, Location(name, line), empty=True))
        if COUNT in places:
            count.append(_positive(fields, places[COUNT], header, Location(name, line), empty=False))
    return MappingTable(
        path=name,
        header=header,
        fields=[fields for _, fields in rows],
        lines=lines,
        problems=problems,
        mappings=mappings,
        arch=np.array(arch, dtype=np.float64),
        targets={target: np.array(column) for target, column in measured.items()},
        count=np.array(count) if count else None,
    )


def _content(name: str) -> bytes:
    data = read_input(name)
    if not name.endswith(".gz"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"this is not a whole gzip file: {error}",
            location=Location(name),
            hint="check that it was copied completely; a file that is not compressed must not end in .gz",
        ) from None
    if len(text) > MAX_INPUT_BYTES:
        raise InputError(
            f"the table is larger than the {MAX_INPUT_BYTES:,} bytes allowed", location=Location(name)
        )
    return text


def _read(name: str, text: str) -> tuple[tuple[str, ...], list[tuple[int, list[str]]]]:
    """Header, and (line, fields) of every row that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: tuple[str, ...] | None = None
    rows: list[tuple[int, list[str]]] = []
    try:
        for fields in reader:
            if not any(fields):
                continue
            if header is None:
                header = _header(name, reader.line_num, [field.strip() for field in fields])
            elif len(fields) != len(header):
                raise InputError(
                    f"this row has {len(fields)} fields, the header {len(header)}",
                    location=Location(name, reader.line_num),
                )
            else:
                rows.append((reader.line_num, fields))
    except csv.Error as error:
        raise InputError(f"this is not CSV: {error}", location=Location(name, reader.line_num)) from None
    if header is None:
        raise InputError("the file is empty", location=Location(name), hint="columns: " + ", ".join(REQUIRED))
    if not rows:
        raise InputError("the table has a header but no rows", location=Location(name))
    return header, rows


def _header(name: str, line: int, columns: list[str]) -> tuple[str, ...]:
    repeated = [column for i, column in enumerate(columns) if column in columns[:i]]
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


def _column(fields: list[str], place: int) -> int:
    return 1 + sum(len(field) + 1 for field in fields[:place])


def _whole(fields: list[str], place: int, header: Sequence[str], line: Location) -> int:
    text = fields[place].strip()
    # Other programs write whole numbers as 64.0.
    value = int(text) if text.isascii() and text.isdecimal() and len(text) <= 16 else None
    if value is None:
        try:
            number = float(text)
        except ValueError:
            number = 0.5
        value = int(number) if abs(number) <= _LARGEST and number == int(number) else None
    if value is None or not 1 <= value <= _LARGEST:
        raise InputError(
            f"{header[place]} must be a whole number of at least 1, not '{text[:40]}'",
            location=replace(line, column=_column(fields, place)),
        )
    return value


def _positive(fields: list[str], place: int, header: Sequence[str], line: Location, *, empty: bool) -> float:
    text = fields[place].strip()
    if not text and empty:
        return float("nan")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (0 < value < float("inf")):
        raise InputError(
            f"{header[place]} must be a positive number, not '{text[:40]}'",
            location=replace(line, column=_column(fields, place)),
        )
    return value


def _problem(values: dict[str, int], location: Location) -> Problem:
    try:
        return Problem(**values)
    except InputError as error:
        raise InputError(error.message, location=location, hint=error.hint) from None
