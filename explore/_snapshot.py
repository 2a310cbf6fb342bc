"""A searcher's state as bytes: plain arrays, never pickled objects."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from explore.search.base import State


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
    """Inverse of `pack_state`. Raises ValueError for malformed data."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"no snapshot of a searcher: {error}") from error
