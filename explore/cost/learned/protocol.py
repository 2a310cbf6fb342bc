"""What a learned residual takes and gives, and how it is kept in files.

A residual learns log(measured cycles / predicted cycles). It corrects in both directions,

    corrected cycles = predicted cycles * exp(correction),

and says how sure it is: the standard deviation of the correction, in the logarithm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common.arrays import Arrays, pack_arrays, unpack_arrays
from baco.common.errors import InputError, Location
from baco.common.files import atomic_write, read_input
from baco.common.portable import Floats

__all__ = ["Arrays", "Correction", "Floats", "ProgramFeatures", "load_arrays", "store_arrays"]

_HEADER = "header"


@dataclass(frozen=True)
class ProgramFeatures:
    """What is known of B programs before they run.

    Attributes:
        names: of the columns of `flat`.
        flat: (B, F) numbers, logarithms of counts mostly; NaN where a quantity does not exist.
    """

    names: tuple[str, ...]
    flat: Floats

    def __post_init__(self) -> None:
        if self.flat.shape != (len(self.flat), len(self.names)):
            raise ValueError("features do not fit together")

    def __len__(self) -> int:
        return len(self.flat)

    def take(self, rows: NDArray[Any]) -> ProgramFeatures:
        """The rows at indices, or where a boolean array holds."""
        return ProgramFeatures(self.names, self.flat[rows])


@dataclass(frozen=True)
class Correction:
    """What a residual says of B programs.

    Attributes:
        log: (B,) logarithm of the factor on the predicted cycles, of either sign.
        deviation: (B,) its standard deviation.
    """

    log: Floats
    deviation: Floats


def store_arrays(
    path: str | Path, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]
) -> None:
    """Write weights as an archive of arrays, one of which is the header as JSON text. Raises StorageError."""
    text = np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8)
    atomic_write(path, pack_arrays({**arrays, _HEADER: text}, level=9))


def load_arrays(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """What `store_arrays` wrote; nothing in the file is executed. Raises InputError for anything else."""
    name = str(path)
    try:
        arrays = unpack_arrays(read_input(name))
        header = json.loads(arrays.pop(_HEADER).tobytes())
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
    except (KeyError, ValueError) as error:
        raise InputError(
            f"these are no weights of a learned model: {error}",
            location=Location(name),
            hint="write them with 'baco model train'",
        ) from None
    return header, arrays
