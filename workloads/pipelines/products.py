"""Products with constant matrices as operators of a graph, rounded to bytes on their way out of the array."""

from __future__ import annotations

import numpy as np

from baco.workloads.network import Tensor
from baco.workloads.pipelines.node import Node, PipelineError
from baco.workloads.pipelines.product_forms import RoundedProduct, bands
from baco.workloads.pipelines.ranges import LARGEST_SUM
from baco.workloads.pipelines.stencil_code import StencilEmitter
from baco.workloads.semantics import rounded
from baco.workloads.views import Reshape, Slice, Transpose


class ProductEmitter(StencilEmitter):
    """See the module."""

    def rounded_product(self, node: Node, found: RoundedProduct) -> Tensor:
        """The result, in the node's shape."""
        encoding = node.range.encoding()
        assert encoding is not None
        if 255 * int(np.abs(found.matrix).sum(0).max()) > LARGEST_SUM:
            raise PipelineError("the sum of a product may be beyond the array's 32 bits", location=node.line)
        x = self.tensors[id(found.other)]
        axis = 0 if found.left else 1
        parts = []
        for first, last, low, high in bands(found.matrix, x.shape[1 - axis], self.how.dim):
            size = [high - low, high - low]
            size[1 - axis] = x.shape[1 - axis]
            shape, starts = (size[0], size[1]), (low, 0) if found.left else (0, low)
            given = x if shape == x.shape else x.viewed(shape, Slice(starts, shape, (1, 1)))
            weights = found.matrix[low:high, first:last]
            constant = self.whole(weights.T if found.left else weights, found.exponent)
            made = (
                self.builder.matmul(constant, given) if found.left else self.builder.matmul(given, constant)
            )
            parts.append(
                self.builder.op("requantize", (made,), made.shape, semantics=rounded(made, encoding))
            )
        result = parts[0]
        if len(parts) > 1:
            whole = self.op("concat", parts, found.product.shape, "concat", axis=axis)
            result = self.builder.op("requantize", (whole,), whole.shape, semantics=rounded(whole, encoding))
        for view in found.views:
            step = (
                Reshape(view.shape)
                if view.function == "reshape"
                else Transpose(tuple(view.attributes["axes"]))
            )
            result = result.viewed(view.shape, step)
        return result
