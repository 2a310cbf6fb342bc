"""The fifteen kinds of operators of AMOS's evaluation (ISCA 2022, section 7) as contractions, channels last.

Tensor names: I or A the activations, W or B what is trained (or fixed: ones, a triangle), O the result. Convolutions
read an image that holds its padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.contraction_text import parse_contraction

__all__ = ["KINDS", "Kind"]

Fixed = Callable[[tuple[int, ...]], np.ndarray]


def _ones(shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape, np.int8)


def _triangle(shape: tuple[int, ...]) -> np.ndarray:
    """1 from the diagonal on: column j of a product sums up elements 0 to j."""
    return np.triu(np.ones(shape, np.int8))


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


_TRAINED: Mapping[str, Fixed | None] = {"W": None}

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "GMV",
            "matrix times vector",
            "O[m] += W[m,k] * A[k]",
            {"m": 512, "k": 512},
            1,
            1,
            _TRAINED,
        ),
        Kind(
            "GMM",
            "matrix product",
            "O[m,n] += A[m,k] * W[k,n]",
            {"m": 256, "n": 128, "k": 256},
            1,
            1,
            _TRAINED,
        ),
        Kind(
            "C1D",
            "1-D convolution",
            "O[n,p,k] += I[n,p+r,c] * W[r,c,k]",
            {"n": 1, "p": 256, "k": 64, "c": 64, "r": 3},
            6,
            9,
            _TRAINED,
        ),
        Kind(
            "C2D",
            "2-D convolution",
            "O[n,p,q,k] += I[n,p+r,q+s,c] * W[r,s,c,k]",
            {"n": 1, "p": 16, "q": 16, "k": 64, "c": 32, "r": 3, "s": 3},
            35,
            49,
            _TRAINED,
        ),
        Kind(
            "C3D",
            "3-D convolution",
            "O[n,d,p,q,k] += I[n,d+t,p+r,q+s,c] * W[t,r,s,c,k]",
            {"n": 1, "d": 6, "p": 12, "q": 12, "k": 64, "c": 32, "t": 3, "r": 3, "s": 3},
            180,
            225,
            _TRAINED,
        ),
        Kind(
            "T2D",
            "transposed 2-D convolution, stride 2",
            "O[n,p*2+r,q*2+s,k] += I[n,p,q,c] * W[r,s,c,k]",
            {"n": 1, "p": 8, "q": 8, "k": 64, "c": 256, "r": 4, "s": 4},
            7,
            7,
            _TRAINED,
        ),
        Kind(
            "GRP",
            "grouped convolution",
            "O[n,p,q,g,k] += I[n,p+r,q+s,g,c] * W[r,s,c,g,k]",
            {"n": 1, "g": 4, "p": 14, "q": 14, "k": 32, "c": 16, "r": 3, "s": 3},
            35,
            49,
            _TRAINED,
        ),
        Kind(
            "DIL",
            "dilated convolution",
            "O[n,p,q,k] += I[n,p+r*2,q+s*2,c] * W[r,s,c,k]",
            {"n": 1, "p": 16, "q": 16, "k": 64, "c": 32, "r": 3, "s": 3},
            35,
            49,
            _TRAINED,
        ),
        Kind(
            "DEP",
            "depthwise convolution",
            "O[n,p,q,c,k] += I[n,p+r,q+s,c] * W[r,s,c,k]",
            {"n": 1, "c": 64, "p": 20, "q": 20, "k": 1, "r": 3, "s": 3},
            11,
            21,
            _TRAINED,
        ),
        Kind(
            "CAP",
            "capsule convolution",
            "O[n,p,q,k,j] += I[n,p+r,q+s,c] * W[r,s,c,k,j]",
            {"n": 1, "p": 12, "q": 12, "k": 16, "j": 8, "c": 32, "r": 3, "s": 3},
            105,
            147,
            _TRAINED,
        ),
        Kind(
            "BCV",
            "batched convolution, weights of its own for every image",
            "O[n,p,q,k] += I[n,p+r,q+s,c] * W[n,r,s,c,k]",
            {"n": 4, "p": 12, "q": 12, "k": 32, "c": 32, "r": 3, "s": 3},
            11,
            21,
            _TRAINED,
        ),
        Kind(
            "GFC",
            "grouped fully connected layer",
            "O[n,g,k] += I[n,g,c] * W[g,c,k]",
            {"n": 64, "g": 4, "k": 64, "c": 128},
            1,
            1,
            _TRAINED,
        ),
        Kind(
            "MEN",
            "mean of rows",
            "O[m] += A[m,k] * W[k]",
            {"m": 256, "k": 512},
            1,
            1,
            {"W": _ones},
        ),
        Kind("VAR", "sum of squares of rows", "O[m] += A[m,k] * A[m,k]", {"m": 128, "k": 256}, 1, 1),
        Kind(
            "SCN",
            "running sums of rows",
            "O[m,j] += A[m,k] * W[k,j]",
            {"m": 256, "j": 128, "k": 128},
            1,
            1,
            {"W": _triangle},
        ),
    )
}
