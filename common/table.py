"""Tables as CSV: rows of users' files with their lines, within bounds; tables of ours that no spreadsheet runs.

A cell that begins with one of `= + - @` (or with what spreadsheets skip or fold into these) is a formula to most
spreadsheet programs, whatever quotes stand around it. Such text is written behind an apostrophe, which they take for
"this is text"; numbers stay numbers.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from baco.common.errors import InputError, Location
from baco.common.files import decode_text, read_input
from baco.common.text import one_line

#: Text of a table, unpacked. As Python objects it takes up to thirty times as much memory, hence the next bounds.
MAX_TABLE_BYTES = 128 << 20
#: Fields of all rows, and of one; characters of one field, and of one row.
MAX_FIELDS, MAX_COLUMNS, MAX_FIELD, MAX_ROW = 4_000_000, 1000, 100_000, 1 << 20


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table.

    Attributes:
        line: where it ends, from 1.
        fields: as they stand in the file.
    """

    line: int
    fields: list[str]

    def column(self, place: int) -> int:
        """Column, from 1, at which a field begins (for rows without quotes)."""
        return 1 + sum(len(field) + 1 for field in self.fields[:place])


def read_table_text(path: str | Path) -> str:
    """Text of a table, unpacked if the file's name ends in `.gz`. Raises InputError, also for one that is too large."""
    name = str(path)
    data = read_input(path, limit_bytes=MAX_TABLE_BYTES)
    if name.endswith(".gz"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(MAX_TABLE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"this is not a whole gzip file: {error}",
                location=Location(name),
                hint="check that it was copied completely; a file that is not compressed must not end in .gz",
            ) from None
        if len(data) > MAX_TABLE_BYTES:
            raise InputError(
                f"the table is larger than the {MAX_TABLE_BYTES:,} bytes allowed", location=Location(name)
            )
    return decode_text(data, name)


def read_rows(text: str, name: str, *, skip: int = 0) -> Iterator[TableRow]:
    """Rows of CSV text that are not empty, the header first, every row with as many fields as the header.

    Args:
        name: of the file, for messages.
        skip: lines before the table; they count.

    Raises InputError, as it comes to them, for text that is no CSV and rows beyond the bounds above.
    """
    width, total = 0, 0
    lines = _Lines(text, name, skip)
    reader = csv.reader(lines, strict=True)
    try:
        for fields in reader:
            line = lines.number
            lines.characters = 0
            if not any(field.strip() for field in fields):
                continue
            width = width or len(fields)
            total += len(fields)
            if len(fields) > MAX_COLUMNS:
                problem = f"this row has {len(fields):,} fields, more than the {MAX_COLUMNS:,} allowed"
            elif len(fields) != width:
                problem = f"this row has {len(fields):,} fields, the header {width:,}"
            elif total > MAX_FIELDS:
                problem = f"the table has more than {MAX_FIELDS:,} fields"
            elif len(longest := max(fields, key=len)) > MAX_FIELD:
                problem = f"a field has {len(longest):,} characters, more than the {MAX_FIELD:,} allowed"
            else:
                yield TableRow(line, fields)
                continue
            raise InputError(problem, location=Location(name, line))
    except csv.Error as error:
        raise InputError(f"this is not CSV: {error}", location=Location(name, lines.number)) from None


class _Lines:
    """Lines of a table one by one. A row ends before its fields could exhaust memory, or the csv module refuse one."""

    _LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")

    def __init__(self, text: str, name: str, skip: int) -> None:
        self.name = name
        self.number = 0
        self.characters = 0  # of the row at hand
        self._found = self._LINE.finditer(text)
        for _ in range(skip):
            next(self, None)
        self.characters = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._found)[0]
        self.number += 1
        self.characters += len(line)
        if self.characters > MAX_ROW:
            raise InputError(
                f"this row has more than {MAX_ROW:,} characters", location=Location(self.name, self.number)
            )
        return line


#: What spreadsheet programs take for the begin of a formula, in their full-width forms too, or skip before one.
_FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(inf|nan)")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows, a header among them, as CSV that spreadsheets show and do not run."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Other values than text are numbers and None."""
    if not isinstance(value, str) or not value:
        return value
    if value.lstrip(" ")[:1] in _FORMULA and not _NUMBER.fullmatch(value):
        value = "'" + value
    return value if value.isprintable() else "\n".join(map(one_line, value.split("\n")))
