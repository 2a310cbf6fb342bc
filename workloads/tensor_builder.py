"""Tensor operators of the graph builder: convolutions and matrix products, with their problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from baco.workloads.graph import Graph
from baco.workloads.network import Tensor
from baco.workloads.problem import Problem
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.shapes import Pair, Phase, broadcast, transposed_phases, transposed_size, window_count

#: An activation, a parameter, or the shape of one without a value.
Operand = Tensor | Parameter | tuple[int, ...]

#: Weights and bias, as the source of a network gives them.
Trained = tuple[Parameter | None, Parameter | None]


class TensorBuilder(Graph):
    """What `baco.workloads.builder.GraphBuilder` adds with a problem."""

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
        trained: Trained | None = None,
        rank: int = 2,
        unused_border: bool = False,
    ) -> Tensor:
        """Convolution of x (N, C, H, W) to (N, channels, H', W'), or of (N, C, L) with rank 1; pairs are (height, width).

        `padding` may also be all leading, then all trailing ones; `shared` weights are counted at another operator; with
        `unused_border` nobody reads what depends on the padding, which may hold anything.
        """
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
        shape = (channels, depth // groups, *kernels)
        weight, shift = trained or _trained(name, shape, problem.C * problem.R * problem.S, channels, bias)
        attributes = {"stride": strides, "padding": pads, "dilation": dilations, "groups": groups}
        if unused_border:
            attributes["unused_border"] = True
        semantics = _meaning("conv", (x, weight, shift), attributes)
        return self._add(name, kind, (x,), (batch, channels, *out), problem, weights, semantics)

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
        trained: Trained | None = None,
    ) -> Tensor:
        """Transposed convolution of x (N, C, H, W), or (N, C, L) with rank 1, as ordinary convolutions.

        One operator for each output phase (`baco.workloads.shapes.transposed_phases`), so that no zero
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
        weight_shape = (depth, channels // groups, *kernels)
        fan_in = max(1, taps * depth // groups // math.prod(strides))
        weight, shift = trained or _trained(name, weight_shape, fan_in, channels, bias)
        attributes: dict[str, Any] = {
            "stride": strides,
            "padding": pads,
            "dilation": dilations,
            "groups": groups,
        }
        attributes |= {"shape": tuple(out), "phase": None}
        semantics = _meaning("conv_transpose", (x, weight, shift), attributes)
        if kernels == strides and not any(map(sum, pads)) and not any(extra_out) and set(dilations) == {1}:
            height = {} if rank == 1 else {"Q": size[0]}
            problem = self._problem(name, P=size[-1], K=channels // groups * taps, **height, **common)
            return self._add(name, kind, (x,), shape, problem, weights, semantics)
        if max(kernels) > 4096 or math.prod(strides) > 1024:
            raise self.error(f"kernel {kernels} or stride {strides} is too large", name)
        axes = [
            transposed_phases(out[i], kernels[i], strides[i], pads[i][0], dilations[i]) for i in range(rank)
        ]
        combined = list(product(*axes))
        parts = []
        for number, phases in enumerate(combined):
            one = len(combined) == 1
            part = name if one else f"{name}.phase{number}"
            problem = self._problem(part, K=channels // groups, **_phase_bounds(phases), **common)
            part_shape = shape if one else (batch, channels, *(phase.outputs for phase in phases))
            residues = None if one else tuple(phase.residue for phase in phases)
            meaning = _meaning("conv_transpose", (x, weight, shift), {**attributes, "phase": residues})
            parts.append(self._add(part, kind, (x,), part_shape, problem, 0 if number else weights, meaning))
        if not parts:
            raise self.error("no output of this transposed convolution reads any input", name)
        if len(parts) == 1:
            return parts[0]
        return self._interleaved(name, parts, shift, combined, strides, shape)

    def _interleaved(
        self,
        name: str,
        parts: Sequence[Tensor],
        shift: Parameter | None,
        phases: Sequence[tuple[Phase, ...]],
        strides: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> Tensor:
        """Phases of an output are written interleaved, by address strides."""
        residues = [tuple(phase.residue for phase in one) for one in phases]
        meaning = Semantics("interleave", (*parts, shift), {"residues": residues, "stride": strides})
        return self._add(f"{name}.interleave", "concat", tuple(parts), shape, semantics=meaning)

    def linear(
        self,
        x: Tensor,
        features: int,
        bias: bool = False,
        name: str | None = None,
        shared: bool = False,
        trained: Trained | None = None,
    ) -> Tensor:
        """x (..., C) times trained weights to (..., features); all leading dimensions become rows."""
        name = self._name("linear", name)
        if not x.shape:
            raise self.error("a scalar has no features", name)
        *lead, depth = x.shape
        problem = self._problem(name, P=math.prod(lead), C=depth, K=features)
        weights = (0 if shared else problem.weight_words) + (features if bias else 0)
        weight, shift = trained or _trained(name, (depth, features), depth, features, bias)
        semantics = Semantics("matmul", (x, weight, shift), {"alpha": 1.0})
        return self._add(name, "linear", (x,), (*lead, features), problem, weights, semantics)

    def matmul(
        self,
        a: Operand,
        b: Operand,
        name: str | None = None,
        weight_words: int = 0,
        alpha: float = 1.0,
        bias: Parameter | None = None,
    ) -> Tensor:
        """Matrix product a (..., M, K) x b (..., K, N) with broadcast leading dimensions and 1-D operands as
        in numpy, times alpha; a bare shape stands for a constant operand. A batched GEMM is one problem with a
        group for each batch element; a second operand that all elements share makes one GEMM of all rows."""
        name = self._name("matmul", name)
        left, right = (x if isinstance(x, tuple) else x.shape for x in (a, b))
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
        operands = [
            Parameter(f"{name}.weight", x, fan_in=inner) if isinstance(x, tuple) else x for x in (a, b)
        ]
        semantics = Semantics("matmul", (*operands, bias), {"alpha": alpha})
        return self._add(name, kind, inputs, (*lead, *rows, *cols), problem, weight_words, semantics)

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


def _phase_bounds(phases: tuple[Phase, ...]) -> dict[str, int]:
    """Bounds of the convolution that makes the outputs of a phase of each axis."""
    last = phases[-1]
    bounds = {"R": last.taps, "P": last.outputs, "dilation_w": last.dilation}
    if len(phases) > 1:
        first = phases[0]
        bounds |= {"S": first.taps, "Q": first.outputs, "dilation_h": first.dilation}
    return bounds


def _meaning(
    function: str, operands: tuple[Operand | None, ...], attributes: dict[str, Any]
) -> Semantics | None:
    """Semantics, unless the weights are not known as a parameter."""
    x, weight, bias = operands
    if not isinstance(x, Tensor) or not isinstance(weight, Parameter) or isinstance(bias, tuple):
        return None
    return Semantics(function, (x, weight, bias), attributes)


def _trained(
    name: str, shape: tuple[int, ...], fan_in: int, channels: int, bias: bool
) -> tuple[Parameter, Parameter | None]:
    """Parameters without values."""
    weight = Parameter(f"{name}.weight", shape, fan_in=fan_in)
    return weight, Parameter(f"{name}.bias", (channels,), fill="shift") if bias else None
