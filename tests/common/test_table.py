"""CSV in, within bounds and with the lines of rows; CSV out that no spreadsheet runs."""

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.common.errors import InputError
from baco.common.table import MAX_COLUMNS, MAX_FIELD, MAX_ROW, csv_text, read_rows, read_table_text

_field = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def rows(text: str, **options: int) -> list[tuple[int, list[str]]]:
    return [(row.line, row.fields) for row in read_rows(text, "f.csv", **options)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(_field, min_size=3, max_size=3), min_size=1, max_size=6))
def test_rows_are_those_of_pythons_csv(table: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    kept = [
        row for row in csv.reader(io.StringIO(text.getvalue(), newline="")) if any(f.strip() for f in row)
    ]
    assert [fields for _, fields in rows(text.getvalue())] == kept


def test_lines_are_where_rows_end() -> None:
    assert rows('a,b\r\n\n1,"x\ny"\r3,4') == [(1, ["a", "b"]), (4, ["1", "x\ny"]), (5, ["3", "4"])]
    assert rows("# head\na,b\n1,2\n", skip=1) == [(2, ["a", "b"]), (3, ["1", "2"])]


def test_columns_of_fields() -> None:
    (_, row) = read_rows("a,bb,c\n1,22,333\n", "f")
    assert [row.column(i) for i in range(3)] == [1, 3, 6]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a,b\n1\n", "this row has 1 fields, the header 2", 2),
        ("a,b\n1,2,3\n", "3 fields, the header 2", 2),
        (",".join("a" * (MAX_COLUMNS + 1)), "1,001 fields, more than the 1,000", 1),
        ("a\n" + "x" * (MAX_FIELD + 1), "100,001 characters", 2),
        ("a\n" + "x" * (MAX_ROW + 1), "more than 1,048,576 characters", 2),
        ('a\n"' + "x\n" * MAX_ROW, "more than 1,048,576 characters|field larger", None),
        ('a\n"b', "this is not CSV: unexpected end", 2),
        ('a\n"b"c', "this is not CSV", 2),
        ((",".join("1" * MAX_COLUMNS) + "\n") * 4001, "more than 4,000,000 fields", 4001),
    ],
)
def test_bounds(text: str, message: str, line: int | None) -> None:
    with pytest.raises(InputError, match=message) as caught:
        rows(text)
    assert caught.value.location is not None
    assert line is None or caught.value.location.line == line


def test_packed_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n"))
    assert read_table_text(path) == "a,b\n"
    for data, message in (
        (b"a,b\n", "not a whole gzip"),
        (gzip.compress(b"a" * 1000)[:-3], "not a whole gzip"),
        (gzip.compress(b"\0"), "binary"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=message):
            read_table_text(path)


LIVE = (
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
    "=",
    "-",
    "--1",
    "-x",
    "+",
)


@pytest.mark.parametrize("text", LIVE)
def test_no_cell_of_text_is_live(text: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(csv_text([[text]]), newline=""))
    assert cell[0] == "'"


@pytest.mark.parametrize(
    "value", ["-1.5", "+3", "-1e-7", "1", "-inf", "nan", "plain", "a=b", "'x", "", "L3[WIO] K48 - L2[WI]"]
)
def test_numbers_and_text_stay_as_they_are(value: str) -> None:
    ((cell, other),) = csv.reader(io.StringIO(csv_text([[value, "x"]])))
    assert (cell, other) == (value, "x")


def test_values_of_python() -> None:
    assert csv_text([["a", "b"], [-1.5, None], [-2, True]]) == "a,b\n-1.5,\n-2,True\n"
