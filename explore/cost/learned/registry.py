"""The residuals there are, by name."""

from __future__ import annotations

from collections.abc import Callable

from common.errors import InputError, did_you_mean
from explore.cost.learned.law import LawResidual
from explore.cost.learned.neural import EncoderResidual, MlpResidual
from explore.cost.learned.process import ProcessResidual
from explore.cost.learned.protocol import Residual
from explore.cost.learned.trees import BlendResidual, TreeResidual

__all__ = ["RESIDUALS", "check_residual", "make_residual"]

#: Constructors from a seed.
RESIDUALS: dict[str, Callable[[int], Residual]] = {
    "trees": TreeResidual,
    "process": ProcessResidual,
    "law": LawResidual,
    "mlp": MlpResidual,
    "encoder": EncoderResidual,
    "blend": BlendResidual,
}


def make_residual(name: str, seed: int = 0) -> Residual:
    """An untrained residual. Raises InputError for an unknown name."""
    check_residual(name)
    return RESIDUALS[name](seed)


def check_residual(name: str) -> None:
    """Raises InputError for an unknown name: to be known before hours of work."""
    if name not in RESIDUALS:
        raise InputError(f"there is no learned model '{name}'", hint=did_you_mean(name, list(RESIDUALS)))
