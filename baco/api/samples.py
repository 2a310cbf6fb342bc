"""Samples of a network's inputs, which the ranges of its activations are taken from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.api.arrays import load_arrays
from baco.common.errors import InputError, Location, did_you_mean
from baco.workloads.expand import expand
from baco.workloads.network import Network

__all__ = ["read_samples"]

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
