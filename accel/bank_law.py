"""What a bank of memory takes as a law of its size, whatever is counted: area, or energy of an access."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["BankLaw"]


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
