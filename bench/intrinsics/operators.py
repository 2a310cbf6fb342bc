"""The fifteen kinds of operators of AMOS's evaluation (ISCA 2022, section 7) as contractions, channels last (`operators.yaml`).

Tensor names: I or A the activations, W what is trained (or fixed: ones, a triangle), O the result. Convolutions read an image that
holds its padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
import yaml

from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.contraction_text import parse_contraction

Fixed = Callable[[tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Kind:
    """One kind of operators.

    Attributes:
        name: the published abbreviation.
        what: in words.
        text: the contraction (`baco.compiler.mapping.contraction_text`).
        sizes: extents of a case that takes the RTL a few seconds.
        constants: tensors that are trained, or what they hold where that is fixed.
        shapes: of tensors that are stored with other extents than their indices reach.
        strict, full: matchings to a matrix instruction that the publication counts, and all that are valid.
    """

    name: str
    what: str
    text: str
    sizes: Mapping[str, int]
    strict: int
    full: int
    constants: Mapping[str, Fixed | None] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def contraction(self, **sizes: int) -> Contraction:
        """With other extents of some iterations."""
        return parse_contraction(self.text, {**self.sizes, **sizes}, self.name)


#: Of W: trained, ones, or 1 from the diagonal on, so that column j of a product sums up elements 0 to j.
_CONSTANTS: dict[str, dict[str, Fixed | None]] = {
    "trained": {"W": None},
    "ones": {"W": lambda shape: np.ones(shape, np.int8)},
    "triangle": {"W": lambda shape: np.triu(np.ones(shape, np.int8))},
    "none": {},
}


def _read() -> dict[str, Kind]:
    text = resources.files(__package__).joinpath("operators.yaml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {name: Kind(name, constants=_CONSTANTS[row.pop("W")], **row) for name, row in rows.items()}


KINDS: Mapping[str, Kind] = _read()
