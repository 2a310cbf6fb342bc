"""What fits of constants share: errors in percent, constants tried at factors of their values, files with an entry a timing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.files import atomic_write
from baco.common.portable import Floats

#: What an improvement is at least.
_LEAST = 1e-5


def rounded(value: float) -> float:
    """To four digits, as files of constants have it."""
    return float(f"{value:.4g}")


def by_factors(
    start: Mapping[str, float],
    factors: Iterable[tuple[float, ...]],
    objective: Callable[[dict[str, float]], float],
) -> dict[str, float]:
    """Constants of the least objective that one change after the other leads to: each constant times each factor, coarse factors
    first, as long as something improves. Deterministic; constants that are 0 stay so."""
    constants, best = dict(start), objective(dict(start))
    for some in factors:
        improved = True
        while improved:
            improved = False
            for name, value in list(constants.items()):
                for factor in some:
                    trial = constants | {name: rounded(value * factor)}
                    error = objective(trial)
                    if error < best - _LEAST:
                        best, constants, improved = error, trial, True
    return constants


def percent_errors(errors: Floats) -> dict[str, float]:
    """Mean and largest of absolute relative errors, in percent."""
    return {
        "mean_percent": round(100 * float(errors.mean()), 2),
        "max_percent": round(100 * float(errors.max()), 2),
    }


def error_text(errors: Floats) -> str:
    """Of signed relative errors: their mean, the mean of their sizes, and what nine in ten are below."""
    size = np.abs(errors)
    return (
        f"mean error {errors.mean():+.1%}, mean absolute {size.mean():.1%},"
        f" nine in ten below {np.percentile(size, 90):.1%}"
    )


def write_entry(path: Path, timing: str, values: dict[str, Any]) -> None:
    """Write the constants of one timing (`baco.accel.config.TIMINGS`); those of others stay as they are. Raises StorageError when
    that fails."""
    entries = json.loads(path.read_text("utf-8")) if path.exists() else {}
    atomic_write(path, json.dumps(entries | {timing: values}, indent=1) + "\n")
