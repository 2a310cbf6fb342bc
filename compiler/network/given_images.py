"""Operators on images that a quantised model leaves in real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of, spatial_pair
from baco.compiler.network.float_graph import pool_counts
from baco.compiler.network.real_values import (
    channel_numbers,
    real,
    real_constant,
    real_image,
    real_line,
    real_name,
)
from baco.compiler.network.resample import resample_axis
from baco.compiler.network.tensor_operators import ConvolutionGeometry, stored_image
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.floating import RealConvolution, RealResize, RealWindows
from baco.compiler.ops.views import View
from baco.workloads.network import Operator
from baco.workloads.semantics import Operand, Parameter

Array = np.ndarray


def real_pool(b: IntegerBuilder, op: Operator) -> View:
    """Averages and maxima of windows."""
    a = semantics_of(op).attributes
    view = real(b, semantics_of(op).operands[0], op)
    output, divisors = real_image(b, op), None
    if semantics_of(op).function == "avgpool":
        counts = pool_counts(dict(a), view.shape[2:]).reshape(spatial_pair(a["shape"]))
        divisors = real_constant(b, f"{op.name}.divisors", counts)
    b.emit(
        RealWindows(
            real_name(b, op),
            (op.name,),
            stored_image(output),
            stored_image(view),
            spatial_pair(a["stride"]),
            spatial_pair(tuple(p[0] for p in a["padding"]), 0),
            spatial_pair(a["dilation"]),
            divisors,
            spatial_pair(a["kernel"]),
        )
    )
    return output


def real_resize(b: IntegerBuilder, op: Operator) -> View:
    """Nearest or linear interpolation of images."""
    a = dict(semantics_of(op).attributes)
    view = real(b, semantics_of(op).operands[0], op)
    shape = op.output.shape
    if shape[:2] != view.shape[:2]:
        raise b.error(op, "only heights and widths can be resized")
    tables = [np.zeros((1, 3))] if len(shape) == 3 else []
    for axis in range(2, len(shape)):
        factor = None if a["scales"] is None else a["scales"][axis - 2]
        tables.append(np.stack(resample_axis(view.shape[axis], shape[axis], factor, a), axis=1))
    rows, columns = (
        real_constant(b, f"{op.name}.{part}", entries)
        for part, entries in zip(("rows", "columns"), tables, strict=True)
    )
    output = real_image(b, op)
    b.emit(RealResize(real_name(b, op), (op.name,), stored_image(output), stored_image(view), rows, columns))
    return output


def real_convolution(b: IntegerBuilder, op: Operator) -> View:
    """Convolution of an image."""
    x, weight, bias = semantics_of(op).operands
    assert isinstance(weight, Parameter)
    view = real(b, x, op)
    dimensions = len(weight.shape)
    kernel = b.parameters(weight).transpose((*range(2, dimensions), 1, 0))
    window = ConvolutionGeometry.of(op, [before for before, _ in semantics_of(op).attributes["padding"]])
    image = stored_image(view)
    return _convolved(b, op, image, kernel[None] if dimensions == 3 else kernel, window, bias)


def _convolved(
    b: IntegerBuilder, op: Operator, image: View, kernel: Array, window: ConvolutionGeometry, bias: Operand
) -> View:
    """A convolution of an image [N, H, W, C] with weights [S, R, C / groups, K], and the bias of its channels."""
    output = real_image(b, op)
    b.emit(
        RealConvolution(
            real_name(b, op),
            (op.name,),
            stored_image(output),
            image,
            window.stride,
            window.padding,
            window.dilation,
            real_constant(b, f"{op.name}.real.weight", kernel),
            window.groups,
        )
    )
    return (
        output
        if bias is None
        else real_line(b, op, output, None, channel_numbers(b, bias, op.output.shape, op))
    )


def real_transposed(b: IntegerBuilder, op: Operator) -> View:
    """A convolution, with the taps turned round, of the image with zeros between its pixels."""
    x, weight, bias = semantics_of(op).operands
    assert isinstance(weight, Parameter)
    a = semantics_of(op).attributes
    image, groups = stored_image(real(b, x, op)), a["groups"]
    taps = spatial_pair(weight.shape[2:])
    stride, dilation = spatial_pair(a["stride"]), spatial_pair(a["dilation"])
    before = spatial_pair([p[0] for p in a["padding"]], 0)
    sizes = [(image.shape[1 + i] - 1) * stride[i] + 1 for i in range(2)]
    spread = b.value(f"{op.name}.spread", (image.shape[0], *sizes, image.shape[3]), 1.0, "float32")
    none = real_constant(b, "no.number", np.zeros(1))
    _interleaved(b, op, f"{op.name}.spread", spread, {(0, 0): image}, stride, none)
    elements = b.parameters(weight)
    depth, width = elements.shape[0] // groups, elements.shape[1]
    kernel = elements.reshape(groups, depth, width, *taps)[..., ::-1, ::-1].transpose(3, 4, 1, 0, 2)
    phase = (0, 0) if a["phase"] is None else spatial_pair(a["phase"], 0)
    window = ConvolutionGeometry(
        (1, 1) if a["phase"] is None else stride,
        (
            (taps[0] - 1) * dilation[0] - before[0] - phase[0],
            (taps[1] - 1) * dilation[1] - before[1] - phase[1],
        ),
        dilation,
        spatial_pair(op.output.shape[2:]),
        groups,
    )
    return _convolved(b, op, spread, kernel.reshape(*taps, depth, groups * width), window, bias)


def _interleaved(
    b: IntegerBuilder,
    op: Operator,
    name: str,
    target: View,
    parts: Mapping[tuple[int, int], View],
    stride: tuple[int, int],
    other: View,
) -> None:
    """Write images [N, H, W, C] to every so many pixels of another, by the first pixel of each, and `other` numbers elsewhere."""
    for first in product(*(range(min(stride[i], target.shape[1 + i])) for i in range(2))):
        sizes = [-(-(target.shape[1 + i] - first[i]) // stride[i]) for i in range(2)]
        shape = (target.shape[0], *sizes, target.shape[3])
        places = target.sliced((0, *first, 0), shape, (1, *stride, 1))
        source = parts.get((first[0], first[1])) or other.expanded(shape)
        b.emit(Map(b.name(name), (op.name,), places, source, None))


def real_interleave(b: IntegerBuilder, op: Operator) -> View:
    """Parts of a transposed convolution, each every so many pixels, and the bias of their channels elsewhere."""
    *parts, bias = semantics_of(op).operands
    a = semantics_of(op).attributes
    output = real_image(b, op)
    images = {
        spatial_pair(residues, 0): stored_image(real(b, x, op))
        for x, residues in zip(parts, a["residues"], strict=True)
    }
    numbers = np.zeros(1) if bias is None else channel_numbers(b, bias, op.output.shape, op).reshape(-1)
    other = real_constant(b, f"{op.name}.elsewhere", numbers)
    _interleaved(b, op, real_name(b, op), stored_image(output), images, spatial_pair(a["stride"]), other)
    return output
