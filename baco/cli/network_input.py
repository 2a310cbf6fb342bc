"""What `baco compile` and `baco run` are given with `--network`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco.api.network_unit import NetworkRequest
from baco.cli.compile_options import DEFAULT_ACCELERATOR
from baco.cli.layer_input import LayerOptions
from common.errors import InputError, Location

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
    if spec.endswith(".json"):
        return _of_plan(spec, accelerator, mappings, layer, _given(arguments), options)
    return NetworkRequest.on(
        accelerator, mappings, spec, baseline=layer.baseline, inputs=_given(arguments), **options
    )


def _of_plan(
    spec: str,
    accelerator: str,
    mappings: str,
    layer: LayerOptions,
    inputs: Mapping[str, Path],
    options: Mapping[str, Any],
) -> NetworkRequest:
    from baco.api.sources import accelerator as load_accelerator
    from compiler.network.plan import Plan

    plan = Plan.read(spec)
    decided = {
        "--mappings": mappings != "study",
        "--baseline": layer.baseline,
        "--layers": options.get("layers") is not None,
        "--scales": options.get("scales", "float") != "float",
        "--seed": options.get("seed", 0) != plan.seed and options.get("seed", 0) != 0,
    }
    for name, given in decided.items():
        if given:
            raise InputError(
                f"a plan says it all: {name} and a plan exclude each other", location=Location(spec)
            )
    if accelerator != DEFAULT_ACCELERATOR:
        theirs = load_accelerator(accelerator).config_hash
        if theirs != plan.accelerator.config_hash:
            raise InputError(
                f"the plan is for the accelerator {plan.accelerator.config_hash}, not for {theirs}",
                location=Location(spec),
                hint="leave --accelerator out",
            )
    rest = {name: value for name, value in options.items() if name not in ("layers", "scales", "seed")}
    return NetworkRequest.of_plan(plan, inputs=inputs, **rest)


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
