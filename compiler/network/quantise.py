"""Static quantisation of a network to int8, symmetric.

The float network is run on samples to find every activation's largest magnitude; weights and activations then get one
scale each (zero point 0; weights one for each output channel if wanted), biases are int32 in the units of the products, batch normalisation and constant factors are
folded into weights. What follows a tensor operator and fits into its requantisation is fused into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network import (
    float_contractions,
    float_graph,
    given_floats,
    given_operators,
    given_pointwise,
    given_shifts,
)
from baco.compiler.network import host_operators as host
from baco.compiler.network import normalise_operators as normalise
from baco.compiler.network import selection_operators as selection
from baco.compiler.network import tensor_operators as tensor
from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, semantics_of
from baco.compiler.network.calibrate import (
    Ranges,
    calibrate,
    check_ranges,
    index_inputs,
    needed,
    random_samples,
)
from baco.compiler.network.compensation import ReadMoments
from baco.compiler.network.cones import table_cones
from baco.compiler.network.equalise import equalised
from baco.compiler.network.given import given_encodings
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.masks import fold_computed_masks, fold_factors, fold_masks
from baco.compiler.network.memory_bound import check_network_memory
from baco.compiler.network.parameters import Parameters, ParameterShapes
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.requantise import settle_requantisations
from baco.compiler.network.spelled_out import fold_spelled_out
from baco.compiler.network.transposed import interleave, transposed_convolution
from baco.compiler.ops.arithmetic import saturate8
from baco.workloads.expand import expand
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.views import Transpose

#: Function of `baco.workloads.semantics` -> the rule that adds its integer operators.
RULES: dict[str, Callable[[IntegerBuilder, Operator], None]] = {
    "conv": tensor.convolution,
    "conv_transpose": transposed_convolution,
    "interleave": interleave,
    "matmul": tensor.matmul,
    "batchnorm": tensor.batchnorm,
    "layernorm": normalise.layernorm,
    "rmsnorm": normalise.layernorm,
    "groupnorm": normalise.groupnorm,
    "softmax": normalise.softmax,
    "unary": host.unary_operator,
    "binary": host.two_operands,
    "identity": host.identity,
    "maxpool": host.maxpool,
    "avgpool": host.avgpool,
    "reduce": host.reduction,
    "concat": host.concat,
    "pad": host.pad,
    "embedding": host.embedding,
    "resize": host.resize,
    "argmax": selection.argmax,
    "topk": selection.top,
    "take": selection.take,
    "gather": selection.gather,
    "onehot": selection.one_hot,
    "lppool": selection.norm_pool,
    "maxpositions": selection.max_positions,
    "unpool": selection.unpool,
    "rope": host.rope,
    "where": host.where,
    "quantise": given_pointwise.quantise,
    "shift": given_shifts.shift,
    "decode": given_pointwise.decode,
    "encode": given_pointwise.encode,
}

#: The same of operators whose whole numbers the model gives; contractions of such a model are all of that kind.
GIVEN: dict[str, Callable[[IntegerBuilder, Operator], None]] = {
    "avgpool": given_pointwise.average_pool,
    "reduce": given_pointwise.mean,
    "softmax": given_pointwise.softmax,
    "concat": given_pointwise.concat,
}
CONTRACTIONS: dict[str, Callable[[IntegerBuilder, Operator], None]] = {
    "conv": given_operators.convolution,
    "matmul": given_operators.matmul,
    "conv_transpose": transposed_convolution,
    "interleave": interleave,
}

#: On arrays of floating point; and what leaves codes as they are.
FLOAT_CONTRACTIONS: dict[str, Callable[[IntegerBuilder, Operator], None]] = {
    "conv": float_contractions.convolution,
    "matmul": float_contractions.matmul,
}
_ON_CODES = ("identity", "pad", "embedding")

#: Functions that read images, and those that leave elements where they are.
_IMAGES = {"conv", "conv_transpose", "maxpool", "avgpool", "batchnorm", "resize", "pad"}
_ELEMENTWISE = {"identity", "unary", "binary", "quantise", "decode", "shift"}


def adopt_function(
    function: str,
    real: Callable[[list[Any], dict[str, Any], tuple[int, ...]], np.ndarray],
    rule: Callable[[IntegerBuilder, Operator], None],
) -> None:
    """One more function of networks, whose operators (`baco.workloads.semantics.Semantics`) are then quantised and run.

    Args:
        function: its name.
        real: its result in floating point, of operands, attributes and the shape of the result.
        rule: adds its integer operators.

    Raises InputError for a name that is taken.
    """
    if function in RULES or function in float_graph.FUNCTIONS:
        raise InputError(f"there is already a function '{function}'")
    float_graph.FUNCTIONS[function], RULES[function] = real, rule


def quantise(
    network: Network,
    samples: Sequence[Mapping[str, np.ndarray]] | None = None,
    *,
    seed: int = 0,
    quantiser: Quantiser = DEFAULT,
    layers: int | None = None,
) -> QuantisedNetwork:
    """The network in integers.

    Args:
        network: with semantics, as `baco.workloads.inputs.load.load_network` gives it.
        samples: inputs by name (the network's shapes), the first of which ranges are taken from; random ones
            (`random_samples`) without them.
        seed: of parameters that the source of the network does not give, and of the random sample.
        quantiser: how scales are chosen.
        layers: run repeated blocks only so many times.

    Raises:
        InputError: operators that cannot be run, samples or parameters that do not fit; it names them.
        InfeasibleError: a network that no main memory holds.
    """
    return Calibration(network, samples, seed=seed, quantiser=quantiser, layers=layers).integers(quantiser)


class Calibration:
    """The ranges of a network's values, which do not depend on formats and scales of its weights: for several quantisations.

    Args:
        network, samples, seed, quantiser, layers: as of `quantise`.

    Raises as `quantise`.
    """

    def __init__(
        self,
        network: Network,
        samples: Sequence[Mapping[str, np.ndarray]] | None = None,
        *,
        seed: int = 0,
        quantiser: Quantiser = DEFAULT,
        layers: int | None = None,
    ) -> None:
        self._parameters, self._seed = Parameters(network.source, seed), seed
        network = runnable(network, self._parameters, layers, quantiser)
        self._samples = list(samples or random_samples(network, seed))[: quantiser.calibration]
        self._ranges = calibrate(network, self._parameters, self._samples, quantiser.observer)
        network, masks = fold_computed_masks(network, self._ranges, strict=bool(samples))
        self._network = needed(network)
        check_ranges(self._network, self._ranges, masks)

    def integers(self, quantiser: Quantiser) -> QuantisedNetwork:
        """The network in integers.

        Args:
            quantiser: that of the ranges, but for formats and scales of weights, and biases.

        Raises as `quantise`.
        """
        known = self._network, self._parameters, self._ranges, quantiser, self._seed
        found = _integers(*known)
        if quantiser.weight_rounding == "nearest":
            return found
        runs = [quantise_inputs(found, sample) for sample in self._samples]
        return _integers(*known, moments=ReadMoments(found, runs))


def quantise_given(network: Network, seed: int = 0) -> QuantisedNetwork:
    """A network that says itself how all its numbers are kept (a pipeline), in integers: no samples are asked.

    Raises as `quantise`.
    """
    parameters = Parameters(network.source, seed)
    return _integers(runnable(network, parameters), parameters, Ranges(), DEFAULT, seed, given=True)


def sketch(network: Network, layers: int | None = None, quantiser: Quantiser = DEFAULT) -> QuantisedNetwork:
    """The network in integers of the right shapes, whatever their values: what its operators cost, not what they compute.

    Raises as `quantise`.
    """
    parameters = ParameterShapes(network.source)
    return _integers(runnable(network, parameters, layers), parameters, Ranges(), quantiser, 0)


def names_outside(network: Network, layers: int | None = None) -> tuple[list[str], list[str]]:
    """Names of the inputs and of the outputs that the network in integers has, which are known before it is made.

    Raises as `runnable`.
    """
    run = runnable(network, ParameterShapes(network.source), layers)
    return [one.name for one in run.inputs], [name for name, _ in run.named_outputs]


def _integers(
    network: Network,
    parameters: Parameters,
    ranges: Ranges,
    quantiser: Quantiser,
    seed: int,
    *,
    given: bool = False,
    moments: ReadMoments | None = None,
) -> QuantisedNetwork:
    network = settle_requantisations(network, ranges)
    indices = index_inputs(network)
    encodings = given_encodings(network, indices)
    if quantiser.block_weights is not None and not quantiser.floats:
        raise InputError(
            f"weights in {quantiser.block_weights} are for arrays of bf16, and these are integers",
            hint="give weight_format where the network is compiled for such an array",
        )
    if quantiser.floats:
        if encodings or given:
            raise InputError(
                f"{network.name} says itself how its numbers are stored in integers, and the accelerator computes {quantiser.floats.form}",
                location=Location(network.source),
            )
        encodings = float_contractions.float_encodings(network, ranges, quantiser.floats, indices)
    reals = given_floats.real_tensors(
        network, encodings, indices, given=given or quantiser.floats is not None
    )
    b = IntegerBuilder(network, parameters, ranges, quantiser, encodings, reals, given=given, moments=moments)
    tables, skipped = table_cones(b, float_contractions.coded_sums(b) if quantiser.floats else ())
    for x in network.inputs:
        if x.name in indices:
            view = b.tensor(x.name, x.shape, dtype="int32")
        elif x.name in reals:
            view = b.tensor(x.name, x.shape, _input_order(b, x), dtype="float32")
        else:
            view = b.joined_input(x) or b.tensor(x.name, x.shape, _input_order(b, x), b.scale_of(x.name))
        b.mark_input(view)
    for op in network.operators:
        if op.name in b.done or op.name in skipped:
            continue
        if op.name in tables:
            given_pointwise.pointwise(b, op, tables[op.name])
        else:
            _rule(b, op)(b, op)
    return b.finish(network.name, seed)


def _rule(b: IntegerBuilder, op: Operator) -> Callable[[IntegerBuilder, Operator], None]:
    function = semantics_of(op).function
    if b.quantiser.floats:
        return _float_rule(b, op)
    if b.given and function in CONTRACTIONS and given_floats.reads_whole(b, op):
        return CONTRACTIONS[function]
    if given_floats.is_real(b, op):
        return given_floats.real_operator
    if function == "reduce" and semantics_of(op).attributes["name"] in ("max", "min"):
        return RULES[function]  # which hands elements on
    return GIVEN[function] if op.name in b.encodings and function in GIVEN else RULES[function]


def _float_rule(b: IntegerBuilder, op: Operator) -> Callable[[IntegerBuilder, Operator], None]:
    """On arrays of floating point."""
    function, floats = semantics_of(op).function, b.quantiser.floats
    assert floats is not None
    if function in FLOAT_CONTRACTIONS:
        return FLOAT_CONTRACTIONS[function]
    if float_contractions.adds_codes(b, op):
        return float_contractions.addition
    if given_floats.is_real(b, op) or (function not in _ON_CODES and given_floats.has_rule(op)):
        return given_floats.real_operator
    if op.name in b.encodings and function not in _ON_CODES:
        raise b.error(op, f"'{function}' gives no real numbers that a product in {floats.form} could read")
    return RULES[function]


def runnable(
    network: Network, parameters: Parameters, layers: int | None = None, quantiser: Quantiser = DEFAULT
) -> Network:
    """The network as it is run: blocks unrolled, masks part of their softmax, only what the outputs need, channels equalised where
    the quantiser asks for it.

    Raises InputError naming operators that cannot be run, InfeasibleError for what no main memory holds.
    """
    unrolled = expand(network, layers)
    check_network_memory(unrolled)
    spelled = fold_spelled_out(unrolled, parameters)
    found = needed(fold_factors(fold_masks(spelled, parameters), parameters))
    return equalised(found, parameters) if quantiser.equalisation else found


def _input_order(b: IntegerBuilder, x: Tensor) -> tuple[int, ...] | None:
    """Images lie in memory as the convolution reads them, or as they are where it reads them transposed, and so do results that are worked out element by element before it
    (`IntegerBuilder.order_like`): an input that a model quantises itself is no other than one of numbers."""
    names = [x.name]
    for name in names:
        for op, read in b.readers(name):
            if op is None or op.semantics is None:
                continue
            if op.semantics.function in _IMAGES:
                turned = any(isinstance(step, Transpose) for step in read.steps)
                return None if turned else CHANNELS_LAST.get(len(x.shape))
            same = not read.steps and op.output.shape == x.shape
            if op.semantics.function in _ELEMENTWISE and same and op.output.name not in names:
                names.append(op.output.name)
    return None


def quantise_inputs(quantised: QuantisedNetwork, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The elements of all values of the role `input`, by value name, for real inputs by their network name.

    Numbers are rounded to the nearest, ties to even, and saturated; indices are taken as they are.

    Raises:
        InputError: a missing input, or one of another shape.
    """
    result: dict[str, np.ndarray] = {}
    for name, view in quantised.inputs.items():
        value = quantised.values[view.value]
        if name not in inputs:
            raise InputError(f"the input '{name}' is missing", location=Location(quantised.name))
        given = np.asarray(inputs[name])
        if given.shape != view.shape:
            raise InputError(
                f"the input '{name}' has shape {given.shape}, not {view.shape}",
                location=Location(quantised.name),
            )
        # Several may be parts of one value.
        elements = result.setdefault(value.name, np.zeros(value.shape, np.dtype(value.dtype)))
        if name in quantised.whole:
            whole = quantised.whole[name]
            view.write(elements, np.clip(given, whole.low, whole.high).astype(np.int64) - whole.shift)
        elif value.encoding is not None:
            view.write(elements, value.encoding.whole(given))
        elif value.dtype == "int8":
            view.write(elements, saturate8(np.rint(given.astype(np.float64) / value.scale)))
        else:
            view.write(elements, given)
    return result


def real(quantised: QuantisedNetwork, values: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """A tensor of the network in real numbers (indices as they are), from the elements of all values.

    `name` is an output, else any tensor in `QuantisedNetwork.tensors`.
    """
    if name in quantised.outputs:
        return quantised.read_output(name, values)
    return quantised.read(quantised.tensors[name], values)
