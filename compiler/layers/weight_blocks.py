"""Weights in blocks with shared powers of two (OCP Microscaling), as loads of arrays of bfloat16 take them from main memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from baco.accel.number_formats import FORMATS, BlockFormat, FloatFormat
from baco.common.errors import InputError

Array: TypeAlias = "np.ndarray[Any, Any]"
#: Formats of blocks whose elements loads take, the smallest first.
BlockWeights = Literal["mxfp4", "mxfp8-e4m3", "mxfp8-e5m2", "mxint8"]
BLOCK_WEIGHTS: tuple[BlockWeights, ...] = get_args(BlockWeights)
#: Channels of a block: those of the specification's formats.
BLOCK_CHANNELS = 32
#: What loads make of weights.
_NUMBERS = FORMATS["bf16"]
#: What CONFIG_LD says of a format.
_LOADED = {
    "mxfp4": {"packed": 1, "block_format": 1},
    "mxfp8-e4m3": {"block_format": 1},
    "mxfp8-e5m2": {"block_format": 2},
    "mxint8": {"block_format": 3},
}


def block_format(form: str) -> BlockFormat:
    """Of a name of `BLOCK_WEIGHTS`."""
    found = FORMATS[form]
    assert isinstance(found, BlockFormat)
    return found


def in_blocks(form: str, numbers: Array) -> Array:
    """What is left of numbers [..., C, K], float64, in blocks of 32 neighbours along C, as bfloat16 holds it."""
    assert isinstance(_NUMBERS, FloatFormat)
    kept = block_format(form).rounded(np.swapaxes(numbers, -1, -2))
    return _NUMBERS.rounded(np.swapaxes(kept, -1, -2))


def even_panel(columns: int, most: int, unit: int) -> int:
    """Columns of a panel of at most `most`, a multiple of `unit`, which leave the fewest beyond the last; an even number."""
    part = -(-columns // -(-columns // most))
    return min(-(-part // unit) * unit, columns + columns % 2)


@dataclass(frozen=True)
class WeightBlocks:
    """How weights of K columns lie in main memory: in panels of columns, one after the other, the last of which may have columns
    that mean nothing.

    A panel has, for every position of the window (S, then R) and every block of 32 channels, a row of powers, a byte for each column,
    and behind it the rows of elements, one for each channel: what a load of a block brings lies together.

    Attributes:
        form: of the blocks, whose elements have 4 bits, two a byte, the first in the low bits, or 8.
        columns: of a panel, an even number.
    """

    form: BlockWeights
    columns: int

    def __post_init__(self) -> None:
        if self.form not in BLOCK_WEIGHTS:
            raise InputError(
                f"there are no weights in '{self.form}'", hint=f"one of {', '.join(BLOCK_WEIGHTS)}"
            )
        if self.columns < 2 or self.columns % 2:
            raise InputError(f"panels of weights have an even number of columns, not {self.columns}")

    @property
    def element_bits(self) -> int:
        """Of an element, without the shared power."""
        return block_format(self.form).element.bits

    @property
    def loaded(self) -> dict[str, int]:
        """Fields of CONFIG_LD."""
        return _LOADED[self.form]

    @property
    def row_bytes(self) -> int:
        """Of a row of elements."""
        return self.columns * self.element_bits // 8

    @property
    def block_bytes(self) -> int:
        """Of a whole block: powers and elements."""
        return self.columns + BLOCK_CHANNELS * self.row_bytes

    def position_bytes(self, channels: int) -> int:
        """Of one position of the window in a panel."""
        return -(-channels // BLOCK_CHANNELS) * self.columns + channels * self.row_bytes

    def panel_bytes(self, positions: int, channels: int) -> int:
        """Of a panel."""
        return positions * self.position_bytes(channels)

    def nbytes(self, positions: int, channels: int, columns: int) -> int:
        """Of all weights."""
        return -(-columns // self.columns) * self.panel_bytes(positions, channels)

    def stored(self, codes: Array) -> Array | None:
        """Bytes (int8, flat) of bfloat16 codes [positions, C, K]; None where these are no such blocks, to the last bit."""
        assert isinstance(_NUMBERS, FloatFormat)
        positions, channels, _ = codes.shape
        padded = np.zeros(
            (positions, channels, -(-codes.shape[2] // self.columns) * self.columns), codes.dtype
        )
        padded[..., : codes.shape[2]] = codes
        # [panels, positions, columns, channels]
        panels = padded.reshape(positions, channels, -1, self.columns).transpose(2, 0, 3, 1)
        powers, elements = block_format(self.form).encode(_NUMBERS.numbers(panels))
        again = _NUMBERS.codes(block_format(self.form).decode(powers, elements))
        if not np.array_equal(again, panels):
            return None
        rows: Array = np.swapaxes(elements, -1, -2).astype(np.uint8)
        if self.element_bits == 4:
            rows = rows[..., ::2] | rows[..., 1::2] << 4
        shared = np.swapaxes(powers, -1, -2).astype(np.uint8)
        parts = []
        for block, first in enumerate(range(0, channels, BLOCK_CHANNELS)):
            within = rows[:, :, first : first + BLOCK_CHANNELS]
            parts += [shared[:, :, block], within.reshape(*within.shape[:2], -1)]
        return np.ascontiguousarray(np.concatenate(parts, axis=-1)).reshape(-1).view(np.int8)
