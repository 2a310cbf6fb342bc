"""The residuals that the product predicts with, by name."""

from __future__ import annotations

from collections.abc import Callable

from baco.exploration.cost.learned.protocol import Residual
from baco.exploration.cost.learned.trees import TreeResidual

__all__ = ["RESIDUALS"]

RESIDUALS: dict[str, Callable[[], Residual]] = {"trees": TreeResidual}
