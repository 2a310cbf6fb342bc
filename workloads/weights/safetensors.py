"""Files of named tensors: eight bytes with the length of a header, the header in JSON, then the elements.

The format is that of https://github.com/huggingface/safetensors (its README): little endian, rows first, without gaps.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.common.files import check_place

#: The format's own limit.
_LONGEST_HEADER = 100_000_000
#: Type in the header -> how its elements lie in the file; bfloat16 is the upper half of a float32.
_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: its type as the header says it, its shape, the byte at which it begins."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def is_float(self) -> bool:
        """Whether its elements can be weights."""
        return self.dtype in ("F64", "F32", "F16", "BF16")

    def read(self) -> np.ndarray:
        """Its elements as float32. Raises InputError when the file cannot be read any more."""
        count = math.prod(self.shape)
        try:
            raw = np.fromfile(self.path, _TYPES[self.dtype], count, offset=self.offset)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", location=Location(str(self.path))) from None
        if raw.size != count:
            raise InputError("the file has become shorter", location=Location(str(self.path)))
        if self.dtype == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(raw.astype(np.float32, copy=False).reshape(self.shape))


class SafetensorsFile:
    """The tensors of a file, or of all such files of a folder (a checkpoint in several parts), by name.

    Raises InputError for a missing or malformed file, a folder without any, and a name that two files have.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        where = Location(str(path))
        found: dict[str, StoredTensor] = {}
        try:
            files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
            if not files:
                raise InputError("the folder has no files '*.safetensors'", location=where)
            for file in files:
                for name, tensor in _tensors(file).items():
                    if name in found:
                        raise InputError(f"two files have a tensor '{name}'", location=where)
                    found[name] = tensor
        except FileNotFoundError:
            raise InputError("no such file", location=where) from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", location=where) from None
        self.tensors: Mapping[str, StoredTensor] = found


def _tensors(path: Path) -> dict[str, StoredTensor]:
    where = Location(str(path))
    check_place(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InputError("this is not a regular file", location=where)
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(_LONGEST_HEADER, status.st_size - 8):
            raise InputError(
                "this is no safetensors file: its header is longer than the file", location=where
            )
        text = file.read(length)
    try:
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("it is no table")
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no safetensors file: its header: {error}", location=where) from None
    header.pop("__metadata__", None)
    return {name: _tensor(path, name, entry, 8 + length, status.st_size) for name, entry in header.items()}


def _tensor(path: Path, name: str, entry: object, base: int, size: int) -> StoredTensor:
    where = Location(str(path), node=name[:200])
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (
        fields.get("dtype"),
        _whole(fields.get("shape")),
        _whole(fields.get("data_offsets")),
    )
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise InputError("its entry in the header has no type, shape and place", location=where)
    if dtype in _TYPES:
        wanted = math.prod(shape) * _TYPES[dtype].itemsize
        if offsets[1] - offsets[0] != wanted:
            raise InputError(
                f"it has {offsets[1] - offsets[0]:,} bytes, its shape and type {wanted:,}", location=where
            )
    if base + offsets[1] > size:
        raise InputError(
            f"it ends at byte {base + offsets[1]:,} of a file of {size:,}: the file is cut off",
            location=where,
        )
    return StoredTensor(path, dtype, tuple(shape), base + offsets[0])


def _whole(numbers: object) -> list[int] | None:
    fits = isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**62 for n in numbers)
    return numbers if isinstance(numbers, list) and fits else None
