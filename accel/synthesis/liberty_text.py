"""The text form of Liberty files: groups of attributes and groups, read in one pass with places for errors.

Liberty's grammar is three statements: `name : value ;`, `name (values) ;` and `name (values) { statements }`.
(`liberty-parser` of the package index reads it, too, but under the GPL, which a product of ours cannot depend on.)
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from baco.common.errors import InputError, Location
from baco.common.files import read_input

_TOKEN = re.compile(
    r"(?P<space>(?:\s+|\\\r?\n|/\*.*?\*/|//[^\n]*)+)"
    r'|"(?P<text>(?:[^"\\]|\\.)*)"'
    r"|(?P<mark>[{}();:,])"
    r'|(?P<word>(?:[^\s{}();:,"/\\]|/(?![*/]))+)',
    re.DOTALL,
)
_VALUE = re.compile(r'[ \t]*(?:"(?P<text>[^"]*)"|(?P<words>[^;\n{}]*))[ \t]*;?')
#: Larger files are no cell library.
_MOST_BYTES = 1 << 30
_GZIP = b"\x1f\x8b"
_CUT = "the file is cut: fetch it again"


@dataclass
class Group:
    """`kind (names) { ... }`.

    Attributes:
        kind: `library`, `cell`, `pin`, `timing`...
        names: what stands in its parentheses.
        line: where it begins, from 1.
        attributes: values by name; of an attribute that is given again, the last ones.
        groups: those inside, in order.
    """

    kind: str
    names: list[str]
    line: int
    attributes: dict[str, list[str]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The first of its names; empty without."""
        return self.names[0] if self.names else ""

    def all(self, kind: str) -> Iterator[Group]:
        """The groups of a kind directly inside."""
        return (group for group in self.groups if group.kind == kind)

    def text(self, attribute: str, default: str = "") -> str:
        """A value, without quotes."""
        values = self.attributes.get(attribute)
        return values[0] if values else default

    def number(self, attribute: str) -> float | None:
        """A value; None where it is missing or no number."""
        try:
            return float(self.attributes[attribute][0])
        except (KeyError, IndexError, ValueError):
            return None


def read_groups(path: Path, seen: Callable[[bytes], object] | None = None) -> list[Group]:
    """The outermost groups of a file, which may be compressed by gzip.

    Args:
        seen: gets what stands in the file.

    Raises InputError with the line where the text ends too early or cannot be read.
    """
    data = read_input(path, limit_bytes=_MOST_BYTES)
    if seen is not None:
        seen(data)
    if data[:2] == _GZIP:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            data = unpacker.decompress(data, _MOST_BYTES)
        except zlib.error as error:
            raise InputError(
                f"the compressed file is damaged: {error}", location=Location(str(path))
            ) from None
        if not unpacker.eof:
            raise InputError(
                "the compressed file is cut or too large", location=Location(str(path)), hint=_CUT
            )
    return _Reader(data.decode("utf-8", errors="replace"), str(path)).groups()


class _Reader:
    """Statements of one text, from its beginning to its end."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file, self._at = text, file, 0
        self._counted, self._line = 0, 1

    def groups(self) -> list[Group]:
        """All of them."""
        outer = Group("", [], 1)
        inside = [outer]
        while (token := self._next()) is not None:
            kind, value = token
            if kind == "mark" and value == ";":
                continue
            if kind == "mark" and value == "}" and len(inside) > 1:
                inside.pop()
                continue
            if kind == "mark":
                raise self._error("a brace too many" if value == "}" else f"'{value}' begins no statement")
            line = self._line_now()
            follows = self._next()
            if follows == ("mark", ":"):
                inside[-1].attributes[value] = [self._simple_value()]
            elif follows == ("mark", "("):
                values = self._values()
                before = self._at
                if self._next() == ("mark", "{"):
                    group = Group(value, values, line)
                    inside[-1].groups.append(group)
                    inside.append(group)
                else:
                    self._at = before  # the semicolon is a statement of its own, and may be missing
                    inside[-1].attributes[value] = values
            elif follows is not None:
                raise self._error(f"'{value}' is neither an attribute nor a group")
        if len(inside) > 1:
            where = ", ".join(f"{group.kind} ({', '.join(group.names)})" for group in inside[1:3])
            raise InputError(
                f"the file ends inside {where}", location=Location(self._file, inside[-1].line), hint=_CUT
            )
        return outer.groups

    def _next(self) -> tuple[str, str] | None:
        """Kind (`word`, of quoted text too, or `mark`) and value of the next token; None at the end."""
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self._error("this text cannot be read")
            self._at = found.end()
            if found.lastgroup == "text":
                return "word", found["text"]
            if found.lastgroup != "space":
                return str(found.lastgroup), found[0]
        return None

    def _simple_value(self) -> str:
        """The value of `name : value ;`: quoted text, or words of an expression to the end of the line."""
        found = _VALUE.match(self._text, self._at)
        assert found is not None  # the pattern matches nothing, too
        self._at = found.end()
        return (found["text"] if found["text"] is not None else found["words"]).strip()

    def _values(self) -> list[str]:
        """What stands between parentheses, up to the closing one."""
        values: list[str] = []
        while (token := self._next()) is not None and token != ("mark", ")"):
            if token[0] == "word":
                values.append(token[1])
            elif token[1] in "{};":
                raise self._error("a parenthesis that is not closed")
        return values

    def _line_now(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _error(self, message: str) -> InputError:
        return InputError(
            message,
            location=Location(self._file, self._line_now()),
            hint="it should be a Liberty (.lib) file of cells or memories",
        )
