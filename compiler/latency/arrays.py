"""The array interfaces of plans, counts and cycles, over tensors that carry gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from baco.common import tensors
from baco.compiler.analysis.arrays import InterpolatedTables, Parts

#: Relative tolerance of rounding, so that whole quotients stay whole in float32.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class TensorArrays:
    """`Arrays` and `CountArrays` of `baco.compiler.analysis.arrays` over tensors.

    What depends on alignment is a table of whole numbers: relaxed widths interpolate it, relaxed pitches do not count.

    Attributes:
        relaxed: quotients are not rounded: the model is then differentiable everywhere but where it is a maximum. Otherwise
            values are rounded and gradients pass as if they were not.
    """

    relaxed: bool = False

    def up(self, x: Tensor) -> Tensor:
        return x if self.relaxed else _rounded(x, 1 - _TOLERANCE, torch.ceil_)

    def down(self, x: Tensor) -> Tensor:
        return x if self.relaxed else _rounded(x, 1 + _TOLERANCE, torch.floor_)

    def pieces(self, whole: Tensor, size: Tensor) -> Tensor:
        return self.up(whole / size)

    def fitting(self, whole: Tensor, size: Tensor) -> Tensor:
        return self.down(whole / size)

    def parts(self, whole: Tensor, size: Tensor) -> Parts:
        count = self.down(whole / size)
        return Parts(count, size, None if self.relaxed else (whole - count * size).clamp_min(0.0))

    def at_least(self, x: Tensor, least: Tensor | float) -> Tensor:
        return torch.clamp(x, min=least)  # type: ignore[call-overload, no-any-return]

    def at_most(self, x: Tensor, most: Tensor | float) -> Tensor:
        return torch.clamp(x, max=most)  # type: ignore[call-overload, no-any-return]

    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - b).abs() <= _TOLERANCE * b

    def step(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.gcd(a.long(), b.long()).clamp_min(1).to(a.dtype)

    def larger(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        return larger(a, b)

    def smaller(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        return smaller(a, b)

    def where(self, condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
        return torch.where(condition, a, b)

    def power(self, x: Tensor) -> Tensor:
        whole = x.detach().round().long() | 128
        return (whole & -whole).to(x.dtype)

    def log2(self, x: Tensor) -> Tensor:
        return (torch.frexp(x.detach()).exponent - 1).to(x.dtype)

    def raised(self, x: Tensor, exponent: float) -> Tensor:
        return tensors.power(x, exponent)

    def some(self, condition: Tensor) -> bool:
        return bool(condition.any())

    def place(self, tables: InterpolatedTables, *index: Tensor) -> Tensor:
        sizes = tables.values.shape[1:-1]
        return tables.place(  # type: ignore[no-any-return]
            [one.detach().clamp(0, size - 1) for one, size in zip(index, sizes, strict=True)]
        )

    def between(self, tables: InterpolatedTables, place: Tensor, last: Tensor) -> Sequence[Tensor]:
        below = last.detach().floor().clamp(0, tables.width - 1)
        at, share = (place + below).int(), last - below
        lows, slopes = (
            values.index_select(-1, at.flatten()).view(len(values), *at.shape)
            for values in _as_tensors(tables, last.dtype, last.device)
        )
        return [low + slope * share for low, slope in zip(lows, slopes, strict=True)]


@functools.cache
def _as_tensors(
    tables: InterpolatedTables, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Rows and slopes of tables."""
    rows, slopes = (torch.from_numpy(values).to(device, dtype) for values in (tables.rows, tables.slopes))
    return rows, slopes


def larger(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The larger one elementwise; where they are equal, each has half of the gradient."""
    return _extreme(a, b, 1)


def smaller(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The smaller one, as `larger`."""
    return _extreme(a, b, -1)


def _rounded(x: Tensor, factor: float, towards: Callable[[Tensor], Tensor]) -> Tensor:
    """A multiple of a number, rounded in place; the gradient is that of the number itself."""
    if x.requires_grad:
        return _Rounded.apply(x, factor, towards)  # type: ignore[no-any-return, no-untyped-call]
    return towards(x * factor)


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, towards: Callable[[Tensor], Tensor]) -> Tensor:
        return towards(x * factor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient, None, None


def _extreme(a: Tensor | float, b: Tensor | float, sign: int) -> Tensor:
    """The larger (sign 1) or the smaller (sign -1) of two. Gradients are those of PyTorch, which takes far longer for them."""
    if not isinstance(a, Tensor):
        a, b = b, a
    assert isinstance(a, Tensor)
    if not (a.requires_grad or (isinstance(b, Tensor) and b.requires_grad)):
        return _extreme_value(a, b, sign)
    if isinstance(b, Tensor) and a.shape != b.shape:
        a, b = torch.broadcast_tensors(a, b)  # type: ignore[no-untyped-call]
    return _Extreme.apply(a, b, sign)  # type: ignore[no-any-return, no-untyped-call]


def _extreme_value(a: Tensor, b: Tensor | float, sign: int) -> Tensor:
    if isinstance(b, Tensor):
        return torch.maximum(a, b) if sign > 0 else torch.minimum(a, b)
    return a.clamp_min(b) if sign > 0 else a.clamp_max(b)


class _Extreme(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor | float, sign: int) -> Tensor:
        ctx.save_for_backward(a, *([b] if isinstance(b, Tensor) else []))
        ctx.number, ctx.sign = None if isinstance(b, Tensor) else b, sign
        return _extreme_value(a, b, sign)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        a, b = (*ctx.saved_tensors, ctx.number)[:2]
        # 1 where it was the first, 0 where the second
        share = (a - b).sign_().mul_(0.5 * ctx.sign).add_(0.5)
        of_a = gradient * share
        return of_a, gradient - of_a if ctx.needs_input_grad[1] else None, None
