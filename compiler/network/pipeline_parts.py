"""A function, a network and a function of its results as one quantised network, each part beside who else computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from baco.common.errors import InputError
from baco.compiler.network.agreement import LEAST_DB, LEAST_EQUAL, compare_tensors
from baco.compiler.network.compose import composed
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_given, quantise_inputs, runnable
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding
from baco.workloads.network import Network
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline, argument_names, given_inputs

Array = np.ndarray[Any, Any]
#: Largest error of results that real numbers have part in, as a share of the largest magnitude.
MOST_ERROR = 0.002


@dataclass(frozen=True)
class PartComparison:
    """A part's result beside that of who is asked for it.

    Attributes:
        part: `pre`, `network` or `post`.
        result: its name.
        judge: who computed the other one, from the same inputs.
        error: largest difference, as a share of the largest magnitude.
        exact: whether none is allowed, since the proof says so.
        problem: in words; empty where all is right.
    """

    part: str
    result: str
    judge: str
    error: float
    exact: bool
    problem: str = ""


@dataclass(frozen=True)
class PipelineParts:
    """What a pipeline consists of.

    Attributes:
        name: of the whole.
        pre: the traced function; None where the network comes first.
        network: the network, if there is one.
        post: a function of its results, if there is one.
        seed: of parameters that the network does not give.
    """

    name: str
    pre: TracedPipeline | None
    network: Network | None
    post: Callable[..., Any] | None
    seed: int = 0

    def joined(self, arrays: Mapping[str, Array], front: QuantisedNetwork | None, dim: int) -> JoinedPipeline:
        """One network of all parts.

        Args:
            arrays: the inputs, of which the ranges in the network follow.
            front: `pre` in integers (`front_network`).
            dim: of the array.

        Raises InputError for what one part gives and the next one cannot read, and as the parts do.
        """
        parts: list[QuantisedNetwork] = []
        given = arrays
        results: Sequence[Array] = ()
        network_inputs: Mapping[str, Array] = {}
        if self.pre is not None:
            assert front is not None
            given = self.pre.graph_inputs(arrays)  # which are checked
            results = self.pre.evaluated(arrays)
            parts.append(front)
        if self.network is not None:
            network_inputs = arrays if self.pre is None else _network_inputs(self.network, results)
            parts.append(quantise(self.network, [network_inputs], seed=self.seed))
        behind = None
        if self.post is not None:
            behind = _behind(self.post, parts[-1])
            parts.append(quantise_given(behind.network(Placing("packed", dim)), self.seed))
        whole = composed(self.name, parts)
        between = [_encoding_between(parts[0], whole, name) for name in parts[0].outputs]
        data = quantise_inputs(whole, given)
        return JoinedPipeline(self, whole, data, behind, results, between, network_inputs)

    def front_network(self, how: Placing) -> QuantisedNetwork:
        """`pre` in integers, in the shapes that the network reads. Raises as `TracedPipeline.network`."""
        assert self.pre is not None
        shapes = None if self.network is None else [one.shape for one in self.network.inputs]
        return quantise_given(self.pre.network(how, shapes), self.seed)


@dataclass(frozen=True)
class JoinedPipeline:
    """All parts as one network.

    Attributes:
        parts: they.
        whole: the network.
        data: elements of its inputs.
        behind: `post`, traced.
        results: of `pre` by numpy.
        between: for each, how the network's bytes stand for it where the program has it in no other form.
        network_inputs: what follows from them.
    """

    parts: PipelineParts
    whole: QuantisedNetwork
    data: Mapping[str, Array]
    behind: TracedPipeline | None
    results: Sequence[Array]
    between: Sequence[Encoding | None]
    network_inputs: Mapping[str, Array]

    def outputs(self, written: Sequence[Array]) -> dict[str, Array]:
        """Results by name, as the function gives them, a network's as they are."""
        last = self.behind or (self.parts.pre if self.parts.network is None else None)
        if last is None:
            return dict(zip(self.whole.outputs, written, strict=True))
        names = self.behind.output_names if self.behind is not None else list(self.whole.outputs)
        both = zip(names, written, last.outputs, strict=True)
        return {name: _shaped(array, node.shape) for name, array, node in both}

    def comparisons(self, values: Mapping[str, Array]) -> Iterator[PartComparison]:
        """Each part beside numpy or the network's evaluator, of what the part read.

        Args:
            values: every value of the whole, as integers have it.
        """
        pre, number = self.parts.pre, 0
        if pre is not None:
            yield from _against_numpy("pre", pre, self.results, self._results(values, number), self.between)
            number += 1
        if self.parts.network is not None:
            yield from self._judged(self._results(values, number))
            number += 1
        if self.behind is not None:
            before = dict(zip(self.behind.inputs, self._results(values, number - 1), strict=True))
            ours = self._results(values, number)
            yield from _against_numpy("post", self.behind, self.behind.evaluated(before), ours)

    def _results(self, values: Mapping[str, Array], number: int) -> list[Array]:
        """Results of a part in real numbers."""
        return [
            np.asarray(self.whole.read(view, values))
            for name, view in self.whole.tensors.items()
            if name.startswith(f"{number}:")
        ]

    def _judged(self, ours: Sequence[Array]) -> Iterator[PartComparison]:
        network = self.parts.network
        assert network is not None
        if network.judge is not None:
            judge, wanted = network.judge(self.network_inputs)
        else:
            parameters = Parameters(network.source, self.parts.seed)
            judge = "the network in floating point"
            wanted = FloatGraph(runnable(network, parameters), parameters).run(self.network_inputs)
        for number, (theirs, array) in enumerate(zip(wanted, ours, strict=True)):
            name = network.output_names[number] if network.output_names else f"output{number}"
            one = compare_tensors(name, np.asarray(theirs).reshape(array.shape), array)
            worse = one.snr_db < LEAST_DB if one.equal is None else one.equal < LEAST_EQUAL
            problem = (
                f"network: '{name}' is further from {judge} than rounding explains: {one}" if worse else ""
            )
            yield PartComparison("network", name, judge, one.error, False, problem)


def _network_inputs(network: Network, results: Sequence[Array]) -> dict[str, Array]:
    """What the network reads: results of the function in front, in its shapes."""
    found = {}
    for tensor, result in zip(network.inputs, results, strict=False):
        image = result.ndim == 3 and tensor.shape == (1, result.shape[2], *result.shape[:2])
        turned = result.transpose(2, 0, 1) if image else result
        found[tensor.name] = turned.reshape(tensor.shape).astype(np.float32)
    return found


def _encoding_between(part: QuantisedNetwork, whole: QuantisedNetwork, name: str) -> Encoding | None:
    """How bytes of the whole stand for real numbers that a part alone would give."""
    view, own = whole.tensors.get(f"0:{name}"), part.outputs[name]
    if view is None or not isinstance(own, View) or part.values[own.value].dtype != "float32":
        return None
    value = whole.values[view.value]
    if value.dtype != "int8":
        return None
    return value.encoding or Encoding(value.scale, 0, -128, 127)


def _against_numpy(
    part: str,
    function: TracedPipeline,
    wanted: Sequence[Array],
    ours: Sequence[Array],
    encodings: Sequence[Encoding | None] = (),
) -> Iterator[PartComparison]:
    """Results beside numpy's; those that are the next part's bytes, beside numpy's rounded to such, at most one step apart."""
    results = zip(function.output_names, function.exact, wanted, ours, strict=True)
    for (name, exact, theirs, array), encoding in zip_longest(results, encodings):
        most, judge, exactly = MOST_ERROR, "numpy in 64 bits", theirs.astype(np.float64)
        largest = max(float(np.abs(exactly).max(initial=0.0)), 1e-30)
        if encoding is not None:
            exactly = encoding.real(encoding.whole(exactly)).astype(np.float64)
            most, judge = 1.001 * encoding.scale / largest, "numpy in 64 bits, as bytes"
        difference = float(np.abs(_shaped(array, theirs.shape).astype(np.float64) - exactly).max(initial=0.0))
        error = difference / largest
        problem = ""
        if exact and difference:
            problem = f"{part}: '{name}' is {difference:g} off, but is proven to be exact"
        elif not error <= most:
            problem = f"{part}: '{name}' is {error:.2%} off what numpy computes"
        yield PartComparison(part, name, judge, error, exact, problem)


def _shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """As the function has it: a network's (1, C, H, W) as (H, W, C)."""
    if array.shape == shape:
        return array
    if len(shape) == 3 and array.shape == (1, shape[2], *shape[:2]):
        return np.asarray(array[0].transpose(1, 2, 0))
    return np.asarray(array.reshape(shape))


def _behind(function: Callable[..., Any], network: QuantisedNetwork) -> TracedPipeline:
    """A function traced on the results of a network, in the range that their bytes have."""
    given = {}
    for name, view in network.outputs.items():
        if not isinstance(view, View):
            raise InputError(f"'{name}' is kept in parts, which a function behind cannot read")
        value, limit = network.values[view.value], 2.0**40
        if value.dtype == "int8":
            ends = np.array([-128, 127])
            numbers = ends * value.scale if value.encoding is None else value.encoding.real(ends)
            limit = float(np.abs(numbers).max())
        given[name] = Numbers(view.shape, -limit, limit, real=True)
    names = argument_names(function)
    named = dict(zip(names, given.values(), strict=True)) if len(names) == len(given) else given
    return TracedPipeline(function, given_inputs(function, named))
