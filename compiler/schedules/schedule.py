"""Schedules: how a layer is carried out on one accelerator, in one of the code styles."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from baco.common.errors import InputError
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import format_mapping, mapping_text, parse_mapping_text

_LOOP_CONV = re.compile(
    r"loop_conv (\d+(?:,\d+){6}) order ([nqpksrc]{7})(?: (\d+) pixels a row)?( downsample)?"
    r"(?: keep( input)?( weights)?)?"
)


class Schedule(ABC):
    """How a layer is carried out in one code style: its mapping or tiling, and what else the style leaves open.

    Subclasses are frozen dataclasses. What the code styles make of them: `baco.compiler.schedules.style.Style`.

    Attributes:
        style: the code style, with which the text begins.
        by_macros: whether runs of a loop macro do the work, not single moves and computes.
    """

    style: ClassVar[str]
    by_macros: ClassVar[bool] = False

    @property
    def groups_at_once(self) -> int:
        """Groups of the layer that a pass of the array serves."""
        return 1

    @property
    def pixels_at_once(self) -> int:
        """Pixels of the window that a row of the array holds."""
        return 1

    @property
    def text(self) -> str:
        """One line, which `parse` reads: for keys, tables, plans and data sets."""
        return str(self)

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self | None:
        """What `text` wrote; None for what is no text of this style. Raises InputError for sizes that are none."""


@dataclass(frozen=True)
class ExplicitSchedule(Schedule):
    """Loops of explicit moves, preloads and computes, as a mapping says.

    Attributes:
        mapping: tile factors, loop orders, dataflow, buffering.
    """

    mapping: Mapping

    style: ClassVar[str] = "explicit"

    def __str__(self) -> str:
        return f"explicit {format_mapping(self.mapping)}"

    @property
    def text(self) -> str:
        return f"explicit {mapping_text(self.mapping)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        style, _, mapping = text.partition(" ")
        return cls(parse_mapping_text(mapping)) if style == cls.style else None


@dataclass(frozen=True)
class DepthwiseSchedule(Schedule):
    """Several groups of a grouped convolution at once, with explicit moves.

    Their weights are expanded into one block-diagonal matrix a window position, in a workspace that the host fills
    first, so that one pass of the array serves `packed` groups.

    Attributes:
        mapping: of the packed problem: `packed` times the C and the K of a group, `groups / packed` groups (rounded
            up).
        packed: groups at once; the channels of neighbouring groups must be adjacent in input and output.
    """

    mapping: Mapping
    packed: int

    style: ClassVar[str] = "packed"

    def __post_init__(self) -> None:
        if self.packed < 1:
            raise InputError(f"a pass cannot serve {self.packed} groups")

    def __str__(self) -> str:
        return f"packed {self.packed} {format_mapping(self.mapping)}"

    @property
    def groups_at_once(self) -> int:
        return self.packed

    @property
    def text(self) -> str:
        return f"packed {self.packed} {mapping_text(self.mapping)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        style, packed, mapping = (*text.split(" ", 2), "", "")[:3]
        if style != cls.style or not packed.isdecimal():
            return None
        return cls(parse_mapping_text(mapping), int(packed))


@dataclass(frozen=True)
class LoopWsSchedule(Schedule):
    """A matrix product in tiles, one run of LOOP_WS each.

    Attributes:
        i, j, k: blocks of `dim` rows of A, columns of B and depth in a full tile.
        order: the loops over tiles, outermost first, a permutation of "ijk".
        keep_a, keep_b: an operand that the next tile uses again stays in the scratchpad (spad ids 1 and 2), as far as
            the order allows.
    """

    i: int
    j: int
    k: int
    order: str = "ijk"
    keep_a: bool = False
    keep_b: bool = False

    style: ClassVar[str] = "loop_ws"
    by_macros: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if min(self.i, self.j, self.k) < 1 or sorted(self.order) != ["i", "j", "k"]:
            raise InputError(f"no tiling of a matrix product: {self}")

    def __str__(self) -> str:
        kept = "".join(name for name, kept in (("A", self.keep_a), ("B", self.keep_b)) if kept)
        return f"loop_ws {self.i},{self.j},{self.k} order {self.order}" + (f" keep {kept}" if kept else "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = re.fullmatch(r"loop_ws (\d+),(\d+),(\d+) order ([ijk]{3})(?: keep (A?B?))?", text)
        if found is None:
            return None
        kept = found[5] or ""
        return cls(
            int(found[1]), int(found[2]), int(found[3]), found[4], keep_a="A" in kept, keep_b="B" in kept
        )


@dataclass(frozen=True)
class LoopConvSchedule(Schedule):
    """A convolution in tiles, one run of LOOP_CONV_WS each.

    Attributes:
        batches, rows, columns, out_channels: of a full tile's (pooled) results.
        kernel_rows, kernel_columns, in_channels: of a full tile's window.
        order: the loops over tiles, outermost first, a permutation of "nqpksrc" (batch, result row and column, output
            channel, kernel row and column, input channel).
        pixels: pixels of the window packed in one array row (max_pixels_per_row).
        downsample: the macro's mode for windows of one pixel and stride 2.
        keep_input, keep_weights: an operand that the next tile uses again stays in the scratchpad.
    """

    batches: int
    rows: int
    columns: int
    out_channels: int
    kernel_rows: int
    kernel_columns: int
    in_channels: int
    order: str = "nqpksrc"
    pixels: int = 1
    downsample: bool = False
    keep_input: bool = False
    keep_weights: bool = False

    style: ClassVar[str] = "loop_conv"
    by_macros: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if min(self.tile) < 1 or self.pixels < 1 or sorted(self.order) != sorted("nqpksrc"):
            raise InputError(f"no tiling of a convolution: {self}")

    @property
    def tile(self) -> tuple[int, int, int, int, int, int, int]:
        """Batch, result rows, columns, output channels, kernel rows, columns, input channels."""
        return (
            self.batches, self.rows, self.columns, self.out_channels,
            self.kernel_rows, self.kernel_columns, self.in_channels,
        )  # fmt: skip

    @property
    def pixels_at_once(self) -> int:
        return self.pixels

    def __str__(self) -> str:
        kept = [name for name, kept in (("input", self.keep_input), ("weights", self.keep_weights)) if kept]
        extra = f" {self.pixels} pixels a row" if self.pixels > 1 else ""
        extra += " downsample" if self.downsample else ""
        extra += f" keep {' '.join(kept)}" if kept else ""
        return f"loop_conv {','.join(map(str, self.tile))} order {self.order}{extra}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = _LOOP_CONV.fullmatch(text)
        if found is None:
            return None
        n, q, p, k, s, r, c = (int(size) for size in found[1].split(","))
        return cls(
            n, q, p, k, s, r, c,
            order=found[2], pixels=int(found[3] or 1), downsample=bool(found[4]),
            keep_input=bool(found[5]), keep_weights=bool(found[6]),
        )  # fmt: skip
