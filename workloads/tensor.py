"""A value in the graph of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from baco.workloads.views import Step

#: Dimensions of a tensor or an array; what every numpy can hold.
MOST_RANK = 32


@dataclass(frozen=True)
class Tensor:
    """A value in the graph; `shape` in elements (NCHW for images, ... x features otherwise).

    Attributes:
        name: of the operator or input that writes it.
        shape: of the value, or of the view of it.
        steps: how a view is made of what the operator writes; no part of the identity.
    """

    name: str
    shape: tuple[int, ...]
    steps: tuple[Step, ...] = field(default=(), compare=False, repr=False)

    @property
    def words(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def viewed(self, shape: tuple[int, ...], *steps: Step) -> Tensor:
        """A view of this view."""
        return Tensor(self.name, shape, (*self.steps, *steps))
