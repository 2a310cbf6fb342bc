"""What `baco compile` and `baco run` are given with `--network`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco.api.network_unit import NetworkRequest
from baco.api.sources import accelerator as load_accelerator
from baco.cli.compile_options import DEFAULT_ACCELERATOR, NetworkOptions, ProgramOptions
from baco.cli.layer_input import LayerOptions
from baco.cli.lowering import observer
from baco.common.errors import InputError, Location, only_with
from baco.compiler.network.plan import Plan

__all__ = ["network_request", "only_networks"]


def network_request(
    program: ProgramOptions,
    layer: LayerOptions,
    network: NetworkOptions,
    others: Mapping[str, object] | None = None,
    *,
    compare: bool = True,
) -> NetworkRequest:
    """The request.

    Args:
        layer: none of its options goes with a network but --baseline.
        others: options that do not, either, by how they are written.
        compare: the program compares its results itself.

    Raises InputError where one of them is given.
    """
    spec = str(network.network)
    if replace(layer, baseline=False) != LayerOptions():
        raise InputError("--network and options that describe a layer exclude each other")
    code = {
        "FILE": program.source,
        "--from": program.level,
        "--entry": program.entry,
        "--grid": program.grid,
    }
    for name, value in (code | dict(others or {})).items():
        if value:
            raise InputError(f"--network and {name} exclude each other")
    inputs = _given(program.arguments or ())
    common: dict[str, Any] = {
        "data": network.data,
        "check_layers": network.check_layers,
        "compare": compare,
        "observe": observer(program.dump_after, "instgem"),
    }
    if spec.endswith(".json"):
        return NetworkRequest.of_plan(_plan(spec, program, layer, network), inputs=inputs, **common)
    return NetworkRequest.on(
        program.accelerator,
        network.mappings,
        spec,
        baseline=layer.baseline,
        fusion=network.fusion,
        inputs=inputs,
        layers=network.layers,
        scales=network.scales,
        seed=program.seed,
        **common,
    )


def _plan(spec: str, program: ProgramOptions, layer: LayerOptions, network: NetworkOptions) -> Plan:
    """The plan in a file. Raises InputError for options that it decides."""
    plan = Plan.read(spec)
    decided = {
        "--mappings": network.mappings != "study",
        "--baseline": layer.baseline,
        "--layers": network.layers is not None,
        "--fusion": network.fusion is not None,
        "--scales": network.scales != "float",
        "--seed": program.seed not in (0, plan.seed),
    }
    for name, given in decided.items():
        if given:
            raise InputError(
                f"a plan says it all: {name} and a plan exclude each other", location=Location(spec)
            )
    if program.accelerator != DEFAULT_ACCELERATOR:
        theirs = load_accelerator(program.accelerator).config_hash
        if theirs != plan.accelerator.config_hash:
            raise InputError(
                f"the plan is for the accelerator {plan.accelerator.config_hash}, not for {theirs}",
                location=Location(spec),
                hint="leave --accelerator out",
            )
    return plan


def only_networks(network: NetworkOptions, more: Mapping[str, object] | None = None) -> None:
    """Raises InputError for an option that means nothing without --network; `more`: by how they are written."""
    only_with(
        "--network",
        {
            "--mappings": network.mappings != "study",
            "--layers": network.layers,
            "--data": network.data,
            "--scales": network.scales != "float",
            "--fusion": network.fusion is not None,
            "--check-layers": network.check_layers,
            **(more or {}),
        },
    )


def _given(texts: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file.endswith(".npy"):
            raise InputError(f"--arg: '{text}' gives no input of a network", hint="write NAME=FILE.npy")
        found[name] = Path(file)
    return found
