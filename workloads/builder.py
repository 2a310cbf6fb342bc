"""A small graph builder with shape inference: what built-in networks are written in and importers call.

Values are `Tensor`s; a method adds one operator and returns its output. Views (reshape, transposition,
slices, expansion) add none: they return the same tensor under another shape, since the accelerator and
the host read through addresses. Whether an operator is fused follows from `workloads.kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product

from common.errors import InputError, Location, did_you_mean
from workloads.kinds import ADDRESSING_KINDS, FUSIBLE, KINDS, Ride
from workloads.network import Network, Operator, Tensor, Unsupported
from workloads.problem import Problem
from workloads.shapes import (
    Pair,
    broadcast,
    pair,
    paddings,
    transposed_phases,
    transposed_size,
    window_count,
)

#: Counts stay exact in float64, which the cost models use.
EXACT = 2**53


class GraphBuilder:
    """Builds a `Network`, operator by operator, in topological order.

    Args:
        name: of the network.
        source: file it comes from, or `built-in`.
        options: what was chosen when it was built (batch, sequence length...).

    Every method raises InputError, located at the file (or network) and operator, when shapes do not fit.
    """

    def __init__(
        self, name: str, source: str = "built-in", options: Mapping[str, int | str] | None = None
    ) -> None:
        self.name = name
        self.source = source
        self.options = dict(options or {})
        self._inputs: list[Tensor] = []
        self._operators: list[Operator] = []
        self._names: set[str] = set()
        self._tensors: set[str] = set()
        self._counters: dict[str, int] = {}
        self._scope: list[str] = []
        self._repeat = 1
        self._rides: dict[str, tuple[Ride, bool]] = {}

    # Structure

    def input(self, name: str, shape: Sequence[int]) -> Tensor:
        """A tensor fed from outside."""
        if name in self._tensors:
            raise self.error("two inputs of this name", name)
        tensor = Tensor(name, self._shape(shape, name))
        self._inputs.append(tensor)
        self._tensors.add(name)
        return tensor

    @contextmanager
    def scope(self, prefix: str) -> Iterator[None]:
        """Prefix the names of the operators added inside."""
        self._scope.append(prefix)
        try:
            yield
        finally:
            self._scope.pop()

    def repeat(self, count: int, block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """`count` executions of the same block, each feeding the next; kept as one block repeated.

        The block's output must have the shape of its input, or it could not feed the next.
        """
        if count < 1:
            raise self.error(f"a block must run at least once, not {count} times")
        outer, self._repeat = self._repeat, self._repeat * count
        try:
            y = block(x)
        finally:
            self._repeat = outer
        if y.shape != x.shape and count > 1:
            raise self.error(f"a repeated block turns {x.shape} into {y.shape}, so it cannot feed itself")
        return y

    def build(self, unsupported: Sequence[Unsupported] = ()) -> Network:
        """The finished network."""
        return Network(
            self.name, tuple(self._inputs), tuple(self._operators), tuple(unsupported), self.source, self.options
        )

    def error(self, message: str, node: str | None = None, hint: str | None = None) -> InputError:
        """An error located at an operator of this network."""
        where = self.name if self.source == "built-in" else self.source
        return InputError(message, location=Location(where, node=node), hint=hint)

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
    ) -> Tensor:
        """1-D convolution of x (N, C, L) to (N, channels, L'); `padding` may be (before, after)."""
        return self._conv(1, x, channels, kernel, stride, padding, dilation, groups, bias, name, False)

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
            raise self.error(f"{groups} groups do not divide {depth} input and {channels} output channels", name)
        out = [
            window_count(size[i], kernels[i], strides[i], pads[i], dilations[i]) for i in range(rank)
        ]
        if min(out) < 1:
            raise self.error(f"a kernel of {kernels} (dilation {dilations}) does not fit into {tuple(size)}", name)
        # Height before width in shapes; P, R belong to the width and Q, S to the height.
        extra = {} if rank == 1 else {
            "S": kernels[0], "Q": out[0], "stride_h": strides[0], "dilation_h": dilations[0],
        }
        problem = self._problem(
            name, R=kernels[-1], P=out[-1], C=depth // groups, K=channels // groups, N=batch,
            stride_w=strides[-1], dilation_w=dilations[-1], groups=groups, **extra,
        )
        weights = 0 if shared else problem.weight_words + (channels if bias else 0)
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
            raise self.error(f"{groups} groups do not divide {depth} input and {channels} output channels", name)
        out = [
            transposed_size(size[i], kernels[i], strides[i], pads[i], dilations[i], extra_out[i])
            for i in range(rank)
        ]
        if min(out) < 1:
            raise self.error(f"padding leaves nothing of the output: {tuple(out)}", name)
        taps = math.prod(kernels)
        weights = taps * depth * (channels // groups) + (channels if bias else 0)
        shape = (batch, channels, *out)
        common = {"C": depth // groups, "N": batch, "groups": groups}
        if kernels == strides and not any(map(sum, pads)) and not any(extra_out) and set(dilations) == {1}:
            height = {} if rank == 1 else {"Q": size[0]}
            problem = self._problem(name, P=size[-1], K=channels // groups * taps, **height, **common)
            return self._add(name, kind, (x,), shape, problem, weights)
        if math.prod(strides) > 4096:
            raise self.error(f"strides {strides} are too large for a transposed convolution", name)
        axes = [
            transposed_phases(out[i], kernels[i], strides[i], pads[i][0], dilations[i]) for i in range(rank)
        ]
        combined = list(product(*axes))
        parts = []
        for number, phases in enumerate(combined):
            part = name if len(combined) == 1 else f"{name}.phase{number}"
            height = {} if rank == 1 else {
                "S": phases[0].taps, "Q": phases[0].outputs, "dilation_h": phases[0].dilation,
            }
            problem = self._problem(
                part, R=phases[-1].taps, P=phases[-1].outputs, dilation_w=phases[-1].dilation,
                K=channels // groups, **height, **common,
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
        weights = 0 if shared else problem.weight_words + (features if bias else 0)
        return self._add(name, "linear", (x,), (*lead, features), problem, weights)

    def matmul(self, a: Tensor, b: Tensor, name: str | None = None, weight_words: int = 0) -> Tensor:
        """Matrix product a (..., M, K) x b (..., K, N) with broadcast leading dimensions and 1-D operands as
        in numpy. A batched GEMM is one problem with a group for each batch element; a second operand that
        all elements share makes one GEMM of all rows."""
        name = self._name("matmul", name)
        if not a.shape or not b.shape:
            raise self.error("a scalar cannot be multiplied as a matrix", name)
        left = a.shape if len(a.shape) > 1 else (1, *a.shape)
        right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
        if left[-1] != right[-2]:
            raise self.error(f"matrices {a.shape} and {b.shape} do not fit: {left[-1]} against {right[-2]}", name)
        try:
            lead = broadcast(left[:-2], right[:-2])
        except ValueError as error:
            raise self.error(f"matrices {a.shape} and {b.shape}: {error}", name) from None
        rows, groups = left[-2], math.prod(lead)
        if math.prod(right[:-2]) == 1:
            rows, groups = rows * groups, 1
        problem = self._problem(name, P=rows, C=left[-1], K=right[-1], groups=groups)
        shape = lead
        shape += (left[-2],) if len(a.shape) > 1 else ()
        shape += (right[-1],) if len(b.shape) > 1 else ()
        kind = "linear" if weight_words else "matmul"
        inputs = tuple(t for t in (a, b) if t.name in self._tensors)
        return self._add(name, kind, inputs, shape, problem, weight_words)

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

    def concat(self, tensors: Sequence[Tensor], axis: int, weights: int = 0, name: str | None = None) -> Tensor:
        """Tensors side by side along `axis`: producers write into one block."""
        name = self._name("concat", name)
        first = tensors[0].shape
        if not -len(first) <= axis < len(first):
            raise self.error(f"axis {axis} of {first} does not exist", name)
        axis %= len(first)
        rest = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
        if len(rest) > 1 or any(len(t.shape) != len(first) for t in tensors):
            raise self.error("cannot join " + ", ".join(str(t.shape) for t in tensors) + f" along {axis}", name)
        total = sum(t.shape[axis] for t in tensors)
        return self._add(name, "concat", tuple(tensors), (*first[:axis], total, *first[axis + 1 :]), None, weights)

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
            window_count(x.shape[2 + i], kernels[i], strides[i], pads[i], dilations[i], ceil) for i in range(rank)
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

    # Views: same tensor, another shape

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape; one extent may be -1."""
        known = math.prod(n for n in shape if n != -1)
        full = tuple(x.words // known if n == -1 and known else n for n in shape)
        if math.prod(full) != x.words:
            raise self.error(f"{x.shape} cannot be reshaped to {tuple(shape)}", x.name)
        return Tensor(x.name, full)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Dimensions in another order."""
        if sorted(axes) != list(range(len(x.shape))):
            raise self.error(f"{tuple(axes)} does not reorder the dimensions of {x.shape}", x.name)
        return Tensor(x.name, tuple(x.shape[a] for a in axes))

    def view(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """A part (slice, crop) or expansion of a tensor under a shape of its own."""
        return Tensor(x.name, self._shape(shape, x.name))

    # Inner workings

    def _name(self, kind: str, name: str | None) -> str:
        if name is None:
            base = ".".join([*self._scope, kind])
            number = self._counters.get(base, 0)
            while (candidate := f"{base}{number}") in self._names:
                number += 1
            self._counters[base] = number + 1
            return candidate
        full = ".".join([*self._scope, name])
        if full in self._names:
            raise self.error("two operators of this name", full)
        return full

    def _shape(self, shape: Sequence[int], node: str) -> tuple[int, ...]:
        result = tuple(int(size) for size in shape)
        if any(size < 1 for size in result):
            raise self.error(f"shape {result} has an extent below 1", node)
        if math.prod(result) > EXACT:
            raise self.error(f"shape {result} is beyond the exact range (2^53 elements)", node)
        return result

    def _numbers(self, node: str, what: str, value: Pair, count: int, least: int) -> tuple[int, ...]:
        try:
            numbers = pair(value, count)
        except ValueError as error:
            raise self.error(f"{what}: {error}", node) from None
        if min(numbers) < least:
            raise self.error(f"{what} {numbers} must be at least {least}", node)
        return numbers

    def _window(
        self, node: str, rank: int, x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
        if rank < 1 or len(x.shape) != rank + 2:
            raise self.error(f"needs {max(rank, 1) + 2} dimensions (batch, channels, space), not {x.shape}", node)
        try:
            pads = paddings(padding, rank)
        except ValueError as error:
            raise self.error(f"padding: {error}", node) from None
        if min(min(p) for p in pads) < 0:
            raise self.error(f"padding {padding} is negative", node)
        return (
            self._numbers(node, "kernel", kernel, rank, 1),
            self._numbers(node, "stride", stride, rank, 1),
            pads,
            self._numbers(node, "dilation", dilation, rank, 1),
        )

    def _problem(self, node: str, **bounds: int) -> Problem:
        try:
            problem = Problem(**bounds)
        except InputError as error:
            raise self.error(error.message, node, error.hint) from None
        return self._exact(node, problem)

    def _exact(self, node: str, problem: Problem) -> Problem:
        words = max(problem.weight_words, problem.input_words, problem.output_words)
        if words > EXACT:
            raise self.error(f"a tensor of {words:.3g} elements is beyond the exact range (2^53)", node)
        return problem

    def _add(
        self,
        name: str,
        kind: str,
        inputs: tuple[Tensor, ...],
        shape: Sequence[int],
        problem: Problem | None = None,
        weights: int = 0,
    ) -> Tensor:
        output = Tensor(name, self._shape(shape, name))
        for x in inputs:
            if x.name not in self._tensors:
                raise self.error(f"reads '{x.name}', which nothing produces", name)
        fused = problem is None and self._fuse(kind, inputs, output)
        if problem is not None:
            self._rides[name] = (Ride.LINEAR, kind.startswith("conv"))
        self._names.add(name)
        self._tensors.add(name)
        self._operators.append(
            Operator(name, kind, tuple(x.name for x in inputs), output, problem, weights, fused, self._repeat)
        )
        return output

    def _fuse(self, kind: str, inputs: tuple[Tensor, ...], output: Tensor) -> bool:
        if kind in ADDRESSING_KINDS:
            return True
        if kind not in FUSIBLE:
            return False
        allowed, leaves = FUSIBLE[kind]
        for x in inputs:
            ride, of_conv = self._rides.get(x.name, (None, False))
            if ride not in allowed or ride is None or (kind == "maxpool" and not (of_conv and len(x.shape) == 4)):
                continue
            # A residual must have the shape of the result it is added to.
            if kind == "add" and x.shape != output.shape:
                continue
            state = ride if leaves is None or (ride is Ride.POOLED) else leaves
            self._rides[output.name] = (state, of_conv)
            return True
        return False
