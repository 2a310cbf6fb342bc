"""Mappings and tile trees as text, in the grammar of the published measurements, extended.

    L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8

Levels from the outermost in, joined by ` - `; after each level the tensors it keeps, then its temporal
loops, outermost first, then its spatial factor, marked X. A loop that runs once is left out; `N1` stands
for a level without temporal loops. What level 0 keeps tells the dataflow: `L0[W]` weight-stationary,
`L0[O]` output-stationary; of several that keep the same, the spatial dimension of level 1 does. Copies of the tiles of W, I and O may follow, as ` buffers 2,2,1`.

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

from baco.accel.dataflows import dataflow_of
from baco.common.errors import InputError, Location, did_you_mean
from baco.compiler.mapping.nest import KEEPS, REGISTER_DIMS, ROW_DIM, Mapping
from baco.compiler.mapping.tree import Loop, Relation, Residency, Tile, mapping_of, tree_of
from baco.workloads.problem import DIMS

_NO_LOOP = "N1"
#: Factors of more digits cannot belong to a problem that counts exactly (2^53 MACs).
_MAX_DIGITS = 16
_EXAMPLE = "write it like 'L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8'"
_BUFFERS = re.compile(r"(.*) buffers ([12]),([12]),([12])")
_INDEX = {name: index for index, name in enumerate(DIMS)}
_HEADS: dict[str, tuple[int, str]] = {
    f"L{level}[{keeps}]": (level, keeps) for flow in KEEPS.values() for level, keeps in enumerate(flow)
}


def format_mapping(mapping: Mapping) -> str:
    """The mapping in the published grammar; `parse_mapping` reads it back."""
    row, keeps = ROW_DIM[mapping.dataflow], KEEPS[mapping.dataflow]
    spatial = {1: (row, mapping.rows), 2: ("K", mapping.columns)}
    # one row is worth no word unless it tells the dataflow
    tells = dataflow_of(keeps, None) != dataflow_of(keeps, row)
    levels = []
    for level in (3, 2, 1, 0):
        factors = mapping.temporal[level]
        loops = [f"{d}{factors[_INDEX[d]]}" for d in reversed(mapping.order[level]) if factors[_INDEX[d]] > 1]
        text = f"L{level}[{keeps[level]}] {' '.join(loops) or _NO_LOOP}"
        name, factor = spatial.get(level, ("", 1))
        levels.append(f"{text} {name}{factor}X" if factor > 1 or (level == 1 and tells) else text)
    return " - ".join(levels)


def parse_mapping(text: str, location: Location | None = None) -> Mapping:
    """The mapping that `text` describes, with single buffers.

    Loops that the text leaves out get factor 1 and, within their level, the outermost places of the order.

    Args:
        text: one mapping in the published grammar.
        location: where the text stands, for error messages; its column, if any, is that of the first
            character.

    Raises InputError naming the character at which the text goes wrong.
    """
    tokens = text.split()
    level, keeps = 4, ""
    temporal: list[list[int]] = [[1] * 7 for _ in range(4)]
    orders: list[list[str]] = [[] for _ in range(4)]
    rows, columns = ("", 1), 1
    dash = True  # whether a level, rather than a loop, comes next
    empty = False  # whether the level at hand has no loop and no N1 yet
    seen_spatial = False
    kept: list[str] = [""] * 4
    for position, token in enumerate(tokens):
        if dash:
            found = _HEADS.get(token)
            if found is None or found[0] != level - 1:
                _refuse_head(text, position, token, level - 1, location)
            level, keeps = found
            kept[level] = keeps
            dash, empty, seen_spatial = False, True, False
            continue
        if token == "-":
            if empty:
                _refuse(text, position, f"level {level} has no loops", location, f"write {_NO_LOOP} for none")
            if level == 0:
                _refuse(text, position, "there is no level below 0", location, _EXAMPLE)
            dash = True
            continue
        name, digits = token[0], token[1:]
        spatial = digits[-1:] == "X"
        if spatial:
            digits = digits[:-1]
        index = _INDEX.get(name)
        if index is None or not digits.isdecimal() or not digits.isascii() or len(digits) > _MAX_DIGITS:
            _refuse_loop(text, position, token, location)
        factor = int(digits)
        if factor < 1:
            _refuse(text, position, f"the factor of '{token}' must be at least 1", location)
        empty = False
        if spatial:
            if seen_spatial:
                _refuse(text, position, f"level {level} has a second spatial factor, '{token}'", location)
            seen_spatial = True
            if level == 2 and name == "K":
                columns = factor
            elif level == 1 and name in ROW_DIM.values():
                rows = (name, factor)
            else:
                _refuse(
                    text,
                    position,
                    f"'{token}': level {level} cannot spread {name} over the array",
                    location,
                    "K is spread at level 2; "
                    + " or ".join(f"{row} ({flow})" for flow, row in ROW_DIM.items())
                    + " at level 1",
                )
        elif factor > 1:
            if seen_spatial:
                _refuse(text, position, f"'{token}' follows the spatial factor of its level", location)
            if temporal[level][index] > 1:
                _refuse(text, position, f"level {level} loops over {name} twice", location)
            temporal[level][index] = factor
            orders[level].append(name)
    if level != 0 or dash or empty:
        what = "the mapping ends before level 0" if level or dash else "level 0 has no loops"
        _refuse(text, len(tokens), what, location, _EXAMPLE)
    dataflow = dataflow_of(kept, rows[0])
    if dataflow is None:
        _refuse(text, 0, "no dataflow keeps these tensors at these levels", location, _EXAMPLE)
    if rows[1] > 1 and rows[0] != ROW_DIM[dataflow]:
        position = tokens.index(f"L0[{kept[0]}]")
        message = f"the array rows take {rows[0]}, but 'L0[{kept[0]}]' makes the mapping {dataflow}"
        _refuse(text, position, message, location, f"with {dataflow}, level 1 spreads {ROW_DIM[dataflow]}")
    for name in orders[0]:
        if name not in REGISTER_DIMS[dataflow]:
            position = max(i for i, token in enumerate(tokens) if token.startswith(name))
            message = f"level 0 cannot loop over {name} with dataflow {dataflow}"
            _refuse(text, position, message, location, f"allowed: {', '.join(REGISTER_DIMS[dataflow])}")
    return Mapping(
        dataflow=dataflow,
        rows=rows[1],
        columns=columns,
        temporal=tuple(map(tuple, temporal)),
        order=(
            _full_order(orders[0]),
            _full_order(orders[1]),
            _full_order(orders[2]),
            _full_order(orders[3]),
        ),
    )


def mapping_text(mapping: Mapping) -> str:
    """A mapping in the published grammar, and its copies of the W, I and O tiles."""
    return f"{format_mapping(mapping)} buffers {','.join(map(str, mapping.buffering))}"


def parse_mapping_text(text: str) -> Mapping:
    """What `mapping_text` wrote; places of loops that run once may differ. Raises InputError."""
    found = _BUFFERS.fullmatch(text)
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
    kept = [one.tensor if one.copies == 1 else f"{one.tensor}:{one.copies}" for one in tile.keeps]
    letters = all(len(one) == 1 for one in kept)
    words = [
        f"L{tile.level}[{('' if letters else ',').join(kept)}{',' if len(kept) == 1 and not letters else ''}]"
    ]
    loops = [
        f"{loop.dim}{'' if loop.dim in _INDEX or loop.dim == 'G' else '='}{loop.factor}{'X' if loop.spatial else ''}"
        for loop in tile.loops
        if loop.factor > 1
    ]
    words += loops if loops and not loops[0].endswith("X") else [_NO_LOOP, *loops]
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
    copies = _BUFFERS.fullmatch(text)
    tokens = text.split()
    heads = [token for token in tokens if "[" in token]
    if copies or (len(heads) == 4 and set(heads) <= set(_HEADS) and not re.search(r"[@|()=]|\bG\d", text)):
        mapping = parse_mapping(copies[1] if copies else text, location)
        if copies:
            mapping = replace(mapping, buffering=(int(copies[2]), int(copies[3]), int(copies[4])))
        return tree_of(mapping)
    reader = _TreeReader(text, tokens, location)
    tree = reader.tile()
    if reader.position < len(tokens):
        reader.refuse(f"'{_short(tokens[reader.position])}' follows the whole tree")
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
            self.refuse(f"expected a tile, found '{_short(first)}'", start)
        loops, operator, online = [], "", False
        while (token := self.next(none="")) not in ("", "-", "|", ")") and token not in _RELATIONS:
            if operator:
                self.refuse(f"'{_short(token)}' follows the operator", self.position - 1)
            if token.startswith("@"):
                operator, online = token[1:].removesuffix(_ONLINE), token.endswith(_ONLINE)
            elif token != _NO_LOOP:
                loop = _TREE_LOOP.fullmatch(token)
                if loop is None:
                    self.refuse(f"'{_short(token)}' is no loop", self.position - 1)
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
                self.refuse(f"expected '|' or ')', found '{_short(token)}'", self.position - 1)
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
                self.refuse(f"'{_short(one)}' is no tensor", start)
            yield Residency(found[1], int(found[2] or 1))

    def next(self, none: str = "the end") -> str:
        """The next token."""
        self.position += 1
        return self.tokens[self.position - 1] if self.position <= len(self.tokens) else none

    def refuse(self, message: str, position: int | None = None, hint: str | None = None) -> NoReturn:
        """Raise InputError for a token."""
        at = self.position if position is None else position
        _refuse(self.text, at, message, self.location, hint or _TREE_EXAMPLE)


def _full_order(outermost_first: list[str]) -> str:
    """A permutation of DIMS, innermost first, absent loops outermost."""
    present = "".join(reversed(outermost_first))
    return present + "".join(name for name in DIMS if name not in present)


def _refuse_head(text: str, position: int, token: str, level: int, location: Location | None) -> NoReturn:
    heads = [head for head, (number, _) in _HEADS.items() if number == level]
    if re.fullmatch(r"[A-Z]\d+X?", token) or token == "-":
        message = f"expected level {level}, found '{_short(token)}'"
    else:
        message = f"'{_short(token)}' is not level {level}"
    _refuse(text, position, message, location, did_you_mean(token[:40], heads))


def _refuse_loop(text: str, position: int, token: str, location: Location | None) -> NoReturn:
    if token[0].upper() in _INDEX and token[0] not in _INDEX:
        hint = f"dimensions are capitals: {', '.join(DIMS)}"
    elif token.startswith("L") or "[" in token:
        hint = "levels are joined by ' - '"
    else:
        hint = f"a loop is one of {', '.join(DIMS)} and a factor of at most {_MAX_DIGITS} digits, like P16 or C16X"
    _refuse(text, position, f"'{_short(token)}' is no loop", location, hint)


def _refuse(
    text: str, position: int, message: str, location: Location | None, hint: str | None = None
) -> NoReturn:
    """Raise InputError for the token at `position` (or the end of the text)."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    column = (starts[position] if position < len(starts) else len(text)) + 1
    if location is None:
        location = Location("mapping", column=None, node=f"character {column}")
    elif location.column is not None:
        location = replace(location, column=location.column + column - 1)
    else:
        node = f"{location.node}, character {column}" if location.node else f"mapping, character {column}"
        location = replace(location, node=node)
    raise InputError(message, location=location, hint=hint) from None


def _short(token: str) -> str:
    return token if len(token) <= 30 else token[:29] + "…"
