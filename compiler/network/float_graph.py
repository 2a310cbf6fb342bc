"""A network in floating point: what quantisation is calibrated by and compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.functions import binary, rounded_mean, rounded_pair, unary
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.resample import resample_axis
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter
from baco.workloads.views import apply_steps

Array = np.ndarray
Values = list[Any]
Attributes = dict[str, Any]
Shape = tuple[int, ...]


def output_tensors(network: Network) -> tuple[Tensor, ...]:
    """What the network is run for: its declared outputs, else every tensor that no operator reads."""
    if network.outputs:
        return network.outputs
    read = {
        operand.name
        for op in network.operators
        for operand in (op.semantics.operands if op.semantics else ())
        if isinstance(operand, Tensor)
    } | {name for op in network.operators for name in op.inputs}
    return tuple(op.output for op in network.operators if op.name not in read)


class FloatGraph:
    """Runs an unrolled network (`baco.workloads.expand`) in float32.

    Args:
        network: every operator has semantics.
        parameters: elements of its parameters.
    """

    def __init__(self, network: Network, parameters: Parameters) -> None:
        self.network = network
        self.parameters = parameters
        self._last: dict[str, int] = {}
        for index, op in enumerate(network.operators):
            for operand in op.semantics.operands if op.semantics else ():
                if isinstance(operand, Tensor):
                    self._last[operand.name] = index
        for tensor in output_tensors(network):
            self._last[tensor.name] = len(network.operators)

    def run(
        self,
        inputs: Mapping[str, Array],
        observe: Callable[[str, Array], None] | None = None,
        observe_operands: Callable[[Operator, Sequence[Array | None]], None] | None = None,
    ) -> list[Array]:
        """Results, in the order of `output_tensors`.

        Args:
            inputs: by name, of the network's own shapes.
            observe: called with every input and every operator's result, which is not kept beyond its use.
            observe_operands: called with every operator and what it reads.
        """
        tensors: dict[str, Array] = {}
        for tensor in self.network.inputs:
            tensors[tensor.name] = np.asarray(inputs[tensor.name])
            if observe:
                observe(tensor.name, tensors[tensor.name])
        for index, op in enumerate(self.network.operators):
            result = self._operator(op, tensors, observe_operands)
            if result.shape != op.output.shape:
                raise InputError(
                    f"computes {result.shape} where the network has {op.output.shape}",
                    location=Location(self.network.source, node=op.name),
                )
            tensors[op.name] = result
            if observe:
                observe(op.name, result)
            for name in [n for n in tensors if self._last.get(n, -1) <= index]:
                del tensors[name]
        return [apply_steps(tensors[t.name], t.steps) for t in output_tensors(self.network)]

    def _operator(
        self,
        op: Operator,
        tensors: Mapping[str, Array],
        observe_operands: Callable[[Operator, Sequence[Array | None]], None] | None,
    ) -> Array:
        assert op.semantics is not None
        values = [self._operand(operand, tensors) for operand in op.semantics.operands]
        if observe_operands:
            observe_operands(op, values)
        with np.errstate(all="ignore"):  # numbers that are not finite have no part in ranges
            result = self._compute(op, values)
            return result.astype(np.float32) if result.dtype.kind == "f" else result

    def _compute(self, op: Operator, values: Values) -> Array:
        """An operator's result from what it reads."""
        assert op.semantics is not None
        return FUNCTIONS[op.semantics.function](values, dict(op.semantics.attributes), op.output.shape)

    def _operand(self, operand: Operand, tensors: Mapping[str, Array]) -> Array | None:
        if isinstance(operand, Parameter):
            return self.parameters(operand)
        return None if operand is None else apply_steps(tensors[operand.name], operand.steps)


@contextmanager
def _torch(*arrays: Array | None) -> Iterator[list[Any]]:
    """float32 tensors, for PyTorch with one thread: how many there are decides in which order it adds up."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield [
            None if a is None else torch.from_numpy(np.array(a, dtype=np.float32, order="C")) for a in arrays
        ]
    finally:
        torch.set_num_threads(threads)


def _conv(x: Values, a: Attributes, shape: Shape) -> Array:
    from torch.nn import functional

    pads = [n for before_after in reversed(a["padding"]) for n in before_after]
    with _torch(*x) as (image, weight, bias):
        convolve = functional.conv2d if weight.ndim == 4 else functional.conv1d
        padded = functional.pad(image, pads) if any(pads) else image
        y = convolve(padded, weight, bias, a["stride"], 0, a["dilation"], a["groups"])
    return np.asarray(y.numpy())


def _conv_transpose(x: Values, a: Attributes, shape: Shape) -> Array:
    from torch.nn import functional

    with _torch(*x) as (image, weight, bias):
        convolve = functional.conv_transpose2d if weight.ndim == 4 else functional.conv_transpose1d
        y = convolve(image, weight, None, a["stride"], 0, 0, a["groups"], a["dilation"]).numpy()
    # Cropping and extending by hand: PyTorch knows neither unequal paddings nor large extensions.
    full = np.zeros((*y.shape[:2], *a["shape"]), np.float32)
    source, target = [slice(None)] * 2, [slice(None)] * 2
    for size, wanted, (before, _) in zip(y.shape[2:], a["shape"], a["padding"], strict=True):
        count = min(size - before, wanted)
        source.append(slice(before, before + count))
        target.append(slice(0, count))
    full[tuple(target)] = y[tuple(source)]
    if bias is not None:
        full += bias.numpy().reshape(-1, *(1 for _ in a["shape"]))
    if a["phase"] is None:
        return full
    return full[
        (slice(None),) * 2 + tuple(slice(r, None, s) for r, s in zip(a["phase"], a["stride"], strict=True))
    ]


def _interleave(x: Values, a: Attributes, shape: Shape) -> Array:
    y = np.zeros(shape, np.float32)
    bias = x[-1]
    if bias is not None:
        y += bias.reshape(-1, *(1 for _ in shape[2:]))
    for part, residues in zip(x[:-1], a["residues"], strict=True):
        y[
            (slice(None),) * 2 + tuple(slice(r, None, s) for r, s in zip(residues, a["stride"], strict=True))
        ] = part
    return y


def _matmul(x: Values, a: Attributes, shape: Shape) -> Array:
    import torch

    with _torch(*x) as (left, right, bias):
        y = torch.matmul(left, right).numpy() * np.float32(a["alpha"])
    return np.asarray(y if bias is None else y + bias.numpy())


def _channels(parameter: Array | None, rank: int) -> Array | float:
    return 0.0 if parameter is None else parameter.reshape(-1, *(1 for _ in range(rank - 2)))


def _batchnorm(x: Values, a: Attributes, shape: Shape) -> Array:
    rank = len(shape)
    mean, variance = _channels(x[3], rank), _channels(x[4], rank)
    scale = 1.0 if x[1] is None else _channels(x[1], rank)
    y: Array = (x[0] - mean) / np.sqrt(variance + a["eps"]) * scale + _channels(x[2], rank)
    return y


def _layernorm(x: Values, a: Attributes, shape: Shape, centre: bool = True) -> Array:
    axes = tuple(range(-a["axes"], 0))
    value = x[0].astype(np.float64)
    if centre:
        value = value - value.mean(axes, keepdims=True)
    y = value / np.sqrt((value**2).mean(axes, keepdims=True) + a["eps"])
    if x[1] is not None:
        y = y * x[1]
    return np.asarray(y if len(x) < 3 or x[2] is None else y + x[2])


def _groupnorm(x: Values, a: Attributes, shape: Shape) -> Array:
    grouped = x[0].reshape(shape[0], a["groups"], -1)
    y = _layernorm([grouped, None, None], {"axes": 1, "eps": a["eps"]}, grouped.shape).reshape(shape)
    scale = 1.0 if x[1] is None else _channels(x[1], len(shape))
    return np.asarray(y * scale + _channels(x[2], len(shape)))


def _softmax(x: Values, a: Attributes, shape: Shape) -> Array:
    value = x[0].astype(np.float64)
    if x[1] is not None:
        mask = x[1]
        truths = a.get("truths") or mask.dtype == np.bool_
        value = np.where(mask != 0, value, -np.inf) if truths else value + mask
    top = value.max(a["axis"], keepdims=True)
    distance = value - np.where(np.isfinite(top), top, 0)
    e = np.exp(distance)
    total = e.sum(a["axis"], keepdims=True)
    if a["logarithm"]:
        return np.asarray(distance - np.log(total))
    return np.asarray(e / np.where(total == 0, 1, total))


def _window(x: Array, a: Attributes, fill: float) -> Array:
    """(N, C, *out, *kernel): elements of every window, `fill` outside."""
    spatial = len(a["kernel"])
    dilation = a.get("dilation") or (1,) * spatial
    pads = [(0, 0), (0, 0)]
    for i in range(spatial):
        reach = (a["shape"][i] - 1) * a["stride"][i] + (a["kernel"][i] - 1) * dilation[i] + 1
        before = a["padding"][i][0]
        pads.append((before, max(0, reach - before - x.shape[2 + i])))
    x = np.pad(x, pads, constant_values=fill)
    strides = x.strides[:2] + tuple(s * n for s, n in zip(x.strides[2:], a["stride"], strict=True))
    strides += tuple(s * d for s, d in zip(x.strides[2:], dilation, strict=True))
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *a["shape"], *a["kernel"]), strides, writeable=False
    )


def _binary(x: Values, a: Attributes, shape: Shape) -> Array:
    found = rounded_pair(a["name"], x[0], x[1], a["units"]) if "units" in a else binary(a["name"], x[0], x[1])
    return np.broadcast_to(found, shape)


def _maxpool(x: Values, a: Attributes, shape: Shape) -> Array:
    spatial = len(a["kernel"])
    return np.asarray(_window(x[0], a, -np.inf).max(tuple(range(2 + spatial, 2 + 2 * spatial))))


def pool_counts(a: Attributes, size: Shape) -> Array:
    """What the sum of each window of an average is divided by: int64 of the output's spatial shape."""
    if a["divisor"]:
        return np.full(a["shape"], a["divisor"], np.int64)
    counts = np.ones((), np.int64)
    for i, extent in enumerate(size):
        before, after = a["padding"][i]
        first = np.arange(a["shape"][i]) * a["stride"][i] - before
        reach = np.arange(a["kernel"][i]) * a["dilation"][i]
        position = first[:, None] + reach
        # Positions beyond the padding (a partial last window) never count.
        inside = position < extent + after if a["count_padding"] else (position >= 0) & (position < extent)
        counts = counts[..., None] * inside.sum(1)
    return np.maximum(counts, 1)  # a window of padding alone has a sum of 0


def _avgpool(x: Values, a: Attributes, shape: Shape) -> Array:
    spatial = len(a["kernel"])
    windows, counts = _window(x[0], a, 0), pool_counts(a, x[0].shape[2:])
    if a.get("rounded_with") is not None:
        return rounded_mean(windows.reshape(*windows.shape[:-spatial], -1), counts, a["rounded_with"])
    total = windows.sum(tuple(range(2 + spatial, 2 + 2 * spatial)), dtype=np.float64)
    return np.asarray(total / counts)


def _lppool(x: Values, a: Attributes, shape: Shape) -> Array:
    spatial = len(a["kernel"])
    powers = np.abs(_window(x[0], a, 0).astype(np.float64)) ** a["p"]
    return np.asarray(powers.sum(tuple(range(2 + spatial, 2 + 2 * spatial))) ** (1 / a["p"]))


def _maxpositions(x: Values, a: Attributes, shape: Shape) -> Array:
    size = x[0].shape[2:]
    within = np.reshape(np.arange(math.prod(size)), size, order="F" if a["column_major"] else "C")
    images = np.reshape(np.arange(math.prod(shape[:2])), (*shape[:2], *(1 for _ in size))) * within.size
    windows = _window(x[0], a, -np.inf).reshape(*shape, -1)
    places = _window(np.broadcast_to(within, (1, 1, *size)), a, 0).reshape(1, 1, *shape[2:], -1)
    best = np.argmax(windows, -1)[..., None]
    return np.asarray(images + np.take_along_axis(np.broadcast_to(places, windows.shape), best, -1)[..., 0])


def _reduce(x: Values, a: Attributes, shape: Shape) -> Array:
    if a["name"] == "norm":
        powers = np.abs(x[0].astype(np.float64)) ** a["p"]
        return np.asarray(powers.sum(tuple(a["axes"]), keepdims=a["keepdims"]) ** (1 / a["p"]))
    functions: dict[str, Callable[..., Any]] = {"mean": np.mean, "sum": np.sum, "max": np.max, "min": np.min}
    return np.asarray(functions[a["name"]](x[0], axis=tuple(a["axes"]), keepdims=a["keepdims"]))


def _resize(x: Values, a: Attributes, shape: Shape) -> Array:
    y = x[0]
    for axis in range(2, len(shape)):
        factor = None if a["scales"] is None else a["scales"][axis - 2]
        low, high, weight = resample_axis(y.shape[axis], shape[axis], factor, a)
        weight = weight.reshape(-1, *(1 for _ in range(len(shape) - axis - 1)))
        y = np.take(y, low, axis) * (1 - weight) + np.take(y, high, axis) * weight
    return np.asarray(y)


def _argmax(x: Values, a: Attributes, shape: Shape) -> Array:
    value = -x[0] if a["smallest"] else x[0]
    if a["last"]:
        index = value.shape[a["axis"]] - 1 - np.argmax(np.flip(value, a["axis"]), a["axis"])
    else:
        index = np.argmax(value, a["axis"])
    return np.asarray(np.expand_dims(index, a["axis"]) if a["keepdims"] else index)


def _whole(index: Array) -> Array:
    return index.astype(np.int64)


def _topk(x: Values, a: Attributes, shape: Shape) -> Array:
    order = np.argsort(x[0] if a["smallest"] else -x[0], axis=a["axis"], kind="stable")
    return np.take(order, np.arange(a["count"]), a["axis"])


def _inside(index: Array, size: int) -> Array:
    index = _whole(index)
    return np.clip(np.where(index < 0, index + size, index), 0, size - 1)


def _take(x: Values, a: Attributes, shape: Shape) -> Array:
    axis, wanted = a["axis"], list(shape)
    wanted[axis] = x[0].shape[axis]
    corner = x[0][tuple(slice(0, n) for n in wanted)]
    return np.take_along_axis(corner, _inside(x[1], x[0].shape[axis]), axis)


def _gather(x: Values, a: Attributes, shape: Shape) -> Array:
    return np.asarray(np.take(x[0], _inside(x[1], x[0].shape[a["axis"]]), a["axis"]))


def _onehot(x: Values, a: Attributes, shape: Shape) -> Array:
    index, depth = np.expand_dims(_whole(x[0]), a["axis"]), a["depth"]
    j = np.arange(depth).reshape(-1, *(1 for _ in range(len(shape) - a["axis"] - 1)))
    return np.where((index == j) | (index == j - depth), np.float32(a["on"]), np.float32(a["off"]))


def _unpool(x: Values, a: Attributes, shape: Shape) -> Array:
    result = np.zeros(math.prod(shape), np.float32)
    index = _whole(x[1]).reshape(-1)
    index = np.where(index < 0, index + result.size, index)
    inside = (index >= 0) & (index < result.size)
    result[index[inside]] = x[0].reshape(-1)[inside]
    return result.reshape(shape)


def rope_angles(positions: int, half: int, a: Attributes) -> Array:
    """(positions, half) angles: position times base**(-i / half) (Su et al., RoFormer, 2021)."""
    frequency = a["base"] ** (-np.arange(half) / half)
    return np.asarray((a["start"] + np.arange(positions))[:, None] * frequency)


def _shift(x: Sequence[Any], a: Mapping[str, Any], shape: Sequence[int]) -> np.ndarray:
    whole, by, offset = (np.asarray(np.rint(one), np.int64) for one in x)
    encoding, half = a["encoding"], 1 << a["shift"] >> 1
    steps = (whole * by + offset + half) >> a["shift"]
    return np.asarray(encoding.real(np.clip(steps, encoding.low, encoding.high)))


def _rope(x: Values, a: Attributes, shape: Shape) -> Array:
    half = shape[-1] // 2
    angles = rope_angles(shape[-2], half, a)
    cosine, sine = np.cos(angles), np.sin(angles)
    y = np.empty(shape, np.float64)
    first, second = (
        (np.s_[..., 0::2], np.s_[..., 1::2]) if a["interleaved"] else (np.s_[..., :half], np.s_[..., half:])
    )
    y[first] = x[0][first] * cosine - x[0][second] * sine
    y[second] = x[0][second] * cosine + x[0][first] * sine
    return y


def _embedding(x: Values, a: Attributes, shape: Shape) -> Array:
    index = x[0].astype(np.int64)
    rows = x[1].shape[0]
    return np.asarray(x[1][np.clip(np.where(index < 0, index + rows, index), 0, rows - 1)])


def _pad(x: Values, a: Attributes, shape: Shape) -> Array:
    kept = x[0][cropped(x[0].shape, a)]
    pads = [(max(0, b), max(0, c)) for b, c in zip(a["before"], a["after"], strict=True)]
    return np.pad(kept, pads, constant_values=a["value"])


def cropped(shape: Shape, a: Attributes) -> tuple[slice, ...]:
    """What negative padding leaves of a tensor."""
    return tuple(
        slice(max(0, -before), size - max(0, -after))
        for size, before, after in zip(shape, a["before"], a["after"], strict=True)
    )


#: Function of `baco.workloads.semantics` -> (operands, attributes, shape of the result) to the result.
FUNCTIONS: dict[str, Callable[[Values, Attributes, Shape], Array]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "interleave": _interleave,
    "matmul": _matmul,
    "batchnorm": _batchnorm,
    "layernorm": _layernorm,
    "rmsnorm": lambda x, a, shape: _layernorm(x, a, shape, centre=False),
    "groupnorm": _groupnorm,
    "softmax": _softmax,
    "unary": lambda x, a, shape: unary(a["name"], x[0], a["numbers"]),
    "binary": _binary,
    "identity": lambda x, a, shape: x[0],
    "quantise": lambda x, a, shape: a["encoding"].real(a["encoding"].whole(x[0])),
    "decode": lambda x, a, shape: a["encoding"].real(x[0]),
    "encode": lambda x, a, shape: a["encoding"].whole(x[0]).astype(np.int32),
    "shift": _shift,
    "maxpool": _maxpool,
    "avgpool": _avgpool,
    "reduce": _reduce,
    "concat": lambda x, a, shape: np.concatenate(x, a["axis"]),
    "pad": _pad,
    "embedding": _embedding,
    "resize": _resize,
    "argmax": _argmax,
    "topk": _topk,
    "take": _take,
    "gather": _gather,
    "onehot": _onehot,
    "lppool": _lppool,
    "maxpositions": _maxpositions,
    "unpool": _unpool,
    "rope": _rope,
    "where": lambda x, a, shape: np.broadcast_to(np.where(x[0] != 0, x[1], x[2]), shape),
}
