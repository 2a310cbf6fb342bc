"""The learned model: an analytical prediction and a residual, trained, kept and used together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from baco.common import portable
from baco.common.errors import InputError, Location
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures, load_arrays, store_arrays
from baco.exploration.cost.learned.trees import TreeResidual

#: Weights that come with the product.
SHIPPED = Path(__file__).parent / "weights" / "mappings.zip"
_FORMAT = 1


@dataclass(frozen=True)
class Corrected:
    """Predictions of B programs.

    Attributes:
        cycles: (B,) analytical prediction times the learned factor.
        deviation: (B,) standard deviation of its logarithm.
    """

    cycles: Floats
    deviation: Floats


@dataclass
class LearnedModel:
    """A residual and the columns it was trained on.

    Attributes:
        residual: trained.
        columns: of the features' flat rows.
        about: what it was trained on, for people.
    """

    residual: TreeResidual
    columns: tuple[str, ...]
    about: dict[str, Any]

    def correct(self, features: ProgramFeatures, predicted: Floats) -> Corrected:
        """Corrected cycles of B programs whose analytical cycles are `predicted` (B,).

        Raises InputError for features of another analytical model.
        """
        if features.names != self.columns:
            raise InputError(
                "the learned model was trained on other features",
                hint="train it again: baco model train",
            )
        found = self.residual.predict(features)
        return Corrected(predicted * portable.exp(found.log), found.deviation)

    def store(self, path: str | Path) -> None:
        """Write it as one small file. Raises StorageError."""
        header, arrays = self.residual.arrays()
        facts = {
            "format": _FORMAT,
            "residual": self.residual.name,
            "columns": list(self.columns),
            "about": self.about,
            "header": header,
        }
        store_arrays(path, facts, arrays)

    @classmethod
    def load(cls, path: str | Path) -> LearnedModel:
        """What `store` wrote. Raises InputError for anything else."""
        facts, arrays = load_arrays(path)
        if (facts.get("format"), facts.get("residual")) != (_FORMAT, TreeResidual.name):
            raise InputError(
                "these weights are of another version",
                location=Location(str(path)),
                hint="train them again: baco model train",
            )
        try:
            residual = TreeResidual()
            residual.restore(facts["header"], arrays)
            return cls(residual, tuple(facts["columns"]), facts["about"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"these weights are incomplete: {error}",
                location=Location(str(path)),
                hint="train them again: baco model train",
            ) from None


@cache
def shipped_model() -> LearnedModel | None:
    """The model whose weights come with the product, None where they are missing."""
    return LearnedModel.load(SHIPPED) if SHIPPED.is_file() else None
