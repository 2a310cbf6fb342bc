"""Just enough reading of our own Verilog sources to put an accelerator together from them.

The sources keep to rules that make this reading exact: one module a file, conditional directives alone on
their line, instances as `module #(` or `module name (`. Whatever breaks them is a mistake in the sources and
raises ValueError with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_DIRECTIVE = re.compile(r"^\s*`(ifdef|ifndef|elsif|else|endif)\b\s*(\w*)\s*(?://.*)?$")
_ANY_DIRECTIVE = re.compile(r"`(?:ifdef|ifndef|elsif|else|endif)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)
_INSTANCE = re.compile(r"(?<![\w`.$])(baco_\w+)\s*(?:#\s*\(|[A-Za-z_]\w*\s*\()")
_MACRO = re.compile(r"`(BACO_\w+)")
_PORT = re.compile(r"^\s*(input|output) (?:wire|reg) (?:\[([^\]]+)-1:0\] |\[(\d+):0\] )?(\w+)", re.MULTILINE)


def resolve_conditionals(text: str, features: Mapping[str, bool], file: str = "source") -> str:
    """Take or drop what stands between conditional directives on known names, textually, as `kept_lines` says."""
    lines = text.splitlines()
    return "\n".join(lines[number - 1] for number in kept_lines(text, features, file)) + "\n"


def kept_lines(text: str, features: Mapping[str, bool], file: str = "source") -> list[int]:
    """Numbers, from 1, of the lines that are not dropped with their branch of a conditional directive.

    Args:
        text: a Verilog source.
        features: macro names and whether they count as defined. Directives on other names stay, except names
            that begin with `BACO_`: those must be known.
        file: named in errors.

    Raises ValueError for an unknown `BACO_` name, an unbalanced directive, and one not alone on its line.
    """
    kept: list[int] = []
    # innermost last: (known name, its branch is taken, line, an else was seen)
    open_: list[tuple[bool, bool, int, bool]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _DIRECTIVE.match(line) if "`" in line else None
        if match is None:
            if "`" in line and _ANY_DIRECTIVE.search(_COMMENT.sub("", line)):
                raise ValueError(f"{file}:{number}: a conditional directive must be alone on its line")
            if all(taken for _, taken, _, _ in open_):
                kept.append(number)
            continue
        word, name = match.groups()
        if word in ("ifdef", "ifndef"):
            known = name in features
            if not known and name.startswith("BACO_"):
                raise ValueError(f"{file}:{number}: there is no feature {name}")
            open_.append((known, not known or features[name] == (word == "ifdef"), number, False))
        elif not open_:
            raise ValueError(f"{file}:{number}: `{word} without `ifdef")
        elif word == "else":
            known, taken, start, seen = open_[-1]
            if seen:
                raise ValueError(f"{file}:{number}: a second `else")
            open_[-1] = (known, not known or not taken, start, True)
        elif word == "elsif" and open_[-1][0]:
            raise ValueError(f"{file}:{number}: `elsif is not supported")
        known = open_[-1][0]
        if word == "endif":
            open_.pop()
        if not known and all(taken for _, taken, _, _ in open_):
            kept.append(number)
    if open_:
        raise ValueError(f"{file}:{open_[-1][2]}: `ifdef without `endif")
    return kept


@lru_cache(maxsize=512)  # of modules that many accelerators have
def without_comments(text: str) -> str:
    """The source with comments replaced by a space; text in quotes stays."""
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


def instantiated_modules(text: str) -> list[str]:
    """Names beginning with `baco_` of the modules that the source instantiates, by first use, each once."""
    code = re.sub(r"\bmodule\s+\w+", " ", without_comments(text))
    return list(dict.fromkeys(_INSTANCE.findall(code)))


def used_macros(text: str) -> set[str]:
    """Names of the `BACO_` macros that the source uses."""
    return set(_MACRO.findall(without_comments(text)))


@dataclass(frozen=True)
class ModulePort:
    """Of a module: `width` is an expression of its parameters."""

    name: str
    output: bool
    width: str


def module_ports(text: str) -> list[ModulePort]:
    """Of the module in a text, in order."""
    head = text[text.index("\nmodule ") if "\nmodule " in text else text.index("module ") : text.index(");")]
    return [
        ModulePort(name, direction == "output", width or (str(int(high) + 1) if high else "1"))
        for direction, width, high, name in _PORT.findall(head)
    ]
