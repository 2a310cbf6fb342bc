"""Arrays that commands compare and write."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from common.files import atomic_write

__all__ = ["difference", "save_array"]

Array = np.ndarray[Any, Any]


def difference(name: str, found: Array, wanted: Array) -> str | None:
    """The first wrong element and how many are wrong; None when all are right."""
    wrong = np.argwhere(found != wanted)
    if not len(wrong):
        return None
    first = tuple(int(one) for one in wrong[0])
    where = ", ".join(map(str, first))
    return (
        f"wrong: {name}[{where}] is {found[first]}, not {wanted[first]};"
        f" {len(wrong):,} of {found.size:,} elements are wrong"
    )


def save_array(path: Path, array: Array) -> None:
    """Write a .npy file. Raises StorageError when that fails."""
    stream = io.BytesIO()
    np.save(stream, array)
    atomic_write(path, stream.getvalue())
