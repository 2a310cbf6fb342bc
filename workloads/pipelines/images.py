"""Images and arrays in files, for pipelines: PNG, JPEG, PPM and whatever else Pillow reads, and .npy."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.common.files import atomic_write, read_input
from baco.workloads.inputs.arrays import load_array

#: What is read of a folder, by the end of the name.
SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".npy")
#: Pixels of an image that is read.
_MOST_PIXELS = 1 << 28


def read_image(path: Path) -> np.ndarray[Any, Any]:
    """(height, width) of gray, (height, width, 3) of colours as bytes, or the array of a .npy file.

    Raises InputError for files that are neither, and images that are too large.
    """
    if path.suffix.lower() == ".npy":
        return load_array(path)
    from PIL import Image

    here = Location(str(path))
    try:
        with Image.open(io.BytesIO(read_input(path))) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise InputError(f"{image.width}×{image.height} pixels are too many", location=here)
            gray = image.mode in ("1", "L", "I", "I;16", "F")
            return np.asarray(image.convert("L" if gray else "RGB"))
    except InputError:
        raise
    except Exception as error:  # Pillow's plugins raise whatever their formats make them
        raise InputError(f"this is no image that can be read: {error}", location=here) from None


def write_image(path: Path, array: np.ndarray[Any, Any]) -> Path:
    """Write (height, width) or (height, width, 3), limited to 0...255, as the file's suffix says, or any array as .npy.

    Raises InputError for what is no picture, StorageError where writing fails.
    """
    stream = io.BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(stream, array)
    else:
        from PIL import Image

        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
            raise InputError(f"an array of {array.shape} is no picture", location=Location(str(path)))
        pixels = np.clip(np.rint(array), 0, 255).astype(np.uint8)
        try:
            Image.fromarray(pixels).save(stream, Image.registered_extensions()[path.suffix.lower()])
        except KeyError:
            raise InputError(f"there are no pictures '{path.suffix}'", location=Location(str(path))) from None
    atomic_write(path, stream.getvalue())
    return path


def images_of(folder: Path) -> list[Path]:
    """The images in a folder, by name. Raises InputError where there are none."""
    found = sorted(one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError("there are no images in this folder", location=Location(str(folder)))
    return found
