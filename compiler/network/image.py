"""The constant image of a program: weights, biases, tables and parameters, one behind the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from baco.compiler.network.memory_plan import ALIGN


def constant_image(
    constants: Mapping[str, np.ndarray], names: Iterable[str]
) -> tuple[np.ndarray, dict[str, int]]:
    """Bytes (int8) of the named constants, little-endian, and where each begins. Equal ones are there once."""
    offsets: dict[str, int] = {}
    known: dict[bytes, int] = {}
    parts: list[bytes] = []
    end = 0
    for name in names:
        array = constants[name]
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        key = hashlib.sha256(data).digest()
        if key not in known:
            known[key] = end
            padded = -(-max(len(data), 1) // ALIGN) * ALIGN
            parts.append(data.ljust(padded, b"\0"))
            end += padded
        offsets[name] = known[key]
    return np.frombuffer(b"".join(parts), dtype=np.int8), offsets
