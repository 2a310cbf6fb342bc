"""A searcher's state as bytes: plain arrays, never pickled objects."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explore.search.base import State

#: Snapshots have some MiB at most; what inflates to more is not one.
_MAX_BYTES = 512 << 20


def pack_state(state: State) -> bytes:
    """A searcher's arrays as an .npz archive: no pickles, and equal states give equal bytes.

    Raises TypeError for arrays of Python objects.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(state):
            array = np.asanyarray(state[name])
            if array.dtype.hasobject:
                raise TypeError(f"the searcher's state '{name}' holds Python objects, not numbers")
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            # A fixed date: an archive's usual time stamp would make equal states differ.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=1)
    return buffer.getvalue()


def unpack_state(data: bytes) -> State:
    """Inverse of `pack_state`. Raises ValueError for malformed data, and for more than any searcher keeps."""
    if not isinstance(data, bytes):
        raise ValueError("no snapshot of a searcher: it is no array of bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise ValueError("no snapshot of a searcher: it is far too large")
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
        raise ValueError(f"no snapshot of a searcher: {error}") from error


def _array(data: bytes) -> NDArray[Any]:
    """The array of a member, whose header must not claim more than is there."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("no snapshot of a searcher: arrays in an unknown format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError("no snapshot of a searcher: an array whose size is not what it says")
    file.seek(0)
    found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found
