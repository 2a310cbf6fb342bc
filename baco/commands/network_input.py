"""What `baco compile` and `baco run` do with `--network`: a network from any source, quantised, as one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from baco.commands.layer_input import LayerOptions
from common.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from accel.config import Accelerator
    from compiler.network.graph import QuantisedNetwork
    from compiler.network.program import NetworkCode, NetworkProgram

__all__ = ["NetworkRequest", "NetworkUnit", "network_request", "only_networks", "prepare_network"]

#: Inputs that are run differ from those that ranges were taken from.
_OTHER_SEED = 1


@dataclass(frozen=True)
class NetworkRequest:
    """What the command line asks for.

    Attributes:
        spec: of the network (`workloads.load`).
        layers: run repeated blocks only so many times.
        scales: float or power-of-two.
        arguments: of --arg: NAME=FILE.npy, inputs in real numbers; others are random.
        check_layers: compare after every operator, in the program.
        compare: work out what the results must be.
        observe: sees the module after every pass.
    """

    spec: str
    accelerator: Accelerator
    layers: int | None = None
    scales: str = "float"
    seed: int = 0
    target: str = "gemmini"
    baseline: bool = False
    arguments: Sequence[str] = ()
    check_layers: bool = False
    compare: bool = True
    observe: Callable[[str, ModuleOp], None] | None = None


@dataclass(frozen=True)
class NetworkUnit:
    """A quantised network with what its inputs hold and what its values must be.

    Attributes:
        data: of the inputs, by value.
        reference: of all values, if they are compared.
    """

    request: NetworkRequest
    network: QuantisedNetwork
    data: Mapping[str, np.ndarray[Any, Any]]
    reference: Mapping[str, np.ndarray[Any, Any]] | None

    def compile(self, *, check: bool) -> NetworkProgram:
        """The program; with `check` it compares its results itself."""
        from compiler.network.program import compile_network

        return compile_network(
            self.network,
            self.request.accelerator,
            check=check,
            observe=self.request.observe,
            **self._options(),
        )

    def code(self) -> NetworkCode:
        """The module, for its text."""
        from compiler.network.program import network_code

        return network_code(self.network, self.request.accelerator, **self._options())

    def _options(self) -> dict[str, Any]:
        from compiler.network.program import scheduler

        request = self.request
        target: Any = request.target
        return {
            "schedule": scheduler(request.accelerator, target, baseline=request.baseline),
            "data": self.data,
            "reference": self.reference,
            "check_layers": request.check_layers,
        }


def network_request(
    spec: str, accelerator: Accelerator, layer: LayerOptions, others: Mapping[str, object], **options: Any
) -> NetworkRequest:
    """The request, for `NetworkRequest`'s fields by name.

    Args:
        layer: options that describe a layer: none of them goes with a network but --baseline.
        others: options that do not, either, by how they are written.

    Raises InputError where one of them is given.
    """
    if replace(layer, baseline=False) != LayerOptions():
        raise InputError("--network and options that describe a layer exclude each other")
    for name, value in others.items():
        if value:
            raise InputError(f"--network and {name} exclude each other")
    return NetworkRequest(spec, accelerator, baseline=layer.baseline, **options)


def only_networks(options: Mapping[str, object]) -> None:
    """Raises InputError for an option, by how it is written, that means nothing without --network."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(f"{name} goes with --network")


def prepare_network(request: NetworkRequest) -> NetworkUnit:
    """Load, quantise and give inputs. Raises InputError for what is unknown, malformed or cannot be run."""
    from compiler.network.calibrate import random_inputs
    from compiler.network.quantise import quantise, quantise_inputs
    from compiler.network.reference import reference
    from workloads.load import load_network

    if request.target not in ("gemmini", "baco"):
        raise InputError(f"there is no target '{request.target}'", hint="allowed: baco, gemmini")
    if request.layers is not None and request.layers < 1:
        raise InputError(f"a block runs at least once, not {request.layers} times")
    network = load_network(request.spec)
    scales: Any = request.scales
    quantised = quantise(network, seed=request.seed, scales=scales, layers=request.layers)
    inputs = random_inputs(network, request.seed + _OTHER_SEED)
    inputs = {name: array for name, array in inputs.items() if name in quantised.inputs}
    inputs |= _given(request.arguments, quantised)
    data = quantise_inputs(quantised, inputs)
    compare = request.compare or request.check_layers
    return NetworkUnit(request, quantised, data, reference(quantised, data) if compare else None)


def _given(texts: Sequence[str], network: QuantisedNetwork) -> dict[str, np.ndarray[Any, Any]]:
    from pathlib import Path

    from baco.commands.arrays import load_array

    found = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file.endswith(".npy"):
            raise InputError(f"--arg: '{text}' gives no input of a network", hint="write NAME=FILE.npy")
        if name not in network.inputs:
            raise InputError(
                f"the network has no input '{name}'", hint=did_you_mean(name, list(network.inputs))
            )
        found[name] = load_array(Path(file))
    return found
