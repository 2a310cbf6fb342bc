"""Arrays that are filled with random numbers, compared and written."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.files import atomic_write
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.main_memory import check_memory

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


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .npz file. Raises StorageError when that fails."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    atomic_write(path, stream.getvalue())


def filled_buffers(buffers: Sequence[Buffer | None], seed: int) -> list[Buffer | None]:
    """The buffers with random numbers where no file gives their content; those for results alone stay without.

    Args:
        buffers: of all arguments in their order, None for those that are no array.

    Raises InfeasibleError, before any number is drawn, where main memory does not hold them all.
    """
    arrays = [buffer for buffer in buffers if buffer is not None]
    check_memory(
        "the arguments", {buffer.name: buffer.nbytes for buffer in arrays}, hint="make the arrays smaller"
    )

    def filled(buffer: Buffer, index: int) -> Buffer:
        if buffer.data is not None or buffer.role in ("output", "workspace"):
            return buffer
        return replace(buffer, data=random_array(buffer.shape, buffer.dtype, seed, index))

    return [None if buffer is None else filled(buffer, index) for index, buffer in enumerate(buffers)]


def random_array(shape: tuple[int, ...], dtype: str, seed: int, index: int) -> Array:
    """Random numbers: all of an 8-bit type, a few bits less of wider ones, so that sums stay exact."""
    random = np.random.default_rng((seed, index))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    if kind.itemsize > 1:
        least, most = max(int(least), -(1 << 12)), min(int(most), 1 << 12)
    return random.integers(least, most, shape, dtype=kind, endpoint=True)
