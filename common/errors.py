"""Error types. Everything a user can cause is a `BacoError`: one message, a location, a hint."""

from __future__ import annotations

import difflib
import linecache
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from baco.common.door import in_the_words_of_the_door
from baco.common.text import one_line

#: Characters shown of a place, a sentence and a hint, names further lines, and names in a list of what is allowed:
#: what users write into their files may be of any length.
_MOST_PLACE, _MOST_SENTENCE, _MOST_HINT, _MOST_LINES, _MOST_NAMES = 400, 1000, 1500, 60, 60
#: Further errors that are shown.
_MOST_ERRORS = 20
#: Longer names are not looked for among the allowed ones; comparing is quadratic.
_LONGEST_GUESS = 80
#: Whose lines are of no interest to users.
OWN_PACKAGE = "baco"


@dataclass(frozen=True)
class Location:
    """Where in the user's input an error lies; `line` and `column` count from 1."""

    file: str
    line: int | None = None
    column: int | None = None
    node: str | None = None  # an ONNX node, a field path, a loop of a mapping

    def __str__(self) -> str:
        text = self.file
        if self.line is not None:
            text += f":{self.line}"
            if self.column is not None:
                text += f":{self.column}"
        if self.node:
            text += f" ({self.node})"
        return text


class BacoError(Exception):
    """Root of all errors shown to users: printed as one message, exit code 2.

    Options are named as on the command line (`--time-limit`); whoever comes from Python is shown arguments (`baco.common.door`).
    Any part may quote the user's input as it is: as text, an error is fit to show (`baco.common.text`), and only `details`,
    the hint and other errors begin further lines.

    Args:
        message: what is wrong, in one sentence.
        location: where in the user's input.
        hint: what to do about it.
        details: further lines below the message (the source line, a compiler's own words).
        also: further errors of the same file, shown below this one.
    """

    def __init__(
        self,
        message: str,
        *,
        location: Location | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
        also: Sequence[BacoError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint
        self.details = tuple(details)
        self.also = tuple(also)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes whatever their constructors ask for."""
        return _without_constructor, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        said = in_the_words_of_the_door
        place = f"{one_line(said(str(self.location)), _MOST_PLACE)}: " if self.location else ""
        lines = [place + one_line(said(self.message), _MOST_SENTENCE)]
        # a tab before a mark keeps the mark below what it marks
        lines += [f"  {self._detail(text)}" for text in self.details[:_MOST_LINES]]
        if len(self.details) > _MOST_LINES:
            lines.append(f"  and {len(self.details) - _MOST_LINES:,} more lines")
        if self.hint:
            lines.append(f"  hint: {one_line(said(self.hint), _MOST_HINT)}")
        for index, other in enumerate(self.also[:_MOST_ERRORS]):
            first, *rest = str(other).split("\n")
            lines += [f"  and {first}", *(f"  {line}" for line in rest)]
            if index == _MOST_ERRORS - 1 and len(self.also) > _MOST_ERRORS:
                lines.append("  and further errors")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show in place of a traceback: the user's line, and the message."""
        lines = []
        for frame, number in traceback.walk_tb(self.__traceback__):
            # the user's own frames come first; cells have no file, but IPython tells `linecache` their text
            if frame.f_globals.get("__name__", "").partition(".")[0] == OWN_PACKAGE:
                break
            code = frame.f_code
            text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
            where = "" if code.co_filename.startswith("<") else f"{code.co_filename}, "
            lines = [f"{where}line {number}: {one_line(text, _MOST_SENTENCE)}"] if text else []
        return [*lines, f"{type(self).__name__}: {self}"]

    @staticmethod
    def _detail(text: str) -> str:
        return "\t".join(one_line(part, _MOST_SENTENCE) for part in text.split("\t"))


def _without_constructor(kind: type[BacoError], arguments: tuple[object, ...]) -> BacoError:
    return kind.__new__(kind, *arguments)


class InputError(BacoError):
    """A file, name or option of the user's is malformed or unknown."""


class InfeasibleError(BacoError):
    """No design satisfies the constraints; the message names the binding one and by how much."""


class StoppedError(BacoError):
    """The user ended a work before it had anything to show; what it has recorded is kept. Exit code 130."""


class StorageError(BacoError):
    """A study or an output folder cannot be read or written (disk full, damaged, locked)."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming the closest of `known`, and the first few dozen of them."""
    names = sorted(str(k) for k in known)
    by_folded = {known_name.casefold(): known_name for known_name in names}
    close: list[str] = []
    if len(name) <= _LONGEST_GUESS and len(names) * _LONGEST_GUESS < 1 << 20:
        near = (one for one in by_folded if len(one) <= 2 * _LONGEST_GUESS)
        close = difflib.get_close_matches(str(name).casefold(), near, n=1, cutoff=0.6)
    more = f", and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    allowed = "allowed: " + ", ".join(names[:_MOST_NAMES]) + more
    return f"did you mean '{by_folded[close[0]]}'? {allowed}" if close else allowed


def only_with(owner: str, given: Mapping[str, object], *, hint: str | None = None) -> None:
    """Raises InputError for the first option that is given and means nothing without `owner`.

    Args:
        owner: what the options go with, as a sentence ends (`--network`, `a kernel`).
        given: by how an option is written on the command line, what it was given; None, False and empty lists for one that was not.
    """
    for option, value in given.items():
        if value is not None and value is not False and value != [] and value != ():
            raise InputError(f"{option} goes with {owner}", hint=hint or f"leave {option} out")
