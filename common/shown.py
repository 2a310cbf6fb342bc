"""How objects show themselves: in one line, and in notebooks as a small table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from baco.common.text import html_text, one_line

#: Characters of a line, and rows of a table.
_LONGEST, _MOST_ROWS = 240, 20


class Shown:
    """A class says what is told of its objects; none of it takes time, and long lists are cut.

    Dataclasses among them are made with `repr=False`.
    """

    def _headline(self) -> str:
        """The most wanted, in one line."""
        raise NotImplementedError

    def _facts(self) -> Iterable[tuple[str, object]]:
        """What a notebook shows below it: names and values; None for what is not known."""
        return ()

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """A further table: titles and rows."""
        return (), ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self._headline(), _LONGEST)}>"

    def _repr_html_(self) -> str:
        return shown_html(f"{type(self).__name__} {self._headline()}", self._facts(), *self._rows())


def shown_html(
    headline: str,
    facts: Iterable[tuple[str, object]],
    titles: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """HTML of a headline, facts and a table, everything escaped; of long tables the beginning, and how many rows follow."""
    known = [(name, value) for name, value in facts if value is not None]
    parts = [f"<p>{html_text(one_line(headline, _LONGEST))}</p>"]
    if known:
        body = "".join(
            f"<tr><th scope='row'>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in known
        )
        parts.append(f"<table><tbody>{body}</tbody></table>")
    if rows:
        head = "".join(f"<th scope='col'>{_cell(title)}</th>" for title in titles)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows[:_MOST_ROWS]
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if len(rows) > _MOST_ROWS:
            parts.append(f"<p>and {len(rows) - _MOST_ROWS:,} more</p>")
    return "".join(parts)


def _cell(value: Any) -> str:
    return html_text(one_line(str(value), _LONGEST))
