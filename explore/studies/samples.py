"""Samples of a study's networks, which lie beside it: ranges of its programs are taken from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from baco.common.door import argument
from baco.common.errors import InputError, Location
from baco.common.files import check_output, output_folder
from baco.compiler.network.quantise import names_outside
from baco.workloads.inputs.samples import NetworkData, SampleFile, SampleSet, read_samples
from baco.workloads.network import Workload

#: Samples of the networks of a workload, in their order; what has no length is of one network.
WorkloadData: TypeAlias = NetworkData | Sequence[NetworkData]
#: Samples by the name of their network.
Samples: TypeAlias = Mapping[str, SampleSet]


def check_samples(data: WorkloadData | None, workload: Workload) -> Samples:
    """The samples of every network, by its name; none without data.

    Args:
        workload: as it was loaded: networks with what they compute.

    Raises InputError for data that does not fit, and for a network that cannot be run, so that it has no ranges.
    """
    if data is None:
        return {}
    several = isinstance(data, Sequence) and not isinstance(data, (str, SampleSet))
    given: list[NetworkData] = list(data) if several else [data]  # type: ignore[arg-type]
    names = [network.name for network in workload.networks]
    if len(given) != len(names):
        raise InputError(
            f"samples are given {len(given)} times, for {len(names)} network{'s' * (len(names) > 1)}",
            location=Location(argument("data")),
            hint=f"give one for each, in their order: {', '.join(names)}",
        )
    pairs = zip(workload.networks, given, strict=True)
    return {network.name: read_samples(one, network, names_outside(network)[0]) for network, one in pairs}


def keep_samples(folder: Path, samples: Samples) -> list[Path]:
    """Write samples beside the study in `folder`, in place of those that it had; the files. Raises StorageError."""
    paths = _paths(folder, list(samples))
    for name, path in paths.items():
        output_folder(folder)
        check_output(path)
        SampleFile.written(path, samples[name])
    return list(paths.values())


def kept_samples(folder: Path, workload: Workload) -> dict[str, SampleFile]:
    """The samples beside a study, by the name of their network; those of random ones are left out."""
    paths = _paths(folder, [network.name for network in workload.networks])
    return {name: SampleFile.of(path.resolve()) for name, path in paths.items() if path.exists()}


def _paths(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """`data.npz`, of several networks `data-NAME.npz`."""
    if len(names) == 1:
        return {names[0]: folder / "data.npz"}
    return {name: folder / f"data-{re.sub(r'[^A-Za-z0-9._-]+', '_', name)[:60]}.npz" for name in names}
