"""Tuning with few measurements: a learned model alone, the analytical one alone, and one pre-trained on the other (ALCOP, 5.5.3).

Spaces are the measured set `ranking`: schedules of a layer on an accelerator, with cycles of the RTL. Trials are measurements.
`baco bench guided --out results` writes guided.json and guided.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.learners import grow
from baco.bench.learned.measured_set import MeasuredSet
from baco.common import portable
from baco.common.files import atomic_write, output_folder
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions
from baco.exploration.cost.learned.protocol import Floats

__all__ = ["METHODS", "TrialSpace", "guided_page", "spaces_of", "tune", "tune_together"]

#: What is known of a schedule without asking the analytical model: features up to this one.
_LAST = "intensity"
#: Trees that have seen a space's predictions, and those that learn from measurements: few rows each.
_BEFORE = BoostingOptions("squared", trees=80, depth=4, rate=0.2, least=1, columns=0.5, penalty=0.1)
_MEASURED = BoostingOptions("squared", trees=25, depth=3, rate=0.2, least=1, columns=0.5, penalty=1.0)
#: Random trials of a model that knows nothing yet, and how often any model tries something at random.
_BEGIN, _RANDOM = 2, 0.05
METHODS = ("random", "learned", "analytical", "analytical + learned")


@dataclass(frozen=True)
class TrialSpace:
    """Schedules that are compared, B in all.

    Attributes:
        name: of the space.
        features: (B, F) known of schedules, layers and accelerators before anything is measured or predicted.
        predicted, measured: (B,) cycles of the analytical model, and of the RTL.
        operators: (B,) the number of each row's operator.
    """

    name: str
    features: Floats
    predicted: Floats
    measured: Floats
    operators: NDArray[np.int64]


class _Model:
    """Logarithms of cycles of a space's schedules, learned from those measured."""

    def __init__(self, space: TrialSpace, seed: int, *, guided: bool) -> None:
        self.space, self.seed = space, seed
        self.before = np.zeros(len(space.measured))
        if guided:
            booster = Booster(_BEFORE)
            grow(booster, space.features, portable.log(space.predicted), seed)
            self.before = booster.predict(space.features)

    def costs(self, rows: Sequence[int]) -> Floats:
        """(B,) from measured rows: trees that go on from what was there before."""
        if not rows:
            return self.before
        left = portable.log(self.space.measured[list(rows)]) - self.before[list(rows)]
        booster = Booster(_MEASURED)
        grow(booster, self.space.features[list(rows)], left, self.seed)
        return self.before + booster.predict(self.space.features)


def tune(space: TrialSpace, method: str, trials: int, seed: int) -> list[int]:
    """Rows of a space in the order in which a method measures them, `trials` of them."""
    return _trials(space, method, trials, seed, [np.arange(len(space.measured))])[0]


def tune_together(space: TrialSpace, method: str, trials: int, seed: int) -> float:
    """The mean, over the operators of a space, of the least cycles over those of the schedule that is built after so many trials
    of all operators in turn, with one model for all: the best measured one, or the best one predicted where none was."""
    each = [np.flatnonzero(space.operators == one) for one in np.unique(space.operators)]
    rows, costs = _trials(space, method, trials, seed, each)
    found = []
    for own in each:
        tried = [row for row in rows if row in own]
        built = min(tried, key=lambda row: space.measured[row]) if tried else own[np.argmin(costs[own])]
        found.append(space.measured[own].min() / space.measured[built])
    return float(np.mean(found))


def _trials(
    space: TrialSpace, method: str, trials: int, seed: int, each: Sequence[NDArray[np.int64]]
) -> tuple[list[int], Floats]:
    """Rows measured, one of each operator in turn, and (B,) what decides between rows after the last."""
    drawn = np.random.default_rng(seed)
    order = drawn.permutation(len(each))
    rows: list[int] = []
    model = None
    if method in ("learned", "analytical + learned"):
        model = _Model(space, seed, guided=method != "learned")
    costs = space.predicted if method == "analytical" else drawn.random(len(space.measured))
    for trial in range(trials):
        blind = method == "random" or (method == "learned" and trial < _BEGIN)
        if model is not None and not blind:
            costs = model.costs(rows)
        own = each[order[trial % len(each)]]
        left = own[~np.isin(own, rows)]
        if not len(left):
            continue
        wander = method != "analytical" and rows and drawn.random() < _RANDOM
        rows.append(int(drawn.choice(left)) if blind or wander else int(left[np.argmin(costs[left])]))
    return rows, costs if model is None else model.costs(rows)


def spaces_of(data: MeasuredSet) -> tuple[list[TrialSpace], list[TrialSpace]]:
    """A space for each layer on its accelerator, and one for each accelerator with all of its layers."""
    last = data.features.names.index(_LAST)
    known = data.features.flat[:, : last + 1]
    known = known[:, np.ptp(np.nan_to_num(known), axis=0) > 0]

    def space(name: str, rows: NDArray[Any]) -> TrialSpace:
        return TrialSpace(name, known[rows], data.predicted[rows], data.cycles[rows], data.groups[rows])

    alone = [space(f"operator {one}", np.flatnonzero(data.groups == one)) for one in np.unique(data.groups)]
    together = [
        space(data.names[one], np.flatnonzero(data.machines == one)) for one in np.unique(data.machines)
    ]
    return alone, together


def bench_guided(
    data: MeasuredSet,
    *,
    trials: Sequence[int] = (1, 2, 5, 10),
    shared: Sequence[int] = (10, 50),
    seeds: int = 5,
    out: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Mean parts of the best schedule's speed, by method: of spaces by themselves after so many trials, a list by seed; of spaces
    with all operators of an accelerator after so many trials in all. Writes `guided.json` and `guided.md`."""
    folder = output_folder(out)
    alone, together = spaces_of(data)
    result: dict[str, Any] = {
        "spaces": len(alone),
        "accelerators": len(together),
        "alone": {},
        "together": {},
    }
    for method in METHODS:
        begun = time.process_time()
        found: dict[int, list[float]] = {number: [] for number in trials}
        for seed in range(seeds):
            runs = [(one, tune(one, method, max(trials), seed)) for one in alone]
            for number in trials:
                parts = [one.measured.min() / one.measured[rows[:number]].min() for one, rows in runs]
                found[number].append(float(np.mean(parts)))
        result["alone"][method] = {str(number): values for number, values in found.items()}
        result["together"][method] = {
            str(number): [
                float(np.mean([tune_together(one, method, number, seed) for one in together]))
                for seed in range(seeds)
            ]
            for number in shared
        }
        watch(
            f"{method}: {result['alone'][method]}, {result['together'][method]}, {time.process_time() - begun:.0f} s"
        )
    atomic_write(folder / "guided.json", json.dumps(result, indent=1) + "\n")
    atomic_write(folder / "guided.md", guided_page(result))
    return result


def guided_page(result: dict[str, Any]) -> str:
    """The page: percent of the best schedule's speed, means over spaces and seeds, and the range of the seeds."""
    lines = [
        "# Tuning with few measurements",
        "",
        "Percent of the speed of a space's best schedule that is reached, in cycles of the RTL; the mean over spaces, and the range of",
        f"that mean over the seeds. Alone: {result['spaces']} operators with 20 schedules each. Together: the operators of each of",
        f"{result['accelerators']} accelerators (13 operators, 260 schedules), trials of all in turn, one model for all.",
        "",
    ]
    first = next(iter(METHODS))
    heads = [f"{n} trials" for n in result["alone"][first]] + [
        f"{n} in all" for n in result["together"][first]
    ]
    lines += [f"| | {' | '.join(heads)} |", "|" + "---|" * (len(heads) + 1)]
    for method in METHODS:
        cells = [
            f"{100 * float(np.mean(values)):.1f} ({100 * min(values):.1f} to {100 * max(values):.1f})"
            for kind in ("alone", "together")
            for values in result[kind][method].values()
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "`baco bench guided --out results` makes this page."]
    return "\n".join(lines) + "\n"
