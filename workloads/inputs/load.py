"""From what a user writes behind `--network` to a `Network`."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args, get_type_hints

from baco.common.errors import InputError, did_you_mean
from baco.common.numbers import whole_number
from baco.workloads.network import Network
from baco.workloads.networks import NETWORKS
from baco.workloads.options import LARGEST, split_options
from baco.workloads.weights.checkpoint import with_weights

_FILE = re.compile(
    r"(?P<file>.*?\.(?P<suffix>onnx|tflite|py|csv|yaml|yml|m))(?::(?P<rest>.*))?", re.IGNORECASE | re.DOTALL
)
_FILE_HINT = "a file is MODEL.onnx, MODEL.tflite, CODE.py:FUNCTION, TABLE.csv[:NAME], TABLE.yaml or NETWORK.m"


def network_names() -> tuple[str, ...]:
    """Names of the built-in networks."""
    return tuple(NETWORKS)


def network_options(name: str) -> dict[str, tuple[int | str, tuple[str, ...]]]:
    """Options of a built-in network: name -> (default, allowed values; empty for whole numbers)."""
    definition = NETWORKS[name]
    hints = get_type_hints(definition)
    return {
        option: (parameter.default, tuple(get_args(hints[option])))
        for option, parameter in inspect.signature(definition).parameters.items()
    }


def load_network(spec: str) -> Network:
    """The network that `spec` names.

    Forms: `NAME[:OPTION=VALUE,...]` for built-in networks (transformers take `weights=FILE.safetensors`, or a folder of
    such files: `baco.workloads.weights.checkpoint`), `MODEL.onnx[:batch=N,INPUT=AxBxC,dim.NAME=N]`,
    `MODEL.tflite`, `CODE.py:FUNCTION`, `TABLE.csv[:NAME]`, `TABLE.yaml`, and layers as SCALE-Sim, Timeloop, ZigZag and MAESTRO (`NETWORK.m`)
    have them (`baco.workloads.inputs.published`, `maestro` and `zigzag` beside it; ZigZag's in Python too).

    Raises:
        InputError: unknown name or option, missing, malformed or unsupported file.
    """
    name, _, rest = spec.partition(":")
    if name in NETWORKS:
        return replace(_built_in(name, rest, spec, has_options=":" in spec), spec=spec)
    match = _FILE.fullmatch(spec)
    if match is None:
        raise _unknown(spec, name)
    return replace(_loader(match["suffix"].lower())(match["file"], match["rest"]), spec=spec)


def with_shapes(spec: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """The spec of an ONNX model with the shapes of inputs. Raises InputError for other networks."""
    match = _FILE.fullmatch(spec)
    if match is None or match["suffix"].lower() != "onnx":
        raise InputError(
            "shapes of inputs are given for ONNX models only", hint="built-in networks have options"
        )
    options = [f"{name}={'x'.join(str(int(n)) for n in shape)}" for name, shape in shapes.items()]
    return f"{match['file']}:{','.join([*filter(None, [match['rest']]), *options])}"


def load_again(network: Network) -> Network:
    """A network that is known by its graph alone, as a study keeps it, from where it came from.

    Raises InputError where that is not known, is gone, or has become another network.
    """
    if not network.spec:
        raise InputError(f"'{network.name}' came from a program, which is not there any more")
    found = load_network(network.spec)
    if found.tasks != network.tasks:
        raise InputError(f"'{network.spec}' is not the network any more that it was")
    return found


def describe(network: Network) -> dict[str, Any]:
    """Facts about a network for listings.

    Keys: `name`, `source`, `options`; `macs`, `weights` (trained parameters); `operators` (executed in one
    run, repetitions counted), of these `tensor_operators`, `fused_operators` and `host_operators`;
    `problems` (unique tensor problems); `host_kinds` (kind -> executions); `unsupported` (operator, node,
    reason).
    """
    operators = network.operators
    host_kinds: dict[str, int] = {}
    for op in network.host_operators:
        host_kinds[op.kind] = host_kinds.get(op.kind, 0) + op.repeat
    return {
        "name": network.name,
        "source": network.source,
        "options": dict(network.options),
        "macs": network.macs,
        "weights": network.weight_words,
        "operators": sum(op.repeat for op in operators),
        "tensor_operators": sum(op.repeat for op in operators if op.problem),
        "fused_operators": sum(op.repeat for op in operators if op.fused),
        "host_operators": sum(host_kinds.values()),
        "problems": len(network.tasks),
        "host_kinds": host_kinds,
        "unsupported": [
            {"operator": item.operator, "node": item.node, "reason": item.reason}
            for item in network.unsupported
        ],
    }


def _built_in(name: str, rest: str, spec: str, has_options: bool) -> Network:
    known = network_options(name)
    weights: str | None = None
    chosen: dict[str, int | str] = {}
    for option, value in (split_options(rest, spec) if has_options else {}).items():
        if option == "weights":
            weights = value
            continue
        if option not in known:
            raise InputError(f"network '{name}' has no option '{option}'", hint=did_you_mean(option, known))
        _, allowed = known[option]
        if allowed and value not in allowed:
            raise InputError(f"{option} of '{name}' cannot be '{value}'", hint=did_you_mean(value, allowed))
        chosen[option] = (
            value if allowed else whole_number(f"{option} of '{name}'", value, least=1, most=LARGEST)
        )
    network = NETWORKS[name](**chosen)
    if weights is None:
        return network
    return replace(with_weights(network, weights), options={**network.options, "weights": weights})


def _unknown(spec: str, name: str) -> InputError:
    if os.path.isdir(spec):
        return InputError(f"'{spec}' is a folder, not a network", hint=_FILE_HINT)
    if os.path.exists(spec) or os.sep in spec or re.search(r"\.[A-Za-z]\w*$", name):
        return InputError(
            f"'{spec[:200]}' is not a kind of file that networks are read from", hint=_FILE_HINT
        )
    known = did_you_mean(name, NETWORKS)
    return InputError(f"unknown network '{name[:200]}'", hint=f"{known}; {_FILE_HINT}")


def _load_python(path: str, rest: str | None) -> Network:
    """A function that gives a PyTorch model, or a workload of ZigZag."""
    from baco.workloads.inputs.zigzag import load_zigzag_python

    found = load_zigzag_python(path, rest)
    if found is not None:
        return found
    from baco.workloads.torch.graph import load_torch

    return load_torch(path, rest)


def _loader(suffix: str) -> Callable[[str, str | None], Network]:
    # onnx and torch take up to seconds to import: only when such a file is asked for.
    module, function = {
        "onnx": ("baco.workloads.onnx.graph", "load_onnx"),
        "tflite": ("baco.workloads.tflite.load", "load_tflite"),
        "py": ("baco.workloads.inputs.load", "_load_python"),
        "csv": ("baco.workloads.inputs.tables", "load_csv"),
        "m": ("baco.workloads.inputs.maestro", "load_maestro"),
    }.get(suffix, ("baco.workloads.inputs.tables", "load_yaml_table"))
    loader: Callable[[str, str | None], Network] = getattr(importlib.import_module(module), function)
    return loader
