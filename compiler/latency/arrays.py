"""The array interfaces of plans, counts and cycles, over tensors that carry gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baco.common import tensors

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
        if self.relaxed:
            return x
        return x + (torch.ceil(x * (1 - _TOLERANCE)) - x).detach()

    def down(self, x: Tensor) -> Tensor:
        if self.relaxed:
            return x
        return x + (torch.floor(x * (1 + _TOLERANCE)) - x).detach()

    def pieces(self, whole: Tensor, size: Tensor) -> Tensor:
        return self.up(whole / size)

    def fitting(self, whole: Tensor, size: Tensor) -> Tensor:
        return self.down(whole / size)

    def parts(self, whole: Tensor, size: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        full = self.down(whole / size)
        if self.relaxed:
            return full * of(size)
        return full * of(size) + of((whole - full * size).clamp_min(0.0))

    def at_least(self, x: Tensor, least: Tensor | float) -> Tensor:
        return torch.clamp(x, min=least)  # type: ignore[call-overload, no-any-return]

    def at_most(self, x: Tensor, most: Tensor | float) -> Tensor:
        return torch.clamp(x, max=most)  # type: ignore[call-overload, no-any-return]

    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - b).abs() <= _TOLERANCE * b

    def step(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.gcd(a.long(), b.long()).clamp_min(1).to(a.dtype)

    def larger(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        return torch.maximum(*_both(a, b))

    def smaller(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        return torch.minimum(*_both(a, b))

    def where(self, condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
        return torch.where(condition, a, b)

    def power(self, x: Tensor) -> Tensor:
        whole = x.detach().round().long()
        low = whole & -whole
        return torch.where(low == 0, 128, low.clamp_max(128)).to(x.dtype)

    def log2(self, x: Tensor) -> Tensor:
        return (torch.frexp(x.detach()).exponent - 1).to(x.dtype)

    def raised(self, x: Tensor, exponent: float) -> Tensor:
        return tensors.power(x, exponent)

    def some(self, condition: Tensor) -> bool:
        return bool(condition.any())

    def tables(self, values: NDArray[np.float64], *index: Tensor) -> Sequence[Tensor]:
        *places, last = torch.broadcast_tensors(*index)  # type: ignore[no-untyped-call]
        found = torch.from_numpy(values).to(last).flatten(1)
        flat = torch.zeros_like(last, dtype=torch.long)
        for place, size in zip(places, values.shape[1:-1], strict=True):
            flat = flat * size + place.detach().round().long().clamp(0, size - 1)
        width = values.shape[-1]
        below = last.detach().floor().clamp(0, width - 1)
        first = flat * width + below.long()
        beyond = (first + 1).minimum(flat * width + width - 1)
        share = last - below
        lows, highs = (
            [one.index_select(0, index.flatten()).view_as(last) for one in found] for index in (first, beyond)
        )
        return [low + (high - low) * share for low, high in zip(lows, highs, strict=True)]


def _both(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor]:
    if not isinstance(a, Tensor):
        assert isinstance(b, Tensor)
        return torch.full_like(b, a), b
    return a, b if isinstance(b, Tensor) else torch.full_like(a, b)
