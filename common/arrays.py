"""Arrays as bytes: a searcher's state, a learned model's weights. Plain numbers, never pickled objects."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
#: Archives have some MiB at most; what inflates to more is not one of ours.
_MAX_BYTES = 512 << 20


def pack_arrays(arrays: Mapping[str, NDArray[Any]], level: int = 1) -> bytes:
    """An .npz archive: no pickles, and equal arrays give equal bytes. `level` of compression, 1 to 9.

    Raises TypeError for arrays of Python objects.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            array = np.asarray(arrays[name], order="C")
            if array.dtype.hasobject:
                raise TypeError(f"the array '{name}' holds Python objects, not numbers")
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            # A fixed date: an archive's usual time stamp would make equal arrays differ.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=level)
    return buffer.getvalue()


def unpack_arrays(data: bytes) -> Arrays:
    """Inverse of `pack_arrays`. Raises ValueError for malformed data, and for more than anybody keeps."""
    if not isinstance(data, bytes):
        raise ValueError("no archive of arrays: it is no array of bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise ValueError("no archive of arrays: it is far too large")
            return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}
    except (
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(f"no archive of arrays: {error}") from error


def _array(data: bytes) -> NDArray[Any]:
    """The array of a member, whose header must not claim more than is there."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("no archive of arrays: arrays in an unknown format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError("no archive of arrays: an array whose size is not what it says")
    file.seek(0)
    found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found
