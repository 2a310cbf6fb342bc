"""Convolutions and pooling of PyTorch; those of three dimensions, and convolutions with computed weights, as slices, products and
operators of two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.shapes import window_count
from baco.workloads.tensor_builder import Trained
from baco.workloads.torch.node import TorchNode
from baco.workloads.views import Reshape

#: Taps of a window whose slices are put side by side.
_MOST_TAPS = 1024


@dataclass(frozen=True)
class _Window:
    """What slides over the dimensions of an image: a number for each of them.

    Attributes:
        padding: as many before as behind; `after` where there are others behind.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    after: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
    ) -> _Window:
        """One number may stand for all dimensions; twice as many paddings are those before, then those behind."""
        rank = len(kernel)

        def each(numbers: Sequence[int]) -> tuple[int, ...]:
            return tuple(numbers) * rank if len(numbers) == 1 else tuple(numbers)

        pads = each(padding)
        return cls(tuple(kernel), each(stride), pads[:rank], each(dilation), pads[rank:] or pads[:rank])

    def outputs(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Positions along every dimension. Raises UnsupportedNodeError where there are none."""
        found = tuple(
            window_count(
                size, self.kernel[i], self.stride[i], (self.padding[i], self.after[i]), self.dilation[i]
            )
            for i, size in enumerate(sizes)
        )
        if min(found) < 1:
            raise UnsupportedNodeError(f"a kernel of {self.kernel} does not fit into {tuple(sizes)}")
        return found


def _padded(imp: TorchNode, x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """With zeros around the dimensions behind the first two."""
    if not any((*before, *after)):
        return x
    shape = [*x.shape[:2], *(n + b + a for n, b, a in zip(x.shape[2:], before, after, strict=True))]
    borders = {"before": (0, 0, *before), "after": (0, 0, *after), "value": 0.0}
    name = imp.builder.unique(f"{imp.name}.pad")
    return imp.builder.op("pad", (x,), shape, name=name, semantics=Semantics("pad", (x,), borders))


def _taps(imp: TorchNode, x: Tensor, dim: int, w: _Window, out: int) -> list[Tensor]:
    """What every tap along a dimension reads, for all positions."""
    starts = (number * w.dilation[dim] for number in range(w.kernel[dim]))
    return [
        imp.builder.slice(x, 2 + dim, at, at + (out - 1) * w.stride[dim] + 1, w.stride[dim]) for at in starts
    ]


def _deep_convolution(
    imp: TorchNode, x: Tensor, trained: Trained, w: _Window, groups: int, *, shared: bool, bias: bool
) -> Tensor:
    """A 3-D convolution of x (N, C, D, H, W) with trained weights as one of two dimensions, whose channels are those of all
    taps in depth, for every depth of the output."""
    b, weight = imp.builder, trained[0]
    if weight is None:
        raise UnsupportedNodeError("3-D convolution without weights")
    channels, (depth, *_) = weight.shape[0], w.outputs(x.shape[2:])
    padded = _padded(imp, x, (w.padding[0], 0, 0), (w.after[0], 0, 0))
    batch, inputs, _, height, width = x.shape
    columns = [
        b.reshape(b.transpose(tap, (0, 2, 1, 3, 4)), (batch, depth, inputs, 1, height, width))
        for tap in _taps(imp, padded, 0, w, depth)
    ]
    name = b.unique(f"{imp.name}.depths")
    joined = columns[0] if len(columns) == 1 else b.concat(columns, 3, name=name)
    image = b.reshape(joined, (batch * depth, inputs * w.kernel[0], height, width))
    flat = (channels, weight.shape[1] * w.kernel[0], *w.kernel[1:])
    y = b.conv2d(
        image,
        channels,
        w.kernel[1:],
        w.stride[1:],
        (*w.padding[1:], *w.after[1:]),
        w.dilation[1:],
        groups,
        bias,
        imp.name,
        shared,
        (weight.viewed(flat, Reshape(flat)), trained[1]),
    )
    split = b.reshape(y, (batch, depth, *y.shape[1:]))
    return b.transpose(split, (0, 2, 1, 3, 4))


def _computed_convolution(
    imp: TorchNode, x: Tensor, weight: Tensor, bias: Tensor | Parameter | None, w: _Window, groups: int
) -> Tensor:
    """A convolution of x (N, C, ...) with weights (K, C / groups, ...) that are computed: a product with its patches."""
    b, taps = imp.builder, math.prod(w.kernel)
    if taps > _MOST_TAPS:
        raise UnsupportedNodeError(f"a window of {taps} taps whose weights are computed")
    out = w.outputs(x.shape[2:])
    parts = [_padded(imp, x, w.padding, w.after)]
    for dim in range(len(w.kernel)):
        parts = [tap for part in parts for tap in _taps(imp, part, dim, w, out[dim])]
    batch, channels, outputs, pixels = x.shape[0], x.shape[1], weight.shape[0], math.prod(out)
    columns = [b.reshape(part, (batch, channels, 1, pixels)) for part in parts]
    name = b.unique(f"{imp.name}.patches")
    patches = columns[0] if taps == 1 else b.concat(columns, 2, name=name)
    depth = channels // groups * taps
    right = b.reshape(patches, (batch, groups, depth, pixels))
    left = b.reshape(weight, (1, groups, outputs // groups, depth))
    if groups == 1:
        right, left = b.reshape(right, (batch, depth, pixels)), b.reshape(left, (outputs, depth))
    y = b.reshape(b.matmul(left, right, imp.name), (batch, outputs, *out))
    if bias is None:
        return y
    column = (outputs, *(1 for _ in out))
    added = bias.viewed(column, Reshape(column))
    meaning = Semantics("binary", (y, added), {"name": "add"})
    inputs = (y, added) if isinstance(added, Tensor) else (y,)
    return b.op("add", inputs, y.shape, name=b.unique(f"{imp.name}.bias"), semantics=meaning)


def _deep_pool(
    imp: TorchNode, kind: str, x: Tensor, w: _Window, *, ceil: bool, count_padding: bool
) -> Tensor:
    """Pooling of x (N, C, D, H, W): of height and width, then of depth. A mean over part of a window is the mean of its means."""
    b = imp.builder
    batch, channels, depth, height, width = x.shape
    plane = b.pool(
        kind,
        b.reshape(x, (batch, channels * depth, height, width)),
        w.kernel[1:],
        w.stride[1:],
        w.padding[1:],
        w.dilation[1:],
        ceil,
        b.unique(f"{imp.name}.plane"),
        count_padding,
    )
    rows = plane.shape[2:]
    deep = b.pool(
        kind,
        b.reshape(plane, (batch, channels, depth, math.prod(rows))),
        (w.kernel[0], 1),
        (w.stride[0], 1),
        (w.padding[0], 0),
        (w.dilation[0], 1),
        ceil,
        imp.name,
        count_padding,
    )
    return b.reshape(deep, (batch, channels, deep.shape[2], *rows))


def convolution(imp: TorchNode, transposed: bool = False) -> None:
    """A convolution of one to three dimensions, with trained or computed weights."""
    x = imp.tensor("input")
    weight = imp.constant("weight")
    shape = weight.shape if weight else imp.tensor("weight").shape
    rank = len(shape) - 2
    transposed = transposed or bool(imp.args.get("transposed"))
    if rank not in (1, 2, 3) or (transposed and (rank == 3 or weight is None)):
        words = f"{'transposed ' * transposed}{rank}-D convolution"
        raise UnsupportedNodeError(words + (" whose weights are computed" if weight is None else ""))
    if rank == 3 or weight is None:
        _written_out(imp, x, shape)
        return
    stride, dilation = imp.numbers("stride", 1), imp.numbers("dilation", 1)
    groups = int(imp.args.get("groups") or 1)
    common: dict[str, Any] = {"dilation": dilation, "groups": groups, "name": imp.name, "rank": rank}
    common |= {"shared": not imp.claim("weight"), "bias": bool(imp.claim("bias")), "trained": _trained(imp)}
    b = imp.builder
    batched, kernel = _batched(x, rank), shape[2:]
    if transposed:
        padding, extra = imp.numbers("padding", 0), imp.numbers("output_padding", 0)
        y = b.conv_transpose2d(batched, shape[1] * groups, kernel, stride, padding, extra, **common)
    else:
        y = b.conv2d(batched, shape[0], kernel, stride, _padding(imp, kernel, dilation), **common)
    imp.emit(y if batched is x else y.viewed(y.shape[1:], Reshape(y.shape[1:])))


def _written_out(imp: TorchNode, x: Tensor, shape: Sequence[int]) -> None:
    """A convolution of three dimensions, or with computed weights of this shape."""
    rank, groups = len(shape) - 2, int(imp.args.get("groups") or 1)
    batched, dilation = _batched(x, rank), imp.numbers("dilation", 1)
    window = _Window.of(shape[2:], imp.numbers("stride", 1), _padding(imp, shape[2:], dilation), dilation)
    if imp.constant("weight") is None:
        bias = None if imp.args.get("bias") is None else imp.operand("bias")
        imp.claim("bias")
        y = _computed_convolution(imp, batched, imp.tensor("weight"), bias, window, groups)
    else:
        counted = {"shared": not imp.claim("weight"), "bias": bool(imp.claim("bias"))}
        y = _deep_convolution(imp, batched, _trained(imp), window, groups, **counted)
    imp.emit(y if batched is x else y.viewed(y.shape[1:], Reshape(y.shape[1:])))


def _trained(imp: TorchNode) -> Trained:
    """Parameters of a convolution, none if they are computed from activations."""
    weight, bias = imp.constant("weight"), imp.constant("bias")
    if weight is None or (bias is None and imp.args.get("bias") is not None):
        return None, None
    fan_in = math.prod(weight.shape[1:])
    return (
        imp.parameter(imp.args["weight"], fan_in=fan_in),
        None if bias is None else imp.parameter(imp.args["bias"], "shift"),
    )


def _batched(x: Tensor, rank: int) -> Tensor:
    """Images may come without a batch dimension."""
    shape = (1, *x.shape)
    return x if len(x.shape) == rank + 2 else x.viewed(shape, Reshape(shape))


def _padding(imp: TorchNode, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    mode = imp.args.get("padding")
    if not isinstance(mode, str):
        return imp.numbers("padding", 0)
    if mode == "valid":
        return (0,)
    steps = tuple(dilation) * len(kernel) if len(dilation) == 1 else tuple(dilation)
    totals = [(k - 1) * d for k, d in zip(kernel, steps, strict=True)]
    return (*(t // 2 for t in totals), *(t - t // 2 for t in totals))


def pool(imp: TorchNode, kind: str, rank: int) -> None:
    """Pooling over one to three dimensions."""
    x = imp.tensor("self")
    batched = _batched(x, rank)
    stride = imp.numbers("stride", 0)
    if rank == 3:
        kernel = imp.numbers("kernel_size", 1)
        steps = kernel if stride == (0,) else stride
        padding, dilation = imp.numbers("padding", 0), imp.numbers("dilation", 1)
        window = _Window.of(kernel * 3 if len(kernel) == 1 else kernel, steps, padding, dilation)
        if imp.args.get("divisor_override") is not None:
            raise UnsupportedNodeError("3-D pooling with a divisor of its own")
        counts = imp.args.get("count_include_pad") is not False
        ceil = bool(imp.args.get("ceil_mode"))
        y = _deep_pool(imp, kind, batched, window, ceil=ceil, count_padding=counts)
        imp.emit(y if batched is x else y.viewed(y.shape[1:], Reshape(y.shape[1:])))
        return
    y = imp.builder.pool(
        kind,
        batched,
        imp.numbers("kernel_size", 1),
        None if stride == (0,) else stride,
        imp.numbers("padding", 0),
        imp.numbers("dilation", 1),
        bool(imp.args.get("ceil_mode")),
        imp.name,
        imp.args.get("count_include_pad") is not False,
        imp.args.get("divisor_override"),
    )
    imp.emit(y if batched is x else y.viewed(y.shape[1:], Reshape(y.shape[1:])))
