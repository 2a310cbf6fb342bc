"""The integer reference: every operator of a quantised network in numpy integers, independent of emitted code.

Sums of products are exact (`baco.compiler.ops.int8_products`). The only rounded arithmetic is the float32 scaling of the
accelerator. Runs of several inputs go side by side: arrays then have one dimension more in front, of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.views import View

Array = np.ndarray
#: Elements of a view.
Read = Callable[[View], Array]


def reference(network: QuantisedNetwork, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Elements of every value after a run: inputs, constants, intermediate ones and outputs, by name.

    Args:
        network: quantised.
        inputs: elements of the values of the role `input`, by value name (`quantise.quantise_inputs`).

    Raises:
        InputError: a missing input, one of another shape or type.
    """
    values = reference_runs(network, [inputs])
    constant = {one.name for one in network.values.values() if one.role == "constant"}
    return {name: array if name in constant else array[0] for name, array in values.items()}


def reference_runs(network: QuantisedNetwork, runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The same of several runs side by side: constants as they are, all others with a dimension more in front, of the runs."""
    values: dict[str, Array] = {}
    for value in network.values.values():
        if value.role == "constant":
            values[value.name] = network.constants[value.name]
        elif value.role == "input":
            values[value.name] = np.stack([_input(network, value, inputs) for inputs in runs])
        else:
            values[value.name] = np.zeros((len(runs), *value.shape), np.dtype(value.dtype))
    read = read_runs(network, values, len(runs))
    for op in network.operators:
        if _takes_runs(network, op):
            result = op.compute(read)
        else:
            result = np.stack([_run_alone(network, op, values, run) for run in range(len(runs))])
        target = _in_runs(network, op.output, len(runs))
        assert op.output.shape == result.shape[-len(op.output.shape) :] or not op.output.shape
        target.write(values[op.output.value], result)
    return values


def read_runs(network: QuantisedNetwork, values: Mapping[str, Array], runs: int) -> Read:
    """How views are read in all of so many runs, whose elements are `values` as `reference_runs` gives them."""
    return lambda view: _in_runs(network, view, runs).read(values[view.value])


def _in_runs(network: QuantisedNetwork, view: View, runs: int) -> View:
    value = network.values[view.value]
    if value.role == "constant":
        return view
    return View(view.value, (runs, *view.shape), (math.prod(value.shape), *view.strides), view.offset)


def _run_alone(
    network: QuantisedNetwork, op: IntegerOperator, values: Mapping[str, Array], run: int
) -> Array:
    """The result of one operator in one of the runs."""

    def read(view: View) -> Array:
        shared = network.values[view.value].role == "constant"
        return view.read(values[view.value] if shared else values[view.value][run])

    return op.compute(read)


def _takes_runs(network: QuantisedNetwork, op: IntegerOperator) -> bool:
    """Whether its rule takes operands with a dimension more in front. No rule has weights or biases that differ from run to run."""
    if not op.takes_runs:
        return False
    shared = (getattr(op, name, None) for name in ("weight", "bias"))
    return all(one is None or network.values[one.value].role == "constant" for one in shared)


def _input(network: QuantisedNetwork, value: IntegerTensor, inputs: Mapping[str, Array]) -> Array:
    where = Location(network.name, node=value.name)
    if value.name not in inputs:
        raise InputError(f"the input '{value.name}' is missing", location=where)
    elements = np.asarray(inputs[value.name])
    if elements.shape != value.shape or elements.dtype != np.dtype(value.dtype):
        raise InputError(
            f"the input '{value.name}' is {elements.dtype} {elements.shape}, not {value.dtype} {value.shape}",
            location=where,
        )
    return elements
