"""The six pipelines that GDPNPU was evaluated with (Xia, 2022, section 5.6), as functions of numpy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from baco.workloads.pipelines.functions import stencil, top

BINOMIAL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1])
SOBEL = np.outer([1, 2, 1], [-1, 0, 1])
LAPLACE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
#: Coefficients of the tone mapping of the Academy Color Encoding System, as Narkowicz fitted it.
TONE = (2.51, 0.03, 2.43, 0.59, 0.14)
#: tan(22.5 degrees) in 1/8192, and thresholds of edges.
TANGENT, WEAK, STRONG = 3393, 60, 120
#: Times that weak pixels beside edges become edges.
ROUNDS = 4
#: Neighbours returned, and limits of features: distances of 1,000 such fit into 24 bits.
NEIGHBOURS, LEAST, MOST = 5, -64, 63


def tone(image: Any) -> Any:
    """A curve of every byte."""
    a, b, c, d, e = TONE
    x = image / 255
    return np.rint(255 * np.clip(x * (a * x + b) / (x * (c * x + d) + e), 0, 1))


def gaussian(image: Any) -> Any:
    """A blur by 5 x 5 binomial weights."""
    return np.rint(stencil(image, BINOMIAL) / 256)


def gray(image: Any) -> Any:
    """Colours as one byte: 77, 151 and 28 of 256 parts, as 8-bit weights have them: 38, 76 and 14 of 128."""
    return np.rint((38 * image[..., 0] + 76 * image[..., 1] + 14 * image[..., 2]) / 128)


def sharpness(image: Any) -> Any:
    """The variance of the Laplacian of the gray image."""
    return stencil(gray(image), LAPLACE).var()


def canny(image: Any) -> Any:
    """Edges, 0 or 255: gray, blurred, gradients, maxima across the edge, two thresholds and what hangs together, in `ROUNDS` steps."""
    blurred = gaussian(gray(image))
    right, down = stencil(blurred, SOBEL), stencil(blurred, SOBEL.T)
    strength = np.abs(right) + np.abs(down)
    inner = (slice(1, -1), slice(1, -1))
    x, y, middle = np.abs(right)[inner], np.abs(down)[inner], strength[inner]
    flat, steep = 8192 * y < TANGENT * x, 8192 * x < TANGENT * y

    def beyond(rows: int, columns: int) -> Any:
        height, width = middle.shape
        one = strength[1 - rows : 1 - rows + height, 1 - columns : 1 - columns + width]
        other = strength[1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]
        return (middle > one) & (middle >= other)

    falling = right[inner] * down[inner] > 0
    diagonal = np.where(falling, beyond(1, 1), beyond(1, -1))
    largest = np.where(flat, beyond(0, 1), np.where(steep, beyond(1, 0), diagonal))
    strong = np.where((largest > 0) & (middle > STRONG), 1, 0)
    weak = np.where((largest > 0) & (middle > WEAK), 1, 0)
    for _ in range(ROUNDS):
        strong = np.where((stencil(strong, np.ones((3, 3), int), "zero") > 0) & (weak > 0), 1, 0)
    return 255 * strong


def mean_std(image: Any) -> Any:
    """Mean, standard deviation, least and largest byte."""
    return image.mean(), image.std(), image.min(), image.max()


def nearest(data: np.ndarray) -> Callable[[Any], Any]:
    """Positions of the rows of `data` that are nearest to a query."""

    def knn(query: Any) -> Any:
        return top(((data - query) ** 2).sum(-1), NEIGHBOURS, smallest=True)

    return knn


def features(rows: int, depth: int, seed: int = 0) -> np.ndarray:
    """Random rows."""
    return np.random.default_rng(seed).integers(LEAST, MOST, (rows, depth), endpoint=True)
