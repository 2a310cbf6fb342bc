"""A network whose products read numbers of a floating-point or block format and add up in float32: evaluated, no hardware yet.

What a convolution or matrix product reads is stored in a format, weights and activations alike, and products are added up in float32,
one after the other (`baco.accel.number_formats.products_summed`): of convolutions in the order of kernel rows, kernel columns,
channels. Everything else, the bias too, is float32, as in `FloatGraph`. Blocks lie along channels, so that an image is stored once,
and along the rows of matrices that are summed over.

Numbers of formats of few exponents are stored in units of a power of two, one a tensor, by which the largest magnitude is just below
the format's: of activations the largest that was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from baco.accel.number_formats import FORMATS, BlockFormat, FloatFormat, products_summed
from baco.common.errors import InputError, Location, did_you_mean
from baco.compiler.network.float_graph import Array, FloatGraph, Values
from baco.compiler.network.parameters import Parameters
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Parameter

#: Formats with exponents of so many bits, those of float32, need no unit.
_WIDE = 8


def float_format(name: str) -> FloatFormat | BlockFormat:
    """A format of real numbers. Raises InputError for others."""
    found = FORMATS.get(name)
    if not isinstance(found, FloatFormat | BlockFormat):
        names = [known for known, one in FORMATS.items() if isinstance(one, FloatFormat | BlockFormat)]
        raise InputError(f"there is no format '{name}' of real numbers", hint=did_you_mean(name, names))
    return found


class FormatGraph(FloatGraph):
    """Runs an unrolled network so.

    Args:
        network, parameters: as of `FloatGraph`.
        form: of what products read.
        largest: magnitude of every tensor that a product reads, by its name; others have the unit 1.

    Raises InputError, from `run`, for transposed convolutions.
    """

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        form: FloatFormat | BlockFormat,
        largest: Mapping[str, float],
    ) -> None:
        super().__init__(network, parameters)
        self._form, self._largest = form, largest
        self._weights: dict[str, Array] = {}

    def _compute(self, op: Operator, values: Values) -> Array:
        assert op.semantics is not None
        function = op.semantics.function
        if function == "conv":
            return self._convolution(op, values)
        if function == "matmul":
            return self._product(op, values)
        if function == "conv_transpose":
            raise InputError(
                f"transposed convolutions are not evaluated in {self._form.name}",
                location=Location(self.network.source, node=op.name),
            )
        return super()._compute(op, values)

    def _stored(self, op: Operator, position: int, value: Array, axis: int) -> Array:
        """What is left of an operand, float32, with blocks along an axis; of weights once."""
        assert op.semantics is not None
        operand = op.semantics.operands[position]
        trained = isinstance(operand, Parameter)
        key = f"{op.name}.{position}"
        if trained and key in self._weights:
            return self._weights[key]
        moved = np.moveaxis(np.asarray(value, np.float32), axis, -1)
        if isinstance(self._form, FloatFormat) and self._form.exponent_bits < _WIDE:
            largest = float(np.abs(moved).max(initial=0.0))
            if isinstance(operand, Tensor):
                largest = self._largest.get(operand.name, self._form.largest)
            unit = math.ceil(math.log2(largest / self._form.largest)) if largest else 0
            rounded = np.ldexp(self._form.rounded(np.ldexp(moved, -unit)), unit)
        else:
            rounded = self._form.rounded(moved)
        stored: Array = np.moveaxis(rounded.astype(np.float32), -1, axis)
        if trained:
            self._weights[key] = stored
        return stored

    def _convolution(self, op: Operator, values: Values) -> Array:
        assert op.semantics is not None
        a = op.semantics.attributes
        image, weight = (self._stored(op, position, values[position], 1) for position in (0, 1))
        channels, depth, *kernel = weight.shape
        image = np.pad(image, [(0, 0), (0, 0), *a["padding"]])
        sizes = op.output.shape[2:]
        taps = []
        for tap in np.ndindex(*kernel):
            places = tuple(
                slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
                for at, dilation, size, stride in zip(tap, a["dilation"], sizes, a["stride"], strict=True)
            )
            taps.append(image[(slice(None), slice(None), *places)])
        # [N, *sizes, taps, C]: what every sum reads, in its order
        read = np.moveaxis(np.stack(taps, -1), 1, -1)
        line = weight.reshape(channels, depth, -1).transpose(2, 1, 0)
        own = channels // a["groups"]
        parts = []
        for group in range(a["groups"]):
            rows = read[..., group * depth : (group + 1) * depth].reshape(-1, len(taps) * depth)
            columns = line[..., group * own : (group + 1) * own].reshape(-1, own)
            parts.append(products_summed(rows, columns))
        result = np.concatenate(parts, 1)
        if values[2] is not None:
            result = result + values[2].astype(np.float32).reshape(-1)
        return np.asarray(np.moveaxis(result.reshape(op.output.shape[0], *sizes, channels), -1, 1))

    def _product(self, op: Operator, values: Values) -> Array:
        assert op.semantics is not None
        left = self._stored(op, 0, values[0], -1)
        right = self._stored(op, 1, values[1], -2 if values[1].ndim > 1 else 0)
        rows = left[None] if left.ndim == 1 else left
        columns = right[:, None] if right.ndim == 1 else right
        lead = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
        rows = np.broadcast_to(rows, (*lead, *rows.shape[-2:]))
        columns = np.broadcast_to(columns, (*lead, *columns.shape[-2:]))
        result = np.empty((*lead, rows.shape[-2], columns.shape[-1]), np.float32)
        for index in np.ndindex(*lead):
            result[index] = products_summed(rows[index], columns[index])
        result = result.reshape(op.output.shape) * np.float32(op.semantics.attributes["alpha"])
        return np.asarray(result if values[2] is None else result + values[2].astype(np.float32))
