"""Samples of a network's inputs, with or without labels: ranges of its activations are taken from them, and accuracy is measured on
them. And the files that keep them."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder, read_input
from baco.workloads.expand import expand
from baco.workloads.inputs.arrays import load_arrays
from baco.workloads.network import Network

Array = np.ndarray[Any, Any]
#: Samples of a network: arrays by input, a .npz file of them or a folder of such files, or one after the other
#: (`baco.workloads.inputs.samples.read_samples`).
NetworkData: TypeAlias = Mapping[str, Array] | str | Path | Iterable[Any]

#: What labels are called among the arrays, where no input of the network is.
LABEL = "label"
#: How numpy names arrays that were saved without names.
_UNNAMED = re.compile(r"(?:arr_|input_?)(\d+)")


@dataclass(frozen=True, eq=False)
class SampleSet(Sequence[Mapping[str, Array]]):
    """Samples in order, inputs by name each.

    Attributes:
        inputs: of every sample, in the network's own shapes.
        labels: int64 [samples, ...], the class of every sample (of every image of it); None without.
    """

    inputs: tuple[Mapping[str, Array], ...] = ()
    labels: Array | None = None

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Array]: ...
    @overload
    def __getitem__(self, index: slice) -> SampleSet: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Array] | SampleSet:
        if isinstance(index, slice):
            return SampleSet(self.inputs[index], None if self.labels is None else self.labels[index])
        return self.inputs[index]

    def __len__(self) -> int:
        return len(self.inputs)


def read_samples(data: NetworkData, network: Network, names: Sequence[str]) -> SampleSet:
    """The samples that a user gives.

    Args:
        data: what this gave before; arrays by input; a .npz file of them, or a folder of such files, which follow one another in the order of their
            names; or anything that gives such arrays one after the other: as a mapping, or as a pair of them and of labels, as
            torch's loaders do, in which a network with one input needs no name. Each array has the input's shape, or samples along a first axis
            before it (instead of it where that is 1). Arrays that numpy has named (`arr_0`, `arr_1`...) are those of the inputs
            in order. `label` holds the class of every sample, a whole number, or of every image of it.
        names: of the inputs that take part in the results.

    Raises InputError for what is no input, missing, or has another shape or number of samples.
    """
    if isinstance(data, SampleSet):
        return data
    reader = _Reader({tensor.name: tensor.shape for tensor in expand(network).inputs}, names)
    parts = [reader.part(arrays, here) for arrays, here in reader.given(data)]
    if not parts:
        raise InputError("there are no samples in the data", location=_place(data))
    labels = [part.labels for part in parts if part.labels is not None]
    if labels and (len(labels) < len(parts) or len({array.shape[1:] for array in labels}) > 1):
        raise InputError("all samples have labels of one shape, or none has", location=_place(data))
    inputs = tuple(sample for part in parts for sample in part.inputs)
    return SampleSet(inputs, np.concatenate(labels) if labels else None)


def _place(data: NetworkData) -> Location | None:
    return Location(str(data)) if isinstance(data, (str, Path)) else None


@dataclass(frozen=True)
class _Reader:
    """Reads arrays of a network with inputs of these shapes, of which those of `names` take part."""

    shapes: Mapping[str, tuple[int, ...]]
    names: Sequence[str]

    def given(self, data: NetworkData) -> Iterator[tuple[Mapping[str, Array], Location | None]]:
        """Arrays by name, file by file or part by part."""
        if isinstance(data, (str, Path)):
            path = Path(data)
            if not path.is_dir():
                yield load_arrays(path), Location(str(path))
                return
            for file in sorted(path.glob("*.npz")):
                yield load_arrays(file), Location(str(file))
        elif isinstance(data, Mapping):
            yield {name: np.asarray(array) for name, array in data.items()}, None
        else:
            for number, sample in enumerate(data):
                yield self._item(sample, number), Location(f"sample {number}")

    def _item(self, item: Any, number: int) -> Mapping[str, Array]:
        """What a loader gives at once."""
        arrays, labels = item if isinstance(item, (tuple, list)) and len(item) == 2 else (item, None)
        if not isinstance(arrays, Mapping):
            if len(self.names) != 1:
                raise InputError(
                    "arrays without names are the input of a network that has one",
                    location=Location(f"sample {number}"),
                    hint=f"give a dict: {', '.join(self.names)}",
                )
            arrays = {self.names[0]: arrays}
        named = {name: np.asarray(one) for name, one in arrays.items()}
        return named if labels is None else {**named, LABEL: np.asarray(labels)}

    def part(self, arrays: Mapping[str, Array], here: Location | None) -> SampleSet:
        """The samples in arrays by name. Raises InputError, see `read_samples`."""
        given, labels = self._named(arrays, here)
        counts: dict[str, int] = {}
        for name in self.names:
            if name not in given:
                raise InputError(f"the input '{name}' is missing", location=here)
            shape, wanted = given[name].shape, self.shapes[name]
            if shape != wanted and shape[1:] != wanted:
                if len(wanted) < 2 or wanted[0] != 1 or shape[1:] != wanted[1:]:
                    raise InputError(
                        f"the input '{name}' has shape {shape}, neither {wanted} nor samples of it",
                        location=here,
                    )
                given[name] = given[name][:, None]
            if shape != wanted:
                counts[name] = shape[0]
        if len(set(counts.values())) > 1 or 0 in counts.values():
            listed = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
            raise InputError(
                f"as many samples of every input are needed, at least one: {listed}", location=here
            )
        number = max(counts.values(), default=1)
        inputs = tuple(
            {name: given[name][index] if name in counts else given[name] for name in self.names}
            for index in range(number)
        )
        return SampleSet(inputs, None if labels is None else _labels(labels, number, here))

    def _named(
        self, arrays: Mapping[str, Array], here: Location | None
    ) -> tuple[dict[str, Array], Array | None]:
        """Arrays by the network's inputs, and labels."""
        given: dict[str, Array] = {}
        labels = None
        for name, array in arrays.items():
            number = _UNNAMED.fullmatch(name)
            if name in self.shapes:
                given[name] = array
            elif number and int(number[1]) < len(self.shapes):
                given[list(self.shapes)[int(number[1])]] = array
            elif name == LABEL:
                labels = array
            elif not number:
                known = [*self.shapes, LABEL]
                raise InputError(
                    f"the network has no input '{name}'", location=here, hint=did_you_mean(name, known)
                )
        return given, labels


def _labels(labels: Array, samples: int, here: Location | None) -> Array:
    """int64 [samples, ...]. Raises InputError for others."""
    if samples == 1 and (not labels.ndim or len(labels) != 1):
        labels = labels[None]
    if labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise InputError(f"'{LABEL}' holds classes: whole numbers from 0", location=here)
    if not labels.ndim or len(labels) != samples:
        raise InputError(
            f"'{LABEL}' has shape {labels.shape}, with {samples} sample{'s' * (samples > 1)}", location=here
        )
    return labels.astype(np.int64)


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
    def written(cls, path: Path, samples: SampleSet) -> SampleFile:
        """A new file of samples. Equal samples give equal bytes. Raises StorageError."""
        arrays = {name: np.stack([one[name] for one in samples]) for name in samples[0]}
        if samples.labels is not None:
            arrays[LABEL] = samples.labels
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:  # np.savez takes no array by the name of "file"
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
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

    def read(self, network: Network, names: Sequence[str]) -> SampleSet:
        """See `read_samples` and `checked`."""
        return read_samples(self.checked(), network, names)

    def inside(self, folder: Path) -> SampleFile:
        """A file whose path is relative, seen from a folder."""
        return replace(self, path=str(folder / self.path))

    def seen_from(self, folder: Path) -> SampleFile:
        """The same with a path that is relative to a folder; the inverse of `inside`."""
        return replace(self, path=os.path.relpath(self.path, folder))
