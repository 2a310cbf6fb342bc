"""Positions and weights of resized images, by the coordinate rules of ONNX Resize and PyTorch's interpolate."""

from __future__ import annotations

from typing import Any

import numpy as np


def resample_axis(
    size: int, wanted: int, factor: float | None, attributes: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(low, high, weight) of one dimension: output i is low * (1 - weight) + high * weight.

    Args:
        size, wanted: extents of input and output.
        factor: wanted / size as the network states it; None computes it.
        attributes: `mode` (nearest, linear), `coordinates` (half_pixel, pytorch_half_pixel, align_corners,
            asymmetric, half_pixel_symmetric) and, for nearest, `rounding` (floor, ceil, round_prefer_floor,
            round_prefer_ceil) of ONNX Resize.
    """
    scale = wanted / size if factor is None else factor
    i = np.arange(wanted, dtype=np.float64)
    rule = attributes["coordinates"]
    if rule == "align_corners":
        # ONNX takes the resized length for what the factor says, whole or not.
        last = scale * size - 1
        x = i * (size - 1) / last if wanted > 1 and last > 0 else np.zeros(wanted)
    elif rule == "asymmetric":
        x = i / scale
    elif rule == "half_pixel_symmetric":
        adjusted = wanted / (scale * size)
        x = size / 2 * (1 - adjusted) + (i + 0.5) / scale - 0.5
    elif rule == "pytorch_half_pixel" and wanted == 1:
        x = np.zeros(1)
    else:
        x = (i + 0.5) / scale - 0.5
    if attributes["mode"] == "nearest":
        rounding = attributes["rounding"]
        # Exact halves and whole numbers must not suffer from the division above.
        x = np.round(x, 9)
        if rounding == "floor":
            x = np.floor(x)
        elif rounding == "ceil":
            x = np.ceil(x)
        else:
            x = np.ceil(x - 0.5) if rounding == "round_prefer_floor" else np.floor(x + 0.5)
        index = np.clip(x, 0, size - 1).astype(np.int64)
        return index, index, np.zeros(wanted)
    x = np.clip(x, 0, size - 1)
    low = np.floor(x).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), x - low
