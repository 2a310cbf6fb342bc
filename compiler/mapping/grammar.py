"""The text of a mapping of one layer, in the grammar of the published measurements.

    L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8

Levels from the outermost in, joined by ` - `; after each level the tensors it keeps, then its temporal
loops, outermost first, then its spatial factor, marked X. A loop that runs once is left out; `N1` stands
for a level without temporal loops. What level 0 keeps tells the dataflow: `L0[W]` weight-stationary,
`L0[O]` output-stationary; of several that keep the same, the spatial dimension of level 1 does. Copies of the tiles of W, I and
O may follow, as ` buffers 2,2,1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from baco.accel.dataflows import DATAFLOWS, Dataflow, dataflow_of
from baco.common.errors import InputError, Location, did_you_mean
from baco.workloads.problem import DIMS

#: Dimension spread over the rows of the array; columns always take K.
ROW_DIM = {flow: rule.row for flow, rule in DATAFLOWS.items()}
#: Loops that may run at level 0, that is, while the stationary operand stays in the registers.
REGISTER_DIMS = {flow: rule.loops[0] for flow, rule in DATAFLOWS.items()}
#: Tensors kept at each level, by dataflow.
KEEPS = {flow: rule.keeps for flow, rule in DATAFLOWS.items()}

NO_LOOP = "N1"
#: Factors of more digits cannot belong to a problem that counts exactly (2^53 MACs).
_MAX_DIGITS = 16
_EXAMPLE = "write it like 'L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8'"
BUFFERS = re.compile(r"(.*) buffers ([12]),([12]),([12])")
INDEX = {name: index for index, name in enumerate(DIMS)}
HEADS: dict[str, tuple[int, str]] = {
    f"L{level}[{keeps}]": (level, keeps) for flow in KEEPS.values() for level, keeps in enumerate(flow)
}


class NestFields(Protocol):
    """What is written: see `baco.compiler.mapping.nest.Mapping`."""

    @property
    def dataflow(self) -> Dataflow: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def temporal(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def order(self) -> tuple[str, str, str, str]: ...


def written_nest(mapping: NestFields) -> str:
    """The mapping in the published grammar, without copies."""
    row, keeps = ROW_DIM[mapping.dataflow], KEEPS[mapping.dataflow]
    spatial = {1: (row, mapping.rows), 2: ("K", mapping.columns)}
    # one row is worth no word unless it tells the dataflow
    tells = dataflow_of(keeps, None) != dataflow_of(keeps, row)
    levels = []
    for level in (3, 2, 1, 0):
        factors = mapping.temporal[level]
        loops = [f"{d}{factors[INDEX[d]]}" for d in reversed(mapping.order[level]) if factors[INDEX[d]] > 1]
        text = f"L{level}[{keeps[level]}] {' '.join(loops) or NO_LOOP}"
        name, factor = spatial.get(level, ("", 1))
        levels.append(f"{text} {name}{factor}X" if factor > 1 or (level == 1 and tells) else text)
    return " - ".join(levels)


def read_nest(text: str, location: Location | None = None) -> dict[str, Any]:
    """The fields of the mapping that a text describes. Raises InputError naming the character at which it goes wrong."""
    copies = BUFFERS.fullmatch(text)
    found = _NestReader(copies[1] if copies else text, location).fields()
    return found | ({"buffering": tuple(int(copies[n]) for n in (2, 3, 4))} if copies else {})


@dataclass
class _NestReader:
    """Where the reading of a mapping's tokens stands.

    Attributes:
        level: that the last head named; 4 before any.
        temporal, orders, kept: by level, what was read.
        rows, columns: spatial factors, the first with its dimension.
    """

    text: str
    location: Location | None
    level: int = 4
    temporal: list[list[int]] = field(default_factory=lambda: [[1] * 7 for _ in range(4)])
    orders: list[list[str]] = field(default_factory=lambda: [[] for _ in range(4)])
    kept: list[str] = field(default_factory=lambda: [""] * 4)
    rows: tuple[str, int] = ("", 1)
    columns: int = 1

    def fields(self) -> dict[str, Any]:
        """Of a mapping."""
        tokens = self.text.split()
        dash = True  # whether a level, rather than a loop, comes next
        empty = False  # whether the level at hand has no loop and no N1 yet
        spatial = False  # whether it has its spatial factor
        for position, token in enumerate(tokens):
            if dash:
                self._head(position, token)
                dash, empty, spatial = False, True, False
            elif token == "-":
                if empty:
                    self._refuse(position, f"level {self.level} has no loops", f"write {NO_LOOP} for none")
                if self.level == 0:
                    self._refuse(position, "there is no level below 0", _EXAMPLE)
                dash = True
            else:
                spatial = self._loop(position, token, spatial)
                empty = False
        if self.level != 0 or dash or empty:
            what = "the mapping ends before level 0" if self.level or dash else "level 0 has no loops"
            self._refuse(len(tokens), what, _EXAMPLE)
        return {
            "dataflow": self._dataflow(tokens),
            "rows": self.rows[1],
            "columns": self.columns,
            "temporal": tuple(map(tuple, self.temporal)),
            "order": tuple(map(_full_order, self.orders)),
        }

    def _head(self, position: int, token: str) -> None:
        """A level and what it keeps."""
        found = HEADS.get(token)
        if found is None or found[0] != self.level - 1:
            _refuse_head(self.text, position, token, self.level - 1, self.location)
        self.level = found[0]
        self.kept[self.level] = found[1]

    def _loop(self, position: int, token: str, seen: bool) -> bool:
        """A loop of the level at hand; whether the level has its spatial factor, as it had if `seen`."""
        name, digits = token[0], token[1:]
        spatial = digits[-1:] == "X"
        if spatial:
            digits = digits[:-1]
        index = INDEX.get(name)
        if index is None or not digits.isdecimal() or not digits.isascii() or len(digits) > _MAX_DIGITS:
            _refuse_loop(self.text, position, token, self.location)
        factor = int(digits)
        if factor < 1:
            self._refuse(position, f"the factor of '{token}' must be at least 1")
        if spatial:
            if seen:
                self._refuse(position, f"level {self.level} has a second spatial factor, '{token}'")
            self._spread(position, token, name, factor)
        elif factor > 1:
            if seen:
                self._refuse(position, f"'{token}' follows the spatial factor of its level")
            if self.temporal[self.level][index] > 1:
                self._refuse(position, f"level {self.level} loops over {name} twice")
            self.temporal[self.level][index] = factor
            self.orders[self.level].append(name)
        return seen or spatial

    def _spread(self, position: int, token: str, name: str, factor: int) -> None:
        """A spatial factor."""
        if self.level == 2 and name == "K":
            self.columns = factor
        elif self.level == 1 and name in ROW_DIM.values():
            self.rows = (name, factor)
        else:
            self._refuse(
                position,
                f"'{token}': level {self.level} cannot spread {name} over the array",
                "K is spread at level 2; "
                + " or ".join(f"{row} ({flow})" for flow, row in ROW_DIM.items())
                + " at level 1",
            )

    def _dataflow(self, tokens: list[str]) -> Dataflow:
        """What the levels keep tells it; what it allows is checked."""
        dataflow = dataflow_of(self.kept, self.rows[0])
        if dataflow is None:
            self._refuse(0, "no dataflow keeps these tensors at these levels", _EXAMPLE)
        if self.rows[1] > 1 and self.rows[0] != ROW_DIM[dataflow]:
            position = tokens.index(f"L0[{self.kept[0]}]")
            message = (
                f"the array rows take {self.rows[0]}, but 'L0[{self.kept[0]}]' makes the mapping {dataflow}"
            )
            self._refuse(position, message, f"with {dataflow}, level 1 spreads {ROW_DIM[dataflow]}")
        for name in self.orders[0]:
            if name not in REGISTER_DIMS[dataflow]:
                position = max(i for i, token in enumerate(tokens) if token.startswith(name))
                message = f"level 0 cannot loop over {name} with dataflow {dataflow}"
                self._refuse(position, message, f"allowed: {', '.join(REGISTER_DIMS[dataflow])}")
        return dataflow

    def _refuse(self, position: int, message: str, hint: str | None = None) -> NoReturn:
        refuse(self.text, position, message, self.location, hint)


def _full_order(outermost_first: list[str]) -> str:
    """A permutation of DIMS, innermost first, absent loops outermost."""
    present = "".join(reversed(outermost_first))
    return present + "".join(name for name in DIMS if name not in present)


def _refuse_head(text: str, position: int, token: str, level: int, location: Location | None) -> NoReturn:
    heads = [head for head, (number, _) in HEADS.items() if number == level]
    if re.fullmatch(r"[A-Z]\d+X?", token) or token == "-":
        message = f"expected level {level}, found '{short(token)}'"
    else:
        message = f"'{short(token)}' is not level {level}"
    refuse(text, position, message, location, did_you_mean(token[:40], heads))


def _refuse_loop(text: str, position: int, token: str, location: Location | None) -> NoReturn:
    if token[0].upper() in INDEX and token[0] not in INDEX:
        hint = f"dimensions are capitals: {', '.join(DIMS)}"
    elif token.startswith("L") or "[" in token:
        hint = "levels are joined by ' - '"
    else:
        hint = f"a loop is one of {', '.join(DIMS)} and a factor of at most {_MAX_DIGITS} digits, like P16 or C16X"
    refuse(text, position, f"'{short(token)}' is no loop", location, hint)


def refuse(
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


def short(token: str) -> str:
    return token if len(token) <= 30 else token[:29] + "…"
