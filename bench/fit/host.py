"""Fits the constants of `baco.compiler.ops.host_model`: `python -m baco.bench.fit.host [--check]`.

Operators of random shapes, drawn from a fixed seed and no larger than a few ten thousand elements, run one after the
other on the simulated host core, ours and the one before the original Gemmini; the cycles of each give a row of a least-squares problem with relative errors. Half of
them are left out of the fit, to say how good it is. With `--check` nothing is written.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from baco.accel.config import TIMINGS, Accelerator, Features
from baco.bench.fit.host_sketch import HostSketch
from baco.bench.fit.real_operators import FUSED_KINDS, REAL_KINDS
from baco.bench.fit.row_operators import ROW_KINDS
from baco.common.errors import InfeasibleError
from baco.common.files import atomic_write
from baco.compiler.host_core import miss_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.reference import reference
from baco.compiler.network.steps import ValueAddress
from baco.compiler.ops import host_model, requantisation
from baco.compiler.ops.arithmetic import fixed_point
from baco.compiler.ops.elementwise import Addition, BinaryTable, Conversion, Fill, Map, Multiplication
from baco.compiler.ops.host_work import HostWork
from baco.compiler.ops.images import AveragePool, MaxPool, MaxPositions, Resize
from baco.compiler.ops.lookup import Embedding, OneHot, Rotation, Take, Unpool
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import (
    ArgMax,
    Normalisation,
    Reduction,
    Softmax,
    TermSum,
    TopK,
)
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import exponentials
from baco.sim.network.run import run_network

Array = np.ndarray[Any, Any]
#: What a line that is not in the cache takes before the original Gemmini where operands come from main memory, as those of the
#: samples do; in a network the second level has most of them.
_FROM_MEMORY = 46.0
#: Operators of every kind in a sample.
_EACH = 24
_SEED = 20


class HostSample(NamedTuple):
    """A call that was measured: its work, lines that come from memory for it, cycles."""

    work: HostWork
    misses: float
    cycles: int


def sample_miss_cycles(timing: str) -> float:
    """What a line that is not in the cache delays the core in a sample."""
    return _FROM_MEMORY if timing == "gemmini" else miss_cycles(timing)


def measure_host_work(timing: str, seed: int = _SEED, each: int = _EACH) -> list[HostSample]:
    """Random operators, `each` of every kind, on the core of one of `baco.accel.config.TIMINGS`."""
    found = []
    for number, make in enumerate(_KINDS):
        # comparisons come with the first kind; elsewhere they would only change what is in the cache
        built = _program(make, np.random.default_rng([seed, number]), each, checks=number == 0)
        engine = "gemmini-model" if timing == "gemmini" else "functional"
        run = run_network(built, engine=engine, timing=timing)
        for step, measured in zip(built.lowered.steps, run.steps, strict=True):
            assert step.work is not None, step.function
            places = [
                built.placement.address(one) if isinstance(one, ValueAddress) else None
                for one in step.arguments[1:]
            ]
            found.append(HostSample(step.work, step.work.misses(places), measured.cycles))
    return found


def fit(samples: list[HostSample], timing: str) -> dict[str, dict[str, float]]:
    """Constants for every variant, none negative, with the least squared relative errors."""
    variants: dict[str, list[HostSample]] = {}
    for sample in samples:
        variants.setdefault(sample.work.variant, []).append(sample)
    return {name: _fit_one(rows, sample_miss_cycles(timing)) for name, rows in sorted(variants.items())}


def _fit_one(rows: list[HostSample], of_a_miss: float) -> dict[str, float]:
    names = list(dict.fromkeys(name for row in rows for name in row.work.amounts))
    matrix = np.array([[work.amounts.get(name, 0.0) / cycles for name in names] for work, _, cycles in rows])
    wanted = np.array([1 - of_a_miss * misses / cycles for _, misses, cycles in rows])
    size = np.maximum(np.abs(matrix).max(axis=0), 1e-12)
    solution, _ = nnls(matrix / size, wanted)
    return {
        name: round(float(value), 3)
        for name, value in zip(names, solution / size, strict=True)
        if value > 0.0005
    }


# ---------------------------------------------------------------- random operators


def _map(s: HostSketch) -> None:
    shape = s.shape(int(s.random.integers(1, 4)))
    s.add(Map, s.turned(shape, "output"), input=s.turned(shape), table=s.table(-128, 128, (256,)))


def _copy(s: HostSketch) -> None:
    shape = s.shape(int(s.random.integers(1, 4)))
    s.add(Map, s.turned(shape, "output"), input=s.turned(shape), table=None)


def _fill(s: HostSketch) -> None:
    s.add(Fill, s.turned(s.shape(2), "output"), constant=3)


def _add(s: HostSketch) -> None:
    shape = s.shape(2)
    s.add(
        Addition, s.turned(shape, "output"), left=s.turned(shape), right=s.turned(shape), left_scale=0.5,
        right_scale=0.25, scale=0.75, relu=False,
    )  # fmt: skip


def _multiply(s: HostSketch) -> None:
    shape = s.shape(2)
    s.add(
        Multiplication, s.turned(shape, "output"), left=s.turned(shape), right=s.turned(shape),
        rescale=fixed_point(0.007),
    )  # fmt: skip


def _binary(s: HostSketch) -> None:
    shape = s.shape(2)
    s.add(
        BinaryTable, s.turned(shape, "output"), left=s.turned(shape), right=s.turned(shape),
        table=s.table(-128, 128, (256, 256)),
    )  # fmt: skip


def _softmax(s: HostSketch) -> None:
    shape = (s.size(1, 60), s.size(2, 600))
    mask = None
    if s.random.random() < 0.3:
        mask = s.value(shape, "input", s.random.integers(0, 2, shape, dtype=np.int8))
    turned = s.turned if s.random.random() < 0.7 else s.value
    s.add(
        Softmax, turned(shape, "output"), input=turned(shape),
        table=s.value((256,), "constant", exponentials(0.05)), numerator=2**24 * 127, mask=mask,
    )  # fmt: skip


def _normalise(s: HostSketch) -> None:
    axes = int(s.random.integers(1, 3))
    shape = (s.size(1, 40), s.size(8, 1000)) if axes == 1 else (s.size(1, 10), s.size(2, 30), s.size(2, 60))
    turned = s.turned if s.random.random() < 0.7 else s.value
    row = shape[1:]
    s.add(
        Normalisation, turned(shape, "output"), input=turned(shape),
        gain=s.table(2**13, 2**14, row, "int32").expanded(shape),
        offset=s.table(-(2**10), 2**10, row, "int32").expanded(shape),
        axes=axes, centre=True, epsilon=math.prod(row) ** 2, shift=21,
    )  # fmt: skip


def _reduce(s: HostSketch, function: str) -> None:
    if s.random.random() < 0.5:  # averages of images with channels last
        size = s.size(2, 12)
        channels = s.size(8, 300) if s.random.random() < 0.5 else 64 * s.size(1, 10)
        image = s.value((1, size, size, channels)).transposed((0, 3, 1, 2))
        s.add(
            Reduction, s.value((1, channels), "output"), input=image, function=function, axes=2,
            rescale=fixed_point(0.01),
        )  # fmt: skip
        return
    rows, extent = s.size(1, 60), s.size(4, 400)
    s.add(
        Reduction, s.value((rows,), "output"), input=s.value((rows, extent)), function=function, axes=1,
        rescale=fixed_point(0.01),
    )  # fmt: skip


def _argmax(s: HostSketch) -> None:
    rows, extent = s.size(1, 40), s.size(4, 500)
    target = s.value((rows,), "output")
    s.values[target.value] = IntegerTensor(target.value, (rows,), "int32", role="output")
    s.add(ArgMax, target, input=s.value((rows, extent)))


def _windows(s: HostSketch) -> tuple[View, View, tuple[int, int], tuple[int, int], tuple[int, int]]:
    kernel, stride = int(s.random.integers(2, 5)), int(s.random.integers(1, 3))
    padding = int(s.random.integers(0, kernel // 2 + 1))
    size, channels = s.size(kernel + 1, 24), s.size(1, 50)
    out = (size + 2 * padding - kernel) // stride + 1
    source, target = s.value((1, size, size, channels)), s.value((1, out, out, channels), "output")
    return source, target, (kernel, kernel), (stride, stride), (padding, padding)


def _max_pool(s: HostSketch) -> None:
    source, target, kernel, stride, padding = _windows(s)
    s.add(MaxPool, target, input=source, kernel=kernel, stride=stride, padding=padding, dilation=(1, 1))


def _average_pool(s: HostSketch) -> None:
    source, target, kernel, stride, padding = _windows(s)
    factor = s.table(2**10, 2**11, target.shape[1:3], "int32")
    s.add(
        AveragePool, target, input=source, factor=factor, shift=16, kernel=kernel, stride=stride,
        padding=padding,
    )  # fmt: skip


def _resize(s: HostSketch) -> None:
    height, width, channels = s.size(2, 12), s.size(2, 12), s.size(1, 40)
    rows, columns = 2 * height, 2 * width

    def weights(count: int, size: int) -> View:
        at = s.random.integers(0, size, (count, 2))
        return s.value(
            (count, 3),
            "constant",
            np.column_stack([at, s.random.integers(0, 2**11, count)]).astype(np.int32),
        )

    s.add(
        Resize, s.value((1, rows, columns, channels), "output"), input=s.value((1, height, width, channels)),
        rows=weights(rows, height), columns=weights(columns, width),
    )  # fmt: skip


def _embed(s: HostSketch) -> None:
    rows, count, features = s.size(20, 400), s.size(2, 60), s.size(8, 500)
    features = features // 8 * 8 if s.random.random() < 0.6 else features | 1
    indices = s.value((count,), "input", s.random.integers(0, rows, count).astype(np.int32))
    s.add(
        Embedding, s.value((count, features), "output"), indices=indices,
        table=s.table(-128, 128, (rows, features)),
    )  # fmt: skip


def _rotate(s: HostSketch) -> None:
    heads, rows, pairs = s.size(1, 8), s.size(2, 40), s.size(4, 64)
    shape = (heads, rows, 2 * pairs)
    s.add(
        Rotation, s.value(shape, "output"), input=s.value(shape),
        cosine=s.table(-127, 128, (rows, pairs)), sine=s.table(-127, 128, (rows, pairs)),
        interleaved=bool(s.random.random() < 0.3), scale=float(np.float32(1 / 127)),
    )  # fmt: skip


def _matmul(s: HostSketch) -> None:
    rows, depth, columns = (s.size(1, 24) for _ in range(3))
    s.add(
        MatMul, s.value((rows, columns), "output"), left=s.value((rows, depth)), right=s.value((depth, columns)),
        bias=None, relu=False, scale=0.01,
    )  # fmt: skip


def _convolve(s: HostSketch) -> None:
    size, ins, outs, kernel = s.size(3, 8), s.size(1, 12), s.size(1, 12), int(s.random.integers(1, 4))
    out = size - kernel + 1
    s.add(
        Convolution, s.value((1, out, out, outs), "output"), input=s.value((1, size, size, ins)),
        weight=s.value((kernel, kernel, ins, outs), "constant"), bias=None, stride=(1, 1), padding=(0, 0),
        dilation=(1, 1), size=(out, out), groups=1, relu=False, scale=0.01,
    )  # fmt: skip


def _wide(s: HostSketch, shape: tuple[int, ...]) -> View:
    """An output of positions."""
    target = s.value(shape, "output")
    s.values[target.value] = IntegerTensor(target.value, shape, "int32", role="output")
    return target


def _positions(s: HostSketch, shape: tuple[int, ...], most: int) -> View:
    return s.value(shape, "input", s.random.integers(0, most, shape).astype(np.int32))


def _convert(s: HostSketch) -> None:
    shape = s.shape(2)
    if s.random.random() < 0.5:
        s.add(Conversion, s.turned(shape, "output"), input=_positions(s, shape, 100), scale=0.5)
    else:
        s.add(Conversion, _wide(s, shape), input=s.turned(shape), scale=1.0)


def _top(s: HostSketch) -> None:
    rows, extent = s.size(1, 40), s.size(4, 1000)
    s.add(TopK, _wide(s, (rows, s.size(1, extent))), input=s.value((rows, extent)))


def _take(s: HostSketch) -> None:
    rows, extent, count = s.size(1, 40), s.size(4, 500), s.size(4, 500)
    indices = _positions(s, (rows, count), extent)
    s.add(Take, s.turned((rows, count), "output"), input=s.turned((rows, extent)), indices=indices)


def _one_hot(s: HostSketch) -> None:
    rows, depth = s.size(1, 100), s.size(2, 300)
    s.add(
        OneHot, s.value((rows, depth), "output"), indices=_positions(s, (rows,), depth), on=127, off=0
    )  # fmt: skip


def _max_positions(s: HostSketch) -> None:
    source, target, kernel, stride, padding = _windows(s)
    s.values[target.value] = IntegerTensor(target.value, target.shape, "int32", role="output")
    s.add(
        MaxPositions, target, input=source, kernel=kernel, stride=stride, padding=padding,
        dilation=(1, 1), steps=(0, source.shape[2], 1, source.shape[1] * source.shape[2]),
    )  # fmt: skip


def _unpool(s: HostSketch) -> None:
    count, size = s.size(8, 4000), s.size(16, 16_000)
    s.add(
        Unpool, s.value((size,), "output"), input=s.value((count,)),
        indices=_positions(s, (count,), size),
    )  # fmt: skip


def _term_sum(s: HostSketch) -> None:
    rows, extent = s.size(1, 200), s.size(2, 300)
    squares = np.arange(-128, 128, dtype=np.int64) ** 2
    limits = np.linspace(0, int(squares.max()) * extent, 255).astype(np.int64)
    s.add(
        TermSum, s.value((rows,), "output"), input=s.turned((rows, extent)),
        terms=s.value((256,), "constant", squares), limits=s.value((255,), "constant", limits), axes=1,
    )  # fmt: skip


def _real_numbers(s: HostSketch, *shape: int) -> View:
    """Bits of positive float32 numbers."""
    return s.value(shape, "constant", s.random.uniform(0.001, 0.01, shape).astype(np.float32).view(np.int32))


def _sums(s: HostSketch, shape: tuple[int, ...]) -> View:
    return s.value(shape, "input", s.random.integers(-10_000, 10_000, shape).astype(np.int32))


def _requantise(s: HostSketch) -> None:
    rows, channels = s.size(1, 200), s.size(2, 200)
    shape = rows, channels
    corrected = s.random.random() < 0.3
    factors = _real_numbers(s, channels if s.random.random() < 0.5 else 1)
    s.add(
        requantisation.Requantise, s.turned(shape, "output"), input=_sums(s, shape),
        rows=_sums(s, shape) if corrected else None, columns=None, factors=factors, zero=3, low=-128, high=127,
    )  # fmt: skip


def _row_sums(s: HostSketch) -> None:
    rows, extent = s.size(1, 200), s.size(2, 300)
    s.add(requantisation.RowSums, _wide(s, (rows,)), input=s.turned((rows, extent)), factor=-3, offset=7)


def _scaled_pair(s: HostSketch) -> None:
    shape = s.shape(int(s.random.integers(1, 4)))
    s.add(
        requantisation.ScaledPair, s.turned(shape, "output"), left=s.turned(shape), right=s.turned(shape),
        tables=_real_numbers(s, 2, 256), product=bool(s.random.integers(2)), zero=3, low=-128, high=127,
    )  # fmt: skip


def _window_average(s: HostSketch) -> None:
    source, target, kernel, stride, padding = _windows(s)
    s.add(
        requantisation.WindowAverage, target, input=source, factors=_real_numbers(s, *target.shape[1:3]),
        kernel=kernel, stride=stride, padding=padding, source_zero=5, zero=3, low=-128, high=127,
    )  # fmt: skip


def _scaled_softmax(s: HostSketch) -> None:
    rows, extent = s.size(1, 100), s.size(2, 300)
    s.add(
        requantisation.ScaledSoftmax, s.turned((rows, extent), "output"), input=s.turned((rows, extent)),
        exponentials=_real_numbers(s, 256), scale=1 / 256, zero=-128, low=-128, high=127,
    )  # fmt: skip


_KINDS: tuple[Callable[[HostSketch], None], ...] = (
    *(_map, _copy, _fill, _add, _multiply, _binary, _softmax, _normalise),
    *(lambda s: _reduce(s, "sum"), lambda s: _reduce(s, "max"), lambda s: _reduce(s, "min")),
    *(_argmax, _max_pool, _average_pool, _resize, _embed, _rotate, _matmul, _convolve),
    *(_convert, _top, _take, _one_hot, _max_positions, _unpool, _term_sum),
    *(_requantise, _row_sums, _scaled_pair, _window_average, _scaled_softmax),
    *REAL_KINDS,
    *ROW_KINDS,
    *FUSED_KINDS,
)


def _program(
    make: Callable[[HostSketch], None], random: np.random.Generator, each: int, *, checks: bool
) -> NetworkProgram:
    sketch = HostSketch(random)
    for _ in range(each):
        make(sketch)
    ends: dict[str, dict[str, View]] = {"input": {}, "output": {}}
    for tensor in sketch.values.values():
        if tensor.role in ends:
            ends[tensor.role][tensor.name] = dense(tensor.name, tensor.shape)
    constants = {
        name: sketch.data[name] for name, tensor in sketch.values.items() if tensor.role == "constant"
    }
    network = QuantisedNetwork(
        "micro", sketch.values, tuple(sketch.operators), constants, ends["input"], ends["output"]
    )
    data = {name: sketch.data[name] for name, tensor in sketch.values.items() if tensor.role == "input"}
    return compile_network(
        network,
        _HOST_ONLY,
        schedule=_refuse,
        data=data,
        reference=reference(network, data) if checks else None,
        check_layers=checks,
    )


#: An accelerator that computes none of the operators, so that the host does.
_HOST_ONLY = Accelerator(
    name="host-only",
    dim=4,
    scratchpad_kib=16,
    accumulator_kib=8,
    features=Features(max_pool=False, mvin_scale=False, accumulator_scale=False),
)


def _refuse(layer: Layer) -> Any:
    raise InfeasibleError("the host is what is measured")


def _errors(samples: list[HostSample], constants: dict[str, dict[str, float]], timing: str) -> Iterator[str]:
    variants: dict[str, list[float]] = {}
    for work, misses, cycles in samples:
        values = constants.get(work.variant)
        if values is None:
            continue
        predicted = sum(values.get(name, 0.0) * amount for name, amount in work.amounts.items())
        predicted += sample_miss_cycles(timing) * misses
        variants.setdefault(work.variant, []).append(predicted / cycles - 1)
    for name, errors in variants.items():
        mean, worst = float(np.mean(np.abs(errors))), float(np.max(np.abs(errors)))
        yield (
            f"{name:28} {len(errors):3} calls: mean error {100 * mean:5.1f} %, bias {100 * np.mean(errors):+5.1f} %,"
            f" largest {100 * worst:5.1f} %"
        )


def main(arguments: list[str]) -> None:
    """Measure, fit, write, and say how good it is."""
    timings = {}
    for timing in TIMINGS:
        constants = timings[timing] = fit(measure_host_work(timing), timing)
        sys.stdout.write(f"{timing}:\n")
        for line in _errors(measure_host_work(timing, _SEED + 1), constants, timing):
            sys.stdout.write(line + "\n")
    if "--check" in arguments:
        return
    text = json.dumps(
        {"fitted_by": "python -m baco.bench.fit.host", "timings": timings}, indent=1, sort_keys=True
    )
    path = Path(host_model.__file__).parent / host_model.CONSTANTS_FILE
    atomic_write(path, text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
