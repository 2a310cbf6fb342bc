"""Boolean functions of Liberty (User Guide, "function"): what an output is, when an energy holds, what a register takes.

Operators, tightest first: `!` before and `'` behind; `^`; `*`, `&` and nothing between two; `+` and `|`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from baco.common.errors import BacoError

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*(?:\[\d+\])?|[01](?!\w)|[!'^*&+|()])")
_SYMBOLS = {"and": "&", "or": "|", "xor": "^"}


@dataclass(frozen=True)
class BooleanFunction:
    """A node: `kind` is `0`, `1`, `pin`, `not`, `and`, `or` or `xor`; `of` its operands; `name` a pin's."""

    kind: str
    of: tuple[BooleanFunction, ...] = ()
    name: str = ""

    @property
    def names(self) -> set[str]:
        """Pins that it speaks of."""
        return {self.name} if self.kind == "pin" else set().union(*(one.names for one in self.of))

    def verilog(self, values: Mapping[str, str]) -> str:
        """As an expression of one bit, with what stands for each pin."""
        if self.kind == "pin":
            return values[self.name]
        if self.kind in "01":
            return f"1'b{self.kind}"
        if self.kind == "not":
            return f"~{self.of[0].verilog(values)}"
        return "(" + f" {_SYMBOLS[self.kind]} ".join(one.verilog(values) for one in self.of) + ")"

    def probability(self, values: Callable[[str], Any]) -> Any:
        """How often it is true where pins are so independently, `values` by name; numbers or arrays of one shape."""
        if self.kind == "pin":
            return values(self.name)
        if self.kind in "01":
            return float(self.kind)
        given = [one.probability(values) for one in self.of]
        result = given[0]
        if self.kind == "not":
            return 1 - result
        for value in given[1:]:
            both = result * value
            if self.kind == "and":
                result = both
            else:
                result = result + value - (both if self.kind == "or" else 2 * both)
        return result


@lru_cache(maxsize=4096)
def read_function(text: str) -> BooleanFunction:
    """A function of its text. Raises BacoError where that is none."""
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _bad(text)
        tokens.append(match[1])
        at = match.end()
    tokens.append("")
    found = _sum(tokens, text)
    if tokens != [""]:
        raise _bad(text)
    return found


def _bad(text: str) -> BacoError:
    return BacoError(f"'{text}' is no function of Liberty")


def _joined(
    kind: str, symbols: str, part: Callable[[list[str], str], BooleanFunction], tokens: list[str], text: str
) -> BooleanFunction:
    """Parts with one of some symbols between each two."""
    parts = [part(tokens, text)]
    while tokens[0] and tokens[0] in symbols:
        tokens.pop(0)
        parts.append(part(tokens, text))
    return parts[0] if len(parts) == 1 else BooleanFunction(kind, tuple(parts))


def _sum(tokens: list[str], text: str) -> BooleanFunction:
    return _joined("or", "+|", _product, tokens, text)


def _product(tokens: list[str], text: str) -> BooleanFunction:
    parts = [_difference(tokens, text)]
    while tokens[0] in ("*", "&", "!", "(") or tokens[0][:1].isalnum() or tokens[0][:1] == "_":
        if tokens[0] in ("*", "&"):
            tokens.pop(0)
        parts.append(_difference(tokens, text))
    return parts[0] if len(parts) == 1 else BooleanFunction("and", tuple(parts))


def _difference(tokens: list[str], text: str) -> BooleanFunction:
    return _joined("xor", "^", _factor, tokens, text)


def _factor(tokens: list[str], text: str) -> BooleanFunction:
    token = tokens.pop(0) if tokens[0] else ""
    if token == "!":
        return BooleanFunction("not", (_factor(tokens, text),))
    if token == "(":
        factor = _sum(tokens, text)
        if tokens[0] != ")":
            raise _bad(text)
        tokens.pop(0)
    elif token in ("0", "1"):
        factor = BooleanFunction(token)
    elif token[:1].isalpha() or token[:1] == "_":
        factor = BooleanFunction("pin", name=token)
    else:
        raise _bad(text)
    while tokens[0] == "'":
        tokens.pop(0)
        factor = BooleanFunction("not", (factor,))
    return factor
