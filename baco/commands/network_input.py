"""What `baco compile` and `baco run` are given with `--network`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco.api.network_unit import NetworkRequest
from baco.commands.layer_input import LayerOptions
from common.errors import InputError

__all__ = ["network_request", "only_networks"]


def network_request(
    spec: str,
    accelerator: str,
    mappings: str,
    layer: LayerOptions,
    others: Mapping[str, object],
    arguments: Sequence[str],
    **options: Any,
) -> NetworkRequest:
    """The request, for `NetworkRequest`'s fields by name.

    Args:
        accelerator, mappings: of `NetworkRequest.on`.
        layer: options that describe a layer: none of them goes with a network but --baseline.
        others: options that do not, either, by how they are written.
        arguments: of --arg: NAME=FILE.npy, inputs in real numbers.

    Raises InputError where one of them is given.
    """
    if replace(layer, baseline=False) != LayerOptions():
        raise InputError("--network and options that describe a layer exclude each other")
    for name, value in others.items():
        if value:
            raise InputError(f"--network and {name} exclude each other")
    return NetworkRequest.on(
        accelerator, mappings, spec, baseline=layer.baseline, inputs=_given(arguments), **options
    )


def only_networks(options: Mapping[str, object]) -> None:
    """Raises InputError for an option, by how it is written, that means nothing without --network."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} goes with --network")


def _given(texts: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file.endswith(".npy"):
            raise InputError(f"--arg: '{text}' gives no input of a network", hint="write NAME=FILE.npy")
        found[name] = Path(file)
    return found
