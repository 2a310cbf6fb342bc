"""Error types. Everything a user can cause is a `BacoError`: one message, a location, a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

#: Of a message or a hint: it is to be read.
_MOST_CHARACTERS = 2000


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

    Args:
        message: what is wrong, in one sentence.
        location: where in the user's input.
        hint: what to do about it.
    """

    def __init__(self, message: str, *, location: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = _message(message)
        self.location = location
        self.hint = None if hint is None else _message(hint)

    def __str__(self) -> str:
        head = f"{self.location}: {self.message}" if self.location else self.message
        return f"{head}\n  hint: {self.hint}" if self.hint else head


def _message(text: str) -> str:
    """A text that may quote what a user wrote, however long that is."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."


class InputError(BacoError):
    """A file, name or option of the user's is malformed or unknown."""


class InfeasibleError(BacoError):
    """No design satisfies the constraints; the message names the binding one and by how much."""


class StorageError(BacoError):
    """A study or an output folder cannot be read or written (disk full, damaged, locked)."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming the closest of `known`, or all of them when none is close."""
    names = sorted(str(k) for k in known)
    by_folded = {known_name.casefold(): known_name for known_name in names}
    close = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    allowed = "allowed: " + ", ".join(names)
    return f"did you mean '{by_folded[close[0]]}'? {allowed}" if close else allowed
