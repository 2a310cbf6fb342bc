"""Arrays that are read from files, filled with random numbers, compared and written."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.common.files import atomic_write, read_input
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.main_memory import check_memory
from baco.workloads.tensor import MOST_RANK

__all__ = ["difference", "filled_buffers", "load_array", "load_arrays", "random_array", "save_array"]

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


def filled_buffers(buffers: Sequence[Buffer | None], seed: int) -> list[Buffer | None]:
    """The buffers with random numbers where no file gives their content; those for results alone stay without.

    Args:
        buffers: of all arguments in their order, None for those that are no array.

    Raises InfeasibleError, before any number is drawn, where main memory does not hold them all.
    """
    arrays = [one for one in buffers if one is not None]
    check_memory("the arguments", {one.name: one.nbytes for one in arrays}, hint="make the arrays smaller")

    def filled(one: Buffer, index: int) -> Buffer:
        if one.data is not None or one.role in ("output", "workspace"):
            return one
        return replace(one, data=random_array(one.shape, one.dtype, seed, index))

    return [None if one is None else filled(one, index) for index, one in enumerate(buffers)]


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
