"""What the instruction-aware model says of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

#: What `InstructionLatency.terms` has, in order.
TERMS = ("compute", "load", "store", "issue", "start")
#: What `InstructionLatency.moved` has, in order; addends are bias, residual and partial sums that come back.
MOVED = ("weights", "inputs", "addends", "results")


class InstructionLatency(NamedTuple):
    """Predicted latency of a batch.

    Attributes:
        cycles: (B,).
        terms: (5, B) cycles by `TERMS`: in which the array, loads, stores and the host core are busy, and what start,
            end and waits in between take. All but the last overlap.
        bytes: (B,) that the channel of main memory moves, unused parts of its bursts included.
        moved: (4, B) these bytes by `MOVED`.
    """

    cycles: Tensor
    terms: Tensor
    bytes: Tensor
    moved: Tensor

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms."""
        return TERMS

    def take(self, index: Tensor) -> InstructionLatency:
        """The rows at `index`."""
        return InstructionLatency(*(one.index_select(-1, index) for one in self))

    def where(self, condition: Tensor, other: InstructionLatency) -> InstructionLatency:
        """These rows where a condition (B,) holds, the other's elsewhere."""
        return InstructionLatency(
            *(torch.where(condition, mine, theirs) for mine, theirs in zip(self, other, strict=True))
        )

    @classmethod
    def merged(cls, parts: Sequence[tuple[Tensor, InstructionLatency]]) -> InstructionLatency:
        """Parts of a batch, with the places of their rows, as the whole."""
        rows = torch.cat([index for index, _ in parts])
        place = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
        columns = zip(*(part for _, part in parts), strict=True)
        return cls(*(torch.cat(column, dim=-1) for column in columns)).take(place)
