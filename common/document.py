"""YAML files of the user's: safe, bounded, and with the line and column of every value.

The document is built from PyYAML's event stream rather than by its constructors, so that nothing is ever
instantiated from a tag, nesting and alias expansion are bounded, and duplicate keys are refused. Scalars
follow the core schema of YAML 1.2 (so `no` is a word, and `1e6` a number), keys are always text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from baco.common.errors import InputError, Location
from baco.common.files import decode_text, read_input
from baco.common.text import unfit

#: Bounds on what is accepted; real files stay a hundred times below them.
MAX_BYTES = 16 << 20
MAX_DEPTH = 48
MAX_NODES = 250_000
#: Characters of all scalars, aliases expanded.
MAX_CHARACTERS = 4 * MAX_BYTES
#: Lines that begin with a percent sign, as directives do: the parser compares each of them with all before it.
_MOST_DIRECTIVES = 100

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Decimal in YAML 1.2, octal in YAML 1.1 and in C: nobody should have to know which.
_OCTAL_OR_NOT = re.compile(r"[-+]?0[0-9]+")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_BEGINS_NUMBER = frozenset("+-.0123456789")
#: Numbers of more characters cannot be meant, and would be slow to convert; 2^-1074 has 25 in its shortest form.
_MAX_DIGITS = 40

Path_ = tuple[str | int, ...]


@dataclass
class _Node:
    """A value, its place (from 1), and for containers the nodes inside by key or index."""

    value: Any
    line: int
    column: int
    children: dict[str | int, _Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1  # nodes in the sub-tree, aliases expanded
    characters: int = 0  # of the scalars in it, likewise


@dataclass(frozen=True)
class YamlDoc:
    """A loaded document.

    Attributes:
        name: file name, as the user gave it.
        data: plain Python (dict with str keys, list, str, int, float, bool, None).
    """

    name: str
    data: Any
    _root: _Node

    def location(self, path: Path_ = (), *, key: bool = False) -> Location:
        """Place of the value at `path`, or with `key` that of its key.

        Where the path leaves the document (a missing key), the place of its last existing part is given.
        """
        node = self._root
        line, column = node.line, node.column
        for i, part in enumerate(path):
            if part not in node.children:
                break
            parent, node = node, node.children[part]
            line, column = node.line, node.column
            if key and i == len(path) - 1 and isinstance(part, str):
                line, column = parent.keys[part]
        return Location(self.name, line, column, path_text(path) or None)

    def get(self, path: Path_) -> Any:
        """Value at `path`. Raises KeyError when there is none."""
        node = self._root
        for part in path:
            node = node.children[part]
        return node.value


def path_text(path: Path_) -> str:
    """A field path as people write it: `networks[0].weight`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def load_yaml(path: str | Path) -> YamlDoc:
    """Load one document from a file of the user's.

    Raises InputError for a file that is missing, no regular readable UTF-8 text, too large, or no YAML that
    this module accepts (see above), with line and column.
    """
    return parse_yaml(decode_text(read_input(path, limit_bytes=MAX_BYTES), str(path)), str(path))


def parse_yaml(text: str, name: str) -> YamlDoc:
    """Load one document from text; `name` stands for the file in messages. Raises InputError."""
    try:
        root = _build(text, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context or "it cannot be parsed").split())
        raise InputError(
            f"this is not valid YAML: {problem}",
            location=Location(name, mark.line + 1, mark.column + 1) if mark else Location(name),
            hint=_syntax_hint(problem, text, mark),
        ) from None
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error.position)
        raise InputError(
            f"this is not valid YAML: {error.reason}", location=Location(name, line, column)
        ) from None
    except UnicodeError as error:
        raise InputError(
            f"this is not valid text: {error.__class__.__name__}", location=Location(name)
        ) from None
    return YamlDoc(name, root.value, root)


def _place(text: str, position: int | None) -> tuple[int, int]:
    position = min(position or 0, len(text))
    return text.count("\n", 0, position) + 1, position - (text.rfind("\n", 0, position) + 1) + 1


def _syntax_hint(problem: str, text: str, mark: yaml.Mark | None) -> str | None:
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in problem:
        return "quote text that contains ': ', and check the indentation"
    return None


@dataclass
class _Open:
    """A container being filled; `key` is the pending key of a mapping."""

    node: _Node
    anchor: str | None
    key: tuple[str, int, int] | None = None


class _Builder:
    """Builds nodes from events with an explicit stack: no recursion, every bound checked as it grows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Node] = {}
        self.root: _Node | None = None
        self.total = 0
        self.characters = 0

    def fail(self, message: str, event: yaml.Event, hint: str | None = None) -> InputError:
        return InputError(message, location=Location(self.name, *_start(event)), hint=hint)

    def node(self, value: Any, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> _Node:
        if event.tag is not None:
            raise self.fail(f"the tag {event.tag} is not allowed", event, "write plain values without tags")
        return _Node(value, *_start(event))

    def add(self, node: _Node, event: yaml.Event) -> None:
        """Put a finished or just opened node into its parent."""
        self.total += node.size
        self.characters += node.characters
        if self.total > MAX_NODES:
            raise self.fail(f"the file has more than {MAX_NODES:,} values, aliases expanded", event)
        if self.characters > MAX_CHARACTERS:
            raise self.fail(f"the file has more than {MAX_CHARACTERS:,} characters, aliases expanded", event)
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        parent = top.node
        if isinstance(parent.value, list):
            parent.children[len(parent.value)] = node
            parent.value.append(node.value)
            return
        if top.key is None:
            if isinstance(node.value, (dict, list)):
                raise self.fail("a key must be a word, not a list or a mapping", event)
            raw = event.value if isinstance(event, yaml.ScalarEvent) else str(node.value)
            if raw == "":
                raise self.fail("a key is missing", event)
            if raw == "<<":
                raise self.fail("merge keys ('<<') are not supported", event, "repeat the values")
            if raw in parent.keys:
                line, _ = parent.keys[raw]
                raise self.fail(f"the key '{raw}' is given twice (first in line {line})", event)
            top.key = (raw, node.line, node.column)
            parent.keys[raw] = (node.line, node.column)
            return
        key, _, _ = top.key
        top.key = None
        parent.children[key] = node
        parent.value[key] = node.value

    def open(self, value: Any, event: yaml.CollectionStartEvent) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise self.fail(f"values are nested more than {MAX_DEPTH} deep", event)
        node = self.node(value, event)
        self.add(node, event)
        self.stack.append(_Open(node, event.anchor))

    def close(self) -> None:
        done = self.stack.pop()
        done.node.size = 1 + sum(child.size for child in done.node.children.values())
        done.node.characters = sum(child.characters for child in done.node.children.values())
        # registered only now, so that an alias inside its own anchor is unknown rather than a cycle
        if done.anchor:
            self.anchors[done.anchor] = done.node

    def scalar(self, event: yaml.ScalarEvent) -> None:
        found = unfit(event.value)
        if found:
            raise self.fail(f"text must not hold {found}, a character that cannot be shown", event)
        top = self.stack[-1] if self.stack else None
        is_key = top is not None and isinstance(top.node.value, dict) and top.key is None
        # the first flag says that the scalar is written plainly, without quotes or a tag
        plain = event.implicit[0] and not is_key
        node = self.node(self.resolve(event) if plain else event.value, event)
        node.characters = len(event.value)
        if event.anchor:
            self.anchors[event.anchor] = node
        self.add(node, event)

    def resolve(self, event: yaml.ScalarEvent) -> Any:
        """Value of a plain scalar by the YAML 1.2 core schema."""
        text: str = event.value
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in _BEGINS_NUMBER or not (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            return text
        if len(text) > _MAX_DIGITS:
            raise self.fail(f"a number of {len(text)} digits is too long", event)
        if not _INT.fullmatch(text):
            return float(text)
        if _OCTAL_OR_NOT.fullmatch(text):
            plain = text.lstrip("+-0") or "0"
            octal = "" if set("89") & set(plain) else f" or, if it is octal, 0o{plain}"
            raise self.fail(
                f"the number {text} is octal to some and decimal to others",
                event,
                f"write {plain}{octal}; text goes into quotes",
            )
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self.fail(f"the alias '*{event.anchor}' refers to nothing before it", event)
        node = self.anchors[event.anchor]
        if node.children and len(self.stack) + _depth(node) > MAX_DEPTH:
            raise self.fail(f"values are nested more than {MAX_DEPTH} deep", event)
        self.add(node, event)


def _start(event: yaml.Event) -> tuple[int, int]:
    """Line and column of an event, from 1."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _depth(node: _Node) -> int:
    """Containers on the longest way down; shared sub-trees are visited once, level by level."""
    depth, level = 0, [node]
    while level:
        depth += 1
        level = list({id(c): c for n in level for c in n.children.values() if c.children}.values())
    return depth


def _events(text: str) -> Iterator[yaml.Event]:
    # the parser in C is twenty times faster; wheels have it, some distributions' builds do not
    told = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            yield event
            told += 1
    except yaml.MarkedYAMLError as error:
        if "nesting depth" not in str(error.problem):
            raise
        # it reads ahead and gives up at a thousand levels before it has told of any; the other one tells as it reads
        yield from itertools.islice(yaml.parse(text, Loader=yaml.SafeLoader), told, None)


def _build(text: str, name: str) -> _Node:
    if text.count("\n%") > _MOST_DIRECTIVES:
        raise InputError(
            f"more than {_MOST_DIRECTIVES} lines begin with '%'", location=Location(name), hint="indent them"
        )
    builder = _Builder(name)
    documents = 0
    for event in _events(text):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise builder.fail("the file holds more than one document", event, "keep one per file")
        elif isinstance(event, yaml.MappingStartEvent):
            builder.open({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            builder.open([], event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            builder.close()
        elif isinstance(event, yaml.ScalarEvent):
            builder.scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            builder.alias(event)
    return builder.root or _Node(None, 1, 1)
