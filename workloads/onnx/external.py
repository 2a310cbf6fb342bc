"""Tensors whose elements an ONNX model keeps in files of their own, beside it and nowhere else."""

from __future__ import annotations

import math
import os
import re
import stat
from pathlib import PurePosixPath

import numpy as np
import onnx

from baco.common.errors import InputError

#: Bits of an element of types that numpy has no itemsize of.
_PACKED = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the elements are in another file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def read_external(tensor: onnx.TensorProto, folder: str) -> onnx.TensorProto | None:
    """The tensor with its elements, as many bytes as its shape has; None if their file does not exist.

    Args:
        folder: of the model.

    Raises InputError for a location outside of the folder, for links and what is no regular file, and where offset or
    length do not fit file and shape.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _path(entries.get("location", ""), folder)
    if path is None:
        return None
    wanted = _bytes_of(tensor)
    offset = _number("offset", entries.get("offset", "0"))
    length = _number("length", entries.get("length", str(wanted)))
    if length != wanted:
        raise InputError(f"its external data have {length:,} bytes, its shape {wanted:,}")
    try:
        # opened without following a link that takes the file's place meanwhile
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError("its external data are not in a regular file")
            if offset + length > status.st_size:
                raise InputError(
                    f"its external data end at byte {offset + length:,} of a file of {status.st_size:,}"
                )
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        raise InputError(f"its external data cannot be read: {error.strerror}") from None
    whole = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    whole.raw_data = data
    return whole


def _path(location: str, folder: str) -> str | None:
    """The file at a location; None if there is none."""
    parts = PurePosixPath(location.replace("\\", "/")).parts
    if not parts or "\0" in location or parts[0] == "/" or ".." in parts or re.match(r"[A-Za-z]:", location):
        raise InputError("its external data are outside of the model's folder")
    path = folder
    for part in parts:
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"its external data cannot be read: {error.strerror}") from None
        if stat.S_ISLNK(mode):
            raise InputError("its external data lie behind a link, which may leave the model's folder")
    return path


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise InputError(f"its external data have the {name} '{text[:40]}'")
    return int(text)


def _bytes_of(tensor: onnx.TensorProto) -> int:
    """Bytes of the elements in the form in which they are stored."""
    elements = int(math.prod(tensor.dims))
    if any(size < 0 for size in tensor.dims):
        raise InputError("it has a negative extent")
    try:
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        bits = (
            _PACKED.get(name) or 8 * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
        )
    except (ValueError, KeyError, TypeError):
        raise InputError(f"its elements have the unknown type {tensor.data_type}") from None
    return -(-elements * bits // 8)
