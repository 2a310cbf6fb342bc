"""What functions of the interface take for a network, a workload and an accelerator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import real_number
from baco.workloads.network import Network, Workload

if TYPE_CHECKING:
    import torch

    from baco.accel.config import Accelerator
    from baco.api.result import Result
    from baco.exploration.candidate import Candidate
    from baco.exploration.objective import Objective


#: What programs are for unless an accelerator is named.
DEFAULT_ACCELERATOR = "gemmini-default"
#: A built-in name with options or a file (see `network`), a graph, or a model with its example inputs.
NetworkSource: TypeAlias = Union[str, Path, Network, "tuple[torch.nn.Module, object]"]
#: One network, several for one accelerator that runs all, or networks by name or file with weights.
WorkloadSource: TypeAlias = NetworkSource | Sequence[NetworkSource] | Mapping[str, float]
#: A preset, a file, the folder of a study, a configuration, or a design or the best one of a result.
AcceleratorSource: TypeAlias = Union[str, Path, "Accelerator", "Candidate", "Result"]


def network(
    source: NetworkSource | torch.nn.Module,
    inputs: object = None,
    *,
    name: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Network:
    """A network as a graph, from whatever describes it.

    Args:
        source: a built-in name with options (`"bert_base:batch=4"`, see `networks`), a file (`"model.onnx"`,
            `"code.py:function"`, `"table.csv:name"`, `"table.yaml"`), a `torch.nn.Module`, a pair of a module and its
            inputs, or a graph, which is given back.
        inputs: of a module: a tensor, a tuple of positional or a dict of keyword arguments. Their shapes count; the
            model is exported with them by `torch.export`, in evaluation mode.
        name: what reports call a module; by default its class.
        shapes: of inputs of an ONNX model whose dimensions are open, by name.

    Raises InputError for an unknown name, a malformed file, or a model that cannot be exported.
    """
    if isinstance(source, tuple) and len(source) == 2 and inputs is None:
        source, inputs = source
    if isinstance(source, Network):
        return source
    if isinstance(source, (str, Path)):
        if inputs is not None:
            raise InputError("example inputs go with a torch.nn.Module, not with a name or a file")
        from baco.workloads.inputs.load import load_network, with_shapes

        return load_network(with_shapes(str(source), shapes) if shapes is not None else str(source))
    if shapes is not None:
        raise InputError("`shapes` go with an ONNX model")
    if callable(source) and hasattr(source, "named_parameters"):  # without loading PyTorch for anything else
        if inputs is None:
            raise InputError(
                f"a model needs example inputs, and {type(source).__name__} has none",
                hint="give (model, inputs), or baco.network(model, inputs)",
            )
        from baco.workloads.torch.graph import network_of_module

        return network_of_module(source, inputs, name)
    raise InputError(
        f"{type(source).__name__} is no network",
        hint="give a name, a file, a graph, or a torch.nn.Module with example inputs as a pair",
    )


def networks() -> list[str]:
    """Names of the built-in networks."""
    from baco.workloads.inputs.load import network_names

    return list(network_names())


def workload(
    source: WorkloadSource, weights: Sequence[float] | None = None, places: Sequence[Location | None] = ()
) -> Workload:
    """One or several networks with how often each runs.

    Args:
        source: a network, a list of them, or a dict from names or files to weights.
        weights: of a list.
        places: of the networks in a file, for errors that have no place of their own.

    Raises InputError as `network` does, for a weight that is no positive number, and for a network given twice.
    """
    if isinstance(source, Mapping):
        sources: list[Any] = list(source)
        weights = [_weight(name, weight) for name, weight in source.items()]
    else:
        sources = list(source) if isinstance(source, list) else [source]
    if not sources:
        raise InputError("no network is given")
    chosen = [1.0] * len(sources) if weights is None else list(weights)
    for weight in chosen:
        if not 0 < weight < float("inf"):
            raise InputError(f"a network's weight must be a positive number, not {weight}")
    found = []
    for index, one in enumerate(sources):
        place = places[index] if places else None
        if isinstance(one, str) and one in sources[:index]:
            raise InputError(
                f"the network '{one}' is given twice",
                location=place,
                hint="weights are set in the space file",
            )
        try:
            found.append(network(one))
        except InputError as error:
            if error.location is not None or place is None:
                raise
            raise InputError(error.message, location=place, hint=error.hint) from None
    return Workload.of(found, chosen)


def _weight(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"the weight of {name} must be a number", hint="give {network: runs}")
    return real_number(f"the weight of {name}", str(value))


def with_timing(machine: Accelerator, timing: str) -> Accelerator:
    """The accelerator, with predictions and measurements of that timing. Raises InputError for one that there is not, and
    InfeasibleError for a machine that the original's generator refuses."""
    from baco.accel.config import TIMINGS

    if timing not in TIMINGS:
        raise InputError(f"there is no timing '{timing}'", hint=did_you_mean(timing, TIMINGS))
    if timing == "gemmini":
        from baco.sim.engines.original import check_original

        check_original(machine)
    return machine.replace(timing=timing)


def accelerator(source: AcceleratorSource = "gemmini-default", **changes: Any) -> Accelerator:
    """An accelerator's configuration.

    Args:
        source: a preset (`gemmini-default`, `gemmini-lean`, `gemmini-large`, `gemmini-transformer`), a YAML file, or the
            folder of a study (its best design), each with what differs behind it in one line
            (`gemmini-default,dataflow=OS,features.max_pool=false`); a design, or a result (its best design).
        changes: fields of the configuration that differ (`dim=32`); of `features` and `energy` a dict of those in it that do.

    The name of an accelerator with changes says what differs, unless it is among them.

    Raises InputError for an unknown preset, a malformed file, and a field or value that does not exist.
    """
    from baco.accel.config import Accelerator
    from baco.accel.presets import changed_accelerator, load_accelerator

    if isinstance(source, (str, Path)):
        machine = load_accelerator(source)
    elif isinstance(source, Accelerator):
        machine = source
    else:
        best = getattr(getattr(source, "best", source), "accelerator", None)
        if not isinstance(best, Accelerator):
            raise InputError(
                f"{type(source).__name__} is no accelerator",
                hint="give a preset, a file, a study's folder, a design or a result",
            )
        machine = best
    if not changes:
        return machine
    return changed_accelerator(
        machine, {name: _plain(value) for name, value in changes.items()}, "baco.accelerator"
    )


def _plain(value: Any) -> Any:
    """A field's value as a configuration file has it."""
    if hasattr(type(value), "model_fields"):  # all of it, whatever is left out where it is written
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # a number of numpy's
        return value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise InputError(f"{type(value).__name__} is no value of a configuration")


def design(source: AcceleratorSource) -> tuple[Candidate, Objective] | None:
    """The design that a study's folder, a result or a candidate stands for, and its objective; None for bare accelerators.

    A candidate by itself says nothing of an objective: it stands for the energy-delay product.
    """
    from baco.api.result import Result

    if isinstance(source, (str, Path)):
        from baco.accel.presets import preset_names
        from baco.exploration.studies.study import FILE_NAME

        # os.path, unlike Path, takes names that no file can have for missing ones
        if str(source) in preset_names() or not os.path.isfile(os.path.join(source, FILE_NAME)):
            return None
        source = Result(source)
    if isinstance(source, Result):
        return source.best, source.objective
    from baco.exploration.candidate import Candidate

    if not isinstance(source, Candidate):
        return None
    from baco.exploration.objective import Objective

    return source, Objective.parse("edp")
