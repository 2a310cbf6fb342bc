"""Arrays of numbers in files of numpy, read with nothing believed and nothing unpickled."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.common.files import read_input
from baco.workloads.tensor import MOST_RANK

Array = np.ndarray[Any, Any]

#: What the arrays of an archive may take in memory.
_MOST_BYTES = 1 << 32


def load_array(path: Path) -> Array:
    """The array of numbers in a .npy file. Raises InputError for any other content; nothing is unpickled.

    The header is believed only where as many bytes follow it as it says.
    """
    data = read_input(path)
    if data[:2] == b"PK":
        raise InputError("this is an archive, not one array", location=Location(str(path)))
    return _array(data, Location(str(path)))


def load_arrays(path: Path) -> dict[str, Array]:
    """The arrays of numbers in a .npz file, by name. Raises InputError for any other content; nothing is unpickled."""
    here = Location(str(path))
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_input(path)))
        members = archive.infolist()
        if sum(member.file_size for member in members) > _MOST_BYTES:
            raise InputError(f"its arrays take more than {_MOST_BYTES:,} bytes", location=here)
        return {
            member.filename.removesuffix(".npy"): _array(
                archive.read(member), Location(str(path), node=member.filename)
            )
            for member in members
        }
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InputError(f"this is no archive of arrays: {error}", location=here) from None


def _array(data: bytes, here: Location) -> Array:
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
