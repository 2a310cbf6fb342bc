"""Fit the area law to published areas: `python -m baco.bench.fit.area timeloop-mappings.csv.gz`.

The law is linear in its coefficients once the knots are chosen, so that least absolute relative error under
the monotonicity constraints is a linear programme with one answer. The cross-validation repeats the whole
fit without the rows it predicts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import linprog

from baco.accel.area import MIN_SCRATCHPAD_ROWS, AreaLaw
from baco.bench.fit.fitting import percent_errors
from baco.common.errors import BacoError, InputError, Location
from baco.common.files import atomic_write

Floats = npt.NDArray[np.float64]

#: Words per column and bytes where slopes may change. More knots follow the jumps of the memory generator
#: behind the data more closely, but predict configurations left out less well.
ACCUMULATOR_KNOTS = (16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)
SCRATCHPAD_KNOTS = (16384.0, 131072.0, 524288.0)
#: Weight of changes of slope against errors: just enough to decide slopes that the data leave open.
SMOOTHNESS = 1e-4
#: Typical size of each kind of coefficient; scaling by it conditions the linear programme.
ELEMENT_SCALE, WORD_SCALE, BYTE_SCALE, WIRING_SCALE = 4e-4, 2e-5, 2.5e-6, 1e-8
FOLDS, SEED = 10, 0

_COLUMNS = ["arch.meshX", "arch.mem1_entries", "arch.mem2_entries", "target.area"]


def read_areas(path: str | Path) -> Floats:
    """Distinct published configurations, shape (n, 4): side, accumulator KiB, scratchpad KiB, area in mm2.

    `path` is a table in the published mapping format. Raises InputError when it cannot be read as one.
    """
    try:
        table = pd.read_csv(path, usecols=_COLUMNS)[_COLUMNS].drop_duplicates()
    except (OSError, ValueError) as error:
        raise InputError(
            f"no table of published areas: {error}", location=Location(str(path)), hint=f"columns: {_COLUMNS}"
        ) from None
    side, words, size, area = table.to_numpy(np.float64).T
    return np.stack([side, side * words * 4 / 1024, size / 1024, area], axis=1)


def _segments(x: Floats, knots: tuple[float, ...]) -> Iterator[Floats]:
    for low, high in zip((0.0, *knots), (*knots, np.inf), strict=True):
        yield np.clip(x, low, high) - low


def _design(rows: Floats) -> Floats:
    """Value of every term of the law for every configuration, scaled, shape (n, coefficients)."""
    side, accumulator, scratchpad = rows[:, 0], rows[:, 1], rows[:, 2]
    size = np.maximum(scratchpad * 1024, side * MIN_SCRATCHPAD_ROWS)
    words = accumulator * 256 / side
    terms = [side**2 * ELEMENT_SCALE]
    terms += [side * part * WORD_SCALE for part in _segments(words, ACCUMULATOR_KNOTS)]
    terms += [part * BYTE_SCALE for part in _segments(size, SCRATCHPAD_KNOTS)]
    terms += [side * size * WIRING_SCALE]
    return np.stack(terms, axis=1)


def fit(rows: Floats) -> AreaLaw:
    """The law of least mean absolute relative error on `rows` (as `read_areas` gives them)."""
    relative = _design(rows) / rows[:, 3:4]
    n, p = relative.shape
    first_byte = len(ACCUMULATOR_KNOTS) + 2
    # accumulator(E)/E never rises: each slope is at most the mean slope up to its segment
    limits = []
    edges = (0.0, *ACCUMULATOR_KNOTS)
    for i in range(1, len(edges)):
        limit = np.zeros(p)
        limit[1 + i] = 1
        limit[1 : 1 + i] = -np.diff(edges)[:i] / edges[i]
        limits.append(limit)
    changes = []
    for start, count in ((1, len(edges)), (first_byte, len(SCRATCHPAD_KNOTS) + 1)):
        for i in range(start + 1, start + count):
            change = np.zeros(p)
            change[i], change[i - 1] = n * SMOOTHNESS, -n * SMOOTHNESS
            changes.append(change)
    smooth = np.array(changes)
    m = len(smooth)
    # unknowns: the coefficients, then the absolute values of errors and of slope changes
    constraints = np.block(
        [
            [relative, -np.eye(n), np.zeros((n, m))],
            [-relative, -np.eye(n), np.zeros((n, m))],
            [smooth, np.zeros((m, n)), -np.eye(m)],
            [-smooth, np.zeros((m, n)), -np.eye(m)],
            [np.array(limits), np.zeros((len(limits), n + m))],
        ]
    )
    bounds = np.concatenate([np.ones(n), -np.ones(n), np.zeros(2 * m + len(limits))])
    cost = np.concatenate([np.zeros(p), np.ones(n + m)])
    solution = linprog(cost, constraints, bounds, bounds=(0, None))
    if not solution.success:
        raise InputError(f"the areas cannot be fitted: {solution.message}")
    scales = [ELEMENT_SCALE, *[WORD_SCALE] * len(edges), *[BYTE_SCALE] * (p - len(edges) - 2), WIRING_SCALE]
    theta = [float(f"{x * scale:.6g}") for x, scale in zip(solution.x[:p], scales, strict=True)]
    return AreaLaw(
        element_mm2=theta[0],
        accumulator_knots=ACCUMULATOR_KNOTS,
        accumulator_slopes=tuple(theta[1:first_byte]),
        scratchpad_knots=SCRATCHPAD_KNOTS,
        scratchpad_slopes=tuple(theta[first_byte:-1]),
        wiring_mm2=theta[-1],
    )


def errors(law: AreaLaw, rows: Floats) -> Floats:
    """Absolute relative error of `law` on each row."""
    return np.abs(law(rows[:, 0], rows[:, 1], rows[:, 2]) / rows[:, 3] - 1)


def cross_validate(rows: Floats, groups: npt.NDArray[Any]) -> Floats:
    """Errors on every row, each predicted by a law fitted without the rows of its group; shape (n,)."""
    found = np.empty(len(rows))
    for group in np.unique(groups):
        held = groups == group
        found[held] = errors(fit(rows[~held]), rows[held])
    return found


def statistics(rows: Floats) -> dict[str, dict[str, float]]:
    """Mean and largest error of the fit, of k-fold cross-validation, and of leaving out whole values."""
    folds = np.random.default_rng(SEED).permutation(len(rows)) % FOLDS
    words = np.round(rows[:, 1] * 256 / rows[:, 0])
    found = {
        "fit": errors(fit(rows), rows),
        f"{FOLDS}-fold": cross_validate(rows, folds),
        "leave one array side out": cross_validate(rows, rows[:, 0]),
        "leave one accumulator depth out": cross_validate(rows, words),
        "leave one scratchpad capacity out": cross_validate(rows, rows[:, 2]),
    }
    return {name: percent_errors(one) for name, one in found.items()}


def main(arguments: list[str] | None = None) -> int:
    """Refit, print the error statistics and write `area.json` of `accel` (or --out)."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.fit.area", description=main.__doc__)
    parser.add_argument("path", help="table of published mappings with arch.* and target.area columns")
    parser.add_argument("--out", type=Path, default=Path(str(resources.files("baco.accel") / "area.json")))
    options = parser.parse_args(arguments)
    try:
        rows = read_areas(options.path)
        law = fit(rows)
        record = {
            "source": f"published Timeloop evaluations, {len(rows)} distinct configurations (DOSA artifact)",
            "command": f"python -m baco.bench.fit.area {Path(options.path).name}",
            "errors": statistics(rows),
            "coefficients": vars(law),
        }
        atomic_write(options.out, json.dumps(record, indent=2) + "\n")
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, values in record["errors"].items():  # type: ignore[attr-defined]
        print(f"{name:36s} mean {values['mean_percent']:5.2f}%   max {values['max_percent']:6.2f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
