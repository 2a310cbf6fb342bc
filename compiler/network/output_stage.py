"""Requantisation of a product's results on their way out of the accelerator: scales of columns, zero point and limits.

What a model that is quantised already asks for (`baco.compiler.ops.requantisation.Requantise`) is what stores do after
CONFIG_OUTPUT and SET_SCALES, to the bit, on machines with the feature `requantization`: float32 of the sum times float32, rounded
to even, plus zero point, limited. A column of the array has one scale at a time: channels are computed in parts of as many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.way_out import through
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import Requantise
from baco.compiler.ops.views import View
from baco.compiler.schedules.schedule import Schedule

#: Operators whose sums can be requantised.
Product = Convolution | MatMul


@dataclass(frozen=True)
class OutputStage:
    """How stores requantise, apart from the scales.

    Attributes:
        zero, low, high: of the result, as in `Requantise`.
        by_column: every column has its own scale; else it is that of the layer.
    """

    zero: int
    low: int
    high: int
    by_column: bool


@dataclass(frozen=True)
class RequantisedPart:
    """Neighbouring channels of a product that are computed at once.

    Attributes:
        product: of these channels, with results of 8 bits.
        stage: that its results go through.
        start: the first channel.
        factors: float32 of each channel.
    """

    product: Product
    stage: OutputStage
    start: int
    factors: np.ndarray

    def fits(self, layer: Layer, schedule: Schedule) -> bool:
        """Whether a schedule leaves every channel to the column whose scale is its own."""
        groups = layer.problem.groups
        if not self.stage.by_column:
            return True
        return schedule.groups_at_once >= groups


def requantised_behind(network: QuantisedNetwork) -> dict[str, Requantise]:
    """By the name of a product with 32-bit results the requantisation that alone reads them, all of them."""
    once = network.used_once()
    products = {
        op.output.value: op for op in network.operators if isinstance(op, Product) and op.scale is None
    }
    found: dict[str, Requantise] = {}
    for op in network.operators:
        if not isinstance(op, Requantise) or op.rows is not None or op.columns is not None:
            continue
        name = op.input.value
        product = products.get(name)
        if (
            product is not None
            and name in once
            and not (isinstance(product, MatMul) and len(product.right.shape) > 2)
            and through(product, op) is not None
        ):
            found[product.name] = op
    return found


def requantised_parts(
    op: Product, behind: Requantise, factors: np.ndarray, dim: int
) -> list[RequantisedPart]:
    """All channels of a product, of one scale or at most `dim` at once; none where a group of several channels has several scales.

    Args:
        behind: what requantises its results.
        factors: bits of float32 of every channel [K], or of all [1].
        dim: columns of the array.
    """
    target = through(op, behind)
    assert target is not None
    channels = op.output.shape[-1]
    factors = np.broadcast_to(np.ascontiguousarray(factors).view(np.float32).reshape(-1), (channels,))
    alike = bool((factors == factors[0]).all())
    groups = op.groups if isinstance(op, Convolution) else 1
    if groups > 1 and not alike and not groups == channels == op.inputs[0].shape[-1]:
        return []
    found = []
    step = channels if alike else dim
    for start in range(0, channels, step):
        own = factors[start : start + step]
        by_column = not bool((own == own[0]).all())
        product = _channels(replace(op, output=target), start, len(own), 1.0 if by_column else float(own[0]))
        stage = OutputStage(behind.zero, behind.low, behind.high, by_column)
        found.append(RequantisedPart(product, stage, start, own))
    return found


def _channels(op: Product, start: int, count: int, scale: float) -> Product:
    """The product of some channels."""

    def last(view: View) -> View:
        starts = [0] * (len(view.shape) - 1) + [start]
        return view.sliced(starts, (*view.shape[:-1], count), [1] * len(view.shape))

    if count == op.output.shape[-1]:
        return replace(op, scale=scale)
    bias = None if op.bias is None else last(op.bias)
    if isinstance(op, MatMul):
        return replace(op, right=last(op.right), bias=bias, output=last(op.output), scale=scale)
    source, groups = (op.input, 1) if op.groups == 1 else (last(op.input), count)
    output, weight = last(op.output), last(op.weight)
    return replace(op, input=source, weight=weight, bias=bias, output=output, groups=groups, scale=scale)


def scale_words(factors: np.ndarray) -> np.ndarray:
    """int32 [K], rounded up to an even number: the bits of float32 scales, as `begin_output` reads them."""
    words = np.zeros(math.ceil(len(factors) / 2) * 2, np.float32)
    words[: len(factors)] = factors
    return words.view(np.int32)


def begin_output(e: Emitter, stage: OutputStage, columns: int, scales: Number) -> None:
    """Stores requantise so from here on, until `end_output`.

    Args:
        columns: that have scales of their own, where the stage has any.
        scales: address of these (`scale_words`).
    """
    if stage.by_column:
        with e.loop(math.ceil(columns / 2)) as n:
            e.command("set_scales", column=e.mul(n, 2), scales=e.load(e.add(scales, e.mul(n, 8))))
    e.command(
        "config_output",
        by_column=int(stage.by_column),
        zero=stage.zero & 255,
        low=stage.low & 255,
        high=stage.high & 255,
    )


def end_output(e: Emitter) -> None:
    """Stores round and saturate to int8 again."""
    e.command("config_output", by_column=0, zero=0, low=-128 & 255, high=127)
