"""What a bank of memory takes as a law of its size, whatever is counted: area, or energy of an access."""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field


class BankLaw(BaseModel):
    """Of a bank with a port that reads and one that writes; the unit is that of the coefficients, in a technology um2."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    bank: float = Field(ge=0, description="each")
    sqrt_bits: float = Field(ge=0, description="for the root of its bits")
    width: float = Field(ge=0, description="for each bit of a word")
    bits: float = Field(ge=0, description="for each bit")

    def of(self, bits: Any, width: Any) -> Any:
        """Of banks of some bits in all and in a word; numbers, arrays or tensors that broadcast."""
        return self.bank + self.sqrt_bits * _root(bits) + self.width * width + self.bits * bits


def _root(x: Any) -> Any:
    """Square root of a number, array or tensor: rounded correctly everywhere, as powers are not."""
    if isinstance(x, int | float):
        return math.sqrt(x)
    return x.sqrt() if hasattr(x, "sqrt") else np.sqrt(x)


class BankLaws(BaseModel):
    """What banks take that are made of no macros, in units of a library's cells (`memories.json`).

    Attributes:
        source: what it was fitted to.
        area, access: areas of the smallest NAND2; charges of its input, of reading or writing a row.
        access_fo4: delays of an inverter that drives four: the first and the second x log2(bits).
        words, word_bits: of the largest memory it was fitted to: times of banks are those of parts no larger.
        setup_fo4: likewise.
        bit_leakage: of a bit, in that of the NAND2.
        errors: percent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: str
    area: BankLaw
    access: BankLaw
    access_fo4: tuple[float, float]
    words: int = Field(gt=0)
    word_bits: int = Field(gt=0)
    setup_fo4: float
    bit_leakage: float
    errors: dict[str, dict[str, float]]


@cache
def bank_laws() -> BankLaws:
    """The laws with the committed constants (`python -m baco.bench.fit.memories`)."""
    text = resources.files(__package__).joinpath("memories.json").read_text(encoding="utf-8")
    return BankLaws.model_validate_json(text)
