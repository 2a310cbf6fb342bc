"""Buffers: arrays in main memory that a program works on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from baco.common.errors import InputError
from baco.compiler.main_memory import check_memory
from baco.workloads.tensor import MOST_RANK

DType = Literal[
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"
]
Role = Literal["input", "output", "inout", "constant", "workspace"]
_ROLES = ("input", "output", "inout", "constant", "workspace")


@dataclass(frozen=True)
class Buffer:
    """An array in main memory, dense and row-major, aligned to 64 bytes.

    Attributes:
        name: identifier; the ELF symbol is `buffer_<name>`.
        shape: sizes; () for one element.
        dtype: of the elements.
        role: input and inout may be given anew for each run, output and inout are read back; a workspace and an
            output without data begin with whatever is in memory.
        data: content at the start, of that shape and type; None: none (input: zeros).
        expected: what it must hold at the end; None: anything.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role = "input"
    data: np.ndarray[Any, Any] | None = field(default=None, compare=False)
    expected: np.ndarray[Any, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or not self.name.isascii():
            raise InputError(f"'{self.name}' cannot name a buffer", hint="use letters, digits and _")
        if self.role not in _ROLES:
            raise InputError(f"a buffer cannot be '{self.role}'", hint="allowed: " + ", ".join(_ROLES))
        if self.dtype not in DType.__args__:  # type: ignore[attr-defined]
            allowed = ", ".join(DType.__args__)  # type: ignore[attr-defined]
            raise InputError(f"buffer '{self.name}' cannot hold {self.dtype}", hint=f"allowed: {allowed}")
        if any(size < 1 for size in self.shape) or len(self.shape) > MOST_RANK:
            raise InputError(
                f"buffer '{self.name}' has the shape {self.shape}; it has at most {MOST_RANK} sizes of at least 1"
            )
        check_memory(f"buffer '{self.name}'", {self.dtype: self.nbytes})
        for what in ("data", "expected"):
            array = getattr(self, what)
            if array is not None:
                _check_array(self, array, what)

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def symbol(self) -> str:
        """Its ELF symbol."""
        return f"buffer_{self.name}"


def _check_array(buffer: Buffer, array: np.ndarray[Any, Any], what: str) -> None:
    if tuple(array.shape) != tuple(buffer.shape) or array.dtype != np.dtype(buffer.dtype):
        raise InputError(
            f"{what} of buffer '{buffer.name}' is {array.dtype}{list(array.shape)},"
            f" not {buffer.dtype}{list(buffer.shape)}"
        )
