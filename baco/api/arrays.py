"""Arrays that are read from files, compared and written."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import InputError, Location
from common.files import atomic_write, read_input
from workloads.tensor import MOST_RANK

__all__ = ["difference", "load_array", "save_array"]

Array = np.ndarray[Any, Any]


def load_array(path: Path) -> Array:
    """The array of numbers in a .npy file. Raises InputError for any other content; nothing is unpickled.

    The header is believed only where as many bytes follow it as it says.
    """
    here = Location(str(path))
    data = read_input(path)
    if data[:2] == b"PK":
        raise InputError("this is an archive, not one array", location=here)
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise InputError(f"this is no array of numbers: version {version} of the format", location=here)
    except (ValueError, EOFError, OSError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"this is no array: {error}", location=here) from None
    if dtype.kind not in "biuf" or dtype.subdtype is not None:
        raise InputError(f"this is no array of numbers: its elements are {dtype}", location=here)
    size, follow = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if len(shape) > MOST_RANK or any(extent < 0 for extent in shape) or size != follow:
        raise InputError(
            f"this is no array: {follow:,} bytes follow the header of an array {dtype}{list(shape)}",
            location=here,
        )
    elements = np.frombuffer(data, dtype, offset=stream.tell())
    return elements.reshape(shape, order="F" if by_columns else "C").copy()


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
