"""The 32-bit word that names a row of the scratchpad or the accumulator."""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.common.errors import InputError

#: Address word that software writes for "nowhere": no operand, or a result that is thrown away.
GARBAGE = 0xFFFFFFFF
#: Largest width of a row index; the bit above it is the garbage bit.
MAX_ROW_BITS = 25
#: Normaliser commands of accumulator stores, by their code.
NORM_COMMANDS = ("RESET", "SUM", "MEAN", "VARIANCE", "INV_STDDEV", "MAX", "SUM_EXP", "INV_SUM_EXP")

_ACCUMULATOR, _ACCUMULATE, _READ_FULL, _NORM = 31, 30, 29, 26


@dataclass(frozen=True)
class LocalAddress:
    """A row of a local memory, and how it is accessed.

    Args:
        row: row index, below 2**25.
        accumulator: the row is one of the accumulator (bit 31), otherwise of the scratchpad.
        accumulate: writes add to the accumulator row instead of replacing it (bit 30).
        read_full: stores read raw accumulator elements instead of scaled ones of input width (bit 29).
        norm: normaliser command of a store, 0..7 (bits 28:26, see `NORM_COMMANDS`).

    Raises InputError when a value is out of range.
    """

    row: int
    accumulator: bool = False
    accumulate: bool = False
    read_full: bool = False
    norm: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.row < 1 << MAX_ROW_BITS:
            raise InputError(
                f"a local address has no row {self.row}", hint=f"rows are 0..{(1 << MAX_ROW_BITS) - 1}"
            )
        if not 0 <= self.norm < len(NORM_COMMANDS):
            raise InputError(f"a local address has no normaliser command {self.norm}", hint="allowed: 0..7")

    @property
    def word(self) -> int:
        """The 32 bits."""
        flags = (
            self.accumulator << _ACCUMULATOR | self.accumulate << _ACCUMULATE | self.read_full << _READ_FULL
        )
        return flags | self.norm << _NORM | self.row

    def __index__(self) -> int:
        return self.word

    @classmethod
    def from_word(cls, word: int) -> LocalAddress:
        """Take a word apart; bit 25, which is never part of a row index, is ignored.

        Raises InputError for the garbage address, which names no row, and for more than 32 bits.
        """
        if not 0 <= word <= 0xFFFFFFFF:
            raise InputError(f"a local address has 32 bits, {word:#x} does not fit")
        if is_garbage(word):
            raise InputError("the garbage address names no row", hint="test is_garbage first")
        return cls(
            row=word & (1 << MAX_ROW_BITS) - 1,
            accumulator=bool(word >> _ACCUMULATOR & 1),
            accumulate=bool(word >> _ACCUMULATE & 1),
            read_full=bool(word >> _READ_FULL & 1),
            norm=word >> _NORM & 7,
        )

    def __str__(self) -> str:
        text = f"{'acc' if self.accumulator else 'spad'}[{self.row}]"
        text += "+" if self.accumulate else ""
        text += " full" if self.read_full else ""
        return text + (f" {NORM_COMMANDS[self.norm].lower()}" if self.norm else "")


def is_garbage(word: int, row_bits: int = MAX_ROW_BITS) -> bool:
    """Whether hardware with row indices of `row_bits` takes the word for the garbage address.

    The three access flags, the garbage bit (bit `row_bits`) and all row bits must be set. The default asks
    for the pattern that is garbage on every accelerator.
    """
    pattern = 7 << _READ_FULL | (1 << row_bits + 1) - 1
    return word & pattern == pattern


def local_address_bits(accelerator: Accelerator) -> int:
    """Bits of a row index: enough for the larger of the two local memories."""
    return max(accelerator.scratchpad_rows - 1, accelerator.accumulator_rows - 1, 1).bit_length()
