"""What `baco.common.portable` is for arrays, for tensors that carry gradients: the same bits on every processor, backwards too.

That holds for float64 on the CPU, in which searches compute; other types and devices get PyTorch's own functions.

PyTorch sums gradients up wherever an operand was broadcast, in as many lanes as a register has. So whatever has a
gradient is broadcast by `spread`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from baco.common import portable


def one_thread() -> None:
    """Set PyTorch to one thread, in this process.

    A search's batches are too small to share, threads that wait for each other cost far more on a busy machine, and results must not
    depend on how many there are.
    """
    torch.set_num_threads(1)


def exp(x: Tensor) -> Tensor:
    """Exponential function."""
    return _applied(_Exp, x) if _portable(x) else torch.exp(x)


def log(x: Tensor) -> Tensor:
    """Natural logarithm."""
    return _applied(_Log, x) if _portable(x) else torch.log(x)


def power(x: Tensor, exponent: float) -> Tensor:
    """x to a power; x is not negative."""
    return _applied(_Power, x, exponent) if _portable(x) else x**exponent


def total(values: Tensor, axis: int = 0) -> Tensor:
    """Sum along an axis, from the first element to the last."""
    return _applied(_Total, values, axis) if _portable(values) else values.sum(axis)


def spread(x: Tensor, size: int, axis: int = 0) -> Tensor:
    """The tensor `size` times along a new axis; gradients are summed up in order."""
    return _applied(_Spread, x, size, axis) if _portable(x) else torch.stack([x] * size, axis)


def _portable(x: Tensor) -> bool:
    return x.dtype == torch.float64 and x.device.type == "cpu"


def _applied(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    found: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return found


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = torch.from_numpy(portable.exp(x.detach().numpy()))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return gradient * result  # type: ignore[no-any-return]


class _Log(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(portable.log(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient / x  # type: ignore[no-any-return]


class _Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return torch.from_numpy(portable.power(x.detach().numpy(), exponent))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        slope = torch.from_numpy(portable.power(x.detach().numpy(), ctx.exponent - 1))
        return gradient * slope * ctx.exponent, None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, axis: int) -> Tensor:
        ctx.shape, ctx.axis = values.shape, axis
        return _summed(values, axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.unsqueeze(ctx.axis).expand(ctx.shape), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, axis: int) -> Tensor:
        ctx.axis = axis
        shape = [*x.shape[:axis], size, *x.shape[axis:]]
        return x.unsqueeze(axis).expand(shape).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _summed(gradient, ctx.axis), None, None


def _summed(values: Tensor, axis: int) -> Tensor:
    return torch.from_numpy(portable.total(values.detach().numpy(), axis))
