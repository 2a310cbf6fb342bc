"""What contractions compute, in numpy integers, by their definition."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from baco.compiler.mapping.contraction import Contraction, iteration_grid


def contraction_sums(
    contraction: Contraction, tensors: Mapping[str, np.ndarray], shape: Sequence[int]
) -> np.ndarray:
    """int64 sums of a contraction (products or sums) into an output of a shape, iteration by iteration."""
    result = np.zeros(tuple(shape), np.int64)
    wide = {name: tensor.astype(np.int64) for name, tensor in tensors.items()}
    kept = [name for name in contraction.extents if name in contraction.output.variables]
    summed = contraction.reduction
    extents = {name: contraction.extents[name] for name in kept}
    grid = iteration_grid(extents)
    size = tuple(extents.values())
    target = tuple(np.broadcast_to(index.evaluate(grid), size) for index in contraction.output.indices)
    # several iterations may add to one element of the output
    overlaps = any(len(index) > 1 for index in contraction.output.coefficients)
    for numbers in itertools.product(*(range(contraction.extents[name]) for name in summed)):
        at = {**grid, **dict(zip(summed, numbers, strict=True))}
        product: np.ndarray = np.ones((), np.int64)
        for access in contraction.inputs:
            inside: np.ndarray = np.ones((), bool)
            indices = []
            for index, extent in zip(access.indices, wide[access.operand].shape, strict=True):
                place = np.asarray(index.evaluate(at))
                inside = inside & (place >= 0) & (place < extent)
                indices.append(np.clip(place, 0, extent - 1))
            product = product * np.where(inside, wide[access.operand][tuple(indices)], 0)
        if overlaps:
            np.add.at(result, target, np.broadcast_to(product, size))
        else:
            result[target] += product
    return result
