"""Mappings: how one problem runs on one accelerator, and the least hardware that holds it.

Levels: 0 registers of the processing elements, 1 accumulator, 2 scratchpad, 3 DRAM. A temporal factor
at level l is a loop that runs *over* tiles kept at level l; spatial factors spread one dimension over
the rows of the array (inside level 1) and K over its columns (inside level 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

from baco.accel.dataflows import DATAFLOWS, Dataflow
from baco.common.errors import InputError, Location
from baco.compiler.mapping.grammar import KEEPS, REGISTER_DIMS, ROW_DIM, read_nest, written_nest
from baco.workloads.problem import DIMS, Problem

__all__ = [
    "KEEPS",
    "REGISTER_DIMS",
    "ROW_DIM",
    "Mapping",
    "Requirement",
    "packed_groups",
    "packed_problem",
    "requirement",
    "tile_words",
]


@dataclass(frozen=True)
class Requirement:
    """The least hardware that holds a mapping.

    Attributes:
        rows, columns: array extent used.
        accumulator_words: 32-bit words per array column.
        scratchpad_words: 8-bit words as an unpadded count (the `reference` rule).
        scratchpad_rows: scratchpad rows of `dim` bytes, every tensor block padded to a row (the
            `gemmini` rule).
    """

    rows: int
    columns: int
    accumulator_words: int
    scratchpad_words: int
    scratchpad_rows: int

    @property
    def dim(self) -> int:
        """Least array side; 2 is the least that the hardware has."""
        return max(2, self.rows, self.columns)

    def accumulator_kib(self, dim: int) -> float:
        """Accumulator capacity on an array of side `dim` (4-byte words, a column each)."""
        return dim * self.accumulator_words * 4 / 1024


@dataclass(frozen=True)
class Mapping:
    """One problem on one accelerator.

    Attributes:
        dataflow: one of `baco.accel.dataflows`, which says what stays in the array.
        rows, columns: spatial factors of `ROW_DIM[dataflow]` and of K.
        temporal: factors [level][dimension], dimensions in the order of `DIMS`.
        order: per level the loop order, innermost first, a permutation of `DIMS`.
        buffering: copies of the (W, I, O) tiles held so that the next is moved while this one is used;
            W and I in the scratchpad, O in the accumulator.
    """

    dataflow: Dataflow
    rows: int
    columns: int
    temporal: tuple[tuple[int, ...], ...]
    order: tuple[str, str, str, str]
    buffering: tuple[int, int, int] = (1, 1, 1)

    def __post_init__(self) -> None:
        if self.dataflow not in ROW_DIM:
            raise InputError(f"dataflow must be {' or '.join(DATAFLOWS)}, not {self.dataflow!r}")
        if len(self.temporal) != 4 or any(len(level) != len(DIMS) for level in self.temporal):
            raise InputError("a mapping has 4 levels of 7 temporal factors")
        if min(self.rows, self.columns, *(f for level in self.temporal for f in level)) < 1:
            raise InputError("mapping factors must be at least 1")
        for level, order in enumerate(self.order):
            if sorted(order) != sorted(DIMS):
                raise InputError(f"loop order of level {level} must be a permutation of {''.join(DIMS)}")
        allowed = REGISTER_DIMS[self.dataflow]
        for name, factor in zip(DIMS, self.temporal[0], strict=True):
            if factor > 1 and name not in allowed:
                raise InputError(
                    f"level 0 cannot loop over {name} with dataflow {self.dataflow}",
                    hint=f"allowed there: {', '.join(allowed)}",
                )
        if len(self.buffering) != 3 or any(copies not in (1, 2) for copies in self.buffering):
            raise InputError("buffering gives 1 or 2 copies for each of W, I and O")

    @classmethod
    def parse(cls, text: str, location: Location | None = None) -> Mapping:
        """The mapping that a text in the published grammar describes (`baco.compiler.mapping.grammar`): with the copies of tiles behind
        ` buffers `, else with single ones.

        Loops that the text leaves out get factor 1 and, within their level, the outermost places of the order.

        Args:
            location: where the text stands, for error messages; its column, if any, is that of the first character.

        Raises InputError naming the character at which the text goes wrong.
        """
        if not isinstance(text, str):
            raise InputError(f"a mapping is a text, not {type(text).__name__}", location=location)
        return cls(**read_nest(text, location))

    @property
    def text(self) -> str:
        """In the published grammar, with the copies of tiles where there are several; `parse` reads it back, but for the places
        of loops that run once."""
        copies = "" if self.buffering == (1, 1, 1) else f" buffers {','.join(map(str, self.buffering))}"
        return written_nest(self) + copies

    def __str__(self) -> str:
        return self.text

    def factor(self, name: str, level: int) -> int:
        """Temporal factor of one dimension at one level."""
        return self.temporal[level][DIMS.index(name)]

    def tile(self, level: int) -> dict[str, int]:
        """Extent of each dimension of the tile at `level`, spatial factors inside it included."""
        extent = dict(zip(DIMS, map(math.prod, zip(*self.temporal[: level + 1], strict=True)), strict=True))
        if level >= 1:
            extent[ROW_DIM[self.dataflow]] *= self.rows
        if level >= 2:
            extent["K"] *= self.columns
        return extent

    @property
    def padded_bounds(self) -> tuple[int, ...]:
        """Loop bounds the mapping executes: at least those of the problem."""
        tile = self.tile(3)
        return tuple(tile[name] for name in DIMS)

    def check(self, problem: Problem) -> None:
        """Raise InputError unless the factors cover the problem's bounds."""
        for name, padded, bound in zip(DIMS, self.padded_bounds, problem.bounds, strict=True):
            if padded < bound:
                raise InputError(f"factors of {name} multiply to {padded}, less than its bound {bound}")


def packed_groups(mapping: Mapping, problem: Problem) -> int:
    """Groups of a problem that a mapping runs at once; 1 for most.

    All channels of a group are in the array of a mapping with channels along the rows, and lanes to spare: what would be padding
    serves neighbouring groups, as many as have room in rows and columns, by weights on the diagonal of one matrix.
    """
    levels = range(4)
    whole = all(mapping.factor(name, level) == 1 for name in "CK" for level in levels)
    if problem.groups == 1 or ROW_DIM[mapping.dataflow] != "C" or not whole:
        return 1
    return max(1, min(mapping.rows // problem.C, mapping.columns // problem.K, problem.groups))


def packed_problem(problem: Problem, mapping: Mapping) -> Problem:
    """The problem whose groups are those that a mapping runs at once (`packed_groups`)."""
    packed = packed_groups(mapping, problem)
    if packed == 1:
        return problem
    return replace(problem, C=packed * problem.C, K=packed * problem.K, groups=-(-problem.groups // packed))


class Tiled(Protocol):
    """A mapping, or many of one dataflow and of the same spatial factors: what is said of them is then arrays."""

    @property
    def dataflow(self) -> Dataflow: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def buffering(self) -> tuple[int, int, int]: ...

    def tile(self, level: int) -> Any:
        """See `Mapping.tile`."""


def tile_words(mapping: Tiled, problem: Problem) -> dict[str, int]:
    """Words of one copy of each tensor's tile, by tensor: W and I in the scratchpad, O in one column of the accumulator.

    Source: method specification section 3; the input's halo is part of its tile.
    """
    t1, t2 = mapping.tile(1), mapping.tile(2)
    return {
        "W": t2["R"] * t2["S"] * t2["C"] * t2["K"],
        "I": _input_pixels(t2, problem) * t2["C"],
        "O": t1["P"] * t1["Q"] * t1["K"] * t1["N"],
    }


def _input_pixels(tile: dict[str, int], problem: Problem) -> int:
    """Pixels of the input that a tile's windows cover."""
    return (
        tile["N"]
        * ((tile["P"] - 1) * problem.stride_w + (tile["R"] - 1) * problem.dilation_w + 1)
        * ((tile["Q"] - 1) * problem.stride_h + (tile["S"] - 1) * problem.dilation_h + 1)
    )


def requirement(mapping: Tiled, problem: Problem) -> Requirement:
    """Least hardware for `mapping` (design: used by search and compiler alike).

    Source of the capacities: method specification section 3 (words), with the copies of
    `mapping.buffering`; `scratchpad_rows` pads every W row (one per r, s, c) and every I row (one per
    pixel) to whole array rows as the instruction set's addressing does.
    """
    t2, words = mapping.tile(2), tile_words(mapping, problem)
    copies_w, copies_i, copies_o = mapping.buffering
    pixels = _input_pixels(t2, problem)
    w_rows = t2["R"] * t2["S"] * t2["C"]
    rows_of_c = mapping.rows if ROW_DIM[mapping.dataflow] == "C" else mapping.columns
    return Requirement(
        rows=mapping.rows,
        columns=mapping.columns,
        accumulator_words=copies_o * words["O"],
        scratchpad_words=copies_w * words["W"] + copies_i * words["I"],
        scratchpad_rows=copies_w * w_rows * -(-t2["K"] // mapping.columns)
        + copies_i * pixels * -(-t2["C"] // rows_of_c),
    )
