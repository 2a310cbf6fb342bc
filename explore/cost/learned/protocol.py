"""What every learned residual takes and gives, and how it is kept in files.

A residual learns log(measured cycles / predicted cycles). It corrects in both directions,

    corrected cycles = predicted cycles * exp(correction),

and says how sure it is: the standard deviation of the correction, in the logarithm.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, Location
from common.files import MAX_INPUT_BYTES, atomic_write, read_input
from common.portable import Floats

__all__ = ["Correction", "Floats", "ProgramFeatures", "Residual", "load_arrays", "store_arrays"]

Arrays = dict[str, NDArray[Any]]
_HEADER = "header.json"
#: A fixed time in archives, so that equal weights are equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class ProgramFeatures:
    """What is known of B programs before they run.

    Attributes:
        names: of the columns of `flat`.
        flat: (B, F) numbers, logarithms of counts mostly; NaN where a quantity does not exist.
        tokens: (B, S, D) numbers of each statement of the program; what stands in masked ones is not looked at.
        mask: (B, S) whether the statement exists.
    """

    names: tuple[str, ...]
    flat: Floats
    tokens: Floats
    mask: NDArray[np.bool_]

    def __post_init__(self) -> None:
        rows = len(self.flat)
        if self.flat.shape != (rows, len(self.names)) or self.tokens.shape[:2] != self.mask.shape:
            raise ValueError("features do not fit together")
        if len(self.tokens) != rows:
            raise ValueError(f"{rows} rows have {len(self.tokens)} rows of statements")

    def __len__(self) -> int:
        return len(self.flat)

    def take(self, rows: NDArray[Any]) -> ProgramFeatures:
        """The rows at indices, or where a boolean array holds."""
        return ProgramFeatures(self.names, self.flat[rows], self.tokens[rows], self.mask[rows])

    @classmethod
    def join(cls, parts: Sequence[ProgramFeatures]) -> ProgramFeatures:
        """One batch after another; all have the same columns."""
        return cls(
            parts[0].names,
            np.concatenate([part.flat for part in parts]),
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([part.mask for part in parts]),
        )


@dataclass(frozen=True)
class Correction:
    """What a residual says of B programs.

    Attributes:
        log: (B,) logarithm of the factor on the predicted cycles, of either sign.
        deviation: (B,) its standard deviation.
        rank: (B,) a score whose order is that of cycles among programs of one task, if the model has such a head.
    """

    log: Floats
    deviation: Floats
    rank: Floats | None = None


class Residual(Protocol):
    """A model of log(measured / predicted)."""

    #: Registered name, as tables and files have it.
    name: str

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """Learn from measurements.

        Args:
            log_ratio: (B,) logarithm of measured over predicted cycles.
            groups: (B,) whole numbers; rows of one group (a task, say) are never split between what a part of the
                model learns from and what its errors are estimated on.
        """
        ...

    def predict(self, features: ProgramFeatures) -> Correction:
        """The correction of each row."""
        ...

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Plain values and arrays from which `restore` rebuilds the model."""
        ...

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """The way back from `arrays`."""
        ...


def store_arrays(
    path: str | Path, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]
) -> None:
    """Write weights as a zip archive of numpy arrays and one JSON text. Raises StorageError."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name: str, content: bytes) -> None:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)

        add(_HEADER, json.dumps(header, sort_keys=True).encode())
        for name, array in sorted(arrays.items()):
            one = io.BytesIO()
            np.lib.format.write_array(one, np.asarray(array, order="C"), allow_pickle=False)
            add(f"{name}.npy", one.getvalue())
    atomic_write(path, data.getvalue())


def load_arrays(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """What `store_arrays` wrote; nothing in the file is executed. Raises InputError for anything else."""
    name = str(path)
    try:
        with zipfile.ZipFile(io.BytesIO(read_input(name))) as archive:
            if sum(info.file_size for info in archive.infolist()) > MAX_INPUT_BYTES:
                raise ValueError("it is too large")
            header = json.loads(archive.read(_HEADER))
            arrays = {
                entry.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(entry)), allow_pickle=False
                )
                for entry in archive.namelist()
                if entry.endswith(".npy")
            }
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise InputError(
            f"these are no weights of a learned model: {error}",
            location=Location(name),
            hint="write them with 'baco model train'",
        ) from None
    return header, arrays
