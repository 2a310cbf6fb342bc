"""Ranges of activations: the float network run on given or random inputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.float_graph import FloatGraph, output_tensors
from baco.compiler.network.least_error import Magnitudes
from baco.compiler.network.observers import Histogram
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantiser import Observer
from baco.workloads.network import Network, Operator, Tensor, first_cause
from baco.workloads.semantics import Parameter
from baco.workloads.views import Unknown

#: Numbers at or below this stand for minus infinity in front of a softmax, as exporters write it.
MASKED = -1e4
#: Activations beyond this are not data: masks that are computed.
_LARGEST = 1e9
#: Whole numbers that random inputs are below: of images and texts in bytes, and others.
_WHOLE = {"bytes": 256, "whole": 10}
#: Dimension of the channels of what operators with trained weights read.
_CHANNEL_AXES = {"conv": 1, "conv_transpose": 1, "batchnorm": 1, "matmul": -1}
#: Dimensions of activations that can be images, the share of their elements that may be cut off, and of the error that this must
#: take away: a few wrong numbers must be worth it.
_IMAGE_RANK, _MOST_CUT, _LEAST_GAIN = 3, 1e-3, 0.25
#: Random samples of networks of at most so many multiply-accumulates, and what tells their seeds from those of other samples.
_SAMPLES, _SMALL_MACS, _APART = 4, 10**8, 2**32


@dataclass
class Ranges:
    """What activations reach, by the name of their operator or input; indices have no range.

    Attributes:
        largest: magnitude.
        ends: least and largest number.
        finite: largest magnitude of what is above `MASKED`, of tensors that hold such numbers.
        broken: tensors that hold other than whole numbers.
        magnitudes, histograms: how they are distributed, of tensors of three dimensions and more; one of them, as the observer needs.
        means: of every channel of what contractions read, by the operator: sums and how many of them.
        observer: decides where the scales of tensors end that may be cut off.
    """

    largest: dict[str, float] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    finite: dict[str, float] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    magnitudes: dict[str, Magnitudes] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    means: dict[str, tuple[np.ndarray, int]] = field(default_factory=dict)
    observer: Observer = "mse"

    def observe(self, name: str, value: np.ndarray) -> None:
        """Take part of the range of a tensor; infinite and undefined numbers do not count."""
        if value.dtype.kind != "f":
            value = value.astype(np.float32)
        seen = np.isfinite(value)
        finite = value if seen.all() else value[seen]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        if low <= MASKED:
            kept = np.abs(finite[finite > MASKED]).max(initial=0.0)
            self.finite[name] = max(self.finite.get(name, 0.0), float(kept))
        if name not in self.broken and any(
            (part != np.rint(part)).any() for part in (finite.reshape(-1)[:1], finite)
        ):
            self.broken.add(name)
        self.largest[name] = max(self.largest.get(name, 0.0), -low, high)
        least, most = self.ends.get(name, (low, high))
        self.ends[name] = min(least, low), max(most, high)
        if value.ndim >= _IMAGE_RANK and self.observer == "mse":
            self.magnitudes.setdefault(name, Magnitudes()).add(finite)
        elif value.ndim >= _IMAGE_RANK and self.observer != "min-max":
            self.histograms.setdefault(name, Histogram()).add(finite)

    def observe_operands(self, op: Operator, operands: Sequence[np.ndarray | None]) -> None:
        """Take the means of what an operator with trained weights reads."""
        assert op.semantics is not None
        x, function = operands[0], op.semantics.function
        if function not in _CHANNEL_AXES or x is None or not np.isfinite(x).all():
            return
        channels = np.moveaxis(x, _CHANNEL_AXES[function], -1)
        rows = channels.reshape(-1, channels.shape[-1])
        total, count = self.means.get(op.name, (np.zeros(rows.shape[1]), 0))
        self.means[op.name] = total + rows.sum(0, dtype=np.float64), count + len(rows)

    def mean(self, name: str) -> np.ndarray | None:
        """Of every input channel of a contraction, to 16 bits of the largest as `__getitem__`; None where it is not known."""
        if name not in self.means:
            return None
        total, count = self.means[name]
        unit = math.ldexp(1.0, math.frexp(float(np.abs(total).max(initial=0.0)) / count)[1] - 16)
        return np.asarray(np.rint(total / count / unit) * unit)

    def end(self, name: str) -> float:
        """Where the scale of a tensor ends that may be cut off (`baco.compiler.network.least_error`, `observers`): at most its
        largest magnitude."""
        largest = self[name]
        if name in self.magnitudes:
            return self.magnitudes[name].end(largest, _MOST_CUT, _LEAST_GAIN)
        if name in self.histograms:
            one = self.histograms[name]
            return one.entropy(largest) if self.observer == "entropy" else one.percentile(largest)
        return largest

    def counts(self, name: str) -> bool:
        """Whether a tensor holds whole numbers alone."""
        return name in self.ends and name not in self.broken

    def __getitem__(self, name: str) -> float:
        """Largest magnitude, 1 for a tensor of zeros, to 12 bits.

        The last bits of float sums depend on how many threads take part; scales, and with them programs, must not.
        """
        mantissa, exponent = math.frexp(self.largest.get(name) or 1.0)
        return math.ldexp(round(mantissa * 2**12), exponent - 12)


def needed(network: Network) -> Network:
    """The network without operators whose results nobody needs.

    Raises:
        InputError: an operator that is needed cannot be run; it names them and why.
    """
    if network.unsupported:
        count = len(network.unsupported)
        raise InputError(
            f"{count} of its operators cannot be run: {first_cause(network.unsupported)}",
            location=Location(network.source),
            hint="such a network can be explored, but not compiled as a whole",
        )
    live = {tensor.name for tensor in output_tensors(network)}
    kept: list[Operator] = []
    problems: list[str] = []
    #: Tensors of which a view says why nothing computes them.
    explained: set[str] = set()
    for tensor in network.outputs:
        problems += _unknown(tensor.name, tensor, explained)
    for op in reversed(network.operators):
        if op.name not in live:
            continue
        kept.append(op)
        if op.semantics is None:
            live.update(op.inputs)
            if op.name not in explained:
                problems.append(f"{op.name} ({op.kind}): what it computes is not recorded")
            continue
        if op.semantics.function == "masked":
            problems.append(f"{op.name} ({op.kind}: only a constant mask in front of a softmax)")
        for operand in op.semantics.operands:
            if isinstance(operand, Tensor):
                live.add(operand.name)
                problems += _unknown(op.name, operand, explained)
    if problems:
        problems = list(dict.fromkeys(problems[::-1]))
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputError(
            f"{len(problems)} of its operators cannot be run: {problems[0]}{others}",
            location=Location(network.source),
            hint="such a network can be explored, but not compiled as a whole",
        )
    if not kept:
        raise InputError("the network computes nothing", location=Location(network.source))
    inputs = tuple(tensor for tensor in network.inputs if tensor.name in live)
    return replace(network, operators=tuple(reversed(kept)), inputs=inputs, outputs=output_tensors(network))


def _unknown(reader: str, tensor: Tensor, explained: set[str]) -> list[str]:
    explained.update(tensor.name for step in tensor.steps if isinstance(step, Unknown) and step.node)
    return [
        f"{step.node}: {step.reason}" if step.node else f"{reader}: reads {step.reason} of {tensor.name}"
        for step in tensor.steps
        if isinstance(step, Unknown)
    ]


def index_inputs(network: Network) -> dict[str, int]:
    """Inputs that hold indices (tokens) -> how many rows their smallest table has."""
    names = {tensor.name for tensor in network.inputs}
    found: dict[str, int] = {}
    for op in network.operators:
        if op.semantics is None or op.semantics.function != "embedding":
            continue
        indices, table = op.semantics.operands
        if isinstance(indices, Tensor) and indices.name in names and isinstance(table, Parameter):
            found[indices.name] = min(table.shape[0], found.get(indices.name, table.shape[0]))
    return found


def random_inputs(network: Network, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs by name: standard normal float32, but what `assumed_inputs` says where a model asks for other ones."""
    rows = index_inputs(network)
    result: dict[str, np.ndarray] = {}
    for tensor in network.inputs:
        digest = hashlib.sha256(f"{seed}:input:{tensor.name}".encode()).digest()
        random = np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))
        kind = _kind_of_input(network, tensor.name, rows)
        length = tensor.shape[-1] if tensor.shape else 1
        values: np.ndarray
        if kind == "table":
            values = random.integers(0, rows[tensor.name], tensor.shape)
        elif kind == "mask":
            kept = length - random.integers(0, length // 4 + 1)
            values = np.broadcast_to(np.arange(length) < kept, tensor.shape).astype(np.float32)
        elif kind == "positions":
            values = np.broadcast_to(np.arange(length, dtype=np.float32), tensor.shape)
        elif kind in _WHOLE:
            values = random.integers(0, _WHOLE[kind], tensor.shape).astype(np.float32)
        else:
            values = random.standard_normal(tensor.shape, dtype=np.float32)
        result[tensor.name] = values.reshape(tensor.shape)
    return result


def random_samples(network: Network, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """What ranges are taken from where nothing is given: several samples of a small network, whose extremes vary most."""
    count = _SAMPLES if network.macs <= _SMALL_MACS else 1
    return [random_inputs(network, seed + number * _APART) for number in range(count)]


def assumed_inputs(network: Network, given: Container[str] = ()) -> list[str]:
    """What inputs are taken to hold that are not given and hold anything but random numbers, in sentences."""
    rows = index_inputs(network)
    words = {
        "mask": "ones with zeros at the end, as a mask",
        "positions": "0, 1, 2... as positions",
        **{kind: f"whole numbers below {most}" for kind, most in _WHOLE.items()},
    }
    return [
        f"the input '{tensor.name}' holds {words[kind]}, unless --data or --arg gives it"
        for tensor in network.inputs
        if tensor.name not in given and (kind := _kind_of_input(network, tensor.name, rows)) in words
    ]


def _kind_of_input(network: Network, name: str, rows: Container[str]) -> str:
    """`table` for indices of one, `mask`, `positions`, a key of `_WHOLE`; else `numbers`."""
    kind, words = network.input_types.get(name, "float32"), name.lower()
    if name in rows:
        return "table"
    if kind == "bool" or "mask" in words:
        return "mask"
    if kind == "uint8":
        return "bytes"
    if "int" not in kind:
        return "numbers"
    return "positions" if "position" in words else "whole"


def check_inputs(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs as float32 or integer arrays. Raises InputError naming a missing one or a wrong shape."""
    where = Location(network.source)
    rows = index_inputs(network)
    result = {}
    for tensor in network.inputs:
        if tensor.name not in inputs:
            raise InputError(f"the input '{tensor.name}' is missing", location=where)
        value = np.asarray(inputs[tensor.name])
        if value.shape != tensor.shape:
            raise InputError(
                f"the input '{tensor.name}' has shape {value.shape}, not {tensor.shape}", location=where
            )
        if tensor.name in rows:
            if value.dtype.kind not in "iu":
                raise InputError(f"the input '{tensor.name}' holds indices: whole numbers", location=where)
        elif value.dtype.kind not in "fiub" or not np.isfinite(value.astype(np.float64)).all():
            raise InputError(f"the input '{tensor.name}' must hold finite numbers", location=where)
        result[tensor.name] = value if tensor.name in rows else value.astype(np.float32)
    return result


def calibrate(
    network: Network,
    parameters: Parameters,
    samples: Sequence[Mapping[str, np.ndarray]],
    observer: Observer = "mse",
) -> Ranges:
    """Ranges over all samples (inputs by name). Raises InputError without any."""
    if not samples:
        raise InputError("calibration needs at least one sample of the inputs")
    graph = FloatGraph(network, parameters)
    ranges = Ranges(observer=observer)
    for sample in samples:
        graph.run(check_inputs(network, sample), ranges.observe, ranges.observe_operands)
    return ranges


def check_ranges(network: Network, ranges: Ranges, masks: Container[str] = ()) -> None:
    """Raises InputError for an activation that is far too large for int8.

    Args:
        masks: names of those whose large numbers stand for minus infinity.
    """
    for name in (*(x.name for x in network.inputs), *(op.name for op in network.operators)):
        largest = ranges.largest.get(name, 0.0)
        if largest > _LARGEST and name not in masks:
            raise InputError(
                f"its values reach {largest:.3g}, beside which int8 holds nothing else",
                location=Location(network.source, node=name),
                hint="a mask of minus infinity must be in front of a softmax",
            )
