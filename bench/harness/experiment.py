"""What experiments share: progress, pages and numbers that are written as they are found, tables, means over seeds.

An experiment is a module with a function `run`, which varies something and measures a row for each (its parameters are the options
of the command `baco bench NAME`), and a function `page`, which says in Markdown what `run` found. `run` writes both through
`ResultFiles` after every row, so that an interrupted experiment has left what it had.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder, read_input_text
from baco.common.text import markdown_table

#: Told how far an experiment is, a line at a time.
Say = Callable[[str], None]
#: Where experiments write unless told otherwise.
FOLDER = Path("baco-bench")

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")


def silent(_: str) -> None:
    """Tells nobody."""


class ResultFiles:
    """`NAME.md` and `NAME.json` of a folder, written anew whenever something was found.

    Args:
        out: the folder, made if it is not there; None writes nothing.
        page: what was found as Markdown.
        title: name of the page's file where it is another.

    Raises StorageError where that is not possible.
    """

    def __init__(
        self, out: str | Path | None, name: str, page: Callable[[Any], str], title: str = ""
    ) -> None:
        self.folder = None if out is None else output_folder(out)
        self.name, self.page, self.title = name, page, title or name

    def keep(self, found: Any) -> None:
        """Write it."""
        if self.folder is not None:
            self.keep_as(found, self.page(found))

    def keep_as(self, found: Any, page: str) -> None:
        """Write it with a finished page."""
        if self.folder is not None:
            text = json.dumps(plain(found), indent=1, allow_nan=False)
            atomic_write(self.folder / f"{self.name}.json", text + "\n")
            atomic_write(self.folder / f"{self.title}.md", page)

    def before(self) -> Any:
        """What was written earlier; None where nothing was. Raises InputError for a file of something else."""
        path = None if self.folder is None else self.folder / f"{self.name}.json"
        if path is None or not path.exists():
            return None
        try:
            return json.loads(read_input_text(path))
        except ValueError as error:
            raise self.foreign(f"these are no results: {error}") from None

    def foreign(self, problem: str) -> InputError:
        """The error for a file that holds something else."""
        place = Location(f"{self.folder}/{self.name}.json")
        return InputError(problem, location=place, hint="name another --out")


def kept_rows(results: ResultFiles, key: str, machine: str) -> dict[str, dict[str, Any]]:
    """Rows of runs before, by what they say for `key`. Raises InputError for a file of something else, or of another machine."""
    rows = results.before() or []
    try:
        found = {row[key]: row for row in rows if row["machine"] == machine}
    except (TypeError, KeyError):
        raise results.foreign(f"these are no results of {results.name}") from None
    if len(found) < len(rows):
        raise results.foreign("these are results of another machine")
    return found


def plain(value: Any) -> Any:
    """Values for JSON: dataclasses and their fields as objects, keys as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def page_of(title: str, *parts: str) -> str:
    """Markdown: a title and its paragraphs, tables and lists; empty ones are left out."""
    return "\n\n".join([f"# {title}", *(part for part in parts if part)]) + "\n"


def table(rows: Iterable[_Row], columns: Mapping[str, Callable[[_Row], Any]], *more: Sequence[str]) -> str:
    """A table in Markdown: a line a row, each column's cell made by its function; then lines of finished cells."""
    cells = [[str(cell(row)) for cell in columns.values()] for row in rows]
    return markdown_table(list(columns), [*cells, *more])


def each(keys: Mapping[str, _Key], cell: Callable[[_Key, Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """Columns of a table that differ in a key: `cell` makes those of a key, of a row."""
    return {title: partial(cell, key) for title, key in keys.items()}


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """None when there are no values or one is missing."""
    found = list(values)
    logs = [math.log(value) for value in found if value is not None]
    return math.exp(sum(logs) / len(logs)) if logs and len(logs) == len(found) else None


def median_place(values: Sequence[float]) -> int:
    """Of the (upper) median: which seed stands for all."""
    return sorted(range(len(values)), key=values.__getitem__)[len(values) // 2]


def over_seeds(values: Sequence[float], form: str = ".3f") -> str:
    """The mean over seeds, and the least and the most of them."""
    mean = sum(values) / len(values)
    return f"{mean:{form}} ({min(values):{form}} to {max(values):{form}})"


def check_names(given: Iterable[str], known: Iterable[str], what: str, option: str = "") -> None:
    """Raise InputError for a name that is not known: `what` it should be, `option` it was given to."""
    for name in given:
        if name not in known:
            place = Location(f"--{option}") if option else None
            raise InputError(f"there is no {what} '{name}'", location=place, hint=did_you_mean(name, known))
