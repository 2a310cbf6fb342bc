"""Mappings and tile trees as text, in the grammar of the published measurements (`grammar.py`), extended.

Trees of several operators (`baco.compiler.mapping.tree`) add what one operator does without: tiles inside one another after a
relation, in brackets and separated by `|`; names of more than a letter, with commas between tensors and `=` before
factors; copies behind a colon; the operator at the end of its innermost tile, with `:online` if it is a softmax whose rows may
come in blocks (`baco.compiler.mapping.rows`).

    L3[A,B,D,E] m=4 - L2[A:2,B,C,D,E] l=2 Shar( L0[C] m=8 k=64 @scores | L0[E] m=8 n=64 @values )
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from baco.common.errors import InputError, Location
from baco.compiler.mapping.grammar import BUFFERS, HEADS, INDEX, NO_LOOP, refuse, short, written_nest
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.tree import Loop, Relation, Residency, Tile, mapping_of, tree_of


def format_mapping(mapping: Mapping) -> str:
    """The mapping in the published grammar, without the copies of its tiles; `parse_mapping` reads it back."""
    return written_nest(mapping)


def parse_mapping(text: str, location: Location | None = None) -> Mapping:
    """`Mapping.parse` of a text that says nothing of copies."""
    if BUFFERS.fullmatch(text):
        refuse(text, len(text.split()) - 2, "'buffers' is no loop", location, "leave the copies of tiles out")
    return Mapping.parse(text, location)


def mapping_text(mapping: Mapping) -> str:
    """A mapping in the published grammar, and its copies of the W, I and O tiles."""
    return f"{format_mapping(mapping)} buffers {','.join(map(str, mapping.buffering))}"


def parse_mapping_text(text: str) -> Mapping:
    """What `mapping_text` wrote; places of loops that run once may differ. Raises InputError."""
    found = BUFFERS.fullmatch(text)
    if not found:
        raise InputError(f"'{text}' does not end with the copies of the tiles", hint="add 'buffers 1,1,1'")
    w, i, o = (int(found[n]) for n in (2, 3, 4))
    return replace(parse_mapping(found[1]), buffering=(w, i, o))


def format_tree(tree: Tile) -> str:
    """The tree in the grammar; `parse_tree` reads it back. Loops that run once are left out."""
    try:
        mapping = mapping_of(tree)
    except InputError:
        return _tile_text(tree)
    if any(loop.dim == "G" for loop in tree.loops):
        return _tile_text(tree)
    return mapping_text(mapping) if mapping.buffering != (1, 1, 1) else format_mapping(mapping)


def _tile_text(tile: Tile) -> str:
    kept = [
        residency.tensor if residency.copies == 1 else f"{residency.tensor}:{residency.copies}"
        for residency in tile.keeps
    ]
    letters = all(len(tensor) == 1 for tensor in kept)
    words = [
        f"L{tile.level}[{('' if letters else ',').join(kept)}{',' if len(kept) == 1 and not letters else ''}]"
    ]
    loops = [
        f"{loop.dim}{'' if loop.dim in INDEX or loop.dim == 'G' else '='}{loop.factor}{'X' if loop.spatial else ''}"
        for loop in tile.loops
        if loop.factor > 1
    ]
    words += loops if loops and not loops[0].endswith("X") else [NO_LOOP, *loops]
    if tile.operator:
        words.append(f"@{tile.operator}{_ONLINE if tile.online else ''}")
    if len(tile.children) == 1:
        words += ["-", _tile_text(tile.children[0])]
    elif tile.children:
        words += [f"{tile.relation}(", " | ".join(map(_tile_text, tile.children)), ")"]
    return " ".join(words)


_ONLINE = ":online"
_HEAD = re.compile(r"L(\d{1,3})\[([^\[\]]*)\]")
_KEPT = re.compile(r"([A-Za-z0-9_.~/-]+)(?::(\d{1,6}))?")
_TREE_LOOP = re.compile(r"(?:([A-Z])|([A-Za-z0-9_.~/-]+)=)(\d{1,16})(X?)")
_RELATIONS: dict[str, Relation] = {"Seq(": "Seq", "Shar(": "Shar", "Pipe(": "Pipe", "Para(": "Para"}
_TREE_EXAMPLE = "write it like 'L3[A,B,D] m=4 - L2[A,B:2,D] N1 Shar( L0[A] m=8 @a | L0[B] m=8 @b )'"


def parse_tree(text: str, location: Location | None = None) -> Tile:
    """The tree that `text` describes; four levels that keep what those of a mapping do are a mapping, and must be one.

    Raises InputError naming the character at which the text goes wrong.
    """
    copies = BUFFERS.fullmatch(text)
    tokens = text.split()
    heads = [token for token in tokens if "[" in token]
    if copies or (len(heads) == 4 and set(heads) <= set(HEADS) and not re.search(r"[@|()=]|\bG\d", text)):
        mapping = parse_mapping(copies[1] if copies else text, location)
        if copies:
            mapping = replace(mapping, buffering=(int(copies[2]), int(copies[3]), int(copies[4])))
        return tree_of(mapping)
    reader = _TreeReader(text, tokens, location)
    tree = reader.tile()
    if reader.position < len(tokens):
        reader.refuse(f"'{short(tokens[reader.position])}' follows the whole tree")
    return tree


@dataclass
class _TreeReader:
    """Where the reading of a tree's tokens stands."""

    text: str
    tokens: list[str]
    location: Location | None
    position: int = 0
    depth: int = 0

    def tile(self) -> Tile:
        """The tile that begins here, with all inside."""
        start = self.position
        self.depth += 1
        if self.depth > 64:
            self.refuse("tiles lie more than 64 deep")
        first = self.next()
        head = _HEAD.fullmatch(first)
        if head is None:
            self.refuse(f"expected a tile, found '{short(first)}'", start)
        loops, operator, online = [], "", False
        while (token := self.next(none="")) not in ("", "-", "|", ")") and token not in _RELATIONS:
            if operator:
                self.refuse(f"'{short(token)}' follows the operator", self.position - 1)
            if token.startswith("@"):
                operator, online = token[1:].removesuffix(_ONLINE), token.endswith(_ONLINE)
            elif token != NO_LOOP:
                loop = _TREE_LOOP.fullmatch(token)
                if loop is None:
                    self.refuse(f"'{short(token)}' is no loop", self.position - 1)
                loops.append((loop[1] or loop[2], int(loop[3]), bool(loop[4])))
        children: list[Tile] = []
        relation: Relation = "Seq"
        if token == "-":
            children = [self.tile()]
        elif token in _RELATIONS:
            relation = _RELATIONS[token]
            children = [self.tile()]
            while (token := self.next(none="the end")) == "|":
                children.append(self.tile())
            if token != ")":
                self.refuse(f"expected '|' or ')', found '{short(token)}'", self.position - 1)
        elif token:
            self.position -= 1
        self.depth -= 1
        try:
            return Tile(
                int(head[1]),
                tuple(self.kept(head[2], start)),
                tuple(Loop(*one) for one in loops if one[1] != 1),
                tuple(children),
                relation,
                operator,
                online,
            )
        except InputError as error:
            if error.location is not None:
                raise
            self.refuse(error.message, start, error.hint)

    def kept(self, text: str, start: int) -> Iterator[Residency]:
        """Tensors of a head: single letters, or names with commas between them."""
        for one in [part for part in text.split(",") if part] if "," in text or ":" in text else list(text):
            found = _KEPT.fullmatch(one)
            if found is None:
                self.refuse(f"'{short(one)}' is no tensor", start)
            yield Residency(found[1], int(found[2] or 1))

    def next(self, none: str = "the end") -> str:
        """The next token."""
        self.position += 1
        return self.tokens[self.position - 1] if self.position <= len(self.tokens) else none

    def refuse(self, message: str, position: int | None = None, hint: str | None = None) -> NoReturn:
        """Raise InputError for a token."""
        at = self.position if position is None else position
        refuse(self.text, at, message, self.location, hint or _TREE_EXAMPLE)
