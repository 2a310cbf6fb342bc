"""Text from outside, made fit to show: names, file names and messages that others wrote.

A name may hold anything: sequences that a terminal obeys, line breaks that forge a message of ours, marks that turn
the direction of writing, characters that XML forbids, halves of UTF-16 pairs (which is how Python keeps the bytes of
file names that are not UTF-8). The rule is the same everywhere:

* names inside files (YAML, CSV, ONNX, a PyTorch model) that hold such a character are refused where they are read
  (`name_problem`);
* names of files, which nobody chooses for us, are taken as they are; what is called after a file is called by
  `file_label`;
* whatever is printed or drawn goes through `one_line` or `several_lines`, into a page through `html_text`, into JSON
  through `json_text`, into a table through `baco.common.table`.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

#: Characters of the longest name that is taken; those of real networks stay far below.
MAX_NAME = 1000

#: What a name may not hold. Beyond control characters: soft hyphens, spaces without width, marks of direction,
#: separators of lines and paragraphs, tags (all invisible), halves of pairs, and code points that are no characters.
#: The two joiners, without which some scripts cannot be written, are left.
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str, limit: int | None = None) -> str:
    """`text` with every unfit character written as an escape (`\\n`, `\\x1b`, `\\u202e`), at most `limit` characters.

    What is cut is replaced by an ellipsis and the number of characters there were.
    """
    if limit is not None and len(text) > limit:
        return f"{one_line(text[:limit])}... ({len(text):,} characters)"
    # the common case costs one pass in C; what is not printable is not always unfit
    return text if text.isprintable() else _UNFIT.sub(_escape, text)


def several_lines(text: str) -> str:
    """As `one_line`, for text of ours: line feeds and tabs stay."""
    if text.isprintable():
        return text
    return _UNFIT.sub(lambda found: found[0] if found[0] in "\n\t" else _escape(found), text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name, see PEP 383
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unfit(text: str) -> str | None:
    """The first character, as an escape, that text of several lines may not hold either."""
    if text.isprintable():
        return None
    return next((_escape(found) for found in _UNFIT.finditer(text) if found[0] not in "\n\t"), None)


def name_problem(name: str) -> str | None:
    """Why `name` is not taken, as the end of a sentence that begins with what it names; None if nothing is wrong."""
    if not name.strip():
        return "must not be empty"
    if len(name) > MAX_NAME:
        return f"has {len(name):,} characters, more than the {MAX_NAME:,} allowed"
    found = None if name.isprintable() else _UNFIT.search(name)
    return f"holds a character that cannot be shown: {_escape(found)}" if found else None


def file_label(path: str | Path) -> str:
    """What is called after a file without a name of its own: the file's name without folder and suffix."""
    return one_line(Path(path).stem, MAX_NAME // 10) or "unnamed"


def html_text(text: str) -> str:
    """`text` for the content or a quoted attribute of HTML or SVG; its lines stay."""
    return html.escape(several_lines(text))


#: What could begin a link, code or HTML, or end a cell of a table.
_MARKDOWN = re.compile(r"[\\`\[\]<>|]")


def markdown_text(text: str) -> str:
    """`text` as one line of plain Markdown, also within a table."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def json_text(value: Any) -> str:
    """JSON as people read it (UTF-8, ending with a newline), every unfit character within strings as an escape.

    Raises ValueError for NaN and infinities.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # outside of strings the only one is the line feed; beyond the 16-bit plane JSON writes pairs
    return _UNFIT.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text) + "\n"


def script_json(value: Any) -> str:
    """JSON for a script within HTML: strings of several lines, fit to show, without what could end the script."""
    text = json.dumps(fit_strings(value), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def fit_strings(value: Any) -> Any:
    """Plain values with every string as `several_lines` has it."""
    if isinstance(value, str):
        return several_lines(value)
    if isinstance(value, dict):
        return {fit_strings(key): fit_strings(inner) for key, inner in value.items()}
    return [fit_strings(inner) for inner in value] if isinstance(value, (list, tuple)) else value


_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def shell_word(word: str) -> str:
    """`word` as it can be pasted into a POSIX shell; with unfit characters as $'...' (bash, zsh, POSIX of 2024)."""
    if _PLAIN_WORD.fullmatch(word):
        return word
    if not _UNFIT.search(word):
        return "'" + word.replace("'", "'\"'\"'") + "'"
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _UNFIT.sub(_shell_bytes, escaped) + "'"


def _shell_bytes(found: re.Match[str]) -> str:
    return "".join(f"\\{byte:03o}" for byte in found[0].encode("utf-8", "surrogateescape"))
