"""Tables of a page, drawn from records as `summary.json` has them: a column is a heading and what it says of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from baco.common.page import html_table

__all__ = ["Column", "records_table"]


class Column(NamedTuple):
    """One column.

    Attributes:
        head: its heading.
        shown: what stands there of a record, as plain text.
        words: whether that is words; else figures, which stand to the right and sort by their size.
    """

    head: str
    shown: Callable[[Any], str]
    words: bool = False


def records_table(caption: str, records: Sequence[Any], columns: Sequence[Column]) -> str:
    """A table of HTML with a row for each record, everything from outside escaped."""
    return html_table(
        [one.head for one in columns],
        [[one.shown(record) for one in columns] for record in records],
        numeric=[place for place, one in enumerate(columns) if not one.words],
        caption=caption,
    )
