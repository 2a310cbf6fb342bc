"""Samples of a network's inputs, which the ranges of its activations are taken from, and the files that keep them."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder, read_input
from baco.workloads.expand import expand
from baco.workloads.inputs.arrays import load_arrays
from baco.workloads.network import Network

__all__ = ["SampleFile", "read_samples"]

Array = np.ndarray[Any, Any]

#: How numpy names arrays that were saved without names.
_UNNAMED = re.compile(r"(?:arr_|input_?)(\d+)")


def read_samples(
    data: Mapping[str, Array] | Path, network: Network, names: Sequence[str]
) -> list[dict[str, Array]]:
    """Inputs by name, sample by sample.

    Args:
        data: arrays by input, or a .npz file of them; each has the input's shape, or samples along a first axis before it.
            Arrays that numpy has named (`arr_0`, `arr_1`...) are those of the inputs in order.
        names: of the inputs that take part in the results.

    Raises InputError for what is no input, missing, or has another shape or number of samples.
    """
    arrays = load_arrays(data) if isinstance(data, Path) else {k: np.asarray(v) for k, v in data.items()}
    here = Location(str(data)) if isinstance(data, Path) else None
    inputs = {tensor.name: tensor.shape for tensor in expand(network).inputs}
    given: dict[str, Array] = {}
    for name, array in arrays.items():
        number = _UNNAMED.fullmatch(name)
        if name not in inputs and number and int(number[1]) < len(inputs):
            given[list(inputs)[int(number[1])]] = array
        elif name in inputs:
            given[name] = array
        elif not number:
            raise InputError(
                f"the network has no input '{name}'", location=here, hint=did_you_mean(name, list(inputs))
            )
    counts: dict[str, int] = {}
    for name in names:
        if name not in given:
            raise InputError(f"the input '{name}' is missing", location=here)
        shape, wanted = given[name].shape, inputs[name]
        if shape != wanted and shape[1:] != wanted:
            raise InputError(
                f"the input '{name}' has shape {shape}, neither {wanted} nor samples of it", location=here
            )
        if shape != wanted:
            counts[name] = shape[0]
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise InputError(f"as many samples of every input are needed, at least one: {listed}", location=here)
    return [
        {name: given[name][index] if name in counts else given[name] for name in names}
        for index in range(max(counts.values(), default=1))
    ]


@dataclass(frozen=True)
class SampleFile:
    """A .npz file of samples, as studies and plans refer to it.

    Attributes:
        path: of the file.
        digest: of its content (SHA-256): what is measured with other samples is another measurement.
    """

    path: str
    digest: str

    @classmethod
    def of(cls, path: str | Path) -> SampleFile:
        """A file that is there. Raises InputError for one that is not."""
        return cls(str(path), hashlib.sha256(read_input(path)).hexdigest())

    @classmethod
    def written(cls, path: Path, samples: Sequence[Mapping[str, Array]]) -> SampleFile:
        """A new file of samples, inputs by name. Equal samples give equal bytes. Raises StorageError."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:  # np.savez takes no array by the name of "file"
            for name in samples[0]:
                arrays = [one[name] for one in samples]
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                    array = arrays[0] if len(arrays) == 1 else np.stack(arrays)
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
        output_folder(path.parent)
        atomic_write(path, stream.getvalue())
        return cls.of(path)

    def checked(self) -> Path:
        """The file. Raises InputError where it is gone, or has changed."""
        if SampleFile.of(self.path).digest != self.digest:
            raise InputError(
                "these are not the samples any more that they were", location=Location(self.path)
            )
        return Path(self.path)

    def read(self, network: Network, names: Sequence[str]) -> list[dict[str, Array]]:
        """See `read_samples` and `checked`."""
        return read_samples(self.checked(), network, names)

    def inside(self, folder: Path) -> SampleFile:
        """A file whose path is relative, seen from a folder."""
        return replace(self, path=str(folder / self.path))

    def seen_from(self, folder: Path) -> SampleFile:
        """The same with a path that is relative to a folder; the inverse of `inside`."""
        return replace(self, path=os.path.relpath(self.path, folder))
