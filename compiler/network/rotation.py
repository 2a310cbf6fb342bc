"""Rotary position embeddings as products: a rotation of the features of a head is a matrix, one for each position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco.compiler.ops.lookup import Rotation
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.views import View


@dataclass(frozen=True)
class RotationProduct:
    """The product that a rotation is.

    Attributes:
        matrices: int8 [*positions, D, D] by which rows of D features are multiplied from the right: two entries in every
            column, the others 0. `positions` are the dimensions along which angles change.
        name: of their value, the same for the same angles.
        product: with these as its `right`. Of the other dimensions the longest, usually heads, has the rows that one matrix
            rotates.
    """

    matrices: np.ndarray
    name: str
    product: MatMul


def rotation_product(op: Rotation, elements: Callable[[View], np.ndarray]) -> RotationProduct:
    """The product that a rotation is; `elements` of a constant."""
    lead, features = range(len(op.input.shape) - 1), op.input.shape[-1]
    angles = [angle.expanded((*op.input.shape[:-1], features // 2)) for angle in (op.cosine, op.sine)]
    turning = [d for d in lead if op.input.shape[d] > 1 and any(angle.strides[d] for angle in angles)]
    distinct = tuple(slice(None) if d in turning else 0 for d in lead)
    cosine, sine = (elements(angle)[distinct] for angle in angles)
    matrices = _matrices(cosine, sine, op.interleaved)
    rows = max((d for d in lead if d not in turning), key=lambda d: op.input.shape[d], default=None)
    batch = [d for d in lead if d != rows]

    def rows_of(view: View) -> View:
        sizes = (1, 0) if rows is None else (view.shape[rows], view.strides[rows])
        return View(
            view.value,
            (*(view.shape[d] for d in batch), sizes[0], features),
            (*(view.strides[d] for d in batch), sizes[1], view.strides[-1]),
            view.offset,
        )

    key = [
        op.interleaved,
        *(part for angle in angles for part in (angle.value, angle.offset, angle.shape, angle.strides)),
    ]
    name = f"rotation {' '.join(map(str, key))}"
    steps = iter(np.array(matrices.strides[:-2]).tolist())
    right = View(
        name,
        (*(op.input.shape[d] for d in batch), features, features),
        (*(next(steps) if d in turning else 0 for d in batch), features, 1),
    )
    product = MatMul(op.name, op.sources, rows_of(op.output), rows_of(op.input), right, None, False, op.scale)
    return RotationProduct(matrices, name, product)


def _matrices(cosine: np.ndarray, sine: np.ndarray, interleaved: bool) -> np.ndarray:
    half = cosine.shape[-1]
    pairs = np.arange(half)
    first, second = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, half + pairs)
    found = np.zeros((*cosine.shape[:-1], 2 * half, 2 * half), np.int8)
    found[..., first, first] = found[..., second, second] = cosine
    found[..., first, second] = sine
    found[..., second, first] = -sine
    return found
