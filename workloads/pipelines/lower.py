"""A traced pipeline as a network: what the array computes as convolutions and products of bytes, everything else for the host core.

Whole numbers whose range has at most 256 steps of a power of two are bytes (`Range.encoding`); others are float32, which must hold them
exactly. So a result is rounded where the pipeline says so, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from baco.workloads.network import Tensor
from baco.workloads.pipelines.node import Node, PipelineError
from baco.workloads.pipelines.product_forms import byte_weights, rounded_product
from baco.workloads.pipelines.products import ProductEmitter
from baco.workloads.pipelines.ranges import LARGEST_SUM
from baco.workloads.pipelines.reductions import Distances, distances, gram_blocks, square_of, summed_bytes
from baco.workloads.semantics import Parameter
from baco.workloads.views import Expand, Reshape, Slice, Transpose

_Plan = tuple[tuple[Node, ...], Callable[[], Tensor]]


class Lowered(ProductEmitter):
    """The operators of a pipeline, added to a graph as they are asked for."""

    def given(self, node: Node, tensor: Tensor) -> None:
        """What an input is in the graph."""
        self.tensors[id(node)] = self.rounded(node, tensor)

    def of(self, node: Node) -> Tensor:
        """The tensor of a node, in the node's shape.

        Raises PipelineError for what is not proven to stay in range, and what cannot be computed.
        """
        plans: dict[int, _Plan] = {}
        stack = [node]
        while stack:
            top = stack[-1]
            if id(top) in self.tensors:
                stack.pop()
                continue
            if id(top) not in plans:
                plans[id(top)] = self._plan(top)
            needed, emit = plans[id(top)]
            missing = [x for x in needed if id(x) not in self.tensors and x.function != "constant"]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self.tensors[id(top)] = emit()
        return self.tensors[id(node)]

    def _plan(self, node: Node) -> _Plan:
        """(Nodes that must be there, what adds this one): by the first rule that fits."""
        if node.function in ("binary", "unary", "stencil", "matmul"):
            stencil = self.stencil_of(node)
            if stencil is not None:
                return (stencil.base,), lambda: self.stencil(node, stencil)
            if node.function == "stencil":
                return node.operands, lambda: self.real_stencil(node)
        product = None if self.how.placing == "host" else rounded_product(node, self.choice.is_byte)
        if product is not None:
            return (product.other,), lambda: self.rounded_product(node, product)
        if (
            node.function == "reduce"
            and node.attributes["name"] in ("sum", "mean")
            and self.how.placing != "host"
        ):
            apart = distances(node, self.choice.is_byte)
            if apart is not None:
                return apart.needed, lambda: self.rounded(node, self._distances(node, apart))
            square = square_of(node.operands[0], self.choice.is_byte)
            byte = node.operands[0] if square is None else square
            if summed_bytes(node, byte, self.choice.is_byte):
                return (byte,), lambda: self.rounded(node, self._sum(node, byte, squared=square is not None))
        emit: Callable[[Node], Tensor] = getattr(self, f"_{node.function}")
        return node.operands, lambda: self.rounded(node, emit(node))

    # Element by element

    def _unary(self, node: Node) -> Tensor:
        operands = (self.operand(node.operands[0]),)
        return self.op("elementwise", operands, node.shape, "unary", **node.attributes)

    def _binary(self, node: Node) -> Tensor:
        left, right = (self.operand(one) for one in node.operands)
        return self.pair(node.attributes["name"], left, right, node.shape)

    def _where(self, node: Node) -> Tensor:
        return self.op("where", [self.operand(one) for one in node.operands], node.shape, "where")

    # Views

    def _slice(self, node: Node) -> Tensor:
        step = Slice(tuple(node.attributes["starts"]), node.shape, tuple(node.attributes["steps"]))
        return self.tensors[id(node.operands[0])].viewed(node.shape, step)

    def _reshape(self, node: Node) -> Tensor:
        return self.tensors[id(node.operands[0])].viewed(node.shape, Reshape(node.shape))

    def _transpose(self, node: Node) -> Tensor:
        step = Transpose(tuple(node.attributes["axes"]))
        return self.tensors[id(node.operands[0])].viewed(node.shape, step)

    def _expand(self, node: Node) -> Tensor:
        return self.tensors[id(node.operands[0])].viewed(node.shape, Expand(node.shape))

    # Data movement

    def _pad(self, node: Node) -> Tensor:
        return self.op("pad", (self.operand(node.operands[0]),), node.shape, "pad", **node.attributes)

    def _concat(self, node: Node) -> Tensor:
        return self.op(
            "concat", [self.operand(one) for one in node.operands], node.shape, "concat", **node.attributes
        )

    def _topk(self, node: Node) -> Tensor:
        return self.op("topk", (self.operand(node.operands[0]),), node.shape, "topk", **node.attributes)

    def _gather(self, node: Node) -> Tensor:
        if node.operands[0].function == "constant":
            raise PipelineError(
                "elements of a constant at computed positions are not supported", location=node.line
            )
        operands = [self.operand(one) for one in node.operands]
        return self.op("gather", operands, node.shape, node.function, **node.attributes)

    _take = _gather

    # Sums and products

    def _reduce(self, node: Node) -> Tensor:
        return self.op("reduce", (self.operand(node.operands[0]),), node.shape, "reduce", **node.attributes)

    def _matmul(self, node: Node) -> Tensor:
        left, right = node.operands
        if left.function == "constant" and len(left.shape) == 2 and len(right.shape) >= 2:
            # The array's weights are on the right: (constant @ x) is (x transposed @ constant transposed) transposed.
            assert left.value is not None
            swapped = (*range(len(right.shape) - 2), len(right.shape) - 1, len(right.shape) - 2)
            turned = Node("constant", (), {}, left.shape[::-1], left.range, left.line, left.value.T)
            x = self.builder.transpose(self.tensors[id(right)], swapped)
            return self.builder.transpose(self.builder.matmul(x, self._weights(turned, right)), swapped)
        y = self._weights(right, left) if right.function == "constant" else self.operand(right)
        return self.builder.matmul(self.operand(left), y)

    def _weights(self, matrix: Node, other: Node) -> Parameter:
        """A constant as whole numbers of 8 bits where it is such and runs on the array, else as real ones."""
        assert matrix.value is not None
        whole, exponent = byte_weights(matrix), matrix.range.exponent
        real = self.how.placing == "host" or len(matrix.shape) > 2 or not self.choice.is_byte(other)
        if real or whole is None or exponent is None:
            return self.parameter(matrix.value, "weight")
        if 255 * int(np.abs(whole).sum(0).max()) > LARGEST_SUM:
            raise PipelineError(
                "the sum of a product may be beyond the array's 32 bits", location=matrix.line
            )
        return self.whole(whole, exponent)

    def _sum(self, node: Node, byte: Node, *, squared: bool) -> Tensor:
        """A sum or mean of all bytes, or of their squares: products with ones, or with themselves, of which the diagonal counts."""
        blocks = gram_blocks(byte, squared, self.how.dim)
        assert blocks is not None
        rows = self.tensors[id(byte)].viewed(blocks, Reshape(blocks))
        if squared:
            products = self.builder.matmul(rows, self.builder.transpose(rows, (0, 2, 1)))
            own = self.pair("mul", products, self.parameter(np.eye(blocks[1])), products.shape)
        else:
            own = self.builder.matmul(rows, self.whole(np.ones((blocks[2], 1), np.int64), 0))
        total = self.op("reduce", (own,), (1, 1, 1), "reduce", name="sum", axes=(0, 1, 2), keepdims=True)
        if node.attributes["name"] == "mean":
            count = self.parameter(float(math.prod(byte.shape)))
            total = self.pair("div", total, count, (1, 1, 1))
        return total.viewed(node.shape, Reshape(node.shape))

    def _distances(self, node: Node, apart: Distances) -> Tensor:
        """Sums of squares of differences as a product: |a|^2 + |b|^2 - 2ab."""
        matrices: list[Tensor | Parameter] = []
        squares: list[Tensor | Parameter] = []
        for one, last in ((apart.left, True), (apart.right, False)):
            shape, line = (one.rows, apart.depth), (one.rows, 1) if last else (1, one.rows)
            if one.node.function == "constant":
                whole = np.asarray(one.node.value, np.int64).reshape(shape)
                matrices.append(self.whole(whole if last else np.ascontiguousarray(whole.T), 0))
                squares.append(self.parameter((whole**2).sum(1).reshape(line)))
                continue
            x = self.tensors[id(one.node)].viewed(shape, Reshape(shape))
            square = self.pair("mul", x, x, shape)
            total = self.op(
                "reduce", (square,), (one.rows, 1), "reduce", name="sum", axes=(1,), keepdims=True
            )
            squares.append(total if last else total.viewed(line, Reshape(line)))
            matrices.append(x if last else self.builder.transpose(x, (1, 0)))
        shape = (apart.left.rows, apart.right.rows)
        self._check_distances(node, apart)
        apart_by = self.pair(
            "mul", self.builder.matmul(matrices[0], matrices[1]), self.parameter(-2.0), shape
        )
        for each in squares:
            apart_by = self.pair("add", apart_by, each, shape)
        turned = self.builder.transpose(apart_by, (1, 0)) if apart.turned else apart_by
        return turned.viewed(node.shape, Reshape(node.shape))

    @staticmethod
    def _check_distances(node: Node, apart: Distances) -> None:
        """What lies between products and distances must be exact, too."""
        most = apart.depth * (apart.left.node.range.magnitude + apart.right.node.range.magnitude) ** 2
        if most > Fraction(2) ** 24:
            raise PipelineError(
                f"distances may reach {float(most):g}, which is not proven to fit into the 24 bits of float32",
                location=node.line,
                hint="fewer bits of the numbers, or shorter rows",
            )
