"""Sizes of tiles that cut an extent into equal parts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def equal_parts(whole: int) -> NDArray[np.int64]:
    """Every ceil(whole / parts) for 1 to `whole` parts, in rising order: at most 2 * sqrt(whole) of them.

    Up to sqrt(whole) parts give a size each; what more parts give is below sqrt(whole) + 1, where every size is the
    least for some number of parts.
    """
    root = math.isqrt(whole)
    few = np.arange(1, root + 1, dtype=np.int64)
    return np.unique(np.concatenate([-(-whole // few), np.arange(1, -(-whole // (root + 1)) + 1)]))
