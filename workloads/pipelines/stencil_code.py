"""Stencils as operators of a graph: convolutions of the array, of packed pixels or of single ones, or of the host core."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from baco.workloads.network import Tensor
from baco.workloads.pipelines.emitter import NodeEmitter
from baco.workloads.pipelines.linear import IntegerStencil, integer_stencil
from baco.workloads.pipelines.node import Node, PipelineError
from baco.workloads.pipelines.ranges import LARGEST_SUM
from baco.workloads.pipelines.stencils import Packing, best_packing, depthwise, packed_kernel, separated
from baco.workloads.views import Reshape, Slice


class StencilEmitter(NodeEmitter):
    """See the module."""

    def stencil_of(self, node: Node) -> IntegerStencil | None:
        """The stencil that a node is, rounded and limited on the way out where it is so; None where it is none.

        Raises PipelineError for one whose sums may leave 32 bits.
        """
        inner = node
        if _named(inner, "clip") and self.choice.is_byte(node):
            if not _byte_limits(inner):
                return None
            inner = inner.operands[0]
        floor = False
        if (_named(inner, "round") or _named(inner, "floor")) and self.choice.is_byte(node):
            floor, inner = _named(inner, "floor"), inner.operands[0]
        elif inner is not node and (inner.range.exponent is None or inner.range.exponent < 0):
            return None
        form = self.choice.forms.of(inner)
        if form is not None and form.base is inner and inner.function == "stencil":
            form = self.choice.forms.made_of(inner)
        if form is None or form.base is None or form.base in (node, inner):
            return None
        found = integer_stencil(form)
        if floor and found is not None and found.exponent < 0:
            # The nearest whole number to n / 2**k less half a unit short of a half is floor(n / 2**k), and never a tie.
            short = Fraction(1, 2) - Fraction(2) ** (found.exponent - 1)
            found = integer_stencil(form.plus(-short))
        if found is None or (
            found.kernel.shape[:2] == (1, 1) and found.kernel.shape[2] == found.kernel.shape[3]
        ):
            return None  # of single elements, which a table does
        most = int(np.abs(found.kernel).sum((0, 1, 2)).max()) * 255 + abs(found.constant)
        if most > LARGEST_SUM:
            raise PipelineError(
                f"the sum of a stencil may reach {most:,}, beyond the array's 32 bits", location=node.line
            )
        return found

    def stencil(self, node: Node, found: IntegerStencil) -> Tensor:
        """The result, in the node's shape."""
        if self.how.placing == "host":
            return self._on_host(node, found)
        packing = Packing(1, found.kernel.shape[1])
        if self.how.placing == "packed":
            packing = best_packing(found, self.how.dim)
        rows, _, channels, _ = found.kernel.shape
        height, width = found.shape[0] + rows - 1, found.base.shape[1]
        base = self.tensors[id(found.base)]
        size = (height, *base.shape[1:])
        image = base
        if size != base.shape:
            starts = (found.offset[0], *(0 for _ in base.shape[1:]))
            image = base.viewed(size, Slice(starts, size, tuple(1 for _ in size)))
        lines = (height, width // packing.pixels, packing.pixels * channels)
        image = self._channels_first(image if image.shape == lines else image.viewed(lines, Reshape(lines)))
        own = depthwise(found.kernel) if packing.pixels == 1 else None
        weights = packed_kernel(found.kernel, packing) if own is None else own
        bias = None
        if found.constant:
            unit = found.exponent + self.unit(found.base)
            steps = (
                round(found.constant / 2 ** self.unit(found.base))
                if self.unit(found.base)
                else found.constant
            )
            bias = self.whole(np.full(len(weights), steps, np.int64), unit, "bias")
        result = self.builder.conv2d(
            image,
            len(weights),
            weights.shape[2:],
            padding=(0, 0, 0, weights.shape[3] - 1),
            groups=1 if own is None else channels,
            trained=(self.whole(weights, found.exponent), bias),
            unused_border=True,
        )
        return self._unpacked(found, self.rounded(node, result), packing)

    def _unpacked(self, found: IntegerStencil, result: Tensor, packing: Packing) -> Tensor:
        _, made, height, groups = result.shape
        lines = (height, groups * packing.pixels, made // packing.pixels)
        flat = self._channels_last(result)
        image = flat if flat.shape == lines else flat.viewed(lines, Reshape(lines))
        kept = (*found.shape[:2], lines[2])
        if kept != lines:
            image = image.viewed(kept, Slice((0, found.offset[1], 0), kept, (1, 1, 1)))
        return image if len(found.shape) == 3 else image.viewed(found.shape, Reshape(found.shape))

    def _on_host(self, node: Node, found: IntegerStencil) -> Tensor:
        """In float32; as a column and a row where the kernel is their product."""
        base = self.tensors[id(found.base)]
        rows, columns, channels, _ = found.kernel.shape
        size = (found.shape[0] + rows - 1, found.shape[1] + columns - 1, *base.shape[2:])
        starts = (*found.offset, *(0 for _ in base.shape[2:]))
        image = self._channels_first(base.viewed(size, Slice(starts, size, tuple(1 for _ in size))))
        own = depthwise(found.kernel)
        kernels = [found.kernel.transpose(3, 2, 0, 1) if own is None else own]
        apart = separated(own[0, 0]) if own is not None and (own == own[:1]).all() else None
        if apart is not None:
            column, row = apart
            kernels = [
                np.broadcast_to(column[:, None], (channels, 1, rows, 1)),
                np.broadcast_to(row[None, :], (channels, 1, 1, columns)),
            ]
        scale = 2.0**found.exponent
        for number, weights in enumerate(kernels):
            factor = scale if number == len(kernels) - 1 else 1.0
            trained = (self.parameter(weights * factor, "weight"), None)
            groups = 1 if own is None else channels
            image = self.builder.conv2d(
                image, len(weights), weights.shape[2:], groups=groups, trained=trained
            )
        if found.constant:
            image = self.pair("add", image, self.parameter(found.constant * scale), image.shape)
        image = self._channels_last(self.rounded_on_host(node, image))
        return image if image.shape == found.shape else image.viewed(found.shape, Reshape(found.shape))

    def rounded_on_host(self, node: Node, image: Tensor) -> Tensor:
        """The same rounding as on the array: to the nearest whole number, and to bytes."""
        return self.rounded(node, image)

    def real_stencil(self, node: Node) -> Tensor:
        """Of an image that is no bytes, in float32."""
        (x,) = node.operands
        kernel, channels = node.attributes["kernel"], (*x.shape, 1)[2]
        image = self._channels_first(self.tensors[id(x)])
        weights = np.broadcast_to(kernel, (channels, 1, *kernel.shape))
        trained = (self.parameter(weights, "weight"), None)
        result = self.builder.conv2d(image, channels, kernel.shape, groups=channels, trained=trained)
        image = self._channels_last(self.rounded(node, result))
        return image if image.shape == node.shape else image.viewed(node.shape, Reshape(node.shape))

    def _channels_first(self, image: Tensor) -> Tensor:
        """(H, W) or (H, W, C) as (1, C, H, W)."""
        shape = (1, (*image.shape, 1)[2], *image.shape[:2])
        if len(image.shape) == 3:
            image = self.builder.transpose(image, (2, 0, 1))
        return image.viewed(shape, Reshape(shape))

    def _channels_last(self, image: Tensor) -> Tensor:
        """(1, C, H, W) as (H, W, C)."""
        return self.builder.transpose(image.viewed(image.shape[1:], Reshape(image.shape[1:])), (1, 2, 0))


def _named(node: Node, name: str) -> bool:
    return bool(node.function == "unary" and node.attributes["name"] == name)


def _byte_limits(node: Node) -> bool:
    """Whether a clip limits to what the byte of its result holds at most."""
    encoding = node.range.encoding()
    if encoding is None:
        return False
    numbers, inner = node.attributes["numbers"], node.operands[0].range
    low, high = ((q - encoding.zero) * encoding.scale for q in (encoding.low, encoding.high))
    least, most = numbers.get("low", low), numbers.get("high", high)
    return bool((least == low or inner.low >= least) and (most == high or inner.high <= most))
