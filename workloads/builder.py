"""A small graph builder with shape inference: what built-in networks are written in and importers call.

Values are `Tensor`s; a method adds one operator and returns its output. Views (reshape, transposition,
slices, expansion) add none: they return the same tensor under another shape, since the accelerator and
the host read through addresses. Whether an operator is fused follows from `workloads.kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from common.errors import did_you_mean
from workloads.graph import Graph
from workloads.kinds import KINDS
from workloads.network import Tensor
from workloads.problem import Problem
from workloads.shapes import (
    Pair,
    broadcast,
    transposed_phases,
    transposed_size,
    window_count,
)

#: An activation, or the shape of a constant.
Operand = Tensor | tuple[int, ...]


class GraphBuilder(Graph):
    """Builds a `Network`, operator by operator, in topological order.

    Args:
        name: of the network.
        source: file it comes from, or `built-in`.
        options: what was chosen when it was built (batch, sequence length...).

    Every method raises InputError, located at the file (or network) and operator, when shapes do not fit.
    """

    # Tensor operators

    def conv2d(
        self,
        x: Tensor,
        channels: int,
        kernel: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        name: str | None = None,
        shared: bool = False,
    ) -> Tensor:
        """2-D convolution of x (N, C, H, W) to (N, channels, H', W'); pairs are (height, width).

        `padding` may also be (top, left, bottom, right); `shared` weights are counted at another operator.
        """
        return self._conv(2, x, channels, kernel, stride, padding, dilation, groups, bias, name, shared)

    def conv1d(
        self,
        x: Tensor,
        channels: int,
        kernel: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        name: str | None = None,
        shared: bool = False,
    ) -> Tensor:
        """1-D convolution of x (N, C, L) to (N, channels, L'); `padding` may be (before, after)."""
        return self._conv(1, x, channels, kernel, stride, padding, dilation, groups, bias, name, shared)

    def _conv(
        self,
        rank: int,
        x: Tensor,
        channels: int,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        bias: bool,
        name: str | None,
        shared: bool,
    ) -> Tensor:
        kind = f"conv{rank}d"
        name = self._name(kind, name)
        kernels, strides, pads, dilations = self._window(name, rank, x, kernel, stride, padding, dilation)
        batch, depth, *size = x.shape
        if groups < 1 or depth % groups or channels % groups:
            raise self.error(
                f"{groups} groups do not divide {depth} input and {channels} output channels", name
            )
        out = [window_count(size[i], kernels[i], strides[i], pads[i], dilations[i]) for i in range(rank)]
        if min(out) < 1:
            raise self.error(
                f"a kernel of {kernels} (dilation {dilations}) does not fit into {tuple(size)}", name
            )
        # Height before width in shapes; P, R belong to the width and Q, S to the height.
        extra = (
            {}
            if rank == 1
            else {
                "S": kernels[0],
                "Q": out[0],
                "stride_h": strides[0],
                "dilation_h": dilations[0],
            }
        )
        problem = self._problem(
            name,
            R=kernels[-1],
            P=out[-1],
            C=depth // groups,
            K=channels // groups,
            N=batch,
            stride_w=strides[-1],
            dilation_w=dilations[-1],
            groups=groups,
            **extra,
        )
        weights = (0 if shared else problem.weight_words) + (channels if bias else 0)
        return self._add(name, kind, (x,), (batch, channels, *out), problem, weights)

    def conv_transpose2d(
        self,
        x: Tensor,
        channels: int,
        kernel: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        name: str | None = None,
        rank: int = 2,
        shared: bool = False,
    ) -> Tensor:
        """Transposed convolution of x (N, C, H, W), or (N, C, L) with rank 1, as ordinary convolutions.

        One operator for each output phase (`workloads.shapes.transposed_phases`), so that no zero
        inserted between inputs is ever multiplied. Where kernel and stride agree the phases read the same
        inputs and are one problem with channels x taps outputs.
        """
        kind = f"conv_transpose{rank}d"
        name = self._name(kind, name)
        kernels, strides, pads, dilations = self._window(name, rank, x, kernel, stride, padding, dilation)
        extra_out = self._numbers(name, "output padding", output_padding, rank, least=0)
        batch, depth, *size = x.shape
        if groups < 1 or depth % groups or channels % groups:
            raise self.error(
                f"{groups} groups do not divide {depth} input and {channels} output channels", name
            )
        out = [
            transposed_size(size[i], kernels[i], strides[i], pads[i], dilations[i], extra_out[i])
            for i in range(rank)
        ]
        if min(out) < 1:
            raise self.error(f"padding leaves nothing of the output: {tuple(out)}", name)
        taps = math.prod(kernels)
        weights = (0 if shared else taps * depth * (channels // groups)) + (channels if bias else 0)
        shape = (batch, channels, *out)
        common = {"C": depth // groups, "N": batch, "groups": groups}
        if kernels == strides and not any(map(sum, pads)) and not any(extra_out) and set(dilations) == {1}:
            height = {} if rank == 1 else {"Q": size[0]}
            problem = self._problem(name, P=size[-1], K=channels // groups * taps, **height, **common)
            return self._add(name, kind, (x,), shape, problem, weights)
        if max(kernels) > 4096 or math.prod(strides) > 1024:
            raise self.error(f"kernel {kernels} or stride {strides} is too large", name)
        axes = [
            transposed_phases(out[i], kernels[i], strides[i], pads[i][0], dilations[i]) for i in range(rank)
        ]
        combined = list(product(*axes))
        parts = []
        for number, phases in enumerate(combined):
            part = name if len(combined) == 1 else f"{name}.phase{number}"
            height = (
                {}
                if rank == 1
                else {
                    "S": phases[0].taps,
                    "Q": phases[0].outputs,
                    "dilation_h": phases[0].dilation,
                }
            )
            problem = self._problem(
                part,
                R=phases[-1].taps,
                P=phases[-1].outputs,
                dilation_w=phases[-1].dilation,
                K=channels // groups,
                **height,
                **common,
            )
            part_shape = (batch, channels, *(phase.outputs for phase in phases))
            if len(combined) == 1:
                part_shape = shape
            parts.append(self._add(part, kind, (x,), part_shape, problem, 0 if number else weights))
        if not parts:
            raise self.error("no output of this transposed convolution reads any input", name)
        if len(parts) == 1:
            return parts[0]
        # Phases are written interleaved, by address strides.
        return self._add(f"{name}.interleave", "concat", tuple(parts), shape)

    def linear(
        self,
        x: Tensor,
        features: int,
        bias: bool = False,
        name: str | None = None,
        shared: bool = False,
    ) -> Tensor:
        """x (..., C) times trained weights to (..., features); all leading dimensions become rows."""
        name = self._name("linear", name)
        if not x.shape:
            raise self.error("a scalar has no features", name)
        *lead, depth = x.shape
        problem = self._problem(name, P=math.prod(lead), C=depth, K=features)
        weights = (0 if shared else problem.weight_words) + (features if bias else 0)
        return self._add(name, "linear", (x,), (*lead, features), problem, weights)

    def matmul(self, a: Operand, b: Operand, name: str | None = None, weight_words: int = 0) -> Tensor:
        """Matrix product a (..., M, K) x b (..., K, N) with broadcast leading dimensions and 1-D operands as
        in numpy; a bare shape stands for a constant operand. A batched GEMM is one problem with a group for
        each batch element; a second operand that all elements share makes one GEMM of all rows."""
        name = self._name("matmul", name)
        left, right = (x.shape if isinstance(x, Tensor) else x for x in (a, b))
        if not left or not right:
            raise self.error("a scalar cannot be multiplied as a matrix", name)
        rows, cols = left[-2:-1], right[-1:] if len(right) > 1 else ()
        inner = right[-2] if len(right) > 1 else right[0]
        if left[-1] != inner:
            raise self.error(f"matrices {left} and {right} do not fit: {left[-1]} against {inner}", name)
        try:
            lead = broadcast(left[:-2], right[:-2])
        except ValueError as error:
            raise self.error(f"matrices {left} and {right}: {error}", name) from None
        batch = math.prod(lead)
        shared = math.prod(right[:-2]) == 1
        problem = self._problem(
            name,
            P=math.prod(rows) * (batch if shared else 1),
            C=inner,
            K=math.prod(cols),
            groups=1 if shared else batch,
        )
        constant = not (isinstance(a, Tensor) and isinstance(b, Tensor))
        inputs = tuple(x for x in (a, b) if isinstance(x, Tensor))
        kind = "linear" if constant else "matmul"
        return self._add(name, kind, inputs, (*lead, *rows, *cols), problem, weight_words)

    def layer(self, problem: Problem, name: str | None = None, repeat: int = 1) -> Tensor:
        """A tensor operator known only by its loop bounds (a row of a layer table), with inputs of its own."""
        name = self._name("layer", name)
        problem = self._exact(name, problem)
        x = self.input(f"{name}.input", (problem.input_words,))
        outer, self._repeat = self._repeat, self._repeat * repeat
        shape = (problem.N, problem.K * problem.groups, problem.Q, problem.P)
        y = self._add(name, "layer", (x,), shape, problem, problem.weight_words)
        self._repeat = outer
        return y

    # Everything else

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        shape: Sequence[int] | None = None,
        weights: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Any operator without a problem; `shape` defaults to that of the broadcast inputs.

        Raises InputError for a kind outside `workloads.kinds.KINDS`.
        """
        name = self._name(kind, name)
        if kind not in KINDS:
            raise self.error(f"unknown operator kind '{kind}'", name, did_you_mean(kind, KINDS))
        if shape is None:
            try:
                shape = broadcast(*(x.shape for x in inputs))
            except ValueError as error:
                raise self.error(str(error), name) from None
        return self._add(name, kind, tuple(inputs), tuple(shape), None, weights)

    def batchnorm(self, x: Tensor, name: str | None = None) -> Tensor:
        """Batch normalisation over channels (dimension 1): folded into the convolution before it, if any."""
        return self.op("batchnorm", (x,), x.shape, 2 * x.shape[1], name)

    def layernorm(self, x: Tensor, name: str | None = None) -> Tensor:
        """Layer normalisation over the last dimension, with scale and shift."""
        return self.op("layernorm", (x,), x.shape, 2 * x.shape[-1], name)

    def rmsnorm(self, x: Tensor, name: str | None = None) -> Tensor:
        """Root-mean-square normalisation over the last dimension, with a scale."""
        return self.op("rmsnorm", (x,), x.shape, x.shape[-1], name)

    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        """max(x, 0)."""
        return self.op("relu", (x,), name=name)

    def add(self, a: Tensor, b: Tensor, name: str | None = None) -> Tensor:
        """Sum of two tensors (a residual)."""
        return self.op("add", (a, b), name=name)

    def concat(
        self, tensors: Sequence[Tensor], axis: int, weights: int = 0, name: str | None = None
    ) -> Tensor:
        """Tensors side by side along `axis`: producers write into one block."""
        name = self._name("concat", name)
        if not tensors:
            raise self.error("nothing to join", name)
        first = tensors[0].shape
        if not -len(first) <= axis < len(first):
            raise self.error(f"axis {axis} of {first} does not exist", name)
        axis %= len(first)
        rest = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
        if len(rest) > 1 or any(len(t.shape) != len(first) for t in tensors):
            raise self.error(
                "cannot join " + ", ".join(str(t.shape) for t in tensors) + f" along {axis}", name
            )
        total = sum(t.shape[axis] for t in tensors)
        return self._add(
            name, "concat", tuple(tensors), (*first[:axis], total, *first[axis + 1 :]), None, weights
        )

    def pool(
        self,
        kind: str,
        x: Tensor,
        kernel: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        ceil: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Pooling (`maxpool`, `avgpool`) over the spatial dimensions of x (N, C, ...)."""
        name = self._name(kind, name)
        rank = len(x.shape) - 2
        kernels, strides, pads, dilations = self._window(
            name, rank, x, kernel, kernel if stride is None else stride, padding, dilation
        )
        out = tuple(
            window_count(x.shape[2 + i], kernels[i], strides[i], pads[i], dilations[i], ceil)
            for i in range(rank)
        )
        if min(out) < 1:
            raise self.error(f"a window of {kernels} does not fit into {x.shape[2:]}", name)
        return self._add(name, kind, (x,), (*x.shape[:2], *out))

    def maxpool(
        self, x: Tensor, kernel: Pair, stride: Pair | None = None, padding: Pair = 0, name: str | None = None
    ) -> Tensor:
        """Max-pooling; fused when it follows a convolution."""
        return self.pool("maxpool", x, kernel, stride, padding, name=name)

    def global_avgpool(self, x: Tensor, name: str | None = None) -> Tensor:
        """Mean over the spatial dimensions: (N, C, H, W) to (N, C, 1, 1)."""
        return self.op("avgpool", (x,), (*x.shape[:2], *(1 for _ in x.shape[2:])), name=name)

    def upsample(self, x: Tensor, size: Sequence[int], name: str | None = None) -> Tensor:
        """Spatial dimensions resized to `size`."""
        return self.op("upsample", (x,), (*x.shape[:2], *size), name=name)

    def softmax(self, x: Tensor, name: str | None = None) -> Tensor:
        """Softmax over the last dimension."""
        return self.op("softmax", (x,), name=name)

    def embedding(self, indices: Tensor, rows: int, features: int, name: str | None = None) -> Tensor:
        """Rows of a trained table: indices (...) to (..., features)."""
        return self.op("embedding", (indices,), (*indices.shape, features), rows * features, name)
